//! Random series against a second, naive implementation: vectors of minutes in place of maps, every
//! value written out, and a machine that works on text in reverse Polish notation in place of a
//! tree.

use headrace_cloudwatch::alarm::{range, Comparison, Missing, Rule, State};
use headrace_cloudwatch::{aggregate, evaluate, Distribution, MetricSpec, MetricStat, Points, Query, Statistic, Window};
use proptest::prelude::*;

/// Minutes of a test.
const MINUTES: usize = 12;

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Equal up to rounding: sums of at most 100 terms in another order differ by at most 100 x 2^-53
/// of the largest term, which is far below 1e-9 of it.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

type Line = Vec<Option<f64>>;

fn line() -> impl Strategy<Value = Line> {
    let value = prop_oneof![3 => (-4i32..5).prop_map(|n| Some(f64::from(n) / 2.0)), 1 => Just(None)];
    proptest::collection::vec(value, MINUTES)
}

/// An expression in both notations: for the parser, with all its brackets, and for the machine.
#[derive(Clone, Debug)]
struct Both {
    text: String,
    polish: Vec<String>,
    /// True for a series, false for a number.
    series: bool,
}

fn leaf() -> impl Strategy<Value = Both> {
    let word = |text: String, series: bool| Both { polish: vec![text.clone()], text, series };
    prop_oneof![
        prop_oneof![Just("m1"), Just("m2")].prop_map(move |name| word(name.to_string(), true)),
        (0u32..6).prop_map(move |number| word(number.to_string(), false)),
    ]
}

fn tree() -> impl Strategy<Value = Both> {
    leaf().prop_recursive(5, 24, 2, |inner| {
        const OPERATORS: [&str; 12] = ["+", "-", "*", "/", "<", ">", "<=", ">=", "==", "!=", "&&", "||"];
        let operation = (inner.clone(), proptest::sample::select(&OPERATORS[..]), inner.clone()).prop_map(|(lhs, operator, rhs)| Both {
            text: format!("({} {operator} {})", lhs.text, rhs.text),
            polish: [lhs.polish, rhs.polish, vec![operator.to_string()]].concat(),
            series: lhs.series || rhs.series,
        });
        let negative = inner.clone().prop_map(|inner| Both {
            text: format!("(-{})", inner.text),
            polish: [inner.polish, vec!["neg".into()]].concat(),
            series: inner.series,
        });
        const NAMES: [&str; 14] = ["ABS", "CEIL", "FLOOR", "DIFF", "RATE", "RUNNING_SUM", "SUM", "AVG", "MIN", "MAX", "STDDEV", "FILL0", "REPEAT", "LINEAR"];
        let call = (inner, proptest::sample::select(&NAMES[..])).prop_map(|(inner, name)| {
            if !inner.series {
                return inner;
            }
            let text = match name {
                "FILL0" => format!("FILL({}, 0)", inner.text),
                "REPEAT" | "LINEAR" => format!("FILL({}, {name})", inner.text),
                _ => format!("{name}({})", inner.text),
            };
            let series = !["SUM", "AVG", "MIN", "MAX", "STDDEV"].contains(&name);
            Both { text, polish: [inner.polish, vec![name.to_string()]].concat(), series }
        });
        prop_oneof![4 => operation, 1 => negative, 3 => call]
    })
}

/// Values of the machine: a number is the same in every minute.
#[derive(Clone, Debug)]
enum Thing {
    Number(f64),
    Line(Line),
}

