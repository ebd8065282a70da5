//! One volume: submit a request, learn when it is answered.
//!
//! ```text
//!             FIFO            later of the buckets           own latency
//!  request ---------> merge? ----------------------> start ---------------> complete
//!                              IOPS cap    (+ saved second)
//!                              byte cap    (+ saved second)
//!                              credits     (gp2: I/Os; st1, sc1: bytes)
//!                              (local disks: an IOPS and a byte cap for reads, others for writes; one line)
//!                              holds, deep-queue spread, first touch, degradation
//! ```
//!
//! Behaviour and numbers: EC2 user guide on volume types (2018-2023; the limits of each day are in
//! `data/volumes`), and the measured runs named in `bucket`, `latency`, `first_touch` and `rates`.
//! Not modelled: the replication inside EBS, multi-attach contention, network loss.
//!
//! The volume has no clock and no hidden chance: time is an argument and the generator is seeded.
//! Requests must come in order of time; an answer is final when it is given, because the limiters
//! are first-in first-out.

use crate::accounting::{Accounting, Charge, Merger};
use crate::bucket::{Bucket, BucketState, DeepQueueSpread, HoldProfile};
use crate::first_touch::{FirstTouch, SavedTouch, SnapshotOrigin};
use crate::io::{Cap, Decision, Io, Nanos, Op, Verdict};
use crate::latency::LatencyTable;
use crate::rates::{Degradation, ModificationPhase, Rates, VolumeModification};
use headrace_catalog::{InstanceLimits, ReadLimits, VolumeLimits};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Time until a request to a lost volume comes back as an error: not measured, but never nothing,
/// or a client that retries would stop time.
pub const FAILURE_TAKES: Nanos = Nanos::from_micros(1_000);

/// Parts of the model that are switched on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelOptions {
    /// True to merge sequential requests that wait together.
    pub merge: bool,
    /// True if a rested volume delivers about a second of tokens at once.
    pub saved_second: bool,
    /// True for uneven release at the cap, as measured.
    pub holds: bool,
    /// True to draw each request's own latency; false to answer requests when they start (for
    /// counting).
    pub latency: bool,
    /// Ratio of the delivered to the nominal rate, in thousandths: 1000 on Nitro; 1021-1026 was
    /// measured on Xen (2017-2020).
    pub rate_per_mille: u64,
    /// True if the host is Xen: holds are longer.
    pub xen: bool,
    /// Host queues deeper than the limiter serves evenly; not saved: only simulations ask for it.
    #[serde(skip)]
    pub deep_queue: Option<DeepQueueSpread>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        ModelOptions { merge: true, saved_second: true, holds: true, latency: true, rate_per_mille: 1_000, xen: false, deep_queue: None }
    }
}

impl ModelOptions {
    /// Makes the options for volumes behind an instance: outside the Nitro System the host is Xen.
    pub fn behind(instance: Option<&InstanceLimits>) -> Self {
        ModelOptions { xen: instance.is_some_and(|instance| !instance.nitro), ..ModelOptions::default() }
    }

    /// Makes the options with documented behaviour only: caps and credits, no saved second, no
    /// latency, no chance. For exact counts.
    pub fn counting() -> Self {
        ModelOptions { merge: false, saved_second: false, holds: false, latency: false, ..ModelOptions::default() }
    }
}

/// A credit balance, as people read it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// Credits left (I/Os for gp2, bytes for st1 and sc1).
    pub credits: u64,
    /// Credits when full.
    pub capacity: u64,
}

impl Balance {
    /// Returns the balance in percent, 0-100, as CloudWatch's BurstBalance.
    pub fn percent(&self) -> f64 {
        100.0 * self.credits as f64 / self.capacity.max(1) as f64
    }
}

/// Everything that changes in a volume while it is used, but for its latency generator's position
/// (kept too) and cold chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeState {
    /// IOPS cap.
    pub iops: Option<BucketState>,
    /// Byte cap.
    pub bytes: BucketState,
    /// Credits.
    pub credits: Option<BucketState>,
    /// IOPS and byte cap of reads, where they have their own.
    #[serde(default)]
    pub reads: Option<[BucketState; 2]>,
    /// Start of the last request.
    pub last_start: Nanos,
    /// End of the running hold.
    pub hold_until: Nanos,
    /// Generator, so that a restored volume draws what the saved one would have drawn.
    pub rng: ChaCha8Rng,
}

