//! The store of metrics against a list in memory: rows over wraps of the rings, reopened in the
//! middle, torn, on jumping clocks and full disks; its writer killed.

use headrace_daemon::metrics::{histogram_bounds_s, minute_of, CreditUnit, ErrorFactor, Extra, Resolution, Retired, Row, Store, CLASSES, COLUMNS};
use headrace_device::meter::{bounds_of, bucket_of, class_of, Sample};
use headrace_model::{Cap, Op};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

const VOLUME: &str = "vol-0123456789abcdef0";
/// Measures of the rings, written down here once more: they are promised.
const SECONDS: (usize, u64) = (3_600, 1_024);
const MINUTES: (usize, u64) = (21_600, 2_048);

/// Numbers from a seed (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn idle(span_ns: u64) -> Sample {
    Sample { span_ns, idle_ns: span_ns, ..Sample::empty() }
}

/// A second with `requests` of them, as the meter would count them.
fn busy(dice: &mut Dice, requests: u64) -> Sample {
    let mut sample = Sample { span_ns: 1_000_000_000 + dice.below(1_000_000), flushes: dice.below(3), errors: dice.below(2), ..Sample::empty() };
    (sample.queue_ns, sample.queue_max, sample.idle_ns) = (dice.below(5_000_000_000), 1 + dice.below(40) as u32, dice.below(900_000_000));
    for (cap, nanos) in Cap::ALL.iter().zip(&mut sample.exceeded_ns) {
        *nanos = if *cap == Cap::InstanceCredits { 0 } else { dice.below(1_000_000) };
    }
    for _ in 0..requests {
        let (op, bytes, took) = (dice.below(2) as usize, 512 << dice.below(3), 200_000 + dice.below(1_000_000));
        sample.ops[op] += 1;
        sample.bytes[op] += bytes;
        sample.consumed += 1 + dice.below(3);
        sample.time_ns[op] += took;
        sample.latency[op][class_of(bytes as u32)][bucket_of(took)] += 1;
        sample.late[bucket_of(dice.below(90_000))] += 1;
    }
    sample
}

/// Everything that the store must hold.
#[derive(Default)]
struct Reference {
    seconds: Vec<(u64, Sample, Extra)>,
    minutes: Vec<(u64, Sample, Extra)>,
}

impl Reference {
    fn record(&mut self, t_s: u64, sample: &Sample, extra: &Extra) {
        self.seconds.push((t_s, sample.clone(), *extra));
        match self.minutes.last_mut().filter(|last| last.0 == t_s / 60 * 60) {
            Some((_, sum, last)) => {
                sum.add(sample);
                *last = *extra;
            }
            None => self.minutes.push((t_s / 60 * 60, sample.clone(), *extra)),
        }
    }

    fn compare(&self, store: &Store, member: Option<u32>) {
        for (resolution, all, limit) in [(Resolution::Second, &self.seconds, SECONDS.0), (Resolution::Minute, &self.minutes, MINUTES.0)] {
            let rows = store.rows(VOLUME, member, resolution, None, None).unwrap();
            let expected: Vec<Row> = all[all.len().saturating_sub(limit)..].iter().map(|(t_s, sample, extra)| Row::new(*t_s, sample, extra)).collect();
            assert_eq!(rows.len(), expected.len(), "{resolution:?}");
            rows.iter().zip(&expected).for_each(|(row, expected)| assert_eq!(shared_span(row), shared_span(expected), "{resolution:?}"));
        }
    }
}

/// Idle rows in a row share their spans evenly: the length of each is not kept.
fn shared_span(row: &Row) -> Row {
    let idle = row.idle_percent == Some(100.0) && row.reads + row.writes == 0;
    Row { span_us: if idle { 0 } else { row.span_us }, ..row.clone() }
}

