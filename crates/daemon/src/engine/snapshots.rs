//! The snapshots of a lab: their object store and keys, copies of them, and their removal. Workers
//! take the jobs ([`crate::engine::snapshotting`]).

use crate::engine::encryption::{id_of_data_key, Keys};
use crate::engine::ledger::Ledger;
use crate::engine::parts::{lock, random};
use crate::other_lab::{unknown_key, OtherLab};
use crate::problem::{bad_input, could_not, from_io, refused, Outcome};
use headrace_control::keys::key_arn;
use headrace_control::{
    Change, Command, CopyRequest, ErrorKind, Event, Lab, Problem, SnapshotChange, SnapshotCommand, SnapshotId, SnapshotKey, SnapshotRecord, SnapshotSource,
    SnapshotState, VolumeId, VolumeRecord, VolumeStatus,
};
use headrace_protocol::snapshots::{InitializationView, SnapshotOffer};
use headrace_store::snapshots::{
    delete_snapshot, unreferenced, upload, BlockCipher, BlockSet, BlockSource, Builder, Capture, Foreground, Instant, Manifest, Progress, Stored, WrappedKey,
    BLOCK_BYTES,
};
use headrace_store::Objects;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Interval at which an idle worker checks if the lab goes down.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Manifests that are kept for the block calls.
const MOST_MANIFESTS: usize = 8;

/// A snapshot that is put block by block, and the checksums of its callers.
pub(crate) struct Put {
    pub(super) builder: Builder,
    /// SHA-256 by index. Blocks that were put before a restart are not in it.
    pub(super) checksums: Mutex<BTreeMap<u64, [u8; 32]>>,
}

/// Work of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// Stores the blocks of a pending snapshot.
    Store(SnapshotId),
    /// Removes the objects of a deleted one.
    Remove(SnapshotId),
    /// Brings the bytes of a volume to its copy.
    Copy(VolumeId),
}

#[derive(Default)]
pub(super) struct Jobs {
    pub(super) queue: VecDeque<(String, Job, u32)>,
    pub(super) busy: HashSet<String>,
    pub(super) cancels: HashMap<SnapshotId, Arc<AtomicBool>>,
}

/// The snapshots of a lab: their store, their keys, and the work under way.
pub struct Snapshots {
    pub(super) ledger: Arc<Ledger>,
    pub(super) keys: Arc<Keys>,
    /// Store of the blocks of this lab's snapshots.
    pub(crate) objects: Objects,
    pub(super) jobs: Mutex<Jobs>,
    pub(super) wake: Condvar,
    pub(super) instants: Mutex<HashMap<SnapshotId, Instant>>,
    /// The copies of volumes that are under way: the source at the instant of each.
    pub(super) copies: Mutex<HashMap<VolumeId, Instant>>,
    /// Blocks of those copies, and the number of blocks that are still to come.
    pub(super) to_copy: Mutex<HashMap<VolumeId, (u64, u64)>>,
    pub(super) manifests: Mutex<VecDeque<(SnapshotId, Arc<Manifest>)>>,
    /// Secret of the block tokens; they end with the daemon.
    pub(crate) secret: [u8; 32],
    /// Snapshots that are put block by block.
    pub(crate) builders: Mutex<HashMap<SnapshotId, Arc<Put>>>,
}

impl Snapshots {
    /// Makes the snapshots of a lab over their object store.
    pub(crate) fn new(ledger: Arc<Ledger>, keys: Arc<Keys>, objects: Objects) -> Snapshots {
        Snapshots {
            ledger,
            keys,
            objects,
            jobs: Mutex::new(Jobs::default()),
            wake: Condvar::new(),
            instants: Mutex::new(HashMap::new()),
            copies: Mutex::new(HashMap::new()),
            to_copy: Mutex::new(HashMap::new()),
            manifests: Mutex::new(VecDeque::new()),
            secret: std::array::from_fn(|_| random() as u8),
            builders: Mutex::new(HashMap::new()),
        }
    }

    /// Queues a job under its chain, unless the same job is queued already, and wakes the workers.
    pub(super) fn queue_job(&self, chain: &str, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.queue.iter().all(|(_, other, _)| *other != job) {
            jobs.queue.push_back((chain.to_string(), job, 0));
        }
        drop(jobs);
        self.wake.notify_all();
    }

