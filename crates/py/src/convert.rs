//! Conversions that the modules of this crate share: errors, dates, values and progress on their
//! way between Rust and Python.

use headrace_catalog::{CatalogError, NaiveDate};
use headrace_sim::SimError;
use headrace_whatif::Refusal;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use serde::Serialize;

pyo3::create_exception!(_core, CoreError, PyException, "What was asked is not possible; args: value, rule, source, hint.");

/// Makes the exception of a refusal.
pub(crate) fn refused(refusal: Refusal) -> PyErr {
    CoreError::new_err((refusal.value, refusal.rule, refusal.source, refusal.hint))
}

/// Makes the exception of an error of the catalog.
pub(crate) fn catalog_error(error: &CatalogError) -> PyErr {
    refused(Refusal::from(error))
}

/// Makes the exception of an error of a simulation; a run that was stopped is a KeyboardInterrupt.
pub(crate) fn sim_error(error: SimError) -> PyErr {
    match error {
        SimError::Interrupted => PyKeyboardInterrupt::new_err(()),
        other => refused(Refusal::from(other)),
    }
}

/// Returns the day of a text, YYYY-MM-DD; None: the newest of the catalog.
pub(crate) fn date(text: Option<&str>) -> PyResult<NaiveDate> {
    headrace_whatif::day(text).map_err(refused)
}

/// Converts a value to dicts, lists and numbers of Python.
pub(crate) fn to_python<'py, T: Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}

/// Calls a Python progress function with a share and lets signals in; false stops.
pub(crate) fn report_progress(progress: &Option<Py<PyAny>>, done: f64) -> bool {
    Python::attach(|py| {
        let called = progress.as_ref().map_or(Ok(()), |function| function.call1(py, (done,)).map(|_| ()));
        called.and_then(|()| py.check_signals()).is_ok()
    })
}
