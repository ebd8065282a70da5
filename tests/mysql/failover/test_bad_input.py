"""Faults that replicas meet in the field, on three real servers that are left as they were: each
time `headrace replica status` names it, with what to do. BAD_INPUT=all adds what takes a server's
restart; FLAVORS=mariadb,mysql both flavors.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

import pytest
from lab_servers import sql
from under_load import Trio
from waiting import wait_until

from headrace import servers
from headrace.mysql import Secret, connect
from headrace.mysql.dialect import SourceOf
from headrace.servers.failover.changes import follow
from headrace.servers.failover.hosts import LabHost, query_host_state
from headrace.servers.topology import topology
from headrace.servers.topology.lag.watch import LagWatch
from headrace.servers.topology.topology import TopologyMember, list_topology

SCHEMA = "bad_input"
HOUR_S = 3_600


@pytest.fixture
def schema(trio) -> Iterator[str]:
    source = trio.server(trio.source)
    sql(source, f"CREATE DATABASE {SCHEMA}", f"CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
    yield SCHEMA
    sql(source, f"DROP DATABASE {SCHEMA}")
    assert trio.equal()


@pytest.fixture
def replica(trio) -> str:
    return next(name for name in trio.names if name != trio.source)


def of(trio: Trio, name: str) -> TopologyMember:
    return next(state for state in list_topology(trio.lab) if state.server.name == name)


def wait_for_line(look: Callable[[], tuple[str, ...]], *words: str) -> str:
    """The line that has all of the words, once there is one."""
    result: tuple[str, ...] = ()

    def line_of() -> str:
        nonlocal result
        result = look()
        return next((line for line in result if all(word in line for word in words)), "")

    try:
        return wait_until(line_of, f"a line with {words}")
    except AssertionError as late:
        raise AssertionError(f"{late}; lines: {result}") from None


def test_tables_and_statements_that_will_bite(trio, schema, replica):
    source = trio.server(trio.source)
    sql(
        source,
        f"CREATE TABLE {schema}.log (line VARCHAR(100), n INT UNIQUE)",  # n may be NULL
        f"CREATE TABLE {schema}.old (id INT PRIMARY KEY) ENGINE=MyISAM",
        f"CREATE TABLE {schema}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {schema}.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {schema}.parent (id))",
    )
    for name in (trio.source, replica):
        warnings = wait_for_line(lambda name=name: of(trio, name).warnings, f"{schema}.log", "primary key")
        assert f"{schema}.old" not in warnings and f"{schema}.t" not in warnings
        wait_for_line(lambda name=name: of(trio, name).warnings, f"{schema}.old (MyISAM)", "ENGINE = InnoDB")
        if trio.flavor == "mysql":
            wait_for_line(lambda name=name: of(trio, name).warnings, f"{schema}.parent", "WRITESET")
    assert not of(trio, replica).problems, "none of it is wrong now"


def test_statements_give_other_rows_unnoticed(trio, schema, replica):
    source, other = trio.server(trio.source), trio.server(replica)
    before = sql(source, "SELECT @@global.binlog_format")[0][0]
    sql(source, "SET GLOBAL binlog_format = 'STATEMENT'")
    try:
        wait_for_line(lambda: of(trio, trio.source).warnings, "binlog_format is STATEMENT", "binlog_format = ROW")
        sql(source, f"INSERT INTO {schema}.t VALUES (1, UUID())")
        here = sql(source, f"SELECT v FROM {schema}.t")
        there, until = (), time.monotonic() + 30
        while not there and time.monotonic() < until:
            there = sql(other, f"SELECT v FROM {schema}.t")
        assert there and here != there, "what is warned of happens, and no thread stops"
        assert not of(trio, replica).problems
    finally:
        sql(source, f"SET GLOBAL binlog_format = '{before}'")


def test_an_event_larger_than_the_replica_takes(trio, schema, replica):
    source, other = trio.server(trio.source), trio.server(replica)
    dialect = query_host_state(trio.cluster().hosts[replica]).dialect
    name = "slave_max_allowed_packet" if dialect.is_mariadb else "replica_max_allowed_packet"
    before = sql(other, f"SELECT @@global.{name}")[0][0]
    sql(other, f"SET GLOBAL {name} = 65536", *dialect.stop_receive(), *dialect.start_receive())
    try:
        wait_for_line(lambda: of(trio, replica).warnings, "takes events of at most 65,536 bytes", name)
        sql(source, f"INSERT INTO {schema}.t VALUES (1, REPEAT('x', 1000000))")
        wait_for_line(lambda: of(trio, replica).problems, "max_allowed_packet", "what to do: ", name)
    finally:
        sql(other, f"SET GLOBAL {name} = {before}")
        with contextlib.suppress(Exception):
            sql(other, *dialect.stop_receive())
        sql(other, *dialect.start_receive(), *dialect.start_apply())
    wait_for_line(lambda: tuple(entry[0] for entry in sql(other, f"SELECT LEFT(v, 3) FROM {schema}.t")), "xxx")


def test_a_transaction_larger_than_the_replicas_binary_log_takes(trio, schema, replica):
    """1 MB against 64 KiB here, for 8 GB against 4."""
    source, other = trio.server(trio.source), trio.server(replica)
    dialect = query_host_state(trio.cluster().hosts[replica]).dialect
    before = sql(other, "SELECT @@global.max_binlog_cache_size")[0][0]
    sql(other, *dialect.stop_apply(), "SET GLOBAL max_binlog_cache_size = 65536", *dialect.start_apply())
    try:
        rows = ", ".join(f"({number}, REPEAT('x', 10000))" for number in range(1, 101))
        sql(source, f"INSERT INTO {schema}.t VALUES {rows}")
        wait_for_line(lambda: of(trio, replica).problems, "max_binlog_cache_size", "what to do: ")
    finally:
        sql(other, f"SET GLOBAL max_binlog_cache_size = {before}", *dialect.stop_apply(), *dialect.start_apply())
    wait_for_line(lambda: (f"{sql(other, f'SELECT COUNT(*) FROM {schema}.t')[0][0]} rows",), "100 rows")


def test_caching_sha2_without_tls_and_key(trio, schema, replica):
    if trio.flavor != "mysql":
        pytest.skip("MariaDB has no caching_sha2_password")
    source, hosts = trio.server(trio.source), trio.cluster().hosts
    password = "not-a-secret-of-anyone"
    sql(
        source,
        f"CREATE USER sha2@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'",
        "GRANT REPLICATION SLAVE ON *.* TO sha2@'%'",
        "FLUSH PRIVILEGES",
    )
    dialect = query_host_state(hosts[replica]).dialect
    address = hosts[trio.source]
    pointed = dialect.point_at(SourceOf(address.host, address.port, "sha2", Secret(password)))
    plain = "CHANGE REPLICATION SOURCE TO SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 0 FOR CHANNEL ''"
    other = trio.server(replica)
    try:
        sql(other, *dialect.stop(), *pointed, plain, *dialect.start())
        line = wait_for_line(lambda: of(trio, replica).problems, "secure connection", "what to do: ", "SOURCE_SSL = 1")
        assert password not in line
    finally:
        with contextlib.closing(hosts[replica].open_connection(30.0)) as connection:
            follow(hosts[replica], connection, address)
        sql(source, "DROP USER sha2@'%'")


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_source_whose_clock_is_an_hour_off(trio, schema, replica, step_s):
    """The servers' own Seconds_Behind follows the clocks; ours does not."""
    source = trio.server(trio.source)
    addresses = {name: trio.server(name).make_address() for name in (trio.source, replica)}
    places = {(source.host, source.port or 0): trio.source}
    lags, servers_own = [], []
    with LagWatch(addresses, places) as watch, connect(source.make_address(), 30.0) as connection:
        time.sleep(0.5)
        with connection.cursor() as cursor:
            for _ in range(20):
                cursor.execute(f"SET TIMESTAMP = UNIX_TIMESTAMP(SYSDATE()) + {step_s}")
                cursor.execute(f"INSERT INTO {schema}.t (v) VALUES (NOW())")
                time.sleep(0.05)
                [entry] = watch.read()
                lags.append(entry.clocks.gtid_s)
                servers_own.append(entry.clocks.server_s)
    assert all(lag is not None and lag < HOUR_S / 60 for lag in lags), lags
    print(f"{step_s:+} s: lag {max(lags):.2f} s at most, Seconds_Behind {servers_own}")


