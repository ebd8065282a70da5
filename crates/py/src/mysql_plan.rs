//! Many candidates under one database, for the planner.

use crate::convert::{date, report_progress, sim_error};
use crate::mysql::database_of;
use headrace_catalog::{Catalog, Deployment, StorageSpec};
use headrace_sim::mysql::interval::TransactionLoad;
use headrace_sim::mysql::search::{evaluate, DatabaseCandidate, DatabaseOutcome, DatabaseSearch, Figures, ServerHost, WarmUps};
use headrace_sim::mysql::Database;
use headrace_sim::SimError;
use headrace_whatif::database::start_named;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use serde::Deserialize;

/// Arguments that candidates share, from Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    storages: Vec<String>,
    instances: Vec<String>,
    /// Deployment on each of the instances, such as `ec2` or `rds:single-az`.
    deployments: Vec<String>,
    caches: Vec<f64>,
    as_of: Option<String>,
    clients: Option<u32>,
    arrivals_tps: Option<f64>,
    /// "cold" or "warm".
    start: String,
    seconds: f64,
    start_balance_percent: Option<f64>,
    settled: bool,
    least_tps: f64,
}

impl SearchArgs {
    /// Returns the load times a factor. Clients are whole: a part of one counts as one, less what
    /// multiplying leaves of rounding.
    fn load(&self, load_by: f64) -> TransactionLoad {
        match (self.clients, self.arrivals_tps) {
            (_, Some(rate)) => TransactionLoad::Arrivals(vec![rate * load_by]),
            (clients, None) => TransactionLoad::Clients((f64::from(clients.unwrap_or(0)) * load_by - 1e-9).ceil() as u32),
        }
    }
}

/// Candidates under one database; caches that have been followed are kept for the next question.
#[pyclass(frozen)]
struct TransactionCandidates {
    database: Database,
    warm_ups: WarmUps,
}

#[pymethods]
impl TransactionCandidates {
    #[new]
    fn new(database: &Bound<'_, PyAny>) -> PyResult<TransactionCandidates> {
        let database = database_of(database)?;
        database.check().map_err(sim_error)?;
        Ok(TransactionCandidates { database, warm_ups: WarmUps::default() })
    }
}

/// Evaluates the same candidates under several databases, given as columns of indices into
/// `search`'s storages (`data`, `log`), instances and caches; `load_by` multiplies the clients or
/// arrivals of each database. Returns for each database columns in the candidates' order:
/// `status` ("ran", "bounded", "invalid") and those of `names`: `why`, `cap` and the numbers of the
/// figures; none: all of them.
#[pyfunction]
#[pyo3(signature = (databases, search, data, log, instance, cache, *, load_by, names=None, progress=None))]
#[allow(clippy::too_many_arguments)]
fn transaction_candidates<'py>(
    py: Python<'py>,
    databases: Vec<Py<TransactionCandidates>>,
    search: &Bound<'py, PyAny>,
    data: Vec<usize>,
    log: Vec<Option<usize>>,
    instance: Vec<Option<usize>>,
    cache: Vec<usize>,
    load_by: Vec<f64>,
    names: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let args: SearchArgs = pythonize::depythonize(search)?;
    let day = date(args.as_of.as_deref())?;
    let candidates: Vec<DatabaseCandidate> = data
        .into_iter()
        .zip(log)
        .zip(instance.into_iter().zip(cache))
        .map(|((data, log), (instance, cache))| DatabaseCandidate { data, log, instance, cache })
        .collect();
    let worlds: Vec<(&TransactionCandidates, f64)> = databases.iter().map(Py::get).zip(load_by).collect();
    let outcomes = py.detach(|| {
        let catalog = Catalog::embedded();
        let host = |(name, deployment): (&String, &String)| -> Result<ServerHost, SimError> {
            let deployment: Deployment = deployment.parse()?;
            Ok(ServerHost { deployment, class: catalog.service_class(deployment, name, day)? })
        };
        let hosts = args.instances.iter().zip(&args.deployments).map(host).collect::<Result<Vec<_>, _>>()?;
        let storages = args.storages.iter().map(|text| text.parse()).collect::<Result<Vec<StorageSpec>, _>>()?;
        let start = start_named(&args.start)?;
        let search = |world: &(&'_ TransactionCandidates, f64), progress: &mut (dyn FnMut(usize) -> bool + Send)| {
            let search = DatabaseSearch {
                database: &world.0.database,
                storages: &storages,
                hosts: &hosts,
                caches: &args.caches,
                as_of: day,
                load: args.load(world.1),
                start,
                seconds: args.seconds,
                start_balance_percent: args.start_balance_percent,
                settled: args.settled,
                least_tps: args.least_tps,
            };
            evaluate(&search, &world.0.warm_ups, &candidates, progress)
        };
        let total = candidates.len().max(1) as f64;
        match &worlds[..] {
            [world] => Ok(vec![search(world, &mut |done| report_progress(&progress, done as f64 / total))?]),
            // Signals are let in between calls: one call of this kind is short.
            many => many.par_iter().map(|world| search(world, &mut |_| true)).collect::<Result<Vec<_>, SimError>>(),
        }
    });
    outcomes.map_err(sim_error)?.iter().map(|outcomes| columns(py, outcomes, names.as_deref())).collect()
}

/// Returns outcomes as columns; `names`: those that are wanted besides `status`, None for all.
fn columns<'py>(py: Python<'py>, outcomes: &[DatabaseOutcome], names: Option<&[String]>) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    let selects = |name: &str| names.is_none_or(|names| names.iter().any(|selected| selected == name));
    let status = |outcome: &DatabaseOutcome| match outcome {
        DatabaseOutcome::Ran(_) => "ran",
        DatabaseOutcome::Bounded(_) => "bounded",
        DatabaseOutcome::Invalid(_) => "invalid",
    };
    let figures = |outcome: &DatabaseOutcome| -> Option<Figures> {
        match outcome {
            DatabaseOutcome::Ran(figures) | DatabaseOutcome::Bounded(figures) => Some(**figures),
            DatabaseOutcome::Invalid(_) => None,
        }
    };
    answer.set_item("status", outcomes.iter().map(status).collect::<Vec<_>>())?;
    if selects("why") {
        let why = |outcome: &DatabaseOutcome| if let DatabaseOutcome::Invalid(why) = outcome { Some(why.clone()) } else { None };
        answer.set_item("why", outcomes.iter().map(why).collect::<Vec<_>>())?;
    }
    if selects("cap") {
        answer.set_item("cap", outcomes.iter().map(|outcome| figures(outcome).map(|figures| figures.binding.name())).collect::<Vec<_>>())?;
    }
    macro_rules! plain { ($($name:ident),*) => { $( if selects(stringify!($name)) { answer.set_item(stringify!($name), outcomes.iter().map(|outcome| figures(outcome).map(|figures| figures.$name)).collect::<Vec<_>>())?; } )* }; }
    macro_rules! optional { ($($name:ident),*) => { $( if selects(stringify!($name)) { answer.set_item(stringify!($name), outcomes.iter().map(|outcome| figures(outcome).and_then(|figures| figures.$name)).collect::<Vec<_>>())?; } )* }; }
    plain!(tps, tps_mean, tps_p5, p50_ms, p95_ms, p99_ms, backlog_s, reads_per_tx, ios_per_tx, mib_per_tx, cached_share);
    optional!(balance_percent, dry_at_s);
    Ok(answer)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TransactionCandidates>()?;
    module.add_function(wrap_pyfunction!(transaction_candidates, module)?)
}
