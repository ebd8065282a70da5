//! A file system on a volume: made, mounted, used, grown, checked; and a device that is in use.

mod common;

use common::{outcome, run, unmounted, wait_for, Lab};
use headrace_device::devices::Pace;
use headrace_device::loopdev;
use headrace_store::Backing;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in plain letters")
}

/// Makes xfs on a device and mounts it in the lab.
fn mount_new(lab: &mut Lab, device: &str) -> PathBuf {
    let place = lab.place("used");
    run("mkfs.xfs", &["-q", "-f", device]);
    run("mount", &[device, text(&place)]);
    lab.used.push(place.clone());
    place
}

/// Files with contents of their own in a folder: written, synced.
fn fill(place: &Path, files: u8) {
    for number in 0..files {
        let mut file = fs::File::create(place.join(format!("file-{number}"))).expect("a file");
        file.write_all(&vec![number | 1; 100_000 + 7_000 * usize::from(number)]).expect("written");
        file.sync_all().expect("flushed");
    }
}

fn check(place: &Path, files: u8) {
    for number in 0..files {
        let content = fs::read(place.join(format!("file-{number}"))).expect("a file");
        assert_eq!(content.len(), 100_000 + 7_000 * usize::from(number));
        assert!(content.iter().all(|&byte| byte == number | 1), "file {number}");
    }
}

#[test]
fn xfs_is_made_mounted_used_grown_and_clean() {
    for spec in ["io2:4:1000", "raid5:3xio2:4:1000"] {
        let mut lab = Lab::new(None);
        let volume = lab.attach(spec);
        volume.volume.set_pace(Pace::Fixed(0));
        let device = text(&volume.device).to_string();
        let place = mount_new(&mut lab, &device);
        fill(&place, 30);
        let full = volume.volume.backing.allocated().expect("space");
        (10..30).for_each(|number| fs::remove_file(place.join(format!("file-{number}"))).expect("removed"));
        // Mounted anew: xfs frees what was removed in the background.
        unmounted(&place);
        run("mount", &[&device, text(&place)]);
        run("fstrim", &[text(&place)]);
        let remaining = volume.volume.backing.allocated().expect("space");
        // The files removed had 20 x 100,000 + 7,000 x (10 + ... + 29) = 4.7 MB.
        assert!(remaining + 4_000_000 < full, "{spec}: {remaining} after {full} bytes");
        let bytes = volume.volume.backing.bytes();
        volume.power.grow(2 * bytes).expect("grown");
        loopdev::resized(&volume.device).expect("told");
        run("xfs_growfs", &[text(&place)]);
        assert_eq!(run("blockdev", &["--getsize64", &device]).trim(), (2 * bytes).to_string());
        fill(&place, 40);
        unmounted(&place);
        run("xfs_repair", &["-n", &device]);
        run("mount", &[&device, text(&place)]);
        check(&place, 40);
        unmounted(&place);
        lab.used.clear();
    }
}

/// A power cut under a file system: what was flushed is there after the log is replayed, and the
/// check is clean.
#[test]
fn a_power_cut_leaves_a_file_system_that_recovers() {
    for seed in 1..=3 {
        let mut lab = Lab::new(None);
        let volume = lab.attach("io2:4:1000");
        volume.volume.set_pace(Pace::Fixed(0));
        let device = text(&volume.device).to_string();
        let place = mount_new(&mut lab, &device);
        volume.power.arm().expect("armed");
        fill(&place, 12);
        // Their names too are on stable storage: a folder is flushed as a file is.
        fs::File::open(&place).expect("the folder").sync_all().expect("flushed");
        // Not flushed: these may be gone.
        (0..50).for_each(|number| fs::write(place.join(format!("lost-{number}")), vec![7; 50_000]).expect("written"));
        volume.volume.faults.set_power(false);
        volume.power.cut(seed).expect("cut");
        unmounted(&place);
        volume.volume.faults.set_power(true);
        run("mount", &[&device, text(&place)]);
        check(&place, 12);
        unmounted(&place);
        lab.used.clear();
        run("xfs_repair", &["-n", &device]);
    }
}

/// In use, a device is busy; released all the same, it serves whoever uses it until that ends, and
/// goes then.
#[test]
fn a_device_in_use_is_busy_and_goes_when_its_last_user_does() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    volume.volume.set_pace(Pace::Fixed(0));
    let device = text(&volume.device).to_string();
    assert!(!loopdev::is_busy(&volume.device), "free");
    let file = volume.direct();
    assert!(!loopdev::is_busy(&volume.device), "an open file alone does not count");
    drop(file);
    let place = mount_new(&mut lab, &device);
    assert!(loopdev::is_busy(&volume.device), "mounted");
    assert!(lab.mount.unmount().is_err(), "its file is held");

    loopdev::release(&volume.device).expect("let go");
    loopdev::release(&volume.device).expect("twice is once");
    assert!(loopdev::file_of(&volume.device).is_some(), "still there for its user");
    fill(&place, 10);
    check(&place, 10);
    assert!(lab.mount.unmount().is_err(), "its file is still held");
    unmounted(&place);
    lab.used.clear();
    let mine = || loopdev::under(&lab.folder.path().join("mnt")).expect("a list");
    wait_for("the device to go with its last user", || mine().is_empty());
    wait_for("an unmount", || lab.mount.unmount().is_ok());
    assert!(!outcome("mountpoint", &["-q", text(&lab.folder.path().join("mnt"))]).status.success());
}

/// A record may lie on the very volume it is about.
#[test]
fn a_record_onto_the_volume_itself_does_not_hang() {
    let mut lab = Lab::new(None);
    let volume = lab.attach("io2:4:1000");
    let device = text(&volume.device).to_string();
    let place = mount_new(&mut lab, &device);
    lab.devices.record(&place.join("record")).expect("a record");
    fill(&place, 5);
    run("sync", &["-f", text(&place)]);
    let (_, outcome) = lab.devices.stop_recording().expect("it was recording");
    assert!(outcome.expect("all was written") > 0);
    unmounted(&place);
    lab.used.clear();
}
