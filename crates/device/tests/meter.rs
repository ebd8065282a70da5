//! The meter and its histograms against sums made by hand.

use headrace_device::meter::{bounds_of, bucket_of, class_of, quantile, Meter, Sample, BUCKETS, SIZE_CLASSES};
use headrace_model::{Cap, Decision, Nanos, Op, Verdict};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[test]
fn buckets_follow_each_other_without_gaps() {
    assert_eq!(bounds_of(0), (0, 1_000));
    for bucket in 0..BUCKETS {
        let (from, until) = bounds_of(bucket);
        assert!(from < until);
        assert_eq!((bucket_of(from), bucket_of(until - 1)), (bucket, bucket), "the ends of bucket {bucket}");
        if bucket + 1 < BUCKETS {
            assert_eq!(bounds_of(bucket + 1).0, until);
            // A quarter of an octave: at most a quarter of its lower bound.
            assert!(bucket == 0 || 4 * (until - from) <= from, "bucket {bucket}: {from} to {until}");
        }
    }
    // 7/4 of 2^27 us.
    assert_eq!(bounds_of(BUCKETS - 1), (234_881_024_000, u64::MAX));
    assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
}

#[test]
fn size_classes_include_their_bounds() {
    assert_eq!((class_of(1), class_of(512)), (0, 0));
    for (class, &most) in SIZE_CLASSES.iter().enumerate() {
        assert_eq!((class_of(most), class_of(most + 1)), (class, class + 1));
    }
    assert_eq!(class_of(u32::MAX), SIZE_CLASSES.len());
}

#[test]
fn an_empty_histogram_has_no_quantiles() {
    assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    let mut histogram = [0; BUCKETS];
    histogram[BUCKETS - 1] = 1;
    assert_eq!(quantile(&histogram, 1.0), Some(bounds_of(BUCKETS - 1).0), "the last bucket has no upper end to go to");
}

fn decision(now: u64, start: u64, cap: Cap) -> Decision {
    Decision { start: Nanos(now + start), complete: Nanos(now + start + 500_000), cap, verdict: Verdict::Ok }
}

/// Two requests of 1 s and 2 s, the second begun in the middle of the first.
#[test]
fn a_stretch_worked_out_by_hand() {
    const S: u64 = 1_000_000_000;
    let meter = Meter::new(Nanos(10 * S));
    meter.arrived(Nanos(11 * S), Some(&decision(11 * S, S / 2, Cap::VolumeIops)));
    meter.arrived(Nanos(11 * S + S / 2), Some(&decision(11 * S + S / 2, S / 4, Cap::VolumeIops)));
    assert_eq!(meter.in_flight(), 2);
    meter.answered(Nanos(11 * S), Nanos(12 * S), Op::Read, 16_384, 20_000, false);
    meter.answered(Nanos(11 * S + S / 2), Nanos(13 * S + S / 2), Op::Write, 4_096, 0, true);
    meter.flushed();
    let sample = meter.take(Nanos(14 * S));
    assert_eq!((sample.span_ns, sample.ops, sample.bytes, sample.time_ns), (4 * S, [1, 1], [16_384, 4_096], [S, 2 * S]));
    assert_eq!((sample.errors, sample.flushes, sample.queue_max), (1, 1, 2));
    // One in flight from 11 to 11.5 and from 12 to 13.5, two from 11.5 to 12; none from 10 to 11
    // and from 13.5 to 14.
    assert_eq!((sample.queue_ns, sample.idle_ns), (3 * S, S + S / 2));
    // Waits from 11 to 11.5 and from 11.5 to 11.75: they touch and do not overlap.
    assert_eq!(sample.exceeded_ns[1], S / 2 + S / 4);
    assert_eq!(sample.latency_of(Op::Read).iter().sum::<u32>(), 1);
    assert_eq!(sample.latency[0][1][bucket_of(S)], 1, "16 KiB is of the second class");
    assert_eq!(sample.late[bucket_of(20_000)], 1);
    let next = meter.take(Nanos(15 * S));
    assert_eq!((next.span_ns, next.ops, next.idle_ns, next.queue_max), (S, [0, 0], S, 0), "taken once");
}

