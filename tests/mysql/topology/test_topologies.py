"""Twelve topologies of each flavor, each made while the source is written to; afterwards every table is equal.

TOPOLOGIES=all runs them all (some ten minutes); without it, two of MariaDB.
"""

from __future__ import annotations

import os
import time

import pytest
from followed import Writer, new_source, same_data, state_of, tables, until, wait_for
from lab_servers import left_of, sql

from headrace import servers
from headrace.servers.topology import checks
from headrace.servers.topology.topology import Following, bring_up_replica, list_topology, start_replica

ALL = os.environ.get("TOPOLOGIES") == "all"
OWN = {"mariadb": "mariabackup", "mysql": "clone"}
SIMPLE = {
    "own-seed": Following(),
    "copy": Following(seed="copy"),
    "snapshot": Following(seed="snapshot"),
    "binlog": Following(seed="binlog"),
    "file-position": Following(position="file"),
    "workers": Following(workers=4, preserve_order=True),
    "semi-sync": Following(semi_sync=True),
}
# Warnings of `status` about these topologies.
TOLD = {
    "filtered": "cannot be promoted: it is filtered",
    "delayed": "is delayed by 3 s on purpose",
    "file-position": "follows file positions",
}
OTHERS = ("star", "chain", "delayed", "filtered", "two-sources")
CASES = [("mariadb", "own-seed"), ("mariadb", "snapshot")]
if ALL:
    CASES = [(flavor, kind) for flavor in ("mariadb", "mysql") for kind in (*SIMPLE, *OTHERS)]


@pytest.fixture(scope="module")
def sources(lab, request):
    """The source of each flavor, prepared by the first replica."""
    result = {}

    def source(flavor: str):
        if flavor not in result:
            if flavor == "mysql":
                request.getfixturevalue("mysql_program")
            # By own addresses: a network namespace each. MySQL's at 127.0.0.1, so that both ways are tried.
            name = f"{flavor}0"
            servers.bring_up(lab, name=name, flavor=flavor, storage="gp3:4", unpaced=True, own_address=flavor == "mariadb",
                       settings={"innodb_buffer_pool_size": "64M"})  # fmt: skip
            first = bring_up_replica(lab, "first", name, Following(prepare_source=True), unpaced=True)
            servers.destroy(first.server)
            result[flavor] = servers.find(lab, name)
            sql(result[flavor], *tables("shop"), *tables("logs"))
        return servers.find(lab, result[flavor].name)

    yield source
    for entry in result.values():
        servers.destroy(servers.find(lab, entry.name))


@pytest.mark.parametrize(("flavor", "kind"), CASES)
def test_topology(lab, sources, flavor, kind):
    source = sources(flavor)
    names: list[str] = []
    sql(source, "TRUNCATE shop.t", "TRUNCATE logs.t")

    def up(name: str, of: str, following: Following | None = None, **more):
        names.append(name)
        return bring_up_replica(lab, name, of, following or Following(), unpaced=True, **more).server

    try:
        if kind == "copy":  # the source is down for a while, and with it its writers
            with Writer(source):
                time.sleep(0.5)
            replicas = [up("r1", source.name, SIMPLE[kind])]
            with Writer(servers.find(lab, source.name)):
                time.sleep(0.5)
            same_data(servers.find(lab, source.name), *replicas)
        elif kind in SIMPLE:
            with Writer(source) as writer:
                until(lambda: writer.done > 20, "nothing is written")
                replicas = [up("r1", source.name, SIMPLE[kind])]
                before = writer.done
                until(lambda: writer.done > before + 20, "nothing is written any longer")
            same_data(source, *replicas)
            if kind == "own-seed":
                check_start(lab, source, replicas[0])
                check_stopped_source(lab, source, servers.find(lab, "r1"))
            if kind == "semi-sync":
                assert state_of(source).semi_sync.source_status and state_of(replicas[0]).semi_sync.replica_status
        else:
            globals()[f"check_{kind.replace('-', '_')}"](lab, source, up)
        for state in list_topology(lab):
            # MySQL keeps the position in a table, which a crash leaves with the data.
            answer = state.server.name == "r1" and kind in TOLD and (flavor, kind) != ("mysql", "file-position")
            assert state.problems == (), state.server.name
            assert not answer or any(TOLD[kind] in words for words in state.warnings), state.warnings
    finally:
        if kind == "semi-sync":  # the replicas of the other tests do not answer
            sql(source, *state_of(source).dialect.switch_semi_sync("source", False))
        for name in reversed(names):
            if name in {server.name for server in servers.list_servers(lab)}:
                servers.destroy(servers.find(lab, name))
            assert left_of(lab, name) == []


def check_start(lab, source, replica):
    """Stopped by hand, or killed, a replica is started by its name alone and goes on."""
    sql(replica, *state_of(replica).dialect.stop())
    with Writer(source) as writer:
        until(lambda: writer.done > 10, "nothing is written")
        channel = start_replica(lab, replica.name).state.channels[0]
        assert channel.receive != "off" and channel.apply == "on"
    servers.stop(replica, kill=True)
    same_data(source, start_replica(lab, replica.name).server)


