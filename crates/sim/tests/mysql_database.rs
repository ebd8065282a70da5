//! Ranges of a database and of a load on it: every field has a range, and values within it give
//! numbers.

use headrace_sim::mysql::{interval, standard, Compaction, Database, Scenario, Second, Start, StorageEngine, TransactionLoad, WarmUp};
use headrace_sim::{Setup, SimError};
use proptest::prelude::*;

/// Cases of a property: more of them with PROPTEST_CASES (`make soak`).
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn config(usual: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(usual)) }
}

/// With everything a database can have: compaction too.
fn myrocks() -> Database {
    standard::tpcc(StorageEngine::Myrocks, 100.0).unwrap()
}

fn volume() -> Setup {
    Setup::resolve("gp2:100", None, "2024-06-01".parse().unwrap()).unwrap()
}

/// Half a minute of a few clients.
fn scenario<'a>(database: &'a Database, warm_up: &'a WarmUp, data: &'a Setup) -> Scenario<'a> {
    let load = TransactionLoad::Clients(32);
    Scenario {
        database,
        warm_up,
        data,
        log: None,
        instance: None,
        vcpus: None,
        load,
        start: Start::Cold,
        seconds: 30,
        step_s: 1.0,
        seed: Some(3),
        follow: None,
    }
}

