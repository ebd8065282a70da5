//! InnoDB's page cleaner: how many dirty pages it writes a second, and so how long a changed page
//! stays dirty.
//!
//! ```text
//!  pages a second
//!    |            asked for: by the share of dirty pages, or by the age of the oldest change
//!    |           /
//!    |  `.      /
//!    |     `.  /
//!    |       X_             what a window writes: dirty pages / window x transactions a second
//!    |     /   `-.._
//!    +----+-----------> window, transactions
//!      low water
//! ```
//!
//! A page is written a window after its first change, unless it leaves the cache before. The longer
//! the window, the more pages are dirty and the older they are, so the more the cleaner is asked
//! for, and the fewer it has to write: one window fits (`page_cleaner_flush_pages_recommendation`
//! in buf0flu.cc of both flavors, from memory). It asks for the mean of three figures: io_capacity
//! by a percentage, what it wrote of late, and the pages of the oldest redo. In the long run the
//! last two are what it writes, and so is the first. But both are averages of half minutes that
//! begin at nothing ([`taken_up`]), so that a server that has just begun writes a third of it.
//! MySQL 9.7.4 with four clients wrote 0.35 of the first figure until 27 s after its start (a lab,
//! 2026-11-28).
//!
//! - By dirty pages (`af_get_pct_for_dirty`): io_capacity x dirty share /
//!   (innodb_max_dirty_pages_pct + 1 %) from innodb_max_dirty_pages_pct_lwm on, whether anything
//!   needs it or not: a quarter of a pool asks for 2,747 pages a second of 10,000.
//! - By age (`af_get_pct_for_lsn`): io_capacity_max x (100 x age / asynchronous age)^1.5 / 750 from
//!   innodb_adaptive_flushing_lwm on.
//! - MariaDB from 10.5 has no low water of dirty pages; from that of the age on it writes what
//!   keeps the age there, up to io_capacity_max. The source code does not say that the age stays
//!   the same whatever it has to write, but runs do: 12.2.2 with a redo log of 32 GiB wrote no page
//!   until a tenth of that was filled, then at once 8,000 to 16,000 a second (published runs of
//!   2026). A start or a full volume makes it slower: 10.11 let the age grow to half of a small log
//!   within a minute (a lab, 2026-11-28). io_capacity_max is a limit of a round, of which there is
//!   one a second while nothing wakes it. Once the pool is full, readers that need free pages wake
//!   it (`buf_pool_t::page_cleaner_wakeup`), and the limit holds no longer: 12.2.2 with 20,000
//!   wrote 28,900 pages a second for an hour, as many a transaction as at a third of the rate
//!   (published runs of 2026).

use super::checkpoint::{ASYNC, USED};
use super::database::{Database, PageCleaner, PageWrites, UNLIMITED};
use super::popularity::{PageClass, Popularity};
use super::settings::at_least;

/// Default of innodb_max_dirty_pages_pct: MySQL from 8.0.3, MariaDB from 10.5.7.
const MOST_DIRTY: f64 = 0.90;
/// Before that (both manuals).
const MOST_DIRTY_BEFORE: f64 = 0.75;
/// Default of innodb_max_dirty_pages_pct_lwm in MySQL from 8.0.3; 0, which is off, in all others.
const LOW_WATER: f64 = 0.10;
/// Default of innodb_adaptive_flushing_lwm of all, a share of the redo log.
const REDO_LOW_WATER: f64 = 0.10;
/// Part of a redo log of which the age is a share: all but a tenth (`log_t::set_capacity` of
/// MariaDB; taken to be so in MySQL).
const OF_REDO: f64 = 0.9;
/// One percent is added to innodb_max_dirty_pages_pct (`af_get_pct_for_dirty`).
const ADDED: f64 = 0.01;
/// (100 x)^1.5 / 7.5 percent.
const BY_AGE: f64 = 750.0;

/// I/Os that MySQL's cleaner keeps outstanding at most in a round: innodb_doublewrite_pages (128 in
/// MySQL from 8.4).
pub(super) const ROUND_DEPTH: u32 = 128;

/// Windows that are followed lie this far apart, as a factor, and are seven at most. Chosen:
/// between them pages that are changed alike are exact ([`DirtyPages::halfway`]).
const STEP: f64 = 4.0;
const MOST_STEPS: f64 = 6.0;
/// Halvings of the step between two windows: a 4,000th of it is left.
const HALVINGS: usize = 12;

