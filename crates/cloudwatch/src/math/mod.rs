//! Metric math: an expression as text, as a tree, and its value.
//!
//! Rules are those of the CloudWatch user guide, "Using metric math" (read 2026-08): a number and a
//! series, or two series, are combined point by point; a point that only one of two series has is
//! left out, and so is one without a finite value, like 0/0. An array of series is combined series
//! by series.

mod eval;
mod functions;
mod parse;
mod value;

pub use parse::{parse, Expr, Operator, Tree};
pub use value::{Budget, Context, Series, Value};

use crate::error::Refusal;
use std::fmt;

/// Longest expression, characters (service model, 2010-08-01).
pub const MAX_EXPRESSION_CHARS: usize = 2_048;

/// Error of an expression, with its position: the number of a character, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MathError {
    /// Position.
    pub at: usize,
    /// A clause without a full stop.
    pub message: String,
}

impl MathError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> MathError {
        MathError { at, message: message.into() }
    }

    /// Makes the refusal of the query with this id.
    pub fn of_query(&self, id: &str, expression: &str) -> Refusal {
        Refusal::validation(expression, format!("Error in expression '{id}' at position {}: {}.", self.at, self.message))
    }
}

impl fmt::Display for MathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at position {}: {}", self.at, self.message)
    }
}
