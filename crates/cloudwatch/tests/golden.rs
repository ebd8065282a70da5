//! Expressions with known results.

use headrace_cloudwatch::{check_queries, evaluate, MetricSpec, MetricStat, Points, Query, QueryResult, Refusal};
use std::collections::BTreeMap;

fn metric(id: &str) -> Query {
    let metric = MetricSpec { namespace: "AWS/EBS".into(), metric_name: id.to_uppercase(), dimensions: Vec::new() };
    let metric_stat = Some(MetricStat { metric, period: 60, stat: "Average".into(), unit: None });
    Query { id: id.into(), metric_stat, return_data: Some(false), ..Query::default() }
}

fn expression(id: &str, text: &str) -> Query {
    Query { id: id.into(), expression: Some(text.into()), ..Query::default() }
}

fn points(values: &[f64]) -> Points {
    values.iter().enumerate().filter(|(_, value)| !value.is_nan()).map(|(index, value)| (index as i64 * 60, *value)).collect()
}

/// The results of the queries over `data` by name of the metric; ten minutes from 0 on.
fn run(queries: &[Query], data: &[(&str, &[f64])]) -> Result<Vec<QueryResult>, Refusal> {
    let data: BTreeMap<String, Points> = data.iter().map(|(name, values)| (name.to_uppercase(), points(values))).collect();
    evaluate(queries, (0, 600), 600, &mut |stat, _| data.get(&stat.metric.metric_name).cloned().unwrap_or_default())
}

/// One expression over m1 and m2.
fn value(text: &str, m1: &[f64], m2: &[f64]) -> Vec<f64> {
    let results = run(&[metric("m1"), metric("m2"), expression("e1", text)], &[("m1", m1), ("m2", m2)]).unwrap();
    results[0].points.values().copied().collect()
}

fn wrong(text: &str) -> String {
    check_queries(&[metric("m1"), metric("m2"), expression("e1", text)]).unwrap_err().message
}

const GAP: f64 = f64::NAN;

/// The EBS user guide shows how long a burst lasts. The bucket of gp2 holds 5,400,000 I/O credits.
/// At BurstBalance m1 (percent), m1 * 5400000 / 100 of them are left. A volume of 500 GiB earns 3
/// credits a second and GiB and spends 3,000 a second in a burst, so it loses 3000 - 500 * 3 =
/// 1,500 a second: at 100 % the burst lasts 5,400,000 / 1,500 = 3,600 s.
#[test]
fn a_full_bucket_of_500_gib_lasts_an_hour() {
    assert_eq!(value("m1*5400000/100/(3000-500*3)", &[100.0, 50.0, 0.0], &[]), [3_600.0, 1_800.0, 0.0]);
}

#[test]
fn operators_bind_as_in_arithmetic() {
    let number = |text: &str| value(&format!("m1*0 + ({text})"), &[1.0], &[])[0];
    assert_eq!((number("1+2*3"), number("(1+2)*3"), number("2^3^2"), number("-2^2"), number("10-4-3"), number("8/4/2")), (7.0, 9.0, 512.0, -4.0, 3.0, 1.0));
    assert_eq!(
        (number("1 + 1 == 2"), number("1 < 2 && 2 < 1"), number("1 > 2 OR 3 >= 3"), number("2 != 2"), number("1e3 + .5")),
        (1.0, 0.0, 1.0, 0.0, 1_000.5)
    );
}

#[test]
fn points_without_a_value_and_points_of_one_series_are_left_out() {
    assert_eq!(value("m1/m2", &[4.0, 0.0, 3.0, 8.0], &[2.0, 0.0, GAP, 4.0]), [2.0, 2.0]);
    assert_eq!(value("LOG10(m1)", &[100.0, 0.0, -1.0], &[]), [2.0]);
}

