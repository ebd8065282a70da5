//! What was set aside for an instant: a sparse file with the old bytes, each at its own place, and
//! a file of marks that say which chunks are in it. Bytes first, then the mark, then the write that
//! replaces them: a process may die at any point in between.

use super::bytes::{framed, put_text, put_u64, unframed, Reader};
use super::changes::{each_mark, Changes};
use super::paged::Words;
use super::{blocks_of, boot_id, is_zero, BLOCK_BYTES};
use crate::Backing;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"HRSIDE01";
/// Bytes in front of the marks.
const HEADER_BYTES: u64 = 4_096;
/// What is set aside at once: a page of InnoDB. A whole block for each first write would cost a
/// database 32 times the bytes.
const CHUNK_BYTES: u64 = 16 << 10;
/// Chunks of a block, each a bit of its mark.
const CHUNKS: u64 = BLOCK_BYTES as u64 / CHUNK_BYTES;
/// The bit of a block that is stored elsewhere: nothing more is set aside. In the file it is a byte
/// of its own, so that it is not written together with the marks.
const RELEASED: u64 = 1 << CHUNKS;
/// Bytes of a block's mark.
const MARK_BYTES: u64 = 4;
/// Longest reason that is kept, bytes.
const MOST_REASON: usize = 1_024;

/// An instant's files.
pub(super) struct Side {
    pub(super) name: String,
    /// Size of the volume at the instant.
    pub(super) bytes: u64,
    /// What changed up to the instant.
    pub(super) changes: Arc<Changes>,
    since: String,
    data: File,
    marks: File,
    words: Words,
    broken: AtomicBool,
    reason: Mutex<String>,
}

/// Its two files.
pub(super) fn paths(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    (folder.join(format!("{name}.aside")), folder.join(format!("{name}.marks")))
}

/// The file of what changed after a capture.
pub(super) fn changes_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.after"))
}

impl Side {
    /// New files. An error when there are some of this name.
    pub(super) fn create(folder: &Path, name: &str, bytes: u64, changes: Arc<Changes>) -> io::Result<Side> {
        let (data_path, marks_path) = paths(folder, name);
        let create = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let data = create(&data_path)?;
        let made = create(&marks_path).and_then(|marks| {
            let since = changes.since().unwrap_or_default().to_string();
            let side = Side::over(name, bytes, changes, since, data, marks);
            side.data.set_len(bytes)?;
            side.write_header()?;
            Ok(side)
        });
        if made.is_err() {
            let _ = std::fs::remove_file(&data_path);
            let _ = std::fs::remove_file(&marks_path);
        }
        made
    }

    fn over(name: &str, bytes: u64, changes: Arc<Changes>, since: String, data: File, marks: File) -> Side {
        let words = Words::new(blocks_of(bytes));
        Side { name: name.to_string(), bytes, changes, since, data, marks, words, broken: AtomicBool::new(false), reason: Mutex::new(String::new()) }
    }

    /// The files that a process left. What they do not hold can still be read from the volume, as
    /// nothing was written to it since.
    pub(super) fn open(folder: &Path, name: &str) -> io::Result<Side> {
        let (data_path, marks_path) = paths(folder, name);
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let (data, mut marks) = (open(&data_path)?, open(&marks_path)?);
        let mut header = vec![0; HEADER_BYTES as usize];
        marks.read_exact(&mut header)?;
        let mut body = Reader(unframed(MAGIC, &header)?.0);
        let (bytes, since, boot, reason) = (body.u64()?, body.text()?, body.text()?, body.text()?);
        let mut side = Side::over(name, bytes, Arc::new(Changes::unknown()), since, data, marks);
        if let Some(changes) = Changes::open(&changes_path(folder, &side.since), &side.since).ok().flatten() {
            side.changes = Arc::new(changes);
        }
        if !reason.is_empty() {
            side.note_broken(&reason);
        } else if boot != boot_id() {
            side.fail("the machine stopped while the snapshot was pending, and what was set aside may not be on disk. Make the snapshot again");
        }
        let words = &side.words;
        let released_at = blocks_of(bytes) * MARK_BYTES;
        each_mark(&mut side.marks, HEADER_BYTES, |at, byte| match at.checked_sub(released_at) {
            Some(block) => words.or(block, if byte == 0 { 0 } else { RELEASED }),
            None => words.or(at / MARK_BYTES, u64::from(byte) << (at % MARK_BYTES * 8)),
        })?;
        Ok(side)
    }

    /// The capture that it follows, as its file says.
    pub(super) fn since(&self) -> &str {
        &self.since
    }

