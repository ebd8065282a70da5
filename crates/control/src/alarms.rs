//! Alarms: what is asked of them, what happened to them, where they stand.
//!
//! Times of alarms are those of the wall clock, because metrics are: lab time stands still while a
//! lab is down, and may run faster. So they come with the request.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::tags::check_tags;
use headrace_cloudwatch::alarm::{AlarmSpec, State};
use headrace_cloudwatch::{Code, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};

/// Most alarms of a lab: a rule of the lab, so that evaluating all of them every minute stays a
/// matter of milliseconds. CloudWatch allows 5,000.
pub const MAX_ALARMS: usize = 1_000;
/// Items of history that are kept, of all alarms together. CloudWatch keeps 30 days; this many take
/// a megabyte of a checkpoint at most.
pub const MAX_ALARM_HISTORY: usize = 1_000;
/// Longest reason of a state and its data, characters (service model, 2010-08-01).
const MAX_REASON_CHARS: usize = 1_023;
const MAX_REASON_DATA_CHARS: usize = 4_000;
/// Beginning of the ARN of an action of the lab; the type of the action follows. Region and account
/// are those of the lab.
const ACTION_PREFIX: &str = "arn:aws:headrace:";
/// Services whose ARNs CloudWatch takes as actions of alarms (CloudWatch API, PutMetricAlarm).
const RECORDED: [&str; 7] = ["sns", "lambda", "autoscaling", "automate", "swf", "ssm", "ssm-incidents"];

/// A command about alarms, and the wall time it came at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmRequest {
    /// Unix milliseconds of the wall clock.
    pub wall_ms: u64,
    /// Command.
    pub command: AlarmCommand,
}

/// Commands about alarms. Commands marked *daemon* report what the daemon saw or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmCommand {
    /// Makes an alarm, or replaces all of its configuration. Tags count for a new one only.
    Put {
        /// Whole configuration.
        spec: Box<AlarmSpec>,
        /// Tags.
        tags: BTreeMap<String, String>,
    },
    /// Deletes alarms: all that are named, or none.
    Delete {
        /// Names.
        names: Vec<String>,
    },
    /// Sets the state until it is evaluated again.
    SetState {
        /// Name.
        name: String,
        /// State.
        state: State,
        /// Reason of the state.
        reason: String,
        /// Reason of the state, as JSON.
        reason_data: Option<String>,
    },
    /// Switches actions on or off. Names without an alarm are left out, as CloudWatch does.
    EnableActions {
        /// Names.
        names: Vec<String>,
        /// True to carry the actions out.
        enabled: bool,
    },
    /// Removes tags by key, then sets tags.
    Tag {
        /// Name.
        name: String,
        /// Tags to set.
        set: BTreeMap<String, String>,
        /// Keys to remove.
        remove: Vec<String>,
    },
    /// *Daemon*: an evaluation ended.
    Evaluated {
        /// Name.
        name: String,
        /// State.
        state: State,
        /// Reason of the state.
        reason: String,
        /// Reason of the state, as JSON.
        reason_data: String,
    },
    /// *Daemon*: an action was tried.
    ActionDone {
        /// Name.
        name: String,
        /// The action.
        action: String,
        /// True if the action was carried out.
        succeeded: bool,
        /// Sentence about the result.
        outcome: String,
    },
}

/// Changes of alarms. Written to the journal: nothing is renamed or taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields are those of the commands
pub enum AlarmChange {
    /// The alarm has this configuration from now on.
    Put {
        wall_ms: u64,
        spec: Box<AlarmSpec>,
        #[serde(default)]
        tags: BTreeMap<String, String>,
    },
    /// The alarm is gone.
    Deleted { wall_ms: u64, name: String },
    /// The alarm is in this state from now on.
    StateSet {
        wall_ms: u64,
        name: String,
        state: State,
        reason: String,
        #[serde(default)]
        reason_data: Option<String>,
    },
    /// The actions of the alarm are switched on or off.
    ActionsEnabled { wall_ms: u64, name: String, enabled: bool },
    /// Keys removed, then tags set.
    Tagged {
        name: String,
        #[serde(default)]
        set: BTreeMap<String, String>,
        #[serde(default)]
        remove: Vec<String>,
    },
    /// An action was tried.
    ActionDone { wall_ms: u64, name: String, action: String, succeeded: bool, outcome: String },
}

