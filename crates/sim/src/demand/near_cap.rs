//! Independent arrivals near a cap: what random walks do that a line does not.
//!
//! Just below a cap, and at it, requests that come independently of each other wait in clumps. The
//! waiting work (W, in tokens) is a random walk that cannot fall below zero: it drifts by demand
//! less rate, and spreads by demand times the tokens of a request a second (Poisson arrivals). The
//! bucket's main part, 1/64 s of tokens, absorbs small clumps, the reserve larger ones until it is
//! used up. From then on requests wait for the excess of W over the main part.
//!
//! ```text
//!  W |                     __/\        what exceeds the main part waits
//!    |- - - - - - - - /\__/- - \- - - - - - main part - - -
//!    |    /\__/\_/\__/          \___
//!    |___/__________________________\___ t
//! ```
//!
//! This is the heavy-traffic limit of a queue: a Brownian motion that is reflected at zero. One run
//! is one walk: at the cap its p99 is mostly that of its largest clump, and neither the settled law
//! (there is none) nor the mean over time gives the p99 that runs have in the mean. So a few dozen
//! walks are followed, always the same ones. Each knows when its own reserve is used up, and each
//! has its own percentiles; the run's are their means.
//!
//! - While a walk has a reserve, it is between two walls. The reserve that it loses is its local
//!   time at the main part, the reserve that it gains a share of that at zero. By the central limit
//!   theorem both are normal over many turns; mean and variance in `Walk`.
//! - Without a reserve there is the wall at zero alone. A step of any length is exact: the lowest
//!   point of a Brownian bridge has a known law, and the walk is lifted by what that is below zero.

use headrace_model::chance::normal_quantile;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::sync::OnceLock;

/// Utilisation of a cap from which independent arrivals are looked at: below, the chance that 1/64
/// s of tokens is used up is under exp(-2 x 47 x 0.25) at 3,000 IOPS.
pub(crate) const CLUMPS_FROM: f64 = 0.8;
/// After this time, in units of spread / drift^2, a drift upwards outweighs chance: the walk is
/// then a line with some noise (its deviation is the square root of 1 / time, half of it).
const OLD: f64 = 4.0;
/// Walks that are followed: the p99 of runs at the cap differ by some two thirds of their mean.
pub(crate) const WALKS: usize = 64;
/// Looks at each walk in a part of a run (a minute at most), and in all parts together, from which
/// on they become fewer: a p99 wants some hundred looks, a day has them from fewer a minute.
const LOOKS: usize = 64;
const LOOKS_IN_ALL: usize = 640;
const LEAST_LOOKS: usize = 1;
/// A reserve certainly lasts where it exceeds the mean overflow by this number of deviations.
const SURE: f64 = 5.0;

/// Drift and spread of what waits at a cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Tokens a second; never quite zero.
    drift: f64,
    /// Variance of the walk, tokens^2 a second.
    spread: f64,
    /// Tokens of a request.
    cost: f64,
}

impl Walk {
    /// Makes the walk of a demand in tokens a second, `cost` tokens a request, at a cap of `rate`;
    /// `spread`: rate of the requests times the mean square of their tokens.
    pub fn new(need: f64, rate: f64, cost: f64, spread: f64) -> Walk {
        let drift = need - rate;
        // A drift below a hundred-thousandth of the rate makes no difference within hours, and
        // would divide by zero.
        let least = 1e-5 * rate;
        Walk { drift: if drift.abs() >= least { drift } else { least.copysign(drift) }, spread, cost }
    }

    /// Returns the variance of the walk, tokens^2 a second.
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// Returns the tokens a second that exceed a main part of `depth`, if the reserve takes them
    /// away at once: loss of a walk between two walls.
    pub fn overflow(&self, depth: f64) -> f64 {
        self.drift / -libm::expm1(-2.0 * self.drift * depth / self.spread)
    }

    /// Returns the tokens a second that the walk is pushed up by at zero in that case: the bucket
    /// does not need them.
    pub fn unused(&self, depth: f64) -> f64 {
        self.overflow(depth) - self.drift
    }

    /// Returns the variance of that overflow, tokens^2 a second: with f' = 0 at zero and 1 at the
    /// main part, and drift f' + spread f'' / 2 constant, overflow less its mean is the integral of
    /// f' over the noise, so its variance is spread times the mean square of f'.
    pub fn overflow_variance(&self, depth: f64) -> f64 {
        let a = 2.0 * self.drift * depth / self.spread;
        if a.abs() < 1e-2 {
            return self.spread / 3.0;
        }
        // With exp(-|a|), so that no large number overflows.
        let below = libm::exp(-a.abs());
        let share = (1.0 - below * below - 2.0 * a.abs() * below) / ((1.0 - below) * (1.0 - below) * (1.0 - below));
        self.spread * share * if a > 0.0 { 1.0 } else { below }
    }

