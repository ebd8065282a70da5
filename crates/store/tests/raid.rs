//! The bytes of arrays against a plain vector: every level, random requests, members that fail and
//! come back, rebuilds while others write.

use headrace_catalog::RaidLevel;
use headrace_model::array::Layout;
use headrace_store::raid::{MemberData, Raid, REBUILD_STEP};
use headrace_store::{Backing, SparseFile};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: usize = 1 << 20;
const MEMBER: u64 = 2 << 20;

struct Array {
    raid: Raid,
    members: Vec<Arc<dyn Backing>>,
    _folder: tempfile::TempDir,
}

/// Bytes an array of such members holds.
fn usable(level: RaidLevel, members: u64, member_bytes: u64) -> u64 {
    match level {
        RaidLevel::Raid0 => members * member_bytes,
        RaidLevel::Raid1 => member_bytes,
        RaidLevel::Raid5 => (members - 1) * member_bytes,
        RaidLevel::Raid10 | RaidLevel::Raid10F2 => members * member_bytes / 2,
    }
}

fn array(level: RaidLevel, count: usize, chunk: u64, member_bytes: u64) -> Array {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let member = |index: usize| -> Arc<dyn Backing> { Arc::new(SparseFile::create(&folder.path().join(index.to_string()), member_bytes).expect("a file")) };
    let members: Vec<_> = (0..count).map(member).collect();
    let raid = Raid::new(level, Layout::new(level, count, chunk, member_bytes), members.clone(), usable(level, count as u64, member_bytes));
    Array { raid, members, _folder: folder }
}

impl Array {
    fn content(&self) -> std::io::Result<Vec<u8>> {
        let mut all = vec![0xee; self.raid.bytes() as usize];
        self.raid.read(&mut all, 0).map(|()| all)
    }

    /// A member is replaced by an empty one and filled from the others.
    fn rebuild(&self, index: usize) {
        self.raid.empty_member(index).expect("emptied");
        self.raid.set_member(index, MemberData::Rebuilding);
        self.steps(index);
        self.raid.set_member(index, MemberData::Good);
    }

    fn steps(&self, index: usize) {
        for offset in (0..self.raid.member_bytes()).step_by(REBUILD_STEP as usize) {
            self.raid.rebuild_step(index, offset).expect("a step");
        }
    }
}

/// Every level with numbers of members and chunks below, at and above a lock's place (256 KiB).
fn shapes() -> Vec<(RaidLevel, usize, u64)> {
    let levels = [
        (RaidLevel::Raid0, 2),
        (RaidLevel::Raid0, 3),
        (RaidLevel::Raid1, 2),
        (RaidLevel::Raid1, 3),
        (RaidLevel::Raid5, 3),
        (RaidLevel::Raid5, 5),
        (RaidLevel::Raid10, 4),
        (RaidLevel::Raid10, 6),
        (RaidLevel::Raid10F2, 2),
        (RaidLevel::Raid10F2, 3),
        (RaidLevel::Raid10F2, 4),
    ];
    levels.into_iter().flat_map(|(level, members)| [4, 64, 256, 1_024].map(|chunk| (level, members, chunk * KIB))).collect()
}

/// Sets of members whose loss the level survives.
fn survivable(level: RaidLevel, count: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![vec![]];
    if level != RaidLevel::Raid0 {
        sets.extend((0..count).map(|member| vec![member]));
    }
    match level {
        RaidLevel::Raid1 if count > 2 => sets.push((1..count).collect()),
        RaidLevel::Raid10 => sets.push((0..count).step_by(2).collect()),
        RaidLevel::Raid10F2 if count > 3 => sets.push(vec![0, 2]),
        _ => {}
    }
    sets
}

