//! The answer of a call as JSON.

use crate::problem::{could_not, Outcome};
use serde::Serialize;
use serde_json::value::{to_raw_value, RawValue};

/// An answer as it goes out. Written once: as a tree of values, the list of 200 volumes takes
/// several milliseconds.
pub(crate) type Answer = Box<RawValue>;

pub(crate) fn json(answer: impl Serialize) -> Outcome<Answer> {
    to_raw_value(&answer).map_err(|error| could_not("answer", error.to_string(), "Report it: it cannot be written as JSON."))
}
