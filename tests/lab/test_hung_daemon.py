"""A daemon that was killed while a thread of it waited for its own mount: the kernel cannot end it, and
whatever looks at the mount waits. `lab up` ends it and starts the lab again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_folders import CommandHere, Labs, abort_mounts, kill
from waiting import wait_until

from headrace.base.processes import is_killed
from headrace.errors import CouldNotRun
from headrace.lab import Lab, doctor

DAEMON = Path(__file__).with_name("hung_daemon.py")
# A process that can end does so within milliseconds of its signal.
ENDS_WITHIN_S = 1.0


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


def test_the_kill_of_other_tests_ends_it(hung):
    """A crash test may strike while the daemon flushes a device of its own."""
    folder, pid = hung
    kill(folder)
    assert doctor.find_daemon(doctor.Machine(), folder) is None and not Path(f"/proc/{pid}").exists()


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
