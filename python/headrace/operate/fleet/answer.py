"""Answer for each volume of a fleet, and the settings that it follows from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec
import polars as pl

from headrace.base import core
from headrace.base.checks import check_number, check_whole
from headrace.base.storage import Storage
from headrace.catalog.facts import check_day, check_region
from headrace.operate.fleet.cost import PriceTable
from headrace.planner.market.durability import (
    LEAST_PERCENT,
    compute_layout_afr_percent,
    find_lowest_afr_percent,
    find_published_afr_percent,
)

# In the order in which they are ranked.
VERDICTS = ("unused", "change", "grow", "keep", "withheld")
Verdict = Literal["unused", "grow", "change", "keep", "withheld"]


LIST_PRICES = "list prices"


class FleetSettings(msgspec.Struct, frozen=True):
    """`p99_ms`: no storage is advised whose I/O p99 of the worst five minutes is above this and
    above today's (where that waits for limits: above today's without waiting). `headroom_percent`:
    growth of the demand that is carried without throttling, for what means of minutes hide.
    `region`: prices, where a volume does not say its own. `exclude`: types that are never advised.
    `fortnights`: how many are drawn for the risk. `tables`: what each account pays in each region
    (`FleetPrices.list_tables`); list prices for those without one. `prices`: their source in words.
    Checked by `validate`."""

    p99_ms: float = 5.0
    headroom_percent: float = 30.0
    region: str = "us-east-1"
    as_of: str | None = None
    exclude: tuple[str, ...] = ("standard",)
    least_days: float = 7.0
    fortnights: int = 10
    seed: int = 1
    tables: tuple[PriceTable, ...] = ()
    prices: str = LIST_PRICES

    def validate(self) -> FleetSettings:
        """Returns the settings with region and day as written elsewhere. Raises InputError."""
        check_number("p99_ms", self.p99_ms, 0.01, 60_000, "ms")
        check_number("headroom_percent", self.headroom_percent, 0, 400, "%")
        check_number("least_days", self.least_days, 0.04, 366, "days")
        check_whole("fortnights", self.fortnights, 0, 1_000)
        return msgspec.structs.replace(self, region=check_region(self.region), as_of=check_day(self.as_of))


class VolumeAnswer(msgspec.Struct, frozen=True):
    """The answer for one device: a volume, or an array of volumes.

    `name`: the volumes' Name tags, "" without. `verdict`: "unused" does nothing and may be deleted,
    "change" saves money, "grow" costs more because today's storage fails the goal, "keep" is right
    as it is, "withheld" gives no advice; `why` says it in words. `today`, `proposed`: storage
    notation ("" where none is advised). `durability`: "99.999 % -> 99.8 to 99.9 %" a year where the
    data are less sure on `proposed`, else "". `bound_by`: the instance whose limit binds,
    "i-0123456789abcdef0 (m5.large)", else "". `usd_today`, `usd_proposed`: a month at `prices`.
    `grain_s`, `days`: of the points. `censored_share`: of those at a limit of the volume, where
    more was asked than was given.

    The self-check: `balance_error`, median absolute error of BurstBalance in points;
    `throttled_f1`, agreement on the periods with ExceededCheck; `queue_ratio`, simulated over
    recorded queue. None where there was nothing to compare.

    `today_*`, `proposed_*`: simulated under the recorded demand: minutes throttled and p99 of the
    worst five minutes in ms. `risk`: share of drawn fortnights in which `proposed` throttles or
    misses the p99; None where none were drawn."""

    key: str
    volumes: tuple[str, ...]
    account: str
    region: str
    instance: str
    verdict: Verdict
    why: str
    today: str
    proposed: str = ""
    usd_today: float | None = None
    usd_proposed: float | None = None
    grain_s: float | None = None
    days: float | None = None
    censored_share: float | None = None
    balance_error: float | None = None
    throttled_f1: float | None = None
    queue_ratio: float | None = None
    today_throttled_min: float | None = None
    today_p99_ms: float | None = None
    proposed_throttled_min: float | None = None
    proposed_p99_ms: float | None = None
    risk: float | None = None
    prices: str = LIST_PRICES
    name: str = ""
    durability: str = ""
    bound_by: str = ""

    @property
    def saves_usd(self) -> float:
        """Savings, USD a month: the whole bill of an unused volume; 0 where no change is
        advised."""
        if self.verdict == "unused":
            return self.usd_today or 0.0
        if not self.proposed or self.usd_today is None or self.usd_proposed is None:
            return 0.0
        return self.usd_today - self.usd_proposed

    @property
    def worth_usd(self) -> float:
        """Savings, USD a month, weighed by the chance that the goal holds: the fleet is ranked by
        it."""
        return self.saves_usd * (1.0 - (self.risk or 0.0))


NUMBERS = (
    "usd_today", "usd_proposed", "grain_s", "days", "censored_share", "balance_error", "throttled_f1", "queue_ratio",
    "today_throttled_min", "today_p99_ms", "proposed_throttled_min", "proposed_p99_ms", "risk",
)  # fmt: skip
TEXTS = (
    "key", "account", "region", "instance", "verdict", "why", "today", "proposed", "prices", "name", "durability", "bound_by",
)  # fmt: skip
SCHEMA = pl.Schema(
    dict.fromkeys(TEXTS, pl.String()) | {"volumes": pl.List(pl.String)} | dict.fromkeys(NUMBERS, pl.Float64())
)


def build_answers_frame(answers: Sequence[VolumeAnswer]) -> pl.DataFrame:
    """Returns a row per device, in the order given."""
    columns = {name: [getattr(answer, name) for answer in answers] for name in SCHEMA}
    columns["volumes"] = [list(answer.volumes) for answer in answers]
    return pl.DataFrame(columns, schema=SCHEMA)


def make_answers(frame: pl.DataFrame) -> list[VolumeAnswer]:
    """Returns the answers of such a frame."""
    return [msgspec.convert(row, VolumeAnswer) for row in frame.iter_rows(named=True)]


def rank_answers(answers: Sequence[VolumeAnswer]) -> list[VolumeAnswer]:
    """Sorts by verdict, what saves most first; changes that lower the durability come behind those
    that do not. Ties by key."""
    places = {verdict: place for place, verdict in enumerate(VERDICTS)}
    return sorted(
        answers, key=lambda answer: (places[answer.verdict], bool(answer.durability), -answer.worth_usd, answer.key)
    )


# --- durability -----------------------------------------------------------------------------------
# Computes by how much a change raises or lowers the chance that data survive: AWS's published
# figures, applied to the layout.


@lru_cache(maxsize=1_024)  # types and layouts of a fleet; a guess
def describe_durability_loss(today: str, storage: str, as_of: str | None = None) -> str:
    """Returns `99.999 % -> 99.8 to 99.9 %` a year where the data are less sure on `storage`; ""
    where they are as sure, or nothing is published."""
    before, after = _compute_afr(today, as_of), _compute_afr(storage, as_of)
    if before is None or after is None or after[1] <= before[1]:
        return ""
    return f"{_describe_survival(before)} -> {_describe_survival(after)}"


def _compute_afr(text: str, as_of: str | None) -> tuple[float, float] | None:
    """Returns the lowest and the highest annual failure rate, percent, of an array or a volume."""
    storage = Storage.parse(text)
    rates_of_layout = []
    for figure in (find_lowest_afr_percent, find_published_afr_percent):
        rates = [figure(_find_era(member.type, as_of)) for member in storage.members]
        if None in rates:
            return None
        worst = max(rate for rate in rates if rate is not None)
        afr = compute_layout_afr_percent(storage.layout, len(storage.members), worst)
        if afr is None:
            return None
        rates_of_layout.append(afr)
    return rates_of_layout[0], rates_of_layout[1]


@lru_cache(maxsize=64)
def _find_era(volume_type: str, as_of: str | None) -> core.Era:
    """Returns the newest figures of a type."""
    return next(era for era in core.volume_eras(as_of) if era["volume_type"] == volume_type)


def _describe_survival(afr: tuple[float, float]) -> str:
    """Returns in words which share of volumes keep their data a year, from failure rates."""
    least, most = (_format_durability(rate) for rate in (afr[1], afr[0]))
    return f"{least} %" if least == most else f"{least} to {most} %"


def _format_durability(rate: float) -> str:
    """Returns 100 less a failure rate, percent, with the decimals of the rate's first digit."""
    if rate < LEAST_PERCENT:
        return f"above {100.0 - LEAST_PERCENT:.6f}"
    places = -math.floor(math.log10(rate))
    return f"{100.0 - rate:.{max(0, places)}f}"
