//! Attach and detach. Each has two halves: asked, and done; between them the daemon makes or removes the device.
//!
//! ```text
//!  (none) -- attach --> attaching -- attached --> attached -- detach --> detaching -- detached --> (none)
//!               |            |                                             |    ^
//!               +-- failed --+                                    busy <---+    |
//!                                                                   +- detach --+
//! ```

use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::event::Change;
use crate::ids;
use crate::modifications::ModificationState;
use crate::record::{VolumeRecord, VolumeStatus};
use crate::volumes::wrong_status;
use crate::Lab;
use headrace_catalog::MAX_MEMBERS;
use serde::{Deserialize, Serialize};

const MAX_NAME_CHARS: usize = 32;

/// Where an attachment stands; EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentState {
    /// The device is being made.
    Attaching,
    /// There.
    Attached,
    /// The device is being taken away.
    Detaching,
    /// It should go, but is mounted or open.
    Busy,
}

impl AttachmentState {
    /// EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            AttachmentState::Attaching => "attaching",
            AttachmentState::Attached => "attached",
            AttachmentState::Detaching => "detaching",
            AttachmentState::Busy => "busy",
        }
    }
}

/// What this machine can do for the device at most, measured when it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Operations a second.
    pub iops: u64,
    /// MiB/s.
    pub mib_s: u64,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachedDevice {
    /// Path of the block device.
    pub device: String,
    /// Stable names of it.
    pub links: Vec<String>,
    /// Latency of the machine's own path, nanoseconds, when it was measured.
    pub path_ns: Option<u64>,
    /// What the machine can do, when it was measured.
    pub ceiling: Option<Ceiling>,
    /// What it cannot, in words.
    pub warnings: Vec<String>,
}

/// A volume's device, or its way there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id.
    pub id: String,
    /// Attach name, like `sdf`.
    pub name: String,
    /// Where it stands.
    pub state: AttachmentState,
    /// Lab time at which it was asked for, Unix milliseconds.
    pub started_ms: u64,
    /// Lab time since which the device was there first.
    #[serde(default)]
    pub attached_ms: Option<u64>,
    /// Without the model's delays.
    #[serde(default)]
    pub unpaced: bool,
    /// The machine's own latency and ceiling are measured.
    #[serde(default)]
    pub probe: bool,
    /// Detaching by force.
    #[serde(default)]
    pub force: bool,
    /// Why it is busy.
    #[serde(default)]
    pub busy: Option<String>,
    /// The device, once there.
    #[serde(default)]
    pub device: Option<AttachedDevice>,
}

impl Lab {
    pub(crate) fn attach(
        &self,
        volume: &str,
        name: Option<&str>,
        unpaced: bool,
        probe: bool,
        ids: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        if let Some(attachment) = &record.attachment {
            let rule = format!("is already {} as {}", attachment.state.as_str(), attachment.name);
            return Err(ControlError::busy(volume, rule, "EC2 AttachVolume, error VolumeInUse", "Use that device, or detach it first."));
        }
        if record.status != VolumeStatus::Available {
            return Err(wrong_status(record, "available"));
        }
        if record.modification().is_some_and(|modification| modification.state == ModificationState::Modifying) {
            return Err(ControlError::busy(
                volume,
                "cannot be attached while a modification of it is in state modifying",
                "EC2 AttachVolume, error OperationNotPermitted",
                "Wait until it is optimizing: `headrace volume show`.",
            ));
        }
        self.check_room(record)?;
        let name = match name {
            Some(name) => self.checked_attach_name(name)?,
            None => self.free_attach_name()?,
        };
        Ok(vec![Change::AttachmentStarted { volume: record.id.clone(), attachment: ids::draw("attach", ids), name, unpaced, probe }])
    }

    /// Members count one by one, as the volumes they stand for do.
    fn check_room(&self, record: &VolumeRecord) -> Result<(), ControlError> {
        let attached: usize = self.volumes.values().filter(|other| other.attachment.is_some()).map(|other| other.members.len()).sum();
        if attached + record.members.len() <= MAX_MEMBERS {
            return Ok(());
        }
        let rule = format!("would make {} attached volumes, and no instance type attaches more than {MAX_MEMBERS}", attached + record.members.len());
        Err(ControlError::refused(record.label(), rule, "data/instances.csv", "Detach volumes that are not in use."))
    }

