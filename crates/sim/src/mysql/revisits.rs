//! Touches that come back to pages changed not long ago: TPC-C's stock level looks at the stock of
//! the last twenty orders of a district, whose rows the orders themselves have changed.
//!
//! ```text
//!   change          revisits, anywhere in a window behind it
//!     |----x---------x------------------|
//!     <- T ->  within the stay T of its last touch a page is still in the cache
//! ```
//!
//! So where a cache keeps a page for longer than the window, revisits read nothing and every page
//! that is read is changed; where it keeps it for much less, revisits are as good as touches of any
//! page. A cache of independent touches is given as many of them as touch the same pages within its
//! stay: changes are Poisson at a rate c for each page, each with a Poisson number of revisits of
//! mean m, evenly in a window w. The chance that none of them falls into a time T is
//! `exp(-c covered(T))`, where `covered` is the time of changes of which some touch falls into it:
//!
//! - T, for the changes in it;
//! - and of those before it the ones with a revisit in it, 1 - exp(-m x overlap / w) of them.
//!
//! A change in those before it lies up to w behind it. Clauses are those of the TPC-C Standard
//! Specification 5.11.

use super::database::Database;

/// Rounds in which stay and touches come to fit: each takes the stay of the touches before, which
/// rises to its end.
const ROUNDS: usize = 16;
/// A round that moves the stay by less than this share ends them.
const CLOSE: f64 = 1e-4;

/// Pages of a class that are changed, and revisited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Revisits {
    /// Transactions within which a change is revisited.
    window_tx: f64,
    /// Changes of a page by a transaction.
    changes: f64,
    /// Revisits of a change on average.
    each: f64,
}

impl Revisits {
    /// Returns the touches of a page by a transaction while the cache fills, `tx` transactions
    /// after a cold start, and the share of them that change it. Revisits go to changes from before
    /// the start, whose pages lie anywhere, until a window has passed; then to pages that are in
    /// the cache.
    pub fn while_filling(&self, tx: f64) -> (f64, f64) {
        let touches = self.changes * (1.0 + self.each * (1.0 - tx / self.window_tx).max(0.0));
        (touches, self.changes / touches)
    }

    /// Returns the transactions of whose changes some touch falls into a time of `stay_tx`.
    fn covered(&self, stay_tx: f64) -> f64 {
        let (window, each) = (self.window_tx, self.each);
        let missed = |share: f64| -libm::expm1(-each * share);
        // The part of the stay within the window may be met whole; then less and less.
        let within = (window - stay_tx).max(0.0) * missed(stay_tx / window);
        let most = stay_tx.min(window);
        let edge = if each > 0.0 { most - window / each * missed(most / window) } else { 0.0 };
        stay_tx + within + edge
    }
}

impl Database {
    /// Returns the revisits of the first class of pages; None where it is not known that touches
    /// come back.
    pub(super) fn revisits(&self) -> Option<Revisits> {
        let dirtying = self.dirtying.as_ref()?;
        let (window_tx, changed) = (dirtying.revisit_tx?, dirtying.changed[0]);
        let changes = self.popularity.classes[0].touches_per_tx * changed;
        (changes > 0.0).then(|| Revisits { window_tx, changes, each: 1.0 / changed - 1.0 })
    }

    /// Makes the database with touches of pages that are independent and read as many as its own in
    /// a settled cache of `capacity` pages; as it is where its own are independent.
    pub(super) fn with_independent_touches(&self, capacity: f64) -> Database {
        let mut alike = self.clone();
        let Some(revisits) = self.revisits() else { return alike };
        let mut stay_tx = self.popularity.stay_tx(capacity);
        let mut touches = revisits.changes;
        for _ in 0..ROUNDS {
            // Revisits read nothing if all pages fit.
            touches = revisits.changes * if stay_tx.is_finite() { revisits.covered(stay_tx) / stay_tx } else { 1.0 };
            alike.popularity.classes[0].touches_per_tx = touches;
            let before = std::mem::replace(&mut stay_tx, alike.popularity.stay_tx(capacity));
            if !before.is_finite() || (stay_tx / before - 1.0).abs() < CLOSE {
                break;
            }
        }
        if let Some(dirtying) = &mut alike.dirtying {
            dirtying.changed[0] = (revisits.changes / touches).min(1.0);
            dirtying.revisit_tx = None;
        }
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::tprocc::Tprocc;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};

