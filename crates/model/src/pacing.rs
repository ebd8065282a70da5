//! How evenly requests leave a limiter that is full.
//!
//! Tokens alone would space them like a clock. Measured runs at the cap are nearly that even (coefficient of variation 0.12-0.20 at depth 16), with two
//! departures, both off the token account (the mean rate does not move):
//!
//! * **Holds.** Now and then the limiter lets nothing through for some milliseconds and then releases what the tokens earned meanwhile
//!   (2 % of writes at depth 4 took 13-14 ms, 40 tokens at 3,000/s, with a third of the others unthrottled: dyu/vps-comparison 2017; p99 of 6.0-9.0 ms at
//!   depth 16 where 5.3 is the mean: bitofsky/aws-ebs-benchmark 2021).
//! * **Deep queues.** Beyond some 64 requests over several submission queues the host serves the queues unevenly: the wait is spread
//!   (coefficient 0.2-0.3 and 0.4 with 32 requests a queue, 0.61-0.68 with 16; miztiik/ebs-gp3-perf, liangruibupt/ebs-benchmark-testing). Members of a
//!   stripe get unequal shares anyway, which spreads their requests as widely as was measured; they get no second spread.

use crate::io::Op;
use crate::time::Nanos;
use headrace_catalog::VolumeType;

/// Cells of the spread's table: one per value of the top ten bits of a random number.
const SPREAD_BITS: u32 = 10;
/// Wait over mean wait at the widest spread measured (coefficient of variation 0.65): quantiles of 16 queues of 16 requests at the cap, between
/// gp3 and io2 at 4,000 and 16,000 IOPS (miztiik/ebs-gp3-perf, 2020). Between two of them the logarithm is interpolated.
const SPREAD_SHAPE: [(f64, f64); 8] = [(0.0, 0.06), (0.01, 0.12), (0.05, 0.36), (0.5, 0.85), (0.95, 2.22), (0.99, 3.0), (0.999, 3.9), (1.0, 5.0)];
const SPREAD_SHAPE_VARIATION: f64 = 0.65;
/// Up to this coefficient the measured quantiles (io1 with 32 requests a queue: p99 2.07 and p50 0.87-0.97 of the mean) are those of a gamma distribution.
const SPREAD_GAMMA_VARIATION: f64 = 0.4;

/// Holds of one volume type and operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldProfile {
    /// Probability that a hold begins with a request at the cap, in 1/2^32.
    per_io_q32: u64,
    /// Shortest hold, ns; what is longer is exponential with this mean.
    least_ns: f64,
    mean_more_ns: f64,
}

impl HoldProfile {
    const fn new(per_io: f64, least_us: f64, mean_more_us: f64) -> HoldProfile {
        HoldProfile { per_io_q32: (per_io * 4_294_967_296.0) as u64, least_ns: least_us * 1e3, mean_more_ns: mean_more_us * 1e3 }
    }

    /// Fitted to p95 and p99 of the at-cap runs: on Nitro bitofsky/aws-ebs-benchmark (1 TB, depth 16, 3,000 IOPS, r5.large, 2021), on Xen dyu/vps-comparison
    /// (gp2, depth 4, t2.micro, 2017). Types without such a run are not held: io1 and io2 at their caps show none (p99 within 1.3 x of the mean).
    pub fn of(volume_type: VolumeType, op: Op, xen: bool) -> HoldProfile {
        match (volume_type, op, xen) {
            (VolumeType::Gp2, Op::Read, false) => HoldProfile::new(0.0100, 1_500.0, 350.0),
            (VolumeType::Gp2, Op::Write, false) => HoldProfile::new(0.0110, 3_600.0, 350.0),
            (VolumeType::Gp2, Op::Read, true) => HoldProfile::new(0.0040, 0.0, 2_000.0),
            (VolumeType::Gp2, Op::Write, true) => HoldProfile::new(0.0045, 12_000.0, 1_000.0),
            (VolumeType::Gp3, Op::Read, _) => HoldProfile::new(0.0010, 0.0, 1_300.0),
            (VolumeType::Gp3, Op::Write, _) => HoldProfile::new(0.0018, 0.0, 2_000.0),
            _ => HoldProfile::new(0.0, 0.0, 0.0),
        }
    }

    /// Length of the hold that begins with a request, for a uniform number; mostly none.
    #[inline]
    pub fn draw(&self, uniform: u64) -> Option<Nanos> {
        if (uniform >> 32) >= self.per_io_q32 {
            return None;
        }
        let share = ((uniform & 0xffff_ffff) as f64 + 0.5) / 4_294_967_296.0;
        Some(Nanos((self.least_ns - libm::log(share) * self.mean_more_ns) as u64))
    }
}

