//! One bucket of a volume or an instance as a line in time, and the buckets a storage and an
//! instance have.

use crate::demand::measure::{Measure, Measured, MeasuredLoad};
use crate::demand::near_cap::{NearCap, Parts, Walk};
use crate::demand::windows::WINDOW_S;
use crate::setup::Setup;
use headrace_catalog::{InstanceLimits, VolumeLimits};
use headrace_model::array::Amplification;
use headrace_model::bucket::{MAIN_DEPTH_S, RESERVE_REFILL};
use headrace_model::rates::Rates;
use headrace_model::Cap;

/// Seconds in a day, after which a bucket is full again, as the model's instance is.
pub(super) const DAY_S: f64 = 86_400.0;

/// Returns whether a load is long enough to be repeated day by day: a recording of a day may lack
/// its last hour.
pub(super) fn is_a_day(seconds: f64) -> bool {
    seconds >= 23.0 / 24.0 * DAY_S
}

/// A level below this share of its depth is a rounding error and counts as empty.
const EMPTY_SHARE: f64 = 1e-9;

/// One bucket of a volume or instance.
#[derive(Clone, Debug)]
pub(super) struct FluidBucket {
    pub(super) cap: Cap,
    pub(super) measure: Measure,
    /// Refill, tokens a second.
    pub(super) rate: f64,
    pub(super) level: f64,
    /// Tokens of the main part, and of main part and reserve together.
    pub(super) main_depth: f64,
    pub(super) depth: f64,
    /// Tokens per unit of reads and of writes: this member's share.
    pub(super) per_read: f64,
    pub(super) per_write: f64,
    // Tokens a second that are asked in the interval at hand.
    pub(super) need: f64,
    // Tokens of one request of the backlog's head.
    pub(super) cost: f64,
    // For credits: lowest and highest level of this time through the load, and when it was lowest.
    pub(super) low: f64,
    pub(super) low_at_s: f64,
    pub(super) high: f64,
    // For caps near which requests wait in clumps.
    pub(super) near: Option<Box<NearCap>>,
    // Variance of the level by the clumps of a bucket whose reserve lasts, tokens^2.
    pub(super) scatter: f64,
}

impl FluidBucket {
    /// Makes the full bucket of a cap of `rate` tokens a second: 1/64 s of them and, with
    /// `saved_second`, a second's. `shares` are the tokens per unit of reads and of writes.
    pub(super) fn cap(cap: Cap, measure: Measure, rate: f64, shares: (f64, f64), saved_second: bool) -> FluidBucket {
        let main_depth = (rate * MAIN_DEPTH_S).max(1.0);
        let depth = if saved_second { rate.max(main_depth) } else { main_depth };
        FluidBucket {
            cap,
            measure,
            rate,
            level: depth,
            main_depth,
            depth,
            per_read: shares.0,
            per_write: shares.1,
            need: 0.0,
            cost: 0.0,
            low: f64::INFINITY,
            low_at_s: 0.0,
            high: 0.0,
            near: None,
            scatter: 0.0,
        }
    }

    /// Makes a bucket of credits that holds `initial` of at most `capacity` tokens and gains
    /// `refill` a second. `shares` are the tokens per unit of reads and of writes.
    pub(super) fn credits(cap: Cap, measure: Measure, refill: f64, capacity: f64, initial: f64, shares: (f64, f64)) -> FluidBucket {
        FluidBucket { level: initial, main_depth: capacity, depth: capacity, ..FluidBucket::cap(cap, measure, refill, shares, false) }
    }

    /// Returns whether two buckets have equal caps, rates, depths and shares, so that one stands
    /// for both.
    pub(super) fn is_like(&self, other: &FluidBucket) -> bool {
        let shares = |bucket: &FluidBucket| (bucket.per_read, bucket.per_write);
        self.cap == other.cap && self.measure == other.measure && self.rate == other.rate && self.depth == other.depth && shares(self) == shares(other)
    }

    #[inline]
    pub(super) fn is_credits(&self) -> bool {
        matches!(self.cap, Cap::VolumeCredits | Cap::InstanceCredits)
    }