    /// Returns whether the walk drifts upwards and has done so for long enough that chance no
    /// longer matters.
    pub fn is_a_line(&self, seconds: f64) -> bool {
        self.drift > 0.0 && seconds * self.drift * self.drift / self.spread > OLD
    }
}

/// A walk and its remaining reserve, tokens.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Tokens in the reserve; meaningless once it is used up.
    reserve: f64,
    /// W, tokens, once the reserve is used up.
    waiting: Option<f64>,
    /// The highest W so far, tokens.
    most: f64,
}

/// Requests that wait at a cap, as walks.
#[derive(Clone, Debug)]
pub(crate) struct NearCap {
    paths: Vec<Path>,
    dice: ChaCha8Rng,
}

/// A main part with its reserve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// Tokens that the main part holds.
    pub main: f64,
    /// Tokens that the reserve holds.
    pub reserve: f64,
    /// Share of unused tokens that goes into the reserve.
    pub refill: f64,
}

/// Part of a walk that waits at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub path: usize,
    /// Share of the part's requests of that walk that it stands for.
    pub share: f64,
    /// Tokens that are missing.
    pub tokens: f64,
}

impl Walk {
    /// Returns the tokens a second that a reserve of credits or saved tokens loses, and the
    /// variance of that loss, tokens^2 a second.
    pub fn reserve_loss(&self, parts: Parts) -> (f64, f64) {
        let refill = if parts.reserve > 0.0 { self.unused(parts.main) * parts.refill } else { 0.0 };
        (self.overflow(parts.main) - refill, self.overflow_variance(parts.main))
    }

    /// Returns whether a reserve outlasts some time for certain; `scatter`: its variance so far,
    /// tokens^2.
    pub fn spares(&self, parts: Parts, reserve: f64, scatter: f64, seconds: f64) -> bool {
        let (drain, variance) = self.reserve_loss(parts);
        reserve - (drain * seconds).max(0.0) > SURE * (scatter + variance * seconds).sqrt()
    }
}

impl NearCap {
    /// Starts the walks of a bucket with `level` tokens in both its parts; `scatter`: variance of
    /// that, tokens^2. `episode`: other walks for each.
    pub fn new(parts: Parts, level: f64, scatter: f64, episode: u64) -> NearCap {
        let mut dice = ChaCha8Rng::seed_from_u64(SEED);
        dice.set_stream(episode);
        let reserve = level - parts.main;
        let deviation = scatter.sqrt();
        let path = |k: usize| {
            let reserve = (reserve + deviation * tables().strata[k]).min(parts.reserve);
            let waiting = (reserve <= 0.0).then_some(if level < parts.main { parts.main - level } else { parts.main });
            Path { reserve: reserve.max(0.0), waiting, most: 0.0 }
        };
        NearCap { paths: (0..WALKS).map(path).collect(), dice }
    }

    /// Returns the mean of what the two parts hold, tokens; the main part counts as full.
    pub fn level(&self, parts: Parts) -> f64 {
        parts.main + self.paths.iter().map(|path| if path.waiting.is_some() { 0.0 } else { path.reserve }).sum::<f64>() / WALKS as f64
    }

    /// Returns the mean of the walks' largest excess over the main part so far, tokens.
    pub fn most(&self, walk: &Walk, parts: Parts) -> f64 {
        let depth = (parts.main - walk.cost).max(0.0);
        self.paths.iter().map(|path| (path.most - depth).max(0.0)).sum::<f64>() / WALKS as f64
    }

    /// Returns whether the waiting requests are a backlog by now, which grows by its drift.
    pub fn is_a_line(&self, walk: &Walk, seconds: f64) -> bool {
        let mean = self.paths.iter().filter_map(|path| path.waiting).sum::<f64>() / WALKS as f64;
        walk.drift > 0.0 && (mean + walk.drift * seconds) * walk.drift / walk.spread > OLD
    }

