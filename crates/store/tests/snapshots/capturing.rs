//! Instants while threads write: what is in them is what was there at one point in time.

use crate::support::{content, difference, memory, restore, stored, volume, Hooked, StopAtEnd, BLOCK};
use headrace_catalog::RaidLevel;
use headrace_model::array::Layout;
use headrace_store::encrypted::DATA_KEY_BYTES;
use headrace_store::snapshots::{begin_all, upload, AsideKey, BlockSource, Capture, Instant, BLOCK_BYTES};
use headrace_store::{Backing, Encrypted, PowerCut, SectorCipher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn counter(source: &Instant, at: u64) -> u64 {
    let mut block = vec![0; BLOCK_BYTES];
    source.read_block(at / BLOCK, &mut block).unwrap();
    let from = (at % BLOCK) as usize;
    u64::from_le_bytes(block[from..from + 8].try_into().unwrap())
}

/// Each thread writes a number to a place of one volume, then to one of another, then the next
/// number. At any point in time the first is the second, or one ahead.
#[test]
fn all_volumes_are_captured_at_one_point_in_time() {
    const THREADS: u64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let capture = |name: &str| Capture::new(volume(folder.path(), name, 16 * BLOCK), folder.path().join(format!("{name}-captures"))).unwrap();
    let volumes = [capture("a"), capture("b")];
    // Between the two come others: the longer it takes to reach the last, the more may go wrong.
    let others: Vec<_> = (0..30).map(|number| capture(&format!("other-{number}"))).collect();
    // Every thread writes one common block, and blocks of its own.
    let places = |thread: u64| [(0, thread * 512), (1, (1 + thread) * BLOCK), (1, thread * 512), (0, (5 + thread) * BLOCK + 40_000)];
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for thread in 0..THREADS {
            let (stop, rounds, volumes) = (&stop, &rounds, &volumes);
            scope.spawn(move || {
                for number in 1u64.. {
                    for (volume, at) in places(thread) {
                        volumes[volume].write(&number.to_le_bytes(), at).unwrap();
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        for number in 0..100 {
            let before = rounds.load(Ordering::SeqCst);
            let name = format!("snap-{number}");
            let mut all = vec![(volumes[0].clone(), name.as_str())];
            all.extend(others.iter().map(|other| (other.clone(), name.as_str())));
            all.push((volumes[1].clone(), &name));
            // Either may be the first.
            if number % 2 == 1 {
                all.reverse();
            }
            let mut all = begin_all(&all).unwrap();
            if number % 2 == 1 {
                all.reverse();
            }
            let (last, first) = (all.pop().unwrap(), all.remove(0));
            let instants = [first, last];
            all.into_iter().for_each(|instant| instant.finish().unwrap());
            while rounds.load(Ordering::SeqCst) < before + 5 {
                std::thread::yield_now();
            }
            for thread in 0..THREADS {
                let counters: Vec<u64> = places(thread).into_iter().map(|(volume, at)| counter(&instants[volume], at)).collect();
                let ordered = counters.windows(2).all(|two| two[0] >= two[1]) && counters[0] <= counters[3] + 1;
                assert!(ordered, "instant {number}, thread {thread}: {counters:?}");
            }
            instants.into_iter().for_each(|instant| instant.finish().unwrap());
        }
    });
    assert!(rounds.load(Ordering::SeqCst) > 0);
}

/// Threads write everywhere while instants begin, are stored and end; each snapshot restores to
/// what its thread-by-thread stamps allow, and reading an instant twice gives the same.
#[test]
fn several_instants_under_way_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::new(volume(folder.path(), "volume", 24 * BLOCK), folder.path().join("captures")).unwrap();
    let objects = memory();
    let stop = AtomicBool::new(false);
    // Writers wait here while a reference is taken.
    let gate = std::sync::RwLock::new(());
    let writes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for thread in 0..3u64 {
            let (capture, stop, gate, writes) = (&capture, &stop, &gate, &writes);
            scope.spawn(move || {
                let mut state = thread + 1;
                while !stop.load(Ordering::SeqCst) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 20) % (23 * BLOCK);
                    let guard = gate.read().unwrap();
                    match state >> 60 {
                        0 => capture.discard(at, BLOCK).unwrap(),
                        1 => capture.write(&vec![state as u8; BLOCK_BYTES], at).unwrap(),
                        _ => capture.write(&[state as u8; 3_000], at).unwrap(),
                    }
                    drop(guard);
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let mut pending: Vec<(Instant, Vec<u8>)> = Vec::new();
        for number in 0..12 {
            let guard = gate.write().unwrap();
            let expected = content(&*capture);
            let instant = capture.begin(&format!("snap-{number}")).unwrap();
            drop(guard);
            pending.push((instant, expected));
            let before = writes.load(Ordering::SeqCst);
            while writes.load(Ordering::SeqCst) < before + 300 {
                std::thread::yield_now();
            }
            if pending.len() == 5 {
                let (instant, expected) = pending.remove(number % 5);
                let manifest = stored(&instant, instant.name(), &objects, None);
                instant.finish().unwrap();
                let restored = restore(folder.path(), &format!("restored-{number}"), &manifest, &objects, None);
                assert_eq!(difference(&content(&restored), &expected), None, "snapshot {number}");
            }
        }
        for (instant, expected) in pending {
            let mut block = vec![0; BLOCK_BYTES];
            for (index, expected) in expected.chunks(BLOCK_BYTES).enumerate() {
                instant.read_block(index as u64, &mut block).unwrap();
                assert_eq!(difference(&block, expected), None, "{} block {index}", instant.name());
            }
        }
    });
}

/// Nothing stops the writers, not even while an instant begins: reading it twice gives the same,
/// and a snapshot of what changed since the one before is the same again.
#[test]
fn instants_one_after_another_miss_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::new(volume(folder.path(), "volume", 60 * BLOCK), folder.path().join("captures")).unwrap();
    let other = |number: u32| Capture::new(volume(folder.path(), &format!("other-{number}"), BLOCK), folder.path().join(format!("others-{number}"))).unwrap();
    let others: Vec<_> = (0..20).map(other).collect();
    let objects = memory();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for thread in 0..2u64 {
            let (capture, stop) = (&capture, &stop);
            scope.spawn(move || {
                let mut state = thread + 1;
                while !stop.load(Ordering::SeqCst) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    capture.write(&state.to_le_bytes(), (state >> 20) % (60 * BLOCK - 8)).unwrap();
                    // Few enough that a block is not written again and again.
                    if state >> 61 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                }
            });
        }
        let read = |instant: &Instant| {
            let mut all = vec![0; 60 * BLOCK_BYTES];
            all.chunks_mut(BLOCK_BYTES).enumerate().for_each(|(index, block)| instant.read_block(index as u64, block).unwrap());
            all
        };
        let mut parent = None;
        for number in 0..40 {
            // With others, so that a beginning takes its time.
            let name = format!("snap-{number}");
            let all: Vec<_> = std::iter::once(&capture).chain(&others).map(|capture| (capture.clone(), name.as_str())).collect();
            let mut all = begin_all(&all).unwrap();
            let instant = all.remove(0);
            all.into_iter().for_each(|instant| instant.finish().unwrap());
            let expected = read(&instant);
            assert_eq!(difference(&read(&instant), &expected), None, "instant {number}");
            let manifest = stored(&instant, instant.name(), &objects, parent.as_ref());
            instant.finish().unwrap();
            for (index, block) in expected.chunks(BLOCK_BYTES).enumerate() {
                let actual = headrace_store::snapshots::read_block(&objects, &manifest, index as u64, None).unwrap();
                assert_eq!(difference(&actual.unwrap_or_else(|| vec![0; BLOCK_BYTES]), block), None, "snapshot {number}, block {index}");
            }
            parent = Some(manifest);
        }
    });
}

