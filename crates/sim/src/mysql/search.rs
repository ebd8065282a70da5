//! Many storages and instances under one database: the planner's inner loop for transactions.
//!
//! The cache is followed once per cache size and shared by every candidate that has it. A warm
//! cache on volumes without credits does not change any more, so that a few steps stand for a day;
//! credits and compaction are followed through the hours. The worst hour counts, not the mean: a
//! volume that bursts through the morning and crawls afterwards sustains the crawl.
//!
//! ```text
//!  tps |-----------.                       first look: credits as at the start. What it gives is a bound, since credits only fall
//!      |            \_____________________ worst hour: what is sustained
//!      |____________________________________ t
//! ```

use super::database::{Compaction, Database};
use super::interval::{run_checked, Binding, Scenario, Second, Start, TransactionLoad};
use super::services::{self, log_only, AuroraStorage, ServiceScenario};
use super::warmup::WarmUp;
use crate::error::SimError;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, Deployment, InstanceLimits, Service, ServiceClass, StorageSpec, VolumeLimits};
use headrace_model::chance::normal_above;
use headrace_model::{Cap, ModelOptions};
use rayon::prelude::*;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Length of the means whose lowest is sustained, s.
pub const SUSTAINED_S: f64 = 3_600.0;
/// The first look: enough steps for commits to have found how many share a log write (each step
/// halves what is left of the difference, or better).
const FIRST_STEPS: usize = 12;
const FIRST_STEP_S: f64 = 60.0;
/// Steps of a day with credits; a step spends what credits it has evenly, so nothing is lost by its
/// length but the moment they run dry.
const DAY_STEPS: f64 = 288.0;
/// Compaction comes and goes in minutes: length of a step, periods and most length when it is
/// followed alone.
const MERGING_STEP_S: f64 = 60.0;
const MERGING_PERIODS: f64 = 2.0;
const MERGING_S: f64 = 12.0 * 3_600.0;
/// Reads vary through a period of compaction around their mean, so the mean of tps may lie above
/// the tps of mean reads: by a few percent with the profiles seen so far. This bounds it.
const PROFILE_SLACK: f64 = 1.2;
/// A cold cache changes fastest at the start.
const COLD_STEPS: f64 = 1_440.0;
/// Candidates between two reports of progress.
const BATCH: usize = 2_048;
/// Two steps that differ by less than this share are alike.
const AT_REST: f64 = 1e-4;
/// A balance below this share of full is dry, percent.
const DRY_PERCENT: f64 = 0.1;

/// Host of a server: an instance of one's own, or a class of a service.
#[derive(Clone, Debug)]
pub struct ServerHost {
    /// Service and option.
    pub deployment: Deployment,
    /// Limits, processors and memory of the instance or class.
    pub class: ServiceClass,
}

impl ServerHost {
    /// Returns whether the host is Aurora's.
    fn is_aurora(&self) -> bool {
        self.deployment.service() == Service::Aurora
    }
}

/// A database on a storage and an instance, all as indices into the lists of [`DatabaseSearch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseCandidate {
    /// Data volumes; not looked at where the host is Aurora's, which has none to choose.
    pub data: usize,
    /// Volumes of redo and binary log; none: with the data.
    pub log: Option<usize>,
    /// Instance or class; none: volumes alone.
    pub instance: Option<usize>,
    /// Cache size.
    pub cache: usize,
}

/// Terms that the candidates share.
#[derive(Clone, Debug)]
pub struct DatabaseSearch<'a> {
    /// The database.
    pub database: &'a Database,
    /// Storages that candidates point into.
    pub storages: &'a [StorageSpec],
    /// Instances and classes that candidates point into.
    pub hosts: &'a [ServerHost],
    /// Cache sizes that candidates point into, bytes.
    pub caches: &'a [f64],
    /// Day of limits.
    pub as_of: NaiveDate,
    /// Clients or arrivals.
    pub load: TransactionLoad,
    /// State of the cache at the start.
    pub start: Start,
    /// Length, s.
    pub seconds: f64,
    /// Credits at the start, percent; none: as AWS gives them.
    pub start_balance_percent: Option<f64>,
    /// Bursts are not counted on: a load that is the same day after day has spent what its baseline
    /// does not give, or never needed it.
    pub settled: bool,
    /// A candidate whose bound is below this many transactions a second is not followed further.
    pub least_tps: f64,
}

