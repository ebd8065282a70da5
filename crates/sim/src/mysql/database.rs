//! A database as its storage sees it. Every number here is identified from a run (with what
//! certainty, the workload file says) or taken from a standard benchmark; nothing here knows a
//! volume.

use super::hot_rows::HotRows;
use super::last_orders::LastOrders;
use super::popularity::Popularity;
use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// Runs of pages are written and read in I/Os of this size: the doublewrite area, read-ahead,
/// sorted files.
pub const RUN_BYTES: f64 = 262_144.0;

/// Storage engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageEngine {
    /// InnoDB: pages updated in place, doublewrite, redo.
    Innodb,
    /// MyRocks: memtables, sorted files, compaction, WAL.
    Myrocks,
}

/// Writes of changed pages. InnoDB only; all zero for MyRocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageWrites {
    /// Pages that a transaction makes the flush list write once checkpointing runs steadily.
    pub flush_per_tx: f64,
    /// Transactions over which that builds up from nothing (an exponential approach): right after
    /// the start the redo log is young.
    pub flush_ramp_tx: f64,
    /// Share of dirty pages among those evicted that were read while the cache filled: the page
    /// cleaner had not written them back.
    pub first_dirty: f64,
    /// Share of dirty pages among those evicted that were read later, with the cache full.
    pub later_dirty: f64,
    /// Rise of the share of dirty pages among those evicted for rarely touched pages: it is in
    /// proportion to (touches of a page / mean over all pages)^-slope. 0: it is the same for all.
    pub dirty_slope: f64,
    /// Pages a second the page cleaner writes at any load, once the cache is full
    /// (innodb_io_capacity).
    pub background_per_s: f64,
    /// Most pages a second the flush list writes, background included (innodb_io_capacity_max).
    pub flush_limit_per_s: f64,
    /// Every page is written to the doublewrite area first, in runs of 256 KiB.
    pub doublewrite: bool,
}

/// Bytes and flushes of a commit's logs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Redo log or WAL, bytes of a transaction.
    pub redo_bytes_per_tx: f64,
    /// Binary log, bytes of a transaction.
    pub binlog_bytes_per_tx: f64,
    /// Synchronous writes, one after the other, of a transaction whose commits share no log write
    /// with others: [`super::settings::syncs_per_commit`] times its commits; 0 when the log is
    /// synced once a second.
    pub syncs_per_commit: f64,
    /// Commits of a transaction: none of one that only reads, one per writing statement under
    /// autocommit. Not known (files before it was kept): see [`Log::commits`].
    #[serde(default)]
    pub commits_per_tx: Option<f64>,
    /// Redo log in all that the figures of this database were measured or worked out with, bytes;
    /// none: not known.
    #[serde(default)]
    pub redo_capacity_bytes: Option<f64>,
}

/// Rules by which pages become dirty and clean again, if a benchmark's tables tell it by class.
/// Without them the dirty shares of [`PageWrites`] hold; with them these are factors on the shares
/// that follow from here, 1 by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dirtying {
    /// Share of touches that change the page, by class of the popularity.
    pub changed: Vec<f64>,
    /// Transactions within which a changed page is written, since its redo is about to be
    /// overwritten.
    pub window_tx: f64,
    /// [`PageWrites::flush_per_tx`] that means no correction of what the window writes, or with a
    /// page cleaner's rule of how often pages are changed.
    pub flush_per_tx: f64,
    /// Transactions within which touches of the first class that change no page come back to its
    /// changed pages ([`super::revisits`]); none: they may go to any of them (files before it was
    /// kept).
    #[serde(default)]
    pub revisit_tx: Option<f64>,
    /// Pages of undo: the last class, which does not grow with the data; 0: none is followed (files
    /// before it was kept).
    #[serde(default)]
    pub undo_pages: f64,
}

