//! A snapshot from the instant to its end: what it costs, who may delete what, copies, single
//! blocks.

use crate::support::{content, difference, memory, restore, store, stored, volume, Toy, BLOCK};
use headrace_store::snapshots::{changed_blocks, delete_snapshot, forget_upload, read_block, sweep, unreferenced, upload, BlockSource, Builder, Stored};
use headrace_store::snapshots::{BlockCipher, Capture, Changed, Instant, Manifest, BLOCK_BYTES, SEGMENT_BLOCKS};
use headrace_store::{Backing, Objects};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn capture(folder: &Path, blocks: u64) -> Arc<Capture> {
    Capture::new(volume(folder, "volume", blocks * BLOCK), folder.join("captures")).unwrap()
}

fn snapshot(capture: &Arc<Capture>, name: &str, objects: &Objects, parent: Option<&Manifest>) -> Manifest {
    let instant = capture.begin(name).unwrap();
    let manifest = stored(&instant, name, objects, parent);
    instant.finish().unwrap();
    manifest
}

#[test]
fn what_is_restored_is_what_was_there_at_the_instant() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let capture = capture(folder.path(), 8);
    capture.write(&[1; 100_000], 300_000).unwrap();
    capture.write(&[2; 16], 5 * BLOCK - 8).unwrap();
    let before = content(&*capture);
    let instant = capture.begin("first").unwrap();
    capture.write(&[3; 600_000], 200_000).unwrap();
    capture.discard(4 * BLOCK, 2 * BLOCK).unwrap();
    let manifest = stored(&instant, "first", &objects, None);
    instant.finish().unwrap();
    assert_eq!(manifest.blocks(), 3, "blocks of zeros are not stored");
    let restored = restore(folder.path(), "restored", &manifest, &objects, None);
    assert_eq!(restored.cold_blocks(), 3);
    assert_eq!(difference(&content(&restored), &before), None);
    assert_eq!(restored.cold_blocks(), 0);
    let files: Vec<_> = std::fs::read_dir(folder.path().join("captures")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["first.after"], "only what changed since is noted");
}

/// One block is stored, if the process lived on, if it died, and if it closed the volume in order.
#[test]
fn an_incremental_snapshot_costs_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, file) = (store(folder.path()), volume(folder.path(), "volume", 100 * BLOCK));
    let open = || Capture::new(file.clone(), folder.path().join("captures")).unwrap();
    let mut capture = open();
    (0..100).for_each(|block| capture.write(&[block as u8 + 1; 512], block * BLOCK).unwrap());
    let mut parent = snapshot(&capture, "snap-0", &objects, None);
    assert_eq!(parent.own_blocks(), 100);
    let noted_changes = |instant: &Instant| instant.changes().map(|(since, set)| (since.to_string(), set.count()));
    for (number, ending) in ["lives", "dies", "closes", "dies while it is pending"].into_iter().enumerate() {
        capture.write(&[0xaa; 512], (7 + number as u64) * BLOCK).unwrap();
        if ending == "closes" {
            capture.close().unwrap();
        }
        if ending != "lives" {
            capture = open();
        }
        let name = format!("snap-{}", number + 1);
        let mut instant = capture.begin(&name).unwrap();
        if ending == "dies while it is pending" {
            drop(instant);
            capture = open();
            instant = capture.instants().pop().unwrap();
        }
        assert_eq!(noted_changes(&instant), Some((format!("snap-{number}"), 1)), "{ending}");
        let manifest = stored(&instant, &name, &objects, Some(&parent));
        instant.finish().unwrap();
        assert_eq!((manifest.own_blocks(), manifest.blocks()), (1, 100), "{ending}");
        let bytes: u64 = objects.list(&format!("segments/{name}/")).unwrap().iter().map(|listed| listed.bytes).sum();
        assert!((BLOCK..BLOCK + 100).contains(&bytes), "{bytes} bytes for one block");
        parent = manifest;
    }
    // Nobody knows what changed: all is read, and one block stored.
    capture.write(&[0xbb; 512], 50 * BLOCK).unwrap();
    std::fs::remove_file(folder.path().join("captures/snap-4.after")).unwrap();
    drop(capture);
    let capture = open();
    let instant = capture.begin("snap-5").unwrap();
    assert_eq!(noted_changes(&instant), None);
    let manifest = stored(&instant, "snap-5", &objects, Some(&parent));
    assert_eq!((manifest.own_blocks(), manifest.blocks()), (1, 100));
}

