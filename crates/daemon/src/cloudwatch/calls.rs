//! From a call of the protocol to points and alarms, and back to its answer.

use super::custom::Datum;
use super::paging::{parse_place, token};
use super::points::Reader;
use super::{read, to_problem};
use crate::engine::{lock, unix_ms, Engine};
use crate::events::ACCOUNT;
use crate::problem::{bad_input, from_io, Outcome};
use headrace_cloudwatch::alarm::{AlarmSpec, State};
use headrace_cloudwatch::{
    check_period, evaluate, rounded_start, Code, Dimension, MetricSpec, MetricStat, Points, Query, Refusal, Statistic, Unit, Window, HOUR_S, MAX_DATAPOINTS,
};
use headrace_control::{AlarmCommand, AlarmRecord, HistoryItem, Problem};
use headrace_protocol::cloudwatch::{
    AlarmFilter, AlarmHistory, AlarmHistoryItem, AlarmList, AlarmState, AlarmTagRequest, AlarmTags, AlarmView, DataRequest, Datapoint, EventsRequest,
    HistoryFilter, LabEvents, MetricData, MetricFilter, MetricName, MetricNames, MetricResult, MetricStatistics, PutAlarm, PutMetrics, StatisticsPage,
    StatisticsPageRequest, StatisticsRequest,
};
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Most metrics in an answer of ListMetrics (API text, botocore 1.43).
const METRICS_A_PAGE: usize = 500;
/// Age up to which a metric is listed with `recently_active`, s (the same text: PT3H).
const RECENT_S: i64 = 3 * HOUR_S;
/// Most periods that GetMetricStatistics answers (CloudWatch user guide).
const MOST_DATAPOINTS: usize = 1_440;
/// Most alarms and items of history in an answer, and how many alarms without a word (API text of
/// DescribeAlarms and DescribeAlarmHistory).
const MOST_RECORDS: u32 = 100;
const RECORDS: u32 = 50;
/// Most names of alarms in a call (service model, 2010-08-01).
const MOST_NAMES: usize = 100;
/// Most events in an answer: some 600 KB.
const MOST_EVENTS: u32 = 1_000;

fn now_s() -> i64 {
    (unix_ms() / 1_000) as i64
}

/// Converts milliseconds to seconds.
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Reads a time of a caller, rounded down to seconds.
fn parse_time(parameter: &str, t_s: f64) -> Outcome<i64> {
    // Up to the year 9999.
    match t_s.is_finite() && (0.0..=253_402_300_799.0).contains(&t_s) {
        true => Ok(t_s.floor() as i64),
        false => Err(to_problem(Refusal::value(parameter, t_s, "it must be a time from 1970 to 9999, in Unix seconds"))),
    }
}

/// Turns a refusal of CloudWatch's rules into the error of a call.
fn refuse<T>(result: Result<T, Refusal>) -> Outcome<T> {
    result.map_err(to_problem)
}

