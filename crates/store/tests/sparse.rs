//! A sparse file: space, sizes, refusals, and random requests against a plain vector of bytes.

use headrace_store::{Backing, SparseFile};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
/// Space that a file system may need for a file's own book-keeping: far below the megabytes written
/// here.
const BOOKS: u64 = 128 << 10;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

fn fresh(bytes: u64) -> (tempfile::TempDir, PathBuf, SparseFile) {
    let folder = folder();
    let path = folder.path().join("data");
    let file = SparseFile::create(&path, bytes).expect("a new file");
    (folder, path, file)
}

fn read(file: &dyn Backing, offset: u64, bytes: usize) -> Vec<u8> {
    // Filled with something else, so that a read that does nothing shows.
    let mut buffer = vec![0xee; bytes];
    file.read(&mut buffer, offset).expect("a read inside the file");
    buffer
}

#[test]
fn space_is_taken_when_written_and_given_back_when_discarded() {
    let (_folder, path, file) = fresh(10 << 30);
    assert!(file.allocated().unwrap() <= BOOKS, "an empty file takes {}", file.allocated().unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 10 << 30);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "readable by its owner alone");
    file.write(&vec![7; 4 * MIB as usize], 5 << 30).unwrap();
    file.flush().unwrap();
    assert!((4 * MIB..4 * MIB + BOOKS).contains(&file.allocated().unwrap()), "{}", file.allocated().unwrap());
    file.discard(5 << 30, 3 * MIB).unwrap();
    assert!((MIB..MIB + BOOKS).contains(&file.allocated().unwrap()), "{}", file.allocated().unwrap());
    assert_eq!(read(&file, 5 << 30, 512), [0; 512]);
    assert_eq!(read(&file, (5 << 30) + 3 * MIB, 512), [7; 512]);
}

/// A file knows its unwritten parts again when it is opened again, with a byte here and there on
/// both sides of a MiB.
#[test]
fn what_was_written_is_found_again() {
    let (_folder, path, file) = fresh(100 * MIB);
    let places = [0, 5 * MIB - 1, 64 * MIB, 99 * MIB + 4_095, 100 * MIB - 1];
    places.iter().for_each(|&place| file.write(&[7], place).unwrap());
    drop(file);
    let file = SparseFile::open(&path, 100 * MIB).unwrap();
    let all = read(&file, 0, 100 * MIB as usize);
    let actual: Vec<u64> = all.iter().enumerate().filter(|(_, &byte)| byte != 0).map(|(place, _)| place as u64).collect();
    assert_eq!(actual, places);
    places.iter().for_each(|&place| assert_eq!(read(&file, place, 1), [7]));
    file.grow(200 * MIB).unwrap();
    assert_eq!(read(&file, 150 * MIB, 512), [0; 512]);
    file.write(&[9; 512], 150 * MIB).unwrap();
    assert_eq!(read(&file, 150 * MIB, 512), [9; 512]);
}

#[test]
fn zeros_keep_their_space() {
    let (_folder, _, file) = fresh(16 * MIB);
    file.write(&vec![7; 4 * MIB as usize], 0).unwrap();
    file.zero(0, 4 * MIB).unwrap();
    assert!(file.allocated().unwrap() >= 4 * MIB, "{}", file.allocated().unwrap());
    assert!(read(&file, 0, 4 * MIB as usize).iter().all(|&byte| byte == 0));
    // Zeros where nothing was take space too: a later write there cannot fail for want of it.
    file.zero(8 * MIB, MIB).unwrap();
    assert!(file.allocated().unwrap() >= 5 * MIB, "{}", file.allocated().unwrap());
}

#[test]
fn a_range_outside_is_refused_by_every_request() {
    let (_folder, _, file) = fresh(MIB);
    let mut buffer = [0; 1_024];
    for offset in [MIB - 1_023, MIB, 7 * MIB, u64::MAX - 1_023, u64::MAX] {
        let outcomes = [file.read(&mut buffer, offset), file.write(&buffer, offset), file.discard(offset, 1_024), file.zero(offset, 1_024)];
        for outcome in outcomes {
            let error = outcome.expect_err("outside");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&offset.to_string()) && error.to_string().contains(&MIB.to_string()), "{error}");
        }
    }
    assert_eq!(file.bytes(), MIB);
    for nothing in [file.read(&mut [], MIB), file.write(&[], MIB), file.discard(MIB, 0), file.zero(MIB, 0)] {
        nothing.expect("nothing at the end is inside");
    }
}

#[test]
fn it_grows_and_never_shrinks() {
    let (_folder, path, file) = fresh(MIB);
    file.write(&[3; 512], MIB - 512).unwrap();
    file.grow(3 * MIB).unwrap();
    assert_eq!((file.bytes(), std::fs::metadata(&path).unwrap().len()), (3 * MIB, 3 * MIB));
    assert_eq!(read(&file, MIB, 512), [0; 512]);
    file.write(&[4; 512], 3 * MIB - 512).unwrap();
    let error = file.grow(2 * MIB).expect_err("smaller");
    assert!(error.to_string().contains("never shrinks"), "{error}");
    assert_eq!(read(&file, 3 * MIB - 512, 512), [4; 512]);
    file.grow(3 * MIB).expect("its own size is no change");
    drop(file);
    let again = SparseFile::open(&path, 3 * MIB).unwrap();
    assert_eq!(read(&again, MIB - 512, 512), [3; 512]);
}

