//! Block devices for real: FUSE, loop device, direct I/O. Bytes, sizes of requests, flush, discard,
//! growth, faults, and taking everything down again.

mod common;
mod huge;

use common::{direct, outcome, pattern, run, saved, wait_for, Aligned, Lab, MIB};
use headrace_device::devices::Pace;
use headrace_device::fault_injector::{Fault, FaultKind};
use headrace_device::{loopdev, probe, AttachedVolume};
use headrace_model::record::{Frame, SavedHost};
use headrace_model::{Io, ModelOptions, Nanos, Op};
use headrace_store::{Backing, SparseFile};
use huge::HugePage;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const EIO: i32 = 5;
const HOUR: u64 = 3_600_000_000_000;

/// Requests in a record, in order.
fn requests(path: &Path) -> Vec<Io> {
    let bytes = std::fs::read(path).expect("the record");
    let (_, mut at) = SavedHost::decode(&bytes).expect("a record").expect("a whole header");
    let mut requests = Vec::new();
    while let Some((frame, used)) = Frame::decode(&bytes[at..]).expect("a frame") {
        at += used;
        if let Frame::Request { io, .. } = frame {
            requests.push(io);
        }
    }
    requests
}

/// Returns the requests to the model while `act` ran.
fn recorded(lab: &Lab, act: impl FnOnce()) -> Vec<Io> {
    let path = lab.folder.path().join("record");
    let _ = std::fs::remove_file(&path);
    lab.devices.record(&path).expect("a record");
    act();
    lab.devices.stop_recording().expect("it was recording").1.expect("all was written");
    requests(&path)
}

/// The pattern, written through the device at scattered places, is what the device and the bytes
/// behind it hold.
#[test]
fn what_is_written_to_the_device_is_read_and_lies_in_the_file() {
    let mut lab = Lab::new(None);
    for spec in ["instance-store:75", "raid5:3xio2:20:10000@64k", "raid10f2:3xio2:20:10000"] {
        let volume = lab.attach(spec);
        volume.volume.set_pace(Pace::Fixed(0));
        let (file, mut buffer, mut back) = (volume.direct(), Aligned::new(), Aligned::new());
        let places: Vec<(u64, usize)> = (0..40).map(|at| (at * 37 * 4_096 + at * 512, 512 << (at % 12))).collect();
        // The far end too.
        let places = places.into_iter().chain([(volume.volume.backing.bytes() - MIB, MIB as usize)]);
        for (offset, bytes) in places {
            pattern(&mut buffer.0[..bytes], offset, 3);
            file.write_all_at(&buffer.0[..bytes], offset).expect("written");
            file.read_exact_at(&mut back.0[..bytes], offset).expect("read");
            assert!(back.0[..bytes] == buffer.0[..bytes], "{spec}: {bytes} bytes at {offset} through the device");
            back.0[..bytes].fill(0);
            volume.volume.backing.read(&mut back.0[..bytes], offset).expect("read");
            assert!(back.0[..bytes] == buffer.0[..bytes], "{spec}: {bytes} bytes at {offset} behind it");
        }
        let mut zeros = Aligned::new();
        file.read_exact_at(&mut zeros.0, 64 * MIB).expect("read");
        assert!(zeros.0.iter().all(|&byte| byte == 0), "never written");
        assert_eq!(run("blockdev", &["--getsize64", volume.device.to_str().expect("a path")]).trim(), volume.volume.backing.bytes().to_string());
        assert_eq!((volume.queue("logical_block_size").as_str(), volume.queue("write_cache").as_str()), ("512", "write back"));
        lab.detach(&volume);
    }
}

