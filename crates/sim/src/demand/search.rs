//! Many storages against one demand: the planner's inner loop.
//!
//! Candidates are independent, so they are spread over the cores; the answer does not depend on
//! how. Work that candidates share is done once: resolving limits (per storage), measuring the
//! demand (per accounting and chunk), tabulating own latency (per type, layout and mix), and the
//! simulation itself, where two candidates have the same buckets: a gp3 of 200 GiB is as fast as
//! one of 300.

pub mod fleet;

use crate::demand::cycle::{repeat, Cycle, Repeated};
use crate::demand::fluid::{BucketsKey, Fluid, NeededLoad};
use crate::demand::interval;
use crate::demand::load::OpenLoad;
use crate::demand::mixture::OwnLatency;
use crate::error::SimError;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits, StorageSpec};
use rayon::prelude::*;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A storage on an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandCandidate {
    /// The device.
    pub storage: StorageSpec,
    /// Index into the instances of the search; none: volumes alone.
    pub instance: Option<usize>,
}

/// Terms that the candidates share.
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

/// Result of one candidate.
#[derive(Clone, Debug)]
pub enum DemandOutcome {
    /// Simulated.
    Simulated(Arc<Repeated>),
    /// Cannot deliver the demand over its length: asked over sustainable (above 1).
    Bounded(f64),
    /// The candidate is not possible on that day.
    Invalid(String),
}

/// A load as storages of one kind count it, and their own latency.
pub(super) struct SharedLoad {
    pub needed: Arc<NeededLoad>,
    pub own: Arc<OwnLatency>,
}

/// Day of limits, type, layout, members and chunk (KiB).
type SharedKey = (NaiveDate, headrace_catalog::VolumeType, Option<headrace_catalog::RaidLevel>, usize, u64);
/// All that an outcome follows from, but for the load.
type OutcomeKey = (SharedKey, Cycle, BucketsKey);

/// Outcomes that are kept of one load: more than a plan looks at; some 1 KiB each.
const MAX_OUTCOMES: usize = 16_384;

/// Memory of one load: the demand as storages count it, and the results of the buckets that were
/// simulated. It belongs to that load and no other.
#[derive(Default)]
pub struct SearchMemory {
    shared: Mutex<HashMap<SharedKey, Arc<SharedLoad>>>,
    outcomes: Mutex<HashMap<OutcomeKey, DemandOutcome>>,
}

/// A candidate, decided by bounds or to be simulated.
enum Screened {
    Decided(DemandOutcome),
    /// The candidate is to be simulated.
    Simulate(Box<(Setup, Arc<SharedLoad>)>, OutcomeKey),
}

/// Evaluates all candidates, in their order. `progress` is told how many are done; returning false
/// stops. `memory` is that of the load of the search.
pub fn evaluate(
    search: &DemandSearch<'_>,
    memory: &SearchMemory,
    candidates: &[DemandCandidate],
    progress: &mut (dyn FnMut(usize) -> bool + Send),
) -> Result<Vec<DemandOutcome>, SimError> {
    search.load.check()?;
    let mut outcomes = Vec::with_capacity(candidates.len());
    for batch in candidates.chunks(2_048) {
        memory.measure(search, batch);
        let screened: Vec<Screened> = batch.par_iter().map(|candidate| memory.screen(search, candidate)).collect();
        outcomes.extend(memory.decide(screened));
        if !progress(outcomes.len()) {
            return Err(SimError::Interrupted);
        }
    }
    Ok(outcomes)
}

