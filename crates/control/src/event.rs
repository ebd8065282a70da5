//! Events of the lab. Written to the journal, so a name or a field is never changed or taken away;
//! new fields have a default.

use crate::alarms::AlarmChange;
use crate::ids::VolumeId;
use crate::keys::KeyChange;
use crate::settings::Settings;
use crate::snapshots::messages::SnapshotChange;
use crate::tokens::TokenChange;
use crate::volumes::record::{AttachedDevice, Modification, NewVolume};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A change and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Lab time, Unix milliseconds.
    pub at_ms: u64,
    /// Change.
    pub change: Change,
}

impl Event {
    /// Returns true for the last step of making and of deleting a volume: the first is on disk, and
    /// a start of the daemon takes the last one again where it finds the first alone. So it need
    /// not be written before the next event that must last.
    pub fn is_repeated_at_start(&self) -> bool {
        matches!(self.change, Change::VolumeReady { .. } | Change::VolumeDeleted { .. })
    }

    /// Returns true if the event must be on disk before any caller gets its answer. Progress need
    /// not be: it is measured again.
    pub fn must_last(&self) -> bool {
        match &self.change {
            Change::MemberRebuilding { .. } => false,
            Change::Snapshot(SnapshotChange::Progress { .. }) => false,
            Change::Alarm(change) => change.must_last(),
            _ => true,
        }
    }
}

/// Changes of the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the fields are those of the command of the same name
pub enum Change {
    /// The lab has these settings from now on.
    Configured { settings: Settings },
    /// A volume begins to exist.
    VolumeCreated { volume: VolumeId, new: NewVolume },
    /// The volume can be attached.
    VolumeReady { volume: VolumeId },
    /// The volume cannot be used any more.
    VolumeFailed { volume: VolumeId, reason: String },
    /// The files of the volume are being removed.
    VolumeDeleting { volume: VolumeId },
    /// The volume is gone.
    VolumeDeleted { volume: VolumeId },
    /// Keys removed, then tags set.
    TagsChanged {
        volume: VolumeId,
        #[serde(default)]
        set: BTreeMap<String, String>,
        #[serde(default)]
        remove: Vec<String>,
    },
    /// The volume has these attributes from now on.
    AttributesSet { volume: VolumeId, auto_enable_io: bool, delete_on_termination: bool },
    /// A device is being made.
    AttachmentStarted {
        volume: VolumeId,
        attachment: String,
        name: String,
        #[serde(default)]
        unpaced: bool,
        #[serde(default)]
        probe: bool,
    },
    /// The device is there.
    Attached { volume: VolumeId, device: AttachedDevice },
    /// No device could be made.
    AttachmentFailed { volume: VolumeId, reason: String },
    /// The device is being taken away.
    DetachmentStarted {
        volume: VolumeId,
        #[serde(default)]
        force: bool,
    },
    /// The device is in use and stays.
    DetachmentBusy {
        volume: VolumeId,
        reason: String,
        #[serde(default)]
        waits: bool,
    },
    /// The device is gone.
    Detached { volume: VolumeId },
    /// A modification was accepted.
    ModificationStarted { volume: VolumeId, modification: Modification },
    /// The volume has its new specification; limits are in between until completed.
    ModificationOptimizing { volume: VolumeId, modification: String },
    /// The modification is completed: the new limits hold.
    ModificationCompleted { volume: VolumeId, modification: String },
    /// The modification failed, and all is as before.
    ModificationFailed { volume: VolumeId, modification: String, reason: String },
    /// Credits of a member, in millionths of its capacity.
    BalanceSet { volume: VolumeId, member: u32, per_million: u32 },
    /// A member is slow.
    MemberSlowed { volume: VolumeId, member: u32, caps_per_mille: u32, extra_latency_us: u64 },
    /// A member performs as its limits say again.
    MemberRestored { volume: VolumeId, member: u32 },
    /// A member is lost.
    MemberFailed { volume: VolumeId, member: u32 },
    /// An empty volume stands in a member's place.
    MemberReplaced {
        volume: VolumeId,
        member: u32,
        total_bytes: u64,
        #[serde(default)]
        mib_s: Option<u64>,
    },
    /// The rebuild of the member has come this far.
    MemberRebuilding { volume: VolumeId, member: u32, done_bytes: u64 },
    /// The rebuild of the member is complete.
    MemberRebuilt { volume: VolumeId, member: u32 },
    /// A change of a client token.
    Token(TokenChange),
    /// A change of a key.
    Key(KeyChange),
    /// A change of an alarm.
    Alarm(AlarmChange),
    /// A change of a snapshot.
    Snapshot(SnapshotChange),
}

