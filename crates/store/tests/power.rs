//! A power cut against a naive model: what is there afterwards is what was flushed, and of the
//! writes since then, in order, some whole, some torn, some not at all.

use headrace_store::power::CutReport;
use headrace_store::{Backing, PowerCut, SparseFile};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

const SECTOR: usize = 512;
const SECTORS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Write { sector: usize, sectors: usize },
    Discard { sector: usize, sectors: usize },
    Zero { sector: usize, sectors: usize },
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..SECTORS, 1usize..=5).prop_map(|(sector, sectors)| (sector, sectors.min(SECTORS - sector)));
    let step = prop_oneof![
        6 => place().prop_map(|(sector, sectors)| Step::Write { sector, sectors }),
        1 => place().prop_map(|(sector, sectors)| Step::Discard { sector, sectors }),
        1 => place().prop_map(|(sector, sectors)| Step::Zero { sector, sectors }),
        2 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..16)
}

struct Fixture {
    _folder: tempfile::TempDir,
    power: PowerCut,
}

fn make(bytes: u64) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = SparseFile::create(&folder.path().join("data"), bytes).expect("a new file");
    Fixture { power: PowerCut::new(Arc::new(file)), _folder: folder }
}

fn content(backing: &dyn Backing) -> Vec<u8> {
    let mut all = vec![0xee; backing.bytes() as usize];
    backing.read(&mut all, 0).expect("a read of everything");
    all
}

/// A sector as the number of the write that filled it: every write here fills its sectors with its
/// own number.
type Stamps = Vec<u8>;

fn stamps(content: &[u8]) -> Stamps {
    content.chunks(SECTOR).map(|sector| if sector.iter().all(|&byte| byte == sector[0]) { sector[0] } else { 0xff }).collect()
}

