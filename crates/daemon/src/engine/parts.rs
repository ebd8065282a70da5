//! Parts of the engine that do not use it: facts about resting volumes, snapshots under way and
//! block by block snapshots, in memory; locks, random numbers, the wall clock.

use chrono::NaiveDate;
use headrace_catalog::{StorageSpec, VolumeLimits};
use headrace_control::{Change, Event, SnapshotChange, SnapshotId, VolumeId};
use headrace_device::AttachedVolume;
use headrace_model::Device;
use headrace_store::snapshots::{Builder, Instant, Manifest};
use headrace_store::Objects;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval at which an idle worker checks if the lab goes down.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The second whose rows are being counted, and devices that were detached while requests waited.
#[derive(Default)]
pub(crate) struct Noting {
    /// The second that rows are counted for now, Unix seconds.
    pub(crate) second: u64,
    /// Devices that were detached with requests that are not answered yet.
    pub(crate) parting: Vec<(VolumeId, Arc<AttachedVolume>)>,
}

/// Takes a lock even when a thread panicked while holding it: state is only changed when it is
/// complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the wall clock, Unix milliseconds.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis() as u64)
}

/// Draws a random number from the operating system.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    let got = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(got, Ok(8));
    u64::from_le_bytes(bytes)
}

/// Facts about a resting volume that need no opening of its files.
#[derive(Default)]
pub(crate) struct Resting {
    /// Bytes that its files take on the disk.
    pub(crate) allocated: Option<u64>,
    /// Blocks of its snapshot, and how many of them are not loaded.
    pub(crate) cold: Option<(u64, u64)>,
    /// Device of the volume in the model, with the state at its last use; made at the first
    /// question for its credits.
    pub(super) device: Option<Device>,
}

/// Key of the remembered limits: storage, date, and instance type.
type LimitsKey = (StorageSpec, NaiveDate, Option<String>);
/// Limits that were worked out.
pub(crate) type KnownLimits = HashMap<LimitsKey, Arc<Vec<VolumeLimits>>>;

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

/// State of the engine about snapshots in addition to their records.
pub(crate) struct SnapshotWork {
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

impl SnapshotWork {
    /// Opens the object store.
    pub(crate) fn open(url: &str) -> io::Result<SnapshotWork> {
        Ok(SnapshotWork {
            objects: Objects::open(url)?,
            jobs: Mutex::new(Jobs::default()),
            wake: Condvar::new(),
            instants: Mutex::new(HashMap::new()),
            copies: Mutex::new(HashMap::new()),
            to_copy: Mutex::new(HashMap::new()),
            manifests: Mutex::new(VecDeque::new()),
            secret: std::array::from_fn(|_| random() as u8),
            builders: Mutex::new(HashMap::new()),
        })
    }

    pub(super) fn put(&self, chain: &str, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.queue.iter().all(|(_, other, _)| *other != job) {
            jobs.queue.push_back((chain.to_string(), job, 0));
        }
        drop(jobs);
        self.wake.notify_all();
    }

    /// Takes the first job whose chain has none under way; None when no job came within
    /// [`LOOK_EVERY`].
    pub(super) fn take(&self) -> Option<(String, Job, u32)> {
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

    pub(super) fn done(&self, chain: &str, job: &Job) {
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
}

/// Returns the snapshots that events begin, with their volumes.
pub(crate) fn started(events: &[Event]) -> Vec<(SnapshotId, Option<VolumeId>)> {
    let of = |event: &Event| match &event.change {
        Change::Snapshot(SnapshotChange::Started { snapshot, new }) => Some((snapshot.clone(), new.volume.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}
