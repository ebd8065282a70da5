//! Applies server settings and memory to a database.
//!
//! Used by calibrations (what a run's settings decide outright), by the advice (what another
//! setting would bring), by proofs (the same data behind another cache), by the planner and the
//! lab's servers (how large a cache an instance has room for). Decided in docs/decisions/0006.

use super::costs::{Costs, Flavor};
use super::database::{CheckpointLaw, Database, PageCleaner, StorageEngine, DIRTIED_SHARE, MOST_REDO_BYTES};
use crate::error::SimError;
use serde::Deserialize;

/// Share of memory given to the cache (InnoDB's buffer pool, MyRocks' block cache and memtables).
/// MySQL's own rule for a server that has its machine to itself: 75 % above 4 GiB, 50 % from 1 to 4
/// GiB (innodb_dedicated_server, "Enabling Automatic InnoDB Configuration"); the default parameter
/// groups of Amazon RDS take 3/4 too (innodb_buffer_pool_size = {DBInstanceClassMemory*3/4}).
pub const CACHE_SHARE: f64 = 0.75;

/// Left to the operating system, connections and everything else, GiB; half of a memory below twice
/// that. With [`CACHE_SHARE`] this is MySQL's table without its jump from 50 to 75 % at 4 GiB: up
/// to 4 GiB a half, from 8 GiB on three quarters, in between all but 2 GiB. The 2 GiB between 4 and
/// 8 are a guess.
const LEFT_GIB: f64 = 2.0;

/// Share of a redo log filled before pages must be written. Guess: between adaptive flushing's
/// start (10 %) and the synchronous limit (about 7/8).
pub(crate) const REDO_USABLE: f64 = 0.75;

/// Synchronous writes of one sync of the binary log: it grows, so its data are written, then the
/// filesystem's journal (fdatasync on gp2 is two device writes long: OpenShift report of 2021).
const BINLOG_WRITES: f64 = 2.0;

/// The settings go to 2^64 - 1; no volume writes a million pages a second, and the standard's limit
/// is none ([`super::database::UNLIMITED`]).
const MOST_PAGES_PER_S: f64 = 1e6;
/// Pages a second that no device reaches: as good as no limit.
const NO_LIMIT_PER_S: f64 = 1e9;

/// Most of a pool that holds data: control blocks and hashes take a hundredth (MariaDB 10.11:
/// Innodb_buffer_pool_pages_total over the pool's pages is 0.990).
const MOST_USABLE: f64 = 0.99;
/// Pages that a pool keeps whatever is wanted free: BUF_LRU_MIN_LEN (buf0lru.h of both flavours).
const LEAST_PAGES: f64 = 256.0;

/// Longer than any page of a cache that holds all data is waited for, transactions.
const MOST_STAY_TX: f64 = 1e12;

/// Most that [`Database::check`] takes for a dirty share.
const MOST_DIRTY: f64 = 2.0;

/// Returns the GiB of cache that a memory of `memory_gib` has room for; `share` of it at most,
/// [`CACHE_SHARE`] where none is given.
pub fn cache_gib_for(memory_gib: f64, share: Option<f64>) -> f64 {
    let reserved = LEFT_GIB.min(memory_gib / 2.0);
    (memory_gib * share.unwrap_or(CACHE_SHARE)).min(memory_gib - reserved).max(0.0)
}

/// Returns whether a version, such as 8.0.27, is at least `least`; parts it does not have are 0.
pub fn at_least(version: &str, least: [u32; 3]) -> bool {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    (0..3).map(|i| parts.get(i).copied().unwrap_or(0)).ge(least)
}

/// innodb_buffer_pool_chunk_size, bytes: a pool grows by as much (default of both flavours).
const CHUNK_BYTES: f64 = 134_217_728.0;

