//! The age of InnoDB's checkpoint: bytes of redo since the oldest change that is in no data file.
//!
//! ```text
//!  age / redo log
//!   limit   |        /|      /|      the oldest pages are written at the speed of the device
//!           |      /  |    /  |
//!   ceiling |----/----|--/----|--    flushing by age writes all that innodb_io_capacity_max allows
//!           |  /
//!           '-----------------------> t
//! ```
//!
//! Below the ceiling pages are flushed as fast as their redo comes (`PageWrites::flush_per_tx`),
//! and the age stays. Above it pages are late, and the age grows with them up to the limit. There
//!
//! - MySQL up to 8.0.29 writes the pages of the oldest three seconds of redo in one go, and no
//!   client goes on before (`log_preflush_pool_modified_pages`, and `buf_flush_request_force` in
//!   buf0flu.cc of 5.7);
//! - MySQL from 8.0.30 and MariaDB from 10.5 go on to flush without the ceiling
//!   (`Adaptive_flush::set_flush_target_by_lsn`; `buf_flush_sync_for_checkpoint` by steps of 1 MiB),
//!   so that clients wait for the device alone.
//!
//! The ceiling is that of the flush list alone. Dirty pages that are evicted (`At::evicted_dirty`)
//! and those written at the limit are beyond it.

use super::database::{CheckpointLaw, Database, PageWrites};
use super::settings::at_least;

/// Of a redo log the part that its server uses: 9/10 twice (log_calc_max_ages of MySQL 5.7 and 8.0;
/// log_t::set_capacity of MariaDB).
pub(super) const USED: f64 = 0.9 * 0.9;
/// Of that, the age from which pages are flushed ahead (LOG_POOL_PREFLUSH_RATIO_ASYNC of both).
pub(super) const ASYNC: f64 = 7.0 / 8.0;
/// The age at which they must be (LOG_POOL_PREFLUSH_RATIO_SYNC of MySQL).
const SYNC: f64 = 15.0 / 16.0;
/// Share of the asynchronous age at which flushing by age asks for innodb_io_capacity_max: the root
/// of (100 x)^1.5 / 7.5 = 100 (af_get_pct_for_lsn of both flavours). (100 x)^1.5 = 750.
const CEILING: f64 = 0.825_482;
/// Seconds of redo that a synchronous flush goes beyond the limit (buf_flush_lsn_scan_factor).
const AHEAD_S: f64 = 3.0;
/// Steps longer than this take the mean over the stops instead of each, s.
const ONE_BY_ONE_S: f64 = 1.0;
/// So do those in which there would be more than its inverse, ten.
const SMALLEST: f64 = 0.1;

impl CheckpointLaw {
    /// The law of a server. That MySQL 8.0 before 8.0.30 and MariaDB before 10.5 stop like MySQL
    /// 5.7 is a guess, and that MySQL from 8.0.30 uses as much of its log.
    pub fn of(flavor: &str, version: &str) -> CheckpointLaw {
        let ceiling_share = CEILING * ASYNC * USED;
        if flavor == "mariadb" && at_least(version, [10, 5, 0]) {
            CheckpointLaw { ceiling_share, limit_share: USED, stop_s: 0.0 }
        } else {
            CheckpointLaw { ceiling_share, limit_share: SYNC * USED, stop_s: if flavor != "mariadb" && at_least(version, [8, 0, 30]) { 0.0 } else { AHEAD_S } }
        }
    }
}

/// What a synchronous flush took of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stopped {
    /// Time in which clients waited, s.
    pub seconds: f64,
    /// Pages written in it.
    pub pages: f64,
}

/// The state: how far the age is above the ceiling's, in pages that are late.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointAge {
    /// Transactions whose redo lies between ceiling and limit; none: the log never fills.
    room_tx: Option<f64>,
    stop_s: f64,
    /// Pages of the flush list that the ceiling kept from being written.
    late: f64,
    /// Pages that the stop under way has yet to write.
    stop_pages: f64,
    /// The log has had time to fill before the first step.
    settled: bool,
    /// Transactions a second, stops included, smoothed.
    mean_tps: f64,
}

impl CheckpointAge {
    /// Of a database; `settled`: it has been under this load for long.
    pub fn new(database: &Database, settled: bool) -> CheckpointAge {
        let (law, log) = (database.checkpoint, &database.log);
        let room_tx = law.zip(log.redo_capacity_bytes).map(|(law, bytes)| (law.limit_share - law.ceiling_share) * bytes / log.redo_bytes_per_tx);
        CheckpointAge {
            room_tx: room_tx.filter(|room| room.is_finite()),
            stop_s: law.map_or(0.0, |law| law.stop_s),
            late: 0.0,
            stop_pages: 0.0,
            settled,
            mean_tps: 0.0,
        }
    }

