//! Bytes that were set aside for an instant: a sparse file with the old bytes, each at its own
//! place, and a file of marks that say which chunks are in it. Bytes first, then the mark, then the
//! write that replaces them: a process may die at any point in between.

use super::bytes::{framed, put_text, put_u64, unframed, Reader};
use super::changes::{each_mark, Changes};
use super::paged::Words;
use super::{blocks_of, boot_id, is_zero, BLOCK_BYTES};
use crate::encrypted::{Place, SectorCipher, SECTOR};
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
/// Bytes of an instant in one file: the largest file of ext4 has 16 TiB, and an array may have
/// more.
const PART_BYTES: u64 = 8 << 40;
/// Unit in which bytes are set aside: a page of InnoDB. A whole block for each first write would
/// cost a database 32 times the bytes.
const CHUNK_BYTES: u64 = 16 << 10;
/// Chunks of a block, each a bit of its mark.
const CHUNKS: u64 = BLOCK_BYTES as u64 / CHUNK_BYTES;
/// The bit of a block that is stored elsewhere: nothing more is set aside. In the file it is a byte
/// of its own, so that it is not written together with the marks.
const RELEASED: u64 = 1 << CHUNKS;
/// Bytes of a block's mark.
const MARK_BYTES: u64 = 4;
/// Longest reason that is kept, characters: it fits the header in any language.
const MOST_REASON: usize = 900;

/// An instant's files.
pub(super) struct Side {
    pub(super) name: String,
    /// Size of the volume at the instant.
    pub(super) bytes: u64,
    /// Blocks that changed up to the instant.
    pub(super) changes: Arc<Changes>,
    since: String,
    data: Aside,
    marks: File,
    words: Words,
    broken: AtomicBool,
    reason: Mutex<String>,
}

struct Header {
    bytes: u64,
    since: String,
    boot: String,
    reason: String,
}

impl Header {
    fn read(marks: &mut File) -> io::Result<Header> {
        let mut header = vec![0; HEADER_BYTES as usize];
        marks.read_exact(&mut header)?;
        let mut body = Reader(unframed(MAGIC, &header)?.0);
        Ok(Header { bytes: body.u64()?, since: body.text()?, boot: body.text()?, reason: body.text()? })
    }
}

/// Encryption of the bytes that are set aside: that of their volume.
#[derive(Clone)]
pub enum AsideKey {
    /// The bytes are set aside as they are.
    Plain,
    /// The bytes are encrypted with the data key of the volume.
    Sealed(Arc<SectorCipher>),
    /// The volume is encrypted, and its key cannot be used now.
    Locked,
}

/// The old bytes, in as many files as it takes.
struct Aside {
    files: Vec<File>,
    key: AsideKey,
}

impl Aside {
    fn open(folder: &Path, name: &str, bytes: u64, options: &OpenOptions, key: AsideKey) -> io::Result<Aside> {
        let parts = bytes.div_ceil(PART_BYTES).max(1);
        let files = (0..parts).map(|part| options.open(aside_path(folder, name, part))).collect::<io::Result<_>>()?;
        Ok(Aside { files, key })
    }

    /// Writes bytes that are set aside, encrypted as the volume is. A write lies within one file.
    fn write(&self, data: &[u8], at: u64) -> io::Result<()> {
        let file = &self.files[(at / PART_BYTES) as usize];
        match &self.key {
            AsideKey::Plain => file.write_all_at(data, at % PART_BYTES),
            AsideKey::Sealed(cipher) => {
                let mut sealed = data.to_vec();
                cipher.encrypt(Place::Aside, at / SECTOR as u64, &mut sealed);
                file.write_all_at(&sealed, at % PART_BYTES)
            }
            AsideKey::Locked => Err(locked_error()),
        }
    }

