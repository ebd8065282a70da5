"""The answer of a plan for transactions as plain values. Nothing here computes; `to_dict` gives what JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.planner.goals import Goal
from headrace.planner.result import plain


@dataclass(frozen=True)
class TransactionChoice:
    """An instance, its data volumes and where redo and binlog lie, with all that speaks for and against it.

    `storage`, `log_storage`: notation; `log_storage` None: redo and binlog lie with the data. `instance`: None: volumes alone. `cache_gib`: buffer pool or block cache.
    `items`: the monthly bill, each with `part` ("instance", "data", "log"), `item`, `quantity`, `unit`, `unit_price_usd`, `usd`, `source`, `as_of`. `metrics`: every metric a
    goal can name. `tps_low`, `tps_high`: 80 % interval of the sustained tps. `probability`: that every goal on performance holds, 0..1; `goal_probabilities`: of each goal
    alone. `meets_goals`: the probability is at least the confidence asked for, and the cost within the budget; `misses`: otherwise, in words. `binds`: the limit that decides in
    the worst hour: `cap` and `words`. `per_transaction`: `reads`, `ios` (256 KiB units), `mib`. `runs_dry_at_s`: when the first credit balance is gone, s from the start; None:
    never. `regret_expected_usd`, `regret_worst_usd`: see `headrace.planner.transactions.doubt.Regret`. `durability`: what the data can expect; `persistent`: False when the data
    is gone with the instance.
    """

    storage: str
    log_storage: str | None
    instance: str | None
    family: str
    volume_type: str
    layout: str
    members: int
    vcpus: int | None
    memory_gib: float | None
    cache_gib: float
    usable_gib: float
    items: tuple[dict, ...]
    cost_usd_month: float
    metrics: dict
    tps_low: float
    tps_high: float
    probability: float
    goal_probabilities: dict
    meets_goals: bool
    misses: tuple[str, ...]
    binds: dict
    per_transaction: dict
    runs_dry_at_s: float | None
    regret_expected_usd: float | None
    regret_worst_usd: float | None
    durability_afr_percent: float | None
    durability: str
    persistent: bool
    caveats: tuple[str, ...]

    def usd(self, part: str) -> float:
        """USD a month of the "instance", the "data" or the "log"."""
        return sum(item["usd"] for item in self.items if item["part"] == part)

    @property
    def place(self) -> str:
        """Instance, data and log in words."""
        words = self.storage if self.log_storage is None else f"{self.storage}, log on {self.log_storage}"
        return f"{self.instance} with {words}" if self.instance else words

    def to_dict(self) -> dict:
        """JSON-able."""
        return plain(self)


@dataclass(frozen=True)
class TransactionVerdict:
    """What became of one family of data volumes.

    `outcome`: "wins", "costs more", "fails", "impossible" or "excluded". `why`: in words, with numbers. `best`: its cheapest choice that meets the goals, or what comes closest;
    None where there is none. `cost_ratio`: over the winner's cost.
    """

    family: str
    outcome: str
    why: str
    best: TransactionChoice | None = None
    cost_ratio: float | None = None

    def to_dict(self) -> dict:
        """JSON-able."""
        return plain(self)


@dataclass(frozen=True)
class TransactionPlan:
    """The answer of `headrace.plan` for a database.

    `winners`: the cheapest choices that meet every goal with the confidence asked for, one per family and instance, cheapest first; empty when nothing does. `least_regret`: the
    choice whose expected regret over the states of the world is least (it may be a winner); None without one. `lasting`: the cheapest whose data survives a stop of the instance; None without one. `closest`: filled when nothing meets the goals, nearest first.
    `families`: why each won or lost. `compared`, `saving_usd_month`: today's, and what the winner saves against it. `considered`: candidates looked at = `simulated` + `bounded`
    (cannot reach the goal even with full credits) + `invalid` (not possible that day). `frontier`: dicts of `cost_usd_month`, `tps`, `tps_low`, `tps_high`, `probability`,
    `instance`, `storage`, `log_storage`, `family`, `meets_goals`: cost against tps. `undecided`: share of the states of the world in which nothing looked at meets the goals.
    """

    workload: str
    engine: str
    winners: list[TransactionChoice]
    least_regret: TransactionChoice | None
    lasting: TransactionChoice | None
    closest: list[TransactionChoice]
    families: list[TransactionVerdict]
    compared: TransactionChoice | None
    saving_usd_month: float | None
    goals: tuple[Goal, ...]
    confidence: float
    draws: int
    undecided: float | None
    threads: int | None
    arrivals_tps: float | None
    start: str
    hours: float
    cache_share: float
    growth: float
    size_gib: float
    log_gib: int
    region: str
    as_of: str
    instances: int
    considered: int
    simulated: int
    bounded: int
    invalid: int
    frontier: list[dict]
    skipped_instances: list[tuple[str, str]]
    caveats: list[str]
    explain: list[str]

    @property
    def winner(self) -> TransactionChoice | None:
        """The cheapest that meets every goal, or None."""
        return self.winners[0] if self.winners else None

    def to_dict(self) -> dict:
        """JSON-able: what `--output json` prints."""
        return plain(self)


@dataclass(frozen=True)
class EngineComparison:
    """The same goals for two databases. `plans`: in the order given. `winner`: index of the cheaper one; None where neither meets the goals. `words`: the answer in a sentence."""

    plans: tuple[TransactionPlan, TransactionPlan]
    winner: int | None
    words: str

    def to_dict(self) -> dict:
        """JSON-able."""
        return plain(self)
