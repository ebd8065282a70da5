//! The interval form of a replica: lag second by second.
//!
//! ```text
//!   source's transactions  N_s(t) -> receive thread -> relay log -> applier -> N_r(t)
//!   lag L:  N_s(t - L) = N_r(t),  so  L' = 1 - applied(t) / source(t - L)
//! ```
//!
//! The lag grows on after the load has stopped: what is applied then was written at the load's full
//! rate, and is applied no faster. It is largest just before the last of it.

use super::super::database::Database;
use super::super::demand::DeviceCounting;
use super::super::interval::{Scenario, TransactionLoad};
use super::applier::Applier;
use super::devices::{binding, committing, ReplicaDevices};
use super::pace::{pace, Pace};
use super::rate::{ApplierCosts, ReplicaBinding, COSTS};
use super::scenario::{LargeTransaction, ReplicaScenario};
use super::semisync::{SemiSync, SemiSyncPrice};
use super::settings::ReplicaSettings;
use super::settled::Settled;
use crate::error::SimError;
use crate::mysql::interval;
use crate::mysql::settings::{behind_cache, ServerSettings};
use crate::report::MIB;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lag from which a replica counts as behind, s.
pub const BEHIND_S: f64 = 1.0;
/// Share of a second's change that the pace of background writes takes over; as the source's.
const PACE_FOLLOWS: f64 = 0.1;