/// A beginning waits for a write in flight, and writes to other blocks wait for neither.
#[test]
fn a_beginning_waits_for_writes_in_flight_and_blocks_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, waiting) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
    let (held_up, counted) = (gate.clone(), waiting.clone());
    let before_write = move |offset| {
        if offset == 0 {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(held_up.lock().unwrap());
        }
        Ok(())
    };
    let slow = Hooked { before_write: Box::new(before_write), ..Hooked::new(volume(folder.path(), "volume", 8 * BLOCK)) };
    let capture = Capture::new(Arc::new(slow), folder.path().join("captures")).unwrap();
    let begun = AtomicBool::new(false);
    let guard = gate.lock().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| capture.write(&[7; 512], 0).unwrap());
        while waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let beginner = scope.spawn(|| {
            let instant = capture.begin("snap").unwrap();
            begun.store(true, Ordering::SeqCst);
            instant
        });
        // These end although the beginning does not. The last of them come after the instant.
        for number in 0..2_000u32 {
            capture.write(&[number as u8; 512], (1 + u64::from(number) % 7) * BLOCK).unwrap();
            capture.read(&mut [0; 512], 0).unwrap();
        }
        assert!(!begun.load(Ordering::SeqCst), "a write is in flight that was not answered");
        drop(guard);
        writer.join().unwrap();
        let instant = beginner.join().unwrap();
        let mut block = vec![0; BLOCK_BYTES];
        instant.read_block(0, &mut block).unwrap();
        assert_eq!(block[..512], [7; 512], "the write that was in flight is in it whole");
    });
}

