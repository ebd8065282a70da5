"""Single rules of the planner, traps, detection and the journal, on states of the naive model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from relay_logs import OUTCOME, Cluster, going

from headrace.errors import CouldNotRun
from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.planning.dry_run import doubt_election
from headrace.servers.failover.planning.election import collect_gtids, find_errant, find_extra, require_state
from headrace.servers.failover.planning.guarantee import carry_proof, is_intact, judge_guarantee
from headrace.servers.failover.planning.members import FailoverStep, FailoverWish, ScheduledEvent, Seen, ThreadRun
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import (
    Began,
    Elected,
    Fenced,
    Finished,
    GivenUp,
    Hurried,
    Listed,
    Preparation,
    Progress,
    Proved,
    StepBegan,
    Unhurried,
    WritesClosing,
)
from headrace.servers.failover.planning.semisync import list_traps
from headrace.servers.failover.rescue import format_ranges
from headrace.servers.failover.surroundings import REAL
from headrace.servers.failover.watcher import STALLED_S, Suspicion


def cluster(replicas: int = 2, flavor: str = "mariadb", fence: bool = True, timeout_s: float = 1e9) -> Cluster:
    simulated = Cluster(replicas, flavor, 1, timeout_s, fence)
    for _ in range(3):
        simulated.write()
    for replica in simulated.servers[1:]:
        for _ in range(3):
            simulated.receive(replica.index)
            simulated.apply(replica.index)
    simulated.look()
    return simulated


def wish(simulated: Cluster, **more) -> Progress:
    return going("s0", proof=simulated.proof, fenced_s=simulated.fenced_s, **more)


def promoted() -> Cluster:
    """Returns a cluster whose source is dead and whose s1 takes writes already, without a replica."""
    simulated = cluster()
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica)
        replica.follows = None
    simulated.servers[1].read_only = False
    return simulated


def changed(seen: dict[str, Seen], name: str, **state) -> dict[str, Seen]:
    member = seen[name]
    assert member.state is not None
    return seen | {name: replace(member, state=replace(member.state, **state))}


def test_a_second_start_within_seconds_of_the_first_is_not_taken_for_it():
    # Observed 2 s after its start, and again 2 s after another one 2.5 s later: the starts lie within the jitter.
    young = ThreadRun(start_s=100.0, uptime_s=2.0, receiver=5, applier=6)
    again = ThreadRun(start_s=102.5, uptime_s=2.0, receiver=5, applier=6)
    assert not again.is_unbroken(young, keeps_relay_log=True)
    # A server that had run for longer than twice the jitter tells a restart by its uptime.
    settled = ThreadRun(start_s=100.0, uptime_s=6.0, receiver=5, applier=6)
    later = ThreadRun(start_s=100.5, uptime_s=60.0, receiver=5, applier=6)
    assert later.is_unbroken(settled, keeps_relay_log=False)
    assert not ThreadRun(start_s=106.5, uptime_s=1.0, receiver=5, applier=6).is_unbroken(settled, keeps_relay_log=True)


def test_slow_answers_are_no_restart():
    """A busy server's answers of 20 s move its start by as much; a start after the answer of before is another."""
    before = ThreadRun(start_s=100.0, uptime_s=900.0, receiver=5, applier=6)
    slow = ThreadRun(start_s=120.0, uptime_s=905.0, receiver=5, applier=6)
    assert slow.is_unbroken(before, keeps_relay_log=True) and before.is_unbroken(slow, keeps_relay_log=True)
    assert not ThreadRun(start_s=1_001.0, uptime_s=20.0).is_unbroken(before, keeps_relay_log=True)
    # It had run for 15 s when it answered, at 115.0: a start at 114.0 may be one after that.
    young = ThreadRun(start_s=100.0, uptime_s=15.0, receiver=5, applier=6)
    assert ThreadRun(start_s=111.0, uptime_s=30.0).is_unbroken(young, keeps_relay_log=True)
    assert not ThreadRun(start_s=114.0, uptime_s=30.0).is_unbroken(young, keeps_relay_log=True)


@pytest.mark.parametrize("seed", range(200))
def test_a_restart_is_always_seen(seed):
    """Random restarts and answers as slow as may be: a server that was started anew is never taken for the same."""
    chance = random.Random(seed)
    for _ in range(50):
        start = chance.uniform(-1_000.0, 0.0)
        uptime = int(-start)  # of a server that answers now, in whole seconds
        before = ThreadRun(chance.uniform(0.0, 30.0) - uptime, uptime)
        answered = before.start_s + before.uptime_s
        again = answered + chance.uniform(0.0, 40.0)
        looked = again + chance.uniform(0.0, 60.0)
        uptime = int(looked - again) + chance.randrange(2)
        after = ThreadRun(looked + chance.uniform(0.0, 30.0) - uptime, uptime)
        assert not after.is_unbroken(before, keeps_relay_log=True), (before, after)