/// EBS counts a request once per started 256 KiB.
#[test]
fn larger_requests_consume_more_operations() {
    let meter = Meter::new(Nanos(0));
    for (bytes, consumed) in [(512, 1), (256 << 10, 1), ((256 << 10) + 512, 2), (1 << 20, 4)] {
        meter.arrived(Nanos(0), None);
        meter.answered(Nanos(0), Nanos(1), Op::Write, bytes, 0, false);
        let sample = meter.take(Nanos(2));
        assert_eq!((sample.ops, sample.consumed), ([0, 1], consumed), "{bytes} bytes");
    }
}

#[test]
fn overlapping_waits_count_once_and_caps_apart() {
    let meter = Meter::new(Nanos(0));
    meter.arrived(Nanos(0), Some(&decision(0, 100, Cap::VolumeThroughput)));
    meter.arrived(Nanos(50), Some(&decision(50, 20, Cap::VolumeThroughput)));
    meter.arrived(Nanos(60), Some(&decision(60, 100, Cap::VolumeThroughput)));
    meter.arrived(Nanos(60), Some(&decision(60, 30, Cap::InstanceCredits)));
    meter.arrived(Nanos(70), Some(&decision(70, 0, Cap::VolumeIops)));
    meter.arrived(Nanos(70), None);
    let sample = meter.take(Nanos(200));
    let of = |cap: Cap| sample.exceeded_ns[Cap::ALL.iter().position(|&other| other == cap).expect("a cap")];
    assert_eq!((of(Cap::VolumeThroughput), of(Cap::InstanceCredits), of(Cap::VolumeIops)), (160, 30, 0));
    assert_eq!((sample.queue_max, meter.in_flight()), (6, 6));
}

/// A failing case is printed, kept in the file, and tried first on the next run.
fn config() -> ProptestConfig {
    let file = FileFailurePersistence::Direct("proptest-regressions/meter.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(200) }
}

proptest! {
    #![proptest_config(config())]

    /// A quantile lies in the bucket of the value of that rank: off by at most its width.
    #[test]
    fn quantiles_are_within_a_bucket(mut values in prop::collection::vec(prop_oneof![0u64..5_000, 1_000u64..1_000_000, 1_000_000u64..200_000_000_000], 1..400), q in 0.0f64..=1.0) {
        let mut histogram = [0u32; BUCKETS];
        values.iter().for_each(|&value| histogram[bucket_of(value)] += 1);
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let (from, until) = bounds_of(bucket_of(values[rank - 1]));
        let estimate = quantile(&histogram, q).expect("not empty");
        prop_assert!((from..=until).contains(&estimate), "{} is not in {}..{} of {}", estimate, from, until, values[rank - 1]);
    }

    /// Two stretches added are the one that was never cut.
    #[test]
    fn samples_add_up(requests in prop::collection::vec((0u64..50_000, 0u64..900_000, any::<bool>(), 1u32..600_000, any::<bool>()), 1..80), cut in 0usize..80) {
        let (whole, parts) = (Meter::new(Nanos(0)), Meter::new(Nanos(0)));
        let mut sum = Sample::empty();
        // Arrivals and answers in order of time.
        let mut events = Vec::new();
        let mut now = 0;
        for &(gap, took, read, bytes, failed) in &requests {
            now += gap;
            events.push((now, None));
            events.push((now + took, Some((now, if read { Op::Read } else { Op::Write }, bytes, failed))));
        }
        events.sort_by_key(|event| (event.0, event.1.is_some()));
        for (number, (at, answer)) in events.iter().enumerate() {
            if number == cut {
                sum.add(&parts.take(Nanos(*at)));
            }
            for meter in [&whole, &parts] {
                match answer {
                    None => meter.arrived(Nanos(*at), None),
                    Some((arrived, op, bytes, failed)) => meter.answered(Nanos(*arrived), Nanos(*at), *op, *bytes, 0, *failed),
                }
            }
        }
        let end = Nanos(events.last().expect("some").0 + 1_000);
        sum.add(&parts.take(end));
        let whole = whole.take(end);
        prop_assert_eq!(&sum, &whole);
        prop_assert_eq!(whole.ops.iter().sum::<u64>(), requests.len() as u64);
        prop_assert_eq!(whole.time_ns.iter().sum::<u64>(), whole.queue_ns, "Little: every request is in the queue while it lasts");
        prop_assert_eq!(whole.latency_of(Op::Read).iter().map(|&n| u64::from(n)).sum::<u64>(), whole.ops[0]);
    }
}
