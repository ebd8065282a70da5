//! First touch: a volume made from a snapshot loads each block when it is first used.
//!
//! Measured: about 30 ms for a first access; 17 MiB/s when read through at low depth; never-written
//! blocks cost nothing (ldoughty.com 2018). Chunk size and the share of very
//! slow ones are guesses. A provisioned initialization rate (100-300 MiB/s) bounds the whole
//! volume; without one the service's own bound is not published and 100 MiB/s is assumed.

use crate::bucket::{Bucket, BucketState};
use crate::chance::{open_unit, quick_normal_quantile};
use crate::io::{Io, Nanos};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes fetched at once (guess).
pub const CHUNK_BYTES: u64 = 512 * 1024;
/// Median of a fetch, ns (measured: see the module's header), and its lognormal sigma (guess).
pub const FETCH_MEDIAN_NS: f64 = 30e6;
const FETCH_SIGMA: f64 = 0.5;
/// Mean of a fetch, ns: median x exp(sigma^2 / 2).
pub const FETCH_MEAN_NS: f64 = FETCH_MEDIAN_NS * 1.133_148_453;
/// Bound of the fetches when no initialization rate is bought, bytes/s (guess).
pub const DEFAULT_FETCH_BYTES_S: u64 = 100 << 20;

/// Part of a volume that still lies in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotOrigin {
    /// Written bytes of the snapshot: they are taken to be the first ones of the volume.
    pub written_bytes: u64,
    /// Provisioned initialization rate, bytes/s; None if blocks load on demand only.
    pub initialization_bytes_s: Option<u64>,
}

/// Chunks that have not been fetched, and the rate at which they can be.
#[derive(Clone, Debug)]
pub struct FirstTouch {
    // Shared with the copies that are saved: a saved one is dropped long before the next change.
    cold: Arc<Vec<u64>>,
    cold_chunks: u64,
    chunks: u64,
    fetches: Bucket,
    // A bought rate also loads the volume from its start on, touched or not.
    background: Option<(u64, u64)>,
    // For a map of chunks only: the number of chunks that are cold at the start, and the chunk from
    // which the background goes on.
    mapped: Option<(u64, u64)>,
    // Moment at which the background began.
    since: Nanos,
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
    #[serde(default)]
    mapped: Option<(u64, u64)>,
    #[serde(default)]
    since: Nanos,
}

impl From<&FirstTouch> for SavedTouch {
    fn from(touch: &FirstTouch) -> SavedTouch {
        SavedTouch {
            cold: touch.cold.to_vec(),
            cold_chunks: touch.cold_chunks,
            chunks: touch.chunks,
            fetch_bytes_s: touch.fetches.rate(),
            fetches: touch.fetches.state(),
            background: touch.background,
            mapped: touch.mapped,
            since: touch.since,
        }
    }
}

impl From<&SavedTouch> for FirstTouch {
    fn from(saved: &SavedTouch) -> FirstTouch {
        let mut fetches = Bucket::cap(saved.fetch_bytes_s, false);
        fetches.restore(&saved.fetches);
        FirstTouch {
            cold: Arc::new(saved.cold.clone()),
            cold_chunks: saved.cold_chunks,
            chunks: saved.chunks,
            fetches,
            background: saved.background,
            mapped: saved.mapped,
            since: saved.since,
        }
    }
}

impl FirstTouch {
    /// Makes a volume fresh from a snapshot.
    pub fn new(origin: &SnapshotOrigin) -> FirstTouch {
        let chunks = origin.written_bytes.div_ceil(CHUNK_BYTES);
        let rate = origin.initialization_bytes_s.unwrap_or(DEFAULT_FETCH_BYTES_S);
        let words = chunks.div_ceil(64);
        let mut cold = vec![u64::MAX; words as usize];
        if let (Some(last), 1..) = (cold.last_mut(), chunks % 64) {
            *last = (1 << (chunks % 64)) - 1;
        }
        FirstTouch {
            cold: Arc::new(cold),
            cold_chunks: chunks,
            chunks,
            fetches: Bucket::cap(rate, false),
            background: origin.initialization_bytes_s.map(|r| (r, 0)),
            mapped: None,
            since: Nanos::ZERO,
        }
    }

    /// Makes a volume of which these chunks are still to be loaded at `since`: a bit for each
    /// chunk, the lowest of each word first.
    pub fn of_chunks(cold: Vec<u64>, initialization_bytes_s: Option<u64>, since: Nanos) -> FirstTouch {
        let cold_chunks = cold.iter().map(|word| u64::from(word.count_ones())).sum();
        let mut fetches = Bucket::cap(initialization_bytes_s.unwrap_or(DEFAULT_FETCH_BYTES_S), false);
        fetches.advance(since);
        FirstTouch {
            chunks: cold.len() as u64 * 64,
            cold: Arc::new(cold),
            cold_chunks,
            fetches,
            background: initialization_bytes_s.map(|rate| (rate, 0)),
            mapped: Some((cold_chunks, 0)),
            since,
        }
    }

