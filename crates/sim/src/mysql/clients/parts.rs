//! What the per-I/O form is put together from: draws, processors, log writers, the page cleaner, compaction.

use super::super::database::{Compaction, Database};
use super::super::demand::RUN_BYTES;
use super::super::interval::Scenario;
use crate::events::{nanos, unit};
use headrace_model::{Io, Nanos, Op};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const RUN: u32 = RUN_BYTES as u32;
/// I/Os the cleaner and the compaction keep outstanding.
pub const CLEANER_DEPTH: u32 = 64;
pub const COMPACTION_DEPTH: u32 = 32;
/// Background work is handed out this often.
pub const TICK: Nanos = Nanos(10_000_000);
/// The front of the data device: doublewrite area, then three circular logs; pages and sorted files behind it.
pub const DOUBLEWRITE_BYTES: u64 = 16 << 20;
pub const LOG_AREA_BYTES: u64 = 64 << 20;
/// Streams of the seed: transactions, places, arrivals.
pub const STREAMS: [u64; 3] = [1, 2, 3];

/// Sizes in whole sectors around a mean.
#[derive(Clone, Copy)]
pub struct Size {
    pub sectors: u32,
    pub fraction: f64,
}

impl Size {
    pub fn new(mean_bytes: f64) -> Size {
        let sectors = mean_bytes / 512.0;
        Size { sectors: sectors as u32, fraction: sectors - sectors.floor() }
    }

    #[inline]
    pub fn draw(self, rng: &mut ChaCha8Rng) -> u32 {
        let more = self.fraction > 0.0 && unit(rng) < self.fraction;
        512 * (self.sectors + u32::from(more)).max(1)
    }
}

/// Draws of transactions and places.
pub struct Draws {
    pub of_tx: ChaCha8Rng,
    pub of_place: ChaCha8Rng,
    pub sigma: f64,
    pub first_page: u64,
    pub places: u64,
    pub align: u64,
}

impl Draws {
    pub fn new(scenario: &Scenario<'_>) -> Draws {
        // Lognormal of mean 1: p95 = exp(1.645 sigma - sigma^2/2), which ends at 3.87.
        let r = libm::log(scenario.database.clients.p95_over_mean);
        let sigma = 1.644_854 - (1.644_854f64 * 1.644_854 - 2.0 * r).max(0.0).sqrt();
        let align = u64::from((scenario.database.read_bytes.max(scenario.database.cached_bytes) as u32).max(4_096).next_power_of_two());
        let first_page = DOUBLEWRITE_BYTES + 3 * LOG_AREA_BYTES;
        let places = ((scenario.data.span_bytes(0) - first_page) / align).max(1);
        Draws { of_tx: stream(scenario, STREAMS[0]), of_place: stream(scenario, STREAMS[1]), sigma, first_page, places, align }
    }

    /// How much longer than the mean a transaction is.
    pub fn length(&mut self) -> f64 {
        let (a, b) = (1.0 - unit(&mut self.of_tx), unit(&mut self.of_tx));
        let normal = (-2.0 * libm::log(a)).sqrt() * libm::cos(2.0 * std::f64::consts::PI * b);
        libm::exp(self.sigma * normal - 0.5 * self.sigma * self.sigma)
    }

    /// Poisson, by products of uniforms; a mean beyond 500 in pieces, whose numbers add up.
    pub fn poisson(&mut self, mean: f64) -> u32 {
        let (mut left, mut number) = (mean, 0);
        while left > 0.0 {
            let floor = libm::exp(-left.min(500.0));
            left -= 500.0;
            let mut product = unit(&mut self.of_tx);
            while product > floor {
                number += 1;
                product *= unit(&mut self.of_tx);
            }
        }
        number
    }

    /// A whole number around a mean.
    pub fn whole(&mut self, mean: f64) -> u8 {
        let fraction = mean - mean.floor();
        mean as u8 + u8::from(fraction > 0.0 && unit(&mut self.of_tx) < fraction)
    }

