//! Limits of one volume on a day: the rules of its era applied to its specification.

use crate::error::{BrokenLimit, CatalogError, Problem};
use crate::instance::{InstanceLimits, Instances};
use crate::source::{Caveat, Param, Sources};
use crate::spec::{VolumeSpec, VolumeType};
use crate::volume::{Consistency, IopsRule, ThroughputRule, VolumeEra};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// Bytes of the binary units.
const KIB: u64 = 1024;
const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * 1024 * 1024;

/// The I/O credits of gp2. They refill at [`VolumeLimits::iops`]; the I/Os delivered above that
/// rate spend them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoBurst {
    /// I/Os per second while there are credits.
    pub iops: u64,
    /// Full bucket, in I/Os.
    pub capacity_ios: u64,
    /// Balance of a new volume, in I/Os.
    pub initial_ios: u64,
}

/// The byte credits of st1 and sc1. [`VolumeLimits::throughput_bytes_s`] is the burst rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteBurst {
    /// Rate that can be held and at which the bucket refills, bytes per second.
    pub baseline_bytes_s: u64,
    /// Full bucket, in bytes.
    pub capacity_bytes: u64,
    /// Balance of a new volume, in bytes.
    pub initial_bytes: u64,
}

/// Read limits of a local disk, where its reads have caps apart from those of its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLimits {
    /// Reads per second.
    pub iops: u64,
    /// Bytes read per second.
    pub throughput_bytes_s: u64,
}

impl ReadLimits {
    /// Changes both figures alike.
    pub fn map(self, change: impl Fn(u64) -> u64) -> ReadLimits {
        ReadLimits { iops: change(self.iops), throughput_bytes_s: change(self.throughput_bytes_s) }
    }
}

impl VolumeLimits {
    /// Returns the limits after every credit is spent: the baseline, for a load that presses on it
    /// day after day.
    pub fn without_burst(mut self) -> VolumeLimits {
        self.io_burst = None;
        if let Some(burst) = self.byte_burst.take() {
            self.throughput_bytes_s = burst.baseline_bytes_s;
        }
        self
    }
}

/// Limits of a volume on a day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeLimits {
    /// The volume.
    pub spec: VolumeSpec,
    /// Day asked for.
    pub as_of: NaiveDate,
    /// First day of the rules used.
    pub era_from: NaiveDate,
    /// I/Os per second that can be held.
    pub iops: u64,
    /// I/O credits, for gp2 volumes small enough to burst.
    pub io_burst: Option<IoBurst>,
    /// Most bytes per second; with byte credits, the burst rate.
    pub throughput_bytes_s: u64,
    /// Byte credits, for st1 and sc1 volumes whose baseline is below their burst rate.
    pub byte_burst: Option<ByteBurst>,
    /// Read limits of a local disk, whose other figures are then those of its writes; None if reads
    /// and writes share them, as on EBS.
    #[serde(default)]
    pub reads: Option<ReadLimits>,
    /// Largest request that counts as one I/O: 262,144 bytes on SSD, 1,048,576 on HDD.
    pub io_unit_bytes: u64,
    /// True if a random I/O pays a whole unit, however small (st1, sc1).
    pub random_charges_full_unit: bool,
    /// Promise about delivered performance, if any is given.
    pub consistency: Option<Consistency>,
    /// Annual failure rate in percent, lowest and highest, if any is given.
    pub durability_afr_percent: Option<(f64, f64)>,
    /// True if data outlives the instance.
    pub persistent: bool,
    /// Every unconfirmed or chosen figure that was used.
    pub caveats: Vec<Caveat>,
}

/// Throughput with its credits.
type Throughput = (u64, Option<ByteBurst>);

pub(crate) struct Resolver<'a> {
    sources: &'a Sources,
    era: &'a VolumeEra,
    spec: &'a VolumeSpec,
    date: NaiveDate,
    instance: Option<&'a InstanceLimits>,
    instances: Option<&'a Instances>,
    caveats: Vec<Caveat>,
}

/// Returns the volume type with its article: "a gp2 volume", "an io1 volume".
fn a_volume(volume_type: VolumeType) -> String {
    let name = volume_type.as_str();
    let article = if name.starts_with('i') { "an" } else { "a" };
    format!("{article} {name} volume")
}

