"""The answer of a plan as plain values. Nothing here computes; `to_dict` gives what JSON can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass

from headrace.planner.goals import Goal


def plain(value: object) -> object:
    """A value as JSON can hold it: dataclasses become dicts, goals their text, NaN and infinities null."""
    if isinstance(value, Goal):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@dataclass(frozen=True)
class Choice:
    """One storage, on an instance or alone, with all that speaks for and against it.

    `storage`: notation. `family`: type and layout, such as `gp3 RAID 0`. `members`: number of volumes. `usable_gib`: GiB the
    layout leaves for data. `items`: the monthly bill, each with `item`, `quantity`, `unit`, `unit_price_usd`, `usd`, `source`,
    `as_of`. `metrics`: every metric a goal can name, in the unit of its name; None where not known. `misses`: goals that are
    not met, in words. `binds`: `cap` (the limit requests waited longest for, or came nearest to), `throttled_s`, `utilisation`
    (peak demand over that limit, 1 is full), `at_s`, `words`. `headroom_percent`: growth of demand, data aside, before a goal
    fails; None when one fails already. `runs_dry`: when credits or the instance's burst bucket are gone (`empty_at_s`,
    `empty_s`, `falls_to`, `words`), or None. `durability_afr_percent`: chance of losing the data in a year, percent, the upper
    published figure carried through the layout; `durability`, `consistency`: the same in words. `persistent`: False when the
    data is gone with the instance.
    """

    storage: str
    family: str
    volume_type: str
    layout: str
    members: int
    instance: str | None
    usable_gib: float
    items: tuple[dict, ...]
    cost_usd_month: float
    metrics: dict
    meets_goals: bool
    misses: tuple[str, ...]
    binds: dict
    headroom_percent: float | None
    runs_dry: dict | None
    durability_afr_percent: float | None
    durability: str
    consistency: str
    persistent: bool
    caveats: tuple[str, ...]

    def to_dict(self) -> dict:
        """JSON-able."""
        return plain(self)


@dataclass(frozen=True)
class FamilyVerdict:
    """What became of one family.

    `outcome`: "wins", "costs more", "fails", "impossible" or "excluded". `why`: in words, with numbers. `storage`, `instance`,
    `cost_usd_month`: its best candidate, or the one that comes closest; None where there is none. `cost_ratio`: over the
    winner's cost. `overload`: demand over what it can sustain, where that bound alone decided. `metrics` as in Choice.
    """

    family: str
    outcome: str
    why: str
    storage: str | None = None
    instance: str | None = None
    cost_usd_month: float | None = None
    cost_ratio: float | None = None
    overload: float | None = None
    metrics: dict | None = None

    def to_dict(self) -> dict:
        """JSON-able."""
        return plain(self)


@dataclass(frozen=True)
class Plan:
    """The answer of `plan`.

    `winners`: the cheapest choice of each family (and instance) that meets every goal, cheapest first; empty when nothing does.
    `families`: why each won or lost. `closest`: filled when nothing meets the goals, nearest first. `compared` and
    `saving_usd_month`: today's volume, and what the winner saves against it (negative: it costs more; None without a winner).
    `considered` = `simulated` + `bounded` (cannot deliver the demand, known without simulating) + `invalid` (not possible on
    that day). `frontier`: dicts of `storage`, `instance`, `family`, `cost_usd_month`, `delivered_iops` (mean over the run),
    `delivered_percent`, `p99_ms`, `throttled_min`, `meets_goals`: the points of each family that no cheaper one matches.
    `skipped_instances`: instances left out, with the reason. `workload`: its figures, growth included. `explain`: the
    arithmetic, line by line.
    """

    winners: list[Choice]
    families: list[FamilyVerdict]
    closest: list[Choice]
    compared: Choice | None
    saving_usd_month: float | None
    goals: tuple[Goal, ...]
    workload: dict
    size_gib: float
    region: str
    as_of: str
    growth: float
    considered: int
    simulated: int
    bounded: int
    invalid: int
    frontier: list[dict]
    skipped_instances: list[tuple[str, str]]
    caveats: list[str]
    explain: list[str]

    @property
    def winner(self) -> Choice | None:
        """The cheapest that meets every goal, or None."""
        return self.winners[0] if self.winners else None

    def to_dict(self) -> dict:
        """JSON-able: what `--output json` prints."""
        return plain(self)
