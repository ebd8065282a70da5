//! Volumes that nobody uses rest: their files are closed, they have no number in the model, and
//! they cost a record. A call that needs the files opens them again; a call that only reads facts
//! does not.
//!
//! Credits of a resting volume flow on: they were noted when it went to rest, and a balance at any
//! later time follows from that.

use crate::engine::parts::lock;
use crate::engine::parts::Resting;
use crate::engine::volume_files::{self, VolumeFiles};
use crate::engine::volumes::Volumes;
use crate::problem::{could_not, Outcome};
use headrace_catalog::VolumeLimits;
use headrace_control::{MemberState, VolumeId, VolumeRecord};
use headrace_device::AttachedVolume;
use headrace_model::{Balance, Device, Nanos, SavedDevice};
use headrace_store::{Backing, PowerCut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without use after which a volume rests. A call uses the number of a device at once; ten
/// seconds are a guess far beyond that.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// An encrypted one sooner: its key is in memory as long as it is open.
const ENCRYPTED_IDLE_FOR: Duration = Duration::from_secs(1);
/// Limits that are remembered. A lab has far fewer different volumes; past it they are forgotten
/// and worked out again.
const MOST_LIMITS: usize = 4_096;

/// An open volume: number in the model, bytes, device.
type Opened = (usize, Arc<PowerCut>, Option<Arc<AttachedVolume>>);

impl Volumes {
    /// Returns the number of a volume's device in the model, and notes the use. A volume that rests
    /// has none: its files are closed, and are opened first.
    pub(crate) fn device_number(&self, record: &VolumeRecord) -> Outcome<usize> {
        let find_open = || {
            let mut volumes = lock(&self.files);
            let files = volumes.get_mut(&record.id)?;
            files.used = Instant::now();
            Some(files.device_number)
        };
        if let Some(device_number) = find_open() {
            return Ok(device_number);
        }
        let _opening = lock(&self.opening);
        if let Some(device_number) = find_open() {
            return Ok(device_number);
        }
        self.bring_up(record)?;
        find_open().ok_or_else(|| could_not(record.label(), "its files are not open", "See `headrace volume list`."))
    }

    /// Calls a function with an open volume; opens one that rests.
    pub(crate) fn files_of<R>(&self, record: &VolumeRecord, look: impl FnOnce(&mut VolumeFiles) -> R) -> Outcome<R> {
        self.device_number(record)?;
        let mut volumes = lock(&self.files);
        volumes.get_mut(&record.id).map(look).ok_or_else(|| could_not(record.label(), "its files are not open", "See the daemon's log."))
    }

    /// Returns a volume that is open already.
    pub(crate) fn opened(&self, id: &VolumeId) -> Option<Opened> {
        lock(&self.files).get(id).map(|files| (files.device_number, files.power.clone(), files.attached.clone()))
    }

    /// Puts volumes to rest that are not attached and were not used for a while.
    pub(crate) fn rest_idle(&self) -> Outcome<()> {
        let idle = |files: &VolumeFiles| files.attached.is_none() && files.used.elapsed() >= if files.encrypted { ENCRYPTED_IDLE_FOR } else { IDLE_FOR };
        let ids: Vec<VolumeId> = lock(&self.files).iter().filter(|(_, files)| idle(files)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            let _work = lock(&self.work);
            self.rest(&id, idle)?;
        }
        Ok(())
    }

    /// Puts a volume to rest, if it is `idle` and nobody has its bytes. Called with `work` held.
    pub(crate) fn rest(&self, id: &VolumeId, idle: impl Fn(&VolumeFiles) -> bool) -> Outcome<()> {
        let _opening = lock(&self.opening);
        let record = self.ledger.lab(|lab| lab.volumes.get(id).cloned());
        // A rebuild works on the files of a volume that nobody attached, too.
        let rebuilds = record.is_some_and(|record| record.members.iter().any(|member| matches!(member.state, MemberState::Rebuilding { .. })));
        let Some((device_number, power)) =
            lock(&self.files).get(id).filter(|files| idle(files) && files.is_quiet() && !rebuilds).map(|files| (files.device_number, files.power.clone()))
        else {
            return Ok(());
        };
        if let Some((now, device)) = self.devices.saved_device(device_number) {
            self.ledger.note_balances(vec![(id.clone(), now, device)], None)?;
        }
        let allocated = power.allocated().ok();
        drop(power);
        self.close_capture(id);
        let mut volumes = lock(&self.files);
        // A request that is still under way has its bytes: next time.
        if volumes.get(id).is_some_and(VolumeFiles::is_quiet) {
            let files = volumes.remove(id);
            drop(volumes);
            if let Some(Err(error)) = files.as_ref().map(VolumeFiles::close_array) {
                tracing::warn!(volume = id.as_str(), "closing the array: {error}");
            }
            let cold = files.and_then(|files| files.restored).map(|restored| (restored.manifest().blocks(), restored.cold_blocks()));
            self.devices.remove(device_number);
            lock(&self.resting).insert(id.clone(), Resting { allocated, cold, device: None });
        }
        Ok(())
    }

    /// Returns the limits of each member of a volume, and remembers them.
    pub(crate) fn limits(&self, record: &VolumeRecord) -> Outcome<Arc<Vec<VolumeLimits>>> {
        let key = (record.spec.clone(), record.as_of, self.ledger.lab(|lab| lab.settings.instance_type.clone()));
        if let Some(cached) = lock(&self.known_limits).get(&key) {
            return Ok(cached.clone());
        }
        let limits = Arc::new(self.ledger.lab(|lab| record.limits(&lab.settings))?);
        let mut cache = lock(&self.known_limits);
        if cache.len() >= MOST_LIMITS {
            cache.clear();
        }
        cache.insert(key, limits.clone());
        Ok(limits)
    }

    /// Returns the credit balances of a volume's members as they are now; None for members without
    /// credits. Opens nothing.
    pub(crate) fn balances_of(&self, record: &VolumeRecord) -> Vec<Option<Balance>> {
        if let Some((device_number, ..)) = self.opened(&record.id) {
            return self.devices.balances(device_number);
        }
        let Ok(limits) = self.limits(record) else { return Vec::new() };
        if limits.iter().all(|limits| limits.io_burst.is_none() && limits.byte_burst.is_none()) {
            return vec![None; limits.len()];
        }
        let now = self.devices.clock.now();
        let mut resting = lock(&self.resting);
        let entry = resting.entry(record.id.clone()).or_default();
        if entry.device.is_none() {
            entry.device = self.resting_device(record, &limits).ok();
        }
        let Some(device) = &mut entry.device else { return Vec::new() };
        device.advance(now);
        device.members().iter().map(|member| member.balance(now)).collect()
    }

    /// Returns the device of a volume that is not open, as it was at its last use, with balances
    /// that were set since.
    fn resting_device(&self, record: &VolumeRecord, limits: &[VolumeLimits]) -> Outcome<Device> {
        let (saved, at) = self.saved_as_left(record, limits)?;
        let mut device = Device::from_saved(&saved, at);
        for (member, percent) in self.balances_set(record) {
            if let Some(volume) = device.members_mut().get_mut(member) {
                volume.set_balance_percent(at, percent);
            }
        }
        Ok(device)
    }

    /// Returns the device of a volume and the time of its last use; a new device if it was never
    /// used.
    pub(crate) fn saved_as_left(&self, record: &VolumeRecord, limits: &[VolumeLimits]) -> Outcome<(SavedDevice, Nanos)> {
        let saved = self.ledger.state(|state| state.balances.devices.get(&record.id).cloned());
        let device = saved.and_then(|saved| Some((saved.state.read::<SavedDevice>().ok()?, Nanos(saved.device_ns))));
        let at = device.as_ref().map_or(Nanos::ZERO, |(_, at)| *at);
        Ok((volume_files::device_of(record, limits, &self.ledger.model_options()?, device), at))
    }

    /// Returns the balances that were set after the last one was noted: member and percent.
    pub(crate) fn balances_set(&self, record: &VolumeRecord) -> Vec<(usize, f64)> {
        let noted_ms = self.ledger.state(|state| state.balances.devices.get(&record.id).map(|saved| saved.at_ms));
        let sets = record.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.balance?)));
        let later = sets.filter(|(_, set)| noted_ms.is_none_or(|noted_ms| set.at_ms >= noted_ms));
        later.map(|(index, set)| (index, f64::from(set.per_million) / 10_000.0)).collect()
    }

    /// Returns the bytes that a volume's files take on the disk; None where they are not known.
    /// Opens no file.
    pub(crate) fn allocated_of(&self, record: &VolumeRecord) -> Option<u64> {
        if let Some((_, power, _)) = self.opened(&record.id) {
            return power.allocated().ok();
        }
        let mut resting = lock(&self.resting);
        let entry = resting.entry(record.id.clone()).or_default();
        entry.allocated = entry.allocated.or_else(|| volume_files::measure_allocated(&self.volumes_folder(), record).ok());
        entry.allocated
    }
}
