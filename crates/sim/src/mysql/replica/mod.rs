//! A replica: how fast it applies what its source writes, how far it falls behind, and what
//! semi-sync costs the source.
//!
//! | file | idea |
//! |---|---|
//! | `applier` | what applying a transaction takes: parameters, and defaults from the source's own run |
//! | `settings` | who may be applied at once, by mode and version; what a commit flushes |
//! | `rate` | transactions a second from reads, flushes, dependencies, caps, processors; shares |
//! | `devices` | the replica's volumes: data, logs, relay log |
//! | `scenario` | what a run is given |
//! | `pace` | costs, rate and what the volumes are asked, at one state of the cache |
//! | `settled` | cache and dirty pages at the rate it applies with |
//! | `interval` | second by second: backlog and lag, the peak after the load, large transactions |
//! | `events` | the per-I/O form: every worker, read, write and flush |
//! | `semisync` | what a commit waits for |
//!
//! Left out, see docs/semantics/replica-lag.md.

mod applier;
mod devices;
mod events;
mod interval;
mod pace;
mod rate;
mod scenario;
mod semisync;
mod settings;
mod settled;

pub use applier::{Applier, ApplierSpread, APPLIER_SPREADS};
pub use devices::ReplicaStorage;
pub use events::{run_events, ReplicaEvents};
pub use interval::{replica_database, run, source_series, ReplicaRun, ReplicaSecond, ReplicaSummary, BEHIND_S};
pub use rate::{ApplierCosts, ReplicaBinding, COSTS};
pub use scenario::{LargeTransaction, ReplicaScenario};
pub use semisync::{receive_s, SemiSync, SemiSyncPrice, WaitPoint};
pub use settings::{ReplicaMode, ReplicaSettings};
pub use settled::written_back;
