//! State, journal, devices and mount together: the one place where a lab changes.
//!
//! # Order of the locks
//!
//! A thread that holds one of these takes only locks further down the list:
//!
//! 1. `due`: one thread at a time applies the events that are due, so that none is applied twice.
//! 2. `work`: one call at a time makes or takes devices and files, from its command to its report.
//! 3. `path`: what the machine's own path costs; held while that is measured.
//! 4. `mount`: the FUSE mount; held for a look at it, while the path is measured, and while it is
//!    taken down.
//! 5. `opening`: one thread at a time opens a volume's files or puts it to rest.
//! 6. `noting`: which second rows are written for; held while the rows of a second are, or those of
//!    a volume that is being detached.
//! 7. `volumes`: the open volumes; held for a look or a change, never while files are read or
//!    written.
//! 8. `resting`: facts about the volumes that are not open.
//! 9. `state`: the lab, the journal, the clock; held while an event is written down and applied.
//! 10. `custom`: metrics of users; held while they are read or put, and logged.
//! 11. locks inside [`Devices`], of the metrics, of waiting actions, of an array, of a meter: each
//!     knows no other.

pub mod attaching;
mod blocks;
pub mod encryption;
pub mod faulting;
pub mod housekeeping;
pub mod initializing;
pub mod modifying;
mod parts;
pub mod resting;
pub mod snapshotting;
pub(crate) mod state;
pub mod volume_files;

pub(crate) use parts::{lock, random, unix_ms};

use crate::cloudwatch::actions::Actions;
use crate::cloudwatch::custom::Custom;
use crate::engine::parts::{KnownLimits, Noting, Resting, SnapshotWork};
use crate::engine::state::{commit, write_waiting, State};
use crate::engine::volume_files::{DataKey, VolumeFiles};
use crate::envelope;
use crate::events::EventLog;
use crate::journal::{Balances, Checkpoint, Entry, Journal, Json, Saved};
use crate::keyring::Keyring;
use crate::metrics::Store;
use crate::problem::{could_not, of_control, of_io, of_journal, refused, Outcome};
use clap::Parser;
use headrace_control::{
    ClientToken, Command, CreateRequest, ErrorKind, Event, Lab, LabClock, SettingsRequest, UsedToken, VolumeId, VolumeRecord, VolumeStatus,
};
use headrace_device::mount::Mount;
use headrace_device::probe::PathCost;
use headrace_device::stale_mounts::{self, StaleMounts};
use headrace_device::Devices;
use headrace_model::record::{HostChange as ModelChange, SavedHost, SavedInstance};
use headrace_model::InstanceState;
use headrace_model::{ModelOptions, Nanos, SavedDevice, SavedVolume};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Folder of the lab that serves the whole machine.
pub const DEFAULT_FOLDER: &str = "/var/lib/headrace";
const DEFAULT_SOCKET: &str = "/run/headrace/lab.sock";

/// The daemon of a Headrace lab: volumes that perform like EBS volumes, as block devices of this
/// machine.
#[derive(Clone, Debug, Parser)]
#[command(name = "headraced", version, about)]
pub struct Options {
    /// Folder of the lab: journal, volumes, metrics.
    #[arg(long, default_value = DEFAULT_FOLDER)]
    pub data_dir: PathBuf,
    /// Unix socket; else /run/headrace/lab.sock, or lab.sock in another --data-dir.
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// EC2 instance type whose EBS limits all volumes share, or `none`. Else as it was.
    #[arg(long)]
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes, YYYY-MM-DD, or `newest`. Else as it was.
    #[arg(long)]
    pub as_of: Option<String>,
    /// Speed of modifications: a multiple of the wall clock's. Device timing is never scaled.
    #[arg(long)]
    pub time_scale: Option<u32>,
    /// Store of the blocks of snapshots: file:///FOLDER or s3://BUCKET/PREFIX. Else as it was; at
    /// first, the folder `snapshots` of the lab.
    #[arg(long)]
    pub snapshot_store: Option<String>,
    /// Port of 127.0.0.1 at which another process (`headrace lab up` starts one) serves the
    /// metrics: the daemon only tells it. 0: none does.
    #[arg(long, default_value_t = 0)]
    pub metrics_port: u16,
    /// True to make links under /dev too, as an instance of EC2 has them: /dev/xvdba, and
    /// /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0...; names that exist stay as they are.
    #[arg(long)]
    pub machine_links: bool,
    /// Group whose members may use the socket, as its owner may.
    #[arg(long)]
    pub group: Option<u32>,
}