/// The whole stack of an encrypted array: the snapshot is of the array's bytes, discards included,
/// and what was never written is known to be empty without reading it.
#[test]
fn an_array_is_captured_as_one_volume() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = 12 * BLOCK;
    for (level, members) in [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 2), (RaidLevel::Raid5, 4), (RaidLevel::Raid10, 4)] {
        let (holding, _) = level.data_members(members);
        let cipher = Arc::new(SectorCipher::new(&[7; DATA_KEY_BYTES]));
        let file = |member| volume(folder.path(), &format!("{level:?}-{member}"), bytes / holding);
        let files: Vec<Arc<dyn Backing>> =
            (0..members).map(|member| Arc::new(Encrypted::new(file(member), cipher.clone(), u32::try_from(member).unwrap())) as Arc<dyn Backing>).collect();
        let layout = Layout::new(level, members as usize, 64 << 10, bytes / holding);
        let raid = Arc::new(headrace_store::Raid::new(level, layout, files, bytes));
        assert!(!raid.may_hold_data(0, bytes), "{level:?}: nothing was written");
        let capture = Capture::new(raid.clone(), folder.path().join(format!("{level:?}-captures"))).unwrap();
        let power = PowerCut::new(capture.clone());
        power.write(&[5; 200_000], 3 * BLOCK + 1_000).unwrap();
        assert!(raid.may_hold_data(3 * BLOCK + 1_000, 1) && power.may_hold_data(3 * BLOCK + 100_000, 50_000), "{level:?}");
        let expected = content(&power);
        let instant = capture.begin("snap").unwrap();
        power.discard(0, bytes).unwrap();
        let objects = memory();
        let manifest = stored(&instant, "snap", &objects, None);
        assert_eq!(manifest.blocks(), 1);
        let restored = restore(folder.path(), &format!("{level:?}-restored"), &manifest, &objects, None);
        assert_eq!(difference(&content(&restored), &expected), None, "{level:?}");
    }
}

/// Bytes are set aside for an array that is larger than a file may be.
#[test]
fn an_array_larger_than_a_file_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    let member = 12u64 << 40;
    let files: Vec<Arc<dyn Backing>> = (0..2).map(|index| volume(folder.path(), &format!("member-{index}"), member)).collect();
    let raid = headrace_store::Raid::new(RaidLevel::Raid0, Layout::new(RaidLevel::Raid0, 2, 64 << 10, member), files, 2 * member);
    let capture = Capture::new(Arc::new(raid), folder.path().join("captures")).unwrap();
    let places = [0, 7 << 40, (8u64 << 40) - BLOCK, 8 << 40, 17 << 40, 2 * member - BLOCK];
    let stamp = |at: u64| (at / BLOCK % 251) as u8 + 1;
    places.into_iter().for_each(|at| capture.write(&[stamp(at); BLOCK_BYTES], at).unwrap());
    drop(capture.begin("snap").unwrap());
    places.into_iter().for_each(|at| capture.write(&[0xff; 20_000], at + 16_384).unwrap());
    let instant = capture.instants().pop().unwrap();
    let objects = memory();
    let manifest = stored(&instant, "snap", &objects, None);
    assert_eq!(manifest.blocks(), places.len() as u64);
    for at in places {
        let block = headrace_store::snapshots::read_block(&objects, &manifest, at / BLOCK, None).unwrap().unwrap();
        assert_eq!(difference(&block, &[stamp(at); BLOCK_BYTES]), None, "at {at}");
    }
    instant.finish().unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("captures")).unwrap().count(), 1, "every part is gone");
}

