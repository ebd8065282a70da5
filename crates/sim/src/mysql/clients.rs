//! The per-I/O form: every client, every page read, every log write by itself, through an event
//! queue, in nanoseconds.
//!
//! ```text
//!  client: rows -> own time -> processor -> serial resource -> page reads, one after the other -> commit -> next transaction
//!                                     |                                  |
//!                     dirty pages that make room                one sync under way per log;
//!                                     v                         commits that come meanwhile share the next
//!  page cleaner: a run to the doublewrite area, then each page in its place
//!  compaction: runs of reads and writes at the same time
//! ```
//!
//! Nothing is tuned here: caps, latency and waiting are the volume model's. These choices are ours:
//!
//! * Two virtual CPUs of a core are not told apart: a transaction's work is as much slower as the
//!   share of the others that is at work when it begins.
//! * Own time and processor time of a transaction share one lognormal factor of mean 1, as wide as
//!   the database's p95 over mean: a long transaction is long in both. Reads are a Poisson number
//!   around the cache curve.
//! * A transaction waits for its read-ahead runs like for other reads. With two syncs a commit the
//!   first is the redo log's, the second the binary log's.
//! * A transaction locks its hot rows when it begins and has them to its end, with the chance that
//!   makes the mean number of locked ones right.
//! * One-second scatter comes from queues and draws alone; the database's measured noise is not
//!   added.
//! * An open load is served by at most 1,024 transactions at once; the rest wait to begin.

mod background;
mod draws;
mod recorder;
mod row_locks;
mod sim;

use super::database::RUN_BYTES;
use super::interval::{self, Scenario, TransactionLoad};
use crate::demand::events::Progress;
use crate::error::SimError;
use headrace_model::rates::Rates;
pub use recorder::{ClientsRun, ClientsSummary};
pub use sim::PAGES_BEHIND;
use sim::{ClientsSim, MIN_OWN_TIME};
use std::cmp::Reverse;

/// A run of more I/Os and transactions is refused: it would compute for many minutes.
const MOST_EVENTS: f64 = 2e9;
/// Events between two calls of the progress function.
const PROGRESS_EVERY: u64 = 1 << 20;

/// Runs a scenario I/O by I/O; a row every `step_s`. The scenario's seed (none: 0) decides every
/// draw, those of the volumes together with their own seeds.
///
/// Errors: what the interval form refuses; runs of more than 2 billion I/Os and transactions;
/// storage that fails; a `progress` that says stop.
pub fn run(scenario: &Scenario<'_>, progress: Progress<'_>) -> Result<ClientsRun, SimError> {
    // No step of the interval form: its rules on loads, steps and databases are the same.
    interval::run(&Scenario { seconds: 0, ..scenario.clone() }, &mut |_| {})?;
    refuse_long(scenario)?;
    let mut sim = ClientsSim::new(scenario);
    sim.start_clients();
    let mut count = 0u64;
    while let Some(Reverse((now, slot))) = sim.queue.pop() {
        sim.reach(now);
        if now >= sim.end {
            break;
        }
        sim.handle(slot, now);
        if sim.lost {
            let rule = "is an I/O error, at which a server stops";
            let hint = "Give a device that survives its lost members.";
            return Err(SimError::refused("request to a lost volume", &scenario.data.storage, rule, hint));
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

/// Refuses a run that caps, clients and arrivals let come to too many I/Os or transactions.
fn refuse_long(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let database = scenario.database;
    let cap = |limits: &headrace_catalog::VolumeLimits| {
        let of_writes = Rates::of(limits).iops.map_or(limits.throughput_bytes_s as f64 / 4_096.0, |iops| iops as f64);
        of_writes + limits.reads.map_or(0.0, |reads| reads.iops as f64)
    };
    let cap: f64 = scenario.data.limits.iter().chain(scenario.log.iter().flat_map(|log| &log.limits)).map(cap).sum();
    let ios_per_tx = |tx: f64| {
        let at = scenario.warm_up.at(tx, &mut 0);
        at.shape * (at.reads + (at.evicted_dirty + at.flushed) * database.page_write().0) + database.log.syncs_per_commit
    };
    let start = scenario.start_tx();
    let demanded_tps = match &scenario.load {
        TransactionLoad::Clients(clients) => f64::from(*clients) / (database.clients.base_ms / 1e3).max(MIN_OWN_TIME.as_secs_f64()),
        TransactionLoad::Arrivals(rates) => rates.iter().copied().fold(0.0, f64::max),
    };
    let background = database.writes.background_per_s + database.compaction.as_ref().map_or(0.0, |compaction| compaction.rate_bytes_s / RUN_BYTES);
    let events_s = (demanded_tps * ios_per_tx(start) + background).min(cap) + demanded_tps.min(cap / ios_per_tx(scenario.warm_up.settled_tx()).max(1e-9));
    let events = events_s * f64::from(scenario.seconds);
    if events <= MOST_EVENTS {
        return Ok(());
    }
    let rule = format!("may come to {:.1} billion I/Os and transactions ({events_s:.0} a second), above the 2 billion of the per-I/O form", events / 1e9);
    let hint = format!("Simulate at most {:.0} s of it, or all of it in the interval form.", (MOST_EVENTS / events_s).floor());
    Err(SimError::refused("seconds of this load", scenario.seconds, rule, hint))
}
