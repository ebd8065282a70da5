//! Second by second: what the tightest of caps, clients and processors lets through.
//!
//! ```text
//!   transactions done -> cache curve -> I/Os and bytes of one transaction
//!        ^                                  |
//!        |                                  v
//!   tps of the second <- weaker limit of (buckets, clients / response time)
//! ```
//!
//! The response time has the waits for processors and for each other in it (`contention`). Closed
//! loads wait in their clients; open ones leave a backlog. Clients that wait for a row that another
//! has locked ask nothing of storage and processors meanwhile (`hot_rows`).

mod backend;
mod contention;
mod response;
mod rounds;

pub use backend::Binding;
pub(crate) use backend::{Backend, Path};
pub(crate) use contention::{core_ms, shared_ms, Contention, DiskQueue, LIGHT_WAKE_MS, WAKE_MS};
pub use contention::{processor_ms, processors_rate, Machine, Processors, SECOND_THREAD};
pub(crate) use response::sigma_of_p95;
pub use response::{Burst, ResponseSpread};

use super::checkpoint::{CheckpointAge, Sharing};
use super::cleaner::{taken_up, CleanerPace, ROUND_DEPTH};
use super::costs::SWITCH_MS;
use super::database::{Clients, Compaction, CompactionClock, Database, RUN_BYTES};
use super::demand::{DeviceCounting, Flow, Places};
use super::hot_rows;
use super::warmup::{At, WarmUp};
use crate::demand::fluid::Fluid;
use crate::error::SimError;
use crate::report::MIB;
use crate::setup::Setup;
use headrace_catalog::InstanceLimits;
use headrace_model::chance::{gamma_of_normal, normal};
use headrace_model::Cap;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use rounds::Round;
use serde::Serialize;

/// Share of a second's change the pace takes over: buf_flush_page_cleaner averages over
/// innodb_flushing_avg_loops, some tens of seconds.
const PACE_FOLLOWS: f64 = 0.1;
/// Most that a long step takes over: background writes follow the pace and reduce it, so that
/// taking over all of the change would make both oscillate.
const MOST_FOLLOWS: f64 = 0.4;
/// Coefficient of variation from which the scatter is no longer drawn from a normal distribution:
/// its tail would reach below zero.
const NORMAL_UP_TO: f64 = 0.15;
/// Share of the clients that run, below which the rows that they wait for are the bottleneck
/// (chosen).
const MOSTLY_RUNNING: f64 = 0.5;
/// Open loads near what rows allow wait as at this share of it.
const MOST_BUSY_ROWS: f64 = 0.999;
/// Largest share of a device that compaction takes from the clients, since its threads wait in the
/// same queue. Guess: eight background jobs among a few dozen clients.
const COMPACTION_SHARE: f64 = 0.85;

/// [`Clients::sharpness`] was fitted to runs in which clients waited for this share of the I/O, as
/// reads and log writes (published c5 and m5 runs of 2018).
const WAITED_FOR: f64 = 0.6;
/// More than that makes no difference: a minimum of two limits that are alike is then 4 % below
/// either.
const MOST_SHARPENED: f64 = 4.0;

/// I/Os that no client waits for are counted in such parts, so that a warm cache changes from step
/// to step no more than it does: 4 thousandths of one are some tenths of a microsecond of a
/// processor.
const IO_PARTS: f64 = 256.0;

/// Threads that sleep are woken so often for each log write: to be the one that writes, and by it
/// once that is done. A guess: where nobody else commits, it is less.
const WOKEN: f64 = 2.0;

/// Source of the transactions: clients or arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionLoad {
    /// Clients that each wait for their answer, then ask again.
    Clients(u32),
    /// Transactions a second that arrive however long the answers take, one figure per step; the
    /// last one holds.
    Arrivals(Vec<f64>),
}

/// State of the cache at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Empty.
    Cold,
    /// The cache is as full and as settled as it gets.
    Warm,
    /// The cache has served this many transactions since a cold start.
    Transactions(f64),
}

/// A database on a storage.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    /// The database.
    pub database: &'a Database,
    /// Cache of the database, followed from a cold start.
    pub warm_up: &'a WarmUp,
    /// The data device. The instance in it is not used: it is given separately, because data and
    /// log share it.
    pub data: &'a Setup,
    /// The device of redo and binary log; none: with the data.
    pub log: Option<&'a Setup>,
    /// Limits of the instance.
    pub instance: Option<&'a InstanceLimits>,
    /// Virtual CPUs the server may use; none: those of the instance.
    pub vcpus: Option<u32>,
    /// Clients or arrivals.
    pub load: TransactionLoad,
    /// State of the cache.
    pub start: Start,
    /// Length, s.
    pub seconds: u32,
    /// Length of a step, s. Longer than 1: for plans.
    pub step_s: f64,
    /// Seed of the one-second scatter; none: means only.
    pub seed: Option<u64>,
    /// Transactions done since the start by the middle of each step, as measured: the state then
    /// follows the run instead of the model. For calibration.
    pub follow: Option<&'a [f64]>,
}

