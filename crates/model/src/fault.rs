//! Degradation events: minutes in which a volume delivers a fraction of what was bought.
//!
//! Published shape (ebs_behaviour notes c): gp2 and gp3 promise 90 % of their IOPS 99 % of the time, io1 and io2 99.9 %, and say nothing about the rest;
//! events last 1-10 minutes, during the severe ones an operation takes 200-500 ms (PlanetScale, "The real fail rate of EBS", 2025). **How often they come is our
//! guess**, so nothing draws them unless asked.

use crate::time::Nanos;
use headrace_catalog::VolumeType;
use rand_core::RngCore;
use serde::{Deserialize, Serialize};

/// One event of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Degradation {
    /// First moment.
    pub from: Nanos,
    /// First moment after it.
    pub until: Nanos,
    /// Share of the caps that is left, in thousandths (1-1000).
    pub caps_per_mille: u64,
    /// Added to every request, ns.
    pub extra_latency: Nanos,
}

/// The share of time a volume of this type spends in events: a fifth of what its design point allows (guess).
pub fn default_degraded_share(volume_type: VolumeType) -> f64 {
    match volume_type {
        VolumeType::Io1 | VolumeType::Io2 | VolumeType::Io2BlockExpress => 0.0002,
        VolumeType::InstanceStore => 0.0,
        _ => 0.002,
    }
}

/// Median length of an event, s, and its lognormal sigma: 1-10 minutes.
const LENGTH_MEDIAN_S: f64 = 180.0;
const LENGTH_SIGMA: f64 = 0.7;

/// Draws the events of `horizon` for a volume that spends `share` of its time in them.
pub fn draw_degradations(rng: &mut impl RngCore, share: f64, horizon: Nanos) -> Vec<Degradation> {
    let mut events = Vec::new();
    if share <= 0.0 {
        return events;
    }
    let mean_length_s = LENGTH_MEDIAN_S * libm::exp(LENGTH_SIGMA * LENGTH_SIGMA / 2.0);
    let mean_gap_s = mean_length_s * (1.0 - share) / share;
    let mut at = Nanos::ZERO;
    loop {
        let gap = -libm::log(unit(rng)) * mean_gap_s;
        at += seconds(gap);
        if at >= horizon {
            return events;
        }
        let until = at + seconds(LENGTH_MEDIAN_S * libm::exp(LENGTH_SIGMA * normal(rng)));
        // Uniform from 1 % to 89 % left; in the worst third every operation also takes 200-500 ms.
        let left = 10 + (unit(rng) * 880.0) as u64;
        let extra = if left < 303 { Nanos::from_micros(200_000 + (unit(rng) * 300_000.0) as u64) } else { Nanos::ZERO };
        events.push(Degradation { from: at, until, caps_per_mille: left, extra_latency: extra });
        at = until;
    }
}

fn seconds(s: f64) -> Nanos {
    Nanos((s * 1e9) as u64)
}

fn unit(rng: &mut impl RngCore) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
}

fn normal(rng: &mut impl RngCore) -> f64 {
    // Box and Muller; one of the pair is thrown away, events are rare.
    libm::sqrt(-2.0 * libm::log(unit(rng))) * libm::cos(core::f64::consts::TAU * unit(rng))
}
