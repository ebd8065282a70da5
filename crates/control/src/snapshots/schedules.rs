//! Snapshots by schedule: the lab's own lifecycle policies. A schedule snapshots, at one instant,
//! all volumes that have one of its tags, and deletes what its retention no longer keeps.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::ids::{SnapshotId, VolumeId};
use crate::snapshots::messages::{ScheduleRequest, SnapshotChange, SnapshotRequest};
use crate::snapshots::record::{Schedule, SnapshotRecord, SnapshotState};
use crate::snapshots::registry::{refusal, Snapshots};
use crate::snapshots::{lifecycle, retention};
use crate::state::Lab;
use crate::tags::check_tags;
use crate::volumes::record::VolumeStatus;
use std::collections::BTreeMap;

/// Least interval, seconds of lab time: a guess at what an upload takes. AWS has an hour (Data
/// Lifecycle Manager user guide); a lab must show retention within minutes.
const LEAST_INTERVAL_S: u64 = 60;
/// Most interval: a year.
const MOST_INTERVAL_S: u64 = 366 * 86_400;
/// Most snapshots or days that are kept (Data Lifecycle Manager user guide: count 1 to 1,000).
const MOST_KEPT: u32 = 1_000;
/// Schedules of a lab (Data Lifecycle Manager quota: 100 policies a region).
const MOST_SCHEDULES: usize = 100;
/// Milliseconds in a day.
const DAY_MS: u64 = 86_400_000;

/// Decides a schedule, new or in place of the one of its name. The first run is an interval after
/// `at_ms`; a schedule whose interval stays keeps its next run.
pub(crate) fn set(all: &Snapshots, request: &ScheduleRequest, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    retention::check_name(&request.name)?;
    let invalid = |value: String, rule: String, hint: &str| Err(ControlError::invalid(value, rule, LAB_RULE, hint));
    if request.target_tags.is_empty() {
        return invalid(request.name.clone(), "a schedule names the tags of its volumes".to_string(), "Name a tag like backup=daily.");
    }
    check_tags(&request.target_tags, request.target_tags.len())?;
    check_tags(&request.tags, request.tags.len())?;
    if !(LEAST_INTERVAL_S..=MOST_INTERVAL_S).contains(&request.interval_s) {
        let rule = format!("an interval is {LEAST_INTERVAL_S} to {MOST_INTERVAL_S} seconds of lab time");
        return invalid(format!("{} s", request.interval_s), rule, "Name an interval like 86400.");
    }
    let limit = match (request.keep, request.keep_days) {
        (Some(limit), None) | (None, Some(limit)) => limit,
        _ => return invalid(request.name.clone(), "a schedule keeps a number of snapshots, or keeps them for days".to_string(), "Name one of the two."),
    };
    if !(1..=MOST_KEPT).contains(&limit) {
        return invalid(limit.to_string(), format!("what is kept is 1 to {MOST_KEPT}"), "Name a smaller number.");
    }
    if all.schedules.len() >= MOST_SCHEDULES && !all.schedules.contains_key(&request.name) {
        let rule = format!("a lab has at most {MOST_SCHEDULES} schedules");
        return Err(ControlError::new(ErrorKind::LimitExceeded, &request.name, rule, LAB_RULE, "Delete a schedule first."));
    }
    let before = all.schedules.get(&request.name);
    // Another interval begins anew.
    let unchanged = before.filter(|schedule| schedule.interval_s == request.interval_s && schedule.enabled);
    let schedule = Schedule {
        name: request.name.clone(),
        target_tags: request.target_tags.clone(),
        interval_s: request.interval_s,
        keep: request.keep,
        keep_days: request.keep_days,
        tags: request.tags.clone(),
        copy_tags: request.copy_tags,
        enabled: !request.disabled,
        next_ms: unchanged.map_or(at_ms + request.interval_s * 1_000, |schedule| schedule.next_ms),
        last_ms: before.and_then(|schedule| schedule.last_ms),
    };
    Ok(vec![SnapshotChange::ScheduleSet { schedule }])
}

