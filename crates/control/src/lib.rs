//! What may happen to a volume of the lab, and when: a pure state machine.
//!
//! ```text
//!  command --> decide(now, ids) --> events --> journal --> apply --> Lab
//!                    |                           ^
//!                    +--> ControlError           |
//!                due(now) ------ events ---------+      what happens by itself
//! ```
//!
//! No I/O, no clock, no threads, no hidden chance: time is an argument in milliseconds of lab time, chance the `ids` generator. An [`Event`] holds every id and
//! time that was made when it was decided, so the same events give the same [`Lab`], on any machine and in any later version.
//!
//! States have EC2's names. What EC2 does in its own time (create, attach, detach, delete) has two halves here: the user's command, and a second one by
//! which the daemon reports how its part ended ([`Command::Created`], [`Command::Attached`], ...).
//!
//! | file | idea |
//! |---|---|
//! | `command`, `event` | what is asked, what happened |
//! | `record` | a volume, its members, its attachment |
//! | `settings` | the instance, the day, the clock |
//! | `volumes` | create, delete, tags |
//! | `attachments` | attach and detach |
//! | `modifications` | size, type, IOPS, MiB/s of a volume in use; the rule of four in 24 hours |
//! | `members` | slow, lost and rebuilt members; credit balances |
//! | `apply` | events to state |
//! | `clock` | lab time from wall time |
//!
//! Not here: credits as they flow (the model), faults of seconds (the device), where bytes lie (the store).

mod apply;
mod attachments;
mod clock;
mod command;
mod error;
mod event;
mod ids;
mod members;
mod modifications;
mod record;
mod settings;
mod volumes;

pub use attachments::{AttachedDevice, Attachment, AttachmentState, Ceiling};
pub use clock::LabClock;
pub use command::Command;
pub use error::{ControlError, ErrorKind, Problem};
pub use event::{Change, Event};
pub use ids::{fault_id, VolumeId};
pub use members::{BalanceSet, Member, MemberState, MOST_EXTRA_MS};
pub use modifications::{Modification, ModificationState, MAX_HISTORY};
pub use record::{NewVolume, VolumeRecord, VolumeStatus};
pub use settings::{ModificationTimes, Settings};
pub use volumes::MAX_VOLUMES;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is true of a lab but for bytes and credits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lab {
    /// Instance, day and clock.
    pub settings: Settings,
    /// Volumes by id, without the deleted.
    pub volumes: BTreeMap<VolumeId, VolumeRecord>,
    /// Lab time of the last event, Unix milliseconds: where the clock goes on after a restart at the earliest.
    pub last_ms: u64,
}

impl Lab {
    /// The events a command makes; changes nothing. `now_ms` is lab time in Unix milliseconds (a time before the last event counts as that), `ids` a source of
    /// random numbers for ids and seeds. Apply what is [`Lab::due`] first: a rule sees the state as it was applied. No event at all means there was nothing to do.
    ///
    /// # Errors
    /// The rule that forbids it, in words.
    pub fn decide(&self, command: &Command, now_ms: u64, ids: &mut impl FnMut() -> u64) -> Result<Vec<Event>, ControlError> {
        let at_ms = now_ms.max(self.last_ms);
        let changes = self.changes(command, at_ms, ids)?;
        Ok(changes.into_iter().map(|change| Event { at_ms, change }).collect())
    }

    fn changes(&self, command: &Command, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
        match command {
            Command::Configure { .. } => self.configure(command),
            Command::CreateVolume { spec, name, tags, as_of, balance_percent } => {
                self.create(&volumes::Wish { spec, name: name.as_deref(), tags, as_of: as_of.as_deref(), balance_percent: *balance_percent }, ids)
            }
            Command::Created { volume } => self.created(volume),
            Command::VolumeFailed { volume, reason } => self.volume_failed(volume, reason),
            Command::DeleteVolume { volume } => self.delete(volume),
            Command::Deleted { volume } => self.deleted(volume),
            Command::Tag { volume, set, remove } => self.tag(volume, set, remove),
            Command::Attach { volume, name, unpaced, probe } => self.attach(volume, name.as_deref(), *unpaced, *probe, ids),
            Command::Attached { volume, device } => self.attached(volume, device),
            Command::AttachFailed { volume, reason } => self.attach_failed(volume, reason),
            Command::Detach { volume, force } => self.detach(volume, *force),
            Command::DetachBusy { volume, reason } => self.detach_busy(volume, reason),
            Command::Detached { volume } => self.detached(volume),
            Command::Modify { .. } => self.modify(command, at_ms, ids),
            Command::ModifyFailed { volume, reason } => self.modify_failed(volume, reason),
            Command::SetBalance { volume, member, percent } => self.set_balance(volume, *member, *percent),
            Command::SlowMember { volume, member, caps_percent, extra_ms } => self.slow_member(volume, *member, *caps_percent, *extra_ms),
            Command::FailMember { volume, member } => self.fail_member(volume, *member),
            Command::RestoreMember { volume, member } => self.restore_member(volume, *member),
            Command::ReplaceMember { volume, member, mib_s } => self.replace_member(volume, *member, *mib_s),
            Command::MemberRebuilding { volume, member, done_bytes } => self.member_rebuilding(volume, *member, *done_bytes),
            Command::MemberRebuilt { volume, member } => self.member_rebuilt(volume, *member),
        }
    }

    /// A volume by id or by name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], with the volumes there are.
    pub fn find(&self, volume: &str) -> Result<&VolumeRecord, ControlError> {
        let by_id = self.volumes.values().find(|record| record.id.as_str() == volume);
        by_id.or_else(|| self.volumes.values().find(|record| record.name.as_deref() == Some(volume))).ok_or_else(|| self.unknown(volume))
    }

    fn unknown(&self, volume: &str) -> ControlError {
        // A handful is read; more scrolls the error away.
        let shown: Vec<&str> = self.volumes.values().take(5).map(|record| record.name.as_deref().unwrap_or(record.id.as_str())).collect();
        let hint = match (shown.is_empty(), self.volumes.len() - shown.len()) {
            (true, _) => "The lab has no volume yet: create one, like `headrace volume create gp2:500`.".to_string(),
            (false, 0) => format!("There are: {}.", shown.join(", ")),
            (false, more) => format!("There are {} and {more} more: see `headrace volume list`.", shown.join(", ")),
        };
        ControlError::new(ErrorKind::NotFound, volume, "is neither the id nor the name of a volume of this lab", error::LAB_RULE, hint)
    }
}