/// Result of a candidate. Rates are those of its worst hour.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Transactions a second, lowest mean over an hour (over all of a shorter run).
    pub tps: f64,
    /// Mean over the whole length.
    pub tps_mean: f64,
    /// 5th percentile of one-second tps in the worst hour.
    pub tps_p5: f64,
    /// Median of response times, highest mean over an hour, ms.
    pub p50_ms: f64,
    /// 95th percentile of response times in the worst hour, ms.
    pub p95_ms: f64,
    /// 99th percentile of response times in the worst hour, ms.
    pub p99_ms: f64,
    /// Longest wait of a transaction for its turn (open loads), s.
    pub backlog_s: f64,
    /// Bottleneck of the worst hour.
    #[serde(skip)]
    pub binding: Binding,
    /// Lowest credit balance of a volume or burst bucket of the instance, percent; none without
    /// any.
    pub balance_percent: Option<f64>,
    /// When the first of them is gone, s from the start.
    pub dry_at_s: Option<f64>,
    /// Page reads of a transaction.
    pub reads_per_tx: f64,
    /// I/Os of a transaction on all devices, in 256 KiB units.
    pub ios_per_tx: f64,
    /// MiB of a transaction on all devices.
    pub mib_per_tx: f64,
    /// Share of the cache in use.
    pub cached_share: f64,
}

/// Result of one candidate.
#[derive(Clone, Debug)]
pub enum DatabaseOutcome {
    /// Followed.
    Ran(Box<Figures>),
    /// Not followed: it cannot reach the least that is asked for. The figures are an upper bound.
    Bounded(Box<Figures>),
    /// The candidate is not possible on that day.
    Invalid(String),
}

/// Caches of one database that have been followed, by size: a search asks for the same few again
/// and again.
#[derive(Debug, Default)]
pub struct WarmUps(Mutex<HashMap<(u64, bool), Arc<WarmUp>>>);

impl WarmUps {
    /// Returns the caches of the sizes that are `used`, followed where they are not known yet.
    /// `logs`: only the log of `database` is written ([`log_only`]).
    fn follow(&self, database: &Database, caches: &[f64], used: &[bool], logs: bool) -> Vec<Option<Arc<WarmUp>>> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let followed: Vec<Option<Arc<WarmUp>>> = caches
            .par_iter()
            .zip(used)
            .map(|(bytes, &used)| {
                let follow = || Arc::new(WarmUp::new(database, *bytes));
                used.then(|| cache.get(&(bytes.to_bits(), logs)).cloned().unwrap_or_else(follow))
            })
            .collect();
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (bytes, warm_up) in caches.iter().zip(&followed) {
            if let Some(warm_up) = warm_up {
                cache.insert((bytes.to_bits(), logs), Arc::clone(warm_up));
            }
        }
        followed
    }
}

