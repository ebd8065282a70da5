//! The per-I/O form: every client, every page read, every log write by itself, through an event queue, in nanoseconds.
//!
//! ```text
//!  client: own time -> processor -> page reads, one after the other -> commit -> next transaction
//!                                     |                                  |
//!                     dirty pages that make room                one sync under way per log;
//!                                     v                         who comes meanwhile shares the next
//!  page cleaner: a run to the doublewrite area, then each page in its place
//!  compaction: runs of reads and writes beside all that
//! ```
//!
//! Nothing is tuned here: caps, latency and waiting are the volume model's. What is chosen:
//!
//! * Own time and processor time of a transaction share one lognormal factor of mean 1, as wide as the database's p95 over mean: a long transaction is long in both.
//!   Reads are a Poisson number around the cache curve.
//! * A transaction waits for its read-ahead runs like for other reads. With two syncs a commit the first is the redo log's, the second the binary log's.
//! * One-second scatter comes from queues and draws alone; the database's measured noise is not added.
//! * An open load is served by at most 1,024 transactions at once; the rest wait to begin.

mod book;
mod parts;
mod sim;

use super::demand::RUN_BYTES;
use super::interval::{self, Binding, Load, Scenario, Second, Start};
use crate::events::Progress;
use crate::setup::Setup;
use crate::SimError;
use headrace_model::rates::Rates;
use headrace_model::{Host, Instance, Nanos};
use serde::Serialize;
use sim::Sim;
use std::cmp::Reverse;

/// Pages the cleaner may be behind before clients wait for free ones: innodb_lru_scan_depth.
pub const PAGES_BEHIND: u64 = 1_024;
/// A transaction takes this long at least, so that time moves on.
const LEAST_OWN: Nanos = Nanos(1_000);
/// A run of more I/Os and transactions is refused: minutes of work.
const MOST_EVENTS: f64 = 2e9;
const PROGRESS_EVERY: u64 = 1 << 20;

/// What a run came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientsSummary {
    /// Length, s.
    pub seconds: f64,
    /// Transactions answered.
    pub transactions: u64,
    /// Mean response time, ms; in an open load from arrival on.
    pub mean_ms: f64,
    /// Percentiles of the same, ms (HDR histogram, three digits).
    pub p50_ms: f64,
    /// 95th percentile, ms.
    pub p95_ms: f64,
    /// 99th percentile, ms.
    pub p99_ms: f64,
    /// Requests answered by the data device.
    pub data_ios: u64,
    /// Requests answered by the log's own device.
    pub log_ios: u64,
    /// Of all those: reads of single pages.
    pub page_reads: u64,
    /// Read-ahead runs.
    pub read_ahead_runs: u64,
    /// Pages written in place.
    pub pages_written: u64,
    /// Runs to the doublewrite area.
    pub doublewrite_runs: u64,
    /// Synchronous log writes.
    pub log_syncs: u64,
    /// Log writes nobody waited for.
    pub log_runs: u64,
    /// Runs read and written by compaction.
    pub compaction_ios: u64,
    /// Pages handed to the cleaner.
    pub pages_owed: u64,
    /// Most it was behind, pages.
    pub most_pages_behind: u64,
    /// Time clients waited for the cleaner or the log buffer, s, summed over clients.
    pub stalled_s: f64,
    /// The cap that I/Os waited for most; `Demand` when none waited.
    #[serde(skip)]
    pub cap: Binding,
    /// Waits of I/Os by cap, s, summed over I/Os: longest first.
    #[serde(skip)]
    pub waited_s: Vec<(Binding, f64)>,
}

/// Rows and summary.
#[derive(Clone, Debug, Default)]
pub struct ClientsRun {
    /// One per step, in order.
    pub rows: Vec<Second>,
    /// Over all of them.
    pub summary: ClientsSummary,
}