/// Settings of the page cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageCleaner {
    /// innodb_io_capacity, pages a second.
    pub io_capacity: f64,
    /// innodb_io_capacity_max, pages a second.
    pub io_capacity_max: f64,
    /// innodb_max_dirty_pages_pct, a share of the pool.
    pub most_dirty: f64,
    /// innodb_max_dirty_pages_pct_lwm, a share of the pool; 0: it is off.
    pub low_water: f64,
    /// innodb_adaptive_flushing_lwm, a share of the redo log.
    pub redo_low_water: f64,
    /// Flushing by age holds the age at its low water.
    pub holds_age: bool,
}

impl PageCleaner {
    /// Refuses values that no server takes.
    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::check_range("innodb_io_capacity (pages a second)", self.io_capacity, 0.0, 1e6)?;
        SimError::check_range("innodb_io_capacity_max (pages a second)", self.io_capacity_max, self.io_capacity, 1e9)?;
        SimError::check_range("innodb_max_dirty_pages_pct (share)", self.most_dirty, 0.0, 1.0)?;
        SimError::check_range("innodb_max_dirty_pages_pct_lwm (share)", self.low_water, 0.0, self.most_dirty)?;
        SimError::check_range("innodb_adaptive_flushing_lwm (share)", self.redo_low_water, 0.0, 0.7)
    }
}

/// Behavior of a server whose redo log fills. Shares are of the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointLaw {
    /// Age from which flushing by age writes all that innodb_io_capacity_max allows.
    pub ceiling_share: f64,
    /// Age beyond which pages are written without that ceiling.
    pub limit_share: f64,
    /// Age from which clients wait for those; below `limit_share` (0 in files before it was kept):
    /// from there.
    #[serde(default)]
    pub wait_share: f64,
    /// Seconds of redo whose pages are then written at once; 0: there is no such flush, and clients
    /// never wait.
    pub stop_s: f64,
}

/// MyRocks' compaction: each time that level 0 is full, it is merged down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Transactions from one to the next: memtable size / bytes per transaction x files in level 0
    /// that start it.
    pub period_tx: f64,
    /// Transactions until the first.
    pub first_tx: f64,
    /// Bytes one reads and writes, over the transactions of a period.
    pub read_bytes_per_tx: f64,
    /// Bytes one writes, over the transactions of a period (flushes of memtables included).
    pub write_bytes_per_tx: f64,
    /// Bytes a second it moves at most, reads and writes together.
    pub rate_bytes_s: f64,
    /// I/Os per transaction through a period over their mean, in equal parts of it: merged files
    /// come uncached, then warm up again.
    pub profile: Vec<f64>,
}

/// Position of compaction on its way through the transactions.
#[derive(Clone, Debug)]
pub(crate) struct CompactionClock {
    next_tx: f64,
    /// Bytes still to read and to write.
    pub remaining_bytes: [f64; 2],
}

impl CompactionClock {
    /// Makes the clock after `tx` transactions, with nothing left to do.
    pub fn new(compaction: Option<&Compaction>, tx: f64) -> CompactionClock {
        let next_tx = compaction.map_or(f64::INFINITY, |compaction| {
            let done = ((tx - compaction.first_tx) / compaction.period_tx).ceil().max(0.0);
            compaction.first_tx + done * compaction.period_tx
        });
        CompactionClock { next_tx, remaining_bytes: [0.0; 2] }
    }

    /// Goes on to `tx`, where compactions that are due begin; returns the factor of reads there.
    pub fn reach(&mut self, compaction: &Compaction, tx: f64) -> f64 {
        while tx >= self.next_tx {
            self.next_tx += compaction.period_tx;
            self.remaining_bytes[0] += compaction.read_bytes_per_tx * compaction.period_tx;
            self.remaining_bytes[1] += compaction.write_bytes_per_tx * compaction.period_tx;
        }
        let phase = 1.0 - (self.next_tx - tx) / compaction.period_tx;
        let parts = compaction.profile.len();
        // Before the first compaction no merged file has come back uncached.
        if phase < 0.0 {
            1.0
        } else {
            compaction.profile[((phase * parts as f64) as usize).min(parts - 1)]
        }
    }
}

