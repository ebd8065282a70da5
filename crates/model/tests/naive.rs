//! The model against a second, naive implementation: every start equal to the nanosecond, for
//! random volumes and random requests.
//!
//! The naive one shares no code with the model. It keeps every request ever taken, replays them all
//! to know a bucket's level at a moment, and finds the first moment at which all buckets have
//! enough by halving the interval, where the model divides.

use headrace_catalog::{Catalog, InstanceLimits, NaiveDate, ReadLimits, VolumeLimits};
use headrace_model::host::{Instance, TOP_UP_EVERY};
use headrace_model::{Cap, Io, ModelOptions, Nanos, Op, Volume};
use proptest::prelude::*;

const SCALE: i128 = 1_000_000_000;

#[derive(Clone)]
struct NaiveBucket {
    rate: i128,
    main: i128,
    reserve: i128,
    initial: i128,
    full_every: Option<u64>,
    taken: Vec<(u64, i128)>,
}

impl NaiveBucket {
    fn cap(rate: u64, saved_second: bool) -> NaiveBucket {
        let second = i128::from(rate) * SCALE;
        let main = (second / 64).max(SCALE);
        let reserve = if saved_second { (second - main).max(0) } else { 0 };
        NaiveBucket { rate: rate.into(), main, reserve, initial: main, full_every: None, taken: Vec::new() }
    }

    fn credits(refill: u64, capacity: u64, initial: u64) -> NaiveBucket {
        let main = i128::from(capacity) * SCALE;
        NaiveBucket { rate: refill.into(), main, reserve: 0, initial: i128::from(initial) * SCALE, full_every: None, taken: Vec::new() }
    }

    /// Levels (main, reserve) at `t`, main allowed to hold `room` at the end: everything that
    /// happened is gone through again.
    fn replay(&self, t: u64, room: i128) -> (i128, i128) {
        let (mut main, mut reserve, mut at) = (self.initial, self.reserve, 0u64);
        let mut events: Vec<(u64, i128, bool)> = self.taken.iter().map(|&(when, tokens)| (when, tokens, false)).collect();
        if let Some(every) = self.full_every {
            events.extend((1..).map(|k| k * every).take_while(|&when| when <= t).map(|when| (when, 0, true)));
            events.sort_by_key(|&(when, _, fill)| (when, !fill));
        }
        let earn = |main: &mut i128, reserve: &mut i128, ns: u64, room: i128| {
            *main += self.rate * i128::from(ns);
            if *main > room {
                *reserve = (*reserve + (((*main - room) * 874) >> 16)).min(self.reserve);
                *main = room;
            }
        };
        for (when, tokens, fill) in events {
            earn(&mut main, &mut reserve, when - at, self.main.max(tokens));
            at = when;
            if fill {
                main = self.main;
            }
            let from_main = tokens.min(main);
            main = (main - from_main).min(self.main);
            reserve -= tokens - from_main;
        }
        earn(&mut main, &mut reserve, t - at, room);
        (main, reserve)
    }

    fn has(&self, t: u64, tokens: u64) -> bool {
        let want = i128::from(tokens) * SCALE;
        let (main, reserve) = self.replay(t, self.main.max(want));
        main + reserve >= want
    }
}

/// Function from a request's operation, I/Os and bytes to its tokens; None if the bucket does not
/// serve it.
type Measure = fn(Op, u64, u64) -> Option<u64>;

struct Naive {
    buckets: Vec<(NaiveBucket, Measure)>,
    last: u64,
}

impl Naive {
    /// First nanosecond from `now` on, not before the request ahead, at which every bucket has
    /// enough.
    fn submit(&mut self, now: u64, op: Op, ios: u64, bytes: u64) -> u64 {
        let from = now.max(self.last);
        let fits = |t: u64| self.buckets.iter().all(|(bucket, tokens)| tokens(op, ios, bytes).is_none_or(|tokens| bucket.has(t, tokens)));
        let (mut low, mut high) = (from, from);
        let mut step = 1u64;
        while !fits(high) {
            low = high;
            high += step;
            step *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                high = middle
            } else {
                low = middle
            }
        }
        let start = if fits(low) { low } else { high };
        for (bucket, tokens) in &mut self.buckets {
            if let Some(tokens) = tokens(op, ios, bytes) {
                bucket.taken.push((start, i128::from(tokens) * SCALE));
            }
        }
        self.last = start;
        start
    }
}

