"""Switchovers under load, and failovers without semi-sync: what would be lost is listed, and read
from the dead source's volume. SWITCHOVERS=30, RESCUES=30, LOSSES=30, SWITCHES=all for the soak."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from lab_servers import sql
from test_faults import pid_of, repair_server
from under_load import FLAVORS, NEVER_MS, REWINDS, SCHEMA, Trio, event, states_of_events

from headrace.errors import CouldNotRun
from headrace.mysql import connect
from headrace.servers.failover import changes
from headrace.servers.failover.cluster import FailoverCluster
from headrace.servers.failover.hosts import AddressHost, query_host_state
from headrace.servers.failover.planning.members import FailoverWish

SWITCHOVERS = int(os.environ.get("SWITCHOVERS", "1"))
RESCUES = int(os.environ.get("RESCUES", "1"))
LOSSES = int(os.environ.get("LOSSES", "1"))
SEED = int(os.environ.get("SEED", "1"))


def test_a_switchover_loses_nothing_and_is_short(trio):
    flavor = trio.flavor
    sql(trio.server(trio.source), "SET GLOBAL event_scheduler = ON", *event("ticks"))
    gaps, outages, closed = [], [], []
    for number in range(SWITCHOVERS):
        trio.load.start()
        time.sleep(0.7)
        began = time.monotonic()
        outcome = switched(trio)
        new = trio.server(outcome["elected"])
        time.sleep(1.0)
        trio.load.stop()
        first = trio.load.first_on(new.port, began)
        assert first is not None
        gaps.append(first - max(note.at for note in trio.load.notes if note.port != new.port and note.at < first))
        parts = {name: took for name, took in outcome["closed"].items() if took >= 0.001}
        print(
            f"round {number} switchover {flavor}: {gaps[-1]:.3f} s; outage {outcome['outage_s']:.3f}, "
            f"writes closed {outcome['closed_s']:.3f}: {parts}"
        )
        # A client cannot write before the new source is open, and ours comes when its address is known.
        assert outcome["outage_s"] >= outcome["closed_s"] - outcome["closed"]["between"]
        outages.append(outcome["outage_s"])
        closed.append(outcome["closed_s"])
        assert not trio.load.missing(new) and not outcome["left_out"]
        # A client's answer after the new source's first commit did not come from the old source.
        assert not [note for note in trio.load.notes if note.port != new.port and note.at > first]
        trio.source = new.name
        assert trio.equal(), f"round {number}"
        # The one that ran goes on here, and the one that was disabled does not begin.
        timeout = query_host_state(trio.cluster().hosts[new.name]).semi_sync.timeout_ms
        assert timeout == NEVER_MS, "its commits wait as long as those of the old source"
        states = states_of_events(new)
        assert states["ticks"] == "ENABLED" and states["ticks_off"] != "ENABLED", states
        for name in trio.names:
            here, on = trio.server(name), name == new.name
            assert sql(here, "SELECT @@global.event_scheduler") == (("ON" if on else "OFF",),), name
            assert on or "ENABLED" not in states_of_events(here).values(), name
    for name, result in (("clients", gaps), ("answer (outage_s)", outages), ("servers (closed_s)", closed)):
        print(
            f"{SWITCHOVERS} switchovers ({flavor}): writes out for the {name}: median {statistics.median(result):.3f} s,"
            f" least {min(result):.3f} s, most {max(result):.3f} s; 0 lost"
        )


def test_a_new_source_takes_writes_as_before_after_a_kill(trio):
    """The option file of the new source has what the switchover set: writable, semi-sync's role, its time-out, its wait point."""
    trio.source = switched(trio)["elected"]
    hosts = trio.cluster().hosts
    before = query_host_state(hosts[trio.source])
    hosts[trio.source].restart({}, {})
    after = query_host_state(trio.cluster().hosts[trio.source])
    assert after.uptime_s <= before.uptime_s and not after.read_only and not before.read_only
    for name in ("source_enabled", "timeout_ms", "wait_count", "wait_point"):
        assert getattr(after.semi_sync, name) == getattr(before.semi_sync, name), name
    assert before.semi_sync.source_enabled and before.semi_sync.timeout_ms == NEVER_MS
    assert trio.equal()