/// Adds values of metrics of the user's own.
pub fn put_metric_data(engine: &Engine, args: PutMetrics) -> Outcome<()> {
    let data: Vec<Datum> = read("MetricData", args.data)?;
    refuse(lock(&engine.metrics.custom).put(&args.namespace, data, now_s()))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct DimensionFilter {
    name: String,
    #[serde(default)]
    value: Option<String>,
}

/// Lists the metrics that have points and that a filter admits, page by page.
pub fn list_metrics(engine: &Engine, args: MetricFilter) -> Outcome<MetricNames> {
    let filters: Vec<DimensionFilter> = args.dimensions.map_or(Ok(Vec::new()), |dimensions| read("Dimensions", dimensions))?;
    let after = refuse(args.next_token.as_deref().map(parse_place).transpose())?;
    let now_s = now_s();
    let newest_points = Reader::new(&engine.metrics, now_s).metrics();
    let mut names = newest_points.into_iter().filter(|(id, newest)| {
        args.namespace.as_ref().is_none_or(|namespace| id.namespace == *namespace)
            && args.name.as_ref().is_none_or(|name| id.name == *name)
            && filters.iter().all(|filter| id.dimensions.get(&filter.name).is_some_and(|value| filter.value.as_ref().is_none_or(|expected| expected == value)))
            && (!args.recently_active.unwrap_or(false) || newest + RECENT_S >= now_s)
            && after.as_ref().is_none_or(|after| sort_key(id) > *after)
    });
    let page: Vec<_> = names.by_ref().take(METRICS_A_PAGE).map(|(id, _)| id).collect();
    let next_token = names.next().and_then(|_| page.last().map(|id| token(&sort_key(id))));
    let metrics = page.into_iter().map(|id| MetricName { namespace: id.namespace, name: id.name, dimensions: id.dimensions });
    Ok(MetricNames { metrics: metrics.collect(), next_token })
}

/// Returns the text by which metrics are sorted. Parts are set apart by control characters, which
/// names do not have.
fn sort_key(id: &headrace_cloudwatch::MetricId) -> String {
    let dimensions: Vec<String> = id.dimensions.iter().map(|(name, value)| format!("{name}\u{1}{value}")).collect();
    format!("{}\u{0}{}\u{0}{}", id.namespace, id.name, dimensions.join("\u{1}"))
}

/// Computes statistics of a metric.
pub fn get_metric_statistics(engine: &Engine, args: StatisticsRequest) -> Outcome<MetricStatistics> {
    let dimensions: Vec<Dimension> = args.dimensions.map_or(Ok(Vec::new()), |dimensions| read("Dimensions", dimensions))?;
    let unit: Option<Unit> = refuse(args.unit.map(Unit::try_from).transpose())?;
    let names = match (args.statistics, args.extended) {
        (Some(simple), None) => simple,
        (None, Some(extended)) => extended,
        (None, None) => return Err(to_problem(Refusal::missing("Statistics"))),
        _ => {
            let sentence = "The parameters Statistics and ExtendedStatistics exclude each other.";
            return Err(to_problem(Refusal::new(Code::InvalidParameterCombination, "Statistics", sentence)));
        }
    };
    let statistics: Vec<(String, Statistic)> = refuse(names.into_iter().map(|name| name.parse().map(|statistic| (name, statistic))).collect())?;
    refuse(check_period(args.period_s))?;
    let (now_s, start_s, end_s) = (now_s(), parse_time("StartTime", args.start_s)?, parse_time("EndTime", args.end_s)?);
    if end_s <= start_s {
        return Err(to_problem(Refusal::new(Code::InvalidParameterValue, "StartTime", headrace_cloudwatch::wrong_times(start_s, end_s))));
    }
    let window = Window { start_s: rounded_start(start_s, now_s, args.period_s), end_s, period_s: args.period_s };
    if window.len() > MOST_DATAPOINTS {
        let sentence = format!(
            "You have requested up to {} datapoints, which exceeds the limit of {MOST_DATAPOINTS}. You may reduce the datapoints requested by increasing Period, or decreasing the time range.",
            window.len()
        );
        return Err(to_problem(Refusal::new(Code::InvalidParameterCombination, window.len().to_string(), sentence)));
    }
    let spec = MetricSpec { namespace: args.namespace, metric_name: args.name.clone(), dimensions };
    let id = refuse(spec.id())?;
    let values = Reader::new(&engine.metrics, now_s).values(&id, window.start_s, window.end_s);
    let mut datapoints = Vec::new();
    // Values of different units are apart, as in CloudWatch.
    let mut units: Vec<Unit> = values.iter().map(|(_, unit, _)| *unit).filter(|candidate| unit.is_none_or(|unit| unit == *candidate)).collect();
    units.sort();
    units.dedup();
    for unit in units {
        let mut periods: BTreeMap<i64, serde_json::Map<String, Value>> = BTreeMap::new();
        for (name, statistic) in &statistics {
            let of_unit = values.iter().filter(|(_, candidate, _)| *candidate == unit).map(|(t_s, _, distribution)| (*t_s, distribution));
            for (t_s, value) in headrace_cloudwatch::aggregate(of_unit, &window, *statistic) {
                periods.entry(t_s).or_default().insert(name.clone(), json!(value));
            }
        }
        datapoints.extend(periods.into_iter().map(|(t_s, values)| Datapoint { t_s, unit: unit.to_string(), values: Value::Object(values) }));
    }
    datapoints.sort_by_key(|point| point.t_s);
    Ok(MetricStatistics { label: args.name, datapoints })
}

/// Computes points of metrics and expressions.
pub fn get_metric_data(engine: &Engine, args: DataRequest) -> Outcome<MetricData> {
    let queries: Vec<Query> = read("MetricDataQueries", args.queries)?;
    if let Some(other) = queries.iter().filter_map(|query| query.account_id.as_deref()).find(|account| *account != ACCOUNT) {
        return Err(to_problem(Refusal::value("AccountId", other, format_args!("the lab has one account, {ACCOUNT}"))));
    }
    let newest_first = match args.scan_by.as_deref() {
        None | Some("TimestampDescending") => true,
        Some("TimestampAscending") => false,
        Some(other) => return Err(to_problem(Refusal::value("ScanBy", other, "it must be TimestampDescending or TimestampAscending"))),
    };
    let most = args.max_datapoints.unwrap_or(MAX_DATAPOINTS as u32) as usize;
    if !(1..=MAX_DATAPOINTS).contains(&most) {
        return Err(to_problem(Refusal::value("MaxDatapoints", most, format_args!("it must be 1 to {MAX_DATAPOINTS}"))));
    }
    let from = refuse(args.next_token.as_deref().map(parse_data_place).transpose())?;
    let range = (parse_time("StartTime", args.start_s)?, parse_time("EndTime", args.end_s)?);
    let now_s = now_s();
    let mut reader = Reader::new(&engine.metrics, now_s);
    let results = refuse(evaluate(&queries, range, now_s, &mut |stat: &MetricStat, window: &Window| reader.points(stat, window)))?;
    let results = results.into_iter().map(|result| (result.id, result.label, result.points)).collect();
    Ok(take_page(results, newest_first, most, from))
}

/// Reads a token of GetMetricData: the number of a result, and its last time in the answer before,
/// Unix seconds.
fn parse_data_place(text: &str) -> Result<(usize, Option<i64>), Refusal> {
    let wrong = || Refusal::new(Code::InvalidNextToken, text, "The value for NextToken is not one of an earlier answer.");
    let place = parse_place(text)?;
    let (index, t_s) = place.split_once(':').ok_or_else(wrong)?;
    let t_s = if t_s.is_empty() { None } else { Some(t_s.parse().map_err(|_| wrong())?) };
    Ok((index.parse().map_err(|_| wrong())?, t_s))
}

/// Returns a page of GetMetricData: at most `most` points of the results, from `from` on (the
/// number of a result, and the last time of it that the page before had), and the place at which
/// the next page begins.
fn take_page(results: Vec<(String, String, Points)>, newest_first: bool, most: usize, from: Option<(usize, Option<i64>)>) -> MetricData {
    let (first, after) = from.unwrap_or((0, None));
    let (mut room, mut next) = (most, None);
    let mut page = Vec::new();
    for (index, (id, label, points)) in results.into_iter().enumerate().skip(first) {
        if room == 0 {
            next = Some((index, None));
            break;
        }
        let after = after.filter(|_| index == first);
        let mut points: Vec<(i64, f64)> =
            points.into_iter().filter(|(t_s, _)| after.is_none_or(|after| if newest_first { *t_s < after } else { *t_s > after })).collect();
        if newest_first {
            points.reverse();
        }
        let whole = points.len() <= room;
        points.truncate(room);
        room -= points.len();
        let (times_s, values): (Vec<i64>, Vec<f64>) = points.into_iter().unzip();
        if !whole {
            next = Some((index, times_s.last().copied()));
        }
        let status = if whole { "Complete" } else { "PartialData" }.to_string();
        page.push(MetricResult { id, label, status, times_s, values });
        if !whole {
            break;
        }
    }
    let next_token = next.map(|(index, t_s)| token(&format!("{index}:{}", t_s.map_or_else(String::new, |t_s: i64| t_s.to_string()))));
    MetricData { results: page, next_token }
}

/// Makes an alarm or replaces its configuration.
pub fn put_alarm(engine: &Engine, args: PutAlarm) -> Outcome<()> {
    let mut given = args.alarm;
    if let Some(other) = given["ComparisonOperator"].as_str().filter(|operator| operator.contains("LowerThreshold") || operator.contains("UpperThreshold")) {
        let rule = "it compares with a band of normal values, which the lab does not have; use GreaterThanThreshold or LessThanThreshold";
        return Err(to_problem(Refusal::value("ComparisonOperator", other, rule)));
    }
    // A member that is null was left out.
    if let Some(members) = given.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    let spec: AlarmSpec = read("PutMetricAlarm", given)?;
    let tags = args.tags.unwrap_or_default();
    let actions: Vec<String> = [&spec.ok_actions, &spec.alarm_actions, &spec.insufficient_data_actions].into_iter().flatten().cloned().collect();
    // The rules of the alarm come first: their words are CloudWatch's.
    refuse(spec.check())?;
    for action in actions.iter().filter(|action| headrace_control::action_parts(action).is_some()) {
        engine.alarms.actions.check(action).map_err(|rule| to_problem(Refusal::value("AlarmActions", action, rule)))?;
    }
    engine.alarms.command(AlarmCommand::Put { spec: Box::new(spec), tags }).map(drop)
}

fn region(engine: &Engine) -> String {
    engine.ledger.lab(|lab| lab.settings.region.clone())
}

/// Returns an alarm as the protocol shows it.
fn alarm_view(record: &AlarmRecord, region: &str) -> AlarmView {
    AlarmView {
        arn: format!("arn:aws:cloudwatch:{region}:{ACCOUNT}:alarm:{}", record.spec.alarm_name),
        alarm: serde_json::to_value(&record.spec).unwrap_or_default(),
        tags: record.tags.clone(),
        configured_s: seconds(record.configured_ms),
        state: record.state.as_str().to_string(),
        reason: record.reason.clone(),
        reason_data: record.reason_data.clone(),
        state_s: seconds(record.state_ms),
        transitioned_s: seconds(record.transitioned_ms),
    }
}

/// The members of DescribeAlarmsForMetric.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct AlarmsForMetric {
    namespace: String,
    metric_name: String,
    #[serde(default)]
    dimensions: Vec<Dimension>,
    #[serde(default)]
    statistic: Option<String>,
    #[serde(default)]
    extended_statistic: Option<String>,
    #[serde(default)]
    period: Option<u32>,
    #[serde(default)]
    unit: Option<Unit>,
}

