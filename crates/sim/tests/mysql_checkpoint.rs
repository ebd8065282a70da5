//! A full redo log in both forms of a run.

use crate::common::plain_database;
use headrace_catalog::NaiveDate;
use headrace_sim::events::quiet;
use headrace_sim::mysql::{clients, interval, CheckpointLaw, Database, Log, PageWrites, Scenario, Second, Start, TransactionLoad, WarmUp};
use headrace_sim::Setup;

const CACHE_BYTES: f64 = 8e9;
const CLIENTS: u32 = 64;

fn full_log(limit_per_s: f64, law: Option<CheckpointLaw>) -> Database {
    let plain = plain_database(4.0);
    Database {
        writes: PageWrites { flush_per_tx: 4.0, flush_limit_per_s: limit_per_s, ..plain.writes },
        log: Log { redo_bytes_per_tx: 10_000.0, syncs_per_commit: 1.0, redo_capacity_bytes: Some(2e8), ..plain.log },
        checkpoint: law,
        ..plain
    }
}

fn on<T>(database: &Database, step_s: f64, seconds: u32, run: impl FnOnce(&Scenario<'_>) -> T) -> T {
    let day: NaiveDate = "2024-06-01".parse().unwrap();
    let (data, warm_up) = (Setup::resolve("gp3:1000:6000:500", None, day).unwrap(), WarmUp::new(database, CACHE_BYTES));
    run(&Scenario {
        database,
        warm_up: &warm_up,
        data: &data,
        log: None,
        instance: None,
        vcpus: None,
        load: TransactionLoad::Clients(CLIENTS),
        start: Start::Warm,
        seconds,
        step_s,
        seed: Some(1),
        follow: None,
    })
}

fn rows(database: &Database, step_s: f64, seconds: u32) -> Vec<Second> {
    on(database, step_s, seconds, |scenario| {
        let mut rows = Vec::new();
        interval::run(scenario, &mut |second| rows.push(*second)).unwrap();
        rows
    })
}

fn mean(rows: &[Second], of: impl Fn(&Second) -> f64) -> f64 {
    rows.iter().map(of).sum::<f64>() / rows.len() as f64
}

/// Without pressure the law changes no bit of a run, in either form.
#[test]
fn a_log_that_does_not_fill_changes_nothing() {
    let laws = [None, Some(CheckpointLaw::of_server("mysql", "5.7.22")), Some(CheckpointLaw::of_server("mariadb", "10.11"))];
    let bits = |rows: &[Second]| rows.iter().map(|row| [row.tps.to_bits(), row.iops.to_bits(), row.p95_ms.to_bits()]).collect::<Vec<_>>();
    let intervals = laws.map(|law| bits(&rows(&full_log(1e6, law), 1.0, 60)));
    assert!(intervals[0] == intervals[1] && intervals[0] == intervals[2]);
    let events = laws.map(|law| bits(&on(&full_log(1e6, law), 1.0, 10, |scenario| clients::run(scenario, &mut quiet).unwrap().rows)));
    assert!(events[0] == events[1] && events[0] == events[2]);
}

/// Both forms stop for the same share of time, and do as much. The per-I/O form queues a stop's
/// pages behind the reads of clients under way and writes them 64 at a time; a cycle of some ten
/// seconds more or less is an eighth of the run.
#[test]
fn both_forms_stop_alike() {
    let database = full_log(900.0, Some(CheckpointLaw::of_server("mysql", "5.7.22")));
    let interval = &rows(&database, 1.0, 90)[10..];
    let events = on(&database, 1.0, 90, |scenario| clients::run(scenario, &mut quiet).unwrap().rows);
    let events = &events[10..];
    let (by_interval, by_request) = (mean(interval, |row| row.stopped_share), mean(events, |row| row.stopped_share));
    assert!(by_interval > 0.05 && (by_interval - by_request).abs() < 0.05, "stopped {by_interval} of the time, every I/O simulated {by_request}");
    let (by_interval, by_request) = (mean(interval, |row| row.tps), mean(events, |row| row.tps));
    assert!((by_interval / by_request - 1.0).abs() < 0.1, "{by_interval} tps, every I/O simulated {by_request}");
}

/// At the cap of the volume a stop costs nothing in the long run: pages are written earlier or later,
/// but as many a transaction. Steps of a minute say the same as those of a second to a cycle of the
/// run.
#[test]
fn at_the_volumes_cap_stops_cost_nothing() {
    let law = Some(CheckpointLaw::of_server("mysql", "5.7.22"));
    let free = mean(&rows(&full_log(1e9, None), 1.0, 900)[300..], |row| row.tps);
    let (fine, coarse) = (rows(&full_log(900.0, law), 1.0, 900), rows(&full_log(900.0, law), 60.0, 900));
    for (what, rows) in [("seconds", &fine[300..]), ("minutes", &coarse[5..])] {
        let tps = mean(rows, |row| row.tps);
        assert!((tps / free - 1.0).abs() < 0.03, "steps of {what}: {tps} tps with stops, {free} without");
    }
    let (fine, coarse) = (mean(&fine[300..], |row| row.stopped_share), mean(&coarse[5..], |row| row.stopped_share));
    assert!((fine - coarse).abs() < 0.02, "stopped {fine} by seconds, {coarse} by minutes");
}

/// A larger log stops later, one that is not known never.
#[test]
fn the_size_of_the_log_decides() {
    let law = Some(CheckpointLaw::of_server("mysql", "5.7.22"));
    let mut database = full_log(900.0, law);
    let cold = |database: &Database| {
        on(database, 1.0, 300, |scenario| {
            let mut first = None;
            let cold = Scenario { start: Start::Transactions(1e6), ..scenario.clone() };
            interval::run(&cold, &mut |second| first = first.or((second.stopped_share > 0.0).then_some(second.t_s))).unwrap();
            first
        })
    };
    let small = cold(&database).unwrap();
    database.log.redo_capacity_bytes = Some(4e8);
    let large = cold(&database).unwrap();
    // Twice the room, at the same rate but for where it begins; a step is a second.
    assert!((large / small - 2.0).abs() < 0.2, "stops from {small} s on, with twice the log from {large} s");
    database.log.redo_capacity_bytes = None;
    assert_eq!(cold(&database), None);
}

/// MySQL 8.0: clients go on during the flush, and wait only at the end of the log. Both forms lose as
/// much to it; who comes to wait hangs on how a device is shared, which the per-I/O form has by its
/// queue: 64 I/Os of the cleaner and those of 64 clients.
#[test]
fn both_forms_go_on_during_a_flush() {
    let of = |version| full_log(900.0, Some(CheckpointLaw::of_server("mysql", version)));
    let rows_of = |database: &Database| (rows(database, 1.0, 90), on(database, 1.0, 90, |scenario| clients::run(scenario, &mut quiet).unwrap().rows));
    let (interval, events) = rows_of(&of("8.0.20"));
    let tps = |rows: &[Second]| mean(&rows[10..], |row| row.tps);
    assert!((tps(&interval) / tps(&events) - 1.0).abs() < 0.1, "{} tps, every I/O simulated {}", tps(&interval), tps(&events));
    let stopped = |rows: &[Second]| mean(&rows[10..], |row| row.stopped_share);
    let (before, _) = rows_of(&of("5.7.22"));
    assert!(stopped(&interval) < stopped(&before), "stopped {} of the time, 5.7 {}", stopped(&interval), stopped(&before));
    let fewer = stopped(&events);
    assert!((stopped(&interval) - fewer).abs() < 0.1, "stopped {} of the time, every I/O simulated {fewer}", stopped(&interval));
}
