//! Pages that purge reads again because they left the cache before it came.
//!
//! ```text
//!  a page is read ──── changed ──── leaves the old part of the list ────────►
//!                         └──── behind ────► purge wants it again
//! ```
//!
//! The stay of a page is a number of transactions, the delay of purge behind a server with clients
//! is a time. So a cache of minutes has none of these reads, one of a second has the more the
//! faster its clients are.

use super::database::{Database, StorageEngine};
use super::warmup::WarmUp;

/// Share of the pages that a transaction changes which purge wants again: rows whose history ends,
/// and index entries that are marked as deleted; not the entries that are new. 5 of 7 pages in
/// sysbench's writes.
pub const PURGED: f64 = 0.7;
/// Delay of purge behind clients, s (exponential). MariaDB 10.11.19 under `oltp_read_write` with
/// even accesses in a pool of 64 MiB read 23.2, 23.4, 24.0, 24.3 and 24.6 pages a transaction at
/// 41, 64, 110, 147 and 175 transactions a second (lab, 2026-11-28, 21 runs of 12 to 34 s), which
/// differ as these 0.25 s say, to 0.1; `oltp_read_only` read 15.8 and 15.5 at 127 and 256. Behind
/// appliers it is half a batch (`replica`), which is as much at 250 transactions a second.
const BEHIND_S: f64 = 0.25;

/// Returns the pages that a transaction makes purge read at `tps`, of a cache in which it reads
/// `reads` itself: `purges` are read again, and a page that no hit moves stays while the old part
/// is read once over.
fn purge_reads(database: &Database, cache_bytes: f64, (purges, reads): (f64, f64), tps: f64) -> f64 {
    let stay_tx = database.old_share * database.cache_pages(cache_bytes) / reads.max(1e-9);
    purges * libm::exp(-stay_tx / (BEHIND_S * tps).max(1e-9))
}

/// Returns the page reads of a transaction in a settled cache of `cache_bytes`, purge's among them
/// where they are among the database's; none where all pages fit.
fn settled_reads(database: &Database, cache_bytes: f64) -> Option<f64> {
    let curve = WarmUp::new(database, cache_bytes);
    let last = curve.points().last()?;
    (curve.full_at_tx.is_some() && last.reads > 0.0).then_some(last.reads * last.shape)
}

/// Makes a database whose I/Os were measured in a cache of some bytes at some transactions a second
/// (`from`) what it is in another one and at another rate (`to`): with the reads of purge there, of
/// which as many are written back as of all others. `changed`: per class of pages the
/// share of touches that change one. InnoDB of MariaDB; purge of MySQL was not seen to be behind.
pub fn purged_at(database: &Database, from: (f64, f64), to: (f64, f64), changed: &[f64]) -> Database {
    let mut adapted = database.clone();
    let classes = &database.popularity.classes;
    let touches = database.popularity.touches_per_tx();
    if database.engine != StorageEngine::Innodb || changed.len() != classes.len() || touches <= 0.0 {
        return adapted;
    }
    let changes: f64 = classes.iter().zip(changed).map(|(class, share)| class.pages * class.touches_per_tx * share).sum();
    // Reads of purge for each other one, where the `measured` share of reads is purge's already.
    let share = |(cache_bytes, tps): (f64, f64), measured: f64| {
        settled_reads(database, cache_bytes).map_or(0.0, |reads| {
            let own = reads / (1.0 + measured);
            let purges = PURGED * changes * (own / touches).min(1.0);
            purge_reads(database, cache_bytes, (purges, own), tps) / own
        })
    };
    let measured = (0..ROUNDS).fold(0.0, |measured, _| share(from, measured));
    let factor = (1.0 + share(to, measured)) / (1.0 + share(from, measured));
    if adapted.shape.full.is_empty() {
        adapted.shape.full.push((0.0, 1.0));
    }
    adapted.shape.full.iter_mut().for_each(|point| point.1 = (point.1 * factor).clamp(LEAST_SHAPE, MOST_SHAPE));
    adapted
}

