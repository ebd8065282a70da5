"""`headrace advise --host` on four trees made by hand (not captured on real machines): each finding and what is fine,
files to install, bad trees, and that nothing is written."""

from __future__ import annotations

import configparser
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from headrace import InputError
from headrace.advice.host import advise_host, read_host_checks
from headrace.cli import main as cli

TREES = Path(__file__).parent / "trees"
NAMES = ("debian-12", "al2023", "ubuntu-24.04", "rhel-9")
DATADIR = {"al2023": "/data/mysql"}


def grow(name: str, place: Path) -> Path:
    """Makes a tree of its text."""
    path: Path | None = None
    for line in (TREES / f"{name}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("-> "):
            _, link, target = line.split()
            (place / link).parent.mkdir(parents=True, exist_ok=True)
            (place / link).symlink_to(target)
        elif line.startswith("== "):
            path = place / line[3:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        else:
            assert path is not None
            path.write_text(path.read_text() + line + "\n")
    return place


def looked_at(name: str, place: Path, **more):
    return advise_host(grow(name, place), datadir=DATADIR.get(name), **more)


def states(result) -> dict[str, set[str]]:
    answer: dict[str, set[str]] = {}
    for reading in result.readings:
        answer.setdefault(reading.check, set()).add(reading.state)
    return answer


def findings(result) -> set[str]:
    return {finding.check for finding in result.findings}


# --- the table ------------------------------------------------------------------------------------


def test_the_table_has_28_checks_with_sources_and_days():
    checks = read_host_checks().values()
    assert len(checks) == 28
    for check in checks:
        assert check.source and check.as_of == "2026-11-22" and check.why and check.target
    # Checks whose source was read; the rest name the page to look at.
    assert {check.id for check in checks if check.confirmed} == {"io_timeout", "barrier", "raid_chunk", "rps", "rfs"}
    outdated = {check.id for check in checks if check.outdated_because}
    assert {"rps", "rfs", "barrier", "scheduler", "swappiness", "irq"} <= outdated


@pytest.mark.parametrize("name", NAMES)
def test_every_check_answers_on_every_tree(name, tmp_path):
    assert set(states(looked_at(name, tmp_path))) == set(read_host_checks())


# --- the trees ------------------------------------------------------------------------------------


def test_debian_12(tmp_path):
    diagnosis = looked_at("debian-12", tmp_path)
    assert findings(diagnosis) == {"swappiness", "dirty", "aio"}
    answer = states(diagnosis)
    for check in ("scheduler", "io_timeout", "barrier", "thp", "rps", "rfs", "irq", "align", "discard", "nofile"):
        assert answer[check] == {"fine"}, check
    # The boot loader's small partition holds no data; the root's discard is not the data's.
    assert answer["io_uring"] == {"does not apply"} and answer["space"] == answer["nvme_stats"] == {"not readable"}
    assert "Debian GNU/Linux 12" in diagnosis.host and "6.1.0-18" in diagnosis.host


def test_amazon_linux_2023_with_an_array(tmp_path):
    diagnosis = looked_at("al2023", tmp_path)
    assert findings(diagnosis) == {"swappiness", "dirty", "aio"}
    assert states(diagnosis)["raid_chunk"] == states(diagnosis)["raid_fs"] == {"fine"}
    assert any("md0 stands on nvme1n1, nvme2n1, nvme3n1, nvme4n1" in note for note in diagnosis.notes)
    (tmp_path / "sys/block/md0/md/chunk_size").write_text("524288\n")
    again = advise_host(tmp_path, datadir="/data")
    assert "raid_fs" in findings(again) and "raid_chunk" not in findings(again)


def test_ubuntu_as_the_whitepaper_had_it(tmp_path):
    diagnosis = looked_at("ubuntu-24.04", tmp_path)
    expected = {
        "readahead",
        "barrier",
        "swappiness",
        "dirty",
        "thp",
        "numa",
        "numa_balancing",
        "aio",
        "nofile",
    }
    # The server of this host is mysqld, which does not use io_uring.
    assert states(diagnosis)["io_uring"] == {"does not apply"}
    assert findings(diagnosis) == expected | {"clock", "irq", "rfs"}
    # Two queues for 32 processors: there steering helps, as it did for the whitepaper's client.
    assert states(diagnosis)["rps"] == {"fine"} and states(diagnosis)["io_timeout"] == {"does not apply"}
    rfs = next(reading for reading in diagnosis.readings if reading.check == "rfs")
    assert "32,768" in rfs.value and "8,192" in rfs.value


def test_rhel_9_on_device_mapper(tmp_path):
    diagnosis = looked_at("rhel-9", tmp_path, storage="gp3:500:6000:250")
    # 63 requests are enough: 2 x 6,000 IOPS x 1 ms = 12.
    assert findings(diagnosis) == {"readahead", "io_timeout", "align", "dirty", "thp", "rps", "governor"}
    assert any("dm-1 stands on nvme1n1" in note for note in diagnosis.notes)
    # 40 % of 65,000,000 KiB are 24.8 GiB; at 250 MiB/s 102 s.
    dirty = next(reading for reading in diagnosis.readings if reading.check == "dirty")
    assert "24.8 GiB" in dirty.note and "102 s" in dirty.note
    assert [(setting.key, setting.value) for setting in dirty.settings] == [
        ("vm.dirty_background_bytes", str(125 * 1024**2)),
        ("vm.dirty_bytes", str(250 * 1024**2)),
    ]


def test_figures_follow_the_volume(tmp_path):
    # Twice 64,000 IOPS x 1 ms = 128 under way; the tree has room for 63.
    grow("debian-12", tmp_path)
    assert "nr_requests" in findings(advise_host(tmp_path, storage="io1:2000:64000"))
    # st1 wants what SSD types do not.
    hdd = advise_host(tmp_path, storage="st1:1000")
    readahead = next(finding for finding in hdd.findings if finding.check == "readahead")
    assert readahead.settings[0].value == "1024"


# --- files to install -----------------------------------------------------------------------------


def test_files_set_right_what_was_found(tmp_path):
    """Each line written back into the tree: nothing that a file can carry is found again."""
    for name in NAMES:
        place = tmp_path / name
        diagnosis = looked_at(name, place)
        for line in diagnosis.to_file("sysctl").splitlines():
            if line and not line.startswith("#"):
                key, _, value = line.partition(" = ")
                path = place / "proc/sys" / key.replace(".", "/")
                path.write_text(value + "\n")
        for finding in diagnosis.findings:
            for setting in finding.settings:
                if setting.kind == "udev" and finding.check not in ("rps", "rfs"):
                    (place / "sys/block" / finding.subject / setting.key).write_text(
                        f"[{setting.value}]" if finding.check == "scheduler" else setting.value
                    )
                elif setting.kind == "udev":
                    (place / "sys/class/net" / setting.match / setting.key).write_text(setting.value)
                elif setting.kind == "sysfs":
                    path = place / setting.key.lstrip("/").replace("cpu*", "cpu0")
                    path.write_text(f"[{setting.value}]" if "hugepage" in setting.key else setting.value)
                elif setting.kind == "kernel" and "io_timeout" in setting.key:
                    (place / "sys/module/nvme_core/parameters/io_timeout").write_text(setting.value)
        findings = {finding.check for finding in advise_host(place, datadir=DATADIR.get(name)).findings}
        by_hand = {"numa", "barrier", "nofile", "irq", "align", "clock"}
        assert findings <= by_hand, (name, findings)


@pytest.mark.parametrize(
    ("processors", "entries", "counts", "fine", "then"),
    [
        ("0-31", 0, (0, 0), True, None),
        ("0-31", 32_768, (16_384, 16_384), True, None),
        # Three queues: 10,922 each, which the kernel makes 16,384.
        ("0-31", 32_768, (16_384, 16_384, 16_384), True, None),
        # The whitepaper's: 8,192 of 32,768. Two queues for 32 processors: made to fit.
        ("0-31", 32_768, (4_096, 4_096), False, (32_768, (16_384, 16_384))),
        ("0-31", 0, (4_096, 4_096), False, (0, (0, 0))),
        # A queue for each processor: off.
        ("0-1", 32_768, (4_096, 4_096), False, (0, (0, 0))),
    ],
)
def test_flows_fit_their_table_or_are_off(processors, entries, counts, fine, then, tmp_path):
    grow("debian-12", tmp_path)
    shutil.rmtree(tmp_path / "sys/devices/pci0000:00/0000:00:05.0/net/ens5/queues")
    for index, count in enumerate(counts):
        queue = tmp_path / f"sys/class/net/ens5/queues/rx-{index}"
        queue.mkdir(parents=True)
        (queue / "rps_cpus").write_text("0\n")
        (queue / "rps_flow_cnt").write_text(f"{count}\n")
    table = tmp_path / "proc/sys/net/core/rps_sock_flow_entries"
    table.write_text(f"{entries}\n")
    (tmp_path / "sys/devices/system/cpu/online").write_text(f"{processors}\n")
    advice = advise_host(tmp_path)
    assert states(advice)["rfs"] == {"fine" if fine else "finding"}
    if fine:
        return
    reading = next(finding for finding in advice.findings if finding.check == "rfs")
    for setting in reading.settings:
        place = table if setting.kind == "sysctl" else tmp_path / "sys/class/net/ens5" / setting.key
        place.write_text(setting.value)
    texts = tuple(
        int((tmp_path / f"sys/class/net/ens5/queues/rx-{at}/rps_flow_cnt").read_text()) for at in range(len(counts))
    )
    assert (int(table.read_text()), texts) == then
    assert states(advise_host(tmp_path))["rfs"] == {"fine"}


def test_io_uring_is_for_a_mariadb_that_knows_it(tmp_path):
    grow("debian-12", tmp_path)
    (tmp_path / "proc/sys/kernel/io_uring_disabled").write_text("2\n")
    for name, state in (("mariadbd", "finding"), ("mysqld", "does not apply")):
        for comm in tmp_path.glob("proc/[0-9]*/comm"):
            if comm.read_text().strip() in ("mysqld", "mariadbd"):
                comm.write_text(f"{name}\n")
        assert states(advise_host(tmp_path))["io_uring"] == {state}, name


def test_what_can_lose_data_is_told_first(tmp_path):
    rows = [row for row in looked_at("ubuntu-24.04", tmp_path).list_rows() if row["state"] == "finding"]
    risks = [row["risk"] for row in rows]
    assert risks[0] == "can lose data" and risks == sorted(
        risks, key=["can lose data", "loses performance", "safe"].index
    )


def test_forms_of_files(tmp_path):
    diagnosis = looked_at("ubuntu-24.04", tmp_path)
    udev = diagnosis.to_file("udev")
    assert 'KERNEL=="xvd[a-z]*", ATTR{queue/read_ahead_kb}="128"' in udev
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(diagnosis.to_file("tuned"))
    assert parser["sysctl"]["vm.swappiness"] == "1" and "clocksource=tsc" in parser["bootloader"]["cmdline_headrace"]
    sysctl = diagnosis.to_file("sysctl")
    assert "vm.swappiness = 1\n" in sysctl and "Risk: safe" in sysctl
    # A setting that a file cannot carry is named in it.
    assert "Not in this file: Write barriers" in sysctl and "Not in this file: Swapping" in udev


def test_long_masks_of_steering(tmp_path):
    """40 processors and one queue: two groups of 32 bits, the higher first."""
    grow("debian-12", tmp_path)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-39\n")
    rps = next(finding for finding in advise_host(tmp_path).findings if finding.check == "rps")
    assert rps.settings[0].value == "ff,ffffffff"


# --- bad trees ------------------------------------------------------------------------------------


def tarball(place: Path, **members: str | None) -> Path:
    """A tarball of files, or of links where the text starts with `->`."""
    with tarfile.open(place, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            if text is not None and text.startswith("->"):
                info.type, info.linkname = tarfile.SYMTYPE, text[2:]
                archive.addfile(info)
            else:
                info.size = len(text or "")
                archive.addfile(info, io.BytesIO((text or "").encode()))
    return place


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"proc/sys/vm/swappiness": "60", "../etc/shadow": "x"}, "has .. in it"),
        ({"/proc/sys/vm/swappiness": "60"}, "is absolute"),
        ({"sys/a": "->../../etc", "sys/b": "1"}, "leads out"),
        ({"sys/a": "->b", "sys/b": "->a"}, "circle"),
        ({"etc/os-release": "x"}, "neither proc nor sys"),
    ],
)
def test_bad_tarballs_are_refused(members, word, tmp_path):
    with pytest.raises(InputError, match=word):
        advise_host(tarball(tmp_path / "host.tar.gz", **members))


