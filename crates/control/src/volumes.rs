//! Create, delete, tags.

use crate::error::{ControlError, API_TEXT, LAB_RULE};
use crate::event::Change;
use crate::ids::VolumeId;
use crate::record::{limits_of, NewVolume, VolumeRecord, VolumeStatus};
use crate::{members, settings, Lab};
use headrace_catalog::StorageSpec;
use std::collections::BTreeMap;

/// Most volumes of a lab, members counted one by one: so that the journal and its checkpoints stay small.
pub const MAX_VOLUMES: usize = 1_000;

/// EC2 user guide, tag restrictions: 50 tags, keys of 128 and values of 256 characters (the API text of 2026 says 127 for the key).
const MAX_TAGS: usize = 50;
const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;
const TAG_RULE: &str = "EC2 user guide, tag restrictions";
const MAX_NAME_CHARS: usize = 64;

/// What a new volume shall be.
pub(crate) struct Wish<'a> {
    pub spec: &'a str,
    pub name: Option<&'a str>,
    pub tags: &'a BTreeMap<String, String>,
    pub as_of: Option<&'a str>,
    pub balance_percent: Option<f64>,
}

impl Lab {
    pub(crate) fn create(&self, wish: &Wish<'_>, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
        let spec: StorageSpec = wish.spec.parse()?;
        let as_of = wish.as_of.map(settings::day).transpose()?.unwrap_or_else(|| self.settings.day());
        let limits = limits_of(&spec, as_of, &self.settings)?;
        if let Some(name) = wish.name {
            self.check_name(name)?;
        }
        check_tags(wish.tags, wish.tags.len())?;
        let volumes: usize = self.volumes.values().map(|record| record.members.len()).sum();
        if volumes + spec.members.len() > MAX_VOLUMES {
            let rule = format!("a lab has at most {MAX_VOLUMES} volumes, members counted one by one, and would have {}", volumes + spec.members.len());
            return Err(ControlError::refused(spec.to_string(), rule, LAB_RULE, "Delete volumes that are no longer needed."));
        }
        let per_million = wish.balance_percent.map(members::per_million).transpose()?;
        let volume = VolumeId::draw(ids, |id| self.volumes.contains_key(id))?;
        let balances = match per_million {
            None => Vec::new(),
            Some(per_million) => members::balance_changes(&volume, &spec, &limits, None, per_million)?,
        };
        let new = NewVolume { spec, as_of, seed: ids(), name: wish.name.map(str::to_string), tags: wish.tags.clone() };
        let mut changes = vec![Change::VolumeCreated { volume, new }];
        changes.extend(balances);
        Ok(changes)
    }

    fn check_name(&self, name: &str) -> Result<(), ControlError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let well_formed = name.len() <= MAX_NAME_CHARS && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed);
        // A name that looks like an id would hide a volume.
        if !well_formed || name.starts_with("vol-") {
            return Err(ControlError::input(
                name,
                format!("a name is 1 to {MAX_NAME_CHARS} letters, digits, dots, - or _, begins with a letter or digit, and not with vol-"),
                LAB_RULE,
                "Choose a name like mysql-data.",
            ));
        }
        match self.volumes.values().find(|record| record.name.as_deref() == Some(name)) {
            None => Ok(()),
            Some(record) => {
                let hint = format!("Choose another name, or delete {} first.", record.id);
                Err(ControlError::refused(name, format!("{} has that name, and names are unique", record.id), LAB_RULE, hint))
            }
        }
    }

    pub(crate) fn created(&self, volume: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        if record.status != VolumeStatus::Creating {
            return Err(wrong_status(record, "creating"));
        }
        Ok(vec![Change::VolumeReady { volume: record.id.clone() }])
    }

    pub(crate) fn volume_failed(&self, volume: &str, reason: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        match record.status {
            VolumeStatus::Deleting => Err(wrong_status(record, "creating, available or in-use")),
            VolumeStatus::Error => Ok(Vec::new()),
            _ => Ok(vec![Change::VolumeFailed { volume: record.id.clone(), reason: reason.to_string() }]),
        }
    }

    pub(crate) fn delete(&self, volume: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        if let Some(attachment) = &record.attachment {
            let rule = format!("is {} and only a volume that is available can be deleted", attachment.state.as_str());
            return Err(ControlError::busy(volume, rule, format!("{API_TEXT}: DeleteVolume"), format!("`headrace volume detach {volume}` first.")));
        }
        match record.status {
            VolumeStatus::Available | VolumeStatus::Error => Ok(vec![Change::VolumeDeleting { volume: record.id.clone() }]),
            _ => Err(wrong_status(record, "available")),
        }
    }

    pub(crate) fn deleted(&self, volume: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        if record.status != VolumeStatus::Deleting {
            return Err(wrong_status(record, "deleting"));
        }
        Ok(vec![Change::VolumeDeleted { volume: record.id.clone() }])
    }

    pub(crate) fn tag(&self, volume: &str, set: &BTreeMap<String, String>, remove: &[String]) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
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
}

/// The status is not the one a command needs.
pub(crate) fn wrong_status(record: &VolumeRecord, needed: &str) -> ControlError {
    let rule = format!("is {}, and must be {needed} for that", record.status.as_str());
    let source = "EC2 volume states";
    match record.status {
        VolumeStatus::Creating | VolumeStatus::Deleting => ControlError::busy(record.label(), rule, source, "Wait a moment and try again."),
        VolumeStatus::Error => {
            let why = record.error.as_deref().unwrap_or("no reason is known");
            ControlError::refused(record.label(), rule, source, format!("It failed: {why}. Delete it and create another."))
        }
        _ => ControlError::refused(record.label(), rule, source, "See `headrace volume show`."),
    }
}

fn check_tags(set: &BTreeMap<String, String>, total: usize) -> Result<(), ControlError> {
    let wrong = |value: &str, rule: String, hint: &str| Err(ControlError::input(value, rule, TAG_RULE, hint));
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
        return wrong(&format!("{total} tags"), format!("a volume has at most {MAX_TAGS} tags"), "Remove tags that are no longer needed.");
    }
    Ok(())
}
