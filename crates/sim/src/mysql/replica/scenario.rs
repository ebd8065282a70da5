//! Inputs of a run of a replica.

use super::super::database::Database;
use super::super::interval::{Scenario, Start};
use super::super::warmup::WarmUp;
use super::applier::Applier;
use super::devices::ReplicaStorage;
use super::semisync::SemiSync;
use super::settings::ReplicaSettings;

/// A transaction or a statement on the schema that nothing else passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeTransaction {
    /// When it begins on the source, s.
    pub at_s: f64,
    /// Time that it takes there, s; it is sent when it commits.
    pub source_s: f64,
    /// Time that the replica takes to apply it, s.
    pub apply_s: f64,
}

/// A replica behind a source.
#[derive(Clone, Debug)]
pub struct ReplicaScenario<'a> {
    /// The source: its load and length are the run's load.
    pub source: Scenario<'a>,
    /// Work of the applier for a transaction.
    pub applier: &'a Applier,
    /// Settings of the replica.
    pub settings: &'a ReplicaSettings,
    /// The database as the replica has it ([`replica_database`]).
    pub database: &'a Database,
    /// Cache of the replica, followed from a cold start, with hits that move pages at once.
    pub warm_up: &'a WarmUp,
    /// Bytes of it.
    pub cache_bytes: f64,
    /// Devices of the replica's files.
    pub storage: ReplicaStorage<'a>,
    /// State of its cache.
    pub start: Start,
    /// Semi-synchronous replication.
    pub semi_sync: Option<&'a SemiSync>,
    /// Large transactions, by the time they begin.
    pub large: &'a [LargeTransaction],
    /// Seconds after the load at which the run ends, if the replica has not caught up before.
    pub drain_s: u32,
    /// Transactions a second of the source, a step each, instead of the source's own run: as
    /// measured.
    pub source_tps: Option<&'a [f64]>,
    /// The relay log has all of it from the start: nothing is received while it is applied.
    pub received: bool,
}

impl ReplicaScenario<'_> {
    /// Returns the transactions that the applier's cache has served when the run begins.
    pub(super) fn start_tx(&self) -> f64 {
        self.start.tx(self.warm_up)
    }
}
