//! State that the journal keeps: the lab, and the way of an event into both.

pub(crate) mod changes;

use super::parts::{random, unix_ms};
use crate::events::EventLog;
use crate::journal::{Balances, Entry, Journal};
use crate::problem::Outcome;
use changes::Changes;
use headrace_control::keys::KeyChange;
use headrace_control::{Change, Event, Lab, LabClock, SnapshotChange, SnapshotId, VolumeId};

/// Events that wait to be written down at most. A guess: some are there for a tenth of a second.
const MOST_WAITING: usize = 1_000;

/// State that the journal keeps, and the journal.
pub(crate) struct State {
    pub(crate) lab: Lab,
    pub(crate) journal: Journal,
    pub(crate) clock: LabClock,
    pub(crate) balances: Balances,
    pub(crate) events: EventLog,
    pub(crate) changed_volumes: Changes<VolumeId>,
    pub(crate) changed_snapshots: Changes<SnapshotId>,
    /// Events that are applied, and written down with the next event, or soon: the start of a
    /// daemon repeats them.
    waiting: Vec<Event>,
    /// Lab time before which nothing is due, milliseconds; None if it is to be worked out.
    next_due_ms: Option<u64>,
}

impl State {
    /// Makes the state from the parts that were read at the start.
    pub(crate) fn new(lab: Lab, journal: Journal, clock: LabClock, balances: Balances, events: EventLog) -> State {
        let (changed_volumes, changed_snapshots) = (Changes::new(random()), Changes::new(random()));
        State { lab, journal, clock, balances, events, changed_volumes, changed_snapshots, waiting: Vec::new(), next_due_ms: None }
    }

    /// Returns the events that are due until now, without applying them.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Event> {
        let next_ms = self.next_due_ms.unwrap_or_else(|| self.lab.next_due().unwrap_or(u64::MAX));
        self.next_due_ms = Some(next_ms);
        if now_ms < next_ms {
            return Vec::new();
        }
        self.next_due_ms = None;
        self.lab.due(now_ms)
    }

    /// Applies an event, and notes the records that it changes.
    fn apply(&mut self, event: &Event) {
        self.lab.apply(event);
        match &event.change {
            Change::Configured { .. } => {
                self.changed_volumes.note_all();
                self.changed_snapshots.note_all();
            }
            Change::Key(KeyChange::VolumeKey { volume, .. }) | Change::Snapshot(SnapshotChange::VolumeLoaded { volume }) => self.changed_volumes.note(volume),
            Change::Snapshot(change) => change.snapshot().into_iter().for_each(|snapshot| self.changed_snapshots.note(snapshot)),
            change => change.volume().into_iter().for_each(|volume| self.changed_volumes.note(volume)),
        }
        if let Change::VolumeDeleted { volume } = &event.change {
            self.balances.devices.remove(volume);
        }
        if event.change.may_become_due() {
            self.next_due_ms = None;
        }
    }
}

/// Writes events down, durably where they must last, before they are applied and answered.
pub(crate) fn commit(state: &mut State, events: Vec<Event>) -> Outcome<()> {
    if events.is_empty() {
        return Ok(());
    }
    // A volume of a snapshot is not made again from what may be out of reach then, nor a copy from
    // an instant that ends with it.
    let is_of_another = |volume: &VolumeId| state.lab.volumes.get(volume).is_some_and(|record| record.origin.is_some() || record.source_volume.is_some());
    let waits = |event: &Event| event.is_repeated_at_start() && !event.change.volume().is_some_and(is_of_another);
    if events.iter().all(waits) && state.waiting.len() < MOST_WAITING {
        state.waiting.extend(events.iter().cloned());
    } else {
        let all = state.waiting.iter().chain(&events).cloned().collect();
        state.journal.append(&Entry::Events(all), events.iter().any(Event::must_last))?;
        state.waiting.clear();
    }
    let wall_ms = unix_ms();
    for event in &events {
        state.events.note(&state.lab, event, wall_ms, &mut random);
        state.apply(event);
    }
    Ok(())
}

/// Writes the events that wait to the journal, and forces them to disk.
pub(crate) fn write_waiting(state: &mut State) -> Outcome<()> {
    if !state.waiting.is_empty() {
        state.journal.append(&Entry::Events(state.waiting.clone()), true)?;
        state.waiting.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_control::{Command, CreateRequest, VolumeStatus};

    /// The instant of its source, which a copy cannot be made again without, ends right after.
    #[test]
    fn a_copy_that_is_available_is_so_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, recovered) = Journal::open(folder.path()).unwrap();
        let events = EventLog::open(folder.path()).unwrap();
        let mut state = State::new(recovered.state.lab, journal, LabClock::new(0, 0, 1), Balances::default(), events);
        let mut ids = 0;
        let mut carry_out = |command: &Command| {
            let events = state.lab.decide(command, 1_700_000_000_000, &mut || {
                ids += 1;
                ids
            });
            let events = events.unwrap();
            let volume = events.iter().find_map(|event| event.change.volume().cloned()).unwrap();
            commit(&mut state, events).unwrap();
            volume
        };
        let source = carry_out(&Command::CreateVolume(CreateRequest { spec: "gp3:1".to_string(), ..CreateRequest::default() }));
        carry_out(&Command::Created { volume: source.to_string() });
        let copy = carry_out(&Command::CreateVolume(CreateRequest { source_volume: Some(source.to_string()), ..CreateRequest::default() }));
        carry_out(&Command::Created { volume: copy.to_string() });
        // The daemon is killed: nothing else is written.
        drop(state);
        let (_, recovered) = Journal::open(folder.path()).unwrap();
        assert_eq!(recovered.state.lab.volumes[&copy].status, VolumeStatus::Available);
    }
}
