//! Commands to the lab. A volume is named by its id or its name. Commands marked *daemon* report
//! how the daemon's part of an earlier one ended.

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
    /// Type, like gp3; None for gp2, as EC2 has it.
    pub volume_type: Option<String>,
    /// Size, GiB.
    pub size_gib: Option<u64>,
    /// Provisioned IOPS.
    pub iops: Option<u64>,
    /// Provisioned MiB/s.
    pub throughput_mib_s: Option<u64>,
    /// Availability zone; None for the lab's.
    pub zone: Option<String>,
    /// Id of the availability zone; None for the lab's.
    pub zone_id: Option<String>,
    /// True to encrypt it; None for the lab's default.
    pub encrypted: Option<bool>,
    /// KMS key that wraps its data key; None for the default key.
    pub kms_key: Option<String>,
    /// True if several instances may attach it at once: refused, since the lab has one instance.
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

/// Options of attaching a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Attach name like `sdf` or `/dev/sdf`; else the first free one.
    pub name: Option<String>,
    /// The attach name as EC2 takes it: only names of EBS devices.
    pub device_name: Option<String>,
    /// Id of the instance; None for the lab's.
    pub instance: Option<String>,
    /// True if requests complete without the model's delays.
    pub unpaced: bool,
    /// True to measure the machine's own latency and ceiling.
    pub probe: bool,
}

/// Options of detaching a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DetachRequest {
    /// True to detach under a mounted filesystem too, and a second time.
    pub force: bool,
    /// The instance it must be attached to, if the caller names one.
    pub instance: Option<String>,
    /// The attach name it must have, if the caller names one.
    pub name: Option<String>,
}

/// Changes of a modification; fields that are None stay as they are. The size of an array is that
/// of the whole array, the other fields are for each member, as in the notation.
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
        /// Reason in words.
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
    /// Sets attributes of a volume; those that are None stay as they are.
    SetAttributes {
        /// Volume.
        volume: String,
        /// True if I/O goes on after a check that failed.
        auto_enable_io: Option<bool>,
        /// True if the volume is deleted with the instance; only while attached.
        delete_on_termination: Option<bool>,
    },
    /// Makes a block device of a volume.
    Attach {
        /// Volume.
        volume: String,
        /// Options.
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
        /// Reason in words.
        reason: String,
    },
    /// Takes the device away.
    Detach {
        /// Volume.
        volume: String,
        /// Options.
        request: DetachRequest,
    },
    /// *Daemon*: the volume is mounted or open, and stays attached.
    DetachBusy {
        /// Volume.
        volume: String,
        /// Reason in words.
        reason: String,
        /// True to detach as soon as it is not in use any more, as EC2 does it.
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
        /// Changes.
        request: ModifyRequest,
    },
    /// *Daemon*: the device or its files could not grow.
    ModifyFailed {
        /// Volume.
        volume: String,
        /// Reason in words.
        reason: String,
    },
    /// Sets the credit balance.
    SetBalance {
        /// Volume.
        volume: String,
        /// Index of a member; None for all that have credits.
        member: Option<u32>,
        /// Balance, percent of the capacity, 0 to 100.
        percent: f64,
    },
    /// Makes a member (0 for a single volume) slow until it is restored.
    SlowMember {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
        /// Share of the caps that remains, 0.1 to 100 %; kept in thousandths.
        caps_percent: f64,
        /// Latency added to every request, ms, up to a minute; kept in microseconds.
        extra_ms: f64,
    },
    /// Loses a member.
    FailMember {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
    },
    /// Ends slowness; brings back a lost member where nothing was written without it (no
    /// redundancy).
    RestoreMember {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
    },
    /// Puts a new volume in the place of a member and rebuilds it.
    ReplaceMember {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
        /// Most MiB/s of the rebuild; else as fast as members allow.
        mib_s: Option<u64>,
    },
    /// *Daemon*: progress of a rebuild, which a restart begins again.
    MemberRebuilding {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
        /// Bytes done.
        done_bytes: u64,
    },
    /// *Daemon*: a rebuild is complete.
    MemberRebuilt {
        /// Volume.
        volume: String,
        /// Index of the member.
        member: u32,
    },
    /// A command about keys.
    Key(KeyCommand),
    /// A command for an alarm.
    Alarm(AlarmRequest),
    /// A command about snapshots.
    Snapshot(SnapshotCommand),
}