    #[inline]
    pub fn place(&mut self) -> u64 {
        self.first_page + ((u128::from(self.of_place.next_u64()) * u128::from(self.places)) >> 64) as u64 * self.align
    }
}

pub fn stream(scenario: &Scenario<'_>, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed.unwrap_or(0));
    rng.set_stream(number);
    rng
}

/// Poisson arrivals at a rate per step; the last rate holds.
#[derive(Clone)]
pub struct Arrivals<'a> {
    pub rates: &'a [f64],
    pub step_s: f64,
    pub step: usize,
    pub at_s: f64,
    pub rng: ChaCha8Rng,
}

impl Arrivals<'_> {
    pub fn next(&mut self) -> Option<Nanos> {
        let mut to_go = -libm::log(1.0 - unit(&mut self.rng));
        loop {
            let rate = self.rates[self.step.min(self.rates.len() - 1)];
            let last = self.step + 1 >= self.rates.len();
            let left_s = if last { f64::INFINITY } else { (self.step + 1) as f64 * self.step_s - self.at_s };
            if rate > 0.0 && to_go <= left_s * rate {
                self.at_s += to_go / rate;
                return Some(nanos(self.at_s));
            }
            if last {
                return None;
            }
            to_go -= left_s * rate;
            self.step += 1;
            self.at_s = self.step as f64 * self.step_s;
        }
    }
}

/// Virtual CPUs, first come first served. The answer is known when a job comes.
pub struct Processors {
    pub free_at: BinaryHeap<Reverse<Nanos>>,
}

impl Processors {
    pub fn take(&mut self, now: Nanos, work: Nanos) -> Nanos {
        let Some(mut first) = self.free_at.peek_mut() else { return now + work };
        first.0 = now.max(first.0) + work;
        first.0
    }
}

/// One log: at most one write under way, and those who wait for it and for the next.
#[derive(Default)]
pub struct LogWriter {
    pub start: u64,
    pub at: u64,
    pub bytes: f64,
    pub waiting: Vec<u32>,
    pub riders: Vec<u32>,
    pub busy: bool,
}

impl LogWriter {
    /// The next write of at most `most` bytes, whole sectors, going round in its area.
    pub fn next(&mut self, most: f64) -> Io {
        let bytes = (self.bytes.min(most) / 512.0).ceil().max(1.0) * 512.0;
        self.bytes = (self.bytes - bytes).max(0.0);
        if self.at + bytes as u64 > LOG_AREA_BYTES {
            self.at = 0;
        }
        let offset = self.start + self.at;
        self.at += bytes as u64;
        Io { op: Op::Write, offset, bytes: bytes as u32 }
    }
}

/// The page cleaner. Slots that carry a run say how many pages it holds.
pub struct Cleaner {
    pub fraction: f64,
    pub owed: u64,
    /// Not yet in the doublewrite area; on the way there; through it, to be written in place; written.
    pub waiting: u64,
    pub in_runs: u64,
    pub ready: u64,
    pub written: u64,
    pub batch: u64,
    pub doublewrite: bool,
    pub run_bytes: u32,
    pub run_at: u64,
    pub carries: Vec<u64>,
    pub free: Vec<u32>,
}

impl Cleaner {
    pub fn new(database: &Database) -> Cleaner {
        let batch = ((RUN_BYTES / database.cached_bytes) as u64).max(1);
        Cleaner {
            fraction: 0.0,
            owed: 0,
            waiting: 0,
            in_runs: 0,
            ready: 0,
            written: 0,
            batch,
            doublewrite: database.writes.doublewrite,
            run_bytes: ((batch as f64 * database.cached_bytes / 512.0).round() as u32) * 512,
            run_at: 0,
            carries: vec![0; CLEANER_DEPTH as usize],
            free: (0..CLEANER_DEPTH).rev().collect(),
        }
    }

    pub fn behind(&self) -> u64 {
        self.owed - self.written
    }

    pub fn owe(&mut self, pages: f64) {
        self.fraction += pages;
        let whole = self.fraction.floor();
        self.fraction -= whole;
        self.owed += whole as u64;
        *(if self.doublewrite { &mut self.waiting } else { &mut self.ready }) += whole as u64;
    }