/// One step of a replica.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ReplicaSecond {
    /// End of the step, s from the start.
    pub t_s: f64,
    /// Transactions a second on the source.
    pub source_tps: f64,
    /// Transactions a second applied.
    pub applied_tps: f64,
    /// Transactions a second the applier could do.
    pub possible_tps: f64,
    /// Transactions committed on the source and not applied.
    pub backlog: f64,
    /// Age of the newest transaction applied, by the source's commits, s.
    pub lag_s: f64,
    /// Page reads of a transaction.
    pub reads_per_tx: f64,
    /// I/Os a second on the replica's volumes.
    pub iops: f64,
    /// MiB/s on them.
    pub mib_s: f64,
    /// Lowest credit balance of them, percent.
    pub balance_percent: Option<f64>,
    /// Bottleneck of the applier.
    #[serde(skip)]
    pub binding: ReplicaBinding,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaSummary {
    /// Transactions a second of the source over its load.
    pub source_tps: f64,
    /// Transactions a second the applier does when it has enough to do: mean over the time it was
    /// behind, else over all.
    pub applier_tps: f64,
    /// Seconds of load.
    pub load_s: f64,
    /// From when the replica is behind ([`BEHIND_S`]); none: it keeps up.
    pub onset_s: Option<f64>,
    /// Lag when the load ends.
    pub lag_at_load_end_s: f64,
    /// Backlog then.
    pub backlog_at_load_end: f64,
    /// Most lag.
    pub peak_lag_s: f64,
    /// When.
    pub peak_at_s: f64,
    /// From the end of the load until the replica has caught up; none: not in this run.
    pub catch_up_s: Option<f64>,
    /// Bottleneck of the applier when it has most to do.
    pub binding: String,
    /// Bottleneck of most steps, among those that have one.
    pub usual_binding: &'static str,
    /// Shares by name: of the time and limits that make the rate; together 1.
    pub shares: Vec<(&'static str, f64)>,
    /// Share of the rate that follows the width that the source's marks allow.
    pub dependency_lever: f64,
    /// Share of the rate that follows the workers.
    pub worker_lever: f64,
    /// Rate over today's with each cost halved (or its limit doubled), and with twice the width and
    /// twice the workers.
    pub if_halved: Vec<(&'static str, f64)>,
    /// Transactions that may be applied at once.
    pub width: f64,
    /// Commits of a group.
    pub grouped: f64,
    /// The price of semi-sync.
    pub semi_sync: Option<SemiSyncPrice>,
}

/// Rows and summary.
#[derive(Clone, Debug)]
pub struct ReplicaRun {
    /// A row a step.
    pub rows: Vec<ReplicaSecond>,
    /// Summary of the rows.
    pub summary: ReplicaSummary,
}

/// Makes the source's database as the replica has it, with the replica's settings; `reads_per_tx`:
/// of clients that read here, per transaction applied.
///
/// `caches`: bytes of the source's, with which its parameters were found, and of the replica's.
pub fn replica_database(source: &Database, applier: &Applier, settings: &ReplicaSettings, reads_per_tx: f64, caches: (f64, f64)) -> Result<Database, SimError> {
    applier.check(source)?;
    settings.check()?;
    SimError::check_range("reading transactions on the replica per transaction applied", reads_per_tx, 0.0, 1e4)?;
    if source.log.binlog_bytes_per_tx <= 0.0 {
        let rule = "must be above 0: a source without a binary log, or a load that writes nothing, has nothing to replicate";
        let hint = "Give a load that writes, measured with log_bin on; or set binlog_bytes_per_tx in the workload file.";
        return Err(SimError::refused("bytes a transaction writes to the binary log", source.log.binlog_bytes_per_tx, rule, hint));
    }
    let server = ServerSettings {
        flush_log_at_trx_commit: Some(settings.flush_log_at_trx_commit),
        log_bin: Some(settings.log_bin),
        sync_binlog: Some(settings.sync_binlog),
        ..ServerSettings::default()
    };
    let source = source.with_fixed_dirtying(caches.0);
    server.on(&behind_cache(&applier.database(&source, reads_per_tx, settings.rollback_segments), caches.0, caches.1, None))
}

/// Returns the source's transactions a second, step by step, with what semi-sync makes of them.
pub fn source_series(scenario: &Scenario<'_>, price: Option<&SemiSyncPrice>) -> Result<Vec<f64>, SimError> {
    let mut database = scenario.database.clone();
    let commits = database.log.commits();
    let waits = price.filter(|price| !price.times_out && commits > 0.0);
    let clients = if let TransactionLoad::Clients(clients) = &scenario.load { f64::from(*clients) } else { 1.0 };
    let waits_in_parallel = waits.filter(|price| price.side_by_side(clients));
    database.clients.base_ms += waits_in_parallel.map_or(0.0, |price| price.network_ms() * commits);
    let flush_ms = DeviceCounting::new(scenario.log.unwrap_or(scenario.data), &database).write_ms;
    let mut series = Vec::new();
    interval::run(&Scenario { database: &database, ..scenario.clone() }, &mut |second| {
        series.push(match (waits, &scenario.load) {
            (None, _) => second.tps,
            (Some(price), TransactionLoad::Clients(_)) => price.rate(clients, second.tps * commits, flush_ms) / commits,
            (Some(price), TransactionLoad::Arrivals(_)) => second.tps.min(price.most_tps / commits),
        });
    })?;
    Ok(series)
}

/// Runs a replica until it has caught up after the load, or to the end.
pub fn run(scenario: &ReplicaScenario<'_>) -> Result<ReplicaRun, SimError> {
    let step_s = scenario.source.step_s;
    scenario.semi_sync.map_or(Ok(()), SemiSync::check)?;
    for large in scenario.large {
        SimError::check_range("begin of a large transaction (s)", large.at_s, 0.0, 1e9)?;
        SimError::check_range("length of a large transaction (s)", large.source_s.max(large.apply_s), 0.0, 1e7)?;
    }
    let devices = ReplicaDevices::new(&scenario.storage, scenario.database, step_s);
    let receive_s = devices.receive_s(scenario.applier, scenario.settings);
    let price = scenario.semi_sync.map(|semi| semi.price(receive_s));
    let source = match scenario.source_tps {
        Some(given) => given.to_vec(),
        None => source_series(&scenario.source, price.as_ref())?,
    };
    let settled = Settled::find(scenario, &source);
    let scenario = &settled.scenario(scenario);
    let mut state = ReplicaState::new(scenario, devices, price.map_or(0.0, |price| price.added_ms));
    let load_steps = source.len();
    let most = load_steps + (f64::from(scenario.drain_s) / step_s).ceil() as usize;
    let mut rows = Vec::with_capacity(load_steps);
    for step in 0..most {
        let second = state.step(step, source.get(step).copied().unwrap_or(0.0));
        rows.push(second);
        if step >= load_steps && second.backlog < 0.5 && state.large_left() == 0 {
            break;
        }
    }
    let summary = state.summarise(&rows, load_steps, price);
    Ok(ReplicaRun { rows, summary })
}

/// Returns the bottleneck of most steps that have one; among equals the first by name.
fn usual_binding(rows: &[ReplicaSecond]) -> &'static str {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.binding != ReplicaBinding::Demand) {
        *counts.entry(row.binding.name()).or_default() += 1;
    }
    // Among equal counts `max_by_key` takes the last.
    counts.iter().rev().max_by_key(|(_, count)| **count).map_or(ReplicaBinding::Demand.name(), |(name, _)| name)
}

/// The source's transactions over time, to look up when one was committed.
#[derive(Clone, Debug, Default)]
struct SourceClock {
    /// Transactions by the end of each step.
    done: Vec<f64>,
    /// The step in which the last one looked up was committed.
    at: usize,
}

