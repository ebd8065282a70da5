//! Locks against deletion (EBS user guide, snapshot lock).

use crate::error::{ControlError, ErrorKind};
use crate::snapshots::messages::{LockRequest, SnapshotChange};
use crate::snapshots::record::{LockMode, SnapshotLock, SnapshotRecord, SnapshotState};
use crate::snapshots::registry::refusal;

/// Bounds of EC2 API text, LockSnapshot: cooling-off period in hours, duration in days.
const COOL_OFF_HOURS: std::ops::RangeInclusive<u32> = 1..=72;
const DURATION_DAYS: std::ops::RangeInclusive<u32> = 1..=36_500;
/// Milliseconds of an hour and of a day.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Decides the lock of a snapshot. In compliance mode, after its cooling-off period, a lock can
/// only be extended.
pub(crate) fn lock(record: &SnapshotRecord, request: &LockRequest, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    let LockRequest { mode, duration_days, expires_ms, cool_off_hours, .. } = *request;
    let wrong =
        |code, message: String, value: String| Err(refusal(ErrorKind::InvalidParameter, code, message, value, "See `headrace snapshot modify --help`."));
    if record.state == SnapshotState::Error {
        let message = format!("Snapshot '{}' is in state error and can't be locked.", record.id);
        return Err(refusal(ErrorKind::IncorrectState, "IncorrectState", message, record.id.as_str(), "Delete it."));
    }
    let expires_ms = match (duration_days, expires_ms) {
        (Some(days), None) if DURATION_DAYS.contains(&days) => at_ms + u64::from(days) * DAY_MS,
        (Some(days), None) => return wrong("InvalidParameterValue", "Lock duration is 1 to 36500 days.".to_string(), format!("{days} days")),
        (None, Some(expires)) if expires >= at_ms + DAY_MS => expires,
        (None, Some(expires)) => {
            return wrong("InvalidParameterValue", "The expiration date must be at least one day in the future.".to_string(), expires.to_string());
        }
        _ => {
            let message = "Specify either the lock duration or the expiration date.".to_string();
            return wrong("InvalidParameterCombination", message, record.id.to_string());
        }
    };
    if let Some(hours) = cool_off_hours {
        if mode == LockMode::Governance {
            let message = "A cooling-off period can be specified for compliance mode only.".to_string();
            return wrong("InvalidParameterCombination", message, format!("{hours} hours"));
        }
        if !COOL_OFF_HOURS.contains(&hours) {
            return wrong("InvalidParameterValue", "The cooling-off period is 1 to 72 hours.".to_string(), format!("{hours} hours"));
        }
    }
    let before = record.lock.as_ref().filter(|lock| lock.holds(at_ms));
    if let Some(lock) = before.filter(|lock| lock.state(at_ms) == "compliance") {
        if mode == LockMode::Governance || expires_ms < lock.expires_ms || cool_off_hours.is_some() {
            let message = format!("The snapshot '{}' is locked in compliance mode: its lock can only be extended.", record.id);
            return Err(refusal(ErrorKind::IncorrectState, "OperationNotPermitted", message, record.id.as_str(), "Name a later end in compliance mode."));
        }
    }
    let cool_off_until_ms = cool_off_hours.map(|hours| at_ms + u64::from(hours) * HOUR_MS);
    let created_ms = before.map_or(at_ms, |lock| lock.created_ms);
    let lock = SnapshotLock { mode, created_ms, expires_ms, cool_off_until_ms, cool_off_hours };
    Ok(vec![SnapshotChange::LockSet { snapshot: record.id.clone(), lock: Some(lock) }])
}

/// Decides that a lock is taken away: one in governance mode, or one in its cooling-off period.
pub(crate) fn unlock(record: &SnapshotRecord, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    match record.lock.as_ref().map(|lock| lock.state(at_ms)) {
        None | Some("expired") => {
            let message = format!("The snapshot '{}' is not locked.", record.id);
            Err(refusal(ErrorKind::IncorrectState, "IncorrectState", message, record.id.as_str(), "See `headrace snapshot list`."))
        }
        Some("compliance") => {
            let message = format!("The snapshot '{}' is locked in compliance mode and can't be unlocked.", record.id);
            Err(refusal(ErrorKind::IncorrectState, "OperationNotPermitted", message, record.id.as_str(), "Wait until the lock expires."))
        }
        Some(_) => Ok(vec![SnapshotChange::LockSet { snapshot: record.id.clone(), lock: None }]),
    }
}
