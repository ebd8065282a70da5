//! The model's buckets in closed form: the arithmetic of the per-interval form.
//!
//! Within an interval demand is constant, so what has come by time t is a line, and so is what each bucket has allowed by then: its level plus its rate
//! times t. What has been delivered is the lowest of these lines:
//!
//! ```text
//!  requests |            / asked = queue + demand * t
//!           |          /      _.- burst cap:  level + 3000 t
//!           |        / _ . -  __.. credits:   balance + 1500 t
//!           |     _/-  __..--
//!           |  _/__..--        delivered = lowest line; the moment of depletion is where two lines cross
//!           +------------------------> t
//! ```
//!
//! That is exact for constant demand, because delivered work only ever bends down, so a bucket can overflow only at the end of the interval (its level is
//! convex in t). An array is the union of its members' buckets, each charged with its share of every request; the instance adds its own. What this form leaves out: requests are
//! fluid (no single one waits for a fraction of a token), and chance (Poisson clumps below the cap, holds).

use crate::load::OpenLoad;
use crate::mixture::OwnLatencyKey;
use crate::setup::Setup;
use headrace_catalog::{InstanceLimits, VolumeLimits};
use headrace_model::accounting::Accounting;
use headrace_model::array::Amplification;
use headrace_model::bucket::RESERVE_REFILL;
use headrace_model::modification::Rates;
use headrace_model::Cap;

/// Main part of a cap, s of tokens, as in the model's bucket.
const MAIN_DEPTH_S: f64 = 1.0 / 64.0;
/// As the model's instance: full again after a day.
const DAY_S: f64 = 86_400.0;

/// What a request is counted in by one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// 256 KiB units.
    Units,
    /// Bytes.
    Bytes,
    /// Bytes of HDD types: a random request counts as 1 MiB.
    HddBytes,
}

/// One bucket of a volume or instance.
#[derive(Clone, Debug)]
struct Line {
    cap: Cap,
    measure: Measure,
    rate: f64,
    level: f64,
    main_depth: f64,
    depth: f64,
    /// Tokens per unit of reads and of writes: this member's share.
    per_read: f64,
    per_write: f64,
    waiting: f64,
    // Work of the interval at hand.
    need: f64,
}

/// Demand of one point in every measure, for reads and writes: computed once, used for every storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub duration_s: f64,
    pub iops: f64,
    pub bytes_s: f64,
    read_units: f64,
    write_units: f64,
    read_bytes: f64,
    write_bytes: f64,
    read_hdd: f64,
    write_hdd: f64,
}

/// An open load measured for devices of one chunk size.
#[derive(Clone, Debug)]
pub struct MeasuredLoad {
    pub(crate) points: Vec<Measured>,
    mix: Mix,
}

/// What own latency depends on.
#[derive(Clone, Copy, Debug)]
struct Mix {
    read_share: f64,
    read_bytes: f64,
    write_bytes: f64,
}

fn ssd() -> Accounting {
    Accounting::instance()
}

impl MeasuredLoad {
    /// Measures a load for devices whose stripes have chunks of `chunk_bytes` (none: single volumes). `hdd` gives the 1 MiB accounting.
    pub fn new(load: &OpenLoad, chunk_bytes: Option<f64>, hdd: Option<&VolumeLimits>) -> MeasuredLoad {
        let hdd = hdd.map(Accounting::new);
        let measure = |rate: f64, bytes: f64, sequential: f64| {
            // A request larger than a chunk becomes one part per chunk.
            let parts = chunk_bytes.map_or(1.0, |chunk| (bytes / chunk).ceil().max(1.0));
            let (units, _) = ssd().mean_charge(bytes / parts, sequential);
            let hdd_bytes = hdd.map_or(0.0, |hdd| hdd.mean_charge(bytes / parts, sequential).1 * parts);
            (rate * units * parts, rate * bytes, rate * hdd_bytes)
        };
        let mut mix = Mix { read_share: 0.0, read_bytes: 0.0, write_bytes: 0.0 };
        let (mut reads, mut writes) = (0.0, 0.0);
        let points = load
            .points
            .iter()
            .map(|point| {
                let (read_units, read_bytes, read_hdd) = measure(point.reads_per_s, point.read_bytes, load.sequential_read_share);
                let (write_units, write_bytes, write_hdd) = measure(point.writes_per_s, point.write_bytes, load.sequential_write_share);
                reads += point.reads_per_s * point.duration_s;
                writes += point.writes_per_s * point.duration_s;
                mix.read_bytes += read_bytes * point.duration_s;
                mix.write_bytes += write_bytes * point.duration_s;
                let (iops, bytes_s) = (point.iops(), point.bytes_s());
                Measured { duration_s: point.duration_s, iops, bytes_s, read_units, write_units, read_bytes, write_bytes, read_hdd, write_hdd }
            })
            .collect();
        mix.read_bytes /= f64::max(reads, 1e-9);
        mix.write_bytes /= f64::max(writes, 1e-9);
        mix.read_share = if reads + writes > 0.0 { reads / (reads + writes) } else { 1.0 };
        MeasuredLoad { points, mix }
    }

