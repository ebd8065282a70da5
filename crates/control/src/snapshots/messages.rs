//! Commands about snapshots, and changes of them.

use crate::ids::{SnapshotId, VolumeId};
use crate::snapshots::record::{Binned, FastRestore, LockMode, NewSnapshot, RetentionRule, Schedule, SnapshotKey, SnapshotLock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A snapshot of one volume, or of several at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotRequest {
    /// Ids or names, one or more.
    pub volumes: Vec<String>,
    /// Description of each.
    pub description: String,
    /// Tags of each.
    pub tags: BTreeMap<String, String>,
    /// True if each snapshot also gets the tags of its volume; those in `tags` win.
    pub copy_tags: bool,
}

/// A copy of a snapshot. For a snapshot in another object store, the request has the facts about
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyRequest {
    /// The snapshot.
    pub snapshot: String,
    /// URL of the object store of another lab; None for this lab's own.
    pub store: Option<String>,
    /// Size of a snapshot in another store, GiB.
    pub size_gib: Option<u64>,
    /// Description; None for that of the source.
    pub description: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Data key of the copy; None if it is not encrypted.
    pub key: Option<SnapshotKey>,
    /// The data key under which a snapshot of another store is encrypted, wrapped under a key of
    /// this lab.
    pub source_key: Option<SnapshotKey>,
}

/// A snapshot that is put block by block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectRequest {
    /// Size, GiB.
    pub size_gib: u64,
    /// The snapshot that has the blocks which are not put.
    pub parent: Option<String>,
    /// Description.
    pub description: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Data key of the snapshot; None if it is not encrypted.
    pub key: Option<SnapshotKey>,
}

/// A lock, or a change of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRequest {
    /// The snapshot.
    pub snapshot: String,
    /// Mode.
    pub mode: LockMode,
    /// Duration of the lock, days; or `expires_ms`.
    pub duration_days: Option<u32>,
    /// End of the lock, lab time in Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Time in which the lock can be changed and taken away, hours: in compliance mode only.
    pub cool_off_hours: Option<u32>,
}

/// A schedule to add or to replace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of a schedule
pub struct ScheduleRequest {
    pub name: String,
    pub target_tags: BTreeMap<String, String>,
    pub interval_s: u64,
    pub keep: Option<u32>,
    pub keep_days: Option<u32>,
    pub tags: BTreeMap<String, String>,
    pub copy_tags: bool,
    pub disabled: bool,
}

/// Commands about snapshots. Commands marked *daemon* report how the daemon's part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields say what they are
pub enum SnapshotCommand {
    /// Creates a snapshot of one volume, or of several at one instant: all or none.
    Create(SnapshotRequest),
    /// Copies a completed snapshot.
    Copy(CopyRequest),
    /// A snapshot that is put block by block.
    Start(DirectRequest),
    /// *Daemon*: progress of storing, percent.
    Progress { snapshot: SnapshotId, percent: u8, waits: Option<String> },
    /// *Daemon*: everything is stored.
    Completed { snapshot: SnapshotId, parent: Option<SnapshotId>, stored_bytes: u64, full_bytes: u64 },
    /// *Daemon*: it cannot be stored.
    Failed { snapshot: SnapshotId, reason: String },
    /// *Daemon*: the instant could not be taken; nothing is left of these.
    Abandon { snapshots: Vec<SnapshotId> },
    /// Deletes a snapshot, or moves it to the recycle bin.
    Delete { snapshot: String },
    /// *Daemon*: its objects are removed.
    Removed { snapshot: SnapshotId },
    /// Takes a snapshot out of the recycle bin.
    Recover { snapshot: String },
    /// Sets the accounts that may make volumes from a snapshot.
    Share { snapshot: String, add: Vec<String>, remove: Vec<String> },
    /// Locks it, or changes its lock.
    Lock(LockRequest),
    /// Takes its lock away.
    Unlock { snapshot: String },
    /// Switches fast snapshot restore on or off in a zone.
    FastRestore { snapshot: String, zone: String, enable: bool },
    /// Adds a retention rule of the recycle bin.
    SetRule { rule: RetentionRule },
    /// Takes a retention rule away; its snapshots stay until their time.
    DeleteRule { rule: String },
    /// Adds or replaces a schedule.
    SetSchedule(ScheduleRequest),
    /// Takes a schedule away; its snapshots stay.
    DeleteSchedule { schedule: String },
    /// *Daemon*: a schedule's time has come.
    RunSchedule { schedule: String },
    /// Names the object store of another region: another lab's. None: no longer.
    SetRegion { region: String, store: Option<String> },
    /// *Daemon*: every block of a volume's snapshot is in its own files.
    VolumeLoaded { volume: VolumeId },
}

