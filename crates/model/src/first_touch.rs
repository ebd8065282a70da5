//! First touch: a volume made from a snapshot loads each block when it is first used.
//!
//! Measured: about 30 ms for a first access; 17 MiB/s when read through at low depth; never-written
//! blocks cost nothing (ldoughty.com 2018; ebs_behaviour notes d). Chunk size and the share of very
//! slow ones are guesses. A provisioned initialization rate (100-300 MiB/s) bounds the whole
//! volume; without one the service's own bound is not published and 100 MiB/s is assumed.

use crate::bucket::{Bucket, BucketState};
use crate::chance::{open_unit, quick_normal_quantile};
use crate::io::{Io, Nanos};
use serde::{Deserialize, Serialize};

/// Bytes fetched at once (guess).
pub const CHUNK_BYTES: u64 = 512 * 1024;
/// Median of a fetch, ns (measured: see the module's header), and its lognormal sigma (guess).
pub const FETCH_MEDIAN_NS: f64 = 30e6;
const FETCH_SIGMA: f64 = 0.5;
/// Mean of a fetch, ns: median x exp(sigma^2 / 2).
pub const FETCH_MEAN_NS: f64 = FETCH_MEDIAN_NS * 1.133_148_453;
/// Bound of the fetches when no initialization rate is bought, bytes/s (guess).
pub const DEFAULT_FETCH_BYTES_S: u64 = 100 << 20;

/// What of a volume still lies in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotOrigin {
    /// Written bytes of the snapshot: they are taken to be the first ones of the volume.
    pub written_bytes: u64,
    /// Provisioned initialization rate, bytes/s; none: on demand only.
    pub initialization_bytes_s: Option<u64>,
}

/// Which chunks have not been fetched, and how fast they can be.
#[derive(Clone, Debug)]
pub struct FirstTouch {
    cold: Vec<u64>,
    cold_chunks: u64,
    chunks: u64,
    fetches: Bucket,
    // A bought rate also loads the volume from its start on, touched or not.
    background: Option<(u64, u64)>,
}

/// A [`FirstTouch`] at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedTouch {
    cold: Vec<u64>,
    cold_chunks: u64,
    chunks: u64,
    fetch_bytes_s: u64,
    fetches: BucketState,
    background: Option<(u64, u64)>,
}

impl From<&FirstTouch> for SavedTouch {
    fn from(touch: &FirstTouch) -> SavedTouch {
        SavedTouch {
            cold: touch.cold.clone(),
            cold_chunks: touch.cold_chunks,
            chunks: touch.chunks,
            fetch_bytes_s: touch.fetches.rate(),
            fetches: touch.fetches.state(),
            background: touch.background,
        }
    }
}

impl From<&SavedTouch> for FirstTouch {
    fn from(saved: &SavedTouch) -> FirstTouch {
        let mut fetches = Bucket::cap(saved.fetch_bytes_s, false);
        fetches.restore(&saved.fetches);
        FirstTouch { cold: saved.cold.clone(), cold_chunks: saved.cold_chunks, chunks: saved.chunks, fetches, background: saved.background }
    }
}

impl FirstTouch {
    /// A volume fresh from a snapshot.
    pub fn new(origin: &SnapshotOrigin) -> FirstTouch {
        let chunks = origin.written_bytes.div_ceil(CHUNK_BYTES);
        let rate = origin.initialization_bytes_s.unwrap_or(DEFAULT_FETCH_BYTES_S);
        let words = chunks.div_ceil(64);
        let mut cold = vec![u64::MAX; words as usize];
        if let (Some(last), 1..) = (cold.last_mut(), chunks % 64) {
            *last = (1 << (chunks % 64)) - 1;
        }
        FirstTouch { cold, cold_chunks: chunks, chunks, fetches: Bucket::cap(rate, false), background: origin.initialization_bytes_s.map(|r| (r, 0)) }
    }

    /// Share of the snapshot that is still cold.
    pub fn cold_share(&self) -> f64 {
        if self.chunks == 0 {
            return 0.0;
        }
        self.cold_chunks as f64 / self.chunks as f64
    }

    fn warm(&mut self, chunk: u64) -> bool {
        let (word, bit) = ((chunk / 64) as usize, 1u64 << (chunk % 64));
        let was_cold = self.cold[word] & bit != 0;
        self.cold[word] &= !bit;
        self.cold_chunks -= u64::from(was_cold);
        was_cold
    }

    fn advance(&mut self, now: Nanos) {
        let Some((rate, done)) = self.background else { return };
        let reached = ((u128::from(rate) * u128::from(now.0) / 1_000_000_000) as u64 / CHUNK_BYTES).min(self.chunks);
        for chunk in done..reached {
            self.warm(chunk);
        }
        self.background = Some((rate, reached.max(done)));
    }

    /// When the chunks that `io` touches are there, if it starts at `start`; `start` itself when
    /// they are already.
    pub fn ready(&mut self, start: Nanos, io: &Io, uniform: u64) -> Nanos {
        if self.cold_chunks == 0 {
            return start;
        }
        self.advance(start);
        let first = io.offset / CHUNK_BYTES;
        let last = (io.offset + u64::from(io.bytes).max(1) - 1) / CHUNK_BYTES;
        let mut ready = start;
        for chunk in first..(last + 1).min(self.chunks) {
            if self.warm(chunk) {
                let fetched = self.fetches.earliest(start, CHUNK_BYTES);
                self.fetches.take(fetched, CHUNK_BYTES);
                ready = ready.max(fetched + fetch_latency(uniform));
            }
        }
        ready
    }
}

/// A lognormal draw with this median and sigma. The approximation of the quantile errs far less
/// than what is known of the distribution.
fn fetch_latency(uniform: u64) -> Nanos {
    let z = quick_normal_quantile(open_unit(uniform));
    Nanos((FETCH_MEDIAN_NS * libm::exp(FETCH_SIGMA * z)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Op;

    #[test]
    fn a_chunk_is_fetched_once_and_empty_ones_never() {
        let mut touch = FirstTouch::new(&SnapshotOrigin { written_bytes: 10 * CHUNK_BYTES, initialization_bytes_s: None });
        let io = |chunk: u64| Io { op: Op::Read, offset: chunk * CHUNK_BYTES, bytes: 16_384 };
        let middle = u64::MAX / 2;
        let first = touch.ready(Nanos::ZERO, &io(3), middle);
        assert!((25e6..35e6).contains(&(first.0 as f64)), "{first:?}");
        assert_eq!(touch.ready(first, &io(3), middle), first);
        assert_eq!(touch.ready(first, &io(10), middle), first, "beyond the snapshot");
        assert_eq!(touch.cold_share(), 0.9);
    }

    #[test]
    fn a_bought_rate_loads_the_rest_by_itself() {
        let mut touch = FirstTouch::new(&SnapshotOrigin { written_bytes: 1 << 30, initialization_bytes_s: Some(100 << 20) });
        touch.advance(Nanos::from_secs(5));
        // 500 of 1,024 MiB.
        assert_eq!(touch.cold_chunks, 2_048 - 1_000);
        touch.advance(Nanos::from_secs(11));
        assert_eq!(touch.cold_chunks, 0);
    }
}
