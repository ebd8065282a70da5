//! Popularity of pages: the rate of their touches.
//!
//! Pages of like popularity form a class; a transaction touches each page of a class with the same
//! small mean. From a cold start the pages touched by n transactions are then
//! `sum of pages x (1 - exp(-touches x n))`, whose slope is what a cold cache must read.

use serde::{Deserialize, Serialize};

/// Pages of like popularity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageClass {
    /// Number of pages.
    pub pages: f64,
    /// Mean touches of one such page by one transaction.
    pub touches_per_tx: f64,
}

/// The classes of a data set, in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Popularity {
    /// Classes.
    pub classes: Vec<PageClass>,
}

impl Popularity {
    /// Returns the pages of all classes.
    pub fn pages(&self) -> f64 {
        self.classes.iter().map(|class| class.pages).sum()
    }

    /// Returns the page touches of a transaction.
    pub fn touches_per_tx(&self) -> f64 {
        self.classes.iter().map(|class| class.pages * class.touches_per_tx).sum()
    }

    /// Returns the distinct pages touched by `tx` transactions.
    pub fn touched(&self, tx: f64) -> f64 {
        self.classes.iter().map(|class| class.pages * -libm::expm1(-class.touches_per_tx * tx)).sum()
    }

    /// Returns the new pages that the next transaction touches after `tx` of them: reads per
    /// transaction of a cold cache that is not full.
    pub fn first_touches_per_tx(&self, tx: f64) -> f64 {
        self.classes.iter().map(|class| class.pages * class.touches_per_tx * libm::exp(-class.touches_per_tx * tx)).sum()
    }

    /// Returns the transactions for which a page stays in a cache of `capacity` pages after its
    /// last touch: those that touch as many pages as fit (Che, Tung, Wang: Hierarchical Web Caching
    /// Systems, 2002). Infinite where all fit.
    pub fn stay_tx(&self, capacity: f64) -> f64 {
        let (mut low, mut high) = (1e-6_f64, 1e15_f64);
        if self.touched(high) <= capacity {
            return f64::INFINITY;
        }
        // Halving a range of 21 decades 64 times leaves 1e-18 of it.
        for _ in 0..64 {
            let middle = (low * high).sqrt();
            if self.touched(middle) < capacity {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }

    /// Returns, among the pages that a settled cache of `capacity` pages evicts, the share that the
    /// touch that brought them changed; `changed` is that chance by class. None if it evicts none.
    /// Pages that InnoDB evicts were mostly touched once: a page touched again after a second
    /// (innodb_old_blocks_time) goes to the young end.
    pub fn evicted_dirty(&self, changed: &[f64], capacity: f64) -> Option<f64> {
        let stay = self.stay_tx(capacity);
        let (mut evicted, mut written) = (0.0, 0.0);
        for (class, change) in self.classes.iter().zip(changed) {
            let leaves = class.pages * class.touches_per_tx * libm::exp(-class.touches_per_tx * stay);
            evicted += leaves;
            written += leaves * change;
        }
        (stay.is_finite() && evicted > 0.0).then(|| written / evicted)
    }

    /// Makes the same access pattern over `factor` times the data: more warehouses, more rows.
    pub fn grown(&self, factor: f64) -> Popularity {
        Popularity {
            classes: self.classes.iter().map(|class| PageClass { pages: class.pages * factor, touches_per_tx: class.touches_per_tx / factor }).collect(),
        }
    }
}
