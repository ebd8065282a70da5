//! Copies and parity that may differ: after a write that failed half way, and everywhere after an
//! end in the middle of writes. A resync makes them equal again while the array is in use, as
//! Linux md does: copies become the first one that is in sync, parity is computed from the data.
//!
//! Until that is done, a write to RAID 5 computes its parity from all data of the row. The shorter
//! way, from the old data and the old parity, would carry the difference on.

use super::{readable, xor, MemberData, Piece, Raid, REBUILD_STEP};
use crate::Backing;
use headrace_catalog::RaidLevel;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const STEP: u64 = REBUILD_STEP as u64;
/// Places that are passed over with one look where nothing was written: 1 GiB of a member. A guess:
/// terabytes take some thousand looks.
const LOOK_PLACES: u64 = (1 << 30) / STEP;
/// Places that are noted one by one. A guess; past it, all places are taken to differ.
const MOST_PLACES: usize = 4_096;

/// Places of an array whose copies or parity may differ. A place is a run of [`REBUILD_STEP`]
/// bytes: of each member in RAID 5, of the array in the others.
pub(super) struct Dirty {
    /// True if there is any.
    any: AtomicBool,
    places: Mutex<Places>,
}

struct Places {
    /// All places from this one on; the largest number where that is none.
    from: u64,
    /// Others.
    single: BTreeSet<u64>,
    /// Place among the others that is tried next, so that one that fails does not hold up the rest.
    next: u64,
}

