//! Reads of what was ordered last: TPC-C's stock level looks at the stock of the last twenty orders
//! of a district.
//!
//! ```text
//!  reads of it
//!   |\            orders of the load: their items were drawn evenly, so that their rows lie
//!   |  \          anywhere in the stock
//!   |    \_____   orders of the run: rows that it has changed itself, not long ago
//!   +--------------> transactions
//!        window
//! ```
//!
//! The number of the run's own among the twenty follows from transactions alone, whatever cache and
//! storage are. An LSM tree writes changed rows together, so that the blocks of own orders are few
//! and stay cached (taken so: 2,000 rows a warehouse are one percent of its data). MyRocks only:
//! with the same reads InnoDB's runs of one pool told less of another one.
//!
//! Clauses are those of the TPC-C Standard Specification 5.11.

use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// Orders that a stock level looks at (2.8.2.2).
const ORDERS: u32 = 20;
/// Windows after which as good as all of them are the run's: of 30 orders expected in a district
/// 0.05 are missing.
const ALL_RENEWED: f64 = 1.5;

/// Reads of the stock of the last orders.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastOrders {
    /// Share of the data's pages that is stock.
    pub share: f64,
    /// Rows of the last orders in a page of it, on average.
    pub rows_per_page: f64,
    /// Pages of the stock that a transaction touches.
    pub touches_per_tx: f64,
    /// Transactions in which a district gets as many orders as are looked at, on average.
    pub window_tx: f64,
}

impl LastOrders {
    /// Makes the reads of `warehouses` with `pages` of stock each, a `share` of the data, where
    /// `level_share` of transactions are stock levels that look at `items` each, and `order_share`
    /// are new orders.
    pub(super) fn new(warehouses: f64, (pages, share): (f64, f64), (level_share, items): (f64, f64), order_share: f64) -> LastOrders {
        // Districts of a warehouse (1.2.1).
        let districts = 10.0 * warehouses;
        LastOrders {
            share,
            // Ten lines an order (2.4.1.3).
            rows_per_page: 10.0 * f64::from(ORDERS) * 10.0 / pages,
            // Some items share a page.
            touches_per_tx: level_share * pages * -libm::expm1(-items / pages),
            window_tx: f64::from(ORDERS) * districts / order_share,
        }
    }

    /// Makes the same over `factor` times the data.
    pub(super) fn grown(&self, factor: f64) -> LastOrders {
        LastOrders { window_tx: self.window_tx * factor, ..*self }
    }

    /// Returns the transactions from the start after which reads of the load's orders have gone.
    pub(super) fn settled_tx(self) -> f64 {
        ALL_RENEWED * self.window_tx
    }

    /// Returns the touches of a transaction, after `tx` of them, that go to orders of the load.
    pub(super) fn touches(&self, tx: f64) -> f64 {
        self.touches_per_tx * (1.0 - self.renewed(tx))
    }

    /// Returns the share of the last orders that were made since the start: the mean of min(orders,
    /// ORDERS) of a district, whose orders are Poisson.
    fn renewed(&self, tx: f64) -> f64 {
        let expected = f64::from(ORDERS) * tx / self.window_tx;
        let mut chance = libm::exp(-expected);
        let mut missing = 0.0;
        for orders in 0..ORDERS {
            missing += chance * f64::from(ORDERS - orders);
            chance *= expected / f64::from(orders + 1);
        }
        1.0 - missing / f64::from(ORDERS)
    }

    /// Returns parts of the stock's pages and how often they are touched over the mean: those with
    /// one, two, and more rows of the last orders (Poisson), which are looked at until they are
    /// renewed.
    pub(super) fn parts(&self) -> [(f64, f64); 3] {
        let mean = self.rows_per_page;
        let once = mean * libm::exp(-mean);
        let twice = once * mean / 2.0;
        let more = (1.0 - libm::exp(-mean) - once - twice).max(1e-12);
        [(once, 1.0 / mean), (twice, 2.0 / mean), (more, (mean - once - 2.0 * twice) / mean / more)]
    }

    /// Refuses values out of bounds.
    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::check_range("share of pages that is stock", self.share, 1e-6, 1.0)?;
        SimError::check_range("rows of the last orders in a page", self.rows_per_page, 1e-3, 1e3)?;
        SimError::check_range("pages of the last orders' stock of a transaction", self.touches_per_tx, 0.0, 1e6)?;
        SimError::check_range("transactions in which the last orders are renewed", self.window_tx, 1.0, 1e15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> LastOrders {
        LastOrders::new(10.0, (2_000.0, 0.4), (1.0 / 23.0, 200.0), 10.0 / 23.0)
    }

    /// 20 orders x 100 districts x 2.3 transactions an order; 2,000 x (1 - exp(-0.1)) = 190.33.
    #[test]
    fn rates_follow_from_the_specification() {
        let last = orders();
        assert!((last.window_tx - 4_600.0).abs() < 1e-9 && (last.touches_per_tx * 23.0 - 190.325).abs() < 1e-3);
        let grown = last.grown(3.0);
        assert!((grown.window_tx - 13_800.0).abs() < 1e-9 && (grown.touches(13_800.0) / last.touches(4_600.0) - 1.0).abs() < 1e-12);
    }

    /// Against districts that get orders one by one, from a fixed sequence of pseudo-random numbers
    /// (a linear congruence modulo 2^64, Knuth's constants). 400,000 districts x 20 orders: the
    /// mean of the share has a standard deviation of sqrt(0.25 / 400,000) = 8e-4 at most; four of
    /// them are allowed.
    #[test]
    fn renewed_orders_are_those_that_districts_have_had() {
        let (last, districts) = (orders(), 400_000);
        for windows in [0.05, 0.5, 1.0, 1.7] {
            let (mut state, mut counts) = (1u64, vec![0u32; districts]);
            for _ in 0..(windows * 20.0 * districts as f64) as usize {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                counts[((state >> 33) as usize * districts) >> 31] += 1;
            }
            let share = counts.iter().map(|&count| f64::from(count.min(20)) / 20.0).sum::<f64>() / districts as f64;
            assert!((last.renewed(windows * last.window_tx) - share).abs() < 3.2e-3, "{windows}");
        }
        assert!(last.renewed(0.0).abs() < 1e-12 && last.touches(last.settled_tx()) < 3e-3 * last.touches_per_tx);
    }

    /// Poisson numbers of rows in a page, summed one by one. Chances below 1e-15 are left out, and
    /// sums of some ten terms round by as much.
    #[test]
    fn parts_hold_the_pages_and_rows_that_are_looked_at() {
        for rows_per_page in [0.05, 1.0, 4.0] {
            let last = LastOrders { rows_per_page, ..orders() };
            let (mut chance, mut pages, mut rows) = (libm::exp(-rows_per_page), 0.0, 0.0);
            for count in 1..60 {
                chance *= rows_per_page / f64::from(count);
                pages += chance;
                rows += chance * f64::from(count);
            }
            let parts = last.parts();
            let sum = |of: fn((f64, f64)) -> f64| parts.into_iter().map(of).sum::<f64>();
            assert!((sum(|(part, _)| part) - pages).abs() < 1e-12, "{rows_per_page}");
            assert!((sum(|(part, over_mean)| part * over_mean) - rows / rows_per_page).abs() < 1e-12, "{rows_per_page}");
        }
    }
}
