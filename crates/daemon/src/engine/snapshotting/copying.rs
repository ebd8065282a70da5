//! Copies of volumes. The instant of the source is taken under the call; a worker brings the bytes
//! over, and the copy is `creating` until all of them are on disk.
//!
//! ```text
//!  call:   VolumeCreated (journal) -> instant of the source, under the id of the copy -> answer
//!  worker: data key -> files -> blocks -> flush -> VolumeReady (journal) -> instant ends
//! ```
//!
//! After a restart the instant is found in the files of the source and the worker begins anew;
//! where it is lost, the copy is in `error` and says so. An instant whose copy is not `creating`
//! ends when its source is opened, so none is left behind.

use crate::engine::parts::lock;
use crate::engine::snapshots::Job;
use crate::engine::snapshotting::SnapshotWorkers;
use crate::engine::volume_files::{self, DataKey};
use crate::problem::{could_not, from_io, Outcome};
use headrace_control::{Command, CreateRequest, Problem, VolumeId, VolumeRecord};
use headrace_store::snapshots::{begin_all, BlockSource, Instant, BLOCK_BYTES};
use headrace_store::Backing;
use std::io;

/// Blocks that are skipped at once where the source has nothing: 64 MiB. A guess: far more than one
/// look costs, far less than one second of copying.
const LOOK_BLOCKS: u64 = 128;

impl SnapshotWorkers {
    /// Begins a copy of a volume as it is now.
    pub(crate) fn copy_volume(&self, mut request: CreateRequest) -> Outcome<VolumeRecord> {
        let source = self.ledger.find(request.source_volume.as_deref().unwrap_or_default())?;
        if source.encryption.is_none() {
            self.keys.key_for_new_volume(&mut request)?;
        }
        self.check_room(&source)?;
        // No volume may come or go between the decision and the instant.
        let _work = lock(&self.volumes.work);
        let events = self.ledger.command(&Command::CreateVolume(request))?;
        let id = events.iter().find_map(|event| event.change.volume().cloned());
        let id = id.ok_or_else(|| could_not("volume", "was not made", "Try again."))?;
        match self.begin_copy(&id, &source) {
            Ok(instant) => drop(lock(&self.snapshots.copies).insert(id.clone(), instant)),
            Err(error) => {
                let problem = from_io(format!("taking the instant of {}", source.label()), &error);
                self.ledger.command(&Command::VolumeFailed { volume: id.to_string(), reason: problem.rule.clone() })?;
                return Err(problem);
            }
        }
        self.snapshots.queue_job(id.as_str(), Job::Copy(id.clone()));
        self.ledger.find(id.as_str())
    }

    /// Refuses a copy that does not fit on the lab's disk: while it fills that, writes to every
    /// other volume fail.
    fn check_room(&self, source: &VolumeRecord) -> Outcome<()> {
        let needed = self.volumes.allocated_of(source).unwrap_or_default();
        let free = rustix::fs::statvfs(self.volumes.volumes_folder()).map_or(u64::MAX, |room| room.f_bavail.saturating_mul(room.f_frsize));
        if needed <= free {
            return Ok(());
        }
        let rule = format!("has {} MiB of data to copy, and the disk of the lab's folder has {} MiB free", needed >> 20, free >> 20);
        Err(could_not(source.label(), rule, "Free space on that disk, then give the command again."))
    }

    fn begin_copy(&self, id: &VolumeId, source: &VolumeRecord) -> io::Result<Instant> {
        let capture = self.volumes.files_of(source, |files| files.capture.clone()).map_err(|problem| to_io_error(&problem))?;
        begin_all(&[(capture, id.as_str())])?.pop().ok_or_else(|| io::Error::other("nothing was captured"))
    }

    /// Goes on with the copies that a restart interrupted; fails those whose instant is lost.
    pub(super) fn resume_copies(&self) {
        let copies: Vec<VolumeRecord> = self.ledger.lab(|lab| lab.volumes.values().filter(|record| record.is_being_copied()).cloned().collect());
        for record in copies {
            let source = self.ledger.lab(|lab| record.source_volume.as_ref().and_then(|source| lab.volumes.get(source).cloned()));
            // Opening the source finds its instants.
            if let Some(Err(problem)) = source.map(|source| self.volumes.device_number(&source)) {
                tracing::error!(volume = record.id.as_str(), "{}: {}", problem.value, problem.rule);
            }
            if lock(&self.snapshots.copies).contains_key(&record.id) {
                self.snapshots.queue_job(record.id.as_str(), Job::Copy(record.id.clone()));
            } else {
                self.fail_copy(&record.id, "its instant was lost when the machine or its source ended");
            }
        }
    }

