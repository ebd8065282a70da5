//! Records of real devices, replayed.

use crate::convert::{report_progress, to_python, CoreError};
use headrace_sim::replay::{self, ReplayError};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;

/// Replays the record in a file; `progress` is told the share done. Returns a dict: requests,
/// changes, equal, first_difference, lateness, span, cut_tail.
#[pyfunction]
#[pyo3(signature = (path, progress=None))]
fn replay_record(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let name = path.display().to_string();
    let failed = |rule: String| CoreError::new_err((name.clone(), rule, "docs/semantics.md", "give a file of `headrace volume record`"));
    let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
    let bytes = file.metadata().map(|about| about.len().max(1)).unwrap_or(1) as f64;
    let replayed = py.detach(|| replay::replay(file, &mut |done| report_progress(&progress, done as f64 / bytes)));
    match replayed {
        Ok(replayed) => Ok(to_python(py, &replayed)?.unbind()),
        Err(ReplayError::Interrupted) => Err(PyKeyboardInterrupt::new_err(())),
        Err(error) => Err(failed(error.to_string())),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replay_record, module)?)
}
