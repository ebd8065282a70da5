"""Flat rates and the limits that they equal: of the storage that is named, or, where none is, of
any instance in the catalog."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import MIB
from headrace.observe.evidence.limits import HoldingLimits

# A level this near to a limit of the storage named is that limit (the specification: within 5 % of
# the baseline).
SAME_SHARE = 0.05
# A level this near to the baseline of an instance that nobody named. There are about 60 different
# baselines in data/instances_limits.csv, so a wider share would meet one by chance.
SAME_AS_UNNAMED = 0.005
# A rate that stays within this share is flat: 1 %, and one clock tick (10 ms) at each end of a
# point (workload/censored.py has the same).
FLAT_SHARE, TICKS_S = 0.01, 0.01
# Seconds over which the rate of shorter points is taken together: the scatter of each is that of
# the tool's clock as well.
LONG_POINT_S = 10.0
LEAST_POINTS = 4  # of a stretch, for its scatter to be known; a guess
# Requests that come by chance scatter by the root of their number, closed clients by a little less.
# A rate that scatters by less than this share of the root is held by a limit (a guess, tried on
# tests/unit/shared/recorded_queues).
HELD_OF_ROOT = 0.3
# gp2 bursts to 3,000 IOPS and no further (data/volumes/gp2.toml).
GP2_BURST_IOPS = 3_000.0
# Families that databases most often run on, so that their names stand first. Ours.
USUAL_FAMILIES = ("m5", "r5", "c5", "m6i", "r6i", "m6g", "r6g", "t3", "m7g", "r7g", "c6i", "m4", "r4", "c4")
MOST_NAMES = 3  # of instances, in one sentence


@dataclass(frozen=True)
class Level:
    """The mean rates of a stretch: I/Os as EBS counts them and bytes a second, with their standard
    deviation as a share of the mean. `points`: the number of its intervals; `point_s`, `ios`:
    length and I/Os of one."""

    iops: float
    bytes_s: float
    iops_scatter: float
    bytes_scatter: float
    points: int
    point_s: float
    ios: float

    @property
    def tolerance(self) -> float:
        """A share within which the rate of a point is flat."""
        return FLAT_SHARE + TICKS_S / self.point_s

    def is_flat(self, in_bytes: bool) -> bool:
        """Returns whether the rate in bytes (`in_bytes`) or in I/Os is the same from point to
        point; True for fewer points than LEAST_POINTS."""
        scatter = self.bytes_scatter if in_bytes else self.iops_scatter
        return self.points < LEAST_POINTS or scatter <= self.tolerance

    @property
    def is_held(self) -> bool:
        """True when the rate is flatter than requests that come by chance: a limit holds it."""
        if self.points < LEAST_POINTS:
            return False
        scatter = min(self.iops_scatter, self.bytes_scatter)
        return scatter * math.sqrt(max(self.ios, 1.0)) <= HELD_OF_ROOT or scatter <= TICKS_S / self.point_s


@dataclass(frozen=True)
class LimitLevel:
    """The limit of a level. `name`: as in base.caps; `rate`: what it allows, in `unit`."""

    name: str
    rate: float
    unit: str


def compute_level(rows: pl.DataFrame) -> Level:
    """Returns the means and the scatter of the rates in rows of a volume's evidence."""
    ios = rows["charged_iops"].fill_null(0.0)
    bytes_s = rows.select(compute_bytes_per_s(rows).alias("bytes_s"))["bytes_s"]
    point_s = float(rows["duration_s"].median() or 1.0)  # type: ignore[arg-type]
    iops, in_bytes = float(ios.mean() or 0.0), float(bytes_s.mean() or 0.0)  # type: ignore[arg-type]
    return Level(
        iops,
        in_bytes,
        float(ios.std() or 0.0) / iops if iops and rows.height > 1 else 0.0,  # type: ignore[arg-type]
        float(bytes_s.std() or 0.0) / in_bytes if in_bytes and rows.height > 1 else 0.0,  # type: ignore[arg-type]
        rows.height,
        point_s,
        iops * point_s,
    )