/// Clients and processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Response time of a transaction with no I/O to wait for, ms: processor, network, locks.
    pub base_ms: f64,
    /// Processor time of a transaction without its I/Os, ms of one virtual CPU that shares its core
    /// with another at work; a core by itself needs less (`interval::SECOND_THREAD`).
    pub cpu_ms: f64,
    /// Exponent p of the transition of the throughput from the storage's caps to the rates that
    /// clients and processors allow: X = (sum of X_i^-p)^(-1/p).
    pub sharpness: f64,
    /// 95th percentile of response times over their mean.
    pub p95_over_mean: f64,
    /// Share of a transaction's processor time that only one transaction at a time can be in:
    /// latches. The contention of the universal scaling law. Files before it was kept: none.
    #[serde(default)]
    pub serial_share: f64,
    /// Speed of a core for which the times above hold: GHz x work per clock, Skylake's 1. Not
    /// known: they hold on any.
    #[serde(default)]
    pub core_speed: Option<f64>,
    /// Virtual CPUs of a core where no instance says it, 1 or 2: those of the machine that was
    /// measured. Not known: as of most servers, two.
    #[serde(default)]
    pub threads_per_core: Option<u32>,
    /// Clock of a core alone at work over that while all cores of its chip are, of the machine that
    /// was measured where no instance says it. Not known: as of most servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_faster: Option<f64>,
    /// Share of a transaction's processor time in which its turn passes between the client's thread
    /// and the server's, both on one host. Clients elsewhere, and files before it was kept: none.
    #[serde(default)]
    pub handover_share: f64,
    /// Share of a transaction's processor time that other threads of the server spend, for which
    /// no client waits: page cleaner, purge, writers of the log. Files before it was kept: none.
    #[serde(default)]
    pub background_share: f64,
    /// Processor time of an I/O beyond that of the transaction, ms as `cpu_ms`. Clients wait for
    /// that of their page reads. Files before it was kept: none.
    #[serde(default)]
    pub io_ms: f64,
    /// Part of `io_ms` that a program of the same machine spends which serves the volume, as a
    /// lab's does. It passes before the volume answers, so that the answer's time has it in it and
    /// no client waits for it besides. Volumes elsewhere, and files before it was kept: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub io_device_ms: f64,
    /// Part of the response time without I/O in which cores that sleep wake up for a client that is
    /// alone, ms. Clients near by, and files before it was kept: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wake_ms: f64,
}

/// [`Clients::serial_share`] of the standard benchmarks. Guess: on 40 cores a fifth of the time
/// somebody is in it, so that it is felt there and not on a few cores, as MySQL 8 is said to scale.
pub(crate) const SERIAL_SHARE: f64 = 0.005;

/// One-second tps around their mean: variance = fano x mean + (cv x mean)^2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Variance over mean of the part that counts events.
    pub fano: f64,
    /// Coefficient of variation of the part that does not shrink with load.
    pub cv: f64,
}

impl Noise {
    /// Returns the variance of the tps of a step of `seconds` around their `mean`: over a longer
    /// step the part that counts events averages out.
    pub fn variance(&self, mean: f64, seconds: f64) -> f64 {
        self.fano * mean / seconds + (self.cv * mean) * (self.cv * mean)
    }

    /// Returns the relative standard deviation that chance gives the mean of a run of `seconds` at
    /// `tps`, whose seconds do not know of each other.
    pub fn of_mean(&self, tps: f64, seconds: f64) -> f64 {
        ((self.fano / tps.max(1e-9) + self.cv * self.cv) / seconds.max(1.0)).sqrt()
    }
}

