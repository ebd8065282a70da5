//! Records of volumes in the lab: status, members, device and modifications. No rule is here, only
//! what follows from a state.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::ids::VolumeId;
use crate::settings::Settings;
use crate::snapshots::record::VolumeOrigin;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, RaidLevel, StorageSpec, VolumeLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Modifications a volume remembers: more than any rule looks back.
pub const MAX_HISTORY: usize = 8;

/// The volumes of a lab by id, without the deleted.
pub type Volumes = BTreeMap<VolumeId, VolumeRecord>;

/// Status of a volume, with EC2's names. Deleted volumes are no longer in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeStatus {
    /// The files of the volume are being made.
    Creating,
    /// The volume can be attached.
    Available,
    /// The volume is attached, or being attached or detached.
    InUse,
    /// The files of the volume are being removed.
    Deleting,
    /// The volume cannot be used; it can be deleted. One that could be used before can be again
    /// when a start of the daemon finds its files.
    Error,
}

impl VolumeStatus {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            VolumeStatus::Creating => "creating",
            VolumeStatus::Available => "available",
            VolumeStatus::InUse => "in-use",
            VolumeStatus::Deleting => "deleting",
            VolumeStatus::Error => "error",
        }
    }
}

/// State of an attachment, with EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentState {
    /// The device is being made.
    Attaching,
    /// The device is there.
    Attached,
    /// The device is being taken away.
    Detaching,
    /// The device should go, but is mounted or open.
    Busy,
}

impl AttachmentState {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            AttachmentState::Attaching => "attaching",
            AttachmentState::Attached => "attached",
            AttachmentState::Detaching => "detaching",
            AttachmentState::Busy => "busy",
        }
    }
}

/// Highest rates of this machine for the device, measured when it was attached.
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
    /// Stable names of the device.
    pub links: Vec<String>,
    /// Latency of the machine's own path, nanoseconds, when it was measured.
    pub path_ns: Option<u64>,
    /// Highest rates of the machine, when they were measured.
    pub ceiling: Option<Ceiling>,
    /// Sentences about limits of the volume that the machine cannot reach.
    pub warnings: Vec<String>,
}

/// A volume's device, or its way there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id.
    pub id: String,
    /// Attach name, like `sdf`.
    pub name: String,
    /// State of the attachment.
    pub state: AttachmentState,
    /// Lab time at which it was asked for, Unix milliseconds.
    pub started_ms: u64,
    /// Lab time at which the device was there first, Unix milliseconds.
    #[serde(default)]
    pub attached_ms: Option<u64>,
    /// True if requests complete without the model's delays.
    #[serde(default)]
    pub unpaced: bool,
    /// True if the machine's own latency and highest rates are measured.
    #[serde(default)]
    pub probe: bool,
    /// True if it is being detached by force.
    #[serde(default)]
    pub force: bool,
    /// Reason why it is busy.
    #[serde(default)]
    pub busy: Option<String>,
    /// True if it is busy, and is detached as soon as it is not.
    #[serde(default)]
    pub waits: bool,
    /// True if the volume is deleted with the instance.
    #[serde(default)]
    pub delete_on_termination: bool,
    /// Device, once it is there.
    #[serde(default)]
    pub device: Option<AttachedDevice>,
}

/// State of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// The member performs as its limits say.
    #[default]
    Ok,
    /// The member is slower until it is restored.
    Slow {
        /// Share of the caps that remains, thousandths.
        caps_per_mille: u32,
        /// Latency added to every request, microseconds.
        extra_latency_us: u64,
    },
    /// The member is lost.
    Failed,
    /// The member is new, and being filled.
    Rebuilding {
        /// Bytes done.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
        /// Most MiB/s of the rebuild; None for as fast as members allow.
        #[serde(default)]
        mib_s: Option<u64>,
    },
}

/// Least share of the caps that can be left, percent: it is kept in thousandths.
const LEAST_CAPS_PERCENT: f64 = 0.1;
/// Most extra latency of a request, ms: a minute, past which a kernel gives up on it anyway.
pub const MOST_EXTRA_MS: f64 = 60_000.0;

/// Slowness of a member compared with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// Share of the caps that remains, thousandths.
    pub caps_per_mille: u32,
    /// Latency added to every request, microseconds.
    pub extra_latency_us: u64,
}

