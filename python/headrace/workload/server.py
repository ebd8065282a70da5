"""The server that a database was measured on: flavor, version and binary log, which predictions of
its replicas take over, and the use of its processors."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headrace.base.documents import annotate_range, annotate_rule, convert
from headrace.base.releases import FLAVORS, detect_flavor, exists, find_number, parse_version
from headrace.workload.points import MAX_SPAN_S

DOC = "docs/reference/workload-file.md"
# From this share of the processors on, their queue and not the storage decides the rate: at 85 %
# a queue of few servers is several requests long (M/M/2: waits of 2.6 times the service). Chosen.
FULL_SHARE = 0.85
# Relative standard deviation of a prediction from a run whose processors were full: that of the
# processor time of a transaction without a run (CPU_SPREAD of workload/parameters.py), since such a
# run shows of the storage only that it was enough.
UNEXPLAINED_WHERE_FULL = 0.35


class SourceServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts of the server on which the runs were measured, each None where it is not known, as
    [server] of a workload file has them.

    `flavor`: mysql, percona or mariadb. `version`: as the server says it. `log_bin`: whether it
    wrote a binary log. `vcpus`: virtual CPUs that it could use. `busy_share`: of these, the share
    at work, the mean of the run in which it was highest; `busy_s`: how long that run was.
    """

    flavor: Literal[FLAVORS] | None = None  # pyright: ignore[reportInvalidTypeForm]
    version: Annotated[str, annotate_rule("must be text", least=1, most=100, pattern=r"\S")] | None = None
    log_bin: bool | None = None
    vcpus: Annotated[int, annotate_range(1, 65_536)] | None = None
    busy_share: Annotated[float, annotate_range(0.0, 1.0)] | None = None
    busy_s: Annotated[float, annotate_range(0.0, MAX_SPAN_S)] | None = None

    @property
    def release(self) -> str | None:
        """Returns flavor and version number, such as mysql-8.0.36 or mariadb-10.11; None if no
        version is known. Percona Server counts as MySQL. The patch level counts: defaults of
        replication changed within MySQL 8.0."""
        if self.version is None:
            return None
        flavor = self.flavor or detect_flavor(self.version)
        return f"{'mariadb' if flavor == 'mariadb' else 'mysql'}-{find_number(self.version)}"

    @property
    def known_release(self) -> str | None:
        """Returns `release` if the model has the defaults of its series, else None."""
        flavor, _, number = (self.release or "").partition("-")
        version = parse_version(number)
        return self.release if version is not None and exists(flavor, *version[:2]) else None

    @property
    def is_mariadb(self) -> bool:
        """Returns True if the flavor or version says MariaDB."""
        return self.flavor == "mariadb" or (self.release or "").startswith("mariadb")

    @property
    def is_full(self) -> bool:
        """Returns True if the server's processors were full, so that its rate is theirs."""
        return self.busy_share is not None and self.busy_share >= FULL_SHARE

    def to_document(self) -> dict[str, object]:
        """Returns the table [server], without what is not known."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}

    @classmethod
    def from_document(cls, table: object) -> SourceServer:
        """Reads the facts in [server]. Raises InputError."""
        return cls() if table is None else convert(table, cls, source=DOC, at="server")
