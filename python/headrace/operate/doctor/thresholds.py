"""The thresholds of all verdicts: one table, each row with its source and the test that holds
it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from headrace.base.packaged import read_rows

TABLE = "thresholds.csv"


@dataclass(frozen=True)
class ThresholdRow:
    """One row of the table."""

    name: str
    value: float
    unit: str
    meaning: str
    source: str
    as_of: str
    test: str


@cache
def read_thresholds() -> tuple[ThresholdRow, ...]:
    """Returns all rows, in the order of the file."""
    return tuple(
        ThresholdRow(**{**row, "value": float(row["value"])})  # type: ignore[arg-type]
        for row in read_rows("headrace.operate.doctor", TABLE)
    )


class Thresholds:
    """The values by name: `thresholds.seen_share`. `changed`: other values, for tests."""

    def __init__(self, **changed: float) -> None:
        """Raises KeyError for a name that is not in the table."""
        values = {row.name: row.value for row in read_thresholds()}
        unknown = set(changed) - set(values)
        if unknown:
            raise KeyError(f"no such threshold: {', '.join(sorted(unknown))}")
        self._values = values | changed

    def __getattr__(self, name: str) -> float:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None
