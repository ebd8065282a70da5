//! One model, two clocks: what a real device (FUSE, loop device, wall clock) decided is decided
//! again on the virtual clock, equal to the nanosecond. For every volume type, for arrays of every
//! level, with an instance shared by two volumes, with changes in between.

#[path = "../../device/tests/common/mod.rs"]
mod common;

use common::{host, saved, Aligned, Attached, Chance, Lab};
use headrace_catalog::Catalog;
use headrace_device::Devices;
use headrace_model::rates::Degradation;
use headrace_model::rates::VolumeModification;
use headrace_model::record::{Frame, HostChange, SavedHost};
use headrace_model::{Cap, Io, ModelOptions, Nanos, Op};
use headrace_sim::replay::{replay, ReplayError, Replayed};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const SECTOR: u64 = 512;
const THREADS: u64 = 6;
/// Time for which a real device is loaded.
const LOAD_FOR: Duration = Duration::from_millis(1_200);

fn replayed(path: &Path) -> Replayed {
    let file = std::fs::File::open(path).expect("the record");
    replay(file, &mut |_| true).expect("a record that can be replayed")
}

fn frames(path: &Path) -> Vec<Frame> {
    let bytes = std::fs::read(path).expect("the record");
    let (_, mut at) = SavedHost::decode(&bytes).expect("a record").expect("a whole header");
    let mut decoded = Vec::new();
    while let Some((frame, used)) = Frame::decode(&bytes[at..]).expect("a frame") {
        decoded.push(frame);
        at += used;
    }
    decoded
}

/// Random direct reads and writes of 512 bytes to 256 KiB, a third of them one behind the other,
/// from some threads at once. Requests that fail are part of it.
fn load(volume: &Attached, seed: u64, threads: u64, lasting: Duration) {
    let until = Instant::now() + lasting;
    let span = volume.volume.backing.bytes().min(4 << 30);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let file = volume.direct();
            scope.spawn(move || {
                let (mut chance, mut buffer, mut next) = (Chance(seed * 31 + thread + 1), Aligned::new(), 0);
                while Instant::now() < until {
                    let bytes = (SECTOR << chance.below(10)) as usize;
                    let offset = if chance.below(3) == 0 && next + bytes as u64 <= span { next } else { chance.below((span - bytes as u64) / SECTOR) * SECTOR };
                    next = offset + bytes as u64;
                    let _ = match chance.below(2) {
                        0 => file.read_exact_at(&mut buffer.0[..bytes], offset),
                        _ => file.write_all_at(&buffer.0[..bytes], offset),
                    };
                }
            });
        }
    });
}

/// Whole, equal, and with every answer's lateness in it.
fn assert_equal(result: &Replayed, recorded: u64, least: u64) {
    assert_eq!(result.first_difference, None, "{}", result.first_difference.as_ref().map_or(String::new(), ToString::to_string));
    assert_eq!((result.equal, result.requests), (recorded, recorded));
    assert!(recorded >= least, "only {recorded} requests: the load did not run");
    assert!(!result.cut_tail);
    // Requests that are under way when a record begins are answered in it, those under way when it
    // ends are not: at most a queue each.
    let under_way = 4 * 128;
    assert!(result.lateness.answers.abs_diff(recorded) <= under_way, "{} answers for {recorded} requests", result.lateness.answers);
    let late = &result.lateness;
    assert!(late.p50_ns <= late.p90_ns && late.p90_ns <= late.p99_ns && late.p99_ns <= late.p99_9_ns && late.p99_9_ns <= late.max_ns, "{late:?}");
    assert_eq!(late.histogram.iter().map(|bucket| bucket.1).sum::<u64>(), late.answers);
}

/// Records a load on one storage and replays it. `changes` are made while it runs.
fn on_a_real_device(spec: &str, seed: u64, least: u64, prepare: &[HostChange], changes: &dyn Fn(&Devices)) -> Vec<Frame> {
    let mut lab = Lab::new(None);
    let volume = lab.attach_saved(&saved(spec, &ModelOptions::default(), seed), None);
    prepare.iter().for_each(|change| {
        lab.devices.change(change);
    });
    let path = lab.folder.path().join("record");
    lab.devices.record(&path).expect("a record");
    let loaded = std::thread::scope(|scope| {
        let running = scope.spawn(|| load(&volume, seed, THREADS, LOAD_FOR));
        changes(&lab.devices);
        running.join()
    });
    loaded.expect("the load");
    let (_, outcome) = lab.devices.stop_recording().expect("it was recording");
    let recorded = outcome.expect("all was written");
    let result = replayed(&path);
    println!(
        "{spec}: {recorded} requests, {} changes, late p50 {} p99 {} max {} ns",
        result.changes, result.lateness.p50_ns, result.lateness.p99_ns, result.lateness.max_ns
    );
    assert_equal(&result, recorded, least);
    frames(&path)
}

