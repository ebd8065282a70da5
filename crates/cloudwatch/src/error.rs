//! Refusals of CloudWatch, with their codes and a sentence.

use std::fmt;

/// CloudWatch's error codes (service model of botocore 1.43, monitoring 2010-08-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A value is not allowed.
    InvalidParameterValue,
    /// Parameters exclude each other.
    InvalidParameterCombination,
    /// A parameter is missing.
    MissingParameter,
    /// A query or an alarm as a whole is wrong.
    ValidationError,
    /// The token is not one of this operation.
    InvalidNextToken,
    /// There is no such alarm.
    ResourceNotFound,
    /// There are as many as the lab keeps.
    LimitExceeded,
}

impl Code {
    /// Returns the code as an answer has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidParameterValue => "InvalidParameterValue",
            Code::InvalidParameterCombination => "InvalidParameterCombination",
            Code::MissingParameter => "MissingParameter",
            Code::ValidationError => "ValidationError",
            Code::InvalidNextToken => "InvalidNextToken",
            Code::ResourceNotFound => "ResourceNotFound",
            Code::LimitExceeded => "LimitExceeded",
        }
    }
}

/// A refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// CloudWatch's code.
    pub code: Code,
    /// The value that was refused.
    pub value: String,
    /// A sentence that names value and rule.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl Refusal {
    /// Makes a refusal of `value`.
    pub fn new(code: Code, value: impl Into<String>, message: impl Into<String>) -> Refusal {
        Refusal { code, value: value.into(), message: message.into() }
    }

    /// Makes the refusal of a value that is not allowed for a parameter, in CloudWatch's words.
    pub fn value(parameter: &str, value: impl fmt::Display, rule: impl fmt::Display) -> Refusal {
        let value = value.to_string();
        Refusal::new(Code::InvalidParameterValue, &value, format!("The value {value} for parameter {parameter} is invalid: {rule}."))
    }

    /// Makes the refusal of a request without a parameter, in CloudWatch's words.
    pub fn missing(parameter: &str) -> Refusal {
        Refusal::new(Code::MissingParameter, parameter, format!("The parameter {parameter} is required."))
    }

    /// Makes the refusal of a query or an alarm that is wrong as a whole.
    pub fn validation(value: impl Into<String>, message: impl Into<String>) -> Refusal {
        Refusal::new(Code::ValidationError, value, message)
    }
}
