//! Prices: `data/prices_volumes.csv`, `prices_instances.csv` and `prices_regions.csv`. A row holds
//! from the day it was first seen until the next row of the same thing; before the first row, the
//! first is used and says so.

use crate::error::broken;
use crate::error::{CatalogError, Problem};
use crate::source::Sources;
use crate::spec::{StorageSpec, VolumeSpec, VolumeType};
use crate::table::in_force;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Price of an instance for an hour: Linux, on demand, shared tenancy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// US dollars per hour.
    pub usd: f64,
    /// Paid on top per hour to have the instance EBS-optimized, where a source lists it.
    pub ebs_optimized_surcharge_usd: Option<f64>,
    /// Source ids, joined by `+`.
    pub source: String,
    /// Days the price was seen; says so when they are later than the day asked for.
    pub as_of: String,
    /// Remark about the source, where it is less than sure of this type.
    pub note: Option<String>,
}

/// One price of a region.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriceItem {
    /// A volume type, or `snapshot`.
    pub product: String,
    /// `storage`, `iops`, `throughput`, `million_ios`, `archive_storage`, `archive_retrieval` or
    /// `fast_restore`.
    pub component: String,
    /// The price holds for the quantity above this one (price steps; the included IOPS and MiB/s of
    /// gp3).
    pub from_quantity: u64,
    /// US dollars per unit.
    pub usd: f64,
    /// Unit, such as `GB-month`; AWS bills a GB-month for each GiB provisioned.
    pub unit: String,
    /// Source ids, joined by `+`.
    pub source: String,
    /// Days the price was seen; says so when they are later than the day asked for.
    pub as_of: String,
    /// `false` where the source is not sure.
    pub confirmed: bool,
    /// Remark about the price.
    pub note: String,
}

/// The EBS prices of a region on a day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionPrices {
    /// Code, such as `us-east-1`.
    pub region: String,
    /// Name, such as `US East (N. Virginia)`.
    pub location: String,
    /// Day asked for.
    pub as_of: NaiveDate,
    /// Prices by product, component and quantity.
    pub items: Vec<PriceItem>,
}

impl RegionPrices {
    /// Returns the price steps of a component, lowest quantity first; empty when the region has
    /// none.
    pub fn steps(&self, product: &str, component: &str) -> Vec<&PriceItem> {
        self.items.iter().filter(|item| item.product == product && item.component == component).collect()
    }

    /// Returns the name of a volume type in this price list, and its components that are billed;
    /// `None` for local disks, which are in the price of the instance.
    pub fn billed_as(volume_type: VolumeType) -> Option<(&'static str, &'static [&'static str])> {
        Some(match volume_type {
            VolumeType::InstanceStore => return None,
            VolumeType::Standard => ("standard", &["storage", "million_ios"]),
            VolumeType::Gp3 => ("gp3", &["storage", "iops", "throughput"]),
            VolumeType::Io1 => ("io1", &["storage", "iops"]),
            VolumeType::Io2 | VolumeType::Io2BlockExpress => ("io2", &["storage", "iops"]),
            other => (other.as_str(), &["storage"]),
        })
    }
}

/// The days on which the prices of a region that hold on a day were last seen: the earliest and the
/// latest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricesSeen {
    /// Days of EBS prices.
    pub volumes: Option<(NaiveDate, NaiveDate)>,
    /// Days of instance prices; `None` where the region has none.
    pub instances: Option<(NaiveDate, NaiveDate)>,
}

/// Returns the earliest and the latest of some days.
fn span(days: impl Iterator<Item = NaiveDate>) -> Option<(NaiveDate, NaiveDate)> {
    days.fold(None, |span, day| Some(span.map_or((day, day), |(first, last): (NaiveDate, NaiveDate)| (first.min(day), last.max(day)))))
}

/// One line of a monthly bill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostItem {
    /// Name of the item.
    pub item: String,
    /// Quantity of the item, in `unit`.
    pub quantity: f64,
    /// Unit of the quantity.
    pub unit: String,
    /// US dollars per unit.
    pub unit_price_usd: f64,
    /// US dollars for a month.
    pub usd: f64,
    /// Source ids, joined by `+`.
    pub source: String,
    /// Days the price was seen; says so when they are later than the day asked for.
    pub as_of: String,
}

#[derive(Debug, Clone, Deserialize)]
struct RegionRow {
    region: String,
    location: String,
    currency: String,
}

#[derive(Debug, Clone, Deserialize)]
struct VolumeRow {
    region: String,
    volume_type: String,
    component: String,
    from_quantity: u64,
    usd: f64,
    unit: String,
    first_seen: NaiveDate,
    last_seen: NaiveDate,
    source: String,
    confirmed: bool,
    note: String,
}