    /// The slot and pages of the next write: 0 is one page in its place.
    pub fn next(&mut self) -> Option<(u32, u64)> {
        let slot = *self.free.last()?;
        // Runs go along with pages instead of all at once: in one go they would meet the byte cap, and the pages after them the IOPS cap, each while the other idles.
        let room = self.ready + self.in_runs + self.batch <= u64::from(CLEANER_DEPTH).max(self.batch);
        let carries = if room && self.waiting >= self.batch {
            self.waiting -= self.batch;
            self.in_runs += self.batch;
            self.batch
        } else if self.ready > 0 {
            self.ready -= 1;
            0
        } else {
            return None;
        };
        self.free.pop();
        self.carries[slot as usize] = carries;
        Some((slot, carries))
    }
}

/// Compaction, on the interval form's periods.
pub struct Merging<'a> {
    pub of: Option<&'a Compaction>,
    pub next_tx: f64,
    /// Bytes still to read and to write.
    pub left: [f64; 2],
    pub credit: f64,
    pub at: [u64; 2],
    pub free: Vec<u32>,
}

impl<'a> Merging<'a> {
    pub fn new(of: Option<&'a Compaction>, tx: f64) -> Merging<'a> {
        let next_tx = of.map_or(f64::INFINITY, |of| of.first_tx + ((tx - of.first_tx) / of.period_tx).ceil().max(0.0) * of.period_tx);
        Merging { of, next_tx, left: [0.0; 2], credit: 0.0, at: [0; 2], free: (0..COMPACTION_DEPTH).rev().collect() }
    }

    /// Factor of reads at `tx`; begins a compaction when it is time.
    pub fn factor(&mut self, tx: f64) -> f64 {
        let Some(of) = self.of else { return 1.0 };
        while tx >= self.next_tx {
            self.next_tx += of.period_tx;
            self.left[0] += of.read_bytes_per_tx * of.period_tx;
            self.left[1] += of.write_bytes_per_tx * of.period_tx;
        }
        let phase = 1.0 - (self.next_tx - tx) / of.period_tx;
        let parts = of.profile.len();
        if phase < 0.0 {
            1.0
        } else {
            of.profile[((phase * parts as f64) as usize).min(parts - 1)]
        }
    }

    pub fn is_merging(&self) -> bool {
        self.left[0] + self.left[1] >= 1.0
    }

    pub fn earn(&mut self) {
        let Some(of) = self.of else { return };
        let earned = of.rate_bytes_s * TICK.as_secs_f64();
        self.credit = if self.is_merging() { (self.credit + earned).min(2.0 * earned + 8.0 * RUN_BYTES) } else { 0.0 };
    }

    /// The next run that the rate and the outstanding ones allow, over the places of the data device.
    pub fn next(&mut self, draws: &Draws) -> Option<(u32, Io)> {
        let of = self.of?;
        // Reads and writes go along in step.
        let share = |left: f64, all: f64| if all > 0.0 { left / all } else { 0.0 };
        let kind = usize::from(share(self.left[0], of.read_bytes_per_tx) < share(self.left[1], of.write_bytes_per_tx));
        let bytes = (self.left[kind].min(RUN_BYTES) / 512.0).ceil() * 512.0;
        if !self.is_merging() || self.credit < bytes {
            return None;
        }
        let slot = self.free.pop()?;
        self.credit -= bytes;
        self.left[kind] = (self.left[kind] - bytes).max(0.0);
        // Sorted files are read from one half of the device and written to the other.
        let half = draws.places * draws.align / 2;
        self.at[kind] = if self.at[kind] + 2 * u64::from(RUN) > half { 0 } else { self.at[kind] + u64::from(RUN) };
        let offset = (draws.first_page + kind as u64 * half + self.at[kind]) / u64::from(RUN) * u64::from(RUN);
        Some((slot, Io { op: if kind == 0 { Op::Read } else { Op::Write }, offset, bytes: bytes as u32 }))
    }
}
