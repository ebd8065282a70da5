//! An instance with its devices: the whole path of a request.
//!
//! ```text
//!  request -> instance limits -> array layout -> member volumes -> answered when the last part is
//! ```
//!
//! One host may have several devices (data, redo log, binary log), which share the instance's
//! limits. The instance comes first: a request leaves the host in order of arrival, then meets its
//! volume's own limiter.
//!
//! Every instance type has EBS limits in IOPS (of 16 KiB) and bytes a second. Small sizes have a
//! baseline and a maximum: AWS promises the maximum for at least 30 minutes once every 24 hours.
//! AWS does not publish the rules of its burst bucket. Assumed is one that holds 30 minutes of
//! (maximum - baseline), refills with the part of the baseline that is not used, and is full again
//! after 24 hours in any case. I/Os and bytes have balances of their own (CloudWatch:
//! EBSIOBalance%, EBSByteBalance%).

use crate::accounting::Accounting;
use crate::array::{Layout, Part};
use crate::bucket::{Bucket, BucketState};
use crate::first_touch::CHUNK_BYTES;
use crate::io::{Cap, Decision, Io, Nanos, Op, Verdict};
use crate::rates::{Degradation, VolumeModification};
use crate::volume::{Arrival, Balance, ModelOptions, SavedVolume, Volume, FAILURE_TAKES};
use headrace_catalog::{InstanceLimits, StorageSpec, VolumeLimits, VolumeType};
use serde::{Deserialize, Serialize};

/// The burst bucket is full again this often.
pub const TOP_UP_EVERY: Nanos = Nanos::from_secs(24 * 3_600);

/// One limit with its burst bucket.
#[derive(Clone, Debug)]
struct Limit {
    cap: Bucket,
    credits: Option<Bucket>,
}

/// The EBS limits of an instance, which all its attached volumes share.
#[derive(Clone, Debug)]
pub struct Instance {
    iops: Option<Limit>,
    bytes: Option<Limit>,
    accounting: Accounting,
    last_start: Nanos,
    next_top_up: Nanos,
}

/// Balances of the two burst buckets; none where the type has no burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceBalances {
    /// I/Os, as EBSIOBalance%.
    pub ios: Option<Balance>,
    /// Bytes, as EBSByteBalance%.
    pub bytes: Option<Balance>,
}

/// State that changes in an instance, for saving.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceState {
    iops: Option<(BucketState, Option<BucketState>)>,
    bytes: Option<(BucketState, Option<BucketState>)>,
    last_start: Nanos,
    next_top_up: Nanos,
}

impl Limit {
    /// Makes a limit with full credits where it bursts; None if it has neither a baseline nor a
    /// maximum. Rates are a second's.
    fn new(baseline: Option<u64>, max: Option<u64>, burst_seconds: u64, saved_second: bool) -> Option<Limit> {
        let max = max.or(baseline)?;
        let baseline = baseline.unwrap_or(max);
        let credits = (baseline < max && burst_seconds > 0).then(|| {
            let capacity = (max - baseline) * burst_seconds;
            Bucket::credits(baseline, capacity, capacity)
        });
        // A type whose limits differ but that has no burst stays at its baseline.
        let rate = if credits.is_some() { max } else { baseline };
        Some(Limit { cap: Bucket::cap(rate, saved_second), credits })
    }

    /// Returns the later of `best` and of the first instant from `from` on at which cap and credits
    /// have `tokens`, each with the cap that decides it.
    #[inline]
    fn earliest(&self, from: Nanos, tokens: u64, cap: Cap, best: (Nanos, Cap)) -> (Nanos, Cap) {
        let mut best = best;
        let at = self.cap.earliest(from, tokens);
        if at > best.0 {
            best = (at, cap);
        }
        if let Some(credits) = &self.credits {
            let at = credits.earliest(from, tokens);
            if at > best.0 {
                best = (at, Cap::InstanceCredits);
            }
        }
        best
    }

