//! Managed services: what they offer, cost and promise, and a database on them.

use crate::convert::{catalog_error, date, sim_error, to_python};
use crate::mysql::{columns, database_of};
use headrace_catalog::{Catalog, Deployment, Service, ServiceClass, ServiceSpec, VolumeSpec};
use headrace_sim::mysql::interval::TransactionLoad;
use headrace_sim::mysql::services::{log_only, run, AuroraStorage, ReaderLoad, ServiceScenario};
use headrace_sim::mysql::WarmUp;
use headrace_sim::{Setup, SimError};
use headrace_whatif::database::start_named;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

fn deployment_of(name: &str) -> PyResult<Deployment> {
    name.parse().map_err(|error| catalog_error(&error))
}

fn aurora_of(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<AuroraStorage> {
    parameters.map_or_else(|| Ok(AuroraStorage::default()), |given| Ok(pythonize::depythonize(given)?))
}

/// Returns the deployments that names stand for, each once, in the order they are shown.
#[pyfunction]
fn deployments(names: Vec<String>) -> PyResult<Vec<String>> {
    let mut deployments = Vec::new();
    for name in &names {
        deployments.extend(Deployment::named(name).map_err(|error| catalog_error(&error))?);
    }
    Ok(Deployment::ALL.iter().filter(|deployment| deployments.contains(deployment)).map(ToString::to_string).collect())
}

/// Returns the instance type, processors and memory of a class of a deployment.
#[pyfunction]
#[pyo3(signature = (deployment, instance, as_of=None))]
fn service_class<'py>(py: Python<'py>, deployment: &str, instance: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &Catalog::embedded().service_class(deployment_of(deployment)?, instance, date(as_of)?).map_err(|error| catalog_error(&error))?)
}

/// Returns the EBS volumes behind storage that RDS is asked for, `array` in storage notation.
#[pyfunction]
#[pyo3(signature = (storage, as_of=None))]
fn rds_storage<'py>(py: Python<'py>, storage: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let volume: VolumeSpec = storage.parse().map_err(|error| catalog_error(&error))?;
    let bought = Catalog::embedded().rds_storage(&volume, date(as_of)?).map_err(|error| catalog_error(&error))?;
    let dict = to_python(py, &bought)?;
    dict.set_item("array", bought.array.to_string())?;
    Ok(dict)
}

/// Returns the ranges of sizes (GiB) of a volume type at RDS, with the rules of each.
#[pyfunction]
#[pyo3(signature = (volume_type, as_of=None))]
fn rds_ranges<'py>(py: Python<'py>, volume_type: &str, as_of: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let volume_type = volume_type.parse().map_err(|error| catalog_error(&error))?;
    to_python(py, &Catalog::embedded().rds_ranges(volume_type, date(as_of)?).map_err(|error| catalog_error(&error))?)
}

/// Returns the bill of a month: `items`, `missing`, `total_usd`.
#[pyfunction]
#[pyo3(signature = (deployment, instance, storage, region, as_of=None, readers=0, data_gib=0.0, million_ios=0.0))]
#[allow(clippy::too_many_arguments)] // they are keywords on the Python side
fn service_bill<'py>(
    py: Python<'py>,
    deployment: &str,
    instance: &str,
    storage: &str,
    region: &str,
    as_of: Option<&str>,
    readers: u32,
    data_gib: f64,
    million_ios: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let spec = ServiceSpec {
        deployment: deployment_of(deployment)?,
        instance_type: instance.to_string(),
        storage: storage.parse().map_err(|error| catalog_error(&error))?,
        readers,
        data_gib,
        million_ios,
    };
    to_python(py, &Catalog::embedded().service_bill(&spec, region, date(as_of)?).map_err(|error| catalog_error(&error))?)
}

/// Returns a rule of a service on a day, or None. `option`: the rule under this one instead of the
/// deployment's.
#[pyfunction]
#[pyo3(signature = (deployment, key, as_of=None, option=None))]
fn managed_rule<'py>(py: Python<'py>, deployment: &str, key: &str, as_of: Option<&str>, option: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let (catalog, deployment, day) = (Catalog::embedded(), deployment_of(deployment)?, date(as_of)?);
    let rule = option.map_or_else(|| catalog.managed_rule(deployment, key, day), |option| catalog.managed_rule_of(deployment.service(), option, key, day));
    to_python(py, &rule)
}

/// Returns the limitations of a deployment.
#[pyfunction]
fn service_limits<'py>(py: Python<'py>, deployment: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &Catalog::embedded().service_limits(deployment_of(deployment)?))
}

/// Returns the comparison of EC2, RDS and Aurora, question by question.
#[pyfunction]
fn service_comparison(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &Catalog::embedded().service_comparison())
}

/// Returns the published figures of Aurora and of what it was compared with.
#[pyfunction]
fn published_services(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &Catalog::embedded().published_services())
}

/// Returns the parameters of Aurora's storage.
#[pyfunction]
fn aurora_parameters(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &AuroraStorage::default())
}

