//! Managed services next to EC2: what RDS and Aurora for MySQL allow, cost and promise on a day.
//!
//! ```text
//!  Deployment  ec2 | rds:single-az | rds:multi-az | rds:multi-az-cluster | aurora:standard | aurora:io-optimized
//!     |
//!     +-- class      db.r6g.2xlarge runs on an r6g.2xlarge: its limits are the instance's
//!     +-- storage    RDS: an array of EBS volumes that RDS lays out (below 400 GiB one, from there four); Aurora: none to choose
//!     +-- bill       class hours, storage, IOPS, I/O, by item with day and source
//!     +-- facts      failover, loss, limits, what it cannot do
//! ```
//!
//! The tables are `data/managed/*.csv`. A row holds from its first day until the next row of the
//! same thing; before the first row, the first is used and says so, as for prices of volumes.

mod bill;
mod deployment;
mod rds;
mod tables;

pub use bill::{ServiceBill, ServiceSpec, HOURS_PER_MONTH};
pub use deployment::{Deployment, Service};
pub use rds::{RdsRange, RdsStorage};
pub use tables::{Comparison, ManagedRule, PublishedRun, ServiceLimit};

pub(crate) use tables::Managed;

use crate::error::{did_you_mean, CatalogError, Problem};
use crate::instance::InstanceLimits;
use crate::{Catalog, NaiveDate, VolumeSpec, VolumeType};
use serde::Serialize;

/// Machine behind a class of a managed service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceClass {
    /// Name at the service: `db.r6g.2xlarge`; on EC2 the instance type.
    pub class: String,
    /// EC2 type it runs on: its processors, memory and EBS limits.
    pub limits: InstanceLimits,
    /// Network bandwidth that can be held, bytes per second; `None` where no source names it.
    pub network_bytes_s: Option<f64>,
    /// Versions of MySQL the service lists for it; empty where no list names the class.
    pub mysql: String,
    /// Source ids of the list, joined by `+`.
    pub source: String,
}

impl Catalog {
    /// Returns the machine of a server of a deployment. `instance_type` is an EC2 type, or a class
    /// `db.TYPE`.
    ///
    /// # Errors
    /// [`CatalogError::UnknownInstance`] where the service does not offer the class,
    /// [`CatalogError::NotYet`] before the service or the type existed.
    pub fn service_class(&self, deployment: Deployment, instance_type: &str, date: NaiveDate) -> Result<ServiceClass, CatalogError> {
        let lower = instance_type.trim().to_ascii_lowercase();
        let name = lower.strip_prefix("db.").unwrap_or(&lower);
        self.check_launched(deployment, "launched_on", date)?;
        if deployment.service() == Service::Ec2 {
            return self.ec2_class(name, date);
        }
        let limits = self.instance(name, date)?;
        let managed = self.managed_tables()?;
        let network_bytes_s = managed.network_gbit_s(name).map(|gbit| gbit * 1e9 / 8.0);
        let class = format!("db.{name}");
        let row = managed.class(&class);
        if !managed.is_priced(deployment.service(), &class) && (row.is_none() || deployment.service() == Service::Aurora) {
            let classes = managed.classes_of(deployment.service());
            let hint = did_you_mean(&class, classes.iter().copied(), "Choose a class of the service's price list (data/managed/prices_classes.csv).");
            return Err(CatalogError::UnknownInstance(Box::new(Problem::new(
                class,
                format!("is not a class of {} in these tables", deployment.service().title()),
                "data/managed/prices_classes.csv, classes.csv",
                hint,
            ))));
        }
        let (mysql, source) = row.map_or_else(|| (String::new(), "coroot-managed".to_string()), |row| (row.mysql.clone(), row.source.clone()));
        Ok(ServiceClass { class, limits, network_bytes_s, mysql, source })
    }

    /// Returns an instance type as the class that runs MySQL on EC2. It has no network, since
    /// EBS has its own; no table of a managed service is read.
    ///
    /// # Errors
    /// Those of [`Catalog::instance`].
    pub fn ec2_class(&self, instance_type: &str, date: NaiveDate) -> Result<ServiceClass, CatalogError> {
        let limits = self.instance(instance_type, date)?;
        let (class, source) = (limits.instance_type.clone(), limits.limits_source.clone());
        Ok(ServiceClass { class, limits, network_bytes_s: None, mysql: String::new(), source })
    }

