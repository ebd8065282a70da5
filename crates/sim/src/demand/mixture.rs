//! Latency percentiles of the interval form: what requests waited, plus what they take once
//! started.
//!
//! The interval form knows how long requests waited for a limit in each interval, and the
//! distribution of their own latency. The share of requests above x is then the sum over waits w of
//! weight(w) * P(own > x - w), and a percentile is the x at which that falls to 1 - q.

use headrace_catalog::{RaidLevel, VolumeType};
use headrace_model::latency::LatencyProfile;
use headrace_model::Op;
use std::sync::{Arc, Mutex};

/// Mixes whose tables are kept: types x layouts of a plan, several times over; 6 KiB each.
const MAX_TABLES: usize = 512;

/// A scale that is logarithmic by octave and linear inside one: a number's exponent and the first
/// bits of its mantissa, read off its representation. No logarithm, and the same on every machine.
#[derive(Clone, Copy, Debug)]
struct Octaves {
    /// A power of two.
    from: f64,
    /// 2^bits cells per octave.
    bits: u32,
    cells: usize,
}

impl Octaves {
    /// Returns the cell of `x` and how far into it `x` lies, 0-1; None below the scale, the last
    /// cell above it.
    #[inline]
    fn place(&self, x: f64) -> Option<(usize, f64)> {
        if x < self.from {
            return None;
        }
        let offset = x.to_bits() - self.from.to_bits();
        let cell = (offset >> (52 - self.bits)) as usize;
        if cell >= self.cells {
            return Some((self.cells - 1, 1.0));
        }
        let inside = offset & ((1 << (52 - self.bits)) - 1);
        Some((cell, inside as f64 / (1u64 << (52 - self.bits)) as f64))
    }

    /// Returns the begin of a cell.
    fn start(&self, cell: usize) -> f64 {
        f64::from_bits(self.from.to_bits() + ((cell as u64) << (52 - self.bits)))
    }
}

/// Waits are kept in cells of an eighth of an octave from 1 us to 300 h, ms, each with the mean of
/// its waits: a wait is at most a sixteenth off, usually far less.
const WAIT_CELLS: usize = 320;
const WAITS: Octaves = Octaves { from: 1.0 / 1_024.0, bits: 3, cells: WAIT_CELLS };
/// The own-latency distribution is tabulated at 32 places per octave from 8 us to 131 s and
/// interpolated.
const LATENCY_SCALE: Octaves = Octaves { from: 1.0 / 128.0, bits: 5, cells: 24 * 32 };

/// Waits for limits, weighted by requests.
#[derive(Clone, Debug)]
pub struct Waits {
    none: f64,
    /// Requests and the sum of their waits, ms.
    cells: [(f64, f64); WAIT_CELLS],
    total: f64,
    sum_ms: f64,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { none: 0.0, cells: [(0.0, 0.0); WAIT_CELLS], total: 0.0, sum_ms: 0.0 }
    }
}

impl Waits {
    /// Adds `requests` that did not wait.
    #[inline]
    pub fn add_none(&mut self, requests: f64) {
        self.none += requests;
        self.total += requests;
    }

    /// Adds `requests` whose waits lie evenly between two values, ms.
    pub fn add(&mut self, requests: f64, from_ms: f64, to_ms: f64) {
        let (low, high) = (from_ms.min(to_ms), from_ms.max(to_ms));
        self.total += requests;
        self.sum_ms += requests * 0.5 * (low + high);
        if high <= 0.0 {
            self.none += requests;
            return;
        }
        let steps = if high > low * 1.1 { 8 } else { 1 };
        for step in 0..steps {
            let wait = low + (high - low) * (step as f64 + 0.5) / steps as f64;
            let share = requests / steps as f64;
            match WAITS.place(wait) {
                Some((cell, _)) => {
                    self.cells[cell].0 += share;
                    self.cells[cell].1 += share * wait;
                }
                None => self.none += share,
            }
        }
    }

