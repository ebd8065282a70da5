//! Notation of storage: `TYPE:SIZE_GIB[:IOPS[:MIB_S]]`, an array in front of it.
//!
//! ```text
//! storage = [level ":"] group *("+" group) ["@" chunk_kib "k"]
//! level   = "raid0" / "raid1" / "raid5" / "raid10" / "raid10f2"
//! group   = [count "x"] type ":" size_gib [":" [iops] [":" mib_s]]
//! ```
//!
//! More than one member without a level is RAID 0. Unlike members are joined with `+`. The chunk is
//! written only where it is not [`DEFAULT_CHUNK_KIB`]. Reading says nothing about limits: that is
//! [`crate::Catalog::volume_limits`].

use crate::error::{did_you_mean, CatalogError, Problem};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Chunk of an array in KiB where none is written. The published RAID study on EBS used 256 KiB
/// chunks; `mdadm` itself has taken 512 KiB since version 3.1 (2009).
pub const DEFAULT_CHUNK_KIB: u64 = 256;

/// Most members of an array: the most EBS attachments of any type in `data/instances.csv`.
pub const MAX_MEMBERS: usize = 128;

/// Citation of the notation in errors, and examples that they give.
const NOTATION: &str = "storage notation TYPE:SIZE_GIB[:IOPS[:MIB_S]]";
const EXAMPLES: &str = "Write it like gp2:1000, io1:1024:10000, gp3:500:6000:250, 2xgp2:1700 or raid10:4xgp3:500.";

/// RAID levels that exist elsewhere (md(4), hardware controllers) but have no model here.
const NOT_MODELLED: [&str; 7] = ["raid2", "raid3", "raid4", "raid6", "raid01", "raid50", "raid60"];

/// A kind of volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeType {
    /// Magnetic, since 2008.
    Standard,
    /// General purpose SSD with I/O credits, since 2014.
    Gp2,
    /// General purpose SSD with bought IOPS and throughput, since 2020.
    Gp3,
    /// Provisioned IOPS SSD, since 2012.
    Io1,
    /// Provisioned IOPS SSD, since 2020; Block Express from 2023-11.
    Io2,
    /// io2 on Block Express by name, since 2020-12.
    Io2BlockExpress,
    /// Throughput optimized HDD, since 2016.
    St1,
    /// Cold HDD, since 2016.
    Sc1,
    /// Disks of the host; gone when the instance stops.
    InstanceStore,
}

impl VolumeType {
    /// Every type, in the order of the declaration.
    pub const ALL: [VolumeType; 9] = [
        VolumeType::Standard,
        VolumeType::Gp2,
        VolumeType::Gp3,
        VolumeType::Io1,
        VolumeType::Io2,
        VolumeType::Io2BlockExpress,
        VolumeType::St1,
        VolumeType::Sc1,
        VolumeType::InstanceStore,
    ];

    /// Returns the name AWS uses; ours for `io2-block-express` and `instance-store`.
    pub fn as_str(self) -> &'static str {
        match self {
            VolumeType::Standard => "standard",
            VolumeType::Gp2 => "gp2",
            VolumeType::Gp3 => "gp3",
            VolumeType::Io1 => "io1",
            VolumeType::Io2 => "io2",
            VolumeType::Io2BlockExpress => "io2-block-express",
            VolumeType::St1 => "st1",
            VolumeType::Sc1 => "sc1",
            VolumeType::InstanceStore => "instance-store",
        }
    }
}

impl fmt::Display for VolumeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for VolumeType {
    type Err = CatalogError;

    /// Reads a name in any case, and the aliases `magnetic` and `io2bx`.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "magnetic" => return Ok(VolumeType::Standard),
            "io2bx" => return Ok(VolumeType::Io2BlockExpress),
            _ => {}
        }
        let names = VolumeType::ALL.map(VolumeType::as_str);
        VolumeType::ALL.into_iter().find(|volume_type| volume_type.as_str() == lower).ok_or_else(|| {
            CatalogError::UnknownType(Box::new(Problem::new(
                text,
                "is not a volume type",
                "data/volumes",
                did_you_mean(text, names, &format!("Known types: {}.", names.join(", "))),
            )))
        })
    }
}

