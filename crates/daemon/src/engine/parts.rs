//! Parts that the services of the engine share: facts about resting volumes in memory, locks,
//! random numbers, the wall clock and the text of a time.

use chrono::{DateTime, NaiveDate, SecondsFormat};
use headrace_catalog::{StorageSpec, VolumeLimits};
use headrace_control::VolumeId;
use headrace_device::AttachedVolume;
use headrace_model::Device;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The second whose rows are being counted, and devices that were detached while requests waited.
#[derive(Default)]
pub(crate) struct Noting {
    /// The second that rows are counted for now, Unix seconds.
    pub(crate) second: u64,
    /// Devices that were detached with requests that are not answered yet.
    pub(crate) parting: Vec<(VolumeId, Arc<AttachedVolume>)>,
}

/// Takes a lock even when a thread panicked while holding it: state is only changed when it is
/// complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the wall clock, Unix milliseconds.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_millis() as u64)
}

/// Returns the wall clock, Unix seconds.
pub(crate) fn unix_s() -> u64 {
    unix_ms() / 1_000
}

/// Draws a random number from the operating system.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    let got = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(got, Ok(8));
    u64::from_le_bytes(bytes)
}

/// Facts about a resting volume that need no opening of its files.
#[derive(Default)]
pub(crate) struct Resting {
    /// Bytes that its files take on the disk.
    pub(crate) allocated: Option<u64>,
    /// Blocks of its snapshot, and how many of them are not loaded.
    pub(crate) cold: Option<(u64, u64)>,
    /// Device of the volume in the model, with the state at its last use; made at the first
    /// question for its credits.
    pub(super) device: Option<Device>,
}

/// Key of the remembered limits: storage, date, and instance type.
type LimitsKey = (StorageSpec, NaiveDate, Option<String>);
/// Limits that were worked out.
pub(crate) type KnownLimits = HashMap<LimitsKey, Arc<Vec<VolumeLimits>>>;

/// Writes a lab time as text.
pub fn lab_time(ms: u64) -> String {
    DateTime::from_timestamp_millis(ms as i64).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
