//! sysbench-tpcc as a database of which no run was measured: the start of a calibration, and, with
//! wide intervals, what is used where there is no run.
//!
//! Popularity: `data/mysql/popularity.csv`. Everything else is a constant here, with its source.

use super::costs::{ClientHost, RoundTrip};
use super::database::{Clients, Compaction, Database, IoShape, Log, Noise, PageWrites, StorageEngine, SERIAL_SHARE, UNLIMITED};
use super::interval::core_ms;
use super::last_orders::LastOrders;
use super::popularity::{PageClass, Popularity};
use super::settings::syncs_per_commit;
use super::tprocc::{ITEMS_LOOKED_AT, OFTEN, SELDOM, STOCK};
use crate::error::SimError;

/// Popularity of pages by benchmark and engine.
const POPULARITY: &str = include_str!("../../../../data/mysql/popularity.csv");

/// Pages InnoDB writes in the background a second where no setting is given: on every volume of the
/// c5 runs 220 to 330 IOPS remain after the fill; innodb_io_capacity is 200 by default, and purge
/// and the journal add to it.
pub const BACKGROUND: f64 = 250.0;
/// Compressed 16 KiB blocks as read, bytes: 471 GB in InnoDB are 100 GB in MyRocks (LZ4); 3,600
/// IOPS moved 24 MiB/s on m5 in 2018, that is 6.9 KiB each.
const MYROCKS_READ_BYTES: f64 = 7_066.0;
/// Speed of the cores that the processor time was counted on: 3.1 GHz of Skylake, 4 of 24 cores and
/// their share of a cache (m5.2xlarge).
const CORE_SPEED: f64 = 2.97;
/// Processor time on the c5.9xlarge of the other runs, of speed 3.39, over that.
const C5_TIMES: f64 = CORE_SPEED / 3.39;
/// InnoDB page, bytes (innodb_page_size).
const PAGE_BYTES: f64 = 16_384.0;
/// InnoDB's popularity was fitted with up to this share of its data cached (25 of 94 GB, m5 2018).
const CACHED_SHARE: f64 = 0.27;
/// Beyond it fewer pages are touched than it has, as (cached share / [`CACHED_SHARE`]) to minus
/// this. TPC-C's tables say so (`tprocc`, items by NURand(8191)): of 5,330 pages of a warehouse
/// 2,200 of stock and 1,250 of customers have nearly all touches, and delivered order lines next to
/// none. With 0.525 of the data cached they read 0.35 to 0.7 pages a transaction, by whether the
/// rows that stock levels look at are cached since their orders or lie anywhere, where the
/// popularity has 2.2; that is 0.6 to 0.7 of its pages: ln(0.66) / ln(0.525 / 0.27).
const FEWER_BEYOND: f64 = 0.62;

/// Clients of the published runs as far as both engines share them: the runs say nothing of the
/// processor time of I/Os and of threads without clients, so it is in that of the transactions.
/// Base, processor time and the shape of response times stand with each engine.
const CLIENTS: Clients = Clients {
    base_ms: 0.0,
    cpu_ms: 0.0,
    sharpness: 1.0,
    p95_over_mean: 1.0,
    serial_share: SERIAL_SHARE,
    core_speed: Some(CORE_SPEED),
    threads_per_core: None,
    alone_faster: None,
    handover_share: 0.0,
    background_share: 0.0,
    io_ms: 0.0,
    io_device_ms: 0.0,
    wake_ms: 0.0,
};

/// Returns the popularity of a standard benchmark over `scale` units (warehouses).
fn popularity(benchmark: &str, engine: &str, scale: f64) -> Result<Popularity, SimError> {
    let bad = |row: &str| SimError::refused("row of data/mysql/popularity.csv", row, "must hold numbers", "Correct the file.");
    let mut classes = Vec::new();
    for row in POPULARITY.lines().skip(1).filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split(',').collect();
        let [of_benchmark, of_engine, pages, touches, ..] = cells[..] else { return Err(bad(row)) };
        if of_benchmark == benchmark && of_engine == engine {
            let number = |text: &str| text.parse::<f64>().map_err(|_| bad(row));
            classes.push(PageClass { pages: number(pages)? * scale, touches_per_tx: number(touches)? / scale });
        }
    }
    Ok(Popularity { classes })
}

/// Makes sysbench-tpcc over `warehouses` (tables x scale).
pub fn tpcc(engine: StorageEngine, warehouses: f64) -> Result<Database, SimError> {
    SimError::check_range("warehouses", warehouses, 1.0, 1e7)?;
    match engine {
        StorageEngine::Innodb => innodb_tpcc(warehouses),
        StorageEngine::Myrocks => myrocks_tpcc(warehouses),
    }
}