def test_a_lag_that_is_older_than_the_watch(trio, schema, replica):
    """Half a minute behind when `headrace replica lag` begins to look: it says so, and not "at least a second".
    One applier: with several, MariaDB says 0 as soon as they have all in their queues."""
    source, other, behind_s = trio.server(trio.source), trio.server(replica), 34
    dialect = query_host_state(trio.cluster().hosts[replica]).dialect
    workers = "slave_parallel_threads" if dialect.is_mariadb else "replica_parallel_workers"
    before = sql(other, f"SELECT @@global.{workers}")[0][0]
    addresses = {name: trio.server(name).make_address() for name in (trio.source, replica)}
    sql(
        other, *dialect.stop_apply(), f"SET GLOBAL {workers} = {0 if dialect.is_mariadb else 1}", *dialect.start_apply()
    )
    try:
        with connect(other.make_address(), 60.0) as connection, connection.cursor() as cursor:
            # READ stops the applier as WRITE does, and MySQL allows it under super_read_only.
            cursor.execute(f"LOCK TABLES {schema}.t READ")
            past = f"SET TIMESTAMP = UNIX_TIMESTAMP(SYSDATE()) - {behind_s}"
            sql(source, past, *(f"INSERT INTO {schema}.t (v) VALUES ({number})" for number in range(20)))
            wait_until(
                lambda: (query_host_state(trio.cluster().hosts[replica]).channels[0].seconds_behind or 0) >= behind_s,
                "a server that says how far it is behind",
            )
            with LagWatch(addresses, {(source.host, source.port or 0): trio.source}) as watch:
                time.sleep(1.5)
                [entry] = watch.read()
            cursor.execute("UNLOCK TABLES")
    finally:
        sql(other, *dialect.stop_apply(), f"SET GLOBAL {workers} = {before}", *dialect.start_apply())
    # The server counts whole seconds, and goes on counting while it is looked at.
    assert entry.lag_s is not None and behind_s <= entry.lag_s <= behind_s + 30 and not entry.at_least, entry
    assert entry.clocks.gtid_s is not None and entry.clocks.gtid_s < behind_s / 2, entry


