//! `headrace._core`: the Rust crates as Python sees them. Conversions only, no logic.
//!
//! Tables go over as columns (lists of equal length), everything else as plain dicts, dates as ISO
//! strings. Errors carry value, rule, source and hint as `args`, so that the Python side can show
//! them without parsing text. The interpreter is released while a simulation runs, and asked for
//! signals between steps, so Ctrl-C works.

mod catalog;
mod mysql;
mod mysql_plan;
mod physics;
mod replay;
mod simulate;

use headrace_catalog::{CatalogError, NaiveDate};
use headrace_sim::SimError;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use serde::Serialize;

pyo3::create_exception!(_core, CoreError, PyException, "What was asked is not possible; args: value, rule, source, hint.");

fn catalog_error(error: &CatalogError) -> PyErr {
    CoreError::new_err((error.value().to_string(), error.rule().to_string(), error.source().to_string(), error.hint().to_string()))
}

fn sim_error(error: SimError) -> PyErr {
    match error {
        SimError::Catalog(error) => catalog_error(&error),
        SimError::Load { what, value, rule, hint } => CoreError::new_err((value, format!("{what} {rule}"), "bounds of the simulation", hint)),
        SimError::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

fn date(text: Option<&str>) -> PyResult<NaiveDate> {
    let Some(text) = text else { return Ok(headrace_catalog::Catalog::embedded().newest_date()) };
    text.parse().map_err(|_| CoreError::new_err((text.to_string(), "a date is written YYYY-MM-DD", "ISO 8601", "for example 2018-08-15")))
}

fn to_python<'py, T: Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    catalog::register(module)?;
    simulate::register(module)?;
    mysql::register(module)?;
    physics::register(module)?;
    replay::register(module)?;
    mysql_plan::register(module)
}