impl Slowness {
    /// Computes the slowness from the remaining share of the caps, percent, and the time added to
    /// every request, ms.
    ///
    /// # Errors
    /// Either is outside its limits.
    pub fn new(caps_percent: f64, extra_ms: f64) -> Result<Slowness, ControlError> {
        if !(LEAST_CAPS_PERCENT..=100.0).contains(&caps_percent) {
            let rule = format!("what is left of the caps is {LEAST_CAPS_PERCENT} to 100 percent");
            return Err(ControlError::invalid(format!("{caps_percent} %"), rule, LAB_RULE, "Fail the member, or set the fault pause, to leave nothing."));
        }
        if !(0.0..=MOST_EXTRA_MS).contains(&extra_ms) {
            let rule = format!("extra latency is 0 to {MOST_EXTRA_MS} ms");
            return Err(ControlError::invalid(format!("{extra_ms} ms"), rule, LAB_RULE, "Fail the member, or set the fault pause, for requests that wait."));
        }
        Ok(Slowness { caps_per_mille: (caps_percent * 10.0).round() as u32, extra_latency_us: (extra_ms * 1e3).round() as u64 })
    }
}

/// A credit balance someone set. The daemon saves balances as they flow; this one counts until one
/// was saved at a later lab time than `at_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceSet {
    /// Millionths of the capacity.
    pub per_million: u32,
    /// Lab time, Unix milliseconds.
    pub at_ms: u64,
}

/// A member of an array, or the single volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// State of the member.
    pub state: MemberState,
    /// Number of times that it was replaced by an empty volume.
    pub replaced: u32,
    /// The balance someone set last.
    pub balance: Option<BalanceSet>,
}

/// State of a modification, with EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModificationState {
    /// The modification is accepted, and all is as before.
    Modifying,
    /// The size is the new one, and the limits are in between.
    Optimizing,
    /// The new limits hold.
    Completed,
    /// The modification failed, and all stays as before.
    Failed,
}

impl ModificationState {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            ModificationState::Modifying => "modifying",
            ModificationState::Optimizing => "optimizing",
            ModificationState::Completed => "completed",
            ModificationState::Failed => "failed",
        }
    }
}

/// A modification; times are lab time in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modification {
    /// Id.
    pub id: String,
    /// Storage of the volume before.
    #[serde(with = "spec_text")]
    pub from: StorageSpec,
    /// Storage of the volume afterwards.
    #[serde(with = "spec_text")]
    pub to: StorageSpec,
    /// State of the modification.
    pub state: ModificationState,
    /// Time of its acceptance.
    pub started_ms: u64,
    /// End of `modifying`.
    pub modifying_until_ms: u64,
    /// End of `optimizing`.
    pub optimizing_until_ms: u64,
    /// Time of its completion or failure.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Reason of the failure.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Modification {
    /// Returns true if it is modifying or optimizing.
    pub fn is_active(&self) -> bool {
        matches!(self.state, ModificationState::Modifying | ModificationState::Optimizing)
    }

    /// Returns the progress in percent: 0 until optimizing, 100 when completed, between them by
    /// time.
    pub fn progress_percent(&self, now_ms: u64) -> u8 {
        match self.state {
            ModificationState::Modifying | ModificationState::Failed => 0,
            ModificationState::Completed => 100,
            ModificationState::Optimizing => {
                let whole = self.optimizing_until_ms.saturating_sub(self.modifying_until_ms).max(1);
                let done = now_ms.saturating_sub(self.modifying_until_ms);
                // 100 is for completed alone.
                (u128::from(done) * 100 / u128::from(whole)).min(99) as u8
            }
        }
    }

    /// Returns the lab time of its next step, Unix milliseconds; None if it has ended.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self.state {
            ModificationState::Modifying => Some(self.modifying_until_ms),
            ModificationState::Optimizing => Some(self.optimizing_until_ms),
            ModificationState::Completed | ModificationState::Failed => None,
        }
    }
}

/// Encryption of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeEncryption {
    /// Id of the key that wraps its data key.
    pub key: String,
    /// The data key, wrapped, in base64; "" until it was made.
    #[serde(default)]
    pub wrapped: String,
}

/// A volume at its birth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewVolume {
    /// Storage of the volume.
    #[serde(with = "spec_text")]
    pub spec: StorageSpec,
    /// Day of its limits.
    pub as_of: NaiveDate,
    /// Seed of its latencies.
    pub seed: u64,
    /// Unique name.
    #[serde(default)]
    pub name: Option<String>,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Encryption of the volume; None if it is not encrypted.
    #[serde(default)]
    pub encryption: Option<VolumeEncryption>,
    /// The snapshot it is made from.
    #[serde(default)]
    pub origin: Option<VolumeOrigin>,
    /// The volume it is a copy of.
    #[serde(default)]
    pub source_volume: Option<VolumeId>,
}

