//! Device time: monotonic nanoseconds, going on where an earlier run left off.

use headrace_model::Nanos;
use std::time::{Duration, Instant, SystemTime};

/// Device time. It stands still while no daemon runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
    begun: SystemTime,
    offset: u64,
}

impl Clock {
    /// Makes a clock that shows `from` now.
    pub fn starting_at(from: Nanos) -> Clock {
        Clock { base: Instant::now(), begun: SystemTime::now(), offset: from.0 }
    }

    /// Returns the device time now.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.offset + self.base.elapsed().as_nanos() as u64)
    }

    /// Returns the wall-clock time at which it shows `at`; for people: the wall clock may have been
    /// set since.
    pub fn wall(&self, at: Nanos) -> SystemTime {
        if at.0 >= self.offset {
            self.begun + Duration::from_nanos(at.0 - self.offset)
        } else {
            self.begun - Duration::from_nanos(self.offset - at.0)
        }
    }
}
