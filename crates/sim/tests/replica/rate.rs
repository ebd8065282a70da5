//! The applier's rate: golden numbers, laws, and what was seen of real servers.

use super::bench::{instance, setup, Bench, MIB};
use headrace_model::latency::LatencyProfile;
use headrace_model::Op;
use headrace_sim::mysql::replica::*;
use headrace_sim::SimError;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

fn costs() -> ApplierCosts {
    ApplierCosts {
        processor_s: 1e-3,
        commit_processor_s: 5e-4,
        reads_s: 2e-3,
        page_writes_s: 5e-4,
        flushes_s: 2e-3,
        redone: 0.0,
        order_cv: 0.0,
        workers: 1.0,
        width: f64::INFINITY,
        overlaps_commits: false,
        group_share: 0.5,
        longest_stage: 1.0,
        in_turn: true,
        iops_rate: f64::INFINITY,
        bytes_rate: f64::INFINITY,
        cores_rate: f64::INFINITY,
        receive_rate: f64::INFINITY,
    }
}

#[test]
fn one_thread_does_one_thing_after_the_other() {
    // 1 / (1 + 0.5 + 2 + 0.5 + 2 ms).
    assert!((costs().rate() - 1e3 / 6.0).abs() < 1e-9);
    // 2 of 6 ms are reads: a share is a part of the time.
    let shares = costs().shares();
    assert!((shares[0] - 2.0 / 6.0).abs() < 1e-6 && (shares[2] - 2.0 / 6.0).abs() < 1e-6, "{shares:?}");
    assert_eq!(costs().dependency_lever(), 0.0);
}

#[test]
fn a_width_of_one_leaves_workers_idle() {
    let four = ApplierCosts { workers: 4.0, width: 1.0, ..costs() };
    // Softest minimum of 1, 4 and (0.5 x 1 -> 1) / 2 ms: within 2 % of one thread.
    assert!((four.rate() / costs().rate() - 1.0).abs() < 0.02, "{}", four.rate());
    assert_eq!(four.binding(), ReplicaBinding::Dependencies);
    assert!(ApplierCosts { width: 2.0, ..four }.rate() / four.rate() > 1.8);
}

#[test]
fn overlapping_commits_leave_the_rows() {
    // Rows take 3.5 ms in all; flushes of 16 workers are shared by 8: 4,000 a second.
    let minimal = ApplierCosts { workers: 16.0, width: 1.0, overlaps_commits: true, ..costs() };
    assert!((minimal.rate() * 3.5e-3 - 1.0).abs() < 0.01, "{}", minimal.rate());
}