    /// Returns the volumes behind storage that RDS is asked for. IOPS and MiB/s that are not named,
    /// or are lower than the included ones, are the included ones.
    ///
    /// # Errors
    /// [`CatalogError::Limit`] for a type, size, IOPS or throughput that RDS does not take,
    /// [`CatalogError::NotYet`] before it took the type.
    pub fn rds_storage(&self, volume: &VolumeSpec, date: NaiveDate) -> Result<RdsStorage, CatalogError> {
        self.check_launched(Deployment::RdsSingleAz, &format!("{}_launched_on", volume.volume_type), date)?;
        let storage = self.managed_tables()?.rds_storage(volume, date)?;
        // The members are EBS volumes: what EBS refuses on that day, RDS cannot have.
        self.storage_limits(&storage.array, date, None)?;
        Ok(storage)
    }

    /// Returns the ranges of sizes (GiB) of a volume type at RDS, and the rules of each; empty
    /// where RDS does not offer the type on that day.
    ///
    /// # Errors
    /// [`CatalogError::Data`] for a table of `data/managed` that cannot be read.
    pub fn rds_ranges(&self, volume_type: VolumeType, date: NaiveDate) -> Result<Vec<RdsRange>, CatalogError> {
        if self.check_launched(Deployment::RdsSingleAz, &format!("{volume_type}_launched_on"), date).is_err() {
            return Ok(Vec::new());
        }
        Ok(self.managed_tables()?.rds_ranges(volume_type, date))
    }

    /// Returns the bill of a month of a server, item by item; what has no price is named.
    ///
    /// # Errors
    /// Those of [`Catalog::service_class`], [`Catalog::rds_storage`] and [`Catalog::monthly_cost`].
    pub fn service_bill(&self, spec: &ServiceSpec, region: &str, date: NaiveDate) -> Result<ServiceBill, CatalogError> {
        bill::bill(self, spec, region, date)
    }

    /// Returns a rule of a service on a day; that of the deployment before that of all of the
    /// service.
    pub fn managed_rule(&self, deployment: Deployment, key: &str, date: NaiveDate) -> Option<ManagedRule> {
        self.managed_tables().ok()?.rule(deployment.service(), deployment.option(), key, date)
    }

    /// Returns a rule of a service on a day under another option: `reader`, `no-reader` of Aurora.
    pub fn managed_rule_of(&self, service: Service, option: &str, key: &str, date: NaiveDate) -> Option<ManagedRule> {
        self.managed_tables().ok()?.rule(service, option, key, date)
    }

    /// Returns the operations that a deployment does not allow.
    pub fn service_limits(&self, deployment: Deployment) -> Vec<&ServiceLimit> {
        let applies = |row: &&ServiceLimit| row.service == deployment.service().as_str() && (row.option == "any" || row.option == deployment.option());
        self.managed_tables().map_or_else(|_| Vec::new(), |tables| tables.cannot.iter().filter(applies).collect())
    }

    /// Returns the comparison of EC2, RDS and Aurora, question by question, in 2017 and now.
    pub fn service_comparison(&self) -> &[Comparison] {
        self.managed_tables().map_or(&[], |tables| &tables.comparison)
    }

    /// Returns the published figures of Aurora and of the services in the same comparisons.
    pub fn published_services(&self) -> &[PublishedRun] {
        self.managed_tables().map_or(&[], |tables| &tables.published)
    }

    /// Refuses a day before the launch that the rule `key` of a deployment names.
    fn check_launched(&self, deployment: Deployment, key: &str, date: NaiveDate) -> Result<(), CatalogError> {
        let Some(rule) = self.managed_rule(deployment, key, date) else { return Ok(()) };
        let Ok(first) = rule.value.parse::<NaiveDate>() else { return Ok(()) };
        if first <= date {
            return Ok(());
        }
        let what = key.strip_suffix("_launched_on").map_or_else(|| deployment.to_string(), |storage| format!("{storage} on {deployment}"));
        Err(CatalogError::NotYet {
            problem: Box::new(Problem::new(
                format!("{what} on {date}"),
                format!("exists since {first}"),
                self.cite(&rule.source),
                format!("Ask for {first} or later, or for another service."),
            )),
            first,
        })
    }
}