/// `PROPTEST_CASES` asks for more (`make soak`); a case is some thousand files opened, so at most
/// 200.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual).min(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(8), max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// Seconds wrap, the clock jumps, the store is opened again at any moment.
    #[test]
    fn rows_are_those_of_a_list_in_memory(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let mut reference = Reference::default();
        let member = (dice.below(2) == 1).then_some(3);
        let mut t_s = 1_700_000_000 + dice.below(60);
        let credits = [CreditUnit::Ios, CreditUnit::Bytes][dice.below(2) as usize];
        let mut extra = Extra { balance_percent: Some(50.0), credits, ..Extra::default() };
        let mut quiet = 0;
        for _ in 0..3_000 + dice.below(4_000) {
            match dice.below(200) {
                0 => store = Store::open(folder.path()).unwrap(),
                1 => t_s = t_s.saturating_sub(dice.below(5_000)),
                2 => t_s += dice.below(5_000),
                3 => quiet = dice.below(400),
                4 => extra.balance_percent = [None, Some(dice.below(100) as f64 / 3.0)][dice.below(2) as usize],
                5 => prop_assert_eq!(store.rows(VOLUME, member, Resolution::Second, None, Some(1)).unwrap().len(), reference.seconds.len().min(1)),
                _ => {}
            }
            let requests = 1 + dice.below(20);
            let sample = if quiet > 0 { idle(1_000_000_000) } else { busy(&mut dice, requests) };
            quiet = quiet.saturating_sub(1);
            store.record(VOLUME, member, t_s, &sample, &extra).unwrap();
            reference.record(t_s, &sample, &extra);
            t_s += 1;
        }
        reference.compare(&store, member);
        reference.compare(&Store::open(folder.path()).unwrap(), member);

        let (since, last) = (t_s.saturating_sub(dice.below(4_000)), dice.below(300) as usize);
        let retained = &reference.seconds[reference.seconds.len().saturating_sub(SECONDS.0)..];
        let expected: Vec<u64> = retained.iter().map(|row| row.0).filter(|&t_s| t_s >= since).collect();
        let times = |rows: Vec<Row>| rows.iter().map(|row| row.t_s).collect::<Vec<_>>();
        prop_assert_eq!(times(store.rows(VOLUME, member, Resolution::Second, Some(since), None).unwrap()), expected.clone());
        let newest = expected[expected.len().saturating_sub(last)..].to_vec();
        prop_assert_eq!(times(store.rows(VOLUME, member, Resolution::Second, Some(since), Some(last)).unwrap()), newest);
        prop_assert_eq!(store.dropped(), 0);
    }
}

#[test]
fn minutes_wrap_after_15_days() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut reference, mut dice) = (Store::open(folder.path()).unwrap(), Reference::default(), Dice(15));
    for minute in 0..MINUTES.0 as u64 + 1_000 {
        let sample = busy(&mut dice, 3);
        store.record(VOLUME, None, minute * 60 + dice.0 % 60, &sample, &Extra::default()).unwrap();
        reference.record(minute * 60, &sample, &Extra::default());
    }
    let rows = store.rows(VOLUME, None, Resolution::Minute, None, None).unwrap();
    assert_eq!((rows.len(), rows[0].t_s), (MINUTES.0, 1_000 * 60));
    let expected: Vec<Row> = reference.minutes[1_000..].iter().map(|(t_s, sample, extra)| Row::new(*t_s, sample, extra)).collect();
    assert!(rows == expected);
    let again = Store::open(folder.path()).unwrap();
    assert!(again.rows(VOLUME, None, Resolution::Minute, None, None).unwrap() == expected);
    let length = |name: &str| fs::metadata(folder.path().join(VOLUME).join(name)).unwrap().len();
    assert!(length("seconds") <= SECONDS.0 as u64 * SECONDS.1 && length("minutes") <= MINUTES.0 as u64 * MINUTES.1);
}

