"""Forecasts: credits, growth, full volumes. Histories are made from seeds, so what came is known.

`FORECASTS` says how many seeded histories of each kind are tried (`make soak`: 100)."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from headrace.errors import InputError
from headrace.observe.evidence.model import SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.operate.forecast import ledger
from headrace.operate.forecast.answer import forecast
from headrace.operate.forecast.balances import without_credits
from headrace.operate.forecast.credits import estimate_emptying, forecast_credits, sample_futures
from headrace.operate.forecast.growth import forecast_limits
from headrace.operate.forecast.history import SLOT_S, build_history
from headrace.operate.forecast.sources import from_evidence, read_target_demand
from headrace.operate.forecast.space import SpaceHistory, forecast_space, read_space
from headrace.operate.forecast.trend import find_last_step, fit_trend
from headrace.report.operate.forecast import describe_forecast
from headrace.simulation.demand import simulate
from headrace.workload import OpenWorkload, save
from headrace.workload.points import make_points

HISTORIES = int(os.environ.get("FORECASTS", "12"))
MONDAY = datetime(2026, 3, 2)
OFFICE = [0.1] * 5 + [
    0.15,
    0.25,
    0.45,
    0.75,
    0.95,
    1.0,
    0.95,
    0.8,
    0.85,
    0.95,
    0.95,
    0.85,
    0.65,
    0.45,
    0.3,
    0.25,
    0.2,
    0.15,
    0.1,
]


def business(seed: int, days: int) -> np.ndarray:
    """IOPS of a business in slots of five minutes: office days, half on weekends, days that differ by
    12 %, minutes that wander by 15 %, noise of 5 %."""
    draw = np.random.default_rng(seed)
    count = days * 288
    hour = np.arange(count) / 12 % 24
    shape = np.interp(hour, np.arange(25), [*OFFICE, OFFICE[0]])
    weekend = np.where((np.arange(count) // 288) % 7 >= 5, 0.5, 1.0)
    wander, steps = np.zeros(count), draw.normal(0, 0.15 * math.sqrt(1 - 0.97**2), count)
    for index in range(1, count):
        wander[index] = 0.97 * wander[index - 1] + steps[index]
    days_apart = np.repeat(draw.normal(0, 0.12, days), 288)
    return draw.uniform(1_600, 3_200) * shape * weekend * np.exp(days_apart + wander + draw.normal(0, 0.05, count))


def recording(iops: np.ndarray, begin: datetime | None = MONDAY, point_s: float = SLOT_S, **columns) -> OpenWorkload:
    count = len(iops)
    sizes = np.full(count, 16.0), np.full(count, 22.0)
    points = make_points(np.arange(count) * point_s, np.full(count, point_s), iops * 0.6, iops * 0.4, *sizes)
    points = points.with_columns(**columns)
    source = {} if begin is None else {"clock_start": begin.isoformat()}
    return OpenWorkload(name="shop", kind="recorded", points=points, source=source)


# --- history --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_slots_hold_what_a_naive_sum_over_seconds_holds(seed):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 700, 60).astype(float)
    rates = draw.uniform(0, 3_000, 60)
    points = make_points(
        np.cumsum(lengths) - lengths, lengths, rates, rates / 2, draw.uniform(1, 64, 60), draw.uniform(1, 64, 60)
    )
    began = MONDAY + timedelta(seconds=int(draw.integers(0, 86_400)))
    load = OpenWorkload(name="random", kind="recorded", points=points, source={"clock_start": began.isoformat()})
    history = build_history(load)
    per_second = np.repeat(rates, lengths.astype(int))
    kib = np.repeat(rates * points["read_kib"].to_numpy(), lengths.astype(int))
    offset = int((history.begin - began).total_seconds())
    assert 0 <= offset < SLOT_S and history.begin.minute % 5 == 0 and history.begin.second == 0
    for index, slot in enumerate(history.rates):
        window = slice(offset + index * SLOT_S, offset + (index + 1) * SLOT_S)
        # The sums are of some 1e9; 1e-9 of them is far below one I/O.
        np.testing.assert_allclose(slot[[0, 2]], [per_second[window].mean(), kib[window].mean()], rtol=1e-9)
    assert began + timedelta(seconds=load.span_s) - history.end < timedelta(seconds=SLOT_S)


def test_a_recording_without_a_date_knows_no_weekday():
    assert build_history(recording(business(1, 4), None)).clocked is False
    load = recording(business(1, 4))
    clock = OpenWorkload(name="c", kind="recorded", points=load.points, source={"clock_start": "10:00:00"})
    history = build_history(clock)
    assert (history.clocked, history.dated, history.begin.hour) == (True, False, 10)


# --- trend ----------------------------------------------------------------------------------------


def test_a_straight_line_is_found_exactly():
    trend = fit_trend(100.0 + 3.0 * np.arange(21), 1)
    assert trend.claimed and trend.per_day == pytest.approx(3.0) and trend.now == pytest.approx(160.0)
    # 160 + 3 d >= 200 first at the 14th day: 13.33 rounded up.
    assert trend.forecast_days(200.0) == (14.0, 14.0, 14.0)


def test_a_step_cuts_the_history_and_a_weekly_purge_does_not():
    smooth = 100.0 + np.arange(40) + np.random.default_rng(1).normal(0, 0.2, 40)
    moved = smooth + np.where(np.arange(40) >= 25, 200.0, 0.0)
    assert find_last_step(smooth) is None
    assert find_last_step(moved) == 25 and fit_trend(moved, 1).per_day == pytest.approx(1.0, abs=0.1)
    purged = smooth + 5.0 * (np.arange(40) % 7)
    assert find_last_step(purged) is None


def test_flat_histories_have_no_trend():
    claimed = 0
    for seed in range(HISTORIES):
        draw = np.random.default_rng(seed)
        days = int(draw.integers(14, 90))
        week = np.tile([0, 0.1, 0.2, 0.1, 0.05, -0.3, -0.35], 13)[:days]
        claimed += fit_trend(500 + 20 * week + draw.normal(0, 5, days), 1).claimed
    # O6 of the specification: at most 5 of 100.
    assert claimed <= max(1, 0.05 * HISTORIES)


def test_saw_teeth_that_grow_are_full_when_they_are():
    near = state = 0
    for seed in range(HISTORIES):
        draw = np.random.default_rng(1_000 + seed)
        days, daily = int(draw.integers(20, 90)), draw.uniform(0.5, 5)
        period, tooth, phase = draw.integers(3, 11), draw.uniform(0, 10) * daily, draw.integers(0, 9)
        every = np.arange(days + 2_000)
        used = 200 + daily * every + tooth * ((every + phase) % period) / period + draw.normal(0, daily, len(every))
        limit = used[days - 1] + daily * draw.uniform(10, 120)
        came = float(np.argmax(used[days:] >= limit)) + 1
        outlook = forecast_space(SpaceHistory(MONDAY, used[:days]), limit)
        near += abs(outlook.days[1] - came) <= 0.15 * came
        state += outlook.days[0] <= came <= outlook.days[2]
    # O6 of the specification: 90 of 100 within 15 %; a dozen may have two beyond it.
    assert near >= min(0.9 * HISTORIES, HISTORIES - 2)
    assert state >= 0.6 * HISTORIES


# --- credits --------------------------------------------------------------------------------------


def test_steady_demand_empties_the_bucket_when_the_formula_says():
    # 5,400,000 I/Os of a full gp2 bucket, 500 GiB refill 1,500 a second (EBS guide): at 2,500 IOPS
    # 5.4e6 / 1,000 = 5,400 s; half the balance half of it. The second of IOPS that a rested volume
    # has saved (3,000 I/Os) adds 3 s.
    load = recording(np.full(12, 2_500.0))
    assert estimate_emptying(load, "gp2:500", 100.0).seconds == pytest.approx(5_400, abs=4)
    assert estimate_emptying(load, "gp2:500", 50.0).seconds == pytest.approx(2_700, abs=4)
    assert math.isinf(estimate_emptying(recording(np.full(12, 1_400.0)), "gp2:500", 10.0).seconds)


def test_minutes_that_differ_give_an_interval():
    draw = np.random.default_rng(1)
    soon = estimate_emptying(recording(draw.uniform(2_000, 3_000, 60), point_s=60.0), "gp2:500", 50.0)
    assert soon.earliest is not None and soon.latest is not None and soon.earliest < soon.latest


def test_futures_are_made_of_whole_days_and_the_seed_decides():
    history = build_history(recording(business(2, 30)))
    first, again, other = (sample_futures(history, 48, 5, seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    # The 30th of March of 2026 is a Wednesday at midnight: its night is a tenth of its morning.
    night, morning = first[:, 12:36, :2].sum(axis=2).mean(), first[:, 120:132, :2].sum(axis=2).mean()
    assert 5 < morning / night < 20


def test_intervals_hold_what_came():
    state = due = never_wrong = 0
    errors = []
    for seed in range(HISTORIES):
        draw = np.random.default_rng(900 + seed)
        iops, cut = business(seed, 31), 21 * 288 + int(draw.integers(0, 288 * 7))
        load, balance = recording(iops[:cut]), float(draw.uniform(20, 100))
        outlook = forecast_credits(load, build_history(load), "gp2:400", balance_percent=balance, runs=60, seed=seed)
        came = simulate(recording(iops[cut : cut + 864]), "gp2:400", form="interval", start_balance=balance)
        balances = came.rows["balance_percent"].to_numpy()
        for mark in outlook.marks:
            real = balances[int(mark.hours) * 12 - 1]
            if 0 < real < 100:  # a balance that is full or gone is no achievement
                state, due = state + (mark.low <= real <= mark.high), due + 1
        errors.append(abs(outlook.marks[0].middle - balances[11]))
        never_wrong += outlook.share_empty == 0 and came.summary["credits_empty_at_s"] is not None
    # O5 of the specification: 80 % intervals hold 70 to 90 %, the balance an hour ahead within 10
    # points in the median, "never" wrong at most twice in 100. A dozen starts spread by 7 points.
    assert state / due >= 0.65
    assert np.median(errors) <= 10
    assert never_wrong <= 0.02 * HISTORIES


def test_a_recorded_balance_is_where_it_begins():
    iops = business(3, 5)
    load = recording(iops, balance_percent=np.linspace(90, 42, len(iops)))
    outlook = forecast_credits(load, build_history(load), "gp2:400", runs=5, hours=1)
    assert (outlook.balance_percent, outlook.balance_source) == (42.0, "recorded")


def throughput(columns: dict) -> OpenWorkload:
    """Five days of 340 reads of 256 KiB a second: more than m5.large gives for ever."""
    count = 5 * 288
    sizes = np.full(count, 256.0), np.full(count, 16.0)
    points = make_points(
        np.arange(count) * 300.0, np.full(count, 300.0), np.full(count, 340.0), np.zeros(count), *sizes
    )
    source = {"clock_start": MONDAY.isoformat()}
    return OpenWorkload(name="scan", kind="recorded", points=points.with_columns(**columns), source=source)


@pytest.mark.parametrize(
    ("recorded", "given", "begins"), [(100.0, None, 100), (5.0, None, 5), (None, 5.0, 5), (None, None, 100)]
)
def test_a_balance_of_the_volume_says_nothing_of_the_instance(recorded, given, begins):
    # m5.large: 593.75 MB/s for half an hour a day above its 81.25 (EBS guide). The bucket holds the
    # difference of 1,800 s; a day of 340 x 256 KiB leaves a quarter of it, which lasts for 8 h. The
    # volume's bucket gains all the while (1,500 IOPS of gp2:500).
    load = throughput({} if recorded is None else {"balance_percent": np.full(5 * 288, recorded)})
    outlook = forecast_credits(
        load, build_history(load), "gp2:500", instance="m5.large", balance_percent=given, runs=2, hours=24
    )
    depth, drain = (593.75e6 - 81.25e6) * 1_800, 340 * 262_144 - 81.25e6
    rest = depth - 86_400 * drain
    assert outlook.balance_percent == begins
    assert outlook.instance_percent == pytest.approx(100 * rest / depth, abs=0.1)
    assert outlook.share_empty == 1
    assert outlook.empty_after_h[1] == pytest.approx(rest / drain / 3_600, rel=0.01)
    assert outlook.soon.seconds == pytest.approx(rest / drain, rel=0.01)
    # The promise is about the volumes' balance, which a recording tells later.
    assert outlook.marks[0].middle == pytest.approx(min(100, begins + 100 * 3_600 * 1_160 / 5.4e6), abs=0.1)


def test_the_volume_ends_before_the_instance_where_its_balance_is_lower():
    # 5 % of 5.4 million at 2,500 - 1,500 IOPS: 270 s, and the 3 s that a rested volume has saved.
    load = recording(np.full(4 * 288, 2_500.0), balance_percent=np.full(4 * 288, 5.0))
    outlook = forecast_credits(load, build_history(load), "gp2:500", instance="m5.large", runs=2, hours=6)
    assert outlook.soon.seconds == pytest.approx(270, abs=4) and outlook.instance_percent == 100
    assert outlook.empty_after_h[1] == pytest.approx(270 / 3_600, abs=4 / 3_600)


def test_a_balance_given_of_a_storage_without_credits_is_refused():
    load = throughput({})
    with pytest.raises(InputError, match="no credits of its own"):
        forecast_credits(load, build_history(load), "gp3:500", instance="m5.large", balance_percent=50.0, runs=2)
    outlook = forecast_credits(load, build_history(load), "gp3:500", instance="m5.large", runs=2, hours=24)
    assert outlook.instance_percent is None and outlook.balance_percent == pytest.approx(26.2, abs=0.1)


def test_twins_of_volumes_hold_nothing_back():
    texts = [without_credits(entry) for entry in ("gp2:100", "raid10:4xgp2:500", "gp2:5000", "gp3:500:4000", "sc1:500")]
    assert texts == ["gp2:1000", "raid10:4xgp2:1000", "gp2:5000", "gp3:500:4000", "st1:16384"]


@pytest.mark.parametrize("unknown", [math.nan, None])
def test_an_old_balance_is_followed_on_to_the_end(unknown):
    # 20 % two hours before the end; 900 - 800 I/Os a second of gp2:300 refill 13.3 % until then.
    count = 4 * 288
    series = pl.Series([20.0] * (count - 24) + [unknown] * 24, dtype=pl.Float64)
    load = recording(np.full(count, 800.0), balance_percent=series)
    outlook = forecast(load, "gp2:300", runs=2, hours=6)
    assert outlook.credits is not None and outlook.credits.balance_age_s == 7_200
    assert outlook.credits.balance_percent == pytest.approx(20 + 100 * 7_200 * 100 / 5.4e6, abs=0.1)
    assert "recorded 2 h before the end, simulated since" in describe_forecast(outlook)[1]


def test_the_next_minutes_follow_the_mean_of_the_last_minute():
    iops = np.full(360, 2_500.0)
    iops[-1] = 0.0
    # Five of six samples: 2,083 IOPS, 583 more than gp2:500 refills; the rested second adds 5 s.
    soon = estimate_emptying(recording(iops, point_s=10.0), "gp2:500", 50.0)
    assert soon.seconds == pytest.approx(2.7e6 / (2_500 * 5 / 6 - 1_500), abs=6)
    iops[-6:] = 0.0
    assert math.isinf(estimate_emptying(recording(iops, point_s=10.0), "gp2:500", 50.0).seconds)


def test_sizes_of_the_last_minute_count_by_their_ios():
    # Half a minute of 1,000 reads of 16 KiB, half of 5,000 of 32 KiB: 90 MB/s, of which m5.large
    # gives 81.25 for ever. Sizes that count by time would make 74 MB/s, and never.
    rates, sizes = np.repeat([1_000.0, 5_000.0], 30), np.repeat([16.0, 32.0], 30)
    points = make_points(np.arange(60.0), np.ones(60), rates, np.zeros(60), sizes, np.full(60, 16.0))
    load = OpenWorkload(name="mixed", kind="recorded", points=points)
    soon = estimate_emptying(load, "gp3:500:6000:500", None, instance_balance=50.0, instance="m5.large")
    drain = (1_000 * 16 + 5_000 * 32) * 1_024 / 2 - 81.25e6
    assert soon.seconds == pytest.approx((593.75e6 - 81.25e6) * 900 / drain, rel=0.01)


# --- growth ---------------------------------------------------------------------------------------


def test_growth_meets_the_limit_on_its_day():
    # A peak of 1,000 IOPS at the first day, 1 % more each day: 0.9 x 3,000 of gp3 is met after
    # ln(2.7) / ln(1.01) = 99.8 days, 70 after the 30 that were recorded.
    days = np.repeat(1_000 * 1.01 ** np.arange(30), 288)
    forecasts = {
        forecast.cap: forecast
        for forecast in forecast_limits(build_history(recording(days)), "gp3:100", instance="m5.large")
    }
    iops = forecasts["volume-iops"]
    assert iops.trend.claimed and iops.limit == 3_000
    assert iops.days[1] == pytest.approx(71, abs=1)
    assert iops.growth_per_month[1] == pytest.approx(1.01**30 - 1, rel=1e-6)
    assert set(forecasts) == {"volume-iops", "volume-throughput", "instance-iops", "instance-throughput"}


def test_an_idle_day_is_left_out_of_growth():
    # The days of the test above: the others lie on the same line, so its answer is the same.
    levels = 1_000 * 1.01 ** np.arange(30)
    levels[[9, 29]] = 0.0
    iops = {
        forecast.cap: forecast
        for forecast in forecast_limits(build_history(recording(np.repeat(levels, 288))), "gp3:100")
    }["volume-iops"]
    assert iops.trend.claimed and iops.days[1] == pytest.approx(71, abs=1)
    assert iops.growth_per_month[1] == pytest.approx(1.01**30 - 1, rel=1e-6)
    assert iops.busy[9] == 0 and len(iops.busy) == 30
    # Futures of the credits grow on as well, beyond what was ever recorded (without growth 1,309).
    total = sample_futures(build_history(recording(np.repeat(levels[:29], 288))), 72, 3, 1)[:, -288:, :2].sum(axis=2)
    assert total.max() > 1.1 * levels.max()


def test_growth_that_cannot_be_said_is_named():
    levels = 1_000 * 1.01 ** np.arange(15)
    levels[[3, 8]] = 0.0
    outlook = forecast(recording(np.repeat(levels, 288)), "gp2:400", runs=3, hours=6)
    assert outlook.growth == () and any("2 of 15 were idle" in entry for entry in outlook.missing)


@pytest.mark.parametrize(
    ("last_gib", "free_inside_gib", "full"),
    [(505.0, 0.0, True), (490.5, 0.0, True), (489.0, 0.0, False), (499.0, 50.0, False), (500.0, 50.0, True)],
)
@pytest.mark.parametrize("per_day", [0.0, -0.5])
def test_a_full_volume_is_a_finding_whatever_the_trend(last_gib, free_inside_gib, full, per_day):
    space = SpaceHistory(MONDAY, last_gib + per_day * np.arange(-20, 1.0))
    quiet = recording(np.full(4 * 288, 100.0))
    outlook = forecast(quiet, "gp3:500", runs=1, space=space, free_inside_gib=free_inside_gib)
    assert outlook.has_findings() is full
    assert any("the volume is full" in line for line in describe_forecast(outlook)) is full


@pytest.mark.parametrize(("iops", "per_day", "met"), [(2_800, 1.0, True), (2_800, 0.99, True), (2_600, 1.0, False)])
def test_a_limit_that_is_met_now_is_a_finding_whatever_the_trend(iops, per_day, met):
    # 90 % of the 3,000 IOPS of gp3 are 2,700.
    load = recording(np.repeat(iops * per_day ** np.arange(-19, 1.0), 288))
    outlook = forecast(load, "gp3:500", runs=1)
    assert outlook.has_findings() is met
    assert any("it is at the limit now" in line for line in describe_forecast(outlook)) is met


# --- the ledger -----------------------------------------------------------------------------------


def test_forecasts_are_kept_once_and_scored(tmp_path):
    iops, place = business(3, 45), tmp_path / "data/forecasts.jsonl"
    outlook = forecast(recording(iops[: 30 * 288 + 100]), "gp2:400", runs=20)
    ledger.keep(outlook.promises(), place)
    ledger.keep(outlook.promises(), place)
    retained = ledger.load(place)
    assert retained == outlook.promises() and len({entry.quantity for entry in retained}) == 3
    place.write_bytes(place.read_bytes() + b'{"of":"cut off by a cra')
    assert ledger.load(place) == retained
    whole = recording(iops)
    history = build_history(whole)
    scores = ledger.score_promises(
        "shop", "gp2:400", retained, whole, history, forecast_limits(history, "gp2:400"), None
    )
    assert sum(score.count for score in scores if score.quantity == ledger.BALANCE) == 5
    assert ledger.score_promises("shop", "gp2:500", retained, whole, history, (), None) == []
    place.write_text('{"of": 1}\n')
    with pytest.raises(InputError, match="line 1.*not a forecast"):
        ledger.load(place)


def promise(**changed) -> ledger.Promise:
    figures = {"low": 1.0, "middle": 2.0, "high": 3.0} | changed
    return ledger.Promise("shop", "gp2:400", "q", "2026-10-05T00:00:00", "2026-10-06T00:00:00", **figures)


def test_a_line_that_a_crash_cut_off_costs_that_line_only(tmp_path):
    place, notes = tmp_path / "forecasts.jsonl", []
    place.write_bytes(b'{"of":"shop","sto')
    ledger.keep([promise()], place)
    assert ledger.load(place, notes) == [promise()] and place.read_bytes().startswith(b'{"of":"shop","storage"')
    whole = place.read_bytes()
    place.write_bytes(whole[:-1])  # whole, and without its end
    ledger.keep([promise(), promise(low=0.5)], place)
    assert ledger.load(place, notes) == [promise(), promise(low=0.5)] and notes == []


@pytest.mark.parametrize("line", [b'{"of":"shop","sto{"of":"shop"}', b'{"of":"shop","low":null}', b"\0\0\0\0"])
def test_a_damaged_line_is_passed_over_with_a_note(tmp_path, line):
    place, notes = tmp_path / "forecasts.jsonl", []
    ledger.keep([promise()], place)
    place.write_bytes(place.read_bytes() + line + b"\n")
    ledger.keep([promise(low=0.5)], place)
    assert ledger.load(place, notes) == [promise(), promise(low=0.5)]
    assert len(notes) == 1 and "line 2 is damaged" in notes[0]


def test_what_is_not_finite_is_not_kept_and_other_files_are_left_alone(tmp_path):
    place = tmp_path / "forecasts.jsonl"
    ledger.keep([promise(low=math.nan), promise(high=math.inf), promise()], place)
    assert ledger.load(place) == [promise()]
    other = tmp_path / "letter.txt"
    for text in ("Dear sir,\nyours", "no line end"):
        other.write_text(text)
        with pytest.raises(InputError, match="line 1.*not a forecast"):
            ledger.keep([promise()], other)
        assert other.read_text() == text


def test_a_forecast_without_a_date_is_not_kept():
    load = OpenWorkload(
        name="c", kind="recorded", points=recording(business(1, 4)).points, source={"clock_start": "10:00:00"}
    )
    assert forecast(load, "gp2:400", runs=5, hours=6).promises() == []


# --- sources --------------------------------------------------------------------------------------


def test_minutes_of_cloudwatch_become_demand_and_holes_are_idle():
    facts = SeenVolume("vol-1", "gp2:400")
    begin = MONDAY.replace(tzinfo=UTC).timestamp()
    row = {
        "read_iops": 600.0,
        "write_iops": 400.0,
        "read_mib_s": 9.375,
        "write_mib_s": 8.59375,
        "balance_percent": 77.0,
    }
    minutes = [*range(120), *range(300, 420)]
    ticks = [Tick(begin + 60.0 * minute, 60.0, {"vol-1": row}) for minute in minutes]
    workload, storage, instance = from_evidence(
        collect_evidence(SourceFacts("aws:vol-1", "cloudwatch", 60.0, "UTC", (facts,), instance="m5.large"), ticks)
    )
    assert (storage, instance, workload.span_s) == ("gp2:400", "m5.large", 420 * 60.0)
    assert (
        workload.source["clock_start"] == MONDAY.isoformat()
        and "Times without points (3 h in all)" in workload.caveats[0]
    )
    history = build_history(workload)
    # 600 reads of 16 KiB are 9.375 MiB a second; the three hours between are idle.
    np.testing.assert_allclose(history.rates[0], [600, 400, 9_600, 8_800])
    assert history.iops[24:60].max() == 0
    assert workload.points["balance_percent"][-1] == 77.0


def test_a_live_target_has_no_days():
    with pytest.raises(InputError, match="watched live"):
        read_target_demand("lab:db")


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,used\n1,2\n", "header must name"),
        ("time,used_gib\nyesterday,5\n", "ISO 8601"),
        ("time,used_gib\n2026-03-01,5\n2026-03-02T00:00:00Z,6\n", "zone"),
        ("time,used_gib\n2026-03-01,-5\n", "negative"),
        ("time,used_gib\n2026-03-01,nan\n", "finite"),
        ("time,used_gib\n2026-03-01,5\n2026-03-02,6\n", "at least 7 days"),
        ("time,used_gib\n", "at least 7 days"),
        # A week lies between the lines, and two days were recorded.
        ("time,used_gib\n2026-10-01,100\n2026-10-08,170\n", "2 days with a line.*at least 7 days"),
    ],
)
def test_bad_space_files_are_refused(tmp_path, text, message):
    (tmp_path / "space.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_space(tmp_path / "space.csv")


def test_missing_days_of_space_lie_between_their_neighbours(tmp_path):
    days = [f"2026-03-{day:02},{day + 11}" for day in (1, 2, 3, 6, 7, 8, 12, 15, *range(16, 22))]
    lines = ["time,used_gib", "2026-03-01T18:00:00,11", *days]
    (tmp_path / "space.csv").write_text("\n".join(lines) + "\n")
    history = read_space(tmp_path / "space.csv")
    np.testing.assert_allclose(history.used_gib, np.arange(12, 33))
    trend = forecast_space(history, 60.0).trend
    assert trend.per_day == pytest.approx(1.0) and trend.days == 14  # the days between count as none


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hours": 0}, "hours"),
        ({"hours": 10_000}, "hours"),
        ({"balance_percent": 300}, "balance"),
        ({"limit_gib": 0}, "--full-at-gib = 0 GiB"),
        ({"free_inside_gib": -1}, "--free-inside-gib = -1 GiB"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        forecast(recording(business(1, 4)), "gp2:400", **settings)


def test_an_instance_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="nonsense.large"):
        forecast(recording(business(1, 4)), "gp2:400", instance="nonsense.large")


def test_a_short_recording_is_refused_where_nothing_can_be_said():
    with pytest.raises(InputError, match="3 whole"):
        forecast(recording(business(1, 2)), "gp2:400")
    with pytest.raises(InputError, match="hour"):
        forecast(recording(np.full(6, 100.0)), "gp2:400")


# --- the command ----------------------------------------------------------------------------------


def test_the_command_says_keeps_and_scores(tmp_path, monkeypatch, call):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    iops = business(3, 45)
    save(recording(iops[: 30 * 288 + 100]), tmp_path / "shop.toml")
    save(recording(iops), tmp_path / "later.toml")
    code, out, _ = call(
        "forecast", str(tmp_path / "shop.toml"), "--storage", "gp2:400", "--report", str(tmp_path / "f.html")
    )
    assert code == 1 and "they run out in" in out and "no trend" in out  # a finding
    assert "80 % of them" in (tmp_path / "f.html").read_text()
    code, out, _ = call("forecast", str(tmp_path / "later.toml"), "--storage", "gp2:400", "--score")
    assert code == 0 and "credit balance (%)" in out
