//! What the lab keeps of a volume: its status, members, device and modifications. No rule is here,
//! only what follows from a state.

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

/// Where a volume stands; EC2's names. Deleted volumes are no longer in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeStatus {
    /// Its files are being made.
    Creating,
    /// The volume can be attached.
    Available,
    /// Attached, or on its way to or from that.
    InUse,
    /// Its files are being removed.
    Deleting,
    /// Cannot be used; can be deleted.
    Error,
}

impl VolumeStatus {
    /// EC2's name.
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
    /// Its state.
    pub state: AttachmentState,
    /// Lab time at which it was asked for, Unix milliseconds.
    pub started_ms: u64,
    /// Lab time since which the device was there first.
    #[serde(default)]
    pub attached_ms: Option<u64>,
    /// Whether requests complete without the model's delays.
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
    /// Busy, and detached as soon as it is not.
    #[serde(default)]
    pub waits: bool,
    /// Whether the volume goes with the instance.
    #[serde(default)]
    pub delete_on_termination: bool,
    /// The device, once there.
    #[serde(default)]
    pub device: Option<AttachedDevice>,
}

/// How a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// The member performs as its limits say.
    #[default]
    Ok,
    /// Slower, until restored.
    Slow {
        /// What is left of its caps, thousandths.
        caps_per_mille: u32,
        /// Added to every request, microseconds.
        extra_latency_us: u64,
    },
    /// Lost.
    Failed,
    /// The member is new, and being filled.
    Rebuilding {
        /// Bytes done.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
        /// Most MiB/s; none: as fast as members allow.
        #[serde(default)]
        mib_s: Option<u64>,
    },
}

/// Least share of the caps that can be left, percent: it is kept in thousandths.
const LEAST_CAPS_PERCENT: f64 = 0.1;
/// Most extra latency of a request, ms: a minute, past which a kernel gives up on it anyway.
pub const MOST_EXTRA_MS: f64 = 60_000.0;

/// How much slower than its limits a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// What is left of its caps, thousandths.
    pub caps_per_mille: u32,
    /// Added to every request, microseconds.
    pub extra_latency_us: u64,
}

impl Slowness {
    /// Computes the slowness from what is left of the caps, percent, and what is added to every
    /// request, ms.
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

/// A member of an array, or the one volume there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// How it is.
    pub state: MemberState,
    /// How often it was replaced by an empty volume.
    pub replaced: u32,
    /// The balance someone set last.
    pub balance: Option<BalanceSet>,
}

/// Where a modification stands; EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModificationState {
    /// Accepted, all as before.
    Modifying,
    /// The size is the new one, and the limits are in between.
    Optimizing,
    /// The new limits hold.
    Completed,
    /// The modification failed, and all stays as before.
    Failed,
}

impl ModificationState {
    /// EC2's name.
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
    /// What the volume was.
    #[serde(with = "spec_text")]
    pub from: StorageSpec,
    /// What it becomes.
    #[serde(with = "spec_text")]
    pub to: StorageSpec,
    /// Its state.
    pub state: ModificationState,
    /// When it was accepted.
    pub started_ms: u64,
    /// When `modifying` ends.
    pub modifying_until_ms: u64,
    /// When `optimizing` ends.
    pub optimizing_until_ms: u64,
    /// When it was completed or failed.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Why it failed.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Modification {
    /// Modifying or optimizing.
    pub fn is_active(&self) -> bool {
        matches!(self.state, ModificationState::Modifying | ModificationState::Optimizing)
    }

    /// 0 until optimizing, 100 when completed, between them by time.
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

    /// When its next step is due.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self.state {
            ModificationState::Modifying => Some(self.modifying_until_ms),
            ModificationState::Optimizing => Some(self.optimizing_until_ms),
            ModificationState::Completed | ModificationState::Failed => None,
        }
    }
}