#[test]
fn minutes_are_the_sums_of_their_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, mut dice) = (Store::open(folder.path()).unwrap(), Dice(60));
    for t_s in 600_000..603_000u64 {
        if t_s % 777 == 0 {
            store = Store::open(folder.path()).unwrap();
        }
        let requests = dice.below(3) * 40;
        let sample = if requests == 0 { idle(1_000_000_000 + dice.below(1_000)) } else { busy(&mut dice, requests) };
        store.record(VOLUME, None, t_s, &sample, &Extra::default()).unwrap();
    }
    let mut sums: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for row in store.rows(VOLUME, None, Resolution::Second, None, None).unwrap() {
        sums.entry(row.t_s / 60 * 60).or_default().push(row);
    }
    let minutes = store.rows(VOLUME, None, Resolution::Minute, None, None).unwrap();
    assert_eq!(minutes.len(), 50);
    for minute in minutes {
        let rows = &sums[&minute.t_s];
        let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
        let counts: [fn(&Row) -> u64; 7] =
            [|row| row.reads, |row| row.writes, |row| row.read_bytes, |row| row.write_bytes, |row| row.errors, |row| row.flushes, |row| row.consumed_ops];
        for of in counts {
            assert_eq!(of(&minute), sum(of));
        }
        assert_eq!(minute.queue_max, rows.iter().map(|row| row.queue_max).max().unwrap());
        let times: [fn(&Row) -> u64; 4] =
            [|row| row.read_time_us, |row| row.write_time_us, |row| row.volume_iops_exceeded_us, |row| row.instance_throughput_exceeded_us];
        for of in times.into_iter().chain([(|row: &Row| row.span_us) as fn(&Row) -> u64]) {
            // Each of 60 seconds and the minute is rounded to the nearest microsecond: 61 halves,
            // less than 31.
            assert!(of(&minute).abs_diff(sum(of)) <= 31);
        }
        let of_second = |t_s: u64| store.histogram(VOLUME, None, Resolution::Second, Some(t_s), Some(t_s + 60)).unwrap();
        let (fine, summed) = (of_second(minute.t_s), store.histogram(VOLUME, None, Resolution::Minute, Some(minute.t_s), Some(minute.t_s + 60)).unwrap());
        assert_eq!((fine.rows, summed.rows), (60, 1));
        assert_eq!((fine.counts, fine.late), (summed.counts, summed.late));
    }
}

#[test]
fn quantiles_are_within_the_stated_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (run, widest_us) in [300u64, 30_000, 60_000_000].into_iter().enumerate() {
        let mut dice = Dice(run as u64);
        let t_s = 10_000 * (run as u64 + 1);
        let mut all: [[Vec<u64>; CLASSES]; 2] = Default::default();
        for second in 0..30 {
            let mut sample = Sample { span_ns: 1_000_000_000, ..Sample::empty() };
            for _ in 0..20_000 {
                let (op, bytes) = (dice.below(2) as usize, 4_096u32 << (2 * dice.below(5)));
                // Spread over octaves as latencies are, from 8 us on.
                let took = 8_000 + (dice.below(widest_us * 1_000) >> dice.below(12));
                sample.latency[op][class_of(bytes)][bucket_of(took)] += 1;
                all[op][class_of(bytes)].push(took);
            }
            store.record(VOLUME, None, t_s + second, &sample, &Extra::default()).unwrap();
        }
        let latencies = store.histogram(VOLUME, None, Resolution::Second, Some(t_s), Some(t_s + 30)).unwrap();
        let error = latencies.error.factor();
        // The widest do not fit the slot.
        assert_eq!(latencies.error > ErrorFactor::FINEST, run == 2, "widths up to {widest_us} us: {error}");
        for op in [Op::Read, Op::Write] {
            for (class, took) in all[op as usize].iter_mut().enumerate() {
                took.sort_unstable();
                assert_eq!(latencies.buckets(op, Some(class)).iter().sum::<u64>(), took.len() as u64);
                for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
                    let exact = took[((q * took.len() as f64).ceil() as usize).clamp(1, took.len()) - 1] as f64;
                    let estimate = latencies.quantile(op, Some(class), q).unwrap() as f64;
                    // Both lie in the same joined bucket, or, where counts were spread and rounded
                    // to whole requests in 30 rows, a hair beyond its edge.
                    assert!(estimate / exact <= error * 1.02 && exact / estimate <= error * 1.02, "{op:?} {class} {q}: {estimate} for {exact}, stated {error}");
                }
            }
        }
    }
}

