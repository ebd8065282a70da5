//! MySQL on a storage: transactions a second.

use crate::convert::{date, refused, report_progress, sim_error, to_python, CoreError};
use headrace_sim::mysql::clients::{self, ClientsRun};
use headrace_sim::mysql::interval::{run, Second};
use headrace_sim::mysql::local_disk::{local_disk, DiskKind};
use headrace_sim::mysql::standard::tpcc_from;
use headrace_sim::mysql::sysbench::{Oltp, SPREADS};
use headrace_sim::mysql::tprocc::Tprocc;
use headrace_sim::mysql::{Database, StorageEngine, WarmUp};
use headrace_sim::SimError;
use headrace_whatif::run::RunRequest;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

/// Reads the table of a database; the error names what it lacks.
pub(crate) fn database_of(database: &Bound<'_, PyAny>) -> PyResult<Database> {
    pythonize::depythonize(database).map_err(|error: pythonize::PythonizeError| {
        CoreError::new_err(("database".to_string(), error.to_string(), "docs/reference/workload-file.md", "`headrace calibrate` writes the whole table"))
    })
}

/// Simulates a database on several storages; each run is a dict (see
/// `headrace.simulation.database`). Returns columns per run.
#[pyfunction]
fn mysql_runs<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, runs: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let database = database_of(database)?;
    let runs: Vec<RunRequest> = pythonize::depythonize(runs)?;
    database.check().map_err(sim_error)?;
    let resolved = runs.iter().map(|run| run.resolve(&database)).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let rows = py.detach(|| -> Result<Vec<Vec<Second>>, SimError> {
        let mut warm_ups: HashMap<u64, WarmUp> = HashMap::new();
        let mut all = Vec::with_capacity(runs.len());
        for (args, resolved) in runs.iter().zip(&resolved) {
            let warm_up = warm_ups.entry(args.cache_bytes.to_bits()).or_insert_with(|| WarmUp::new(&database, args.cache_bytes));
            let mut rows = Vec::with_capacity(args.seconds as usize);
            run(&args.scenario(&database, warm_up, resolved)?, &mut |second| rows.push(*second))?;
            all.push(rows);
        }
        Ok(all)
    });
    rows.map_err(sim_error)?.iter().map(|rows| columns(py, rows)).collect()
}

/// Simulates one run in the per-I/O form: every request of every client. Returns columns and a
/// summary of response times, ms, and I/Os.
#[pyfunction]
#[pyo3(signature = (database, run, progress=None))]
fn mysql_clients<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, run: &Bound<'py, PyAny>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
    let database = database_of(database)?;
    let args: RunRequest = pythonize::depythonize(run)?;
    database.check().map_err(sim_error)?;
    let resolved = args.resolve(&database).map_err(refused)?;
    let run = py.detach(|| -> Result<ClientsRun, SimError> {
        let warm_up = WarmUp::new(&database, args.cache_bytes);
        clients::run(&args.scenario(&database, &warm_up, &resolved)?, &mut |done| report_progress(&progress, done))
    });
    let run = run.map_err(sim_error)?;
    let answer = columns(py, &run.rows)?;
    answer.set_item("summary", to_python(py, &run.summary)?)?;
    Ok(answer)
}

/// Returns the steps of a run as columns, with the bottleneck of each as `cap`.
pub(crate) fn columns<'py>(py: Python<'py>, rows: &[Second]) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( answer.set_item(stringify!($name), rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(
        t_s,
        tps,
        p50_ms,
        p95_ms,
        p99_ms,
        iops,
        mib_s,
        balance_percent,
        instance_balance_percent,
        cached_share,
        dirty_share,
        reads_per_tx,
        written_per_tx,
        backlog,
        compacting,
        stopped_share
    );
    answer.set_item("cap", rows.iter().map(|row| row.binding.name()).collect::<Vec<_>>())?;
    Ok(answer)
}

/// Refuses a database with a value out of bounds.
#[pyfunction]
fn mysql_check(database: &Bound<'_, PyAny>) -> PyResult<()> {
    database_of(database)?.check().map_err(sim_error)
}

/// Returns the cache of a database over transactions from a cold start: columns, and `full_at_tx`.
#[pyfunction]
fn mysql_warm_up<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, cache_bytes: f64) -> PyResult<Bound<'py, PyDict>> {
    let database = database_of(database)?;
    database.check().map_err(sim_error)?;
    let curve = py.detach(|| WarmUp::new(&database, cache_bytes));
    let answer = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( answer.set_item(stringify!($name), curve.points().iter().map(|at| at.$name).collect::<Vec<_>>())?; )* }; }
    columns!(tx, reads, evicted_dirty, flushed, turned, cached_share, dirty_share, shape, full);
    answer.set_item("full_at_tx", curve.full_at_tx)?;
    Ok(answer)
}