#[derive(Debug, Clone, Deserialize)]
struct InstanceRow {
    instance_type: String,
    region: String,
    first_seen: NaiveDate,
    last_seen: NaiveDate,
    usd_hour: f64,
    ebs_optimized_surcharge_usd_hour: Option<f64>,
    source: String,
}

/// Steps of one price: region, product, component, quantity.
type PriceKey = (String, String, u64);

/// EBS prices of all regions.
#[derive(Debug)]
pub(crate) struct VolumePrices {
    locations: BTreeMap<String, String>,
    rows: HashMap<String, BTreeMap<PriceKey, Vec<VolumeRow>>>,
}

/// Instance prices by type and region.
#[derive(Debug)]
pub(crate) struct InstancePrices {
    rows: HashMap<(String, String), Vec<InstanceRow>>,
}

/// Returns the days a price was seen, and a warning when they are all later than the day asked for.
fn seen(first: NaiveDate, last: NaiveDate, date: NaiveDate) -> String {
    let days = if first == last { first.to_string() } else { format!("{first} to {last}") };
    if first > date {
        format!("{days} (oldest known price, later than {date})")
    } else {
        days
    }
}

/// Refuses a price that is not a number, and days out of order; `before`: first day of the row
/// before.
fn check_price(place: &str, usd: f64, first: NaiveDate, last: NaiveDate, before: Option<NaiveDate>) -> Result<(), CatalogError> {
    if !usd.is_finite() || usd < 0.0 {
        return Err(broken(&format!("{place}: field usd"), "must be a number, 0 or more"));
    }
    if first > last {
        return Err(broken(&format!("{place}: field last_seen"), "is before first_seen"));
    }
    if before.is_some_and(|before| before >= first) {
        return Err(broken(&format!("{place}: field first_seen"), "rows of one price must be in the order of their days"));
    }
    Ok(())
}

/// Returns the region that was meant, when it is only misspelt. Another number of the same place
/// (`ap-southeast-9`) or another partition (`cn-north-1`, which is not `eu-north-1`) is another
/// region with other prices, so neither is offered.
fn region_meant<'a>(given: &str, regions: &[&'a str]) -> Option<&'a str> {
    let place = |text: &str| {
        let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let name = letters.trim_end_matches(|c: char| c.is_ascii_digit()).to_string();
        (letters[name.len()..].to_string(), name)
    };
    // The first two letters name the continent or the country, `us-gov` a partition of its own.
    let area = |name: &str| name.chars().take(if name.starts_with("usgov") { 5 } else { 2 }).collect::<String>();
    let (number, name) = place(given);
    let letters: Vec<char> = name.chars().take(64).collect();
    let near = regions.iter().filter_map(|region| {
        let (its_number, its_name) = place(region);
        let distance = crate::error::edit_distance(&letters, &its_name);
        (area(&its_name) == area(&name) && distance <= 2).then_some((distance, its_number, *region))
    });
    let nearest = near.clone().map(|(distance, ..)| distance).min()?;
    near.filter(|(distance, its_number, _)| *distance == nearest && *its_number == number).map(|(.., region)| region).next()
}

impl VolumePrices {
    /// Reads regions and EBS prices, and refuses a currency other than USD.
    pub(crate) fn parse(files: &crate::table::DataFiles<'_>, sources: &Sources) -> Result<Self, CatalogError> {
        let mut locations = BTreeMap::new();
        for row in crate::table::rows::<RegionRow>("prices_regions.csv", files.prices_regions)? {
            if row.currency != "USD" {
                let place = format!("prices_regions.csv: {}: field currency", row.region);
                return Err(broken(&place, "must be USD"));
            }
            locations.insert(row.region, row.location);
        }
        let mut rows: HashMap<String, BTreeMap<PriceKey, Vec<VolumeRow>>> = HashMap::new();
        for row in crate::table::rows::<VolumeRow>("prices_volumes.csv", files.prices_volumes)? {
            let place = format!("prices_volumes.csv: {} {} {} {}", row.region, row.volume_type, row.component, row.first_seen);
            sources.require(&row.source, &format!("{place}: field source"))?;
            if !locations.contains_key(&row.region) {
                return Err(broken(&format!("{place}: field region"), "is not a region of prices_regions.csv"));
            }
            let key = (row.volume_type.clone(), row.component.clone(), row.from_quantity);
            let steps = rows.entry(row.region.clone()).or_default().entry(key).or_default();
            let before = steps.last().map(|last: &VolumeRow| last.first_seen);
            check_price(&place, row.usd, row.first_seen, row.last_seen, before)?;
            steps.push(row);
        }
        Ok(VolumePrices { locations, rows })
    }

