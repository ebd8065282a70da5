//! Alarms: random commands against a list in memory, and the rules one by one.

use headrace_cloudwatch::alarm::{AlarmSpec, State};
use headrace_control::{action_parts, recorded_action, AlarmCommand, AlarmRequest, Command, ControlError, ErrorKind, Lab, MAX_ALARMS, MAX_ALARM_HISTORY};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::collections::BTreeMap;

fn spec(name: &str) -> Value {
    json!({
        "AlarmName": name, "Namespace": "AWS/EBS", "MetricName": "BurstBalance", "Statistic": "Average", "Period": 60,
        "Dimensions": [{"Name": "VolumeId", "Value": "vol-0123456789abcdef0"}], "EvaluationPeriods": 3, "Threshold": 20.0,
        "ComparisonOperator": "LessThanThreshold",
    })
}

fn put(spec: &Value) -> AlarmCommand {
    let spec: AlarmSpec = serde_json::from_value(spec.clone()).unwrap();
    AlarmCommand::Put { spec: Box::new(spec), tags: BTreeMap::new() }
}

/// Decides, applies, and checks that the events give the same lab when they are read again.
fn run(lab: &mut Lab, wall_ms: u64, command: AlarmCommand) -> Result<usize, ControlError> {
    let events = lab.decide(&Command::Alarm(AlarmRequest { wall_ms, command }), 1, &mut || 7)?;
    let mut again = lab.clone();
    for event in &events {
        lab.apply(event);
        let text = serde_json::to_string(event).unwrap();
        again.apply(&serde_json::from_str(&text).unwrap());
    }
    assert_eq!(*lab, again);
    let whole: Lab = serde_json::from_str(&serde_json::to_string(lab).unwrap()).unwrap();
    assert_eq!(*lab, whole, "a checkpoint keeps all of it");
    Ok(events.len())
}

fn code(spec: Value) -> (String, String) {
    let error = run(&mut Lab::default(), 0, put(&spec)).unwrap_err();
    (error.problem().code.clone(), error.problem().message.clone())
}

fn with(changes: Value) -> Value {
    let mut spec = spec("a");
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(key)),
            value => spec[key] = value.clone(),
        }
    }
    spec
}

#[test]
fn what_is_wrong_is_refused_with_cloudwatchs_code() {
    let invalid = "InvalidParameterValue";
    for (changes, expected, words) in [
        (json!({"EvaluationPeriods": 0}), invalid, "EvaluationPeriods"),
        (json!({"DatapointsToAlarm": 4}), invalid, "1 to EvaluationPeriods (3)"),
        (json!({"Period": 45}), invalid, "45"),
        (json!({"Period": 90}), invalid, "a multiple of 60"),
        (json!({"Period": 5}), invalid, "10, 20, 30 or a multiple of 60"),
        (json!({"Statistic": "p99"}), invalid, "p99"),
        (json!({"Statistic": null}), "InvalidParameterCombination", "either Statistic or ExtendedStatistic"),
        (json!({"ExtendedStatistic": "p99"}), "InvalidParameterCombination", "either Statistic or ExtendedStatistic"),
        (json!({"Threshold": null}), "MissingParameter", "Threshold"),
        (json!({"MetricName": null}), "MissingParameter", "MetricName"),
        (json!({"EvaluationPeriods": 2_000}), "ValidationError", "120000 s"),
        (json!({"AlarmActions": ["arn:aws:dynamodb:us-east-1:1:table/x"]}), invalid, "arn:aws:dynamodb:us-east-1:1:table/x"),
        (json!({"AlarmActions": ["arn:aws:sns:us-east-1:1:"]}), invalid, "arn:aws:sns:us-east-1:1:"),
        (json!({"Metrics": [{"Id": "m1", "Expression": "1"}]}), "InvalidParameterCombination", "has no MetricName"),
        (json!({"AlarmName": ""}), invalid, "AlarmName"),
    ] {
        let (refusal, message) = code(with(changes.clone()));
        assert_eq!(refusal, expected, "{changes}: {message}");
        assert!(message.contains(words), "{changes}: {message}");
    }
}

#[test]
fn actions_of_aws_are_recorded() {
    let events = run(&mut Lab::default(), 0, put(&with(json!({"AlarmActions": ["arn:aws:sns:us-east-1:1:topic"]})))).unwrap();
    assert_eq!(events, 1, "the alarm is made");
    assert_eq!(recorded_action("arn:aws:sns:us-east-1:1:topic"), Some("sns"));
    assert_eq!(recorded_action("arn:aws:headrace:::webhook/chat"), None, "the lab's own are delivered");
}