def switched(trio: Trio) -> dict:
    """By the command, so that the one who switches shares no interpreter with the clients."""
    words = ["failover", "switchover", *trio.names, "--from", trio.source, "--clients", trio.clients, "--yes"]
    words += ["--lab", trio.lab.place.data_dir, "--journal", trio.folder / "journal", "--output", "json"]
    done = subprocess.run([sys.executable, "-m", "headrace", *map(str, words)], capture_output=True, text=True)
    print(done.stderr)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(os.environ.get("SWITCHES") != "all", reason="SWITCHES=all")
def test_a_long_statement_does_not_hold_the_others_up(trio):
    """It writes when the writes are to be stopped: an attempt waits for a second, the others write on, and then
    the switchover is made. It is not lost."""
    number, texts = time.monotonic_ns() % 2**30, []
    long = f"INSERT INTO {SCHEMA}.entries VALUES (97, {number}, ''), (97, {number + 1}, SLEEP(2.5))"
    source = trio.server(trio.source)
    statement = threading.Thread(target=lambda: sql(source, long))

    def begun_before(self, say, own, real=changes.Closing.stop):
        statement.start()
        until = time.monotonic() + 5
        while not sql(source, "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'"):
            assert time.monotonic() < until
        return real(self, lambda text: (texts.append(text), say(text)), own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes.Closing, "stop", begun_before)
        with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
            outcome = executor.run(FailoverWish(trio.source, kind="switchover"))
    statement.join()
    trio.source = outcome.elected or ""
    assert any("takes writes again for 0.5 s: in the way is" in text for text in texts), texts
    assert trio.rows_of(trio.server(trio.source), 97) >= {number, number + 1} and trio.equal()


@pytest.mark.skipif(os.environ.get("SWITCHES") != "all", reason="SWITCHES=all")
def test_servers_that_are_known_by_their_addresses_alone(trio):
    """Accounts for replication are made on them, also on one that is read-only."""
    hosts = {name: AddressHost(name, trio.server(name).make_address(tcp=True)) for name in trio.names}
    cluster = FailoverCluster(hosts, trio.folder / "by-address")
    trio.load.start()
    time.sleep(0.5)
    with contextlib.closing(cluster.make_executor(trio.clients, trio.say)) as executor:
        outcome = executor.run(FailoverWish(trio.source, kind="switchover"))
    assert outcome.elected and not outcome.left_out
    old, trio.source = trio.source, outcome.elected
    new = trio.server(trio.source)
    trio.load.wait_for(new.port, 0.0)
    trio.load.stop()
    assert not trio.load.missing(new) and trio.equal()
    text = "SELECT @@global.read_only" + ("" if trio.flavor == "mariadb" else ", @@global.super_read_only")
    assert set(sql(trio.server(old), text)[0]) == {1} and set(sql(new, text)[0]) == {0}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_tail_of_a_dead_source_is_read_from_its_volume(labs, tmp_path, flavor):
    """Asynchronous, and the replicas' links are slow: their receive threads are stopped before the
    kill, so that there is a tail for certain. It is applied, or it is given up and listed."""
    chance = random.Random(SEED)
    trio = Trio(labs.up(time_scale=1_000_000), tmp_path, flavor, semi_sync=False)
    rescued = sum(rescue(trio, chance, number) for number in range(RESCUES))
    print(f"{RESCUES} async kills ({flavor}): {rescued} transactions rescued, 0 lost")
    listed = [lose(trio, chance, number) for number in range(LOSSES)]
    print(f"{LOSSES} async kills ({flavor}): {sum(listed)} transactions lost, each of them listed")


def behind_and_dead(trio: Trio, chance: random.Random) -> None:
    trio.load.start()
    time.sleep(chance.uniform(0.3, 0.8))
    stop = query_host_state(trio.cluster().hosts[trio.source]).dialect.stop_receive()
    for name in trio.names:
        if name != trio.source:
            sql(trio.server(name), *stop)
    time.sleep(chance.uniform(0.2, 0.5))
    os.kill(pid_of(trio), signal.SIGKILL)
    trio.load.stop()


def rescue(trio: Trio, chance: random.Random, number: int) -> int:
    behind_and_dead(trio, chance)
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        with pytest.raises(CouldNotRun, match="acknowledged commits may be missing"):
            executor.run(FailoverWish(trio.source))
        outcome = executor.run(FailoverWish(trio.source, rescue=True))
    new = trio.server(outcome.elected or "")
    lost = trio.load.missing(new)
    assert not lost, f"round {number}: {len(lost)} of {len(trio.load.notes)} are missing after the rescue"
    assert outcome.rescued and outcome.lossless and outcome.lost is None
    before, trio.source = trio.source, new.name
    repair_server(trio, before)
    answer = trio.rejoin(before)
    assert answer["state"] == "rejoined" and trio.equal(), f"round {number}: {answer}"
    print(f"round {number} rescue {trio.flavor}: {outcome.rescued} transactions, {outcome.seconds:.2f} s")
    return outcome.rescued