/// A volume at rest: all of it, so that it goes on to the nanosecond where it was left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedVolume {
    /// Limits at that time.
    pub limits: VolumeLimits,
    /// Parts of the model that were on.
    pub options: ModelOptions,
    /// Levels and chance.
    pub state: VolumeState,
    /// True if it was lost.
    pub failed: bool,
    /// Events that had not ended.
    pub degradations: Vec<Degradation>,
    /// A modification in progress.
    pub modification: Option<VolumeModification>,
    sequential_end: u64,
    merger: Option<Merger>,
    touch: Option<SavedTouch>,
}

impl SavedVolume {
    /// Leaves out which chunks are cold, for a caller that knows them from elsewhere: they may be
    /// millions.
    pub fn forget_touch(&mut self) {
        self.touch = None;
    }
}

/// Times at which a request reached each stage of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Came to the host.
    pub at_host: Nanos,
    /// Left the host's own limits for the volume.
    pub at_volume: Nanos,
    /// Cannot start before: the write half of a RAID 5 read-modify-write takes its place in line
    /// with the rest, but needs the bytes of its read. It does not hold up those behind it.
    pub ready: Nanos,
}

/// The caps of reads, where they have their own.
#[derive(Clone, Debug)]
struct ReadCaps {
    iops: Bucket,
    bytes: Bucket,
}

impl ReadCaps {
    /// Makes the caps of reads, rested.
    fn new(limits: ReadLimits, saved_second: bool) -> ReadCaps {
        ReadCaps { iops: Bucket::cap(limits.iops, saved_second), bytes: Bucket::cap(limits.throughput_bytes_s, saved_second) }
    }
}

/// One volume of a type, size and date.
#[derive(Clone, Debug)]
pub struct Volume {
    limits: VolumeLimits,
    options: ModelOptions,
    accounting: Accounting,
    iops: Option<Bucket>,
    bytes: Bucket,
    credits: Option<Bucket>,
    // Caps of reads; the caps above are then of writes only.
    reads: Option<ReadCaps>,
    latency: [Arc<LatencyTable>; 2],
    holds: [HoldProfile; 2],
    merger: Option<Merger>,
    rng: ChaCha8Rng,
    last_start: Nanos,
    hold_until: Nanos,
    sequential_end: u64,
    touch: Option<FirstTouch>,
    degradations: Vec<Degradation>,
    modification: Option<VolumeModification>,
    // Next moment at which rates change; NEVER when nothing is planned.
    boundary: Nanos,
    extra_latency: Nanos,
    degraded: bool,
    failed: bool,
}

impl Volume {
    /// Makes a volume with full caps and its type's initial credits; `seed` decides every latency
    /// it will ever draw.
    pub fn new(limits: VolumeLimits, options: ModelOptions, seed: u64) -> Volume {
        let accounting = Accounting::new(&limits);
        let table = |op| LatencyTable::cached(limits.spec.volume_type, op, limits.as_of);
        let hold = |op| HoldProfile::of(limits.spec.volume_type, op, options.xen);
        let rates = Rates::of(&limits).scaled(options.rate_per_mille);
        Volume {
            accounting,
            iops: rates.iops.map(|rate| Bucket::cap(rate, options.saved_second)),
            bytes: Bucket::cap(rates.bytes_s, options.saved_second),
            credits: credits_of(&limits),
            reads: rates.reads.map(|reads| ReadCaps::new(reads, options.saved_second)),
            latency: [table(Op::Read), table(Op::Write)],
            holds: [hold(Op::Read), hold(Op::Write)],
            merger: (options.merge && !limits.random_charges_full_unit).then(|| Merger::new(limits.io_unit_bytes)),
            rng: ChaCha8Rng::seed_from_u64(seed),
            last_start: Nanos::ZERO,
            hold_until: Nanos::ZERO,
            sequential_end: u64::MAX,
            touch: None,
            degradations: Vec::new(),
            modification: None,
            boundary: Nanos::NEVER,
            extra_latency: Nanos::ZERO,
            degraded: false,
            failed: false,
            limits,
            options,
        }
    }