fn caps(frames: &[Frame]) -> Vec<Cap> {
    let caps = frames.iter().filter_map(|frame| if let Frame::Request { decision, .. } = frame { Some(decision.cap) } else { None });
    caps.collect()
}

fn no_changes(_: &Devices) {}

#[test]
fn gp2_that_runs_dry() {
    // 0.005 % of 5.4 M credits are 270: some tenths of a second at what is left of the burst.
    let dry = [HostChange::Balance { device: 0, member: None, percent: 0.005 }];
    let frames = on_a_real_device("gp2:10", 1, 200, &dry, &no_changes);
    assert!(caps(&frames).contains(&Cap::VolumeCredits), "it never ran dry");
}

#[test]
fn gp3() {
    on_a_real_device("gp3:20", 2, 1_000, &[], &no_changes);
}

#[test]
fn io1() {
    on_a_real_device("io1:20:1000", 3, 1_000, &[], &no_changes);
}

#[test]
fn io2() {
    on_a_real_device("io2:20:5000", 4, 1_000, &[], &no_changes);
}

#[test]
fn io2_block_express() {
    on_a_real_device("io2-block-express:20:5000", 5, 1_000, &[], &no_changes);
}

#[test]
fn st1() {
    // At 1 MiB each, with the first second's saved-up bytes: some 60 requests.
    let frames = on_a_real_device("st1:125", 6, 20, &[], &no_changes);
    assert!(caps(&frames).contains(&Cap::VolumeThroughput));
}

#[test]
fn sc1_with_few_credits() {
    let dry = [HostChange::Balance { device: 0, member: None, percent: 0.0 }];
    let frames = on_a_real_device("sc1:125", 7, 5, &dry, &no_changes);
    assert!(caps(&frames).contains(&Cap::VolumeCredits));
}

#[test]
fn standard() {
    on_a_real_device("standard:20", 8, 50, &[], &no_changes);
}

#[test]
fn instance_store() {
    on_a_real_device("instance-store:75", 9, 1_000, &[], &no_changes);
}

fn fail_and_recover(devices: &Devices) {
    let pause = || std::thread::sleep(LOAD_FOR / 6);
    pause();
    devices.change(&HostChange::Failed { device: 0, member: 1, failed: true });
    pause();
    let now = devices.clock.now();
    let event = Degradation { from: now, until: now + Nanos::from_secs(60), caps_per_mille: 100, extra_latency: Nanos::from_micros(700) };
    devices.change(&HostChange::Degrade { device: 0, member: 0, event });
    // Requests of a rebuild to one member alone.
    (0..20).for_each(|at| {
        devices.decide_member(0, 1, Io { op: Op::Write, offset: at << 18, bytes: 256 << 10 });
        devices.decide_member(0, 0, Io { op: Op::Read, offset: at << 18, bytes: 256 << 10 });
    });
    pause();
    devices.change(&HostChange::Recover { device: 0, member: 0 });
    devices.change(&HostChange::Failed { device: 0, member: 1, failed: false });
}

#[test]
fn raid0() {
    on_a_real_device("2xgp3:10", 10, 500, &[], &no_changes);
}

#[test]
fn raid1_with_a_member_that_fails() {
    on_a_real_device("raid1:2xgp2:10", 11, 500, &[], &fail_and_recover);
}

#[test]
fn raid5_with_a_member_that_fails() {
    on_a_real_device("raid5:4xgp3:10", 12, 200, &[], &fail_and_recover);
}

#[test]
fn raid10_with_a_member_that_fails() {
    on_a_real_device("raid10:4xgp3:10@64k", 13, 500, &[], &fail_and_recover);
}

#[test]
fn raid10f2_with_a_member_that_fails() {
    on_a_real_device("raid10f2:3xio2:10:1000", 14, 200, &[], &fail_and_recover);
}