impl Change {
    /// Returns the id of the event's subject, which answers a repeated call.
    pub fn subject(&self) -> Option<String> {
        match self {
            Change::Key(change) => change.key().cloned(),
            Change::Snapshot(SnapshotChange::Started { snapshot, .. }) => Some(snapshot.to_string()),
            other => other.volume().map(ToString::to_string),
        }
    }

    /// Returns true if [`crate::Lab::next_due`] may be earlier after it.
    pub fn may_become_due(&self) -> bool {
        match self {
            Change::Configured { .. }
            | Change::ModificationStarted { .. }
            | Change::ModificationOptimizing { .. }
            | Change::ModificationCompleted { .. }
            | Change::ModificationFailed { .. }
            | Change::Key(_)
            | Change::Snapshot(_) => true,
            Change::VolumeCreated { .. }
            | Change::VolumeReady { .. }
            | Change::VolumeFailed { .. }
            | Change::VolumeDeleting { .. }
            | Change::VolumeDeleted { .. }
            | Change::TagsChanged { .. }
            | Change::AttributesSet { .. }
            | Change::AttachmentStarted { .. }
            | Change::Attached { .. }
            | Change::AttachmentFailed { .. }
            | Change::DetachmentStarted { .. }
            | Change::DetachmentBusy { .. }
            | Change::Detached { .. }
            | Change::BalanceSet { .. }
            | Change::MemberSlowed { .. }
            | Change::MemberRestored { .. }
            | Change::MemberFailed { .. }
            | Change::MemberReplaced { .. }
            | Change::MemberRebuilding { .. }
            | Change::MemberRebuilt { .. }
            | Change::Token(_)
            | Change::Alarm(_) => false,
        }
    }

    /// Returns the volume it belongs to; settings, tokens and snapshots belong to none.
    pub fn volume(&self) -> Option<&VolumeId> {
        match self {
            Change::Configured { .. } | Change::Token(_) | Change::Key(_) | Change::Alarm(_) | Change::Snapshot(_) => None,
            Change::VolumeCreated { volume, .. }
            | Change::VolumeReady { volume }
            | Change::VolumeFailed { volume, .. }
            | Change::VolumeDeleting { volume }
            | Change::VolumeDeleted { volume }
            | Change::TagsChanged { volume, .. }
            | Change::AttributesSet { volume, .. }
            | Change::AttachmentStarted { volume, .. }
            | Change::Attached { volume, .. }
            | Change::AttachmentFailed { volume, .. }
            | Change::DetachmentStarted { volume, .. }
            | Change::DetachmentBusy { volume, .. }
            | Change::Detached { volume }
            | Change::ModificationStarted { volume, .. }
            | Change::ModificationOptimizing { volume, .. }
            | Change::ModificationCompleted { volume, .. }
            | Change::ModificationFailed { volume, .. }
            | Change::BalanceSet { volume, .. }
            | Change::MemberSlowed { volume, .. }
            | Change::MemberRestored { volume, .. }
            | Change::MemberFailed { volume, .. }
            | Change::MemberReplaced { volume, .. }
            | Change::MemberRebuilding { volume, .. }
            | Change::MemberRebuilt { volume, .. } => Some(volume),
        }
    }
}