/// Evaluates all candidates, in their order; the answer does not depend on how they are spread over
/// cores. `warm_ups` belongs to this database. `progress` is told how many are done; returning
/// false stops.
pub fn evaluate(
    search: &DatabaseSearch<'_>,
    warm_ups: &WarmUps,
    candidates: &[DatabaseCandidate],
    progress: &mut (dyn FnMut(usize) -> bool + Send),
) -> Result<Vec<DatabaseOutcome>, SimError> {
    search.database.check()?;
    check(search, candidates)?;
    let plain = World::new(search.database.clone(), search, candidates, warm_ups, false);
    // A database that Aurora cannot run refuses each of its candidates with the reason.
    let logged = log_only(search.database).map(|database| World::new(database, search, candidates, warm_ups, true));
    let hosts = search.judged_hosts();
    let mut outcomes = Vec::with_capacity(candidates.len());
    for batch in candidates.chunks(BATCH) {
        let setups = Setups::new(search, batch);
        outcomes.par_extend(batch.par_iter().map(|candidate| {
            let world = if search.is_aurora(candidate) { logged.as_ref() } else { Some(&plain) };
            let Some(world) = world else {
                return DatabaseOutcome::Invalid("Aurora MySQL does not run this engine".into());
            };
            match &world.warm_ups[candidate.cache] {
                Some(warm_up) => setups
                    .resolve(search, &hosts, candidate)
                    .and_then(|resolved| judge(search, world, &resolved, warm_up).map_err(|error| error.to_string()))
                    .unwrap_or_else(DatabaseOutcome::Invalid),
                None => DatabaseOutcome::Invalid("its cache was not followed".into()),
            }
        }));
        if !progress(outcomes.len()) {
            return Err(SimError::Interrupted);
        }
    }
    Ok(outcomes)
}

/// The database as a kind of storage sees it.
struct World {
    database: Database,
    /// Without compaction.
    calm: Database,
    warm_ups: Vec<Option<Arc<WarmUp>>>,
}

impl World {
    /// Makes the world of a database, with the caches that its candidates use; `logs`: those on
    /// Aurora.
    fn new(database: Database, search: &DatabaseSearch<'_>, candidates: &[DatabaseCandidate], warm_ups: &WarmUps, logs: bool) -> World {
        let mut used = vec![false; search.caches.len()];
        candidates.iter().filter(|candidate| search.is_aurora(candidate) == logs).for_each(|candidate| used[candidate.cache] = true);
        let warm_ups = warm_ups.follow(&database, search.caches, &used, logs);
        let calm = Database { compaction: None, ..database.clone() };
        World { database, calm, warm_ups }
    }
}

impl DatabaseSearch<'_> {
    /// Returns the hosts, without their bursts where these are not counted on: once, for all
    /// candidates.
    fn judged_hosts(&self) -> Vec<ServerHost> {
        let mut hosts = self.hosts.to_vec();
        for host in hosts.iter_mut().filter(|_| self.settled) {
            host.class.limits = host.class.limits.clone().without_burst();
        }
        hosts
    }

    /// Returns whether a candidate is on Aurora.
    fn is_aurora(&self, candidate: &DatabaseCandidate) -> bool {
        candidate.instance.is_some_and(|host| self.hosts[host].is_aurora())
    }
}

/// Refuses a length or a cache out of bounds, and candidates that point outside the lists.
fn check(search: &DatabaseSearch<'_>, candidates: &[DatabaseCandidate]) -> Result<(), SimError> {
    SimError::check_range("length (s)", search.seconds, 60.0, 31.0 * 86_400.0)?;
    search.caches.iter().try_for_each(|bytes| SimError::check_range("cache (bytes)", *bytes, 1_048_576.0, 7e13))?;
    let within = |index: usize, length: usize| index < length;
    for candidate in candidates {
        let fine = candidate.instance.is_none_or(|instance| within(instance, search.hosts.len()))
            && (search.is_aurora(candidate) || within(candidate.data, search.storages.len()))
            && candidate.log.is_none_or(|log| within(log, search.storages.len()))
            && within(candidate.cache, search.caches.len());
        if !fine {
            return Err(SimError::refused("candidate", candidate.data, "points outside the lists", "Give indices into the lists of the search."));
        }
    }
    Ok(())
}

/// The storages of a batch on their hosts, resolved against the catalog once: data volumes are
/// asked for with every log volume, log volumes with all data.
struct Setups(HashMap<(usize, Option<usize>), Result<Setup, String>>);

