//! A lab in a folder of its own, for tests on real FUSE mounts and loop devices. Mounts and
//! loop devices are taken down whatever happens.
#![allow(dead_code)]

use headrace_catalog::{Catalog, NaiveDate, StorageSpec};
use headrace_device::mount::Mount;
use headrace_device::{loopdev, AttachedVolume, Devices};
use headrace_model::host::layout_of;
use headrace_model::record::{SavedHost, SavedInstance};
use headrace_model::{Device, Instance, ModelOptions, Nanos, SavedDevice};
use headrace_store::raid::Raid;
use headrace_store::{Backing, PowerCut, SparseFile};
use rustix::fs::OFlags;
use rustix::mount::{unmount, UnmountFlags};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

pub const MIB: u64 = 1 << 20;
/// A day on which every type exists.
pub fn day() -> NaiveDate {
    "2025-06-01".parse().expect("a date")
}

/// Stops the test with words when the machine lacks something. These tests are never skipped.
pub fn require() {
    assert!(rustix::process::geteuid().is_root(), "these tests mount file systems and make loop devices: run them as root");
    for (path, what) in [("/dev/fuse", "FUSE (modprobe fuse)"), ("/dev/loop-control", "loop devices (modprobe loop)")] {
        assert!(Path::new(path).exists(), "{path} is missing: these tests need {what}");
    }
}

/// Waits for what somebody else is about to do; a limit of its own ends a wait in vain.
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not in 30 s");
}

/// Unmounts a file system. Tried again while it is busy: a program that another test just starts
/// has copies of all open files for a moment.
pub fn unmounted(place: &Path) {
    wait_for("an unmount", || match unmount(place, UnmountFlags::empty()) {
        Err(rustix::io::Errno::BUSY) => false,
        outcome => outcome.map(|()| true).expect("unmounted"),
    });
}

/// Runs a program that must be there and succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = outcome(program, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Runs a program that must be there.
pub fn outcome(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed for this test (apt-get install xfsprogs util-linux): {error}"))
}

/// A storage at rest, fresh from its type.
pub fn saved(spec: &str, options: &ModelOptions, seed: u64) -> SavedDevice {
    let storage: StorageSpec = spec.parse().expect("a storage");
    let limits = Catalog::embedded().storage_limits(&storage, day(), None).expect("limits of it");
    Device::new(&storage, &limits, options, seed).save(&storage, Nanos::ZERO)
}

/// A host with nothing attached, on an instance or on none.
pub fn host(instance: Option<&str>) -> SavedHost {
    let instance = instance.map(|name| {
        let limits = Catalog::embedded().instance(name, day()).expect("a known instance");
        SavedInstance { state: Instance::new(&limits, true).state(), limits }
    });
    SavedHost { now: Nanos::ZERO, instance, devices: Vec::new() }
}

/// An attached volume.
pub struct Attached {
    pub id: String,
    pub device_number: usize,
    pub volume: Arc<AttachedVolume>,
    pub device: PathBuf,
    pub raid: Option<Arc<Raid>>,
    pub power: Arc<PowerCut>,
}

impl Attached {
    /// Opens its block device, past the page cache.
    pub fn direct(&self) -> File {
        direct(&self.device)
    }

    /// Name of its device in /sys/block.
    pub fn queue(&self, name: &str) -> String {
        let device = self.device.file_name().expect("a name").to_string_lossy().into_owned();
        std::fs::read_to_string(format!("/sys/block/{device}/queue/{name}")).expect("a queue limit").trim().to_string()
    }
}

