//! The files of `data/managed/`, and `data/instances_network.csv`.

use super::deployment::Service;
use crate::error::{broken, CatalogError};
use crate::source::Sources;
use crate::table::{in_force, rows, DataFiles};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// A rule of a service: a number, or text where it is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManagedRule {
    /// `ec2`, `rds` or `aurora`.
    pub service: String,
    /// Option it holds for; `any`: all.
    pub option: String,
    /// Name of the rule.
    pub key: String,
    /// Figure in `unit`; empty where it is nobody's promise.
    pub value: String,
    /// Unit of the figure.
    pub unit: String,
    /// First day it was read for.
    pub first_seen: NaiveDate,
    /// Source ids, joined by `+`.
    pub source: String,
    /// `false`: not read in a stored source, or a guess.
    pub confirmed: bool,
    /// Remark about the rule.
    pub note: String,
}

impl ManagedRule {
    /// Returns the figure as a number.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }
}

/// Operation that a service or one of its options does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceLimit {
    /// `ec2`, `rds` or `aurora`.
    pub service: String,
    /// Option it holds for; `any`: all.
    pub option: String,
    /// Operation, as words after "it cannot".
    pub what: String,
    /// The rule behind it.
    pub detail: String,
    /// Source ids, joined by `+`.
    pub source: String,
    /// `false`: not read in a stored source.
    pub confirmed: bool,
}

/// A question of the comparison, with its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the columns are what they are called
pub struct Comparison {
    pub question: String,
    pub whitepaper_2017: String,
    pub ec2: String,
    pub rds: String,
    pub aurora: String,
    /// Source ids, joined by `+`.
    pub source: String,
    /// `false`: a part was not read in a stored source.
    pub confirmed: bool,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRun {
    /// Experiment it belongs to; figures of one family are held out together.
    pub family: String,
    /// Service that was measured: `aurora`, `rds`, `mysql`, `mirrored-mysql`.
    pub service: String,
    /// Load.
    pub benchmark: String,
    /// Class.
    pub class: String,
    /// Clients, where they are known.
    pub clients: Option<u32>,
    /// Data, GB, where they are known.
    pub data_gb: Option<f64>,
    /// Name of the measure.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// Unit of the figure.
    pub unit: String,
    /// Day of the publication.
    pub as_of: NaiveDate,
    /// Source ids, joined by `+`.
    pub source: String,
    /// Remark about the figure.
    pub note: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClassRow {
    pub class: String,
    pub mysql: String,
    pub source: String,
}

/// A rule of RDS storage in a range of sizes.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StorageRow {
    pub storage_type: String,
    pub from_gib: u64,
    pub to_gib: u64,
    pub parameter: String,
    pub value: f64,
    pub first_seen: NaiveDate,
    pub source: String,
}

#[derive(Debug, Clone, Deserialize)]
struct NetworkRow {
    instance_type: String,
    baseline_gbit_s: f64,
    max_gbit_s: f64,
    source: String,
}

/// Price of a class for an hour.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClassPriceRow {
    pub service: String,
    pub class: String,
    pub engine: String,
    pub option: String,
    pub region: String,
    pub first_seen: NaiveDate,
    pub last_seen: NaiveDate,
    pub usd_hour: f64,
    pub source: String,
    pub confirmed: bool,
    pub note: String,
}

/// Price of storage, IOPS, I/O or backup.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StoragePriceRow {
    pub region: String,
    pub service: String,
    pub product: String,
    pub option: String,
    pub component: String,
    pub from_quantity: u64,
    pub usd: f64,
    pub unit: String,
    pub first_seen: NaiveDate,
    pub last_seen: NaiveDate,
    pub source: String,
    pub confirmed: bool,
    pub note: String,
}

/// All of it in memory.
#[derive(Debug)]
pub(crate) struct Managed {
    classes: HashMap<String, ClassRow>,
    network: HashMap<String, f64>,
    pub storage: Vec<StorageRow>,
    rules: Vec<ManagedRule>,
    pub cannot: Vec<ServiceLimit>,
    pub comparison: Vec<Comparison>,
    pub published: Vec<PublishedRun>,
    pub class_prices: HashMap<(String, String), Vec<ClassPriceRow>>,
    pub storage_prices: Vec<StoragePriceRow>,
}

/// Returns the day a row speaks for; says so when it is later than the day asked for.
pub(crate) fn seen(first_seen: NaiveDate, date: NaiveDate) -> String {
    if first_seen > date {
        format!("{first_seen}, later than {date}")
    } else {
        first_seen.to_string()
    }
}