#[test]
fn what_cannot_be_captured_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::new(volume(folder.path(), "volume", 2 * BLOCK), folder.path().join("captures")).unwrap();
    for name in ["", "a/b", "..", ".hidden", "a b"] {
        assert_eq!(capture.begin(name).err().map(|error| error.kind()), Some(io::ErrorKind::InvalidInput), "{name:?}");
    }
    let instant = capture.begin("snap").unwrap();
    assert!(capture.begin("snap").is_err(), "under way");
    assert!(begin_all(&[(capture.clone(), "x"), (capture.clone(), "y")]).is_err(), "one volume twice");
    assert_eq!(capture.instants().len(), 1, "what was refused left nothing");
    instant.finish().unwrap();
    assert!(capture.begin("snap").is_err(), "what changed since is noted under this name");
    capture.begin("snap-2").unwrap().finish().unwrap();
    let other = Capture::new(volume(folder.path(), "other", 2 * BLOCK), folder.path().join("other-captures")).unwrap();
    let taken = other.begin("taken").unwrap();
    assert!(begin_all(&[(capture.clone(), "new"), (other.clone(), "taken")]).is_err());
    assert!(capture.instants().is_empty(), "all or none");
    taken.finish().unwrap();
    capture.write(&[1; 512], 2 * BLOCK - 100).expect_err("outside");
    capture.discard(u64::MAX - 3, 10).expect_err("outside");
}

/// A snapshot of a volume of 16 TiB, but for a block, that is nearly empty looks at what was
/// written, not at 33 million blocks of zeros.
#[test]
fn a_large_empty_volume_costs_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    // The largest file of ext4 is 4 KiB smaller than the largest gp2 volume.
    let bytes = (16u64 << 40) - BLOCK;
    let capture = Capture::new(volume(folder.path(), "volume", bytes), folder.path().join("captures")).unwrap();
    capture.write(&[1; 4_096], bytes - 4_096).unwrap();
    let instant = capture.begin("snap").unwrap();
    capture.discard(0, bytes).unwrap();
    let objects = memory();
    let (reads, last) = (AtomicU64::new(0), Mutex::new(0));
    let counted = Counted { instant: &instant, reads: &reads };
    let progress = |progress: headrace_store::snapshots::Progress| *last.lock().unwrap() = progress.percent();
    let manifest = upload(&counted, &objects, "snap", None, None, &progress, &AtomicBool::new(false)).unwrap();
    assert_eq!((manifest.blocks(), manifest.bytes(), *last.lock().unwrap()), (1, bytes, 100));
    assert!(manifest.block(bytes / BLOCK - 1).unwrap().is_some());
    // The discard set aside 4 MiB around what was written: eight blocks, less the one that the
    // volume ends before.
    assert_eq!(reads.load(Ordering::SeqCst), 7);
    assert!(objects.get("manifests/snap").unwrap().len() < 400);
}

struct Counted<'a> {
    instant: &'a Instant,
    reads: &'a AtomicU64,
}

impl BlockSource for Counted<'_> {
    fn bytes(&self) -> u64 {
        self.instant.bytes()
    }
    fn read_block(&self, index: u64, into: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.instant.read_block(index, into)
    }
    fn may_hold_data(&self, first: u64, count: u64) -> bool {
        self.instant.may_hold_data(first, count)
    }
}

/// Bytes that an encrypted volume sets aside can be read with its key, and with nothing else.
#[test]
fn what_is_set_aside_of_an_encrypted_volume_is_encrypted() {
    const SECRET: &[u8; 16] = b"plain text of it";
    let folder = tempfile::tempdir().unwrap();
    let captures = folder.path().join("captures");
    let inner: Arc<dyn Backing> = volume(folder.path(), "volume", 4 * BLOCK);
    let sealed = |key: AsideKey| Capture::sealed(inner.clone(), captures.clone(), None, key).unwrap();
    let cipher = Arc::new(SectorCipher::new(&[7; DATA_KEY_BYTES]));
    let first = sealed(AsideKey::Sealed(cipher.clone()));
    first.write(&SECRET.repeat(1_024), BLOCK).unwrap();
    let instant = first.begin("snap").unwrap();
    first.write(&[9; 16_384], BLOCK).unwrap();
    let holds_secret = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET);
    let set_aside = std::fs::read(captures.join("snap.aside")).unwrap();
    assert!(set_aside.iter().any(|&byte| byte != 0) && !holds_secret(&set_aside));
    let mut block = vec![0; BLOCK_BYTES];
    instant.read_block(1, &mut block).unwrap();
    assert_eq!(&block[..16_384], SECRET.repeat(1_024).as_slice());
    // The process ends; the next one finds the key gone, then there again.
    drop((instant, first));
    let locked = sealed(AsideKey::Locked);
    assert!(locked.instants()[0].read_block(1, &mut block).is_err());
    drop(locked);
    let again = sealed(AsideKey::Sealed(cipher));
    again.instants()[0].read_block(1, &mut block).unwrap();
    assert_eq!(&block[..16_384], SECRET.repeat(1_024).as_slice());
}