/// Returns the bytes of the pool that a server makes where `asked_bytes` are set: MySQL from 5.7.5
/// rounds up to whole chunks of all instances (its manual, "Configuring InnoDB Buffer Pool Size");
/// a pool that is smaller than that has smaller chunks. MariaDB does so from 10.2 to 10.8.0, and
/// then has chunks of a 64th of the pool, which come to almost the same
/// (innodb_buffer_pool_chunk_size). Seen with MySQL 9.7.4: replicas with 156 and 224 MiB read as
/// much a transaction, and those with 260 and 344 (2026-11-23).
pub fn pool_bytes(flavor: &str, version: &str, asked_bytes: f64, vcpus: u32) -> f64 {
    let rounds = if flavor == "mariadb" { at_least(version, [10, 2, 0]) && !at_least(version, [10, 8, 1]) } else { at_least(version, [5, 7, 5]) };
    let unit = CHUNK_BYTES * pool_instances(flavor, version, asked_bytes, vcpus);
    if rounds && asked_bytes > unit {
        (asked_bytes / unit).ceil() * unit
    } else {
        asked_bytes
    }
}

/// Returns the instances of a buffer pool where none are set (innodb_buffer_pool_instances in the
/// manuals of MySQL 8.0 and 8.4; MariaDB has one from 10.5). MySQL: one below 1 GiB; up to 8.3
/// eight; from 8.4 half as many as the pool has chunks of 128 MiB, but no more than a quarter of
/// the processors, 1 to 64.
pub fn pool_instances(flavor: &str, version: &str, pool_bytes: f64, vcpus: u32) -> f64 {
    const GIB: f64 = 1_073_741_824.0;
    if flavor == "mariadb" || pool_bytes < GIB {
        1.0
    } else if at_least(version, [8, 4, 0]) {
        (0.5 * pool_bytes / CHUNK_BYTES).min(f64::from(vcpus) / 4.0).floor().clamp(1.0, 64.0)
    } else {
        8.0
    }
}

/// Returns the pages that a page cleaner keeps free for reads to come, on average. MariaDB from
/// 10.6 begins below half of innodb_lru_scan_depth (1,536) and ends at all of it
/// (buf_pool_t::need_LRU_eviction): three quarters of it; 800 to 1,500 were seen (10.11, pools of
/// 30 to 300 MiB, 2026-11-23). MySQL fills each instance's list up to innodb_lru_scan_depth (1,024)
/// once a second; 1,013 were seen (9.7.4, 128 MiB).
pub fn free_pages(flavor: &str, version: &str, pool_bytes: f64, vcpus: u32) -> f64 {
    let each = if flavor == "mariadb" { 0.75 * 1_536.0 } else { 1_024.0 };
    each * pool_instances(flavor, version, pool_bytes, vcpus)
}

/// Returns the synchronous writes, one after the other, of a commit that shares no log write with
/// others. The redo log (or WAL) with `flush_log_at_trx_commit` = 1; with 3, as MariaDB up to 5.5
/// did (its manual), at prepare and at commit where there is a binary log. The binary log at every
/// `sync_binlog`-th commit, never with 0.
pub fn syncs_per_commit(flush_log_at_trx_commit: u8, log_bin: bool, sync_binlog: u32) -> f64 {
    let redo = match flush_log_at_trx_commit {
        1 => 1.0,
        3 => 1.0 + f64::from(u8::from(log_bin)),
        _ => 0.0,
    };
    redo + if log_bin && sync_binlog > 0 { BINLOG_WRITES / f64::from(sync_binlog) } else { 0.0 }
}

/// Settings of a server, by the server's own names; what is not given stays as the database has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// innodb_flush_log_at_trx_commit or rocksdb_flush_log_at_trx_commit. With one of the three
    /// that decide syncs given, the others are 1, as the database writes, and 1.
    pub flush_log_at_trx_commit: Option<u8>,
    /// True if a binary log is written; its bytes are the database's.
    pub log_bin: Option<bool>,
    /// sync_binlog: commits per sync; 0 never.
    pub sync_binlog: Option<u32>,
    /// innodb_doublewrite.
    pub doublewrite: Option<bool>,
    /// innodb_io_capacity, pages a second: the cleaner's, or written in the background.
    pub io_capacity: Option<f64>,
    /// innodb_io_capacity_max, most pages a second flushed.
    pub io_capacity_max: Option<f64>,
    /// innodb_max_dirty_pages_pct, percent of the pool; with this and the next two a database needs
    /// a page cleaner.
    pub max_dirty_pages_pct: Option<f64>,
    /// innodb_max_dirty_pages_pct_lwm, percent of the pool.
    pub max_dirty_pages_pct_lwm: Option<f64>,
    /// innodb_adaptive_flushing_lwm, percent of the redo log.
    pub adaptive_flushing_lwm: Option<f64>,
    /// Redo log in all, bytes. It changes how much is flushed where the one the database was
    /// measured with is known (`Log::redo_capacity_bytes`, or `measured_redo_bytes` instead of it).
    pub redo_bytes: Option<f64>,
    /// See `redo_bytes`.
    pub measured_redo_bytes: Option<f64>,
    /// Cache of the server, bytes. Given with `redo_bytes` where the database is a standard whose
    /// figures stand for a log without end: what leaves the cache dirty, and what is written in the
    /// background, then is what the log has not asked for before ([`unwritten_share`]).
    pub cache_bytes: Option<f64>,
    /// rocksdb_rate_limiter_bytes_per_sec. It counts writes (RateLimiter::Mode::kWritesOnly, the
    /// default); the model's rate is of reads and writes of a compaction together.
    pub compaction_write_bytes_s: Option<f64>,
}