/// Statements of a transaction of sysbench-tpcc, by its script (`tpcc_run.lua`): of 23, ten new
/// orders of 47 (ten lines of four), ten payments of 10.3, a delivery of 72, an order status and a
/// stock level of five each. 28.4 to 28.5 were counted (published, RDS 2020).
const STATEMENTS: f64 = 28.5;

/// Makes [`tpcc`] with its clients on this host and behind this cache. No host: as in the published
/// runs of 2018, which do not say where they were; a zone's network is in what those took without
/// I/O. No cache: one that holds little of the data.
///
/// # Errors
/// A number of warehouses out of range.
pub fn tpcc_from(engine: StorageEngine, warehouses: f64, host: Option<ClientHost>, cache_bytes: Option<f64>) -> Result<Database, SimError> {
    let mut database = tpcc(engine, warehouses)?;
    if let (StorageEngine::Innodb, Some(bytes)) = (engine, cache_bytes) {
        let cached = (bytes / (database.popularity.pages() * PAGE_BYTES)).min(1.0);
        let fewer = libm::pow((cached / CACHED_SHARE).max(1.0), -FEWER_BEYOND);
        database.popularity.classes.iter_mut().for_each(|class| class.pages *= fewer);
    }
    if host == Some(ClientHost::Region) {
        let trip = RoundTrip::from_host(ClientHost::Region);
        database.clients.base_ms = database.clients.core_ms() + STATEMENTS * trip.away_ms;
        database.clients.wake_ms = STATEMENTS * trip.wake_ms;
    }
    Ok(database)
}

/// Returns the log that a transaction appends besides `redo_bytes_per_tx`, as in the published runs
/// these figures come from: redo synced at every commit, the binary log almost never (`sync_binlog
/// = 10000`, their README). A server with other settings: [`super::settings::ServerSettings`].
fn log_of(redo_bytes_per_tx: f64) -> Log {
    Log {
        redo_bytes_per_tx,
        binlog_bytes_per_tx: 3_000.0,
        syncs_per_commit: syncs_per_commit(1, true, 0),
        commits_per_tx: Some(1.0),
        redo_capacity_bytes: None,
    }
}

/// Makes sysbench-tpcc on InnoDB.
fn innodb_tpcc(warehouses: f64) -> Result<Database, SimError> {
    Ok(Database {
        engine: StorageEngine::Innodb,
        read_bytes: PAGE_BYTES,
        cached_bytes: PAGE_BYTES,
        popularity: popularity("sysbench-tpcc", "innodb", warehouses)?,
        last_orders: None,
        // Control blocks and the adaptive hash index take some (guess: 4 %).
        usable_share: 0.96,
        // innodb_old_blocks_pct is 37 by default; what acts like more is hits that come too late to
        // move a page.
        old_share: 0.45,
        ordered_while_filling: false,
        read_ahead_share: 0.0,
        // Dirty shares and flushing: between what calibrations to the published c5 and m5 runs of
        // 2018 find.
        writes: PageWrites {
            flush_per_tx: 4.5,
            flush_ramp_tx: 4.0 * warehouses,
            first_dirty: 0.6,
            later_dirty: 0.2,
            // The m5 pools of 5 and 25 GB together ask for 0.38, the c5 ones for 0.2.
            dirty_slope: 0.3,
            background_per_s: BACKGROUND,
            // The published c5 runs flush in proportion to transactions at 5,000 as at 20,000 IOPS:
            // no limit showed. The m5 ones, with innodb_io_capacity_max 500, flush 500 pages a
            // second.
            flush_limit_per_s: UNLIMITED,
            doublewrite: true,
        },
        // 12 KiB a transaction on m5, the flushing of pages left out: redo and the row images of
        // the binlog. Their division between the two is a guess.
        dirtying: None,
        cleaner: None,
        log: log_of(9_000.0),
        compaction: None,
        // Processor: 27 % of 8 vCPUs at 450 tps (m5.2xlarge by its memory). Base: what 32 against
        // 72 clients at 10,000 and 20,000 IOPS leave room for on c5, 15 ms.
        clients: Clients { base_ms: 15.0 + core_ms(4.8) * (1.0 - C5_TIMES), cpu_ms: 4.8, sharpness: 4.0, p95_over_mean: 3.0, ..CLIENTS },
        noise: Noise { fano: 3.0, cv: 0.055 },
        shape: IoShape::default(),
        hot_rows: Vec::new(),
        checkpoint: None,
        local_disk: None,
        local_disk_reads: None,
        local_disk_read_ms: None,
    })
}

