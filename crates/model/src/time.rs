//! Time as an argument: integer nanoseconds since the start of a run.
//!
//! The model has no clock. `Nanos` is whatever the caller says it is: virtual in `sim`, monotonic in a device.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds since the start of a run (or a span of that many).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Nanoseconds in one second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Nanos {
    /// The start of a run.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any event.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * NANOS_PER_SECOND)
    }

    /// Whole microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// As seconds, for people and charts; never fed back into the model.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// The span from `earlier` to here, zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, span: Nanos) -> Nanos {
        Nanos(self.0 - span.0)
    }
}
