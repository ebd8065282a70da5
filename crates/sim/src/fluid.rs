//! The model's buckets in closed form: the arithmetic of the per-interval form.
//!
//! Within an interval demand is constant, so every level is a line in time until something happens: a bucket runs empty, a backlog is worked off, or the interval ends.
//! Between two such moments everything is known in closed form:
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
//! An array is the union of its members' buckets, each charged with its share of every request; the instance adds its own. Requests are fluid: no single one waits for a
//! fraction of a token. Chance comes in once: independent arrivals just below a cap wait in clumps, by a formula. Holds are left out.

use crate::measure::{Measure, Measured, MeasuredLoad};
use crate::mixture::Waits;
use crate::near_cap::{NearCap, CLUMPS_FROM};
use crate::setup::Setup;
use headrace_catalog::InstanceLimits;
use headrace_model::array::Amplification;
use headrace_model::bucket::RESERVE_REFILL;
use headrace_model::rates::Rates;
use headrace_model::Cap;
use std::collections::VecDeque;

mod cycles;
mod line;
mod step;

use line::{instance_lines, member_lines, Line};
pub(crate) use step::Step;

/// A cycle has settled when its end is this near to its start.
const SETTLED_SHARE: f64 = 1e-6;
/// As the model's instance: full again after a day.
const DAY_S: f64 = 86_400.0;

/// Whether a load is long enough to be repeated day by day: a recording of a day may lack its last hour.
pub(crate) fn is_a_day(seconds: f64) -> bool {
    seconds >= 23.0 / 24.0 * DAY_S
}

/// A step shorter than this could vanish in the rounding of the time, and the interval would never end: a billionth of the time so far.
fn least_step(now: f64) -> f64 {
    1e-9 * now.max(1.0)
}

/// The buckets of a storage and its instance.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    lines: Vec<Line>,
    backlog: VecDeque<Batch>,
    queued: f64,
    interval: u64,
    next_top_up_s: f64,
    has_credits: bool,
    /// Requests that wait near a cap, and their bytes; some line is near its cap.
    clumped: (f64, f64),
    near: bool,
    /// Members that share the requests.
    members: f64,
    /// Requests arrive independently of each other: near a cap they wait in clumps.
    pub independent_arrivals: bool,
}

/// Where a storage's buckets stand, to compare cycles by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Balances {
    levels: Vec<f64>,
    backlog: f64,
}

/// Requests of one interval that wait, in order of arrival. The last batch may be that of the interval at hand, which still grows.
#[derive(Clone, Copy, Debug)]
struct Batch {
    point: Measured,
    interval: u64,
    /// Arrival of the first one still waiting.
    arrived_s: f64,
    requests: f64,
}

impl Fluid {
    /// The buckets of `setup`, full or at its start balance.
    pub fn new(setup: &Setup) -> Fluid {
        let amplification = Amplification::of(setup.storage.raid, setup.limits.len());
        let per_read = amplification.reads_per_read;
        let per_write = amplification.reads_per_write + amplification.writes_per_write;
        let mut lines: Vec<Line> = Vec::new();
        for (limits, share) in setup.limits.iter().zip(setup.member_shares()) {
            // Like members carry like shares, so their buckets are one bucket, unless something happens to one of them.
            for line in member_lines(limits, Rates::of(limits), (per_read * share, per_write * share), setup) {
                if setup.has_events() || !lines.iter().any(|known| known.is_like(&line)) {
                    lines.push(line);
                }
            }
        }
        if let Some(instance) = setup.instance.as_ref().filter(|_| !setup.is_local()) {
            lines.extend(instance_lines(instance, amplification, setup.options.saved_second));
        }
        let mut fluid = Fluid::of_lines(lines);
        fluid.members = setup.limits.len() as f64;
        fluid.start_at(setup.start_balance_percent);
        fluid
    }

    /// The instance's buckets alone, for storages that share them; volumes then go without ([`Setup::instance`] none). Writes count once per copy.
    pub fn of_instance(instance: &InstanceLimits, saved_second: bool, start_balance_percent: Option<f64>) -> Fluid {
        let mut fluid = Fluid::of_lines(instance_lines(instance, Amplification::of(None, 1), saved_second));
        fluid.start_at(start_balance_percent);
        fluid
    }

    fn of_lines(lines: Vec<Line>) -> Fluid {
        let has_credits = lines.iter().any(Line::is_credits);
        Fluid {
            lines,
            backlog: VecDeque::new(),
            queued: 0.0,
            interval: 0,
            next_top_up_s: DAY_S,
            has_credits,
            clumped: (0.0, 0.0),
            near: false,
            members: 1.0,
            independent_arrivals: false,
        }
    }