/// Part of the measured run that the physics leaves unexplained: I/Os per transaction, measured
/// over modelled, and the spread of response times. Points are sorted; ends hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoShape {
    /// While the cache fills, by transactions done.
    pub filling: Vec<(f64, f64)>,
    /// From then on, by how often the cache has been turned over.
    pub full: Vec<(f64, f64)>,
    /// 95th percentile of response times over their mean, by pages read per transaction: a
    /// transaction that misses more than others is the slower for it the colder the cache. None:
    /// [`Clients::p95_over_mean`] holds throughout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response: Vec<(f64, f64)>,
    /// Pages that are written at once and that a transaction may have to wait behind, once the
    /// cache evicts. 0: response times are spread in proportion to their mean.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub burst_pages: f64,
    /// 95th percentile over the mean of the time that a transaction takes besides the storage's
    /// part: kinds of transactions differ in their statements. The spreads above are then those of
    /// the storage's part alone. 0: they hold for all of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub statements_p95: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it so.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Share of touches that change a page. Guess: a third; TPC-C writes about half of the rows it
/// touches without the reads of stock-level.
pub(crate) const DIRTIED_SHARE: f64 = 1.0 / 3.0;

/// A database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Storage engine.
    pub engine: StorageEngine,
    /// Bytes of one read: a page of InnoDB, a compressed block of MyRocks on average.
    pub read_bytes: f64,
    /// Bytes one of them takes in the cache.
    pub cached_bytes: f64,
    /// Classes of pages by the rate of their touches.
    pub popularity: Popularity,
    /// Reads of the stock of the last orders, which are not in the popularity: they do not stay the
    /// same. None: the benchmark has none (files before it was kept).
    #[serde(default)]
    pub last_orders: Option<LastOrders>,
    /// Share of the cache that holds pages.
    pub usable_share: f64,
    /// Share of the list behind the midpoint, where pages enter: 3/8 by default in InnoDB; 1 for
    /// plain LRU.
    pub old_share: f64,
    /// Hits reorder the list while the cache fills. Not in InnoDB: nothing moves before the first
    /// eviction (buf_page_peek_if_too_old).
    pub ordered_while_filling: bool,
    /// Share of reads that come in runs of 256 KiB: read-ahead of scans.
    pub read_ahead_share: f64,
    /// Page writes.
    pub writes: PageWrites,
    /// Rules by which pages become dirty, if known by class.
    #[serde(default)]
    pub dirtying: Option<Dirtying>,
    /// The page cleaner, of effect with `dirtying`; none: a changed page is written once in its
    /// window (files before it was kept).
    #[serde(default)]
    pub cleaner: Option<PageCleaner>,
    /// Redo, WAL, binary log.
    pub log: Log,
    /// Behavior of the server when its redo log fills; none: it never fills (files before it was
    /// kept).
    #[serde(default)]
    pub checkpoint: Option<CheckpointLaw>,
    /// MyRocks' compaction.
    pub compaction: Option<Compaction>,
    /// Clients and processors.
    pub clients: Clients,
    /// Rows that transactions wait for, kind after kind in the order in which they are locked;
    /// empty: they wait for no row (files before they were kept).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_rows: Vec<HotRows>,
    /// One-second scatter.
    pub noise: Noise,
    /// Left unexplained.
    pub shape: IoShape,
    /// Speed at which the local disk of the run wrote, over that which the catalog assumes for a
    /// disk without a figure; none: the run was on other storage, or the disk is in the catalog.
    #[serde(default)]
    pub local_disk: Option<f64>,
    /// Reads for each write of the local disk, over those of the catalog's guess; none: 1 (files
    /// before it was kept).
    #[serde(default)]
    pub local_disk_reads: Option<f64>,
    /// Mean time of a page read on it with nothing to wait for, ms; none: the catalog's guess
    /// (files before it was kept).
    #[serde(default)]
    pub local_disk_read_ms: Option<f64>,
}

/// Returns the I/Os and bytes of one page of `page_bytes` written back: in its place, and with the
/// doublewrite area there first, in runs of 256 KiB.
pub fn page_write(page_bytes: f64, doublewrite: bool) -> (f64, f64) {
    if doublewrite {
        (1.0 + page_bytes / RUN_BYTES, 2.0 * page_bytes)
    } else {
        (1.0, page_bytes)
    }
}

/// More bytes of redo log than any server takes: innodb_redo_log_capacity ends at 128 GiB. A guess.
pub(crate) const MOST_REDO_BYTES: f64 = 1e15;
/// More pages a second than any device writes.
pub(crate) const UNLIMITED: f64 = 1e9;

