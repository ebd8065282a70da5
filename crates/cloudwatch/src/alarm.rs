//! Definition of an alarm, and its state by its points.
//!
//! Rules are those of the CloudWatch user guide, "Configuring how CloudWatch alarms treat missing
//! data" and "Alarm evaluation" (read 2026-08). The guide's two tables of examples are the tests.

use crate::error::{Code, Refusal};
use crate::metric::{Dimension, Unit};
use crate::query::{self, MetricSpec, MetricStat, Query};
use crate::series::{check_period, Points, MINUTE_S};
use crate::statistic::Statistic;
use serde::{Deserialize, Serialize};

/// Longest time that an alarm looks back, s: with periods below an hour, and with longer ones (API
/// text of PutMetricAlarm, botocore 1.43).
const MOST_RANGE_OF_SHORT_PERIODS_S: u64 = 86_400;
const MOST_RANGE_S: u64 = 604_800;
/// Shortest period, s, with which an alarm looks back for longer than a day.
const LONG_PERIOD_S: u32 = 3_600;
/// Longest name and description, characters (service model, 2010-08-01).
const MAX_NAME_CHARS: usize = 255;
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Most actions for a state (service model, 2010-08-01).
const MAX_ACTIONS: usize = 5;
/// Most metrics and expressions of a math alarm (API text of PutMetricAlarm).
const MAX_ALARM_QUERIES: usize = 20;
/// Periods that an alarm asks for beyond those it evaluates. The guide's examples ask for 5 where
/// 3 are evaluated, and say that the number depends on the alarm: the same everywhere is a guess.
pub const EXTRA_PERIODS: u32 = 2;

/// The state of an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The points do not breach.
    #[serde(rename = "OK")]
    Ok,
    /// Breaching.
    #[serde(rename = "ALARM")]
    Alarm,
    /// The state is not known.
    #[default]
    #[serde(rename = "INSUFFICIENT_DATA")]
    InsufficientData,
}

impl State {
    /// Returns the name that the API writes.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Ok => "OK",
            State::Alarm => "ALARM",
            State::InsufficientData => "INSUFFICIENT_DATA",
        }
    }

    /// Reads a state as the API writes it.
    ///
    /// # Errors
    /// It is none of the three.
    pub fn read(text: &str) -> Result<State, Refusal> {
        let all = [State::Ok, State::Alarm, State::InsufficientData];
        let state = all.into_iter().find(|state| state.as_str() == text);
        state.ok_or_else(|| Refusal::value("StateValue", text, "it must be OK, ALARM or INSUFFICIENT_DATA"))
    }
}

/// Comparison of a point with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub enum Comparison {
    GreaterThanOrEqualToThreshold,
    GreaterThanThreshold,
    LessThanThreshold,
    LessThanOrEqualToThreshold,
}

impl Comparison {
    /// Returns true if a value breaches.
    pub fn breaches(self, value: f64, threshold: f64) -> bool {
        match self {
            Comparison::GreaterThanOrEqualToThreshold => value >= threshold,
            Comparison::GreaterThanThreshold => value > threshold,
            Comparison::LessThanThreshold => value < threshold,
            Comparison::LessThanOrEqualToThreshold => value <= threshold,
        }
    }

    /// Returns the comparison as the reason of a state words it.
    fn wording(self) -> &'static str {
        match self {
            Comparison::GreaterThanOrEqualToThreshold => "greater than or equal to",
            Comparison::GreaterThanThreshold => "greater than",
            Comparison::LessThanThreshold => "less than",
            Comparison::LessThanOrEqualToThreshold => "less than or equal to",
        }
    }
}

/// Treatment of a period without a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Missing {
    /// The period does not count.
    #[default]
    Missing,
    /// The period counts as a point that does not breach.
    NotBreaching,
    /// The period counts as a point that breaches.
    Breaching,
    /// The state stays as it is.
    Ignore,
}

/// Behaviour of an alarm on a percentile with too few values for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LowSamples {
    /// The percentile of the few values is compared with the threshold.
    Evaluate,
    /// The state stays as it is.
    Ignore,
}

/// Values that lie beyond a percentile at least, so that it says something: below 10 / (1 - p), or
/// 10 / p for p under a half, there are too few (CloudWatch user guide, "Percentile-based
/// CloudWatch alarms and low data samples").
const LEAST_BEYOND: f64 = 10.0;