    fn start_at(&mut self, balance_percent: Option<f64>) {
        if let Some(percent) = balance_percent {
            for line in self.lines.iter_mut().filter(|line| line.is_credits()) {
                line.level = line.depth * (percent / 100.0).clamp(0.0, 1.0);
            }
        }
    }

    /// Credits hold at least what a step refills: [`Fluid::most`] never counts on it, so what a step leaves unused counts from the first one on.
    pub(crate) fn keep_a_refill(&mut self, seconds: f64) {
        for line in self.lines.iter_mut().filter(|line| line.is_credits()) {
            line.level = line.level.max((line.rate * seconds).min(line.depth));
        }
    }

    /// Most repetitions a second of `each` that every bucket lets through over `seconds` beside `always`, and the cap that says so. What caps have saved is not counted on:
    /// a load that presses on them has spent it.
    #[inline]
    pub fn most(&self, each: &Measured, always: &Measured, seconds: f64) -> (f64, Cap) {
        let mut most = (f64::INFINITY, Cap::None);
        for line in &self.lines {
            let cost = line.demand(each);
            if cost > 0.0 {
                // A step's refill stays behind: demand that scatters around what is let through then neither loses nor gains by an empty bucket.
                let saved = if line.is_credits() { (line.level / seconds - line.rate).max(0.0) } else { 0.0 };
                let rate = (line.rate + saved - line.demand(always)).max(0.0) / cost;
                if rate < most.0 {
                    most = (rate, line.cap);
                }
            }
        }
        most
    }

    /// Takes what `seconds` of a demand cost.
    #[inline]
    pub fn take(&mut self, demand: &Measured, seconds: f64) {
        for line in &mut self.lines {
            let need = line.demand(demand);
            line.pass(seconds, need);
        }
    }

    /// How an array multiplies I/Os on their way through the instance: (per read, per write). Those of local disks do not pass its EBS limits.
    pub fn amplification(setup: &Setup) -> (f64, f64) {
        if setup.is_local() {
            return (0.0, 0.0);
        }
        let by = Amplification::of(setup.storage.raid, setup.limits.len());
        (by.reads_per_read, by.reads_per_write + by.writes_per_write)
    }

    /// Leaves out byte caps that this load cannot reach: neither by what it asks nor by working off a backlog as fast as the IOPS cap beside them lets it.
    pub fn leave_out_idle_caps(&mut self, load: &MeasuredLoad) {
        let iops_caps: Vec<Line> = self.lines.iter().filter(|line| line.measure == Measure::Units && !line.is_credits()).cloned().collect();
        self.lines.retain(|line| {
            let asked = line.per_read * load.peak_bytes_s.0 + line.per_write * load.peak_bytes_s.1;
            let idle = |iops: &Line| {
                let same_place = iops.per_read == line.per_read && iops.per_write == line.per_write;
                same_place && asked <= line.rate && iops.rate * load.bytes_per_unit <= line.rate && iops.depth * load.bytes_per_unit <= line.depth
            };
            line.measure != Measure::Bytes || line.is_credits() || !iops_caps.iter().any(idle)
        });
    }

    /// Follows degradation events and a modification: the rates members have around `t_s`.
    pub(crate) fn follow_events(&mut self, setup: &Setup, t_s: f64, seconds: f64) {
        let mut index = 0;
        for (member, limits) in setup.limits.iter().enumerate() {
            let (rates, limits) = setup.rates_around(member, limits, t_s, seconds);
            for fresh in member_lines(limits, rates, (0.0, 0.0), setup) {
                let line = &mut self.lines[index];
                (line.rate, line.main_depth, line.depth) = (fresh.rate, fresh.main_depth, fresh.depth);
                line.level = line.level.min(line.depth);
                index += 1;
            }
        }
    }

    /// The instance's burst buckets are full again after a day.
    pub(crate) fn top_up(&mut self, t_s: f64) {
        while t_s >= self.next_top_up_s {
            self.next_top_up_s += DAY_S;
            for line in self.lines.iter_mut().filter(|line| line.cap == Cap::InstanceCredits) {
                line.level = line.depth;
            }
        }
    }

    /// Requests that wait for more than a clump to pass.
    pub fn backlog(&self) -> f64 {
        if self.backlog.is_empty() {
            0.0
        } else {
            self.queued.max(0.0)
        }
    }

    /// Requests that wait.
    pub fn queue(&self) -> f64 {
        self.backlog() + self.clumped.0
    }

    /// Whether nothing can wait in this interval, nor clump.
    pub fn is_calm(&self, point: &Measured) -> bool {
        let calm = |line: &Line| {
            let need = line.demand(point);
            need <= CLUMPS_FROM * line.rate || (line.is_credits() && (need - line.rate) * point.duration_s <= line.level)
        };
        self.backlog.is_empty() && self.lines.iter().all(calm)
    }

