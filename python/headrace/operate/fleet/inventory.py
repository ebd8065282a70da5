"""The volumes of a fleet, from the JSON that the AWS CLI writes.

    aws ec2 describe-volumes > volumes.json
    aws ec2 describe-instances > instances.json
    aws ec2 describe-volumes-modifications > modifications.json        # may be left out

    inventory = read_inventory(["volumes.json", "instances.json", "modifications.json"])
    for device in inventory.list_devices():        # a volume, or the members of an array
        ...

Files come in any order and any number: pages, regions and accounts are put together, and what a
file holds is seen from its keys. A value that AWS cannot have written is refused; what is only
strange (a type that the catalog does not know, figures beyond its limits) is a remark of the
volume, so one volume never stops a fleet. Volumes of RDS are not in these files: AWS does not list
them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from os import PathLike
from typing import TypeVar

import msgspec

from headrace.aws.volumes import write_notation
from headrace.base.storage import Storage
from headrace.errors import InputError
from headrace.observe.formats.json_text import load_all_json
from headrace.observe.recording import Recording, clip, open_recording

DOC = "docs/guide/fleet-changes.md"
API = "EC2 API, DescribeVolumes"
# Tags that name the array of a volume, the first that is there; a value may be mdadm's name, as
# `mdadm --detail --scan` prints it (`name=db1:0`). Ours: AWS has no word for it.
ARRAY_TAGS = ("headrace:array", "mdadm", "mdadm:name", "raid", "array")
LEVEL_TAG = "headrace:level"
ACTIVE = ("modifying", "optimizing")
MOST_NAME = 60  # characters of the names of a device that are shown: a column's width; ours
# The letter of a zone and what follows: us-east-1a; a local zone has a place of its own
# (us-west-2-lax-1a).
_REGION = re.compile(r"([a-z]{2,4}(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z]{2,5}-.*|-wl.*)?\Z")

T = TypeVar("T")


class VolumeAttachment(msgspec.Struct, frozen=True):
    """An instance that a volume is attached to. `since`: UTC, or None where it is not said."""

    instance_id: str
    device: str
    since: datetime | None = None


class KnownModification(msgspec.Struct, frozen=True):
    """A modification of a volume. `state`: modifying, optimizing, completed or failed; "" where
    only its start is known. Both times are UTC."""

    state: str
    started: datetime
    ended: datetime | None = None


class FleetInstance(msgspec.Struct, frozen=True):
    """An instance of the fleet. `account`: of its reservation's owner, or "". `root_device`: the
    device it boots from, or ""."""

    id: str
    type: str
    state: str
    account: str
    region: str
    name: str
    root_device: str


class FleetVolume(msgspec.Struct, frozen=True):
    """A volume of the fleet, as AWS says it is.

    `iops`, `mib_s`: as AWS states them; of gp2 `iops` is the baseline, not the burst; None where
    AWS states none. `account`: of the instance it is attached to, or as given with the file, or "".
    `instance_type`: of its one attachment; "" when there is none, more than one, or the instance is
    not in the inventory. `modifications`: all that are known, oldest first. `array`: INSTANCE/NAME
    of the array it is a member of, or "". `managed_by`: the AWS service that owns it, or "".
    `remarks`: what is strange about it, in words; a volume with remarks may get no advice.
    """

    id: str
    zone: str
    account: str
    name: str
    type: str
    size_gib: int
    iops: int | None
    mib_s: int | None
    state: str
    multi_attach: bool
    attachments: tuple[VolumeAttachment, ...]
    instance_type: str
    root: bool
    created: datetime | None
    tags: dict[str, str]
    array: str
    array_level: str
    modifications: tuple[KnownModification, ...]
    managed_by: str
    remarks: tuple[str, ...]

    @property
    def region(self) -> str:
        """The region of its zone, "" for a zone whose form is of none."""
        return find_region(self.zone)

    @property
    def instance_id(self) -> str:
        """The instance of its one attachment; "" when there is none, or more than one."""
        return self.attachments[0].instance_id if len(self.attachments) == 1 else ""

    @property
    def notation(self) -> str:
        """The volume as it would be ordered: `gp3:500:6000:250`."""
        return write_notation(self.type, self.size_gib, self.iops, self.mib_s)

    @property
    def modifying(self) -> str:
        """`modifying` or `optimizing` while a modification is under way, else ""."""
        last = self.modifications[-1].state if self.modifications else ""
        return last if last in ACTIVE else ""

    def list_modifications(self, since: datetime) -> tuple[datetime, ...]:
        """Returns the starts of the known modifications after `since`, oldest first."""
        return tuple(modification.started for modification in self.modifications if modification.started > since)


class FleetDevice(msgspec.Struct, frozen=True):
    """A device as a server sees it: a volume, or the members of an array by id. `key`: the volume's
    id, or INSTANCE/NAME of the array; unique in a fleet."""

    key: str
    members: tuple[FleetVolume, ...]
    level: str | None

    @property
    def name(self) -> str:
        """The Name tags of its volumes, each once, without what a terminal or a script would take
        for more than text; "" without."""
        names = dict.fromkeys(member.name for member in self.members if member.name)
        return clip(", ".join(names), MOST_NAME)

    def make_storage(self) -> Storage:
        """Returns all of it in the storage notation. Raises InputError where it is refused."""
        notation, *others = sorted({member.notation for member in self.members})
        count = len(self.members)
        if self.level is None:
            return Storage.parse(notation)
        if others:
            return Storage.parse(f"{self.level}:" + "+".join(member.notation for member in self.members))
        return Storage.parse(f"{self.level}:{count}x{notation}")


class FleetInventory(msgspec.Struct, frozen=True):
    """All volumes, by id, and instances of a fleet. `notes`: what a reader should know of it."""

    volumes: tuple[FleetVolume, ...]
    instances: dict[str, FleetInstance]
    notes: tuple[str, ...]

    def find_volume(self, volume_id: str) -> FleetVolume | None:
        """Returns the volume of an id; None where the fleet has none of it."""
        at = bisect_left(self.volumes, volume_id, key=lambda volume: volume.id)
        candidate = self.volumes[at] if at < len(self.volumes) else None
        return candidate if candidate and candidate.id == volume_id else None

    def list_devices(self) -> list[FleetDevice]:
        """Returns the volumes, arrays put together; in the order of their first volume's id."""
        groups: dict[str, list[FleetVolume]] = defaultdict(list)
        for volume in self.volumes:
            groups[volume.array or volume.id].append(volume)
        return [
            FleetDevice(key, tuple(members), (members[0].array_level or "raid0") if len(members) > 1 else None)
            for key, members in groups.items()
        ]

    def list_attached(self, instance_id: str) -> tuple[FleetVolume, ...]:
        """Returns the volumes attached to an instance, Multi-Attach ones too."""
        return tuple(v for v in self.volumes if any(at.instance_id == instance_id for at in v.attachments))


