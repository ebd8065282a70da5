"""Warnings of `replica status`, and the advice for an error, on states made by hand."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from relay_logs import Cluster

from headrace.mysql.address import Address
from headrace.mysql.state import ServerState
from headrace.servers.failover.planning.election import require_state
from headrace.servers.topology import checks, ending, topology
from headrace.servers.topology.lag import watch as watching
from headrace.servers.topology.lag.watch import LagWatch
from headrace.servers.topology.topology import TopologyMember


def states(flavor: str = "mysql") -> dict[str, ServerState]:
    seen = Cluster(2, flavor, 1, 1e9, True).seen()
    return {name: require_state(state) for name, state in seen.items()}


def test_servers_of_their_own_are_warned_of_nothing():
    for flavor in ("mariadb", "mysql"):
        assert list(checks.list_pair_warnings(states(flavor))) == []
        assert [text for state in states(flavor).values() for text in checks.list_warnings(state)] == []


def test_one_uuid_or_id_twice_is_said_of_both():
    seen = states()
    seen["s2"] = replace(seen["s2"], uuid=seen["s1"].uuid)
    warnings = dict(checks.list_pair_warnings(seen))
    assert set(warnings) == {"s1", "s2"} and seen["s1"].uuid in warnings["s1"] and "auto.cnf" in warnings["s2"]
    seen = states("mariadb")  # which has no UUIDs
    seen["s2"] = replace(seen["s2"], server_id=seen["s1"].server_id)
    warnings = dict(checks.list_pair_warnings(seen))
    assert set(warnings) == {"s1", "s2"} and f"has the server_id of s2, {seen['s1'].server_id}" in warnings["s1"]


def test_a_replica_that_takes_less_than_its_source_sends():
    seen = states()
    seen["s0"] = replace(seen["s0"], max_packet=64 << 20)
    seen["s1"] = replace(seen["s1"], apply_packet=16 << 20)
    seen["s2"] = replace(seen["s2"], apply_packet=64 << 20)
    [(name, text)] = checks.list_pair_warnings(seen)
    assert name == "s1" and "at most 16,777,216 bytes" in text and "SET GLOBAL replica_max_allowed_packet" in text


def logging(state: ServerState, **values: Any) -> ServerState:
    """A server that logs in another way."""
    return replace(state, binary_log=replace(state.binary_log, **values))


def test_statements_are_warned_of_where_they_are_logged():
    state = logging(states()["s0"], format="STATEMENT")
    [text] = checks.list_warnings(state)
    assert "UUID()" in text and "binlog_format = ROW" in text
    replica = logging(states()["s1"], format="STATEMENT", replica_updates=False)
    assert list(checks.list_warnings(replica)) == [], "it logs nothing of its own"
    assert list(checks.list_warnings(logging(state, format="MIXED"))) == []


def test_semi_sync_that_is_off_at_the_source_alone():
    seen = states("mariadb")
    semi = replace(seen["s0"].semi_sync, source_enabled=False)
    seen["s0"] = replace(seen["s0"], semi_sync=semi)
    [(name, text)] = checks.list_pair_warnings(seen)
    assert name == "s0" and "off here and on at s1, s2" in text and "rpl_semi_sync_master_enabled = 'ON'" in text


def test_what_was_asked_for_is_a_warning_and_no_problem():
    """A replica that is late or filtered on purpose is as somebody wants it."""
    seen = states("mariadb")["s1"]
    channel = replace(seen.channels[0], delay_s=3_600, filters=(("replicate-do-db", "shop"),), uses_gtid=False)
    seen = replace(seen, channels=(channel,))
    words = " ".join(checks.list_warnings(seen))
    assert "delayed by 3600 s on purpose" in words and "filtered" in words and "file positions" in words
    assert not [
        text for text in checks.list_problems(seen) if "delayed" in text or "filtered" in text or "file pos" in text
    ]


def member_of(name: str, state: ServerState | None, port: int) -> TopologyMember:
    server: Any = SimpleNamespace(name=name, host="s0", port=port, state="running" if state else "stopped")
    return TopologyMember(server, state, ())


def test_a_stopped_source_is_a_problem():
    seen = states("mariadb")
    members = [member_of("s0", None, 1), *(member_of(name, seen[name], 2) for name in ("s1", "s2"))]
    [text] = topology._describe_stopped(members[0].server, members)
    assert text.startswith("is stopped, and s1, s2 follow it; headrace mysql up s0") and "failover run" in text
    assert not list(topology._describe_stopped(members[1].server, members))
    assert not list(topology._describe_stopped(members[0].server, members[:1])), "nobody follows it"


def test_what_the_end_of_a_server_does_to_others(monkeypatch):
    seen = states("mariadb")
    lab: Any = SimpleNamespace()
    places = {name: SimpleNamespace(name=name, host=name, port=1, state="running") for name in seen}
    monkeypatch.setattr(ending, "collect_states", lambda lab: seen)
    monkeypatch.setattr(ending, "list_servers", lambda lab: list(places.values()))
    monkeypatch.setattr(ending.accounts, "open_connection", lambda server: contextlib.nullcontext())
    monkeypatch.setattr(ending, "ask_named_safely", lambda *_: [{"Server_id": 77, "Host": "far"}, {"Server_id": 2}])
    source: Any = places["s0"]
    assert ending.list_consequences(lab, source) == [
        "s1, s2 and server_id 77 at far follow it, and would receive nothing"
    ]
    replica: Any = places["s1"]
    assert not [text for text in ending.list_consequences(lab, replica) if "commits" in text], "s2 acknowledges too"
    semi = replace(seen["s0"].semi_sync, clients=1, timeout_ms=10_000)
    seen["s0"] = replace(seen["s0"], semi_sync=semi)
    assert any(
        "commits on s0 wait for 1 acknowledgement, and 0 replicas" in text
        for text in ending.list_consequences(lab, replica)
    )
    stopped: Any = SimpleNamespace(name="s9", state="stopped", port=1)
    assert ending.list_consequences(lab, stopped) == []


# Messages of MySQL 9.7 and MariaDB 10.11 in the device tests, and a part of the advice.
SAID = [
    (
        "2061: error connecting to source 'x@127.0.0.1:1'. This was attempt 1/864000, with a delay of 1 seconds between attempts. Message: Authentication plugin 'caching_sha2_password' reported error: Authentication requires secure connection.",
        "SOURCE_SSL = 1",
    ),
    (
        "13117: Fatal error: The replica I/O thread stops because source and replica have equal MySQL server UUIDs",
        "auto.cnf",
    ),
    ("1593: Fatal error: The slave I/O thread stops because master and slave have equal MySQL server ids", "server_id"),
    (
        "1197: Multi-statement transaction required more than 'max_binlog_cache_size' bytes of storage",
        "max_binlog_cache_size",
    ),
    ("1197: Coordinator stopped because there were error(s) in the worker(s).", "max_binlog_cache_size"),
    ("1153: Got a packet bigger than 'slave_max_allowed_packet' bytes", "slave_max_allowed_packet"),
    ("1236: Cannot replicate because the source purged required binary logs", "seed it anew"),
]


@pytest.mark.parametrize(("error", "advice"), SAID)
def test_errors_come_with_what_to_do(error, advice):
    words = checks.with_advice(error)
    assert words.startswith(error) and "what to do: " in words and advice in words.partition("what to do: ")[2]


def test_other_errors_stay_as_they_are():
    assert (
        checks.with_advice("1062: Duplicate entry '1' for key 'PRIMARY'")
        == "1062: Duplicate entry '1' for key 'PRIMARY'"
    )
    assert checks.with_advice("") == ""


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0])
def test_a_clock_that_is_set_by_an_hour_moves_no_heartbeat(monkeypatch, step_s):
    """The machine's clock is set while a heartbeat is on its way; a watch counts on from its beginning."""
    watch = LagWatch({"a": Address("u", "127.0.0.1", 1)}, {})
    before = watch._read_now_s()
    assert before == pytest.approx(time.time(), abs=1.0)
    real = time.time
    monkeypatch.setattr(watching.time, "time", lambda: real() + step_s)
    assert watch._read_now_s() - before == pytest.approx(0.0, abs=60.0)