def test_a_source_that_works_is_not_failed_over():
    simulated = cluster()
    assert "alive and takes writes" in plan(simulated.look(), wish(simulated)).refusal


def test_an_applier_that_is_stopped_is_started_while_receiving_goes_on():
    """MDEV-4698: once receiving has stopped, its start would throw the relay log away."""
    simulated = cluster(replicas=1)
    simulated.stop_threads(simulated.servers[1], receive=False)
    simulated.write()
    simulated.receive(1)
    simulated.kill_source()
    actions = [step.action for step in plan(simulated.look(), wish(simulated)).stage]
    assert actions == ["fence", "start-apply", "stop-receive"]


def test_a_relay_log_that_will_be_thrown_away_does_not_count():
    simulated = cluster(replicas=1)
    simulated.stop_threads(simulated.servers[1], receive=False)
    simulated.write()
    simulated.receive(1)
    simulated.stop_threads(simulated.servers[1])
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    refused = plan(simulated.look(), wish(simulated))
    assert refused.refusal and not refused.steps
    mysql = cluster(replicas=1, flavor="mysql")
    mysql.stop_threads(mysql.servers[1], receive=False)
    mysql.write()
    mysql.receive(1)
    mysql.stop_threads(mysql.servers[1])
    mysql.kill_source()
    mysql.fenced_s = mysql.now
    steps = [step.action for step in plan(mysql.look(), wish(mysql)).steps]
    assert steps[:2] == ["start-apply", "wait-applied"], "MySQL keeps its relay log"


def test_without_a_fence_enough_replicas_must_be_stopped():
    simulated = cluster(fence=False)
    simulated.cut |= {(-1, 0), (0, 1), (0, 2), (-1, 2)}
    simulated.stop_threads(simulated.servers[1], apply=False)
    assert "could not be fenced, and only 1" in plan(simulated.look(), wish(simulated)).refusal
    simulated.cut -= {(-1, 2)}
    simulated.stop_threads(simulated.servers[2], apply=False)
    assert plan(simulated.look(), wish(simulated)).elected


def test_a_timeout_that_may_have_passed_is_no_guarantee():
    simulated = cluster(timeout_s=5.0)
    simulated.kill_source()
    simulated.fenced_s = simulated.now + 6.0
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    assert "fallen back to asynchronous" in plan(simulated.look(), wish(simulated)).refusal
    assert plan(simulated.look(), wish(simulated, accept_loss=True)).elected


@pytest.mark.parametrize(
    "harm, words",
    [
        (lambda replica: setattr(replica, "delayed", True), "delayed on purpose"),
        (lambda replica: setattr(replica, "logs_updates", False), "does not log what it applies"),
        (lambda replica: setattr(replica, "apply_error", "1062: Duplicate entry"), "cannot apply"),
        (lambda replica: setattr(replica, "by_position", True), "follows by file positions"),
    ],
    ids=["delayed", "no log_replica_updates", "broken", "by position"],
)
def test_unfit_replicas_are_named(harm, words):
    simulated = cluster(replicas=1)
    harm(simulated.servers[1])
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    simulated.stop_threads(simulated.servers[1], apply=False)
    assert words in plan(simulated.look(), wish(simulated)).refusal


def test_rings_and_second_writers_are_refused():
    simulated = cluster()
    simulated.servers[0].follows = 1
    assert "follow each other" in plan(simulated.seen(), wish(simulated)).refusal
    other = cluster()
    other.servers[2].read_only = False
    assert "writable next to" in plan(other.seen(), wish(other)).refusal


def test_two_server_ids_alike_are_refused():
    simulated = cluster()
    assert "both have server_id" in plan(changed(simulated.seen(), "s2", server_id=2), wish(simulated)).refusal


def test_one_that_was_elected_and_is_gone_stops_everything():
    simulated = cluster()
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    simulated.cut.add((-1, 1))
    assert "was elected, does not answer" in plan(simulated.look(), wish(simulated, elected="s1")).refusal