    /// Raises the total to `requests`: those that were not added yet did not wait.
    pub fn complete(&mut self, requests: f64) {
        self.add_none((requests - self.total).max(0.0));
    }

    /// Lets `requests` of those that did not wait have waited after all: `wait_ms`.
    pub fn delay(&mut self, requests: f64, wait_ms: f64) {
        let delayed = requests.min(self.none);
        if delayed > 0.0 {
            self.none -= delayed;
            self.total -= delayed;
            self.add(delayed, wait_ms, wait_ms);
        }
    }

    /// Returns whether any request waited.
    pub fn any(&self) -> bool {
        self.none < self.total
    }

    /// Returns the mean wait, ms.
    pub fn mean_ms(&self) -> f64 {
        if self.total > 0.0 {
            self.sum_ms / self.total
        } else {
            0.0
        }
    }
}

/// Distribution of own latency of a mix of reads and writes on a device.
#[derive(Clone, Debug)]
pub struct OwnLatency {
    exceeds: Vec<f64>,
    mean_ms: f64,
}

/// Facts that decide a device's own latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnLatencyKey {
    /// Type of the members.
    pub volume_type: VolumeType,
    /// Day of the parameters.
    pub as_of: chrono::NaiveDate,
    /// RAID level.
    pub raid: Option<RaidLevel>,
    /// Number of members.
    pub members: usize,
    /// Share of reads.
    pub read_share: f64,
    /// Mean size of a read, bytes.
    pub read_bytes: f64,
    /// Mean size of a write, bytes.
    pub write_bytes: f64,
}

impl OwnLatency {
    /// Returns the table of a mix. Tables are cached, because plans ask for the same few again and
    /// again; the oldest are dropped when there are many.
    pub fn cached(key: &OwnLatencyKey) -> Arc<OwnLatency> {
        static TABLES: Mutex<Vec<(OwnLatencyKey, Arc<OwnLatency>)>> = Mutex::new(Vec::new());
        let find = |tables: &[(OwnLatencyKey, Arc<OwnLatency>)]| tables.iter().find(|(entry, _)| entry == key).map(|(_, table)| Arc::clone(table));
        let lock = || TABLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(table) = find(&lock()) {
            return table;
        }
        let table = Arc::new(OwnLatency::new(key));
        let mut tables = lock();
        if tables.len() >= MAX_TABLES {
            tables.remove(0);
        }
        tables.push((*key, Arc::clone(&table)));
        table
    }

    /// Tabulates the mix.
    pub fn new(key: &OwnLatencyKey) -> OwnLatency {
        let read = LatencyProfile::of(key.volume_type, Op::Read, key.as_of);
        let write = LatencyProfile::of(key.volume_type, Op::Write, key.as_of);
        // A mirrored write is done when the last copy is; a small RAID 5 write first reads, then
        // writes two.
        let copies = match key.raid {
            Some(RaidLevel::Raid1) => key.members as i32,
            Some(RaidLevel::Raid10 | RaidLevel::Raid10F2 | RaidLevel::Raid5) => 2,
            _ => 1,
        };
        let (read_shift, write_shift) = (read.size_us(key.read_bytes), write.size_us(key.write_bytes));
        let before = if key.raid == Some(RaidLevel::Raid5) { read.mean_us() + read_shift } else { 0.0 };
        let at = |x_ms: f64| {
            let x_us = x_ms * 1e3;
            let reads = read.exceeds(x_us - read_shift);
            let copy_exceeds = write.exceeds(x_us - write_shift - before);
            let mut none_exceeds = 1.0;
            (0..copies).for_each(|_| none_exceeds *= 1.0 - copy_exceeds);
            key.read_share * reads + (1.0 - key.read_share) * (1.0 - none_exceeds)
        };
        let exceeds: Vec<f64> = (0..=LATENCY_SCALE.cells).map(|cell| at(LATENCY_SCALE.start(cell))).collect();
        // Mean as the integral of P(L > x).
        let stretch = |cell: usize| 0.5 * (exceeds[cell] + exceeds[cell + 1]) * (LATENCY_SCALE.start(cell + 1) - LATENCY_SCALE.start(cell));
        let mean_ms = LATENCY_SCALE.from + (0..LATENCY_SCALE.cells).map(stretch).sum::<f64>();
        OwnLatency { exceeds, mean_ms }
    }