impl Start {
    /// Returns the transactions done at the start.
    pub(crate) fn tx(self, warm_up: &WarmUp) -> f64 {
        match self {
            Start::Cold => 0.0,
            Start::Warm => warm_up.settled_tx(),
            Start::Transactions(tx) => tx.max(0.0),
        }
    }
}

impl Scenario<'_> {
    /// Returns the transactions done at the start.
    pub(crate) fn start_tx(&self) -> f64 {
        self.start.tx(self.warm_up)
    }

    /// Returns the processors of the server; None: they never bind.
    pub(crate) fn processors(&self) -> Option<Processors> {
        Processors::resolve(self.instance, self.vcpus, &self.database.clients.machine())
    }
}

/// One step of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Second {
    /// End of the step, s from the start.
    pub t_s: f64,
    /// Transactions a second.
    pub tps: f64,
    /// Median of response times, ms.
    pub p50_ms: f64,
    /// Their 95th percentile, ms.
    pub p95_ms: f64,
    /// Their 99th percentile, ms.
    pub p99_ms: f64,
    /// I/Os a second on all devices, in 256 KiB units.
    pub iops: f64,
    /// MiB/s on all devices.
    pub mib_s: f64,
    /// Lowest credit balance of a volume, percent; none without credits.
    pub balance_percent: Option<f64>,
    /// Lowest burst bucket of the instance, percent.
    pub instance_balance_percent: Option<f64>,
    /// Bottleneck of the second.
    #[serde(skip)]
    pub binding: Binding,
    /// Share of the cache in use.
    pub cached_share: f64,
    /// Share of its pages that are dirty.
    pub dirty_share: f64,
    /// Page reads of a transaction.
    pub reads_per_tx: f64,
    /// Pages written back per transaction: evicted dirty, flushed, and in the background.
    pub written_per_tx: f64,
    /// Transactions that wait to be begun (open loads).
    pub backlog: f64,
    /// Compaction moves bytes.
    pub compacting: bool,
    /// Share of the step in which clients wait for a synchronous flush: the redo log is full.
    pub stopped_share: f64,
}

/// A scenario without its storage: what asks what, for how long.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    /// The database.
    pub database: &'a Database,
    /// Cache of the database, followed from a cold start.
    pub warm_up: &'a WarmUp,
    /// Processors; none: they never bind.
    pub processors: Option<Processors>,
    /// Clients or arrivals.
    pub load: &'a TransactionLoad,
    /// State of the cache.
    pub start: Start,
    /// Length, s.
    pub seconds: u32,
    /// Length of a step, s.
    pub step_s: f64,
    /// Seed of the one-second scatter; none: means only.
    pub seed: Option<u64>,
    /// See [`Scenario::follow`].
    pub follow: Option<&'a [f64]>,
}

impl<'a> Course<'a> {
    /// Returns the course of a scenario.
    pub(crate) fn of_scenario(scenario: &'a Scenario<'_>) -> Course<'a> {
        Course {
            database: scenario.database,
            warm_up: scenario.warm_up,
            processors: scenario.processors(),
            load: &scenario.load,
            start: scenario.start,
            seconds: scenario.seconds,
            step_s: scenario.step_s,
            seed: scenario.seed,
            follow: scenario.follow,
        }
    }
}

/// Runs a scenario; `each` is called with every step. Refuses a database out of bounds and more
/// virtual CPUs than the instance has.
pub fn run(scenario: &Scenario<'_>, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
    scenario.database.check()?;
    check_vcpus(scenario)?;
    run_checked(scenario, each)
}

/// Refuses more virtual CPUs than the instance has.
fn check_vcpus(scenario: &Scenario<'_>) -> Result<(), SimError> {
    match (scenario.vcpus, scenario.instance) {
        (Some(vcpus), Some(instance)) if instance.vcpus > 0 && vcpus > instance.vcpus => {
            let rule = format!("must be at most {}, those of {}", instance.vcpus, instance.instance_type);
            Err(SimError::refused("virtual CPUs", vcpus, rule, "Name a larger instance, or leave the number out."))
        }
        _ => Ok(()),
    }
}

/// Returns the commit's share of the time of a transaction with nothing to wait for, at the start
/// of a scenario.
pub(crate) fn commit_share(scenario: &Scenario<'_>) -> f64 {
    let state = ScenarioState::new(&Course::of_scenario(scenario), Devices::new(scenario, Path::default()));
    let at = scenario.warm_up.at(scenario.start_tx(), &mut 0);
    state.commit_share(scenario.database, state.unloaded_s(scenario.database, &at, 1.0))
}

/// Runs a scenario of a database that was checked, as a search does once for all its candidates.
pub(crate) fn run_checked(scenario: &Scenario<'_>, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
    run_on(&Course::of_scenario(scenario), Devices::new(scenario, Path::default()), each)
}

/// Runs a course on a backend that serves its I/O. The database must have been checked.
pub(crate) fn run_on(course: &Course<'_>, backend: impl Backend, each: &mut dyn FnMut(&Second)) -> Result<(), SimError> {
    check(course)?;
    let mut state = ScenarioState::new(course, backend);
    let steps = (f64::from(course.seconds) / course.step_s).ceil() as usize;
    for step in 0..steps {
        let second = state.step(course, step);
        each(&second);
    }
    Ok(())
}

