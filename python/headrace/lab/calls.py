"""Every call of headraced as a method, and what it answers.

Generated from crates/protocol by `make generate`: edit there. Answers are plain dicts,
as JSON has them. Units are in the names; times are text in UTC, ISO 8601.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any, NotRequired, TypedDict

# Attach measures the machine's path first; detach, delete and down write back and free what a
# volume holds. Three minutes are a guess at the slowest disk.
LONG_CALL_S = 180.0


def _given(names: dict[str, object]) -> dict[str, Any]:
    """Returns the arguments of a method, from the names in it."""
    return {name: value for name, value in names.items() if name != "self"}


class InstanceBalance(TypedDict):
    """Credits of the instance, percent. A type of credit that it does not have is null."""

    iops_percent: float | None  # I/O credits.
    bytes_percent: float | None  # Byte credits.


class RecordStatus(TypedDict):
    """A record that is being written."""

    path: str  # Path of the file.
    broken: str | None  # Reason why it is not whole; null if nothing was lost.


class Leftovers(TypedDict):
    """Mounts and loop devices that an earlier daemon had left and this one released at its
    start.
    """

    released: int  # Loop devices that were released.
    unmounted: int  # Mounts taken down.
    busy: list[str]  # Loop devices that are still in use.


class LabStatus(TypedDict):
    """The lab as a whole."""

    version: str  # Version of the daemon.
    pid: int  # Process id.
    data_dir: str  # Data directory.
    socket: str  # Socket.
    # EC2 instance type whose limits all volumes share; null for volumes without an instance.
    instance_type: str | None
    instance_id: str  # EC2's id of this machine as an instance.
    zone: str  # The lab's one availability zone.
    zone_id: str  # Id of the availability zone.
    encryption_by_default: bool  # True if new volumes are encrypted that do not ask for it.
    as_of: str  # Day of the limits of new volumes.
    time_scale: int  # Speed of lab time, a multiple of the wall clock's.
    region: str  # Region of the prices.
    uptime_s: float  # Seconds since the start of the daemon.
    lab_time: str  # Lab time now.
    volumes: int  # Number of volumes.
    attached: int  # Number of attached volumes.
    metrics_url: str | None  # URL of the metrics for Prometheus; null if they are not served.
    instance_balance: InstanceBalance | None  # Credits of the instance; null without an instance.
    recording: RecordStatus | None  # The record that is being written; null without one.
    journal_bytes: int  # Size of the journal.
    # Sentence about the end of the journal that a crash had damaged and that was cut off; null if
    # it was whole.
    journal_repaired: str | None
    leftovers: Leftovers  # Mounts and loop devices that an earlier daemon had left.
    waiting: int | None  # Requests that are in the devices now.
    metrics_rows_lost: int  # Rows of metrics that could not be written.


class TimeHistogram(TypedDict):
    """A histogram of times since the start of the daemon."""

    # Requests that took at most each of `bounds_s`, and behind those all requests.
    counts: list[int]
    sum_s: float  # The sum of their times, s.


class VolumeTotals(TypedDict):
    """Counters of a volume, or of a member of an array, since the start of the daemon. An array
    has counters of its own and those of each member: they are not added up.
    """

    volume: str  # The volume's id.
    member: int | None  # Index in the array; null for the volume as a whole.
    reads: int  # Read requests answered.
    writes: int  # Write requests answered.
    read_bytes: int  # Bytes read.
    write_bytes: int  # Bytes written.
    read_s: float  # Time of read requests from arrival to answer, summed, s.
    write_s: float  # Time of write requests from arrival to answer, summed, s.
    exceeded_iops_s: float  # Time during which requests waited for the IOPS of the volume, s.
    # Time during which requests waited for the throughput of the volume, s.
    exceeded_throughput_s: float
    # Time during which requests waited for the EBS IOPS of the instance, s.
    instance_exceeded_iops_s: float
    # Time during which requests waited for the EBS throughput of the instance, s.
    instance_exceeded_throughput_s: float
    # Time during which requests waited, s, by the limit that they waited for.
    waiting_s: dict[str, float]
    errors: int  # Requests answered with an error.
    flushes: int  # Flushes.
    idle_s: float  # Time with no request in flight, s.
    queue_s: float  # Requests in flight times time, s: its rate is the mean queue length.
    # Times of read requests from arrival to answer, with waits for caps.
    read_latency: TimeHistogram
    # Times of write requests from arrival to answer, with waits for caps.
    write_latency: TimeHistogram
    # Delay of answers behind the time that the model gave them. The sum is estimated from the
    # middles of the meter's buckets.
    late: TimeHistogram


class VolumeGauges(TypedDict):
    """Present values of an attached volume."""

    volume: str  # The volume's id.
    queue_length: int  # Requests in flight.
    balance: float | None  # Credits of the member with the least, 1 when full; null if it has none.


class LabTotals(TypedDict):
    """Everything that was counted since the start of the daemon, and present values."""

    bounds_s: list[float]  # Upper bounds of the buckets of all histograms, s, ascending.
    volumes: list[VolumeTotals]  # Counters of volumes and of members of arrays.
    attached: list[VolumeGauges]  # Present values of attached volumes.
    # Credits of the instance, 1 when full, by kind: `ios`, `bytes`. A kind that it does not have is
    # missing.
    instance_balance: dict[str, float]
    rows_dropped: int  # Rows of metrics that could not be written, as on a full disk.


class Member(TypedDict):
    """A member of an array, or the single volume."""

    index: int  # Index in the array.
    id: str  # Id: that of the volume, with -m0 and so on behind it in an array.
    spec: str  # Storage notation.
    state: str  # `ok`, `slow`, `failed` or `rebuilding`.
    # True if an array with redundancy loses data with this member, because other members have
    # failed.
    last_copy: bool
    caps_percent: NotRequired[float]  # Share of its caps that remains, percent; only if it is slow.
    extra_ms: NotRequired[float]  # Latency added to each request, ms; only if it is slow.
    done_percent: NotRequired[float]  # Progress of the rebuild, percent; only if it is rebuilding.
    mib_s: NotRequired[int]  # Most MiB/s of the rebuild; only if there is such a limit.
    iops: int | None  # Most I/Os a second without credits.
    throughput_mib_s: int | None  # Most MiB/s without credits.
    balance_percent: float | None  # Credits, percent; null if it has none.


class Ceiling(TypedDict):
    """Highest rates of this machine, measured at attach."""

    iops: int  # Operations a second.
    mib_s: int  # MiB/s.


class Attachment(TypedDict):
    """A volume's block device, or its way there."""

    id: str  # Id.
    state: str  # `attaching`, `attached`, `detaching` or `busy`.
    instance: str  # EC2's id of the instance.
    delete_on_termination: bool  # True if the volume is deleted with the instance.
    name: str  # Attach name, like `sdf`.
    device: str | None  # The block device, like /dev/loop3; null until it is there.
    links: list[str] | None  # Stable names of the device: by id, by attach name.
    attached_at: str | None  # Lab time since which the device is there.
    # Latency of the machine's own path, taken out of the model's; null if it was not measured.
    path_us: float | None
    ceiling: Ceiling | None  # Highest rates of this machine; null if they were not measured.
    warnings: list[str]  # Sentences about limits of the volume that this machine cannot reach.
    unpaced: bool  # True if requests complete without the model's delays.
    busy: str | None  # Reason why it is busy; null if it is not.


class VolumeShape(TypedDict):
    """Type, size and limits before or after a modification, as EC2 shows them; for an array, all
    members together.
    """

    type: str  # Type of the first member.
    size_gib: int  # Usable size, GiB.
    iops: int  # IOPS, provisioned or baseline, without credits.
    throughput_mib_s: int  # MiB/s, provisioned or baseline, without credits.


# A word that Python reserves cannot be written as a field of a class.
_ModificationKeywords = TypedDict("_ModificationKeywords", {"from": str})


class Modification(_ModificationKeywords):
    """A modification. Times are lab time."""

    id: str  # Id.
    volume: str  # The volume's id.
    # `modifying` (all as before), `optimizing` (new type and size, limits in between), `completed`
    # (new limits) or `failed` (all as before).
    state: str
    progress_percent: int  # Share of optimizing that is done, by time.
    to: str  # The volume afterwards, in storage notation.
    original: VolumeShape  # The volume before.
    target: VolumeShape  # The volume afterwards.
    start: str  # Time of its acceptance.
    optimizing_at: str  # Beginning of optimizing.
    completed_at: str  # Planned time of its completion.
    next_allowed_at: str  # Time from which the next modification of this volume is accepted.
    end: str | None  # Time of its completion or failure; null while it runs.
    reason: str | None  # Reason of the failure; null if it did not fail.