impl Options {
    /// Returns the socket's path.
    pub fn socket(&self) -> PathBuf {
        match &self.socket {
            Some(path) => path.clone(),
            None => socket_of(&self.data_dir),
        }
    }
}

/// Returns the socket of a lab that was started without one of its own.
pub(crate) fn socket_of(data_dir: &Path) -> PathBuf {
    match data_dir.as_os_str() == DEFAULT_FOLDER {
        true => PathBuf::from(DEFAULT_SOCKET),
        false => data_dir.join("lab.sock"),
    }
}

/// A lab that runs.
pub struct Engine {
    /// Folder of the lab.
    pub folder: PathBuf,
    /// Socket of the lab.
    pub socket: PathBuf,
    /// Time of the start.
    pub started: Instant,
    /// Metrics of the volumes.
    pub metrics: Store,
    /// Metrics of users.
    pub(crate) custom: Mutex<Custom>,
    /// Commands and webhooks that alarms set off.
    pub(crate) actions: Actions,
    /// Mounts and loop devices of an earlier daemon, released at the start.
    pub stale_mounts: StaleMounts,
    /// Sentence about the journal's end that was cut off at the start; None if it was whole.
    pub repaired: Option<String>,
    /// Port of 127.0.0.1 at which another process serves the metrics; 0: none does.
    pub metrics_port: u16,
    /// True if links are made under the machine's own /dev too.
    pub(crate) machine_links: bool,
    pub(crate) devices: Arc<Devices>,
    pub(crate) keyring: Keyring,
    pub(crate) mount: Mutex<Option<Mount>>,
    pub(crate) volumes: Mutex<HashMap<VolumeId, VolumeFiles>>,
    /// The lock under which a volume is opened or put to rest: one at a time.
    pub(crate) opening: Mutex<()>,
    pub(crate) resting: Mutex<HashMap<VolumeId, Resting>>,
    pub(crate) known_limits: Mutex<KnownLimits>,
    pub(crate) due: Mutex<()>,
    /// The lock under which devices and files are made or taken: one at a time.
    pub(crate) work: Mutex<()>,
    pub(crate) path: Mutex<Option<(Instant, PathCost)>>,
    pub(crate) stopping: AtomicBool,
    pub(crate) down: AtomicBool,
    pub(crate) rows_lost: AtomicU64,
    pub(crate) noting: Mutex<Noting>,
    pub(crate) snapshots: SnapshotWork,
    /// The lock under which a volume of fast snapshot restore is loaded: one at a time, as fast as
    /// the store gives.
    pub(crate) fast_loading: Mutex<()>,
    state: Mutex<State>,
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
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711)).map_err(|error| of_io("opening the folder to the group", &error))?;
        }
        let (journal, recovered) = Journal::open(&folder).map_err(of_journal)?;
        let mnt = folder.join("mnt");
        // Before anything else: a dead mount can neither be looked at nor be made again.
        let released = stale_mounts::release(&mnt).map_err(|error| of_io("releasing what an earlier daemon left", &error))?;
        for name in ["keys", "volumes", "metrics", "mnt", "dev/by-id", "records", "snapshots"] {
            create_private(&folder.join(name)).map_err(|error| of_io(format!("making {name}"), &error))?;
        }
        let repaired = recovered.repair.as_ref().map(|cut| format!("{} bytes at {} of the journal: {}", cut.bytes, cut.offset, cut.reason));
        let Checkpoint { lab, balances } = recovered.state.clone();
        let now = balances.devices.values().chain(&balances.instance).map(|saved| saved.device_ns).max().unwrap_or(0);
        let snapshots = snapshotting::open_store(&folder, &lab, options.snapshot_store.as_deref())?;
        let last_ms = match recovered.state.last_lab_ms() {
            0 => unix_ms(),
            last => last,
        };
        let clock = LabClock::new(last_ms, 0, lab.settings.time_scale);
        let devices = Arc::new(Devices::new(&SavedHost { now: Nanos(now), instance: None, devices: Vec::new() }));
        let mount = Mount::new(devices.clone(), &mnt).map_err(|error| of_io(format!("mounting {}", mnt.display()), &error))?;
        let metrics = Store::open(&folder.join("metrics")).map_err(|error| of_io("opening the metrics", &error))?;
        let keyring = Keyring::open(&folder.join("keys"), |id| lab.keys.keys.contains_key(id)).map_err(|error| of_io("opening the keys", &error))?;
        let custom = Custom::open(&folder, (unix_ms() / 1_000) as i64).map_err(|error| of_io("reading metrics of users", &error))?;
        let events = EventLog::open(&folder).map_err(|error| of_io("reading the events", &error))?;
        let engine = Engine {
            custom: Mutex::new(custom),
            actions: Actions::new(&folder),
            socket: options.socket(),
            started: Instant::now(),
            metrics,
            stale_mounts: released,
            repaired,
            metrics_port: options.metrics_port,
            machine_links: options.machine_links,
            devices,
            keyring,
            mount: Mutex::new(Some(mount)),
            volumes: Mutex::new(HashMap::new()),
            opening: Mutex::new(()),
            resting: Mutex::new(HashMap::new()),
            known_limits: Mutex::new(HashMap::new()),
            due: Mutex::new(()),
            work: Mutex::new(()),
            path: Mutex::new(None),
            stopping: AtomicBool::new(false),
            down: AtomicBool::new(false),
            rows_lost: AtomicU64::new(0),
            noting: Mutex::default(),
            snapshots,
            fast_loading: Mutex::new(()),
            state: Mutex::new(State::new(lab, journal, clock, balances, events)),
            folder,
        };
        engine.configure(options)?;
        engine.restore()?;
        Ok(Arc::new(engine))
    }

    fn configure(&self, options: &Options) -> Outcome<()> {
        let command = Command::Configure(SettingsRequest {
            instance_type: options.instance_type.clone(),
            as_of: options.as_of.clone(),
            time_scale: options.time_scale,
            snapshot_store: options.snapshot_store.clone(),
            ..SettingsRequest::default()
        });
        // The devices of the earlier daemon are gone: nothing is attached while settings change.
        let mut state = lock(&self.state);
        let mut detached = state.lab.clone();
        detached.volumes.values_mut().for_each(|record| record.attachment = None);
        let now = state.clock.lab_ms(0);
        let events = detached.decide(&command, now, &mut random).map_err(of_control)?;
        commit(&mut state, events)?;
        state.clock = state.clock.rescaled(0, state.lab.settings.time_scale);
        let instance = state.lab.settings.instance().map_err(of_control)?;
        let levels = state.balances.instance.as_ref().and_then(|saved| saved.state.read::<InstanceState>().ok());
        drop(state);
        self.devices.set_instance(instance.as_ref());
        if let (Some(limits), Some(levels)) = (instance, levels) {
            self.devices.restore_instance(&SavedInstance { limits, state: levels });
        }
        Ok(())
    }

    fn restore(&self) -> Outcome<()> {
        let _work = lock(&self.work);
        let records: Vec<VolumeRecord> = self.lab(|lab| lab.volumes.values().cloned().collect());
        for record in records {
            let volume = record.id.to_string();
            match record.status {
                // Until its pending snapshots are stored.
                VolumeStatus::Deleting if self.is_being_stored(&record.id) => {}
                VolumeStatus::Deleting => {
                    volume_files::remove_files(&self.volumes_folder(), &record).map_err(|error| of_io(format!("removing {volume}"), &error))?;
                    self.retire_metrics(&record);
                    self.command(&Command::Deleted { volume })?;
                }
                // When all volumes are known, and the workers start.
                VolumeStatus::Creating if record.is_being_copied() => {}
                VolumeStatus::Creating => {
                    let _ = volume_files::remove_files(&self.volumes_folder(), &record);
                    // It is noted as failed and says why: a key or store that is away must not
                    // keep the lab down.
                    if let Err(problem) = self.finish_creation(&record) {
                        tracing::error!(volume, "{}: {}", problem.value, problem.rule);
                    }
                }
                VolumeStatus::Error => {}
                VolumeStatus::Available | VolumeStatus::InUse => match self.look_after(&record) {
                    Ok(()) => self.reattach(&record)?,
                    Err(problem) => {
                        tracing::error!(volume, "{}: {}", problem.value, problem.rule);
                        if record.attachment.is_some() {
                            self.command(&Command::Detached { volume: volume.clone() })?;
                        }
                        self.command(&Command::VolumeFailed { volume, reason: format!("{}: {}", problem.value, problem.rule) })?;
                    }
                },
            }
        }
        Ok(())
    }

    /// Opens the attached volumes after a restart, and checks that the files of the others exist.
    fn look_after(&self, record: &VolumeRecord) -> Outcome<()> {
        if record.attachment.is_some() {
            return self.device_number(record).map(drop);
        }
        let allocated = volume_files::look(&self.volumes_folder(), record)
            .map_err(|error| could_not(record.label(), error.to_string(), "Put the file back, or delete the volume."))?;
        lock(&self.resting).entry(record.id.clone()).or_default().allocated = Some(allocated);
        Ok(())
    }

    /// Opens a volume's files and puts it into the model.
    pub(crate) fn bring_up(&self, record: &VolumeRecord) -> Outcome<()> {
        // The files of a copy may be made anew while others have them open.
        if record.is_being_copied() {
            let hint = "Wait until it is available: `headrace volume list`.";
            return Err(refused(ErrorKind::IncorrectState, record.label(), "is creating: its bytes are still being copied", hint));
        }
        let limits = self.limits(record)?;
        let (device, _) = self.saved_as_left(record, &limits)?;
        let device_number = self.devices.put(&device).ok_or_else(|| could_not(record.label(), "the model has no room for more volumes", "Detach some."))?;
        let key = match self.data_key_of(record) {
            Ok(Some(cipher)) => DataKey::Open(cipher),
            Ok(None) => DataKey::None,
            // Without its key, the volume's credits, faults and size can still be worked with.
            Err(_) => DataKey::Missing,
        };
        let origin = if matches!(key, DataKey::Missing) { Ok(None) } else { self.origin_of(record) };
        let opened = origin.and_then(|origin| VolumeFiles::open(&self.volumes_folder(), record, device_number, &key, origin));
        let files = opened.map_err(|error| {
            self.devices.remove(device_number);
            could_not(record.label(), error.to_string(), "Put the file back, or delete the volume.")
        })?;
        for (member, percent) in self.balances_set(record) {
            self.devices.change(&ModelChange::Balance { device: device_number, member: Some(member), percent });
        }
        for (index, member) in record.members.iter().enumerate() {
            // The saved device may have the event already.
            if device.members[index].degradations.iter().all(|event| event.until != Nanos::NEVER) {
                self.slow_in_model(device_number, index, &member.state);
            }
        }
        self.cold_in_model(record, device_number, files.restored.as_deref());
        self.adopt_instants(&files.capture);
        lock(&self.volumes).insert(record.id.clone(), files);
        lock(&self.resting).remove(&record.id);
        Ok(())
    }

    /// Creates a volume, ready to be attached.
    pub fn create(&self, mut request: CreateRequest) -> Outcome<VolumeRecord> {
        self.key_for_new_volume(&mut request)?;
        self.look_for_snapshot(request.snapshot.as_deref())?;
        let _work = lock(&self.work);
        let events = self.command(&Command::CreateVolume(request))?;
        let id = events.iter().find_map(|event| event.change.volume().cloned());
        let record = id.and_then(|id| self.lab(|lab| lab.volumes.get(&id).cloned()));
        let record = record.ok_or_else(|| could_not("volume", "was not made", "Try again."))?;
        self.finish_creation(&record)
    }

    fn finish_creation(&self, record: &VolumeRecord) -> Outcome<VolumeRecord> {
        let volume = record.id.to_string();
        let result = volume_files::create_files(&self.volumes_folder(), record).map_err(|error| of_io(format!("making the files of {volume}"), &error));
        let result = result.and_then(|()| self.origin_of(record).map(drop).map_err(|error| of_io(format!("the snapshot of {volume}"), &error)));
        if let Err(problem) = result.and_then(|()| self.make_data_key(record)) {
            let _ = volume_files::remove_files(&self.volumes_folder(), record);
            self.command(&Command::VolumeFailed { volume: volume.clone(), reason: problem.rule.clone() })?;
            return Err(problem);
        }
        self.command(&Command::Created { volume })?;
        self.find(record.id.as_str())
    }

    /// Removes a volume and its data.
    pub fn delete(&self, volume: &str) -> Outcome<()> {
        let _work = lock(&self.work);
        let record = self.find(volume)?;
        self.command(&Command::DeleteVolume { volume: volume.to_string() })?;
        // Snapshots that are pending still need its bytes: the last one ends it.
        if self.is_being_stored(&record.id) {
            return Ok(());
        }
        self.finish_deletion(&record)
    }

    /// Removes the files of a volume that is being deleted. The caller holds `work`.
    pub(crate) fn finish_deletion(&self, record: &VolumeRecord) -> Outcome<()> {
        if let Some(files) = lock(&self.volumes).remove(&record.id) {
            self.devices.remove(files.device_number);
        }
        lock(&self.resting).remove(&record.id);
        volume_files::remove_files(&self.volumes_folder(), record).map_err(|error| of_io(format!("removing {}", record.id), &error))?;
        self.retire_metrics(record);
        self.command(&Command::Deleted { volume: record.id.to_string() })?;
        if record.origin.is_some() {
            self.retry_removals();
        }
        Ok(())
    }

    /// Decides a command, writes its events to the journal, and applies them.
    pub fn command(&self, command: &Command) -> Outcome<Vec<Event>> {
        let mut state = lock(&self.state);
        let now = self.lab_ms_of(&state);
        let decided = match envelope::token() {
            None => state.lab.decide(command, now, &mut random),
            Some(token) => state.lab.decide_once(command, &token, now, &mut random),
        };
        let events = decided.map_err(of_control)?;
        if envelope::is_dry_run() {
            return Err(envelope::dry_run_passed());
        }
        commit(&mut state, events.clone())?;
        envelope::written_down();
        Ok(events)
    }

    /// Returns the record of a client token; None if no call has used it yet.
    pub fn used_token(&self, token: &ClientToken) -> Outcome<Option<UsedToken>> {
        self.lab(|lab| lab.tokens.find(token).map(|used| used.cloned())).map_err(of_control)
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
        let devices: BTreeMap<_, _> = devices.into_iter().filter_map(|(id, now, device)| Some((id, saved(now, Json::of(&levels(device)))?))).collect();
        let newer = Balances { instance: instance.and_then(|(now, state)| saved(now, Json::of(&state))), devices };
        write_waiting(&mut state)?;
        state.journal.append(&Entry::Balances(newer.clone()), false).map_err(of_journal)?;
        state.balances.instance = newer.instance.or(state.balances.instance.take());
        state.balances.devices.extend(newer.devices);
        if state.journal.needs_compaction() {
            let all = Checkpoint { lab: state.lab.clone(), balances: state.balances.clone() };
            state.journal.compact(&all).map_err(of_journal)?;
        }
        Ok(())
    }

    /// Writes down what waits for that.
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
        self.lab(|lab| lab.find(volume).cloned()).map_err(of_control)
    }

    pub(crate) fn model_options(&self) -> Outcome<ModelOptions> {
        let instance = self.lab(|lab| lab.settings.instance()).map_err(of_control)?;
        Ok(ModelOptions::behind(instance.as_ref()))
    }

    pub(crate) fn volumes_folder(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    /// Returns true if the lab is going down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns true if the lab is down: devices gone, everything on disk. The process must not end
    /// before: a flush that waits for its own threads would never end.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Returns the volumes as devices of the model.
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }
}

fn make_folder(folder: &Path) -> Outcome<PathBuf> {
    create_private(folder).map_err(|error| of_io(format!("making {}", folder.display()), &error))?;
    folder.canonicalize().map_err(|error| of_io(format!("finding {}", folder.display()), &error))
}

/// Creates a folder that only its owner may look into.
fn create_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
