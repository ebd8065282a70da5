//! Modifications: size, type, IOPS or MiB/s of a volume that may be in use.
//!
//! ```text
//!  accepted               modifying_until_ms              optimizing_until_ms
//!     |  modifying: as before    |  optimizing: new size,        |  completed
//!     |                          |  limits in between            |
//!     +-- failed: as before      |                               |
//! ```
//!
//! The rules are those of the volume's day (`data/rules.toml`, section modify_volume): none before
//! 2017-02-13, then one in 6 hours, from 2026-01-15 four in a rolling 24 hours. Counted is every
//! accepted modification by its start, one that failed too: AWS does not say otherwise.

use crate::command::ModifyRequest;
use crate::error::{rule_source, ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::event::{Change, Event};
use crate::ids::draw_id;
use crate::settings::Settings;
use crate::volumes::record::{limits_of, Modification, ModificationState, VolumeRecord, Volumes, MAX_HISTORY};
use chrono::{DateTime, NaiveDate};
use headrace_catalog::{Catalog, RaidLevel, StorageSpec, VolumeSpec, VolumeType};
use headrace_model::rates::{default_optimizing, DEFAULT_MODIFYING};

/// Milliseconds in an hour and in a day.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Returns the events of modifications that are due. See [`crate::Lab::due`].
pub(crate) fn due(volumes: &Volumes, now_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for record in volumes.values() {
        let Some(modification) = record.modification() else { continue };
        let (volume, id) = (&record.id, &modification.id);
        let waits = modification.state == ModificationState::Modifying;
        if waits && modification.modifying_until_ms <= now_ms {
            let change = Change::ModificationOptimizing { volume: volume.clone(), modification: id.clone() };
            events.push(Event { at_ms: modification.modifying_until_ms, change });
        }
        if modification.is_active() && modification.optimizing_until_ms <= now_ms {
            let change = Change::ModificationCompleted { volume: volume.clone(), modification: id.clone() };
            events.push(Event { at_ms: modification.optimizing_until_ms, change });
        }
    }
    // Stable: of one volume, optimizing stays before completed when both are due at once.
    events.sort_by_key(|event| event.at_ms);
    events
}

/// Returns the lab time of the next event of [`crate::Lab::due`].
pub(crate) fn next_due(volumes: &Volumes) -> Option<u64> {
    volumes.values().filter_map(|record| record.modification()?.next_ms()).min()
}

/// Accepts a modification. `at_ms` is lab time, Unix milliseconds.
pub(crate) fn modify(
    record: &VolumeRecord,
    request: &ModifyRequest,
    settings: &Settings,
    at_ms: u64,
    ids: &mut dyn FnMut() -> u64,
) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    check_modifiable(record)?;
    let change = MemberChange {
        member_gib: request.size_gib.map(|size| member_size(record, size)).transpose()?,
        volume_type: request.volume_type.as_deref().map(str::parse).transpose()?,
        iops: request.iops,
        throughput_mib_s: request.throughput_mib_s,
    };
    let to = resolve_target(record, settings, &change)?;
    check_rate(record, at_ms)?;
    let (modifying_ms, optimizing_ms) = match settings.modification_times {
        Some(times) => (times.modifying_ms, times.optimizing_ms),
        None => {
            let members = record.members.len() as u64;
            let largest_gib = to.members.iter().map(|member| member.size_gib).max().unwrap_or(0);
            // Members are modified side by side, each with its share of the data.
            let used = request.used_gib.map_or(largest_gib, |used| used.div_ceil(members).min(largest_gib));
            (DEFAULT_MODIFYING.0 / 1_000_000, default_optimizing(used).0 / 1_000_000)
        }
    };
    let modifying_until_ms = at_ms.saturating_add(modifying_ms);
    let modification = Modification {
        id: draw_id("mod", ids),
        from: record.spec.clone(),
        to,
        state: ModificationState::Modifying,
        started_ms: at_ms,
        modifying_until_ms,
        optimizing_until_ms: modifying_until_ms.saturating_add(optimizing_ms),
        ended_ms: None,
        reason: None,
    };
    Ok(vec![Change::ModificationStarted { volume: record.id.clone(), modification }])
}

