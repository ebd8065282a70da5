"""Cost of applying a transaction of a workload: calibrated values, and defaults that the core
derives from the source's own run, each with how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.base import core
from headrace.base.core import core_errors
from headrace.workload.replica.parameters import ReplicaParameters, parameter_spreads

if TYPE_CHECKING:
    from headrace.workload.transactions import TransactionWorkload


def applier_of(workload: TransactionWorkload, deltas: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Returns the core's table of an applier: what was identified, and defaults of the source for
    the rest.

    `deltas` multiply parameters by exp(delta), within what the core takes. Raises InputError.
    """
    given = workload.replica or ReplicaParameters()
    with core_errors():
        applier = dict(core.replica_applier(workload.database)["applier"])
    applier |= given.to_core()
    for name, delta in (deltas or {}).items():
        bounds = parameter_spreads()[name]
        if delta and applier[name] is not None:
            applier[name] = max(bounds["least"], min(bounds["most"], applier[name] * math.exp(delta)))
    return applier


def replica_spread(workload: TransactionWorkload) -> dict[str, float]:
    """Returns how far each parameter may be off, relative: as identified, else the core's."""
    given = workload.replica or ReplicaParameters()
    unknown = {name: float(row["relative_sd"]) for name, row in parameter_spreads().items()}
    return unknown | {name: float(given.spread.get(name, 0.0)) for name in given.values}


def measured_replica(
    workload: TransactionWorkload,
    values: Mapping[str, float],
    *,
    spread: Mapping[str, float] | None = None,
    origin: str = "a replica's run",
    written: tuple[float, ...] | None = None,
) -> TransactionWorkload:
    """Returns the workload with a replica's identified values added. Raises InputError."""
    before = workload.replica or ReplicaParameters()
    replica = ReplicaParameters(
        dict(before.values) | dict(values),
        before.written if written is None else written,
        dict(before.spread) | dict(spread or {}),
        dict(before.origin) | dict.fromkeys(values, origin),
    )
    return replace(workload, replica=replica)