impl Setups {
    /// Resolves each pair of a storage and a host that the candidates use, in parallel.
    fn new(search: &DatabaseSearch<'_>, candidates: &[DatabaseCandidate]) -> Setups {
        let volumes = |candidate: &DatabaseCandidate| [(!search.is_aurora(candidate)).then_some(candidate.data), candidate.log];
        let places = |candidate: &DatabaseCandidate| volumes(candidate).into_iter().flatten().map(|storage| (storage, candidate.instance)).collect::<Vec<_>>();
        let used: HashSet<(usize, Option<usize>)> = candidates.iter().flat_map(places).collect();
        let resolve = |(storage, host): (usize, Option<usize>)| {
            let limits = host.map(|host| &search.hosts[host].class.limits);
            ((storage, host), setup_of(search, &search.storages[storage], limits).map_err(|error| error.to_string()))
        };
        Setups(used.into_par_iter().map(resolve).collect())
    }

    /// Returns the candidate on its storages and host; `hosts`: those of the search, as they are
    /// judged.
    fn resolve<'a>(&'a self, search: &DatabaseSearch<'_>, hosts: &'a [ServerHost], candidate: &DatabaseCandidate) -> Result<ResolvedCandidate<'a>, String> {
        let host = candidate.instance.map(|index| &hosts[index]);
        if let (Some(_), Some(host)) = (candidate.log, host.filter(|host| host.deployment != Deployment::Ec2)) {
            let rule = "lays out its storage itself";
            return Err(SimError::refused("log volume", host.deployment.to_string(), rule, "Leave the log with the data.").to_string());
        }
        let on = |storage: usize| self.0[&(storage, candidate.instance)].as_ref().map(Cow::Borrowed).map_err(String::clone);
        let data = (!search.is_aurora(candidate)).then(|| on(candidate.data)).transpose()?;
        Ok(ResolvedCandidate { data, log: candidate.log.map(on).transpose()?, host })
    }
}

/// Resolves the limits of a storage on an instance; in a settled search they are without bursts.
fn setup_of(search: &DatabaseSearch<'_>, storage: &StorageSpec, instance: Option<&InstanceLimits>) -> Result<Setup, SimError> {
    let limits = Catalog::embedded().storage_limits(storage, search.as_of, instance)?;
    let limits = if search.settled { limits.into_iter().map(VolumeLimits::without_burst).collect() } else { limits };
    let start_balance_percent = search.start_balance_percent;
    // Data and log volumes share the instance's limits, so a candidate has these once, apart from
    // both.
    Ok(Setup { start_balance_percent, options: ModelOptions::behind(instance), ..Setup::plain(storage.clone(), limits, None) })
}

/// A candidate resolved against the catalog.
struct ResolvedCandidate<'a> {
    /// None: Aurora's storage.
    data: Option<Cow<'a, Setup>>,
    log: Option<Cow<'a, Setup>>,
    host: Option<&'a ServerHost>,
}

impl<'h> ResolvedCandidate<'h> {
    /// Makes the candidate with every balance spent.
    fn without_credits(&self) -> ResolvedCandidate<'h> {
        let empty = |setup: &Cow<'_, Setup>| Cow::Owned(Setup { start_balance_percent: Some(0.0), ..Setup::clone(setup) });
        ResolvedCandidate { data: self.data.as_ref().map(empty), log: self.log.as_ref().map(empty), host: self.host }
    }

    /// Makes a run of the candidate under the load of the search, for `seconds` in steps of
    /// `step_s`.
    fn trial<'a>(&'a self, search: &'a DatabaseSearch<'_>, database: &'a Database, warm_up: &'a WarmUp, seconds: f64, step_s: f64) -> Trial<'a> {
        Trial { resolved: self, load: &search.load, start: search.start, database, warm_up, seconds: seconds as u32, step_s }
    }

    /// Returns whether no more than one of data and log volumes has credits: a falling balance is
    /// then that one's.
    fn has_at_most_one_burst_balance(&self) -> bool {
        let bursts = |setup: &Cow<'_, Setup>| setup.limits.iter().any(|limits| limits.io_burst.is_some() || limits.byte_burst.is_some());
        !(self.data.as_ref().is_some_and(bursts) && self.log.as_ref().is_some_and(bursts))
    }
}

