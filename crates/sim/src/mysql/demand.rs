//! One transaction in I/Os and bytes, as a storage counts them.

use super::database::{Database, RUN_BYTES};
use super::warmup::At;
use crate::demand::measure::{Counting, Measured};
use crate::demand::mixture::{OwnLatency, OwnLatencyKey};
use crate::setup::Setup;

/// I/Os and bytes, of a transaction or a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub measured: Measured,
}

impl Flow {
    /// Adds `count` reads of `bytes` each; `sequential`: share of them, 0-1.
    fn read(&mut self, device: &DeviceCounting, count: f64, bytes: f64, sequential: f64) {
        let (units, total, hdd) = device.counting.count(count, bytes, sequential);
        let to = &mut self.measured;
        (to.read_units, to.read_bytes, to.read_hdd) = (to.read_units + units, to.read_bytes + total, to.read_hdd + hdd);
        (to.iops, to.bytes_s) = (to.iops + units.max(count), to.bytes_s + total);
    }

    /// Adds `count` writes of `bytes` each; `sequential`: share of them, 0-1.
    pub fn write(&mut self, device: &DeviceCounting, count: f64, bytes: f64, sequential: f64) {
        let (units, total, hdd) = device.counting.count(count, bytes, sequential);
        let to = &mut self.measured;
        (to.write_units, to.write_bytes, to.write_hdd) = (to.write_units + units, to.write_bytes + total, to.write_hdd + hdd);
        (to.iops, to.bytes_s) = (to.iops + units.max(count), to.bytes_s + total);
    }

    /// Returns the flow that an instance sees, with this number of I/Os for each read and each
    /// write.
    pub fn copied(&self, (reads, writes): (f64, f64)) -> Flow {
        let mut flow = *self;
        let m = &mut flow.measured;
        (m.read_units, m.read_bytes, m.write_units, m.write_bytes) =
            (m.read_units * reads, m.read_bytes * reads, m.write_units * writes, m.write_bytes * writes);
        flow
    }

    /// Returns `times` this flow, plus `more`.
    #[inline]
    pub fn times_plus(&self, times: f64, more: &Flow) -> Flow {
        let (a, b) = (&self.measured, &more.measured);
        let sum = |x: f64, y: f64| times * x + y;
        Flow {
            measured: Measured {
                duration_s: 1.0,
                iops: sum(a.iops, b.iops),
                // Single requests are not known here, nor asked for: chance is the database's.
                reads: (0.0, 1.0),
                writes: (0.0, 1.0),
                bytes_s: sum(a.bytes_s, b.bytes_s),
                read_units: sum(a.read_units, b.read_units),
                write_units: sum(a.write_units, b.write_units),
                read_bytes: sum(a.read_bytes, b.read_bytes),
                write_bytes: sum(a.write_bytes, b.write_bytes),
                read_hdd: sum(a.read_hdd, b.read_hdd),
                write_hdd: sum(a.write_hdd, b.write_hdd),
            },
        }
    }
}

/// Rules by which a device counts, and its own latency.
#[derive(Clone, Debug)]
pub(crate) struct DeviceCounting {
    counting: Counting,
    /// Mean own latency of a page read, ms.
    pub read_ms: f64,
    /// Mean own latency of a log write, ms.
    pub write_ms: f64,
}

impl DeviceCounting {
    /// Makes the rules of a storage and the own latencies of a database's reads and log writes on
    /// it.
    pub fn new(setup: &Setup, database: &Database) -> DeviceCounting {
        let chunk = setup.storage.raid.map(|_| setup.storage.chunk_kib as f64 * 1_024.0);
        let hdd = setup.limits.iter().find(|limits| limits.random_charges_full_unit);
        let first = &setup.limits[0];
        let latency = |read_share: f64| {
            OwnLatency::cached(&OwnLatencyKey {
                volume_type: first.spec.volume_type,
                as_of: first.as_of,
                raid: setup.storage.raid,
                members: setup.limits.len(),
                read_share,
                read_bytes: database.read_bytes,
                write_bytes: 16_384.0,
            })
            .mean_ms()
        };
        let guessed_ms = database.local_disk_read_ms.filter(|_| setup.is_on_guessed_disks());
        DeviceCounting { counting: Counting::new(chunk, hdd), read_ms: guessed_ms.unwrap_or_else(|| latency(1.0)), write_ms: latency(0.0) }
    }
}

/// Devices that a database's I/O goes to.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub data: DeviceCounting,
    /// Redo and binary log, where they have a volume of their own.
    pub log: Option<DeviceCounting>,
}

impl Places {
    /// Returns the rules of the device that holds the logs.
    pub fn log_or_data(&self) -> &DeviceCounting {
        self.log.as_ref().unwrap_or(&self.data)
    }

    /// Returns the I/O of one transaction with the cache at `at`, on the data and the log device;
    /// `reads_by` scales its reads (compaction's profile), `syncs` is its share of synchronous log
    /// writes.
    pub fn of_transaction(&self, database: &Database, at: &At, reads_by: f64, syncs: f64) -> (Flow, Flow) {
        let (mut data, mut log) = (Flow::default(), Flow::default());
        let reads = at.reads * at.shape * reads_by;
        let ahead = database.read_ahead_share;
        data.read(&self.data, reads * (1.0 - ahead), database.read_bytes, 0.0);
        if ahead > 0.0 {
            data.read(&self.data, reads * ahead * database.read_bytes / RUN_BYTES, RUN_BYTES, 1.0);
        }
        self.write_pages(database, &mut data, (at.evicted_dirty + at.flushed) * at.shape);
        let bytes = database.log.redo_bytes_per_tx + database.log.binlog_bytes_per_tx;
        if bytes > 0.0 {
            // Nobody syncs: the log leaves in long runs.
            let writes = if syncs > 0.0 { syncs } else { bytes / RUN_BYTES };
            let to = if self.log.is_some() { &mut log } else { &mut data };
            to.write(self.log_or_data(), writes, bytes / writes, 1.0);
        }
        (data, log)
    }

    /// Returns the I/O of one second that does not depend on transactions: pages the cleaner writes
    /// in the background, and compaction's bytes.
    pub fn of_second(&self, database: &Database, background_pages: f64, compacted: (f64, f64)) -> Flow {
        let mut flow = Flow::default();
        self.write_pages(database, &mut flow, background_pages);
        if compacted.0 + compacted.1 > 0.0 {
            flow.read(&self.data, compacted.0 / RUN_BYTES, RUN_BYTES, 1.0);
            flow.write(&self.data, compacted.1 / RUN_BYTES, RUN_BYTES, 1.0);
        }
        flow
    }

    /// Adds the writes of `pages` in their place, and in runs to the doublewrite area.
    fn write_pages(&self, database: &Database, flow: &mut Flow, pages: f64) {
        if pages > 0.0 {
            flow.write(&self.data, pages, database.cached_bytes, 0.0);
            if database.writes.doublewrite {
                flow.write(&self.data, pages * database.cached_bytes / RUN_BYTES, RUN_BYTES, 1.0);
            }
        }
    }
}