# --- what the AWS CLI writes --------------------------------------------------


class _Aws(msgspec.Struct, rename="pascal", kw_only=True):
    """A table of the CLI's JSON; keys that are not its fields are skipped, as the API grows."""


class _Tag(_Aws):
    key: str
    value: str = ""


class _Attachment(_Aws):
    instance_id: str = ""
    device: str = ""
    state: str = "attached"
    attach_time: str | None = None


class _Operator(_Aws):
    managed: bool = False
    principal: str = ""


class _Volume(_Aws):
    volume_id: str
    volume_type: str
    size: int
    availability_zone: str
    state: str = "in-use"
    iops: int | None = None
    throughput: int | None = None
    multi_attach_enabled: bool = False
    attachments: list[_Attachment] = []
    create_time: str | None = None
    tags: list[_Tag] = []
    operator: _Operator | None = None


class _State(_Aws):
    name: str = ""


class _Placement(_Aws):
    availability_zone: str = ""


class _Instance(_Aws):
    instance_id: str
    # Always there on AWS; a lab may be of no type.
    instance_type: str = ""
    state: _State | None = None
    placement: _Placement | None = None
    root_device_name: str | None = None
    tags: list[_Tag] = []


class _Reservation(_Aws):
    owner_id: str = ""
    instances: list[_Instance] = []


class _Modification(_Aws):
    volume_id: str
    modification_state: str
    start_time: str
    end_time: str | None = None


class _Event(_Aws):
    event_name: str = ""
    cloud_trail_event: str = "{}"


# Classes of the files of an inventory, by the key that each file has; _MISTAKES: keys of files that
# are given by mistake.
_KINDS = {
    "Volumes": _Volume,
    "Reservations": _Reservation,
    "VolumesModifications": _Modification,
    "Events": _Event,
}
_MISTAKES = {
    "DBInstances": "RDS does not list its volumes; this inventory is of EBS. Plan it with headrace plan --on rds.",
    "MetricDataResults": "These are points: give them to headrace fleet import.",
    "Datapoints": "These are points: give them to headrace fleet import.",
    "Snapshots": "These are snapshots: run aws ec2 describe-volumes.",
    "values": "This looks like terraform show -json: run aws ec2 describe-volumes.",
}