/// A run of a candidate: what its host runs the database on.
struct Trial<'a> {
    resolved: &'a ResolvedCandidate<'a>,
    load: &'a TransactionLoad,
    start: Start,
    database: &'a Database,
    warm_up: &'a WarmUp,
    seconds: u32,
    step_s: f64,
}

impl Trial<'_> {
    /// Runs the trial; `each` is called with every step.
    fn run(&self, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
        let Trial { resolved, database, warm_up, start, seconds, step_s, .. } = *self;
        let load = self.load.clone();
        let (data, host) = (resolved.data.as_deref(), resolved.host);
        if let Some(host) = host.filter(|host| host.deployment != Deployment::Ec2) {
            let (deployment, class, aurora) = (host.deployment, &host.class, &AuroraStorage::default());
            return services::run_checked(
                &ServiceScenario { deployment, database, warm_up, data, class, aurora, load, start, seconds, step_s, seed: None },
                each,
            );
        }
        let data = data.ok_or_else(|| SimError::refused("storage", "none", "must be named but for Aurora", "For example gp3:500."))?;
        let (log, instance) = (resolved.log.as_deref(), host.map(|host| &host.class.limits));
        run_checked(&Scenario { database, warm_up, data, log, instance, vcpus: None, load, start, seconds, step_s, seed: None, follow: None }, each)
    }
}

/// Decides a candidate by a first look of a few steps if nothing changes afterwards or its bound is
/// too low, by its state once credits are spent, or by following it step by step.
fn judge(search: &DatabaseSearch<'_>, world: &World, resolved: &ResolvedCandidate<'_>, warm_up: &WarmUp) -> Result<DatabaseOutcome, SimError> {
    let (database, calm) = (&world.database, &world.calm);
    if search.start != Start::Warm {
        let step_s = (search.seconds / COLD_STEPS).clamp(1.0, 300.0);
        return Ok(DatabaseOutcome::Ran(Box::new(follow(&resolved.trial(search, database, warm_up, search.seconds, step_s))?)));
    }
    let first = steps_of(&resolved.trial(search, calm, warm_up, FIRST_STEP_S * FIRST_STEPS as f64, FIRST_STEP_S))?;
    let best = sum_up(database, &first[FIRST_STEPS - 1..], FIRST_STEP_S);
    let (spends, grows) = (spends_credits(&first), best.backlog_s > 0.0);
    let steady = !spends && !grows;
    if steady && database.compaction.is_none() {
        return Ok(DatabaseOutcome::Ran(Box::new(best)));
    }
    // It cannot be beaten later: credits only get fewer, and compaction only takes.
    let bound = best.tps * if database.compaction.is_some() { PROFILE_SLACK } else { 1.0 };
    if bound < search.least_tps && search.start_balance_percent.is_none() {
        return Ok(DatabaseOutcome::Bounded(Box::new(best)));
    }
    if let Some(dry_s) = runs_dry_s(&first, &best, search).filter(|_| !grows && resolved.has_at_most_one_burst_balance()) {
        let drained = resolved.without_credits();
        let floor = match &database.compaction {
            None => settle(&drained.trial(search, database, warm_up, FIRST_STEP_S * FIRST_STEPS as f64, FIRST_STEP_S))?,
            Some(merging) => {
                // Periods are as long as transactions are slow.
                let slow = steps_of(&drained.trial(search, calm, warm_up, FIRST_STEP_S * FIRST_STEPS as f64, FIRST_STEP_S))?;
                let seconds = merging_s(merging, slow[FIRST_STEPS - 1].tps).min(search.seconds);
                Some(follow(&drained.trial(search, database, warm_up, seconds, MERGING_STEP_S))?)
            }
        };
        if let Some(floor) = floor {
            let share = dry_s / search.seconds;
            let tps_mean = share * best.tps + (1.0 - share) * floor.tps_mean;
            return Ok(DatabaseOutcome::Ran(Box::new(Figures { tps_mean, balance_percent: Some(0.0), dry_at_s: Some(dry_s), ..floor })));
        }
    }
    // Several buckets at once, an open load or compaction: step by step.
    let (seconds, step_s) = match &database.compaction {
        Some(merging) if steady => (search.seconds.min(merging_s(merging, best.tps)), MERGING_STEP_S),
        Some(_) => (search.seconds, (search.seconds / (2.5 * DAY_STEPS)).clamp(1.0, 3_600.0)),
        None => (search.seconds, (search.seconds / DAY_STEPS).clamp(1.0, 3_600.0)),
    };
    Ok(DatabaseOutcome::Ran(Box::new(follow(&resolved.trial(search, database, warm_up, seconds, step_s))?)))
}

