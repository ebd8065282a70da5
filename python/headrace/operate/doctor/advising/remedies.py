"""Computes the remedy for a limit within one modification of a volume, or one change of the
instance: the cheapest that is sold, never smaller, never more than the instance can use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.storage import Storage, Volume
from headrace.base.units import HOURS_PER_MONTH, KIB, MIB
from headrace.errors import HeadraceError, InputError
from headrace.observe.evidence.limits import HoldingLimits, holding
from headrace.operate.doctor.model import Remedy
from headrace.operate.doctor.signals import VolumeSignals
from headrace.planner.actions import VOLUME_ID, modification_lines
from headrace.planner.candidates import Family

IOPS_STEP, MIB_S_STEP = 100, 25  # of what is bought: what a person types
# Shares of a limit from here up count as the same limit: gp2 below 170 GiB gives 128 MiB/s, and 125
# are included in a gp3. A guess.
SAME = 0.97
# Times the most MiB/s that were seen, for what a change must keep of those that came with the type:
# the planner's margin of a censored demand (thresholds.csv, spare_rate).
UNBOUGHT_SPARE = 1.25


@dataclass(frozen=True)
class Change:
    """A remedy and the storage or instance after it."""

    remedy: Remedy
    storage: str | None = None
    instance: str | None = None


def find_change(volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None) -> Change | None:
    """Returns the change that lifts the limit `subject` to `factor` times today's rates, of the
    instance or of the volume; see `change_of_instance` and `change_of_volume`. Raises
    HeadraceError."""
    find = change_of_instance if subject.startswith("instance") else change_of_volume
    return find(volume, subject, factor, region, as_of)


def change_of_volume(
    volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None
) -> Change | None:
    """Returns the cheapest modification that gives `factor` times today's rates, or as much as can
    be had. None where nothing better is within one modification. Raises HeadraceError where none
    can be priced or judged at all."""
    limits = volume.limits
    if limits is None:
        return None
    if volume.facts.state in ("modifying", "optimizing") or volume.facts.storage is None:
        return None
    today = Storage.parse(volume.facts.storage)
    need_ios, need_bytes = _needed_rates(volume, limits, factor)
    kept_bytes = _kept_bytes(volume, today, limits, need_bytes)
    options: list[tuple[float, float, Storage, HoldingLimits]] = []
    refused: HeadraceError | None = None
    judged = False
    for storage in _variants(today, limits, need_ios, need_bytes, kept_bytes, as_of):
        try:
            then = holding(storage.text, limits.instance, as_of)
            usd = sum(item["usd"] for item in storage.monthly_cost(region, as_of))
        except HeadraceError as error:
            refused = refused or error
            continue
        judged = True
        if not _better(limits, then, subject, kept_bytes):
            continue
        given = min(_room(then, need_ios, need_bytes), 1.0)
        options.append((-round(given, 2), usd, storage, then))
    if not judged and refused is not None:
        raise refused
    if not options:
        return None
    _, usd, storage, then = min(options, key=lambda option: (option[0], option[1]))
    more = usd - sum(item["usd"] for item in today.monthly_cost(region, as_of))
    lines = modification_lines(storage, today, as_of or core.newest_date())
    volume_id = volume.facts.id if len(today.members) == 1 else None
    cost = f"{more:+,.2f} USD a month ({usd:,.2f} instead of {usd - more:,.2f}; list prices of {region})"
    if then.burst_bytes_s < SAME * _given_bytes(limits):
        less, seen = (f"{value / MIB:,.0f} MiB/s" for value in (then.burst_bytes_s, volume.most_bytes_s))
        cost += f"; {less} are enough for the {seen} that were seen at the most, though {today} may give more"
    remedy = Remedy(
        f"Make it {storage}",
        tuple(line.replace(VOLUME_ID, volume_id or VOLUME_ID) for line in lines["lines"]),
        lines["undo"].replace(VOLUME_ID, volume_id or VOLUME_ID),
        cost,
        more,
        lines["what"],
        lines.get("source") or "",
        storage.text,
    )
    return Change(remedy, storage.text, limits.instance)


def _needed_rates(volume: VolumeSignals, limits: HoldingLimits, factor: float) -> tuple[float, float]:
    """Returns I/Os and bytes a second of all members, at most what the instance carries."""
    ios, bytes_s = volume.charged_iops * factor, volume.bytes_s * factor
    if limits.instance_iops:
        ios = min(ios, max(limits.instance_iops, volume.charged_iops))
    if limits.instance_bytes_s:
        bytes_s = min(bytes_s, max(limits.instance_bytes_s, volume.bytes_s))
    return ios, bytes_s


def _given_bytes(limits: HoldingLimits) -> float:
    """Returns bytes a second of today's volume that its I/Os can move."""
    return min(limits.burst_bytes_s, limits.burst_iops * 256 * KIB)


