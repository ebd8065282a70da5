//! Clock one: the volume model driven in virtual time, in two forms.
//!
//! | file | idea |
//! |---|---|
//! | `load` | what is asked: closed loads (fio's terms), open loads (demand over time) |
//! | `setup` | storage, instance and date, resolved against the catalog |
//! | `events` | the per-I/O form: every request, an event queue, nanoseconds |
//! | `interval` | the per-interval form: hours, plans and fleets |
//! | `measure` | demand in what buckets count |
//! | `fluid` | the same buckets in closed form |
//! | `near_cap` | independent arrivals near a cap |
//! | `mixture` | latency percentiles of the interval form |
//! | `windows` | the worst five minutes of the interval form |
//! | `cycle` | a day repeated until its balances settle |
//! | `recorder`, `report` | rows and summaries of both |
//! | `replay` | a record of a real device, asked again |
//! | `mysql` | transactions of InnoDB and MyRocks on top of all this |
//! | `candidates` | many storages against one demand, in parallel: the planner's inner loop |

pub mod candidates;
pub mod cycle;
pub mod events;
mod fluid;
pub mod interval;
pub mod load;
pub mod measure;
pub mod mixture;
pub mod mysql;
mod near_cap;
mod recorder;
pub mod replay;
pub mod report;
pub mod setup;
pub mod windows;

pub use load::{Arrivals, ClosedLoad, OpenLoad, Pattern, Point};
pub use report::{Row, Run, Summary};
pub use setup::Setup;

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
