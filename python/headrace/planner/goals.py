"""Goals of a plan: `p99_ms<=20`, `tps>=300`.

A goal is a metric, a direction and a number in the metric's own unit (the unit is in its name).
Each metric has one sensible direction: an upper bound where less is better, a lower bound where
more is. Strict and equal signs are refused, because a simulated figure is never *exactly* anything.
Plans for demand (I/Os) and for databases (transactions) know different metrics; the type, the
reading and the way a goal is met are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.base.checks import quote_value, suggest_nearest
from headrace.base.encoding import Text
from headrace.base.packaged import read_rows
from headrace.base.units import describe_span
from headrace.errors import Refusals
from headrace.workload.transactions import RESPONSES

refuse = Refusals("headrace plan --help, goals")
# Within this much of the metric's scale a goal of "0" counts as met: what adding up a day's
# intervals leaves of rounding.
SLACK = 1e-9
# Head-room is searched up to five times the demand; beyond it says nothing about the volume any
# more.
MAX_HEADROOM_PERCENT = 400
# By default a plan carries a fifth more than was recorded: one recorded day is not the busiest day
# of the year.
DEFAULT_HEADROOM_PERCENT = 20

Kind = Literal["load", "static", "cost", "headroom"]
Subject = Literal["demand", "database"]


@dataclass(frozen=True)
class Metric:
    """A quantity that can be a goal.

    `sign`: "<=" when less is better, ">=" when more is. `scale`: what counts as one step of
    distance when the limit itself is smaller (chosen by eye: a unit a person would call "off by a
    little"). `kind`: "load" follows from the simulation, "static" from type and layout, "cost" from
    prices, "headroom" from simulating a larger demand. `words`: the metric in a sentence.
    """

    name: str
    sign: str
    unit: str
    meaning: str
    scale: float
    kind: Kind = "load"
    words: str = ""


def _read_metrics(subject: Subject) -> dict[str, Metric]:
    """Returns the metrics of metrics.csv that plans of a subject know, by their names."""
    return {
        row["name"]: Metric(**{**row, "scale": float(row["scale"])})  # pyright: ignore[reportArgumentType]
        for row in read_rows("headrace.planner", "metrics.csv")
        if row.pop("subject") == subject
    }


# Goals that can be written as a word.
NAMED = {"zone-loss": "lost_with_zone_s<=0"}

DEMAND, DATABASE = _read_metrics("demand"), _read_metrics("database")
SUBJECTS: dict[str, dict[str, Metric]] = {"demand": DEMAND, "database": DATABASE}
DEFAULTS = {
    "demand": ("p99_ms<=20", "throttled_min<=0", f"headroom_percent>={DEFAULT_HEADROOM_PERCENT}"),
    "database": (f"headroom_percent>={DEFAULT_HEADROOM_PERCENT}",),
}
# With arrivals, when no goal is named: what arrives is served as it comes.
OPEN_DEFAULT = "backlog_s<=1"
EXAMPLES = {"demand": "p99_ms<=20", "database": "tps>=300"}

GOAL = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(<=|>=|==|!=|<|>|=|≤|≥)\s*(\S.*?)\s*\Z")


@dataclass(frozen=True)
class Goal(Text):
    """A bound on one metric: `limit` in the metric's unit, `sign` "<=" or ">="; `subject`: "demand"
    or "database"."""

    metric: str
    sign: str
    limit: float
    subject: Subject = "demand"

    def __post_init__(self) -> None:
        """Raises InputError for an unknown metric, the wrong sign, or a limit that is not a number
        of 0 or more."""
        text = f"{self.metric}{self.sign}{quote_value(self.limit)}"
        metrics = SUBJECTS[self.subject]
        metric = metrics.get(self.metric)
        if metric is None:
            near = suggest_nearest(self.metric, metrics)
            raise refuse.input(
                text, f"{quote_value(self.metric)} is not a known metric", near or f"Known: {', '.join(metrics)}."
            )
        if self.sign != metric.sign:
            raise refuse.input(text, _explain_sign(metric, self.sign), f"Write {metric.name}{metric.sign}NUMBER.")
        if (
            isinstance(self.limit, bool)
            or not isinstance(self.limit, (int, float))
            or not math.isfinite(self.limit)
            or self.limit < 0
        ):
            hint = f"For example {EXAMPLES[self.subject]}."
            raise refuse.input(text, f"the limit of {metric.name} is a number of {metric.unit}, 0 or more", hint)
        if metric.kind == "headroom" and self.limit > MAX_HEADROOM_PERCENT:
            raise refuse.input(
                text, f"head-room is looked at up to {MAX_HEADROOM_PERCENT} %", "Use --demand-growth for more."
            )
        object.__setattr__(self, "limit", float(self.limit) + 0.0)

    @classmethod
    def parse(cls, text: object, subject: Subject = "demand") -> Goal:
        """Reads `METRIC<=NUMBER` or `METRIC>=NUMBER`. Raises InputError."""
        if isinstance(text, Goal):
            return text if text.subject == subject else cls(text.metric, text.sign, text.limit, subject)
        text = NAMED.get(text.strip().lower(), text) if isinstance(text, str) else text
        match = GOAL.match(text) if isinstance(text, str) and len(text) <= 200 else None
        if match is None:
            raise refuse.input(
                quote_value(text),
                "a goal is written METRIC<=NUMBER or METRIC>=NUMBER",
                f"For example {EXAMPLES[subject]}.",
            )
        name, sign, number = match.groups()
        try:
            limit = float(number)
        except ValueError:
            hint = f"The unit is in the metric's name: write the bare number, for example {EXAMPLES[subject]}."
            raise refuse.input(quote_value(text), f"{quote_value(number)} is not a number", hint) from None
        name = name.lower()
        return cls(name, {"≤": "<=", "≥": ">="}.get(sign, sign), limit, subject)

    def __str__(self) -> str:
        return f"{self.metric}{self.sign}{self.limit:.15g}"

    @property
    def about(self) -> Metric:
        """Unit, direction and meaning of the metric."""
        return SUBJECTS[self.subject][self.metric]

    def is_met(self, values: object) -> np.ndarray:
        """Says which of `values` (a number, None or an array; NaN and None: not known) are inside
        the bound: no other code decides that."""
        value = np.asarray(np.nan if values is None else values, dtype=float)
        slack = SLACK * max(abs(self.limit), self.about.scale)
        # NaN compares false both ways: what is not known is not met.
        return value <= self.limit + slack if self.sign == "<=" else value >= self.limit - slack

    def measure_distance(self, values: object) -> np.ndarray:
        """Returns how far `values` miss the bound, without unit: 0 when met, else log(1 + miss /
        bound); of a lower bound log(1 + miss / value), so that half of a lower bound is as far as
        twice an upper one; unknown counts as 10.

        The logarithm keeps one hopeless latency (hours of backlog) from hiding how near the other
        goals are.
        """
        value = np.asarray(np.nan if values is None else values, dtype=float)
        less = np.abs(value) if self.sign == ">=" else abs(self.limit)
        miss = np.log1p(np.abs(value - self.limit) / np.maximum(less, self.about.scale))
        return np.where(self.is_met(value), 0.0, np.where(np.isnan(miss), 10.0, miss))


def _explain_sign(metric: Metric, sign: str) -> str:
    """Says in words why a sign cannot be used with a metric."""
    if sign in ("<=", ">="):
        better = "less" if metric.sign == "<=" else "more"
        return f"{metric.name} is better the {better} it is, so its goal is {metric.sign}"
    return f"only <= and >= are taken, not {sign}: a simulated figure is never exactly a number"


def parse_goals(
    goals: Iterable[str | Goal] | str | Goal,
    subject: Subject = "demand",
    *,
    defaults: bool = True,
    arrivals: bool = False,
) -> tuple[Goal, ...]:
    """Reads the goals, repeated ones once, and the default ones whose metric was not named
    (`DEFAULTS`; `defaults` False leaves them out).

    A plan that may be throttled for a while has no head-room by definition, so `throttled_min`
    above 0 takes the default head-room away. `arrivals`: an open load of transactions, whose
    default is that none waits above a second. Raises InputError where no goal on performance is
    left, or a goal cannot be.
    """
    given = list(goals) if isinstance(goals, Iterable) and not isinstance(goals, str) else [goals]
    parsed = list(dict.fromkeys(Goal.parse(goal, subject) for goal in given))
    named = {goal.metric for goal in parsed}
    if subject == "database":
        _check_database(parsed, arrivals)
    if defaults:
        default_goals = [Goal.parse(text, subject) for text in DEFAULTS[subject]]
        if subject == "database" and arrivals and not any(goal.about.kind == "load" for goal in parsed):
            default_goals.insert(0, Goal.parse(OPEN_DEFAULT, subject))
        parsed += [
            goal
            for goal in default_goals
            if goal.metric not in named and (goal.about.kind != "headroom" or _allows_headroom(parsed, subject))
        ]
    if not any(goal.about.kind == "load" for goal in parsed):
        names = (
            "tps, p50_ms, p95_ms, p99_ms, tps_p5 or backlog_s" if subject == "database" else "p99_ms or throttled_min"
        )
        example = "--goal 'tps>=300' --goal 'p95_ms<=50'" if subject == "database" else "--goal 'p99_ms<=20'"
        raise refuse.input("no goal on performance", f"a plan needs one: {names}", f"For example {example}.")
    return tuple(parsed)


def _allows_headroom(goals: Iterable[Goal], subject: Subject) -> bool:
    """Says whether the default head-room is added to these goals: not where a demand may be
    throttled, which has no head-room by definition."""
    return subject == "database" or not any(goal.metric == "throttled_min" and goal.limit > 0 for goal in goals)


def _check_database(goals: Iterable[Goal], arrivals: bool) -> None:
    """Raises InputError for a goal on backlog where clients wait for answers, and for a response
    time of 0 ms."""
    goals = tuple(goals)
    for goal in goals:
        if goal.metric == "backlog_s" and not arrivals:
            hint = "Say how many arrive: --arrivals-tps 250. Or ask for tps."
            raise refuse.input(str(goal), "clients that wait for their answer leave no backlog", hint)
        if goal.sign == "<=" and goal.limit == 0.0 and goal.metric in RESPONSES:
            raise refuse.input(str(goal), "a response time must be above 0 ms", "Name the longest response time in ms.")


def get_headroom(goals: Iterable[Goal]) -> float:
    """Returns the head-room the goals ask for, percent; 0 where they ask for none."""
    return max((goal.limit for goal in goals if goal.about.kind == "headroom"), default=0.0)


def get_budget(goals: Iterable[Goal]) -> float:
    """Returns the most a choice may cost, USD a month; infinite where no goal says."""
    return min((goal.limit for goal in goals if goal.about.kind == "cost"), default=math.inf)


def compute_required_tps(goals: Iterable[Goal]) -> float:
    """Returns the transactions a second that the goals ask for, head-room included; 0 where they
    ask for none."""
    goals = tuple(goals)
    by = 1.0 + get_headroom(goals) / 100.0
    return max((goal.limit * by for goal in goals if goal.metric in ("tps", "tps_p5")), default=0.0)


def compute_needed_tps(goals: Iterable[Goal], threads: int | None, least: Mapping[str, float]) -> float:
    """Returns the transactions a second, with head-room, below which some goal is missed for
    certain: of `threads` clients that wait for each answer, response time x tps is constant.
    `least`: what a percentile of response times is of their mean at the least, by metric."""
    goals = tuple(goals)
    needed = compute_required_tps(goals)
    if threads:
        grown = threads * (1.0 + get_headroom(goals) / 100.0)
        timed = (goal for goal in goals if goal.metric in RESPONSES)
        needed = max([needed, *(grown * 1e3 * least[goal.metric] / goal.limit for goal in timed)])
    return needed


def find_greatest_growth(
    count: int, holds_at: Callable[[list[int], float], list[bool]], goals: Iterable[Goal]
) -> list[float | None]:
    """Returns the highest growth of demand, in whole percent up to 400, at which each of `count`
    candidates meets the goals; None where it misses them without growth.

    `holds_at`: says which candidates, by number, meet them with a factor on the demand; what holds
    at more demand holds at less. A head-room goal of a part of a percent is tried too.
    """
    meets = holds_at(list(range(count)), 1.0)
    ranges = {i: [0, MAX_HEADROOM_PERCENT + 1] for i, good in enumerate(meets) if good}
    while middles := {i: (low + high) // 2 for i, (low, high) in ranges.items() if high - low > 1}:
        for percent in sorted(set(middles.values())):
            some = [i for i, middle in middles.items() if middle == percent]
            for i, holds in zip(some, holds_at(some, 1 + percent / 100), strict=True):
                ranges[i][0 if holds else 1] = percent
    grown: dict[int, float] = {i: float(low) for i, (low, _) in ranges.items()}
    limit = get_headroom(goals)
    near = [i for i, low in grown.items() if low < limit < low + 1.0]
    if near:
        grown |= {i: limit for i, holds in zip(near, holds_at(near, 1 + limit / 100), strict=True) if holds}
    return [grown.get(i) for i in range(count)]


def describe_miss(goal: Goal, value: float | None) -> str:
    """Writes a missed goal: `I/O p99 of the worst 5 min 240 ms against 20 ms`."""
    seconds_in = {"ms": 1e-3, "s": 1.0, "min": 60.0}.get(goal.about.unit)
    unit = {"tps": "", "requests": ""}.get(goal.about.unit, f" {goal.about.unit}")
    if value is None or math.isnan(value):
        return f"{goal.about.words} not known, {goal.sign}{format_number(goal.limit)}{unit} required"
    # A backlog of seconds, minutes or hours reads better in those.
    if seconds_in and value * seconds_in >= 120.0:
        return (
            f"{goal.about.words} {describe_span(round(value * seconds_in))} against {format_number(goal.limit)}{unit}"
        )
    if goal.about.unit == "ms" and value >= 1_000.0:
        return f"{goal.about.words} {format_number(value / 1_000)} s against {format_number(goal.limit)}{unit}"
    return f"{goal.about.words} {format_number(value)}{unit} against {format_number(goal.limit)}{unit}"


def format_number(value: float) -> str:
    """Writes a figure with three digits or so, thousands with commas."""
    if value == round(value) and abs(value) < 1e12 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.3g}"
