"""What the daemon told of its volumes and snapshots, kept so that it is asked for changes alone.

Nothing is decided here, and nothing is answered from memory alone: each look begins with a call
that names the version that is kept, and the daemon answers what changed since, or that nothing did.
So what is found is never older than the request. A daemon that was started again knows no version
of before, and tells all anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.errors import AwsError
from headrace.lab.client import Lab

# Rows that are kept of a kind: as many as a lab may have, 16,384 volumes (with 64 MiB of tags in
# all) and 20,000 snapshots. Beyond it each request asks for all.
MOST_ROWS = 20_000
# How often a list is read whole before it is given up: each time more changed meanwhile than the
# daemon tells at once. A guess.
TRIES = 5


class Facts(dict[str, Any]):
    """What the daemon told of one thing. `shown` is what a handler makes of it, once."""

    __slots__ = ("shown",)


@dataclass(frozen=True, slots=True)
class KeptTable:
    """All things of a kind at one version. Never changed: threads share it."""

    version: str
    rows: Mapping[str, Facts]
    # Their ids in order.
    order: Sequence[str]

    def after(self, key: str) -> Sequence[str]:
        """The ids behind this one, in order."""
        return self.order[bisect_right(self.order, key) :]

    def changed(self, version: str, now: Sequence[Mapping[str, Any]], gone: Sequence[str]) -> KeptTable:
        """The table with what changed since."""
        if not now and not gone:
            return self if version == self.version else KeptTable(version, self.rows, self.order)
        rows = dict(self.rows)
        known = len(rows)
        for one in now:
            rows[one["id"]] = Facts(one)
        same = len(rows) == known
        for name in gone:
            same = rows.pop(name, None) is None and same
        return KeptTable(version, rows, self.order if same else sorted(rows))


def _newer(version: str, than: str) -> bool:
    """Versions are RUN-NUMBER; those of different runs of the daemon cannot be compared."""
    run, _, number = version.partition("-")
    other_run, _, other = than.partition("-")
    return run != other_run or int(number) >= int(other)


class Keeper:
    """Keeps the newest table of one kind: `volume`, `snapshot`."""

    def __init__(self, kind: str) -> None:
        self._call, self._key = f"{kind}.changes", f"{kind}s"
        self._table: KeptTable | None = None

    @property
    def is_filled(self) -> bool:
        """Whether a look costs only what changed."""
        return self._table is not None

    def named(self, lab: Lab, names: Sequence[str]) -> list[Facts] | None:
        """These, where they are kept and all there; None: the daemon is to be asked, and says in
        EC2's words which is not there.
        """
        if not self.is_filled:
            return None
        rows = self.now(lab).rows
        return [rows[name] for name in names] if all(name in rows for name in names) else None

    def now(self, lab: Lab) -> KeptTable:
        """All of them as they are now. Raises what `lab` raises, AwsError."""
        table = self._table
        for _ in range(TRIES):
            answer = lab.call(self._call, since=table.version if table else None)
            if table is not None and not answer["whole"]:
                table = table.changed(answer["version"], answer[self._key], answer["gone"])
                self._keep(table)
                return table
            table, pages = self._whole(lab, answer)
            if pages == 1:
                self._keep(table)
                return table
        raise AwsError("ServiceUnavailable", "The lab changes faster than it can be listed.", 503)

    def _whole(self, lab: Lab, answer: Mapping[str, Any]) -> tuple[KeptTable, int]:
        """All pages, as of the version of the first: what changed while the others were read is
        told after that.
        """
        version, pages = answer["version"], 1
        rows = {one["id"]: Facts(one) for one in answer[self._key]}
        while answer["next"] is not None:
            answer = lab.call(self._call, after=answer["next"])
            rows |= {one["id"]: Facts(one) for one in answer[self._key]}
            pages += 1
        return KeptTable(version, rows, sorted(rows)), pages

    def _keep(self, table: KeptTable) -> None:
        kept = self._table
        if len(table.rows) > MOST_ROWS:
            self._table = None
        elif kept is None or _newer(table.version, kept.version):
            self._table = table


class Known:
    """What is kept of a lab."""

    def __init__(self) -> None:
        self.volumes = Keeper("volume")
        self.snapshots = Keeper("snapshot")
