//! A source and its replica, to be varied.

pub use crate::common::day;
use headrace_catalog::{Catalog, InstanceLimits};
use headrace_sim::mysql::interval::{Scenario, Start, TransactionLoad};
use headrace_sim::mysql::replica::*;
use headrace_sim::mysql::sysbench::{Distribution, Oltp, Script};
use headrace_sim::mysql::{Database, WarmUp};
use headrace_sim::Setup;

pub const MIB: f64 = 1_048_576.0;

pub fn setup(storage: &str) -> Setup {
    Setup::resolve(storage, None, day()).unwrap()
}

/// sysbench's oltp_write_only over 416 MiB drawn evenly: 1,800,000 rows in 4 tables.
pub fn write_only() -> (Database, Vec<f64>) {
    let options = Oltp { script: Script::OltpWriteOnly, distribution: Distribution::Uniform {}, tables: 4, table_size: 464_000, ..Oltp::default() };
    (options.database().unwrap(), options.changed())
}

pub struct Bench {
    pub database: Database,
    pub applier: Applier,
    pub settings: ReplicaSettings,
    pub source_cache: f64,
    pub cache: f64,
    pub data: Setup,
    pub log: Option<Setup>,
    pub relay: Option<Setup>,
    pub instance: Option<InstanceLimits>,
    pub tps: Vec<f64>,
    pub step_s: f64,
    pub drain_s: u32,
    pub large: Vec<LargeTransaction>,
    pub semi_sync: Option<SemiSync>,
}

impl Bench {
    /// MariaDB 10.11, durable with a binary log of its own, all data in the cache, on a gp3 of
    /// 3,000 IOPS.
    pub fn new() -> Bench {
        let (database, changed) = write_only();
        Bench {
            applier: Applier::of_source(&database, Some(&changed)),
            database,
            settings: ReplicaSettings { mode: ReplicaMode::Single, log_bin: true, ..ReplicaSettings::of_version("mariadb", "10.11").unwrap() },
            source_cache: 700.0 * MIB,
            cache: 700.0 * MIB,
            data: setup("gp3:100:3000:500"),
            log: None,
            relay: None,
            instance: None,
            tps: vec![2_000.0; 60],
            step_s: 1.0,
            drain_s: 100_000,
            large: Vec::new(),
            semi_sync: None,
        }
    }

    /// `workers` threads in a mode.
    pub fn workers(mut self, mode: ReplicaMode, workers: u32) -> Bench {
        (self.settings.mode, self.settings.workers) = (mode, workers);
        self
    }

    pub fn with<T>(&self, use_it: impl FnOnce(&ReplicaScenario<'_>) -> T) -> T {
        let replica = replica_database(&self.database, &self.applier, &self.settings, 0.0, (self.source_cache, self.cache)).unwrap();
        let (of_source, warm_up) = (WarmUp::new(&self.database, self.source_cache), WarmUp::new(&replica, self.cache));
        let source_data = setup("io2:100:60000");
        let source = Scenario {
            database: &self.database,
            warm_up: &of_source,
            data: &source_data,
            log: None,
            instance: None,
            vcpus: None,
            load: TransactionLoad::Clients(16),
            start: Start::Warm,
            seconds: self.tps.len() as u32,
            step_s: self.step_s,
            seed: None,
            follow: None,
        };
        use_it(&ReplicaScenario {
            source,
            applier: &self.applier,
            settings: &self.settings,
            database: &replica,
            warm_up: &warm_up,
            cache_bytes: self.cache,
            storage: ReplicaStorage { data: &self.data, log: self.log.as_ref(), relay: self.relay.as_ref(), instance: self.instance.as_ref() },
            start: Start::Warm,
            semi_sync: self.semi_sync.as_ref(),
            large: &self.large,
            drain_s: self.drain_s,
            source_tps: Some(&self.tps),
            received: false,
        })
    }

    pub fn run(&self) -> ReplicaRun {
        self.with(|scenario| run(scenario).unwrap())
    }

    /// Transactions a second of an applier that always has enough to do.
    pub fn rate(&self) -> f64 {
        self.run().summary.applier_tps
    }

    /// Returns the rate I/O by I/O over `seconds`, the first of them left out: queues and saved
    /// seconds of caps; and the counters.
    pub fn events(&self, seconds: u32, left_out: usize) -> (f64, ReplicaEvents) {
        let outcome = self.with(|scenario| run_events(scenario, &vec![50_000.0; seconds as usize], seconds, 7).unwrap());
        let rest = &outcome.applied[left_out..];
        (rest.iter().sum::<u64>() as f64 / rest.len() as f64, outcome)
    }
}

pub fn instance(name: &str) -> InstanceLimits {
    Catalog::embedded().instance(name, day()).unwrap()
}
