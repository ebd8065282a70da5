"""Is the planner's answer the cheapest, and does it hold?

Random days x goals x dates against a brute-force search and a replay.

Each question is drawn by its seed: the shape of a day (office, evening, two peaks, spikes, a noisy
one), its rates and request sizes, the data, the goals and the day of limits and prices (2014 to
2026). Two questions are asked of the answer:

  cheapest   every storage of a fine grid (sizes, IOPS, MiB/s and members in round figures, none of it the planner's own choice) is
             priced, and those cheaper than the answer are simulated one by one: does any meet the goals?
  holds      the answer is run for three days one after the other, per interval; of some, the hours around the peak per I/O.

    python benchmarks/plan_accuracy.py [--questions 1000] [--seed 1] [--events 100]
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

import headrace
from headrace import Goal, OpenWorkload
from headrace import _core as core
from headrace.planner import Plan
from headrace.planner.candidates import GIB_STEPS, IOPS_STEPS, MIB_S_STEPS, round_figure_up

DATES = (
    "2014-09-01",
    "2016-06-01",
    "2017-06-01",
    "2019-03-01",
    "2020-06-01",
    "2021-03-01",
    "2023-06-01",
    "2025-06-01",
    "2026-11-21",
)
GOALS = (
    (),
    ("p99_ms<=20", "headroom_percent>=0"),
    ("headroom_percent>=30",),
    ("p99_ms<=5",),
    ("throttled_min<=10", "p99_ms<=500"),
    ("overall_p99_ms<=20",),
    ("throttled_min<=0", "headroom_percent>=0", "p99_ms<=100"),
    ("lowest_balance_percent>=20",),
)
TYPES = ("gp2", "gp3", "io1", "io2", "st1", "sc1")
# Shares of what the planner found between which the grid is fine: a cheaper answer far away would
# be found by the coarse part.
FINE = [1 - 0.002 * step for step in range(1, 26)]
COARSE = [1.08**-step for step in range(1, 60)]
ALLOWED = 0.005  # the bar: never dearer by more than half a percent


@dataclass(frozen=True)
class Question:
    """One question: a day, goals, a date, the most volumes and the free space asked for."""

    seed: int
    day: OpenWorkload
    goals: tuple[str, ...]
    as_of: str
    max_volumes: int


def question(seed: int) -> Question:
    """Draws the question of a seed."""
    dice = random.Random(seed)
    minutes = 1440
    base, peak = 10 ** dice.uniform(1.5, 4.0), dice.uniform(1.0, 8.0)
    shape = dice.choice(("office", "evening", "two peaks", "spikes", "noise", "flat"))
    reads = [base * _level(shape, minute / minutes, peak, dice) for minute in range(minutes)]
    share = dice.uniform(0.05, 1.5)
    writes = [rate * share * dice.uniform(0.8, 1.2) for rate in reads]
    read_kib, write_kib = (
        dice.choice((4.0, 8.0, 16.0, 16.0, 16.0, 32.0, 64.0, 200.0)),
        dice.choice((8.0, 16.0, 16.0, 24.0, 64.0)),
    )
    points = headrace.make_points(
        [60.0 * m for m in range(minutes)], [60.0] * minutes, reads, writes, [read_kib] * minutes, [write_kib] * minutes
    )
    day = OpenWorkload(
        name=f"day {seed}", kind="daily", points=points, size_gib=round(10 ** dice.uniform(0.8, 3.6), 1), source={}
    )
    return Question(seed, day, dice.choice(GOALS), dice.choice(DATES), dice.choice((1, 1, 2, 4, 8)))


def _level(shape: str, at: float, peak: float, dice: random.Random) -> float:
    if shape == "office":
        return 0.1 + peak * max(0.0, math.sin(math.pi * (at * 24 - 8) / 10)) if 8 <= at * 24 <= 18 else 0.1
    if shape == "evening":
        return 0.3 + peak * math.exp(-(((at * 24 - 20) / 2) ** 2))
    if shape == "two peaks":
        return 0.2 + peak * (math.exp(-(((at * 24 - 10) / 1.5) ** 2)) + math.exp(-(((at * 24 - 20) / 1.5) ** 2)))
    if shape == "spikes":
        return 0.3 + (peak * dice.random() if dice.random() < 0.03 else 0.0)
    if shape == "noise":
        return dice.uniform(0.2, peak)
    return 1.0 + 0.01 * dice.random()


# --- brute force ---


def cheaper_that_passes(question: Question, plan: Plan) -> tuple[float, str] | None:
    """The cheapest storage of the grid that meets the goals and costs less than the plan's by more
    than is allowed; None where there is none.

    Nothing is pruned but by price: what costs less than the answer is simulated. Storages that the
    planner refused after a replay of every request (`stepped_up`) pass per interval and do not count.
    """
    limit = plan.winner.cost_usd_month * (1 - ALLOWED) if plan.winner else math.inf
    settled = {*plan.search.stepped_up, *([plan.winner.storage] if plan.winner else [])}
    storages = [text for text in grid(question, plan) if text not in settled]
    million = {True: _million(question.day, 2), False: _million(question.day, 1)}
    usd = {}
    for mirrored in (True, False):
        texts = [text for text in storages if text.startswith("raid10") == mirrored]
        usd |= dict(zip(texts, core.monthly_totals(texts, "us-east-1", question.as_of, million[mirrored]), strict=True))
    cheap = [text for text in storages if usd[text] < limit]
    passing = [(usd[text], text) for text, fine in zip(cheap, meets(question, plan.goals, cheap), strict=True) if fine]
    return min(passing, default=None)


def _million(day: OpenWorkload, copies: int) -> float:
    totals = day.points.select(
        (pl.col("reads_per_s") * pl.col("duration_s")).sum().alias("r"),
        (pl.col("writes_per_s") * pl.col("duration_s")).sum().alias("w"),
    ).row(0)
    return (totals[0] + copies * totals[1]) / day.span_s * 730 * 3_600 / 1e6


def grid(question: Question, plan: Plan) -> list[str]:
    """Storages around and below what the planner found in each family, and a coarse grid over
    everything that is sold."""
    needed = plan.load.needed_gib
    eras = {era["volume_type"]: era for era in core.volume_eras(question.as_of)}
    result: dict[str, None] = {}
    counts = (
        [("", 1)]
        + [("", n) for n in range(2, question.max_volumes + 1)]
        + [("raid10:", n) for n in range(4, question.max_volumes + 1, 2)]
    )
    for front, members in counts:
        share = 2 if front else 1
        head = front + (f"{members}x" if members > 1 else "")
        for kind in TYPES:
            if kind not in eras:
                continue
            gib = max(int(eras[kind]["size_gib"]["min"]["value"]), math.ceil(needed * share / members))
            if gib <= eras[kind]["size_gib"]["max"]["value"]:
                result |= dict.fromkeys(
                    head + text for text in _volumes(kind, eras[kind], gib, question, members, share)
                )
    result |= dict.fromkeys(neighbours(question, plan))
    ordered = (_as_ordered(headrace.Storage.parse(text), eras) for text in result)
    return list(dict.fromkeys(text for text in ordered if text is not None))


def _as_ordered(storage: headrace.Storage, eras: Mapping[str, core.Era]) -> str | None:
    """Returns a storage of equal members with the next round figures, in which the planner answers
    (docs/guide/planning.md, Round figures); None where they are not sold together, or not that large."""
    volume, count = storage.members[0], len(storage.members)
    era = eras[volume.type]

    def figure(part: str, name: str) -> float:
        return float(era[part][name]["value"])

    def round_up(value: int, steps: Sequence[tuple[float, int]], part: str, least: str, most: str) -> int:
        return round_figure_up(value, steps, int(figure(part, least)), int(figure(part, most)))

    if volume.size_gib > figure("size_gib", "max"):
        return None  # else it would become a smaller volume, which does not hold the data
    gib = round_up(volume.size_gib, GIB_STEPS, "size_gib", "min", "max")
    texts = [volume.type, str(gib)]
    if volume.type not in ("gp2", "st1", "sc1"):
        least = "included" if volume.type == "gp3" else "min"
        iops = round_up(volume.iops or 0, IOPS_STEPS, "iops", least, "max")
        if iops > max(figure("iops", least), gib * figure("iops", "per_gib")):
            return None
        texts.append(str(iops))
        if volume.type == "gp3":
            mib_s = round_up(volume.mib_s or 0, MIB_S_STEPS, "throughput", "included_mib_s", "max_mib_s")
            if mib_s > iops * figure("throughput", "mib_s_per_iops"):
                return None
            texts.append(str(mib_s))
    head = "" if count == 1 else f"{count}x" if storage.level == "raid0" else f"{storage.level}:{count}x"
    return head + ":".join(texts)


def neighbours(question: Question, plan: Plan) -> list[str]:
    """The answer itself made smaller: each axis alone and all together, in steps of 0.2 % down to
    half, and spread over other numbers of volumes."""
    if plan.winner is None:
        return []
    winner = headrace.Storage.parse(plan.winner.storage)
    volume, result = winner.members[0], {}
    least_gib = math.ceil(plan.load.needed_gib * (2 if winner.level == "raid10" else 1) / len(winner.members))
    for members in (
        {len(winner.members), *range(2, question.max_volumes + 1)} if winner.level == "raid0" else {len(winner.members)}
    ):
        by = len(winner.members) / members
        for step in range(250):
            share = (1.01 - 0.002 * step) * by
            gib = max(math.ceil(least_gib * by), round(volume.size_gib * share))
            iops = None if volume.iops is None else max(100, round(volume.iops * share))
            mib_s = None if volume.mib_s is None else max(125, round(volume.mib_s * share))
            same_gib = max(math.ceil(least_gib * by), round(volume.size_gib * by))
            for size, rate, speed in (
                (gib, iops, mib_s),
                (same_gib, iops, volume.mib_s),
                (same_gib, volume.iops, mib_s),
                (gib, volume.iops, volume.mib_s),
            ):
                text = ":".join(
                    [
                        volume.type,
                        str(size),
                        *([str(rate)] if rate is not None else []),
                        *([str(speed)] if speed is not None else []),
                    ]
                )
                head = "" if members == 1 else f"{members}x" if winner.level == "raid0" else f"raid10:{members}x"
                result[head + text] = None
    return list(result)


def _largest(numbers: pl.Series) -> float:
    largest = numbers.max()
    assert isinstance(largest, int | float)
    return largest


def _volumes(kind: str, era: core.Era, gib: int, question: Question, members: int, share: int) -> list[str]:
    points = question.day.points
    peak = _largest(points["reads_per_s"] + points["writes_per_s"] * share) / members
    peak_mib_s = (
        _largest(points["reads_per_s"] * points["read_kib"] + points["writes_per_s"] * points["write_kib"] * share)
        / 1024
        / members
    )
    steps = [
        factor * by for factor in (1.0, 1.2, 1.3) for by in [*FINE, *[2 - entry for entry in FINE], *COARSE[:20], 1.0]
    ]
    if kind in ("gp2", "st1", "sc1"):
        return [
            f"{kind}:{size}"
            for size in sorted(
                {max(gib, min(int(era["size_gib"]["max"]["value"]), round(peak * step / 3))) for step in steps} | {gib}
            )
        ]
    most = int(era["iops"]["max"]["value"])
    if kind != "gp3":
        per_gib = float(era["iops"]["per_gib"]["value"])
        rates = sorted({max(100, min(most, round(peak * step))) for step in steps})
        return [
            f"{kind}:{max(gib, math.ceil(rate / per_gib))}:{rate}"
            for rate in rates
            if math.ceil(rate / per_gib) <= era["size_gib"]["max"]["value"]
        ]
    highest = int(era["throughput"]["max_mib_s"]["value"])
    rates = sorted({max(3_000, min(most, round(peak * step))) for step in steps[::2]})
    speeds = sorted({max(125, min(highest, round(peak_mib_s * step))) for step in steps[::2]})
    if kind == "gp3" and len(rates) * len(speeds) > 1_500:
        rates, speeds = rates[:: max(1, len(rates) // 40)], speeds[:: max(1, len(speeds) // 38)]
    return [
        f"gp3:{max(gib, math.ceil(rate / 500) if rate > 3_000 else gib)}:{rate}:{speed}"
        for rate in rates
        for speed in speeds
        if speed <= rate / 4
    ]


def meets(question: Question, goals: tuple[Goal, ...], storages: list[str]) -> list[bool]:
    """Returns, for each storage, whether it meets the goals: simulated one by one in the settled
    cycle, at the demand and at that with head-room."""
    if not storages:
        return []
    room = max((goal.limit for goal in goals if goal.metric == "headroom_percent"), default=0.0)
    fine = [True] * len(storages)
    for factor in {1.0, 1.0 + room / 100.0}:
        answer = core.evaluate(
            question.day.scale(factor).to_core(),
            storages,
            [None] * len(storages),
            [],
            as_of=question.as_of,
            prune_above=math.inf,
            cycle="settled",
        )
        names = {
            "p99_ms": "worst_p99_ms",
            "overall_p99_ms": "p99_ms",
            "lowest_balance_percent": "lowest_balance_percent",
        }
        for i, status in enumerate(answer["status"]):
            fine[i] &= status == "simulated" and (factor == 1.0 or answer["throttled_s"][i] <= 1e-6)
            for goal in goals:
                if goal.metric == "headroom_percent" or not fine[i]:
                    continue
                value = (
                    answer["throttled_s"][i] / 60 if goal.metric == "throttled_min" else answer[names[goal.metric]][i]
                )
                value = 100.0 if goal.metric == "lowest_balance_percent" and value is None else value
                fine[i] &= bool(goal.is_met(value))
    return fine


# --- replay ---


def days(day: OpenWorkload, count: int) -> OpenWorkload:
    """Repeats the day `count` times, one after the other."""
    parts = [day.points.with_columns(pl.col("t_s") + day.span_s * index) for index in range(count)]
    return replace(day, points=pl.concat(parts))


def holds(question: Question, plan: Plan) -> list[str]:
    """Goals that the winner misses on the third of three days in a row, in words; the credits of
    the first are full."""
    assert plan.winner is not None
    run = headrace.simulate(
        days(question.day, 3), plan.winner.storage, as_of=question.as_of, form="interval", interval_s=60.0
    )
    last = run.rows.filter(pl.col("t_s") >= 2 * question.day.span_s - 1e-6)
    missed = []
    for goal in plan.goals:
        if goal.metric == "throttled_min" and not goal.is_met(last["throttled_s"].sum() / 60):
            missed.append(f"throttled {last['throttled_s'].sum() / 60:.2f} min against {goal.limit:g}")
        if goal.metric == "lowest_balance_percent" and not goal.is_met(
            last["balance_percent"].min() if last["balance_percent"].is_not_null().any() else 100.0
        ):
            missed.append(f"balance {last['balance_percent'].min():.2f} %")
        if goal.metric == "p99_ms" and not goal.is_met(run.summary["worst_p99_ms"]):
            missed.append(f"p99 {run.summary['worst_p99_ms']:.2f} ms")
    return missed


def holds_per_io(question: Question, plan: Plan) -> list[str]:
    """Returns the goals that the plan misses in the busiest twenty minutes, with every request
    simulated. Bursting types start with what the settled day left them then."""
    assert plan.winner is not None
    points = question.day.points.with_columns((pl.col("reads_per_s") + pl.col("writes_per_s")).alias("iops"))
    worst = int(points["iops"].rolling_mean(20).arg_max() or 19)
    part = points[max(0, worst - 19) : worst + 1].drop("iops")
    part = part.with_columns(pl.col("t_s") - part["t_s"][0])
    settled = headrace.simulate(
        question.day, plan.winner.storage, as_of=question.as_of, form="interval", interval_s=60.0, cycle="settled"
    ).rows
    balance = settled["balance_percent"][max(0, worst - 20)]
    run = headrace.simulate(
        replace(question.day, points=part, kind="daily"),
        plan.winner.storage,
        as_of=question.as_of,
        form="events",
        seed=question.seed,
        start_balance=None if balance is None else max(0.0, min(100.0, balance)),
    )
    # Random arrivals of single requests touch a limit that the mean does not: a second in the
    # twenty minutes is allowed for chance.
    missed = [
        f"p99 {run.summary['worst_p99_ms']:.2f} ms"
        for goal in plan.goals
        if goal.metric == "p99_ms" and not goal.is_met(run.summary["worst_p99_ms"])
    ]
    if (
        any(goal.metric == "throttled_min" and goal.limit == 0 for goal in plan.goals)
        and run.summary["throttled_s"] > 1.0
    ):
        missed.append(f"throttled {run.summary['throttled_s']:.1f} s of 1,200")
    return missed


# --- all of it ---


def run(questions: int, seed: int, events: int, say=lambda text: None) -> dict:
    """Asks all questions; figures and every miss."""
    seconds, dearer, broken, broken_events, none, replayed = [], [], [], [], 0, 0
    for index in range(questions):
        request = question(seed * 1_000_000 + index)
        start = time.perf_counter()
        plan = headrace.plan(
            request.day,
            goals=request.goals,
            as_of=request.as_of,
            max_volumes=request.max_volumes,
            exclude=["standard"],
            top=1,
        )
        seconds.append(time.perf_counter() - start)
        better = cheaper_that_passes(request, plan)
        if better is not None:
            own = plan.winner.cost_usd_month if plan.winner else math.inf
            dearer.append(
                (
                    request.seed,
                    request.as_of,
                    request.goals,
                    plan.winner.storage if plan.winner else "nothing",
                    own,
                    better,
                )
            )
            say(f"seed {request.seed}: {dearer[-1]}")
        if plan.winner is None:
            none += 1
            continue
        missed = holds(request, plan)
        if missed:
            broken.append((request.seed, request.as_of, plan.winner.storage, request.goals, missed))
            say(f"seed {request.seed}: {broken[-1]}")
        if replayed < events:
            replayed += 1
            missed = holds_per_io(request, plan)
            if missed:
                broken_events.append((request.seed, plan.winner.storage, request.goals, missed))
                say(f"seed {request.seed}, per I/O: {broken_events[-1]}")
        if index % 50 == 49:
            say(f"{index + 1} of {questions}")
    return {
        "questions": questions,
        "seed": seed,
        "no answer": none,
        "dearer than brute force by more than 0.5 %": dearer,
        "missed on the third day, per interval": broken,
        "replayed per I/O": replayed,
        "missed per I/O": broken_events,
        "plan s, median": statistics.median(seconds),
        "plan s, worst": max(seconds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=100)
    given = parser.parse_args()
    result = run(given.questions, given.seed, given.events, lambda text: print(text, file=sys.stderr, flush=True))
    for name, value in result.items():
        print(f"{name}: {len(value) if isinstance(value, list) else value}")
        for row in value if isinstance(value, list) else ():
            print(f"    {row}")
    return (
        1
        if result["dearer than brute force by more than 0.5 %"] or result["missed on the third day, per interval"]
        else 0
    )


if __name__ == "__main__":
    raise SystemExit(main())
