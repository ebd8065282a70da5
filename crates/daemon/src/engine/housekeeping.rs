//! Work that no call asks for: events that are due, schedules, rows of metrics, volumes to put to
//! rest.

use crate::engine::parts::{lock, unix_s};
use crate::engine::Engine;
use crate::problem::Outcome;
use headrace_control::keys::KeyChange;
use headrace_control::{Change, Command};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two looks for work that is due. It is short because lab time may run much
/// faster than the wall clock.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Interval between two looks for rows of deleted volumes that are too old, s: an hour.
const EXPIRE_EVERY_S: u64 = 3_600;

/// Starts the thread; it ends with the lab.
pub fn start(engine: &Arc<Engine>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let engine = engine.clone();
    std::thread::Builder::new().name("headrace-due".into()).spawn(move || engine.run_housekeeping())
}

impl Engine {
    /// Does all housekeeping every [`LOOK_EVERY`], and what concerns rows and rests every second,
    /// until the lab goes down. Errors are logged.
    fn run_housekeeping(&self) {
        let mut second_s = unix_s();
        lock(&self.volumes.noting).second = second_s;
        while !self.ledger.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
            if let Err(problem) = self.pass_due() {
                tracing::error!("what was due: {}: {}", problem.value, problem.rule);
            }
            if let Err(problem) = self.ledger.settle() {
                tracing::error!("the journal: {}: {}", problem.value, problem.rule);
            }
            if let Err(problem) = self.workers.run_schedules() {
                tracing::error!("schedules: {}: {}", problem.value, problem.rule);
            }
            let now_s = unix_s();
            if now_s != second_s {
                self.volumes.note_loaded();
                // The row belongs to the second that ended.
                self.volumes.note_second(now_s);
                if now_s / EXPIRE_EVERY_S != second_s / EXPIRE_EVERY_S {
                    self.metrics.store.expire(now_s);
                }
                second_s = now_s;
                if let Err(problem) = self.volumes.detach_waiting() {
                    tracing::error!("detaching what was busy: {}: {}", problem.value, problem.rule);
                }
                if let Err(problem) = self.volumes.rest_idle() {
                    tracing::error!("putting volumes to rest: {}: {}", problem.value, problem.rule);
                }
            }
        }
    }

    /// Applies the events that are due now; volumes that grow do so as they begin to optimize.
    pub(crate) fn pass_due(&self) -> Outcome<()> {
        let _due = lock(&self.due);
        for event in self.ledger.due_events() {
            if let Change::ModificationOptimizing { volume, .. } = &event.change {
                if let Err(problem) = self.volumes.grow(volume.as_str()) {
                    tracing::error!(volume = volume.as_str(), "{}: {}", problem.value, problem.rule);
                    let reason = format!("{}: {}", problem.value, problem.rule);
                    self.ledger.command(&Command::ModifyFailed { volume: volume.to_string(), reason })?;
                    self.volumes.undo_in_model(volume.as_str())?;
                    // Other due events may have changed with it: the next round asks for them
                    // again.
                    return Ok(());
                }
            }
            // Before the record goes: after a crash in between, the deletion is due again.
            if let Change::Key(KeyChange::Deleted { key }) = &event.change {
                self.keys.keyring.destroy(key);
            }
            let events = [event.clone()];
            self.ledger.commit(event)?;
            self.snapshots.after_deletions(&events);
        }
        Ok(())
    }
}
