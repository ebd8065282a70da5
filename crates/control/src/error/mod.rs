//! Errors of commands: the value, the rule, its source, what to do next, and a kind that says what
//! the caller can do.

mod wording;

use headrace_catalog::{Catalog, CatalogError};
use serde::{Deserialize, Serialize};

/// Source of rules that are this lab's own and not of AWS.
pub(crate) const LAB_RULE: &str = "rule of the lab, docs/reference/lab-protocol.md";
/// Read on 2026-11-21.
pub(crate) const API_TEXT: &str = "EC2 API text, PyPI botocore 1.43.11";

/// Types of refusals. The names are those of the socket protocol; each stands for an error code of
/// the EC2 API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The call itself is wrong: correct it.
    InvalidParameter,
    /// There is no such volume, member or fault.
    NotFound,
    /// The volume, member or attachment is in a state that does not allow it: wait, or bring it
    /// into another state.
    IncorrectState,
    /// An earlier modification has not been completed, or none is under way.
    IncorrectModificationState,
    /// The volume is attached, mounted or in an array: detach or unmount it first.
    InUse,
    /// There are as many as the lab or the instance allows.
    LimitExceeded,
    /// The volume was modified as often as its day allows: wait.
    RateExceeded,
    /// A volume of this kind cannot do it at all.
    Unsupported,
    /// This caller may not use the lab.
    InsufficientPermission,
    /// The client token was used with other arguments.
    IdempotentParameterMismatch,
    /// Nothing is wrong: the call was a dry run, and would have been done.
    DryRun,
    /// The machine could not: disk, kernel, devices. Steps that were begun were undone.
    Unavailable,
}

impl ErrorKind {
    /// Every kind, in the order of the reference.
    pub const ALL: [ErrorKind; 12] = [
        ErrorKind::InvalidParameter,
        ErrorKind::NotFound,
        ErrorKind::IncorrectState,
        ErrorKind::IncorrectModificationState,
        ErrorKind::InUse,
        ErrorKind::LimitExceeded,
        ErrorKind::RateExceeded,
        ErrorKind::Unsupported,
        ErrorKind::InsufficientPermission,
        ErrorKind::IdempotentParameterMismatch,
        ErrorKind::DryRun,
        ErrorKind::Unavailable,
    ];

    /// Returns the name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::InvalidParameter => "invalid-parameter",
            ErrorKind::NotFound => "not-found",
            ErrorKind::IncorrectState => "incorrect-state",
            ErrorKind::IncorrectModificationState => "incorrect-modification-state",
            ErrorKind::InUse => "in-use",
            ErrorKind::LimitExceeded => "limit-exceeded",
            ErrorKind::RateExceeded => "rate-exceeded",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::InsufficientPermission => "insufficient-permission",
            ErrorKind::IdempotentParameterMismatch => "idempotent-parameter-mismatch",
            ErrorKind::DryRun => "dry-run",
            ErrorKind::Unavailable => "unavailable",
        }
    }

    /// Returns the meaning in words, and what the caller can do.
    pub fn meaning(self) -> &'static str {
        match self {
            ErrorKind::InvalidParameter => "the call itself is wrong: correct it",
            ErrorKind::NotFound => "there is no such volume, member or fault",
            ErrorKind::IncorrectState => "its state does not allow it: wait, or bring it into another state",
            ErrorKind::IncorrectModificationState => "an earlier modification is not completed, or none is under way",
            ErrorKind::InUse => "attached, mounted or in an array: detach or unmount it first",
            ErrorKind::LimitExceeded => "there are as many as the lab or the instance allows",
            ErrorKind::RateExceeded => "modified as often as its day allows: wait",
            ErrorKind::Unsupported => "a volume of this kind cannot do it at all",
            ErrorKind::InsufficientPermission => "this caller may not use the lab",
            ErrorKind::IdempotentParameterMismatch => "the client token was used with other arguments: use a new one",
            ErrorKind::DryRun => "nothing is wrong: the call was a dry run and would have been done",
            ErrorKind::Unavailable => "the machine could not: disk, kernel, devices. Steps that were begun were undone",
        }
    }

    /// Returns the code of the EC2 API that says the same of a volume (EC2 user guide for
    /// developers, "Error codes for the Amazon EC2 API"), where a rule does not name its own:
    /// [`ControlError::says`].
    pub fn ec2_code(self) -> &'static str {
        match self {
            ErrorKind::InvalidParameter => "InvalidParameterValue",
            ErrorKind::NotFound => "InvalidVolume.NotFound",
            ErrorKind::IncorrectState => "IncorrectState",
            ErrorKind::IncorrectModificationState => "IncorrectModificationState",
            ErrorKind::InUse => "VolumeInUse",
            ErrorKind::LimitExceeded => "VolumeLimitExceeded",
            ErrorKind::RateExceeded => "VolumeModificationRateExceeded",
            ErrorKind::Unsupported => "UnsupportedOperation",
            ErrorKind::InsufficientPermission => "UnauthorizedOperation",
            ErrorKind::IdempotentParameterMismatch => "IdempotentParameterMismatch",
            ErrorKind::DryRun => "DryRunOperation",
            ErrorKind::Unavailable => "Unavailable",
        }
    }
}

