//! A replica behind a run: as `headrace predict --replica` has it.

use crate::columns::Columns;
use crate::database::{start_named, ResolvedPlace};
use crate::run::{FollowedCaches, RunRequest, RunSettings};
use crate::{day, Refusal, WhatIf};
use headrace_catalog::{Catalog, NaiveDate};
use headrace_sim::mysql::replica::{
    replica_database, run, Applier, LargeTransaction, ReplicaRun, ReplicaScenario, ReplicaSecond, ReplicaSettings, ReplicaStorage, ReplicaSummary, SemiSync,
};
use headrace_sim::mysql::Database;
use headrace_sim::{Setup, SimError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A replica, as the Python package hands it over.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaRequest {
    storage: String,
    log_storage: Option<String>,
    relay_storage: Option<String>,
    instance: Option<String>,
    cache_bytes: f64,
    /// "cold" or "warm".
    start: String,
    start_balance_percent: Option<f64>,
    reads_per_tx: f64,
    applier: Applier,
    settings: ReplicaSettings,
    semi_sync: Option<SemiSync>,
    /// Begin, length on the source and on the replica, s.
    large: Vec<(f64, f64, f64)>,
    drain_s: u32,
    source_tps: Option<Vec<f64>>,
    /// The relay log has all of `source_tps` from the start.
    received: bool,
}

impl ReplicaRequest {
    /// Returns the large transactions.
    fn large(&self) -> Vec<LargeTransaction> {
        self.large.iter().map(|&(at_s, source_s, apply_s)| LargeTransaction { at_s, source_s, apply_s }).collect()
    }

    /// Runs the replica behind its source, whose limits are resolved. `database`: the source's.
    ///
    /// # Errors
    /// A storage, an instance or a start is not known, or the settings are those of no replica.
    pub fn run(
        &self,
        database: &Database,
        (source, resolved): (&RunRequest, &ResolvedPlace),
        day: NaiveDate,
        followed: &mut FollowedCaches,
    ) -> Result<ReplicaRun, SimError> {
        let setup = |storage: &str| -> Result<Setup, SimError> {
            let setup = Setup::resolve(storage, self.instance.as_deref(), day)?;
            Ok(Setup { start_balance_percent: self.start_balance_percent, ..setup })
        };
        let instance = self.instance.as_deref().map(|name| Catalog::embedded().instance(name, day)).transpose()?;
        let data = setup(&self.storage)?;
        let log = self.log_storage.as_deref().map(setup).transpose()?;
        let relay = self.relay_storage.as_deref().map(setup).transpose()?;
        let own = replica_database(database, &self.applier, &self.settings, self.reads_per_tx, (source.cache_bytes, self.cache_bytes))?;
        own.check()?;
        let (of_source, warm_up) = (followed.follow(database, source.cache_bytes), followed.follow(&own, self.cache_bytes));
        run(&ReplicaScenario {
            source: source.scenario(database, &of_source, resolved)?,
            applier: &self.applier,
            settings: &self.settings,
            database: &own,
            warm_up: &warm_up,
            cache_bytes: self.cache_bytes,
            storage: ReplicaStorage { data: &data, log: log.as_ref(), relay: relay.as_ref(), instance: instance.as_ref() },
            start: start_named(&self.start)?,
            semi_sync: self.semi_sync.as_ref(),
            large: &self.large(),
            drain_s: self.drain_s,
            source_tps: self.source_tps.as_deref(),
            received: self.received,
        })
    }
}

/// A replica with the source's cache on the source's instance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSetup {
    storage: String,
    /// Threads of the applier; none: those of `settings`.
    workers: Option<u32>,
    settings: ReplicaSettings,
    /// Parameters of the applier that runs identified; others follow from the source.
    identified: Map<String, Value>,
    /// Most time that it may go on after its load, s.
    drain_s: u32,
}

/// Question about a replica that follows a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaQuestion {
    /// None: that of the question before.
    database: Option<Database>,
    run: RunSettings,
    replica: ReplicaSetup,
}

/// Summary of the seconds of a replica, which stand in the columns.
#[derive(Serialize)]
pub struct ReplicaAnswer {
    summary: ReplicaSummary,
}

impl ReplicaQuestion {
    /// Runs the source and its replica, and adds the seconds of the replica to `columns`.
    pub(crate) fn answer(&self, model: &mut WhatIf, columns: &mut Columns) -> Result<ReplicaAnswer, Refusal> {
        let database = self.run.grown(model.base_of(self.database.as_ref())?)?;
        let source = self.run.request();
        let resolved = source.resolve(&database)?;
        let request = self.replica.request(&database, &source)?;
        let ReplicaRun { rows, summary } = request.run(&database, (&source, &resolved), day(source.as_of.as_deref())?, &mut model.followed)?;
        add_seconds(columns, &rows, source.step_s());
        Ok(ReplicaAnswer { summary })
    }
}

impl ReplicaSetup {
    /// Makes the request of a warm replica on the source's instance, with its cache and without
    /// semi-sync.
    fn request(&self, database: &Database, source: &RunRequest) -> Result<ReplicaRequest, Refusal> {
        Ok(ReplicaRequest {
            storage: self.storage.clone(),
            log_storage: None,
            relay_storage: None,
            instance: source.instance().map(str::to_string),
            cache_bytes: source.cache_bytes,
            start: "warm".to_string(),
            start_balance_percent: None,
            reads_per_tx: 0.0,
            applier: self.applier(database)?,
            settings: ReplicaSettings { workers: self.workers.unwrap_or(self.settings.workers), ..self.settings },
            semi_sync: None,
            large: Vec::new(),
            drain_s: self.drain_s,
            source_tps: None,
            received: false,
        })
    }

    /// Returns the applier's parameters: as identified, else as they follow from the source.
    fn applier(&self, database: &Database) -> Result<Applier, Refusal> {
        let refused =
            |error: serde_json::Error| Refusal::new("identified", error.to_string(), "docs/reference/workload-file.md", "Name parameters of an applier.");
        let mut table = serde_json::to_value(Applier::of_source(database, None)).map_err(refused)?;
        for (name, value) in &self.identified {
            table[name] = value.clone();
        }
        serde_json::from_value(table).map_err(refused)
    }
}

/// Adds the seconds of a replica, each by its beginning.
fn add_seconds(columns: &mut Columns, rows: &[ReplicaSecond], step_s: f64) {
    columns.add("t_s", rows.iter().map(|row| Some(row.t_s - step_s)));
    let mut add = |name, read: fn(&ReplicaSecond) -> Option<f64>| columns.add(name, rows.iter().map(read));
    add("source_tps", |row| Some(row.source_tps));
    add("applied_tps", |row| Some(row.applied_tps));
    add("possible_tps", |row| Some(row.possible_tps));
    add("backlog", |row| Some(row.backlog));
    add("lag_s", |row| Some(row.lag_s));
    add("balance_percent", |row| row.balance_percent);
}
