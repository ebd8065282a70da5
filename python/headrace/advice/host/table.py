"""The table of host checks (checks.csv): what is looked at, its target, why, and which old advice
is outdated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.advice.model import RISKS
from headrace.base.packaged import read_rows

INSTALLS = ("sysctl", "udev", "tuned", "kernel", "by hand")


# The source of a check that follows from how the parts work, and is not published.
OWN = "own judgement"


@dataclass(frozen=True)
class HostCheck:
    """A setting of the host that is looked at.

    `where`: its path; `target`: in words, `least` and `most` as figures where it has them; `risk`:
    what staying wrong can cost, in the classes of advise; `install`: what keeps it over a start of
    the machine. `old_advice`: the advice of former years, and `outdated_because`: why it no longer
    holds ("": it still holds).
    """

    id: str
    title: str
    where: str
    target: str
    least: float | None
    most: float | None
    why: str
    risk: str
    install: str
    old_advice: str
    outdated_because: str
    source: str
    as_of: str
    confirmed: bool

    @property
    def citation(self) -> str:
        """Source, day and doubt; a judgement of our own has neither."""
        if self.source == OWN:
            return OWN
        return f"{self.source}, {self.as_of}{'' if self.confirmed else ', not confirmed'}"


@cache
def read_host_checks() -> dict[str, HostCheck]:
    """Returns all checks by id, in the order of the file."""
    checks = {}
    for row in read_rows("headrace.advice.host", "checks.csv"):
        figures = {name: float(row[name]) if row[name] else None for name in ("least", "most")}
        fields: dict[str, Any] = {**row, **figures, "confirmed": row["confirmed"] == "true"}
        check = HostCheck(**fields)
        assert check.risk in RISKS, check.id
        assert check.install in INSTALLS, check.id
        checks[check.id] = check
    return checks
