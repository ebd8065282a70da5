//! A load repeated: against the same load written out many times, and against arithmetic. The worst
//! five minutes: against the rows, and between the forms.

use crate::common::day;
use headrace_sim::cycle::{self, Cycle, Repeated};
use headrace_sim::demand::search::{evaluate, DemandCandidate, DemandOutcome, DemandSearch, SearchMemory};
use headrace_sim::{events, interval, Arrivals, OpenLoad, Point, RunRow, Setup};
use proptest::prelude::*;

const DAY_S: f64 = 86_400.0;

fn setup(storage: &str, instance: Option<&str>) -> Setup {
    Setup::resolve(storage, instance, day()).unwrap()
}

fn reads(duration_s: f64, reads_per_s: f64) -> Point {
    Point { duration_s, reads_per_s, writes_per_s: 0.0, read_bytes: 16_384.0, write_bytes: 0.0 }
}

fn even(points: Vec<Point>) -> OpenLoad {
    OpenLoad { arrivals: Arrivals::Even, ..OpenLoad::new(points) }
}

fn settled(setup: &Setup, load: &OpenLoad) -> Repeated {
    cycle::open_settled(setup, load, load.points[0].duration_s).unwrap().1
}

/// Few credits, so that an hour decides.
fn with_few_credits(mut setup: Setup) -> Setup {
    for limits in &mut setup.limits {
        if let Some(burst) = &mut limits.io_burst {
            (burst.capacity_ios, burst.initial_ios) = (400_000, 400_000);
        }
    }
    setup
}

#[test]
fn a_day_that_takes_more_than_comes_back_is_dry_when_arithmetic_says() {
    // gp2:100: 300 a second come back, 5.4 million are saved. Six hours of 500 take 4.32 of them;
    // 18 hours of 200 bring them all back.
    let good = settled(&setup("gp2:100", None), &even(vec![reads(18.0 * 3_600.0, 200.0), reads(6.0 * 3_600.0, 500.0)]));
    assert_eq!((good.settled, good.loses_percent_per_cycle, good.dry_after_s), (Some(true), None, None));
    // 18 hours of 260 bring back 2.592 million only.
    let lost = settled(&setup("gp2:100", None), &even(vec![reads(18.0 * 3_600.0, 260.0), reads(6.0 * 3_600.0, 500.0)]));
    assert_eq!(lost.settled, Some(false));
    // 4.32 - 2.592 = 1.728 of 5.4 million a day.
    let loses = lost.loses_percent_per_cycle.unwrap();
    assert!((loses - 32.0).abs() < 1e-9, "{loses}");
    // Full at 18:00 of day 1, 1.08 at midnight, 3.672 at 18:00 of day 2, gone after 18,360 s.
    let dry = lost.dry_after_s.unwrap();
    assert!((dry - (DAY_S + 18.0 * 3_600.0 + 18_360.0)).abs() < 1.0, "{dry}");
    assert!(lost.first().throttled_s == 0.0 && lost.summary.throttled_s > 6.0 * 3_600.0 && lost.summary.queue_at_end > 0.0);
}

#[test]
fn a_slow_leak_is_found_without_living_through_every_day() {
    // 300 come back, 301 are asked: 86,400 of 5.4 million a day, dry after 62.5 days.
    let leak = settled(&setup("gp2:100", None), &even(vec![reads(DAY_S, 301.0)]));
    assert_eq!(leak.settled, Some(false));
    assert!((leak.loses_percent_per_cycle.unwrap() - 1.6).abs() < 1e-9);
    assert!((leak.dry_after_s.unwrap() - 62.5 * DAY_S).abs() < 10.0, "{:?}", leak.dry_after_s);
    assert!(leak.summary.credits_empty_s > 0.99 * DAY_S);
}

#[test]
fn an_instance_is_full_again_every_day_and_not_in_between() {
    // m5.large: 30 minutes of (maximum - baseline) a day. An hour of 300 MiB/s a day takes 233 MB/s
    // x 3,600 s of 922.5 GB: it lasts, and is full the next day, however much came back.
    let point = |duration_s: f64, reads_per_s: f64| Point { read_bytes: 262_144.0, ..reads(duration_s, reads_per_s) };
    let setup = setup("gp3:1000:16000:1000", Some("m5.large"));
    let daily = settled(&setup, &even(vec![point(DAY_S - 3_600.0, 300.0), point(3_600.0, 1_200.0)]));
    assert_eq!((daily.settled, daily.dry_after_s), (Some(true), None));
    // The hour on its own, repeated, is dry in the second one, and every one from then on.
    let hourly = settled(&setup, &even(vec![point(3_600.0, 1_200.0)]));
    assert_eq!(hourly.settled, Some(false));
    assert!((3_600.0..4_000.0).contains(&hourly.dry_after_s.unwrap()), "{:?}", hourly.dry_after_s);
}