/// A volume, or an array that is used as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Id.
    pub id: VolumeId,
    /// Unique name.
    #[serde(default)]
    pub name: Option<String>,
    /// Storage of the volume now: a modification's target once that is optimizing.
    #[serde(with = "spec_text")]
    pub spec: StorageSpec,
    /// Day of its limits and of the rules for modifying it.
    pub as_of: NaiveDate,
    /// Seed of its latencies.
    pub seed: u64,
    /// Lab time of its creation, Unix milliseconds.
    pub created_ms: u64,
    /// Status of the volume.
    pub status: VolumeStatus,
    /// Reason of the status `error`.
    #[serde(default)]
    pub error: Option<String>,
    /// True in the status `error` if the volume could be used before: its bytes are there when its
    /// files and keys are.
    #[serde(default)]
    pub was_ready: bool,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Members in the order of the array; one for a single volume.
    pub members: Vec<Member>,
    /// Device of the volume, from the first step of attaching to the last of detaching.
    #[serde(default)]
    pub attachment: Option<Attachment>,
    /// The last [`MAX_HISTORY`] modifications, oldest first.
    #[serde(default)]
    pub modifications: Vec<Modification>,
    /// Encryption of the volume; None if it is not encrypted.
    #[serde(default)]
    pub encryption: Option<VolumeEncryption>,
    /// The snapshot it was made from.
    #[serde(default)]
    pub origin: Option<VolumeOrigin>,
    /// The volume it is a copy of, as that was when it was asked for. While it is `creating`, that
    /// volume keeps its bytes of that instant, under the id of this one.
    #[serde(default)]
    pub source_volume: Option<VolumeId>,
    /// EC2's AutoEnableIO: true if I/O goes on after a check that failed.
    #[serde(default)]
    pub auto_enable_io: bool,
}

impl VolumeRecord {
    /// Makes the record of a volume whose files are not made yet. `created_ms` is lab time, Unix
    /// milliseconds.
    pub(crate) fn new(id: VolumeId, new: NewVolume, created_ms: u64) -> VolumeRecord {
        let NewVolume { spec, as_of, seed, name, tags, encryption, origin, source_volume } = new;
        let members = spec.members.iter().map(|_| Member::default()).collect();
        let (status, error, attachment, modifications) = (VolumeStatus::Creating, None, None, Vec::new());
        VolumeRecord {
            id,
            name,
            spec,
            as_of,
            seed,
            created_ms,
            status,
            error,
            was_ready: false,
            tags,
            members,
            attachment,
            modifications,
            auto_enable_io: false,
            encryption,
            origin,
            source_volume,
        }
    }

    /// Returns true if bytes of another volume are still being copied to it.
    pub fn is_being_copied(&self) -> bool {
        self.status == VolumeStatus::Creating && self.source_volume.is_some()
    }

    /// Returns the usable size in GiB.
    pub fn size_gib(&self) -> u64 {
        self.spec.usable_gib()
    }

    /// Returns the name people gave it, or its id.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns the name of a member, like `vol-0123456789abcdef0-m2`; a single volume is its own.
    pub fn member_name(&self, member: usize) -> String {
        match self.spec.raid {
            None => self.id.to_string(),
            Some(_) => format!("{}-m{member}", self.id),
        }
    }

    /// Returns the place of a member among its members.
    ///
    /// # Errors
    /// There is no such member.
    pub fn member_index(&self, member: u32) -> Result<usize, ControlError> {
        let (index, count) = (member as usize, self.members.len());
        if index < count {
            return Ok(index);
        }
        let rule = match count {
            1 => format!("{} is a single volume, whose only member is 0", self.label()),
            _ => format!("{} has members 0 to {}", self.label(), count - 1),
        };
        Err(ControlError::new(ErrorKind::NotFound, format!("member {member}"), rule, LAB_RULE, "See `headrace volume list`."))
    }

    /// Returns the last modification, running or ended.
    pub fn modification(&self) -> Option<&Modification> {
        self.modifications.last()
    }

