//! Monthly cost of a server, item by item, by the formula of AWS's price pages: hours of the class,
//! GiB, IOPS and MiB/s beyond the included ones, millions of I/Os.

use super::deployment::{Deployment, Service};
use super::tables::{ClassPriceRow, StoragePriceRow};
use crate::error::CatalogError;
use crate::price::CostItem;
use crate::table::in_force;
use crate::{Catalog, NaiveDate, StorageSpec};
use serde::Serialize;

/// Hours of a month, as the AWS pricing calculator counts them.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// A server to be billed.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    /// Service and option.
    pub deployment: Deployment,
    /// EC2 type, or class `db.TYPE`.
    pub instance_type: String,
    /// Storage as asked for. RDS: one volume; EC2: any; Aurora: not looked at.
    pub storage: StorageSpec,
    /// Readers of an Aurora cluster, its writer not counted.
    pub readers: u32,
    /// Data of an Aurora volume, GB: billed by what is used.
    pub data_gib: f64,
    /// I/Os of a month in millions: billed by Aurora Standard, and by EC2 for magnetic volumes.
    pub million_ios: f64,
}

/// The bill of a month.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceBill {
    /// Items that have a price.
    pub items: Vec<CostItem>,
    /// Names of items without a price in these tables: then there is no total.
    pub missing: Vec<String>,
    /// Sum of the items, US dollars; none where a price is missing.
    pub total_usd: Option<f64>,
}

/// Makes the bill of a month of a server, USD: its class and storage, and of Aurora its I/Os.
pub(super) fn bill(catalog: &Catalog, spec: &ServiceSpec, region: &str, date: NaiveDate) -> Result<ServiceBill, CatalogError> {
    let (region, _) = catalog.region(region)?;
    let class = catalog.service_class(spec.deployment, &spec.instance_type, date)?.class;
    let mut bill = ServiceBill { items: Vec::new(), missing: Vec::new(), total_usd: None };
    match spec.deployment.service() {
        Service::Ec2 => {
            match catalog.instance_price(&class, region, date) {
                Some(price) => bill.items.push(item(&class, (HOURS_PER_MONTH, "h"), price.usd, &price.source, price.as_of)),
                None => bill.missing.push(format!("{class} in {region}")),
            }
            bill.items.extend(catalog.monthly_cost(&spec.storage, region, date, spec.million_ios)?);
        }
        Service::Rds => {
            bill.add_class(catalog, spec, &class, 1, region, date)?;
            let storage = catalog.rds_storage(single(&spec.storage)?, date)?;
            let product = storage.volume_type.as_str();
            bill.add_component(catalog, spec, (product, "storage", storage.size_gib as f64), region, date)?;
            if let Some(iops) = storage.iops {
                bill.add_component(catalog, spec, (product, "iops", iops as f64), region, date)?;
            }
            if let Some(mib_s) = storage.throughput_mib_s {
                // Throughput that rises by itself with IOPS above 32,000 is included.
                let by_itself = storage.iops.unwrap_or(0) / 64;
                if mib_s > by_itself {
                    bill.add_component(catalog, spec, (product, "throughput", mib_s as f64), region, date)?;
                }
            }
        }
        Service::Aurora => {
            bill.add_class(catalog, spec, &class, 1 + spec.readers, region, date)?;
            bill.add_component(catalog, spec, ("aurora", "storage", spec.data_gib), region, date)?;
            bill.add_component(catalog, spec, ("aurora", "million_ios", spec.million_ios), region, date)?;
        }
    }
    bill.total_usd = bill.missing.is_empty().then(|| bill.items.iter().map(|item| item.usd).sum());
    Ok(bill)
}

/// Returns the volume that RDS is asked for; an array is refused.
pub(super) fn single(storage: &StorageSpec) -> Result<&crate::VolumeSpec, CatalogError> {
    match storage.members.as_slice() {
        [volume] => Ok(volume),
        _ => Err(CatalogError::Limit(Box::new(crate::error::Problem::new(
            storage.to_string(),
            "is an array: RDS lays out its volumes itself",
            "data/managed/cannot.csv",
            "Give one volume of the size and IOPS of all, such as gp3:800.",
        )))),
    }
}

