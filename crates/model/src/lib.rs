//! The volume model: what an EBS volume, an array of them and the instance in front of them do to a
//! request.
//!
//! Pure: no clock, no I/O, no threads, no hidden chance. Time is an argument in integer
//! nanoseconds, chance a seeded generator. One model serves a virtual clock (`headrace-sim`) and a
//! wall clock (a block device). One file is one idea:
//!
//! | file | idea |
//! |---|---|
//! | `io` | a request, the decision about it, time in nanoseconds |
//! | `chance` | draws from distributions, and their quantiles |
//! | `bucket` | the token bucket behind every cap and credit, and how evenly a full one lets requests go |
//! | `accounting` | what a request costs: 256 KiB and 1 MiB units, sequential requests that are merged |
//! | `latency` | how long a request takes once it is let go |
//! | `first_touch` | blocks that still lie in a snapshot |
//! | `rates` | the rates of a volume, and what changes them: modifications, degradation events |
//! | `volume` | all of that for one volume |
//! | `array` | RAID geometry |
//! | `host` | the path through an instance, its arrays and volumes, and changes made to them |
//! | `record` | what was asked and decided, as a file that can be replayed |

pub mod accounting;
pub mod array;
pub mod bucket;
pub mod chance;
pub mod first_touch;
pub mod host;
pub mod io;
pub mod latency;
pub mod rates;
pub mod record;
pub mod volume;

pub use host::{Device, Host, HostChange, Instance, InstanceBalances, InstanceState, SavedDevice, SavedHost, SavedInstance};
pub use io::{Cap, Decision, Io, Nanos, Op, Verdict};
pub use rates::{Degradation, ModificationPhase, Rates, VolumeModification};
pub use volume::{Balance, ModelOptions, SavedVolume, Volume, VolumeState};