impl Managed {
    /// Reads the files, and refuses rows without a known source or with figures that cannot be.
    pub(crate) fn parse(files: &DataFiles<'_>, sources: &Sources) -> Result<Self, CatalogError> {
        let managed = &files.managed;
        let mut classes = HashMap::new();
        for row in rows::<ClassRow>("managed/classes.csv", managed.classes)? {
            sources.require(&row.source, &format!("managed/classes.csv: {}: field source", row.class))?;
            classes.insert(row.class.clone(), row);
        }
        let mut network = HashMap::new();
        for row in rows::<NetworkRow>("instances_network.csv", files.instances_network)? {
            let place = format!("instances_network.csv: {}: field", row.instance_type);
            sources.require(&row.source, &format!("{place} source"))?;
            if !(row.baseline_gbit_s > 0.0 && row.baseline_gbit_s <= row.max_gbit_s) {
                return Err(broken(&format!("{place} baseline_gbit_s"), "must be above 0 and at most max_gbit_s"));
            }
            network.insert(row.instance_type, row.baseline_gbit_s);
        }
        let storage = rows::<StorageRow>("managed/rds_storage.csv", managed.rds_storage)?;
        for row in &storage {
            sources.require(&row.source, &format!("managed/rds_storage.csv: {} {}: field source", row.storage_type, row.parameter))?;
        }
        let rules = rows::<ManagedRule>("managed/rules.csv", managed.rules)?;
        for row in &rules {
            sources.require(&row.source, &format!("managed/rules.csv: {} {}: field source", row.service, row.key))?;
        }
        let cannot = rows::<ServiceLimit>("managed/cannot.csv", managed.cannot)?;
        for row in &cannot {
            sources.require(&row.source, &format!("managed/cannot.csv: {} {}: field source", row.service, row.what))?;
        }
        let comparison = rows::<Comparison>("managed/features.csv", managed.features)?;
        for row in &comparison {
            sources.require(&row.source, &format!("managed/features.csv: {}: field source", row.question))?;
        }
        let published = rows::<PublishedRun>("managed/published.csv", managed.published)?;
        for row in &published {
            sources.require(&row.source, &format!("managed/published.csv: {} {}: field source", row.family, row.metric))?;
        }
        let (class_prices, storage_prices) = (parse_class_prices(managed.prices_classes, sources)?, parse_storage_prices(managed.prices_storage, sources)?);
        Ok(Managed { classes, network, storage, rules, cannot, comparison, published, class_prices, storage_prices })
    }

    pub(super) fn class(&self, class: &str) -> Option<&ClassRow> {
        self.classes.get(class)
    }

    pub(super) fn network_gbit_s(&self, instance_type: &str) -> Option<f64> {
        self.network.get(instance_type).copied()
    }

    pub(super) fn is_priced(&self, service: Service, class: &str) -> bool {
        self.class_prices.contains_key(&(service.as_str().to_string(), class.to_string()))
    }

    /// Returns the classes of a service, by name.
    pub(super) fn classes_of(&self, service: Service) -> BTreeSet<&str> {
        self.class_prices.keys().filter(|(entry, _)| entry == service.as_str()).map(|(_, class)| class.as_str()).collect()
    }

    /// Returns the rule of a service on a day under an option, else the one that holds for any
    /// option.
    pub(super) fn rule(&self, service: Service, option: &str, key: &str, date: NaiveDate) -> Option<ManagedRule> {
        let rules_under = |option: &str| -> Vec<ManagedRule> {
            let fits = |row: &&ManagedRule| row.service == service.as_str() && row.option == option && row.key == key;
            self.rules.iter().filter(fits).cloned().collect()
        };
        let mut rules = rules_under(option);
        if rules.is_empty() {
            rules = rules_under("any");
        }
        in_force(&rules, date, |row| row.first_seen).cloned()
    }
}

type ClassPrices = HashMap<(String, String), Vec<ClassPriceRow>>;

/// Reads the prices of classes by service and class, USD an hour.
fn parse_class_prices(text: &str, sources: &Sources) -> Result<ClassPrices, CatalogError> {
    let mut prices: ClassPrices = HashMap::new();
    for row in rows::<ClassPriceRow>("managed/prices_classes.csv", text)? {
        let place = format!("managed/prices_classes.csv: {} {} {} {}", row.service, row.class, row.option, row.region);
        sources.require(&row.source, &format!("{place}: field source"))?;
        if !(row.usd_hour > 0.0 && row.usd_hour.is_finite()) || row.last_seen < row.first_seen {
            return Err(broken(&format!("{place}: field usd_hour"), "must be above 0, and last_seen not before first_seen"));
        }
        prices.entry((row.service.clone(), row.class.clone())).or_default().push(row);
    }
    Ok(prices)
}

/// Reads the prices of storage, USD per unit.
fn parse_storage_prices(text: &str, sources: &Sources) -> Result<Vec<StoragePriceRow>, CatalogError> {
    let prices = rows::<StoragePriceRow>("managed/prices_storage.csv", text)?;
    for row in &prices {
        let place = format!("managed/prices_storage.csv: {} {} {} {}", row.service, row.product, row.option, row.component);
        sources.require(&row.source, &format!("{place}: field source"))?;
        if !(row.usd >= 0.0 && row.usd.is_finite()) || row.last_seen < row.first_seen {
            return Err(broken(&format!("{place}: field usd"), "must be 0 or more, and last_seen not before first_seen"));
        }
    }
    Ok(prices)
}
