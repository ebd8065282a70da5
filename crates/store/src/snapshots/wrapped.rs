//! Wrapped data keys, next to the snapshots that they open: object `keys/NAME`.
//!
//! A manifest says which data key seals its blocks; this object has that key, wrapped by a KMS key.
//! So who has the store and the KMS key can read the snapshot, also when the lab that made it is
//! lost. It is written before the manifest: no encrypted snapshot exists without it.

use super::bytes::damaged;
use crate::objects::{check_part, Objects};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// Version of the format of the object.
const VERSION: u32 = 1;

/// A wrapped data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrappedKey {
    /// Format of the object: 1.
    pub version: u32,
    /// The snapshot.
    pub snapshot: String,
    /// ARN of the KMS key that wraps the data key, as the lab has it that made the snapshot.
    pub kms_key: String,
    /// Key and endpoint of the KMS key, when it is not kept by the lab.
    #[serde(default)]
    pub elsewhere: Option<String>,
    /// Algorithm of the wrapping: `AES_256_GCM` by the lab, `KMS` by a KMS elsewhere.
    pub algorithm: String,
    /// The encryption context under which it was wrapped.
    pub context: BTreeMap<String, String>,
    /// The wrapped data key, in base64: a header of the lab with the id of its key, then what the
    /// algorithm gave.
    pub ciphertext: String,
    /// Id of the data key in the manifest.
    pub data_key: String,
}

/// Returns the name of the object of a snapshot's wrapped data key.
fn object_of(snapshot: &str) -> String {
    format!("keys/{snapshot}")
}

impl WrappedKey {
    /// The format that this version writes.
    pub const VERSION: u32 = VERSION;

    /// Stores it; it is durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn store(&self, objects: &Objects) -> io::Result<()> {
        check_part(&self.snapshot)?;
        objects.put(&object_of(&self.snapshot), &serde_json::to_vec_pretty(self)?)
    }

    /// Reads the wrapped key of a snapshot; None if the store has none.
    ///
    /// # Errors
    /// The store cannot be read, or the object is damaged.
    pub fn load(objects: &Objects, snapshot: &str) -> io::Result<Option<WrappedKey>> {
        check_part(snapshot)?;
        let bytes = match objects.get(&object_of(snapshot)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let wrong = |rule: String| damaged(format!("{}: keys/{snapshot}: {rule}", objects.url()));
        let key: WrappedKey = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match key.version == VERSION && key.snapshot == snapshot {
            true => Ok(Some(key)),
            false => Err(wrong(format!("it is that of {}, of format {}", key.snapshot, key.version))),
        }
    }

    /// Removes that of a snapshot; one that is not there counts as removed.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove(objects: &Objects, snapshot: &str) -> io::Result<()> {
        check_part(snapshot)?;
        objects.delete(&object_of(snapshot))
    }
}