    /// Lets time pass: what exceeds the main part meanwhile goes to `look`.
    pub fn pass(&mut self, walk: &Walk, parts: Parts, seconds: f64, parts_so_far: usize, look: &mut dyn FnMut(Look)) {
        let steps = (LOOKS_IN_ALL / parts_so_far.max(1)).clamp(LEAST_LOOKS, LOOKS);
        let step_s = seconds / steps as f64;
        let (drain, variance) = walk.reserve_loss(parts);
        // Tokens that return to the reserve meanwhile take their part of the clumps.
        let share = (drain / walk.overflow(parts.main)).clamp(0.0, 1.0) / steps as f64;
        // A request needs its own tokens too before it starts.
        let depth = (parts.main - walk.cost).max(0.0);
        let order = Strata::new(&mut self.dice);
        let exponential = &tables().exponential;
        let mut noise = [0.0; LOOKS];
        for (index, path) in self.paths.iter_mut().enumerate() {
            order.bridge(index, &mut self.dice, &mut noise[..steps]);
            for &normal in &noise[..steps] {
                let bits = self.dice.next_u64();
                let mut left_s = step_s;
                if path.waiting.is_none() {
                    let after = path.reserve - drain * step_s + (variance * step_s).sqrt() * normal;
                    let bottom = lowest(path.reserve, after, variance * step_s, exponential[cell(bits)]);
                    if bottom > 0.0 || drain <= 0.0 {
                        path.reserve = after.clamp(0.0, parts.reserve);
                        continue;
                    }
                    // Used up within this step.
                    left_s *= if after < 0.0 { -after / (path.reserve - after) } else { 0.5 };
                    path.waiting = Some(parts.main);
                }
                let Some(before) = path.waiting else { continue };
                let spread = walk.spread * left_s;
                let mut after = before + walk.drift * left_s + spread.sqrt() * normal;
                // The largest exponential of the table decides whether a bridge gets there.
                if crosses(path.most - before, path.most - after, spread) {
                    path.most = path.most.max(-lowest(-before, -after, spread, exponential[cell(bits >> TABLE_BITS)]));
                }
                if crosses(before, after, spread) {
                    after -= lowest(before, after, spread, exponential[cell(bits)]).min(0.0);
                }
                path.waiting = Some(after);
                if after > depth && share > 0.0 {
                    look(Look { path: index, share, tokens: after - depth });
                }
                if drain <= 0.0 && after < parts.main {
                    (path.waiting, path.reserve) = (None, 0.0);
                }
            }
        }
    }
}

/// Computes the lowest point of a Brownian bridge from `from` to `to` of that variance, for an
/// exponential number.
#[inline]
fn lowest(from: f64, to: f64, variance: f64, exponential: f64) -> f64 {
    0.5 * (from + to - ((from - to) * (from - to) + 2.0 * variance * exponential).sqrt())
}

/// Returns whether a bridge between two points may reach a level that far below them: the lowest
/// point is below with the probability exp(-2 x from x to / variance), at which the table ends.
#[inline]
fn crosses(from: f64, to: f64, variance: f64) -> bool {
    from <= 0.0 || to <= 0.0 || 2.0 * from * to < 9.1 * variance
}

/// Any number: the walks are the same in every run.
const SEED: u64 = 1;
/// Random bits by which a draw is looked up: a 64-bit number has five draws.
const TABLE_BITS: u32 = 12;
const DRAWS_OF_A_NUMBER: usize = 5;

/// Normal and exponential numbers, by the lowest bits of a draw.
struct Tables {
    normal: Vec<f64>,
    exponential: Vec<f64>,
    /// Normal numbers, one for each walk, in order: of variance 1.
    strata: [f64; WALKS],
}

/// Returns the tables of normal and exponential numbers, computed once per process.
fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let cells = 1usize << TABLE_BITS;
        let middle = |i: usize| (i as f64 + 0.5) / cells as f64;
        let strata: [f64; WALKS] = core::array::from_fn(|k| normal_quantile((k as f64 + 0.5) / WALKS as f64));
        let variance = strata.iter().map(|z| z * z).sum::<f64>() / WALKS as f64;
        Tables {
            normal: (0..cells).map(|i| normal_quantile(middle(i))).collect(),
            exponential: (0..cells).map(|i| -libm::log(middle(i))).collect(),
            strata: strata.map(|z| z / variance.sqrt()),
        }
    })
}

/// Returns the cell of the lowest bits.
#[inline]
fn cell(bits: u64) -> usize {
    (bits & ((1 << TABLE_BITS) - 1)) as usize
}

/// The strata of the walks in a part of a run: their sums over the part are spread as evenly as
/// can be.
struct Strata([u8; WALKS]);

impl Strata {
    /// Draws a random order of the strata, each of which is used by a single walk.
    fn new(dice: &mut ChaCha8Rng) -> Strata {
        let mut order = [0u8; WALKS];
        for (k, place) in order.iter_mut().enumerate() {
            *place = k as u8;
        }
        for k in (1..WALKS).rev() {
            order.swap(k, (dice.next_u64() % (k as u64 + 1)) as usize);
        }
        Strata(order)
    }

