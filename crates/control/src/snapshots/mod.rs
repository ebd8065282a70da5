//! Snapshots: pure state machines.
//!
//! ```text
//!  create, copy, start -> pending -- completed --> completed -- delete --> (deleting) -- removed --> (none)
//!                            |                        |  ^                     ^
//!                            +-- failed --> error     |  +-- recover --+       |
//!                                                     +-- delete --> in the recycle bin -- its time is over
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `record` | what is kept of a snapshot |
//! | `lifecycle` | create, complete, fail, copy, delete |
//! | `locks` | locks against deletion |
//! | `fast_restore` | fast snapshot restore: states and credits |
//! | `retention` | the recycle bin, its rules |
//! | `schedules` | snapshots by schedule |

pub(crate) mod fast_restore;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod record;
pub(crate) mod retention;
pub(crate) mod schedules;

use crate::error::{ControlError, ErrorKind};
use crate::event::{Change, Event};
use crate::lab::Lab;
use crate::record::VolumeId;
use crate::snapshots::fast_restore::{FastRestore, FastRestoreState};
use crate::snapshots::lifecycle::{CopyRequest, DirectRequest, SnapshotRequest};
use crate::snapshots::locks::LockRequest;
use crate::snapshots::record::{Binned, NewSnapshot, SnapshotId, SnapshotLock, SnapshotRecord, SnapshotState};
use crate::snapshots::retention::RetentionRule;
use crate::snapshots::schedules::{Schedule, ScheduleRequest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most snapshots of a lab, those in the recycle bin too. A rule of the lab: the journal's
/// checkpoints hold every record. AWS allows 100,000 in a region (EBS quotas).
pub const MAX_SNAPSHOTS: usize = 20_000;

/// What can be asked about snapshots. Commands marked *daemon* report how the daemon's part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields say what they are
pub enum SnapshotCommand {
    /// Of one volume, or of several at one instant: all or none.
    Create(SnapshotRequest),
    /// A copy of a completed snapshot.
    Copy(CopyRequest),
    /// A snapshot that is put block by block.
    Start(DirectRequest),
    /// *Daemon*: how much is stored.
    Progress { snapshot: SnapshotId, percent: u8 },
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
    /// Which accounts may make volumes from it.
    Share { snapshot: String, add: Vec<String>, remove: Vec<String> },
    /// Locks it, or changes its lock.
    Lock(LockRequest),
    /// Takes its lock away.
    Unlock { snapshot: String },
    /// Switches fast snapshot restore on or off in a zone.
    FastRestore { snapshot: String, zone: String, enable: bool },
    /// Adds a retention rule of the recycle bin.
    SetRule { rule: RetentionRule },
    /// Takes a retention rule away; what it keeps stays until its time.
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

/// What changed. Written to the journal, so a name or a field is never changed or taken away; new
/// fields have a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields are those of the command of the same name
pub enum SnapshotChange {
    /// A snapshot begins to exist.
    Started { snapshot: SnapshotId, new: NewSnapshot },
    /// How much is stored; not forced to disk.
    Progress { snapshot: SnapshotId, percent: u8 },
    /// It can be used.
    Completed {
        snapshot: SnapshotId,
        #[serde(default)]
        parent: Option<SnapshotId>,
        stored_bytes: u64,
        full_bytes: u64,
    },
    /// It cannot be used.
    Failed { snapshot: SnapshotId, reason: String },
    /// Its record is gone, its objects are being removed.
    DeletionStarted { snapshot: SnapshotId },
    /// Its objects are gone.
    Removed { snapshot: SnapshotId },
    /// It is in the recycle bin.
    Binned { snapshot: SnapshotId, bin: Binned },
    /// It is out of the recycle bin.
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
    /// It is locked; none: no longer.
    LockSet { snapshot: SnapshotId, lock: Option<SnapshotLock> },
    /// Fast snapshot restore in a zone; none: gone.
    FastRestoreSet { snapshot: SnapshotId, zone: String, fast: Option<FastRestore> },
    /// A retention rule of the recycle bin.
    RuleSet { rule: RetentionRule },
    /// It is gone.
    RuleDeleted { rule: String },
    /// A schedule.
    ScheduleSet { schedule: Schedule },
    /// It is gone.
    ScheduleDeleted { schedule: String },
    /// The object store of another region; none: no longer known.
    RegionSet { region: String, store: Option<String> },
    /// It ran, and runs next at this lab time.
    ScheduleRan { schedule: String, next_ms: u64 },
    /// Every block of a volume's snapshot is in its own files.
    VolumeLoaded { volume: VolumeId },
}

/// The snapshots of a lab, and what belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshots {
    /// By id, those in the recycle bin too.
    pub records: BTreeMap<SnapshotId, SnapshotRecord>,
    /// Those that are not completed yet.
    pub pending: BTreeSet<SnapshotId>,
    /// What is in the recycle bin.
    pub bin: BTreeMap<SnapshotId, Binned>,
    /// Records that are gone, with their chain, until their objects are gone too.
    pub deleting: BTreeMap<SnapshotId, String>,
    /// Fast snapshot restore, by snapshot and zone.
    pub fast: BTreeMap<SnapshotId, BTreeMap<String, FastRestore>>,
    /// Retention rules of the recycle bin.
    pub rules: BTreeMap<String, RetentionRule>,
    /// Schedules.
    pub schedules: BTreeMap<String, Schedule>,
    /// Object stores of other regions, by name of the region.
    pub regions: BTreeMap<String, String>,
}

/// A refusal with AWS's code and AWS's own sentence.
pub(crate) fn refusal(kind: ErrorKind, code: &'static str, message: String, value: impl Into<String>, hint: impl Into<String>) -> ControlError {
    ControlError::new(kind, value, message.trim_end_matches('.'), format!("EC2 error {code}"), hint).says(code, message)
}

impl Snapshots {
    /// A snapshot that is not in the recycle bin.
    ///
    /// # Errors
    /// Not an id, or no snapshot has it.
    pub fn find(&self, snapshot: &str) -> Result<&SnapshotRecord, ControlError> {
        let id: SnapshotId = snapshot.parse().map_err(|_| malformed(snapshot))?;
        self.records.get(&id).filter(|_| !self.bin.contains_key(&id)).ok_or_else(|| {
            let hint = match self.bin.contains_key(&id) {
                true => "It is in the recycle bin: `headrace snapshot recover` takes it out.",
                false => "See `headrace snapshot list`.",
            };
            refusal(ErrorKind::NotFound, "InvalidSnapshot.NotFound", format!("The snapshot '{snapshot}' does not exist."), snapshot, hint)
        })
    }

    /// Snapshots that are not in the recycle bin, by id.
    pub fn listed(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.records.values().filter(|record| !self.bin.contains_key(&record.id))
    }

    /// What happens without a command, until `now_ms`.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<Event> {
        let mut events = retention::due(self, now_ms);
        events.extend(fast_restore::due(self, now_ms));
        events
    }

    /// The lab time of the next event of [`Snapshots::due`] or of the next schedule.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let bin = self.bin.values().map(|bin| bin.exit_ms);
        let fast = self.fast.values().flat_map(BTreeMap::values).filter_map(FastRestore::next_ms);
        let schedules = self.schedules.values().filter(|schedule| schedule.enabled).map(|schedule| schedule.next_ms);
        bin.chain(fast).chain(schedules).min()
    }

    /// Names of the schedules whose time has come.
    pub fn schedules_due(&self, now_ms: u64) -> Vec<String> {
        self.schedules.values().filter(|schedule| schedule.enabled && schedule.next_ms <= now_ms).map(|schedule| schedule.name.clone()).collect()
    }

    pub(crate) fn apply(&mut self, change: &SnapshotChange, at_ms: u64) {
        match change {
            SnapshotChange::Started { snapshot, new } => {
                self.pending.insert(snapshot.clone());
                self.records.insert(snapshot.clone(), SnapshotRecord::new(snapshot.clone(), new.clone(), at_ms));
            }
            SnapshotChange::DeletionStarted { snapshot } => self.forget(snapshot),
            SnapshotChange::Removed { snapshot } => drop(self.deleting.remove(snapshot)),
            SnapshotChange::Binned { snapshot, bin } => {
                self.fast.remove(snapshot);
                self.bin.insert(snapshot.clone(), bin.clone());
            }
            SnapshotChange::Recovered { snapshot } => drop(self.bin.remove(snapshot)),
            SnapshotChange::FastRestoreSet { snapshot, zone, fast } => fast_restore::apply(self, snapshot, zone, fast.as_ref()),
            SnapshotChange::RuleSet { rule } => drop(self.rules.insert(rule.name.clone(), rule.clone())),
            SnapshotChange::RuleDeleted { rule } => drop(self.rules.remove(rule)),
            SnapshotChange::ScheduleSet { schedule } => drop(self.schedules.insert(schedule.name.clone(), schedule.clone())),
            SnapshotChange::ScheduleDeleted { schedule } => drop(self.schedules.remove(schedule)),
            SnapshotChange::ScheduleRan { schedule, next_ms } => {
                if let Some(schedule) = self.schedules.get_mut(schedule) {
                    schedule.next_ms = *next_ms;
                    schedule.last_ms = Some(at_ms);
                }
            }
            SnapshotChange::RegionSet { region, store: Some(store) } => drop(self.regions.insert(region.clone(), store.clone())),
            SnapshotChange::RegionSet { region, store: None } => drop(self.regions.remove(region)),
            // Of a volume: the lab applies it.
            SnapshotChange::VolumeLoaded { .. } => {}
            SnapshotChange::Progress { snapshot, .. }
            | SnapshotChange::Completed { snapshot, .. }
            | SnapshotChange::Failed { snapshot, .. }
            | SnapshotChange::TagsChanged { snapshot, .. }
            | SnapshotChange::Shared { snapshot, .. }
            | SnapshotChange::LockSet { snapshot, .. } => self.change(snapshot, change, at_ms),
        }
    }

    fn change(&mut self, snapshot: &SnapshotId, change: &SnapshotChange, at_ms: u64) {
        if matches!(change, SnapshotChange::Completed { .. } | SnapshotChange::Failed { .. }) {
            self.pending.remove(snapshot);
        }
        let Some(record) = self.records.get_mut(snapshot) else { return };
        match change {
            SnapshotChange::Progress { percent, .. } => record.progress_percent = *percent,
            SnapshotChange::Completed { parent, stored_bytes, full_bytes, .. } => {
                record.state = SnapshotState::Completed;
                record.progress_percent = 100;
                record.completed_ms = Some(at_ms);
                record.parent.clone_from(parent);
                (record.stored_bytes, record.full_bytes) = (*stored_bytes, *full_bytes);
            }
            SnapshotChange::Failed { reason, .. } => {
                record.state = SnapshotState::Error;
                record.error = Some(reason.clone());
            }
            SnapshotChange::TagsChanged { set, remove, .. } => {
                record.of.tags.retain(|key, _| !remove.contains(key));
                record.of.tags.extend(set.clone());
            }
            SnapshotChange::Shared { accounts, .. } => record.shared_with.clone_from(accounts),
            SnapshotChange::LockSet { lock, .. } => record.lock.clone_from(lock),
            _ => {}
        }
    }

    fn forget(&mut self, snapshot: &SnapshotId) {
        if let Some(record) = self.records.remove(snapshot) {
            self.deleting.insert(snapshot.clone(), record.of.chain);
        }
        self.pending.remove(snapshot);
        self.bin.remove(snapshot);
        self.fast.remove(snapshot);
    }
}