    pub(crate) fn regions(&self) -> Vec<&str> {
        self.locations.keys().map(String::as_str).collect()
    }

    /// Returns the codes of the regions with prices of EBS; the others have prices of instances
    /// alone.
    pub(crate) fn priced_regions(&self) -> Vec<&str> {
        self.regions().into_iter().filter(|region| self.rows.contains_key(*region)).collect()
    }

    /// Returns the code and name of a region.
    pub(crate) fn locate(&self, region: &str) -> Result<(&str, &str), CatalogError> {
        let given = region.trim();
        let region = self.locations.get_key_value(given).map(|(code, location)| (code.as_str(), location.as_str()));
        region.ok_or_else(|| {
            // A misspelt region is named whatever its prices; a list offers those with EBS prices.
            let hint = region_meant(given, &self.regions())
                .map_or_else(|| format!("Known: {}.", self.priced_regions().join(", ")), |meant| format!("Did you mean {meant}?"));
            CatalogError::UnknownRegion(Box::new(Problem::new(given, "is not a region with prices in this catalog", "data/prices_regions.csv", hint)))
        })
    }

    /// Returns the first and the last day on which the prices in force were seen last.
    pub(crate) fn last_seen(&self, region: &str, date: NaiveDate) -> Option<(NaiveDate, NaiveDate)> {
        let rows = self.rows.get(region)?.values();
        span(rows.filter_map(|rows| in_force(rows, date, |row| row.first_seen)).map(|row| row.last_seen))
    }

    /// Returns the prices of a region on a day.
    pub(crate) fn region(&self, region: &str, date: NaiveDate) -> Result<RegionPrices, CatalogError> {
        let (region, location) = self.locate(region)?;
        let items = self.rows.get(region).into_iter().flatten().filter_map(|(_, rows)| {
            let row = in_force(rows, date, |row| row.first_seen)?;
            Some(PriceItem {
                product: row.volume_type.clone(),
                component: row.component.clone(),
                from_quantity: row.from_quantity,
                usd: row.usd,
                unit: row.unit.clone(),
                source: row.source.clone(),
                as_of: seen(row.first_seen, row.last_seen, date),
                confirmed: row.confirmed,
                note: row.note.clone(),
            })
        });
        Ok(RegionPrices { region: region.to_string(), location: location.to_string(), as_of: date, items: items.collect() })
    }
}

impl InstancePrices {
    /// Reads the prices of instances by type and region.
    pub(crate) fn parse(files: &crate::table::DataFiles<'_>, sources: &Sources) -> Result<Self, CatalogError> {
        let mut rows: HashMap<(String, String), Vec<InstanceRow>> = HashMap::new();
        for row in crate::table::rows::<InstanceRow>("prices_instances.csv", files.prices_instances)? {
            let place = format!("prices_instances.csv: {} {} {}", row.instance_type, row.region, row.first_seen);
            sources.require(&row.source, &format!("{place}: field source"))?;
            let key = (row.instance_type.clone(), row.region.clone());
            let prices = rows.entry(key).or_default();
            let before = prices.last().map(|last| last.first_seen);
            check_price(&place, row.usd_hour, row.first_seen, row.last_seen, before)?;
            prices.push(row);
        }
        Ok(InstancePrices { rows })
    }

    /// Returns the first and the last day on which the prices in force were seen last.
    pub(crate) fn last_seen(&self, region: &str, date: NaiveDate) -> Option<(NaiveDate, NaiveDate)> {
        let rows = self.rows.iter().filter(|((_, in_region), _)| in_region == region).map(|(_, rows)| rows);
        span(rows.filter_map(|rows| in_force(rows, date, |row| row.first_seen)).map(|row| row.last_seen))
    }

    /// Returns the price of an instance on a day, USD an hour.
    pub(crate) fn get(&self, name: &str, region: &str, date: NaiveDate, sources: &Sources) -> Option<Price> {
        let key = (name.trim().to_ascii_lowercase(), region.trim().to_string());
        let row = in_force(self.rows.get(&key)?, date, |row| row.first_seen)?;
        Some(Price {
            usd: row.usd_hour,
            ebs_optimized_surcharge_usd: row.ebs_optimized_surcharge_usd_hour,
            source: row.source.clone(),
            as_of: seen(row.first_seen, row.last_seen, date),
            note: doubt(row, sources),
        })
    }
}