    /// Reads bytes that were set aside: zeros where nothing was written, also behind the end of the
    /// file.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match &self.key {
            AsideKey::Plain => self.read_stored(into, at),
            AsideKey::Sealed(cipher) => {
                self.read_stored(into, at)?;
                cipher.decrypt(Place::Aside, at / SECTOR as u64, into);
                Ok(())
            }
            AsideKey::Locked => Err(locked_error()),
        }
    }

    /// Reads bytes as they are stored; zeros behind the end of the file.
    fn read_stored(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        let file = &self.files[(at / PART_BYTES) as usize];
        while !into.is_empty() {
            match file.read_at(into, at % PART_BYTES) {
                Ok(0) => {
                    into.fill(0);
                    return Ok(());
                }
                Ok(read) => {
                    into = &mut into[read..];
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn locked_error() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the volume is encrypted, and its key cannot be used")
}

fn aside_path(folder: &Path, name: &str, part: u64) -> PathBuf {
    folder.join(if part == 0 { format!("{name}.aside") } else { format!("{name}.aside-{part}") })
}

fn marks_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.marks"))
}

/// Removes an instant's files. The marks go first: without them there is no instant.
pub(super) fn remove(folder: &Path, name: &str) {
    let _ = std::fs::remove_file(marks_path(folder, name));
    (0..).map(|part| aside_path(folder, name, part)).take_while(|path| std::fs::remove_file(path).is_ok()).for_each(drop);
}

/// Returns the file of what changed after a capture.
pub(super) fn changes_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.after"))
}

impl Side {
    /// Creates the files. An error when there are some of this name.
    pub(super) fn create(folder: &Path, name: &str, bytes: u64, changes: Arc<Changes>, key: AsideKey) -> io::Result<Side> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let exists = marks_path(folder, name).exists();
        let result = Aside::open(folder, name, bytes, &options, key).and_then(|data| {
            let marks = options.open(marks_path(folder, name))?;
            let since = changes.since().unwrap_or_default().to_string();
            let side = Side::over(name, bytes, changes, since, data, marks);
            side.write_header()?;
            Ok(side)
        });
        if result.is_err() && !exists {
            remove(folder, name);
        }
        result
    }

    fn over(name: &str, bytes: u64, changes: Arc<Changes>, since: String, data: Aside, marks: File) -> Side {
        let words = Words::new(blocks_of(bytes));
        Side { name: name.to_string(), bytes, changes, since, data, marks, words, broken: AtomicBool::new(false), reason: Mutex::new(String::new()) }
    }

    /// Opens the files that a process left. Chunks that they do not have can still be read from the
    /// volume, because nothing was written to them since. Files that cannot be read are those of a
    /// lost instant.
    pub(super) fn open(folder: &Path, name: &str, key: AsideKey) -> io::Result<Side> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut marks = options.open(marks_path(folder, name))?;
        let header = match Header::read(&mut marks) {
            Ok(header) => header,
            Err(error) => {
                let data = Aside::open(folder, name, 0, &options, key)?;
                let side = Side::over(name, 0, Arc::new(Changes::unknown()), String::new(), data, marks);
                side.note_broken(&format!("its marks cannot be read: {error}. Make the snapshot again"));
                return Ok(side);
            }
        };
        let data = Aside::open(folder, name, header.bytes, &options, key)?;
        let changes = Changes::open(&changes_path(folder, &header.since), &header.since).ok().flatten();
        let mut side = Side::over(name, header.bytes, Arc::new(changes.unwrap_or_else(Changes::unknown)), header.since, data, marks);
        if !header.reason.is_empty() {
            side.note_broken(&header.reason);
        } else if header.boot != boot_id() {
            side.fail("the machine stopped while the snapshot was pending, and what was set aside may not be on disk. Make the snapshot again");
        }
        let (words, released_at) = (&side.words, blocks_of(header.bytes) * MARK_BYTES);
        each_mark(&mut side.marks, HEADER_BYTES, |at, byte| match at.checked_sub(released_at) {
            Some(block) => words.or(block, if byte == 0 { 0 } else { RELEASED }),
            None => words.or(at / MARK_BYTES, u64::from(byte) << (at % MARK_BYTES * 8)),
        })?;
        Ok(side)
    }

    /// Returns the capture that it follows, as its file says.
    pub(super) fn since(&self) -> &str {
        &self.since
    }

    /// Writes the header of the file of marks: the volume's bytes, the capture since which changes
    /// count, this boot, and why the snapshot is broken ("" where it is not).
    fn write_header(&self) -> io::Result<()> {
        let mut body = Vec::new();
        put_u64(&mut body, self.bytes);
        put_text(&mut body, &self.since);
        put_text(&mut body, boot_id());
        put_text(&mut body, &self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        let mut header = framed(MAGIC, &body);
        header.resize(HEADER_BYTES as usize, 0);
        self.marks.write_all_at(&header, 0)
    }

    /// Notes in memory that the instant is lost; the first reason stays.
    fn note_broken(&self, reason: &str) {
        let mut stored = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.is_empty() {
            *stored = reason.chars().take(MOST_REASON).collect();
        }
        drop(stored);
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Notes that the instant is lost: the volume goes on, the snapshot does not.
    fn fail(&self, reason: &str) {
        self.note_broken(reason);
        if self.write_header().is_err() {
            // A file that cannot be read says it as well.
            let _ = self.marks.set_len(0);
        }
    }

    /// Returns an error once the instant is lost.
    pub(super) fn check(&self) -> io::Result<()> {
        if !self.broken.load(Ordering::SeqCst) {
            return Ok(());
        }
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("the bytes of {} are lost: {reason}", self.name)))
    }

    /// Returns the chunks of a block that a range touches, as bits; those of the volume at the
    /// instant.
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

    /// Returns true if a change of the range must set something aside first.
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

    /// Sets aside chunks of a block, given as the bits `missing`: the bytes first, then the mark.
    /// Zeros are marked only.
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
                self.data.write(&old, at)?;
            }
        }
        let mark = (self.words.get(block) | missing) as u32;
        self.marks.write_all_at(&mark.to_le_bytes(), HEADER_BYTES + block * MARK_BYTES)?;
        self.words.or(block, missing);
        Ok(())
    }

    /// Reads a block as of the instant; zeros behind the end of the volume.
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
            self.data.read(&mut into[from..to], at + from as u64)?;
        }
        self.check()
    }

    /// Returns false if the blocks are zeros.
    pub(super) fn may_hold_data(&self, volume: &dyn Backing, first: u64, count: u64) -> bool {
        let at = first * BLOCK_BYTES as u64;
        let length = (count * BLOCK_BYTES as u64).min(volume.bytes().min(self.bytes).saturating_sub(at));
        // In this order: bytes discarded in between were set aside before.
        volume.may_hold_data(at, length) || (first..first + count).any(|block| self.words.get(block) != 0)
    }

    /// Notes that a block is stored elsewhere: writes to it need not set anything aside.
    pub(super) fn mark_stored(&self, block: u64) {
        // In the file first: when the process dies the volume's bytes must not be taken for those
        // of the instant.
        let at = HEADER_BYTES + blocks_of(self.bytes) * MARK_BYTES + block;
        if self.marks.write_all_at(&[1], at).is_ok() {
            self.words.or(block, RELEASED);
        }
    }
}

/// Returns the blocks that a range touches.
pub(super) fn blocks(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    let first = offset / BLOCK_BYTES as u64;
    first..if bytes == 0 { first } else { blocks_of(offset.saturating_add(bytes)) }
}

/// Returns the runs of bits that are set: the first bit and their number.
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
