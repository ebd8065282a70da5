"""A recording is not the demand: flat tops are found, and nothing else is; what stands beside the
rates is kept.

The recordings are simulated: the demand is known, the volume's answer is what a tool would have
seen. So hits and false alarms can be counted.
"""

import json
import math
import random
import subprocess
import sys
import tomllib
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from places import ROOT

from headrace import simulate
from headrace.errors import InputError
from headrace.observe.formats import import_file
from headrace.workload import OpenWorkload, demo_day, load, make_points, new_constant, new_daily, save
from headrace.workload.censored import KNOWN_IOPS, KNOWN_MIB_S, LEAST_RUN
from headrace.workload.points import LOCAL_ZONE, OBSERVED_COLUMNS

MINUTE = 60.0
STORAGES = (
    "gp3:500",
    "gp3:500:6000:250",
    "gp2:300",
    "gp2:1000",
    "io1:500:4000",
    "gp3:500:10000:125",
    "2xgp3:200",
    "gp2:100",
)


def recording(rates, share=0.7, read_kib=16.0, write_kib=22.0, interval_s=MINUTE, source=None, **observed):
    count = len(rates)
    points = make_points(
        [interval_s * at for at in range(count)],
        [interval_s] * count,
        [rate * share for rate in rates],
        [rate * (1 - share) for rate in rates],
        [read_kib] * count,
        [write_kib] * count,
    ).with_columns(pl.Series(name, values, dtype=pl.Float64) for name, values in observed.items())
    return OpenWorkload("r", "recorded", points, source={"tool": "iostat"} | (source or {}))


def random_day(rng, minutes=1_440):
    """Rates of a day: a slow wave, noise that wanders, and some bursts."""
    base, phase, depth, noise = (
        rng.uniform(200, 4_000),
        rng.uniform(0, 2 * math.pi),
        rng.uniform(0.1, 0.9),
        rng.uniform(0.01, 0.15),
    )
    bursts = [(rng.randrange(minutes), rng.randint(5, 90), rng.uniform(1.2, 4)) for _ in range(rng.randint(0, 4))]
    rates, level = [], 0.0
    for minute in range(minutes):
        level = 0.9 * level + rng.gauss(0, 0.44 * noise)
        high = math.prod(factor for start, long, factor in bursts if start <= minute < start + long)
        rates.append(base * high * (1 + depth * math.sin(2 * math.pi * minute / minutes + phase)) * math.exp(level))
    return rates


def recorded_on(rates, storage, instance, seed, share=0.7, kib=(16.0, 22.0)):
    """(the recording, rows of the simulation) of a demand on a storage: rates, latency and queue as
    delivered.
    """
    demand = recording(rates, share, *kib)
    rows = simulate(demand, storage, instance=instance, interval_s=MINUTE, form="interval", seed=seed).rows
    mean_queue = (rows["queue"] + rows["queue"].shift(1, fill_value=0.0)) / 2 + rows["iops"] * rows["mean_ms"].clip(
        0, 2
    ) / 1_000
    return recording(
        rows["iops"].to_list(), share, *kib, await_ms=rows["mean_ms"].to_list(), queue=mean_queue.to_list()
    ), rows


def flags(workload):
    marks = workload.censoring.censored
    return pl.Series([False] * workload.points.height) if marks is None else marks


