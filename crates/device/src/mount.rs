//! The FUSE file system: a folder with one file a volume. The only file that names the FUSE library
//! (fuser).
//!
//! Reader threads take requests from /dev/fuse, each over a descriptor of its own, ask the model,
//! read or write the backing at once, and answer, or leave the answer to the timer. Data is copied
//! once between the backing and a buffer, and once between the buffer and the kernel.

use crate::devices::{AttachedVolume, Devices, Pace, MOST_VOLUMES};
use crate::timer::Timer;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use headrace_model::{Cap, Decision, Io, Nanos, Op, Verdict};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Source of our mounts in /proc/mounts.
pub const SOURCE: &str = "headrace";
/// Requests in the kernel's queue at most: 64 volumes at depth 128, the loop driver's own.
const MOST_WAITING: u16 = 8_192;
/// The largest request: the unit of st1 and sc1. A smaller one would be split before it is counted.
const MOST_BYTES: u32 = 1 << 20;
/// Buffers kept for reuse, bytes. More are made when needed and freed after.
const FREE_BYTES: usize = 64 << 20;
/// Answers closer than this to their time leave at once.
const AT_ONCE: u64 = 1_000;
/// Inode of the folder, as FUSE has it, and the first inode of a volume: a guess that leaves room
/// for other files.
const ROOT: u64 = 1;
const FIRST: u64 = 16;
/// Inodes of one attachment: each device number has its own, the probe's too.
const NUMBERS: u64 = MOST_VOLUMES as u64 + 1;
/// Flags of linux/falloc.h.
const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 16;

/// Returns the number of reader threads for `cores` processors: two each keeps one ready while
/// another copies, up to eight.
pub fn reader_threads(cores: usize) -> usize {
    (2 * cores).clamp(2, 8)
}

/// A mounted lab. Dropping it unmounts.
pub struct Mount {
    session: Mutex<Option<BackgroundSession>>,
    folder: PathBuf,
    timer: Arc<Timer<Waiting>>,
}

impl Mount {
    /// Mounts the attached volumes of `devices` on an existing folder.
    pub fn new(devices: Arc<Devices>, folder: &Path) -> io::Result<Mount> {
        let late = devices.clone();
        let pool = Arc::new(Pool::default());
        let back = pool.clone();
        let timer = Arc::new(Timer::start(devices.clock, move |waiting: Waiting, at, last| waiting.due(&late, &back, at, last))?);
        let mut config = Config::default();
        config.n_threads = Some(reader_threads(std::thread::available_parallelism().map_or(2, usize::from)));
        config.clone_fd = true;
        let files = Files { devices, timer: timer.clone(), pool };
        let folder = folder.canonicalize()?;
        let channel = mount(&folder)?;
        match Session::from_fd(files, channel, SessionACL::Owner, config).and_then(Session::spawn) {
            Ok(session) => Ok(Mount { session: Mutex::new(Some(session)), folder, timer }),
            Err(error) => {
                let _ = rustix::mount::unmount(&folder, UnmountFlags::DETACH);
                Err(error)
            }
        }
    }

