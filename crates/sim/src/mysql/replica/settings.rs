//! Settings of a replica: the transactions that may be applied at once, the flushes of a commit,
//! and the defaults of versions.

use super::super::cleaner::dirty_share;
use super::super::database::PageCleaner;
use super::super::settings::{at_least, syncs_per_commit};
use super::applier::Applier;
use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// Rule by which transactions may be applied at once. Sources: MySQL's manual of
/// `replica_parallel_type` and `binlog_transaction_dependency_tracking`; MariaDB's "Parallel
/// Replication" (read 2026-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaMode {
    /// One after the other.
    Single,
    /// MySQL: one at a time in each schema.
    Database,
    /// MySQL LOGICAL_CLOCK over COMMIT_ORDER: those that were committing on the source together.
    LogicalClock,
    /// MySQL LOGICAL_CLOCK over WRITESET: those without a row in common.
    Writeset,
    /// MariaDB: only commits overlap.
    Minimal,
    /// MariaDB: a group of the source at once; the next begins when this one begins to commit.
    Conservative,
    /// MariaDB: all, but those that waited for another on the source; conflicts are rolled back.
    Optimistic,
    /// MariaDB: all.
    Aggressive,
}

impl ReplicaMode {
    /// Every mode with the name used in options and files.
    pub const ALL: [(&'static str, ReplicaMode); 8] = [
        ("single", ReplicaMode::Single),
        ("database", ReplicaMode::Database),
        ("logical-clock", ReplicaMode::LogicalClock),
        ("writeset", ReplicaMode::Writeset),
        ("minimal", ReplicaMode::Minimal),
        ("conservative", ReplicaMode::Conservative),
        ("optimistic", ReplicaMode::Optimistic),
        ("aggressive", ReplicaMode::Aggressive),
    ];

    /// Returns whether the next transaction begins as soon as the ones before it begin to commit,
    /// without waiting for their flushes.
    pub(super) fn overlaps_commits(self) -> bool {
        matches!(self, ReplicaMode::Minimal | ReplicaMode::Conservative)
    }

    fn is_mariadb(self) -> bool {
        matches!(self, ReplicaMode::Minimal | ReplicaMode::Conservative | ReplicaMode::Optimistic | ReplicaMode::Aggressive)
    }
}

/// A replica's settings, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSettings {
    /// Rule by which transactions may be applied at once.
    pub mode: ReplicaMode,
    /// Worker threads; 0 or 1: one thread does it all.
    pub workers: u32,
    /// Transactions commit in the source's order (MariaDB's always do).
    pub preserve_order: bool,
    /// The replica writes a binary log of its own (log_bin and log_replica_updates).
    pub log_bin: bool,
    /// innodb_flush_log_at_trx_commit.
    pub flush_log_at_trx_commit: u8,
    /// sync_binlog.
    pub sync_binlog: u32,
    /// sync_relay_log: events per flush of the relay log; 0 never.
    pub sync_relay_log: u32,
    /// Rollback segments that transactions take in turn (innodb_rollback_segments, in each undo
    /// tablespace).
    #[serde(default = "rollback_segments")]
    pub rollback_segments: u32,
    /// Undo logs that purge takes at a time (innodb_purge_batch_size); 0: it is not behind.
    #[serde(default = "purge_batch")]
    pub purge_batch: u32,
    /// Share of the pool above which dirty pages are written back at up to `io_capacity` pages a
    /// second (innodb_max_dirty_pages_pct_lwm); 0: not by their number.
    #[serde(default)]
    pub dirty_low_water: f64,
    /// innodb_io_capacity, pages a second; of effect with `dirty_low_water`.
    #[serde(default)]
    pub io_capacity: f64,
    /// Processors that the thread which hands out transactions keeps busy while all workers are.
    #[serde(default)]
    pub coordinator_cores: f64,
}

/// innodb_purge_batch_size of MariaDB 10.11 (its manual, read 2026-11).
fn purge_batch() -> u32 {
    127
}

/// innodb_rollback_segments of both flavours (their manuals, read 2026-11).
fn rollback_segments() -> u32 {
    128
}

impl ReplicaSettings {
    /// Returns the share of dirty pages at which the page cleaner writes back `pages_s` pages a
    /// second.
    pub fn dirty_share(&self, pages_s: f64) -> f64 {
        dirty_share(pages_s, self.io_capacity, self.dirty_low_water)
    }

