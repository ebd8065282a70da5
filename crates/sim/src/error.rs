//! Why a simulation did not run.

use headrace_catalog::CatalogError;

/// Why a simulation did not run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The storage, instance or date is not possible.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The simulation is asked for something outside its bounds.
    #[error("{value}: {what} {rule}. {hint}")]
    Load {
        /// Name of the wrong value.
        what: &'static str,
        /// The value given.
        value: String,
        /// The rule it breaks.
        rule: String,
        /// Advice to the user.
        hint: String,
    },
    /// Stopped by the caller.
    #[error("stopped before it was done")]
    Interrupted,
}

impl SimError {
    /// Makes the error of a refused value; `hint` says what to do next.
    pub fn refused(what: &'static str, value: impl ToString, rule: impl Into<String>, hint: impl Into<String>) -> SimError {
        SimError::Load { what, value: value.to_string(), rule: rule.into(), hint: hint.into() }
    }

    /// Refuses a value outside `low` to `high`, both allowed, and NaN.
    pub fn check_range(what: &'static str, value: f64, low: f64, high: f64) -> Result<(), SimError> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let (low, high) = (in_groups(low), in_groups(high));
        Err(SimError::refused(what, value, format!("must be between {low} and {high}"), format!("Give a value from {low} to {high}.")))
    }
}

/// Writes a number as people do: whole numbers from 1,000 on in groups of three digits.
fn in_groups(value: f64) -> String {
    // Above 2^53 a double does not hold every whole number.
    if value.fract() != 0.0 || !(1e3..=9e15).contains(&value) {
        return value.to_string();
    }
    let digits = (value as u64).to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_out() {
        assert_eq!([0.1, 999.0, 1_000.0, 1_048_576.0, 1e15].map(in_groups), ["0.1", "999", "1,000", "1,048,576", "1,000,000,000,000,000"]);
    }

    #[test]
    fn a_refusal_names_value_rule_and_what_to_do() {
        let error = SimError::check_range("size (GiB)", 2e6, 1.0, 1_048_576.0).unwrap_err();
        assert_eq!(error.to_string(), "2000000: size (GiB) must be between 1 and 1,048,576. Give a value from 1 to 1,048,576.");
        assert!(SimError::check_range("size (GiB)", f64::NAN, 0.0, 1.0).is_err());
    }
}