/// Returns the note of the first source that is not sure: not of high confidence, or any for bare
/// metal, whose rows may be of dedicated tenancy.
fn doubt(row: &InstanceRow, sources: &Sources) -> Option<String> {
    let metal = row.instance_type.contains(".metal");
    row.source.split('+').filter_map(|id| sources.find(id)).find(|source| metal || source.confidence != "high").map(|source| source.note.clone())
}

/// Quantities that are billed for one volume beyond its specification.
pub(crate) struct Billed<'a> {
    pub volume: &'a VolumeSpec,
    /// Number of such volumes.
    pub count: u64,
    /// IOPS and MiB/s the volume has, included ones among them.
    pub iops: u64,
    pub throughput_mib_s: u64,
}

/// Returns the bill of a month. `volumes` are the unlike members of `storage`, each with its count.
pub(crate) fn monthly_cost(storage: &StorageSpec, volumes: &[Billed<'_>], prices: &RegionPrices, million_ios: f64) -> Result<Vec<CostItem>, CatalogError> {
    let mut bill = Vec::new();
    let mut magnetic = 0;
    for billed in volumes {
        let volume_type = billed.volume.volume_type;
        let Some((product, components)) = RegionPrices::billed_as(volume_type) else {
            bill.push(included_in_instance(billed));
            continue;
        };
        for component in components {
            let amount = match *component {
                "storage" => billed.volume.size_gib,
                "iops" => billed.iops,
                "throughput" => billed.throughput_mib_s,
                // Requests are counted over all members, below.
                _ => {
                    magnetic += billed.count;
                    continue;
                }
            };
            bill_component(&mut bill, storage, billed, prices, (product, component), amount)?;
        }
    }
    if magnetic > 0 {
        let members: u64 = volumes.iter().map(|billed| billed.count).sum();
        let requests = million_ios * magnetic as f64 / members as f64;
        let step = first_step(storage, prices, ("standard", "million_ios"))?;
        push(&mut bill, step, "standard I/O requests".to_string(), requests);
    }
    Ok(bill)
}

/// Makes the line of local disks, which cost nothing by themselves.
fn included_in_instance(billed: &Billed<'_>) -> CostItem {
    CostItem {
        item: "instance-store, in the price of the instance".to_string(),
        quantity: (billed.volume.size_gib * billed.count) as f64,
        unit: "GB-month".to_string(),
        unit_price_usd: 0.0,
        usd: 0.0,
        source: "guide-2018-02-store".to_string(),
        as_of: "2018-02-02".to_string(),
    }
}

/// Returns the first price step of a component; the error says that the region has none.
fn first_step<'a>(storage: &StorageSpec, prices: &'a RegionPrices, (product, component): (&str, &str)) -> Result<&'a PriceItem, CatalogError> {
    prices.steps(product, component).into_iter().next().ok_or_else(|| {
        CatalogError::NoPrice(Box::new(Problem::new(
            format!("{storage} in {}", prices.region),
            format!("no {component} price of {product} is known there"),
            "data/prices_volumes.csv",
            "Choose another region or type, or state the price in a price file (docs/reference/prices.md).",
        )))
    })
}

/// Bills `amount` of one volume, step by step, for all volumes of the kind.
fn bill_component(
    bill: &mut Vec<CostItem>,
    storage: &StorageSpec,
    billed: &Billed<'_>,
    prices: &RegionPrices,
    (product, component): (&str, &str),
    amount: u64,
) -> Result<(), CatalogError> {
    first_step(storage, prices, (product, component))?;
    let steps = prices.steps(product, component);
    let what = match component {
        "iops" => "IOPS",
        other => other,
    };
    for (index, step) in steps.iter().enumerate() {
        let from = step.from_quantity;
        let to = steps.get(index + 1).map_or(amount, |next| amount.min(next.from_quantity));
        if to <= from {
            continue;
        }
        let item = match from {
            0 => format!("{product} {what}"),
            from => format!("{product} {what} above {from}"),
        };
        push(bill, step, item, ((to - from) * billed.count) as f64);
    }
    Ok(())
}

/// Adds a line of `quantity` at the price of a step, USD.
fn push(bill: &mut Vec<CostItem>, step: &PriceItem, item: String, quantity: f64) {
    bill.push(CostItem {
        item,
        quantity,
        unit: step.unit.clone(),
        unit_price_usd: step.usd,
        usd: quantity * step.usd,
        source: step.source.clone(),
        as_of: match step.note.as_str() {
            "" => step.as_of.clone(),
            note => format!("{}; {note}", step.as_of),
        },
    });
}
