//! Made-up replicas, each held back by one thing: the verdict names it, and the per-I/O form, which
//! knows nothing of shares, says what changing that thing does, and changing another.

use super::bench::{instance, setup, Bench, MIB};
use headrace_sim::mysql::replica::*;

struct Case {
    name: &'static str,
    binding: &'static str,
    bench: fn() -> Bench,
    /// Change that halves the named cost, or doubles the named limit.
    relieve: fn(&mut Bench),
    /// Change of another cost or limit by as much.
    other: fn(&mut Bench),
}

fn without_flushes(mut bench: Bench) -> Bench {
    (bench.settings.flush_log_at_trx_commit, bench.settings.sync_binlog) = (2, 0);
    bench
}

fn workers(bench: Bench, workers: u32) -> Bench {
    let mut bench = bench.workers(ReplicaMode::Writeset, workers);
    // Without the order of commits, and groups that take turns.
    (bench.settings.preserve_order, bench.applier.group_share) = (false, 0.5);
    bench
}

const CASES: [Case; 8] = [
    Case {
        name: "one thread that reads",
        binding: "reads",
        bench: || {
            let mut bench = without_flushes(Bench { cache: 32.0 * MIB, data: setup("gp3:100:16000:1000"), ..Bench::new() });
            (bench.applier.cpu_ms, bench.applier.forced_writes) = (0.05, 0.0);
            bench
        },
        // Pages touched half as often.
        relieve: |bench| bench.applier.written.iter_mut().for_each(|share| *share *= 0.5),
        other: |bench| bench.data = setup("gp3:200:16000:500"),
    },
    Case {
        name: "one thread that flushes",
        binding: "flushes",
        bench: || {
            let mut bench = Bench::new();
            bench.applier.cpu_ms = 0.05;
            bench
        },
        relieve: |bench| bench.applier.flush_factor = 0.5,
        other: |bench| bench.data = setup("gp3:100:6000:500"),
    },
    Case {
        name: "transactions that depend on each other",
        binding: "dependencies",
        bench: || {
            let mut bench = without_flushes(workers(Bench { data: setup("gp3:100:16000:1000"), cache: 100.0 * MIB, ..Bench::new() }, 32));
            bench.applier.writeset_width = 3.0;
            bench
        },
        relieve: |bench| bench.applier.writeset_width = 6.0,
        other: |bench| bench.settings.workers = 64,
    },
    Case {
        name: "a volume at its IOPS",
        binding: "iops",
        bench: || without_flushes(workers(Bench { cache: 48.0 * MIB, data: setup("gp3:100:3000:500"), ..Bench::new() }, 64)),
        relieve: |bench| bench.data = setup("gp3:100:6000:500"),
        other: |bench| bench.applier.cpu_ms *= 0.5,
    },
    Case {
        name: "a volume at its MiB/s",
        binding: "bytes",
        bench: || without_flushes(workers(Bench { cache: 48.0 * MIB, data: setup("gp3:100:16000:125"), ..Bench::new() }, 64)),
        relieve: |bench| bench.data = setup("gp3:100:16000:250"),
        other: |bench| bench.applier.cpu_ms *= 0.5,
    },
    Case {
        name: "two processors",
        binding: "cores",
        bench: || {
            let mut bench = without_flushes(workers(Bench { instance: Some(instance("m5.large")), ..Bench::new() }, 16));
            // Little of it in the commit, which is one at a time whatever processors there are.
            (bench.applier.cpu_ms, bench.applier.spin_ms, bench.applier.commit_cpu_share) = (4.0, 0.0, 0.1);
            bench
        },
        relieve: |bench| bench.instance = Some(instance("m5.xlarge")),
        other: |bench| bench.data = setup("gp3:100:6000:500"),
    },
    Case {
        name: "a flush after each event of the relay log",
        binding: "receive",
        bench: || {
            let mut bench = workers(Bench::new(), 16);
            bench.settings.sync_relay_log = 1;
            bench
        },
        relieve: |bench| bench.settings.sync_relay_log = 2,
        other: |bench| bench.settings.workers = 32,
    },
    Case {
        name: "one thread that computes",
        binding: "processor",
        bench: || {
            let mut bench = without_flushes(Bench::new());
            bench.applier.cpu_ms = 5.0;
            bench
        },
        relieve: |bench| bench.applier.cpu_ms = 2.5,
        other: |bench| bench.instance = Some(instance("m5.4xlarge")),
    },
];

#[test]
fn the_named_thing_moves_the_rate_as_said_and_another_does_not() {
    const SECONDS: u32 = 16;
    for case in &CASES {
        let bench = (case.bench)();
        let summary = bench.run().summary;
        assert_eq!(summary.binding, case.binding, "{}: {:?}", case.name, summary.shares);
        let predicted = summary.if_halved.iter().find(|(name, _)| *name == case.binding).unwrap().1;
        let before = bench.events(SECONDS, 4).0;
        let change = |what: fn(&mut Bench)| {
            let mut changed = (case.bench)();
            what(&mut changed);
            changed.events(SECONDS, 4).0 / before
        };
        let (relieved, other) = (change(case.relieve), change(case.other));
        println!("{}: said x {predicted:.2}, seen x {relieved:.2}; another x {other:.3}; {:.0} tps of {before:.0}", case.name, summary.applier_tps);
        // The bars of the acceptance: 25 % of what is said, 5 % of nothing.
        assert!((relieved / predicted - 1.0).abs() < 0.25, "{}: said {predicted}, seen {relieved}", case.name);
        assert!((other - 1.0).abs() < 0.05, "{}: another thing moved it by {other}", case.name);
    }
}

/// A replica of everything a little: no single share is large, and the verdict says so.
#[test]
fn shares_say_when_nothing_stands_out() {
    let mut bench = Bench { cache: 48.0 * MIB, ..Bench::new() };
    bench.applier.cpu_ms = 2.2;
    let summary = bench.run().summary;
    assert!(summary.shares.iter().all(|(_, share)| *share < 0.6), "{:?}", summary.shares);
}
