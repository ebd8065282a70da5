//! What statements take of a server, as counted on real ones: `data/mysql/standards.csv`.
//!
//! The table is made by `benchmarks/standards`: processor time of the server's process, redo or WAL
//! and binary log, of every script of sysbench and of TPROC-C, taken apart into statements.

use super::database::StorageEngine;
use crate::error::SimError;
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("../../../../data/mysql/standards.csv");
const FILE: &str = "data/mysql/standards.csv";

/// Whose server it is. Percona's counts as MySQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// MySQL and what is built from it.
    #[default]
    Mysql,
    /// MariaDB.
    Mariadb,
}

/// What a statement takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Processor time of the server, ms of a virtual CPU that shares its core with another at work.
    pub cpu_ms: f64,
    /// Redo of InnoDB or WAL of MyRocks, bytes.
    pub log_bytes: f64,
    /// Binary log with full row images, bytes.
    pub binlog_bytes: f64,
}

/// Costs of the statements of one engine in one flavor.
pub(super) struct Costs {
    rows: Vec<(&'static str, Cost)>,
    /// Speed of the cores on which the processor times hold
    /// ([`super::database::Clients::core_speed`]).
    pub core_speed: f64,
}

impl Costs {
    /// Reads the costs of an engine. MyRocks was measured in MariaDB and stands for both flavors.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn of(engine: StorageEngine, flavor: Flavor) -> Result<Costs, SimError> {
        let wanted = match (engine, flavor) {
            (StorageEngine::Myrocks, _) => ["myrocks", "mariadb"],
            (StorageEngine::Innodb, Flavor::Mysql) => ["innodb", "mysql"],
            (StorageEngine::Innodb, Flavor::Mariadb) => ["innodb", "mariadb"],
        };
        let (mut rows, mut core_speed) = (Vec::new(), 0.0);
        for row in TABLE.lines().skip(1) {
            let bad = || SimError::refused("row of data/mysql/standards.csv", row, "must hold numbers", "Correct the file.");
            let cells: Vec<&str> = row.split(',').collect();
            let [of_engine, of_flavor, statement, cpu_ms, log_bytes, binlog_bytes, speed, ..] = cells[..] else { return Err(bad()) };
            if [of_engine, of_flavor] == wanted {
                let number = |text: &str| text.parse::<f64>().map_err(|_| bad());
                rows.push((statement, Cost { cpu_ms: number(cpu_ms)?, log_bytes: number(log_bytes)?, binlog_bytes: number(binlog_bytes)? }));
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
