"""Single rules of the planner, traps, detection and the journal, on states of the naive model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from relay_logs import OUTCOME, Cluster, going

from headrace.errors import CouldNotRun
from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.planning.dry_run import doubted
from headrace.servers.failover.planning.election import errant, extra, has, required
from headrace.servers.failover.planning.guarantee import guarantee_now, is_intact
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
from headrace.servers.failover.planning.semisync import traps
from headrace.servers.failover.rescue import in_ranges
from headrace.servers.failover.surroundings import REAL
from headrace.servers.failover.watcher import STALLED_S, Suspicion


def cluster(replicas: int = 2, flavor: str = "mariadb", fence: bool = True, timeout_s: float = 1e9) -> Cluster:
    made = Cluster(replicas, flavor, 1, timeout_s, fence)
    for _ in range(3):
        made.write()
    for one in made.servers[1:]:
        for _ in range(3):
            made.receive(one.index)
            made.apply(one.index)
    made.look()
    return made


def wish(made: Cluster, **more) -> Progress:
    return going("s0", proof=made.proof, fenced_s=made.fenced_s, **more)


def promoted() -> Cluster:
    """Returns a cluster whose source is dead and whose s1 takes writes already; no server follows
    s1 yet."""
    made = cluster()
    made.kill_source()
    made.fenced_s = made.now
    for one in made.servers[1:]:
        made.stop_threads(one)
        one.follows = None
    made.servers[1].read_only = False
    return made


def changed(seen: dict[str, Seen], name: str, **state) -> dict[str, Seen]:
    one = seen[name]
    assert one.state is not None
    return seen | {name: replace(one, state=replace(one.state, **state))}


def test_a_second_start_within_seconds_of_the_first_is_not_taken_for_it():
    # Observed 2 s after its start, and again 2 s after another one 2.5 s later: the starts lie within the jitter.
    young = ThreadRun(start_s=100.0, uptime_s=2.0, receiver=5, applier=6)
    again = ThreadRun(start_s=102.5, uptime_s=2.0, receiver=5, applier=6)
    assert not again.unbroken(young, keeps_relay_log=True)
    # A server that had run for longer than twice the jitter tells a restart by its uptime.
    settled = ThreadRun(start_s=100.0, uptime_s=6.0, receiver=5, applier=6)
    later = ThreadRun(start_s=100.5, uptime_s=60.0, receiver=5, applier=6)
    assert later.unbroken(settled, keeps_relay_log=False)
    assert not ThreadRun(start_s=106.5, uptime_s=1.0, receiver=5, applier=6).unbroken(settled, keeps_relay_log=True)


def test_a_source_that_works_is_not_failed_over():
    made = cluster()
    assert "alive and takes writes" in plan(made.look(), wish(made)).refusal


def test_an_applier_that_is_stopped_is_started_while_receiving_goes_on():
    """MDEV-4698: once receiving has stopped, its start would throw the relay log away."""
    made = cluster(replicas=1)
    made.stop_threads(made.servers[1], receive=False)
    made.write()
    made.receive(1)
    made.kill_source()
    actions = [step.action for step in plan(made.look(), wish(made)).stage]
    assert actions == ["fence", "start-apply", "stop-receive"]


def test_a_relay_log_that_will_be_thrown_away_does_not_count():
    made = cluster(replicas=1)
    made.stop_threads(made.servers[1], receive=False)
    made.write()
    made.receive(1)
    made.stop_threads(made.servers[1])
    made.kill_source()
    made.fenced_s = made.now
    refused = plan(made.look(), wish(made))
    assert refused.refusal and not refused.steps
    kept = cluster(replicas=1, flavor="mysql")
    kept.stop_threads(kept.servers[1], receive=False)
    kept.write()
    kept.receive(1)
    kept.stop_threads(kept.servers[1])
    kept.kill_source()
    kept.fenced_s = kept.now
    steps = [step.action for step in plan(kept.look(), wish(kept)).steps]
    assert steps[:2] == ["start-apply", "wait-applied"], "MySQL keeps its relay log"


def test_without_a_fence_enough_replicas_must_be_stopped():
    made = cluster(fence=False)
    made.cut |= {(-1, 0), (0, 1), (0, 2), (-1, 2)}
    made.stop_threads(made.servers[1], apply=False)
    assert "could not be fenced, and only 1" in plan(made.look(), wish(made)).refusal
    made.cut -= {(-1, 2)}
    made.stop_threads(made.servers[2], apply=False)
    assert plan(made.look(), wish(made)).elected


def test_a_timeout_that_may_have_passed_is_no_guarantee():
    made = cluster(timeout_s=5.0)
    made.kill_source()
    made.fenced_s = made.now + 6.0
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    assert "fallen back to asynchronous" in plan(made.look(), wish(made)).refusal
    assert plan(made.look(), wish(made, accept_loss=True)).elected


@pytest.mark.parametrize(
    "harm, words",
    [
        (lambda one: setattr(one, "delayed", True), "delayed on purpose"),
        (lambda one: setattr(one, "logs_updates", False), "does not log what it applies"),
        (lambda one: setattr(one, "apply_error", "1062: Duplicate entry"), "cannot apply"),
    ],
    ids=["delayed", "no log_replica_updates", "broken"],
)
def test_unfit_replicas_are_named(harm, words):
    made = cluster(replicas=1)
    harm(made.servers[1])
    made.kill_source()
    made.fenced_s = made.now
    made.stop_threads(made.servers[1], apply=False)
    assert words in plan(made.look(), wish(made)).refusal


def test_rings_and_second_writers_are_refused():
    made = cluster()
    made.servers[0].follows = 1
    assert "follow each other" in plan(made.seen(), wish(made)).refusal
    other = cluster()
    other.servers[2].read_only = False
    assert "writable next to" in plan(other.seen(), wish(other)).refusal


def test_two_server_ids_alike_are_refused():
    made = cluster()
    assert "both have server_id" in plan(changed(made.seen(), "s2", server_id=2), wish(made)).refusal


def test_one_that_was_elected_and_is_gone_stops_everything():
    made = cluster()
    made.kill_source()
    made.fenced_s = made.now
    made.cut.add((-1, 1))
    assert "was elected, does not answer" in plan(made.look(), wish(made, elected="s1")).refusal


def test_the_guarantee_follows_the_status():
    made = cluster()
    assert guarantee_now(made.seen(), made.seen()["s0"]).level == "kept"
    made.source.status = False
    assert guarantee_now(made.seen(), made.seen()["s0"]).level == "async"
    for one in made.servers[1:]:
        one.delayed = True
    assert guarantee_now(made.seen(), made.seen()["s0"]).level == "none"


def test_a_restarted_acker_is_not_intact():
    made = cluster()
    assert made.proof is not None and is_intact(made.proof, made.seen()["s1"])
    made.restart(1, power=False)
    assert not is_intact(made.proof, made.seen()["s1"])


def named(made: Cluster, before=None) -> set[tuple[str, str]]:
    seen = made.seen()
    return {(one.server, one.name) for one in traps(seen, seen["s0"], before)}


def test_each_trap_is_named():
    made = cluster()
    made.source.status = False
    assert ("s0", "fell-back") in named(made)
    made = cluster()
    before = changed(made.seen(), "s0", semi_sync=replace(made.state(made.source).semi_sync, no_tx=-5))
    assert ("s0", "unacknowledged") in named(made, before)
    made.count = 3
    assert ("s0", "too-many-asked") in named(made)
    made = cluster()
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    assert {("s0", "too-few-connected"), ("s1", "not-receiving")} <= named(made)
    made = cluster(timeout_s=10.0)
    made.servers[1].source_role = True
    made.servers[2].applier = 0
    assert {("s0", "short-timeout"), ("s1", "source-role-on-replica"), ("s2", "acknowledges-only")} <= named(made)
    made = cluster()
    for _ in range(1_200):
        made.write()
    assert ("s1", "receive-behind") in named(made)
    for one in made.servers:
        one.sync_relay_log = 1
    made = cluster()
    for one in made.servers:
        one.sync_relay_log = 1
    assert named(made) == set(), "nothing is wrong here"


def test_detection_needs_the_replicas_word():
    made = cluster()
    suspicion = Suspicion()
    made.cut.add((-1, 0))  # the watcher alone is cut off: its replicas still receive
    assert [suspicion.after(made.seen(), "s0", 0.0) for _ in range(5)] == [""] * 5
    made.kill_source()
    first, second = suspicion.after(made.seen(), "s0", 0.0), suspicion.after(made.seen(), "s0", 0.5)
    assert first == "" and "no replica receives" in second


def test_detection_of_a_source_that_takes_no_writes():
    made = cluster()
    seen = made.seen()
    stalled = seen | {"s0": replace(seen["s0"], write="stalled", error="no answer")}
    blocked = seen | {"s0": replace(seen["s0"], write="blocked", error="a lock")}
    suspicion = Suspicion()
    assert suspicion.after(stalled, "s0", 0.0) == ""
    assert suspicion.after(blocked, "s0", STALLED_S + 1) == "", "a lock is no reason"
    assert suspicion.after(stalled, "s0", 10.0) == ""
    assert "takes no writes" in suspicion.after(stalled, "s0", 10.0 + STALLED_S)


def test_the_journal_knows_what_cannot_be_seen(tmp_path):
    made = cluster()
    journal = Journal(tmp_path / "journal")
    assert journal.unfinished() is None
    assert made.proof is not None
    journal.write(Began(FailoverWish("s0", accept_loss=True), "watch", REAL.boot()))
    journal.write(Proved(made.proof))
    journal.write(Fenced("s0", "killed", made.now))
    journal.write(Elected("s1", None, True))
    with open(tmp_path / "journal", "a") as file:
        file.write('{"event": "fini')  # a crash in the middle of a line
    again = Journal(tmp_path / "journal")
    left = again.unfinished()
    assert left is not None and left.by == "watch"
    assert (left.elected, left.wish.accept_loss, left.proof) == ("s1", True, made.proof)
    assert left.fenced_s == made.now
    with journal.alone(), pytest.raises(CouldNotRun, match="under way"), again.alone():
        pass
    with again.alone():
        again.write(Finished(OUTCOME))
    assert again.unfinished() is None and again.history.failed_over_at is not None


def test_what_no_later_look_can_make_certain_is_refused_before_anything_is_changed():
    made = cluster()
    made.kill_source()
    asked = replace(wish(made), proof=None)
    refused = plan(made.look(), asked)
    assert "acknowledged commits may be missing" in refused.refusal and "--accept-loss" in refused.hint
    # With the loss accepted, the same states are fenced and revoked.
    accepted = plan(made.look(), replace(asked, wish=replace(asked.wish, accept_loss=True)))
    assert not accepted.refusal
    assert [step.action for step in accepted.stage] == ["fence", "stop-receive", "stop-receive"]


def test_a_switchover_keeps_semi_sync_on_a_successor_that_did_not_acknowledge():
    made = cluster()
    seen = made.look()
    source, chosen = seen["s0"].state, seen["s1"].state
    assert source is not None and source.semi_sync.source_enabled and chosen is not None
    seen = changed(seen, "s1", semi_sync=replace(chosen.semi_sync, replica_enabled=False))
    seen = changed(seen, "s0", read_only=True)
    steps = plan(seen, going("s0", kind="switchover", target="s1"), made.now).steps
    actions = [step.action for step in steps]
    assert actions.index("semi-sync-source-on") < actions.index("writable")
    # s2 acknowledges, and the old source will: one of them is waited for, as before.
    assert next(step.count for step in steps if step.action == "semi-sync-source-on") == 1


def test_missed_heartbeats_are_silence():
    """The receive thread notices a cut link after the timeout of its network; its heartbeats are missed sooner."""
    made = cluster()
    made.cut |= {(-1, 0)}
    seen = made.seen()
    assert all(required(seen[name]).channels[0].receive == "on" for name in ("s1", "s2"))
    one = seen | {"s1": replace(seen["s1"], deaf=True)}
    both = one | {"s2": replace(one["s2"], deaf=True)}
    suspicion = Suspicion()
    assert [suspicion.after(one, "s0", 0.0) for _ in range(5)] == [""] * 5, "one still hears"
    assert "no replica receives" in suspicion.after(both, "s0", 0.0)
    assert Suspicion().after(both, "s0", 0.0) == "", "one look without an answer is chance"


def test_a_write_that_hangs_counts_from_its_beginning():
    made = cluster()
    seen = made.seen()
    hung = seen | {"s0": replace(seen["s0"], write="stalled", waited_s=1.0)}
    suspicion = Suspicion()
    assert suspicion.after(hung, "s0", 10.0) == "" and suspicion.stalled_since == 9.0
    assert suspicion.write_s(10.0) == STALLED_S - 1.0, "the next one is given up when the time is over"
    assert "takes no writes" in suspicion.after(hung, "s0", 9.0 + STALLED_S)
    alone = Suspicion(stalled_s=0.5)
    assert alone.after(hung, "s0", 10.0) == "", "two writes have to fail"


def steps_of(made, **choices):
    found = plan(made.look(), going("s0", kind="switchover", **choices)).steps
    return [(step.stage, step.action, step.server) for step in found]


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
    made = cluster()
    made.count = 2
    assert "repoint-early" not in [action for _, action, _ in steps_of(made)]
    # Without semi-sync no commit waits for them: they follow when the new source is open.
    made = cluster(timeout_s=0.0)
    for one in made.servers:
        one.acks = False
    actions = [action for _, action, _ in steps_of(made)]
    assert "repoint-early" not in actions and "repoint" not in actions
    made = cluster()
    made.servers[2].delayed = True
    assert "repoint-early" not in [action for _, action, _ in steps_of(made)]


def test_a_source_that_will_acknowledge_alone_says_what_is_given_up():
    made = cluster(replicas=1)
    made.kill_source()
    found = plan(made.look(), wish(made))
    assert not found.refusal
    assert "s1 will acknowledge commits alone (--alone serve)" in found.gives_up, "before anything is done"
    assert "--alone refuse" in found.gives_up and found.as_dict()["gives_up"] == found.gives_up
    refused = plan(made.look(), wish(made, alone="refuse"))
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
    for one in asynchronous.servers:
        one.acks = False
    asynchronous.kill_source()
    assert plan(asynchronous.look(), wish(asynchronous, accept_loss=True)).gives_up == "", "nothing was promised"


def test_the_others_follow_before_a_switchover_opens_the_new_source():
    made = cluster()
    made.source.read_only = True
    steps = [(step.action, step.server) for step in plan(made.seen(), going("s0", kind="switchover")).steps]
    assert steps.index(("repoint", "s2")) < steps.index(("writable", "s1"))
    made.kill_source()
    made.fenced_s = made.now
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    steps = [step.action for step in plan(made.look(), wish(made)).steps]
    assert "repoint" not in steps[: steps.index("writable")], "at a failover a relay log may hold what nobody else has"


@pytest.mark.parametrize("sure", [(True, ()), (False, ("s2 was not asked",))])
def test_one_that_goes_on_says_what_was_known_of_the_election(tmp_path, sure):
    """An hour later the proof is worth nothing; what it proved then is in the journal."""
    made = promoted()
    journal = Journal(tmp_path / "journal")
    journal.write(Began(FailoverWish("s0"), "user", REAL.boot(), made.proof))
    journal.write(Elected("s1", None, *sure))
    left = journal.unfinished()
    assert left is not None and left.sure == sure
    later = made.now + 3_600.0
    found = plan(made.look(), left.after(Began(FailoverWish("s0"), "user", REAL.boot())), later)
    assert (found.elected, found.lossless, found.uncertain) == ("s1", *sure)
    # Without an election, it says why it cannot know.
    unknown = plan(made.look(), replace(left, decision=None, proof=None), later)
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
            assert step.to == chosen and (fence or step.gtid == has(beds.look()[step.server]))


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
    doubt = doubted(accepted, progress)
    assert doubt is not None and (doubt.lossless, doubt.uncertain) == (False, accepted.uncertain)
    assert doubted(accepted, progress.after(doubt)) is None, "it is said once"


def test_what_is_lost_is_listed_where_something_may_be():
    made = promoted()
    seen = made.look()
    seen["s0"] = replace(seen["s0"], volume=True)
    had = made.gtids(set(made.servers[1].binlog))
    event = ScheduledEvent("shop", "nightly", "ops@%")
    wanted = wish(made, elected="s1", had=had, events=(event,), clients_updated=True)
    steps = [(step.action, step.server, step.to) for step in plan(seen, wanted).steps]
    assert steps == [("events", "s1", ""), ("list-lost", "s1", "s0")]
    # Killed before the clients were told: they are told first.
    assert [step.action for step in plan(seen, replace(wanted, clients_updated=False)).steps][0] == "clients"
    done = replace(wanted, lost=Listed(0, "", ""), enabled=1)
    none_missing = replace(done, lost=None, decision=Elected("s1", None, True))
    assert not plan(seen, done).steps and not plan(seen, none_missing).steps
    failed = replace(wanted, failed={"events": "a lock", "list-lost": "no volume"})
    assert not plan(seen, failed).steps, "what failed in this run is not tried for ever"
    assert in_ranges(["0-1-7", "0-1-8", "0-2-9"], "mariadb") == "0-1-7..8, 0-2-9..9"


def test_mysqls_own_writes_are_errant_though_its_channel_counts_them():
    """SHOW REPLICA STATUS says in Executed_Gtid_Set all that the server executed, whoever wrote it."""
    made = cluster(flavor="mysql")
    made.servers[1].binlog.append((1, 1))
    assert set(errant(made.seen(), made.seen()["s0"])) == {"s1"}
    switch = plan(made.seen(), going("s0", kind="switchover", target="s1"))
    assert "transactions of its own" in switch.refusal
    made.kill_source()
    made.fenced_s = made.now
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    assert "transactions of their own" in plan(made.look(), wish(made)).refusal


def test_errant_transactions_are_made_up_for_by_empty_ones():
    """The one that has them is not the one that has the most."""
    made = cluster(flavor="mysql")
    made.servers[1].binlog.append((1, 1))
    made.kill_source()
    made.fenced_s = made.now
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    found = plan(made.look(), wish(made, errant="inject"))
    assert not found.refusal and found.elected == "s2" and found.lossless and not found.missing, found
    [inject] = [step for step in found.steps if step.action == "inject"]
    assert (inject.server, inject.to, str(inject.gtid)) == ("s2", "s1", found.errant["s1"])
    left = plan(made.look(), wish(made, errant="leave"))
    assert left.elected == "s2" and "s1" in left.left_out and "inject" not in [step.action for step in left.steps]


def test_what_a_replica_with_its_own_transactions_alone_received_is_not_lost():
    """The empty transactions are written on the other server, which has less."""
    made = cluster(flavor="mysql")
    made.servers[1].binlog.append((1, 1))
    made.write()
    made.receive(1)
    made.kill_source()
    made.fenced_s = made.now
    for one in made.servers[1:]:
        made.stop_threads(one, apply=False)
    found = plan(made.look(), wish(made, errant="inject", accept_loss=True))
    assert not found.refusal and found.elected == "s1" and not found.missing, found
    to = plan(made.look(), wish(made, errant="inject", accept_loss=True, target="s2"))
    assert "s1 has received more" in to.refusal


def test_the_journal_of_a_switchover_knows_that_the_source_is_closed(tmp_path):
    journal = Journal(tmp_path / "journal")
    events = (ScheduledEvent("shop", "nightly", "ops@%"),)
    began = Began(FailoverWish("s0", kind="switchover"), "user", REAL.boot(), events=events)
    journal.write(began)
    progress = journal.unfinished()
    assert progress is not None and not progress.pause.closed
    journal.write(StepBegan(FailoverStep(1, "repoint-early", "s2", to="s1")))
    journal.write(WritesClosing("s0", "s1", silenced=False))
    journal.write(Hurried("s1", {"sync_binlog": 1}))
    journal.write(began)  # the one who goes on
    progress = journal.unfinished()
    assert progress is not None and progress.pause.closed and progress.events == events
    assert progress.prepared.moved == ("s2",) and progress.candidate == "s1" and not progress.clients_updated
    assert journal.history.hurried == {"s1": {"sync_binlog": 1}}
    journal.write(Unhurried("s1"))
    journal.write(GivenUp())
    assert journal.unfinished() is None and journal.history.hurried == {}


def test_a_binary_log_that_was_emptied_does_not_make_others_errant():
    """s1 was the source once (numbers 1 to 279), s2 was rewound since, and its log begins anew."""
    made = cluster()
    seen = made.seen()
    seen |= {
        "s0": replace(seen["s0"], state=None, error="dead"),
        "s1": replace(seen["s1"], wrote={(0, 2): 279, (0, 1): 500}),
        "s2": replace(seen["s2"], wrote={(0, 1): 498}),
    }
    assert errant(seen, seen["s0"]) == {}
    assert extra(seen["s1"], seen["s2"]) == "0-1-499..500", "what came after what both have"
    alone = seen | {"s1": replace(seen["s1"], wrote={(0, 2): 501, (0, 1): 500})}
    assert errant(alone, alone["s0"]) == {"s1": "0-2-1..501"}, "its own came last: nobody vouches for it"


def test_what_a_source_applied_before_its_own_binary_log_begins_is_not_missing():
    """s1 was made from a copy that ends at 0-1-99, took over and left its channel: its log begins with 0-2-100, its
    position of everything names the last writer alone, and 0-1-99 stands in gtid_slave_pos only. Reported as missing,
    it would leave the old source out, or rewind it behind what the new one can send."""
    seen = cluster().seen()
    own = GtidSet.parse("0-2-100", "mariadb")
    new = replace(seen["s1"], wrote={(0, 2): 100})
    new = replace(new, state=replace(required(new), executed=own, channels=()))
    old = replace(seen["s0"], wrote={(0, 2): 98, (0, 1): 99})
    from_copy = replace(new, state=replace(required(new), applied=GtidSet.parse("0-1-99", "mariadb")))
    assert extra(old, from_copy) == ""
    shorter = replace(new, state=replace(required(new), applied=GtidSet.parse("0-2-98", "mariadb")))
    assert extra(old, shorter) == "0-1-1..99", "the copy ended before it"
