//! The daemon of the lab: one owner of all state.
//!
//! ```text
//!  socket -> calls -> engine -> control decides -> journal -> control applies -> device, store
//!                                    keeper: once a second what is due, balances, metrics
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `options` | arguments |
//! | `socket` | connections, peer credentials, lines |
//! | `calls` | from JSON to the engine and back |
//! | `view` | what callers see of a volume |
//! | `engine` | state, journal, devices and mount together |
//! | `opened` | a volume's files and its place in the model |
//! | `attaching` | devices that come and go |
//! | `modifying` | size, type, IOPS of a volume in use |
//! | `faulting` | faults, members, rebuilds |
//! | `keeper` | what happens by itself |
//! | `leftovers` | mounts and loop devices of an earlier life |
//! | `journal` | what is acknowledged |
//! | `metrics` | what volumes did, for an hour and for 15 days |
//! | `problem` | errors as the protocol writes them |

pub mod attaching;
pub mod calls;
pub mod engine;
pub mod faulting;
pub mod journal;
pub mod keeper;
pub mod leftovers;
pub mod metrics;
pub mod modifying;
pub mod opened;
pub mod options;
pub mod problem;
pub mod socket;
pub mod view;
