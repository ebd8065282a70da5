//! Response times of transactions as a distribution.
//!
//! The mean follows from clients and transactions a second (Little's law). Around it lies a
//! lognormal distribution: the logarithms of many independent factors add up to a normal one.

use crate::mysql::database::Clients;

/// Standard deviations from the median to the 95th and to the 99th percentile of a normal
/// distribution.
const AT_P95: f64 = 1.644_853_626_951_472_2;
const AT_P99: f64 = 2.326_347_874_040_841;

/// Percentiles of response times over their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseSpread {
    /// The median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl ResponseSpread {
    /// Returns the spread of the distribution whose 95th percentile is `p95` times its mean (at
    /// least 1).
    ///
    /// No lognormal distribution has it above 3.87 times the mean: beyond, its slow end is as much
    /// longer as the rest asks for.
    pub fn with_p95(p95: f64) -> ResponseSpread {
        let sigma = sigma_of_p95(p95);
        let mut spread = ResponseSpread::of_sigma(sigma);
        spread.p99 *= p95 / spread.p95;
        spread.p95 = p95;
        spread
    }

    /// Returns the spread where a transaction may also have to wait behind a burst of writes, whose
    /// length is `burst` times the mean response time: the distances of the 95th percentile from
    /// the mean add as squares, since the two are independent.
    pub fn behind_burst(self, burst: f64) -> ResponseSpread {
        if burst <= 0.0 {
            return self;
        }
        ResponseSpread::with_p95(1.0 + libm::hypot(self.p95 - 1.0, burst))
    }

    /// Returns the least spread of a database's response times, wherever it runs.
    pub fn least(clients: &Clients) -> ResponseSpread {
        ResponseSpread::with_p95(clients.p95_over_mean)
    }

    fn of_sigma(sigma: f64) -> ResponseSpread {
        let at = |deviations: f64| libm::exp(sigma * (deviations - 0.5 * sigma));
        ResponseSpread { p50: at(0.0), p95: at(AT_P95), p99: at(AT_P99) }
    }
}

/// Sigma of the lognormal distribution of mean 1 with this 95th percentile: the lower root of
/// `ln p95 = 1.645 sigma - sigma^2 / 2`; 1.645 where there is none, above 3.87.
pub(crate) fn sigma_of_p95(p95: f64) -> f64 {
    AT_P95 - libm::sqrt((AT_P95 * AT_P95 - 2.0 * libm::log(p95)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Median and percentiles of a lognormal distribution by their definition: the share of a
    /// distribution of mean 1 below each is what its name says.
    #[test]
    fn percentiles_are_those_of_a_lognormal_of_mean_one() {
        for p95 in [1.0, 1.2, 2.0, 3.0, 3.8] {
            let spread = ResponseSpread::with_p95(p95);
            let sigma = sigma_of_p95(p95);
            assert!((spread.p95 - p95).abs() < 1e-12);
            if sigma > 0.0 {
                let above = |x: f64| headrace_model::chance::lognormal_above(x, (-0.5 * sigma * sigma).exp(), sigma);
                for (value, share) in [(spread.p50, 0.5), (spread.p95, 0.05), (spread.p99, 0.01)] {
                    // The approximation of the normal distribution there is good to 1.5e-7.
                    assert!((above(value) - share).abs() < 1e-6, "{p95}: {share} lies at {value}");
                }
            }
        }
    }

    /// A burst as long as the mean, with a spread of 0.75 of it: 1 + sqrt(0.75^2 + 1) = 2.25.
    #[test]
    fn a_burst_adds_as_squares() {
        let spread = ResponseSpread::with_p95(1.75);
        assert_eq!(spread.behind_burst(0.0), spread);
        assert!((spread.behind_burst(1.0).p95 - 2.25).abs() < 1e-12);
        assert!(spread.behind_burst(1.0).p99 > spread.p99 && spread.behind_burst(1.0).p50 < spread.p50);
    }

    /// The order stays for a ratio that no lognormal has, and the 95th percentile is the one that
    /// was asked for.
    #[test]
    fn longer_tails_than_any_lognormal_keep_their_95th_percentile() {
        for p95 in [3.9, 5.0, 12.0] {
            let spread = ResponseSpread::with_p95(p95);
            assert_eq!(spread.p95, p95);
            assert!(spread.p50 < 1.0 && spread.p99 > spread.p95);
        }
    }
}
