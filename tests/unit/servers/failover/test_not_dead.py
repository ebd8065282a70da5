"""Servers that are called dead but are not, and logs that are called read but were not: nothing is
promoted, thrown away or called whole by it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from relay_logs import OUTCOME, Cluster, going
from waiting import wait_until

from headrace.aws import instances
from headrace.base.processes import Process, User, look_up
from headrace.errors import CouldNotRun, InputError
from headrace.mysql.address import Address
from headrace.mysql.connection import UNREACHABLE, NoRoom
from headrace.mysql.dialect import Dialect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import BinaryLog
from headrace.servers import record as records
from headrace.servers import running
from headrace.servers.failover import hosts, observer, rejoin, rescue
from headrace.servers.failover import run as runs
from headrace.servers.failover.cluster import FailoverCluster
from headrace.servers.failover.draining import Draining
from headrace.servers.failover.executor import Executor
from headrace.servers.failover.hosts import AddressHost, ConnectionPool, Ec2Host, LabHost
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.lease import LeaseTaken
from headrace.servers.failover.planning.election import require_state
from headrace.servers.failover.planning.members import FailoverStep, FailoverWish, Seen
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import (
    STALE_S,
    Began,
    Detected,
    Elected,
    Fenced,
    Finished,
    PlanRefused,
    Progress,
    StepBegan,
    WritesPause,
)
from headrace.servers.failover.run import ChangeRun
from headrace.servers.failover.surroundings import REAL
from headrace.servers.failover.watcher import STALLED_S, Suspicion, Watcher, check_alone, check_followed
from headrace.servers.topology.threads import make_start_statements

VOLUME, INSTANCE = "vol-1", "i-1"


# --- fencing by the EC2 API -----------------------------------------------------------------------


class SlowEc2:
    """Calls that only begin: after `looks` of them the volume is gone, or the instance down."""

    def __init__(self, looks: int, ends: str = "volume") -> None:
        self.looks, self.ends, self.looked = looks, ends, 0

    def detach_volume(self, VolumeId, InstanceId, Force):
        assert Force

    def stop_instances(self, InstanceIds, Force):
        assert Force

    def _done(self, what: str) -> bool:
        return self.looked > self.looks and self.ends == what

    def describe_instances(self, InstanceIds):
        self.looked += 1
        state = "stopped" if self._done("instance") else "stopping"
        return {"Reservations": [{"Instances": [{"State": {"Name": state}}]}]}

    def describe_volumes(self, VolumeIds):
        at = [] if self._done("volume") else [{"InstanceId": INSTANCE, "State": "detaching"}]
        return {"Volumes": [{"Attachments": at}]}


@pytest.mark.parametrize("ends", ["volume", "instance"])
def test_a_fence_of_ec2_holds_before_it_is_said_to(monkeypatch, ends):
    client = SlowEc2(3, ends)
    monkeypatch.setattr(Ec2Host, "make_ec2_client", lambda self: client)
    monkeypatch.setattr(instances, "LOOK_S", 0.0)
    host = Ec2Host("db1", Address("u", "db1", 1), instance=INSTANCE, volumes=(VOLUME,))
    assert host.fence() == f"detached {VOLUME}, stopped {INSTANCE}" and client.looked == 4
    monkeypatch.setattr(instances, "EC2_PACE", {"Delay": 0, "MaxAttempts": 1})
    client.looks = 1_000
    # The volume was never this instance's: nothing is detached by that, and the instance only begins to stop.
    monkeypatch.setattr(client, "detach_volume", lambda **_: 1 / 0)
    monkeypatch.setattr(client, "describe_volumes", lambda VolumeIds: {"Volumes": [{"Attachments": []}]})
    with pytest.raises(CouldNotRun, match="is not stopped and its volumes are not detached"):
        host.fence()


# --- fencing on this machine ----------------------------------------------------------------------


@pytest.fixture
def dead_host(tmp_path, monkeypatch) -> LabHost:
    """A server of the lab that should run, whose process has ended."""
    where = records.make_server_paths(tmp_path, "db")
    where.state.mkdir(parents=True)
    record = records.Record(
        name="db", flavor="mariadb", version_text="", engine="innodb", storage="gp3:20", log_storage=None,
        server_path=None, config="default", memory_gib=None, port=3306, should_run=True, process=Process(1, 2, "b"),
    )  # fmt: skip
    records.save(where, record)
    user = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(running, "find_service_user", lambda: User(user.pw_name, user.pw_uid, user.pw_gid))
    monkeypatch.setattr(hosts, "LOCKED_S", 0.05)
    server: Any = SimpleNamespace(paths=where)
    return LabHost("db", Address("u", "127.0.0.1", 3306), server=server)


def test_a_fence_does_not_hold_while_another_command_is_at_work_on_the_server(dead_host):
    """It may be about to start it: mysql up with a setting stops and starts a source."""
    where = dead_host.server.paths
    with records.lock_server(where), pytest.raises(CouldNotRun, match="another headrace is at work on it"):
        dead_host.fence()
    assert records.require_record(where).should_run
    assert dead_host.fence() == "its process was down already"
    assert not records.require_record(where).should_run


def test_a_fence_ends_a_server_whose_record_has_an_older_process(dead_host):
    """Whoever started it was killed before the record was written."""
    words = ["-c", "import time; time.sleep(60)", f"--defaults-file={dead_host.server.paths.config}"]
    with subprocess.Popen([sys.executable, *words]) as started:
        # The kernel has the words of a program a moment after it has begun.
        wait_until(lambda: words[-1] in Path(f"/proc/{started.pid}/cmdline").read_text(), "the words of the program")
        assert dead_host.fence() == f"killed process {started.pid}"


def test_a_server_of_the_lab_flushes_its_log_as_its_option_file_says(dead_host):
    where = dead_host.server.paths
    record = records.require_record(where)
    assert not dead_host.is_log_flushed(), "MariaDB's default is 0"
    records.save(where, record.with_(flavor="mysql"))
    assert dead_host.is_log_flushed()
    records.save(where, record.with_(options={"sync-binlog": "0"}, settings={"loose_sync_binlog": "1"}))
    assert dead_host.is_log_flushed()
    records.save(where, record.with_(flavor="mysql", settings={"sync_binlog": "100"}))
    assert not dead_host.is_log_flushed()


# --- a source that is back ------------------------------------------------------------------------


def writable(simulated: Cluster) -> dict[str, Seen]:
    """Returns the view of a cluster whose source has just taken a write."""
    seen = simulated.seen()
    return seen | {"s0": replace(seen["s0"], write="ok")}


def working(flavor: str = "mariadb", timeout_s: float = 1e9) -> Cluster:
    """A source and two replicas that have all it wrote. `timeout_s`: of semi-sync."""
    simulated = Cluster(2, flavor, 1, timeout_s, True)
    simulated.write()
    for replica in simulated.servers[1:]:
        simulated.receive(replica.index)
        simulated.apply(replica.index)
    simulated.look()
    return simulated


def test_a_source_that_takes_writes_is_not_dead_whoever_says_so():
    simulated = working()
    progress = going(proof=simulated.proof, by_hand=True, accept_loss=True)
    seen = writable(simulated)
    assert "said to be dead, and it takes writes" in plan(seen, progress).refusal
    journaled = replace(progress, wish=FailoverWish("s0", accept_loss=True), fenced_s=0.5)
    assert "said to be dead" in plan(seen, journaled).refusal
    simulated.kill_source()
    assert not plan(simulated.seen(), progress).refusal


@pytest.mark.parametrize("write", ["blocked", "stalled", "untried", "full"])
def test_a_source_that_was_fenced_and_answers_is_fenced_again(write):
    """Somebody started it: its writes wait for the replicas that were stopped, so none is answered yet."""
    simulated = working()
    seen = simulated.seen()
    seen |= {"s0": replace(seen["s0"], write=write)}
    journaled = going(proof=simulated.proof, fenced_s=0.5)
    if write in ("stalled", "untried", "full"):
        assert plan(seen, journaled).steps[0].action == "fence"
    else:
        assert "no other server would either" in plan(seen, journaled).refusal
    without = seen | {"s0": replace(seen["s0"], fence="none")}
    progress = going(proof=simulated.proof, by_hand=True, accept_loss=True)
    assert "said to be dead, and it answers" in plan(without, progress).refusal
    closed = without | {"s0": replace(without["s0"], state=replace(require_state(without["s0"]), read_only=True))}
    assert not plan(closed, progress).refusal, "it may answer, read-only"


def test_a_fence_from_before_the_proof_or_another_boot_is_none(tmp_path, monkeypatch):
    simulated = working()
    assert simulated.proof is not None
    journal = Journal(tmp_path / "journal")
    wish, boot = FailoverWish("s0"), REAL.read_boot()
    journal.write(Began(wish, "watch", boot))
    journal.write(Fenced("s0", "killed", 5.0))
    resumed = journal.read_unfinished()
    assert resumed is not None and resumed.fenced_s == 5.0
    later = Began(wish, "watch", boot, proof=replace(simulated.proof, at_s=6.0))
    assert resumed.add_event(later).fenced_s is None, "it was seen at work since"
    assert resumed.add_event(Began(wish, "watch", boot)).fenced_s == 5.0
    assert resumed.add_event(Began(wish, "watch", "another")).fenced_s is None
    monkeypatch.setattr(journal.surroundings, "read_boot", lambda: "another")
    again = journal.read_unfinished()
    assert again is not None and again.fenced_s is None


def test_what_the_watcher_writes_of_today_does_not_make_the_rest_young(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.write(Began(FailoverWish("s0"), "watch", REAL.read_boot()))
    journal.write(Fenced("s0", "killed", 5.0))
    old = [json.loads(line) | {"at": "2026-01-01T00:00:00Z"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    journal = Journal(path)
    journal.write(Detected("it is dead"))
    resumed = journal.read_unfinished()
    assert resumed is not None and resumed.is_outdated(FailoverWish("s0"), None, time.time() - journal.history.last_at)


# --- who took over --------------------------------------------------------------------------------


def open_stranger(flavor: str, follows: int | None = None) -> Cluster:
    """A source that is dead, two replicas, and a server with one transaction of its own that takes writes."""
    simulated = Cluster(3, flavor, 1, 1e9, True)
    for _ in range(3):
        simulated.write()
        for replica in simulated.servers[1:]:
            simulated.receive(replica.index)
            simulated.apply(replica.index)
    simulated.look()
    stranger = simulated.servers[3]
    stranger.follows, stranger.read_only, stranger.acks = None, False, False
    stranger.receiver = stranger.applier = 0
    stranger.binlog = [(3, 1)]
    if follows is not None:
        simulated.servers[follows].follows = 3
    simulated.kill_source()
    return simulated


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_writable_server_is_not_the_new_source_because_it_is_writable(flavor):
    simulated = open_stranger(flavor)
    planned = plan(simulated.seen(), going(proof=simulated.proof))
    assert "it has not taken over" in planned.refusal and not planned.steps
    followed = open_stranger(flavor, follows=1)
    assert "it has not taken over" in plan(followed.seen(), going(accept_loss=True)).refusal, "of another history"
    lagging = open_stranger(flavor, follows=1)
    lagging.servers[3].binlog = [*lagging.source.binlog[:1], (3, 2)]
    assert plan(lagging.seen(), going(accept_loss=True)).elected == "s3", "one that was promoted with a loss"


def two_clusters(flavor: str) -> tuple[Cluster, dict[str, Seen]]:
    """A source with a replica, which have died and remained, and another cluster of the same lab."""
    clusters = [Cluster(1, flavor, 1, 1e9, True, first=first) for first in (0, 4)]
    for each in clusters:
        for _ in range(3):
            each.write()
            each.receive(1)
            each.apply(1)
    mine, other = clusters
    mine.look()
    return mine, mine.seen() | other.seen()


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_the_source_of_another_cluster_has_not_taken_over(flavor):
    """A replica follows it, and no transaction of the two clusters is the same."""
    mine, alive = two_clusters(flavor)
    with pytest.raises(InputError, match="s4: takes writes next to s0"):
        check_alone(alive, "s0")
    check_alone(mine.seen(), "s0")
    assert rejoin.find_source_above(alive, "s1") == "s0", "which it follows"
    with pytest.raises(InputError, match=r"s0: is the source \(s1 follows it\)"):
        rejoin.find_source_above(alive, "s0", "s4")
    mine.kill_source()
    seen = alive | mine.seen()
    for accept in (False, True):
        planned = plan(seen, going(proof=mine.proof, accept_loss=accept))
        assert "s4 takes writes" in planned.refusal and "without s4" in planned.hint and not planned.steps
    # Nobody follows the old source once its replica was promoted: the other cluster's is not chosen for it.
    mine.source.up, mine.source.read_only = True, True
    mine.servers[1].follows, mine.servers[1].read_only = None, False
    seen = alive | mine.seen()
    with pytest.raises(InputError, match="take writes, all of them"):
        rejoin.find_source_above(seen, "s0")
    with pytest.raises(CouldNotRun, match="no transaction in common with s4"):
        rejoin._check_related(seen["s0"], seen["s4"], None)
    rejoin._check_related(seen["s0"], seen["s4"], "s4")
    rejoin._check_related(seen["s0"], seen["s1"], None)


@pytest.mark.parametrize("kind", ["failover", "switchover"])
def test_one_elected_long_ago_is_not_opened_next_to_todays_source(kind):
    simulated = working()
    simulated.kill_source()
    first, second = simulated.servers[1:]
    second.follows, second.read_only = None, False
    second.binlog.append((2, 1))
    first.follows = 2
    planned = plan(simulated.seen(), going(kind=kind, elected="s1"))
    assert "s2: writable next to s1" in planned.refusal and "another time" in planned.hint and not planned.steps


def test_what_is_certainly_late_is_refused_before_the_fence():
    """60 s after the proof a source with a timeout of 10 s has acknowledged alone: to fence it then is an outage for
    nothing."""
    simulated = working("mysql", 10.0)
    assert simulated.proof is not None
    seen = simulated.seen()
    seen |= {"s0": replace(seen["s0"], write="stalled")}
    late, progress = simulated.proof.at_s + 60.0, going(proof=simulated.proof)
    assert "may be missing" in plan(seen, progress, late).refusal
    assert plan(seen, progress, simulated.proof.at_s + 3.0).steps[0].action == "fence"
    assert plan(seen, going(proof=simulated.proof, accept_loss=True), late).steps[0].action == "fence"


def test_the_source_of_an_old_switchover_is_not_opened_again():
    """Cut off after `closing`; then people promoted another one by hand, and pointed the source at it."""
    lines, opened = [], []
    state = require_state(working().seen()["s1"])  # it follows somebody

    class ConnectionPool:
        @contextlib.contextmanager
        def hold_connection(self, host):
            yield SimpleNamespace(host=host)

    def reopened(seen: dict[str, Seen]) -> None:
        run: Any = SimpleNamespace(
            progress=going(kind="switchover", pause=WritesPause(closed=True)), pool=ConnectionPool(), say=lines.append, log=lambda event: None,
            hosts={"s0": SimpleNamespace(name="s0")}, seen=seen,
        )  # fmt: skip
        run._reopen_source = lambda progress: ChangeRun._reopen_source(run, progress)
        ChangeRun.reopen(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "observe", lambda *_, **__: state)
        patch.setattr(runs, "reopen", lambda *_: opened.append(1))
        reopened({})
        assert not opened and "stays read-only" in lines[-1]
        state = replace(state, channels=())
        other = {"s1": Seen("s1", state=replace(state, read_only=False))}
        reopened(other)
        assert not opened
        reopened({})
        assert opened and "takes writes again" in lines[-1]


# --- detection ------------------------------------------------------------------------------------


def test_no_room_for_the_probe_is_a_hung_source_where_a_write_hung_before():
    """Pools open connections while commits hang, until the probe gets none."""
    seen = working().seen()
    full = seen | {"s0": replace(seen["s0"], write="full", error="takes no more connections")}
    hung = seen | {"s0": replace(seen["s0"], write="stalled", error="no answer")}
    assert not any(Suspicion().add_observation(full, "s0", float(second)) for second in range(60)), "only busy"
    suspicion = Suspicion()
    assert suspicion.add_observation(hung, "s0", 0.0) == ""
    assert "takes no writes" in suspicion.add_observation(full, "s0", STALLED_S)


def test_replicas_that_were_stopped_say_nothing_of_the_source():
    simulated = working()
    for replica in simulated.servers[1:]:
        simulated.stop_threads(replica, apply=False)
    seen = simulated.seen()
    seen |= {"s0": replace(seen["s0"], state=None, error="no route")}
    suspicion = Suspicion()
    assert not any(suspicion.add_observation(seen, "s0", float(second)) for second in range(10))


def test_a_refused_failover_does_not_keep_the_watcher_from_the_next(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.write(Began(FailoverWish("s0"), "watch", ""))
    journal.write(PlanRefused("no proof"))
    assert journal.read().failed_over_at is None
    journal.write(Began(FailoverWish("s0"), "watch", ""))
    journal.write(Elected("s1", None, True))
    journal.write(Finished(OUTCOME))
    first = journal.read().failed_over_at
    assert first == pytest.approx(time.time(), abs=60)
    journal.write(Began(FailoverWish("s1"), "user", ""))
    journal.write(Elected("s2", None, True))
    assert journal.read().failed_over_at == first


def test_a_second_watcher_on_the_machine_is_told_that_another_acts(tmp_path):
    first, second = Journal(tmp_path / "journal"), Journal(tmp_path / "journal")
    with first.lock(), pytest.raises(LeaseTaken, match="another failover of this cluster"), second.lock():
        pass


def test_a_fence_slower_than_the_semi_sync_timeout_is_said(monkeypatch):
    simulated, spoken = working(), []
    assert simulated.proof is not None
    hosts_of = {"s0": Ec2Host("s0", Address("u", "s0", 1), instance=INSTANCE)}
    watcher: Any = Watcher(SimpleNamespace(hosts=hosts_of), FailoverWish("s0"), source="s0", say=spoken.append)  # pyright: ignore[reportArgumentType]
    watcher.proof = simulated.proof
    watcher._report_slow_fence()
    assert not spoken, "its timeout is long"
    watcher.proof = replace(simulated.proof, timeout_s=10.0)
    watcher._report_slow_fence()
    watcher._report_slow_fence()
    assert len(spoken) == 1 and "a failover would be refused" in spoken[0]


def test_a_failover_of_another_time_is_not_gone_on_with(tmp_path):
    simulated = working()
    wish, boot = FailoverWish("s0"), REAL.read_boot()
    journal = Journal(tmp_path / "journal")
    journal.write(Began(wish, "watch", boot, simulated.proof))
    journal.write(Fenced("s0", "killed", simulated.now))
    resumed = journal.read_unfinished()
    assert resumed is not None and not resumed.is_outdated(wish, None, 1.0)
    assert resumed.is_outdated(wish, writable(simulated), 1.0), "its source takes writes"
    assert resumed.is_outdated(wish, None, STALE_S + 1)
    assert not resumed.is_outdated(FailoverWish("s1"), None, STALE_S + 1)
    # Today's proof counts, not that of the journal.
    assert simulated.proof is not None
    today = replace(simulated.proof, at_s=simulated.proof.at_s + 5)
    assert resumed.add_event(Began(wish, "watch", boot, today)).proof == today
    assert resumed.add_event(Began(wish, "watch", boot)).proof == simulated.proof
    journal.write(Elected("s1", None, True))
    chosen = journal.read_unfinished()
    assert chosen is not None and not chosen.is_outdated(wish, writable(simulated), STALE_S + 1)
    old = tmp_path / "old"
    lines = [
        json.loads(line) | {"at": "2026-01-01T00:00:00Z"} for line in (tmp_path / "journal").read_text().splitlines()
    ]
    old.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    assert Journal(old).read().last_at == 1_767_225_600.0


def test_replicas_that_follow_an_address_nobody_named_are_said():
    """Named db1 and followed as 10.0.0.5: the watcher would wait for ever."""
    seen = working().seen()
    check_followed(seen, "s0")
    for name in ("s2", "s1"):
        state = seen[name].state
        assert state is not None
        channels = tuple(replace(channel, source_host="10.0.0.5") for channel in state.channels)
        seen |= {name: replace(seen[name], state=replace(state, channels=channels))}
        # One alone would be left behind, with nobody to follow; whoever was elected is gone on with.
        wish = going(by_hand=True)
        simulated = plan(seen, wish)
        assert not simulated.steps and f"{name} follows 10.0.0.5:1" in simulated.refusal and "address" in simulated.hint
        assert "10.0.0.5" not in plan(seen, going(by_hand=True, elected="s1")).refusal
        # A channel to another server's number makes it a replica of somebody else.
        elsewhere = tuple(replace(channel, source_server_id=4_711) for channel in channels)
        other = seen | {name: replace(seen[name], state=replace(state, channels=elsewhere))}
        assert f"{name} follows" not in plan(other, wish).refusal
    with pytest.raises(InputError, match=r"was named: s1 follows 10\.0\.0\.5:1, s2 follows"):
        check_followed(seen, "s0")


def test_a_watcher_that_meets_a_good_source_gives_up_what_was_left(tmp_path):
    journal = Journal(tmp_path / "journal")
    changed = []
    state = require_state(working().seen()["s1"])
    stopped = replace(state, channels=tuple(replace(channel, receive="off") for channel in state.channels))

    class ConnectionPool:
        def query_state(self, host):
            return stopped

        def change(self, host, *statements):
            changed.append((host, statements))

    hosts_of = {"s1": "s1", "s2": "s2"}
    executor = SimpleNamespace(journal=journal, pool=ConnectionPool(), hosts=hosts_of, say=changed.append)
    journal.write(Began(FailoverWish("s0"), "watch", ""))
    journal.write(StepBegan(FailoverStep(1, "stop-receive", "s1")))
    Executor.give_up(executor, "s1")  # pyright: ignore[reportArgumentType]
    assert journal.read_unfinished() is not None and not changed
    Executor.give_up(executor, "s0")  # pyright: ignore[reportArgumentType]
    assert journal.read_unfinished() is None
    assert [host for host, _ in changed] == ["s1"], "what it stopped receives again, and nobody else"


def test_what_an_outdated_change_has_stopped_is_not_forgotten(tmp_path):
    """A new run begins, elects nobody, and lets those receive again too."""
    journal, wish = Journal(tmp_path / "journal"), FailoverWish("s0")
    journal.write(Began(wish, "watch", "boot"))
    journal.write(StepBegan(FailoverStep(1, "stop-receive", "s1")))
    progress = journal.read_unfinished()
    assert progress is not None and progress.stopped == {"s1"}, "it may have been done"

    def look(*_: object) -> None:
        raise CouldNotRun("s0", "is not looked at", "", "")

    watched: Any = SimpleNamespace(hosts={}, surroundings=REAL, fenced=set(), probe_source=look)
    lease: Any = SimpleNamespace(take=lambda _: None, release=lambda: None)
    with pytest.raises(CouldNotRun, match="is not looked at"):
        Executor(watched, journal, lease).run(wish, seen=writable(working()))
    again = journal.read_unfinished()
    assert again is not None and again.by == "user" and again.stopped == {"s1"}


@pytest.mark.parametrize("rescued", [False, True])
def test_one_whose_rescue_was_cut_off_applies_again(tmp_path, rescued):
    """Killed in the middle, the rescue starts no applier again; nobody else stopped it."""
    journal = Journal(tmp_path / "journal")
    changed: list[str] = []
    simulated = working("mysql")
    state = require_state(simulated.seen()["s1"])
    stopped = replace(state, channels=tuple(replace(channel, receive="off", apply="off") for channel in state.channels))
    pool = SimpleNamespace(
        query_state=lambda host: stopped, change=lambda host, *statements: changed.extend(statements)
    )
    executor: Any = SimpleNamespace(journal=journal, pool=pool, hosts={"s1": "s1"}, say=changed.append)
    journal.write(Began(FailoverWish("s0"), "watch", ""))
    journal.write(StepBegan(FailoverStep(1, "stop-receive", "s1")))
    if rescued:
        journal.write(StepBegan(FailoverStep(3, "rescue", "s1", to="s0")))
    Executor.give_up(executor, "s0")
    assert ["SQL_THREAD" in statement for statement in changed] == ([True, False] if rescued else [False])


@pytest.mark.parametrize(
    ("flavor", "receive", "apply", "all_applied", "appliers", "starts", "staying"),
    [
        ("mysql", "off", "on", False, False, ["IO_THREAD"], 0),
        ("mysql", "off", "off", False, False, ["IO_THREAD"], 0),  # its relay log stays
        ("mysql", "off", "off", False, True, ["SQL_THREAD", "IO_THREAD"], 0),
        ("mysql", "on", "off", False, False, [], 0),  # somebody stopped its applier
        ("mariadb", "off", "on", False, False, ["IO_THREAD"], 0),
        ("mariadb", "off", "off", True, True, ["SQL_THREAD", "IO_THREAD"], 0),
        ("mariadb", "off", "off", False, True, [], 1),  # its relay log would go
        ("mariadb", "connecting", "off", False, True, ["SQL_THREAD"], 0),
        ("mariadb", "on", "on", False, True, [], 0),
    ],
)
def test_what_is_started_again(flavor, receive, apply, all_applied, appliers, starts, staying):
    simulated = working(flavor)
    simulated.receive(1)  # the write of a probe
    if all_applied:
        simulated.apply(1)
    state = require_state(simulated.seen()["s1"])
    channels = tuple(replace(statement, receive=receive, apply=apply) for statement in state.channels)
    statements, stay = make_start_statements(replace(state, channels=channels), appliers)
    assert [next(word for word in statement.split() if word.endswith("_THREAD")) for statement in statements] == starts
    assert all(statement.startswith("START") for statement in statements) and len(stay) == staying


def test_a_full_disk_leaves_no_source_closed():
    """The source of a switchover takes writes again, though the journal cannot say so."""
    done = []

    def full(event):
        done.append(type(event).__name__)
        raise CouldNotRun("journal", "cannot be written: No space left on device", "")

    def undone(progress: Progress) -> list[str]:
        run: Any = SimpleNamespace(progress=progress, log=full, reopen=lambda: done.append("reopened"))
        ChangeRun._undo(run)
        return done

    assert undone(going(kind="switchover")) == ["reopened", "GivenUp"]
    assert undone(going()) == ["reopened", "GivenUp"], "fence and proof of a failover hold for the next try"


# --- the probe ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "write"),
    [
        ((1142, "INSERT command denied"), "blocked"),
        ((1044, "Access denied for user"), "blocked"),
        ((1862, "Your password has expired"), "blocked"),
        ((1114, "The table is full"), "refused"),
        ((1021, "Disk full"), "refused"),
        (InputError("db1", "denies access", ""), "blocked"),
        (NoRoom("db1", "takes no more connections", ""), "full"),
        (CouldNotRun("db1", "does not answer", "", kind=UNREACHABLE), "stalled"),
        (CouldNotRun("db1", "blocks this host after failed connections", "error 1129"), "blocked"),
    ],
)
def test_trouble_of_the_probe_is_not_the_servers(error, write):
    from pymysql.err import OperationalError

    class Host:
        def open_connection(self, timeout_s):
            raise error if isinstance(error, Exception) else OperationalError(*error)

    watched = SimpleNamespace(hosts={"s0": Host()})
    assert observer.Observer._try_write(watched, "s0", {}, 1.0)[0] == write  # pyright: ignore[reportArgumentType]


def test_an_error_of_the_driver_is_a_refusal_in_words():
    """A link is cut while a replica comes near: the simulation found that the driver's error ended the run."""
    from pymysql.err import OperationalError

    class Host:
        name = "s1"

        def open_connection(self, timeout_s):
            return SimpleNamespace(_force_close=lambda: None)

    pool = ConnectionPool()
    with pytest.raises(CouldNotRun, match="s1: Lost connection") as error, pool.hold_connection(Host()):  # pyright: ignore[reportArgumentType]
        raise OperationalError(2013, "Lost connection to MySQL server during query")
    assert error.value.source == "error 2013 of the server"
    with pytest.raises(ZeroDivisionError), pool.hold_connection(Host()):  # pyright: ignore[reportArgumentType]
        raise ZeroDivisionError