impl AlarmChange {
    /// Returns the name of the alarm.
    pub fn name(&self) -> &str {
        match self {
            AlarmChange::Put { spec, .. } => &spec.alarm_name,
            AlarmChange::Deleted { name, .. }
            | AlarmChange::StateSet { name, .. }
            | AlarmChange::ActionsEnabled { name, .. }
            | AlarmChange::Tagged { name, .. }
            | AlarmChange::ActionDone { name, .. } => name,
        }
    }

    /// Returns true if the change must be on disk before any caller gets its answer. The result of
    /// an action need not be.
    pub fn must_last(&self) -> bool {
        !matches!(self, AlarmChange::ActionDone { .. })
    }
}

/// An alarm. Times are Unix milliseconds of the wall clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmRecord {
    /// Configuration of the alarm.
    pub spec: AlarmSpec,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Time of the last configuration, Unix milliseconds.
    pub configured_ms: u64,
    /// State of the alarm.
    pub state: State,
    /// Reason of the state.
    pub reason: String,
    /// Reason of the state, as JSON.
    #[serde(default)]
    pub reason_data: Option<String>,
    /// Time at which the state was set last, Unix milliseconds.
    pub state_ms: u64,
    /// Time at which the state became another, Unix milliseconds.
    pub transitioned_ms: u64,
}

/// Item of the history of an alarm, as DescribeAlarmHistory shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryItem {
    /// Number in order, from 0 on, never used again.
    pub number: u64,
    /// Unix milliseconds of the wall clock.
    pub wall_ms: u64,
    /// Name of the alarm.
    pub name: String,
    /// `ConfigurationUpdate`, `StateUpdate` or `Action`.
    pub kind: String,
    /// A sentence.
    pub summary: String,
    /// Data about the item, as JSON.
    pub data: String,
}

/// The alarms of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alarms {
    /// The alarms, by name.
    pub by_name: BTreeMap<String, AlarmRecord>,
    /// The last [`MAX_ALARM_HISTORY`] items, oldest first. An alarm's items outlive it.
    pub history: VecDeque<HistoryItem>,
    /// Number of the next item.
    pub next_item: u64,
}

/// Makes a refusal with CloudWatch's code and sentence.
pub fn refused(refusal: Refusal) -> ControlError {
    let kind = match refusal.code {
        Code::ResourceNotFound => ErrorKind::NotFound,
        Code::LimitExceeded => ErrorKind::LimitExceeded,
        _ => ErrorKind::InvalidParameter,
    };
    let hint = "See the page on metrics and alarms, docs/guide/metrics.md.";
    let rule = refusal.message.trim_end_matches('.').to_string();
    ControlError::new(kind, refusal.value, rule, "CloudWatch API text, PyPI botocore 1.43.11", hint).says(refusal.code.as_str(), refusal.message)
}

