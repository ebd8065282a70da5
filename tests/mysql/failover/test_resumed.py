"""kill -9 of the program that fails over, before any line of its journal: the same command goes on,
nothing acknowledged is lost, and one server takes writes. Two watchers: one acts.

RESUMES=all kills before every line, of a failover and of a switchover (RESUME_KINDS=switchover: of that alone;
RESUME_FROM=30: from that line on); without it, before one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_servers import sql
from test_faults import kill, repair_server
from under_load import REWINDS, Trio, Watched
from waiting import wait_until

from headrace.errors import CouldNotRun
from headrace.servers.failover.cluster import make_cluster
from headrace.servers.failover.planning.members import FailoverWish

SEED = int(os.environ.get("SEED", "1"))
EVERY = os.environ.get("RESUMES") == "all"
KINDS = os.environ.get("RESUME_KINDS", "failover,switchover").split(",")
FIRST = int(os.environ.get("RESUME_FROM", "1"))
MOST_LINES = 200  # far more than a journal has, so that a loop that never ends shows
SCRIPT = Path(__file__).with_name("killed_failover.py")


def test_it_goes_on_after_kill_9(trio):
    # A failover of three servers writes some 30 lines.
    lines = range(FIRST, MOST_LINES) if EVERY else [random.Random(SEED).randrange(4, 24)]
    for kind in KINDS if EVERY else ("failover",):
        killed = 0
        for line in lines:
            if not resumed(trio, kind, line):
                break
            killed += 1
        else:
            assert not EVERY, f"{kind}: more than {MOST_LINES} lines"
        print(f"{trio.flavor}: a {kind} killed before {killed} lines of its journal and gone on with, 0 lost")
        assert killed >= (15 - FIRST if EVERY else 1)


def resumed(trio: Trio, kind: str, line: int) -> bool:
    """Kills a program before a line of its journal, runs it again, and returns whether it was
    killed: a journal with fewer lines ends by itself."""
    trio.load.start()
    words = [sys.executable, str(SCRIPT), str(trio.lab.place.data_dir), str(trio.folder / "journal"), str(trio.clients)]
    words += [kind, trio.source, str(line), *trio.names]
    old = trio.source
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if kind == "failover":
                kill(trio)
            struck = time.monotonic()
            _, stderr = process.communicate("\n", timeout=60)
        finally:
            process.kill()
    was_killed = process.returncode == -signal.SIGKILL
    assert was_killed or process.returncode == 0, stderr
    if was_killed:
        with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
            try:
                outcome = executor.run(FailoverWish(old, kind="switchover" if kind == "switchover" else "failover"))
            except CouldNotRun as error:
                # Before its first line nobody but the killed program knew that semi-sync worked.
                assert kind == "failover" and "semi-sync was not seen at work" in error.rule, (line, stderr, error.rule)
                outcome = executor.run(FailoverWish(old, accept_loss=True))
        trio.source = outcome.elected or ""
    else:
        trio.source = trio.named()
    assert trio.source != old and trio.named() == trio.source, (line, stderr)
    new = trio.server(trio.source)
    trio.load.wait_for(new.port, struck)
    trio.load.stop()
    assert trio.load.first_on(new.port, struck) is not None, f"line {line}: nobody could write again: {stderr}"
    lost = trio.load.missing(new)
    assert not lost, f"line {line}: {len(lost)} lost: {stderr}"
    if kind == "failover":
        repair_server(trio, old)
        trio.forget_failover()
        assert trio.rejoin(old, REWINDS[trio.flavor])["state"] in ("rejoined", "rewound", "seeded")
    assert trio.equal(), f"line {line}: {stderr}"
    for name in trio.names:
        flush = sql(
            trio.server(name),
            "SELECT @@global.read_only, @@global.sync_binlog, @@global.innodb_flush_log_at_trx_commit",
        )
        assert flush == ((int(name != trio.source), 1, 1),), (line, name, flush, stderr)
    print(f"{kind} killed before line {line}: {stderr.splitlines()[-1] if was_killed else 'it ended'}")
    return was_killed


def has_ended(*watchers: Watched) -> bool:
    """Returns whether a watcher has acted, or all have ended with errors."""
    return any(watcher.outcomes for watcher in watchers) or all(watcher.error for watcher in watchers)


@pytest.mark.skipif(not EVERY, reason="RESUMES=all")
def test_of_two_watchers_one_acts(trio):
    """Each with a journal of its own, as on two machines."""
    real = trio.cluster
    for number in range(5):
        old = trio.source
        trio.load.start()
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(trio.watched())
            trio.cluster = lambda: make_cluster(trio.names, trio.lab, trio.folder / "other")
            second = stack.enter_context(trio.watched())
            trio.cluster = real
            kill(trio)
            wait_until(lambda pair=(first, second): has_ended(*pair), "the watcher that acts")
            time.sleep(2.0)
        trio.load.stop()
        acted = [entry.outcomes[0] for entry in (first, second) if entry.outcomes]
        assert len({entry.elected for entry in acted}) == 1, (first.error, second.error)
        for member in (first, second):
            assert member.outcomes or member.error is None or "lease" in str(member.error), member.error
        trio.source = acted[0].elected or ""
        assert (
            sum(sql(trio.server(name), "SELECT @@global.read_only")[0][0] == 0 for name in trio.names if name != old)
            == 1
        )
        assert not trio.load.missing(trio.server(trio.source)), number
        repair_server(trio, old)
        for folder in ("journal", "other"):
            for path in (trio.folder / folder).glob("*.jsonl"):
                path.unlink()
        assert trio.rejoin(old, REWINDS[trio.flavor])["state"] != "diverged" and trio.equal(), number
