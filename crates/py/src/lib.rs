//! `headrace._core`: the Rust crates as Python sees them. Conversions only, no logic.
//!
//! Tables go over as columns (lists of equal length), everything else as plain dicts, dates as ISO
//! strings. Errors carry value, rule, source and hint as `args`, so that the Python side can show
//! them without parsing text. The interpreter is released while a simulation runs, and asked for
//! signals between steps, so Ctrl-C works.

mod catalog;
mod convert;
mod fleet;
mod managed;
mod mysql;
mod mysql_plan;
mod physics;
mod replay;
mod replica;
mod simulate;
mod whatif;

use convert::CoreError;
use pyo3::prelude::*;

/// Fills the module with the functions and classes of all files.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    catalog::register(module)?;
    simulate::register(module)?;
    fleet::register(module)?;
    mysql::register(module)?;
    managed::register(module)?;
    physics::register(module)?;
    replay::register(module)?;
    replica::register(module)?;
    whatif::register(module)?;
    mysql_plan::register(module)
}
