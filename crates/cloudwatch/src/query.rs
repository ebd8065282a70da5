//! GetMetricData: metrics and expressions that refer to each other by id. Members have the API's
//! names, so that a request is read as it was sent.

use crate::error::{Code, Refusal};
use crate::math::{self, Budget, Context, Expr, Series, Value};
use crate::metric::{Dimension, MetricId, Unit};
use crate::series::{check_period, has_points, rounded_start, Points, Window};
use crate::statistic::Statistic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most queries of a request (API text of GetMetricData, botocore 1.43).
pub const MAX_QUERIES: usize = 500;
/// Most periods of a query: the points that an answer has at most (API text of GetMetricData).
pub const MAX_DATAPOINTS: usize = 100_800;
/// Longest label: a rule of the lab, which keeps those of alarms.
const MAX_LABEL_CHARS: usize = 1_024;
/// Longest id (service model, 2010-08-01).
const MAX_ID_CHARS: usize = 255;

/// A metric as the API writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub struct MetricSpec {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub metric_name: String,
    /// Dimensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<Dimension>,
}

impl MetricSpec {
    /// Returns the metric's name, checked.
    ///
    /// # Errors
    /// The errors of [`MetricId::new`].
    pub fn id(&self) -> Result<MetricId, Refusal> {
        MetricId::new(&self.namespace, &self.metric_name, &self.dimensions)
    }
}

/// A statistic of a metric, in periods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct MetricStat {
    /// The metric.
    pub metric: MetricSpec,
    /// Seconds.
    pub period: u32,
    /// A [`Statistic`] as text.
    pub stat: String,
    /// Unit of the values; None for all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

impl MetricStat {
    /// Returns the statistic.
    ///
    /// # Errors
    /// There is no such statistic.
    pub fn statistic(&self) -> Result<Statistic, Refusal> {
        self.stat.parse()
    }
}

/// A query: a metric or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub struct Query {
    /// Name by which other queries refer to this query.
    pub id: String,
    /// A metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_stat: Option<MetricStat>,
    /// An expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// Label of the result; see [`Label`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// True to return the result; None counts as true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_data: Option<bool>,
    /// Period of an expression that makes points of its own, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u32>,
    /// Another account: the lab has one, so it must be left out or be the lab's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
}

impl Query {
    /// Returns true if the result is to be returned.
    pub fn is_returned(&self) -> bool {
        self.return_data.unwrap_or(true)
    }
}

/// A result; an expression that gives an array has several with one id.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// Id of the query.
    pub id: String,
    /// Label.
    pub label: String,
    /// Points.
    pub points: Points,
}

/// Queries that were checked, in an order in which each follows those it refers to.
struct Plan<'a> {
    queries: &'a [Query],
    trees: BTreeMap<usize, Expr>,
    order: Vec<usize>,
    metrics: Vec<String>,
    period_s: u32,
}

/// Checks that an id begins with a lowercase letter and has letters, digits and _ only.
fn check_id(id: &str) -> Result<(), Refusal> {
    let well_formed = id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if well_formed && id.len() <= MAX_ID_CHARS {
        return Ok(());
    }
    let excerpt: String = id.chars().take(40).collect();
    Err(Refusal::validation(
        &excerpt,
        format!("The value '{excerpt}' for MetricDataQueries.Id is invalid: an id begins with a lowercase letter and has letters, digits and _ only."),
    ))
}

/// Checks queries without their data, parses the expressions, and puts each query behind those it
/// refers to.
fn make_plan(queries: &[Query]) -> Result<Plan<'_>, Refusal> {
    if queries.is_empty() {
        return Err(Refusal::missing("MetricDataQueries"));
    }
    if queries.len() > MAX_QUERIES {
        return Err(Refusal::validation(
            queries.len().to_string(),
            format!("A request has at most {MAX_QUERIES} MetricDataQueries, this one {}.", queries.len()),
        ));
    }
    let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
    let mut trees = BTreeMap::new();
    for (index, query) in queries.iter().enumerate() {
        check_id(&query.id)?;
        if query.label.as_ref().is_some_and(|label| label.chars().count() > MAX_LABEL_CHARS) {
            return Err(Refusal::validation(&query.id, format!("The label of '{}' has more than {MAX_LABEL_CHARS} characters.", query.id)));
        }
        if indices.insert(&query.id, index).is_some() {
            return Err(Refusal::validation(&query.id, format!("The id '{}' occurs more than once in MetricDataQueries.", query.id)));
        }
        match (&query.metric_stat, &query.expression) {
            (Some(stat), None) => {
                stat.metric.id()?;
                stat.statistic()?;
                check_period(stat.period)?;
            }
            (None, Some(expression)) => {
                query.period.map_or(Ok(()), check_period)?;
                trees.insert(index, math::parse(expression).map_err(|error| error.of_query(&query.id, expression))?);
            }
            _ => {
                let sentence = format!("The query '{}' must have either MetricStat or Expression, and not both.", query.id);
                return Err(Refusal::validation(&query.id, sentence));
            }
        }
    }
    let metrics = queries.iter().filter(|query| query.metric_stat.is_some()).map(|query| query.id.clone()).collect();
    let periods = queries.iter().filter_map(|query| query.metric_stat.as_ref().map(|stat| stat.period).or(query.period));
    let mut plan = Plan { queries, trees, order: Vec::new(), metrics, period_s: periods.max().unwrap_or(60) };
    let mut state = vec![Visit::New; queries.len()];
    for index in 0..queries.len() {
        plan.visit(index, &indices, &mut state)?;
    }
    plan.check_types()?;
    Ok(plan)
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Open,
    Done,
}

