//! Changes of state as events in EventBridge's shape, and the newest of them.
//!
//! Shapes are those of the EBS user guide, "Amazon EventBridge events for Amazon EBS", and of the
//! CloudWatch user guide, "Alarm events and EventBridge" (both read 2026-08). Events that the lab
//! has and AWS does not (a volume that became unusable, a device that is busy) have the same shape.
//!
//! An event is made when its change is written down, from the state before the change. The journal
//! is the truth: it is compacted, so the events have a log of their own, which a power cut may
//! leave without the newest.

use crate::line_log::LineLog;
use chrono::{DateTime, SecondsFormat};
use headrace_cloudwatch::alarm::State;
use headrace_control::keys::KeyChange;
use headrace_control::{AlarmChange, AlarmRecord, Change, Event, FastRestore, FastRestoreState, Lab, SnapshotChange, SnapshotId, SnapshotSource};
use headrace_control::{VolumeId, VolumeStatus};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::io;
use std::path::Path;

/// The lab's account, as everywhere in it.
pub const ACCOUNT: &str = "000000000000";
/// Events that are kept in memory: some 6 MB.
const MOST_EVENTS: usize = 10_000;
/// Most bytes of an alarm's metrics in an event; longer ones are left out.
const MOST_METRICS_BYTES: usize = 32 << 10;
/// Bytes of each of the log's two files.
const LOG_BYTES: u64 = 4 << 20;

/// The newest events.
pub struct EventLog {
    log: LineLog,
    /// The events in memory, by number.
    newest: VecDeque<(u64, Value)>,
    next: u64,
}

impl EventLog {
    /// Opens the log of a lab.
    ///
    /// # Errors
    /// An [`io::Error`] if the files of the log cannot be read.
    pub fn open(folder: &Path) -> io::Result<EventLog> {
        let (log, lines) = LineLog::open(&folder.join("events"), LOG_BYTES)?;
        let mut events = EventLog { log, newest: VecDeque::new(), next: 0 };
        for line in lines {
            let Ok(mut read) = serde_json::from_str::<Value>(&line) else { continue };
            let Some(number) = read["number"].as_u64().filter(|number| *number >= events.next) else { continue };
            events.add(number, read["event"].take());
        }
        Ok(events)
    }

    fn add(&mut self, number: u64, event: Value) {
        self.newest.push_back((number, event));
        self.next = number + 1;
        if self.newest.len() > MOST_EVENTS {
            self.newest.pop_front();
        }
    }

    /// Adds the event of a change to the log, if the change has one. `lab` is the state before the
    /// change.
    pub(crate) fn note(&mut self, lab: &Lab, event: &Event, wall_ms: u64, ids: &mut impl FnMut() -> u64) {
        let Some(body) = describe_change(lab, event) else { return };
        let event = make_event(body, &lab.settings.region, wall_ms, [ids(), ids()]);
        let line = json!({"number": self.next, "event": event}).to_string();
        if let Err(error) = self.log.append(&line) {
            tracing::warn!("an event is kept in memory only: {error}");
        }
        self.add(self.next, event);
    }

    /// Returns at most `most` events from the number `from` on, the number of events from `from` on
    /// that are no longer kept, and the number from which to ask next.
    pub fn since(&self, from: u64, most: usize) -> (Vec<Value>, u64, u64) {
        let oldest = self.newest.front().map_or(self.next, |(number, _)| *number);
        let lost = oldest.saturating_sub(from);
        let events: Vec<&(u64, Value)> = self.newest.iter().filter(|(number, _)| *number >= from).take(most).collect();
        let next = events.last().map_or(self.next.max(from.min(self.next)), |(number, _)| number + 1);
        (events.into_iter().map(|(_, event)| event.clone()).collect(), lost, next)
    }

    /// Returns the number of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }
}

fn format_time(ms: u64, digits: SecondsFormat) -> String {
    DateTime::from_timestamp_millis(ms as i64).unwrap_or_default().to_rfc3339_opts(digits, true)
}