/// Refuses a load or a length of steps out of bounds.
fn check(scenario: &Course<'_>) -> Result<(), SimError> {
    match scenario.load {
        TransactionLoad::Clients(clients) => SimError::check_range("clients", f64::from(*clients), 1.0, 65_536.0)?,
        TransactionLoad::Arrivals(rates) => {
            if rates.is_empty() {
                return Err(SimError::refused("arrival rates", 0, "must be at least 1", "Give a rate for each step; the last one holds."));
            }
            rates.iter().try_for_each(|rate| SimError::check_range("transactions a second", *rate, 0.0, 1e7))?;
        }
    }
    SimError::check_range("length of a step (s)", scenario.step_s, 0.1, 3_600.0)
}

/// Devices and their buckets. The instance has buckets of its own, since data and log share it.
pub(crate) struct Devices {
    places: Places,
    path: Path,
    data: Fluid,
    log: Option<Fluid>,
    instance: Option<Fluid>,
    /// I/Os on the instance per read and per write of the data and of the log device.
    copies: [(f64, f64); 2],
    local: bool,
}

impl Devices {
    /// Makes the devices of a scenario at its start balance; `path`: waits beyond the volumes.
    pub fn new(scenario: &Scenario<'_>, path: Path) -> Devices {
        let volumes = |setup: &Setup| Fluid::of_volumes(setup).with_refill(scenario.step_s);
        let counting = |setup: &Setup| DeviceCounting::new(setup, scenario.database);
        Devices {
            places: Places { data: counting(scenario.data), log: scenario.log.map(counting) },
            path,
            data: volumes(scenario.data),
            log: scenario.log.map(volumes),
            instance: scenario
                .instance
                .map(|limits| Fluid::of_instance(limits, scenario.data.options.saved_second, scenario.data.start_balance_percent).with_refill(scenario.step_s)),
            copies: [Fluid::amplification(scenario.data), scenario.log.map_or((1.0, 1.0), Fluid::amplification)],
            local: scenario.data.is_local(),
        }
    }

    /// Returns the flow of both devices as the instance sees it.
    fn on_instance(&self, data: &Flow, log: &Flow) -> Flow {
        let [of_data, of_log] = self.copies;
        data.copied(of_data).times_plus(1.0, &log.copied(of_log))
    }

    /// Returns the own latency of a log write on the volume, ms.
    pub fn volume_write_ms(&self) -> f64 {
        self.places.log_or_data().write_ms
    }
}

impl Backend for Devices {
    fn read_ms(&self) -> f64 {
        self.places.data.read_ms
    }

    fn log_write_ms(&self) -> f64 {
        self.volume_write_ms() + self.path.write_ms
    }

    fn queues(&self) -> bool {
        self.local
    }

    fn drains_rounds(&self) -> bool {
        !self.local
    }

    fn keeps_logs_apart(&self) -> bool {
        self.log.is_some()
    }

    fn commit_ms(&self) -> f64 {
        self.path.commit_ms
    }

    fn of_transaction(&self, database: &Database, at: &At, reads_by: f64, syncs: f64) -> (Flow, Flow) {
        self.places.of_transaction(database, at, reads_by, syncs)
    }

    fn of_second(&self, database: &Database, background_pages: f64, compacted: (f64, f64)) -> Flow {
        self.places.of_second(database, background_pages, compacted)
    }

    /// Returns the most transactions a second of this I/O on top of `always`, and the cap of data,
    /// log or instance that limits them.
    fn max_rate(&self, (data, log): (&Flow, &Flow), always: &Flow, seconds: f64) -> (f64, Binding) {
        let (rate, cap) = self.data.max_rate(&data.measured, &always.measured, seconds);
        let mut lowest = (rate, Binding::Data(cap));
        if let Some(fluid) = &self.log {
            let (rate, cap) = fluid.max_rate(&log.measured, &Flow::default().measured, seconds);
            if rate < lowest.0 {
                lowest = (rate, Binding::Log(cap));
            }
        }
        if let Some(fluid) = &self.instance {
            let (rate, cap) = fluid.max_rate(&self.on_instance(data, log).measured, &self.on_instance(always, &Flow::default()).measured, seconds);
            if rate < lowest.0 {
                lowest = (rate, Binding::Data(cap));
            }
        }
        lowest
    }

    /// Returns the rate at which compaction could move these bytes, over the rate given, with the
    /// clients' part of the device left to them.
    fn spare(&self, database: &Database, compacted: (f64, f64), seconds: f64) -> f64 {
        let flow = self.places.of_second(database, 0.0, compacted);
        COMPACTION_SHARE * self.max_rate((&flow, &Flow::default()), &Flow::default(), seconds).0
    }

    /// Takes what `seconds` of this I/O cost from the buckets of data, log and instance; `t_s` is
    /// the end of the step.
    fn charge(&mut self, data: &Flow, log: &Flow, t_s: f64, seconds: f64) {
        self.data.charge(&data.measured, seconds);
        if let Some(fluid) = &mut self.log {
            fluid.charge(&log.measured, seconds);
        }
        if self.instance.is_some() {
            let both = self.on_instance(data, log);
            if let Some(fluid) = &mut self.instance {
                fluid.top_up(t_s);
                fluid.charge(&both.measured, seconds);
            }
        }
    }

