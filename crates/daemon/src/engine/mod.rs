//! The engine of a lab: services with their own state and lock, their start and their end.
//!
//! ```text
//!  ledger <- keys <- snapshots <- volumes <- workers (of snapshots)
//!  ledger <- metrics <----------- volumes
//!  ledger <- metrics <- alarms
//! ```
//!
//! A service knows only those that its arrow leads to. [`Engine`] holds them all.
//!
//! # Order of the locks
//!
//! A thread that holds one of these takes only locks further down the list:
//!
//! 1. `Engine::due`: one thread at a time applies the events that are due, so that none is applied
//!    twice.
//! 2. `Volumes::work`: one call at a time makes or takes devices and files, from its command to
//!    its report. It is one lock for all volumes, because device names, the instance's limits and
//!    the instant of several snapshots concern all of them; bytes are loaded, stored, copied and
//!    rebuilt without it. `Keys::work`: one call at a time makes or takes in a key. No thread holds
//!    both.
//! 3. `Volumes::path`: the costs of the machine's own path; held while they are measured.
//! 4. `Volumes::mount`: the FUSE mount; held for a look at it, while the path is measured, and
//!    while it is taken down.
//! 5. `Volumes::opening`: one thread at a time opens a volume's files or puts it to rest.
//! 6. `Volumes::noting`: the second whose rows are written; held while they are, or the rows of a
//!    volume that is being detached.
//! 7. `Volumes::files`: the open volumes; held for a look or a change, never while files are read
//!    or written.
//! 8. `Volumes::resting`: facts about the volumes that are not open.
//! 9. `Ledger::state`: the lab, the journal, the clock; held while an event is written down and
//!    applied.
//! 10. `Metrics::custom`: metrics of users; held while they are read or put, and logged.
//! 11. locks inside [`Devices`], of the metrics, of waiting actions, of an array, of a meter: each
//!     knows no other.

pub mod attaching;
mod blocks;
pub mod encryption;
pub mod faulting;
pub mod housekeeping;
pub mod initializing;
pub mod ledger;
mod metering;
pub mod modifying;
pub(crate) mod parts;
pub mod resting;
mod resyncing;
pub mod snapshots;
pub mod snapshotting;
pub(crate) mod state;
pub mod volume_files;
pub mod volumes;

pub use parts::lab_time;
pub(crate) use parts::{lock, unix_ms};

use crate::cloudwatch::actions::Actions;
use crate::cloudwatch::alarming::Alarms;
use crate::cloudwatch::points::Metrics;
use crate::engine::attaching::device_path;
use crate::engine::encryption::Keys;
use crate::engine::ledger::Ledger;
use crate::engine::snapshots::Snapshots;
use crate::engine::snapshotting::SnapshotWorkers;
use crate::engine::state::State;
use crate::engine::volumes::{Below, Volumes};
use crate::events::EventLog;
use crate::journal::{Checkpoint, Journal, JournalError, Recovered};
use crate::keyring::Keyring;
use crate::options::Options;
use crate::problem::{from_io, in_use, Outcome};
use headrace_control::{LabClock, SettingsRequest, VolumeRecord};
use headrace_device::mount::Mount;
use headrace_device::stale_mounts::{self, StaleMounts};
use headrace_device::{loopdev, Devices};
use headrace_model::record::{SavedHost, SavedInstance};
use headrace_model::Nanos;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest wait for the end of a daemon that was killed, and the time between two looks at its lock
/// (guesses: an exit takes milliseconds).
const KILLED_END: Duration = Duration::from_secs(10);
const KILLED_LOOK: Duration = Duration::from_millis(20);