def in_runs(mask, least):
    """The mask without runs shorter than `least`: what the rule says it cannot see."""
    frame = pl.DataFrame({"mask": mask, "run": mask.rle_id()})
    return frame.select(pl.col("mask") & (pl.len().over("run") >= least)).to_series()


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_simulated_recordings(first_seed):
    """Hits and false alarms of ten random days on random volumes and instances; the demand behind
    them is never overstated.
    """
    hits = throttled = 0
    for seed in range(first_seed, first_seed + 10):
        rng = random.Random(seed)
        rates, share, kib = (
            random_day(rng),
            rng.uniform(0.3, 0.95),
            rng.choice(((16, 22), (16, 16), (64, 32), (128, 64), (8, 8))),
        )
        storage, instance = rng.choice(STORAGES), rng.choice((None, None, None, "m5.large", "r6i.xlarge"))
        workload, rows = recorded_on(rates, storage, instance, seed, share, kib)
        flagged, free = flags(workload), rows["throttled_s"] == 0.0
        full = in_runs(rows["throttled_s"] >= 0.98 * rows["duration_s"], LEAST_RUN)
        assert not (flagged & free).any(), (
            f"seed {seed}: {storage} {instance}, points {(flagged & free).arg_true().to_list()[:5]}"
        )
        hits, throttled = hits + int((flagged & full).sum()), throttled + int(full.sum())
        for window in workload.censored:
            first, last = int(window.from_s / MINUTE), round(window.to_s / MINUTE)
            queue = workload.points["queue"][first:last]
            peak = first + int(queue.arg_max())
            demanded = rows["asked_iops"][first : peak + 1].mean()
            delivered = rows["iops"][first : peak + 1].mean()
            grown = window.at_least_iops - rows["iops"][first:last].mean()
            # The window's growth is what waits at the peak; half a point of it may lie in the point
            # before the window, where the demand was not above the whole run's highest: one point
            # of that over the time up to the peak.
            slack = rows["asked_iops"].max() / (peak - first + 1) + 0.01 * demanded
            assert delivered + grown <= demanded + slack, f"seed {seed}: {window}"
    # Points where a limit changes (credits run out within the minute) are one or two in a day of
    # runs: 1 % leaves room for them.
    assert hits >= 0.99 * throttled > 0, f"seeds {first_seed}-{first_seed + 9}: {hits} of {throttled}"


def busy_server(rng, threads, limit, base_ms, load, with_waits=True):
    """(recording, points at the limit) of clients that wait for their answers: at most `threads`
    outstanding, flat within 0.05 %.
    """
    rates = random_day(rng)
    top, seen, waits, at_limit = max(rates), [], [], []
    for rate in rates:
        rate *= load * limit / top
        at_limit.append(rate >= 0.98 * limit)  # so near, bursts within the minute wait too
        if at_limit[-1]:
            seen.append(limit * rng.gauss(1, 0.0005))
            waits.append(threads / seen[-1] * 1_000)
        else:
            # Poisson arrivals counted over a minute
            seen.append(max(1.0, rng.gauss(rate, math.sqrt(rate / MINUTE))))
            waits.append(base_ms * max(0.5, rng.gauss(1, 0.05)))
    columns = (
        {"await_ms": waits, "queue": [r * w / 1_000 for r, w in zip(seen, waits, strict=True)]} if with_waits else {}
    )
    return recording(seen, **columns), pl.Series(at_limit)


@settings(max_examples=60, print_blob=True, deadline=None)
@given(st.integers(0, 2**32))
def test_clients_that_wait(seed):
    """A closed loop behind a limit: found wherever latency is three times the usual and there is a
    usual to compare with.
    """
    note(f"seed {seed}")
    rng = random.Random(seed)
    limit, base_ms = rng.choice((500, 3_000, 4_321, 6_000, 16_000)), rng.uniform(0.4, 1.0)
    threads = math.ceil(limit * base_ms / 1_000 * rng.uniform(3.5, 60)) + 2
    workload, at_limit = busy_server(rng, threads, limit, base_ms, rng.uniform(0.5, 2.5))
    flagged = flags(workload)
    assert not (flagged & ~at_limit).any()
    if at_limit.mean() < 0.75:  # the quickest fifth of the points is then surely not at the limit
        at_limit_long = in_runs(at_limit, LEAST_RUN)
        assert (flagged & at_limit_long).sum() == at_limit_long.sum()
        for window in workload.censored:
            # six times 0.05 %
            assert window.limit == "iops" and window.recorded == pytest.approx(limit, rel=0.003)
            assert window.queue == pytest.approx(threads, rel=1e-6) and window.at_most_iops > 3 * limit