/// st1 and sc1 count in 1 MiB, so a request of 1 MiB must arrive as one. The loop driver takes 128
/// pieces of memory at most: scattered pages of 4 KiB make two of 512 KiB.
#[test]
fn a_mebibyte_arrives_as_one_request() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("st1:500");
    volume.volume.set_pace(Pace::Model);
    let file = volume.direct();
    let mut page = HugePage::new();
    let requests = recorded(&lab, || {
        for at in 0..4 {
            file.write_all_at(&page.bytes()[..MIB as usize], at * MIB).expect("written");
            file.read_exact_at(&mut page.bytes()[..MIB as usize], at * MIB).expect("read");
        }
    });
    let expected: Vec<Io> = (0..4).flat_map(|at| [Op::Write, Op::Read].map(|op| Io { op, offset: at * MIB, bytes: MIB as u32 })).collect();
    assert_eq!(requests, expected);
    // Two MiB are two, at whole MiB.
    let two = recorded(&lab, || file.read_exact_at(page.bytes(), 8 * MIB).expect("read"));
    let mut two: Vec<(u64, u32)> = two.iter().map(|io| (io.offset, io.bytes)).collect();
    two.sort_unstable();
    assert_eq!(two, [(8 * MIB, MIB as u32), (9 * MIB, MIB as u32)]);
    // Pages that lie anywhere: each piece at least 128 pages, however they lie.
    let mut scattered = Aligned::new();
    let halves = recorded(&lab, || file.read_exact_at(&mut scattered.0, 16 * MIB).expect("read"));
    assert!(halves.len() <= 2 && halves.iter().map(|io| u64::from(io.bytes)).sum::<u64>() == MIB, "{halves:?}");
    println!("1 MiB of scattered memory arrived as {:?}", halves.iter().map(|io| io.bytes).collect::<Vec<_>>());
    assert_eq!(volume.queue("max_sectors_kb"), "1024");
}

#[test]
fn small_requests_arrive_as_they_are() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:20:10000");
    let (file, mut buffer) = (volume.direct(), Aligned::new());
    let sizes = [512usize, 1_024, 4_096, 16_384, 65_536, 262_144, 524_288];
    let requests = recorded(&lab, || {
        for (index, &bytes) in sizes.iter().enumerate() {
            file.write_all_at(&buffer.0[..bytes], index as u64 * MIB + 512).expect("written");
            file.read_exact_at(&mut buffer.0[..bytes], index as u64 * MIB + 512).expect("read");
        }
    });
    let expected =
        sizes.iter().enumerate().flat_map(|(index, &bytes)| [Op::Write, Op::Read].map(|op| Io { op, offset: index as u64 * MIB + 512, bytes: bytes as u32 }));
    assert_eq!(requests, expected.collect::<Vec<_>>());
    let sample = volume.volume.meter.take(lab.devices.clock.now());
    assert_eq!((sample.ops, sample.errors), ([sizes.len() as u64; 2], 0));
    assert_eq!(sample.bytes, [sizes.iter().sum::<usize>() as u64; 2]);
}

#[test]
fn discards_free_space_and_growth_is_seen_online() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let device = volume.device.to_str().expect("a path").to_string();
    volume.volume.set_pace(Pace::Fixed(0));
    let (file, mut buffer) = (volume.direct(), Aligned::new());
    pattern(&mut buffer.0, 0, 1);
    (0..32).for_each(|at| file.write_all_at(&buffer.0, at * MIB).expect("written"));
    assert!(volume.volume.backing.allocated().expect("space") >= 32 * MIB);
    run("blkdiscard", &["--offset", "0", "--length", &(24 * MIB).to_string(), &device]);
    let allocated = volume.volume.backing.allocated().expect("space");
    assert!((8 * MIB..9 * MIB).contains(&allocated), "{allocated}");
    run("blkdiscard", &["--zeroout", "--offset", &(24 * MIB).to_string(), "--length", &(4 * MIB).to_string(), &device]);
    let mut back = Aligned::new();
    for (at, zeros) in [(0, true), (23, true), (24, true), (27, true), (28, false)] {
        file.read_exact_at(&mut back.0, at * MIB).expect("read");
        assert_eq!(back.0.iter().all(|&byte| byte == 0), zeros, "MiB {at}");
    }
    run("blkdiscard", &[&device]);
    assert!(volume.volume.backing.allocated().expect("space") < MIB);

    volume.power.grow(5 << 30).expect("grown");
    loopdev::resized(&volume.device).expect("told");
    assert_eq!(run("blockdev", &["--getsize64", &device]).trim(), (5u64 << 30).to_string());
    file.write_all_at(&buffer.0, (5 << 30) - MIB).expect("written in what is new");
    file.read_exact_at(&mut back.0, (5 << 30) - MIB).expect("read");
    assert!(back.0 == buffer.0);
}

