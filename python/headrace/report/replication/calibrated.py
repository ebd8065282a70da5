"""A replica's applier as a calibration found it, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.report.view import Table, columns
from headrace.report.words import number, percent
from headrace.workload.replica.parameters import ReplicaParameters

if TYPE_CHECKING:
    from headrace.workload import TransactionWorkload

COLUMNS = columns(("parameter of the applier", "value", "known to", "from"), number=("value", "known to"))


def applier_table(workload: TransactionWorkload) -> Table:
    """Returns the parameters that were identified; all others are derived from the source's run."""
    replica = workload.replica or ReplicaParameters()
    rows = []
    for name, value in replica.values.items():
        spread = replica.spread.get(name)
        spread_text = "" if spread is None else f"+-{percent(spread)}"
        rows.append((name, number(value), spread_text, replica.origin.get(name, "")))
    if replica.written is not None:
        rows.append(("written", ", ".join(number(share) for share in replica.written), "", "pages read by the replica"))
    return Table(COLUMNS, rows)
