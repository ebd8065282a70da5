//! Instance types: what `data/instances.csv` and `data/instances_limits.csv` say on a day.

use crate::cache::LastLevelCache;
use crate::error::broken;
use crate::error::{did_you_mean, CatalogError, Problem};
use crate::source::{Caveat, Sources};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

impl InstanceLimits {
    /// Returns the limits after the burst buckets are spent: the baseline of the EBS limits.
    pub fn without_burst(mut self) -> InstanceLimits {
        (self.max_iops, self.max_bytes_s) = (self.baseline_iops.or(self.max_iops), self.baseline_bytes_s.or(self.max_bytes_s));
        self.burst_seconds = 0;
        self
    }
}

/// Limits that an instance type sets for its volumes on a day. Bytes are from MB/s, so decimal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceLimits {
    /// Name, such as `m5.2xlarge`.
    pub instance_type: String,
    /// Day asked for.
    pub as_of: NaiveDate,
    /// Virtual CPUs; 0 where no source names them (then a caveat says so).
    pub vcpus: u32,
    /// Virtual CPUs that share a core: 2 with hyperthreads, 1 where each is a core; 0 where no
    /// source names it.
    pub threads_per_core: u32,
    /// Speed of a core by itself: GHz x work per clock, where that of Skylake is 1, times what the
    /// type's share of a last level cache leaves of it (`cache`). `None` where no source names it.
    pub core_speed: Option<f64>,
    /// Memory in MiB; 0 where no source names it.
    pub memory_mib: u64,
    /// True for types of the Nitro System, bare metal included.
    pub nitro: bool,
    /// True if AWS counted it among the current types at the newest date of the catalog.
    pub current_generation: bool,
    /// EBS throughput that can be held, bytes per second.
    pub baseline_bytes_s: Option<u64>,
    /// EBS throughput in a burst, bytes per second.
    pub max_bytes_s: Option<u64>,
    /// EBS I/Os per second that can be held.
    pub baseline_iops: Option<u64>,
    /// EBS I/Os per second in a burst.
    pub max_iops: Option<u64>,
    /// Time that the maximum holds from a full balance, s: 1800 where the baseline is below it,
    /// else 0.
    pub burst_seconds: u64,
    /// All local disks together, in GB (10^9 bytes).
    pub instance_store_gb: u64,
    /// Number of local disks.
    pub instance_store_devices: u32,
    /// EBS volumes that can be attached, the root volume among them; one network interface and the
    /// local disks have been taken off where they share the slots. `None` where no source names it.
    pub max_ebs_attachments: Option<u32>,
    /// True if further network interfaces take their slots from the same number (most Nitro types
    /// before 2023).
    pub attachments_shared: bool,
    /// Sources of the attachment limit: ids of `sources.csv`.
    pub attachments_source: String,
    /// First day the catalog takes the type to exist: its launch, or when a table first showed it.
    pub exists_since: NaiveDate,
    /// `x86_64`, `arm64`, `i386|x86_64`; empty where no source names it.
    pub arch: String,
    /// Sources of the EBS limits, or of the type itself where none are known: ids of `sources.csv`.
    pub limits_source: String,
    /// Days between which those limits were seen, `YYYY-MM-DD to YYYY-MM-DD`.
    pub limits_as_of: String,
    /// Unconfirmed figures that were used.
    pub caveats: Vec<Caveat>,
}

/// A row of `instances.csv`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TypeRow {
    pub instance_type: String,
    vcpus: Option<u32>,
    cores: Option<u32>,
    threads_per_core: Option<u32>,
    clock_ghz: Option<f64>,
    processor: String,
    memory_mib: Option<u64>,
    nitro: bool,
    nitro_confirmed: bool,
    current_generation: bool,
    instance_store_gb: Option<u64>,
    instance_store_devices: Option<u32>,
    max_ebs_attachments: Option<u32>,
    attachment_limit_type: String,
    architectures: String,
    first_seen: NaiveDate,
    source: String,
    as_of: NaiveDate,
    note: String,
}

