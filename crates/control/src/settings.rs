//! Settings of the whole lab: the instance all volumes are attached to, the day whose limits new
//! volumes get, the speed of lab time.

use crate::error::{ControlError, ErrorKind, API_TEXT, LAB_RULE};
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits};
use serde::{Deserialize, Serialize};

/// Fastest lab time: a day in less than a tenth of a second.
const MAX_TIME_SCALE: u32 = 1_000_000;

/// Durations of a modification, in milliseconds of lab time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModificationTimes {
    /// Duration of the state `modifying`.
    pub modifying_ms: u64,
    /// Duration of the state `optimizing`.
    pub optimizing_ms: u64,
}

/// Settings of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Instance type; None for volumes without an instance.
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes; None for the newest in the catalog.
    pub as_of: Option<NaiveDate>,
    /// Speed of lab time, a multiple of the wall clock's.
    pub time_scale: u32,
    /// Region, for prices and for the lab's one availability zone.
    pub region: String,
    /// EC2's id of the instance that all volumes are attached to; "" until it was drawn.
    pub instance_id: String,
    /// Durations of modifications; None for the model's guess by the data a volume holds.
    pub modification_times: Option<ModificationTimes>,
    /// URL of the object store of snapshots; None for a folder of the lab.
    pub snapshot_store: Option<String>,
}

/// Change of the settings; fields that are None stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsRequest {
    /// EC2 instance type whose limits all volumes share; `none` for no instance. Only while nothing
    /// is attached.
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes, `YYYY-MM-DD`, or `newest`.
    pub as_of: Option<String>,
    /// Speed of lab time, a multiple of the wall clock's.
    pub time_scale: Option<u32>,
    /// Region, for prices.
    pub region: Option<String>,
    /// Durations of modifications in place of the model's guess.
    pub modification_times: Option<ModificationTimes>,
    /// URL of the object store of snapshots. It only changes while the lab has no snapshot.
    pub snapshot_store: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            instance_type: None,
            as_of: None,
            time_scale: 1,
            region: "us-east-1".to_string(),
            instance_id: String::new(),
            modification_times: None,
            snapshot_store: None,
        }
    }
}

impl Settings {
    /// Returns the day of new volumes and of the instance.
    pub fn day(&self) -> NaiveDate {
        self.as_of.unwrap_or_else(|| Catalog::embedded().newest_date())
    }

    /// Returns the lab's one availability zone.
    pub fn zone(&self) -> String {
        format!("{}a", self.region)
    }

    /// Returns the id of that zone, like use1-az1: AWS shortens a region's words to their first
    /// letters, and those of two directions (northeast) to both.
    pub fn zone_id(&self) -> String {
        let mut words = self.region.split('-');
        let area = words.next().unwrap_or_default().to_string();
        let short = words.fold(area, |short, word| {
            short
                + match word {
                    "northeast" => "ne",
                    "northwest" => "nw",
                    "southeast" => "se",
                    "southwest" => "sw",
                    number if number.starts_with(|c: char| c.is_ascii_digit()) => number,
                    other => other.get(..1).unwrap_or_default(),
                }
        });
        format!("{short}-az1")
    }

    /// Checks that a caller's zone, by name or id, is the lab's.
    pub(crate) fn check_zone(&self, name: Option<&str>, id: Option<&str>) -> Result<(), ControlError> {
        let (zone, zone_id) = (self.zone(), self.zone_id());
        let hint = format!("The lab has one zone: {zone}, id {zone_id}.");
        if let (Some(name), Some(_)) = (name, id) {
            let rule = "an availability zone is named by its name or by its id, not by both";
            let error = ControlError::invalid(name, rule, format!("{API_TEXT}: CreateVolume"), hint);
            let message = "The parameter AvailabilityZone cannot be used with the parameter AvailabilityZoneId";
            return Err(error.says("InvalidParameterCombination", message));
        }
        match name.filter(|name| *name != zone).or(id.filter(|id| *id != zone_id)) {
            None => Ok(()),
            Some(other) => {
                let error = ControlError::invalid(other, "is not the availability zone of this lab", LAB_RULE, hint);
                Err(error.says("InvalidZone.NotFound", format!("The zone '{other}' does not exist.")))
            }
        }
    }

