//! The share of a last level cache that an instance has, and what it makes of the speed of a core.
//!
//! ```text
//!   share of the cache = own cores / (own cores + OTHERS_BUSY x the cores of others)
//!   time of work       = own + misses,   misses as 1 / sqrt(share of the cache)
//! ```
//!
//! A cache that several share divides by who asks it, and the cores of others on the same chip ask
//! it less than those of a server that is at work. All cores of an instance work on the same pages,
//! which stand in the cache once: so the part of it counts that all have together, not each.

use crate::error::{broken, CatalogError};
use serde::Deserialize;

/// Cores of others are as busy as this, over those of the instance. A guess: servers are mostly
/// between 10 and 50 % busy (Barroso and Hoelzle, The Case for Energy-Proportional Computing, IEEE
/// Computer 2007, from memory), those that are measured nearly always.
const OTHERS_BUSY: f64 = 0.25;
/// A database takes this much longer with 4 MiB of a last level cache than with 12: about what
/// Ferdman et al. show of transaction processing (Clearing the Clouds, ASPLOS 2012, from memory).
const LONGER: f64 = 0.1;
const LONGER_BETWEEN_MIB: (f64, f64) = (4.0, 12.0);

/// The last level cache of a processor, and how many cores share it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct LastLevelCache {
    cache_mib: f64,
    cache_cores: u32,
}

impl LastLevelCache {
    /// Refuses figures outside any processor's; `place` names file and row.
    pub(crate) fn check(&self, place: &str) -> Result<(), CatalogError> {
        if !(1.0..=2_048.0).contains(&self.cache_mib) {
            return Err(broken(&format!("{place} cache_mib"), "must be from 1 to 2048"));
        }
        if !(1..=1_024).contains(&self.cache_cores) {
            return Err(broken(&format!("{place} cache_cores"), "must be from 1 to 1024"));
        }
        Ok(())
    }

    /// Returns the speed of one of `cores` that an instance has, over that of one whose server has
    /// the whole cache. More cores than share one have several, each whole.
    pub(crate) fn speed_in_part(&self, cores: u32) -> f64 {
        let all = f64::from(self.cache_cores);
        let own = f64::from(cores).min(all);
        let share = own / (own + OTHERS_BUSY * (all - own));
        time_with(self.cache_mib) / time_with(self.cache_mib * share)
    }
}

/// Returns the time of a database's work with so much cache, in units of what misses take with 1
/// MiB. Misses go with the inverse root of the cache (Hartstein et al., Cache Miss Behavior: Is It
/// sqrt(2)?, Computing Frontiers 2006).
fn time_with(cache_mib: f64) -> f64 {
    let misses = |mib: f64| 1.0 / mib.sqrt();
    let (less, more) = LONGER_BETWEEN_MIB;
    let own = (misses(less) - (1.0 + LONGER) * misses(more)) / LONGER;
    own + misses(cache_mib)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 33 MiB of 24 cores. One core has 1 / (1 + 0.25 x 23) of them, 4.889 MiB: misses
    /// take 0.4523 where they took 0.1741, next to 1.8245 that are not misses. Twelve times 4 MiB
    /// are one tenth slower at 4 than at 12.
    #[test]
    fn a_core_by_itself_has_little_of_the_cache() {
        assert!((time_with(4.0) / time_with(12.0) - 1.1).abs() < 1e-12);
        let cache = LastLevelCache { cache_mib: 33.0, cache_cores: 24 };
        assert!((cache.speed_in_part(1) - 1.9986 / 2.2768).abs() < 1e-4, "{}", cache.speed_in_part(1));
        let speeds: Vec<f64> = [1, 2, 4, 8, 12, 24].map(|cores| cache.speed_in_part(cores)).to_vec();
        assert!(speeds.windows(2).all(|pair| pair[0] < pair[1]), "{speeds:?}");
        assert_eq!([cache.speed_in_part(24), cache.speed_in_part(48)], [1.0; 2]);
    }
}