/// A row of `processors.csv`.
#[derive(Debug, Clone, Deserialize)]
struct ProcessorRow {
    processor: String,
    per_clock: f64,
    alone_ghz: Option<f64>,
    #[serde(flatten)]
    cache: LastLevelCache,
    source: String,
}

/// A row of `instances_limits.csv`: in force from `first_seen` until the next row of the type.
#[derive(Debug, Clone, Deserialize)]
struct LimitRow {
    instance_type: String,
    first_seen: NaiveDate,
    last_seen: NaiveDate,
    baseline_mb_s: Option<f64>,
    max_mb_s: Option<f64>,
    baseline_iops: Option<u64>,
    max_iops: Option<u64>,
    source: String,
    confirmed: bool,
    note: String,
}

/// A row of `instances_local_iops.csv`: all local disks of the type together, 4 KiB I/O.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LocalIops {
    instance_type: String,
    pub random_read_iops_4k: u64,
    pub write_iops_4k: u64,
    pub source: String,
    #[allow(dead_code)] // read so that a row without a day is refused
    as_of: NaiveDate,
}

/// A row of `instances_launch.csv`: a family (`m5`) or a type that was launched on another day than
/// its family.
#[derive(Debug, Clone, Deserialize)]
struct LaunchRow {
    name: String,
    launched: NaiveDate,
    source: String,
    confirmed: bool,
    announcement: String,
}

/// The instance files.
#[derive(Debug)]
pub(crate) struct Instances {
    types: BTreeMap<String, TypeRow>,
    /// Work per clock by processor.
    processors: HashMap<String, ProcessorRow>,
    limits: HashMap<String, Vec<LimitRow>>,
    local_iops: HashMap<String, LocalIops>,
    launches: HashMap<String, LaunchRow>,
    /// Day by family on which a table first showed one of its types.
    family_seen: HashMap<String, NaiveDate>,
    burst_seconds: u64,
}

impl Instances {
    /// Reads the instance files, and refuses rows that contradict each other.
    pub(crate) fn parse(files: &crate::table::DataFiles<'_>, sources: &Sources, burst_seconds: u64) -> Result<Self, CatalogError> {
        let processors = parse_processors(files, sources)?;
        let mut types = BTreeMap::new();
        for row in crate::table::rows::<TypeRow>("instances.csv", files.instances)? {
            let place = format!("instances.csv: {}: field", row.instance_type);
            sources.require(&row.source, &format!("{place} source"))?;
            if types.contains_key(&row.instance_type) {
                return Err(broken(&format!("{place} instance_type"), "is given twice"));
            }
            check_processors(&row, &processors)?;
            types.insert(row.instance_type.clone(), row);
        }
        let mut limits: HashMap<String, Vec<LimitRow>> = HashMap::new();
        for row in crate::table::rows::<LimitRow>("instances_limits.csv", files.instances_limits)? {
            check_limit_row(&row, &types, sources)?;
            let of_type = limits.entry(row.instance_type.clone()).or_default();
            if of_type.last().is_some_and(|last| last.first_seen >= row.first_seen) {
                return Err(broken(
                    &format!("instances_limits.csv: {}: field first_seen", row.instance_type),
                    "rows of a type must be in the order of their days",
                ));
            }
            of_type.push(row);
        }
        let mut local_iops = HashMap::new();
        for row in crate::table::rows::<LocalIops>("instances_local_iops.csv", files.instances_local_iops)? {
            let place = format!("instances_local_iops.csv: {}", row.instance_type);
            sources.require(&row.source, &place)?;
            local_iops.insert(row.instance_type.clone(), row);
        }
        let mut family_seen: HashMap<String, NaiveDate> = HashMap::new();
        for row in types.values() {
            let seen = family_seen.entry(family(&row.instance_type).to_string()).or_insert(row.first_seen);
            *seen = row.first_seen.min(*seen);
        }
        let launches = parse_launches(files, sources, &types, &family_seen)?;
        Ok(Instances { types, processors, limits, local_iops, launches, family_seen, burst_seconds })
    }

    /// Returns the speed of a core of a processor at a clock, GHz x work per clock.
    pub(crate) fn core_speed(&self, processor: &str, clock_ghz: f64) -> Result<f64, CatalogError> {
        Ok(self.processor(processor)?.per_clock * clock_ghz)
    }

