//! Create, delete, tags.

pub(crate) mod attachments;
pub(crate) mod members;
pub(crate) mod modifications;

use crate::command::CreateRequest;
use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::event::Change;
use crate::lab::Lab;
use crate::record::{limits_of, NewVolume, VolumeId, VolumeRecord, VolumeStatus, Volumes};
use crate::settings;
use crate::snapshots::lifecycle;
use headrace_catalog::StorageSpec;
use std::collections::BTreeMap;

/// Most volumes of a lab, members counted one by one: so that the journal and its checkpoints stay
/// small.
pub const MAX_VOLUMES: usize = 1_000;

/// EC2 user guide, tag restrictions: 50 tags, keys of 128 and values of 256 characters (the API
/// text of 2026 says 127 for the key).
const MAX_TAGS: usize = 50;
const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;
const TAG_RULE: &str = "EC2 user guide, tag restrictions";
/// Longest name of a volume. A rule of the lab, so that tables stay readable.
const MAX_NAME_CHARS: usize = 64;

pub(crate) fn create(request: &CreateRequest, lab: &Lab, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
    let (settings, existing) = (&lab.settings, &lab.volumes);
    let spec: StorageSpec = request.spec.parse()?;
    let as_of = request.as_of.as_deref().map(settings::day).transpose()?.unwrap_or_else(|| settings.day());
    let limits = limits_of(&spec, as_of, settings)?;
    if let Some(name) = &request.name {
        check_name(name, existing)?;
    }
    check_tags(&request.tags, request.tags.len())?;
    let volumes: usize = existing.values().map(|record| record.members.len()).sum();
    if volumes + spec.members.len() > MAX_VOLUMES {
        let rule = format!("a lab has at most {MAX_VOLUMES} volumes, members counted one by one, and would have {}", volumes + spec.members.len());
        return Err(ControlError::new(ErrorKind::LimitExceeded, spec.to_string(), rule, LAB_RULE, "Delete volumes that are no longer needed."));
    }
    let (origin, credit) = match &request.snapshot {
        Some(snapshot) => {
            let (origin, credit) = lifecycle::origin(lab, snapshot, spec.usable_gib(), request.initialization_mib_s, at_ms)?;
            (Some(origin), credit)
        }
        None => (None, None),
    };
    if let Some(rate) = request.initialization_mib_s.filter(|_| origin.is_none()) {
        let rule = "an initialization rate is for a volume that is made from a snapshot";
        return Err(ControlError::invalid(format!("{rate} MiB/s"), rule, format!("{API_TEXT}: CreateVolume"), "Name a snapshot, or leave the rate out."));
    }
    let per_million = request.balance_percent.map(members::per_million).transpose()?;
    let volume = VolumeId::draw(ids, |id| existing.contains_key(id))?;
    let balances = match per_million {
        None => Vec::new(),
        Some(per_million) => members::balance_changes(&volume, &spec, &limits, None, per_million)?,
    };
    let new = NewVolume { spec, as_of, seed: ids(), name: request.name.clone(), tags: request.tags.clone(), origin };
    let mut changes = vec![Change::VolumeCreated { volume, new }];
    changes.extend(balances);
    changes.extend(credit.map(Change::Snapshot));
    Ok(changes)
}

fn check_name(name: &str, existing: &Volumes) -> Result<(), ControlError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let well_formed = name.len() <= MAX_NAME_CHARS && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed);
    // A name that looks like an id would hide a volume.
    if !well_formed || name.starts_with("vol-") {
        return Err(ControlError::invalid(
            name,
            format!("a name is 1 to {MAX_NAME_CHARS} letters, digits, dots, - or _, begins with a letter or digit, and not with vol-"),
            LAB_RULE,
            "Choose a name like mysql-data.",
        ));
    }
    match existing.values().find(|record| record.name.as_deref() == Some(name)) {
        None => Ok(()),
        Some(record) => {
            let hint = format!("Choose another name, or delete {} first.", record.id);
            Err(ControlError::new(ErrorKind::InvalidParameter, name, format!("{} has that name, and names are unique", record.id), LAB_RULE, hint))
        }
    }
}

