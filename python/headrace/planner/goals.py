"""What a plan must meet: `p99_ms<=20`.

A goal is a metric of the simulation, a direction and a number in the metric's own unit (the unit is in its name). Each metric
has one sensible direction: an upper bound where less is better, a lower bound where more is. Strict and equal signs are refused,
because a simulated float is never *exactly* anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from headrace.errors import InputError
from headrace.workload.model import did_you_mean, shown

SOURCE = "headrace plan --help, goals"
DEFAULT_GOALS = ("p99_ms<=20", "throttled_min<=0")
# A goal of "0" met to within this much of the metric's scale counts as met: float noise of adding up a day's intervals.
SLACK = 1e-9

Kind = Literal["load", "static", "cost", "headroom"]


@dataclass(frozen=True)
class Metric:
    """A quantity that can be a goal.

    `sign`: "<=" when less is better, ">=" when more is. `scale`: what counts as one step of distance when the limit itself is
    smaller (chosen by eye: a unit a person would call "off by a little"). `kind`: "load" follows from the simulation, "static" from
    type and layout, "cost" from prices, "headroom" from simulating a larger demand.
    """

    name: str
    sign: str
    unit: str
    meaning: str
    scale: float
    kind: Kind = "load"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("p50_ms", "<=", "ms", "median latency, waiting included", 1.0),
        Metric("p95_ms", "<=", "ms", "95th percentile of latency, waiting included", 1.0),
        Metric("p99_ms", "<=", "ms", "99th percentile of latency, waiting included", 1.0),
        Metric("p999_ms", "<=", "ms", "99.9th percentile of latency, waiting included", 1.0),
        Metric("mean_ms", "<=", "ms", "mean latency, waiting included", 1.0),
        Metric("throttled_min", "<=", "min", "time in which requests wait for a limit", 10.0),
        Metric("longest_wait_s", "<=", "s", "longest wait for a limit", 1.0),
        Metric("lowest_balance_percent", ">=", "%", "lowest credit balance of the volumes (100 without credits)", 10.0),
        Metric("credits_empty_min", "<=", "min", "time without volume credits", 10.0),
        Metric("instance_empty_min", "<=", "min", "time with the instance's EBS burst bucket empty", 10.0),
        Metric("peak_queue", "<=", "requests", "most requests waiting at once", 100.0),
        Metric("queue_at_end", "<=", "requests", "requests still waiting at the end", 100.0),
        Metric("unserved_percent", "<=", "%", "share of the requests not answered by the end", 1.0),
        Metric("cost_usd_month", "<=", "USD", "monthly cost, instance included where there is one", 10.0, "cost"),
        Metric("headroom_percent", ">=", "%", "growth of demand before another goal fails", 10.0, "headroom"),
        Metric("durability_afr_percent", "<=", "%", "chance to lose the data in a year (upper published figure)", 0.1, "static"),
        Metric("consistency_percent", ">=", "%", "share of the time the type promises its performance", 0.1, "static"),
    )
}

GOAL = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(<=|>=|==|!=|<|>|=|≤|≥)\s*(\S.*?)\s*\Z")


@dataclass(frozen=True)
class Goal:
    """A bound on one metric: `limit` in the metric's unit, `sign` "<=" or ">="."""

    metric: str
    sign: str
    limit: float

    # Goals of another kind of plan name other metrics.
    known: ClassVar[dict[str, Metric]] = METRICS
    example: ClassVar[str] = "p99_ms<=20"

    def __post_init__(self) -> None:
        text = f"{self.metric}{self.sign}{shown(self.limit)}"
        metric = self.known.get(self.metric)
        if metric is None:
            near = did_you_mean(self.metric, self.known)
            raise InputError(text, f"there is no metric {shown(self.metric)}", SOURCE, near or f"Known: {', '.join(self.known)}.")
        if self.sign != metric.sign:
            raise InputError(text, _sign_rule(metric, self.sign), SOURCE, f"Write {metric.name}{metric.sign}NUMBER.")
        if isinstance(self.limit, bool) or not isinstance(self.limit, (int, float)) or not math.isfinite(self.limit) or self.limit < 0:
            raise InputError(
                text, f"the limit of {metric.name} is a number of {metric.unit}, 0 or more", SOURCE, f"For example {self.example}."
            )
        if self.metric == "headroom_percent" and self.limit > MAX_HEADROOM_PERCENT:
            raise InputError(text, f"head-room is looked at up to {MAX_HEADROOM_PERCENT} %", SOURCE, "Use growth for more.")
        object.__setattr__(self, "limit", float(self.limit))

    @classmethod
    def parse(cls, text: object) -> Goal:
        """Reads `METRIC<=NUMBER` or `METRIC>=NUMBER`. Raises InputError."""
        if isinstance(text, cls):
            return text
        match = GOAL.match(text) if isinstance(text, str) and len(text) <= 200 else None
        if match is None:
            raise InputError(shown(text), "a goal is written METRIC<=NUMBER or METRIC>=NUMBER", SOURCE, f"For example {cls.example}.")
        name, sign, number = match.groups()
        try:
            limit = float(number)
        except ValueError:
            hint = f"The unit is in the metric's name: write the bare number, for example {cls.example}."
            raise InputError(shown(text), f"{shown(number)} is not a number", SOURCE, hint) from None
        return cls(name.lower(), {"≤": "<=", "≥": ">="}.get(sign, sign), limit)

    def __str__(self) -> str:
        return f"{self.metric}{self.sign}{self.limit:.15g}"

    @property
    def about(self) -> Metric:
        """Unit, direction and meaning of the metric."""
        return self.known[self.metric]

    def met_by(self, value: float | None) -> bool:
        """Whether `value` is inside the bound. None (not known) is not."""
        if value is None or math.isnan(value):
            return False
        slack = SLACK * max(abs(self.limit), self.about.scale)
        return value <= self.limit + slack if self.sign == "<=" else value >= self.limit - slack

    def distance(self, value: float | None) -> float:
        """How far `value` misses the bound, without unit: 0 when met, else log(1 + miss / limit), unknown counts as 10.

        The logarithm keeps one hopeless latency (hours of backlog) from hiding how near the other goals are.
        """
        if self.met_by(value):
            return 0.0
        if value is None or math.isnan(value):
            return 10.0
        return math.log1p(abs(value - self.limit) / max(abs(self.limit), self.about.scale))


# Head-room is searched up to five times the demand; beyond it says nothing about the volume any more.
MAX_HEADROOM_PERCENT = 400


def _sign_rule(metric: Metric, sign: str) -> str:
    if sign in ("<=", ">="):
        better = "less" if metric.sign == "<=" else "more"
        return f"{metric.name} is better the {better} it is, so its goal is {metric.sign}"
    return f"only <= and >= are taken, not {sign}: a simulated figure is never exactly a number"


def parse_goals(goals: Iterable[str | Goal] | str | Goal) -> tuple[Goal, ...]:
    """All goals, the default ones (`p99_ms<=20`, `throttled_min<=0`) when there are none; repeated ones once. Raises InputError."""
    if isinstance(goals, (str, Goal)):
        goals = [goals]
    parsed = tuple(dict.fromkeys(Goal.parse(goal) for goal in goals))
    return parsed or tuple(Goal.parse(goal) for goal in DEFAULT_GOALS)