    /// Draws normal numbers whose sum is that of the walk's stratum.
    fn bridge(&self, path: usize, dice: &mut ChaCha8Rng, noise: &mut [f64]) {
        let tables = tables();
        let mut sum = 0.0;
        for places in noise.chunks_mut(DRAWS_OF_A_NUMBER) {
            let mut bits = dice.next_u64();
            for place in places {
                *place = tables.normal[cell(bits)];
                sum += *place;
                bits >>= TABLE_BITS;
            }
        }
        let steps = noise.len() as f64;
        let change = (tables.strata[usize::from(self.0[path])] * steps.sqrt() - sum) / steps;
        noise.iter_mut().for_each(|place| *place += change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::PI;

    /// Hardly a main part and no reserve: all of W is looked at, from zero.
    const BARE: Parts = Parts { main: 1e-3, reserve: 0.0, refill: 0.0 };

    /// Computes W of many walks at the looks of a part that begins after `before` s.
    fn looks(walk: &Walk, before: f64, seconds: f64) -> Vec<f64> {
        let mut tokens = Vec::new();
        for episode in 1..=50 {
            let mut near = NearCap::new(BARE, 0.0, 0.0, episode);
            near.pass(walk, BARE, before, 1, &mut |_| {});
            near.pass(walk, BARE, seconds, 1, &mut |look| tokens.push(look.tokens));
        }
        tokens
    }

    #[test]
    fn walks_grow_like_a_root_and_settle() {
        // Without drift W at time t is the size of a normal number: sqrt(2 spread t / pi) in the
        // mean, sqrt(pi / 2 - 1) = 0.76 of that its deviation: 1.3 % over 50 x 64 walks, three of
        // them here. (1e-5 of the rate is the least drift: it adds 1e-3 at most.)
        let level = Walk::new(3_000.0, 3_000.0, 0.0, 3_000.0);
        let at_end = looks(&level, 300.0, 1e-3);
        let mean = at_end.iter().sum::<f64>() / at_end.len() as f64;
        assert!((mean / (2.0 * 3_000.0 * 300.0 / PI).sqrt() - 1.0).abs() < 0.04, "{mean}");
        // Settled: exponential with mean spread / (2 x drift) = 50; 64 looks over 60 s are some 40
        // independent ones of each walk (they forget in spread / drift^2 = 3 s, half of them before
        // the next), so the mean is known to 0.3 % and the p99 to 2 %.
        let settled = Walk::new(2_970.0, 3_000.0, 0.0, 3_000.0);
        let mut tokens = looks(&settled, 300.0, 60.0);
        tokens.sort_by(f64::total_cmp);
        let mean = tokens.iter().sum::<f64>() / tokens.len() as f64;
        let p99 = tokens[tokens.len() * 99 / 100];
        assert!((mean / 50.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((p99 / (50.0 * 100.0_f64.ln()) - 1.0).abs() < 0.06, "{p99}");
    }

    #[test]
    fn a_reserve_is_taken_by_what_exceeds_the_main_part() {
        // Request by request: what exceeds a main part of 47 tokens in 40 s, 200 times. Requests
        // are a little coarser than a diffusion: a token of 47 is 2 %, and the mean of 200 runs has
        // an error of at most 2 % of itself, the variance one of 10 %, three of them here.
        const RUNS: u32 = 200;
        const SECONDS: f64 = 40.0;
        for need in [2_940.0, 3_000.0, 3_015.0] {
            let walk = Walk::new(need, 3_000.0, 1.0, need);
            let mut dice = ChaCha8Rng::seed_from_u64(3);
            let mut taken = Vec::new();
            for _ in 0..RUNS {
                let (mut waiting, mut now, mut overflow) = (0.0f64, 0.0, 0.0);
                while now < SECONDS {
                    let gap = headrace_model::chance::exponential(&mut dice) / need;
                    now += gap;
                    waiting = (waiting - 3_000.0 * gap).max(0.0) + 1.0;
                    overflow += (waiting - 47.0).max(0.0);
                    waiting = waiting.min(47.0);
                }
                taken.push(overflow);
            }
            let mean = taken.iter().sum::<f64>() / f64::from(RUNS);
            let variance = taken.iter().map(|taken| (taken - mean) * (taken - mean)).sum::<f64>() / f64::from(RUNS - 1);
            assert!((mean / SECONDS / walk.overflow(47.0) - 1.0).abs() < 0.08, "{need}: {mean} for {}", SECONDS * walk.overflow(47.0));
            assert!((variance / SECONDS / walk.overflow_variance(47.0) - 1.0).abs() < 0.3, "{need}: {variance} for {}", SECONDS * walk.overflow_variance(47.0));
        }
        // Without drift a third of the spread.
        assert_eq!(Walk::new(3_000.0, 3_000.0, 1.0, 3_000.0).overflow_variance(47.0), 1_000.0);
    }
}
