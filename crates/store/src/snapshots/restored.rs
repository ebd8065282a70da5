//! A volume made of a snapshot, usable at once: a block is fetched when it is first touched.
//!
//! A block is cold until its bytes are in the volume: fetched, checked and written, or written
//! whole by the guest, or discarded. A mark in a file says that it is warm: 1 when its bytes are
//! written, 2 when they were flushed. After the process died both are good, after the machine died
//! only the second; a block without a mark is fetched (again), which loses nothing that was
//! flushed.

use super::bytes::{damaged, framed, put_text, put_u64, unframed, Reader};
use super::changes::each_mark;
use super::direct::read_block;
use super::manifest::Manifest;
use super::side::blocks;
use super::{boot_id, BlockCipher, BlockSet, BLOCK_BYTES};
use crate::objects::{sync_folder, Objects};
use crate::{within, Backing};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"HRWARM01";
/// Bytes in front of the marks.
const HEADER_BYTES: u64 = 4_096;
/// A block whose bytes are in the volume.
const WRITTEN: u8 = 1;
/// The bytes of the block are in the volume, and they were flushed.
const FLUSHED: u8 = 2;
/// Blocks of a discard that are done at once: 512 MiB.
const CLEARED_AT_ONCE: u64 = 1_024;

/// Function that takes a sentence about a block that could not be fetched.
type Log = Box<dyn Fn(&str) + Send + Sync>;

/// A volume whose blocks come from a snapshot.
pub struct Restored {
    inner: Arc<dyn Backing>,
    manifest: Arc<Manifest>,
    objects: Objects,
    cipher: Option<Arc<dyn BlockCipher>>,
    marks: File,
    /// Blocks that are still to be fetched, and how many there are.
    cold: BlockSet,
    cold_count: AtomicU64,
    /// Blocks that are being fetched or written for the first time.
    busy: Mutex<HashSet<u64>>,
    freed: Condvar,
    /// Blocks with the first mark only.
    unflushed: Mutex<Vec<u64>>,
    /// The lock under which a flush gives blocks their second mark.
    flushing: Mutex<()>,
    log: Log,
}

/// Blocks that nobody else fetches or marks.
struct Claim<'a> {
    restored: &'a Restored,
    blocks: Vec<u64>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut busy = self.restored.busy();
        for block in &self.blocks {
            busy.remove(block);
        }
        drop(busy);
        self.restored.freed.notify_all();
    }
}

