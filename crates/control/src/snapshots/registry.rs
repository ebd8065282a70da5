//! The snapshots that a lab keeps, and what a change does to them.

use crate::error::{ControlError, ErrorKind};
use crate::ids::SnapshotId;
use crate::snapshots::messages::SnapshotChange;
use crate::snapshots::record::{Binned, FastRestore, RetentionRule, Schedule, SnapshotRecord, SnapshotState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most snapshots of a lab, those in the recycle bin too. A rule of the lab: the journal's
/// checkpoints hold every record. AWS allows 100,000 in a region (EBS quotas).
pub const MAX_SNAPSHOTS: usize = 20_000;

/// The snapshots of a lab, and what belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshots {
    /// The records by id, those in the recycle bin too.
    pub records: BTreeMap<SnapshotId, SnapshotRecord>,
    /// The snapshots that are not completed yet.
    pub pending: BTreeSet<SnapshotId>,
    /// Snapshots in the recycle bin.
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

/// Makes a refusal with AWS's code and AWS's own sentence.
pub(crate) fn refusal(kind: ErrorKind, code: &'static str, message: String, value: impl Into<String>, hint: impl Into<String>) -> ControlError {
    ControlError::new(kind, value, message.trim_end_matches('.'), format!("EC2 error {code}"), hint).says(code, message)
}

/// Makes the refusal of an id that is not one of a snapshot.
pub(crate) fn refuse_id(snapshot: &str) -> ControlError {
    let message = format!("Invalid id: \"{snapshot}\" (expecting \"snap-...\")");
    refusal(ErrorKind::InvalidParameter, "InvalidParameterValue", message, snapshot, "Take the id from `headrace snapshot list`.")
}

/// Refuses a snapshot whose blocks are not all stored.
pub(crate) fn check_completed(record: &SnapshotRecord) -> Result<(), ControlError> {
    if record.state == SnapshotState::Completed {
        return Ok(());
    }
    let message = format!("Snapshot '{}' is in state {}, and must be completed for that.", record.id, record.state.as_str());
    Err(refusal(ErrorKind::IncorrectState, "IncorrectState", message, record.id.as_str(), "Wait until it is completed: `headrace snapshot list`."))
}

impl Snapshots {
    /// Returns a snapshot that is not in the recycle bin.
    ///
    /// # Errors
    /// Not an id, or no snapshot has it.
    pub fn find(&self, snapshot: &str) -> Result<&SnapshotRecord, ControlError> {
        let id: SnapshotId = snapshot.parse().map_err(|_| refuse_id(snapshot))?;
        self.records.get(&id).filter(|_| !self.bin.contains_key(&id)).ok_or_else(|| {
            let hint = match self.bin.contains_key(&id) {
                true => "It is in the recycle bin: `headrace snapshot recover` takes it out.",
                false => "See `headrace snapshot list`.",
            };
            refusal(ErrorKind::NotFound, "InvalidSnapshot.NotFound", format!("The snapshot '{snapshot}' does not exist."), snapshot, hint)
        })
    }

    /// Returns the snapshots that are not in the recycle bin, by id.
    pub fn listed(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.records.values().filter(|record| !self.bin.contains_key(&record.id))
    }

    /// Returns the names of the schedules whose time has come.
    pub fn schedules_due(&self, now_ms: u64) -> Vec<String> {
        self.schedules.values().filter(|schedule| schedule.enabled && schedule.next_ms <= now_ms).map(|schedule| schedule.name.clone()).collect()
    }

    /// Applies a change of a snapshot, a rule, a schedule or a region at the lab time `at_ms`, Unix
    /// milliseconds.
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
            SnapshotChange::FastRestoreSet { snapshot, zone, fast } => self.set_fast(snapshot, zone, fast.as_ref()),
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
            // The lab applies it to the volume.
            SnapshotChange::VolumeLoaded { .. } => {}
            SnapshotChange::Progress { snapshot, .. }
            | SnapshotChange::Completed { snapshot, .. }
            | SnapshotChange::Failed { snapshot, .. }
            | SnapshotChange::TagsChanged { snapshot, .. }
            | SnapshotChange::Shared { snapshot, .. }
            | SnapshotChange::LockSet { snapshot, .. } => self.change_record(snapshot, change, at_ms),
        }
    }

    /// Applies a change of the record of a snapshot; none without a record.
    fn change_record(&mut self, snapshot: &SnapshotId, change: &SnapshotChange, at_ms: u64) {
        if matches!(change, SnapshotChange::Completed { .. } | SnapshotChange::Failed { .. }) {
            self.pending.remove(snapshot);
        }
        let Some(record) = self.records.get_mut(snapshot) else { return };
        match change {
            SnapshotChange::Progress { percent, waits, .. } => {
                record.progress_percent = *percent;
                record.error.clone_from(waits);
            }
            SnapshotChange::Completed { parent, stored_bytes, full_bytes, .. } => {
                record.state = SnapshotState::Completed;
                record.error = None;
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
                record.properties.tags.retain(|key, _| !remove.contains(key));
                record.properties.tags.extend(set.clone());
            }
            SnapshotChange::Shared { accounts, .. } => record.shared_with.clone_from(accounts),
            SnapshotChange::LockSet { lock, .. } => record.lock.clone_from(lock),
            _ => {}
        }
    }

    fn set_fast(&mut self, snapshot: &SnapshotId, zone: &str, fast: Option<&FastRestore>) {
        let zones = self.fast.entry(snapshot.clone()).or_default();
        match fast {
            Some(fast) => drop(zones.insert(zone.to_string(), fast.clone())),
            None => drop(zones.remove(zone)),
        }
    }

    /// Moves a snapshot to those whose objects are being removed, with the name of its chain.
    fn forget(&mut self, snapshot: &SnapshotId) {
        if let Some(record) = self.records.remove(snapshot) {
            self.deleting.insert(snapshot.clone(), record.properties.chain);
        }
        self.pending.remove(snapshot);
        self.bin.remove(snapshot);
        self.fast.remove(snapshot);
    }
}