    /// Copies all bytes to a copy, from the first on, and notes that the copy is ready. After an
    /// error its instant is kept for the next try.
    pub(super) fn copy_bytes(&self, id: &VolumeId) -> io::Result<()> {
        let record = self.ledger.lab(|lab| lab.volumes.get(id).cloned()).filter(VolumeRecord::is_being_copied);
        // Taken out while it is read, put back where that must be tried again.
        let instant = lock(&self.snapshots.copies).remove(id);
        let (record, instant) = match (record, instant) {
            (Some(record), Some(instant)) => (record, instant),
            (_, instant) => return instant.map_or(Ok(()), Instant::finish),
        };
        let copied = self.copy_from(&record, &instant);
        let done = copied.and_then(|()| self.ledger.command(&Command::Created { volume: id.to_string() }).map_err(|problem| to_io_error(&problem)));
        match done {
            Ok(_) => {
                lock(&self.snapshots.to_copy).remove(id);
                // The remembered bytes on disk are those of the files while they grew.
                lock(&self.volumes.resting).remove(id);
                instant.finish()
            }
            Err(error) => {
                lock(&self.snapshots.copies).insert(id.clone(), instant);
                Err(error)
            }
        }
    }

    /// Makes the files of a copy anew, and copies and flushes the bytes of the instant. An instant
    /// that is lost is an error of kind InvalidData, which is not tried again.
    fn copy_from(&self, record: &VolumeRecord, instant: &Instant) -> io::Result<()> {
        // No use to try again.
        instant.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let record = self.ensure_data_key(record).map_err(|problem| to_io_error(&problem))?;
        let volumes = self.volumes.volumes_folder();
        volume_files::remove_files(&volumes, &record)?;
        volume_files::create_files(&volumes, &record)?;
        let key = match self.keys.data_key_of(&record).map_err(|problem| to_io_error(&problem))? {
            Some(cipher) => DataKey::Open(cipher),
            None => DataKey::None,
        };
        let (to, _) = volume_files::bytes_of(&volumes, &record, &key)?;
        self.copy_blocks(&record.id, instant, &*to)?;
        to.flush()
    }

    fn ensure_data_key(&self, record: &VolumeRecord) -> Outcome<VolumeRecord> {
        // One that an earlier try made serves as well.
        if record.encryption.as_ref().is_some_and(|encryption| encryption.wrapped.is_empty()) {
            self.keys.make_data_key(record)?;
        }
        self.ledger.find(record.id.as_str())
    }

    /// Copies the blocks of an instant that are not zeros; the remaining number is kept in
    /// `to_copy`. Fails when the lab goes down.
    fn copy_blocks(&self, id: &VolumeId, from: &Instant, to: &dyn Backing) -> io::Result<()> {
        let (block_bytes, bytes) = (BLOCK_BYTES as u64, from.bytes().min(to.bytes()));
        let all = bytes.div_ceil(block_bytes);
        let mut data = vec![0u8; BLOCK_BYTES];
        let mut index = 0;
        while index < all {
            lock(&self.snapshots.to_copy).insert(id.clone(), (all, all - index));
            let next = (index + LOOK_BLOCKS).min(all);
            for number in (index..next).filter(|_| from.may_hold_data(index, next - index)) {
                if self.ledger.is_stopping() {
                    return Err(io::Error::other("the lab goes down"));
                }
                from.read_block(number, &mut data)?;
                let part = &data[..(bytes - number * block_bytes).min(block_bytes) as usize];
                // The new files are zeros already, and take no space for them.
                if part.iter().any(|&byte| byte != 0) {
                    to.write(part, number * block_bytes)?;
                }
            }
            index = next;
        }
        Ok(())
    }

    /// Notes that a copy failed, and lets its instant and its files go.
    pub(super) fn fail_copy(&self, id: &VolumeId, reason: &str) {
        if let Err(problem) = self.ledger.command(&Command::VolumeFailed { volume: id.to_string(), reason: reason.to_string() }) {
            tracing::error!(volume = id.as_str(), "noting that it failed: {}", problem.rule);
            return;
        }
        lock(&self.snapshots.to_copy).remove(id);
        if let Some(instant) = lock(&self.snapshots.copies).remove(id) {
            drop(instant.finish());
        }
        if let Some(record) = self.ledger.lab(|lab| lab.volumes.get(id).cloned()) {
            let _ = volume_files::remove_files(&self.volumes.volumes_folder(), &record);
        }
    }
}

fn to_io_error(problem: &Problem) -> io::Error {
    io::Error::other(format!("{}: {}", problem.value, problem.rule))
}
