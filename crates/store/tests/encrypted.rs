//! An encrypted backing against a plain array of bytes: random reads, writes, discards and zeros at
//! any offset, and what the file holds meanwhile.

use headrace_store::encrypted::DATA_KEY_BYTES;
use headrace_store::{Backing, Encrypted, SectorCipher, SparseFile};
use proptest::prelude::*;
use std::sync::Arc;

const BYTES: usize = 64 << 10;
const KEY: [u8; DATA_KEY_BYTES] = [0x5a; DATA_KEY_BYTES];

#[derive(Clone, Debug)]
enum Act {
    Write(usize, usize, u8),
    Discard(usize, usize),
    Zero(usize, usize),
    Read(usize, usize),
    Reopen,
}

/// Whole sectors half of the time, as a device asks; else any range.
fn range() -> impl Strategy<Value = (usize, usize)> {
    let any = (0..BYTES).prop_flat_map(|from| (Just(from), 0..=(BYTES - from).min(3_000)));
    let sectors = (0..BYTES / 512).prop_flat_map(|from| (Just(from * 512), (0..=(BYTES / 512 - from).min(40)).prop_map(|sectors| sectors * 512)));
    prop_oneof![any, sectors]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (range(), any::<u8>()).prop_map(|((from, bytes), fill)| Act::Write(from, bytes, fill)),
        2 => range().prop_map(|(from, bytes)| Act::Discard(from, bytes)),
        2 => range().prop_map(|(from, bytes)| Act::Zero(from, bytes)),
        6 => range().prop_map(|(from, bytes)| Act::Read(from, bytes)),
        1 => Just(Act::Reopen),
    ]
}

fn open(file: Arc<SparseFile>, key: [u8; DATA_KEY_BYTES], member: u32) -> Encrypted {
    Encrypted::new(file, Arc::new(SectorCipher::new(&key)), member)
}

proptest! {
    #[test]
    fn it_reads_what_a_plain_array_has(acts in prop::collection::vec(act(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(SparseFile::create(&folder.path().join("data"), BYTES as u64).unwrap());
        let mut volume = open(file.clone(), KEY, 3);
        let mut plain = vec![0u8; BYTES];
        for act in acts {
            match act {
                Act::Write(from, bytes, fill) => {
                    let data: Vec<u8> = (0..bytes).map(|index| fill.wrapping_add(index as u8)).collect();
                    volume.write(&data, from as u64).unwrap();
                    plain[from..from + bytes].copy_from_slice(&data);
                }
                Act::Discard(from, bytes) => {
                    volume.discard(from as u64, bytes as u64).unwrap();
                    plain[from..from + bytes].fill(0);
                }
                Act::Zero(from, bytes) => {
                    volume.zero(from as u64, bytes as u64).unwrap();
                    plain[from..from + bytes].fill(0);
                }
                Act::Read(from, bytes) => {
                    let mut read = vec![1u8; bytes];
                    volume.read(&mut read, from as u64).unwrap();
                    prop_assert_eq!(&read, &plain[from..from + bytes]);
                }
                Act::Reopen => volume = open(file.clone(), KEY, 3),
            }
        }
        let mut read = vec![0u8; BYTES];
        volume.read(&mut read, 0).unwrap();
        prop_assert_eq!(&read, &plain);
        // On the disk: no sector of data is there as it is, and none that has only zeros is made up.
        let mut sealed = vec![0u8; BYTES];
        file.read(&mut sealed, 0).unwrap();
        for (sealed, plain) in sealed.chunks(512).zip(plain.chunks(512)) {
            prop_assert!(sealed.iter().all(|&byte| byte == 0) && plain.iter().all(|&byte| byte == 0) || sealed != plain);
        }
        // With another key, or as another member, what was written is not there.
        let written = plain.iter().any(|&byte| byte != 0);
        let mut other = KEY;
        other[0] ^= 1;
        for wrong in [open(file.clone(), other, 3), open(file.clone(), KEY, 2)] {
            wrong.read(&mut read, 0).unwrap();
            prop_assert!(!written || read != plain);
        }
    }
}

#[test]
fn a_hole_takes_no_space_and_an_error_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(SparseFile::create(&folder.path().join("data"), 1 << 30).unwrap());
    let volume = open(file, KEY, 0);
    let mut read = vec![1u8; 1 << 20];
    volume.read(&mut read, 512 << 20).unwrap();
    assert!(read.iter().all(|&byte| byte == 0));
    assert_eq!(volume.allocated().unwrap(), 0);
    volume.write(&vec![9; 4 << 20], 4 << 20).unwrap();
    volume.discard(4 << 20, 4 << 20).unwrap();
    volume.flush().unwrap();
    // A file system needs less than a megabyte for itself after a punched hole.
    assert!(volume.allocated().unwrap() < 1 << 20);
    for (offset, bytes) in [((1 << 30) - 1, 2), (1 << 30, 1), (u64::MAX, 1)] {
        assert!(volume.read(&mut vec![0; bytes], offset).is_err() && volume.write(&vec![0; bytes], offset).is_err());
        assert!(volume.discard(offset, bytes as u64).is_err() && volume.zero(offset, bytes as u64).is_err());
    }
    volume.grow(2 << 30).unwrap();
    volume.write(&[1, 2, 3], (1 << 30) - 1).unwrap();
    let mut three = [0; 3];
    volume.read(&mut three, (1 << 30) - 1).unwrap();
    assert_eq!(three, [1, 2, 3]);
}

/// Threads that change different bytes of the same sectors lose nothing.
#[test]
fn parts_of_a_sector_from_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(SparseFile::create(&folder.path().join("data"), 8_192).unwrap());
    let volume = Arc::new(open(file, KEY, 0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let volume = volume.clone();
            scope.spawn(move || (0..2_048 / 4).for_each(|index| volume.write(&[thread as u8 + 1], index * 16 + thread).unwrap()));
        }
    });
    let mut read = vec![0; 8_192];
    volume.read(&mut read, 0).unwrap();
    assert!((0..8_192).all(|at| read[at] == if at % 16 < 4 { (at % 16) as u8 + 1 } else { 0 }));
}
