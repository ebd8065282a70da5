//! All that is kept of a lab, and its volumes by name.

use crate::alarms::Alarms;
use crate::error::{ControlError, ErrorKind, LAB_RULE};
use crate::ids::VolumeId;
use crate::keys::Keys;
use crate::settings::{self, Settings};
use crate::snapshots::registry::Snapshots;
use crate::tokens::Tokens;
use crate::volumes::record::{VolumeRecord, Volumes};
use serde::{Deserialize, Serialize};

/// Volumes an error names: a handful is read, more scrolls the error away.
const NAMED_IN_ERRORS: usize = 5;

/// Everything that is true of a lab but for bytes and credits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lab {
    /// Instance, day and clock.
    pub settings: Settings,
    /// Volumes by id, without the deleted.
    pub volumes: Volumes,
    /// Keys, and what is encrypted by default.
    pub keys: Keys,
    /// Snapshots, schedules and the recycle bin.
    pub snapshots: Snapshots,
    /// Client tokens that count.
    pub tokens: Tokens,
    /// Alarms and their history.
    pub alarms: Alarms,
    /// Lab time of the last event, Unix milliseconds: where the clock goes on after a restart at
    /// the earliest.
    pub last_ms: u64,
}

impl Lab {
    /// Returns a volume by id or by name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], with the volumes there are.
    pub fn find(&self, volume: &str) -> Result<&VolumeRecord, ControlError> {
        let by_id = volume.parse().ok().and_then(|id: VolumeId| self.volumes.get(&id));
        let by_name = || self.volumes.values().find(|record| record.name.as_deref() == Some(volume));
        by_id.or_else(by_name).ok_or_else(|| self.refuse_unknown(&[volume]))
    }

    /// Returns volumes by id or by name, in the order of the request.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], which names those that are not there and no other: clients read
    /// them out of EC2's sentence.
    pub fn find_all(&self, volumes: &[String]) -> Result<Vec<&VolumeRecord>, ControlError> {
        let lookups: Vec<Result<&VolumeRecord, &str>> = volumes.iter().map(|volume| self.find(volume).map_err(|_| volume.as_str())).collect();
        let missing: Vec<&str> = lookups.iter().filter_map(|lookup| lookup.err()).collect();
        match missing.is_empty() {
            true => Ok(lookups.into_iter().flatten().collect()),
            false => Err(self.refuse_unknown(&missing)),
        }
    }

    /// Makes the refusal of ids or names that no volume has, with EC2's sentence.
    fn refuse_unknown(&self, volumes: &[&str]) -> ControlError {
        let labels: Vec<&str> = self.volumes.values().take(NAMED_IN_ERRORS).map(VolumeRecord::label).collect();
        let hint = match (labels.is_empty(), self.volumes.len() - labels.len()) {
            (true, _) => "The lab has no volume yet: create one, like `headrace volume create gp2:500`.".to_string(),
            (false, 0) => format!("There are: {}.", labels.join(", ")),
            (false, more) => format!("There are {} and {more} more: see `headrace volume list`.", labels.join(", ")),
        };
        let rule = match volumes.len() {
            1 => "is neither the id nor the name of a volume of this lab",
            _ => "are neither ids nor names of volumes of this lab",
        };
        let error = ControlError::new(ErrorKind::NotFound, volumes.join(", "), rule, LAB_RULE, hint);
        match volumes.iter().find(|volume| volume.starts_with("vol-") && !settings::is_id(volume, "vol-")) {
            Some(malformed) => error.says("InvalidParameterValue", format!("Value ({malformed}) for parameter volumeId is invalid. Expected: 'vol-...'.")),
            None if volumes.len() == 1 => error.says("InvalidVolume.NotFound", format!("The volume '{}' does not exist.", volumes[0])),
            None => error.says("InvalidVolume.NotFound", format!("The volumes '{}' do not exist.", volumes.join(", "))),
        }
    }
}