pub fn direct(path: &Path) -> File {
    let flags = OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The devices of a lab with their mount.
pub struct Lab {
    pub devices: Arc<Devices>,
    pub mount: Mount,
    loops: Vec<PathBuf>,
    /// Folders on which the test mounted file systems.
    pub used: Vec<PathBuf>,
    pub folder: tempfile::TempDir,
}

impl Lab {
    pub fn new(instance: Option<&str>) -> Lab {
        require();
        let folder = tempfile::tempdir().expect("a folder for the test");
        let place = folder.path().join("mnt");
        std::fs::create_dir(&place).expect("a folder to mount on");
        let devices = Arc::new(Devices::new(&host(instance)));
        let mount = Mount::new(devices.clone(), &place).expect("a FUSE mount");
        Lab { devices, mount, loops: Vec::new(), used: Vec::new(), folder }
    }

    /// Attaches a volume that is answered as the model says.
    pub fn attach(&mut self, spec: &str) -> Attached {
        self.attach_saved(&saved(spec, &ModelOptions::default(), 7), None)
    }

    /// Attaches a volume whose size is not its type's, where one is given.
    pub fn attach_saved(&mut self, device: &SavedDevice, bytes: Option<u64>) -> Attached {
        let device_number = self.devices.put(device).expect("a free device number");
        let id = format!("vol-{device_number:017x}");
        let size = bytes.unwrap_or(device.storage.usable_gib() << 30);
        let file = |index: usize, bytes: u64| -> Arc<dyn Backing> {
            let path = self.folder.path().join(format!("{id}-{index}"));
            // The file is of a volume that had the number before.
            let _ = std::fs::remove_file(&path);
            Arc::new(SparseFile::create(&path, bytes).expect("a file"))
        };
        let raid = device.storage.raid.zip(layout_of(&device.storage)).map(|(level, layout)| {
            let members = device.storage.members.iter().enumerate().map(|(index, member)| file(index, member.size_gib << 30));
            Arc::new(Raid::new(level, layout, members.collect(), size))
        });
        let whole: Arc<dyn Backing> = match &raid {
            Some(raid) => raid.clone(),
            None => file(0, size),
        };
        let power = Arc::new(PowerCut::new(whole));
        let volume = Arc::new(AttachedVolume::new(device_number, &id, power.clone(), self.devices.clock.now()));
        self.devices.open(volume.clone());
        let device = loopdev::attach(&self.mount.file(&id)).expect("a loop device");
        self.loops.push(device.clone());
        Attached { id, device_number, volume, device, raid, power }
    }

    /// Lets a volume's device go.
    pub fn detach(&mut self, attached: &Attached) {
        loopdev::release(&attached.device).expect("released");
        self.loops.retain(|device| *device != attached.device);
        self.devices.close(attached.device_number);
        self.devices.remove(attached.device_number);
    }

    /// A folder of the test's own.
    pub fn place(&self, name: &str) -> PathBuf {
        let place = self.folder.path().join(name);
        std::fs::create_dir_all(&place).expect("a folder");
        place
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nothing may wait for a fault the test left behind.
        self.devices.attached().iter().for_each(|volume| {
            volume.faults.clear(None);
        });
        for place in self.used.drain(..) {
            let _ = unmount(&place, UnmountFlags::DETACH);
        }
        for device in self.loops.drain(..) {
            // Only while it is still ours: another test may have got its number since.
            if loopdev::file_of(&device).is_some_and(|file| file.starts_with(self.folder.path())) {
                let _ = loopdev::release(&device);
            }
        }
        for _ in 0..200 {
            if self.mount.unmount().is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{}: still busy, detached", self.folder.path().display());
        let _ = unmount(self.folder.path().join("mnt"), UnmountFlags::DETACH);
    }
}

/// Memory aligned as direct I/O wants it.
#[repr(C, align(4096))]
pub struct Aligned(pub [u8; 1 << 20]);

impl Aligned {
    pub fn new() -> Box<Aligned> {
        Box::new(Aligned([0; 1 << 20]))
    }
}

/// A pattern that tells every 512-byte sector from every other: its number, and who wrote it.
pub fn pattern(into: &mut [u8], offset: u64, who: u64) {
    for (index, word) in into.chunks_exact_mut(8).enumerate() {
        let sector = offset / 512 + index as u64 / 64;
        word.copy_from_slice(&(sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ who).to_le_bytes());
    }
}

/// Chance with a seed: xorshift, enough to choose offsets by.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}
