//! Arrays that a daemon left in the middle of writes, and places at which a write failed half way:
//! their copies and their parity are made equal while they are in use. Nothing is charged to the
//! volumes in the model: what ended is the lab, and not the machine that it simulates.

use crate::engine::parts::lock;
use crate::engine::volumes::Volumes;
use headrace_control::VolumeId;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two looks for arrays to resync. A guess: a failed write is seldom, and one that
/// failed for want of room fails again for a while.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Volumes {
    /// Starts the thread that resyncs arrays; it ends with the lab.
    pub fn start_resyncing(self: &Arc<Self>) -> io::Result<()> {
        let volumes = self.clone();
        let work = move || {
            while !volumes.ledger.is_stopping() {
                volumes.resync_arrays();
                std::thread::sleep(LOOK_EVERY);
            }
        };
        std::thread::Builder::new().name("headrace-resync".into()).spawn(work).map(drop)
    }

    /// Returns true while copies or parity of a volume may differ, and are made equal.
    pub(crate) fn is_resyncing(&self, id: &VolumeId) -> bool {
        lock(&self.files).get(id).and_then(|files| files.raid.as_ref()).is_some_and(|raid| raid.needs_resync())
    }

    /// Resyncs all open arrays whose copies or parity may differ, one after another.
    fn resync_arrays(&self) {
        let volumes = lock(&self.files);
        let waiting = volumes.iter().filter(|(_, files)| !files.locked && files.raid.as_ref().is_some_and(|raid| raid.needs_resync()));
        let waiting: Vec<VolumeId> = waiting.map(|(id, _)| id.clone()).collect();
        drop(volumes);
        for id in waiting {
            match self.resync(&id) {
                Ok(steps) => tracing::info!(volume = id.as_str(), steps, "copies and parity compared after an end in the middle of writes"),
                Err(error) => tracing::warn!(volume = id.as_str(), "resync, which is tried again: {error}"),
            }
        }
    }

    /// Resyncs an array until nothing is left to do, it is put to rest or deleted, or the lab ends;
    /// returns the number of places that were compared.
    fn resync(&self, id: &VolumeId) -> io::Result<u64> {
        let mut steps = 0;
        while !self.ledger.is_stopping() {
            let begun = Instant::now();
            // Not held from step to step: the volume may be put to rest in between.
            let Some(raid) = lock(&self.files).get(id).and_then(|files| files.raid.clone()) else { break };
            if !raid.resync_step()? {
                break;
            }
            drop(raid);
            steps += 1;
            // Half of the time is left to those who use the disk.
            std::thread::sleep(begun.elapsed());
        }
        Ok(steps)
    }
}