impl Log {
    /// Returns the commits of a transaction. If they are not known: none of a transaction that logs
    /// nothing, else one, or as many as its syncs need at three each (full durability).
    pub fn commits(&self) -> f64 {
        let guessed = if self.redo_bytes_per_tx + self.binlog_bytes_per_tx > 0.0 { (self.syncs_per_commit / 3.0).max(1.0) } else { 0.0 };
        self.commits_per_tx.unwrap_or(guessed)
    }
}

impl PageWrites {
    /// Makes the writes of an engine or a load that writes no pages back.
    pub(crate) fn none() -> PageWrites {
        PageWrites {
            flush_per_tx: 0.0,
            flush_ramp_tx: 0.0,
            first_dirty: 0.0,
            later_dirty: 0.0,
            dirty_slope: 0.0,
            background_per_s: 0.0,
            flush_limit_per_s: UNLIMITED,
            doublewrite: false,
        }
    }

    /// Returns the pages a second that the cleaner writes in the background at `tps`: not more than
    /// transactions dirty less what is written already, `written_per_tx`. 0 tps: not known yet.
    #[inline]
    pub fn background(&self, tps: f64, touches_per_tx: f64, written_per_tx: f64) -> f64 {
        let dirtied = (DIRTIED_SHARE * touches_per_tx - written_per_tx).max(0.0) * tps;
        if tps > 0.0 {
            self.background_per_s.min(dirtied)
        } else {
            self.background_per_s
        }
    }

    /// Returns the pages per transaction, of the `flushed` ones, that the limit lets the flush list
    /// write at `tps`, on top of the background.
    #[inline]
    pub fn limited(&self, flushed: f64, tps: f64) -> f64 {
        flushed.min((self.flush_limit_per_s - self.background_per_s).max(0.0) / tps.max(1e-9))
    }
}

impl Database {
    /// Makes the database over `factor` times the data.
    pub fn grown(&self, factor: f64) -> Database {
        let mut grown = Database { popularity: self.popularity.grown(factor), last_orders: self.last_orders.map(|last| last.grown(factor)), ..self.clone() };
        grown.writes.flush_ramp_tx *= factor;
        if let Some(dirtying) = &mut grown.dirtying {
            dirtying.revisit_tx = dirtying.revisit_tx.map(|tx| tx * factor);
            if dirtying.undo_pages > 0.0 {
                grown.popularity.classes.pop();
                grown.popularity.classes.extend(self.popularity.classes.last());
            }
        }
        grown.hot_rows.iter_mut().for_each(|kind| kind.rows = (kind.rows * factor).max(1.0));
        grown.shape.filling.iter_mut().for_each(|point| point.0 *= factor);
        grown
    }

    /// Makes the database with dirty shares that are what a settled cache of `cache_bytes` evicts,
    /// whatever the pages: for those who change which pages are touched.
    pub fn with_fixed_dirtying(&self, cache_bytes: f64) -> Database {
        let mut fixed = self.with_independent_touches(self.cache_pages(cache_bytes));
        fixed.cleaner = None;
        if let Some(dirtying) = fixed.dirtying.take() {
            let share = fixed.popularity.evicted_dirty(&dirtying.changed, self.cache_pages(cache_bytes)).unwrap_or(0.0);
            fixed.writes.first_dirty *= share;
            fixed.writes.later_dirty *= share;
        }
        fixed
    }

    /// Returns the speeds of writes and of reads of a local disk without a figure, over the
    /// catalog's guess.
    pub fn local_disk_speeds(&self) -> (f64, f64) {
        let writes = self.local_disk.unwrap_or(1.0);
        (writes, writes * self.local_disk_reads.unwrap_or(1.0))
    }

    /// Returns the I/Os and bytes of one page written back.
    pub fn page_write(&self) -> (f64, f64) {
        page_write(self.cached_bytes, self.writes.doublewrite)
    }