def check_stopped_source(lab, source, replica):
    """A source that is down is a problem of its own, where somebody follows it."""
    servers.stop(source)
    problems = {state.server.name: state.problems for state in list_topology(lab)}
    servers.start(servers.find(lab, source.name))
    assert any("is stopped, and r1 follows it" in words for words in problems[source.name]), problems
    dialect = state_of(replica).dialect
    sql(replica, *dialect.stop(), *dialect.start())  # it would try again a minute later
    until(lambda: state_of(replica).channels[0].receive == "on", "the replica does not connect again")


def check_star(lab, source, up):
    with Writer(source):
        replicas = [up("r1", source.name), up("r2", source.name, Following(seed="snapshot"))]
    same_data(source, *replicas)


def check_chain(lab, source, up):
    with Writer(source):
        first = up("r1", source.name)
        second = up("r2", "r1", Following(seed=OWN[source.flavor]))
        third = up("r3", "r2", Following(seed="snapshot"))
    same_data(source, first, second, third)


def check_delayed(lab, source, up):
    with Writer(source):
        late = up("r1", source.name, Following(delay_s=3))
    (mark,) = [state_of(source).executed]
    sql(source, "REPLACE INTO shop.t VALUES (-1, 1, 'late')")
    began = time.monotonic()
    executed = state_of(source).executed
    wait_for(late, executed)
    # The source stamps whole seconds: 3 s late is 2 s at least after the statement.
    assert time.monotonic() - began > 1.9 and not mark.contains(executed)
    same_data(source, late)
    assert any("delayed by 3 s" in words for words in checks.list_warnings(state_of(late)))


def check_filtered(lab, source, up):
    filters = {"replicate-do-db": ("shop",)}
    with Writer(source) as writer:
        server = up("r1", source.name, Following(filters=filters))
        before = writer.done
        until(lambda: writer.done > before + 20, "nothing is written any longer")
    same_data(source, server, databases=("shop",))
    ((retained,),) = sql(server, "SELECT COUNT(*) FROM logs.t")
    ((whole,),) = sql(source, "SELECT COUNT(*) FROM logs.t")
    assert retained < whole
    # The filter is in the option file: it holds after a restart.
    servers.stop(servers.find(lab, "r1"))
    sql(source, "REPLACE INTO shop.t VALUES (-2, 1, 'x')", "REPLACE INTO logs.t VALUES (-2, 1, 'x')")
    again = servers.bring_up(lab, name="r1")
    same_data(source, again, databases=("shop",))
    assert sql(again, "SELECT COUNT(*) FROM logs.t")[0][0] == retained
    assert any("cannot be promoted: it is filtered" in words for words in checks.list_warnings(state_of(again)))


def check_two_sources(lab, source, up):
    """The second source has a database of its own; on MariaDB a domain of its own, so that both number theirs apart."""
    domain = {"gtid_domain_id": "7"} if source.flavor == "mariadb" else {}
    other = new_source_of(lab, source, domain)
    try:
        with Writer(source):
            both = up("r1", source.name)
            bring_up_replica(lab, "r1", other.name, Following(channel="second"))
            sql(other, "CREATE DATABASE IF NOT EXISTS extra", "CREATE TABLE extra.t (id INT PRIMARY KEY)")
            sql(other, "INSERT INTO extra.t VALUES (1), (2), (3)")
        same_data(source, both)
        wait_for(both, state_of(other).executed)
        assert sql(both, "CHECKSUM TABLE extra.t") == sql(other, "CHECKSUM TABLE extra.t")
        assert {channel.name for channel in state_of(both).channels} == {"", "second"}
        # A source that is followed already is not followed twice.
        bring_up_replica(lab, "r1", other.name, Following(channel="third"))
        assert len(state_of(both).channels) == 2
        assert [state.problems for state in list_topology(lab) if state.server.name == "r1"] == [()]
        servers.destroy(servers.find(lab, "r1"))  # before its second source: it would miss that
    finally:
        servers.destroy(servers.find(lab, other.name))


def new_source_of(lab, source, domain):
    on = {key.replace("-", "_"): value for key, value in checks.SOURCE_SETTINGS[source.flavor].items()}
    settings = {"innodb_buffer_pool_size": "64M", "server_id": "77"} | on | domain
    own = source.host != "127.0.0.1"
    port = None if own else free()
    return servers.bring_up(lab, name="other", flavor=source.flavor, storage="gp3:4", unpaced=True, own_address=own, port=port,
                      settings=settings)  # fmt: skip


def free() -> int:
    from headrace.servers.topology.topology import find_free_port

    return find_free_port()


def test_new_source_is_refused_until_it_was_agreed_to_restart_it(lab):
    from headrace.errors import InputError

    server = new_source(lab, "bare", "mariadb")
    try:
        pid = server.pid
        with pytest.raises(InputError, match="it has no port.*writes no binary log.*--prepare-source"):
            bring_up_replica(lab, "r9", "bare")
        assert left_of(lab, "r9") == [] and servers.find(lab, "bare").pid == pid
    finally:
        servers.destroy(server)
