//! Names of metrics.

use crate::error::Refusal;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Most dimensions of a metric (CloudWatch quotas, 2026).
pub const MAX_DIMENSIONS: usize = 30;
/// Longest namespace, name of a metric or of a dimension, characters (service model, 2010-08-01).
pub const MAX_NAME_CHARS: usize = 255;
/// Longest value of a dimension, characters (service model, 2010-08-01).
const MAX_VALUE_CHARS: usize = 1_024;

/// The units of the service model, in its order.
pub const UNITS: [&str; 27] = [
    "Seconds",
    "Microseconds",
    "Milliseconds",
    "Bytes",
    "Kilobytes",
    "Megabytes",
    "Gigabytes",
    "Terabytes",
    "Bits",
    "Kilobits",
    "Megabits",
    "Gigabits",
    "Terabits",
    "Percent",
    "Count",
    "Bytes/Second",
    "Kilobytes/Second",
    "Megabytes/Second",
    "Gigabytes/Second",
    "Terabytes/Second",
    "Bits/Second",
    "Kilobits/Second",
    "Megabits/Second",
    "Gigabits/Second",
    "Terabits/Second",
    "Count/Second",
    "None",
];

/// A unit of the service model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Unit(&'static str);

impl Unit {
    /// Sorts before every unit: the lower end of a range.
    pub const LEAST: Unit = Unit("");
    /// No unit.
    pub const NONE: Unit = Unit("None");
    /// Number of things.
    pub const COUNT: Unit = Unit("Count");
    /// Bytes.
    pub const BYTES: Unit = Unit("Bytes");
    /// Seconds.
    pub const SECONDS: Unit = Unit("Seconds");
    /// Milliseconds.
    pub const MILLISECONDS: Unit = Unit("Milliseconds");
    /// Percent.
    pub const PERCENT: Unit = Unit("Percent");
    /// Operations a second.
    pub const COUNT_PER_SECOND: Unit = Unit("Count/Second");
    /// KiB a second.
    pub const KILOBYTES_PER_SECOND: Unit = Unit("Kilobytes/Second");

    /// Returns the text of the unit.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unit, D::Error> {
        Unit::try_from(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<String> for Unit {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Unit, Refusal> {
        let unit = UNITS.iter().find(|unit| **unit == text).copied();
        unit.map(Unit).ok_or_else(|| Refusal::value("Unit", &text, format_args!("it must be one of {}", UNITS.join(", "))))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A dimension as the API writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Dimension {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// The name of a metric: namespace, name and dimensions together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricId {
    /// Namespace, like `AWS/EBS`.
    pub namespace: String,
    /// Name, like `VolumeReadOps`.
    pub name: String,
    /// Dimensions by name.
    pub dimensions: BTreeMap<String, String>,
}

impl MetricId {
    /// Makes a metric with dimensions as the API writes them.
    ///
    /// # Errors
    /// A name that is too long or not allowed; a dimension that is named twice.
    pub fn new(namespace: &str, name: &str, dimensions: &[Dimension]) -> Result<MetricId, Refusal> {
        check_name("Namespace", namespace)?;
        if namespace.starts_with(':') {
            return Err(Refusal::value("Namespace", namespace, "it must not begin with a colon"));
        }
        check_name("MetricName", name)?;
        if dimensions.len() > MAX_DIMENSIONS {
            return Err(Refusal::value("Dimensions", dimensions.len(), format_args!("a metric has at most {MAX_DIMENSIONS} dimensions")));
        }
        let mut values = BTreeMap::new();
        for Dimension { name, value } in dimensions {
            check_name("Dimensions.Name", name)?;
            let chars = value.chars().count();
            if !(1..=MAX_VALUE_CHARS).contains(&chars) {
                let rule = format!("the value of a dimension has 1 to {MAX_VALUE_CHARS} characters, this one {chars}");
                return Err(Refusal::value("Dimensions.Value", value, rule));
            }
            if values.insert(name.clone(), value.clone()).is_some() {
                return Err(Refusal::value("Dimensions", name, "a dimension is named once"));
            }
        }
        Ok(MetricId { namespace: namespace.to_string(), name: name.to_string(), dimensions: values })
    }

    /// Returns a metric with one dimension.
    pub fn with_dimension(namespace: &str, name: &str, dimension: &str, value: &str) -> MetricId {
        let dimensions = BTreeMap::from([(dimension.to_string(), value.to_string())]);
        MetricId { namespace: namespace.to_string(), name: name.to_string(), dimensions }
    }

    /// Returns the dimensions as the API writes them.
    pub fn dimension_list(&self) -> Vec<Dimension> {
        self.dimensions.iter().map(|(name, value)| Dimension { name: name.clone(), value: value.clone() }).collect()
    }
}

/// Checks the name of a namespace, metric or dimension: 1 to 255 printable characters.
///
/// # Errors
/// It is empty, too long, or has control characters.
pub fn check_name(parameter: &str, name: &str) -> Result<(), Refusal> {
    let chars = name.chars().count();
    if !(1..=MAX_NAME_CHARS).contains(&chars) {
        let excerpt: String = name.chars().take(40).collect();
        return Err(Refusal::value(parameter, excerpt, format_args!("it has {chars} characters, and 1 to {MAX_NAME_CHARS} are allowed")));
    }
    if name.chars().any(char::is_control) || name.trim().is_empty() {
        return Err(Refusal::value(parameter, format_args!("{name:?}"), "it must have printable characters only, and not only spaces"));
    }
    Ok(())
}