impl<'a> Resolver<'a> {
    /// Makes a resolver; `instance` comes with the table it is from.
    pub(crate) fn new(
        sources: &'a Sources,
        era: &'a VolumeEra,
        spec: &'a VolumeSpec,
        date: NaiveDate,
        instance: Option<(&'a InstanceLimits, &'a Instances)>,
    ) -> Self {
        let (instance, instances) = instance.unzip();
        Resolver { sources, era, spec, date, instance, instances, caveats: Vec::new() }
    }

    /// Returns the limits of the volume; the error names the first rule that it breaks.
    pub(crate) fn resolve(mut self) -> Result<VolumeLimits, CatalogError> {
        let era = self.era;
        // Before the size, as EC2 does: the CSI driver asks for 4 GiB of each type with more IOPS
        // than any has, and reads from the refusal whether IOPS can be chosen.
        self.check_takes_iops()?;
        self.check_size()?;
        let (iops, io_burst) = self.iops()?;
        let (throughput_bytes_s, byte_burst) = self.throughput(iops)?;
        let reads = self.local_reads();
        // An HDD volume has no IOPS figure of its own: its bytes in I/Os of 1 MiB, rounded up so
        // that bytes bind first.
        let iops = match era.iops {
            IopsRule::ThroughputBound { .. } => iops.min(throughput_bytes_s.div_ceil(MIB)),
            _ => iops,
        };
        self.era_start_caveat();
        let io_unit_bytes = era.io_unit_bytes.used("io_unit_bytes", &mut self.caveats);
        let consistency = era
            .consistency
            .as_ref()
            .map(|promise| self.promise("consistency", promise, |value| format!("{} % for {} % of the time", value.at_least_percent, value.of_time_percent)));
        let durability_afr_percent =
            era.durability_afr_percent.as_ref().map(|promise| self.promise("durability_afr_percent", promise, |(low, high)| format!("{low} to {high} %")));
        Ok(VolumeLimits {
            spec: self.spec.clone(),
            as_of: self.date,
            era_from: era.from,
            iops,
            io_burst,
            throughput_bytes_s,
            byte_burst,
            reads,
            io_unit_bytes,
            random_charges_full_unit: era.random_charges_full_unit,
            consistency,
            durability_afr_percent,
            persistent: era.persistent,
            caveats: self.caveats,
        })
    }

    /// Returns the value of a promise; records a caveat, worded by `say`, when it is not confirmed.
    fn promise<T: Copy>(&mut self, field: &str, promise: &Param<T>, say: impl Fn(T) -> String) -> T {
        if !promise.confirmed {
            let note = promise.note.as_deref().unwrap_or("not confirmed");
            let text = format!("{}: {note}", say(promise.value));
            self.caveats.push(Caveat::new(field, text, promise.source.joined()));
        }
        promise.value
    }

    /// Notes a caveat on eras whose first day is known to a few weeks only: a question inside them
    /// may belong to the era before.
    fn era_start_caveat(&mut self) {
        let evidence = &self.era.evidence;
        // SDK texts bracket the launches of 2015 within 28 days, all others closer.
        if !evidence.confirmed && (self.date - self.era.from).num_days() <= 30 {
            let text = format!("{}: {}", self.era.from, evidence.value);
            self.caveats.push(Caveat::new("from", text, evidence.source.joined()));
        }
    }

    /// Makes the refusal of a value that breaks a rule, with the rule's sources.
    fn refuse<T>(&self, rule: &Param<T>, broken: BrokenLimit, text: String, hint: impl Into<String>) -> CatalogError {
        let problem = Problem::new(self.spec.to_string(), text, self.sources.cite(&rule.source.joined()), hint);
        CatalogError::Limit(Box::new(Problem { limit: Some((self.spec.volume_type.as_str(), broken)), ..problem }))
    }

    /// Makes the refusal of a field the type does not take.
    fn not_taken(&self, what: &str, broken: BrokenLimit, hint: &str) -> CatalogError {
        let problem = Problem::new(
            self.spec.to_string(),
            format!("{} has no {what} to choose", self.spec.volume_type),
            format!("data/volumes/{}.toml", self.spec.volume_type),
            hint,
        );
        CatalogError::Limit(Box::new(Problem { limit: Some((self.spec.volume_type.as_str(), broken)), ..problem }))
    }