/// The share that is purge's and what is left of the reads settle within 1e-3 in as many rounds:
/// each moves them by a fifth of what the one before did at most (0.7 x e^-0.94 x 0.94 / 1.27).
const ROUNDS: usize = 4;
/// Bounds that [`Database::check`] sets to a shape.
const LEAST_SHAPE: f64 = 0.05;
const MOST_SHAPE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::standard::tpcc;
    use crate::mysql::{PageClass, Popularity};

    /// A thousand pages of which one is touched a transaction, in a pool of 200 of them.
    fn small() -> (Database, f64) {
        let mut database = tpcc(StorageEngine::Innodb, 1.0).unwrap();
        database.popularity = Popularity { classes: vec![PageClass { pages: 1_000.0, touches_per_tx: 1e-3 }] };
        (database.usable_share, database.old_share) = (1.0, 0.375);
        let cache_bytes = 200.0 * database.cached_bytes;
        (database, cache_bytes)
    }

    fn factor(database: &Database, from: (f64, f64), to: (f64, f64), changed: f64) -> f64 {
        purged_at(database, from, to, &[changed]).shape.full[0].1
    }

    /// Golden: eight of ten touches miss, and stay for 75 / 0.8 = 93.75 transactions. At 400 of
    /// them a second purge is 100 behind: exp(-0.9375) = 0.3916 of 0.7 x 0.8 pages for 0.8, from a
    /// run so slow that none had left. The settled cache is good to 1e-3 (`SETTLED`), twice.
    #[test]
    fn reads_of_purge_are_those_of_pages_that_have_left() {
        let (database, cache_bytes) = small();
        let at = |tps: f64| (cache_bytes, tps);
        let more = 0.7 * libm::exp(-0.9375);
        assert!((factor(&database, at(1.0), at(400.0), 1.0) - 1.0 - more).abs() < 2e-3);
        // Measured there, purge has its part of the 0.8: m = 0.7 exp(-0.9375 (1 + m)) has the root
        // 0.2225.
        assert!((factor(&database, at(400.0), at(1.0), 1.0) * 1.2225 - 1.0).abs() < 4e-3);
        assert_eq!(factor(&database, at(400.0), at(400.0), 1.0), 1.0);
        assert_eq!(factor(&database, at(1.0), at(400.0), 0.0), 1.0);
        // Nothing leaves a cache that holds nearly all before purge has come, nor one that holds
        // all.
        let large = (0.999 * 1_000.0 * database.cached_bytes, 1.0);
        assert!(factor(&database, at(1.0), large, 1.0) <= 1.0);
        assert!(factor(&database, at(1.0), (1e4 * cache_bytes, 400.0), 1.0) <= 1.0);
    }

    /// A measured figure goes back to itself over any other cache and rate.
    #[test]
    fn it_goes_back_the_way_it_came() {
        let (database, cache_bytes) = small();
        for tps in [3.0, 50.0, 300.0, 5_000.0] {
            let there = purged_at(&database, (cache_bytes, 100.0), (cache_bytes, tps), &[0.8]);
            let back = factor(&there, (cache_bytes, tps), (cache_bytes, 100.0), 0.8);
            // The rounds end 1e-3 away at each end.
            assert!((back - 1.0).abs() < 3e-3, "{tps}: {back}");
        }
    }

    #[test]
    fn other_engines_and_unknown_pages_stay() {
        let (database, cache_bytes) = small();
        let (from, to) = ((cache_bytes, 1.0), (cache_bytes, 400.0));
        assert_eq!(purged_at(&database, from, to, &[]), database);
        let myrocks = tpcc(StorageEngine::Myrocks, 1.0).unwrap();
        let changed = vec![1.0; myrocks.popularity.classes.len()];
        assert_eq!(purged_at(&myrocks, from, to, &changed), myrocks);
    }
}
