//! A run of a database on a storage, row by row: as `headrace predict` has it.

use crate::columns::Columns;
use crate::database::{position, start_named, ResolvedPlace, RunPlace};
use crate::{day, Refusal, WhatIf};
use headrace_sim::mysql::interval::{run, Binding, Scenario, Second, Start, TransactionLoad};
use headrace_sim::mysql::{Database, WarmUp};
use headrace_sim::SimError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One run to simulate, as the Python package hands it over.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    storage: String,
    log_storage: Option<String>,
    instance: Option<String>,
    /// Virtual CPUs the server may use; none: the instance's.
    #[serde(default)]
    vcpus: Option<u32>,
    /// The day whose limits hold; none: the newest of the catalog.
    pub as_of: Option<String>,
    /// Bytes of the cache.
    pub cache_bytes: f64,
    clients: Option<u32>,
    arrivals: Option<Vec<f64>>,
    /// "cold", "warm", or transactions done.
    start: StartRequest,
    /// Length, s.
    pub seconds: u32,
    step_s: f64,
    seed: Option<u64>,
    start_balance_percent: Option<f64>,
    /// Bytes of the data volume that lie in a snapshot until they are touched.
    #[serde(default)]
    snapshot_bytes: Option<u64>,
    follow: Option<Vec<f64>>,
}

/// The state of the cache at the start.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum StartRequest {
    Transactions(f64),
    Named(String),
}

impl RunRequest {
    /// Resolves the limits of the run's storage and instance.
    ///
    /// # Errors
    /// The notation cannot be read, or the catalog does not know a volume, an instance or a day.
    pub fn resolve(&self, database: &Database) -> Result<ResolvedPlace, Refusal> {
        let place = RunPlace {
            storage: &self.storage,
            log: self.log_storage.as_deref(),
            instance: self.instance.as_deref(),
            start_balance_percent: self.start_balance_percent,
            snapshot_bytes: self.snapshot_bytes,
        };
        Ok(place.resolve(database, day(self.as_of.as_deref())?)?)
    }

    pub(crate) fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// Returns the seconds that a row stands for.
    pub(crate) fn step_s(&self) -> f64 {
        self.step_s
    }

    fn start(&self) -> Result<Start, SimError> {
        match &self.start {
            StartRequest::Transactions(tx) => Ok(Start::Transactions(*tx)),
            StartRequest::Named(name) => start_named(name),
        }
    }

    /// Returns the run of a database whose cache has been followed, on limits that are resolved.
    ///
    /// # Errors
    /// The start has no such name.
    pub fn scenario<'a>(&'a self, database: &'a Database, warm_up: &'a WarmUp, resolved: &'a ResolvedPlace) -> Result<Scenario<'a>, SimError> {
        let load = match (&self.clients, &self.arrivals) {
            (Some(clients), _) => TransactionLoad::Clients(*clients),
            (None, arrivals) => TransactionLoad::Arrivals(arrivals.clone().unwrap_or_default()),
        };
        Ok(Scenario {
            database,
            warm_up,
            data: &resolved.data,
            log: resolved.log.as_ref(),
            instance: resolved.instance.as_ref(),
            vcpus: self.vcpus,
            load,
            start: self.start()?,
            seconds: self.seconds,
            step_s: self.step_s,
            seed: self.seed,
            follow: self.follow.as_deref(),
        })
    }
}

/// Caches that are remembered: a slider goes back and forth over a few.
const MOST_CACHES: usize = 16;

/// Caches of the last few databases and sizes, followed once each.
#[derive(Clone, Default)]
pub struct FollowedCaches(Vec<(Database, f64, Arc<WarmUp>)>);

impl FollowedCaches {
    /// Returns the cache of a database from a cold start, followed where it is not remembered.
    pub fn follow(&mut self, database: &Database, bytes: f64) -> Arc<WarmUp> {
        if let Some((_, _, warm_up)) = self.0.iter().find(|(other, size, _)| size.to_bits() == bytes.to_bits() && other == database) {
            return Arc::clone(warm_up);
        }
        let warm_up = Arc::new(WarmUp::new(database, bytes));
        if self.0.len() == MOST_CACHES {
            self.0.remove(0);
        }
        self.0.push((database.clone(), bytes, Arc::clone(&warm_up)));
        warm_up
    }
}

const GIB: f64 = 1_073_741_824.0;
/// The longest run that is answered, s: the week of `headrace predict`.
const MOST_SECONDS: u32 = 7 * 86_400;

