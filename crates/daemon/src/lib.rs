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
//! | `envelope` | options of a line besides its call: a dry run, a client token |
//! | `calls/changes` | changes of volumes and snapshots since a version, for callers with a copy |
//! | `calls/snapshots` | calls about snapshots |
//! | `view` | volumes and the lab as callers see them |
//! | `options` | arguments of the daemon, and the place of its socket |
//! | `engine` | the services of a lab, their start and end; the order of the locks |
//! | `engine/ledger` | records, journal and clock under one lock: the place where a record changes |
//! | `engine/state` | the way of an event into the lab and its journal; changes since a version |
//! | `engine/parts` | facts about resting volumes in memory; locks, time, random numbers |
//! | `engine/volume_files` | a volume's files, array, place in the model and attachment |
//! | `engine/volumes` | the service of the volumes: creation, deletion, opening, the start |
//! | `engine/attaching` | devices that come and go |
//! | `engine/snapshotting/copying` | copies of volumes: the instant of the source, and who brings its bytes over |
//! | `engine/modifying` | size, type, IOPS of a volume in use |
//! | `engine/faulting` | faults, members, rebuilds |
//! | `engine/snapshots` | the service of the snapshots: store, keys, copies, removals |
//! | `engine/snapshotting` | the workers: instants, uploads |
//! | `engine/blocks` | blocks of snapshots, one at a time |
//! | `engine/initializing` | volumes made from a snapshot: cold blocks, and their loading |
//! | `engine/resting` | volumes that nobody uses, with closed files, and the facts about them |
//! | `engine/resyncing` | copies and parity of arrays, made equal after a crash |
//! | `engine/metering` | rows of metrics, and the credits noted with them |
//! | `engine/housekeeping` | work that no call asks for |
//! | `engine/encryption` | the service of the keys, and the data keys of encrypted volumes |
//! | `calls/keys` | calls about keys |
//! | `keyring` | key material, and what is encrypted under it |
//! | `other_lab` | another lab of this machine, whose snapshots are copied |
//! | `journal` | acknowledged events, on disk |
//! | `cloudwatch` | the services of the metrics and of the alarms, with their actions |
//! | `events`, `line_log` | changes of state in EventBridge's shape, and the log they are kept in |
//! | `metrics` | rows of volumes, for an hour and for 15 days |
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
pub mod options;
pub mod other_lab;
pub mod problem;
pub mod socket;
pub mod view;
