//! Computes the rate of an applier, transactions a second, and its bottleneck.
//!
//! ```text
//!   one thread   1 / (rows + commit)         rows = processor + reads + writes it waits for
//!   workers      softest minimum of          commit = processor + flushes
//!                  workers  / (rows in order + commit)
//!                  width    / (the same): what the source's marks allow
//!                  group / (stage + group x commit's processor): groups follow each other
//!                  the devices' I/Os and bytes, processors, the receive thread
//! ```
//!
//! Everything that costs time is listed once, so that a share is the part of the rate that is lost
//! when that one cost grows: a hundredth more of it takes share / 100 away. The shares of costs and
//! limits together are 1, since a replica that is twice as slow in everything is twice as slow
//! (Euler's theorem on functions of degree -1). Width and workers are limits of another kind: their
//! levers are told apart.

use super::super::interval::weakest_limit;
use serde::Serialize;

/// Exponent of the transition from one limit to the next: as for clients (TPC-C runs of 2018). One
/// thread waits behind the page cleaner's batches, so the same holds: the I/O by I/O form agrees to
/// 5 %.
const SHARPNESS: f64 = 4.0;
/// In-order commits make workers wait for slower ones before them: the time of rows grows by cv x
/// (A + A x cv) x ln(workers). From 60,000 gamma-distributed times each of cv 0.3, 0.6, 1 and 2 to
/// 256 workers whose commits keep the order: within 7 %.
const ORDER: f64 = 0.3;
/// A cost is moved by this much to see what it does.
const NUDGE: f64 = 1e-4;

/// Bottleneck of an applier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaBinding {
    /// Nothing: it keeps up.
    #[default]
    Demand,
    /// Reads of pages that are not in the cache, one after the other in each worker.
    Reads,
    /// Writes of dirty pages that an applier waits for before it can read.
    PageWrites,
    /// Flushes of redo and binary log.
    Flushes,
    /// The processor time of one transaction in its worker.
    Processor,
    /// The number of transactions that the source's marks let be applied at once.
    Dependencies,
    /// The number of threads that apply.
    Workers,
    /// A device's I/Os a second, or its credits.
    Iops,
    /// A device's bytes a second.
    Bytes,
    /// All processors together.
    Cores,
    /// The receive thread.
    Receive,
    /// A large transaction or a statement on the schema, which nothing else passes.
    Large,
}

impl ReplicaBinding {
    /// Returns the name used in tables, CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ReplicaBinding::Demand => "none",
            ReplicaBinding::Reads => "reads",
            ReplicaBinding::PageWrites => "page-writes",
            ReplicaBinding::Flushes => "flushes",
            ReplicaBinding::Processor => "processor",
            ReplicaBinding::Dependencies => "dependencies",
            ReplicaBinding::Workers => "workers",
            ReplicaBinding::Iops => "iops",
            ReplicaBinding::Bytes => "bytes",
            ReplicaBinding::Cores => "cores",
            ReplicaBinding::Receive => "receive",
            ReplicaBinding::Large => "large-transaction",
        }
    }
}

/// Costs that have a share of the rate, in the order of [`ApplierCosts::shares`].
pub const COSTS: [ReplicaBinding; 8] = [
    ReplicaBinding::Reads,
    ReplicaBinding::PageWrites,
    ReplicaBinding::Flushes,
    ReplicaBinding::Processor,
    ReplicaBinding::Iops,
    ReplicaBinding::Bytes,
    ReplicaBinding::Cores,
    ReplicaBinding::Receive,
];

