//! Many volumes, each with its own demand and many storages: the inner loop of a fleet.
//!
//! Most questions are decided without a simulation. The shared part of a volume's candidates is
//! computed once: the demand in what buckets count, its peaks and its sums, the own latency. These
//! give at once the candidates on which a point must wait ([`crate::demand::fluid`]'s bounds),
//! those on which none can, and those whose own latency alone misses a bound. Only the candidates
//! between are simulated: over the points near a limit and those after them until all buckets are
//! full again, and only until something has waited.

use super::{cycle_of, setup_of, simulate_cycle, DemandCandidate, DemandOutcome, DemandSearch, SharedLoad};
use crate::demand::cycle::{settle, Cycle};
use crate::demand::fluid::{Fluid, NeededLoad};
use crate::demand::interval::{self, Driver};
use crate::demand::load::{OpenLoad, Point};
use crate::demand::measure::MeasuredLoad;
use crate::demand::mixture::{OwnLatency, OwnLatencyKey};
use crate::demand::windows::P99;
use crate::error::SimError;
use crate::report::Summary;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::InstanceLimits;
use rayon::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Chunk of an array (KiB), a type that charges whole units, and the factor of the demand.
type AccountedKey = (Option<u64>, Option<headrace_catalog::VolumeType>, u64);

/// The demands of many volumes, for as long as they are looked at.
pub struct Fleet {
    loads: Vec<OpenLoad>,
    shared: Vec<Mutex<VolumeCache>>,
}

/// Intermediate results for one volume's demand.
#[derive(Default)]
struct VolumeCache {
    needed: Vec<(AccountedKey, Arc<NeededLoad>)>,
    /// With the p99 of requests that do not wait, ms.
    own: Vec<(OwnLatencyKey, Arc<OwnLatency>, f64)>,
}

/// A storage for one volume of a fleet, under `factor` times its demand.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetQuestion {
    /// Index of the demand.
    pub volume: usize,
    /// The storage; its instance points into those of the search.
    pub candidate: DemandCandidate,
    /// Demand over the recorded one.
    pub factor: f64,
}

/// Terms that the questions about a fleet share; see `DemandSearch`.
#[derive(Clone, Debug)]
pub struct FleetTerms<'a> {
    /// Day of limits.
    pub as_of: NaiveDate,
    /// Instances that candidates point into.
    pub instances: &'a [InstanceLimits],
    /// The first cycle, or the settled one.
    pub cycle: Cycle,
    /// Overload from which a candidate is refused without simulation; see `DemandSearch`.
    pub prune_above: f64,
}

/// The goal of a fleet: no request waits for a limit for longer than this in all, and the p99 of
/// the worst five minutes is at most this. Near a cap a storage is judged by the unluckiest run
/// ([`Summary::judged_p99_ms`](crate::Summary::judged_p99_ms)), as a plan's recommendation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetGoal {
    /// The most throttled time, s.
    pub throttled_s: f64,
    /// The highest p99 latency, ms.
    pub p99_ms: f64,
}

/// Recordings put together from whole days of a volume's own, each with its level moved.
#[derive(Clone, Debug, PartialEq)]
pub struct DayDraws {
    /// Points of a day.
    pub per_day: usize,
    /// Days of each recording.
    pub days_each: usize,
    /// Days of all recordings, joined: index of the day, and the factor of its rates.
    pub days: Vec<(usize, f64)>,
}

/// A peak this far above what a storage gives is above it whatever rounding did: of five minutes
/// 0.3 ms wait.
const SURELY_ABOVE: f64 = 1.0 + 1e-6;
/// Latencies apart by this share are apart in any mix: percentiles are known to a
/// hundred-thousandth.
const SURELY_BELOW: f64 = 1.0 - 1e-4;

impl Fleet {
    /// Makes a fleet of the demands of its volumes; refuses a demand outside the bounds of a run.
    pub fn new(loads: Vec<OpenLoad>) -> Result<Fleet, SimError> {
        loads.par_iter().try_for_each(OpenLoad::check)?;
        let shared = loads.iter().map(|_| Mutex::default()).collect();
        Ok(Fleet { loads, shared })
    }

