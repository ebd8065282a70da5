//! From a storage spec and a date to a host that can be driven.

use crate::error::SimError;
use chrono::NaiveDate;
use headrace_catalog::{Catalog, InstanceLimits, RaidLevel, StorageSpec, VolumeLimits, VolumeType};
use headrace_model::first_touch::SnapshotOrigin;
use headrace_model::rates::Degradation;
use headrace_model::rates::{ModificationPhase, Rates, VolumeModification};
use headrace_model::{Device, Host, Instance, ModelOptions, Nanos};

/// Storage, instance and date of a simulation, resolved against the catalog.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device.
    pub storage: StorageSpec,
    /// Limits of its members, in order.
    pub limits: Vec<VolumeLimits>,
    /// Limits of the instance; none: the volumes alone.
    pub instance: Option<InstanceLimits>,
    /// Parts of the model that are switched on.
    pub options: ModelOptions,
    /// Decides every draw.
    pub seed: u64,
    /// Credits and burst buckets at the start, percent; none: as AWS gives them.
    pub start_balance_percent: Option<f64>,
    /// The snapshot that the volume is made from.
    pub snapshot: Option<SnapshotOrigin>,
    /// Degradation events by member.
    pub degradations: Vec<(usize, Degradation)>,
    /// A modification of every member, with the moments at which its states end.
    pub modification: Option<VolumeModification>,
    /// Members lost from the start.
    pub failed_members: Vec<usize>,
}

impl Setup {
    /// Resolves notation such as `gp2:500` or `raid10:4xgp3:500` on `instance` at `as_of`.
    pub fn resolve(storage: &str, instance: Option<&str>, as_of: NaiveDate) -> Result<Setup, SimError> {
        let catalog = Catalog::embedded();
        let storage: StorageSpec = storage.parse()?;
        let instance = instance.map(|name| catalog.instance(name, as_of)).transpose()?;
        let limits = catalog.storage_limits(&storage, as_of, instance.as_ref())?;
        Ok(Setup::plain(storage, limits, instance))
    }

    /// Makes a device as AWS gives it, without faults or modifications.
    pub(crate) fn plain(storage: StorageSpec, limits: Vec<VolumeLimits>, instance: Option<InstanceLimits>) -> Setup {
        Setup {
            storage,
            limits,
            options: ModelOptions::behind(instance.as_ref()),
            instance,
            seed: 1,
            start_balance_percent: None,
            snapshot: None,
            degradations: Vec::new(),
            modification: None,
            failed_members: Vec::new(),
        }
    }

    /// Makes the host with this device alone: at its start balance, with its snapshot, faults and
    /// modification.
    pub fn host(&self) -> Host {
        let mut device = Device::new(&self.storage, &self.limits, &self.options, self.seed);
        let mut instance = self.instance.as_ref().map(|limits| Instance::new(limits, self.options.saved_second));
        if let Some(percent) = self.start_balance_percent {
            device.members_mut().iter_mut().for_each(|member| {
                member.set_balance_percent(Nanos::ZERO, percent);
            });
            if let Some(instance) = &mut instance {
                instance.set_balance_percent(Nanos::ZERO, percent);
            }
        }
        if let Some(origin) = &self.snapshot {
            // A stripe's snapshot is one snapshot per member, each with its share of the written
            // bytes.
            let share = SnapshotOrigin { written_bytes: origin.written_bytes / self.data_members(), ..*origin };
            device.members_mut().iter_mut().for_each(|member| member.created_from_snapshot(&share));
        }
        for (index, member) in device.members_mut().iter_mut().enumerate() {
            member.degrade(Nanos::ZERO, self.degradations.iter().filter(|(degraded, _)| *degraded == index).map(|(_, event)| *event));
            member.set_failed(self.failed_members.contains(&index));
            if let Some(change) = &self.modification {
                member.modify(Nanos::ZERO, change.clone());
            }
        }
        Host { instance, devices: vec![device] }
    }