impl AlarmsForMetric {
    /// Returns true if an alarm is on this metric; members that are None match any.
    fn matches(&self, spec: &AlarmSpec) -> bool {
        let sorted = |dimensions: &[Dimension]| -> BTreeMap<String, String> {
            dimensions.iter().map(|dimension| (dimension.name.clone(), dimension.value.clone())).collect()
        };
        let admits = |filter: &Option<String>, value: &Option<String>| filter.is_none() || filter == value;
        spec.namespace.as_ref() == Some(&self.namespace)
            && spec.metric_name.as_ref() == Some(&self.metric_name)
            && sorted(&spec.dimensions) == sorted(&self.dimensions)
            && admits(&self.statistic, &spec.statistic)
            && admits(&self.extended_statistic, &spec.extended_statistic)
            && (self.period.is_none() || self.period == spec.period)
            && (self.unit.is_none() || self.unit == spec.unit)
    }
}

/// Checks the number of records that a page may have (None: `default`), and returns it.
fn check_page_size(most: Option<u32>, default: u32) -> Outcome<usize> {
    let most = most.unwrap_or(default);
    match (1..=MOST_RECORDS).contains(&most) {
        true => Ok(most as usize),
        false => Err(to_problem(Refusal::value("MaxRecords", most, format_args!("it must be 1 to {MOST_RECORDS}")))),
    }
}