    /// Refuses a size outside the range of the type, or above that of a local disk.
    fn check_size(&mut self) -> Result<(), CatalogError> {
        let (min, max) = (&self.era.size_gib.min, &self.era.size_gib.max);
        let size = self.spec.size_gib;
        let (low, high) = (min.value, max.value);
        if size < low || size > high {
            let (rule, broken) = match size < low {
                true => (min, BrokenLimit::SizeTooSmall { gib: size, least: low }),
                false => (max, BrokenLimit::SizeTooLarge { gib: size, most: high }),
            };
            return Err(self.refuse(
                rule,
                broken,
                format!("{} is {low} to {high} GiB on {}", a_volume(self.spec.volume_type), self.date),
                format!("Use {} GiB, several volumes, or another type.", size.clamp(low, high)),
            ));
        }
        // Only a bound that could matter is worth a caveat: the range as a whole is not a figure of
        // this volume.
        if size == low {
            min.used("size_gib.min", &mut self.caveats);
        }
        if size == high {
            max.used("size_gib.max", &mut self.caveats);
        }
        self.check_local_size()
    }

    /// Refuses a local disk that the instance does not have, or that is larger than its disks.
    fn check_local_size(&self) -> Result<(), CatalogError> {
        let (VolumeType::InstanceStore, Some(instance)) = (self.spec.volume_type, self.instance) else {
            return Ok(());
        };
        let name = &instance.instance_type;
        let devices = u64::from(instance.instance_store_devices);
        let disk_gb = instance.instance_store_gb.checked_div(devices).unwrap_or(0);
        if self.spec.size_gib.saturating_mul(GIB) <= disk_gb.saturating_mul(1_000_000_000) {
            return Ok(());
        }
        let (rule, hint) = match disk_gb * 1_000_000_000 / GIB {
            0 => (format!("{name} has no local disks"), "Choose an instance type with instance storage, such as m5d or i3.".to_string()),
            disk_gib => (
                format!("a local disk of {name} has {disk_gb} GB, which is {disk_gib} GiB"),
                format!("Use {disk_gib} GiB or less, or one volume for each of its {devices} disks."),
            ),
        };
        Err(CatalogError::Limit(Box::new(Problem::new(self.spec.to_string(), rule, "data/instances.csv", hint))))
    }

    /// Refuses IOPS that are named for a type that does not let them be chosen.
    fn check_takes_iops(&self) -> Result<(), CatalogError> {
        let takes_iops = matches!(self.era.iops, IopsRule::IncludedPlus { .. } | IopsRule::Provisioned { .. });
        if self.spec.iops.is_some() && !takes_iops {
            return Err(self.not_taken("IOPS", BrokenLimit::IopsNotTaken, "Leave the field out, or use gp3, io1 or io2."));
        }
        Ok(())
    }

    /// Returns the IOPS that can be held, and the I/O credits of gp2.
    fn iops(&mut self) -> Result<(u64, Option<IoBurst>), CatalogError> {
        let iops = match &self.era.iops {
            IopsRule::PerGib { .. } => return Ok(self.iops_by_size()),
            IopsRule::Provisioned { .. } => self.iops_provisioned()?,
            IopsRule::Fixed { sustained } => sustained.used("iops.sustained", &mut self.caveats),
            IopsRule::ThroughputBound { max } => max.used("iops.max", &mut self.caveats),
            IopsRule::IncludedPlus { included, max, per_gib } => match self.spec.iops {
                None => included.used("iops.included", &mut self.caveats),
                Some(iops) => {
                    self.check_iops(iops, included, max, per_gib)?;
                    // The included IOPS come with any size; the ratio limits the IOPS bought above
                    // them.
                    if iops > included.value {
                        self.check_ratio(iops, per_gib)?;
                    }
                    iops
                }
            },
            IopsRule::LocalDisk { fallback, .. } => match self.documented_local() {
                Some((local, caveat)) => {
                    self.caveats.push(caveat);
                    local.writes
                }
                None => fallback.used("iops.fallback", &mut self.caveats),
            },
        };
        Ok((iops, None))
    }