class Initialization(TypedDict):
    """Progress of loading a volume from its snapshot."""

    state: str  # `initializing` or `completed`.
    type: str  # `provisioned-rate`, or `default`: on first touch.
    progress_percent: float  # Share of the snapshot's blocks that are loaded.
    blocks_left: int  # Blocks of 512 KiB that are not loaded yet.
    rate_mib_s: int | None  # Provisioned rate, MiB/s; null if blocks load on first touch alone.
    # Seconds until everything is loaded, at that rate; null if it is not known.
    remaining_s: int | None
    fast: bool  # True if it was made with fast snapshot restore: first touch costs nothing.


class LabVolume(TypedDict):
    """A volume, or an array that is used as one."""

    id: str  # Id.
    name: str | None  # Unique name; null without one.
    spec: str  # Storage notation.
    type: str  # Type of the first member.
    size_gib: int  # Usable size, GiB.
    iops: int  # IOPS, provisioned or baseline, all members together, without credits.
    throughput_mib_s: int  # MiB/s, provisioned or baseline, all members together, without credits.
    raid: str | None  # RAID level; null for a single volume.
    members: list[Member]  # Members in the order of the array; a single volume is its own member.
    # True while copies or parity of the array, which may differ after an end in the middle of
    # writes, are made equal.
    resyncing: bool
    state: str  # `creating`, `available`, `in-use`, `deleting` or `error`.
    error: str | None  # Reason of the state error; null in other states.
    created_at: str  # Lab time of its creation.
    as_of: str  # Day of its limits.
    zone: str  # Availability zone.
    zone_id: str  # Id of the availability zone.
    encrypted: bool  # True if it is encrypted.
    kms_key: str | None  # ARN of the key that wraps its data key; null if it is not encrypted.
    auto_enable_io: bool  # EC2's AutoEnableIO: true if I/O goes on after a check that failed.
    tags: dict[str, str]  # Tags.
    used_gib: float | None  # Space of its files on the disk; null if it is not known.
    attachment: Attachment | None  # Block device; null if it is not attached.
    modification: Modification | None  # The modification under way; null without one.
    # Credits of the member with the least, percent; null if it has none.
    balance_percent: float | None
    faults: int  # Faults that wait or last.
    recording: str | None  # Path of the record that is being written; null without one.
    snapshot: str | None  # Id of the snapshot it was made from; null if it was made empty.
    source_volume: str | None  # Id of the volume it is a copy of; null if it is not a copy.
    # True if its snapshot had fast restore when it was made; null if it was made empty.
    fast_restored: bool | None
    # Rate at which it is loaded in the background; null if blocks load on first touch alone.
    initialization_rate_mib_s: int | None
    # Progress of loading its snapshot; null if it was made empty.
    initialization: Initialization | None


class AttachmentFacts(TypedDict):
    """A volume's attachment."""

    state: str  # `attaching`, `attached`, `detaching` or `busy`.
    instance: str  # EC2's id of the instance.
    delete_on_termination: bool  # True if the volume is deleted with the instance.
    name: str  # Attach name, like `sdf`.
    attached_at: str | None  # Lab time since which the device is there.


class VolumeFacts(TypedDict):
    """Facts about a volume that change with an event only, not with time or I/O. Their meaning
    is that of LabVolume.
    """

    id: str  # Id.
    type: str  # Type of the first member.
    size_gib: int  # Usable size, GiB.
    iops: int  # IOPS, provisioned or baseline, all members together, without credits.
    throughput_mib_s: int  # MiB/s, provisioned or baseline, all members together, without credits.
    state: str  # `creating`, `available`, `in-use`, `deleting` or `error`.
    created_at: str  # Lab time of its creation.
    zone: str  # Availability zone.
    zone_id: str  # Id of the availability zone.
    encrypted: bool  # True if it is encrypted.
    kms_key: str | None  # ARN of the key that wraps its data key; null if it is not encrypted.
    tags: dict[str, str]  # Tags.
    attachment: AttachmentFacts | None  # Attachment; null if it is not attached.
    snapshot: str | None  # Id of the snapshot it was made from; null if it was made empty.
    source_volume: str | None  # Id of the volume it is a copy of; null if it is not a copy.
    # True if its snapshot had fast restore when it was made; null if it was made empty.
    fast_restored: bool | None
    # Rate at which it is loaded in the background; null if blocks load on first touch alone.
    initialization_rate_mib_s: int | None


class VolumeChanges(TypedDict):
    """Volumes that changed since a version, or all."""

    version: str  # The version of this answer.
    whole: bool  # True if these are all volumes by id, in pages, which replace the caller's copy.
    volumes: list[VolumeFacts]  # Volumes as they are now.
    gone: list[str]  # Ids of volumes that are gone.
    next: str | None  # The id after which the next page begins; null on the last page.


class SnapshotBlocks(TypedDict):
    """The blocks of a snapshot."""

    stored_bytes: int  # Bytes of blocks that were stored for it.
    full_bytes: int  # Bytes of all its blocks.


class Lock(TypedDict):
    """A lock against deletion. Times are lab time."""

    state: str  # `governance`, `compliance-cooloff`, `compliance` or `expired`.
    mode: str  # `governance` or `compliance`.
    created_at: str  # Time at which it was set.
    expires_at: str  # Time at which it ends.
    duration_days: int  # Whole days from its beginning to its end.
    cool_off_hours: int | None  # The cooling-off period as it was asked for; null without one.
    cool_off_until: str | None  # End of the cooling-off period; null without one.


class Bin(TypedDict):
    """A stay in the recycle bin. Times are lab time."""

    entered_at: str  # Time of the snapshot's deletion.
    exit_at: str  # Time at which it leaves the bin for good.
    rule: str  # The rule that keeps it.


class Snapshot(TypedDict):
    """A snapshot. Times are lab time."""

    id: str  # Id.
    # Id of the volume; null for a copy, and for a snapshot that was put block by block.
    volume: str | None
    size_gib: int  # Size of the volume at the instant, GiB.
    state: str  # `pending`, `completed` or `error`.
    error: str | None  # Reason of the state error; null in other states.
    progress_percent: int  # Progress of storing it.
    started_at: str  # Time of the request: the instant of its data.
    completed_at: str | None  # Time at which everything was stored; null until then.
    description: str  # Description.
    tags: dict[str, str]  # Tags.
    encrypted: bool  # True if its blocks are encrypted.
    kms_key: str | None  # ARN of the key that wraps its data key; null if it is not encrypted.
    source: str  # `volume`, `copy` or `direct`.
    copy_of: str | None  # The snapshot that a copy was made from; null for others.
    parent: str | None  # The earlier snapshot whose stored blocks it uses; null without one.
    blocks: SnapshotBlocks  # Blocks, in bytes.
    lock: Lock | None  # Lock; null if it was never locked.
    shared_with: list[str]  # Accounts that may make volumes from it.
    bin: Bin | None  # Stay in the recycle bin; null if it is not in the bin.
    schedule: str | None  # The schedule that made it; null without one.


class SnapshotList(TypedDict):
    """Snapshots in order of their ids."""

    snapshots: list[Snapshot]  # Snapshots.
    next: str | None  # Argument `after` of the next page; null on the last page.


class SnapshotChanges(TypedDict):
    """Snapshots that changed since a version, or all."""

    version: str  # The version of this answer.
    whole: bool  # True if these are all snapshots by id, in pages, which replace the caller's copy.
    snapshots: list[Snapshot]  # Snapshots as they are now.
    gone: list[str]  # Ids of snapshots that are gone.
    next: str | None  # The id after which the next page begins; null on the last page.


class SnapshotOffer(TypedDict):
    """Facts that another lab needs for a copy of a snapshot."""

    store: str  # URL of the object store that has it.
    kms_key: str | None  # ARN of the key that wraps its data key; null if it is not encrypted.
    # Data key of the snapshot, wrapped, in base64; null if it is not encrypted.
    wrapped: str | None
    context: str | None  # Encryption context of the wrapped data key: its `aws:ebs:id`.


class FastRestore(TypedDict):
    """Fast snapshot restore in a zone. Times are lab time, and null if it was never in that
    state.
    """

    snapshot: str  # Id of the snapshot.
    zone: str  # Zone.
    state: str  # `enabling`, `optimizing`, `enabled`, `disabling` or `disabled`.
    enabling_at: str | None  # Time of the request.
    optimizing_at: str | None  # Time at which optimizing began.
    enabled_at: str | None  # Time at which it was ready.
    disabling_at: str | None  # Time at which it was switched off.
    disabled_at: str | None  # Time at which it was gone.
    credits: float  # Volumes that can be made now without first touch.
    credits_max: int  # Most credits.


