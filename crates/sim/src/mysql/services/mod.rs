//! MySQL as a service: the same database, clients and cache as in `interval`, on other storage.
//!
//! ```text
//!  ec2                   volumes
//!  rds:single-az         volumes, as RDS lays them out
//!  rds:multi-az          volumes; every log write also on the standby's volume, one zone away
//!  rds:multi-az-cluster  volumes; every commit also received by the faster of two readers
//!  aurora                no page is written: log records to six copies in three zones, four must answer; misses read over the network
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `aurora` | Aurora's storage as the second-by-second form sees it: latencies, network, billed I/O |
//! | `quorum` | how long the fourth of six takes |
//! | `reader` | lag and processor time of a reader |
//! | `standby` | what RDS's standbys add to writes and commits |
//!
//! No Aurora was measured by this project. Published figures decide the parameters of
//! [`AuroraStorage`]; each says whether it was fitted, on what, or guessed.

mod aurora;
pub(in crate::mysql) mod quorum;
mod reader;
mod standby;

pub use aurora::{log_only, AuroraStorage, BilledIo};
pub use quorum::{Quorum, QuorumLatency};
pub use reader::{ReaderLag, ReaderLoad};

use super::database::Database;
use super::interval::{run_on, Course, Devices, Machine, Processors, Scenario, Second, Start, TransactionLoad};
use super::warmup::WarmUp;
use crate::error::SimError;
use crate::setup::Setup;
use headrace_catalog::{Deployment, Service, ServiceClass};

/// A database at a service.
#[derive(Clone, Debug)]
pub struct ServiceScenario<'a> {
    /// Service and option on which the database runs.
    pub deployment: Deployment,
    /// The database; Aurora: as [`log_only`] makes it.
    pub database: &'a Database,
    /// Cache of the database, followed from a cold start.
    pub warm_up: &'a WarmUp,
    /// The data volumes; none for Aurora.
    pub data: Option<&'a Setup>,
    /// Limits, processors and memory of the class.
    pub class: &'a ServiceClass,
    /// Aurora's storage.
    pub aurora: &'a AuroraStorage,
    /// Clients or arrivals.
    pub load: TransactionLoad,
    /// State of the cache.
    pub start: Start,
    /// Length, s.
    pub seconds: u32,
    /// Length of a step, s.
    pub step_s: f64,
    /// Seed of the one-second scatter; none: means only.
    pub seed: Option<u64>,
}

/// Runs a scenario; `each` is called with every step.
///
/// # Errors
/// Those of [`super::interval::run`]; volumes that are missing.
pub fn run(scenario: &ServiceScenario<'_>, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
    scenario.database.check()?;
    run_checked(scenario, each)
}

/// Runs a scenario of a database that was checked, as a search does once for all its candidates.
pub(crate) fn run_checked(scenario: &ServiceScenario<'_>, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
    let course = Course {
        database: scenario.database,
        warm_up: scenario.warm_up,
        processors: Processors::resolve(Some(&scenario.class.limits), None, &Machine::default()),
        load: &scenario.load,
        start: scenario.start,
        seconds: scenario.seconds,
        step_s: scenario.step_s,
        seed: scenario.seed,
        follow: None,
    };
    if scenario.deployment.service() == Service::Aurora {
        return run_on(&course, aurora::Backend::new(scenario.aurora, scenario.class), each);
    }
    let data = scenario.data.ok_or_else(|| SimError::refused("storage", "none", "must be named but for Aurora", "For example gp3:500."))?;
    let volumes = Scenario {
        database: scenario.database,
        warm_up: scenario.warm_up,
        data,
        log: None,
        instance: Some(&scenario.class.limits),
        vcpus: None,
        load: scenario.load.clone(),
        start: scenario.start,
        seconds: scenario.seconds,
        step_s: scenario.step_s,
        seed: scenario.seed,
        follow: None,
    };
    let alone = Devices::new(&volumes, standby::path(scenario.deployment, 0.0));
    let path = standby::path(scenario.deployment, alone.volume_write_ms());
    run_on(&course, Devices::new(&volumes, path), each)
}