/// A change set from before a start of the machine is only trusted when it was closed in order.
#[test]
fn after_the_machine_stopped_only_what_was_closed_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = volume(folder.path(), "volume", 4 * BLOCK);
    let open = || Capture::new(file.clone(), folder.path().join("captures")).unwrap();
    let first = open();
    first.begin("snap-0").unwrap().finish().unwrap();
    first.write(&[1; 512], 0).unwrap();
    let instant = first.begin("snap-1").unwrap();
    drop((instant, first));
    // The files are made those of another start of the machine.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    let other_boot = |name: &str| {
        let path = folder.path().join("captures").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(boot.len()).position(|part| part == boot.as_bytes()).unwrap();
        bytes[at] ^= 1;
        let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
        let checksum = crc32c::crc32c(&bytes[20..20 + length]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(path, bytes).unwrap();
    };
    other_boot("snap-1.marks");
    let second = open();
    let instant = second.instants().pop().unwrap();
    let error = instant.check().unwrap_err().to_string();
    assert!(error.contains("the machine stopped") && error.contains("Make the snapshot again"), "{error}");
    instant.finish().unwrap();
    let noted = |capture: &Arc<Capture>, name: &str| {
        let instant = capture.begin(name).unwrap();
        let count = instant.changes().map(|(_, set)| set.count());
        instant.finish().unwrap();
        count
    };
    second.write(&[2; 512], BLOCK).unwrap();
    drop(second);
    other_boot("snap-1.after");
    assert_eq!(noted(&open(), "snap-2"), None, "it may lack what was not flushed");
    let third = open();
    third.write(&[3; 512], BLOCK).unwrap();
    third.close().unwrap();
    drop(third);
    other_boot("snap-2.after");
    assert_eq!(noted(&open(), "snap-3"), Some(1));
    let fourth = open();
    fourth.close().unwrap();
    fourth.write(&[4; 512], 2 * BLOCK).unwrap();
    drop(fourth);
    other_boot("snap-3.after");
    assert_eq!(noted(&open(), "snap-4"), None, "it changed after it was closed");
}

#[test]
fn any_member_of_a_chain_can_be_deleted() {
    for deleted in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let objects = store(folder.path());
        let capture = capture(folder.path(), 6);
        let (mut contents, mut manifests) = (Vec::new(), Vec::<Manifest>::new());
        for number in 0..3u8 {
            capture.write(&[number + 1; BLOCK_BYTES], 0).unwrap();
            capture.write(&[number + 1; 512], (u64::from(number) + 1) * BLOCK).unwrap();
            contents.push(content(&*capture));
            let manifest = snapshot(&capture, &format!("snap-{number}"), &objects, manifests.last());
            manifests.push(manifest);
        }
        let names: Vec<String> = manifests.iter().map(|manifest| manifest.name().to_string()).collect();
        delete_snapshot(&objects, &names[deleted], &names).unwrap();
        assert_eq!(delete_snapshot(&objects, &names[deleted], &names[..0]).unwrap(), 0, "a second time is no error");
        Manifest::load(&objects, &names[deleted]).expect_err("it is gone");
        for remaining in (0..3).filter(|&remaining| remaining != deleted) {
            let restored = restore(folder.path(), &format!("restored-{remaining}"), &Manifest::load(&objects, &names[remaining]).unwrap(), &objects, None);
            assert_eq!(difference(&content(&restored), &contents[remaining]), None, "{remaining} without {deleted}");
        }
        assert_eq!(sweep(&objects, &[]).unwrap(), 0, "a deletion leaves nothing to sweep");
        for remaining in (0..3).filter(|&remaining| remaining != deleted) {
            let others: Vec<String> = names.iter().enumerate().filter(|&(at, _)| at != deleted && at >= remaining).map(|(_, name)| name.clone()).collect();
            delete_snapshot(&objects, &names[remaining], &others).unwrap();
        }
        assert_eq!(objects.list("segments/").unwrap(), [], "the last one takes everything");
    }
}

