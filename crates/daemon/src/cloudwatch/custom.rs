//! Values of PutMetricData: in memory, with a log of lines from which a new daemon reads the newest
//! of them again.

use crate::line_log::LineLog;
use headrace_cloudwatch::{Code, Dimension, Distribution, MetricId, Refusal, Unit, MINUTE_S};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Most metrics, and values of all together: rules of the lab. A value takes some 100 bytes, so
/// all of them 20 MB.
pub const MAX_METRICS: usize = 1_000;
/// See [`MAX_METRICS`].
pub const MAX_VALUES: usize = 200_000;
/// Age up to which values are kept, s: 15 days, as CloudWatch keeps one-minute points.
pub const KEPT_S: i64 = 15 * 86_400;
/// Bytes of each of the log's two files.
const LOG_BYTES: u64 = 16 << 20;
/// Most data of a call, and values of a datum (API text of PutMetricData, botocore 1.43).
const MAX_DATA: usize = 1_000;
const MAX_DATUM_VALUES: usize = 150;
/// Values are within +-2^360 (the same text).
const MAX_MAGNITUDE: f64 = 2.348_542_582_773_833_2e108;
/// Largest distance of a timestamp from now into the past and into the future, s (the same text).
const OLDEST_S: i64 = 14 * 86_400;
const NEWEST_S: i64 = 2 * 3_600;

/// A MetricDatum of the API.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[allow(missing_docs)] // the members of MetricDatum
pub struct Datum {
    pub metric_name: String,
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
    #[serde(default)]
    pub timestamp: Option<f64>,
    #[serde(default)]
    pub value: Option<f64>,
    #[serde(default)]
    pub statistic_values: Option<StatisticSet>,
    #[serde(default)]
    pub values: Option<Vec<f64>>,
    #[serde(default)]
    pub counts: Option<Vec<f64>>,
    #[serde(default)]
    pub unit: Option<Unit>,
    #[serde(default)]
    pub storage_resolution: Option<u32>,
}

/// A StatisticSet of the API.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[allow(missing_docs)] // the members of StatisticSet
pub struct StatisticSet {
    pub sample_count: f64,
    pub sum: f64,
    pub minimum: f64,
    pub maximum: f64,
}

/// A datum that was checked, as it is stored and logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredDatum {
    namespace: String,
    name: String,
    dimensions: BTreeMap<String, String>,
    t_s: i64,
    unit: Unit,
    distribution: Distribution,
}

fn in_range(value: f64) -> bool {
    value.is_finite() && value.abs() <= MAX_MAGNITUDE
}

impl Datum {
    /// Checks a datum, and returns it with its time rounded down to its resolution. `number` is its
    /// index in the call, for the refusal.
    fn check(self, namespace: &str, number: usize, now_s: i64) -> Result<StoredDatum, Refusal> {
        let member = |name: &str| format!("MetricData.member.{}.{name}", number + 1);
        let id = MetricId::new(namespace, &self.metric_name, &self.dimensions)?;
        let asked_s = self.timestamp.map_or(now_s, |t_s| t_s.floor() as i64);
        if !self.timestamp.unwrap_or(0.0).is_finite() || !(now_s - OLDEST_S..=now_s + NEWEST_S).contains(&asked_s) {
            let sentence = format!("The parameter {} must specify a time no more than two weeks in the past and two hours in the future.", member("Timestamp"));
            return Err(Refusal::new(Code::InvalidParameterValue, asked_s.to_string(), sentence));
        }
        let step_s = match self.storage_resolution {
            None | Some(60) => MINUTE_S,
            Some(1) => 1,
            Some(other) => return Err(Refusal::value(&member("StorageResolution"), other, "it must be 1 or 60")),
        };
        let (unit, t_s) = (self.unit.unwrap_or(Unit::NONE), asked_s - asked_s.rem_euclid(step_s));
        let distribution = self.into_distribution(member)?;
        Ok(StoredDatum { namespace: id.namespace, name: id.name, dimensions: id.dimensions, t_s, unit, distribution })
    }

