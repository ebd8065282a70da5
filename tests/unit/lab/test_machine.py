"""Places of labs, parts that a machine lacks, the search for a daemon and its start: made-up
machines and daemons, no root.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CouldNotRun, InputError
from headrace.lab import doctor, launch
from headrace.lab.place import DEFAULT_DATA_DIR, DEFAULT_SOCKET, Place, find_place, get_endpoint_file


@pytest.fixture(autouse=True)
def no_lab_named(monkeypatch):
    monkeypatch.delenv("HEADRACE_LAB", raising=False)
    monkeypatch.delenv("HEADRACED", raising=False)


# --- where ----------------------------------------------------------------------------------------


def test_the_default_place():
    here = find_place()
    assert (here.data_dir, here.socket, here.build_flags()) == (DEFAULT_DATA_DIR, DEFAULT_SOCKET, "")


def test_what_is_given_goes_before_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_LAB", str(tmp_path / "env"))
    assert find_place().data_dir == tmp_path / "env"
    assert find_place(tmp_path / "given").socket == tmp_path / "given/lab.sock"
    assert find_place(socket=tmp_path / "s").data_dir is None
    monkeypatch.setenv("HEADRACE_LAB", str(tmp_path / "x.sock"))
    assert (find_place().data_dir, find_place().socket) == (None, tmp_path / "x.sock")
    monkeypatch.setenv("HEADRACE_LAB", "")
    assert find_place().socket == DEFAULT_SOCKET


def test_flags_lead_back_to_the_place(tmp_path):
    for here in (
        find_place(),
        find_place(tmp_path),
        find_place(socket=tmp_path / "s"),
        find_place(tmp_path, tmp_path / "s"),
    ):
        words = here.build_flags().split()
        names = [{"--lab": "data_dir", "--socket": "socket"}[word] for word in words[::2]]
        given = dict(zip(names, words[1::2], strict=True))
        assert find_place(**given).socket == here.socket


def test_relative_paths_become_whole(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert find_place("d").data_dir == tmp_path / "d"


@pytest.mark.parametrize("path", ["", "\0", "x" * 200])
def test_paths_that_cannot_be_a_lab(path):
    with pytest.raises(InputError):
        find_place(path)


def test_a_file_is_no_data_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a directory"):
        find_place(tmp_path / "file")


# --- the machine ----------------------------------------------------------------------------------

STATUS = "Name:\tpython\nCapEff:\t{}\n"
EVERYTHING = "000001ffffffffff"
DEVTMPFS = "21 1 0:5 / /dev rw,nosuid - devtmpfs udev rw,size=1k\n"


def machine(tmp_path: Path, **changes) -> doctor.Machine:
    """A machine on which a lab can run; `changes` are files, None for one that is not there."""
    files = {
        "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
        "proc/self/status": STATUS.format(EVERYTHING),
        "proc/self/mountinfo": DEVTMPFS,
        "proc/locks": "",
        "dev/fuse": "",
        "dev/loop-control": "",
        "sys/block/loop0/size": "0",
        "usr/bin/mkfs.xfs": "#!",
        "usr/bin/fio": "#!",
    } | changes
    for name, text in files.items():
        if text is not None:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
    return doctor.Machine(root=tmp_path, user_id=0, path=str(tmp_path / "usr/bin"))


MACHINE_CHECKS = (
    doctor.check_kernel,
    doctor.check_root,
    doctor.check_fuse,
    doctor.check_loop_control,
    doctor.check_loop_devices,
)


def test_a_machine_that_has_everything(tmp_path):
    here = machine(tmp_path)
    checks = [check(here) for check in MACHINE_CHECKS] + [doctor.check_program(here, *tool) for tool in doctor.TOOLS]
    assert [check.state for check in checks] == ["ok"] * 7
    assert not doctor.lacks(checks)


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        ({"proc/sys/kernel/osrelease": "5.7.19\n"}, doctor.check_kernel, "5.8"),
        ({"proc/sys/kernel/osrelease": "4.19.0\n"}, doctor.check_kernel, "5.8"),
        ({"proc/sys/kernel/osrelease": None}, doctor.check_kernel, "Linux"),
        (
            {"proc/self/status": STATUS.format("00000000a80425fb")},
            doctor.check_root,
            "--cap-add SYS_ADMIN",
        ),  # a container of Docker, by default
        ({"dev/fuse": None}, doctor.check_fuse, "modprobe fuse"),
        ({"dev/loop-control": None}, doctor.check_loop_control, "modprobe loop"),
        ({"proc/self/mountinfo": ""}, doctor.check_loop_devices, "mknod"),
    ],
)
def test_what_is_missing_is_said(tmp_path, change, check, words):
    checks = check(machine(tmp_path, **change))
    assert checks.state == "missing" and words in checks.do
    assert doctor.lacks([checks])


def test_not_root(tmp_path):
    here = machine(tmp_path)
    here.user_id = 1000
    assert doctor.check_root(here).state == "missing" and "sudo" in doctor.check_root(here).do


def test_loop_devices_of_a_container(tmp_path):
    """/dev is no devtmpfs there: a free device counts when its node is in /dev, one in use does
    not.
    """
    files = {"proc/self/mountinfo": "", "sys/block/loop1/loop/backing_file": "/x\n", "dev/loop1": ""}
    assert doctor.check_loop_devices(machine(tmp_path, **files)).state == "missing"
    (tmp_path / "dev/loop0").write_text("")
    devices = doctor.check_loop_devices(machine(tmp_path, **files))
    assert (devices.state, devices.finding) == ("ok", "1 of 2 in use, 1 free in /dev")


def test_programs_that_are_missing_do_not_stop_a_lab(tmp_path):
    here = machine(tmp_path, **{"usr/bin/fio": None, "usr/bin/mkfs.xfs": None})
    checks = [doctor.check_program(here, *tool) for tool in doctor.TOOLS]
    assert [check.state for check in checks] == ["note", "note"] and not doctor.lacks(checks)
    assert "xfsprogs" in checks[0].do


def test_space_is_that_of_the_disk(tmp_path, monkeypatch):
    free = {"bytes": 0}
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free["bytes"]}))
    cases = [(0, "missing"), ((256 << 20) - 1, "missing"), (256 << 20, "note"), (10 << 30, "ok")]
    for free["bytes"], state in cases:
        assert doctor.check_space(tmp_path / "not" / "there").state == state


def mounted(folder: str, source: str = "headrace", kind: str = "fuse.headrace") -> str:
    escaped = folder.replace("\\", "\\134").replace(" ", "\\040")
    return f"99 21 0:50 / {escaped}/mnt rw,nosuid - {kind} {source} rw,user_id=0\n"


def test_leftovers_are_ours_alone(tmp_path):
    dead, alive, other = tmp_path / "a lab", tmp_path / "alive", tmp_path / "other"
    for folder in (dead, alive, other):
        folder.mkdir()
        (folder / "lock").write_text("")
    lock = os.stat(alive / "lock")
    here = machine(
        tmp_path / "root",
        **{
            "proc/self/mountinfo": DEVTMPFS
            + mounted(str(dead))
            + mounted(str(alive))
            + mounted(str(other), "sshfs", "fuse.sshfs"),
            "proc/locks": f"1: FLOCK  ADVISORY  WRITE 4711 {os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino} 0 EOF\n",
            "sys/block/loop1/loop/backing_file": f"{dead}/mnt/vol-1\n",
            "sys/block/loop2/loop/backing_file": f"{alive}/mnt/vol-1\n",
            "sys/block/loop3/loop/backing_file": f"{other}/mnt/vol-1\n",
            "sys/block/loop4/loop/backing_file": f"{dead}-not/mnt/vol-1\n",
            "sys/block/loop5/loop/backing_file": f"{dead}/mnt/vol-2 (deleted)\n",
        },
    )
    leftovers = doctor.find_leftovers(here, find_place(alive))
    assert [check.state for check in leftovers] == ["note"] * 3
    assert [check.finding.split(" is ")[0] for check in leftovers] == [f"{dead}/mnt", "/dev/loop1", "/dev/loop5"]
    assert doctor.find_daemon(here, alive) == 4711 and doctor.find_daemon(here, dead) is None


def test_loops_of_a_mount_that_is_gone(tmp_path):
    (tmp_path / "lab").mkdir()
    here = machine(tmp_path / "root", **{"sys/block/loop1/loop/backing_file": f"{tmp_path}/lab/mnt/vol-1\n"})
    assert len(doctor.find_leftovers(here, find_place(tmp_path / "lab"))) == 1
    assert doctor.find_leftovers(here, find_place(tmp_path / "elsewhere")) == []


@given(st.text(max_size=300))
def test_any_mount_table_is_read(tmp_path_factory, text):
    here = machine(
        tmp_path_factory.mktemp("any"),
        **{"proc/self/mountinfo": text.encode(errors="replace").decode(), "proc/locks": "1: FLOCK x\n\n"},
    )
    doctor.find_leftovers(here, find_place(here.root))
    doctor.check_loop_devices(here)


# --- the daemon -----------------------------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return path


def test_headraced_is_looked_for_in_three_places(tmp_path, monkeypatch):
    monkeypatch.setattr(launch.sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(CouldNotRun, match="was not found"):
        launch.find_headraced()
    for folder in ("path", "bin"):
        (tmp_path / folder).mkdir()
        daemon = program(tmp_path / folder / "headraced", "")
        assert launch.find_headraced() == daemon
    named = program(tmp_path / "mine", "")
    monkeypatch.setenv("HEADRACED", str(named))
    assert launch.find_headraced() == named
    monkeypatch.setenv("HEADRACED", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="not a program"):
        launch.find_headraced()


# The daemon of these tests answers no calls, so it has no metrics either.
NO_METRICS = launch.Settings(metrics_port=0, api_port=0)


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """daemon(text): a program in headraced's place; root is not asked for."""

    def make(text: str) -> Path:
        monkeypatch.setenv("HEADRACED", str(program(tmp_path / "headraced", text)))
        return tmp_path / "data"

    monkeypatch.setattr(launch.os, "geteuid", lambda: 0)
    return make