    /// Takes tokens from cap and credits.
    #[inline]
    fn take(&mut self, at: Nanos, tokens: u64) {
        self.cap.take(at, tokens);
        if let Some(credits) = &mut self.credits {
            credits.take(at, tokens);
        }
    }

    /// Fills the credits.
    fn top_up(&mut self, now: Nanos) {
        if let Some(credits) = &mut self.credits {
            credits.set_level(now, credits.capacity());
        }
    }

    /// Returns the balance of the credits; None where the limit does not burst.
    fn balance(&self, now: Nanos) -> Option<Balance> {
        self.credits.as_ref().map(|credits| Balance { credits: credits.available(now), capacity: credits.capacity() })
    }

    /// Sets the credits to a share of their capacity, percent.
    fn set_balance_percent(&mut self, now: Nanos, percent: f64) {
        if let Some(credits) = &mut self.credits {
            let tokens = credits.capacity() as f64 * (percent / 100.0).clamp(0.0, 1.0);
            credits.set_level(now, tokens as u64);
        }
    }

    /// Returns the levels of cap and credits.
    fn state(&self) -> (BucketState, Option<BucketState>) {
        (self.cap.state(), self.credits.as_ref().map(Bucket::state))
    }

    /// Puts back what [`Limit::state`] gave.
    fn restore(&mut self, state: &(BucketState, Option<BucketState>)) {
        self.cap.restore(&state.0);
        if let (Some(credits), Some(state)) = (&mut self.credits, &state.1) {
            credits.restore(state);
        }
    }
}

impl Instance {
    /// Makes an instance with full burst buckets.
    pub fn new(limits: &InstanceLimits, saved_second: bool) -> Instance {
        let limit = |baseline, max| Limit::new(baseline, max, limits.burst_seconds, saved_second);
        Instance {
            iops: limit(limits.baseline_iops, limits.max_iops),
            bytes: limit(limits.baseline_bytes_s, limits.max_bytes_s),
            accounting: Accounting::instance(),
            last_start: Nanos::ZERO,
            next_top_up: TOP_UP_EVERY,
        }
    }

    /// Returns the time at which a request that reaches the host at `now` leaves it for its volume,
    /// and the cap that held it.
    #[inline]
    pub fn admit(&mut self, now: Nanos, io: &Io) -> (Nanos, Cap) {
        let charge = self.accounting.charge(io, false);
        let from = now.max(self.last_start);
        while self.next_top_up <= from {
            let at = self.next_top_up;
            self.iops.iter_mut().chain(self.bytes.iter_mut()).for_each(|limit| limit.top_up(at));
            self.next_top_up += TOP_UP_EVERY;
        }
        let mut best = (from, Cap::None);
        if let Some(limit) = &self.iops {
            best = limit.earliest(from, charge.ios, Cap::InstanceIops, best);
        }
        if let Some(limit) = &self.bytes {
            best = limit.earliest(from, charge.bytes, Cap::InstanceThroughput, best);
        }
        if let Some(limit) = &mut self.iops {
            limit.take(best.0, charge.ios);
        }
        if let Some(limit) = &mut self.bytes {
            limit.take(best.0, charge.bytes);
        }
        self.last_start = best.0;
        if best.0 > now && best.1 == Cap::None {
            best.1 = Cap::InstanceThroughput;
        }
        best
    }

    /// Returns the two burst balances.
    pub fn balances(&self, now: Nanos) -> InstanceBalances {
        let balance = |limit: &Option<Limit>| limit.as_ref().and_then(|limit| limit.balance(now));
        InstanceBalances { ios: balance(&self.iops), bytes: balance(&self.bytes) }
    }

    /// Returns the full burst buckets of I/Os and of bytes, where the type has them.
    pub fn credits(&self) -> [Option<&Bucket>; 2] {
        [&self.iops, &self.bytes].map(|limit| limit.as_ref().and_then(|limit| limit.credits.as_ref()))
    }