    /// Returns the values of a datum: those of Value, of Values with their Counts, or of
    /// StatisticValues.
    fn into_distribution(self, member: impl Fn(&str) -> String) -> Result<Distribution, Refusal> {
        let given = [self.value.is_some(), self.values.is_some(), self.statistic_values.is_some()].iter().filter(|given| **given).count();
        if given > 1 {
            let sentence = format!("The parameters {}, {} and {} exclude each other.", member("Value"), member("Values"), member("StatisticValues"));
            return Err(Refusal::new(Code::InvalidParameterCombination, given.to_string(), sentence));
        }
        if self.counts.is_some() && self.values.is_none() {
            let sentence = format!("The parameter {} needs {}.", member("Counts"), member("Values"));
            return Err(Refusal::new(Code::InvalidParameterCombination, "Counts", sentence));
        }
        let range = "it must be a number in the range of -2^360 to 2^360";
        if let Some(set) = self.statistic_values {
            let all = [set.sample_count, set.sum, set.minimum, set.maximum];
            if let Some(wrong) = all.into_iter().find(|value| !in_range(*value)) {
                return Err(Refusal::value(&member("StatisticValues"), wrong, range));
            }
            if set.sample_count <= 0.0 || set.minimum > set.maximum {
                let rule = "SampleCount must be greater than 0, and Minimum at most Maximum";
                return Err(Refusal::value(&member("StatisticValues"), set.sample_count, rule));
            }
            return Ok(Distribution { count: set.sample_count, sum: set.sum, min: set.minimum, max: set.maximum, values: None });
        }
        let values = match (self.value, self.values) {
            (Some(value), _) => vec![value],
            (None, Some(values)) => values,
            (None, None) => return Err(Refusal::missing(&member("Value"))),
        };
        let counts = self.counts.unwrap_or_else(|| vec![1.0; values.len()]);
        if values.len() > MAX_DATUM_VALUES || values.len() != counts.len() {
            let rule = format!("a datum has at most {MAX_DATUM_VALUES} Values, and as many Counts");
            return Err(Refusal::value(&member("Values"), values.len(), rule));
        }
        if let Some(wrong) = values.iter().chain(&counts).find(|value| !in_range(**value)) {
            return Err(Refusal::value(&member("Value"), wrong, range));
        }
        if counts.iter().any(|count| *count < 0.0) {
            return Err(Refusal::value(&member("Counts"), "a negative number", "a count is 0 or greater"));
        }
        let none = || Refusal::value(&member("Values"), "nothing", "at least one value must have a count above 0");
        Distribution::from_values(values.into_iter().zip(counts).collect()).ok_or_else(none)
    }
}

type Values = BTreeMap<(i64, Unit), Distribution>;

/// The metrics that were put.
pub struct Custom {
    log: LineLog,
    metrics: BTreeMap<MetricId, Values>,
    values: usize,
}

fn count_values(distribution: &Distribution) -> usize {
    distribution.values.as_ref().map_or(1, Vec::len)
}

impl Custom {
    /// Opens the log of a lab and reads its values.
    ///
    /// # Errors
    /// An [`io::Error`] if the files of the log cannot be read.
    pub fn open(folder: &Path, now_s: i64) -> io::Result<Custom> {
        let (log, lines) = LineLog::open(&folder.join("custom-metrics"), LOG_BYTES)?;
        let mut custom = Custom { log, metrics: BTreeMap::new(), values: 0 };
        for line in lines {
            let read: Vec<StoredDatum> = serde_json::from_str(&line).unwrap_or_default();
            read.into_iter().filter(|datum| datum.t_s > now_s - KEPT_S).for_each(|datum| custom.add(datum));
        }
        Ok(custom)
    }