fn ios_of(_: Op, ios: u64, _: u64) -> Option<u64> {
    Some(ios)
}

fn bytes_of(_: Op, _: u64, bytes: u64) -> Option<u64> {
    Some(bytes)
}

/// Caps of a local disk: of reads alone and of writes alone.
fn local_disk(limits: &VolumeLimits, reads: ReadLimits, saved: bool) -> Naive {
    let cap = |rate: u64, measure: Measure| (NaiveBucket::cap(rate, saved), measure);
    let buckets = vec![
        cap(reads.iops, |op, ios, _| (op == Op::Read).then_some(ios)),
        cap(reads.throughput_bytes_s, |op, _, bytes| (op == Op::Read).then_some(bytes)),
        cap(limits.iops, |op, ios, _| (op == Op::Write).then_some(ios)),
        cap(limits.throughput_bytes_s, |op, _, bytes| (op == Op::Write).then_some(bytes)),
    ];
    Naive { buckets, last: 0 }
}

fn naive_volume(limits: &VolumeLimits, saved: bool) -> Naive {
    if let Some(reads) = limits.reads {
        return local_disk(limits, reads, saved);
    }
    let hdd = limits.random_charges_full_unit;
    let burst_iops = limits.io_burst.as_ref().map_or(limits.iops, |burst| burst.iops);
    let mut buckets: Vec<(NaiveBucket, Measure)> = vec![(NaiveBucket::cap(limits.throughput_bytes_s, saved), bytes_of)];
    if !hdd {
        buckets.push((NaiveBucket::cap(burst_iops, saved), ios_of));
    }
    if let Some(burst) = &limits.io_burst {
        buckets.push((NaiveBucket::credits(limits.iops, burst.capacity_ios, burst.initial_ios), ios_of));
    }
    if let Some(burst) = &limits.byte_burst {
        buckets.push((NaiveBucket::credits(burst.baseline_bytes_s, burst.capacity_bytes, burst.initial_bytes), bytes_of));
    }
    Naive { buckets, last: 0 }
}

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn limits(storage: &str, as_of: &str) -> VolumeLimits {
    Catalog::embedded().storage_limits(&storage.parse().unwrap(), day(as_of), None).unwrap().remove(0)
}

fn options(saved_second: bool) -> ModelOptions {
    ModelOptions { saved_second, ..ModelOptions::counting() }
}

/// A volume whose credits are so few that a short test empties them, and one of every kind.
fn some_limits() -> impl Strategy<Value = VolumeLimits> {
    let small = |storage: &'static str, credits: u64| {
        let mut limits = limits(storage, "2020-07-13");
        if let Some(burst) = &mut limits.io_burst {
            (burst.capacity_ios, burst.initial_ios) = (credits, credits / 2);
        }
        if let Some(burst) = &mut limits.byte_burst {
            (burst.capacity_bytes, burst.initial_bytes) = (credits << 20, credits << 19);
        }
        limits
    };
    prop_oneof![
        (20u64..200).prop_map(move |credits| small("gp2:33", credits)),
        (20u64..200).prop_map(move |credits| small("gp2:200", credits)),
        (1u64..40).prop_map(move |credits| small("st1:500", credits)),
        (1u64..40).prop_map(move |credits| small("sc1:500", credits)),
        Just(limits("gp2:2000", "2018-08-15")),
        Just(limits("gp3:100:4000:200", "2021-01-01")),
        Just(limits("io1:100:500", "2018-08-15")),
        Just(limits("io2:100:20000", "2024-01-01")),
        Just(limits("standard:100", "2016-01-01")),
        (50u64..5_000, 50u64..5_000).prop_map(|(reads, writes)| {
            let plain = limits("instance-store:100", "2024-01-01");
            let slow = ReadLimits { iops: reads, throughput_bytes_s: reads << 15 };
            VolumeLimits { iops: writes, throughput_bytes_s: writes << 15, reads: Some(slow), ..plain }
        }),
    ]
}