#[derive(Clone, Debug)]
enum Request {
    Write(u64, u64, u8),
    Discard(u64, u64),
    Zero(u64, u64),
    Read(u64, u64),
    Flush,
    /// Number of one of the survivable losses.
    Fail(usize),
    Rebuild,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    // Shares of the array, cut down to it: sizes mostly of some chunks, now and then of all of it.
    // In sectors, as disks are asked.
    let place = || (0u64..1 << 20, prop_oneof![8 => 1u64..1_200, 1 => 1u64..40_000]);
    let request = prop_oneof![
        8 => (place(), 1u8..).prop_map(|((at, sectors), byte)| Request::Write(at, sectors, byte)),
        2 => place().prop_map(|(at, sectors)| Request::Discard(at, sectors)),
        1 => place().prop_map(|(at, sectors)| Request::Zero(at, sectors)),
        3 => place().prop_map(|(at, sectors)| Request::Read(at, sectors)),
        1 => Just(Request::Flush),
        1 => any::<usize>().prop_map(Request::Fail),
        1 => Just(Request::Rebuild),
    ];
    prop::collection::vec(request, 1..30)
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/raid.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn an_array_is_a_vector_of_bytes(shape in prop::sample::select(shapes()), requests in requests()) {
        let (level, count, chunk) = shape;
        let array = array(level, count, chunk, MEMBER);
        let mut naive = vec![0u8; array.raid.bytes() as usize];
        let mut failed: Vec<usize> = Vec::new();
        for request in requests {
            // Places as bytes inside the array.
            let placed = |at: u64, sectors: u64| {
                let all = naive.len() as u64 / 512;
                let at = at % all;
                ((at * 512) as usize, (sectors.min(all - at) * 512) as usize)
            };
            match request {
                Request::Write(at, sectors, byte) => {
                    let (at, bytes) = placed(at, sectors);
                    // Unlike neighbours, so that swapped chunks show.
                    let data: Vec<u8> = (0..bytes).map(|index| byte ^ ((at + index) / 512) as u8).collect();
                    array.raid.write(&data, at as u64).unwrap();
                    naive[at..at + bytes].copy_from_slice(&data);
                }
                Request::Discard(at, sectors) | Request::Zero(at, sectors) => {
                    let (at, bytes) = placed(at, sectors);
                    let is_zero = matches!(request, Request::Zero(..));
                    if is_zero { array.raid.zero(at as u64, bytes as u64) } else { array.raid.discard(at as u64, bytes as u64) }.unwrap();
                    naive[at..at + bytes].fill(0);
                }
                Request::Read(at, sectors) => {
                    let (at, bytes) = placed(at, sectors);
                    let mut buffer = vec![0xee; bytes];
                    array.raid.read(&mut buffer, at as u64).unwrap();
                    prop_assert!(buffer == naive[at..at + bytes], "{:?} at {} + {}", shape, at, bytes);
                }
                Request::Flush => array.raid.flush().unwrap(),
                Request::Fail(which) if failed.is_empty() => {
                    let sets = survivable(level, count);
                    failed = sets[which % sets.len()].clone();
                    failed.iter().for_each(|&member| array.raid.set_member(member, MemberData::Failed));
                }
                Request::Fail(_) => {}
                Request::Rebuild => failed.drain(..).for_each(|member| array.rebuild(member)),
            }
        }
        prop_assert!(array.content().unwrap() == naive, "{:?} with {:?} failed", shape, failed);
        // Whole again, every survivable loss must leave everything readable: copies and parity are
        // right too.
        failed.drain(..).for_each(|member| array.rebuild(member));
        for lost in survivable(level, count) {
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Failed));
            prop_assert!(array.content().unwrap() == naive, "{:?} without {:?}", shape, lost);
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Good));
        }
    }
}

/// Threads write, discard and read regions of their own while a member is rebuilt. Afterwards the
/// rebuilt member alone carries what it must.
#[test]
fn a_rebuild_and_writes_do_not_disturb_each_other() {
    const THREADS: u64 = 4;
    for (level, count, chunk) in [
        (RaidLevel::Raid1, 2, 64 * KIB),
        (RaidLevel::Raid5, 3, 4 * KIB),
        (RaidLevel::Raid5, 4, 1_024 * KIB),
        (RaidLevel::Raid10, 4, 512 * KIB),
        (RaidLevel::Raid10F2, 3, 64 * KIB),
        (RaidLevel::Raid10F2, 2, 1_024 * KIB),
    ] {
        let array = array(level, count, chunk, MEMBER);
        let stop = AtomicBool::new(false);
        let sectors = array.raid.bytes() / 512;
        let naive: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let (array, stop) = (&array, &stop);
            // Sector by sector in turn, so that rows and chunks are shared by all threads.
            let work = move |thread: u64| {
                let mut mine = vec![0u8; (sectors / THREADS) as usize];
                let mut chance = 0x9e37_79b9_7f4a_7c15 * (thread + 1);
                let mut byte = 0u8;
                while !stop.load(Ordering::SeqCst) {
                    chance = u64::wrapping_mul(chance, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let place = (chance >> 33) % mine.len() as u64;
                    let offset = (place * THREADS + thread) * 512;
                    if chance >> 20 & 15 == 0 {
                        array.raid.discard(offset, 512).expect("a discard");
                        mine[place as usize] = 0;
                        continue;
                    }
                    byte = byte.wrapping_add(1).max(1);
                    array.raid.write(&[byte; 512], offset).expect("a write");
                    mine[place as usize] = byte;
                    let mut back = [0; 512];
                    array.raid.read(&mut back, offset).expect("a read");
                    assert_eq!(back, [byte; 512], "{level:?}: what was just written");
                }
                mine
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            for index in 0..count {
                array.raid.set_member(index, MemberData::Failed);
                std::thread::yield_now();
                array.rebuild(index);
            }
            stop.store(true, Ordering::SeqCst);
            threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
        });
        for lost in survivable(level, count) {
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Failed));
            let content = array.content().expect("readable");
            for (sector, bytes) in content.chunks(512).enumerate() {
                let (thread, place) = (sector % THREADS as usize, sector / THREADS as usize);
                let expected = naive[thread].get(place).copied().unwrap_or(0);
                assert!(
                    bytes.iter().all(|&byte| byte == expected),
                    "{level:?} chunk {chunk} without {lost:?}: sector {sector} is {} and not {expected}",
                    bytes[0]
                );
            }
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Good));
        }
    }
}

