//! Devices that come and go: a FUSE file, a loop device on it, stable names.

use crate::engine::parts::lock;
use crate::engine::volumes::Volumes;
use crate::problem::{could_not, from_io, in_use, Outcome};
use headrace_control::{AttachRequest, AttachedDevice, AttachmentState, Ceiling, Command, DetachRequest, VolumeRecord};
use headrace_device::devices::{AttachedVolume, Pace};
use headrace_device::loopdev;
use headrace_device::probe::{self, PathCost};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a measurement of the path is used again, so that attaching many volumes measures
/// once.
const PATH_COUNTS_FOR: Duration = Duration::from_secs(60);
/// Longest wait for the loop driver to release a device. A guess: it takes milliseconds.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

impl Volumes {
    /// Makes a block device of a volume.
    pub fn attach(&self, volume: &str, request: AttachRequest) -> Outcome<VolumeRecord> {
        let _work = lock(&self.work);
        // A key that cannot be used is said at once, in EC2's words.
        if let Ok(record) = self.ledger.find(volume) {
            if record.attachment.is_none() {
                self.keys.data_key_of(&record)?;
                self.rest(&record.id, |files| files.locked)?;
            }
        }
        self.ledger.command(&Command::Attach { volume: volume.to_string(), request })?;
        let record = self.ledger.find(volume)?;
        self.finish_attaching(&record)?;
        self.ledger.find(volume)
    }

    /// Makes the devices of attached volumes again after a restart, and ends attachments that were
    /// under way.
    pub(crate) fn reattach(&self, record: &VolumeRecord) -> Outcome<()> {
        let volume = record.id.to_string();
        match record.attachment.as_ref().map(|attachment| attachment.state) {
            None => Ok(()),
            Some(AttachmentState::Detaching | AttachmentState::Busy) => self.ledger.command(&Command::Detached { volume }).map(drop),
            Some(AttachmentState::Attaching | AttachmentState::Attached) => {
                if let Err(problem) = self.make_device(record).and_then(|device| self.ledger.command(&Command::Attached { volume: volume.clone(), device })) {
                    tracing::error!(volume, "not attached again: {}: {}", problem.value, problem.rule);
                    self.take_device(record);
                    self.ledger.command(&Command::Detached { volume })?;
                }
                Ok(())
            }
        }
    }

    /// Makes the device of a volume that is attaching, and reports to the ledger that it is there,
    /// or why it is not.
    fn finish_attaching(&self, record: &VolumeRecord) -> Outcome<()> {
        let volume = record.id.to_string();
        let result = self.make_device(record).and_then(|device| self.ledger.command(&Command::Attached { volume: volume.clone(), device }));
        if let Err(problem) = result {
            self.take_device(record);
            self.ledger.command(&Command::AttachFailed { volume, reason: format!("{}: {}", problem.value, problem.rule) })?;
            return Err(problem);
        }
        Ok(())
    }

    /// Makes the loop device and the links of a volume that is attaching, and measures the path
    /// where that is asked for.
    fn make_device(&self, record: &VolumeRecord) -> Outcome<AttachedDevice> {
        let attachment = record.attachment.as_ref().ok_or_else(|| could_not(record.label(), "has no attachment", "Try again."))?;
        let cost = if attachment.probe { Some(self.measure_path()?) } else { None };
        if self.files_of(record, |files| files.locked)? {
            self.keys.data_key_of(record)?;
            return Err(could_not(record.label(), "was opened without its key", "Try again in a moment."));
        }
        let attached = self.files_of(record, |files| {
            let attached = Arc::new(AttachedVolume::new(files.device_number, record.id.as_str(), files.power.clone(), self.devices.clock.now()));
            files.attached = Some(attached.clone());
            attached
        })?;
        if attachment.unpaced {
            attached.set_pace(Pace::Fixed(0));
        } else if let Some(cost) = &cost {
            attached.set_path(cost.own_ns);
        }
        self.devices.open(attached);
        let file = self.file_of(record)?;
        let device = loopdev::attach(&file).map_err(|error| from_io(format!("a loop device on {}", file.display()), &error))?;
        let links = self.make_links(record, &attachment.name, &device).map_err(|error| {
            let _ = loopdev::release(&device);
            from_io("links to the device", &error)
        })?;
        let warnings = cost.map_or_else(Vec::new, |cost| self.list_unreachable_limits(record, &cost, attachment.unpaced));
        Ok(AttachedDevice {
            device: device.display().to_string(),
            links: links.iter().map(|link| link.display().to_string()).collect(),
            path_ns: cost.map(|cost| cost.own_ns),
            ceiling: cost.map(|cost| Ceiling { iops: cost.iops as u64, mib_s: cost.mib_s as u64 }),
            warnings,
        })
    }

