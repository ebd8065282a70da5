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
//! | `record` | what is kept of a snapshot, a rule, a schedule, a fast restore |
//! | `messages` | commands and changes |
//! | `registry` | all of them: find, apply a change; how a refusal is said |
//! | `lifecycle` | create, complete, fail, copy, delete |
//! | `locks` | locks against deletion |
//! | `fast_restore` | fast snapshot restore: states and credits |
//! | `retention` | the recycle bin, its rules |
//! | `schedules` | snapshots by schedule |
//!
//! Imports go down only: `schedules`; `lifecycle`; `fast_restore`, `retention`, `locks`;
//! `registry`; `messages`; `record`. This file hands each command to its machine.

pub(crate) mod fast_restore;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod messages;
pub(crate) mod record;
pub(crate) mod registry;
pub(crate) mod retention;
pub(crate) mod schedules;

use crate::error::ControlError;
use crate::event::{Change, Event};
use crate::snapshots::messages::SnapshotCommand;
use crate::snapshots::record::FastRestore;
use crate::snapshots::registry::Snapshots;
use crate::state::Lab;
use std::collections::BTreeMap;

/// Returns the changes a command makes.
pub(crate) fn decide_changes(lab: &Lab, command: &SnapshotCommand, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
    let all = &lab.snapshots;
    let changes = match command {
        SnapshotCommand::Create(request) => lifecycle::create(lab, request, None, at_ms, ids),
        SnapshotCommand::Copy(request) => lifecycle::copy(all, request, ids),
        SnapshotCommand::Start(request) => lifecycle::start(all, request, ids),
        SnapshotCommand::Progress { snapshot, percent, waits } => lifecycle::note_progress(all, snapshot, *percent, waits.as_deref()),
        SnapshotCommand::Completed { snapshot, parent, stored_bytes, full_bytes } => {
            let mut changes = lifecycle::complete(all, snapshot, parent.as_ref(), *stored_bytes, *full_bytes)?;
            changes.extend(schedules::after_completion(all, snapshot, at_ms)?);
            Ok(changes)
        }
        SnapshotCommand::Failed { snapshot, reason } => lifecycle::fail(all, snapshot, reason),
        SnapshotCommand::Abandon { snapshots } => lifecycle::abandon(all, snapshots),
        SnapshotCommand::Delete { snapshot } => lifecycle::delete(all, all.find(snapshot)?, at_ms),
        SnapshotCommand::Removed { snapshot } => lifecycle::confirm_removed(all, snapshot),
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
    Ok(changes?.into_iter().map(Change::Snapshot).collect())
}

/// Returns the events of snapshots that need no command: the end of a stay in the recycle bin and
/// the steps of fast restores. `now_ms`: lab time, Unix milliseconds; what is due then is included.
pub(crate) fn due(all: &Snapshots, now_ms: u64) -> Vec<Event> {
    let mut events = retention::due(all, now_ms);
    events.extend(fast_restore::due(all, now_ms));
    events
}

/// Returns the lab time, Unix milliseconds, of the next event of [`due`] or of the next schedule.
pub(crate) fn next_due(all: &Snapshots) -> Option<u64> {
    let bin = all.bin.values().map(|bin| bin.exit_ms);
    let fast = all.fast.values().flat_map(BTreeMap::values).filter_map(FastRestore::next_ms);
    let schedules = all.schedules.values().filter(|schedule| schedule.enabled).map(|schedule| schedule.next_ms);
    bin.chain(fast).chain(schedules).min()
}