/// Changes of snapshots. Written to the journal, so a name or a field is never changed or taken
/// away; new fields have a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields are those of the command of the same name
pub enum SnapshotChange {
    /// A snapshot begins to exist.
    Started { snapshot: SnapshotId, new: NewSnapshot },
    /// A part of the snapshot is stored, percent; not forced to disk.
    Progress {
        snapshot: SnapshotId,
        percent: u8,
        #[serde(default)]
        waits: Option<String>,
    },
    /// The snapshot can be used.
    Completed {
        snapshot: SnapshotId,
        #[serde(default)]
        parent: Option<SnapshotId>,
        stored_bytes: u64,
        full_bytes: u64,
    },
    /// The snapshot cannot be used.
    Failed { snapshot: SnapshotId, reason: String },
    /// The record of the snapshot is gone, its objects are being removed.
    DeletionStarted { snapshot: SnapshotId },
    /// The objects of the snapshot are gone.
    Removed { snapshot: SnapshotId },
    /// The snapshot is in the recycle bin.
    Binned { snapshot: SnapshotId, bin: Binned },
    /// The snapshot is out of the recycle bin.
    Recovered { snapshot: SnapshotId },
    /// Keys removed, then tags set.
    TagsChanged {
        snapshot: SnapshotId,
        #[serde(default)]
        set: BTreeMap<String, String>,
        #[serde(default)]
        remove: Vec<String>,
    },
    /// These accounts may make volumes from it.
    Shared { snapshot: SnapshotId, accounts: Vec<String> },
    /// The snapshot has this lock; None if it is not locked any more.
    LockSet { snapshot: SnapshotId, lock: Option<SnapshotLock> },
    /// The snapshot has this fast restore in a zone; None if it has none any more.
    FastRestoreSet { snapshot: SnapshotId, zone: String, fast: Option<FastRestore> },
    /// A retention rule of the recycle bin.
    RuleSet { rule: RetentionRule },
    /// A retention rule is gone.
    RuleDeleted { rule: String },
    /// A schedule.
    ScheduleSet { schedule: Schedule },
    /// A schedule is gone.
    ScheduleDeleted { schedule: String },
    /// Another region has this object store; None if it has none any more.
    RegionSet { region: String, store: Option<String> },
    /// The schedule ran, and runs next at this lab time.
    ScheduleRan { schedule: String, next_ms: u64 },
    /// Every block of a volume's snapshot is in its own files.
    VolumeLoaded { volume: VolumeId },
}

impl SnapshotChange {
    /// Returns the snapshot it belongs to; rules, schedules and regions belong to none.
    pub fn snapshot(&self) -> Option<&SnapshotId> {
        match self {
            SnapshotChange::Started { snapshot, .. }
            | SnapshotChange::Progress { snapshot, .. }
            | SnapshotChange::Completed { snapshot, .. }
            | SnapshotChange::Failed { snapshot, .. }
            | SnapshotChange::DeletionStarted { snapshot }
            | SnapshotChange::Removed { snapshot }
            | SnapshotChange::Binned { snapshot, .. }
            | SnapshotChange::Recovered { snapshot }
            | SnapshotChange::TagsChanged { snapshot, .. }
            | SnapshotChange::Shared { snapshot, .. }
            | SnapshotChange::LockSet { snapshot, .. }
            | SnapshotChange::FastRestoreSet { snapshot, .. } => Some(snapshot),
            SnapshotChange::RuleSet { .. }
            | SnapshotChange::RuleDeleted { .. }
            | SnapshotChange::ScheduleSet { .. }
            | SnapshotChange::ScheduleDeleted { .. }
            | SnapshotChange::RegionSet { .. }
            | SnapshotChange::ScheduleRan { .. }
            | SnapshotChange::VolumeLoaded { .. } => None,
        }
    }
}