impl SourceClock {
    /// Returns when the source had committed `count` transactions, s; they are spread evenly over a
    /// step.
    fn when(&mut self, count: f64, step_s: f64) -> f64 {
        while self.at + 1 < self.done.len() && self.done[self.at] <= count {
            self.at += 1;
        }
        let (from, to) = (if self.at == 0 { 0.0 } else { self.done[self.at - 1] }, self.done[self.at]);
        let part = if to > from { ((count - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
        (self.at as f64 + part) * step_s
    }

    fn total(&self) -> f64 {
        self.done.last().copied().unwrap_or(0.0)
    }
}

/// State of a replica between two steps.
struct ReplicaState<'a, 'b> {
    scenario: &'b ReplicaScenario<'a>,
    devices: ReplicaDevices,
    semi_sync_ms: f64,
    clock: SourceClock,
    tx: f64,
    start_tx: f64,
    hint: usize,
    received: f64,
    pace: f64,
    touches_per_tx: f64,
    /// Large transactions to come: the count of transactions before them, time on the source and
    /// time still to apply, s.
    large: Vec<(Option<f64>, LargeTransaction)>,
    /// The costs when the applier had most to do.
    most_behind: (f64, Option<ApplierCosts>),
}

impl<'a, 'b> ReplicaState<'a, 'b> {
    /// Makes the state before the first step; `semi_sync_ms`: the wait that semi-sync adds to a
    /// commit of the source.
    fn new(scenario: &'b ReplicaScenario<'a>, devices: ReplicaDevices, semi_sync_ms: f64) -> ReplicaState<'a, 'b> {
        let tx = scenario.start_tx();
        let mut large: Vec<_> = scenario.large.iter().map(|large| (None, *large)).collect();
        large.sort_by(|a, b| (a.1.at_s + a.1.source_s).total_cmp(&(b.1.at_s + b.1.source_s)));
        ReplicaState {
            scenario,
            devices,
            semi_sync_ms,
            clock: SourceClock::default(),
            tx,
            start_tx: tx,
            hint: 0,
            received: 0.0,
            pace: 0.0,
            touches_per_tx: scenario.database.popularity.touches_per_tx(),
            large,
            most_behind: (-1.0, None),
        }
    }

    fn large_left(&self) -> usize {
        self.large.len()
    }

    /// Simulates a step in which the source does `source_tps`: what is received, what is applied,
    /// and how old the newest applied transaction is.
    fn step(&mut self, step: usize, source_tps: f64) -> ReplicaSecond {
        let scenario = self.scenario;
        let (database, seconds) = (scenario.database, scenario.source.step_s);
        let t_s = (step + 1) as f64 * seconds;
        self.clock.done.push(self.clock.total() + source_tps * seconds);
        let applied = self.tx - self.start_tx;
        let mut at = scenario.warm_up.at(self.tx, &mut self.hint);
        at.flushed = database.writes.limited(at.flushed, self.pace);
        let written = (at.evicted_dirty + at.flushed) * at.shape;
        let background = at.full * database.writes.background(self.pace, self.touches_per_tx, written);
        let received_tx = self.receive();
        let relay_bytes = scenario.source.database.log.binlog_bytes_per_tx;
        let always = self.devices.always(database, background, scenario.applier, scenario.settings, (received_tx / seconds, relay_bytes));
        let committing = committing(&scenario.source, source_tps.max(self.pace), self.semi_sync_ms);
        let Pace { costs, rate, demand, purged } = pace(scenario, &self.devices, &at, committing, &always);
        let waiting = (self.received - applied).max(0.0);
        let (done, in_large) = self.apply(applied, waiting, rate, t_s, seconds);
        self.tx += done;
        let applied_tps = done / seconds;
        let (iops, bytes) = self.devices.charge(&demand, applied_tps, &always, t_s, seconds);
        self.pace = if self.pace > 0.0 { self.pace + PACE_FOLLOWS * (applied_tps - self.pace) } else { applied_tps };
        let backlog = (self.clock.total() - (applied + done)).max(0.0);
        if backlog > self.most_behind.0 {
            self.most_behind = (backlog, Some(costs));
        }
        let kept_up = backlog <= 1e-6 * self.clock.total().max(1.0) && in_large.is_none();
        let age = if kept_up { 0.0 } else { t_s - self.clock.when(applied + done, seconds) };
        ReplicaSecond {
            t_s,
            source_tps,
            applied_tps,
            possible_tps: rate,
            backlog,
            // Nothing is applied before it was executed here once more.
            lag_s: age.max(0.0) + in_large.unwrap_or(0.0) + costs.alone_s(),
            reads_per_tx: (at.reads + purged) * at.shape,
            iops,
            mib_s: bytes / MIB,
            balance_percent: self.devices.balance_percent(),
            binding: if in_large.is_some() { ReplicaBinding::Large } else { binding(&costs, kept_up) },
        }
    }

    /// Receives what comes in a step and returns the number of transactions: the receive thread
    /// goes ahead of the applier.
    fn receive(&mut self) -> f64 {
        let scenario = self.scenario;
        let missing = self.clock.total() - self.received;
        let each_s = self.devices.receive_s(scenario.applier, scenario.settings);
        let arriving = if scenario.received { 0.0 } else { missing.min(scenario.source.step_s / each_s.max(1e-12)) };
        self.received += if scenario.received { missing } else { arriving };
        arriving
    }

    /// Returns the transactions applied in a step, of which `waiting` are there; and, while a large
    /// one is under way, the time it took on the source, s. Large ones that are over are dropped.
    fn apply(&mut self, applied: f64, waiting: f64, rate: f64, t_s: f64, seconds: f64) -> (f64, Option<f64>) {
        let (mut left_s, mut done) = (seconds, 0.0);
        for (before, large) in &mut self.large {
            let committed_s = large.at_s + large.source_s;
            if before.is_none() && committed_s <= t_s {
                let done = &self.clock.done;
                let step = ((committed_s / seconds) as usize).min(done.len() - 1);
                let from = if step == 0 { 0.0 } else { done[step - 1] };
                *before = Some(from + (done[step] - from) * (committed_s / seconds - step as f64).clamp(0.0, 1.0));
            }
        }
        while let Some((Some(before), large)) = self.large.first_mut() {
            let until = (*before - applied - done).max(0.0).min(waiting - done);
            if applied + done + until + 1e-9 < *before || until / rate > left_s {
                break;
            }
            (done, left_s) = (done + until, left_s - until / rate);
            // It cannot begin before it was committed.
            let began_s = (t_s - left_s).max(large.at_s + large.source_s);
            left_s = t_s - began_s;
            if large.apply_s > left_s {
                large.apply_s -= left_s;
                return (done, Some(large.source_s));
            }
            left_s -= large.apply_s;
            self.large.remove(0);
        }
        (done + (rate * left_s).min(waiting - done).max(0.0), None)
    }

    /// Sums up the rows of a run, the first `load_steps` of which are under load.
    fn summarise(&self, rows: &[ReplicaSecond], load_steps: usize, semi_sync: Option<SemiSyncPrice>) -> ReplicaSummary {
        let step_s = self.scenario.source.step_s;
        let load = &rows[..load_steps.min(rows.len())];
        let mean = |figure: &dyn Fn(&ReplicaSecond) -> f64, rows: &[&ReplicaSecond]| rows.iter().map(|row| figure(row)).sum::<f64>() / rows.len().max(1) as f64;
        let behind: Vec<&ReplicaSecond> = rows.iter().filter(|row| row.binding != ReplicaBinding::Demand).collect();
        let all: Vec<&ReplicaSecond> = rows.iter().collect();
        let peak = rows.iter().max_by(|a, b| a.lag_s.total_cmp(&b.lag_s)).copied().unwrap_or_default();
        let end = load.last().copied().unwrap_or_default();
        let caught_up = rows[load.len()..].iter().find(|row| row.backlog < 0.5).map(|row| row.t_s - load_steps as f64 * step_s);
        let costs = self.most_behind.1;
        let shares = costs.map_or([0.0; COSTS.len()], |costs| costs.shares());
        let times = |cost: ReplicaBinding| costs.map_or(1.0, |costs| costs.with(cost, 0.5).rate() / costs.rate());
        let kept_up = behind.is_empty();
        ReplicaSummary {
            source_tps: mean(&|row| row.source_tps, &load.iter().collect::<Vec<_>>()),
            applier_tps: mean(&|row| row.possible_tps, if kept_up { &all } else { &behind }),
            load_s: load_steps as f64 * step_s,
            onset_s: rows.iter().find(|row| row.lag_s > BEHIND_S).map(|row| row.t_s),
            lag_at_load_end_s: end.lag_s,
            backlog_at_load_end: end.backlog,
            peak_lag_s: peak.lag_s,
            peak_at_s: peak.t_s,
            catch_up_s: if end.backlog < 0.5 { Some(0.0) } else { caught_up },
            binding: costs.map_or(ReplicaBinding::Demand, |costs| costs.binding()).name().to_string(),
            usual_binding: usual_binding(rows),
            shares: COSTS.iter().map(|cost| cost.name()).zip(shares).collect(),
            dependency_lever: costs.map_or(0.0, |costs| costs.dependency_lever()),
            worker_lever: costs.map_or(0.0, |costs| costs.worker_lever()),
            if_halved: COSTS.iter().chain(&[ReplicaBinding::Dependencies, ReplicaBinding::Workers]).map(|&cost| (cost.name(), times(cost))).collect(),
            width: costs.map_or(1.0, |costs| costs.width.min(costs.workers)),
            grouped: costs.map_or(1.0, |costs| costs.grouped(costs.rate())),
            semi_sync,
        }
    }
}