    fn balance_percent(&self) -> Option<f64> {
        let credits = |fluid: &Fluid| fluid.percent_of(Cap::VolumeCredits);
        match (credits(&self.data), self.log.as_ref().and_then(credits)) {
            (Some(data), Some(log)) => Some(data.min(log)),
            (data, log) => data.or(log),
        }
    }

    fn instance_percent(&self) -> Option<f64> {
        let [ios, bytes] = self.instance.as_ref().map_or([None, None], Fluid::instance_percents);
        ios.into_iter().chain(bytes).min_by(f64::total_cmp)
    }
}

/// A transaction as clients and processors have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Transaction {
    /// Response time with nothing to wait for but its own I/O, s.
    unloaded_s: f64,
    /// I/Os that the processor works on while the client waits: its page reads.
    reads: f64,
    /// I/Os that the processor works on while no client waits for them.
    other_ios: f64,
}

/// State of a course between two steps, on the devices that serve its I/O.
struct ScenarioState<B> {
    devices: B,
    /// Clients as they behave alone on the processors.
    clients: Clients,
    spread: ResponseSpread,
    contention: Contention,
    /// Figures of the step before: a transaction alone and the disk; the rate that they let clients
    /// do; and threads at work. A warm cache does not change from step to step.
    closed: ((Transaction, Option<DiskQueue>), f64, f64),
    tx: f64,
    start_tx: f64,
    hint: usize,
    /// Transactions a second and response time (s) of the step before: how many commits share a log
    /// write.
    before: (f64, f64),
    /// Time of a transaction of the step before that is not the storage's, s: its statements, and
    /// their waits for processors and latches.
    own_s: f64,
    /// Transactions a second while clients run, smoothed over some ten seconds: what the page
    /// cleaner goes by.
    pace: f64,
    /// Share of a step's change the pace takes over.
    follows: f64,
    touches_per_tx: f64,
    backlog: f64,
    checkpoint: CheckpointAge,
    compaction: CompactionClock,
    /// Time in which threads that sleep are woken for a log write, ms.
    log_wake_ms: f64,
    chance: Option<ChaCha8Rng>,
}

impl<B: Backend> ScenarioState<B> {
    /// Makes the state before the first step of a course.
    fn new(scenario: &Course<'_>, devices: B) -> ScenarioState<B> {
        let tx = scenario.start.tx(scenario.warm_up);
        let processors = scenario.processors.as_ref();
        let clients = scenario.database.clients.alone_on(processors);
        ScenarioState {
            devices,
            clients,
            spread: ResponseSpread::with_p95(clients.p95_over_mean),
            contention: Contention::new(&clients, processors).with_spinning(scenario.database.waiters_spin()),
            closed: ((Transaction::default(), None), 0.0, 0.0),
            tx,
            start_tx: tx,
            hint: 0,
            before: (0.0, 0.0),
            own_s: 0.0,
            pace: 0.0,
            follows: (1.0 - libm::pow(1.0 - PACE_FOLLOWS, scenario.step_s)).min(MOST_FOLLOWS),
            touches_per_tx: scenario.database.popularity.touches_per_tx(),
            backlog: 0.0,
            checkpoint: CheckpointAge::new(scenario.database, scenario.start == Start::Warm),
            compaction: CompactionClock::new(scenario.database.compaction.as_ref(), tx),
            log_wake_ms: log_wake_ms(scenario),
            chance: scenario.seed.map(ChaCha8Rng::seed_from_u64),
        }
    }

