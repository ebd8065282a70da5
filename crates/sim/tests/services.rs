//! RDS and Aurora: against what can be worked out on paper, and against what was published. The
//! figures behind the fits and those they never saw are kept apart.

use crate::common::{plain_database, PAGE};
use headrace_catalog::{Catalog, Deployment, NaiveDate, PublishedRun, ServiceClass};
use headrace_sim::mysql::services::{log_only, run, AuroraStorage, Quorum, ReaderLoad, ServiceScenario};
use headrace_sim::mysql::standard::tpcc;
use headrace_sim::mysql::sysbench::{Distribution, Oltp, Script};
use headrace_sim::mysql::{Binding, Database, Log, PageWrites, Second, Start, StorageEngine, TransactionLoad, WarmUp};
use headrace_sim::Setup;

const GIB: f64 = 1_073_741_824.0;
/// Sharp corners: of two limits that differ, the lower one alone decides.
const SHARP: f64 = 64.0;
/// Results differ from paper by rounding and the corner alone.
const EXACT: f64 = 1e-6;

fn day() -> NaiveDate {
    "2020-05-15".parse().unwrap()
}

fn class(deployment: Deployment, instance: &str) -> ServiceClass {
    Catalog::embedded().service_class(deployment, instance, day()).unwrap()
}

/// The last of ten minutes from a warm cache.
fn last(deployment: Deployment, database: &Database, cache_gib: f64, clients: u32, class: &ServiceClass, aurora: &AuroraStorage, storage: &str) -> Second {
    let data = (deployment.service() != headrace_catalog::Service::Aurora).then(|| Setup::resolve(storage, Some(&class.limits.instance_type), day()).unwrap());
    let warm_up = WarmUp::new(database, cache_gib * GIB);
    let scenario = ServiceScenario {
        deployment,
        database,
        warm_up: &warm_up,
        data: data.as_ref(),
        class,
        aurora,
        load: TransactionLoad::Clients(clients),
        start: Start::Warm,
        seconds: 600,
        step_s: 10.0,
        seed: None,
    };
    let mut final_second = Second::default();
    run(&scenario, &mut |second| final_second = *second).unwrap();
    final_second
}

fn on_aurora(database: &Database, cache_gib: f64, clients: u32, instance: &str, aurora: &AuroraStorage) -> Second {
    let adapted = log_only(database).unwrap();
    last(Deployment::AuroraStandard, &adapted, cache_gib, clients, &class(Deployment::AuroraStandard, instance), aurora, "")
}

fn close(actual: f64, expected: f64, within: f64) {
    assert!((actual / expected - 1.0).abs() <= within, "{actual}, not {expected}");
}

// --- the quorum -------------------------------------------------------------------------------------------------------

/// Nodes without chance of their own: two answers of the own zone come first, the third and fourth
/// are the two copies of the nearer zone. The round trip there is the smaller of two uniform draws
/// on 0.5 to 1 ms: mean 0.5 + 0.5 / 3, standard deviation 0.5 / sqrt(18), which is 0.0009 for
/// 16,384 draws; 4 of it.
#[test]
fn the_fourth_of_six_waits_for_the_nearer_zone() {
    let even = Quorum { node_sigma: 0.0, slow_share: 0.0, ..Quorum::default() };
    let latency = even.latency();
    assert!((latency.mean_ms - (0.5 + 0.5 / 3.0 + even.node_ms)).abs() < 0.0037, "{latency:?}");
    // A zone lost: the other one decides. Mean 0.75, deviation 0.5 / sqrt(12) / 128 = 0.0011.
    let lost = Quorum { copies: [2, 2, 0], ..even }.latency();
    assert!((lost.mean_ms - (0.75 + even.node_ms)).abs() < 0.0046, "{lost:?}");
    // The farther zone decides where five must answer: 0.5 + 2 x 0.5 / 3.
    let five = Quorum { needed: 5, ..even }.latency();
    assert!((five.mean_ms - (0.5 + 1.0 / 3.0 + even.node_ms)).abs() < 0.0037, "{five:?}");
    // A zone and one more copy lost: nothing is written any more.
    assert!(Quorum { copies: [2, 1, 0], ..even }.latency().mean_ms.is_infinite());
}