    pub(crate) fn file_of(&self, record: &VolumeRecord) -> Outcome<PathBuf> {
        let mount = lock(&self.mount);
        mount.as_ref().map(|mount| mount.file(record.id.as_str())).ok_or_else(|| could_not(record.label(), "the lab is going down", "Start it again."))
    }

    /// Returns the cost of the machine's own path, measured now or within the last
    /// [`PATH_COUNTS_FOR`].
    fn measure_path(&self) -> Outcome<PathCost> {
        let mut cached = lock(&self.path);
        if let Some((_, cost)) = cached.filter(|(when, _)| when.elapsed() < PATH_COUNTS_FOR) {
            return Ok(cost);
        }
        let mount = lock(&self.mount);
        let mount = mount.as_ref().ok_or_else(|| could_not("lab", "is going down", "Start it again."))?;
        let cost = probe::measure(&self.devices, mount, &self.volumes_folder()).map_err(|error| from_io("measuring the path", &error))?;
        *cached = Some((Instant::now(), cost));
        Ok(cost)
    }

    /// Returns sentences about the limits of a volume that this machine cannot reach.
    fn list_unreachable_limits(&self, record: &VolumeRecord, cost: &PathCost, unpaced: bool) -> Vec<String> {
        let Ok(limits) = self.ledger.lab(|lab| record.limits(&lab.settings)) else { return Vec::new() };
        if unpaced {
            return vec!["It is not paced: it answers as fast as this machine can.".to_string()];
        }
        let burst = |limit: &headrace_catalog::VolumeLimits| limit.io_burst.as_ref().map_or(limit.iops, |burst| burst.iops.max(limit.iops));
        let iops: u64 = limits.iter().map(burst).sum();
        // A local disk reads more than it writes.
        let reads = |limit: &headrace_catalog::VolumeLimits| limit.reads.map_or((0, 0), |reads| (reads.iops, reads.throughput_bytes_s));
        let iops = iops.max(limits.iter().map(|limit| reads(limit).0).sum());
        let mib_s: u64 = limits.iter().map(|limit| limit.throughput_bytes_s.max(reads(limit).1) >> 20).sum();
        let mut sentences = Vec::new();
        if iops as f64 > cost.iops {
            sentences.push(format!("{} has {iops} IOPS; this machine does about {:.0} of 16 KiB.", record.spec, cost.iops));
        }
        if mib_s as f64 > cost.mib_s {
            sentences.push(format!("{} has {mib_s} MiB/s; this machine does about {:.0}.", record.spec, cost.mib_s));
        }
        sentences
    }

    /// Returns the names by which a volume's device is found: in the lab's own folder, and, where
    /// that was asked for, under the machine's /dev.
    fn links_of(&self, record: &VolumeRecord, name: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let dev = self.folder.join("dev");
        // The name is that of the driver of an EC2 instance: the serial number is the id without
        // its hyphen.
        let by_serial = format!("nvme-Amazon_Elastic_Block_Store_{}", record.id.as_str().replace('-', ""));
        let own = vec![dev.join("by-id").join(record.id.as_str()), dev.join(name), dev.join("by-id").join(&by_serial)];
        let machine = match self.machine_links {
            true => vec![Path::new("/dev").join(name), Path::new("/dev/disk/by-id").join(by_serial)],
            false => Vec::new(),
        };
        (own, machine)
    }

    /// Makes the links to a device and returns them. A name under /dev that the machine has already
    /// is left out, with a warning.
    fn make_links(&self, record: &VolumeRecord, name: &str, device: &Path) -> io::Result<Vec<PathBuf>> {
        let (mut links, machine) = self.links_of(record, name);
        for link in &links {
            // Replaces a link of an earlier daemon in one step, so that the name always leads to a
            // device.
            let fresh = link.with_extension("new");
            let _ = std::fs::remove_file(&fresh);
            std::os::unix::fs::symlink(device, &fresh)?;
            std::fs::rename(&fresh, link)?;
        }
        for link in machine {
            // A file that this machine has under the name is not the lab's to replace, unless it is
            // a link to a loop device that is gone, which an earlier daemon made.
            if std::fs::read_link(&link).is_ok_and(|to| is_loop(&to) && loopdev::file_of(&to).is_none()) {
                let _ = std::fs::remove_file(&link);
            }
            match std::os::unix::fs::symlink(device, &link) {
                Ok(()) => links.push(link),
                Err(error) => tracing::warn!(volume = record.id.as_str(), "no link {}: {error}", link.display()),
            }
        }
        Ok(links)
    }

