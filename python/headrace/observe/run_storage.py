"""Reads the limits of a run's storage, on the day of the run, from the catalog; every error names
the key of the run description."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from headrace.base import core
from headrace.base.checks import quote_value
from headrace.base.units import MIB
from headrace.errors import InputError, Refusals

refuse = Refusals("docs/reference/run-description.md")


@dataclass(frozen=True)
class Caps:
    """The limits of data volumes and instance together (catalog, day of the run); infinite where no
    figure is known.

    `iops` without burst credits, `iops_burst` with them, I/Os a second; `mib_s` and `mib_s_burst`
    likewise; `usable_gib` after RAID. For local disks these are writes, and `reads_iops` and
    `reads_mib_s` the reads besides.
    """

    iops: float
    iops_burst: float
    mib_s: float
    mib_s_burst: float
    usable_gib: float
    reads_iops: float = 0.0
    reads_mib_s: float = 0.0


def check_storage(key: str, text: object, as_of: date, instance: str | None) -> tuple[str, Caps, core.Instance | None]:
    """Returns (the storage in the catalog's notation, its limits on that instance, the instance or
    None). Raises InputError naming `key`."""
    if not isinstance(text, str) or not text.strip() or len(text) > 200:
        rule = "must be storage in text such as io1:1024:20000"
        raise refuse.input(f"{key} = {quote_value(text)}", rule, "TYPE:SIZE_GIB[:IOPS[:MIB_S]].")
    day = as_of.isoformat()
    host = None
    try:
        if instance is not None:
            host = core.instance(instance, day)
    except core.CoreError as error:
        raise _make_refusal("instance", str(instance), error) from None
    try:
        parsed = core.parse_storage(text)
        members = core.storage_limits(text, day, instance)
    except core.CoreError as error:
        raise _make_refusal(key, text, error) from None
    return parsed["text"], _sum_caps(parsed["usable_gib"], members, host), host


def _make_refusal(key: str, text: str, error: Exception) -> InputError:
    """Returns the core's refusal of a value as an InputError that names its key."""
    value, rule, source, hint = (str(part) for part in error.args)
    detail = value if value not in (text, "") else ""
    return InputError(f"{key} = {quote_value(text)}" + (f": {detail[:120]}" if detail else ""), rule, source, hint)


def sum_rates(members: Sequence[core.VolumeLimits]) -> tuple[float, float, float, float]:
    """Returns what volumes give together: I/Os a second without and with burst credits, then bytes
    a second without and with them."""
    return (
        float(sum(member["iops"] for member in members)),
        float(sum(max(member["iops"], (member["io_burst"] or {}).get("iops", 0)) for member in members)),
        float(
            sum(
                (member["byte_burst"] or {}).get("baseline_bytes_s", member["throughput_bytes_s"]) for member in members
            )
        ),
        # With byte credits (st1, sc1) throughput_bytes_s is that of the burst.
        float(sum(member["throughput_bytes_s"] for member in members)),
    )


def _sum_caps(usable_gib: float, members: Sequence[core.VolumeLimits], host: core.Instance | None) -> Caps:
    """Returns the limits of the members together, on the instance `host`: no layout carries more
    I/Os than its members take. Infinite where the catalog has no figures."""
    if any(
        caveat["field"].endswith(".fallback") or ".fallback_" in caveat["field"]
        for member in members
        for caveat in member["caveats"]
    ):
        # The catalog knows no figure of these disks.
        return Caps(math.inf, math.inf, math.inf, math.inf, float(usable_gib))
    iops, burst, bytes_s, burst_bytes_s = sum_rates(members)
    mib_s, mib_s_burst = bytes_s / MIB, burst_bytes_s / MIB
    is_local = all(member["spec"]["volume_type"] == "instance-store" for member in members)
    if host is not None and not is_local:  # instance store does not pass the EBS link
        iops, burst = _cap_value(iops, host["baseline_iops"]), _cap_value(burst, host["max_iops"])
        mib_s = _cap_value(mib_s, None if host["baseline_bytes_s"] is None else host["baseline_bytes_s"] / MIB)
        mib_s_burst = _cap_value(mib_s_burst, None if host["max_bytes_s"] is None else host["max_bytes_s"] / MIB)
    reads = [member["reads"] for member in members if member["reads"]]
    return Caps(
        iops,
        max(iops, burst),
        mib_s,
        max(mib_s, mib_s_burst),
        float(usable_gib),
        float(sum(limits["iops"] for limits in reads)),
        sum(limits["throughput_bytes_s"] for limits in reads) / MIB,
    )


def _cap_value(value: float, limit: float | None) -> float:
    return value if limit is None else min(value, float(limit))


def note_late_day(as_of: date) -> str | None:
    """Returns a note where a day is later than the newest of the catalog, else None."""
    newest = core.newest_date()
    if as_of.isoformat() <= newest:
        return None
    return f"as_of {as_of} is later than the catalog, which knows limits up to {newest}: those of {newest} are used."