/// One node in twenty at 200 ms moves a mirror of two to its p95 and the quorum by little: three of
/// six must be slow, 20 x 0.05^3 = 0.25 % of batches, so the 95th percentile is a plain one's.
#[test]
fn a_slow_node_does_not_decide() {
    let slow = Quorum { slow_share: 0.05, slow_ms: 200.0, ..Quorum::default() };
    let plain = Quorum { slow_share: 0.0, ..slow };
    assert!(slow.latency().p95_ms < 1.3 * plain.latency().p95_ms, "{:?}", slow.latency());
    let mirror = |quorum: Quorum| Quorum { copies: [1, 1, 0], needed: 2, ..quorum }.latency().p95_ms;
    assert!(mirror(slow) > 20.0 * mirror(plain));
}

#[test]
fn the_same_every_time() {
    assert_eq!(Quorum::default().latency(), Quorum::default().latency());
}

// --- seconds ----------------------------------------------------------------------------------------------------------

fn logged(sharpness: f64, redo_bytes: f64) -> Database {
    let log = Log { redo_bytes_per_tx: redo_bytes, binlog_bytes_per_tx: 0.0, syncs_per_commit: 1.0, commits_per_tx: Some(1.0), redo_capacity_bytes: None };
    Database { log, ..plain_database(sharpness) }
}

/// Response time of one client: own time, misses one after the other, one quorum write.
#[test]
fn one_client_waits_for_misses_and_one_quorum() {
    let aurora = AuroraStorage::default();
    let database = logged(SHARP, 4_000.0);
    let second = on_aurora(&database, 4.0, 1, "r5.4xlarge", &aurora);
    let commit_ms = aurora.quorum.latency().mean_ms + aurora.batch_s * 1e3;
    close(1e3 / second.tps, database.clients.base_ms + second.reads_per_tx * aurora.read_ms + commit_ms, EXACT);
    assert_eq!(second.binding, Binding::Clients);
    assert!(second.reads_per_tx > 5.0);
}

#[test]
fn many_clients_meet_page_reads_then_processors_or_the_network() {
    let aurora = AuroraStorage::default();
    let instance = class(Deployment::AuroraStandard, "r5.xlarge");
    let small = logged(SHARP, 4_000.0);
    let second = on_aurora(&small, 4.0, 60_000, "r5.xlarge", &aurora);
    close(second.tps, 4.0 * aurora.reads_per_vcpu_s / second.reads_per_tx, EXACT);
    assert_eq!(second.binding, Binding::PageReads);
    // All in the cache: 4 vCPUs at 2 ms, and 1.5 % more work for each doubling from 4 clients on.
    let cached = on_aurora(&small, 20.0, 60_000, "r5.xlarge", &aurora);
    close(cached.tps, 2_000.0 / (1.0 + 0.015 * (60_000.0f64 / 4.0).log2()), 1e-3);
    assert_eq!(cached.binding, Binding::Cpu);
    // 200 kB of log a transaction, six times over 1.25 Gbit/s.
    let large = on_aurora(&logged(SHARP, 200_000.0), 20.0, 60_000, "r5.xlarge", &aurora);
    let bytes = instance.network_bytes_s.unwrap();
    assert_eq!((bytes, large.binding), (1.25e9 / 8.0, Binding::Network));
    close(large.tps, bytes / (6.0 * 200_000.0 + large.reads_per_tx * PAGE), 1e-3);
}

/// No page is written: what a server on volumes writes back makes no difference.
#[test]
fn only_the_log_is_written() {
    let aurora = AuroraStorage::default();
    let quiet = logged(4.0, 4_000.0);
    let busy = Database { writes: PageWrites { flush_per_tx: 50.0, background_per_s: 500.0, ..quiet.writes }, ..quiet.clone() };
    let of = |database: &Database| on_aurora(database, 4.0, 64, "r5.xlarge", &aurora).tps;
    assert_eq!(of(&quiet), of(&busy));
    let host = class(Deployment::Ec2, "r5.xlarge");
    let on_volumes = |database: &Database| last(Deployment::Ec2, database, 4.0, 64, &host, &aurora, "gp2:500").tps;
    assert!(on_volumes(&busy) < 0.7 * on_volumes(&quiet));
    assert!(log_only(&Database { engine: StorageEngine::Myrocks, ..quiet }).is_none());
}

/// A standby adds a round trip of 0.75 ms and its own volume's write to a commit; a cluster the
/// shorter of two round trips, 0.5 + 0.5 / 3 ms, and one write.
#[test]
fn standbys_are_waited_for() {
    let aurora = AuroraStorage::default();
    let database = logged(SHARP, 4_000.0);
    let host = class(Deployment::Ec2, "r5.4xlarge");
    let ms = |deployment: Deployment| 1e3 / last(deployment, &database, 20.0, 1, &host, &aurora, "gp2:4000").tps;
    let alone = ms(Deployment::RdsSingleAz);
    close(alone, ms(Deployment::Ec2), EXACT);
    let write_ms = alone - database.clients.base_ms;
    // Misses of a cache that holds everything: below a thousandth of a read.
    close(ms(Deployment::RdsMultiAz) - alone, 0.75 + write_ms, 0.02);
    close(ms(Deployment::RdsCluster) - alone, 0.5 + 0.5 / 3.0 + write_ms, 0.02);
}

