//! Create, delete, tags.

pub(crate) mod attachments;
pub(crate) mod copies;
pub(crate) mod members;
pub(crate) mod modifications;
pub(crate) mod record;

use crate::command::CreateRequest;
use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::event::Change;
use crate::ids::VolumeId;
use crate::settings::{self, Settings};
use crate::snapshots::lifecycle;
use crate::state::Lab;
use crate::tags::{changed_tags, check_tags, TagRequest};
use crate::volumes::record::{limits_of, NewVolume, VolumeRecord, VolumeStatus, Volumes};
use headrace_catalog::{StorageSpec, VolumeSpec};
use std::collections::BTreeMap;

/// Most volumes of a lab, members counted one by one: so that the journal and its checkpoints stay
/// small.
pub const MAX_VOLUMES: usize = 16_384;

/// Most bytes of all tags of all volumes: so that a checkpoint of the journal, which has them all,
/// stays far below the most that it takes.
const MOST_TAG_BYTES: usize = 64 << 20;
/// Longest name of a volume. A rule of the lab, so that tables stay readable.
const MAX_NAME_CHARS: usize = 64;

/// Decides a new volume: checks zone, storage, name, tags and the room of the lab, and takes a
/// credit of fast snapshot restore where its snapshot has one.
pub(crate) fn create(request: &CreateRequest, lab: &Lab, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
    let (settings, existing) = (&lab.settings, &lab.volumes);
    if request.multi_attach {
        let hint = "Leave it out: a lab has one instance, this machine.";
        let error = ControlError::new(ErrorKind::Unsupported, "multi-attach", "a volume of this lab is attached once", LAB_RULE, hint);
        return Err(error.says("UnsupportedOperation", "Multi-Attach is not supported: this lab has one instance."));
    }
    settings.check_zone(request.zone.as_deref(), request.zone_id.as_deref())?;
    let source = request.source_volume.as_deref().map(|source| copies::source_of(lab, source)).transpose()?;
    let spec = spec_of(request, lab, source)?;
    let as_of = request.as_of.as_deref().map(settings::parse_day).transpose()?.unwrap_or_else(|| settings.day());
    let limits = limits_of(&spec, as_of, settings)?;
    if let Some(name) = &request.name {
        check_name(name, existing)?;
    }
    check_tags(&request.tags, request.tags.len())?;
    check_room_for_tags(existing, &request.tags)?;
    let volumes: usize = existing.values().map(|record| record.members.len()).sum();
    if volumes + spec.members.len() > MAX_VOLUMES {
        let rule = format!("a lab has at most {MAX_VOLUMES} volumes, members counted one by one, and would have {}", volumes + spec.members.len());
        let error = ControlError::new(ErrorKind::LimitExceeded, spec.to_string(), rule, LAB_RULE, "Delete volumes that are no longer needed.");
        return Err(error.says("VolumeLimitExceeded", format!("Maximum number of volumes, {MAX_VOLUMES}, exceeded.")));
    }
    if let Some(source) = source {
        copies::check(lab, source, &spec)?;
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
    let new = NewVolume {
        spec,
        as_of,
        seed: ids(),
        name: request.name.clone(),
        tags: request.tags.clone(),
        encryption: None,
        origin,
        source_volume: source.map(|source| source.id.clone()),
    };
    let mut changes = vec![Change::VolumeCreated { volume, new }];
    changes.extend(balances);
    changes.extend(credit.map(Change::Snapshot));
    Ok(changes)
}

/// Returns the storage that a request describes: in notation, or in EC2's separate fields.
fn spec_of(request: &CreateRequest, lab: &Lab, source: Option<&VolumeRecord>) -> Result<StorageSpec, ControlError> {
    let CreateRequest { volume_type, iops, throughput_mib_s, .. } = request;
    let of_snapshot = request.snapshot.as_deref().filter(|_| request.spec.is_empty()).map(|snapshot| lab.snapshots.find(snapshot)).transpose()?;
    let of_another = source.map(VolumeRecord::size_gib).or(of_snapshot.map(|record| record.properties.size_gib));
    let size_gib = &request.size_gib.or(of_another.filter(|_| request.spec.is_empty()));
    let one_by_one = volume_type.is_some() || size_gib.is_some() || iops.is_some() || throughput_mib_s.is_some();
    if !request.spec.is_empty() {
        if one_by_one {
            let rule = "the storage is given in notation and also by type, size, IOPS or MiB/s";
            return Err(ControlError::invalid(request.spec.as_str(), rule, LAB_RULE, "Give one of the two."));
        }
        return Ok(request.spec.parse()?);
    }
    let volume_type = volume_type.as_deref().unwrap_or("gp2").parse()?;
    let Some(size_gib) = *size_gib else {
        let error = ControlError::invalid("", "a new volume needs a size", format!("{API_TEXT}: CreateVolume"), "Give a size in GiB.");
        return Err(error.says("MissingParameter", "The request must contain the parameter size/snapshot"));
    };
    let member = VolumeSpec { volume_type, size_gib, iops: *iops, throughput_mib_s: *throughput_mib_s };
    // Written and read again, so that both ways have the same rules.
    Ok(member.to_string().parse()?)
}

/// Checks the form of a volume's name, and that no other volume has it.
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

/// Decides that the files of a volume are there: of a new one, or again of one in error that could
/// be used before.
pub(crate) fn confirm_created(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    match record.status {
        VolumeStatus::Creating => {}
        // The files are there again.
        VolumeStatus::Error if record.was_ready => {}
        _ => return Err(record.wrong_status("creating")),
    }
    Ok(vec![Change::VolumeReady { volume: record.id.clone() }])
}

pub(crate) fn fail_volume(record: &VolumeRecord, reason: &str) -> Result<Vec<Change>, ControlError> {
    match record.status {
        VolumeStatus::Deleting => Err(record.wrong_status("creating, available or in-use")),
        VolumeStatus::Error => Ok(Vec::new()),
        _ => Ok(vec![Change::VolumeFailed { volume: record.id.clone(), reason: reason.to_string() }]),
    }
}

/// Decides that a volume is deleted, which must not be attached.
pub(crate) fn delete(record: &VolumeRecord, settings: &Settings) -> Result<Vec<Change>, ControlError> {
    if let Some(attachment) = &record.attachment {
        let rule = format!("is {} and only a volume that is available can be deleted", attachment.state.as_str());
        let hint = format!("Run `headrace volume detach {}` first.", record.label());
        let error = ControlError::new(ErrorKind::InUse, record.label(), rule, format!("{API_TEXT}: DeleteVolume"), hint);
        return Err(error.says("VolumeInUse", format!("Volume {} is currently attached to {}", record.id, settings.instance_id)));
    }
    match record.status {
        VolumeStatus::Available | VolumeStatus::Error => Ok(vec![Change::VolumeDeleting { volume: record.id.clone() }]),
        _ => Err(record.wrong_status("available")),
    }
}

pub(crate) fn confirm_deleted(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    if record.status != VolumeStatus::Deleting {
        return Err(record.wrong_status("deleting"));
    }
    Ok(vec![Change::VolumeDeleted { volume: record.id.clone() }])
}

pub(crate) fn tag(record: &VolumeRecord, request: &TagRequest) -> Result<Vec<Change>, ControlError> {
    let Some((set, remove)) = changed_tags(&record.tags, request)? else { return Ok(Vec::new()) };
    Ok(vec![Change::TagsChanged { volume: record.id.clone(), set, remove }])
}

fn tag_bytes(tags: &BTreeMap<String, String>) -> usize {
    tags.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// Checks that the lab has room for more tags.
pub(crate) fn check_room_for_tags(all: &Volumes, added: &BTreeMap<String, String>) -> Result<(), ControlError> {
    if added.is_empty() || all.values().map(|record| tag_bytes(&record.tags)).sum::<usize>() + tag_bytes(added) <= MOST_TAG_BYTES {
        return Ok(());
    }
    let rule = format!("the tags of all volumes together have at most {} MiB", MOST_TAG_BYTES >> 20);
    let error = ControlError::new(ErrorKind::LimitExceeded, format!("{} tags", added.len()), rule, LAB_RULE, "Remove tags that are no longer needed.");
    Err(error.says("TagLimitExceeded", "The maximum size of all tags of this lab has been reached."))
}

/// Decides the attributes of a volume; those that are None stay as they are.
pub(crate) fn set_attributes(record: &VolumeRecord, auto_enable_io: Option<bool>, delete_on_termination: Option<bool>) -> Result<Vec<Change>, ControlError> {
    let attached = record.attachment.as_ref().map(|attachment| attachment.delete_on_termination);
    if delete_on_termination.is_some() && attached.is_none() {
        return Err(attachments::not_attached(record));
    }
    let after = (auto_enable_io.unwrap_or(record.auto_enable_io), delete_on_termination.or(attached).unwrap_or(false));
    if after == (record.auto_enable_io, attached.unwrap_or(false)) {
        return Ok(Vec::new());
    }
    Ok(vec![Change::AttributesSet { volume: record.id.clone(), auto_enable_io: after.0, delete_on_termination: after.1 }])
}

/// Does what a change of a volume as a whole says.
pub(crate) fn apply(record: &mut VolumeRecord, change: &Change) {
    match change {
        Change::VolumeReady { .. } => {
            record.status = if record.attachment.is_some() { VolumeStatus::InUse } else { VolumeStatus::Available };
            record.error = None;
            record.was_ready = false;
        }
        Change::VolumeFailed { reason, .. } => {
            record.was_ready = record.status != VolumeStatus::Creating;
            record.status = VolumeStatus::Error;
            record.error = Some(reason.clone());
        }
        Change::AttributesSet { auto_enable_io, delete_on_termination, .. } => {
            record.auto_enable_io = *auto_enable_io;
            if let Some(attachment) = &mut record.attachment {
                attachment.delete_on_termination = *delete_on_termination;
            }
        }
        Change::VolumeDeleting { .. } => record.status = VolumeStatus::Deleting,
        Change::TagsChanged { set, remove, .. } => {
            record.tags.retain(|key, _| !remove.contains(key));
            record.tags.extend(set.clone());
        }
        _ => {}
    }
}
