//! The planner's inner loop for transactions: its shortcuts against the plain interval run, second by second, and laws that must hold whatever the candidate.
//!
//! The reference follows a candidate in steps of 10 s and looks for the lowest hour by adding up every one; the planner looks first at twelve minutes, then takes closed forms.

use headrace_catalog::{Catalog, InstanceLimits, NaiveDate, StorageSpec, VolumeType};
use headrace_model::Cap;
use headrace_sim::mysql::candidates::{evaluate, Candidate, Figures, Outcome, Search, WarmUps, SUSTAINED_S};
use headrace_sim::mysql::interval::{run, Binding, Load, Scenario, Second, Start};
use headrace_sim::mysql::standard::tpcc;
use headrace_sim::mysql::{Database, Engine, PageWrites, WarmUp};
use headrace_sim::{Setup, SimError};
use proptest::prelude::*;

const GIB: f64 = 1_073_741_824.0;
const DAY_S: f64 = 86_400.0;
const STEP_S: f64 = 10.0;
/// The first look takes its figures from the last of twelve steps. How many commits share a log write is taken from the step before, and each step at least halves what is left:
/// 2^-11 of a first difference that stays below a fifth (the log is 1 of 5 or more I/Os of a transaction).
const SETTLED: f64 = 0.2 / 2_048.0;
/// A step of a followed day is 300 s: credits run dry somewhere within one, and the worst hour then holds up to one step of the time before.
const DRY_STEP_S: f64 = 300.0;

fn day() -> NaiveDate {
    "2024-06-01".parse().unwrap()
}

/// What is asked of the planner and of the reference alike.
#[derive(Clone)]
struct Case {
    database: Database,
    storages: Vec<StorageSpec>,
    instances: Vec<InstanceLimits>,
    caches: Vec<f64>,
    load: Load,
    start: Start,
    seconds: f64,
    start_balance_percent: Option<f64>,
    least_tps: f64,
}

impl Case {
    fn new(database: Database, storages: &[&str], instances: &[&str]) -> Case {
        Case {
            database,
            storages: storages.iter().map(|text| text.parse().unwrap()).collect(),
            instances: instances.iter().map(|name| Catalog::embedded().instance(name, day()).unwrap()).collect(),
            caches: vec![2.5 * GIB],
            load: Load::Clients(32),
            start: Start::Warm,
            seconds: DAY_S,
            start_balance_percent: None,
            least_tps: 0.0,
        }
    }

    fn search(&self) -> Search<'_> {
        Search {
            database: &self.database,
            storages: &self.storages,
            instances: &self.instances,
            caches: &self.caches,
            as_of: day(),
            load: self.load.clone(),
            start: self.start,
            seconds: self.seconds,
            start_balance_percent: self.start_balance_percent,
            least_tps: self.least_tps,
        }
    }

    fn outcomes(&self, candidates: &[Candidate]) -> Vec<Outcome> {
        evaluate(&self.search(), &WarmUps::default(), candidates, &mut |_| true).unwrap()
    }

    fn figures(&self, candidate: Candidate) -> Figures {
        ran(&self.outcomes(&[candidate])[0])
    }

    /// The plain interval run.
    fn rows(&self, candidate: Candidate, step_s: f64) -> Vec<Second> {
        let warm_up = WarmUp::new(&self.database, self.caches[candidate.cache]);
        let instance = candidate.instance.map(|index| &self.instances[index]);
        let setup = |index: usize| Setup {
            start_balance_percent: self.start_balance_percent,
            ..Setup::resolve(&self.storages[index].to_string(), instance.map(|one| one.instance_type.as_str()), day()).unwrap()
        };
        let (data, log) = (setup(candidate.data), candidate.log.map(setup));
        let scenario = Scenario {
            database: &self.database,
            warm_up: &warm_up,
            data: &data,
            log: log.as_ref(),
            instance,
            load: self.load.clone(),
            start: self.start,
            seconds: self.seconds as u32,
            step_s,
            seed: None,
            follow: None,
        };
        let mut rows = Vec::new();
        run(&scenario, &mut |second| rows.push(*second)).unwrap();
        rows
    }
}

fn ran(outcome: &Outcome) -> Figures {
    match outcome {
        Outcome::Ran(figures) => **figures,
        other => panic!("{other:?}"),
    }
}

const fn alone(data: usize) -> Candidate {
    Candidate { data, log: None, instance: None, cache: 0 }
}

/// Lowest (or highest) mean over an hour, every hour added up by itself.
fn hourly(rows: &[Second], of: fn(&Second) -> f64, highest: bool) -> f64 {
    let length = ((SUSTAINED_S / STEP_S) as usize).min(rows.len());
    let means = rows.windows(length).map(|hour| hour.iter().map(of).sum::<f64>() / length as f64);
    if highest { means.fold(0.0, f64::max) } else { means.fold(f64::INFINITY, f64::min) }
}

fn mean(rows: &[Second]) -> f64 {
    rows.iter().map(|row| row.tps).sum::<f64>() / rows.len() as f64
}

#[track_caller]
fn assert_near(what: &str, got: f64, wanted: f64, tolerance: f64) {
    assert!((got - wanted).abs() <= tolerance * wanted.abs(), "{what}: {got:.5} for {wanted:.5}, tolerance {:.3} %", 100.0 * tolerance);
}

fn innodb() -> Database {
    tpcc(Engine::Innodb, 100.0).unwrap()
}

/// Like the published m5 runs: the flush list writes at most 500 pages a second (innodb_io_capacity_max).
fn held_flushing() -> Database {
    let database = innodb();
    Database { writes: PageWrites { flush_limit_per_s: 500.0, ..database.writes }, ..database }
}

#[test]
fn without_credits_the_first_look_says_what_a_day_would() {
    for (name, database) in [("tpcc", innodb()), ("flushing held", held_flushing())] {
        let case = Case::new(database, &["io1:200:3000", "io1:200:9000", "2xio1:100:4000", "gp3:200:6000:250", "io1:100:1000"], &["r5.24xlarge"]);
        for data in 0..4 {
            for (log, instance) in [(None, None), (Some(4), None), (None, Some(0)), (Some(4), Some(0))] {
                let candidate = Candidate { data, log, instance, cache: 0 };
                let (figures, rows) = (case.figures(candidate), case.rows(candidate, STEP_S));
                let what = format!("{name}, {candidate:?}");
                assert_near(&what, figures.tps, hourly(&rows[rows.len() / 2..], |row| row.tps, false), SETTLED);
                assert_near(&what, figures.p95_ms, hourly(&rows[rows.len() / 2..], |row| row.p95_ms, true), SETTLED);
                let last = rows.last().unwrap();
                assert_near(&what, figures.ios_per_tx, last.iops / last.tps, SETTLED);
                assert_near(&what, figures.mib_per_tx, last.mib_s / last.tps, SETTLED);
                assert_near(&what, figures.reads_per_tx, last.reads_per_tx, SETTLED);
                assert_eq!(figures.binding, last.binding, "{what}");
                assert_eq!((figures.balance_percent.unwrap_or(100.0), figures.dry_at_s), (100.0, None), "{what}");
            }
        }
    }
}
