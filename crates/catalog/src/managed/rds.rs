//! The volumes behind RDS storage: `data/managed/rds_storage.csv`.

use super::tables::{Managed, StorageRow};
use crate::error::{CatalogError, Problem};
use crate::spec::{RaidLevel, StorageSpec, VolumeSpec, VolumeType, DEFAULT_CHUNK_KIB};
use crate::table::in_force;
use chrono::NaiveDate;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Storage of an RDS instance as the EBS volumes that RDS makes of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RdsStorage {
    /// One volume, or RAID 0 of four. A size or rate that four does not divide is rounded down.
    pub array: StorageSpec,
    /// IOPS of all together; `None` for gp2, which has them by size.
    pub iops: Option<u64>,
    /// MiB/s of all together, for gp3.
    pub throughput_mib_s: Option<u64>,
    /// Allocated storage, GiB, which is billed.
    pub size_gib: u64,
    /// Volume type.
    pub volume_type: VolumeType,
    /// Sources of the rules, and the days they speak for.
    pub source: String,
    /// Day of the rules.
    pub as_of: String,
}

/// The rules of one type and size on a day.
struct SizeRules<'a> {
    volume: &'a VolumeSpec,
    rows: Vec<&'a StorageRow>,
    date: NaiveDate,
}

impl<'a> SizeRules<'a> {
    /// Returns the row of a parameter in force for the size of the volume.
    fn row(&self, parameter: &str) -> Option<&'a StorageRow> {
        let size = self.volume.size_gib;
        let fits = |row: &&&StorageRow| row.parameter == parameter && (row.from_gib..=row.to_gib).contains(&size);
        let fits: Vec<&StorageRow> = self.rows.iter().filter(fits).copied().collect();
        in_force(&fits, self.date, |row| row.first_seen).copied()
    }

    /// Returns the figure of a parameter for the size of the volume.
    fn value(&self, parameter: &str) -> Option<f64> {
        self.row(parameter).map(|row| row.value)
    }

    /// Makes the refusal of the volume.
    fn refused<T>(&self, rule: String, hint: &str) -> Result<T, CatalogError> {
        let source = "data/managed/rds_storage.csv (Amazon RDS user guide)";
        Err(CatalogError::Limit(Box::new(Problem::new(self.volume.to_string(), rule, source, hint))))
    }

    /// Returns the IOPS of all volumes together: the requested ones, at least the included ones.
    fn iops(&self) -> Result<Option<f64>, CatalogError> {
        let (name, size) = (self.volume.volume_type.as_str(), self.volume.size_gib);
        let mut iops = self.volume.iops.map(|iops| iops as f64);
        if self.volume.volume_type == VolumeType::Gp2 {
            return if iops.is_none() { Ok(None) } else { self.refused("gp2 has its IOPS by size".into(), "Leave them out, or take gp3, io1 or io2.") };
        }
        if let Some(included) = self.value("included_iops") {
            iops = Some(iops.unwrap_or(included).max(included));
        }
        let least = self.value("least_iops").unwrap_or(0.0);
        match (iops, self.value("most_iops"), self.value("most_iops_per_gib")) {
            (Some(given), Some(most), _) if given > most => {
                let hint = if size < 400 { "From 400 GiB on more can be bought." } else { "Take fewer, or another type." };
                self.refused(format!("RDS takes at most {most} IOPS with {size} GiB of {name}"), hint)
            }
            (Some(given), _, _) if given < least => self.refused(format!("RDS takes {least} IOPS of {name} or more"), "Take more IOPS."),
            (Some(given), _, Some(per_gib)) if given > per_gib * size as f64 => {
                self.refused(format!("RDS takes {per_gib} IOPS per GiB of {name} at most"), "Take a larger size, or fewer IOPS.")
            }
            (None, ..) if least > 0.0 => self.refused(format!("IOPS of {name} must be named"), "For example io1:500:10000."),
            _ => Ok(iops),
        }
    }

    /// Returns the MiB/s of all volumes together, where they can be named: at least the included
    /// ones, and those that rise by themselves with IOPS.
    fn throughput(&self, iops: f64) -> Result<Option<f64>, CatalogError> {
        let named_mib_s = self.volume.throughput_mib_s.map(|mib_s| mib_s as f64);
        let Some(included) = self.value("included_mib_s") else {
            return if named_mib_s.is_none() { Ok(None) } else { self.refused("the type has its MiB/s by size or IOPS".into(), "Leave them out.") };
        };
        let by_itself = self.value("iops_per_included_mib_s").map_or(0.0, |per| iops / per);
        let given = named_mib_s.unwrap_or(0.0).max(included).max(by_itself);
        let per_iops = self.value("most_mib_s_per_iops").map_or(f64::INFINITY, |per| per * iops);
        let most = self.value("most_mib_s").unwrap_or(f64::INFINITY).min(per_iops);
        if given > most {
            return self.refused(format!("RDS takes at most {most} MiB/s with this size and these IOPS"), "Take less, or more IOPS.");
        }
        Ok(Some(given))
    }
}

