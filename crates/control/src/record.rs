//! A volume as the lab knows it.

use crate::attachments::Attachment;
use crate::error::ControlError;
use crate::ids::VolumeId;
use crate::members::{Member, MemberState};
use crate::modifications::Modification;
use crate::settings::Settings;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, RaidLevel, StorageSpec, VolumeLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a volume stands; EC2's names. Deleted volumes are no longer in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeStatus {
    /// Its files are being made.
    Creating,
    /// Can be attached.
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
    /// Where it stands.
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
    /// The last [`crate::MAX_HISTORY`] modifications, oldest first.
    #[serde(default)]
    pub modifications: Vec<Modification>,
}

impl VolumeRecord {
    pub(crate) fn new(id: VolumeId, new: NewVolume, created_ms: u64) -> VolumeRecord {
        let NewVolume { spec, as_of, seed, name, tags } = new;
        let members = spec.members.iter().map(|_| Member::default()).collect();
        let (status, error, attachment, modifications) = (VolumeStatus::Creating, None, None, Vec::new());
        VolumeRecord { id, name, spec, as_of, seed, created_ms, status, error, tags, members, attachment, modifications }
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

    /// The last modification, running or ended.
    pub fn modification(&self) -> Option<&Modification> {
        self.modifications.last()
    }

    /// What each member delivers, on the volume's day and behind the lab's instance. Worked out from the notation each time, so that a corrected table
    /// corrects the volume, and an instance outside the Nitro System lowers it.
    ///
    /// # Errors
    /// Of the catalog, when its tables no longer take the volume.
    pub fn limits(&self, settings: &Settings) -> Result<Vec<VolumeLimits>, ControlError> {
        limits_of(&self.spec, self.as_of, settings)
    }

    /// Whether every byte can still be read: enough members of each group live. A member in rebuild does not count.
    pub fn data_complete(&self) -> bool {
        (0..self.members.len()).all(|member| self.lives(member) || self.data_elsewhere(member))
    }

    pub(crate) fn lives(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|m| matches!(m.state, MemberState::Ok | MemberState::Slow { .. }))
    }

    /// Whether what a member holds is on others too, and all of those live: what a rebuild reads (md(4)).
    pub(crate) fn data_elsewhere(&self, member: usize) -> bool {
        let count = self.members.len();
        let others = || (0..count).filter(|&other| other != member);
        match self.spec.raid {
            None | Some(RaidLevel::Raid0) => false,
            Some(RaidLevel::Raid1) => others().any(|other| self.lives(other)),
            Some(RaidLevel::Raid5) => others().all(|other| self.lives(other)),
            // md's near-2 layout with an even number of members: neighbours are pairs.
            Some(RaidLevel::Raid10) => self.lives(member ^ 1),
            // Far-2: its first copies lie again on the next member, its second copies come from the one before.
            Some(RaidLevel::Raid10F2) => self.lives((member + 1) % count) && self.lives((member + count - 1) % count),
        }
    }

    pub(crate) fn redundant(&self) -> bool {
        !matches!(self.spec.raid, None | Some(RaidLevel::Raid0))
    }
}

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