/// An alarm on a metric or an expression. Members have the API's names; this is also what the
/// journal keeps, so none is renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[allow(missing_docs)] // the members of PutMetricAlarm
pub struct AlarmSpec {
    pub alarm_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_description: Option<String>,
    #[serde(default = "enabled")]
    pub actions_enabled: bool,
    #[serde(default, rename = "OKActions")]
    pub ok_actions: Vec<String>,
    #[serde(default)]
    pub alarm_actions: Vec<String>,
    #[serde(default)]
    pub insufficient_data_actions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_statistic: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<Dimension>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    pub evaluation_periods: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapoints_to_alarm: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    pub comparison_operator: Comparison,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treat_missing_data: Option<Missing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_low_sample_count_percentile: Option<LowSamples>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Query>,
}

fn enabled() -> bool {
    true
}

impl AlarmSpec {
    /// Checks the whole definition.
    ///
    /// # Errors
    /// The refusal of the rule that it breaks, with CloudWatch's code.
    pub fn check(&self) -> Result<(), Refusal> {
        check_text("AlarmName", &self.alarm_name, 1, MAX_NAME_CHARS)?;
        check_text("AlarmDescription", self.alarm_description.as_deref().unwrap_or(""), 0, MAX_DESCRIPTION_CHARS)?;
        for (name, actions) in
            [("OKActions", &self.ok_actions), ("AlarmActions", &self.alarm_actions), ("InsufficientDataActions", &self.insufficient_data_actions)]
        {
            if actions.len() > MAX_ACTIONS {
                return Err(Refusal::value(name, actions.len(), format_args!("a state has at most {MAX_ACTIONS} actions")));
            }
        }
        if self.evaluation_periods == 0 {
            return Err(Refusal::value("EvaluationPeriods", 0, "it must be at least 1"));
        }
        if let Some(points) = self.datapoints_to_alarm.filter(|points| !(1..=self.evaluation_periods).contains(points)) {
            return Err(Refusal::value("DatapointsToAlarm", points, format_args!("it must be 1 to EvaluationPeriods ({})", self.evaluation_periods)));
        }
        let threshold = self.threshold.ok_or_else(|| Refusal::missing("Threshold"))?;
        if !threshold.is_finite() {
            return Err(Refusal::value("Threshold", threshold, "it must be a finite number"));
        }
        let queries = self.queries()?;
        query::check(&queries)?;
        let returned = queries.iter().filter(|query| query.is_returned()).count();
        if returned != 1 {
            return Err(Refusal::validation(returned.to_string(), format!("Exactly one element of Metrics must have ReturnData true, and {returned} have.")));
        }
        self.check_range(&queries)
    }

    /// Checks the period of the evaluation, and that an alarm may look back for as long as all its
    /// periods take. Periods that no metric has (45 or 90 s) were refused before, by
    /// [`check_period`]; of those that metrics have, an alarm takes no 1 and no 5 s.
    fn check_range(&self, queries: &[Query]) -> Result<(), Refusal> {
        let period_s = self.period_s(queries);
        if i64::from(period_s) < MINUTE_S && period_s != 10 && period_s != 20 && period_s != 30 {
            return Err(Refusal::value("Period", period_s, "the period of an alarm is 10, 20, 30 or a multiple of 60 s"));
        }
        let range_s = u64::from(period_s) * u64::from(self.evaluation_periods);
        let most_s = if period_s < LONG_PERIOD_S { MOST_RANGE_OF_SHORT_PERIODS_S } else { MOST_RANGE_S };
        if range_s > most_s {
            let sentence = format!(
                "Metrics cannot be checked across more than {most_s} s: EvaluationPeriods ({}) x Period ({period_s}) is {range_s} s.",
                self.evaluation_periods
            );
            return Err(Refusal::validation(range_s.to_string(), sentence));
        }
        Ok(())
    }

