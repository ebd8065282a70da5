"""Form that `auto` takes: the per-I/O form for what acts on single requests, or a refusal in
words."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import InputError, new_constant, simulate

GIB = 1 << 30
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000


def steady(reads_per_s=600.0, seconds=120, **more):
    return new_constant(
        name="steady", reads_per_s=reads_per_s, writes_per_s=200.0, seconds=seconds, size_gib=50.0, **more
    )


def degraded(caps_per_mille=1_000, extra_ms=20):
    event = {
        "from": 0,
        "until": 100 * SECOND_NS,
        "caps_per_mille": caps_per_mille,
        "extra_latency": extra_ms * MILLISECOND_NS,
    }
    return {"degradations": [(0, event)]}


PER_REQUEST = st.one_of(
    st.just({"snapshot": {"written_bytes": 20 * GIB, "initialization_bytes_s": None}}),
    st.builds(degraded, st.integers(100, 1_000), st.integers(0, 50)),
    st.just({"failed_members": [1]}),
)


@settings(max_examples=12, deadline=None)
@given(
    options=PER_REQUEST,
    storage=st.sampled_from(["raid10:4xgp3:50", "2xgp2:100", "raid1:2xgp3:100"]),
    seed=st.integers(1, 9),
)
def test_auto_is_the_per_request_form_where_options_need_it(options, storage, seed):
    from headrace.simulation import demand as simulation

    few, simulation.AUTO_EVENTS = simulation.AUTO_EVENTS, 0
    try:
        auto = simulate(steady(), storage, options=options, seed=seed)
        events = simulate(steady(), storage, options=options, seed=seed, form="events")
    finally:
        simulation.AUTO_EVENTS = few
    assert auto.form == "events"
    assert auto.summary == events.summary
    assert auto.rows.equals(events.rows)


def test_without_such_options_a_long_load_is_simulated_by_interval(monkeypatch):
    monkeypatch.setattr("headrace.simulation.demand.AUTO_EVENTS", 0)
    assert simulate(steady(), "gp3:100").form == "interval"


def test_merging_is_simulated_where_something_waits(monkeypatch):
    monkeypatch.setattr("headrace.simulation.demand.AUTO_EVENTS", 0)
    sequential = {"sequential_read_share": 1.0, "sequential_write_share": 1.0}
    # 800 a second on 3,000 IOPS: nothing waits, nothing is merged. On 300: gp2 merges.
    assert simulate(steady(**sequential), "gp3:100").form == "interval"
    assert simulate(steady(**sequential), "gp2:100", start_balance=0.0).form == "events"
    assert simulate(steady(**sequential), "st1:500", start_balance=0.0).form == "interval"


def test_what_would_take_too_long_is_refused_in_words(monkeypatch):
    monkeypatch.setattr("headrace.simulation.demand.MOST_EVENTS", 50_000)
    with pytest.raises(InputError, match="first touch of blocks in a snapshot is simulated request by request"):
        simulate(steady(), "gp3:100", options={"snapshot": {"written_bytes": GIB, "initialization_bytes_s": None}})


def test_a_settled_cycle_is_told_with_the_first():
    # gp2:100 gets 300 back a second; an hour of 500 and 200 takes 180,000 of 5.4 million (3.33 %) more than comes back.
    load = steady(reads_per_s=150.0, seconds=3_600)
    run = simulate(load, "gp2:100", cycle="settled")
    assert run.repeated["settled"] is False
    assert run.repeated["loses_percent_per_cycle"] == pytest.approx(100 * 50 * 3_600 / 5.4e6)
    # Full, it lasts 5.4 million / 50 a second.
    assert run.repeated["dry_after_s"] == pytest.approx(5.4e6 / 50, abs=10)
    assert run.repeated["first"]["throttled_s"] == 0 < run.summary["throttled_s"]
    assert simulate(load, "gp2:100").repeated is None


@pytest.mark.parametrize(
    ("options", "why"), [({"start_balance": 50.0}, "starts with what"), ({"form": "events"}, "needs the interval form")]
)
def test_a_settled_cycle_refuses_what_it_cannot_have(options, why):
    with pytest.raises(InputError, match=why):
        simulate(steady(), "gp2:100", cycle="settled", **options)


def test_a_lost_array_serves_nothing():
    run = simulate(steady(), "2xgp2:100", options={"failed_members": [1]})
    assert (run.summary["delivered_ios"], run.summary["delivered_bytes"]) == (0, 0)
    assert run.summary["lost_at_s"] < 0.1
    assert run.rows.select(pl.col("iops", "mib_s").sum()).row(0) == (0.0, 0.0)
