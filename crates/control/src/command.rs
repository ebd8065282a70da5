//! What can be asked of the lab. A volume is named by its id or its name. Commands marked *daemon*
//! report how the daemon's part of an earlier one ended.

use crate::alarms::AlarmRequest;
use crate::keys::KeyCommand;
use crate::settings::SettingsRequest;
use crate::snapshots::messages::SnapshotCommand;
use crate::tags::TagRequest;
use crate::volumes::record::AttachedDevice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A new volume or array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreateRequest {
    /// Storage notation; "" where type, size, IOPS and MiB/s are given one by one.
    pub spec: String,
    /// Type, like gp3; none: gp2, as EC2 has it.
    pub volume_type: Option<String>,
    /// Size, GiB.
    pub size_gib: Option<u64>,
    /// Provisioned IOPS.
    pub iops: Option<u64>,
    /// Provisioned MiB/s.
    pub throughput_mib_s: Option<u64>,
    /// Availability zone; none: the lab's.
    pub zone: Option<String>,
    /// Id of the availability zone; none: the lab's.
    pub zone_id: Option<String>,
    /// Encrypted; none: as the lab's default says.
    pub encrypted: Option<bool>,
    /// The key that wraps its data key; none: the default one.
    pub kms_key: Option<String>,
    /// Whether several instances may attach it at once: refused, since the lab has one instance.
    pub multi_attach: bool,
    /// Unique name.
    pub name: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Day of its limits, `YYYY-MM-DD`; else the lab's.
    pub as_of: Option<String>,
    /// Credit balance to begin with, 0 to 100.
    pub balance_percent: Option<f64>,
    /// Id of the snapshot that it is made from.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Rate at which the snapshot's blocks are loaded, 100 to 300 MiB/s.
    #[serde(default)]
    pub initialization_mib_s: Option<u64>,
    /// The volume that it is a copy of.
    #[serde(default)]
    pub source_volume: Option<String>,
}

/// How a volume is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Attach name like `sdf` or `/dev/sdf`; else the first free one.
    pub name: Option<String>,
    /// The attach name as EC2 takes it: only names of EBS devices.
    pub device_name: Option<String>,
    /// Id of the instance; none: the lab's.
    pub instance: Option<String>,
    /// Whether requests complete without the model's delays.
    pub unpaced: bool,
    /// Measure the machine's own latency and ceiling.
    pub probe: bool,
}

/// How a volume is detached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DetachRequest {
    /// Whether it is detached under a mounted filesystem too, and a second time.
    pub force: bool,
    /// The instance it must be attached to, if the caller names one.
    pub instance: Option<String>,
    /// The attach name it must have, if the caller names one.
    pub name: Option<String>,
}

/// What a modification changes; what is none stays as it is. Of an array: size is that of the
/// array, the rest is of each member, as in the notation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModifyRequest {
    /// Usable size afterwards, GiB.
    pub size_gib: Option<u64>,
    /// Type afterwards.
    pub volume_type: Option<String>,
    /// Provisioned IOPS (of each member) afterwards.
    pub iops: Option<u64>,
    /// Provisioned MiB/s (of each member) afterwards.
    pub throughput_mib_s: Option<u64>,
    /// GiB that hold data, all members together: how long optimizing takes follows from it.
    /// Unknown: all.
    pub used_gib: Option<u64>,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Changes the settings that are given.
    Configure(SettingsRequest),
    /// A new volume or array.
    CreateVolume(CreateRequest),
    /// *Daemon*: its files are there.
    Created {
        /// Volume.
        volume: String,
    },
    /// *Daemon*: its files could not be made, or are lost.
    VolumeFailed {
        /// Volume.
        volume: String,
        /// Why, in words.
        reason: String,
    },
    /// Deletes a volume and its data.
    DeleteVolume {
        /// Volume.
        volume: String,
    },
    /// *Daemon*: its files are gone.
    Deleted {
        /// Volume.
        volume: String,
    },
    /// Sets and removes tags; removing one that is not there is nothing.
    Tag(TagRequest),
    /// Sets attributes of a volume; none: as it is.
    SetAttributes {
        /// Volume.
        volume: String,
        /// Whether I/O goes on after a check that failed.
        auto_enable_io: Option<bool>,
        /// Whether it goes with the instance; only while attached.
        delete_on_termination: Option<bool>,
    },
    /// Makes a block device of it.
    Attach {
        /// Volume.
        volume: String,
        /// How.
        request: AttachRequest,
    },
    /// *Daemon*: the device is there, or there again after a restart.
    Attached {
        /// Volume.
        volume: String,
        /// The device.
        device: AttachedDevice,
    },
    /// *Daemon*: there is no device.
    AttachFailed {
        /// Volume.
        volume: String,
        /// Why, in words.
        reason: String,
    },
    /// Takes the device away.
    Detach {
        /// Volume.
        volume: String,
        /// How.
        request: DetachRequest,
    },
    /// *Daemon*: it is mounted or open.
    DetachBusy {
        /// Volume.
        volume: String,
        /// What made it fail, in words.
        reason: String,
        /// Detached as soon as it is not, as EC2 does it.
        waits: bool,
    },
    /// *Daemon*: the device is gone.
    Detached {
        /// Volume.
        volume: String,
    },
    /// Changes size, type, IOPS or MiB/s.
    Modify {
        /// Volume.
        volume: String,
        /// What it becomes.
        request: ModifyRequest,
    },
    /// *Daemon*: the device or its files could not grow.
    ModifyFailed {
        /// Volume.
        volume: String,
        /// Why, in words.
        reason: String,
    },
    /// Sets the credit balance.
    SetBalance {
        /// Volume.
        volume: String,
        /// One member; else all that have credits.
        member: Option<u32>,
        /// 0 to 100.
        percent: f64,
    },
    /// Makes a member (0 for a single volume) slow until it is restored.
    SlowMember {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
        /// What is left of its caps, 0.1 to 100 %; kept in thousandths.
        caps_percent: f64,
        /// Added to every request, ms, up to a minute; kept in microseconds.
        extra_ms: f64,
    },
    /// Loses a member.
    FailMember {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
    },
    /// Ends slowness; brings back a lost member where nothing was written without it (no
    /// redundancy).
    RestoreMember {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
    },
    /// Puts a new volume in the place of a member and rebuilds it.
    ReplaceMember {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
        /// Most MiB/s of the rebuild; else as fast as members allow.
        mib_s: Option<u64>,
    },
    /// *Daemon*: how far a rebuild is.
    MemberRebuilding {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
        /// Bytes done.
        done_bytes: u64,
    },
    /// *Daemon*: a rebuild is complete.
    MemberRebuilt {
        /// Volume.
        volume: String,
        /// Index.
        member: u32,
    },
    /// About keys.
    Key(KeyCommand),
    /// A command for an alarm.
    Alarm(AlarmRequest),
    /// About snapshots.
    Snapshot(SnapshotCommand),
}
