"""How probable it is to lose the data: published failure rates through the layout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace.base import core
from headrace.planner.candidates import Family


def static_figures(family: Family, members: int) -> tuple[float | None, float | None]:
    """Durability (annual failure rate, percent, upper published figure, through the layout) and
    consistency (percent of the time)."""
    value = (family.era.get("consistency") or {}).get("value")
    promised = float(value["of_time_percent"]) if isinstance(value, dict) else None
    return layout_afr_percent(family.layout, members, published_afr_percent(family.era)), promised


def published_afr_percent(era: core.Era) -> float | None:
    """The upper published annual failure rate of one volume, percent; None where none is
    published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[-1]) if isinstance(value, (list, tuple)) else None


def lowest_afr_percent(era: core.Era) -> float | None:
    """The lower published annual failure rate of one volume, percent; None where none is
    published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[0]) if isinstance(value, (list, tuple)) else None


def layout_afr_percent(layout: str, members: int, one: float | None) -> float | None:
    """Annual chance of data loss of an array whose volumes fail independently, percent.

    RAID 0 is lost with any member: 1 - (1 - a)^n. A mirror is lost when all its copies are; how
    fast a lost member is replaced is not known, so copies failing in the same year are taken, which
    is an upper bound: 1 - (1 - a^2)^pairs for RAID 10 (n / 2 pairs) and 10 f2 (n neighbours), a^n
    for RAID 1, two or more of n for RAID 5.
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


def combined_afr_percent(parts: Sequence[float | None]) -> float | None:
    """Annual chance to lose any of several storages, percent: data and log apart are lost with
    either."""
    known = [part for part in parts if part is not None]
    return 100 * (1 - math.prod(1 - part / 100 for part in known)) if known else None
