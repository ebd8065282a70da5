//! How often pages are touched.
//!
//! Pages of like popularity form a class; a transaction touches each page of a class with the same small mean. From a cold start the pages touched
//! by n transactions are then `sum of pages x (1 - exp(-touches x n))`, whose slope is what a cold cache must read.

use serde::{Deserialize, Serialize};

/// Pages of like popularity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageClass {
    /// How many.
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
    /// All pages.
    pub fn pages(&self) -> f64 {
        self.classes.iter().map(|class| class.pages).sum()
    }

    /// Touches of a transaction.
    pub fn touches_per_tx(&self) -> f64 {
        self.classes.iter().map(|class| class.pages * class.touches_per_tx).sum()
    }

    /// Distinct pages touched by `tx` transactions.
    pub fn touched(&self, tx: f64) -> f64 {
        self.classes.iter().map(|class| class.pages * -libm::expm1(-class.touches_per_tx * tx)).sum()
    }

    /// New pages the next transaction touches after `tx` of them: reads per transaction of a cold cache that is not full.
    pub fn first_touches_per_tx(&self, tx: f64) -> f64 {
        self.classes.iter().map(|class| class.pages * class.touches_per_tx * libm::exp(-class.touches_per_tx * tx)).sum()
    }

    /// The same access pattern over `factor` times the data: more warehouses, more rows.
    pub fn grown(&self, factor: f64) -> Popularity {
        Popularity {
            classes: self.classes.iter().map(|class| PageClass { pages: class.pages * factor, touches_per_tx: class.touches_per_tx / factor }).collect(),
        }
    }
}
