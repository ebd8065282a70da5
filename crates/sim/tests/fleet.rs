//! The questions of a fleet, decided from bounds: against simulating each of them in full.

use crate::common::day;
use headrace_sim::cycle::Cycle;
use headrace_sim::demand::search::fleet::{DayDraws, Fleet, FleetGoal, FleetQuestion, FleetTerms};
use headrace_sim::demand::search::{DemandCandidate, DemandOutcome};
use headrace_sim::{OpenLoad, Point, Summary};
use proptest::prelude::*;

/// Points of a day in the recordings of this test.
const PER_DAY: usize = 24;
/// Rounding errors that count as no wait, s: as the planner's goals.
const THROTTLED_S: f64 = 1e-6;
const STORAGES: [&str; 11] =
    ["gp2:40", "gp2:334", "gp2:1000", "gp3:100", "gp3:100:4000:250", "io1:100:1500", "io2:100:3100", "st1:500", "2xgp3:100", "2xgp2:60", "raid10:4xgp3:50"];

fn terms(instances: &[headrace_catalog::InstanceLimits]) -> FleetTerms<'_> {
    FleetTerms { as_of: day(), instances, cycle: Cycle::Settled, prune_above: f64::INFINITY }
}

fn question(storage: &str, on_instance: bool, factor: f64) -> FleetQuestion {
    FleetQuestion { volume: 0, candidate: DemandCandidate { storage: storage.parse().unwrap(), instance: on_instance.then_some(0) }, factor }
}

/// Judges by the full simulation; `p99_ms` is the figure that the goal is compared with.
fn naive(fleet: &Fleet, terms: &FleetTerms<'_>, question: &FleetQuestion, goal: FleetGoal, p99_ms: fn(&Summary) -> Option<f64>) -> bool {
    match &fleet.evaluate(terms, std::slice::from_ref(question))[0] {
        DemandOutcome::Simulated(repeated) => {
            repeated.summary.throttled_s <= goal.throttled_s && p99_ms(&repeated.summary).is_none_or(|p99| p99 <= goal.p99_ms)
        }
        DemandOutcome::Bounded(_) | DemandOutcome::Invalid(_) => false,
    }
}

/// Rates around a level that lies anywhere from far below to above what storages give, with some
/// points that stand out.
fn rates() -> impl Strategy<Value = Vec<f64>> {
    let level = prop_oneof![Just(0.0), 20.0f64..400.0, 400.0f64..2_600.0, 2_600.0f64..3_200.0, 3_200.0f64..9_000.0];
    let shape = prop::collection::vec(prop_oneof![6 => 0.2f64..1.0, 1 => 0.9f64..1.1, 1 => 1.0f64..3.0], PER_DAY * 3);
    (level, shape).prop_map(|(level, shape)| shape.into_iter().map(|share| level * share).collect())
}

fn recorded(rates: &[f64], read_kib: f64, seconds: f64) -> OpenLoad {
    let point = |rate: &f64| Point {
        duration_s: seconds,
        reads_per_s: 0.6 * rate,
        writes_per_s: 0.4 * rate,
        read_bytes: read_kib * 1_024.0,
        write_bytes: 16.0 * 1_024.0,
    };
    OpenLoad::new(rates.iter().map(point).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_question_is_decided_as_the_full_simulation_says(
        rates in rates(), storage in 0..STORAGES.len(), kib in prop::sample::select(vec![4.0, 16.0, 64.0, 512.0]),
        seconds in prop::sample::select(vec![60.0, 300.0, 3_600.0]), factor in prop::sample::select(vec![1.0, 1.3]),
        p99_ms in prop::sample::select(vec![0.9, 1.5, 5.0, 1e4]), on_instance: bool,
    ) {
        let instances = [headrace_catalog::Catalog::embedded().instance("m5.large", day()).unwrap()];
        let fleet = Fleet::new(vec![recorded(&rates, kib, seconds)]).unwrap();
        let (terms, question) = (terms(&instances), question(STORAGES[storage], on_instance, factor));
        let goal = FleetGoal { throttled_s: THROTTLED_S, p99_ms };
        prop_assert_eq!(fleet.meets(&terms, &[(question.clone(), goal)]), [naive(&fleet, &terms, &question, goal, Summary::judged_p99_ms)]);
        // Only so much is asked that it can be sustained: the bound is the search's own.
        let pruned = FleetTerms { prune_above: 1.0, ..terms };
        prop_assert_eq!(fleet.meets(&pruned, &[(question.clone(), goal)]), [naive(&fleet, &pruned, &question, goal, Summary::judged_p99_ms)]);
    }

    #[test]
    fn drawn_days_are_as_if_they_were_written_out(
        rates in rates(), storage in 0..STORAGES.len(), p99_ms in prop::sample::select(vec![0.9, 1.5, 5.0]),
        days in prop::collection::vec((0usize..3, 0.7f64..1.3), 2 * 4),
    ) {
        let load = recorded(&rates, 16.0, 300.0);
        let fleet = Fleet::new(vec![load.clone()]).unwrap();
        let (terms, question, goal) = (terms(&[]), question(STORAGES[storage], false, 1.0), FleetGoal { throttled_s: THROTTLED_S, p99_ms });
        let missing = days.chunks(4).filter(|days| {
            let of_day = |&(day, level): &(usize, f64)| {
                let points = load.points[day * PER_DAY..(day + 1) * PER_DAY].to_vec();
                points.into_iter().map(move |point| Point { reads_per_s: point.reads_per_s * level, writes_per_s: point.writes_per_s * level, ..point })
            };
            let written = OpenLoad { points: days.iter().flat_map(of_day).collect(), ..load.clone() };
            !naive(&Fleet::new(vec![written]).unwrap(), &terms, &question, goal, |summary| summary.worst_p99_ms)
        });
        let missing = missing.count();
        let draws = DayDraws { per_day: PER_DAY, days_each: 4, days: days.clone() };
        prop_assert_eq!(fleet.missing_draws(&terms, &[(question, goal, draws)]).unwrap(), [missing]);
    }
}

#[test]
fn a_day_that_was_not_recorded_is_refused() {
    let fleet = Fleet::new(vec![recorded(&[100.0; PER_DAY], 16.0, 300.0)]).unwrap();
    let draws = DayDraws { per_day: PER_DAY, days_each: 1, days: vec![(1, 1.0)] };
    let goal = FleetGoal { throttled_s: THROTTLED_S, p99_ms: 5.0 };
    assert!(fleet.missing_draws(&terms(&[]), &[(question("gp3:100", false, 1.0), goal, draws)]).is_err());
}
