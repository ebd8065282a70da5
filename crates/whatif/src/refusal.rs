//! Why there is no answer: the four parts of an error.

use headrace_catalog::CatalogError;
use headrace_sim::SimError;
use serde::Serialize;

/// Value, rule, where the rule stands, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The value that was given.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
    /// Document that has the rule.
    pub source: String,
    /// Advice to the user.
    pub hint: String,
}

/// Characters of a question that a refusal repeats.
const REPEATED: usize = 60;

impl Refusal {
    /// Makes a refusal of its parts.
    pub fn new(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { value: value.into(), rule: rule.into(), source: source.into(), hint: hint.into() }
    }

    /// Makes the refusal of a text that cannot be read as a question.
    pub(crate) fn of_text(question: &str, error: &serde_json::Error) -> Refusal {
        let start: String = question.chars().take(REPEATED).collect();
        Refusal::new(start, format!("is not a question: {error}"), "crates/whatif", "Reload the page: it may be older than its server.")
    }
}

impl From<&CatalogError> for Refusal {
    fn from(error: &CatalogError) -> Refusal {
        Refusal::new(error.value(), error.rule(), error.source(), error.hint())
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Refusal {
        Refusal::from(&error)
    }
}

impl From<SimError> for Refusal {
    fn from(error: SimError) -> Refusal {
        match error {
            SimError::Catalog(error) => Refusal::from(&error),
            SimError::Load { what, value, rule, hint } => Refusal::new(value, format!("{what} {rule}"), "bounds of the simulation", hint),
            SimError::Interrupted => Refusal::new("", "was stopped", "headrace", "Ask again."),
        }
    }
}
