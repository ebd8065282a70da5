//! Lab time: Unix milliseconds that run `time_scale` times as fast as the wall, from the daemon's
//! start.

/// Turns a monotonic clock into lab time. A lab that is down stands still, so it goes on where it
/// stopped and not where the wall is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabClock {
    anchor_lab_ms: u64,
    anchor_monotonic_ns: u64,
    time_scale: u32,
}

impl LabClock {
    /// Makes a clock that shows `lab_ms` when the monotonic clock shows `monotonic_ns`: the Unix
    /// time for a new lab, the last known lab time for one that was down.
    pub fn new(lab_ms: u64, monotonic_ns: u64, time_scale: u32) -> LabClock {
        LabClock { anchor_lab_ms: lab_ms, anchor_monotonic_ns: monotonic_ns, time_scale: time_scale.max(1) }
    }

    /// Returns the lab time now, Unix milliseconds.
    pub fn lab_ms(&self, monotonic_ns: u64) -> u64 {
        let passed_ns = u128::from(monotonic_ns.saturating_sub(self.anchor_monotonic_ns));
        let passed_ms = passed_ns * u128::from(self.time_scale) / 1_000_000;
        self.anchor_lab_ms.saturating_add(u64::try_from(passed_ms).unwrap_or(u64::MAX))
    }

    /// Returns the time of the monotonic clock, ns, at which the lab time is at least `lab_ms`;
    /// never earlier than the time at which this clock was made.
    pub fn monotonic_ns(&self, lab_ms: u64) -> u64 {
        let ahead_ns = u128::from(lab_ms.saturating_sub(self.anchor_lab_ms)) * 1_000_000;
        let wait_ns = ahead_ns.div_ceil(u128::from(self.time_scale));
        self.anchor_monotonic_ns.saturating_add(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    /// Makes the clock go on at another speed from now on, without a jump.
    pub fn rescaled(&self, monotonic_ns: u64, time_scale: u32) -> LabClock {
        LabClock::new(self.lab_ms(monotonic_ns), monotonic_ns, time_scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_as_fast_as_told_and_never_jumps() {
        let clock = LabClock::new(1_000, 5_000_000, 60);
        assert_eq!(clock.lab_ms(5_000_000), 1_000);
        assert_eq!(clock.lab_ms(4_000_000), 1_000, "a clock before its start stands");
        assert_eq!(clock.lab_ms(6_000_000), 1_060);
        let slower = clock.rescaled(6_000_000, 1);
        assert_eq!(slower.lab_ms(6_000_000), 1_060);
        assert_eq!(slower.lab_ms(9_000_000), 1_063);
    }

    #[test]
    fn a_time_is_reached_when_it_says_so_and_not_before() {
        for scale in [1, 7, 60, 86_400] {
            let clock = LabClock::new(10, 123, scale);
            for lab_ms in [0, 10, 11, 12_345, 1 << 40] {
                let at = clock.monotonic_ns(lab_ms);
                assert!(clock.lab_ms(at) >= lab_ms);
                assert!(at == 123 || clock.lab_ms(at - 1) < lab_ms, "scale {scale}, {lab_ms} ms");
            }
        }
    }
}
