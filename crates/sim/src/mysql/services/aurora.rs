//! Aurora's storage as the second-by-second form sees it.

use super::quorum::{Quorum, QuorumLatency};
use crate::mysql::database::{Database, PageWrites, StorageEngine};
use crate::mysql::demand::Flow;
use crate::mysql::interval::{self, Binding};
use crate::mysql::warmup::At;
use headrace_catalog::ServiceClass;
use serde::{Deserialize, Serialize};

/// Bytes of log that are billed as one write (data/managed/rules.csv, unconfirmed).
const WRITE_UNIT: f64 = 4_096.0;
/// Bytes of a page that is billed as one read (as above).
const READ_UNIT: f64 = 16_384.0;

/// Parameters of Aurora's storage that no table of AWS has. They are fitted on published figures of
/// `data/managed/published.csv`; `crates/sim/tests/services.rs` holds them to those that were left
/// out of the fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuroraStorage {
    /// Mean of reading a page from a storage node, network and SSD, ms.
    pub read_ms: f64,
    /// Pages a second that a server gets from its storage, per virtual processor.
    pub reads_per_vcpu_s: f64,
    /// While a batch of log is put together, records wait, s: those that come meanwhile share it.
    pub batch_s: f64,
    /// From the quorum's answer until a reader has the record, ms.
    pub stream_ms: f64,
    /// Lag per MB/s of redo that a reader applies, ms.
    pub lag_ms_per_mb_s: f64,
    /// Processor time of applying a MB of redo, ms.
    pub apply_ms_per_mb: f64,
    /// The six copies.
    pub quorum: Quorum,
}

impl Default for AuroraStorage {
    /// * Reads: least squares over sysbench-tpcc on db.r5.xlarge with 1,000 warehouses (published
    ///   2020-05, family `tpcc-10x100`, nine client counts), the workload's own time taken from the
    ///   RDS run of the same study with one client. The bottleneck is a number of reads, and not
    ///   processor time per read: a choice made with the other layout in sight.
    /// * Batches: 0.95 I/Os a transaction at 15,210 transactions a second, six copies counted
    ///   (SIGMOD 2017, table 1): 0.95 / 6 batches a transaction = 1 / (1 + 15,210 x 0.35 ms).
    /// * Lag: table 4 at 1,000 and 10,000 writes a second, 450 bytes of redo a write (what
    ///   `sysbench` gives for write-only); 2,000 and 5,000 test it.
    /// * Applying: 7 us a write. Guess, between what crash recovery of InnoDB applies in a second
    ///   and core (some 100,000 records) and the 2.7 % of 16 processors of the replication study.
    fn default() -> AuroraStorage {
        AuroraStorage {
            read_ms: 3.2,
            reads_per_vcpu_s: 400.0,
            batch_s: 0.35e-3,
            stream_ms: 1.27,
            lag_ms_per_mb_s: 0.63,
            apply_ms_per_mb: 15.5,
            quorum: Quorum::default(),
        }
    }
}

/// I/O that AWS bills, of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BilledIo {
    /// Pages of 16 KiB that were not cached.
    pub reads: f64,
    /// 4 KiB units of log.
    pub writes: f64,
}

/// Makes the database of which only the log is written: no page is flushed or evicted dirty,
/// neither doublewrite nor binary log (off by default) is on, and no checkpoint is waited for. None
/// for MyRocks, which Aurora does not run.
pub fn log_only(database: &Database) -> Option<Database> {
    if database.engine != StorageEngine::Innodb {
        return None;
    }
    let mut adapted = database.clone();
    (adapted.writes, adapted.checkpoint) = (PageWrites::none(), None);
    let commits = adapted.log.commits();
    adapted.log.binlog_bytes_per_tx = 0.0;
    // One quorum write a commit, unless commits do not wait at all.
    adapted.log.syncs_per_commit = if adapted.log.syncs_per_commit > 0.0 { commits } else { 0.0 };
    adapted.log.commits_per_tx = Some(commits);
    Some(adapted)
}

