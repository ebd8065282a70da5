//! Interface of the second-by-second form to the storage that serves a database's I/O, and the
//! limits that can bind.

use crate::mysql::database::Database;
use crate::mysql::demand::Flow;
use crate::mysql::warmup::At;
use headrace_model::Cap;

/// Bottleneck of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nothing: the open load is served as it comes.
    #[default]
    Demand,
    /// The clients and their response time.
    Clients,
    /// The processors.
    Cpu,
    /// Work that only one transaction at a time can be in: latches.
    Contention,
    /// A cap of the data volumes or the instance.
    Data(Cap),
    /// A cap of the log volumes.
    Log(Cap),
    /// The network of the instance, where storage is behind it (Aurora).
    Network,
    /// Pages a second that the storage of a service gives a server (Aurora).
    PageReads,
}

impl Binding {
    /// Returns the name used in tables, CSV and JSON.
    pub fn name(self) -> String {
        match self {
            Binding::Demand => "none".into(),
            Binding::Clients => "clients".into(),
            Binding::Cpu => "cpu".into(),
            Binding::Contention => "contention".into(),
            Binding::Data(cap) => cap.name().into(),
            Binding::Log(cap) => format!("log-{}", cap.name()),
            Binding::Network => "network".into(),
            Binding::PageReads => "page-reads".into(),
        }
    }
}

/// Storage that serves a database's I/O: volumes (`interval`'s devices), or the storage of a
/// service (`services`).
pub(crate) trait Backend {
    /// Returns the mean latency of a page read with nothing to wait for, ms.
    fn read_ms(&self) -> f64;
    /// Returns the mean latency of a synchronous log write with nothing to wait for, ms.
    fn log_write_ms(&self) -> f64;
    /// Returns whether I/Os queue for each other before a cap is reached: flash does its reads and
    /// writes by the same dies, while a volume's buckets let all pass until they are empty.
    fn queues(&self) -> bool {
        false
    }
    /// Returns whether a round of the page cleaner goes as fast as caps let it, in one line with
    /// the I/O of clients.
    fn drains_rounds(&self) -> bool {
        false
    }
    /// Returns whether logs are on a device of their own.
    fn keeps_logs_apart(&self) -> bool {
        false
    }
    /// Returns the wait of a commit beyond its log writes, ms: a standby.
    fn commit_ms(&self) -> f64 {
        0.0
    }
    /// Returns the I/O of one transaction, on data and log (`demand::Places::of_transaction`).
    fn of_transaction(&self, database: &Database, at: &At, reads_by: f64, syncs: f64) -> (Flow, Flow);
    /// Returns the I/O of one second that does not depend on transactions
    /// (`demand::Places::of_second`).
    fn of_second(&self, database: &Database, background_pages: f64, compacted: (f64, f64)) -> Flow;
    /// Returns the most transactions a second on top of `always`, and what binds.
    fn max_rate(&self, each: (&Flow, &Flow), always: &Flow, seconds: f64) -> (f64, Binding);
    /// Returns the rate at which compaction could move these bytes, over the rate given.
    fn spare(&self, database: &Database, compacted: (f64, f64), seconds: f64) -> f64;
    /// Takes what a step of `seconds` that ends at `t_s` used from the buckets; flows are of a
    /// second.
    fn charge(&mut self, data: &Flow, log: &Flow, t_s: f64, seconds: f64);
    /// Returns the lowest credit balance of a volume, percent.
    fn balance_percent(&self) -> Option<f64>;
    /// Returns the lowest burst bucket of the instance, percent.
    fn instance_percent(&self) -> Option<f64>;
}

/// Waits of a write and of a commit beyond the volume: a standby in another zone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Path {
    /// Added to every log write, ms.
    pub write_ms: f64,
    /// Added to every commit, ms.
    pub commit_ms: f64,
}
