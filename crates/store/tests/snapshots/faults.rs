//! An object store that fails: requests that end in an error, objects that are there by half, with
//! and without a word, slow answers. A snapshot restores to the bytes of its instant, or there is
//! none and the error says why.

use crate::support::{content, difference, memory, restore, store, volume, Hooked, Memory, BLOCK};
use headrace_store::objects::{Bucket, Listed};
use headrace_store::snapshots::{forget_upload, sweep, upload, Builder, Capture, Manifest, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store whose puts fail after some.
pub struct EndsEarly {
    objects: Objects,
    remaining: AtomicUsize,
}

impl EndsEarly {
    #[allow(clippy::new_ret_no_self)]
    pub fn new(objects: Objects, puts: usize) -> Objects {
        Objects::over("memory://ends-early", Arc::new(EndsEarly { objects, remaining: AtomicUsize::new(puts) }))
    }
}

impl Bucket for EndsEarly {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        let had = self.remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1));
        had.map_err(|_| io::Error::other("the line is cut"))?;
        self.objects.put(name, data)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        range.map_or_else(|| self.objects.get(name), |range| self.objects.get_range(name, range))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.objects.delete(name)
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        self.objects.list(prefix)
    }
}

/// A store that fails at random.
struct Faulty {
    inner: Memory,
    random: Mutex<ChaCha8Rng>,
    /// Share of requests that fail, percent.
    failing: AtomicUsize,
    /// Share of puts that leave half an object without an error, percent.
    lying: AtomicUsize,
}

impl Faulty {
    fn new(seed: u64) -> Arc<Faulty> {
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
        Arc::new(Faulty { inner: Memory::default(), random, failing: AtomicUsize::new(0), lying: AtomicUsize::new(0) })
    }

    fn dice(&self, of_100: &AtomicUsize) -> bool {
        (self.random.lock().unwrap().next_u64() % 100) < of_100.load(Ordering::SeqCst) as u64
    }

    fn request(&self) -> io::Result<()> {
        if self.dice(&AtomicUsize::new(2)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.dice(&self.failing) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "503 slow down"));
        }
        Ok(())
    }
}

impl Bucket for Faulty {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        if self.dice(&self.lying) {
            return self.inner.put(name, &data[..data.len() / 2]);
        }
        let done = self.request();
        if done.is_err() && self.dice(&AtomicUsize::new(50)) {
            // Half of it is there nevertheless; or all of it, and only the answer was lost.
            let bytes = if self.dice(&AtomicUsize::new(50)) { data.len() } else { data.len() / 2 };
            self.inner.put(name, &data[..bytes])?;
        }
        done.and_then(|()| self.inner.put(name, data))
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.request()?;
        self.inner.get(name, range)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.request()?;
        self.inner.delete(name)
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        self.request()?;
        self.inner.list(prefix)
    }
}

