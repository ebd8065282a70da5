"""Cost of applying a transaction on a replica: the `[replica]` table of a workload file, and the
core's table of an applier, with defaults that are derived from the source's run.

A calibration of a replica writes what it identified with `add_measured_replica(workload, values,
spread, origin)`. The names are those of `core.replica_applier(database)["spreads"]`, and `written`,
one share for each page class. A parameter that is left out is derived from the source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.base import core
from headrace.base.checks import check_choice, check_number, quote_value
from headrace.base.core import translate_core_errors
from headrace.errors import Refusals

if TYPE_CHECKING:
    from headrace.workload.transactions import TransactionWorkload

refuse = Refusals("docs/reference/workload-file.md")


@dataclass(frozen=True)
class ReplicaParameters:
    """Values that were identified on a replica, by name; the rest is derived from the source.

    `values`: the parameters. `written`: per class of pages, the share of touches that writing
    statements make; None where it is not known. `spread`: relative standard deviation of a value,
    by name; a value without one is as certain as it is given. `origin`: what it was identified
    from.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    written: tuple[float, ...] | None = None
    spread: Mapping[str, float] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks names and ranges. Raises InputError for an unknown parameter, or a value out of
        range."""
        spreads = get_parameter_spreads()
        for name, value in self.values.items():
            check_choice("replica parameter", name, tuple(spreads))
            check_number(f"replica.{name}", value, spreads[name]["least"], spreads[name]["most"])
        for name, value in self.spread.items():
            check_choice("replica.spread", name, tuple(self.values))
            check_number(f"replica.spread.{name}", value, 0.0, 10.0)
        for name in self.origin:
            check_choice("replica.from", name, tuple(self.values))

    def to_core(self) -> dict[str, object]:
        """Returns the identified values by the names of the core's table of an applier."""
        table: dict[str, object] = {**self.values}
        return table if self.written is None else {**table, "written": list(self.written)}

    def to_document(self) -> dict[str, object]:
        """Returns the table [replica] of a workload file."""
        table: dict[str, object] = {name: float(value) for name, value in self.values.items()}
        table |= {"written": list(self.written)} if self.written is not None else {}
        table |= {"spread": dict(self.spread)} if self.spread else {}
        return table | ({"from": dict(self.origin)} if self.origin else {})

    @staticmethod
    def from_document(table: object) -> ReplicaParameters | None:
        """Reads the table [replica] of a workload file, None without one. Raises InputError."""
        if table is None:
            return None
        if not isinstance(table, dict):
            raise refuse.input(f"replica = {quote_value(table)}", "must be a table")
        values = dict(table)
        written, spread, origin = (values.pop(name, None) for name in ("written", "spread", "from"))
        for name, value, kind in (("written", written, list), ("spread", spread, dict), ("from", origin, dict)):
            if value is not None and not isinstance(value, kind):
                rule = "must be a list of shares" if kind is list else "must be a table by parameter"
                raise refuse.input(f"replica.{name} = {quote_value(value)}", rule)
        for share in written or []:
            check_number("replica.written", share, 0.0, 1.0)
        return ReplicaParameters(
            {name: check_number(f"replica.{name}", value, 0.0, 1e9) for name, value in values.items()},
            None if written is None else tuple(float(share) for share in written),
            spread or {},
            {name: str(text) for name, text in (origin or {}).items()},
        )


@cache
def get_parameter_spreads() -> dict[str, core.ApplierSpread]:
    """Returns for each parameter of an applier, by name, its description (`words`), its relative
    standard deviation without a run (`relative_sd`), and its `least` and `most` values."""
    database = core.mysql_tpcc("innodb", 1.0)
    return {row["parameter"]: row for row in core.replica_applier(database)["spreads"]}


def make_applier(workload: TransactionWorkload, deltas: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Returns the core's table of an applier: the identified values, and defaults derived from the
    source for the rest. Each of the `deltas` multiplies a parameter by its exponential, within the
    range that the core takes. Raises InputError."""
    given = workload.replica or ReplicaParameters()
    with translate_core_errors():
        applier = dict(core.replica_applier(workload.database)["applier"])
    applier |= given.to_core()
    for name, delta in (deltas or {}).items():
        bounds = get_parameter_spreads()[name]
        if delta and applier[name] is not None:
            applier[name] = max(bounds["least"], min(bounds["most"], applier[name] * math.exp(delta)))
    return applier


def get_replica_spread(workload: TransactionWorkload) -> dict[str, float]:
    """Returns the relative standard deviation of each parameter: as identified (0 if identified
    without one), else the core's."""
    given = workload.replica or ReplicaParameters()
    unknown = {name: float(row["relative_sd"]) for name, row in get_parameter_spreads().items()}
    return unknown | {name: float(given.spread.get(name, 0.0)) for name in given.values}


def add_measured_replica(
    workload: TransactionWorkload,
    values: Mapping[str, float],
    *,
    spread: Mapping[str, float] | None = None,
    origin: str = "a replica's run",
    written: tuple[float, ...] | None = None,
) -> TransactionWorkload:
    """Returns the workload with identified values of a replica added to its earlier ones, their
    `spread` and the `origin` they were identified from. Raises InputError."""
    before = workload.replica or ReplicaParameters()
    replica = ReplicaParameters(
        dict(before.values) | dict(values),
        before.written if written is None else written,
        dict(before.spread) | dict(spread or {}),
        dict(before.origin) | dict.fromkeys(values, origin),
    )
    return replace(workload, replica=replica)