    /// Returns the limits it has now (a modification's target once completed).
    pub fn limits(&self) -> &VolumeLimits {
        &self.limits
    }

    /// Answers one request. `now` must not be before that of the request before.
    #[inline]
    pub fn submit(&mut self, now: Nanos, io: Io) -> Decision {
        self.submit_at(Arrival { at_host: now, at_volume: now, ready: now }, io)
    }

    /// Answers a request that came through an instance or belongs to an array. `at_volume` must not
    /// be before that of the request before.
    #[inline]
    pub fn submit_at(&mut self, arrival: Arrival, io: Io) -> Decision {
        let now = arrival.at_volume;
        self.advance(now);
        if self.failed {
            return Decision { start: now, complete: now + FAILURE_TAKES, cap: Cap::None, verdict: Verdict::Failed };
        }
        let before = std::mem::replace(&mut self.sequential_end, io.offset + u64::from(io.bytes));
        let mut charge = self.accounting.charge(&io, self.accounting.continues(before, io.offset));
        let joined = match &mut self.merger {
            // Merged is only what really touches.
            Some(merger) if io.offset == before => merger.joins(now, &io),
            _ => None,
        };
        if joined.is_some() {
            charge.ios = 0;
        }
        let (slot, cap) = self.admit(now.max(self.last_start), io.op, charge);
        let mut cap = if slot > now && cap == Cap::None { self.waiting_cap() } else { cap };
        if slot <= now {
            cap = Cap::None;
        }
        self.last_start = slot;
        if let (Some(merger), None) = (&mut self.merger, joined) {
            merger.admitted(&io, slot);
        }
        let start = self.release(arrival, slot, io.op).max(arrival.ready);
        let (loaded, cap) = self.load(start, &io, cap);
        let own = self.own_latency(&io);
        Decision { start, complete: loaded + own, cap, verdict: Verdict::Ok }
    }

    /// Charges the limiters and finds the request's place in line.
    fn admit(&mut self, from: Nanos, op: Op, charge: Charge) -> (Nanos, Cap) {
        let mut from = from;
        loop {
            let (slot, cap) = self.earliest(from, op, charge);
            if slot < self.boundary {
                self.take(slot, op, charge);
                return (slot, cap);
            }
            // Rates change before it may start: earn at the old rates up to there, and ask again.
            from = self.boundary;
            self.cross_boundary();
        }
    }

    /// Returns the first instant from `from` on at which every bucket has the tokens of a request,
    /// and the cap that decides it.
    #[inline]
    fn earliest(&self, from: Nanos, op: Op, charge: Charge) -> (Nanos, Cap) {
        let mut slot = from;
        let mut cap = Cap::None;
        let mut ask = |bucket: &Bucket, tokens: u64, which: Cap| {
            let at = bucket.earliest(from, tokens);
            if at > slot {
                (slot, cap) = (at, which);
            }
        };
        let (iops, bytes) = match &self.reads {
            Some(reads) if op == Op::Read => (Some(&reads.iops), &reads.bytes),
            _ => (self.iops.as_ref(), &self.bytes),
        };
        if let Some(iops) = iops {
            ask(iops, charge.ios, Cap::VolumeIops);
        }
        ask(bytes, charge.bytes, Cap::VolumeThroughput);
        if let Some(credits) = &self.credits {
            ask(credits, self.credit_charge(charge), Cap::VolumeCredits);
        }
        if self.degraded && matches!(cap, Cap::VolumeIops | Cap::VolumeThroughput) {
            cap = Cap::Degraded;
        }
        (slot, cap)
    }

