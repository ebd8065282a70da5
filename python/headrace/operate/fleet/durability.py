"""Computes by how much a change raises or lowers the chance that data survive: AWS's published
figures, applied to the layout."""

from __future__ import annotations

import math
from functools import lru_cache

from headrace.base import core
from headrace.base.storage import Storage
from headrace.planner.market.durability import (
    LEAST_TOLD,
    layout_afr_percent,
    lowest_afr_percent,
    published_afr_percent,
)


@lru_cache(maxsize=1_024)  # types and layouts of a fleet; a guess
def durability_lost(today: str, storage: str, as_of: str | None = None) -> str:
    """Returns `99.999 % -> 99.8 to 99.9 %` a year where the data are less sure on `storage`; ""
    where they are as sure, or nothing is published."""
    before, after = _afr(today, as_of), _afr(storage, as_of)
    if before is None or after is None or after[1] <= before[1]:
        return ""
    return f"{_survive(before)} -> {_survive(after)}"


def _afr(text: str, as_of: str | None) -> tuple[float, float] | None:
    """Returns the lowest and the highest annual failure rate, percent, of an array or a volume."""
    storage = Storage.parse(text)
    rates_of_layout = []
    for figure in (lowest_afr_percent, published_afr_percent):
        rates = [figure(_era(member.type, as_of)) for member in storage.members]
        if None in rates:
            return None
        worst = max(rate for rate in rates if rate is not None)
        afr = layout_afr_percent(storage.layout, len(storage.members), worst)
        if afr is None:
            return None
        rates_of_layout.append(afr)
    return rates_of_layout[0], rates_of_layout[1]


@lru_cache(maxsize=64)
def _era(volume_type: str, as_of: str | None) -> core.Era:
    """Returns the newest figures of a type."""
    return next(era for era in core.volume_eras(as_of) if era["volume_type"] == volume_type)


def _survive(afr: tuple[float, float]) -> str:
    """Returns the share of volumes whose data survive a year, lowest to highest."""
    least, most = (_share(rate) for rate in (afr[1], afr[0]))
    return f"{least} %" if least == most else f"{least} to {most} %"


def _share(rate: float) -> str:
    """Returns 100 % less a failure rate, which is printed with one figure."""
    if rate < LEAST_TOLD:
        return f"above {100.0 - LEAST_TOLD:.6f}"
    places = -math.floor(math.log10(rate))
    return f"{100.0 - rate:.{max(0, places)}f}"
