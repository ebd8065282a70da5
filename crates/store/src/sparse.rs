//! A sparse file and a map of its written parts, so that reads of the rest need not ask the kernel.

use crate::{within, Backing};
use rustix::fs::{fallocate, seek, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

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
    /// Creates a file of `bytes` that takes no space yet. An error when it exists.
    pub fn create(path: &Path, bytes: u64) -> io::Result<SparseFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let result = file.set_len(bytes).and_then(|()| file.sync_all()).and_then(|()| SparseFile::over(file, path, bytes));
        if result.is_err() {
            // Larger than the file system takes, say: no empty file stays behind.
            let _ = std::fs::remove_file(path);
        }
        result
    }

    /// Opens a file that must have at least `bytes`. Errors: missing, cut, or in use.
    pub fn open(path: &Path, bytes: u64) -> io::Result<SparseFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let actual = file.metadata()?.len();
        // A crash between growing the file and noting it leaves the file larger: no harm, the rest
        // is not shown.
        if actual < bytes {
            return Err(SparseFile::cut(path, actual, bytes));
        }
        SparseFile::over(file, path, bytes)
    }

    /// Makes the error of a file that has fewer bytes than its volume.
    pub fn cut(path: &Path, actual: u64, bytes: u64) -> io::Error {
        let sentence = format!("{} has {actual} bytes where the volume has {bytes}: it was cut", path.display());
        io::Error::new(io::ErrorKind::InvalidData, sentence)
    }

    fn over(file: File, path: &Path, bytes: u64) -> io::Result<SparseFile> {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is in use by another process", path.display())))?;
        let written = Written::read(&file, bytes)?;
        Ok(SparseFile { file, bytes: AtomicU64::new(bytes), path: path.to_path_buf(), written })
    }

    /// Returns the path of the file.
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

    /// Zeros a range by fallocate(2), or by writing zeros on a file system without zero ranges.
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

    /// Makes the file longer, and durable.
    fn grow(&self, bytes: u64) -> io::Result<()> {
        let current = self.bytes();
        if bytes < current {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{bytes} bytes are fewer than its {current}: a volume never shrinks")));
        }
        // Bytes that an earlier, longer file left behind the end must not come back.
        if self.file.metadata()?.len() > current {
            self.file.set_len(current)?;
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

    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        bytes > 0 && self.written.any(offset, bytes)
    }
}

/// Bytes of a file that one bit stands for.
const CHUNK_BYTES: u64 = 1 << 20;

/// A bit for each MiB of a file, set before the first write into it and never taken back while the
/// file is open: discarded bytes are read from the file, which has zeros there.
#[derive(Debug)]
struct Written {
    words: RwLock<Vec<AtomicU64>>,
}

impl Written {
    /// Asks the file system for the ranges with data within the first `bytes`. Everything, where it
    /// cannot say.
    fn read(file: &File, bytes: u64) -> io::Result<Written> {
        let written = Written { words: RwLock::new(Vec::new()) };
        written.grow(bytes);
        let mut at = 0;
        while at < bytes {
            let data = match seek(file, SeekFrom::Data(at)) {
                Ok(data) => data,
                // No data from here on.
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
                Err(error) => return Err(error.into()),
            };
            let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(bytes).min(bytes);
            written.mark(data, hole.saturating_sub(data));
            at = hole.max(at + 1);
        }
        Ok(written)
    }

    /// Makes room for a file of `bytes`; the added bytes were never written.
    fn grow(&self, bytes: u64) {
        let words = bytes.div_ceil(CHUNK_BYTES).div_ceil(64) as usize;
        let mut current = self.words.write().unwrap_or_else(PoisonError::into_inner);
        let words = words.max(current.len());
        current.resize_with(words, AtomicU64::default);
    }

    /// Notes a write.
    fn mark(&self, offset: u64, bytes: u64) {
        let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
        for (word, bits) in masks(offset, bytes) {
            if let Some(word) = words.get(word).filter(|word| word.load(Ordering::Acquire) & bits != bits) {
                word.fetch_or(bits, Ordering::AcqRel);
            }
        }
    }

    /// Returns true if any part of a range may have been written.
    fn any(&self, offset: u64, bytes: u64) -> bool {
        let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
        masks(offset, bytes).any(|(word, bits)| words.get(word).is_none_or(|word| word.load(Ordering::Acquire) & bits != 0))
    }
}

/// Returns the words that a range touches, and its bits in them.
fn masks(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let first = offset / CHUNK_BYTES;
    let end = if bytes == 0 { first } else { (offset + bytes).div_ceil(CHUNK_BYTES) };
    (first / 64..end.div_ceil(64)).map(move |word| {
        let from = first.max(word * 64) - word * 64;
        let to = end.min(word * 64 + 64) - word * 64;
        let bits = if to - from == 64 { u64::MAX } else { ((1 << (to - from)) - 1) << from };
        (word as usize, bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = CHUNK_BYTES;

    proptest! {
        /// Beside a list of flags, one a MiB.
        #[test]
        fn marks_are_those_of_a_list(marks in prop::collection::vec((0u64..300 * MIB, 0u64..80 * MIB), 0..20), range in (0u64..300 * MIB, 1u64..80 * MIB)) {
            let written = Written { words: RwLock::new(Vec::new()) };
            written.grow(400 * MIB);
            let mut list = vec![false; 400];
            let chunks = |(offset, bytes): (u64, u64)| (offset / MIB) as usize..(offset + bytes).div_ceil(MIB) as usize;
            for &(offset, bytes) in &marks {
                written.mark(offset, bytes);
                if bytes > 0 {
                    list[chunks((offset, bytes))].fill(true);
                }
            }
            prop_assert_eq!(written.any(range.0, range.1), list[chunks(range)].iter().any(|&flag| flag));
        }
    }

    #[test]
    fn what_lies_behind_its_end_may_be_anything() {
        let written = Written { words: RwLock::new(Vec::new()) };
        written.grow(MIB);
        assert!(!written.any(0, 64 * MIB), "room for 64 MiB, the word it takes");
        assert!(written.any(64 * MIB, 1));
    }
}