/// How a volume is encrypted.
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
    /// What it is.
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
    /// How it is encrypted; none: it is not.
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
    /// What it is now: a modification's target once that is optimizing.
    #[serde(with = "spec_text")]
    pub spec: StorageSpec,
    /// Day of its limits and of the rules for modifying it.
    pub as_of: NaiveDate,
    /// Seed of its latencies.
    pub seed: u64,
    /// Lab time of its creation, Unix milliseconds.
    pub created_ms: u64,
    /// Its state.
    pub status: VolumeStatus,
    /// Why it is in `error`.
    #[serde(default)]
    pub error: Option<String>,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// One for a single volume; in the order of the array.
    pub members: Vec<Member>,
    /// Its device, from the first step of attaching to the last of detaching.
    #[serde(default)]
    pub attachment: Option<Attachment>,
    /// The last [`MAX_HISTORY`] modifications, oldest first.
    #[serde(default)]
    pub modifications: Vec<Modification>,
    /// How it is encrypted; none: it is not.
    #[serde(default)]
    pub encryption: Option<VolumeEncryption>,
    /// The snapshot it was made from.
    #[serde(default)]
    pub origin: Option<VolumeOrigin>,
    /// The volume it is a copy of, as that was when it was asked for. While it is `creating`, that
    /// volume keeps its bytes of that instant, under the id of this one.
    #[serde(default)]
    pub source_volume: Option<VolumeId>,
    /// EC2's AutoEnableIO: whether I/O goes on after a check that failed.
    #[serde(default)]
    pub auto_enable_io: bool,
}

impl VolumeRecord {
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

    /// Whether bytes of another volume are still on their way to it.
    pub fn is_being_copied(&self) -> bool {
        self.status == VolumeStatus::Creating && self.source_volume.is_some()
    }

    /// Usable size in GiB.
    pub fn size_gib(&self) -> u64 {
        self.spec.usable_gib()
    }

    /// The name people gave it, or its id.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Name of a member, like `vol-0123456789abcdef0-m2`; a single volume is its own.
    pub fn member_name(&self, member: usize) -> String {
        match self.spec.raid {
            None => self.id.to_string(),
            Some(_) => format!("{}-m{member}", self.id),
        }
    }

    /// The place of a member among its members.
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

    /// The last modification, running or ended.
    pub fn modification(&self) -> Option<&Modification> {
        self.modifications.last()
    }

    /// What each member delivers, on the volume's day and behind the lab's instance. Worked out
    /// from the notation each time, so that a corrected table corrects the volume, and an instance
    /// outside the Nitro System lowers it.
    ///
    /// # Errors
    /// Of the catalog, when its tables no longer take the volume.
    pub fn limits(&self, settings: &Settings) -> Result<Vec<VolumeLimits>, ControlError> {
        limits_of(&self.spec, self.as_of, settings)
    }

    /// Whether every byte can still be read: enough members of each group live. A member in rebuild
    /// does not count.
    pub fn data_complete(&self) -> bool {
        (0..self.members.len()).all(|member| self.lives(member) || self.data_elsewhere(member))
    }

    /// Whether a member answers, slowly or not.
    pub(crate) fn lives(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|m| matches!(m.state, MemberState::Ok | MemberState::Slow { .. }))
    }

    /// Whether what a member holds is on others too, and all of those live: what a rebuild reads
    /// (md(4)).
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
            // one before.
            Some(RaidLevel::Raid10F2) => self.lives((member + 1) % count) && self.lives((member + count - 1) % count),
        }
    }

    /// Whether an array with redundancy loses data with this member: what it holds is not whole on
    /// the others any more. False for a member that has failed, and for a volume without
    /// redundancy, whose member comes back with its data.
    pub fn holds_last_copy(&self, member: usize) -> bool {
        self.redundant() && self.lives(member) && !self.data_elsewhere(member)
    }

    /// Whether a member may be lost without losing data.
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

    /// Whether a modification is in state modifying: its size may be about to change.
    pub(crate) fn is_modifying(&self) -> bool {
        self.modification().is_some_and(|modification| modification.state == ModificationState::Modifying)
    }

    /// The status is not the one a command needs.
    pub(crate) fn wrong_status(&self, needed: &str) -> ControlError {
        let rule = format!("is {}, and must be {needed} for that", self.status.as_str());
        let source = "EC2 volume states";
        let hint = match self.status {
            VolumeStatus::Creating | VolumeStatus::Deleting => "Wait a moment and try again.".to_string(),
            VolumeStatus::Error => {
                let why = self.error.as_deref().unwrap_or("no reason is known");
                format!("It failed: {why}. Delete it and create another.")
            }
            _ => "See `headrace volume list`.".to_string(),
        };
        // EC2's sentence for a volume to attach.
        let message = format!("{} is not '{}'.", self.id, needed.split(' ').next().unwrap_or(needed));
        ControlError::new(ErrorKind::IncorrectState, self.label(), rule, source, hint).says("IncorrectState", message)
    }
}

/// What each member of a specification delivers on a day, behind the lab's instance.
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
