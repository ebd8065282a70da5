//! The day of the tests' limits, and a small InnoDB database for the tests of both forms.

use headrace_catalog::NaiveDate;
use headrace_sim::mysql::{Clients, Database, IoShape, Log, Noise, PageClass, PageWrites, Popularity, StorageEngine};

pub const PAGE: f64 = 16_384.0;

/// Returns the day whose limits and latencies the tests take.
pub fn day() -> NaiveDate {
    "2024-06-01".parse().unwrap()
}

/// Some ten reads and three page writes a transaction once settled; no log, no background, no
/// scatter.
pub fn plain_database(sharpness: f64) -> Database {
    let hot = PageClass { pages: 20_000.0, touches_per_tx: 1e-3 };
    let rest = PageClass { pages: 1_000_000.0, touches_per_tx: 2e-5 };
    Database {
        engine: StorageEngine::Innodb,
        read_bytes: PAGE,
        cached_bytes: PAGE,
        popularity: Popularity { classes: vec![hot, rest] },
        last_orders: None,
        usable_share: 1.0,
        old_share: 0.375,
        ordered_while_filling: false,
        read_ahead_share: 0.0,
        writes: PageWrites {
            flush_per_tx: 1.0,
            flush_ramp_tx: 0.0,
            first_dirty: 0.4,
            later_dirty: 0.2,
            dirty_slope: 0.0,
            background_per_s: 0.0,
            flush_limit_per_s: 1e9,
            doublewrite: true,
        },
        dirtying: None,
        cleaner: None,
        log: Log { redo_bytes_per_tx: 0.0, binlog_bytes_per_tx: 0.0, syncs_per_commit: 0.0, commits_per_tx: None, redo_capacity_bytes: None },
        compaction: None,
        clients: Clients {
            base_ms: 20.0,
            cpu_ms: 2.0,
            sharpness,
            p95_over_mean: 1.6,
            serial_share: 0.0,
            core_speed: None,
            threads_per_core: None,
            alone_faster: None,
            handover_share: 0.0,
            background_share: 0.0,
            io_ms: 0.0,
            io_device_ms: 0.0,
            wake_ms: 0.0,
        },
        noise: Noise { fano: 0.0, cv: 0.0 },
        shape: IoShape::default(),
        hot_rows: Vec::new(),
        checkpoint: None,
        local_disk: None,
        local_disk_reads: None,
        local_disk_read_ms: None,
    }
}
