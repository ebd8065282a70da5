//! Computes the latency of a write that four of six copies must have.
//!
//! ```text
//!   server's zone   copy 1, copy 2     network within a zone + storage node
//!   second zone     copy 3, copy 4     round trip between zones + storage node
//!   third zone      copy 5, copy 6     round trip between zones + storage node
//! ```
//! The fourth answer decides, so one slow node or one lost zone does not: with all three zones up
//! two answers of other zones are needed, out of four.

use headrace_model::chance::{normal, unit};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// Round trip within a zone, ms. Guess.
pub const ZONE_RTT_MS: f64 = 0.15;
/// Round trip between two zones of a region, ms: uniform in between. Commonly stated; AWS says
/// single-digit milliseconds. Guess.
pub const AZ_RTT_LOW_MS: f64 = 0.5;
/// See [`AZ_RTT_LOW_MS`].
pub const AZ_RTT_HIGH_MS: f64 = 1.0;
/// Batches drawn for a distribution: its 99.9th percentile then stands on 16 of them.
const DRAWS: usize = 16_384;

/// The copies and what each takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// Copies in each zone, the server's first.
    pub copies: [u32; 3],
    /// Answers that are needed.
    pub needed: usize,
    /// Round trip within a zone, ms. Guess.
    pub zone_rtt_ms: f64,
    /// Median of a storage node's own time (queue it, write it to its SSD), ms. Guess.
    pub node_ms: f64,
    /// Lognormal sigma of it. Guess.
    pub node_sigma: f64,
    /// Probability that a node is slow for a batch. Guess.
    pub slow_share: f64,
    /// Median time of a slow node, ms. Guess.
    pub slow_ms: f64,
}

impl Default for Quorum {
    fn default() -> Quorum {
        Quorum { copies: [2, 2, 2], needed: 4, zone_rtt_ms: ZONE_RTT_MS, node_ms: 0.35, node_sigma: 0.5, slow_share: 0.01, slow_ms: 20.0 }
    }
}

/// Latency of a quorum write, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuorumLatency {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
}

impl Quorum {
    /// Draws a batch: returns when the last answer that is needed has come, ms.
    pub fn draw(&self, chance: &mut ChaCha8Rng) -> f64 {
        let mut answers = Vec::with_capacity(8);
        for (zone, copies) in self.copies.iter().enumerate() {
            let rtt = if zone == 0 { self.zone_rtt_ms } else { AZ_RTT_LOW_MS + (AZ_RTT_HIGH_MS - AZ_RTT_LOW_MS) * unit(chance) };
            for _ in 0..*copies {
                let median = if unit(chance) < self.slow_share { self.slow_ms } else { self.node_ms };
                answers.push(rtt + median * libm::exp(self.node_sigma * normal(chance)));
            }
        }
        answers.sort_by(f64::total_cmp);
        answers.get(self.needed.max(1) - 1).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the distribution, from draws of one seed: the same every time.
    pub fn latency(&self) -> QuorumLatency {
        let mut chance = ChaCha8Rng::seed_from_u64(6);
        let mut draws: Vec<f64> = (0..DRAWS).map(|_| self.draw(&mut chance)).collect();
        draws.sort_by(f64::total_cmp);
        let at = |share: f64| draws[((share * DRAWS as f64) as usize).min(DRAWS - 1)];
        QuorumLatency { mean_ms: draws.iter().sum::<f64>() / DRAWS as f64, p50_ms: at(0.5), p95_ms: at(0.95), p999_ms: at(0.999) }
    }
}