/// Makes the steps on the real thing; what was flushed last, and what came since: (first sector,
/// sectors, stamp).
fn run(power: &PowerCut, steps: &[Step]) -> (Stamps, Vec<(usize, usize, u8)>) {
    let mut now: Stamps = vec![0; SECTORS];
    let (mut flushed, mut since) = (now.clone(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let (sector, sectors, stamp) = match *step {
            Step::Flush => {
                power.flush().unwrap();
                flushed = now.clone();
                since.clear();
                continue;
            }
            Step::Write { sector, sectors } => (sector, sectors, number as u8 + 1),
            Step::Discard { sector, sectors } | Step::Zero { sector, sectors } => (sector, sectors, 0),
        };
        let (offset, bytes) = ((sector * SECTOR) as u64, sectors * SECTOR);
        match step {
            Step::Write { .. } => power.write(&vec![stamp; bytes], offset).unwrap(),
            Step::Discard { .. } => power.discard(offset, bytes as u64).unwrap(),
            _ => power.zero(offset, bytes as u64).unwrap(),
        }
        now[sector..sector + sectors].fill(stamp);
        since.push((sector, sectors, stamp));
    }
    assert_eq!(stamps(&content(power)), now, "before the cut everything is there");
    (flushed, since)
}

/// Returns true if some choice of fates leads from `state` to `end` with these numbers of lost and
/// torn writes.
fn reachable(state: &Stamps, since: &[(usize, usize, u8)], end: &Stamps, lost: u64, torn: u64) -> bool {
    let Some((&(sector, sectors, stamp), rest)) = since.split_first() else { return state == end && lost == 0 && torn == 0 };
    (0..=sectors).any(|survived| {
        let (is_lost, is_torn) = (u64::from(survived == 0), u64::from(survived > 0 && survived < sectors));
        if lost < is_lost || torn < is_torn {
            return false;
        }
        let mut next = state.clone();
        next[sector..sector + survived].fill(stamp);
        // Sectors that no later write touches must be those of the end: cuts the search short.
        let settled = (0..SECTORS).all(|at| next[at] == end[at] || rest.iter().any(|&(first, count, _)| (first..first + count).contains(&at)));
        settled && reachable(&next, rest, end, lost - is_lost, torn - is_torn)
    })
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/power.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn a_cut_leaves_what_was_flushed_and_some_of_the_rest_in_order(steps in steps(), seed in any::<u64>()) {
        let fixture = make((SECTORS * SECTOR) as u64);
        fixture.power.arm().unwrap();
        let (flushed, since) = run(&fixture.power, &steps);
        let report = fixture.power.cut(seed).unwrap();
        prop_assert!(!fixture.power.is_armed());
        prop_assert_eq!(report.unflushed, since.len() as u64);
        let end = stamps(&content(&fixture.power));
        prop_assert!(reachable(&flushed, &since, &end, report.lost, report.torn), "{:?} and {:?} lead to {:?}, {:?}", flushed, since, end, report);

        // Equal seeds and steps end equally.
        let again = make((SECTORS * SECTOR) as u64);
        again.power.arm().unwrap();
        run(&again.power, &steps);
        prop_assert_eq!(again.power.cut(seed).unwrap(), report);
        prop_assert_eq!(content(&again.power), content(&fixture.power));
    }

    #[test]
    fn a_cut_that_is_taken_back_loses_nothing(steps in steps(), seed in any::<u64>()) {
        let fixture = make((SECTORS * SECTOR) as u64);
        fixture.power.arm().unwrap();
        run(&fixture.power, &steps);
        let before = content(&fixture.power);
        fixture.power.disarm();
        prop_assert!(!fixture.power.is_armed());
        // Writes that came while it was armed are out of the reach of a cut, also of a later one.
        prop_assert_eq!(fixture.power.cut(seed).unwrap(), CutReport::default());
        fixture.power.arm().unwrap();
        prop_assert_eq!(fixture.power.cut(seed).unwrap(), CutReport::default());
        prop_assert_eq!(content(&fixture.power), before);
    }
}

#[test]
fn every_fate_happens() {
    let fixture = make(64 << 10);
    let mut sum = CutReport::default();
    for seed in 0..30 {
        fixture.power.arm().unwrap();
        (0..10).for_each(|at| fixture.power.write(&[1; 4_096], at * 4_096).unwrap());
        let report = fixture.power.cut(seed).unwrap();
        sum = CutReport { unflushed: sum.unflushed + report.unflushed, lost: sum.lost + report.lost, torn: sum.torn + report.torn };
    }
    // A third each of 300: 100, with a standard deviation of sqrt(300 x 1/3 x 2/3) = 8.2; 4 of them
    // are 33.
    assert_eq!(sum.unflushed, 300);
    assert!((67..=133).contains(&sum.lost) && (67..=133).contains(&sum.torn), "{sum:?}");
}

#[test]
fn a_write_of_one_sector_is_never_torn() {
    let fixture = make(64 << 10);
    for seed in 0..20 {
        fixture.power.arm().unwrap();
        (0..10).for_each(|at| fixture.power.write(&[seed as u8; SECTOR], at * SECTOR as u64).unwrap());
        assert_eq!(fixture.power.cut(seed).unwrap().torn, 0);
    }
}

#[test]
fn nothing_is_lost_before_it_is_armed_nor_by_a_second_cut() {
    let fixture = make(64 << 10);
    fixture.power.write(&[1; 4_096], 0).unwrap();
    assert_eq!(fixture.power.cut(1).unwrap(), CutReport::default());
    fixture.power.arm().unwrap();
    assert_eq!(fixture.power.cut(2).unwrap(), CutReport::default(), "what was written before it was armed is safe");
    fixture.power.write(&[2; 4_096], 4_096).unwrap();
    assert_eq!(fixture.power.cut(3).unwrap(), CutReport::default(), "a cut disarms");
    assert_eq!(content(&fixture.power)[..8_192], [[1; 4_096], [2; 4_096]].concat());
}

/// A write that cannot be set aside is flushed first: it can no longer be lost, and memory stays
/// bounded.
#[test]
fn more_than_can_be_set_aside_is_safe() {
    let fixture = make(2 << 30);
    fixture.power.arm().unwrap();
    fixture.power.write(&[1; 4_096], 0).unwrap();
    fixture.power.discard(1 << 20, 1 << 30).unwrap();
    fixture.power.write(&[2; SECTOR], 8_192).unwrap();
    let report = fixture.power.cut(5).unwrap();
    assert_eq!(report.unflushed, 1, "only what came after the large one");
    let mut first = [0; 4_096];
    fixture.power.read(&mut first, 0).unwrap();
    assert_eq!(first, [1; 4_096]);
}

#[test]
fn a_range_outside_is_refused_while_armed_too() {
    let fixture = make(1 << 20);
    fixture.power.arm().unwrap();
    fixture.power.write(&[1; 1_024], (1 << 20) - 512).expect_err("outside");
    fixture.power.discard(u64::MAX - 3, 1 << 20).expect_err("outside");
    assert_eq!(fixture.power.cut(1).unwrap().unflushed, 0);
}

#[test]
fn it_passes_sizes_and_growth_through() {
    let fixture = make(1 << 20);
    fixture.power.arm().unwrap();
    fixture.power.grow(2 << 20).unwrap();
    assert_eq!(fixture.power.bytes(), 2 << 20);
    fixture.power.write(&[1; 512], (2 << 20) - 512).unwrap();
    assert!(fixture.power.allocated().unwrap() > 0);
    fixture.power.flush().unwrap();
    assert_eq!(fixture.power.cut(1).unwrap().unflushed, 0);
    assert_eq!(content(&fixture.power)[(2 << 20) - 512..], [1; 512]);
}

/// Threads write and flush while the power goes: what a thread had flushed before it is there. Each
/// counts a flush only when the power was still on after it, as a device does that fails what it
/// cannot promise.
#[test]
fn nothing_flushed_is_lost_under_threads() {
    const THREADS: u64 = 4;
    const BLOCKS: u64 = 2_000;
    for seed in 0..4 {
        let fixture = make(THREADS * BLOCKS * 1_024);
        fixture.power.arm().unwrap();
        let off = AtomicBool::new(false);
        let flushes = AtomicU64::new(0);
        let flushed: Vec<u64> = std::thread::scope(|scope| {
            let work = |thread: u64| {
                let mut safe = 0;
                for block in 0..BLOCKS {
                    if off.load(Ordering::SeqCst) {
                        break;
                    }
                    fixture.power.write(&[block as u8 | 1; 1_024], (thread * BLOCKS + block) * 1_024).unwrap();
                    if block % 7 == thread {
                        fixture.power.flush().unwrap();
                        flushes.fetch_add(1, Ordering::SeqCst);
                        if !off.load(Ordering::SeqCst) {
                            safe = block + 1;
                        }
                    }
                }
                safe
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            while flushes.load(Ordering::SeqCst) < 20 + 10 * seed {
                std::thread::yield_now();
            }
            off.store(true, Ordering::SeqCst);
            fixture.power.cut(seed).unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let end = content(&fixture.power);
        for (thread, &safe) in flushed.iter().enumerate() {
            for block in 0..safe {
                let at = ((thread as u64 * BLOCKS + block) * 1_024) as usize;
                assert_eq!(end[at..at + 1_024], [block as u8 | 1; 1_024], "seed {seed}, thread {thread}, block {block} of {safe}");
            }
        }
        assert!(flushed.iter().sum::<u64>() > 0);
    }
}