    /// Key of the own latency of this load on a storage.
    pub fn latency_key(&self, setup: &Setup) -> OwnLatencyKey {
        let first = &setup.limits[0];
        OwnLatencyKey {
            volume_type: first.spec.volume_type,
            as_of: first.as_of,
            raid: setup.storage.raid,
            members: setup.limits.len(),
            read_share: self.mix.read_share,
            read_bytes: self.mix.read_bytes,
            write_bytes: self.mix.write_bytes,
        }
    }
}

impl Line {
    fn cap(cap: Cap, measure: Measure, rate: f64, shares: (f64, f64), saved_second: bool) -> Line {
        let main_depth = (rate * MAIN_DEPTH_S).max(1.0);
        let depth = if saved_second { rate.max(main_depth) } else { main_depth };
        Line { cap, measure, rate, level: depth, main_depth, depth, per_read: shares.0, per_write: shares.1, waiting: 0.0, need: 0.0 }
    }

    fn credits(cap: Cap, measure: Measure, refill: f64, capacity: f64, initial: f64, shares: (f64, f64)) -> Line {
        let (per_read, per_write) = shares;
        Line { cap, measure, rate: refill, level: initial, main_depth: capacity, depth: capacity, per_read, per_write, waiting: 0.0, need: 0.0 }
    }

    fn is_like(&self, other: &Line) -> bool {
        self.cap == other.cap && self.measure == other.measure && self.rate == other.rate && self.depth == other.depth
    }

    #[inline]
    fn is_credits(&self) -> bool {
        matches!(self.cap, Cap::VolumeCredits | Cap::InstanceCredits)
    }

    fn percent(&self) -> f64 {
        100.0 * self.level / self.depth
    }

    #[inline]
    fn demand(&self, point: &Measured) -> f64 {
        let (reads, writes) = match self.measure {
            Measure::Units => (point.read_units, point.write_units),
            Measure::Bytes => (point.read_bytes, point.write_bytes),
            Measure::HddBytes => (point.read_hdd, point.write_hdd),
        };
        self.per_read * reads + self.per_write * writes
    }

    /// Level after an interval: `drop` tokens taken at once at its start, `taken` in all.
    #[inline]
    fn settle(&mut self, seconds: f64, drop: f64, taken: f64) {
        let low = (self.level - drop).max(0.0);
        let end = low + self.rate * seconds - (taken - drop);
        // Above the main part a cap refills at a fraction of what is left over.
        let knee = self.main_depth.max(low);
        self.level = if end <= knee { end.max(0.0) } else { (knee + (end - knee) * if self.depth > self.main_depth { RESERVE_REFILL } else { 1.0 }).min(self.depth) };
    }
}

/// The buckets of a storage and its instance.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    lines: Vec<Line>,
    pub queue: f64,
    queue_bytes: f64,
    next_top_up_s: f64,
}

/// What one interval came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub delivered: f64,
    pub delivered_bytes: f64,
    pub throttled_s: f64,
    pub throttled_from_s: f64,
    pub wait_start_s: f64,
    pub wait_end_s: f64,
    pub cap: Cap,
    /// The limit that made requests wait before the credits were gone.
    pub cap_before_empty: Cap,
    pub empty_from_s: f64,
    pub empty_s: f64,
    pub empty_cap: Cap,
}

