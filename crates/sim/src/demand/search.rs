//! Many storages against one demand: the planner's inner loop.
//!
//! Candidates are independent, so they are spread over the cores; the answer does not depend on
//! how. Work that candidates share is done once: resolving limits (per storage), measuring the
//! demand (per accounting and chunk), tabulating own latency (per type, layout and mix).

use crate::demand::cycle::{repeat, Cycle, Repeated};
use crate::demand::interval;
use crate::demand::load::OpenLoad;
use crate::demand::measure::MeasuredLoad;
use crate::demand::mixture::{OwnLatency, OwnLatencyKey};
use crate::error::SimError;
use crate::report::RunRow;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits, StorageSpec};
use rayon::prelude::*;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// A storage on an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandCandidate {
    /// The device.
    pub storage: StorageSpec,
    /// Index into the instances of the search; none: volumes alone.
    pub instance: Option<usize>,
}

/// What the candidates have in common.
#[derive(Clone, Debug)]
pub struct DemandSearch<'a> {
    /// Demand.
    pub load: &'a OpenLoad,
    /// Day of limits.
    pub as_of: NaiveDate,
    /// Instances that candidates point into.
    pub instances: &'a [InstanceLimits],
    /// Credits at the start, percent; none: as AWS gives them.
    pub start_balance_percent: Option<f64>,
    /// The first cycle, or the settled one. Credits at the start are those of the first: with them,
    /// only that one is looked at.
    pub cycle: Cycle,
    /// A candidate is not simulated when the demand's own mean is above what it can sustain by this
    /// factor: it cannot hold, and the bound says by how much.
    pub prune_above: f64,
}

/// What came of one candidate.
#[derive(Clone, Debug)]
pub enum DemandOutcome {
    /// Simulated.
    Simulated(Box<Repeated>),
    /// Cannot deliver the demand over its length: asked over sustainable (above 1).
    Bounded(f64),
    /// Not possible on that day.
    Invalid(String),
}

struct SharedLoad {
    measured: Arc<MeasuredLoad>,
    own: Arc<OwnLatency>,
}

type SharedKey = (headrace_catalog::VolumeType, Option<headrace_catalog::RaidLevel>, usize, u64);

/// Evaluates all candidates, in their order. `progress` is told how many are done; returning false
/// stops.
pub fn evaluate(
    search: &DemandSearch<'_>,
    candidates: &[DemandCandidate],
    progress: &mut (dyn FnMut(usize) -> bool + Send),
) -> Result<Vec<DemandOutcome>, SimError> {
    search.load.check()?;
    let mut shared: HashMap<SharedKey, Arc<SharedLoad>> = HashMap::new();
    let mut outcomes = Vec::with_capacity(candidates.len());
    for batch in candidates.chunks(2_048) {
        for candidate in batch {
            let key = key_of(&candidate.storage);
            if let Entry::Vacant(place) = shared.entry(key) {
                if let Ok(setup) = setup_of(search, candidate) {
                    place.insert(Arc::new(share(&setup, search.load)));
                }
            }
        }
        outcomes.par_extend(batch.par_iter().map(|candidate| judge(search, candidate, shared.get(&key_of(&candidate.storage)).map(Arc::as_ref))));
        if !progress(outcomes.len()) {
            return Err(SimError::Interrupted);
        }
    }
    Ok(outcomes)
}

fn key_of(storage: &StorageSpec) -> SharedKey {
    (storage.members[0].volume_type, storage.raid, storage.members.len(), storage.chunk_kib)
}

fn share(setup: &Setup, load: &OpenLoad) -> SharedLoad {
    with_latency(setup, Arc::new(interval::measure(setup, load)))
}

fn with_latency(setup: &Setup, measured: Arc<MeasuredLoad>) -> SharedLoad {
    let key: OwnLatencyKey = measured.latency_key(setup);
    SharedLoad { own: OwnLatency::cached(&key), measured }
}

fn setup_of(search: &DemandSearch<'_>, candidate: &DemandCandidate) -> Result<Setup, SimError> {
    let instance = candidate.instance.map(|index| &search.instances[index]);
    let limits = Catalog::embedded().storage_limits(&candidate.storage, search.as_of, instance)?;
    let start_balance_percent = search.start_balance_percent;
    Ok(Setup { start_balance_percent, ..Setup::plain(candidate.storage.clone(), limits, instance.cloned()) })
}

fn judge(search: &DemandSearch<'_>, candidate: &DemandCandidate, shared: Option<&SharedLoad>) -> DemandOutcome {
    let (setup, shared) = match (setup_of(search, candidate), shared) {
        (Ok(setup), Some(shared)) => (setup, shared),
        (Err(error), _) => return DemandOutcome::Invalid(error.to_string()),
        (Ok(_), None) => return DemandOutcome::Invalid("its type cannot be resolved".into()),
    };
    let settled = search.cycle == Cycle::Settled && search.start_balance_percent.is_none();
    let bound = crate::demand::fluid::overload(&setup, &shared.measured, settled);
    if bound > search.prune_above {
        return DemandOutcome::Bounded(bound);
    }
    if !settled {
        return DemandOutcome::Simulated(Box::new(Repeated::first_only(interval::summarise(&setup, &shared.measured, &shared.own))));
    }
    match repeat(&setup, &shared.measured, &shared.own, None) {
        Ok(repeated) => DemandOutcome::Simulated(Box::new(repeated)),
        Err(error) => DemandOutcome::Invalid(error.to_string()),
    }
}

