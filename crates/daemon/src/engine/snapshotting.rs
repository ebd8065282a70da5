//! Snapshots: the instant is taken under the call, blocks are stored by workers.
//!
//! One chain has one job at a time: an upload refers to blocks that an earlier snapshot stored, and
//! a removal takes away what nothing refers to.

mod copying;

use crate::engine::encryption::id_of_data_key;
use crate::engine::parts::{lock, started, Job, SnapshotWork};
use crate::engine::Engine;
use crate::other_lab::{unknown_key, OtherLab};
use crate::problem::{bad_input, could_not, of_control, of_io, refused, Outcome};
use headrace_control::keys::key_arn;
use headrace_control::{
    Change, Command, CopyRequest, ErrorKind, Event, Lab, Problem, SnapshotChange, SnapshotCommand, SnapshotId, SnapshotKey, SnapshotRecord, SnapshotRequest,
    SnapshotSource, SnapshotState, VolumeId, VolumeRecord, VolumeStatus,
};
use headrace_protocol::snapshots::SnapshotOffer;
use headrace_store::snapshots::{
    begin_all, delete_snapshot, unreferenced, upload, BlockCipher, BlockSet, BlockSource, Capture, Foreground, Instant, Manifest, Progress, Stored, WrappedKey,
};
use headrace_store::Objects;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// Manifests that are kept for the block calls.
const MOST_MANIFESTS: usize = 8;

/// Opens the object store of a lab: `requested`, or the store of the last start. A new store must
/// have the lab's snapshots.
pub(crate) fn open_store(folder: &Path, lab: &Lab, requested: Option<&str>) -> Outcome<SnapshotWork> {
    let had = lab.settings.snapshot_store.clone().unwrap_or_else(|| format!("file://{}", folder.join("snapshots").display()));
    let url = requested.unwrap_or(&had);
    let failed = |error: io::Error| of_io("opening the object store of snapshots", &error);
    let store = SnapshotWork::open(url).map_err(failed)?;
    if url.trim_end_matches('/') == had.trim_end_matches('/') {
        return Ok(store);
    }
    let completed = lab.snapshots.records.values().filter(|record| record.state == SnapshotState::Completed).map(|record| &record.id);
    let loaded = lab.volumes.values().filter_map(|volume| volume.origin.as_ref()).filter(|origin| !origin.loaded).map(|origin| &origin.snapshot);
    let needed: BTreeSet<&SnapshotId> = completed.chain(loaded).collect();
    if needed.is_empty() {
        return Ok(store);
    }
    let manifests: HashSet<String> = store.objects.list("manifests/").map_err(failed)?.into_iter().map(|listed| listed.name).collect();
    let missing: Vec<&&SnapshotId> = needed.iter().filter(|id| !manifests.contains(&format!("manifests/{id}"))).collect();
    let Some(first) = missing.first() else { return Ok(store) };
    let rule = format!("does not have {} of the {} snapshots of this lab, such as {first}: they are in {had}", missing.len(), needed.len());
    let hint = "Leave --snapshot-store out to stay with the store it has, or copy all objects to the new one first; a new lab may begin with any store.";
    Err(refused(ErrorKind::InvalidParameter, url, rule, hint))
}

impl Engine {
    /// Starts the workers, and goes on with what a restart ended.
    pub fn start_snapshots(self: &Arc<Self>) -> io::Result<()> {
        self.resume_snapshots();
        self.lab(|lab| lab.volumes.values().cloned().collect::<Vec<_>>()).iter().for_each(|record| self.start_loading(record));
        for worker in 0..WORKERS {
            let engine = self.clone();
            std::thread::Builder::new().name(format!("headrace-snap{worker}")).spawn(move || engine.work_on_snapshots())?;
        }
        Ok(())
    }