/// A chunk larger than a lock's place: a write across two places against the rebuild of the second,
/// round after round.
#[test]
fn a_write_across_places_and_a_rebuild_take_turns() {
    const ROUNDS: usize = 4_000;
    const STEP: u64 = REBUILD_STEP as u64;
    for (level, count) in [(RaidLevel::Raid1, 2), (RaidLevel::Raid5, 3)] {
        let array = array(level, count, 1_024 * KIB, MEMBER);
        // The member that holds the second copy, or the parity, of the first chunk.
        let piece = Layout::new(level, count, 1_024 * KIB, MEMBER).pieces(0, 512).remove(0);
        let target = piece.parity.unwrap_or(1);
        array.raid.set_member(target, MemberData::Rebuilding);
        let turn = std::sync::Barrier::new(2);
        let byte_of = |round: usize| (round % 251) as u8 + 1;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    turn.wait();
                    array.raid.rebuild_step(target, STEP).expect("a step");
                    turn.wait();
                }
            });
            let mut back = [0; 512];
            let wrong = (0..ROUNDS).find(|&round| {
                turn.wait();
                array.raid.write(&[byte_of(round); 8_192], STEP - 4_096).expect("a write");
                turn.wait();
                array.members[target].read(&mut back, STEP).expect("a read");
                // The other data of the row is zeros, so the parity is the data.
                back != [byte_of(round); 512]
            });
            if let Some(round) = wrong {
                // The other thread still waits for its turns.
                (round + 1..ROUNDS).for_each(|_| {
                    turn.wait();
                    turn.wait();
                });
            }
            assert_eq!(wrong, None, "{level:?}: the rebuild put back what a write had replaced");
        });
    }
}

#[test]
fn more_losses_than_a_level_survives_are_errors() {
    for (level, count, lost) in [
        (RaidLevel::Raid0, 2, vec![1]),
        (RaidLevel::Raid1, 2, vec![0, 1]),
        (RaidLevel::Raid5, 3, vec![0, 2]),
        (RaidLevel::Raid10, 4, vec![2, 3]),
        (RaidLevel::Raid10F2, 3, vec![2, 0]),
    ] {
        let array = array(level, count, 64 * KIB, MEMBER);
        array.raid.write(&vec![1; MEMBER as usize], 0).unwrap();
        lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Failed));
        assert!(array.content().is_err(), "{level:?}");
        assert!(array.raid.write(&vec![2; array.raid.bytes() as usize], 0).is_err(), "{level:?}");
        assert!(array.raid.discard(0, array.raid.bytes()).is_err(), "{level:?}: small parts");
    }
    let array = array(RaidLevel::Raid0, 2, 64 * KIB, MEMBER);
    assert!(array.raid.rebuild_step(0, 0).is_err(), "there is nothing to rebuild a RAID 0 from");
}

