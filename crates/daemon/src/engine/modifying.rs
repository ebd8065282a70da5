//! Size, type, IOPS and MiB/s of a volume in use.

use crate::engine::attaching::device_path;
use crate::engine::parts::lock;
use crate::engine::volumes::Volumes;
use crate::problem::{could_not, from_io, Outcome};
use headrace_control::{Change, Command, Modification, ModifyRequest, VolumeRecord};
use headrace_device::loopdev;
use headrace_model::rates::VolumeModification as ModelModification;
use headrace_model::record::HostChange as ModelChange;
use headrace_store::Backing;

impl Volumes {
    /// Starts a modification.
    pub fn modify(&self, volume: &str, request: ModifyRequest) -> Outcome<(VolumeRecord, Modification)> {
        let _work = lock(&self.work);
        let record = self.ledger.find(volume)?;
        let used = self.allocated_of(&record);
        let request = ModifyRequest { used_gib: used.map(|bytes| bytes.div_ceil(1 << 30)), ..request };
        let command = Command::Modify { volume: volume.to_string(), request };
        let events = self.ledger.command(&command)?;
        let started = events.into_iter().find_map(|event| match event.change {
            Change::ModificationStarted { modification, .. } => Some(modification),
            _ => None,
        });
        let modification = started.ok_or_else(|| could_not(volume, "no modification began", "Try again."))?;
        self.modify_model(&record, &modification)?;
        Ok((self.ledger.find(volume)?, modification))
    }

    /// Begins a modification in the model: its times are converted from lab time to device time.
    fn modify_model(&self, record: &VolumeRecord, modification: &Modification) -> Outcome<()> {
        let after = VolumeRecord { spec: modification.to.clone(), ..record.clone() };
        let limits = self.ledger.lab(|lab| after.limits(&lab.settings))?;
        let now = self.devices.clock.now();
        let modifying = self.ledger.device_span(modification.modifying_until_ms - modification.started_ms);
        let optimizing = self.ledger.device_span(modification.optimizing_until_ms - modification.modifying_until_ms);
        let (modifying_until, optimizing_until) = (now + modifying, now + modifying + optimizing);
        let targets = limits.into_iter().map(|target| ModelModification { target, modifying_until, optimizing_until }).collect();
        self.devices.change(&ModelChange::Modify { device: self.device_number(record)?, targets });
        Ok(())
    }

    /// Grows the files and the device of a volume that begins to optimize.
    pub(super) fn grow(&self, volume: &str) -> Outcome<()> {
        let record = self.ledger.find(volume)?;
        let Some(modification) = record.modification() else { return Ok(()) };
        let bytes = modification.to.usable_gib() << 30;
        // A change of type or IOPS alone opens nothing.
        if record.size_gib() << 30 >= bytes && self.opened(&record.id).is_none() {
            return Ok(());
        }
        let power = self.files_of(&record, |files| files.power.clone())?;
        if power.bytes() >= bytes {
            return Ok(());
        }
        power.grow(bytes).map_err(|error| from_io(format!("growing {volume} to {} GiB", bytes >> 30), &error))?;
        let Some(device) = device_path(&record) else { return Ok(()) };
        // The kernel learns a FUSE file's size when it is asked for, the loop device when told.
        let file = self.file_of(&record)?;
        let result = std::fs::metadata(&file).and_then(|_| loopdev::resized(&device));
        result.map_err(|error| from_io(format!("telling {} its new size", device.display()), &error))
    }

    /// Restores the limits in the model after a modification that failed.
    pub(super) fn undo_in_model(&self, volume: &str) -> Outcome<()> {
        let record = self.ledger.find(volume)?;
        let device_number = self.device_number(&record)?;
        if let Some((_, mut saved)) = self.devices.saved_device(device_number) {
            saved.members.iter_mut().for_each(|member| member.modification = None);
            self.devices.change(&ModelChange::Put { device: device_number, saved: Box::new(saved) });
        }
        Ok(())
    }

    /// Returns all modifications, newest last.
    pub fn modifications(&self, volume: Option<&str>) -> Outcome<Vec<(VolumeRecord, Modification)>> {
        let records = match volume {
            Some(volume) => vec![self.ledger.find(volume)?],
            None => self.ledger.lab(|lab| lab.volumes.values().filter(|record| !record.modifications.is_empty()).cloned().collect()),
        };
        Ok(records.iter().flat_map(|record| record.modifications.iter().map(|modification| (record.clone(), modification.clone()))).collect())
    }
}