/// Refuses a volume of a day on which volumes could not be modified, and one whose earlier
/// modification is not completed.
fn check_modifiable(record: &VolumeRecord) -> Result<(), ControlError> {
    if let Some(since) = Catalog::embedded().rule("modify_volume", "available").and_then(|rule| rule.from).filter(|&since| record.as_of < since) {
        return Err(ControlError::new(
            ErrorKind::Unsupported,
            format!("{} as of {}", record.label(), record.as_of),
            format!("volumes can be modified since {since}"),
            rule_source("modify_volume", "available"),
            "Create a new volume and copy the data, as was done then.",
        ));
    }
    let Some(active) = record.modification().filter(|modification| modification.is_active()) else { return Ok(()) };
    let (state, until) = (active.state.as_str(), format_lab_time(active.optimizing_until_ms));
    let error = ControlError::new(
        ErrorKind::IncorrectModificationState,
        record.label(),
        format!("cannot be modified in modification state {state}: every earlier modification must be completed"),
        format!("{API_TEXT}: ModifyVolume, error IncorrectModificationState"),
        format!("It is completed at {until} (lab time); `headrace lab up --time-scale` makes that sooner."),
    );
    let message = format!("Volume {} cannot be modified in modification state {}", record.id, state.to_uppercase());
    Err(error.says("IncorrectModificationState", message))
}

/// Returns the storage of a volume after a change of its members. Fails if nothing changes, a limit
/// is broken, or the array cannot grow.
fn resolve_target(record: &VolumeRecord, settings: &Settings, change: &MemberChange) -> Result<StorageSpec, ControlError> {
    let limits = record.limits(settings)?;
    let mut members = Vec::with_capacity(limits.len());
    for (current, limits) in record.spec.members.iter().zip(&limits) {
        members.push(change.apply_to(current, limits.iops, limits.throughput_bytes_s >> 20, record.as_of)?);
    }
    let to = StorageSpec { members, ..record.spec.clone() };
    if to == record.spec {
        return Err(ControlError::invalid(
            record.spec.to_string(),
            "is what the volume already is, and a modification changes something",
            LAB_RULE,
            "Name another size, type, IOPS or MiB/s; one without effect would still count.",
        ));
    }
    limits_of(&to, record.as_of, settings)?;
    let has_local_disk = |spec: &StorageSpec| spec.members.iter().any(|member| member.volume_type == VolumeType::InstanceStore);
    if has_local_disk(&to) || has_local_disk(&record.spec) {
        return Err(ControlError::new(
            ErrorKind::Unsupported,
            to.to_string(),
            "disks of the host are not EBS volumes and cannot be modified",
            "data/volumes/instance-store.toml",
            "Create another volume.",
        ));
    }
    let grows = to.usable_gib() > record.spec.usable_gib();
    if let Some(member) = (0..record.members.len()).find(|&member| !record.lives(member)).filter(|_| grows) {
        return Err(ControlError::new(
            ErrorKind::IncorrectState,
            record.member_name(member),
            "is lost or in rebuild, and only a whole array can grow",
            LAB_RULE,
            "Replace the member and let the rebuild end first.",
        ));
    }
    Ok(to)
}

/// Decides that a modification in state modifying failed.
pub(crate) fn fail_modification(record: &VolumeRecord, reason: &str) -> Result<Vec<Change>, ControlError> {
    match record.modification() {
        Some(modification) if modification.state == ModificationState::Modifying => {
            Ok(vec![Change::ModificationFailed { volume: record.id.clone(), modification: modification.id.clone(), reason: reason.to_string() }])
        }
        _ => Err(ControlError::new(
            ErrorKind::IncorrectModificationState,
            record.label(),
            "has no modification in state modifying",
            "EC2 modification states",
            "See `headrace volume list`.",
        )),
    }
}