/// Returns the length of some periods of compaction and an hour at `tps`, s.
fn merging_s(merging: &Compaction, tps: f64) -> f64 {
    (SUSTAINED_S + MERGING_PERIODS * merging.period_tx / tps.max(1e-3)).min(MERGING_S)
}

/// Returns whether a balance falls, or has fallen, and so may bind later.
fn spends_credits(seconds: &[Second]) -> bool {
    let falls = |balance: fn(&Second) -> Option<f64>| seconds.iter().any(|second| balance(second).is_some_and(|percent| percent < 100.0 - 1e-9));
    falls(|second| second.balance_percent) || falls(|second| second.instance_balance_percent)
}

/// Returns when the balance that falls in the first look is gone, s: where exactly one falls, and
/// at least an hour of the length is left then. From then on the volume or instance gives its
/// baseline, so that the rest is known in closed form.
fn runs_dry_s(first: &[Second], figures: &Figures, search: &DatabaseSearch<'_>) -> Option<f64> {
    let (TransactionLoad::Clients(_), None) = (&search.load, search.start_balance_percent) else { return None };
    let fall = |balance: fn(&Second) -> Option<f64>| -> f64 {
        let (from, to) = (balance(&first[0]).unwrap_or(100.0), balance(&first[FIRST_STEPS - 1]).unwrap_or(100.0));
        (from - to).max(0.0) / (FIRST_STEP_S * (FIRST_STEPS - 1) as f64)
    };
    let (volume, instance) = (fall(|second| second.balance_percent), fall(|second| second.instance_balance_percent));
    let single = figures.tps > 0.0 && (volume > 0.0) != (instance > 0.0);
    let dry_s = 100.0 / volume.max(instance);
    (single && dry_s + SUSTAINED_S <= search.seconds).then_some(dry_s)
}

/// Returns the state that a trial settles in; None when it has not, or when no spent balance binds
/// in it.
fn settle(scenario: &Trial<'_>) -> Result<Option<Figures>, SimError> {
    let rows = steps_of(scenario)?;
    let (last, before) = (&rows[rows.len() - 1], &rows[rows.len() - 2]);
    let at_rest = (last.tps - before.tps).abs() <= AT_REST * last.tps;
    Ok((at_rest && is_spent(last)).then(|| sum_up(scenario.database, &rows[rows.len() - 1..], scenario.step_s)))
}

/// Returns whether a balance binds: it is gone, but for the refill of a step that always stays
/// behind.
fn is_spent(second: &Second) -> bool {
    matches!(second.binding, Binding::Data(Cap::VolumeCredits | Cap::InstanceCredits) | Binding::Log(Cap::VolumeCredits))
}

/// Runs a trial and returns its steps.
fn steps_of(scenario: &Trial<'_>) -> Result<Vec<Second>, SimError> {
    let mut rows = Vec::with_capacity((f64::from(scenario.seconds) / scenario.step_s) as usize + 1);
    scenario.run(&mut |second| rows.push(*second))?;
    Ok(rows)
}