/// Layout of an array's data over its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RaidLevel {
    /// Stripes; one lost member loses all.
    Raid0,
    /// Mirrors.
    Raid1,
    /// Stripes with one rotating parity.
    Raid5,
    /// Stripes over mirrored pairs (md layout n2).
    Raid10,
    /// Two copies, the second in the far half (md layout f2).
    Raid10F2,
}

impl RaidLevel {
    /// Every level.
    pub const ALL: [RaidLevel; 5] = [RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid5, RaidLevel::Raid10, RaidLevel::Raid10F2];

    /// Returns the name in the notation.
    pub fn as_str(self) -> &'static str {
        match self {
            RaidLevel::Raid0 => "raid0",
            RaidLevel::Raid1 => "raid1",
            RaidLevel::Raid5 => "raid5",
            RaidLevel::Raid10 => "raid10",
            RaidLevel::Raid10F2 => "raid10f2",
        }
    }

    /// Returns the distinct data of `members` members, in members: the first number over the
    /// second.
    pub fn data_members(self, members: u64) -> (u64, u64) {
        match self {
            RaidLevel::Raid0 => (members, 1),
            RaidLevel::Raid1 => (1, 1),
            RaidLevel::Raid5 => (members.saturating_sub(1), 1),
            RaidLevel::Raid10 => (members / 2, 1),
            RaidLevel::Raid10F2 => (members, 2),
        }
    }

    /// Returns the reason why `members` cannot form this level, or `None` when they can.
    fn refusal(self, members: usize) -> Option<&'static str> {
        match self {
            RaidLevel::Raid0 if members < 2 => Some("RAID 0 needs 2 members or more"),
            RaidLevel::Raid1 if members < 2 => Some("RAID 1 needs 2 members or more"),
            RaidLevel::Raid5 if members < 3 => Some("RAID 5 needs 3 members or more"),
            RaidLevel::Raid10 if members < 4 || members % 2 == 1 => Some("RAID 10 needs an even number of members, 4 or more"),
            RaidLevel::Raid10F2 if members < 2 => Some("RAID 10 f2 needs 2 members or more"),
            _ => None,
        }
    }
}

impl fmt::Display for RaidLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RaidLevel {
    type Err = CatalogError;

    /// Reads a name in any case; a level without a model is refused as such.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let lower = text.to_ascii_lowercase();
        let names = RaidLevel::ALL.map(RaidLevel::as_str);
        RaidLevel::ALL.into_iter().find(|level| level.as_str() == lower).ok_or_else(|| {
            let levels = format!("Known levels: {}.", names.join(", "));
            let problem = if NOT_MODELLED.contains(&lower.as_str()) {
                Problem::new(text, "is a RAID level that is not modelled", NOTATION, format!("{levels} No other level stands in for it."))
            } else {
                Problem::new(text, "is not a RAID level", NOTATION, did_you_mean(text, names, &levels))
            };
            CatalogError::UnknownType(Box::new(problem))
        })
    }
}

/// One volume as it would be ordered: type, size, and the IOPS and MiB/s bought on top.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Volume type.
    pub volume_type: VolumeType,
    /// Size in GiB.
    pub size_gib: u64,
    /// Provisioned IOPS (gp3, io1, io2); `None` is what the type includes.
    pub iops: Option<u64>,
    /// Provisioned throughput in MiB/s (gp3); `None` is what the type includes.
    pub throughput_mib_s: Option<u64>,
}

impl VolumeSpec {
    /// Makes a volume with nothing bought on top.
    pub fn new(volume_type: VolumeType, size_gib: u64) -> Self {
        VolumeSpec { volume_type, size_gib, iops: None, throughput_mib_s: None }
    }
}