/// Change of each member by a modification; fields that are None stay as they are.
struct MemberChange {
    member_gib: Option<u64>,
    volume_type: Option<VolumeType>,
    iops: Option<u64>,
    throughput_mib_s: Option<u64>,
}

impl MemberChange {
    /// Applies the change to a member, with EC2's defaults for the other figures: the same type
    /// keeps all; another type has 3,000 IOPS where they are bought (API text, ModifyVolume), and
    /// gp3 that was gp2 the larger of the gp2 figures and the included ones (`data/rules.toml`:
    /// gp2_to_gp3_defaults).
    fn apply_to(&self, current: &VolumeSpec, current_iops: u64, current_mib_s: u64, as_of: NaiveDate) -> Result<VolumeSpec, ControlError> {
        let volume_type = self.volume_type.unwrap_or(current.volume_type);
        // Unlike members grow to the new size; a larger one stays.
        let size_gib = self.member_gib.map_or(current.size_gib, |size| size.max(current.size_gib));
        let (iops, throughput_mib_s) = match volume_type {
            same if same == current.volume_type => (current.iops, current.throughput_mib_s),
            VolumeType::Io1 | VolumeType::Io2 | VolumeType::Io2BlockExpress => (Some(3_000), None),
            VolumeType::Gp3 if current.volume_type == VolumeType::Gp2 => {
                let included = Catalog::embedded().volume_limits(&VolumeSpec::new(volume_type, size_gib), as_of, None)?;
                let above = |figure: u64, included: u64| (figure > included).then_some(figure);
                (above(current_iops, included.iops), above(current_mib_s, included.throughput_bytes_s >> 20))
            }
            _ => (None, None),
        };
        Ok(VolumeSpec { volume_type, size_gib, iops: self.iops.or(iops), throughput_mib_s: self.throughput_mib_s.or(throughput_mib_s) })
    }
}

/// Returns the size of each member, GiB, that makes an array of `size` GiB.
fn member_size(record: &VolumeRecord, size: u64) -> Result<u64, ControlError> {
    let current_gib = record.size_gib();
    if size < current_gib {
        let error = ControlError::invalid(
            format!("{size} GiB"),
            format!("a volume never shrinks, and {} has {current_gib} GiB", record.label()),
            rule_source("modify_volume", "never_shrinks"),
            format!("Use {current_gib} GiB or more, or create a smaller volume and copy the data."),
        );
        return Err(error.says("InvalidParameterValue", "New size cannot be smaller than existing size"));
    }
    if record.spec.raid == Some(RaidLevel::Raid10F2) && size > current_gib {
        return Err(ControlError::new(
            ErrorKind::Unsupported,
            record.spec.to_string(),
            "cannot grow: the far copies of a raid10f2 array lie in the middle of its members and would have to move",
            LAB_RULE,
            "Create a larger array and copy the data; type, IOPS and MiB/s can be modified.",
        ));
    }
    if record.spec.raid == Some(RaidLevel::Raid0) && record.spec.has_unlike_sizes() && size > current_gib {
        return Err(ControlError::new(
            ErrorKind::Unsupported,
            record.spec.to_string(),
            "cannot grow: a RAID 0 of unlike members is striped over fewer of them where the smaller end, and growing one would move the rest",
            LAB_RULE,
            "Create a larger array and copy the data; type, IOPS and MiB/s can be modified.",
        ));
    }
    if size == current_gib {
        return Ok(record.spec.members.iter().map(|member| member.size_gib).min().unwrap_or(size));
    }
    let (data_members, _) = record.spec.raid.map_or((1, 1), |level| level.data_members(record.members.len() as u64));
    if size % data_members == 0 {
        return Ok(size / data_members);
    }
    let (below, above) = (size / data_members * data_members, size.div_ceil(data_members).saturating_mul(data_members));
    Err(ControlError::invalid(
        format!("{size} GiB"),
        format!("the size of this array must be a multiple of {data_members} GiB, because all members grow by the same amount"),
        LAB_RULE,
        if below > current_gib { format!("Use {below} or {above} GiB.") } else { format!("Use {above} GiB.") },
    ))
}

