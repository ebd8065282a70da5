//! All attached volumes and the host model, behind one lock.
//!
//! One lock for all volumes: an instance's limits are shared, a decision takes some hundred
//! nanoseconds, and the order of the journal is the order of the decisions.

use crate::clock::Clock;
use crate::fault_injector::FaultInjector;
use crate::meter::{Meter, Sample};
use crate::recorder::Recorder;
use headrace_catalog::{InstanceLimits, StorageSpec};
use headrace_model::record::{Frame, HostChange as Change, SavedHost, SavedInstance};
use headrace_model::InstanceState;
use headrace_model::{Balance, Decision, Host, Instance, InstanceBalances, Io, Nanos, SavedDevice};
use headrace_store::Backing;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Most volumes at once in the model, those that are attached or were used a moment ago: as many
/// as a lab has. The record of decisions numbers devices with 16 bits, which leaves ample room.
pub const MOST_VOLUMES: usize = 16_384;

/// The number of a volume's device in the model.
pub type DeviceNumber = usize;

/// In `pace`: the model decides.
const PACED: i64 = -1;

/// Pace of an attached volume's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Answers leave at the model's completion time.
    Model,
    /// Answers leave this many ns after the request's arrival; 0 for at once. Used to measure the
    /// machine's own path.
    Fixed(u64),
}

/// An attached volume: its place in the model, its bytes, its meter, its faults.
pub struct AttachedVolume {
    /// Number of its device in the model.
    pub device_number: DeviceNumber,
    /// Number of the attachment, which no other of this process has. The device number is given to
    /// another volume once it is free.
    pub attachment: u64,
    /// The name of its file: the volume id.
    pub id: String,
    /// Bytes of the volume.
    pub backing: Arc<dyn Backing>,
    /// Counters of its requests.
    pub meter: Meter,
    /// Faults.
    pub faults: FaultInjector,
    path_ns: AtomicU64,
    pace: AtomicI64,
}

impl AttachedVolume {
    /// Makes a volume that follows the model.
    pub fn new(device_number: DeviceNumber, id: &str, backing: Arc<dyn Backing>, now: Nanos) -> AttachedVolume {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        AttachedVolume {
            device_number,
            attachment: NEXT.fetch_add(1, Ordering::Relaxed),
            id: id.to_string(),
            backing,
            meter: Meter::new(now),
            faults: FaultInjector::default(),
            path_ns: AtomicU64::new(0),
            pace: AtomicI64::new(PACED),
        }
    }

    /// Returns the path's own time, which is a part of the model's latency and not added to it.
    pub fn path(&self) -> Nanos {
        Nanos(self.path_ns.load(Ordering::Relaxed))
    }

    /// Sets the path's own time, ns, as it was measured.
    pub fn set_path(&self, nanos: u64) {
        self.path_ns.store(nanos, Ordering::Relaxed);
    }

    /// Returns the pace of its answers.
    pub fn pace(&self) -> Pace {
        match self.pace.load(Ordering::Relaxed) {
            PACED => Pace::Model,
            fixed => Pace::Fixed(fixed as u64),
        }
    }

    /// Changes the pace of its answers.
    pub fn set_pace(&self, pace: Pace) {
        let code = match pace {
            Pace::Model => PACED,
            Pace::Fixed(nanos) => i64::try_from(nanos).unwrap_or(i64::MAX),
        };
        self.pace.store(code, Ordering::Relaxed);
    }
}

struct Decider {
    host: Host,
    instance: Option<InstanceLimits>,
    storages: Vec<Option<StorageSpec>>,
    /// Counters of the members of arrays, by device number.
    meters: Vec<Vec<Meter>>,
    recorder: Option<Recorder>,
}

/// All volumes of a lab: each as a device of the model, the attached ones as block devices too.
pub struct Devices {
    /// Device time.
    pub clock: Clock,
    decider: Mutex<Decider>,
    /// True if the decider has a recorder; set under its lock, read without.
    recording: AtomicBool,
    attached: RwLock<Vec<Option<Arc<AttachedVolume>>>>,
}

impl Devices {
    /// Makes devices in the state that `saved` holds.
    pub fn new(saved: &SavedHost) -> Devices {
        let decider = Decider {
            host: Host::from_saved(saved),
            instance: saved.instance.as_ref().map(|instance| instance.limits.clone()),
            storages: saved.devices.iter().map(|device| device.as_ref().map(|device| device.storage.clone())).collect(),
            meters: Vec::new(),
            recorder: None,
        };
        Devices { clock: Clock::starting_at(saved.now), decider: Mutex::new(decider), recording: AtomicBool::new(false), attached: RwLock::new(Vec::new()) }
    }

    fn decider(&self) -> MutexGuard<'_, Decider> {
        self.decider.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets another instance, its burst buckets full; None for no limits beyond the volumes'.
    pub fn set_instance(&self, limits: Option<&InstanceLimits>) {
        let saved = limits.map(|limits| SavedInstance { limits: limits.clone(), state: Instance::new(limits, true).state() });
        self.change(&Change::Instance { saved: saved.map(Box::new) });
    }