#[test]
fn a_torn_slot_is_skipped_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(3);
    let store = Store::open(folder.path()).unwrap();
    for t_s in 0..5_000u64 {
        store.record(VOLUME, None, t_s, &busy(&mut dice, 2), &Extra::default()).unwrap();
    }
    let whole = store.rows(VOLUME, None, Resolution::Second, None, None).unwrap();
    let file = OpenOptions::new().write(true).read(true).open(folder.path().join(VOLUME).join("seconds")).unwrap();
    let mut torn = vec![4_999u64];
    torn.extend((0..200).map(|_| 1_400 + dice.below(3_599)));
    for t_s in &torn {
        let offset = t_s % SECONDS.0 as u64 * SECONDS.1 + dice.below(60);
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << dice.below(8))], offset).unwrap();
    }
    // A byte that was flipped twice is whole again only if both hit the same bit.
    let expected: Vec<Row> = whole.into_iter().filter(|row| !torn.contains(&row.t_s)).collect();
    let rows = Store::open(folder.path()).unwrap().rows(VOLUME, None, Resolution::Second, None, None).unwrap();
    let healed = rows.iter().filter(|row| torn.contains(&row.t_s)).count();
    assert!(healed <= 1);
    assert_eq!(rows.into_iter().filter(|row| !torn.contains(&row.t_s)).collect::<Vec<_>>(), expected);
    // The newest was torn: its place is taken by what comes.
    let store = Store::open(folder.path()).unwrap();
    store.record(VOLUME, None, 5_000, &busy(&mut dice, 2), &Extra::default()).unwrap();
    let last = store.rows(VOLUME, None, Resolution::Second, None, Some(2)).unwrap();
    assert_eq!(last[1].t_s, 5_000);
}

/// A file of seconds put back from a copy: numbers that were given meanwhile are missing, and the
/// rows in their places are of an earlier round.
#[test]
fn rows_of_an_earlier_round_are_not_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut dice) = (Store::open(folder.path()).unwrap(), Dice(5));
    let seconds = folder.path().join(VOLUME).join("seconds");
    let mut copy = Vec::new();
    for t_s in 0..7_000u64 {
        if t_s == 5_000 {
            copy = fs::read(&seconds).unwrap();
        }
        store.record(VOLUME, None, t_s, &busy(&mut dice, 2), &Extra::default()).unwrap();
    }
    fs::write(&seconds, copy).unwrap();
    let rows = Store::open(folder.path()).unwrap().rows(VOLUME, None, Resolution::Second, None, None).unwrap();
    // Minutes hold the seconds to 6,959, so that is the newest number known; of the 3,600 up to it
    // the copy has those before 5,000.
    assert_eq!(rows.iter().map(|row| row.t_s).collect::<Vec<_>>(), (6_960 - SECONDS.0 as u64..5_000).collect::<Vec<_>>());
}

#[test]
fn files_of_anything_are_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(8);
    for length in [0usize, 1, 1_023, 5_000, 200_000, 5_000_000] {
        let volume = folder.path().join(VOLUME);
        fs::create_dir_all(&volume).unwrap();
        let noise: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        fs::write(volume.join("seconds"), &noise).unwrap();
        fs::write(volume.join("minutes"), &noise).unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.rows(VOLUME, None, Resolution::Second, None, None).unwrap(), []);
        assert_eq!(store.rows(VOLUME, None, Resolution::Minute, None, None).unwrap(), []);
        store.record(VOLUME, None, 60, &busy(&mut dice, 1), &Extra::default()).unwrap();
        assert_eq!(Store::open(folder.path()).unwrap().rows(VOLUME, None, Resolution::Minute, None, None).unwrap().len(), 1);
        assert!(store.forget(VOLUME));
    }
}

#[test]
fn a_clock_at_its_ends_or_standing_still() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let times = [u64::MAX, 0, u64::MAX - 1, u64::MAX, 7, 7, 7];
    for t_s in times {
        store.record(VOLUME, None, t_s, &idle(1_000), &Extra::default()).unwrap();
    }
    let times_of = |resolution| store.rows(VOLUME, None, resolution, None, None).unwrap().iter().map(|row| row.t_s).collect::<Vec<_>>();
    assert_eq!(times_of(Resolution::Second), times);
    assert_eq!(times_of(Resolution::Minute), [u64::MAX - 15, 0, u64::MAX - 15, 0]);
    // A minute takes 600 seconds at most, so that the sums of one that never ends do not run over.
    for _ in 0..1_500 {
        store.record(VOLUME, None, 120, &idle(1_000), &Extra::default()).unwrap();
    }
    assert_eq!(times_of(Resolution::Minute)[4..], [120; 3]);
}

