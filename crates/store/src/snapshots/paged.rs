//! Numbers and flags of blocks, in pages that are made on first use: a volume of 64 TiB has 134
//! million blocks, most of which nothing is ever noted of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Words of a page: 32 KiB.
const PAGE: u64 = 4_096;

/// A word of 64 bits for each index, 0 at first.
pub(crate) struct Words {
    pages: Vec<OnceLock<Box<[AtomicU64]>>>,
}

impl Words {
    /// Makes words for indexes below `most`, all 0.
    pub(crate) fn new(most: u64) -> Words {
        Words { pages: (0..most.div_ceil(PAGE)).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the word at an index; 0 behind the end.
    pub(crate) fn get(&self, index: u64) -> u64 {
        let page = self.pages.get((index / PAGE) as usize).and_then(OnceLock::get);
        page.map_or(0, |page| page[(index % PAGE) as usize].load(Ordering::SeqCst))
    }

    /// Sets bits of a word. Nothing is kept behind the end.
    pub(crate) fn or(&self, index: u64, bits: u64) {
        let Some(page) = self.pages.get((index / PAGE) as usize) else { return };
        let page = page.get_or_init(|| (0..PAGE).map(|_| AtomicU64::new(0)).collect());
        let word = &page[(index % PAGE) as usize];
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::SeqCst);
        }
    }

    /// Clears bits of a word.
    pub(crate) fn and_not(&self, index: u64, bits: u64) {
        if let Some(page) = self.pages.get((index / PAGE) as usize).and_then(OnceLock::get) {
            page[(index % PAGE) as usize].fetch_and(!bits, Ordering::SeqCst);
        }
    }

    /// Returns the first word from `first` on that is not 0. Pages that were never used are not
    /// looked at.
    pub(crate) fn next(&self, first: u64) -> Option<(u64, u64)> {
        let mut word = first;
        while let Some(page) = self.pages.get((word / PAGE) as usize) {
            if let Some(page) = page.get() {
                let entry = page[(word % PAGE) as usize..]
                    .iter()
                    .zip(word..)
                    .find_map(|(bits, index)| Some((index, bits.load(Ordering::SeqCst))).filter(|&(_, bits)| bits != 0));
                if entry.is_some() {
                    return entry;
                }
            }
            word = (word / PAGE + 1) * PAGE;
        }
        None
    }

    /// Returns every word that is not 0, in order.
    pub(crate) fn set(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            let words = page.get().map_or(&[][..], |page| page);
            let at = number as u64 * PAGE;
            words.iter().enumerate().map(move |(i, word)| (at + i as u64, word.load(Ordering::SeqCst))).filter(|&(_, word)| word != 0)
        })
    }
}

/// A set of blocks.
pub struct BlockSet {
    words: Words,
}

/// Blocks that a set can tell apart: 512 TiB of 512 KiB. Eight volumes of the largest size.
const MOST_BLOCKS: u64 = 1 << 30;

impl Default for BlockSet {
    fn default() -> BlockSet {
        BlockSet { words: Words::new(MOST_BLOCKS / 64) }
    }
}

impl BlockSet {
    /// Returns true if a block is in the set.
    pub fn contains(&self, block: u64) -> bool {
        self.words.get(block / 64) >> (block % 64) & 1 == 1
    }

    /// Returns true if any of `blocks` from `first` on is in the set.
    pub fn any(&self, first: u64, blocks: u64) -> bool {
        words_of(first, blocks).any(|(word, bits)| self.words.get(word) & bits != 0)
    }

    /// Puts `blocks` from `first` on into it.
    pub fn insert(&self, first: u64, blocks: u64) {
        words_of(first, blocks).for_each(|(word, bits)| self.words.or(word, bits));
    }

    /// Takes a block out of the set.
    pub fn remove(&self, block: u64) {
        self.words.and_not(block / 64, 1 << (block % 64));
    }

    /// Returns the first block from `first` on that is in it.
    pub fn next(&self, first: u64) -> Option<u64> {
        let bits = self.words.get(first / 64) >> (first % 64);
        if bits != 0 {
            return Some(first + u64::from(bits.trailing_zeros()));
        }
        self.words.next(first / 64 + 1).map(|(word, bits)| word * 64 + u64::from(bits.trailing_zeros()))
    }

    /// Returns the blocks of the set in order, from `first` on. Each is looked for when it is asked
    /// for.
    pub fn from(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(self.next(first), |block| self.next(block + 1))
    }

    /// Puts 64 blocks at once into it, as bits: those from `64 * word` on.
    pub(crate) fn insert_word(&self, word: u64, bits: u64) {
        self.words.or(word, bits);
    }

    /// Copies the blocks into a set of their own.
    pub(crate) fn copy(&self) -> BlockSet {
        let set = BlockSet::default();
        self.words.set().for_each(|(word, bits)| set.words.or(word, bits));
        set
    }

    /// Returns the number of blocks in the set.
    pub fn count(&self) -> u64 {
        self.words.set().map(|(_, word)| u64::from(word.count_ones())).sum()
    }
}

/// Returns the words that a run of blocks touches, and its bits in them.
fn words_of(first: u64, blocks: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = first.saturating_add(blocks);
    (first / 64..end.div_ceil(64)).filter_map(move |word| {
        let (from, to) = (first.max(word * 64) - word * 64, end.min(word * 64 + 64).checked_sub(word * 64)?);
        let count = to.checked_sub(from).filter(|&count| count > 0)?;
        Some((word, (u64::MAX >> (64 - count)) << from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_is_that_of_a_list(runs in prop::collection::vec((0u64..900, 0u64..300), 0..12), range in (0u64..1_300, 0u64..200)) {
            let set = BlockSet::default();
            let mut list = vec![false; 1_600];
            for &(first, blocks) in &runs {
                set.insert(first, blocks);
                list[first as usize..(first + blocks) as usize].fill(true);
            }
            prop_assert_eq!(set.any(range.0, range.1), list[range.0 as usize..(range.0 + range.1) as usize].contains(&true));
            prop_assert!((0..1_600).all(|block| set.contains(block) == list[block as usize]));
            prop_assert_eq!(set.count(), list.iter().filter(|&&flag| flag).count() as u64);
            let copy = set.copy();
            list[range.0 as usize..(range.0 + range.1) as usize].fill(false);
            (range.0..range.0 + range.1).for_each(|block| copy.remove(block));
            let remaining: Vec<u64> = (range.0 / 2..1_600).filter(|&block| list[block as usize]).collect();
            prop_assert_eq!(copy.from(range.0 / 2).collect::<Vec<_>>(), remaining);
        }
    }
}