impl Plan<'_> {
    /// Appends a query to the order, after those it refers to; refuses one that refers to itself.
    fn visit(&mut self, index: usize, indices: &BTreeMap<&str, usize>, state: &mut [Visit]) -> Result<(), Refusal> {
        let query = &self.queries[index];
        match state[index] {
            Visit::Done => return Ok(()),
            Visit::Open => return Err(Refusal::validation(&query.id, format!("The expression '{}' refers to itself, directly or through others.", query.id))),
            Visit::New => state[index] = Visit::Open,
        }
        let mut needed = Vec::new();
        if let Some(tree) = self.trees.get(&index) {
            tree.names(&mut |name| needed.extend(indices.get(name).copied()));
        }
        for other in needed {
            self.visit(other, indices, state)?;
        }
        state[index] = Visit::Done;
        self.order.push(index);
        Ok(())
    }

    /// Checks the types of results, which do not depend on data: without any, every mistake shows.
    fn check_types(&self) -> Result<(), Refusal> {
        let window = |period_s| Window { start_s: 0, end_s: 0, period_s };
        self.compute_values(window, &mut |_, _| Points::new()).map(drop)
    }

    /// Computes the values of all queries, by id. `window` gives the window of a period in s,
    /// `points` the points of a metric.
    fn compute_values(
        &self,
        window: impl Fn(u32) -> Window,
        points: &mut impl FnMut(&MetricStat, &Window) -> Points,
    ) -> Result<BTreeMap<String, Value>, Refusal> {
        let (mut values, budget) = (BTreeMap::new(), Budget::default());
        for &index in &self.order {
            let query = &self.queries[index];
            let value = match (&query.metric_stat, self.trees.get(&index)) {
                (Some(stat), _) => Value::Series(Series { name: query.id.clone(), period_s: stat.period, points: points(stat, &window(stat.period)) }),
                (None, Some(tree)) => {
                    let context = Context { values: &values, metrics: &self.metrics, window: window(query.period.unwrap_or(self.period_s)), budget: &budget };
                    let expression = query.expression.as_deref().unwrap_or_default();
                    let value = tree.value(&context).map_err(|error| error.of_query(&query.id, expression))?;
                    if let (Value::Number(_), true) = (&value, query.is_returned()) {
                        let sentence = "the result is a number, and a query that is returned must give a time series; TIME_SERIES makes one of a number";
                        return Err(math::MathError { at: tree.at, message: sentence.to_string() }.of_query(&query.id, expression));
                    }
                    value
                }
                (None, None) => continue,
            };
            values.insert(query.id.clone(), value);
        }
        Ok(values)
    }
}

/// Checks queries without any data.
///
/// # Errors
/// The refusal of the first query that is not valid.
pub fn check(queries: &[Query]) -> Result<(), Refusal> {
    make_plan(queries).map(drop)
}

/// Returns the refusal of a range of time whose end is not after its start. The first sentence is
/// what CloudWatch was seen to answer (logs in issues of influxdata/telegraf, 2017, and
/// elastic/beats, 2022); the second is that of moto's tests.
pub fn wrong_times(start_s: i64, end_s: i64) -> &'static str {
    match start_s == end_s {
        true => "The parameter StartTime must not equal parameter EndTime.",
        false => "The parameter StartTime must be less than the parameter EndTime.",
    }
}

