//! Volume types as `data/volumes/*.toml` describes them: one [`VolumeEra`] for each span of days
//! with the same rules.

use crate::error::broken;
use crate::error::CatalogError;
use crate::source::{Param, Sources};
use crate::spec::VolumeType;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Promise of AWS about delivered performance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consistency {
    /// Share of the provisioned or expected performance, in percent.
    pub at_least_percent: f64,
    /// Share of the time, in percent.
    pub of_time_percent: f64,
}

/// Least and most of something, both allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Least.
    pub min: Param<u64>,
    /// Most.
    pub max: Param<u64>,
}

/// The credit bucket of gp2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditRule {
    /// IOPS while there are credits.
    pub iops: Param<u64>,
    /// Full bucket, in I/Os.
    pub capacity_ios: Param<u64>,
    /// Balance of a new volume, in I/Os.
    pub initial_ios: Param<u64>,
    /// Volumes of this size and above do not burst, in GiB.
    pub below_gib: Param<u64>,
}

/// Rule for the sustained IOPS of a volume, from its specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum IopsRule {
    /// Fixed figure for every volume (standard).
    Fixed {
        /// I/Os per second.
        sustained: Param<u64>,
    },
    /// By size, with credits (gp2): `clamp(per_gib * size, floor, cap)`.
    PerGib {
        /// I/Os per second and GiB.
        per_gib: Param<u64>,
        /// Least.
        floor: Param<u64>,
        /// Most.
        cap: Param<u64>,
        /// Burst.
        burst: Box<CreditRule>,
    },
    /// An amount included, more for a price (gp3).
    IncludedPlus {
        /// Included I/Os per second, at any size.
        included: Param<u64>,
        /// Most that can be bought.
        max: Param<u64>,
        /// Most per GiB once above the included amount.
        per_gib: Param<u64>,
    },
    /// All of it bought (io1, io2).
    Provisioned {
        /// Least.
        min: Param<u64>,
        /// Most.
        max: Param<u64>,
        /// Most per GiB.
        per_gib: Param<u64>,
        /// Most that an instance outside the Nitro System delivers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        non_nitro_max: Option<Param<u64>>,
    },
    /// Follows from the throughput, in I/Os of 1 MiB (st1, sc1).
    ThroughputBound {
        /// Most, for the largest volumes.
        max: Param<u64>,
    },
    /// Disks of the host: by instance type, from `instances_local_iops.csv`.
    LocalDisk {
        /// Writes, for instance types without a figure.
        fallback: Param<u64>,
        /// Reads, for the same.
        fallback_reads: Param<u64>,
    },
}

/// One step of the throughput an io1 or io2 volume gets for its IOPS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputTier {
    /// Provisioned IOPS this step ends with; none for the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_iops: Option<u64>,
    /// KiB/s for each provisioned IOPS.
    pub kib_per_iops: Param<u64>,
    /// Most, in MiB/s.
    pub cap_mib_s: Param<u64>,
}

