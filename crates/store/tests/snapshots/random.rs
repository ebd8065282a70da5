//! Random operations on a volume and its snapshots, next to plain vectors of bytes. A kill drops
//! everything without a word, as `kill -9` does, and opens what the files say.

use crate::support::{cases, content, difference, memory, restore, volume, Toy, BLOCK};
use headrace_store::snapshots::{delete_snapshot, initialize_all, sweep, upload, BlockCipher, BlockSource, Capture, Instant, Manifest, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects, SparseFile};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Blocks of a volume at first, and at most.
const BLOCKS: u64 = 3;
const MOST_BLOCKS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// Writes at a place of the volume, as a share of it.
    Write {
        at: Index,
        bytes: usize,
        stamp: u8,
    },
    Discard {
        at: Index,
        bytes: usize,
    },
    Zero {
        at: Index,
        bytes: usize,
    },
    /// Grows the volume by some sectors, so that the last block is a part of one.
    Grow {
        sectors: u64,
    },
    Begin,
    /// Uploads an instant, with the newest snapshot, another or none as the parent.
    Upload {
        which: Index,
        parent: Parent,
    },
    /// An upload that ends early, and leaves what it stored.
    HalfUpload {
        which: Index,
        puts: usize,
    },
    GiveUp {
        which: Index,
    },
    Delete {
        which: Index,
    },
    Sweep,
    Kill,
    /// Closes the volume in order, and opens it again.
    Close,
    /// Restores: from now on the volume is one made of a snapshot.
    Restore {
        which: Index,
    },
    /// Fetches what is cold, in order.
    Initialize {
        blocks: u64,
    },
    Flush,
}

#[derive(Clone, Copy, Debug)]
enum Parent {
    Newest,
    Any(Index),
    None,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop_oneof![3 => 1usize..40_000, 1 => 1usize..3 * BLOCK_BYTES, 1 => Just(BLOCK_BYTES)];
    let at = any::<Index>;
    let parent = prop_oneof![6 => Just(Parent::Newest), 2 => any::<Index>().prop_map(Parent::Any), 1 => Just(Parent::None)];
    let step = prop_oneof![
        14 => (at(), bytes(), 1u8..).prop_map(|(at, bytes, stamp)| Step::Write { at, bytes, stamp }),
        2 => (at(), bytes()).prop_map(|(at, bytes)| Step::Discard { at, bytes }),
        2 => (at(), bytes()).prop_map(|(at, bytes)| Step::Zero { at, bytes }),
        1 => (1u64..1_500).prop_map(|sectors| Step::Grow { sectors }),
        5 => Just(Step::Begin),
        7 => (at(), parent).prop_map(|(which, parent)| Step::Upload { which, parent }),
        2 => (at(), 0usize..4).prop_map(|(which, puts)| Step::HalfUpload { which, puts }),
        1 => at().prop_map(|which| Step::GiveUp { which }),
        2 => at().prop_map(|which| Step::Delete { which }),
        1 => Just(Step::Sweep),
        2 => Just(Step::Kill),
        1 => Just(Step::Close),
        2 => at().prop_map(|which| Step::Restore { which }),
        1 => (1u64..4).prop_map(|blocks| Step::Initialize { blocks }),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 5..60)
}

/// An instant or a snapshot as it must be.
type Expected = BTreeMap<String, Vec<u8>>;

fn number(name: &str) -> u64 {
    name.trim_start_matches("snap-").parse().unwrap()
}

struct World {
    folder: tempfile::TempDir,
    objects: Objects,
    cipher: Option<Arc<dyn BlockCipher>>,
    /// Number of the volume, of the next name.
    number: u64,
    names: u64,
    /// The snapshot that the volume is made of.
    origin: Option<Manifest>,
    restored: Option<Arc<Restored>>,
    capture: Option<Arc<Capture>>,
    instants: BTreeMap<String, Instant>,
    now: Vec<u8>,
    pending: Expected,
    snapshots: Expected,
    manifests: BTreeMap<String, Manifest>,
}

impl World {
    fn new(sealed: bool) -> World {
        let folder = tempfile::tempdir().unwrap();
        let inner = volume(folder.path(), "volume-0", BLOCKS * BLOCK);
        let capture = Capture::new(inner, folder.path().join("captures-0")).unwrap();
        let cipher = sealed.then(|| Arc::new(Toy::new(9)) as Arc<dyn BlockCipher>);
        World {
            folder,
            objects: memory(),
            cipher,
            number: 0,
            names: 0,
            origin: None,
            restored: None,
            capture: Some(capture),
            instants: BTreeMap::new(),
            now: vec![0; (BLOCKS * BLOCK) as usize],
            pending: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            manifests: BTreeMap::new(),
        }
    }

    fn path(&self, what: &str) -> PathBuf {
        self.folder.path().join(format!("{what}-{}", self.number))
    }

    fn capture(&self) -> &Arc<Capture> {
        self.capture.as_ref().unwrap()
    }

