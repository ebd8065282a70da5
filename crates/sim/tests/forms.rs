//! The two forms held together: the same storage and load, every request by itself and in closed
//! form.
//!
//! Tolerances. Delivered requests: 0.1 % of what is delivered, plus what the forms may differ by at
//! the edges: requests in flight at the end (at most the outstanding ones) and the last point's
//! share of a second. Moment of depletion: within one interval.

use crate::common::day;
use headrace_model::first_touch::SnapshotOrigin;
use headrace_model::rates::Degradation;
use headrace_model::Nanos;
use headrace_model::{Cap, ModelOptions};
use headrace_sim::{events, interval, Arrivals, ClosedLoad, OpenLoad, Pattern, Point, Run, Setup, Summary};
use proptest::prelude::*;

fn setup(storage: &str, instance: Option<&str>) -> Setup {
    // A local disk without a figure takes 1,600 writes and 3,385 reads a second here, so that these
    // loads reach either cap.
    let mut setup = Setup::resolve(storage, instance, day()).unwrap().with_local_disk(0.05, 0.05);
    // Chance (holds) is what the interval form leaves out by design; merging needs offsets it does
    // not have.
    setup.options = ModelOptions { holds: false, merge: false, ..ModelOptions::default() };
    setup
}

/// gp2 and st1 with so few credits that minutes of load decide, instead of hours.
fn with_few_credits(mut setup: Setup, share: f64) -> Setup {
    for limits in &mut setup.limits {
        if let Some(burst) = &mut limits.io_burst {
            burst.capacity_ios = 200_000;
            burst.initial_ios = (200_000.0 * share) as u64;
        }
        if let Some(burst) = &mut limits.byte_burst {
            burst.capacity_bytes = 4 << 30;
            burst.initial_bytes = ((4u64 << 30) as f64 * share) as u64;
        }
    }
    setup
}

fn storages() -> impl Strategy<Value = (&'static str, Option<&'static str>)> {
    prop_oneof![
        Just(("gp2:100", None)),
        Just(("gp2:500", None)),
        Just(("gp2:2000", None)),
        Just(("gp3:200", None)),
        Just(("gp3:200:5000:180", None)),
        Just(("io1:200:4000", None)),
        Just(("io2:100:9000", None)),
        Just(("st1:500", None)),
        Just(("sc1:1000", None)),
        Just(("4xgp2:100", None)),
        Just(("raid10:4xgp3:100", None)),
        Just(("raid1:2xgp3:100", None)),
        Just(("raid5:3xgp3:100", None)),
        Just(("raid0:gp2:50+gp3:100", None)),
        Just(("instance-store:100", None)),
        Just(("raid5:3xinstance-store:100", None)),
        Just(("gp3:500:10000:700", Some("m5.large"))),
        Just(("2xgp3:500:8000:500", Some("m6i.large"))),
    ]
}

fn points() -> impl Strategy<Value = Vec<Point>> {
    let rate = prop_oneof![2 => 0.0f64..800.0, 2 => 500.0f64..3_000.0, 1 => 2_000.0f64..6_000.0];
    let kib = prop_oneof![3 => Just(16.0f64), 1 => Just(64.0), 1 => Just(128.0)];
    let point = (5u32..40, rate.clone(), rate, kib.clone(), kib).prop_map(|(seconds, reads, writes, read_kib, write_kib)| Point {
        duration_s: seconds.into(),
        reads_per_s: reads.floor(),
        writes_per_s: writes.floor(),
        read_bytes: read_kib * 1024.0,
        write_bytes: write_kib * 1024.0,
    });
    prop::collection::vec(point, 2..8)
}

/// Delivered by the end of each row.
fn delivered(run: &Run) -> Vec<f64> {
    run.rows
        .iter()
        .scan(0.0, |sum, row| {
            *sum += row.iops * row.duration_s;
            Some(*sum)
        })
        .collect()
}