    /// Returns the metrics and expressions it evaluates; one of them is returned.
    ///
    /// # Errors
    /// It has a metric and expressions, or neither.
    pub fn queries(&self) -> Result<Vec<Query>, Refusal> {
        let alone = [self.metric_name.is_some(), self.namespace.is_some(), self.statistic.is_some(), self.extended_statistic.is_some(), self.period.is_some()];
        let alone = alone.contains(&true) || !self.dimensions.is_empty() || self.unit.is_some();
        if !self.metrics.is_empty() {
            if alone {
                let sentence = "An alarm with Metrics has no MetricName, Namespace, Dimensions, Period, Unit, Statistic or ExtendedStatistic.";
                return Err(Refusal::new(Code::InvalidParameterCombination, "Metrics", sentence));
            }
            if self.metrics.len() > MAX_ALARM_QUERIES {
                return Err(Refusal::value("Metrics", self.metrics.len(), format_args!("an alarm has at most {MAX_ALARM_QUERIES} of them")));
            }
            return Ok(self.metrics.clone());
        }
        let metric_name = self.metric_name.clone().ok_or_else(|| Refusal::missing("MetricName"))?;
        let namespace = self.namespace.clone().ok_or_else(|| Refusal::missing("Namespace"))?;
        let stat = match (&self.statistic, &self.extended_statistic) {
            (Some(simple), None) if simple.parse().is_ok_and(crate::statistic::Statistic::is_simple) => simple.clone(),
            (Some(other), None) => return Err(Refusal::value("Statistic", other, "it must be SampleCount, Average, Sum, Minimum or Maximum")),
            (None, Some(extended)) => extended.clone(),
            _ => {
                let sentence = "An alarm on a metric has either Statistic or ExtendedStatistic.";
                return Err(Refusal::new(Code::InvalidParameterCombination, "Statistic", sentence));
            }
        };
        let metric = MetricSpec { namespace, metric_name, dimensions: self.dimensions.clone() };
        let period = self.period.ok_or_else(|| Refusal::missing("Period"))?;
        check_period(period)?;
        let metric_stat = Some(MetricStat { metric, period, stat, unit: self.unit });
        Ok(vec![Query { id: "m1".to_string(), metric_stat, ..Query::default() }])
    }

    /// Returns the period of the evaluation, s: the longest of its metrics.
    pub fn period_s(&self, queries: &[Query]) -> u32 {
        let periods = queries.iter().filter_map(|query| query.metric_stat.as_ref().map(|stat| stat.period).or(query.period));
        periods.max().unwrap_or(MINUTE_S as u32)
    }

    /// Returns the number of values that the evaluated periods must have together, and the query
    /// that counts them; None where any number of values is evaluated. It is the rule of alarms on
    /// a percentile of one metric: for any other alarm the parameter has no effect.
    pub fn least_samples(&self) -> Option<(f64, Query)> {
        if self.evaluate_low_sample_count_percentile != Some(LowSamples::Ignore) || !self.metrics.is_empty() {
            return None;
        }
        let Ok(Statistic::Percentile(percent)) = self.extended_statistic.as_ref()?.parse() else { return None };
        let mut counted = self.queries().ok()?.pop()?;
        counted.metric_stat.as_mut()?.stat = "SampleCount".to_string();
        let beyond = percent.min(100.0 - percent) / 100.0;
        Some((LEAST_BEYOND / beyond, counted))
    }

    /// Returns the number of breaching points that make an alarm.
    pub fn to_alarm(&self) -> u32 {
        self.datapoints_to_alarm.unwrap_or(self.evaluation_periods)
    }

    /// Returns the actions of a state.
    pub fn actions(&self, state: State) -> &[String] {
        match state {
            State::Ok => &self.ok_actions,
            State::Alarm => &self.alarm_actions,
            State::InsufficientData => &self.insufficient_data_actions,
        }
    }
}

/// Checks that a text has `least` to `most` characters, all printable.
fn check_text(name: &str, text: &str, least: usize, most: usize) -> Result<(), Refusal> {
    let chars = text.chars().count();
    if (least..=most).contains(&chars) && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Ok(());
    }
    let excerpt: String = text.chars().take(40).collect();
    Err(Refusal::value(name, format_args!("{excerpt:?}"), format_args!("it must have {least} to {most} printable characters")))
}

/// Part of an alarm's definition that its evaluation needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Periods that are evaluated.
    pub periods: u32,
    /// Breaching points of them that make an alarm.
    pub to_alarm: u32,
    /// Comparison.
    pub comparison: Comparison,
    /// Threshold.
    pub threshold: f64,
    /// Treatment of a missing point.
    pub missing: Missing,
}