    /// Returns the clock of a core alone at work over that of all, at least 1.
    pub(crate) fn alone_faster(&self, processor: &str, clock_ghz: f64) -> Result<f64, CatalogError> {
        Ok(self.processor(processor)?.alone_ghz.map_or(1.0, |alone_ghz| (alone_ghz / clock_ghz).max(1.0)))
    }

    /// Finds the row of a processor.
    fn processor(&self, processor: &str) -> Result<&ProcessorRow, CatalogError> {
        self.processors.get(processor).ok_or_else(|| {
            let mut names: Vec<&str> = self.processors.keys().map(String::as_str).collect();
            names.sort_unstable();
            let rule = "is not in the table of processors".to_string();
            CatalogError::UnknownInstance(Box::new(Problem::new(
                processor.to_string(),
                rule,
                "data/processors.csv",
                format!("Known are {}.", names.join(", ")),
            )))
        })
    }

    /// Returns the speed of a core of a type; a type whose number of cores is not known counts with
    /// its whole cache.
    fn core_speed_of(&self, row: &TypeRow) -> Option<f64> {
        let processor = self.processors.get(&row.processor)?;
        let by_cache = row.cores.map_or(1.0, |cores| processor.cache.speed_in_part(cores));
        Some(processor.per_clock * row.clock_ghz? * by_cache)
    }

    /// Returns the launch of a type: its own row, or that of its family where the type was among
    /// the first of it that a table showed. Sizes that joined a family later have the day they were
    /// first seen.
    fn launch(&self, row: &TypeRow) -> Option<&LaunchRow> {
        let family = family(&row.instance_type);
        let of_family = || self.launches.get(family).filter(|_| self.family_seen.get(family) == Some(&row.first_seen));
        self.launches.get(&row.instance_type).or_else(of_family)
    }

    /// Returns the first day on which the catalog takes a type to exist.
    fn exists_since(&self, row: &TypeRow) -> NaiveDate {
        self.launch(row).map_or(row.first_seen, |launch| launch.launched)
    }

    pub(crate) fn local_iops(&self, name: &str) -> Option<&LocalIops> {
        self.local_iops.get(name)
    }

    /// Returns the limits of a type on a day; names are in any case.
    pub(crate) fn get(&self, name: &str, date: NaiveDate, sources: &Sources) -> Result<InstanceLimits, CatalogError> {
        let lower = name.trim().to_ascii_lowercase();
        let row = self.types.get(&lower).ok_or_else(|| {
            CatalogError::UnknownInstance(Box::new(Problem::new(
                format!("instance {name:?}"),
                "is not an instance type of this catalog",
                "data/instances.csv",
                did_you_mean(name, self.types.keys().map(String::as_str), "See `headrace catalog instances`."),
            )))
        })?;
        let first = self.exists_since(row);
        if first > date {
            let (rule, source) = match self.launch(row) {
                Some(launch) => (format!("launched on {first} ({}{})", launch.announcement, doubtful(launch)), sources.cite(&launch.source)),
                None => (format!("first seen on {first}"), "data/instances.csv, column first_seen".to_string()),
            };
            let hint = format!("Ask for {first} or later, or for another type.");
            return Err(CatalogError::NotYet { problem: Box::new(Problem::new(format!("{} on {date}", row.instance_type), rule, source, hint)), first });
        }
        Ok(self.resolve(row, date))
    }

    /// Returns the types that exist on `date`.
    pub(crate) fn all(&self, date: NaiveDate) -> Vec<InstanceLimits> {
        self.types.values().filter(|row| self.exists_since(row) <= date).map(|row| self.resolve(row, date)).collect()
    }