impl Dirty {
    pub(super) fn new() -> Dirty {
        Dirty { any: AtomicBool::new(false), places: Mutex::new(Places { from: u64::MAX, single: BTreeSet::new(), next: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes places that may differ; past [`MOST_PLACES`] of them, all places.
    fn mark(&self, places: impl Iterator<Item = u64>) {
        let mut dirty = self.lock();
        let from = dirty.from;
        dirty.single.extend(places.filter(|&place| place < from));
        if dirty.single.len() > MOST_PLACES {
            dirty.from = 0;
            dirty.single.clear();
        }
        self.any.store(true, Ordering::SeqCst);
    }

    fn mark_from(&self, place: u64) {
        let mut dirty = self.lock();
        dirty.from = dirty.from.min(place);
        let from = dirty.from;
        dirty.single.retain(|&single| single < from);
        self.any.store(true, Ordering::SeqCst);
    }

    fn contains(&self, place: u64) -> bool {
        self.any.load(Ordering::SeqCst) && {
            let dirty = self.lock();
            place >= dirty.from || dirty.single.contains(&place)
        }
    }
}

impl Raid {
    /// Notes that the copies and the parity may differ everywhere, as after an end in the middle of
    /// writes.
    pub fn mark_dirty(&self) {
        self.mark_dirty_from(0);
    }

    /// Notes that copies or parity may differ from a byte on: of a member in RAID 5, of the array
    /// in the others.
    pub(super) fn mark_dirty_from(&self, at: u64) {
        if self.level != RaidLevel::Raid0 {
            self.dirty.mark_from(at / STEP);
        }
    }

    /// Notes that a write of a piece failed, perhaps half way.
    pub(super) fn mark_dirty_piece(&self, piece: &Piece) {
        let at = if self.level == RaidLevel::Raid5 { piece.copies[0].1 } else { piece.at };
        self.dirty.mark(at / STEP..(at + u64::from(piece.bytes)).div_ceil(STEP));
    }

    /// Returns true if the parity at a byte of the members may be wrong.
    pub(super) fn is_dirty_at(&self, offset: u64) -> bool {
        self.dirty.contains(offset / STEP)
    }

    /// Returns true if copies or parity may differ somewhere.
    pub fn is_dirty(&self) -> bool {
        self.dirty.any.load(Ordering::SeqCst)
    }

    /// Returns true if copies or parity may differ, and can be made equal. While a member of RAID 5
    /// is lost, its parity is all that there is of that member.
    pub fn needs_resync(&self) -> bool {
        self.is_dirty() && (self.level != RaidLevel::Raid5 || self.states().iter().all(|&state| state == MemberData::Good))
    }

    /// Makes the copies, or the parity, of the next place with data equal. Returns false when there
    /// is nothing left to do.
    ///
    /// # Errors
    /// A member cannot be read or written: the place is tried again when others were.
    pub fn resync_step(&self) -> io::Result<bool> {
        if !self.needs_resync() {
            return Ok(false);
        }
        let Some(place) = self.take_dirty() else { return Ok(false) };
        let result = self.resync_place(place);
        if result.is_err() {
            self.dirty.mark(std::iter::once(place));
        }
        result.map(|()| true)
    }

    /// Takes a place that was noted one by one, or else the first of the others, past those where
    /// nothing was written; a write that fails from then on notes it again. None: no place is left,
    /// and the array is not dirty any more.
    fn take_dirty(&self) -> Option<u64> {
        loop {
            let mut dirty = self.dirty.lock();
            let next = dirty.single.range(dirty.next..).next().or(dirty.single.first()).copied();
            if let Some(place) = next {
                dirty.single.remove(&place);
                dirty.next = place + 1;
                return Some(place);
            }
            if dirty.from >= self.places() {
                dirty.from = u64::MAX;
                self.dirty.any.store(false, Ordering::SeqCst);
                return None;
            }
            let (place, count) = (dirty.from, if dirty.from % LOOK_PLACES == 0 { LOOK_PLACES } else { 1 });
            dirty.from += count;
            // Writes ask for the lock.
            drop(dirty);
            if !self.may_differ(place, count) {
                continue;
            }
            if count > 1 {
                self.dirty.mark_from(place + 1);
            }
            if self.may_differ(place, 1) {
                return Some(place);
            }
        }
    }

    /// Returns the number of places.
    fn places(&self) -> u64 {
        self.end_of_places().div_ceil(STEP)
    }

    fn end_of_places(&self) -> u64 {
        if self.level == RaidLevel::Raid5 {
            self.member_bytes()
        } else {
            self.bytes()
        }
    }

    /// Returns false if nothing was written to these places on any member.
    fn may_differ(&self, place: u64, count: u64) -> bool {
        let at = place * STEP;
        let bytes = (count * STEP).min(self.end_of_places().saturating_sub(at));
        match self.level {
            RaidLevel::Raid5 => self.members.iter().any(|member| member.may_hold_data(at, bytes)),
            _ => self.may_hold_data(at, bytes),
        }
    }

    /// Makes the copies or the parity of a place equal.
    fn resync_place(&self, place: u64) -> io::Result<()> {
        let at = place * STEP;
        let bytes = STEP.min(self.end_of_places().saturating_sub(at));
        match self.level {
            RaidLevel::Raid5 => self.resync_parity(at, bytes),
            _ => self.pieces(at, bytes).try_for_each(|piece| self.resync_copies(&piece)),
        }
    }

    /// Writes the first readable copy of a piece over the others that differ from it.
    fn resync_copies(&self, piece: &Piece) -> io::Result<()> {
        let states = self.states();
        let _guard = self.lock(piece);
        let mut copies = piece.copies.iter().filter(|&&(member, _)| readable(&states, member));
        // Without any, the data is lost.
        let Some(&(first, from)) = copies.next() else { return Ok(()) };
        let (mut data, mut copy) = (vec![0; piece.bytes as usize], vec![0; piece.bytes as usize]);
        self.members[first].read(&mut data, from)?;
        for &(member, offset) in copies {
            self.members[member].read(&mut copy, offset)?;
            if copy != data {
                self.put_back(member, offset, &data)?;
            }
        }
        Ok(())
    }

    /// Computes the parity of a range of the members' bytes, and corrects it where it differs.
    fn resync_parity(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let states = self.states();
        let _guard = self.hold(offset / STEP);
        // The sum of data and parity, which is zero where the parity is right.
        let mut difference = vec![0; bytes as usize];
        self.sum_members(&states, &[], offset, &mut difference)?;
        let (chunk, end) = (self.rows.chunk, offset + bytes);
        let mut at = offset;
        while at < end {
            let next = ((at / chunk + 1) * chunk).min(end);
            let part = &mut difference[(at - offset) as usize..(next - offset) as usize];
            let parity = self.layout.pieces(at / chunk * self.rows.bytes, 1).first().and_then(|piece| piece.parity);
            if let Some(parity) = parity.filter(|_| part.iter().any(|&byte| byte != 0)) {
                let mut old = vec![0; part.len()];
                self.members[parity].read(&mut old, at)?;
                xor(part, &old);
                self.put_back(parity, at, part)?;
            }
            at = next;
        }
        Ok(())
    }
}