    /// Returns the mean, ms.
    pub fn mean_ms(&self) -> f64 {
        self.mean_ms
    }

    /// Returns the share of requests, 0-1, whose own latency, without waits for limits, is above
    /// `x_ms`; beyond the end of the table it is the share there.
    #[inline]
    pub fn exceeds(&self, x_ms: f64) -> f64 {
        match LATENCY_SCALE.place(x_ms) {
            None => 1.0,
            Some((cell, fraction)) => self.exceeds[cell] + (self.exceeds[cell + 1] - self.exceeds[cell]) * fraction,
        }
    }

    /// Returns the latencies that shares `1 - q` of requests exceed, ms, with `waits` added;
    /// `quantiles` must rise. Without any requests no waits are added.
    pub fn percentiles_ms<const N: usize>(&self, waits: &Waits, quantiles: [f64; N]) -> [f64; N] {
        let mix = WaitMix::new(self, waits);
        let mut least = LATENCY_SCALE.from;
        quantiles.map(|q| {
            // The last step of the search leaves a small interval open; a higher percentile must
            // not fall below a lower one inside it.
            least = mix.percentile(q, least);
            least
        })
    }

    /// Raises `best` to the same percentiles where these are higher.
    pub(crate) fn raise_percentiles_ms<const N: usize>(&self, waits: &Waits, quantiles: [f64; N], best: &mut [f64; N]) {
        let mix = WaitMix::new(self, waits);
        let mut least = 0.0;
        for (q, best) in quantiles.into_iter().zip(best) {
            // One look tells whether it is higher; most are not.
            if mix.above(*best * (1.0 + RESOLUTION)) > 1.0 - q {
                *best = mix.percentile(q, *best);
            }
            *best = best.max(least);
            least = *best;
        }
    }
}

/// Percentiles are known to this part: far inside the width of a cell.
const RESOLUTION: f64 = 1e-5;

/// Waits and own latency together.
struct WaitMix<'a> {
    own: &'a OwnLatency,
    none: f64,
    total: f64,
    /// Waits, ms, with their weights.
    used: Vec<(f64, f64)>,
}

impl WaitMix<'_> {
    /// Joins waits and own latency; without any requests all weight is on requests that do not
    /// wait.
    fn new<'a>(own: &'a OwnLatency, waits: &Waits) -> WaitMix<'a> {
        let some = waits.total > 0.0;
        let used = waits.cells.iter().filter(|cell| cell.0 > 0.0).map(|&(weight, sum)| (sum / weight, weight)).collect();
        WaitMix { own, none: if some { waits.none } else { 1.0 }, total: if some { waits.total } else { 1.0 }, used }
    }

    /// Returns the share of requests above `x_ms`, 0-1.
    fn above(&self, x_ms: f64) -> f64 {
        let waited: f64 = self.used.iter().map(|(wait, weight)| weight * if x_ms > *wait { self.own.exceeds(x_ms - wait) } else { 1.0 }).sum();
        (self.none * self.own.exceeds(x_ms) + waited) / self.total
    }

    /// Returns the latency that a share `1 - q` of requests exceeds, at least `least_ms`, ms: by
    /// halving on a log scale.
    fn percentile(&self, q: f64, least_ms: f64) -> f64 {
        let longest = self.used.last().map_or(0.0, |(wait, _)| *wait);
        let (mut low, mut high) = (least_ms, longest + 2e5);
        while high > low * (1.0 + RESOLUTION) {
            let middle = (low * high).sqrt();
            if self.above(middle) > 1.0 - q {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}