    /// Returns the defaults of a version, durable (1/1).
    ///
    /// # Errors
    /// A flavour or version that is not known.
    pub fn of_version(flavor: &str, version: &str) -> Result<ReplicaSettings, SimError> {
        let at_least = |least| at_least(version, least);
        let cleaner = Some(PageCleaner::of_server(flavor, version)).filter(|_| flavor == "mysql" && at_least([8, 4, 0]));
        let durable = |mode, workers, preserve_order, log_bin| ReplicaSettings {
            mode,
            workers,
            preserve_order,
            log_bin,
            flush_log_at_trx_commit: 1,
            sync_binlog: 1,
            // 10,000 in MariaDB and, from 5.6.6, in MySQL.
            sync_relay_log: 10_000,
            // MySQL 8.0 and later: two undo tablespaces, each with its own (its manual). MySQL from
            // 8.4: io_capacity 10,000 and low water 10 % (its manual; 9.7.4 kept 1,356 of 8,192
            // pages dirty and wrote 9.8 a transaction, 2026-11-23). Before, and in MariaDB, 200
            // pages a second are the database's background.
            dirty_low_water: cleaner.map_or(0.0, |cleaner| cleaner.low_water),
            io_capacity: cleaner.map_or(0.0, |cleaner| cleaner.io_capacity),
            // MySQL 9.7.4 read 5.1 pages a transaction in 44 MiB with one thread and with 16
            // workers: what the appliers miss, so its purge was not behind. MySQL 9.7.4: the
            // coordinator (replica_sql) took 0.86 to 1.1 processors of two, with one worker, four
            // and 16, whatever they applied (lab, 2026-11-23); it had none to do while it waited.
            coordinator_cores: if flavor == "mysql" && at_least([8, 0, 0]) { 1.0 } else { 0.0 },
            purge_batch: if flavor == "mysql" { 0 } else { purge_batch() },
            rollback_segments: if flavor == "mysql" && at_least([8, 0, 0]) { 2 * rollback_segments() } else { rollback_segments() },
        };
        match flavor {
            // Mode optimistic from 10.5.1, before that conservative; threads 0; log_slave_updates
            // off.
            "mariadb" if at_least([10, 5, 1]) => Ok(durable(ReplicaMode::Optimistic, 0, true, false)),
            "mariadb" if at_least([10, 0, 0]) => Ok(durable(ReplicaMode::Conservative, 0, true, false)),
            // WRITESET always from 8.4; 4 workers in order from 8.0.27; log_replica_updates on from
            // 8.0.3.
            "mysql" if at_least([8, 4, 0]) => Ok(durable(ReplicaMode::Writeset, 4, true, true)),
            "mysql" if at_least([8, 0, 27]) => Ok(durable(ReplicaMode::LogicalClock, 4, true, true)),
            "mysql" if at_least([8, 0, 3]) => Ok(durable(ReplicaMode::Database, 0, false, true)),
            "mysql" if at_least([5, 6, 0]) => Ok(durable(ReplicaMode::Database, 0, false, false)),
            "mysql" | "mariadb" => {
                let rule = "has no parallel replication that is modelled: MySQL from 5.6, MariaDB from 10.0";
                Err(SimError::refused("version", version, rule, "Give a version such as 9.7 or 10.11."))
            }
            other => Err(SimError::refused("flavor", other, "must be mysql or mariadb", "Give mysql or mariadb.")),
        }
    }

    /// Returns the synchronous writes of a commit that shares none with others.
    pub fn syncs_per_commit(&self) -> f64 {
        syncs_per_commit(self.flush_log_at_trx_commit, self.log_bin, self.sync_binlog)
    }

    /// Returns the longest stage of a commit over all of its synchronous writes. The redo log is
    /// flushed when a transaction prepares, the binary log afterwards for all that are ready, and
    /// one group's binary log meets the next group's redo log: the longer of them decides how many
    /// groups a second there are.
    pub fn longest_stage(&self) -> f64 {
        let all = self.syncs_per_commit();
        let redo = syncs_per_commit(self.flush_log_at_trx_commit, false, 0);
        if all > 0.0 {
            redo.max(all - redo) / all
        } else {
            1.0
        }
    }

    /// Returns whether commits follow one another even where they share their flushes: in the
    /// source's order, or as the leader of a binary log's group does them (binlog_order_commits).
    pub fn commits_in_turn(&self) -> bool {
        self.preserve_order || self.log_bin
    }

    /// Returns the threads that apply.
    pub(super) fn threads(&self) -> f64 {
        if self.mode == ReplicaMode::Single {
            1.0
        } else {
            f64::from(self.workers.max(1))
        }
    }

    /// Returns the transactions that may be applied at once, `committing` of them being in their
    /// commit on the source at a time.
    pub(super) fn width(&self, applier: &Applier, committing: f64) -> f64 {
        match self.mode {
            ReplicaMode::Single | ReplicaMode::Minimal => 1.0,
            ReplicaMode::Database => applier.schemas,
            ReplicaMode::LogicalClock | ReplicaMode::Conservative => applier.commit_order_width.unwrap_or(committing).max(1.0),
            ReplicaMode::Writeset => applier.writeset_width,
            ReplicaMode::Optimistic | ReplicaMode::Aggressive => f64::INFINITY,
        }
    }

    /// Returns the share of the work that is lost to conflicts: with each other worker a
    /// transaction conflicts with its chance, and is done again. Optimistic mode leaves out those
    /// that waited on the source: half of them (guess).
    pub(super) fn redone(&self, applier: &Applier) -> f64 {
        let others = self.threads() - 1.0;
        match self.mode {
            ReplicaMode::Optimistic => 0.5 * applier.conflicts * others,
            ReplicaMode::Aggressive => applier.conflicts * others,
            _ => 0.0,
        }
    }

    /// Refuses values that no server takes.
    pub fn check(&self) -> Result<(), SimError> {
        SimError::check_range("workers", f64::from(self.workers), 0.0, 16_383.0)?;
        SimError::check_range("flush_log_at_trx_commit", f64::from(self.flush_log_at_trx_commit), 0.0, 3.0)?;
        SimError::check_range("dirty pages at which flushing begins (share)", self.dirty_low_water, 0.0, 1.0)?;
        SimError::check_range("io_capacity (pages a second)", self.io_capacity, 0.0, 1e6)?;
        SimError::check_range("purge batch", f64::from(self.purge_batch), 0.0, 5_000.0)?;
        SimError::check_range("rollback segments", f64::from(self.rollback_segments), 1.0, 65_536.0)?;
        if self.mode.is_mariadb() && !self.preserve_order {
            let rule = "is kept by MariaDB in every mode within a domain";
            return Err(SimError::refused("order of commits", "not kept", rule, "Keep the order, or name a mode of MySQL."));
        }
        Ok(())
    }
}