impl ServerSettings {
    /// Makes the database under these settings.
    ///
    /// # Errors
    /// Values that no server takes.
    pub fn on(&self, database: &Database) -> Result<Database, SimError> {
        self.check()?;
        let mut configured = database.clone();
        if self.log_bin == Some(false) {
            configured.log.binlog_bytes_per_tx = 0.0;
        }
        if self.flush_log_at_trx_commit.is_some() || self.log_bin.is_some() || self.sync_binlog.is_some() {
            let syncs = syncs_per_commit(self.flush_log_at_trx_commit.unwrap_or(1), configured.log.binlog_bytes_per_tx > 0.0, self.sync_binlog.unwrap_or(1));
            configured.log.syncs_per_commit = database.log.commits() * syncs;
            configured.log.commits_per_tx = Some(database.log.commits());
        }
        if configured.engine == StorageEngine::Innodb {
            let writes = &mut configured.writes;
            writes.doublewrite = self.doublewrite.unwrap_or(writes.doublewrite);
            if let Some(cleaner) = &mut configured.cleaner {
                self.set_cleaner(cleaner)?;
            } else {
                self.refuse_cleaner()?;
                writes.background_per_s = self.io_capacity.map_or(writes.background_per_s, |pages| pages.min(MOST_PAGES_PER_S));
            }
            writes.flush_limit_per_s = self.io_capacity_max.map_or(writes.flush_limit_per_s, |pages| pages.min(NO_LIMIT_PER_S));
            let measured = self.measured_redo_bytes.or(database.log.redo_capacity_bytes);
            writes.flush_per_tx *= self.redo_bytes.zip(measured).map_or(1.0, |(bytes, measured)| flushing_ratio(database, bytes, measured));
            if let (Some(dirtying), Some((bytes, measured))) = (&mut configured.dirtying, self.redo_bytes.zip(measured)) {
                // The window is as long as the log; what it writes follows in the cache.
                writes.flush_per_tx = database.writes.flush_per_tx;
                dirtying.window_tx = (dirtying.window_tx * bytes / measured).min(1e12);
            }
            if let (Some(redo), Some(cache), None) = (self.redo_bytes, self.cache_bytes, &database.dirtying) {
                let share = unwritten_share(database, redo, cache);
                writes.first_dirty *= share;
                writes.later_dirty *= share;
                writes.background_per_s *= share;
            }
            configured.log.redo_capacity_bytes = self.redo_bytes.or(measured).map(|bytes| bytes.min(MOST_REDO_BYTES));
        }
        if let (Some(compaction), Some(limit)) = (&mut configured.compaction, self.compaction_write_bytes_s) {
            let (read, written) = (compaction.read_bytes_per_tx, compaction.write_bytes_per_tx);
            let both = if written > 0.0 { (written + read) / written } else { 1.0 };
            // 1 kB/s is the least that the core takes for a rate.
            compaction.rate_bytes_s = compaction.rate_bytes_s.min((limit * both).max(1e3));
        }
        Ok(configured)
    }

