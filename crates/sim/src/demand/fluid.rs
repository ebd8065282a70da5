//! The model's buckets in closed form: the arithmetic of the per-interval form.
//!
//! Within an interval demand is constant, so every level is a line in time until something happens:
//! a bucket runs empty, a backlog is worked off, or the interval ends. Between two such moments
//! everything is known in closed form:
//!
//! ```text
//!  tokens |\                      . empty: requests now leave at this bucket's rate
//!         |  \_ level             .
//!         |     \_   demand - rate.
//!         |        \_            .
//!         |___________\__________.________________ t
//!                      ^ what comes from here on waits; the backlog is served first in, first out, each part at its own cost
//! ```
//!
//! An array is the union of its members' buckets, each charged with its share of every request; the
//! instance adds its own. Requests are fluid: no single one waits for a fraction of a token. Chance
//! enters in one place: independent arrivals just below a cap wait in clumps, by a formula. Holds
//! are left out.

use crate::demand::measure::{Measure, Measured, MeasuredLoad};
use crate::demand::mixture::Waits;
use crate::demand::near_cap::{NearCap, CLUMPS_FROM, WALKS};
use crate::demand::windows::Served;
use crate::setup::Setup;
use headrace_catalog::InstanceLimits;
use headrace_model::array::Amplification;
use headrace_model::bucket::{seconds_to_empty, RESERVE_REFILL};
use headrace_model::rates::Rates;
use headrace_model::Cap;
use std::collections::VecDeque;

mod bucket;
mod cycles;
mod rest;
mod step;

use bucket::{instance_buckets, member_buckets, FluidBucket, DAY_S};
pub(crate) use rest::{BucketsKey, NeededLoad};
pub(crate) use step::Step;

/// Returns the shortest step, s: a billionth of the time so far. A shorter one could vanish in the
/// rounding of the time, and the interval would never end.
fn least_step(now: f64) -> f64 {
    1e-9 * now.max(1.0)
}

/// The buckets of a storage and its instance.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    buckets: Vec<FluidBucket>,
    backlog: VecDeque<Batch>,
    queued: f64,
    interval: u64,
    next_top_up_s: f64,
    has_credits: bool,
    /// Requests that wait near a cap, and their bytes; some bucket is near its cap.
    clumped: (f64, f64),
    near: bool,
    /// Walks near a cap that began, and parts of the run in which they were followed.
    episodes: u64,
    clumped_parts: usize,
    /// Backlogs decide the percentiles, whatever waits in clumps.
    backlogs: bool,
    /// Members that share the requests.
    members: f64,
    /// Requests arrive independently of each other: near a cap they wait in clumps.
    pub independent_arrivals: bool,
}

/// Levels of a storage's buckets, by which cycles are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FluidBalances {
    levels: Vec<f64>,
    backlog: f64,
}

/// Requests of one interval that wait, in order of arrival. The last batch may be that of the
/// interval at hand, which still grows.
#[derive(Clone, Copy, Debug)]
struct Batch {
    point: Measured,
    interval: u64,
    /// Arrival of the first one still waiting.
    arrived_s: f64,
    requests: f64,
}

/// Makes the buckets of the volumes of `setup`, full.
fn volume_buckets(setup: &Setup) -> Vec<FluidBucket> {
    let amplification = Amplification::of(setup.storage.raid, setup.limits.len());
    let mut buckets: Vec<FluidBucket> = Vec::new();
    for (limits, share) in setup.limits.iter().zip(setup.member_shares()) {
        // Like members carry like shares, so a single bucket stands for theirs, unless a fault
        // concerns a single member.
        for bucket in member_buckets(limits, Rates::of(limits), (amplification, share), setup) {
            if setup.has_events() || !buckets.iter().any(|other| other.is_like(&bucket)) {
                buckets.push(bucket);
            }
        }
    }
    buckets
}

impl Fluid {
    /// Makes the buckets of `setup`, full or at its start balance.
    pub fn new(setup: &Setup) -> Fluid {
        let mut buckets = volume_buckets(setup);
        if let Some(instance) = setup.instance.as_ref().filter(|_| !setup.is_local()) {
            let amplification = Amplification::of(setup.storage.raid, setup.limits.len());
            buckets.extend(instance_buckets(instance, amplification, setup.options.saved_second));
        }
        Fluid::of_setup(setup, buckets)
    }