    /// Returns the number of demands.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Returns whether there are no demands.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Answers in the order of the questions, spread over the cores. An answer depends on its own
    /// question and demand alone.
    pub fn evaluate(&self, terms: &FleetTerms<'_>, questions: &[FleetQuestion]) -> Vec<DemandOutcome> {
        let answer = |question: &FleetQuestion| {
            let search = self.make_search(terms, question, None);
            match setup_of(&search, &question.candidate) {
                Ok(setup) => {
                    let needed = self.measure_demand(&setup, question);
                    let (own, _) = self.tabulate_own(question.volume, needed.measured.latency_key(&setup));
                    let (fluid, cycle) = (Fluid::new(&setup), cycle_of(&search));
                    match fluid.overload_of(&needed, &needed.needs(&fluid), cycle == Cycle::Settled) {
                        bound if bound > search.prune_above => DemandOutcome::Bounded(bound),
                        _ => simulate_cycle(&setup, &SharedLoad { needed, own }, cycle),
                    }
                }
                Err(error) => DemandOutcome::Invalid(error.to_string()),
            }
        };
        questions.par_iter().map(answer).collect()
    }

    /// Returns whether storages meet a goal each, settled: the answers of `evaluate`, but sooner. A
    /// storage that is not possible, or is asked for more than it can sustain by `prune_above`,
    /// does not.
    pub fn meets(&self, terms: &FleetTerms<'_>, questions: &[(FleetQuestion, FleetGoal)]) -> Vec<bool> {
        let answer = |(question, goal): &(FleetQuestion, FleetGoal)| {
            let Ok(setup) = setup_of(&self.make_search(terms, question, None), &question.candidate) else { return false };
            let needed = self.measure_demand(&setup, question);
            let own = |key| self.tabulate_own(question.volume, key);
            let judge = Judge { setup: &setup, load: &needed, goal: *goal, prune_above: terms.prune_above, p99_ms: Summary::judged_p99_ms };
            judge.meets(&own)
        };
        questions.par_iter().map(answer).collect()
    }

    /// Returns for each question the number of drawn recordings that miss its goal. Refuses days
    /// that were not recorded.
    pub fn missing_draws(&self, terms: &FleetTerms<'_>, questions: &[(FleetQuestion, FleetGoal, DayDraws)]) -> Result<Vec<usize>, SimError> {
        for (question, _, draws) in questions {
            let recorded = self.loads[question.volume].points.len() / draws.per_day.max(1);
            if let Some((day, _)) = draws.days.iter().find(|(day, _)| *day >= recorded) {
                return Err(SimError::refused("drawn day", day, format!("must be below {recorded}"), "Days count from 0.".to_string()));
            }
        }
        let answer = |(question, goal, draws): &(FleetQuestion, FleetGoal, DayDraws)| {
            let Ok(setup) = setup_of(&self.make_search(terms, question, None), &question.candidate) else { return 0 };
            let bounds = DrawBounds::new(self, question, &setup, draws);
            let meets = |days: &[(usize, f64)]| bounds.meets(*goal, days).unwrap_or_else(|| self.meets_drawn(&setup, question, *goal, draws, days));
            draws.days.chunks(draws.days_each.max(1)).filter(|days| !meets(days)).count()
        };
        Ok(questions.par_iter().map(answer).collect())
    }

    /// Returns whether a storage meets a goal under a drawn recording: `days` are indices of
    /// recorded days and factors of their rates.
    fn meets_drawn(&self, setup: &Setup, question: &FleetQuestion, goal: FleetGoal, draws: &DayDraws, days: &[(usize, f64)]) -> bool {
        let whole = &self.loads[question.volume];
        let of_day = |&(day, level): &(usize, f64)| {
            let points = &whole.points[day * draws.per_day..(day + 1) * draws.per_day];
            points.iter().map(move |point| point.times(level))
        };
        let load = OpenLoad { points: days.iter().flat_map(of_day).collect(), ..blank(whole) };
        let needed = NeededLoad::new(Arc::new(interval::measure(setup, &load)));
        let own = |key: OwnLatencyKey| with_p99(OwnLatency::new(&key));
        // The share of recordings that miss is asked for: each is judged by the mean of its runs.
        Judge { setup, load: &needed, goal, prune_above: f64::INFINITY, p99_ms: |summary| summary.worst_p99_ms }.meets(&own)
    }