impl fmt::Display for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.volume_type, self.size_gib)?;
        match (self.iops, self.throughput_mib_s) {
            (None, None) => Ok(()),
            (Some(iops), None) => write!(f, ":{iops}"),
            (None, Some(mib_s)) => write!(f, "::{mib_s}"),
            (Some(iops), Some(mib_s)) => write!(f, ":{iops}:{mib_s}"),
        }
    }
}

impl FromStr for VolumeSpec {
    type Err = CatalogError;

    /// Reads one volume, such as `gp3:500:6000:250`.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let text = text.trim();
        let mut fields = text.split(':');
        let volume_type: VolumeType = fields.next().unwrap_or_default().parse()?;
        let size = fields.next().ok_or_else(|| bad(text, "the size is missing"))?;
        let size_gib = number(text, "size in GiB", size)?;
        let mut optional = |name| match fields.next() {
            None | Some("") => Ok(None),
            Some(field) => number(text, name, field).map(Some),
        };
        let iops = optional("IOPS")?;
        let throughput_mib_s = optional("throughput in MiB/s")?;
        if fields.next().is_some() {
            return Err(bad(text, "has more than four fields"));
        }
        if text.ends_with(':') {
            return Err(bad(text, "the last field is empty"));
        }
        Ok(VolumeSpec { volume_type, size_gib, iops, throughput_mib_s })
    }
}

/// One volume or an array of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StorageSpec {
    /// Level of the array; `None` for a single volume.
    pub raid: Option<RaidLevel>,
    /// The volumes, in the order of the array.
    pub members: Vec<VolumeSpec>,
    /// Chunk of the array in KiB; of no effect for a single volume.
    pub chunk_kib: u64,
}

impl StorageSpec {
    /// Makes a single volume.
    pub fn single(volume: VolumeSpec) -> Self {
        StorageSpec { raid: None, members: vec![volume], chunk_kib: DEFAULT_CHUNK_KIB }
    }

    /// Makes an array with the default chunk.
    ///
    /// # Errors
    /// [`CatalogError::Notation`] when the level does not take that many members.
    pub fn array(level: RaidLevel, members: Vec<VolumeSpec>) -> Result<Self, CatalogError> {
        let storage = StorageSpec { raid: Some(level), members, chunk_kib: DEFAULT_CHUNK_KIB };
        storage.check()?;
        Ok(storage)
    }

    /// Returns the space for a file system in GiB. RAID 0 holds the sum of its members: where the
    /// smallest ends, md stripes on over the others (md(4), RAID0: zones); a GiB is a whole number
    /// of chunks. On every other level an unlike member counts as the smallest.
    pub fn usable_gib(&self) -> u64 {
        let sizes = || self.members.iter().map(|member| member.size_gib);
        if self.raid == Some(RaidLevel::Raid0) {
            return sizes().fold(0, u64::saturating_add);
        }
        let (data, share) = self.raid.map_or((1, 1), |level| level.data_members(self.members.len() as u64));
        sizes().min().unwrap_or(0).saturating_mul(data) / share
    }

    /// Returns whether the members are not all of one size.
    pub fn has_unlike_sizes(&self) -> bool {
        self.members.iter().any(|member| member.size_gib != self.members[0].size_gib)
    }

    /// Checks the number of members and the chunk.
    ///
    /// # Errors
    /// [`CatalogError::Notation`] naming the rule.
    pub fn check(&self) -> Result<(), CatalogError> {
        let count = self.members.len();
        let text = self.to_string();
        let rule = match self.raid {
            _ if count > MAX_MEMBERS => Some("no instance type attaches more than 128 volumes"),
            None if count != 1 => Some("several members need a RAID level"),
            None => None,
            Some(level) => level.refusal(count),
        };
        if let Some(rule) = rule {
            return Err(bad(&text, rule));
        }
        if !self.chunk_kib.is_power_of_two() || !(4..=65_536).contains(&self.chunk_kib) {
            return Err(bad(&text, "the chunk must be a power of two from 4 to 65536 KiB"));
        }
        Ok(())
    }
}