class FastRestoreFailure(TypedDict):
    """Fast snapshot restore that could not be switched."""

    snapshot: str  # Id of the snapshot.
    zone: str  # Zone.
    kind: str  # Kind of the refusal.
    code: str  # AWS's error code.
    message: str  # Reason, as AWS says it.


class FastRestores(TypedDict):
    """Fast snapshot restores."""

    fast_restores: list[FastRestore]  # Fast restores by snapshot and zone.
    failures: list[FastRestoreFailure]  # Snapshots and zones that were refused.


class RetentionRule(TypedDict):
    """A rule that keeps deleted snapshots in the recycle bin."""

    name: str  # Unique name; a rule of that name is replaced.
    days: int  # Days that deleted snapshots are kept, 1 to 365.
    tags: dict[str, str] | None  # Snapshots with one of these tags.
    description: str | None  # Description.


class Schedule(TypedDict):
    """A schedule. Times are lab time."""

    name: str  # Name.
    target_tags: dict[str, str]  # Volumes with one of these tags.
    interval_s: int  # Seconds of lab time between two runs.
    keep: int | None  # Snapshots of each volume that are kept; null if they are kept by age.
    keep_days: int | None  # Days that snapshots are kept; null if they are kept by count.
    tags: dict[str, str]  # Tags of its snapshots.
    copy_tags: bool  # True if its snapshots also get the tags of their volumes.
    enabled: bool  # True if the schedule is in force.
    next_at: str  # Time of its next run.
    last_at: str | None  # Time of its last run; null if it never ran.


class Block(TypedDict):
    """A block of a snapshot."""

    block: int  # Index, in blocks of 512 KiB.
    token: str | None  # Token of the block; null if this snapshot does not have it.
    # Token of the block in the earlier snapshot; null if that does not have it.
    since_token: str | None


class Blocks(TypedDict):
    """Blocks of a snapshot, in order of their index."""

    blocks: list[Block]  # Blocks.
    next: int | None  # Argument `start` of the next page; null on the last page.
    size_gib: int  # Size of the snapshot's volume, GiB.
    tokens_until_s: int  # End of the tokens' validity, Unix seconds of the wall clock.


class BlockData(TypedDict):
    """The bytes of a block."""

    data: str  # 512 KiB in base64.
    checksum: str  # SHA-256 of the bytes in base64.


class ColdBlocks(TypedDict):
    """Blocks of a volume that are still in its snapshot."""

    blocks: list[int]  # Indices, in blocks of 512 KiB, in order.
    next: int | None  # Argument `start` of the next page; null on the last page.
    remaining: int  # Number of all such blocks.


class MemberBalance(TypedDict):
    """Credits of a member: I/Os of gp2, bytes of st1 and sc1."""

    credits: int  # Credits now.
    capacity: int  # Credits when full.
    percent: float  # Credits now, percent.


class Balance(TypedDict):
    """Credit balances now."""

    members: list[MemberBalance | None]  # Credits of each member; null if it has none.
    instance: InstanceBalance | None  # Credits of the instance; null without an instance.
    state: Any  # State for `volume.restore_balance`; it has no other use.


class Fault(TypedDict):
    """A fault with its exact times on the wall clock."""

    id: str  # Id.
    kind: str  # Kind of the fault, as in the request.
    starts_at: str | None  # Time at which it begins.
    # Time at which it ends; null for a power cut, which lasts until the volume is attached again.
    ends_at: str | None
    seed: int | None  # Seed of a power cut; null for other faults.


class MetricsRows(TypedDict):
    """Rows of metrics, oldest first. A value is null if it is not known, or if nothing happened."""

    columns: list[str]  # Names of the columns.
    rows: list[list[Any]]  # A value for each column.


class RecordStarted(TypedDict):
    """A record that was begun."""

    path: str  # Path of the file.


class RecordStopped(TypedDict):
    """A record that was ended."""

    path: str  # Path of the file.
    requests: int  # Requests in it.


class KeyGrant(TypedDict):
    """A permission to use a key, next to its policy."""

    id: str  # Id.
    grantee: str  # Principal that may use the key.
    retiring: str | None  # Principal that may end the grant.
    operations: list[str]  # Operations of KMS that the grant allows.
    name: str | None  # Name.
    constraints: str | None  # Constraints, as JSON text.
    created_at: str  # Lab time of its creation.


class Key(TypedDict):
    """A key, without its material."""

    id: str  # Id: a UUID.
    arn: str  # Amazon Resource Name.
    description: str  # Description.
    policy: str  # Policy document, as JSON text; "": the default one.
    state: str  # `Enabled`, `Disabled` or `PendingDeletion`.
    managed: bool  # True if EBS made it for itself.
    elsewhere: str | None  # Key and endpoint in KMS elsewhere; null if the key is kept here.
    created_at: str  # Lab time of its creation.
    deletion_at: str | None  # Lab time of its deletion; null if none is planned.
    tags: dict[str, str]  # Tags.
    aliases: list[str]  # Names of its aliases.
    grants: list[KeyGrant]  # Grants of the key.


class KeyAlias(TypedDict):
    """A name of a key."""

    alias: str  # Name of the alias, with `alias/`.
    arn: str  # Amazon Resource Name.
    key: str  # Id of the key.
    created_at: str  # Lab time of its creation.
    updated_at: str  # Lab time since which it leads to this key.


class KeyList(TypedDict):
    """Keys and aliases."""

    keys: list[Key]  # Keys, by id.
    aliases: list[KeyAlias]  # Aliases, by name.


class Ciphertext(TypedDict):
    """A ciphertext."""

    ciphertext: str  # Ciphertext in base64.
    key: str  # ARN of the key.


class ExportedKey(TypedDict):
    """A key with its material, for another lab. The owner of this material can read all that the
    key protects.
    """

    id: str  # Id: a UUID.
    arn: str  # Amazon Resource Name in this lab.
    description: str  # Description.
    material: str  # The 32 bytes of the key, in base64.


class Plaintext(TypedDict):
    """A plaintext."""

    plaintext: str  # Plaintext in base64.
    key: str  # ARN of the key.


class ReEncrypted(TypedDict):
    """A ciphertext under another key."""

    ciphertext: str  # Ciphertext in base64.
    key: str  # ARN of the key.
    source_key: str  # ARN of the key before.


class DataKey(TypedDict):
    """A data key."""

    ciphertext: str  # The data key, wrapped, in base64.
    # The data key in the clear, in base64; null if the request did not ask for it.
    plaintext: str | None
    key: str  # ARN of the key that wraps it.


class EncryptionDefaults(TypedDict):
    """Encryption by default."""

    by_default: bool  # True if new volumes are encrypted that do not ask for it.
    # ARN of the key of new encrypted volumes that name none; `alias/aws/ebs` for the key that EBS
    # makes for itself.
    key: str


class StatisticsPage(TypedDict):
    """The NVMe statistics page."""

    page_hex: str  # The page's 4,096 bytes in hexadecimal.


class MetricName(TypedDict):
    """The name of a metric."""

    namespace: str  # Namespace.
    name: str  # Name.
    dimensions: dict[str, str]  # Dimensions by name.


class MetricNames(TypedDict):
    """Metrics, by namespace, name and dimensions."""

    metrics: list[MetricName]  # Metrics.
    next_token: str | None  # Token for the rest; null without any.


class Datapoint(TypedDict):
    """A period with values."""

    t_s: int  # Beginning of the period, Unix seconds.
    unit: str  # Unit of its values.
    values: Any  # Statistics by name.


class MetricStatistics(TypedDict):
    """Statistics of a metric."""

    label: str  # The name of the metric.
    datapoints: list[Datapoint]  # Periods with values, oldest first.


class MetricResult(TypedDict):
    """Points of a query."""

    id: str  # Id of the query. An expression that gives several series has a result for each.
    label: str  # Label.
    status: str  # `Complete`, or `PartialData` where the next answer goes on with it.
    times_s: list[int]  # Beginnings of the periods, Unix seconds.
    values: list[float]  # Values of the periods.


class MetricData(TypedDict):
    """Points of metrics and expressions."""

    results: list[MetricResult]  # Results in the order of the queries.
    next_token: str | None  # Token for the rest; null without any.