    /// Checks that a caller's instance is the lab's.
    pub(crate) fn check_instance_id(&self, given: Option<&str>) -> Result<(), ControlError> {
        let Some(other) = given.filter(|given| *given != self.instance_id) else { return Ok(()) };
        let hint = format!("The lab has one instance, this machine: {}.", self.instance_id);
        let error = ControlError::new(ErrorKind::NotFound, other, "is not the instance of this lab", LAB_RULE, hint);
        Err(match is_id(other, "i-") {
            true => error.says("InvalidInstanceID.NotFound", format!("The instance ID '{other}' does not exist")),
            false => error.says("InvalidInstanceID.Malformed", format!("Invalid id: \"{other}\"")),
        })
    }

    /// Returns the limits that the volumes share behind the instance; None without an instance.
    ///
    /// # Errors
    /// The type is not known, or was not on the lab's day.
    pub fn instance(&self) -> Result<Option<InstanceLimits>, ControlError> {
        let named = self.instance_type.as_deref();
        Ok(named.map(|name| Catalog::embedded().instance(name, self.day())).transpose()?)
    }
}

/// Returns true if a text is an id of EC2: its prefix and 8 or 17 digits.
pub(crate) fn is_id(text: &str, prefix: &str) -> bool {
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    [8, 17].contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

pub(crate) fn parse_day(text: &str) -> Result<NaiveDate, ControlError> {
    text.parse().map_err(|_| ControlError::invalid(text, "must be a day, YYYY-MM-DD", "--as-of", "Write it like 2018-08-15."))
}

/// Decides the settings after a request; None where nothing changes. `attached` names a volume that
/// is attached.
pub(crate) fn decide_settings(before: &Settings, request: &SettingsRequest, attached: Option<&str>) -> Result<Option<Settings>, ControlError> {
    let SettingsRequest { instance_type, as_of, time_scale, region, modification_times, snapshot_store } = request;
    let mut settings = before.clone();
    if let Some(name) = instance_type {
        settings.instance_type = (name != "none").then(|| name.clone());
    }
    if let Some(text) = as_of {
        settings.as_of = (text != "newest").then(|| parse_day(text)).transpose()?;
    }
    if let Some(scale) = *time_scale {
        if !(1..=MAX_TIME_SCALE).contains(&scale) {
            let rule = format!("the time scale is 1 to {MAX_TIME_SCALE}");
            return Err(ControlError::invalid(scale.to_string(), rule, LAB_RULE, "Use 1 for real time, 3600 for an hour a second."));
        }
        settings.time_scale = scale;
    }
    if let Some(name) = region {
        let regions = Catalog::embedded().regions();
        if !regions.contains(&name.as_str()) {
            let hint = format!("Known regions: {}.", regions.join(", "));
            return Err(ControlError::invalid(name.as_str(), "is not a region with known prices", "data/prices_regions.csv", hint));
        }
        settings.region.clone_from(name);
    }
    settings.modification_times = modification_times.or(settings.modification_times);
    if snapshot_store.is_some() {
        settings.snapshot_store.clone_from(snapshot_store);
    }
    if settings == *before {
        return Ok(None);
    }
    check_instance(before, &settings, attached)?;
    Ok(Some(settings))
}

/// Checks that the instance may change: all attached volumes share it, so it changes only while
/// none is attached.
fn check_instance(before: &Settings, settings: &Settings, attached: Option<&str>) -> Result<(), ControlError> {
    let limits = settings.instance()?;
    if before.instance().ok() == Some(limits) {
        return Ok(());
    }
    let Some(attached) = attached else { return Ok(()) };
    Err(ControlError::new(
        ErrorKind::InUse,
        settings.instance_type.as_deref().unwrap_or("none"),
        format!("the instance cannot change while {attached} is attached"),
        "EC2: an instance changes its type only while stopped",
        "Detach all volumes first.",
    ))
}