@settings(max_examples=60, print_blob=True, deadline=None)
@given(st.integers(0, 2**32))
def test_without_latency(seed):
    """Rates alone: a flat top at a known limit, or ten points flatter than demand can be; never a
    top that demand made itself.
    """
    note(f"seed {seed}")
    rng = random.Random(seed)
    limit = rng.choice((3_000, 16_000, 6_200))
    workload, at_limit = busy_server(rng, 64, limit, 0.6, rng.uniform(0.5, 1.6), with_waits=False)
    flagged = flags(workload)
    # At a rate of 3,000 over a minute chance alone moves a point by 0.24 %: demand seldom stays
    # within 0.5 % of a known limit five times; points that come within 1 % of it count as at the
    # limit here.
    rate = workload.points["reads_per_s"] + workload.points["writes_per_s"]
    assert not (flagged & ~at_limit & (rate < 0.99 * limit)).any()
    long = in_runs(at_limit, 12)
    if long.any() and at_limit.mean() < 0.5:
        # Gaussian noise of 0.05 % leaves 0.2 % in 6e-5 of the points; a break may leave a part
        # below ten.
        assert (flagged & long).sum() >= 0.8 * long.sum()


def test_a_slow_hour_is_no_limit():
    """Latency thirty times the usual at a rate the volume gave before and after: a bad hour, not a
    limit.
    """
    rates = [1_500.0] * 1_440
    waits = [20.0 if 600 <= at < 640 else 0.6 for at in range(1_440)]
    assert recording(rates, await_ms=waits).censored == ()
    noisy = [rate * random.Random(at).uniform(0.97, 1.03) for at, rate in enumerate(rates)]
    assert recording(noisy, await_ms=waits).censored == ()


def test_utilisation_alone_is_no_limit():
    """One thread keeps a device at 100 % without ever waiting for a limit."""
    rates = [1_500.0 if 600 <= at < 640 else 700.0 for at in range(1_440)]
    waits = [0.66] * 1_440
    util = [100.0 if 600 <= at < 640 else 46.0 for at in range(1_440)]
    assert recording(rates, await_ms=waits, util_percent=util).censored == ()
    # with no latency to say otherwise it is taken as one
    assert len(recording(rates, util_percent=util).censored) == 1


def test_demand_is_never_censored():
    assert new_constant(2_000, 1_000).censored == () and new_daily(2_000, 1_000).censored == ()
    flat = recording([3_000.0] * 60)
    assert replace(flat, kind="daily").censored == ()


def test_known_limits_at_every_size():
    wave: list[float] = []
    for limits, kib in ((KNOWN_IOPS, 4.0), (KNOWN_MIB_S, 48.0)):
        for limit in limits:
            rate = limit if limits is KNOWN_IOPS else limit * 1024 / kib
            wave = [rate * (0.6 + 0.2 * math.sin(at / 50)) for at in range(300)]
            wave[100:106] = [rate] * 6
            (window,) = recording(wave, read_kib=kib, write_kib=kib).censored
            assert (window.from_s, window.to_s) == (6_000.0, 6_360.0) and window.recorded == pytest.approx(limit)
            wave[200] = 1.2 * rate  # it gave more at another time
            assert recording(wave, read_kib=kib, write_kib=kib).censored == ()
    # its sizes are assumed
    assert recording(wave[:100] + [3_000.0] * 10 + wave[110:], source={"tool": "vmstat"}).censored == ()


@pytest.mark.parametrize(("table", "limits"), [("iops", KNOWN_IOPS), ("throughput", KNOWN_MIB_S)])
def test_known_limits_are_facts(table, limits):
    """Each stands among the limits of a volume type, of some time; and of the newest gp3, io1 and
    io2 none is missing.
    """
    facts, newest = set(), set()
    for path in (ROOT / "data" / "volumes").glob("*.toml"):
        values = {}
        for era in tomllib.loads(path.read_text())["era"]:
            values = {key: numbers_in(value) for key, value in era[table].items()}
            facts |= set().union(*values.values())
        if path.stem in ("gp3", "io1", "io2"):
            newest |= set().union(*(amounts for key, amounts in values.items() if key.startswith(("max", "included"))))
    assert set(limits) <= facts and newest <= set(limits)


def numbers_in(value):
    if isinstance(value, (dict, list)):
        return set().union(*(numbers_in(part) for part in (value.values() if isinstance(value, dict) else value)))
    return {value} if isinstance(value, (int, float)) else set()