#[test]
fn changes_in_between() {
    let limits = |spec: &str| Catalog::embedded().volume_limits(&spec.parse().expect("a volume"), common::day(), None).expect("limits");
    let changes = |devices: &Devices| {
        for step in 0..8u64 {
            std::thread::sleep(LOAD_FOR / 12);
            let now = devices.clock.now();
            let soon = |millis: u64| now + Nanos::from_micros(millis * 1_000);
            devices.change(&match step % 4 {
                0 => HostChange::Balance { device: 0, member: Some(0), percent: 0.01 + step as f64 },
                1 => HostChange::Degrade {
                    device: 0,
                    member: 0,
                    event: Degradation { from: soon(10), until: soon(60), caps_per_mille: 300, extra_latency: Nanos::from_micros(200) },
                },
                // The first one is over before the second is asked for: modifying, optimizing and
                // completed all pass under load.
                2 => HostChange::Modify {
                    device: 0,
                    targets: vec![VolumeModification {
                        target: limits(if step < 4 { "gp3:20:6000:300" } else { "gp2:40" }),
                        modifying_until: soon(20),
                        optimizing_until: soon(90),
                    }],
                },
                _ => HostChange::Recover { device: 0, member: 0 },
            });
            devices.is_modifying(0);
        }
    };
    let frames = on_a_real_device("gp2:20", 15, 500, &[], &changes);
    assert_eq!(frames.iter().filter(|frame| matches!(frame, Frame::Change { .. })).count(), 8);
}

/// Limits of an instance.
const INSTANCE_CAPS: [Cap; 3] = [Cap::InstanceCredits, Cap::InstanceIops, Cap::InstanceThroughput];

#[test]
fn an_instance_shared_by_two_volumes() {
    let mut lab = Lab::new(Some("m5.large"));
    let first = lab.attach("gp3:100:16000:1000");
    let second = lab.attach("io2:100:20000");
    // Burst buckets nearly empty: the baseline of 3,600 IOPS binds both.
    lab.devices.change(&HostChange::InstanceBalance { percent: 0.001 });
    let path = lab.folder.path().join("record");
    lab.devices.record(&path).expect("a record");
    std::thread::scope(|scope| {
        scope.spawn(|| load(&first, 21, THREADS, LOAD_FOR));
        scope.spawn(|| load(&second, 22, THREADS, LOAD_FOR));
        // On a busy machine the threads may ask for less than the instance gives: requests of 256 KiB
        // that nobody waits for, at most twelve times what its 81 MiB/s let through in the saved second
        // and the next, meet its limit however slow the machine is.
        let large = Io { op: Op::Read, offset: 0, bytes: 262_144 };
        let met = (0..8_000).any(|_| INSTANCE_CAPS.contains(&lab.devices.decide(0, large).1.cap));
        assert!(met, "the instance never bound");
        std::thread::sleep(LOAD_FOR / 2);
        lab.devices.change(&HostChange::InstanceBalance { percent: 50.0 });
        std::thread::sleep(LOAD_FOR / 4);
        lab.devices.set_instance(Some(&Catalog::embedded().instance("m5.xlarge", common::day()).expect("an instance")));
    });
    let (_, outcome) = lab.devices.stop_recording().expect("it was recording");
    let recorded = outcome.expect("all was written");
    let result = replayed(&path);
    assert_equal(&result, recorded, 1_000);
    assert_eq!(result.changes, 2);
    assert!(caps(&frames(&path)).iter().any(|cap| INSTANCE_CAPS.contains(cap)), "the record has no request that the instance delayed");
    let devices = frames(&path).iter().filter(|frame| matches!(frame, Frame::Request { device: 1, .. })).count();
    assert!(devices > 100, "only {devices} requests to the second volume");
}

/// A record that begins in the middle of a life, on a host saved and made again before.
#[test]
fn a_record_after_a_restart() {
    let first = Devices::new(&host(Some("m5.large")));
    first.put(&saved("gp2:10", &ModelOptions::default(), 3)).expect("a free device number");
    let mut chance = Chance(5);
    let io = |chance: &mut Chance| Io { op: if chance.below(2) == 0 { Op::Read } else { Op::Write }, offset: chance.below(1 << 20) * SECTOR, bytes: 16_384 };
    (0..20_000).for_each(|_| {
        first.decide(0, io(&mut chance));
    });
    let second = Devices::new(&first.saved());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record");
    (0..100).for_each(|_| {
        second.decide(0, io(&mut chance));
    });
    second.record(&path).expect("a record");
    assert!(second.record(&folder.path().join("other")).expect_err("one at a time").to_string().contains("record"));
    assert!(!folder.path().join("other").exists());
    (0..5_000).for_each(|_| {
        second.decide(0, io(&mut chance));
        second.late(chance.below(100_000));
    });
    assert_eq!(second.stop_recording().expect("running").1.expect("written"), 5_000);
    assert_equal(&replayed(&path), 5_000, 5_000);
    assert!(second.record(&path).is_err(), "a record is not written over");
}