    fn attach_name_taken(&self, name: &str) -> Option<&VolumeRecord> {
        self.volumes.values().find(|record| record.attachment.as_ref().is_some_and(|attachment| attachment.name == name))
    }

    fn checked_attach_name(&self, given: &str) -> Result<String, ControlError> {
        let name = given.strip_prefix("/dev/").unwrap_or(given);
        // It becomes a file name beside the folder by-id.
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let well_formed = name.len() <= MAX_NAME_CHARS && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(allowed);
        if !well_formed || name == "by-id" {
            let rule = format!("an attach name is 1 to {MAX_NAME_CHARS} of a-z, 0-9, - and _, begins with a letter, and is not by-id");
            return Err(ControlError::input(given, rule, LAB_RULE, "Use a name like sdf or /dev/sdf, or none for the first free one."));
        }
        match self.attach_name_taken(name) {
            None => Ok(name.to_string()),
            Some(record) => Err(ControlError::refused(
                given,
                format!("is the attach name of {}", record.label()),
                "EC2 AttachVolume: an attachment point already in use is refused",
                "Use another name, or none for the first free one.",
            )),
        }
    }

    /// sdf to sdp as EC2 recommends for EBS volumes, then xvdba to xvdzz.
    fn free_attach_name(&self) -> Result<String, ControlError> {
        let recommended = ('f'..='p').map(|letter| format!("sd{letter}"));
        let more = ('b'..='z').flat_map(|first| ('a'..='z').map(move |second| format!("xvd{first}{second}")));
        // More names than attachments, so there is one.
        recommended.chain(more).find(|name| self.attach_name_taken(name).is_none()).ok_or_else(|| {
            ControlError::new(ErrorKind::CouldNot, "attach names sdf to xvdzz", "are all in use", LAB_RULE, "Detach a volume, or name the attachment.")
        })
    }

    pub(crate) fn attached(&self, volume: &str, device: &AttachedDevice) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        let attachment = attachment_of(record)?;
        match attachment.state {
            // A second time after a restart, at another device.
            AttachmentState::Attaching | AttachmentState::Attached => Ok(vec![Change::Attached { volume: record.id.clone(), device: device.clone() }]),
            state => Err(wrong_state(record, state)),
        }
    }

    pub(crate) fn attach_failed(&self, volume: &str, reason: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        match attachment_of(record)?.state {
            AttachmentState::Attaching => Ok(vec![Change::AttachmentFailed { volume: record.id.clone(), reason: reason.to_string() }]),
            state => Err(wrong_state(record, state)),
        }
    }

    pub(crate) fn detach(&self, volume: &str, force: bool) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        let attachment = attachment_of(record)?;
        match attachment.state {
            AttachmentState::Attached | AttachmentState::Busy => {}
            // Force ends what hangs, once.
            AttachmentState::Attaching | AttachmentState::Detaching if force && !attachment.force => {}
            state => return Err(wrong_state(record, state)),
        }
        Ok(vec![Change::DetachmentStarted { volume: record.id.clone(), force }])
    }

    pub(crate) fn detach_busy(&self, volume: &str, reason: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        match attachment_of(record)?.state {
            AttachmentState::Detaching => Ok(vec![Change::DetachmentBusy { volume: record.id.clone(), reason: reason.to_string() }]),
            state => Err(wrong_state(record, state)),
        }
    }

    pub(crate) fn detached(&self, volume: &str) -> Result<Vec<Change>, ControlError> {
        let record = self.find(volume)?;
        attachment_of(record)?;
        Ok(vec![Change::Detached { volume: record.id.clone() }])
    }
}

fn attachment_of(record: &VolumeRecord) -> Result<&Attachment, ControlError> {
    record.attachment.as_ref().ok_or_else(|| {
        let hint = format!("`headrace volume attach {}` first.", record.label());
        ControlError::refused(record.label(), format!("is {} and not attached", record.status.as_str()), format!("{API_TEXT}: DetachVolume"), hint)
    })
}

fn wrong_state(record: &VolumeRecord, state: AttachmentState) -> ControlError {
    let rule = format!("is {}, which must end first", state.as_str());
    let hint = match state {
        AttachmentState::Attached => "See `headrace volume show`.",
        _ => "Wait a moment, or detach it with --force.",
    };
    ControlError::busy(record.label(), rule, "EC2 attachment states", hint)
}
