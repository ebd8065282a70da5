//! The cache of a busy replica against pages moved one by one, as InnoDB moves them.

use super::bench::{setup, write_only, Bench, MIB};
use headrace_sim::mysql::replica::*;
use headrace_sim::mysql::settings::{free_pages, pool_instances};
use headrace_sim::mysql::{PageClass, Popularity, WarmUp};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{HashMap, VecDeque};

/// InnoDB's list: young pages, the midpoint, old pages; newest first. A hit moves a young page to the
/// front, and an old one that was read `held` transactions ago or earlier.
struct Lru {
    young: VecDeque<usize>,
    old: VecDeque<usize>,
    read_at: HashMap<usize, f64>,
    capacity: usize,
    held_tx: f64,
    reads: u64,
}

impl Lru {
    fn touch(&mut self, page: usize, now: f64) {
        let Some(&read_at) = self.read_at.get(&page) else {
            self.reads += 1;
            self.old.push_front(page);
            self.read_at.insert(page, now);
            if self.read_at.len() > self.capacity {
                let gone = self.old.pop_back().unwrap();
                self.read_at.remove(&gone);
            }
            return self.balance();
        };
        if let Some(at) = self.young.iter().position(|other| *other == page) {
            self.young.remove(at);
            self.young.push_front(page);
        } else if now - read_at >= self.held_tx {
            let at = self.old.iter().position(|other| *other == page).unwrap();
            self.old.remove(at);
            self.young.push_front(page);
            self.balance();
        }
    }

    fn balance(&mut self) {
        let target = (self.read_at.len() as f64 * 0.375) as usize;
        while self.old.len() > target + 4 {
            self.young.push_back(self.old.pop_front().unwrap());
        }
        while self.old.len() + 4 < target {
            self.old.push_front(self.young.pop_back().unwrap());
        }
    }
}

const ROWS: usize = 4_000;
const LEAVES: usize = 300;

/// Reads of a transaction that touches three pages of rows and four leaves of an index, drawn evenly.
fn naive(capacity: usize, held_tx: f64) -> f64 {
    let mut lru = Lru { young: VecDeque::new(), old: VecDeque::new(), read_at: HashMap::new(), capacity, held_tx, reads: 0 };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (transactions, mut half) = (6_000, 0);
    for tx in 0..transactions {
        if tx == transactions / 2 {
            half = lru.reads;
        }
        for _ in 0..3 {
            lru.touch(rng.next_u64() as usize % ROWS, f64::from(tx));
        }
        for _ in 0..4 {
            lru.touch(ROWS + rng.next_u64() as usize % LEAVES, f64::from(tx));
        }
    }
    (lru.reads - half) as f64 / f64::from(transactions / 2)
}

fn followed(capacity: usize, held_tx: f64) -> f64 {
    let (mut database, _) = write_only();
    let class = |pages: usize, touches: f64| PageClass { pages: pages as f64, touches_per_tx: touches / pages as f64 };
    database.popularity = Popularity { classes: vec![class(ROWS, 3.0), class(LEAVES, 4.0)] };
    database.usable_share = 1.0;
    let warm_up = WarmUp::held_back(&database, capacity as f64 * database.cached_bytes, held_tx);
    warm_up.at(warm_up.settled_tx(), &mut 0).reads
}

/// 5 %: a share of 3,000 transactions' some ten thousand reads is known to 1 %, and the fluid has the
/// midpoint in cohorts, not in pages.
#[test]
fn reads_are_those_of_pages_moved_one_by_one() {
    for capacity in [400, 1_200] {
        for held_tx in [0.0, 20.0, 1_000.0] {
            let (counted, predicted) = (naive(capacity, held_tx), followed(capacity, held_tx));
            println!("{capacity} pages, held for {held_tx}: {predicted:.3} followed, {counted:.3} page by page");
            assert!((predicted / counted - 1.0).abs() < 0.05, "{capacity} {held_tx}: {predicted} {counted}");
        }
    }
}

