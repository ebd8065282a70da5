//! Loop devices: making one on a file, telling it that the file grew, releasing it, and finding
//! those that an earlier daemon left.

use rustix::ioctl::{ioctl, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Numbers of linux/loop.h.
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_ADD: Opcode = 0x4C80;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;
const NAME_BYTES: usize = 64;
/// Another process may take the device found free before we do.
const TRIES: usize = 32;
/// EBS volumes show 512-byte sectors.
const BLOCK_BYTES: u32 = 512;

/// The largest request FUSE takes whole, and the unit of st1 and sc1. The driver's own limit, 1,280
/// KiB, would make every one of 1,280 two, of 1,024 and 256. It also takes 128 pieces of memory at
/// most, which cannot be changed: 1 MiB in single pages of 4 KiB is split into halves, in larger
/// ones (page cache, huge pages) it is not.
const LARGEST_KIB: u32 = 1_024;

/// struct loop_info64 of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; NAME_BYTES],
    crypt_name: [u8; NAME_BYTES],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// struct loop_config of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// LOOP_CTL_GET_FREE: no argument; the number of a free device is its result.
struct GetFree;

// SAFETY: the call takes no argument and touches no memory of ours.
#[allow(unsafe_code)]
unsafe impl Ioctl for GetFree {
    type Output = i32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Makes a loop device on `file`, with direct I/O. It is /dev/loopN until [`release`].
pub fn attach(file: &Path) -> io::Result<PathBuf> {
    let backing = open_device(file)?;
    let control = open_device(Path::new("/dev/loop-control"))?;
    let mut info = LoopInfo64 {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_DIRECT_IO,
        file_name: [0; NAME_BYTES],
        crypt_name: [0; NAME_BYTES],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let name = file.as_os_str().as_encoded_bytes();
    let length = name.len().min(NAME_BYTES - 1);
    info.file_name[..length].copy_from_slice(&name[..length]);
    let config = LoopConfig { fd: backing.as_raw_fd() as u32, block_size: BLOCK_BYTES, info, reserved: [0; 8] };
    let mut last = io::Error::other("no loop device is free");
    for _ in 0..TRIES {
        #[allow(unsafe_code)]
        // SAFETY: see GetFree.
        let number = unsafe { ioctl(&control, GetFree) }?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let opened = open_device(&path).or_else(|_| {
            add(&control, number)?;
            open_device(&path)
        })?;
        // SAFETY: LOOP_CONFIGURE reads a struct loop_config, which LoopConfig is.
        #[allow(unsafe_code)]
        match unsafe { ioctl(&opened, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) } {
            Ok(()) => {
                set_largest(&path, LARGEST_KIB);
                return Ok(path);
            }
            Err(rustix::io::Errno::BUSY) => last = rustix::io::Errno::BUSY.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

/// Sets the largest request of a device, KiB. A kernel that refuses only splits large requests at
/// other places.
fn set_largest(path: &Path, kib: u32) {
    if let Some(name) = path.file_name() {
        let _ = std::fs::write(Path::new("/sys/block").join(name).join("queue/max_sectors_kb"), kib.to_string());
    }
}

fn add(control: &File, number: i32) -> io::Result<()> {
    // SAFETY: LOOP_CTL_ADD takes a number by value.
    #[allow(unsafe_code)]
    unsafe {
        Ok(ioctl(control, IntegerSetter::<LOOP_CTL_ADD>::new_usize(number as usize))?)
    }
}

/// Tells the device that its file grew.
pub fn resized(path: &Path) -> io::Result<()> {
    let opened = open_device(path)?;
    // Kernels before 6.17 believe the size they saw last: asking for the size makes them look
    // again.
    if let Some(file) = file_of(path) {
        std::fs::metadata(file)?;
    }
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    #[allow(unsafe_code)]
    unsafe {
        Ok(ioctl(&opened, NoArg::<LOOP_SET_CAPACITY>::new())?)
    }
}

/// Returns true if a loop device is in use: by a mounted file system, an md array or swap. An open
/// file descriptor alone does not count.
pub fn is_busy(path: &Path) -> bool {
    let exclusive = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::EXCL.bits() as i32).open(path);
    exclusive.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()))
}

/// Releases the device: at once, or when its last user closes it.
pub fn release(path: &Path) -> io::Result<()> {
    let opened = open_device(path)?;
    // 0 restores the driver's own limit for the next user of the device.
    set_largest(path, 0);
    // SAFETY: LOOP_CLR_FD takes no argument.
    #[allow(unsafe_code)]
    match unsafe { ioctl(&opened, NoArg::<LOOP_CLR_FD>::new()) } {
        Ok(()) | Err(rustix::io::Errno::NXIO) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the file behind a loop device, None when it is free. A file that is gone has "
/// (deleted)" behind its name.
pub fn file_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let text = std::fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// Returns the loop devices whose file lies in `folder`.
pub fn under(folder: &Path) -> io::Result<Vec<PathBuf>> {
    // The kernel shows paths without links. The folder itself may be a dead mount, which cannot be
    // asked.
    let folder = match (folder.canonicalize(), folder.parent(), folder.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => parent.canonicalize()?.join(name),
        (Err(error), ..) => return Err(error),
    };
    let mut devices = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let path = Path::new("/dev").join(entry?.file_name());
        if file_of(&path).is_some_and(|file| file.starts_with(&folder)) {
            devices.push(path);
        }
    }
    devices.sort();
    Ok(devices)
}
