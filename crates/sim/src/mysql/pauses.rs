//! Pauses of MariaDB with a small pool, in which nothing reaches the device.

use serde::Serialize;

/// One of 0.31 s (0.12 to 0.48) in 2,000 transactions: 19 in 39,000 (10.11.19, a pool of 64 MiB, 21
/// runs of seven proofs on the lab, 2026-11-28).
const PAUSE_S: f64 = 0.31;
const TX_PER_PAUSE: f64 = 2_000.0;
/// From this pool on they were not seen, GiB (docs/semantics.md).
const PAUSES_BELOW_GIB: f64 = 0.5;

/// Share of a run that pauses take, beyond those of its calibration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pauses {
    /// Share of its time.
    pub lost_share: f64,
    /// Relative standard deviation that their chance gives its mean.
    pub spread: f64,
}

/// Returns the pauses of a run of `seconds` at `tps` in a pool of `pool_gib`: they come by chance,
/// with the transactions. A run at `calibrated_tps` has its own in its mean.
pub fn pauses(pool_gib: f64, tps: f64, calibrated_tps: f64, seconds: f64) -> Pauses {
    if pool_gib >= PAUSES_BELOW_GIB || tps <= 0.0 {
        return Pauses::default();
    }
    Pauses { lost_share: (tps - calibrated_tps) * PAUSE_S / TX_PER_PAUSE, spread: PAUSE_S * (tps * seconds / TX_PER_PAUSE).sqrt() / seconds }
}
