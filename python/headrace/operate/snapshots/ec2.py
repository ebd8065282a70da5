"""Volumes and snapshots of EC2, with boto3 (the extra `aws`). Credentials, region and endpoint are
found as all AWS tools find them: environment, profile, role of the instance.

A rehearsal before anything is locked loads what boto3 needs and opens the connection, so that the
call itself takes one round trip.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from headrace.aws.client import (
    CREDENTIALS,
    AwsAnswer,
    AwsClient,
    CallLimits,
    make_client,
    open_session,
    translate_errors,
)
from headrace.aws.instances import find_own_instance
from headrace.aws.volumes import parse_order, read_notation
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.operate.snapshots.freezing.filesystems import DeviceStack, find_volume_id
from headrace.operate.snapshots.services import MemberVolume
from headrace.operate.snapshots.sets import SET, StoredSnapshot, refuse

# Guesses: shorter than a freeze may last. CreateSnapshots is tried once: while a filesystem is
# frozen nothing waits for a second try, and a second call would take a second set.
ONCE = CallLimits(connect_s=3.0, answer_s=8.0, tries=1)
# Other calls may be sent twice, and nothing is frozen meanwhile: some seconds of throttling end no
# wait, and throw away no set. Guesses.
PATIENT = CallLimits(connect_s=3.0, answer_s=20.0, tries=6, mode="standard")
# Between two looks at snapshots that are being stored, s: as botocore's waiter snapshot_completed.
LOOK_EVERY_S = 15.0
# Seconds until EC2 lists what it has begun, at most. It promises no time: "the result of an API
# command might not be immediately visible to all subsequent commands" (Amazon EC2 Developer Guide,
# Eventual consistency in the Amazon EC2 API). A guess.
LISTED_S = 60.0
MOST_EXCLUDED = 127  # EC2 User Guide: ExcludeDataVolumeIds takes 127 ids
# EC2's id for the volume of a copy, and of a snapshot that was put block by block; the API
# reference calls it arbitrary.
NO_VOLUME = "vol-ffffffff"
# EC2 API reference, error codes.
WOULD_RUN, GONE = "DryRunOperation", ("InvalidSnapshot.NotFound", "InvalidVolume.NotFound")
REFUSED = ("UnauthorizedOperation", "AuthFailure", "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch")


class Ec2Service:
    """EC2 of one account and region."""

    listed_within_s, look_every_s = LISTED_S, LOOK_EVERY_S

    def __init__(
        self,
        profile: str | None = None,
        region: str | None = None,
        zone: str | None = None,
        root: Path = Path("/"),
    ) -> None:
        """Opens a client. `zone`: of volumes that are made; None: that of the snapshot's volume.
        Raises CouldNotRun without boto3, InputError without credentials or region."""
        self.root, self.zone = root, zone
        self._client, self._once = _open_clients(profile, region)
        self._instances: dict[str, str] = {}
        # The rehearsal's results, so that the call need not ask while things are frozen.
        self._chosen: dict[tuple[str, ...], AwsAnswer] = {}

    def find_members(self, device: DeviceStack) -> list[MemberVolume]:
        """Returns the volumes by the serial number of the disk, by the name udev gave it, or by the
        device name of the attachment to this instance."""
        volumes = [find_volume_id(disk, self.root) or self._find_by_name(disk) for disk in device.disks]
        answer = self._call("describe_volumes", VolumeIds=list(dict.fromkeys(volumes)))
        described = {volume["VolumeId"]: volume for volume in answer["Volumes"]}
        for volume in described.values():
            attached = [
                attachment["InstanceId"]
                for attachment in volume.get("Attachments", ())
                if attachment.get("State") == "attached"
            ]
            if len(attached) != 1:
                rule = f"is attached to {len(attached)} instances, not to one"
                raise refuse.input(volume["VolumeId"], rule, "Volumes for several instances are not supported.")
            self._instances[volume["VolumeId"]] = attached[0]
        return [
            MemberVolume(name, read_notation(described[name]), described[name].get("AvailabilityZone", ""))
            for name in volumes
        ]

    def _find_by_name(self, disk: str) -> str:
        """Returns the volume that is attached to this instance under a disk's name. Devices of Xen
        instances have no serial number; /dev/sdf of the attachment may be /dev/xvdf here (EC2 User
        Guide, "Device names")."""
        instance = find_own_instance(self.root)
        if instance is None:
            rule = "has no serial number of EBS, and this machine does not say which EC2 instance it is"
            hint = "Is it a volume of EBS, on an instance whose metadata service is on? Others have no snapshots."
            raise refuse.input(f"/dev/{disk}", rule, hint)
        # Other instances have volumes by the same names.
        here = [{"Name": "attachment.instance-id", "Values": [instance]}]
        matches = set()
        for volume in self._call_pages("describe_volumes", "Volumes", Filters=here):
            for attachment in volume.get("Attachments", ()):
                if attachment.get("InstanceId") != instance or attachment.get("State") != "attached":
                    continue
                name = str(attachment.get("Device", ""))
                linked = os.path.basename(os.path.realpath(self.root / name.lstrip("/")))
                names = {linked, os.path.basename(name), os.path.basename(name).replace("sd", "xvd", 1)}
                if disk in names and os.path.exists(self.root / "sys/class/block" / disk):
                    matches.add(volume["VolumeId"])
        if len(matches) != 1:
            problem = "several volumes are attached by this name" if matches else "no EBS volume is known for it"
            raise refuse.input(f"/dev/{disk}", problem, "Is it instance store, or not on EBS? Those have no snapshots.")
        return matches.pop()

    def rehearse(self, volumes: Sequence[str], tags: Mapping[str, str]) -> None:
        """Makes a dry run of the call."""
        self._chosen[tuple(volumes)] = self._make_specification(volumes)
        try:
            self._call("create_snapshots", DryRun=True, **self._make_arguments(volumes, tags, ""))
        except InputError as error:
            if error.kind != WOULD_RUN:
                raise

    def create(
        self, volumes: Sequence[str], tags: Mapping[str, str], description: str, token: str
    ) -> list[StoredSnapshot]:
        """Calls CreateSnapshots for the instance, without its other volumes."""
        created = self._call("create_snapshots", **self._make_arguments(volumes, tags, description))["Snapshots"]
        return [_parse_snapshot(snapshot) for snapshot in created]

    def _make_specification(self, volumes: Sequence[str]) -> AwsAnswer:
        """Returns the instance, and which of its volumes are left out."""
        instances = {self._instances[volume] for volume in volumes}
        if len(instances) != 1:
            rule = f"are attached to {len(instances)} instances, and one call takes those of one"
            raise InputError(", ".join(volumes), rule, "EC2 API, CreateSnapshots")
        instance = instances.pop()
        boot = self._find_boot_volume(instance)
        here = [{"Name": "attachment.instance-id", "Values": [instance]}]
        attached = [volume["VolumeId"] for volume in self._call_pages("describe_volumes", "Volumes", Filters=here)]
        others = [volume for volume in attached if volume not in volumes and volume != boot]
        if len(others) > MOST_EXCLUDED:
            raise InputError(instance, f"has more than {MOST_EXCLUDED} other volumes", "EC2 API, CreateSnapshots")
        arguments: AwsAnswer = {"InstanceId": instance, "ExcludeBootVolume": boot not in volumes}
        return arguments | ({"ExcludeDataVolumeIds": others} if others else {})

    def _make_arguments(self, volumes: Sequence[str], tags: Mapping[str, str], description: str) -> AwsAnswer:
        """Returns the arguments of CreateSnapshots for volumes of one instance. `rehearse` must
        have been called with the same volumes, else KeyError."""
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        arguments: AwsAnswer = {
            "InstanceSpecification": self._chosen[tuple(volumes)],
            "TagSpecifications": [{"ResourceType": "snapshot", "Tags": listed}],
        }
        return arguments | ({"Description": description} if description else {})

    def _find_boot_volume(self, instance: str) -> str | None:
        """Returns the volume that is attached as the root device."""
        answer = self._call("describe_instances", InstanceIds=[instance])
        for reservation in answer["Reservations"]:
            for description in reservation["Instances"]:
                for mapping in description.get("BlockDeviceMappings", ()):
                    if mapping.get("DeviceName") == description.get("RootDeviceName"):
                        return mapping.get("Ebs", {}).get("VolumeId")
        return None

    def tag(self, snapshots: Sequence[str], tags: Mapping[str, str]) -> None:
        """Calls CreateTags for all of them."""
        self._call("create_tags", Resources=list(snapshots), Tags=[{"Key": k, "Value": v} for k, v in tags.items()])

    def delete(self, snapshot: str) -> None:
        """Deletes a snapshot, to the recycle bin where a rule keeps it."""
        self._call_unless_gone("delete_snapshot", SnapshotId=snapshot)

    def list_stored(self) -> list[StoredSnapshot]:
        """Returns the snapshots of this account that belong to a set, page by page."""
        snapshots = self._call_pages("describe_snapshots", "Snapshots", OwnerIds=["self"], Filters=[{"Name": "tag-key", "Values": [SET]}])  # fmt: skip
        return [_parse_snapshot(snapshot) for snapshot in snapshots]

    def get_time(self) -> datetime:
        """Returns the wall-clock time."""
        return datetime.now(UTC)

    def create_volume(self, snapshot: StoredSnapshot, spec: str, name: str, tags: Mapping[str, str]) -> str:
        """Makes a volume in the zone that the volume was in, unless another was named."""
        zone = self.zone or str(snapshot.member.get("zone") or "")
        if not zone:
            raise refuse.input(snapshot.id, "its zone is not known", "Add --zone.")
        listed = [{"Key": key, "Value": value} for key, value in ({"Name": name} | dict(tags)).items()]
        volume = self._call(
            "create_volume",
            SnapshotId=snapshot.id,
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "volume", "Tags": listed}],
            **parse_order(spec),
        )
        return volume["VolumeId"]

    def delete_volume(self, volume: str) -> None:
        """Deletes a volume that is not attached."""
        self._call_unless_gone("delete_volume", VolumeId=volume)

    # --- calls ---

    def _call(self, name: str, **arguments: object) -> AwsAnswer:
        """Makes a call. Raises InputError with the error's code as `kind`, or CouldNotRun where
        no answer came, or an error of AWS's own side: the call may have been carried out then."""
        client = self._once if name == "create_snapshots" else self._client
        operation: Callable[..., AwsAnswer] = getattr(client, name)

        def make_refusal(code: str, message: str, answer: AwsAnswer) -> HeadraceError:
            source, hint = "EC2 API, error codes", ""
            if answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500:
                return CouldNotRun(f"EC2 {name}", f"{code}: {message[:300]}", source, "Try again later.", kind=code)
            if code in REFUSED:
                source, hint = refuse.source, "The guide has the policy that it takes."
            return InputError(f"EC2 {name}", f"{code}: {message[:300]}", source, hint, kind=code)

        def make_failure(error: Exception) -> CouldNotRun:
            rule = f"could not be called: {str(error)[:300]}"
            return refuse.run(f"EC2 {name}", rule, "Is there a network, a region, a profile?")

        with translate_errors(make_refusal, make_failure):
            return operation(**arguments)

    def _call_pages(self, name: str, member: str, **arguments: object) -> list[AwsAnswer]:
        """Calls an operation until its answers have no NextToken, and returns the entries of
        `member`."""
        entries: list[AwsAnswer] = []
        token: dict[str, str] = {}
        while True:
            page = self._call(name, **arguments, **token)
            entries += page[member]
            if not page.get("NextToken"):
                return entries
            token = {"NextToken": page["NextToken"]}

    def _call_unless_gone(self, name: str, **arguments: object) -> None:
        """Makes a call, and ignores that the snapshot or volume is not there any more."""
        try:
            self._call(name, **arguments)
        except InputError as error:
            if error.kind not in GONE:
                raise


def _open_clients(profile: str | None, region: str | None) -> tuple[AwsClient, AwsClient]:
    """Returns a patient client of EC2 and that of calls which are tried once, with the same
    credentials. Raises InputError without credentials or region, CouldNotRun without boto3."""
    try:
        session = open_session(profile, region)
        return make_client("ec2", PATIENT, session=session), make_client("ec2", ONCE, session=session)
    except InputError as error:
        source = error.source if error.source == CREDENTIALS else refuse.source
        hint = error.hint if error.source == CREDENTIALS else "Set AWS_REGION, or add --region."
        raise InputError("EC2", error.rule, source, hint) from None


def _parse_snapshot(described: AwsAnswer) -> StoredSnapshot:
    """Returns a snapshot as DescribeSnapshots or CreateSnapshots describes it; `started_at` is ISO
    8601."""
    started = described["StartTime"]
    return StoredSnapshot(
        id=described["SnapshotId"],
        volume=described.get("VolumeId", ""),
        size_gib=described["VolumeSize"],
        state=described["State"],
        started_at=started if isinstance(started, str) else started.isoformat(timespec="milliseconds"),
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags", ())},
        copy=described.get("VolumeId") == NO_VOLUME,
    )