/// Cases of a property: more of them with PROPTEST_CASES (`make soak`).
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(96)))]

    #[test]
    fn open_loads_deliver_the_same((storage, instance) in storages(), points in points(), share in 0.1f64..1.0) {
        let setup = with_few_credits(setup(storage, instance), share);
        // Whole seconds in even rows: both forms give rows of one second.
        let load = OpenLoad { arrivals: Arrivals::Even, ..OpenLoad::new(points) };
        let by_event = events::open(&setup, &load, 1.0, &mut events::quiet).unwrap();
        let by_interval = interval::open(&setup, &load, 1.0).unwrap();
        prop_assert_eq!(by_event.rows.len(), by_interval.rows.len());
        let (events_delivered, interval_delivered) = (delivered(&by_event), delivered(&by_interval));
        // Requests in service at a row's end are answered in the next: 0.05 s of the highest rate
        // covers HDD latencies. The members of a stripe get random shares of the requests, and the
        // one with the most sets the pace once the host's outstanding requests all wait for it: 2.5
        // sigma of a binomial share, times the members.
        let peak = load.points.iter().map(|point| point.reads_per_s + point.writes_per_s).fold(0.0, f64::max);
        let members = setup.limits.len() as f64;
        let chance = |total: f64| if members > 1.0 { f64::from(load.max_outstanding) + 2.5 * (total * members).sqrt() } else { 16.0 };
        // If the cost of requests changes under a backlog, the members of a stripe reach the change
        // one after the other: an array may be an interval early or late.
        let slack = usize::from(members > 1.0);
        // A local disk has one line before two caps, each with 1/64 s of tokens. If both are nearly
        // full, the random order of reads and writes walks between them, and requests that do not
        // fit are lost: 1/2N of the rate for a room of N requests. Members here pass 200 writes of
        // 128 KiB a second, which are 6 in 1/32 s: 8 %; other loads lose less. The interval form
        // knows the mean mix alone.
        let local = setup.limits.iter().any(|limits| limits.reads.is_some());
        let mixed = if local { 0.1 } else { 0.0 };
        for (second, a) in events_delivered.iter().enumerate() {
            let (low, high) = (interval_delivered[second.saturating_sub(slack)], interval_delivered[(second + slack).min(interval_delivered.len() - 1)]);
            let allowed = 0.001 * high + 0.05 * peak + chance(high);
            prop_assert!(*a >= low * (1.0 - mixed) - allowed && *a <= high + allowed, "{storage} at {second} s: {a} by event, {low} to {high} by interval, allowed {allowed}");
        }
    }

    #[test]
    fn a_degraded_volume_and_sequential_bytes_deliver_the_same(
        storage in prop_oneof![Just("gp3:200"), Just("io1:200:4000"), Just("gp2:2000"), Just("st1:500"), Just("sc1:1000")],
        points in points(),
        (from, length, caps_per_mille) in (0u64..60, 10u64..120, 50u64..1_000),
        share in 0.0f64..=1.0,
    ) {
        // The rest is for the interval form: caps of a single volume that are lower for a while,
        // and the charges of HDD types for sequential requests. Latency of an event, mirrors that
        // route round it, first touch and merging are the per-I/O form's, which is chosen for them
        // (tests/unit/test_forms.py).
        let event = Degradation { from: Nanos::from_secs(from), until: Nanos::from_secs(from + length), caps_per_mille, extra_latency: Nanos::ZERO };
        let setup = Setup { degradations: vec![(0, event)], ..with_few_credits(setup(storage, None), 0.5) };
        let load = OpenLoad { arrivals: Arrivals::Even, sequential_read_share: share, sequential_write_share: share, ..OpenLoad::new(points) };
        let by_event = events::open(&setup, &load, 1.0, &mut events::quiet).unwrap();
        let by_interval = interval::open(&setup, &load, 1.0).unwrap();
        let (events_delivered, interval_delivered) = (delivered(&by_event), delivered(&by_interval));
        let peak = load.points.iter().map(|point| point.reads_per_s + point.writes_per_s).fold(0.0, f64::max);
        for (second, (a, b)) in events_delivered.iter().zip(&interval_delivered).enumerate() {
            // Bounds are those above; sequential or not is a draw per request, and streams of reads
            // and writes break each other: 3 sigma of a share, and the difference itself for HDD.
            let drawn = 3.0 * b.sqrt();
            let hdd = if setup.limits[0].random_charges_full_unit { f64::INFINITY } else { 0.0 };
            let allowed = 0.001 * b + 0.05 * peak + 16.0 + drawn;
            prop_assert!((a - b).abs() <= allowed.max(hdd.min(share * a.max(*b))), "{storage} at {second} s: {a} by event, {b} by interval, allowed {allowed}");
        }
    }

    #[test]
    fn the_interval_form_ends_and_loses_nothing(
        (storage, instance) in storages(),
        seconds in prop_oneof![Just(1.0f64), Just(60.0), Just(3_600.0), Just(86_400.0)],
        magnitude in 0.0f64..6.0,
        rates in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0, 512.0f64..5e6, 512.0f64..1e6, any::<bool>(), any::<bool>()), 1..60),
    ) {
        // Rates over six decades, sizes over four, idle reads or writes here and there: every time
        // scale at which something can run empty.
        let scale = 10f64.powf(magnitude);
        let point = |&(reads, writes, read_bytes, write_bytes, some_reads, some_writes): &(f64, f64, f64, f64, bool, bool)| Point {
            duration_s: seconds,
            reads_per_s: reads * scale * f64::from(u8::from(some_reads)),
            writes_per_s: writes * scale * f64::from(u8::from(some_writes)),
            read_bytes,
            write_bytes,
        };
        let load = OpenLoad::new(rates.iter().map(point).collect());
        let run = interval::open(&setup(storage, instance), &load, seconds).unwrap();
        let summary = &run.summary;
        let offered: f64 = load.points.iter().map(|point| point.iops() * point.duration_s).sum();
        // Requests below a billionth of a point's are called worked off; sums over 60 points round.
        let lost = (summary.delivered_ios + summary.queue_at_end - offered).abs();
        prop_assert!(lost <= 1e-6 * offered + 1e-6, "{storage}: asked {offered}, delivered {} and waiting {}", summary.delivered_ios, summary.queue_at_end);
        let [low, middle, high, highest] = [summary.p50_ms, summary.p95_ms, summary.p99_ms, summary.p999_ms].map(Option::unwrap);
        prop_assert!(low <= middle && middle <= high && high <= highest);
        prop_assert!(summary.throttled_s <= summary.seconds * (1.0 + 1e-9));
    }

    #[test]
    fn first_touches_wait_the_same(
        // At most 41,000 blocks wait at once, of 65,536 that may.
        (written_gib, span_gib) in (1u64..=20, 1u64..60),
        iops in 50.0f64..2_500.0,
        seconds in prop_oneof![Just(1.0f64), Just(60.0), Just(600.0)],
        seed in 0u64..1_000,
    ) {
        let snapshot = Some(SnapshotOrigin { written_bytes: written_gib << 30, initialization_bytes_s: None });
        let setup = Setup { snapshot, seed, ..setup("gp3:60", None) };
        let point = Point { duration_s: 600.0, reads_per_s: iops, writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 };
        let load = OpenLoad { span_bytes: span_gib << 30, max_outstanding: 65_536, ..OpenLoad::new(vec![point]) };
        let by_event = events::open(&setup, &load, 1.0, &mut events::quiet).unwrap().summary;
        let by_interval = interval::open(&setup, &load, seconds).unwrap().summary;
        // Mean waits are the blocks of the snapshot that the load meets, their latency and their
        // queue. The count of blocks that are met varies by less than its root, the lognormal
        // latency (sigma 0.5) by 0.53 of its mean for each: 5 sigma of both. Below 0.7 of the rate,
        // 200 blocks a second, random arrivals queue for 6 ms at most (M/D/1), 0.17 of a fetch.
        // Above it the queue is the sum of all arrivals so far: 5 sigma of their count, 5 ms each,
        // for the share of requests that meet a block.
        let chunks = (written_gib.min(span_gib) * 2_048) as f64;
        let met = chunks * -(-iops * 600.0 / (span_gib * 2_048) as f64).exp_m1();
        let demand = iops * chunks / (span_gib * 2_048) as f64 / 200.0;
        let queued = if demand < 0.7 { 0.0 } else { 5.0 * met.sqrt() * 5.0 * met / (iops * 600.0) };
        let allowed = by_interval.mean_ms * (0.2 + 5.0 / met.sqrt()) + queued + 0.5;
        prop_assert!((by_event.mean_ms - by_interval.mean_ms).abs() <= allowed, "{} by event, {} by interval, allowed {allowed}", by_event.mean_ms, by_interval.mean_ms);
    }

    #[test]
    fn credits_run_out_at_the_same_time(size in 20u64..300, iops in 1_000.0f64..2_900.0, share in 0.2f64..1.0) {
        let setup = with_few_credits(setup(&format!("gp2:{size}"), None), share);
        let baseline = (3 * size).max(100) as f64;
        prop_assume!(iops.floor() > baseline + 100.0);
        let point = Point { duration_s: 400.0, reads_per_s: iops.floor(), writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 };
        let load = OpenLoad { arrivals: Arrivals::Even, ..OpenLoad::new(vec![point]) };
        let by_event = events::open(&setup, &load, 1.0, &mut events::quiet).unwrap().summary;
        let by_interval = interval::open(&setup, &load, 1.0).unwrap().summary;
        match (by_event.credits_empty_at_s, by_interval.credits_empty_at_s) {
            (Some(a), Some(b)) => {
                prop_assert!((a - b).abs() <= 1.0, "{a} and {b}");
                // And both where arithmetic puts it: the balance over what it loses a second.
                let expected = (200_000.0 * share).floor() / (iops.floor() - baseline);
                prop_assert!((b - expected).abs() <= 1.0, "{b} for {expected}");
            }
            (None, None) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn closed_loads_deliver_the_same((storage, instance) in storages(), depth in 1u32..64, jobs in 1u32..3, mix in 0u32..=100, share in 0.1f64..1.0) {
        let setup = with_few_credits(setup(storage, instance), share);
        let load = ClosedLoad { rw: Pattern::RandRw, block_bytes: 16_384, iodepth: depth, numjobs: jobs, rwmixread: mix, span_bytes: 0 };
        let by_event = events::closed(&setup, &load, 60.0, 1.0, &mut events::quiet).unwrap();
        let by_interval = interval::closed(&setup, &load, 60.0, 1.0).unwrap();
        let (a, b) = (by_event.summary.delivered_ios, by_interval.summary.delivered_ios);
        // When limits decide, the forms agree to 0.1 %. When latency decides, the rate is
        // outstanding over mean latency; the per-I/O form's mean is a sample mean of a heavy-tailed
        // distribution (deviation at most 6 x the mean, rare stalls): 5 sigma / sqrt(n) on top. In
        // between (a stripe whose members are limited in turn), clients wait for the member that is
        // slower at that time, which only the per-I/O form sees: up to 1/sqrt(depth per member) of
        // the rate.
        let sampling = 30.0 / a.sqrt();
        let limited = by_interval.rows.last().unwrap().cap != Cap::Clients;
        let members = setup.limits.len() as f64;
        let contact = if members > 1.0 { (members / f64::from(depth * jobs)).sqrt().min(1.0) * 0.8 } else if limited { 0.02 } else { 0.05 };
        let deep = f64::from(depth * jobs) > 8.0 * members && limited && setup.storage.raid.is_none();
        // If reads have a cap of their own, the operation that is limited comes by chance, with
        // probability p each time: n requests until its cap's number of them deviate by sqrt((1 -
        // p) / (p n)) of n. With 1,600 writes and 3,385 reads a second writes bind from p = 1,600 /
        // 4,985 on, where that is largest: 5 sigma.
        let by_chance = if setup.limits[0].reads.is_some() { 5.0 * (2.12 / a).sqrt() } else { 0.0 };
        let tolerance = by_chance + if deep { 0.001 + f64::from(depth * jobs) / a } else { 0.001 + sampling + contact };
        prop_assert!((a / b - 1.0).abs() <= tolerance, "{storage}: {a} by event, {b} by interval, allowed {tolerance}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let load = OpenLoad::new(vec![Point { duration_s: 20.0, reads_per_s: 900.0, writes_per_s: 300.0, read_bytes: 16_384.0, write_bytes: 22_528.0 }]);
    let run = |seed| {
        let setup = Setup { seed, ..setup("raid10:4xgp2:100", Some("m5.large")) };
        events::open(&setup, &load, 1.0, &mut events::quiet).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_instance_burst_bucket_runs_dry_when_arithmetic_says() {
    // m5.large: 650 Mbit/s baseline, 4,750 maximum, 30 minutes of the difference. At 300 MiB/s =
    // 314,572,800 B/s the bucket of (593.75 - 81.25) MB/s x 1,800 s = 922.5 GB loses 314.57 - 81.25
    // = 233.32 MB/s: it lasts 3,953.8 s. Delivered then: 81.25 MB/s.
    let setup = setup("gp3:1000:16000:1000", Some("m5.large"));
    let point = Point { duration_s: 7_200.0, reads_per_s: 1_200.0, writes_per_s: 0.0, read_bytes: 262_144.0, write_bytes: 0.0 };
    let run = interval::open(&setup, &OpenLoad::new(vec![point]), 60.0).unwrap();
    let instance = setup.instance.as_ref().unwrap();
    let (base, max) = (instance.baseline_bytes_s.unwrap() as f64, instance.max_bytes_s.unwrap() as f64);
    let expected = (max - base) * 1_800.0 / (314_572_800.0 - base);
    let empty_at = run.summary.instance_empty_at_s.unwrap();
    assert!((empty_at - expected).abs() < 1.0, "{empty_at} for {expected}");
    assert!((run.rows.last().unwrap().mib_s - base / 1_048_576.0).abs() < 0.01);
    assert_eq!(run.rows.last().unwrap().cap, Cap::InstanceCredits);
    assert!((run.summary.instance_empty_s - (7_200.0 - expected)).abs() < 1.0);
}

#[test]
fn a_backlog_builds_up_is_worked_off_and_is_told() {
    // 4,000 a second for 30 s on 3,000: 30,000 pile up less the saved second (3,000) and are worked
    // off at 2,000 a second in 13.5 s.
    let setup = setup("gp3:100", None);
    let point = |duration_s: f64, iops: f64| Point { duration_s, reads_per_s: iops, writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 };
    let load = OpenLoad { arrivals: Arrivals::Even, ..OpenLoad::new(vec![point(30.0, 4_000.0), point(60.0, 1_000.0)]) };
    for run in [interval::open(&setup, &load, 1.0).unwrap(), events::open(&setup, &load, 1.0, &mut events::quiet).unwrap()] {
        let summary = &run.summary;
        assert!((summary.peak_queue - 27_000.0).abs() < 30.0, "{}", summary.peak_queue);
        assert!((summary.recovered_at_s.unwrap() - 44.0).abs() <= 1.0, "{:?}", summary.recovered_at_s);
        // Waits begin when the saved second is used up, 3 s in, and end at 43.5.
        assert!((summary.throttled_s - 40.5).abs() < 1.0, "{}", summary.throttled_s);
        assert!((summary.longest_wait_s - 9.0).abs() < 0.1, "{}", summary.longest_wait_s);
    }
}

#[test]
fn independent_arrivals_wait_in_clumps_near_a_cap() {
    // Ten minutes of Poisson reads on 3,000 IOPS. The reserve lasts, or lasts a while, or not, as
    // the utilisation comes nearer to one. The per-I/O form's figures have few independent clumps
    // behind them (some 1/(1-u)^2 requests each, at 0.995 about 45 a run; at 1 a run is one clump):
    // what is compared is the mean over runs, with two of its standard errors in addition to the 15
    // % that the interval form may be off. Time with waits: ten seconds more, for where the reserve
    // runs out.
    const RUNS: u64 = 8;
    for (used, waits) in [(0.90, false), (0.97, false), (0.99, true), (0.995, true), (1.0, true), (1.01, true)] {
        let point = Point { duration_s: 600.0, reads_per_s: 3_000.0 * used, writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 };
        let load = OpenLoad::new(vec![point]);
        let run = |seed| events::open(&Setup { seed, ..setup("gp3:100", None) }, &load, 60.0, &mut events::quiet).unwrap().summary;
        let by_event: Vec<_> = (1..=RUNS).map(run).collect();
        let by_interval = interval::open(&setup("gp3:100", None), &load, 600.0).unwrap().summary;
        assert_eq!(by_interval.throttled_s > 1.0, waits, "at {used}: {}", by_interval.throttled_s);
        let near = |what: &str, get: &dyn Fn(&Summary) -> f64, more: f64| {
            let n = RUNS as f64;
            let mean = by_event.iter().map(get).sum::<f64>() / n;
            let error = (by_event.iter().map(|run| (get(run) - mean) * (get(run) - mean)).sum::<f64>() / (n - 1.0) / n).sqrt();
            let actual = get(&by_interval);
            assert!((actual - mean).abs() <= 0.15 * mean + 2.0 * error + more, "{what} at {used}: {actual} for {mean} +- {error}");
        };
        near("throttled", &|run| run.throttled_s, 10.0);
        if waits {
            near("p99", &|run| run.p99_ms.unwrap(), 0.0);
            // The longest wait, and so the longest queue, is the extreme of one walk: a fifth more.
            near("longest wait", &|run| run.longest_wait_s / 1.2, 0.0);
            near("queue", &|run| run.peak_queue / 1.2, 10.0);
        }
    }
}

#[test]
fn a_lost_array_serves_nothing_and_one_that_is_not_does() {
    let load = OpenLoad::new(vec![Point { duration_s: 20.0, reads_per_s: 600.0, writes_per_s: 200.0, read_bytes: 16_384.0, write_bytes: 22_528.0 }]);
    let run = |storage: &str, failed: &[usize]| {
        let setup = Setup { failed_members: failed.to_vec(), ..setup(storage, None) };
        events::open(&setup, &load, 1.0, &mut events::quiet).unwrap()
    };
    for (storage, failed) in [("gp3:100", vec![0]), ("2xgp3:100", vec![1]), ("raid10:4xgp3:100", vec![2, 3]), ("raid5:3xgp3:100", vec![0, 2])] {
        let Run { rows, summary } = run(storage, &failed);
        assert_eq!((summary.delivered_ios, summary.delivered_bytes, summary.p99_ms), (0.0, 0.0, None), "{storage}");
        // The first request comes within a few milliseconds.
        assert!(summary.lost_at_s.is_some_and(|at_s| at_s < 0.1) && summary.failed_ios > 15_000.0, "{storage}: {summary:?}");
        assert!(rows.iter().all(|row| row.iops == 0.0 && row.mib_s == 0.0 && row.mean_ms.is_none()));
    }
    for (storage, failed) in [("raid10:4xgp3:100", vec![0, 3]), ("raid1:2xgp3:100", vec![0]), ("raid5:3xgp3:100", vec![1])] {
        let summary = run(storage, &failed).summary;
        assert_eq!((summary.failed_ios, summary.lost_at_s), (0.0, None), "{storage}");
        assert!(summary.delivered_ios > 15_000.0);
    }
}

/// A sum of nothing is -0.0 for floating point, and would be written so: rows without waits have 0.
#[test]
fn no_figure_of_a_row_is_a_negative_zero() {
    let point = |reads_per_s: f64| Point { duration_s: 5.0, reads_per_s, writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 };
    let load = OpenLoad::new(vec![point(0.0), point(100.0)]);
    let setup = setup("gp3:100", Some("m5.large"));
    for run in [interval::open(&setup, &load, 5.0).unwrap(), events::open(&setup, &load, 5.0, &mut events::quiet).unwrap()] {
        for row in &run.rows {
            let figures = [row.throttled_s, row.iops, row.mib_s, row.asked_iops, row.asked_mib_s, row.queue, run.summary.throttled_s];
            assert!(figures.iter().all(|figure| figure.is_sign_positive()), "{row:?}");
        }
    }
}