/// fsync of the device reaches the file: what was flushed is out of the reach of a power cut, what
/// was not need not be there.
#[test]
fn a_flush_reaches_the_backing() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    volume.volume.set_pace(Pace::Fixed(0));
    volume.power.arm().expect("armed");
    let (file, mut buffer) = (volume.direct(), Aligned::new());
    pattern(&mut buffer.0, 0, 1);
    file.write_all_at(&buffer.0, 0).expect("written");
    // The loop driver flushed once when it was made.
    volume.volume.meter.take(lab.devices.clock.now());
    file.sync_all().expect("flushed");
    assert_eq!(volume.volume.meter.take(lab.devices.clock.now()).flushes, 1);
    (0..16).for_each(|at| file.write_all_at(&buffer.0[..4_096], 8 * MIB + at * 4_096).expect("written"));
    volume.volume.faults.set_power(false);
    let report = volume.power.cut(7).expect("cut");
    assert_eq!(report.unflushed, 16, "the flushed ones are no longer among them");
    let mut back = Aligned::new();
    volume.volume.backing.read(&mut back.0, 0).expect("read");
    assert!(back.0 == buffer.0, "flushed before the cut");
}

#[test]
fn without_power_everything_is_an_i_o_error() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let (file, mut buffer) = (volume.direct(), Aligned::new());
    file.write_all_at(&buffer.0[..4_096], 0).expect("written");
    volume.volume.faults.set_power(false);
    let code = |outcome: std::io::Result<()>| outcome.expect_err("no power").raw_os_error();
    assert_eq!(code(file.read_exact_at(&mut buffer.0[..4_096], 0)), Some(EIO));
    assert_eq!(code(file.write_all_at(&buffer.0[..4_096], 0)), Some(EIO));
    assert_eq!(code(file.sync_all()), Some(EIO));
    assert_eq!(volume.volume.meter.take(lab.devices.clock.now()).errors, 2, "the read and the write");
    let device = volume.device.to_str().expect("a path");
    assert!(!outcome("blkdiscard", &["--force", device]).status.success());
    volume.volume.faults.set_power(true);
    file.read_exact_at(&mut buffer.0[..4_096], 0).expect("power again");
}

/// A file of a volume that was taken away gives I/O errors, also when another volume, or the same
/// one, is attached with its device number.
#[test]
fn a_volume_that_was_taken_away_leads_to_no_later_one() {
    let mut lab = Lab::new(None);
    let first = lab.attach("io2:4:1000");
    let (mut buffer, mut back) = (Aligned::new(), Aligned::new());
    pattern(&mut buffer.0, 0, 1);
    let mut open = vec![first.direct(), direct(&lab.mount.file(&first.id))];
    for id in [first.id.as_str(), "vol-other"] {
        lab.devices.close(first.device_number);
        let backing = SparseFile::create(&lab.folder.path().join(format!("later-{id}")), 4 << 30).expect("a file");
        let later = Arc::new(AttachedVolume::new(first.device_number, id, Arc::new(backing), lab.devices.clock.now()));
        lab.devices.open(later.clone());
        let file = direct(&lab.mount.file(id));
        let code = |outcome: std::io::Result<()>| outcome.expect_err("taken away").raw_os_error();
        for old in &open {
            assert_eq!(code(old.write_all_at(&buffer.0, 0)), Some(EIO), "{id}");
            assert_eq!(code(old.read_exact_at(&mut back.0[..4_096], 0)), Some(EIO), "{id}");
            assert_eq!(code(old.sync_all()), Some(EIO), "{id}");
        }
        assert_eq!(later.backing.allocated().expect("space"), 0, "{id}: nothing was written to it");
        file.write_all_at(&buffer.0, MIB).expect("written");
        file.read_exact_at(&mut back.0, MIB).expect("read");
        assert!(back.0 == buffer.0, "{id}");
        open.push(file);
    }
}