impl Restored {
    /// Creates a volume over an empty backing, at least as large as the snapshot. `marks` is a file
    /// of its own; an error when it exists.
    pub fn create(
        inner: Arc<dyn Backing>,
        manifest: Arc<Manifest>,
        objects: Objects,
        cipher: Option<Arc<dyn BlockCipher>>,
        marks: &Path,
    ) -> io::Result<Restored> {
        if inner.bytes() < manifest.bytes() {
            let sentence = format!("a volume of {} bytes is smaller than {} with its {} bytes", inner.bytes(), manifest.name(), manifest.bytes());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(marks).map_err(|error| file_error(marks, &error))?;
        // On disk before the guest writes anything: without marks its writes would be lost.
        let result = write_header(&file, &manifest).and_then(|()| file.sync_all()).and_then(|()| marks.parent().map_or(Ok(()), sync_folder));
        if let Err(error) = result {
            let _ = std::fs::remove_file(marks);
            return Err(file_error(marks, &error));
        }
        Ok(Restored::over(inner, manifest, objects, cipher, file))
    }

    /// Opens a volume that was created before. An error when its marks are missing or damaged, or
    /// those of another snapshot: without them the guest's writes cannot be told from what must be
    /// fetched.
    pub fn open(
        inner: Arc<dyn Backing>,
        manifest: Arc<Manifest>,
        objects: Objects,
        cipher: Option<Arc<dyn BlockCipher>>,
        marks: &Path,
    ) -> io::Result<Restored> {
        let mut file = OpenOptions::new().read(true).write(true).open(marks).map_err(|error| file_error(marks, &error))?;
        let boot = read_header(&mut file, &manifest).map_err(|error| file_error(marks, &error))?;
        let mut restored = Restored::over(inner, manifest, objects, cipher, file);
        let good = |mark: u8| mark == FLUSHED || (mark == WRITTEN && boot == boot_id());
        let (mut unflushed, mut lost) = (Vec::new(), Vec::new());
        let (cold, cold_count) = (&restored.cold, &restored.cold_count);
        each_mark(&mut restored.marks, HEADER_BYTES, |block, mark| {
            if good(mark) && cold.contains(block) {
                cold_count.fetch_sub(1, Ordering::SeqCst);
                cold.remove(block);
            }
            match mark {
                WRITTEN if good(mark) => unflushed.push(block),
                WRITTEN => lost.push(block),
                _ => {}
            }
        })?;
        for block in lost {
            restored.marks.write_all_at(&[0], HEADER_BYTES + block)?;
        }
        if boot != boot_id() {
            restored.marks.sync_all()?;
            write_header(&restored.marks, &restored.manifest)?;
        }
        restored.unflushed = Mutex::new(unflushed);
        Ok(restored)
    }

    fn over(inner: Arc<dyn Backing>, manifest: Arc<Manifest>, objects: Objects, cipher: Option<Arc<dyn BlockCipher>>, marks: File) -> Restored {
        let (cold, cold_count) = (manifest.set().copy(), AtomicU64::new(manifest.blocks()));
        let log: Log = Box::new(|sentence| eprintln!("{sentence}"));
        let (busy, unflushed) = (Mutex::new(HashSet::new()), Mutex::new(Vec::new()));
        Restored { inner, manifest, objects, cipher, marks, cold, cold_count, busy, freed: Condvar::new(), unflushed, flushing: Mutex::new(()), log }
    }

    /// Tells `log` why a block could not be fetched, instead of standard error.
    pub fn with_log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Restored {
        self.log = Box::new(log);
        self
    }

    /// Returns the snapshot it is made of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the number of blocks that are still to be fetched.
    pub fn cold_blocks(&self) -> u64 {
        self.cold_count.load(Ordering::SeqCst)
    }

    /// Returns the number of blocks in a range that are still to be fetched.
    pub fn cold_in(&self, offset: u64, bytes: u64) -> u64 {
        if self.cold_blocks() == 0 {
            return 0;
        }
        blocks(offset, bytes).filter(|&block| self.is_cold(block)).count() as u64
    }

    /// Returns true if a block is still to be fetched.
    pub fn is_cold(&self, block: u64) -> bool {
        self.cold.contains(block)
    }

    /// Returns the first block from `block` on that is cold.
    pub fn next_cold(&self, block: u64) -> Option<u64> {
        self.cold.next(block)
    }

    /// Fetches a block if it is cold. Returns true if it was.
    pub fn initialize(&self, block: u64) -> io::Result<bool> {
        if !self.is_cold(block) {
            return Ok(false);
        }
        let _claim = self.claim(vec![block]);
        if !self.is_cold(block) {
            return Ok(false);
        }
        let fetched = read_block(&self.objects, &self.manifest, block, self.cipher.as_deref());
        let data = fetched.inspect_err(|error| (self.log)(&error.to_string()))?;
        let (at, length) = self.extent(block);
        if let Some(data) = data {
            self.inner.write(&data[..length as usize], at)?;
        }
        self.mark(&[block])?;
        Ok(true)
    }

    /// Returns the offset of a block in the volume, bytes, and the number of its bytes in the
    /// snapshot.
    fn extent(&self, block: u64) -> (u64, u64) {
        let at = block * BLOCK_BYTES as u64;
        (at, (BLOCK_BYTES as u64).min(self.manifest.bytes() - at))
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has any of the blocks, and takes them all.
    fn claim(&self, blocks: Vec<u64>) -> Claim<'_> {
        let mut busy = self.busy();
        while blocks.iter().any(|block| busy.contains(block)) {
            busy = self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy.extend(&blocks);
        Claim { restored: self, blocks }
    }

    /// Marks blocks whose bytes are in the volume. They must be claimed.
    fn mark(&self, blocks: &[u64]) -> io::Result<()> {
        let new: Vec<u64> = blocks.iter().copied().filter(|&block| self.is_cold(block)).collect();
        new.iter().try_for_each(|block| self.marks.write_all_at(&[WRITTEN], HEADER_BYTES + block))?;
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner).extend(&new);
        new.iter().for_each(|&block| self.cold.remove(block));
        self.cold_count.fetch_sub(new.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    /// Makes a change of a range: fetches cold blocks that it covers in part, and marks those that
    /// it covers whole.
    fn change(&self, offset: u64, bytes: u64, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.cold_in(offset, bytes) == 0 {
            return make();
        }
        let mut whole = Vec::new();
        for block in blocks(offset, bytes).filter(|&block| self.is_cold(block)) {
            let (at, length) = self.extent(block);
            if offset <= at && at + length <= offset + bytes {
                whole.push(block);
            } else {
                self.initialize(block)?;
            }
        }
        let claim = self.claim(whole);
        make()?;
        self.mark(&claim.blocks)
    }

    /// Discards or zeros a range in steps of [`CLEARED_AT_ONCE`] blocks, so that only those are
    /// claimed at once.
    fn clear(&self, offset: u64, bytes: u64, make: impl Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        within(self.bytes(), offset, bytes)?;
        if self.cold_blocks() == 0 {
            return make(offset, bytes);
        }
        let (end, step) = (offset + bytes, CLEARED_AT_ONCE * BLOCK_BYTES as u64);
        let mut at = offset;
        while at < end {
            let part = (step - at % step).min(end - at);
            self.change(at, part, || make(at, part))?;
            at += part;
        }
        Ok(())
    }
}

fn file_error(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Writes the header of the marks: the snapshot, its size in bytes, and this start of the machine.
fn write_header(file: &File, manifest: &Manifest) -> io::Result<()> {
    let mut body = Vec::new();
    put_text(&mut body, manifest.name());
    put_u64(&mut body, manifest.bytes());
    put_text(&mut body, boot_id());
    let mut header = framed(MAGIC, &body);
    header.resize(HEADER_BYTES as usize, 0);
    file.write_all_at(&header, 0)
}

/// Reads the start of the machine that the marks are of.
fn read_header(file: &mut File, manifest: &Manifest) -> io::Result<String> {
    let mut header = vec![0; HEADER_BYTES as usize];
    file.read_exact(&mut header)?;
    let mut body = Reader(unframed(MAGIC, &header)?.0);
    let (name, bytes, boot) = (body.text()?, body.u64()?, body.text()?);
    if name != manifest.name() || bytes != manifest.bytes() {
        return Err(damaged(format!("these are the marks of a volume made of {name}, not of {}", manifest.name())));
    }
    Ok(boot)
}

impl Backing for Restored {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    /// Fetches the cold blocks of the range first.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, buffer.len() as u64)?;
        if self.cold_blocks() > 0 {
            for block in blocks(offset, buffer.len() as u64) {
                self.initialize(block)?;
            }
        }
        self.inner.read(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, data.len() as u64)?;
        self.change(offset, data.len() as u64, || self.inner.write(data, offset))
    }

    /// Flushes the bytes, and then gives the blocks written before the second mark, on disk.
    fn flush(&self) -> io::Result<()> {
        // Another flush may have the blocks of a write before this one: its marks must be on disk,
        // too, when this one is answered.
        let flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = std::mem::take(&mut *self.unflushed.lock().unwrap_or_else(PoisonError::into_inner));
        if marked.is_empty() {
            drop(flushing);
            return self.inner.flush();
        }
        let flushed = self.inner.flush().and_then(|()| {
            marked.iter().try_for_each(|block| self.marks.write_all_at(&[FLUSHED], HEADER_BYTES + block))?;
            self.marks.sync_data()
        });
        if flushed.is_err() {
            self.unflushed.lock().unwrap_or_else(PoisonError::into_inner).extend(marked);
        }
        flushed
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, |at, bytes| self.inner.discard(at, bytes))
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, |at, bytes| self.inner.zero(at, bytes))
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        self.inner.grow(bytes)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.inner.allocated()
    }

    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        self.inner.may_hold_data(offset, bytes) || self.cold_in(offset, bytes) > 0
    }
}

/// Fetches every cold block, with several threads. `each` is called with the number of every block
/// that was fetched, and ends it by returning false. The first error ends it too.
pub fn initialize_all(restored: &Restored, threads: usize, each: &(dyn Fn(u64) -> bool + Sync)) -> io::Result<()> {
    let (next, stop) = (Mutex::new(0), AtomicBool::new(false));
    let work = || -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let mut from = next.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(block) = restored.next_cold(*from) else { break };
            *from = block + 1;
            drop(from);
            let fetched = restored.initialize(block).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            if fetched && !each(block) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early"))))
    })
}