    fn write_header(&self) -> io::Result<()> {
        let mut body = Vec::new();
        put_u64(&mut body, self.bytes);
        put_text(&mut body, &self.since);
        put_text(&mut body, boot_id());
        put_text(&mut body, &self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        self.marks.write_all_at(&framed(MAGIC, &body), 0)
    }

    fn note_broken(&self, reason: &str) {
        let mut held = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() {
            let end = reason.floor_char_boundary(MOST_REASON);
            *held = reason[..end].to_string();
        }
        drop(held);
        self.broken.store(true, Ordering::SeqCst);
    }

    /// The instant is lost: the volume goes on, the snapshot does not.
    fn fail(&self, reason: &str) {
        self.note_broken(reason);
        if self.write_header().is_err() {
            // A file that cannot be read says it as well.
            let _ = self.marks.set_len(0);
        }
    }

    /// An error once the instant is lost.
    pub(super) fn check(&self) -> io::Result<()> {
        if !self.broken.load(Ordering::SeqCst) {
            return Ok(());
        }
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("the bytes of {} are lost: {reason}", self.name)))
    }

    /// The chunks of a block that a range touches, as bits; those of the volume at the instant.
    fn chunks(&self, block: u64, offset: u64, bytes: u64) -> u64 {
        let begin = block * BLOCK_BYTES as u64;
        let from = offset.max(begin);
        let to = offset.saturating_add(bytes).min(begin + BLOCK_BYTES as u64).min(self.bytes);
        if from >= to {
            return 0;
        }
        let (first, end) = ((from - begin) / CHUNK_BYTES, (to - begin).div_ceil(CHUNK_BYTES));
        (u64::MAX >> (64 - (end - first))) << first
    }

    fn missing(&self, block: u64, offset: u64, bytes: u64) -> u64 {
        let word = self.words.get(block);
        if word & RELEASED != 0 {
            return 0;
        }
        self.chunks(block, offset, bytes) & !word
    }

    /// Whether a change of the range must set something aside first.
    pub(super) fn needs(&self, offset: u64, bytes: u64) -> bool {
        !self.broken.load(Ordering::SeqCst) && blocks(offset, bytes).any(|block| self.missing(block, offset, bytes) != 0)
    }

    /// Sets aside what a change of the range replaces. Nobody else may change it meanwhile.
    pub(super) fn set_aside(&self, volume: &dyn Backing, offset: u64, bytes: u64) {
        if self.broken.load(Ordering::SeqCst) {
            return;
        }
        for block in blocks(offset, bytes) {
            if let Err(error) = self.set_block_aside(volume, block, self.missing(block, offset, bytes)) {
                self.fail(&format!("what a write replaces could not be set aside: {error}. Free space, and make the snapshot again"));
                return;
            }
        }
    }

    fn set_block_aside(&self, volume: &dyn Backing, block: u64, missing: u64) -> io::Result<()> {
        if missing == 0 {
            return Ok(());
        }
        for (first, chunks) in runs(missing) {
            let at = block * BLOCK_BYTES as u64 + first * CHUNK_BYTES;
            let length = (chunks * CHUNK_BYTES).min(self.bytes - at);
            if !volume.may_hold_data(at, length) {
                continue;
            }
            let mut old = vec![0; length as usize];
            volume.read(&mut old, at)?;
            // Zeros are what the file has anyway.
            if !is_zero(&old) {
                self.data.write_all_at(&old, at)?;
            }
        }
        let mark = (self.words.get(block) | missing) as u32;
        self.marks.write_all_at(&mark.to_le_bytes(), HEADER_BYTES + block * MARK_BYTES)?;
        self.words.or(block, missing);
        Ok(())
    }

    /// A block as of the instant; zeros behind the end of the volume.
    pub(super) fn read_block(&self, volume: &dyn Backing, block: u64, into: &mut [u8]) -> io::Result<()> {
        let at = block * BLOCK_BYTES as u64;
        let length = self.bytes.saturating_sub(at).min(BLOCK_BYTES as u64) as usize;
        into[length..].fill(0);
        let full = self.chunks(block, at, BLOCK_BYTES as u64);
        if self.words.get(block) & RELEASED != 0 {
            let words = format!("block {block} of {} was stored before, and what was stored is damaged or gone. Make the snapshot again", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        if self.words.get(block) & full != full {
            volume.read(&mut into[..length], at)?;
        }
        // A write that came in between has set the mark before it changed a byte.
        for (first, chunks) in runs(self.words.get(block) & full) {
            let from = (first * CHUNK_BYTES) as usize;
            let to = ((first + chunks) * CHUNK_BYTES).min(length as u64) as usize;
            self.data.read_exact_at(&mut into[from..to], at + from as u64)?;
        }
        self.check()
    }

    /// Whether a block may be anything but zeros.
    pub(super) fn may_hold_data(&self, volume: &dyn Backing, first: u64, count: u64) -> bool {
        let at = first * BLOCK_BYTES as u64;
        let length = (count * BLOCK_BYTES as u64).min(volume.bytes().min(self.bytes).saturating_sub(at));
        // In this order: what is discarded in between was set aside before.
        volume.may_hold_data(at, length) || (first..first + count).any(|block| self.words.get(block) != 0)
    }

    /// A block is stored elsewhere: writes to it need not set anything aside.
    pub(super) fn release(&self, block: u64) {
        // In the file first: when the process dies the volume's bytes must not be taken for those of
        // the instant.
        let at = HEADER_BYTES + blocks_of(self.bytes) * MARK_BYTES + block;
        if self.marks.write_all_at(&[1], at).is_ok() {
            self.words.or(block, RELEASED);
        }
    }
}

/// The blocks that a range touches.
pub(super) fn blocks(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    let first = offset / BLOCK_BYTES as u64;
    first..if bytes == 0 { first } else { blocks_of(offset.saturating_add(bytes)) }
}

/// Runs of bits that are set: first, how many.
fn runs(mut bits: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let skipped = u64::from(bits.trailing_zeros());
        let count = u64::from((bits >> skipped).trailing_ones());
        let first = at + skipped;
        bits = bits.checked_shr((skipped + count) as u32).unwrap_or(0);
        at = first + count;
        Some((first, count))
    })
}