def average_blocks(rows: pl.DataFrame, least_s: float) -> pl.DataFrame:
    """Returns means of consecutive rows, each over at least `least_s` seconds; rows at the end that
    do not fill a block are left out."""
    each = float(rows["duration_s"].median() or least_s) if rows.height else least_s  # type: ignore[arg-type]
    size = math.ceil(least_s / max(each, 1e-3))
    if size < 2:
        return rows
    names = [name for name in ("charged_iops", "read_mib_s", "write_mib_s") if name in rows.columns]
    whole = rows[: rows.height // size * size].with_row_index("number")
    return (
        whole.group_by(pl.col("number") // size, maintain_order=True)
        .agg(pl.col("t_unix").first(), pl.col("duration_s").sum(), *[pl.col(name).mean() for name in names])
        .drop("number")
    )


def compute_bytes_per_s(rows: pl.DataFrame) -> pl.Expr:
    """Returns the expression for the bytes a second of each row."""
    sizes = [pl.col(name).fill_null(0.0) for name in ("read_mib_s", "write_mib_s") if name in rows.columns]
    # Without any, a zero of each row: a literal alone is one row.
    return pl.sum_horizontal(sizes or [pl.col("duration_s") * 0.0]) * MIB


def find_limit(level: Level, limits: HoldingLimits) -> LimitLevel | None:
    """Returns the limit of this storage and instance nearest to the level; None where none fits."""
    near: list[tuple[float, LimitLevel]] = []
    for name, allowed, in_bytes in limits.list_levels():
        rate = level.bytes_s if in_bytes else level.iops
        away = abs(rate / allowed - 1.0)
        if away <= SAME_SHARE and level.is_flat(in_bytes):
            near.append((away, LimitLevel(name, rate, "bytes/s" if in_bytes else "I/Os/s")))
    return min(near, key=lambda pair: pair[0])[1] if near else None


def find_instances(level: Level, as_of: str | None) -> tuple[LimitLevel, tuple[str, ...]] | None:
    """Returns the limit that the level is and the instances with such a baseline, those that burst
    first, the usual families before others; None where the catalog has no such instance."""
    for in_bytes in (False, True):
        rate = level.bytes_s if in_bytes else level.iops
        if rate <= 0 or not level.is_flat(in_bytes):
            continue
        names = [
            (not bursts, _rank_family(name), name)
            for name, iops, bytes_s, bursts in _list_baselines(as_of)
            if (allowed := bytes_s if in_bytes else iops) and abs(rate / allowed - 1.0) <= SAME_AS_UNNAMED
        ]
        if names:
            bursts = not min(names)[0]
            kind = "credits" if bursts else "throughput" if in_bytes else "iops"
            limit = LimitLevel(f"instance-{kind}", rate, "bytes/s" if in_bytes else "I/Os/s")
            return limit, tuple(name for _, _, name in sorted(names))
    return None


@lru_cache(maxsize=8)
def _list_baselines(as_of: str | None) -> tuple[tuple[str, float | None, float | None, bool], ...]:
    """Returns (type, baseline IOPS, baseline bytes a second, bursts or not) of every instance."""
    with translate_core_errors():
        instances = core.instances(as_of)
    return tuple(
        (
            row["instance_type"],
            row["baseline_iops"],
            row["baseline_bytes_s"],
            (row["baseline_iops"], row["baseline_bytes_s"]) != (row["max_iops"], row["max_bytes_s"]),
        )
        for row in instances
    )


def _rank_family(name: str) -> int:
    family = name.partition(".")[0]
    return USUAL_FAMILIES.index(family) if family in USUAL_FAMILIES else len(USUAL_FAMILIES)


def describe_names(names: tuple[str, ...]) -> str:
    """Returns `m5.large, r5.large, m6i.large and 74 others`."""
    more = len(names) - MOST_NAMES
    first = ", ".join(names[:MOST_NAMES])
    return first if more <= 0 else f"{first} and {more} other{'s' if more > 1 else ''}"


def describe_rate(rate: float, unit: str) -> str:
    """Returns `3,600 IOPS` or `77.5 MiB/s`."""
    if unit == "bytes/s":
        mib_s = rate / MIB
        return f"{mib_s:,.0f} MiB/s" if mib_s >= 1_000 else f"{mib_s:,.4g} MiB/s"
    return f"{rate:,.0f} IOPS" if rate >= 10 else f"{rate:,.2g} IOPS"