/// Bills: a page a read; 4 KiB of log a write, and half a unit for the end of each batch. Alone
/// every commit is a batch; at 1 / 0.35 ms a second two share one.
#[test]
fn billed_units() {
    let aurora = AuroraStorage::default();
    let alone = aurora.billed(3.0, PAGE, 4_096.0, 0.0, 1.0);
    assert_eq!((alone.reads, alone.writes), (3.0, 1.5));
    close(aurora.billed(0.0, PAGE, 4_096.0, 1.0 / aurora.batch_s, 1.0).writes, 1.25, EXACT);
    assert_eq!(aurora.billed(1.0, PAGE, 0.0, 100.0, 0.0).writes, 0.0);
}

// --- readers ----------------------------------------------------------------------------------------------------------

fn reader(redo_bytes_s: f64, cached_share: f64) -> headrace_sim::mysql::services::ReaderLag {
    let aurora = AuroraStorage::default();
    aurora.reader_lag(&aurora.quorum.latency(), &ReaderLoad { redo_bytes_s, cached_share, vcpus: 16 })
}

#[test]
fn a_reader_applies_only_what_it_has_cached() {
    assert_eq!(reader(30e6, 0.0).mean_ms, reader(0.0, 1.0).mean_ms);
    assert!(reader(30e6, 0.5).mean_ms < reader(30e6, 1.0).mean_ms);
    // 70 MB/s at 15.5 ms each are more than a second of work a second.
    let behind = reader(70e6, 1.0);
    assert!(behind.mean_ms.is_none());
    close(behind.cpu_share, 1.0 / 16.0, EXACT);
}

// --- published --------------------------------------------------------------------------------------------------------

fn published(family: &str, service: &str, metric: &str) -> Vec<&'static PublishedRun> {
    let of = |run: &&PublishedRun| run.family == family && run.service == service && run.metric == metric;
    Catalog::embedded().published_services().iter().filter(of).collect()
}

/// sysbench-tpcc of the 2020 study; its own time is that of the study's RDS run with one client.
fn study_of_2020(warehouses: f64) -> Database {
    let single_client = published("tpcc-5x100", "rds", "tps").into_iter().find(|run| run.clients == Some(1)).unwrap();
    let mut database = tpcc(StorageEngine::Innodb, 500.0).unwrap();
    let host = class(Deployment::RdsSingleAz, "r5.xlarge");
    let second = last(Deployment::RdsSingleAz, &database, 24.0, 1, &host, &AuroraStorage::default(), "4xgp2:225");
    let base_ms = database.clients.base_ms + 1e3 / single_client.value - 1e3 / second.tps;
    database = tpcc(StorageEngine::Innodb, warehouses).unwrap();
    database.clients.base_ms = base_ms;
    database
}