    /// One interval that begins at `t_s`; what came of it is added to `step`. `keep_queue` carries what was not delivered into the next.
    #[inline]
    pub fn step(&mut self, point: &Measured, t_s: f64, keep_queue: bool, waits: &mut Waits, step: &mut Step) {
        let seconds = point.duration_s;
        let mut free = self.backlog.is_empty();
        let mut near = false;
        for line in &mut self.lines {
            line.need = line.demand(point);
            near |= line.need > CLUMPS_FROM * line.rate;
            free &= line.need * seconds <= line.level + line.rate * seconds;
        }
        if (near || self.near) && self.independent_arrivals && self.backlog.is_empty() {
            if self.can_clump(point) {
                self.clump(point, t_s, step, waits);
                return;
            }
            free &= !self.end_clumps(point, t_s, step);
            // Above a cap clumps use up the reserve before the mean does.
            free &= !self.lines.iter().any(|line| !line.is_credits() && line.need > line.rate);
        }
        if free {
            for line in &mut self.lines {
                let need = line.need;
                line.pass(seconds, need);
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

    /// Whether what waits in this interval waits in clumps, if at all: some cap is near, none is exceeded for long, and credits last.
    fn can_clump(&self, point: &Measured) -> bool {
        let seconds = point.duration_s;
        let mut some = false;
        let within = |line: &Line| {
            if line.is_credits() {
                return line.need * seconds <= line.level + line.rate * seconds;
            }
            if line.need <= CLUMPS_FROM * line.rate {
                return true;
            }
            some = true;
            let walk = line.walk(point);
            match &line.near {
                None => !walk.is_a_line(seconds),
                Some(near) => {
                    let mut near = *near;
                    near.follow(walk);
                    !near.is_a_line(seconds, line.main_depth)
                }
            }
        };
        self.lines.iter().all(within) && some
    }

    /// Independent arrivals near a cap ([`crate::near_cap`]): the reserve takes what exceeds the main part, against its refill; once it is used up, requests wait.
    fn clump(&mut self, point: &Measured, t_s: f64, step: &mut Step, waits: &mut Waits) {
        let seconds = point.duration_s;
        let came = point.iops * seconds;
        waits.add_none(came);
        let (mut waiting, mut longest_s) = (0.0, 0.0_f64);
        self.near = true;
        for line in &mut self.lines {
            if line.is_credits() || line.need <= CLUMPS_FROM * line.rate {
                let need = line.need;
                line.pass(seconds, need);
                line.near = None;
                continue;
            }
            let walk = line.walk(point);
            let overflow = walk.overflow(line.main_depth);
            let refill = if line.depth > line.main_depth { walk.unused(line.main_depth) * RESERVE_REFILL } else { 0.0 };
            let reserve = (line.level - line.main_depth).max(0.0);
            let drain = overflow - refill;
            line.level = (line.main_depth + reserve - drain * seconds).clamp(line.main_depth, line.depth);
            let dry_s = seconds - reserve / drain;
            if drain <= 0.0 || dry_s <= 0.0 {
                line.near = None;
                continue;
            }
            let mut near = line.near.unwrap_or_else(|| NearCap::new(walk, line.main_depth));
            near.follow(walk);
            let excess = near.pass(dry_s, line.main_depth);
            line.near = Some(near);
            // What is put back into the reserve meanwhile takes its part of the clumps.
            let chance = excess.chance * drain / overflow;
            let requests = chance * point.iops * dry_s;
            let mut mean_s = 0.0;
            for (tokens, share) in excess.levels {
                let wait_s = tokens / line.rate;
                mean_s += share * wait_s;
                step.delay(requests * share, wait_s * 1e3, waits);
            }
            step.stretches.push((t_s + seconds - dry_s, chance * dry_s, line.cap));
            step.wait_sum_s += requests * mean_s;
            step.longest_wait_s = step.longest_wait_s.max(excess.most / line.rate);
            longest_s = longest_s.max(excess.most / line.rate);
            // Little's law.
            waiting += point.iops * chance * mean_s;
        }
        self.note_levels(t_s + seconds);
        // One member's queue is at its longest while the others' are as usual.
        step.peak_queue = step.peak_queue.max(waiting + (point.iops * longest_s - waiting).max(0.0) / self.members);
        let waiting = (waiting, waiting * point.bytes_s / point.iops.max(1e-9));
        step.delivered += came + self.clumped.0 - waiting.0;
        step.delivered_bytes += point.bytes_s * seconds + self.clumped.1 - waiting.1;
        self.clumped = waiting;
    }

    /// The clumps near a cap end with this interval: what waits is served at once, or is a backlog from now on (true).
    fn end_clumps(&mut self, point: &Measured, t_s: f64, step: &mut Step) -> bool {
        let (requests, bytes) = std::mem::take(&mut self.clumped);
        self.near = false;
        let mut exceeded = false;
        for line in self.lines.iter_mut().filter(|line| line.near.is_some()) {
            line.near = None;
            if line.need > CLUMPS_FROM * line.rate {
                exceeded = true;
                line.level = 0.0;
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

    fn begin_batch(&mut self, point: &Measured, now: f64) {
        self.backlog.push_back(Batch { point: *point, interval: self.interval, arrived_s: now, requests: 0.0 });
    }

    /// Nothing waits: requests pass as they come, until a bucket that gives less than is asked runs empty. Returns the time reached.
    fn flow(&mut self, point: &Measured, now: f64, end: f64, step: &mut Step, waits: &mut Waits) -> f64 {
        let mut until = end;
        for line in &mut self.lines {
            line.need = line.demand(point);
            if self.independent_arrivals && !line.is_credits() && line.need > line.rate && line.level > line.main_depth {
                // Clumps use up the reserve faster than the mean does.
                let walk = line.walk(point);
                line.need = line.need.max(line.rate + walk.overflow(line.main_depth) - walk.unused(line.main_depth) * RESERVE_REFILL);
            }
            // The margin keeps rounding from calling a demand that equals the rate too much.
            if line.need > line.rate * (1.0 + 1e-12) {
                until = until.min(now + if line.is_empty() { 0.0 } else { (line.level / (line.need - line.rate)).max(least_step(now)) });
            }
        }
        let seconds = until - now;
        for line in &mut self.lines {
            let need = line.need;
            line.pass(seconds, need);
        }
        if seconds > 0.0 && point.iops > 0.0 {
            step.serve(point.iops * seconds, point.bytes_s / point.iops, (0.0, 0.0), waits);
        }
        if until < end {
            self.begin_batch(point, until);
        }
        until
    }

    /// The head of the backlog is served: at once while every bucket holds something, then at the rate of the slowest that is empty, until the head is
    /// worked off, another bucket runs empty or the interval ends. Returns the time reached.
    fn drain(&mut self, head: &Batch, point: &Measured, (now, end): (f64, f64), step: &mut Step, waits: &mut Waits) -> f64 {
        let per_request = 1.0 / head.point.iops;
        let mut at_once = head.requests;
        for line in &mut self.lines {
            line.cost = line.demand(&head.point) * per_request;
            if line.is_empty() && line.cost > 0.0 {
                at_once = 0.0;
            } else if line.cost * at_once > line.level {
                at_once = line.level / line.cost;
            }
        }
        if at_once > 0.0 {
            for line in &mut self.lines {
                line.level = (line.level - at_once * line.cost).max(0.0);
            }
        }
        if self.serve_head(at_once, now, now, step, waits) && head.interval != self.interval {
            return now;
        }
        let limits = self.lines.iter().filter(|line| line.is_empty() && line.cost > 0.0).map(|line| (line.rate / line.cost, line.cap));
        let Some((rate, cap)) = limits.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            // Nothing is empty, so nothing needs to wait: the head was the interval's own batch and is worked off.
            self.backlog.clear();
            return now;
        };
        let live = head.interval == self.interval;
        let inflow = if live { point.iops } else { 0.0 };
        let waiting = head.requests - at_once;
        let mut until = if rate > inflow { end.min(now + waiting / (rate - inflow)) } else { end };
        for line in self.lines.iter().filter(|line| !line.is_empty() && rate * line.cost > line.rate) {
            until = until.min(now + line.level / (rate * line.cost - line.rate));
        }
        until = until.max(now + least_step(now)).min(end);
        let seconds = until - now;
        for line in &mut self.lines {
            let taken = rate * line.cost;
            line.pass(seconds, taken);
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

    /// Serves some of the head between two times. True when it is worked off, and gone.
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

    /// Lowest level of the lines of one kind, percent.
    pub fn percent_of(&self, cap: Cap) -> Option<f64> {
        self.lines.iter().filter(|line| line.cap == cap).map(Line::percent).min_by(f64::total_cmp)
    }

    /// Burst buckets of the instance for I/Os and bytes, percent.
    pub fn instance_percents(&self) -> [Option<f64>; 2] {
        [Measure::Units, Measure::Bytes]
            .map(|measure| self.lines.iter().find(|line| line.cap == Cap::InstanceCredits && line.measure == measure).map(Line::percent))
    }
}

/// What a load asks over what a storage can give in that time, every balance spent: above 1 it cannot be delivered in full. A bound, without simulating. With `settled`
/// balances count for nothing, but for an instance's, which are filled up every day: what a repeated load spends must come back.
pub(crate) fn overload(setup: &Setup, load: &MeasuredLoad, settled: bool) -> f64 {
    let seconds = load.seconds();
    let fluid = Fluid::new(setup);
    fluid.lines.iter().map(|line| line.asked(load) / line.gives(seconds, settled)).fold(0.0, f64::max)
}