    /// Makes the buckets of its volumes alone, where the instance's are followed apart.
    pub fn of_volumes(setup: &Setup) -> Fluid {
        Fluid::of_setup(setup, volume_buckets(setup))
    }

    /// Makes the state of these buckets, full or at the start balance of `setup`, with its number
    /// of members.
    fn of_setup(setup: &Setup, buckets: Vec<FluidBucket>) -> Fluid {
        let mut fluid = Fluid::of_buckets(buckets);
        fluid.members = setup.limits.len() as f64;
        fluid.start_at(setup.start_balance_percent);
        fluid
    }

    /// Makes the instance's buckets alone, for storages that share them; the volumes are then
    /// simulated without an instance. A write counts once for each of its copies.
    pub fn of_instance(instance: &InstanceLimits, saved_second: bool, start_balance_percent: Option<f64>) -> Fluid {
        let mut fluid = Fluid::of_buckets(instance_buckets(instance, Amplification::of(None, 1), saved_second));
        fluid.start_at(start_balance_percent);
        fluid
    }

    /// Makes the state of these buckets at 0 s, without a backlog, as of a single member.
    fn of_buckets(buckets: Vec<FluidBucket>) -> Fluid {
        let has_credits = buckets.iter().any(FluidBucket::is_credits);
        Fluid {
            buckets,
            backlog: VecDeque::new(),
            queued: 0.0,
            interval: 0,
            next_top_up_s: DAY_S,
            has_credits,
            clumped: (0.0, 0.0),
            near: false,
            episodes: 0,
            clumped_parts: 0,
            backlogs: false,
            members: 1.0,
            independent_arrivals: false,
        }
    }

    /// Sets the credits to a share of their depth, percent; without one they stay as they are.
    fn start_at(&mut self, balance_percent: Option<f64>) {
        if let Some(percent) = balance_percent {
            for bucket in self.buckets.iter_mut().filter(|bucket| bucket.is_credits()) {
                bucket.level = bucket.depth * (percent / 100.0).clamp(0.0, 1.0);
            }
        }
    }