impl Rule {
    /// Takes the rule from an alarm's definition.
    pub fn from_spec(spec: &AlarmSpec) -> Rule {
        Rule {
            periods: spec.evaluation_periods,
            to_alarm: spec.to_alarm(),
            comparison: spec.comparison_operator,
            threshold: spec.threshold.unwrap_or_default(),
            missing: spec.treat_missing_data.unwrap_or_default(),
        }
    }

    /// Returns the state by the points of the evaluation range, from its oldest period to its
    /// newest; None if the state stays.
    pub fn state(&self, range: &[Option<f64>]) -> Option<State> {
        let breaching = |value: f64| self.comparison.breaches(value, self.threshold);
        let verdict = |many: u32| if many >= self.to_alarm { State::Alarm } else { State::Ok };
        let real: Vec<f64> = range.iter().flatten().copied().collect();
        // With points enough, the newest are evaluated and gaps between them do not matter.
        if real.len() >= self.periods as usize {
            let newest = &real[real.len() - self.periods as usize..];
            return Some(verdict(newest.iter().filter(|value| breaching(**value)).count() as u32));
        }
        let many = real.iter().filter(|value| breaching(**value)).count() as u32;
        let filled = self.periods - real.len() as u32;
        match self.missing {
            Missing::Breaching => Some(verdict(many + filled)),
            Missing::NotBreaching => Some(verdict(many)),
            _ if many >= self.to_alarm => Some(State::Alarm),
            _ if (many as usize) < real.len() => Some(State::Ok),
            Missing::Ignore => None,
            // Every point there is breaches, but there are too few. The oldest decides whether that
            // would be premature: since it was seen, as many periods passed as make an alarm.
            Missing::Missing => {
                let age = range.iter().position(Option::is_some).map_or(0, |oldest| range.len() - oldest);
                Some(if age >= self.to_alarm as usize && many > 0 { State::Alarm } else { State::InsufficientData })
            }
        }
    }

    /// Returns the reason of a state, in CloudWatch's words.
    pub fn reason(&self, range: &[Option<f64>], state: State) -> String {
        let real: Vec<f64> = range.iter().rev().flatten().copied().take(self.periods as usize).collect();
        if real.is_empty() || state == State::InsufficientData {
            return match state {
                State::InsufficientData => "Insufficient Data: too few datapoints to evaluate the alarm.".to_string(),
                _ => format!("Threshold Crossed: no datapoints were received for {} periods and missing datapoints count by TreatMissingData.", self.periods),
            };
        }
        let crosses = |value: f64| self.comparison.breaches(value, self.threshold) == (state == State::Alarm);
        let crossing: Vec<String> = real.iter().filter(|value| crosses(**value)).map(ToString::to_string).collect();
        let (many, not) = (crossing.len(), if state == State::Alarm { "" } else { "not " });
        let were = if many == 1 { "was" } else { "were" };
        let listed = crossing.into_iter().take(MAX_SHOWN).collect::<Vec<_>>().join(", ");
        format!(
            "Threshold Crossed: {many} out of the last {} datapoints [{listed}] {were} {not}{} the threshold ({}) (minimum {} datapoint{} for {} transition).",
            self.periods,
            self.comparison.wording(),
            self.threshold,
            self.to_alarm,
            if self.to_alarm == 1 { "" } else { "s" },
            if state == State::Alarm { "OK -> ALARM" } else { "ALARM -> OK" }
        )
    }
}

/// Values that a reason shows: a reason has at most 1,023 characters.
const MAX_SHOWN: usize = 5;

