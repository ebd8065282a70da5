//! Questions in JSON, as a page asks them.

use headrace_whatif as whatif;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// Answers questions in JSON as the model in a browser does, byte by byte.
#[pyclass(frozen, module = "headrace._core")]
#[derive(Default)]
struct WhatIf {
    model: Mutex<whatif::WhatIf>,
}

#[pymethods]
impl WhatIf {
    #[new]
    fn new() -> WhatIf {
        WhatIf::default()
    }

    /// Answers a question in the bytes that `crates/whatif/src/columns.rs` describes; a refusal is
    /// an answer too (`{"refused": {value, rule, source, hint}}`).
    fn answer<'py>(&self, py: Python<'py>, question: &str) -> Bound<'py, PyBytes> {
        let answer = py.detach(|| self.model.lock().unwrap_or_else(PoisonError::into_inner).answer(question));
        PyBytes::new(py, &answer)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WhatIf>()
}
