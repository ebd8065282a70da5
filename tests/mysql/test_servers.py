"""Servers from `up` to `destroy`: every flavor and engine, what is refused, what is interrupted,
and that nothing is left behind."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from lab_folders import Command
from lab_servers import SPEC, left_of, sql
from waiting import wait_until

from headrace import servers as mysql
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab, LabRefused, NoLab
from headrace.lab.waiting import wait_for_modification
from headrace.mysql import Secret, connect
from headrace.servers.access import make_address

SMALL = {"innodb_buffer_pool_size": "32M"}


@pytest.fixture
def headrace(lab):
    """headrace("mysql", "status", code=1): as a user runs it, the finished process."""
    return Command(lab.place.data_dir)


@pytest.fixture
def up(lab):
    """mysql.up on the shared lab; what it made is destroyed."""
    names = []

    def make(name: str, **expected):
        names.append(name)
        return mysql.bring_up(lab, name=name, **expected)

    yield make
    for name in names:
        try:
            mysql.destroy(mysql.find(lab, name))
        except InputError:
            continue  # the test did
        assert left_of(lab, name) == []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- the whole way --------------------------------------------------------------------------------


def test_the_guide(labs, tmp_path):
    """Every line of it, from `install` to `destroy`; what it says that they show."""
    text = (Path(__file__).parents[2] / "docs/guide/mysql-on-the-lab.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    program = tmp_path / "headrace"
    # Another lab may have the usual port for metrics.
    program.write_text(
        f'#!/bin/bash\n[[ "$1 $2" == "lab up" ]] && set -- "$@" --metrics-port 0 --api-port 0\nexec {sys.executable} -m headrace "$@"\n'
    )
    program.chmod(0o755)
    folder = labs.folder()
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HEADRACE_LAB": str(folder),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-eux"], input="\n".join(blocks), env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^shop +MariaDB [0-9.]+ +innodb +running +gp3:20:4000 +gp3:4 +0.5 GiB", done.stdout, re.MULTILINE)
    assert re.search(r"^2\t60$", done.stdout, re.MULTILINE)  # rows that stayed, and the option of the second start
    assert "killed from outside" in done.stderr and "something is wrong with it" in done.stdout
    assert "ready for connections" in done.stdout
    assert "shop: gone" in done.stderr and not (folder / "servers" / "shop").exists()


def test_a_volume_that_is_mounted_without_access_times_and_a_client_that_is_logged_in(
    server, headrace, tmp_path, monkeypatch
):
    options = subprocess.run(
        ["findmnt", "-no", "OPTIONS", "-t", "xfs", "-T", str(server.paths.datadir)], capture_output=True, text=True
    ).stdout
    assert "noatime" in options.split(",")
    # The file of a user who mostly works with another server does not count.
    (tmp_path / ".my.cnf").write_text("[client]\nuser=root\npassword=wrong\nsocket=/nowhere/mysqld.sock\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert headrace("mysql", "cli", server.name, "-N", "-e", "SELECT @@innodb_buffer_pool_size").stdout.split() == [
        str(64 << 20)
    ]
    document = json.loads(headrace("mysql", "status", server.name, "--output", "json").stdout)
    assert document["state"] == "running" and document["devices"] == list(server.volumes.devices)
    assert "Add --yes" in headrace("mysql", "destroy", server.name, code=2).stderr
    assert "is not a server of this lab" in headrace("mysql", "status", "nobody", code=2).stderr


def test_a_server_is_no_root_and_its_password_is_nowhere_to_be_seen(server):
    password = server.make_address().password.reveal()
    status = Path(f"/proc/{server.pid}/status").read_text()
    uid = pwd.getpwnam("mysql").pw_uid
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in status and "CapEff:\t0000000000000000" in status
    for process in Path("/proc").glob("[0-9]*"):
        try:
            assert password.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # it ended
    assert (
        password not in str(server.to_dict()) + repr(server) + repr(server.make_address()) + server.make_address().label
    )
    for path in (server.paths.log, server.paths.state / "server.json", server.paths.config):
        assert password not in path.read_text()
    # The server's initial statements are gone, and not in the binary log.
    assert not (server.paths.socket.parent / "init.sql").exists()
    binlogs = (server.paths.datadir.parent / "log").glob("binlog.0*")
    assert all(password.encode() not in path.read_bytes() for path in binlogs)
    for private in (server.paths.client, server.paths.state, server.paths.log):
        assert private.stat().st_mode & 0o077 == 0


def test_what_it_writes_goes_to_its_volume(server):
    sql(server, "CREATE DATABASE IF NOT EXISTS volume_test", "CREATE TABLE volume_test.t (b LONGBLOB)")
    before = _written(server)
    sql(
        server,
        "INSERT INTO volume_test.t VALUES (REPEAT('x', 8000000))",
        "FLUSH TABLES volume_test.t FOR EXPORT",
        "UNLOCK TABLES",
        "DROP DATABASE volume_test",
    )
    # The row, its redo and its binary log entry: at least three times the row, less what was not
    # written back yet.
    assert _written(server) - before > 8_000_000


def _written(server) -> int:
    name = Path(server.volumes.devices[0]).name
    return int(Path(f"/sys/block/{name}/stat").read_text().split()[6]) * 512


def test_myrocks_with_logs_on_a_volume_of_their_own_and_tls(up):
    port = free_port()
    server = up(
        "rocks",
        engine="myrocks",
        storage=SPEC,
        log_storage="gp3:1",
        port=port,
        memory_gib=0.125,
        settings={"log_bin": "ON"},
    )
    engine, cache, wal, binlog, redo = sql(
        server,
        "SELECT @@default_storage_engine, @@rocksdb_block_cache_size, @@rocksdb_wal_dir, @@log_bin_basename, @@innodb_log_group_home_dir",
    )[0]
    assert (engine, int(cache)) == ("ROCKSDB", 64 << 20)  # half of a memory this small (docs/decisions/0006)
    logs = server.paths.datadir.parents[1] / "log"
    assert all(Path(path).is_relative_to(logs) for path in (wal, binlog, redo))
    assert len(server.volumes.devices) == 2 and os.path.samefile(subprocess.run(["findmnt", "-no", "SOURCE", str(logs)], capture_output=True, text=True).stdout.strip(), server.volumes.devices[1])  # fmt: skip
    sql(server, "CREATE DATABASE t", "CREATE TABLE t.t (i INT PRIMARY KEY)", "INSERT INTO t.t VALUES (1)")
    assert list(Path(wal).glob("*.log"))
    assert sql(server, "SHOW STATUS LIKE 'Ssl_cipher'", tcp=True)[0][1]
    plain = server.make_address(tcp=True)
    with pytest.raises(HeadraceError):
        connect(type(plain)(plain.user, plain.host, plain.port, password=plain.password, ssl_mode="DISABLED"))
    with pytest.raises(InputError, match="access denied"):
        connect(plain.with_password(Secret("wrong")))


def test_mysql_9(up, mysql_program):
    server = up("nine", flavor="mysql", storage=SPEC, log_storage="gp3:1", port=free_port(), settings=SMALL)
    version, binlog, plugins = sql(server, "SELECT VERSION(), @@log_bin_basename, @@plugin_dir")[0]
    assert version.startswith(".".join(map(str, mysql_program.version)))
    assert Path(binlog).is_relative_to(server.paths.datadir.parents[1] / "log")
    assert Path(plugins) == mysql_program.plugin_dir
    assert sql(server, "SHOW STATUS LIKE 'Ssl_cipher'", tcp=True)[0][1]
    sql(server, "CREATE DATABASE t", "CREATE TABLE t.t (i INT PRIMARY KEY)", "INSERT INTO t.t VALUES (7)")
    # Nobody but us: the root of --initialize-insecure has no password, and no way in.
    locked = sql(server, "SELECT account_locked FROM mysql.user WHERE user = 'root'")
    assert locked == (("Y",),)
    stopped = mysql.stop(server)
    assert stopped.clean
    assert sql(mysql.start(stopped), "SELECT i FROM t.t") == ((7,),)


def test_without_limits_until_the_next_start(up, lab):
    server = up("loading", storage="gp2:1", settings=SMALL, unpaced=True)
    assert lab.describe(server.volumes.data)["attachment"]["unpaced"] and "no limits" in server.notes[-1]
    sql(server, "CREATE DATABASE kept")
    again = mysql.start(server)
    assert not lab.describe(server.volumes.data)["attachment"]["unpaced"]
    assert again.pid != server.pid and again.notes == () and again.problems == ()
    assert sql(again, "SHOW DATABASES LIKE 'kept'")


def test_saved_data_begin_another_server(up, tmp_path):
    first = up("first", storage=SPEC, settings=SMALL | {"log_bin": "ON"})
    sql(first, "CREATE DATABASE t", "CREATE TABLE t.t (i INT PRIMARY KEY)", "INSERT INTO t.t VALUES (1), (2), (3)")
    with pytest.raises(InputError, match="was not shut down"):
        mysql.save_data(first, tmp_path / "saved")
    folder = mysql.save_data(mysql.stop(first), tmp_path / "saved")
    with pytest.raises(InputError, match="is already there"):
        mysql.save_data(mysql.find(first.lab, "first"), folder)
    second = up("second", storage="gp3:3", log_storage="gp3:1", seed_from=folder, settings=SMALL)
    assert sql(second, "SELECT COUNT(*) FROM t.t") == ((3,),)
    assert second.make_address().password != first.make_address().password
    with pytest.raises(InputError, match="was saved with engine innodb"):
        up("third", engine="myrocks", storage=SPEC, seed_from=folder)


# --- configuration --------------------------------------------------------------------------------


def test_an_option_file_is_read_as_the_server_reads_it(up, tmp_path):
    path, more = tmp_path / "my.cnf", tmp_path / "more.cnf"
    more.write_text("[mariadb]\nmax_connections=61\n")
    path.write_text(
        f"[client]\npassword=secret\n[mysqld]\ndatadir=/var/lib/mysql\nlog-error=/var/log/x.log\nsort_buffer_size = 3M # of sorts\n!include {more}\n"
        "[mysqld-5.5]\nmax_connections=1\n[mariadb-10.11]\ntable_open_cache=777\n"
    )
    server = up("filed", storage=SPEC, config=path, settings=SMALL)
    result = sql(server, "SELECT @@max_connections, @@sort_buffer_size, @@table_open_cache, @@datadir")[0]
    assert result[:3] == (61, 3 << 20, 777) and result[3].startswith(str(server.paths.datadir))
    assert any("datadir" in note and "log-error" in note for note in server.notes)
    assert "secret" not in server.paths.config.read_text()


@pytest.mark.parametrize(
    "content, rule",
    [
        ("[mysqld]\nno_such_option=1\n", "no_such_option=1: is not known to MariaDB"),
        ("[mysqld]\ninnodb_io_capacity=abc\n", "does not take it"),
        ("max_connections=1\n", "stands before the first"),
        ("[client]\nuser=x\n", "has no options for MariaDB"),
    ],
)
def test_option_files_that_will_not_do(lab, tmp_path, content, rule):
    path = tmp_path / "my.cnf"
    path.write_text(content)
    with pytest.raises(InputError, match=rule):
        mysql.bring_up(lab, name="bad", storage=SPEC, config=path)
    assert left_of(lab, "bad") == []


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected, rule",
    [
        ({"storage": None}, "no storage was named"),
        ({"storage": "gp9:10"}, "gp9"),
        ({"storage": SPEC, "settings": {"no_such_option": "1"}}, "is not known to MariaDB"),
        ({"storage": SPEC, "settings": {"datadir": "/tmp"}}, "is set by Headrace"),
        ({"storage": SPEC, "settings": {"loose-skip-ssl": None}}, "is set by Headrace"),
        ({"storage": SPEC, "settings": {"x\ny": "1"}}, "is not the name of a server option"),
        ({"storage": SPEC, "engine": "rocksdb"}, "must be one of innodb, myrocks"),
        ({"storage": SPEC, "memory_gib": 1e6}, "--memory-gib = 1000000.0 GiB: must be"),
        ({"storage": SPEC, "memory_gib": 20_000.0}, "more than"),
        ({"storage": SPEC, "server_path": "/bin/true"}, "does not answer --version"),
        ({"storage": SPEC, "server_path": "/nowhere/mysqld"}, "is not a program that can be run"),
        ({"storage": SPEC, "config": "/nowhere/my.cnf"}, "there is no such option file"),
        ({"storage": SPEC, "port": 70_000}, "is 1 to 65,535"),
        ({"storage": SPEC, "seed_from": "/nowhere"}, "holds no saved data"),
        ({"storage": "gp3:1", "settings": {"innodb_log_file_size": "3G"}}, "error 28"),
    ],
)
def test_what_cannot_be_leaves_nothing(lab, expected, rule):
    with pytest.raises(HeadraceError, match=rule):
        mysql.bring_up(lab, name="bad", **expected)
    assert left_of(lab, "bad") == []


@pytest.mark.parametrize("name", ["", "A", "-x", "a/b", "..", "x" * 33, "a b"])
def test_names(lab, name):
    with pytest.raises(InputError, match="a server's name"):
        mysql.bring_up(lab, name=name, storage=SPEC)


def test_a_port_in_use(lab):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="Address already in use"):
            mysql.bring_up(lab, name="bad", storage=SPEC, port=taken.getsockname()[1])
    assert left_of(lab, "bad") == []


def test_a_server_that_is_not_installed(lab, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_SERVERS", str(tmp_path))
    with pytest.raises(CouldNotRun, match="headrace mysql install mysql"):
        mysql.bring_up(lab, name="bad", flavor="mysql", storage=SPEC)


def test_one_that_is_there_keeps_what_it_has(lab, server):
    with pytest.raises(InputError, match="exists on gp3:4; --storage cannot change it"):
        mysql.bring_up(lab, name=server.name, storage="gp3:99")
    with pytest.raises(InputError, match="is not known"):
        mysql.bring_up(lab, name=server.name, settings={"no_such_option": "1"})
    again = mysql.bring_up(lab, name=server.name)
    assert "no-such-option" not in again.settings and again.state == "running"


def test_a_lab_that_is_down(labs):
    folder = labs.folder()
    with pytest.raises(NoLab, match="headrace lab up"):
        mysql.bring_up(Lab(folder), storage=SPEC)
    assert list(folder.iterdir()) == []


def test_two_at_once(lab, server):
    from headrace.servers.record import lock_server

    with lock_server(server.paths), pytest.raises(LabRefused, match="another headrace is at work"):
        mysql.stop(server)
    assert mysql.find(lab, server.name).state == "running"


def test_wrong_passwords(server):
    for secret in (None, Secret(""), Secret("wrong"), Secret("'; DROP")):
        with pytest.raises(InputError, match="access denied") as refused:
            connect(make_address(server.paths, None).with_password(secret))
        assert "DROP" not in str(refused.value)


# --- what is interrupted --------------------------------------------------------------------------


class Interrupting:
    """Progress that is Ctrl-C at its nth word."""

    def __init__(self, at: int) -> None:
        self.messages_to_go = at

    def __call__(self, share: float, what: str) -> None:
        self.messages_to_go -= 1
        if self.messages_to_go == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_an_interrupted_up_leaves_nothing(lab, step):
    with pytest.raises(KeyboardInterrupt):
        mysql.bring_up(lab, name="half", storage=SPEC, log_storage="gp3:1", progress=Interrupting(step))
    assert left_of(lab, "half") == []


def test_an_interrupted_start_leaves_it_down_and_whole(lab, up):
    server = up("again", storage=SPEC, settings=SMALL)
    sql(server, "CREATE DATABASE kept")
    mysql.stop(server)
    for step in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            mysql.bring_up(lab, name="again", progress=Interrupting(step))
        result = mysql.find(lab, "again")
        assert result.state == "stopped" and result.pid is None
        assert str(result.paths.datadir) not in Path("/proc/self/mountinfo").read_text()
    assert sql(mysql.bring_up(lab, name="again"), "SHOW DATABASES LIKE 'kept'")


def interrupted(*_: object, **__: object) -> None:
    """In the place of a function: Ctrl-C while it runs."""
    raise KeyboardInterrupt


def test_an_interrupted_down_is_ended_by_the_next(lab, up, headrace, monkeypatch):
    server = up("ending", storage=SPEC, settings=SMALL)
    sql(server, "CREATE DATABASE kept")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("headrace.servers.running.processes.wait_gone", interrupted)
        mysql.stop(server)
    headrace("mysql", "down", "ending")
    assert "ending: is stopped already" in headrace("mysql", "down", "ending").stderr
    assert mysql.find(lab, "ending").state == "stopped"
    assert sql(mysql.bring_up(lab, name="ending"), "SHOW DATABASES LIKE 'kept'")


def test_a_save_that_fails_or_is_interrupted_leaves_nothing(up, tmp_path, monkeypatch):
    from headrace.servers import datadir

    server = mysql.stop(up("saving", storage=SPEC, settings=SMALL))
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(full)], check=True)
    try:
        with pytest.raises(CouldNotRun, match="room"):
            mysql.save_data(server, full / "saved")
        assert list(full.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)

    with monkeypatch.context() as patched:
        patched.setattr(datadir, "write_whole", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mysql.save_data(server, tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert mysql.save_data(mysql.find(server.lab, "saving"), tmp_path / "saved").is_dir()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle(lab, headrace, how):
    words = headrace.words("mysql", "up", "half", "--storage", SPEC)
    with subprocess.Popen(
        words,
        env=headrace.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        _until(lambda: any(volume["name"] == "half-data" for volume in lab.volumes()), running)
        running.send_signal(how)
        _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted" in stderr and "Traceback" not in stderr
    assert left_of(lab, "half") == []


def test_an_up_that_was_killed_is_done_again(lab, headrace, up):
    words = headrace.words("mysql", "up", "killed", "--storage", SPEC)
    with subprocess.Popen(words, env=headrace.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        _until(lambda: any(entry.startswith("mounted") for entry in left_of(lab, "killed")), running)
        running.kill()
    assert "was never finished" in headrace("mysql", "status", "killed", code=1).stderr
    server = up("killed", storage=SPEC, settings=SMALL)
    assert server.state == "running" and not server.problems
    assert len([volume for volume in lab.volumes() if volume["name"] == "killed-data"]) == 1


def _until(true, running: subprocess.Popen | None = None, seconds: float = 120.0) -> None:
    """Waits for something; not for what a process that has ended would do."""

    def is_so() -> bool:
        if true():
            return True
        assert running is None or running.poll() is None, running.communicate()
        return False

    wait_until(is_so, "what a process does", seconds, pause_s=0.02)


# --- what goes wrong later ------------------------------------------------------------------------


def test_a_server_that_died_and_a_volume_that_is_full_are_found(lab, headrace, up):
    server = up("ill", storage="gp3:1", settings=SMALL)
    fill = server.paths.datadir.parent / "fill"
    with fill.open("wb") as file:
        room = os.statvfs(fill)
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - (4 << 20))
    assert "is full: " in headrace("mysql", "status", "ill", code=1).stderr
    changed = lab.modify(server.volumes.data, size_gib=2)
    wait_for_modification(lab, server.volumes.data, changed["id"])
    before, server = server, mysql.bring_up(lab, name="ill")
    assert server.pid == before.pid, "it is not ended for that"
    assert server.problems == () and server.storage == "gp3:2"
    assert (
        os.statvfs(fill).f_blocks * os.statvfs(fill).f_frsize > 1.8 * 2**30
    )  # without the log of xfs, 64 MiB, and what it keeps
    os.kill(server.pid, signal.SIGKILL)
    _until(lambda: mysql.find(lab, "ill").state == "dead")
    assert "killed from outside" in headrace("mysql", "status", "ill", code=1).stderr
    assert "is dead" in headrace("mysql", "cli", "ill", code=2).stderr
    headrace("mysql", "down", "ill")
    assert mysql.find(lab, "ill").state == "stopped"


def test_a_start_that_fails_leaves_nothing_running_and_says_why(lab, up):
    server = up("broken", storage=SPEC, settings=SMALL)
    mysql.stop(server)
    # The server's system tablespace is cut to a twelfth.
    filesystem_up(lab, server, lambda: os.truncate(server.paths.datadir / "ibdata1", 1 << 20))
    with pytest.raises(CouldNotRun, match="the server ended while it started: .*ibdata1"):
        mysql.bring_up(lab, name="broken")
    result = mysql.find(lab, "broken")
    assert (
        result.state == "stopped" and str(result.paths.datadir.parent) not in Path("/proc/self/mountinfo").read_text()
    )


def filesystem_up(lab, server, work) -> None:
    """Does something to the files of a server that is down."""
    device, place = lab.describe(server.volumes.data)["attachment"]["device"], server.paths.datadir.parent
    subprocess.run(["mount", device, str(place)], check=True)
    try:
        work()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_lab_is_not_ended_under_a_server(lab, headrace, server):
    assert "mounted" in headrace("lab", "down", code=2).stderr
    assert sql(server, "SELECT 1") == ((1,),)


def test_a_user_who_is_not_root_is_told(lab, server, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for refused in (
        lambda: mysql.bring_up(lab, name="bad", storage=SPEC),
        lambda: mysql.destroy(mysql.find(lab, "shared")),
    ):
        with pytest.raises(CouldNotRun, match="takes root"):
            refused()
