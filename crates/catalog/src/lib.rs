//! Facts about cloud storage, by day: what a volume type allowed, what an instance type gave its
//! volumes, what both cost. The facts are tables under `data/`, written to be read and corrected by
//! people; this crate embeds them, reads them when first asked, and answers questions such as "what
//! does `gp2:500` deliver on 2018-08-15, and how sure are we".
//!
//! ```
//! use headrace_catalog::{Catalog, NaiveDate};
//!
//! let catalog = Catalog::embedded();
//! let day: NaiveDate = "2018-08-15".parse().unwrap();
//! let limits = catalog.volume_limits(&"gp2:500".parse().unwrap(), day, None).unwrap();
//! assert_eq!(limits.iops, 1500);
//! assert_eq!(limits.io_burst.unwrap().capacity_ios, 5_400_000);
//! ```
//!
//! It is the bottom crate: it depends on no other of this project. It holds no latency and no
//! behaviour over time; those are the model's. A figure that is not confirmed, or that this project
//! chose where sources are silent, comes with a [`Caveat`].

mod attachments;
mod cache;
mod commitment;
mod error;
mod instance;
mod limits;
mod managed;
mod price;
mod source;
mod spec;
mod table;
mod volume;

pub use chrono::NaiveDate;
pub use commitment::Commitment;
pub use error::{BrokenLimit, CatalogError, Problem};
pub use instance::InstanceLimits;
pub use limits::{ByteBurst, IoBurst, ReadLimits, VolumeLimits};
pub use managed::{
    Comparison, Deployment, ManagedRule, PublishedRun, RdsRange, RdsStorage, Service, ServiceBill, ServiceClass, ServiceLimit, ServiceSpec, HOURS_PER_MONTH,
};
pub use price::{CostItem, Price, PriceItem, PricesSeen, RegionPrices};
pub use source::{Caveat, Param, Source, SourceIds};
pub use spec::{RaidLevel, StorageSpec, VolumeSpec, VolumeType, DEFAULT_CHUNK_KIB, MAX_MEMBERS};
pub use table::{DataFiles, ManagedFiles};
pub use volume::{Consistency, CreditRule, EraRules, IopsRule, Range, ThroughputRule, ThroughputTier, VolumeEra};

use commitment::Commitments;
use error::broken;
use instance::Instances;
use managed::Managed;
use price::{InstancePrices, VolumePrices};
use source::Sources;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Named figures of one section of `data/rules.toml`.
pub type Rules = BTreeMap<String, BTreeMap<String, Param<serde_json::Value>>>;

/// The tables in memory. Volume types and rules are read at once, instances and prices when first
/// asked for.
#[derive(Debug)]
pub struct Catalog {
    files: DataFiles<'static>,
    sources: Sources,
    rules: Rules,
    volumes: BTreeMap<VolumeType, Vec<VolumeEra>>,
    instances: OnceLock<Result<Instances, CatalogError>>,
    volume_prices: OnceLock<Result<VolumePrices, CatalogError>>,
    instance_prices: OnceLock<Result<InstancePrices, CatalogError>>,
    commitments: OnceLock<Result<Commitments, CatalogError>>,
    managed: OnceLock<Result<Managed, CatalogError>>,
}

