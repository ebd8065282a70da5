"""Candidates in, figures out: the one place of a plan for transactions that asks the core to run and to price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace import _core
from headrace.core import GIB
from headrace.errors import core_errors
from headrace.planner.goals import SLACK, Goal
from headrace.planner.transactions.hosts import Host

FIGURES = (
    "tps",
    "tps_mean",
    "tps_p5",
    "p95_ms",
    "backlog_s",
    "reads_per_tx",
    "ios_per_tx",
    "mib_per_tx",
    "cached_share",
    "balance_percent",
    "dry_at_s",
)

# A data storage, a log storage or None, and the index of a host.
Pick = tuple[str, str | None, int]


@dataclass(frozen=True)
class Conditions:
    """What all candidates have in common: clients or arrivals, the start, the length, region, day, credits at the start (percent)."""

    threads: int | None
    arrivals_tps: float | None
    start: str
    hours: float
    region: str
    as_of: str
    start_balance: float | None


@dataclass
class Counts:
    """How many different candidates were looked at, by what came of them."""

    ran: set = field(default_factory=set)
    bounded: set = field(default_factory=set)
    invalid: set = field(default_factory=set)


class Evaluator:
    """Runs candidates under one database; keeps followed caches."""

    def __init__(self, database: dict, hosts: Sequence[Host], conditions: Conditions, goals: Sequence[Goal], least_tps: float) -> None:
        self.database, self.hosts, self.conditions, self.goals, self.least_tps = database, hosts, conditions, goals, least_tps
        self.progress: Callable[[float], None] | None = None
        self.counts = Counts()
        self.prices: dict[str, float] = {}
        with core_errors():
            self.core = _core.TransactionCandidates(database)

    def run(self, picks: Sequence[Pick], *, bounds: bool = True) -> dict[str, np.ndarray]:
        """Columns in the order of `picks`: `status` ("ran", "bounded": cannot reach the least tps, its figures are the bound, "invalid"), `why`, `cap` and FIGURES
        (NaN where there are none). `bounds` False follows every candidate to its end."""
        columns = self.run_in([self.core], [1.0], picks, self.least_tps if bounds else 0.0)[0]
        for pick, status in zip(picks, columns["status"], strict=True):
            getattr(self.counts, status).add(pick)
        return columns

    def run_in(
        self, cores: Sequence, arrivals_by: Sequence[float], picks: Sequence[Pick], least_tps: float = 0.0
    ) -> list[dict[str, np.ndarray]]:
        """The same under several databases, each with a factor on its arrivals."""
        texts = {text: None for data, log, _ in picks for text in (data, log) if text is not None}
        place = {text: index for index, text in enumerate(texts)}
        used = {index: None for *_, index in picks}
        named = [index for index in used if self.hosts[index].instance is not None]
        host_place = {index: position for position, index in enumerate(named)}
        caches = list(dict.fromkeys(self.hosts[index].cache_gib for index in used))
        cache_place = {cache: index for index, cache in enumerate(caches)}
        about = self.conditions
        search = {
            "storages": list(texts), "instances": [self.hosts[index].name for index in named], "caches": [cache * GIB for cache in caches],
            "as_of": about.as_of, "clients": about.threads, "arrivals_tps": about.arrivals_tps, "start": about.start,
            "seconds": about.hours * 3600.0, "start_balance_percent": about.start_balance, "least_tps": least_tps,
        }  # fmt: skip
        with core_errors():
            answers = _core.transaction_candidates(
                list(cores), search, [place[data] for data, _, _ in picks], [None if log is None else place[log] for _, log, _ in picks],
                [host_place.get(index) for *_, index in picks], [cache_place[self.hosts[index].cache_gib] for *_, index in picks],
                arrivals_by=list(arrivals_by), progress=self.progress,
            )  # fmt: skip
        return [
            {name: np.array(raw[name], dtype=float) for name in FIGURES}
            | {name: np.array(raw[name], dtype=object) for name in ("status", "why", "cap")}
            for raw in answers
        ]

    def meets(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Which rows meet every goal on performance."""
        fine = columns["status"] == "ran"
        for goal in self.goals:
            if goal.about.kind == "load":
                slack = SLACK * max(abs(goal.limit), goal.about.scale)
                value = columns[goal.metric]
                fine &= (value <= goal.limit + slack) if goal.sign == "<=" else (value >= goal.limit - slack)
        return fine

    @property
    def most_usd(self) -> float:
        """The budget, infinite where no goal names one."""
        return min((goal.limit for goal in self.goals if goal.metric == "usd_month"), default=float("inf"))

    def costs(self, picks: Sequence[Pick]) -> np.ndarray:
        """USD a month of each candidate, NaN where a price is not known."""
        unknown = list(
            dict.fromkeys(text for data, log, _ in picks for text in (data, log) if text is not None and text not in self.prices)
        )
        if unknown:
            with core_errors():
                totals = _core.monthly_totals(unknown, self.conditions.region, self.conditions.as_of, 0.0)
            self.prices.update(zip(unknown, totals, strict=True))
        prices = self.prices
        return np.array(
            [prices[data] + (0.0 if log is None else prices[log]) + self.hosts[index].usd_month for data, log, index in picks], dtype=float
        )
