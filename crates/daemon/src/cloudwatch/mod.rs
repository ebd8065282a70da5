//! CloudWatch: where its points come from, its calls, alarms and what they set off.
//!
//! | file | idea |
//! |---|---|
//! | `points` | the values of a metric: rows of volumes, or what was put |
//! | `custom` | what PutMetricData put |
//! | `calls` | from a call of the protocol to points and alarms, and back |
//! | `paging` | tokens that say where an answer ended |
//! | `alarming` | evaluates alarms |
//! | `actions` | the commands and webhooks that alarms set off |
//!
//! Everything stands on the wall clock. The arithmetic is `headrace_cloudwatch`'s.

pub mod actions;
pub mod alarming;
pub mod calls;
pub mod custom;
mod paging;
pub mod points;

use crate::problem::Outcome;
use headrace_cloudwatch::Refusal;
use headrace_control::{refused_by_cloudwatch, Problem};

/// Turns a refusal of CloudWatch's rules into an error of the daemon, with CloudWatch's code and
/// sentence.
pub(crate) fn to_problem(refusal: Refusal) -> Problem {
    refused_by_cloudwatch(refusal).problem().clone()
}

/// Reads JSON that the API wrote into a type.
pub(crate) fn read<T: serde::de::DeserializeOwned>(parameter: &str, value: serde_json::Value) -> Outcome<T> {
    serde_json::from_value(value).map_err(|error| {
        // A refusal that was made while reading says its code itself.
        let text = error.to_string();
        let sentence = text.split_once("InvalidParameterValue: ").map_or(text.clone(), |(_, sentence)| sentence.to_string());
        to_problem(Refusal::new(headrace_cloudwatch::Code::InvalidParameterValue, parameter, format!("{parameter}: {sentence}")))
    })
}
