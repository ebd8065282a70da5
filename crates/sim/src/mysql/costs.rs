//! Costs of statements on a server, as counted on real ones: `data/mysql/standards.csv`.
//!
//! The table is made by `benchmarks/standards`: processor time of the server's process, redo or WAL
//! and binary log, of every script of sysbench and of TPROC-C, taken apart into statements. To it
//! comes what a statement takes on its way from the client and back.

use super::database::{Clients, StorageEngine};
use super::interval::{shared_ms, WAKE_MS};
use super::services::quorum::{AZ_RTT_HIGH_MS, AZ_RTT_LOW_MS, ZONE_RTT_MS};
use crate::error::SimError;
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("../../../../data/mysql/standards.csv");
const FILE: &str = "data/mysql/standards.csv";

/// Flavor of a server. Percona Server counts as MySQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// MySQL and what is built from it.
    #[default]
    Mysql,
    /// MariaDB.
    Mariadb,
}

impl Flavor {
    /// Returns the name that releases and runs have.
    pub fn name(self) -> &'static str {
        match self {
            Flavor::Mysql => "mysql",
            Flavor::Mariadb => "mariadb",
        }
    }
}

/// Host of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientHost {
    /// On the server's host, as `headrace bench` runs them: their own processor time is taken from
    /// its processors.
    #[default]
    Same,
    /// On another one of its zone.
    Network,
    /// On one somewhere in the region, as clients of a service are: nobody said in which zone.
    Region,
}

/// Cost of a statement besides its [`Cost`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundTrip {
    /// Processor time on the server's host, ms on a core of the table's speed.
    pub core_ms: f64,
    /// Time without any, ms.
    pub away_ms: f64,
    /// Part of the processor time in which the turn passes between two threads of one host, ms.
    pub handover_ms: f64,
    /// Part of the time without any in which cores that sleep wake up, ms.
    pub wake_ms: f64,
}

/// One thread wakes another and sleeps: 3.8 us (Li, Ding and Shen, Quantifying the Cost of Context
/// Switch, ExpCS 2007: switches between two processes by a pipe on Xeons, without what the caches
/// lose).
pub(super) const SWITCH_MS: f64 = 0.0038;

impl RoundTrip {
    /// Returns the round trip of a statement of clients on this host.
    pub const fn from_host(host: ClientHost) -> RoundTrip {
        match host {
            // sysbench's own 0.010, and 0.003 of TCP over the loopback address
            // (`benchmarks/standards`): it is processor time and nothing else.
            ClientHost::Same => RoundTrip { core_ms: 0.013, away_ms: 0.0, handover_ms: 2.0 * SWITCH_MS, wake_ms: 0.0 },
            // Point selects on an m5.2xlarge (published 2020-07-13, MySQL 8.0.15): 32 threads do
            // 50,733 a second on 8 virtual CPUs (64 do 46,203, so they bind), which at 0.685 of a
            // core of speed 2.97, and 3 % more for four clients a processor, are 0.0916 ms on this
            // table's core, 0.058 more than the statement takes here. Stack and interrupts of the
            // network are in it, and an older server and kernel with Skylake's mitigations. One
            // thread does 5,365 a second: 0.186 ms, of which a core works 0.105.
            ClientHost::Network => RoundTrip { core_ms: 0.058, away_ms: 0.082, handover_ms: 0.0, wake_ms: 0.0 },
            // Most regions have three zones, one of which is the server's: the mean of what lies
            // within it and twice what lies between two, all as `services::quorum` guesses them.
            // Between two both cores fall asleep.
            ClientHost::Region => {
                let wake_ms = 2.0 / 3.0 * WAKE_MS;
                RoundTrip { core_ms: 0.058, away_ms: (ZONE_RTT_MS + AZ_RTT_LOW_MS + AZ_RTT_HIGH_MS) / 3.0 + wake_ms, handover_ms: 0.0, wake_ms }
            }
        }
    }
}

/// Processor time of an I/O of InnoDB beyond that of the transaction, ms on a core by itself:
/// checksums, doublewrite, the list of pages, system calls, interrupts. Half of the time that a
/// page read and the one written for it took of MariaDB 10.11 (`replica::applier::PAGE_CPU_MS`),
/// which is two I/Os.
pub(super) const IO_MS: f64 = 0.03;