    /// Sets both burst balances.
    pub fn set_balance_percent(&mut self, now: Nanos, percent: f64) {
        self.iops.iter_mut().chain(self.bytes.iter_mut()).for_each(|limit| limit.set_balance_percent(now, percent));
    }

    /// Returns the state that changes in use, for saving.
    pub fn state(&self) -> InstanceState {
        InstanceState {
            iops: self.iops.as_ref().map(Limit::state),
            bytes: self.bytes.as_ref().map(Limit::state),
            last_start: self.last_start,
            next_top_up: self.next_top_up,
        }
    }

    /// Goes on where [`Instance::state`] was taken, on an instance of the same limits.
    pub fn restore(&mut self, state: &InstanceState) {
        let put = |limit: &mut Option<Limit>, state: &Option<(BucketState, Option<BucketState>)>| {
            if let (Some(limit), Some(state)) = (limit, state) {
                limit.restore(state);
            }
        };
        put(&mut self.iops, &state.iops);
        put(&mut self.bytes, &state.bytes);
        self.last_start = state.last_start;
        self.next_top_up = state.next_top_up;
    }
}

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
    /// Members in their order.
    pub members: Vec<SavedVolume>,
}

/// An instance and its attached volumes.
#[derive(Clone, Debug)]
pub struct Host {
    /// Limits shared by all devices; none where they do not matter.
    pub instance: Option<Instance>,
    /// Devices in the order they were given.
    pub devices: Vec<Device>,
}

impl Device {
    /// Makes a device of `spec` whose members have these limits. Each member draws from a seed of
    /// its own, derived from `seed`.
    pub fn new(spec: &StorageSpec, limits: &[VolumeLimits], options: &ModelOptions, seed: u64) -> Device {
        let member_seed = |index: usize| seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let members: Vec<Volume> = limits.iter().enumerate().map(|(index, limits)| Volume::new(limits.clone(), options.clone(), member_seed(index))).collect();
        Device { members, layout: layout_of(spec), parts: Vec::new(), answers: Vec::new() }
    }

    /// Returns everything, to go on from `now` elsewhere or later; `storage` is the specification
    /// that it was made of.
    pub fn save(&mut self, storage: &StorageSpec, now: Nanos) -> SavedDevice {
        SavedDevice { storage: storage.clone(), members: self.members.iter_mut().map(|member| member.save(now)).collect() }
    }

    /// Makes the device that [`Device::save`] saved at `now`.
    pub fn from_saved(saved: &SavedDevice, now: Nanos) -> Device {
        let members = saved.members.iter().map(|member| Volume::from_saved(member, now)).collect();
        Device { members, layout: layout_of(&saved.storage), parts: Vec::new(), answers: Vec::new() }
    }

    /// Returns the volumes of the device.
    pub fn members(&self) -> &[Volume] {
        &self.members
    }

    /// Returns the volumes of the device, to set balances, degrade, modify or lose them.
    pub fn members_mut(&mut self) -> &mut [Volume] {
        &mut self.members
    }

    /// Sets blocks of 512 KiB of the device that load on first touch from `since` on. The rate is
    /// that of the device; its members share it.
    pub fn load_blocks(&mut self, cold: impl Iterator<Item = u64>, initialization_bytes_s: Option<u64>, since: Nanos) {
        let mut maps: Vec<Vec<u64>> = vec![Vec::new(); self.members.len()];
        let mut mark = |member: usize, from: u64, bytes: u64| {
            for chunk in from / CHUNK_BYTES..(from + bytes).div_ceil(CHUNK_BYTES) {
                let (map, word) = (&mut maps[member], (chunk / 64) as usize);
                if map.len() <= word {
                    map.resize(word + 1, 0);
                }
                map[word] |= 1 << (chunk % 64);
            }
        };
        let mut parts = Vec::new();
        for block in cold {
            let io = Io { op: Op::Write, offset: block * CHUNK_BYTES, bytes: CHUNK_BYTES as u32 };
            match &self.layout {
                None => mark(0, io.offset, CHUNK_BYTES),
                Some(layout) => {
                    // A write touches every copy and the parity.
                    layout.split(&io, |_| false, &mut parts);
                    parts.iter().for_each(|part| mark(part.member, part.io.offset, u64::from(part.io.bytes)));
                }
            }
        }
        let share = initialization_bytes_s.map(|rate| rate / self.members.len() as u64);
        self.members.iter_mut().zip(maps).for_each(|(member, map)| member.load_chunks(map, share, since));
    }