/// Spread of the wait in deep queues: a factor with mean one.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepQueueSpread {
    variation: f64,
    factor_q16: Vec<u64>,
}

impl DeepQueueSpread {
    /// The spread of `jobs` submission queues of `depth` requests each, for a volume at its own cap; none for one queue, or up to 64 requests in all.
    ///
    /// 0.65 with 16 requests a queue and 0.36 with 32 (the coefficient whose p99 is that of the single io1 at 40,000 IOPS) give the power; 0.65 is the widest
    /// measured, so it is the bound.
    pub fn for_queues(jobs: u32, depth: u32) -> Option<DeepQueueSpread> {
        if jobs < 2 || u64::from(jobs) * u64::from(depth) <= 64 {
            return None;
        }
        let variation = 0.65 * libm::pow(16.0 / f64::from(depth), 0.85);
        Some(DeepQueueSpread::new(variation.min(0.65)))
    }

    /// The spread where the instance's cap makes requests wait: six tenths as wide (0.22-0.27 measured with 32 a queue on m5.8xlarge).
    pub fn at_instance_cap(&self) -> DeepQueueSpread {
        DeepQueueSpread::new(0.6 * self.variation)
    }

    /// A spread of mean 1 and the given coefficient of variation: a gamma distribution where it is narrow, the measured shape where it is as wide as that, the two mixed
    /// in between.
    pub fn new(variation: f64) -> DeepQueueSpread {
        let cells = 1 << SPREAD_BITS;
        let measured = ((variation - SPREAD_GAMMA_VARIATION) / (SPREAD_SHAPE_VARIATION - SPREAD_GAMMA_VARIATION)).clamp(0.0, 1.0);
        let at = |i: i32| {
            let q = (f64::from(i) + 0.5) / f64::from(cells);
            measured * shape_at(q) + (1.0 - measured) * gamma_at(q, variation)
        };
        let factors: Vec<f64> = (0..cells).map(at).collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        DeepQueueSpread { variation, factor_q16: factors.iter().map(|factor| (factor / mean * 65_536.0) as u64).collect() }
    }

    /// The wait after spreading, for a uniform number.
    #[inline]
    pub fn spread(&self, wait: Nanos, uniform: u64) -> Nanos {
        let factor = self.factor_q16[(uniform >> (64 - SPREAD_BITS)) as usize];
        Nanos(((u128::from(wait.0) * u128::from(factor)) >> 16) as u64)
    }
}

/// Quantile of a gamma distribution of mean 1, by Wilson and Hilferty's cube.
fn gamma_at(q: f64, variation: f64) -> f64 {
    let shape = 1.0 / (variation * variation);
    let root = 1.0 - 1.0 / (9.0 * shape) + normal_quantile(q) / (3.0 * libm::sqrt(shape));
    let root = root.max(0.0);
    root * root * root
}

/// Quantile of the standard normal by bisection on erfc; only used to build tables.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-9.0f64, 9.0f64);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle / core::f64::consts::SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

fn shape_at(q: f64) -> f64 {
    let above = SPREAD_SHAPE.iter().position(|&(at, _)| at > q).unwrap_or(SPREAD_SHAPE.len() - 1);
    let ((from, low), (to, high)) = (SPREAD_SHAPE[above - 1], SPREAD_SHAPE[above]);
    low * libm::exp(libm::log(high / low) * (q - from) / (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_keeps_the_mean_and_has_the_variation() {
        for variation in [0.2, 0.4, 0.65] {
            let factors: Vec<f64> = DeepQueueSpread::new(variation).factor_q16.iter().map(|&f| f as f64 / 65_536.0).collect();
            let mean = factors.iter().sum::<f64>() / factors.len() as f64;
            let sd = (factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / factors.len() as f64).sqrt();
            // The mean is set; the deviation is that of the interpolated quantiles, whose own is 0.61-0.68 in the four runs: 6 %.
            assert!((mean - 1.0).abs() < 1e-3, "{mean}");
            assert!((sd / variation - 1.0).abs() < 0.06, "{sd} for {variation}");
        }
    }

    #[test]
    fn shallow_or_single_queues_are_not_spread() {
        assert_eq!(DeepQueueSpread::for_queues(1, 512), None);
        assert_eq!(DeepQueueSpread::for_queues(16, 1), None);
        assert!(DeepQueueSpread::for_queues(16, 16).is_some());
    }
}
