//! The writers in the background of the clients: logs, the page cleaner, compaction.

use super::draws::{Draws, LOG_AREA_BYTES};
use crate::mysql::cleaner::ROUND_DEPTH;
use crate::mysql::database::{Compaction, CompactionClock, Database, RUN_BYTES};
use headrace_model::{Io, Nanos, Op};

/// [`RUN_BYTES`] as the length of a request.
pub const RUN: u32 = RUN_BYTES as u32;
/// I/Os it keeps outstanding where pages are written as they come (guess).
const STEADY_DEPTH: u32 = 64;
/// A round of the page cleaner begins this long after the last one, if that is over
/// (`buf_flush_page_cleaner_thread`).
const ROUND: Nanos = Nanos(1_000_000_000);
/// I/Os compaction keeps outstanding (guess).
pub const COMPACTION_DEPTH: u32 = 32;
/// Background work is handed out this often, ten milliseconds: finer than a row, coarser than an
/// I/O.
pub const TICK: Nanos = Nanos(10_000_000);

/// One log: at most one write under way, and the transactions that wait for it and for the next.
#[derive(Default)]
pub struct LogWriter {
    pub start: u64,
    pub at: u64,
    pub bytes: f64,
    /// Transactions that wait for the next write.
    pub waiting: Vec<u32>,
    /// Transactions that the write under way commits together.
    pub group: Vec<u32>,
    pub busy: bool,
}

impl LogWriter {
    /// Takes the next write of at most `most` bytes, whole sectors, going round in its area.
    pub fn next(&mut self, most: f64) -> Io {
        let bytes = (self.bytes.min(most) / 512.0).ceil().max(1.0) * 512.0;
        self.bytes = (self.bytes - bytes).max(0.0);
        if self.at + bytes as u64 > LOG_AREA_BYTES {
            self.at = 0;
        }
        let offset = self.start + self.at;
        self.at += bytes as u64;
        Io { op: Op::Write, offset, bytes: bytes as u32 }
    }
}

/// The page cleaner. Slots that carry a run say how many pages it holds.
///
/// MySQL's works in rounds: what is to be written within a second is written at once at its begin,
/// and clients wait behind it; for the rest of the second the device is theirs. MariaDB's is woken
/// by readers that need free pages (`buf_pool_t::page_cleaner_wakeup`).
pub struct Cleaner {
    depth: u32,
    pub fraction: f64,
    pub owed: u64,
    /// Not yet in the doublewrite area; on the way there; through it, to be written in place;
    /// written.
    pub waiting: u64,
    pub in_runs: u64,
    pub ready: u64,
    pub written: u64,
    pub batch: u64,
    pub doublewrite: bool,
    pub run_bytes: u32,
    pub run_at: u64,
    pub carries: Vec<u64>,
    pub free: Vec<u32>,
    /// Pages of the next round; none where pages are written as they come.
    gathered: Option<f64>,
    /// The next round begins at this time at the earliest.
    next_round: Nanos,
}

impl Cleaner {
    /// Makes the cleaner of a database, which has nothing to write yet.
    pub fn new(database: &Database) -> Cleaner {
        let batch = ((RUN_BYTES / database.cached_bytes) as u64).max(1);
        let in_rounds = database.is_asked_by_rule();
        let depth = if in_rounds { ROUND_DEPTH } else { STEADY_DEPTH };
        Cleaner {
            depth,
            fraction: 0.0,
            owed: 0,
            waiting: 0,
            in_runs: 0,
            ready: 0,
            written: 0,
            batch,
            doublewrite: database.writes.doublewrite,
            run_bytes: ((batch as f64 * database.cached_bytes / 512.0).round() as u32) * 512,
            run_at: 0,
            carries: vec![0; depth as usize],
            free: (0..depth).rev().collect(),
            gathered: in_rounds.then_some(0.0),
            next_round: Nanos::ZERO,
        }
    }

    /// Begins the next round where it is time. Returns whether one has begun.
    pub fn begin_round(&mut self, now: Nanos) -> bool {
        if self.gathered.is_none() || now < self.next_round || self.behind() >= self.batch {
            return false;
        }
        self.next_round = now + ROUND;
        self.hurry();
        true
    }