/// A discard frees the space of every level, of RAID 5's parity too, whole and in small parts;
/// zeros keep it.
#[test]
fn discards_free_space() {
    const ROOM: u64 = 64 << 20;
    for (level, count) in [(RaidLevel::Raid0, 2), (RaidLevel::Raid1, 2), (RaidLevel::Raid5, 3), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 3)] {
        let array = array(level, count, 256 * KIB, ROOM);
        let bytes = array.raid.bytes();
        let fill = || (0..bytes >> 20).for_each(|at| array.raid.write(&vec![at as u8 | 1; 1 << 20], at << 20).unwrap());
        fill();
        let full = array.raid.allocated().unwrap();
        assert!(full >= bytes, "{level:?}");
        array.raid.discard(0, bytes).unwrap();
        assert!(array.raid.allocated().unwrap() < full / 50, "{level:?}: {} of {full} left", array.raid.allocated().unwrap());
        assert!(array.content().unwrap().iter().all(|&byte| byte == 0));
        fill();
        (0..bytes / (192 * KIB)).for_each(|part| array.raid.discard(part * 192 * KIB, 192 * KIB).unwrap());
        assert!(array.raid.allocated().unwrap() < full / 50, "{level:?}: {} of {full} left by parts", array.raid.allocated().unwrap());
        array.raid.zero(0, bytes).unwrap();
        assert!(array.raid.allocated().unwrap() >= bytes, "{level:?}: zeros keep their space");
    }
}

/// Discarding terabytes must not go through them chunk by chunk: mkfs does that first of all. The
/// count of requests to the members is what is bounded here, not the time.
#[test]
fn a_discard_of_everything_is_one_request_a_member() {
    struct Counting {
        inner: SparseFile,
        discards: std::sync::atomic::AtomicU64,
    }
    impl Backing for Counting {
        fn bytes(&self) -> u64 {
            self.inner.bytes()
        }
        fn read(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.inner.read(buffer, offset)
        }
        fn write(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
            self.inner.write(data, offset)
        }
        fn flush(&self) -> std::io::Result<()> {
            self.inner.flush()
        }
        fn discard(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
            self.discards.fetch_add(1, Ordering::SeqCst);
            self.inner.discard(offset, bytes)
        }
        fn zero(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
            self.inner.zero(offset, bytes)
        }
        fn grow(&self, bytes: u64) -> std::io::Result<()> {
            self.inner.grow(bytes)
        }
        fn allocated(&self) -> std::io::Result<u64> {
            self.inner.allocated()
        }
    }
    const TIB: u64 = 1 << 40;
    for (level, count) in [(RaidLevel::Raid0, 4), (RaidLevel::Raid1, 2), (RaidLevel::Raid5, 4), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let make = |index: usize| {
            let inner = SparseFile::create(&folder.path().join(index.to_string()), TIB).unwrap();
            Arc::new(Counting { inner, discards: Default::default() })
        };
        let counting: Vec<Arc<Counting>> = (0..count).map(make).collect();
        let members = counting.iter().map(|member| member.clone() as Arc<dyn Backing>).collect();
        let raid = Raid::new(level, Layout::new(level, count, 256 * KIB, TIB), members, usable(level, count as u64, TIB));
        raid.write(&[1; 4_096], 5 << 30).unwrap();
        raid.discard(4_096, raid.bytes() - 8_192).unwrap();
        // Two for the two copies of far layouts, and the chunks of the first and last row.
        let most = counting.iter().map(|member| member.discards.load(Ordering::SeqCst)).max().unwrap();
        assert!(most <= 6, "{level:?}: {most}");
        assert!(raid.allocated().unwrap() < 1 << 20);
    }
}

#[test]
fn a_range_outside_is_refused() {
    for (level, count, chunk) in shapes() {
        let array = array(level, count, chunk, MEMBER);
        let end = array.raid.bytes();
        for offset in [end - 512, end, u64::MAX - 100] {
            let refused = [array.raid.read(&mut [0; 1_024], offset), array.raid.write(&[0; 1_024], offset), array.raid.discard(offset, 1_024)];
            refused.into_iter().for_each(|outcome| assert_eq!(outcome.expect_err("outside").kind(), ErrorKind::InvalidInput, "{level:?}"));
        }
    }
}

