"""Savings and violations of fleet rules, side by side, on a fleet whose true demand is known.

    python benchmarks/fleet_rules.py [--volumes 1000] [--seed 7]

Each rule sees the points of one fortnight, as CloudWatch would show them, and changes what it
likes. The fortnight that follows, with the demand that was asked and not what was given, is then
simulated on what it chose. Money that a violating change saves does not count as a saving: `of it
holds` leaves it out. No rule makes a volume smaller in GiB. A violation: the volume throttles, or
its p99 is above 5 ms, and it is worse than with what it has today. Volumes that fail today may stay
as bad as they are without a violation: `of it well` and `fail` count by the goal alone, of all
volumes.

maxima      the cheapest of gp2 and gp3 of the size that carries the largest 5-minute rates: the
            inputs that Compute Optimizer publishes
average     the same for the average rates, as thrifty checks look at them
gp2 to gp3  each gp2 becomes a gp3 with what is included
headrace    headrace fleet plan; `change` and `grow`
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl
from rich.console import Console
from rich.table import Table

from headrace.base import core
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.batch import THROTTLED_S, answer_batch
from headrace.operate.fleet.cost import FleetPrices
from headrace.operate.fleet.inventory import FleetVolume
from seeded_fleet import BEGIN, SeededFleet, joined, seeded_fleet

DAYS = 14  # that a rule sees, and as many that it is judged by
DAY_S = 86_400
GOAL_MS = FleetSettings().p99_ms
AT_ONCE = 100  # volumes; bounds the memory
REGION = "us-east-1"
WIDTH = 120  # characters: the table is not folded where the output is no terminal
INCLUDED = (3_000, 125)  # IOPS and MiB/s of every gp3 (data/volumes/gp3.toml)


@dataclass(frozen=True)
class RuleScore:
    """Outcome of a rule over the fleet, USD a month. `saves_usd`: saved by the volumes that became
    cheaper; `holds_usd`: of that, where no violation followed; `well_usd`: of that, where the goal
    is met; `costs_usd`: of what became dearer; `fail`: volumes, changed or not, that miss the
    goal."""

    rule: str
    changed: int
    saves_usd: float
    holds_usd: float
    well_usd: float
    costs_usd: float
    violations: int
    fail: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volumes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    scores, bill = compare(seeded_fleet(given.volumes, given.seed, days=2 * DAYS))
    table = Table(title=f"{given.volumes:,} volumes of {bill:,.0f} USD a month, seed {given.seed}")
    for column in (
        "rule",
        "changed",
        "saves USD/month",
        "share",
        "of it holds",
        "of it well",
        "costs USD/month",
        "violations",
        "of changed",
        "fail",
    ):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for score in scores:
        share = f"{score.violations / score.changed:.1%}" if score.changed else "-"
        figures = (
            f"{score.saves_usd:,.0f}",
            f"{score.saves_usd / bill:.1%}",
            f"{score.holds_usd / bill:.1%}",
            f"{score.well_usd / bill:.1%}",
            f"{score.costs_usd:,.0f}",
            f"{score.violations:,}",
            share,
            f"{score.fail:,}",
        )
        table.add_row(score.rule, f"{score.changed:,}", *figures)
    Console(width=max(Console().width, WIDTH)).print(table)


def compare(fleet: SeededFleet) -> tuple[list[RuleScore], float]:
    """The score of each rule, and the bill of today."""
    volumes = list(fleet.inventory.volumes)
    seen = {key: rows.filter(pl.col("t_unix") < BEGIN + DAYS * DAY_S) for key, rows in fleet.points.items()}
    prices = FleetPrices()
    today = [volume.notation for volume in volumes]
    rates = [_rates(seen[volume.id]) for volume in volumes]
    rules: dict[str, list[str]] = {
        "today": today,
        "maxima": [_cheapest(prices, volume, *rate[0]) for volume, rate in zip(volumes, rates, strict=True)],
        "average": [_cheapest(prices, volume, *rate[1]) for volume, rate in zip(volumes, rates, strict=True)],
        "gp2 to gp3": [f"gp3:{volume.size_gib}" if volume.type == "gp2" else volume.notation for volume in volumes],
        "headrace": _advised(fleet, seen),
    }
    usd = prices.compute_totals(today, REGION)
    before = _truth(fleet, volumes, today)
    scores = []
    for name, rule in rules.items():
        after, bills = _truth(fleet, volumes, rule), prices.compute_totals(rule, REGION)
        changed = [at for at in range(len(volumes)) if rule[at] != today[at]]
        more = [bills[at] - usd[at] for at in changed]
        worse = [violates(before[at], after[at]) for at in changed]
        saved, spent = -sum(entry for entry in more if entry < 0), sum(entry for entry in more if entry > 0)
        holds = -sum(entry for entry, bad in zip(more, worse, strict=True) if entry < 0 and not bad)
        failing = [fails(entry) for entry in after]
        well = -sum(entry for at, entry in zip(changed, more, strict=True) if entry < 0 and not failing[at])
        scores.append(RuleScore(name, len(changed), saved, holds, well, spent, sum(worse), sum(failing)))
    return scores, sum(usd)


def _rates(rows: pl.DataFrame) -> tuple[tuple[float, float], tuple[float, float]]:
    """IOPS and MiB/s of a volume: the largest of a period, and the average."""
    iops = (rows["read_ops"] + rows["write_ops"]) / rows["period_s"]
    mib_s = (rows["read_bytes"] + rows["write_bytes"]) / rows["period_s"] / 2**20
    return (_number(iops.max()), _number(mib_s.max())), (_number(iops.mean()), _number(mib_s.mean()))


def _number(value: object) -> float:
    assert isinstance(value, float)
    return value


def _cheapest(prices: FleetPrices, volume: FleetVolume, iops: float, mib_s: float) -> str:
    """The cheapest of what carries these rates without credits; today's where nothing does."""
    bought = max(INCLUDED[0], math.ceil(iops), 4 * math.ceil(mib_s) if mib_s > INCLUDED[1] else 0)
    texts = [volume.notation, f"gp3:{volume.size_gib}:{bought}:{max(INCLUDED[1], math.ceil(mib_s))}"]
    baseline = core.storage_limits(f"gp2:{volume.size_gib}")[0]
    if iops <= baseline["iops"] and mib_s * 2**20 <= baseline["throughput_bytes_s"]:
        texts.append(f"gp2:{volume.size_gib}")
    totals = prices.compute_totals(texts, REGION)  # NaN: not sold so
    return min(zip(totals, texts, strict=True), key=lambda entry: (math.isnan(entry[0]), entry[0]))[1]


