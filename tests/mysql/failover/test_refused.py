"""Refusals of failover and of replication, and the traps of semi-sync, on three real servers that
are left as they were.

TRAPS=all makes every trap that can be made; without it, five. REFUSALS=all adds those that take a server more.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_servers import sql
from test_faults import kill, repair_server
from under_load import NEVER_MS, Trio
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql import connect
from headrace.mysql.dialect import Dialect
from headrace.servers.failover.cluster import make_cluster
from headrace.servers.failover.hosts import LabHost, query_host_state
from headrace.servers.failover.observer import Observer
from headrace.servers.failover.planning.members import FailoverPlan, FailoverWish
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import Progress
from headrace.servers.failover.planning.semisync import list_traps
from headrace.servers.topology.topology import Following, bring_up_replica

# Looks half a second apart, as the watcher's: a trap is named within two seconds.
LOOKS, EVERY_S = 4, 0.5
SOME = ("short-timeout", "source-role-on-replica", "acknowledges-only, error 1062", "source-off", "receive-behind")
# More than semisync.FAR_BEHIND; at a flush an event b needs some seconds for them.
MISSED = 1_500
TWICE = "INSERT INTO headrace_failover_traps.twice VALUES (1)"


@pytest.fixture(autouse=True)
def from_a(trio):
    """Other tests leave another source."""
    if trio.source != "a":
        with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
            executor.run(FailoverWish(trio.source, kind="switchover", target="a"))
        trio.source = "a"


@pytest.fixture
def observer(trio) -> Iterator[Observer]:
    with contextlib.closing(trio.cluster().make_observer()) as observer:
        yield observer


def dialect(trio: Trio) -> Dialect:
    return query_host_state(trio.cluster().hosts["a"]).dialect


class Traps:
    """Statements that set each trap, and those that remove it."""

    def __init__(self, trio: Trio) -> None:
        self.trio, self.dialect = trio, dialect(trio)

    def at(self, name: str, *statements: str) -> Callable[[], object]:
        return lambda: sql(self.trio.server(name), *statements)

    def variable(self, side: str, name: str, value: object) -> str:
        return f"SET GLOBAL {self.dialect.name_semi_sync_variable(side, name)} = {value}"

    def write(self) -> None:
        schema = "headrace_failover"
        sql(self.trio.server("a"), f"CREATE DATABASE IF NOT EXISTS {schema}_traps", f"DROP DATABASE {schema}_traps")

    def without_replicas(self) -> None:
        for name in "bc":
            sql(self.trio.server(name), *self.dialect.stop_receive())

    def with_replicas(self) -> None:
        for name in "bc":
            sql(self.trio.server(name), *self.dialect.start_receive())

    def fallen_back(self) -> None:
        sql(self.trio.server("a"), self.variable("source", "timeout", 100))
        self.without_replicas()
        self.write()

    def back(self) -> None:
        self.with_replicas()
        sql(self.trio.server("a"), self.variable("source", "timeout", NEVER_MS))

    def enabled_late(self) -> None:
        """Semi-sync is switched on when the receive thread has connected without."""
        b = self.trio.server("b")
        sql(b, *self.dialect.stop_receive(), self.variable("replica", "enabled", 0), *self.dialect.start_receive())
        host = self.trio.cluster().hosts["b"]
        wait_until(lambda: query_host_state(host).channels[0].receive == "on", "the receive thread of b")
        sql(b, self.variable("replica", "enabled", 1))

    def behind(self) -> None:
        """b has much to receive."""
        a, b = self.trio.server("a"), self.trio.server("b")
        sql(b, *self.dialect.stop_receive())
        quick = ("SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        sql(a, self.variable("source", "enabled", 0), *quick)
        schema = "headrace_failover_traps"
        sql(a, f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.missed (number INT PRIMARY KEY)")
        sql(a, *(f"INSERT INTO {schema}.missed VALUES ({number})" for number in range(MISSED)))
        sql(a, "SET GLOBAL sync_binlog = 1", "SET GLOBAL innodb_flush_log_at_trx_commit = 1")

    def switched_on_behind(self) -> None:
        sql(self.trio.server("a"), self.variable("source", "enabled", 1))
        sql(self.trio.server("b"), *self.dialect.start_receive())

    def caught_up(self) -> None:
        """Without flushes it soon has all of it."""
        sql(self.trio.server("b"), "SET GLOBAL sync_relay_log = 0")
        sql(self.trio.server("a"), "DROP DATABASE headrace_failover_traps")
        self.wait_for_b()
        sql(self.trio.server("b"), "SET GLOBAL sync_relay_log = 1")

    def wait_for_b(self) -> None:
        host = self.trio.cluster().hosts
        wait_until(
            lambda: query_host_state(host["b"]).executed == query_host_state(host["a"]).executed, "b to catch up", 60
        )

    def refused_by_b(self) -> None:
        """b cannot apply what comes, as after a source that used numbers again: its receive thread
        goes on and acknowledges (error 1062)."""
        a, b, schema = self.trio.server("a"), self.trio.server("b"), "headrace_failover_traps"
        sql(a, f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.twice (number INT PRIMARY KEY)")
        self.wait_for_b()
        sql(
            b,
            "SET SESSION sql_log_bin = 0",
            *self.dialect.switch_read_only(False),
            TWICE,
            *self.dialect.switch_read_only(True),
        )

    def applied_by_b(self) -> None:
        """The row that is in its way is taken out."""
        b, schema = self.trio.server("b"), "headrace_failover_traps"
        delete = f"DELETE FROM {schema}.twice"
        sql(
            b,
            "SET SESSION sql_log_bin = 0",
            *self.dialect.switch_read_only(False),
            delete,
            *self.dialect.switch_read_only(True),
        )
        sql(b, *self.dialect.start_apply())
        sql(self.trio.server("a"), f"DROP DATABASE {schema}")

    def all(self) -> dict[str, tuple[str, Callable[[], object], Callable[[], object]]]:
        """By name: where it shows, what sets it, what takes it away."""
        on, off = (lambda side: self.variable(side, "enabled", 1)), (lambda side: self.variable(side, "enabled", 0))
        start, stop = self.dialect.start_receive(), self.dialect.stop_receive()
        point = lambda value: self.variable("source", "wait_point", f"'{value}'")  # noqa: E731
        result = {
            "source-off": ("a", self.at("a", off("source")), self.at("a", on("source"))),
            "short-timeout": ("a", self.at("a", self.variable("source", "timeout", 1000)), self.back),
            "fell-back": ("a", self.fallen_back, self.back),
            "unacknowledged": ("a", self.fallen_back, self.back),
            "too-few-connected": ("a", self.without_replicas, self.with_replicas),
            "not-receiving": ("b", self.at("b", *stop), self.at("b", *start)),
            "after-commit": ("a", self.at("a", point("AFTER_COMMIT")), self.at("a", point("AFTER_SYNC"))),
            "binlog-not-flushed": ("a", self.at("a", "SET GLOBAL sync_binlog = 0"), self.at("a", "SET GLOBAL sync_binlog = 1")),
            "relay-log-not-flushed": ("b", self.at("b", "SET GLOBAL sync_relay_log = 10000"), self.at("b", "SET GLOBAL sync_relay_log = 1")),
            "source-role-on-replica": ("b", self.at("b", on("source")), self.at("b", off("source"))),
            "receive-not-restarted": ("b", self.enabled_late, self.at("b", *stop, *start)),
            "acknowledges-only": ("b", self.at("b", *self.dialect.stop_apply()), self.at("b", *self.dialect.start_apply())),
            "receive-behind": ("b", self.switched_on_behind, self.caught_up),
            "acknowledges-only, error 1062": ("b", self.at("a", TWICE), self.applied_by_b),
        }  # fmt: skip
        if not self.dialect.is_mariadb:
            result["too-many-asked"] = (
                "a",
                self.at("a", self.variable("source", "wait_count", 3)),
                self.at("a", self.variable("source", "wait_count", 1)),
            )
        return result


def test_each_trap_is_named_in_four_looks(trio, observer):
    result = Traps(trio)
    for name in "bc":
        sql(trio.server(name), "SET GLOBAL sync_relay_log = 1")
    expected = result.all()
    for name in expected if os.environ.get("TRAPS") == "all" else SOME:
        where, sets, takes_away = expected[name]
        before = settled(observer)
        assert not list_traps(before, before["a"]), name
        if prepare := {"receive-behind": result.behind, "acknowledges-only, error 1062": result.refused_by_b}.get(name):
            prepare()
        setting = threading.Thread(target=sets, daemon=True)
        setting.start()
        details = set[tuple[str, str]]()
        for looks in range(1, LOOKS + 2):
            seen = observer.look()
            details |= {(trap.server, trap.name) for trap in list_traps(seen, seen["a"], before)}
            before = seen
            if (where, name.partition(",")[0]) in details:
                print(f"{trio.flavor} {name}: named at look {looks}")
                break
            time.sleep(EVERY_S)
        assert (where, name.partition(",")[0]) in details, f"{name} is not named after {LOOKS} looks, but {details}"
        setting.join(30)
        takes_away()
    for name in "bc":
        sql(trio.server(name), "SET GLOBAL sync_relay_log = 10000")


def settled(observer: Observer) -> dict:
    """A look at which semi-sync works."""

    def look() -> dict | None:
        seen = observer.look()
        return seen if not list_traps(seen, seen["a"]) else None

    return wait_until(look, "semi-sync that works")


# --- refusals -------------------------------------------------------------------------------------


def refusal(observer: Observer, **choices) -> FailoverPlan:
    """Plans a failover of a source that is dead, so far as anybody knows here."""
    seen = observer.look()
    seen["a"] = replace(seen["a"], state=None, error="it is dead")
    return plan(seen, Progress(FailoverWish("a", by_hand=True, accept_loss=True, **choices)))


def test_a_source_that_is_back_is_not_failed_over(trio):
    with (
        contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor,
        pytest.raises(CouldNotRun, match="alive and takes writes"),
    ):
        executor.run(FailoverWish("a", accept_loss=True))
    assert sql(trio.server("a"), "SELECT @@global.read_only") == ((0,),)


def test_rings_and_a_replica_of_itself(trio):
    for above, match in (("a", "cannot follow itself"), ("b", "would follow itself")):
        with pytest.raises(InputError, match=match):
            bring_up_replica(trio.lab, "a", above)
    assert not query_host_state(trio.cluster().hosts["a"]).channels


def test_two_servers_with_one_server_id(trio, observer):
    own = sql(trio.server("b"), "SELECT @@global.server_id")[0][0]
    other = sql(trio.server("c"), "SELECT @@global.server_id")[0][0]
    sql(trio.server("b"), f"SET GLOBAL server_id = {other}")
    try:
        assert f"both have server_id {other}" in refusal(observer).refusal
    finally:
        sql(trio.server("b"), f"SET GLOBAL server_id = {own}")


def test_delayed_replicas_are_not_promoted(trio, observer):
    result = dialect(trio)
    delay = "CHANGE MASTER '' TO MASTER_DELAY" if result.is_mariadb else "CHANGE REPLICATION SOURCE TO SOURCE_DELAY"
    try:
        for name in "bc":
            sql(trio.server(name), *result.stop(), f"{delay} = 3600", *result.start())
        refused = refusal(observer)
        assert "is delayed on purpose by 3600 s" in refused.refusal
        assert refusal(observer, allow_delayed=True).elected in ("b", "c")
    finally:
        for name in "bc":
            sql(trio.server(name), *result.stop(), f"{delay} = 0", *result.start())


def test_transactions_of_a_replicas_own(trio, observer):
    """An errant transaction is listed and refused; MySQL's can be made up for by empty ones."""
    result, b = dialect(trio), trio.server("b")
    if result.is_mariadb:
        # Not binary logged by its own number in strict mode: the write itself is refused there.
        with pytest.raises(Exception, match="1950|out-of-order|1290"):
            sql(b, "SET SESSION gtid_seq_no = 1", "CREATE DATABASE errant")
        return
    sql(b, *result.switch_read_only(False), "CREATE DATABASE errant", *result.switch_read_only(True))
    own = sql(b, "SELECT @@server_uuid")[0][0]
    refused = refusal(observer)
    assert "transactions of their own" in refused.refusal and own in refused.errant["b"], refused
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        outcome = executor.run(FailoverWish("a", kind="switchover", target="c"))
        assert own in outcome.left_out["b"]
    trio.source = "c"