    /// Follows the storages of the questions point by point, from these balances (percent; none: as
    /// AWS gives them): of each point the balance (percent, NaN without credits), the seconds
    /// throttled and the queue at its end.
    pub fn follow(&self, terms: &FleetTerms<'_>, questions: &[(FleetQuestion, Option<f64>)]) -> Vec<Result<Vec<[f64; 3]>, SimError>> {
        let answer = |(question, start): &(FleetQuestion, Option<f64>)| {
            let setup = setup_of(&self.make_search(terms, question, *start), &question.candidate)?;
            let load = &self.loads[question.volume];
            // Rows as long as the points, the shortest of which decides.
            let shortest = load.points.iter().map(|point| point.duration_s).fold(f64::INFINITY, f64::min);
            let needed = self.measure_demand(&setup, question);
            let cut = if load.points.iter().all(|point| point.duration_s == shortest) {
                None
            } else {
                Some(interval::measure(&setup, &interval::cut(load, shortest)?))
            };
            let measured = cut.as_ref().unwrap_or(&needed.measured);
            let (own, _) = self.tabulate_own(question.volume, measured.latency_key(&setup));
            let mut rows = Vec::with_capacity(measured.points.len());
            Driver::new(&setup, measured, &own, true).cycle(&mut |_, fluid, _, step, _| {
                let balance = fluid.percent_of(headrace_model::Cap::VolumeCredits);
                rows.push([balance.unwrap_or(f64::NAN), step.throttled_s(), fluid.queue()]);
            });
            Ok(rows)
        };
        questions.par_iter().map(answer).collect()
    }

    /// Makes the terms of a search of one volume's demand. Credits start at
    /// `start_balance_percent`; None: as AWS gives them.
    fn make_search<'a>(&'a self, terms: &FleetTerms<'a>, question: &FleetQuestion, start_balance_percent: Option<f64>) -> DemandSearch<'a> {
        DemandSearch {
            load: &self.loads[question.volume],
            as_of: terms.as_of,
            instances: terms.instances,
            start_balance_percent,
            cycle: terms.cycle,
            prune_above: terms.prune_above,
        }
    }

    /// Locks the intermediate results of a volume.
    fn lock_cache(&self, volume: usize) -> std::sync::MutexGuard<'_, VolumeCache> {
        // A panic elsewhere cannot leave a half-made entry: entries are inserted whole.
        self.shared[volume].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the demand of a question as storages like that of `setup` count it, measured once
    /// for all that count alike.
    fn measure_demand(&self, setup: &Setup, question: &FleetQuestion) -> Arc<NeededLoad> {
        // All that `interval::measure` takes of a storage: many types count alike.
        let full_unit = setup.limits.iter().find(|limits| limits.random_charges_full_unit).map(|limits| limits.spec.volume_type);
        let key = (setup.storage.raid.map(|_| setup.storage.chunk_kib), full_unit, question.factor.to_bits());
        let find = |cache: &VolumeCache| cache.needed.iter().find(|(entry, _)| *entry == key).map(|(_, needed)| Arc::clone(needed));
        if let Some(needed) = find(&self.lock_cache(question.volume)) {
            return needed;
        }
        let load = &self.loads[question.volume];
        let measured = if question.factor == 1.0 { interval::measure(setup, load) } else { interval::measure(setup, &load.times(question.factor)) };
        let entry = Arc::new(NeededLoad::new(Arc::new(measured)));
        let mut cache = self.lock_cache(question.volume);
        find(&cache).unwrap_or_else(|| {
            cache.needed.push((key, Arc::clone(&entry)));
            entry
        })
    }

    /// Returns own latency with the p99 of requests that do not wait, ms, tabulated once per volume
    /// and key.
    fn tabulate_own(&self, volume: usize, key: OwnLatencyKey) -> (Arc<OwnLatency>, f64) {
        let find = |cache: &VolumeCache| cache.own.iter().find(|(entry, _, _)| *entry == key).map(|(_, own, p99_ms)| (Arc::clone(own), *p99_ms));
        if let Some(entry) = find(&self.lock_cache(volume)) {
            return entry;
        }
        let (own, p99_ms) = with_p99(OwnLatency::new(&key));
        self.lock_cache(volume).own.push((key, Arc::clone(&own), p99_ms));
        (own, p99_ms)
    }
}

/// Returns a load like another, without points.
fn blank(load: &OpenLoad) -> OpenLoad {
    OpenLoad { points: Vec::new(), ..*load }
}