    /// Returns the limits of each member, on the volume's day and behind the lab's instance. Worked
    /// out from the notation each time, so that a corrected table corrects the volume, and an
    /// instance outside the Nitro System lowers it.
    ///
    /// # Errors
    /// The catalog's error, when its tables no longer take the volume.
    pub fn limits(&self, settings: &Settings) -> Result<Vec<VolumeLimits>, ControlError> {
        limits_of(&self.spec, self.as_of, settings)
    }

    /// Returns true if every byte can still be read: enough members of each group live. A member in
    /// rebuild does not count.
    pub fn data_complete(&self) -> bool {
        (0..self.members.len()).all(|member| self.lives(member) || self.data_elsewhere(member))
    }

    /// Returns true if a member answers, slowly or not.
    pub(crate) fn lives(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|m| matches!(m.state, MemberState::Ok | MemberState::Slow { .. }))
    }

    /// Returns true if other members also have the data of a member, and all of those live: a
    /// rebuild reads them (md(4)).
    pub(crate) fn data_elsewhere(&self, member: usize) -> bool {
        let count = self.members.len();
        let others = || (0..count).filter(|&other| other != member);
        match self.spec.raid {
            None | Some(RaidLevel::Raid0) => false,
            Some(RaidLevel::Raid1) => others().any(|other| self.lives(other)),
            Some(RaidLevel::Raid5) => others().all(|other| self.lives(other)),
            // md's near-2 layout with an even number of members: neighbours are pairs.
            Some(RaidLevel::Raid10) => self.lives(member ^ 1),
            // Far-2: its first copies lie again on the next member, its second copies come from the
            // member before.
            Some(RaidLevel::Raid10F2) => self.lives((member + 1) % count) && self.lives((member + count - 1) % count),
        }
    }

    /// Returns true if an array with redundancy loses data with this member: the others do not have
    /// all of its data any more. False for a member that has failed, and for a volume without
    /// redundancy, whose member comes back with its data.
    pub fn holds_last_copy(&self, member: usize) -> bool {
        self.redundant() && self.lives(member) && !self.data_elsewhere(member)
    }

    /// Returns true if a member may be lost without losing data.
    pub(crate) fn redundant(&self) -> bool {
        !matches!(self.spec.raid, None | Some(RaidLevel::Raid0))
    }

    /// Refuses a volume that is on its way in or out, or failed.
    pub(crate) fn check_usable(&self) -> Result<(), ControlError> {
        match self.status {
            VolumeStatus::Available | VolumeStatus::InUse => Ok(()),
            _ => Err(self.wrong_status("available or in-use")),
        }
    }

    /// Returns true if a modification is in state modifying: the size may be about to change.
    pub(crate) fn is_modifying(&self) -> bool {
        self.modification().is_some_and(|modification| modification.state == ModificationState::Modifying)
    }

    /// Makes the error of a status that a command cannot use.
    pub(crate) fn wrong_status(&self, needed: &str) -> ControlError {
        let rule = format!("is {}, and must be {needed} for that", self.status.as_str());
        let source = "EC2 volume states";
        let hint = match self.status {
            VolumeStatus::Creating | VolumeStatus::Deleting => "Wait a moment and try again.".to_string(),
            VolumeStatus::Error => {
                let why = self.error.as_deref().unwrap_or("no reason is known");
                match self.was_ready {
                    true => format!("It failed: {why}. Put back what is missing, then start the lab again: `headrace lab down`, `headrace lab up`."),
                    false => format!("It failed: {why}. Delete it and create another."),
                }
            }
            _ => "See `headrace volume list`.".to_string(),
        };
        // EC2's sentence for a volume to attach.
        let message = format!("{} is not '{}'.", self.id, needed.split(' ').next().unwrap_or(needed));
        ControlError::new(ErrorKind::IncorrectState, self.label(), rule, source, hint).says("IncorrectState", message)
    }
}

/// Returns the limits of each member of a specification on a day, behind the lab's instance.
pub(crate) fn limits_of(spec: &StorageSpec, as_of: NaiveDate, settings: &Settings) -> Result<Vec<VolumeLimits>, ControlError> {
    let instance = settings.instance()?;
    Ok(Catalog::embedded().storage_limits(spec, as_of, instance.as_ref())?)
}

/// Storage in its notation: shorter than its parts, and readable for as long as the notation is.
pub(crate) mod spec_text {
    use headrace_catalog::StorageSpec;
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(spec: &StorageSpec, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(spec)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StorageSpec, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