def test_errant_transactions_are_made_up_for(trio, observer):
    """`headrace failover run --errant inject`: MySQL's histories agree afterwards; MariaDB's cannot be made to."""
    result, b = dialect(trio), trio.server("b")
    if result.is_mariadb:
        seen = observer.look()
        own = query_host_state(trio.cluster().hosts["b"]).server_id
        last = max(number for _, number in seen["b"].wrote.items())
        seen["b"] = replace(seen["b"], wrote={**seen["b"].wrote, (0, own): last + 1})
        seen["a"] = replace(seen["a"], state=None, error="it is dead")
        refused = plan(seen, Progress(FailoverWish("a", by_hand=True, accept_loss=True, errant="inject")))
        assert "MariaDB cannot be given empty transactions" in refused.refusal and "--errant leave" in refused.hint
        return
    sql(b, *result.switch_read_only(False), "CREATE DATABASE errant_two", *result.switch_read_only(True))
    uuid = sql(b, "SELECT @@server_uuid")[0][0]
    trio.load.start()
    time.sleep(0.5)
    kill(trio)
    trio.load.stop()
    words = ["failover", "run", *trio.names, "--from", "a", "--clients", trio.clients, "--yes", "--output", "json"]
    words += ["--lab", trio.lab.place.data_dir, "--journal", trio.folder / "journal", "--accept-loss"]
    command = [sys.executable, "-m", "headrace", *map(str, words)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 3 and "transactions of their own" in refused.stderr and uuid in refused.stderr
    done = subprocess.run([*command, "--errant", "inject"], capture_output=True, text=True)
    print(done.stderr)
    outcome = json.loads(done.stdout)
    # Whichever of them received more; where that is b, what comes to follow it gets its own as well.
    trio.source = outcome["elected"]
    assert trio.source in ("b", "c") and not outcome["left_out"], outcome
    having = ("b",) if trio.source == "c" else ("a", "b")
    repair_server(trio, "a")
    trio.forget_failover()
    assert trio.rejoin("a", "seed")["state"] in ("rejoined", "seeded") and trio.equal()
    for name in trio.names:
        server = trio.server(name)
        assert f"{uuid}:" in sql(server, "SELECT @@gtid_executed")[0][0], name
        there = sql(server, "SHOW DATABASES LIKE 'errant\\_two'")
        assert len(there) == (name in having), f"{name}: an empty transaction stands for it elsewhere"
        if there:
            closing = () if name == trio.source else result.switch_read_only(True)
            sql(server, *result.switch_read_only(False), "SET sql_log_bin = 0", "DROP DATABASE errant_two", *closing)


def test_a_wrong_password_and_an_expired_certificate(trio, tmp_path):
    a, b = trio.server("a"), trio.server("b")
    wrong = [f"mysql://nobody@127.0.0.1:{entry.port}" for entry in (a, b)]
    with contextlib.closing(make_cluster(wrong, None, tmp_path).make_observer()) as observer:
        seen = observer.look()
    assert all(entry.error == "cannot log in as nobody: no password was given" for entry in seen.values()), seen
    key, certificate = expired(tmp_path)
    places = [Path(str(entry)) for entry in sql(a, "SELECT @@global.ssl_cert, @@global.ssl_key")[0]]
    data = [place.read_bytes() for place in places]
    reload = "FLUSH SSL" if trio.flavor == "mariadb" else "ALTER INSTANCE RELOAD TLS"
    try:
        for place, content in zip(places, (certificate, key), strict=True):
            place.write_bytes(content)
        if trio.flavor == "mysql":
            with pytest.raises(Exception, match="Invalid certificates"):
                sql(a, reload)
            return  # MySQL itself does not take it
        sql(a, reload)
        place = tmp_path / "ca.pem"
        place.write_bytes(certificate)
        address = replace(a.make_address(tcp=True), ssl_mode="VERIFY_CA", ssl_ca=str(place))
        with pytest.raises(HeadraceError, match="expired"):
            connect(address, 10.0)
    finally:
        for place, content in zip(places, data, strict=True):
            place.write_bytes(content)
        sql(a, reload)


def expired(folder: Path) -> tuple[bytes, bytes]:
    """A key, and a certificate of its own that ended yesterday."""
    key, request, result = folder / "key.pem", folder / "request.pem", folder / "certificate.pem"
    for words in (
        f"ecparam -genkey -name prime256v1 -noout -out {key}",
        f"req -new -key {key} -subj /CN=a -out {request}",
        f"x509 -req -in {request} -signkey {key} -days -1 -out {result}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    return key.read_bytes(), result.read_bytes()


@pytest.mark.skipif(os.environ.get("REFUSALS") != "all", reason="REFUSALS=all")
def test_a_candidate_that_does_not_log_what_it_applies(trio, observer):
    name = "log_slave_updates" if trio.flavor == "mariadb" else "log_replica_updates"
    for entry in "bc":
        servers.stop(trio.server(entry))
        host = trio.cluster().hosts[entry]
        assert isinstance(host, LabHost)
        host.restart({}, {name.replace("_", "-"): "OFF"})
    assert "does not log what it applies" in refusal(observer).refusal
    for entry in "bc":
        servers.stop(trio.server(entry))
        host = trio.cluster().hosts[entry]
        assert isinstance(host, LabHost)
        host.restart({}, {})


@pytest.mark.skipif(os.environ.get("REFUSALS") != "all", reason="REFUSALS=all")
def test_a_server_of_the_other_flavor(trio, request):
    other = {"mariadb": "mysql", "mysql": "mariadb"}[trio.flavor]
    if other == "mysql":
        request.getfixturevalue("mysql_program")
    servers.bring_up(trio.lab, name="other", flavor=other, storage="gp3:4", unpaced=True, port=free_port())
    with pytest.raises(InputError, match="their GTIDs and binary logs differ"):
        bring_up_replica(trio.lab, "other", "a", Following(channel="x"))
    cluster = make_cluster(("a", "b", "other"), trio.lab, trio.folder / "mixed")
    with contextlib.closing(cluster.make_observer()) as mixed:
        seen = mixed.look()
    assert "not all of one flavor" in plan(seen, Progress(FailoverWish("a"))).refusal
    servers.destroy(servers.find(trio.lab, "other"))


def free_port() -> int:
    from headrace.servers.topology.topology import find_free_port as port

    return port()
