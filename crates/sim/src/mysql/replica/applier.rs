//! Work of a replica's applier for a transaction: the parameters that a calibration of a replica
//! identifies, and their assumed values if only the source was measured.
//!
//! An applier reads no client's packets, parses and plans nothing and sends no answer, but it finds
//! and changes every row again. So its page touches are those of the writing statements alone, and
//! its processor time is a fraction of the clients'.

use super::super::database::{Database, StorageEngine, DIRTIED_SHARE};
use super::super::popularity::{PageClass, Popularity};
use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// Processor time of an applied transaction over that of the same transaction of a client, which
/// also reads. One group replication applier did 1,071 TPC-C transactions a second where one client
/// did 209 to 220 (Percona-Lab-results/GR-Jan-2020, read 2026-11-22): 0.2 of the time, with flushes
/// in it.
const CPU_OF_CLIENT: f64 = 0.2;
/// The share for sysbench's statements, whose processor time was measured
/// (`data/mysql/standards.csv`). An applier took 0.31 ms for a transaction of oltp_write_only
/// (MariaDB 10.11, gp3 of the lab, 2026-11-23), for which a client takes 0.43 ms of MariaDB, 0.75
/// of MySQL and 1.14 of MySQL over a network: 0.7, 0.4 and 0.27. The last, since clients of
/// replicated servers are on other hosts; a calibration of the replica knows better.
const CPU_OF_SYSBENCH: f64 = 0.27;
/// Share of the applier's processor time in the commit: binary log, positions, the word to the next
/// in order. It overlaps with the rows of others and not with the commit of another. MariaDB 10.11
/// with all data in its cache (gp3 of the lab, 2026-11-23): groups of 1.76 (4 workers) took 2.41 ms
/// and of 5.87 (16) 3.47 ms, where the longest stage of one thread's flushes takes 2.13: 0.16 and
/// 0.23 ms a commit, of 0.31 ms for a transaction without flushes.
const COMMIT_CPU_SHARE: f64 = 0.5;
/// Bytes of a row event with its table map, and of the events around them (GTID or BEGIN, XID):
/// sysbench's updates and inserts between them (full row images).
const EVENT_BYTES: f64 = 400.0;
const BRACKET_BYTES: f64 = 185.0;
/// Events around the rows: GTID (it begins the transaction) and XID (it commits it).
const BRACKET_EVENTS: f64 = 2.0;
/// Share of evicted dirty pages that the applier writes, or waits for, itself. 0: the page cleaner
/// always has free pages ready; 1: every read of a page waits for the write of another. Guess.
const FORCED_WRITES: f64 = 0.5;
/// Largest group commit of a replica over its workers. Two groups that take turns, one flushing
/// while the other executes, are half of the workers each: 0.5 at most where flushes bind; MariaDB
/// 10.11 had 0.3 to 0.45 with 4 and 16 workers on two busy cores (measured 2026-11-22).
const GROUP_SHARE: f64 = 0.4;
/// Processor time that each further worker adds to a transaction, ms: it spins and is woken. Guess.
const SPIN_MS: f64 = 0.01;
/// Processor time of a page read and of the one written for it: checksums, doublewrite, the list of
/// pages, system calls. MariaDB 10.11 took 0.26 ms a transaction with all data in its cache, 0.37
/// with 2.7 reads, 0.60 with 5.1 and 1.0 with 10 (gp3 of the lab, two processors, 2026-11-23).
const PAGE_CPU_MS: f64 = 0.06;
/// Pages of a rollback segment that a transaction touches: its header (trx_rseg_t::get, which lists
/// the undo logs) and the undo page that it writes (trx_undo_assign).
const UNDO_PAGES: f64 = 2.0;
/// Coefficient of variation of the time that a transaction's rows take. Guess: a handful of reads
/// whose latencies vary half as much as their mean, of transactions that differ.
const SERVICE_CV: f64 = 0.6;
/// Transactions in a row that have no row in common, so that writesets let them be applied at once.
/// Guess: far more than workers, as with a large table whose rows are drawn at random.
const WRITESET_WIDTH: f64 = 256.0;
/// Chance that a transaction conflicts with one that is applied at the same time. Guess.
const CONFLICTS: f64 = 1e-3;