#[test]
fn an_idle_volume_takes_little() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut t_s) = (Store::open(folder.path()).unwrap(), 0);
    for _ in 0..86_400 {
        store.record(VOLUME, None, t_s, &idle(1_000_000_000), &Extra { balance_percent: Some(100.0), ..Extra::default() }).unwrap();
        t_s += 1;
    }
    let blocks = |name: &str| fs::metadata(folder.path().join(VOLUME).join(name)).unwrap().blocks() * 512;
    // 1,440 runs of a minute in slots of 1 KiB, 24 of an hour in slots of 2 KiB; rounded up to what
    // a file system may allocate ahead.
    assert!(blocks("seconds") <= 3 << 20 && blocks("minutes") <= 1 << 18, "{} {}", blocks("seconds"), blocks("minutes"));
    assert_eq!(store.rows(VOLUME, None, Resolution::Second, None, None).unwrap().len(), SECONDS.0);
    assert_eq!(store.rows(VOLUME, None, Resolution::Minute, None, None).unwrap().len(), 1_440);
}

#[test]
fn the_columns_say_what_they_mean() {
    let mut sample =
        Sample { span_ns: 2_000_000_000, ops: [3, 1], bytes: [12_288, 65_536], time_ns: [1_500, 2_499], consumed: 5, errors: 1, flushes: 2, ..Sample::empty() };
    (sample.queue_ns, sample.queue_max, sample.idle_ns) = (3_000_000_000, 7, 500_000_000);
    sample.exceeded_ns = [1, 2_000, 3_000, 40_000, 500_000, 6_000_000, 70_000_000, 8, 9, 10].map(|n| n * 1_000);
    sample.latency[0][0][bucket_of(100_000)] = 3;
    let (from, until) = bounds_of(bucket_of(100_000));
    let p50 = ((from + (until - from) / 2) as f64 / 100.0).round() / 10.0;
    let extra = Extra { balance_percent: Some(12.5), instance_ios_percent: Some(3.0), instance_bytes_percent: Some(99.0), credits: CreditUnit::Ios };
    let row = Row::new(42, &sample, &extra);
    let named = |row: &Row| -> BTreeMap<&str, Value> { COLUMNS.into_iter().zip(row.to_json()).collect() };
    let figures = named(&row);
    assert_eq!(row.to_json().len(), COLUMNS.len());
    for (column, value) in [
        ("t_s", json!(42)),
        ("reads", json!(3)),
        ("writes", json!(1)),
        ("read_bytes", json!(12_288)),
        ("write_bytes", json!(65_536)),
        ("read_time_us", json!(2)),
        ("write_time_us", json!(2)),
        ("queue_mean", json!(1.5)),
        ("queue_max", json!(7)),
        ("idle_percent", json!(25.0)),
        ("balance_percent", json!(12.5)),
        ("volume_iops_exceeded_us", json!(42_000)),
        ("volume_throughput_exceeded_us", json!(3_000)),
        // The instance's I/O bucket is the emptier one.
        ("instance_iops_exceeded_us", json!(70_500_000)),
        ("instance_throughput_exceeded_us", json!(6_000_000)),
        ("read_p50_us", json!(p50)),
        ("write_p50_us", Value::Null),
        ("late_p99_us", Value::Null),
        ("instance_ios_balance_percent", json!(3.0)),
        ("instance_bytes_balance_percent", json!(99.0)),
        ("errors", json!(1)),
        ("flushes", json!(2)),
        ("span_us", json!(2_000_000)),
        ("consumed_ops", json!(5)),
    ] {
        assert_eq!(figures[column], value, "{column}");
    }
    let bytes = named(&Row::new(42, &sample, &Extra { credits: CreditUnit::Bytes, balance_percent: Some(f64::NAN), ..Extra::default() }));
    assert_eq!((&bytes["volume_iops_exceeded_us"], &bytes["volume_throughput_exceeded_us"]), (&json!(2_000), &json!(43_000)));
    assert_eq!((&bytes["instance_throughput_exceeded_us"], &bytes["balance_percent"]), (&json!(76_000_000), &Value::Null));
    let line = row.to_csv();
    let cells: Vec<&str> = line.split(',').collect();
    assert_eq!(Row::csv_header().split(',').zip(cells.iter().copied()).filter(|&(column, cell)| column == "write_p50_us" && cell.is_empty()).count(), 1);
    assert_eq!((cells.len(), cells[0], cells[7], cells[25]), (COLUMNS.len(), "42", "1.5", "2000000"));
    assert_eq!(named(&Row::new(0, &Sample::empty(), &Extra::default()))["queue_mean"], Value::Null);
}

