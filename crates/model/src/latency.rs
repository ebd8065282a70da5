//! Latency of a request after the limiters let it through.
//!
//! Below its cap the latency of an EBS volume does not depend on its load (gp3: p50 0.44 ms from
//! 800 to 14,400 IOPS; scylladb/diskplorer 2022), so it is an independent draw:
//!
//! ```text
//! latency = base + LN(body)          most of the time
//!         = base + LN(tail)          with probability tail_weight
//!         = base + LN(stall)         once in some hundred thousand requests
//! ```
//!
//! plus a term for requests larger or smaller than the 16 KiB the parameters belong to. The
//! parameters are the rows of `data/latency.csv`, each with its source and confidence.
//!
//! A draw must cost nanoseconds and be the same on every machine. The inverse of the distribution
//! function is therefore tabulated once (in software floating point, `libm`), and a draw is a table
//! look-up with integer interpolation:
//!
//! ```text
//! u in [0, 15/16)  1,024 cells of equal probability per 1.0
//! u in [15/16, 1)  64 cells per halving of the distance to 1, down to 2^-40: the tail is as finely drawn as the body
//! ```
//! Error against the exact quantile: below 0.5 % from p1 to p99.999 (tested).

use crate::chance::{lognormal_above, lognormal_mean};
use crate::io::Op;
use chrono::NaiveDate;
use headrace_catalog::VolumeType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// The body has 2^10 cells of equal probability: see the module's header for why.
const BODY_BITS: u32 = 10;
const BODY_CELLS: usize = 1 << BODY_BITS;
/// The tail begins where the distance to 1 has this many leading zero bits.
const TAIL_FROM: u32 = 4;
/// The tail ends there: one request in 10^12.
const TAIL_TO: u32 = 40;
/// Cells for each halving of the distance to 1.
const TAIL_CELLS: usize = 64;
/// A stall is one odd request, so its spread is not measured: half a decade either way covers the
/// maxima seen (34-250 ms).
const STALL_SIGMA: f64 = 0.6;
/// Size the parameters belong to, KiB.
const REFERENCE_KIB: f64 = 16.0;

/// Parameters of one latency distribution: a row of `data/latency.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyProfile {
    /// Volume type it belongs to.
    pub volume_type: VolumeType,
    /// Read or write.
    pub op: Op,
    /// First day it is used for.
    pub from: NaiveDate,
    /// No request is faster, us.
    pub base_us: f64,
    /// Median of the body above `base_us`, us.
    pub body_median_us: f64,
    /// Lognormal sigma of the body.
    pub body_sigma: f64,
    /// Probability of the tail.
    pub tail_weight: f64,
    /// Median of the tail above `base_us`, us.
    pub tail_median_us: f64,
    /// Lognormal sigma of the tail.
    pub tail_sigma: f64,
    /// Latency added per KiB above 16 KiB, us.
    pub size_us_per_kib: f64,
    /// Latency taken off per KiB below 16 KiB, us. It is 0 for EBS: 4 KiB and 16 KiB reads were
    /// measured alike.
    pub small_us_per_kib: f64,
    /// Probability of a stall.
    pub stall_per_io: f64,
    /// Median of a stall, ms.
    pub stall_median_ms: f64,
    /// high, medium, low or guess.
    pub confidence: String,
    /// Source of the numbers.
    pub source: String,
}