/// Runs a trial and returns its figures.
fn follow(scenario: &Trial<'_>) -> Result<Figures, SimError> {
    Ok(sum_up(scenario.database, &steps_of(scenario)?, scenario.step_s))
}

/// Returns the first row of the stretch of `length` rows with the lowest (or highest) sum, and the
/// mean of the stretch.
fn extreme(values: &[f64], length: usize, highest: bool) -> (usize, f64) {
    let mut sum: f64 = values[..length].iter().sum();
    let mut best = (0, sum);
    for at in length..values.len() {
        sum += values[at] - values[at - length];
        if (sum > best.1) == highest && sum != best.1 {
            best = (at + 1 - length, sum);
        }
    }
    (best.0, best.1 / length as f64)
}

/// Returns the figures of a run: rates and times of its worst hour, balances of all of it.
fn sum_up(database: &Database, rows: &[Second], step_s: f64) -> Figures {
    let length = ((SUSTAINED_S / step_s).round() as usize).clamp(1, rows.len());
    let tps: Vec<f64> = rows.iter().map(|row| row.tps).collect();
    let (at, lowest) = extreme(&tps, length, false);
    let longest = |figure: fn(&Second) -> f64| extreme(&rows.iter().map(figure).collect::<Vec<f64>>(), length, true).1;
    let worst = &rows[at..at + length];
    let mean = |figure: &dyn Fn(&Second) -> f64| worst.iter().map(figure).sum::<f64>() / length as f64;
    let lowest_of = |row: &Second| [row.balance_percent, row.instance_balance_percent].into_iter().flatten().min_by(f64::total_cmp);
    let busiest = worst.iter().min_by(|a, b| a.tps.total_cmp(&b.tps)).map_or(Binding::Demand, |row| row.binding);
    Figures {
        tps: lowest,
        tps_mean: tps.iter().sum::<f64>() / rows.len() as f64,
        tps_p5: fifth_percentile(database, worst),
        p50_ms: longest(|row| row.p50_ms),
        p95_ms: longest(|row| row.p95_ms),
        p99_ms: longest(|row| row.p99_ms),
        backlog_s: rows.iter().map(|row| row.backlog / row.tps.max(1e-6)).fold(0.0, f64::max),
        binding: busiest,
        balance_percent: rows.iter().filter_map(lowest_of).min_by(f64::total_cmp),
        dry_at_s: rows.iter().find(|row| is_spent(row) || lowest_of(row).is_some_and(|percent| percent < DRY_PERCENT)).map(|row| row.t_s),
        reads_per_tx: mean(&|row| row.reads_per_tx),
        ios_per_tx: mean(&|row| row.iops) / lowest.max(1e-9),
        mib_per_tx: mean(&|row| row.mib_s) / lowest.max(1e-9),
        cached_share: mean(&|row| row.cached_share),
    }
}

/// Returns the 5th percentile of one-second tps: each step's mean with the scatter of seconds
/// around it, and none at all while clients wait for a full redo log.
fn fifth_percentile(database: &Database, rows: &[Second]) -> f64 {
    let spread = |mean: f64| database.noise.variance(mean, 1.0).sqrt();
    let first = rows[0].tps;
    // One level: 1.6449 standard deviations below it.
    if rows.iter().all(|row| (row.tps - first).abs() <= 1e-6 * first && row.stopped_share <= 0.0) {
        return (first - 1.644_854 * spread(first)).max(0.0);
    }
    let below = |x: f64| {
        let share_below = |row: &Second| {
            let running_share = 1.0 - row.stopped_share;
            let running = row.tps / running_share.max(1e-9);
            row.stopped_share + running_share * normal_above((running - x) / spread(running).max(1e-9))
        };
        rows.iter().map(share_below).sum::<f64>() / rows.len() as f64
    };
    let (mut low, mut high) = (0.0, rows.iter().map(|row| row.tps / (1.0 - row.stopped_share).max(1e-9)).fold(0.0, f64::max));
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if below(middle) < 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
