//! Create, complete, fail, copy, share, delete.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::ids::SnapshotId;
use crate::snapshots::messages::{CopyRequest, DirectRequest, SnapshotChange, SnapshotRequest};
use crate::snapshots::record::{NewSnapshot, SnapshotKey, SnapshotRecord, SnapshotSource, SnapshotState, VolumeOrigin};
use crate::snapshots::registry::{check_completed, refusal, Snapshots, MAX_SNAPSHOTS};
use crate::snapshots::{fast_restore, retention};
use crate::state::Lab;
use crate::tags::{changed_tags, check_tags, TagRequest};
use crate::volumes::record::{VolumeRecord, VolumeStatus};
use headrace_catalog::VolumeType;
use std::collections::BTreeMap;

/// Longest description, characters (EC2 API text, CreateSnapshot).
const MAX_DESCRIPTION_CHARS: usize = 255;
/// Snapshots of one volume that may be pending at once: EBS quotas, concurrent snapshots per
/// volume, 5 for SSD and magnetic volumes and 1 for HDD volumes.
const MOST_PENDING: usize = 5;
const MOST_PENDING_HDD: usize = 1;
/// Time between two snapshots of one volume while the first is pending: EC2 error codes,
/// SnapshotCreationPerVolumeRateExceeded.
const PENDING_APART_MS: u64 = 15_000;
/// Bounds of the initialization rate, MiB/s (EC2 API text, CreateVolume).
const INITIALIZATION_MIB_S: std::ops::RangeInclusive<u64> = 100..=300;
/// Largest volume, GiB (EC2 API text, CreateVolume: gp3 and io2).
const MAX_GIB: u64 = 65_536;

/// Largest volume that is snapshotted, GiB: 512 TiB, since the lab tells 2^30 blocks of 512 KiB
/// apart. Eight volumes of the largest size; an array of more has no snapshot.
const MAX_SNAPSHOT_GIB: u64 = 524_288;

/// Decides a snapshot of each volume that is named, all of one instant: all or none. `schedule` is
/// the schedule that asks for them, `at_ms` the lab time in Unix milliseconds.
pub(crate) fn create(
    lab: &Lab,
    request: &SnapshotRequest,
    schedule: Option<&str>,
    at_ms: u64,
    ids: &mut dyn FnMut() -> u64,
) -> Result<Vec<SnapshotChange>, ControlError> {
    if request.volumes.is_empty() {
        return Err(ControlError::invalid("volumes", "a snapshot is of one volume or more", LAB_RULE, "Name a volume."));
    }
    check_description(&request.description)?;
    check_count(&lab.snapshots, request.volumes.len())?;
    let mut changes: Vec<SnapshotChange> = Vec::with_capacity(request.volumes.len());
    for volume in &request.volumes {
        let record = lab.find(volume)?;
        let is_of_volume = |change: &SnapshotChange| matches!(change, SnapshotChange::Started { new, .. } if new.volume.as_ref() == Some(&record.id));
        if changes.iter().any(is_of_volume) {
            return Err(ControlError::invalid(volume, "is named twice", LAB_RULE, "Name each volume once."));
        }
        check_volume(record)?;
        check_size(record)?;
        check_pending(&lab.snapshots, record, at_ms)?;
        let mut tags = if request.copy_tags { record.tags.clone() } else { BTreeMap::new() };
        tags.extend(request.tags.clone());
        check_tags(&request.tags, tags.len())?;
        let new = NewSnapshot {
            volume: Some(record.id.clone()),
            size_gib: record.size_gib(),
            chain: chain_of(record),
            source: SnapshotSource::Volume,
            description: request.description.clone(),
            tags,
            encryption: key_of(record),
            schedule: schedule.map(str::to_string),
        };
        changes.push(SnapshotChange::Started { snapshot: SnapshotId::draw(ids), new });
    }
    Ok(changes)
}