#[test]
fn what_others_refer_to_stays() {
    let names = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
    let (deleted, others) = (names("a b c d"), [names("x b"), names("d y")]);
    assert_eq!(unreferenced(&deleted, others.iter().map(Vec::as_slice)), ["a", "c"]);
    assert_eq!(unreferenced(&deleted, []), deleted);
}

#[test]
fn a_cancelled_upload_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let blocks = u64::from(SEGMENT_BLOCKS) * 6;
    let capture = capture(folder.path(), blocks);
    (0..blocks).for_each(|block| capture.write(&[1; 512], block * BLOCK).unwrap());
    let instant = capture.begin("snap").unwrap();
    let cancel = AtomicBool::new(false);
    let seen = Mutex::new(Vec::new());
    let progress = |progress: headrace_store::snapshots::Progress| {
        seen.lock().unwrap().push(progress);
        if progress.stored > 0 {
            cancel.store(true, Ordering::SeqCst);
        }
    };
    let error = upload(&instant, &objects, "snap", None, None, &progress, &cancel).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    assert!(seen.lock().unwrap().iter().all(|progress| progress.blocks == blocks && progress.percent() < 100));
    assert_eq!(objects.list("segments/").unwrap(), []);
    assert_eq!(objects.list("manifests/").unwrap(), []);
    instant.finish().unwrap();
}

/// Blocks that an interrupted upload stored are not stored again, and those that nobody goes on
/// with are found.
#[test]
fn an_interrupted_upload_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let blocks = u64::from(SEGMENT_BLOCKS) * 8;
    let capture = capture(folder.path(), blocks);
    (0..blocks).for_each(|block| capture.write(&[1; 512], block * BLOCK).unwrap());
    let expected = content(&*capture);
    let instant = capture.begin("snap").unwrap();
    let ends = crate::faults::EndsEarly::new(objects.clone(), 3);
    upload(&instant, &ends, "snap", None, None, &|_| {}, &AtomicBool::new(false)).expect_err("the line is cut");
    let before = objects.list("segments/").unwrap();
    assert_eq!(before.len(), 3);
    // Blocks that are stored may change without being set aside.
    capture.write(&vec![2; (blocks * BLOCK) as usize], 0).unwrap();
    assert_eq!(sweep(&objects, &["snap".to_string()]).unwrap(), 0, "it is pending");
    let first = Mutex::new(None);
    let progress = |progress: headrace_store::snapshots::Progress| {
        first.lock().unwrap().get_or_insert(progress.stored);
    };
    let manifest = upload(&instant, &objects, "snap", None, None, &progress, &AtomicBool::new(false)).unwrap();
    assert!(first.lock().unwrap().unwrap() >= 3 * u64::from(SEGMENT_BLOCKS), "it begins with what was there");
    let segments = manifest.segments().unwrap();
    assert!(before.iter().all(|listed| segments.contains(&listed.name)));
    assert_eq!(segments.len(), objects.list("segments/").unwrap().len());
    let restored = restore(folder.path(), "restored", &manifest, &objects, None);
    assert_eq!(difference(&content(&restored), &expected), None);

    let instant = capture.begin("snap-2").unwrap();
    let ends = crate::faults::EndsEarly::new(objects.clone(), 2);
    upload(&instant, &ends, "snap-2", None, None, &|_| {}, &AtomicBool::new(false)).expect_err("the line is cut");
    assert_eq!(sweep(&objects, &[]).unwrap(), 2);
    forget_upload(&objects, "snap-2").unwrap();
    Manifest::load(&objects, "snap").expect("nothing else went");
}