#[test]
fn totals_are_in_base_units() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut sample = Sample { span_ns: 1_000_000_000, ops: [4, 2], bytes: [16_384, 8_192], time_ns: [2_000_000, 1], idle_ns: 250_000_001, ..Sample::empty() };
    sample.exceeded_ns = [0, 1_000_000_000, 2, 0, 3, 4, 0, 0, 5, 0];
    for took in [1, 300_000, 500_000_000, 200_000_000_000] {
        sample.latency[0][1][bucket_of(took)] += 1;
    }
    sample.latency[1][0][bucket_of(800_000)] += 2;
    sample.late[bucket_of(40_000)] += 6;
    for (volume, member) in [("vol-a", None), ("vol-a", Some(0)), ("vol-b", None)] {
        (0..3).for_each(|t_s| store.record(volume, member, t_s, &sample, &Extra::default()).unwrap());
    }
    let totals = store.totals();
    let keys: Vec<_> = totals.iter().map(|totals| (totals.volume.as_str(), totals.member)).collect();
    assert_eq!(keys, [("vol-a", None), ("vol-a", Some(0)), ("vol-b", None)]);
    for totals in &totals {
        assert_eq!([totals.reads, totals.writes, totals.read_bytes, totals.write_bytes], [12, 6, 49_152, 24_576]);
        assert_eq!([totals.read_s, totals.write_s, totals.idle_s], [0.006, 3e-9, 0.750_000_003]);
        // Volume IOPS and I/O credits.
        assert_eq!([totals.exceeded_iops_s, totals.exceeded_throughput_s], [3.0, 6e-9]);
        assert_eq!([totals.instance_exceeded_iops_s, totals.instance_exceeded_throughput_s], [9e-9, 12e-9]);
        assert_eq!(totals.waiting_s["degraded"], 15e-9);
        assert!(!totals.waiting_s.contains_key(Cap::Clients.name()) && !totals.waiting_s.contains_key(Cap::None.name()));
        assert_eq!(totals.read_latency.sum_s, 0.006);
        // The middle of the bucket that has 40 us, 18 times.
        let (from, until) = bounds_of(bucket_of(40_000));
        assert_eq!(totals.late.sum_s, (18 * from.midpoint(until)) as f64 / 1e9);
        let bounds = histogram_bounds_s();
        assert!(bounds.is_sorted_by(|a, b| a < b));
        let up_to = |bound: f64| totals.read_latency.counts[bounds.iter().position(|&other| other == bound).unwrap()];
        // 1 ns, 300 us, 0.5 s and 200 s, three times each.
        assert_eq!([0.000016, 0.000256, 0.000384, 0.524288, 67.108864].map(up_to), [3, 3, 6, 9, 9]);
        for histogram in [&totals.read_latency, &totals.write_latency, &totals.late] {
            assert!(histogram.counts.is_sorted() && histogram.counts.len() == bounds.len() + 1);
        }
        let all = [&totals.read_latency, &totals.write_latency, &totals.late].map(|histogram| *histogram.counts.last().unwrap());
        assert_eq!(all, [12, 6, 18]);
    }
}

