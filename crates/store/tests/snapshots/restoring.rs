//! Volumes made of snapshots: each block is fetched once, marks survive, the guest's writes win.

use crate::support::{content, difference, stored, volume, Hooked, Memory, BLOCK};
use headrace_store::objects::{Bucket, Listed};
use headrace_store::snapshots::{initialize_all, Capture, Manifest, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects, SparseFile};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 40;

/// Counts fetches, and takes its time for each.
#[derive(Default)]
struct Counting {
    inner: Memory,
    fetched: AtomicU64,
}

impl Bucket for Counting {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.inner.put(name, data)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        if range.as_ref().is_some_and(|range| range.end - range.start == BLOCK) {
            self.fetched.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inner.get(name, range)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.inner.delete(name)
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        self.inner.list(prefix)
    }
}

struct Fixture {
    folder: tempfile::TempDir,
    bucket: Arc<Counting>,
    objects: Objects,
    manifest: Arc<Manifest>,
    expected: Vec<u8>,
}

/// Every second block has data.
fn prepare() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(Counting::default());
    let objects = Objects::over("memory://counting", bucket.clone());
    let capture = Capture::new(volume(folder.path(), "volume", BLOCKS * BLOCK), folder.path().join("captures")).unwrap();
    (0..BLOCKS).step_by(2).for_each(|block| capture.write(&[block as u8 + 1; BLOCK_BYTES], block * BLOCK).unwrap());
    let expected = content(&*capture);
    let manifest = Arc::new(stored(&capture.begin("snap").unwrap(), "snap", &objects, None));
    Fixture { folder, bucket, objects, manifest, expected }
}

impl Fixture {
    fn marks(&self) -> std::path::PathBuf {
        self.folder.path().join("warm")
    }

    fn create(&self) -> Restored {
        let inner = volume(self.folder.path(), "restored", BLOCKS * BLOCK);
        Restored::create(inner, self.manifest.clone(), self.objects.clone(), None, &self.marks()).unwrap()
    }

    fn open(&self) -> io::Result<Restored> {
        let inner = Arc::new(SparseFile::open(&self.folder.path().join("restored"), BLOCKS * BLOCK).unwrap());
        Restored::open(inner, self.manifest.clone(), self.objects.clone(), None, &self.marks())
    }

    fn fetched(&self) -> u64 {
        self.bucket.fetched.load(Ordering::SeqCst)
    }
}

#[test]
fn threads_that_touch_one_block_fetch_it_once() {
    let fixture = prepare();
    let restored = fixture.create();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (restored, fixture) = (&restored, &fixture);
            scope.spawn(move || {
                for step in 0..BLOCKS as usize {
                    let block = (step + thread / 3) % BLOCKS as usize;
                    let mut buffer = vec![0; 70_000];
                    let at = (block * BLOCK_BYTES + BLOCK_BYTES / 2).min(fixture.expected.len() - buffer.len());
                    restored.read(&mut buffer, at as u64).unwrap();
                    assert_eq!(difference(&buffer, &fixture.expected[at..at + buffer.len()]), None);
                }
            });
        }
    });
    assert_eq!((fixture.fetched(), restored.cold_blocks()), (BLOCKS / 2, 0));
}

/// Readers, writers and an initialization at once, on volumes that die in between.
#[test]
fn what_the_guest_wrote_is_never_fetched_over() {
    let fixture = prepare();
    let mut expected = fixture.expected.clone();
    let mut restored = fixture.create();
    for round in 0..6u8 {
        // Each thread has blocks of its own; an initialization runs into all of them.
        let parts: Vec<&mut [u8]> = expected.chunks_mut(10 * BLOCK_BYTES).collect();
        std::thread::scope(|scope| {
            for (thread, part) in parts.into_iter().enumerate() {
                let restored = &restored;
                scope.spawn(move || {
                    let base = thread * 10 * BLOCK_BYTES;
                    for step in 0..6usize {
                        let at = (step * 7 + round as usize * 3) % 10 * BLOCK_BYTES;
                        let (at, length) = match step {
                            0 => (at, BLOCK_BYTES),
                            1 => (at.min(7 * BLOCK_BYTES), 2 * BLOCK_BYTES + 1_000),
                            _ => (at + 5_000, 4_096),
                        };
                        if step == 4 {
                            restored.discard((base + at) as u64, length as u64).unwrap();
                            part[at..at + length].fill(0);
                        } else {
                            let data = vec![round * 40 + thread as u8 * 8 + step as u8 + 1; length];
                            restored.write(&data, (base + at) as u64).unwrap();
                            part[at..at + length].copy_from_slice(&data);
                        }
                    }
                });
            }
            scope.spawn(|| {
                let count = AtomicU64::new(0);
                initialize_all(&restored, 2, &|_| count.fetch_add(1, Ordering::SeqCst) < 2).unwrap();
            });
        });
        if round == 3 {
            restored.flush().unwrap();
        }
        drop(restored);
        restored = fixture.open().unwrap();
        assert_eq!(difference(&content(&restored), &expected), None, "round {round}");
        if round == 0 {
            assert!(fixture.fetched() < 2 * BLOCKS, "{} fetches", fixture.fetched());
        }
    }
}

