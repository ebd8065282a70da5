//! Members one by one: slow, lost, replaced, rebuilt; and their credit balances. A single volume is
//! its own member 0.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::event::Change;
use crate::ids::VolumeId;
use crate::settings::Settings;
use crate::volumes::record::{BalanceSet, Member, MemberState, Slowness, VolumeRecord};
use headrace_catalog::{StorageSpec, VolumeLimits};

/// Millionths in a percent.
const PER_PERCENT: f64 = 10_000.0;

/// Turns percent into millionths of a capacity.
pub(crate) fn per_million(percent: f64) -> Result<u32, ControlError> {
    if !(0.0..=100.0).contains(&percent) {
        return Err(ControlError::invalid(format!("{percent} %"), "a balance is 0 to 100 percent", LAB_RULE, "Use a number like 5 or 99.5."));
    }
    Ok((percent * PER_PERCENT).round() as u32)
}

/// Returns the changes that set the balance, millionths of the capacity, of one member or of all
/// members with credits. Fails if there is none with credits.
pub(crate) fn balance_changes(
    volume: &VolumeId,
    spec: &StorageSpec,
    limits: &[VolumeLimits],
    member: Option<u32>,
    per_million: u32,
) -> Result<Vec<Change>, ControlError> {
    let with_credits = limits.iter().enumerate().filter(|(_, limits)| limits.io_burst.is_some() || limits.byte_burst.is_some());
    let chosen = with_credits.map(|(index, _)| index as u32).filter(|&index| member.is_none_or(|member| member == index));
    let changes: Vec<Change> = chosen.map(|member| Change::BalanceSet { volume: volume.clone(), member, per_million }).collect();
    if changes.is_empty() {
        let label = member.and_then(|member| spec.members.get(member as usize)).map_or_else(|| spec.to_string(), ToString::to_string);
        return Err(ControlError::new(
            ErrorKind::Unsupported,
            label,
            "has no credit balance: only gp2, st1 and sc1 volumes below the size at which the baseline reaches the burst have",
            "data/volumes/gp2.toml, st1.toml, sc1.toml",
            "Use a smaller gp2, or st1 or sc1.",
        ));
    }
    Ok(changes)
}

/// Decides the credit balance of a member, or of all members with credits, in percent of the
/// capacity.
pub(crate) fn set_balance(record: &VolumeRecord, settings: &Settings, member: Option<u32>, percent: f64) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    if let Some(member) = member {
        record.member_index(member)?;
    }
    let limits = record.limits(settings)?;
    balance_changes(&record.id, &record.spec, &limits, member, per_million(percent)?)
}

/// Decides that a member keeps `caps_percent` of its caps and answers each request `extra_ms`
/// later; 100 % and 0 ms restore it.
pub(crate) fn slow_member(record: &VolumeRecord, member: u32, caps_percent: f64, extra_ms: f64) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    let index = record.member_index(member)?;
    let Slowness { caps_per_mille, extra_latency_us } = Slowness::new(caps_percent, extra_ms)?;
    if !record.lives(index) {
        return Err(refuse_lost(record, index));
    }
    if caps_per_mille == 1_000 && extra_latency_us == 0 {
        return restore_member(record, member);
    }
    Ok(vec![Change::MemberSlowed { volume: record.id.clone(), member, caps_per_mille, extra_latency_us }])
}

/// Decides that a member is lost, and with it every member in rebuild that reads from it.
pub(crate) fn fail_member(record: &VolumeRecord, member: u32) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    let index = record.member_index(member)?;
    if record.members[index].state == MemberState::Failed {
        return Ok(Vec::new());
    }
    // A rebuild that reads from this member is over with it.
    let mut after = record.clone();
    after.members[index].state = MemberState::Failed;
    let starved = |other: &usize| matches!(after.members[*other].state, MemberState::Rebuilding { .. }) && !after.data_elsewhere(*other);
    let lost = std::iter::once(index).chain((0..after.members.len()).filter(starved));
    Ok(lost.map(|member| Change::MemberFailed { volume: record.id.clone(), member: member as u32 }).collect())
}

/// Decides that a slow member performs as its limits say again, or that a lost member of an array
/// without redundancy is back.
pub(crate) fn restore_member(record: &VolumeRecord, member: u32) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    let index = record.member_index(member)?;
    match record.members[index].state {
        MemberState::Ok => return Ok(Vec::new()),
        MemberState::Slow { .. } => {}
        // Without redundancy no write was answered while it was away, so its data are the
        // acknowledged ones.
        MemberState::Failed if !record.redundant() => {}
        MemberState::Failed | MemberState::Rebuilding { .. } => return Err(refuse_lost(record, index)),
    }
    Ok(vec![Change::MemberRestored { volume: record.id.clone(), member }])
}

