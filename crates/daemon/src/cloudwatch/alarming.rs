//! Evaluates alarms, and sets off their actions.
//!
//! A thread looks every second which alarms are due: those with periods of a minute or more when a
//! minute has passed, the others when a period has. The evaluation range ends at the last whole
//! minute (or period), so longer periods slide by a minute.

use crate::cloudwatch::actions::Actions;
use crate::cloudwatch::points::{Metrics, Reader};
use crate::engine::ledger::Ledger;
use crate::engine::parts::{lab_time, unix_ms};
use crate::events;
use crate::problem::Outcome;
use headrace_cloudwatch::alarm::{range, AlarmSpec, Rule, State, EXTRA_PERIODS};
use headrace_cloudwatch::{evaluate, MINUTE_S};
use headrace_control::{AlarmCommand, AlarmRecord, AlarmRequest, Change, Command, Event};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Delay between the end of a period and its evaluation, s: the row of a second is written when the
/// next second has begun.
const LAG_S: i64 = 2;
/// Interval between two looks for alarms that are due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Starts the threads that evaluate alarms and take their actions; they end with the lab.
///
/// # Errors
/// There cannot be another thread.
pub fn start(alarms: &Arc<Alarms>) -> std::io::Result<[JoinHandle<()>; 2]> {
    let (looking, acting) = (alarms.clone(), alarms.clone());
    let look = move || {
        let mut done = HashMap::new();
        while !looking.ledger.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
            looking.evaluate_due(&mut done, (unix_ms() / 1_000) as i64);
        }
    };
    Ok([
        std::thread::Builder::new().name("headrace-alarms".into()).spawn(look)?,
        std::thread::Builder::new().name("headrace-actions".into()).spawn(move || carry_out_actions(&acting))?,
    ])
}

/// Takes the actions that wait, until the lab goes down, and notes how they went.
fn carry_out_actions(alarms: &Alarms) {
    let note = |alarm: &str, action: &str, outcome: Result<String, String>| {
        let succeeded = outcome.is_ok();
        let outcome = outcome.unwrap_or_else(|reason| reason);
        if !succeeded {
            tracing::warn!("action {action} of alarm {alarm}: {outcome}");
        }
        let command = AlarmCommand::ActionDone { name: alarm.to_string(), action: action.to_string(), succeeded, outcome };
        if let Err(problem) = alarms.command(command) {
            tracing::error!("noting an action: {}", problem.rule);
        }
    };
    alarms.actions.serve(&|| alarms.ledger.is_stopping(), &note);
}

/// Result of an evaluation.
struct Verdict {
    state: State,
    reason: String,
    data: Value,
}

/// The alarms of a lab: their evaluation and their actions.
pub struct Alarms {
    pub(crate) ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
    /// Commands and webhooks that alarms set off.
    pub(crate) actions: Actions,
}

impl Alarms {
    /// Makes the alarms of a lab; `actions` are those of its folder.
    pub(crate) fn new(ledger: Arc<Ledger>, metrics: Arc<Metrics>, actions: Actions) -> Alarms {
        Alarms { ledger, metrics, actions }
    }

    /// Decides a command about alarms, and sets off the actions of states that it changes.
    pub fn command(&self, command: AlarmCommand) -> Outcome<Vec<Event>> {
        let request = AlarmRequest { wall_ms: unix_ms(), command };
        let before: Option<AlarmRecord> = match &request.command {
            AlarmCommand::SetState { name, .. } | AlarmCommand::Evaluated { name, .. } => self.ledger.lab(|lab| lab.alarms.by_name.get(name).cloned()),
            _ => None,
        };
        let events = self.ledger.command(&Command::Alarm(request))?;
        for event in &events {
            if let (Change::Alarm(headrace_control::AlarmChange::StateSet { wall_ms, state, reason, reason_data, .. }), Some(before)) = (&event.change, &before)
            {
                if before.state != *state && before.spec.actions_enabled {
                    let detail = events::alarm_detail(before, *state, reason, reason_data.as_deref(), *wall_ms);
                    before.spec.actions(*state).iter().for_each(|action| self.actions.add(&before.spec.alarm_name, action, &detail));
                }
            }
        }
        Ok(events)
    }