fn compute(operator: &str, lhs: f64, rhs: f64) -> f64 {
    let bit = |truth: bool| if truth { 1.0 } else { 0.0 };
    match operator {
        "+" => lhs + rhs,
        "-" => lhs - rhs,
        "*" => lhs * rhs,
        "/" => lhs / rhs,
        "<" => bit(lhs < rhs),
        ">" => bit(lhs > rhs),
        "<=" => bit(lhs <= rhs),
        ">=" => bit(lhs >= rhs),
        "==" => bit(lhs == rhs),
        "!=" => bit(lhs != rhs),
        "&&" => bit(lhs != 0.0 && rhs != 0.0),
        _ => bit(lhs != 0.0 || rhs != 0.0),
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn combine(operator: &str, lhs: &Thing, rhs: &Thing) -> Thing {
    if let (Thing::Number(lhs), Thing::Number(rhs)) = (lhs, rhs) {
        return Thing::Number(compute(operator, *lhs, *rhs));
    }
    let at = |thing: &Thing, minute: usize| match thing {
        Thing::Number(number) => Some(*number),
        Thing::Line(line) => line[minute],
    };
    Thing::Line((0..MINUTES).map(|minute| finite(compute(operator, at(lhs, minute)?, at(rhs, minute)?))).collect())
}

fn number_of(name: &str, line: &Line) -> f64 {
    let values: Vec<f64> = line.iter().flatten().copied().collect();
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sum = 0.0;
    let (mut least, mut most) = (values[0], values[0]);
    for value in &values {
        sum += value;
        least = if *value < least { *value } else { least };
        most = if *value > most { *value } else { most };
    }
    let mean = sum / values.len() as f64;
    match name {
        "SUM" => sum,
        "AVG" => mean,
        "MIN" => least,
        "MAX" => most,
        _ => {
            let mut squares = 0.0;
            values.iter().for_each(|value| squares += (value - mean) * (value - mean));
            (squares / values.len() as f64).sqrt()
        }
    }
}

fn line_of(name: &str, line: &Line) -> Line {
    let mut filled = vec![None; MINUTES];
    let mut last: Option<(usize, f64)> = None;
    let mut sum = 0.0;
    for minute in 0..MINUTES {
        let value = line[minute];
        sum += value.unwrap_or(0.0);
        let next = (minute..MINUTES).find_map(|at| Some((at, line[at]?)));
        filled[minute] = match (name, value, last) {
            ("ABS", Some(value), _) => Some(if value < 0.0 { -value } else { value }),
            ("CEIL", Some(value), _) => Some(value.ceil()),
            ("FLOOR", Some(value), _) => Some(value.floor()),
            ("RUNNING_SUM", Some(_), _) => finite(sum),
            ("DIFF", Some(value), Some((_, before))) => finite(value - before),
            ("RATE", Some(value), Some((at, before))) => finite((value - before) / (60.0 * (minute - at) as f64)),
            ("FILL0", value, _) => Some(value.unwrap_or(0.0)),
            ("REPEAT", value, last) => value.or(last.map(|(_, value)| value)),
            ("LINEAR", Some(value), _) => Some(value),
            ("LINEAR", None, Some((from, before))) => next.map(|(until, after)| before + (after - before) * ((minute - from) as f64 / (until - from) as f64)),
            _ => None,
        };
        if let Some(value) = value {
            last = Some((minute, value));
        }
    }
    filled
}

fn machine(polish: &[String], m1: &Line, m2: &Line) -> Thing {
    let mut stack: Vec<Thing> = Vec::new();
    for word in polish {
        let thing = match word.as_str() {
            "m1" => Thing::Line(m1.clone()),
            "m2" => Thing::Line(m2.clone()),
            "neg" => combine("-", &Thing::Number(0.0), &stack.pop().unwrap()),
            name if name.parse::<f64>().is_ok() => Thing::Number(name.parse().unwrap()),
            name @ ("SUM" | "AVG" | "MIN" | "MAX" | "STDDEV") => match stack.pop().unwrap() {
                Thing::Line(line) => Thing::Number(number_of(name, &line)),
                Thing::Number(_) => unreachable!("the generator calls functions of series only"),
            },
            name if name.chars().all(char::is_alphanumeric) || name.contains('_') => match stack.pop().unwrap() {
                Thing::Line(line) => Thing::Line(line_of(name, &line)),
                Thing::Number(_) => unreachable!("the generator calls functions of series only"),
            },
            operator => {
                let rhs = stack.pop().unwrap();
                let lhs = stack.pop().unwrap();
                combine(operator, &lhs, &rhs)
            }
        };
        stack.push(thing);
    }
    stack.pop().unwrap()
}

fn points(line: &Line) -> Points {
    line.iter().enumerate().filter_map(|(minute, value)| Some((minute as i64 * 60, (*value)?))).collect()
}

fn metric(id: &str) -> Query {
    let metric = MetricSpec { namespace: "T".into(), metric_name: id.into(), dimensions: Vec::new() };
    Query { id: id.into(), metric_stat: Some(MetricStat { metric, period: 60, stat: "Sum".into(), unit: None }), return_data: Some(false), ..Query::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Brackets stand around every operation, so the tree is the one that was generated; the binding
    /// of operators has golden tests.
    #[test]
    fn expressions_have_the_values_of_the_machine(both in tree(), m1 in line(), m2 in line()) {
        // A number becomes a series by adding it to one.
        let text = if both.series { both.text.clone() } else { format!("TIME_SERIES(0) + {}", both.text) };
        let query = Query { id: "e1".into(), expression: Some(text.clone()), ..Query::default() };
        let results = evaluate(&[metric("m1"), metric("m2"), query], (0, MINUTES as i64 * 60), 1_000, &mut |stat, _| {
            points(if stat.metric.metric_name == "m1" { &m1 } else { &m2 })
        }).unwrap();
        let expected = match machine(&both.polish, &m1, &m2) {
            Thing::Line(line) => line,
            Thing::Number(number) => vec![finite(number); MINUTES],
        };
        for (minute, expected) in expected.iter().enumerate() {
            let value = results[0].points.get(&(minute as i64 * 60)).copied();
            // Comparisons jump where roundings differ: both sides round the same operations.
            let equal = match (value, *expected) {
                (Some(value), Some(expected)) => near(value, expected),
                (value, expected) => value.is_none() && expected.is_none(),
            };
            prop_assert!(equal, "{text} in minute {minute}: {value:?}, and {expected:?} by the machine");
        }
    }

    /// Every value written out and sorted.
    #[test]
    fn statistics_are_those_of_the_values_written_out(
        values in proptest::collection::vec((0i64..600, -50i32..50, 1u32..4), 1..60),
        period_s in proptest::sample::select(&[60u32, 120, 300][..]),
        start_s in 0i64..120,
        percent in 0u32..=100,
    ) {
        let points: Vec<(i64, Distribution)> = values.iter().map(|(t_s, value, times)| (*t_s, Distribution::from_values(vec![(f64::from(*value), f64::from(*times))]).unwrap())).collect();
        let window = Window { start_s, end_s: 480, period_s };
        let of = |statistic| aggregate(points.iter().map(|(t_s, point)| (*t_s, point)), &window, statistic);
        let mut begin = start_s;
        let mut periods = 0;
        while begin < 480 {
            let end = 480.min(begin + i64::from(period_s));
            let mut all: Vec<f64> = Vec::new();
            for (t_s, value, times) in &values {
                if (begin..end).contains(t_s) {
                    all.extend(vec![f64::from(*value); *times as usize]);
                }
            }
            all.sort_by(f64::total_cmp);
            for statistic in [Statistic::SampleCount, Statistic::Sum, Statistic::Average, Statistic::Minimum, Statistic::Maximum, Statistic::Percentile(f64::from(percent))] {
                let value = of(statistic).get(&begin).copied();
                if all.is_empty() {
                    prop_assert_eq!(value, None);
                    continue;
                }
                let sum: f64 = all.iter().sum();
                // The least value with at least the share at or below it: its rank is rounded up.
                let rank = (percent as usize * all.len()).div_ceil(100).clamp(1, all.len());
                let expected = match statistic {
                    Statistic::SampleCount => all.len() as f64,
                    Statistic::Sum => sum,
                    Statistic::Average => sum / all.len() as f64,
                    Statistic::Minimum => all[0],
                    Statistic::Maximum => all[all.len() - 1],
                    _ => all[rank - 1],
                };
                prop_assert!(near(value.unwrap(), expected), "{statistic} of {all:?}: {value:?}, not {expected}");
            }
            periods += usize::from(!all.is_empty());
            begin += i64::from(period_s);
        }
        prop_assert_eq!(of(Statistic::Sum).len(), periods, "no other periods");
    }

    /// The promises of the rules hold for any points.
    #[test]
    fn states_follow_from_counting(
        drawn in proptest::collection::vec(0u8..3, 1..9),
        periods in 1u32..7,
        to_alarm in 1u32..7,
        missing in proptest::sample::select(&[Missing::Missing, Missing::NotBreaching, Missing::Breaching, Missing::Ignore][..]),
    ) {
        let to_alarm = to_alarm.min(periods);
        let points: Points = drawn.iter().enumerate().filter(|(_, what)| **what > 0).map(|(index, what)| (index as i64 * 60, f64::from(*what))).collect();
        let newest = range(&points, drawn.len() as i64 * 60, 60, drawn.len() as u32);
        let rule = Rule { periods, to_alarm, comparison: Comparison::GreaterThanOrEqualToThreshold, threshold: 2.0, missing };
        let state = rule.state(&newest);
        // Counted from the text, newest first.
        let real: Vec<bool> = drawn.iter().rev().filter(|what| **what > 0).map(|what| *what == 2).collect();
        let used: Vec<bool> = real.iter().copied().take(periods as usize).collect();
        let (bad, good) = (used.iter().filter(|bad| **bad).count() as u32, used.iter().filter(|bad| !**bad).count() as u32);
        let absent = periods.saturating_sub(real.len() as u32);
        if bad >= to_alarm {
            prop_assert_eq!(state, Some(State::Alarm), "enough points breach");
        } else if absent == 0 {
            prop_assert_eq!(state, Some(State::Ok), "every point is there and too few breach");
        } else if missing == Missing::Breaching {
            prop_assert_eq!(state, Some(if bad + absent >= to_alarm { State::Alarm } else { State::Ok }));
        } else if missing == Missing::NotBreaching || good > 0 {
            prop_assert_eq!(state, Some(State::Ok));
        } else if missing == Missing::Ignore {
            prop_assert_eq!(state, None);
        } else {
            // Only breaching points, too few of them: the oldest in the range counts its age.
            let age = drawn.iter().position(|what| *what > 0).map_or(0, |oldest| drawn.len() - oldest) as u32;
            prop_assert_eq!(state, Some(if age >= to_alarm { State::Alarm } else { State::InsufficientData }));
        }
    }
}