#[test]
fn sealed_blocks_are_not_in_the_store_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let objects = memory();
    let capture = capture(folder.path(), 3);
    capture.write(&[0x5a; 2 * BLOCK_BYTES], 0).unwrap();
    let expected = content(&*capture);
    let instant = capture.begin("snap").unwrap();
    let (first, second) = (Arc::new(Toy::new(4)), Arc::new(Toy::new(5)));
    let manifest = upload(&instant, &objects, "snap", None, Some(&*first), &|_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(manifest.key(), "key-4");
    let clear = |objects: &Objects| {
        objects.list("segments/").unwrap().iter().any(|listed| objects.get(&listed.name).unwrap().windows(64).any(|part| part == [0x5a; 64]))
    };
    assert!(!clear(&objects));
    assert!(read_block(&objects, &manifest, 0, None).unwrap_err().to_string().contains("encrypted with key-4"));
    assert!(read_block(&objects, &manifest, 0, Some(&*second)).is_err());
    let restored = restore(folder.path(), "restored", &manifest, &objects, Some(first.clone()));
    assert_eq!(difference(&content(&restored), &expected), None);

    // A copy under another key, and one in the clear, to another store.
    let copies = memory();
    let source = Stored { objects: &objects, manifest: &manifest, cipher: Some(&*first) };
    let copy = upload(&source, &copies, "copy", None, Some(&*second), &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(!clear(&copies));
    let restored = restore(folder.path(), "restored-copy", &copy, &copies, Some(second as Arc<dyn BlockCipher>));
    assert_eq!(difference(&content(&restored), &expected), None);
    // A parent of another key is of no use.
    let open = stored(&source, "open", &copies, Some(&copy));
    assert_eq!((open.key(), open.own_blocks()), ("", 2));
    assert!(clear(&copies));
    assert_eq!(read_block(&copies, &open, 1, None).unwrap().unwrap(), [0x5a; BLOCK_BYTES]);
    assert_eq!(read_block(&copies, &open, 2, None).unwrap(), None);
    // A second upload of the snapshot under the key costs nothing.
    assert_eq!(stored(&source, "again", &copies, Some(&open)).own_blocks(), 0);
}

#[test]
fn differences_of_two_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let objects = memory();
    let capture = capture(folder.path(), 10);
    [1, 2, 4, 7].into_iter().for_each(|block| capture.write(&[1; 512], block * BLOCK).unwrap());
    let first = snapshot(&capture, "first", &objects, None);
    capture.write(&[2; 512], 2 * BLOCK).unwrap();
    capture.discard(4 * BLOCK, BLOCK).unwrap();
    capture.write(&[1; 512], 7 * BLOCK).unwrap();
    capture.write(&[3; 512], 9 * BLOCK).unwrap();
    let second = snapshot(&capture, "second", &objects, Some(&first));
    let changed = |index, in_first, in_second| Changed { index, in_first, in_second };
    let all = [changed(2, true, true), changed(4, true, false), changed(9, false, true)];
    let differing = |first, second, from| changed_blocks(first, second, from).collect::<std::io::Result<Vec<_>>>().unwrap();
    assert_eq!(differing(&first, &second, 0), all);
    assert_eq!(differing(&first, &second, 3), all[1..]);
    assert_eq!(changed_blocks(&second, &second, 0).count(), 0);
    // Two of the same bytes that know nothing of each other do not differ.
    let alone = snapshot(&capture, "alone", &objects, None);
    assert_eq!(changed_blocks(&second, &alone, 0).count(), 0);
    assert_eq!(second.from(3).map(|block| block.unwrap().0).collect::<Vec<_>>(), [7, 9]);
}

