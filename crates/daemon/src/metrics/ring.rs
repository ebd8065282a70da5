//! A ring file: the newest rows of a volume in slots of one size.
//!
//! Rows are numbered in the order they were written; number n lies in slot n modulo the slots. So
//! the clock may jump as it likes: the ring holds the newest rows. The file grows with its rows, up
//! to `slots`. Idle rows that follow each other share a slot, up to `run_s`; an idle day takes 1.4
//! MiB of seconds and 48 KiB of minutes.
//!
//! Written is one row in one write(2) into one page, never forced to disk: a `kill -9` leaves it
//! whole, a power cut may tear or lose the newest. Torn slots are skipped. The file is opened for
//! each row: a thousand volumes hold no descriptor.

use super::row::Stretch;
use super::slot::Slot;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Slots read at once; divides the slots of every ring.
const CHUNK_SLOTS: u64 = 60;

/// The measures of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub slots: u64,
    /// Divides a page, so that no slot lies in two.
    pub slot_bytes: usize,
    /// Time from row to row, s.
    pub step_s: u64,
    /// A run of idle rows ends where the time is a multiple of this, s.
    pub run_s: u64,
}

/// An hour, 3.5 MiB at most.
pub(crate) const SECONDS: Shape = Shape { slots: 3_600, slot_bytes: 1_024, step_s: 1, run_s: 60 };
/// 15 days, 42.2 MiB at most.
pub(crate) const MINUTES: Shape = Shape { slots: 15 * 1_440, slot_bytes: 2_048, step_s: 60, run_s: 3_600 };

const _: () = assert!(SECONDS.slots % CHUNK_SLOTS == 0 && MINUTES.slots % CHUNK_SLOTS == 0);
const _: () = assert!(4_096 % SECONDS.slot_bytes == 0 && 4_096 % MINUTES.slot_bytes == 0);

pub(crate) struct Ring {
    file: PathBuf,
    shape: Shape,
    /// Sequence of the next slot.
    next: u64,
    /// The last slot, when it is idle.
    idle: Option<Slot>,
    /// The last slot, when its time is not over.
    part: Option<Slot>,
}

