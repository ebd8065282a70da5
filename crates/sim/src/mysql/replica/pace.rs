//! Computes the costs of a transaction with the cache as it is, the rate that they let through, and
//! its demand on the volumes: each decides on the others.

use super::super::database::StorageEngine;
use super::super::warmup::At;
use super::devices::{purge_reads, Always, Demand, ReplicaDevices};
use super::rate::ApplierCosts;
use super::scenario::ReplicaScenario;

/// Rounds in which the commits that share a flush and the rate find each other: the third moves the
/// rate by less than a thousandth.
const ROUNDS: usize = 3;

/// The applier at one state of its cache.
pub(super) struct Pace {
    pub costs: ApplierCosts,
    /// Transactions a second.
    pub rate: f64,
    pub demand: Demand,
    /// Pages that purge reads a transaction.
    pub purged: f64,
}

/// Computes the pace of the applier with its cache `at`, with what is `always` asked; `committing`:
/// commits under way on the source.
pub(super) fn pace(scenario: &ReplicaScenario<'_>, devices: &ReplicaDevices, at: &At, committing: f64, always: &Always) -> Pace {
    let vcpus = scenario.storage.instance.map_or(0.0, |limits| f64::from(limits.vcpus));
    let alone = devices.costs(scenario.database, scenario.applier, scenario.settings, at, committing, vcpus);
    // Purge's reads and what they push out are the volumes', not the workers'.
    let with_purge = |costs: ApplierCosts, rate: f64| {
        let purged = purged(scenario, at, costs.reading(rate));
        let all = At { reads: at.reads + purged, evicted_dirty: at.evicted_dirty * (1.0 + purged / at.reads.max(1e-9)), ..*at };
        Pace { costs, rate, demand: devices.demand(scenario.database, scenario.applier, &all, costs.grouped(rate)), purged }
    };
    let always = devices.always_on_volumes(always);
    (0..ROUNDS).fold(with_purge(alone, alone.rate()), |before, _| {
        let mut costs = alone;
        devices.limit_rates(&mut costs, &before.demand, &always, scenario.source.step_s);
        with_purge(costs, costs.rate())
    })
}

/// Returns the pages that purge reads a transaction, with the given number of workers `reading` at
/// once.
fn purged(scenario: &ReplicaScenario<'_>, at: &At, reading: f64) -> f64 {
    let full = scenario.database.engine == StorageEngine::Innodb && at.full > 0.0;
    if full {
        purge_reads(scenario.database, scenario.settings, at.reads, scenario.cache_bytes, reading)
    } else {
        0.0
    }
}