/// Returns the chain of a volume's snapshots: that of the snapshot it was made from, else its own.
fn chain_of(record: &VolumeRecord) -> String {
    record.origin.as_ref().map_or_else(|| record.id.to_string(), |origin| origin.chain.clone())
}

/// Returns the data key of the volume, which its snapshots have too, so that blocks which did not
/// change need not be stored again.
fn key_of(record: &VolumeRecord) -> Option<SnapshotKey> {
    let encryption = record.encryption.as_ref()?;
    Some(SnapshotKey { key: encryption.key.clone(), wrapped: encryption.wrapped.clone(), context: record.id.to_string() })
}

/// Checks that a volume is available or in use, and is not an instance store.
pub(crate) fn check_volume(record: &VolumeRecord) -> Result<(), ControlError> {
    match record.status {
        VolumeStatus::Available | VolumeStatus::InUse => {}
        _ => return Err(record.wrong_status("available or in-use")),
    }
    if record.spec.members.iter().any(|member| member.volume_type == VolumeType::InstanceStore) {
        let message = "The instance store of a host cannot be snapshotted.".to_string();
        return Err(refusal(ErrorKind::Unsupported, "UnsupportedOperation", message, record.label(), "Copy its data to an EBS volume."));
    }
    Ok(())
}

fn check_size(record: &VolumeRecord) -> Result<(), ControlError> {
    if record.size_gib() <= MAX_SNAPSHOT_GIB {
        return Ok(());
    }
    let message = format!("{} has {} GiB, and a snapshot of this lab has at most {MAX_SNAPSHOT_GIB}.", record.id, record.size_gib());
    Err(refusal(ErrorKind::Unsupported, "UnsupportedOperation", message, record.label(), "Copy its data to a smaller volume."))
}

/// Refuses a snapshot of a volume that has too many pending ones, or one that began less than
/// [`PENDING_APART_MS`] before.
fn check_pending(all: &Snapshots, record: &VolumeRecord, at_ms: u64) -> Result<(), ControlError> {
    let pending_of_volume = || all.pending.iter().filter_map(|id| all.records.get(id)).filter(|other| other.properties.volume.as_ref() == Some(&record.id));
    let hdd = record.spec.members.iter().any(|member| matches!(member.volume_type, VolumeType::St1 | VolumeType::Sc1));
    let most = if hdd { MOST_PENDING_HDD } else { MOST_PENDING };
    if pending_of_volume().count() >= most {
        let message = format!("Maximum allowed in-progress snapshots for a single volume exceeded: {most} of {} are pending.", record.id);
        let hint = "Wait until one is completed: `headrace snapshot list`.";
        return Err(refusal(ErrorKind::LimitExceeded, "ConcurrentSnapshotLimitExceeded", message, record.label(), hint));
    }
    if pending_of_volume().any(|other| at_ms < other.started_ms + PENDING_APART_MS) {
        // Terraform looks for this sentence.
        let message = "The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or variable sleep interval between requests.";
        let hint = "Wait 15 seconds, or until the one before is completed.";
        return Err(refusal(ErrorKind::RateExceeded, "SnapshotCreationPerVolumeRateExceeded", message.to_string(), record.label(), hint));
    }
    Ok(())
}

fn check_count(all: &Snapshots, more: usize) -> Result<(), ControlError> {
    if all.records.len() + more <= MAX_SNAPSHOTS {
        return Ok(());
    }
    let message = format!("Snapshot limit exceeded: a lab keeps at most {MAX_SNAPSHOTS} snapshots, the recycle bin included.");
    Err(refusal(ErrorKind::LimitExceeded, "SnapshotLimitExceeded", message, format!("{more} more"), "Delete snapshots that are no longer needed."))
}

fn check_description(description: &str) -> Result<(), ControlError> {
    if description.chars().count() <= MAX_DESCRIPTION_CHARS && !description.contains(char::is_control) {
        return Ok(());
    }
    let rule = format!("a description is one line of at most {MAX_DESCRIPTION_CHARS} characters");
    Err(ControlError::invalid(description, rule, "EC2 API text: CreateSnapshot", "Shorten it, and leave out line breaks."))
}

