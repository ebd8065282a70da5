//! What can be wrong with a command: the value, the rule, its source, what to do next, and a kind that says what the caller can do.

use headrace_catalog::{Catalog, CatalogError};
use serde::{Deserialize, Serialize};

/// Source of rules that are this lab's own and not of AWS.
pub(crate) const LAB_RULE: &str = "rule of the lab, docs/reference/lab-protocol.md";
/// Read on 2026-11-21.
pub(crate) const API_TEXT: &str = "EC2 API text, PyPI botocore 1.43.11";

/// What a caller can do about an error; the names of the socket protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The command itself is wrong: correct it.
    Input,
    /// A rule forbids it as things are: do what the hint says, or something else.
    Refused,
    /// Something else is going on with the volume: wait, or end that.
    Busy,
    /// There is no such volume, member or attachment.
    NotFound,
    /// The lab itself could not.
    CouldNot,
}

impl ErrorKind {
    /// The name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Input => "input",
            ErrorKind::Refused => "refused",
            ErrorKind::Busy => "busy",
            ErrorKind::NotFound => "not-found",
            ErrorKind::CouldNot => "could-not",
        }
    }
}

/// The five parts of an error, as the protocol writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// What was given.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
    /// Where the rule is written down.
    pub source: String,
    /// What to do next.
    pub hint: String,
}

/// A command that was not accepted. Prints as `VALUE: RULE (SOURCE). HINT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{}: {} ({}). {}", .0.value, .0.rule, .0.source, .0.hint)]
#[serde(transparent)]
pub struct ControlError(Box<Problem>);

impl ControlError {
    /// An error of a rule.
    pub fn new(kind: ErrorKind, value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        // One line, whatever was pasted in, and not a page of it.
        let value = value.into().replace(char::is_control, " ");
        let value = match value.char_indices().nth(80) {
            Some((cut, _)) => format!("{}...", &value[..cut]),
            None if value.is_empty() => "(nothing)".to_string(),
            None => value,
        };
        ControlError(Box::new(Problem { kind, value, rule: rule.into(), source: source.into(), hint: hint.into() }))
    }

    pub(crate) fn input(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::Input, value, rule, source, hint)
    }

    pub(crate) fn refused(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::Refused, value, rule, source, hint)
    }

    pub(crate) fn busy(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::Busy, value, rule, source, hint)
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// All parts.
    pub fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<CatalogError> for ControlError {
    fn from(error: CatalogError) -> ControlError {
        let kind = match error {
            // The shipped tables, not the question.
            CatalogError::Data(_) => ErrorKind::CouldNot,
            _ => ErrorKind::Input,
        };
        ControlError::new(kind, error.value(), error.rule(), error.source(), error.hint())
    }
}

/// Citation of a figure of `data/rules.toml`.
pub(crate) fn rule_source(section: &str, name: &str) -> String {
    let catalog = Catalog::embedded();
    catalog.rule(section, name).map_or_else(|| format!("data/rules.toml: {section}.{name}"), |rule| catalog.cite(&rule.source.joined()))
}