/// Errors of tps, ln(ours / published), over a family.
fn errors(family: &str, warehouses: f64, aurora: &AuroraStorage) -> Vec<f64> {
    let database = log_only(&study_of_2020(warehouses)).unwrap();
    let host = class(Deployment::AuroraStandard, "r5.xlarge");
    let warm_up = WarmUp::new(&database, 24.0 * GIB);
    let of = |run: &PublishedRun| {
        let load = TransactionLoad::Clients(run.clients.unwrap());
        let scenario = ServiceScenario {
            deployment: Deployment::AuroraStandard,
            database: &database,
            warm_up: &warm_up,
            data: None,
            class: &host,
            aurora,
            load,
            start: Start::Warm,
            seconds: 60,
            step_s: 10.0,
            seed: None,
        };
        let mut final_second = Second::default();
        headrace_sim::mysql::services::run(&scenario, &mut |second| final_second = *second).unwrap();
        libm::log(final_second.tps / run.value)
    };
    published(family, "aurora", "tps").into_iter().map(of).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.iter_mut().for_each(|value| *value = value.abs());
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// The parameters are least squares over nine client counts of one layout: their neighbours on a
/// grid are no better.
#[test]
fn reads_are_fitted_on_one_layout() {
    let squares = |read_ms: f64, reads_per_vcpu_s: f64| {
        let aurora = AuroraStorage { read_ms, reads_per_vcpu_s, ..AuroraStorage::default() };
        errors("tpcc-10x100", 1_000.0, &aurora).iter().map(|error| error * error).sum::<f64>()
    };
    let fitted = AuroraStorage::default();
    let best = squares(fitted.read_ms, fitted.reads_per_vcpu_s);
    for (ms, reads) in [(-0.4, 0.0), (0.4, 0.0), (0.0, -40.0), (0.0, 40.0), (0.4, 40.0), (-0.4, -40.0)] {
        let other = squares(fitted.read_ms + ms, fitted.reads_per_vcpu_s + reads);
        // The valley is flat: 0.4 ms less are 0.5 % lower since processors are cores of a speed.
        assert!(other > 0.99 * best, "{ms} {reads}: {other} {best}");
    }
}

/// The layout that the fit never saw. Aim of the specification: median 20 %. And the 80 % interval
/// that is given (a standard deviation of 0.20, python/headrace/simulation/services.py) holds at
/// least 80 % of all twelve points.
#[test]
fn the_other_layout_is_predicted() {
    let aurora = AuroraStorage::default();
    let (seen, unseen) = (errors("tpcc-10x100", 1_000.0, &aurora), errors("tpcc-5x100", 500.0, &aurora));
    println!("fitted {seen:.3?}, median {:.3}; not fitted {unseen:.3?}, median {:.3}", median(seen.clone()), median(unseen.clone()));
    assert_eq!((seen.len(), unseen.len()), (9, 3));
    assert!(median(unseen.clone()) <= 0.20, "{unseen:?}");
    let all: Vec<f64> = seen.into_iter().chain(unseen).collect();
    let within = all.iter().filter(|error| error.abs() <= 1.281_6 * 0.20).count();
    assert!(within * 10 >= all.len() * 8, "{all:?}");
}

/// A third family, of another benchmark, class and decade, with nothing fitted: SIGMOD 2017, table
/// 2, writes a second at 100 GB (cached) and 1 TB. Shown to be of the right size, no more: the
/// engine of 2017 did a write in less processor time than the standard benchmark here.
#[test]
fn a_terabyte_is_of_the_right_size() {
    for run in published("sigmod-table-2", "aurora", "writes_s").into_iter().filter(|run| run.data_gb.unwrap() >= 100.0) {
        // 225 bytes a row with its index entry.
        let rows = run.data_gb.unwrap() * 1e9 / 225.0;
        let options = Oltp {
            script: Script::OltpWriteOnly,
            distribution: Distribution::default(),
            table_size: (rows / 250.0) as u64,
            tables: 250,
            threads: 1_000,
            ..Oltp::default()
        };
        let database = options.database().unwrap();
        // 244 GiB of r3.8xlarge, three quarters of it.
        let second = on_aurora(&database, 183.0, 1_000, "r3.8xlarge", &AuroraStorage::default());
        let simulated = 4.0 * second.tps;
        println!(
            "{} GB: {simulated:.0} writes/s, published {}, {:.2} reads a transaction, {:?}",
            run.data_gb.unwrap(),
            run.value,
            second.reads_per_tx,
            second.binding
        );
        // The standard's time of a write is known to 35 %: 0.8 of a logarithm are 2.3 of that.
        assert!((0.45..2.2).contains(&(simulated / run.value)), "{simulated} {}", run.value);
    }
}

/// Table 4: two of its four cells were fitted. Bar of the specification: 25 %.
#[test]
fn lag_of_table_4() {
    for run in published_lag() {
        let writes: f64 = run.metric.trim_start_matches("lag_ms at ").trim_end_matches(" writes/s").parse().unwrap();
        let simulated = reader(writes * 450.0, 1.0).mean_ms.unwrap();
        println!("{writes} writes/s: {simulated:.2} ms, published {}", run.value);
        let fitted = writes == 1_000.0 || writes == 10_000.0;
        close(simulated, run.value, if fitted { 0.03 } else { 0.25 });
    }
}

fn published_lag() -> Vec<&'static PublishedRun> {
    let runs = Catalog::embedded().published_services().iter();
    let rows: Vec<_> = runs.filter(|run| run.family == "sigmod-table-4" && run.service == "aurora").collect();
    assert_eq!(rows.len(), 4);
    rows
}

/// Table 1: 0.95 I/Os a transaction at 27,378,000 in 30 minutes, six copies of each batch.
#[test]
fn batches_of_table_1() {
    let rate = published("sigmod-table-1", "aurora", "transactions")[0].value / 1_800.0;
    close(6.0 * AuroraStorage::default().batches(rate, 1.0), published("sigmod-table-1", "aurora", "ios_per_transaction")[0].value, 0.01);
}