    /// Returns the level, percent of the depth.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.level / self.depth
    }

    /// Returns the reads and writes of a point a second, in what the bucket counts.
    #[inline]
    fn count_reads_and_writes(&self, point: &Measured) -> (f64, f64) {
        match self.measure {
            Measure::Units => (point.read_units, point.write_units),
            Measure::Bytes => (point.read_bytes, point.write_bytes),
            Measure::HddBytes => (point.read_hdd, point.write_hdd),
        }
    }

    /// Returns the tokens a second that the demand of a point takes.
    #[inline]
    pub(super) fn demand(&self, point: &Measured) -> f64 {
        let (reads, writes) = self.count_reads_and_writes(point);
        self.per_read * reads + self.per_write * writes
    }

    /// Returns the tokens that a whole load takes.
    pub(super) fn tokens_of(&self, load: &MeasuredLoad) -> f64 {
        load.points.iter().map(|point| self.demand(point) * point.duration_s).sum()
    }

    /// Returns the tokens that the bucket can give in a load's time: from its start or, `settled`,
    /// every time that the load is repeated.
    pub(super) fn gives(&self, seconds: f64, settled: bool) -> f64 {
        let saved = match self.cap {
            // Filled up once a day: at the start, and within.
            Cap::InstanceCredits if !settled => self.level + self.depth * ((seconds / DAY_S).ceil() - 1.0).max(0.0),
            Cap::InstanceCredits if is_a_day(seconds) => self.depth * (seconds / DAY_S).round().max(1.0),
            _ if settled && self.is_credits() => 0.0,
            _ => self.level,
        };
        saved + self.rate * seconds
    }

    /// Returns the walk of requests that come independently of each other.
    pub(super) fn walk(&self, point: &Measured) -> Walk {
        self.walk_of(point, self.need)
    }

    /// Returns the walk of independent requests that take `need` tokens a second in the mean.
    fn walk_of(&self, point: &Measured, need: f64) -> Walk {
        let (reads, writes) = self.count_reads_and_writes(point);
        // Requests a second that touch this bucket, and tokens^2 a second of them: large ones
        // clump more than as many bytes in small ones.
        let hits_and_spread = |tokens: f64, per: f64, (rate, parts): (f64, f64)| {
            let hits = rate * (parts * per).min(1.0);
            (hits, if hits > 0.0 { tokens * per * (tokens * per) / hits } else { 0.0 })
        };
        let (read_hits, read_spread) = hits_and_spread(reads, self.per_read, point.reads);
        let (write_hits, write_spread) = hits_and_spread(writes, self.per_write, point.writes);
        Walk::new(need, self.rate, need / (read_hits + write_hits).max(1e-9), read_spread + write_spread)
    }

    /// Returns whether the mean demand alone makes one request in fifty wait, and some ten times as
    /// long as a clump of five minutes does: neither p99 nor the worst five minutes are those of a
    /// clump.
    pub(super) fn is_overrun(&self, load: &MeasuredLoad) -> bool {
        let (mut owed, mut late, mut total) = (-self.depth, 0.0, 0.0);
        let (mut most, mut spread) = (0.0, 0.0);
        for point in &load.points {
            let need = self.demand(point);
            owed = f64::max(owed + (need - self.rate) * point.duration_s, -self.depth);
            total += need * point.duration_s;
            if owed > 0.0 {
                late += need * point.duration_s;
                if owed > most {
                    (most, spread) = (owed, self.walk_of(point, need).spread());
                }
            }
        }
        late > 0.02 * total && most > 10.0 * (spread * WINDOW_S).sqrt()
    }

    /// Returns the main part and the reserve.
    pub(super) fn parts(&self) -> Parts {
        Parts { main: self.main_depth, reserve: self.depth - self.main_depth, refill: RESERVE_REFILL }
    }

    /// Lets `seconds` pass while `taken` tokens a second are taken.
    #[inline]
    pub(super) fn pass(&mut self, seconds: f64, taken: f64) {
        let level = self.level + (self.rate - taken) * seconds;
        // Above its main part a cap refills at a fraction of the unused tokens.
        let knee = self.main_depth.max(self.level);
        self.level = if level <= EMPTY_SHARE * self.depth {
            0.0
        } else if level <= knee {
            level
        } else if self.depth > self.main_depth {
            (knee + (level - knee) * RESERVE_REFILL).min(self.depth)
        } else {
            self.depth
        };
    }

    /// Returns whether the bucket is as good as empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty_at(self.level)
    }

    #[inline]
    pub(super) fn is_empty_at(&self, level: f64) -> bool {
        level <= EMPTY_SHARE * self.depth
    }
}

