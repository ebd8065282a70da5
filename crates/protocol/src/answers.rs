//! Answers of calls. Units are in the names; times are text in UTC, ISO 8601.

use crate::message::message;
use crate::snapshots::InitializationView;
use serde_json::Value;
use std::collections::BTreeMap;

message! {
    /// An answer without content.
    pub struct Done {}
}

message! {
    /// Credits of the instance, percent. A type of credit that it does not have is null.
    pub struct InstanceBalance {
        /// I/O credits.
        pub iops_percent: Option<f64>;
        /// Byte credits.
        pub bytes_percent: Option<f64>;
    }
}

message! {
    /// A record that is being written.
    pub struct RecordStatus {
        /// Path of the file.
        pub path: String;
        /// Reason why it is not whole; null if nothing was lost.
        pub broken: Option<String>;
    }
}

message! {
    /// Mounts and loop devices that an earlier daemon had left and this one released at its start.
    pub struct Leftovers {
        /// Loop devices that were released.
        pub released: u64;
        /// Mounts taken down.
        pub unmounted: u64;
        /// Loop devices that are still in use.
        pub busy: Vec<String>;
    }
}

message! {
    /// The lab as a whole.
    pub struct LabStatus with InstanceBalance RecordStatus Leftovers {
        /// Version of the daemon.
        pub version: String;
        /// Process id.
        pub pid: u32;
        /// Data directory.
        pub data_dir: String;
        /// Socket.
        pub socket: String;
        /// EC2 instance type whose limits all volumes share; null for volumes without an instance.
        pub instance_type: Option<String>;
        /// EC2's id of this machine as an instance.
        pub instance_id: String;
        /// The lab's one availability zone.
        pub zone: String;
        /// Id of the availability zone.
        pub zone_id: String;
        /// True if new volumes are encrypted that do not ask for it.
        pub encryption_by_default: bool;
        /// Day of the limits of new volumes.
        pub as_of: String;
        /// Speed of lab time, a multiple of the wall clock's.
        pub time_scale: u32;
        /// Region of the prices.
        pub region: String;
        /// Seconds since the start of the daemon.
        pub uptime_s: f64;
        /// Lab time now.
        pub lab_time: String;
        /// Number of volumes.
        pub volumes: usize;
        /// Number of attached volumes.
        pub attached: usize;
        /// URL of the metrics for Prometheus; null if they are not served.
        pub metrics_url: Option<String>;
        /// Credits of the instance; null without an instance.
        pub instance_balance: Option<InstanceBalance>;
        /// The record that is being written; null without one.
        pub recording: Option<RecordStatus>;
        /// Size of the journal.
        pub journal_bytes: u64;
        /// Sentence about the end of the journal that a crash had damaged and that was cut off;
        /// null if it was whole.
        pub journal_repaired: Option<String>;
        /// Mounts and loop devices that an earlier daemon had left.
        pub leftovers: Leftovers;
        /// Requests that are in the devices now.
        pub waiting: Option<usize>;
        /// Rows of metrics that could not be written.
        pub metrics_rows_lost: u64;
    }
}

message! {
    /// The names of all calls.
    pub struct CallNames {
        /// Names.
        pub calls: Vec<String>;
    }
}

message! {
    /// A histogram of times since the start of the daemon.
    pub struct TimeHistogram {
        /// Requests that took at most each of `bounds_s`, and behind those all requests.
        pub counts: Vec<u64>;
        /// The sum of their times, s.
        pub sum_s: f64;
    }
}

message! {
    /// Counters of a volume, or of a member of an array, since the start of the daemon. An array
    /// has counters of its own and those of each member: they are not added up.
    pub struct VolumeTotals with TimeHistogram {
        /// The volume's id.
        pub volume: String;
        /// Index in the array; null for the volume as a whole.
        pub member: Option<u32>;
        /// Read requests answered.
        pub reads: u64;
        /// Write requests answered.
        pub writes: u64;
        /// Bytes read.
        pub read_bytes: u64;
        /// Bytes written.
        pub write_bytes: u64;
        /// Time of read requests from arrival to answer, summed, s.
        pub read_s: f64;
        /// Time of write requests from arrival to answer, summed, s.
        pub write_s: f64;
        /// Time during which requests waited for the IOPS of the volume, s.
        pub exceeded_iops_s: f64;
        /// Time during which requests waited for the throughput of the volume, s.
        pub exceeded_throughput_s: f64;
        /// Time during which requests waited for the EBS IOPS of the instance, s.
        pub instance_exceeded_iops_s: f64;
        /// Time during which requests waited for the EBS throughput of the instance, s.
        pub instance_exceeded_throughput_s: f64;
        /// Time during which requests waited, s, by the limit that they waited for.
        pub waiting_s: BTreeMap<String, f64>;
        /// Requests answered with an error.
        pub errors: u64;
        /// Flushes.
        pub flushes: u64;
        /// Time with no request in flight, s.
        pub idle_s: f64;
        /// Requests in flight times time, s: its rate is the mean queue length.
        pub queue_s: f64;
        /// Times of read requests from arrival to answer, with waits for caps.
        pub read_latency: TimeHistogram;
        /// Times of write requests from arrival to answer, with waits for caps.
        pub write_latency: TimeHistogram;
        /// Delay of answers behind the time that the model gave them. The sum is estimated from the
        /// middles of the meter's buckets.
        pub late: TimeHistogram;
    }
}

