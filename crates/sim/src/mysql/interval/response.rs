//! Response times of transactions as a distribution.
//!
//! The mean follows from clients and transactions a second (Little's law). Around it lies a
//! lognormal distribution: the logarithms of many independent factors add up to a normal one.

use crate::mysql::database::{Clients, Database};
use crate::mysql::warmup::interpolated;

/// Standard deviations from the median to the 95th and to the 99th percentile of a normal
/// distribution.
const AT_P95: f64 = 1.644_853_626_951_472_2;
const AT_P99: f64 = 2.326_347_874_040_841;
/// Share of all transactions that are slower than the 95th percentile.
const SLOWEST: f64 = 0.05;

/// Pages that are written at once, as transactions meet them.
///
/// A burst delays the transactions that run when it begins, by anything from nothing to the time
/// that it takes (uniformly, a guess). Between two bursts as many transactions are done as write
/// its pages, so that the share of all that are delayed is transactions that run x pages that each
/// writes / pages of a burst, at most all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Pages written at once.
    pub pages: f64,
    /// Time that the devices take for a page, s.
    pub page_s: f64,
    /// Pages that the transactions that run at a time write.
    pub running_pages: f64,
}

impl Burst {
    /// Returns the 95th percentile of the waits, s: none while fewer than one transaction in twenty
    /// meets a burst.
    pub fn p95_wait_s(&self) -> f64 {
        if self.pages <= 0.0 {
            return 0.0;
        }
        let delayed_share = (self.running_pages / self.pages).clamp(SLOWEST, 1.0);
        self.pages * self.page_s * (1.0 - SLOWEST / delayed_share)
    }

    /// Returns the time of a page, s, behind which the 95th percentile of waits is `page_wait_s`
    /// where all meet it.
    pub fn page_s_of(page_wait_s: f64) -> f64 {
        page_wait_s / (1.0 - SLOWEST)
    }

    /// Returns the pages of the burst with this 95th percentile of the waits, where behind a page
    /// that all meet it is `page_wait_s`: the smaller of two. A wait longer than any burst's gives
    /// ten times the pages of the transactions that run, the burst with the longest: a larger
    /// burst is met by too few.
    pub fn pages_of(wait_s: f64, page_wait_s: f64, running_pages: f64) -> f64 {
        let met_by_all = wait_s / page_wait_s;
        if met_by_all <= running_pages {
            return met_by_all;
        }
        // pages (1 - SLOWEST pages / running_pages) = (1 - SLOWEST) met_by_all.
        let most = 0.5 / SLOWEST * running_pages;
        let root = (1.0 - 2.0 * (1.0 - SLOWEST) * met_by_all / most).max(0.0);
        most * (1.0 - libm::sqrt(root))
    }
}

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

    /// Returns the spread where a transaction of `response_s` in the mean may also have to wait
    /// behind a burst of writes: the distances of the 95th percentile from the mean add as squares,
    /// since the two are independent.
    pub fn behind_burst(self, burst: &Burst, response_s: f64) -> ResponseSpread {
        let wait_s = burst.p95_wait_s();
        if wait_s <= 0.0 {
            return self;
        }
        ResponseSpread::with_p95(1.0 + libm::hypot(self.p95 - 1.0, wait_s / response_s))
    }

    /// Returns the spread by the pages that a transaction reads, without bursts; `own_share` of the
    /// response time is not the storage's.
    ///
    /// A transaction of many statements is one of many reads, so that the distances of both parts
    /// from their means add.
    pub fn at(database: &Database, reads: f64, own_share: f64) -> ResponseSpread {
        let by_reads = &database.shape.response;
        let of_storage = if by_reads.is_empty() { database.clients.p95_over_mean } else { interpolated(by_reads, reads) };
        let of_statements = database.shape.statements_p95;
        ResponseSpread::with_p95(if of_statements > 0.0 { own_share * of_statements + (1.0 - own_share) * of_storage } else { of_storage })
    }

    /// Returns the least spread of a database's response times, wherever it runs.
    pub fn least(clients: &Clients) -> ResponseSpread {
        ResponseSpread::with_p95(clients.p95_over_mean)
    }

    /// Returns the percentiles of a lognormal distribution of mean 1.
    fn of_sigma(sigma: f64) -> ResponseSpread {
        let at = |deviations: f64| libm::exp(sigma * (deviations - 0.5 * sigma));
        ResponseSpread { p50: at(0.0), p95: at(AT_P95), p99: at(AT_P99) }
    }
}

/// Returns sigma of the lognormal distribution of mean 1 with this 95th percentile: the lower root
/// of `ln p95 = 1.645 sigma - sigma^2 / 2`; 1.645 where there is none, above 3.87.
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

    /// A burst that all meet, of whose 100 ms the 95th percentile waits 95: as long as the mean,
    /// with a spread of 0.75 of it, 1 + sqrt(0.75^2 + 1) = 2.25.
    #[test]
    fn a_burst_adds_as_squares() {
        let (spread, burst) = (ResponseSpread::with_p95(1.75), Burst { pages: 100.0, page_s: 1e-3, running_pages: 200.0 });
        assert_eq!(spread.behind_burst(&Burst { pages: 0.0, ..burst }, 0.095), spread);
        let behind = spread.behind_burst(&burst, 0.095);
        assert!((behind.p95 - 2.25).abs() < 1e-12);
        assert!(behind.p99 > spread.p99 && behind.p50 < spread.p50);
    }

    /// With fewer clients fewer meet a burst: of the tenth that does, half wait as long as the 95th
    /// percentile, and none of fewer than a twentieth.
    #[test]
    fn fewer_clients_meet_a_burst() {
        let wait_s = |running_pages| Burst { pages: 100.0, page_s: 1e-3, running_pages }.p95_wait_s();
        for (running_pages, expected) in [(1e6, 0.095), (100.0, 0.095), (10.0, 0.05), (5.0, 0.0), (0.0, 0.0)] {
            assert!((wait_s(running_pages) - expected).abs() < 1e-15, "{running_pages} pages");
        }
    }

    /// Each burst up to ten times what runs is told by its wait; no burst has a longer one.
    #[test]
    fn a_burst_is_told_by_its_wait() {
        let (running_pages, page_wait_s) = (40.0, 0.95 * 2e-3);
        for pages in [1.0, 39.0, 40.0, 41.0, 200.0, 399.0] {
            let burst = Burst { pages, page_s: 2e-3, running_pages };
            let again = Burst::pages_of(burst.p95_wait_s(), page_wait_s, running_pages);
            // At the largest burst the wait hardly changes with the pages: a root of the rounding.
            assert!((again / pages - 1.0).abs() < 1e-6, "{pages} pages");
        }
        // The longest wait is that behind ten times what runs, of which half is waited for: longer
        // ones have the same burst.
        for wait in [5.0, 5.01, 50.0] {
            let pages = Burst::pages_of(wait * running_pages * 2e-3, page_wait_s, running_pages);
            assert!((pages / 400.0 - 1.0).abs() < 1e-6, "{wait}");
        }
        assert_eq!(Burst::pages_of(1.0, page_wait_s, 0.0), 0.0);
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