    /// Returns the share of the chunks ([`CHUNK_BYTES`] each) that lay in the snapshot at the start
    /// and still do, 0-1; 0 if there were none.
    pub fn cold_share(&self) -> f64 {
        match self.mapped.map_or(self.chunks, |(start_chunks, _)| start_chunks) {
            0 => 0.0,
            start_chunks => self.cold_chunks as f64 / start_chunks as f64,
        }
    }

    /// Marks a chunk as loaded; returns whether it was cold.
    fn warm(&mut self, chunk: u64) -> bool {
        let (word, bit) = ((chunk / 64) as usize, 1u64 << (chunk % 64));
        if self.cold[word] & bit == 0 {
            return false;
        }
        Arc::make_mut(&mut self.cold)[word] &= !bit;
        self.cold_chunks -= 1;
        true
    }

    /// Loads the chunks that the background has reached at `now`.
    fn advance(&mut self, now: Nanos) {
        let Some((rate, done)) = self.background else { return };
        let loaded = (u128::from(rate) * u128::from(now.since(self.since).0) / 1_000_000_000) as u64 / CHUNK_BYTES;
        let Some((all, from)) = self.mapped else {
            let reached = loaded.min(self.chunks);
            for chunk in done..reached {
                self.warm(chunk);
            }
            self.background = Some((rate, reached.max(done)));
            return;
        };
        // The loader goes over the chunks in order and leaves out those that a touch has loaded.
        let mut at = from;
        for _ in done..loaded {
            let Some(chunk) = self.next_cold(at) else { break };
            self.warm(chunk);
            at = chunk + 1;
        }
        (self.background, self.mapped) = (Some((rate, loaded.max(done))), Some((all, at)));
    }

    /// Returns the first cold chunk from `from` on.
    fn next_cold(&self, from: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        let after = |index: usize, word: u64| if index == first { word & (u64::MAX << (from % 64)) } else { word };
        let mut words = self.cold.iter().enumerate().skip(first).map(|(index, &word)| (index, after(index, word)));
        words.find(|(_, word)| *word != 0).map(|(index, word)| index as u64 * 64 + u64::from(word.trailing_zeros()))
    }

    /// Returns the time at which the chunks that `io` touches are there, if it starts at `start`;
    /// `start` itself when they are already.
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

/// Returns the latency of a fetch for a uniform number: lognormal, with the median and sigma of
/// this file. The approximation of the quantile errs far less than the measurements of the
/// distribution.
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
    fn only_the_chunks_of_a_map_are_cold() {
        let since = Nanos::from_secs(1_000);
        let mut touch = FirstTouch::of_chunks(vec![0b1010, 0, 1], None, since);
        let io = |chunk: u64| Io { op: Op::Write, offset: chunk * CHUNK_BYTES + 4_096, bytes: 4_096 };
        let middle = u64::MAX / 2;
        for (chunk, cold) in [(0, false), (1, true), (1, false), (2, false), (3, true), (64, false), (128, true), (191, false), (192, false)] {
            assert_eq!(touch.ready(since, &io(chunk), middle) > since, cold, "chunk {chunk}");
        }
        assert_eq!(touch.cold_share(), 0.0);
    }

    #[test]
    fn the_background_goes_over_a_map_in_order_and_is_saved_where_it_is() {
        let since = Nanos::from_secs(50);
        // Every fourth chunk of 640: 160 chunks of 512 KiB are 80 MiB.
        let mut touch = FirstTouch::of_chunks(vec![0x1111_1111_1111_1111; 10], Some(100 << 20), since);
        touch.advance(since + Nanos::from_micros(400_000));
        // 40 MiB are 80 chunks: the first half of the map.
        assert_eq!(touch.cold_chunks, 80);
        assert!(touch.cold[..5].iter().all(|&word| word == 0) && touch.cold[5..].iter().all(|&word| word != 0));
        let saved = SavedTouch::from(&touch);
        let mut again = FirstTouch::from(&saved);
        for touch in [&mut touch, &mut again] {
            touch.advance(since + Nanos::from_micros(600_000));
            assert_eq!(touch.cold_chunks, 40);
            touch.advance(since + Nanos::from_secs(1));
            assert_eq!(touch.cold_chunks, 0);
        }
    }

    #[test]
    fn a_touch_saved_by_an_earlier_version_is_read() {
        let touch = FirstTouch::new(&SnapshotOrigin { written_bytes: 1 << 30, initialization_bytes_s: Some(100 << 20) });
        let mut json = serde_json::to_value(SavedTouch::from(&touch)).unwrap();
        json.as_object_mut().unwrap().retain(|key, _| key != "mapped" && key != "since");
        let read: SavedTouch = serde_json::from_value(json).unwrap();
        assert_eq!(read, SavedTouch::from(&touch));
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
