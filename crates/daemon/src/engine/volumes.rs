//! The volumes of a lab: their files, devices and mount; creation, deletion, and the start.

use crate::cloudwatch::points::Metrics;
use crate::engine::encryption::Keys;
use crate::engine::ledger::Ledger;
use crate::engine::parts::{lock, KnownLimits, Noting, Resting};
use crate::engine::snapshots::Snapshots;
use crate::engine::volume_files::{self, DataKey, VolumeFiles};
use crate::problem::{could_not, from_io, refused, Outcome};
use headrace_control::{Command, CreateRequest, ErrorKind, VolumeId, VolumeRecord, VolumeStatus};
use headrace_device::mount::Mount;
use headrace_device::probe::PathCost;
use headrace_device::Devices;
use headrace_model::record::HostChange as ModelChange;
use headrace_model::Nanos;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The volumes of a lab, with the services that they stand on.
pub struct Volumes {
    /// Folder of the lab.
    pub folder: PathBuf,
    /// The volumes as devices of the model.
    pub devices: Arc<Devices>,
    /// True if links are made under the machine's own /dev too.
    pub(crate) machine_links: bool,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) mount: Mutex<Option<Mount>>,
    /// Files of the open volumes.
    pub(crate) files: Mutex<HashMap<VolumeId, VolumeFiles>>,
    /// The lock under which a volume is opened or put to rest: one at a time.
    pub(crate) opening: Mutex<()>,
    pub(crate) resting: Mutex<HashMap<VolumeId, Resting>>,
    pub(crate) known_limits: Mutex<KnownLimits>,
    /// The lock under which devices and files are made or taken: one at a time, whatever the volume
    /// (see the order of the locks in [`crate::engine`]).
    pub(crate) work: Mutex<()>,
    pub(crate) path: Mutex<Option<(Instant, PathCost)>>,
    pub(crate) rows_lost: AtomicU64,
    pub(crate) noting: Mutex<Noting>,
    /// The lock under which a volume of fast snapshot restore is loaded: one at a time, as fast as
    /// the store gives.
    pub(crate) fast_loading: Mutex<()>,
}

/// Services that the volumes stand on.
pub(crate) struct Below {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Volumes {
    /// Makes the volumes of a lab, none of them open.
    pub(crate) fn new(folder: PathBuf, machine_links: bool, below: Below, devices: Arc<Devices>, mount: Mount) -> Volumes {
        let Below { ledger, keys, snapshots, metrics } = below;
        Volumes {
            folder,
            devices,
            machine_links,
            ledger,
            keys,
            snapshots,
            metrics,
            mount: Mutex::new(Some(mount)),
            files: Mutex::default(),
            opening: Mutex::default(),
            resting: Mutex::default(),
            known_limits: Mutex::default(),
            work: Mutex::default(),
            path: Mutex::default(),
            rows_lost: AtomicU64::new(0),
            noting: Mutex::default(),
            fast_loading: Mutex::default(),
        }
    }