/// Returns the alarms that a filter admits, by name.
pub fn describe_alarms(engine: &Engine, args: AlarmFilter) -> Outcome<AlarmList> {
    if args.names.is_some() && args.prefix.is_some() {
        let sentence = "The parameters AlarmNames and AlarmNamePrefix exclude each other.";
        return Err(to_problem(Refusal::new(Code::InvalidParameterCombination, "AlarmNames", sentence)));
    }
    let state: Option<State> = refuse(args.state.as_deref().map(State::read).transpose())?;
    let metric: Option<AlarmsForMetric> = args.metric.map(|metric| read("DescribeAlarmsForMetric", metric)).transpose()?;
    let after = refuse(args.next_token.as_deref().map(parse_place).transpose())?;
    let most = if metric.is_some() { usize::MAX } else { check_page_size(args.most, RECORDS)? };
    let region = region(engine);
    let matches = |record: &&AlarmRecord| {
        let name = &record.spec.alarm_name;
        args.names.as_ref().is_none_or(|names| names.contains(name))
            && args.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix))
            && state.is_none_or(|state| state == record.state)
            && metric.as_ref().is_none_or(|metric| metric.matches(&record.spec))
            && args.action_prefix.as_ref().is_none_or(|prefix| {
                [State::Ok, State::Alarm, State::InsufficientData]
                    .into_iter()
                    .any(|state| record.spec.actions(state).iter().any(|action| action.starts_with(prefix)))
            })
            && after.as_ref().is_none_or(|after| name > after)
    };
    Ok(engine.ledger.lab(|lab| {
        let mut records = lab.alarms.by_name.values().filter(matches);
        let alarms: Vec<AlarmView> = records.by_ref().take(most).map(|record| alarm_view(record, &region)).collect();
        let last = alarms.last().and_then(|alarm| alarm.alarm["AlarmName"].as_str());
        let next_token = records.next().and(last).map(token);
        AlarmList { alarms, next_token }
    }))
}