impl PageCleaner {
    /// Makes the cleaner of a server where nothing is set (its manuals): innodb_io_capacity is
    /// 10,000 in MySQL from 8.4 and 200 before and in MariaDB, its maximum twice that and at least
    /// 2,000.
    pub fn of_server(flavor: &str, version: &str) -> PageCleaner {
        let mariadb = flavor == "mariadb";
        let from = |mysql, maria| at_least(version, if mariadb { maria } else { mysql });
        let io_capacity = if !mariadb && at_least(version, [8, 4, 0]) { 10_000.0 } else { 200.0 };
        PageCleaner {
            io_capacity,
            io_capacity_max: default_max_of(io_capacity),
            most_dirty: if from([8, 0, 3], [10, 5, 7]) { MOST_DIRTY } else { MOST_DIRTY_BEFORE },
            low_water: if !mariadb && at_least(version, [8, 0, 3]) { LOW_WATER } else { 0.0 },
            redo_low_water: REDO_LOW_WATER,
            holds_age: mariadb && at_least(version, [10, 5, 0]),
        }
    }

    /// Returns whether flushing by age may write more than io_capacity_max a second; `evicting`:
    /// the pool is full.
    fn exceeds_ceiling(&self, evicting: bool) -> bool {
        self.holds_age && evicting
    }

    /// Returns the pages a second that it is asked to write, while `dirty` is the share of dirty
    /// pages in the pool, `age` that of the redo log since the oldest change, and the pool is full
    /// (`evicting`) or not.
    pub fn asks(&self, dirty: f64, age: f64, evicting: bool) -> f64 {
        let by_dirty = if self.low_water > 0.0 && dirty >= self.low_water {
            self.io_capacity * dirty / (self.most_dirty + ADDED)
        } else if dirty >= self.most_dirty {
            self.io_capacity
        } else {
            0.0
        };
        if age < self.least_age() {
            return by_dirty.min(self.io_capacity_max);
        }
        if self.holds_age {
            return if self.exceeds_ceiling(evicting) { UNLIMITED } else { self.io_capacity_max };
        }
        let percent = 100.0 * age / (ASYNC * USED);
        by_dirty.max(self.io_capacity_max * percent * percent.sqrt() / BY_AGE).min(self.io_capacity_max)
    }

    /// Returns the age at the low water, a share of the redo log.
    fn least_age(&self) -> f64 {
        self.redo_low_water * OF_REDO
    }
}

/// Returns the share of the pool that is dirty where `pages_s` are written by the number of dirty
/// pages alone, with this innodb_io_capacity, from `low_water` on up to the default of
/// innodb_max_dirty_pages_pct.
pub(super) fn dirty_share(pages_s: f64, io_capacity: f64, low_water: f64) -> f64 {
    ((MOST_DIRTY + ADDED) * pages_s / io_capacity.max(1e-9)).clamp(low_water, MOST_DIRTY)
}

/// Default of innodb_flushing_avg_loops, loops of a second.
const AVERAGED_S: f64 = 30.0;
/// Half minutes after which what was taken up is all but 1 % of it.
const MOST_AVERAGED: f64 = 20.0;

/// Returns the share of what the percentage asks for that the cleaner writes `since_s` seconds
/// after its server began. The mean of what it wrote and the redo a second are each half of the
/// last half minute and half of the average before: with the averages a and l x share, share = (1 +
/// a + l x share) / 3.
pub fn taken_up(since_s: f64) -> f64 {
    let loops = (since_s / AVERAGED_S).floor();
    if loops >= MOST_AVERAGED {
        return 1.0;
    }
    let (mut written, mut redo, mut share) = (0.0, 0.0, 1.0 / 3.0);
    for _ in 0..loops as usize {
        (written, redo) = (0.5 * (written + share), 0.5 * (redo + 1.0));
        share = (1.0 + written) / (3.0 - redo);
    }
    share
}

/// Dirty pages with a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirtyPages {
    /// Evicted dirty by a transaction.
    pub evicted: f64,
    /// Written by the flush list for a transaction.
    pub flushed: f64,
    /// Dirty pages over all pages that the pool has room for.
    pub of_pool: f64,
}

impl DirtyPages {
    /// Interpolates between this and `other`, linearly; `share`: part of the way, 0-1.
    fn mix(&self, other: &DirtyPages, share: f64) -> DirtyPages {
        let between = |a: f64, b: f64| a + share * (b - a);
        DirtyPages {
            evicted: between(self.evicted, other.evicted),
            flushed: between(self.flushed, other.flushed),
            of_pool: between(self.of_pool, other.of_pool),
        }
    }

