//! The bytes of an array over its members, where the model's geometry says they lie.

use headrace_catalog::RaidLevel;
use headrace_model::array::{Layout, Piece};
use headrace_store::Backing;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks a chunk is hashed to: a rebuild and a write, or two parity updates, must not interleave.
const LOCKS: usize = 64;
/// A rebuild goes in steps of this many bytes.
pub const REBUILD_STEP: u32 = 256 << 10;

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Member {
    /// Read and written.
    Good = 0,
    /// Neither.
    Failed = 1,
    /// Written, not yet read.
    Rebuilding = 2,
}

/// An array: RAID 0, 1, 5, 10 or 10f2.
pub struct Raid {
    level: RaidLevel,
    layout: Layout,
    members: Vec<Arc<dyn Backing>>,
    states: Vec<AtomicU8>,
    bytes: AtomicU64,
    locks: Vec<Mutex<()>>,
}

fn lost() -> io::Error {
    io::Error::other("the data is on a member that failed")
}

fn xor(into: &mut [u8], from: &[u8]) {
    into.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

impl Raid {
    /// An array of `bytes` usable bytes.
    pub fn new(level: RaidLevel, layout: Layout, members: Vec<Arc<dyn Backing>>, bytes: u64) -> Raid {
        let states = members.iter().map(|_| AtomicU8::new(Member::Good as u8)).collect();
        Raid { level, layout, members, states, bytes: AtomicU64::new(bytes), locks: (0..LOCKS).map(|_| Mutex::new(())).collect() }
    }

    /// How a member stands.
    pub fn member(&self, index: usize) -> Member {
        match self.states[index].load(Ordering::Acquire) {
            0 => Member::Good,
            1 => Member::Failed,
            _ => Member::Rebuilding,
        }
    }

    /// Fails a member, or says that it is whole again.
    pub fn set_member(&self, index: usize, state: Member) {
        self.states[index].store(state as u8, Ordering::Release);
    }

    fn readable(&self, index: usize) -> bool {
        self.member(index) == Member::Good
    }

    fn writable(&self, index: usize) -> bool {
        self.member(index) != Member::Failed
    }

    fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = Piece> + '_ {
        // Requests are at most some MiB; a discard may be the whole array, so it goes in steps.
        let step = 16u64 << 20;
        (0..bytes.div_ceil(step)).flat_map(move |i| self.layout.pieces(at + i * step, step.min(bytes - i * step) as u32))
    }

    fn lock(&self, piece: &Piece) -> Option<MutexGuard<'_, ()>> {
        // RAID 0 has nothing that must stay equal. RAID 5 locks by row, the others by chunk: the offset in a member tells both apart well enough.
        let (member, offset) = piece.copies[0];
        let key = match self.level {
            RaidLevel::Raid0 => return None,
            RaidLevel::Raid5 => offset / u64::from(REBUILD_STEP),
            _ => offset / u64::from(REBUILD_STEP) * 31 + member as u64,
        };
        Some(self.locks[(key % LOCKS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn others(&self, without: &[usize]) -> impl Iterator<Item = usize> + '_ {
        let without = without.to_vec();
        (0..self.members.len()).filter(move |index| !without.contains(index))
    }

    /// The exclusive or of all members but `without`, at `offset`.
    fn sum(&self, without: &[usize], offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        let mut part = vec![0u8; into.len()];
        for index in self.others(without) {
            if !self.readable(index) {
                return Err(lost());
            }
            self.members[index].read(&mut part, offset)?;
            xor(into, &part);
        }
        Ok(())
    }

    fn read_piece(&self, piece: &Piece, buffer: &mut [u8]) -> io::Result<()> {
        if let Some(&(member, offset)) = piece.copies.iter().find(|&&(member, _)| self.readable(member)) {
            return self.members[member].read(buffer, offset);
        }
        match (self.level, piece.copies.first()) {
            (RaidLevel::Raid5, Some(&(member, offset))) => {
                let _held = self.lock(piece);
                self.sum(&[member], offset, buffer)
            }
            _ => Err(lost()),
        }
    }

    fn write_piece(&self, piece: &Piece, data: &[u8]) -> io::Result<()> {
        let _held = self.lock(piece);
        match piece.parity {
            Some(parity) => self.write_with_parity(piece, parity, data),
            None => {
                let mut written = false;
                for &(member, offset) in piece.copies.iter().filter(|&&(member, _)| self.writable(member)) {
                    self.members[member].write(data, offset)?;
                    // A copy that cannot be read yet does not keep the data.
                    written |= self.readable(member);
                }
                if written {
                    Ok(())
                } else {
                    Err(lost())
                }
            }
        }
    }

    fn write_with_parity(&self, piece: &Piece, parity: usize, data: &[u8]) -> io::Result<()> {
        let (member, offset) = piece.copies[0];
        if !self.writable(parity) {
            return if self.readable(member) { self.members[member].write(data, offset) } else { Err(lost()) };
        }
        let mut new = vec![0u8; data.len()];
        if self.readable(member) && self.readable(parity) {
            let mut old = vec![0u8; data.len()];
            self.members[member].read(&mut old, offset)?;
            self.members[parity].read(&mut new, offset)?;
            xor(&mut new, &old);
        } else if self.readable(parity) || self.readable(member) {
            self.sum(&[member, parity], offset, &mut new)?;
        } else {
            return Err(lost());
        }
        xor(&mut new, data);
        if self.writable(member) {
            self.members[member].write(data, offset)?;
        }
        self.members[parity].write(&new, offset)
    }

    /// Bytes of each member that hold data.
    pub fn member_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes()).min().unwrap_or(0)
    }

    /// Copies what `index` must hold in `[offset, offset + REBUILD_STEP)` of it from the others; how many bytes were written (holes are not). The member must be
    /// `Rebuilding`.
    pub fn rebuild_step(&self, index: usize, offset: u64) -> io::Result<u64> {
        if self.level == RaidLevel::Raid0 {
            return Err(lost());
        }
        let bytes = u64::from(REBUILD_STEP).min(self.member_bytes().saturating_sub(offset));
        let mut data = vec![0u8; bytes as usize];
        if self.level == RaidLevel::Raid5 {
            let key = offset / u64::from(REBUILD_STEP);
            let _held = self.locks[(key % LOCKS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner);
            self.sum(&[index], offset, &mut data)?;
            return self.put_back(index, offset, &data);
        }
        let mut written = 0;
        for piece in self.layout.pieces_on(index, offset, bytes as u32).into_iter().filter(|piece| piece.at + u64::from(piece.bytes) <= self.bytes()) {
            let _held = self.lock(&piece);
            let data = &mut data[..piece.bytes as usize];
            let Some(&(source, from)) = piece.copies.iter().find(|&&(member, _)| member != index && self.readable(member)) else { return Err(lost()) };
            self.members[source].read(data, from)?;
            let to = piece.copies.iter().find(|&&(member, at)| member == index && (offset..offset + bytes).contains(&at));
            if let Some(&(_, to)) = to {
                written += self.put_back(index, to, data)?;
            }
        }
        Ok(written)
    }

    fn put_back(&self, index: usize, offset: u64, data: &[u8]) -> io::Result<u64> {
        if data.iter().all(|&byte| byte == 0) {
            self.members[index].discard(offset, data.len() as u64)?;
            return Ok(0);
        }
        self.members[index].write(data, offset)?;
        Ok(data.len() as u64)
    }
}

impl Backing for Raid {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        for piece in self.pieces(offset, buffer.len() as u64) {
            let from = (piece.at - offset) as usize;
            self.read_piece(&piece, &mut buffer[from..from + piece.bytes as usize])?;
        }
        Ok(())
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        for piece in self.pieces(offset, data.len() as u64) {
            let from = (piece.at - offset) as usize;
            self.write_piece(&piece, &data[from..from + piece.bytes as usize])?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        (0..self.members.len()).filter(|&index| self.writable(index)).try_for_each(|index| self.members[index].flush())
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        for piece in self.pieces(offset, bytes) {
            if piece.parity.is_some() {
                // The parity must follow, so the zeros are written.
                self.write_piece(&piece, &vec![0u8; piece.bytes as usize])?;
                continue;
            }
            let _held = self.lock(&piece);
            for &(member, at) in piece.copies.iter().filter(|&&(member, _)| self.writable(member)) {
                self.members[member].discard(at, u64::from(piece.bytes))?;
            }
        }
        Ok(())
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.discard(offset, bytes)
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let n = self.members.len() as u64;
        let holding = match self.level {
            RaidLevel::Raid0 => n,
            RaidLevel::Raid1 => 1,
            RaidLevel::Raid5 => n - 1,
            RaidLevel::Raid10 => n / 2,
            // The second copies begin in the middle of each member: growing moves them all. md refuses it too.
            RaidLevel::Raid10F2 => return Err(io::Error::new(io::ErrorKind::Unsupported, "a raid10f2 array cannot grow: its far copies would have to move")),
        };
        self.members.iter().try_for_each(|member| member.grow((bytes / holding).max(member.bytes())))?;
        self.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    fn allocated(&self) -> io::Result<u64> {
        self.members.iter().map(|member| member.allocated()).sum()
    }
}
