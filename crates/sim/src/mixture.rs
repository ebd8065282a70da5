//! Latency percentiles of the interval form: what requests waited, plus what they take once started.
//!
//! The interval form knows how long requests waited for a limit in each interval, and the distribution of their own latency. The share of requests above x is then
//! the sum over waits w of weight(w) * P(own > x - w), and a percentile is the x at which that falls to 1 - q.

use headrace_catalog::{RaidLevel, VolumeType};
use headrace_model::latency::LatencyProfile;
use headrace_model::Op;

/// Waits are kept in cells a quarter of an octave wide from 1 us on: at most 9 % from the middle of a cell, on the wait only.
const CELLS_PER_OCTAVE: f64 = 4.0;
const WAIT_CELLS: usize = 160;
/// The own-latency distribution is tabulated at 32 places per octave from 8 us to 137 s and interpolated.
const GRID_PER_OCTAVE: usize = 32;
const GRID_FROM_US: f64 = 8.0;
const GRID_CELLS: usize = 24 * GRID_PER_OCTAVE;

/// Waits for limits, weighted by requests.
#[derive(Clone, Debug)]
pub struct Waits {
    none: f64,
    cells: [f64; WAIT_CELLS],
    total: f64,
    sum_ms: f64,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { none: 0.0, cells: [0.0; WAIT_CELLS], total: 0.0, sum_ms: 0.0 }
    }
}

fn cell_of(wait_ms: f64) -> Option<usize> {
    let octaves = libm::log2(wait_ms * 1e3);
    (octaves >= 0.0).then(|| ((octaves * CELLS_PER_OCTAVE) as usize).min(WAIT_CELLS - 1))
}

fn cell_middle_ms(cell: usize) -> f64 {
    libm::exp2((cell as f64 + 0.5) / CELLS_PER_OCTAVE) * 1e-3
}

impl Waits {
    /// `requests` that did not wait.
    #[inline]
    pub fn add_none(&mut self, requests: f64) {
        self.none += requests;
        self.total += requests;
    }

    /// `requests` whose waits lie evenly between two values, ms.
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
            match cell_of(wait) {
                Some(cell) => self.cells[cell] += share,
                None => self.none += share,
            }
        }
    }

    /// Of the requests that did not wait, `requests` did after all: `wait_ms`.
    pub fn delay(&mut self, requests: f64, wait_ms: f64) {
        let moved = requests.min(self.none);
        if moved > 0.0 {
            self.none -= moved;
            self.total -= moved;
            self.add(moved, wait_ms, wait_ms);
        }
    }

    /// Mean wait, ms.
    pub fn mean_ms(&self) -> f64 {
        if self.total > 0.0 { self.sum_ms / self.total } else { 0.0 }
    }
}

/// Distribution of own latency of a mix of reads and writes on a device.
#[derive(Clone, Debug)]
pub struct OwnLatency {
    exceeds: Vec<f64>,
    mean_ms: f64,
}

/// What decides a device's own latency.
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
    /// Tabulates the mix.
    pub fn new(key: &OwnLatencyKey) -> OwnLatency {
        let read = LatencyProfile::of(key.volume_type, Op::Read, key.as_of);
        let write = LatencyProfile::of(key.volume_type, Op::Write, key.as_of);
        // A mirrored write is done when the last copy is; a small RAID 5 write first reads, then writes two.
        let copies = match key.raid {
            Some(RaidLevel::Raid1) => key.members as i32,
            Some(RaidLevel::Raid10 | RaidLevel::Raid10F2 | RaidLevel::Raid5) => 2,
            _ => 1,
        };
        let (read_shift, write_shift) = (read.size_us(key.read_bytes), write.size_us(key.write_bytes));
        let before = if key.raid == Some(RaidLevel::Raid5) { read.mean_us() + read_shift } else { 0.0 };
        let at = |x_us: f64| {
            let reads = read.exceeds(x_us - read_shift);
            let one = write.exceeds(x_us - write_shift - before);
            let mut kept = 1.0;
            (0..copies).for_each(|_| kept *= 1.0 - one);
            key.read_share * reads + (1.0 - key.read_share) * (1.0 - kept)
        };
        let exceeds: Vec<f64> = (0..=GRID_CELLS).map(|i| at(grid_us(i))).collect();
        // Mean as the integral of P(L > x).
        let mut mean_us = GRID_FROM_US;
        for i in 0..GRID_CELLS {
            mean_us += 0.5 * (exceeds[i] + exceeds[i + 1]) * (grid_us(i + 1) - grid_us(i));
        }
        OwnLatency { exceeds, mean_ms: mean_us / 1e3 }
    }

    /// Mean, ms.
    pub fn mean_ms(&self) -> f64 {
        self.mean_ms
    }

    /// Share of requests whose own latency is above `x_ms`.
    pub fn exceeds(&self, x_ms: f64) -> f64 {
        let x_us = x_ms * 1e3;
        if x_us <= GRID_FROM_US {
            return 1.0;
        }
        let place = libm::log2(x_us / GRID_FROM_US) * GRID_PER_OCTAVE as f64;
        let cell = place as usize;
        if cell >= GRID_CELLS {
            return 0.0;
        }
        let fraction = place - cell as f64;
        self.exceeds[cell] + (self.exceeds[cell + 1] - self.exceeds[cell]) * fraction
    }

    /// The latency that a share `1 - q` of requests exceeds, ms, with `waits` added. Without any requests: without waits.
    pub fn percentile_ms(&self, waits: &Waits, q: f64) -> f64 {
        let total = if waits.total > 0.0 { waits.total } else { 1.0 };
        let none = if waits.total > 0.0 { waits.none } else { 1.0 };
        let used: Vec<(f64, f64)> =
            waits.cells.iter().enumerate().filter(|(_, &weight)| weight > 0.0).map(|(cell, &weight)| (cell_middle_ms(cell), weight)).collect();
        let above = |x_ms: f64| {
            let waited: f64 = used.iter().map(|(wait, weight)| weight * if x_ms > *wait { self.exceeds(x_ms - wait) } else { 1.0 }).sum();
            (none * self.exceeds(x_ms) + waited) / total
        };
        let (mut low, mut high) = (GRID_FROM_US * 1e-3, 1e9);
        // 40 halvings on a log scale of 34 octaves: 1e-11.
        for _ in 0..40 {
            let middle = (low * high).sqrt();
            if above(middle) > 1.0 - q {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

fn grid_us(i: usize) -> f64 {
    GRID_FROM_US * libm::exp2(i as f64 / GRID_PER_OCTAVE as f64)
}