#[test]
fn a_whole_write_and_a_discard_need_no_fetch() {
    let fixture = prepare();
    let restored = fixture.create();
    restored.write(&[9; BLOCK_BYTES], 0).unwrap();
    restored.zero(2 * BLOCK, BLOCK).unwrap();
    restored.discard(4 * BLOCK, 36 * BLOCK).unwrap();
    assert_eq!((fixture.fetched(), restored.cold_blocks()), (0, 0));
    assert!(content(&restored)[BLOCK_BYTES..].iter().all(|&byte| byte == 0));
    assert_eq!(fixture.fetched(), 0);
    // A part of a block does need it.
    let fixture = prepare();
    let restored = fixture.create();
    assert_eq!((restored.cold_in(0, 3 * BLOCK), restored.cold_in(BLOCK, BLOCK), restored.next_cold(1)), (2, 0, Some(2)));
    restored.discard(512, BLOCK - 512).unwrap();
    assert_eq!((fixture.fetched(), restored.cold_blocks()), (1, BLOCKS / 2 - 1));
    let mut first = [0; 513];
    restored.read(&mut first, 0).unwrap();
    assert_eq!((first[511], first[512]), (1, 0));
    assert!(restored.initialize(2).unwrap() && !restored.initialize(2).unwrap() && !restored.initialize(3).unwrap());
    restored.grow((BLOCKS + 4) * BLOCK).unwrap();
    restored.write(&[1; 512], (BLOCKS + 3) * BLOCK).unwrap();
    assert_eq!(fixture.fetched(), 2, "what was added is not of the snapshot");
}

/// After the machine stopped a mark counts when the bytes were flushed before it.
#[test]
fn after_the_machine_stopped_what_was_not_flushed_is_fetched_again() {
    let fixture = prepare();
    let restored = fixture.create();
    restored.write(&[9; 4_096], 0).unwrap();
    restored.flush().unwrap();
    restored.write(&[8; BLOCK_BYTES], 2 * BLOCK).unwrap();
    drop(restored);
    assert_eq!(fixture.open().unwrap().cold_blocks(), BLOCKS / 2 - 2, "the process died, the machine did not");
    let mut bytes = std::fs::read(fixture.marks()).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let at = bytes.windows(36).position(|part| part == boot.trim().as_bytes()).unwrap();
    bytes[at] ^= 1;
    let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    let checksum = crc32c::crc32c(&bytes[20..20 + length]);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(fixture.marks(), &bytes).unwrap();
    // A disk may have anything of a write that was not flushed.
    let file = SparseFile::open(&fixture.folder.path().join("restored"), BLOCKS * BLOCK).unwrap();
    file.write(&[0x77; 1_000], 2 * BLOCK).unwrap();
    drop(file);
    for _ in 0..2 {
        let restored = fixture.open().unwrap();
        assert!(restored.is_cold(2) && !restored.is_cold(0), "flushed: warm; not flushed: cold");
    }
    let mut buffer = [0; 512];
    let restored = fixture.open().unwrap();
    restored.read(&mut buffer, 2 * BLOCK).unwrap();
    assert_eq!(buffer, [3; 512], "as in the snapshot");
    restored.read(&mut buffer, 0).unwrap();
    assert_eq!(buffer, [9; 512], "the guest's");
}