#[test]
fn one_user_at_a_time() {
    let (_folder, path, file) = fresh(MIB);
    let error = SparseFile::open(&path, MIB).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("in use"), "{error}");
    drop(file);
    SparseFile::open(&path, MIB).expect("free again");
}

#[test]
fn a_new_file_replaces_nothing_and_leaves_nothing_when_it_fails() {
    let (folder, path, file) = fresh(MIB);
    file.write(&[9; 512], 0).unwrap();
    assert_eq!(SparseFile::create(&path, MIB).expect_err("exists").kind(), ErrorKind::AlreadyExists);
    assert_eq!(read(&file, 0, 512), [9; 512]);
    // Larger than any file may be.
    let huge = folder.path().join("huge");
    SparseFile::create(&huge, u64::MAX / 2 + 1).expect_err("no file is so large");
    assert!(!huge.exists(), "an empty file stayed behind");
    assert_eq!(SparseFile::create(&folder.path().join("none/data"), MIB).expect_err("no folder").kind(), ErrorKind::NotFound);
}

#[test]
fn a_missing_or_cut_file_is_said() {
    let (_folder, path, file) = fresh(2 * MIB);
    drop(file);
    assert_eq!(SparseFile::open(&path.with_extension("none"), MIB).expect_err("missing").kind(), ErrorKind::NotFound);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(MIB + 1).unwrap();
    let error = SparseFile::open(&path, 2 * MIB).expect_err("cut");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("1048577") && error.to_string().contains("2097152"), "{error}");
}

/// A crash between growing the file and noting it leaves it longer than the volume; what lies
/// behind the end must neither be shown nor come back.
#[test]
fn what_lies_behind_the_end_does_not_come_back() {
    let (_folder, path, file) = fresh(MIB);
    drop(file);
    let mut longer = OpenOptions::new().append(true).open(&path).unwrap();
    longer.write_all(&[0x55; 8_192]).unwrap();
    let file = SparseFile::open(&path, MIB).unwrap();
    assert_eq!(file.bytes(), MIB);
    file.read(&mut [0; 512], MIB).expect_err("behind the end");
    file.grow(2 * MIB).unwrap();
    assert!(read(&file, MIB, MIB as usize).iter().all(|&byte| byte == 0));
}

/// The file cut under its user: reads of what was written say so instead of making up zeros.
#[test]
fn a_file_cut_while_in_use_is_an_error() {
    let (_folder, path, file) = fresh(MIB);
    file.write(&[7; 512], MIB / 2).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(4_096).unwrap();
    assert_eq!(file.read(&mut [0; 512], MIB / 2).expect_err("gone").kind(), ErrorKind::UnexpectedEof);
}

#[derive(Clone, Debug)]
enum Request {
    Read(u64, usize),
    Write(u64, usize, u8),
    Discard(u64, u64),
    Zero(u64, u64),
    Flush,
    Grow(u64),
    Reopen,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let place = || (0u64..40_000, 0u64..20_000);
    let request = prop_oneof![
        4 => place().prop_map(|(at, bytes)| Request::Read(at, bytes as usize)),
        5 => (place(), 1u8..).prop_map(|((at, bytes), byte)| Request::Write(at, bytes as usize, byte)),
        2 => place().prop_map(|(at, bytes)| Request::Discard(at, bytes)),
        2 => place().prop_map(|(at, bytes)| Request::Zero(at, bytes)),
        1 => Just(Request::Flush),
        1 => (0u64..5_000).prop_map(Request::Grow),
        1 => Just(Request::Reopen),
    ];
    proptest::collection::vec(request, 1..40)
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/sparse.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn it_is_a_vector_of_bytes(requests in requests()) {
        let (_folder, path, mut file) = fresh(40_000);
        let mut naive = vec![0u8; 40_000];
        for request in requests {
            let fits = |at: u64, bytes: u64| at + bytes <= naive.len() as u64;
            match request {
                Request::Read(at, bytes) => {
                    let mut buffer = vec![0xee; bytes];
                    prop_assert_eq!(file.read(&mut buffer, at).is_ok(), fits(at, bytes as u64));
                    if fits(at, bytes as u64) {
                        prop_assert_eq!(&buffer[..], &naive[at as usize..][..bytes]);
                    }
                }
                Request::Write(at, bytes, byte) => {
                    prop_assert_eq!(file.write(&vec![byte; bytes], at).is_ok(), fits(at, bytes as u64));
                    if fits(at, bytes as u64) {
                        naive[at as usize..][..bytes].fill(byte);
                    }
                }
                Request::Discard(at, bytes) | Request::Zero(at, bytes) => {
                    let done = if matches!(request, Request::Zero(..)) { file.zero(at, bytes) } else { file.discard(at, bytes) };
                    prop_assert_eq!(done.is_ok(), fits(at, bytes));
                    if fits(at, bytes) {
                        naive[at as usize..][..bytes as usize].fill(0);
                    }
                }
                Request::Flush => file.flush().unwrap(),
                Request::Grow(more) => {
                    naive.resize(naive.len() + more as usize, 0);
                    file.grow(naive.len() as u64).unwrap();
                }
                Request::Reopen => {
                    drop(file);
                    file = SparseFile::open(&path, naive.len() as u64).unwrap();
                }
            }
        }
        prop_assert_eq!(read(&file, 0, naive.len()), naive);
    }
}