def test_credits_gone():
    """gp2 of 300 GiB: 3,000 while credits last, then 900."""
    rates = [
        3_000.0 * (0.8 + 0.1 * math.sin(at)) if at < 60 else 900.0 if at < 200 else 400.0 + at % 7 for at in range(400)
    ]
    waits = [0.6 if not 60 <= at < 200 else 35.0 for at in range(400)]
    balance = [max(0.0, 100 - 1.7 * at) if at < 200 else min(100.0, (at - 200) * 0.1) for at in range(400)]
    for columns in ({"await_ms": waits}, {"balance_percent": balance}, {"await_ms": waits, "balance_percent": balance}):
        (window,) = recording(rates, **columns).censored
        assert window.limit == "credits" and window.recorded == 900 and window.unit == "IOPS"
        assert (window.from_s, window.to_s) == (3_600.0, 12_000.0)
        assert "credits" in window.describe_window()


# --- the day of the report --------------------------------------------------------------------------------------------


def capped_txt():
    """A day of iostat -xt 60 on gp3:2000: 1,450 IOPS, and from 10:00 to 10:40 exactly 3,000 at 18
    and 22 ms.
    """
    head = (
        "Device            r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s  %rrqm  %wrqm r_await w_await aqu-sz rareq-sz wareq-sz"
        "  svctm  %util\n"
    )
    text = ["Linux 5.15.0-1051-aws (db1) \t11/18/2025 \t_x86_64_\t(16 CPU)\n\n"]
    for minute in range(1_441):
        r, w, ra, wa, util = (
            (2250.0, 750.0, 18.0, 22.0, 100.0) if 600 < minute <= 640 else (1000.0, 450.0, 0.6, 0.8, 48.0)
        )
        day, rest = divmod(minute, 1_440)
        text.append(f"11/{18 + day}/2025 {rest // 60:02d}:{rest % 60:02d}:00\n" + head)
        text.append(
            f"nvme1n1   {r:9.2f}{w:8.2f}{r * 16:10.2f}{w * 22:10.2f}     0.00    0.00   0.00   0.00 {ra:7.2f} {wa:7.2f}"
            f" {(r * ra + w * wa) / 1000:6.2f}    16.00    22.00   0.33 {util:6.2f}\n\n"
        )
    return "".join(text)


@pytest.fixture(scope="module")
def capped(tmp_path_factory):
    path = tmp_path_factory.mktemp("capped") / "capped.txt"
    path.write_text(capped_txt())
    return import_file(path)


def test_capped_day(capped):
    (window,) = capped.censored
    assert (window.from_s, window.to_s, window.limit, window.unit) == (36_000.0, 38_400.0, "iops", "IOPS")
    assert window.recorded == 3_000 and window.util_percent == 100 and window.balance_percent is None
    usual, waiting = (1000 * 0.6 + 450 * 0.8) / 1450, (2250 * 18 + 750 * 22) / 3000
    assert window.usual_latency_ms == pytest.approx(usual) and window.latency_ms == pytest.approx(waiting)
    assert window.queue == 57.0
    # 57 outstanding instead of 0.96, printed to 0.01, after the first minute.
    assert window.at_least_iops == pytest.approx(3_000 + (57.0 - 0.96) / 60)
    assert window.at_most_iops == pytest.approx(57.0 / usual * 1_000)
    words = capped.list_notes()
    assert any(
        "From 10:00 to 10:40 the device was at a flat 3,000 IOPS, utilised 100 %, latency 29 times the usual" in text
        and "not what was asked" in text
        and "--demand-growth" in text
        for text in words
    )
    assert window.describe_window("2025-11-18T00:00:00") in words and window.describe_window(
        "2025-11-18T00:00:00"
    ) in capped.describe().replace("Caveat: ", "")


def test_capped_day_as_demand(capped):
    raised = capped.uncensor()
    inside = (capped.points["t_s"] >= 36_000) & (capped.points["t_s"] < 38_400)
    for name in ("reads_per_s", "writes_per_s"):
        before, after = capped.points[name], raised.points[name]
        assert after.filter(~inside).equals(before.filter(~inside))
        assert (after.filter(inside) >= 1.25 * before.filter(inside)).all()
        assert after.filter(inside).to_list()[1:] == pytest.approx(
            [1.25 * rate for rate in before.filter(inside).to_list()[1:]]
        )
    assert raised.points["read_kib"].equals(capped.points["read_kib"])
    assert (
        raised.censored == ()
        and raised.uncensor() is raised
        and any("is a guess" in text for text in raised.list_notes())
    )
    assert raised.find_recorded_latency().equals(capped.find_recorded_latency())
    assert capped.uncensor(2.0).points["reads_per_s"][620] == 2 * capped.points["reads_per_s"][620]
    quiet = recording([100.0, 200.0])
    assert quiet.uncensor() is quiet
    for bad in (0.5, math.nan, "2", 1e9):
        with pytest.raises(InputError, match="margin"):
            capped.uncensor(bad)


