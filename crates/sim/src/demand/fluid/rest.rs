//! Finds work that need not be simulated: points at which all buckets are full and stay so, and
//! storages on which no point of a load can wait.

use super::bucket::FluidBucket;
use super::Fluid;
use crate::demand::measure::{Measure, Measured, MeasuredLoad};
use crate::demand::near_cap::CLUMPS_FROM;
use headrace_model::Cap;
use std::sync::{Arc, Mutex, PoisonError};

/// Demand of each point of a load on a bucket. Buckets that count alike share it.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    measure: Measure,
    per_read: f64,
    per_write: f64,
    /// Tokens a second of each point.
    pub each: Vec<f64>,
    /// The highest of them.
    pub most: f64,
    /// Tokens of the whole load.
    tokens: f64,
}

/// A measured load and the tokens that buckets take for it, computed once for each way of counting.
#[derive(Debug)]
pub(crate) struct NeededLoad {
    pub measured: Arc<MeasuredLoad>,
    seconds: f64,
    /// Length of each point, s; None where they differ.
    even_s: Option<f64>,
    needs: Mutex<Vec<Arc<Needs>>>,
}

/// All that tells the buckets of one storage from those of another of its layout, before a load:
/// of each its kind, rate, level, depths and shares, to the bit.
pub(crate) type BucketsKey = Vec<[u64; 8]>;

/// Credits count as never used up where they keep at least this share: far more than rounding.
const KEPT_SHARE: f64 = 1e-6;

impl NeededLoad {
    /// Prepares a measured load, whose tokens are computed when a bucket first asks for them.
    pub fn new(measured: Arc<MeasuredLoad>) -> NeededLoad {
        let first = measured.points.first().map(|point| point.duration_s);
        let even_s = first.filter(|first| measured.points.iter().all(|point| point.duration_s == *first));
        NeededLoad { seconds: measured.seconds(), even_s, measured, needs: Mutex::default() }
    }

    /// Returns the demand of each point on a bucket, in tokens a second, worked out once for
    /// buckets that count alike.
    fn needs_of(&self, bucket: &FluidBucket) -> Arc<Needs> {
        // A panic elsewhere cannot leave a half-made entry: entries are inserted whole.
        let mut cache = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = |needs: &&Arc<Needs>| needs.measure == bucket.measure && needs.per_read == bucket.per_read && needs.per_write == bucket.per_write;
        if let Some(needs) = cache.iter().find(alike) {
            return Arc::clone(needs);
        }
        let each: Vec<f64> = self.measured.points.iter().map(|point| bucket.demand(point)).collect();
        let entry = Arc::new(Needs {
            measure: bucket.measure,
            per_read: bucket.per_read,
            per_write: bucket.per_write,
            most: each.iter().copied().fold(0.0, f64::max),
            tokens: bucket.tokens_of(&self.measured),
            each,
        });
        cache.push(Arc::clone(&entry));
        entry
    }

    /// Returns the length of each point, s; None where they differ.
    pub fn even_s(&self) -> Option<f64> {
        self.even_s
    }

    /// Returns the demand on each bucket, in their order.
    pub fn needs(&self, fluid: &Fluid) -> Vec<Arc<Needs>> {
        fluid.buckets.iter().map(|bucket| self.needs_of(bucket)).collect()
    }
}

impl Fluid {
    /// Returns the key of the buckets: storages of the same layout with equal keys serve a load
    /// alike.
    pub fn key(&self) -> BucketsKey {
        let numbers = |bucket: &FluidBucket| [bucket.rate, bucket.level, bucket.main_depth, bucket.depth, bucket.per_read, bucket.per_write].map(f64::to_bits);
        let bucket_key = |bucket: &FluidBucket| {
            let [rate, level, main_depth, depth, per_read, per_write] = numbers(bucket);
            [bucket.cap as u64, bucket.measure as u64, rate, level, main_depth, depth, per_read, per_write]
        };
        self.buckets.iter().map(bucket_key).collect()
    }

    /// Returns the demand of a load over the most that a storage can give in that time, every
    /// balance spent: above 1 it cannot be delivered in full. A bound, without simulating. With
    /// `settled` balances count for nothing, but for an instance's, which are filled up every day:
    /// a repeated load has to win back the credits that it spends.
    pub fn overload_of(&self, load: &NeededLoad, needs: &[Arc<Needs>], settled: bool) -> f64 {
        self.buckets.iter().zip(needs).map(|(bucket, needs)| needs.tokens / bucket.gives(load.seconds, settled)).fold(0.0, f64::max)
    }

