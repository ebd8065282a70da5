//! Attach and detach. Each has two halves: asked, and done; between them the daemon makes or
//! removes the device.
//!
//! ```text
//!  (none) -- attach --> attaching -- attached --> attached -- detach --> detaching -- detached --> (none)
//!               |            |                                             |    ^
//!               +-- failed --+                                    busy <---+    |
//!                                                                   +- detach --+
//! ```

use crate::command::{AttachRequest, DetachRequest};
use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use crate::event::Change;
use crate::ids::draw_id;
use crate::settings::Settings;
use crate::volumes::record::{AttachedDevice, Attachment, AttachmentState, VolumeRecord, VolumeStatus, Volumes};
use headrace_catalog::MAX_MEMBERS;

/// Longest attach name. A rule of the lab: EC2's own names have at most nine characters.
const MAX_NAME_CHARS: usize = 32;

/// Decides that a volume is attached, under the name of the request or the first free one.
pub(crate) fn attach(
    record: &VolumeRecord,
    request: &AttachRequest,
    settings: &Settings,
    all: &Volumes,
    ids: &mut dyn FnMut() -> u64,
) -> Result<Vec<Change>, ControlError> {
    settings.check_instance_id(request.instance.as_deref())?;
    if let Some(attachment) = &record.attachment {
        let rule = format!("is already {} as {}", attachment.state.as_str(), attachment.name);
        let error = ControlError::new(ErrorKind::InUse, record.label(), rule, "EC2 AttachVolume, error VolumeInUse", "Use that device, or detach it first.");
        return Err(error.says("VolumeInUse", format!("{} is already attached to an instance", record.id)));
    }
    if record.status != VolumeStatus::Available {
        return Err(record.wrong_status("available"));
    }
    if record.is_modifying() {
        let error = ControlError::new(
            ErrorKind::IncorrectState,
            record.label(),
            "cannot be attached while a modification of it is in state modifying",
            "EC2 AttachVolume, error OperationNotPermitted",
            "Wait until it is optimizing: `headrace volume list`.",
        );
        let message = format!("Cannot attach volume {} when it is in modification state: MODIFYING", record.id);
        return Err(error.says("OperationNotPermitted", message));
    }
    check_room(record, all)?;
    let name = match (&request.device_name, &request.name) {
        (Some(device), _) => check_attach_name(device, check_ec2_name(device)?, all)?,
        (None, Some(name)) => check_attach_name(name, check_lab_name(name)?, all)?,
        (None, None) => free_attach_name(all)?,
    };
    let &AttachRequest { unpaced, probe, .. } = request;
    Ok(vec![Change::AttachmentStarted { volume: record.id.clone(), attachment: draw_id("attach", ids), name, unpaced, probe }])
}

/// Checks the room for more attachments. Members count one by one, as the volumes they stand for
/// do.
fn check_room(record: &VolumeRecord, all: &Volumes) -> Result<(), ControlError> {
    let attached: usize = all.values().filter(|other| other.attachment.is_some()).map(|other| other.members.len()).sum();
    if attached + record.members.len() <= MAX_MEMBERS {
        return Ok(());
    }
    let rule = format!("would make {} attached volumes, and no instance type attaches more than {MAX_MEMBERS}", attached + record.members.len());
    let error = ControlError::new(ErrorKind::LimitExceeded, record.label(), rule, "data/instances.csv", "Detach volumes that are not in use.");
    Err(error.says("AttachmentLimitExceeded", format!("The maximum number of attachments for this instance has been reached. Limit is {MAX_MEMBERS}")))
}

fn find_by_attach_name<'a>(name: &str, all: &'a Volumes) -> Option<&'a VolumeRecord> {
    all.values().find(|record| record.attachment.as_ref().is_some_and(|attachment| attachment.name == name))
}

