"""Laws of plans for demand on random days: nothing cheaper passes, more asked never costs less,
more allowed never costs more, the answer of `--compare` never contradicts the headline, and what
wins goes on day after day. Seeded: a failing day is named by its number.

The judge is the core alone (`planner_cases.judge`); days differ in shape, size, mix, arrivals and
date. More of them with HYPOTHESIS_PROFILE=soak.
"""

from __future__ import annotations

import math
import os
import random

import polars as pl
import pytest
from planner_cases import TYPES, as_ordered, judge, recorded, repeated

import headrace
from headrace.base import core
from headrace.base.storage import Storage
from headrace.catalog.price_list import PriceList
from headrace.planner import plan
from headrace.planner.replay import WinnerReplay
from headrace.planner.search import CLOSE_ENOUGH
from headrace.workload import OpenWorkload
from headrace.workload.daily import SHAPES, new_daily

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@pytest.fixture(autouse=True)
def search_alone(monkeypatch):
    """Leaves out the replay of a winner, which takes ten times as long as the search and has tests
    of its own (test_replay.py); the soak includes it."""
    if not SOAK:
        monkeypatch.setattr(WinnerReplay, "replay", lambda self, candidate: None)


DAYS = range(200 if SOAK else 8)
DATES = ("2018-08-15", "2020-06-01", "2021-06-01", "2024-06-01", "2026-11-21")
# A cent of rounding: totals are sums of a few items of full precision.
CENT = 0.01


def drawn(seed: int) -> tuple[OpenWorkload, dict, random.Random]:
    """A day and the settings of its plan: single volumes and small stripes, so that the brute force
    has few dimensions."""
    dice = random.Random(seed)
    reads, writes = 10 ** dice.uniform(1.5, 4.2), 10 ** dice.uniform(1.5, 3.7)
    kib = {"read_kib": dice.choice([4.0, 16.0, 32.0, 64.0]), "write_kib": dice.choice([8.0, 16.0, 64.0])}
    size = round(10 ** dice.uniform(1.0, 3.5))
    if dice.random() < 0.5:
        shape = dice.choice(sorted(SHAPES))
        day = new_daily(round(reads), round(writes), shape=shape, size_gib=size, **kib)
    else:
        # Hours that differ by chance, with a spike in some; no two alike, so that no top is flat.
        hours = [dice.uniform(0.2, 1.0) * (dice.uniform(1.0, 3.0) if dice.random() < 0.15 else 1.0) for _ in range(24)]
        day = recorded(
            [reads * hour for hour in hours],
            [writes * hour for hour in hours],
            interval_s=3_600.0,
            size_gib=size,
            **kib,
        )
    settings = {"as_of": dice.choice(DATES), "max_volumes": dice.choice([1, 2, 3]), "exclude": ["raid10"]}
    settings["goals"] = [f"p99_ms<={dice.choice([3, 10, 20, 50])}", f"headroom_percent>={dice.choice([0, 10, 20, 30])}"]
    return day, settings, dice


def asked_of(settings: dict) -> tuple[float, float]:
    """The limit on p99, ms, and the factor of the head-room."""
    p99, room = (float(goal.partition("=")[2]) for goal in settings["goals"])
    return p99, 1 + room / 100