/// Costs of a transaction for an applier, s, and the limits of all of them together. Infinite
/// limits do not bind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApplierCosts {
    /// Processor time of the rows, and of the commit.
    pub processor_s: f64,
    /// See `processor_s`.
    pub commit_processor_s: f64,
    /// Page reads, one after the other.
    pub reads_s: f64,
    /// Page writes that are waited for.
    pub page_writes_s: f64,
    /// Flushes of a commit that shares none.
    pub flushes_s: f64,
    /// Share of the work done twice, after conflicts.
    pub redone: f64,
    /// Coefficient of variation of the time of rows, where commits keep their order; else 0.
    pub order_cv: f64,
    /// Threads that apply.
    pub workers: f64,
    /// Transactions that may be applied at once.
    pub width: f64,
    /// The next transaction begins when the one before begins to commit.
    pub overlaps_commits: bool,
    /// Largest group commit over the transactions at once.
    pub group_share: f64,
    /// The longest stage of a commit over all its flushes: a group's binary log is flushed while
    /// the next one's redo log is.
    pub longest_stage: f64,
    /// The processor's part of commits is done for one after the other.
    pub in_turn: bool,
    /// Transactions a second that the devices' I/Os let through.
    pub iops_rate: f64,
    /// Transactions a second that the devices' bytes allow.
    pub bytes_rate: f64,
    /// Processors over the time of a transaction on all of them.
    pub cores_rate: f64,
    /// Transactions a second of the receive thread.
    pub receive_rate: f64,
}

impl ApplierCosts {
    /// Returns the time of one transaction's rows in its worker, s.
    pub fn rows_s(&self) -> f64 {
        let ordered =
            if self.workers > 1.0 { 1.0 + ORDER * self.order_cv * (1.0 + self.order_cv) * libm::log(self.workers.min(self.width).max(1.0)) } else { 1.0 };
        (self.processor_s + self.reads_s + self.page_writes_s) * (1.0 + self.redone) * ordered
    }

    /// Returns the time from a transaction's begin to its commit with none at the same time, s.
    pub fn alone_s(&self) -> f64 {
        self.processor_s + self.reads_s + self.page_writes_s + self.commit_processor_s + self.flushes_s
    }

    /// Returns the number of transactions under way at once.
    fn at_once(&self) -> f64 {
        if self.overlaps_commits {
            self.workers
        } else {
            self.workers.min(self.width).max(1.0)
        }
    }

    /// Returns the processor time of a commit in which no other is committed, s.
    fn serial_commit_s(&self) -> f64 {
        if self.in_turn {
            self.commit_processor_s
        } else {
            0.0
        }
    }

    /// Returns the most commits of a group.
    fn most_grouped(&self) -> f64 {
        (self.group_share * self.at_once()).max(1.0)
    }

    /// Returns the commits that share their flushes at `rate`, transactions a second. In order: the
    /// first that is late holds all behind it, and they come together, whatever it waited for (5.1
    /// of 16 workers where a volume's IOPS bound MariaDB 10.11, and 5.9 where flushes did). Else
    /// those that come while a group goes through the longest stage and is then committed, one
    /// after the other.
    pub fn grouped(&self, rate: f64) -> f64 {
        if self.order_cv > 0.0 {
            return self.most_grouped();
        }
        let free = (1.0 - rate * self.serial_commit_s()).max(1e-9);
        (rate * self.flushes_s * self.longest_stage / free).clamp(1.0, self.most_grouped())
    }

    /// Returns the transactions a second that reads, flushes, processor and dependencies let the
    /// workers do.
    fn workers_rate(&self) -> f64 {
        let commit_s = self.commit_processor_s + self.flushes_s;
        let rows_s = self.rows_s();
        if self.workers <= 1.0 {
            return 1.0 / (rows_s + commit_s).max(1e-9);
        }
        let by_workers = self.workers / (rows_s + commit_s).max(1e-9);
        let most = self.most_grouped();
        let by_flushes = most / (self.flushes_s * self.longest_stage + most * self.serial_commit_s()).max(1e-12);
        let by_width = match (self.overlaps_commits, self.width < self.workers) {
            (true, _) => self.width.min(self.workers) / rows_s.max(1e-9),
            (false, true) => self.width / (rows_s + commit_s).max(1e-9),
            (false, false) => f64::INFINITY,
        };
        weakest_limit(&[by_workers, by_flushes, by_width], SHARPNESS)
    }

