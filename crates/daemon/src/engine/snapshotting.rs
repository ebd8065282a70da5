//! Snapshots: the instant is taken under the call, blocks are stored by workers.
//!
//! One chain has one job at a time: an upload refers to blocks that an earlier snapshot stored, and
//! a removal takes away what nothing refers to.

mod copying;

use crate::engine::encryption::Keys;
use crate::engine::ledger::Ledger;
use crate::engine::parts::lock;
use crate::engine::snapshots::{list_started, Job, Snapshots};
use crate::engine::volumes::Volumes;
use crate::problem::{from_io, Outcome};
use headrace_control::{
    Command, Event, SnapshotCommand, SnapshotId, SnapshotRecord, SnapshotRequest, SnapshotSource, SnapshotState, VolumeId, VolumeRecord, VolumeStatus,
};
use headrace_store::snapshots::{begin_all, Instant, Manifest};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Uploads, copies and removals at once: one stores while another waits for its reads. A guess for
/// the machine of a lab, where the volumes themselves need the processors.
const WORKERS: usize = 2;
/// Wait of a worker after an error of a store, before it tries the same job again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Tries of an upload before the snapshot is given up. A guess: a store that is away for some
/// seconds does no harm.
const MOST_TRIES: u32 = 5;
/// The workers of a lab's snapshots and of copies of its volumes.
pub struct SnapshotWorkers {
    ledger: Arc<Ledger>,
    keys: Arc<Keys>,
    snapshots: Arc<Snapshots>,
    volumes: Arc<Volumes>,
}

impl SnapshotWorkers {
    /// Makes the workers over the volumes of a lab; none runs yet.
    pub(crate) fn new(volumes: Arc<Volumes>) -> SnapshotWorkers {
        SnapshotWorkers { ledger: volumes.ledger.clone(), keys: volumes.keys.clone(), snapshots: volumes.snapshots.clone(), volumes }
    }