    /// Takes the first job whose chain has none under way; None when no job came within
    /// [`LOOK_EVERY`].
    pub(super) fn take_job(&self) -> Option<(String, Job, u32)> {
        let mut jobs = lock(&self.jobs);
        let position = jobs.queue.iter().position(|(chain, ..)| !jobs.busy.contains(chain));
        let Some(index) = position else {
            let _ = self.wake.wait_timeout(jobs, LOOK_EVERY);
            return None;
        };
        let (chain, job, tries) = jobs.queue.remove(index)?;
        jobs.busy.insert(chain.clone());
        if let Job::Store(snapshot) = &job {
            jobs.cancels.insert(snapshot.clone(), Arc::new(AtomicBool::new(false)));
        }
        Some((chain, job, tries))
    }

    /// Notes that a job of a chain has ended, so that the next one of the chain may begin.
    pub(super) fn end_job(&self, chain: &str, job: &Job) {
        let mut jobs = lock(&self.jobs);
        jobs.busy.remove(chain);
        if let Job::Store(snapshot) = job {
            jobs.cancels.remove(snapshot);
        }
        drop(jobs);
        self.wake.notify_all();
    }

    pub(super) fn cancel_of(&self, snapshot: &SnapshotId) -> Arc<AtomicBool> {
        lock(&self.jobs).cancels.get(snapshot).cloned().unwrap_or_default()
    }

    /// Ends a running upload; one that waits is left out.
    pub(super) fn cancel(&self, snapshot: &SnapshotId) {
        let mut jobs = lock(&self.jobs);
        if let Some(cancel) = jobs.cancels.get(snapshot) {
            cancel.store(true, Ordering::Release);
        }
        jobs.queue.retain(|(_, job, _)| *job != Job::Store(snapshot.clone()));
    }

