//! The functions of metric math.

use super::parse::{Expr, Tree};
use super::value::{finite, Context, Series, Value};
use super::MathError;
use crate::series::Points;
use std::collections::BTreeSet;

/// Every function, for the error that names them.
const NAMES: &str = "ABS, AVG, CEIL, DATAPOINT_COUNT, DATE, DAY, DIFF, DIFF_TIME, EPOCH, FILL, FIRST, FLOOR, HOUR, IF, LAST, LOG, LOG10, MAX, \
METRIC_COUNT, METRICS, MIN, MINUTE, MONTH, PERIOD, RATE, REMOVE_EMPTY, RUNNING_SUM, SLICE, SORT, STDDEV, SUM, TIME_SERIES, YEAR";

type Outcome = Result<Value, MathError>;

/// Computes the value of a function.
pub(super) fn call(name: &str, at: usize, arguments: &[Expr], context: &Context<'_>) -> Outcome {
    let call = Call { name, at, arguments, context };
    match name {
        "SUM" | "AVG" | "MIN" | "MAX" | "STDDEV" | "DATAPOINT_COUNT" => call.reduce_argument(),
        "ABS" => call.each_number(f64::abs),
        "CEIL" => call.each_number(f64::ceil),
        "FLOOR" => call.each_number(f64::floor),
        "LOG" => call.each_number(f64::ln),
        "LOG10" => call.each_number(f64::log10),
        "RATE" | "DIFF" | "DIFF_TIME" => call.each_series(|series| compute_differences(name, series)),
        "RUNNING_SUM" => call.each_series(running_sum),
        "MINUTE" | "HOUR" | "DAY" | "DATE" | "MONTH" | "YEAR" | "EPOCH" => call.each_series(|series| calendar(name, series)),
        "FILL" => call.fill(),
        "IF" => call.condition(),
        "METRICS" => call.metrics(),
        "PERIOD" => Ok(Value::Number(f64::from(call.series(0, 1)?.period_s))),
        "METRIC_COUNT" => Ok(Value::Number(call.array(0, 1)?.len() as f64)),
        "TIME_SERIES" => call.time_series(),
        "SORT" => call.sort(),
        "FIRST" | "LAST" => call.first_or_last(),
        "SLICE" => call.slice(),
        "REMOVE_EMPTY" => Ok(Value::Array(call.array(0, 1)?.into_iter().filter(|series| !series.points.is_empty()).collect())),
        _ => Err(MathError::new(at, format!("{name} is not a function; there are {NAMES}"))),
    }
}

struct Call<'a> {
    name: &'a str,
    at: usize,
    arguments: &'a [Expr],
    context: &'a Context<'a>,
}