/// Shares of all costs and limits are 1 together, whatever binds; a cost that falls never slows
/// the applier down, and scaling everything scales the rate.
#[test]
fn shares_are_parts_of_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut unit = || (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0;
    for case in 0..500 {
        let mut some = |low: f64, high: f64| low * (high / low).powf(unit());
        let costs = ApplierCosts {
            processor_s: some(1e-5, 1e-2),
            commit_processor_s: some(1e-5, 1e-3),
            reads_s: some(1e-6, 1e-1),
            page_writes_s: some(1e-6, 1e-2),
            flushes_s: some(1e-6, 1e-2),
            redone: some(1e-3, 0.5),
            order_cv: some(0.01, 1.0),
            workers: some(1.0, 64.0).floor(),
            width: some(1.0, 300.0),
            overlaps_commits: case % 3 == 0,
            group_share: some(0.05, 0.5),
            longest_stage: some(0.5, 1.0),
            in_turn: case % 2 == 0,
            iops_rate: some(50.0, 1e5),
            bytes_rate: some(50.0, 1e5),
            cores_rate: some(50.0, 1e5),
            receive_rate: some(50.0, 1e5),
        };
        let sum: f64 = costs.shares().iter().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum} of {costs:?}");
        for cost in COSTS {
            assert!(costs.with(cost, 0.5).rate() >= costs.rate() * (1.0 - 1e-9), "{cost:?} of {costs:?}");
        }
        let twice = COSTS.iter().fold(costs, |changed, &cost| changed.with(cost, 2.0));
        assert!((twice.rate() * 2.0 / costs.rate() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn golden_one_thread_in_cache() {
    let bench = Bench::new();
    let write_s = LatencyProfile::of(bench.data.storage.members[0].volume_type, Op::Write, super::bench::day()).mean_us() / 1e6;
    // 0.27 x the client's processor time of data/mysql/standards.csv (sysbench's), one redo and two binary log
    // writes of 16 KiB.
    let expected = 1.0 / (0.27e-3 * bench.database.clients.cpu_ms + 3.0 * write_s);
    // The table of latencies and its integral differ by less than a hundredth.
    assert!((bench.rate() / expected - 1.0).abs() < 0.01, "{} {expected}", bench.rate());
}

/// Seen on a gp3 of a lab on 2026-11-22 (MariaDB 10.11, 416 MiB of data, two processors): with a
/// cache of 48 MiB 3.3 times the IOPS gave one thread 5 % (87 and 91 tps).
#[test]
fn more_iops_do_not_help_one_thread() {
    let rate = |storage: &str| Bench { cache: 48.0 * MIB, data: setup(storage), ..Bench::new() }.rate();
    let (three, ten) = (rate("gp3:100:3000:500"), rate("gp3:100:10000:500"));
    assert!((1.0..1.06).contains(&(ten / three)), "{three} {ten}");
    // It leaves the device half idle: 1,550 of 3,000 IOPS seen.
    let run = Bench { cache: 48.0 * MIB, ..Bench::new() }.run();
    assert!(run.rows[10].iops < 0.7 * 3_000.0, "{}", run.rows[10].iops);
}

/// Seen in the same trials: `minimal`, which overlaps commits alone, gave 6.5 times one thread's
/// rate with all data in the cache and nothing (0.94) with 12 % of it; optimistic mode gave 2.4
/// times there at most. The model has the order of things and not the last: by it `minimal` still
/// hides the flushes behind the next transaction's reads, and doubles the rate. Why the servers did
/// not is not known (a flush of that device waits for its page writes).
#[test]
fn overlapping_commits_help_in_cache_and_hardly_with_misses() {
    let rate = |mode, workers, cache: f64| {
        let mut bench = Bench { cache: cache * MIB, ..Bench::new() }.workers(mode, workers);
        // Calibrated values of that run: 1 / 448 s without flushes, 4.1 ms of them.
        (bench.applier.cpu_ms, bench.applier.flush_factor) = (2.2, 2.1);
        bench.rate()
    };
    let gain = |mode, cache| rate(mode, 16, cache) / rate(ReplicaMode::Single, 0, cache);
    let (in_cache, with_misses) = (gain(ReplicaMode::Minimal, 700.0), gain(ReplicaMode::Minimal, 48.0));
    assert!(in_cache > 3.5 && with_misses < 2.2 && in_cache > 2.0 * with_misses, "{in_cache} {with_misses}");
    let optimistic = gain(ReplicaMode::Optimistic, 48.0);
    // 2.4 within a quarter; purge falls behind, which takes a part of the volume.
    assert!(optimistic > with_misses && (1.8..3.0).contains(&optimistic), "{optimistic} {with_misses}");
}

#[test]
fn durable_commits_are_what_workers_share() {
    let rate = |workers, durable: bool| {
        let mut bench = Bench::new().workers(if workers > 0 { ReplicaMode::Optimistic } else { ReplicaMode::Single }, workers);
        if !durable {
            (bench.settings.flush_log_at_trx_commit, bench.settings.sync_binlog) = (2, 0);
        }
        bench.data = setup("gp3:100:16000:500");
        bench.rate()
    };
    assert!(rate(16, true) / rate(0, true) > 4.0);
    assert!(rate(0, false) / rate(0, true) > 3.0);
}

#[test]
fn processors_bind_all_workers_together() {
    let mut bench = Bench { instance: Some(instance("m5.large")), data: setup("gp3:100:16000:500"), ..Bench::new() }.workers(ReplicaMode::Optimistic, 64);
    bench.applier.cpu_ms = 4.0;
    let run = bench.run();
    // Two virtual CPUs at 4 ms and 63 x 0.01 ms of spinning.
    assert!(run.summary.applier_tps < 2e3 / 4.63 && run.summary.binding == "cores", "{:?}", run.summary);
}

#[test]
fn one_flush_per_event_binds_the_receive_thread() {
    let mut bench = Bench::new().workers(ReplicaMode::Optimistic, 16);
    bench.settings.sync_relay_log = 1;
    let run = bench.run();
    let most = 1.0 / (bench.applier.events_per_tx * 2.0 * bench.with(|_| 0.0006));
    assert_eq!(run.summary.binding, "receive");
    assert!(run.summary.applier_tps < 1.2 * most, "{} {most}", run.summary.applier_tps);
}

#[test]
fn versions_have_their_defaults() {
    let of = |flavor, version| {
        let settings = ReplicaSettings::of_version(flavor, version).unwrap();
        (settings.mode, settings.workers, settings.preserve_order, settings.log_bin)
    };
    assert_eq!(of("mysql", "5.6.41"), (ReplicaMode::Database, 0, false, false));
    assert_eq!(of("mysql", "5.7"), (ReplicaMode::Database, 0, false, false));
    assert_eq!(of("mysql", "8.0.26"), (ReplicaMode::Database, 0, false, true));
    assert_eq!(of("mysql", "8.0.27"), (ReplicaMode::LogicalClock, 4, true, true));
    assert_eq!(of("mysql", "9.7.4"), (ReplicaMode::Writeset, 4, true, true));
    assert_eq!(of("mariadb", "10.4.2"), (ReplicaMode::Conservative, 0, true, false));
    assert_eq!(of("mariadb", "10.11"), (ReplicaMode::Optimistic, 0, true, false));
    for (flavor, version) in [("mysql", "5.5"), ("mysql", ""), ("postgres", "17")] {
        assert!(ReplicaSettings::of_version(flavor, version).is_err());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |bench: &Bench| replica_database(&bench.database, &bench.applier, &bench.settings, 0.0, (1e9, 1e9)).err().map(|error| error.to_string());
    let mut silent = Bench::new();
    silent.database.log.binlog_bytes_per_tx = 0.0;
    assert!(refused(&silent).unwrap().contains("nothing to replicate"));
    let mut unordered = Bench::new().workers(ReplicaMode::Optimistic, 4);
    unordered.settings.preserve_order = false;
    assert!(refused(&unordered).unwrap().contains("is kept by MariaDB"));
    let mut short = Bench::new();
    short.applier.written.pop();
    assert!(refused(&short).unwrap().contains("page classes"));
    let semi = SemiSync { acknowledgements: 2, ..waiting(&[0.5]) };
    let error: SimError = semi.check().unwrap_err();
    assert!(error.to_string().contains("would never come"));
}

/// One acknowledgement, ten seconds, as MariaDB does it.
fn waiting(round_trips_ms: &[f64]) -> SemiSync {
    SemiSync { round_trips_ms: round_trips_ms.to_vec(), acknowledgements: 1, timeout_ms: 1e4, wait_point: WaitPoint::AfterSync, groups_merge: false }
}

/// Clients of MariaDB that are away for a time (exponential), then flush in groups (`flush_ms`) and
/// wait for an acknowledgement. At AFTER_SYNC a group is sent when the one before has its own, and
/// whoever is back in time for its flush is in it (16 clients at 41.3 ms took 82.3 ms each time, 4 at 11.2 ms
/// 21.6: MariaDB 10.11, 2026-11-23). Commits a second, event by event.
fn pipeline(clients: usize, away_ms: f64, flush_ms: f64, network_ms: f64, after_sync: bool) -> f64 {
    let mut chance = ChaCha8Rng::seed_from_u64(1);
    let mut back: Vec<f64> = vec![0.0; clients];
    let (mut flushed, mut waits_until, mut done, until) = (0.0_f64, 0.0_f64, 0_usize, 200_000.0);
    loop {
        let first = back.iter().copied().fold(f64::INFINITY, f64::min);
        let free = if after_sync { waits_until } else { 0.0 };
        let sent = (first.max(flushed) + flush_ms).max(free);
        if sent > until {
            return done as f64 / until * 1e3;
        }
        let acknowledged = sent + network_ms;
        for client_back in back.iter_mut().filter(|client_back| **client_back <= sent - flush_ms) {
            let uniform = (f64::from(chance.next_u32()) + 1.0) / 4_294_967_296.0;
            *client_back = acknowledged - away_ms * uniform.ln();
            done += 1;
        }
        (flushed, waits_until) = (sent, acknowledged);
    }
}

#[test]
fn groups_wait_for_the_network_in_turn() {
    for (clients, away_ms, network_ms) in [(1, 3.0, 10.0), (2, 3.0, 10.0), (4, 3.0, 10.0), (16, 3.0, 0.3), (16, 3.0, 10.0), (16, 7.0, 40.0), (64, 3.0, 40.0)] {
        let semi = waiting(&[network_ms]);
        // Rate of the source if commits wait for the network side by side.
        let tps = pipeline(clients, away_ms, 2.0, network_ms, false);
        let both = [WaitPoint::AfterSync, WaitPoint::AfterCommit].map(|wait_point| {
            let predicted = SemiSync { wait_point, ..semi.clone() }.price(0.0).rate(clients as f64, tps, 2.0);
            predicted / pipeline(clients, away_ms, 2.0, network_ms, wait_point == WaitPoint::AfterSync)
        });
        // Clients that come back one by one join groups unevenly: 13 % at most here.
        assert!(both.iter().all(|ratio| (ratio - 1.0).abs() < 0.13), "{clients} clients, {network_ms} ms: {both:?}");
    }
    // 64 clients at 40 ms take two round trips, 80 ms, where one, half a flush before it, the flush and 3 ms would do: 46.
    let lost = pipeline(64, 3.0, 2.0, 40.0, true) / pipeline(64, 3.0, 2.0, 40.0, false);
    assert!((lost / (46.0 / 80.0) - 1.0).abs() < 0.03, "{lost}");
}

/// MySQL 9.7 on a lab, gp3 and io2, 2026-11-23: clients, round trip (ms), transactions a second
/// without semi-sync and with it.
const IN_STEP: [(f64, f64, f64, f64); 5] =
    [(16.0, 10.9, 756.0, 472.0), (16.0, 10.5, 756.0, 499.0), (16.0, 41.0, 756.0, 267.0), (4.0, 4.4, 406.0, 299.0), (4.0, 10.8, 406.0, 195.0)];

#[test]
fn clients_that_wait_together_work_together() {
    for (clients, network_ms, alone, measured) in IN_STEP {
        let price = SemiSync { groups_merge: true, ..waiting(&[network_ms]) }.price(0.0);
        // A wait behind all the work that 16 clients bring at once; one client waits as everywhere.
        let predicted = price.rate(clients, alone, 2.0);
        assert!((predicted - clients * 1e3 / (clients * 1e3 / alone + network_ms)).abs() < 1e-9);
        // The rule was made from these: 8 % is how near it comes, not how good it is on others.
        assert!((predicted / measured - 1.0).abs() < 0.08, "{clients} clients, {network_ms} ms: {predicted}");
        assert!(price.side_by_side(1.0) && !price.side_by_side(clients));
        assert_eq!(price.rate(1.0, 100.0, 2.0), 100.0);
    }
}

#[test]
fn one_client_finds_the_receive_thread_free() {
    // 4 ms of its own, then 12.6 ms: 60.2 a second exactly; many clients get all that the thread does.
    let price = waiting(&[0.0]).price(receive_s(6.0, 1, 2.1e-3));
    assert!((price.rate(1.0, 250.0, 2.0) - 1e3 / 16.6).abs() < 1e-9);
    assert!((price.rate(64.0, 4_000.0, 2.0) / price.most_tps - 1.0).abs() < 0.01);
}

#[test]
fn semi_sync_has_a_price() {
    let semi = |round_trips_ms: &[f64], acknowledgements| SemiSync { acknowledgements, ..waiting(round_trips_ms) };
    // The nearest of two, or both.
    assert_eq!(semi(&[80.0, 0.5], 1).price(0.0).added_ms, 0.5);
    assert_eq!(semi(&[80.0, 0.5], 2).price(0.0).added_ms, 80.0);
    // Six events at 2.1 ms each, as seen on a gp3 of a lab: 77 to 82 tps with one client or 16.
    let durable = semi(&[0.0], 1).price(receive_s(6.0, 1, 2.1e-3));
    assert!((durable.most_tps - 79.4).abs() < 0.1 && (durable.added_ms - 12.6).abs() < 1e-9);
    assert!(semi(&[10_001.0], 1).price(0.0).times_out);
    assert_eq!(receive_s(6.0, 0, 2.1e-3), 0.0);
}

/// One client on the same switch did 7,451 tps alone and 2,377 with semi-sync (0.134 and 0.421 ms,
/// published, source not named here: see docs/semantics/replica-lag.md): 0.29 ms a commit.
#[test]
fn semi_sync_slows_clients_that_wait() {
    let mut bench = Bench::new();
    bench.database.clients.base_ms = 0.134;
    bench.database.clients.cpu_ms = 0.05;
    bench.database.log.syncs_per_commit = 0.0;
    let rate = |price: Option<SemiSyncPrice>| {
        bench.with(|scenario| {
            let source = headrace_sim::mysql::Scenario { load: headrace_sim::mysql::TransactionLoad::Clients(1), seconds: 5, ..scenario.source.clone() };
            source_series(&source, price.as_ref()).unwrap()[4]
        })
    };
    let price = waiting(&[0.287]).price(0.0);
    let (alone, waited) = (rate(None), rate(Some(price)));
    assert!((alone / 7_451.0 - 1.0).abs() < 0.02 && (waited / 2_377.0 - 1.0).abs() < 0.02, "{alone} {waited}");
}