def test_the_guarantee_follows_the_status():
    simulated = cluster()
    assert judge_guarantee(simulated.seen(), simulated.seen()["s0"]).level == "kept"
    simulated.source.status = False
    assert judge_guarantee(simulated.seen(), simulated.seen()["s0"]).level == "async"
    for replica in simulated.servers[1:]:
        replica.delayed = True
    assert judge_guarantee(simulated.seen(), simulated.seen()["s0"]).level == "none"


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_source_that_goes_on_alone_at_once_has_no_timeout_that_counts(flavor):
    """With rpl_semi_sync_source_wait_no_replica = OFF it acknowledges alone as soon as its replicas have left it."""
    simulated = cluster(flavor=flavor)
    proof = simulated.proof
    assert proof is not None and carry_proof(proof, simulated.seen()) is not None
    simulated.source_waits_alone = False
    seen = simulated.look()
    assert simulated.proof is None and carry_proof(proof, seen) is None
    name = "rpl_semi_sync_source_wait_no_replica" if flavor == "mysql" else "rpl_semi_sync_master_wait_no_slave"
    guarantee = judge_guarantee(seen, seen["s0"])
    assert guarantee.level == "async" and f"{name} is OFF" in guarantee.reasons[0]
    trap = next(trap for trap in list_traps(seen, seen["s0"]) if trap.name == "goes-on-alone")
    assert trap.kind == "loss" and trap.do.startswith(f"SET GLOBAL {name} = ON")


def test_a_replica_by_file_positions_is_no_acker_that_counts():
    """MariaDB does not say what its relay log has, where the commits are that it acknowledged."""
    simulated = cluster()
    proof = simulated.proof
    assert proof is not None and is_intact(proof, simulated.seen()["s1"])
    simulated.servers[1].by_position = True
    seen = simulated.look()
    assert not is_intact(proof, seen["s1"]) and is_intact(proof, seen["s2"])
    guarantee = judge_guarantee(seen, seen["s0"])
    assert guarantee.level == "async" and "s1 acknowledges and follows by file positions" in guarantee.reasons[0]
    # Both are asked for each commit: the other one has it too.
    simulated.count = 2
    assert judge_guarantee(simulated.seen(), simulated.seen()["s0"]).level == "kept"
    # MySQL notes it, however it follows.
    mysql = cluster(flavor="mysql")
    mysql.servers[1].by_position = True
    assert judge_guarantee(mysql.seen(), mysql.seen()["s0"]).level == "kept"


def test_a_restarted_acker_is_not_intact():
    simulated = cluster()
    assert simulated.proof is not None and is_intact(simulated.proof, simulated.seen()["s1"])
    simulated.restart(1, power=False)
    assert not is_intact(simulated.proof, simulated.seen()["s1"])


def named(simulated: Cluster, before=None) -> set[tuple[str, str]]:
    seen = simulated.seen()
    return {(trap.server, trap.name) for trap in list_traps(seen, seen["s0"], before)}


def test_each_trap_is_named():
    simulated = cluster()
    simulated.source.status = False
    assert ("s0", "fell-back") in named(simulated)
    simulated = cluster()
    before = changed(simulated.seen(), "s0", semi_sync=replace(simulated.state(simulated.source).semi_sync, no_tx=-5))
    assert ("s0", "unacknowledged") in named(simulated, before)
    simulated.count = 3
    assert ("s0", "too-many-asked") in named(simulated)
    simulated = cluster()
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    assert {("s0", "too-few-connected"), ("s1", "not-receiving")} <= named(simulated)
    simulated = cluster(timeout_s=10.0)
    simulated.servers[1].source_role = True
    simulated.servers[2].applier = 0
    assert {("s0", "short-timeout"), ("s1", "source-role-on-replica"), ("s2", "acknowledges-only")} <= named(simulated)
    simulated = cluster()
    for _ in range(1_200):
        simulated.write()
    assert ("s1", "receive-behind") in named(simulated)
    for server in simulated.servers:
        server.sync_relay_log = 1
    simulated = cluster()
    for server in simulated.servers:
        server.sync_relay_log = 1
    assert named(simulated) == set(), "nothing is wrong here"


def test_detection_needs_the_replicas_word():
    simulated = cluster()
    suspicion = Suspicion()
    simulated.cut.add((-1, 0))  # the watcher alone is cut off: its replicas still receive
    assert [suspicion.add_observation(simulated.seen(), "s0", 0.0) for _ in range(5)] == [""] * 5
    simulated.kill_source()
    first, second = (
        suspicion.add_observation(simulated.seen(), "s0", 0.0),
        suspicion.add_observation(simulated.seen(), "s0", 0.5),
    )
    assert first == "" and "no replica receives" in second


def test_detection_of_a_source_that_takes_no_writes():
    simulated = cluster()
    seen = simulated.seen()
    stalled = seen | {"s0": replace(seen["s0"], write="stalled", error="no answer")}
    blocked = seen | {"s0": replace(seen["s0"], write="blocked", error="a lock")}
    suspicion = Suspicion()
    assert suspicion.add_observation(stalled, "s0", 0.0) == ""
    assert suspicion.add_observation(blocked, "s0", STALLED_S + 1) == "", "a lock is no reason"
    assert suspicion.add_observation(stalled, "s0", 10.0) == ""
    assert "takes no writes" in suspicion.add_observation(stalled, "s0", 10.0 + STALLED_S)