impl Fluid {
    /// The buckets of `setup`, full or at its start balance.
    pub fn new(setup: &Setup) -> Fluid {
        let n = setup.limits.len();
        let amplification = Amplification::of(setup.storage.raid, n);
        let per_read = amplification.reads_per_read / n as f64;
        let per_write = (amplification.reads_per_write + amplification.writes_per_write) / n as f64;
        let mut lines: Vec<Line> = Vec::new();
        for limits in &setup.limits {
            // Like members carry like shares, so their buckets are one bucket, unless something happens to one of them.
            for line in member_lines(limits, Rates::of(limits), (per_read, per_write), setup) {
                if setup.has_events() || !lines.iter().any(|known| known.is_like(&line)) {
                    lines.push(line);
                }
            }
        }
        if let Some(instance) = &setup.instance {
            lines.extend(instance_lines(instance, amplification, setup.options.saved_second));
        }
        if let Some(percent) = setup.start_balance_percent {
            for line in lines.iter_mut().filter(|line| line.is_credits()) {
                line.level = line.depth * (percent / 100.0).clamp(0.0, 1.0);
            }
        }
        Fluid { lines, queue: 0.0, queue_bytes: 0.0, next_top_up_s: DAY_S }
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

    /// One interval. `keep_queue` carries what was not delivered into the next.
    #[inline]
    pub fn step(&mut self, point: &Measured, keep_queue: bool) -> Step {
        let seconds = point.duration_s;
        let asked = point.iops * seconds;
        let mut free = self.queue == 0.0;
        for line in &mut self.lines {
            line.need = line.demand(point) * seconds;
            free &= line.need <= line.level + line.rate * seconds;
        }
        if free {
            for line in &mut self.lines {
                line.settle(seconds, 0.0, line.need);
            }
            return Step { delivered: asked, delivered_bytes: point.bytes_s * seconds, ..Step::default() };
        }
        self.step_throttled(point, keep_queue)
    }

    fn step_throttled(&mut self, point: &Measured, keep_queue: bool) -> Step {
        let seconds = point.duration_s;
        let total = self.queue + point.iops * seconds;
        let total_bytes = self.queue_bytes + point.bytes_s * seconds;
        if total <= 0.0 {
            return Step::default();
        }
        // Excess of what was asked over what line i allows, in requests: e + s t. Positive: line i makes requests wait.
        let excess = |line: &Line| {
            let tokens_per_request = (line.waiting + line.need) / total;
            if tokens_per_request <= 0.0 {
                return (f64::NEG_INFINITY, 0.0, f64::INFINITY);
            }
            let allowed_per_s = line.rate / tokens_per_request;
            (self.queue - line.level / tokens_per_request, point.iops - allowed_per_s, allowed_per_s)
        };
        let mut step = Step { throttled_from_s: seconds, ..Step::default() };
        let (mut prefix, mut suffix) = (0.0f64, seconds);
        let (mut delivered, mut drop) = (total, self.queue);
        let (mut worst, mut worst_prefix) = (0.0, 0.0);
        let mut worst_cap = 0.0;
        for line in &self.lines {
            let (e, s, allowed_per_s) = excess(line);
            if e == f64::NEG_INFINITY {
                continue;
            }
            if !line.is_credits() && (e + s * seconds).max(e) > worst_cap {
                (worst_cap, step.cap_before_empty) = ((e + s * seconds).max(e), line.cap);
            }
            drop = drop.min(self.queue - e);
            let at_end = e + s * seconds;
            delivered = delivered.min(total - at_end);
            step.wait_start_s = step.wait_start_s.max(e / allowed_per_s);
            step.wait_end_s = step.wait_end_s.max(at_end / allowed_per_s);
            if at_end > worst {
                (worst, step.cap) = (at_end, line.cap);
            }
            if e > 0.0 {
                prefix = prefix.max(if s < 0.0 { (-e / s).min(seconds) } else { seconds });
                if worst == 0.0 && e > worst_prefix {
                    (worst_prefix, step.cap) = (e, line.cap);
                }
            } else if s > 0.0 {
                suffix = suffix.min(-e / s);
            }
        }
        step.throttled_s = if prefix >= suffix { seconds } else { prefix + (seconds - suffix).max(0.0) };
        step.throttled_from_s = if prefix > 0.0 { 0.0 } else { suffix };
        self.find_empty(&mut step, &excess, seconds);
        let share = (delivered / total).clamp(0.0, 1.0);
        let (drop, delivered) = (drop.clamp(0.0, delivered.max(0.0)), delivered.max(0.0));
        for line in &mut self.lines {
            let tokens = line.waiting + line.need;
            line.settle(seconds, tokens * drop / total, tokens * share);
            line.waiting = if keep_queue { tokens * (1.0 - share) } else { 0.0 };
        }
        step.delivered = delivered;
        step.delivered_bytes = total_bytes * share;
        self.queue = if keep_queue { total - delivered } else { 0.0 };
        self.queue_bytes = if keep_queue { total_bytes - step.delivered_bytes } else { 0.0 };
        if self.queue < 1e-9 * total {
            self.queue = 0.0;
            self.queue_bytes = 0.0;
            self.lines.iter_mut().for_each(|line| line.waiting = 0.0);
        }
        step
    }

    /// From when on a credit line is the one that binds: credits are gone.
    fn find_empty(&self, step: &mut Step, excess: &dyn Fn(&Line) -> (f64, f64, f64), seconds: f64) {
        for credits in self.lines.iter().filter(|line| line.is_credits()) {
            let (e, s, _) = excess(credits);
            if e == f64::NEG_INFINITY {
                continue;
            }
            // Above zero and above every other line: credit lines refill slowest, so once above they stay.
            let (mut from, mut until) = (0.0f64, seconds);
            let others = self.lines.iter().filter(|line| !std::ptr::eq(*line, credits)).map(excess).filter(|other| other.0 > f64::NEG_INFINITY);
            for (other_e, other_s) in others.map(|(e, s, _)| (e, s)).chain([(0.0, 0.0)]) {
                let (gap, slope) = (e - other_e, s - other_s);
                if slope > 0.0 {
                    from = from.max(-gap / slope);
                } else if slope < 0.0 {
                    until = until.min(-gap / slope);
                } else if gap < 0.0 {
                    until = 0.0;
                }
            }
            if until > from && until - from > step.empty_s {
                (step.empty_from_s, step.empty_s, step.empty_cap) = (from, until - from, credits.cap);
            }
        }
    }

    /// Lowest level of the lines of one kind, percent.
    pub fn percent_of(&self, cap: Cap) -> Option<f64> {
        self.lines.iter().filter(|line| line.cap == cap).map(Line::percent).min_by(f64::total_cmp)
    }

    /// Burst buckets of the instance for I/Os and bytes, percent.
    pub fn instance_percents(&self) -> [Option<f64>; 2] {
        [Measure::Units, Measure::Bytes].map(|measure| {
            self.lines.iter().find(|line| line.cap == Cap::InstanceCredits && line.measure == measure).map(Line::percent)
        })
    }
}

fn member_lines(limits: &VolumeLimits, rates: Rates, shares: (f64, f64), setup: &Setup) -> Vec<Line> {
    let rates = rates.scaled(setup.options.rate_per_mille);
    let saved = setup.options.saved_second;
    let hdd = limits.random_charges_full_unit;
    let byte_measure = if hdd { Measure::HddBytes } else { Measure::Bytes };
    let mut lines = Vec::with_capacity(3);
    if let Some(iops) = rates.iops {
        lines.push(Line::cap(Cap::VolumeIops, Measure::Units, iops as f64, shares, saved));
    }
    lines.push(Line::cap(Cap::VolumeThroughput, byte_measure, rates.bytes_s as f64, shares, saved));
    if let Some(burst) = &limits.io_burst {
        let (capacity, initial) = (burst.capacity_ios as f64, burst.initial_ios as f64);
        lines.push(Line::credits(Cap::VolumeCredits, Measure::Units, limits.iops as f64, capacity, initial, shares));
    }
    if let Some(burst) = &limits.byte_burst {
        let (capacity, initial) = (burst.capacity_bytes as f64, burst.initial_bytes as f64);
        lines.push(Line::credits(Cap::VolumeCredits, byte_measure, burst.baseline_bytes_s as f64, capacity, initial, shares));
    }
    lines
}

fn instance_lines(instance: &InstanceLimits, amplification: Amplification, saved: bool) -> Vec<Line> {
    let shares = (amplification.reads_per_read, amplification.reads_per_write + amplification.writes_per_write);
    let mut lines = Vec::with_capacity(4);
    let mut limit = |baseline: Option<u64>, max: Option<u64>, cap: Cap, measure: Measure| {
        let Some(max) = max.or(baseline) else { return };
        let baseline = baseline.unwrap_or(max);
        let bursts = baseline < max && instance.burst_seconds > 0;
        lines.push(Line::cap(cap, measure, if bursts { max } else { baseline } as f64, shares, saved));
        if bursts {
            let capacity = ((max - baseline) * instance.burst_seconds) as f64;
            lines.push(Line::credits(Cap::InstanceCredits, measure, baseline as f64, capacity, capacity, shares));
        }
    };
    limit(instance.baseline_iops, instance.max_iops, Cap::InstanceIops, Measure::Units);
    limit(instance.baseline_bytes_s, instance.max_bytes_s, Cap::InstanceThroughput, Measure::Bytes);
    lines
}

/// What a load asks over what a storage can give in that time, every balance spent: above 1 it cannot be delivered in full. A bound, without simulating.
pub(crate) fn overload(setup: &Setup, load: &MeasuredLoad) -> f64 {
    let fluid = Fluid::new(setup);
    let seconds: f64 = load.points.iter().map(|point| point.duration_s).sum();
    let over = |line: &Line| {
        let asked: f64 = load.points.iter().map(|point| line.demand(point) * point.duration_s).sum();
        // The instance's buckets are filled up once a day.
        let fills = if line.cap == Cap::InstanceCredits { (seconds / DAY_S).ceil().max(1.0) } else { 1.0 };
        asked / (line.level + line.depth * (fills - 1.0) + line.rate * seconds)
    };
    fluid.lines.iter().map(over).fold(0.0, f64::max)
}
