//! What holds for the whole lab: the instance all volumes are attached to, the day whose limits new
//! volumes get, the speed of lab time.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits};
use serde::{Deserialize, Serialize};

/// Fastest lab time: a day in less than a tenth of a second.
const MAX_TIME_SCALE: u32 = 1_000_000;

/// Durations of a modification, in milliseconds of lab time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModificationTimes {
    /// In `modifying`.
    pub modifying_ms: u64,
    /// In `optimizing`.
    pub optimizing_ms: u64,
}

/// Settings of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Instance type; none: volumes alone.
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes; none: the newest known.
    pub as_of: Option<NaiveDate>,
    /// How many times as fast as the wall lab time runs.
    pub time_scale: u32,
    /// Region, for prices.
    pub region: String,
    /// Durations of modifications; none: the model's guess by the data a volume holds.
    pub modification_times: Option<ModificationTimes>,
}

/// A change of the settings; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsRequest {
    /// EC2 instance type whose limits all volumes share; `none` for no instance. Only while nothing
    /// is attached.
    pub instance_type: Option<String>,
    /// Day of the limits of new volumes, `YYYY-MM-DD`, or `newest`.
    pub as_of: Option<String>,
    /// How many times as fast as the wall lab time runs.
    pub time_scale: Option<u32>,
    /// Region, for prices.
    pub region: Option<String>,
    /// Durations of modifications in place of the model's guess.
    pub modification_times: Option<ModificationTimes>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { instance_type: None, as_of: None, time_scale: 1, region: "us-east-1".to_string(), modification_times: None }
    }
}

impl Settings {
    /// The day of new volumes and of the instance.
    pub fn day(&self) -> NaiveDate {
        self.as_of.unwrap_or_else(|| Catalog::embedded().newest_date())
    }

    /// The lab's one availability zone.
    pub fn zone(&self) -> String {
        format!("{}a", self.region)
    }

    /// What the instance gives its volumes.
    ///
    /// # Errors
    /// The type is not known, or was not on the lab's day.
    pub fn instance(&self) -> Result<Option<InstanceLimits>, ControlError> {
        let named = self.instance_type.as_deref();
        Ok(named.map(|name| Catalog::embedded().instance(name, self.day())).transpose()?)
    }
}

pub(crate) fn day(text: &str) -> Result<NaiveDate, ControlError> {
    text.parse().map_err(|_| ControlError::invalid(text, "must be a day, YYYY-MM-DD", "--as-of", "Write it like 2018-08-15."))
}

/// The settings after a request; none where nothing changes. `attached` names a volume that is
/// attached.
pub(crate) fn configured(before: &Settings, request: &SettingsRequest, attached: Option<&str>) -> Result<Option<Settings>, ControlError> {
    let SettingsRequest { instance_type, as_of, time_scale, region, modification_times } = request;
    let mut settings = before.clone();
    if let Some(name) = instance_type {
        settings.instance_type = (name != "none").then(|| name.clone());
    }
    if let Some(text) = as_of {
        settings.as_of = (text != "newest").then(|| day(text)).transpose()?;
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
    if settings == *before {
        return Ok(None);
    }
    check_instance(before, &settings, attached)?;
    Ok(Some(settings))
}

/// The instance is what everything attached shares: it changes only while nothing is.
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