    /// Adds values: all of them, or none.
    ///
    /// # Errors
    /// The refusal of the first datum that is not valid, or of too many metrics.
    pub fn put(&mut self, namespace: &str, data: Vec<Datum>, now_s: i64) -> Result<(), Refusal> {
        if namespace.starts_with("AWS/") {
            let sentence = format!("The value {namespace} for parameter Namespace is invalid: namespaces that begin with AWS/ belong to AWS.");
            return Err(Refusal::new(Code::InvalidParameterValue, namespace, sentence));
        }
        if data.is_empty() {
            return Err(Refusal::missing("MetricData"));
        }
        if data.len() > MAX_DATA {
            return Err(Refusal::value("MetricData", data.len(), format_args!("a call has at most {MAX_DATA} data")));
        }
        let stored: Vec<StoredDatum> = data.into_iter().enumerate().map(|(number, datum)| datum.check(namespace, number, now_s)).collect::<Result<_, _>>()?;
        self.forget(now_s);
        let new: std::collections::BTreeSet<MetricId> = stored.iter().map(StoredDatum::id).filter(|id| !self.metrics.contains_key(id)).collect();
        if self.metrics.len() + new.len() > MAX_METRICS {
            let sentence = format!("The lab keeps at most {MAX_METRICS} metrics of your own, and would have {}.", self.metrics.len() + new.len());
            return Err(Refusal::new(Code::LimitExceeded, namespace, sentence));
        }
        let line = serde_json::to_string(&stored).unwrap_or_default();
        if let Err(error) = self.log.append(&line) {
            tracing::warn!("values of metrics are kept in memory only: {error}");
        }
        stored.into_iter().for_each(|datum| self.add(datum));
        Ok(())
    }

    /// Adds a datum to the values of its metric, and drops the oldest values where there are too
    /// many.
    fn add(&mut self, datum: StoredDatum) {
        self.values += count_values(&datum.distribution);
        let id = datum.id();
        let values = self.metrics.entry(id).or_default();
        values.entry((datum.t_s, datum.unit)).and_modify(|sum| sum.add(&datum.distribution)).or_insert(datum.distribution);
        if self.values > MAX_VALUES {
            self.make_room();
        }
    }

    /// Drops the oldest tenth of all metrics' values.
    fn make_room(&mut self) {
        let mut ages: Vec<(i64, usize)> =
            self.metrics.values().flat_map(|values| values.iter().map(|((t_s, _), distribution)| (*t_s, count_values(distribution)))).collect();
        ages.sort_unstable();
        let mut freed = 0;
        let oldest = ages.iter().find(|(_, many)| {
            freed += many;
            freed >= MAX_VALUES / 10
        });
        self.drop_before(oldest.map_or(i64::MAX, |(t_s, _)| t_s + 1));
    }

    fn drop_before(&mut self, t_s: i64) {
        self.metrics.values_mut().for_each(|values| *values = values.split_off(&(t_s, Unit::LEAST)));
        self.metrics.retain(|_, values| !values.is_empty());
        self.values = self.metrics.values().flat_map(BTreeMap::values).map(count_values).sum();
    }

    /// Drops values older than KEPT_S, where there are any.
    fn forget(&mut self, now_s: i64) {
        let oldest = now_s - KEPT_S;
        if self.metrics.values().any(|values| values.keys().next().is_some_and(|(t_s, _)| *t_s < oldest)) {
            self.drop_before(oldest);
        }
    }

    /// Returns the metrics, each with the time of its newest value.
    pub fn metrics(&self) -> impl Iterator<Item = (&MetricId, i64)> {
        self.metrics.iter().filter_map(|(id, values)| Some((id, values.keys().next_back()?.0)))
    }

    /// Returns the values of a metric from `start_s` to before `end_s`.
    pub fn values(&self, id: &MetricId, start_s: i64, end_s: i64) -> Vec<(i64, Unit, Distribution)> {
        let Some(values) = self.metrics.get(id) else { return Vec::new() };
        let range = values.range((start_s, Unit::LEAST)..(end_s.max(start_s), Unit::LEAST));
        range.map(|((t_s, unit), distribution)| (*t_s, *unit, distribution.clone())).collect()
    }
}

impl StoredDatum {
    fn id(&self) -> MetricId {
        MetricId { namespace: self.namespace.clone(), name: self.name.clone(), dimensions: self.dimensions.clone() }
    }
}