#[test]
fn functions_of_one_series() {
    let m1 = [1.0, -2.5, GAP, 4.0];
    assert_eq!(value("ABS(m1)", &m1, &[]), [1.0, 2.5, 4.0]);
    assert_eq!(value("CEIL(m1)", &m1, &[]), [1.0, -2.0, 4.0]);
    assert_eq!(value("FLOOR(m1)", &m1, &[]), [1.0, -3.0, 4.0]);
    assert_eq!(value("DIFF(m1)", &m1, &[]), [-3.5, 6.5]);
    assert_eq!(value("DIFF_TIME(m1)", &m1, &[]), [60.0, 120.0]);
    // -3.5 in 60 s and 6.5 in 120 s.
    assert_eq!(value("RATE(m1)", &m1, &[]), [-3.5 / 60.0, 6.5 / 120.0]);
    assert_eq!(value("RUNNING_SUM(m1)", &m1, &[]), [1.0, -1.5, 2.5]);
    assert_eq!(value("m1*0 + PERIOD(m1)", &m1, &[]), [60.0, 60.0, 60.0]);
    assert_eq!(value("m1 - AVG(m1)", &[1.0, 2.0, 6.0], &[]), [-2.0, -1.0, 3.0]);
    assert_eq!(value("m1 * DATAPOINT_COUNT(m1)", &m1, &[]), [3.0, -7.5, 12.0]);
    // Values 1 and 3 have the mean 2 and the deviation 1.
    assert_eq!(value("m1*0 + STDDEV(m1)", &[1.0, 3.0], &[]), [1.0, 1.0]);
}

