//! The bytes of an array over its members, where the model's geometry says they lie.

mod resync;

use crate::{within, Backing};
use headrace_catalog::RaidLevel;
use headrace_model::array::{Layout, Piece};
use resync::Dirty;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Locks a place is hashed to: a rebuild and a write, or two parity updates, must not interleave.
const LOCKS: usize = 64;
/// A rebuild goes in steps of this many bytes, and one lock covers as many of each member.
pub const REBUILD_STEP: u32 = 256 << 10;
/// Pieces are made for this many bytes at once.
const PIECES_OF: u64 = 16 << 20;

/// State of the bytes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberData {
    /// Read and written.
    Good,
    /// Not read and not written.
    Failed,
    /// Written, not yet read.
    Rebuilding,
}

/// An array: RAID 0, 1, 5, 10 or 10f2.
pub struct Raid {
    level: RaidLevel,
    layout: Layout,
    rows: Rows,
    members: Vec<Arc<dyn Backing>>,
    /// Read once for each piece and held until the piece is done, so that it sees all members as of
    /// one moment and no request works with an old state.
    states: RwLock<Vec<MemberData>>,
    bytes: AtomicU64,
    locks: Vec<Mutex<()>>,
    dirty: Dirty,
}

/// Rows of an array: runs of its bytes that take one chunk of every member (of every second one's
/// twin, in mirrors).
struct Rows {
    /// Bytes of the array in a row.
    bytes: u64,
    chunk: u64,
    /// The offsets on each member, bytes, from which rows lie.
    copies: Vec<u64>,
    /// End of the rows that have a chunk of every member.
    end: u64,
}

impl Rows {
    fn new(level: RaidLevel, layout: &Layout, members: u64) -> Rows {
        let chunk = layout.chunk_bytes();
        let (chunks, _) = level.data_members(members);
        // Only far copies lie elsewhere than the first.
        let copies = if level == RaidLevel::Raid10F2 { layout.pieces(0, 1)[0].copies.iter().map(|&(_, offset)| offset).collect() } else { vec![0] };
        Rows { bytes: chunks * chunk, chunk, copies, end: layout.even_bytes() }
    }

    /// Returns the whole rows in a range: first byte, end.
    fn whole(&self, at: u64, bytes: u64) -> (u64, u64) {
        let from = at.div_ceil(self.bytes) * self.bytes;
        (from, ((at + bytes).min(self.end) / self.bytes * self.bytes).max(from))
    }
}

fn lost_error() -> io::Error {
    io::Error::other("the data is on a member that failed")
}

fn readable(states: &[MemberData], index: usize) -> bool {
    states[index] == MemberData::Good
}

fn writable(states: &[MemberData], index: usize) -> bool {
    states[index] != MemberData::Failed
}