def _kept_bytes(volume: VolumeSignals, today: Storage, limits: HoldingLimits, need_bytes: float) -> float:
    """Returns bytes a second that no change may take away: those that were bought, all of them;
    those that come with a type and are not bought, as far as they were used, with some to spare."""
    given = _given_bytes(limits)
    if any(member.type == "gp3" for member in today.members):
        return given
    return min(given, max(need_bytes, UNBOUGHT_SPARE * volume.most_bytes_s))


def _variants(
    today: Storage, limits: HoldingLimits, need_ios: float, need_bytes: float, kept_bytes: float, as_of: str | None
) -> list[Storage]:
    """Returns the same members as other types, or with more bought; never smaller, and with no less
    of what the window did not use."""
    count, member = len(today.members), today.members[0]
    if any(other != member for other in today.members) or member.type in ("standard", "instance-store"):
        return []
    ios = max(100, math.ceil(need_ios / count / IOPS_STEP) * IOPS_STEP)
    mib_s = max(1, math.ceil(need_bytes / count / MIB / MIB_S_STEP) * MIB_S_STEP)
    candidates: list[Volume] = []
    kept_mib_s = math.ceil(kept_bytes / count / MIB)
    kept_ios = member.iops or math.ceil(limits.iops / count) if limits.credit_unit != "bytes" else 0
    types = _types(as_of)
    for size in dict.fromkeys((member.size_gib, *_sizes(member, ios, types))):
        if gp3 := types.get("gp3"):
            included = int(gp3.figure("throughput", "included_mib_s") or 0)
            gp3_mib_s = max(included, mib_s, kept_mib_s if SAME * kept_mib_s > included else 0)
            carried = math.ceil(gp3_mib_s / (gp3.figure("throughput", "mib_s_per_iops") or math.inf))
            gp3_ios = max(int(gp3.figure("iops", "included") or 0), ios, kept_ios, carried)
            candidates.append(Volume("gp3", size, gp3_ios, gp3_mib_s))
        candidates += [
            Volume(kind, size, max(100, ios, member.iops or 0))
            for kind in ("io1", "io2")
            if kind in (member.type, "io2")
        ]
        if member.type in ("gp2", "st1", "sc1"):
            candidates.append(Volume(member.type, size))
    storages = []
    for volume in candidates:
        if volume != member:
            try:
                storages.append(Storage.of([volume] * count, today.level, today.chunk_kib if today.level else None))
            except InputError:
                continue
    return storages


def _types(as_of: str | None) -> dict[str, Family]:
    """Returns the types of volumes of a day by name, with the figures of the catalog."""
    with core_errors():
        return {era["volume_type"]: Family(era["volume_type"], "", era) for era in core.volume_eras(as_of)}


def _sizes(member: Volume, ios: int, types: Mapping[str, Family]) -> list[int]:
    """Returns larger sizes that the volume's own type, gp3 and io2 need for these IOPS."""
    figures = (types[kind].figure("iops", "per_gib") for kind in (member.type, "gp3", "io2") if kind in types)
    sizes = {math.ceil(ios / per_gib) for per_gib in figures if per_gib}
    return sorted(size for size in sizes if size > member.size_gib)


