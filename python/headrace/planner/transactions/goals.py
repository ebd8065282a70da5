"""What a plan for transactions must meet: `tps>=300`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import InputError
from headrace.planner.goals import SOURCE, Goal, Metric

METRICS = {
    metric.name: metric
    for metric in (
        Metric("tps", ">=", "tps", "transactions a second that are sustained: the lowest mean over an hour", 1.0),
        Metric("p95_ms", "<=", "ms", "95th percentile of response times in the worst hour", 1.0),
        Metric("tps_p5", ">=", "tps", "5th percentile of one-second tps in the worst hour", 1.0),
        Metric("backlog_s", "<=", "s", "longest wait of an arriving transaction for its turn (with --arrivals-tps)", 1.0),
        Metric("usd_month", "<=", "USD", "monthly cost, instance and log volumes included", 10.0, "cost"),
    )
}
# With arrivals, when no goal is named: what arrives is served as it comes.
OPEN_GOALS = ("backlog_s<=1",)


@dataclass(frozen=True)
class TransactionGoal(Goal):
    """A bound on one of `METRICS`."""

    known: ClassVar[dict[str, Metric]] = METRICS
    example: ClassVar[str] = "tps>=300"


def parse_goals(goals: Iterable[str | Goal] | str | Goal, arrivals: bool) -> tuple[TransactionGoal, ...]:
    """All goals, repeated ones once. Raises InputError where there are none, where one asks for more than can be, or needs arrivals that are not given."""
    given = [goals] if isinstance(goals, (str, Goal)) else list(goals)
    parsed = tuple(
        dict.fromkeys(TransactionGoal.parse(str(goal)) if isinstance(goal, Goal) else TransactionGoal.parse(goal) for goal in given)
    )
    if not parsed and arrivals:
        parsed = tuple(TransactionGoal.parse(goal) for goal in OPEN_GOALS)
    if not any(goal.about.kind == "load" for goal in parsed):
        hint = "For example --goal 'tps>=300' --goal 'p95_ms<=50'."
        raise InputError("no goal on performance", "a plan for transactions needs one: tps, p95_ms, tps_p5 or backlog_s", SOURCE, hint)
    for goal in parsed:
        if goal.metric == "backlog_s" and not arrivals:
            hint = "Say how many arrive: --arrivals-tps 250. Or ask for tps."
            raise InputError(str(goal), "clients that wait for their answer leave no backlog", SOURCE, hint)
        if goal.sign == "<=" and goal.limit == 0.0 and goal.metric == "p95_ms":
            raise InputError(str(goal), "no transaction takes no time", SOURCE, "Name the longest response time in ms.")
    return parsed


def needed_tps(goals: Iterable[Goal], threads: int | None, p95_over_mean: float) -> float:
    """Transactions a second below which some goal is missed for certain: of `threads` clients that wait for each answer, response time x tps is constant."""
    least = max((goal.limit for goal in goals if goal.metric in ("tps", "tps_p5")), default=0.0)
    if threads:
        least = max([least, *(threads * 1e3 * p95_over_mean / goal.limit for goal in goals if goal.metric == "p95_ms")])
    return least