def test_the_journal_knows_what_cannot_be_seen(tmp_path):
    simulated = cluster()
    journal = Journal(tmp_path / "journal")
    assert journal.read_unfinished() is None
    assert simulated.proof is not None
    journal.write(Began(FailoverWish("s0", accept_loss=True), "watch", REAL.read_boot()))
    journal.write(Proved(simulated.proof))
    journal.write(Fenced("s0", "killed", simulated.now))
    journal.write(Elected("s1", None, True))
    with open(tmp_path / "journal", "a") as file:
        file.write('{"event": "fini')  # a crash in the middle of a line
    again = Journal(tmp_path / "journal")
    unfinished = again.read_unfinished()
    assert unfinished is not None and unfinished.by == "watch"
    assert (unfinished.elected, unfinished.wish.accept_loss, unfinished.proof) == ("s1", True, simulated.proof)
    assert unfinished.fenced_s == simulated.now
    with journal.lock(), pytest.raises(CouldNotRun, match="under way"), again.lock():
        pass
    with again.lock():
        again.write(Finished(OUTCOME))
    assert again.read_unfinished() is None and again.history.failed_over_at is not None


def test_what_no_later_look_can_make_certain_is_refused_before_anything_is_changed():
    simulated = cluster()
    simulated.kill_source()
    progress = replace(wish(simulated), proof=None)
    refused = plan(simulated.look(), progress)
    assert "acknowledged commits may be missing" in refused.refusal and "--accept-loss" in refused.hint
    # With the loss accepted, the same states are fenced and revoked.
    accepted = plan(simulated.look(), replace(progress, wish=replace(progress.wish, accept_loss=True)))
    assert not accepted.refusal
    assert [step.action for step in accepted.stage] == ["fence", "stop-receive", "stop-receive"]


def test_a_switchover_keeps_semi_sync_on_a_successor_that_did_not_acknowledge():
    simulated = cluster()
    seen = simulated.look()
    source, chosen = seen["s0"].state, seen["s1"].state
    assert source is not None and source.semi_sync.source_enabled and chosen is not None
    seen = changed(seen, "s1", semi_sync=replace(chosen.semi_sync, replica_enabled=False))
    seen = changed(seen, "s0", read_only=True)
    steps = plan(seen, going("s0", kind="switchover", target="s1"), simulated.now).steps
    actions = [step.action for step in steps]
    assert actions.index("semi-sync-source-on") < actions.index("writable")
    # s2 acknowledges, and the old source will: one of them is waited for, as before.
    assert next(step.count for step in steps if step.action == "semi-sync-source-on") == 1


def with_role(seen, name, clients, **semi_sync):
    """A server that already has the source's role of semi-sync, and waits."""
    semi = require_state(seen[name]).semi_sync
    semi = replace(semi, source_enabled=True, source_status=True, clients=clients, **semi_sync)
    return changed(seen, name, semi_sync=semi)


@pytest.mark.parametrize("kind", ["failover", "switchover"])
def test_a_role_that_a_run_has_left_is_set_again(kind):
    """The run that was killed may have set another count, and nothing for later starts."""
    simulated = cluster()
    if kind == "failover":
        simulated.kill_source()
        simulated.fenced_s = simulated.now
        for replica in simulated.servers[1:]:
            simulated.stop_threads(replica, apply=False)
    seen = with_role(simulated.look(), "s1", clients=1, wait_count=2)
    steps = plan(seen, replace(wish(simulated), wish=FailoverWish("s0", kind, target="s1")), simulated.now).steps
    (on,) = [step for step in steps if step.action == "semi-sync-source-on"]
    assert (on.server, on.count) == ("s1", 1)
    assert "semi-sync-source-off" not in [step.action for step in steps], "it can apply: a replica acknowledges"


def test_a_replica_that_waits_for_acknowledgements_of_what_it_applies_is_released():
    simulated = cluster()
    seen = with_role(simulated.look(), "s1", clients=0)
    switchover = going("s0", kind="switchover", target="s1")
    first, second, *_ = plan(seen, switchover).stage
    assert (first.action, first.server, second.action) == ("semi-sync-source-off", "s1", "wait-near")
    simulated.write()
    simulated.receive(1)
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    steps = plan(with_role(simulated.look(), "s1", clients=0), wish(simulated), simulated.now).steps
    assert [step.action for step in steps[:2]] == ["semi-sync-source-off", "wait-applied"]