def random_storages(day: OpenWorkload, settings: dict, dice: random.Random, count: int) -> list[str]:
    """Storages that hold the data, of every type that performance is bought of, from just enough to
    far too much."""
    needed = math.ceil(round(day.size_gib / 0.75, 6))
    peak = float((day.points["reads_per_s"] + day.points["writes_per_s"]).max())
    bytes_s = (
        float(
            (
                day.points["reads_per_s"] * day.points["read_kib"]
                + day.points["writes_per_s"] * day.points["write_kib"]
            ).max()
        )
        / 1024
    )
    texts = []
    while len(texts) < count:
        members = dice.randint(1, settings["max_volumes"])
        gib = -(-needed // members)
        front = "" if members == 1 else f"{members}x"
        iops = round(peak / members * dice.choice([1.0, 1.02, 1.1, 1.2, 1.3, 1.4, dice.uniform(0.5, 3.0)]))
        mib_s = round(bytes_s / members * dice.choice([1.0, 1.1, 1.2, 1.3, 1.35, dice.uniform(0.5, 3.0)]))
        match dice.choice(["gp2", "gp3", "gp3", "io1", "io2", "st1", "sc1"]):
            case "gp3":
                iops, mib_s = max(3_000, iops), max(125, mib_s)
                texts.append(
                    f"{front}gp3:{max(gib, -(-iops // 500) if iops > 3_000 else gib)}:{max(iops, 4 * mib_s)}:{mib_s}"
                )
            case "gp2":
                texts.append(
                    f"{front}gp2:{max(gib, 1, round(gib * dice.choice([1.0, dice.uniform(1.0, 3.0)])), round(iops / 3 * dice.choice([0.3, 0.6, 1.0])))}"
                )
            case "io1" | "io2" as kind:
                texts.append(
                    f"{front}{kind}:{max(gib, 4, -(-iops // (50 if kind == 'io1' else 500)))}:{max(100, iops)}"
                )
            case kind:
                texts.append(f"{front}{kind}:{max(gib, 125, 500, round(gib * dice.uniform(1.0, 4.0)))}")
    return texts


@pytest.mark.parametrize("seed", DAYS)
def test_no_storage_that_passes_costs_less_than_the_winner(seed):
    # A1: in 17 of 50 random days a gp3 that passes was missed, and the answer was 1.1 to 10 times
    # dearer.
    day, settings, dice = drawn(seed)
    answer = plan(day, **settings)
    p99, factor = asked_of(settings)
    rows = judge(day, random_storages(day, settings, dice, 150), demand=factor, as_of=settings["as_of"])
    passing = rows.filter(
        (rows["status"] == "simulated")
        & (rows["worst_p99_ms"] <= p99)
        & (rows["throttled_s"] <= 1e-6)
        & rows["usd"].is_not_nan()
    )
    if passing.is_empty():
        return
    # Storages that pass are compared at sizes that people order: at most 5 % more of each figure.
    ordered = [as_ordered(text) for text in passing["storage"]]
    passing = passing.with_columns(usd=pl.Series(core.monthly_totals(ordered, "us-east-1", settings["as_of"])))
    best = passing.sort("usd").row(0, named=True)
    assert answer.winner is not None, f"seed {seed}: nothing, but {best['storage']} passes"
    assert answer.winner.cost_usd_month <= best["usd"] / (1 - CLOSE_ENOUGH) + CENT, (
        f"seed {seed}: {answer.winner.storage} against {best['storage']}"
    )


@pytest.mark.parametrize("seed", DAYS)
def test_the_answer_on_today_s_storage_never_contradicts_the_headline(seed):
    day, settings, dice = drawn(seed)
    for today in random_storages(day, settings, dice, 4):
        try:
            answer = plan(day, **settings, compare=today)
        except headrace.HeadraceError:
            continue  # not sold on that day
        if answer.choices.compared.meets_goals:
            assert answer.winner is not None, (seed, today)
            [usd] = core.monthly_totals([as_ordered(today)], "us-east-1", settings["as_of"])
            assert usd >= answer.winner.cost_usd_month * (1 - CLOSE_ENOUGH) - CENT, (
                seed,
                today,
                answer.winner.storage,
            )


@pytest.mark.parametrize("seed", DAYS)
def test_more_asked_never_costs_less(seed):
    day, settings, dice = drawn(seed)
    settings["exclude"] = ["raid10", "st1", "sc1", "standard"]
    usd = lambda **changes: cost(day, settings | changes)  # noqa: E731
    base = usd()
    steps = {"demand_growth": [1.1, 1.7], "data_growth": [1.1, 1.7], "free_percent": [40, 60]}
    for name, values in steps.items():
        costs = [base, *(usd(**{name: value}) for value in values)]
        rising(costs, seed, name)
    p99, factor = asked_of(settings)
    rising([base, *(usd(goals=[f"p99_ms<={p99 * by}", settings["goals"][1]]) for by in (0.8, 0.5))], seed, "p99_ms")
    rising(
        [
            base,
            *(usd(goals=[settings["goals"][0], f"headroom_percent>={100 * (factor - 1) + more}"]) for more in (1, 15)),
        ],
        seed,
        "headroom",
    )
    growing = OpenWorkload(
        name="grows",
        kind=day.kind,
        points=day.points,
        size_gib=day.size_gib,
        arrivals=day.arrivals,
        growth_per_year=0.5,
    )
    rising([cost(growing, settings | {"months": months}) for months in (0, 5, 12)], seed, "months")


@pytest.mark.parametrize("seed", DAYS)
def test_more_allowed_never_costs_more(seed):
    day, settings, dice = drawn(seed)
    rest = dice.sample(TYPES, 2)
    few = {*TYPES} - {*rest}
    entry, all_types = (cost(day, settings | {"exclude": [*excluded, "raid10"]}) for excluded in (few, ()))
    rising([all_types, entry], seed, f"only {rest}")
    rising([cost(day, settings | {"max_volumes": most}) for most in (4, 2, 1)], seed, "max_volumes")
    rising(
        [cost(day, settings | {"exclude": excluded}) for excluded in ((), ("raid10",), ("raid10", "raid0"))],
        seed,
        "layouts",
    )


def cost(day: OpenWorkload, settings: dict) -> float:
    """Returns the winner's cost, infinite without a winner."""
    winner = plan(day, **settings).winner
    return math.inf if winner is None else winner.cost_usd_month


def rising(costs: list[float], seed: int, what: str) -> None:
    """Each is not below the one before by more than the search may leave."""
    for before, after in zip(costs, costs[1:], strict=False):
        assert after >= before * (1 - CLOSE_ENOUGH) - CENT, f"seed {seed}, {what}: {costs}"


@pytest.mark.parametrize("seed", DAYS)
def test_winners_go_on_day_after_day(seed):
    # A2: "meets every goal", and gone on the second day in 6 of 12 random ones.
    day, settings, _ = drawn(seed)
    answer = plan(day, **settings)
    p99, factor = asked_of(settings)
    for choice in [
        *answer.choices.winners[:2],
        *(winner for winner in answer.choices.winners if winner.volume_type in ("gp2", "st1", "sc1")),
    ][:4]:
        for demand in (1.0, factor):
            settled = headrace.simulate(
                day.scale(demand), choice.storage, as_of=settings["as_of"], form="interval", cycle="settled"
            ).summary
            assert settled["throttled_s"] <= 1e-6 and settled["worst_p99_ms"] <= p99 + 1e-9, (
                seed,
                choice.storage,
                demand,
            )
        three = headrace.simulate(repeated(day, 3), choice.storage, as_of=settings["as_of"], form="interval")
        last = three.rows.filter(three.rows["t_s"] >= 2 * 86_400)
        assert three.summary["queue_at_end"] == 0 and last["throttled_s"].sum() <= 1e-6, (seed, choice.storage)
        assert choice.usable_gib >= day.size_gib / 0.75 - 1e-6
        assert choice.headroom_percent >= 100 * (factor - 1) - 1e-9


@pytest.mark.parametrize("seed", list(DAYS)[:3])
def test_the_same_question_has_the_same_answer(seed):
    day, settings, _ = drawn(seed)
    assert plan(day, **settings).to_dict() == plan(day, **settings).to_dict()


@pytest.mark.parametrize("seed", list(DAYS)[:4])
def test_a_bill_is_that_of_the_price_list(seed):
    day, settings, dice = drawn(seed)
    discount = dice.uniform(0, 40)
    answer = plan(day, **settings, discount_percent=discount)
    prices = PriceList("us-east-1", settings["as_of"], discount_percent=discount)
    for choice in answer.choices.winners:
        if choice.volume_type != "standard":  # billed by the request
            assert choice.cost_usd_month == pytest.approx(
                prices.compute_volume_totals([choice.storage])[0], abs=1e-6
            ), (
                seed,
                choice.storage,
            )
        assert Storage.parse(choice.storage).text == choice.storage