#[test]
fn a_snapshot_made_block_by_block() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let build = |name: &str, parent: Option<Manifest>| Builder::open(objects.clone(), name, 6 * BLOCK, parent, None).unwrap();
    let builder = build("first", None);
    builder.put(4, &[4; BLOCK_BYTES]).unwrap();
    builder.put(1, &[9; BLOCK_BYTES]).unwrap();
    builder.put(6, &[1; BLOCK_BYTES]).expect_err("behind the end");
    builder.put(0, &[1; 512]).expect_err("not a block");
    drop(builder);
    assert_eq!(sweep(&objects, &["first".to_string()]).unwrap(), 0);
    let builder = build("first", None);
    assert_eq!(builder.changed_blocks(), 2, "they stay when the process dies");
    builder.put(1, &[1; BLOCK_BYTES]).unwrap();
    assert_eq!(builder.changed_blocks(), 2);
    let first = builder.complete().unwrap();
    let builder = build("second", Some(first.clone()));
    builder.put(4, &[0; BLOCK_BYTES]).unwrap();
    builder.put(5, &[5; BLOCK_BYTES]).unwrap();
    let second = builder.complete().unwrap();
    for (manifest, stamps) in [(&first, [0, 1, 0, 0, 4, 0]), (&second, [0, 1, 0, 0, 0, 5])] {
        let expected: Vec<u8> = stamps.into_iter().flat_map(|stamp| vec![stamp; BLOCK_BYTES]).collect();
        assert_eq!(&Manifest::load(&objects, manifest.name()).unwrap(), manifest);
        let restored = restore(folder.path(), manifest.name(), manifest, &objects, None);
        assert_eq!(difference(&content(&restored), &expected), None);
    }
    assert!(Builder::open(objects.clone(), "small", BLOCK, Some(first), None).is_err(), "its parent is larger");
}

/// A snapshot of a restored volume stores what was written since, and fetches nothing that it does
/// not have to.
#[test]
fn a_snapshot_of_a_restored_volume_is_incremental() {
    let folder = tempfile::tempdir().unwrap();
    let objects = store(folder.path());
    let capture = capture(folder.path(), 64);
    (0..64).for_each(|block| capture.write(&[block as u8 + 1; 512], block * BLOCK).unwrap());
    let origin = snapshot(&capture, "origin", &objects, None);
    let restored = Arc::new(restore(folder.path(), "restored", &origin, &objects, None));
    let child = Capture::of_snapshot(restored.clone(), folder.path().join("child"), "origin").unwrap();
    child.write(&[0xcc; BLOCK_BYTES], 3 * BLOCK).unwrap();
    let manifest = snapshot(&child, "child", &objects, Some(&origin));
    assert_eq!((manifest.own_blocks(), manifest.blocks(), restored.cold_blocks()), (1, 64, 63));
    let again = restore(folder.path(), "again", &manifest, &objects, None);
    assert_eq!(difference(&content(&again), &content(&*child)), None);
}

#[test]
fn names_and_places_that_are_wrong_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["", "/tmp", "http://localhost/x", "file://relative", "file:///a?b", "s3://", "s3://bucket?endpoint=http://192.0.2.1"] {
        let error = Objects::open(url).expect_err(url);
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(url) && error.to_string().len() > url.len() + 20, "{error}");
    }
    let objects = store(folder.path());
    for name in ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/.hidden", "a b", "a\0b", &"x".repeat(600)] {
        assert_eq!(objects.put(name, b"x").unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        objects.get(name).expect_err(name);
        objects.delete(name).expect_err(name);
    }
    let missing = objects.get("manifests/none").unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(missing.to_string().contains("get manifests/none"), "{missing}");
    objects.put("a/b", b"12345").unwrap();
    assert_eq!(objects.get_range("a/b", 1..3).unwrap(), b"23");
    objects.get_range("a/b", 3..9).expect_err("fewer bytes than asked for");
    objects.put("a/b", b"67").unwrap();
    assert_eq!(objects.get("a/b").unwrap(), b"67", "an object is replaced whole");
    objects.delete("a/b").unwrap();
    objects.delete("a/b").expect("one that is gone");
    assert_eq!(objects.list("a/").unwrap(), []);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(folder.path().join("objects")).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "snapshots are the owner's");
}
