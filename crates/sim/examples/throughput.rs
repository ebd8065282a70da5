//! Speed of the two forms, for `make bench`: one JSON object per line.
//!
//! Measures are the best and the median of several repetitions of the same work (same seed), and a
//! checksum that shows the work was done.

use headrace_catalog::NaiveDate;
use headrace_model::{Io, ModelOptions, Nanos, Op, Volume};
use headrace_sim::mysql::interval::{run, Scenario, Start, TransactionLoad};
use headrace_sim::mysql::standard::tpcc;
use headrace_sim::mysql::{StorageEngine, WarmUp};
use headrace_sim::{events, interval, ClosedLoad, OpenLoad, Pattern, Point, Setup};
use std::time::Instant;

const REPETITIONS: usize = 7;

fn setup(storage: &str) -> Setup {
    Setup::resolve(storage, None, "2024-06-01".parse::<NaiveDate>().unwrap()).unwrap()
}

/// Times `work`, which returns how much it did and a checksum.
fn measure(name: &str, unit: &str, mut work: impl FnMut() -> (f64, u64)) {
    let mut seconds = Vec::new();
    let mut result = (0.0, 0);
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        result = work();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (best, median, worst) = (seconds[0], seconds[REPETITIONS / 2], seconds[REPETITIONS - 1]);
    println!(
        r#"{{"name":"{name}","unit":"{unit}","work":{},"best":{},"median":{},"worst":{},"repetitions":{REPETITIONS},"checksum":{}}}"#,
        result.0,
        result.0 / best,
        result.0 / median,
        result.0 / worst,
        result.1
    );
}

/// Requests straight through one gp2 volume: 16 in flight, each submitted when the one 16 before it
/// was answered or its own turn came.
fn through_one_volume(options: ModelOptions) -> (f64, u64) {
    const REQUESTS: u64 = 3_000_000;
    let mut volume = Volume::new(setup("gp2:500").limits.remove(0), options, 1);
    let mut in_flight = [Nanos::ZERO; 16];
    let (mut now, mut sum) = (Nanos::ZERO, 0u64);
    for request in 0..REQUESTS {
        let slot = (request % 16) as usize;
        now = now.max(in_flight[slot]);
        // A multiplicative hash spreads the offsets without a generator of its own.
        let offset = (request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30) & !0x3fff;
        let decision = volume.submit(now, Io { op: Op::Read, offset, bytes: 16_384 });
        in_flight[slot] = decision.complete;
        sum = sum.wrapping_add(decision.complete.0);
    }
    (REQUESTS as f64, sum)
}

fn main() {
    measure("model: one gp2 volume, all of the model", "requests/s", || through_one_volume(ModelOptions::default()));
    measure("model: one gp2 volume, caps and credits only", "requests/s", || through_one_volume(ModelOptions::counting()));
    let closed = ClosedLoad { rw: Pattern::RandRead, block_bytes: 16_384, iodepth: 16, numjobs: 1, rwmixread: 100, span_bytes: 0 };
    let gp2 = setup("gp2:500");
    measure("per I/O: closed load of 16 on gp2, event queue and histograms", "requests/s", || {
        let run = events::closed(&gp2, &closed, 1_200.0, 60.0, &mut events::quiet).unwrap();
        (run.summary.delivered_ios, run.rows.len() as u64)
    });
    let day: Vec<Point> = (0..1_440)
        .map(|minute| {
            let reads = 1_200.0 + 1_100.0 * (f64::from(minute) / 1_440.0 * std::f64::consts::TAU).sin();
            Point { duration_s: 60.0, reads_per_s: reads, writes_per_s: reads / 3.0, read_bytes: 16_384.0, write_bytes: 22_528.0 }
        })
        .collect();
    let load = OpenLoad::new(day);
    for storage in ["gp2:500", "gp3:500:3000:125", "raid10:4xgp3:500"] {
        let setup = setup(storage);
        let measured = interval::measure(&setup, &load);
        let own = headrace_sim::mixture::OwnLatency::new(&measured.latency_key(&setup));
        measure(&format!("interval: a day at one-minute points on {storage}"), "days/s", || {
            let days = 2_000;
            let mut delivered = 0.0;
            for _ in 0..days {
                delivered = interval::summarise(&setup, &measured, &own).delivered_ios;
            }
            (f64::from(days), delivered as u64)
        });
    }
    database_hours();
}

/// Times an hour of a database at one-second steps, with scatter, and the course of its cache
/// through that hour, which is computed once per database and cache size.
fn database_hours() {
    const HOURS: u32 = 20;
    let database = tpcc(StorageEngine::Innodb, 5_000.0).unwrap();
    let cache_bytes = 50.0 * (1u64 << 30) as f64;
    measure("database: its cache followed from a cold start", "caches/s", || {
        let warm_up = WarmUp::new(&database, cache_bytes);
        (1.0, warm_up.points().len() as u64)
    });
    let warm_up = WarmUp::new(&database, cache_bytes);
    for storage in ["io1:1024:20000", "gp2:500"] {
        let data = setup(storage);
        measure(&format!("database: an hour at one-second steps on {storage}"), "hours/s", || {
            let mut transactions = 0.0;
            for seed in 0..HOURS {
                let scenario = Scenario {
                    database: &database,
                    warm_up: &warm_up,
                    data: &data,
                    log: None,
                    instance: None,
                    vcpus: None,
                    load: TransactionLoad::Clients(72),
                    start: Start::Cold,
                    seconds: 3_600,
                    step_s: 1.0,
                    seed: Some(u64::from(seed)),
                    follow: None,
                };
                run(&scenario, &mut |second| transactions += second.tps).unwrap();
            }
            (f64::from(HOURS), transactions as u64)
        });
    }
}