def test_nobody_waits_for_a_relay_log_that_is_gone():
    """A power cut in the middle of a drain: the simulation waited for an hour."""
    simulated = working("mysql")
    simulated.write()
    simulated.receive(1)
    gtids = simulated.gtids(simulated.servers[1].knows())
    simulated.stop_threads(simulated.servers[1], apply=False)
    states = iter([require_state(simulated.seen()["s1"])])
    pool: Any = SimpleNamespace(query_state=lambda host: next(states))
    draining = Draining(pool, lambda event: None, lambda text: None, 3_600.0, 10.0)
    host = AddressHost("s1", Address("u", "s1", 1))
    assert not draining._read_applied(host, gtids).contains(gtids), "it is still to be applied"
    simulated.servers[1].relay = []
    states = iter([require_state(simulated.seen()["s1"])])
    with pytest.raises(CouldNotRun, match="a part of what it had received is lost"):
        draining._read_applied(host, gtids)


# --- taking back ----------------------------------------------------------------------------------


def test_nothing_is_taken_back_without_a_common_transaction(dead_host, monkeypatch):
    """The new source was made from a copy after the old one had died: its binary log has nothing of it. Without a start
    the reader would take back everything that the old one ever logged."""
    monkeypatch.setattr(rescue, "find_host_program", lambda *_: pytest.fail("its binary log is read"))
    seen = working().seen()
    log = BinaryLog(on=True, replica_updates=True, format="ROW", row_image="FULL")
    old = replace(seen["s0"], wrote={(0, 1): 105}, state=replace(require_state(seen["s0"]), binary_log=log))
    executed = GtidSet.parse("0-3-160", "mariadb")

    def copied(applied: str) -> Seen:
        state = replace(require_state(seen["s1"]), channels=(), executed=executed)
        state = replace(state, applied=GtidSet.parse(applied, "mariadb"))
        return replace(seen["s1"], wrote={(0, 2): 155, (0, 3): 160}, state=state)

    with pytest.raises(CouldNotRun, match="not known to have a transaction in common") as error:
        rejoin._rewind(dead_host, old, copied("0-2-150"), print)
    assert "--diverged seed" in error.value.hint
    # The position of the copy counts: what it names is common, whatever the binary log has.
    assert str(rejoin._find_common(old, copied("0-1-100"))) == "0-1-100"