#[test]
fn storages_without_credits_settle_at_once() {
    let repeated = settled(&setup("gp3:100", None), &even(vec![reads(3_600.0, 2_000.0)]));
    assert_eq!((repeated.settled, repeated.first.is_none()), (Some(true), true));
}

#[test]
fn what_happens_once_is_refused() {
    let setup = Setup { failed_members: vec![0], ..setup("raid1:2xgp3:100", None) };
    assert!(cycle::open_settled(&setup, &even(vec![reads(60.0, 100.0)]), 60.0).is_err());
}

fn hours() -> impl Strategy<Value = Vec<Point>> {
    prop::collection::vec((60u32..240, 0.0f64..900.0), 2..10)
        .prop_map(|points| points.into_iter().map(|(seconds, rate)| reads(seconds.into(), rate.floor())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn repeating_is_like_writing_it_out(storage in prop_oneof![Just("gp2:30"), Just("gp2:100"), Just("2xgp2:60"), Just("gp2:200")], points in hours()) {
        let setup = with_few_credits(setup(storage, None));
        let repeated = settled(&setup, &even(points.clone()));
        // 35 cycles of at most 2,160 s: less than a day. Credits of 400,000 that lose less than a
        // 35th each time are not dry by then.
        const CYCLES: usize = 35;
        let seconds: f64 = points.iter().map(|point| point.duration_s).sum();
        let written = interval::open(&setup, &even(std::iter::repeat_n(points.clone(), CYCLES).flatten().collect()), 240.0).unwrap();
        match repeated.dry_after_s {
            // A second: where rounding decides whether the last credit was used.
            Some(at_s) if at_s < (CYCLES as f64 - 1.0) * seconds => {
                let naive = written.summary.credits_empty_at_s;
                prop_assert!(naive.is_some_and(|naive| (naive - at_s).abs() < 1.0), "{at_s} for {naive:?}");
            }
            Some(_) => {}
            None => prop_assert_eq!(written.summary.credits_empty_at_s, None),
        }
        let last: Vec<&RunRow> = written.rows.iter().filter(|row| row.t_s >= (CYCLES as f64 - 1.0) * seconds - 1e-6).collect();
        let end = last.last().unwrap();
        if repeated.settled == Some(true) {
            // A millionth of the depth is what settled means: 0.4 I/Os of each member, at 30 to 600
            // a second.
            let throttled: f64 = last.iter().map(|row| row.throttled_s).sum();
            prop_assert!((throttled - repeated.summary.throttled_s).abs() < 0.1, "{throttled} for {}", repeated.summary.throttled_s);
            prop_assert!((end.queue - repeated.summary.queue_at_end).abs() < 2.0, "{} for {}", end.queue, repeated.summary.queue_at_end);
        } else {
            // A lasting loss shows as a growing queue, or as credits that are not back.
            let demand: f64 = points.iter().map(|point| point.reads_per_s * point.duration_s).sum();
            let members = setup.limits.len() as f64;
            let refill: f64 = members * setup.limits[0].iops as f64 * seconds;
            prop_assert!(demand > refill, "{demand} of {refill}");
        }
    }

    #[test]
    fn the_worst_mean_is_that_of_the_rows(points in prop::collection::vec((1u32..8, 100.0f64..5_000.0), 2..12)) {
        // Minutes, so that rows are slots.
        let points: Vec<Point> = points.into_iter().map(|(minutes, rate)| reads(f64::from(minutes) * 60.0, rate.floor())).collect();
        let run = interval::open(&setup("gp3:100", None), &even(points.clone()), 60.0).unwrap();
        let mean = |rows: &[RunRow]| {
            let answered: f64 = rows.iter().map(|row| row.iops).sum();
            rows.iter().map(|row| row.mean_ms.unwrap_or(0.0) * row.iops).sum::<f64>() / answered
        };
        let worst = run.rows.windows(run.rows.len().min(5)).map(mean).fold(0.0, f64::max);
        let summary = &run.summary;
        prop_assert!((summary.worst_mean_ms.unwrap() / worst - 1.0).abs() < 1e-9, "{:?} for {worst}", summary.worst_mean_ms);
        let [p50, p95, p99, p999] = [summary.worst_p50_ms, summary.worst_p95_ms, summary.worst_p99_ms, summary.worst_p999_ms].map(Option::unwrap);
        prop_assert!(p50 <= p95 && p95 <= p99 && p99 <= p999);
        // A window is part of the run: the run's percentile cannot exceed every window's, but for
        // the width of a cell of waits, an eighth.
        prop_assert!(p99 * 1.13 >= summary.p99_ms.unwrap() && p50 * 1.13 >= summary.p50_ms.unwrap(), "{summary:?}");
        // Written down by the hour or by the minute, the worst five minutes are the same; rows of
        // ten minutes are cut where something waits.
        let coarse = interval::open(&setup("gp3:100", None), &even(points), 600.0).unwrap().summary;
        prop_assert!((coarse.worst_p99_ms.unwrap() / p99 - 1.0).abs() < 1e-3, "{:?} for {p99}", coarse.worst_p99_ms);
    }
}

#[test]
fn a_spike_of_three_minutes_shows_in_the_worst_five_of_both_forms_and_not_in_the_day() {
    // 3 minutes of 4,700 on 3,000: the last request of them waits some (4,700 x 180 - 3,000 x 181)
    // / 3,000 = 101 s.
    let load = OpenLoad::new(vec![reads(1_200.0, 1_500.0), reads(180.0, 4_700.0), reads(18_000.0, 1_500.0)]);
    let setup = setup("gp3:100", None);
    let by_interval = interval::open(&setup, &load, 60.0).unwrap().summary;
    let by_event = events::open(&setup, &load, 60.0, &mut events::quiet).unwrap().summary;
    let (a, b) = (by_interval.worst_p99_ms.unwrap(), by_event.worst_p99_ms.unwrap());
    // Cells of waits are an eighth wide; the per-I/O form's queue scatters by sqrt(846,000) / 3,000
    // = 0.3 s.
    assert!((95e3..115e3).contains(&b) && (a / b - 1.0).abs() < 0.13, "{a} and {b}");
    // Windows that hold the whole end of the spike are as bad as each other: they begin within five
    // minutes.
    let (a, b) = (by_interval.worst_at_s.unwrap(), by_event.worst_at_s.unwrap());
    assert!((a - b).abs() < 300.0 && (1_080.0..=1_440.0).contains(&a), "{a} and {b}");
}

#[test]
fn candidates_are_judged_by_the_cycle_that_is_asked_for() {
    let load = even(vec![reads(18.0 * 3_600.0, 260.0), reads(6.0 * 3_600.0, 500.0)]);
    let candidates = ["gp2:100", "gp3:100"].map(|storage| DemandCandidate { storage: storage.parse().unwrap(), instance: None });
    let memory = SearchMemory::default();
    let ask = |cycle, start_balance_percent, prune_above| {
        let search = DemandSearch { load: &load, as_of: day(), instances: &[], start_balance_percent, cycle, prune_above };
        evaluate(&search, &memory, &candidates, &mut |_| true).unwrap()
    };
    let throttled = |outcome: &DemandOutcome| if let DemandOutcome::Simulated(repeated) = outcome { repeated.summary.throttled_s } else { f64::NAN };
    assert_eq!(throttled(&ask(Cycle::First, None, 1.0)[0]), 0.0);
    // The credits of a start help a first day, and not a settled one: 320 a second on average over
    // 300.
    assert!(matches!(ask(Cycle::Settled, None, 1.0)[0], DemandOutcome::Bounded(by) if (by - 320.0 / 300.0).abs() < 1e-9));
    assert!(throttled(&ask(Cycle::Settled, None, f64::INFINITY)[0]) > 0.0);
    // A start balance asks for the first day.
    assert_eq!(throttled(&ask(Cycle::Settled, Some(100.0), 1.0)[0]), 0.0);
    assert!(matches!(&ask(Cycle::Settled, None, 1.0)[1], DemandOutcome::Simulated(repeated) if repeated.settled == Some(true)));
}

#[test]
fn what_a_search_remembers_is_what_each_candidate_comes_to_alone() {
    // Near the caps of some, above those of others; sizes that change nothing, and some that do.
    let load = OpenLoad { arrivals: Arrivals::Poisson, ..even(vec![reads(3_600.0, 3_400.0), reads(3_600.0, 900.0), reads(3_600.0, 2_950.0)]) };
    let texts = [
        "gp3:200",
        "gp3:300",
        "gp3:300:3500",
        "gp3:900:3500:250",
        "gp2:300",
        "gp2:301",
        "gp2:1000",
        "io1:500:3500",
        "io2:500:3500",
        "st1:1000",
        "raid0:2xgp3:100",
        "raid1:2xgp3:100",
        "raid0:2xgp2:300",
    ];
    let candidates: Vec<DemandCandidate> = texts.iter().map(|text| DemandCandidate { storage: text.parse().unwrap(), instance: None }).collect();
    let memory = SearchMemory::default();
    for day in ["2021-06-01", "2026-06-01"] {
        for (cycle, start_balance_percent) in [(Cycle::First, None), (Cycle::Settled, None), (Cycle::Settled, Some(30.0))] {
            let search = DemandSearch { load: &load, as_of: day.parse().unwrap(), instances: &[], start_balance_percent, cycle, prune_above: f64::INFINITY };
            for _ in 0..2 {
                let together = evaluate(&search, &memory, &candidates, &mut |_| true).unwrap();
                for (candidate, outcome) in candidates.iter().zip(&together) {
                    let alone = evaluate(&search, &SearchMemory::default(), std::slice::from_ref(candidate), &mut |_| true).unwrap();
                    assert_eq!(format!("{:?}", alone[0]), format!("{outcome:?}"), "{} {cycle:?} {day}", candidate.storage);
                }
            }
        }
    }
}
