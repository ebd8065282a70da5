"""Orders the changes of a fleet by what each saves, the largest first, and refuses those that EC2
would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headrace.base import core
from headrace.base.storage import Storage, Volume
from headrace.operate.fleet.inventory import FleetDevice, FleetVolume
from headrace.planner.actions import API_TYPES, get_bought_performance

SHRINK_RULE = "a volume never shrinks (data/rules.toml, modify_volume.never_shrinks)"


@dataclass(frozen=True)
class VolumeSetting:
    """A volume's setting in EC2's words. `iops`, `mib_s`: None where the type has none to buy."""

    type: str
    size_gib: int
    iops: int | None
    mib_s: int | None

    @classmethod
    def of(cls, volume: Volume) -> VolumeSetting:
        """Converts a volume of the notation; included figures are stated too, as EC2 does."""
        return cls(API_TYPES.get(volume.type, volume.type), volume.size_gib, *get_bought_performance(volume))

    def __str__(self) -> str:
        return f"{self.type} {self.size_gib} GiB" + "".join(
            f" {figure} {unit}" for figure, unit in ((self.iops, "IOPS"), (self.mib_s, "MiB/s")) if figure is not None
        )


@dataclass(frozen=True)
class VolumeChange:
    """A change of one volume. `device`: the key of the device it is (a member of). `usd_month`: the
    difference of its monthly bill, below 0 where it saves. `modification_starts`: those that are
    known, UTC, oldest first. `note`: what a reader should know of the change, in words."""

    volume_id: str
    name: str
    region: str
    account: str
    device: str
    before: VolumeSetting
    after: VolumeSetting
    usd_month: float
    modification_starts: tuple[datetime, ...] = ()
    note: str = ""

    def invert(self) -> VolumeChange:
        """Returns the change back, without a note. A volume that has grown stays as large."""
        size = max(self.before.size_gib, self.after.size_gib)
        back = VolumeSetting(self.before.type, size, self.before.iops, self.before.mib_s)
        return replace(self, before=self.after, after=back, usd_month=-self.usd_month, note="")


@dataclass(frozen=True)
class RefusedChange:
    """A change that is advised and not made, and why."""

    change: VolumeChange
    why: str


def list_changes(device: FleetDevice, target: Storage, usd_month: float, note: str = "") -> list[VolumeChange]:
    """Returns what each member of a device becomes; members that do not change are left out.

    `usd_month`: the difference of the device's monthly bill, shared evenly by the members that
    change. `note`: what a reader of the changes should know.
    """
    pairs = [
        (member, VolumeSetting.of(_make_volume(member)), VolumeSetting.of(after))
        for member, after in zip(device.members, target.members, strict=True)
    ]
    changing = [pair for pair in pairs if pair[1] != pair[2]]
    return [
        VolumeChange(
            member.id,
            member.name,
            member.region,
            member.account,
            device.key,
            before,
            after,
            usd_month / len(changing),
            tuple(modification.started for modification in member.modifications),
            note,
        )
        for member, before, after in changing
    ]


def rank_changes(changes: Iterable[VolumeChange]) -> list[VolumeChange]:
    """Sorts the largest saving of a device first, its members together, then by id."""
    changes = list(changes)
    totals: dict[str, float] = {}
    for change in changes:
        totals[change.device] = totals.get(change.device, 0.0) + change.usd_month
    return sorted(changes, key=lambda change: (totals[change.device], change.device, change.volume_id))


def check_changes(
    changes: Sequence[VolumeChange], volumes: dict[str, FleetVolume], now: datetime, as_of: str | None = None
) -> tuple[list[VolumeChange], list[RefusedChange]]:
    """Returns the changes that may be made, and those that may not with the reason. An array
    changes whole or not at all."""
    refused = {
        change.volume_id: why
        for change in changes
        if (why := _explain_refusal(change, volumes[change.volume_id], now, as_of))
    }
    arrays = {change.device: change.volume_id for change in changes if change.volume_id in refused}
    allowed, refusals = [], []
    for change in changes:
        if change.volume_id in refused:
            refusals.append(RefusedChange(change, refused[change.volume_id]))
        elif change.device in arrays:
            refusals.append(RefusedChange(change, f"{arrays[change.device]} of the same array is not changed"))
        else:
            allowed.append(change)
    return allowed, refusals


def get_modification_limit(as_of: str | None, size_gib: int = 1) -> tuple[int, int]:
    """Returns how many modifications of a volume of `size_gib` EC2 takes, and within how many
    hours, on the day `as_of` (None: the newest)."""
    rules = core.modification_rules(as_of or core.newest_date(), size_gib)
    if rules["max_per_24_hours"]:
        return rules["max_per_24_hours"], 24
    return 1, rules["wait_hours"] or 0


def _explain_refusal(change: VolumeChange, volume: FleetVolume, now: datetime, as_of: str | None) -> str:
    """Returns why EC2 or the inventory forbids a change, in words; "" if it may be made. `now`: end
    of the hours in which modifications are counted."""
    if change.after.size_gib < volume.size_gib:
        return f"{change.after.size_gib:,} GiB after {volume.size_gib:,} GiB: {SHRINK_RULE}"
    if volume.managed_by:
        return f"it belongs to {volume.managed_by}, which changes it itself"
    if volume.modifying:
        return f"it is {volume.modifying}: EC2 takes no other modification before that is completed"
    if volume.state not in ("in-use", "available"):
        return f"it is in state {volume.state}"
    most, hours = get_modification_limit(as_of)
    since = now.astimezone(UTC) - timedelta(hours=hours)
    recent = {*volume.list_modifications(since), *(start for start in change.modification_starts if start > since)}
    if len(recent) >= most:
        return f"it was modified {len(recent)} times within {hours} hours, and EC2 takes {most}"
    return ""


def _make_volume(member: FleetVolume) -> Volume:
    """Returns a member of the inventory as a volume of the notation."""
    return Storage.parse(member.notation).members[0]