/// Returns the service of an action of AWS, which CloudWatch takes and the lab only records: it has
/// none of these services (CloudWatch API, PutMetricAlarm, AlarmActions).
pub fn recorded_action(action: &str) -> Option<&str> {
    let mut parts = action.splitn(6, ':');
    let (arn, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
    let (_region, _account, resource) = (parts.next()?, parts.next()?, parts.next()?);
    (arn == "arn" && partition.starts_with("aws") && RECORDED.contains(&service) && !resource.is_empty()).then_some(service)
}

/// Returns the kind and name of an action: `("command", NAME)` or `("webhook", NAME)`.
pub fn action_parts(action: &str) -> Option<(&str, &str)> {
    let mut parts = action.strip_prefix(ACTION_PREFIX)?.splitn(3, ':');
    let (_region, _account, resource) = (parts.next()?, parts.next()?, parts.next()?);
    let (kind, name) = resource.split_once('/')?;
    let well_formed = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    (["command", "webhook"].contains(&kind) && well_formed).then_some((kind, name))
}

impl Alarms {
    /// Returns an alarm by its name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<&AlarmRecord, ControlError> {
        let missing = || refused(Refusal::new(Code::ResourceNotFound, name, format!("Unknown alarm {name}: there is none of that name.")));
        self.by_name.get(name).ok_or_else(missing)
    }

    /// Returns the changes that a command makes; changes nothing. An evaluation that finds the same
    /// state, and one of an alarm that was deleted meanwhile, make none.
    pub(crate) fn decide(&self, request: &AlarmRequest) -> Result<Vec<AlarmChange>, ControlError> {
        let wall_ms = request.wall_ms;
        match &request.command {
            AlarmCommand::Put { spec, tags } => self.put(spec, tags, wall_ms),
            AlarmCommand::Delete { names } => {
                names.iter().try_for_each(|name| self.find(name).map(drop))?;
                let mut names = names.clone();
                names.sort();
                names.dedup();
                Ok(names.into_iter().map(|name| AlarmChange::Deleted { wall_ms, name }).collect())
            }
            AlarmCommand::SetState { name, state, reason, reason_data } => {
                self.find(name)?;
                check_reason(reason, reason_data.as_deref())?;
                Ok(vec![AlarmChange::StateSet { wall_ms, name: name.clone(), state: *state, reason: reason.clone(), reason_data: reason_data.clone() }])
            }
            AlarmCommand::EnableActions { names, enabled } => {
                let changed = names.iter().filter(|name| self.by_name.get(*name).is_some_and(|alarm| alarm.spec.actions_enabled != *enabled));
                Ok(changed.map(|name| AlarmChange::ActionsEnabled { wall_ms, name: name.clone(), enabled: *enabled }).collect())
            }
            AlarmCommand::Tag { name, set, remove } => {
                let mut after = self.find(name)?.tags.clone();
                after.retain(|key, _| !remove.contains(key));
                after.extend(set.clone());
                check_tags(set, after.len())?;
                Ok(vec![AlarmChange::Tagged { name: name.clone(), set: set.clone(), remove: remove.clone() }])
            }
            AlarmCommand::Evaluated { name, state, reason, reason_data } => {
                // It may have been deleted meanwhile; the same state again changes nothing.
                let changed = self.by_name.get(name).filter(|alarm| alarm.state != *state);
                let (reason, reason_data) = (reason.clone(), Some(reason_data.clone()));
                Ok(changed.map(|_| AlarmChange::StateSet { wall_ms, name: name.clone(), state: *state, reason, reason_data }).into_iter().collect())
            }
            AlarmCommand::ActionDone { name, action, succeeded, outcome } => {
                let (name, action, outcome) = (name.clone(), action.clone(), outcome.clone());
                Ok(vec![AlarmChange::ActionDone { wall_ms, name, action, succeeded: *succeeded, outcome }])
            }
        }
    }

    /// Checks the definition, the actions and the tags of an alarm, and returns the change that
    /// makes or replaces it. Tags count for a new alarm only.
    fn put(&self, spec: &AlarmSpec, tags: &BTreeMap<String, String>, wall_ms: u64) -> Result<Vec<AlarmChange>, ControlError> {
        spec.check().map_err(refused)?;
        for action in [&spec.ok_actions, &spec.alarm_actions, &spec.insufficient_data_actions].into_iter().flatten() {
            if action_parts(action).is_none() && recorded_action(action).is_none() {
                let rule = format!(
                    "the lab's actions are {ACTION_PREFIX}REGION:ACCOUNT:command/NAME and {ACTION_PREFIX}REGION:ACCOUNT:webhook/NAME; ARNs of {} are recorded",
                    RECORDED.join(", ")
                );
                return Err(refused(Refusal::value("AlarmActions", action, rule)));
            }
        }
        check_tags(tags, tags.len())?;
        let is_new = !self.by_name.contains_key(&spec.alarm_name);
        if is_new && self.by_name.len() >= MAX_ALARMS {
            let sentence = format!("A lab has at most {MAX_ALARMS} alarms; delete some first.");
            return Err(refused(Refusal::new(Code::LimitExceeded, &spec.alarm_name, sentence)));
        }
        let tags = if is_new { tags.clone() } else { BTreeMap::new() };
        Ok(vec![AlarmChange::Put { wall_ms, spec: Box::new(spec.clone()), tags }])
    }

    /// Applies a change, and adds an item to the history except for a change of tags. A change of
    /// an alarm that does not exist leaves the alarms as they are.
    pub(crate) fn apply(&mut self, change: &AlarmChange) {
        match change {
            AlarmChange::Put { wall_ms, spec, tags } => self.apply_definition(*wall_ms, spec, tags),
            AlarmChange::Deleted { wall_ms, name } => {
                self.by_name.remove(name);
                self.append_history(*wall_ms, name, "ConfigurationUpdate", format!("Alarm \"{name}\" deleted"), json!({"version": "1.0", "type": "Delete"}));
            }
            AlarmChange::StateSet { wall_ms, name, state, reason, reason_data } => {
                self.apply_state(*wall_ms, name, *state, reason, reason_data.as_deref());
            }
            AlarmChange::ActionsEnabled { wall_ms, name, enabled } => {
                let Some(alarm) = self.by_name.get_mut(name) else { return };
                alarm.spec.actions_enabled = *enabled;
                alarm.configured_ms = *wall_ms;
                let data = json!({"version": "1.0", "type": "Update", "actionsEnabled": enabled});
                self.append_history(*wall_ms, name, "ConfigurationUpdate", format!("Alarm \"{name}\" updated"), data);
            }
            AlarmChange::Tagged { name, set, remove } => {
                let Some(alarm) = self.by_name.get_mut(name) else { return };
                alarm.tags.retain(|key, _| !remove.contains(key));
                alarm.tags.extend(set.clone());
            }
            AlarmChange::ActionDone { wall_ms, name, action, succeeded, outcome } => {
                let summary = if *succeeded { format!("Successfully executed action {action}") } else { format!("Failed to execute action {action}") };
                let data = json!({"version": "1.0", "actionState": if *succeeded { "Succeeded" } else { "Failed" }, "notificationResource": action, "outcome": outcome});
                self.append_history(*wall_ms, name, "Action", summary, data);
            }
        }
    }

    /// Makes an alarm in the state INSUFFICIENT_DATA, or replaces the definition of one that
    /// exists, whose state, reason and tags stay.
    fn apply_definition(&mut self, wall_ms: u64, spec: &AlarmSpec, tags: &BTreeMap<String, String>) {
        let name = spec.alarm_name.clone();
        let (participle, kind) = match self.by_name.get_mut(&name) {
            Some(alarm) => {
                // The state stays until the next evaluation, as in CloudWatch.
                alarm.spec = spec.clone();
                alarm.configured_ms = wall_ms;
                ("updated", "Update")
            }
            None => {
                let alarm = AlarmRecord {
                    spec: spec.clone(),
                    tags: tags.clone(),
                    configured_ms: wall_ms,
                    state: State::InsufficientData,
                    reason: "Unchecked: Initial alarm creation".to_string(),
                    reason_data: None,
                    state_ms: wall_ms,
                    transitioned_ms: wall_ms,
                };
                self.by_name.insert(name.clone(), alarm);
                ("created", "Create")
            }
        };
        self.append_history(wall_ms, &name, "ConfigurationUpdate", format!("Alarm \"{name}\" {participle}"), json!({"version": "1.0", "type": kind}));
    }

    /// Sets state and reason of an alarm; an item of history is added only if the state is another
    /// one.
    fn apply_state(&mut self, wall_ms: u64, name: &str, state: State, reason: &str, reason_data: Option<&str>) {
        let Some(alarm) = self.by_name.get_mut(name) else { return };
        let state_data = |state: State, reason: &str| json!({"stateValue": state.as_str(), "stateReason": reason});
        let before = (alarm.state, state_data(alarm.state, &alarm.reason));
        alarm.reason = reason.to_string();
        alarm.reason_data = reason_data.map(ToString::to_string);
        alarm.state_ms = wall_ms;
        if before.0 == state {
            return;
        }
        alarm.state = state;
        alarm.transitioned_ms = wall_ms;
        let summary = format!("Alarm updated from {} to {}", before.0.as_str(), state.as_str());
        self.append_history(wall_ms, name, "StateUpdate", summary, json!({"version": "1.0", "oldState": before.1, "newState": state_data(state, reason)}));
    }

    /// Appends an item to the history, and drops the oldest beyond [`MAX_ALARM_HISTORY`]. `kind` is
    /// the HistoryItemType of CloudWatch.
    fn append_history(&mut self, wall_ms: u64, name: &str, kind: &str, summary: String, data: serde_json::Value) {
        let number = self.next_item;
        self.next_item += 1;
        let item = HistoryItem { number, wall_ms, name: name.to_string(), kind: kind.to_string(), summary, data: data.to_string() };
        self.history.push_back(item);
        while self.history.len() > MAX_ALARM_HISTORY {
            self.history.pop_front();
        }
    }
}

/// Checks the length of the reason of a state and of its data, in characters, and that the data are
/// JSON.
fn check_reason(reason: &str, data: Option<&str>) -> Result<(), ControlError> {
    for (name, text, most) in [("StateReason", reason, MAX_REASON_CHARS), ("StateReasonData", data.unwrap_or(""), MAX_REASON_DATA_CHARS)] {
        let chars = text.chars().count();
        if chars > most {
            return Err(refused(Refusal::value(name, format_args!("{chars} characters"), format_args!("it has at most {most} characters"))));
        }
    }
    if data.is_some_and(|data| serde_json::from_str::<serde_json::Value>(data).is_err()) {
        let error = ControlError::invalid("StateReasonData", "must be JSON", LAB_RULE, "Leave it out, or write it as JSON.");
        return Err(error.says("InvalidFormat", "The parameter StateReasonData must be valid JSON."));
    }
    Ok(())
}
