"""Changes of a volume in use, each setting with its option (`headrace.base.options`): the commands
and the page read them here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from headrace.base.checks import read_percent
from headrace.base.options import Option

if TYPE_CHECKING:
    from headrace.lab.calls import Fault, Modification
    from headrace.lab.client import Lab

FaultKind = Literal["pause", "latency", "error", "degraded", "power-cut"]


@dataclass(frozen=True, kw_only=True)
class ModificationSettings:
    """The change of a volume, of an array of all its members; what is not set stays."""

    type: Annotated[str | None, Option("Another type.", value="TYPE", usual="as it is", completed="type")] = None
    size_gib: Annotated[
        int | None,
        Option("Larger size, never smaller; of an array its usable one.", unit="GiB", least=1, usual="as it is"),
    ] = None
    iops: Annotated[
        int | None, Option("Provisioned IOPS of each member.", unit="IOPS", value="N", least=1, usual="as it is")
    ] = None
    mib_s: Annotated[
        int | None,
        Option("Provisioned MiB/s of each member.", unit="MiB/s", value="MIB_S", least=1, usual="as it is"),
    ] = None

    def begin(self, lab: Lab, volume: str) -> Modification:
        """Begins the modification. Raises LabRefused."""
        return lab.modify(volume, self.size_gib, self.type, self.iops, self.mib_s)


@dataclass(frozen=True, kw_only=True)
class FaultSettings:
    """The settings of a fault; what is not set is the daemon's default for its kind."""

    in_s: Annotated[
        float | None, Option("Time until it begins.", unit="s", least=0, usual="0; power-cut: 1", name="in")
    ] = None
    seconds: Annotated[float | None, Option("Length of the fault.", unit="s", least=0, usual="pause 1, others 60")] = (
        None
    )
    extra_ms: Annotated[
        float | None, Option("Latency added to each request.", unit="ms", least=0, usual="latency 100, degraded 300")
    ] = None
    every: Annotated[int | None, Option("error: each Nth request fails.", least=1, usual="1")] = None
    op: Annotated[Literal["read", "write", "any"] | None, Option("Requests that the fault affects.", usual="any")] = (
        None
    )
    member: Annotated[int | None, Option("Only this member of an array, counted from 0.", least=0)] = None
    caps: Annotated[str | None, Option("Remaining share of the limits, such as 20%.", value="PERCENT")] = None
    seed: Annotated[
        int | None, Option("power-cut: a seed loses the same writes.", least=0, most=2**63 - 1, usual="by chance")
    ] = None

    @property
    def caps_percent(self) -> float | None:
        """The remaining share of the limits, percent. Raises InputError."""
        return read_percent(self.caps, "--caps")

    def begin(self, lab: Lab, volume: str, kind: str) -> Fault:
        """Begins a fault of a kind. Raises InputError, LabRefused."""
        return lab.fault(
            volume,
            kind,
            in_s=self.in_s,
            seconds=self.seconds,
            extra_ms=self.extra_ms,
            every=self.every,
            op=self.op,
            member=self.member,
            caps_percent=self.caps_percent,
            seed=self.seed,
        )