    /// Simulates a step: the transactions that storage, processors and load let through, what they
    /// take of the buckets, and where they bring cache, compaction and checkpoint.
    fn step(&mut self, scenario: &Course<'_>, step: usize) -> Second {
        let (database, seconds) = (scenario.database, scenario.step_s);
        let t_s = (step + 1) as f64 * seconds;
        if let Some(measured) = scenario.follow.and_then(|follow| follow.get(step)) {
            self.tx = self.start_tx + measured;
        }
        let pace = self.cleaner_pace(scenario, t_s - seconds);
        let mut at = scenario.warm_up.at_pace(self.tx, &mut self.hint, pace);
        let due = at.flushed;
        at.flushed = self.checkpoint.flushed(&database.page_writes(at.full >= 1.0), due, self.pace, seconds);
        let spare = |bytes: (f64, f64)| self.devices.spare(database, bytes, seconds);
        let (reads_by, compacted) = compact(&mut self.compaction, database.compaction.as_ref(), self.tx, seconds, &spare);
        let unloaded_s = self.unloaded_s(database, &at, reads_by);
        let syncs = self.syncs(database, &at, unloaded_s);
        let (data, log) = self.devices.of_transaction(database, &at, reads_by, syncs);
        let written = (at.evicted_dirty + at.flushed) * at.shape;
        let background = at.full * database.writes.background(self.pace, self.touches_per_tx, written);
        let mut always = self.devices.of_second(database, background, compacted);
        let (mut storage, mut bound) = self.devices.max_rate((&data, &log), &always, seconds);
        if storage <= 0.0 && self.pace <= 0.0 {
            // Background writes alone fill the device, and the pace that limits them is not known
            // before the first transactions: these begin without them.
            always = self.devices.of_second(database, 0.0, compacted);
            (storage, bound) = self.devices.max_rate((&data, &log), &always, seconds);
        }
        let (ios, reads) = (data.measured.iops + log.measured.iops, at.reads * at.shape * reads_by);
        let (sharpness, round) = (self.sharpness((reads + syncs) / ios.max(1e-9)), self.round(database, (&at, reads_by, syncs), background, seconds));
        let transaction = self.transaction(database, unloaded_s, (reads, ios), always.measured.iops);
        let (running_tps, running_s, binding) = self.served(scenario, step, (storage, bound), (transaction, sharpness, round));
        let page = self.devices.of_second(database, at.shape, (0.0, 0.0));
        let sharing = || {
            let unflushed = self.devices.of_transaction(database, &At { flushed: 0.0, ..at }, reads_by, syncs);
            share_device(&self.devices, (&unflushed, running_tps), &page, &always, seconds)
        };
        let stopped = self.checkpoint.pass(seconds, running_tps, (due, at.flushed), background, sharing);
        let (stopped_share, lost_share) = (stopped.seconds / seconds, stopped.lost_s / seconds);
        let tps = running_tps * (1.0 - lost_share);
        if matches!(scenario.load, TransactionLoad::Arrivals(_)) {
            self.backlog += running_tps * stopped.lost_s;
        }
        let spent = data.times_plus(tps, &page.times_plus(stopped.pages / seconds, &always));
        let logged = log.times_plus(tps, &Flow::default());
        self.devices.charge(&spent, &logged, t_s, seconds);
        self.tx += tps * seconds;
        self.keep_pace(running_tps, running_s);
        // A second without an answer must not give an infinite response time.
        let response_s = running_s / (1.0 - lost_share).max(0.25);
        let written_per_tx = written + (background + stopped.pages / seconds) / tps.max(1e-9);
        let running_pages = running_tps * running_s * written_per_tx;
        let burst = burst_of(&self.devices, (at.full * database.shape.burst_pages, &page), &always, seconds, running_pages);
        let spread = self.spread_at(database, reads, response_s).behind_burst(&burst, response_s);
        Second {
            t_s,
            tps,
            p50_ms: response_s * 1e3 * spread.p50,
            p95_ms: response_s * 1e3 * spread.p95,
            p99_ms: response_s * 1e3 * spread.p99,
            iops: spent.measured.iops + logged.measured.iops,
            mib_s: (spent.measured.bytes_s + logged.measured.bytes_s) / MIB,
            balance_percent: self.devices.balance_percent(),
            instance_balance_percent: self.devices.instance_percent(),
            binding,
            cached_share: at.cached_share,
            dirty_share: at.dirty_share,
            reads_per_tx: reads,
            written_per_tx,
            backlog: self.backlog,
            compacting: compacted.0 + compacted.1 > 0.0,
            stopped_share,
        }
    }

    /// Returns a transaction of that response time with nothing to wait for but its own I/O, with
    /// its page reads and all of its I/Os; others are done each second whatever is asked.
    fn transaction(&self, database: &Database, unloaded_s: f64, (reads, ios): (f64, f64), others_per_s: f64) -> Transaction {
        let waited_for = reads * (1.0 - database.read_ahead_share);
        let others = (ios - waited_for).max(0.0) + if self.pace > 0.0 { others_per_s / self.pace } else { 0.0 };
        Transaction { unloaded_s, reads: waited_for, other_ios: (others * IO_PARTS).round() / IO_PARTS }
    }

    /// Returns the transactions a second of clients that would do `mean` without rounds of the page
    /// cleaner.
    fn rate_behind(&self, round: &Round, mean: f64, clients: f64, (contention, unloaded_s): (&Contention, f64)) -> f64 {
        let behind = |wait_s: f64| {
            let mut busy = self.closed.2;
            contention.closed_rate(clients, unloaded_s + wait_s, None, &mut busy)
        };
        mean.min(round.closed_rate(if self.pace > 0.0 { self.pace } else { mean }, self.closed.1, behind))
    }

    /// Returns the round of the page cleaner that clients wait behind; none where pages are written
    /// as they come, or where I/Os queue for each other long before a cap. `background` pages are
    /// written a second next to those of transactions.
    fn round(&self, database: &Database, (at, reads_by, syncs): (&At, f64, f64), background: f64, seconds: f64) -> Option<Round> {
        if !database.is_asked_by_rule() || !self.devices.drains_rounds() {
            return None;
        }
        let free = Flow::default();
        let second_of = |flow: &Flow| 1.0 / self.devices.max_rate((flow, &free), &free, seconds).0;
        let page_s = second_of(&self.devices.of_second(database, 1.0, (0.0, 0.0)));
        let (own, _) = self.devices.of_transaction(database, &At { evicted_dirty: 0.0, flushed: 0.0, ..*at }, reads_by, syncs);
        let (reads, ahead) = (at.reads * at.shape * reads_by, database.read_ahead_share);
        let logged = if self.devices.keeps_logs_apart() { 0.0 } else { database.log.syncs_per_commit };
        Some(Round {
            due_s: (at.evicted_dirty + at.flushed) * at.shape * page_s,
            others_s: background * page_s,
            own_s: second_of(&own),
            outstanding_s: f64::from(ROUND_DEPTH) * page_s / database.page_write().0,
            waits: reads * (1.0 - ahead) + reads * ahead * database.read_bytes / RUN_BYTES + logged,
        })
    }

