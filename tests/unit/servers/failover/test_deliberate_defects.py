"""A rule of failover is taken away, and the simulation has to notice it: each of these defects breaks a promise in one
of its first seeds.

The seed that noticed it (`NOTICING_SEEDS`) is played first, and the others only if it passes. If a change of the simulation
moves the seeds, DEFECT_SEEDS=2000 looks further, and the seeds here are to be written anew.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from test_simulated_failovers import run as play_seed

from headrace.mysql import state
from headrace.servers.failover import actions, lease, run
from headrace.servers.failover.planning import election, guarantee, members, planner, progress
from headrace.servers.failover.planning.progress import Fenced

SEEDS = int(os.environ.get("DEFECT_SEEDS", "400"))
READ_SEMI_SYNC = state._read_semi_sync


def do_nothing(*_: Any, **__: Any) -> None:
    pass


def fence_in_words(_: Any, run: Any, step: Any) -> None:
    run.log(Fenced(step.server, "killed", run.surroundings.read_now_s()))
    run.observer.fenced.add(step.server)


def needed_less_one(proof: members.AckProof) -> int:
    return max(len(proof.ackers), proof.clients) - proof.wait_count


def waits_for_ever(*values: Any) -> state.SemiSync:
    return replace(READ_SEMI_SYNC(*values), waits_alone=True)


def compare_starts(run: members.ThreadRun, since: members.ThreadRun, keeps_relay_log: bool) -> bool:
    """The rule of an unbroken run for servers of any age: starts within the jitter are one."""
    same = run.receiver == since.receiver or run.applier == since.applier
    return abs(run.start_s - since.start_s) <= members.START_JITTER_S and (keeps_relay_log or same)


# Defects by name: the object and attribute that are replaced, and the replacement.
DEFECTS: dict[str, list[tuple[Any, str, Any]]] = {
    "the old source is not fenced": [(actions.Fence, "run", fence_in_words)],
    "replicas go on receiving": [(planner, "_revoke", lambda *_: ())],
    "a relay log that was thrown away counts": [(members.ThreadRun, "is_unbroken", lambda *_: True)],
    "one acknowledging replica fewer suffices": [(members.AckProof, "needed", property(needed_less_one))],
    "the time-out of semi-sync is never over": [(planner, "_has_fallen_back", lambda *_: False)],
    "nothing waits for the relay log": [
        (planner, "compute_usable", lambda seen: seen.state.executed),
        (planner, "_find_missing", lambda *_: ""),
    ],
    "any replica is elected": [
        (election, "choose_best", lambda able, *_: able[0]),
        (planner, "_find_missing", lambda *_: ""),
    ],
    "the lease is not taken": [(lease.Lease, "take", do_nothing), (lease.Lease, "check", do_nothing)],
    "a run that was killed is forgotten": [(progress.Progress, "is_same", lambda *_: False)],
    "a source that may acknowledge is replaced": [(planner, "_can_still_acknowledge", lambda *_: None)],
    "a replica that has just started counts": [
        (members.ThreadRun, "is_settled", property(lambda _: True)),
        (members.ThreadRun, "is_unbroken", compare_starts),
    ],
    "writes stay closed after a failover": [(actions.Writable, "run", do_nothing)],
    "writes stay closed after a switchover that failed": [(run.ChangeRun, "reopen", do_nothing)],
    "settings for later starts are not stored": [(run.ChangeRun, "store", do_nothing)],
    "a proof outlives semi-sync": [(guarantee, "is_waiting", lambda _: True)],
    "a source is taken to wait without its replicas": [(state, "_read_semi_sync", waits_for_ever)],
}

# A seed that broke a promise, by defect, on 2026-11-30. `test_simulated_failovers.py` plays the same seeds without a defect.
NOTICING_SEEDS = {
    "the old source is not fenced": 57,
    "replicas go on receiving": 458,
    "a relay log that was thrown away counts": 291,
    "one acknowledging replica fewer suffices": 44,
    "the time-out of semi-sync is never over": 1316,
    "nothing waits for the relay log": 19,
    "any replica is elected": 44,
    "the lease is not taken": 1,
    "a run that was killed is forgotten": 36,
    "a source that may acknowledge is replaced": 176,
    "a replica that has just started counts": 79,
    "writes stay closed after a failover": 1,
    "writes stay closed after a switchover that failed": 42,
    "settings for later starts are not stored": 1,
    "a proof outlives semi-sync": 60,
    "a source is taken to wait without its replicas": 272,
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_noticed(defect: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for place, name, replacement in DEFECTS[defect]:
        monkeypatch.setattr(place, name, replacement)
    for seed in (NOTICING_SEEDS[defect], *range(SEEDS)):
        try:
            play_seed(seed)
        except AssertionError:
            capsys.readouterr()  # the trace of the run that failed
            return
    pytest.fail(f"{SEEDS} seeds passed although {defect}")
