//! A load repeated: how low credits were, whether the balances of two cycles are alike, and cycles
//! left out.

use super::bucket::{is_a_day, FluidBucket};
use super::{Fluid, FluidBalances};
use crate::demand::measure::MeasuredLoad;
use headrace_model::Cap;

/// A cycle has settled when its end is this near to its start.
const SETTLED_SHARE: f64 = 1e-6;

impl Fluid {
    /// Notes how low and how high credits are.
    #[inline]
    pub(super) fn note_levels(&mut self, at_s: f64) {
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.is_credits()) {
            if bucket.level < bucket.low {
                (bucket.low, bucket.low_at_s) = (bucket.level, at_s);
            }
            bucket.high = bucket.high.max(bucket.level);
        }
    }

    /// Forgets the lowest and highest levels, before a load goes through (again).
    pub fn forget_extremes(&mut self) {
        for bucket in &mut self.buckets {
            (bucket.low, bucket.low_at_s, bucket.high) = (f64::INFINITY, 0.0, 0.0);
        }
    }

    /// Returns the lowest balance of a kind of credits, percent, and its time, s.
    pub fn lowest(&self, cap: Cap) -> Option<(f64, f64)> {
        let seen = self.buckets.iter().filter(|bucket| bucket.cap == cap && bucket.low.is_finite());
        seen.map(|bucket| (100.0 * bucket.low / bucket.depth, bucket.low_at_s)).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns levels and backlog, to compare cycles by.
    pub fn balances(&self) -> FluidBalances {
        FluidBalances { levels: self.buckets.iter().map(|bucket| bucket.level).collect(), backlog: self.backlog() }
    }

    /// Begins the load again: time counts from its start, and an instance's burst buckets are full
    /// where it is a day long. A shorter one is repeated without that: most of its repetitions in a
    /// day see none.
    pub fn begin_again(&mut self, seconds: f64) {
        for batch in &mut self.backlog {
            batch.arrived_s -= seconds;
        }
        self.next_top_up_s = f64::INFINITY;
        if is_a_day(seconds) {
            self.next_top_up_s = 0.0;
            self.top_up(0.0);
        }
    }

    /// Returns whether credits and backlog are as they were: to a millionth of their depth, and of
    /// the requests that come.
    pub fn is_at(&self, before: &FluidBalances, load: &MeasuredLoad) -> bool {
        let differs = |(bucket, level): (&FluidBucket, &f64)| bucket.is_credits() && (bucket.level - level).abs() > SETTLED_SHARE * bucket.depth;
        let arrivals: f64 = load.points.iter().map(|point| point.iops * point.duration_s).sum();
        (self.backlog() - before.backlog).abs() <= SETTLED_SHARE * arrivals && !self.buckets.iter().zip(&before.levels).any(differs)
    }

    /// Returns whether the cycle that began at `before` will repeat without settling: it asks for
    /// more than comes back, requests are carried over from cycle to cycle, and the credits are
    /// gone.
    pub fn is_beyond_help(&self, before: &FluidBalances, load: &MeasuredLoad) -> bool {
        let seconds = load.seconds();
        let mut over = self.buckets.iter().zip(&before.levels).filter(|(bucket, _)| bucket.tokens_of(load) > bucket.gives(seconds, true)).peekable();
        let any = over.peek().is_some();
        let mut credits = over.filter(|(bucket, _)| bucket.is_credits()).peekable();
        any && before.backlog > 0.0 && (credits.peek().is_none() || credits.any(|(bucket, level)| bucket.is_empty_at(*level)))
    }

    /// Leaves out the cycles that would be like the cycle that began at `before`, and returns their
    /// number: as long as no balance runs full or empty, each cycle changes the balances by the
    /// same amounts. It stops before the first cycle in which a balance does.
    pub fn leave_out_like_cycles(&mut self, before: &FluidBalances) -> f64 {
        if self.backlog() != before.backlog {
            return 0.0;
        }
        let drift = |bucket: &FluidBucket, level: f64| if bucket.is_credits() { bucket.level - level } else { 0.0 };
        let left_out = |(bucket, &level): (&FluidBucket, &f64)| {
            let drift = drift(bucket, level);
            let above = bucket.depth - bucket.high;
            // A balance that ran full or empty would change by another amount from another level.
            let bounced = bucket.is_empty_at(bucket.low) || above <= 0.0;
            let room = if bounced {
                0.0
            } else if drift < 0.0 {
                bucket.low
            } else {
                above
            };
            (drift.abs() > SETTLED_SHARE * bucket.depth).then(|| (room / drift.abs()).floor())
        };
        let cycles = self.buckets.iter().zip(&before.levels).filter_map(left_out).fold(f64::INFINITY, f64::min);
        if !(cycles.is_finite() && cycles >= 1.0) {
            return 0.0;
        }
        for (bucket, &level) in self.buckets.iter_mut().zip(&before.levels) {
            bucket.level = (bucket.level + cycles * drift(bucket, level)).clamp(0.0, bucket.depth);
        }
        cycles
    }

    /// Returns the largest loss of credits in a cycle, percent of their depth.
    pub fn loses_percent(&self, load: &MeasuredLoad) -> Option<f64> {
        let seconds = load.seconds();
        // Credits of an instance are filled up every day.
        let lasting = |bucket: &&FluidBucket| bucket.cap == Cap::VolumeCredits || (bucket.is_credits() && !is_a_day(seconds));
        let loss = |bucket: &FluidBucket| 100.0 * (bucket.tokens_of(load) - bucket.rate * seconds) / bucket.depth;
        self.buckets.iter().filter(lasting).map(loss).filter(|&percent| percent > 0.0).max_by(f64::total_cmp)
    }
}