def test_bad_folders_are_refused(tmp_path):
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/block/nvme0n1").symlink_to("../../../../etc")
    with pytest.raises(InputError, match="leads out"):
        advise_host(tmp_path)
    with pytest.raises(InputError, match="neither a folder nor a file"):
        advise_host(tmp_path / "missing")
    (tmp_path / "x.tar").write_bytes(b"\x1f\x8b no tarball")
    with pytest.raises(InputError, match="not a tarball"):
        advise_host(tmp_path / "x.tar")


def test_a_link_of_the_tree_that_starts_at_its_root_stays_inside(tmp_path):
    grow("debian-12", tmp_path)
    swappiness = tmp_path / "proc/sys/vm/swappiness"
    swappiness.unlink()
    swappiness.symlink_to("/proc/sys/vm/dirty_background_ratio")  # 10 in the tree, whatever this machine has
    entry = next(reading for reading in advise_host(tmp_path).readings if reading.check == "swappiness")
    assert entry.value == "10"


def test_missing_sys_fifos_and_nonsense_are_not_readable(tmp_path):
    place = tmp_path / "proc/sys/vm"
    place.mkdir(parents=True)
    os.mkfifo(place / "swappiness")  # would hang whoever opens it
    (place / "dirty_ratio").write_text("lots\n")
    advice = advise_host(tmp_path)
    assert any("no /sys" in note for note in advice.notes) and not advice.findings
    assert {"swappiness", "dirty", "scheduler", "fs"} <= {
        check for check, state in states(advice).items() if state == {"not readable"}
    }