/// Work of the applier for a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applier {
    /// Share of the touches of each page class that writing statements make: the applier makes
    /// these alone.
    pub written: Vec<f64>,
    /// Processor time of a transaction, ms of one virtual CPU.
    pub cpu_ms: f64,
    /// Share of it in the commit.
    pub commit_cpu_share: f64,
    /// Processor time of a page read and of the one written for it, ms: on all processors together,
    /// mostly of other threads.
    pub page_cpu_ms: f64,
    /// Events in the binary log, per transaction.
    pub events_per_tx: f64,
    /// Time of a log flush of a commit over what the model's synchronous writes take.
    pub flush_factor: f64,
    /// Time of a flush of the relay log over what the model's synchronous writes take.
    pub relay_flush_factor: f64,
    /// Share of evicted dirty pages whose write the applier waits for.
    pub forced_writes: f64,
    /// Largest group commit over workers.
    pub group_share: f64,
    /// Processor time that each further worker adds to a transaction, ms.
    pub spin_ms: f64,
    /// Coefficient of variation of the time to apply a transaction's rows.
    pub service_cv: f64,
    /// Transactions that the source's commit order lets be applied at once (`last_committed` of
    /// COMMIT_ORDER, MariaDB's `cid`); none: from the source's own commits under way.
    #[serde(default)]
    pub commit_order_width: Option<f64>,
    /// Transactions that writesets let be applied at once.
    pub writeset_width: f64,
    /// Schemas that transactions are spread over: DATABASE applies one at a time in each.
    pub schemas: f64,
    /// Chance that a transaction conflicts with one that is applied at the same time (MariaDB
    /// optimistic, aggressive): it is rolled back and done again.
    pub conflicts: f64,
}

/// Spread of a parameter if no replica was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ApplierSpread {
    /// The parameter, as the workload file names it.
    pub parameter: &'static str,
    /// Meaning of the parameter, in words.
    pub words: &'static str,
    /// Standard deviation of its logarithm.
    pub relative_sd: f64,
    /// Least and most that the core takes.
    pub least: f64,
    /// See `least`.
    pub most: f64,
}

/// Makes a row of the table; `least` and `most` are the bounds of the parameter.
const fn spread(parameter: &'static str, words: &'static str, relative_sd: f64, (least, most): (f64, f64)) -> ApplierSpread {
    ApplierSpread { parameter, words, relative_sd, least, most }
}

/// Widths, all guessed from how the defaults are derived; bounds are the core's.
pub const APPLIER_SPREADS: &[ApplierSpread] = &[
    // 1,071 tps hold flushes too, and sysbench's writes save less than TPC-C's reads.
    spread("cpu_ms", "processor time to apply a transaction", 0.7, (1e-4, 1e5)),
    spread("commit_cpu_share", "share of it in the commit", 0.4, (0.0, 0.95)),
    spread("page_cpu_ms", "processor time of a page read and of the one written for it", 0.5, (0.0, 1e3)),
    spread("events_per_tx", "events of a transaction in the binary log", 0.3, (1.0, 1e6)),
    // A flush of a growing file is two to four device writes, by filesystem.
    spread("flush_factor", "time of a log flush over the model's", 0.4, (0.05, 50.0)),
    spread("relay_flush_factor", "time of a relay log flush over the model's", 0.4, (0.05, 50.0)),
    spread("forced_writes", "share of evicted dirty pages that the applier waits for", 0.6, (0.0, 4.0)),
    spread("group_share", "largest group commit over workers", 0.25, (0.01, 1.0)),
    spread("spin_ms", "processor time that each further worker adds", 1.0, (0.0, 1e3)),
    spread("service_cv", "scatter of the time to apply a transaction", 0.4, (0.0, 5.0)),
    spread("commit_order_width", "transactions that commit order lets be applied at once", 0.4, (1.0, 1e6)),
    spread("writeset_width", "transactions that writesets let be applied at once", 0.7, (1.0, 1e6)),
    spread("schemas", "schemas that transactions are spread over", 0.0, (1.0, 1e6)),
    spread("conflicts", "chance of a conflict with a transaction applied at the same time", 1.0, (0.0, 1.0)),
];

