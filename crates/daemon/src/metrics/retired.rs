//! The rows of volumes that were deleted: kept as long as CloudWatch keeps values of a minute, and
//! no more of them than a bound.
//!
//! The folder of such a volume has a file more, `retired.json`, with what its metrics depend on.
//! Rows of volumes that were never attached do not exist, so nothing is kept of those.

use super::{lock, Store};
use headrace_cloudwatch::ebs::VolumeFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Time for which rows outlive their volume, s: 15 days, as CloudWatch keeps values of a minute
/// (CloudWatch user guide, "Metrics retention").
pub(super) const KEPT_FOR_S: u64 = 15 * 86_400;
/// Most bytes of all files of deleted volumes, and most volumes. Guesses: five volumes with 15 days
/// of busy minutes each, or a thousand that lived for hours.
pub(super) const MOST_BYTES: u64 = 256 << 20;
pub(super) const MOST_VOLUMES: usize = 1_000;
const FILE: &str = "retired.json";

/// A volume that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retired {
    /// Time of its deletion, Unix seconds.
    pub deleted_s: u64,
    /// Facts that the metrics depend on: first those of the volume, then those of the members of an
    /// array.
    pub facts: Vec<VolumeFacts>,
}

impl Retired {
    /// Returns the facts of the volume, or of a member; None where it has no such member.
    pub fn facts_of(&self, member: Option<u32>) -> Option<VolumeFacts> {
        self.facts.get(member.map_or(0, |member| member as usize + 1)).copied()
    }

    /// Returns the number of members of the array; 0 for a single volume.
    pub fn members(&self) -> u32 {
        self.facts.len().saturating_sub(1) as u32
    }
}

/// Reads the deleted volumes of a folder. A file that cannot be understood counts for no volume.
pub(super) fn read(folder: &Path) -> io::Result<BTreeMap<String, Retired>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let text = match fs::read_to_string(entry.path().join(FILE)) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(error),
        };
        if let (Some(name), Ok(retired)) = (entry.file_name().to_str(), serde_json::from_str(&text)) {
            all.insert(name.to_string(), retired);
        }
    }
    Ok(all)
}

fn bytes_of(folder: &Path) -> u64 {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

impl Store {
    /// Keeps the rows of a volume that is deleted now; a volume without rows leaves nothing.
    ///
    /// # Errors
    /// An [`io::Error`] if the note about the volume cannot be written.
    pub fn retire(&self, volume: &str, retired: Retired) -> io::Result<()> {
        let folder = self.folder_of(volume, None)?;
        if !folder.exists() {
            self.forget(volume);
            return Ok(());
        }
        let fresh = folder.join("retired.new");
        fs::write(&fresh, serde_json::to_vec(&retired)?)?;
        fs::rename(&fresh, folder.join(FILE))?;
        self.close(volume);
        let now_s = retired.deleted_s;
        lock(&self.retired).insert(volume.to_string(), retired);
        self.expire(now_s);
        Ok(())
    }

    /// Returns a deleted volume whose rows are kept.
    pub fn retired(&self, volume: &str) -> Option<Retired> {
        lock(&self.retired).get(volume).cloned()
    }

    /// Returns all deleted volumes whose rows are kept.
    pub fn all_retired(&self) -> Vec<(String, Retired)> {
        lock(&self.retired).iter().map(|(volume, retired)| (volume.clone(), retired.clone())).collect()
    }

    /// Deletes the files beyond the age limit, and the oldest files beyond the size limit.
    pub fn expire(&self, now_s: u64) {
        let mut oldest_first = self.all_retired();
        oldest_first.sort_by_key(|(_, retired)| retired.deleted_s);
        let sizes: Vec<u64> = oldest_first.iter().map(|(volume, _)| self.folders_of(volume).iter().map(|folder| bytes_of(folder)).sum()).collect();
        let (mut bytes, mut volumes) = (sizes.iter().sum::<u64>(), oldest_first.len());
        for ((volume, retired), size) in oldest_first.iter().zip(sizes) {
            if retired.deleted_s.saturating_add(KEPT_FOR_S) >= now_s && bytes <= MOST_BYTES && volumes <= MOST_VOLUMES {
                break;
            }
            self.forget(volume);
            bytes -= size;
            volumes -= 1;
        }
    }
}