/// Pages that leave sooner than they may become young: the index is read again and again. 48 MiB at
/// 1 ms a transaction turn over in less than a second, at 100 ms they do not.
#[test]
fn a_quick_applier_in_a_small_cache_reads_more() {
    let reads = |cpu_ms: f64| {
        let mut bench = Bench { cache: 48.0 * MIB, data: setup("io2:100:60000"), ..Bench::new() };
        (bench.settings.flush_log_at_trx_commit, bench.settings.sync_binlog) = (2, 0);
        bench.applier.cpu_ms = cpu_ms;
        bench.run().rows[20].reads_per_tx
    };
    let (quick, slow) = (reads(0.2), reads(50.0));
    assert!(quick > 1.15 * slow, "{quick} {slow}");
}

/// Purge comes half a batch behind. Pages that leave before are read again: nobody waits for it,
/// but the volume has them to do.
#[test]
fn purge_reads_what_has_left() {
    let at = |purge_batch: u32, cache: f64| {
        let mut bench = Bench { cache: cache * MIB, data: setup("io2:100:60000"), ..Bench::new() };
        (bench.settings.purge_batch, bench.settings.flush_log_at_trx_commit, bench.settings.sync_binlog) = (purge_batch, 2, 0);
        let run = bench.run();
        (run.rows[20].reads_per_tx, run.rows[20].possible_tps)
    };
    let ((none, rate), (some, same)) = (at(1, 24.0), at(127, 24.0));
    // At most the share that purge wants again, 0.7.
    assert!(some > 1.05 * none && some < 1.7 * none, "{none} {some}");
    assert!((rate / same - 1.0).abs() < 0.01, "{rate} {same}");
    assert!((at(1, 200.0).0 / at(127, 200.0).0 - 1.0).abs() < 0.01);
}