    /// Starts the threads of the workers, and goes on with the loading, the uploads and the copies
    /// that a restart interrupted.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        self.resume_snapshots();
        self.ledger.lab(|lab| lab.volumes.values().cloned().collect::<Vec<_>>()).iter().for_each(|record| self.volumes.start_loading(record));
        for worker in 0..WORKERS {
            let workers = self.clone();
            std::thread::Builder::new().name(format!("headrace-snap{worker}")).spawn(move || workers.run_jobs())?;
        }
        Ok(())
    }

    /// Queues what a restart interrupted: uploads, removals and copies. Pending snapshots whose
    /// instant is lost fail.
    fn resume_snapshots(&self) {
        let (pending, deleting) = self.ledger.lab(|lab| {
            let pending: Vec<SnapshotRecord> = lab.snapshots.pending.iter().filter_map(|id| lab.snapshots.records.get(id).cloned()).collect();
            (pending, lab.snapshots.deleting.clone())
        });
        // Opening a volume finds its instants.
        for volume in pending.iter().filter_map(|record| record.properties.volume.as_ref()) {
            let record = self.ledger.lab(|lab| lab.volumes.get(volume).cloned());
            if let Some(Err(problem)) = record.map(|record| self.volumes.device_number(&record)) {
                tracing::error!(volume = volume.as_str(), "{}: {}", problem.value, problem.rule);
            }
        }
        let mut pending = pending;
        pending.sort_by_key(|record| record.started_ms);
        for record in pending {
            let lost = match record.properties.source {
                SnapshotSource::Volume => !lock(&self.snapshots.instants).contains_key(&record.id),
                SnapshotSource::Copy { .. } => false,
                SnapshotSource::Direct { .. } => {
                    self.snapshots.resume_builder(&record);
                    continue;
                }
            };
            if lost {
                self.snapshots.fail_snapshot(&record.id, "its instant was lost when the machine or the volume ended");
            } else {
                self.snapshots.queue_job(&record.properties.chain, Job::Store(record.id.clone()));
            }
        }
        for (snapshot, chain) in deleting {
            self.snapshots.queue_job(&chain, Job::Remove(snapshot));
        }
        self.resume_copies();
        self.finish_deletions();
    }

    /// Takes snapshots of volumes, all of one instant.
    pub fn create_snapshots(&self, request: SnapshotRequest) -> Outcome<Vec<SnapshotId>> {
        // No volume may come or go between the decision and the instant.
        let _work = lock(&self.volumes.work);
        let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Create(request)))?;
        self.begin_instants(&events)
    }

    /// Makes the snapshots that schedules have due, and deletes those past their retention.
    pub(crate) fn run_schedules(&self) -> Outcome<()> {
        let now_ms = self.ledger.lab_ms();
        for schedule in self.ledger.lab(|lab| lab.snapshots.schedules_due(now_ms)) {
            let _work = lock(&self.volumes.work);
            let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::RunSchedule { schedule: schedule.clone() }))?;
            if let Err(problem) = self.begin_instants(&events) {
                tracing::error!(schedule, "{}: {}", problem.value, problem.rule);
            }
            self.snapshots.after_deletions(&events);
        }
        Ok(())
    }

    /// Takes the instant of the snapshots that events begin. If it cannot be taken, nothing
    /// remains.
    fn begin_instants(&self, events: &[Event]) -> Outcome<Vec<SnapshotId>> {
        let snapshots = list_started(events);
        let ids: Vec<SnapshotId> = snapshots.iter().map(|(id, _)| id.clone()).collect();
        let begun = self.capture_volumes(&snapshots);
        let instants = match begun {
            Ok(instants) => instants,
            Err(error) => {
                let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Abandon { snapshots: ids }))?;
                self.snapshots.after_deletions(&events);
                return Err(from_io("taking the instant of the snapshot", &error));
            }
        };
        for (id, instant) in ids.iter().zip(instants) {
            lock(&self.snapshots.instants).insert(id.clone(), instant);
            let chain = self.ledger.lab(|lab| lab.snapshots.records.get(id).map(|record| record.properties.chain.clone()));
            self.snapshots.queue_job(&chain.unwrap_or_default(), Job::Store(id.clone()));
        }
        Ok(ids)
    }

    /// Captures the volumes of new snapshots at one instant.
    fn capture_volumes(&self, snapshots: &[(SnapshotId, Option<VolumeId>)]) -> io::Result<Vec<Instant>> {
        let capture = |volume: &Option<VolumeId>| {
            let record = volume.as_ref().and_then(|volume| self.ledger.lab(|lab| lab.volumes.get(volume).cloned()));
            let record = record.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the volume is gone"))?;
            self.volumes.files_of(&record, |files| files.capture.clone()).map_err(|problem| io::Error::other(format!("{}: {}", problem.value, problem.rule)))
        };
        let captures = snapshots.iter().map(|(id, volume)| Ok((capture(volume)?, id.as_str()))).collect::<io::Result<Vec<_>>>()?;
        if captures.is_empty() {
            return Ok(Vec::new());
        }
        begin_all(&captures)
    }

    /// Does jobs one after another until the lab goes down; a job that fails is tried again.
    fn run_jobs(&self) {
        while !self.ledger.is_stopping() {
            let Some((chain, job, tries)) = self.snapshots.take_job() else { continue };
            let outcome = match &job {
                Job::Store(snapshot) => self.store_snapshot(snapshot),
                Job::Remove(snapshot) => self.snapshots.remove_snapshot(snapshot),
                Job::Copy(volume) => self.copy_bytes(volume),
            };
            self.snapshots.end_job(&chain, &job);
            match outcome {
                Ok(()) => self.finish_deletions(),
                // An interrupted job goes on after the next start.
                Err(_) if self.ledger.is_stopping() => {}
                Err(error) => self.retry(&chain, job, tries + 1, &error),
            }
        }
    }

    /// Logs why a job failed, and queues it again after [`RETRY_AFTER`]. An upload or a copy is
    /// given up after [`MOST_TRIES`], or at once if another try would fail too; an upload that
    /// waits for its key is not.
    fn retry(&self, chain: &str, job: Job, tries: u32, error: &io::Error) {
        tracing::warn!("{job:?}, try {tries}: {error}");
        let hopeless = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound);
        let waits_for_key = matches!(&job, Job::Store(snapshot) if self.snapshots.waits_for_key(snapshot));
        let tries = if waits_for_key { 0 } else { tries };
        if let Job::Store(snapshot) = &job {
            self.snapshots.note_waiting(snapshot, error);
        }
        match &job {
            Job::Store(snapshot) if tries >= MOST_TRIES || (hopeless && !waits_for_key) => {
                self.snapshots.fail_snapshot(snapshot, &error.to_string());
                self.finish_deletions();
            }
            Job::Copy(volume) if tries >= MOST_TRIES || hopeless => {
                self.fail_copy(volume, &error.to_string());
                self.finish_deletions();
            }
            _ => {
                std::thread::sleep(RETRY_AFTER);
                lock(&self.snapshots.jobs).queue.push_back((chain.to_string(), job, tries));
            }
        }
    }

    /// Stores the blocks of a pending snapshot of a volume or of a copy, and completes it. One
    /// whose blocks are put by callers is left alone.
    fn store_snapshot(&self, snapshot: &SnapshotId) -> io::Result<()> {
        let record = self.ledger.lab(|lab| lab.snapshots.records.get(snapshot).cloned());
        let Some(record) = record.filter(|record| record.state == SnapshotState::Pending) else { return Ok(()) };
        let manifest = match &record.properties.source {
            SnapshotSource::Volume => self.store_instant(&record)?,
            SnapshotSource::Copy { store, snapshot, key } => Some((self.snapshots.store_copy(&record, store.as_deref(), snapshot, key.as_ref())?, None)),
            SnapshotSource::Direct { .. } => None,
        };
        let Some((manifest, parent)) = manifest else { return Ok(()) };
        self.snapshots.complete_snapshot(&record, &manifest, parent)
    }

    /// Opens the files of a snapshot's volume anew where they were opened without their key, and
    /// the key can be used by now. The instants of the volume lie on disk, and are found again.
    fn open_with_key(&self, volume: &VolumeId) -> Outcome<()> {
        let _work = lock(&self.volumes.work);
        let is_locked = lock(&self.volumes.files).get(volume).is_some_and(|files| files.locked);
        let Some(record) = self.ledger.lab(|lab| lab.volumes.get(volume).cloned()).filter(|_| is_locked) else { return Ok(()) };
        self.keys.data_key_of(&record)?;
        let of_volume = |snapshot: &SnapshotId| {
            self.ledger.lab(|lab| lab.snapshots.records.get(snapshot).is_some_and(|other| other.properties.volume.as_ref() == Some(volume)))
        };
        let waiting: Vec<SnapshotId> = lock(&self.snapshots.instants).keys().cloned().collect();
        for snapshot in waiting.iter().filter(|snapshot| of_volume(snapshot)) {
            lock(&self.snapshots.instants).remove(snapshot);
        }
        self.volumes.rest(volume, |files| files.locked)?;
        self.volumes.device_number(&record).map(drop)
    }

    /// Uploads the instant of a snapshot; returns its manifest, and the snapshot whose blocks it
    /// shares. None without an instant.
    fn store_instant(&self, record: &SnapshotRecord) -> io::Result<Option<(Manifest, Option<SnapshotId>)>> {
        let cipher = self.snapshots.cipher_of(record)?;
        if let Some(volume) = &record.properties.volume {
            self.open_with_key(volume).map_err(|problem| io::Error::other(format!("{}: {}", problem.value, problem.rule)))?;
        }
        // Taken out while it is read, put back where the upload must be tried again: nothing may
        // return between the two.
        let Some(instant) = lock(&self.snapshots.instants).remove(&record.id) else { return Ok(None) };
        let parent = self.snapshots.parent_of(record, &instant);
        let stored = self.snapshots.upload(record, &instant, parent.as_deref(), cipher.as_deref());
        lock(&self.snapshots.instants).insert(record.id.clone(), instant);
        stored.map(|manifest| Some((manifest, parent.and_then(|parent| parent.name().parse().ok()))))
    }

    /// Removes the files of volumes that were deleted while snapshots of them were pending.
    fn finish_deletions(&self) {
        let deleted: Vec<VolumeRecord> =
            self.ledger.lab(|lab| lab.volumes.values().filter(|record| record.status == VolumeStatus::Deleting).cloned().collect());
        for record in deleted.into_iter().filter(|record| !self.snapshots.is_being_stored(&record.id)) {
            let _work = lock(&self.volumes.work);
            // Another worker may have done it while this one waited.
            if self.ledger.lab(|lab| !lab.volumes.contains_key(&record.id)) {
                continue;
            }
            if let Err(problem) = self.volumes.finish_deletion(&record) {
                tracing::error!(volume = record.id.as_str(), "{}: {}", problem.value, problem.rule);
            }
        }
    }
}
