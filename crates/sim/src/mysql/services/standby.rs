//! Adds the waits for RDS's standbys to the writes of a server.

use super::quorum::{AZ_RTT_HIGH_MS, AZ_RTT_LOW_MS};
use crate::mysql::interval::Path;
use headrace_catalog::Deployment;

/// Returns the waits of writes and commits of a deployment beyond the server's own volume, whose
/// log writes take `write_ms`.
///
/// Multi-AZ: the standby's volume gets every write after the server's own, and answers from another
/// zone: one round trip and one write in series. (RDS names higher write and commit latency and no
/// figure; writes to both at once would take less.)
///
/// Multi-AZ cluster: a commit waits until one of two readers has its events: the shorter of two
/// round trips, the write of the relay log included.
pub(super) fn path(deployment: Deployment, write_ms: f64) -> Path {
    let (low, high) = (AZ_RTT_LOW_MS, AZ_RTT_HIGH_MS);
    match deployment {
        Deployment::RdsMultiAz => Path { write_ms: 0.5 * (low + high) + write_ms, commit_ms: 0.0 },
        // The mean of the smaller of two uniform draws lies a third into their range.
        Deployment::RdsCluster => Path { write_ms: 0.0, commit_ms: low + (high - low) / 3.0 + write_ms },
        _ => Path::default(),
    }
}