def lose(trio: Trio, chance: random.Random, number: int) -> int:
    """The list is held against the old source itself, once it is up again: what its recovered
    tables and its own history have beyond the new source's."""
    behind_and_dead(trio, chance)
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        outcome = executor.run(FailoverWish(trio.source, accept_loss=True))
    assert not outcome.lossless and outcome.elected and outcome.lost
    new, old = trio.server(outcome.elected), trio.source
    listed = Path(outcome.lost_file).read_text().split()
    assert len(listed) == len(set(listed)) == outcome.lost
    missing = trio.load.missing(new)
    repair_server(trio, old)
    trio.source = new.name
    answer = trio.rejoin(old)
    assert answer["state"] == "diverged", f"round {number}: {answer}"
    assert answer["extra"] == outcome.lost_gtids, f"round {number}: {answer}"
    # Each transaction of the clients is a row; the watcher did not run, so there are no others.
    there = {tuple(row) for row in sql(new, f"SELECT client, number FROM {SCHEMA}.entries")}
    alone = {tuple(row) for row in sql(trio.server(old), f"SELECT client, number FROM {SCHEMA}.entries")} - there
    assert {(entry.client, entry.number) for entry in missing} <= alone
    # Listed and never answered: at most one of each client.
    assert len(alone) == len(listed) <= len(missing) + trio.load.clients + 1, (
        f"round {number}: {len(missing)} acknowledged ones are missing, {len(alone)} on the old source, {len(listed)} listed"
    )
    for member in missing:
        trio.load.notes.remove(member)
    how = REWINDS[trio.flavor]
    answer = trio.rejoin(old, how)
    assert answer["state"] == {"rewind": "rewound", "seed": "seeded"}[how] and trio.equal(), f"round {number}: {answer}"
    trio.forget_failover()
    print(f"round {number} loss {trio.flavor}: {len(listed)} listed, {len(missing)} of them had been acknowledged")
    return len(listed)


def test_a_switchover_that_cannot_be_finished_leaves_the_source_open(trio):
    """The chosen replica holds a read lock, so it never applies what it received: from the start, so
    that the writes are not stopped at all, and from the moment at which they are."""
    source, steps = trio.source, []
    chosen = next(name for name in trio.names if name != source)
    sql(trio.server(source), "SET GLOBAL event_scheduler = ON", *event("ticks"))

    def attempt(match: str, drain_s: float) -> None:
        def say(text: str) -> None:
            trio.say(text)
            steps.append(text)

        executor = trio.cluster().make_executor(trio.clients, say)
        executor.drain_s, executor.max_wait_s = drain_s, 1.0
        try:
            with pytest.raises(CouldNotRun, match=match):
                executor.run(FailoverWish(trio.source, kind="switchover", target=chosen))
        finally:
            executor.close()

    with connect(trio.server(chosen).make_address(), 60.0) as connection, connection.cursor() as cursor:
        trio.load.start()
        time.sleep(0.7)
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        attempt("comes no nearer, so the writes were not stopped for it", 1.0)
        assert not any(text.endswith(": stop the writes") for text in steps)
        cursor.execute("UNLOCK TABLES")
        trio.load.stop()
        assert trio.equal()
        # Something is left to apply when the writes have stopped.
        number = time.monotonic_ns() % 2**31
        late = threading.Thread(
            target=lambda: sql(trio.server(source), f"INSERT INTO {SCHEMA}.entries VALUES (99, {number}, '')")
        )

        def say_and_write(self, say, own, real=changes.Closing.stop):
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            late.start()
            late.join()
            return real(self, say, own)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(changes.Closing, "stop", say_and_write)
            attempt("has not applied what it received after 1 s: [0-9,]+ transactions are left", 60.0)
        assert any(text == f"{source} takes writes again" for text in steps)
    assert sql(trio.server(source), "SELECT @@global.read_only, @@global.event_scheduler") == ((0, "ON"),)
    for name in trio.names:
        if name != source:
            [channel] = query_host_state(trio.cluster().hosts[name]).channels
            assert channel.source_port == trio.server(source).port, f"{name} follows the chosen one still"
    assert trio.equal()
