//! Result of one interval: requests answered, waits, and the times at which limits made them wait.

use crate::demand::mixture::Waits;
use crate::demand::near_cap::WALKS;
use crate::demand::windows::Served;
use headrace_model::Cap;

/// Result of one interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub delivered: f64,
    pub delivered_bytes: f64,
    /// Waiting for a limit: from when (s of the run), for how long, for which.
    pub stretches: Vec<(f64, f64, Cap)>,
    pub longest_wait_s: f64,
    pub wait_sum_s: f64,
    /// Most requests that waited at once, where they waited in clumps.
    pub peak_queue: f64,
    /// Waits of this interval alone: of those that waited.
    pub served: Vec<Served>,
    /// Waits near a cap, by walk: of the requests that each walk stands for.
    pub sampled: Vec<(usize, Served)>,
}

impl Step {
    /// Forgets what came of the interval before.
    #[inline]
    pub fn clear(&mut self) {
        self.stretches.clear();
        self.served.clear();
        self.sampled.clear();
        (self.delivered, self.delivered_bytes) = (0.0, 0.0);
        (self.longest_wait_s, self.wait_sum_s, self.peak_queue) = (0.0, 0.0, 0.0);
    }

    /// Notes requests that were served, here and in the run's `waits`. `waits_s` are the waits of
    /// the first and of the last of them, s; those between lie evenly.
    pub(super) fn serve(&mut self, requests: f64, bytes_per_request: f64, waits_s: (f64, f64), waits: &mut Waits) {
        self.delivered += requests;
        self.delivered_bytes += requests * bytes_per_request;
        let (from, to) = (waits_s.0.max(0.0), waits_s.1.max(0.0));
        self.longest_wait_s = self.longest_wait_s.max(from).max(to);
        self.wait_sum_s += requests * 0.5 * (from + to);
        waits.add(requests, from * 1e3, to * 1e3);
        if from > 0.0 || to > 0.0 {
            self.served.push(Served { requests, from_ms: from * 1e3, to_ms: to * 1e3 });
        }
    }

    /// Returns the waits of this interval as a distribution.
    pub fn waits(&self) -> Waits {
        let mut waits = Waits::default();
        for part in &self.served {
            waits.add(part.requests, part.from_ms, part.to_ms);
        }
        waits.complete(self.delivered);
        for (_, part) in &self.sampled {
            waits.delay(part.requests / WALKS as f64, part.from_ms);
        }
        waits
    }

    /// Returns the time in which requests waited, s. `sum` is not used: it returns -0.0 for no
    /// terms.
    pub fn throttled_s(&self) -> f64 {
        self.stretches.iter().fold(0.0, |sum, (_, seconds, _)| sum + seconds)
    }

    /// Returns the limit that made requests wait longest.
    pub fn cap(&self) -> Cap {
        let total = |cap: Cap| -> f64 { self.stretches.iter().filter(|(_, _, limit)| *limit == cap).map(|(_, seconds, _)| seconds).sum() };
        self.stretches.iter().map(|&(_, _, cap)| cap).max_by(|a, b| total(*a).total_cmp(&total(*b))).unwrap_or_default()
    }
}
