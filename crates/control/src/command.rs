//! What can be asked of the lab. A volume is named by its id or its name. Commands marked *daemon* report how the daemon's part of an earlier one ended.

use crate::attachments::AttachedDevice;
use crate::settings::ModificationTimes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Changes the settings that are given.
    Configure {
        /// EC2 instance type whose limits all volumes share; `none` for no instance. Only while nothing is attached.
        instance_type: Option<String>,
        /// Day of the limits of new volumes, `YYYY-MM-DD`, or `newest`.
        as_of: Option<String>,
        /// How many times as fast as the wall lab time runs.
        time_scale: Option<u32>,
        /// Region, for prices.
        region: Option<String>,
        /// Durations of modifications in place of the model's guess.
        modification_times: Option<ModificationTimes>,
    },
    /// A new volume or array.
    CreateVolume {
        /// Storage notation.
        spec: String,
        /// Unique name.
        name: Option<String>,
        /// Tags.
        tags: BTreeMap<String, String>,
        /// Day of its limits, `YYYY-MM-DD`; else the lab's.
        as_of: Option<String>,
        /// Credit balance to begin with, 0 to 100.
        balance_percent: Option<f64>,
    },
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
    Tag {
        /// Volume.
        volume: String,
        /// Tags to add or overwrite.
        set: BTreeMap<String, String>,
        /// Keys to remove, before setting.
        remove: Vec<String>,
    },
    /// Makes a block device of it.
    Attach {
        /// Volume.
        volume: String,
        /// Attach name like `sdf` or `/dev/sdf`; else the first free one.
        name: Option<String>,
        /// Without the model's delays.
        unpaced: bool,
        /// Measure the machine's own latency and ceiling.
        probe: bool,
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
        /// Also under a mounted filesystem, and a second time.
        force: bool,
    },
    /// *Daemon*: it is mounted or open.
    DetachBusy {
        /// Volume.
        volume: String,
        /// By what, in words.
        reason: String,
    },
    /// *Daemon*: the device is gone.
    Detached {
        /// Volume.
        volume: String,
    },
    /// Changes size, type, IOPS or MiB/s. Of an array: size is that of the array, the rest is of each member, as in the notation.
    Modify {
        /// Volume.
        volume: String,
        /// Usable size afterwards, GiB.
        size_gib: Option<u64>,
        /// Type afterwards.
        volume_type: Option<String>,
        /// Provisioned IOPS (of each member) afterwards.
        iops: Option<u64>,
        /// Provisioned MiB/s (of each member) afterwards.
        throughput_mib_s: Option<u64>,
        /// GiB that hold data, all members together: how long optimizing takes follows from it. Unknown: all.
        used_gib: Option<u64>,
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
    /// Ends slowness; brings back a lost member where nothing was written without it (no redundancy).
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
}
