//! Which parts of a sparse file were ever written, so that reads of the rest need not ask the
//! kernel.
//!
//! A bit for each MiB, set before the first write into it and never taken back while the file is
//! open: what was discarded is read from the file, which has zeros there.

use rustix::fs::{seek, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Bytes of a file that one bit stands for.
const CHUNK_BYTES: u64 = 1 << 20;

/// A bit for each MiB of a file.
#[derive(Debug)]
pub(crate) struct Written {
    words: RwLock<Vec<AtomicU64>>,
}

impl Written {
    /// What the file system has data for within the first `bytes`. Everything, where it cannot say.
    pub(crate) fn of(file: &File, bytes: u64) -> io::Result<Written> {
        let written = Written { words: RwLock::new(Vec::new()) };
        written.grow(bytes);
        let mut at = 0;
        while at < bytes {
            let data = match seek(file, SeekFrom::Data(at)) {
                Ok(data) => data,
                // No data from here on.
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
                Err(error) => return Err(error.into()),
            };
            let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(bytes).min(bytes);
            written.mark(data, hole.saturating_sub(data));
            at = hole.max(at + 1);
        }
        Ok(written)
    }

    /// Room for a file of `bytes`; what is added was never written.
    pub(crate) fn grow(&self, bytes: u64) {
        let words = bytes.div_ceil(CHUNK_BYTES).div_ceil(64) as usize;
        let mut held = self.words.write().unwrap_or_else(PoisonError::into_inner);
        let words = words.max(held.len());
        held.resize_with(words, AtomicU64::default);
    }

    /// Notes a write.
    pub(crate) fn mark(&self, offset: u64, bytes: u64) {
        let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
        for (word, bits) in masks(offset, bytes) {
            if let Some(word) = words.get(word).filter(|word| word.load(Ordering::Acquire) & bits != bits) {
                word.fetch_or(bits, Ordering::AcqRel);
            }
        }
    }

    /// Whether any part of a range may have been written.
    pub(crate) fn any(&self, offset: u64, bytes: u64) -> bool {
        let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
        masks(offset, bytes).any(|(word, bits)| words.get(word).is_none_or(|word| word.load(Ordering::Acquire) & bits != 0))
    }
}

/// The words that a range touches, and its bits in them.
fn masks(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let first = offset / CHUNK_BYTES;
    let end = if bytes == 0 { first } else { (offset + bytes).div_ceil(CHUNK_BYTES) };
    (first / 64..end.div_ceil(64)).map(move |word| {
        let from = first.max(word * 64) - word * 64;
        let to = end.min(word * 64 + 64) - word * 64;
        let bits = if to - from == 64 { u64::MAX } else { ((1 << (to - from)) - 1) << from };
        (word as usize, bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = CHUNK_BYTES;

    proptest! {
        /// Beside a list of flags, one a MiB.
        #[test]
        fn marks_are_those_of_a_list(marks in prop::collection::vec((0u64..300 * MIB, 0u64..80 * MIB), 0..20), asked in (0u64..300 * MIB, 1u64..80 * MIB)) {
            let written = Written { words: RwLock::new(Vec::new()) };
            written.grow(400 * MIB);
            let mut list = vec![false; 400];
            let chunks = |(offset, bytes): (u64, u64)| (offset / MIB) as usize..(offset + bytes).div_ceil(MIB) as usize;
            for &(offset, bytes) in &marks {
                written.mark(offset, bytes);
                if bytes > 0 {
                    list[chunks((offset, bytes))].fill(true);
                }
            }
            prop_assert_eq!(written.any(asked.0, asked.1), list[chunks(asked)].iter().any(|&flag| flag));
        }
    }

    #[test]
    fn what_lies_behind_its_end_may_be_anything() {
        let written = Written { words: RwLock::new(Vec::new()) };
        written.grow(MIB);
        assert!(!written.any(0, 64 * MIB), "room for 64 MiB, the word it takes");
        assert!(written.any(64 * MIB, 1));
    }
}
