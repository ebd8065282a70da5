//! Values of expressions: numbers, series, arrays, and the bound on their points.

use super::MathError;
use crate::series::{Points, Window};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Most points that all steps of a request make together, each series counted as one point more: a
/// bound on memory (some 100 MB) that a request of 100,800 points stays far below.
const MOST_POINTS: usize = 2_000_000;

/// A series with its name and the length of its periods.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Id of the query, or the name that an expression gave the series.
    pub name: String,
    /// Seconds.
    pub period_s: u32,
    /// Points, all finite.
    pub points: Points,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number; not a number where it has no value, like the mean of nothing.
    Number(f64),
    /// A series.
    Series(Series),
    /// Several series.
    Array(Vec<Series>),
}

impl Value {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Number(_) => "a number",
            Value::Series(_) => "a time series",
            Value::Array(_) => "an array of time series",
        }
    }
}

/// Values and limits that an expression is computed with.
pub struct Context<'a> {
    /// The values of other queries by id.
    pub values: &'a BTreeMap<String, Value>,
    /// Ids of the queries that are metrics, in the order of the request.
    pub metrics: &'a [String],
    /// The periods that are asked for.
    pub window: Window,
    /// Points that the request may still make.
    pub budget: &'a Budget,
}

/// Points that a request may still make.
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Cell::new(MOST_POINTS))
    }
}

impl Budget {
    /// Counts the points of a value; fails once the request has made more than [`MOST_POINTS`].
    /// `at` is the position for the error.
    pub(super) fn spend(&self, value: &Value, at: usize) -> Result<(), MathError> {
        let many = match value {
            Value::Number(_) => 0,
            Value::Series(series) => 1 + series.points.len(),
            Value::Array(array) => array.iter().map(|series| 1 + series.points.len()).sum(),
        };
        let remaining = self.0.get().checked_sub(many);
        self.0.set(remaining.unwrap_or(0));
        remaining.map(drop).ok_or_else(|| MathError::new(at, format!("the request makes more than {MOST_POINTS} points; ask for less time or longer periods")))
    }
}

/// Keeps finite points only: those without a value are left out.
pub(super) fn finite(points: impl IntoIterator<Item = (i64, f64)>) -> Points {
    points.into_iter().filter(|(_, value)| value.is_finite()).collect()
}

impl Series {
    pub(super) fn mapped(&self, change: impl Fn(f64) -> f64) -> Series {
        self.with(self.points.iter().map(|(t_s, value)| (*t_s, change(*value))))
    }

    pub(super) fn with(&self, points: impl IntoIterator<Item = (i64, f64)>) -> Series {
        Series { name: self.name.clone(), period_s: self.period_s, points: finite(points) }
    }
}