    /// Pages of the flush list a transaction writes at `tps` through `seconds`, where `due` have to
    /// be written to keep the age: as many as the ceiling lets, those that are late too; beyond
    /// the limit all, where the server does not stop for them.
    pub fn flushed(&mut self, writes: &PageWrites, due: f64, tps: f64, seconds: f64) -> f64 {
        let limited = writes.limited(due, tps);
        let Some(room) = self.room_tx.map(|room_tx| room_tx * due).filter(|_| tps > 0.0) else { return limited };
        let soon = tps * seconds;
        if limited < due && std::mem::take(&mut self.settled) {
            self.late = room;
        }
        self.settled = false;
        if self.stop_s > 0.0 {
            return writes.limited(due + self.late / soon, tps);
        }
        let beyond = (self.late + (due - limited) * soon - writes.background_per_s * seconds - room) / soon;
        writes.limited(due + self.late / soon, tps).max(due.min(limited + beyond))
    }

    /// Goes on by `seconds` in which clients that do not wait do `tps`, each of which makes `due`
    /// pages late or early but for the `flushed` ones; `background` pages are written a second,
    /// and `write_rate` in a stop.
    pub fn pass(&mut self, seconds: f64, tps: f64, (due, flushed): (f64, f64), background: f64, write_rate: impl FnOnce() -> f64) -> Stopped {
        let Some(room) = self.room_tx.map(|room_tx| room_tx * due) else { return Stopped::default() };
        let rise = (due - flushed) * tps - background;
        if self.stop_pages <= 0.0 && self.late + rise * seconds <= room {
            self.late = (self.late + rise * seconds).max(0.0);
            self.follow(tps, seconds);
            return Stopped::default();
        }
        if self.stop_s <= 0.0 {
            self.late = room;
            return Stopped::default();
        }
        let stopped = self.stop(seconds, tps, due, (room, rise, write_rate()));
        self.follow(tps * (1.0 - stopped.seconds / seconds), seconds);
        stopped
    }

    /// A transaction makes `due` pages late but for the `flushed` ones, while `tps` are done.
    /// Returns the pages of a synchronous flush that begins now, 0 where none does.
    pub fn begin(&mut self, due: f64, flushed: f64, tps: f64) -> f64 {
        let Some(room) = self.room_tx.map(|room_tx| room_tx * due) else { return 0.0 };
        self.late = (self.late + due - flushed).max(0.0);
        if self.late <= room {
            return 0.0;
        }
        let batch = if self.stop_s > 0.0 { self.batch(tps, due, room) } else { 0.0 };
        self.late = (room - batch).max(0.0);
        batch
    }

    /// Pages were written that no transaction made due.
    pub fn wrote_early(&mut self, pages: f64) {
        self.late = (self.late - pages).max(0.0);
    }

    /// Pages of one synchronous flush: it does not go further than to where the ceiling is.
    fn batch(&self, mean_tps: f64, due: f64, room: f64) -> f64 {
        (self.stop_s * mean_tps * due).min(room).max(1.0)
    }

    /// Clients run until the age is at its limit, then wait until the oldest pages are written, and
    /// so on.
    fn stop(&mut self, seconds: f64, tps: f64, due: f64, (room, rise, write_rate): (f64, f64, f64)) -> Stopped {
        let mean_tps = if self.mean_tps > 0.0 { self.mean_tps } else { tps };
        let batch = self.batch(mean_tps, due, room);
        let (mut rest, mut stopped) = (seconds, Stopped::default());
        while rest > 0.0 {
            if self.stop_pages > 0.0 {
                let part = (self.stop_pages / write_rate).min(rest);
                let pages = if part < rest { self.stop_pages } else { (part * write_rate).min(self.stop_pages) };
                self.stop_pages = (self.stop_pages - pages).max(0.0);
                self.late = (self.late - pages).max(0.0);
                stopped = Stopped { seconds: stopped.seconds + part, pages: stopped.pages + pages };
                rest -= part;
                continue;
            }
            let until = if rise > 0.0 { (room - self.late).max(0.0) / rise } else { f64::INFINITY };
            if until >= rest {
                self.late = (self.late + rise * rest).max(0.0);
                break;
            }
            rest -= until;
            self.late = room;
            if seconds > ONE_BY_ONE_S || batch < SMALLEST * rise * seconds {
                // Of each cycle batch / rise run and batch / write_rate wait.
                let waiting = rest * rise / (rise + write_rate);
                stopped = Stopped { seconds: stopped.seconds + waiting, pages: stopped.pages + waiting * write_rate };
                break;
            }
            self.stop_pages = batch;
        }
        stopped
    }

