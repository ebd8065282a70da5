"""Positions in the binary log: which part of its server's history a copy has."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.mysql.gtid import GtidSet


@dataclass(frozen=True)
class BinlogPosition:
    """The position of a copy in its source's history. `gtid`: the GTIDs executed, "" for none.
    `file`, `offset` (bytes): the next event in the binary log; "" and 0 if there is none."""

    gtid: str = ""
    file: str = ""
    offset: int = 0

    def parse_gtids(self, flavor: str) -> GtidSet:
        """Returns the GTIDs executed as a set of a flavor."""
        return GtidSet.parse(self.gtid, flavor)