def test_a_follower_of_the_new_source_is_released():
    simulated = promoted()
    simulated.servers[2].follows = 1
    progress = replace(wish(simulated), decision=Elected("s1", None, True), clients_updated=True)
    assert not plan(simulated.look(), progress).steps
    steps = plan(with_role(simulated.look(), "s2", clients=0), progress).steps
    assert [(step.action, step.server) for step in steps] == [("semi-sync-source-off", "s2")]


def test_missed_heartbeats_are_silence():
    """The receive thread notices a cut link after the timeout of its network; its heartbeats are missed sooner."""
    simulated = cluster()
    simulated.cut |= {(-1, 0)}
    seen = simulated.seen()
    assert all(require_state(seen[name]).channels[0].receive == "on" for name in ("s1", "s2"))
    deaf = seen | {"s1": replace(seen["s1"], deaf=True)}
    both = deaf | {"s2": replace(deaf["s2"], deaf=True)}
    suspicion = Suspicion()
    assert [suspicion.add_observation(deaf, "s0", 0.0) for _ in range(5)] == [""] * 5, "one still hears"
    assert "no replica receives" in suspicion.add_observation(both, "s0", 0.0)
    assert Suspicion().add_observation(both, "s0", 0.0) == "", "one look without an answer is chance"


def test_a_write_that_hangs_counts_from_its_beginning():
    simulated = cluster()
    seen = simulated.seen()
    hung = seen | {"s0": replace(seen["s0"], write="stalled", waited_s=1.0)}
    suspicion = Suspicion()
    assert suspicion.add_observation(hung, "s0", 10.0) == "" and suspicion.stalled_since == 9.0
    assert suspicion.compute_write_s(10.0) == STALLED_S - 1.0, "the next one is given up when the time is over"
    assert "takes no writes" in suspicion.add_observation(hung, "s0", 9.0 + STALLED_S)
    alone = Suspicion(stalled_s=0.5)
    assert alone.add_observation(hung, "s0", 10.0) == "", "two writes have to fail"


def steps_of(simulated, **choices):
    planned = plan(simulated.look(), going("s0", kind="switchover", **choices)).steps
    return [(step.stage, step.action, step.server) for step in planned]


def test_a_switchover_does_before_what_needs_no_stop_of_the_writes():
    simulated = cluster()
    simulated.write()
    first = [(1, "wait-near", "s1"), (1, "repoint-early", "s2")]
    closing = [(2, "wait-near", "s1"), (2, "read-only", "s0"), (2, "wait-applied", "s1")]
    opening = [(2, "semi-sync-source-on", "s1"), (2, "writable", "s1"), (2, "clients", "s1")]
    after = [(2, "leave-source", "s1"), (2, "semi-sync-replica-off", "s1")]
    late = [(2, "repoint", "s2")]
    # A replica that still follows the old source follows the new one before that is opened.
    assert steps_of(simulated) == [*first, *closing, opening[0], *late, *opening[1:], *after]
    assert steps_of(simulated, prepared=Preparation(stay=("s2",))) == [
        *closing,
        opening[0],
        *late,
        *opening[1:],
        *after,
    ]
    simulated.servers[2].follows = 1
    assert steps_of(simulated, prepared=Preparation(moved=("s2",)), target="s1") == [*closing, *opening, *after]


def test_only_replicas_that_the_old_source_can_spare_move_beforehand():
    simulated = cluster()
    simulated.count = 2
    assert "repoint-early" not in [action for _, action, _ in steps_of(simulated)]
    # Without semi-sync no commit waits for them: they follow when the new source is open.
    simulated = cluster(timeout_s=0.0)
    for server in simulated.servers:
        server.acks = False
    actions = [action for _, action, _ in steps_of(simulated)]
    assert "repoint-early" not in actions and "repoint" not in actions
    simulated = cluster()
    simulated.servers[2].delayed = True
    assert "repoint-early" not in [action for _, action, _ in steps_of(simulated)]


def test_a_source_that_will_acknowledge_alone_says_what_is_given_up():
    simulated = cluster(replicas=1)
    simulated.kill_source()
    planned = plan(simulated.look(), wish(simulated))
    assert not planned.refusal
    assert "s1 will acknowledge commits alone (--alone serve)" in planned.gives_up, "before anything is done"
    assert "--alone refuse" in planned.gives_up and planned.to_dict()["gives_up"] == planned.gives_up
    refused = plan(simulated.look(), wish(simulated, alone="refuse"))
    assert "no replica would be left to acknowledge what s1 commits" in refused.refusal
    two = cluster(replicas=2)
    two.kill_source()
    assert plan(two.look(), wish(two)).gives_up == ""
    # Two were asked for, and one is left.
    three = Cluster(2, "mysql", 2, 1e9, True)
    three.look()
    three.kill_source()
    assert "will wait for 1 of the 2 acknowledgements" in plan(three.look(), wish(three)).gives_up
    asynchronous = cluster(replicas=1, timeout_s=0.0)
    for server in asynchronous.servers:
        server.acks = False
    asynchronous.kill_source()
    assert plan(asynchronous.look(), wish(asynchronous, accept_loss=True)).gives_up == "", "nothing was promised"


