//! What calls answer. Units are in the names; times are text in UTC, ISO 8601.

use crate::message::message;
use crate::snapshots::InitializationView;
use serde_json::Value;
use std::collections::BTreeMap;

message! {
    /// Nothing more to say.
    pub struct Done {}
}

message! {
    /// Credits of the instance, percent. A kind of credit that it does not have is null.
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
        /// Its file.
        pub path: String;
        /// Why it is not whole, where something was lost.
        pub broken: Option<String>;
    }
}

message! {
    /// What an earlier daemon had left and this one released at its start.
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
        /// EC2 instance type whose limits all volumes share; null: the volumes alone.
        pub instance_type: Option<String>;
        /// EC2's id of this machine as an instance.
        pub instance_id: String;
        /// The lab's one availability zone.
        pub zone: String;
        /// Its id.
        pub zone_id: String;
        /// Whether new volumes are encrypted when they do not say so.
        pub encryption_by_default: bool;
        /// Day of the limits of new volumes.
        pub as_of: String;
        /// How many times as fast as the wall clock lab time runs.
        pub time_scale: u32;
        /// Region of the prices.
        pub region: String;
        /// Seconds since the start of the daemon.
        pub uptime_s: f64;
        /// Lab time now.
        pub lab_time: String;
        /// How many volumes there are.
        pub volumes: usize;
        /// How many of them are attached.
        pub attached: usize;
        /// Where Prometheus finds the metrics; null: nowhere.
        pub metrics_url: Option<String>;
        /// Credits of the instance; null: no instance.
        pub instance_balance: Option<InstanceBalance>;
        /// The record that is being written; null: none.
        pub recording: Option<RecordStatus>;
        /// Size of the journal.
        pub journal_bytes: u64;
        /// What a crash had left at the end of the journal and was cut off, in words; null:
        /// nothing.
        pub journal_repaired: Option<String>;
        /// What an earlier daemon had left.
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
    /// The metrics of the lab for Prometheus.
    pub struct MetricsText {
        /// In Prometheus' text format, version 0.0.4.
        pub text: String;
    }
}

message! {
    /// What this machine can do at most, measured at attach.
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
        /// Whether the volume goes with the instance.
        pub delete_on_termination: bool;
        /// Attach name, like `sdf`.
        pub name: String;
        /// The block device, like /dev/loop3; null until it is there.
        pub device: Option<String>;
        /// Stable names of the device: by id, by attach name.
        pub links: Option<Vec<String>>;
        /// Lab time since which the device is there.
        pub attached_at: Option<String>;
        /// Latency of the machine's own path, taken out of the model's; null: not measured.
        pub path_us: Option<f64>;
        /// What this machine can do at most; null: not measured.
        pub ceiling: Option<CeilingView>;
        /// What the volume has beyond what this machine can do, in words.
        pub warnings: Vec<String>;
        /// Without the model's delays.
        pub unpaced: bool;
        /// Why it is busy; null: it is not.
        pub busy: Option<String>;
    }
}