    /// Brings the volumes back after a restart: attached ones are opened, and work under way ends.
    pub(crate) fn restore(&self) -> Outcome<()> {
        let _work = lock(&self.work);
        let records: Vec<VolumeRecord> = self.ledger.lab(|lab| lab.volumes.values().cloned().collect());
        for record in records {
            let volume = record.id.to_string();
            match record.status {
                // Until its pending snapshots are stored.
                VolumeStatus::Deleting if self.snapshots.is_being_stored(&record.id) => {}
                VolumeStatus::Deleting => {
                    volume_files::remove_files(&self.volumes_folder(), &record).map_err(|error| from_io(format!("removing {volume}"), &error))?;
                    self.metrics.retire(&record);
                    self.ledger.command(&Command::Deleted { volume })?;
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
                // Files that were away at an earlier start may be back.
                VolumeStatus::Error if record.was_ready => {
                    if self.check_files(&record).is_ok() {
                        self.ledger.command(&Command::Created { volume })?;
                    }
                }
                VolumeStatus::Error => {}
                VolumeStatus::Available | VolumeStatus::InUse => match self.check_files(&record) {
                    Ok(()) => self.reattach(&record)?,
                    Err(problem) => {
                        tracing::error!(volume, "{}: {}", problem.value, problem.rule);
                        if record.attachment.is_some() {
                            self.ledger.command(&Command::Detached { volume: volume.clone() })?;
                        }
                        self.ledger.command(&Command::VolumeFailed { volume, reason: format!("{}: {}", problem.value, problem.rule) })?;
                    }
                },
            }
        }
        Ok(())
    }

    /// Opens a volume that is attached after a restart, or checks that the files of any other one
    /// exist.
    fn check_files(&self, record: &VolumeRecord) -> Outcome<()> {
        if record.attachment.is_some() {
            return self.device_number(record).map(drop);
        }
        let allocated = volume_files::measure_allocated(&self.volumes_folder(), record)
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
        let key = match self.keys.data_key_of(record) {
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
        self.snapshots.adopt_instants(&files.capture);
        lock(&self.files).insert(record.id.clone(), files);
        lock(&self.resting).remove(&record.id);
        Ok(())
    }

    /// Creates a volume, ready to be attached.
    pub fn create(&self, mut request: CreateRequest) -> Outcome<VolumeRecord> {
        self.keys.key_for_new_volume(&mut request)?;
        self.snapshots.check_snapshot_readable(request.snapshot.as_deref())?;
        let _work = lock(&self.work);
        let events = self.ledger.command(&Command::CreateVolume(request))?;
        let id = events.iter().find_map(|event| event.change.volume().cloned());
        let record = id.and_then(|id| self.ledger.lab(|lab| lab.volumes.get(&id).cloned()));
        let record = record.ok_or_else(|| could_not("volume", "was not made", "Try again."))?;
        self.finish_creation(&record)
    }

    /// Makes files and data key of a new volume, and reports that it is available, or why it
    /// failed, after which its files are removed.
    fn finish_creation(&self, record: &VolumeRecord) -> Outcome<VolumeRecord> {
        let volume = record.id.to_string();
        let result = volume_files::create_files(&self.volumes_folder(), record).map_err(|error| from_io(format!("making the files of {volume}"), &error));
        let result = result.and_then(|()| self.origin_of(record).map(drop).map_err(|error| from_io(format!("the snapshot of {volume}"), &error)));
        if let Err(problem) = result.and_then(|()| self.keys.make_data_key(record)) {
            let _ = volume_files::remove_files(&self.volumes_folder(), record);
            self.ledger.command(&Command::VolumeFailed { volume: volume.clone(), reason: problem.rule.clone() })?;
            return Err(problem);
        }
        self.ledger.command(&Command::Created { volume })?;
        self.ledger.find(record.id.as_str())
    }

    /// Removes a volume and its data.
    pub fn delete(&self, volume: &str) -> Outcome<()> {
        let _work = lock(&self.work);
        let record = self.ledger.find(volume)?;
        self.ledger.command(&Command::DeleteVolume { volume: volume.to_string() })?;
        // Snapshots that are pending still need its bytes: the last one ends it.
        if self.snapshots.is_being_stored(&record.id) {
            return Ok(());
        }
        self.finish_deletion(&record)
    }

    /// Removes the files of a volume that is being deleted. The caller holds `work`.
    pub(crate) fn finish_deletion(&self, record: &VolumeRecord) -> Outcome<()> {
        if let Some(files) = lock(&self.files).remove(&record.id) {
            self.devices.remove(files.device_number);
        }
        lock(&self.resting).remove(&record.id);
        volume_files::remove_files(&self.volumes_folder(), record).map_err(|error| from_io(format!("removing {}", record.id), &error))?;
        self.metrics.retire(record);
        self.ledger.command(&Command::Deleted { volume: record.id.to_string() })?;
        if record.origin.is_some() {
            self.snapshots.retry_removals();
        }
        Ok(())
    }

    /// Returns the folder of the volumes' files.
    pub(crate) fn volumes_folder(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    /// Writes the notes about changed blocks to disk, so that the next snapshot stores only the
    /// blocks that changed.
    pub(crate) fn close_capture(&self, volume: &VolumeId) {
        let capture = lock(&self.files).get(volume).map(|files| files.capture.clone());
        if let Some(Err(error)) = capture.map(|capture| capture.close()) {
            tracing::warn!(volume = volume.as_str(), "noting what changed since its last snapshot: {error}");
        }
    }

    /// Closes the captures and the arrays of all open volumes. An array that somebody still has is
    /// resynced when it is opened again.
    pub(crate) fn close_all(&self) {
        let open: Vec<VolumeId> = lock(&self.files).keys().cloned().collect();
        open.iter().for_each(|volume| self.close_capture(volume));
        for (volume, files) in lock(&self.files).iter().filter(|(_, files)| files.has_no_writer()) {
            if let Err(error) = files.close_array() {
                tracing::warn!(volume = volume.as_str(), "closing the array: {error}");
            }
        }
    }
}
