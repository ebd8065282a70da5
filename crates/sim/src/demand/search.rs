//! Many storages against one demand: the planner's inner loop.
//!
//! Candidates are independent, so they are spread over the cores; the answer does not depend on
//! how. Work that candidates share is done once: resolving limits (per storage), measuring the
//! demand (per accounting and chunk), tabulating own latency (per type, layout and mix).

pub mod fleet;

use crate::demand::cycle::{repeat, Cycle, Repeated};
use crate::demand::interval;
use crate::demand::load::OpenLoad;
use crate::demand::measure::MeasuredLoad;
use crate::demand::mixture::OwnLatency;
use crate::error::SimError;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits, StorageSpec};
use rayon::prelude::*;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

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

pub(super) struct SharedLoad {
    pub measured: Arc<MeasuredLoad>,
    pub own: Arc<OwnLatency>,
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
    let measured = Arc::new(interval::measure(setup, load));
    SharedLoad { own: OwnLatency::cached(&measured.latency_key(setup)), measured }
}

pub(super) fn setup_of(search: &DemandSearch<'_>, candidate: &DemandCandidate) -> Result<Setup, SimError> {
    let instance = candidate.instance.map(|index| &search.instances[index]);
    let limits = Catalog::embedded().storage_limits(&candidate.storage, search.as_of, instance)?;
    let start_balance_percent = search.start_balance_percent;
    Ok(Setup { start_balance_percent, ..Setup::plain(candidate.storage.clone(), limits, instance.cloned()) })
}

pub(super) fn judge(search: &DemandSearch<'_>, candidate: &DemandCandidate, shared: Option<&SharedLoad>) -> DemandOutcome {
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