/// A block is warm once its bytes are there, and not before: neither for the next process nor for
/// a reader that comes while they are written.
#[test]
fn a_block_whose_bytes_could_not_be_written_stays_cold() {
    let fixture = prepare();
    let failing = Arc::new(AtomicU64::new(1));
    let flag = failing.clone();
    let before_write = move |_| match flag.load(Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device")),
    };
    let inner = volume(fixture.folder.path(), "restored", BLOCKS * BLOCK);
    let hooked = Hooked { before_write: Box::new(before_write), ..Hooked::new(inner) };
    let restored = Restored::create(Arc::new(hooked), fixture.manifest.clone(), fixture.objects.clone(), None, &fixture.marks()).unwrap();
    let mut buffer = [0; 512];
    restored.read(&mut buffer, 0).expect_err("nowhere to put it");
    restored.write(&[1; BLOCK_BYTES], 2 * BLOCK).expect_err("nowhere to put it");
    assert_eq!(restored.cold_blocks(), BLOCKS / 2);
    failing.store(0, Ordering::SeqCst);
    drop(restored);
    let restored = fixture.open().unwrap();
    assert_eq!(restored.cold_blocks(), BLOCKS / 2);
    assert_eq!(difference(&content(&restored), &fixture.expected), None);
}

/// The second flush has nothing to mark, since the first one took the list. When it is answered,
/// what was written before it is marked as flushed nevertheless.
#[test]
fn a_flush_is_answered_when_the_marks_of_another_are_there() {
    /// The mark of a block whose bytes were flushed, and the bytes in front of the marks.
    const FLUSHED: (u8, usize) = (2, 4_096);
    let fixture = prepare();
    let (begun, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, answers) = (begun.clone(), answered.clone());
    // The first flush takes until the other one was answered, or this long.
    let wait = move || {
        let until = Instant::now() + Duration::from_millis(300);
        let is_first = !begins.swap(true, Ordering::SeqCst);
        while is_first && !answers.load(Ordering::SeqCst) && Instant::now() < until {
            std::thread::yield_now();
        }
    };
    let inner = volume(fixture.folder.path(), "slow", fixture.manifest.bytes());
    let slow = Hooked { before_flush: Box::new(wait), ..Hooked::new(inner) };
    let restored = Restored::create(Arc::new(slow), fixture.manifest.clone(), fixture.objects.clone(), None, &fixture.marks()).unwrap();
    restored.write(&[7; BLOCK_BYTES], 2 * BLOCK).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| restored.flush().unwrap());
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        restored.flush().unwrap();
        let marks = std::fs::read(fixture.marks()).unwrap();
        answered.store(true, Ordering::SeqCst);
        first.join().unwrap();
        assert_eq!(marks[FLUSHED.1 + 2], FLUSHED.0);
    });
}

#[test]
fn marks_that_are_missing_or_of_another_snapshot_are_refused() {
    let fixture = prepare();
    drop(fixture.create());
    let refused = |what: &str| {
        let error = fixture.open().err().unwrap_or_else(|| panic!("{what}")).to_string();
        assert!(error.contains("warm"), "{error}");
        error
    };
    let good = std::fs::read(fixture.marks()).unwrap();
    std::fs::write(fixture.marks(), &good[..50]).unwrap();
    refused("cut");
    let mut bad = good.clone();
    bad[30] ^= 1;
    std::fs::write(fixture.marks(), &bad).unwrap();
    refused("damaged");
    std::fs::remove_file(fixture.marks()).unwrap();
    refused("missing");
    std::fs::write(fixture.marks(), &good).unwrap();
    let create = |path: &Path, bytes: u64| {
        let inner = volume(fixture.folder.path(), &format!("other-{bytes}"), bytes);
        Restored::create(inner, fixture.manifest.clone(), fixture.objects.clone(), None, path)
    };
    assert!(create(&fixture.marks(), BLOCKS * BLOCK).is_err(), "marks that exist belong to somebody");
    assert!(create(&fixture.folder.path().join("new"), BLOCKS * BLOCK - 512).is_err(), "smaller than the snapshot");
    assert!(!fixture.folder.path().join("new").exists());
    assert!(fixture.open().is_ok());
}

#[test]
fn an_initialization_in_parallel_fetches_all_and_can_be_stopped() {
    let fixture = prepare();
    let restored = fixture.create();
    let count = AtomicU64::new(0);
    initialize_all(&restored, 3, &|_| count.fetch_add(1, Ordering::SeqCst) < 4).unwrap();
    assert!((5..=5 + 2).contains(&fixture.fetched()), "the fifth ends it, and two more may be under way: {}", fixture.fetched());
    initialize_all(&restored, 3, &|_| true).unwrap();
    assert_eq!((fixture.fetched(), restored.cold_blocks()), (BLOCKS / 2, 0));
    assert_eq!(difference(&content(&restored), &fixture.expected), None);
    assert_eq!(fixture.fetched(), BLOCKS / 2);
}
