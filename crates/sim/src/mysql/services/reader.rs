//! A reader of an Aurora cluster: it shares the storage, gets the log as a stream, applies records
//! to pages that it has cached, and drops the rest. It is never ahead of what the quorum has.

use super::aurora::AuroraStorage;
use super::quorum::QuorumLatency;
use serde::Serialize;

/// Load on a reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReaderLoad {
    /// Redo of the writer, bytes a second.
    pub redo_bytes_s: f64,
    /// Share of changed pages that the reader has cached.
    pub cached_share: f64,
    /// Virtual processors of the reader.
    pub vcpus: u32,
}

/// Lag of a reader, and its processors' share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReaderLag {
    /// Mean lag, ms; none: it does not keep up, and restarts.
    pub mean_ms: Option<f64>,
    /// 99.9th percentile of the lag, ms: about the highest of a quarter of an hour's samples.
    pub highest_ms: Option<f64>,
    /// Share of all its processors that applying takes.
    pub cpu_share: f64,
}

impl AuroraStorage {
    /// Returns the lag of a reader and the share of its processors. Records are applied in order,
    /// so that one processor's worth of work is the most; lag grows with the share of it that is
    /// used.
    pub fn reader_lag(&self, quorum: &QuorumLatency, load: &ReaderLoad) -> ReaderLag {
        let applied_mb_s = load.redo_bytes_s / 1e6 * load.cached_share.clamp(0.0, 1.0);
        let busy = applied_mb_s * self.apply_ms_per_mb / 1e3;
        let cpu_share = busy.min(1.0) / f64::from(load.vcpus.max(1));
        if busy >= 1.0 {
            return ReaderLag { mean_ms: None, highest_ms: None, cpu_share };
        }
        let apply_ms = self.lag_ms_per_mb_s * applied_mb_s / (1.0 - busy);
        let lag_ms = |quorum_ms: f64| Some(quorum_ms + self.stream_ms + apply_ms);
        // The tail: a slow quorum, and a burst that doubles what is applied (guess).
        ReaderLag { mean_ms: lag_ms(quorum.mean_ms), highest_ms: lag_ms(quorum.p999_ms).map(|ms| ms + apply_ms), cpu_share }
    }
}