    /// Remembers the rate, transactions a second, and the response time, s, of a step.
    fn keep_pace(&mut self, tps: f64, response_s: f64) {
        self.before = (tps, response_s);
        self.pace = if self.pace > 0.0 { self.pace + self.follows * (tps - self.pace) } else { tps };
    }

    /// Returns the exponent of the transition from the clients' rate to the storage's cap, if
    /// clients wait for this share of the I/O.
    ///
    /// Clients feel a cap before they reach it by the queue in front of what they wait for. If the
    /// age of a redo log is followed, its pages wait in their stead: the more of them, the sharper.
    fn sharpness(&self, waited_for: f64) -> f64 {
        if self.checkpoint.stops_clients() {
            self.clients.sharpness * (WAITED_FOR / waited_for.max(1e-9)).clamp(1.0, MOST_SHARPENED)
        } else {
            self.clients.sharpness
        }
    }

    /// Returns the pace that the page cleaner follows `since_s` seconds after the start; nothing
    /// without a cleaner.
    fn cleaner_pace(&mut self, scenario: &Course<'_>, since_s: f64) -> CleanerPace {
        if scenario.database.cleaner.is_none() {
            return CleanerPace::settled(0.0);
        }
        let tps = if self.pace > 0.0 { self.pace } else { self.first_pace(scenario) };
        CleanerPace { tps, taken_up: if scenario.start == Start::Cold { taken_up(since_s) } else { 1.0 } }
    }

    /// Returns the transactions a second that the load asks for and the devices let through, before
    /// the first ones are done.
    fn first_pace(&mut self, scenario: &Course<'_>) -> f64 {
        let database = scenario.database;
        let at = scenario.warm_up.at(self.tx, &mut self.hint);
        let (data, log) = self.devices.of_transaction(database, &at, 1.0, database.log.syncs_per_commit);
        let storage = self.devices.max_rate((&data, &log), &Flow::default(), scenario.step_s).0;
        let offered = match scenario.load {
            TransactionLoad::Clients(clients) => f64::from(*clients) / self.unloaded_s(database, &at, 1.0),
            TransactionLoad::Arrivals(rates) => rates[0],
        };
        storage.min(offered).min(self.contention.processors_rate())
    }

    /// Returns the spread of response times of this mean, s, by the pages that a transaction reads.
    fn spread_at(&self, database: &Database, reads: f64, response_s: f64) -> ResponseSpread {
        if database.shape.response.is_empty() && database.shape.statements_p95 <= 0.0 {
            self.spread
        } else {
            ResponseSpread::at(database, reads, (self.own_s / response_s).clamp(0.0, 1.0))
        }
    }