/// Rule for the throughput of a volume, from its specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ThroughputRule {
    /// Fixed figure for every volume (standard).
    Fixed {
        /// MiB/s.
        mib_s: Param<u64>,
    },
    /// A lower step for small volumes (gp2).
    BySize {
        /// MiB/s.
        mib_s: Param<u64>,
        /// MiB/s of small volumes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        small_mib_s: Option<Param<u64>>,
        /// Largest small volume in GiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        small_up_to_gib: Option<Param<u64>>,
        /// Between small and this size in GiB the full figure needs I/O credits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credits_needed_below_gib: Option<Param<u64>>,
    },
    /// An amount included, more for a price (gp3).
    IncludedPlus {
        /// Included MiB/s.
        included_mib_s: Param<u64>,
        /// Most that can be bought.
        max_mib_s: Param<u64>,
        /// Most MiB/s for each IOPS of the volume.
        mib_s_per_iops: Param<f64>,
    },
    /// Follows from the provisioned IOPS (io1, io2).
    PerIops {
        /// Most MiB/s that an instance outside the Nitro System delivers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        non_nitro_cap_mib_s: Option<Param<u64>>,
        /// Steps by IOPS.
        tier: Vec<ThroughputTier>,
    },
    /// Baseline, burst and bucket by size (st1, sc1).
    PerTib {
        /// Baseline MiB/s per TiB.
        baseline_per_tib_mib_s: Param<u64>,
        /// Most baseline, MiB/s.
        baseline_cap_mib_s: Param<u64>,
        /// Burst MiB/s per TiB.
        burst_per_tib_mib_s: Param<u64>,
        /// Most burst, MiB/s.
        burst_cap_mib_s: Param<u64>,
        /// Full bucket in TiB per TiB of volume.
        capacity_tib_per_tib: Param<u64>,
        /// Balance of a new volume, 0 to 1 of the capacity.
        initial_fraction: Param<f64>,
    },
    /// Disks of the host.
    LocalDisk {
        /// MiB/s of writes, for instance types without a figure.
        fallback_mib_s: Param<u64>,
        /// MiB/s of reads, for the same.
        fallback_reads_mib_s: Param<u64>,
        /// KiB/s for each documented IOPS.
        kib_per_documented_iops: Param<u64>,
    },
}

/// The rules of one volume type over a span of days.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeEra {
    /// The type.
    pub volume_type: VolumeType,
    /// First day.
    pub from: NaiveDate,
    /// First day of the next era; `None` for the newest.
    pub until: Option<NaiveDate>,
    /// The rules themselves.
    #[serde(flatten)]
    pub rules: EraRules,
}

/// Content of an `[[era]]` block of a file, without its first day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraRules {
    /// Evidence that the era begins on its first day.
    pub evidence: Param<String>,
    /// Size in GiB.
    pub size_gib: Range,
    /// IOPS.
    pub iops: IopsRule,
    /// Throughput.
    pub throughput: ThroughputRule,
    /// Largest request that counts as one I/O, in bytes.
    pub io_unit_bytes: Param<u64>,
    /// True if a random I/O pays a whole unit, however small (st1, sc1).
    pub random_charges_full_unit: bool,
    /// True if data outlives the instance.
    pub persistent: bool,
    /// Promise about delivered performance, if any is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Param<Consistency>>,
    /// Annual failure rate in percent, lowest and highest, if any is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability_afr_percent: Option<Param<(f64, f64)>>,
    /// Further facts that drive no number here.
    #[serde(default)]
    pub facts: BTreeMap<String, Param<serde_json::Value>>,
}

impl std::ops::Deref for VolumeEra {
    type Target = EraRules;

    fn deref(&self) -> &EraRules {
        &self.rules
    }
}

/// Reads one file of `data/volumes`; eras come out oldest first.
pub(crate) fn parse(file: &str, text: &str, sources: &Sources) -> Result<(VolumeType, Vec<VolumeEra>), CatalogError> {
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| broken(file, error.message()))?;
    let name = table.get("type").and_then(toml::Value::as_str).unwrap_or("");
    let volume_type: VolumeType = name.parse().map_err(|_| broken(&format!("{file}: field type: {name:?}"), "is not a volume type"))?;
    check_aliases(file, volume_type, table.get("aliases"))?;
    let blocks = match table.remove("era") {
        Some(toml::Value::Array(blocks)) if !blocks.is_empty() => blocks,
        _ => return Err(broken(&format!("{file}: field era"), "needs an [[era]] block")),
    };
    let mut eras: Vec<VolumeEra> = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let era = parse_era(file, index, volume_type, block, sources)?;
        if let Some(before) = eras.last_mut() {
            if before.from >= era.from {
                return Err(broken(&format!("{file}: era {}: field from", era.from), "eras must be in the order of their days"));
            }
            before.until = Some(era.from);
        }
        eras.push(era);
    }
    Ok((volume_type, eras))
}