    /// Computes the IOPS of gp2: `clamp(per_gib * size, floor, cap)`, and credits while that is
    /// below the burst.
    fn iops_by_size(&mut self) -> (u64, Option<IoBurst>) {
        let IopsRule::PerGib { per_gib, floor, cap, burst } = &self.era.iops else {
            return (0, None);
        };
        let size = self.spec.size_gib;
        let by_size = size * per_gib.used("iops.per_gib", &mut self.caveats);
        let iops = if by_size < floor.value {
            floor.used("iops.floor", &mut self.caveats)
        } else if by_size > cap.value {
            cap.used("iops.cap", &mut self.caveats)
        } else {
            by_size
        };
        if size >= burst.below_gib.value || iops >= burst.iops.value {
            return (iops, None);
        }
        let mut used = |field, param: &Param<u64>| param.used(field, &mut self.caveats);
        let io_burst = IoBurst {
            iops: used("iops.burst.iops", &burst.iops),
            capacity_ios: used("iops.burst.capacity_ios", &burst.capacity_ios),
            initial_ios: used("iops.burst.initial_ios", &burst.initial_ios),
        };
        (iops, Some(io_burst))
    }

    /// Returns the bought IOPS of io1 and io2, which AWS requires to be named.
    fn iops_provisioned(&mut self) -> Result<u64, CatalogError> {
        let IopsRule::Provisioned { min, max, per_gib, non_nitro_max } = &self.era.iops else {
            return Ok(0);
        };
        let Some(iops) = self.spec.iops else {
            let most = (self.spec.size_gib * per_gib.value).min(max.value);
            let volume = format!("{}:{}", self.spec.volume_type, self.spec.size_gib);
            let text = format!("{} needs provisioned IOPS", self.spec.volume_type);
            let hint = format!("Add them, {} to {most}, like {volume}:{most}.", min.value);
            return Err(self.refuse(max, BrokenLimit::IopsMissing, text, hint));
        };
        self.check_iops(iops, min, max, per_gib)?;
        self.check_ratio(iops, per_gib)?;
        Ok(self.outside_nitro("iops", iops, non_nitro_max.as_ref(), 1))
    }

    /// Refuses bought IOPS outside the range of the type.
    fn check_iops(&mut self, iops: u64, min: &Param<u64>, max: &Param<u64>, per_gib: &Param<u64>) -> Result<(), CatalogError> {
        let (low, high) = (min.value, max.value);
        if iops < low || iops > high {
            let (rule, broken) = match iops < low {
                true => (min, BrokenLimit::IopsTooLow { iops, least: low }),
                false => (max, BrokenLimit::IopsTooHigh { iops, most: high, most_gib: self.era.size_gib.max.value, most_per_gib: per_gib.value }),
            };
            return Err(self.refuse(
                rule,
                broken,
                format!("{} takes {low} to {high} IOPS on {}", self.spec.volume_type, self.date),
                format!("Use {} IOPS, or spread the load over several volumes.", iops.clamp(low, high)),
            ));
        }
        if iops == high {
            max.used("iops.max", &mut self.caveats);
        }
        Ok(())
    }

    /// Refuses more bought IOPS per GiB than the type takes.
    fn check_ratio(&mut self, iops: u64, per_gib: &Param<u64>) -> Result<(), CatalogError> {
        let most = self.spec.size_gib * per_gib.value;
        if iops > most {
            return Err(self.refuse(
                per_gib,
                BrokenLimit::IopsPerGib { iops, gib: self.spec.size_gib, most: per_gib.value },
                format!("{} takes at most {} IOPS per GiB on {}, here {most}", self.spec.volume_type, per_gib.value, self.date),
                format!("Use {} GiB or more, or at most {most} IOPS.", iops.div_ceil(per_gib.value.max(1))),
            ));
        }
        // The ratio decides nothing about a volume well inside it; above half of it, an unconfirmed
        // limit may matter.
        if iops * 2 > most {
            per_gib.used("iops.per_gib", &mut self.caveats);
        }
        Ok(())
    }

    /// Applies a cap that holds on instances outside the Nitro System; `unit` turns the cap into
    /// the unit of `amount`.
    fn outside_nitro(&mut self, what: &str, amount: u64, cap: Option<&Param<u64>>, unit: u64) -> u64 {
        let (Some(cap), Some(instance)) = (cap, self.instance.filter(|instance| !instance.nitro)) else {
            return amount;
        };
        if amount <= cap.value * unit {
            return amount;
        }
        let text = format!("{}: {} is not a Nitro instance and delivers no more", cap.value, instance.instance_type);
        let field = format!("{what}.non_nitro");
        self.caveats.push(Caveat::new(&field, text, cap.source.joined()));
        cap.value * unit
    }