message! {
    /// Present values of an attached volume.
    pub struct VolumeGauges {
        /// The volume's id.
        pub volume: String;
        /// Requests in flight.
        pub queue_length: u32;
        /// Credits of the member with the least, 1 when full; null if it has none.
        pub balance: Option<f64>;
    }
}

message! {
    /// Everything that was counted since the start of the daemon, and present values.
    pub struct LabTotals with VolumeTotals VolumeGauges {
        /// Upper bounds of the buckets of all histograms, s, ascending.
        pub bounds_s: Vec<f64>;
        /// Counters of volumes and of members of arrays.
        pub volumes: Vec<VolumeTotals>;
        /// Present values of attached volumes.
        pub attached: Vec<VolumeGauges>;
        /// Credits of the instance, 1 when full, by kind: `ios`, `bytes`. A kind that it does not
        /// have is missing.
        pub instance_balance: BTreeMap<String, f64>;
        /// Rows of metrics that could not be written, as on a full disk.
        pub rows_dropped: u64;
    }
}

message! {
    /// Highest rates of this machine, measured at attach.
    pub struct CeilingView {
        /// Operations a second.
        pub iops: u64;
        /// MiB/s.
        pub mib_s: u64;
    }
}

message! {
    /// A volume's block device, or its way there.
    pub struct AttachmentView with CeilingView {
        /// Id.
        pub id: String;
        /// `attaching`, `attached`, `detaching` or `busy`.
        pub state: String;
        /// EC2's id of the instance.
        pub instance: String;
        /// True if the volume is deleted with the instance.
        pub delete_on_termination: bool;
        /// Attach name, like `sdf`.
        pub name: String;
        /// The block device, like /dev/loop3; null until it is there.
        pub device: Option<String>;
        /// Stable names of the device: by id, by attach name.
        pub links: Option<Vec<String>>;
        /// Lab time since which the device is there.
        pub attached_at: Option<String>;
        /// Latency of the machine's own path, taken out of the model's; null if it was not
        /// measured.
        pub path_us: Option<f64>;
        /// Highest rates of this machine; null if they were not measured.
        pub ceiling: Option<CeilingView>;
        /// Sentences about limits of the volume that this machine cannot reach.
        pub warnings: Vec<String>;
        /// True if requests complete without the model's delays.
        pub unpaced: bool;
        /// Reason why it is busy; null if it is not.
        pub busy: Option<String>;
    }
}

message! {
    /// Type, size and limits before or after a modification, as EC2 shows them; for an array, all
    /// members together.
    pub struct VolumeShape {
        /// Type of the first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// IOPS, provisioned or baseline, without credits.
        pub iops: u64;
        /// MiB/s, provisioned or baseline, without credits.
        pub throughput_mib_s: u64;
    }
}

message! {
    /// A modification. Times are lab time.
    pub struct ModificationView with VolumeShape {
        /// Id.
        pub id: String;
        /// The volume's id.
        pub volume: String;
        /// `modifying` (all as before), `optimizing` (new type and size, limits in between),
        /// `completed` (new limits) or `failed` (all as before).
        pub state: String;
        /// Share of optimizing that is done, by time.
        pub progress_percent: u8;
        /// The volume before, in storage notation.
        pub from: String;
        /// The volume afterwards, in storage notation.
        pub to: String;
        /// The volume before.
        pub original: VolumeShape;
        /// The volume afterwards.
        pub target: VolumeShape;
        /// Time of its acceptance.
        pub start: String;
        /// Beginning of optimizing.
        pub optimizing_at: String;
        /// Planned time of its completion.
        pub completed_at: String;
        /// Time from which the next modification of this volume is accepted.
        pub next_allowed_at: String;
        /// Time of its completion or failure; null while it runs.
        pub end: Option<String>;
        /// Reason of the failure; null if it did not fail.
        pub reason: Option<String>;
    }
}