def read_inventory(files: Iterable[str | PathLike[str]], account: str = "") -> FleetInventory:
    """Reads the inventory in the output of `aws ec2 describe-volumes`, `describe-instances`,
    `describe-volumes-modifications` and `aws cloudtrail lookup-events` (of ModifyVolume).

    `account`: of volumes whose owner no instance tells. Raises InputError and CouldNotRun.
    """
    reader = _Reader(account)
    for file in files:
        reader.read(open_recording(file))
    return reader.build_inventory()


def parse_inventory(volumes: Sequence[dict], reservations: Sequence[dict] = (), account: str = "") -> FleetInventory:
    """Returns the inventory from an SDK's answers as JSON (times as text). Raises InputError."""
    document = {"Volumes": list(volumes)} | ({"Reservations": list(reservations)} if reservations else {})
    reader = _Reader(account)
    reader.read(Recording("the answer of EC2", json.dumps(document), ""))
    return reader.build_inventory()


class _Reader:
    """Collects what pages of files hold, and builds the inventory of it."""

    def __init__(self, account: str) -> None:
        """Takes the account of volumes whose owner no instance tells."""
        self.account = account
        self.volumes: dict[str, tuple[_Volume, str]] = {}
        self.instances: dict[str, tuple[_Instance, str, str]] = {}
        self.modifications: dict[str, set[KnownModification]] = defaultdict(set)
        # When CloudTrail saw ModifyVolume called: compared at the end, whatever came first.
        self.calls: dict[str, set[datetime]] = defaultdict(set)
        self.seen: set[str] = set()
        # Files that end with a NextToken, and regions in which a listing came to its end.
        self.open: list[tuple[Recording, str, str]] = []
        self.ended: set[tuple[str, str]] = set()

    def read(self, recording: Recording) -> None:
        """Adds all documents of a file. Raises InputError for one that is not of an inventory."""
        ends: dict[str, tuple[str, str]] = {}
        for number, document in enumerate(load_all_json(recording), 1):
            kinds = [kind for kind in _KINDS if kind in document]
            if not kinds:
                raise self._make_unknown_error(recording, document)
            for kind in kinds:
                region = self._add_page(recording, kind, document[kind], number)
                ends[kind] = (document.get("NextToken") or "", region)
        for kind, (token, region) in ends.items():
            if token:
                self.open.append((recording, kind, region))
            else:
                self.ended.add((kind, region))

    def build_inventory(self) -> FleetInventory:
        """Returns all that was read. Raises InputError where a part is missing."""
        for recording, kind, region in self.open:
            if (kind, region) not in self.ended:
                rule = "ends with a NextToken, and no file has the page that follows"
                hint = "Run the AWS CLI without --max-items and --no-paginate, or give all pages."
                value = f"{recording.name}: {kind} of {region or 'no region'}"
                raise InputError(value, rule, "EC2 API, NextToken", hint)
        if "Volumes" not in self.seen:
            hint = "Run aws ec2 describe-volumes and give its output."
            raise InputError("the inventory", "has no volumes: none of its files holds any", API, hint)
        for volume, calls in self.calls.items():
            for started in sorted(calls):
                if all(
                    abs((modification.started - started).total_seconds()) > SAME_S
                    for modification in self.modifications[volume]
                ):
                    self.modifications[volume].add(KnownModification("", started))
        instances = {key: _make_instance(described, owner) for key, (described, owner, _) in self.instances.items()}
        volumes = [self._make_volume(described, instances) for _, (described, _) in sorted(self.volumes.items())]
        notes = [] if instances else ["No describe-instances was given: limits and owners of instances are not known."]
        unknown = sorted(set(self.modifications) - set(self.volumes))
        if unknown:
            notes.append(f"{len(unknown)} modified volumes are not in the inventory, {unknown[0]} first.")
        return FleetInventory(tuple(volumes), instances, tuple(notes))

    # --- parts of files --------------------------------------------------

    def _add_page(self, recording: Recording, kind: str, items: object, number: int) -> str:
        """Adds the entries of a page, and returns its region, or "". Raises InputError."""
        self.seen.add(kind)
        if not isinstance(items, list):
            raise recording.make_error(
                kind, type(items).__name__, "must be a list", "Is it the whole output of the CLI?", API
            )
        region = ""
        for index, item in enumerate(items):
            where = f"page {number}, {kind}[{index}]"
            entry = _convert_value(recording, where, item, _KINDS[kind])
            if isinstance(entry, _Volume):
                region = self._add_volume(recording, where, entry)
            elif isinstance(entry, _Reservation):
                region = self._add_instances(recording, where, entry) or region
            elif isinstance(entry, _Modification):
                times = (
                    _parse_moment(recording, where, entry.start_time),
                    entry.end_time and _parse_moment(recording, where, entry.end_time),
                )
                self.modifications[entry.volume_id].add(
                    KnownModification(entry.modification_state, times[0], times[1] or None)
                )
            elif isinstance(entry, _Event):
                self._add_event(recording, where, entry)
        return region

    def _add_volume(self, recording: Recording, where: str, volume: _Volume) -> str:
        """Adds a volume, and returns its region, or "". Raises InputError for figures or times
        that cannot be, and for a volume that was listed with other figures."""
        if volume.size < 1:
            raise recording.make_error(
                where, f"{volume.volume_id}: Size = {volume.size}", "must be 1 GiB or more", "", API
            )
        for what, figure in (("Iops", volume.iops), ("Throughput", volume.throughput)):
            if figure is not None and figure < 0:
                raise recording.make_error(
                    where, f"{volume.volume_id}: {what} = {figure}", "cannot be negative", "", API
                )
        for attachment in volume.attachments:
            _check_moment(recording, where, attachment.attach_time)
        _check_moment(recording, where, volume.create_time)
        before = self.volumes.get(volume.volume_id)
        if before and before[0] != volume:
            raise _make_duplicate_error(recording, where, volume.volume_id, before[1], API)
        self.volumes[volume.volume_id] = (volume, recording.name)
        return find_region(volume.availability_zone)

    def _add_instances(self, recording: Recording, where: str, reservation: _Reservation) -> str:
        """Adds the instances of a reservation, and returns the region of the last one, or "".
        Raises InputError for one that was listed with other figures."""
        region = ""
        for instance in reservation.instances:
            region = find_region(instance.placement.availability_zone if instance.placement else "")
            before = self.instances.get(instance.instance_id)
            if before and before[0] != instance:
                source = "EC2 API, DescribeInstances"
                raise _make_duplicate_error(recording, where, instance.instance_id, before[2], source)
            self.instances[instance.instance_id] = (instance, reservation.owner_id, recording.name)
        return region

    def _add_event(self, recording: Recording, where: str, record: _Event) -> None:
        """Adds a ModifyVolume that CloudTrail recorded, unless EC2 refused it."""
        if record.event_name != "ModifyVolume":
            return
        try:
            event = json.loads(record.cloud_trail_event)
            request = (event.get("requestParameters") or {}).get("ModifyVolumeRequest") or {}
            volume, at = request.get("VolumeId"), event.get("eventTime")
        except (ValueError, AttributeError):
            raise recording.make_error(
                where, record.cloud_trail_event, "is not an event of CloudTrail in JSON"
            ) from None
        if volume and at and not event.get("errorCode"):
            self.calls[volume].add(_parse_moment(recording, where, at))

    def _make_unknown_error(self, recording: Recording, document: dict) -> InputError:
        """Returns the error for a file that holds nothing of an inventory."""
        hint = next((text for key, text in _MISTAKES.items() if key in document), "")
        keys = ", ".join(list(document)[:5]) or "an empty object"
        return recording.make_error(
            "", keys, f"has none of {', '.join(_KINDS)}", hint or "Give the CLI's whole output.", DOC
        )

    # --- a volume --------------------------------------------------

    def _make_volume(self, described: _Volume, instances: dict[str, FleetInstance]) -> FleetVolume:
        """Returns a volume with its account, array, modifications and remarks. The instance type is
        known only of a volume with one attachment."""
        tags = {tag.key: tag.value for tag in described.tags}
        attached = [at for at in described.attachments if at.instance_id and at.state != "detached"]
        attachments = tuple(VolumeAttachment(at.instance_id, at.device, _parse_time(at.attach_time)) for at in attached)
        only = attachments[0] if len(attachments) == 1 else None
        instance = instances.get(only.instance_id) if only else None
        array = next((tags[key].strip() for key in ARRAY_TAGS if tags.get(key, "").strip()), "")
        if array:  # two instances may each have an md0
            array = f"{only.instance_id if only else 'unattached'}/{array}"
        owners = {owner.account for at in attachments if (owner := instances.get(at.instance_id))}
        volume = FleetVolume(
            id=described.volume_id,
            zone=described.availability_zone,
            account=owners.pop() if len(owners) == 1 else self.account,
            name=tags.get("Name", ""),
            type=described.volume_type,
            size_gib=described.size,
            iops=described.iops,
            mib_s=described.throughput,
            state=described.state,
            multi_attach=described.multi_attach_enabled,
            attachments=attachments,
            instance_type=instance.type if instance else "",
            root=bool(only and instance and only.device == instance.root_device),
            created=_parse_time(described.create_time),
            tags=tags,
            array=array,
            array_level=tags.get(LEVEL_TAG, "").lower(),
            modifications=tuple(
                sorted(self.modifications.get(described.volume_id, ()), key=lambda modification: modification.started)
            ),
            managed_by=described.operator.principal or "an AWS service"
            if described.operator and described.operator.managed
            else "",
            remarks=(),
        )
        return msgspec.structs.replace(volume, remarks=tuple(_list_remarks(volume, instances)))