    /// Returns the limits of a type on a day, which is not before its launch, with caveats about
    /// its figures.
    fn resolve(&self, row: &TypeRow, date: NaiveDate) -> InstanceLimits {
        let mut caveats = type_caveats(row, self.launch(row), date);
        let rows = self.limits.get(&row.instance_type).map_or(&[][..], Vec::as_slice);
        let limit = rows.iter().rev().find(|limit| limit.first_seen <= date).or(rows.first());
        limit_caveats(limit, date, row, &mut caveats);
        let bytes = |mb_s: Option<f64>| mb_s.map(|mb_s| (mb_s * 1e6).round() as u64);
        let baseline_bytes_s = bytes(limit.and_then(|limit| limit.baseline_mb_s));
        let max_bytes_s = bytes(limit.and_then(|limit| limit.max_mb_s));
        let baseline_iops = limit.and_then(|limit| limit.baseline_iops);
        let max_iops = limit.and_then(|limit| limit.max_iops);
        let below = |low: Option<u64>, high: Option<u64>| matches!((low, high), (Some(low), Some(high)) if low < high);
        let bursts = below(baseline_bytes_s, max_bytes_s) || below(baseline_iops, max_iops);
        InstanceLimits {
            instance_type: row.instance_type.clone(),
            as_of: date,
            vcpus: row.vcpus.unwrap_or(0),
            threads_per_core: row.threads_per_core.unwrap_or(0),
            core_speed: self.core_speed_of(row),
            memory_mib: row.memory_mib.unwrap_or(0),
            nitro: row.nitro,
            current_generation: row.current_generation,
            baseline_bytes_s,
            max_bytes_s,
            baseline_iops,
            max_iops,
            burst_seconds: if bursts { self.burst_seconds } else { 0 },
            instance_store_gb: row.instance_store_gb.unwrap_or(0),
            instance_store_devices: row.instance_store_devices.unwrap_or(0),
            max_ebs_attachments: row.max_ebs_attachments,
            attachments_shared: row.attachment_limit_type == "shared",
            attachments_source: row.source.clone(),
            exists_since: self.exists_since(row),
            arch: row.architectures.clone(),
            limits_source: limit.map_or(&row.source, |limit| &limit.source).clone(),
            limits_as_of: limit.map_or(row.as_of.to_string(), |limit| format!("{} to {}", limit.first_seen, limit.last_seen)),
            caveats,
        }
    }
}

/// Returns the part of an instance type before the dot: `m5` of `m5.large`.
pub(crate) fn family(instance_type: &str) -> &str {
    instance_type.split_once('.').map_or(instance_type, |(family, _)| family)
}

/// Returns the words that follow a launch whose day is not confirmed.
fn doubtful(launch: &LaunchRow) -> &'static str {
    if launch.confirmed {
        ""
    } else {
        ", not confirmed"
    }
}

/// Reads the days of launches by family or type; refuses a launch after the day on which a table
/// first showed it.
fn parse_launches(
    files: &crate::table::DataFiles<'_>,
    sources: &Sources,
    types: &BTreeMap<String, TypeRow>,
    family_seen: &HashMap<String, NaiveDate>,
) -> Result<HashMap<String, LaunchRow>, CatalogError> {
    let mut launches = HashMap::new();
    for row in crate::table::rows::<LaunchRow>("instances_launch.csv", files.instances_launch)? {
        let place = format!("instances_launch.csv: {}: field", row.name);
        sources.require(&row.source, &format!("{place} source"))?;
        let Some(seen) = family_seen.get(&row.name).or_else(|| types.get(&row.name).map(|row| &row.first_seen)) else {
            return Err(broken(&format!("{place} name"), "is neither a family nor a type of instances.csv"));
        };
        if row.launched > *seen {
            return Err(broken(&format!("{place} launched"), &format!("is after {seen}, when a table first showed it")));
        }
        if launches.insert(row.name.clone(), row).is_some() {
            return Err(broken(&format!("{place} name"), "stands there twice"));
        }
    }
    Ok(launches)
}

/// Reads the processors by name, and refuses figures outside any processor's.
fn parse_processors(files: &crate::table::DataFiles<'_>, sources: &Sources) -> Result<HashMap<String, ProcessorRow>, CatalogError> {
    let mut processors = HashMap::new();
    for row in crate::table::rows::<ProcessorRow>("processors.csv", files.processors)? {
        let place = format!("processors.csv: {}: field", row.processor);
        sources.require(&row.source, &format!("{place} source"))?;
        // The slowest and the fastest core of any cloud lie far inside.
        if !(0.1..=10.0).contains(&row.per_clock) {
            return Err(broken(&format!("{place} per_clock"), "must be from 0.1 to 10"));
        }
        if row.alone_ghz.is_some_and(|ghz| !(0.1..=10.0).contains(&ghz)) {
            return Err(broken(&format!("{place} alone_ghz"), "must be from 0.1 to 10"));
        }
        row.cache.check(&place)?;
        if let Some(row) = processors.insert(row.processor.clone(), row) {
            return Err(broken(&format!("processors.csv: {}: field processor", row.processor), "is given twice"));
        }
    }
    Ok(processors)
}