    /// Returns true if data are gone: a single volume is lost, or an array has too few members
    /// left.
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

    /// Returns the parts of the last request to an array: member, request and answer of each. Empty
    /// for a single volume.
    pub fn last_parts(&self) -> impl Iterator<Item = (usize, Io, Decision)> + '_ {
        self.parts.iter().zip(&self.answers).map(|(part, answer)| (part.member, part.io, *answer))
    }

    /// Answers a request to an array: it is complete when its last part is, and failed if data are
    /// gone.
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

    /// Returns the next moment at which something changes by itself.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.members.iter().filter_map(Volume::next_wakeup).min()
    }
}

/// Returns the data layout of an array; None for a single volume.
pub fn layout_of(spec: &StorageSpec) -> Option<Layout> {
    let sizes: Vec<u64> = spec.members.iter().map(|member| member.size_gib << 30).collect();
    spec.raid.map(|level| Layout::of_sizes(level, &sizes, spec.chunk_kib * 1_024))
}

/// Puts a request through the instance's limits, then the volume's.
#[inline]
fn through(instance: Option<&mut Instance>, volume: &mut Volume, now: Nanos, ready: Nanos, io: Io) -> Decision {
    // Local disks are not behind the instance's EBS limits.
    let instance = instance.filter(|_| volume.limits().spec.volume_type != VolumeType::InstanceStore);
    let Some(instance) = instance else { return volume.submit_at(Arrival { at_host: now, at_volume: now, ready }, io) };
    let (at_volume, cap) = instance.admit(now, &io);
    let mut decision = volume.submit_at(Arrival { at_host: now, at_volume, ready }, io);
    if at_volume.since(now) > decision.start.since(at_volume) {
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

    /// Answers one request to a member alone, as a rebuild makes them; none when there is no such
    /// member.
    pub fn submit_member(&mut self, device: usize, member: usize, now: Nanos, io: Io) -> Option<Decision> {
        let volume = self.devices.get_mut(device)?.members.get_mut(member)?;
        Some(through(self.instance.as_mut(), volume, now, now, io))
    }

    /// Brings planned changes up to `now`.
    pub fn advance(&mut self, now: Nanos) {
        self.devices.iter_mut().for_each(|device| device.advance(now));
    }

    /// Returns the next moment at which something changes by itself.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(Device::next_wakeup).min()
    }

    /// Returns the lowest credit balance of a device's members in percent; None where no member has
    /// credits.
    pub fn lowest_balance_percent(&self, device: usize, now: Nanos) -> Option<f64> {
        let percents = self.devices[device].members.iter().filter_map(|member| member.balance(now));
        percents.map(|balance| balance.percent()).min_by(f64::total_cmp)
    }
}

/// An instance at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedInstance {
    /// Limits of the instance.
    pub limits: InstanceLimits,
    /// Levels of its buckets.
    pub state: InstanceState,
}

/// A host at rest: what a record begins with, and what a daemon keeps over a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedHost {
    /// The moment it was saved.
    pub now: Nanos,
    /// Limits all devices share.
    pub instance: Option<SavedInstance>,
    /// Devices by slot; none where nothing is attached.
    pub devices: Vec<Option<SavedDevice>>,
}