class Alarm(TypedDict):
    """An alarm. Times are those of the wall clock, in Unix seconds."""

    arn: str  # ARN.
    alarm: Any  # The members of PutMetricAlarm, but for tags.
    tags: dict[str, str]  # Tags.
    configured_s: float  # Time of the last configuration.
    state: str  # `OK`, `ALARM` or `INSUFFICIENT_DATA`.
    reason: str  # Reason of the state.
    reason_data: str | None  # Reason of the state, as JSON; null if it is not known.
    state_s: float  # Time at which the state was set last.
    transitioned_s: float  # Time at which the state became another.


class AlarmList(TypedDict):
    """Alarms by name."""

    alarms: list[Alarm]  # Alarms.
    next_token: str | None  # Token for the rest; null without any.


class AlarmHistoryItem(TypedDict):
    """An item of the history of an alarm."""

    name: str  # Name of the alarm.
    t_s: float  # Time, Unix seconds of the wall clock.
    kind: str  # `ConfigurationUpdate`, `StateUpdate` or `Action`.
    summary: str  # Sentence about the item.
    data: str  # Data about the item, as JSON.


class AlarmHistory(TypedDict):
    """History of alarms."""

    items: list[AlarmHistoryItem]  # Items.
    next_token: str | None  # Token for the rest; null without any.


class LabEvents(TypedDict):
    """Events of the lab."""

    events: list[Any]  # Events as EventBridge writes them, oldest first.
    cursor: str  # Cursor for the events that follow.
    lost: int  # Number of events after the cursor that were no longer kept.