    /// Interpolates between the windows `a_tx` of this and `b_tx` of `other`, in the middle of
    /// their logarithms. For pages that are changed alike `1 / dirty pages` is linear in `1 /
    /// window`, and so is one over the pages evicted dirty; the pages written in a window are in
    /// proportion to the dirty pages.
    fn halfway(&self, a_tx: f64, other: &DirtyPages, b_tx: f64) -> (DirtyPages, f64) {
        let ratio = (b_tx / a_tx).sqrt();
        let share = ratio / (1.0 + ratio);
        let between = |a: f64, b: f64| if a * b > 0.0 { a * b / (share * a + (1.0 - share) * b) } else { 0.0 };
        let middle_tx = (a_tx * b_tx).sqrt();
        let middle = DirtyPages {
            evicted: between(self.evicted, other.evicted),
            flushed: between(self.flushed * a_tx, other.flushed * b_tx) / middle_tx,
            of_pool: between(self.of_pool, other.of_pool),
        };
        (middle, middle_tx)
    }
}

/// Rate that the cleaner follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerPace {
    /// Transactions a second; 0: not known yet, so that the cleaner is not counted.
    pub tps: f64,
    /// See [`taken_up`].
    pub taken_up: f64,
}

impl CleanerPace {
    /// Returns the pace of a server that has done `tps` for long.
    pub fn settled(tps: f64) -> CleanerPace {
        CleanerPace { tps, taken_up: 1.0 }
    }
}

/// Returns the windows that are followed with the cache, transactions, longest first: from that of
/// the redo log down to the shortest that the cleaner may come to, at its low waters. Empty where
/// dirty pages are not followed.
pub(super) fn windows_of(database: &Database, pool_pages: f64) -> Vec<f64> {
    let Some(dirtying) = &database.dirtying else { return Vec::new() };
    let longest = dirtying.window_tx;
    let Some(cleaner) = &database.cleaner else { return vec![longest] };
    let by_age = cleaner.least_age() / redo_share_per_tx(database).max(1e-300);
    let more = database.changes_over_usual();
    let touched = |(class, share): (&PageClass, &f64)| PageClass { touches_per_tx: class.touches_per_tx * share * more, ..*class };
    let changed = Popularity { classes: database.popularity.classes.iter().zip(&dirtying.changed).map(touched).collect() };
    let by_dirty = if cleaner.low_water > 0.0 { changed.stay_tx(cleaner.low_water * pool_pages) } else { f64::INFINITY };
    let shortest = by_age.min(by_dirty).clamp(1.0f64.min(longest), longest);
    let steps = (libm::log(longest / shortest) / libm::log(STEP)).ceil().min(MOST_STEPS);
    (0..=steps as usize).map(|step| longest * libm::pow(shortest / longest, step as f64 / steps.max(1.0))).collect()
}

impl Database {
    /// Returns the pages flushed as they were measured, over what follows from the benchmark's
    /// tables.
    pub(super) fn flushed_over_usual(&self) -> f64 {
        self.dirtying.as_ref().map_or(1.0, |dirtying| self.writes.flush_per_tx / dirtying.flush_per_tx.max(1e-12))
    }

    /// Returns whether the page cleaner's own rule decides how long pages stay dirty, so that pages
    /// flushed tell something else than that: the pages of a window are those that were changed in
    /// it.
    pub(super) fn is_asked_by_rule(&self) -> bool {
        self.dirtying.is_some() && self.cleaner.as_ref().is_some_and(|cleaner| !cleaner.holds_age)
    }

    /// Returns whether threads that wait for a latch spin meanwhile, where the page cleaner tells
    /// whose server it is. MySQL's poll it up to `innodb_sync_spin_loops`, 30 times, after up to
    /// `innodb_spin_wait_delay` x `innodb_spin_wait_pause_multiplier`, 6 x 50, pauses of a
    /// processor (140 cycles from Skylake on): a quarter of a millisecond, longer than they wait.
    /// MariaDB's sleep from 10.6 on (MDEV-21452).
    pub(crate) fn waiters_spin(&self) -> bool {
        self.is_asked_by_rule()
    }

    /// Returns whether threads that wait for a log write sleep meanwhile, where the page cleaner
    /// tells whose server it is: those of MariaDB do (`group_commit_lock` in log0sync.cc, and the
    /// binary log's group commit, from memory). MySQL's clients spin up to
    /// `innodb_log_wait_for_flush_spin_hwm`, 0.4 ms.
    pub(crate) fn log_waiters_sleep(&self) -> bool {
        self.dirtying.is_some() && self.cleaner.as_ref().is_some_and(|cleaner| cleaner.holds_age)
    }

