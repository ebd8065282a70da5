//! One attached volume.

use crate::fault_injector::FaultInjector;
use crate::meter::Meter;
use headrace_model::Nanos;
use headrace_store::Backing;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

/// The number of a volume's device in the model.
pub type DeviceNumber = usize;

/// In `pace`: the model decides.
const PACED: i64 = -1;

/// How an attached volume answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When the model says.
    Model,
    /// This many ns after its arrival; 0: at once. Used to measure the machine's own path.
    Fixed(u64),
}

/// An attached volume: its place in the model, its bytes, what it did, what is wrong with it.
pub struct AttachedVolume {
    /// Number of its device in the model.
    pub device_number: DeviceNumber,
    /// The name of its file: the volume id.
    pub id: String,
    /// Where its bytes live.
    pub backing: Arc<dyn Backing>,
    /// What it did.
    pub meter: Meter,
    /// Faults.
    pub faults: FaultInjector,
    path_ns: AtomicU64,
    pace: AtomicI64,
}

impl AttachedVolume {
    /// A volume that follows the model.
    pub fn new(device_number: DeviceNumber, id: &str, backing: Arc<dyn Backing>, now: Nanos) -> AttachedVolume {
        AttachedVolume {
            device_number,
            id: id.to_string(),
            backing,
            meter: Meter::new(now),
            faults: FaultInjector::default(),
            path_ns: AtomicU64::new(0),
            pace: AtomicI64::new(PACED),
        }
    }

    /// The path's own time, which is part of what the model says and not added to it.
    pub fn path(&self) -> Nanos {
        Nanos(self.path_ns.load(Ordering::Relaxed))
    }

    /// Sets what was measured.
    pub fn set_path(&self, nanos: u64) {
        self.path_ns.store(nanos, Ordering::Relaxed);
    }

    /// How it answers.
    pub fn pace(&self) -> Pace {
        match self.pace.load(Ordering::Relaxed) {
            PACED => Pace::Model,
            fixed => Pace::Fixed(fixed as u64),
        }
    }

    /// Changes how it answers.
    pub fn set_pace(&self, pace: Pace) {
        let code = match pace {
            Pace::Model => PACED,
            Pace::Fixed(nanos) => i64::try_from(nanos).unwrap_or(i64::MAX),
        };
        self.pace.store(code, Ordering::Relaxed);
    }
}
