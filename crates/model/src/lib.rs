//! The volume model: what an EBS volume, an array of them and the instance in front of them do to a request.
//!
//! Pure: no clock, no I/O, no threads, no hidden chance. Time is an argument in integer nanoseconds, chance a seeded generator. The same model runs behind
//! a virtual clock (`headrace-sim`) and behind a wall clock (a block device). One file is one idea:
//!
//! | file | idea |
//! |---|---|
//! | `bucket` | the token bucket behind every cap and credit, in fixed point |
//! | `accounting` | what a request costs: 256 KiB and 1 MiB units |
//! | `merge` | sequential requests that wait together |
//! | `pacing` | how evenly a full limiter lets requests go |
//! | `latency` | how long a request takes once it is let go |
//! | `first_touch` | blocks that still lie in a snapshot |
//! | `fault` | degradation events |
//! | `modification` | a size, type or IOPS change in progress |
//! | `volume` | all of that for one volume |
//! | `instance` | limits shared by all volumes of an instance |
//! | `array` | RAID geometry |
//! | `host` | the path through instance, array and volumes |
//! | `record` | what was asked and decided, as a file that can be replayed |

pub mod accounting;
pub mod array;
pub mod bucket;
pub mod fault;
pub mod first_touch;
pub mod host;
pub mod instance;
pub mod io;
pub mod latency;
pub mod merge;
pub mod modification;
pub mod pacing;
pub mod record;
pub mod time;
pub mod volume;

pub use host::{Device, Host, SavedDevice};
pub use instance::{Instance, InstanceBalances};
pub use io::{Cap, Decision, Io, Op, Verdict};
pub use time::Nanos;
pub use volume::{Balance, ModelOptions, SavedVolume, Volume, VolumeState};