impl Call<'_> {
    fn error(&self, at: usize, words: &str) -> MathError {
        MathError::new(at, format!("{} {words}", self.name))
    }

    /// Checks how many arguments there are.
    fn check_count(&self, least: usize, most: usize) -> Result<(), MathError> {
        let given = self.arguments.len();
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.error(self.at, &format!("takes {count} argument{}, and is given {given}", if most == 1 { "" } else { "s" })))
    }

    fn argument(&self, index: usize) -> Outcome {
        self.arguments[index].value(self.context)
    }

    fn wrong(&self, index: usize, rule: &str, value: &Value) -> MathError {
        self.error(self.arguments[index].at, &format!("needs {rule} as argument {}, and is given {}", index + 1, value.type_name()))
    }

    fn series(&self, index: usize, arguments: usize) -> Result<Series, MathError> {
        self.check_count(arguments, arguments)?;
        match self.argument(index)? {
            Value::Series(series) => Ok(series),
            other => Err(self.wrong(index, "a time series", &other)),
        }
    }

    fn array_of(&self, index: usize) -> Result<Vec<Series>, MathError> {
        match self.argument(index)? {
            Value::Array(array) => Ok(array),
            Value::Series(series) => Ok(vec![series]),
            other => Err(self.wrong(index, "an array of time series", &other)),
        }
    }

    fn array(&self, index: usize, arguments: usize) -> Result<Vec<Series>, MathError> {
        self.check_count(arguments, arguments)?;
        self.array_of(index)
    }

    fn number(&self, index: usize) -> Result<f64, MathError> {
        match self.argument(index)? {
            Value::Number(number) => Ok(number),
            other => Err(self.wrong(index, "a number", &other)),
        }
    }

    /// Returns a word like REPEAT, unless a query has that id.
    fn word(&self, index: usize) -> Option<String> {
        match &self.arguments.get(index)?.tree {
            Tree::Name(name) if !self.context.values.contains_key(name) => Some(name.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Reduces a series to a number, and several series to the series over the values of each time.
    fn reduce_argument(&self) -> Outcome {
        self.check_count(1, 1)?;
        match self.argument(0)? {
            Value::Series(series) => Ok(Value::Number(reduce(self.name, series.points.values().copied()))),
            Value::Array(array) => {
                let times: BTreeSet<i64> = array.iter().flat_map(|series| series.points.keys().copied()).collect();
                let points = times.into_iter().map(|t_s| (t_s, reduce(self.name, array.iter().filter_map(|series| series.points.get(&t_s).copied()))));
                let period_s = array.iter().map(|series| series.period_s).max().unwrap_or(self.context.window.period_s);
                Ok(Value::Series(Series { name: self.name.to_string(), period_s, points: finite(points) }))
            }
            other => Err(self.wrong(0, "a time series or an array of them", &other)),
        }
    }

    /// Applies a function to a number, or to each value of a series or array.
    fn each_number(&self, change: impl Fn(f64) -> f64) -> Outcome {
        self.check_count(1, 1)?;
        Ok(match self.argument(0)? {
            Value::Number(number) => Value::Number(change(number)),
            Value::Series(series) => Value::Series(series.mapped(&change)),
            Value::Array(array) => Value::Array(array.iter().map(|series| series.mapped(&change)).collect()),
        })
    }

    /// Applies a function to a series, or to each series of an array.
    fn each_series(&self, change: impl Fn(&Series) -> Series) -> Outcome {
        self.check_count(1, 1)?;
        match self.argument(0)? {
            Value::Series(series) => Ok(Value::Series(change(&series))),
            Value::Array(array) => Ok(Value::Array(array.iter().map(change).collect())),
            other => Err(self.wrong(0, "a time series or an array of them", &other)),
        }
    }

    /// Computes FILL: a value for each period without a point.
    fn fill(&self) -> Outcome {
        self.check_count(2, 2)?;
        let way = match self.word(1).as_deref() {
            Some("REPEAT") => Fill::Repeat,
            Some("LINEAR") => Fill::Linear,
            _ => match self.argument(1)? {
                Value::Number(number) => Fill::Number(number),
                Value::Series(series) => Fill::Series(series.points),
                other => return Err(self.wrong(1, "REPEAT, LINEAR, a number or a time series", &other)),
            },
        };
        let filled = |series: &Series| {
            let window = crate::series::Window { period_s: series.period_s, ..self.context.window };
            series.with(way.fill_points(&series.points, window.periods()))
        };
        match self.argument(0)? {
            Value::Series(series) => Ok(Value::Series(filled(&series))),
            Value::Array(array) => Ok(Value::Array(array.iter().map(filled).collect())),
            other => Err(self.wrong(0, "a time series or an array of them", &other)),
        }
    }

    /// Computes IF: point by point for a series, and as a whole for a number.
    fn condition(&self) -> Outcome {
        self.check_count(3, 3)?;
        let branches = [self.argument(1)?, self.argument(2)?];
        if let Some(index) = branches.iter().position(|branch| matches!(branch, Value::Array(_))) {
            return Err(self.wrong(index + 1, "a number or a time series", &branches[index]));
        }
        let at = |branch: &Value, t_s: i64| match branch {
            Value::Number(number) => Some(*number),
            Value::Series(series) => series.points.get(&t_s).copied(),
            Value::Array(_) => None,
        };
        match self.argument(0)? {
            Value::Series(condition) => {
                let chosen = condition.points.iter().filter_map(|(t_s, holds)| Some((*t_s, at(&branches[usize::from(*holds == 0.0)], *t_s)?)));
                Ok(Value::Series(condition.with(chosen)))
            }
            Value::Number(condition) => {
                let [yes, no] = &branches;
                let (chosen, other) = if condition == 0.0 || condition.is_nan() { (no, yes) } else { (yes, no) };
                // The type of the result does not depend on data: a number next to a series becomes
                // one.
                Ok(match (chosen, other) {
                    (Value::Number(number), Value::Series(shape)) => Value::Series(shape.mapped(|_| *number)),
                    _ => chosen.clone(),
                })
            }
            other => Err(self.wrong(0, "a time series or a number", &other)),
        }
    }

    /// Computes METRICS: the metrics of the request whose ids contain a text, or all.
    fn metrics(&self) -> Outcome {
        self.check_count(0, 1)?;
        let part = match self.arguments.first().map(|argument| &argument.tree) {
            None => "",
            Some(Tree::Text(text)) => text,
            Some(_) => return Err(self.error(self.arguments[0].at, "takes text in quotes: a part of the ids it stands for")),
        };
        let ids = self.context.metrics.iter().filter(|id| id.contains(part));
        let series = ids.filter_map(|id| match self.context.values.get(id)? {
            Value::Series(series) => Some(series.clone()),
            _ => None,
        });
        Ok(Value::Array(series.collect()))
    }

    fn time_series(&self) -> Outcome {
        self.check_count(1, 1)?;
        let number = self.number(0)?;
        let window = &self.context.window;
        let points = finite(window.periods().map(|t_s| (t_s, number)));
        Ok(Value::Series(Series { name: "TIME_SERIES".to_string(), period_s: window.period_s, points }))
    }

    /// Computes SORT: an array by a statistic of each series, cut to the number of argument 4.
    fn sort(&self) -> Outcome {
        self.check_count(3, 4)?;
        let mut array = self.array_of(0)?;
        let by = self.word(1).filter(|word| ["AVG", "MIN", "MAX", "SUM"].contains(&word.as_str()));
        let by = by.ok_or_else(|| self.error(self.arguments[1].at, "sorts by AVG, MIN, MAX or SUM, as argument 2"))?;
        let direction = self.word(2).filter(|word| word == "ASC" || word == "DESC");
        let direction = direction.ok_or_else(|| self.error(self.arguments[2].at, "sorts ASC or DESC, as argument 3"))?;
        array.sort_by(|a, b| {
            let of = |series: &Series| reduce(&by, series.points.values().copied());
            let order = of(a).total_cmp(&of(b));
            if direction == "DESC" {
                order.reverse()
            } else {
                order
            }
        });
        if self.arguments.len() == 4 {
            array.truncate(self.index(3)?);
        }
        Ok(Value::Array(array))
    }

    fn first_or_last(&self) -> Outcome {
        let array = self.array(0, 1)?;
        let series = if self.name == "FIRST" { array.first() } else { array.last() };
        let empty = Series { name: self.name.to_string(), period_s: self.context.window.period_s, points: Points::new() };
        Ok(Value::Series(series.cloned().unwrap_or(empty)))
    }

    fn slice(&self) -> Outcome {
        self.check_count(2, 3)?;
        let array = self.array_of(0)?;
        let from = self.index(1)?.min(array.len());
        let until = if self.arguments.len() == 3 { self.index(2)?.clamp(from, array.len()) } else { array.len() };
        Ok(Value::Array(array[from..until].to_vec()))
    }

    fn index(&self, index: usize) -> Result<usize, MathError> {
        let number = self.number(index)?;
        if number.fract() == 0.0 && (0.0..=1e6).contains(&number) {
            return Ok(number as usize);
        }
        Err(self.error(self.arguments[index].at, &format!("needs a whole number from 0 on as argument {}", index + 1)))
    }
}

/// Reduces several numbers to one; not a number where that has no meaning. The deviation is that of
/// all values, not of a sample: CloudWatch does not say which, so that is a guess.
fn reduce(name: &str, values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = || values.clone().sum::<f64>() / count;
    match name {
        "DATAPOINT_COUNT" => count,
        _ if count == 0.0 => f64::NAN,
        "SUM" => values.sum(),
        "AVG" => mean(),
        "MIN" => values.fold(f64::INFINITY, f64::min),
        "MAX" => values.fold(f64::NEG_INFINITY, f64::max),
        _ => {
            let mean = mean();
            (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
        }
    }
}

/// Computes RATE (change a second), DIFF or DIFF_TIME (s) from each point to the one before.
fn compute_differences(name: &str, series: &Series) -> Series {
    let pairs = series.points.iter().zip(series.points.iter().skip(1));
    series.with(pairs.map(|((before_s, before), (t_s, value))| {
        let passed_s = (t_s - before_s) as f64;
        let change = match name {
            "RATE" => (value - before) / passed_s,
            "DIFF" => value - before,
            _ => passed_s,
        };
        (*t_s, change)
    }))
}

/// Computes RUNNING_SUM: at each point the sum of the points up to it.
fn running_sum(series: &Series) -> Series {
    let mut sum = 0.0;
    let sums: Vec<(i64, f64)> = series
        .points
        .iter()
        .map(|(t_s, value)| {
            sum += value;
            (*t_s, sum)
        })
        .collect();
    series.with(sums)
}

enum Fill {
    Repeat,
    Linear,
    Number(f64),
    Series(Points),
}

impl Fill {
    /// Returns the points, with a value for each of the periods (Unix seconds) that has none, where
    /// there is one.
    fn fill_points(&self, points: &Points, periods: impl Iterator<Item = i64>) -> Points {
        let mut filled = points.clone();
        for t_s in periods.filter(|t_s| !points.contains_key(t_s)) {
            let before = points.range(..t_s).next_back();
            let value = match self {
                Fill::Number(number) => Some(*number),
                Fill::Series(other) => other.get(&t_s).copied(),
                Fill::Repeat => before.map(|(_, value)| *value),
                Fill::Linear => before.zip(points.range(t_s..).next()).map(|((from_s, from), (until_s, until))| {
                    let share = (t_s - from_s) as f64 / (until_s - from_s) as f64;
                    from + (until - from) * share
                }),
            };
            filled.extend(value.filter(|value| value.is_finite()).map(|value| (t_s, value)));
        }
        filled
    }
}

/// Returns a part of the time of each point, in UTC.
fn calendar(name: &str, series: &Series) -> Series {
    series.with(series.points.keys().map(|&t_s| {
        let (days, second) = (t_s.div_euclid(86_400), t_s.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let value = match name {
            "MINUTE" => second / 60 % 60,
            "HOUR" => second / 3_600,
            // 1970-01-01 was a Thursday; Monday is 1.
            "DAY" => (days + 3).rem_euclid(7) + 1,
            "DATE" => day,
            "MONTH" => month,
            "YEAR" => year,
            _ => t_s,
        };
        (t_s, value as f64)
    }))
}

/// Returns year, month and day of a day number since 1970-01-01 in the Gregorian calendar, counted
/// in 400-year cycles of 146,097 days from 0000-03-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + cycle * 400 + i64::from(month <= 2), month, day)
}