/// Returns the database over `factor` times the data.
#[pyfunction]
fn mysql_grown<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, factor: f64) -> PyResult<Bound<'py, PyAny>> {
    let database = database_of(database)?;
    to_python(py, &database.grown(factor))
}

/// Returns sysbench-tpcc with no run measured: a database over `warehouses`, its clients on
/// `client_host`, behind a cache of that many bytes.
#[pyfunction]
#[pyo3(signature = (engine, warehouses, client_host=None, cache_bytes=None))]
fn mysql_tpcc<'py>(
    py: Python<'py>,
    engine: &Bound<'py, PyAny>,
    warehouses: f64,
    client_host: Option<&Bound<'py, PyAny>>,
    cache_bytes: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let engine: StorageEngine = pythonize::depythonize(engine)?;
    let host = client_host.map(pythonize::depythonize).transpose()?;
    to_python(py, &tpcc_from(engine, warehouses, host, cache_bytes).map_err(sim_error)?)
}

/// Works out a sysbench OLTP script with no run measured; `options` as sysbench and the server name
/// them. Returns the database, its pages' GiB and, for each of its classes, the share of touches
/// that change a page.
#[pyfunction]
fn mysql_sysbench<'py>(py: Python<'py>, options: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let options: Oltp = pythonize::depythonize(options).map_err(|error: pythonize::PythonizeError| {
        CoreError::new_err(("sysbench".to_string(), error.to_string(), "sysbench --help; docs/reference/workload-file.md", "check the option's name and value"))
    })?;
    let database = options.database().map_err(sim_error)?;
    let answer = PyDict::new(py);
    answer.set_item("size_gib", database.popularity.pages() * database.read_bytes / (1u64 << 30) as f64)?;
    answer.set_item("database", to_python(py, &database)?)?;
    answer.set_item("changed", options.changed())?;
    answer.set_item("spreads", SPREADS.iter().map(|spread| (spread.parameter, spread.relative_sd)).collect::<HashMap<_, _>>())?;
    Ok(answer)
}

/// Works out HammerDB's TPROC-C with no run measured; `options`: warehouses and settings of the
/// server. Returns the database and, for each of its classes, the share of touches that change a
/// page.
#[pyfunction]
fn mysql_tprocc<'py>(py: Python<'py>, options: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let options: Tprocc = pythonize::depythonize(options).map_err(|error: pythonize::PythonizeError| {
        CoreError::new_err(("hammerdb-tprocc".to_string(), error.to_string(), "docs/reference/workload-file.md", "check the option's name and value"))
    })?;
    let database = options.database().map_err(sim_error)?;
    let answer = PyDict::new(py);
    answer.set_item("changed", database.dirtying.as_ref().map_or(Vec::new(), |dirtying| dirtying.changed.clone()))?;
    answer.set_item("database", to_python(py, &database)?)?;
    Ok(answer)
}

/// Returns the speed of a local disk without a run on it (`headrace_sim::mysql::local_disk`):
/// `kind` or None; `size_gb` of the drive; `known_writes`: pages a second and the standard
/// deviation of their logarithm, or None.
#[pyfunction]
fn mysql_local_disk<'py>(
    py: Python<'py>,
    database: &Bound<'py, PyAny>,
    cache_bytes: f64,
    kind: Option<&Bound<'py, PyAny>>,
    size_gb: f64,
    known_writes: Option<(f64, f64)>,
    as_of: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let database = database_of(database)?;
    let kind: Option<DiskKind> = kind.map(pythonize::depythonize).transpose()?;
    let disk = local_disk(&database, cache_bytes, (kind, size_gb), known_writes, date(as_of)?).map_err(sim_error)?;
    to_python(py, &disk)
}

/// Adds the functions of this file to `headrace._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(mysql_runs, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_check, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_sysbench, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_local_disk, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_tpcc, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_tprocc, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_clients, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_grown, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_warm_up, module)?)
}
