"""The lag that one look shows: by GTIDs where they know it, else the largest of the clocks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from relay_logs import Cluster

from headrace.mysql.address import Address
from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.planning.election import require_state
from headrace.servers.topology.lag import metrics
from headrace.servers.topology.lag.clocks import estimate_age
from headrace.servers.topology.lag.watch import LagReading, LagWatch

LOOK_S = 2.0  # of the command without --seconds


def up_to(number: int) -> GtidSet:
    return GtidSet.parse(f"0-1-{number}", "mariadb")


def read_lag(
    lacks: int, written_tps: float, applied_tps: float, server_s: int | None, receive: str = "on", before: int = 0
) -> LagReading:
    """Returns the reading after two seconds of a source and a replica that lacked `lacks`
    transactions when the watch began. `before`: number of samples before that, without a backlog.
    """
    watch = LagWatch({name: Address("u", name, 1) for name in ("s0", "s1")}, {("s0", 1): "s0"})
    seen = Cluster(1, "mariadb", 1, 1e9, True).seen()
    now, began, has = time.monotonic(), time.monotonic() - LOOK_S, 10_000
    for tenth in range(int(10 * LOOK_S) + 1):
        at = began + tenth / 10
        behind = 0 if tenth < before else lacks
        watch._watched["s0"].trace.add(at, up_to(has + behind + round(written_tps * tenth / 10)))
        watch._watched["s1"].trace.add(at, up_to(has + round(applied_tps * tenth / 10)))
    for name, watched in watch._watched.items():
        state = require_state(seen[name])
        channels = tuple(replace(each, seconds_behind=server_s, receive=receive) for each in state.channels)
        watched.state, watched.state_s = replace(state, channels=channels), now
    [reading] = watch.read()
    lines = metrics.format_metrics(watch).splitlines()
    assert f'headrace_replica_apply_up{{channel="",replica="s1",source="s0"}} {float(reading.apply == "on")}' in lines
    assert (
        "# TYPE headrace_replica_lag_seconds gauge" in lines and 'headrace_replica_server_up{server="s0"} 1.0' in lines
    )
    return reading


def test_a_lag_from_before_the_watch_is_that_of_the_server():
    """Finding 11: 34 s by the server's clock, 5,362 transactions, 70 applied a second and 158 written: "about
    34 s", and not ">= 1.90"."""
    reading = read_lag(5_362, 158.0, 70.0, 34)
    assert reading.clocks.gtid_s == pytest.approx(LOOK_S, abs=0.2), "the GTIDs know no more than the watch"
    assert reading.clocks.estimate_s is not None
    # The backlog has grown for two seconds by 88 a second when it is divided by the rate.
    assert reading.clocks.estimate_s == pytest.approx((5_362 + 2 * 88) / 158, rel=0.02)
    assert reading.lag_s == pytest.approx(max(34.0, reading.clocks.estimate_s), abs=0.1)
    assert not reading.exact and not reading.at_least


def test_what_was_not_received_is_estimated():
    """The server's clock is silent while it receives nothing."""
    reading = read_lag(6_000, 100.0, 0.0, None, receive="connecting")
    assert reading.clocks.estimate_s is not None
    assert reading.lag_s == reading.clocks.estimate_s == pytest.approx(62.0, rel=0.02) and not reading.at_least


def test_a_backlog_of_another_time_is_not_estimated():
    """The load is over: at 1 a second 5,000 transactions would be 5,000 s old."""
    reading = read_lag(5_000, 1.0, 70.0, 24)
    assert reading.clocks.estimate_s is None and reading.lag_s == 24.0
    assert estimate_age(0, 100.0, 1.0) is None and estimate_age(None, None, None) is None
    assert estimate_age(10, 0.0, 0.0) is None


def test_without_another_clock_it_says_at_least():
    reading = read_lag(5_000, 0.0, 0.0, None, receive="off")
    assert reading.at_least and reading.lag_s == reading.clocks.gtid_s == pytest.approx(LOOK_S, abs=0.2)


def test_where_the_gtids_know_no_other_clock_counts():
    """A server whose clock is an hour off."""
    reading = read_lag(500, 0.0, 0.0, 3_600, before=10)
    assert reading.exact and reading.lag_s == reading.clocks.gtid_s == pytest.approx(1.0, abs=0.2)