/// Something done to the model from outside while it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostChange {
    /// A device takes a slot.
    Put {
        /// Slot.
        device: usize,
        /// Device that takes the slot.
        saved: Box<SavedDevice>,
    },
    /// The credits of one member, or of all, are set.
    Balance {
        /// Slot.
        device: usize,
        /// Index of the member; None for all.
        member: Option<usize>,
        /// Balance, percent of the capacity, 0-100.
        percent: f64,
    },
    /// The instance is replaced; None for no limits beyond the volumes'.
    Instance {
        /// Instance from now on.
        saved: Option<Box<SavedInstance>>,
    },
    /// The burst buckets of the instance are set.
    InstanceBalance {
        /// Balance, percent of the capacity, 0-100.
        percent: f64,
    },
    /// A degradation event of a member.
    Degrade {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
        /// Time and amount of the degradation.
        event: Degradation,
    },
    /// A member has no degradation events any more.
    Recover {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
    },
    /// A member is lost, or back.
    Failed {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
        /// True if it is lost.
        failed: bool,
    },
    /// A modification of every member, in order.
    Modify {
        /// Slot.
        device: usize,
        /// One a member.
        targets: Vec<VolumeModification>,
    },
}

/// Returns the instance of a record, with the saved second that rested ones have: the same at its
/// beginning and in a change.
fn recorded_instance(saved: &SavedInstance) -> Instance {
    let mut instance = Instance::new(&saved.limits, true);
    instance.restore(&saved.state);
    instance
}

impl Host {
    /// Makes a change at `now`; those of slots that do not exist change nothing.
    pub fn change(&mut self, now: Nanos, change: &HostChange) {
        let member_of = |host: &mut Host, device: usize, member: usize, act: &mut dyn FnMut(&mut Volume)| {
            if let Some(volume) = host.devices.get_mut(device).and_then(|device| device.members_mut().get_mut(member)) {
                act(volume);
            }
        };
        // Planned changes that were due before this one come first, even if no request came
        // meanwhile.
        self.advance(now);
        match change {
            // A record has 16 bits for the number of a device, so no request could name this slot.
            HostChange::Put { device, .. } if *device > usize::from(u16::MAX) => {}
            HostChange::Put { device, saved } => {
                let fresh = Device::from_saved(saved, now);
                while self.devices.len() < *device {
                    self.devices.push(Device::from_saved(&SavedDevice { storage: saved.storage.clone(), members: Vec::new() }, now));
                }
                match self.devices.get_mut(*device) {
                    Some(slot) => *slot = fresh,
                    None => self.devices.push(fresh),
                }
            }
            HostChange::Balance { device, member, percent } => {
                let Some(device) = self.devices.get_mut(*device) else { return };
                let chosen = device.members_mut().iter_mut().enumerate().filter(|(index, _)| member.is_none_or(|member| member == *index));
                chosen.for_each(|(_, volume)| {
                    volume.set_balance_percent(now, *percent);
                });
            }
            HostChange::Instance { saved } => {
                self.instance = saved.as_deref().map(recorded_instance);
            }
            HostChange::InstanceBalance { percent } => {
                if let Some(instance) = &mut self.instance {
                    instance.set_balance_percent(now, *percent);
                }
            }
            HostChange::Degrade { device, member, event } => member_of(self, *device, *member, &mut |volume| volume.degrade(now, [*event])),
            HostChange::Recover { device, member } => member_of(self, *device, *member, &mut |volume| volume.recover(now)),
            HostChange::Failed { device, member, failed } => member_of(self, *device, *member, &mut |volume| volume.set_failed(*failed)),
            HostChange::Modify { device, targets } => {
                for (member, target) in targets.iter().enumerate() {
                    member_of(self, *device, member, &mut |volume| {
                        volume.modify(now, target.clone());
                    });
                }
            }
        }
    }

    /// Makes the host a record begins with. A record is of real devices, whose volumes and
    /// instances have the saved second.
    pub fn from_saved(saved: &SavedHost) -> Host {
        let instance = saved.instance.as_ref().map(recorded_instance);
        let mut host = Host { instance, devices: Vec::new() };
        for (slot, device) in saved.devices.iter().enumerate() {
            if let Some(device) = device {
                host.change(saved.now, &HostChange::Put { device: slot, saved: Box::new(device.clone()) });
            }
        }
        host
    }
}