fn xor(into: &mut [u8], from: &[u8]) {
    into.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

impl Raid {
    /// Makes an array of `bytes` usable bytes.
    pub fn new(level: RaidLevel, layout: Layout, members: Vec<Arc<dyn Backing>>, bytes: u64) -> Raid {
        let states = RwLock::new(vec![MemberData::Good; members.len()]);
        let rows = Rows::new(level, &layout, members.len() as u64);
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        Raid { level, layout, rows, members, states, bytes: AtomicU64::new(bytes), locks, dirty: Dirty::new() }
    }

    fn states(&self) -> RwLockReadGuard<'_, Vec<MemberData>> {
        self.states.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails a member, or says that it is whole again. Requests under way are done with the state
    /// before when this returns.
    pub fn set_member(&self, index: usize, state: MemberData) {
        self.states.write().unwrap_or_else(PoisonError::into_inner)[index] = state;
    }

    fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = Piece> + '_ {
        // Requests are at most some MiB; the edges of a discard may be more, so they go in steps.
        let steps = (0..bytes.div_ceil(PIECES_OF)).map(move |i| (at + i * PIECES_OF, PIECES_OF.min(bytes - i * PIECES_OF) as u32));
        steps.flat_map(|(at, bytes)| self.layout.pieces(at, bytes)).flat_map(cut_at_locks)
    }

    fn hold(&self, key: u64) -> MutexGuard<'_, ()> {
        self.locks[(key % LOCKS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the place of a piece against other writes and a rebuild; None in RAID 0, which needs
    /// no lock.
    fn lock(&self, piece: &Piece) -> Option<MutexGuard<'_, ()>> {
        // RAID 0 has nothing that must stay equal. RAID 5 locks by row, the others by the place of
        // the first copy.
        let (member, offset) = piece.copies[0];
        match self.level {
            RaidLevel::Raid0 => None,
            RaidLevel::Raid5 => Some(self.hold(offset / u64::from(REBUILD_STEP))),
            _ => Some(self.hold(offset / u64::from(REBUILD_STEP) * 31 + member as u64)),
        }
    }

    /// Computes the exclusive or of all members but `without`, at `offset`.
    fn sum_members(&self, states: &[MemberData], without: &[usize], offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        let mut part = vec![0u8; into.len()];
        for index in (0..states.len()).filter(|index| !without.contains(index)) {
            if !readable(states, index) {
                return Err(lost_error());
            }
            self.members[index].read(&mut part, offset)?;
            xor(into, &part);
        }
        Ok(())
    }

    /// Reads a piece from a member that has it, or in RAID 5 from all the others.
    fn read_piece(&self, piece: &Piece, buffer: &mut [u8]) -> io::Result<()> {
        let states = self.states();
        if let Some(&(member, offset)) = piece.copies.iter().find(|&&(member, _)| readable(&states, member)) {
            return self.members[member].read(buffer, offset);
        }
        match (self.level, piece.copies.first()) {
            (RaidLevel::Raid5, Some(&(member, offset))) => {
                let _guard = self.lock(piece);
                self.sum_members(&states, &[member], offset, buffer)
            }
            _ => Err(lost_error()),
        }
    }

    /// Changes all copies of a piece, or its data and parity. Fails if no readable copy is left.
    fn put_piece(&self, piece: &Piece, what: What<'_>) -> io::Result<()> {
        let states = self.states();
        let _guard = self.lock(piece);
        match piece.parity {
            Some(parity) => self.put_with_parity(&states, piece, parity, what),
            None => {
                let mut written = false;
                for &(member, offset) in piece.copies.iter().filter(|&&(member, _)| writable(&states, member)) {
                    self.put(what, piece, member, offset)?;
                    // A copy that cannot be read yet does not keep the data.
                    written |= readable(&states, member);
                }
                if written {
                    Ok(())
                } else {
                    Err(lost_error())
                }
            }
        }
    }

    /// Changes one copy of a piece, or its parity.
    fn put(&self, what: What<'_>, piece: &Piece, member: usize, offset: u64) -> io::Result<()> {
        let result = what.put(&*self.members[member], offset, u64::from(piece.bytes));
        // The other copies or the parity may be of another time now.
        if result.is_err() && self.level != RaidLevel::Raid0 {
            self.mark_dirty_piece(piece);
        }
        result
    }

    /// Changes a piece of RAID 5 and its parity: from the old data and parity, or from all other
    /// members where one of the two cannot be read or the parity may be wrong.
    fn put_with_parity(&self, states: &[MemberData], piece: &Piece, parity: usize, what: What<'_>) -> io::Result<()> {
        let (member, offset) = piece.copies[0];
        let bytes = piece.bytes as usize;
        if !writable(states, parity) {
            return if readable(states, member) { self.put(what, piece, member, offset) } else { Err(lost_error()) };
        }
        let mut new = vec![0u8; bytes];
        let others_readable = || (0..states.len()).all(|index| index == member || index == parity || readable(states, index));
        let is_wrong = self.is_dirty_at(offset) && others_readable();
        if readable(states, member) && readable(states, parity) && !is_wrong {
            let mut old = vec![0u8; bytes];
            self.members[member].read(&mut old, offset)?;
            self.members[parity].read(&mut new, offset)?;
            xor(&mut new, &old);
        } else if readable(states, parity) || readable(states, member) {
            self.sum_members(states, &[member, parity], offset, &mut new)?;
        } else {
            return Err(lost_error());
        }
        if let What::Data(data) = what {
            xor(&mut new, data);
        }
        if writable(states, member) {
            self.put(what, piece, member, offset)?;
        }
        // Parity of nothing but zeros takes no space either.
        let parity_data = if what == What::Hole && new.iter().all(|&byte| byte == 0) { What::Hole } else { What::Data(&new) };
        self.put(parity_data, piece, parity, offset)
    }

    /// Zeros a range. Whole rows are done on each member at once: a discard may be the whole array,
    /// which is not gone through piece by piece.
    fn clear(&self, offset: u64, bytes: u64, what: What<'_>) -> io::Result<()> {
        within(self.bytes(), offset, bytes)?;
        let (from, to) = self.rows.whole(offset, bytes);
        if to - from < PIECES_OF {
            return self.pieces(offset, bytes).try_for_each(|piece| self.put_piece(&piece, what));
        }
        let edges = [(offset, from - offset), (to, offset + bytes - to)];
        edges.into_iter().flat_map(|(at, bytes)| self.pieces(at, bytes)).try_for_each(|piece| self.put_piece(&piece, what))?;
        let states = self.states();
        // The places of all these rows have any of the locks. Everybody else takes one at a time,
        // so taking all in order is safe.
        let _guard: Vec<_> = (0..LOCKS as u64).map(|key| self.hold(key)).collect();
        if !self.survives(&states) {
            return Err(lost_error());
        }
        let (first, length) = (from / self.rows.bytes * self.rows.chunk, (to - from) / self.rows.bytes * self.rows.chunk);
        let mut members = (0..states.len()).filter(|&index| writable(&states, index));
        let done = members.try_for_each(|index| self.rows.copies.iter().try_for_each(|copy| what.put(&*self.members[index], first + copy, length)));
        if done.is_err() {
            self.mark_dirty_from(if self.level == RaidLevel::Raid5 { first } else { from });
        }
        done
    }

    /// Returns true if every byte can be read with members in these states.
    fn survives(&self, states: &[MemberData]) -> bool {
        let is_gone = |index: usize| !readable(states, index);
        let (n, mut all) = (states.len(), 0..states.len());
        match self.level {
            RaidLevel::Raid0 => !all.any(is_gone),
            RaidLevel::Raid1 => !all.all(is_gone),
            RaidLevel::Raid5 => all.filter(|&index| is_gone(index)).count() < 2,
            RaidLevel::Raid10 => !all.any(|index| is_gone(index) && is_gone(index ^ 1)),
            RaidLevel::Raid10F2 => !all.any(|index| is_gone(index) && is_gone((index + 1) % n)),
        }
    }

    /// Returns the number of bytes of each member that hold data.
    pub fn member_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes()).min().unwrap_or(0)
    }

    /// Makes a member as empty as a new one.
    pub fn empty_member(&self, index: usize) -> io::Result<()> {
        self.members[index].discard(0, self.members[index].bytes())
    }

    /// Copies the bytes that `index` must have in `[offset, offset + REBUILD_STEP)` from the other
    /// members. Returns the number of bytes written; holes are not. The member must be
    /// `Rebuilding`, the offset a multiple of the step.
    pub fn rebuild_step(&self, index: usize, offset: u64) -> io::Result<u64> {
        if self.level == RaidLevel::Raid0 {
            return Err(lost_error());
        }
        let bytes = u64::from(REBUILD_STEP).min(self.member_bytes().saturating_sub(offset));
        let mut data = vec![0u8; bytes as usize];
        if self.level == RaidLevel::Raid5 {
            let states = self.states();
            let _guard = self.hold(offset / u64::from(REBUILD_STEP));
            self.sum_members(&states, &[index], offset, &mut data)?;
            return self.put_back(index, offset, &data);
        }
        let mut written = 0;
        let pieces = self.layout.pieces_on(index, offset, bytes as u32).into_iter().flat_map(cut_at_locks);
        for piece in pieces.filter(|piece| piece.at + u64::from(piece.bytes) <= self.bytes()) {
            let states = self.states();
            let _guard = self.lock(&piece);
            let data = &mut data[..piece.bytes as usize];
            let Some(&(source, from)) = piece.copies.iter().find(|&&(member, _)| member != index && readable(&states, member)) else {
                return Err(lost_error());
            };
            self.members[source].read(data, from)?;
            let to = piece.copies.iter().find(|&&(member, at)| member == index && (offset..offset + bytes).contains(&at));
            if let Some(&(_, to)) = to {
                written += self.put_back(index, to, data)?;
            }
        }
        Ok(written)
    }

    /// Writes data to a member, zeros as a hole; returns the number of bytes written, 0 for a hole.
    fn put_back(&self, index: usize, offset: u64, data: &[u8]) -> io::Result<u64> {
        if data.iter().all(|&byte| byte == 0) {
            self.members[index].discard(offset, data.len() as u64)?;
            return Ok(0);
        }
        self.members[index].write(data, offset)?;
        Ok(data.len() as u64)
    }
}

