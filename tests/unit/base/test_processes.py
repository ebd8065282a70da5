"""Programs as processes: found, watched, ended with all they started, known again; what an output
says went wrong."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.base import machine, processes
from headrace.base.processes import Command, find_telling_lines
from headrace.errors import CouldNotRun

# --- run, and watched line by line ----------------------------------------------------------------


def command(folder, script: str) -> processes.Command:
    return processes.Command(("/bin/sh", "-c", script), folder)


def test_lines_come_as_they_are_printed_and_are_kept(tmp_path):
    lines = []
    ended = processes.run_lines(
        command(tmp_path, "echo one; echo two >&2; printf three"),
        tmp_path / "raw",
        30,
        lambda at, text: lines.append(text),
    )
    assert lines == ["one", "two", "three"] and ended.code == 0 and not ended.late
    assert (tmp_path / "raw").read_text() == "one\ntwo\nthree"


def test_what_is_late_is_ended_with_all_it_started(tmp_path):
    script = "sleep 60 & echo $!; trap 'echo last words' TERM; sleep 60 & wait"
    pids = []
    ended = processes.run_lines(
        command(tmp_path, script), tmp_path / "raw", 0.5, lambda at, text: pids.append(int(text))
    )
    assert ended.late and "last words" in (tmp_path / "raw").read_text()
    for _ in range(100):  # the kernel reaps a killed process when it comes to it
        if not os.path.exists(f"/proc/{pids[0]}") or "State:\tZ" in Path(f"/proc/{pids[0]}/status").read_text():
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the tool started still runs")


def test_ctrl_c_ends_the_tool(tmp_path):
    pids = []

    def on_line(at, text):
        pids.append(int(text))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        processes.run_lines(command(tmp_path, "echo $$; exec sleep 60"), tmp_path / "raw", 30, on_line)
    assert not os.path.exists(f"/proc/{pids[0]}")


def test_a_program_that_is_missing(tmp_path):
    with pytest.raises(CouldNotRun, match="could not be started"):
        processes.run_lines(
            processes.Command(("/nowhere/at-all",), tmp_path), tmp_path / "raw", 5, lambda at, text: None
        )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo sysbench 1.0.20 and more", "1.0.20"), ("echo sysbench 0.4.12; exit 1", "is too old"), ("echo 'some other thing'", "does not tell a version"), ("true", "does not tell a version"),
    ],
)  # fmt: skip
def test_versions_of_tools_are_looked_at(tmp_path, monkeypatch, script, expected):
    result = tmp_path / "sysbench"
    result.write_text(f"#!/bin/sh\n{script}\n")
    result.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if expected[0].isdigit():
        assert machine.find_tool("sysbench").version == expected
    else:
        with pytest.raises(CouldNotRun, match=expected):
            machine.find_tool("sysbench")


def test_a_tool_that_is_not_there_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CouldNotRun, match="apt-get install fio"):
        machine.find_tool("fio")


def test_versions_of_both_slaps():
    pattern = machine.TOOLS["mysqlslap"].version
    assert re.search(pattern, "mariadb-slap from 10.11.19-MariaDB, client 1.0 for debian-linux-gnu (x86_64)")[
        1
    ].startswith("10.11.19")
    assert re.search(pattern, "mysqlslap  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)")[1] == "8.0.36"
    assert re.search(pattern, "mysqlslap  Ver 1.0 Distrib 10.5.8-MariaDB, for Linux (x86_64)")[1] == "10.5.8-MariaDB"


def test_a_process_is_known_by_more_than_its_id():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as running:
        process = processes.look_up(running.pid)
        assert processes.runs(process)
        other = processes.Process(process.pid, process.started + 1, process.boot)
        assert not processes.runs(other)
        # The wrong one is not ended.
        assert processes.end_process(other, signal.SIGKILL, 5) and running.poll() is None
        assert processes.end_process(process, signal.SIGKILL, 20)
        assert not processes.runs(process) and processes.wait_gone(process, 5)
    assert processes.end_process(process, signal.SIGKILL, 5)


def test_a_process_whose_first_thread_alone_has_ended_still_runs():
    code = "import os, threading, time, ctypes\nthreading.Thread(target=lambda: time.sleep(60)).start()\nprint(flush=True)\nctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        process = processes.look_up(running.pid)
        while "Z" not in Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0]:
            assert running.poll() is None
        assert processes.runs(process)
        running.kill()


# --- what went wrong, in the program's words ------------------------------------------------------


def test_the_reason_comes_before_what_followed_it():
    text = """2026-11-21 19:50:20 0 [Note] InnoDB: fine