def test_settings_become_arguments(daemon):
    data = daemon("")
    settings = launch.Settings("m5.large", "2018-08-15", 60, 0, "0")
    assert launch.build_command_line(find_place(data), settings)[1:] == [
        "--data-dir", str(data), "--socket", str(data / "lab.sock"), "--instance-type", "m5.large", "--as-of", "2018-08-15", "--time-scale", "60",
        "--metrics-port", "0", "--group", "0",
    ]  # fmt: skip
    plain = ["--data-dir", str(data), "--socket", str(data / "lab.sock"), "--metrics-port", "9464"]
    assert launch.build_command_line(find_place(data), launch.Settings())[1:] == plain
    with pytest.raises(InputError, match="not a group"):
        launch.build_command_line(find_place(data), launch.Settings(group="no such group"))


def test_up_returns_when_ready_and_the_daemon_outlives_its_starter(daemon, tmp_path):
    data = daemon(
        "import os, sys, time\n"
        "open(sys.argv[2] + '/session', 'w').write(f'{os.getsid(0)} {os.getpid()} {os.getcwd()}')\n"
        "print('log line', file=sys.stderr, flush=True); time.sleep(0.2); print('ready', flush=True)"
    )
    launch.start_lab(data, settings=NO_METRICS)
    session, pid, cwd = (data / "session").read_text().split()
    assert (session, cwd) == (pid, "/")
    assert "log line" in (data / "headraced.log").read_text()
    assert (data / "headraced.log").stat().st_mode & 0o777 == 0o600 and data.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("code", "kind", "line", "parts"),
    [
        (2, InputError, "error: m9.x: is no type (data/instances.csv). Use m5.large.", ("m9.x", "is no type", "data/instances.csv", "Use m5.large.")),
        (3, CouldNotRun, "error: journal: is damaged (at 5) somewhere (crc32c (Castagnoli)). Restore it.",
         ("journal", "is damaged (at 5) somewhere", "crc32c (Castagnoli)", "Restore it.")),
        (3, CouldNotRun, "error: a: b", ("a", "b", "", None)),
    ],
)  # fmt: skip
def test_last_words_of_a_daemon_that_will_not_start(daemon, code, kind, line, parts):
    data = daemon(f"import sys; print('noise', file=sys.stderr); print({line!r}, file=sys.stderr); sys.exit({code})")
    with pytest.raises(kind) as raised:
        launch.start_lab(data, settings=NO_METRICS)
    error = raised.value
    assert (error.value, error.rule, error.source) == parts[:3] and error.exit_code == code
    assert error.hint == parts[3] if parts[3] else "headrace lab doctor" in error.hint