/// Returns the latency of a quorum write, ms: mean and percentiles.
#[pyfunction]
#[pyo3(signature = (aurora=None))]
fn aurora_quorum<'py>(py: Python<'py>, aurora: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &aurora_of(aurora)?.quorum.latency())
}

/// Returns the lag of a reader, ms, and the share of its processors that applying takes.
#[pyfunction]
#[pyo3(signature = (redo_bytes_s, cached_share, vcpus, aurora=None))]
fn aurora_reader<'py>(py: Python<'py>, redo_bytes_s: f64, cached_share: f64, vcpus: u32, aurora: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let storage = aurora_of(aurora)?;
    to_python(py, &storage.reader_lag(&storage.quorum.latency(), &ReaderLoad { redo_bytes_s, cached_share, vcpus }))
}

/// Returns the I/O that Aurora bills of a transaction: `reads` and `writes`.
#[pyfunction]
#[pyo3(signature = (database, reads, tps, aurora=None))]
fn aurora_billed<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, reads: f64, tps: f64, aurora: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let database = database_of(database)?;
    let log = &database.log;
    to_python(py, &aurora_of(aurora)?.billed(reads, database.read_bytes, log.redo_bytes_per_tx, tps, log.commits()))
}

/// One run at a service, as Python hands it over.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceRunArgs {
    deployment: String,
    /// EC2: storage notation; RDS: the array behind it; Aurora: none.
    storage: Option<String>,
    instance: String,
    as_of: Option<String>,
    cache_bytes: f64,
    clients: Option<u32>,
    arrivals: Option<Vec<f64>>,
    /// "cold" or "warm".
    start: String,
    seconds: u32,
    step_s: f64,
    seed: Option<u64>,
    aurora: Option<AuroraStorage>,
}

/// Simulates a database at services; returns columns per run, as `mysql_runs`.
#[pyfunction]
fn service_runs<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, runs: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let database = database_of(database)?;
    database.check().map_err(sim_error)?;
    let runs: Vec<ServiceRunArgs> = pythonize::depythonize(runs)?;
    runs.iter()
        .map(|args| {
            let deployment = deployment_of(&args.deployment)?;
            let day = date(args.as_of.as_deref())?;
            let class = Catalog::embedded().service_class(deployment, &args.instance, day).map_err(|error| catalog_error(&error))?;
            let rows = py.detach(|| simulate(&database, args, deployment, &class, day));
            columns(py, &rows.map_err(sim_error)?)
        })
        .collect()
}

/// Runs a database at a service, whose class is resolved, and returns its steps.
fn simulate(
    database: &headrace_sim::mysql::Database,
    args: &ServiceRunArgs,
    deployment: Deployment,
    class: &ServiceClass,
    day: headrace_catalog::NaiveDate,
) -> Result<Vec<headrace_sim::mysql::Second>, SimError> {
    let aurora = args.aurora.unwrap_or_default();
    let (database, data) = match deployment.service() {
        Service::Aurora => {
            let rule = "is an engine that Aurora MySQL does not run";
            let logging = log_only(database).ok_or_else(|| SimError::refused("engine", "myrocks", rule, "Leave Aurora out, or calibrate InnoDB."))?;
            (logging, None)
        }
        _ => {
            let storage = args.storage.as_deref().unwrap_or_default();
            (database.clone(), Some(Setup::resolve(storage, Some(&class.limits.instance_type), day)?))
        }
    };
    let start = start_named(&args.start)?;
    let warm_up = WarmUp::new(&database, args.cache_bytes);
    let scenario = ServiceScenario {
        deployment,
        database: &database,
        warm_up: &warm_up,
        data: data.as_ref(),
        class,
        aurora: &aurora,
        load: match (&args.clients, &args.arrivals) {
            (Some(clients), _) => TransactionLoad::Clients(*clients),
            (None, arrivals) => TransactionLoad::Arrivals(arrivals.clone().unwrap_or_default()),
        },
        start,
        seconds: args.seconds,
        step_s: args.step_s,
        seed: args.seed,
    };
    let mut rows = Vec::with_capacity(args.seconds as usize);
    run(&scenario, &mut |second| rows.push(*second))?;
    Ok(rows)
}

/// Adds the functions of this file to `headrace._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(deployments, module)?)?;
    module.add_function(wrap_pyfunction!(service_class, module)?)?;
    module.add_function(wrap_pyfunction!(rds_storage, module)?)?;
    module.add_function(wrap_pyfunction!(rds_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(service_bill, module)?)?;
    module.add_function(wrap_pyfunction!(managed_rule, module)?)?;
    module.add_function(wrap_pyfunction!(service_limits, module)?)?;
    module.add_function(wrap_pyfunction!(service_comparison, module)?)?;
    module.add_function(wrap_pyfunction!(published_services, module)?)?;
    module.add_function(wrap_pyfunction!(aurora_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(aurora_quorum, module)?)?;
    module.add_function(wrap_pyfunction!(aurora_reader, module)?)?;
    module.add_function(wrap_pyfunction!(aurora_billed, module)?)?;
    module.add_function(wrap_pyfunction!(service_runs, module)?)
}