    /// Takes the tokens of a request that starts at `slot` from every bucket.
    #[inline]
    fn take(&mut self, slot: Nanos, op: Op, charge: Charge) {
        let credit = self.credit_charge(charge);
        let (iops, bytes) = match &mut self.reads {
            Some(reads) if op == Op::Read => (Some(&mut reads.iops), &mut reads.bytes),
            _ => (self.iops.as_mut(), &mut self.bytes),
        };
        if let Some(iops) = iops {
            iops.take(slot, charge.ios);
        }
        bytes.take(slot, charge.bytes);
        if let Some(credits) = &mut self.credits {
            credits.take(slot, credit);
        }
    }

    /// Returns the credits of a request: I/Os on gp2, bytes on types without an IOPS cap.
    #[inline]
    fn credit_charge(&self, charge: Charge) -> u64 {
        if self.iops.is_some() {
            charge.ios
        } else {
            charge.bytes
        }
    }

    /// Returns the limit behind which the queue stands, for a request that only waited for those
    /// before it.
    fn waiting_cap(&self) -> Cap {
        let probe = Charge { ios: 1, bytes: 4_096 };
        // If reads have caps of their own, the requests before it may be reads or writes.
        let cap_of = |op| self.earliest(self.last_start, op, probe).1;
        match (cap_of(Op::Write), cap_of(Op::Read)) {
            (Cap::None, Cap::None) => Cap::VolumeThroughput,
            (Cap::None, cap) | (cap, _) => cap,
        }
    }

    /// Returns when a request with a place in line really starts: after holds, and with the spread
    /// of deep queues.
    #[inline]
    fn release(&mut self, arrival: Arrival, slot: Nanos, op: Op) -> Nanos {
        let mut start = slot;
        if self.options.holds && slot > arrival.at_volume {
            if let Some(length) = self.holds[op as usize].draw(self.rng.next_u64()) {
                self.hold_until = self.hold_until.max(slot + length);
            }
            start = start.max(self.hold_until);
        }
        match &self.options.deep_queue {
            Some(spread) if start > arrival.at_host => arrival.at_host + spread.spread(start - arrival.at_host, self.rng.next_u64()),
            _ => start,
        }
    }

    /// Returns when the chunks of a request that starts at `start` are there, and the cap that it
    /// then waited for.
    #[inline]
    fn load(&mut self, start: Nanos, io: &Io, cap: Cap) -> (Nanos, Cap) {
        let Some(touch) = &mut self.touch else { return (start, cap) };
        let loaded = touch.ready(start, io, self.rng.next_u64());
        (loaded, if loaded > start { Cap::FirstTouch } else { cap })
    }

    /// Draws the latency of a request once it is let go, a degradation's included.
    #[inline]
    fn own_latency(&mut self, io: &Io) -> Nanos {
        if !self.options.latency {
            return self.extra_latency;
        }
        Nanos(self.latency[io.op as usize].sample(self.rng.next_u64(), io.bytes)) + self.extra_latency
    }

