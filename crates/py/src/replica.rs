//! A replica behind a database: its rate, its lag, the price of semi-sync.

use crate::convert::{date, sim_error, to_python};
use crate::mysql::{database_of, RunArgs};
use headrace_catalog::Catalog;
use headrace_sim::mysql::interval::Start;
use headrace_sim::mysql::replica::{
    replica_database, run, Applier, LargeTransaction, ReplicaRun, ReplicaScenario, ReplicaSettings, ReplicaStorage, SemiSync, APPLIER_SPREADS,
};
use headrace_sim::mysql::WarmUp;
use headrace_sim::{Setup, SimError};
use headrace_whatif::database::start_named;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

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
    database.check().map_err(sim_error)?;
    let resolved = source.resolve(&database)?;
    let day = date(source.as_of.as_deref())?;
    let found = py.detach(|| -> Result<ReplicaRun, SimError> {
        let setup = |storage: &str| -> Result<Setup, SimError> {
            let setup = Setup::resolve(storage, args.instance.as_deref(), day)?;
            Ok(Setup { start_balance_percent: args.start_balance_percent, ..setup })
        };
        let instance = args.instance.as_deref().map(|name| Catalog::embedded().instance(name, day)).transpose()?;
        let data = setup(&args.storage)?;
        let log = args.log_storage.as_deref().map(setup).transpose()?;
        let relay = args.relay_storage.as_deref().map(setup).transpose()?;
        let made = replica_database(&database, &args.applier, &args.settings, args.reads_per_tx, (source.cache_bytes, args.cache_bytes))?;
        made.check()?;
        let (of_source, warm_up) = (WarmUp::new(&database, source.cache_bytes), WarmUp::new(&made, args.cache_bytes));
        run(&ReplicaScenario {
            source: source.scenario(&database, &of_source, &resolved)?,
            applier: &args.applier,
            settings: &args.settings,
            database: &made,
            warm_up: &warm_up,
            cache_bytes: args.cache_bytes,
            storage: ReplicaStorage { data: &data, log: log.as_ref(), relay: relay.as_ref(), instance: instance.as_ref() },
            start: args.start()?,
            semi_sync: args.semi_sync.as_ref(),
            large: &args.large(),
            drain_s: args.drain_s,
            source_tps: args.source_tps.as_deref(),
            received: args.received,
        })
    });
    let found = found.map_err(sim_error)?;
    let answer = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( answer.set_item(stringify!($name), found.rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(t_s, source_tps, applied_tps, possible_tps, backlog, lag_s, reads_per_tx, iops, mib_s, balance_percent);
    answer.set_item("binding", found.rows.iter().map(|row| row.binding.name()).collect::<Vec<_>>())?;
    answer.set_item("summary", to_python(py, &found.summary)?)?;
    Ok(answer)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replica_applier, module)?)?;
    module.add_function(wrap_pyfunction!(replica_settings, module)?)?;
    module.add_function(wrap_pyfunction!(replica_run, module)?)
}
