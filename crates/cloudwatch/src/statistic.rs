//! A set of values, and its statistics.

use crate::error::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Values of a period: their number, sum and extremes, and the values themselves where they are
/// known (a statistic set of PutMetricData does not have them).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: f64,
    /// Sum of the values.
    pub sum: f64,
    /// Least value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Values, each with the number of times that it occurred, in no order; None if they are not
    /// known.
    pub values: Option<Vec<(f64, f64)>>,
}

impl Distribution {
    /// Makes the distribution of one value.
    pub fn single(value: f64) -> Distribution {
        Distribution { count: 1.0, sum: value, min: value, max: value, values: Some(vec![(value, 1.0)]) }
    }

    /// Makes the distribution of values, each with how often it occurred; None for nothing at all.
    pub fn from_values(values: Vec<(f64, f64)>) -> Option<Distribution> {
        let count: f64 = values.iter().map(|(_, times)| times).sum();
        if values.is_empty() || count <= 0.0 {
            return None;
        }
        let occurred = || values.iter().filter(|(_, times)| *times > 0.0).map(|(value, _)| *value);
        let (min, max) = (occurred().fold(f64::INFINITY, f64::min), occurred().fold(f64::NEG_INFINITY, f64::max));
        Some(Distribution { count, sum: values.iter().map(|(value, times)| value * times).sum(), min, max, values: Some(values) })
    }

    /// Adds other values of the same period.
    pub fn add(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        match (&mut self.values, &other.values) {
            (Some(values), Some(more)) => values.extend(more),
            (values, _) => *values = None,
        }
    }

    /// Returns a statistic; None where it cannot be known: a percentile of a statistic set whose
    /// values differ (CloudWatch user guide, "Percentiles").
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::SampleCount => Some(self.count),
            Statistic::Sum => Some(self.sum),
            Statistic::Average => (self.count > 0.0).then(|| self.sum / self.count),
            Statistic::Minimum => Some(self.min),
            Statistic::Maximum => Some(self.max),
            Statistic::Percentile(percent) => self.percentile(percent),
            Statistic::TrimmedMean { low, high } => self.trimmed_mean(low, high),
        }
    }

    /// Returns the values that occurred in rising order; None where they are not known and differ.
    fn sorted(&self) -> Option<Vec<(f64, f64)>> {
        if self.min == self.max {
            return Some(vec![(self.min, self.count)]);
        }
        let mut values = self.values.clone()?;
        values.retain(|(_, times)| *times > 0.0);
        values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Some(values)
    }

    /// Returns the least value that at least `percent` (0 to 100) of the values do not exceed; None
    /// where the values are not known. CloudWatch does not say how it interpolates; that it takes
    /// one of the values is a guess.
    fn percentile(&self, percent: f64) -> Option<f64> {
        let values = self.sorted()?;
        let rank = self.count * percent / 100.0;
        let mut below = 0.0;
        for &(value, times) in &values {
            below += times;
            // Sums of fractions: a billionth of the count is rounding.
            if below >= rank - self.count * 1e-9 {
                return Some(value);
            }
        }
        values.last().map(|(value, _)| *value)
    }

    /// Returns the mean of the values between two percentiles, `low` and `high` in percent (0 to
    /// 100); a value at the border counts in part.
    fn trimmed_mean(&self, low: f64, high: f64) -> Option<f64> {
        let values = self.sorted()?;
        let (from, until) = (self.count * low / 100.0, self.count * high / 100.0);
        let (mut below, mut sum, mut count) = (0.0, 0.0, 0.0);
        for &(value, times) in &values {
            let counted = (until.min(below + times) - from.max(below)).max(0.0);
            sum += value * counted;
            count += counted;
            below += times;
        }
        (count > 0.0).then(|| sum / count)
    }
}

/// A statistic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Statistic {
    /// Number of values.
    SampleCount,
    /// Sum of the values.
    Sum,
    /// Mean of the values.
    Average,
    /// Least value.
    Minimum,
    /// Largest value.
    Maximum,
    /// A percentile, percent.
    Percentile(f64),
    /// The mean of the values between the percentiles `low` and `high`, percent.
    TrimmedMean {
        /// Percent.
        low: f64,
        /// Percent.
        high: f64,
    },
}

/// The five that GetMetricStatistics calls Statistics.
const SIMPLE: [(&str, Statistic); 5] = [
    ("SampleCount", Statistic::SampleCount),
    ("Average", Statistic::Average),
    ("Sum", Statistic::Sum),
    ("Minimum", Statistic::Minimum),
    ("Maximum", Statistic::Maximum),
];

/// Extended statistics of CloudWatch that the lab does not compute.
const NOT_SERVED: [&str; 7] = ["tc", "ts", "wm", "TC(", "TS(", "WM(", "PR("];

impl Statistic {
    /// Returns true for SampleCount, Average, Sum, Minimum and Maximum.
    pub fn is_simple(self) -> bool {
        SIMPLE.iter().any(|(_, simple)| *simple == self)
    }
}

/// Reads a number of percent, 0 to 100.
fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|percent| plain && (0.0..=100.0).contains(percent))
}