/// An error as the protocol writes it: its five parts, and the same as AWS says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Type of the refusal.
    pub kind: ErrorKind,
    /// Value that breaks the rule.
    pub value: String,
    /// Rule that the value breaks.
    pub rule: String,
    /// Document with the rule.
    pub source: String,
    /// Advice.
    pub hint: String,
    /// AWS's error code.
    #[serde(default)]
    pub code: String,
    /// AWS's sentence, as far as it is known; else value and rule.
    #[serde(default)]
    pub message: String,
}

impl Problem {
    /// Makes an error of a rule, with the code of its kind and value and rule as its sentence.
    pub fn new(kind: ErrorKind, value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> Problem {
        let (value, rule) = (value.into(), rule.into());
        let message = match kind {
            // The sentences are EC2's (issue trackers of its clients).
            ErrorKind::DryRun => "Request would have succeeded, but DryRun flag is set.".to_string(),
            ErrorKind::IdempotentParameterMismatch => {
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).".to_string()
            }
            _ => format!("{value}: {rule}."),
        };
        Problem { kind, value, rule, source: source.into(), hint: hint.into(), code: kind.ec2_code().to_string(), message }
    }

    /// Adds AWS's own code and sentence.
    #[must_use]
    pub fn says(mut self, code: impl Into<String>, message: impl Into<String>) -> Problem {
        self.code = code.into();
        // Ids and names from a caller stand in it: one line, not a page.
        self.message = message.into().replace(char::is_control, " ");
        self
    }
}

/// A command that was not accepted. Prints as `VALUE: RULE (SOURCE). HINT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{}: {} ({}). {}", .0.value, .0.rule, .0.source, .0.hint)]
#[serde(transparent)]
pub struct ControlError(Box<Problem>);

impl ControlError {
    /// Makes an error of a rule.
    pub fn new(kind: ErrorKind, value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        // The text is a single line, not a page, whatever was pasted in.
        let value = value.into().replace(char::is_control, " ");
        let value = match value.char_indices().nth(80) {
            Some((cut, _)) => format!("{}...", &value[..cut]),
            None if value.is_empty() => "(nothing)".to_string(),
            None => value,
        };
        ControlError(Box::new(Problem::new(kind, value, rule, source, hint)))
    }

    pub(crate) fn invalid(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::InvalidParameter, value, rule, source, hint)
    }

    /// Adds AWS's own code and sentence.
    #[must_use]
    pub fn says(self, code: impl Into<String>, message: impl Into<String>) -> ControlError {
        ControlError(Box::new(self.0.says(code, message)))
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns all parts of the error.
    pub fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Problem {
        *error.0
    }
}

impl From<CatalogError> for ControlError {
    fn from(error: CatalogError) -> ControlError {
        let kind = match error {
            // The shipped tables, not the question.
            CatalogError::Data(_) => ErrorKind::Unavailable,
            _ => ErrorKind::InvalidParameter,
        };
        let refused = ControlError::new(kind, error.value(), error.rule(), error.source(), error.hint());
        match wording::word_catalog_error(&error) {
            Some((code, message)) => refused.says(code, message),
            None => refused,
        }
    }
}

/// Returns the citation of a figure of `data/rules.toml`.
pub(crate) fn rule_source(section: &str, name: &str) -> String {
    let catalog = Catalog::embedded();
    catalog.rule(section, name).map_or_else(|| format!("data/rules.toml: {section}.{name}"), |rule| catalog.cite(&rule.source.joined()))
}
