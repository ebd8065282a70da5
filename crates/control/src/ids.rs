//! Ids: how they are drawn, and those that are safe as file names.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Draws a new id: its prefix and 17 digits.
pub(crate) fn draw_id(prefix: &str, ids: &mut dyn FnMut() -> u64) -> String {
    format!("{prefix}-0{:016x}", ids())
}

/// Makes an id for a fault: faults live in the device, which asks for one here so that all ids look
/// alike.
pub fn fault_id(ids: &mut impl FnMut() -> u64) -> String {
    draw_id("fault", ids)
}

/// Id of a volume: `vol-` and 17 hexadecimal digits. Safe as a file name; nothing else can be read
/// into one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeId(String);

impl VolumeId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Draws ids until one is free.
    pub(crate) fn draw(ids: &mut dyn FnMut() -> u64, taken: impl Fn(&VolumeId) -> bool) -> Result<VolumeId, ControlError> {
        // With 64 random bits even a second draw never happens; a broken generator must not hang
        // the lab.
        (0..64).map(|_| VolumeId(draw_id("vol", ids))).find(|id| !taken(id)).ok_or_else(|| {
            ControlError::new(
                ErrorKind::Unavailable,
                "64 new volume ids",
                "were all taken",
                LAB_RULE,
                "The random numbers of this machine do not change: look at /dev/urandom, then try again.",
            )
        })
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<VolumeId> for String {
    fn from(id: VolumeId) -> String {
        id.0
    }
}

impl TryFrom<String> for VolumeId {
    type Error = ControlError;

    fn try_from(text: String) -> Result<VolumeId, ControlError> {
        text.parse()
    }
}

impl FromStr for VolumeId {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<VolumeId, ControlError> {
        let digits = text.strip_prefix("vol-").filter(|digits| digits.len() == 17 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        match digits {
            Some(_) => Ok(VolumeId(text.to_string())),
            None => Err(ControlError::invalid(text, "is not a volume id: vol- and 17 digits 0-9, a-f", LAB_RULE, "Take the id from `headrace volume list`.")),
        }
    }
}

/// Id of a snapshot: `snap-` and 17 hexadecimal digits. Safe as a file name; nothing else can be
/// read into one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotId(String);

impl SnapshotId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn draw(ids: &mut dyn FnMut() -> u64) -> SnapshotId {
        SnapshotId(draw_id("snap", ids))
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<SnapshotId> for String {
    fn from(id: SnapshotId) -> String {
        id.0
    }
}

impl TryFrom<String> for SnapshotId {
    type Error = ControlError;

    fn try_from(text: String) -> Result<SnapshotId, ControlError> {
        text.parse()
    }
}

impl FromStr for SnapshotId {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<SnapshotId, ControlError> {
        let hexadecimal = |digits: &str| digits.len() == 17 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match text.strip_prefix("snap-").filter(|digits| hexadecimal(digits)) {
            Some(_) => Ok(SnapshotId(text.to_string())),
            None => {
                Err(ControlError::invalid(text, "is not a snapshot id: snap- and 17 digits 0-9, a-f", LAB_RULE, "Take the id from `headrace snapshot list`."))
            }
        }
    }
}
