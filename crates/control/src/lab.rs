//! The lab as a whole: commands to the state machine they belong to, events to the state.

use crate::command::{Command, CreateRequest};
use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::event::{Change, Event};
use crate::ids::draw_id;
use crate::keys::{self, KeyChange, KeyCommand};
use crate::settings;
use crate::snapshots::{self, messages::SnapshotChange};
use crate::state::Lab;
use crate::tags::TagRequest;
use crate::tokens::ClientToken;
use crate::volumes::record::{VolumeEncryption, VolumeRecord};
use crate::volumes::{self, attachments, members, modifications};
use std::collections::BTreeSet;

impl Lab {
    /// Returns the events a command makes; changes nothing. `now_ms` is lab time in Unix
    /// milliseconds (a time before the last event counts as that), `ids` a source of random numbers
    /// for ids and seeds. Apply the events of [`Lab::due`] first: a rule sees the state as it was
    /// applied. No event at all means there was nothing to do.
    ///
    /// # Errors
    /// The rule that forbids it, in words.
    pub fn decide(&self, command: &Command, now_ms: u64, ids: &mut impl FnMut() -> u64) -> Result<Vec<Event>, ControlError> {
        let at_ms = now_ms.max(self.last_ms);
        let changes = self.decide_changes(command, at_ms, ids)?;
        Ok(changes.into_iter().map(|change| Event { at_ms, change }).collect())
    }

    /// Decides like [`Lab::decide`], under a client token: the events note it too. [`Tokens::find`]
    /// returns the event under a token that was used before.
    ///
    /// # Errors
    /// Those of [`Lab::decide`], and the token was used before.
    pub fn decide_once(&self, command: &Command, token: &ClientToken, now_ms: u64, ids: &mut impl FnMut() -> u64) -> Result<Vec<Event>, ControlError> {
        self.tokens.find(token)?;
        let mut events = self.decide(command, now_ms, ids)?;
        let subject = events.iter().find_map(|event| event.change.subject());
        let change = Change::Token(self.tokens.claim(token, subject)?);
        events.push(Event { at_ms: now_ms.max(self.last_ms), change });
        Ok(events)
    }

    /// Returns the changes that a command makes, from the state machine that it belongs to.
    fn decide_changes(&self, command: &Command, at_ms: u64, ids: &mut dyn FnMut() -> u64) -> Result<Vec<Change>, ControlError> {
        match command {
            Command::Key(KeyCommand::VolumeKey { volume, wrapped }) => {
                let change = KeyChange::VolumeKey { volume: self.find(volume)?.id.clone(), wrapped: wrapped.clone() };
                Ok(vec![Change::Key(change)])
            }
            Command::Key(command) => {
                let changes = keys::decide_changes(&self.keys, &self.settings, command, at_ms)?;
                Ok(changes.into_iter().map(Change::Key).collect())
            }
            Command::Configure(request) => {
                let attached = self.volumes.values().find(|record| record.attachment.is_some()).map(VolumeRecord::label);
                let mut settings = settings::decide_settings(&self.settings, request, attached)?;
                if self.settings.instance_id.is_empty() {
                    settings.get_or_insert_with(|| self.settings.clone()).instance_id = draw_id("i", ids);
                }
                Ok(settings.map(|settings| Change::Configured { settings }).into_iter().collect())
            }
            Command::CreateVolume(request) => self.with_key(request, volumes::create(request, self, at_ms, ids)?),
            Command::Created { volume } => volumes::confirm_created(self.find(volume)?),
            Command::VolumeFailed { volume, reason } => volumes::fail_volume(self.find(volume)?, reason),
            Command::DeleteVolume { volume } => volumes::delete(self.find(volume)?, &self.settings),
            Command::Deleted { volume } => volumes::confirm_deleted(self.find(volume)?),
            Command::Tag(request) => self.tag(request),
            Command::SetAttributes { volume, auto_enable_io, delete_on_termination } => {
                volumes::set_attributes(self.find(volume)?, *auto_enable_io, *delete_on_termination)
            }
            Command::Attach { volume, request } => attachments::attach(self.find(volume)?, request, &self.settings, &self.volumes, ids),
            Command::Attached { volume, device } => attachments::confirm_attached(self.find(volume)?, device),
            Command::AttachFailed { volume, reason } => attachments::fail_attachment(self.find(volume)?, reason),
            Command::Detach { volume, request } => attachments::detach(self.find(volume)?, request, &self.settings),
            Command::DetachBusy { volume, reason, waits } => attachments::note_busy(self.find(volume)?, reason, *waits),
            Command::Detached { volume } => attachments::confirm_detached(self.find(volume)?),
            Command::Modify { volume, request } => modifications::modify(self.find(volume)?, request, &self.settings, at_ms, ids),
            Command::ModifyFailed { volume, reason } => modifications::fail_modification(self.find(volume)?, reason),
            Command::SetBalance { volume, member, percent } => members::set_balance(self.find(volume)?, &self.settings, *member, *percent),
            Command::SlowMember { volume, member, caps_percent, extra_ms } => members::slow_member(self.find(volume)?, *member, *caps_percent, *extra_ms),
            Command::FailMember { volume, member } => members::fail_member(self.find(volume)?, *member),
            Command::RestoreMember { volume, member } => members::restore_member(self.find(volume)?, *member),
            Command::ReplaceMember { volume, member, mib_s } => members::replace_member(self.find(volume)?, *member, *mib_s),
            Command::MemberRebuilding { volume, member, done_bytes } => members::note_rebuilding(self.find(volume)?, *member, *done_bytes),
            Command::Alarm(request) => Ok(self.alarms.decide(request)?.into_iter().map(Change::Alarm).collect()),
            Command::MemberRebuilt { volume, member } => members::confirm_rebuilt(self.find(volume)?, *member),
            Command::Snapshot(command) => snapshots::decide_changes(self, command, at_ms, ids),
        }
    }