message! {
    /// Modifications, oldest first: the last eight of each volume.
    pub struct Modifications with ModificationView {
        /// Modifications.
        pub modifications: Vec<ModificationView>;
    }
}

message! {
    /// A member of an array, or the single volume.
    pub struct MemberView {
        /// Index in the array.
        pub index: usize;
        /// Id: that of the volume, with -m0 and so on behind it in an array.
        pub id: String;
        /// Storage notation.
        pub spec: String;
        /// `ok`, `slow`, `failed` or `rebuilding`.
        pub state: String;
        /// True if an array with redundancy loses data with this member, because other members have
        /// failed.
        pub last_copy: bool;
        /// Share of its caps that remains, percent; only if it is slow.
        pub caps_percent: Option<f64>, unless "Option::is_none";
        /// Latency added to each request, ms; only if it is slow.
        pub extra_ms: Option<f64>, unless "Option::is_none";
        /// Progress of the rebuild, percent; only if it is rebuilding.
        pub done_percent: Option<f64>, unless "Option::is_none";
        /// Most MiB/s of the rebuild; only if there is such a limit.
        pub mib_s: Option<u64>, unless "Option::is_none";
        /// Most I/Os a second without credits.
        pub iops: Option<u64>;
        /// Most MiB/s without credits.
        pub throughput_mib_s: Option<u64>;
        /// Credits, percent; null if it has none.
        pub balance_percent: Option<f64>;
    }
}

message! {
    /// A volume, or an array that is used as one.
    pub struct LabVolumeView with MemberView AttachmentView ModificationView InitializationView {
        /// Id.
        pub id: String;
        /// Unique name; null without one.
        pub name: Option<String>;
        /// Storage notation.
        pub spec: String;
        /// Type of the first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// IOPS, provisioned or baseline, all members together, without credits.
        pub iops: u64;
        /// MiB/s, provisioned or baseline, all members together, without credits.
        pub throughput_mib_s: u64;
        /// RAID level; null for a single volume.
        pub raid: Option<String>;
        /// Members in the order of the array; a single volume is its own member.
        pub members: Vec<MemberView>;
        /// True while copies or parity of the array, which may differ after an end in the middle of
        /// writes, are made equal.
        pub resyncing: bool;
        /// `creating`, `available`, `in-use`, `deleting` or `error`.
        pub state: String;
        /// Reason of the state error; null in other states.
        pub error: Option<String>;
        /// Lab time of its creation.
        pub created_at: String;
        /// Day of its limits.
        pub as_of: String;
        /// Availability zone.
        pub zone: String;
        /// Id of the availability zone.
        pub zone_id: String;
        /// True if it is encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null if it is not encrypted.
        pub kms_key: Option<String>;
        /// EC2's AutoEnableIO: true if I/O goes on after a check that failed.
        pub auto_enable_io: bool;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Space of its files on the disk; null if it is not known.
        pub used_gib: Option<f64>;
        /// Block device; null if it is not attached.
        pub attachment: Option<AttachmentView>;
        /// The modification under way; null without one.
        pub modification: Option<ModificationView>;
        /// Credits of the member with the least, percent; null if it has none.
        pub balance_percent: Option<f64>;
        /// Faults that wait or last.
        pub faults: usize;
        /// Path of the record that is being written; null without one.
        pub recording: Option<String>;
        /// Id of the snapshot it was made from; null if it was made empty.
        pub snapshot: Option<String>;
        /// Id of the volume it is a copy of; null if it is not a copy.
        pub source_volume: Option<String>;
        /// True if its snapshot had fast restore when it was made; null if it was made empty.
        pub fast_restored: Option<bool>;
        /// Rate at which it is loaded in the background; null if blocks load on first touch alone.
        pub initialization_rate_mib_s: Option<u64>;
        /// Progress of loading its snapshot; null if it was made empty.
        pub initialization: Option<InitializationView>;
    }
}

message! {
    /// A volume's attachment.
    pub struct AttachmentFacts {
        /// `attaching`, `attached`, `detaching` or `busy`.
        pub state: String;
        /// EC2's id of the instance.
        pub instance: String;
        /// True if the volume is deleted with the instance.
        pub delete_on_termination: bool;
        /// Attach name, like `sdf`.
        pub name: String;
        /// Lab time since which the device is there.
        pub attached_at: Option<String>;
    }
}