def test_the_others_follow_before_a_switchover_opens_the_new_source():
    simulated = cluster()
    simulated.source.read_only = True
    steps = [(step.action, step.server) for step in plan(simulated.seen(), going("s0", kind="switchover")).steps]
    assert steps.index(("repoint", "s2")) < steps.index(("writable", "s1"))
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    steps = [step.action for step in plan(simulated.look(), wish(simulated)).steps]
    assert "repoint" not in steps[: steps.index("writable")], "at a failover a relay log may hold what nobody else has"


@pytest.mark.parametrize("sure", [(True, ()), (False, ("s2 was not asked",))])
def test_one_that_goes_on_says_what_was_known_of_the_election(tmp_path, sure):
    """An hour later the proof is worth nothing; what it proved then is in the journal."""
    simulated = promoted()
    journal = Journal(tmp_path / "journal")
    journal.write(Began(FailoverWish("s0"), "user", REAL.read_boot(), simulated.proof))
    journal.write(Elected("s1", None, *sure))
    resumed = journal.read_unfinished()
    assert resumed is not None and resumed.sure == sure
    later = simulated.now + 3_600.0
    planned = plan(simulated.look(), resumed.add_event(Began(FailoverWish("s0"), "user", REAL.read_boot())), later)
    assert (planned.elected, planned.lossless, planned.uncertain) == ("s1", *sure)
    # Without an election, it says why it cannot know.
    unknown = plan(simulated.look(), replace(resumed, decision=None, proof=None), later)
    assert not unknown.lossless and unknown.uncertain


def cut_off_after_leaving() -> tuple[Cluster, Progress]:
    """A failover without a fence was killed after the elected s1 had left its source, and s2 had been stopped."""
    beds = cluster(replicas=2, fence=False)
    for replica in beds.servers[1:]:
        while replica.relay:
            beds.apply(replica.index)
        beds.stop_threads(replica)
    beds.do(FailoverStep(3, "leave-source", "s1"))
    beds.cut.add((-1, 0))
    return beds, wish(beds, elected="s1", stopped=frozenset({"s1", "s2"}))


def test_an_elected_server_that_left_its_source_acknowledges_no_more():
    beds, progress = cut_off_after_leaving()
    resumed = plan(beds.look(), progress)
    assert not resumed.refusal and resumed.lossless
    assert "writable" in [step.action for step in resumed.steps]


@pytest.mark.parametrize("fence", [True, False])
def test_without_a_fence_replicas_follow_before_anybody_may_write(fence):
    """A replica that is started again receives from the old source as before, and acknowledges what that one commits."""
    beds = cluster(replicas=2, fence=fence)
    for replica in beds.servers[1:]:
        beds.stop_threads(replica, apply=False)
    beds.kill_source()
    progress = replace(wish(beds), fenced_s=beds.now if fence else None)
    steps = plan(beds.look(), progress).steps
    actions = [step.action for step in steps]
    assert (actions.index("repoint") < actions.index("writable")) is not fence if "repoint" in actions else fence
    [chosen] = [step.server for step in steps if step.action == "writable"]
    for step in steps:
        if step.action == "repoint":
            # It may have received nothing since it was stopped.
            assert step.to == chosen and (fence or step.gtid == collect_gtids(beds.look()[step.server]))


def test_a_server_that_follows_nobody_is_named():
    beds = promoted()
    beds.servers[2].follows = None
    planned = plan(beds.look(), wish(beds, elected="s1"))
    assert "follows nobody" in planned.left_out["s2"] and not planned.refusal


def test_what_a_replica_received_after_the_election_of_another_is_not_lost_in_silence():
    beds, progress = cut_off_after_leaving()
    # s2 is started again, by whoever it is, while the old source lives on.
    beds.start_threads(beds.servers[2])
    beds.write()
    for _ in beds.servers[0].binlog:
        beds.receive(2)
    beds.stop_threads(beds.servers[2], apply=False)
    assert beds.acknowledged[-1][0] in beds.servers[2].knows()
    resumed = plan(beds.look(), progress)
    assert "s1 was elected, and s2 received" in resumed.refusal and "--accept-loss" in resumed.hint
    accepted = plan(beds.look(), replace(progress, wish=replace(progress.wish, accept_loss=True)))
    assert not accepted.refusal and not accepted.lossless and "s2 received" in accepted.uncertain[0]
    doubt = doubt_election(accepted, progress)
    assert doubt is not None and (doubt.lossless, doubt.uncertain) == (False, accepted.uncertain)
    assert doubt_election(accepted, progress.add_event(doubt)) is None, "it is said once"