    /// Returns the bytes a second of a volume with these IOPS, and the byte credits of st1 and sc1.
    fn throughput(&mut self, iops: u64) -> Result<Throughput, CatalogError> {
        let era = self.era;
        let takes_throughput = matches!(era.throughput, ThroughputRule::IncludedPlus { .. });
        if self.spec.throughput_mib_s.is_some() && !takes_throughput {
            return Err(self.not_taken("throughput", BrokenLimit::ThroughputNotTaken, "Leave the last field out, or use gp3."));
        }
        let bytes_s = match &era.throughput {
            ThroughputRule::Fixed { mib_s } => mib_s.used("throughput.mib_s", &mut self.caveats) * MIB,
            ThroughputRule::BySize { .. } => self.throughput_by_size(),
            ThroughputRule::IncludedPlus { .. } => self.throughput_bought(iops)?,
            ThroughputRule::PerIops { .. } => self.throughput_per_iops(),
            ThroughputRule::PerTib { .. } => return Ok(self.throughput_per_tib()),
            ThroughputRule::LocalDisk { fallback_mib_s, kib_per_documented_iops, .. } => match self.documented_local() {
                Some((local, _)) => {
                    let kib = kib_per_documented_iops.used("throughput.kib_per_documented_iops", &mut self.caveats);
                    local.writes * kib * KIB
                }
                None => fallback_mib_s.used("throughput.fallback_mib_s", &mut self.caveats) * MIB,
            },
        };
        Ok((bytes_s, None))
    }

    /// Computes the throughput of gp2: a lower step for small volumes. Above it the figure with
    /// credits; without credits the baseline in I/Os of 256 KiB binds by itself.
    fn throughput_by_size(&mut self) -> u64 {
        let ThroughputRule::BySize { mib_s, small_mib_s, small_up_to_gib, credits_needed_below_gib } = &self.era.throughput else {
            return 0;
        };
        let size = self.spec.size_gib;
        let small = small_mib_s.as_ref().zip(small_up_to_gib.as_ref()).filter(|(_, up_to)| size <= up_to.value);
        if let Some((small, _)) = small {
            return small.used("throughput.small_mib_s", &mut self.caveats) * MIB;
        }
        if let Some(below) = credits_needed_below_gib.as_ref().filter(|below| size < below.value) {
            below.used("throughput.credits_needed_below_gib", &mut self.caveats);
        }
        mib_s.used("throughput.mib_s", &mut self.caveats) * MIB
    }

    /// Returns the throughput of gp3: the included or the bought one.
    fn throughput_bought(&mut self, iops: u64) -> Result<u64, CatalogError> {
        let ThroughputRule::IncludedPlus { included_mib_s, max_mib_s, mib_s_per_iops } = &self.era.throughput else {
            return Ok(0);
        };
        let Some(mib_s) = self.spec.throughput_mib_s else {
            return Ok(included_mib_s.used("throughput.included_mib_s", &mut self.caveats) * MIB);
        };
        let (low, high) = (included_mib_s.value, max_mib_s.value);
        if mib_s < low || mib_s > high {
            let text = format!("{} takes {low} to {high} MiB/s on {}", self.spec.volume_type, self.date);
            let hint = format!("Use {} MiB/s.", mib_s.clamp(low, high));
            let broken = match mib_s < low {
                true => BrokenLimit::ThroughputTooLow { mib_s, least: low },
                false => BrokenLimit::ThroughputTooHigh { mib_s, most: high },
            };
            return Err(self.refuse(max_mib_s, broken, text, hint));
        }
        let ratio = mib_s_per_iops.value;
        if mib_s as f64 > iops as f64 * ratio {
            let text = format!("{} takes at most {ratio} MiB/s per IOPS, here {}", self.spec.volume_type, (iops as f64 * ratio).floor());
            let needed = (mib_s as f64 / ratio).ceil();
            let broken = BrokenLimit::ThroughputPerIops { mib_s, iops, most_for_1000_iops: (ratio * 1e3).round() as u64 };
            return Err(self.refuse(mib_s_per_iops, broken, text, format!("Use {needed} IOPS or more.")));
        }
        Ok(mib_s * MIB)
    }