/// Refuses a type whose processor, clock or number of cores cannot be.
fn check_processors(row: &TypeRow, processors: &HashMap<String, ProcessorRow>) -> Result<(), CatalogError> {
    let place = format!("instances.csv: {}: field", row.instance_type);
    if !row.processor.is_empty() && !processors.contains_key(&row.processor) {
        return Err(broken(&format!("{place} processor"), "is not a row of processors.csv"));
    }
    if row.clock_ghz.is_some_and(|ghz| !(0.1..=10.0).contains(&ghz)) {
        return Err(broken(&format!("{place} clock_ghz"), "must be from 0.1 to 10"));
    }
    if let (Some(vcpus), Some(cores), Some(threads)) = (row.vcpus, row.cores, row.threads_per_core) {
        if cores * threads != vcpus {
            return Err(broken(&format!("{place} cores"), "times threads_per_core must be vcpus"));
        }
    }
    Ok(())
}

/// Refuses limits of a type that is not known, and figures or days that cannot be.
fn check_limit_row(row: &LimitRow, types: &BTreeMap<String, TypeRow>, sources: &Sources) -> Result<(), CatalogError> {
    let place = format!("instances_limits.csv: {} {}", row.instance_type, row.first_seen);
    sources.require(&row.source, &format!("{place}: field source"))?;
    if !types.contains_key(&row.instance_type) {
        return Err(broken(&format!("{place}: field instance_type"), "is not a type of instances.csv"));
    }
    for (field, mb_s) in [("baseline_mb_s", row.baseline_mb_s), ("max_mb_s", row.max_mb_s)] {
        // A million MB/s is beyond any instance; a finite bound keeps bytes per second inside 64
        // bits.
        if mb_s.is_some_and(|mb_s| !(0.0..=1e6).contains(&mb_s)) {
            return Err(broken(&format!("{place}: field {field}"), "must be from 0 to 1000000"));
        }
    }
    if row.first_seen > row.last_seen {
        return Err(broken(&format!("{place}: field last_seen"), "is before first_seen"));
    }
    Ok(())
}

/// Lists what is not confirmed of a type itself: its system, its remark, and a launch before tables
/// showed it.
fn type_caveats(row: &TypeRow, launch: Option<&LaunchRow>, date: NaiveDate) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if !row.nitro_confirmed {
        let system = if row.nitro { "Nitro" } else { "Xen" };
        caveats.push(Caveat::new("nitro", format!("{system}: by family, no API dump says so"), &row.source));
    }
    if !row.note.is_empty() {
        caveats.push(Caveat::new("instance_type", &row.note, &row.source));
    }
    if let Some(launch) = launch.filter(|_| row.first_seen > date) {
        let text = format!("launched on {}{}; first seen in these tables on {}", launch.launched, doubtful(launch), row.first_seen);
        caveats.push(Caveat::new("exists_since", text, &launch.source));
    }
    caveats
}

/// Adds what is not confirmed of the EBS limits of a type on a day.
fn limit_caveats(limit: Option<&LimitRow>, date: NaiveDate, row: &TypeRow, caveats: &mut Vec<Caveat>) {
    let Some(limit) = limit else {
        caveats.push(Caveat::new("ebs_limits", "no EBS limit of this type is known; none is applied", &row.source));
        return;
    };
    if !limit.confirmed {
        caveats.push(Caveat::new("ebs_limits", &limit.note, &limit.source));
    }
    if limit.first_seen > date {
        caveats.push(Caveat::new("ebs_limits", format!("limits first seen on {} are used for {date}", limit.first_seen), &limit.source));
    }
}