def test_what_is_lost_is_listed_where_something_may_be():
    simulated = promoted()
    seen = simulated.look()
    seen["s0"] = replace(seen["s0"], volume=True)
    had = simulated.gtids(set(simulated.servers[1].binlog))
    event = ScheduledEvent("shop", "nightly", "ops@%")
    progress = wish(simulated, elected="s1", had=had, events=(event,), clients_updated=True)
    steps = [(step.action, step.server, step.to) for step in plan(seen, progress).steps]
    assert steps == [("events", "s1", ""), ("list-lost", "s1", "s0")]
    # Killed before the clients were told: they are told first.
    assert [step.action for step in plan(seen, replace(progress, clients_updated=False)).steps][0] == "clients"
    done = replace(progress, lost=Listed(0, "", ""), enabled=1)
    none_missing = replace(done, lost=None, decision=Elected("s1", None, True))
    assert not plan(seen, done).steps and not plan(seen, none_missing).steps
    failed = replace(progress, failed={"events": "a lock", "list-lost": "no volume"})
    assert not plan(seen, failed).steps, "what failed in this run is not tried for ever"
    assert format_ranges(["0-1-7", "0-1-8", "0-2-9"], "mariadb") == "0-1-7..8, 0-2-9..9"


@pytest.mark.parametrize("delayed", [False, True])
def test_a_replica_applies_what_the_new_source_cannot_send(delayed):
    """The new source was made of a copy: its binary log begins after what the other one has in its relay log alone,
    which ends when that one follows another."""
    simulated = cluster(flavor="mysql")
    for _ in range(2):
        simulated.write()
    for replica in simulated.servers[1:]:
        simulated.receive(replica.index)
        simulated.receive(replica.index)
    simulated.fetched(simulated.servers[1], set(simulated.source.binlog))
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    simulated.servers[2].delayed = delayed
    simulated.stop_threads(simulated.servers[1])
    simulated.servers[1].follows, simulated.servers[1].read_only = None, False
    seen = simulated.seen()
    seen |= {"s1": replace(seen["s1"], purged=require_state(seen["s1"]).executed)}
    progress = wish(simulated, elected="s1", clients_updated=True)
    planned = plan(seen, progress)
    if delayed:
        assert not planned.steps and "3 transactions that s1 cannot send any more" in planned.left_out["s2"]
        return
    assert [(step.action, step.server) for step in planned.steps] == [("wait-applied", "s2")]
    assert str(planned.steps[0].gtid) == str(
        require_state(seen["s1"]).executed.minus(require_state(seen["s2"]).executed)
    )
    assert simulated.do(planned.steps[0])
    again = simulated.seen() | {"s1": seen["s1"]}
    assert [(step.action, step.server) for step in plan(again, progress).steps] == [("repoint", "s2")]


def test_a_replica_that_its_new_source_refuses_is_named():
    simulated = promoted()
    simulated.servers[2].follows = 1
    seen = simulated.seen()
    state = require_state(seen["s2"])
    error = "1236: the binary log it needs is gone"
    channel = replace(state.channels[0], receive="off", receive_error=error)
    planned = plan(changed(seen, "s2", channels=(channel,)), wish(simulated, elected="s1", clients_updated=True))
    assert planned.left_out["s2"] == f"does not receive from s1: {error}"


@pytest.mark.parametrize("rescued", [None, 3])
def test_a_rescue_has_everything_where_each_commit_was_flushed(rescued):
    """Without semi-sync: what the old source acknowledged last may have been in its memory alone."""
    simulated = cluster(timeout_s=0.0)
    simulated.kill_source()
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    seen = simulated.seen()
    seen |= {"s0": replace(seen["s0"], volume=True)}
    progress = going(rescue=True, rescued=rescued, fenced_s=simulated.now)
    planned = plan(seen, progress)
    assert not planned.refusal and not planned.lossless and "sync_binlog = 1" in planned.uncertain[-1]
    flushed = plan(seen | {"s0": replace(seen["s0"], log_flushed=True)}, progress)
    assert not flushed.refusal and flushed.lossless


def test_mysqls_own_writes_are_errant_though_its_channel_counts_them():
    """SHOW REPLICA STATUS says in Executed_Gtid_Set all that the server executed, whoever wrote it."""
    simulated = cluster(flavor="mysql")
    simulated.servers[1].binlog.append((1, 1))
    assert set(find_errant(simulated.seen(), simulated.seen()["s0"])) == {"s1"}
    switch = plan(simulated.seen(), going("s0", kind="switchover", target="s1"))
    assert "transactions of its own" in switch.refusal
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    assert "transactions of their own" in plan(simulated.look(), wish(simulated)).refusal