def test_scaling_keeps_what_was_recorded(capped):
    grown = capped.scale(1.7)
    assert grown.censored == capped.censored  # figures of the recording
    assert grown.find_recorded_latency()["mean_ms"].to_list() == pytest.approx(
        capped.find_recorded_latency()["mean_ms"].to_list()
    )
    first, other = grown.uncensor().points, capped.uncensor().scale(1.7).points
    for column in first.columns:
        assert first[column].to_list() == pytest.approx(other[column].to_list())
    apart = replace(capped, size_gib=100.0).scale(2.0, data_growth=1.5)
    assert apart.size_gib == 150 and apart.points["reads_per_s"][0] == 2_000
    assert replace(capped, size_gib=100.0).scale(1.0, data_growth=3).size_gib == 300
    # Cut at 10:20, the flat top is still one, against the usual of what is left.
    part = replace(capped, points=capped.points.filter(pl.col("t_s") < 37_200))
    (window,) = part.censored
    assert (window.from_s, window.to_s) == (36_000.0, 37_200.0)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_recorded_latency_by_what_there_is():
    plain = recording([1_000.0, 2_000.0, 0.0])
    assert plain.find_recorded_latency() is None
    queue = recording([1_000.0, 2_000.0, 0.0], queue=[1.0, 3.0, 0.0]).find_recorded_latency()
    assert queue["mean_ms"].to_list() == [1.0, 1.5, None] and queue["t_s"].to_list() == [0.0, 60.0, 120.0]
    both = recording(
        [1_000.0, 1_000.0], share=0.25, read_await_ms=[1.0, None], write_await_ms=[2.0, 2.0], await_ms=[None, 9.0]
    )
    assert both.find_recorded_latency()["mean_ms"].to_list() == [1.75, 9.0]
    # No reads: their latency is not needed.
    writes = recording([1_000.0], share=0.0, read_await_ms=[None], write_await_ms=[2.0], queue=[9.0])
    assert "read_await_ms" not in writes.points.columns and writes.find_recorded_latency()["mean_ms"].to_list() == [9.0]
    grown = recording([1_000.0], queue=[2.0]).scale(4).find_recorded_latency()
    assert grown["mean_ms"].to_list() == [2.0]