    /// Returns the transactions a second that storage, processors and the load itself let through,
    /// their response time in s, and what binds. `storage` transactions a second are the most that
    /// devices allow, `bound` by this cap. An open load's backlog is updated.
    fn served(
        &mut self,
        scenario: &Course<'_>,
        step: usize,
        (storage, bound): (f64, Binding),
        (transaction, sharpness, round): (Transaction, f64, Option<Round>),
    ) -> (f64, f64, Binding) {
        let (database, seconds, unloaded_s) = (scenario.database, scenario.step_s, transaction.unloaded_s);
        let contention = self.contention.with_ios(transaction.reads, transaction.other_ios);
        let asking = match scenario.load {
            TransactionLoad::Clients(clients) => f64::from(*clients),
            TransactionLoad::Arrivals(_) => f64::INFINITY,
        };
        let (processors, serial) = (contention.processors_rate(), contention.serial_rate(asking));
        let commit_share = self.commit_share(database, unloaded_s);
        let server = processors.min(serial);
        let of_server = if processors <= serial { Binding::Cpu } else { Binding::Contention };
        match scenario.load {
            TransactionLoad::Clients(_) => {
                let clients = hot_rows::count_running(&database.hot_rows, asking, commit_share);
                let io_s = self.io_s(database, &transaction, &contention);
                let disk = (self.devices.queues() && storage > 0.0 && storage.is_finite()).then_some(DiskQueue { io_s, most_tps: storage });
                if self.closed.0 != (transaction, disk) {
                    let mut busy = self.closed.2;
                    self.closed = ((transaction, disk), contention.closed_rate(clients, unloaded_s, disk, &mut busy), busy);
                }
                let mean = if disk.is_some() { self.closed.1 } else { weakest_limit(&[storage, self.closed.1], sharpness) };
                let mean = round.map_or(mean, |round| self.rate_behind(&round, mean, clients, (&contention, unloaded_s)));
                // Waits for processors are not told apart from those of I/Os that queue on a disk.
                self.own_s = if disk.is_some() { unloaded_s } else { clients / self.closed.1.max(1e-9) } - io_s;
                let clients_alone = clients / unloaded_s;
                let tightest = if storage <= clients_alone && storage <= server {
                    bound
                } else if clients_alone > server {
                    of_server
                } else if clients < MOSTLY_RUNNING * asking {
                    Binding::Contention
                } else {
                    Binding::Clients
                };
                let tps = self.scatter(database, mean, seconds);
                // A second without an answer must not give an infinite response time.
                (tps, asking / tps.max(0.25 * mean).max(1e-6), tightest)
            }
            TransactionLoad::Arrivals(rates) => {
                let demanded_tps = rates[step.min(rates.len() - 1)] + self.backlog / seconds;
                let most_running = hot_rows::most_running(&database.hot_rows, commit_share);
                let by_rows = most_running / unloaded_s;
                let (server, of_server) = if by_rows < server { (by_rows, Binding::Contention) } else { (server, of_server) };
                let possible = weakest_limit(&[storage, server], sharpness);
                let mean = demanded_tps.min(possible);
                self.backlog = (demanded_tps - mean) * seconds;
                let busy = (mean / storage).min(0.999);
                let alone_s = unloaded_s + contention.open_wait_s(mean);
                self.own_s = alone_s - self.io_s(database, &transaction, &contention);
                let running_s = alone_s + round.map_or(0.0, |round| round.open_wait_s(mean));
                let running = (mean * running_s).min(MOST_BUSY_ROWS * most_running);
                let waiting_s = running_s + hot_rows::count_waiting(&database.hot_rows, commit_share, running) / mean.max(1e-6);
                let response_s = waiting_s / libm::pow(1.0 - libm::pow(busy, sharpness), 1.0 / sharpness) + self.backlog / mean.max(1e-6);
                let binding = if demanded_tps < possible {
                    Binding::Demand
                } else if storage <= server {
                    bound
                } else {
                    of_server
                };
                (self.scatter(database, mean, seconds), response_s, binding)
            }
        }
    }

    /// Returns the response time with nothing to wait for but one's own I/O, s: reads come one
    /// after the other, each with its processor time, then the commit.
    fn unloaded_s(&self, database: &Database, at: &At, reads_by: f64) -> f64 {
        let reads = at.reads * at.shape * reads_by;
        let processor_s = reads * (1.0 - database.read_ahead_share) * self.contention.io_waited_s;
        (self.base_ms() + reads * self.devices.read_ms() + self.commit_ms(database) + self.woken_ms(database)) / 1e3 + processor_s
    }

    /// Returns the time that a transaction waits for its own I/O with nothing else on the devices,
    /// s.
    fn io_s(&self, database: &Database, transaction: &Transaction, contention: &Contention) -> f64 {
        transaction.unloaded_s - (self.base_ms() + self.woken_ms(database)) / 1e3 - transaction.reads * contention.io_waited_s
    }

    /// Returns the response time without I/O at the rate of the step before, ms.
    fn base_ms(&self) -> f64 {
        self.clients.base_at(self.before.0, self.contention.threads())
    }

    /// Returns the time of a transaction's commits with nothing to wait for but their own I/O, ms.
    fn commit_ms(&self, database: &Database) -> f64 {
        database.log.syncs_per_commit * self.devices.log_write_ms() + database.log.commits() * self.devices.commit_ms()
    }

    /// Returns the time in which a transaction's thread is woken for its commits, ms.
    fn woken_ms(&self, database: &Database) -> f64 {
        database.log.syncs_per_commit * self.log_wake_ms
    }

    /// Returns the share of commits in a transaction that takes `unloaded_s`.
    fn commit_share(&self, database: &Database, unloaded_s: f64) -> f64 {
        if unloaded_s > 0.0 {
            self.commit_ms(database) / 1e3 / unloaded_s
        } else {
            0.0
        }
    }

    /// Returns the log writes of one transaction: those that come while one is under way share the
    /// next. At a cap a log write waits like any other I/O of the transaction, and more share it.
    fn syncs(&self, database: &Database, at: &At, unloaded_s: f64) -> f64 {
        let unshared = database.log.syncs_per_commit;
        let (tps, response_s) = self.before;
        let waited_s = (response_s - unloaded_s).max(0.0) / (at.reads * at.shape + unshared).max(1.0);
        let coming = tps * (self.devices.log_write_ms() / 1e3 + waited_s);
        unshared / (1.0 + coming * coming / (1.0 + coming))
    }

    /// Draws the transactions a second of a step around their mean; without a seed it returns the
    /// mean.
    fn scatter(&mut self, database: &Database, mean: f64, seconds: f64) -> f64 {
        let Some(chance) = &mut self.chance else { return mean };
        let variance = database.noise.variance(mean, seconds);
        let relative = variance.sqrt() / mean.max(1e-9);
        if relative < NORMAL_UP_TO {
            return mean + normal(chance) * variance.sqrt();
        }
        // Few transactions a second: a gamma distribution of the same mean and variance.
        gamma_of_normal(normal(chance), mean, relative)
    }
}