def test_a_daemon_that_dies_without_an_error(daemon):
    data = daemon("import os, sys; print('thread panicked', file=sys.stderr, flush=True); os.abort()")
    with pytest.raises(CouldNotRun, match="was ended by signal 6.*thread panicked"):
        launch.start_lab(data, settings=NO_METRICS)


def test_old_lines_of_the_log_are_not_the_last_words(daemon):
    data = daemon("import sys; sys.exit(3)")
    data.mkdir()
    (data / "headraced.log").write_text("error: old: story\n")
    with pytest.raises(CouldNotRun, match="ended with exit code 3 before it was ready: it said nothing"):
        launch.start_lab(data, settings=NO_METRICS)


def test_a_daemon_that_is_never_ready_is_ended(daemon):
    data = daemon("import os, sys, time; open(sys.argv[2] + '/pid', 'w').write(str(os.getpid())); time.sleep(60)")
    with pytest.raises(CouldNotRun, match=r"not ready after 1 s"):
        launch.start_lab(data, settings=NO_METRICS, timeout_s=1)
    with pytest.raises(ProcessLookupError):
        os.kill(int((data / "pid").read_text()), 0)


def test_a_daemon_that_says_something_else(daemon):
    data = daemon("import time; print('hello', flush=True); time.sleep(60)")
    with pytest.raises(CouldNotRun, match="before it was ready"):
        launch.start_lab(data, settings=NO_METRICS)


