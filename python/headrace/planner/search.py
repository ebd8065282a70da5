"""Finding the cheapest candidates: coarse grid, bisection along lines, then instances.

What makes the answer not depend on the grid: along a line (candidates.py) performance and cost both rise, so the lowest value that meets
the goals is the cheapest, and bisection finds it to the step. Bounds save work, the simulator decides: a line whose
next value costs more than the family's best known passing candidate is dropped; a storage that fails alone is not tried on instances,
because an instance only adds limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.planner.candidates import Demand, Family, Line, coarse, lines_of, local_disks
from headrace.planner.evaluate import Batch, Evaluator, instance_usd_month

# Storages of a family tried on every instance: the cheapest ones, at most this many, fewer when the product gets large.
STORAGES_PER_INSTANCE = 40
PAIRS = 60_000
INSTANCES_OF_FAILING = 10
# Bounded candidates simulated all the same, so that what comes closest and the chart know how far they get.
BOUNDED_SHOWN = 60
RANK = ("cost_usd_month", "members", "storage", "instance")


@dataclass
class Found:
    """All rows of one family (columns as in Evaluator.run), with the lines they lie on."""

    family: Family
    rows: pl.DataFrame

    def passing(self) -> pl.DataFrame:
        """Rows that meet every goal, cheapest first; ties: fewer volumes, then by name."""
        return self.rows.filter("passes").sort(RANK, nulls_last=True)

    def nearest(self) -> pl.DataFrame:
        """Simulated rows with a price, nearest to the goals first; ties: cheapest."""
        known = self.rows.filter(pl.col("distance").is_not_null() & pl.col("cost_usd_month").is_not_null())
        return known.sort(pl.col("distance").round(6), *RANK, nulls_last=True)


def search_family(evaluator: Evaluator, family: Family, demand: Demand, size_gib: int) -> Found:
    """Coarse grid and lines of one family, volumes alone."""
    grid = coarse(family, demand, size_gib)
    frames = [evaluator.run(_batch(family, [storage for storage, _ in grid], [members for _, members in grid]))] if grid else []
    frames += refine(
        evaluator, lines_of(family, demand, size_gib), frames[0]["cost_usd_month"].filter(frames[0]["passes"]).min() if frames else None
    )
    rows = pl.concat(frames) if frames else evaluator.run(_batch(family, [], []))
    rows = pl.concat([rows, *_show_bounded(evaluator, family, rows)])
    return Found(family, rows.unique(["storage", "instance"], keep="last", maintain_order=True))


def refine(evaluator: Evaluator, lines: Sequence[Line], known_usd: float | None) -> list[pl.DataFrame]:
    """Bisects all lines at once for the lowest value that performs. Returns the rows looked at.

    `known_usd`: cost of a passing candidate of the same family; lines that cannot beat it are dropped.
    """
    frames: list[pl.DataFrame] = []
    best = float("inf") if known_usd is None else known_usd

    def performs(indices: dict[Line, int]) -> dict[Line, bool]:
        nonlocal best
        if not indices:
            return {}
        family = next(iter(indices)).family
        frame = evaluator.run(_batch(family, [line.storage(index) for line, index in indices.items()], [line.members for line in indices]))
        frames.append(frame)
        cheapest = frame["cost_usd_month"].filter(frame["passes"]).min()
        best = min(best, float("inf") if cheapest is None else cheapest)
        return dict(zip(indices, frame["performs"].to_list(), strict=True))

    lines = _affordable(evaluator, {line: 0 for line in lines}, best)
    at_low = performs(lines)
    # `low` is known to fail, `high` to perform.
    open_lines = {line: line.last for line, fine in at_low.items() if not fine and line.last > 0}
    at_high = performs(open_lines)
    bounds = {line: (0, line.last) for line, fine in at_high.items() if fine and line.last > 1}
    while bounds:
        middles = _affordable(evaluator, {line: (low + high) // 2 for line, (low, high) in bounds.items()}, None)
        cheap_enough = _affordable(evaluator, {line: low + 1 for line, (low, _) in bounds.items()}, best)
        fine = performs({line: middle for line, middle in middles.items() if line in cheap_enough})
        halved = {line: (bounds[line][0], middles[line]) if good else (middles[line], bounds[line][1]) for line, good in fine.items()}
        bounds = {line: (low, high) for line, (low, high) in halved.items() if high - low > 1}
    return frames


def _affordable(evaluator: Evaluator, indices: dict[Line, int], best_usd: float | None) -> dict[Line, int]:
    """The lines whose storage at its index costs no more than `best_usd` (None: all)."""
    if best_usd is None or not indices:
        return indices
    family = next(iter(indices)).family
    costs = evaluator.costs(_batch(family, [line.storage(index) for line, index in indices.items()], [line.members for line in indices]))
    return {line: index for (line, index), usd in zip(indices.items(), costs, strict=True) if not usd > best_usd}


def _show_bounded(evaluator: Evaluator, family: Family, rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Simulates some of the bounded rows, evenly over their overload: they are needed to say how near they come."""
    bounded = rows.filter(pl.col("status") == "bounded").unique(["storage", "instance"], maintain_order=True)
    if bounded.is_empty():
        return []
    some = bounded.sort("overload", *RANK, nulls_last=True).gather_every(max(1, bounded.height // BOUNDED_SHOWN))
    return [evaluator.run(Batch(family, *(some[name].to_list() for name in ("storage", "members", "instance"))), prune=False)]


def on_instances(evaluator: Evaluator, found: Found, families: int) -> Found:
    """The family's passing storages (or, when none passes, the nearest) on every instance."""
    alone = found.passing()
    hosts = range(len(evaluator.instances))
    if alone.is_empty():
        # What fails alone fails on every instance: a few, over the range of prices, say how near it comes.
        alone, hosts = found.nearest(), hosts[:: max(1, len(hosts) // INSTANCES_OF_FAILING)]
    count = max(1, min(STORAGES_PER_INSTANCE, PAIRS // max(1, families * len(evaluator.instances))))
    some = alone.head(count)
    if some.is_empty():
        return Found(found.family, found.rows.clear())
    storages, members = some["storage"].to_list(), some["members"].to_list()
    pairs = [(storage, n, index) for index in hosts for storage, n in zip(storages, members, strict=True)]
    batch = Batch(found.family, *(list(column) for column in zip(*pairs, strict=True)))
    rows = evaluator.run(batch)
    rows = rows if rows["passes"].any() else pl.concat([rows, *_show_bounded(evaluator, found.family, rows)])
    return Found(found.family, rows.unique(["storage", "instance"], keep="last", maintain_order=True))


def search_local(evaluator: Evaluator, families: Sequence[Family], size_gib: int) -> list[Found]:
    """Instances' own disks: each instance with all of its disks, where the data fits."""
    found = []
    for family in families:
        pairs = []
        for index, instance in enumerate(evaluator.instances):
            for layout, storage, members in local_disks(instance):
                gib = int(storage.rsplit(":", 1)[1]) * members // family.data_share
                if layout == family.layout and gib >= size_gib:
                    pairs.append((storage, members, index))
        if pairs:
            pairs.sort(key=lambda pair: instance_usd_month(evaluator.instances[pair[2]]))
            batch = Batch(family, *(list(column) for column in zip(*pairs, strict=True)))
            found.append(Found(family, evaluator.run(batch, prune=False)))
    return found


def _batch(family: Family, storages: list[str], members: list[int]) -> Batch:
    return Batch(family, storages, members, [None] * len(storages))