    fn follow(&mut self, tps: f64, seconds: f64) {
        // As the server averages its redo: over some innodb_flushing_avg_loops seconds.
        let follows = 1.0 - libm::pow(0.9, seconds);
        self.mean_tps = if self.mean_tps > 0.0 { self.mean_tps + follows * (tps - self.mean_tps) } else { tps };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::standard::tpcc;
    use crate::mysql::StorageEngine;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};
    use std::collections::VecDeque;

    /// A thousandth of a second.
    const TICKS: usize = 1_000;

    /// A state whose log has `room_tx` transactions between ceiling and limit.
    fn state(room_tx: f64, stop_s: f64) -> CheckpointAge {
        let mut database = tpcc(StorageEngine::Innodb, 100.0).unwrap();
        database.log.redo_capacity_bytes = Some(2.0 * room_tx * database.log.redo_bytes_per_tx);
        database.checkpoint = Some(CheckpointLaw { ceiling_share: 0.25, limit_share: 0.75, stop_s });
        CheckpointAge::new(&database, false)
    }

    /// The flush list page by page: each knows the transaction that changed it first, the oldest
    /// are
    /// written first. Ages are in transactions above the ceiling.
    struct FlushList {
        pages: VecDeque<f64>,
        at_tx: f64,
        added: f64,
        budget: f64,
        stop_until: Option<f64>,
        mean_tps: f64,
    }

    impl FlushList {
        fn new() -> FlushList {
            FlushList { pages: VecDeque::new(), at_tx: 0.0, added: 0.0, budget: 0.0, stop_until: None, mean_tps: 0.0 }
        }

        /// Age above the ceiling: pages before it have been written.
        fn late_tx(&self) -> f64 {
            self.pages.front().map_or(0.0, |first| self.at_tx - first)
        }

        /// A second of ticks. Returns how many of them clients waited.
        fn second(&mut self, tps: f64, due: f64, (written, at_once): (f64, f64), room_tx: f64, stop_s: f64) -> f64 {
            let (dt, mut waited, begun) = (1.0 / TICKS as f64, 0.0, self.at_tx);
            for _ in 0..TICKS {
                if self.stop_until.is_none() && self.late_tx() > room_tx {
                    let mean = if self.mean_tps > 0.0 { self.mean_tps } else { tps };
                    self.stop_until = Some((room_tx - stop_s * mean).max(0.0));
                    self.budget = 0.0;
                }
                self.budget += dt * if self.stop_until.is_some() { at_once } else { written };
                while self.budget >= 1.0 && self.pages.pop_front().is_some() {
                    self.budget -= 1.0;
                }
                self.budget = self.budget.min(1.0);
                if let Some(until) = self.stop_until {
                    waited += dt;
                    self.stop_until = Some(until).filter(|until| self.late_tx() > *until);
                    continue;
                }
                self.at_tx += tps * dt;
                while self.added + 1.0 <= self.at_tx * due {
                    self.added += 1.0;
                    self.pages.push_back(self.added / due);
                }
            }
            let done = self.at_tx - begun;
            self.mean_tps = if self.mean_tps > 0.0 { self.mean_tps + 0.1 * (done - self.mean_tps) } else { done };
            waited
        }
    }

    /// Random loads on random logs against the flush list page by page. A stop of the reference is
    /// off by a tick at both ends and a page: 3 ms of half a second or more, of which the errors at
    /// begin and end mostly cancel. The last stop may begin in another tick: a tenth of a second.
    #[test]
    fn stops_are_those_of_a_flush_list_page_by_page() {
        let mut chance = ChaCha8Rng::seed_from_u64(25);
        let mut draw = |low: f64, high: f64| low + (high - low) * (chance.next_u32() as f64 / u32::MAX as f64);
        let mut stopped_runs = 0;
        for case in 0..24 {
            let (room_tx, due, at_once) = (draw(500.0, 3_000.0), draw(1.0, 8.0), draw(2_000.0, 6_000.0));
            let stop_s = draw(1.0, 3.0);
            let (mut ours, mut list, seconds) = (state(room_tx, stop_s), FlushList::new(), 120);
            let (mut ours_s, mut list_s) = (0.0, 0.0);
            let (mut tps, mut written) = (draw(100.0, 700.0), draw(500.0, 2_500.0));
            for second in 0..seconds {
                if second % 20 == 0 {
                    (tps, written) = (draw(100.0, 700.0), draw(500.0, 2_500.0));
                }
                let flushed = (written / tps).min(due + ours.late / tps);
                let stopped = ours.pass(1.0, tps, (due, flushed), 0.0, || at_once);
                ours_s += stopped.seconds;
                list_s += list.second(tps, due, (written, at_once), room_tx, stop_s);
            }
            stopped_runs += u32::from(list_s > 0.0);
            assert!((ours_s - list_s).abs() <= 0.006 * list_s + 0.1, "case {case}: {ours_s} s stopped, page by page {list_s} s");
        }
        assert!(stopped_runs >= 8, "random loads filled only {stopped_runs} logs");
    }