    /// Returns the pages that fit a cache of `cache_bytes`.
    pub fn cache_pages(&self, cache_bytes: f64) -> f64 {
        cache_bytes * self.usable_share / self.cached_bytes
    }

    /// Refuses a database with a value out of bounds; the error names the first of them.
    pub fn check(&self) -> Result<(), SimError> {
        let writes = &self.writes;
        let ranges = [
            ("bytes of a read", self.read_bytes, 512.0, 262_144.0),
            ("bytes of a cached page", self.cached_bytes, 512.0, 262_144.0),
            ("usable share of the cache", self.usable_share, 0.01, 1.0),
            ("share of the list behind the midpoint", self.old_share, 0.05, 1.0),
            ("read-ahead share", self.read_ahead_share, 0.0, 1.0),
            ("pages flushed per transaction", writes.flush_per_tx, 0.0, 1e5),
            ("transactions until flushing runs steadily", writes.flush_ramp_tx, 0.0, 1e12),
            ("dirty share of pages read while filling", writes.first_dirty, 0.0, 2.0),
            ("dirty share of pages read later", writes.later_dirty, 0.0, 2.0),
            ("slope of dirty shares", writes.dirty_slope, 0.0, 2.0),
            ("pages written in the background a second", writes.background_per_s, 0.0, 1e6),
            ("most pages flushed a second", writes.flush_limit_per_s, 0.0, 1e9),
            ("redo bytes of a transaction", self.log.redo_bytes_per_tx, 0.0, 1e9),
            ("binlog bytes of a transaction", self.log.binlog_bytes_per_tx, 0.0, 1e9),
            ("syncs of a commit", self.log.syncs_per_commit, 0.0, 16.0),
            ("commits of a transaction", self.log.commits(), 0.0, 1e4),
            ("speed of the local disk over the catalog's guess", self.local_disk.unwrap_or(1.0), 1e-3, 1e3),
            ("reads of the local disk for each write over the catalog's guess", self.local_disk_reads.unwrap_or(1.0), 1e-3, 1e3),
            ("page read of the local disk (ms)", self.local_disk_read_ms.unwrap_or(0.1), 1e-3, 1e3),
            ("redo log (bytes)", self.log.redo_capacity_bytes.unwrap_or(1e9), 1.0, MOST_REDO_BYTES),
            ("response time without I/O (ms)", self.clients.base_ms, 0.0, 1e7),
            ("processor time of a transaction (ms)", self.clients.cpu_ms, 0.0, 1e7),
            ("time of waking up (ms)", self.clients.wake_ms, 0.0, 1e7),
            ("sharpness", self.clients.sharpness, 1.0, 64.0),
            ("serial share of the processor time", self.clients.serial_share, 0.0, 1.0),
            ("share of the processor time that no client waits for", self.clients.background_share, 0.0, 0.95),
            ("processor time of an I/O (ms)", self.clients.io_ms, 0.0, 1e4),
            ("processor time of an I/O before its volume answers (ms)", self.clients.io_device_ms, 0.0, 1e4),
            ("clock of a core alone over that of all", self.clients.alone_faster.unwrap_or(1.0), 1.0, 10.0),
            ("speed of a core", self.clients.core_speed.unwrap_or(1.0), 0.01, 1_000.0),
            ("95th percentile over mean", self.clients.p95_over_mean, 1.0, 100.0),
            ("Fano factor", self.noise.fano, 0.0, 1e6),
            ("coefficient of variation", self.noise.cv, 0.0, 10.0),
        ];
        for (what, value, low, high) in ranges {
            SimError::check_range(what, value, low, high)?;
        }
        SimError::check_range("number of page classes", self.popularity.classes.len() as f64, 1.0, 256.0)?;
        for class in &self.popularity.classes {
            SimError::check_range("pages of a class", class.pages, 0.0, 1e13)?;
            SimError::check_range("touches of a page by a transaction", class.touches_per_tx, 0.0, 1e6)?;
        }
        SimError::check_range("pages of all classes", self.popularity.pages(), 1.0, 1e15)?;
        self.shape.check()?;
        if let Some(dirtying) = &self.dirtying {
            dirtying.check(self.popularity.classes.len())?;
        }
        self.cleaner.as_ref().map_or(Ok(()), PageCleaner::check)?;
        self.hot_rows.iter().try_for_each(HotRows::check)?;
        self.last_orders.as_ref().map_or(Ok(()), LastOrders::check)?;
        self.checkpoint.as_ref().map_or(Ok(()), CheckpointLaw::check)?;
        self.compaction.as_ref().map_or(Ok(()), Compaction::check)
    }
}

