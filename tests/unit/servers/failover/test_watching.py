"""Messages of a watch and their times, cases for a person, and the server that counts as the
source."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from relay_logs import OUTCOME, Cluster, going

from headrace.errors import CouldNotRun, InputError
from headrace.mysql.address import Address, Secret
from headrace.servers.failover import watcher as watching
from headrace.servers.failover.cluster import find_source, get_journal_folder, make_cluster
from headrace.servers.failover.executor import Executor
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.interruption import describe_change, describe_rejoin
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.lease import Lease
from headrace.servers.failover.observer import Observer, describe_failure
from headrace.servers.failover.planning.dry_run import renew_proof
from headrace.servers.failover.planning.election import collect_gtids, require_state
from headrace.servers.failover.planning.members import FailoverPlan, FailoverWish, Seen, make_refusal_error
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import (
    STALE_S,
    Acknowledged,
    Began,
    Elected,
    Finished,
    GivenUp,
    HandedOver,
)
from headrace.servers.failover.rejoin import find_source_above
from headrace.servers.failover.surroundings import REAL
from headrace.servers.failover.watcher import FLAP_S, Watcher

WHY = "s0 does not answer (no server listens there), and no replica receives from it"


def working(flavor: str = "mariadb") -> Cluster:
    """A source and two replicas that have all it wrote."""
    simulated = Cluster(2, flavor, 1, 1e9, True)
    for server in simulated.servers:
        server.sync_relay_log = 1  # else a note says so
    for _ in range(3):
        simulated.write()
        for replica in simulated.servers[1:]:
            simulated.receive(replica.index)
            simulated.apply(replica.index)
    simulated.look()
    return simulated


def promoted(follow: bool = False) -> dict[str, Seen]:
    """s1 takes writes, s0 is closed; with `follow` both others follow s1."""
    simulated = working()
    first, second = simulated.servers[1], simulated.servers[2]
    simulated.source.read_only, first.read_only, first.follows = True, False, None
    second.follows = 1
    if follow:
        simulated.source.follows = 1
    return simulated.seen()


# --- what is said ---------------------------------------------------------------------------------


def watched(tmp_path, monkeypatch, looks: list[str], **more) -> tuple[Watcher, list[str]]:
    """A watch that sees these reasons for a failover, one a look; and what it said."""
    simulated, spoken, stop = working(), list[str](), threading.Event()
    host = AddressHost("s0", Address("u", "s0", 1))
    executor: Any = SimpleNamespace(
        journal=Journal(tmp_path / "journal"), hosts={"s0": host}, surroundings=REAL,
        give_up=lambda source: None, warm=lambda source: None,
    )  # fmt: skip
    watcher = Watcher(executor, FailoverWish("s0"), every_s=0.0, say=spoken.append, proof=simulated.proof, **more)
    waiting, alive = iter(looks), simulated.seen()
    dead = alive | {"s0": replace(alive["s0"], state=None, error="no server listens there")}

    def look():
        why = next(waiting, None)
        if why is None:
            stop.set()
        return (dead if why else alive), why or ""

    monkeypatch.setattr(watcher, "look", look)
    watcher.watch(stop)
    return watcher, spoken


def lines(spoken: list[str], word: str) -> list[str]:
    return [text for text in spoken if word in text]


def test_a_dead_source_is_said_once_and_when_it_is_back(tmp_path, monkeypatch):
    """9 lines a second for ten minutes were 6,048."""
    other = WHY.replace("no server listens there", "did not answer within 0.4 s")
    _, spoken = watched(tmp_path, monkeypatch, [*[WHY, other] * 300, "", "", *[WHY] * 5], acts=False)
    # The last look is that of a source which is back.
    assert spoken == [WHY, "s0 answers again", WHY, "s0 answers again"]


def test_a_state_that_lasts_is_said_again_once_in_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "STILL_S", 0.0)
    _, spoken = watched(tmp_path, monkeypatch, [WHY] * 3, acts=False)
    assert lines(spoken, "does not answer") == [WHY, f"still: {WHY}", f"still: {WHY}"]


def test_traps_are_not_over_because_the_source_is_dead(tmp_path, monkeypatch):
    watcher, spoken = watched(tmp_path, monkeypatch, [])
    simulated = working()
    seen = simulated.seen()
    semi = replace(require_state(seen["s0"]).semi_sync, timeout_ms=1_000)
    seen |= {"s0": replace(seen["s0"], state=replace(require_state(seen["s0"]), semi_sync=semi))}
    watcher._report_traps(seen, None)
    assert lines(spoken, "after 1 s without an acknowledgement")
    del spoken[:]
    watcher._report_traps({**seen, "s0": replace(seen["s0"], state=None, error="gone")}, seen)
    assert not lines(spoken, "over:")
    watcher._report_traps(simulated.seen(), seen)
    assert lines(spoken, "over: s0: short-timeout")


# --- the pause after a failover -------------------------------------------------------------------


def executor_of(journal: Journal, spoken: list[str]) -> Executor:
    """One without servers."""
    return Executor(Observer({}), journal, Lease({}), say=spoken.append)


def failed_over(journal: Journal) -> None:
    journal.write(Began(FailoverWish("s9"), "watch", ""))
    journal.write(Elected("s0", None, True))
    journal.write(Finished(OUTCOME))


def test_a_watch_says_at_its_start_that_it_will_not_act_and_until_when(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal")
    failed_over(journal)
    last = journal.read().failed_over_at
    assert last is not None
    until = watching.format_clock(last + FLAP_S)
    watcher, spoken = watched(tmp_path, monkeypatch, [""])
    assert len(spoken) == 1, spoken
    assert spoken[0].startswith(f"no failover before {until}: the last was at ")
    assert "headrace failover status --acknowledge" in spoken[0]
    monkeypatch.setattr(watching, "PAUSE_LOOK_S", 0.0)
    watcher._report_pause()
    assert len(spoken) == 1
    journal.write(Acknowledged())
    watcher._report_pause()
    assert spoken[1:] == ["the pause is over: it fails over again"]
    assert journal.read().failed_over_at is None
    # One that only watches says nothing of it.
    failed_over(journal)
    assert not watched(tmp_path, monkeypatch, [""], acts=False)[1]


def test_its_proof_is_handed_to_the_run_that_it_recommends(tmp_path, monkeypatch):
    simulated, journal = working(), Journal(tmp_path / "journal")
    assert simulated.proof is not None
    failed_over(journal)
    with pytest.raises(CouldNotRun, match="once in 3600 s is enough") as error:
        watched(tmp_path, monkeypatch, [WHY])
    assert "headrace failover run --from s0" in error.value.hint
    now, boot = time.time(), REAL.read_boot()
    handed = journal.read().find_handed_over("s0", now, boot)
    assert handed is not None and handed.proof == simulated.proof and set(handed.received) == {"s1", "s2"}
    spoken: list[str] = []
    executor, wish, seen = executor_of(journal, spoken), FailoverWish("s0"), simulated.seen()
    got = executor._make_beginning(wish, "user", seen)
    assert got.proof is not None and got.proof.ackers == simulated.proof.ackers and "that counts" in spoken[-1]
    simulated.kill_source()
    assert "semi-sync was not seen at work" in plan(simulated.seen(), going()).refusal
    assert plan(simulated.seen(), going().add_event(got)).steps[0].action == "fence", "with it nothing is refused"
    # A switchover, another source, a proof of its own, or one who was elected: nothing is taken over.
    for other in (replace(wish, kind="switchover"), replace(wish, source="s2")):
        assert executor._make_beginning(other, "user", seen).proof is None
    today = replace(simulated.proof, at_s=simulated.proof.at_s + 1)
    assert executor._make_beginning(wish, "user", seen, today).proof == today
    journal.write(Began(wish, "user", boot))
    journal.write(Elected("s1", None, True))
    assert executor._make_beginning(wish, "user", seen).proof is None


def test_a_proof_of_another_time_is_not_handed_over(tmp_path, monkeypatch):
    simulated, path = working(), tmp_path / "journal"
    assert simulated.proof is not None
    journal = Journal(path)
    received = {name: str(collect_gtids(member)) for name, member in simulated.seen().items() if name != "s0"}

    def handed(boot: str = REAL.read_boot()) -> bool:
        return Journal(path).read().find_handed_over("s0", time.time(), boot) is not None

    over = HandedOver("s0", simulated.proof, (), received, REAL.read_boot())
    journal.write(over)
    assert handed() and not handed("another")
    simulated.write()
    simulated.receive(1)
    spoken: list[str] = []
    assert executor_of(journal, spoken)._make_beginning(FailoverWish("s0"), "user", simulated.seen()).proof is None
    assert "has received more since" in spoken[-1], "its source lived on"
    journal.write(GivenUp())
    assert not handed(), "its source was back"
    journal.write(over)
    journal.write(Elected("s1", None, True))
    assert not handed()
    journal.write(over)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    old = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - STALE_S - 60))
    path.write_text("".join(json.dumps(entry | {"at": old}) + "\n" for entry in entries))
    assert not handed()


def test_a_source_that_is_seen_without_semi_sync_is_proven_no_more():
    """It acknowledges alone from then on, whatever was seen before."""
    simulated = working("mysql")
    seen: Any = SimpleNamespace(probe_source=lambda *_: (simulated.look(), None))
    executor: Any = SimpleNamespace(observer=seen, surroundings=REAL)
    watcher = Watcher(executor, FailoverWish("s0"), source="s0", proof=simulated.proof)
    watcher.look()
    assert watcher.proof is not None and plan(dead(simulated), going(proof=watcher.proof)).steps
    simulated.source.source_role = simulated.source.status = False
    watcher.look()
    assert watcher.proof is None and simulated.acknowledged
    assert "semi-sync was not seen at work" in plan(dead(simulated), going(proof=watcher.proof)).refusal
    # A run that goes on sees it too, until a server is elected: what was proven then is in the journal.
    over = renew_proof(simulated.seen(), going(proof=working("mysql").proof))
    assert over is not None and over.proof is None and going(proof=simulated.proof).add_event(over).proof is None
    assert renew_proof(simulated.seen(), going(proof=working("mysql").proof, elected="s1")) is None


def dead(simulated: Cluster) -> dict[str, Seen]:
    """The servers as they are once the source has died."""
    seen = simulated.seen()
    return seen | {"s0": replace(seen["s0"], state=None, error="no server listens there")}


# --- which server is the source -------------------------------------------------------------------


def test_the_source_of_a_change_that_was_cut_off():
    cut_off = promoted()
    assert find_source(cut_off) == "s1", "s2 follows it"
    alone = {name: member for name, member in cut_off.items() if name != "s2"}
    assert find_source(alone) == "s1", "nobody follows anybody, and one takes writes"
    progress = going(kind="switchover", elected="s1")
    assert find_source(cut_off, None, progress) == "s1" and find_source(cut_off, "s2", progress) == "s2"
    closed = working().seen()
    assert find_source(closed, None, going()) == "s0"
    with pytest.raises(InputError, match="is not one of s0, s1, s2"):
        find_source(closed, "nobody")


def test_a_refused_login_is_the_cause_and_comes_first():
    seen = working().seen()
    words = describe_failure(
        InputError("x", "access denied for ops with the password given", "error 1045 of the server", ""),
        AddressHost("db1:3306", Address("ops", "db1", 3306, password=Secret("secret"))),
    )
    assert words == "cannot log in as ops: wrong password"
    silent = {name: replace(member, state=None, error=words) for name, member in seen.items()}
    with pytest.raises(InputError) as error:
        find_source(silent)
    assert f"{error.value.value}: {error.value.rule}" == "Cannot log in to s0, s1, s2 as ops: wrong password"
    without = describe_failure(
        InputError("x", "access denied", "error 1698 of the server", ""), AddressHost("d", Address("ops", "d", 1))
    )
    assert without.endswith("no password was given")
    with pytest.raises(CouldNotRun, match="s0: does not answer: no route; nor do s1, s2"):
        find_source({name: replace(member, state=None, error="no route") for name, member in seen.items()})


def test_a_refusal_names_the_source_once():
    simulated = FailoverPlan(refusal="127.0.0.1:56001 is alive and takes writes: there is nothing to fail over")
    assert str(make_refusal_error(simulated, "127.0.0.1:56001")).startswith(
        "127.0.0.1:56001: is alive and takes writes"
    )
    assert str(make_refusal_error(FailoverPlan(refusal="no replica"), "db")).startswith("db: no replica")


@pytest.mark.parametrize(("target", "words"), [("s0", "is the source already"), ("db9", "is not one of s0, s1, s2")])
@pytest.mark.parametrize("kind", ["failover", "switchover"])
def test_a_target_that_cannot_be_meant(kind, target, words):
    assert words in plan(working().seen(), going(kind=kind, target=target)).refusal


def test_what_cannot_rejoin():
    with pytest.raises(InputError, match=r"is the source \(s1, s2 follow it\): there is nothing to rejoin"):
        find_source_above(working().seen(), "s0")
    with pytest.raises(InputError, match="cannot follow itself"):
        find_source_above(promoted(), "s1", "s1")
    with pytest.raises(InputError, match="is read-only, so it is not the source"):
        find_source_above(promoted(), "s0", "s2")
    assert find_source_above(promoted(), "s0") == "s1"


def test_a_replica_is_not_failed_over():
    """A server in the middle of a chain, or the wrong name: nobody is promoted next to the source."""
    for kind in ("failover", "switchover"):
        assert "s1 is a replica of s0, not the source" in plan(working().seen(), going("s1", kind=kind)).refusal


def test_a_server_of_its_own_is_not_what_an_old_source_rejoins():
    """It takes writes, follows nobody and is followed by nobody: it did not take over."""
    simulated = Cluster(3, "mariadb", 1, 1e9, True)
    for _ in range(3):
        simulated.write()
        for replica in simulated.servers[1:3]:
            simulated.receive(replica.index)
            simulated.apply(replica.index)
    stranger = simulated.servers[3]
    stranger.follows, stranger.read_only, stranger.binlog = None, False, [(3, 1)]
    for named in (None, "s3"):
        with pytest.raises(InputError, match="is the source"):
            find_source_above(simulated.seen(), "s0", named)
    simulated.kill_source()
    with pytest.raises((InputError, CouldNotRun)):
        find_source_above(simulated.seen(), "s0")
    simulated.servers[1].follows, simulated.servers[1].read_only, simulated.servers[2].follows = None, False, 1
    # Nobody is left to compare them with, and a replica follows either in another cluster too.
    with pytest.raises(InputError, match="s1, s3: take writes, all of them"):
        find_source_above(simulated.seen(), "s0")
    assert find_source_above(simulated.seen(), "s0", "s1") == "s1"


def test_journals_are_in_the_directory_of_the_lab_that_is_meant(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_LAB", str(tmp_path / "lab"))
    assert get_journal_folder() == tmp_path / "lab" / "failover"
    assert make_cluster(["mysql://u@h1:1", "mysql://u@h2:1"], None).folder == tmp_path / "lab" / "failover"
    assert get_journal_folder(tmp_path / "other") == tmp_path / "other" / "failover"
    monkeypatch.delenv("HEADRACE_LAB")
    assert str(get_journal_folder()) == "/var/lib/headrace/failover"


# --- what an interrupt leaves ---------------------------------------------------------------------


def test_an_interrupt_says_who_takes_writes_and_what_finishes_it():
    again = "Give the same command again to finish."
    assert describe_change(promoted(), "s0", True) == f"s1 takes writes; s0 does not follow it yet. {again}"
    assert describe_change(promoted(follow=True), "s0", True) == f"s1 takes writes. {again}"
    assert describe_change(working().seen(), "s0", False) == "s0 takes writes. Nothing was changed."
    dead = working()
    dead.kill_source()
    assert describe_change(dead.seen(), "s0", True) == f"Nobody takes writes. {again}"
    assert describe_rejoin(promoted(), "s0", "s1") == f"s1 takes writes; s0 does not follow s1 yet. {again}"
    assert describe_rejoin(promoted(follow=True), "s0", "s1") == "s1 takes writes; s0 follows s1."
    assert describe_rejoin(promoted(), "s0", "s1", "is deleted.") == "s1 takes writes; s0 is deleted."
