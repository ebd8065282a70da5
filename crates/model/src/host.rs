//! An instance with its devices: the whole path of a request.
//!
//! ```text
//!  request -> instance limits -> array layout -> member volumes -> answered when the last part is
//! ```
//!
//! One host may have several devices (data, redo log, binary log), which share the instance's limits.

use crate::array::{Layout, Part};
use crate::instance::Instance;
use crate::io::{Decision, Io, Verdict};
use crate::time::Nanos;
use crate::volume::{Arrival, ModelOptions, SavedVolume, Volume, FAILURE_TAKES};
use headrace_catalog::{StorageSpec, VolumeLimits, VolumeType};
use serde::{Deserialize, Serialize};

/// A device as the host sees it: one volume, or an array of them.
#[derive(Clone, Debug)]
pub struct Device {
    members: Vec<Volume>,
    layout: Option<Layout>,
    parts: Vec<Part>,
    answers: Vec<Decision>,
}

/// A device at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDevice {
    /// Volume or array.
    pub storage: StorageSpec,
    /// Its members, in order.
    pub members: Vec<SavedVolume>,
}

/// An instance and what is attached to it.
#[derive(Clone, Debug)]
pub struct Host {
    /// Limits shared by all devices; none where they do not matter.
    pub instance: Option<Instance>,
    /// Devices in the order they were given.
    pub devices: Vec<Device>,
}

impl Device {
    /// A device of `spec` whose members have these limits. Each member draws from a seed of its own, derived from `seed`.
    pub fn new(spec: &StorageSpec, limits: &[VolumeLimits], options: &ModelOptions, seed: u64) -> Device {
        let member_seed = |index: usize| seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let members: Vec<Volume> = limits.iter().enumerate().map(|(index, limits)| Volume::new(limits.clone(), options.clone(), member_seed(index))).collect();
        Device { members, layout: layout_of(spec), parts: Vec::new(), answers: Vec::new() }
    }

    /// Everything, to go on from `now` elsewhere or later; `storage` is what it was made of.
    pub fn save(&mut self, storage: &StorageSpec, now: Nanos) -> SavedDevice {
        SavedDevice { storage: storage.clone(), members: self.members.iter_mut().map(|member| member.save(now)).collect() }
    }

    /// The device that [`Device::save`] saved at `now`.
    pub fn from_saved(saved: &SavedDevice, now: Nanos) -> Device {
        let members = saved.members.iter().map(|member| Volume::from_saved(member, now)).collect();
        Device { members, layout: layout_of(&saved.storage), parts: Vec::new(), answers: Vec::new() }
    }

    /// Its volumes.
    pub fn members(&self) -> &[Volume] {
        &self.members
    }

    /// Its volumes, to set balances, degrade, modify or lose them.
    pub fn members_mut(&mut self) -> &mut [Volume] {
        &mut self.members
    }

    /// Whether data are gone: a single volume is lost, or an array has too few members left.
    pub fn is_lost(&self) -> bool {
        let failed = |member: usize| self.members[member].is_failed();
        self.layout.as_ref().map_or_else(|| failed(0), |layout| layout.is_lost(failed))
    }

    /// Answers one request. Times must not run backwards.
    #[inline]
    pub fn submit(&mut self, instance: Option<&mut Instance>, now: Nanos, io: Io) -> Decision {
        match self.layout {
            None => through(instance, &mut self.members[0], now, now, io),
            Some(_) => self.submit_parts(instance, now, io),
        }
    }

    /// What the last request to an array became: member, request and answer of each part. Empty for a single volume.
    pub fn last_parts(&self) -> impl Iterator<Item = (usize, Io, Decision)> + '_ {
        self.parts.iter().zip(&self.answers).map(|(part, answer)| (part.member, part.io, *answer))
    }

    fn submit_parts(&mut self, mut instance: Option<&mut Instance>, now: Nanos, io: Io) -> Decision {
        let mut parts = std::mem::take(&mut self.parts);
        self.answers.clear();
        let layout = self.layout.as_ref().expect("only arrays have parts");
        let whole = layout.split(&io, |member| self.members[member].is_failed(), &mut parts);
        let mut answer = Decision { start: now, complete: now, cap: Default::default(), verdict: Verdict::Ok };
        let mut ready = now;
        for part in &mut parts {
            if let Some((other, offset)) = part.mirror {
                if self.members[other].queue_end() < self.members[part.member].queue_end() {
                    (part.member, part.io.offset) = (other, offset);
                }
            }
            let from = if part.phase == 0 { now } else { ready };
            let decision = through(instance.as_deref_mut(), &mut self.members[part.member], now, from, part.io);
            if part.phase == 0 {
                ready = ready.max(decision.complete);
            }
            self.answers.push(decision);
            answer = answer.join(decision);
        }
        self.parts = parts;
        if !whole {
            answer.verdict = Verdict::Failed;
            answer.complete = answer.complete.max(now + FAILURE_TAKES);
        }
        answer
    }

    /// Brings planned changes up to `now`.
    pub fn advance(&mut self, now: Nanos) {
        self.members.iter_mut().for_each(|member| member.advance(now));
    }

    /// The next moment at which something changes by itself.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.members.iter().filter_map(Volume::next_wakeup).min()
    }
}

/// How an array lays out its data; none for a single volume.
pub fn layout_of(spec: &StorageSpec) -> Option<Layout> {
    let sizes: Vec<u64> = spec.members.iter().map(|member| member.size_gib << 30).collect();
    spec.raid.map(|level| Layout::of_sizes(level, &sizes, spec.chunk_kib * 1_024))
}

/// The instance's limits, then the volume's.
#[inline]
fn through(instance: Option<&mut Instance>, volume: &mut Volume, now: Nanos, ready: Nanos, io: Io) -> Decision {
    // Local disks are not behind the instance's EBS limits.
    let instance = instance.filter(|_| volume.limits().spec.volume_type != VolumeType::InstanceStore);
    let Some(instance) = instance else { return volume.submit_at(Arrival { at_host: now, at_volume: now, ready }, io) };
    let (left, cap) = instance.admit(now, &io);
    let mut decision = volume.submit_at(Arrival { at_host: now, at_volume: left, ready }, io);
    if left.since(now) > decision.start.since(left) {
        decision.cap = cap;
    }
    decision
}

impl Host {
    /// Answers one request to a device.
    #[inline]
    pub fn submit(&mut self, device: usize, now: Nanos, io: Io) -> Decision {
        self.devices[device].submit(self.instance.as_mut(), now, io)
    }

    /// Answers one request to a member alone, as a rebuild makes them; none when there is no such member.
    pub fn submit_member(&mut self, device: usize, member: usize, now: Nanos, io: Io) -> Option<Decision> {
        let volume = self.devices.get_mut(device)?.members.get_mut(member)?;
        Some(through(self.instance.as_mut(), volume, now, now, io))
    }

    /// Brings planned changes up to `now`.
    pub fn advance(&mut self, now: Nanos) {
        self.devices.iter_mut().for_each(|device| device.advance(now));
    }

    /// The next moment at which something changes by itself.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(Device::next_wakeup).min()
    }

    /// The lowest credit balance of a device's members in percent; none where no member has credits.
    pub fn lowest_balance_percent(&self, device: usize, now: Nanos) -> Option<f64> {
        let percents = self.devices[device].members.iter().filter_map(|member| member.balance(now));
        percents.map(|balance| balance.percent()).min_by(f64::total_cmp)
    }
}