#[derive(Clone, Debug)]
struct Request {
    gap_ns: u64,
    op: Op,
    bytes: u32,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let gap = prop_oneof![6 => Just(0u64), 3 => 0u64..2_000_000, 1 => 0u64..3_000_000_000];
    let bytes = prop_oneof![4 => Just(16_384u32), 2 => 1u32..65_536, 2 => 200_000u32..3_000_000];
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    prop::collection::vec((gap, op, bytes).prop_map(|(gap_ns, op, bytes)| Request { gap_ns, op, bytes }), 1..160)
}

/// Cases of a property: more of them with PROPTEST_CASES (`make soak`).
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(96)))]

    #[test]
    fn a_volume_starts_every_request_when_the_naive_one_does(limits in some_limits(), requests in requests(), saved in any::<bool>()) {
        let mut volume = Volume::new(limits.clone(), options(saved), 7);
        let mut naive = naive_volume(&limits, saved);
        let hdd = limits.random_charges_full_unit;
        let mut now = 0u64;
        for (index, request) in requests.iter().enumerate() {
            now += request.gap_ns;
            // Offsets far apart: nothing is sequential.
            let io = Io { op: request.op, offset: index as u64 * (1 << 33), bytes: request.bytes };
            let bytes = u64::from(request.bytes);
            let (ios, tokens) = if hdd { (0, bytes.div_ceil(1 << 20) << 20) } else { (bytes.div_ceil(limits.io_unit_bytes), bytes) };
            let expected = naive.submit(now, request.op, ios, tokens);
            let decision = volume.submit(Nanos(now), io);
            prop_assert_eq!(decision.start.0, expected, "request {} at {}", index, now);
            prop_assert_eq!(decision.complete, decision.start, "counting options draw no latency");
        }
    }

    #[test]
    fn an_instance_lets_every_request_go_when_the_naive_one_does(requests in requests(), seconds in 1u64..4, day_gap in any::<bool>()) {
        let mut limits: InstanceLimits = Catalog::embedded().instance("m5.large", day("2026-01-01")).unwrap();
        // A burst of seconds instead of half an hour, so that it empties.
        limits.burst_seconds = seconds;
        let mut instance = Instance::new(&limits, true);
        let (base_ios, max_ios) = (limits.baseline_iops.unwrap(), limits.max_iops.unwrap());
        let (base_bytes, max_bytes) = (limits.baseline_bytes_s.unwrap(), limits.max_bytes_s.unwrap());
        let filled = |mut bucket: NaiveBucket| { bucket.full_every = Some(TOP_UP_EVERY.0); bucket };
        let credits = |base: u64, max: u64| filled(NaiveBucket::credits(base, (max - base) * seconds, (max - base) * seconds));
        let mut naive = Naive { buckets: vec![
            (NaiveBucket::cap(max_ios, true), ios_of), (credits(base_ios, max_ios), ios_of),
            (NaiveBucket::cap(max_bytes, true), bytes_of), (credits(base_bytes, max_bytes), bytes_of),
        ], last: 0 };
        let mut now = 0u64;
        for (index, request) in requests.iter().enumerate() {
            now += request.gap_ns;
            if day_gap && index == requests.len() / 2 {
                now += TOP_UP_EVERY.0;
            }
            // Large requests, so that the megabytes of a second are used up.
            let bytes = request.bytes.saturating_mul(16);
            let (at_volume, _) = instance.admit(Nanos(now), &Io { op: Op::Write, offset: 0, bytes });
            let expected = naive.submit(now, Op::Write, u64::from(bytes).div_ceil(262_144), bytes.into());
            prop_assert_eq!(at_volume.0, expected, "request {} at {}", index, now);
        }
    }
}