def _advised(fleet: SeededFleet, seen: dict[str, pl.DataFrame]) -> list[str]:
    settings, proposals = FleetSettings(), {}
    for some in _parts(fleet.devices):
        for answer in answer_batch(some, {device.key: seen[device.key] for device in some}, settings):
            proposals[answer.key] = answer.proposed or answer.today
    return [proposals[volume.id] for volume in fleet.inventory.volumes]


def _truth(fleet: SeededFleet, volumes: list[FleetVolume], storages: list[str]) -> list[tuple[float, float]]:
    """Throttled seconds and p99 of the second fortnight's true demand on these storages."""
    result: list[tuple[float, float]] = []
    for some in _parts(list(zip(volumes, storages, strict=True))):
        count = len(some)
        demands = [fleet.demand[volume.id] for volume, _ in some]
        verdict = joined([column[len(column) // 2 :] for column in columns] for columns in demands).evaluate(
            list(range(count)),
            [storage for _, storage in some],
            [None] * count,
            [1.0] * count,
            as_of=None,
            prune_above=math.inf,
            cycle="settled",
        )
        result += [
            (throttled if throttled is not None else math.inf, p99 if p99 is not None else 0.0)
            for throttled, p99 in zip(verdict["throttled_s"], verdict["worst_p99_ms"], strict=True)
        ]
    return result


def violates(before: tuple[float, float], after: tuple[float, float]) -> bool:
    throttles = after[0] > THROTTLED_S and after[0] > before[0]
    return throttles or after[1] > max(GOAL_MS, before[1])


def fails(given: tuple[float, float]) -> bool:
    """Returns whether throttled seconds and a p99 in ms miss the goal, by themselves and not
    compared with before."""
    return given[0] > THROTTLED_S or given[1] > GOAL_MS


def _parts(items: list) -> Iterable[list]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))


if __name__ == "__main__":
    main()