/// Uploads fail and are tried again, with writes and kills in between. Each ends in a snapshot that
/// is right, or in words that say to make it again.
#[test]
fn an_upload_ends_right_or_in_words() {
    let (mut whole, mut lost, mut tries) = (0, 0, 0);
    for seed in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let faulty = Faulty::new(seed);
        let objects = Objects::over("memory://faulty", faulty.clone());
        let mut random = ChaCha8Rng::seed_from_u64(seed + 1_000);
        let file = volume(folder.path(), "volume", 40 * BLOCK);
        let mut capture = Capture::new(file.clone(), folder.path().join("captures")).unwrap();
        let scribble = |capture: &Capture, random: &mut ChaCha8Rng| {
            let at = random.next_u64() % (39 * BLOCK);
            capture.write(&vec![random.next_u64() as u8 | 1; 1 + (random.next_u64() % BLOCK) as usize], at).unwrap();
        };
        (0..60).for_each(|_| scribble(&capture, &mut random));
        let expected = content(&*capture);
        let mut instant = capture.begin("snap").unwrap();
        faulty.failing.store(15, Ordering::SeqCst);
        faulty.lying.store(if seed % 2 == 0 { 0 } else { 15 }, Ordering::SeqCst);
        let ended = loop {
            tries += 1;
            let ended = upload(&instant, &objects, "snap", None, None, &|_| {}, &AtomicBool::new(false));
            match ended {
                Err(error) if !error.to_string().contains("ake the snapshot again") => {
                    assert!(error.to_string().contains("memory://faulty"), "{error}");
                    (0..10).for_each(|_| scribble(&capture, &mut random));
                    if tries % 3 == 0 {
                        drop(instant);
                        capture = Capture::new(file.clone(), folder.path().join("captures")).unwrap();
                        instant = capture.instants().pop().unwrap();
                    }
                }
                ended => break ended,
            }
        };
        faulty.failing.store(0, Ordering::SeqCst);
        faulty.lying.store(0, Ordering::SeqCst);
        match ended {
            Ok(manifest) => {
                whole += 1;
                assert_eq!(Manifest::load(&objects, "snap").unwrap(), manifest);
                let restored = restore(folder.path(), "restored", &manifest, &objects, None);
                assert_eq!(difference(&content(&restored), &expected), None, "seed {seed}");
            }
            Err(_) => {
                lost += 1;
                forget_upload(&objects, "snap").unwrap();
                Manifest::load(&objects, "snap").expect_err("it does not exist");
            }
        }
        sweep(&objects, &[]).unwrap();
        let stored = objects.list("segments/").unwrap().len();
        let referenced = Manifest::segments_of(&objects, "snap").map_or(0, |segments| segments.len());
        assert_eq!(stored, referenced, "seed {seed}: nothing is left over");
    }
    assert!(whole >= 20, "without lies every one ends right: {whole}");
    assert!(lost > 0 && tries > 60, "{lost} lost, {tries} tries: the faults struck");
}

/// Reads of a restored volume fail while the store does, with the words in the log, and are right
/// as soon as it is back. Nothing wrong is ever kept.
#[test]
fn a_fetch_that_fails_is_an_error_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(7);
    let objects = Objects::over("memory://faulty", faulty.clone());
    let capture = Capture::new(volume(folder.path(), "volume", 8 * BLOCK), folder.path().join("captures")).unwrap();
    (0..8).for_each(|block| capture.write(&[block as u8 + 1; BLOCK_BYTES], block * BLOCK).unwrap());
    let manifest = crate::support::stored(&capture.begin("snap").unwrap(), "snap", &objects, None);
    let messages = Arc::new(Mutex::new(Vec::new()));
    let log = messages.clone();
    let restored = restore(folder.path(), "restored", &manifest, &objects, None).with_log(move |words| log.lock().unwrap().push(words.to_string()));
    // Places of its blocks are read with the first.
    restored.initialize(7).unwrap();
    faulty.failing.store(100, Ordering::SeqCst);
    let mut buffer = vec![0; 4_096];
    let error = restored.read(&mut buffer, 3 * BLOCK).unwrap_err();
    for part in ["block 3 of snap", "memory://faulty", "get segments/snap/00000000", "503 slow down", "try again"] {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
    assert_eq!(*messages.lock().unwrap(), [error.to_string()]);
    assert_eq!(restored.cold_blocks(), 7);
    restored.write(&[9; 4_096], 3 * BLOCK).expect_err("a part of a cold block");
    restored.write(&[9; BLOCK_BYTES], 5 * BLOCK).expect("a whole block needs no fetch");
    restored.read(&mut buffer, 5 * BLOCK).unwrap();
    assert_eq!(buffer, [9; 4_096]);
    faulty.failing.store(0, Ordering::SeqCst);
    restored.read(&mut buffer, 3 * BLOCK).unwrap();
    assert_eq!(buffer, [4; 4_096]);
    assert_eq!(restored.cold_blocks(), 5);
}

/// Every part of the manifest of `snap`.
fn read_all(objects: &Objects) -> io::Result<Manifest> {
    let manifest = Manifest::load(objects, "snap")?;
    manifest.check()?;
    Ok(manifest)
}

