"""Switchovers under load, and failovers without semi-sync: what would be lost is listed, and read
from the dead source's volume. SWITCHOVERS=30, RESCUES=30 for the soak."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time

import pytest
from lab_servers import sql
from test_faults import mended, pid_of
from under_load import Trio

from headrace.connect import connect
from headrace.errors import CouldNotRun
from headrace.servers.failover.planning.members import FailoverWish

SWITCHOVERS = int(os.environ.get("SWITCHOVERS", "1"))
RESCUES = int(os.environ.get("RESCUES", "1"))
SEED = int(os.environ.get("SEED", "1"))
FLAVORS = os.environ.get("FLAVORS", "mariadb").split(",")


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_switchover_loses_nothing_and_is_short(labs, tmp_path, flavor):
    trio = Trio(labs.up(time_scale=1_000_000), tmp_path, flavor)
    gaps = []
    for number in range(SWITCHOVERS):
        trio.load.start()
        time.sleep(0.7)
        executor = trio.cluster().executor(trio.clients, trio.say)
        try:
            began = time.monotonic()
            outcome = executor.run(FailoverWish(trio.source, kind="switchover"))
        finally:
            executor.close()
        new = trio.server(outcome.elected or "")
        time.sleep(1.0)
        trio.load.stop()
        first = trio.load.first_on(new.port, began)
        assert first is not None
        gaps.append(first - max(one.at for one in trio.load.notes if one.port != new.port and one.at < first))
        assert not trio.load.missing(new) and not outcome.left_out
        trio.source = new.name
        assert trio.equal(), f"round {number}"
    print(
        f"{SWITCHOVERS} switchovers ({flavor}): writes out for a median of {statistics.median(gaps):.2f} s, most {max(gaps):.2f} s, 0 lost"
    )


def test_the_tail_of_a_dead_source_is_read_from_its_volume(labs, tmp_path):
    """Asynchronous, and the replicas' links are slow: their receive threads are stopped before the
    kill, so that there is a tail for certain."""
    chance = random.Random(SEED)
    trio = Trio(labs.up(time_scale=1_000_000), tmp_path, semi_sync=False)
    rescued = []
    for number in range(RESCUES):
        trio.load.start()
        time.sleep(chance.uniform(0.3, 0.8))
        for name in trio.names:
            if name != trio.source:
                sql(trio.server(name), "STOP SLAVE IO_THREAD")
        time.sleep(chance.uniform(0.2, 0.5))
        os.kill(pid_of(trio), signal.SIGKILL)
        trio.load.stop()
        executor = trio.cluster().executor(trio.clients, trio.say)
        try:
            with pytest.raises(CouldNotRun, match="acknowledged commits may be missing"):
                executor.run(FailoverWish(trio.source))
            outcome = executor.run(FailoverWish(trio.source, rescue=True))
        finally:
            executor.close()
        new = trio.server(outcome.elected or "")
        lost = trio.load.missing(new)
        assert not lost, f"round {number}: {len(lost)} of {len(trio.load.notes)} are missing after the rescue"
        assert outcome.rescued and outcome.kept
        rescued.append(outcome.rescued)
        before, trio.source = trio.source, new.name
        mended(trio, before)
        answer = trio.rejoin(before)
        assert answer["state"] == "rejoined" and trio.equal(), f"round {number}: {answer}"
    print(f"{RESCUES} async kills: {sum(rescued)} transactions rescued, 0 lost")


def test_a_switchover_that_cannot_be_finished_leaves_the_source_open(labs, tmp_path):
    """The chosen replica holds a read lock, so it never applies what it received."""
    trio = Trio(labs.up(time_scale=1_000_000), tmp_path)
    chosen = next(name for name in ("b", "c") if name != trio.source)
    with connect(trio.server(chosen).address(), 60.0) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        trio.load.start()
        time.sleep(0.7)
        executor = trio.cluster().executor(trio.clients, trio.say)
        executor.drain_s = 1.0
        try:
            with pytest.raises(CouldNotRun, match="has not applied"):
                executor.run(FailoverWish(trio.source, kind="switchover", target=chosen))
        finally:
            executor.close()
        trio.load.stop()
    assert sql(trio.server(trio.source), "SELECT @@global.read_only")[0][0] in (0, "OFF")
