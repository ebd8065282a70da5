"""Faults of a source under load, with semi-sync: the watcher acts, and nothing that was acknowledged
is missing. FAULTS=100 for the soak; the figures are printed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import statistics
import time

from lab_servers import sql
from under_load import REWINDS, Trio, event, states_of_events

from headrace.base import processes

FAULTS = int(os.environ.get("FAULTS", "1"))
SEED = int(os.environ.get("SEED", "1"))


def pid_of(trio: Trio) -> int:
    pid = trio.server(trio.source).pid
    assert pid is not None
    return pid


def kill(trio: Trio) -> None:
    os.kill(pid_of(trio), signal.SIGKILL)


def power_cut(trio: Trio) -> None:
    """Cuts the machine's power: its volumes and its process."""
    server = trio.server(trio.source)
    assert server.volumes.data is not None
    trio.lab.fault(server.volumes.data, "power-cut", in_s=0.0, seed=random.randrange(2**62))
    os.kill(pid_of(trio), signal.SIGKILL)


def pause(trio: Trio) -> None:
    """The volume answers no more; the server does. Not for long: a sync(2) anywhere on the machine
    waits for it."""
    trio.lab.fault(trio.server(trio.source).volumes.data or "", "pause", seconds=20)


def fill(trio: Trio) -> None:
    place = trio.server(trio.source).paths.data_mount
    room = os.statvfs(place)
    with open(place / "filler", "wb") as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    # The last free bytes are filled in small pieces.
    with contextlib.suppress(OSError), open(place / "filler2", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def repair_server(trio: Trio, name: str) -> None:
    """Ends the fault of a server, checks that the fenced server is down, and frees its volume."""
    server = trio.server(name)
    trio.lab.clear_fault(server.volumes.data or "")
    process = processes.find_by_argument(f"--defaults-file={server.paths.config}", user_of_servers())
    assert process is None or processes.wait_gone(process, 30), "the fenced server still runs"
    for filler in ("filler", "filler2"):
        with contextlib.suppress(OSError):
            (server.paths.data_mount / filler).unlink()


def user_of_servers():
    from headrace.servers.access import find_service_user

    return find_service_user()


ALL = {entry.__name__: entry for entry in (kill, pause, power_cut, fill)}
KINDS = [ALL[name] for name in os.environ.get("FAULT_KINDS", "kill,pause,power_cut,fill").split(",")]


def test_no_acknowledged_commit_is_lost(trio):
    try:
        rounds(trio, random.Random(SEED))
    finally:
        # A paused volume would hold up the end of its server.
        for volume in trio.lab.volumes():
            trio.lab.clear_fault(volume["id"])


def rounds(trio: Trio, chance: random.Random) -> None:
    outages: dict[str, list[float]] = {}
    acknowledged = rejoined = 0
    ends: dict[str, int] = {}
    sql(trio.server(trio.source), "SET GLOBAL event_scheduler = ON", *event("ticks"))
    for number in range(FAULTS):
        fault = KINDS[number % len(KINDS)]
        trio.load.start()
        with trio.watched() as watch:
            time.sleep(chance.uniform(0.3, 1.0))
            before = len(trio.load.notes)
            struck = time.monotonic()
            print(f"{struck:.2f} {fault.__name__}")
            fault(trio)
            outcome = watch.outcome()
            assert outcome.elected and outcome.lossless, outcome
            new = trio.server(outcome.elected)
            trio.load.wait_for(new.port, struck)
            time.sleep(0.3)
        trio.load.stop()
        first = trio.load.first_on(new.port, struck)
        assert first is not None, f"round {number}, {fault.__name__}: nobody could write again"
        # A full disk stops writes some seconds later: the outage begins with the last answer.
        last = max(note.at for note in trio.load.notes if note.port != new.port)
        outages.setdefault(fault.__name__, []).append(first - max(struck, last))
        late = [note for note in trio.load.notes if note.port != new.port and note.at > first]
        assert not late, f"round {number}, {fault.__name__}: {len(late)} were acknowledged by the old source"
        lost = trio.load.missing(new)
        assert not lost, f"round {number}, {fault.__name__}: {len(lost)} of {len(trio.load.notes)} lost: {lost[:3]}"
        assert before > 0
        states = states_of_events(new)
        assert states["ticks"] == "ENABLED" and states["ticks_off"] != "ENABLED", states
        old, trio.source = trio.source, outcome.elected
        repair_server(trio, old)
        trio.forget_failover()
        answer = trio.rejoin(old, REWINDS[trio.flavor])
        ends[answer["state"]] = ends.get(answer["state"], 0) + 1
        assert trio.equal(), f"round {number}, {fault.__name__}: the servers differ after {answer}"
        rejoined += 1
        took = outages[fault.__name__][-1]
        print(f"round {number} {fault.__name__} {trio.flavor}: {took:.2f} s, {answer['state']} {answer['extra']}")
    acknowledged = len(trio.load.notes)
    for name, result in (*outages.items(), ("all", [entry for each in outages.values() for entry in each])):
        ordered = sorted(result)
        print(
            f"{trio.flavor} {name}: {len(result)} faults; RTO median {statistics.median(result):.2f} s, "
            f"p95 {ordered[round(0.95 * (len(ordered) - 1))]:.2f} s, most {ordered[-1]:.2f} s"
        )
    print(f"{trio.flavor}: {FAULTS} faults, {acknowledged} acknowledged, 0 lost; rejoined {rejoined}: {ends}")