    /// Hands out the pages of the next round, as a synchronous flush does.
    pub fn hurry(&mut self) {
        if let Some(gathered) = &mut self.gathered {
            let pages = std::mem::take(gathered);
            self.owe_now(pages);
        }
    }

    /// Returns whether clients wait for it: more than `pages` wait to be written, or for the round
    /// after the one under way.
    pub fn is_behind(&self, pages: u64) -> bool {
        self.gathered.map_or(self.behind() > pages, |gathered| self.behind() >= self.batch && gathered > pages as f64)
    }

    /// Returns the pages that it was handed and has not written.
    pub fn behind(&self) -> u64 {
        self.owed - self.written
    }

    /// Returns the pages that will be written even if no more are handed to it: all but a last part
    /// of a run, which waits for more.
    pub fn sure_of_all(&self) -> u64 {
        self.owed.saturating_sub(if self.doublewrite { self.batch - 1 } else { 0 })
    }

    /// Hands it pages to write: now, or in the next round.
    pub fn owe(&mut self, pages: f64) {
        match &mut self.gathered {
            Some(gathered) => *gathered += pages,
            None => self.owe_now(pages),
        }
    }

    /// Hands it pages to write now, of which a fraction of a page is kept for the next call.
    fn owe_now(&mut self, pages: f64) {
        self.fraction += pages;
        let whole = self.fraction.floor();
        self.fraction -= whole;
        self.owed += whole as u64;
        *(if self.doublewrite { &mut self.waiting } else { &mut self.ready }) += whole as u64;
    }

    /// Takes the slot of the next write and the pages that it carries to the doublewrite area; 0:
    /// it is one page in its place. None if nothing waits or no slot is free.
    pub fn next(&mut self) -> Option<(u32, u64)> {
        let slot = *self.free.last()?;
        // Runs are mixed with single pages. All runs first would wait for the byte cap and all
        // pages after them for the IOPS cap, each while the other cap is idle.
        let room = self.ready + self.in_runs + self.batch <= u64::from(self.depth).max(self.batch);
        let carries = if room && self.waiting >= self.batch {
            self.waiting -= self.batch;
            self.in_runs += self.batch;
            self.batch
        } else if self.ready > 0 {
            self.ready -= 1;
            0
        } else {
            return None;
        };
        self.free.pop();
        self.carries[slot as usize] = carries;
        Some((slot, carries))
    }
}

/// Compaction, on the interval form's periods.
pub struct CompactionRuns<'a> {
    compaction: Option<&'a Compaction>,
    clock: CompactionClock,
    /// Bytes that the rate lets it move now.
    credit: f64,
    /// Offsets of the next read and write, bytes.
    at: [u64; 2],
    pub free: Vec<u32>,
}

