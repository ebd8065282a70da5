//! A snapshot from the instant to the volume made of it, and the promises of each step.

use headrace_store::snapshots::{begin_all, changed_blocks, delete_snapshot, forget_upload, initialize_all, read_block, sweep, upload, BlockSource, Builder};
use headrace_store::snapshots::{BlockCipher, Capture, Instant, Manifest, Restored, Stored, BLOCK_BYTES};
use headrace_store::{Backing, Objects, SparseFile};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

const BLOCK: u64 = BLOCK_BYTES as u64;

fn volume(folder: &Path, name: &str, bytes: u64) -> Arc<dyn Backing> {
    Arc::new(SparseFile::create(&folder.join(name), bytes).unwrap())
}

fn store(folder: &Path) -> Objects {
    Objects::open(&format!("file://{}", folder.join("objects").display())).unwrap()
}

fn stored(instant: &Instant, objects: &Objects, parent: Option<&Manifest>) -> Manifest {
    upload(instant, objects, instant.name(), parent, None, &|_| {}, &AtomicBool::new(false)).unwrap()
}

fn content(backing: &dyn Backing) -> Vec<u8> {
    let mut all = vec![0xee; backing.bytes() as usize];
    backing.read(&mut all, 0).unwrap();
    all
}

fn restore(folder: &Path, name: &str, manifest: &Manifest, objects: &Objects, cipher: Option<Arc<dyn BlockCipher>>) -> Restored {
    let inner = volume(folder, name, manifest.bytes());
    Restored::create(inner, Arc::new(manifest.clone()), objects.clone(), cipher, &folder.join(format!("{name}.warm"))).unwrap()
}

#[test]
fn what_is_restored_is_what_was_there_at_the_instant() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let capture = Capture::new(volume(folder.path(), "volume", 8 * BLOCK), folder.path().join("captures")).unwrap();
    capture.write(&[1; 100_000], 300_000).unwrap();
    capture.write(&[2; 16], 5 * BLOCK - 8).unwrap();
    let before = content(&*capture);
    let instant = capture.begin("first").unwrap();
    capture.write(&[3; 600_000], 200_000).unwrap();
    capture.discard(4 * BLOCK, 2 * BLOCK).unwrap();
    let manifest = stored(&instant, &objects, None);
    instant.finish().unwrap();
    assert_eq!(manifest.blocks(), 3, "blocks of zeros are not stored");
    let restored = restore(folder.path(), "restored", &manifest, &objects, None);
    assert_eq!(restored.cold_blocks(), 3);
    assert!(content(&restored) == before);
    assert_eq!(restored.cold_blocks(), 0);
    assert_eq!(std::fs::read_dir(folder.path().join("captures")).unwrap().count(), 1, "only what changed since is noted");
}
