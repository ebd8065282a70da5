//! Demand on a storage: closed loads in fio's terms, open loads as demand over time.

use crate::error::SimError;
use headrace_model::chance::around;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Bytes of a sector, the unit of a block device's requests.
const SECTOR_BYTES: u32 = 512;

/// Longest run, s: a leap year. This bound and those below are ours; they keep memory and time of a
/// run within reason.
pub(crate) const YEAR_S: f64 = 366.0 * 86_400.0;
/// Most rows or points of a run.
pub(crate) const MAX_ROWS: f64 = 10e6;
/// Largest request, bytes: 64 MiB. Linux splits larger ones long before.
const MAX_REQUEST_BYTES: f64 = 67_108_864.0;
/// Most requests outstanding.
const MAX_OUTSTANDING: f64 = 65_536.0;
/// Most requests a second: far above any volume or instance.
const MAX_REQUESTS_S: f64 = 1e7;

/// fio's `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Sequential, mixed.
    Rw,
    /// Random, mixed.
    RandRw,
}

impl Pattern {
    /// Returns the share of reads, 0-1; `mix_percent` is fio's `rwmixread` for mixed patterns.
    pub fn read_share(self, mix_percent: u32) -> f64 {
        match self {
            Pattern::Read | Pattern::RandRead => 1.0,
            Pattern::Write | Pattern::RandWrite => 0.0,
            Pattern::Rw | Pattern::RandRw => f64::from(mix_percent.min(100)) / 100.0,
        }
    }

    /// Returns whether each job walks through the device in order.
    pub fn is_sequential(self) -> bool {
        matches!(self, Pattern::Read | Pattern::Write | Pattern::Rw)
    }
}

/// A closed load: every client waits for its own request, then sends the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoad {
    /// fio's `rw`.
    pub rw: Pattern,
    /// Request size, bytes.
    pub block_bytes: u32,
    /// Requests outstanding per job.
    pub iodepth: u32,
    /// Jobs, each with its own submission queue.
    pub numjobs: u32,
    /// Share of reads in mixed patterns, percent.
    pub rwmixread: u32,
    /// Part of the device that is used, bytes; 0 for all of it.
    pub span_bytes: u64,
}

impl ClosedLoad {
    /// Requests outstanding in all.
    pub fn outstanding(&self) -> u32 {
        self.iodepth * self.numjobs
    }

    /// Refuses a load outside the bounds of a run.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let check = |what, value: u32, low: f64, high: f64| SimError::check_range(what, f64::from(value), low, high);
        check("block size (bytes)", self.block_bytes, f64::from(SECTOR_BYTES), MAX_REQUEST_BYTES)?;
        check("iodepth", self.iodepth, 1.0, MAX_OUTSTANDING)?;
        check("numjobs", self.numjobs, 1.0, 4_096.0)?;
        let outstanding = f64::from(self.iodepth) * f64::from(self.numjobs);
        SimError::check_range("requests outstanding (iodepth x numjobs)", outstanding, 1.0, MAX_OUTSTANDING)
    }
}

/// Arrival process of an open load within a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One after the other at equal spacing.
    Even,
    /// Independently of each other.
    #[default]
    Poisson,
}

/// Demand that holds for some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Length, s.
    pub duration_s: f64,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// Mean size of a read, bytes.
    pub read_bytes: f64,
    /// Mean size of a write, bytes.
    pub write_bytes: f64,
}

impl Point {
    /// Returns the same point with `factor` times the requests a second.
    pub fn times(&self, factor: f64) -> Point {
        Point { reads_per_s: self.reads_per_s * factor, writes_per_s: self.writes_per_s * factor, ..*self }
    }

    /// Requests a second.
    pub fn iops(&self) -> f64 {
        self.reads_per_s + self.writes_per_s
    }

    /// Returns the throughput, bytes a second.
    pub fn bytes_s(&self) -> f64 {
        self.reads_per_s * self.read_bytes + self.writes_per_s * self.write_bytes
    }
}

/// An open load: requests come whether or not the ones before are answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenLoad {
    /// One after the other, from time 0.
    pub points: Vec<Point>,
    /// Share of reads that continue the read before.
    pub sequential_read_share: f64,
    /// Share of writes that continue the write before.
    pub sequential_write_share: f64,
    /// Arrival process within a point.
    pub arrivals: Arrivals,
    /// Requests the host keeps outstanding at most; more wait in the host. NVMe queues of EBS hold
    /// 1,024.
    pub max_outstanding: u32,
    /// Part of the device that is used, bytes; 0 for all of it.
    pub span_bytes: u64,
}

impl OpenLoad {
    /// Makes a load of `points`: random offsets, Poisson arrivals, at most 1,024 outstanding.
    pub fn new(points: Vec<Point>) -> OpenLoad {
        OpenLoad { points, sequential_read_share: 0.0, sequential_write_share: 0.0, arrivals: Arrivals::Poisson, max_outstanding: 1_024, span_bytes: 0 }
    }

    /// Returns the same load with `factor` times the requests a second.
    pub fn times(&self, factor: f64) -> OpenLoad {
        OpenLoad { points: self.points.iter().map(|point| point.times(factor)).collect(), ..*self }
    }

    /// Returns the length, s.
    pub fn duration_s(&self) -> f64 {
        self.points.iter().map(|point| point.duration_s).sum()
    }

    /// Refuses a load outside the bounds of a run, naming the first value that is.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        SimError::check_range("number of points", self.points.len() as f64, 1.0, MAX_ROWS)?;
        for point in &self.points {
            SimError::check_range("duration of a point (s)", point.duration_s, 1e-9, YEAR_S)?;
            SimError::check_range("reads a second", point.reads_per_s, 0.0, MAX_REQUESTS_S)?;
            SimError::check_range("writes a second", point.writes_per_s, 0.0, MAX_REQUESTS_S)?;
            for (what, rate, size) in
                [("size of a read (bytes)", point.reads_per_s, point.read_bytes), ("size of a write (bytes)", point.writes_per_s, point.write_bytes)]
            {
                if rate > 0.0 {
                    SimError::check_range(what, size, f64::from(SECTOR_BYTES), MAX_REQUEST_BYTES)?;
                }
            }
        }
        SimError::check_range("sequential share of reads", self.sequential_read_share, 0.0, 1.0)?;
        SimError::check_range("sequential share of writes", self.sequential_write_share, 0.0, 1.0)?;
        SimError::check_range("requests outstanding", f64::from(self.max_outstanding), 1.0, MAX_OUTSTANDING)
    }
}

/// Draws a size in whole sectors whose mean is `mean_bytes`.
#[inline]
pub(crate) fn whole_sectors(rng: &mut ChaCha8Rng, mean_bytes: f64) -> u32 {
    SECTOR_BYTES * around(rng, mean_bytes / f64::from(SECTOR_BYTES)).max(1)
}