    fn range(&self, at: Index, bytes: usize) -> std::ops::Range<usize> {
        let from = at.index(self.now.len());
        from..(from + bytes).min(self.now.len())
    }

    fn snapshot(&self, which: Index) -> Option<Manifest> {
        (!self.manifests.is_empty()).then(|| which.get(&self.manifests.values().cloned().collect::<Vec<_>>()).clone())
    }

    fn instant(&self, which: Index) -> Option<String> {
        (!self.pending.is_empty()).then(|| which.get(&self.pending.keys().cloned().collect::<Vec<_>>()).clone())
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { at, bytes, stamp } => {
                let range = self.range(at, bytes);
                // Every byte another, so that a byte at a wrong place is seen.
                let data: Vec<u8> = range.clone().map(|at| (at as u8).wrapping_mul(stamp) | 1).collect();
                self.capture().write(&data, range.start as u64).unwrap();
                self.now[range].copy_from_slice(&data);
            }
            Step::Discard { at, bytes } | Step::Zero { at, bytes } => {
                let range = self.range(at, bytes);
                let (from, length) = (range.start as u64, range.len() as u64);
                match step {
                    Step::Zero { .. } => self.capture().zero(from, length).unwrap(),
                    _ => self.capture().discard(from, length).unwrap(),
                }
                self.now[range].fill(0);
            }
            Step::Grow { sectors } => {
                let bytes = (self.now.len() as u64 + sectors * 512).min(MOST_BLOCKS * BLOCK);
                self.capture().grow(bytes).unwrap();
                self.now.resize(bytes as usize, 0);
            }
            Step::Begin => {
                let name = format!("snap-{}", self.names);
                self.names += 1;
                let instant = self.capture().begin(&name).unwrap();
                self.pending.insert(name.clone(), self.now.clone());
                self.instants.insert(name, instant);
            }
            Step::Upload { which, parent } => self.upload(which, parent),
            Step::HalfUpload { which, puts } => self.half_upload(which, puts),
            Step::GiveUp { which } => {
                if let Some(name) = self.instant(which) {
                    self.instants.remove(&name).unwrap().finish().unwrap();
                    self.pending.remove(&name);
                }
            }
            Step::Delete { which } => {
                // The volume that is made of it still needs it.
                let Some(manifest) = self.snapshot(which).filter(|manifest| self.origin.as_ref().is_none_or(|origin| origin.name() != manifest.name())) else {
                    return;
                };
                let others: Vec<String> = self.manifests.keys().cloned().collect();
                delete_snapshot(&self.objects, manifest.name(), &others).unwrap();
                self.manifests.remove(manifest.name());
                self.snapshots.remove(manifest.name());
            }
            Step::Sweep => {
                let pending: Vec<String> = self.pending.keys().cloned().collect();
                sweep(&self.objects, &pending).unwrap();
            }
            Step::Kill => self.reopen(),
            Step::Close => {
                self.capture().close().unwrap();
                self.reopen();
            }
            Step::Restore { which } => self.restore(which),
            Step::Initialize { blocks } => {
                if let Some(restored) = &self.restored {
                    let count = std::sync::atomic::AtomicU64::new(0);
                    initialize_all(restored, 2, &|_| count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 < blocks).unwrap();
                }
            }
            Step::Flush => self.capture().flush().unwrap(),
        }
    }

    fn upload(&mut self, which: Index, parent: Parent) {
        let Some(name) = self.instant(which) else { return };
        let parent = match parent {
            Parent::Newest => {
                self.manifests.values().filter(|manifest| number(manifest.name()) < number(&name)).max_by_key(|manifest| number(manifest.name())).cloned()
            }
            Parent::Any(which) => self.snapshot(which),
            Parent::None => None,
        };
        // A snapshot of a larger volume is no parent: volumes never shrink.
        let parent = parent.filter(|parent| parent.bytes() <= self.pending[&name].len() as u64);
        let resumed = !self.objects.list(&format!("segments/{name}/")).unwrap().is_empty();
        let manifest = upload(&self.instants[&name], &self.objects, &name, parent.as_ref(), self.cipher.as_deref(), &|_| {}, &AtomicBool::new(false)).unwrap();
        self.instants.remove(&name).unwrap().finish().unwrap();
        let bytes = self.pending.remove(&name).unwrap();
        assert_eq!(manifest.bytes(), bytes.len() as u64);
        // It costs what differs from the parent, however that was found.
        let before = parent.map_or(&[][..], |parent| &self.snapshots[parent.name()]);
        let block = |bytes: &[u8], index: usize| {
            let mut block = bytes.get(index * BLOCK_BYTES..).map_or(Vec::new(), |rest| rest[..rest.len().min(BLOCK_BYTES)].to_vec());
            block.resize(BLOCK_BYTES, 0);
            block
        };
        let blocks: Vec<Vec<u8>> = (0..bytes.len().div_ceil(BLOCK_BYTES)).map(|index| block(&bytes, index)).collect();
        let filled = |block: &Vec<u8>| block.iter().any(|&byte| byte != 0);
        assert_eq!(manifest.blocks() as usize, blocks.iter().filter(|block| filled(block)).count());
        let changed = blocks.iter().enumerate().filter(|(index, now)| filled(now) && **now != block(before, *index)).count();
        if !resumed {
            assert_eq!(manifest.own_blocks() as usize, changed, "blocks stored for {name}");
        }
        assert_eq!(Manifest::load(&self.objects, &name).unwrap(), manifest);
        assert_eq!(Manifest::segments_of(&self.objects, &name).unwrap(), manifest.segments().unwrap());
        self.snapshots.insert(name.clone(), bytes);
        self.manifests.insert(name, manifest);
    }

    fn half_upload(&mut self, which: Index, puts: usize) {
        let Some(name) = self.instant(which) else { return };
        let ends = crate::faults::EndsEarly::new(self.objects.clone(), puts);
        let ended = upload(&self.instants[&name], &ends, &name, None, self.cipher.as_deref(), &|_| {}, &AtomicBool::new(false));
        if let Ok(manifest) = ended {
            // It had nothing more to store than that.
            self.instants.remove(&name).unwrap().finish().unwrap();
            let bytes = self.pending.remove(&name).unwrap();
            self.snapshots.insert(name.clone(), bytes);
            self.manifests.insert(name, manifest);
        }
    }

    fn reopen(&mut self) {
        self.instants.clear();
        self.capture = None;
        self.restored = None;
        let file: Arc<dyn Backing> = Arc::new(SparseFile::open(&self.path("volume"), self.now.len() as u64).unwrap());
        let inner = match &self.origin {
            Some(origin) => {
                let manifest = Arc::new(origin.clone());
                let restored = Arc::new(Restored::open(file, manifest, self.objects.clone(), self.cipher.clone(), &self.path("warm")).unwrap());
                self.restored = Some(restored.clone());
                restored as Arc<dyn Backing>
            }
            None => file,
        };
        let capture = Capture::new(inner, self.path("captures")).unwrap();
        self.instants = capture.instants().into_iter().map(|instant| (instant.name().to_string(), instant)).collect();
        assert!(self.instants.keys().eq(self.pending.keys()), "the instants survive");
        self.capture = Some(capture);
    }

    /// The volume is given up, and one made of a snapshot takes its place.
    fn restore(&mut self, which: Index) {
        let Some(manifest) = self.snapshot(which) else { return };
        self.instants.clear();
        self.pending.clear();
        self.number += 1;
        let inner = volume(self.folder.path(), &format!("volume-{}", self.number), manifest.bytes());
        let restored = Restored::create(inner, Arc::new(manifest.clone()), self.objects.clone(), self.cipher.clone(), &self.path("warm")).unwrap();
        let restored = Arc::new(restored);
        self.capture = Some(Capture::of_snapshot(restored.clone(), self.path("captures"), manifest.name()).unwrap());
        self.restored = Some(restored);
        self.now = self.snapshots[manifest.name()].clone();
        self.origin = Some(manifest);
    }

    /// Everything is as it must be.
    fn check(&mut self) {
        for (name, expected) in &self.pending {
            let instant = &self.instants[name];
            let mut actual = vec![0; expected.len().div_ceil(BLOCK_BYTES) * BLOCK_BYTES];
            for (index, block) in actual.chunks_mut(BLOCK_BYTES).enumerate() {
                // A block that is stored is not kept for a second reading.
                if instant.read_block(index as u64, block).is_err() {
                    let from = index * BLOCK_BYTES;
                    let length = (expected.len() - from).min(BLOCK_BYTES);
                    block[..length].copy_from_slice(&expected[from..from + length]);
                }
            }
            assert_eq!(difference(&actual[..expected.len()], expected), None, "{name}");
        }
        for (name, expected) in &self.snapshots {
            let restored = restore(self.folder.path(), &format!("check-{}", self.names), &self.manifests[name], &self.objects, self.cipher.clone());
            self.names += 1;
            assert_eq!(difference(&content(&restored), expected), None, "{name}");
        }
        assert_eq!(difference(&content(&**self.capture()), &self.now), None, "the volume");
        // Nothing is left that nobody refers to.
        let pending: Vec<String> = self.pending.keys().cloned().collect();
        sweep(&self.objects, &pending).unwrap();
        let referenced: std::collections::BTreeSet<String> = self.manifests.values().flat_map(|manifest| manifest.segments().unwrap()).collect();
        for listed in self.objects.list("segments/").unwrap() {
            assert!(referenced.contains(&listed.name) || pending.iter().any(|name| listed.name.starts_with(&format!("segments/{name}/"))), "{}", listed.name);
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn whatever_is_done_every_snapshot_is_the_bytes_of_its_instant(steps in steps(), sealed in any::<bool>()) {
        let mut world = World::new(sealed);
        for step in &steps {
            world.step(step);
        }
        world.check();
        world.reopen();
        world.check();
    }
}