/// Decides that an empty volume takes the place of a member and is filled from the others, with at
/// most `mib_s` MiB/s.
pub(crate) fn replace_member(record: &VolumeRecord, member: u32, mib_s: Option<u64>) -> Result<Vec<Change>, ControlError> {
    record.check_usable()?;
    let index = record.member_index(member)?;
    let name = record.member_name(index);
    if mib_s == Some(0) {
        return Err(ControlError::invalid("0 MiB/s", "a rebuild has a rate of 1 MiB/s or more", LAB_RULE, "Leave the rate out for as fast as members allow."));
    }
    if !record.redundant() {
        let hint = "Restore the member, or create a volume with redundancy, like raid10:4xgp3:500.";
        return Err(ControlError::new(ErrorKind::Unsupported, name, "has nothing to be rebuilt from: this volume has no redundancy", "md(4)", hint));
    }
    if matches!(record.members[index].state, MemberState::Rebuilding { .. }) {
        return Err(ControlError::new(
            ErrorKind::IncorrectState,
            name,
            "is already being rebuilt",
            LAB_RULE,
            "Wait for the rebuild, or fail the member to start over.",
        ));
    }
    if record.is_modifying() {
        let hint = "Wait until the modification is optimizing: `headrace volume list`.";
        return Err(ControlError::new(ErrorKind::IncorrectState, name, "cannot be replaced while its size is about to change", LAB_RULE, hint));
    }
    if !record.data_elsewhere(index) {
        let hint = "Delete the volume and restore its data from elsewhere.";
        return Err(ControlError::new(ErrorKind::IncorrectState, name, "cannot be rebuilt: members that hold the same data are lost too", "md(4)", hint));
    }
    let total_bytes = record.spec.members[index].size_gib << 30;
    Ok(vec![Change::MemberReplaced { volume: record.id.clone(), member, total_bytes, mib_s }])
}

/// Decides the progress of a rebuild, bytes; fewer than before where a restart began it again.
pub(crate) fn note_rebuilding(record: &VolumeRecord, member: u32, done_bytes: u64) -> Result<Vec<Change>, ControlError> {
    let index = find_rebuilding(record, member)?;
    match record.members[index].state {
        // Fewer than before, too: a restart begins a rebuild again.
        MemberState::Rebuilding { total_bytes, .. } if done_bytes <= total_bytes => {
            Ok(vec![Change::MemberRebuilding { volume: record.id.clone(), member, done_bytes }])
        }
        _ => Err(ControlError::invalid(format!("{done_bytes} bytes"), "a rebuild ends at the size of the member", LAB_RULE, "Report the bytes that are done.")),
    }
}

pub(crate) fn confirm_rebuilt(record: &VolumeRecord, member: u32) -> Result<Vec<Change>, ControlError> {
    find_rebuilding(record, member)?;
    Ok(vec![Change::MemberRebuilt { volume: record.id.clone(), member }])
}

/// Returns the index of a member, which must be in rebuild.
fn find_rebuilding(record: &VolumeRecord, member: u32) -> Result<usize, ControlError> {
    record.check_usable()?;
    let index = record.member_index(member)?;
    match record.members[index].state {
        MemberState::Rebuilding { .. } => Ok(index),
        _ => Err(ControlError::new(ErrorKind::IncorrectState, record.member_name(index), "is not being rebuilt", LAB_RULE, "Replace the member first.")),
    }
}

/// Makes the refusal of a member that is lost or in rebuild.
fn refuse_lost(record: &VolumeRecord, index: usize) -> ControlError {
    let rule = match record.members[index].state {
        MemberState::Rebuilding { .. } => "is being rebuilt",
        _ => "is lost",
    };
    let hint = match (record.redundant(), rule) {
        (_, "is being rebuilt") => "Wait for the rebuild.",
        (true, _) => "Replace it: what was written without it must be rebuilt.",
        (false, _) => "Restore it first.",
    };
    ControlError::new(ErrorKind::IncorrectState, record.member_name(index), rule, LAB_RULE, hint)
}

/// Does what a change of a member says.
pub(crate) fn apply(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
    let (Change::BalanceSet { member: index, .. }
    | Change::MemberSlowed { member: index, .. }
    | Change::MemberRestored { member: index, .. }
    | Change::MemberFailed { member: index, .. }
    | Change::MemberReplaced { member: index, .. }
    | Change::MemberRebuilding { member: index, .. }
    | Change::MemberRebuilt { member: index, .. }) = change
    else {
        return;
    };
    let Some(member) = record.members.get_mut(*index as usize) else { return };
    match *change {
        Change::BalanceSet { per_million, .. } => member.balance = Some(BalanceSet { per_million, at_ms }),
        Change::MemberSlowed { caps_per_mille, extra_latency_us, .. } => member.state = MemberState::Slow { caps_per_mille, extra_latency_us },
        Change::MemberRestored { .. } | Change::MemberRebuilt { .. } => member.state = MemberState::Ok,
        Change::MemberFailed { .. } => member.state = MemberState::Failed,
        Change::MemberReplaced { total_bytes, mib_s, .. } => {
            let state = MemberState::Rebuilding { done_bytes: 0, total_bytes, mib_s };
            // A new volume has its own credits.
            *member = Member { state, replaced: member.replaced + 1, balance: None };
        }
        Change::MemberRebuilding { done_bytes: reported, .. } => {
            if let MemberState::Rebuilding { done_bytes, .. } = &mut member.state {
                *done_bytes = reported;
            }
        }
        _ => {}
    }
}