impl IoShape {
    /// Refuses points that are not sorted or out of bounds.
    fn check(&self) -> Result<(), SimError> {
        for points in [&self.filling, &self.full] {
            let mut last = 0.0;
            for &(at, factor) in points {
                SimError::check_range("position of a point of the shape (sorted)", at, last, 1e15)?;
                SimError::check_range("measured over modelled I/Os per transaction", factor, 0.05, 20.0)?;
                last = at;
            }
        }
        let mut last = 0.0;
        for &(reads, ratio) in &self.response {
            SimError::check_range("pages read per transaction of a point of the shape (sorted)", reads, last, 1e7)?;
            SimError::check_range("95th percentile over mean of a point of the shape", ratio, 1.0, 100.0)?;
            last = reads;
        }
        SimError::check_range("pages that are written at once", self.burst_pages, 0.0, 1e9)?;
        if self.statements_p95 != 0.0 {
            SimError::check_range("95th percentile over mean of the statements' time", self.statements_p95, 1.0, 100.0)?;
        }
        Ok(())
    }
}

impl Dirtying {
    /// Refuses values out of bounds, and a number of shares other than that of the `classes`.
    fn check(&self, classes: usize) -> Result<(), SimError> {
        SimError::check_range("shares of touches that change a page (one a class)", self.changed.len() as f64, classes as f64, classes as f64)?;
        self.changed.iter().try_for_each(|share| SimError::check_range("share of touches that change a page", *share, 0.0, 1.0))?;
        SimError::check_range("transactions until a changed page is written", self.window_tx, 1e-3, 1e12)?;
        SimError::check_range("transactions within which changed pages are touched again", self.revisit_tx.unwrap_or(1.0), 1e-3, 1e15)?;
        SimError::check_range("pages of undo", self.undo_pages, 0.0, 1e9)?;
        SimError::check_range("pages flushed per transaction without a correction", self.flush_per_tx, 0.0, 1e5)
    }
}

impl CheckpointLaw {
    /// Refuses values out of bounds.
    fn check(&self) -> Result<(), SimError> {
        SimError::check_range("age of the checkpoint at the ceiling of flushing (share of the redo log)", self.ceiling_share, 0.0, 1.0)?;
        SimError::check_range("age of the checkpoint at its limit (share of the redo log)", self.limit_share, self.ceiling_share, 1.0)?;
        SimError::check_range("age of the checkpoint at which clients wait (share of the redo log)", self.wait_share, 0.0, 1.0)?;
        SimError::check_range("redo that is flushed at once (s)", self.stop_s, 0.0, 60.0)
    }
}

impl Compaction {
    /// Refuses values out of bounds.
    fn check(&self) -> Result<(), SimError> {
        SimError::check_range("transactions of a compaction period", self.period_tx, 1.0, 1e12)?;
        SimError::check_range("transactions until the first compaction", self.first_tx, 0.0, 1e12)?;
        SimError::check_range("bytes compaction reads per transaction", self.read_bytes_per_tx, 0.0, 1e9)?;
        SimError::check_range("bytes compaction writes per transaction", self.write_bytes_per_tx, 0.0, 1e9)?;
        SimError::check_range("bytes a second of compaction", self.rate_bytes_s, 1e3, 1e12)?;
        SimError::check_range("parts of a compaction profile", self.profile.len() as f64, 1.0, 1_000.0)?;
        self.profile.iter().try_for_each(|part| SimError::check_range("part of a compaction profile", *part, 0.05, 20.0))
    }
}