/// Chunk of an array (KiB), a type that charges whole units, and the factor of the demand.
type AccountedKey = (Option<u64>, Option<headrace_catalog::VolumeType>, u64);

/// The demands of many volumes, for as long as they are looked at: what the candidates of a volume
/// share is measured once.
pub struct Fleet {
    loads: Vec<OpenLoad>,
    shared: Vec<Mutex<HashMap<AccountedKey, Arc<MeasuredLoad>>>>,
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

/// What the questions about a fleet have in common; see `DemandSearch`.
#[derive(Clone, Debug)]
pub struct FleetTerms<'a> {
    /// Day of limits.
    pub as_of: NaiveDate,
    /// Instances that candidates point into.
    pub instances: &'a [InstanceLimits],
    /// The first cycle, or the settled one.
    pub cycle: Cycle,
    /// As in `DemandSearch`.
    pub prune_above: f64,
    /// A storage in which any point must wait is not simulated: for goals that allow no waiting.
    pub no_waiting: bool,
}

impl Fleet {
    /// Checks the demands.
    pub fn new(loads: Vec<OpenLoad>) -> Result<Fleet, SimError> {
        loads.par_iter().try_for_each(OpenLoad::check)?;
        let shared = loads.iter().map(|_| Mutex::default()).collect();
        Ok(Fleet { loads, shared })
    }

    /// How many demands there are.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Answers in the order of the questions, spread over the cores. An answer depends on its own
    /// question and demand alone.
    pub fn evaluate(&self, terms: &FleetTerms<'_>, questions: &[FleetQuestion]) -> Vec<DemandOutcome> {
        let answer = |question: &FleetQuestion| {
            let search = self.search(terms, question, None);
            match setup_of(&search, &question.candidate) {
                Ok(setup) => {
                    let shared = self.share(&setup, question);
                    let peak = if terms.no_waiting { crate::demand::fluid::peak_overload(&setup, &shared.measured) } else { 0.0 };
                    if peak > 1.0 {
                        return DemandOutcome::Bounded(peak);
                    }
                    judge(&search, &question.candidate, Some(&shared))
                }
                Err(error) => DemandOutcome::Invalid(error.to_string()),
            }
        };
        questions.par_iter().map(answer).collect()
    }

    /// The storages of the questions point by point, from these balances (percent; none: as AWS
    /// gives them): a row for each point of the demand.
    pub fn follow(&self, terms: &FleetTerms<'_>, questions: &[(FleetQuestion, Option<f64>)]) -> Vec<Result<Vec<RunRow>, SimError>> {
        let answer = |(question, start): &(FleetQuestion, Option<f64>)| {
            let setup = setup_of(&self.search(terms, question, *start), &question.candidate)?;
            let load = &self.loads[question.volume];
            // Rows as long as the points, the shortest of which decides.
            let shortest = load.points.iter().map(|point| point.duration_s).fold(f64::INFINITY, f64::min);
            Ok(interval::open(&setup, load, shortest)?.rows)
        };
        questions.par_iter().map(answer).collect()
    }

    fn search<'a>(&'a self, terms: &FleetTerms<'a>, question: &FleetQuestion, start_balance_percent: Option<f64>) -> DemandSearch<'a> {
        DemandSearch {
            load: &self.loads[question.volume],
            as_of: terms.as_of,
            instances: terms.instances,
            start_balance_percent,
            cycle: terms.cycle,
            prune_above: terms.prune_above,
        }
    }

    fn share(&self, setup: &Setup, question: &FleetQuestion) -> SharedLoad {
        // All that `interval::measure` takes of a storage: many types count alike.
        let full_unit = setup.limits.iter().find(|limits| limits.random_charges_full_unit).map(|limits| limits.spec.volume_type);
        let key = (setup.storage.raid.map(|_| setup.storage.chunk_kib), full_unit, question.factor.to_bits());
        // A panic elsewhere cannot leave a half-made entry: entries are inserted whole.
        let place = || self.shared[question.volume].lock().unwrap_or_else(PoisonError::into_inner);
        let known = place().get(&key).cloned();
        let measured = known.unwrap_or_else(|| {
            let mut load = self.loads[question.volume].clone();
            for point in &mut load.points {
                point.reads_per_s *= question.factor;
                point.writes_per_s *= question.factor;
            }
            let made = Arc::new(interval::measure(setup, &load));
            place().entry(key).or_insert(made).clone()
        });
        with_latency(setup, measured)
    }
}
