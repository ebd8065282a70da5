//! A database on many storages, and its course on a storage.

use crate::columns::Columns;
use crate::{day, usd_month, Refusal, WhatIf};
use headrace_catalog::{Catalog, Deployment, InstanceLimits, NaiveDate, StorageSpec};
use headrace_model::first_touch::SnapshotOrigin;
use headrace_sim::mysql::interval::{run, Scenario, Second, Start, TransactionLoad};
use headrace_sim::mysql::search::{self, DatabaseCandidate, DatabaseOutcome, DatabaseSearch, Figures, ServerHost};
use headrace_sim::mysql::settings::ServerSettings;
use headrace_sim::mysql::{Database, WarmUp};
use headrace_sim::{Setup, SimError};
use serde::{Deserialize, Serialize};

/// Question about a database on storages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseQuestion {
    database: Database,
    /// Factor on the data.
    growth: f64,
    /// Settings of the server that differ from those of the runs.
    settings: Option<ServerSettings>,
    choices: Vec<ChoiceRequest>,
    clients: Option<u32>,
    arrivals_tps: Option<f64>,
    /// "cold" or "warm".
    start: String,
    seconds: f64,
    /// True leaves out bursts, since each day begins with the credits that the day before left.
    settled: bool,
    as_of: Option<String>,
    region: String,
    /// The choice, by index, whose course is wanted, and its length, s.
    course_of: Option<(usize, u32)>,
}

/// A storage with an instance and a cache.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceRequest {
    storage: String,
    log: Option<String>,
    instance: Option<String>,
    cache_bytes: f64,
}

/// A database on a choice.
#[derive(Serialize)]
pub struct DatabaseChoice {
    storage: String,
    /// USD a month of the volumes.
    volumes_usd_month: Option<f64>,
    /// "ran", or "invalid" and why.
    status: &'static str,
    why: Option<String>,
    cap: Option<String>,
    figures: Option<Figures>,
}

/// The choices in the order of the question; the course that was asked for stands in the columns.
#[derive(Serialize)]
pub struct DatabaseAnswer {
    choices: Vec<DatabaseChoice>,
}

/// Rows of a course: as many as a chart has pixels for.
const ROWS: f64 = 360.0;

impl DatabaseQuestion {
    /// Evaluates the choices, prices their volumes, and adds the course that is asked for to
    /// `columns`.
    pub(crate) fn answer(&self, model: &mut WhatIf, columns: &mut Columns) -> Result<DatabaseAnswer, Refusal> {
        let as_of = day(self.as_of.as_deref())?;
        let database = match &self.settings {
            Some(settings) => settings.on(&self.database.grown(self.growth))?,
            None => self.database.grown(self.growth),
        };
        database.check()?;
        let (database, warm_ups) = model.caches_of(database);
        let parts = Parts::collect(&self.choices, as_of)?;
        let search = DatabaseSearch {
            database,
            storages: &parts.storages,
            hosts: &parts.hosts,
            caches: &parts.caches,
            as_of,
            load: self.load(),
            start: start_named(&self.start)?,
            seconds: self.seconds,
            start_balance_percent: None,
            settled: self.settled,
            least_tps: 0.0,
        };
        let outcomes = search::evaluate(&search, warm_ups, &parts.candidates, &mut |_| true)?;
        let prices = Catalog::embedded().volume_prices(&self.region, as_of)?;
        let choices = parts.candidates.iter().zip(&outcomes).map(|(candidate, outcome)| {
            let usd = |index: usize| usd_month(&parts.storages[index], &prices);
            let volumes_usd_month = usd(candidate.data).and_then(|data| candidate.log.map_or(Some(data), |log| Some(data + usd(log)?)));
            DatabaseChoice { volumes_usd_month, ..choice_of(parts.storages[candidate.data].to_string(), outcome) }
        });
        let choices = choices.collect();
        if let Some((choice, seconds)) = self.course_of.and_then(|(index, seconds)| Some((self.choices.get(index)?, seconds))) {
            add_course(columns, &self.course_on(choice, seconds, database, as_of)?);
        }
        Ok(DatabaseAnswer { choices })
    }

    /// Returns the arrivals, or else the clients.
    fn load(&self) -> TransactionLoad {
        match self.arrivals_tps {
            Some(rate) => TransactionLoad::Arrivals(vec![rate]),
            None => TransactionLoad::Clients(self.clients.unwrap_or(1)),
        }
    }

    /// Runs the database on a choice for `seconds`, in steps of 1 s or longer.
    fn course_on(&self, choice: &ChoiceRequest, seconds: u32, database: &Database, as_of: NaiveDate) -> Result<Vec<Second>, Refusal> {
        let place = RunPlace { storage: &choice.storage, log: choice.log.as_deref(), instance: choice.instance.as_deref(), ..RunPlace::default() };
        let resolved = place.resolve(database, as_of)?;
        let warm_up = WarmUp::new(database, choice.cache_bytes);
        let step_s = (f64::from(seconds) / ROWS).max(1.0);
        let scenario = Scenario {
            database,
            warm_up: &warm_up,
            data: &resolved.data,
            log: resolved.log.as_ref(),
            instance: resolved.instance.as_ref(),
            vcpus: None,
            load: self.load(),
            start: start_named(&self.start)?,
            seconds,
            step_s,
            seed: None,
            follow: None,
        };
        let mut rows = Vec::new();
        run(&scenario, &mut |second| rows.push(*second))?;
        Ok(rows)
    }
}