# Seconds between the start that EC2 states of a modification and CloudTrail's of its call; ours.
SAME_S = 60.0


def _list_remarks(volume: FleetVolume, instances: dict[str, FleetInstance]) -> list[str]:
    """Returns in words what is strange about a volume."""
    remarks = []
    if volume.region == "":
        remarks.append(f"its zone {clip(volume.zone, 40)} is of no region known by its form")
    try:
        limits = Storage.parse(volume.notation).list_limits()[0]
        if volume.type == "gp2" and volume.iops is not None and volume.iops != limits["iops"]:
            figure, baseline = volume.iops, limits["iops"]
            what = "the burst" if limits["io_burst"] and figure == limits["io_burst"]["iops"] else "not the baseline"
            remarks.append(
                f"its IOPS of {figure:,} are {what}: the baseline of {volume.size_gib:,} GiB is {baseline:,}"
            )
    except InputError as error:
        remarks.append(f"the catalog refuses {clip(volume.notation, 60)}: {error.rule}")
    if volume.multi_attach and len(volume.attachments) > 1:
        remarks.append(f"it is attached to {len(volume.attachments)} instances, whose demand adds up")
    for attachment in volume.attachments:
        if instances and attachment.instance_id not in instances:
            remarks.append(f"its instance {attachment.instance_id} is not in the inventory")
    return remarks