message! {
    /// What a modification is about, as EC2 shows it; of an array, all members together.
    pub struct VolumeShape {
        /// Type of its first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// Provisioned or baseline, without credits.
        pub iops: u64;
        /// Provisioned or baseline, without credits.
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
        /// How much of optimizing is done, by time.
        pub progress_percent: u8;
        /// Before, in storage notation.
        pub from: String;
        /// Afterwards, in storage notation.
        pub to: String;
        /// Before.
        pub original: VolumeShape;
        /// Afterwards.
        pub target: VolumeShape;
        /// When it was accepted.
        pub start: String;
        /// When optimizing begins.
        pub optimizing_at: String;
        /// When it is completed.
        pub completed_at: String;
        /// From when on the next modification of this volume is accepted.
        pub next_allowed_at: String;
        /// When it was completed or failed; null while it runs.
        pub end: Option<String>;
        /// Why it failed.
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
    /// A member of an array, or the one volume there is.
    pub struct MemberView {
        /// Index in the array.
        pub index: usize;
        /// That of the volume, with -m0 and so on behind it in an array.
        pub id: String;
        /// Storage notation.
        pub spec: String;
        /// `ok`, `slow`, `failed` or `rebuilding`.
        pub state: String;
        /// Whether an array with redundancy loses data with it, as other members have failed.
        pub last_copy: bool;
        /// What is left of its caps, percent, where it is slow.
        pub caps_percent: Option<f64>, unless "Option::is_none";
        /// Added to each request, ms, where it is slow.
        pub extra_ms: Option<f64>, unless "Option::is_none";
        /// How much is done, percent, where it is rebuilding.
        pub done_percent: Option<f64>, unless "Option::is_none";
        /// Most MiB/s of the rebuild, where there is such a limit.
        pub mib_s: Option<u64>, unless "Option::is_none";
        /// What it delivers at most.
        pub iops: Option<u64>;
        /// What it delivers at most.
        pub throughput_mib_s: Option<u64>;
        /// Credits, percent; null: it has none.
        pub balance_percent: Option<f64>;
    }
}

message! {
    /// A volume, or an array that is used as one.
    pub struct LabVolumeView with MemberView AttachmentView ModificationView InitializationView {
        /// Id.
        pub id: String;
        /// Unique name, where it has one.
        pub name: Option<String>;
        /// Storage notation.
        pub spec: String;
        /// Type of its first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// Provisioned or baseline, all members together, without credits.
        pub iops: u64;
        /// Provisioned or baseline, all members together, without credits.
        pub throughput_mib_s: u64;
        /// RAID level; null: a single volume.
        pub raid: Option<String>;
        /// Its members; of a single volume, itself.
        pub members: Vec<MemberView>;
        /// `creating`, `available`, `in-use`, `deleting` or `error`.
        pub state: String;
        /// Why it is in state error.
        pub error: Option<String>;
        /// Lab time of its creation.
        pub created_at: String;
        /// Day of its limits.
        pub as_of: String;
        /// Availability zone.
        pub zone: String;
        /// Id of the availability zone.
        pub zone_id: String;
        /// Whether it is encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null: not encrypted.
        pub kms_key: Option<String>;
        /// EC2's AutoEnableIO: whether I/O goes on after a check that failed.
        pub auto_enable_io: bool;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// What its files take on the disk; null: not known.
        pub used_gib: Option<f64>;
        /// Its block device; null: not attached.
        pub attachment: Option<AttachmentView>;
        /// The modification under way; null: none.
        pub modification: Option<ModificationView>;
        /// Credits of the member with the least, percent; null: it has none.
        pub balance_percent: Option<f64>;
        /// Faults that wait or last.
        pub faults: usize;
        /// Path of the record that is being written; null: none.
        pub recording: Option<String>;
        /// Id of the snapshot it was made from; null: none.
        pub snapshot: Option<String>;
        /// Id of the volume it is a copy of; null: of none.
        pub source_volume: Option<String>;
        /// Whether that had fast snapshot restore when it was made; null: it was made empty.
        pub fast_restored: Option<bool>;
        /// Rate at which it is loaded in the background; null: on first touch alone.
        pub initialization_rate_mib_s: Option<u64>;
        /// How far it is loaded from that; null: it was made empty.
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
        /// Whether the volume goes with the instance.
        pub delete_on_termination: bool;
        /// Attach name, like `sdf`.
        pub name: String;
        /// Lab time since which the device is there.
        pub attached_at: Option<String>;
    }
}

message! {
    /// What of a volume does not change with time or with I/O, only by an event. As in LabVolume.
    pub struct VolumeFacts with AttachmentFacts {
        /// Id.
        pub id: String;
        /// Type of its first member.
        pub r#type: String;
        /// Usable size, GiB.
        pub size_gib: u64;
        /// Provisioned or baseline, all members together, without credits.
        pub iops: u64;
        /// Provisioned or baseline, all members together, without credits.
        pub throughput_mib_s: u64;
        /// `creating`, `available`, `in-use`, `deleting` or `error`.
        pub state: String;
        /// Lab time of its creation.
        pub created_at: String;
        /// Availability zone.
        pub zone: String;
        /// Id of the availability zone.
        pub zone_id: String;
        /// Whether it is encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null: not encrypted.
        pub kms_key: Option<String>;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Its attachment; null: not attached.
        pub attachment: Option<AttachmentFacts>;
        /// Id of the snapshot it was made from; null: none.
        pub snapshot: Option<String>;
        /// Id of the volume it is a copy of; null: of none.
        pub source_volume: Option<String>;
        /// Whether that had fast snapshot restore when it was made; null: it was made empty.
        pub fast_restored: Option<bool>;
        /// Rate at which it is loaded in the background; null: on first touch alone.
        pub initialization_rate_mib_s: Option<u64>;
    }
}

message! {
    /// Volumes that changed since a version, or all.
    pub struct VolumeChanges with VolumeFacts {
        /// The version that this is of.
        pub version: String;
        /// Whether these are all volumes by id, in pages: what the caller knew does not count.
        pub whole: bool;
        /// Volumes as they are now.
        pub volumes: Vec<VolumeFacts>;
        /// Ids of volumes that are gone.
        pub gone: Vec<String>;
        /// The id after which the next page begins; null: there is none.
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
        /// Of each member; null: it has no credits.
        pub members: Vec<Option<MemberBalance>>;
        /// Of the instance; null: no instance.
        pub instance: Option<InstanceBalance>;
        /// For `volume.restore_balance`; it means nothing else.
        pub state: Value;
    }
}

message! {
    /// A fault with its exact times on the wall clock.
    pub struct FaultView {
        /// Id.
        pub id: String;
        /// Kind, as asked.
        pub kind: String;
        /// When it begins.
        pub starts_at: Option<String>;
        /// When it ends; null: a power cut lasts until the volume is attached again.
        pub ends_at: Option<String>;
        /// Seed of a power cut.
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
    /// How many faults were ended.
    pub struct Cleared {
        /// How many.
        pub cleared: usize;
    }
}

message! {
    /// Rows of metrics, oldest first. Null in a row: not known, or nothing happened.
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
        /// Its file.
        pub path: String;
    }
}

message! {
    /// A record that was ended.
    pub struct RecordStopped {
        /// Its file.
        pub path: String;
        /// Requests in it.
        pub requests: u64;
    }
}
