//! A load repeated until the storage's balances settle: what a day looks like once every day is
//! like it.
//!
//! The first day starts with full credits. Each next day starts with what the day before left,
//! until a day ends as it began: the balances have settled. Balances never settle if a cycle takes
//! more credits than come back: the credits run dry on some day, and from then on requests pile up
//! from one day to the next.
//!
//! ```text
//!  balance  |\                                        |\    /\    /\      settled: the night brings back what the day takes
//!           | \  /\                                   | \  /  \  /
//!           |  \/  \  /\                              |  \/    \/
//!           |       \/  \  /\____ dry on day 4        |
//!             day 1  2   3  4
//! ```
//!
//! Days that differ only in the level of the balances need no simulation: as long as no balance
//! runs full or empty, each day takes off the same amount.

use crate::demand::interval::{cut, measure, row_collector, Driver};
use crate::demand::load::OpenLoad;
use crate::demand::measure::MeasuredLoad;
use crate::demand::mixture::OwnLatency;
use crate::error::SimError;
use crate::report::{RunRow, Summary};
use crate::setup::Setup;

/// Time through the load that a simulation reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cycle {
    /// The first one, with the credits it starts with.
    First,
    /// The one that ends as it began.
    #[default]
    Settled,
}

/// Result of a load that is repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// The settled cycle; where there is none, one of those that begin with credits gone.
    pub summary: Summary,
    /// The first cycle, where it was another.
    pub first: Option<Box<Summary>>,
    /// True if cycles end as they begin; none if only the first was simulated.
    pub settled: Option<bool>,
    /// Loss of the worst balance in each cycle until it is dry, percent of the full balance; none
    /// if cycles settle or no credits are lost.
    pub loses_percent_per_cycle: Option<f64>,
    /// When credits were first gone, s from the start of the first cycle; none: never.
    pub dry_after_s: Option<f64>,
}

impl Repeated {
    /// Makes the answer of the first cycle alone.
    pub fn first_only(summary: Summary) -> Repeated {
        Repeated { dry_after_s: dry_at_s(&summary), summary, ..Repeated::default() }
    }

    /// Returns the summary of the first cycle.
    pub fn first(&self) -> &Summary {
        self.first.as_deref().unwrap_or(&self.summary)
    }
}

/// Runs an open load again and again until its balances settle: rows and summary are those of the
/// settled cycle. Points longer than `interval_s` are cut into rows of that length.
pub fn open_settled(setup: &Setup, load: &OpenLoad, interval_s: f64) -> Result<(Vec<RunRow>, Repeated), SimError> {
    load.check()?;
    let load = cut(load, interval_s)?;
    let measured = measure(setup, &load);
    let own = OwnLatency::cached(&measured.latency_key(setup));
    let mut rows = Vec::with_capacity(load.points.len());
    let repeated = repeat(setup, &measured, &own, Some(&mut rows))?;
    Ok((rows, repeated))
}

/// Cycles that are simulated at most. Two or three are usual; more only where a backlog needs
/// several to settle.
const MAX_CYCLES: usize = 40;

/// Repeats a load; with `rows`, those of the cycle that the summary is of. Events that happen once
/// (a modification, a degradation event, first touch) are refused.
pub fn repeat(setup: &Setup, measured: &MeasuredLoad, own: &OwnLatency, rows: Option<&mut Vec<RunRow>>) -> Result<Repeated, SimError> {
    if setup.has_events() || setup.snapshot.is_some() || !setup.failed_members.is_empty() {
        let what = "a modification, degradation, snapshot or lost member";
        return Err(SimError::refused(what, &setup.storage, "happens once; a settled cycle is one of many", "Ask for the first cycle."));
    }
    let driver = Driver::new(setup, measured, own, true);
    Ok(match rows {
        None => settle(driver, measured, &mut |driver| driver.cycle(&mut |_, _, _, _, _| {})),
        Some(rows) => settle(driver, measured, &mut |driver| {
            rows.clear();
            driver.cycle(&mut row_collector(rows, own))
        }),
    })
}

/// Repeats a load until its balances settle, or until a cycle was stopped: a later one would have
/// waited at least as long, as it begins with less.
pub(crate) fn settle(mut driver: Driver<'_>, measured: &MeasuredLoad, run: &mut dyn FnMut(&mut Driver<'_>) -> Summary) -> Repeated {
    let seconds = measured.seconds();
    let stopped = |driver: &Driver<'_>, summary: &Summary| summary.throttled_s > driver.stop_above_s;
    let mut before = driver.fluid.balances();
    let first = run(&mut driver);
    if stopped(&driver, &first) {
        return Repeated::first_only(first);
    }
    let mut dry_after_s = dry_at_s(&first);
    let mut last: Option<Summary> = None;
    let mut settled = false;
    // Cycles so far, including those that were left out because they would be like the cycle
    // before.
    let mut elapsed = 1.0;
    for _ in 1..MAX_CYCLES {
        driver.fluid.begin_again(seconds);
        settled = driver.fluid.is_at(&before, measured);
        if settled || driver.fluid.is_beyond_help(&before, measured) {
            break;
        }
        elapsed += driver.fluid.leave_out_like_cycles(&before);
        before = driver.fluid.balances();
        let summary = run(&mut driver);
        dry_after_s = dry_after_s.or(dry_at_s(&summary).map(|at_s| at_s + elapsed * seconds));
        elapsed += 1.0;
        let ends = stopped(&driver, &summary);
        last = Some(summary);
        if ends {
            break;
        }
    }
    let loses_percent_per_cycle = if settled { None } else { driver.fluid.loses_percent(measured) };
    let (summary, first) = match last {
        None => (first, None),
        Some(last) => (last, Some(Box::new(first))),
    };
    Repeated { summary, first, settled: Some(settled), loses_percent_per_cycle, dry_after_s }
}

/// Returns the first moment at which credits of the volume or the instance were gone, s.
fn dry_at_s(summary: &Summary) -> Option<f64> {
    [summary.credits_empty_at_s, summary.instance_empty_at_s].into_iter().flatten().min_by(f64::total_cmp)
}