    /// Removes the links to a volume's device; under /dev only those that lead to it.
    fn remove_links(&self, record: &VolumeRecord) {
        let Some(attachment) = &record.attachment else { return };
        let (own, machine) = self.links_of(record, &attachment.name);
        let device = device_path(record);
        let links = machine.into_iter().filter(|link| device.is_some() && std::fs::read_link(link).ok() == device);
        for link in own.into_iter().chain(links) {
            let _ = std::fs::remove_file(link);
        }
    }

    /// Takes the device away again. While it is in use: refused, or with `waits` as on EC2, where
    /// it is `busy` until its user is gone, and detached then.
    pub fn detach(&self, volume: &str, request: DetachRequest, waits: bool) -> Outcome<VolumeRecord> {
        let _work = lock(&self.work);
        let record = self.ledger.find(volume)?;
        let force = request.force;
        self.ledger.command(&Command::Detach { volume: volume.to_string(), request })?;
        let device = device_path(&record);
        if !force && device.as_deref().is_some_and(loopdev::is_busy) {
            let reason = format!("{} is mounted or in an array", device.unwrap_or_default().display());
            self.ledger.command(&Command::DetachBusy { volume: record.id.to_string(), reason: reason.clone(), waits })?;
            if waits {
                return self.ledger.find(volume);
            }
            return Err(in_use(record.label(), reason, "Unmount it first, or detach it with --force: its users then see I/O errors."));
        }
        self.take_device(&record);
        self.ledger.command(&Command::Detached { volume: record.id.to_string() })?;
        self.ledger.find(volume)
    }

    /// Detaches the volumes that were in use when they were to be detached, and are not any more.
    pub(crate) fn detach_waiting(&self) -> Outcome<()> {
        let waits = |record: &&VolumeRecord| record.attachment.as_ref().is_some_and(|attachment| attachment.waits);
        let waiting: Vec<VolumeRecord> = self.ledger.lab(|lab| lab.volumes.values().filter(waits).cloned().collect());
        for record in waiting.iter().filter(|record| !device_path(record).as_deref().is_some_and(loopdev::is_busy)) {
            self.detach(record.id.as_str(), DetachRequest::default(), true)?;
        }
        Ok(())
    }

    /// Takes away the block device, the attached volume and the links of a volume. Acknowledged
    /// writes are flushed first.
    pub(crate) fn take_device(&self, record: &VolumeRecord) {
        let closed = lock(&self.files).get_mut(&record.id).and_then(|files| {
            files.used = Instant::now();
            Some((files.attached.take()?, files.power.clone()))
        });
        if let Some(device) = device_path(record).filter(|device| self.is_device_of(device, record)) {
            if !loopdev::is_busy(&device) {
                let _ = std::fs::File::open(&device).and_then(|file| file.sync_all());
            }
            if let Err(error) = loopdev::release(&device) {
                tracing::warn!(volume = record.id.as_str(), "releasing {}: {error}", device.display());
            }
            let until = Instant::now() + RELEASE_WITHIN;
            while !loopdev::is_busy(&device) && self.is_device_of(&device, record) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if let Some((attached, power)) = closed {
            // A power cut that has switched the device off strikes before the bytes are used again.
            while attached.faults.is_off() && power.is_armed() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Requests that come now, from who still has it open, fail at once.
            attached.faults.set_power(false);
            if let Err(error) = attached.backing.flush() {
                tracing::error!(volume = record.id.as_str(), "flushing: {error}");
            }
            // One that was to come ends with the device.
            power.disarm();
            self.devices.close(attached.device_number);
            self.note_detached(&record.id, attached);
        }
        self.remove_links(record);
    }

    fn is_device_of(&self, device: &Path, record: &VolumeRecord) -> bool {
        loopdev::file_of(device).is_some_and(|file| file == self.folder.join("mnt").join(record.id.as_str()))
    }
}

fn is_loop(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with("/dev/loop"))
}

/// Returns the block device of an attached volume.
pub(crate) fn device_path(record: &VolumeRecord) -> Option<PathBuf> {
    Some(PathBuf::from(&record.attachment.as_ref()?.device.as_ref()?.device))
}
