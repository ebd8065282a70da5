"""Error of a mean of tps that no parameter covers, because the model is not exact, by the distance
of the prediction from the runs that it stands on.

The distance of a cache is the effect of its size in the model, since the error of the model is a
share of that effect.

The figures (unexplained.csv, each with its source) are relative standard deviations, as far as they
can be from the errors of predictions of published runs that were left out. With
`--spreads`, benchmarks/unseen_runs.py writes those with which these errors are most likely.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache

from headrace.base import core
from headrace.base.packaged import read_rows
from headrace.base.units import Z80

# Largest factor (e^100) from a mean to an end of its interval, so that it stays a finite number.
MOST_LOG_FACTOR = 100.0
# Volume types by the kind whose behaviour they share.
KINDS = {"gp2": "ssd", "gp3": "ssd", "io1": "ssd", "io2": "ssd", "standard": "disk", "st1": "disk", "sc1": "disk"}


@dataclass(frozen=True)
class Distances:
    """Distances of a prediction from the nearest run, each 0 or more.

    In e-folds: `cache` (of the I/Os a transaction that another size changes), `life` of the cache,
    `clients`, and where processors or clients bind, `load` (rate and response time, the smaller of
    the two distances; on local disks whatever binds), `speed` of a core and `vcpus`. 1 where they
    are others than in the runs: `server`, `limit` (what binds), `storage`; and `unknown_speed`
    where only one of the two speeds is known.
    """

    cache: float = 0.0
    life: float = 0.0
    clients: float = 0.0
    load: float = 0.0
    server: float = 0.0
    limit: float = 0.0
    storage: float = 0.0
    speed: float = 0.0
    unknown_speed: float = 0.0
    vcpus: float = 0.0

    @property
    def spread(self) -> float:
        """Returns the relative standard deviation of a mean at this distance."""
        per = read_spreads()
        return math.hypot(per["none"], *(per[each.name] * getattr(self, each.name) for each in fields(self)))


@cache
def read_spreads() -> dict[str, float]:
    """Returns the relative standard deviation of a mean at no distance (`none`), and per unit of
    each distance."""
    return {row["distance"]: float(row["spread"]) for row in read_rows("headrace.workload", "unexplained.csv")}


def compute_interval(mean: float, spread: float) -> tuple[float, float]:
    """Returns the ends of the 80 % interval of a rate with a relative standard deviation; errors
    are factors, so that both ends are above 0."""
    log_factor = min(Z80 * spread, MOST_LOG_FACTOR)
    return mean * math.exp(-log_factor), mean * math.exp(log_factor)


def compute_log_distance(value: float, other: float) -> float:
    """Returns the e-folds between two positive values."""
    return abs(math.log(value / other))


def compute_log_excess(span: Sequence[float], value: float) -> float:
    """Returns the e-folds between a value and the nearest end of a span; 0 inside it."""
    return max(0.0, math.log(span[0] / value), math.log(value / span[1]))


def compute_distance_from(measured: Collection[float], value: float) -> float:
    """Returns the distance in e-folds of a value from measured ones: from the nearest if it lies
    outside them; between two, the product of both distances over their sum, as of resistances in
    parallel."""
    below = min((math.log(value / each) for each in measured if each <= value), default=math.inf)
    above = min((math.log(each / value) for each in measured if each >= value), default=math.inf)
    if math.isinf(below) or math.isinf(above):
        return min(below, above)
    return below * above / (below + above) if below + above else 0.0


@cache
def classify_storage(storage: str) -> str:
    """Returns the kind of a storage's volumes: `ssd`, `disk`, or the type of a local disk."""
    name = core.parse_storage(storage)["members"][0]["volume_type"]
    return KINDS.get(name, name)


def is_volume(storage: str) -> bool:
    """Returns whether a storage is made of EBS volumes, whose caps are sharp, and not of local
    disks, on which I/Os queue before they are at their limit."""
    return classify_storage(storage) in KINDS.values()


def is_of_server(cap: str) -> bool:
    """Returns whether a cap is clients, processors or locks, whose rate no storage changes."""
    return classify_limit(cap) in ("clients", "cpu")


def classify_limit(cap: str) -> str:
    """Returns the kind of a cap: `storage`, `clients`, `cpu` (locks too), or `demand` for none."""
    return {"contention": "cpu"}.get(cap, cap if cap in ("clients", "cpu", "demand") else "storage")


def get_release_series(release: str) -> str:
    """Returns a release without its patch number: mysql-8.0 for mysql-8.0.22."""
    return ".".join(release.split(".")[:2])


@cache
def find_core_speed(instance: str | None, as_of: str | None) -> float | None:
    """Returns the speed of a core of an instance type (GHz x work per clock); None without an
    instance, or if the catalog does not know it."""
    if instance is None:
        return None
    try:
        return core.instance(instance, as_of)["core_speed"]
    except core.CoreError:
        return None
