//! A replica behind a database: its rate, its lag, the price of semi-sync.

use crate::convert::{date, refused, sim_error, to_python};
use crate::mysql::database_of;
use headrace_sim::mysql::replica::{Applier, ReplicaSettings, APPLIER_SPREADS};
use headrace_sim::SimError;
use headrace_whatif::replica::ReplicaRequest;
use headrace_whatif::run::{FollowedCaches, RunRequest};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

/// Returns the parameters of an applier if only the source was measured: `applier`, and for each
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

/// Returns a replica's settings by flavour and version where nothing is set.
#[pyfunction]
fn replica_settings<'py>(py: Python<'py>, flavor: &str, version: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &ReplicaSettings::of_version(flavor, version).map_err(sim_error)?)
}

/// Runs a replica behind a source's run. Returns columns of rows and `summary`.
#[pyfunction]
fn replica_run<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, source: &Bound<'py, PyAny>, replica: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let database = database_of(database)?;
    let source: RunRequest = pythonize::depythonize(source)?;
    let request: ReplicaRequest = pythonize::depythonize(replica)?;
    database.check().map_err(sim_error)?;
    let resolved = source.resolve(&database).map_err(refused)?;
    let day = date(source.as_of.as_deref())?;
    let outcome = py.detach(|| request.run(&database, (&source, &resolved), day, &mut FollowedCaches::default()));
    let outcome = outcome.map_err(sim_error)?;
    let answer = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( answer.set_item(stringify!($name), outcome.rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(t_s, source_tps, applied_tps, possible_tps, backlog, lag_s, reads_per_tx, iops, mib_s, balance_percent);
    answer.set_item("binding", outcome.rows.iter().map(|row| row.binding.name()).collect::<Vec<_>>())?;
    answer.set_item("summary", to_python(py, &outcome.summary)?)?;
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
    let source: RunRequest = pythonize::depythonize(source)?;
    let replicas: Vec<(usize, ReplicaRequest)> = pythonize::depythonize(replicas)?;
    if let Some((place, _)) = replicas.iter().find(|(place, _)| *place >= databases.len()) {
        return Err(PyIndexError::new_err(format!("there is no database {place}")));
    }
    databases.iter().try_for_each(|database| database.check().map_err(sim_error))?;
    let resolved = databases.iter().map(|database| source.resolve(database).map_err(refused)).collect::<PyResult<Vec<_>>>()?;
    let day = date(source.as_of.as_deref())?;
    let summaries = py.detach(|| {
        // The source's cache is followed once for each database.
        let followed: Vec<FollowedCaches> = databases
            .par_iter()
            .map(|database| {
                let mut followed = FollowedCaches::default();
                followed.follow(database, source.cache_bytes);
                followed
            })
            .collect();
        // Neighbors are often the same server with other workers or volumes, and share its cache.
        let summary = |followed: &mut Vec<FollowedCaches>, (place, replica): &(usize, ReplicaRequest)| {
            let run = replica.run(&databases[*place], (&source, &resolved[*place]), day, &mut followed[*place]);
            run.map(|run| run.summary)
        };
        replicas.par_iter().map_init(|| followed.clone(), summary).collect::<Result<Vec<_>, SimError>>()
    });
    summaries.map_err(sim_error)?.iter().map(|summary| to_python(py, summary)).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replica_applier, module)?)?;
    module.add_function(wrap_pyfunction!(replica_settings, module)?)?;
    module.add_function(wrap_pyfunction!(replica_run, module)?)?;
    module.add_function(wrap_pyfunction!(replica_summaries, module)?)
}
