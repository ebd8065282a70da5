"""Caches the daemon's answers about volumes and snapshots, so that it is asked for changes alone.

The cache decides nothing, and answers nothing from memory alone: each look begins with a call that
names the cached version, and the daemon answers what changed since. So the result is never older
than the request. A daemon that was started again does not have the earlier versions, and sends
everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from headrace.api.errors import AwsError
from headrace.api.protocol.shapes import Members
from headrace.lab.calls import Snapshot, VolumeFacts
from headrace.lab.client import Lab

# Rows that are kept of a kind: as many as a lab may have, 16,384 volumes (with 64 MiB of tags in
# all) and 20,000 snapshots. Beyond it each request asks for all.
MOST_ROWS = 20_000
# Attempts to read a list whole: an attempt fails if more changed meanwhile than the daemon tells at
# once. A guess.
TRIES = 5

Row = TypeVar("Row", VolumeFacts, Snapshot)


class Facts(dict[str, Any]):
    """The daemon's facts about a volume or a snapshot. `members`: the same in EC2's form, once a
    handler has converted them."""

    __slots__ = ("members",)


@dataclass(frozen=True, slots=True)
class CachedTable(Generic[Row]):
    """All volumes or all snapshots at one version. It never changes: threads share it."""

    version: str
    rows: Mapping[str, Row]
    # Their ids in order.
    order: Sequence[str]

    def list_after(self, key: str) -> Sequence[str]:
        """Returns the ids that sort behind `key`, in order."""
        return self.order[bisect_right(self.order, key) :]

    def apply_changes(self, version: str, changed: Sequence[Row], gone: Sequence[str]) -> CachedTable[Row]:
        """Returns the table at a later version: with the rows that were added or changed since this
        one, and without the ids that are gone."""
        if not changed and not gone:
            return self if version == self.version else CachedTable(version, self.rows, self.order)
        rows = dict(self.rows)
        former_size = len(rows)
        rows |= _index_rows(changed)
        has_same_ids = len(rows) == former_size
        for name in gone:
            has_same_ids = rows.pop(name, None) is None and has_same_ids
        return CachedTable(version, rows, self.order if has_same_ids else sorted(rows))


def _index_rows(rows: Sequence[Row]) -> dict[str, Row]:
    """Returns rows as they are cached, by their ids."""
    return {row["id"]: cast("Row", Facts(row)) for row in rows}


def _is_at_least_as_new(version: str, other: str) -> bool:
    """Returns whether a version (RUN-NUMBER) is as new as another or newer; True for one of another
    run of the daemon, as those cannot be compared."""
    run, _, number = version.partition("-")
    other_run, _, other_number = other.partition("-")
    return run != other_run or int(number) >= int(other_number)


class TableCache(Generic[Row]):
    """Keeps the newest table of volumes or of snapshots."""

    def __init__(self, kind: str) -> None:
        self._call, self._key = f"{kind}.changes", f"{kind}s"
        self._table: CachedTable[Row] | None = None

    @property
    def is_filled(self) -> bool:
        """True when a table is cached, so that the daemon is asked for changes alone."""
        return self._table is not None

    def find_rows(self, lab: Lab, names: Sequence[str]) -> list[Row] | None:
        """Returns the current rows of these ids from the cache; None where it is empty or lacks one
        of them: the caller asks the daemon, which names the one that does not exist."""
        if not self.is_filled:
            return None
        rows = self.fetch_table(lab).rows
        return [rows[name] for name in names] if all(name in rows for name in names) else None

    def fetch_table(self, lab: Lab) -> CachedTable[Row]:
        """Returns all rows as they are now, after it has asked the daemon for the changes. Raises
        HeadraceError as `lab` does, and AwsError where they change too fast."""
        table = self._table
        for _ in range(TRIES):
            answer = lab.call(self._call, since=table.version if table else None)
            if table is not None and not answer["whole"]:
                table = table.apply_changes(answer["version"], answer[self._key], answer["gone"])
                self._keep(table)
                return table
            table, pages = self._read_pages(lab, answer)
            if pages == 1:
                self._keep(table)
                return table
        raise AwsError("ServiceUnavailable", "The lab changes faster than it can be listed.", 503)

    def _read_pages(self, lab: Lab, answer: Members) -> tuple[CachedTable[Row], int]:
        """Returns the table of all pages, with the version of the first (`answer`), and the number
        of pages. Changes while they were read have to be asked for afterwards."""
        version, pages = answer["version"], 1
        rows: dict[str, Row] = _index_rows(answer[self._key])
        while answer["next"] is not None:
            answer = lab.call(self._call, after=answer["next"])
            rows |= _index_rows(answer[self._key])
            pages += 1
        return CachedTable(version, rows, sorted(rows)), pages

    def _keep(self, table: CachedTable[Row]) -> None:
        """Caches a table unless a newer one is cached; one with more than MOST_ROWS empties the
        cache."""
        current = self._table
        if len(table.rows) > MOST_ROWS:
            self._table = None
        elif current is None or _is_at_least_as_new(table.version, current.version):
            self._table = table


class LabCache:
    """The cached tables of a lab."""

    def __init__(self) -> None:
        self.volumes: TableCache[VolumeFacts] = TableCache("volume")
        self.snapshots: TableCache[Snapshot] = TableCache("snapshot")