    fn resume_snapshots(&self) {
        let (pending, deleting) = self.lab(|lab| {
            let pending: Vec<SnapshotRecord> = lab.snapshots.pending.iter().filter_map(|id| lab.snapshots.records.get(id).cloned()).collect();
            (pending, lab.snapshots.deleting.clone())
        });
        // Opening a volume finds its instants.
        for volume in pending.iter().filter_map(|record| record.of.volume.as_ref()) {
            let record = self.lab(|lab| lab.volumes.get(volume).cloned());
            if let Some(Err(problem)) = record.map(|record| self.device_number(&record)) {
                tracing::error!(volume = volume.as_str(), "{}: {}", problem.value, problem.rule);
            }
        }
        let mut pending = pending;
        pending.sort_by_key(|record| record.started_ms);
        for record in pending {
            let lost = match record.of.source {
                SnapshotSource::Volume => !lock(&self.snapshots.instants).contains_key(&record.id),
                SnapshotSource::Copy { .. } => false,
                SnapshotSource::Direct { .. } => {
                    self.resume_builder(&record);
                    continue;
                }
            };
            if lost {
                self.fail_snapshot(&record.id, "its instant was lost when the machine or the volume ended");
            } else {
                self.snapshots.put(&record.of.chain, Job::Store(record.id.clone()));
            }
        }
        for (snapshot, chain) in deleting {
            self.snapshots.put(&chain, Job::Remove(snapshot));
        }
        self.resume_copies();
        self.finish_deletions();
    }

    /// Takes snapshots of volumes, all of one instant.
    pub fn create_snapshots(&self, request: SnapshotRequest) -> Outcome<Vec<SnapshotId>> {
        // No volume may come or go between the decision and the instant.
        let _work = lock(&self.work);
        let events = self.command(&Command::Snapshot(SnapshotCommand::Create(request)))?;
        self.begin_instants(&events)
    }

    /// Makes the snapshots that schedules have due, and deletes those past their retention.
    pub(crate) fn run_schedules(&self) -> Outcome<()> {
        let now_ms = self.lab_ms();
        for schedule in self.lab(|lab| lab.snapshots.schedules_due(now_ms)) {
            let _work = lock(&self.work);
            let events = self.command(&Command::Snapshot(SnapshotCommand::RunSchedule { schedule: schedule.clone() }))?;
            if let Err(problem) = self.begin_instants(&events) {
                tracing::error!(schedule, "{}: {}", problem.value, problem.rule);
            }
            self.after_deletions(&events);
        }
        Ok(())
    }

    /// Takes the instant of the snapshots that events begin. If it cannot be taken, nothing
    /// remains.
    fn begin_instants(&self, events: &[Event]) -> Outcome<Vec<SnapshotId>> {
        let snapshots = started(events);
        let ids: Vec<SnapshotId> = snapshots.iter().map(|(id, _)| id.clone()).collect();
        let begun = self.begin(&snapshots);
        let instants = match begun {
            Ok(instants) => instants,
            Err(error) => {
                let events = self.command(&Command::Snapshot(SnapshotCommand::Abandon { snapshots: ids }))?;
                self.after_deletions(&events);
                return Err(of_io("taking the instant of the snapshot", &error));
            }
        };
        for (id, instant) in ids.iter().zip(instants) {
            lock(&self.snapshots.instants).insert(id.clone(), instant);
            let chain = self.lab(|lab| lab.snapshots.records.get(id).map(|record| record.of.chain.clone()));
            self.snapshots.put(&chain.unwrap_or_default(), Job::Store(id.clone()));
        }
        Ok(ids)
    }

    fn begin(&self, snapshots: &[(SnapshotId, Option<VolumeId>)]) -> io::Result<Vec<Instant>> {
        let capture = |volume: &Option<VolumeId>| {
            let record = volume.as_ref().and_then(|volume| self.lab(|lab| lab.volumes.get(volume).cloned()));
            let record = record.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the volume is gone"))?;
            self.files_of(&record, |files| files.capture.clone()).map_err(|problem| io::Error::other(format!("{}: {}", problem.value, problem.rule)))
        };
        let captures = snapshots.iter().map(|(id, volume)| Ok((capture(volume)?, id.as_str()))).collect::<io::Result<Vec<_>>>()?;
        if captures.is_empty() {
            return Ok(Vec::new());
        }
        begin_all(&captures)
    }