/// Returns a table of own latency with the p99 of requests that do not wait, ms.
fn with_p99(own: OwnLatency) -> (Arc<OwnLatency>, f64) {
    let p99_ms = interval::calm_ms(&own)[P99];
    (Arc::new(own), p99_ms)
}

/// One storage under one load.
struct Judge<'a> {
    setup: &'a Setup,
    load: &'a NeededLoad,
    goal: FleetGoal,
    prune_above: f64,
    /// The p99 that the goal is held against, ms.
    p99_ms: fn(&Summary) -> Option<f64>,
}

impl Judge<'_> {
    /// Returns whether the storage meets the goal when the load is repeated until it settles.
    /// Bounds decide most storages; the others are simulated until they have waited for too long.
    fn meets(&self, own: &dyn Fn(OwnLatencyKey) -> (Arc<OwnLatency>, f64)) -> bool {
        let measured: &MeasuredLoad = &self.load.measured;
        let fluid = Fluid::new(self.setup);
        let needs = self.load.needs(&fluid);
        let pruned = self.prune_above.is_finite() && fluid.overload_of(self.load, &needs, true) > self.prune_above;
        if pruned || fluid.peak_overload_of(self.load, &needs) > SURELY_ABOVE {
            return false;
        }
        let (own, p99_ms) = own(measured.latency_key(self.setup));
        if p99_ms > self.goal.p99_ms {
            return false;
        }
        if fluid.never_waits(self.load, &needs) {
            return true;
        }
        let mut driver = Driver::new(self.setup, measured, &own, true);
        let needs = self.load.needs(&driver.fluid);
        driver.busy_points = Some(driver.fluid.busy_points(&needs));
        driver.stop_above_s = self.goal.throttled_s;
        let summary = settle(driver, measured, &mut |driver| driver.cycle(&mut |_, _, _, _, _| {})).summary;
        summary.throttled_s <= self.goal.throttled_s && (self.p99_ms)(&summary).is_none_or(|p99_ms| p99_ms <= self.goal.p99_ms)
    }
}

/// Bounds that hold for all drawn recordings of a volume on a storage, without putting them
/// together.
struct DrawBounds {
    fluid: Fluid,
    /// Most that each recorded day asks of each bucket.
    most: Vec<Vec<f64>>,
    /// Length of all points, where they are alike, s.
    even_s: Option<f64>,
    /// No mix of these days' requests has a higher p99, ms.
    p99_ms: f64,
}

impl DrawBounds {
    /// Computes the bounds of a question's storage for any recording drawn from its demand.
    fn new(fleet: &Fleet, question: &FleetQuestion, setup: &Setup, draws: &DayDraws) -> DrawBounds {
        let needed = fleet.measure_demand(setup, question);
        let fluid = Fluid::new(setup);
        let most = |each: &[f64]| each.chunks(draws.per_day).map(|day| day.iter().copied().fold(0.0, f64::max)).collect();
        let most = needed.needs(&fluid).iter().map(|needs| most(&needs.each)).collect();
        let points = &fleet.loads[question.volume].points;
        let largest = |bytes: fn(&Point) -> f64| points.iter().map(bytes).fold(0.0, f64::max);
        let key = needed.measured.latency_key(setup);
        let key = OwnLatencyKey { read_bytes: largest(|point| point.read_bytes), write_bytes: largest(|point| point.write_bytes), ..key };
        // A mix lies between its reads and its writes, and smaller requests take no longer.
        let p99_ms = [0.0, 1.0].map(|read_share| with_p99(OwnLatency::new(&OwnLatencyKey { read_share, ..key })).1);
        DrawBounds { fluid, most, even_s: needed.even_s(), p99_ms: p99_ms[0].max(p99_ms[1]) }
    }

    /// Returns whether a drawn recording meets the goal; none: it must be simulated.
    fn meets(&self, goal: FleetGoal, days: &[(usize, f64)]) -> Option<bool> {
        let most: Vec<f64> = self.most.iter().map(|of_day| days.iter().map(|&(day, level)| of_day[day] * level).fold(0.0, f64::max)).collect();
        if self.p99_ms <= goal.p99_ms * SURELY_BELOW && self.fluid.is_never_near(most.iter().map(|most| most * SURELY_ABOVE)) {
            return Some(true);
        }
        let peak = self.fluid.peak_of(self.even_s?, most.iter().copied());
        (peak > SURELY_ABOVE).then_some(false)
    }
}