/// Answers of `count` back-to-back requests, and how many started in the first `seconds`.
fn started_within(volume: &mut Volume, bytes: u32, seconds: u64) -> u64 {
    let until = Nanos::from_secs(seconds);
    let mut count = 0;
    while volume.submit(Nanos::ZERO, Io { op: Op::Read, offset: count * (1 << 33), bytes }).start <= until {
        count += 1;
    }
    count
}

#[test]
fn depletion_is_exact_to_the_request() {
    // gp2:500: baseline 1,500, 5.4 M credits. Credits cover c + 1500 t; the cap covers 3000/64 =
    // 46.875 + 3000 t. They meet at t = (5,400,000 - 46.875) / 1500 = 3,599.97 s; from then on
    // 1,500 a second: at 3,700 s floor(5,400,000 + 1500 x 3,700).
    let mut volume = Volume::new(limits("gp2:500", "2020-07-13"), ModelOptions::counting(), 1);
    assert_eq!(started_within(&mut volume, 16_384, 3_700), 5_400_000 + 1_500 * 3_700);
    // A second before depletion only the cap counts: floor(46.875 + 3000 x 3599).
    let mut volume = Volume::new(limits("gp2:500", "2020-07-13"), ModelOptions::counting(), 1);
    assert_eq!(started_within(&mut volume, 16_384, 3_599), 46 + 3_000 * 3_599);
}

#[test]
fn refill_is_exact_to_the_credit() {
    let mut volume = Volume::new(limits("gp2:500", "2020-07-13"), ModelOptions::counting(), 1);
    assert!(volume.set_balance_percent(Nanos::ZERO, 0.0));
    // 1,500 a second for an hour fills the bucket exactly, and not further.
    assert_eq!(volume.balance(Nanos::from_secs(1_800)).unwrap().credits, 2_700_000);
    assert_eq!(volume.balance(Nanos::from_secs(3_600)).unwrap().percent(), 100.0);
    assert_eq!(volume.balance(Nanos::from_secs(7_200)).unwrap().credits, 5_400_000);
}

#[test]
fn st1_and_sc1_spend_a_tebibyte_per_tebibyte() {
    // st1:1024: burst 250 MiB/s, baseline 40 MiB/s, bucket 1 TiB = 1,048,576 MiB. Lasts 1,048,576 /
    // 210 = 4,993.2 s; sc1:1024: 80 and 12 MiB/s: 15,420.2 s.
    for (storage, burst, baseline) in [("st1:1024", 250u64, 40u64), ("sc1:1024", 80, 12)] {
        let limits = limits(storage, "2026-01-01");
        assert_eq!(limits.byte_burst.as_ref().unwrap().capacity_bytes, 1 << 40);
        let lasts = (1u64 << 20) / (burst - baseline);
        for (seconds, expected) in [(lasts - 10, burst * (lasts - 10) + burst / 64), (lasts + 1_000, (1 << 20) + baseline * (lasts + 1_000))] {
            let mut volume = Volume::new(limits.clone(), ModelOptions::counting(), 1);
            // Random 64 KiB requests cost a mebibyte each.
            let count = started_within(&mut volume, 65_536, seconds);
            assert_eq!(count, expected, "{storage} at {seconds} s");
        }
    }
}

#[test]
fn caps_are_told_apart() {
    let mut volume = Volume::new(limits("gp2:100", "2020-07-13"), ModelOptions::counting(), 1);
    let mut caps = Vec::new();
    for index in 0..2_000u64 {
        let decision = volume.submit(Nanos::ZERO, Io { op: Op::Read, offset: index << 33, bytes: 262_144 });
        caps.push(decision.cap);
    }
    // 256 KiB x 3,000 = 750 MiB/s is far above the 128 MiB/s of this size.
    assert_eq!(caps[0], Cap::None);
    assert!(caps[100..].iter().all(|&cap| cap == Cap::VolumeThroughput));
    volume.set_balance_percent(Nanos::from_secs(100), 0.0);
    let decision = (0..500u64).map(|i| volume.submit(Nanos::from_secs(100), Io { op: Op::Read, offset: i << 33, bytes: 4_096 })).last().unwrap();
    assert_eq!(decision.cap, Cap::VolumeCredits);
}