    /// Returns the state with credits raised to what a step of `seconds` refills, if they hold
    /// less: [`Fluid::max_rate`] never counts on it, so what a step leaves unused counts from the
    /// first one on.
    pub(crate) fn with_refill(mut self, seconds: f64) -> Fluid {
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.is_credits()) {
            bucket.level = bucket.level.max((bucket.rate * seconds).min(bucket.depth));
        }
        self
    }

    /// Returns the most repetitions a second of `each` that every bucket lets through over
    /// `seconds` on top of `always`, and the cap that limits them. Tokens that caps have saved are
    /// not counted on: a load at the cap has spent them.
    #[inline]
    pub fn max_rate(&self, each: &Measured, always: &Measured, seconds: f64) -> (f64, Cap) {
        let mut lowest = (f64::INFINITY, Cap::None);
        for bucket in &self.buckets {
            let cost = bucket.demand(each);
            if cost > 0.0 {
                // A step's refill stays behind: demand that scatters around that rate then neither
                // loses nor gains by an empty bucket.
                let saved = if bucket.is_credits() { (bucket.level / seconds - bucket.rate).max(0.0) } else { 0.0 };
                let rate = (bucket.rate + saved - bucket.demand(always)).max(0.0) / cost;
                if rate < lowest.0 {
                    lowest = (rate, bucket.cap);
                }
            }
        }
        lowest
    }

    /// Takes the tokens that `seconds` of a demand cost from every bucket, and refills it.
    #[inline]
    pub fn charge(&mut self, demand: &Measured, seconds: f64) {
        for bucket in &mut self.buckets {
            let need = bucket.demand(demand);
            bucket.pass(seconds, need);
        }
    }

    /// Returns the factors by which an array multiplies I/Os on their way through the instance:
    /// (per read, per write). I/Os of local disks do not pass its EBS limits.
    pub fn amplification(setup: &Setup) -> (f64, f64) {
        if setup.is_local() {
            return (0.0, 0.0);
        }
        let by = Amplification::of(setup.storage.raid, setup.limits.len());
        (by.reads_per_read, by.reads_per_write + by.writes_per_write)
    }

    /// Leaves out byte caps that this load cannot reach, neither by its demand nor by working off a
    /// backlog as fast as the IOPS cap of the same volume allows.
    pub fn leave_out_idle_caps(&mut self, load: &MeasuredLoad) {
        let iops_caps: Vec<FluidBucket> = self.buckets.iter().filter(|bucket| bucket.measure == Measure::Units && !bucket.is_credits()).cloned().collect();
        self.buckets.retain(|bucket| {
            let peak_bytes_s = bucket.per_read * load.peak_bytes_s.0 + bucket.per_write * load.peak_bytes_s.1;
            let idle = |iops: &FluidBucket| {
                let same_place = iops.per_read == bucket.per_read && iops.per_write == bucket.per_write;
                same_place && peak_bytes_s <= bucket.rate && iops.rate * load.bytes_per_unit <= bucket.rate && iops.depth * load.bytes_per_unit <= bucket.depth
            };
            bucket.measure != Measure::Bytes || bucket.is_credits() || !iops_caps.iter().any(idle)
        });
    }

    /// Follows degradation events and a modification: the rates members have around `t_s`.
    pub(crate) fn follow_events(&mut self, setup: &Setup, t_s: f64, seconds: f64) {
        let mut index = 0;
        for (member, limits) in setup.limits.iter().enumerate() {
            let (rates, limits) = setup.rates_around(member, limits, t_s, seconds);
            for fresh in member_buckets(limits, rates, (Amplification::of(None, 1), 0.0), setup) {
                let bucket = &mut self.buckets[index];
                (bucket.rate, bucket.main_depth, bucket.depth) = (fresh.rate, fresh.main_depth, fresh.depth);
                bucket.level = bucket.level.min(bucket.depth);
                index += 1;
            }
        }
    }

    /// Fills the instance's burst buckets again after a day.
    pub(crate) fn top_up(&mut self, t_s: f64) {
        while t_s >= self.next_top_up_s {
            self.next_top_up_s += DAY_S;
            for bucket in self.buckets.iter_mut().filter(|bucket| bucket.cap == Cap::InstanceCredits) {
                bucket.level = bucket.depth;
            }
        }
    }

    /// Returns whether backlogs decide the percentiles of the run.
    pub fn has_backlog(&self) -> bool {
        self.backlogs
    }

    /// Notes whether caps alone make backlogs that decide the percentiles of a run, whatever waits
    /// in clumps.
    pub fn foresee_backlog(&mut self, load: &MeasuredLoad) {
        self.backlogs = self.independent_arrivals && self.buckets.iter().any(|bucket| !bucket.is_credits() && bucket.is_overrun(load));
    }

    /// Returns the requests that wait, but for those in clumps near a cap.
    pub fn backlog(&self) -> f64 {
        if self.backlog.is_empty() {
            0.0
        } else {
            self.queued.max(0.0)
        }
    }

    /// Returns the requests that wait, those in clumps included.
    pub fn queue(&self) -> f64 {
        self.backlog() + self.clumped.0
    }

    /// Returns whether no request can wait in this interval, nor clump.
    pub fn is_calm(&self, point: &Measured) -> bool {
        let calm = |bucket: &FluidBucket| {
            let need = bucket.demand(point);
            need <= CLUMPS_FROM * bucket.rate || (bucket.is_credits() && (need - bucket.rate) * point.duration_s <= bucket.level)
        };
        self.backlog.is_empty() && self.buckets.iter().all(calm)
    }

    /// Simulates an interval that begins at `t_s` and adds its outcome to `step`. `keep_queue`
    /// carries requests that were not served into the next interval.
    #[inline]
    pub fn step(&mut self, point: &Measured, t_s: f64, keep_queue: bool, waits: &mut Waits, step: &mut Step) {
        let seconds = point.duration_s;
        let mut free = self.backlog.is_empty();
        let mut near = false;
        for bucket in &mut self.buckets {
            bucket.need = bucket.demand(point);
            near |= bucket.need > CLUMPS_FROM * bucket.rate;
            free &= bucket.need * seconds <= bucket.level + bucket.rate * seconds;
        }
        if (near || self.near) && self.independent_arrivals && self.backlog.is_empty() {
            if self.can_clump(point) {
                self.clump(point, t_s, step, waits);
                return;
            }
            free &= !self.end_clumps(point, t_s, step);
            // Above a cap clumps use up the reserve before the mean does.
            free &= !self.buckets.iter().any(|bucket| !bucket.is_credits() && bucket.need > bucket.rate);
        }
        if free {
            for bucket in &mut self.buckets {
                let need = bucket.need;
                bucket.pass(seconds, need);
            }
            if self.has_credits {
                self.note_levels(t_s + seconds);
            }
            waits.add_none(point.iops * seconds);
            step.delivered += point.iops * seconds;
            step.delivered_bytes += point.bytes_s * seconds;
            return;
        }
        let (mut now, end) = (t_s, t_s + seconds);
        self.interval += 1;
        if !self.backlog.is_empty() && point.iops > 0.0 {
            self.begin_batch(point, now);
        }
        while now < end {
            now = match self.backlog.front().copied() {
                None => self.flow(point, now, end, step, waits),
                Some(head) => self.drain(&head, point, (now, end), step, waits),
            };
            self.note_levels(now);
        }
        if !keep_queue {
            self.backlog.clear();
        }
        if self.backlog.is_empty() {
            self.queued = 0.0;
        }
    }

    /// Returns whether requests of this interval can wait only in clumps: some cap is near, none is
    /// exceeded for long, and credits last.
    fn can_clump(&self, point: &Measured) -> bool {
        let seconds = point.duration_s;
        let mut some = false;
        let within = |bucket: &FluidBucket| {
            if bucket.is_credits() {
                return bucket.need * seconds <= bucket.level + bucket.rate * seconds;
            }
            if bucket.need <= CLUMPS_FROM * bucket.rate {
                return true;
            }
            some = true;
            let walk = bucket.walk(point);
            match &bucket.near {
                None => !walk.is_a_line(seconds),
                Some(near) => !near.is_a_line(&walk, seconds),
            }
        };
        self.buckets.iter().all(within) && some
    }

    /// Lets independent arrivals come near a cap ([`crate::demand::near_cap`]): the reserve takes
    /// what exceeds the main part, against its refill; once the reserve is used up, requests wait.
    fn clump(&mut self, point: &Measured, t_s: f64, step: &mut Step, waits: &mut Waits) {
        let seconds = point.duration_s;
        let arrivals = point.iops * seconds;
        waits.add_none(arrivals);
        let (mut waiting, mut longest_s) = (0.0, 0.0_f64);
        // Requests that wait for two limits at once count for no longer than the interval.
        let mut calm_s = seconds;
        self.near = true;
        for bucket in &mut self.buckets {
            if bucket.is_credits() || bucket.need <= CLUMPS_FROM * bucket.rate {
                let need = bucket.need;
                bucket.pass(seconds, need);
                bucket.near = None;
                continue;
            }
            let (walk, parts) = (bucket.walk(point), bucket.parts());
            if bucket.near.is_none() && walk.spares(parts, bucket.level - bucket.main_depth, bucket.scatter, seconds) {
                let (drain, variance) = walk.reserve_loss(parts);
                bucket.level = (bucket.level - drain * seconds).min(bucket.depth);
                bucket.scatter = if bucket.level < bucket.depth { bucket.scatter + variance * seconds } else { 0.0 };
                continue;
            }
            let mut near = bucket.near.take().unwrap_or_else(|| {
                self.episodes += 1;
                Box::new(NearCap::new(parts, bucket.level, bucket.scatter, self.episodes))
            });
            bucket.scatter = 0.0;
            self.clumped_parts += 1;
            let (mut share, mut wait_s) = (0.0, 0.0);
            let parts_so_far = if self.backlogs { usize::MAX } else { self.clumped_parts };
            near.pass(&walk, parts, seconds, parts_so_far, &mut |look| {
                share += look.share;
                wait_s += look.share * look.tokens / bucket.rate;
                let ms = look.tokens / bucket.rate * 1e3;
                step.sampled.push((look.path, Served { requests: arrivals * look.share, from_ms: ms, to_ms: ms }));
            });
            bucket.level = near.level(parts);
            (share, wait_s) = (share / WALKS as f64, wait_s / WALKS as f64);
            if share > 0.0 {
                let waits_s = (share * seconds).min(calm_s);
                calm_s -= waits_s;
                step.stretches.push((t_s + seconds * (1.0 - share), waits_s, bucket.cap));
                step.wait_sum_s += arrivals * wait_s;
                let most_s = near.most(&walk, parts) / bucket.rate;
                step.longest_wait_s = step.longest_wait_s.max(most_s);
                longest_s = longest_s.max(most_s);
                // Little's law.
                waiting += point.iops * wait_s;
            }
            bucket.near = Some(near);
        }
        self.note_levels(t_s + seconds);
        // One member's queue is at its longest while the others' are as usual.
        step.peak_queue = step.peak_queue.max(waiting + (point.iops * longest_s - waiting).max(0.0) / self.members);
        let waiting = (waiting, waiting * point.bytes_s / point.iops.max(1e-9));
        step.delivered += arrivals + self.clumped.0 - waiting.0;
        step.delivered_bytes += point.bytes_s * seconds + self.clumped.1 - waiting.1;
        self.clumped = waiting;
    }

    /// Ends the clumps near a cap with this interval. Requests that wait are served at once, or are
    /// a backlog from now on; returns true for a backlog.
    fn end_clumps(&mut self, point: &Measured, t_s: f64, step: &mut Step) -> bool {
        let (requests, bytes) = std::mem::take(&mut self.clumped);
        self.near = false;
        let mut exceeded = false;
        for bucket in &mut self.buckets {
            bucket.scatter = 0.0;
            if bucket.near.take().is_some() && bucket.need > CLUMPS_FROM * bucket.rate {
                exceeded = true;
                if requests > 0.0 {
                    bucket.level = 0.0;
                }
            }
        }
        if requests <= 0.0 {
            return false;
        }
        if exceeded && point.iops > 0.0 {
            let before = Measured { duration_s: requests / point.iops, ..*point };
            self.backlog.push_back(Batch { point: before, interval: self.interval, arrived_s: t_s - before.duration_s, requests });
            self.queued = requests;
            return true;
        }
        // Their waits are counted already.
        step.delivered += requests;
        step.delivered_bytes += bytes;
        false
    }

    /// Opens an empty batch of the backlog for requests of `point` that arrive from `now` on, s.
    fn begin_batch(&mut self, point: &Measured, now: f64) {
        self.backlog.push_back(Batch { point: *point, interval: self.interval, arrived_s: now, requests: 0.0 });
    }

    /// Lets requests pass as they come, while none waits, until a bucket that gives less than it is
    /// asked for runs empty. Returns the time reached, s.
    fn flow(&mut self, point: &Measured, now: f64, end: f64, step: &mut Step, waits: &mut Waits) -> f64 {
        let mut until = end;
        for bucket in &mut self.buckets {
            bucket.need = bucket.demand(point);
            if self.independent_arrivals && !bucket.is_credits() && bucket.need > bucket.rate && bucket.level > bucket.main_depth {
                // Clumps use up the reserve faster than the mean does.
                let walk = bucket.walk(point);
                bucket.need = bucket.need.max(bucket.rate + walk.overflow(bucket.main_depth) - walk.unused(bucket.main_depth) * RESERVE_REFILL);
            }
            // The margin keeps rounding from calling a demand that equals the rate too much.
            if bucket.need > bucket.rate * (1.0 + 1e-12) {
                until = until.min(now + if bucket.is_empty() { 0.0 } else { seconds_to_empty(bucket.level, bucket.need, bucket.rate).max(least_step(now)) });
            }
        }
        let seconds = until - now;
        for bucket in &mut self.buckets {
            let need = bucket.need;
            bucket.pass(seconds, need);
        }
        if seconds > 0.0 && point.iops > 0.0 {
            step.serve(point.iops * seconds, point.bytes_s / point.iops, (0.0, 0.0), waits);
        }
        if until < end {
            self.begin_batch(point, until);
        }
        until
    }

    /// Serves the head of the backlog: at once while every bucket holds something, then at the rate
    /// of the slowest that is empty, until the head is worked off, another bucket runs empty or the
    /// interval ends. Returns the time reached.
    fn drain(&mut self, head: &Batch, point: &Measured, (now, end): (f64, f64), step: &mut Step, waits: &mut Waits) -> f64 {
        let per_request = 1.0 / head.point.iops;
        let mut at_once = head.requests;
        for bucket in &mut self.buckets {
            bucket.cost = bucket.demand(&head.point) * per_request;
            if bucket.is_empty() && bucket.cost > 0.0 {
                at_once = 0.0;
            } else if bucket.cost * at_once > bucket.level {
                at_once = bucket.level / bucket.cost;
            }
        }
        if at_once > 0.0 {
            for bucket in &mut self.buckets {
                bucket.level = (bucket.level - at_once * bucket.cost).max(0.0);
            }
        }
        if self.serve_head(at_once, now, now, step, waits) && head.interval != self.interval {
            return now;
        }
        let limits = self.buckets.iter().filter(|bucket| bucket.is_empty() && bucket.cost > 0.0).map(|bucket| (bucket.rate / bucket.cost, bucket.cap));
        let Some((rate, cap)) = limits.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            // Nothing is empty, so nothing needs to wait: the head was the interval's own batch and
            // is worked off.
            self.backlog.clear();
            return now;
        };
        let live = head.interval == self.interval;
        let inflow = if live { point.iops } else { 0.0 };
        let waiting = head.requests - at_once;
        let mut until = if rate > inflow { end.min(now + waiting / (rate - inflow)) } else { end };
        for bucket in self.buckets.iter().filter(|bucket| !bucket.is_empty() && rate * bucket.cost > bucket.rate) {
            until = until.min(now + seconds_to_empty(bucket.level, rate * bucket.cost, bucket.rate));
        }
        until = until.max(now + least_step(now)).min(end);
        let seconds = until - now;
        for bucket in &mut self.buckets {
            let taken = rate * bucket.cost;
            bucket.pass(seconds, taken);
        }
        if let Some(last) = self.backlog.back_mut().filter(|last| last.interval == self.interval) {
            last.requests += point.iops * seconds;
            self.queued += point.iops * seconds;
        }
        if seconds > 0.0 {
            step.stretches.push((now, seconds, cap));
        }
        self.serve_head(rate * seconds, now, until, step, waits);
        until
    }

    /// Serves `requests` of the backlog's head between two times, s. Returns whether it is worked
    /// off; it is then removed, unless it is the interval's own batch and no time has passed.
    fn serve_head(&mut self, requests: f64, from: f64, to: f64, step: &mut Step, waits: &mut Waits) -> bool {
        let Some(head) = self.backlog.front_mut() else { return true };
        let requests = requests.min(head.requests);
        let first = from - head.arrived_s;
        head.arrived_s += requests / head.point.iops;
        head.requests -= requests;
        self.queued -= requests;
        let waits_s = (first, to - head.arrived_s);
        if requests > 0.0 {
            step.serve(requests, head.point.bytes_s / head.point.iops, waits_s, waits);
        }
        // A request in a billion is rounding.
        let done = head.requests <= 1e-9 * (head.point.iops * head.point.duration_s);
        if done && (to > from || head.interval != self.interval) {
            self.backlog.pop_front();
        }
        done
    }

    /// Returns the lowest level of the buckets of a kind, percent.
    pub fn percent_of(&self, cap: Cap) -> Option<f64> {
        self.buckets.iter().filter(|bucket| bucket.cap == cap).map(FluidBucket::percent).min_by(f64::total_cmp)
    }

    /// Returns the credits of the instance for I/Os and for bytes, percent of their depth.
    pub fn instance_percents(&self) -> [Option<f64>; 2] {
        [Measure::Units, Measure::Bytes]
            .map(|measure| self.buckets.iter().find(|bucket| bucket.cap == Cap::InstanceCredits && bucket.measure == measure).map(FluidBucket::percent))
    }
}
