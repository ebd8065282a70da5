//! A power cut: writes since the last flush are kept, lost or torn, by a random number generator
//! with a seed.
//!
//! While a cut is armed every write first sets aside the bytes that it replaces and its own. A
//! flush forgets all that: those writes are safe. The cut goes back to the flushed state and makes
//! the lucky writes again, in order: whole (kept) or up to one 512-byte sector (torn). A drive
//! writes whole sectors.

use crate::{within, Backing};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Unit that a disk writes whole, bytes: the sector that EBS volumes show.
const SECTOR: usize = 512;
/// Most bytes that are set aside; more is flushed first, which makes it safe.
const MOST_BYTES: usize = 256 << 20;

/// Writes that a cut did away with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Writes since the last flush.
    pub unflushed: u64,
    /// Number of those writes that are gone.
    pub lost: u64,
    /// Number of those writes that are there in part.
    pub torn: u64,
}

struct Unflushed {
    offset: u64,
    old: Vec<u8>,
    /// Bytes of the write; None stands for zeros.
    new: Option<Vec<u8>>,
}

#[derive(Default)]
struct Aside {
    writes: Vec<Unflushed>,
    bytes: usize,
}

/// A backing that a power cut may strike.
pub struct PowerCut {
    inner: Arc<dyn Backing>,
    armed: AtomicBool,
    aside: Mutex<Aside>,
}

impl PowerCut {
    /// Passes everything through until armed.
    pub fn new(inner: Arc<dyn Backing>) -> PowerCut {
        PowerCut { inner, armed: AtomicBool::new(false), aside: Mutex::new(Aside::default()) }
    }

    /// Arms the cut: writes can be lost from now on. Earlier writes are flushed, so they cannot be
    /// lost; nothing is armed where that fails.
    pub fn arm(&self) -> io::Result<()> {
        self.armed.store(true, Ordering::SeqCst);
        self.flush().inspect_err(|_| self.disarm())
    }

    /// Returns true if the cut is armed.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// Takes the cut back: no write is lost. Returns after a cut that is under way.
    pub fn disarm(&self) {
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        self.armed.store(false, Ordering::SeqCst);
        *aside = Aside::default();
    }

    /// Cuts the power: every write since the last flush is kept, lost or torn, each a third of the
    /// time. No cut is armed afterwards.
    pub fn cut(&self, seed: u64) -> io::Result<CutReport> {
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        self.armed.store(false, Ordering::SeqCst);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let writes = std::mem::take(&mut aside.writes);
        let mut report = CutReport { unflushed: writes.len() as u64, ..CutReport::default() };
        for write in writes.iter().rev() {
            self.inner.write(&write.old, write.offset)?;
        }
        for write in &writes {
            let fate = random.next_u64();
            let bytes = write.old.len();
            let sectors = bytes / SECTOR;
            let survived = match fate % 3 {
                0 => bytes,
                1 => 0,
                _ if sectors < 2 => 0,
                _ => SECTOR * (1 + (fate >> 32) as usize % (sectors - 1)),
            };
            report.lost += u64::from(survived == 0);
            report.torn += u64::from(survived > 0 && survived < bytes);
            match &write.new {
                Some(new) => self.inner.write(&new[..survived], write.offset)?,
                None => self.inner.discard(write.offset, survived as u64)?,
            }
        }
        aside.bytes = 0;
        self.inner.flush()?;
        Ok(report)
    }

    /// Sets aside what a change of the range replaces and brings (`new`; none: zeros), then makes
    /// it.
    fn change(&self, offset: u64, bytes: u64, new: Option<&[u8]>, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.is_armed() {
            return make();
        }
        within(self.bytes(), offset, bytes)?;
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_armed() {
            // The power was cut while it waited: it comes after the cut.
            drop(aside);
            return make();
        }
        let needed = bytes as usize * if new.is_some() { 2 } else { 1 };
        if aside.bytes + needed > MOST_BYTES {
            self.inner.flush()?;
            *aside = Aside::default();
        }
        // One request larger than all that may be set aside (a discard of gigabytes) is taken as
        // safe at once.
        if needed <= MOST_BYTES {
            let mut old = vec![0u8; bytes as usize];
            self.inner.read(&mut old, offset)?;
            aside.bytes += needed;
            aside.writes.push(Unflushed { offset, old, new: new.map(<[u8]>::to_vec) });
        }
        make()
    }
}

impl Backing for PowerCut {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.change(offset, data.len() as u64, Some(data), || self.inner.write(data, offset))
    }

    /// Flushes, and forgets all writes that were set aside: they cannot be lost any more.
    fn flush(&self) -> io::Result<()> {
        if !self.is_armed() {
            return self.inner.flush();
        }
        // Held over the flush: a write that came meanwhile is not covered by it.
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.flush()?;
        *aside = Aside::default();
        Ok(())
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(offset, bytes, None, || self.inner.discard(offset, bytes))
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(offset, bytes, None, || self.inner.zero(offset, bytes))
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        self.inner.grow(bytes)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.inner.allocated()
    }

    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        self.inner.may_hold_data(offset, bytes)
    }
}