/// Computes the results of the queries that are returned, in their order. `points` gives those of a
/// metric in the periods of a window.
///
/// # Errors
/// The errors of [`check`]; an end that is not after the start.
pub fn evaluate(
    queries: &[Query],
    (start_s, end_s): (i64, i64),
    now_s: i64,
    points: &mut impl FnMut(&MetricStat, &Window) -> Points,
) -> Result<Vec<QueryResult>, Refusal> {
    let plan = make_plan(queries)?;
    if end_s <= start_s {
        return Err(Refusal::new(Code::ValidationError, end_s.to_string(), wrong_times(start_s, end_s)));
    }
    let window = |period_s: u32| Window { start_s: rounded_start(start_s, now_s, period_s), end_s, period_s };
    let shortest = queries.iter().filter_map(|query| query.metric_stat.as_ref().map(|stat| stat.period).or(query.period)).min().unwrap_or(plan.period_s);
    let periods = (end_s - start_s) / i64::from(shortest.max(1));
    if periods > MAX_DATAPOINTS as i64 {
        let sentence = format!("The time asked for has {periods} periods of {shortest} s, and at most {MAX_DATAPOINTS} are allowed.");
        return Err(Refusal::validation(periods.to_string(), sentence));
    }
    let mut stored_points = |stat: &MetricStat, window: &Window| match has_points(window.start_s, now_s, stat.period) {
        true => points(stat, window),
        false => Points::new(),
    };
    let mut values = plan.compute_values(window, &mut stored_points)?;
    let mut results = Vec::new();
    for query in queries.iter().filter(|query| query.is_returned()) {
        let default = |series: &Series, many: bool| match &query.metric_stat {
            Some(stat) => stat.metric.metric_name.clone(),
            None if many => format!("{} {}", query.id, series.name),
            None => query.id.clone(),
        };
        let (series, many) = match values.remove(&query.id) {
            Some(Value::Series(series)) => (vec![series], false),
            Some(Value::Array(array)) => (array, true),
            _ => (Vec::new(), false),
        };
        for series in series {
            let default = default(&series, many);
            let label = Label { stat: query.metric_stat.as_ref(), points: &series.points, default: &default };
            let text = query.label.as_deref().map_or_else(|| default.clone(), |text| label.filled(text));
            results.push(QueryResult { id: query.id.clone(), label: text, points: series.points });
        }
    }
    Ok(results)
}

/// Values of the placeholders `${...}` of a label (CloudWatch user guide, "Using dynamic labels"):
/// `LABEL`, `AVG`, `MIN`, `MAX`, `SUM`, `FIRST`, `LAST`, `DATAPOINT_COUNT`, and `PROP('...')` of
/// Namespace, MetricName, Stat, Period and `Dim.NAME`. Anything else stays as it is written.
pub struct Label<'a> {
    /// The metric, if it is one.
    pub stat: Option<&'a MetricStat>,
    /// Points of the result.
    pub points: &'a Points,
    /// The label without a text of the caller.
    pub default: &'a str,
}

impl Label<'_> {
    /// Returns the text with its placeholders filled.
    pub fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(begin) = rest.find("${") {
            let Some(length) = rest[begin..].find('}') else { break };
            filled.push_str(&rest[..begin]);
            let placeholder = &rest[begin..=begin + length];
            match self.value(placeholder[2..placeholder.len() - 1].trim()) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(placeholder),
            }
            rest = &rest[begin + length + 1..];
        }
        filled.push_str(rest);
        filled
    }

    /// Returns the text for a placeholder; None for one that is not known.
    fn value(&self, name: &str) -> Option<String> {
        let values = || self.points.values().copied();
        // Rounded as the console shows it: to a thousandth, without zeros at the end.
        let number = |value: f64| if self.points.is_empty() { "-".to_string() } else { format!("{}", (value * 1e3).round() / 1e3) };
        Some(match name {
            "LABEL" => self.default.to_string(),
            "DATAPOINT_COUNT" => self.points.len().to_string(),
            "SUM" => number(values().sum()),
            "AVG" => number(values().sum::<f64>() / self.points.len() as f64),
            "MIN" => number(values().fold(f64::INFINITY, f64::min)),
            "MAX" => number(values().fold(f64::NEG_INFINITY, f64::max)),
            "FIRST" => number(values().next().unwrap_or_default()),
            "LAST" => number(values().next_back().unwrap_or_default()),
            property => return self.property(property.strip_prefix("PROP('")?.strip_suffix("')")?),
        })
    }

    /// Returns the text for the name in `PROP('...')`; None for an expression, which has none.
    fn property(&self, name: &str) -> Option<String> {
        let stat = self.stat?;
        Some(match name {
            "Namespace" => stat.metric.namespace.clone(),
            "MetricName" => stat.metric.metric_name.clone(),
            "Stat" => stat.stat.clone(),
            "Period" => stat.period.to_string(),
            dimension => {
                let dimension = dimension.strip_prefix("Dim.")?;
                stat.metric.dimensions.iter().find(|each| each.name == dimension)?.value.clone()
            }
        })
    }
}
