//! Every call of the lab's daemon and what it answers, as types.
//!
//! | file | idea |
//! |---|---|
//! | `message` | a struct whose fields are also a table |
//! | `arguments` | what calls are given |
//! | `answers` | what they answer |
//! | `cloudwatch` | both, of the calls about metrics, alarms and events |
//! | `snapshots` | both, of snapshots |
//! | `calls` | the calls: name, arguments, answer |
//! | `keys` | the same of calls about keys |
//! | `generate` | the Python client and the reference page, from the tables |
//!
//! A line to the daemon is `{"id": ID, "call": NAME, "args": {...}}`, its answer
//! `{"id": ID, "result": {...}}` or `{"id": ID, "error": {...}}` with a
//! [`Problem`](headrace_control::Problem): docs/reference/lab-protocol.md.

pub mod answers;
pub mod arguments;
mod calls;
pub mod cloudwatch;
pub mod generate;
pub mod keys;
pub mod message;
pub mod snapshots;

pub use calls::{Call, CallEntry, CALLS, SECTIONS};
