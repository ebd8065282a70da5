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

/// Declares the id of a kind of resource: a prefix and 17 hexadecimal digits as text.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $rule:literal, $hint:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = ControlError;

            fn try_from(text: String) -> Result<$name, ControlError> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = ControlError;

            fn from_str(text: &str) -> Result<$name, ControlError> {
                let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                match text.strip_prefix($prefix).and_then(|rest| rest.strip_prefix('-')).filter(|digits| digits.len() == 17 && digits.bytes().all(is_digit)) {
                    Some(_) => Ok($name(text.to_string())),
                    None => Err(ControlError::invalid(text, $rule, LAB_RULE, $hint)),
                }
            }
        }
    };
}

id_type!(
    /// Id of a volume: `vol-` and 17 hexadecimal digits. Safe as a file name; nothing else can be
    /// read into one.
    VolumeId,
    "vol",
    "is not a volume id: vol- and 17 digits 0-9, a-f",
    "Take the id from `headrace volume list`."
);

id_type!(
    /// Id of a snapshot: `snap-` and 17 hexadecimal digits. Safe as a file name; nothing else can
    /// be read into one.
    SnapshotId,
    "snap",
    "is not a snapshot id: snap- and 17 digits 0-9, a-f",
    "Take the id from `headrace snapshot list`."
);

impl VolumeId {
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

impl SnapshotId {
    pub(crate) fn draw(ids: &mut dyn FnMut() -> u64) -> SnapshotId {
        SnapshotId(draw_id("snap", ids))
    }
}