/// Runs a scenario I/O by I/O; a row every `step_s`. The scenario's seed (none: 0) decides every draw, those of the volumes together with their own seeds.
///
/// Errors: what the interval form refuses; runs of more than 2 billion I/Os and transactions; storage that fails; a `progress` that says stop.
pub fn run(scenario: &Scenario<'_>, progress: Progress<'_>) -> Result<ClientsRun, SimError> {
    // No step of the interval form: its rules on loads, steps and databases are the same.
    interval::run(&Scenario { seconds: 0, ..scenario.clone() }, &mut |_| {})?;
    refuse_long(scenario)?;
    let mut sim = Sim::new(scenario);
    sim.open_shop();
    let mut count = 0u64;
    while let Some(Reverse((now, slot))) = sim.queue.pop() {
        sim.reach(now);
        if now >= sim.end {
            break;
        }
        sim.handle(slot, now);
        if sim.lost {
            let rule = "is an I/O error, at which a server stops; give a device that survives its lost members".into();
            return Err(SimError::Load { what: "request to a lost volume", value: scenario.data.storage.to_string(), rule });
        }
        count += 1;
        if count % PROGRESS_EVERY == 0 && !progress(now.as_secs_f64() / sim.end.as_secs_f64()) {
            return Err(SimError::Interrupted);
        }
    }
    let end = sim.end;
    sim.reach(end);
    Ok(sim.finish_run())
}

/// How many I/Os and transactions a run could come to at most, from caps, clients and arrivals.
fn refuse_long(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let database = scenario.database;
    let cap = |limits: &headrace_catalog::VolumeLimits| Rates::of(limits).iops.map_or(limits.throughput_bytes_s as f64 / 4_096.0, |iops| iops as f64);
    let cap: f64 = scenario.data.limits.iter().chain(scenario.log.iter().flat_map(|log| &log.limits)).map(cap).sum();
    let of = |tx: f64| {
        let at = scenario.warm_up.at(tx, &mut 0);
        at.shape * (at.reads + (at.evicted_dirty + at.flushed) * database.page_write().0) + database.log.syncs_per_commit
    };
    let start = start_tx(scenario);
    let asked = match &scenario.load {
        Load::Clients(clients) => f64::from(*clients) / (database.clients.base_ms / 1e3).max(LEAST_OWN.as_secs_f64()),
        Load::Arrivals(rates) => rates.iter().copied().fold(0.0, f64::max),
    };
    let beside = database.writes.background_per_s + database.compaction.as_ref().map_or(0.0, |compaction| compaction.rate_bytes_s / RUN_BYTES);
    let events_s = (asked * of(start) + beside).min(cap) + asked.min(cap / of(scenario.warm_up.settled_tx()).max(1e-9));
    let events = events_s * f64::from(scenario.seconds);
    if events <= MOST_EVENTS {
        return Ok(());
    }
    let rule = format!(
        "may come to {:.1} billion I/Os and transactions ({events_s:.0} a second), above the 2 billion of the per-I/O form: at most {:.0} s here, or the interval form for all of it",
        events / 1e9,
        (MOST_EVENTS / events_s).floor()
    );
    Err(SimError::Load { what: "seconds of this load", value: scenario.seconds.to_string(), rule })
}

fn start_tx(scenario: &Scenario<'_>) -> f64 {
    match scenario.start {
        Start::Cold => 0.0,
        Start::Warm => scenario.warm_up.settled_tx(),
        Start::Transactions(tx) => tx.max(0.0),
    }
}

/// Devices for data and log, with the instance they share; and where the log goes. Seeds keep data, log and runs apart.
fn host_of(scenario: &Scenario<'_>) -> (Host, usize) {
    let alone = |setup: &Setup, salt: u64| {
        let seed = setup.seed.wrapping_add(scenario.seed.unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(salt);
        Setup { instance: None, seed, ..setup.clone() }.host().devices
    };
    let mut devices = alone(scenario.data, 0);
    devices.extend(scenario.log.into_iter().flat_map(|log| alone(log, 1 << 40)));
    let instance = scenario.instance.map(|limits| {
        let mut instance = Instance::new(limits, scenario.data.options.saved_second);
        if let Some(percent) = scenario.data.start_balance_percent {
            instance.set_balance_percent(Nanos::ZERO, percent);
        }
        instance
    });
    let log = devices.len() - 1;
    (Host { instance, devices }, log)
}