    /// Brings planned changes (degradation, modification) up to `now`.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        while self.boundary <= now {
            self.cross_boundary();
        }
    }

    /// Returns the next moment at which something changes by itself.
    pub fn next_wakeup(&self) -> Option<Nanos> {
        (self.boundary < Nanos::NEVER).then_some(self.boundary)
    }

    /// Applies what changes at the boundary: the end of a modification, the begin or end of a
    /// degradation event.
    fn cross_boundary(&mut self) {
        let now = self.boundary;
        if let Some(change) = &self.modification {
            if change.state(now) == ModificationPhase::Completed {
                let target = change.target.clone();
                self.modification = None;
                self.become_limits(now, target);
            }
        }
        self.degradations.retain(|event| event.until > now);
        self.apply_rates(now);
    }

    /// Sets the buckets to what modification and degradation leave at `now`, and finds the next
    /// boundary.
    fn apply_rates(&mut self, now: Nanos) {
        let mut rates = Rates::of(&self.limits);
        if let Some(change) = &self.modification {
            if change.state(now) == ModificationPhase::Optimizing {
                rates = rates.lower(Rates::of(&change.target));
            }
        }
        let event = self.degradations.iter().find(|event| event.from <= now && now < event.until);
        self.degraded = event.is_some();
        self.extra_latency = event.map_or(Nanos::ZERO, |event| event.extra_latency);
        let rates = rates.scaled(self.options.rate_per_mille).scaled(event.map_or(1_000, |event| event.caps_per_mille));
        if let (Some(bucket), Some(rate)) = (&mut self.iops, rates.iops) {
            bucket.set_cap_rate(now, rate);
        }
        self.bytes.set_cap_rate(now, rates.bytes_s);
        if let (Some(reads), Some(limits)) = (&mut self.reads, rates.reads) {
            reads.iops.set_cap_rate(now, limits.iops);
            reads.bytes.set_cap_rate(now, limits.throughput_bytes_s);
        }
        if let (Some(bucket), Some(rate)) = (&mut self.credits, rates.credit_refill) {
            bucket.set_refill_rate(now, rate);
        }
        let events = self.degradations.iter().flat_map(|event| [event.from, event.until]);
        let change = self.modification.as_ref().and_then(|change| change.next_change(now));
        self.boundary = events.chain(change).filter(|&at| at > now).min().unwrap_or(Nanos::NEVER);
    }

    /// Makes the volume one of the limits `target` from `now` on, with caps that have saved
    /// nothing; a credit balance is kept between types of like credits.
    fn become_limits(&mut self, now: Nanos, target: VolumeLimits) {
        let balance = self.balance(now).filter(|_| target.io_burst.is_some() == self.limits.io_burst.is_some());
        let options = self.options.clone();
        let fresh = Volume::new(target, options, 0);
        // A fresh cap would hand out another saved second, so the new buckets start without it.
        let take_over = |mut bucket: Bucket| {
            bucket.advance(now);
            bucket.drain_reserve(now);
            bucket
        };
        self.iops = fresh.iops.map(take_over);
        self.bytes = take_over(fresh.bytes);
        self.reads = fresh.reads.map(|reads| ReadCaps { iops: take_over(reads.iops), bytes: take_over(reads.bytes) });
        self.credits = fresh.credits;
        if let (Some(credits), Some(balance)) = (&mut self.credits, balance) {
            credits.set_level(now, balance.credits);
        }
        (self.accounting, self.latency, self.holds, self.merger) = (fresh.accounting, fresh.latency, fresh.holds, fresh.merger);
        self.limits = fresh.limits;
    }

    /// Returns the credit balance at `now`; None for types without credits.
    pub fn balance(&self, now: Nanos) -> Option<Balance> {
        self.credits.as_ref().map(|bucket| Balance { credits: bucket.available(now), capacity: bucket.capacity() })
    }

    /// Sets the credit balance. Returns false when the type has none.
    pub fn set_balance_percent(&mut self, now: Nanos, percent: f64) -> bool {
        let Some(bucket) = &mut self.credits else { return false };
        let tokens = (bucket.capacity() as f64 * (percent / 100.0).clamp(0.0, 1.0)) as u64;
        bucket.set_level(now, tokens);
        true
    }

    /// Sets the snapshot that the volume was made from; its blocks load on first touch from now on.
    pub fn created_from_snapshot(&mut self, origin: &SnapshotOrigin) {
        self.touch = Some(FirstTouch::new(origin));
    }

    /// Sets chunks of 512 KiB that load on first touch from `since` on: a bit for each, the lowest
    /// of each word first.
    pub fn load_chunks(&mut self, cold: Vec<u64>, initialization_bytes_s: Option<u64>, since: Nanos) {
        self.touch = cold.iter().any(|&word| word != 0).then(|| FirstTouch::of_chunks(cold, initialization_bytes_s, since));
    }

    /// Returns the share of the snapshot not loaded yet; 0 for a volume made empty.
    pub fn cold_share(&self) -> f64 {
        self.touch.as_ref().map_or(0.0, FirstTouch::cold_share)
    }

    /// Plans degradation events. Degradations that have ended are dropped.
    pub fn degrade(&mut self, now: Nanos, events: impl IntoIterator<Item = Degradation>) {
        self.degradations.extend(events);
        self.apply_rates(now);
    }

    /// Forgets every degradation event, running or planned.
    pub fn recover(&mut self, now: Nanos) {
        self.degradations.clear();
        self.apply_rates(now);
    }

    /// Starts a modification at `now`. Returns false when one is still in progress.
    pub fn modify(&mut self, now: Nanos, modification: VolumeModification) -> bool {
        if self.modification.is_some() {
            return false;
        }
        self.modification = Some(modification);
        self.apply_rates(now);
        true
    }

    /// Returns the phase of the modification in progress; None without one.
    pub fn modification_state(&self, now: Nanos) -> Option<ModificationPhase> {
        self.modification.as_ref().map(|change| change.state(now))
    }

    /// Loses the volume, or brings it back.
    pub fn set_failed(&mut self, failed: bool) {
        self.failed = failed;
    }

    /// Returns true if the volume is lost.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// Returns the earliest start of a request that came now: it shows how far behind the queue is.
    pub fn queue_end(&self) -> Nanos {
        self.last_start
    }

    /// Returns the state that changes in use, for saving.
    pub fn state(&self) -> VolumeState {
        VolumeState {
            iops: self.iops.as_ref().map(Bucket::state),
            bytes: self.bytes.state(),
            credits: self.credits.as_ref().map(Bucket::state),
            reads: self.reads.as_ref().map(|reads| [reads.iops.state(), reads.bytes.state()]),
            last_start: self.last_start,
            hold_until: self.hold_until,
            rng: self.rng.clone(),
        }
    }

    /// Returns everything, to go on from `now` elsewhere or later. The volume itself goes on too,
    /// from the same state.
    pub fn save(&mut self, now: Nanos) -> SavedVolume {
        self.advance(now);
        // Buckets are brought to `now` at the rates that hold there; the saved volume starts with
        // full rates and must not accrue by them.
        self.apply_rates(now);
        SavedVolume {
            limits: self.limits.clone(),
            options: self.options.clone(),
            state: self.state(),
            failed: self.failed,
            degradations: self.degradations.clone(),
            modification: self.modification.clone(),
            sequential_end: self.sequential_end,
            merger: self.merger.clone(),
            touch: self.touch.as_ref().map(SavedTouch::from),
        }
    }

    /// Makes the volume that [`Volume::save`] saved at `now`.
    pub fn from_saved(saved: &SavedVolume, now: Nanos) -> Volume {
        let mut volume = Volume::new(saved.limits.clone(), saved.options.clone(), 0);
        volume.restore(&saved.state);
        volume.failed = saved.failed;
        volume.degradations = saved.degradations.clone();
        volume.modification = saved.modification.clone();
        volume.sequential_end = saved.sequential_end;
        volume.merger = saved.merger.clone();
        volume.touch = saved.touch.as_ref().map(FirstTouch::from);
        volume.apply_rates(now);
        volume
    }

    /// Goes on where [`Volume::state`] was taken, on a volume of the same limits and options.
    pub fn restore(&mut self, state: &VolumeState) {
        let put = |bucket: &mut Option<Bucket>, state: &Option<BucketState>| {
            if let (Some(bucket), Some(state)) = (bucket, state) {
                bucket.restore(state);
            }
        };
        put(&mut self.iops, &state.iops);
        put(&mut self.credits, &state.credits);
        self.bytes.restore(&state.bytes);
        if let (Some(reads), Some([iops, bytes])) = (&mut self.reads, &state.reads) {
            reads.iops.restore(iops);
            reads.bytes.restore(bytes);
        }
        self.last_start = state.last_start;
        self.hold_until = state.hold_until;
        self.rng = state.rng.clone();
    }
}

/// Makes the credit balance of a new volume, if its type has one.
pub fn credits_of(limits: &VolumeLimits) -> Option<Bucket> {
    if let Some(burst) = &limits.io_burst {
        return Some(Bucket::credits(limits.iops, burst.capacity_ios, burst.initial_ios));
    }
    let burst = limits.byte_burst.as_ref()?;
    Some(Bucket::credits(burst.baseline_bytes_s, burst.capacity_bytes, burst.initial_bytes))
}