/// A field: a function that puts it out of its range, and the range.
type Field = (&'static str, fn(&mut Database, f64), f64, f64);

const FIELDS: &[Field] = &[
    ("bytes of a read", |d, x| d.read_bytes = x, 512.0, 262_144.0),
    ("bytes of a cached page", |d, x| d.cached_bytes = x, 512.0, 262_144.0),
    ("usable share of the cache", |d, x| d.usable_share = x, 0.01, 1.0),
    ("share of the list behind the midpoint", |d, x| d.old_share = x, 0.05, 1.0),
    ("read-ahead share", |d, x| d.read_ahead_share = x, 0.0, 1.0),
    ("pages flushed per transaction", |d, x| d.writes.flush_per_tx = x, 0.0, 1e5),
    ("transactions until flushing", |d, x| d.writes.flush_ramp_tx = x, 0.0, 1e12),
    ("dirty share of pages read while filling", |d, x| d.writes.first_dirty = x, 0.0, 2.0),
    ("dirty share of pages read later", |d, x| d.writes.later_dirty = x, 0.0, 2.0),
    ("slope of dirty shares", |d, x| d.writes.dirty_slope = x, 0.0, 2.0),
    ("pages written in the background", |d, x| d.writes.background_per_s = x, 0.0, 1e6),
    ("most pages flushed", |d, x| d.writes.flush_limit_per_s = x, 0.0, 1e9),
    ("redo bytes", |d, x| d.log.redo_bytes_per_tx = x, 0.0, 1e9),
    ("binlog bytes", |d, x| d.log.binlog_bytes_per_tx = x, 0.0, 1e9),
    ("syncs of a commit", |d, x| d.log.syncs_per_commit = x, 0.0, 16.0),
    ("response time without I/O", |d, x| d.clients.base_ms = x, 0.0, 1e7),
    ("time of waking up", |d, x| d.clients.wake_ms = x, 0.0, 1e7),
    ("processor time of an I/O before its volume answers", |d, x| d.clients.io_device_ms = x, 0.0, 1e4),
    ("processor time", |d, x| d.clients.cpu_ms = x, 0.0, 1e7),
    ("sharpness", |d, x| d.clients.sharpness = x, 1.0, 64.0),
    ("95th percentile over mean", |d, x| d.clients.p95_over_mean = x, 1.0, 100.0),
    ("Fano factor", |d, x| d.noise.fano = x, 0.0, 1e6),
    ("coefficient of variation", |d, x| d.noise.cv = x, 0.0, 10.0),
    ("pages of a class", |d, x| d.popularity.classes[1].pages = x, 0.0, 1e13),
    ("touches of a page", |d, x| d.popularity.classes[0].touches_per_tx = x, 0.0, 1e6),
    ("measured over modelled", |d, x| d.shape.filling = vec![(10.0, 1.0), (20.0, x)], 0.05, 20.0),
    ("measured over modelled", |d, x| d.shape.full = vec![(1.0, x)], 0.05, 20.0),
    ("position of a point of the shape", |d, x| d.shape.full = vec![(1.0, 1.0), (x, 1.0)], 1.0, 1e15),
    ("position of a point of the shape", |d, x| d.shape.filling = vec![(x, 1.0)], 0.0, 1e15),
    ("95th percentile over mean of a point", |d, x| d.shape.response = vec![(2.0, x)], 1.0, 100.0),
    ("pages read per transaction of a point", |d, x| d.shape.response = vec![(1.0, 2.0), (x, 3.0)], 1.0, 1e7),
    ("pages that are written at once", |d, x| d.shape.burst_pages = x, 0.0, 1e9),
    ("95th percentile over mean of the statements' time", |d, x| d.shape.statements_p95 = x, 1.0, 100.0),
    ("transactions of a compaction period", |d, x| compaction(d).period_tx = x, 1.0, 1e12),
    ("transactions until the first compaction", |d, x| compaction(d).first_tx = x, 0.0, 1e12),
    ("bytes compaction reads", |d, x| compaction(d).read_bytes_per_tx = x, 0.0, 1e9),
    ("bytes compaction writes", |d, x| compaction(d).write_bytes_per_tx = x, 0.0, 1e9),
    ("bytes a second of compaction", |d, x| compaction(d).rate_bytes_s = x, 1e3, 1e12),
    ("part of a compaction profile", |d, x| compaction(d).profile = vec![1.0, x, 1.0], 0.05, 20.0),
];

fn compaction(database: &mut Database) -> &mut Compaction {
    database.compaction.as_mut().unwrap()
}

proptest! {
    #![proptest_config(config(256))]

    /// Every field has a range; its ends are taken, beyond is refused by name with the value, and
    /// so is what is not a number.
    #[test]
    fn a_database_out_of_range_is_refused(index in 0..FIELDS.len(), beyond in 1e-6f64..1e6, inside in 0.0f64..1.0) {
        let (what, set, low, high) = FIELDS[index];
        let with = |value: f64| {
            let mut database = myrocks();
            set(&mut database, value);
            database
        };
        for good in [low, high, low + inside * (high - low)] {
            prop_assert!(with(good).check().is_ok(), "{what} {good}: {:?}", with(good).check());
        }
        // At least so far that doubles tell it from the end.
        let bad = [low - beyond - 1e-9 * low, high * (1.0 + 1e-9) + beyond, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for value in bad {
            let error = with(value).check().unwrap_err();
            let text = error.to_string();
            prop_assert!(matches!(error, SimError::Load { .. }) && text.contains(what) && text.contains(&value.to_string()), "{what} {value}: {text}");
        }
    }

    /// Databases that the check lets through give finite rows: fields drawn over their ranges, a
    /// few at a time.
    #[test]
    fn what_is_accepted_gives_numbers(fields in prop::collection::vec((0..FIELDS.len(), 0.0f64..1.0, 0.0f64..1.0), 0..5), cold in any::<bool>(), open in any::<bool>()) {
        let mut database = myrocks();
        for &(index, share, decades) in &fields {
            let (_, set, low, high) = FIELDS[index];
            // From the lowest to the highest over twelve decades.
            set(&mut database, low + share * (high - low) * 10f64.powf(-12.0 * decades));
        }
        prop_assume!(database.check().is_ok());
        let load = if open { TransactionLoad::Arrivals(vec![50.0]) } else { TransactionLoad::Clients(32) };
        let start = if cold { Start::Cold } else { Start::Warm };
        let warm_up = WarmUp::new(&database, 8e9);
        let data = volume();
        let scenario = Scenario { load, start, ..scenario(&database, &warm_up, &data) };
        let mut rows: Vec<Second> = Vec::new();
        interval::run(&scenario, &mut |second| rows.push(*second)).unwrap();
        prop_assert_eq!(rows.len(), 30);
        for row in rows {
            let numbers = [row.tps, row.p95_ms, row.iops, row.mib_s, row.cached_share, row.dirty_share, row.reads_per_tx, row.backlog, row.balance_percent.unwrap_or(0.0)];
            prop_assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{row:?}");
        }
    }
}

#[test]
fn a_database_holds_pages_and_its_profile_parts() {
    for (pages, word) in [(0.0, "pages of all classes"), (f64::NAN, "pages of a class")] {
        let mut none = myrocks();
        none.popularity.classes.iter_mut().for_each(|class| class.pages = pages);
        assert!(none.check().unwrap_err().to_string().contains(word));
    }
    for (parts, word) in [(0, "parts of a compaction profile"), (1_001, "parts of a compaction profile")] {
        let mut database = myrocks();
        compaction(&mut database).profile = vec![1.0; parts];
        assert!(database.check().unwrap_err().to_string().contains(word));
    }
    for classes in [0, 257] {
        let mut database = myrocks();
        database.popularity.classes = vec![database.popularity.classes[0]; classes];
        assert!(database.check().unwrap_err().to_string().contains("number of page classes"));
    }
}

#[test]
fn loads_that_cannot_be_are_refused() {
    let (database, data) = (myrocks(), volume());
    let warm_up = WarmUp::new(&database, 8e9);
    let refused = |scenario: Scenario<'_>, word: &str| {
        let mut seen = 0;
        let text = interval::run(&scenario, &mut |_| seen += 1).unwrap_err().to_string();
        assert!(text.contains(word) && seen == 0, "{text}");
    };
    let with = |load: TransactionLoad| Scenario { load, ..scenario(&database, &warm_up, &data) };
    for clients in [0, 65_537] {
        refused(with(TransactionLoad::Clients(clients)), "clients");
    }
    refused(with(TransactionLoad::Arrivals(Vec::new())), "arrival rates");
    for rate in [-1.0, 1.1e7, f64::NAN, f64::INFINITY] {
        refused(with(TransactionLoad::Arrivals(vec![1.0, rate])), "transactions a second");
    }
    for step_s in [0.0, 0.05, 3_601.0, -1.0, f64::NAN] {
        refused(Scenario { step_s, ..scenario(&database, &warm_up, &data) }, "length of a step");
    }
    let mut broken = database.clone();
    broken.clients.sharpness = f64::NAN;
    refused(scenario(&broken, &warm_up, &data), "sharpness");
}