    /// Sets the instance with the burst buckets it had.
    pub fn restore_instance(&self, saved: &SavedInstance) {
        self.change(&Change::Instance { saved: Some(Box::new(saved.clone())) });
    }

    /// Returns a volume's device as it is, to be kept over a restart. The volume is not touched by
    /// it.
    pub fn saved_device(&self, device_number: DeviceNumber) -> Option<(Nanos, SavedDevice)> {
        let decider = self.decider();
        let now = self.clock.now();
        let storage = decider.storages.get(device_number)?.clone()?;
        let mut copy = decider.host.devices.get(device_number)?.clone();
        drop(decider);
        Some((now, copy.save(&storage, now)))
    }

    /// Returns the instance's burst buckets as they are.
    pub fn saved_instance(&self) -> Option<(Nanos, InstanceState)> {
        let decider = self.decider();
        Some((self.clock.now(), decider.host.instance.as_ref()?.state()))
    }

    /// Adds a volume's device to the model under the lowest free device number, and returns that
    /// number; None when all are taken.
    pub fn put(&self, saved: &SavedDevice) -> Option<DeviceNumber> {
        let mut decider = self.decider();
        let device_number = decider.storages.iter().position(Option::is_none).unwrap_or(decider.storages.len());
        if device_number >= MOST_VOLUMES {
            return None;
        }
        if device_number == decider.storages.len() {
            decider.storages.push(None);
        }
        decider.storages[device_number] = Some(saved.storage.clone());
        let now = self.clock.now();
        if decider.meters.len() <= device_number {
            decider.meters.resize_with(device_number + 1, Vec::new);
        }
        let metered = if saved.storage.raid.is_some() { saved.members.len() } else { 0 };
        decider.meters[device_number] = (0..metered).map(|_| Meter::new(now)).collect();
        decider.change(now, &Change::Put { device: device_number, saved: Box::new(saved.clone()) });
        Some(device_number)
    }

    /// Frees a device number.
    pub fn remove(&self, device_number: DeviceNumber) {
        let mut decider = self.decider();
        if let Some(storage) = decider.storages.get_mut(device_number) {
            *storage = None;
        }
    }

    /// Makes a change, and returns the time from which it holds.
    pub fn change(&self, change: &Change) -> Nanos {
        let mut decider = self.decider();
        let now = self.clock.now();
        decider.change(now, change);
        now
    }

    /// Submits a request to the model; returns the time of its arrival and the decision.
    #[inline]
    pub fn decide(&self, device_number: DeviceNumber, io: Io) -> (Nanos, Decision) {
        let mut decider = self.decider();
        // Taken under the lock, so that times never run backwards.
        let now = self.clock.now();
        let decider = &mut *decider;
        let decision = decider.host.submit(device_number, now, io);
        if let Some(meters) = decider.meters.get(device_number).filter(|meters| !meters.is_empty()) {
            decider.host.devices[device_number].last_parts().for_each(|(member, io, decision)| {
                // A change may have given the number to a device with more members.
                if let Some(meter) = meters.get(member) {
                    meter.decided(now, &io, &decision);
                }
            });
        }
        if let Some(recorder) = &decider.recorder {
            recorder.push(Frame::Request { device: device_number as u16, member: None, now, io, decision });
        }
        (now, decision)
    }

    /// Submits a request to one member of an array alone; None without such a member.
    pub fn decide_member(&self, device_number: DeviceNumber, member: usize, io: Io) -> Option<(Nanos, Decision)> {
        let mut decider = self.decider();
        let now = self.clock.now();
        let decider = &mut *decider;
        let decision = decider.host.submit_member(device_number, member, now, io)?;
        if let Some(meter) = decider.meters.get(device_number).and_then(|meters| meters.get(member)) {
            meter.decided(now, &io, &decision);
        }
        if let Some(recorder) = &decider.recorder {
            recorder.push(Frame::Request { device: device_number as u16, member: u8::try_from(member).ok(), now, io, decision });
        }
        Some((now, decision))
    }

    /// Writes to the record, if one is being written, how late an answer left, ns.
    pub fn late(&self, nanos: u64) {
        // This is called for every answer: without a record, the model's lock is not taken for it.
        if !self.recording.load(Ordering::Relaxed) {
            return;
        }
        if let Some(recorder) = &self.decider().recorder {
            recorder.push(Frame::Late(u32::try_from(nanos).unwrap_or(u32::MAX)));
        }
    }

