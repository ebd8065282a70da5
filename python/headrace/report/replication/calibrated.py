"""A replica's applier as a calibration found it, as a table."""

from __future__ import annotations

from headrace.report.tables import Table, table
from headrace.report.words import number, percent

COLUMNS = ("parameter of the applier", "value", "known to", "from")
RIGHT = ("value", "known to")


def applier_table(workload) -> Table:
    """What was identified; what is not listed is derived from the source's run."""
    found = workload.replica
    rows = []
    for name, value in found.values.items():
        spread = found.spread.get(name)
        known = "" if spread is None else f"+-{percent(spread)}"
        rows.append((name, number(value), known, found.origin.get(name, "")))
    if found.written is not None:
        rows.append(("written", ", ".join(number(share) for share in found.written), "", "pages read by the replica"))
    return table(COLUMNS, rows, right=RIGHT)