/// Makes the buckets of a member that takes `share` of an array's requests. If reads have caps of
/// their own, these hold for the reads of a RAID 5 write too.
pub(super) fn member_buckets(limits: &VolumeLimits, rates: Rates, (by, share): (Amplification, f64), setup: &Setup) -> Vec<FluidBucket> {
    let rates = rates.scaled(setup.options.rate_per_mille);
    let saved = setup.options.saved_second;
    let hdd = limits.random_charges_full_unit;
    let byte_measure = if hdd { Measure::HddBytes } else { Measure::Bytes };
    let mut buckets = Vec::with_capacity(4);
    let shares = match rates.reads {
        None => (by.reads_per_read * share, (by.reads_per_write + by.writes_per_write) * share),
        Some(reads) => {
            let of_reads = (by.reads_per_read * share, by.reads_per_write * share);
            buckets.push(FluidBucket::cap(Cap::VolumeIops, Measure::Units, reads.iops as f64, of_reads, saved));
            buckets.push(FluidBucket::cap(Cap::VolumeThroughput, Measure::Bytes, reads.throughput_bytes_s as f64, of_reads, saved));
            (0.0, by.writes_per_write * share)
        }
    };
    if let Some(iops) = rates.iops {
        buckets.push(FluidBucket::cap(Cap::VolumeIops, Measure::Units, iops as f64, shares, saved));
    }
    buckets.push(FluidBucket::cap(Cap::VolumeThroughput, byte_measure, rates.bytes_s as f64, shares, saved));
    if let Some(burst) = &limits.io_burst {
        let (capacity, initial) = (burst.capacity_ios as f64, burst.initial_ios as f64);
        buckets.push(FluidBucket::credits(Cap::VolumeCredits, Measure::Units, limits.iops as f64, capacity, initial, shares));
    }
    if let Some(burst) = &limits.byte_burst {
        let (capacity, initial) = (burst.capacity_bytes as f64, burst.initial_bytes as f64);
        buckets.push(FluidBucket::credits(Cap::VolumeCredits, byte_measure, burst.baseline_bytes_s as f64, capacity, initial, shares));
    }
    buckets
}

/// Makes the buckets of an instance's EBS limits: I/Os and bytes, each with a cap and, if it
/// bursts, full credits.
pub(super) fn instance_buckets(instance: &InstanceLimits, amplification: Amplification, saved: bool) -> Vec<FluidBucket> {
    let shares = (amplification.reads_per_read, amplification.reads_per_write + amplification.writes_per_write);
    let mut buckets = Vec::with_capacity(4);
    let mut limit = |baseline: Option<u64>, max: Option<u64>, cap: Cap, measure: Measure| {
        let Some(max) = max.or(baseline) else { return };
        let baseline = baseline.unwrap_or(max);
        let bursts = baseline < max && instance.burst_seconds > 0;
        buckets.push(FluidBucket::cap(cap, measure, if bursts { max } else { baseline } as f64, shares, saved));
        if bursts {
            let capacity = ((max - baseline) * instance.burst_seconds) as f64;
            buckets.push(FluidBucket::credits(Cap::InstanceCredits, measure, baseline as f64, capacity, capacity, shares));
        }
    };
    limit(instance.baseline_iops, instance.max_iops, Cap::InstanceIops, Measure::Units);
    limit(instance.baseline_bytes_s, instance.max_bytes_s, Cap::InstanceThroughput, Measure::Bytes);
    buckets
}
