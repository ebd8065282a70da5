//! From a tree to a value.

use super::functions;
use super::parse::{Expr, Operator, Tree};
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
    /// Id of the query, or what an expression made of it.
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

/// What an expression sees.
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
    fn spend(&self, value: &Value, at: usize) -> Result<(), MathError> {
        let many = match value {
            Value::Number(_) => 0,
            Value::Series(series) => 1 + series.points.len(),
            Value::Array(array) => array.iter().map(|series| 1 + series.points.len()).sum(),
        };
        let left = self.0.get().checked_sub(many);
        self.0.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| MathError::new(at, format!("the request makes more than {MOST_POINTS} points; ask for less time or longer periods")))
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

fn both(operator: Operator, left: &Series, right: &Series) -> Series {
    let shared = left.points.iter().filter_map(|(t_s, one)| Some((*t_s, operator.apply(*one, *right.points.get(t_s)?))));
    Series { period_s: left.period_s.max(right.period_s), ..left.with(shared) }
}

/// Combines two values.
fn combined(operator: Operator, left: Value, right: Value, at: usize) -> Result<Value, MathError> {
    Ok(match (left, right) {
        (Value::Number(left), Value::Number(right)) => Value::Number(operator.apply(left, right)),
        (Value::Series(left), Value::Number(right)) => Value::Series(left.mapped(|left| operator.apply(left, right))),
        (Value::Number(left), Value::Series(right)) => Value::Series(right.mapped(|right| operator.apply(left, right))),
        (Value::Series(left), Value::Series(right)) => Value::Series(both(operator, &left, &right)),
        (Value::Array(left), Value::Number(right)) => Value::Array(left.iter().map(|one| one.mapped(|left| operator.apply(left, right))).collect()),
        (Value::Number(left), Value::Array(right)) => Value::Array(right.iter().map(|one| one.mapped(|right| operator.apply(left, right))).collect()),
        (Value::Array(left), Value::Series(right)) => Value::Array(left.iter().map(|left| both(operator, left, &right)).collect()),
        (Value::Series(left), Value::Array(right)) => {
            Value::Array(right.iter().map(|right| Series { name: right.name.clone(), ..both(operator, &left, right) }).collect())
        }
        (left @ Value::Array(_), right @ Value::Array(_)) => {
            let words = format!("'{}' cannot combine {} and {}", operator.as_str(), left.type_name(), right.type_name());
            return Err(MathError::new(at, words));
        }
    })
}

impl Expr {
    /// The value.
    ///
    /// # Errors
    /// A name that is not a query, a function that does not exist or is given the wrong arguments.
    pub fn value(&self, context: &Context<'_>) -> Result<Value, MathError> {
        let value = self.computed(context)?;
        context.budget.spend(&value, self.at)?;
        Ok(value)
    }

    fn computed(&self, context: &Context<'_>) -> Result<Value, MathError> {
        match &self.tree {
            Tree::Number(number) => Ok(Value::Number(*number)),
            Tree::Text(_) => Err(MathError::new(self.at, "text has a meaning only as the argument of METRICS")),
            Tree::Name(name) => context.values.get(name).cloned().ok_or_else(|| MathError::new(self.at, format!("'{name}' is not the id of a query"))),
            Tree::Negative(inner) => combined(Operator::Subtract, Value::Number(0.0), inner.value(context)?, self.at),
            Tree::Operation(operator, left, right) => combined(*operator, left.value(context)?, right.value(context)?, self.at),
            Tree::Call(name, arguments) => functions::call(name, self.at, arguments, context),
            Tree::List(parts) => {
                let mut array = Vec::new();
                for part in parts {
                    match part.value(context)? {
                        Value::Series(series) => array.push(series),
                        Value::Array(more) => array.extend(more),
                        Value::Number(_) => return Err(MathError::new(part.at, "an array is made of time series, and this is a number")),
                    }
                }
                Ok(Value::Array(array))
            }
        }
    }
}
