//! A sparse file.

use crate::written::Written;
use crate::{within, Backing};
use rustix::fs::{fallocate, FallocateFlags, FlockOperation};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A volume's bytes in a file of its own, readable by its owner alone. One user at a time.
#[derive(Debug)]
pub struct SparseFile {
    file: File,
    bytes: AtomicU64,
    path: PathBuf,
    written: Written,
}

impl SparseFile {
    /// A new file of `bytes` that takes no space yet. An error when it exists.
    pub fn create(path: &Path, bytes: u64) -> io::Result<SparseFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = file.set_len(bytes).and_then(|()| file.sync_all()).and_then(|()| SparseFile::over(file, path, bytes));
        if made.is_err() {
            // Larger than the file system takes, say: no empty file stays behind.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// An existing file that must have at least `bytes`. Errors: missing, cut, or in use.
    pub fn open(path: &Path, bytes: u64) -> io::Result<SparseFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let found = file.metadata()?.len();
        // A crash between growing the file and noting it leaves the file larger: no harm, the rest
        // is not shown.
        if found < bytes {
            let words = format!("{} has {found} bytes where the volume has {bytes}: it was cut", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        SparseFile::over(file, path, bytes)
    }

    fn over(file: File, path: &Path, bytes: u64) -> io::Result<SparseFile> {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is in use by another process", path.display())))?;
        let written = Written::of(&file, bytes)?;
        Ok(SparseFile { file, bytes: AtomicU64::new(bytes), path: path.to_path_buf(), written })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn punch(&self, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
        within(self.bytes(), offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        Ok(fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }
}

impl Backing for SparseFile {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, buffer.len() as u64)?;
        if !self.written.any(offset, buffer.len() as u64) {
            // The kernel would fill its page cache with zeros first.
            buffer.fill(0);
            return Ok(());
        }
        self.file.read_exact_at(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, data.len() as u64)?;
        // Before the bytes are there: who reads meanwhile may see either.
        self.written.mark(offset, data.len() as u64);
        self.file.write_all_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.punch(FallocateFlags::PUNCH_HOLE, offset, bytes)
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match self.punch(FallocateFlags::ZERO_RANGE, offset, bytes) {
            // tmpfs and some others know no zero range.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let mut at = offset;
                while at < offset + bytes {
                    let part = ZEROS.len().min((offset + bytes - at) as usize);
                    self.file.write_all_at(&ZEROS[..part], at)?;
                    at += part as u64;
                }
                Ok(())
            }
            done => done,
        }
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let now = self.bytes();
        if bytes < now {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{bytes} bytes are fewer than its {now}: a volume never shrinks")));
        }
        // What an earlier, longer file left behind the end must not come back.
        if self.file.metadata()?.len() > now {
            self.file.set_len(now)?;
        }
        self.file.set_len(bytes)?;
        self.file.sync_all()?;
        self.written.grow(bytes);
        self.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}
