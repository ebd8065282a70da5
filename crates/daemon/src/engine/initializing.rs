//! Volumes that are made from a snapshot: which blocks are still in it, who loads them, and what
//! the model knows of that.

use crate::engine::parts::lock;
use crate::engine::volume_files::Origin;
use crate::engine::volumes::Volumes;
use crate::problem::Outcome;
use headrace_control::{Command, SnapshotCommand, VolumeId, VolumeRecord};
use headrace_model::record::HostChange as ModelChange;
use headrace_model::Device;
use headrace_protocol::snapshots::{ColdBlocks, InitializationView};
use headrace_store::snapshots::{Manifest, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Wait of a loader after an error of the object store. A guess.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl Volumes {
    /// Returns a volume's blocks that are still in its snapshot; None if it was made empty, or is
    /// loaded.
    fn restored(&self, volume: &VolumeId) -> Option<Arc<Restored>> {
        lock(&self.files).get(volume).and_then(|files| files.restored.clone())
    }

    /// Tells the model which blocks are cold. With fast snapshot restore none is.
    pub(crate) fn cold_in_model(&self, record: &VolumeRecord, device_number: usize, restored: Option<&Restored>) {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.fast) else { return };
        let Some(restored) = restored.filter(|restored| restored.cold_blocks() > 0) else { return };
        let Some((now, saved)) = self.devices.saved_device(device_number) else { return };
        let mut device = Device::from_saved(&saved, now);
        device.load_blocks(cold_from(restored, 0), origin.initialization_mib_s.map(|rate| rate << 20), now);
        let saved = Box::new(device.save(&record.spec, now));
        self.devices.change(&ModelChange::Put { device: device_number, saved });
    }

    /// Returns the blocks that a volume is made from; None if it has no snapshot or is loaded. The
    /// list of the snapshot's blocks is kept with the volume, so the volume opens while the object
    /// store is away, too.
    pub(crate) fn origin_of(&self, record: &VolumeRecord) -> io::Result<Option<Origin>> {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.loaded) else { return Ok(None) };
        let snapshot = origin.snapshot.as_str();
        let copies = Objects::open(&format!("file://{}", self.volumes_folder().join(record.id.as_str()).join("origin").display()))?;
        let objects = &self.snapshots.objects;
        let manifest = match Manifest::load_from(&copies, objects, snapshot) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let manifest = self.snapshots.manifest(&origin.snapshot)?;
                manifest.keep(&copies)?;
                Manifest::clone(&manifest)
            }
            manifest => manifest?,
        };
        Ok(Some(Origin { manifest: Arc::new(manifest), objects: objects.clone(), cipher: self.snapshots.cipher_of_origin(record)? }))
    }

    /// Starts a thread that loads a volume in the background, where it has a rate or fast restore.
    pub(crate) fn start_loading(self: &Arc<Self>, record: &VolumeRecord) {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.loaded) else { return };
        let rate = match (origin.initialization_mib_s, origin.fast) {
            (Some(rate), _) => Some(rate << 20),
            (None, true) => None,
            (None, false) => return,
        };
        let opened = self.files_of(record, |files| files.restored.clone());
        let restored = match opened {
            Ok(Some(restored)) => restored,
            Ok(None) => return,
            Err(problem) => {
                tracing::error!(volume = record.id.as_str(), "loading in the background: {}: {}", problem.value, problem.rule);
                return;
            }
        };
        let (volumes, volume) = (self.clone(), record.id.clone());
        let name = format!("headrace-load-{}", &volume.as_str()[..12]);
        let spawned = std::thread::Builder::new().name(name).spawn(move || volumes.load(&volume, &restored, rate));
        if let Err(error) = spawned {
            tracing::error!(volume = record.id.as_str(), "loading in the background: {error}");
        }
    }

    /// Loads at a rate, bytes/s, or as fast as it goes.
    fn load(&self, volume: &VolumeId, restored: &Restored, rate: Option<u64>) {
        let (begun, mut loaded) = (Instant::now(), 0u64);
        let _turn = rate.is_none().then(|| lock(&self.fast_loading));
        for block in cold_from(restored, 0) {
            loop {
                if self.ledger.is_stopping() || !lock(&self.files).contains_key(volume) {
                    return;
                }
                match restored.initialize(block) {
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(volume = volume.as_str(), block, "loading: {error}");
                        std::thread::sleep(RETRY_AFTER);
                    }
                }
            }
            loaded += BLOCK_BYTES as u64;
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(loaded as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
    }

    /// Notes the volumes that are loaded by now.
    pub(crate) fn note_loaded(&self) {
        let loading: Vec<VolumeId> = self.ledger.lab(|lab| {
            let loads = |record: &&VolumeRecord| record.origin.as_ref().is_some_and(|origin| !origin.loaded);
            lab.volumes.values().filter(loads).map(|record| record.id.clone()).collect()
        });
        let mut any = false;
        for volume in loading {
            let done = self.restored(&volume).is_some_and(|restored| restored.cold_blocks() == 0 && restored.flush().is_ok());
            if done {
                match self.ledger.command(&Command::Snapshot(SnapshotCommand::VolumeLoaded { volume: volume.clone() })) {
                    Ok(_) => any = true,
                    Err(problem) => tracing::error!(volume = volume.as_str(), "noting that it is loaded: {}", problem.rule),
                }
            }
        }
        if any {
            self.snapshots.retry_removals();
        }
    }

    /// Returns the blocks of a volume that are still in its snapshot, page by page.
    pub(crate) fn cold_blocks(&self, volume: &str, start: u64, limit: usize) -> Outcome<ColdBlocks> {
        let record = self.ledger.find(volume)?;
        let Some(restored) = self.files_of(&record, |files| files.restored.clone())? else {
            return Ok(ColdBlocks { blocks: Vec::new(), next: None, remaining: 0 });
        };
        let mut cold = cold_from(&restored, start);
        let blocks: Vec<u64> = cold.by_ref().take(limit).collect();
        Ok(ColdBlocks { next: cold.next(), blocks, remaining: restored.cold_blocks() })
    }

    /// Returns the number of blocks of a volume's snapshot, and of those that are not loaded. Opens
    /// a volume whose counts are not in memory.
    fn cold_of(&self, record: &VolumeRecord) -> (u64, u64) {
        let counts = |restored: &Arc<Restored>| (restored.manifest().blocks(), restored.cold_blocks());
        if let Some(restored) = self.restored(&record.id) {
            return counts(&restored);
        }
        let resting = lock(&self.resting).get(&record.id).and_then(|entry| entry.cold);
        resting.or_else(|| self.files_of(record, |files| files.restored.as_ref().map(counts)).ok().flatten()).unwrap_or((0, 0))
    }

    /// Returns the progress of loading a volume from its snapshot; None if the volume was made
    /// empty.
    pub(crate) fn initialization(&self, record: &VolumeRecord) -> Option<InitializationView> {
        if record.source_volume.is_some() {
            return Some(self.snapshots.copy_progress(record));
        }
        let origin = record.origin.as_ref()?;
        let (all, remaining) = if origin.loaded { (0, 0) } else { self.cold_of(record) };
        let progress_percent = if all == 0 { 100.0 } else { 100.0 * (all - remaining.min(all)) as f64 / all as f64 };
        let remaining_mib = remaining * (BLOCK_BYTES as u64 >> 10) / 1_024;
        Some(InitializationView {
            state: if remaining == 0 { "completed" } else { "initializing" }.to_string(),
            r#type: if origin.initialization_mib_s.is_some() { "provisioned-rate" } else { "default" }.to_string(),
            progress_percent,
            blocks_left: remaining,
            rate_mib_s: origin.initialization_mib_s,
            remaining_s: origin.initialization_mib_s.map(|rate| remaining_mib.div_ceil(rate)),
            fast: origin.fast,
        })
    }
}

/// Blocks that are cold now, from `first` on. Each is looked for when it is asked for.
fn cold_from(restored: &Restored, first: u64) -> impl Iterator<Item = u64> + '_ {
    std::iter::successors(restored.next_cold(first), |block| restored.next_cold(block + 1))
}