    /// Returns the names of the settings that only a page cleaner has, percent, with their values.
    fn list_cleaner_settings(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("innodb_max_dirty_pages_pct", self.max_dirty_pages_pct),
            ("innodb_max_dirty_pages_pct_lwm", self.max_dirty_pages_pct_lwm),
            ("innodb_adaptive_flushing_lwm", self.adaptive_flushing_lwm),
        ]
    }

    /// Puts a page cleaner under these settings. A server raises innodb_io_capacity_max to
    /// innodb_io_capacity.
    fn set_cleaner(&self, cleaner: &mut PageCleaner) -> Result<(), SimError> {
        for (name, percent) in self.list_cleaner_settings() {
            SimError::check_range(name, percent.unwrap_or(0.0), 0.0, 99.999)?;
        }
        let share = |percent: Option<f64>, before: f64| percent.map_or(before, |percent| percent / 100.0);
        cleaner.io_capacity = self.io_capacity.unwrap_or(cleaner.io_capacity).min(MOST_PAGES_PER_S);
        cleaner.io_capacity_max = self.io_capacity_max.unwrap_or(cleaner.io_capacity_max).min(NO_LIMIT_PER_S).max(cleaner.io_capacity);
        cleaner.most_dirty = share(self.max_dirty_pages_pct, cleaner.most_dirty);
        cleaner.low_water = share(self.max_dirty_pages_pct_lwm, cleaner.low_water).min(cleaner.most_dirty);
        cleaner.redo_low_water = share(self.adaptive_flushing_lwm, cleaner.redo_low_water);
        cleaner.check()
    }

    /// Refuses settings of the page cleaner where the database has none.
    fn refuse_cleaner(&self) -> Result<(), SimError> {
        let rule = "has no effect that could be told: which pages of this database are dirty is not followed";
        match self.list_cleaner_settings().into_iter().find_map(|(name, value)| value.map(|value| (name, value))) {
            Some((name, value)) => Err(SimError::refused(name, value, rule, "Leave it out.")),
            None => Ok(()),
        }
    }

    /// Refuses values that no server takes.
    fn check(&self) -> Result<(), SimError> {
        let flush = self.flush_log_at_trx_commit.unwrap_or(1);
        if flush > 3 {
            return Err(SimError::refused("flush_log_at_trx_commit", flush, "must be 0, 1 or 2 (3 in MariaDB)", "Give 0, 1 or 2."));
        }
        let positive = [
            ("io_capacity (pages a second)", self.io_capacity, 0.0),
            ("io_capacity_max (pages a second)", self.io_capacity_max, 0.0),
            ("redo log (bytes)", self.redo_bytes, 1.0),
            ("redo log of the run (bytes)", self.measured_redo_bytes, 1.0),
            ("cache (bytes)", self.cache_bytes, 1.0),
            ("rate of compaction's writes (bytes/s)", self.compaction_write_bytes_s, 0.0),
        ];
        for (what, value, least) in positive {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= least)) {
                return Err(SimError::refused(what, value, format!("must be {least} or more"), format!("Give {least} or more.")));
            }
        }
        Ok(())
    }
}

/// Returns the share of changed pages that leave the old part of a cache's list before their redo
/// is about to be overwritten: pages are written once in the window of a log of `redo_bytes`, and
/// stay as long as a page without a further touch does. 256 MiB turn over many times meanwhile, so
/// that the flush list has written nearly all; 30 GiB do not.
pub(crate) fn unwritten_share(database: &Database, redo_bytes: f64, cache_bytes: f64) -> f64 {
    if database.log.redo_bytes_per_tx <= 0.0 {
        return 1.0;
    }
    let window = REDO_USABLE * redo_bytes / database.log.redo_bytes_per_tx;
    let stay = database.popularity.stay_tx(database.cache_pages(cache_bytes)).min(MOST_STAY_TX);
    evicted_before_written(window, database.old_share * stay)
}

/// Returns the share of changed pages that are evicted after `stay` transactions before they are
/// written, which happens once in `window` of them. Guess: both at random moments.
pub(crate) fn evicted_before_written(window: f64, stay: f64) -> f64 {
    window / (window + stay)
}

/// Returns the pages flushed with a redo log of `redo_bytes` over those with one of
/// `measured_bytes`: a page that changes many times within the log's length is written once.
fn flushing_ratio(database: &Database, redo_bytes: f64, measured_bytes: f64) -> f64 {
    let per_tx = database.log.redo_bytes_per_tx;
    if per_tx <= 0.0 {
        return 1.0;
    }
    let pages = |bytes: f64| {
        let window = REDO_USABLE * bytes / per_tx;
        let classes = &database.popularity.classes;
        classes.iter().map(|class| class.pages * -libm::expm1(-DIRTIED_SHARE * class.touches_per_tx * window)).sum::<f64>() / window
    };
    let before = pages(measured_bytes);
    if before > 0.0 {
        pages(redo_bytes) / before
    } else {
        1.0
    }
}