def test_a_dead_source_is_cut_off_where_the_failover_of_its_last_run_lost_nothing(dead_host, tmp_path):
    """Else what it acknowledged alone would be removed before it is listed."""
    where, mine = dead_host.server.paths, look_up(os.getpid())
    assert mine is not None
    record = records.require_record(where).with_(process=mine, settings={rejoin.ROLE: "ON"})
    cluster = FailoverCluster({"db": dead_host}, tmp_path / "failover")

    def may_be_cut_off(**changes: object) -> bool:
        records.save(where, record.with_(**changes))
        return rejoin._has_waited_for_replicas(cluster, dead_host, Seen("db"))

    assert not may_be_cut_off(), "no journal knows of a failover"
    journal = Journal(tmp_path / "failover" / "of_other_servers.jsonl")
    for lossless in (False, True):
        journal.write(Began(FailoverWish("db"), "watch", ""))
        journal.write(Elected("s1", None, lossless))
        journal.write(Finished(replace(OUTCOME, lossless=lossless)))
        assert may_be_cut_off() is lossless
    assert not may_be_cut_off(settings={rejoin.ROLE: "OFF"})
    assert not may_be_cut_off(process=replace(mine, started=1 << 50)), "it ran again since"
    assert not may_be_cut_off(process=replace(mine, boot="another")), "when it started is not known"
    journal.write(Began(FailoverWish("db", kind="switchover"), "user", ""))
    journal.write(Finished(replace(OUTCOME, lossless=False)))
    assert may_be_cut_off(), "a switchover says nothing of a dead source"