@settings(max_examples=60, print_blob=True, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_round_trip(tmp_path_factory, seed):
    note(f"seed {seed}")
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    columns = {
        name: [rng.choice((None, 0.0, rng.uniform(0, 100))) for _ in range(count)]
        for name in OBSERVED_COLUMNS
        if rng.random() < 0.6
    }
    zone = rng.choice((LOCAL_ZONE, "UTC", "UTC-03:30"))
    workload = replace(
        recording([rng.uniform(0, 5_000) for _ in range(count)], **columns), clock_zone=zone, growth_per_year=0.3
    )
    path = tmp_path_factory.mktemp("w") / "w.toml"
    save(workload, path)
    assert load(path) == workload
    assert set(workload.points.columns[6:]) == {
        name for name, values in columns.items() if any(v is not None for v in values)
    }


def test_columns_round_trip_beside(tmp_path):
    count = 25_000
    waits = [None if at % 5 == 0 else float(at % 11) for at in range(count)]
    workload = recording([float(at % 97) for at in range(count)], interval_s=1.0, await_ms=waits)
    save(workload, tmp_path / "w.toml")
    assert load(tmp_path / "w.toml") == workload


@pytest.mark.parametrize(
    ("column", "value"),
    [("queue", -1.0), ("await_ms", math.inf), ("util_percent", 100.5), ("balance_percent", -0.1), ("queue", 1e10)],
)
def test_bad_columns_are_refused(column, value):
    with pytest.raises(InputError, match=column):
        recording([1.0, 2.0], **{column: [1.0, value]})


def test_growth_over_months():
    workload = new_constant(100, 100, growth_per_year=0.44)
    assert (
        workload.compute_growth(12) == pytest.approx(1.44)
        and workload.compute_growth(6) == pytest.approx(1.2)
        and workload.compute_growth(0) == 1
    )
    for bad in (-1, math.nan, "6"):
        with pytest.raises(InputError, match="months"):
            workload.compute_growth(bad)


# --- notes ------------------------------------------------------------------------------------------------------------


def test_short_recordings_are_said():
    assert any("12 min long: a day with its backup" in text for text in recording([1.0] * 12).list_notes())
    day = recording([float(at % 97) for at in range(1_439)]).list_notes()
    assert any("weekend" in text for text in day) and not any("backup is needed" in text for text in day)
    # the first: points of an hour
    assert recording([float(at % 97) for at in range(7 * 24)], interval_s=3_600.0).list_notes()[1:] == ()
    assert new_daily(1, 1).list_notes() == new_daily(1, 1).caveats and demo_day().list_notes() == demo_day().caveats


def test_the_clock_is_said():
    start = {"clock_start": "2025-11-18T00:00:00"}
    local = recording([1.0, 2.0], source=start)
    assert local.clock_zone == LOCAL_ZONE and any("local to the recording host" in text for text in local.list_notes())
    assert "Times of day are UTC." in replace(local, clock_zone="UTC").list_notes()
    assert not any("Times of day" in text for text in recording([1.0, 2.0]).list_notes())
    for bad in ("CET", "", None, 5, "UTC+1"):
        with pytest.raises(InputError, match="clock_zone"):
            replace(local, clock_zone=bad)


@pytest.mark.parametrize(
    "start", ["9999-12-31T23:59:59", "not a date", "25:00:00", 1, "1066-10-14", "", [], "2025-13-01T00:00:00"]
)
def test_a_wrong_clock_start_is_refused(tmp_path, start):
    with pytest.raises(InputError, match="clock_start"):
        recording([1.0], source={"clock_start": start})
    save(recording([1.0], source={"clock_start": "2025-11-18T00:00:00"}), tmp_path / "w.toml")
    text = (
        (tmp_path / "w.toml")
        .read_text()
        .replace('"2025-11-18T00:00:00"', f'"{start}"' if isinstance(start, str) else f"{start}")
    )
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(InputError, match=r"w\.toml: clock_start"):
        load(tmp_path / "w.toml")


@pytest.mark.parametrize("value", [0, -1, "2", math.nan, None, [], True])
@pytest.mark.parametrize("factor", ["scaled_by", "uncensored_by"])
def test_wrong_factors_of_a_source_are_refused(factor, value):
    with pytest.raises(InputError, match=factor):
        recording([1.0], source={factor: value})


def test_a_date_without_quotes_is_refused(tmp_path):
    save(recording([1.0], source={"clock_start": "2025-11-18T00:00:00"}), tmp_path / "w.toml")
    text = (tmp_path / "w.toml").read_text()
    (tmp_path / "w.toml").write_text(text.replace('"2025-11-18T00:00:00"', "2025-11-18T00:00:00"))
    with pytest.raises(InputError, match="in quotes"):
        load(tmp_path / "w.toml")


def test_words_of_other_windows():
    """All of a day at a limit; bytes; credits: each says what it is."""
    all_day = recording(
        [3_000.0 + at % 3 for at in range(1_440)],
        await_ms=[18.0] * 1_440,
        source={"clock_start": "2025-11-18T00:00:00"},
    )
    (window,) = all_day.censored
    # nothing to compare with
    assert window.usual_latency_ms is None and window.at_most_iops is None
    assert (
        "From 2025-11-18 00:00 to 2025-11-19 00:00" in all_day.list_notes()[0]
        and "latency 18 ms" in all_day.list_notes()[0]
    )
    rates = [1_000.0 + at % 40 for at in range(50)] + [2_000.0 + at % 2 for at in range(50)]
    spent = recording(rates, share=1.0, read_kib=64.0, balance_percent=[60.0] * 50 + [0.0] * 50)
    (window,) = spent.censored
    assert (window.limit, window.unit) == ("credits", "MiB/s") and window.recorded == pytest.approx(125, rel=0.001)
    assert (
        "From 50 min after the start to 100 min after the start the device was at a flat 125 MiB/s, burst balance 0 %"
        in spent.list_notes()[0]
    )
    assert "with its credits gone" in spent.list_notes()[0]
    assert "From the start to 50 min after the start" in recording(rates[50:], await_ms=[9.0] * 50).list_notes()[0]


def test_many_windows_are_one_note():
    rates = [3_000.0 if at % 60 < 10 else 1_000.0 + at % 50 for at in range(600)]
    waits = [20.0 if at % 60 < 10 else 0.6 for at in range(600)]
    workload = recording(rates, await_ms=waits)
    assert len(workload.censored) == 10
    (text,) = [text for text in workload.list_notes() if "flat" in text]
    assert "and 7 times more (100 min in all)" in text and text.count(" to ") <= 5


@pytest.mark.parametrize(("await_ms", "words"), [(2.22, "3.7 times"), (6.0, "10 times"), (150.0, "250 times")])
def test_a_latency_has_two_figures_and_no_exponent(await_ms, words):
    """It was `2.5e+02 times the usual`."""
    rates = [3_000.0 if 20 <= at < 40 else 1_000.0 + at % 50 for at in range(120)]
    waits = [await_ms if 20 <= at < 40 else 0.6 for at in range(120)]
    (text,) = [text for text in recording(rates, await_ms=waits).list_notes() if "flat" in text]
    assert f"latency {words} the usual" in text


def test_seconds_of_single_ios():
    """Each I/O simulated, a point a second: three minutes above 3,000 IOPS are found, arrivals by
    chance just below are not.
    """
    rates = [1_200.0] * 120 + [3_600.0] * 180 + [1_000.0] * 300 + [2_600.0] * 120 + [1_500.0] * 60
    demand = recording(rates, interval_s=1.0)
    rows = simulate(demand, "gp3:100", interval_s=1.0, form="events", seed=7).rows
    queue = (rows["queue"] + rows["queue"].shift(1, fill_value=0.0)) / 2 + rows["iops"] * rows["mean_ms"].clip(
        0, 2
    ) / 1_000
    seen = recording(rows["iops"].to_list(), interval_s=1.0, await_ms=rows["mean_ms"].to_list(), queue=queue.to_list())
    flagged, waiting = flags(seen), rows["queue"] > 50
    # A rested volume first gives the second it has saved: 600 a second above its limit eat it up in
    # five seconds.
    assert (flagged & waiting).sum() >= waiting.sum() - 6 and waiting.sum() > 180
    assert not (flagged & (pl.Series(rates) < 2_000) & ~waiting).any() and not flagged[600:].any()
    window = max(seen.censored, key=lambda window: window.to_s - window.from_s)
    # 180 s x 3,600 were asked from second 120 on, the limit and the saved second given; the whole
    # backlog waits at second 300.
    assert window.limit == "iops" and window.recorded == pytest.approx(3_000, rel=0.002)
    assert 3_400 < window.at_least_iops <= 3_600 * 1.01
    assert seen.uncensor().points["reads_per_s"][200] == pytest.approx(0.7 * 1.25 * 3_600, rel=0.06)


def test_the_command_says_it(tmp_path):
    (tmp_path / "capped.txt").write_text(capped_txt())
    command = [
        sys.executable,
        "-m",
        "headrace",
        "workload",
        "import",
        "-",
        "--device",
        "/dev/nvme1n1",
        "--to",
        "db.toml",
    ]
    with (tmp_path / "capped.txt").open() as file:
        run = subprocess.run(
            [*command, "--output", "json"], stdin=file, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert [(window["from_s"], window["to_s"], window["recorded"]) for window in document["censored"]] == [
        (36_000.0, 38_400.0, 3_000.0)
    ]
    assert document["clock_zone"] == LOCAL_ZONE and any("not what was asked" in text for text in document["caveats"])
    assert document["points"][600]["read_await_ms"] == 18.0
    run = subprocess.run(
        [sys.executable, "-m", "headrace", "workload", "show", "db.toml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0 and "From 10:00 to 10:40 the device was at a flat 3,000 IOPS" in run.stdout