/// Checks the number of names of a call, and returns the names.
fn check_names(names: Vec<String>) -> Outcome<Vec<String>> {
    match names.len() {
        0 => Err(to_problem(Refusal::missing("AlarmNames"))),
        many if many > MOST_NAMES => Err(to_problem(Refusal::value("AlarmNames", many, format_args!("a call has at most {MOST_NAMES} of them")))),
        _ => Ok(names),
    }
}

/// Deletes alarms.
pub fn delete_alarms(engine: &Engine, names: Vec<String>) -> Outcome<()> {
    engine.alarms.command(AlarmCommand::Delete { names: check_names(names)? }).map(drop)
}

/// Switches actions on or off.
pub fn enable_actions(engine: &Engine, names: Vec<String>, enabled: bool) -> Outcome<()> {
    engine.alarms.command(AlarmCommand::EnableActions { names: check_names(names)?, enabled }).map(drop)
}

/// Sets the state of an alarm.
pub fn set_alarm_state(engine: &Engine, args: AlarmState) -> Outcome<()> {
    let AlarmState { name, state, reason, reason_data } = args;
    let state = refuse(State::read(&state))?;
    engine.alarms.command(AlarmCommand::SetState { name, state, reason, reason_data }).map(drop)
}

/// Returns the history of alarms.
pub fn alarm_history(engine: &Engine, args: HistoryFilter) -> Outcome<AlarmHistory> {
    let kinds = ["ConfigurationUpdate", "StateUpdate", "Action"];
    if let Some(other) = args.kind.as_deref().filter(|kind| !kinds.contains(kind)) {
        return Err(to_problem(Refusal::value("HistoryItemType", other, format_args!("it must be one of {}", kinds.join(", ")))));
    }
    let oldest_first = args.oldest_first.unwrap_or(false);
    let wrong = |text: &str| to_problem(Refusal::new(Code::InvalidNextToken, text, "The value for NextToken is not one of an earlier answer."));
    let after = refuse(args.next_token.as_deref().map(parse_place).transpose())?.map(|text| text.parse::<u64>().map_err(|_| wrong(&text))).transpose()?;
    let most = check_page_size(args.most, MOST_RECORDS)?;
    let matches = |item: &&HistoryItem| {
        let t_s = seconds(item.wall_ms);
        args.name.as_ref().is_none_or(|name| *name == item.name)
            && args.kind.as_ref().is_none_or(|kind| *kind == item.kind)
            && args.start_s.is_none_or(|start_s| t_s >= start_s)
            && args.end_s.is_none_or(|end_s| t_s < end_s)
            && after.is_none_or(|after| if oldest_first { item.number > after } else { item.number < after })
    };
    Ok(engine.ledger.lab(|lab| {
        let mut items: Vec<&HistoryItem> = lab.alarms.history.iter().filter(matches).collect();
        if !oldest_first {
            items.reverse();
        }
        let more = items.len() > most;
        items.truncate(most);
        let next_token = items.last().filter(|_| more).map(|item| token(&item.number.to_string()));
        let show = |item: &HistoryItem| AlarmHistoryItem {
            name: item.name.clone(),
            t_s: seconds(item.wall_ms),
            kind: item.kind.clone(),
            summary: item.summary.clone(),
            data: item.data.clone(),
        };
        AlarmHistory { items: items.into_iter().map(show).collect(), next_token }
    }))
}

/// Returns the name in the ARN of an alarm of the lab; any other ARN is refused.
fn alarm_name(engine: &Engine, arn: &str) -> Outcome<String> {
    let prefix = format!("arn:aws:cloudwatch:{}:{ACCOUNT}:alarm:", region(engine));
    let name = arn.strip_prefix(&prefix).filter(|name| !name.is_empty());
    name.map(ToString::to_string).ok_or_else(|| to_problem(Refusal::value("ResourceARN", arn, format_args!("an alarm of the lab has {prefix}NAME"))))
}

/// Turns the error of an alarm that does not exist into the code it has where tags are asked for.
fn refuse_as_tag_call<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|problem| match problem.code.as_str() {
        "ResourceNotFound" => {
            let message = problem.message.clone();
            problem.says("ResourceNotFoundException", message)
        }
        _ => problem,
    })
}