#[test]
fn a_difference_is_found_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record");
    let devices = Devices::new(&host(None));
    devices.put(&saved("gp3:10", &ModelOptions::default(), 3)).expect("a free device number");
    devices.record(&path).expect("a record");
    (0..100).for_each(|at| {
        devices.decide(0, Io { op: Op::Read, offset: at * 4_096, bytes: 4_096 });
    });
    devices.stop_recording().expect("running").1.expect("written");
    let mut bytes = std::fs::read(&path).expect("the record");
    // The last byte but seven of the 43rd request from the end is the lowest of its completion.
    let place = bytes.len() - 42 * 43 - 8;
    bytes[place] ^= 1;
    let result = replay(&bytes[..], &mut |_| true).expect("still a record");
    assert_eq!((result.requests, result.equal), (100, 99));
    let difference = result.first_difference.expect("one");
    assert_eq!(difference.request, 58);
    assert!(difference.to_string().contains("complete"), "{difference}");
}

/// Threads ask while another makes changes, without devices: the order in the record is the order
/// of the decisions.
#[test]
fn a_record_of_many_threads() {
    for seed in 1..=8u64 {
        let devices = Devices::new(&host((seed % 2 == 0).then_some("m5.large")));
        let specs = ["gp2:10", "raid5:3xgp3:10", "st1:125", "raid10f2:3xio2:10:1000", "2xgp2:10", "raid1:2xsc1:125", "io1:20:1000", "raid10:4xgp3:10@64k"];
        for at in 0..3 {
            devices.put(&saved(specs[(seed + at) as usize % specs.len()], &ModelOptions::default(), seed * 7 + at)).expect("a free device number");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record");
        devices.record(&path).expect("a record");
        let (threads, each) = (4, 4_000);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let devices = &devices;
                scope.spawn(move || {
                    let mut chance = Chance(seed * 100 + thread);
                    for _ in 0..each {
                        let op = if chance.below(2) == 0 { Op::Read } else { Op::Write };
                        let io = Io { op, offset: chance.below(1 << 22) * SECTOR, bytes: (SECTOR << chance.below(12)) as u32 };
                        match chance.below(16) {
                            0 => drop(devices.decide_member(chance.below(3) as usize, 0, io)),
                            _ => drop(devices.decide(chance.below(3) as usize, io)),
                        }
                    }
                });
            }
            let mut chance = Chance(seed);
            for step in 0..40 {
                let device = chance.below(3) as usize;
                devices.change(&match step % 5 {
                    0 => HostChange::Balance { device, member: None, percent: chance.below(1_000) as f64 / 70.0 },
                    1 => HostChange::Failed { device, member: 1, failed: true },
                    2 => HostChange::InstanceBalance { percent: chance.below(100) as f64 / 3.0 },
                    3 => HostChange::Failed { device, member: 1, failed: false },
                    _ => HostChange::Put { device, saved: Box::new(saved(specs[chance.below(8) as usize], &ModelOptions::default(), step)) },
                });
                devices.saved();
                std::thread::yield_now();
            }
        });
        let recorded = devices.stop_recording().expect("running").1.expect("written");
        let result = replayed(&path);
        assert_eq!((result.first_difference, result.requests, result.equal, result.changes), (None, recorded, recorded, 40), "seed {seed}");
        assert_eq!(recorded, threads * each, "seed {seed}: every storage here has a first member");
        assert_eq!(result.lateness.answers, 0);
    }
}

/// A small record, as bytes.
fn small() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record");
    let devices = Devices::new(&host(Some("m5.large")));
    devices.put(&saved("raid5:3xgp2:10", &ModelOptions::default(), 3)).expect("a free device number");
    devices.record(&path).expect("a record");
    for at in 0..60 {
        devices.decide(0, Io { op: if at % 3 == 0 { Op::Write } else { Op::Read }, offset: at * 60_416, bytes: 16_384 });
        devices.late(at * 1_000);
        if at % 20 == 0 {
            devices.change(&HostChange::Balance { device: 0, member: None, percent: at as f64 });
        }
    }
    devices.stop_recording().expect("running").1.expect("written");
    std::fs::read(&path).expect("the record")
}