def find_region(zone: str) -> str:
    """Returns the region of an availability, local or wavelength zone; "" for an unknown form."""
    match = _REGION.match(zone)
    return match[1] if match else ""


def _make_instance(described: _Instance, owner: str) -> FleetInstance:
    """Returns an instance with its region, Name tag and owner."""
    tags = {tag.key: tag.value for tag in described.tags}
    zone = described.placement.availability_zone if described.placement else ""
    state = described.state.name if described.state else ""
    return FleetInstance(
        described.instance_id,
        described.instance_type,
        state,
        owner,
        find_region(zone),
        tags.get("Name", ""),
        described.root_device_name or "",
    )


def _convert_value(recording: Recording, where: str, value: object, kind: type[T]) -> T:
    """Returns a value of the CLI's JSON as `kind`. Raises InputError, with the place `where`, if it
    has another form."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        hint = "Is it the whole output of the CLI, without --query?"
        raise recording.make_error(where, _get_name(value), str(error), hint, API) from None


def _get_name(value: object) -> str:
    name = value.get("VolumeId") or value.get("InstanceId") if isinstance(value, dict) else None
    return str(name) if name else clip(str(value), 60)


def _make_duplicate_error(recording: Recording, where: str, name: str, file: str, source: str) -> InputError:
    rule, hint = f"is in {file} too, with other figures", "Give listings of one moment; leave the older file out."
    return recording.make_error(where, name, rule, hint, source)


def _check_moment(recording: Recording, where: str, text: str | None) -> None:
    if text is not None:
        _parse_moment(recording, where, text)


def _parse_moment(recording: Recording, where: str, text: str) -> datetime:
    """Parses a time of the CLI, in UTC; one without a zone is taken as UTC."""
    parsed = _parse_time(text)
    if parsed is None:
        raise recording.make_error(where, text, "must be a time like 2026-11-20T08:30:00+00:00", "", API)
    return parsed


def _parse_time(text: str | None) -> datetime | None:
    """Returns an ISO 8601 time in UTC, taken as UTC where it has no zone; None for "" and for other
    text."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
