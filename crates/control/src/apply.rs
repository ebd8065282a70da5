//! Events to state. Knows no rule: what [`Lab::decide`] let through is done, the same way every time.

use crate::attachments::{Attachment, AttachmentState};
use crate::event::{Change, Event};
use crate::members::{BalanceSet, Member, MemberState};
use crate::modifications::{Modification, ModificationState, MAX_HISTORY};
use crate::record::{VolumeRecord, VolumeStatus};
use crate::Lab;

impl Lab {
    /// Does what an event says. Never fails on events that were decided for this state; one that names what is not there does nothing.
    pub fn apply(&mut self, event: &Event) {
        let at_ms = event.at_ms;
        self.last_ms = self.last_ms.max(at_ms);
        match &event.change {
            Change::Configured { settings } => self.settings = settings.clone(),
            Change::VolumeCreated { volume, new } => {
                self.volumes.insert(volume.clone(), VolumeRecord::new(volume.clone(), new.clone(), at_ms));
            }
            Change::VolumeDeleted { volume } => {
                self.volumes.remove(volume);
            }
            change => {
                let known = change.volume().and_then(|volume| self.volumes.get_mut(volume));
                debug_assert!(known.is_some(), "an event of an unknown volume: {change:?}");
                if let Some(record) = known {
                    apply_to(record, change, at_ms);
                }
            }
        }
    }
}

fn apply_to(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
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
        Change::AttachmentStarted { .. }
        | Change::Attached { .. }
        | Change::AttachmentFailed { .. }
        | Change::DetachmentStarted { .. }
        | Change::DetachmentBusy { .. }
        | Change::Detached { .. } => apply_to_attachment(record, change, at_ms),
        Change::ModificationStarted { modification, .. } => {
            record.modifications.push(modification.clone());
            let surplus = record.modifications.len().saturating_sub(MAX_HISTORY);
            record.modifications.drain(..surplus);
        }
        Change::ModificationOptimizing { modification, .. } => {
            if let Some(found) = find(record, modification) {
                found.state = ModificationState::Optimizing;
                record.spec = found.to.clone();
            }
        }
        Change::ModificationCompleted { modification, .. } => end(record, modification, ModificationState::Completed, at_ms, None),
        Change::ModificationFailed { modification, reason, .. } => end(record, modification, ModificationState::Failed, at_ms, Some(reason)),
        change => apply_to_member(record, change, at_ms),
    }
}

fn apply_to_attachment(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
    match (change, record.attachment.as_mut()) {
        (Change::AttachmentStarted { attachment, name, unpaced, probe, .. }, _) => {
            record.status = VolumeStatus::InUse;
            record.attachment = Some(Attachment {
                id: attachment.clone(),
                name: name.clone(),
                state: AttachmentState::Attaching,
                started_ms: at_ms,
                attached_ms: None,
                unpaced: *unpaced,
                probe: *probe,
                force: false,
                busy: None,
                device: None,
            });
        }
        (Change::Attached { device, .. }, Some(attachment)) => {
            attachment.state = AttachmentState::Attached;
            attachment.attached_ms.get_or_insert(at_ms);
            attachment.device = Some(device.clone());
        }
        (Change::DetachmentStarted { force, .. }, Some(attachment)) => {
            attachment.state = AttachmentState::Detaching;
            attachment.force = *force;
            attachment.busy = None;
        }
        (Change::DetachmentBusy { reason, .. }, Some(attachment)) => {
            attachment.state = AttachmentState::Busy;
            attachment.force = false;
            attachment.busy = Some(reason.clone());
        }
        (Change::AttachmentFailed { .. } | Change::Detached { .. }, _) => {
            record.attachment = None;
            // One in error stays there.
            if record.status == VolumeStatus::InUse {
                record.status = VolumeStatus::Available;
            }
        }
        _ => {}
    }
}

fn apply_to_member(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
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
        Change::MemberRebuilding { done_bytes: now, .. } => {
            if let MemberState::Rebuilding { done_bytes, .. } = &mut member.state {
                *done_bytes = now;
            }
        }
        _ => {}
    }
}

fn find<'a>(record: &'a mut VolumeRecord, id: &str) -> Option<&'a mut Modification> {
    record.modifications.iter_mut().rev().find(|modification| modification.id == id)
}

fn end(record: &mut VolumeRecord, id: &str, state: ModificationState, at_ms: u64, reason: Option<&String>) {
    if let Some(modification) = find(record, id) {
        modification.state = state;
        modification.ended_ms = Some(at_ms);
        modification.reason = reason.cloned();
    }
}
