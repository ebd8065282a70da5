//! Rebuilds over members whose changes and flushes fail now and then: what counts as rebuilt is on
//! the disk, all of it.

use headrace_catalog::RaidLevel;
use headrace_daemon::engine::faulting::{fill_member, RebuildStep};
use headrace_model::array::Layout;
use headrace_store::raid::{MemberData, Raid, REBUILD_STEP};
use headrace_store::{within, Backing};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

const CHUNK: u64 = 64 << 10;
/// Four steps and a half, in whole chunks; so are its halves.
const MEMBER: u64 = 4 * REBUILD_STEP as u64 + 2 * CHUNK;

/// A disk under its cache. A flush that fails drops what it should have written, as the kernel does.
#[derive(Default)]
struct Disk {
    cached: Vec<u8>,
    stable: Vec<u8>,
    /// True for each of the next changes and flushes that is to fail.
    failures: VecDeque<bool>,
}

impl Disk {
    /// Fails where the next change or flush is to fail.
    fn pass(&mut self) -> io::Result<()> {
        match self.failures.pop_front() {
            Some(true) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            _ => Ok(()),
        }
    }
}

struct Member(Mutex<Disk>);

impl Member {
    fn disk<R>(&self, act: impl FnOnce(&mut Disk) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }

    fn fill(&self, byte: u8, offset: u64, bytes: u64) -> io::Result<()> {
        self.write(&vec![byte; bytes as usize], offset)
    }
}

impl Backing for Member {
    fn bytes(&self) -> u64 {
        MEMBER
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        within(MEMBER, offset, buffer.len() as u64)?;
        self.disk(|disk| buffer.copy_from_slice(&disk.cached[offset as usize..][..buffer.len()]));
        Ok(())
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(MEMBER, offset, data.len() as u64)?;
        self.disk(|disk| {
            disk.pass()?;
            disk.cached[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.disk(|disk| match disk.pass() {
            Ok(()) => {
                disk.stable.clone_from(&disk.cached);
                Ok(())
            }
            Err(error) => {
                disk.cached.clone_from(&disk.stable);
                Err(error)
            }
        })
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.fill(0, offset, bytes)
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.fill(0, offset, bytes)
    }

    fn grow(&self, _bytes: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(MEMBER)
    }
}

/// An array with data in three of five chunks.
fn array(level: RaidLevel, count: usize) -> (Raid, Vec<Arc<Member>>) {
    let empty = || Disk { cached: vec![0; MEMBER as usize], stable: vec![0; MEMBER as usize], ..Disk::default() };
    let members: Vec<Arc<Member>> = (0..count).map(|_| Arc::new(Member(Mutex::new(empty())))).collect();
    let backings = members.iter().map(|member| member.clone() as Arc<dyn Backing>).collect();
    let bytes = match level {
        RaidLevel::Raid1 => MEMBER,
        RaidLevel::Raid5 => (count as u64 - 1) * MEMBER,
        _ => count as u64 * MEMBER / 2,
    };
    let raid = Raid::new(level, Layout::new(level, count, CHUNK, MEMBER), backings, bytes);
    for offset in (0..bytes).step_by(5 * CHUNK as usize) {
        let data: Vec<u8> = (offset..bytes.min(offset + 3 * CHUNK)).map(|at| (at / 512 % 251) as u8 | 1).collect();
        raid.write(&data, offset).expect("written");
    }
    raid.flush().expect("flushed");
    (raid, members)
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/rebuild.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(cases) }
}

fn shape() -> impl Strategy<Value = (RaidLevel, usize)> {
    prop::sample::select(vec![(RaidLevel::Raid1, 2), (RaidLevel::Raid1, 3), (RaidLevel::Raid5, 3), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 3)])
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_member_that_is_filled_is_on_the_disk(shape in shape(), lost in any::<prop::sample::Index>(), failures in prop::collection::vec(any::<bool>(), 0..40)) {
        let (level, count) = shape;
        let lost = lost.index(count);
        let (raid, members) = array(level, count);
        let before = members[lost].disk(|disk| disk.stable.clone());
        raid.set_member(lost, MemberData::Rebuilding);
        raid.empty_member(lost).unwrap();
        raid.flush().unwrap();
        prop_assert!(members[lost].disk(|disk| disk.stable.iter().all(|&byte| byte == 0)));

        members[lost].disk(|disk| disk.failures = failures.iter().copied().collect());
        let mut failed = 0;
        let is_filled = fill_member(&raid, lost, |step| {
            failed += usize::from(matches!(step, RebuildStep::Failed(_)));
            true
        });
        prop_assert!(is_filled);
        let used = failures.len() - members[lost].disk(|disk| disk.failures.len());
        prop_assert_eq!(failed, failures[..used].iter().filter(|&&fails| fails).count());
        prop_assert!(members[lost].disk(|disk| disk.stable == before), "{:?}, member {}", level, lost);
    }

    #[test]
    fn it_ends_when_it_is_told_to(shape in shape(), most in 1usize..8, fails in any::<bool>()) {
        let (level, count) = shape;
        let (raid, members) = array(level, count);
        raid.set_member(0, MemberData::Rebuilding);
        members[0].disk(|disk| disk.failures = vec![fails; 1_000].into());
        let mut steps = 0;
        let is_filled = fill_member(&raid, 0, |_| {
            steps += 1;
            steps < most
        });
        // Five steps fill it, if none fails.
        prop_assert_eq!((is_filled, steps), if !fails && most > 5 { (true, 5) } else { (false, most) });
    }
}