    /// Returns the changes of pages over those of the benchmark's tables. If undo is followed too,
    /// all that a transaction changes is, so that under the cleaner's own rule pages flushed tell
    /// how often pages are changed (splits and purge differ from index to index). Elsewhere they
    /// tell what the cleaner is asked for over its rule ([`Cleaning::new`]), which at its low
    /// water, where a slow volume holds it, changes nothing.
    pub(super) fn changes_over_usual(&self) -> f64 {
        let followed = self.dirtying.as_ref().is_some_and(|dirtying| dirtying.undo_pages > 0.0);
        if followed && self.is_asked_by_rule() {
            self.flushed_over_usual()
        } else {
            1.0
        }
    }

    /// Returns the page writes, without the ceiling of the flush list if the page cleaner is not
    /// held to it; `evicting`: the pool is full.
    pub(crate) fn page_writes(&self, evicting: bool) -> PageWrites {
        let free = self.cleaner.as_ref().is_some_and(|cleaner| cleaner.exceeds_ceiling(evicting));
        PageWrites { flush_limit_per_s: if free { UNLIMITED } else { self.writes.flush_limit_per_s }, ..self.writes }
    }
}

/// Returns the share of the redo log that a transaction writes; 0 where its size is not known.
fn redo_share_per_tx(database: &Database) -> f64 {
    database.log.redo_capacity_bytes.map_or(0.0, |bytes| database.log.redo_bytes_per_tx / bytes)
}

/// The cleaner on a cache that is followed over transactions: at each point the dirty pages of each
/// window.
#[derive(Clone, Debug)]
pub(super) struct Cleaning {
    cleaner: PageCleaner,
    /// Demand on the cleaner over its own rule.
    asked_over_rule: f64,
    pool_pages: f64,
    redo_share_per_tx: f64,
    windows_tx: Vec<f64>,
    /// Window after window for one point after the other.
    pages: Vec<DirtyPages>,
}

impl Cleaning {
    /// Makes the cleaning of a database in a pool of `pool_pages`; none without a cleaner, or with
    /// one window alone.
    pub fn new(database: &Database, pool_pages: f64, windows_tx: Vec<f64>) -> Option<Cleaning> {
        let cleaner = database.cleaner.filter(|_| windows_tx.len() > 1)?;
        let asked_over_rule = if database.is_asked_by_rule() { database.flushed_over_usual() / database.changes_over_usual() } else { 1.0 };
        Some(Cleaning { cleaner, asked_over_rule, pool_pages, redo_share_per_tx: redo_share_per_tx(database), windows_tx, pages: Vec::new() })
    }

    /// Adds a point: its dirty pages, window after window.
    pub fn push(&mut self, point: impl Iterator<Item = DirtyPages>) {
        self.pages.extend(point);
    }

    /// Adds a point that is like the last one.
    pub fn repeat_last(&mut self) {
        let from = self.pages.len() - self.windows_tx.len();
        self.pages.extend_from_within(from..);
    }

    /// Returns the dirty pages between two points, `share` of the way, with the window that the
    /// cleaner comes to at this pace after `tx` transactions, `evicting` once the pool is full;
    /// none where it is that of the redo log.
    pub fn settle(&self, (from, to, share): (usize, usize, f64), (tx, evicting): (f64, bool), pace: CleanerPace) -> Option<DirtyPages> {
        let count = self.windows_tx.len();
        let factor = self.asked_over_rule * if self.cleaner.holds_age { 1.0 } else { pace.taken_up };
        let at_window = |window: usize| self.pages[from * count + window].mix(&self.pages[to * count + window], share);
        let asks_more = |pages: &DirtyPages, window_tx: f64| {
            let age = window_tx.min(tx) * self.redo_share_per_tx;
            factor * self.cleaner.asks(pages.of_pool, age, evicting) > pages.of_pool * self.pool_pages / window_tx * pace.tps
        };
        let (mut longer, mut longer_tx) = (at_window(0), self.windows_tx[0]);
        if !asks_more(&longer, longer_tx) {
            return None;
        }
        for window in 1..count {
            let (mut shorter, mut shorter_tx) = (at_window(window), self.windows_tx[window]);
            if asks_more(&shorter, shorter_tx) {
                (longer, longer_tx) = (shorter, shorter_tx);
                continue;
            }
            for _ in 0..HALVINGS {
                let (middle, middle_tx) = longer.halfway(longer_tx, &shorter, shorter_tx);
                if asks_more(&middle, middle_tx) {
                    (longer, longer_tx) = (middle, middle_tx);
                } else {
                    (shorter, shorter_tx) = (middle, middle_tx);
                }
            }
            return Some(shorter);
        }
        Some(longer)
    }
}