/// Content of a change of a range.
#[derive(Clone, Copy, PartialEq)]
enum What<'a> {
    Data(&'a [u8]),
    /// Zeros whose space is kept.
    Zeros,
    /// Zeros whose space is given back.
    Hole,
}

impl What<'_> {
    fn put(&self, on: &dyn Backing, offset: u64, bytes: u64) -> io::Result<()> {
        match self {
            What::Data(data) => on.write(data, offset),
            What::Zeros => on.zero(offset, bytes),
            What::Hole => on.discard(offset, bytes),
        }
    }
}

/// Cuts a piece into the parts that one lock covers: its first copy ends where the lock's place
/// does.
fn cut_at_locks(piece: Piece) -> impl Iterator<Item = Piece> {
    let step = u64::from(REBUILD_STEP);
    let begin = piece.copies[0].1;
    let parts = begin / step..(begin + u64::from(piece.bytes)).div_ceil(step);
    parts.map(move |part| {
        let skipped = (part * step).saturating_sub(begin);
        let end = ((part + 1) * step - begin).min(u64::from(piece.bytes));
        let copies = piece.copies.iter().map(|&(member, offset)| (member, offset + skipped)).collect();
        Piece { at: piece.at + skipped, bytes: (end - skipped) as u32, copies, parity: piece.parity }
    })
}