/// Returns the tags of an alarm.
pub fn alarm_tags(engine: &Engine, arn: &str) -> Outcome<AlarmTags> {
    let name = alarm_name(engine, arn)?;
    let tags = engine.ledger.lab(|lab| lab.alarms.find(&name).map(|alarm| alarm.tags.clone())).map_err(Problem::from);
    refuse_as_tag_call(tags).map(|tags| AlarmTags { tags })
}

/// Sets and removes tags of an alarm.
pub fn tag_alarm(engine: &Engine, args: AlarmTagRequest) -> Outcome<()> {
    let name = alarm_name(engine, &args.arn)?;
    let command = AlarmCommand::Tag { name, set: args.set.unwrap_or_default(), remove: args.remove.unwrap_or_default() };
    refuse_as_tag_call(engine.alarms.command(command)).map(drop)
}

/// Returns the events after a cursor.
pub fn events_since(engine: &Engine, args: EventsRequest) -> Outcome<LabEvents> {
    let most = args.most.unwrap_or(MOST_EVENTS);
    if !(1..=MOST_EVENTS).contains(&most) {
        return Err(bad_input(most.to_string(), format!("an answer has 1 to {MOST_EVENTS} events"), "Ask again with the cursor of the answer for more."));
    }
    let from = match args.cursor.as_deref() {
        None => None,
        Some("now") => Some(engine.ledger.state(|state| state.events.next())),
        Some(text) => {
            let wrong = || bad_input(text, "is not a cursor of an earlier answer", "Leave it out for the oldest events, or give `now`.");
            Some(text.parse::<u64>().map_err(|_| wrong())?)
        }
    };
    let (events, lost, next) = engine.ledger.state(|state| state.events.since(from.unwrap_or(0), most as usize));
    // Without a cursor nothing was promised that could be lost.
    Ok(LabEvents { events, cursor: next.to_string(), lost: from.map_or(0, |_| lost) })
}

/// Returns the NVMe statistics page of an attached volume.
pub fn nvme_statistics(engine: &Engine, args: StatisticsPageRequest) -> Outcome<StatisticsPage> {
    let record = engine.ledger.find(&args.volume)?;
    let members = record.members.len() as u32;
    if let Some(member) = args.member.filter(|member| members < 2 || *member >= members) {
        let rule = if members < 2 { "the volume is not an array".to_string() } else { format!("the array has members 0 to {}", members - 1) };
        return Err(bad_input(member.to_string(), rule, "Leave the member out for the volume as a whole."));
    }
    let queue_length = engine.volumes.queue_length(&record)?;
    let page = engine.metrics.store.nvme_page(record.id.as_str(), args.member, queue_length).map_err(|error| from_io("reading metrics", &error))?;
    Ok(StatisticsPage { page_hex: page.iter().map(|byte| format!("{byte:02x}")).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every page size gives the same points in the same order, and each page but the last is full.
    #[test]
    fn pages_together_are_the_whole() {
        let series = |many: i64| (0..many).map(|n| (n * 60, n as f64)).collect::<Points>();
        let results = || vec![("a".to_string(), "A".to_string(), series(7)), ("b".into(), "B".into(), series(0)), ("c".into(), "C".into(), series(5))];
        for newest_first in [true, false] {
            let flat = |data: &MetricData| -> Vec<(String, i64)> {
                data.results.iter().flat_map(|result| result.times_s.iter().map(|t_s| (result.id.clone(), *t_s))).collect()
            };
            let whole = take_page(results(), newest_first, 100, None);
            assert_eq!((flat(&whole).len(), whole.results.len(), whole.next_token.as_deref()), (12, 3, None));
            for most in 1..13 {
                let (mut collected, mut from) = (Vec::new(), None);
                loop {
                    let page = take_page(results(), newest_first, most, from);
                    let points = flat(&page);
                    assert!(points.len() == most || page.next_token.is_none(), "{most}: {points:?}");
                    collected.extend(points);
                    match page.next_token {
                        None => break,
                        Some(token) => from = Some(parse_data_place(&token).unwrap()),
                    }
                }
                assert_eq!(collected, flat(&whole), "{most} a page");
            }
        }
        for wrong in ["", "x", "zz", "00", &token("1"), &token("x:1"), &token("1:x"), "\u{e9}\u{e9}"] {
            assert_eq!(parse_data_place(wrong).unwrap_err().code, Code::InvalidNextToken, "{wrong:?}");
        }
    }
}