/// Checks an attach name of the lab's own.
fn check_lab_name(given: &str) -> Result<&str, ControlError> {
    let name = given.strip_prefix("/dev/").unwrap_or(given);
    // It becomes the name of a link in the folder that also holds `by-id`.
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let well_formed = name.len() <= MAX_NAME_CHARS && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(allowed);
    if well_formed && name != "by-id" && !name.starts_with("nvme-") {
        return Ok(name);
    }
    let rule = format!("an attach name is 1 to {MAX_NAME_CHARS} of a-z, 0-9, - and _, begins with a letter, and is not by-id or nvme-...");
    Err(ControlError::invalid(given, rule, LAB_RULE, "Use a name like sdf or /dev/sdf, or none for the first free one."))
}

/// Checks a device name as EC2 takes it for Linux (EC2 user guide, "Device names for volumes"): sda
/// to sdz and hda to hdz, also with a partition of 1 to 15, and xvda to xvdzz.
fn check_ec2_name(given: &str) -> Result<&str, ControlError> {
    let name = given.strip_prefix("/dev/").unwrap_or(given);
    let letters = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    let partition = |text: &str| text.is_empty() || (!text.starts_with('0') && text.parse::<u8>().is_ok_and(|number| (1..=15).contains(&number)));
    let valid = match name.strip_prefix("xvd") {
        Some(rest) => (1..=2).contains(&rest.len()) && letters(rest) == rest.len(),
        None => name.strip_prefix("sd").or_else(|| name.strip_prefix("hd")).is_some_and(|rest| letters(rest) == 1 && partition(&rest[1..])),
    };
    if valid {
        return Ok(name);
    }
    let error = ControlError::invalid(given, "is not a device name of EC2", "EC2 user guide, device names for volumes", "Use /dev/sdf to /dev/sdp.");
    let message = format!("Value ({given}) for parameter device is invalid. {given} is not a valid EBS device name.");
    Err(error.says("InvalidParameterValue", message))
}

/// Refuses an attach name that another volume has, and that of the root device. `given` is the name
/// as the caller wrote it, `name` the same without `/dev/`.
fn check_attach_name(given: &str, name: &str, all: &Volumes) -> Result<String, ControlError> {
    let taken = match find_by_attach_name(name, all) {
        Some(record) => format!("is the attach name of {}", record.label()),
        // The root device of an instance, which here is the machine's own disk.
        None if ["sda", "sda1", "xvda"].contains(&name) => "is the root device of the instance".to_string(),
        None => return Ok(name.to_string()),
    };
    let source = "EC2 AttachVolume: an attachment point already in use is refused";
    let error = ControlError::invalid(given, taken, source, "Use another name, or none for the first free one.");
    let message = format!("Invalid value '{given}' for unixDevice. Attachment point {given} is already in use");
    Err(error.says("InvalidParameterValue", message))
}

/// Returns the first free attach name: sdf to sdp as EC2 recommends for EBS volumes, then xvdba to
/// xvdzz.
fn free_attach_name(all: &Volumes) -> Result<String, ControlError> {
    let recommended = ('f'..='p').map(|letter| format!("sd{letter}"));
    let more = ('b'..='z').flat_map(|first| ('a'..='z').map(move |second| format!("xvd{first}{second}")));
    // More names than attachments, so there is one.
    recommended.chain(more).find(|name| find_by_attach_name(name, all).is_none()).ok_or_else(|| {
        ControlError::new(ErrorKind::Unavailable, "attach names sdf to xvdzz", "are all in use", LAB_RULE, "Detach a volume, or name the attachment.")
    })
}

/// Decides that the device of a volume is there, the first time or again after a restart of the
/// daemon.
pub(crate) fn confirm_attached(record: &VolumeRecord, device: &AttachedDevice) -> Result<Vec<Change>, ControlError> {
    let attachment = attachment_of(record)?;
    match attachment.state {
        // A second time after a restart, at another device.
        AttachmentState::Attaching | AttachmentState::Attached => Ok(vec![Change::Attached { volume: record.id.clone(), device: device.clone() }]),
        state => Err(refuse_attachment_state(record, state)),
    }
}