/// Rules of RDS for a range of sizes of a volume type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RdsRange {
    /// Smallest size, GiB.
    pub from_gib: u64,
    /// Largest size, GiB.
    pub to_gib: u64,
    /// Rules by name: `included_iops`, `most_iops`, ... (data/managed/rds_storage.csv).
    pub figures: BTreeMap<String, f64>,
}

impl Managed {
    /// Returns the ranges of sizes of a type with what holds in each, by name.
    pub(super) fn rds_ranges(&self, volume_type: VolumeType, date: NaiveDate) -> Vec<RdsRange> {
        let name = volume_type.as_str();
        let type_rows = || self.storage.iter().filter(|row| row.storage_type == name);
        // Rules begin and end at the same few sizes: between two of them nothing changes.
        let bounds: BTreeSet<u64> = type_rows().flat_map(|row| [row.from_gib, row.to_gib + 1]).collect();
        let bounds: Vec<u64> = bounds.into_iter().collect();
        let range = |pair: &[u64]| {
            let volume = VolumeSpec { volume_type, size_gib: pair[0], iops: None, throughput_mib_s: None };
            let rules = SizeRules { volume: &volume, rows: type_rows().collect(), date };
            let names: BTreeSet<&str> = type_rows().map(|row| row.parameter.as_str()).collect();
            let figures = names.into_iter().filter_map(|name| Some((name.to_string(), rules.value(name)?))).collect();
            RdsRange { from_gib: pair[0], to_gib: pair[1] - 1, figures }
        };
        bounds.windows(2).map(range).filter(|range| !range.figures.is_empty()).collect()
    }

    /// Returns the volumes behind storage that RDS is asked for, with the rates of all together.
    pub(super) fn rds_storage(&self, volume: &VolumeSpec, date: NaiveDate) -> Result<RdsStorage, CatalogError> {
        let (volume_type, size) = (volume.volume_type, volume.size_gib);
        let name = volume_type.as_str();
        let rules = SizeRules { volume, rows: self.storage.iter().filter(|row| row.storage_type == name).collect(), date };
        let Some((least, most)) = rules.rows.iter().map(|row| (row.from_gib, row.to_gib)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            return rules.refused(format!("RDS for MySQL does not offer {name}"), "Choose gp3, gp2, io1 or io2.");
        };
        if !(least..=most).contains(&size) {
            return rules.refused(format!("RDS takes {least} to {most} GiB of {name}"), "Give a size in between.");
        }
        let iops = rules.iops()?;
        let throughput = rules.throughput(iops.unwrap_or(0.0))?;
        let count = rules.value("volumes").map_or(1, |count| count as u64).max(1);
        let share = |whole: f64| (whole / count as f64) as u64;
        let member = VolumeSpec { volume_type, size_gib: size / count, iops: iops.map(share), throughput_mib_s: throughput.map(share) };
        let stands = rules.row("volumes").unwrap_or(rules.rows[0]);
        Ok(RdsStorage {
            array: StorageSpec { raid: (count > 1).then_some(RaidLevel::Raid0), members: vec![member; count as usize], chunk_kib: DEFAULT_CHUNK_KIB },
            iops: iops.map(|iops| iops as u64),
            throughput_mib_s: throughput.map(|mib_s| mib_s as u64),
            size_gib: size,
            volume_type,
            source: stands.source.clone(),
            as_of: super::tables::seen(stands.first_seen, date),
        })
    }
}
