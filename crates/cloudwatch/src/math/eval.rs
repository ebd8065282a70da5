//! From a tree to a value.

use super::functions;
use super::parse::{Expr, Operator, Tree};
use super::value::{Context, Series, Value};
use super::MathError;

fn combine_series(operator: Operator, lhs: &Series, rhs: &Series) -> Series {
    let shared = lhs.points.iter().filter_map(|(t_s, value)| Some((*t_s, operator.apply(*value, *rhs.points.get(t_s)?))));
    Series { period_s: lhs.period_s.max(rhs.period_s), ..lhs.with(shared) }
}

/// Combines two values.
fn combine(operator: Operator, lhs: Value, rhs: Value, at: usize) -> Result<Value, MathError> {
    Ok(match (lhs, rhs) {
        (Value::Number(lhs), Value::Number(rhs)) => Value::Number(operator.apply(lhs, rhs)),
        (Value::Series(lhs), Value::Number(rhs)) => Value::Series(lhs.mapped(|lhs| operator.apply(lhs, rhs))),
        (Value::Number(lhs), Value::Series(rhs)) => Value::Series(rhs.mapped(|rhs| operator.apply(lhs, rhs))),
        (Value::Series(lhs), Value::Series(rhs)) => Value::Series(combine_series(operator, &lhs, &rhs)),
        (Value::Array(lhs), Value::Number(rhs)) => Value::Array(lhs.iter().map(|series| series.mapped(|lhs| operator.apply(lhs, rhs))).collect()),
        (Value::Number(lhs), Value::Array(rhs)) => Value::Array(rhs.iter().map(|series| series.mapped(|rhs| operator.apply(lhs, rhs))).collect()),
        (Value::Array(lhs), Value::Series(rhs)) => Value::Array(lhs.iter().map(|lhs| combine_series(operator, lhs, &rhs)).collect()),
        (Value::Series(lhs), Value::Array(rhs)) => {
            Value::Array(rhs.iter().map(|rhs| Series { name: rhs.name.clone(), ..combine_series(operator, &lhs, rhs) }).collect())
        }
        (lhs @ Value::Array(_), rhs @ Value::Array(_)) => {
            let clause = format!("'{}' cannot combine {} and {}", operator.as_str(), lhs.type_name(), rhs.type_name());
            return Err(MathError::new(at, clause));
        }
    })
}

impl Expr {
    /// Returns the value.
    ///
    /// # Errors
    /// A name that is not a query, a function that does not exist or is given the wrong arguments.
    pub fn value(&self, context: &Context<'_>) -> Result<Value, MathError> {
        let value = self.compute(context)?;
        context.budget.spend(&value, self.at)?;
        Ok(value)
    }

    /// Computes the value, without counting its points.
    fn compute(&self, context: &Context<'_>) -> Result<Value, MathError> {
        match &self.tree {
            Tree::Number(number) => Ok(Value::Number(*number)),
            Tree::Text(_) => Err(MathError::new(self.at, "text has a meaning only as the argument of METRICS")),
            Tree::Name(name) => context.values.get(name).cloned().ok_or_else(|| MathError::new(self.at, format!("'{name}' is not the id of a query"))),
            Tree::Negative(inner) => combine(Operator::Subtract, Value::Number(0.0), inner.value(context)?, self.at),
            Tree::Operation(operator, lhs, rhs) => combine(*operator, lhs.value(context)?, rhs.value(context)?, self.at),
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
