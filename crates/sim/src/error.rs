//! Why a simulation did not run.

use headrace_catalog::CatalogError;

/// Why a simulation did not run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The storage, instance or date is not possible.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The load is not possible.
    #[error("{value}: {what} {rule}")]
    Load {
        /// What is wrong.
        what: &'static str,
        /// The value given.
        value: String,
        /// The rule it breaks.
        rule: String,
    },
    /// Stopped by the caller.
    #[error("stopped before it was done")]
    Interrupted,
}