2026-11-21 19:50:20 0 [ERROR] mariadbd: Error writing file 'binlog' (errno: 5 "Input/output error")
2026-11-21 19:50:21 0 [ERROR] mariadbd: Error writing file 'binlog' (errno: 5 "Input/output error")
2026-11-21 19:50:21 0 [ERROR] [FATAL] InnoDB: fdatasync() returned 5
2026-11-21T19:50:21.123456Z 0 [ERROR] [MY-010119] [Server] Aborting
"""
    message = find_telling_lines(text)
    assert (
        message
        == "[ERROR] [FATAL] InnoDB: fdatasync() returned 5 | [ERROR] mariadbd: Error writing file 'binlog' (errno: 5 \"Input/output error\")"
    )
    assert find_telling_lines("") == "it said nothing"
    assert find_telling_lines("a\nb\n") == "a | b"
    # MariaDB pads the hour with a space, not a zero.
    assert find_telling_lines("2026-11-23  0:04:23 0 [ERROR] unknown variable\n") == "[ERROR] unknown variable"


INSTALL_DB_HELP = """
Installation of system tables failed!  Examine the logs in
/var/lib/x for more information.

The problem could be conflicting information in an external
my.cnf files. You can ignore these by doing:

    shell> /usr/bin/mariadb-install-db --defaults-file=~/.my.cnf

Try '/usr/sbin/mariadbd --help' if you have problems with paths.  Using
--general-log gives you a log in /var/lib/x that may be helpful.

The latest information about mysql_install_db is available at
https://mariadb.com/docs/server/clients-and-utilities/deployment-tools/mariadb-install-db

