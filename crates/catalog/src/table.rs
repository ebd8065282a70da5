//! The data files, and reading the CSV files so that an error names file, row and field.

use crate::error::broken;
use crate::error::CatalogError;
use chrono::NaiveDate;
use serde::de::DeserializeOwned;

/// The text of every data file, so that a changed file can be tried without building anew.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // `NAME.csv`; `rules` is `rules.toml`
pub struct DataFiles<'a> {
    pub sources: &'a str,
    pub rules: &'a str,
    /// Name and text of each file of `volumes/`.
    pub volumes: Vec<(&'a str, &'a str)>,
    pub instances: &'a str,
    pub processors: &'a str,
    pub instances_limits: &'a str,
    pub instances_launch: &'a str,
    pub instances_local_iops: &'a str,
    pub prices_regions: &'a str,
    pub prices_volumes: &'a str,
    pub prices_instances: &'a str,
    pub prices_commitments: &'a str,
    pub instances_network: &'a str,
    /// The files of `managed/`.
    pub managed: ManagedFiles<'a>,
}

/// The text of the files about managed services, each named as its file.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // `managed/NAME.csv`
pub struct ManagedFiles<'a> {
    pub classes: &'a str,
    pub rds_storage: &'a str,
    pub rules: &'a str,
    pub cannot: &'a str,
    pub features: &'a str,
    pub published: &'a str,
    pub prices_classes: &'a str,
    pub prices_storage: &'a str,
}

macro_rules! data {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/", $file))
    };
}

/// Files that a browser does not get, half of all data: hourly prices, commitments, networks and
/// managed services. A browser asks about EC2 alone, and the hourly price comes with the plan.
#[cfg(not(target_family = "wasm"))]
macro_rules! not_in_browsers {
    ($file:literal) => {
        data!($file)
    };
}
#[cfg(target_family = "wasm")]
macro_rules! not_in_browsers {
    ($file:literal) => {
        ""
    };
}

impl DataFiles<'static> {
    /// Returns the files this crate was built with.
    pub fn embedded() -> Self {
        DataFiles {
            sources: data!("sources.csv"),
            rules: data!("rules.toml"),
            volumes: vec![
                ("volumes/standard.toml", data!("volumes/standard.toml")),
                ("volumes/gp2.toml", data!("volumes/gp2.toml")),
                ("volumes/gp3.toml", data!("volumes/gp3.toml")),
                ("volumes/io1.toml", data!("volumes/io1.toml")),
                ("volumes/io2.toml", data!("volumes/io2.toml")),
                ("volumes/io2-block-express.toml", data!("volumes/io2-block-express.toml")),
                ("volumes/st1.toml", data!("volumes/st1.toml")),
                ("volumes/sc1.toml", data!("volumes/sc1.toml")),
                ("volumes/instance-store.toml", data!("volumes/instance-store.toml")),
            ],
            instances: data!("instances.csv"),
            processors: data!("processors.csv"),
            instances_limits: data!("instances_limits.csv"),
            instances_launch: data!("instances_launch.csv"),
            instances_local_iops: data!("instances_local_iops.csv"),
            prices_regions: data!("prices_regions.csv"),
            prices_volumes: data!("prices_volumes.csv"),
            prices_instances: not_in_browsers!("prices_instances.csv"),
            prices_commitments: not_in_browsers!("prices_commitments.csv"),
            instances_network: not_in_browsers!("instances_network.csv"),
            managed: ManagedFiles {
                classes: not_in_browsers!("managed/classes.csv"),
                rds_storage: not_in_browsers!("managed/rds_storage.csv"),
                rules: not_in_browsers!("managed/rules.csv"),
                cannot: not_in_browsers!("managed/cannot.csv"),
                features: not_in_browsers!("managed/features.csv"),
                published: not_in_browsers!("managed/published.csv"),
                prices_classes: not_in_browsers!("managed/prices_classes.csv"),
                prices_storage: not_in_browsers!("managed/prices_storage.csv"),
            },
        }
    }
}

/// Returns all rows of a file.
pub(crate) fn rows<T: DeserializeOwned>(file: &str, text: &str) -> Result<Vec<T>, CatalogError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| broken(file, &error.to_string()))?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(file, &error.to_string()))?;
        let row = record.deserialize(Some(&headers)).map_err(|error| {
            let line = record.position().map_or(0, csv::Position::line);
            let (field, reason) = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => (err.field().and_then(|index| headers.get(index as usize)).unwrap_or("?"), err.kind().to_string()),
                _ => ("?", error.to_string()),
            };
            broken(&format!("{file}: line {line} ({}): field {field}", record.get(0).unwrap_or_default()), &reason)
        })?;
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the row in force on a day: the newest not after it, else the oldest.
pub(crate) fn in_force<T>(rows: &[T], date: NaiveDate, first_seen: impl Fn(&T) -> NaiveDate) -> Option<&T> {
    rows.iter().filter(|row| first_seen(row) <= date).max_by_key(|row| first_seen(row)).or_else(|| rows.iter().min_by_key(|row| first_seen(row)))
}