/// Makes sysbench-tpcc on MyRocks.
fn myrocks_tpcc(warehouses: f64) -> Result<Database, SimError> {
    let popularity = popularity("sysbench-tpcc", "myrocks", warehouses)?;
    // The mix is that of HammerDB's script. The m5 runs, which the popularity was fitted to, read
    // eight blocks a transaction less when cold than the c5 runs do, as many as stock levels look
    // at: the popularity is without them. Why is not known; they had another script (37 statements
    // a transaction instead of 28), and may have had data that a run before had left.
    let stock = STOCK.0 * STOCK.1 / PAGE_BYTES;
    let share = (stock * warehouses / popularity.pages()).min(1.0);
    let last_orders = LastOrders::new(warehouses, (stock, share), (SELDOM, ITEMS_LOOKED_AT), OFTEN);
    Ok(Database {
        engine: StorageEngine::Myrocks,
        read_bytes: MYROCKS_READ_BYTES,
        cached_bytes: PAGE_BYTES,
        last_orders: Some(last_orders),
        popularity,
        usable_share: 0.96,
        old_share: 1.0,
        ordered_while_filling: true,
        read_ahead_share: 0.0,
        writes: PageWrites::none(),
        // 256 MiB memtables hold 81,500 transactions: 3.3 kB each. Binlog as for InnoDB.
        dirtying: None,
        cleaner: None,
        log: log_of(3_300.0),
        // Four memtables start one (level0_file_num_compaction_trigger). Bytes: vmstat of the m5
        // runs, 13 KiB written a transaction, the log left out.
        compaction: Some(Compaction {
            period_tx: 4.0 * 268_435_456.0 / 3_294.0,
            first_tx: 4.0 * 268_435_456.0 / 3_294.0,
            read_bytes_per_tx: 8_000.0,
            write_bytes_per_tx: 10_000.0,
            rate_bytes_s: 100e6,
            profile: vec![1.0],
        }),
        // Base: 32 clients at 30,000 IOPS on c5, where nothing else binds, 8.7 ms. Processor: 57 %
        // of 8 vCPUs at 790 tps on m5.
        clients: Clients { base_ms: 8.7 + core_ms(5.8) * (1.0 - C5_TIMES), cpu_ms: 5.8, sharpness: 5.0, p95_over_mean: 2.0, ..CLIENTS },
        noise: Noise { fano: 3.0, cv: 0.055 },
        shape: IoShape::default(),
        hot_rows: Vec::new(),
        checkpoint: None,
        local_disk: None,
        local_disk_reads: None,
        local_disk_read_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: 28.5 statements, each two thirds of the time between zones (0.75 ms and 0.133 ms of
    /// waking up) and a third within one (0.15 ms): 18.202 ms next to the processor's 0.685 x 4.8.
    #[test]
    fn clients_in_the_region_wait_for_each_statement() {
        let standard = tpcc(StorageEngine::Innodb, 10.0).unwrap();
        for host in [None, Some(ClientHost::Same), Some(ClientHost::Network)] {
            assert_eq!(tpcc_from(StorageEngine::Innodb, 10.0, host, None).unwrap(), standard);
        }
        let clients = tpcc_from(StorageEngine::Innodb, 10.0, Some(ClientHost::Region), None).unwrap().clients;
        assert!((clients.base_ms - (0.685 * 4.8 + 18.202)).abs() < 1e-9, "{}", clients.base_ms);
        assert!((clients.wake_ms - 2.527).abs() < 1e-9, "{}", clients.wake_ms);
        assert_eq!(Clients { base_ms: standard.clients.base_ms, wake_ms: 0.0, ..clients }, standard.clients);
    }

    /// Golden: 5,990 pages of a warehouse; with twice the covered share of them cached there are
    /// 2^-0.62 = 0.651 of them. Up to that share, and in MyRocks, the cache changes nothing.
    #[test]
    fn a_cache_beyond_those_measured_finds_fewer_pages() {
        let standard = tpcc(StorageEngine::Innodb, 10.0).unwrap();
        let data_bytes = standard.popularity.pages() * PAGE_BYTES;
        let behind = |engine, share: f64| tpcc_from(engine, 10.0, None, Some(share * data_bytes)).unwrap();
        for share in [0.01, 0.27] {
            assert_eq!(behind(StorageEngine::Innodb, share), standard);
        }
        let few = behind(StorageEngine::Innodb, 0.54).popularity;
        assert!((few.pages() / standard.popularity.pages() - 0.651).abs() < 5e-4);
        assert!((few.touches_per_tx() / standard.popularity.touches_per_tx() - 0.651).abs() < 5e-4);
        assert_eq!(behind(StorageEngine::Innodb, 1.0), behind(StorageEngine::Innodb, 7.0));
        assert_eq!(behind(StorageEngine::Myrocks, 1.0), tpcc(StorageEngine::Myrocks, 10.0).unwrap());
    }
}