/// Faults reach whoever uses the device: errors as EIO, a pause that ends by being waited out, a
/// model that lost its volume.
#[test]
fn faults_are_seen_by_the_user_of_the_device() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let (file, mut buffer) = (volume.direct(), Aligned::new());
    let now = lab.devices.clock.now();
    let fault = |id, kind, length: u64| Fault { id, kind, op: Some(Op::Write), from: now, until: now + Nanos(length) };
    volume.volume.faults.add(fault(1, FaultKind::Error(2), HOUR));
    let failed: Vec<bool> = (0..4).map(|_| file.write_all_at(&buffer.0[..512], 0).is_err()).collect();
    assert_eq!(failed, [true, false, true, false]);
    file.read_exact_at(&mut buffer.0[..512], 0).expect("reads have no such fault");
    assert_eq!(volume.volume.faults.clear(None), 1);
    volume.volume.faults.add(fault(2, FaultKind::Pause, 1_000_000_000));
    file.write_all_at(&buffer.0[..512], 0).expect("after the pause");
    assert!(lab.devices.clock.now() >= now + Nanos(1_000_000_000), "answered in the pause");
    volume.volume.faults.clear(None);
    lab.devices.change(&headrace_model::record::HostChange::Failed { device: volume.device_number, member: 0, failed: true });
    assert_eq!(file.read_exact_at(&mut buffer.0[..512], 0).expect_err("lost").raw_os_error(), Some(EIO));
}

#[test]
fn devices_of_two_labs_side_by_side_are_told_apart() {
    let (mut lab, mut other) = (Lab::new(None), Lab::new(None));
    let (first, second) = (lab.attach("io2:4:1000"), other.attach("io2:4:1000"));
    let third = other.attach("io2:4:1000");
    // A loop device that is nobody's of ours.
    let stranger = lab.folder.path().join("stranger");
    std::fs::File::create(&stranger).expect("a file").set_len(4 * MIB).expect("a size");
    let strange = loopdev::attach(&stranger).expect("a loop device");
    let under_one = loopdev::under(&lab.folder.path().join("mnt")).expect("a list");
    let mut under_two = loopdev::under(&other.folder.path().join("mnt")).expect("a list");
    let all_of_one = loopdev::under(lab.folder.path()).expect("a list");
    loopdev::release(&strange).expect("released");
    let mut expected = vec![second.device.clone(), third.device.clone()];
    under_two.sort();
    expected.sort();
    assert_eq!((under_one, under_two), (vec![first.device.clone()], expected));
    assert!(all_of_one.contains(&strange) && all_of_one.contains(&first.device) && !all_of_one.contains(&second.device));
    // A name that only begins the same is another folder; a link to the folder is the folder.
    let link = lab.folder.path().join("link");
    std::os::unix::fs::symlink(lab.folder.path().join("mnt"), &link).expect("a link");
    assert_eq!(loopdev::under(&link).expect("a list"), std::slice::from_ref(&first.device));
    assert!(loopdev::under(&lab.folder.path().join("mn")).expect("a list").is_empty());
    let mut buffer = Aligned::new();
    for (volume, who) in [(&first, 1u64), (&second, 2), (&third, 3)] {
        pattern(&mut buffer.0[..4_096], 0, who);
        volume.direct().write_all_at(&buffer.0[..4_096], 0).expect("written");
    }
    for (volume, who) in [(&first, 1u64), (&second, 2), (&third, 3)] {
        let mut back = Aligned::new();
        volume.direct().read_exact_at(&mut back.0[..4_096], 0).expect("read");
        pattern(&mut buffer.0[..4_096], 0, who);
        assert!(back.0[..4_096] == buffer.0[..4_096], "volume {who}");
    }
    // One goes, the other stays.
    lab.detach(&first);
    wait_for("an unmount", || lab.mount.unmount().is_ok());
    second.direct().read_exact_at(&mut buffer.0[..4_096], 0).expect("the other lab is still there");
}