def test_containers_say_so(tmp_path):
    grow("debian-12", tmp_path)
    (tmp_path / "proc/self/mountinfo").write_text("24 1 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/x\n")
    advice = advise_host(tmp_path)
    assert any("container" in note for note in advice.notes)
    assert states(advice)["barrier"] == {"not readable"}


def test_folder_and_tarball_say_the_same(tmp_path):
    for name in NAMES:
        place = grow(name, tmp_path / name)
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            archive.add(place, arcname=".")
        entry, other = (advise_host(path, datadir=DATADIR.get(name)) for path in (place, tmp_path / f"{name}.tar"))
        assert entry.readings == other.readings and entry.notes == other.notes


# --- nothing is written ---------------------------------------------------------------------------

WATCHED = """
import os, sys
wrong = []
def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and str(path) != os.devnull:
            wrong.append((event, str(path), mode))
    elif event.split(".")[0] == "os" and event.split(".")[1] in {
        "mkdir", "remove", "rename", "rmdir", "chmod", "chown", "link", "symlink", "truncate", "utime", "setxattr", "system", "exec", "fork",
    }:
        wrong.append((event, str(arguments)))
    elif event.startswith(("subprocess.", "socket.connect", "fcntl.ioctl")):
        wrong.append((event, str(arguments)))
import headrace.cli.servers.advise, headrace.report.tables
sys.dont_write_bytecode = True
sys.addaudithook(hook)
from headrace.advice.host import advise_host
for root in [None, *sys.argv[1:]]:
    found = advise_host(root)
    for form in ("sysctl", "udev", "tuned"):
        found.to_file(form)
assert not wrong, wrong
try:
    open(sys.argv[1] + "/proc/watched", "w").close()
finally:
    assert wrong  # the watch sees a write
"""


