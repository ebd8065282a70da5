"""Whoever takes a snapshot may end at any step, by `kill -9` or by hanging: nothing stays frozen,
nothing stays locked, and what it left is not taken for a snapshot.

KILLS: how many of them (`make soak`: 200).
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_servers import sql
from waiting import wait_until

from headrace.operate.snapshots import sets
from headrace.operate.snapshots.freezing.filesystems import find_filesystems
from headrace.operate.snapshots.freezing.freeze import Freezer
from headrace.operate.snapshots.services import LabService
from headrace.operate.snapshots.take import STEPS, take
from headrace.operate.snapshots.targets import make_lab_request

sys.path.insert(0, str(Path(__file__).parent))
from probing import Probe

KILLS = int(os.environ.get("KILLS", "6"))
TAKER = Path(__file__).parent / "killed_taker.py"
# Far beyond any thaw (1.3 ms where it was tried first), for a machine that runs other tests.
PATIENCE_S = 30.0


def taker(server, step: str, *more: str) -> subprocess.Popen:
    folder = server.paths.state.parent.parent
    words = [sys.executable, str(TAKER), str(folder), server.name, step, *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def not_locked(server) -> None:
    """A commit and a backup lock are had at once."""
    sql(server, "CREATE DATABASE IF NOT EXISTS killed", "CREATE TABLE IF NOT EXISTS killed.t (n INT)")
    sql(server, "SET SESSION lock_wait_timeout = 20", "INSERT INTO killed.t VALUES (1)")
    sql(server, "SET SESSION lock_wait_timeout = 20", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END")  # fmt: skip


def watchdogs() -> list[int]:
    """Processes that hold something frozen, or may."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"freezing/watchdog.py" in (folder / "cmdline").read_bytes():
                names.append(int(folder.name))
        except OSError:
            continue
    return names


def test_killed_at_every_step(lab, server):
    seed = int(os.environ.get("SEED", "1"))
    chance = random.Random(seed)
    # Each step in turn, and moments that fall where they fall.
    turns = ("frozen", "at random", *STEPS, "at random")
    steps = [turns[number % len(turns)] for number in range(KILLS)]
    thawed: list[float] = []
    earlier = {entry.id for entry in sets.build_sets(LabService(lab).list_stored())}  # of tests that ran before
    with Probe(server.paths.data_mount) as probe:
        for number, step in enumerate(steps):
            with taker(server, "none" if step == "at random" else step) as child:
                if step == "at random":
                    assert child.stderr is not None
                    child.stderr.readline()
                    time.sleep(chance.uniform(0.0, 0.15))
                    killed_ns = time.monotonic_ns()
                    child.kill()
                    child.communicate()
                else:
                    output, errors = child.communicate(timeout=PATIENCE_S)
                    assert child.returncode == -signal.SIGKILL, errors
                    killed_ns = int(output)
            delay = probe.next_after(killed_ns, PATIENCE_S)
            if step in ("frozen", "snapshot"):
                thawed.append(delay)
            if number % 10 == 0:
                not_locked(server)
    not_locked(server)
    # Other tests have watchdogs of their own for a moment.
    wait_until(lambda: not watchdogs(), "the end of every watchdog", PATIENCE_S)
    if thawed:
        ordered = sorted(thawed)
        p95 = ordered[int(0.95 * (len(ordered) - 1))]
        print(f"{KILLS} kills, SEED={seed}; while frozen {len(thawed)}: thawed after {statistics.median(thawed):.1f} ms, p95 {p95:.1f}, most {ordered[-1]:.1f}")  # fmt: skip
    # Sets that the killed programs left are seen for what they are; `tagged` is the last step, so
    # its set is whole.
    result = [entry for entry in sets.build_sets(LabService(lab).list_stored()) if entry.id not in earlier]
    whole = [entry for entry in result if entry.whole]
    assert len(whole) <= steps.count("tagged") + steps.count("at random")
    assert all("was not finished" in entry.problems[0] for entry in result if not entry.whole)


def test_a_taker_that_hangs_is_thawed_at_the_deadline(lab, server):
    with Probe(server.paths.data_mount) as probe:
        with taker(server, "hang:frozen", "0.5") as child:
            assert child.stdout is not None
            hung = int(child.stdout.readline())
            # It hangs frozen: only the deadline, 0.5 s after the order to freeze, thaws.
            delay = probe.next_after(hung + 1_000_000, PATIENCE_S)
            child.send_signal(signal.SIGCONT)
            child.communicate(timeout=PATIENCE_S)
            assert child.returncode not in (0, None)
        assert delay < PATIENCE_S * 1000
    not_locked(server)
    assert not [
        entry for entry in sets.build_sets(LabService(lab).list_stored()) if entry.whole and entry.frozen_ms == 500
    ]


def test_the_watchdog_is_killed(server):
    """Then the process that asked thaws by itself."""
    filesystems = find_filesystems([str(server.paths.data_mount)])
    with Probe(server.paths.data_mount) as probe:
        # Many times: its end is seen at one moment by its pipe and at another by its process.
        for _ in range(20):
            with Freezer(filesystems, 20) as freezer:
                freezer.freeze()
                pid = freezer.process_id
                assert pid is not None
                os.kill(pid, signal.SIGTERM)  # ignored
                os.kill(pid, signal.SIGKILL)
                ended = freezer.thaw()
                assert ended.ended_ns > ended.began_ns
            probe.next_after(time.monotonic_ns(), PATIENCE_S)


def test_the_server_is_killed_while_it_is_locked(lab, labs):
    """The snapshot is refused, and nothing is frozen."""
    from headrace import servers
    from headrace.errors import HeadraceError

    server = servers.bring_up(lab, name="dies", storage="gp3:1", settings={"innodb_buffer_pool_size": "16M"})
    try:
        before = len(LabService(lab).list_stored())

        def on_step(step: str) -> None:
            if step == "frozen":
                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)

        with pytest.raises(HeadraceError):
            take(make_lab_request(lab, "dies"), on_step)
        with Probe(server.paths.data_mount) as probe:
            probe.next_after(time.monotonic_ns(), PATIENCE_S)
        assert len(LabService(lab).list_stored()) == before
    finally:
        servers.destroy(server)