impl fmt::Display for StorageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<&[VolumeSpec]> = self.members.chunk_by(|a, b| a == b).collect();
        // "2xgp2:1700" says RAID 0 by itself; everything else names its level.
        let plain = self.raid == Some(RaidLevel::Raid0) && groups.len() == 1 && self.members.len() > 1;
        if let Some(level) = self.raid.filter(|_| !plain) {
            write!(f, "{level}:")?;
        }
        for (index, group) in groups.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            match group.len() {
                1 => write!(f, "{}", group[0])?,
                count => write!(f, "{count}x{}", group[0])?,
            }
        }
        if self.raid.is_some() && self.chunk_kib != DEFAULT_CHUNK_KIB {
            write!(f, "@{}k", self.chunk_kib)?;
        }
        Ok(())
    }
}

impl FromStr for StorageSpec {
    type Err = CatalogError;

    /// Reads a storage, and checks that its members form the level.
    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let text = text.trim();
        let (body, chunk_kib) = match text.split_once('@') {
            None => (text, DEFAULT_CHUNK_KIB),
            Some((body, chunk)) => {
                let digits = chunk.strip_suffix(['k', 'K']).ok_or_else(|| bad(text, "the chunk is written like @512k"))?;
                (body, number(text, "chunk in KiB", digits)?)
            }
        };
        let (level, list) = match body.split_once(':') {
            Some((head, rest)) if head.to_ascii_lowercase().starts_with("raid") => (Some(head.parse::<RaidLevel>()?), rest),
            _ => (None, body),
        };
        let mut members = Vec::new();
        for group in list.split('+') {
            let (count, volume) = count_and_volume(text, group)?;
            if members.len() as u64 + count > MAX_MEMBERS as u64 {
                return Err(bad(text, "no instance type attaches more than 128 volumes"));
            }
            members.extend((0..count).map(|_| volume.clone()));
        }
        let raid = level.or((members.len() > 1).then_some(RaidLevel::Raid0));
        if raid.is_none() && chunk_kib != DEFAULT_CHUNK_KIB {
            return Err(bad(text, "a single volume has no chunk"));
        }
        let storage = StorageSpec { raid, members, chunk_kib };
        storage.check()?;
        Ok(storage)
    }
}

/// Splits `4xgp3:500` into its count and its volume; no count is 1.
fn count_and_volume(text: &str, group: &str) -> Result<(u64, VolumeSpec), CatalogError> {
    let group = group.trim();
    if group.is_empty() {
        return Err(bad(text, "a member is missing"));
    }
    let digits = group.bytes().take_while(u8::is_ascii_digit).count();
    let (count, volume) = match group[digits..].strip_prefix(['x', 'X']) {
        Some(volume) if digits > 0 => (number(text, "number of members", &group[..digits])?, volume),
        _ => (1, group),
    };
    if count == 0 {
        return Err(bad(text, "the number of members must be 1 or more"));
    }
    Ok((count, volume.parse()?))
}

/// Reads a whole number; `name` says in an error what it is.
fn number(text: &str, name: &str, field: &str) -> Result<u64, CatalogError> {
    let whole = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    match field.parse::<u64>() {
        Ok(value) if whole => Ok(value),
        _ => Err(bad(text, &format!("{name} must be a whole number, not {field:?}"))),
    }
}

/// Makes the error of a notation that breaks a rule.
fn bad(text: &str, rule: &str) -> CatalogError {
    // A pasted file is not an error message.
    let value = if text.chars().count() > 80 {
        text.chars().take(77).collect::<String>() + "..."
    } else if text.is_empty() {
        "(nothing)".to_string()
    } else {
        text.to_string()
    };
    CatalogError::Notation(Box::new(Problem::new(value, rule, NOTATION, EXAMPLES)))
}
