"""Candidates in, metrics and verdicts out: the one place that asks the core to simulate and to price.

A candidate is a storage and an instance (or none). All of a batch are simulated in one call of the core; goals are then judged on
whole columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace import _core
from headrace.errors import core_errors
from headrace.planner.candidates import Demand, Family
from headrace.planner.goals import SLACK, Goal

# AWS bills by the second and quotes months of 730 hours (365 x 24 / 12).
HOURS_PER_MONTH = 730.0
RATES = ("reads_per_s", "writes_per_s")
# Goals that any backlog breaks: with one of them, a candidate whose bound says "cannot deliver" need not be simulated.
NO_BACKLOG = ("throttled_min", "longest_wait_s", "peak_queue", "queue_at_end", "unserved_percent")


@dataclass(frozen=True)
class Batch:
    """Candidates of one family, as columns: notations, member counts, indices into the instances (None: volumes alone)."""

    family: Family
    storages: Sequence[str]
    members: Sequence[int]
    instances: Sequence[int | None]


@dataclass
class Counts:
    """How many different candidates were looked at, by what came of them."""

    seen: dict[tuple[str, int | None], str] = field(default_factory=dict)

    def of(self, status: str) -> int:
        """Candidates whose last word was `status`."""
        return sum(1 for known in self.seen.values() if known == status)


class Evaluator:
    """Judges candidates against one demand, one set of goals, one region and day."""

    def __init__(
        self,
        demand: Demand,
        load: dict,
        goals: Sequence[Goal],
        region: str,
        as_of: str,
        start_balance: float | None,
        instances: Sequence[dict],
    ) -> None:
        self.demand, self.load, self.goals = demand, load, goals
        self.region, self.as_of, self.start_balance = region, as_of, start_balance
        self.instances = instances
        self.instance_usd = [instance_usd_month(instance) for instance in instances]
        self.counts = Counts()
        self.progress: Callable[[float], None] | None = None
        self.prune_above = 1.0 if any(goal.metric in NO_BACKLOG and goal.limit == 0 for goal in goals) else math.inf
        self.headroom = max((goal.limit for goal in goals if goal.metric == "headroom_percent"), default=None)

    def run(self, batch: Batch, *, prune: bool = True) -> pl.DataFrame:
        """A row per candidate, in their order.

        Columns: `storage`, `members`, `instance` (index or null), `family`, `status` ("simulated", "bounded", "invalid"),
        `overload`, `why`, every metric of `goals.METRICS` (null where not simulated; `headroom_percent` only as far as goals
        ask), `delivered_iops`, `credits_empty_at_s`, `instance_empty_at_s`, `performs` (all goals but cost), `passes` (all
        goals), `distance` (sum over goals of how far they are missed).
        """
        raw = self._evaluate(batch, self.load, self.prune_above if prune else math.inf)
        frame = pl.DataFrame(raw, schema_overrides={name: pl.String if name in ("status", "why", "cap") else pl.Float64 for name in raw})
        for storage, instance, status in zip(batch.storages, batch.instances, raw["status"], strict=True):
            if status != "bounded" or (storage, instance) not in self.counts.seen:
                self.counts.seen[storage, instance] = status
        frame = frame.with_columns(
            pl.Series("storage", batch.storages, dtype=pl.String),
            pl.Series("members", batch.members, dtype=pl.Int64),
            pl.Series("instance", batch.instances, dtype=pl.Int64),
            pl.lit(batch.family.name).alias("family"),
        )
        frame = self._with_metrics(frame, batch)
        return self._judge(frame, batch)

    def _evaluate(self, batch: Batch, load: dict, prune_above: float) -> dict:
        # The core looks every instance up that it is given: only those of the batch.
        used = sorted({index for index in batch.instances if index is not None})
        place = {None: None} | {index: position for position, index in enumerate(used)}
        with core_errors():
            return _core.evaluate(
                load, list(batch.storages), [place[index] for index in batch.instances],
                [self.instances[index]["instance_type"] for index in used],
                as_of=self.as_of, start_balance_percent=self.start_balance, prune_above=prune_above, progress=self.progress,
            )  # fmt: skip

    def _with_metrics(self, frame: pl.DataFrame, batch: Batch) -> pl.DataFrame:
        ran = pl.col("status") == "simulated"
        asked = pl.col("asked_ios")
        has_credits = pl.col("lowest_balance_percent").is_not_null()
        static = {count: static_figures(batch.family, count) for count in set(batch.members)}
        return frame.with_columns(
            (pl.col("throttled_s") / 60).alias("throttled_min"),
            (pl.col("credits_empty_s") / 60).alias("credits_empty_min"),
            (pl.col("instance_empty_s") / 60).alias("instance_empty_min"),
            pl.when(asked > 0).then(100 * pl.col("queue_at_end") / asked).when(ran).then(0.0).alias("unserved_percent"),
            pl.when(has_credits).then("lowest_balance_percent").when(ran).then(100.0).alias("lowest_balance_percent"),
            (pl.col("delivered_ios") / pl.col("seconds")).alias("delivered_iops"),
            pl.Series("cost_usd_month", self.costs(batch), dtype=pl.Float64).fill_nan(None),
            pl.Series("durability_afr_percent", [static[count][0] for count in batch.members], dtype=pl.Float64),
            pl.Series("consistency_percent", [static[count][1] for count in batch.members], dtype=pl.Float64),
            pl.lit(None, dtype=pl.Float64).alias("headroom_percent"),
        )

    def overloads(self, batch: Batch) -> list[float | None]:
        """Demand over what each candidate can give in that time, every balance spent, where that is above 1: it cannot deliver."""
        return self._evaluate(batch, self.load, 1.0)["overload"] if batch.storages else []

    def costs(self, batch: Batch) -> list[float]:
        """USD a month of each candidate, NaN where a price is not known."""
        with core_errors():
            totals = _core.monthly_totals(list(batch.storages), self.region, self.as_of, self.million_ios(batch.family))
        return [total + (0.0 if index is None else self.instance_usd[index]) for total, index in zip(totals, batch.instances, strict=True)]

    def million_ios(self, family: Family) -> float:
        """Requests the volumes get in a month, in millions: standard volumes are billed by them, mirrors write twice."""
        totals = self.demand.totals
        requests = totals["reads"] + totals["writes"] * (2 if family.layout.startswith("raid10") else 1)
        return requests / totals["seconds"] * HOURS_PER_MONTH * 3_600 / 1e6

    def _judge(self, frame: pl.DataFrame, batch: Batch) -> pl.DataFrame:
        met = {goal: _met(goal) for goal in self.goals}
        performance = [met[goal] for goal in self.goals if goal.about.kind in ("load", "static")]
        ran = (pl.col("status") == "simulated") & pl.col("cost_usd_month").is_not_null()
        frame = frame.with_columns(pl.all_horizontal(ran, *performance).alias("performs"))
        if self.headroom is not None:
            frame = self._with_headroom(frame, batch)
        every = pl.all_horizontal("performs", *(met[goal] for goal in self.goals if goal.about.kind == "cost"))
        distance = pl.sum_horizontal(*(_distance(goal) for goal in self.goals)) if self.goals else pl.lit(0.0)
        return frame.with_columns(every.alias("passes"), pl.when(pl.col("status") == "simulated").then(distance).alias("distance"))

    def _with_headroom(self, frame: pl.DataFrame, batch: Batch) -> pl.DataFrame:
        """Whether the goals also hold for the demand with the head-room asked for: that much, or none."""
        rows = frame["performs"].arg_true().to_list()
        some = Batch(batch.family, *([column[row] for row in rows] for column in (batch.storages, batch.members, batch.instances)))
        holds = self.holds_at(some, 1 + self.headroom / 100)
        having = dict(zip(rows, holds, strict=True))
        room = [
            None if status != "simulated" else (self.headroom if having.get(row) else 0.0) for row, status in enumerate(frame["status"])
        ]
        frame = frame.with_columns(pl.Series("headroom_percent", room, dtype=pl.Float64))
        return frame.with_columns((pl.col("performs") & (pl.col("headroom_percent") >= self.headroom)).fill_null(False).alias("performs"))

    def holds_at(self, batch: Batch, factor: float) -> list[bool]:
        """Whether each candidate meets the goals on performance when `factor` times the demand comes."""
        if not batch.storages:
            return []
        load = {**self.load, **{rate: [value * factor for value in self.load[rate]] for rate in RATES}}
        raw = self._evaluate(batch, load, self.prune_above)
        frame = pl.DataFrame(raw, schema_overrides={name: pl.String if name in ("status", "why", "cap") else pl.Float64 for name in raw})
        frame = self._with_metrics(frame, batch)
        goals = [_met(goal) for goal in self.goals if goal.about.kind == "load"]
        return frame.select(pl.all_horizontal(pl.col("status") == "simulated", *goals).alias("holds"))["holds"].to_list()


def _met(goal: Goal) -> pl.Expr:
    slack = SLACK * max(abs(goal.limit), goal.about.scale)
    column = pl.col(goal.metric)
    return (column <= goal.limit + slack if goal.sign == "<=" else column >= goal.limit - slack).fill_null(False)


def _distance(goal: Goal) -> pl.Expr:
    """As Goal.distance, on a column."""
    miss = (pl.col(goal.metric) - goal.limit).abs() / max(abs(goal.limit), goal.about.scale)
    return pl.when(_met(goal)).then(0.0).otherwise(miss.log1p().fill_null(10.0))


def instance_usd_month(instance: dict) -> float:
    """USD a month of an instance, EBS-optimized surcharge included where one is listed."""
    price = instance["price"]
    return (price["usd"] + (price["ebs_optimized_surcharge_usd"] or 0.0)) * HOURS_PER_MONTH


def static_figures(family: Family, members: int) -> tuple[float | None, float | None]:
    """Durability (annual failure rate, percent, upper published figure, through the layout) and consistency (percent of the time)."""
    return layout_afr_percent(family.layout, members, published_afr_percent(family.era)), promised_percent(family.era)


def published_afr_percent(era: dict) -> float | None:
    """The upper published annual failure rate of one volume, percent; None where none is published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[-1]) if isinstance(value, (list, tuple)) else None


def promised_percent(era: dict) -> float | None:
    """Share of the time the type promises its performance, percent; None where nothing is promised."""
    value = (era.get("consistency") or {}).get("value")
    return float(value["of_time_percent"]) if isinstance(value, dict) else None


def layout_afr_percent(layout: str, members: int, one: float | None) -> float | None:
    """Annual chance of data loss of an array whose volumes fail independently, percent.

    RAID 0 is lost with any member: 1 - (1 - a)^n. A mirror is lost when all its copies are; how fast a lost member is replaced is
    not known, so copies failing in the same year are taken, which is an upper bound: 1 - (1 - a^2)^pairs for RAID 10 (n / 2 pairs) and
    10 f2 (n neighbours), a^n for RAID 1, two or more of n for RAID 5.
    """
    if one is None:
        return None
    a, n = one / 100, members
    chance = {
        "raid0": 1 - (1 - a) ** n,
        "raid1": a**n,
        "raid5": 1 - (1 - a) ** n - n * a * (1 - a) ** (n - 1),
        "raid10": 1 - (1 - a * a) ** (n / 2),
        "raid10f2": 1 - (1 - a * a) ** n,
    }.get(layout, a)
    return 100 * chance