def test_a_long_log_is_set_aside(daemon, monkeypatch):
    monkeypatch.setattr(launch, "LOG_BYTES", 100)
    data = daemon("import sys; print('ready', flush=True); print('new', file=sys.stderr)")
    data.mkdir()
    (data / "headraced.log").write_text("x" * 101)
    launch.start_lab(data, settings=NO_METRICS)
    assert (data / "headraced.log.1").read_text() == "x" * 101
    assert "x" not in (data / "headraced.log").read_text()


def test_the_endpoint_of_a_lab_that_was_killed_is_not_that_of_the_next(daemon):
    data = daemon("print('ready', flush=True)")
    data.mkdir()
    get_endpoint_file(data).write_text("{}")
    launch.start_lab(data, settings=NO_METRICS)
    assert not get_endpoint_file(data).exists()
    # A daemon that is refused changes nothing of the lab that holds the folder.
    data = daemon("import sys; sys.exit(3)")
    get_endpoint_file(data).write_text("{}")
    with pytest.raises(CouldNotRun):
        launch.start_lab(data, settings=NO_METRICS)
    assert get_endpoint_file(data).exists()


def test_without_root_nothing_is_started(daemon, monkeypatch):
    data = daemon("")
    monkeypatch.setattr(launch.os, "geteuid", lambda: 1000)
    with pytest.raises(CouldNotRun, match="only root may"):
        launch.start_lab(data, settings=NO_METRICS)
    assert not data.exists()


def test_a_lab_that_is_ending_is_waited_for(tmp_path):
    """A daemon that ends loses the connection of whoever asks; then nothing answers, and another may start."""
    here = Place(tmp_path, tmp_path / "lab.sock")

    def end(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.close()
        listener.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(here.socket))
        listener.listen()
        ending = threading.Thread(target=end, args=(listener,))
        ending.start()
        launch.refuse_second(here)
        ending.join()