/// Decides a copy of a completed snapshot. The request has the size of a snapshot that lies in
/// another object store.
pub(crate) fn copy(all: &Snapshots, request: &CopyRequest, ids: &mut dyn FnMut() -> u64) -> Result<Vec<SnapshotChange>, ControlError> {
    let source: SnapshotId = request.snapshot.parse()?;
    let (size_gib, description) = match (&request.store, request.size_gib) {
        (Some(_), Some(size_gib)) => (size_gib, String::new()),
        _ => {
            let record = all.find(&request.snapshot)?;
            check_completed(record)?;
            (record.properties.size_gib, record.properties.description.clone())
        }
    };
    let description = request.description.clone().unwrap_or(description);
    check_description(&description)?;
    check_count(all, 1)?;
    check_tags(&request.tags, request.tags.len())?;
    let id = SnapshotId::draw(ids);
    let new = NewSnapshot {
        volume: None,
        size_gib,
        chain: id.to_string(),
        source: SnapshotSource::Copy { store: request.store.clone(), snapshot: source, key: request.source_key.clone() },
        description,
        tags: request.tags.clone(),
        encryption: request.key.clone(),
        schedule: None,
    };
    Ok(vec![SnapshotChange::Started { snapshot: id, new }])
}

/// Decides a snapshot whose blocks are put one by one, over those of a completed parent if the
/// request names one.
pub(crate) fn start(all: &Snapshots, request: &DirectRequest, ids: &mut dyn FnMut() -> u64) -> Result<Vec<SnapshotChange>, ControlError> {
    if !(1..=MAX_GIB).contains(&request.size_gib) {
        let rule = format!("a snapshot has 1 to {MAX_GIB} GiB");
        return Err(ControlError::invalid(format!("{} GiB", request.size_gib), rule, "EBS direct API text: StartSnapshot", "Name the size of the volume."));
    }
    check_description(&request.description)?;
    check_count(all, 1)?;
    check_tags(&request.tags, request.tags.len())?;
    let id = SnapshotId::draw(ids);
    let parent = request.parent.as_deref().map(|parent| all.find(parent)).transpose()?;
    if let Some(parent) = parent {
        check_completed(parent)?;
        if parent.properties.size_gib > request.size_gib {
            let rule = format!("the parent has {} GiB, and a snapshot is at least as large", parent.properties.size_gib);
            return Err(ControlError::invalid(format!("{} GiB", request.size_gib), rule, "EBS direct API text: StartSnapshot", "Name a larger size."));
        }
    }
    let new = NewSnapshot {
        volume: None,
        size_gib: request.size_gib,
        chain: parent.map_or_else(|| id.to_string(), |parent| parent.properties.chain.clone()),
        source: SnapshotSource::Direct { parent: parent.map(|parent| parent.id.clone()) },
        description: request.description.clone(),
        tags: request.tags.clone(),
        encryption: request.key.clone(),
        schedule: None,
    };
    Ok(vec![SnapshotChange::Started { snapshot: id, new }])
}

/// Returns a snapshot, which must be pending.
fn find_pending<'a>(all: &'a Snapshots, snapshot: &SnapshotId) -> Result<&'a SnapshotRecord, ControlError> {
    let record = all.find(snapshot.as_str())?;
    if record.state == SnapshotState::Pending {
        return Ok(record);
    }
    let rule = format!("is {}, and must be pending for that", record.state.as_str());
    Err(ControlError::new(ErrorKind::IncorrectState, snapshot.as_str(), rule, "EC2 snapshot states", "See `headrace snapshot list`."))
}

