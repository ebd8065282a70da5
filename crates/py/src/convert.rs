//! What the modules of this crate share: errors, dates, values and progress on their way between
//! Rust and Python.

use headrace_catalog::{CatalogError, NaiveDate};
use headrace_sim::SimError;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use serde::Serialize;

pyo3::create_exception!(_core, CoreError, PyException, "What was asked is not possible; args: value, rule, source, hint.");

pub(crate) fn catalog_error(error: &CatalogError) -> PyErr {
    CoreError::new_err((error.value().to_string(), error.rule().to_string(), error.source().to_string(), error.hint().to_string()))
}

pub(crate) fn sim_error(error: SimError) -> PyErr {
    match error {
        SimError::Catalog(error) => catalog_error(&error),
        SimError::Load { what, value, rule, hint } => CoreError::new_err((value, format!("{what} {rule}"), "bounds of the simulation", hint)),
        SimError::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

pub(crate) fn date(text: Option<&str>) -> PyResult<NaiveDate> {
    let Some(text) = text else { return Ok(headrace_catalog::Catalog::embedded().newest_date()) };
    text.parse().map_err(|_| CoreError::new_err((text.to_string(), "a date is written YYYY-MM-DD", "ISO 8601", "for example 2018-08-15")))
}

pub(crate) fn to_python<'py, T: Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}

/// Calls a Python progress function with a share and lets signals in; false stops.
pub(crate) fn tell(progress: &Option<Py<PyAny>>, done: f64) -> bool {
    Python::attach(|py| {
        let called = progress.as_ref().map_or(Ok(()), |function| function.call1(py, (done,)).map(|_| ()));
        called.and_then(|()| py.check_signals()).is_ok()
    })
}