/// Place of a database as it is written.
#[derive(Default)]
pub struct RunPlace<'a> {
    /// The data volumes.
    pub storage: &'a str,
    /// Volumes of their own for the log.
    pub log: Option<&'a str>,
    /// The instance; none: the volumes alone.
    pub instance: Option<&'a str>,
    /// Credits at the start, percent; none: as AWS starts them.
    pub start_balance_percent: Option<f64>,
    /// Bytes of the data volume that lie in a snapshot until they are touched.
    pub snapshot_bytes: Option<u64>,
}

/// Place of a database with its limits.
pub struct ResolvedPlace {
    /// The data volumes.
    pub data: Setup,
    /// Volumes of their own for the log.
    pub log: Option<Setup>,
    /// The instance.
    pub instance: Option<InstanceLimits>,
}

impl RunPlace<'_> {
    /// Finds the limits of a day. `database` knows how fast a local disk is that the catalog does
    /// not.
    ///
    /// # Errors
    /// The notation cannot be read, or a volume or instance is not sold on that day.
    pub fn resolve(&self, database: &Database, as_of: NaiveDate) -> Result<ResolvedPlace, SimError> {
        let (writes, reads) = database.local_disk_speeds();
        let setup = |storage: &str| -> Result<Setup, SimError> {
            let setup = Setup::resolve(storage, self.instance, as_of)?.with_local_disk(writes, reads);
            Ok(Setup { start_balance_percent: self.start_balance_percent, ..setup })
        };
        let instance = self.instance.map(|name| Catalog::embedded().instance(name, as_of)).transpose()?;
        let snapshot = self.snapshot_bytes.map(|written_bytes| SnapshotOrigin { written_bytes, initialization_bytes_s: None });
        Ok(ResolvedPlace { data: Setup { snapshot, ..setup(self.storage)? }, log: self.log.map(setup).transpose()?, instance })
    }
}

/// Returns the state of the cache at the start, by name.
pub fn start_named(name: &str) -> Result<Start, SimError> {
    match name {
        "cold" => Ok(Start::Cold),
        "warm" => Ok(Start::Warm),
        other => Err(SimError::refused("start", other, "must be cold or warm", "Give cold or warm.")),
    }
}

/// The parts of choices, each once, and choices as indices into them.
struct Parts {
    storages: Vec<StorageSpec>,
    hosts: Vec<ServerHost>,
    caches: Vec<f64>,
    candidates: Vec<DatabaseCandidate>,
}

impl Parts {
    /// Parses the choices and lists what they use, each once.
    fn collect(choices: &[ChoiceRequest], as_of: NaiveDate) -> Result<Parts, Refusal> {
        let mut parts = Parts { storages: Vec::new(), hosts: Vec::new(), caches: Vec::new(), candidates: Vec::new() };
        let mut names: Vec<&str> = Vec::new();
        for choice in choices {
            let instance = choice.instance.as_deref().map(|name| position(&mut names, name));
            let data = position(&mut parts.storages, choice.storage.parse()?);
            let log = match &choice.log {
                Some(log) => Some(position(&mut parts.storages, log.parse()?)),
                None => None,
            };
            let cache = position(&mut parts.caches, choice.cache_bytes);
            parts.candidates.push(DatabaseCandidate { data, log, instance, cache });
        }
        for name in names {
            parts.hosts.push(ServerHost { deployment: Deployment::Ec2, class: Catalog::embedded().ec2_class(name, as_of)? });
        }
        Ok(parts)
    }
}

/// Returns the place of a value in a list; appends the value where it is new.
pub(crate) fn position<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|other| *other == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// Makes the entry of a choice, without its price.
fn choice_of(storage: String, outcome: &DatabaseOutcome) -> DatabaseChoice {
    let nothing = DatabaseChoice { storage, volumes_usd_month: None, status: "invalid", why: None, cap: None, figures: None };
    match outcome {
        DatabaseOutcome::Ran(figures) | DatabaseOutcome::Bounded(figures) => {
            DatabaseChoice { status: "ran", cap: Some(figures.binding.name()), figures: Some(**figures), ..nothing }
        }
        DatabaseOutcome::Invalid(why) => DatabaseChoice { why: Some(why.clone()), ..nothing },
    }
}

/// Adds the course of a choice, a row for each step.
fn add_course(columns: &mut Columns, rows: &[Second]) {
    let mut add = |name, read: fn(&Second) -> Option<f64>| columns.add(name, rows.iter().map(read));
    add("t_s", |row| Some(row.t_s));
    add("tps", |row| Some(row.tps));
    add("p95_ms", |row| Some(row.p95_ms));
    add("iops", |row| Some(row.iops));
    add("reads_per_tx", |row| Some(row.reads_per_tx));
    add("cached_share", |row| Some(row.cached_share));
    add("balance_percent", |row| row.balance_percent);
}
