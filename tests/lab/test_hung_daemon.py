"""A daemon that was killed while a thread of it waited for its own mount: the kernel cannot end it, and
whatever looks at the mount waits. `lab up` ends it and starts the lab again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_folders import CommandHere, Labs
from waiting import wait_until

from headrace.base.mounts import read_mount_table
from headrace.base.processes import is_killed
from headrace.errors import CouldNotRun
from headrace.lab import Lab, doctor

DAEMON = Path(__file__).with_name("hung_daemon.py")
CONNECTIONS = Path("/sys/fs/fuse/connections")
# A process that can end does so within milliseconds of its signal.
ENDS_WITHIN_S = 1.0


def abort_mounts(folder: Path) -> None:
    """Aborts what is mounted in a folder, whatever the test did: a mount that hangs stops all that
    look at the mounts of this machine."""
    if not CONNECTIONS.is_mount():
        subprocess.run(["mount", "-t", "fusectl", "none", str(CONNECTIONS)], check=True)
    for entry in read_mount_table():
        if entry.place.startswith(f"{folder}/") and entry.kind == "fuse":
            with contextlib.suppress(OSError):
                (CONNECTIONS / entry.number.partition(":")[2] / "abort").write_text("1")


@pytest.fixture
def hung(labs: Labs) -> Iterator[tuple[Path, int]]:
    """A data directory whose daemon was killed and cannot end, and its process id."""
    folder = labs.folder()
    daemon = subprocess.Popen([sys.executable, str(DAEMON), str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None and daemon.stdout.readline() == "waits\n"
        daemon.send_signal(signal.SIGKILL)
        time.sleep(ENDS_WITHIN_S)
        assert daemon.poll() is None and is_killed(daemon.pid), "this kernel ends such a process by itself"
        yield folder, daemon.pid
    finally:
        abort_mounts(folder)
        daemon.wait(30)


def test_a_daemon_that_cannot_end_is_named_by_every_command(hung):
    folder, pid = hung
    with pytest.raises(CouldNotRun, match=f"process {pid}, was killed and has not ended"):
        Lab(folder).status()
    notes = [check for check in doctor.examine(folder) if f"process {pid} " in check.finding]
    assert ["lab up" in check.do for check in notes] == [True], notes
    done = CommandHere(folder)("lab", "down", code=3)
    assert f"headrace lab up --lab {folder}" in done.stderr, done.stderr


def test_lab_up_ends_a_daemon_that_cannot_end(hung, labs: Labs):
    folder, pid = hung
    lab = labs.up(folder)
    assert lab.get_pid() != pid
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z", "a process without threads")
    assert len(os.listdir(f"/proc/{pid}/task")) == 1
    lab.create("gp3:1", name="db")
    assert Path(lab.attach("db")["attachment"]["device"]).is_block_device()
    assert (folder / "headraced.log").read_text().count(f"process {pid} was killed and has not ended") == 1
    lab.close()