impl<'a> CompactionRuns<'a> {
    /// Makes the compaction of a database that has done `tx` transactions; without one it never
    /// runs.
    pub fn new(compaction: Option<&'a Compaction>, tx: f64) -> CompactionRuns<'a> {
        CompactionRuns { compaction, clock: CompactionClock::new(compaction, tx), credit: 0.0, at: [0; 2], free: (0..COMPACTION_DEPTH).rev().collect() }
    }

    /// Returns the factor of reads at `tx`; begins a compaction when it is time.
    pub fn factor(&mut self, tx: f64) -> f64 {
        self.compaction.map_or(1.0, |compaction| self.clock.reach(compaction, tx))
    }

    /// Returns whether bytes are left to be read or written.
    pub fn is_running(&self) -> bool {
        self.clock.remaining_bytes.iter().sum::<f64>() >= 1.0
    }

    /// Adds the bytes that the rate lets it move in a tick.
    pub fn earn(&mut self) {
        let Some(compaction) = self.compaction else { return };
        let earned = compaction.rate_bytes_s * TICK.as_secs_f64();
        self.credit = if self.is_running() { (self.credit + earned).min(2.0 * earned + 8.0 * RUN_BYTES) } else { 0.0 };
    }

    /// Takes the next run that the rate and the outstanding ones allow, over the places of the data
    /// device.
    pub fn next(&mut self, draws: &Draws) -> Option<(u32, Io)> {
        let compaction = self.compaction?;
        // Reads and writes advance in proportion.
        let share = |remaining: f64, all: f64| if all > 0.0 { remaining / all } else { 0.0 };
        let kind = usize::from(
            share(self.clock.remaining_bytes[0], compaction.read_bytes_per_tx) < share(self.clock.remaining_bytes[1], compaction.write_bytes_per_tx),
        );
        let bytes = (self.clock.remaining_bytes[kind].min(RUN_BYTES) / 512.0).ceil() * 512.0;
        if !self.is_running() || self.credit < bytes {
            return None;
        }
        let slot = self.free.pop()?;
        self.credit -= bytes;
        self.clock.remaining_bytes[kind] = (self.clock.remaining_bytes[kind] - bytes).max(0.0);
        // Sorted files are read from one half of the device and written to the other.
        let half = draws.places * draws.align / 2;
        self.at[kind] = if self.at[kind] + 2 * u64::from(RUN) > half { 0 } else { self.at[kind] + u64::from(RUN) };
        let offset = (draws.first_page + kind as u64 * half + self.at[kind]) / u64::from(RUN) * u64::from(RUN);
        Some((slot, Io { op: if kind == 0 { Op::Read } else { Op::Write }, offset, bytes: bytes as u32 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::sysbench::{Distribution, Oltp};
    use crate::mysql::PageCleaner;
    use std::collections::VecDeque;

    fn cleaner(flavor: &str) -> Cleaner {
        let cleaner = Some(PageCleaner::of_server(flavor, if flavor == "mysql" { "9.7.4" } else { "10.11.0" }));
        let oltp = Oltp { distribution: Distribution::Pareto { h: 0.2 }, cleaner, tables: 8, table_size: 1_000_000, ..Oltp::default() };
        Cleaner::new(&oltp.database().unwrap())
    }

    /// Hands out all that the cleaner writes now, each I/O done in its turn; returns the most that
    /// were outstanding.
    fn write_all(cleaner: &mut Cleaner) -> u32 {
        let (mut under_way, mut most) = (VecDeque::new(), 0);
        loop {
            while let Some(next) = cleaner.next() {
                under_way.push_back(next);
            }
            most = most.max(under_way.len() as u32);
            let Some((slot, carries)) = under_way.pop_front() else { return most };
            cleaner.free.push(slot);
            cleaner.in_runs -= carries;
            cleaner.ready += carries;
            cleaner.written += u64::from(carries == 0);
        }
    }

    /// A thousand pages of a second, twenty at a time: none is written before the second is over,
    /// then all but a last part of a run, 128 outstanding; the next round waits for its second, and
    /// for pages that are left. A synchronous flush does not wait.
    #[test]
    fn rounds_gather_a_second() {
        let mut mysql = cleaner("mysql");
        assert!(mysql.begin_round(Nanos::ZERO) && mysql.next().is_none());
        (0..50).for_each(|_| mysql.owe(20.0));
        assert!(!mysql.begin_round(Nanos(ROUND.0 - 1)) && mysql.next().is_none());
        assert!(mysql.begin_round(ROUND));
        assert_eq!((mysql.behind(), write_all(&mut mysql), mysql.behind()), (1_000, ROUND_DEPTH, 1_000 % mysql.batch));
        mysql.owe(2_000.0);
        assert!(!mysql.is_behind(1_024), "nothing is under way");
        mysql.hurry();
        mysql.owe(1_100.0);
        assert!(mysql.is_behind(1_024) && !mysql.begin_round(Nanos(9 * ROUND.0)));
        write_all(&mut mysql);
        assert!(!mysql.is_behind(1_024) && mysql.begin_round(Nanos(9 * ROUND.0)));
    }

    #[test]
    fn mariadb_writes_pages_as_they_come() {
        let mut mariadb = cleaner("mariadb");
        mariadb.owe(2_000.0);
        assert!(mariadb.is_behind(1_024) && !mariadb.begin_round(Nanos(9 * ROUND.0)));
        assert_eq!(write_all(&mut mariadb), STEADY_DEPTH);
    }
}