#[test]
fn arrays_grow_but_far_ones() {
    for (level, count) in [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 2), (RaidLevel::Raid5, 4), (RaidLevel::Raid10, 4)] {
        let array = array(level, count, 64 * KIB, MEMBER);
        let before = array.raid.bytes();
        let data: Vec<u8> = (0..before).map(|at| (at / 512) as u8 | 1).collect();
        array.raid.write(&data, 0).unwrap();
        array.raid.grow(2 * before).unwrap();
        assert_eq!((array.raid.bytes(), array.members[0].bytes()), (2 * before, 2 * MEMBER), "{level:?}");
        array.raid.write(&vec![9; before as usize], before).unwrap();
        let content = array.content().unwrap();
        assert!(content[..before as usize] == data && content[before as usize..].iter().all(|&byte| byte == 9), "{level:?}");
        assert_eq!(array.raid.grow(before).expect_err("smaller").kind(), ErrorKind::InvalidInput);
    }
    let far = array(RaidLevel::Raid10F2, 2, 64 * KIB, MEMBER);
    assert_eq!(far.raid.grow(8 * MEMBER).expect_err("copies would have to move").kind(), ErrorKind::Unsupported);
}

/// Members of unlike sizes, RAID 0: every byte is where it was written, and a discard or zeros over
/// all of it, or over the border of two zones, clear just that range. Deterministic places: each
/// zone, each border, and the whole array, for chunks below and above a lock's place.
#[test]
fn raid0_of_unlike_members_against_a_vector() {
    let sizes = [5 * MEMBER, MEMBER, 3 * MEMBER];
    let total: u64 = sizes.iter().sum();
    // Zones end at 3 x 1 and 3 + 2 x 2 members' worth.
    let borders = [0, 3 * MEMBER, 7 * MEMBER, total];
    for chunk in [4 * KIB, 64 * KIB, 1_024 * KIB] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let member = |(index, &bytes): (usize, &u64)| -> Arc<dyn Backing> {
            Arc::new(SparseFile::create(&folder.path().join(index.to_string()), bytes).expect("a file"))
        };
        let members: Vec<_> = sizes.iter().enumerate().map(member).collect();
        let raid = Raid::new(RaidLevel::Raid0, Layout::of_sizes(RaidLevel::Raid0, &sizes, chunk), members, total);
        let mut plain: Vec<u8> = (0..total).map(|at| (at / 512 % 251 + 1) as u8).collect();
        raid.write(&plain, 0).expect("written");
        let check = |plain: &[u8], what: &str| {
            let mut all = vec![0xee; total as usize];
            raid.read(&mut all, 0).expect("read");
            assert!(all == plain, "{what}, chunk {chunk}");
        };
        check(&plain, "written whole");
        for (index, border) in borders.into_iter().enumerate() {
            let (from, to) = (border.saturating_sub(MEMBER + 3 * 512), (border + MEMBER / 2 + 5 * 512).min(total));
            if index % 2 == 0 {
                raid.discard(from, to - from).expect("discarded");
            } else {
                raid.zero(from, to - from).expect("zeroed");
            }
            plain[from as usize..to as usize].fill(0);
            check(&plain, "cleared at a border");
        }
        raid.discard(0, total).expect("discarded");
        plain.fill(0);
        check(&plain, "discarded whole");
    }
}

/// A member that fails some requests with a full disk.
struct Failing {
    inner: Arc<dyn Backing>,
    /// Writes and discards that still succeed; then each fails.
    remaining: AtomicU64,
}

impl Failing {
    fn change(&self) -> std::io::Result<()> {
        let had = self.remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1));
        had.map(drop).map_err(|_| std::io::Error::new(ErrorKind::StorageFull, "no space left on device"))
    }
}

impl Backing for Failing {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
    fn read(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.inner.read(buffer, offset)
    }
    fn write(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        self.change()?;
        self.inner.write(data, offset)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        self.change()?;
        self.inner.discard(offset, bytes)
    }
    fn zero(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        self.change()?;
        self.inner.zero(offset, bytes)
    }
    fn grow(&self, bytes: u64) -> std::io::Result<()> {
        self.inner.grow(bytes)
    }
    fn allocated(&self) -> std::io::Result<u64> {
        self.inner.allocated()
    }
    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        self.inner.may_hold_data(offset, bytes)
    }
}