/// Returns innodb_io_capacity_max of a server where innodb_io_capacity alone is set.
fn default_max_of(io_capacity: f64) -> f64 {
    (2.0 * io_capacity).max(2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand. A quarter of the pool at 10,000: 0.25 / 0.91 x 10,000 = 2,747.3. At 36 % of the
    /// asynchronous age: 20,000 x 36^1.5 / 750 = 20,000 x 216 / 750 = 5,760. Below both low waters
    /// nothing; above all at most 20,000.
    #[test]
    fn mysql_is_asked_by_dirty_pages_or_by_age() {
        let cleaner = PageCleaner::of_server("mysql", "9.7.0");
        assert!((cleaner.asks(0.25, 0.0, true) - 2_747.252_747).abs() < 1e-5);
        let age = 0.36 * 0.875 * 0.81;
        assert!((cleaner.asks(0.0, age, true) - 5_760.0).abs() < 1e-8);
        assert_eq!(cleaner.asks(0.25, age, true), cleaner.asks(0.0, age, false));
        assert_eq!(cleaner.asks(0.0999, 0.0899, true), 0.0);
        assert_eq!(cleaner.asks(0.9, 0.8, true), 20_000.0);
        // The other way round, between low water and most.
        assert!((dirty_share(2_747.252_747, 10_000.0, 0.1) - 0.25).abs() < 1e-9);
        assert_eq!([0.0, 1e9].map(|pages_s| dirty_share(pages_s, 10_000.0, 0.1)), [0.10, 0.90]);
    }

    /// MySQL 5.7 has no low water of dirty pages: nothing below the most, all from there on. By
    /// age: 0.0901 / 0.70875 is 12.71 %, 2,000 x 12.71^1.5 / 750 = 120.8.
    #[test]
    fn without_a_low_water_the_age_alone_asks() {
        let cleaner = PageCleaner::of_server("mysql", "5.7.44");
        assert_eq!((cleaner.asks(0.74, 0.0899, true), cleaner.asks(0.76, 0.0899, true)), (0.0, 200.0));
        assert!((cleaner.asks(0.74, 0.0901, true) - 120.87).abs() < 0.05, "{}", cleaner.asks(0.74, 0.0901, true));
        let mariadb = PageCleaner::of_server("mariadb", "12.2.2");
        assert_eq!((mariadb.asks(0.89, 0.0899, true), mariadb.asks(0.1, 0.0901, false)), (0.0, 2_000.0));
        assert_eq!(mariadb.asks(0.1, 0.0901, true), UNLIMITED);
    }

    /// By hand: 1/3; (1 + 1/6) / 2.5 = 0.46667; written (1/6 + 0.46667) / 2 = 0.31667, redo 3/4:
    /// 1.31667 / 2.25 = 0.58519. It only rises, to all of it.
    #[test]
    fn a_server_takes_up_its_rule_by_half_minutes() {
        for (since_s, share) in [(0.0, 1.0 / 3.0), (29.9, 1.0 / 3.0), (30.0, 0.466_667), (60.0, 0.585_185)] {
            assert!((taken_up(since_s) - share).abs() < 1e-6, "{since_s} s: {}", taken_up(since_s));
        }
        let shares: Vec<f64> = (0..=20).map(|loops| taken_up(30.0 * f64::from(loops))).collect();
        assert!(shares.windows(2).all(|pair| pair[0] < pair[1]) && shares[19] > 0.99 && shares[20] == 1.0, "{shares:?}");
    }

    /// Defaults of the manuals.
    #[test]
    fn defaults_follow_flavor_and_version() {
        let of = |flavor, version| {
            let cleaner = PageCleaner::of_server(flavor, version);
            cleaner.check().unwrap();
            (cleaner.io_capacity, cleaner.io_capacity_max, cleaner.most_dirty, cleaner.low_water, cleaner.holds_age)
        };
        assert_eq!(of("mysql", "5.7.44"), (200.0, 2_000.0, 0.75, 0.0, false));
        assert_eq!(of("percona", "8.0.22"), (200.0, 2_000.0, 0.90, 0.10, false));
        assert_eq!(of("mysql", "8.4.0"), (10_000.0, 20_000.0, 0.90, 0.10, false));
        assert_eq!(of("mariadb", "10.4.30"), (200.0, 2_000.0, 0.75, 0.0, false));
        assert_eq!(of("mariadb", "10.11.6"), (200.0, 2_000.0, 0.90, 0.0, true));
    }
}