#[test]
fn commits_go_through_two_stages() {
    let stage = |flush, log_bin, sync_binlog| {
        let settings = ReplicaSettings { flush_log_at_trx_commit: flush, log_bin, sync_binlog, ..Bench::new().settings };
        settings.longest_stage()
    };
    // One write of the redo log, two of the binary log.
    assert!((stage(1, true, 1) - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!((stage(1, false, 0), stage(1, true, 0), stage(2, true, 1), stage(2, true, 0)), (1.0, 1.0, 1.0, 1.0));
    // A tenth of a sync of the binary log: 0.2 writes.
    assert!((stage(1, true, 10) - 1.0 / 1.2).abs() < 1e-12);
}

/// Commits in turn: with half of 0.4 ms in the commit no more than 5,000 a second, however many
/// workers; without order or binary log they are not in turn.
#[test]
fn commits_in_turn_bound_all_workers() {
    let rate = |in_turn: bool| {
        let mut bench = Bench { data: setup("io2:100:60000"), ..Bench::new() }.workers(ReplicaMode::Writeset, 64);
        bench.settings.log_bin = in_turn;
        bench.settings.preserve_order = in_turn;
        (bench.settings.flush_log_at_trx_commit, bench.settings.sync_binlog) = (2, 0);
        (bench.applier.cpu_ms, bench.applier.commit_cpu_share) = (0.4, 0.5);
        (bench.rate(), bench.tps = vec![1e5; 10])
    };
    let ((turns, ()), (free, ())) = (rate(true), rate(false));
    assert!((4_500.0..=5_000.0).contains(&turns) && free > 2.0 * turns, "{turns} {free}");
}

/// The rule of the manuals, by hand.
#[test]
fn a_pool_has_as_many_instances_as_its_version_says() {
    const GIB: f64 = 1024.0 * MIB;
    let instances = |version: &str, gib: f64, vcpus| pool_instances("mysql", version, gib * GIB, vcpus);
    assert_eq!(instances("8.0.36", 0.9, 64), 1.0);
    assert_eq!(instances("8.0.36", 1.0, 2), 8.0);
    // 16 GiB are 128 chunks: 64 by them, 2 by 8 processors.
    assert_eq!((instances("8.4.0", 16.0, 8), instances("8.4.0", 16.0, 96)), (2.0, 24.0));
    assert_eq!((instances("9.7.4", 2.0, 96), instances("9.7.4", 2.0, 2), instances("9.7.4", 500.0, 512)), (8.0, 1.0, 64.0));
    assert_eq!(pool_instances("mariadb", "10.11", 100.0 * GIB, 64), 1.0);
    assert_eq!((free_pages("mysql", "8.0.36", 8.0 * GIB, 8), free_pages("mariadb", "10.11", GIB, 8)), (8_192.0, 1_152.0));
}

/// MySQL from 8.4 keeps dirty pages at a tenth of the pool: nearly every change is a page written, and
/// what leaves the cache is clean. 9.7.4 wrote 9.8 pages a transaction in 128 MiB (lab, 2026-11-23).
#[test]
fn pages_are_written_back_early() {
    let writes = |version: &str| {
        let mut bench = Bench { cache: 128.0 * MIB, ..Bench::new() };
        bench.settings = ReplicaSettings::of_version("mysql", version).unwrap();
        let database = replica_database(&bench.database, &bench.applier, &bench.settings, 0.0, (bench.source_cache, bench.cache)).unwrap();
        match bench.settings.dirty_low_water {
            0.0 => database.writes,
            low_water => written_back(&database, &bench.applier, &bench.settings, bench.cache, (low_water, 0.0)).writes,
        }
    };
    let (early, late) = (writes("9.7.4"), writes("8.0.36"));
    assert!((7.0..9.8).contains(&early.flush_per_tx) && late.flush_per_tx < 4.0, "{early:?} {late:?}");
    assert!(early.later_dirty < 0.5 * late.later_dirty, "{early:?} {late:?}");
    assert_eq!((early.flush_limit_per_s, early.background_per_s), (10_000.0, 0.0));
    // 10,000 x 30 / 91 = 3,297 pages a second are written at 30 % dirty; never fewer than a tenth are.
    let settings = ReplicaSettings::of_version("mysql", "9.7.4").unwrap();
    assert!((settings.dirty_share(3_297.0) - 0.3).abs() < 1e-3);
    assert_eq!((settings.dirty_share(100.0), settings.dirty_share(1e6)), (0.1, 0.9));
}

/// Whole chunks of 128 MiB of all instances, by the defaults of each version (MySQL's manual).
#[test]
fn a_buffer_pool_has_whole_chunks() {
    use headrace_sim::mysql::settings::pool_bytes;
    let mib = |flavor: &str, version: &str, requested: f64, vcpus: u32| pool_bytes(flavor, version, requested * MIB, vcpus) / MIB;
    // One instance: multiples of 128 MiB from 128 on, less as it is.
    for (requested, allocated) in [(52.0, 52.0), (127.0, 127.0), (128.0, 128.0), (129.0, 256.0), (156.0, 256.0), (260.0, 384.0), (1_000.0, 1_024.0)] {
        assert_eq!(mib("mysql", "9.7", requested, 2), allocated, "{requested}");
    }
    // Eight instances from 1 GiB on: multiples of 1 GiB. MySQL 8.4 with 16 processors: four of them.
    assert_eq!(mib("mysql", "8.0.36", 9_300.0, 16), 10_240.0);
    assert_eq!(mib("mysql", "8.4", 9_300.0, 16), 9_728.0);
    // Before chunks, and where they are small.
    for (flavor, version) in [("mysql", "5.6"), ("mysql", "5.7.4"), ("mariadb", "10.11"), ("mariadb", "5.5")] {
        assert_eq!(mib(flavor, version, 156.0, 2), 156.0);
    }
    assert_eq!(mib("mariadb", "10.6.12", 156.0, 2), 256.0);
}