Please check all of the above before submitting a bug report
at https://mariadb.org/jira
"""
# Outputs of MariaDB 10.11 and 11.8, MySQL 9.7, fio 3.39, sysbench 1.0.20, xfsprogs 6.13, util-linux
# and OpenSSL 3 when they failed.
OUTPUTS = {
    "mariadb-install-db without /dev/null": (
        "/usr/bin/mariadb-install-db: 12: cannot create /dev/null: Permission denied\n" + INSTALL_DB_HELP,
        "/usr/bin/mariadb-install-db: 12: cannot create /dev/null: Permission denied",
    ),
    "mariadb-install-db with words of its own alone": (INSTALL_DB_HELP, "Installation of system tables failed!  Examine the logs in"),
    "mariadb-install-db in a folder of another": (
        "mkdir: cannot create directory '/tmp/x': Permission denied\nFatal error Can't create database directory '/tmp/x/y'\n\n"
        "The latest information about mysql_install_db is available at\nhttps://mariadb.com/docs/server/mariadb-install-db\n",
        "mkdir: cannot create directory '/tmp/x': Permission denied | Fatal error Can't create database directory '/tmp/x/y'",
    ),
    "mariadb-install-db on a full volume": (
        "Installing MariaDB/MySQL system tables in '/x' ...\n"
        "2026-11-22 11:54:44 0 [ERROR] InnoDB: preallocating 12582912 bytes for file ./ibdata1 failed with error 28\n"
        "2026-11-22 11:54:44 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.\n"
        "2026-11-22 11:54:44 0 [ERROR] Unknown/unsupported storage engine: InnoDB\n2026-11-22 11:54:44 0 [ERROR] Aborting\n" + INSTALL_DB_HELP,
        "[ERROR] InnoDB: preallocating 12582912 bytes for file ./ibdata1 failed with error 28",
    ),
    "mariadbd in a folder of another": (
        "2026-11-22 11:54:45 0 [Warning] Could not increase number of max_open_files to more than 20000 (request: 32184)\n"
        "2026-11-22 11:54:45 0 [Warning] Can't create test file '/x/vm.lower-test' (Errcode: 13 \"Permission denied\")\n"
        "mariadbd: Can't change dir to '/x/' (Errcode: 13 \"Permission denied\")\n2026-11-22 11:54:45 0 [ERROR] Aborting\n",
        "[Warning] Can't create test file '/x/vm.lower-test' (Errcode: 13 \"Permission denied\") | "
        "mariadbd: Can't change dir to '/x/' (Errcode: 13 \"Permission denied\")",
    ),
    "fio with an unknown option": (
        "fio: unrecognized option '--nme=x'\nfio: unrecognized option '--nme=x'\nDid you mean name?\n", "fio: unrecognized option '--nme=x'",
    ),
    "sysbench without a server": (
        "sysbench 1.0.20 (using system LuaJIT 2.1)\n\nInitializing worker threads...\n\n"
        "FATAL: unable to connect to MySQL server on socket '/x', aborting...\nFATAL: error 2002: Can't connect to local server through socket '/x' (111)\n",
        "FATAL: unable to connect to MySQL server on socket '/x', aborting... | "
        "FATAL: error 2002: Can't connect to local server through socket '/x' (111)",
    ),
    "mkfs.xfs on a small device": (
        "size 256 of data subvolume is too small, minimum 4096 blocks\nUsage: mkfs.xfs\n/* no discard */\t\t[-K]\n<value> is xxx (512 byte blocks).\n",
        "size 256 of data subvolume is too small, minimum 4096 blocks",
    ),
    "mount": (
        "mount: /m: wrong fs type, bad option, bad superblock on /dev/loop0, missing codepage or helper program, or other error.\n"
        "       dmesg(1) may have more information after failed mount system call.\n",
        "mount: /m: wrong fs type, bad option, bad superblock on /dev/loop0, missing codepage or helper program, or other error.",
    ),
    "apt": (
        "Reading package lists...\nErr:1 http://deb.example sid InRelease\n  Could not resolve 'deb.example'\nW: Some index files failed to download.\n"
        "E: Unable to locate package nothing\n",
        "Err:1  sid InRelease | E: Unable to locate package nothing",
    ),
    "a script that says nothing of an error": ("one\ntwo\n\nthree\nfour\n", "two | three | four"),
}  # fmt: skip


@pytest.mark.parametrize("output, expected", OUTPUTS.values(), ids=OUTPUTS.keys())
def test_the_lines_that_tell_why_a_program_failed(output, expected):
    assert find_telling_lines(output) == expected


def fails(*words: str, folder: Path) -> str:
    """Returns the reason in the error of a program that must fail."""
    with pytest.raises(CouldNotRun) as failed:
        processes.run_checked(Command(words, folder), 120)
    return failed.value.rule


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_real_fio_that_fails(tmp_path):
    assert "unrecognized option '--nme=x'" in fails("fio", "--nme=x", folder=tmp_path)


@pytest.mark.skipif(shutil.which("mariadb-install-db") is None, reason="mariadb-server is not installed")
def test_a_real_data_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    message = fails("mariadb-install-db", "--no-defaults", f"--datadir={tmp_path}/file/data", folder=tmp_path)
    assert "http" not in message and "Not a directory" in message
    options = tmp_path / "my.cnf"
    options.write_text(f"[mysqld]\ndatadir={tmp_path}/data\nuser=root\nno_such_thing=1\n")
    message = fails("mariadb-install-db", f"--defaults-file={options}", folder=tmp_path)
    assert message.startswith("failed (exit code 1): [ERROR] ") and "no_such_thing" in message and "http" not in message


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mariadb-install-db") is None, reason="mounting takes root, and mariadb-server"
)
def test_a_real_data_directory_on_a_full_filesystem(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    try:
        message = fails(
            "mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={tmp_path}/data", folder=Path("/")
        )
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert "failed with error 28" in message and "http" not in message


def test_what_is_asked_to_end_early_does(tmp_path):
    began = time.monotonic()
    with pytest.raises(CouldNotRun, match="did not end within 0.2 s"):
        processes.run_to_end(Command(("/bin/sh", "-c", "sleep 60"), tmp_path), 0.2)
    assert time.monotonic() - began < 30


def test_processor_time_of_a_process():
    before = processes.read_cpu_seconds(os.getpid())
    spent = time.process_time()
    while time.process_time() - spent < 0.1:
        pass
    after = processes.read_cpu_seconds(os.getpid())
    # In ticks of a hundredth of a second.
    assert before is not None and after is not None and after - before >= 0.08
    assert processes.read_cpu_seconds(None) is None and processes.read_cpu_seconds(2**22 + 1) is None