#[test]
fn lateness_is_summed_up() {
    let result = replay(&small()[..], &mut |_| true).expect("a record");
    let late = &result.lateness;
    // 0, 1, ... 59 us: the 30th, 54th and 60th of them by rank, each at most 0.1 % above.
    for (actual, exact) in [(late.p50_ns, 29_000), (late.p90_ns, 53_000), (late.p99_ns, 59_000), (late.p99_9_ns, 59_000), (late.max_ns, 59_000)] {
        assert!((exact..=exact + exact / 1_000 + 1).contains(&actual), "{actual} for {exact}");
    }
    assert_eq!(late.answers, 60);
    assert_eq!(late.histogram, [(1_000, 2), (2_000, 1), (5_000, 3), (10_000, 5), (20_000, 10), (50_000, 30), (100_000, 9)]);
    assert_eq!((result.changes, result.cut_tail), (3, false));
}

/// Wherever its writer was killed, what was whole is replayed.
#[test]
fn a_cut_tail_is_fine_and_said() {
    let bytes = small();
    let (_, header) = SavedHost::decode(&bytes).expect("a record").expect("a header");
    let mut ends = vec![header];
    while let Some((_, used)) = Frame::decode(&bytes[*ends.last().expect("one")..]).expect("a frame") {
        ends.push(ends.last().expect("one") + used);
    }
    for cut in (header..bytes.len()).step_by(7).chain(ends.clone()) {
        let result = replay(&bytes[..cut], &mut |_| true).expect("still a record");
        assert_eq!((result.first_difference, result.requests), (None, result.equal));
        assert_eq!(result.cut_tail, !ends.contains(&cut), "cut at {cut}");
    }
    for cut in (0..header).step_by(13) {
        let error = replay(&bytes[..cut], &mut |_| true).expect_err("no header").to_string();
        assert!(error.contains("before the state of the host"), "{error}");
    }
}

/// A damaged file gives words or a difference, never a panic, and never equality if a decision was
/// changed.
#[test]
fn damage_is_said_and_never_a_panic() {
    let bytes = small();
    let (mut refused, mut differing) = (0, 0);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        match replay(&damaged[..], &mut |_| true) {
            Err(error) => {
                assert!(matches!(error, ReplayError::Damaged { .. }) && error.to_string().starts_with("byte "), "{error}");
                refused += 1;
            }
            Ok(result) if result.equal < result.requests => differing += 1,
            // A length that is too large looks like a cut file; no verdict depends on how late an
            // answer was.
            Ok(_) => {}
        }
    }
    assert!(refused > 1_000 && differing > 500, "{refused} refused, {differing} differing");
    let refusal = |bytes: &[u8]| replay(bytes, &mut |_| true).expect_err("no record").to_string();
    assert!(refusal(b"").contains("byte 0"));
    assert!(refusal(b"#!/bin/sh").contains("version 1"));
    // A request from before the one before it; one for a device that is not there.
    let decision = headrace_model::Decision { start: Nanos(1), complete: Nanos(2), cap: Cap::None, verdict: headrace_model::Verdict::Ok };
    let io = Io { op: Op::Read, offset: 0, bytes: 512 };
    for (device, member, now, io, words) in [
        (0, None, 1, io, "does not follow"),
        (0, None, u64::MAX, io, "does not follow"),
        (1, None, 1 << 40, io, "no such device"),
        (0, Some(3), 1 << 40, io, "no such device"),
        (0, None, 1 << 40, Io { offset: u64::MAX - 5, ..io }, "no volume is that large"),
    ] {
        let mut longer = bytes.clone();
        Frame::Request { device, member, now: Nanos(now), io, decision }.encode(&mut longer);
        let error = refusal(&longer);
        assert!(error.contains(words) && error.contains(&format!("byte {}", bytes.len())), "{error}");
    }
}

#[test]
fn it_stops_when_asked_and_passes_read_errors_on() {
    assert!(matches!(replay(&small()[..], &mut |_| false), Err(ReplayError::Interrupted)));
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let error = replay(Broken, &mut |_| true).expect_err("broken");
    assert!(matches!(&error, ReplayError::Read(_)) && error.to_string().contains("the disk is gone"), "{error}");
}