/// Content of an event, before it has an envelope.
struct Body {
    source: &'static str,
    detail_type: &'static str,
    /// Services and what follows the account in their ARNs.
    resources: Vec<(&'static str, String)>,
    detail: Value,
}

/// Makes an event of EventBridge's shape. `random` are 128 bits for its id.
fn make_event(body: Body, region: &str, wall_ms: u64, random: [u64; 2]) -> Value {
    let [high, low] = random;
    // A random UUID: version 4, variant 1 (RFC 9562, 5.4).
    let id =
        format!("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xfff, 0x8000 | (low >> 48) & 0x3fff, low & 0xffff_ffff_ffff);
    let resources: Vec<String> = body.resources.iter().map(|(service, name)| format!("arn:aws:{service}:{region}:{ACCOUNT}:{name}")).collect();
    json!({
        "version": "0",
        "id": id,
        "detail-type": body.detail_type,
        "source": body.source,
        "account": ACCOUNT,
        "time": format_time(wall_ms, SecondsFormat::Secs),
        "region": region,
        "resources": resources,
        "detail": body.detail,
    })
}

fn describe_volume(volume: &VolumeId, event: &str, result: &str, cause: &str) -> Option<Body> {
    let detail = json!({"event": event, "result": result, "cause": cause, "request-id": ""});
    let resources = vec![("ec2", format!("volume/{volume}"))];
    Some(Body { source: "aws.ec2", detail_type: "EBS Volume Notification", resources, detail })
}

/// Returns the content of the event that tells of a change; None for a change without one. `lab` is
/// the state before the change.
fn describe_change(lab: &Lab, event: &Event) -> Option<Body> {
    match &event.change {
        Change::VolumeReady { volume } => match lab.volumes.get(volume)?.status {
            VolumeStatus::Creating => describe_volume(volume, "createVolume", "available", ""),
            // Files are back after a restart, of which AWS has no event.
            _ => None,
        },
        Change::VolumeFailed { volume, reason } => match lab.volumes.get(volume)?.status {
            VolumeStatus::Creating => describe_volume(volume, "createVolume", "failed", reason),
            _ => describe_volume(volume, "volumeError", "error", reason),
        },
        Change::VolumeDeleted { volume } => describe_volume(volume, "deleteVolume", "deleted", ""),
        Change::Attached { volume, .. } => {
            // The device is there again after a restart of the daemon.
            let is_again = lab.volumes.get(volume)?.attachment.as_ref().is_some_and(|attachment| attachment.attached_ms.is_some());
            describe_volume(volume, if is_again { "reattachVolume" } else { "attachVolume" }, "attached", "")
        }
        Change::AttachmentFailed { volume, reason } => describe_volume(volume, "attachVolume", "failed", reason),
        Change::Detached { volume } => describe_volume(volume, "detachVolume", "detached", ""),
        Change::DetachmentBusy { volume, reason, .. } => describe_volume(volume, "detachVolume", "busy", reason),
        Change::ModificationStarted { volume, .. } => describe_volume(volume, "modifyVolume", "modifying", ""),
        Change::ModificationOptimizing { volume, .. } => describe_volume(volume, "modifyVolume", "optimizing", ""),
        Change::ModificationCompleted { volume, .. } => describe_volume(volume, "modifyVolume", "completed", ""),
        Change::ModificationFailed { volume, reason, .. } => describe_volume(volume, "modifyVolume", "failed", reason),
        Change::Snapshot(SnapshotChange::FastRestoreSet { snapshot, zone, fast }) => describe_fast_restore(lab, snapshot, zone, fast.as_ref()),
        Change::Snapshot(change) => describe_snapshot(lab, change, event.at_ms),
        Change::Key(change) => describe_key(change),
        Change::Alarm(change) => describe_alarm(lab, change),
        _ => None,
    }
}

/// Describes a change of a snapshot: its source, and the times of its request and its end, where
/// they are recorded.
fn describe_snapshot(lab: &Lab, change: &SnapshotChange, at_ms: u64) -> Option<Body> {
    let (snapshot, event, result, cause) = match change {
        SnapshotChange::Completed { snapshot, .. } => (snapshot, "createSnapshot", "succeeded", ""),
        SnapshotChange::Failed { snapshot, reason } => (snapshot, "createSnapshot", "failed", reason.as_str()),
        SnapshotChange::Shared { snapshot, .. } => (snapshot, "shareSnapshot", "succeeded", ""),
        SnapshotChange::Removed { snapshot } => (snapshot, "deleteSnapshot", "succeeded", ""),
        _ => return None,
    };
    let arn = |name: String| format!("arn:aws:ec2::{}:{name}", lab.settings.region);
    let mut detail = json!({"event": event, "result": result, "cause": cause, "request-id": "", "snapshot_id": arn(format!("snapshot/{snapshot}"))});
    if let Some(record) = lab.snapshots.records.get(snapshot).filter(|_| event == "createSnapshot") {
        detail["startTime"] = json!(format_time(record.started_ms, SecondsFormat::Millis));
        detail["endTime"] = json!(format_time(at_ms, SecondsFormat::Millis));
        match (&record.properties.source, &record.properties.volume) {
            (SnapshotSource::Copy { snapshot, .. }, _) => {
                detail["event"] = json!("copySnapshot");
                detail["source"] = json!(arn(format!("snapshot/{snapshot}")));
            }
            (_, Some(volume)) => detail["source"] = json!(arn(format!("volume/{volume}"))),
            _ => {}
        }
    }
    Some(Body { source: "aws.ec2", detail_type: "EBS Snapshot Notification", resources: vec![("ec2", format!("snapshot/{snapshot}"))], detail })
}

/// Describes fast snapshot restore in a zone when its state changes: a credit that is taken changes
/// none.
fn describe_fast_restore(lab: &Lab, snapshot: &SnapshotId, zone: &str, fast: Option<&FastRestore>) -> Option<Body> {
    let before = lab.snapshots.fast.get(snapshot).and_then(|zones| zones.get(zone)).map(|fast| fast.state);
    let state = fast.map(|fast| fast.state).filter(|state| Some(*state) != before)?;
    let by_user = matches!(state, FastRestoreState::Enabling | FastRestoreState::Disabling);
    let message = if by_user { "Client.UserInitiated" } else { "Client.UserInitiated - Lifecycle state transition" };
    let detail = json!({"snapshot-id": snapshot, "state": state.as_str(), "zone": zone, "message": message});
    let detail_type = "EBS Fast Snapshot Restore State-change Notification";
    Some(Body { source: "aws.ec2", detail_type, resources: vec![("ec2", format!("snapshot/{snapshot}"))], detail })
}

/// Describes a change of a key: the lab's own detail types where KMS tells only that a key was
/// deleted.
fn describe_key(change: &KeyChange) -> Option<Body> {
    let (key, detail_type, state) = match change {
        KeyChange::Created { key, .. } => (key, "KMS CMK Creation", None),
        KeyChange::StateSet { key, state, .. } => (key, "KMS CMK State Change", serde_json::to_value(state).ok()),
        KeyChange::Deleted { key } => (key, "KMS CMK Deletion", None),
        _ => return None,
    };
    let mut detail = json!({"key-id": key});
    if let Some(state) = state {
        detail["state"] = state;
    }
    Some(Body { source: "aws.kms", detail_type, resources: vec![("kms", format!("key/{key}"))], detail })
}

/// Describes a change of an alarm's state or definition.
fn describe_alarm(lab: &Lab, change: &AlarmChange) -> Option<Body> {
    let alarm = lab.alarms.by_name.get(change.name());
    let resources = vec![("cloudwatch", format!("alarm:{}", change.name()))];
    match change {
        AlarmChange::StateSet { wall_ms, state, reason, reason_data, .. } => {
            let before = alarm.filter(|before| before.state != *state)?;
            let detail = alarm_detail(before, *state, reason, reason_data.as_deref(), *wall_ms);
            Some(Body { source: "aws.cloudwatch", detail_type: "CloudWatch Alarm State Change", resources, detail })
        }
        AlarmChange::Put { .. } | AlarmChange::Deleted { .. } => {
            let operation = match (change, alarm) {
                (AlarmChange::Deleted { .. }, _) => "delete",
                (_, None) => "create",
                _ => "update",
            };
            let detail = json!({"alarmName": change.name(), "operation": operation});
            Some(Body { source: "aws.cloudwatch", detail_type: "CloudWatch Alarm Configuration Change", resources, detail })
        }
        _ => None,
    }
}

/// Returns the detail of a change of an alarm's state, as its event has it and its actions get it.
pub(crate) fn alarm_detail(before: &AlarmRecord, state: State, reason: &str, reason_data: Option<&str>, wall_ms: u64) -> Value {
    let state_json = |state: State, reason: &str, data: Option<&str>, ms: u64| {
        let mut fields = json!({"value": state.as_str(), "reason": reason, "timestamp": format_time(ms, SecondsFormat::Millis).replace('Z', "+0000")});
        if let Some(data) = data {
            fields["reasonData"] = json!(data);
        }
        fields
    };
    let metrics = before.spec.queries().ok().and_then(|queries| serde_json::to_value(queries).ok()).unwrap_or_default();
    // An action reads the whole text from a pipe, which takes 64 KiB at once.
    let metrics = if metrics.to_string().len() > MOST_METRICS_BYTES { json!([]) } else { metrics };
    json!({
        "alarmName": before.spec.alarm_name,
        "state": state_json(state, reason, reason_data, wall_ms),
        "previousState": state_json(before.state, &before.reason, before.reason_data.as_deref(), before.state_ms),
        "configuration": {"description": before.spec.alarm_description, "metrics": metrics},
    })
}
