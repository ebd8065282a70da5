//! From a tree to a value.

use super::functions;
use super::parse::{Expr, Operator, Tree};
use super::value::{Context, Series, Value};
use super::MathError;

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
    /// Returns the value.
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
