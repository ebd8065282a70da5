//! Independent arrivals near a cap: what a random walk does that a line does not.
//!
//! Just below a cap, and at it, requests that come independently of each other wait in clumps. What
//! waits (W, in tokens) is a random walk that cannot fall below zero: it drifts by demand less
//! rate, and spreads by demand times the tokens of a request a second (Poisson arrivals). Its main
//! part, 1/64 s of tokens, absorbs small clumps, the reserve larger ones until it is used up. From
//! then on requests wait for what W exceeds the main part by.
//!
//! ```text
//!  W |                     __/\        what exceeds the main part waits
//!    |- - - - - - - - /\__/- - \- - - - - - main part - - -
//!    |    /\__/\_/\__/          \___
//!    |___/__________________________\___ t
//! ```
//!
//! Mean of such a walk from zero: Abate and Whitt, "Transient behavior of regulated Brownian motion
//! I" (1987): m(t) in units of spread / drift, with t in units of spread / drift^2. A run is one
//! walk, not the mean of many: how W is spread over the time of a *typical* run follows a Weibull
//! distribution of that mean whose exponent falls from 3 (young: the walk has not turned yet) to 1
//! (old: exponential, as in the settled queue). Exponent and its 1 + 2 / (1 + t) were fitted to 400
//! walks each of length 0.01 to 400: their mean p99 is met within 6 %, their mean p95 within 12 %.

use core::f64::consts::PI;
use headrace_model::chance::normal_above;

/// Utilisation of a cap from which independent arrivals are looked at: below, the chance that 1/64
/// s of tokens is used up is under exp(-2 x 47 x 0.25) at 3,000 IOPS.
pub(crate) const CLUMPS_FROM: f64 = 0.8;
/// After this time, in units of spread / drift^2, a drift upwards outweighs chance: the walk is
/// then a line with some noise (chosen, see the fit in the header).
const OLD: f64 = 2.0;

/// Drift and spread of what waits at a cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Tokens a second; never quite zero.
    drift: f64,
    /// Tokens^2 a second.
    spread: f64,
    /// Tokens of a request.
    cost: f64,
}

/// What waits at a cap whose reserve is used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NearCap {
    /// Mean, tokens.
    mean: f64,
    /// How long a walk from zero needs to get there, s.
    age_s: f64,
    walk: Walk,
    /// Since the reserve was used up, s.
    since_s: f64,
}

/// Shares of the requests that wait which wait longer than each of the levels looked at: the
/// middles, and how many requests lie around each.
const TAIL: [(f64, f64); 14] = [
    (0.9, 0.2),
    (0.7, 0.2),
    (0.525, 0.15),
    (0.385, 0.13),
    (0.27, 0.1),
    (0.185, 0.07),
    (0.125, 0.05),
    (0.08, 0.04),
    (0.0475, 0.025),
    (0.0275, 0.015),
    (0.015, 0.01),
    (0.0075, 0.005),
    (0.0035, 0.003),
    (0.001, 0.002),
];

/// What came of some time near a cap, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excess {
    /// Share of the time in which something waits.
    pub chance: f64,
    /// What W exceeds the main part by while it does, and the share of that time.
    pub levels: [(f64, f64); TAIL.len()],
    /// The most it has exceeded it by since the reserve was used up.
    pub most: f64,
}

impl Walk {
    /// Of a demand in tokens a second, `cost` tokens a request, at a cap of `rate`; `spread`: rate
    /// of the requests times the mean square of their tokens.
    pub fn new(need: f64, rate: f64, cost: f64, spread: f64) -> Walk {
        let drift = need - rate;
        // A drift below a hundred-thousandth of the rate makes no difference within hours, and
        // would divide by zero.
        let least = 1e-5 * rate;
        Walk { drift: if drift.abs() >= least { drift } else { least.copysign(drift) }, spread, cost }
    }

    /// Tokens a second that exceed a main part of `depth`, if what exceeds it is taken away at once
    /// (by the reserve): loss of a walk between two walls.
    pub fn overflow(&self, depth: f64) -> f64 {
        self.drift / -libm::expm1(-2.0 * self.drift * depth / self.spread)
    }

    /// Tokens a second that the walk is pushed up by at zero in that case: what the bucket does not
    /// need.
    pub fn unused(&self, depth: f64) -> f64 {
        self.overflow(depth) - self.drift
    }

    /// Whether it drifts upwards and has done so for long enough that chance no longer matters.
    pub fn is_a_line(&self, seconds: f64) -> bool {
        self.drift > 0.0 && self.time(seconds) > OLD
    }

    fn time(&self, seconds: f64) -> f64 {
        seconds * self.drift * self.drift / self.spread
    }