/// Returns the time in which threads that sleep are woken for a log write, ms: none where they
/// spin, or where a client is alone.
fn log_wake_ms(scenario: &Course<'_>) -> f64 {
    let others = match scenario.load {
        TransactionLoad::Clients(clients) => 1.0 - 1.0 / f64::from((*clients).max(1)),
        TransactionLoad::Arrivals(_) => 1.0,
    };
    if scenario.database.log_waiters_sleep() {
        others * WOKEN * (LIGHT_WAKE_MS + SWITCH_MS)
    } else {
        0.0
    }
}

/// Returns the division of the devices between a synchronous flush and clients that by themselves
/// do `tps` transactions of that I/O; `page`: I/O of a page written.
fn share_device(devices: &impl Backend, ((data, log), tps): (&(Flow, Flow), f64), page: &Flow, always: &Flow, seconds: f64) -> Sharing {
    let write_rate = devices.max_rate((page, &Flow::default()), always, seconds).0;
    let alone = devices.max_rate((data, log), always, seconds).0;
    Sharing { write_rate, share: 1.0 / (1.0 + tps / alone.max(1e-9)) }
}

/// Makes a burst of `pages` with the I/O of a `page` each, while transactions that run write
/// `running_pages`.
fn burst_of(devices: &impl Backend, (pages, page): (f64, &Flow), always: &Flow, seconds: f64, running_pages: f64) -> Burst {
    let page_s = if pages > 0.0 { 1.0 / devices.max_rate((page, &Flow::default()), always, seconds).0.max(1e-9) } else { 0.0 };
    Burst { pages, page_s, running_pages }
}

/// Returns the factor of reads after `tx` transactions, and the bytes a second that compaction
/// reads and writes in a step, which are taken off the clock; `spare`: see [`Backend::spare`].
fn compact(clock: &mut CompactionClock, compaction: Option<&Compaction>, tx: f64, seconds: f64, spare: &dyn Fn((f64, f64)) -> f64) -> (f64, (f64, f64)) {
    let Some(compaction) = compaction else { return (1.0, (0.0, 0.0)) };
    let factor = clock.reach(compaction, tx);
    let [read, written] = clock.remaining_bytes;
    let mut share = (compaction.rate_bytes_s * seconds / (read + written).max(1.0)).min(1.0);
    if read + written > 0.0 {
        share *= spare((read * share / seconds, written * share / seconds)).min(1.0);
    }
    let bytes = (read * share, written * share);
    clock.remaining_bytes = [read - bytes.0, written - bytes.1];
    (factor, (bytes.0 / seconds, bytes.1 / seconds))
}

/// Returns `(sum of x^-p)^(-1/p)`: the smallest where one is far below the others, below all of
/// them where they are alike.
#[inline]
pub(super) fn weakest_limit(limits: &[f64], sharpness: f64) -> f64 {
    let least = limits.iter().copied().fold(f64::INFINITY, f64::min);
    if least <= 0.0 || least.is_infinite() {
        return least.max(0.0);
    }
    let sum: f64 = limits
        .iter()
        .map(|limit| {
            let ratio = least / limit;
            if sharpness == 4.0 {
                ratio * ratio * ratio * ratio
            } else {
                libm::pow(ratio, sharpness)
            }
        })
        .sum();
    least / if sharpness == 4.0 { sum.sqrt().sqrt() } else { libm::pow(sum, 1.0 / sharpness) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::costs::Flavor;
    use crate::mysql::tprocc::Tprocc;

    /// By hand: with two clients half of 2 x (0.01 + 0.0038) ms for each of 3 log writes in 21 of
    /// 23 calls, 0.0378 ms. A lonely client of MariaDB wakes nobody, and MySQL's spin.
    #[test]
    fn clients_of_mariadb_are_woken_for_log_writes() {
        let storage = Setup::resolve("gp3:100", None, "2026-01-15".parse().expect("a day")).expect("a volume");
        for (flavor, more_ms) in [(Flavor::Mariadb, 3.0 * 21.0 / 23.0 * 0.0138), (Flavor::Mysql, 0.0)] {
            let database = Tprocc { flavor, ..Tprocc::default() }.database().expect("a database");
            let warm_up = WarmUp::new(&database, 4e9);
            let unloaded_ms = |clients: u32| {
                let scenario = Scenario {
                    database: &database,
                    warm_up: &warm_up,
                    data: &storage,
                    log: None,
                    instance: None,
                    vcpus: None,
                    load: TransactionLoad::Clients(clients),
                    start: Start::Warm,
                    seconds: 1,
                    step_s: 1.0,
                    seed: None,
                    follow: None,
                };
                let state = ScenarioState::new(&Course::of_scenario(&scenario), Devices::new(&scenario, Path::default()));
                1e3 * state.unloaded_s(&database, &warm_up.at(scenario.start_tx(), &mut 0), 1.0)
            };
            assert!((unloaded_ms(2) - unloaded_ms(1) - more_ms).abs() < 1e-9, "{flavor:?}: {}", unloaded_ms(2) - unloaded_ms(1));
        }
    }
}