    /// Does what an event says, the same way every time: no rule is asked again. Never fails on
    /// events that were decided for this state; an event about a record that does not exist does
    /// nothing.
    pub fn apply(&mut self, event: &Event) {
        let at_ms = event.at_ms;
        self.last_ms = self.last_ms.max(at_ms);
        match &event.change {
            Change::Configured { settings } => self.settings = settings.clone(),
            Change::Key(KeyChange::VolumeKey { volume, wrapped }) => {
                if let Some(encryption) = self.volumes.get_mut(volume).and_then(|record| record.encryption.as_mut()) {
                    encryption.wrapped.clone_from(wrapped);
                }
            }
            Change::Key(change) => self.keys.apply(change, at_ms),
            Change::Token(change) => self.tokens.apply(change, at_ms),
            Change::Alarm(change) => self.alarms.apply(change),
            Change::VolumeCreated { volume, new } => {
                self.volumes.insert(volume.clone(), VolumeRecord::new(volume.clone(), new.clone(), at_ms));
            }
            Change::VolumeDeleted { volume } => {
                self.volumes.remove(volume);
            }
            Change::Snapshot(SnapshotChange::VolumeLoaded { volume }) => {
                if let Some(origin) = self.volumes.get_mut(volume).and_then(|record| record.origin.as_mut()) {
                    origin.loaded = true;
                }
            }
            Change::Snapshot(change) => self.snapshots.apply(change, at_ms),
            change => {
                let record = change.volume().and_then(|volume| self.volumes.get_mut(volume));
                debug_assert!(record.is_some(), "an event of an unknown volume: {change:?}");
                if let Some(record) = record {
                    // Each knows its own changes and leaves the others alone.
                    volumes::apply(record, change);
                    attachments::apply(record, change, at_ms);
                    modifications::apply(record, change, at_ms);
                    members::apply(record, change, at_ms);
                }
            }
        }
    }

    /// Returns the events without a command until `now_ms`: modifications that begin to optimize
    /// and that are completed, snapshots that leave the recycle bin, fast restores that are ready.
    /// Events are in order of time, each with the exact time at which it was due. A volume that
    /// must grow does so at its `ModificationOptimizing`; when that cannot be done, decide
    /// [`Command::ModifyFailed`] instead of applying the event, and ask again.
    pub fn due(&self, now_ms: u64) -> Vec<Event> {
        let mut events = modifications::due(&self.volumes, now_ms);
        events.extend(snapshots::due(&self.snapshots, now_ms));
        events.extend(self.keys.due(now_ms).into_iter().map(|(at_ms, change)| Event { at_ms, change: Change::Key(change) }));
        // Stable: what belongs to one volume or snapshot stays in its order.
        events.sort_by_key(|event| event.at_ms);
        events
    }

    /// Returns the lab time of the next event of [`Lab::due`].
    pub fn next_due(&self) -> Option<u64> {
        let deletions = self.keys.keys.values().filter_map(|key| key.deletion_ms);
        modifications::next_due(&self.volumes).into_iter().chain(snapshots::next_due(&self.snapshots)).chain(deletions).min()
    }

    /// Adds the key of its encryption to the changes that create a volume, where it is encrypted.
    fn with_key(&self, request: &CreateRequest, mut changes: Vec<Change>) -> Result<Vec<Change>, ControlError> {
        // A volume from an encrypted snapshot or volume is encrypted, under the key of its source
        // if the request names none.
        let of_snapshot = changes.iter().find_map(|change| match change {
            Change::VolumeCreated { new, .. } => new.origin.as_ref()?.encryption.as_ref().map(|encryption| encryption.key.clone()),
            _ => None,
        });
        let of_volume =
            request.source_volume.as_deref().and_then(|source| self.find(source).ok()?.encryption.as_ref()).map(|encryption| encryption.key.clone());
        let inherited = of_snapshot.or(of_volume);
        let encrypted = if inherited.is_some() { Some(true) } else { request.encrypted };
        let named = request.kms_key.as_deref().or(inherited.as_deref());
        let key = self.keys.for_volume(&self.settings, encrypted, named)?;
        for change in &mut changes {
            if let (Change::VolumeCreated { new, .. }, Some(key)) = (change, &key) {
                new.encryption = Some(VolumeEncryption { key: key.clone(), wrapped: String::new() });
            }
        }
        Ok(changes)
    }

    /// Decides a command for tags of resources of any type: the beginning of an id says which.
    fn tag(&self, request: &TagRequest) -> Result<Vec<Change>, ControlError> {
        let mut changes = Vec::new();
        let mut seen = BTreeSet::new();
        for resource in request.resources.iter().filter(|resource| seen.insert(resource.as_str())) {
            changes.extend(match resource.split('-').next() {
                Some("i") => {
                    self.settings.check_instance_id(Some(resource))?;
                    let hint = "Tag volumes and snapshots.";
                    Err(ControlError::new(ErrorKind::Unsupported, resource.as_str(), "the machine itself has no tags", LAB_RULE, hint))
                }
                Some("snap") => {
                    snapshots::lifecycle::tag(self.snapshots.find(resource)?, request).map(|changes| changes.into_iter().map(Change::Snapshot).collect())
                }
                _ => volumes::check_room_for_tags(&self.volumes, &request.set).and_then(|()| volumes::tag(self.find(resource)?, request)),
            }?);
        }
        Ok(changes)
    }
}