pub(crate) fn note_progress(all: &Snapshots, snapshot: &SnapshotId, percent: u8, waits: Option<&str>) -> Result<Vec<SnapshotChange>, ControlError> {
    let record = find_pending(all, snapshot)?;
    // 100 is for completed alone.
    let percent = percent.min(99);
    let changed = record.progress_percent != percent || record.error.as_deref() != waits;
    Ok(changed.then(|| SnapshotChange::Progress { snapshot: snapshot.clone(), percent, waits: waits.map(str::to_string) }).into_iter().collect())
}

/// Decides that a pending snapshot is completed. `stored_bytes` were stored for it, `full_bytes`
/// are those of all its blocks.
pub(crate) fn complete(
    all: &Snapshots,
    snapshot: &SnapshotId,
    parent: Option<&SnapshotId>,
    stored_bytes: u64,
    full_bytes: u64,
) -> Result<Vec<SnapshotChange>, ControlError> {
    find_pending(all, snapshot)?;
    Ok(vec![SnapshotChange::Completed { snapshot: snapshot.clone(), parent: parent.cloned(), stored_bytes, full_bytes }])
}

pub(crate) fn fail(all: &Snapshots, snapshot: &SnapshotId, reason: &str) -> Result<Vec<SnapshotChange>, ControlError> {
    find_pending(all, snapshot)?;
    Ok(vec![SnapshotChange::Failed { snapshot: snapshot.clone(), reason: reason.to_string() }])
}

pub(crate) fn abandon(all: &Snapshots, snapshots: &[SnapshotId]) -> Result<Vec<SnapshotChange>, ControlError> {
    let start_deletion = |id: &SnapshotId| find_pending(all, id).map(|_| SnapshotChange::DeletionStarted { snapshot: id.clone() });
    snapshots.iter().map(start_deletion).collect()
}

/// Decides that a snapshot is moved to the recycle bin where a retention rule keeps it, and is
/// deleted otherwise.
pub(crate) fn delete(all: &Snapshots, record: &SnapshotRecord, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    check_deletable(all, record, at_ms)?;
    if record.state == SnapshotState::Completed {
        if let Some(bin) = retention::kept_by(all, record, at_ms) {
            return Ok(vec![SnapshotChange::Binned { snapshot: record.id.clone(), bin }]);
        }
    }
    Ok(vec![SnapshotChange::DeletionStarted { snapshot: record.id.clone() }])
}

/// Refuses a snapshot that is locked at `at_ms`, and one that a pending copy or a pending snapshot
/// of the EBS direct API is made from.
fn check_deletable(all: &Snapshots, record: &SnapshotRecord, at_ms: u64) -> Result<(), ControlError> {
    if let Some(lock) = record.lock.as_ref().filter(|lock| lock.holds(at_ms)) {
        let message = format!("The snapshot '{}' is locked in {} mode and can't be deleted.", record.id, lock.mode.as_str());
        return Err(refusal(ErrorKind::InUse, "SnapshotLocked", message, record.id.as_str(), "Unlock it, or wait until the lock expires."));
    }
    let is_made_from = |other: &&SnapshotRecord| match &other.properties.source {
        SnapshotSource::Copy { store: None, snapshot, .. } => *snapshot == record.id,
        SnapshotSource::Direct { parent } => parent.as_ref() == Some(&record.id),
        _ => false,
    };
    if let Some(other) = all.pending.iter().filter_map(|id| all.records.get(id)).find(is_made_from) {
        let message = format!("The snapshot {} is currently in use by {}", record.id, other.id);
        let hint = "Wait until the copy is completed, or delete the copy.";
        return Err(refusal(ErrorKind::InUse, "InvalidSnapshot.InUse", message, record.id.as_str(), hint));
    }
    Ok(())
}

/// Returns true if no rule forbids to delete the snapshot.
pub(crate) fn is_deletable(all: &Snapshots, record: &SnapshotRecord, at_ms: u64) -> bool {
    check_deletable(all, record, at_ms).is_ok()
}