/// Makes the database of HammerDB's TPROC-C, calibrated on a server of the flavor `from`, on one of
/// the flavor and version `to`: with its page cleaner, under the capacities that are set, with what
/// it does when its redo log fills, and with what a call logs there (`data/mysql/standards.csv`).
///
/// Processor time stays as it was measured: between the flavors of the table it differs by more
/// than between those of published runs. With equal flavors nothing changes.
///
/// # Errors
/// A table that cannot be read.
pub fn on_flavor(database: &Database, from: Flavor, to: (Flavor, &str)) -> Result<Database, SimError> {
    let mut adapted = database.clone();
    let (Some(cleaner), Some(dirtying)) = (&mut adapted.cleaner, &mut adapted.dirtying) else { return Ok(adapted) };
    if to.0 == from {
        return Ok(adapted);
    }
    *cleaner = PageCleaner { io_capacity: cleaner.io_capacity, io_capacity_max: cleaner.io_capacity_max, ..PageCleaner::of_server(to.0.name(), to.1) };
    // The correction is one of the other server's changes.
    adapted.writes.flush_per_tx = dirtying.flush_per_tx;
    let call = |flavor| Costs::read(StorageEngine::Innodb, flavor)?.find("tprocc_call");
    let (before, after) = (call(from)?, call(to.0)?);
    adapted.log.redo_bytes_per_tx *= after.log_bytes / before.log_bytes;
    adapted.log.binlog_bytes_per_tx *= after.binlog_bytes / before.binlog_bytes;
    dirtying.window_tx *= before.log_bytes / after.log_bytes;
    adapted.checkpoint = adapted.checkpoint.map(|_| CheckpointLaw::of_server(to.0.name(), to.1));
    Ok(adapted)
}

