"""Positions in the binary log: which part of its server's history a copy has."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.mysql.gtid import GtidSet


@dataclass(frozen=True)
class BinlogPosition:
    """The position of a copy in its source's history: `gtid` executed, `file` and `offset` next.
    `gtid`: "" if the source has none or writes no binary log; then `file` is "" too."""

    gtid: str = ""
    file: str = ""
    offset: int = 0

    def parse_gtids(self, flavor: str) -> GtidSet:
        """Returns the executed transactions as a set."""
        return GtidSet.parse(self.gtid, flavor)
