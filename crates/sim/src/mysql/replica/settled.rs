//! The replica's cache and dirty pages at the rate it applies with: both follow the rate, and the
//! rate follows them.

use super::super::database::{Database, StorageEngine};
use super::super::interval::Start;
use super::super::popularity::{PageClass, Popularity};
use super::super::warmup::WarmUp;
use super::applier::Applier;
use super::devices::{committing, Always, ReplicaDevices};
use super::pace::pace;
use super::scenario::ReplicaScenario;
use super::settings::ReplicaSettings;

/// A page must have been read this long ago before a hit makes it young: innodb_old_blocks_time,
/// 1,000 ms in both flavours (MySQL from 5.6.6; their manuals, read 2026-11).
const OLD_BLOCKS_S: f64 = 1.0;
/// Rounds in which the rate finds them, and how close they come: reads and writes follow slowly,
/// and each round follows the cache anew.
const ROUNDS: usize = 4;
const CLOSE: f64 = 0.15;

/// Differences from the scenario as it was given.
#[derive(Default)]
pub(super) struct Settled {
    database: Option<Database>,
    warm_up: Option<WarmUp>,
    /// Workers that wait for a read at once.
    pub reading: f64,
}

impl Settled {
    /// Makes the differences of a replica that has `source_tps` to apply.
    ///
    /// A hit moves no page that was read less than [`OLD_BLOCKS_S`] before: where pages leave
    /// sooner than that none of them ever becomes young, and few hits are left. And the more pages
    /// are written back a second, the more are dirty ([`ReplicaSettings::dirty_share`]).
    pub fn find(scenario: &ReplicaScenario<'_>, source_tps: &[f64]) -> Settled {
        let innodb = scenario.database.engine == StorageEngine::Innodb;
        let evicts = innodb && scenario.warm_up.full_at_tx.is_some();
        let early = innodb && scenario.settings.dirty_low_water > 0.0;
        let load = source_tps.iter().filter(|tps| **tps > 0.0);
        let most = load.clone().sum::<f64>() / load.count().max(1) as f64;
        let (mut held_tx, mut dirty) = (0.0, if early { scenario.settings.dirty_low_water } else { 0.0 });
        let mut settled = if early { Settled::at(scenario, held_tx, dirty) } else { Settled::default() };
        for round in 0..=ROUNDS {
            let (tps, pages_s, reading) = settled.settles_at(scenario, most);
            settled.reading = reading;
            let (next_held_tx, next_dirty) = (if evicts { OLD_BLOCKS_S * tps } else { 0.0 }, if early { scenario.settings.dirty_share(pages_s) } else { 0.0 });
            if round == ROUNDS || close(next_held_tx, held_tx) && close(next_dirty, dirty) {
                break;
            }
            (held_tx, dirty) = (between(held_tx, next_held_tx), between(dirty, next_dirty));
            settled = Settled::at(scenario, held_tx, dirty);
        }
        settled
    }

    /// Makes the differences where hits move no page for `held_tx` transactions, with `dirty` as
    /// the share of dirty pages; 0: not by their number.
    fn at(scenario: &ReplicaScenario<'_>, held_tx: f64, dirty: f64) -> Settled {
        let evicted = scenario.warm_up.at(scenario.warm_up.settled_tx(), &mut 0).evicted_dirty;
        let back = || written_back(scenario.database, scenario.applier, scenario.settings, scenario.cache_bytes, (dirty, evicted));
        let database = (dirty > 0.0).then(back);
        let warm_up = WarmUp::held_back(database.as_ref().unwrap_or(scenario.database), scenario.cache_bytes, held_tx);
        Settled { database, warm_up: Some(warm_up), reading: 0.0 }
    }

    /// Returns the scenario with these differences.
    pub fn scenario<'a>(&'a self, given: &ReplicaScenario<'a>) -> ReplicaScenario<'a> {
        ReplicaScenario { database: self.database.as_ref().unwrap_or(given.database), warm_up: self.warm_up.as_ref().unwrap_or(given.warm_up), ..given.clone() }
    }

    /// Returns the transactions and pages written a second of the applier with a warm cache and at
    /// most `most` to do, and [`Settled::reading`].
    fn settles_at(&self, given: &ReplicaScenario<'_>, most: f64) -> (f64, f64, f64) {
        let scenario = ReplicaScenario { start: Start::Warm, ..self.scenario(given) };
        let devices = ReplicaDevices::new(&scenario.storage, scenario.database, scenario.source.step_s);
        let at = scenario.warm_up.at(scenario.start_tx(), &mut 0);
        let paced = pace(&scenario, &devices, &at, committing(&scenario.source, most, 0.0), &Always::default());
        let tps = paced.rate.min(most);
        (tps, tps * (at.evicted_dirty + at.flushed) * at.shape, paced.costs.reading(tps))
    }
}

/// Returns whether a value differs from the one of the round before by no more than CLOSE of
/// itself.
fn close(value: f64, before: f64) -> bool {
    (value - before).abs() <= CLOSE * value
}

/// Returns the mean of the two by their logarithms: more reads make a lower rate, which makes fewer
/// reads.
fn between(before: f64, value: f64) -> f64 {
    if before > 0.0 {
        (value * before).sqrt()
    } else {
        value
    }
}

/// Returns the database whose pages are written back so that `dirty` of the pool is changed: a page
/// is written when the pages changed since its own first change fill that. Pages that leave the
/// cache are clean then, unless it leaves sooner: those are some of the `evicted` that would leave
/// dirty in a transaction.
pub fn written_back(database: &Database, applier: &Applier, settings: &ReplicaSettings, cache_bytes: f64, (dirty, evicted): (f64, f64)) -> Database {
    let mut adapted = database.clone();
    let pages = dirty * cache_bytes / adapted.cached_bytes;
    // The classes after the source's are pages that every touch changes.
    let shares = applier.written.iter().map(|share| f64::from(u8::from(*share > 0.0))).chain(std::iter::repeat(1.0));
    let changed: Vec<PageClass> =
        adapted.popularity.classes.iter().zip(shares).map(|(class, share)| PageClass { touches_per_tx: class.touches_per_tx * share, ..*class }).collect();
    let window = Popularity { classes: changed }.stay_tx(pages);
    if !window.is_finite() {
        return adapted;
    }
    let stay = adapted.old_share * adapted.popularity.stay_tx(adapted.cache_pages(cache_bytes));
    let dirty_still = window / (window + stay);
    let writes = &mut adapted.writes;
    (writes.first_dirty, writes.later_dirty) = (writes.first_dirty * dirty_still, writes.later_dirty * dirty_still);
    writes.flush_per_tx = writes.flush_per_tx.max(pages / window - evicted * dirty_still);
    writes.flush_ramp_tx = writes.flush_ramp_tx.min(window);
    (writes.background_per_s, writes.flush_limit_per_s) = (0.0, settings.io_capacity);
    adapted
}