/// Every damage to a manifest or segment is seen: a bit at each place of the tables, some in the
/// blocks, and every length it may be cut to near its ends.
#[test]
fn damage_is_never_read_as_data() {
    let folder = tempfile::tempdir().unwrap();
    let objects = memory();
    let capture = Capture::new(volume(folder.path(), "volume", 3 * BLOCK), folder.path().join("captures")).unwrap();
    capture.write(&[7; 3 * BLOCK_BYTES], 0).unwrap();
    let manifest = crate::support::stored(&capture.begin("snap").unwrap(), "snap", &objects, None);
    let good = objects.get("manifests/snap").unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        objects.put("manifests/snap", &bad).unwrap();
        let error = read_all(&objects).expect_err("a bit is wrong");
        assert!(["manifest of snap cannot be used", "manifests/snap"].iter().any(|words| error.to_string().contains(words)), "{error}");
        objects.put("manifests/snap", &good[..at]).unwrap();
        read_all(&objects).expect_err("it was cut");
    }
    objects.put("manifests/other", &good).unwrap();
    Manifest::load(&objects, "other").expect_err("that of another");
    Manifest::segments_of(&objects, "other").expect_err("that of another");
    objects.put("manifests/snap", &good).unwrap();
    assert_eq!(read_all(&objects).unwrap(), manifest);

    let segment = objects.get("segments/snap/00000000").unwrap();
    for at in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES - 1] {
        let mut bad = segment.clone();
        bad[at] ^= 64;
        objects.put("segments/snap/00000000", &bad).unwrap();
        let restored = restore(folder.path(), &format!("restored-{at}"), &manifest, &objects, None).with_log(|_| {});
        let block = (at / BLOCK_BYTES) as u64;
        let mut buffer = vec![0; 512];
        let error = restored.read(&mut buffer, block * BLOCK).expect_err("a damaged block");
        assert!(error.to_string().contains(&format!("block {block} of snap")), "{error}");
        assert!(restored.is_cold(block));
        restored.read(&mut buffer, (block + 1) % 3 * BLOCK).expect("the others are whole");
    }
    objects.delete("segments/snap/00000000").unwrap();
    let restored = restore(folder.path(), "restored", &manifest, &objects, None).with_log(|_| {});
    assert_eq!(restored.read(&mut [0; 512], 0).unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// A volume goes on when what it replaces cannot be set aside; the snapshot ends in words, also for
/// the next process.
#[test]
fn a_full_disk_ends_the_snapshot_and_not_the_volume() {
    let folder = tempfile::tempdir().unwrap();
    let unreadable = Arc::new(AtomicBool::new(false));
    let flag = unreadable.clone();
    let before_read = move |_| match flag.load(Ordering::SeqCst) {
        true => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device")),
        false => Ok(()),
    };
    let inner = Hooked { before_read: Box::new(before_read), ..Hooked::new(volume(folder.path(), "volume", 4 * BLOCK)) };
    let inner = Arc::new(inner);
    let capture = Capture::new(inner.clone(), folder.path().join("captures")).unwrap();
    capture.write(&[1; 4_096], 0).unwrap();
    let instant = capture.begin("snap").unwrap();
    unreadable.store(true, Ordering::SeqCst);
    capture.write(&[2; 4_096], 0).expect("the volume goes on");
    unreadable.store(false, Ordering::SeqCst);
    let fails = |instant: &headrace_store::snapshots::Instant| {
        let error = upload(instant, &store(folder.path()), "snap", None, None, &|_| {}, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("no space left on device") && error.to_string().contains("ake the snapshot again"), "{error}");
        instant.check().unwrap_err();
    };
    fails(&instant);
    drop((instant, capture));
    let capture = Capture::new(inner, folder.path().join("captures")).unwrap();
    let instant = capture.instants().pop().unwrap();
    fails(&instant);
    instant.finish().unwrap();
    assert!(capture.instants().is_empty());
}

/// Content of an object after the damage; None if it is gone.
type Damage = dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// Blocks that were stored and released are gone when the upload goes on: their bytes may have been
/// written over since. The snapshot ends in words, at every try, and the volume goes on.
#[test]
fn a_segment_that_is_damaged_after_its_blocks_were_released() {
    let cut = |data: &[u8]| Some(data[..data.len() / 2].to_vec());
    let flipped = |data: &[u8]| Some(data.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == BLOCK_BYTES + 5)).collect());
    let gone = |_: &[u8]| None;
    let damages: [(&str, &Damage); 3] = [("cut", &cut), ("flipped", &flipped), ("gone", &gone)];
    for ((damage, done), restarts) in damages.into_iter().zip([false, true, true]) {
        let folder = tempfile::tempdir().unwrap();
        let objects = store(folder.path());
        let file = volume(folder.path(), "volume", 200 * BLOCK);
        let mut capture = Capture::new(file.clone(), folder.path().join("captures")).unwrap();
        (0..200).for_each(|block| capture.write(&[block as u8 + 1; BLOCK_BYTES], block * BLOCK).unwrap());
        let mut instant = capture.begin("snap").unwrap();
        let ends_early = EndsEarly::new(objects.clone(), 2);
        let again =
            |instant: &headrace_store::snapshots::Instant, objects: &Objects| upload(instant, objects, "snap", None, None, &|_| {}, &AtomicBool::new(false));
        again(&instant, &ends_early).expect_err("the line is cut");
        let stored = objects.list("segments/snap/").unwrap();
        assert_eq!(stored.len(), 2, "{damage}");
        // The old bytes of released blocks are nowhere else.
        (0..200).for_each(|block| capture.write(&[0xee; BLOCK_BYTES], block * BLOCK).unwrap());
        if restarts {
            drop((instant, capture));
            capture = Capture::new(file.clone(), folder.path().join("captures")).unwrap();
            instant = capture.instants().pop().unwrap();
        }
        let path = folder.path().join("objects").join(&stored[0].name);
        match done(&std::fs::read(&path).unwrap()) {
            Some(bad) => std::fs::write(&path, bad).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        for _ in 0..2 {
            let error = again(&instant, &objects).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{damage}: {error}");
            assert!(error.to_string().contains("was stored before, and what was stored is damaged or gone. Make the snapshot again"), "{damage}: {error}");
            Manifest::load(&objects, "snap").expect_err("it does not exist");
        }
        instant.finish().unwrap();
        forget_upload(&objects, "snap").unwrap();
        assert_eq!(objects.list("segments/").unwrap(), []);
        assert!(content(&*capture).iter().all(|&byte| byte == 0xee), "{damage}: the volume");
        let manifest = crate::support::stored(&capture.begin("next").unwrap(), "next", &objects, None);
        assert_eq!(manifest.blocks(), 200, "{damage}: the next one is whole");
    }
}