/// Returns the rule about the rate of modifications: its name in `data/rules.toml`, its words, and
/// the lab time from which it accepts the next modification.
fn rate_rule(record: &VolumeRecord) -> (&'static str, String, Option<u64>) {
    let rule = |name: &str| Catalog::embedded().rule("modify_volume", name);
    let figure = |name: &str, default: u64| rule(name).and_then(|rule| rule.value.as_u64()).unwrap_or(default);
    let rolling = rule("max_per_24_hours").and_then(|rule| rule.from).is_none_or(|from| record.as_of >= from);
    let starts = || record.modifications.iter().rev().map(|modification| modification.started_ms);
    if rolling {
        let most = figure("max_per_24_hours", 4);
        let text = format!("was modified {most} times in 24 hours, and more are not allowed");
        // The oldest of them must be a day old before the next: at its 24 hours it no longer
        // counts.
        ("max_per_24_hours", text, starts().nth(most.saturating_sub(1) as usize).map(|start| start + DAY_MS))
    } else {
        let hours = figure("wait_hours", 6);
        let text = format!("was modified less than {hours} hours ago");
        ("wait_hours", text, starts().next().map(|start| start + hours * HOUR_MS))
    }
}

/// Returns the lab time from which on another modification is accepted: the last is completed, and
/// the rule about how often allows it.
pub fn next_allowed_ms(record: &VolumeRecord) -> u64 {
    let active = record.modification().filter(|modification| modification.is_active());
    let completed = active.map_or(0, |modification| modification.optimizing_until_ms);
    rate_rule(record).2.unwrap_or(0).max(completed)
}

/// Refuses a modification that comes too soon after the ones before. `at_ms` is lab time, Unix
/// milliseconds.
fn check_rate(record: &VolumeRecord, at_ms: u64) -> Result<(), ControlError> {
    let (name, text, next_ms) = rate_rule(record);
    match next_ms {
        Some(next_ms) if at_ms < next_ms => {
            let source = format!("{}, error VolumeModificationRateExceeded", rule_source("modify_volume", name));
            let next = format_lab_time(next_ms);
            let message = match name {
                "wait_hours" => {
                    "You've reached the maximum modification rate per volume limit. Wait at least 6 hours between modifications per EBS volume.".to_string()
                }
                _ => format!("You've reached the maximum modification rate per volume limit. The next modification is allowed at {next}."),
            };
            let error = ControlError::new(ErrorKind::RateExceeded, record.label(), text, source, format!("The next is allowed at {next} (lab time)."));
            Err(error.says("VolumeModificationRateExceeded", message))
        }
        _ => Ok(()),
    }
}

fn format_lab_time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(|| format!("{ms} ms"), |time| time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Does what a change of a modification says.
pub(crate) fn apply(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
    match change {
        Change::ModificationStarted { modification, .. } => {
            record.modifications.push(modification.clone());
            let surplus = record.modifications.len().saturating_sub(MAX_HISTORY);
            record.modifications.drain(..surplus);
        }
        Change::ModificationOptimizing { modification, .. } => {
            if let Some(entry) = find(record, modification) {
                entry.state = ModificationState::Optimizing;
                record.spec = entry.to.clone();
            }
        }
        Change::ModificationCompleted { modification, .. } => end_modification(record, modification, ModificationState::Completed, at_ms, None),
        Change::ModificationFailed { modification, reason, .. } => end_modification(record, modification, ModificationState::Failed, at_ms, Some(reason)),
        _ => {}
    }
}

fn find<'a>(record: &'a mut VolumeRecord, id: &str) -> Option<&'a mut Modification> {
    record.modifications.iter_mut().rev().find(|modification| modification.id == id)
}

fn end_modification(record: &mut VolumeRecord, id: &str, state: ModificationState, at_ms: u64, reason: Option<&String>) {
    if let Some(modification) = find(record, id) {
        modification.state = state;
        modification.ended_ms = Some(at_ms);
        modification.reason = reason.cloned();
    }
}