/// Makes a line of a bill, in USD.
fn item(what: &str, (quantity, unit): (f64, &str), usd: f64, source: &str, as_of: String) -> CostItem {
    CostItem { item: what.to_string(), quantity, unit: unit.to_string(), unit_price_usd: usd, usd: quantity * usd, source: source.to_string(), as_of }
}

/// Writes the days on which a price was seen, and the note of its row.
fn days(first: NaiveDate, last: NaiveDate, date: NaiveDate, confirmed: bool, note: &str) -> String {
    let mut dates = if first == last { first.to_string() } else { format!("{first} to {last}") };
    if first > date {
        dates += &format!(", later than {date}");
    }
    if !confirmed {
        dates += "; not confirmed";
    }
    if !note.is_empty() {
        dates += &format!("; {note}");
    }
    dates
}

impl ServiceBill {
    /// Adds `count` instances of a database class, each for the hours of a month at its USD an
    /// hour, to the bill; a class without a price is noted as missing.
    fn add_class(&mut self, catalog: &Catalog, spec: &ServiceSpec, class: &str, count: u32, region: &str, date: NaiveDate) -> Result<(), CatalogError> {
        let deployment = spec.deployment;
        let key = (deployment.service().as_str().to_string(), class.to_string());
        let prices = catalog.managed_tables()?.class_prices.get(&key);
        let fits = |row: &&ClassPriceRow| row.engine == "mysql" && row.option == deployment.option() && row.region == region;
        let fitting: Vec<&ClassPriceRow> = prices.into_iter().flatten().filter(fits).collect();
        let what = match count {
            1 => format!("{class} {}", deployment.option()),
            _ => format!("{count} x {class} {}", deployment.option()),
        };
        match in_force(&fitting, date, |row| row.first_seen) {
            Some(row) => {
                let dates = days(row.first_seen, row.last_seen, date, row.confirmed, &row.note);
                self.items.push(item(&what, (HOURS_PER_MONTH * f64::from(count), "h"), row.usd_hour, &row.source, dates));
            }
            None => self.missing.push(format!("{class}, {}, in {region}", deployment.option())),
        }
        Ok(())
    }

    /// Adds a component of storage, in its own unit a month (GiB, IOPS, MiB/s, million I/Os), to
    /// the bill, less what its price includes; one without a price is noted as missing.
    fn add_component(
        &mut self,
        catalog: &Catalog,
        spec: &ServiceSpec,
        (product, component, quantity): (&str, &str, f64),
        region: &str,
        date: NaiveDate,
    ) -> Result<(), CatalogError> {
        let (service, option) = (spec.deployment.service(), spec.deployment.option());
        let fits = |row: &&StoragePriceRow| {
            row.region == region && row.service == service.as_str() && row.product == product && row.option == option && row.component == component
        };
        let tables = catalog.managed_tables()?;
        let fitting: Vec<&StoragePriceRow> = tables.storage_prices.iter().filter(fits).collect();
        let included = included(tables, service, product, component);
        let Some(row) = in_force(&fitting, date, |row| row.first_seen) else {
            if quantity > included {
                self.missing.push(format!("{component} of {product}, {option}, in {region}"));
            }
            return Ok(());
        };
        let billed = quantity - row.from_quantity as f64;
        if billed > 0.0 {
            let name = match component {
                "iops" => "IOPS",
                "million_ios" => "I/O requests",
                other => other,
            };
            let above = if row.from_quantity > 0 { format!(" above {}", row.from_quantity) } else { String::new() };
            let dates = days(row.first_seen, row.last_seen, date, row.confirmed, &row.note);
            self.items.push(item(&format!("{product} {name}{above}"), (billed, &row.unit), row.usd, &row.source, dates));
        }
        Ok(())
    }
}

/// Returns the quantity of the component that every price includes: up to it no price is needed.
fn included(tables: &super::Managed, service: Service, product: &str, component: &str) -> f64 {
    let prices_component = |row: &&StoragePriceRow| row.service == service.as_str() && row.product == product && row.component == component;
    tables.storage_prices.iter().filter(prices_component).map(|row| row.from_quantity as f64).fold(f64::INFINITY, f64::min).min(f64::MAX)
}