    /// Returns the highest demand of a point over the most that the caps give in it, all their
    /// savings spent: above 1 requests wait in that point, whatever came before.
    pub fn peak_overload_of(&self, load: &NeededLoad, needs: &[Arc<Needs>]) -> f64 {
        let Some(seconds) = load.even_s else { return self.peak_overload(&load.measured) };
        self.peak_of(seconds, needs.iter().map(|needs| needs.most))
    }

    /// Returns the highest demand of points of `seconds` over the most that caps give in that time.
    pub fn peak_of(&self, seconds: f64, most: impl Iterator<Item = f64>) -> f64 {
        let caps = self.buckets.iter().zip(most).filter(|(bucket, _)| !bucket.is_credits());
        caps.map(|(cap, most)| most * seconds / (cap.rate * seconds + cap.depth)).fold(0.0, f64::max)
    }

    /// Returns the highest demand of a point over the most that the caps give in it, for points of
    /// any lengths.
    fn peak_overload(&self, load: &MeasuredLoad) -> f64 {
        let caps: Vec<_> = self.buckets.iter().filter(|bucket| !bucket.is_credits()).collect();
        let overload =
            |point: &Measured| caps.iter().map(|cap| cap.demand(point) * point.duration_s / (cap.rate * point.duration_s + cap.depth)).fold(0.0, f64::max);
        load.points.iter().map(overload).fold(0.0, f64::max)
    }

    /// Returns whether demands up to `most` of each bucket never wait, in any order: no cap is
    /// near, and no credits are spent.
    pub fn is_never_near(&self, most: impl Iterator<Item = f64>) -> bool {
        self.buckets.iter().zip(most).all(|(bucket, most)| most <= bucket.rate * if bucket.is_credits() { 1.0 } else { CLUMPS_FROM })
    }

    /// Returns whether no request of a load waits, however often it is repeated, as far as that can
    /// be seen without simulating: no cap is near, and credits that start full last and come back.
    /// False says nothing.
    pub fn never_waits(&self, load: &NeededLoad, needs: &[Arc<Needs>]) -> bool {
        self.buckets.iter().zip(needs).all(|(bucket, needs)| match bucket.cap {
            Cap::VolumeCredits => needs.most <= bucket.rate || bucket.lasts(load, needs),
            Cap::InstanceCredits => needs.most <= bucket.rate,
            _ => needs.most <= CLUMPS_FROM * bucket.rate,
        })
    }

    /// Returns the points at which a request may wait although all buckets are full, because a
    /// limit is near.
    pub fn busy_points(&self, needs: &[Arc<Needs>]) -> Vec<u32> {
        let count = needs.first().map_or(0, |needs| needs.each.len());
        let mut busy = vec![false; count];
        for (bucket, needs) in self.buckets.iter().zip(needs) {
            let from = CLUMPS_FROM * bucket.rate;
            if needs.most > from {
                busy.iter_mut().zip(&needs.each).for_each(|(busy, need)| *busy |= *need > from);
            }
        }
        (0u32..).zip(busy).filter(|(_, busy)| *busy).map(|(index, _)| index).collect()
    }

    /// Returns whether all buckets are full and nothing waits: until the next busy point nothing
    /// changes.
    pub fn is_at_rest(&self) -> bool {
        !self.near && self.backlog.is_empty() && self.clumped.0 <= 0.0 && self.buckets.iter().all(|bucket| bucket.level == bucket.depth)
    }

    /// Passes time at rest until `t_s`, s.
    pub fn rest_until(&mut self, t_s: f64) {
        self.note_levels(t_s);
    }
}

impl FluidBucket {
    /// Returns whether credits that start full are never used up, and full again before a second
    /// time through the load ends: every later time is then like the second.
    fn lasts(&self, load: &NeededLoad, needs: &Needs) -> bool {
        if self.level < self.depth {
            return false;
        }
        let mut level = self.depth;
        let mut full = false;
        for _ in 0..2 {
            full = false;
            for (need, point) in needs.each.iter().zip(&load.measured.points) {
                level = (level + (self.rate - need) * point.duration_s).min(self.depth);
                if level < KEPT_SHARE * self.depth {
                    return false;
                }
                full |= level >= self.depth;
            }
        }
        full
    }
}