impl Ring {
    /// Finds the newest row. A file that is not there has none.
    pub fn open(file: PathBuf, shape: Shape) -> io::Result<Ring> {
        let mut ring = Ring { file, shape, next: 0, idle: None, part: None };
        if let Some(open) = ring.open_file()? {
            for chunk in 0..shape.slots / CHUNK_SLOTS {
                let bytes = ring.read_chunk(&open, chunk * CHUNK_SLOTS)?;
                for (nth, slot) in bytes.chunks(shape.slot_bytes).enumerate() {
                    let place = chunk * CHUNK_SLOTS + nth as u64;
                    if let Some(sequence) = Slot::sequence_of(slot).filter(|sequence| sequence % shape.slots == place) {
                        ring.next = ring.next.max(sequence.saturating_add(1));
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
        }
        Ok(ring)
    }

    /// Returns the sequence the next row gets, unless it joins the run before it.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Makes the sequence of the next row at least `next`: those below are of rows that were lost.
    pub fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Writes a row, or the missing part of a row that [`Ring::push_part`] began. After an error
    /// nothing is changed.
    pub fn push(&mut self, t_s: u64, through: u64, stretch: &Stretch) -> io::Result<()> {
        if self.add_to_part(t_s, stretch)? {
            self.part = None;
            return Ok(());
        }
        let idle = stretch.is_idle();
        if let Some(run) = self.idle.as_mut().filter(|run| idle && run.continues(t_s, stretch, &self.shape)) {
            let mut extended = run.clone();
            extended.rows += 1;
            extended.through = through;
            extended.stretch.add(stretch);
            write_slot(&self.file, &self.shape, &extended)?;
            *run = extended;
            return Ok(());
        }
        let slot = self.append(t_s, through, stretch)?;
        (self.idle, self.part) = (idle.then_some(slot), None);
        Ok(())
    }

    /// Writes a row whose time is not over: later rows of the same time are added to it.
    pub fn push_part(&mut self, t_s: u64, through: u64, stretch: &Stretch) -> io::Result<()> {
        if !self.add_to_part(t_s, stretch)? {
            let slot = self.append(t_s, through, stretch)?;
            (self.idle, self.part) = (None, Some(slot));
        }
        Ok(())
    }

    fn append(&mut self, t_s: u64, through: u64, stretch: &Stretch) -> io::Result<Slot> {
        let slot = Slot { sequence: self.next, t_s, rows: 1, through, stretch: stretch.clone() };
        write_slot(&self.file, &self.shape, &slot)?;
        self.next += 1;
        Ok(slot)
    }

    /// Adds a stretch to the newest slot, if that is the unfinished row of the same time; returns
    /// true if it is.
    fn add_to_part(&mut self, t_s: u64, stretch: &Stretch) -> io::Result<bool> {
        let Some(part) = self.part.as_mut().filter(|part| part.t_s == t_s) else { return Ok(false) };
        let mut extended = part.clone();
        extended.stretch.add(stretch);
        write_slot(&self.file, &self.shape, &extended)?;
        *part = extended;
        Ok(true)
    }

    /// Calls `see` with every slot from the newest to the oldest until it breaks off.
    pub fn walk(&self, mut see: impl FnMut(Slot) -> ControlFlow<()>) -> io::Result<()> {
        let Some(open) = self.open_file()? else { return Ok(()) };
        let oldest = self.next.saturating_sub(self.shape.slots);
        let mut until = self.next;
        while until > oldest {
            let first = (until - 1) / CHUNK_SLOTS * CHUNK_SLOTS;
            let bytes = self.read_chunk(&open, first % self.shape.slots)?;
            for sequence in (first.max(oldest)..until).rev() {
                let at = (sequence - first) as usize * self.shape.slot_bytes;
                let slot = bytes.get(at..).map(|rest| &rest[..rest.len().min(self.shape.slot_bytes)]);
                // A slot of another round was torn or never written in this one.
                let Some(slot) = slot.and_then(Slot::decode).filter(|slot| slot.sequence == sequence) else { continue };
                if see(slot).is_break() {
                    return Ok(());
                }
            }
            until = first;
        }
        Ok(())
    }

    fn open_file(&self) -> io::Result<Option<File>> {
        match File::open(&self.file) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the bytes of [`CHUNK_SLOTS`] slots, less at the file's end.
    fn read_chunk(&self, file: &File, first: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK_SLOTS as usize * self.shape.slot_bytes];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], first * self.shape.slot_bytes as u64 + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Slot {
    /// Returns true if an idle row may join this run.
    fn continues(&self, t_s: u64, stretch: &Stretch, shape: &Shape) -> bool {
        self.stretch.balances == stretch.balances
            && self.rows.checked_mul(shape.step_s).and_then(|long| self.t_s.checked_add(long)) == Some(t_s)
            && t_s % shape.run_s != 0
    }

    /// Returns the rows of a run, newest first; a run's time is shared out evenly. Any other slot
    /// is one row.
    pub fn newest_first(&self, step_s: u64) -> impl Iterator<Item = (u64, Stretch)> + '_ {
        (0..self.rows).rev().map(move |nth| {
            let mut stretch = self.stretch.clone();
            let share = |nanos: u64| nanos / self.rows + u64::from(nth < nanos % self.rows);
            (stretch.sample.span_ns, stretch.sample.idle_ns) = (share(stretch.sample.span_ns), share(stretch.sample.idle_ns));
            (self.t_s.saturating_add(nth.saturating_mul(step_s)), stretch)
        })
    }
}

/// Writes a slot at its place in the file, and makes the folder if that is missing.
fn write_slot(file: &Path, shape: &Shape, slot: &Slot) -> io::Result<()> {
    let open = || OpenOptions::new().write(true).create(true).truncate(false).open(file);
    let open = open().or_else(|error| match (error.kind(), file.parent()) {
        (ErrorKind::NotFound, Some(folder)) => std::fs::create_dir_all(folder).and_then(|()| open()),
        _ => Err(error),
    })?;
    open.write_all_at(&slot.encode(shape.slot_bytes), slot.sequence % shape.slots * shape.slot_bytes as u64)
}
