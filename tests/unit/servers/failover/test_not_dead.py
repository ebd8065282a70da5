"""What is said to be dead and is not, what is said to be read and was not: nothing is promoted, thrown
away or called whole by it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from relay_logs import Cluster

from headrace.connect.address import Address
from headrace.connect.connection import NoRoom
from headrace.errors import CouldNotRun, InputError
from headrace.servers.failover import hosts, observer, rejoin, rescue
from headrace.servers.failover.executor import Executor
from headrace.servers.failover.hosts import AddressHost, Ec2Host
from headrace.servers.failover.journal import STALE_S, Journal
from headrace.servers.failover.planning.members import FailoverWish, Seen
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.watcher import check_followed
from headrace.servers.topology.dialect import Dialect

VOLUME, INSTANCE = "vol-1", "i-1"


# --- fencing by the EC2 API -----------------------------------------------------------------------


class SlowEc2:
    """Calls that only begin: after `looks` of them the volume is gone, or the instance down."""

    def __init__(self, looks: int, ends: str = "volume") -> None:
        self.left, self.ends, self.looked = looks, ends, 0

    def detach_volume(self, VolumeId, InstanceId, Force):
        assert Force

    def stop_instances(self, InstanceIds, Force):
        assert Force

    def _done(self, what: str) -> bool:
        return self.looked > self.left and self.ends == what

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
    monkeypatch.setattr(Ec2Host, "client", lambda self: client)
    monkeypatch.setattr(hosts, "LOOK_S", 0.0)
    host = Ec2Host("db1", Address("u", "db1", 1), instance=INSTANCE, volumes=(VOLUME,))
    assert host.fence() == f"detached {VOLUME}, stopped {INSTANCE}" and client.looked == 4
    monkeypatch.setattr(hosts, "EC2_PACE", {"Delay": 0, "MaxAttempts": 1})
    client.left = 1_000
    with pytest.raises(CouldNotRun, match="is not stopped and its volumes are not detached"):
        host.fence()


# --- a source that is back ------------------------------------------------------------------------


def writable(made: Cluster) -> dict[str, Seen]:
    """What is seen of it, its source having just taken a write."""
    seen = made.seen()
    return seen | {"s0": replace(seen["s0"], write="ok")}


def working() -> Cluster:
    """A source and two replicas that have all it wrote."""
    made = Cluster(2, "mariadb", 1, 1e9, True)
    made.write()
    for one in made.servers[1:]:
        made.receive(one.index)
        made.apply(one.index)
    made.look()
    return made


def test_a_source_that_takes_writes_is_not_dead_whoever_says_so():
    made = working()
    said = FailoverWish(source="s0", proof=made.proof, now_s=1.0, by_hand=True, accept_loss=True)
    seen = writable(made)
    assert "said to be dead, and it takes writes" in plan(seen, said).refusal
    journaled = replace(said, by_hand=False, fenced_s=0.5)
    assert "said to be dead" in plan(seen, journaled).refusal
    made.kill_source()
    assert not plan(made.seen(), said).refusal


def test_a_failover_of_another_time_is_not_gone_on_with(tmp_path):
    made = working()
    said = FailoverWish(source="s0", proof=made.proof, now_s=1.0)
    journal = Journal(tmp_path / "journal")
    journal.begin(said, "watch")
    journal.fenced("s0", "killed")
    left = journal.unfinished()
    assert left is not None and not left.is_over(said, None)
    assert left.is_over(said, writable(made)), "its source takes writes"
    assert replace(left, age_s=STALE_S + 1).is_over(said, None)
    assert not replace(left, age_s=STALE_S + 1).is_over(replace(said, source="s1"), None)
    # Today's proof counts, not that of the journal.
    assert made.proof is not None
    today = replace(said, proof=replace(made.proof, at_s=made.proof.at_s + 5))
    assert left.joined(today).proof == today.proof and left.joined(replace(said, proof=None)).proof == made.proof
    journal.write("elected", server="s1")
    chosen = journal.unfinished()
    assert chosen is not None and not replace(chosen, age_s=STALE_S + 1).is_over(said, writable(made))
    old = tmp_path / "old"
    lines = [
        json.loads(line) | {"at": "2026-01-01T00:00:00Z"} for line in (tmp_path / "journal").read_text().splitlines()
    ]
    old.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    aged = Journal(old).unfinished()
    assert aged is not None and aged.age_s == pytest.approx(time.time() - 1_767_225_600.0, abs=60)


def test_replicas_that_follow_an_address_nobody_named_are_said():
    """Named db1 and followed as 10.0.0.5: the watcher would wait for ever."""
    seen = working().seen()
    check_followed(seen, "s0")
    for name in ("s1", "s2"):
        state = seen[name].state
        assert state is not None
        channels = tuple(replace(one, source_host="10.0.0.5") for one in state.channels)
        seen |= {name: replace(seen[name], state=replace(state, channels=channels))}
    with pytest.raises(InputError, match=r"no server named follows that address: s1 follows 10\.0\.0\.5:1, s2"):
        check_followed(seen, "s0")


def test_a_watcher_that_meets_a_good_source_gives_up_what_was_left(tmp_path):
    journal = Journal(tmp_path / "journal")
    executor = SimpleNamespace(journal=journal)
    journal.begin(FailoverWish(source="s0"), "watch")
    Executor.back(executor, "s1")  # pyright: ignore[reportArgumentType]
    assert journal.unfinished() is not None
    Executor.back(executor, "s0")  # pyright: ignore[reportArgumentType]
    assert journal.unfinished() is None


def test_a_full_disk_leaves_no_source_closed():
    """The source of a switchover takes writes again, though the journal cannot say so."""
    done = []

    class Full:
        def write(self, event):
            done.append(event)
            raise CouldNotRun("journal", "cannot be written: No space left on device", "")

    executor = SimpleNamespace(journal=Full(), _reopen=lambda wish: done.append("reopened"))
    Executor._undo(executor, FailoverWish(source="s0", kind="switchover"))  # pyright: ignore[reportArgumentType]
    assert done == ["reopened", "given up"]


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
        (NoRoom("db1", "takes no more connections", ""), "blocked"),
        (CouldNotRun("db1", "does not answer", ""), "stalled"),
    ],
)
def test_trouble_of_the_probe_is_not_the_servers(error, write):
    from pymysql.err import OperationalError

    class Host:
        def connected(self, timeout_s):
            raise error if isinstance(error, Exception) else OperationalError(*error)

    watched = SimpleNamespace(hosts={"s0": Host()})
    assert observer.Observer._write(watched, "s0", {}, 1.0)[0] == write  # pyright: ignore[reportArgumentType]


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

    def fetchone(self):
        return (0,)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_followers_on_one_port_have_accounts_of_their_own(flavor):
    source = AddressHost("db1", Address("u", "db1", 3306))
    dialect = Dialect(flavor, (10, 11, 0) if flavor == "mariadb" else (9, 7, 0))
    users = [
        source.source_for(AddressHost(name, Address("u", name, 3306)), Connection(), dialect).user  # pyright: ignore[reportArgumentType]
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
    return SimpleNamespace(flavor="mariadb", basedir=tmp_path, tool=lambda *names: (str(reader),))


def test_only_the_last_binary_log_may_be_cut_off(tmp_path, program):
    files = [tmp_path / f"binlog.00000{number}" for number in (1, 2, 3)]
    for one in files:
        one.write_text("whole\n")
    rescue.check_earlier(program, files, "db1")
    files[2].write_text("damaged\n")
    rescue.check_earlier(program, files, "db1")
    files[0].write_text("damaged\n")
    with pytest.raises(CouldNotRun, match="before its last is damaged: ERROR: event read error"):
        rescue.check_earlier(program, files, "db1")
    rescue.check_earlier(program, files[:1], "db1")


def test_a_list_that_could_not_be_read_is_no_list(tmp_path, program):
    log, listed = tmp_path / "binlog.000001", tmp_path / "list"
    log.write_text("row\n")
    reader = program.tool()[0]
    with listed.open("wb") as file:
        rejoin._write_out([reader, str(log)], file, "db1")
    assert Path(listed).read_text() == "row\n"
    log.write_text("damaged\n")
    with listed.open("wb") as file, pytest.raises(CouldNotRun, match="what only it has could not be read"):
        rejoin._write_out([reader, str(log)], file, "db1")