/// Reads a trimmed mean like `TM(10%:90%)`; a side that is not written is open.
fn range(text: &str) -> Option<Statistic> {
    let (low, high) = text.strip_prefix("TM(")?.strip_suffix(')')?.split_once(':')?;
    let side = |text: &str, open: f64| if text.is_empty() { Some(open) } else { number(text.strip_suffix('%')?) };
    let (low, high) = (side(low, 0.0)?, side(high, 100.0)?);
    (low < high).then_some(Statistic::TrimmedMean { low, high })
}

impl FromStr for Statistic {
    type Err = Refusal;

    /// Reads a statistic as CloudWatch writes it; every number is in percent, 0 to 100. `tm90` is
    /// the mean of the lowest 90 %, `TM(10%:90%)` the mean without the lowest and the highest 10 %.
    ///
    /// # Errors
    /// It is none, or one that the lab does not compute.
    fn from_str(text: &str) -> Result<Statistic, Refusal> {
        if let Some((_, simple)) = SIMPLE.iter().find(|(name, _)| *name == text) {
            return Ok(*simple);
        }
        if let Some(what) = NOT_SERVED.iter().find(|what| text.starts_with(**what)) {
            let what = what.trim_end_matches('(');
            return Err(Refusal::value("Stat", text, format_args!("the lab does not compute {what}; it has percentiles (p99), trimmed means (tm90) and IQM")));
        }
        let extended = match text {
            "IQM" => Some(Statistic::TrimmedMean { low: 25.0, high: 75.0 }),
            _ => text
                .strip_prefix("tm")
                .and_then(number)
                .filter(|high| *high > 0.0)
                .map(|high| Statistic::TrimmedMean { low: 0.0, high })
                .or_else(|| range(text))
                .or_else(|| text.strip_prefix('p').and_then(number).map(Statistic::Percentile)),
        };
        let rule = "it must be SampleCount, Average, Sum, Minimum, Maximum, a percentile like p99.9, a trimmed mean like tm90 or TM(10%:90%), or IQM";
        extended.ok_or_else(|| Refusal::value("Stat", text, rule))
    }
}

impl TryFrom<String> for Statistic {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Statistic, Refusal> {
        text.parse()
    }
}

impl From<Statistic> for String {
    fn from(statistic: Statistic) -> String {
        statistic.to_string()
    }
}

impl fmt::Display for Statistic {
    /// Writes the statistic as `from_str` reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::Percentile(percent) => write!(f, "p{percent}"),
            Statistic::TrimmedMean { low, high } if *low == 0.0 => write!(f, "tm{high}"),
            Statistic::TrimmedMean { low, high } => write!(f, "TM({low}%:{high}%)"),
            simple => f.write_str(SIMPLE.iter().find(|(_, statistic)| statistic == simple).map_or("", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_as_they_are_written() {
        for text in ["SampleCount", "Average", "Sum", "Minimum", "Maximum", "p99", "p99.9", "p0", "p100", "tm90", "TM(10%:90%)"] {
            assert_eq!(text.parse::<Statistic>().unwrap().to_string(), text);
        }
        assert_eq!("IQM".parse::<Statistic>().unwrap(), Statistic::TrimmedMean { low: 25.0, high: 75.0 });
        for text in ["", "average", "p", "p101", "p-1", "pinf", "p1e1", "tm0", "TM(90%:10%)", "TM(10:90)", "wm99", "PR(1:2)"] {
            let refusal = text.parse::<Statistic>().unwrap_err();
            assert!(refusal.message.contains(text), "{refusal}");
        }
    }

    #[test]
    fn a_hundred_values_have_the_statistics_of_a_schoolbook() {
        // 1 to 100 once each: sum n(n+1)/2, p99 the 99th, the mean of 26 to 75 is 50.5.
        let all = Distribution::from_values((1..=100).rev().map(|n| (f64::from(n), 1.0)).collect()).unwrap();
        let statistic = |text: &str| all.statistic(text.parse().unwrap()).unwrap();
        assert_eq!((statistic("SampleCount"), statistic("Sum"), statistic("Average")), (100.0, 5_050.0, 50.5));
        assert_eq!((statistic("Minimum"), statistic("Maximum")), (1.0, 100.0));
        assert_eq!((statistic("p50"), statistic("p99"), statistic("p99.5"), statistic("p0")), (50.0, 99.0, 100.0, 1.0));
        assert_eq!((statistic("IQM"), statistic("tm90")), (50.5, 45.5));
    }

    #[test]
    fn a_statistic_set_has_percentiles_only_where_all_values_are_equal() {
        let mut set = Distribution { count: 4.0, sum: 8.0, min: 2.0, max: 2.0, values: None };
        assert_eq!(set.statistic(Statistic::Percentile(99.0)), Some(2.0));
        set.add(&Distribution::single(3.0));
        assert_eq!(set.statistic(Statistic::Percentile(99.0)), None);
        assert_eq!(set.statistic(Statistic::Average), Some(11.0 / 5.0));
    }
}