fn find<'a>(all: &'a Snapshots, schedule: &str) -> Result<&'a Schedule, ControlError> {
    all.schedules.get(schedule).ok_or_else(|| {
        let message = format!("The schedule '{schedule}' does not exist.");
        refusal(ErrorKind::NotFound, "ResourceNotFoundException", message, schedule, "See `headrace snapshot schedule`.")
    })
}

pub(crate) fn delete(all: &Snapshots, schedule: &str) -> Result<Vec<SnapshotChange>, ControlError> {
    let schedule = find(all, schedule)?.name.clone();
    Ok(vec![SnapshotChange::ScheduleDeleted { schedule }])
}

/// Decides the snapshots of a schedule's volumes, the deletion of snapshots that it no longer
/// keeps, and the time of its next run. A volume that cannot be snapshotted now is left out; runs
/// that were missed are one run.
pub(crate) fn run(lab: &Lab, schedule: &str, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<SnapshotChange>, ControlError> {
    let all = &lab.snapshots;
    let schedule = find(all, schedule)?;
    let has_tag = |tags: &BTreeMap<String, String>| schedule.target_tags.iter().any(|(key, value)| tags.get(key) == Some(value));
    let usable = |status: VolumeStatus| matches!(status, VolumeStatus::Available | VolumeStatus::InUse);
    let request = |volume: &str| SnapshotRequest {
        volumes: vec![volume.to_string()],
        description: format!("Created by schedule {}", schedule.name),
        tags: schedule.tags.clone(),
        copy_tags: schedule.copy_tags,
    };
    let mut changes = Vec::new();
    for volume in lab.volumes.values().filter(|volume| usable(volume.status) && has_tag(&volume.tags)) {
        // One at a time, so that one that is refused (five pending, say) does not stop the others.
        let Ok(started) = lifecycle::create(lab, &request(volume.id.as_str()), Some(&schedule.name), at_ms, ids) else { continue };
        changes.extend(started);
        // The new one does not count before it is stored.
        changes.extend(delete_old(all, schedule, &volume.id, 0, at_ms)?);
    }
    let interval_ms = schedule.interval_s * 1_000;
    let missed = at_ms.saturating_sub(schedule.next_ms) / interval_ms;
    let next_ms = schedule.next_ms + (missed + 1) * interval_ms;
    changes.push(SnapshotChange::ScheduleRan { schedule: schedule.name.clone(), next_ms });
    Ok(changes)
}

/// Decides the deletion of snapshots that the schedule of one that is completed now no longer
/// keeps.
pub(crate) fn after_completion(all: &Snapshots, completed: &SnapshotId, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    let properties = all.records.get(completed).map(|record| &record.properties);
    let schedule = properties.and_then(|new| new.schedule.as_ref()).and_then(|name| all.schedules.get(name));
    match (schedule, properties.and_then(|new| new.volume.as_ref())) {
        (Some(schedule), Some(volume)) => delete_old(all, schedule, volume, 1, at_ms),
        _ => Ok(Vec::new()),
    }
}

/// Decides the deletion of those completed snapshots of a volume that its schedule no longer keeps.
/// `more` snapshots count as kept in addition: they are completed now, and the records do not say
/// so yet.
fn delete_old(all: &Snapshots, schedule: &Schedule, volume: &VolumeId, more: usize, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    let is_of_schedule = |record: &&SnapshotRecord| {
        let matches = record.properties.schedule.as_deref() == Some(&schedule.name) && record.properties.volume.as_ref() == Some(volume);
        matches && record.state == SnapshotState::Completed
    };
    let mut snapshots: Vec<&SnapshotRecord> = all.listed().filter(is_of_schedule).collect();
    snapshots.sort_by_key(|record| (record.started_ms, record.id.clone()));
    let surplus = match (schedule.keep, schedule.keep_days) {
        (Some(keep), _) => (snapshots.len() + more).saturating_sub(keep as usize),
        (None, Some(days)) => snapshots.iter().take_while(|record| record.started_ms + u64::from(days) * DAY_MS <= at_ms).count(),
        (None, None) => 0,
    };
    let mut changes = Vec::new();
    for record in snapshots.into_iter().take(surplus).filter(|record| lifecycle::is_deletable(all, record, at_ms)) {
        changes.extend(lifecycle::delete(all, record, at_ms)?);
    }
    Ok(changes)
}
