//! Latencies over a stretch, by operation and size class.

use super::row::{ErrorFactor, Stretch};
use headrace_device::meter::{quantile, Histogram, BUCKETS, SIZE_CLASSES};
use headrace_model::Op;

/// Size classes: those of [`SIZE_CLASSES`] and a last one for larger requests.
pub const CLASSES: usize = SIZE_CLASSES.len() + 1;

/// Latencies over a stretch. The counts are 64 bits wide: 15 days at 30,000 IOPS are 4e10 requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// The counts by operation (read, write), size class, bucket
    /// ([`headrace_device::meter::bounds_of`]).
    pub counts: Box<[[[u64; BUCKETS]; CLASSES]; 2]>,
    /// Answers by their delay behind the model's completion time.
    pub late: Box<[u64; BUCKETS]>,
    /// Rows they come from.
    pub rows: u64,
    /// The coarsest of them.
    pub error: ErrorFactor,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: Box::new([[[0; BUCKETS]; CLASSES]; 2]), late: Box::new([0; BUCKETS]), rows: 0, error: ErrorFactor::FINEST }
    }
}

impl Latencies {
    /// Adds the histograms of a stretch that stands for `rows` rows.
    pub(crate) fn add(&mut self, stretch: &Stretch, rows: u64) {
        let sample = &stretch.sample;
        let from = sample.latency.iter().flatten().flatten();
        self.counts.iter_mut().flatten().flatten().zip(from).for_each(|(to, &n)| *to += u64::from(n));
        self.late.iter_mut().zip(sample.late.iter()).for_each(|(to, &n)| *to += u64::from(n));
        self.rows += rows;
        self.error = self.error.max(stretch.error);
    }

    /// Returns the buckets of an operation: one size class, or all together.
    pub fn buckets(&self, op: Op, class: Option<usize>) -> [u64; BUCKETS] {
        let mut sum = [0; BUCKETS];
        for (number, counts) in self.counts[op as usize].iter().enumerate() {
            if class.is_none_or(|class| class == number) {
                sum.iter_mut().zip(counts).for_each(|(to, from)| *to += from);
            }
        }
        sum
    }

    /// Returns the quantile `q` (0-1), ns, on a line inside its bucket; None when nothing was
    /// counted.
    pub fn quantile(&self, op: Op, class: Option<usize>, q: f64) -> Option<u64> {
        wide_quantile(&self.buckets(op, class), q)
    }
}

/// Computes [`quantile`] of 64-bit counts: divided until they fit, which moves no rank by more than
/// 113 of 2^32.
fn wide_quantile(counts: &[u64; BUCKETS], q: f64) -> Option<u64> {
    let divisor = counts.iter().max().map_or(1, |&most| most / u64::from(u32::MAX) + 1);
    let mut narrow: Histogram = [0; BUCKETS];
    // Counts are rounded up, so that rare requests do not vanish.
    narrow.iter_mut().zip(counts).for_each(|(to, &n)| *to = n.div_ceil(divisor) as u32);
    quantile(&narrow, q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_device::meter::bounds_of;

    #[test]
    fn many_requests_have_the_quantiles_of_few() {
        let (mut few, mut many) = ([0u64; BUCKETS], [0u64; BUCKETS]);
        for bucket in 30..60 {
            few[bucket] = 1 + (bucket as u64 * 7) % 13;
            many[bucket] = few[bucket] * 40_000_000_000;
        }
        for q in [0.0, 0.01, 0.5, 0.99, 1.0] {
            let (few, many) = (wide_quantile(&few, q).unwrap() as f64, wide_quantile(&many, q).unwrap() as f64);
            // A rank moves by at most 113 / 2^32, a bucket holds at least 1/200 of all and is at
            // most a quarter wide.
            assert!((few - many).abs() <= few * 0.25 * 200.0 * 113.0 / 2f64.powi(32) + 1.0, "{q}: {few} {many}");
        }
    }

    #[test]
    fn the_error_is_the_width_of_joined_buckets() {
        // From 1 us on each group of 2^level buckets but the last, which has no end; four quarters
        // make an octave.
        for level in 0..=4u8 {
            let size = 1usize << level;
            let widest = (1..BUCKETS - size)
                .filter(|bucket| (bucket - 1) % size == 0)
                .map(|bucket| bounds_of(bucket + size - 1).1 as f64 / bounds_of(bucket).0 as f64)
                .fold(0.0, f64::max);
            assert_eq!(widest, ErrorFactor(level).factor(), "level {level}");
        }
    }
}