    /// Evaluates the alarms that are due. `done` has the configuration (Unix milliseconds) and the
    /// end of the range (Unix seconds) that were evaluated last, by alarm, and is updated.
    fn evaluate_due(&self, done: &mut HashMap<String, (u64, i64)>, now_s: i64) {
        let alarms: Vec<AlarmRecord> = self.ledger.lab(|lab| lab.alarms.by_name.values().cloned().collect());
        done.retain(|name, _| alarms.iter().any(|alarm| alarm.spec.alarm_name == *name));
        let mut reader = Reader::new(&self.metrics, now_s);
        for alarm in alarms {
            let Ok(queries) = alarm.spec.queries() else { continue };
            let step_s = i64::from(alarm.spec.period_s(&queries)).min(MINUTE_S);
            let end_s = (now_s - LAG_S).div_euclid(step_s) * step_s;
            let name = alarm.spec.alarm_name.clone();
            // A new configuration is evaluated at once.
            if done.insert(name.clone(), (alarm.configured_ms, end_s)) == Some((alarm.configured_ms, end_s)) || self.ledger.is_stopping() {
                continue;
            }
            let Some(verdict) = evaluate_alarm(&alarm, &mut reader, end_s, now_s) else { continue };
            if verdict.state == alarm.state {
                continue;
            }
            let command = AlarmCommand::Evaluated { name, state: verdict.state, reason: verdict.reason, reason_data: verdict.data.to_string() };
            if let Err(problem) = self.command(command) {
                tracing::error!("evaluating an alarm: {}: {}", problem.value, problem.rule);
            }
        }
    }
}

/// Returns true if an alarm that ignores percentiles of few values has fewer between two times (s)
/// than it needs. Without any value the data are missing, which has a rule of its own.
fn too_few_samples(spec: &AlarmSpec, reader: &mut Reader<'_>, (start_s, end_s): (i64, i64), now_s: i64) -> bool {
    let Some((least, counted)) = spec.least_samples() else { return false };
    let kept_s = now_s.min(start_s + headrace_cloudwatch::HOUR_S);
    let counts = evaluate(&[counted], (start_s, end_s), kept_s, &mut |stat, window| reader.points(stat, window));
    let points = counts.ok().and_then(|results| results.into_iter().next()).map(|result| result.points);
    let count = points.map_or(0.0, |points| points.values().sum::<f64>());
    count > 0.0 && count < least
}

/// Evaluates an alarm over its range that ends at `end_s`, Unix seconds. None: its state stays,
/// because its definition cannot be evaluated, there are too few samples, or missing points are
/// ignored.
fn evaluate_alarm(alarm: &AlarmRecord, reader: &mut Reader<'_>, end_s: i64, now_s: i64) -> Option<Verdict> {
    let queries = alarm.spec.queries().ok()?;
    let (rule, period_s) = (Rule::from_spec(&alarm.spec), alarm.spec.period_s(&queries));
    let periods = rule.periods + EXTRA_PERIODS;
    let start_s = end_s - i64::from(periods) * i64::from(period_s);
    // Points as old as the oldest period of the range are kept whatever their age is said to be.
    let results = evaluate(&queries, (start_s, end_s), now_s.min(start_s + headrace_cloudwatch::HOUR_S), &mut |stat, window| reader.points(stat, window));
    let points = results.ok()?.into_iter().next()?.points;
    let range = range(&points, end_s, period_s, periods);
    if too_few_samples(&alarm.spec, reader, (end_s - i64::from(rule.periods) * i64::from(period_s), end_s), now_s) {
        return None;
    }
    let state = rule.state(&range)?;
    let recent: Vec<f64> = range.iter().flatten().copied().collect();
    let recent = &recent[recent.len().saturating_sub(rule.periods as usize)..];
    let data = json!({
        "version": "1.0",
        "queryDate": lab_time(now_s as u64 * 1_000).replace('Z', "+0000"),
        "startDate": lab_time(start_s.max(0) as u64 * 1_000).replace('Z', "+0000"),
        "period": period_s,
        "recentDatapoints": recent,
        "threshold": rule.threshold,
    });
    Some(Verdict { state, reason: rule.reason(&range, state), data })
}
