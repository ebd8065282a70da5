//! The ledger of a lab: its records, its journal and its clock under one lock.
//! [`Ledger::command`] is the only way to change a record.

use crate::engine::parts::{lock, random};
use crate::engine::state::{commit, write_waiting, State};
use crate::envelope;
use crate::journal::{Balances, Checkpoint, Entry, Json, Saved};
use crate::problem::{refused, Outcome};
use headrace_catalog::InstanceLimits;
use headrace_control::{
    ClientToken, Command, ErrorKind, Event, Lab, Problem, SettingsRequest, SnapshotRecord, SnapshotState, UsedToken, VolumeId, VolumeRecord,
};
use headrace_model::{InstanceState, ModelOptions, Nanos, SavedDevice, SavedVolume};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Records, journal and clock of a lab.
pub struct Ledger {
    /// Time of the start.
    pub started: Instant,
    /// True when the lab is going down.
    pub(crate) stopping: AtomicBool,
    state: Mutex<State>,
}

impl Ledger {
    /// Makes the ledger of a lab that starts now.
    pub(crate) fn new(state: State) -> Ledger {
        Ledger { started: Instant::now(), stopping: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Changes the settings at the start. Returns the limits of the instance, and the levels of its
    /// credit buckets that were noted last.
    pub(crate) fn configure(&self, request: SettingsRequest) -> Outcome<(Option<InstanceLimits>, Option<InstanceState>)> {
        // The devices of the earlier daemon are gone: nothing is attached while settings change.
        let mut state = lock(&self.state);
        let mut detached = state.lab.clone();
        detached.volumes.values_mut().for_each(|record| record.attachment = None);
        let now_ms = state.clock.lab_ms(0);
        let events = detached.decide(&Command::Configure(request), now_ms, &mut random)?;
        commit(&mut state, events)?;
        state.clock = state.clock.rescaled(0, state.lab.settings.time_scale);
        let instance = state.lab.settings.instance()?;
        let levels = state.balances.instance.as_ref().and_then(|saved| saved.state.read::<InstanceState>().ok());
        Ok((instance, levels))
    }

    /// Decides a command, writes its events to the journal, and applies them.
    pub fn command(&self, command: &Command) -> Outcome<Vec<Event>> {
        let mut state = lock(&self.state);
        let now_ms = self.lab_ms_of(&state);
        let decided = match envelope::token() {
            None => state.lab.decide(command, now_ms, &mut random),
            Some(token) => state.lab.decide_once(command, &token, now_ms, &mut random),
        };
        let events = decided?;
        if envelope::is_dry_run() {
            return Err(envelope::dry_run_passed());
        }
        commit(&mut state, events.clone())?;
        envelope::forget_token();
        Ok(events)
    }

    /// Returns the record of a client token; None if no call has used it yet.
    pub fn used_token(&self, token: &ClientToken) -> Outcome<Option<UsedToken>> {
        self.lab(|lab| lab.tokens.find(token).map(|used| used.cloned())).map_err(Problem::from)
    }

    /// Returns the events that are due, without applying them.
    pub(crate) fn due_events(&self) -> Vec<Event> {
        let mut state = lock(&self.state);
        let now_ms = self.lab_ms_of(&state);
        state.due(now_ms)
    }

    pub(crate) fn commit(&self, event: Event) -> Outcome<()> {
        commit(&mut lock(&self.state), vec![event])
    }

    /// Notes credits as they are; not forced to disk.
    pub(crate) fn note_balances(&self, devices: Vec<(VolumeId, Nanos, SavedDevice)>, instance: Option<(Nanos, InstanceState)>) -> Outcome<()> {
        let mut state = lock(&self.state);
        let at_ms = self.lab_ms_of(&state);
        let saved = |now: Nanos, json: Result<Json, serde_json::Error>| json.ok().map(|state| Saved { at_ms, device_ns: now.0, state });
        let levels = |mut device: SavedDevice| {
            // Cold blocks are left out: the marks of the volume have them, up to megabytes.
            device.members.iter_mut().for_each(SavedVolume::forget_touch);
            device
        };
        let devices: BTreeMap<_, _> = devices.into_iter().filter_map(|(id, now, device)| Some((id, saved(now, Json::from_value(&levels(device)))?))).collect();
        let newer = Balances { instance: instance.and_then(|(now, state)| saved(now, Json::from_value(&state))), devices };
        write_waiting(&mut state)?;
        state.journal.append(&Entry::Balances(newer.clone()), false)?;
        state.balances.merge(newer);
        if state.journal.needs_compaction() {
            let all = Checkpoint { lab: state.lab.clone(), balances: state.balances.clone() };
            state.journal.compact(&all)?;
        }
        Ok(())
    }

    /// Writes the events that wait to the journal.
    pub(crate) fn settle(&self) -> Outcome<()> {
        write_waiting(&mut lock(&self.state))
    }

    /// Forces everything to disk, before the end.
    pub(crate) fn close_journal(&self) {
        let mut state = lock(&self.state);
        let all = Checkpoint { lab: state.lab.clone(), balances: state.balances.clone() };
        if let Err(error) = state.journal.compact(&all) {
            tracing::error!("the last checkpoint: {error}");
        }
    }

    fn lab_ms_of(&self, state: &State) -> u64 {
        state.clock.lab_ms(self.started.elapsed().as_nanos() as u64)
    }

    /// Returns the lab time, Unix milliseconds.
    pub fn lab_ms(&self) -> u64 {
        self.lab_ms_of(&lock(&self.state))
    }

    /// Returns the device time that a stretch of lab time takes.
    pub(crate) fn device_span(&self, lab_ms: u64) -> Nanos {
        let scale = self.lab(|lab| u64::from(lab.settings.time_scale));
        Nanos(lab_ms.saturating_mul(1_000_000) / scale.max(1))
    }

    pub(crate) fn state<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&lock(&self.state))
    }

    /// Looks at the lab.
    pub fn lab<R>(&self, look: impl FnOnce(&Lab) -> R) -> R {
        look(&lock(&self.state).lab)
    }

    /// Returns a volume by id or name.
    pub fn find(&self, volume: &str) -> Outcome<VolumeRecord> {
        self.lab(|lab| lab.find(volume).cloned()).map_err(Problem::from)
    }

    pub(crate) fn model_options(&self) -> Outcome<ModelOptions> {
        let instance = self.lab(|lab| lab.settings.instance())?;
        Ok(ModelOptions::behind(instance.as_ref()))
    }

    /// Returns true if the lab is going down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns a completed snapshot; refuses one in another state.
    pub(crate) fn completed(&self, snapshot: &str) -> Outcome<SnapshotRecord> {
        let record = self.lab(|lab| lab.snapshots.find(snapshot).cloned())?;
        if record.state == SnapshotState::Completed {
            return Ok(record);
        }
        let rule = format!("is {}, and must be completed for that", record.state.as_str());
        Err(refused(ErrorKind::IncorrectState, snapshot, rule, "Wait until it is completed: `headrace snapshot list`."))
    }
}