/// Makes the database, calibrated with a cache of `from_bytes`, behind one of `to_bytes`. InnoDB
/// only.
///
/// The part of a pool without data is mostly a number of pages, kept free for reads to come
/// (innodb_lru_scan_depth: 1,000 to 1,536 pages of MariaDB 10.11, pools of 128 MiB to 1 GiB), so
/// that a smaller pool loses a larger share of itself.
///
/// `changed`: per class of pages the share of touches that change one (sysbench's are known). A
/// calibration learns one share of dirty pages among those evicted, and it is not the same in
/// another cache, because pages differ: a leaf of a secondary index is changed by nearly every
/// touch, one of rows by one in eight. A larger cache keeps the few index leaves, and what leaves
/// it is cleaner; a smaller one loses them too. None: as in the calibration's.
pub fn behind_cache(database: &Database, from_bytes: f64, to_bytes: f64, changed: Option<&[f64]>) -> Database {
    let mut adapted = database.clone();
    if adapted.engine != StorageEngine::Innodb {
        return adapted;
    }
    if adapted.usable_share < MOST_USABLE {
        adapted.usable_share =
            (MOST_USABLE - (MOST_USABLE - adapted.usable_share) * from_bytes / to_bytes).max(LEAST_PAGES * adapted.cached_bytes / to_bytes).min(MOST_USABLE);
    }
    // With dirtying known the cache itself says what leaves it dirty.
    if let Some(changed) = changed.filter(|changed| adapted.dirtying.is_none() && changed.len() == adapted.popularity.classes.len()) {
        let share = |behind: &Database, bytes: f64| behind.popularity.evicted_dirty(changed, behind.cache_pages(bytes));
        if let (Some(here), Some(there)) = (share(database, from_bytes).filter(|share| *share > 0.0), share(&adapted, to_bytes).filter(|share| *share > 0.0)) {
            adapted.writes.first_dirty = (adapted.writes.first_dirty * there / here).min(MOST_DIRTY);
            adapted.writes.later_dirty = (adapted.writes.later_dirty * there / here).min(MOST_DIRTY);
        }
    }
    adapted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::standard::tpcc;
    use crate::mysql::{Dirtying, PageClass, Popularity};

    /// A million pages, each touched by one transaction in a million, of which the cache holds
    /// half: a page is not touched again for ln 2 million transactions once it is as likely gone.
    fn half_cached(old_share: f64) -> (Database, f64) {
        let mut database = tpcc(StorageEngine::Innodb, 1.0).unwrap();
        database.popularity = Popularity { classes: vec![PageClass { pages: 1e6, touches_per_tx: 1e-6 }] };
        (database.usable_share, database.old_share, database.log.redo_bytes_per_tx) = (1.0, old_share, 10_000.0);
        let cache_bytes = 5e5 * database.cached_bytes;
        (database, cache_bytes)
    }

    fn under(database: &Database, redo_bytes: f64, cache_bytes: Option<f64>) -> Database {
        ServerSettings { redo_bytes: Some(redo_bytes), cache_bytes, ..ServerSettings::default() }.on(database).unwrap()
    }

    /// Golden: a log of window / 0.75 x 10,000 bytes whose window is as long as the old part of the
    /// list keeps a page has half of the changed pages written when they leave; one of a third of
    /// it three quarters. The root of `stay_tx` is good to 1e-6.
    #[test]
    fn a_small_redo_log_leaves_little_to_eviction_and_the_background() {
        let (database, cache_bytes) = half_cached(0.4);
        let as_long = 0.4 * std::f64::consts::LN_2 * 1e6 * 10_000.0 / REDO_USABLE;
        for (redo, share) in [(as_long, 0.5), (as_long / 3.0, 0.25), (1e18, 1.0)] {
            let (before, after) = (&database.writes, under(&database, redo, Some(cache_bytes)).writes);
            for (now, then) in
                [(after.first_dirty, before.first_dirty), (after.later_dirty, before.later_dirty), (after.background_per_s, before.background_per_s)]
            {
                assert!((now / then - share).abs() < 1e-5, "{redo}: {now} of {then}");
            }
            assert_eq!(after.flush_per_tx, before.flush_per_tx);
        }
    }

    /// By the table: a call of MariaDB logs 6,797 bytes, one of MySQL 3,652, so that its log holds
    /// as many fewer calls; it writes at the low water of its log's age. And back again.
    #[test]
    fn another_flavor_flushes_and_logs_as_it_does() {
        let mysql = crate::mysql::tprocc::Tprocc { warehouses: 10.0, ..Default::default() }.database().unwrap();
        let mariadb = on_flavor(&mysql, Flavor::Mysql, (Flavor::Mariadb, "12.2.2")).unwrap();
        assert!((mariadb.log.redo_bytes_per_tx - 6_797.0).abs() < 1e-6 && mariadb.cleaner.unwrap().holds_age);
        let windows = [&mysql, &mariadb].map(|database| database.dirtying.as_ref().unwrap().window_tx * database.log.redo_bytes_per_tx);
        assert!((windows[0] / windows[1] - 1.0).abs() < 1e-12);
        assert_eq!(mariadb.cleaner.unwrap().io_capacity, mysql.cleaner.unwrap().io_capacity);
        let back = on_flavor(&mariadb, Flavor::Mariadb, (Flavor::Mysql, "8.4.0")).unwrap();
        assert_eq!((back.cleaner, back.clients), (mysql.cleaner, mysql.clients));
        assert_eq!(on_flavor(&mysql, Flavor::Mysql, (Flavor::Mysql, "9.7.0")).unwrap(), mysql);
        let plain = tpcc(StorageEngine::Innodb, 1.0).unwrap();
        assert_eq!(on_flavor(&plain, Flavor::Mysql, (Flavor::Mariadb, "12.2.2")).unwrap(), plain);
    }

    /// Nothing changes where no cache is given, and where dirty pages are followed class by class.
    /// A cache that no page leaves has none that the flush list did not write.
    #[test]
    fn what_is_followed_page_by_page_is_not_scaled_again() {
        let (mut database, cache_bytes) = half_cached(0.4);
        assert_eq!(under(&database, 1e8, None).writes, database.writes);
        assert!(under(&database, 1e8, Some(1e3 * cache_bytes)).writes.later_dirty < 1e-6);
        database.dirtying = Some(Dirtying { changed: vec![0.3], window_tx: 1e5, flush_per_tx: 4.5, revisit_tx: None, undo_pages: 0.0 });
        assert_eq!(under(&database, 1e8, Some(cache_bytes)).writes, database.writes);
    }
}