class Calls(ABC):
    """The calls of the socket protocol (docs/reference/lab-protocol.md).

    A volume is named by its id or its unique name. An argument that is None is left out.
    """

    timeout_s: float  # the longest wait for an answer

    @abstractmethod
    def call(
        self,
        name: str,
        timeout_s: float | None = None,
        /,
        *,
        token: str | None = None,
        dry_run: bool = False,
        **args: Any,
    ) -> Any:
        """Makes a call and returns its answer.

        timeout_s: another wait for this one.
        token: done once, however often it is called with this token and the same arguments.
        dry_run: only decided; always refused, as `dry-run` where it would have been done.
        """

    def status(self) -> LabStatus:
        """Version, instance, day, clock, directory and volumes of the lab."""
        return self.call("lab.status")

    def down(self, force: bool = False) -> dict[str, object]:
        """Flushes and takes away every device, and ends the daemon after the answer. Attachments
        stay noted: the next start makes the devices again. Refused as `in-use` while something
        is mounted, unless forced.

        force: True to end it also while something is mounted: its users then see I/O errors.
            Default: false.
        """
        return self.call("lab.down", max(self.timeout_s, LONG_CALL_S), force=force)

    def calls(self) -> list[str]:
        """Names every call of this page."""
        return self.call("lab.calls")["calls"]

    def metrics_totals(self) -> LabTotals:
        """Counters of volumes since the start of the daemon, and present values: what the
        endpoint for Prometheus serves, as numbers.
        """
        return self.call("metrics.totals")

    def create(
        self,
        spec: str | None = None,
        name: str | None = None,
        *,
        tags: dict[str, str] | None = None,
        as_of: str | None = None,
        balance_percent: float | None = None,
        snapshot: str | None = None,
        initialization_rate_mib_s: int | None = None,
        volume_type: str | None = None,
        size_gib: int | None = None,
        iops: int | None = None,
        throughput_mib_s: int | None = None,
        zone: str | None = None,
        zone_id: str | None = None,
        encrypted: bool | None = None,
        kms_key: str | None = None,
        multi_attach: bool = False,
    ) -> LabVolume:
        """Makes a volume or array. The files are sparse and take no space yet.

        spec: Storage notation, like `gp2:500` or `raid10:4xgp3:500`. Default: type, size, IOPS
            and MiB/s one by one.
        name: A unique name. Default: none.
        tags: Tags: at most 50, keys up to 128 and values up to 256 characters. Default: none.
        as_of: Day of its limits, `YYYY-MM-DD`. Default: the lab's day.
        balance_percent: Credit balance to begin with, 0 to 100. Default: full, as AWS starts
            volumes.
        snapshot: Id of the snapshot it is made from: usable at once, blocks load on first
            touch. Default: none: empty.
        initialization_rate_mib_s: Rate at which the snapshot's blocks are loaded in the
            background, 100 to 300 MiB/s. Default: none: on first touch alone.
        volume_type: Type, like `gp3`. Default: gp2.
        size_gib: Size, GiB. Default: an error without a notation.
        iops: Provisioned IOPS. Default: what the type includes.
        throughput_mib_s: Provisioned MiB/s. Default: what the type includes.
        zone: Availability zone; the lab has one. Default: the lab's.
        zone_id: Id of the availability zone. Default: the lab's.
        encrypted: True to encrypt it; encryption by default wins over false. Default: as
            encryption by default says.
        kms_key: The key that wraps its data key: id, ARN or alias. Default: the default key.
        multi_attach: True for several instances at once: refused, the lab has one. Default:
            false.
        """
        return self.call("volume.create", **_given(locals()))

    def copy(
        self,
        volume: str,
        name: str | None = None,
        *,
        tags: dict[str, str] | None = None,
        volume_type: str | None = None,
        size_gib: int | None = None,
        iops: int | None = None,
        throughput_mib_s: int | None = None,
        encrypted: bool | None = None,
        kms_key: str | None = None,
        multi_attach: bool = False,
    ) -> LabVolume:
        """Makes a copy of a volume as it is now, in use or not. It is `creating` until all bytes
        are on disk; `initialization` says how far it is.

        name: A unique name. Default: none.
        tags: Tags: at most 50, keys up to 128 and values up to 256 characters. Default: none.
        volume_type: Type. Default: gp2, as EC2 has it.
        size_gib: Size, GiB; never below that of the source. Default: that of the source.
        iops: Provisioned IOPS. Default: as AWS gives.
        throughput_mib_s: Provisioned MiB/s. Default: as AWS gives.
        encrypted: True to encrypt it. The copy of an encrypted volume always is. Default: as
            the source, else as the lab's default says.
        kms_key: KMS key. Default: that of the source, else the default key.
        multi_attach: True for several instances at once: refused, the lab has one. Default:
            false.
        """
        return self.call("volume.copy", **_given(locals()))

    def volumes(
        self,
        volumes: list[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[LabVolume]:
        """All volumes, or those named.

        volumes: Ids or unique names. Default: all.
        after: Id after which the list of all volumes begins. Default: from the first on.
        limit: Most volumes of the list of all. Default: no limit.
        """
        return self.call("volume.list", volumes=volumes, after=after, limit=limit)["volumes"]

    def volume_changes(
        self,
        since: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> VolumeChanges:
        """Volumes that changed since a version of an earlier answer; without one, or with one
        that is too old or of another run of the daemon, all of them in pages. The pages of a
        list may be of several versions: ask again with that of the first page when it is
        complete.

        since: The version of the last answer. Default: all.
        after: Id after which the list of all goes on. Default: the first.
        limit: Most records of an answer, up to 500. Default: 500.
        """
        return self.call("volume.changes", since=since, after=after, limit=limit)

    def describe(self, volume: str) -> LabVolume:
        """One volume."""
        return self.call("volume.describe", volume=volume)

    def delete(self, volume: str) -> dict[str, object]:
        """Deletes an available volume and its data."""
        return self.call("volume.delete", max(self.timeout_s, LONG_CALL_S), volume=volume)

    def attach(
        self,
        volume: str,
        name: str | None = None,
        unpaced: bool = False,
        probe: bool = True,
        device_name: str | None = None,
        instance: str | None = None,
    ) -> LabVolume:
        """Makes a block device of a volume: `attachment.device`; `attachment.links` are stable
        names of the device.

        name: Attach name like `sdf` or `/dev/sdf`. Default: the first free of sdf to sdp, then
            xvdba and so on.
        unpaced: True to answer without the model's delays: as fast as this machine goes.
            Default: false.
        probe: True to measure the machine's own path (at most once a minute) and take it out of
            the model's latency. Default: true.
        device_name: Attach name as EC2 takes it, like `/dev/sdf` or `/dev/xvdba`; instead of
            `name`. Default: none.
        instance: Id of the instance; the lab has one. Default: the lab's.
        """
        return self.call("volume.attach", max(self.timeout_s, LONG_CALL_S), **_given(locals()))

    def detach(
        self,
        volume: str,
        force: bool = False,
        instance: str | None = None,
        name: str | None = None,
        waits: bool = False,
    ) -> LabVolume:
        """Flushes and takes the device away. Refused as `in-use` while it is mounted or in an
        array of md, unless forced.

        force: True to detach it also while it is mounted or in an array of md: its users see
            I/O errors from then on. Default: false.
        instance: Id of the instance from which it is detached. Default: the lab's.
        name: Attach name that it must have. Default: any.
        waits: True to detach a volume in use as soon as it is not used any more, as on EC2: it
            is `busy` until then. Otherwise it is refused. Default: false.
        """
        return self.call("volume.detach", max(self.timeout_s, LONG_CALL_S), **_given(locals()))

    def modify(
        self,
        volume: str,
        size_gib: int | None = None,
        volume_type: str | None = None,
        iops: int | None = None,
        throughput_mib_s: int | None = None,
    ) -> Modification:
        """Changes a volume, in use or not. While `modifying` all is as before; from `optimizing`
        on the new size is there and limits are in between. A volume never shrinks; at most four
        modifications are accepted in a rolling 24 hours of lab time, and none while another
        runs.

        size_gib: Usable size afterwards, GiB; never smaller. Default: as it is.
        volume_type: Type afterwards. Default: as it is.
        iops: Provisioned IOPS afterwards. Default: as it is.
        throughput_mib_s: Provisioned MiB/s afterwards. Default: as it is.
        """
        return self.call("volume.modify", **_given(locals()))

    def modifications(self, volume: str | None = None) -> list[Modification]:
        """The last modifications of a volume, or of all.

        volume: Id or unique name. Default: all.
        """
        return self.call("volume.modifications", volume=volume)["modifications"]

    def set_attributes(
        self,
        volume: str,
        auto_enable_io: bool | None = None,
        delete_on_termination: bool | None = None,
    ) -> LabVolume:
        """Sets attributes.

        auto_enable_io: EC2's AutoEnableIO: true if I/O goes on after a check that failed.
            Default: as it is.
        delete_on_termination: True if an attached volume is deleted with the instance. Default:
            as it is.
        """
        return self.call("volume.attributes", **_given(locals()))

    def tag_resources(
        self,
        resources: list[str],
        set: dict[str, str] | None = None,
        remove: list[str] | None = None,
        remove_equal: dict[str, str] | None = None,
    ) -> dict[str, object]:
        """Removes tags of resources of any kind, then sets tags: of all, or of none where one of
        them is not there or would have too many.

        resources: Ids; a volume also by its name.
        set: Tags to add or overwrite, after removing. Default: none.
        remove: Keys to remove. Default: none.
        remove_equal: Keys to remove where they have this value. Default: none.
        """
        return self.call("resource.tag", **_given(locals()))

    def tag(
        self,
        volume: str,
        set: dict[str, str] | None = None,
        remove: list[str] | None = None,
    ) -> LabVolume:
        """Removes tags by key, then sets tags.

        set: Tags to add or overwrite, after removing. Default: none.
        remove: Keys to remove. Default: none.
        """
        return self.call("volume.tag", volume=volume, set=set, remove=remove)

    def create_snapshot(
        self,
        volume: str,
        description: str | None = None,
        tags: dict[str, str] | None = None,
    ) -> Snapshot:
        """Takes a snapshot of a volume, in use or not: of its bytes as they are at this call.
        The answer is `pending`; blocks are stored while the volume is used.

        description: Description, at most 255 characters. Default: none.
        tags: Tags: at most 50, keys up to 128 and values up to 256 characters. Default: none.
        """
        return self.call("snapshot.create", volume=volume, description=description, tags=tags)

    def create_snapshots(
        self,
        volumes: list[str],
        description: str | None = None,
        tags: dict[str, str] | None = None,
        copy_tags: bool = False,
    ) -> list[Snapshot]:
        """Takes snapshots of several volumes, all of one instant: all or none.

        volumes: Ids or unique names of the volumes.
        description: Description, at most 255 characters. Default: none.
        tags: Tags of each. Default: none.
        copy_tags: True if each also gets the tags of its volume. Default: false.
        """
        return self.call("snapshot.create_many", **_given(locals()))["snapshots"]

    def snapshots(
        self,
        snapshots: list[str] | None = None,
        volume: str | None = None,
        state: str | None = None,
        bin: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> SnapshotList:
        """Snapshots, page by page.

        snapshots: Ids. Default: all.
        volume: Id or unique name of their volume, which may be gone by now. Default: any.
        state: `pending`, `completed` or `error`. Default: any.
        bin: True for snapshots in the recycle bin, in place of all others. Default: false.
        after: Id after which the list goes on. Default: the first.
        limit: Most items of an answer. Default: 1000.
        """
        return self.call("snapshot.list", **_given(locals()))

    def snapshot_changes(
        self,
        since: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> SnapshotChanges:
        """Snapshots that changed since a version, as `volume.changes` has volumes; also those in
        the recycle bin. The state of a lock, which changes with time, is that of this answer.

        since: The version of the last answer. Default: all.
        after: Id after which the list of all goes on. Default: the first.
        limit: Most records of an answer, up to 500. Default: 500.
        """
        return self.call("snapshot.changes", since=since, after=after, limit=limit)

    def describe_snapshot(self, snapshot: str) -> Snapshot:
        """One snapshot.

        snapshot: Id.
        """
        return self.call("snapshot.describe", snapshot=snapshot)

    def delete_snapshot(self, snapshot: str) -> dict[str, object]:
        """Deletes a snapshot; one that a retention rule keeps goes to the recycle bin. Blocks
        that other snapshots need stay.

        snapshot: Id.
        """
        return self.call("snapshot.delete", snapshot=snapshot)

    def copy_snapshot(
        self,
        snapshot: str,
        store: str | None = None,
        region: str | None = None,
        encrypted: bool | None = None,
        kms_key: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
    ) -> Snapshot:
        """Copies a completed snapshot, of this lab or from another lab's object store. The copy
        has blocks of its own.

        snapshot: Id.
        store: Store of the source: URL of an object store, or `lab:///FOLDER`, another lab's
            data directory. Default: that of the region.
        region: Region that has it: this lab's, or one whose object store is known. Default:
            this lab's.
        encrypted: True to encrypt it; a copy of an encrypted snapshot always is. Default: as
            the source.
        kms_key: Id, ARN or alias of the key that wraps its data key. Default: that of the
            source, or the default.
        description: Description, at most 255 characters. Default: that of the source.
        tags: Tags. Default: none.
        """
        return self.call("snapshot.copy", **_given(locals()))

    def offer_snapshot(self, snapshot: str) -> SnapshotOffer:
        """Facts that another lab needs to copy a snapshot: it asks `key.decrypt` for the data
        key.

        snapshot: Id.
        """
        return self.call("snapshot.offer", snapshot=snapshot)

    def share_snapshot(
        self,
        snapshot: str,
        add: list[str] | None = None,
        remove: list[str] | None = None,
    ) -> Snapshot:
        """Removes and adds accounts that may make volumes from a snapshot. It is noted; the lab
        has one account.

        snapshot: Id.
        add: Account ids to add, of 12 digits each. Default: none.
        remove: Account ids to remove, before adding. Default: none.
        """
        return self.call("snapshot.share", snapshot=snapshot, add=add, remove=remove)

    def lock_snapshot(
        self,
        snapshot: str,
        mode: str,
        duration_days: int | None = None,
        expires_at: str | None = None,
        cool_off_hours: int | None = None,
    ) -> Snapshot:
        """Locks a snapshot against deletion, or changes its lock.

        snapshot: Id.
        mode: `governance` or `compliance`.
        duration_days: Duration of the lock, days, 1 to 36,500; either this or `expires_at`.
            Default: none.
        expires_at: End of the lock, lab time, ISO 8601. Default: none.
        cool_off_hours: Hours in which a lock in compliance mode can be taken away: 1 to 72.
            Default: none.
        """
        return self.call("snapshot.lock", **_given(locals()))

    def unlock_snapshot(self, snapshot: str) -> Snapshot:
        """Takes a lock away.

        snapshot: Id.
        """
        return self.call("snapshot.unlock", snapshot=snapshot)

    def set_fast_restore(
        self,
        snapshots: list[str],
        enable: bool,
        zones: list[str] | None = None,
    ) -> FastRestores:
        """Switches fast snapshot restore on or off.

        snapshots: Ids.
        enable: True for on, false for off.
        zones: Availability zones; the lab has one. Default: the lab's.
        """
        return self.call("snapshot.set_fast_restore", **_given(locals()))

    def fast_restores(self) -> list[FastRestore]:
        """Fast snapshot restores that are on, or were."""
        return self.call("snapshot.fast_restores")["fast_restores"]

    def recover_snapshot(self, snapshot: str) -> Snapshot:
        """Takes a snapshot out of the recycle bin.

        snapshot: Id.
        """
        return self.call("snapshot.recover", snapshot=snapshot)

    def set_retention_rule(
        self,
        name: str,
        days: int,
        tags: dict[str, str] | None = None,
        description: str | None = None,
    ) -> list[RetentionRule]:
        """Adds or replaces a retention rule of the recycle bin.

        name: Unique name; a rule of that name is replaced.
        days: Days that deleted snapshots are kept, 1 to 365.
        tags: Snapshots with one of these tags. Default: all snapshots.
        description: Description. Default: none.
        """
        return self.call("snapshot.set_rule", **_given(locals()))["rules"]

    def delete_retention_rule(self, name: str) -> dict[str, object]:
        """Takes a retention rule away. Snapshots that it keeps stay until their time.

        name: Name.
        """
        return self.call("snapshot.delete_rule", name=name)

    def retention_rules(self) -> list[RetentionRule]:
        """Retention rules of the recycle bin."""
        return self.call("snapshot.rules")["rules"]

    def set_schedule(
        self,
        name: str,
        interval_s: int,
        *,
        target_tags: dict[str, str] | None = None,
        keep: int | None = None,
        keep_days: int | None = None,
        tags: dict[str, str] | None = None,
        copy_tags: bool = False,
        disabled: bool = False,
    ) -> list[Schedule]:
        """Adds or replaces a schedule.

        name: Unique name; a schedule of that name is replaced.
        interval_s: Seconds of lab time between two runs, 60 or more.
        target_tags: Volumes with one of these tags. Default: refused: name one at least.
        keep: Snapshots of each volume that are kept, 1 to 1,000; either this or `keep_days`.
            Default: none.
        keep_days: Days that snapshots are kept. Default: none.
        tags: Tags of its snapshots. Default: none.
        copy_tags: True if its snapshots also get the tags of their volumes. Default: false.
        disabled: True if the schedule does not run. Default: false.
        """
        return self.call("snapshot.set_schedule", **_given(locals()))["schedules"]

    def delete_schedule(self, name: str) -> dict[str, object]:
        """Takes a schedule away; its snapshots stay.

        name: Name.
        """
        return self.call("snapshot.delete_schedule", name=name)

    def schedules(self) -> list[Schedule]:
        """Schedules."""
        return self.call("snapshot.schedules")["schedules"]

    def set_region(self, region: str, store: str | None = None) -> dict[str, str]:
        """Names the object store of another region, from which snapshots can then be copied.

        region: Name, like eu-west-1.
        store: URL: file:///FOLDER or s3://BUCKET/PREFIX; or `lab:///FOLDER`, the data directory
            of a lab of this machine, which also has the keys of its encrypted snapshots. Default:
            the region is forgotten.
        """
        return self.call("snapshot.set_region", region=region, store=store)["regions"]

    def regions(self) -> dict[str, str]:
        """Object stores of other regions."""
        return self.call("snapshot.regions")["regions"]

    def snapshot_blocks(
        self,
        snapshot: str,
        since: str | None = None,
        start: int | None = None,
        limit: int | None = None,
    ) -> Blocks:
        """Blocks of a completed snapshot, all or those that differ from an earlier one.

        snapshot: Id.
        since: An earlier snapshot: only blocks that differ from it. Default: every block.
        start: First index. Default: 0.
        limit: Most blocks of an answer, up to 10,000. Default: 1000.
        """
        return self.call("snapshot.blocks", **_given(locals()))

    def get_block(self, snapshot: str, block: int, block_token: str | None = None) -> BlockData:
        """The bytes of a block.

        snapshot: Id.
        block: Index, in blocks of 512 KiB.
        block_token: Token of the block, as listed. Default: not checked.
        """
        return self.call("snapshot.get_block", **_given(locals()))

    def start_snapshot(
        self,
        size_gib: int,
        parent: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        encrypted: bool | None = None,
        kms_key: str | None = None,
    ) -> Snapshot:
        """Begins a snapshot that is put block by block.

        size_gib: Size, GiB.
        parent: The snapshot that has the blocks which are not put. Default: none: they are
            zeros.
        description: Description, at most 255 characters. Default: none.
        tags: Tags. Default: none.
        encrypted: True to encrypt it. Refused with a parent: it is encrypted as its parent is.
            Default: as encryption by default says.
        kms_key: Id, ARN or alias of the key. Default: the default key.
        """
        return self.call("snapshot.start", **_given(locals()))

    def put_block(self, snapshot: str, block: int, data: str, checksum: str) -> dict[str, object]:
        """Puts a block of a snapshot that was begun so; a second time replaces it.

        snapshot: Id.
        block: Index, in blocks of 512 KiB.
        data: The 512 KiB of the block in base64.
        checksum: SHA-256 of the bytes in base64.
        """
        return self.call("snapshot.put_block", **_given(locals()))

    def finish_snapshot(
        self,
        snapshot: str,
        changed_blocks: int,
        checksum: str | None = None,
    ) -> Snapshot:
        """Completes a snapshot that was put block by block.

        snapshot: Id.
        changed_blocks: Number of blocks that were put.
        checksum: SHA-256 in base64 of the blocks' checksums, in order of their index. Default:
            not checked.
        """
        return self.call("snapshot.finish", max(self.timeout_s, LONG_CALL_S), **_given(locals()))

    def cold_blocks(
        self,
        volume: str,
        start: int | None = None,
        limit: int | None = None,
    ) -> ColdBlocks:
        """Blocks of a volume that are not loaded from its snapshot yet: reading them loads them.

        start: First index. Default: 0.
        limit: Most items of an answer. Default: 10000.
        """
        return self.call("volume.cold", volume=volume, start=start, limit=limit)

    def balance(self, volume: str) -> Balance:
        """Credit balances now."""
        return self.call("volume.balance", volume=volume)

    def set_balance(self, volume: str, percent: float, member: int | None = None) -> Balance:
        """Sets the balance of a member, or of all that have one. Answers the balance afterwards.

        percent: Balance, percent of the capacity, 0 to 100.
        member: Index of a member. Default: all that have credits.
        """
        return self.call("volume.set_balance", volume=volume, percent=percent, member=member)

    def restore_balance(self, volume: str, state: object) -> Balance:
        """Brings back an earlier balance. Answers the balance afterwards.

        state: The `state` of an earlier `volume.balance` of a volume with as many members.
        """
        return self.call("volume.restore_balance", volume=volume, state=state)

    def fault(
        self,
        volume: str,
        kind: str,
        *,
        in_s: float | None = None,
        seconds: float | None = None,
        extra_ms: float | None = None,
        every: int | None = None,
        op: str | None = None,
        member: int | None = None,
        caps_percent: float | None = None,
        seed: int | None = None,
    ) -> Fault:
        """Sets a fault. All but degraded need an attached volume.

        The table is in docs/reference/lab-protocol.md, volume.fault.

        kind: `pause`, `latency`, `error`, `degraded` or `power-cut`.
        in_s: Seconds until it begins. Default: 0; power-cut 1.
        seconds: Seconds it lasts. Default: 60; pause 1.
        extra_ms: Latency added to each request, ms. Default: latency 100, degraded 300.
        every: Number N: every Nth request fails. Default: 1.
        op: `read`, `write` or `any`. Default: any.
        member: Index of a member, for degraded. Default: all.
        caps_percent: Share of the caps that remains, percent. Default: 10.
        seed: Seed of a power cut. Default: drawn.
        """
        return self.call("volume.fault", **_given(locals()))["fault"]

    def faults(self, volume: str) -> list[Fault]:
        """Faults that wait or last. Degraded times are the model's and not listed."""
        return self.call("volume.faults", volume=volume)["faults"]

    def clear_fault(self, volume: str, fault: str | None = None) -> int:
        """Ends a fault, or all of the volume and every degraded time; answers how many faults
        that were.

        fault: Id of a fault. Default: all, and every degraded time.
        """
        return self.call("volume.clear_fault", volume=volume, fault=fault)["cleared"]

    def fail_member(self, volume: str, member: int) -> LabVolume:
        """Loses a member: its data is gone for the array. Without redundancy, requests to it
        fail.

        member: Index of the member.
        """
        return self.call("volume.fail_member", volume=volume, member=member)

    def slow_member(
        self,
        volume: str,
        member: int,
        caps_percent: float | None = None,
        extra_ms: float | None = None,
    ) -> LabVolume:
        """Leaves a member this share of its caps and adds latency, until it is restored.

        member: Index of the member.
        caps_percent: Share of its caps that remains, 0.1 to 100 %. Default: 100.
        extra_ms: Latency added to each request, 0 to 60,000 ms. Default: 0.
        """
        return self.call("volume.slow_member", **_given(locals()))

    def restore_member(self, volume: str, member: int) -> LabVolume:
        """Ends the slowness of a member; brings back a lost one where there is no redundancy,
        because nothing was written without it.

        member: Index of the member.
        """
        return self.call("volume.restore_member", volume=volume, member=member)

    def replace_member(self, volume: str, member: int, mib_s: int | None = None) -> LabVolume:
        """Puts a new volume in the place of a member and rebuilds it, at the cost of the
        members' own limits.

        member: Index of the member.
        mib_s: Most MiB/s of the rebuild. Default: as fast as the members allow.
        """
        return self.call("volume.replace_member", volume=volume, member=member, mib_s=mib_s)

    def metrics(
        self,
        volume: str,
        resolution: str | None = None,
        last: int | None = None,
        since: int | None = None,
        member: int | None = None,
    ) -> MetricsRows:
        """Metrics of a volume. Rows are written while it is attached, when their second or
        minute has ended.

        The table is in docs/reference/lab-protocol.md, volume.metrics.

        resolution: `second` (an hour is kept) or `minute` (15 days are kept). Default: second.
        last: Number of rows, the newest. Default: all.
        since: Rows from this time on, Unix seconds. Default: all.
        member: Index of a member. Default: the volume as a whole.
        """
        return self.call("volume.metrics", **_given(locals()))

    def record(self, volume: str, path: str | PathLike[str] | None = None) -> RecordStarted:
        """Begins to write every arrival and decision of the lab to a file, for `headrace
        replay`. One record at a time.

        path: Path of the file, from the root. Default: a file in records/ of the data
            directory.
        """
        return self.call("volume.record", volume=volume, path=path)

    def record_stop(self, volume: str) -> RecordStopped:
        """Ends the record."""
        return self.call("volume.record_stop", volume=volume)

    def create_key(
        self,
        description: str | None = None,
        policy: str | None = None,
        tags: dict[str, str] | None = None,
        kms_endpoint: str | None = None,
        kms_key: str | None = None,
        kms_region: str | None = None,
        kms_profile: str | None = None,
    ) -> Key:
        """Makes a key; its material never leaves the lab.

        description: Description. Default: none.
        policy: Policy document, as JSON text; kept and shown, not enforced. Default: the
            account may do everything.
        tags: Tags. Default: none.
        kms_endpoint: Endpoint of a key in KMS elsewhere: https://HOST, or http:// to this
            machine. Default: it is made here.
        kms_key: Id, ARN or alias of that key. Default: none.
        kms_region: Region of that key. Default: as its ARN says, else the lab's.
        kms_profile: Profile of the credentials for it, in a file that the daemon can read.
            Default: as the environment of the daemon says.
        """
        return self.call("key.create", **_given(locals()))

    def keys(self) -> KeyList:
        """All keys and aliases."""
        return self.call("key.list")

    def describe_key(self, key: str) -> Key:
        """One key.

        key: Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        """
        return self.call("key.describe", key=key)

    def enable_key(self, key: str) -> Key:
        """Lets a disabled key be used again.

        key: Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        """
        return self.call("key.enable", key=key)

    def disable_key(self, key: str) -> Key:
        """Lets a key be used no more. Volumes that are attached go on until they are detached.

        key: Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        """
        return self.call("key.disable", key=key)

    def schedule_key_deletion(self, key: str, days: int | None = None) -> Key:
        """Deletes a key after some days of lab time. Until then it cannot be used; afterwards
        the bytes that it encrypted are lost.

        key: Id, ARN or alias.
        days: Days of lab time until it is deleted, 7 to 30. Default: 30.
        """
        return self.call("key.schedule_deletion", key=key, days=days)

    def cancel_key_deletion(self, key: str) -> Key:
        """Keeps a key that was to be deleted; it is disabled then.

        key: Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        """
        return self.call("key.cancel_deletion", key=key)

    def update_key(
        self,
        key: str,
        description: str | None = None,
        policy: str | None = None,
        set: dict[str, str] | None = None,
        remove: list[str] | None = None,
    ) -> Key:
        """Changes description or policy, or tags.

        key: Id, ARN or alias.
        description: Description. Default: as it is.
        policy: Policy document, as JSON text. Default: as it is.
        set: Tags to add or overwrite, after removing. Default: none.
        remove: Keys of tags to remove. Default: none.
        """
        return self.call("key.update", **_given(locals()))

    def set_key_alias(self, alias: str, key: str, exists: bool = False) -> Key:
        """Gives a key a name.

        alias: Name of the alias, with `alias/`.
        key: Id or ARN of the key it leads to.
        exists: True to lead an existing alias to another key. Default: false.
        """
        return self.call("key.set_alias", alias=alias, key=key, exists=exists)

    def delete_key_alias(self, alias: str) -> dict[str, object]:
        """Takes a name away.

        alias: Name of the alias, with `alias/`.
        """
        return self.call("key.delete_alias", alias=alias)

    def grant_key(
        self,
        key: str,
        grantee: str,
        operations: list[str],
        retiring: str | None = None,
        name: str | None = None,
        constraints: object | None = None,
    ) -> KeyGrant:
        """Notes a grant.

        key: Id or ARN of the key.
        grantee: Principal that may use the key.
        operations: Operations of KMS that the grant allows.
        retiring: Principal that may end the grant. Default: nobody.
        name: Name. Default: none.
        constraints: Constraints, as KMS has them. Default: none.
        """
        return self.call("key.grant", **_given(locals()))

    def end_key_grant(self, key: str, grant: str) -> dict[str, object]:
        """Takes a grant away.

        key: Id or ARN of the key.
        grant: Id of the grant.
        """
        return self.call("key.end_grant", key=key, grant=grant)

    def encrypt(
        self,
        key: str,
        plaintext: str,
        context: dict[str, str] | None = None,
    ) -> Ciphertext:
        """Encrypts up to 4 KiB.

        key: Id, ARN or alias.
        plaintext: Bytes to encrypt, at most 4,096, in base64.
        context: Encryption context: must be the same to decrypt. Default: none.
        """
        return self.call("key.encrypt", key=key, plaintext=plaintext, context=context)

    def export_key(self, key: str) -> ExportedKey:
        """The material of an enabled key that this lab keeps, for `key.import` of another lab.

        key: Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        """
        return self.call("key.export", key=key)

    def import_key(self, id: str, material: str, description: str | None = None) -> Key:
        """Takes in a key that another lab exported: what that lab encrypted under it can be
        opened here.

        id: The id that it had there, a UUID, which is in the ciphertexts of the key.
        material: The 32 bytes of the key, in base64.
        description: Description. Default: none.
        """
        return self.call("key.import", id=id, material=material, description=description)

    def decrypt(
        self,
        ciphertext: str,
        context: dict[str, str] | None = None,
        key: str | None = None,
    ) -> Plaintext:
        """Decrypts.

        ciphertext: Ciphertext in base64.
        context: Encryption context. Default: none.
        key: Id, ARN or alias of the key that it must be encrypted under. Default: that which
            the ciphertext names.
        """
        return self.call("key.decrypt", ciphertext=ciphertext, context=context, key=key)

    def re_encrypt(
        self,
        ciphertext: str,
        key: str,
        source_context: dict[str, str] | None = None,
        source_key: str | None = None,
        context: dict[str, str] | None = None,
    ) -> ReEncrypted:
        """Decrypts and encrypts under another key or context.

        ciphertext: Ciphertext in base64.
        key: Id, ARN or alias of the new key.
        source_context: Encryption context of the ciphertext. Default: none.
        source_key: Id, ARN or alias of the key that it must be encrypted under. Default: that
            which the ciphertext names.
        context: New encryption context. Default: none.
        """
        return self.call("key.re_encrypt", **_given(locals()))

    def generate_data_key(
        self,
        key: str,
        bytes: int | None = None,
        context: dict[str, str] | None = None,
        plaintext: bool = True,
    ) -> DataKey:
        """Draws a data key and wraps it.

        key: Id, ARN or alias of the key that wraps it.
        bytes: Length of the data key, bytes, 1 to 1,024. Default: 32.
        context: Encryption context. Default: none.
        plaintext: True to return it in the clear too. Default: true.
        """
        return self.call("key.generate_data_key", **_given(locals()))

    def encryption_defaults(self) -> EncryptionDefaults:
        """Encryption of new volumes that do not ask for one: on or off, and the key."""
        return self.call("encryption.defaults")

    def set_encryption(
        self,
        by_default: bool | None = None,
        key: str | None = None,
    ) -> EncryptionDefaults:
        """Sets the encryption of new volumes that do not ask for one.

        by_default: True if new volumes are encrypted that do not ask for it. Default: as it is.
        key: The key of new encrypted volumes that name none: id, ARN or alias; "" for the key
            that EBS makes for itself. Default: as it is.
        """
        return self.call("encryption.set", by_default=by_default, key=key)

    def nvme_statistics(self, volume: str, member: int | None = None) -> StatisticsPage:
        """The NVMe statistics page (log page 0xD0) of an attached volume, laid out as
        `data/nvme_log_page_d0.csv` says. Counters count from the daemon's start.

        member: Index of a member. Default: the volume as a whole.
        """
        return self.call("volume.nvme_statistics", volume=volume, member=member)

    def put_metric_data(self, namespace: str, data: object) -> dict[str, object]:
        """Adds values of metrics of your own: all of them, or none. The lab keeps 15 days of at
        most 1,000 metrics and 200,000 values; after a restart of the daemon, the newest 16 MiB
        of the values are there again.

        namespace: Namespace, not one that begins with AWS/.
        data: A list of MetricDatum as CloudWatch's API names its members; `Timestamp` in Unix
            seconds.
        """
        return self.call("cloudwatch.put_metric_data", namespace=namespace, data=data)

    def list_metrics(
        self,
        namespace: str | None = None,
        name: str | None = None,
        dimensions: object | None = None,
        recently_active: bool = False,
        next_token: str | None = None,
    ) -> MetricNames:
        """Metrics that have points: those of volumes that were attached, of the instance, and
        your own. At most 500 in an answer.

        namespace: Namespace. Default: all.
        name: Name. Default: all.
        dimensions: Dimensions of the metrics: a list of `{"Name", "Value"}`; without a value,
            any. Default: any.
        recently_active: True for metrics with a point in the last three hours only. Default:
            false.
        next_token: Token of an earlier answer, with which this one goes on. Default: from the
            first on.
        """
        return self.call("cloudwatch.list_metrics", **_given(locals()))

    def get_metric_statistics(
        self,
        namespace: str,
        name: str,
        *,
        start_s: float,
        end_s: float,
        period_s: int,
        dimensions: object | None = None,
        statistics: list[str] | None = None,
        extended: list[str] | None = None,
        unit: str | None = None,
    ) -> MetricStatistics:
        """Statistics of a metric in periods that begin at the start, which is rounded down to a
        minute. At most 1,440 periods.

        namespace: Namespace.
        name: Name.
        start_s: First time, Unix seconds.
        end_s: End, Unix seconds: the first time that is left out.
        period_s: Length of a period, s.
        dimensions: Dimensions of the metric: a list of `{"Name", "Value"}`. Default: none.
        statistics: SampleCount, Average, Sum, Minimum or Maximum. Default: none.
        extended: Percentiles like p99.9, and trimmed means. Default: none.
        unit: Unit of the values. Default: all.
        """
        return self.call("cloudwatch.get_metric_statistics", **_given(locals()))

    def get_metric_data(
        self,
        queries: object,
        start_s: float,
        end_s: float,
        scan_by: str | None = None,
        max_datapoints: int | None = None,
        next_token: str | None = None,
    ) -> MetricData:
        """Points of metrics and of expressions over them.

        queries: A list of MetricDataQuery as CloudWatch's API names its members.
        start_s: First time, Unix seconds.
        end_s: End, Unix seconds: the first time that is left out.
        scan_by: `TimestampDescending` or `TimestampAscending`. Default: TimestampDescending.
        max_datapoints: Most points of an answer. Default: 100800.
        next_token: Token of an earlier answer, with which this one goes on. Default: from the
            first on.
        """
        return self.call("cloudwatch.get_metric_data", **_given(locals()))

    def put_alarm(self, alarm: object, tags: dict[str, str] | None = None) -> dict[str, object]:
        """Makes an alarm, or replaces all of its configuration. It is evaluated once a minute,
        with periods of 10, 20 or 30 seconds every ten.

        alarm: The members of PutMetricAlarm, but for tags.
        tags: Tags; they count for a new alarm only. Default: none.
        """
        return self.call("cloudwatch.put_alarm", alarm=alarm, tags=tags)

    def describe_alarms(
        self,
        names: list[str] | None = None,
        prefix: str | None = None,
        state: str | None = None,
        action_prefix: str | None = None,
        metric: object | None = None,
        most: int | None = None,
        next_token: str | None = None,
    ) -> AlarmList:
        """Alarms, by name.

        names: Names. Default: all.
        prefix: Beginning of the names. Default: all.
        state: `OK`, `ALARM` or `INSUFFICIENT_DATA`. Default: all.
        action_prefix: Beginning of one of their actions. Default: all.
        metric: The members of DescribeAlarmsForMetric, for alarms on that metric only. Default:
            all.
        most: Most alarms of an answer, 1 to 100. Default: 50.
        next_token: Token of an earlier answer, with which this one goes on. Default: from the
            first on.
        """
        return self.call("cloudwatch.describe_alarms", **_given(locals()))

    def delete_alarms(self, names: list[str]) -> dict[str, object]:
        """Deletes alarms: all that are named, or none.

        names: Names, 1 to 100.
        """
        return self.call("cloudwatch.delete_alarms", names=names)

    def set_alarm_state(
        self,
        name: str,
        state: str,
        reason: str,
        reason_data: str | None = None,
    ) -> dict[str, object]:
        """Sets the state of an alarm until it is evaluated again; its actions are taken.

        name: Name.
        state: `OK`, `ALARM` or `INSUFFICIENT_DATA`.
        reason: Reason of the state.
        reason_data: Reason of the state, as JSON. Default: none.
        """
        return self.call("cloudwatch.set_alarm_state", **_given(locals()))

    def enable_alarm_actions(self, names: list[str]) -> dict[str, object]:
        """Switches actions on. Names without an alarm are left out.

        names: Names, 1 to 100.
        """
        return self.call("cloudwatch.enable_alarm_actions", names=names)

    def disable_alarm_actions(self, names: list[str]) -> dict[str, object]:
        """Switches actions off. Names without an alarm are left out.

        names: Names, 1 to 100.
        """
        return self.call("cloudwatch.disable_alarm_actions", names=names)

    def alarm_history(
        self,
        name: str | None = None,
        kind: str | None = None,
        start_s: float | None = None,
        end_s: float | None = None,
        oldest_first: bool = False,
        most: int | None = None,
        next_token: str | None = None,
    ) -> AlarmHistory:
        """History of alarms: the last 1,000 items of all alarms together, the newest first.

        name: Name of an alarm. Default: all.
        kind: `ConfigurationUpdate`, `StateUpdate` or `Action`. Default: all.
        start_s: First time, Unix seconds. Default: all.
        end_s: End, Unix seconds: the first time that is left out. Default: all.
        oldest_first: True for the oldest first. Default: false.
        most: Most items of an answer, 1 to 100. Default: 100.
        next_token: Token of an earlier answer, with which this one goes on. Default: from the
            first on.
        """
        return self.call("cloudwatch.alarm_history", **_given(locals()))

    def alarm_tags(self, arn: str) -> dict[str, str]:
        """Tags of an alarm.

        arn: ARN.
        """
        return self.call("cloudwatch.alarm_tags", arn=arn)["tags"]

    def tag_alarm(
        self,
        arn: str,
        set: dict[str, str] | None = None,
        remove: list[str] | None = None,
    ) -> dict[str, object]:
        """Removes tags of an alarm by key, then sets tags.

        arn: ARN.
        set: Tags to add or overwrite, after removing. Default: none.
        remove: Keys to remove. Default: none.
        """
        return self.call("cloudwatch.tag_alarm", arn=arn, set=set, remove=remove)

    def events_since(self, cursor: str | None = None, most: int | None = None) -> LabEvents:
        """Changes of state as events in EventBridge's shape: of volumes, attachments,
        modifications, snapshots, keys and alarms. The newest are kept, 8 MiB at most, also over
        a restart.

        cursor: Cursor of an earlier answer; `now` for events to come. Default: the oldest event
            that is kept.
        most: Most events of an answer, 1 to 1,000. Default: 1000.
        """
        return self.call("events.since", cursor=cursor, most=most)