def _better(before: HoldingLimits, after: HoldingLimits, subject: str, kept_bytes: float) -> bool:
    """Returns whether the limit is higher afterwards, and none of the volume's is lower than what
    is delivered without credits."""
    if after.burst_iops < SAME * before.burst_iops and before.credit_unit != "bytes":
        return False
    if after.burst_bytes_s < SAME * kept_bytes:
        return False
    if subject.endswith("throughput") or (subject == "volume-credits" and before.credit_unit == "bytes"):
        return (
            after.bytes_s > before.bytes_s * 1.01
            if subject == "volume-credits"
            else after.burst_bytes_s > before.burst_bytes_s * 1.01
        )
    if subject == "volume-credits":
        return after.iops > before.iops * 1.01
    return after.burst_iops > before.burst_iops * 1.01


def _room(limits: HoldingLimits, ios: float, bytes_s: float) -> float:
    """Returns how much of the needed rates (`ios` I/Os and `bytes_s` bytes a second) the limits
    give for good: a factor, below 1 where they give less."""
    return min(limits.iops / ios if ios else 1.0, limits.bytes_s / bytes_s if bytes_s else 1.0)


def _share(rate: float, allowed: float | None) -> float:
    return rate / allowed if allowed else 0.0


def change_of_instance(
    volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None
) -> Change | None:
    """Returns the change to the larger type of the same family with the fewest vCPUs whose baseline
    carries `factor` times today's rate; if none does, to the one with the fewest vCPUs and a higher
    baseline than today's, and the words say that it is too small. None without an instance, or
    where no type of the family has a higher baseline."""
    limits = volume.limits
    if limits is None or limits.instance is None:
        return None
    family = limits.instance.partition(".")[0]
    with core_errors():
        larger = [
            instance for instance in core.instances(as_of) if instance["instance_type"].partition(".")[0] == family
        ]
        now = core.instance_price(limits.instance, region, as_of)
    in_bytes = subject == "instance-throughput" or (
        subject == "instance-credits"
        and _share(volume.bytes_s, limits.instance_bytes_s) > _share(volume.charged_iops, limits.instance_iops)
    )
    need = (volume.bytes_s if in_bytes else volume.charged_iops) * factor
    options = []
    for instance in larger:
        base = instance["baseline_bytes_s"] if in_bytes else instance["baseline_iops"]
        today = limits.instance_bytes_s if in_bytes else limits.instance_iops
        if not base or not today or base <= today:
            continue
        with core_errors():
            price = core.instance_price(instance["instance_type"], region, as_of)
        usd = None if price is None else price["usd"] * HOURS_PER_MONTH
        options.append((base < need, instance["vcpus"], instance["instance_type"], usd, base))
    if not options:
        return None
    too_small, _, name, usd, base = min(options, key=lambda option: option[:3])
    what = f"Change the instance from {limits.instance} to {name}; a larger volume does not help"
    if too_small:
        unit, divisor = ("MiB/s", MIB) if in_bytes else ("I/Os a second", 1)
        needed, given = (f"{rate / divisor:,.0f}" for rate in (need, base))
        what += f". It is too small: {needed} {unit} are needed, no {family} carries them for good, and {name} carries {given}"
    before = None if now is None else now["usd"] * HOURS_PER_MONTH
    more = None if usd is None or before is None else usd - before
    cost = "no price is known" if more is None else f"{more:+,.2f} USD a month (list prices of {region})"
    remedy = Remedy(
        what,
        (
            "aws ec2 stop-instances ...",
            f"aws ec2 modify-instance-attribute --instance-id INSTANCE --instance-type {name}",
            "aws ec2 start-instances ...",
        ),
        f"the same with --instance-type {limits.instance}",
        cost,
        more,
        "the instance stops for some minutes: the server with it",
        "data/instances.csv",
    )
    return Change(remedy, None, name)