    /// Golden: 4 pages due a transaction at 600 tps are 2,400 a second, 2,000 are written, so 400
    /// are late; in a stop 2,800 are written. Clients wait for 400 / (400 + 2,800) = 1/8 of the
    /// time.
    /// Three seconds of the mean rate, 525 tps, are 6,300 pages: 15.75 s running, 2.25 s stopped.
    #[test]
    fn an_eighth_of_the_time_is_stopped() {
        let mut age = state(10_000.0, 3.0);
        age.late = 40_000.0;
        let long = age.pass(3_600.0, 600.0, (4.0, 2_000.0 / 600.0), 0.0, || 2_800.0);
        assert!((long.seconds / 3_600.0 - 0.125).abs() < 1e-12 && (long.pages / long.seconds - 2_800.0).abs() < 1e-9);
        let stops: Vec<f64> = (0..1_800).map(|_| age.pass(1.0, 600.0, (4.0, 2_000.0 / 600.0), 0.0, || 2_800.0).seconds).collect();
        // A cycle more or less of 100.
        assert!((stops.iter().sum::<f64>() / 1_800.0 - 0.125).abs() < 0.125 / 100.0);
        let begins = stops.windows(2).filter(|pair| pair[0] == 0.0 && pair[1] > 0.0).count();
        // The mean rate is smoothed over ten seconds and swings with the cycle: by a tenth.
        assert!((90..=110).contains(&begins), "{begins} stops in half an hour, 100 follow from 18 s each");
        assert!(stops.contains(&1.0));
    }

    /// Where the ceiling is not reached the log never fills, and what is written is what was due,
    /// to the bit.
    #[test]
    fn below_the_ceiling_nothing_is_late() {
        let writes = PageWrites { flush_limit_per_s: 2_000.0, background_per_s: 100.0, ..PageWrites::none() };
        for stop_s in [0.0, 3.0] {
            let mut age = state(1_000.0, stop_s);
            for second in 0..1_000 {
                let tps = 100.0 + f64::from(second % 300);
                assert_eq!(age.flushed(&writes, 4.7, tps, 1.0).to_bits(), 4.7f64.to_bits());
                assert_eq!(age.pass(1.0, tps, (4.7, 4.7), 100.0, || unreachable!("no stop")), Stopped::default());
            }
            assert_eq!(age.late, 0.0);
        }
    }

    /// A server that does not stop writes up to the ceiling until the log is full, then all that is
    /// due: 3,000 due a second against 2,000 fill 10,000 transactions of 5 pages each in 50 s.
    #[test]
    fn without_stops_the_ceiling_holds_until_the_log_is_full() {
        let writes = PageWrites { flush_limit_per_s: 2_000.0, ..PageWrites::none() };
        let mut age = state(10_000.0, 0.0);
        let flushed: Vec<f64> = (0..80)
            .map(|_| {
                let flushed = age.flushed(&writes, 5.0, 600.0, 1.0);
                assert_eq!(age.pass(1.0, 600.0, (5.0, flushed), 0.0, || 1.0), Stopped::default());
                600.0 * flushed
            })
            .collect();
        assert!(flushed[..50].iter().all(|pages| (pages - 2_000.0).abs() < 1e-6), "{flushed:?}");
        assert!(flushed[51..].iter().all(|pages| (pages - 3_000.0).abs() < 1e-6), "{flushed:?}");
    }

    /// The ceiling: 7.5 x 100 = (100 x)^1.5, and the shares that the sources name.
    #[test]
    fn laws_are_those_of_the_sources() {
        assert!((libm::pow(100.0 * CEILING, 1.5) / 7.5 - 100.0).abs() < 1e-3);
        let old = CheckpointLaw::of("mysql", "5.7.22");
        assert!((old.limit_share - 0.759_375).abs() < 1e-12 && old.stop_s == 3.0);
        assert_eq!(CheckpointLaw::of("mysql", "8.0.29"), old);
        assert_eq!(CheckpointLaw::of("percona", "8.0.30").stop_s, 0.0);
        assert_eq!(CheckpointLaw::of("mariadb", "10.11.6"), CheckpointLaw { limit_share: 0.9 * 0.9, stop_s: 0.0, ..old });
    }
}
