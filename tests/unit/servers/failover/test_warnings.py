"""What `replica status` warns of, and the advice that goes with an error, on states made by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from relay_logs import Cluster

from headrace.connect.address import Address
from headrace.servers.failover.planning.election import required
from headrace.servers.topology import checks
from headrace.servers.topology.lag import watch as watching
from headrace.servers.topology.lag.watch import LagWatch
from headrace.servers.topology.state import ServerState


def states(flavor: str = "mysql") -> dict[str, ServerState]:
    seen = Cluster(2, flavor, 1, 1e9, True).seen()
    return {name: required(one) for name, one in seen.items()}


def test_servers_of_their_own_are_warned_of_nothing():
    for flavor in ("mariadb", "mysql"):
        assert list(checks.warnings_of_all(states(flavor))) == []
        assert [text for one in states(flavor).values() for text in checks.warnings(one)] == []


def test_one_uuid_or_id_twice_is_said_of_both():
    made = states()
    made["s2"] = replace(made["s2"], uuid=made["s1"].uuid)
    found = dict(checks.warnings_of_all(made))
    assert set(found) == {"s1", "s2"} and made["s1"].uuid in found["s1"] and "auto.cnf" in found["s2"]
    made = states("mariadb")  # which has no UUIDs
    made["s2"] = replace(made["s2"], server_id=made["s1"].server_id)
    found = dict(checks.warnings_of_all(made))
    assert set(found) == {"s1", "s2"} and f"has the server_id of s2, {made['s1'].server_id}" in found["s1"]


def test_a_replica_that_takes_less_than_its_source_sends():
    made = states()
    made["s0"] = replace(made["s0"], max_packet=64 << 20)
    made["s1"] = replace(made["s1"], apply_packet=16 << 20)
    made["s2"] = replace(made["s2"], apply_packet=64 << 20)
    [(name, text)] = checks.warnings_of_all(made)
    assert name == "s1" and "at most 16,777,216 bytes" in text and "SET GLOBAL replica_max_allowed_packet" in text


def test_statements_are_warned_of_where_they_are_logged():
    made = replace(states()["s0"], binlog_format="STATEMENT")
    [text] = checks.warnings(made)
    assert "UUID()" in text and "binlog_format = ROW" in text
    replica = replace(states()["s1"], binlog_format="STATEMENT", log_replica_updates=False)
    assert list(checks.warnings(replica)) == [], "it logs nothing of its own"
    assert list(checks.warnings(replace(made, binlog_format="MIXED"))) == []


# As MySQL 9.7 and MariaDB 10.11 said them in the device tests, and a part of the advice.
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
    before = watch._now_s()
    assert before == pytest.approx(time.time(), abs=1.0)
    real = time.time
    monkeypatch.setattr(watching.time, "time", lambda: real() + step_s)
    assert watch._now_s() - before == pytest.approx(0.0, abs=60.0)
