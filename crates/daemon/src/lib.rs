//! The daemon of the lab: one owner of all state.
//!
//! ```text
//!  socket -> calls -> engine -> control decides -> journal -> control applies -> device, store
//!                                    housekeeping: once a second what is due, balances, metrics
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `socket` | connections, peer credentials, lines |
//! | `calls` | from a call of the protocol to the engine and back |
//! | `envelope` | what a line asks besides its call: a dry run, a client token |
//! | `calls/changes` | what changed of volumes and snapshots, for callers that keep what they were told |
//! | `calls/snapshots` | calls about snapshots |
//! | `view` | what callers see of a volume |
//! | `engine` | arguments; state, journal, devices and mount together; the order of the locks |
//! | `engine/state` | the lab, its journal, and how an event gets into both; what changed since a version |
//! | `engine/parts` | what the engine keeps in memory of resting volumes and snapshots; locks, time, chance |
//! | `engine/volume_files` | a volume's files, array, place in the model and attachment |
//! | `engine/attaching` | devices that come and go |
//! | `engine/snapshotting/copying` | copies of volumes: the instant of the source, and who brings its bytes over |
//! | `engine/modifying` | size, type, IOPS of a volume in use |
//! | `engine/faulting` | faults, members, rebuilds |
//! | `engine/snapshotting` | snapshots: the instant, uploads, copies, removals |
//! | `engine/blocks` | blocks of snapshots, one at a time |
//! | `engine/initializing` | volumes made from a snapshot: what is cold, who loads it |
//! | `engine/resting` | volumes that nobody uses, closed; what is known of them |
//! | `engine/housekeeping` | what happens by itself |
//! | `engine/encryption` | keys, and the data keys of encrypted volumes |
//! | `calls/keys` | calls about keys |
//! | `keyring` | key material, and what is encrypted under it |
//! | `other_lab` | another lab of this machine, whose snapshots are copied |
//! | `journal` | what is acknowledged |
//! | `cloudwatch` | metrics, alarms and their actions |
//! | `events`, `line_log` | changes of state in EventBridge's shape, and the log they are kept in |
//! | `metrics` | what volumes did, for an hour and for 15 days |
//! | `problem` | errors as the protocol writes them |

pub mod calls;
pub mod cloudwatch;
pub mod engine;
pub mod envelope;
pub mod events;
pub mod journal;
pub mod keyring;
pub mod line_log;
pub mod metrics;
pub mod other_lab;
pub mod problem;
pub mod socket;
pub mod view;