/// A write whose data were stored and whose parity was not is made again when there is room: then
/// the parity is that of the data, for this member and for the others.
#[test]
fn a_write_that_failed_half_way_leaves_no_wrong_parity() {
    let shape = array(RaidLevel::Raid5, 3, 64 * KIB, MEMBER);
    let failing: Vec<Arc<Failing>> =
        shape.members.iter().map(|inner| Arc::new(Failing { inner: inner.clone(), remaining: AtomicU64::new(u64::MAX) })).collect();
    let members: Vec<Arc<dyn Backing>> = failing.iter().map(|member| member.clone() as Arc<dyn Backing>).collect();
    let layout = Layout::new(RaidLevel::Raid5, 3, 64 * KIB, MEMBER);
    let piece = layout.pieces(0, 4_096).remove(0);
    let (data, parity) = (piece.copies[0].0, piece.parity.expect("a parity"));
    let raid = Raid::new(RaidLevel::Raid5, layout, members, 2 * MEMBER);
    // The neighbour in the row, on the third member, was stored long before.
    raid.write(&[7; 8_192], 64 * KIB).expect("written");
    failing[parity].remaining.store(0, Ordering::SeqCst);
    assert_eq!(raid.write(&[1; 8_192], 0).expect_err("no room").kind(), ErrorKind::StorageFull);
    assert!(raid.resync_step().is_err() && raid.is_dirty(), "there is no room yet");
    failing[parity].remaining.store(u64::MAX, Ordering::SeqCst);
    // A part of it again, before anything was put right.
    raid.write(&[1; 4_096], 0).expect("there is room");
    raid.flush().expect("flushed");
    let mut back = [0; 4_096];
    raid.set_member(data, MemberData::Failed);
    raid.read(&mut back, 0).expect("from the parity");
    assert_eq!(back, [1; 4_096], "what was written and flushed");
    assert!(!raid.resync_step().expect("without a member") && raid.is_dirty(), "the parity is all that is known of it");
    raid.set_member(data, MemberData::Good);
    while raid.resync_step().expect("a step") {}
    assert!(!raid.is_dirty());
    raid.set_member(3 - data - parity, MemberData::Failed);
    let mut back = [0; 8_192];
    raid.read(&mut back, 64 * KIB).expect("from the parity");
    assert_eq!(back, [7; 8_192], "what the third member had");
}

/// Writes that an end cut off, as other bytes on members behind the array's back; then writes while
/// it is resynced. The array reads as before, whatever member is lost.
#[test]
fn a_resync_makes_copies_and_parity_equal_while_the_array_is_in_use() {
    for (level, count, chunk) in shapes().into_iter().filter(|(level, ..)| *level != RaidLevel::Raid0) {
        let array = array(level, count, chunk, MEMBER);
        let mut chance = 0x9e37_79b9_7f4a_7c15u64 ^ chunk;
        let mut draw = |below: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % below
        };
        let sectors = array.raid.bytes() / 512;
        for _ in 0..200 {
            let (place, byte) = (draw(sectors), draw(255) as u8 + 1);
            array.raid.write(&vec![byte; (512 * (1 + draw(20))).min(array.raid.bytes() - place * 512) as usize], place * 512).expect("written");
        }
        for _ in 0..100 {
            let (member, place) = (draw(count as u64) as usize, draw(MEMBER / 512));
            array.members[member].write(&[draw(256) as u8; 512], place * 512).expect("written");
        }
        array.raid.mark_dirty();
        let mut steps = 0;
        loop {
            let more = array.raid.resync_step().expect("a step");
            if !more {
                break;
            }
            steps += 1;
            array.raid.write(&[draw(256) as u8; 512], draw(sectors) * 512).expect("written");
            array.raid.discard(draw(sectors) * 512, 512).expect("discarded");
        }
        assert!(steps > 1 && !array.raid.is_dirty(), "{level:?} chunk {chunk}: {steps} steps");
        let expected = array.content().expect("readable");
        for lost in survivable(level, count) {
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Failed));
            assert!(array.content().expect("readable") == expected, "{level:?} chunk {chunk} without {lost:?}");
            lost.iter().for_each(|&member| array.raid.set_member(member, MemberData::Good));
        }
    }
}

/// Terabytes of which a MiB was written take as many steps as that has.
#[test]
fn a_resync_goes_through_what_was_written() {
    const TIB: u64 = 1 << 40;
    for (level, count) in [(RaidLevel::Raid1, 2), (RaidLevel::Raid5, 4), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 4)] {
        let array = array(level, count, 256 * KIB, TIB);
        array.raid.write(&vec![1; MIB], (TIB / 3) >> 20 << 20).expect("written");
        array.raid.mark_dirty();
        let mut steps = 0u64;
        while array.raid.resync_step().expect("a step") {
            steps += 1;
        }
        // Written parts are known by the MiB, of each member.
        let most = 2 * count as u64 * (1 << 20) / u64::from(REBUILD_STEP);
        assert!((1..=most).contains(&steps), "{level:?}: {steps} steps");
    }
}