@pytest.mark.skipif(os.environ.get("BAD_INPUT") != "all", reason="BAD_INPUT=all")
def test_one_server_uuid_twice(trio, schema, replica):
    if trio.flavor != "mysql":
        pytest.skip("MariaDB has no server_uuid")
    other = next(name for name in trio.names if name not in (trio.source, replica))
    host = trio.cluster().hosts[replica]
    assert isinstance(host, LabHost)
    folder = sql(trio.server(replica), "SELECT @@datadir")[0][0]
    path = os.path.join(folder, "auto.cnf")
    mine = sql(trio.server(replica), "SELECT @@server_uuid")[0][0]
    reference = sql(trio.server(other), "SELECT @@server_uuid")[0][0]

    def restarted(old: str, new: str) -> None:
        # It is read at the start alone; its volume is mounted while it runs.
        with open(path) as file:
            text = file.read()
        assert old in text
        with open(path, "w") as file:
            file.write(text.replace(old, new))
        servers.stop(trio.server(replica))
        host.restart({}, {})

    restarted(mine, reference)
    try:
        wait_for_line(lambda: of(trio, replica).warnings, f"has the server_uuid of {other}, {reference}", "auto.cnf")
        wait_for_line(lambda: of(trio, other).warnings, f"has the server_uuid of {replica}, {reference}", "auto.cnf")
    finally:
        restarted(reference, mine)
        topology.start_replica(trio.lab, other)
        topology.start_replica(trio.lab, replica)
