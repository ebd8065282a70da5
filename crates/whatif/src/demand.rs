//! Demand over time on many storages, and the day of a storage.

use crate::columns::Columns;
use crate::{day, usd_month, Refusal, WhatIf};
use headrace_catalog::Catalog;
use headrace_sim::cycle::{self, Cycle, Repeated};
use headrace_sim::demand::search::{self, DemandCandidate, DemandOutcome, DemandSearch};
use headrace_sim::{interval, Arrivals, OpenLoad, Point, RunRow, Setup, Summary};
use serde::{Deserialize, Serialize};

/// An open load with its points as columns of equal length.
#[derive(Deserialize)]
pub struct LoadColumns {
    duration_s: Vec<f64>,
    reads_per_s: Vec<f64>,
    writes_per_s: Vec<f64>,
    read_bytes: Vec<f64>,
    write_bytes: Vec<f64>,
    sequential_read_share: f64,
    sequential_write_share: f64,
    arrivals: Arrivals,
    max_outstanding: u32,
    span_bytes: u64,
}

impl LoadColumns {
    /// Returns the load, or the columns that are not of one length.
    pub fn load(&self) -> Result<OpenLoad, Refusal> {
        let points = self.duration_s.len();
        let rates = [&self.reads_per_s, &self.writes_per_s, &self.read_bytes, &self.write_bytes];
        if let Some(other) = rates.iter().find(|column| column.len() != points) {
            let rule = format!("points must be as many as the {points} durations");
            return Err(Refusal::new(other.len().to_string(), rule, "docs/reference/workload-file.md", "Give columns of one length."));
        }
        let point = |i: usize| Point {
            duration_s: self.duration_s[i],
            reads_per_s: self.reads_per_s[i],
            writes_per_s: self.writes_per_s[i],
            read_bytes: self.read_bytes[i],
            write_bytes: self.write_bytes[i],
        };
        Ok(OpenLoad {
            points: (0..points).map(point).collect(),
            sequential_read_share: self.sequential_read_share,
            sequential_write_share: self.sequential_write_share,
            arrivals: self.arrivals,
            max_outstanding: self.max_outstanding,
            span_bytes: self.span_bytes,
        })
    }
}

/// Question about a demand on storages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemandQuestion {
    /// None: that of the question before.
    load: Option<LoadColumns>,
    /// Factor on the requests a second.
    factor: f64,
    storages: Vec<String>,
    /// The instance that all of them are attached to; none: volumes alone.
    instance: Option<String>,
    as_of: Option<String>,
    region: String,
    /// Credits at the start, percent; none: the settled day.
    start_balance_percent: Option<f64>,
    /// The storage, by index, whose day is wanted row by row.
    day_of: Option<usize>,
    /// Longest row of that day, s; none: a row for each point.
    row_s: Option<f64>,
}

/// A storage under the demand.
#[derive(Serialize)]
pub struct DemandChoice {
    storage: String,
    usable_gib: Option<u64>,
    usd_month: Option<f64>,
    /// IOPS without credits; none for mirrors and parities.
    sustained_iops: Option<f64>,
    /// "simulated", or "invalid" and why.
    status: &'static str,
    why: Option<String>,
    judged_p99_ms: Option<f64>,
    settled: Option<bool>,
    dry_after_s: Option<f64>,
    /// The limit that requests waited for longest.
    cap: Option<&'static str>,
    summary: Option<Summary>,
}

/// The storages in the order of the question; the day that was asked for stands in the columns.
#[derive(Serialize)]
pub struct DemandAnswer {
    choices: Vec<DemandChoice>,
}

/// Longest point that becomes a row of its own, s: with it, every point does.
const WHOLE_POINT_S: f64 = 86_400.0;

