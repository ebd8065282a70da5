//! Demand on a storage, in two forms: request by request, and interval by interval.
//!
//! ```text
//!   load -> measure -> fluid <- near_cap        load
//!                        |                        |
//!        windows <- interval -> mixture        events -> recorder
//!                        |
//!                      cycle -> search
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `load` | what is asked: closed loads (fio's terms), open loads (demand over time) |
//! | `events` | the per-I/O form: every request, an event queue, nanoseconds |
//! | `recorder` | rows and summary of the per-I/O form |
//! | `interval` | the per-interval form: hours, plans and fleets |
//! | `measure` | demand in what buckets count |
//! | `fluid` | the model's buckets in closed form |
//! | `near_cap` | independent arrivals near a cap: the walks of what waits |
//! | `clumps` | latency of a run with such waits |
//! | `mixture` | latency percentiles of the interval form |
//! | `windows` | the worst five minutes of the interval form |
//! | `cycle` | a day repeated until its balances settle |
//! | `search` | many storages against one demand, in parallel: the planner's inner loop |
//! | `search::fleet` | many demands, each with many storages: the inner loop of a fleet |

pub(crate) mod clumps;
pub mod cycle;
pub mod events;
pub(crate) mod fluid;
pub mod interval;
pub mod load;
pub mod measure;
pub mod mixture;
mod near_cap;
mod recorder;
pub mod search;
pub mod windows;