/// Entries are inserted whole, so that a panic elsewhere leaves none half made.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SearchMemory {
    /// Measures the load for each kind of storage that is new.
    fn measure(&self, search: &DemandSearch<'_>, batch: &[DemandCandidate]) {
        let mut shared = lock(&self.shared);
        for candidate in batch {
            if let Entry::Vacant(place) = shared.entry(key_of(search, &candidate.storage)) {
                if let Ok(setup) = setup_of(search, candidate) {
                    place.insert(Arc::new(measure_shared(&setup, search.load)));
                }
            }
        }
    }

    /// Decides a candidate that is not possible or asked for too much without simulating it;
    /// returns the set-up of any other.
    fn screen(&self, search: &DemandSearch<'_>, candidate: &DemandCandidate) -> Screened {
        let key = key_of(search, &candidate.storage);
        let shared = lock(&self.shared).get(&key).map(Arc::clone);
        let (setup, shared) = match (setup_of(search, candidate), shared) {
            (Ok(setup), Some(shared)) => (setup, shared),
            (Err(error), _) => return Screened::Decided(DemandOutcome::Invalid(error.to_string())),
            (Ok(_), None) => return Screened::Decided(DemandOutcome::Invalid("its type cannot be resolved".into())),
        };
        let (mut fluid, cycle) = (Fluid::new(&setup), cycle_of(search));
        let bound = fluid.overload_of(&shared.needed, &shared.needed.needs(&fluid), cycle == Cycle::Settled);
        if bound > search.prune_above {
            return Screened::Decided(DemandOutcome::Bounded(bound));
        }
        // Nothing happens to a candidate's volumes (`Setup::plain`): these buckets decide.
        fluid.leave_out_idle_caps(&shared.needed.measured);
        Screened::Simulate(Box::new((setup, shared)), (key, cycle, fluid.key()))
    }

    /// Simulates the questions without a cached outcome, each set of buckets once.
    fn decide(&self, screened: Vec<Screened>) -> Vec<DemandOutcome> {
        let mut outcomes = lock(&self.outcomes);
        // Outcomes of this batch are read from it too.
        if outcomes.len() + screened.len() > MAX_OUTCOMES {
            outcomes.clear();
        }
        let mut new: HashMap<&OutcomeKey, &(Setup, Arc<SharedLoad>)> = HashMap::new();
        for screened in &screened {
            if let Screened::Simulate(what, key) = screened {
                if !outcomes.contains_key(key) {
                    new.insert(key, what);
                }
            }
        }
        let simulate_new = |(key, what): (&OutcomeKey, &(Setup, Arc<SharedLoad>))| (key.clone(), simulate_cycle(&what.0, &what.1, key.1));
        let new: Vec<_> = new.into_iter().collect();
        outcomes.par_extend(new.into_par_iter().map(simulate_new));
        let outcome = |screened| match screened {
            Screened::Decided(outcome) => outcome,
            Screened::Simulate(_, key) => outcomes[&key].clone(),
        };
        screened.into_iter().map(outcome).collect()
    }
}

/// Returns the key of storages that count a load alike and have the same own latency.
fn key_of(search: &DemandSearch<'_>, storage: &StorageSpec) -> SharedKey {
    (search.as_of, storage.members[0].volume_type, storage.raid, storage.members.len(), storage.chunk_kib)
}

/// Measures a load for storages like that of `setup`, and tabulates their own latency.
fn measure_shared(setup: &Setup, load: &OpenLoad) -> SharedLoad {
    let measured = Arc::new(interval::measure(setup, load));
    let own = OwnLatency::cached(&measured.latency_key(setup));
    SharedLoad { own, needed: Arc::new(NeededLoad::new(measured)) }
}

/// Resolves a candidate's limits on the day of the search, at its start balance.
pub(super) fn setup_of(search: &DemandSearch<'_>, candidate: &DemandCandidate) -> Result<Setup, SimError> {
    let instance = candidate.instance.map(|index| &search.instances[index]);
    let limits = Catalog::embedded().storage_limits(&candidate.storage, search.as_of, instance)?;
    let start_balance_percent = search.start_balance_percent;
    Ok(Setup { start_balance_percent, ..Setup::plain(candidate.storage.clone(), limits, instance.cloned()) })
}

/// Returns the cycle that is judged: credits at the start are those of the first.
pub(super) fn cycle_of(search: &DemandSearch<'_>) -> Cycle {
    match search.start_balance_percent {
        None => search.cycle,
        Some(_) => Cycle::First,
    }
}

/// Simulates the first cycle of a load or its settled one; a refusal becomes an invalid outcome.
pub(super) fn simulate_cycle(setup: &Setup, shared: &SharedLoad, cycle: Cycle) -> DemandOutcome {
    let measured = &shared.needed.measured;
    if cycle == Cycle::First {
        return DemandOutcome::Simulated(Arc::new(Repeated::first_only(interval::summarise(setup, measured, &shared.own))));
    }
    match repeat(setup, measured, &shared.own, None) {
        Ok(repeated) => DemandOutcome::Simulated(Arc::new(repeated)),
        Err(error) => DemandOutcome::Invalid(error.to_string()),
    }
}