    /// Computes the throughput of io1 and io2: the KiB/s for each provisioned IOPS in the step that
    /// these fall in, up to the cap of the step.
    fn throughput_per_iops(&mut self) -> u64 {
        let ThroughputRule::PerIops { non_nitro_cap_mib_s, tier } = &self.era.throughput else {
            return 0;
        };
        let iops = self.spec.iops.unwrap_or(0);
        let step = tier.iter().find(|step| step.up_to_iops.is_none_or(|up_to| iops <= up_to));
        let Some(step) = step else { return 0 };
        let by_iops = iops * step.kib_per_iops.value * KIB;
        let cap = step.cap_mib_s.value * MIB;
        let bytes_s = if by_iops < cap {
            step.kib_per_iops.used("throughput.kib_per_iops", &mut self.caveats);
            by_iops
        } else {
            step.cap_mib_s.used("throughput.cap_mib_s", &mut self.caveats);
            cap
        };
        self.outside_nitro("throughput", bytes_s, non_nitro_cap_mib_s.as_ref(), MIB)
    }

    /// Computes the throughput of st1 and sc1: baseline, burst and bucket grow with the size.
    fn throughput_per_tib(&mut self) -> Throughput {
        let ThroughputRule::PerTib { baseline_per_tib_mib_s, baseline_cap_mib_s, burst_per_tib_mib_s, burst_cap_mib_s, capacity_tib_per_tib, initial_fraction } =
            &self.era.throughput
        else {
            return (0, None);
        };
        let size = self.spec.size_gib;
        let by_size = |per_tib: &Param<u64>, cap: &Param<u64>| (size * per_tib.value * MIB / 1024).min(cap.value * MIB);
        let baseline_bytes_s = by_size(baseline_per_tib_mib_s, baseline_cap_mib_s);
        let burst_bytes_s = by_size(burst_per_tib_mib_s, burst_cap_mib_s);
        if baseline_bytes_s >= burst_bytes_s {
            return (burst_bytes_s, None);
        }
        let capacity_bytes = size * GIB * capacity_tib_per_tib.used("throughput.capacity_tib_per_tib", &mut self.caveats);
        let fraction = initial_fraction.used("throughput.initial_fraction", &mut self.caveats);
        let byte_burst = ByteBurst { baseline_bytes_s, capacity_bytes, initial_bytes: ((capacity_bytes as f64 * fraction) as u64).min(capacity_bytes) };
        (burst_bytes_s, Some(byte_burst))
    }

    /// Returns the read limits of a local disk: as documented, or the figures for instance types
    /// without any.
    fn local_reads(&mut self) -> Option<ReadLimits> {
        let era = self.era;
        let (IopsRule::LocalDisk { fallback_reads, .. }, ThroughputRule::LocalDisk { fallback_reads_mib_s, kib_per_documented_iops, .. }) =
            (&era.iops, &era.throughput)
        else {
            return None;
        };
        Some(match self.documented_local() {
            Some((local, _)) => ReadLimits { iops: local.reads, throughput_bytes_s: local.reads * kib_per_documented_iops.value * KIB },
            None => ReadLimits {
                iops: fallback_reads.used("iops.fallback_reads", &mut self.caveats),
                throughput_bytes_s: fallback_reads_mib_s.used("throughput.fallback_reads_mib_s", &mut self.caveats) * MIB,
            },
        })
    }

    /// Returns the documented IOPS of one local disk of the instance, with a caveat about them.
    fn documented_local(&self) -> Option<(LocalIops, Caveat)> {
        let instance = self.instance?;
        let row = self.instances?.local_iops(&instance.instance_type)?;
        let devices = u64::from(instance.instance_store_devices.max(1));
        let local = LocalIops { reads: row.random_read_iops_4k / devices, writes: row.write_iops_4k / devices };
        let text = format!(
            "{}: documented 4 KiB writes, {} over {devices} disks of {}; reads reach {}",
            local.writes, row.write_iops_4k, instance.instance_type, local.reads
        );
        Some((local, Caveat::new("iops.documented", text, &row.source)))
    }
}

/// Documented 4 KiB reads and writes a second of one local disk.
struct LocalIops {
    reads: u64,
    writes: u64,
}
