"""Credit balances of the volumes and of the instance now, and how a demand changes them.

EBS keeps the credits of a volume and those of an instance apart (BurstBalance; EBSIOBalance% and
EBSByteBalance%), and a recording of a volume tells the first only. A simulation begins with both at
one percentage. If they differ, the volumes are simulated without the instance and the instance with
volumes that do not hold it back, each from its own balance, and what ends first counts: exact up to
the first end, unless the instance's highest rate is below that of the volumes, where it errs
towards an earlier end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from headrace.base.storage import Storage
from headrace.errors import InputError
from headrace.observe.evidence.limits import get_holding_limits
from headrace.simulation.demand import simulate
from headrace.workload import OpenWorkload

# Balances of a row of a simulation, percent: of the volumes, and of the instance's two buckets.
VOLUME = "balance_percent"
INSTANCE = ("instance_io_balance_percent", "instance_byte_balance_percent")
# The GiB from which a volume of a type gives its highest rate for ever (EBS guide, volume types:
# gp2 has 3 IOPS/GiB and bursts to 3,000; st1 has 40 MiB/s per TiB and bursts to 500, reached at
# 12.5 TiB, here the largest that was sold on all days). sc1 never does: st1 counts I/Os as it does.
WITHOUT_CREDITS = {"gp2": ("gp2", 1_000), "st1": ("st1", 16_384), "sc1": ("st1", 16_384)}


@dataclass(frozen=True)
class Balances:
    """Credits in percent: of the `volume`s, and of the `instance` (the lower of its buckets for
    I/Os and for bytes); None where it has none. `source` is that of the volumes' (the instance's is
    simulated): recorded, given, or simulated. `age_s`: how long before the end of the recording the
    last balance was recorded; from there on it is simulated. `backlog`: I/Os that were asked before
    the end and wait then, where that is simulated."""

    volume: float | None
    instance: float | None
    source: str
    age_s: float = 0.0
    backlog: float = 0.0


@dataclass(frozen=True)
class CreditCourse:
    """The course of the credits under a demand. `empty_at_s`: when the first balance is empty,
    infinite where none is; `empty_s`: for how long in all. By row, which begins at `t_s`: the
    balance of the volumes (of the instance where they have none) at its end, `own`, percent; the
    `lowest` of all; and the seconds in which requests waited, `throttled_s`."""

    empty_at_s: float
    empty_s: float
    t_s: np.ndarray
    own: np.ndarray
    lowest: np.ndarray
    throttled_s: np.ndarray


def estimate_balances(
    workload: OpenWorkload, storage: str, given: float | None, instance: str | None, as_of: str | None
) -> Balances:
    """Returns the balances at the end of a recording of `storage`.

    The volumes' is `given`, else the last one recorded, followed on by simulation to the end, else
    simulated from full; the instance's is simulated from full. Raises InputError for a balance that
    is given of volumes without credits.
    """
    limits = get_holding_limits(storage, instance, as_of)
    own, bursts = limits.credits is not None, limits.instance_burst_s > 0
    if given is not None and not own:
        rule = f"{storage} has no credits of its own; those of the instance are simulated over the recording"
        raise InputError(f"balance {given:g} %", rule, "headrace catalog", "Leave the balance out.")
    recorded = _find_last_balance(workload) if own and given is None else None
    if given is None and recorded is None:
        run = simulate(workload.uncensor(1.0), storage, form="interval", instance=instance, as_of=as_of)
        volume = _find_end_level(run.rows, VOLUME) if own else None
        return Balances(
            volume, _find_end_level(run.rows, *INSTANCE), "simulated", backlog=float(run.summary["queue_at_end"] or 0.0)
        )
    burst = None
    if bursts:
        # The recorded demand has already passed the volumes' limits, so they do not hold it back
        # again.
        host = simulate(workload, without_credits(storage), form="interval", instance=instance, as_of=as_of)
        burst = _find_end_level(host.rows, *INSTANCE)
    if given is not None or recorded is None:
        return Balances(given, burst, "given")
    percent, index = recorded
    rest = workload.uncensor(1.0).points[index + 1 :]
    age_s, backlog = float(rest["duration_s"].sum()), 0.0
    if rest.height:
        since = replace(workload, points=rest.with_columns(pl.col("t_s") - rest["t_s"][0]))
        run = simulate(
            since,
            storage,
            form="interval",
            start_balance=percent,
            instance=None if bursts else instance,
            as_of=as_of,
        )
        percent, backlog = _find_end_level(run.rows, VOLUME), float(run.summary["queue_at_end"] or 0.0)
    return Balances(percent, burst, "recorded", age_s, backlog)


def follow(
    load: OpenWorkload,
    storage: str,
    balances: Balances,
    *,
    instance: str | None,
    as_of: str | None,
    interval_s: float | None = None,
) -> CreditCourse:
    """Simulates `load` on `storage` from these balances, and returns the course of the credits."""

    def run(place: str, start: float | None, host: str | None):
        return simulate(
            load, place, form="interval", start_balance=start, instance=host, as_of=as_of, interval_s=interval_s
        )

    if balances.volume is None or balances.instance is None or balances.volume == balances.instance:
        volumes = host = run(storage, balances.instance if balances.volume is None else balances.volume, instance)
        empty_s = volumes.summary["credits_empty_s"] + host.summary["instance_empty_s"]
    else:
        volumes, host = run(storage, balances.volume, None), run(without_credits(storage), balances.instance, instance)
        # They are gone at the same busy hours, so that the sum would count these twice.
        empty_s = max(volumes.summary["credits_empty_s"], host.summary["instance_empty_s"])
    gone = (volumes.summary["credits_empty_at_s"], host.summary["instance_empty_at_s"])
    own, burst = _extract_levels(volumes.rows, VOLUME), _extract_levels(host.rows, *INSTANCE)
    waited = [simulation.rows["throttled_s"].to_numpy() for simulation in (volumes, host)]
    return CreditCourse(
        min((at for at in gone if at is not None), default=math.inf),
        empty_s,
        volumes.rows["t_s"].to_numpy(),
        burst if balances.volume is None else own,
        np.fmin(own, burst),
        np.maximum(*waited),
    )


def without_credits(storage: str) -> str:
    """Returns the notation of an array of the same layout whose volumes give without credits what
    those of `storage` give with credits, or more."""
    parsed = Storage.parse(storage)
    members = []
    for member in parsed.members:
        kind, least_gib = WITHOUT_CREDITS.get(member.type, (member.type, 0))
        members.append(replace(member, type=kind, size_gib=max(member.size_gib, least_gib)))
    return Storage.of(members, parsed.level).text


def extract_own_balances(rows: pl.DataFrame) -> np.ndarray:
    """Returns the balance of the volumes at the end of each row of a simulation, percent; that of
    the instance where they have none; NaN without either."""
    own = _extract_levels(rows, VOLUME)
    return _extract_levels(rows, *INSTANCE) if np.isnan(own).all() else own


def _find_last_balance(workload: OpenWorkload) -> tuple[float, int] | None:
    """Returns the last balance that was recorded, percent, and the index of its point; None without
    any."""
    if VOLUME not in workload.points.columns:
        return None
    percent = workload.points[VOLUME].cast(pl.Float64).fill_null(math.nan).to_numpy()
    recorded = np.flatnonzero(np.isfinite(percent))
    return (float(percent[recorded[-1]]), int(recorded[-1])) if len(recorded) else None


def _extract_levels(rows: pl.DataFrame, *names: str) -> np.ndarray:
    return rows.select(pl.min_horizontal(names)).to_series().to_numpy().astype(float)


def _find_end_level(rows: pl.DataFrame, *names: str) -> float | None:
    percent = float(_extract_levels(rows, *names)[-1])
    return None if math.isnan(percent) else percent
