"""The source's link is cut, and clients on its side go on: with semi-sync they get no answer, and
once another takes writes, the old one never gives one again. PARTITIONS=100 for the soak."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import threading
import time

import pytest
from test_faults import repair_server
from under_load import FLAVORS, PASSWORD, REWINDS, SCHEMA, Trio

from headrace.mysql import Address, connect
from headrace.servers.topology.links import require_link

PARTITIONS = int(os.environ.get("PARTITIONS", "1"))
SEED = int(os.environ.get("SEED", "1"))


class OldSide:
    """A client on the machine of the old source: the socket reaches it whatever the link does."""

    def __init__(self, trio: Trio, number: int) -> None:
        server = trio.server(trio.source)
        self.address = Address("app", socket=str(server.paths.socket), database=SCHEMA, password=PASSWORD)
        self.number = number
        self.answered: list[tuple[int, float]] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._go, daemon=True)
        self.thread.start()

    def _go(self) -> None:
        row = 0
        while not self.stop.is_set():
            with (
                contextlib.suppress(Exception),
                connect(self.address, 30.0) as connection,
                connection.cursor() as cursor,
            ):
                while not self.stop.is_set():
                    row += 1
                    cursor.execute(f"INSERT INTO entries VALUES ({self.number}, {row}, 'old side')")
                    self.answered.append((row, time.monotonic()))
            self.stop.wait(0.1)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_no_commit_is_acknowledged_on_the_old_side(labs, tmp_path, flavor):
    chance = random.Random(SEED)
    trio = Trio(labs.up(time_scale=1_000_000), tmp_path, flavor, links=True)
    outages, answered = [], 0
    for number in range(PARTITIONS):
        old = trio.server(trio.source)
        link = require_link(old.paths, old.host)
        trio.load.start()
        inside = OldSide(trio, 1000 + number)
        try:
            # Every second time nothing can fence the old source: its replicas alone decide.
            fenced = number % 2 == 1
            with trio.watched(fence=fenced) as watch:
                time.sleep(chance.uniform(0.3, 1.0))
                cut = time.monotonic()
                link.cut()
                outcome = watch.outcome()
                assert outcome.elected and outcome.lossless, outcome
                new = trio.server(outcome.elected)
                trio.load.wait_for(new.host, cut)
                time.sleep(0.5)
        finally:
            inside.stop.set()
            trio.load.stop()
            link.restore()
            time.sleep(1.0)  # whoever is answered late would be answered now
        first = trio.load.first_on(new.host, cut)
        assert first is not None, f"round {number}: nobody could write again"
        outages.append(first - cut)
        late = [row for row, at in inside.answered if at > first]
        assert inside.answered and not late, f"round {number}: {len(late)} were acknowledged on the old side"
        assert not trio.load.missing(new), f"round {number}"
        rows = trio.rows_of(new, inside.number)
        gone = [row for row, _ in inside.answered if row not in rows]
        assert not gone, f"round {number}: {len(gone)} acknowledged on the old side are missing"
        answered += len(inside.answered)
        before, trio.source = trio.source, outcome.elected
        assert fenced or trio.server(before).pid is not None, "the old side still runs"
        if fenced:
            repair_server(trio, before)
        trio.forget_failover()
        answer = trio.rejoin(before, REWINDS[flavor])
        assert trio.equal(), f"round {number}: the servers differ after {answer}"
        how = "fenced" if fenced else "not fenced"
        print(f"round {number} partition {flavor} {how}: {outages[-1]:.2f} s, {answer['state']} {answer['extra']}")
    print(
        f"{flavor}: {PARTITIONS} partitions, {len(trio.load.notes) + answered} acknowledged, 0 lost, 0 on the old side after; "
        f"outage median {statistics.median(outages):.2f} s, most {max(outages):.2f} s"
    )