#[test]
fn forgotten_is_gone_and_only_that() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let other = "vol-0123456789abcdef01";
    for (volume, member) in [(VOLUME, None), (VOLUME, Some(0)), (VOLUME, Some(11)), (other, None)] {
        store.record(volume, member, 5, &idle(1), &Extra::default()).unwrap();
    }
    assert!(store.forget(VOLUME) && store.forget("vol-of-nobody"));
    let remaining: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(remaining, [other]);
    assert_eq!(store.rows(VOLUME, Some(0), Resolution::Second, None, None).unwrap(), []);
    assert!(store.totals().iter().all(|totals| totals.volume == other));
    assert_eq!(store.rows(other, None, Resolution::Second, None, None).unwrap().len(), 1);
    for name in ["", "..", "../x", "a/b", "vol-1-m0", "vol 1", &"v".repeat(65)] {
        let error = store.record(name, None, 5, &idle(1), &Extra::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        assert!(store.rows(name, None, Resolution::Second, None, None).is_err());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Rows end some milliseconds after their second: what is measured of a minute is at most a minute.
#[test]
fn a_minute_is_idle_for_a_minute_at_most() {
    let row = Row::new(60, &idle(60_023_273_000), &Extra::default());
    let minute = minute_of(&row);
    assert_eq!((minute.span_us, minute.idle_us), (60_000_000, 6e7));
    let short = minute_of(&Row::new(60, &idle(2_000_000_000), &Extra::default()));
    assert_eq!((short.span_us, short.idle_us), (2_000_000, 2e6));
}

/// Parts of seconds, as volumes are attached and detached within one, against whole seconds.
#[test]
fn parts_of_a_second_are_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let seed = rand_seed();
    println!("seed {seed}");
    let (mut dice, mut reference, mut t_s) = (Dice(seed), Reference::default(), 1_700_000_000);
    for _ in 0..500 {
        t_s += 1 + dice.below(3);
        let mut whole = Sample::empty();
        let parts = dice.below(4);
        for _ in 0..parts {
            let requests = dice.below(5);
            let part = if requests == 0 { idle(dice.below(100_000_000)) } else { busy(&mut dice, requests) };
            store.record_part(VOLUME, None, t_s, &part, &Extra::default()).unwrap();
            whole.add(&part);
        }
        // A second that ends detached has parts alone.
        if parts == 0 || dice.below(2) == 0 {
            let rest = busy(&mut dice, 3);
            store.record(VOLUME, None, t_s, &rest, &Extra::default()).unwrap();
            whole.add(&rest);
        }
        reference.record(t_s, &whole, &Extra::default());
    }
    reference.compare(&store, None);
    reference.compare(&Store::open(folder.path()).unwrap(), None);
}

fn rand_seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |passed| passed.as_nanos() as u64)
}

#[test]
fn rows_outlive_their_volume_for_15_days_and_within_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let day_s = 86_400;
    let gone = |day: u64| Retired { deleted_s: day * day_s, facts: vec![Default::default(); 3] };
    for day in 1..=3u64 {
        let volume = format!("vol-{day}");
        for member in [None, Some(0), Some(1)] {
            store.record(&volume, member, day * day_s - 1, &busy(&mut Dice(day), 4), &Extra::default()).unwrap();
        }
        store.retire(&volume, gone(day)).unwrap();
    }
    store.retire("vol-unused", gone(3)).unwrap();
    assert_eq!(store.all_retired().len(), 3, "what was never attached has no rows");
    let again = Store::open(folder.path()).unwrap();
    assert_eq!(again.retired("vol-2"), Some(gone(2)));
    assert_eq!(again.minutes("vol-2", Some(1), 0, u64::MAX).unwrap().len(), 1);
    again.expire(16 * day_s);
    assert_eq!(again.all_retired().len(), 3, "the first is 15 days old, and no older");
    again.expire(17 * day_s);
    let names = |store: &Store| store.all_retired().into_iter().map(|(volume, _)| volume).collect::<Vec<_>>();
    assert_eq!(names(&again), ["vol-2", "vol-3"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "of members, too");
    // Sparse, of the 256 MiB that all may have together.
    fs::OpenOptions::new().write(true).open(folder.path().join("vol-3/seconds")).unwrap().set_len(256 << 20).unwrap();
    again.expire(17 * day_s);
    assert_eq!(names(&again), Vec::<String>::new(), "the oldest goes first, then what is too large by itself");
}

