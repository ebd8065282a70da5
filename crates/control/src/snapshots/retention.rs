//! The recycle bin: what a retention rule keeps after it was deleted (Recycle Bin user guide).

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::event::{Change, Event};
use crate::ids::SnapshotId;
use crate::snapshots::messages::SnapshotChange;
use crate::snapshots::record::{Binned, RetentionRule, SnapshotRecord};
use crate::snapshots::registry::{refusal, refuse_id, Snapshots};
use crate::state::Lab;
use crate::tags::check_tags;

/// Longest retention, days (Recycle Bin user guide).
const MOST_DAYS: u32 = 365;
/// Rules of a lab: a guess at more than anyone needs.
const MOST_RULES: usize = 250;
/// Milliseconds in a day.
const DAY_MS: u64 = 86_400_000;

/// Checks the name of a retention rule, of a schedule of snapshots, or of another region: 1 to 64
/// ASCII letters, digits, dots, - and _.
pub(crate) fn check_name(name: &str) -> Result<(), ControlError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(ControlError::invalid(name, "a name is 1 to 64 letters, digits, dots, - or _", LAB_RULE, "Choose a name like daily."))
}

/// Sets a retention rule, or changes that of its name.
pub(crate) fn set_rule(all: &Snapshots, rule: &RetentionRule) -> Result<Vec<SnapshotChange>, ControlError> {
    check_name(&rule.name)?;
    if !(1..=MOST_DAYS).contains(&rule.days) {
        let rule_text = format!("a retention is 1 to {MOST_DAYS} days");
        return Err(ControlError::invalid(format!("{} days", rule.days), rule_text, "Recycle Bin user guide", "Name a number of days."));
    }
    check_tags(&rule.tags, rule.tags.len())?;
    if all.rules.get(&rule.name) == Some(rule) {
        return Ok(Vec::new());
    }
    if all.rules.len() >= MOST_RULES && !all.rules.contains_key(&rule.name) {
        let rule_text = format!("a lab has at most {MOST_RULES} retention rules");
        return Err(ControlError::new(ErrorKind::LimitExceeded, &rule.name, rule_text, LAB_RULE, "Delete a rule first."));
    }
    Ok(vec![SnapshotChange::RuleSet { rule: rule.clone() }])
}

/// Deletes the retention rule of a name; snapshots in the bin stay there.
pub(crate) fn delete_rule(all: &Snapshots, rule: &str) -> Result<Vec<SnapshotChange>, ControlError> {
    if all.rules.contains_key(rule) {
        return Ok(vec![SnapshotChange::RuleDeleted { rule: rule.to_string() }]);
    }
    Err(ControlError::new(ErrorKind::NotFound, rule, "is not a retention rule of this lab", LAB_RULE, "See `headrace snapshot rule`."))
}

/// Returns the time in the bin that the rules give a snapshot; the longest where several match.
pub(crate) fn kept_by(all: &Snapshots, record: &SnapshotRecord, at_ms: u64) -> Option<Binned> {
    let matches = |rule: &&RetentionRule| rule.tags.is_empty() || rule.tags.iter().any(|(key, value)| record.properties.tags.get(key) == Some(value));
    let rule = all.rules.values().filter(matches).max_by_key(|rule| rule.days)?;
    Some(Binned { entered_ms: at_ms, exit_ms: at_ms + u64::from(rule.days) * DAY_MS, rule: rule.name.clone() })
}

/// Takes a snapshot out of the bin.
pub(crate) fn recover(all: &Snapshots, snapshot: &str) -> Result<Vec<SnapshotChange>, ControlError> {
    let id: SnapshotId = snapshot.parse().map_err(|_| refuse_id(snapshot))?;
    if all.bin.contains_key(&id) {
        return Ok(vec![SnapshotChange::Recovered { snapshot: id }]);
    }
    let message = format!("The snapshot '{snapshot}' does not exist in the Recycle Bin.");
    Err(refusal(ErrorKind::NotFound, "InvalidSnapshot.NotFound", message, snapshot, "See `headrace snapshot recover`."))
}

/// Returns the deletions of snapshots whose stay in the bin has ended. `now_ms`: lab time, Unix
/// milliseconds; a stay that ends then is included.
pub(crate) fn due(all: &Snapshots, now_ms: u64) -> Vec<Event> {
    let expired = all.bin.iter().filter(|(_, bin)| bin.exit_ms <= now_ms);
    expired.map(|(id, bin)| Event { at_ms: bin.exit_ms, change: Change::Snapshot(SnapshotChange::DeletionStarted { snapshot: id.clone() }) }).collect()
}

/// Names the object store of the lab that stands for another region.
pub(crate) fn set_region(lab: &Lab, region: &str, store: Option<&str>) -> Result<Vec<SnapshotChange>, ControlError> {
    check_name(region)?;
    if region == lab.settings.region {
        return Err(ControlError::invalid(region, "is the region of this lab", LAB_RULE, "Name another region."));
    }
    if let Some(url) = store.filter(|url| !["file://", "s3://", "lab:///"].iter().any(|scheme| url.starts_with(scheme))) {
        let hint = "Write file:///FOLDER, s3://BUCKET/PREFIX, or lab:///FOLDER for a lab of this machine.";
        return Err(ControlError::invalid(url, "is not the URL of an object store or of a lab", LAB_RULE, hint));
    }
    if store.is_none() && !lab.snapshots.regions.contains_key(region) {
        return Err(ControlError::new(ErrorKind::NotFound, region, "is not a region that this lab was told", LAB_RULE, "There is nothing to forget."));
    }
    let changed = lab.snapshots.regions.get(region).map(String::as_str) != store;
    Ok(changed.then(|| SnapshotChange::RegionSet { region: region.to_string(), store: store.map(str::to_string) }).into_iter().collect())
}