pub(crate) fn fail_attachment(record: &VolumeRecord, reason: &str) -> Result<Vec<Change>, ControlError> {
    match attachment_of(record)?.state {
        AttachmentState::Attaching => Ok(vec![Change::AttachmentFailed { volume: record.id.clone(), reason: reason.to_string() }]),
        state => Err(refuse_attachment_state(record, state)),
    }
}

/// Decides that a volume is detached. With force one that is attaching or detaching is detached
/// too, once.
pub(crate) fn detach(record: &VolumeRecord, request: &DetachRequest, settings: &Settings) -> Result<Vec<Change>, ControlError> {
    let attachment = attachment_of(record)?;
    settings.check_instance_id(request.instance.as_deref())?;
    if let Some(given) = request.name.as_deref().filter(|given| given.strip_prefix("/dev/").unwrap_or(given) != attachment.name) {
        let rule = format!("{} is attached as {}", record.label(), attachment.name);
        let error = ControlError::new(ErrorKind::NotFound, given, rule, format!("{API_TEXT}: DetachVolume"), "Name that one, or none.");
        let message = format!("The volume '{}' is not attached to instance '{}' as device '{given}'", record.id, settings.instance_id);
        return Err(error.says("InvalidAttachment.NotFound", message));
    }
    let force = request.force;
    match attachment.state {
        AttachmentState::Attached | AttachmentState::Busy => {}
        // Force ends what hangs, once.
        AttachmentState::Attaching | AttachmentState::Detaching if force && !attachment.force => {}
        state => return Err(refuse_attachment_state(record, state)),
    }
    Ok(vec![Change::DetachmentStarted { volume: record.id.clone(), force }])
}

pub(crate) fn note_busy(record: &VolumeRecord, reason: &str, waits: bool) -> Result<Vec<Change>, ControlError> {
    match attachment_of(record)?.state {
        AttachmentState::Detaching => Ok(vec![Change::DetachmentBusy { volume: record.id.clone(), reason: reason.to_string(), waits }]),
        state => Err(refuse_attachment_state(record, state)),
    }
}

pub(crate) fn confirm_detached(record: &VolumeRecord) -> Result<Vec<Change>, ControlError> {
    attachment_of(record)?;
    Ok(vec![Change::Detached { volume: record.id.clone() }])
}

fn attachment_of(record: &VolumeRecord) -> Result<&Attachment, ControlError> {
    record.attachment.as_ref().ok_or_else(|| not_attached(record))
}

/// Makes the error of a command that needs an attachment, for a volume that has none.
pub(crate) fn not_attached(record: &VolumeRecord) -> ControlError {
    let hint = format!("`headrace volume attach {}` first.", record.label());
    let status = record.status.as_str();
    let error =
        ControlError::new(ErrorKind::IncorrectState, record.label(), format!("is {status} and not attached"), format!("{API_TEXT}: DetachVolume"), hint);
    error.says("IncorrectState", format!("Volume '{}' is in the '{status}' state.", record.id))
}

/// Makes the refusal of an attachment whose state does not allow the command.
fn refuse_attachment_state(record: &VolumeRecord, state: AttachmentState) -> ControlError {
    let rule = format!("is {}, which must end first", state.as_str());
    let hint = match state {
        AttachmentState::Attached => "See `headrace volume list`.",
        _ => "Wait a moment, or detach it with --force.",
    };
    ControlError::new(ErrorKind::IncorrectState, record.label(), rule, "EC2 attachment states", hint)
}

/// Does what a change of an attachment says.
pub(crate) fn apply(record: &mut VolumeRecord, change: &Change, at_ms: u64) {
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
                waits: false,
                delete_on_termination: false,
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
            attachment.waits = false;
        }
        (Change::DetachmentBusy { reason, waits, .. }, Some(attachment)) => {
            attachment.waits = *waits;
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