impl Applier {
    /// Makes the work of an applier from the source's own run: `changed` has, per class of pages,
    /// the share of touches that change one (sysbench's are known); none: a third of all.
    pub fn of_source(database: &Database, changed: Option<&[f64]>) -> Applier {
        let classes = database.popularity.classes.len();
        let written = changed.filter(|changed| changed.len() == classes).map_or_else(|| vec![DIRTIED_SHARE; classes], <[f64]>::to_vec);
        let rows = ((database.log.binlog_bytes_per_tx - BRACKET_BYTES) / EVENT_BYTES).max(1.0);
        Applier {
            written,
            cpu_ms: (if changed.is_some() { CPU_OF_SYSBENCH } else { CPU_OF_CLIENT } * database.clients.cpu_ms).max(1e-3),
            commit_cpu_share: COMMIT_CPU_SHARE,
            page_cpu_ms: PAGE_CPU_MS,
            events_per_tx: BRACKET_EVENTS + rows,
            flush_factor: 1.0,
            relay_flush_factor: 1.0,
            forced_writes: FORCED_WRITES,
            group_share: GROUP_SHARE,
            spin_ms: SPIN_MS,
            service_cv: SERVICE_CV,
            commit_order_width: None,
            writeset_width: WRITESET_WIDTH,
            schemas: 1.0,
            conflicts: CONFLICTS,
        }
    }

    /// Makes the source's database as the replica has it: touched by the applier, and
    /// `reads_per_tx` times a transaction applied by the whole mix of clients that read here.
    ///
    /// Transactions take `segments` rollback segments in turn, and each touches two pages of its
    /// own: the segment's header and the end of its undo log. A cache of some thousand pages feels
    /// them.
    pub fn database(&self, source: &Database, reads_per_tx: f64, segments: u32) -> Database {
        let class = |(class, written): (&PageClass, &f64)| PageClass { touches_per_tx: class.touches_per_tx * (written + reads_per_tx), ..*class };
        let classes: Vec<PageClass> = source.popularity.classes.iter().zip(&self.written).map(class).collect();
        let mut popularity = Popularity { classes };
        let all = source.popularity.touches_per_tx();
        let changed: f64 = source.popularity.classes.iter().zip(&self.written).map(|(class, written)| class.pages * class.touches_per_tx * written).sum();
        // Fewer touches change the same pages, so an evicted page is dirty more often.
        let dirtier = if changed > 0.0 { all / popularity.touches_per_tx() } else { 1.0 };
        if source.engine == StorageEngine::Innodb {
            popularity.classes.push(PageClass { pages: UNDO_PAGES * f64::from(segments), touches_per_tx: 1.0 / f64::from(segments) });
        }
        // An applier looks at no stock.
        let mut adapted = Database { popularity, last_orders: None, ..source.clone() };
        adapted.writes.first_dirty = (source.writes.first_dirty * dirtier).min(1.0);
        adapted.writes.later_dirty = (source.writes.later_dirty * dirtier).min(1.0);
        // The unexplained part of the source's run belongs to the source.
        adapted.shape = super::super::database::IoShape::default();
        adapted
    }

    /// Refuses parameters out of bounds, and shares that are not one for each page class.
    pub fn check(&self, database: &Database) -> Result<(), SimError> {
        let values = [
            ("cpu_ms", self.cpu_ms),
            ("commit_cpu_share", self.commit_cpu_share),
            ("page_cpu_ms", self.page_cpu_ms),
            ("events_per_tx", self.events_per_tx),
            ("flush_factor", self.flush_factor),
            ("relay_flush_factor", self.relay_flush_factor),
            ("forced_writes", self.forced_writes),
            ("group_share", self.group_share),
            ("spin_ms", self.spin_ms),
            ("service_cv", self.service_cv),
            ("commit_order_width", self.commit_order_width.unwrap_or(1.0)),
            ("writeset_width", self.writeset_width),
            ("schemas", self.schemas),
            ("conflicts", self.conflicts),
        ];
        for (name, value) in values {
            let range = APPLIER_SPREADS.iter().find(|spread| spread.parameter == name);
            range.map_or(Ok(()), |spread| SimError::check_range(spread.words, value, spread.least, spread.most))?;
        }
        if self.written.len() != database.popularity.classes.len() {
            let rule = format!("must have one share for each of the {} page classes", database.popularity.classes.len());
            return Err(SimError::refused("replica's written", self.written.len(), rule, "Leave it out to have a third of all."));
        }
        self.written.iter().try_for_each(|share| SimError::check_range("share of touches that write", *share, 0.0, 1.0))
    }
}