/// A pause that begins while a request waits for its time holds it; one that is cleared lets it go
/// long before its end.
#[test]
fn a_pause_holds_what_already_waits_and_lets_it_go_when_cleared() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let now = lab.devices.clock.now();
    let faults = &volume.volume.faults;
    faults.add(Fault { id: 1, kind: FaultKind::Latency(300_000_000), op: None, from: now, until: now + Nanos(HOUR) });
    std::thread::scope(|scope| {
        let file = volume.direct();
        let reader = scope.spawn(move || file.read_exact_at(&mut Aligned::new().0[..4_096], 0));
        wait_for("a request waiting", || lab.mount.waiting() == 1);
        let from = lab.devices.clock.now();
        faults.add(Fault { id: 2, kind: FaultKind::Pause, op: None, from, until: from + Nanos(HOUR) });
        // The latency of the first fault is over by then.
        std::thread::sleep(std::time::Duration::from_millis(400));
        assert_eq!((lab.mount.waiting(), reader.is_finished()), (1, false), "held");
        assert_eq!(faults.clear(Some(2)), 1);
        reader.join().expect("a thread").expect("answered");
    });
}

/// An unmount while requests wait is refused and loses none of them; when they are answered and the
/// device is let go, it succeeds.
#[test]
fn an_unmount_with_requests_waiting_is_refused_and_harmless() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let now = lab.devices.clock.now();
    volume.volume.faults.add(Fault { id: 1, kind: FaultKind::Pause, op: None, from: now, until: now + Nanos(1_500_000_000) });
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4u64)
            .map(|thread| {
                let file = volume.direct();
                scope.spawn(move || file.write_all_at(&Aligned::new().0[..4_096], thread * MIB))
            })
            .collect();
        wait_for("four requests waiting", || lab.mount.waiting() == 4);
        assert_eq!(lab.mount.unmount().expect_err("in use").kind(), ErrorKind::ResourceBusy);
        waiting.into_iter().for_each(|thread| thread.join().expect("a thread").expect("answered all the same"));
    });
    volume.direct().read_exact_at(&mut Aligned::new().0[..512], 0).expect("it goes on after the refusal");
    lab.detach(&volume);
    wait_for("the device to go", || loopdev::under(&lab.folder.path().join("mnt")).expect("a list").is_empty());
    wait_for("an unmount", || lab.mount.unmount().is_ok());
    lab.mount.unmount().expect("twice is once");
}

#[test]
fn bad_places_are_refused() {
    let lab = Lab::new(None);
    assert_eq!(loopdev::attach(&lab.mount.file("vol-none")).expect_err("no such volume").kind(), ErrorKind::NotFound);
    assert!(loopdev::under(&lab.folder.path().join("a/b")).is_err());
    assert_eq!(loopdev::file_of(Path::new("/dev/null")), None);
    assert!(!loopdev::is_busy(Path::new("/dev/loop-none")));
}

/// The folder of a lab: its volumes by id, of their size, whatever else is asked refused.
#[test]
fn the_folder_shows_the_volumes() {
    let mut lab = Lab::new(None);
    let first = lab.attach("io2:4:1000");
    let second = lab.attach_saved(&saved("gp3:3", &ModelOptions::default(), 1), None);
    let place = lab.folder.path().join("mnt");
    let mut names: Vec<String> =
        std::fs::read_dir(&place).expect("a folder").map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    assert_eq!(names, [first.id.clone(), second.id.clone()]);
    assert_eq!(std::fs::metadata(place.join(&second.id)).expect("a file").len(), 3 << 30);
    assert!(std::fs::write(place.join("other"), "x").is_err());
    assert!(std::fs::remove_file(place.join(&first.id)).is_err());
    assert!(direct(&place.join(&first.id)).write_all_at(&Aligned::new().0[..512], 4 << 30).is_err(), "behind the end");
}

#[test]
fn the_path_is_measured_without_a_trace() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let before = lab.devices.attached().len();
    let cost = probe::measure(&lab.devices, &lab.mount, lab.folder.path()).expect("measured");
    println!("path {} ns, {:.0} IOPS, {:.0} MiB/s", cost.own_ns, cost.iops, cost.mib_s);
    assert!(cost.iops > 0.0 && cost.mib_s > 0.0);
    assert_eq!(lab.devices.attached().len(), before);
    assert!(!lab.folder.path().join(".probe").exists());
    assert_eq!(loopdev::under(&lab.folder.path().join("mnt")).expect("a list"), std::slice::from_ref(&volume.device));
}