    /// Changes and revisits of a page drawn one by one: the share of times without any of them in
    /// the stay behind. It is a sum over the gaps that are longer than a stay; what they are longer
    /// is near an exponential time, so `n` of them leave a relative standard deviation of
    /// sqrt(2 / n): 1 % with the fewest, 14,000 (1.1 % over 12 other seeds). Five of these are
    /// allowed.
    #[test]
    fn drawn_touches_leave_as_many_stays_empty() {
        let mut chance = ChaCha8Rng::seed_from_u64(25);
        let mut draw = || ((chance.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        for (window, each) in [(0.1, 2.0), (0.9, 2.0), (3.0, 2.0), (0.9, 0.5)] {
            let revisits = Revisits { window_tx: window, changes: 1.0, each };
            let (mut now, mut touches) = (0.0, Vec::new());
            for _ in 0..400_000 {
                now -= f64::ln(draw());
                touches.push(now);
                // A Poisson number of them (Knuth).
                let mut product = draw();
                while product > f64::exp(-each) {
                    touches.push(now + window * draw());
                    product *= draw();
                }
            }
            touches.sort_by(f64::total_cmp);
            for stay in [0.2, 0.9, 2.0] {
                let longer: Vec<f64> = touches.windows(2).map(|pair| pair[1] - pair[0] - stay).filter(|gap| *gap > 0.0).collect();
                let (empty, deviation) = (longer.iter().sum::<f64>() / now, f64::sqrt(2.0 / longer.len() as f64));
                let law = f64::exp(-revisits.covered(stay));
                assert!((empty / law - 1.0).abs() < 5.0 * deviation, "window {window}, {each} revisits, stay {stay}: {empty} drawn, {law}");
            }
        }
    }

    /// A stay that is short against the window leaves all touches as they are; one that is long
    /// leaves the changes, of which each change a page.
    #[test]
    fn a_large_cache_sees_changes_alone() {
        let database = Tprocc { warehouses: 1_000.0, ..Tprocc::default() }.database().unwrap();
        let stock = database.popularity.classes[0];
        let of = |pages: f64| {
            let alike = database.with_independent_touches(pages);
            (alike.popularity.classes[0].touches_per_tx / stock.touches_per_tx, alike.dirtying.unwrap().changed[0])
        };
        let (small, large) = (of(20_000.0), of(1e9));
        assert!((small.0 - 1.0).abs() < 0.01 && (small.1 * 3.0 - 1.0).abs() < 0.01, "{small:?}");
        assert!((large.0 * 3.0 - 1.0).abs() < 1e-9 && (large.1 - 1.0).abs() < 1e-9, "{large:?}");
        // Half a window after a cold start a change has one touch of a page that lies anywhere.
        let revisits = database.revisits().unwrap();
        for (tx, touches, changed) in [(0.0, 1.0, 1.0 / 3.0), (230_000.0, 2.0 / 3.0, 0.5), (1e6, 1.0 / 3.0, 1.0)] {
            let filling = revisits.while_filling(tx);
            assert!((filling.0 / stock.touches_per_tx - touches).abs() < 1e-9 && (filling.1 - changed).abs() < 1e-9, "{tx}: {filling:?}");
        }
        let (middle, changes) = (of(3e6), database.dirtying.as_ref().unwrap().changed[0]);
        assert!(middle.0 > large.0 && middle.0 < small.0);
        assert!((middle.0 * middle.1 / changes - 1.0).abs() < 1e-9, "{middle:?}");
    }
}
