//! A replica behind a database: its rate, its lag, the price of semi-sync.

use crate::convert::{date, sim_error, to_python};
use crate::mysql::{database_of, RunArgs};
use headrace_catalog::{Catalog, NaiveDate};
use headrace_sim::mysql::interval::Start;
use headrace_sim::mysql::replica::{
    replica_database, run, Applier, LargeTransaction, ReplicaRun, ReplicaScenario, ReplicaSettings, ReplicaStorage, SemiSync, APPLIER_SPREADS,
};
use headrace_sim::mysql::{Database, WarmUp};
use headrace_sim::{Setup, SimError};
use headrace_whatif::database::{start_named, ResolvedPlace};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use serde::Deserialize;

/// A source that replicas run behind.
struct Source<'a> {
    database: &'a Database,
    run: &'a RunArgs,
    place: ResolvedPlace,
    day: NaiveDate,
}

impl<'a> Source<'a> {
    fn new(database: &'a Database, run: &'a RunArgs) -> PyResult<Source<'a>> {
        database.check().map_err(sim_error)?;
        Ok(Source { database, run, place: run.resolve(database)?, day: date(run.as_of.as_deref())? })
    }

    fn warm_up(&self) -> WarmUp {
        WarmUp::new(self.database, self.run.cache_bytes)
    }
}

/// A replica, as Python hands it over.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplicaArgs {
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

impl ReplicaArgs {
    fn start(&self) -> Result<Start, SimError> {
        start_named(&self.start)
    }

    fn large(&self) -> Vec<LargeTransaction> {
        self.large.iter().map(|&(at_s, source_s, apply_s)| LargeTransaction { at_s, source_s, apply_s }).collect()
    }

    /// Runs the replica behind a source whose cache was followed (`of_source`).
    fn run(&self, source: &Source<'_>, of_source: &WarmUp) -> Result<ReplicaRun, SimError> {
        let setup = |storage: &str| -> Result<Setup, SimError> {
            let setup = Setup::resolve(storage, self.instance.as_deref(), source.day)?;
            Ok(Setup { start_balance_percent: self.start_balance_percent, ..setup })
        };
        let instance = self.instance.as_deref().map(|name| Catalog::embedded().instance(name, source.day)).transpose()?;
        let data = setup(&self.storage)?;
        let log = self.log_storage.as_deref().map(setup).transpose()?;
        let relay = self.relay_storage.as_deref().map(setup).transpose()?;
        let caches = (source.run.cache_bytes, self.cache_bytes);
        let database = replica_database(source.database, &self.applier, &self.settings, self.reads_per_tx, caches)?;
        database.check()?;
        run(&ReplicaScenario {
            source: source.run.scenario(source.database, of_source, &source.place)?,
            applier: &self.applier,
            settings: &self.settings,
            database: &database,
            warm_up: &WarmUp::new(&database, self.cache_bytes),
            cache_bytes: self.cache_bytes,
            storage: ReplicaStorage { data: &data, log: log.as_ref(), relay: relay.as_ref(), instance: instance.as_ref() },
            start: self.start()?,
            semi_sync: self.semi_sync.as_ref(),
            large: &self.large(),
            drain_s: self.drain_s,
            source_tps: self.source_tps.as_deref(),
            received: self.received,
        })
    }
}

/// What is taken for an applier where only the source was measured: `applier`, and for each
/// parameter `words`, `relative_sd`, `least`, `most` (`spreads`, by name). `changed`: per class of
/// pages the share of touches that change one.
#[pyfunction]
#[pyo3(signature = (database, changed=None))]
fn replica_applier<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, changed: Option<Vec<f64>>) -> PyResult<Bound<'py, PyDict>> {
    let database = database_of(database)?;
    database.check().map_err(sim_error)?;
    let answer = PyDict::new(py);
    answer.set_item("applier", to_python(py, &Applier::of_source(&database, changed.as_deref()))?)?;
    answer.set_item("spreads", to_python(py, &APPLIER_SPREADS)?)?;
    Ok(answer)
}

/// A replica's settings by flavour and version where nothing is set.
#[pyfunction]
fn replica_settings<'py>(py: Python<'py>, flavor: &str, version: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &ReplicaSettings::of_version(flavor, version).map_err(sim_error)?)
}

/// Runs a replica behind a source's run. Returns columns of rows and `summary`.
#[pyfunction]
fn replica_run<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, source: &Bound<'py, PyAny>, replica: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let database = database_of(database)?;
    let source: RunArgs = pythonize::depythonize(source)?;
    let args: ReplicaArgs = pythonize::depythonize(replica)?;
    let source = Source::new(&database, &source)?;
    let found = py.detach(|| args.run(&source, &source.warm_up()));
    let found = found.map_err(sim_error)?;
    let answer = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( answer.set_item(stringify!($name), found.rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(t_s, source_tps, applied_tps, possible_tps, backlog, lag_s, reads_per_tx, iops, mib_s, balance_percent);
    answer.set_item("binding", found.rows.iter().map(|row| row.binding.name()).collect::<Vec<_>>())?;
    answer.set_item("summary", to_python(py, &found.summary)?)?;
    Ok(answer)
}

/// Runs many replicas behind one source's run and returns the summary of each, in their order.
/// `replicas`: each with the place of its database in `databases`.
#[pyfunction]
fn replica_summaries<'py>(
    py: Python<'py>,
    databases: Vec<Bound<'py, PyAny>>,
    source: &Bound<'py, PyAny>,
    replicas: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let databases = databases.iter().map(database_of).collect::<PyResult<Vec<_>>>()?;
    let source: RunArgs = pythonize::depythonize(source)?;
    let replicas: Vec<(usize, ReplicaArgs)> = pythonize::depythonize(replicas)?;
    if let Some((place, _)) = replicas.iter().find(|(place, _)| *place >= databases.len()) {
        return Err(PyIndexError::new_err(format!("there is no database {place}")));
    }
    let sources = databases.iter().map(|database| Source::new(database, &source)).collect::<PyResult<Vec<_>>>()?;
    let summaries = py.detach(|| {
        let caches: Vec<WarmUp> = sources.par_iter().map(Source::warm_up).collect();
        let summary = |(place, replica): &(usize, ReplicaArgs)| replica.run(&sources[*place], &caches[*place]).map(|run| run.summary);
        replicas.par_iter().map(summary).collect::<Result<Vec<_>, SimError>>()
    });
    summaries.map_err(sim_error)?.iter().map(|summary| to_python(py, summary)).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replica_applier, module)?)?;
    module.add_function(wrap_pyfunction!(replica_settings, module)?)?;
    module.add_function(wrap_pyfunction!(replica_run, module)?)?;
    module.add_function(wrap_pyfunction!(replica_summaries, module)?)
}