    /// Begins a copy.
    pub fn copy_snapshot(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<SnapshotId> {
        let (request, refused) = match &request.store {
            None => (self.copy_of_own(request, encrypted, kms_key)?, None),
            Some(_) => self.copy_of_another(request, encrypted, kms_key)?,
        };
        let events = self.command(&Command::Snapshot(SnapshotCommand::Copy(request)))?;
        let (id, _) = started(&events).pop().ok_or_else(|| could_not("snapshot", "was not made", "Try again."))?;
        match refused {
            // The copy exists and says why it failed, as at AWS.
            Some(problem) => self.fail_snapshot(&id, &key_not_accessible(&problem).to_string()),
            None => self.snapshots.put(id.as_str(), Job::Store(id.clone())),
        }
        Ok(id)
    }

    fn copy_of_own(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<CopyRequest> {
        let own = self.lab(|lab| lab.snapshots.find(&request.snapshot).cloned()).map_err(of_control)?;
        Ok(CopyRequest { key: self.key_of_copy(own.of.encryption.is_some(), encrypted, kms_key)?, ..request })
    }

    /// Makes the request for a copy from another object store, and the reason why its source's key
    /// cannot be had. The data key of the source comes from the lab that has it, or lies wrapped in
    /// the store under a key that this lab has too; it is kept here wrapped under the key of the
    /// copy.
    fn copy_of_another(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<(CopyRequest, Option<Problem>)> {
        let id: SnapshotId = request.snapshot.parse().map_err(of_control)?;
        let named = request.store.clone().unwrap_or_default();
        let other = OtherLab::of(&named);
        let offer = other.as_ref().map(|other| other.offer(id.as_str())).transpose()?;
        let url = offer.as_ref().map_or(named, |offer| offer.store.clone());
        let failed = |error: io::Error| of_io(format!("{id} in {url}"), &error);
        let objects = Objects::open_existing(&url).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                refused(ErrorKind::NotFound, &url, "is not an object store: there is no such folder", "Name the folder of its snapshots.")
            }
            io::ErrorKind::InvalidInput => bad_input(&url, error.to_string(), "Name file:///FOLDER, s3://BUCKET/PREFIX or lab:///FOLDER."),
            _ => failed(error),
        })?;
        let manifest = Manifest::load(&objects, id.as_str()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_in_store(&objects, id.as_str()),
            _ => failed(error),
        })?;
        let is_sealed = !manifest.key().is_empty();
        let key = self.key_of_copy(is_sealed, encrypted, kms_key)?;
        let request = CopyRequest { store: Some(url.clone()), size_gib: Some(manifest.bytes().div_ceil(1 << 30)), key, ..request };
        if !is_sealed {
            return Ok((request, None));
        }
        let fits = |offer: &&SnapshotOffer| offer.wrapped.as_deref().map(id_of_data_key).as_deref() == Some(manifest.key());
        let opened = match (other, offer.as_ref().filter(fits)) {
            (Some(other), Some(offer)) => other.data_key(offer),
            (Some(_), None) => Ok(None),
            (None, _) => match WrappedKey::load(&objects, id.as_str()).map_err(failed)?.filter(|wrapped| wrapped.data_key == manifest.key()) {
                Some(wrapped) => self.open_wrapped(&wrapped).map(Some),
                None => Ok(None),
            },
        };
        match (opened, &request.key) {
            (Ok(Some(data_key)), Some(key)) => {
                let source_key = Some(self.adopted(&data_key, &key.key)?);
                Ok((CopyRequest { source_key, ..request }, None))
            }
            (Err(problem), _) => Ok((request, Some(problem))),
            _ => Ok((request, Some(unknown_key(id.as_str())))),
        }
    }

    /// Returns the facts that another lab needs for a copy.
    pub(crate) fn offer_snapshot(&self, snapshot: &str) -> Outcome<SnapshotOffer> {
        let record = self.completed(snapshot)?;
        let key = record.of.encryption;
        Ok(SnapshotOffer {
            store: self.snapshots.objects.url().to_string(),
            kms_key: key.as_ref().map(|key| self.lab(|lab| key_arn(&lab.settings, &key.key))),
            wrapped: key.as_ref().map(|key| key.wrapped.clone()),
            context: key.map(|key| key.context),
        })
    }

    /// Deletes a snapshot, or moves it to the recycle bin.
    pub fn delete_snapshot(&self, snapshot: &str) -> Outcome<()> {
        let events = self.command(&Command::Snapshot(SnapshotCommand::Delete { snapshot: snapshot.to_string() }))?;
        self.after_deletions(&events);
        Ok(())
    }

    /// Starts the removal of what events deleted.
    pub(crate) fn after_deletions(&self, events: &[Event]) {
        for event in events {
            let Change::Snapshot(SnapshotChange::DeletionStarted { snapshot }) = &event.change else { continue };
            self.snapshots.cancel(snapshot);
            lock(&self.snapshots.builders).remove(snapshot);
            let chain = self.lab(|lab| lab.snapshots.deleting.get(snapshot).cloned());
            self.snapshots.put(&chain.unwrap_or_default(), Job::Remove(snapshot.clone()));
        }
    }

    fn work_on_snapshots(&self) {
        while !self.is_stopping() {
            let Some((chain, job, tries)) = self.snapshots.take() else { continue };
            let outcome = match &job {
                Job::Store(snapshot) => self.store_snapshot(snapshot),
                Job::Remove(snapshot) => self.remove_snapshot(snapshot),
                Job::Copy(volume) => self.copy_bytes(volume),
            };
            self.snapshots.done(&chain, &job);
            match outcome {
                Ok(()) => self.finish_deletions(),
                // An interrupted job goes on after the next start.
                Err(_) if self.is_stopping() => {}
                Err(error) => self.retry(&chain, job, tries + 1, &error),
            }
        }
    }

    fn retry(&self, chain: &str, job: Job, tries: u32, error: &io::Error) {
        tracing::warn!("{job:?}, try {tries}: {error}");
        let hopeless = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound);
        let waits_for_key = matches!(&job, Job::Store(snapshot) if self.waits_for_key(snapshot));
        let tries = if waits_for_key { 0 } else { tries };
        if let Job::Store(snapshot) = &job {
            self.note_waiting(snapshot, error);
        }
        match &job {
            Job::Store(snapshot) if tries >= MOST_TRIES || (hopeless && !waits_for_key) => {
                self.fail_snapshot(snapshot, &error.to_string());
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

    /// Returns true if a snapshot cannot be stored because its key is disabled or will be deleted.
    /// Both can be taken back, so the snapshot is not given up.
    fn waits_for_key(&self, snapshot: &SnapshotId) -> bool {
        self.lab(|lab| {
            // A copy fails as on AWS.
            let record = lab.snapshots.records.get(snapshot).filter(|record| record.of.source == SnapshotSource::Volume);
            let key = record.and_then(|record| record.of.encryption.as_ref());
            key.is_some_and(|key| lab.keys.keys.contains_key(&key.key) && lab.keys.usable(&lab.settings, &key.key).is_err())
        })
    }

    /// Says at the snapshot why it is not stored yet.
    fn note_waiting(&self, snapshot: &SnapshotId, error: &io::Error) {
        let percent = self.lab(|lab| lab.snapshots.records.get(snapshot).map(|record| record.progress_percent));
        let waits = Some(error.to_string());
        if let Some(percent) = percent {
            // It may be deleted by now.
            let _ = self.command(&Command::Snapshot(SnapshotCommand::Progress { snapshot: snapshot.clone(), percent, waits }));
        }
    }

    pub(crate) fn fail_snapshot(&self, snapshot: &SnapshotId, reason: &str) {
        if let Some(instant) = lock(&self.snapshots.instants).remove(snapshot) {
            drop(instant.finish());
        }
        // It may be deleted by now.
        if self.lab(|lab| lab.snapshots.pending.contains(snapshot)) {
            let failed = SnapshotCommand::Failed { snapshot: snapshot.clone(), reason: reason.to_string() };
            if let Err(problem) = self.command(&Command::Snapshot(failed)) {
                tracing::error!(snapshot = snapshot.as_str(), "noting that it failed: {}", problem.rule);
            }
        }
    }

    fn store_snapshot(&self, snapshot: &SnapshotId) -> io::Result<()> {
        let record = self.lab(|lab| lab.snapshots.records.get(snapshot).cloned());
        let Some(record) = record.filter(|record| record.state == SnapshotState::Pending) else { return Ok(()) };
        let manifest = match &record.of.source {
            SnapshotSource::Volume => self.store_instant(&record)?,
            SnapshotSource::Copy { store, snapshot, key } => Some((self.store_copy(&record, store.as_deref(), snapshot, key.as_ref())?, None)),
            SnapshotSource::Direct { .. } => None,
        };
        let Some((manifest, parent)) = manifest else { return Ok(()) };
        self.complete_snapshot(&record, &manifest, parent)
    }

    /// Notes that everything is stored, and lets the instant go.
    pub(crate) fn complete_snapshot(&self, record: &SnapshotRecord, manifest: &Manifest, parent: Option<SnapshotId>) -> io::Result<()> {
        let (block, full) = (headrace_store::snapshots::BLOCK_BYTES as u64, manifest.blocks());
        let completed =
            SnapshotCommand::Completed { snapshot: record.id.clone(), parent, stored_bytes: manifest.own_blocks() * block, full_bytes: full * block };
        if self.lab(|lab| lab.snapshots.pending.contains(&record.id)) {
            self.command(&Command::Snapshot(completed)).map_err(|problem| io::Error::other(problem.rule))?;
        }
        if let Some(instant) = lock(&self.snapshots.instants).remove(&record.id) {
            instant.finish()?;
        }
        Ok(())
    }

    /// Opens the files of a snapshot's volume anew where they were opened without their key, and
    /// the key can be used by now. The instants of the volume lie on disk, and are found again.
    fn open_with_key(&self, volume: &VolumeId) -> Outcome<()> {
        let _work = lock(&self.work);
        let is_locked = lock(&self.volumes).get(volume).is_some_and(|files| files.locked);
        let Some(record) = self.lab(|lab| lab.volumes.get(volume).cloned()).filter(|_| is_locked) else { return Ok(()) };
        self.data_key_of(&record)?;
        let of_volume =
            |snapshot: &SnapshotId| self.lab(|lab| lab.snapshots.records.get(snapshot).is_some_and(|other| other.of.volume.as_ref() == Some(volume)));
        let waiting: Vec<SnapshotId> = lock(&self.snapshots.instants).keys().cloned().collect();
        for snapshot in waiting.iter().filter(|snapshot| of_volume(snapshot)) {
            lock(&self.snapshots.instants).remove(snapshot);
        }
        self.rest(volume, |files| files.locked)?;
        self.device_number(&record).map(drop)
    }

    fn store_instant(&self, record: &SnapshotRecord) -> io::Result<Option<(Manifest, Option<SnapshotId>)>> {
        let cipher = self.cipher_of(record)?;
        if let Some(volume) = &record.of.volume {
            self.open_with_key(volume).map_err(|problem| io::Error::other(format!("{}: {}", problem.value, problem.rule)))?;
        }
        // Taken out while it is read, put back where the upload must be tried again: nothing may
        // return between the two.
        let Some(instant) = lock(&self.snapshots.instants).remove(&record.id) else { return Ok(None) };
        let parent = self.parent_of(record, &instant);
        let stored = self.upload(record, &instant, parent.as_deref(), cipher.as_deref());
        lock(&self.snapshots.instants).insert(record.id.clone(), instant);
        stored.map(|manifest| Some((manifest, parent.and_then(|parent| parent.name().parse().ok()))))
    }

    fn upload(&self, record: &SnapshotRecord, source: &dyn BlockSource, parent: Option<&Manifest>, cipher: Option<&dyn BlockCipher>) -> io::Result<Manifest> {
        // Before the manifest: an encrypted snapshot that exists can be opened by its key.
        self.keep_wrapped_key(record)?;
        let cancel = self.snapshots.cancel_of(&record.id);
        let id = record.id.clone();
        let progress = |progress: Progress| {
            let percent = progress.percent().min(99) as u8;
            let _ = self.command(&Command::Snapshot(SnapshotCommand::Progress { snapshot: id.clone(), percent, waits: None }));
        };
        let source = UntilTheEnd { source, stopping: &self.stopping };
        upload(&source, &self.snapshots.objects, record.id.as_str(), parent, cipher, &progress, &cancel)
    }

    /// Puts the wrapped data key of an encrypted snapshot next to its blocks.
    pub(crate) fn keep_wrapped_key(&self, record: &SnapshotRecord) -> io::Result<()> {
        let key = record.of.encryption.as_ref();
        key.map_or(Ok(()), |key| self.wrapped_key(record.id.as_str(), key).store(&self.snapshots.objects))
    }

    /// Returns the snapshot whose stored blocks this one uses: the snapshot since which the changes
    /// are recorded, else the newest of the same volume, else the snapshot that the volume was made
    /// from.
    fn parent_of(&self, record: &SnapshotRecord, instant: &Instant) -> Option<Arc<Manifest>> {
        let since = instant.changes().map(|(since, _)| since.to_string());
        let candidates: Vec<SnapshotId> = self.lab(|lab| {
            let usable = |other: &&SnapshotRecord| other.state == SnapshotState::Completed && other.of.chain == record.of.chain && other.id != record.id;
            let mut records: Vec<&SnapshotRecord> = lab.snapshots.records.values().filter(usable).collect();
            records.sort_by_key(|other| {
                let is_since = since.as_deref() == Some(other.id.as_str());
                let same_volume = other.of.volume == record.of.volume;
                std::cmp::Reverse((is_since, same_volume, other.started_ms))
            });
            records.into_iter().map(|other| other.id.clone()).take(1).collect()
        });
        candidates.first().and_then(|id| self.manifest(id).ok())
    }

    fn store_copy(&self, record: &SnapshotRecord, store: Option<&str>, source: &SnapshotId, key: Option<&SnapshotKey>) -> io::Result<Manifest> {
        let objects = match store {
            Some(url) => Objects::open_existing(url)?,
            None => self.snapshots.objects.clone(),
        };
        let manifest = Manifest::load(&objects, source.as_str())?;
        let own = self.lab(|lab| lab.snapshots.records.get(source).cloned()).filter(|_| store.is_none());
        let key = own.as_ref().map_or(key, |own| own.of.encryption.as_ref());
        let opens = key.map(|key| self.cipher_known_as(key, manifest.key())).transpose().map_err(|problem| key_not_accessible(&problem))?;
        if opens.is_none() && !manifest.key().is_empty() {
            return Err(key_not_accessible(&unknown_key(source.as_str())));
        }
        let cipher = self.cipher_of(record)?;
        let opens = opens.as_deref().map(|opens| opens as &dyn BlockCipher);
        let copied = Stored { objects: &objects, manifest: &manifest, cipher: opens };
        self.upload(record, &copied, None, cipher.as_deref())
    }

    fn remove_snapshot(&self, snapshot: &SnapshotId) -> io::Result<()> {
        if let Some(instant) = lock(&self.snapshots.instants).remove(snapshot) {
            instant.finish()?;
        }
        // A volume that still loads from it keeps its blocks.
        let needed = self.lab(|lab| lab.volumes.values().any(|volume| loads_from(volume, snapshot)));
        if needed || !self.lab(|lab| lab.snapshots.deleting.contains_key(snapshot)) {
            return Ok(());
        }
        lock(&self.snapshots.manifests).retain(|(id, _)| id != snapshot);
        self.remove_objects(snapshot)?;
        self.command(&Command::Snapshot(SnapshotCommand::Removed { snapshot: snapshot.clone() })).map_err(|problem| io::Error::other(problem.rule))?;
        Ok(())
    }

    /// Removes what only this snapshot refers to. Segments of the snapshot are searched for once
    /// more: an upload that was given up, or a removal that a crash ended, leaves some without a
    /// manifest.
    fn remove_objects(&self, snapshot: &SnapshotId) -> io::Result<()> {
        let objects = &self.snapshots.objects;
        let stored: HashSet<String> = objects.list("manifests/")?.into_iter().map(|listed| listed.name).collect();
        let others: Vec<String> = self.lab(|lab| {
            let chain = lab.snapshots.deleting.get(snapshot);
            let records = lab.snapshots.records.values().filter(|record| Some(&record.of.chain) == chain).map(|record| &record.id);
            let waiting = lab.snapshots.deleting.iter().filter(|(id, other)| Some(*other) == chain && *id != snapshot).map(|(id, _)| id);
            records.chain(waiting).map(ToString::to_string).filter(|id| stored.contains(&format!("manifests/{id}"))).collect()
        });
        delete_snapshot(objects, snapshot.as_str(), &others)?;
        WrappedKey::remove(objects, snapshot.as_str())?;
        let own: Vec<String> = objects.list(&format!("segments/{snapshot}/"))?.into_iter().map(|listed| listed.name).collect();
        if own.is_empty() {
            return Ok(());
        }
        let references = others.iter().map(|other| Manifest::segments_of(objects, other)).collect::<io::Result<Vec<_>>>()?;
        unreferenced(&own, references.iter().map(Vec::as_slice)).iter().try_for_each(|segment| objects.delete(segment))
    }

    /// Removals that waited for a volume to be loaded.
    pub(crate) fn retry_removals(&self) {
        for (snapshot, chain) in self.lab(|lab| lab.snapshots.deleting.clone()) {
            self.snapshots.put(&chain, Job::Remove(snapshot));
        }
    }

    /// Returns true if a snapshot or a copy still needs the bytes of a volume.
    pub(crate) fn is_being_stored(&self, volume: &VolumeId) -> bool {
        self.lab(|lab| {
            let mut pending = lab.snapshots.pending.iter().filter_map(|id| lab.snapshots.records.get(id));
            let copied = |other: &VolumeRecord| other.is_being_copied() && other.source_volume.as_ref() == Some(volume);
            pending.any(|record| record.of.volume.as_ref() == Some(volume)) || lab.volumes.values().any(copied)
        })
    }

    /// Removes the files of volumes that were deleted while snapshots of them were pending.
    fn finish_deletions(&self) {
        let deleted: Vec<VolumeRecord> = self.lab(|lab| lab.volumes.values().filter(|record| record.status == VolumeStatus::Deleting).cloned().collect());
        for record in deleted.into_iter().filter(|record| !self.is_being_stored(&record.id)) {
            let _work = lock(&self.work);
            // Another worker may have done it while this one waited.
            if self.lab(|lab| !lab.volumes.contains_key(&record.id)) {
                continue;
            }
            if let Err(problem) = self.finish_deletion(&record) {
                tracing::error!(volume = record.id.as_str(), "{}: {}", problem.value, problem.rule);
            }
        }
    }

    /// Writes the notes about changed blocks to disk, so that the next snapshot stores only the
    /// blocks that changed.
    pub(crate) fn close_capture(&self, volume: &VolumeId) {
        let capture = lock(&self.volumes).get(volume).map(|files| files.capture.clone());
        if let Some(Err(error)) = capture.map(|capture| capture.close()) {
            tracing::warn!(volume = volume.as_str(), "noting what changed since its last snapshot: {error}");
        }
    }

    /// Closes the captures of all open volumes.
    pub(crate) fn close_captures(&self) {
        let open: Vec<VolumeId> = lock(&self.volumes).keys().cloned().collect();
        open.iter().for_each(|volume| self.close_capture(volume));
    }

    /// Instants that an earlier daemon left in the files of a volume: those of pending snapshots go
    /// on, the others end.
    pub(crate) fn adopt_instants(&self, capture: &Arc<Capture>) {
        for instant in capture.instants() {
            let pending = instant.name().parse().ok().filter(|id| self.lab(|lab| lab.snapshots.pending.contains(id)));
            match pending {
                Some(id) => drop(lock(&self.snapshots.instants).insert(id, instant)),
                None => self.adopt_copy(instant),
            }
        }
    }

    /// Returns the manifest of a completed snapshot.
    pub(crate) fn manifest(&self, snapshot: &SnapshotId) -> io::Result<Arc<Manifest>> {
        if let Some((_, manifest)) = lock(&self.snapshots.manifests).iter().find(|(id, _)| id == snapshot) {
            return Ok(manifest.clone());
        }
        let manifest = Arc::new(Manifest::load(&self.snapshots.objects, snapshot.as_str())?);
        let mut cache = lock(&self.snapshots.manifests);
        cache.push_front((snapshot.clone(), manifest.clone()));
        cache.truncate(MOST_MANIFESTS);
        Ok(manifest)
    }

    /// Returns the cipher that opens the blocks of the snapshot that a volume is made from; None if
    /// they are not encrypted.
    pub(crate) fn cipher_of_origin(&self, record: &VolumeRecord) -> io::Result<Option<Arc<dyn BlockCipher>>> {
        record.origin.as_ref().and_then(|origin| origin.encryption.as_ref()).map(|key| self.opened_key(key)).transpose()
    }

    /// Returns the cipher that seals the blocks of a snapshot; None if they are not encrypted.
    pub(crate) fn cipher_of(&self, record: &SnapshotRecord) -> io::Result<Option<Arc<dyn BlockCipher>>> {
        record.of.encryption.as_ref().map(|key| self.opened_key(key)).transpose()
    }

    fn opened_key(&self, key: &SnapshotKey) -> io::Result<Arc<dyn BlockCipher>> {
        match self.snapshot_cipher(key) {
            Ok(cipher) => Ok(cipher),
            Err(problem) => Err(io::Error::other(format!("{}: {}", problem.value, problem.rule))),
        }
    }
}

/// Makes the error of a snapshot that a store does not have, with some that it has.
fn not_in_store(objects: &Objects, snapshot: &str) -> Problem {
    const SHOWN: usize = 5;
    let names: Vec<String> = objects.list("manifests/").unwrap_or_default().into_iter().map(|listed| listed.name.replace("manifests/", "")).collect();
    let some = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let hint = match names.len() {
        0 => "It has no snapshots: is it the store of a lab?".to_string(),
        count if count > SHOWN => format!("It has {count}, such as {some}."),
        _ => format!("It has {some}."),
    };
    refused(ErrorKind::NotFound, objects.url(), format!("has no snapshot {snapshot}"), hint)
        .says("InvalidSnapshot.NotFound", format!("The snapshot '{snapshot}' does not exist"))
}

/// Makes the error of a copy whose source cannot be opened: AWS's words (EBS user guide, copies of
/// encrypted snapshots), then the reason. No use to try it again.
fn key_not_accessible(problem: &Problem) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("Given key ID is not accessible: {}: {}", problem.value, problem.rule))
}

fn loads_from(volume: &VolumeRecord, snapshot: &SnapshotId) -> bool {
    let gone = matches!(volume.status, VolumeStatus::Error | VolumeStatus::Deleting);
    !gone && volume.origin.as_ref().is_some_and(|origin| origin.snapshot == *snapshot && !origin.loaded)
}

/// A source that fails when the lab goes down: stored blocks stay, and the next start goes on with
/// them.
struct UntilTheEnd<'a> {
    source: &'a dyn BlockSource,
    stopping: &'a AtomicBool,
}

impl BlockSource for UntilTheEnd<'_> {
    fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    fn read_block(&self, index: u64, into: &mut [u8]) -> io::Result<()> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(io::Error::other("the lab goes down"));
        }
        self.source.read_block(index, into)
    }

    fn may_hold_data(&self, first: u64, count: u64) -> bool {
        self.source.may_hold_data(first, count)
    }

    fn changes(&self) -> Option<(&str, &BlockSet)> {
        self.source.changes()
    }

    fn foreground(&self) -> Option<&Foreground> {
        self.source.foreground()
    }

    fn stored(&self, index: u64) {
        self.source.stored(index);
    }
}