pub(crate) fn created(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    if record.status != VolumeStatus::Creating {
        return Err(record.wrong_status("creating"));
    }
    Ok(vec![Change::VolumeReady { volume: record.id.clone() }])
}

pub(crate) fn volume_failed(record: &VolumeRecord, reason: &str) -> Result<Vec<Change>, ControlError> {
    match record.status {
        VolumeStatus::Deleting => Err(record.wrong_status("creating, available or in-use")),
        VolumeStatus::Error => Ok(Vec::new()),
        _ => Ok(vec![Change::VolumeFailed { volume: record.id.clone(), reason: reason.to_string() }]),
    }
}

pub(crate) fn delete(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    if let Some(attachment) = &record.attachment {
        let rule = format!("is {} and only a volume that is available can be deleted", attachment.state.as_str());
        return Err(ControlError::new(
            ErrorKind::InUse,
            record.label(),
            rule,
            format!("{API_TEXT}: DeleteVolume"),
            format!("Run `headrace volume detach {}` first.", record.label()),
        ));
    }
    match record.status {
        VolumeStatus::Available | VolumeStatus::Error => Ok(vec![Change::VolumeDeleting { volume: record.id.clone() }]),
        _ => Err(record.wrong_status("available")),
    }
}

pub(crate) fn deleted(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    if record.status != VolumeStatus::Deleting {
        return Err(record.wrong_status("deleting"));
    }
    Ok(vec![Change::VolumeDeleted { volume: record.id.clone() }])
}

pub(crate) fn tag(record: &VolumeRecord, set: &BTreeMap<String, String>, remove: &[String]) -> Result<Vec<Change>, ControlError> {
    let mut after = record.tags.clone();
    after.retain(|key, _| !remove.contains(key));
    after.extend(set.clone());
    check_tags(set, after.len())?;
    if after == record.tags {
        return Ok(Vec::new());
    }
    // Only what changes something is kept.
    let remove = remove.iter().filter(|key| record.tags.contains_key(*key) && !set.contains_key(*key)).cloned().collect();
    Ok(vec![Change::TagsChanged { volume: record.id.clone(), set: set.clone(), remove }])
}

pub(crate) fn check_tags(set: &BTreeMap<String, String>, total: usize) -> Result<(), ControlError> {
    let wrong = |value: &str, rule: String, hint: &str| Err(ControlError::invalid(value, rule, TAG_RULE, hint));
    for (key, value) in set {
        let (key_chars, value_chars) = (key.chars().count(), value.chars().count());
        if key_chars == 0 || key_chars > MAX_KEY_CHARS {
            return wrong(key, format!("a tag key has 1 to {MAX_KEY_CHARS} characters, this one {key_chars}"), "Shorten the key.");
        }
        if key.starts_with("aws:") {
            return wrong(key, "tag keys that begin with aws: belong to AWS".to_string(), "Choose another prefix.");
        }
        if value_chars > MAX_VALUE_CHARS {
            return wrong(value, format!("a tag value has at most {MAX_VALUE_CHARS} characters, this one {value_chars}"), "Shorten the value.");
        }
    }
    if total > MAX_TAGS {
        let rule = format!("a volume has at most {MAX_TAGS} tags");
        let hint = "Remove tags that are no longer needed.";
        return Err(ControlError::new(ErrorKind::LimitExceeded, format!("{total} tags"), rule, TAG_RULE, hint));
    }
    Ok(())
}

/// Does what a change of a volume as a whole says.
pub(crate) fn apply(record: &mut VolumeRecord, change: &Change) {
    match change {
        Change::VolumeReady { .. } => record.status = VolumeStatus::Available,
        Change::VolumeFailed { reason, .. } => {
            record.status = VolumeStatus::Error;
            record.error = Some(reason.clone());
        }
        Change::VolumeDeleting { .. } => record.status = VolumeStatus::Deleting,
        Change::TagsChanged { set, remove, .. } => {
            record.tags.retain(|key, _| !remove.contains(key));
            record.tags.extend(set.clone());
        }
        _ => {}
    }
}