pub(crate) fn confirm_removed(all: &Snapshots, snapshot: &SnapshotId) -> Result<Vec<SnapshotChange>, ControlError> {
    let deleting = all.deleting.contains_key(snapshot);
    Ok(deleting.then(|| SnapshotChange::Removed { snapshot: snapshot.clone() }).into_iter().collect())
}

pub(crate) fn tag(record: &SnapshotRecord, request: &TagRequest) -> Result<Vec<SnapshotChange>, ControlError> {
    let Some((set, remove)) = changed_tags(&record.properties.tags, request)? else { return Ok(Vec::new()) };
    Ok(vec![SnapshotChange::TagsChanged { snapshot: record.id.clone(), set, remove }])
}

/// Decides the accounts that may make volumes from a snapshot: `add` are added after `remove` were
/// removed.
pub(crate) fn share(record: &SnapshotRecord, add: &[String], remove: &[String]) -> Result<Vec<SnapshotChange>, ControlError> {
    let is_malformed = |text: &&String| text.len() != 12 || !text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(wrong) = add.iter().chain(remove).find(is_malformed) {
        let message = format!("Invalid account id: '{wrong}': an account id has 12 digits.");
        return Err(refusal(ErrorKind::InvalidParameter, "InvalidParameterValue", message, wrong, "Name an account like 000000000000."));
    }
    let mut accounts = record.shared_with.clone();
    accounts.retain(|account| !remove.contains(account));
    accounts.extend(add.iter().cloned());
    accounts.sort();
    accounts.dedup();
    let changed = accounts != record.shared_with;
    Ok(changed.then(|| SnapshotChange::Shared { snapshot: record.id.clone(), accounts }).into_iter().collect())
}

/// Returns the origin of a new volume from a snapshot, and the credit that it takes.
pub(crate) fn origin(
    lab: &Lab,
    snapshot: &str,
    usable_gib: u64,
    initialization_mib_s: Option<u64>,
    at_ms: u64,
) -> Result<(VolumeOrigin, Option<SnapshotChange>), ControlError> {
    let record = lab.snapshots.find(snapshot)?;
    check_completed(record)?;
    if usable_gib < record.properties.size_gib {
        let message = format!("Volume of size {usable_gib}GB is smaller than snapshot '{}', expect size >= {}GB", record.id, record.properties.size_gib);
        let hint = "Name a size that is at least that of the snapshot.";
        return Err(refusal(ErrorKind::InvalidParameter, "InvalidParameterValue", message, format!("{usable_gib} GiB"), hint));
    }
    if let Some(rate) = initialization_mib_s.filter(|rate| !INITIALIZATION_MIB_S.contains(rate)) {
        let message = format!("Volume initialization rate of {rate} MiB/s is not valid: it is 100 to 300 MiB/s.");
        return Err(refusal(ErrorKind::InvalidParameter, "InvalidParameterValue", message, format!("{rate} MiB/s"), "Name a rate of 100 to 300 MiB/s."));
    }
    let zone = lab.settings.zone();
    // With a provisioned rate no credit is taken (EBS user guide, initialize volumes).
    let credit = if initialization_mib_s.is_none() { fast_restore::take_credit(&lab.snapshots, record, &zone, at_ms) } else { None };
    let origin = VolumeOrigin {
        snapshot: record.id.clone(),
        chain: record.properties.chain.clone(),
        size_gib: record.properties.size_gib,
        initialization_mib_s,
        encryption: record.properties.encryption.clone(),
        fast: credit.is_some(),
        loaded: false,
    };
    Ok((origin, credit))
}

pub(crate) fn volume_loaded(record: &VolumeRecord) -> Result<Vec<SnapshotChange>, ControlError> {
    let loads = record.origin.as_ref().is_some_and(|origin| !origin.loaded);
    Ok(loads.then(|| SnapshotChange::VolumeLoaded { volume: record.id.clone() }).into_iter().collect())
}
