//! Volumes that are made from a snapshot: which blocks are still in it, who loads them, and what the
//! model knows of that.

use crate::engine::{held, Engine};
use crate::problem::{of_io, Outcome};
use headrace_control::{Command, SnapshotCommand, VolumeId, VolumeRecord};
use headrace_protocol::snapshots::{ColdBlocks, InitializationView};
use headrace_store::snapshots::{Restored, BLOCK_BYTES};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a loader waits after an error of the object store. A guess.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl Engine {
    /// A volume's blocks that are still in its snapshot; none: it was made empty, or is loaded.
    fn restored(&self, volume: &VolumeId) -> Option<Arc<Restored>> {
        held(&self.volumes).get(volume).and_then(|files| files.restored.clone())
    }

    /// Tells the model which blocks are cold. With fast snapshot restore none is.
    pub(crate) fn cold_in_model(&self, record: &VolumeRecord, device: &mut headrace_model::Device, restored: Option<&Arc<Restored>>) {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.fast) else { return };
        let Some(restored) = restored else { return };
        let rate = origin.initialization_mib_s.map(|rate| rate << 20);
        device.load_blocks(restored.cold_blocks(), rate, self.devices.clock.now());
    }

    /// Starts a thread that loads a volume in the background, where it has a rate or fast restore.
    pub(crate) fn start_loading(self: &Arc<Self>, record: &VolumeRecord) {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.loaded) else { return };
        let rate = match (origin.initialization_mib_s, origin.fast) {
            (Some(rate), _) => Some(rate << 20),
            (None, true) => None,
            (None, false) => return,
        };
        let Some(restored) = self.restored(&record.id) else { return };
        let (engine, volume) = (self.clone(), record.id.clone());
        let name = format!("headrace-load-{}", &volume.as_str()[..12]);
        let spawned = std::thread::Builder::new().name(name).spawn(move || engine.load(&volume, &restored, rate));
        if let Err(error) = spawned {
            tracing::error!(volume = record.id.as_str(), "loading in the background: {error}");
        }
    }

    /// Loads at a rate, bytes/s, or as fast as it goes.
    fn load(&self, volume: &VolumeId, restored: &Restored, rate: Option<u64>) {
        let (begun, mut loaded) = (Instant::now(), 0u64);
        let _turn = rate.is_none().then(|| held(&self.fast_loading));
        for block in restored.cold_blocks() {
            loop {
                if self.is_stopping() || !held(&self.volumes).contains_key(volume) {
                    return;
                }
                match restored.initialize(block) {
                    Ok(()) => break,
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
        let loading: Vec<VolumeId> = self.lab(|lab| {
            let loads = |record: &&VolumeRecord| record.origin.as_ref().is_some_and(|origin| !origin.loaded);
            lab.volumes.values().filter(loads).map(|record| record.id.clone()).collect()
        });
        let mut any = false;
        for volume in loading {
            let done = self.restored(&volume).is_some_and(|restored| restored.cold_count() == 0 && restored.flush_marks().is_ok());
            if done {
                match self.command(&Command::Snapshot(SnapshotCommand::VolumeLoaded { volume: volume.clone() })) {
                    Ok(_) => any = true,
                    Err(problem) => tracing::error!(volume = volume.as_str(), "noting that it is loaded: {}", problem.rule),
                }
            }
        }
        if any {
            self.retry_removals();
        }
    }

    /// Blocks of a volume that are still in its snapshot, page by page.
    pub(crate) fn cold_blocks(&self, volume: &str, start: u64, limit: usize) -> Outcome<ColdBlocks> {
        let record = self.find(volume)?;
        let Some(restored) = self.restored(&record.id) else { return Ok(ColdBlocks { blocks: Vec::new(), next: None, left: 0 }) };
        let mut cold = restored.cold_blocks().skip_while(|&block| block < start);
        let blocks: Vec<u64> = cold.by_ref().take(limit).collect();
        Ok(ColdBlocks { next: cold.next(), blocks, left: restored.cold_count() })
    }

    /// How far a volume is loaded from its snapshot; none: it was made empty.
    pub(crate) fn initialization(&self, record: &VolumeRecord) -> Option<InitializationView> {
        let origin = record.origin.as_ref()?;
        let (all, left) = self.restored(&record.id).map_or((0, 0), |restored| (restored.manifest().blocks(), restored.cold_count()));
        let percent = if all == 0 { 100.0 } else { 100.0 * (all - left.min(all)) as f64 / all as f64 };
        let left_mib = left * (BLOCK_BYTES as u64 >> 10) / 1_024;
        Some(InitializationView {
            state: if left == 0 { "completed" } else { "initializing" }.to_string(),
            percent,
            blocks_left: left,
            rate_mib_s: origin.initialization_mib_s,
            estimated_s: origin.initialization_mib_s.map(|rate| left_mib.div_ceil(rate)),
            fast: origin.fast,
        })
    }

    /// Opens the snapshot that a volume is made from.
    pub(crate) fn manifest_of_origin(&self, record: &VolumeRecord) -> Outcome<Option<Arc<headrace_store::snapshots::Manifest>>> {
        let Some(origin) = record.origin.as_ref().filter(|origin| !origin.loaded) else { return Ok(None) };
        self.manifest(&origin.snapshot).map(Some).map_err(|error| of_io(format!("the snapshot {}", origin.snapshot), &error))
    }
}