/// Cost of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Processor time of the server, ms on a core by itself.
    pub core_ms: f64,
    /// Part of it that threads spend which serve no client, ms.
    pub background_ms: f64,
    /// Redo of InnoDB or WAL of MyRocks, bytes.
    pub log_bytes: f64,
    /// Binary log with full row images, bytes.
    pub binlog_bytes: f64,
}

impl Cost {
    /// Adds the cost of `count` statements that cost `more` each.
    pub fn add(&mut self, count: f64, more: Cost) {
        self.core_ms += count * more.core_ms;
        self.background_ms += count * more.background_ms;
        self.log_bytes += count * more.log_bytes;
        self.binlog_bytes += count * more.binlog_bytes;
    }
}

/// Costs of the statements of one engine in one flavor.
pub(super) struct Costs {
    rows: Vec<(&'static str, Cost)>,
    /// Speed of the cores on which the processor times hold
    /// ([`super::database::Clients::core_speed`]).
    pub core_speed: f64,
}

impl Costs {
    /// Returns the clients of a standard benchmark whose transactions take `core_ms` of a core, of
    /// which other threads of the server spend `background_ms`, and make `trips` round trips that
    /// are on the way for `away_ms` together. Sharpness: TPC-C runs of 2018. Percentile over mean:
    /// guess.
    pub(super) fn clients(&self, (core_ms, background_ms): (f64, f64), (trips, away_ms): (f64, f64), trip: &RoundTrip, serial_share: f64) -> Clients {
        Clients {
            base_ms: away_ms + core_ms - background_ms,
            cpu_ms: shared_ms(core_ms),
            sharpness: 4.0,
            p95_over_mean: 2.0,
            serial_share,
            core_speed: Some(self.core_speed),
            threads_per_core: None,
            alone_faster: None,
            handover_share: trips * trip.handover_ms / core_ms,
            background_share: background_ms / core_ms,
            io_ms: shared_ms(IO_MS),
            io_device_ms: 0.0,
            wake_ms: trips * trip.wake_ms,
        }
    }

    /// Reads the costs of an engine. MyRocks was measured in MariaDB and stands for both flavors.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn read(engine: StorageEngine, flavor: Flavor) -> Result<Costs, SimError> {
        let measured = match (engine, flavor) {
            (StorageEngine::Myrocks, _) => ["myrocks", "mariadb"],
            (StorageEngine::Innodb, Flavor::Mysql) => ["innodb", "mysql"],
            (StorageEngine::Innodb, Flavor::Mariadb) => ["innodb", "mariadb"],
        };
        let (mut rows, mut core_speed) = (Vec::new(), 0.0);
        for row in TABLE.lines().skip(1) {
            let bad = || SimError::refused("row of data/mysql/standards.csv", row, "must hold numbers", "Correct the file.");
            let cells: Vec<&str> = row.split(',').collect();
            let [of_engine, of_flavor, statement, core_ms, background_share, log_bytes, binlog_bytes, speed, ..] = cells[..] else { return Err(bad()) };
            if [of_engine, of_flavor] == measured {
                let number = |text: &str| text.parse::<f64>().map_err(|_| bad());
                let core_ms = number(core_ms)?;
                let background_ms = core_ms * number(background_share)?;
                rows.push((statement, Cost { core_ms, background_ms, log_bytes: number(log_bytes)?, binlog_bytes: number(binlog_bytes)? }));
                core_speed = number(speed)?;
            }
        }
        Ok(Costs { rows, core_speed })
    }

    /// Finds the cost of a statement.
    ///
    /// # Errors
    /// A statement that was not measured.
    pub fn find(&self, statement: &'static str) -> Result<Cost, SimError> {
        let row = self.rows.iter().find(|(name, _)| *name == statement);
        row.map(|(_, cost)| *cost)
            .ok_or_else(|| SimError::refused("statement", statement, format!("is not measured in {FILE}"), "Measure it: benchmarks/standards."))
    }
}