    /// Begins a record of every request from now on. An error when there is one already or the file
    /// cannot be made.
    pub fn record(&self, path: &Path) -> io::Result<()> {
        self.decider().check_no_record()?;
        // Not under the lock: a file on one of the volumes would wait for it.
        let file = Recorder::file(path)?;
        let mut decider = self.decider();
        let started = decider.check_no_record().and_then(|()| Recorder::start(file, path, &decider.save(self.clock.now())));
        match started {
            Ok(recorder) => {
                decider.recorder = Some(recorder);
                self.recording.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                drop(decider);
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the record; returns its file and the number of its requests. None if none is being
    /// written.
    pub fn stop_recording(&self) -> Option<(PathBuf, io::Result<u64>)> {
        self.recording.store(false, Ordering::Relaxed);
        let recorder = self.decider().recorder.take()?;
        Some((recorder.path().to_path_buf(), recorder.finish()))
    }

    /// Returns the file of the record being written and why it broke, if it did.
    pub fn recording(&self) -> Option<(PathBuf, Option<String>)> {
        self.decider().recorder.as_ref().map(|recorder| (recorder.path().to_path_buf(), recorder.broken()))
    }

    /// Returns everything, to be kept over a restart. The volumes are not touched by it.
    pub fn saved(&self) -> SavedHost {
        let decider = self.decider();
        let now = self.clock.now();
        let mut copy =
            Decider { host: decider.host.clone(), instance: decider.instance.clone(), storages: decider.storages.clone(), meters: Vec::new(), recorder: None };
        drop(decider);
        copy.save(now)
    }

    /// Returns the credit balances of a volume's members; None for those without credits.
    pub fn balances(&self, device_number: DeviceNumber) -> Vec<Option<Balance>> {
        let decider = self.decider();
        let now = self.clock.now();
        decider.host.devices.get(device_number).map_or_else(Vec::new, |device| device.members().iter().map(|member| member.balance(now)).collect())
    }

    /// Returns the burst balances of the instance.
    pub fn instance_balances(&self) -> Option<InstanceBalances> {
        self.decider().host.instance.as_ref().map(|instance| instance.balances(self.clock.now()))
    }

    /// Returns true while a modification of a member is in progress.
    pub fn is_modifying(&self, device_number: DeviceNumber) -> bool {
        let mut decider = self.decider();
        let now = self.clock.now();
        let Some(device) = decider.host.devices.get_mut(device_number) else { return false };
        device.advance(now);
        device.members().iter().any(|member| member.modification_state(now).is_some())
    }

    /// Takes the counts of each member of an array since the last call; empty for a single volume.
    pub fn member_samples(&self, device_number: DeviceNumber) -> Vec<Sample> {
        let decider = self.decider();
        let now = self.clock.now();
        decider.meters.get(device_number).map_or_else(Vec::new, |meters| meters.iter().map(|meter| meter.take(now)).collect())
    }

    /// Makes an attached volume reachable.
    pub fn open(&self, volume: Arc<AttachedVolume>) {
        let mut attached = self.attached.write().unwrap_or_else(PoisonError::into_inner);
        if attached.len() <= volume.device_number {
            attached.resize_with(volume.device_number + 1, || None);
        }
        let device_number = volume.device_number;
        attached[device_number] = Some(volume);
    }

    /// Takes a volume away; requests that are under way are still answered.
    pub fn close(&self, device_number: DeviceNumber) -> Option<Arc<AttachedVolume>> {
        self.attached.write().unwrap_or_else(PoisonError::into_inner).get_mut(device_number)?.take()
    }

    /// Returns the attached volume with that device number.
    pub fn volume(&self, device_number: DeviceNumber) -> Option<Arc<AttachedVolume>> {
        self.attached.read().unwrap_or_else(PoisonError::into_inner).get(device_number)?.clone()
    }

    /// Returns the attached volume of that id.
    pub fn by_id(&self, id: &str) -> Option<Arc<AttachedVolume>> {
        self.attached.read().unwrap_or_else(PoisonError::into_inner).iter().flatten().find(|volume| volume.id == id).cloned()
    }

    /// Returns all attached volumes.
    pub fn attached(&self) -> Vec<Arc<AttachedVolume>> {
        self.attached.read().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect()
    }
}

impl Decider {
    fn check_no_record(&self) -> io::Result<()> {
        self.recorder
            .as_ref()
            .map_or(Ok(()), |running| Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("a record is being written to {}", running.path().display()))))
    }

    /// Changes the model, and writes the change to the record.
    fn change(&mut self, now: Nanos, change: &Change) {
        self.host.change(now, change);
        if let Change::Instance { saved } = change {
            self.instance = saved.as_ref().map(|saved| saved.limits.clone());
        }
        if let Some(recorder) = &self.recorder {
            recorder.push(Frame::Change { now, change: change.clone() });
        }
    }

    /// Returns the host as it is at `now`, to which its volumes advance.
    fn save(&mut self, now: Nanos) -> SavedHost {
        let instance = match (&self.host.instance, &self.instance) {
            (Some(instance), Some(limits)) => Some(SavedInstance { limits: limits.clone(), state: instance.state() }),
            _ => None,
        };
        let devices = self.host.devices.iter_mut().zip(&self.storages).map(|(device, storage)| storage.as_ref().map(|storage| device.save(storage, now)));
        SavedHost { now, instance, devices: devices.collect() }
    }
}