/// Blocks that were put and answered are in the snapshot, or completing it is an error.
#[test]
fn a_builder_over_a_store_that_loses_blocks() {
    let faulty = Faulty::new(3);
    let objects = Objects::over("memory://faulty", faulty.clone());
    let builder = Builder::open(objects.clone(), "snap", 4 * BLOCK, None, None).unwrap();
    builder.put(1, &[1; BLOCK_BYTES]).unwrap();
    faulty.lying.store(100, Ordering::SeqCst);
    builder.put(2, &[2; BLOCK_BYTES]).unwrap();
    faulty.lying.store(0, Ordering::SeqCst);
    let error = builder.complete().unwrap_err();
    assert!(error.to_string().contains("Put the block again"), "{error}");
    let builder = Builder::open(objects.clone(), "snap", 4 * BLOCK, None, None).unwrap();
    assert_eq!(builder.changed_blocks(), 1, "what was stored by half is not there");
    builder.put(2, &[2; BLOCK_BYTES]).unwrap();
    let manifest = builder.complete().unwrap();
    assert_eq!(manifest.blocks(), 2);
    let folder = tempfile::tempdir().unwrap();
    let restored: Restored = restore(folder.path(), "restored", &manifest, &objects, None);
    assert!(content(&restored).chunks(BLOCK_BYTES).zip([0, 1, 2, 0]).all(|(block, stamp)| block.iter().all(|&byte| byte == stamp)));
}