    /// Begins a copy of a snapshot. One whose source cannot be opened begins too, and fails at once
    /// with the reason, as at AWS.
    pub fn copy_snapshot(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<SnapshotId> {
        let (request, refused) = match &request.store {
            None => (self.copy_of_own(request, encrypted, kms_key)?, None),
            Some(_) => self.copy_of_another(request, encrypted, kms_key)?,
        };
        let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Copy(request)))?;
        let (id, _) = list_started(&events).pop().ok_or_else(|| could_not("snapshot", "was not made", "Try again."))?;
        match refused {
            // The copy exists and says why it failed, as at AWS.
            Some(problem) => self.fail_snapshot(&id, &key_not_accessible(&problem).to_string()),
            None => self.queue_job(id.as_str(), Job::Store(id.clone())),
        }
        Ok(id)
    }

    fn copy_of_own(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<CopyRequest> {
        let own_record = self.ledger.lab(|lab| lab.snapshots.find(&request.snapshot).cloned())?;
        Ok(CopyRequest { key: self.keys.key_of_copy(own_record.properties.encryption.is_some(), encrypted, kms_key)?, ..request })
    }

    /// Makes the request for a copy from another object store, and the reason why its source's key
    /// cannot be used. The data key of the source comes from the lab that has it, or lies wrapped
    /// in the store under a key that this lab has too; it is kept here wrapped under the key of the
    /// copy.
    fn copy_of_another(&self, request: CopyRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<(CopyRequest, Option<Problem>)> {
        let id: SnapshotId = request.snapshot.parse()?;
        let named = request.store.clone().unwrap_or_default();
        let other = OtherLab::parse(&named);
        let offer = other.as_ref().map(|other| other.offer(id.as_str())).transpose()?;
        let url = offer.as_ref().map_or(named, |offer| offer.store.clone());
        let failed = |error: io::Error| from_io(format!("{id} in {url}"), &error);
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
        let key = self.keys.key_of_copy(is_sealed, encrypted, kms_key)?;
        let request = CopyRequest { store: Some(url.clone()), size_gib: Some(manifest.bytes().div_ceil(1 << 30)), key, ..request };
        if !is_sealed {
            return Ok((request, None));
        }
        let fits = |offer: &&SnapshotOffer| offer.wrapped.as_deref().map(id_of_data_key).as_deref() == Some(manifest.key());
        let opened = match (other, offer.as_ref().filter(fits)) {
            (Some(other), Some(offer)) => other.data_key(offer),
            (Some(_), None) => Ok(None),
            (None, _) => match WrappedKey::load(&objects, id.as_str()).map_err(failed)?.filter(|wrapped| wrapped.data_key == manifest.key()) {
                Some(wrapped) => self.keys.open_wrapped(&wrapped).map(Some),
                None => Ok(None),
            },
        };
        match (opened, &request.key) {
            (Ok(Some(data_key)), Some(key)) => {
                let source_key = Some(self.keys.adopt_data_key(&data_key, &key.key)?);
                Ok((CopyRequest { source_key, ..request }, None))
            }
            (Err(problem), _) => Ok((request, Some(problem))),
            _ => Ok((request, Some(unknown_key(id.as_str())))),
        }
    }

    /// Returns the facts that another lab needs for a copy.
    pub(crate) fn offer_snapshot(&self, snapshot: &str) -> Outcome<SnapshotOffer> {
        let record = self.ledger.completed(snapshot)?;
        let key = record.properties.encryption;
        Ok(SnapshotOffer {
            store: self.objects.url().to_string(),
            kms_key: key.as_ref().map(|key| self.ledger.lab(|lab| key_arn(&lab.settings, &key.key))),
            wrapped: key.as_ref().map(|key| key.wrapped.clone()),
            context: key.map(|key| key.context),
        })
    }

    /// Deletes a snapshot, or moves it to the recycle bin.
    pub fn delete_snapshot(&self, snapshot: &str) -> Outcome<()> {
        let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Delete { snapshot: snapshot.to_string() }))?;
        self.after_deletions(&events);
        Ok(())
    }

    /// Starts the removal of what events deleted.
    pub(crate) fn after_deletions(&self, events: &[Event]) {
        for event in events {
            let Change::Snapshot(SnapshotChange::DeletionStarted { snapshot }) = &event.change else { continue };
            self.cancel(snapshot);
            lock(&self.builders).remove(snapshot);
            let chain = self.ledger.lab(|lab| lab.snapshots.deleting.get(snapshot).cloned());
            self.queue_job(&chain.unwrap_or_default(), Job::Remove(snapshot.clone()));
        }
    }

    /// Returns true if a snapshot cannot be stored because its key is disabled or will be deleted.
    /// Both can be taken back, so the snapshot is not given up.
    pub(super) fn waits_for_key(&self, snapshot: &SnapshotId) -> bool {
        self.ledger.lab(|lab| {
            // A copy fails as on AWS.
            let record = lab.snapshots.records.get(snapshot).filter(|record| record.properties.source == SnapshotSource::Volume);
            let key = record.and_then(|record| record.properties.encryption.as_ref());
            key.is_some_and(|key| lab.keys.keys.contains_key(&key.key) && lab.keys.usable(&lab.settings, &key.key).is_err())
        })
    }

    /// Notes in the record of a snapshot why it is not stored yet.
    pub(super) fn note_waiting(&self, snapshot: &SnapshotId, error: &io::Error) {
        let percent = self.ledger.lab(|lab| lab.snapshots.records.get(snapshot).map(|record| record.progress_percent));
        let waits = Some(error.to_string());
        if let Some(percent) = percent {
            // It may be deleted by now.
            let _ = self.ledger.command(&Command::Snapshot(SnapshotCommand::Progress { snapshot: snapshot.clone(), percent, waits }));
        }
    }

    /// Ends the instant of a snapshot, and notes that the snapshot failed, if it is still pending.
    pub(crate) fn fail_snapshot(&self, snapshot: &SnapshotId, reason: &str) {
        if let Some(instant) = lock(&self.instants).remove(snapshot) {
            drop(instant.finish());
        }
        // It may be deleted by now.
        if self.ledger.lab(|lab| lab.snapshots.pending.contains(snapshot)) {
            let failed = SnapshotCommand::Failed { snapshot: snapshot.clone(), reason: reason.to_string() };
            if let Err(problem) = self.ledger.command(&Command::Snapshot(failed)) {
                tracing::error!(snapshot = snapshot.as_str(), "noting that it failed: {}", problem.rule);
            }
        }
    }

    /// Notes that everything is stored, and lets the instant go, and older snapshots that a
    /// schedule no longer keeps.
    pub(crate) fn complete_snapshot(&self, record: &SnapshotRecord, manifest: &Manifest, parent: Option<SnapshotId>) -> io::Result<()> {
        let (block_bytes, blocks) = (headrace_store::snapshots::BLOCK_BYTES as u64, manifest.blocks());
        let completed = SnapshotCommand::Completed {
            snapshot: record.id.clone(),
            parent,
            stored_bytes: manifest.own_blocks() * block_bytes,
            full_bytes: blocks * block_bytes,
        };
        if self.ledger.lab(|lab| lab.snapshots.pending.contains(&record.id)) {
            let events = self.ledger.command(&Command::Snapshot(completed)).map_err(|problem| io::Error::other(problem.rule))?;
            self.after_deletions(&events);
        }
        if let Some(instant) = lock(&self.instants).remove(&record.id) {
            instant.finish()?;
        }
        Ok(())
    }

    /// Stores the wrapped key and the blocks of a snapshot; notes the progress, and ends early if
    /// the snapshot is deleted or the lab goes down.
    pub(super) fn upload(
        &self,
        record: &SnapshotRecord,
        source: &dyn BlockSource,
        parent: Option<&Manifest>,
        cipher: Option<&dyn BlockCipher>,
    ) -> io::Result<Manifest> {
        // Before the manifest: an encrypted snapshot that exists can be opened by its key.
        self.keep_wrapped_key(record)?;
        let cancel = self.cancel_of(&record.id);
        let id = record.id.clone();
        let progress = |progress: Progress| {
            let percent = progress.percent().min(99) as u8;
            let _ = self.ledger.command(&Command::Snapshot(SnapshotCommand::Progress { snapshot: id.clone(), percent, waits: None }));
        };
        let source = UntilTheEnd { source, stopping: &self.ledger.stopping };
        upload(&source, &self.objects, record.id.as_str(), parent, cipher, &progress, &cancel)
    }

    /// Puts the wrapped data key of an encrypted snapshot next to its blocks.
    pub(crate) fn keep_wrapped_key(&self, record: &SnapshotRecord) -> io::Result<()> {
        let key = record.properties.encryption.as_ref();
        key.map_or(Ok(()), |key| self.keys.wrapped_key(record.id.as_str(), key).store(&self.objects))
    }

    /// Returns the snapshot whose stored blocks this one uses: the snapshot since which the changes
    /// are recorded, else the newest of the same volume, else the snapshot that the volume was made
    /// from.
    pub(super) fn parent_of(&self, record: &SnapshotRecord, instant: &Instant) -> Option<Arc<Manifest>> {
        let since = instant.changes().map(|(since, _)| since.to_string());
        let candidates: Vec<SnapshotId> = self.ledger.lab(|lab| {
            let usable =
                |other: &&SnapshotRecord| other.state == SnapshotState::Completed && other.properties.chain == record.properties.chain && other.id != record.id;
            let mut records: Vec<&SnapshotRecord> = lab.snapshots.records.values().filter(usable).collect();
            records.sort_by_key(|other| {
                let is_since = since.as_deref() == Some(other.id.as_str());
                let same_volume = other.properties.volume == record.properties.volume;
                std::cmp::Reverse((is_since, same_volume, other.started_ms))
            });
            records.into_iter().map(|other| other.id.clone()).take(1).collect()
        });
        candidates.first().and_then(|id| self.manifest(id).ok())
    }

    /// Copies the blocks of `source` from this lab's store or from `store`. `key` opens the blocks
    /// of another store; those of this lab are opened with the key of their own record.
    pub(super) fn store_copy(&self, record: &SnapshotRecord, store: Option<&str>, source: &SnapshotId, key: Option<&SnapshotKey>) -> io::Result<Manifest> {
        let objects = match store {
            Some(url) => Objects::open_existing(url)?,
            None => self.objects.clone(),
        };
        let manifest = Manifest::load(&objects, source.as_str())?;
        let own_record = self.ledger.lab(|lab| lab.snapshots.records.get(source).cloned()).filter(|_| store.is_none());
        let key = own_record.as_ref().map_or(key, |own_record| own_record.properties.encryption.as_ref());
        let opening = key.map(|key| self.keys.cipher_known_as(key, manifest.key())).transpose().map_err(|problem| key_not_accessible(&problem))?;
        if opening.is_none() && !manifest.key().is_empty() {
            return Err(key_not_accessible(&unknown_key(source.as_str())));
        }
        let cipher = self.cipher_of(record)?;
        let opening = opening.as_deref().map(|cipher| cipher as &dyn BlockCipher);
        let copied = Stored { objects: &objects, manifest: &manifest, cipher: opening };
        self.upload(record, &copied, None, cipher.as_deref())
    }

    /// Removes the objects of a deleted snapshot; leaves them while a volume loads from it.
    pub(super) fn remove_snapshot(&self, snapshot: &SnapshotId) -> io::Result<()> {
        if let Some(instant) = lock(&self.instants).remove(snapshot) {
            instant.finish()?;
        }
        // A volume that still loads from it keeps its blocks.
        let needed = self.ledger.lab(|lab| lab.volumes.values().any(|volume| loads_from(volume, snapshot)));
        if needed || !self.ledger.lab(|lab| lab.snapshots.deleting.contains_key(snapshot)) {
            return Ok(());
        }
        lock(&self.manifests).retain(|(id, _)| id != snapshot);
        self.remove_objects(snapshot)?;
        self.ledger.command(&Command::Snapshot(SnapshotCommand::Removed { snapshot: snapshot.clone() })).map_err(|problem| io::Error::other(problem.rule))?;
        Ok(())
    }

    /// Removes what only this snapshot refers to. Segments of the snapshot are searched for once
    /// more: an upload that was given up, or a removal that a crash ended, leaves some without a
    /// manifest.
    fn remove_objects(&self, snapshot: &SnapshotId) -> io::Result<()> {
        let objects = &self.objects;
        let stored: HashSet<String> = objects.list("manifests/")?.into_iter().map(|listed| listed.name).collect();
        let others: Vec<String> = self.ledger.lab(|lab| {
            let chain = lab.snapshots.deleting.get(snapshot);
            let records = lab.snapshots.records.values().filter(|record| Some(&record.properties.chain) == chain).map(|record| &record.id);
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

    /// Queues the removal of every deleted snapshot: one that waited for a volume to be loaded goes
    /// on.
    pub(crate) fn retry_removals(&self) {
        for (snapshot, chain) in self.ledger.lab(|lab| lab.snapshots.deleting.clone()) {
            self.queue_job(&chain, Job::Remove(snapshot));
        }
    }

    /// Returns true if a snapshot or a copy still needs the bytes of a volume.
    pub(crate) fn is_being_stored(&self, volume: &VolumeId) -> bool {
        self.ledger.lab(|lab| {
            let mut pending = lab.snapshots.pending.iter().filter_map(|id| lab.snapshots.records.get(id));
            let copied = |other: &VolumeRecord| other.is_being_copied() && other.source_volume.as_ref() == Some(volume);
            pending.any(|record| record.properties.volume.as_ref() == Some(volume)) || lab.volumes.values().any(copied)
        })
    }

    /// Takes over the instants that an earlier daemon left in the files of a volume: those of
    /// pending snapshots and of copies under way go on, the others end.
    pub(crate) fn adopt_instants(&self, capture: &Arc<Capture>) {
        for instant in capture.instants() {
            let pending = instant.name().parse().ok().filter(|id| self.ledger.lab(|lab| lab.snapshots.pending.contains(id)));
            match pending {
                Some(id) => drop(lock(&self.instants).insert(id, instant)),
                None => self.adopt_copy(instant),
            }
        }
    }

    /// Returns the manifest of a completed snapshot.
    pub(crate) fn manifest(&self, snapshot: &SnapshotId) -> io::Result<Arc<Manifest>> {
        if let Some((_, manifest)) = lock(&self.manifests).iter().find(|(id, _)| id == snapshot) {
            return Ok(manifest.clone());
        }
        let manifest = Arc::new(Manifest::load(&self.objects, snapshot.as_str())?);
        let mut cache = lock(&self.manifests);
        cache.push_front((snapshot.clone(), manifest.clone()));
        cache.truncate(MOST_MANIFESTS);
        Ok(manifest)
    }

    /// Returns the cipher that opens the blocks of the snapshot that a volume is made from; None if
    /// they are not encrypted.
    pub(crate) fn cipher_of_origin(&self, record: &VolumeRecord) -> io::Result<Option<Arc<dyn BlockCipher>>> {
        record.origin.as_ref().and_then(|origin| origin.encryption.as_ref()).map(|key| self.open_cipher(key)).transpose()
    }

    /// Returns the cipher that seals the blocks of a snapshot; None if they are not encrypted.
    pub(crate) fn cipher_of(&self, record: &SnapshotRecord) -> io::Result<Option<Arc<dyn BlockCipher>>> {
        record.properties.encryption.as_ref().map(|key| self.open_cipher(key)).transpose()
    }

    fn open_cipher(&self, key: &SnapshotKey) -> io::Result<Arc<dyn BlockCipher>> {
        match self.keys.snapshot_cipher(key) {
            Ok(cipher) => Ok(cipher),
            Err(problem) => Err(io::Error::other(format!("{}: {}", problem.value, problem.rule))),
        }
    }

    /// Checks that a snapshot can be read before a volume is made from it. While the object store
    /// is away, no volume is made, and the same call may be made again.
    pub(crate) fn check_snapshot_readable(&self, snapshot: Option<&str>) -> Outcome<()> {
        let record = snapshot.and_then(|snapshot| self.ledger.lab(|lab| lab.snapshots.find(snapshot).cloned()).ok());
        match record.filter(|record| record.state == SnapshotState::Completed) {
            Some(record) => self.manifest(&record.id).map(drop).map_err(|error| from_io(format!("the snapshot {}", record.id), &error)),
            // The decision names the fault of another snapshot.
            None => Ok(()),
        }
    }

    /// Adopts an instant that an earlier daemon left: it is of a copy that is under way, or of
    /// nothing.
    pub(super) fn adopt_copy(&self, instant: Instant) {
        let id: Option<VolumeId> = instant.name().parse().ok();
        match id.filter(|id| self.ledger.lab(|lab| lab.volumes.get(id).is_some_and(VolumeRecord::is_being_copied))) {
            Some(id) => drop(lock(&self.copies).insert(id, instant)),
            None => drop(instant.finish()),
        }
    }

    /// Returns the progress of a copy.
    pub(crate) fn copy_progress(&self, record: &VolumeRecord) -> InitializationView {
        let blocks = record.size_gib() * ((1 << 30) / BLOCK_BYTES as u64);
        let (all, remaining) = match record.is_being_copied() {
            true => lock(&self.to_copy).get(&record.id).copied().unwrap_or((blocks, blocks)),
            false => (blocks, 0),
        };
        InitializationView {
            state: if record.is_being_copied() { "initializing" } else { "completed" }.to_string(),
            r#type: "default".to_string(),
            // 100 is for completed alone.
            progress_percent: if record.is_being_copied() { (100.0 * (all - remaining) as f64 / all.max(1) as f64).min(99.0) } else { 100.0 },
            blocks_left: remaining,
            rate_mib_s: None,
            remaining_s: None,
            fast: false,
        }
    }
}

/// Opens the object store of a lab: `requested`, or the store of the last start. A new store must
/// have the lab's snapshots.
pub(crate) fn open_store(folder: &Path, lab: &Lab, requested: Option<&str>) -> Outcome<Objects> {
    let previous = lab.settings.snapshot_store.clone().unwrap_or_else(|| format!("file://{}", folder.join("snapshots").display()));
    let url = requested.unwrap_or(&previous);
    let failed = |error: io::Error| from_io("opening the object store of snapshots", &error);
    let store = Objects::open(url).map_err(failed)?;
    if url.trim_end_matches('/') == previous.trim_end_matches('/') {
        return Ok(store);
    }
    let completed = lab.snapshots.records.values().filter(|record| record.state == SnapshotState::Completed).map(|record| &record.id);
    let loaded = lab.volumes.values().filter_map(|volume| volume.origin.as_ref()).filter(|origin| !origin.loaded).map(|origin| &origin.snapshot);
    let needed: BTreeSet<&SnapshotId> = completed.chain(loaded).collect();
    if needed.is_empty() {
        return Ok(store);
    }
    let manifests: HashSet<String> = store.list("manifests/").map_err(failed)?.into_iter().map(|listed| listed.name).collect();
    let missing: Vec<&&SnapshotId> = needed.iter().filter(|id| !manifests.contains(&format!("manifests/{id}"))).collect();
    let Some(first) = missing.first() else { return Ok(store) };
    let rule = format!("does not have {} of the {} snapshots of this lab, such as {first}: they are in {previous}", missing.len(), needed.len());
    let hint = "Leave --snapshot-store out to stay with the store it has, or copy all objects to the new one first; a new lab may begin with any store.";
    Err(refused(ErrorKind::InvalidParameter, url, rule, hint))
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

/// Returns true if a volume that can still be used is not yet loaded from this snapshot.
fn loads_from(volume: &VolumeRecord, snapshot: &SnapshotId) -> bool {
    let is_gone = match volume.status {
        VolumeStatus::Deleting => true,
        VolumeStatus::Error => !volume.was_ready,
        _ => false,
    };
    !is_gone && volume.origin.as_ref().is_some_and(|origin| origin.snapshot == *snapshot && !origin.loaded)
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

/// Returns the snapshots that events begin, with their volumes.
pub(crate) fn list_started(events: &[Event]) -> Vec<(SnapshotId, Option<VolumeId>)> {
    let start_of = |event: &Event| match &event.change {
        Change::Snapshot(SnapshotChange::Started { snapshot, new }) => Some((snapshot.clone(), new.volume.clone())),
        _ => None,
    };
    events.iter().filter_map(start_of).collect()
}