impl Catalog {
    /// Returns the catalog this crate was built with.
    ///
    /// # Panics
    /// When the shipped files cannot be read, which a test of this crate excludes.
    pub fn embedded() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| Catalog::new(DataFiles::embedded()).unwrap_or_else(|error| panic!("shipped data: {error}")))
    }

    /// Makes a catalog of other files. Reads sources, rules and volume types; [`Catalog::check`]
    /// reads the rest.
    ///
    /// # Errors
    /// [`CatalogError::Data`] naming file, row and field.
    pub fn new(files: DataFiles<'static>) -> Result<Catalog, CatalogError> {
        let sources = Sources::parse(files.sources)?;
        let rules = parse_rules(files.rules, &sources)?;
        let mut volumes = BTreeMap::new();
        for (file, text) in &files.volumes {
            let (volume_type, eras) = volume::parse(file, text, &sources)?;
            volumes.insert(volume_type, eras);
        }
        Ok(Catalog {
            files,
            sources,
            rules,
            volumes,
            instances: OnceLock::new(),
            volume_prices: OnceLock::new(),
            instance_prices: OnceLock::new(),
            commitments: OnceLock::new(),
            managed: OnceLock::new(),
        })
    }

    /// Reads every file to its end.
    ///
    /// # Errors
    /// [`CatalogError::Data`] naming file, row and field of the first error.
    pub fn check(&self) -> Result<(), CatalogError> {
        self.instance_table()?;
        self.volume_price_table()?;
        self.instance_price_table()?;
        self.commitment_table()?;
        self.managed_tables()?;
        Ok(())
    }

    /// Returns the day of the newest source: what "today" means without `--as-of`.
    pub fn newest_date(&self) -> NaiveDate {
        self.sources.rows().iter().filter_map(|row| row.as_of.parse().ok()).max().unwrap_or_default()
    }

    /// Returns every era of a type, oldest first.
    pub fn volume_eras(&self, volume_type: VolumeType) -> &[VolumeEra] {
        self.volumes.get(&volume_type).map_or(&[], Vec::as_slice)
    }

    /// Returns the rules of a type on a day.
    ///
    /// # Errors
    /// [`CatalogError::NotYet`] before the first era of the type.
    pub fn volume_era(&self, volume_type: VolumeType, date: NaiveDate) -> Result<&VolumeEra, CatalogError> {
        let eras = self.volume_eras(volume_type);
        if let Some(era) = eras.iter().rev().find(|era| era.from <= date) {
            return Ok(era);
        }
        let Some(first) = eras.first() else {
            return Err(broken(&format!("volumes/{volume_type}.toml"), "is missing"));
        };
        Err(CatalogError::NotYet {
            problem: Box::new(Problem::new(
                format!("{volume_type} on {date}"),
                format!("{volume_type} volumes exist since {}", first.from),
                self.cite(&first.evidence.source.joined()),
                format!("Ask for {} or later, or for another type.", first.from),
            )),
            first: first.from,
        })
    }

    /// Returns the limits of a volume on a day. With an instance that is not of the Nitro System,
    /// its lower caps apply; the limits of the instance itself do not, they are shared by all its
    /// volumes.
    ///
    /// # Errors
    /// [`CatalogError::NotYet`] before the type existed, [`CatalogError::Limit`] for a size, IOPS
    /// or throughput the type did not take on that day.
    pub fn volume_limits(&self, spec: &VolumeSpec, date: NaiveDate, instance: Option<&InstanceLimits>) -> Result<VolumeLimits, CatalogError> {
        // Only local disks have documented figures by instance type.
        let instances = instance.and_then(|_| self.instance_table().ok());
        limits::Resolver::new(&self.sources, self.volume_era(spec.volume_type, date)?, spec, date, instance.zip(instances)).resolve()
    }

    /// Returns [`Catalog::volume_limits`] of each member, in the order of the array.
    ///
    /// # Errors
    /// The error of the first member that has one; [`CatalogError::Notation`] when the members do
    /// not form the level, [`CatalogError::Limit`] when the instance does not take that many
    /// ([`Catalog::check_attachments`]).
    pub fn storage_limits(&self, storage: &StorageSpec, date: NaiveDate, instance: Option<&InstanceLimits>) -> Result<Vec<VolumeLimits>, CatalogError> {
        storage.check()?;
        if let Some(instance) = instance {
            self.check_attachments(&[storage], instance)?;
        }
        let members = &storage.members;
        let mut limits: Vec<VolumeLimits> = Vec::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            // Like members are the usual case and have like limits.
            let next = match limits.last().filter(|_| members[index - 1] == *member) {
                Some(before) => before.clone(),
                None => self.volume_limits(member, date, instance)?,
            };
            limits.push(next);
        }
        Ok(limits)
    }

    /// Returns the IOPS that a stripe or a single volume sustains without credits, as fast as its
    /// slowest member allows; none for mirrors and parities, whose writes count several times.
    ///
    /// # Errors
    /// The errors of [`Catalog::storage_limits`].
    pub fn sustained_iops(&self, storage: &StorageSpec, date: NaiveDate) -> Result<Option<f64>, CatalogError> {
        if !matches!(storage.raid, None | Some(RaidLevel::Raid0)) {
            return Ok(None);
        }
        let limits = self.storage_limits(storage, date, None)?;
        Ok(limits.iter().map(|member| member.iops).min().map(|least| (least * limits.len() as u64) as f64))
    }

    /// Checks that all of `storages`, such as data and log, can be on one instance together with
    /// its root volume.
    ///
    /// # Errors
    /// [`CatalogError::Limit`] naming the attachment limit or the number of local disks. A type
    /// whose limit no source names takes any number.
    pub fn check_attachments(&self, storages: &[&StorageSpec], instance: &InstanceLimits) -> Result<(), CatalogError> {
        let roots = self.rule("instance_limits", "root_volumes").and_then(|rule| rule.value.as_u64()).unwrap_or(0) as usize;
        attachments::check(&self.sources, storages, instance, roots)
    }

    /// Returns the limits that an instance type sets for its volumes on a day.
    ///
    /// # Errors
    /// [`CatalogError::UnknownInstance`], or [`CatalogError::NotYet`] before the type was launched.
    pub fn instance(&self, name: &str, date: NaiveDate) -> Result<InstanceLimits, CatalogError> {
        self.instance_table()?.get(name, date, &self.sources)
    }

    /// Returns the speed of a core of a processor (a row of `data/processors.csv`) at a clock: GHz
    /// x work per clock, Skylake's 1.
    ///
    /// # Errors
    /// [`CatalogError::UnknownInstance`] for a processor that the table does not have.
    pub fn core_speed(&self, processor: &str, clock_ghz: f64) -> Result<f64, CatalogError> {
        self.instance_table()?.core_speed(processor, clock_ghz)
    }

    /// Returns how much faster the clock of a core of a processor is while all others of its chip
    /// rest, if all of them have a clock: 1 where no source names a higher one.
    ///
    /// # Errors
    /// [`CatalogError::UnknownInstance`] for a processor that the table does not have.
    pub fn alone_faster(&self, processor: &str, clock_ghz: f64) -> Result<f64, CatalogError> {
        self.instance_table()?.alone_faster(processor, clock_ghz)
    }

    /// Returns every instance type that exists on a day, by name.
    pub fn instances(&self, date: NaiveDate) -> Vec<InstanceLimits> {
        self.instance_table().map_or_else(|_| Vec::new(), |table| table.all(date))
    }

    /// Returns the price of an instance for an hour (Linux, on demand), or `None` where the tables
    /// have none for the region.
    pub fn instance_price(&self, name: &str, region: &str, date: NaiveDate) -> Option<Price> {
        self.instance_price_table().ok()?.get(name, region, date, &self.sources)
    }

    /// Returns the factor of a commitment (`reserved-1y`, ...) on the hour of an instance type.
    ///
    /// # Errors
    /// [`CatalogError::NoPrice`] for a commitment without a factor, [`CatalogError::NotYet`] before
    /// it was sold.
    pub fn commitment(&self, commitment: &str, instance_type: &str, date: NaiveDate) -> Result<&Commitment, CatalogError> {
        self.commitment_table()?.get(commitment, instance_type, date)
    }

    /// Returns the EBS prices of a region on a day.
    ///
    /// # Errors
    /// [`CatalogError::UnknownRegion`].
    pub fn volume_prices(&self, region: &str, date: NaiveDate) -> Result<RegionPrices, CatalogError> {
        self.volume_price_table()?.region(region, date)
    }

    /// Returns the days on which the prices of a region that hold on a day were last seen: what a
    /// reader of a bill must know about its age.
    ///
    /// # Errors
    /// [`CatalogError::UnknownRegion`].
    pub fn prices_seen(&self, region: &str, date: NaiveDate) -> Result<PricesSeen, CatalogError> {
        let region = self.volume_prices(region, date)?.region;
        Ok(PricesSeen { volumes: self.volume_price_table()?.last_seen(&region, date), instances: self.instance_price_table()?.last_seen(&region, date) })
    }

    /// Returns the bill of a month for a storage, without the instance.
    ///
    /// `million_ios_per_month` are the requests, in millions, that reach all members together; only
    /// magnetic volumes bill them, by their share of the members.
    ///
    /// # Errors
    /// Those of [`Catalog::storage_limits`] and [`Catalog::volume_prices`];
    /// [`CatalogError::NoPrice`] where the region has no price of the type; [`CatalogError::Limit`]
    /// for a number of requests that is negative or no number.
    pub fn monthly_cost(&self, storage: &StorageSpec, region: &str, date: NaiveDate, million_ios_per_month: f64) -> Result<Vec<CostItem>, CatalogError> {
        self.monthly_cost_at(storage, &self.volume_prices(region, date)?, million_ios_per_month)
    }

    /// Returns [`Catalog::monthly_cost`] by a price list at hand: that of many storages, or one
    /// with own rates. The limits are those of the day of the list.
    ///
    /// # Errors
    /// The errors of [`Catalog::monthly_cost`].
    pub fn monthly_cost_at(&self, storage: &StorageSpec, prices: &RegionPrices, million_ios_per_month: f64) -> Result<Vec<CostItem>, CatalogError> {
        if !million_ios_per_month.is_finite() || million_ios_per_month < 0.0 {
            return Err(CatalogError::Limit(Box::new(Problem::new(
                format!("{million_ios_per_month} million I/Os a month"),
                "must be a number, 0 or more",
                "AWS bills magnetic volumes per million requests",
                "Give the requests of a month in millions.",
            ))));
        }
        let limits = self.storage_limits(storage, prices.as_of, None)?;
        let volumes: Vec<price::Billed<'_>> = limits
            .chunk_by(|a, b| a.spec == b.spec)
            .map(|like| price::Billed {
                volume: &like[0].spec,
                count: like.len() as u64,
                iops: like[0].iops,
                throughput_mib_s: like[0].throughput_bytes_s / (1024 * 1024),
            })
            .collect();
        price::monthly_cost(storage, &volumes, prices, million_ios_per_month)
    }

    /// Returns the code and name of a region with prices.
    ///
    /// # Errors
    /// [`CatalogError::UnknownRegion`] with the known ones.
    pub fn region(&self, region: &str) -> Result<(&str, &str), CatalogError> {
        self.volume_price_table()?.locate(region)
    }

    /// Returns the codes of the regions with prices; some have prices of instances alone.
    pub fn regions(&self) -> Vec<&str> {
        self.volume_price_table().map_or_else(|_| Vec::new(), VolumePrices::regions)
    }

    /// Returns the codes of the regions with prices of EBS volumes, which a user is offered.
    pub fn priced_regions(&self) -> Vec<&str> {
        self.volume_price_table().map_or_else(|_| Vec::new(), VolumePrices::priced_regions)
    }

    /// Returns every document the figures come from.
    pub fn sources(&self) -> &[Source] {
        self.sources.rows()
    }

    /// Returns the document of an id; what stands behind `@` is a revision of it.
    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.find(id)
    }

    /// Returns the citations and days of source ids joined by `+`.
    pub fn cite(&self, joined: &str) -> String {
        self.sources.cite(joined)
    }

    /// Returns the rules that are not a limit of one volume type: `data/rules.toml`, section by
    /// section.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns one figure of [`Catalog::rules`].
    pub fn rule(&self, section: &str, name: &str) -> Option<&Param<serde_json::Value>> {
        self.rules.get(section)?.get(name)
    }

    /// Returns the instance tables, read at the first call.
    fn instance_table(&self) -> Result<&Instances, CatalogError> {
        let table = self.instances.get_or_init(|| {
            let minutes = self
                .rule("instance_limits", "burst_minutes")
                .and_then(|param| param.value.as_u64())
                .ok_or_else(|| broken("rules.toml: section instance_limits: field burst_minutes", "must be a whole number of minutes"))?;
            Instances::parse(&self.files, &self.sources, minutes.saturating_mul(60))
        });
        table.as_ref().map_err(Clone::clone)
    }

    fn volume_price_table(&self) -> Result<&VolumePrices, CatalogError> {
        let table = self.volume_prices.get_or_init(|| VolumePrices::parse(&self.files, &self.sources));
        table.as_ref().map_err(Clone::clone)
    }

    fn instance_price_table(&self) -> Result<&InstancePrices, CatalogError> {
        let table = self.instance_prices.get_or_init(|| InstancePrices::parse(&self.files, &self.sources));
        table.as_ref().map_err(Clone::clone)
    }

    fn commitment_table(&self) -> Result<&Commitments, CatalogError> {
        let table = self.commitments.get_or_init(|| Commitments::parse(self.files.prices_commitments, &self.sources));
        table.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn managed_tables(&self) -> Result<&Managed, CatalogError> {
        let table = self.managed.get_or_init(|| Managed::parse(&self.files, &self.sources));
        table.as_ref().map_err(Clone::clone)
    }
}

/// Reads `rules.toml` section by section, and refuses figures without a known source.
fn parse_rules(text: &str, sources: &Sources) -> Result<Rules, CatalogError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| broken("rules.toml", error.message()))?;
    let mut rules = Rules::new();
    for (section, figures) in table {
        let toml::Value::Table(figures) = figures else {
            return Err(broken(&format!("rules.toml: {section}"), "must be a section"));
        };
        for (name, figure) in figures {
            let place = format!("rules.toml: section {section}: field {name}");
            volume::check_sources(&place, &figure, sources)?;
            let param = figure.try_into().map_err(|error: toml::de::Error| broken(&place, error.message()))?;
            rules.entry(section.clone()).or_default().insert(name, param);
        }
    }
    Ok(rules)
}