fn malformed(snapshot: &str) -> ControlError {
    let message = format!("Invalid id: \"{snapshot}\" (expecting \"snap-...\")");
    refusal(ErrorKind::InvalidParameter, "InvalidParameterValue", message, snapshot, "Take the id from `headrace snapshot list`.")
}

/// The changes a command makes.
pub(crate) fn changes(lab: &Lab, command: &SnapshotCommand, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
    let all = &lab.snapshots;
    let made = match command {
        SnapshotCommand::Create(request) => lifecycle::create(lab, request, at_ms, ids),
        SnapshotCommand::Copy(request) => lifecycle::copy(all, request, ids),
        SnapshotCommand::Start(request) => lifecycle::start(all, request, ids),
        SnapshotCommand::Progress { snapshot, percent } => lifecycle::progress(all, snapshot, *percent),
        SnapshotCommand::Completed { snapshot, parent, stored_bytes, full_bytes } => {
            lifecycle::completed(all, snapshot, parent.as_ref(), *stored_bytes, *full_bytes)
        }
        SnapshotCommand::Failed { snapshot, reason } => lifecycle::failed(all, snapshot, reason),
        SnapshotCommand::Abandon { snapshots } => lifecycle::abandon(all, snapshots),
        SnapshotCommand::Delete { snapshot } => lifecycle::delete(all, all.find(snapshot)?, at_ms),
        SnapshotCommand::Removed { snapshot } => lifecycle::removed(all, snapshot),
        SnapshotCommand::Recover { snapshot } => retention::recover(all, snapshot),
        SnapshotCommand::Share { snapshot, add, remove } => lifecycle::share(all.find(snapshot)?, add, remove),
        SnapshotCommand::Lock(request) => locks::lock(all.find(&request.snapshot)?, request, at_ms),
        SnapshotCommand::Unlock { snapshot } => locks::unlock(all.find(snapshot)?, at_ms),
        SnapshotCommand::FastRestore { snapshot, zone, enable: true } => fast_restore::enable(lab, all.find(snapshot)?, zone, at_ms),
        SnapshotCommand::FastRestore { snapshot, zone, enable: false } => fast_restore::disable(lab, all.find(snapshot)?, zone, at_ms),
        SnapshotCommand::SetRule { rule } => retention::set_rule(all, rule),
        SnapshotCommand::DeleteRule { rule } => retention::delete_rule(all, rule),
        SnapshotCommand::SetSchedule(request) => schedules::set(all, request, at_ms),
        SnapshotCommand::DeleteSchedule { schedule } => schedules::delete(all, schedule),
        SnapshotCommand::RunSchedule { schedule } => schedules::run(lab, schedule, at_ms, ids),
        SnapshotCommand::SetRegion { region, store } => retention::set_region(lab, region, store.as_deref()),
        SnapshotCommand::VolumeLoaded { volume } => lifecycle::volume_loaded(lab.find(volume.as_str())?),
    };
    Ok(made?.into_iter().map(Change::Snapshot).collect())
}

impl FastRestoreState {
    /// EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            FastRestoreState::Enabling => "enabling",
            FastRestoreState::Optimizing => "optimizing",
            FastRestoreState::Enabled => "enabled",
            FastRestoreState::Disabling => "disabling",
            FastRestoreState::Disabled => "disabled",
        }
    }
}
