//! Clock one: the volume model driven in virtual time.
//!
//! | module | idea |
//! |---|---|
//! | `setup` | storage, instance and date, resolved against the catalog |
//! | `demand` | a demand on a storage, request by request and interval by interval |
//! | `mysql` | transactions of InnoDB and MyRocks on top of that, in the same two forms |
//! | `replay` | a record of a real device, asked again |
//! | `report` | rows and summaries of runs |
//! | `error` | why a simulation did not run |

pub mod demand;
mod error;
pub mod mysql;
pub mod replay;
pub mod report;
pub mod setup;

pub use demand::load::{Arrivals, ClosedLoad, OpenLoad, Pattern, Point};
pub use demand::{cycle, events, interval, load, measure, mixture, windows};
pub use error::SimError;
pub use report::{Run, RunRow, Summary, UnluckyRun};
pub use setup::Setup;