def test_an_old_source_that_lacks_what_was_purged_does_not_rejoin(monkeypatch):
    monkeypatch.setattr(rejoin.seeding, "read_purged", lambda _: GtidSet.parse("0-1-50", "mariadb"))
    new: Any = SimpleNamespace(name="s1", open_connection=lambda _: contextlib.ExitStack())
    old = working().seen()["s0"]
    rejoin._check_reachable(new, old, GtidSet.parse("0-1-50", "mariadb"))
    with pytest.raises(InputError, match="s0: needs 20 transactions that s1 has purged") as error:
        rejoin._check_reachable(new, old, GtidSet.parse("0-1-30", "mariadb"))
    assert "follows nobody" in error.value.hint


# --- accounts -------------------------------------------------------------------------------------


class Connection:
    """Keeps the statements it was given."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def execute(self, statement, *_):
        self.statements.append(statement)

    def fetchall(self):
        return ((0,),)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_followers_on_one_port_have_accounts_of_their_own(flavor):
    source = AddressHost("db1", Address("u", "db1", 3306))
    dialect = Dialect(flavor, (10, 11, 0) if flavor == "mariadb" else (9, 7, 0))
    users = [
        source.admit_follower(AddressHost(name, Address("u", name, 3306)), Connection(), dialect).user  # pyright: ignore[reportArgumentType]
        for name in ("db2", "db3", "db2")
    ]
    assert users[0] != users[1] and users[0] == users[2] and all(len(user) <= 32 for user in users)


# --- reading binary logs --------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    """A reader that fails at a file with the word damaged in it, as mariadb-binlog does: it reads none after it."""
    reader = tmp_path / "reader"
    reader.write_text(
        '#!/bin/sh\nfor f in "$@"; do [ -f "$f" ] || continue\n'
        'grep -q damaged "$f" && { echo "ERROR: event read error, corrupted" >&2; exit 1; }\ncat "$f"; done\n'
    )
    reader.chmod(0o755)
    return SimpleNamespace(flavor="mariadb", basedir=tmp_path, find_tool=lambda *names: (str(reader),))


def test_only_the_last_binary_log_may_be_cut_off(tmp_path, program):
    files = [tmp_path / f"binlog.00000{number}" for number in (1, 2, 3)]
    for path in files:
        path.write_text("whole\n")
    rescue.check_earlier(program, files, "db1")
    files[2].write_text("damaged\n")
    rescue.check_earlier(program, files, "db1")
    files[0].write_text("damaged\n")
    with pytest.raises(CouldNotRun, match="before its last is damaged: ERROR: event read error"):
        rescue.check_earlier(program, files, "db1")
    rescue.check_earlier(program, files[:1], "db1")
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 5\n")
    slow.chmod(0o755)
    assert "not read within 0.1 s" in rescue.write_reader_output([str(slow)], subprocess.DEVNULL, 0.1)


def test_a_log_with_nothing_beyond_is_read():
    """A source whose replicas had everything: mariadb-binlog ends with 1, and there is no tail."""
    nothing = "ERROR: Binary logs never reached expected GTID state of 0-102-15"
    rescue._check_reader(1, nothing, "db1")
    with pytest.raises(CouldNotRun, match="could not be read"):
        rescue._check_reader(1, "ERROR: unknown option", "db1")
    assert rescue.write_reader_output(["sh", "-c", f"echo '{nothing}' >&2; exit 1"], subprocess.DEVNULL, 10.0) == ""
    assert "another" in rescue.write_reader_output(["sh", "-c", "echo another >&2; exit 1"], subprocess.DEVNULL, 10.0)


def test_a_list_that_could_not_be_read_is_no_list(tmp_path, program):
    log, listed = tmp_path / "binlog.000001", tmp_path / "list"
    log.write_text("row\n")
    reader = program.find_tool()[0]
    with listed.open("wb") as file:
        rejoin._require_reader_output([reader, str(log)], file, "db1")
    assert Path(listed).read_text() == "row\n"
    log.write_text("damaged\n")
    with listed.open("wb") as file, pytest.raises(CouldNotRun, match="what only it has could not be read"):
        rejoin._require_reader_output([reader, str(log)], file, "db1")
