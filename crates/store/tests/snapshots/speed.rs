//! Figures, not promises: `cargo test --release -p headrace-store --test snapshots -- --ignored
//! --nocapture speed`, with `HEADRACE_SPEED_MIB` for another size and `TMPDIR` for another disk.

use crate::support::{content, difference, restore, store, volume, BLOCK};
use headrace_store::snapshots::{initialize_all, upload, Capture};
use headrace_store::Backing;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant as Clock};

fn mib() -> u64 {
    std::env::var("HEADRACE_SPEED_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1_024)
}

fn fill(volume: &dyn Backing) {
    let mut data = vec![0u8; 1 << 20];
    let mut state = 1u64;
    for at in 0..volume.bytes() >> 20 {
        for word in data.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_le_bytes());
        }
        volume.write(&data, at << 20).unwrap();
    }
    volume.flush().unwrap();
}

/// Time of processors that this process took: says more than the clock on a machine that does other
/// things.
fn processors() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Copies a file as `cp` and `sync` do, and returns the time it took.
fn copy(from: &Path, to: &Path) -> Duration {
    let clock = Clock::now();
    let (mut from, mut to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let mut data = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut data).unwrap();
        if read == 0 {
            break;
        }
        to.write_all(&data[..read]).unwrap();
    }
    to.sync_all().unwrap();
    clock.elapsed()
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * percent / 100]
}

#[test]
#[ignore = "prints figures"]
fn speed_of_a_full_snapshot_and_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let file = volume(folder.path(), "volume", mib() << 20);
    fill(&*file);
    let capture = Capture::new(file, folder.path().join("captures")).unwrap();
    let objects = store(folder.path());
    for round in 0..3 {
        let start = processors();
        let copied = copy(&folder.path().join("volume"), &folder.path().join("copy"));
        std::fs::remove_file(folder.path().join("copy")).unwrap();
        let name = format!("snap-{round}");
        let instant = capture.begin(&name).unwrap();
        let (clock, between) = (Clock::now(), processors());
        let manifest = upload(&instant, &objects, &name, None, None, &|_| {}, &AtomicBool::new(false)).unwrap();
        let stored = clock.elapsed();
        println!("processors: copy {:?}, snapshot {:?}", between - start, processors() - between);
        instant.finish().unwrap();
        let rate = |took: Duration| mib() as f64 / took.as_secs_f64();
        println!("copy {:.0} MiB/s, snapshot {:.0} MiB/s: {:.0} %", rate(copied), rate(stored), 100.0 * rate(stored) / rate(copied));
        let clock = Clock::now();
        let restored = restore(folder.path(), &format!("restored-{round}"), &manifest, &objects, None);
        let opened = clock.elapsed();
        restored.read(&mut [0; 4_096], (mib() << 20) / 2).unwrap();
        let first = clock.elapsed();
        initialize_all(&restored, 4, &|_| true).unwrap();
        println!("restored: usable after {opened:?}, first read after {first:?}, whole at {:.0} MiB/s", rate(clock.elapsed()));
        if round == 0 && mib() <= 1_024 {
            assert_eq!(difference(&content(&restored), &content(&*capture)), None);
        }
        drop(restored);
        std::fs::remove_file(folder.path().join(format!("restored-{round}"))).unwrap();
        headrace_store::snapshots::delete_snapshot(&objects, &name, &[]).unwrap();
    }
}

/// Random writes and reads of 16 KiB, 2,000 a second by each of two threads, without a snapshot and
/// during one.
#[test]
#[ignore = "prints figures"]
fn speed_of_the_foreground_during_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let file = volume(folder.path(), "volume", mib() << 20);
    fill(&*file);
    let capture = Capture::new(file, folder.path().join("captures")).unwrap();
    let objects = store(folder.path());
    let (stop, during) = (AtomicBool::new(false), AtomicBool::new(false));
    let times: Mutex<[Vec<Duration>; 2]> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (capture, stop, during, times) = (&capture, &stop, &during, &times);
            scope.spawn(move || {
                let mut state = thread + 77;
                let mut data = vec![7; 16 << 10];
                let mut own: [Vec<Duration>; 2] = Default::default();
                let begin = Clock::now();
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let due = begin + Duration::from_micros(500) * number;
                    std::thread::sleep(due.saturating_duration_since(Clock::now()));
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 20) % (capture.bytes() / 16_384) * 16_384;
                    let clock = Clock::now();
                    if state >> 63 == 0 {
                        capture.write(&data, at).unwrap();
                    } else {
                        capture.read(&mut data, at).unwrap();
                    }
                    own[usize::from(during.load(Ordering::SeqCst))].push(clock.elapsed());
                }
                let mut times = times.lock().unwrap();
                times.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
            });
        }
        for round in 0..3 {
            std::thread::sleep(Duration::from_secs(4));
            let name = format!("snap-{round}");
            let instant = capture.begin(&name).unwrap();
            during.store(true, Ordering::SeqCst);
            let clock = Clock::now();
            upload(&instant, &objects, &name, None, None, &|_| {}, &AtomicBool::new(false)).unwrap();
            println!("{} blocks in {:?}", (mib() << 20) / BLOCK, clock.elapsed());
            instant.finish().unwrap();
            during.store(false, Ordering::SeqCst);
            headrace_store::snapshots::delete_snapshot(&objects, &name, &[]).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    for (when, times) in ["before", "during"].into_iter().zip(times.lock().unwrap().iter_mut()) {
        let [p50, p99, p999] =
            [500, 990, 999].map(|part| percentile(times, part / 10).max(if part == 999 { times[times.len() * 999 / 1_000] } else { Duration::ZERO }));
        println!("{when}: {} I/Os, p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}", times.len());
    }
}