    /// Returns the workers that wait for a read of theirs at `rate`, transactions a second: the
    /// others compute, commit, or wait for those before them. At least as many as take the reads'
    /// own time.
    pub fn reading(&self, rate: f64) -> f64 {
        let raw_s = (self.processor_s + self.reads_s + self.page_writes_s) * (1.0 + self.redone);
        let ordered = self.rows_s() / raw_s.max(1e-12);
        let elsewhere = rate * (self.processor_s + self.page_writes_s + self.commit_processor_s + self.flushes_s);
        ((self.at_once() - elsewhere) / ordered.max(1.0)).max(rate * self.reads_s)
    }

    /// Returns the transactions a second that the applier reaches.
    pub fn rate(&self) -> f64 {
        weakest_limit(&[self.workers_rate(), self.iops_rate, self.bytes_rate, self.cores_rate, self.receive_rate], SHARPNESS)
    }

    /// Returns the costs with one of them `times` as high.
    pub fn with(&self, cost: ReplicaBinding, times: f64) -> ApplierCosts {
        let mut costs = *self;
        match cost {
            ReplicaBinding::Reads => costs.reads_s *= times,
            ReplicaBinding::PageWrites => costs.page_writes_s *= times,
            ReplicaBinding::Flushes => costs.flushes_s *= times,
            ReplicaBinding::Processor => (costs.processor_s, costs.commit_processor_s) = (costs.processor_s * times, costs.commit_processor_s * times),
            ReplicaBinding::Dependencies => costs.width /= times,
            // A single thread stays one: what else would run it is another mode.
            ReplicaBinding::Workers => costs.workers = if self.workers > 1.0 { self.workers / times } else { self.workers },
            ReplicaBinding::Iops => costs.iops_rate /= times,
            ReplicaBinding::Bytes => costs.bytes_rate /= times,
            ReplicaBinding::Cores => costs.cores_rate /= times,
            ReplicaBinding::Receive => costs.receive_rate /= times,
            ReplicaBinding::Demand | ReplicaBinding::Large => {}
        }
        costs
    }

    /// Returns the share of the rate, 0 to 1, that follows a cost: the relative fall of the rate
    /// over the relative rise of the cost.
    fn share(&self, cost: ReplicaBinding) -> f64 {
        let (more, less) = (self.with(cost, 1.0 + NUDGE).rate(), self.with(cost, 1.0 - NUDGE).rate());
        (less - more) / (2.0 * NUDGE) / self.rate()
    }

    /// Returns the share of each of [`COSTS`] in the rate; together they are 1.
    pub fn shares(&self) -> [f64; COSTS.len()] {
        COSTS.map(|cost| self.share(cost))
    }

    /// Returns the share of the rate, 0 to 1, that follows [`ApplierCosts::width`]: 1 if twice as
    /// many transactions that may be applied at once would be twice the rate.
    pub fn dependency_lever(&self) -> f64 {
        self.share(ReplicaBinding::Dependencies)
    }

    /// Returns the share of the rate, 0 to 1, that follows the number of workers; 0 for a single
    /// thread, which no other joins by itself.
    pub fn worker_lever(&self) -> f64 {
        if self.workers > 1.0 {
            self.share(ReplicaBinding::Workers)
        } else {
            0.0
        }
    }

    /// Returns the bottleneck of the applier: [`ReplicaBinding::Dependencies`] if more than half of
    /// the rate follows [`ApplierCosts::width`], else the cost with the largest share of it
    /// ([`ApplierCosts::shares`]).
    pub fn binding(&self) -> ReplicaBinding {
        if self.dependency_lever() > 0.5 {
            return ReplicaBinding::Dependencies;
        }
        let shares = self.shares();
        let largest = (0..COSTS.len()).max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0);
        COSTS[largest]
    }
}