/// Returns the evaluation range as points, from the oldest period to the newest: `periods` of them
/// before `end_s`.
pub fn range(points: &Points, end_s: i64, period_s: u32, periods: u32) -> Vec<Option<f64>> {
    (1..=i64::from(periods)).rev().map(|back| points.get(&(end_s - back * i64::from(period_s))).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the states of points by each treatment: `0` does not breach, `X` does, `-` is
    /// missing; the newest is the last.
    fn states(drawn: &str, to_alarm: u32) -> [Option<State>; 4] {
        let range: Vec<Option<f64>> = drawn.split(' ').map(|point| (point != "-").then(|| f64::from(u8::from(point == "X")))).collect();
        [Missing::Missing, Missing::Ignore, Missing::Breaching, Missing::NotBreaching].map(|missing| {
            let rule = Rule { periods: 3, to_alarm, comparison: Comparison::GreaterThanThreshold, threshold: 0.5, missing };
            rule.state(&range)
        })
    }

    const ALARM: Option<State> = Some(State::Alarm);
    const OK: Option<State> = Some(State::Ok);
    const NOT_KNOWN: Option<State> = Some(State::InsufficientData);
    const KEPT: Option<State> = None;

    /// CloudWatch user guide, "How alarm state is evaluated when data is missing": the table for 3
    /// out of 3.
    #[test]
    fn the_table_of_the_guide_for_three_of_three() {
        assert_eq!(states("0 - X - X", 3), [OK, OK, OK, OK]);
        assert_eq!(states("0 - - - -", 3), [OK, OK, OK, OK]);
        assert_eq!(states("- - - - -", 3), [NOT_KNOWN, KEPT, ALARM, OK]);
        assert_eq!(states("0 X X - X", 3), [ALARM, ALARM, ALARM, ALARM]);
        assert_eq!(states("- - X - -", 3), [ALARM, KEPT, ALARM, OK]);
    }

    /// The table for 2 out of 3, of that page.
    #[test]
    fn the_table_of_the_guide_for_two_of_three() {
        assert_eq!(states("0 - X - X", 2), [ALARM, ALARM, ALARM, ALARM]);
        assert_eq!(states("0 0 X 0 X", 2), [ALARM, ALARM, ALARM, ALARM]);
        assert_eq!(states("0 - X - -", 2), [OK, OK, ALARM, OK]);
        assert_eq!(states("- - - - 0", 2), [OK, OK, ALARM, OK]);
        assert_eq!(states("- - - X -", 2), [ALARM, KEPT, ALARM, OK]);
    }

    /// An alarm is not raised while the breaching point is younger than the points that make an
    /// alarm (that page).
    #[test]
    fn one_young_point_is_no_alarm() {
        assert_eq!(states("- - - - X", 3), [NOT_KNOWN, KEPT, ALARM, OK]);
        assert_eq!(states("- - - X -", 3), [NOT_KNOWN, KEPT, ALARM, OK]);
    }

    fn spec(statistic: &str, samples: &str) -> AlarmSpec {
        let spec = serde_json::json!({
            "AlarmName": "a", "Namespace": "n", "MetricName": "m", "ExtendedStatistic": statistic, "Period": 60, "EvaluationPeriods": 1,
            "Threshold": 1.0, "ComparisonOperator": "GreaterThanThreshold", "EvaluateLowSampleCountPercentile": samples,
        });
        serde_json::from_value(spec).unwrap()
    }

    /// CloudWatch user guide, "Percentile-based CloudWatch alarms and low data samples": fewer
    /// than 1,000 samples for p99, and 10 / p below p50.
    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        let least = |statistic: &str, samples: &str| spec(statistic, samples).least_samples().map(|(least, _)| least.round());
        assert_eq!(least("p99", "ignore"), Some(1_000.0));
        assert_eq!(least("p90", "ignore"), Some(100.0));
        assert_eq!(least("p50", "ignore"), Some(20.0));
        assert_eq!(least("p10", "ignore"), Some(100.0));
        assert_eq!(least("p99", "evaluate"), None);
        assert_eq!(least("tm99", "ignore"), None);
        let (_, counted) = spec("p99", "ignore").least_samples().unwrap();
        assert_eq!(counted.metric_stat.unwrap().stat, "SampleCount");
    }

    #[test]
    fn the_reason_names_points_threshold_and_rule() {
        let rule = Rule { periods: 3, to_alarm: 2, comparison: Comparison::GreaterThanThreshold, threshold: 5.0, missing: Missing::Missing };
        let sentence = rule.reason(&[Some(1.0), Some(7.5), Some(9.0)], State::Alarm);
        assert_eq!(
            sentence,
            "Threshold Crossed: 2 out of the last 3 datapoints [9, 7.5] were greater than the threshold (5) (minimum 2 datapoints for OK -> ALARM transition)."
        );
        assert!(rule.reason(&[None, None], State::InsufficientData).starts_with("Insufficient Data"));
    }
}