#[test]
fn gaps_are_filled_as_asked() {
    let m1 = [GAP, 1.0, GAP, 3.0, GAP, GAP, GAP, GAP, GAP, GAP];
    assert_eq!(value("FILL(m1, 0)", &m1, &[]), [0.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(value("FILL(m1, REPEAT)", &m1, &[]), [1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]);
    assert_eq!(value("FILL(m1, LINEAR)", &m1, &[]), [1.0, 2.0, 3.0]);
    assert_eq!(value("FILL(m1, m2)", &m1, &[9.0, 9.0, 7.0]), [9.0, 1.0, 7.0, 3.0]);
}

#[test]
fn arrays_are_reduced_time_by_time() {
    let (m1, m2) = ([1.0, 5.0, 2.0], [3.0, GAP, 8.0]);
    assert_eq!(value("SUM(METRICS())", &m1, &m2), [4.0, 5.0, 10.0]);
    assert_eq!(value("MAX([m1, m2])", &m1, &m2), [3.0, 5.0, 8.0]);
    assert_eq!(value("AVG([m1, m2])", &m1, &m2), [2.0, 5.0, 5.0]);
    assert_eq!(value("MIN(METRICS() * 2)", &m1, &m2), [2.0, 10.0, 4.0]);
    assert_eq!(value("SUM(METRICS(\"m2\"))", &m1, &m2), [3.0, 8.0]);
    assert_eq!(value("FIRST(SORT(METRICS(), SUM, DESC))", &m1, &m2), [3.0, 8.0]);
    assert_eq!(value("FIRST(SORT(METRICS(), SUM, ASC, 1))", &m1, &m2), [1.0, 5.0, 2.0]);
    assert_eq!(value("SUM(SLICE(METRICS(), 1))", &m1, &m2), [3.0, 8.0]);
    assert_eq!(value("m1*0 + METRIC_COUNT(METRICS())", &[1.0], &m2), [2.0]);
}

#[test]
fn conditions_choose_point_by_point() {
    assert_eq!(value("IF(m1 > 2, m1, 0)", &[1.0, 3.0, GAP], &[]), [0.0, 3.0]);
    assert_eq!(value("IF(m1 > 2, m2, m1)", &[1.0, 3.0, 4.0], &[9.0, GAP, 7.0]), [1.0, 7.0]);
    assert_eq!(value("IF(AVG(m1) > 2, 1, m1)", &[1.0, 5.0], &[]), [1.0, 1.0]);
    assert_eq!(value("TIME_SERIES(7) + m1", &[1.0, 2.0], &[]), [8.0, 9.0]);
}

#[test]
fn times_have_their_parts() {
    let queries = [metric("m1"), expression("e1", "YEAR(m1)*10000 + MONTH(m1)*100 + DATE(m1)"), expression("e2", "DAY(m1)*10000 + HOUR(m1)*100 + MINUTE(m1)")];
    // 2024-02-29 was a Thursday; 23:59 UTC is 1,709,251,140.
    let leap = 1_709_251_140;
    let results = evaluate(&queries, (leap, leap + 60), leap, &mut |_, _| Points::from([(leap, 1.0)])).unwrap();
    assert_eq!((results[0].points[&leap], results[1].points[&leap]), (20_240_229.0, 42_359.0));
}

#[test]
fn expressions_refer_to_each_other_in_any_order() {
    let queries = [expression("e2", "e1 * 2"), expression("e1", "m1 + 1"), metric("m1")];
    let results = run(&queries, &[("m1", &[1.0])]).unwrap();
    assert_eq!(results.iter().map(|result| (result.id.as_str(), result.points[&0])).collect::<Vec<_>>(), [("e2", 4.0), ("e1", 2.0)]);
    let circle = [expression("e1", "e2 + m1"), expression("e2", "e1"), metric("m1")];
    assert_eq!(check_queries(&circle).unwrap_err().message, "The expression 'e1' refers to itself, directly or through others.");
}

#[test]
fn an_array_gives_a_result_for_each_series() {
    let results = run(&[metric("m1"), metric("m2"), expression("e1", "METRICS()")], &[("m1", &[1.0]), ("m2", &[2.0])]).unwrap();
    assert_eq!(results.iter().map(|result| (result.id.as_str(), result.label.as_str())).collect::<Vec<_>>(), [("e1", "e1 m1"), ("e1", "e1 m2")]);
}

#[test]
fn labels_are_filled() {
    let mut query = metric("m1");
    query.return_data = None;
    query.label = Some("${PROP('MetricName')} max ${MAX}, last ${LAST}, ${NOTHING} ${".into());
    let results = run(&[query], &[("m1", &[1.0, 2.34567, 2.0])]).unwrap();
    assert_eq!(results[0].label, "M1 max 2.346, last 2, ${NOTHING} ${");
}

#[test]
fn mistakes_are_named_with_their_position() {
    assert_eq!(wrong("m1 + m9"), "Error in expression 'e1' at position 6: 'm9' is not the id of a query.");
    assert_eq!(wrong("m1 +* 3"), "Error in expression 'e1' at position 5: expected a number, a metric or a function, found '*'.");
    assert_eq!(wrong("SUM(m1, m2)"), "Error in expression 'e1' at position 1: SUM takes 1 argument, and is given 2.");
    assert_eq!(
        wrong("1 + RATE(3)"),
        "Error in expression 'e1' at position 10: RATE needs a time series or an array of them as argument 1, and is given a number."
    );
    assert!(wrong("1 + 2").contains("at position 3: the result is a number"));
    assert!(wrong("METRICS() + METRICS()").contains("at position 11: '+' cannot combine an array of time series and an array of time series"));
    assert!(wrong("FOO(m1)").starts_with("Error in expression 'e1' at position 1: FOO is not a function; there are ABS, AVG"));
    assert!(wrong("SORT(METRICS(), UP, ASC)").contains("at position 17: SORT sorts by AVG"));
    assert!(wrong("m1 * SEARCH('x', 'Sum')").contains("at position 6: SEARCH is not supported"));
    assert_eq!(check_queries(&[metric("m1"), metric("m1")]).unwrap_err().message, "The id 'm1' occurs more than once in MetricDataQueries.");
    assert!(check_queries(&[metric("M1")]).unwrap_err().message.contains("begins with a lowercase letter"));
    assert!(check_queries(&[Query { id: "a".into(), ..Query::default() }]).unwrap_err().message.contains("either MetricStat or Expression"));
}

/// Arrays of arrays grow by a factor with each expression.
#[test]
fn what_would_take_all_memory_is_refused() {
    let many = |id: &str| format!("[{}]", vec![id; 200].join(","));
    let queries = [metric("m1"), expression("e1", &many("m1")), expression("e2", &many("e1")), expression("e3", &many("e2"))];
    assert!(check_queries(&queries).unwrap_err().message.contains("the request makes more than 2000000 points"));
    let second = Query { period: Some(1), ..expression("e1", "TIME_SERIES(1)") };
    let refusal = evaluate(&[second], (0, 1 << 40), 1 << 40, &mut |_, _| Points::new()).unwrap_err();
    assert!(refusal.message.contains("at most 100800 are allowed"), "{refusal}");
}