/// Checks that the aliases of a file, which are for people, say the same as the notation, which is
/// read by code.
fn check_aliases(file: &str, volume_type: VolumeType, aliases: Option<&toml::Value>) -> Result<(), CatalogError> {
    let aliases = aliases.and_then(toml::Value::as_array);
    for alias in aliases.map_or(&[][..], Vec::as_slice) {
        let name = alias.as_str().unwrap_or_default();
        if name.parse::<VolumeType>() != Ok(volume_type) {
            return Err(broken(&format!("{file}: field aliases: {name:?}"), "is not read as this type by the storage notation (spec.rs)"));
        }
    }
    Ok(())
}

/// Reads the `index`-th `[[era]]` block of a file, whose end is not known yet.
fn parse_era(file: &str, index: usize, volume_type: VolumeType, block: toml::Value, sources: &Sources) -> Result<VolumeEra, CatalogError> {
    let toml::Value::Table(mut block) = block else {
        return Err(broken(&format!("{file}: era {}", index + 1), "must be a table"));
    };
    let day = match block.remove("from") {
        Some(toml::Value::String(day)) => day,
        _ => String::new(),
    };
    let from: NaiveDate =
        day.parse().map_err(|_| broken(&format!("{file}: era {}: field from: {day:?}", index + 1), "must be a day in quotes, \"YYYY-MM-DD\""))?;
    let place = format!("{file}: era {from}");
    check_sources(&place, &toml::Value::Table(block.clone()), sources)?;
    let rules: EraRules = block.try_into().map_err(|error: toml::de::Error| broken(&place, error.to_string().trim()))?;
    check_rules(&place, &rules)?;
    Ok(VolumeEra { volume_type, from, until: None, rules })
}

/// Checks that every `source` below `value` is an id of `sources.csv`.
pub(crate) fn check_sources(place: &str, value: &toml::Value, sources: &Sources) -> Result<(), CatalogError> {
    let toml::Value::Table(table) = value else {
        return Ok(());
    };
    for (key, below) in table {
        let here = format!("{place}: field {key}");
        match (key.as_str(), below) {
            ("source", toml::Value::String(id)) => sources.require(id, place)?,
            ("source", toml::Value::Array(ids)) => {
                for id in ids {
                    sources.require(id.as_str().unwrap_or_default(), place)?;
                }
            }
            (_, toml::Value::Array(list)) => {
                for item in list {
                    check_sources(&here, item, sources)?;
                }
            }
            _ => check_sources(&here, below, sources)?,
        }
    }
    Ok(())
}

/// Refuses figures that would make the arithmetic of the limits meaningless; `place` names file and
/// era.
fn check_rules(place: &str, rules: &EraRules) -> Result<(), CatalogError> {
    let refuse = |field: &str, rule: &str| Err(broken(&format!("{place}: field {field}"), rule));
    if rules.size_gib.min.value == 0 || rules.size_gib.min.value > rules.size_gib.max.value {
        return refuse("size_gib", "needs 0 < min <= max");
    }
    // 2^20 GiB is an exbibyte over a thousand: far above any volume, and every product below stays
    // inside 64 bits.
    if rules.size_gib.max.value > 1 << 20 {
        return refuse("size_gib.max", "is above 1,048,576 GiB");
    }
    if rules.io_unit_bytes.value == 0 {
        return refuse("io_unit_bytes", "must be above 0");
    }
    if let IopsRule::PerGib { floor, cap, .. } = &rules.iops {
        if floor.value > cap.value {
            return refuse("iops.floor", "is above iops.cap");
        }
    }
    match &rules.throughput {
        ThroughputRule::PerIops { tier, .. } => {
            let last_open = tier.last().is_some_and(|tier| tier.up_to_iops.is_none());
            if !last_open {
                return refuse("throughput.tier", "the last step must have no up_to_iops");
            }
        }
        ThroughputRule::PerTib { initial_fraction, .. } if !(0.0..=1.0).contains(&initial_fraction.value) => {
            return refuse("throughput.initial_fraction", "must be from 0 to 1");
        }
        _ => {}
    }
    Ok(())
}