impl LatencyProfile {
    /// Returns every row of `data/latency.csv`.
    pub fn all() -> &'static [LatencyProfile] {
        static ROWS: OnceLock<Vec<LatencyProfile>> = OnceLock::new();
        ROWS.get_or_init(|| {
            let text = include_str!("../../../data/latency.csv");
            csv::Reader::from_reader(text.as_bytes())
                .deserialize()
                .enumerate()
                .map(|(row, parsed)| parsed.unwrap_or_else(|e| panic!("data/latency.csv row {}: {e}", row + 2)))
                .collect()
        })
    }

    /// Returns the profile of a type and operation on a day: the newest row not after it, else the
    /// oldest.
    pub fn of(volume_type: VolumeType, op: Op, as_of: NaiveDate) -> &'static LatencyProfile {
        let rows = || Self::all().iter().filter(|row| row.volume_type == volume_type && row.op == op);
        rows()
            .filter(|row| row.from <= as_of)
            .max_by_key(|row| row.from)
            .or_else(|| rows().min_by_key(|row| row.from))
            .expect("data/latency.csv has every type and operation (tested)")
    }

    /// Computes the probability that a 16 KiB request takes longer than `latency_us`.
    pub fn exceeds(&self, latency_us: f64) -> f64 {
        let above = latency_us - self.base_us;
        if above <= 0.0 {
            return 1.0;
        }
        let body = lognormal_above(above, self.body_median_us, self.body_sigma);
        let tail = lognormal_above(above, self.tail_median_us, self.tail_sigma);
        let stall = lognormal_above(above, self.stall_median_ms * 1e3, STALL_SIGMA);
        let rest = 1.0 - self.tail_weight - self.stall_per_io;
        rest * body + self.tail_weight * tail + self.stall_per_io * stall
    }

    /// Computes the mean latency of a 16 KiB request, us.
    pub fn mean_us(&self) -> f64 {
        let rest = 1.0 - self.tail_weight - self.stall_per_io;
        self.base_us
            + rest * lognormal_mean(self.body_median_us, self.body_sigma)
            + self.tail_weight * lognormal_mean(self.tail_median_us, self.tail_sigma)
            + self.stall_per_io * lognormal_mean(self.stall_median_ms * 1e3, STALL_SIGMA)
    }

    /// Returns the latency that a size other than 16 KiB adds, us; negative where smaller is
    /// faster.
    pub fn size_us(&self, bytes: f64) -> f64 {
        let kib = bytes / 1_024.0 - REFERENCE_KIB;
        kib * if kib > 0.0 { self.size_us_per_kib } else { self.small_us_per_kib }
    }

    /// Returns the latency that a share `exceed` of requests exceeds, us; between `floor_us` and
    /// one minute.
    fn quantile_us(&self, exceed: f64, floor_us: f64) -> f64 {
        let (mut low, mut high) = (floor_us, 60e6);
        // Each step halves the interval on a log scale; 44 steps leave a relative error near 1e-12.
        for _ in 0..44 {
            let middle = libm::sqrt(low * high);
            if self.exceeds(middle) > exceed {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// The inverse distribution function as a table of nanoseconds.
#[derive(Debug)]
pub struct LatencyTable {
    body: Vec<u64>,
    tail: Vec<u64>,
    size_ns_per_kib: i64,
    small_ns_per_kib: i64,
    floor_ns: i64,
}

impl LatencyTable {
    /// Tabulates a profile. Some milliseconds of work; see [`LatencyTable::cached`].
    pub fn new(profile: &LatencyProfile) -> LatencyTable {
        let mut floor_us = profile.base_us.max(0.1);
        let mut at = |exceed: f64| {
            floor_us = profile.quantile_us(exceed, floor_us);
            (floor_us * 1e3) as u64
        };
        // The lowest cell starts at its own middle: the zeroth quantile of a lognormal is the base
        // itself, which no run has measured.
        let body = (0..=BODY_CELLS).map(|i| at(1.0 - (i as f64).max(0.5) / BODY_CELLS as f64)).take(BODY_CELLS - (BODY_CELLS >> TAIL_FROM) + 1).collect();
        let mut tail = Vec::new();
        for zeros in TAIL_FROM..=TAIL_TO {
            for cell in 0..TAIL_CELLS {
                let distance = libm::exp2(-f64::from(zeros)) * (1.0 - cell as f64 / (2 * TAIL_CELLS) as f64);
                tail.push(at(distance));
            }
        }
        tail.push(at(libm::exp2(-f64::from(TAIL_TO + 1))));
        LatencyTable {
            body,
            tail,
            size_ns_per_kib: (profile.size_us_per_kib * 1e3) as i64,
            small_ns_per_kib: (profile.small_us_per_kib * 1e3) as i64,
            floor_ns: (profile.base_us * 500.0) as i64,
        }
    }

    /// Returns the table of a type, operation and day, built once per process.
    pub fn cached(volume_type: VolumeType, op: Op, as_of: NaiveDate) -> Arc<LatencyTable> {
        type Key = (VolumeType, bool, NaiveDate);
        static TABLES: Mutex<BTreeMap<Key, Arc<LatencyTable>>> = Mutex::new(BTreeMap::new());
        let profile = LatencyProfile::of(volume_type, op, as_of);
        let key = (volume_type, op == Op::Write, profile.from);
        let mut tables = TABLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(tables.entry(key).or_insert_with(|| Arc::new(LatencyTable::new(profile))))
    }

    /// Returns the latency of a 16 KiB request for a uniform 64-bit number, ns.
    #[inline]
    pub fn at(&self, uniform: u64) -> u64 {
        let distance = !uniform;
        let zeros = distance.leading_zeros();
        if zeros < TAIL_FROM {
            let cell = (uniform >> (64 - BODY_BITS)) as usize;
            let fraction = (uniform << BODY_BITS) >> 32;
            return between(self.body[cell], self.body[cell + 1], fraction);
        }
        if zeros > TAIL_TO {
            return self.tail[self.tail.len() - 1];
        }
        // Bits below the leading one: how far down this halving, 0 at its far end.
        let position = (distance << zeros) << 1;
        let from_start = !position;
        let cell = (zeros - TAIL_FROM) as usize * TAIL_CELLS + (from_start >> 58) as usize;
        let fraction = (from_start << 6) >> 32;
        between(self.tail[cell], self.tail[cell + 1], fraction)
    }

    /// Returns the latency of a request of `bytes` for a uniform 64-bit number, ns.
    #[inline]
    pub fn sample(&self, uniform: u64, bytes: u32) -> u64 {
        let above = i64::from(bytes) - (REFERENCE_KIB as i64 * 1024);
        let size = above * if above > 0 { self.size_ns_per_kib } else { self.small_ns_per_kib } / 1024;
        (self.at(uniform) as i64 + size).max(self.floor_ns) as u64
    }

    /// Returns the latency of the quantile `q` in [0, 1) for a request of `bytes`, ns.
    pub fn quantile_ns(&self, q: f64, bytes: u32) -> u64 {
        let uniform = if q <= 0.0 { 0 } else { (q.min(1.0 - 1e-12) * 18_446_744_073_709_551_616.0) as u64 };
        self.sample(uniform, bytes)
    }
}

/// Interpolates between two numbers.
#[inline]
fn between(low: u64, high: u64, fraction_of_2_to_32: u64) -> u64 {
    low + (((high - low) * fraction_of_2_to_32) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_both_operations() {
        for volume_type in VolumeType::ALL {
            for op in [Op::Read, Op::Write] {
                let day = NaiveDate::from_ymd_opt(2026, 11, 1).unwrap();
                assert_eq!(LatencyProfile::of(volume_type, op, day).volume_type, volume_type);
            }
        }
    }

    #[test]
    fn the_table_keeps_the_distribution() {
        // Cells are 1/1024 wide in the body and 1/128 of the distance to 1 in the tail, so linear
        // interpolation is off by well under 0.5 %.
        for profile in LatencyProfile::all() {
            let table = LatencyTable::new(profile);
            for q in [0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.985, 0.99, 0.995, 0.999, 0.9999, 0.99999] {
                let exact = profile.quantile_us(1.0 - q, profile.base_us) * 1e3;
                let drawn = table.quantile_ns(q, 16 * 1024) as f64;
                assert!((drawn / exact - 1.0).abs() < 0.005, "{:?} {:?} q={q}: {drawn} for {exact}", profile.volume_type, profile.op);
            }
        }
    }

    #[test]
    fn draws_rise_with_the_uniform_number() {
        let table = LatencyTable::new(LatencyProfile::of(VolumeType::Gp2, Op::Read, NaiveDate::from_ymd_opt(2020, 1, 1).unwrap()));
        let mut last = 0;
        for step in 0..200_000u64 {
            // Half the steps walk the body, half close in on 1.
            let uniform = if step < 100_000 { step * (u64::MAX / 100_000) } else { u64::MAX - (u64::MAX >> ((step - 100_000) / 1_600)) };
            let drawn = table.at(uniform);
            if step != 100_000 {
                assert!(drawn >= last, "at {step}");
            }
            last = drawn;
        }
    }
}