/// A lab that runs: its services, each with its own state and lock, and the end of them all.
pub struct Engine {
    /// Records, journal and clock.
    pub ledger: Arc<Ledger>,
    /// Keys, and the data keys of encrypted volumes and snapshots.
    pub keys: Arc<Keys>,
    /// Snapshots and their object store.
    pub snapshots: Arc<Snapshots>,
    /// Rows of the volumes, and metrics of users.
    pub metrics: Arc<Metrics>,
    /// Volumes, their files and devices.
    pub volumes: Arc<Volumes>,
    /// Workers that store, copy and remove snapshots.
    pub workers: Arc<SnapshotWorkers>,
    /// Alarms and their actions.
    pub alarms: Arc<Alarms>,
    /// Socket of the lab.
    pub socket: PathBuf,
    /// Mounts and loop devices of an earlier daemon, released at the start.
    pub stale_mounts: StaleMounts,
    /// Sentence about the journal's end that was cut off at the start; None if it was whole.
    pub repaired: Option<String>,
    /// Port of 127.0.0.1 at which another process serves the metrics; 0: none does.
    pub metrics_port: u16,
    pub(crate) due: Mutex<()>,
    down: AtomicBool,
}

impl Engine {
    /// Opens a lab and brings everything back that was attached.
    ///
    /// # Errors
    /// In use, damaged, or something of the machine is missing.
    pub fn open(options: &Options) -> Outcome<Arc<Engine>> {
        let folder = make_folder(&options.data_dir)?;
        if options.group.is_some() {
            // Members of the group must reach the socket in it; the other files in the folder stay
            // closed.
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711)).map_err(|error| from_io("opening the folder to the group", &error))?;
        }
        let mnt = folder.join("mnt");
        let (journal, recovered) = open_journal(&folder, &mnt)?;
        // Before anything else: a dead mount can neither be looked at nor be made again.
        let released = stale_mounts::release(&mnt).map_err(|error| from_io("releasing what an earlier daemon left", &error))?;
        for name in ["keys", "volumes", "metrics", "mnt", "dev/by-id", "records", "snapshots"] {
            create_private(&folder.join(name)).map_err(|error| from_io(format!("making {name}"), &error))?;
        }
        let repaired = recovered.repair.as_ref().map(|cut| format!("{} bytes at {} of the journal: {}", cut.bytes, cut.offset, cut.reason));
        let Checkpoint { lab, balances } = recovered.state.clone();
        let now = balances.devices.values().chain(&balances.instance).map(|saved| saved.device_ns).max().unwrap_or(0);
        let objects = snapshots::open_store(&folder, &lab, options.snapshot_store.as_deref())?;
        let last_ms = match recovered.state.last_lab_ms() {
            0 => unix_ms(),
            last => last,
        };
        let clock = LabClock::new(last_ms, 0, lab.settings.time_scale);
        let devices = Arc::new(Devices::new(&SavedHost { now: Nanos(now), instance: None, devices: Vec::new() }));
        let mount = Mount::new(devices.clone(), &mnt).map_err(|error| from_io(format!("mounting {}", mnt.display()), &error))?;
        let keyring = Keyring::open(&folder.join("keys"), |id| lab.keys.keys.contains_key(id)).map_err(|error| from_io("opening the keys", &error))?;
        let events = EventLog::open(&folder).map_err(|error| from_io("reading the events", &error))?;
        let ledger = Arc::new(Ledger::new(State::new(lab, journal, clock, balances, events)));
        let metrics = Arc::new(Metrics::open(&folder, ledger.clone())?);
        let keys = Arc::new(Keys::new(ledger.clone(), keyring));
        let snapshots = Arc::new(Snapshots::new(ledger.clone(), keys.clone(), objects));
        let below = Below { ledger: ledger.clone(), keys: keys.clone(), snapshots: snapshots.clone(), metrics: metrics.clone() };
        let alarms = Arc::new(Alarms::new(ledger.clone(), metrics.clone(), Actions::new(&folder)));
        let volumes = Arc::new(Volumes::new(folder, options.machine_links, below, devices, mount));
        let engine = Engine {
            workers: Arc::new(SnapshotWorkers::new(volumes.clone())),
            ledger,
            keys,
            snapshots,
            metrics,
            volumes,
            alarms,
            socket: options.socket(),
            stale_mounts: released,
            repaired,
            metrics_port: options.metrics_port,
            due: Mutex::default(),
            down: AtomicBool::new(false),
        };
        engine.configure(options)?;
        engine.volumes.restore()?;
        Ok(Arc::new(engine))
    }

    /// Changes the settings that the options name, and sets the instance in the model, with the
    /// credits it had.
    fn configure(&self, options: &Options) -> Outcome<()> {
        let (instance, levels) = self.ledger.configure(SettingsRequest {
            instance_type: options.instance_type.clone(),
            as_of: options.as_of.clone(),
            time_scale: options.time_scale,
            snapshot_store: options.snapshot_store.clone(),
            ..SettingsRequest::default()
        })?;
        self.volumes.devices.set_instance(instance.as_ref());
        if let (Some(limits), Some(levels)) = (instance, levels) {
            self.volumes.devices.restore_instance(&SavedInstance { limits, state: levels });
        }
        Ok(())
    }

    /// Ends the lab: devices go, attachments stay noted and come back with the next start. Without
    /// `force` not while something is mounted.
    pub fn shut_down(&self, force: bool) -> Outcome<()> {
        let _work = lock(&self.volumes.work);
        if self.is_down() {
            return Ok(());
        }
        let attached: Vec<VolumeRecord> = self.ledger.lab(|lab| lab.volumes.values().filter(|record| record.attachment.is_some()).cloned().collect());
        if let Some(record) = attached.iter().find(|record| !force && device_path(record).is_some_and(|device| loopdev::is_busy(&device))) {
            let device = device_path(record).unwrap_or_default();
            return Err(in_use(record.label(), format!("{} is mounted or in an array", device.display()), "Unmount it first, or use --force."));
        }
        self.ledger.stopping.store(true, Ordering::Release);
        let _ = self.volumes.devices.stop_recording();
        let devices = attached.iter().filter_map(|record| {
            let device_number = self.volumes.device_number(record).ok()?;
            let (now, device) = self.volumes.devices.saved_device(device_number)?;
            Some((record.id.clone(), now, device))
        });
        let devices = devices.collect();
        attached.iter().for_each(|record| self.volumes.take_device(record));
        self.volumes.close_all();
        if let Err(problem) = self.ledger.note_balances(devices, self.volumes.devices.saved_instance()) {
            tracing::error!("noting balances: {}", problem.rule);
        }
        self.ledger.close_journal();
        if let Some(mount) = lock(&self.volumes.mount).take() {
            if let Err(error) = mount.unmount() {
                // A device is still open elsewhere. Programs that have it open get I/O errors from
                // now on; the mount is released when the last of them closes it.
                tracing::warn!("unmounting: {error}; detached while it is still in use");
                if let Err(error) = stale_mounts::release(&self.volumes.folder.join("mnt")) {
                    tracing::warn!("taking the mount away: {error}");
                }
            }
        }
        self.down.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns true if the lab is down: devices gone, everything on disk. The process must not end
    /// before: a flush that waits for its own threads would never end.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }
}

/// Opens the journal. A daemon that was killed while a thread of it waited for its own mount cannot
/// end and holds the lock: its mount is aborted, and its end waited for.
fn open_journal(folder: &Path, mnt: &Path) -> Outcome<(Journal, Recovered)> {
    let deadline = Instant::now() + KILLED_END;
    let mut aborted = false;
    loop {
        match Journal::open(folder) {
            Err(JournalError::InUse { pid: Some(pid), .. }) if stale_mounts::is_killed(pid) && Instant::now() < deadline => {
                if !aborted {
                    tracing::warn!("process {pid} was killed and has not ended: aborting its mount on {}", mnt.display());
                    stale_mounts::abort(mnt).map_err(|error| from_io(format!("aborting {}", mnt.display()), &error))?;
                    aborted = true;
                }
                std::thread::sleep(KILLED_LOOK);
            }
            opened => return Ok(opened?),
        }
    }
}

fn make_folder(folder: &Path) -> Outcome<PathBuf> {
    create_private(folder).map_err(|error| from_io(format!("making {}", folder.display()), &error))?;
    folder.canonicalize().map_err(|error| from_io(format!("finding {}", folder.display()), &error))
}

/// Creates a folder that only its owner may look into.
fn create_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