    /// Mean after some time from zero, tokens.
    fn mean(&self, seconds: f64) -> f64 {
        self.spread / self.drift.abs() * regulated_mean(self.time(seconds)) + self.drift.max(0.0) * seconds
    }

    /// Mean of the settled walk; infinite where it grows without end.
    fn settled(&self) -> f64 {
        if self.drift < 0.0 {
            0.5 * self.spread / -self.drift
        } else {
            f64::INFINITY
        }
    }

    /// How long it takes from zero to a mean below the settled one, s.
    fn age(&self, mean: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.spread / (self.drift * self.drift));
        while self.mean(high) < mean && high < 1e9 {
            high *= 2.0;
        }
        // A part in a thousand of the time scale: the mean follows its square root.
        for _ in 0..24 {
            let middle = 0.5 * (low + high);
            if self.mean(middle) < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Mean at time `t` of a random walk from zero with drift -1 and spread 1 that cannot fall below
/// zero.
fn regulated_mean(t: f64) -> f64 {
    let root = t.sqrt();
    let above = normal_above(root);
    0.5 - (t + 1.0) * above + root * libm::exp(-0.5 * t) / (2.0 * PI).sqrt()
}

impl NearCap {
    /// The reserve has just been used up: the main part, of `depth` tokens, is empty, or as empty
    /// as the walk makes it.
    pub fn new(walk: Walk, depth: f64) -> NearCap {
        let mean = depth.min(0.999 * walk.settled());
        NearCap { mean, age_s: walk.age(mean), walk, since_s: 0.0 }
    }

    /// Demand changes.
    pub fn follow(&mut self, walk: Walk) {
        if walk != self.walk {
            self.walk = walk;
            self.age_s = walk.age(self.mean.min(0.999 * walk.settled()));
        }
    }

    /// What waits is a backlog by now: it grows by its drift, or is far more than chance would hold
    /// together.
    pub fn is_a_line(&self, seconds: f64, depth: f64) -> bool {
        self.walk.is_a_line(self.age_s + seconds) || self.mean > 3.0 * (self.walk.settled() + depth)
    }

    /// Lets time pass, and says what exceeded a main part of `depth` meanwhile: a request needs its
    /// own tokens too before it starts.
    pub fn pass(&mut self, seconds: f64, depth: f64) -> Excess {
        let depth = (depth - self.walk.cost).max(0.0);
        let middle = self.mean_after(0.5 * seconds);
        let time = self.walk.time(self.since_s + 0.5 * seconds);
        // A walk that drifts upwards never turns for good.
        let exponent = if self.walk.drift > 0.0 { 3.0 } else { 1.0 + 2.0 / (1.0 + time) };
        let scale = middle / libm::tgamma(1.0 + 1.0 / exponent);
        let passed = libm::pow(depth / scale, exponent);
        let level = |share: f64| scale * libm::pow(passed - libm::log(share), 1.0 / exponent) - depth;
        self.mean = self.mean_after(seconds);
        self.age_s += seconds;
        self.since_s += seconds;
        let time = self.walk.time(self.since_s);
        // Highest point of the walk: its square root at first, later the logarithm of the time. The
        // factors are those of the two limits.
        let most =
            0.5 * self.walk.spread / self.walk.drift.abs() * libm::log(1.0 + 2.507 * time.sqrt() + 3.56 * time) + self.walk.drift.max(0.0) * self.since_s;
        Excess { chance: libm::exp(-passed), levels: TAIL.map(|(share, weight)| (level(share), weight)), most: (most - depth).max(0.0) }
    }

    fn mean_after(&self, seconds: f64) -> f64 {
        let settled = self.walk.settled();
        if self.mean > settled {
            return (self.mean + self.walk.drift * seconds).max(settled);
        }
        self.walk.mean(self.age_s + seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_grows_like_a_root_and_settles() {
        // From zero: sqrt(2 t / pi) at first, 1/2 in the end.
        assert!((regulated_mean(1e-4) / (2e-4 / PI).sqrt() - 1.0).abs() < 0.01);
        assert!((regulated_mean(100.0) - 0.5).abs() < 1e-9);
        let walk = Walk::new(2_970.0, 3_000.0, 1.0, 2_970.0);
        assert!((walk.mean(walk.age(30.0)) - 30.0).abs() < 0.05);
    }

    #[test]
    fn shares_of_the_tail_are_all_of_it() {
        let (mut above, mut total) = (1.0, 0.0);
        for (middle, weight) in TAIL {
            // Each middle lies inside its part.
            assert!(middle < above && middle > above - weight - 1e-9, "{middle} {above} {weight}");
            above -= weight;
            total += weight;
        }
        assert!((total - 1.0_f64).abs() < 1e-9, "{total}");
    }
}