    /// Makes local disks write `writes` times and read `reads` times as fast as the catalog takes
    /// them to, where it has no figure of them.
    pub fn with_local_disk(mut self, writes: f64, reads: f64) -> Setup {
        let scaled = |rate: u64, factor: f64| ((rate as f64 * factor) as u64).max(1);
        for limits in self.limits.iter_mut().filter(|limits| is_guessed(limits)) {
            (limits.iops, limits.throughput_bytes_s) = (scaled(limits.iops, writes), scaled(limits.throughput_bytes_s, writes));
            limits.reads = limits.reads.map(|limits| limits.map(|rate| scaled(rate, reads)));
        }
        self
    }

    /// Returns whether the storage is on local disks without a figure in the catalog.
    pub(crate) fn is_on_guessed_disks(&self) -> bool {
        self.limits.iter().all(is_guessed)
    }

    /// Returns whether the storage is on local disks.
    pub(crate) fn is_local(&self) -> bool {
        self.storage.members.iter().all(|member| member.volume_type == VolumeType::InstanceStore)
    }

    /// Returns whether rates change during the run: by degradation events or a modification.
    pub(crate) fn has_events(&self) -> bool {
        !self.degradations.is_empty() || self.modification.is_some()
    }

    /// Returns the rates of a member on average over an interval, and the limits its accounting and
    /// credits follow.
    pub(crate) fn rates_around<'a>(&'a self, member: usize, limits: &'a VolumeLimits, t_s: f64, seconds: f64) -> (Rates, &'a VolumeLimits) {
        let middle = Nanos(((t_s + seconds / 2.0) * 1e9) as u64);
        let mut rates = Rates::of(limits);
        if let Some(change) = &self.modification {
            let target = Rates::of(&change.target);
            match change.state(middle) {
                ModificationPhase::Optimizing => rates = rates.lower(target),
                ModificationPhase::Completed => {
                    rates = Rates {
                        iops: rates.iops.and(target.iops),
                        credit_refill: rates.credit_refill.and(target.credit_refill),
                        reads: rates.reads.and(target.reads),
                        ..target
                    }
                }
                _ => {}
            }
        }
        let mut caps_share = 1.0;
        for (_, event) in self.degradations.iter().filter(|(degraded, _)| *degraded == member) {
            let overlap = event.until.as_secs_f64().min(t_s + seconds) - event.from.as_secs_f64().max(t_s);
            caps_share -= (overlap / seconds).clamp(0.0, 1.0) * (1.0 - event.caps_per_mille as f64 / 1_000.0);
        }
        (rates.scaled((caps_share.max(0.001) * 1_000.0) as u64), limits)
    }

    /// Returns how many members the distinct data would fill.
    pub(crate) fn data_members(&self) -> u64 {
        let (data, share) = self.storage.raid.map_or((1, 1), |level| level.data_members(self.storage.members.len() as u64));
        (data / share).max(1)
    }

    /// Returns the share of random requests over the whole device that goes to each member, 0-1:
    /// alike, except for RAID 0 of unlike members, which is striped over the larger ones alone
    /// where the smaller end.
    pub(crate) fn member_shares(&self) -> Vec<f64> {
        let members = &self.storage.members;
        if self.storage.raid == Some(RaidLevel::Raid0) && self.storage.has_unlike_sizes() {
            let total = self.storage.usable_gib() as f64;
            return members.iter().map(|member| member.size_gib as f64 / total).collect();
        }
        vec![1.0 / members.len() as f64; members.len()]
    }

    /// Returns the bytes that requests may touch: the load's own span, at most the device.
    pub(crate) fn span_bytes(&self, requested: u64) -> u64 {
        let usable = self.storage.usable_gib() << 30;
        if requested == 0 {
            usable
        } else {
            requested.min(usable)
        }
    }
}

/// Returns whether the catalog guesses the rates of a local disk.
fn is_guessed(limits: &VolumeLimits) -> bool {
    limits.spec.volume_type == VolumeType::InstanceStore && limits.caveats.iter().any(|caveat| caveat.field == "iops.fallback")
}