impl Backing for Raid {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, buffer.len() as u64)?;
        for piece in self.pieces(offset, buffer.len() as u64) {
            let from = (piece.at - offset) as usize;
            self.read_piece(&piece, &mut buffer[from..from + piece.bytes as usize])?;
        }
        Ok(())
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, data.len() as u64)?;
        for piece in self.pieces(offset, data.len() as u64) {
            let from = (piece.at - offset) as usize;
            self.put_piece(&piece, What::Data(&data[from..from + piece.bytes as usize]))?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        // A copy: a flush may take long, and failing a member must not wait for it.
        let states = self.states().clone();
        (0..states.len()).filter(|&index| writable(&states, index)).try_for_each(|index| self.members[index].flush())
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, What::Hole)
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, What::Zeros)
    }

    /// Grows each member and then the array; a raid10f2 array cannot grow.
    fn grow(&self, bytes: u64) -> io::Result<()> {
        if bytes < self.bytes() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{bytes} bytes are fewer than its {}: a volume never shrinks", self.bytes())));
        }
        if self.level == RaidLevel::Raid10F2 {
            // The second copies begin in the middle of each member: growing moves them all. md
            // refuses it too.
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a raid10f2 array cannot grow: its far copies would have to move"));
        }
        let (data_members, _) = self.level.data_members(self.members.len() as u64);
        self.members.iter().try_for_each(|member| member.grow(bytes.div_ceil(data_members).max(member.bytes())))?;
        self.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    fn allocated(&self) -> io::Result<u64> {
        self.members.iter().map(|member| member.allocated()).sum()
    }

    /// Asks each member for the rows that contain the range; true behind the last row that has a
    /// chunk of every member.
    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes);
        // Behind the rows that have a chunk of every member the places are others.
        if end > self.rows.end {
            return true;
        }
        let (from, to) = (offset / self.rows.bytes * self.rows.chunk, end.div_ceil(self.rows.bytes) * self.rows.chunk);
        self.members.iter().any(|member| self.rows.copies.iter().any(|copy| member.may_hold_data(from + copy, to - from)))
    }
}