message! {
    /// Facts about a volume that change with an event only, not with time or I/O. Their meaning is
    /// that of LabVolume.
    pub struct VolumeFacts with AttachmentFacts {
        /// Id.
        pub id: String;
        /// Type of the first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// IOPS, provisioned or baseline, all members together, without credits.
        pub iops: u64;
        /// MiB/s, provisioned or baseline, all members together, without credits.
        pub throughput_mib_s: u64;
        /// `creating`, `available`, `in-use`, `deleting` or `error`.
        pub state: String;
        /// Lab time of its creation.
        pub created_at: String;
        /// Availability zone.
        pub zone: String;
        /// Id of the availability zone.
        pub zone_id: String;
        /// True if it is encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null if it is not encrypted.
        pub kms_key: Option<String>;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Attachment; null if it is not attached.
        pub attachment: Option<AttachmentFacts>;
        /// Id of the snapshot it was made from; null if it was made empty.
        pub snapshot: Option<String>;
        /// Id of the volume it is a copy of; null if it is not a copy.
        pub source_volume: Option<String>;
        /// True if its snapshot had fast restore when it was made; null if it was made empty.
        pub fast_restored: Option<bool>;
        /// Rate at which it is loaded in the background; null if blocks load on first touch alone.
        pub initialization_rate_mib_s: Option<u64>;
    }
}

message! {
    /// Volumes that changed since a version, or all.
    pub struct VolumeChanges with VolumeFacts {
        /// The version of this answer.
        pub version: String;
        /// True if these are all volumes by id, in pages, which replace the caller's copy.
        pub whole: bool;
        /// Volumes as they are now.
        pub volumes: Vec<VolumeFacts>;
        /// Ids of volumes that are gone.
        pub gone: Vec<String>;
        /// The id after which the next page begins; null on the last page.
        pub next: Option<String>;
    }
}

message! {
    /// Volumes.
    pub struct VolumeList with LabVolumeView {
        /// Volumes.
        pub volumes: Vec<LabVolumeView>;
    }
}

message! {
    /// Credits of a member: I/Os of gp2, bytes of st1 and sc1.
    pub struct MemberBalance {
        /// Credits now.
        pub credits: u64;
        /// Credits when full.
        pub capacity: u64;
        /// Credits now, percent.
        pub percent: f64;
    }
}

message! {
    /// Credit balances now.
    pub struct BalanceView with MemberBalance InstanceBalance {
        /// Credits of each member; null if it has none.
        pub members: Vec<Option<MemberBalance>>;
        /// Credits of the instance; null without an instance.
        pub instance: Option<InstanceBalance>;
        /// State for `volume.restore_balance`; it has no other use.
        pub state: Value;
    }
}

message! {
    /// A fault with its exact times on the wall clock.
    pub struct FaultView {
        /// Id.
        pub id: String;
        /// Kind of the fault, as in the request.
        pub kind: String;
        /// Time at which it begins.
        pub starts_at: Option<String>;
        /// Time at which it ends; null for a power cut, which lasts until the volume is attached
        /// again.
        pub ends_at: Option<String>;
        /// Seed of a power cut; null for other faults.
        pub seed: Option<u64>;
    }
}

message! {
    /// The fault that was set.
    pub struct FaultAnswer with FaultView {
        /// The fault.
        pub fault: FaultView;
    }
}

message! {
    /// Faults that wait or last. Degraded times are the model's and not listed.
    pub struct Faults with FaultView {
        /// Faults.
        pub faults: Vec<FaultView>;
    }
}

message! {
    /// Number of faults that were ended.
    pub struct Cleared {
        /// Number of faults.
        pub cleared: usize;
    }
}

message! {
    /// Rows of metrics, oldest first. A value is null if it is not known, or if nothing happened.
    pub struct MetricsRows {
        /// Names of the columns.
        pub columns: Vec<String>;
        /// A value for each column.
        pub rows: Vec<Vec<Value>>;
    }
}

message! {
    /// A record that was begun.
    pub struct RecordStarted {
        /// Path of the file.
        pub path: String;
    }
}

message! {
    /// A record that was ended.
    pub struct RecordStopped {
        /// Path of the file.
        pub path: String;
        /// Requests in it.
        pub requests: u64;
    }
}
