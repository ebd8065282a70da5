//! A modification in progress: size, type, IOPS or MiB/s change while the volume is in use.
//!
//! ```text
//!   started            modifying_until            optimizing_until
//!      |   old limits         |     between            |   new limits
//! ```
//!
//! AWS: while optimizing, performance is between source and target, never below the source's (or, when lowering, the target's). No measurement of
//! it was found, so the lower of the two is taken for every limit: the least that is promised. A larger size counts from `modifying_until` on.

use crate::time::Nanos;
use headrace_catalog::VolumeLimits;
use serde::{Deserialize, Serialize};

/// How long optimizing takes, guessed around reports of 6-24 h per TiB: 6 h and 12 h per TiB in use.
pub fn default_optimizing(used_gib: u64) -> Nanos {
    Nanos::from_secs(6 * 3_600 + 12 * 3_600 * used_gib / 1_024)
}

/// Seconds spent in `modifying`; "seconds to a minute" in AWS's words.
pub const DEFAULT_MODIFYING: Nanos = Nanos::from_secs(30);

/// Where a modification stands; the names AWS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModificationState {
    /// Accepted, old limits.
    Modifying,
    /// Data is being moved, limits in between.
    Optimizing,
    /// New limits.
    Completed,
}

/// A change from the volume's present limits to `target`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modification {
    /// Limits afterwards.
    pub target: VolumeLimits,
    /// When `modifying` ends.
    pub modifying_until: Nanos,
    /// When `optimizing` ends.
    pub optimizing_until: Nanos,
}

impl Modification {
    /// State at `now`.
    pub fn state(&self, now: Nanos) -> ModificationState {
        if now < self.modifying_until {
            ModificationState::Modifying
        } else if now < self.optimizing_until {
            ModificationState::Optimizing
        } else {
            ModificationState::Completed
        }
    }

    /// The next change of state after `now`.
    pub fn next_change(&self, now: Nanos) -> Option<Nanos> {
        [self.modifying_until, self.optimizing_until].into_iter().find(|&at| at > now)
    }
}

/// The rates of a volume that its limiters follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// IOPS cap while credits last (or always, without credits); `None` for HDD types, which are capped in bytes only.
    pub iops: Option<u64>,
    /// Byte cap while credits last, bytes/s.
    pub bytes_s: u64,
    /// Refill of the credit balance, I/Os or bytes a second.
    pub credit_refill: Option<u64>,
}

impl Rates {
    /// The rates a volume of these limits has when nothing is wrong.
    pub fn of(limits: &VolumeLimits) -> Rates {
        let burst = limits.io_burst.as_ref();
        Rates {
            iops: (!limits.random_charges_full_unit).then(|| burst.map_or(limits.iops, |b| b.iops)),
            bytes_s: limits.throughput_bytes_s,
            credit_refill: burst.map(|_| limits.iops).or(limits.byte_burst.as_ref().map(|b| b.baseline_bytes_s)),
        }
    }

    /// The lower of two in everything: what is promised while optimizing.
    pub fn lower(self, other: Rates) -> Rates {
        Rates {
            iops: self.iops.zip(other.iops).map(|(a, b)| a.min(b)).or(self.iops),
            bytes_s: self.bytes_s.min(other.bytes_s),
            credit_refill: self.credit_refill.map(|mine| other.credit_refill.map_or(mine, |theirs| theirs.min(mine))),
        }
    }

    /// The caps in thousandths: what a degradation event leaves, or what Xen hosts were measured to deliver. Credits refill as ever.
    pub fn scaled(self, per_mille: u64) -> Rates {
        let scale = |rate: u64| (rate * per_mille / 1_000).max(1);
        Rates { iops: self.iops.map(scale), bytes_s: scale(self.bytes_s), credit_refill: self.credit_refill }
    }
}