def test_errant_transactions_are_made_up_for_by_empty_ones():
    """The one that has them is not the one that has the most."""
    simulated = cluster(flavor="mysql")
    simulated.servers[1].binlog.append((1, 1))
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    planned = plan(simulated.look(), wish(simulated, errant="inject"))
    assert not planned.refusal and planned.elected == "s2" and planned.lossless and not planned.missing, planned
    [inject] = [step for step in planned.steps if step.action == "inject"]
    assert (inject.server, inject.to, str(inject.gtid)) == ("s2", "s1", planned.errant["s1"])
    leaving = plan(simulated.look(), wish(simulated, errant="leave"))
    assert (
        leaving.elected == "s2" and "s1" in leaving.left_out and "inject" not in [step.action for step in leaving.steps]
    )


def test_what_a_replica_with_its_own_transactions_alone_received_is_not_lost():
    """The empty transactions are written on the other server, which has less."""
    simulated = cluster(flavor="mysql")
    simulated.servers[1].binlog.append((1, 1))
    simulated.write()
    simulated.receive(1)
    simulated.kill_source()
    simulated.fenced_s = simulated.now
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    planned = plan(simulated.look(), wish(simulated, errant="inject", accept_loss=True))
    assert not planned.refusal and planned.elected == "s1" and not planned.missing, planned
    to = plan(simulated.look(), wish(simulated, errant="inject", accept_loss=True, target="s2"))
    assert "s1 has received more" in to.refusal


def test_the_journal_of_a_switchover_knows_that_the_source_is_closed(tmp_path):
    journal = Journal(tmp_path / "journal")
    events = (ScheduledEvent("shop", "nightly", "ops@%"),)
    began = Began(FailoverWish("s0", kind="switchover"), "user", REAL.read_boot(), events=events)
    journal.write(began)
    progress = journal.read_unfinished()
    assert progress is not None and not progress.pause.closed
    journal.write(StepBegan(FailoverStep(1, "repoint-early", "s2", to="s1")))
    journal.write(WritesClosing("s0", "s1", silenced=False))
    journal.write(Hurried("s1", {"sync_binlog": 1}))
    journal.write(began)  # the one who goes on
    progress = journal.read_unfinished()
    assert progress is not None and progress.pause.closed and progress.events == events
    assert progress.prepared.moved == ("s2",) and progress.candidate == "s1" and not progress.clients_updated
    assert journal.history.hurried == {"s1": {"sync_binlog": 1}}
    journal.write(Unhurried("s1"))
    journal.write(GivenUp())
    assert journal.read_unfinished() is None and journal.history.hurried == {}


def test_a_binary_log_that_was_emptied_does_not_make_others_errant():
    """s1 was the source once (numbers 1 to 279), s2 was rewound since, and its log begins anew."""
    simulated = cluster()
    seen = simulated.seen()
    seen |= {
        "s0": replace(seen["s0"], state=None, error="dead"),
        "s1": replace(seen["s1"], wrote={(0, 2): 279, (0, 1): 500}),
        "s2": replace(seen["s2"], wrote={(0, 1): 498}),
    }
    assert find_errant(seen, seen["s0"]) == {}
    assert find_extra(seen["s1"], seen["s2"]) == "0-1-499..500", "what came after what both have"
    alone = seen | {"s1": replace(seen["s1"], wrote={(0, 2): 501, (0, 1): 500})}
    assert find_errant(alone, alone["s0"]) == {"s1": "0-2-1..501"}, "its own came last: nobody vouches for it"


def test_what_a_source_applied_before_its_own_binary_log_begins_is_not_missing():
    """s1 was made from a copy that ends at 0-1-99, took over and left its channel: its log begins with 0-2-100, its
    position of everything names the last writer alone, and 0-1-99 stands in gtid_slave_pos only. Reported as missing,
    it would leave the old source out, or rewind it behind what the new one can send."""
    seen = cluster().seen()
    own = GtidSet.parse("0-2-100", "mariadb")
    new = replace(seen["s1"], wrote={(0, 2): 100})
    new = replace(new, state=replace(require_state(new), executed=own, channels=()))
    old = replace(seen["s0"], wrote={(0, 2): 98, (0, 1): 99})
    from_copy = replace(new, state=replace(require_state(new), applied=GtidSet.parse("0-1-99", "mariadb")))
    assert find_extra(old, from_copy) == ""
    shorter = replace(new, state=replace(require_state(new), applied=GtidSet.parse("0-2-98", "mariadb")))
    assert find_extra(old, shorter) == "0-1-1..99", "the copy ended before it"