/// A tmpfs, unmounted when dropped. None without the right to mount.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "headrace-test"]).arg(folder.path()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Small(folder))
    }

    fn resize(&self, size: &str) {
        assert!(Command::new("mount").args(["-o", &format!("remount,{size}")]).arg(self.0.path()).status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_loses_rows_and_counts_them() {
    let Some(small) = Small::mount("size=64k") else {
        assert!(std::env::var_os("CI").is_none(), "CI has root");
        return eprintln!("skipped: mounting a tmpfs needs root");
    };
    let store = Store::open(&small.0.path().join("metrics")).unwrap();
    let (mut dice, mut lost, mut reads) = (Dice(4), 0, 0);
    for t_s in 0..180u64 {
        let sample = busy(&mut dice, 4);
        reads += sample.ops[0];
        if let Err(error) = store.record(VOLUME, None, t_s, &sample, &Extra::default()) {
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            lost += 1;
        }
    }
    assert!(lost > 50 && store.dropped() >= lost, "{lost} {}", store.dropped());
    let rows = store.rows(VOLUME, None, Resolution::Second, None, None).unwrap();
    assert_eq!(rows.len() as u64, 180 - lost);
    assert!(rows.iter().enumerate().all(|(nth, row)| row.t_s == nth as u64));
    small.resize("size=8m");
    let dropped = store.dropped();
    let sample = busy(&mut dice, 4);
    store.record(VOLUME, None, 180, &sample, &Extra::default()).unwrap();
    assert_eq!(store.dropped(), dropped);
    // The minute under way while there was no room is whole.
    let minutes = store.rows(VOLUME, None, Resolution::Minute, Some(120), None).unwrap();
    assert_eq!(minutes.iter().map(|row| row.t_s).collect::<Vec<_>>(), [120, 180]);
    assert!(minutes[0].span_us >= 60_000_000);
    assert_eq!(store.totals()[0].reads, reads + sample.ops[0]);
    let again = Store::open(&small.0.path().join("metrics")).unwrap();
    assert_eq!(again.rows(VOLUME, None, Resolution::Second, None, None).unwrap().len() as u64, 181 - lost);
}

/// Not a test by itself: the writer that [`a_killed_writer_loses_nothing`] starts and kills.
#[test]
fn writer_that_is_killed() {
    let Some(folder) = std::env::var_os("HEADRACE_METRICS_WRITER") else { return };
    let store = Store::open(Path::new(&folder)).unwrap();
    let from = store.rows(VOLUME, None, Resolution::Second, None, Some(1)).unwrap().last().map_or(0, |row| row.t_s + 1);
    for t_s in from.. {
        store.record(VOLUME, None, t_s, &busy(&mut Dice(t_s), 6), &Extra::default()).unwrap();
        println!("{t_s}");
    }
}

#[test]
fn a_killed_writer_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut reported = 0;
    for life in 0..20 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_that_is_killed", "--nocapture", "--test-threads=1"])
            .env("HEADRACE_METRICS_WRITER", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut counted = 0;
        let mut hear = |line: String| line.trim().parse::<u64>().is_ok_and(|t_s| std::mem::replace(&mut reported, t_s) <= t_s);
        while counted < 40 + life * 7 {
            counted += u64::from(hear(lines.next().unwrap().unwrap()));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.map_while(Result::ok).for_each(|line| {
            hear(line);
        });
        let store = Store::open(folder.path()).unwrap();
        let rows = store.rows(VOLUME, None, Resolution::Second, None, None).unwrap();
        let newest = rows.last().unwrap().t_s;
        assert!(newest >= reported, "life {life}: said {reported}, kept {newest}");
        let first = (newest + 1).saturating_sub(SECONDS.0 as u64);
        assert_eq!(rows.iter().map(|row| row.t_s).collect::<Vec<_>>(), (first..=newest).collect::<Vec<_>>());
        let mut reference = Reference::default();
        (0..=newest).for_each(|t_s| reference.record(t_s, &busy(&mut Dice(t_s), 6), &Extra::default()));
        reference.compare(&store, None);
    }
}