impl DemandQuestion {
    /// Evaluates the storages, prices them, and adds the day that is asked for to `columns`.
    pub(crate) fn answer(&self, model: &mut WhatIf, columns: &mut Columns) -> Result<DemandAnswer, Refusal> {
        let (as_of, catalog) = (day(self.as_of.as_deref())?, Catalog::embedded());
        let prices = catalog.volume_prices(&self.region, as_of)?;
        let hosts = self.instance.iter().map(|name| catalog.instance(name, as_of)).collect::<Result<Vec<_>, _>>()?;
        let instance = if hosts.is_empty() { None } else { Some(0) };
        let specs = self.storages.iter().map(|storage| storage.parse()).collect::<Result<Vec<_>, _>>()?;
        let (load, memory) = model.memory_of(self.load.as_ref(), self.factor)?;
        let search = DemandSearch {
            load,
            as_of,
            instances: &hosts,
            start_balance_percent: self.start_balance_percent,
            cycle: Cycle::Settled,
            prune_above: f64::INFINITY,
        };
        let candidates: Vec<DemandCandidate> = specs.into_iter().map(|storage| DemandCandidate { storage, instance }).collect();
        let outcomes = search::evaluate(&search, memory, &candidates, &mut |_| true)?;
        let choices = candidates.iter().zip(&outcomes).map(|(candidate, outcome)| {
            let usable_gib = Some(candidate.storage.usable_gib());
            let sustained_iops = catalog.sustained_iops(&candidate.storage, as_of).ok().flatten();
            let usd_month = usd_month(&candidate.storage, &prices);
            DemandChoice { usd_month, usable_gib, sustained_iops, ..choice_of(candidate.storage.to_string(), outcome) }
        });
        let choices = choices.collect();
        if let Some(storage) = self.day_of.and_then(|index| self.storages.get(index)) {
            add_day(columns, &self.day_on(storage, load, as_of)?);
        }
        Ok(DemandAnswer { choices })
    }

    /// Simulates a day on a storage: the settled one, or the first from a start balance.
    fn day_on(&self, storage: &str, load: &OpenLoad, as_of: headrace_catalog::NaiveDate) -> Result<Vec<RunRow>, Refusal> {
        let mut setup = Setup::resolve(storage, self.instance.as_deref(), as_of)?;
        setup.start_balance_percent = self.start_balance_percent;
        let row_s = self.row_s.unwrap_or(WHOLE_POINT_S);
        Ok(match self.start_balance_percent {
            None => cycle::open_settled(&setup, load, row_s)?.0,
            Some(_) => interval::open(&setup, load, row_s)?.rows,
        })
    }
}

/// Makes the entry of a storage, without its size and price.
fn choice_of(storage: String, outcome: &DemandOutcome) -> DemandChoice {
    let nothing = DemandChoice {
        storage,
        usable_gib: None,
        usd_month: None,
        sustained_iops: None,
        status: "invalid",
        why: None,
        judged_p99_ms: None,
        settled: None,
        dry_after_s: None,
        cap: None,
        summary: None,
    };
    match outcome {
        DemandOutcome::Simulated(repeated) => DemandChoice {
            status: "simulated",
            judged_p99_ms: repeated.summary.judged_p99_ms(),
            settled: repeated.settled,
            dry_after_s: repeated.dry_after_s,
            cap: longest_cap(repeated),
            summary: Some(repeated.summary.clone()),
            ..nothing
        },
        DemandOutcome::Bounded(overload) => DemandChoice { why: Some(format!("{overload} times what it sustains")), ..nothing },
        DemandOutcome::Invalid(why) => DemandChoice { why: Some(why.clone()), ..nothing },
    }
}

/// Returns the limit that requests of a cycle waited for longest; None where none waited.
pub fn longest_cap(repeated: &Repeated) -> Option<&'static str> {
    repeated.summary.throttled_by_s.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cap, _)| cap.name())
}

/// Adds the day of a storage, row by row.
fn add_day(columns: &mut Columns, rows: &[RunRow]) {
    let mut add = |name, read: fn(&RunRow) -> Option<f64>| columns.add(name, rows.iter().map(read));
    add("t_s", |row| Some(row.t_s));
    add("asked_iops", |row| Some(row.asked_iops));
    add("asked_mib_s", |row| Some(row.asked_mib_s));
    add("iops", |row| Some(row.iops));
    add("mib_s", |row| Some(row.mib_s));
    add("balance_percent", |row| row.balance_percent);
    add("p99_ms", |row| row.p99_ms);
    add("throttled_s", |row| Some(row.throttled_s));
}