/// The settings of a run by the names of their options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    storage: String,
    log_storage: Option<String>,
    instance: Option<String>,
    vcpus: Option<u32>,
    /// Virtual CPUs of the machine that the database was measured on: they hold where neither
    /// virtual CPUs nor an instance are named.
    vcpus_of_runs: Option<u32>,
    as_of: Option<String>,
    cache_gib: f64,
    threads: u32,
    arrivals_tps: Option<f64>,
    start: StartRequest,
    seconds: u32,
    seed: Option<u64>,
    start_balance_percent: Option<f64>,
    growth: f64,
}

impl RunSettings {
    /// Returns the database over the data of the run.
    pub(crate) fn grown(&self, database: &Database) -> Result<Database, Refusal> {
        self.check()?;
        let grown = if self.growth == 1.0 { database.clone() } else { database.grown(self.growth) };
        grown.check()?;
        Ok(grown)
    }

    /// Refuses lengths and sizes that cannot be.
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |value: String, rule: &str| Err(Refusal::new(value, rule, "headrace predict --help", "Give another value."));
        if self.seconds == 0 || self.seconds > MOST_SECONDS {
            return refuse(format!("seconds = {}", self.seconds), "must be from 1 to a week, 604,800");
        }
        for (name, value) in [("growth", self.growth), ("cache-gib", self.cache_gib), ("threads", f64::from(self.threads))] {
            if value <= 0.0 {
                return refuse(format!("{name} = {value}"), "must be more than 0");
            }
        }
        Ok(())
    }

    /// Makes the request of the run, in steps of 1 s.
    pub(crate) fn request(&self) -> RunRequest {
        let measured_on = if self.instance.is_none() { self.vcpus_of_runs } else { None };
        RunRequest {
            storage: self.storage.clone(),
            log_storage: self.log_storage.clone(),
            instance: self.instance.clone(),
            vcpus: self.vcpus.or(measured_on),
            as_of: self.as_of.clone(),
            cache_bytes: self.cache_gib * GIB,
            clients: if self.arrivals_tps.is_none() { Some(self.threads) } else { None },
            arrivals: self.arrivals_tps.map(|rate| vec![rate]),
            start: self.start.clone(),
            seconds: self.seconds,
            step_s: 1.0,
            seed: self.seed,
            start_balance_percent: self.start_balance_percent,
            snapshot_bytes: None,
            follow: None,
        }
    }
}

/// Question about a database on a storage, second by second.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunQuestion {
    /// None: that of the question before.
    database: Option<Database>,
    run: RunSettings,
}

/// Limits of a run. The seconds stand in the columns; `cap` has places in this list.
#[derive(Serialize)]
pub struct RunAnswer {
    caps: Vec<String>,
}

impl RunQuestion {
    /// Runs the database, and adds its seconds to `columns`.
    pub(crate) fn answer(&self, model: &mut WhatIf, columns: &mut Columns) -> Result<RunAnswer, Refusal> {
        let database = self.run.grown(model.base_of(self.database.as_ref())?)?;
        let request = self.run.request();
        let resolved = request.resolve(&database)?;
        let warm_up = model.followed.follow(&database, request.cache_bytes);
        let mut rows = Vec::with_capacity(request.seconds as usize);
        run(&request.scenario(&database, &warm_up, &resolved)?, &mut |second| rows.push(*second))?;
        Ok(RunAnswer { caps: add_seconds(columns, &rows, request.step_s()) })
    }
}

/// Adds the seconds of a run, each by its beginning; returns the names of the limits that bind.
fn add_seconds(columns: &mut Columns, rows: &[Second], step_s: f64) -> Vec<String> {
    columns.add("t_s", rows.iter().map(|row| Some(row.t_s - step_s)));
    let mut add = |name, read: fn(&Second) -> Option<f64>| columns.add(name, rows.iter().map(read));
    add("tps", |row| Some(row.tps));
    add("p50_ms", |row| Some(row.p50_ms));
    add("p95_ms", |row| Some(row.p95_ms));
    add("p99_ms", |row| Some(row.p99_ms));
    add("iops", |row| Some(row.iops));
    add("balance_percent", |row| row.balance_percent);
    add("cached_share", |row| Some(row.cached_share));
    add("dirty_share", |row| Some(row.dirty_share));
    let mut bindings: Vec<Binding> = Vec::new();
    let places: Vec<usize> = rows.iter().map(|row| position(&mut bindings, row.binding)).collect();
    columns.add("cap", places.iter().map(|place| Some(*place as f64)));
    bindings.iter().map(|binding| binding.name()).collect()
}
