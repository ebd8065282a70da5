//! The rates of a volume, and what changes them while it is used: a modification (size, type, IOPS
//! or MiB/s) and degradation events.
//!
//! ```text
//!   modification started    modifying_until            optimizing_until
//!            |   old limits         |     in between           |   new limits
//! ```
//!
//! AWS says that performance while optimizing lies between that of the source and of the target,
//! and never below the source's (or below the target's, when limits are lowered). No measurement is
//! published, so the lower of the two is taken for every limit: the least that is promised. A
//! larger size counts from `modifying_until` on.
//!
//! Degradation events are minutes in which a volume delivers a fraction of the bought performance.
//! Published: gp2 and gp3 promise 90 % of their IOPS 99 % of the time, io1
//! and io2 99.9 %, and nothing is said about the rest; events last 1-10 minutes, and during the
//! severe ones an operation takes 200-500 ms (PlanetScale, "The real fail rate of EBS", 2025).
//! **How often they come is our guess**, so nothing draws them unless asked.

use crate::chance::{lognormal_mean, normal, open_unit};
use crate::io::Nanos;
use headrace_catalog::{ReadLimits, VolumeLimits};
use rand_core::RngCore;
use serde::{Deserialize, Serialize};

/// The rates of a volume that its limiters follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// IOPS cap while credits last (or always, without credits); `None` for HDD types, which are
    /// capped in bytes only.
    pub iops: Option<u64>,
    /// Byte cap while credits last, bytes/s.
    pub bytes_s: u64,
    /// Refill of the credit balance, I/Os or bytes a second.
    pub credit_refill: Option<u64>,
    /// Caps of reads, where they have their own; those above are then of writes alone.
    pub reads: Option<ReadLimits>,
}

impl Rates {
    /// Returns the rates a volume of these limits has when nothing is wrong.
    pub fn of(limits: &VolumeLimits) -> Rates {
        let burst = limits.io_burst.as_ref();
        Rates {
            iops: (!limits.random_charges_full_unit).then(|| burst.map_or(limits.iops, |b| b.iops)),
            bytes_s: limits.throughput_bytes_s,
            credit_refill: burst.map(|_| limits.iops).or(limits.byte_burst.as_ref().map(|b| b.baseline_bytes_s)),
            reads: limits.reads,
        }
    }

    /// Returns the lower rates of two volumes, which EC2 promises while optimizing.
    pub fn lower(self, other: Rates) -> Rates {
        Rates {
            iops: self.iops.zip(other.iops).map(|(a, b)| a.min(b)).or(self.iops),
            bytes_s: self.bytes_s.min(other.bytes_s),
            credit_refill: self.credit_refill.map(|a| other.credit_refill.map_or(a, |b| b.min(a))),
            reads: self
                .reads
                .zip(other.reads)
                .map(|(a, b)| ReadLimits { iops: a.iops.min(b.iops), throughput_bytes_s: a.throughput_bytes_s.min(b.throughput_bytes_s) }),
        }
    }

    /// Returns the caps in thousandths: what a degradation event leaves, or what Xen hosts were
    /// measured to deliver. The refill of credits stays.
    pub fn scaled(self, per_mille: u64) -> Rates {
        let scale = |rate: u64| (rate * per_mille / 1_000).max(1);
        Rates { iops: self.iops.map(scale), bytes_s: scale(self.bytes_s), credit_refill: self.credit_refill, reads: self.reads.map(|reads| reads.map(scale)) }
    }
}

/// Returns the duration of optimizing, guessed around reports of 6-24 h per TiB: 6 h and 12 h per
/// TiB in use.
pub fn default_optimizing(used_gib: u64) -> Nanos {
    Nanos::from_secs(6 * 3_600 + 12 * 3_600 * used_gib / 1_024)
}

/// Seconds spent in `modifying`; "seconds to a minute" in AWS's words.
pub const DEFAULT_MODIFYING: Nanos = Nanos::from_secs(30);

/// Phase of a modification, with AWS's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModificationPhase {
    /// The modification is accepted, and the old limits hold.
    Modifying,
    /// Data is being moved, limits in between.
    Optimizing,
    /// New limits.
    Completed,
}

/// A change from the volume's present limits to `target`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeModification {
    /// Limits afterwards.
    pub target: VolumeLimits,
    /// End of `modifying`.
    pub modifying_until: Nanos,
    /// End of `optimizing`.
    pub optimizing_until: Nanos,
}

impl VolumeModification {
    /// Returns the phase at `now`.
    pub fn state(&self, now: Nanos) -> ModificationPhase {
        if now < self.modifying_until {
            ModificationPhase::Modifying
        } else if now < self.optimizing_until {
            ModificationPhase::Optimizing
        } else {
            ModificationPhase::Completed
        }
    }

    /// Returns the next change of state after `now`.
    pub fn next_change(&self, now: Nanos) -> Option<Nanos> {
        [self.modifying_until, self.optimizing_until].into_iter().find(|&at| at > now)
    }
}

/// One event of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Degradation {
    /// First moment.
    pub from: Nanos,
    /// First moment after it.
    pub until: Nanos,
    /// Share of the caps that remains, in thousandths (1-1000).
    pub caps_per_mille: u64,
    /// Latency added to every request, ns.
    pub extra_latency: Nanos,
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
    let mean_length_s = lognormal_mean(LENGTH_MEDIAN_S, LENGTH_SIGMA);
    let mean_gap_s = mean_length_s * (1.0 - share) / share;
    let mut at = Nanos::ZERO;
    loop {
        let gap = -libm::log(open_unit(rng.next_u64())) * mean_gap_s;
        at += Nanos::from_secs_f64(gap);
        if at >= horizon {
            return events;
        }
        let until = at + Nanos::from_secs_f64(LENGTH_MEDIAN_S * libm::exp(LENGTH_SIGMA * normal(rng)));
        // Uniform from 1 % to 89 % left; in the worst third every operation also takes 200-500 ms.
        let per_mille = 10 + (open_unit(rng.next_u64()) * 880.0) as u64;
        let extra = if per_mille < 303 { Nanos::from_micros(200_000 + (open_unit(rng.next_u64()) * 300_000.0) as u64) } else { Nanos::ZERO };
        events.push(Degradation { from: at, until, caps_per_mille: per_mille, extra_latency: extra });
        at = until;
    }
}
