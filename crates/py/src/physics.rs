//! Rules of the model that Python asks for one by one, so that it needs no copy of them.

use crate::simulate::open_load;
use crate::{catalog_error, to_python};
use headrace_catalog::StorageSpec;
use headrace_model::accounting::StorageCost;
use headrace_sim::measure;
use headrace_sim::mysql::settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn parse(storage: &str) -> PyResult<StorageSpec> {
    storage.parse().map_err(|error| catalog_error(&error))
}

/// What reads and writes of a storage become on its volumes, and the units they are counted in: members, data_members, copies, ios_per_read, ios_per_write, reads_per_write
/// (of those), chunk_kib (None for a single volume), unit_kib, hdd_unit_kib, hdd_merge_kib.
#[pyfunction]
fn storage_cost<'py>(py: Python<'py>, storage: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &StorageCost::of(&parse(storage)?))
}

/// What an open load asks of all volumes of a storage together, copies and parity included. Columns: t_s, duration_s, iops (units of 256 KiB), mib_s, hdd_mib_s (as HDD types
/// count, whatever the type is).
#[pyfunction]
fn demand_on_volumes<'py>(py: Python<'py>, load: &Bound<'py, PyAny>, storage: &str) -> PyResult<Bound<'py, PyDict>> {
    let rows = measure::on_volumes(&open_load(load)?, &parse(storage)?);
    let columns = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( columns.set_item(stringify!($name), rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(t_s, duration_s, iops, mib_s, hdd_mib_s);
    Ok(columns)
}

/// GiB of cache a memory has room for: `share` of it (None: CACHE_SHARE), with room left for everything else.
#[pyfunction]
#[pyo3(signature = (memory_gib, share=None))]
fn cache_gib_for(memory_gib: f64, share: Option<f64>) -> f64 {
    settings::cache_gib_for(memory_gib, share)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CACHE_SHARE", settings::CACHE_SHARE)?;
    module.add_function(wrap_pyfunction!(storage_cost, module)?)?;
    module.add_function(wrap_pyfunction!(demand_on_volumes, module)?)?;
    module.add_function(wrap_pyfunction!(cache_gib_for, module)?)
}