#[test]
fn an_alarm_on_an_expression_returns_exactly_one_series() {
    let math =
        |metrics: Value| json!({"AlarmName": "m", "Metrics": metrics, "EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "GreaterThanThreshold"});
    let metric = json!({"Id": "m1", "MetricStat": {"Metric": {"Namespace": "N", "MetricName": "M"}, "Period": 60, "Stat": "Sum"}, "ReturnData": false});
    run(&mut Lab::default(), 0, put(&math(json!([metric, {"Id": "e1", "Expression": "m1 * 2"}])))).unwrap();
    let (refusal, message) = code(math(json!([metric, {"Id": "e1", "Expression": "m1 *"}])));
    assert_eq!((refusal.as_str(), message.contains("Error in expression 'e1' at position 5")), ("ValidationError", true), "{message}");
    assert!(code(math(json!([metric]))).1.contains("Exactly one element of Metrics must have ReturnData true, and 0 have"));
    let mut returned = metric.clone();
    returned["ReturnData"] = json!(true);
    assert!(code(math(json!([returned, {"Id": "e1", "Expression": "m1"}]))).1.contains("and 2 have"));
}

#[test]
fn actions_are_commands_and_webhooks_of_the_lab() {
    assert_eq!(action_parts("arn:aws:headrace:us-east-1:000000000000:command/page-me"), Some(("command", "page-me")));
    assert_eq!(action_parts("arn:aws:headrace:::webhook/chat"), Some(("webhook", "chat")));
    for wrong in
        ["", "command/x", "arn:aws:headrace:::command/", "arn:aws:headrace:::command/../x", "arn:aws:headrace:::shell/x", "arn:aws:headrace:::command/a b"]
    {
        assert_eq!(action_parts(wrong), None, "{wrong}");
    }
}

#[test]
fn a_lab_has_so_and_so_many_alarms_and_no_more() {
    let mut lab = Lab::default();
    let alarm = serde_json::from_value::<AlarmSpec>(spec("a")).unwrap();
    for number in 0..MAX_ALARMS {
        let spec = Box::new(AlarmSpec { alarm_name: format!("a{number}"), ..alarm.clone() });
        let request = AlarmRequest { wall_ms: 0, command: AlarmCommand::Put { spec, tags: BTreeMap::new() } };
        let events = lab.decide(&Command::Alarm(request), 1, &mut || 7).unwrap();
        events.iter().for_each(|event| lab.apply(event));
    }
    let error = run(&mut lab, 0, put(&spec("one-more"))).unwrap_err();
    assert_eq!((error.kind(), error.problem().code.as_str()), (ErrorKind::LimitExceeded, "LimitExceeded"));
    assert_eq!(run(&mut lab, 0, put(&spec("a1"))).unwrap(), 1, "one that exists is replaced");
}

#[test]
fn nothing_is_deleted_when_one_name_is_wrong() {
    let mut lab = Lab::default();
    run(&mut lab, 0, put(&spec("a"))).unwrap();
    let error = run(&mut lab, 1, AlarmCommand::Delete { names: vec!["a".into(), "b".into()] }).unwrap_err();
    assert_eq!((error.problem().code.as_str(), lab.alarms.by_name.len()), ("ResourceNotFound", 1));
    assert_eq!(run(&mut lab, 2, AlarmCommand::Delete { names: vec!["a".into(), "a".into()] }).unwrap(), 1);
    assert_eq!(lab.alarms.history.iter().map(|item| item.summary.as_str()).collect::<Vec<_>>(), ["Alarm \"a\" created", "Alarm \"a\" deleted"]);
}

/// A command by small numbers, so that names meet.
fn command() -> impl Strategy<Value = (u8, u8, u8)> {
    (0u8..7, 0u8..4, 0u8..3)
}

const STATES: [State; 3] = [State::Ok, State::Alarm, State::InsufficientData];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn alarms_are_those_of_a_list_in_memory(commands in proptest::collection::vec(command(), 1..80)) {
        let mut lab = Lab::default();
        // Name, state, whether actions are on, tag, when it became what it is.
        let mut list: Vec<(String, State, bool, Option<String>, u64)> = Vec::new();
        let mut items = 0usize;
        for (index, (what, which, value)) in commands.into_iter().enumerate() {
            let wall_ms = 1_000 + index as u64;
            let name = format!("a{which}");
            let state = STATES[usize::from(value)];
            let at = list.iter().position(|alarm| alarm.0 == name);
            let (command, done) = match what {
                0 | 1 => {
                    match at {
                        // The configuration is replaced, with actions on again; the state stays.
                        Some(at) => list[at].2 = true,
                        None => list.push((name.clone(), State::InsufficientData, true, None, wall_ms)),
                    }
                    items += 1;
                    (put(&spec(&name)), true)
                }
                2 => {
                    at.map(|at| list.remove(at));
                    items += usize::from(at.is_some());
                    (AlarmCommand::Delete { names: vec![name] }, at.is_some())
                }
                3 | 4 => {
                    let changed = at.is_some_and(|at| list[at].1 != state);
                    if changed {
                        let alarm = &mut list[at.unwrap()];
                        (alarm.1, alarm.4) = (state, wall_ms);
                        items += 1;
                    }
                    if what == 3 {
                        (AlarmCommand::SetState { name, state, reason: "by hand".into(), reason_data: None }, at.is_some())
                    } else {
                        // An evaluation of an alarm that is gone changes nothing.
                        (AlarmCommand::Evaluated { name, state, reason: "r".into(), reason_data: "{}".into() }, true)
                    }
                }
                5 => {
                    let enabled = value > 0;
                    if let Some(at) = at.filter(|at| list[*at].2 != enabled) {
                        list[at].2 = enabled;
                        items += 1;
                    }
                    (AlarmCommand::EnableActions { names: vec![name], enabled }, true)
                }
                _ => {
                    let text = format!("v{value}");
                    if let Some(at) = at {
                        list[at].3 = Some(text.clone());
                    }
                    (AlarmCommand::Tag { name, set: BTreeMap::from([("k".to_string(), text)]), remove: Vec::new() }, at.is_some())
                }
            };
            prop_assert_eq!(run(&mut lab, wall_ms, command).is_ok(), done);
        }
        let mut expected = list.clone();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        let actual: Vec<_> = lab.alarms.by_name.iter().map(|(name, alarm)| {
            (name.clone(), alarm.state, alarm.spec.actions_enabled, alarm.tags.get("k").cloned(), alarm.transitioned_ms)
        }).collect();
        prop_assert_eq!(actual, expected);
        prop_assert_eq!(lab.alarms.history.len(), items.min(MAX_ALARM_HISTORY));
        prop_assert_eq!(lab.alarms.next_item as usize, items);
    }
}