    /// Returns the file of a volume.
    pub fn file(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Returns the number of answers that wait for their time.
    pub fn waiting(&self) -> usize {
        self.timer.waiting()
    }

    /// Unmounts. Fails while a loop device or another process holds a file: the mount stays as it
    /// was, and unmounting can be tried again.
    pub fn unmount(&self) -> io::Result<()> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_none() {
            return Ok(());
        }
        match rustix::mount::unmount(&self.folder, UnmountFlags::empty()) {
            Ok(()) => session.take().map_or(Ok(()), BackgroundSession::join),
            // It was unmounted by another process. The threads end with its last user, which is not
            // waited for.
            Err(rustix::io::Errno::INVAL) => {
                *session = None;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Held by a loop device, it lives on until that is released.
        if let Err(error) = self.unmount() {
            tracing::warn!("{}: {error}", self.folder.display());
        }
    }
}

/// Mounts on `folder`, and returns the descriptor that its requests come from. Fuser does not
/// unmount, because its unmounting cannot be tried again after a refusal.
fn mount(folder: &Path) -> io::Result<OwnedFd> {
    let channel = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let options = format!("fd={},rootmode=40000,user_id={user},group_id={group}", channel.as_raw_fd());
    let flags = MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(SOURCE, folder, "fuse", flags, Some(CString::new(options)?.as_c_str()))?;
    Ok(channel.into())
}

struct Files {
    devices: Arc<Devices>,
    timer: Arc<Timer<Waiting>>,
    pool: Arc<Pool>,
}

enum Reply {
    Read(ReplyData, Vec<u8>, usize),
    Write(ReplyWrite),
}

/// A request whose answer is known, waiting for its time.
struct Waiting {
    volume: Arc<AttachedVolume>,
    arrived: Nanos,
    io: Io,
    failed: bool,
    reply: Reply,
}

impl Waiting {
    /// Answers the request, or returns it with the end of the pause that holds its answer.
    fn due(self, devices: &Devices, pool: &Pool, at: Nanos, last: bool) -> Option<(Nanos, Waiting)> {
        if let Some(until) = self.volume.faults.pause_end(devices.clock.now(), self.io.op).filter(|_| !last) {
            return Some((until, self));
        }
        self.answer(devices, pool, at);
        None
    }

    /// Counts a request and answers it; `at` is the time at which its answer was due.
    fn answer(self, devices: &Devices, pool: &Pool, at: Nanos) {
        let Waiting { volume, arrived, io, failed, reply } = self;
        // Counted before the answer: its receiver may read the counters at once.
        let now = devices.clock.now();
        let late = now.0.saturating_sub(at.0);
        volume.meter.answered(arrived, now, io.op, io.bytes, late, failed);
        match reply {
            Reply::Read(reply, buffer, bytes) => {
                if failed {
                    reply.error(Errno::EIO);
                } else {
                    reply.data(&buffer[..bytes]);
                }
                pool.put(buffer);
            }
            Reply::Write(reply) if failed => reply.error(Errno::EIO),
            Reply::Write(reply) => reply.written(io.bytes),
        }
        devices.late(late);
    }
}

impl Files {
    fn volume(&self, inode: INodeNo) -> Option<Arc<AttachedVolume>> {
        let device_number = usize::try_from(inode.0.checked_sub(FIRST)? % NUMBERS).ok()?;
        self.devices.volume(device_number).filter(|volume| inode_of(volume) == inode.0)
    }

    /// Decides a request; returns its arrival, the time of its answer, and true to answer with an
    /// error.
    fn decide(&self, volume: &AttachedVolume, io: Io) -> (Nanos, Nanos, bool) {
        let (now, decision) = match volume.pace() {
            Pace::Model => self.devices.decide(volume.device_number, io),
            Pace::Fixed(after) => {
                let now = self.devices.clock.now();
                (now, Decision { start: now, complete: now + Nanos(after), cap: Cap::None, verdict: Verdict::Ok })
            }
        };
        volume.meter.arrived(now, Some(&decision));
        let passed = volume.faults.pass(now, io.op, decision.complete);
        (now, Nanos(passed.at.0.saturating_sub(volume.path().0)).max(now), passed.fail || decision.verdict == Verdict::Failed)
    }

    fn finish(&self, waiting: Waiting, at: Nanos) {
        if at.0 > self.devices.clock.now().0 + AT_ONCE {
            self.timer.push(at, waiting);
        } else if let Some((at, waiting)) = waiting.due(&self.devices, &self.pool, at, false) {
            self.timer.push(at, waiting);
        }
    }
}

/// Returns the inode of an attached volume. No other attachment ever has it: who still has the file
/// of an earlier one open, as the loop device of a mounted volume that was detached by force, must
/// not reach the volume that has its device number now.
fn inode_of(volume: &AttachedVolume) -> u64 {
    FIRST + volume.attachment * NUMBERS + volume.device_number as u64
}

/// Returns the attributes of a volume's file, or without a volume those of the folder.
fn attributes(inode: u64, volume: Option<&AttachedVolume>) -> FileAttr {
    let begin = SystemTime::UNIX_EPOCH;
    let size = volume.map_or(0, |volume| volume.backing.bytes());
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size / 512,
        atime: begin,
        mtime: begin,
        ctime: begin,
        crtime: begin,
        kind: if volume.is_some() { FileType::RegularFile } else { FileType::Directory },
        perm: if volume.is_some() { 0o600 } else { 0o700 },
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

/// Attributes are never cached by the kernel: a volume that grew must be seen to have grown.
const UNCACHED: Duration = Duration::ZERO;

impl Filesystem for Files {
    /// Asks the kernel for a long queue, requests of [`MOST_BYTES`] and asynchronous direct I/O;
    /// fails if it lacks one.
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_background(MOST_WAITING);
        let _ = config.set_congestion_threshold(MOST_WAITING);
        config
            .set_max_write(MOST_BYTES)
            .map_err(|most| io::Error::other(format!("the kernel writes at most {most} bytes at once, {MOST_BYTES} are needed")))?;
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES | InitFlags::FUSE_ASYNC_READ)
            .map_err(|missing| io::Error::other(format!("the kernel's FUSE lacks {missing:?}")))
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str().filter(|_| parent.0 == ROOT).and_then(|name| self.devices.by_id(name)) {
            Some(volume) => reply.entry(&UNCACHED, &attributes(inode_of(&volume), Some(&volume)), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        match self.volume(inode) {
            Some(volume) => reply.attr(&UNCACHED, &attributes(inode.0, Some(&volume))),
            None if inode.0 == ROOT => reply.attr(&UNCACHED, &attributes(ROOT, None)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.volume(inode) {
            // Never through the page cache: every request must reach the model.
            Some(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Lists the attached volumes.
    fn readdir(&self, _request: &Request, inode: INodeNo, _file: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode.0 != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        for (place, volume) in self.devices.attached().iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode_of(volume)), place as u64 + 1, FileType::RegularFile, &volume.id) {
                break;
            }
        }
        reply.ok();
    }

    /// Decides and does a read at once; its answer leaves at the model's completion time.
    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(volume) = self.volume(inode) else { return reply.error(Errno::EIO) };
        // A read at the end of the file is answered short, as of any file.
        let size = size.min(volume.backing.bytes().saturating_sub(offset).min(u64::from(MOST_BYTES)) as u32);
        if size == 0 {
            return reply.data(&[]);
        }
        let io = Io { op: Op::Read, offset, bytes: size };
        let (arrived, at, mut failed) = self.decide(&volume, io);
        let mut buffer = self.pool.take(size as usize);
        failed = failed || volume.backing.read(&mut buffer[..size as usize], offset).is_err();
        self.finish(Waiting { volume, arrived, io, failed, reply: Reply::Read(reply, buffer, size as usize) }, at);
    }

    /// Decides and does a write at once; its answer leaves at the model's completion time.
    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(volume) = self.volume(inode) else { return reply.error(Errno::EIO) };
        if data.is_empty() || offset.saturating_add(data.len() as u64) > volume.backing.bytes() {
            return reply.error(Errno::ENOSPC);
        }
        let io = Io { op: Op::Write, offset, bytes: data.len() as u32 };
        let (arrived, at, mut failed) = self.decide(&volume, io);
        failed = failed || volume.backing.write(data, offset).is_err();
        self.finish(Waiting { volume, arrived, io, failed, reply: Reply::Write(reply) }, at);
    }

    /// Flushes a volume; the answer does not wait for the model.
    fn fsync(&self, _request: &Request, inode: INodeNo, _file: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let Some(volume) = self.volume(inode).filter(|volume| !volume.faults.is_off()) else { return reply.error(Errno::EIO) };
        volume.meter.flushed();
        match volume.backing.flush() {
            // After a power cut that came meanwhile there was nothing left to flush.
            Ok(()) if !volume.faults.is_off() => reply.ok(),
            _ => reply.error(Errno::EIO),
        }
    }

    /// Discards or zeros a range of a volume, without asking the model; any other mode is refused.
    fn fallocate(&self, _request: &Request, inode: INodeNo, _file: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty) {
        let Some(volume) = self.volume(inode).filter(|volume| !volume.faults.is_off()) else { return reply.error(Errno::EIO) };
        let done = match mode & !FALLOC_KEEP_SIZE {
            FALLOC_PUNCH_HOLE => volume.backing.discard(offset, length),
            FALLOC_ZERO_RANGE => volume.backing.zero(offset, length),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        match done {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}

/// Buffers for data under way, by powers of two.
#[derive(Default)]
struct Pool {
    free: Mutex<(Vec<Vec<Vec<u8>>>, usize)>,
}

impl Pool {
    /// Returns a buffer of at least `bytes`, of a power of two.
    fn take(&self, bytes: usize) -> Vec<u8> {
        let size = bytes.next_power_of_two().max(4_096);
        let class = size.trailing_zeros() as usize;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buffer) = free.0.get_mut(class).and_then(Vec::pop) {
            free.1 -= size;
            return buffer;
        }
        drop(free);
        vec![0; size]
    }

    /// Keeps a buffer for reuse, up to [`FREE_BYTES`] together.
    fn put(&self, buffer: Vec<u8>) {
        let (size, class) = (buffer.len(), buffer.len().trailing_zeros() as usize);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.1 + size > FREE_BYTES {
            return;
        }
        if free.0.len() <= class {
            free.0.resize_with(class + 1, Vec::new);
        }
        free.0[class].push(buffer);
        free.1 += size;
    }
}