def test_nothing_is_written(tmp_path):
    """This machine and a tree, under a hook that sees every file opened and every change made; and the tree's times."""
    place = grow("debian-12", tmp_path / "tree")
    before = {path: path.lstat().st_mtime_ns for path in place.rglob("*")}
    advise_host(place)
    assert {path: path.lstat().st_mtime_ns for path in place.rglob("*")} == before
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED, str(place)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


WRITES = r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE"
CHANGES = (
    "creat,unlink,unlinkat,mkdir,mkdirat,rename,renameat,renameat2,symlink,symlinkat,link,linkat,chmod,fchmod,fchmodat,"
)
CHANGES += (
    "chown,fchown,lchown,fchownat,truncate,ftruncate,utimensat,mknod,mknodat,setxattr,fsetxattr,mount,umount2,fallocate"
)


def test_the_kernel_sees_no_write(tmp_path):
    """strace of the command on this machine and on a tree: no file opened to write, nothing made, changed or removed."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed (Debian's package strace)")
    place, log = grow("debian-12", tmp_path / "tree"), tmp_path / "calls"
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}

    def changes(*words):
        calls = [strace, "-f", "-qq", "-o", str(log), "-e", f"trace=open,openat,openat2,{CHANGES}"]
        done = subprocess.run([*calls, *words], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        # A call that a thread resumes stood with its arguments where it began; signals and ends
        # have no call.
        answer = [line for line in log.read_text().splitlines() if re.match(r"\d+ +\w+\(", line)]
        lines = [line for line in answer if "/dev/null" not in line]
        opened = [line for line in lines if re.search(r" open(at2?)?\(", line)]
        assert opened, "nothing was traced"
        return [line for line in lines if line not in opened or re.search(WRITES, line)]

    advise = [sys.executable, "-m", "headrace", "advise", "--host", "--output", "sysctl"]
    assert changes(*advise) == [] and changes(*advise, "--root", str(place)) == []
    assert changes("touch", str(tmp_path / "made")), "it can fail"


def test_this_host_as_it_is():
    advice = advise_host()
    assert set(states(advice)) == set(read_host_checks())
    assert {reading.state for reading in advice.readings} & {"fine", "finding"}


def test_a_folder_of_data_that_is_not_here(tmp_path, monkeypatch):
    """A folder that was named must be there; the default need not be, and then the answer says
    so."""
    with pytest.raises(InputError, match="not on this machine"):
        advise_host(datadir=str(tmp_path / "nowhere"))
    monkeypatch.setattr("headrace.advice.host.facts.DATADIR", str(tmp_path / "nowhere"))
    assert any("--datadir" in note and "nowhere" in note for note in advise_host().notes)
    assert not any("--datadir" in note for note in advise_host(datadir=str(tmp_path)).notes)
    place = grow("debian-12", tmp_path / "tree")
    assert advise_host(place, datadir="/elsewhere").datadir == "/elsewhere", "a captured tree has no data in it"


# --- the command ----------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys):
    root = str(grow("ubuntu-24.04", tmp_path))
    base = ["advise", "--host", "--root", root]
    assert cli.main(base) == 0
    out = capsys.readouterr().out
    for words in ("To change", "Outdated advice", "can lose data", "ffffffff", "not confirmed"):
        assert words in out
    assert cli.main([*base, "--check"]) == 1
    capsys.readouterr()
    assert cli.main([*base, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "headrace-host/1" and len({row["check"] for row in document["readings"]}) == 28
    assert cli.main([*base, "--output", "sysctl"]) == 0
    assert "vm.swappiness = 1" in capsys.readouterr().out
    assert cli.main([*base, "--output", "csv"]) == 0
    assert capsys.readouterr().out.startswith("check,subject,state")
    for wrong, word in (
        ([*base, "--output", "cnf"], "option file"),
        (["advise", "--output", "udev"], "option of --host"),
        (["advise", "--root", root], "option of --host"),
        ([*base, "--memory-gib", "8"], "looks at the machine"),
        ([*base, "--vcpus", "8"], "looks at the machine"),
        ([*base, "--durability", "relaxed"], "looks at the machine"),
        ([*base, "--replica"], "looks at the machine"),
        (["advise"], "--storage"),
    ):
        assert cli.main(wrong) == 2, wrong
        assert word in capsys.readouterr().err
