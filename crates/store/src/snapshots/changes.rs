//! Blocks that changed since a capture: a set in memory, and a byte for each block in a file that
//! is written before the block is. The file is trusted after the process died, and after the
//! machine died only when it was closed in order and nothing changed since.

use super::bytes::{framed, put_text, put_u32, unframed, Reader};
use super::{boot_id, BlockSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

const MAGIC: &[u8; 8] = b"HRCHNG01";
/// Bytes in front of the marks.
const HEADER_BYTES: usize = 4_096;
/// Marks written at once for a long run, bytes.
const MARKS: usize = 64 << 10;

/// Blocks that changed since a capture.
pub struct Changes {
    since: Option<String>,
    set: BlockSet,
    file: Option<File>,
    /// The file could not be written: the set in memory is right, the file is not.
    lost: AtomicBool,
    /// True from [`Changes::close`] to the next change: the file says that it is whole. A change
    /// holds it, shared, while it is noted.
    closed: RwLock<bool>,
}

impl Changes {
    /// Makes the set of a volume that was never captured, or whose notes are lost: nothing is
    /// known.
    pub(crate) fn unknown() -> Changes {
        Changes::over(None, None)
    }

    fn over(since: Option<String>, file: Option<File>) -> Changes {
        Changes { since, set: BlockSet::default(), file, lost: AtomicBool::new(false), closed: RwLock::new(false) }
    }

    /// Creates a new, empty file.
    pub(crate) fn create(path: &Path, since: &str) -> io::Result<Changes> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let changes = Changes::over(Some(since.to_string()), Some(file));
        changes.write_header(false)?;
        Ok(changes)
    }

    /// Reads what a file says. `None`: it cannot be trusted.
    pub(crate) fn open(path: &Path, since: &str) -> io::Result<Option<Changes>> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut header = vec![0; HEADER_BYTES];
        if file.read_exact(&mut header).is_err() {
            return Ok(None);
        }
        let Ok((body, _)) = unframed(MAGIC, &header) else { return Ok(None) };
        let mut body = Reader(body);
        let (Ok(origin), Ok(boot), Ok(clean)) = (body.text(), body.text(), body.u32()) else { return Ok(None) };
        if origin != since || (boot != boot_id() && clean == 0) {
            return Ok(None);
        }
        let set = BlockSet::default();
        each_mark(&mut file, HEADER_BYTES as u64, |block, mark| {
            if mark != 0 {
                set.insert(block, 1);
            }
        })?;
        let changes = Changes { set, ..Changes::over(Some(origin), Some(file)) };
        changes.unseal()?;
        Ok(Some(changes))
    }

    /// Writes the header. `clean` says that the file has every change, also after the machine
    /// stops.
    fn write_header(&self, clean: bool) -> io::Result<()> {
        let (Some(file), Some(since)) = (&self.file, &self.since) else { return Ok(()) };
        let mut body = Vec::new();
        put_text(&mut body, since);
        put_text(&mut body, boot_id());
        put_u32(&mut body, u32::from(clean));
        let mut header = framed(MAGIC, &body);
        header.resize(HEADER_BYTES, 0);
        file.write_all_at(&header, 0)
    }

    /// Returns the capture since which it is known what changed.
    pub fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    /// Returns the blocks that changed.
    pub fn set(&self) -> &BlockSet {
        &self.set
    }

    /// Notes blocks that are about to change.
    pub(crate) fn insert(&self, first: u64, blocks: u64) {
        if self.since.is_none() || (first..first + blocks.min(4)).all(|block| self.set.contains(block)) && blocks <= 4 {
            return;
        }
        let _open = self.wait_until_open();
        if let Some(file) = &self.file {
            let mut at = first;
            while at < first + blocks {
                let part = (first + blocks - at).min(MARKS as u64);
                if file.write_all_at(&vec![1; part as usize], HEADER_BYTES as u64 + at).is_err() {
                    self.lose();
                }
                at += part;
            }
        }
        self.set.insert(first, blocks);
    }

    /// Waits until the file says that it may lack changes, on disk, and keeps it from being closed
    /// while a change is noted.
    fn wait_until_open(&self) -> RwLockReadGuard<'_, bool> {
        loop {
            let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
            if !*closed {
                return closed;
            }
            drop(closed);
            let mut closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
            // Another change may have done it while this one waited.
            if *closed && self.unseal().is_err() {
                self.lose();
            }
            *closed = false;
        }
    }

    /// Says in the file, and on disk, that it may lack changes: a machine that stops after one must
    /// not find the file as it was closed.
    fn unseal(&self) -> io::Result<()> {
        self.write_header(false)?;
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Notes that the file could not be written (a full disk): it must not be taken for the whole
    /// set.
    fn lose(&self) {
        if !self.lost.swap(true, Ordering::SeqCst) {
            let _ = self.file.as_ref().map(|file| file.set_len(0));
        }
    }

    /// Puts everything on disk: the file is good after the machine died, too, until the next change
    /// or until it is opened again.
    pub(crate) fn close(&self) -> io::Result<()> {
        let mut closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
        match &self.file {
            Some(file) if !self.lost.load(Ordering::SeqCst) => {
                // Also where a step of it fails: what the disk has is not known then.
                *closed = true;
                file.sync_all()?;
                self.write_header(true)?;
                file.sync_all()
            }
            _ => Ok(()),
        }
    }
}

/// Calls `each` with number and value of the bytes of a file from `header` on; holes are left out.
pub(crate) fn each_mark(file: &mut File, header: u64, mut each: impl FnMut(u64, u8)) -> io::Result<()> {
    let end = file.metadata()?.len();
    let mut at = header;
    let mut buffer = vec![0; MARKS];
    while at < end {
        at = match rustix::fs::seek(&*file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(_) => at,
        };
        file.seek(SeekFrom::Start(at))?;
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        buffer[..read].iter().enumerate().for_each(|(i, &mark)| each(at + i as u64 - header, mark));
        at += read as u64;
    }
    Ok(())
}