impl AuroraStorage {
    /// Returns the batches of log that a transaction of `commits` commits sends at `tps`: alone one
    /// each, and fewer as those that come together share one.
    pub fn batches(&self, tps: f64, commits: f64) -> f64 {
        commits.max(1.0) / (1.0 + tps * commits.max(1.0) * self.batch_s)
    }

    /// Returns the I/O that AWS bills of a transaction that reads `reads` pages and logs
    /// `log_bytes`, at `tps`. The last unit of a batch is half full on average.
    pub fn billed(&self, reads: f64, page_bytes: f64, log_bytes: f64, tps: f64, commits: f64) -> BilledIo {
        let batches = if log_bytes > 0.0 { self.batches(tps, commits) } else { 0.0 };
        BilledIo { reads: reads * (page_bytes / READ_UNIT).max(1.0), writes: log_bytes / WRITE_UNIT + 0.5 * batches }
    }
}

/// The storage behind one class.
pub(super) struct Backend<'a> {
    storage: &'a AuroraStorage,
    quorum: QuorumLatency,
    /// Bytes a second that the network holds; none where it is not known.
    network_bytes_s: Option<f64>,
    reads_s: f64,
    copies: f64,
}

impl<'a> Backend<'a> {
    /// Makes the storage behind a class, whose network and processors bound it.
    pub fn new(storage: &'a AuroraStorage, class: &ServiceClass) -> Backend<'a> {
        // Processors that no source names never bind.
        let vcpus = if class.limits.vcpus > 0 { f64::from(class.limits.vcpus) } else { f64::INFINITY };
        Backend {
            storage,
            quorum: storage.quorum.latency(),
            network_bytes_s: class.network_bytes_s,
            reads_s: vcpus * storage.reads_per_vcpu_s,
            copies: f64::from(storage.quorum.copies.iter().sum::<u32>()),
        }
    }
}

impl interval::Backend for Backend<'_> {
    fn read_ms(&self) -> f64 {
        self.storage.read_ms
    }

    fn log_write_ms(&self) -> f64 {
        self.quorum.mean_ms + self.storage.batch_s * 1e3
    }

    /// Returns the pages that the cache misses and the log in units of 4 KiB, whose bytes go to
    /// every copy; there is no log device.
    fn of_transaction(&self, database: &Database, at: &At, reads_by: f64, _syncs: f64) -> (Flow, Flow) {
        let reads = at.reads * at.shape * reads_by;
        let log = database.log.redo_bytes_per_tx;
        let mut flow = Flow::default();
        let to = &mut flow.measured;
        (to.read_units, to.read_bytes) = (reads, reads * database.read_bytes);
        (to.write_units, to.write_bytes) = (log / WRITE_UNIT, log * self.copies);
        (to.iops, to.bytes_s) = (to.read_units + to.write_units, to.read_bytes + to.write_bytes);
        (flow, Flow::default())
    }

    fn of_second(&self, _database: &Database, _background_pages: f64, _compacted: (f64, f64)) -> Flow {
        Flow::default()
    }

    /// Returns the most transactions a second that network and storage nodes let through, and which
    /// of the two binds.
    fn max_rate(&self, (data, _): (&Flow, &Flow), _always: &Flow, _seconds: f64) -> (f64, Binding) {
        let network = self.network_bytes_s.map_or(f64::INFINITY, |most| most / data.measured.bytes_s.max(1e-9));
        let reads = self.reads_s / data.measured.read_units.max(1e-9);
        if network < reads {
            (network, Binding::Network)
        } else {
            (reads, Binding::PageReads)
        }
    }

    fn spare(&self, _database: &Database, _compacted: (f64, f64), _seconds: f64) -> f64 {
        f64::INFINITY
    }

    fn charge(&mut self, _data: &Flow, _log: &Flow, _t_s: f64, _seconds: f64) {}

    fn balance_percent(&self) -> Option<f64> {
        None
    }

    fn instance_percent(&self) -> Option<f64> {
        None
    }
}
