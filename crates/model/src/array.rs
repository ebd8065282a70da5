//! RAID: which members a request touches.
//!
//! Pure geometry, as Linux md lays it out (md(4)): chunks go round the members; `raid10` is md's
//! near-2 layout; `raid10f2` its far-2 layout, whose second copy lies in the other half of the next
//! member; `raid5` is left-symmetric. The speed of a member, and its failure, are known to the
//! volume alone: nothing here needs to know that a slow member slows the stripe.

use crate::io::{Io, Op};
use headrace_catalog::RaidLevel;

/// One request to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the member.
    pub member: usize,
    /// Request to the member.
    pub io: Io,
    /// Another member with the same data, for a read that may go to either.
    pub mirror: Option<(usize, u64)>,
    /// 0 starts at once; 1 (the writes of RAID 5) only when every part 0 is answered.
    pub phase: u8,
}

/// A run of an array's bytes that lies together: inside one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte, as the array's user counts.
    pub at: u64,
    /// Length.
    pub bytes: u32,
    /// Every member that holds it and where; for RAID 5 the member that holds the data.
    pub copies: Vec<(usize, u64)>,
    /// RAID 5: the member that holds the parity, at the same offset.
    pub parity: Option<usize>,
}

/// The layout of an array.
#[derive(Clone, Debug)]
pub struct Layout {
    level: RaidLevel,
    members: u64,
    chunk: u64,
    /// Beginning of the far copies on each member, bytes.
    far_offset: u64,
    /// RAID 0 of unlike members: where the smaller end, the rest goes on over the others. Empty for
    /// like members.
    zones: Vec<Zone>,
}

/// A part of a RAID 0 that is striped over the same members (md(4), RAID0).
#[derive(Clone, Debug)]
struct Zone {
    /// First chunk of the array in it.
    first: u64,
    /// First chunk on each of its members.
    row: u64,
    members: Vec<usize>,
}

/// A run of bytes inside one chunk.
#[derive(Clone, Copy)]
struct ChunkRun {
    chunk: u64,
    within: u64,
    bytes: u32,
}

impl Layout {
    /// Makes the layout of `members` members, `chunk_bytes` a chunk, each member at least
    /// `member_bytes` large.
    pub fn new(level: RaidLevel, members: usize, chunk_bytes: u64, member_bytes: u64) -> Layout {
        let half = member_bytes / 2 / chunk_bytes * chunk_bytes;
        Layout { level, members: members as u64, chunk: chunk_bytes, far_offset: half, zones: Vec::new() }
    }

    /// Makes the layout of members of these sizes: unlike ones matter to RAID 0 alone, on every
    /// other level md uses as much of each member as the smallest has.
    pub fn of_sizes(level: RaidLevel, sizes: &[u64], chunk_bytes: u64) -> Layout {
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let mut layout = Layout::new(level, sizes.len(), chunk_bytes, smallest);
        if level == RaidLevel::Raid0 && sizes.iter().any(|&size| size != smallest) {
            let (mut first, mut row) = (0, 0);
            while let Some(end) = sizes.iter().map(|size| size / chunk_bytes).filter(|&chunks| chunks > row).min() {
                let members: Vec<usize> = (0..sizes.len()).filter(|&member| sizes[member] / chunk_bytes > row).collect();
                let count = members.len() as u64;
                layout.zones.push(Zone { first, row, members });
                first += (end - row) * count;
                row = end;
            }
        }
        layout
    }

    /// Returns the bytes from the start in which every row has a chunk of each member: the whole
    /// array, except for RAID 0 of unlike members.
    pub fn even_bytes(&self) -> u64 {
        self.zones.get(1).map_or(u64::MAX, |zone| zone.first * self.chunk)
    }

    /// Returns the length of a chunk, bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk
    }

    /// Returns the place of copy number `copy` of a chunk's data: the member, and the first byte on
    /// it.
    fn place(&self, chunk: u64, copy: u64) -> (usize, u64) {
        let n = self.members;
        let row = |chunks: u64| chunk / chunks * self.chunk;
        match self.level {
            RaidLevel::Raid0 => self.striped(chunk),
            RaidLevel::Raid1 => (copy as usize, row(1)),
            RaidLevel::Raid10 => ((chunk % (n / 2) * 2 + copy) as usize, row(n / 2)),
            RaidLevel::Raid10F2 => (((chunk + copy) % n) as usize, row(n) + copy * self.far_offset),
            RaidLevel::Raid5 => (self.raid5_member(chunk / (n - 1), chunk % (n - 1)), row(n - 1)),
        }
    }

    /// Returns the member of a RAID 0 that holds a chunk, and the chunk's place on it.
    fn striped(&self, chunk: u64) -> (usize, u64) {
        match self.zones.iter().rev().find(|zone| zone.first <= chunk) {
            None => ((chunk % self.members) as usize, chunk / self.members * self.chunk),
            Some(zone) => {
                let (within, count) = (chunk - zone.first, zone.members.len() as u64);
                (zone.members[(within % count) as usize], (zone.row + within / count) * self.chunk)
            }
        }
    }

    /// Returns the places of a run's copies.
    fn places(&self, run: ChunkRun) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
        (0..copies(self.level, self.members)).map(move |copy| {
            let (member, first) = self.place(run.chunk, copy);
            (member, first + run.within)
        })
    }

    /// Returns the places of `bytes` from `at` on: for moving the data itself.
    pub fn pieces(&self, at: u64, bytes: u32) -> Vec<Piece> {
        let io = Io { op: Op::Read, offset: at, bytes };
        self.runs(&io).map(|run| self.piece(run)).collect()
    }

    /// Returns the pieces of a mirrored array that have a copy on `member` in `bytes` from `offset`
    /// on, as the member counts; empty for RAID 0 and 5.
    pub fn pieces_on(&self, member: usize, offset: u64, bytes: u32) -> Vec<Piece> {
        let (n, m) = (self.members, member as u64);
        let on_member = Io { op: Op::Read, offset, bytes };
        let chunk_at = |row: u64, place: u64| match self.level {
            RaidLevel::Raid1 => Some(row),
            RaidLevel::Raid10 => Some(row * (n / 2) + m / 2),
            RaidLevel::Raid10F2 if place < self.far_offset => Some(row * n + m),
            RaidLevel::Raid10F2 => Some((place - self.far_offset) / self.chunk * n + (m + n - 1) % n),
            _ => None,
        };
        // `far_offset` is whole chunks, so runs of a member end where chunks do.
        self.runs(&on_member)
            .filter_map(|run| chunk_at(run.chunk, run.chunk * self.chunk + run.within).map(|chunk| self.piece(ChunkRun { chunk, ..run })))
            .collect()
    }

    /// Returns a run with the places of its copies and, on RAID 5, of its parity.
    fn piece(&self, run: ChunkRun) -> Piece {
        let n = self.members;
        let parity = (self.level == RaidLevel::Raid5).then(|| self.raid5_member(run.chunk / (n - 1), n - 1));
        Piece { at: run.chunk * self.chunk + run.within, bytes: run.bytes, copies: self.places(run).collect(), parity }
    }

    /// Returns true if some of the data has no copy left; `failed` tells which members are lost.
    pub fn is_lost(&self, failed: impl Fn(usize) -> bool) -> bool {
        let n = self.members as usize;
        let is_gone = |member: usize| failed(member % n);
        let any = (0..n).any(is_gone);
        match self.level {
            RaidLevel::Raid0 => any,
            RaidLevel::Raid1 => (0..n).all(is_gone),
            RaidLevel::Raid10 => (0..n / 2).any(|pair| is_gone(2 * pair) && is_gone(2 * pair + 1)),
            RaidLevel::Raid10F2 => (0..n).any(|member| is_gone(member) && is_gone(member + 1)),
            RaidLevel::Raid5 => (0..n).filter(|&member| is_gone(member)).count() > 1,
        }
    }

    /// Fills `parts` with what the members see of `io`; `failed` tells which members are lost.
    /// Returns false when data of it are lost.
    pub fn split(&self, io: &Io, failed: impl Fn(usize) -> bool, parts: &mut Vec<Part>) -> bool {
        parts.clear();
        if self.level == RaidLevel::Raid5 {
            return self.split_raid5(io, failed, parts);
        }
        self.runs(io).all(|run| match self.level {
            RaidLevel::Raid0 => {
                let (member, first) = self.striped(run.chunk);
                parts.push(part(member, io.op, first + run.within, run.bytes));
                !failed(member)
            }
            _ => self.split_mirrored(io.op, run, &failed, parts),
        })
    }

    /// Cuts a request into runs that lie inside one chunk each.
    fn runs(&self, io: &Io) -> impl Iterator<Item = ChunkRun> {
        let (mut at, end, chunk) = (io.offset, io.offset + u64::from(io.bytes), self.chunk);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let within = at % chunk;
            let bytes = (chunk - within).min(end - at);
            let run = ChunkRun { chunk: at / chunk, within, bytes: bytes as u32 };
            at += bytes;
            Some(run)
        })
    }

    /// Adds the parts of a run to an array with copies: a write to every live copy, a read to one,
    /// with another as `mirror` where it may go to either. Returns false if no copy is live.
    fn split_mirrored(&self, op: Op, run: ChunkRun, failed: &impl Fn(usize) -> bool, parts: &mut Vec<Part>) -> bool {
        let live = || self.places(run).filter(|&(member, _)| !failed(member));
        if op == Op::Write {
            let before = parts.len();
            parts.extend(live().map(|(member, offset)| part(member, op, offset, run.bytes)));
            return parts.len() > before;
        }
        // md's far layout reads the first copy, so that reads stripe over all members; the others
        // go where less is waiting.
        let far = self.level == RaidLevel::Raid10F2;
        // Start the choice at another copy for each chunk, so that ties are shared out.
        let turn = if far { 0 } else { run.chunk % copies(self.level, self.members) };
        let mut choices = live().cycle().skip(turn as usize).take(2);
        let Some((member, offset)) = choices.next() else { return false };
        let mut read = part(member, op, offset, run.bytes);
        read.mirror = choices.next().filter(|&(other, _)| other != member && !far);
        parts.push(read);
        true
    }

    /// Adds the parts of a request to a RAID 5, stripe by stripe. Returns false if two members are
    /// lost.
    fn split_raid5(&self, io: &Io, failed: impl Fn(usize) -> bool, parts: &mut Vec<Part>) -> bool {
        if (0..self.members as usize).filter(|&m| failed(m)).count() > 1 {
            return false;
        }
        let data_chunks = self.members - 1;
        let mut runs = self.runs(io).peekable();
        while let Some(first) = runs.next() {
            let stripe = first.chunk / data_chunks;
            let mut group = vec![first];
            while let Some(run) = runs.next_if(|run| run.chunk / data_chunks == stripe) {
                group.push(run);
            }
            match io.op {
                Op::Read => group.iter().for_each(|run| self.raid5_read(run, &failed, parts)),
                Op::Write => self.raid5_write(stripe, &group, &failed, parts),
            }
        }
        true
    }

    /// Returns the member that holds data chunk `index` of a stripe; `members - 1` asks for its
    /// parity.
    fn raid5_member(&self, stripe: u64, index: u64) -> usize {
        let parity = self.members - 1 - stripe % self.members;
        ((parity + 1 + index) % self.members) as usize
    }

    /// Adds the read of a run, or the reads of all other members from which its lost member's data
    /// are computed.
    fn raid5_read(&self, run: &ChunkRun, failed: &impl Fn(usize) -> bool, parts: &mut Vec<Part>) {
        let (member, first) = self.place(run.chunk, 0);
        let offset = first + run.within;
        if !failed(member) {
            parts.push(part(member, Op::Read, offset, run.bytes));
            return;
        }
        let others = (0..self.members as usize).filter(|&other| other != member);
        parts.extend(others.map(|other| part(other, Op::Read, offset, run.bytes)));
    }

    /// Adds the parts of a write to part of a stripe, which needs the old contents for the parity.
    fn raid5_write(&self, stripe: u64, group: &[ChunkRun], failed: &impl Fn(usize) -> bool, parts: &mut Vec<Part>) {
        let data = self.members - 1;
        let from = group.iter().map(|run| run.within).min().unwrap_or(0);
        let to = group.iter().map(|run| run.within + u64::from(run.bytes)).max().unwrap_or(0);
        let span = (to - from) as u32;
        let touched = |index: u64| group.iter().any(|run| run.chunk % data == index);
        let whole = group.len() as u64 == data && group.iter().all(|run| u64::from(run.bytes) == self.chunk);
        let at = |member: usize, op, within: u64, bytes, phase| Part { phase, ..part(member, op, stripe * self.chunk + within, bytes) };
        let parity = self.raid5_member(stripe, data);
        let first = parts.len();
        if !whole && !failed(parity) {
            let modify = group.len() as u64 + 1 < data - group.len() as u64;
            let lost_target = group.iter().any(|run| failed(self.raid5_member(stripe, run.chunk % data)));
            if modify && !lost_target {
                parts.extend(group.iter().map(|run| at(self.raid5_member(stripe, run.chunk % data), Op::Read, run.within, run.bytes, 0)));
                parts.push(at(parity, Op::Read, from, span, 0));
            } else {
                let rest = (0..data).filter(|&index| !touched(index)).map(|index| self.raid5_member(stripe, index));
                parts.extend(rest.filter(|&member| !failed(member)).map(|member| at(member, Op::Read, from, span, 0)));
            }
        }
        let phase = u8::from(parts.len() > first);
        for run in group {
            let member = self.raid5_member(stripe, run.chunk % data);
            if !failed(member) {
                parts.push(at(member, Op::Write, run.within, run.bytes, phase));
            }
        }
        if !failed(parity) {
            parts.push(at(parity, Op::Write, from, span, phase));
        }
    }
}

/// Mean member requests per logical read and write of `bytes`, all members together: for the
/// interval form. Chunk-aligned random placement in units of 4 KiB is assumed for the share that
/// straddles a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amplification {
    /// Member reads per logical read.
    pub reads_per_read: f64,
    /// Member reads per logical write.
    pub reads_per_write: f64,
    /// Member writes per logical write.
    pub writes_per_write: f64,
}

impl Amplification {
    /// Computes it for a level with `members` members; 1, 0, 1 for a single volume.
    pub fn of(level: Option<RaidLevel>, members: usize) -> Amplification {
        let n = members as f64;
        let (reads_per_write, writes_per_write) = match level {
            None | Some(RaidLevel::Raid0) => (0.0, 1.0),
            Some(RaidLevel::Raid1) => (0.0, n),
            Some(RaidLevel::Raid10 | RaidLevel::Raid10F2) => (0.0, 2.0),
            // Small writes: reconstruct reads the n-2 others, modify reads 2; md takes the fewer.
            Some(RaidLevel::Raid5) => ((n - 2.0).min(2.0), 2.0),
        };
        Amplification { reads_per_read: 1.0, reads_per_write, writes_per_write }
    }
}

/// Returns the copies of every byte in an array; the parity of RAID 5 is none.
pub(crate) fn copies(level: RaidLevel, members: u64) -> u64 {
    match level {
        RaidLevel::Raid1 => members,
        RaidLevel::Raid10 | RaidLevel::Raid10F2 => 2,
        RaidLevel::Raid0 | RaidLevel::Raid5 => 1,
    }
}

/// Makes a part of phase 0 without a mirror.
fn part(member: usize, op: Op, offset: u64, bytes: u32) -> Part {
    Part { member, io: Io { op, offset, bytes }, mirror: None, phase: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 256 << 10;

    fn split(level: RaidLevel, members: usize, io: Io) -> Vec<Part> {
        let mut parts = Vec::new();
        assert!(Layout::new(level, members, CHUNK, 1 << 30).split(&io, |_| false, &mut parts));
        parts
    }

    fn io(op: Op, chunk: u64, bytes: u32) -> Io {
        Io { op, offset: chunk * CHUNK, bytes }
    }

    #[test]
    fn raid0_goes_round_and_splits_at_chunks() {
        let parts = split(RaidLevel::Raid0, 4, Io { op: Op::Write, offset: 5 * CHUNK - 8_192, bytes: 16_384 });
        assert_eq!(parts.iter().map(|p| (p.member, p.io.offset, p.io.bytes)).collect::<Vec<_>>(), [(0, 2 * CHUNK - 8_192, 8_192), (1, CHUNK, 8_192)]);
    }

    #[test]
    fn raid10_writes_both_of_a_pair_and_far_copies_go_to_the_next() {
        let near = split(RaidLevel::Raid10, 4, io(Op::Write, 3, 16_384));
        assert_eq!(near.iter().map(|p| p.member).collect::<Vec<_>>(), [2, 3]);
        let far = split(RaidLevel::Raid10F2, 4, io(Op::Write, 3, 16_384));
        assert_eq!(far.iter().map(|p| (p.member, p.io.offset)).collect::<Vec<_>>(), [(3, 0), (0, 1 << 29)]);
    }

    #[test]
    fn an_array_is_lost_when_a_chunk_has_no_copy_left() {
        for (level, members) in [
            (RaidLevel::Raid0, 3),
            (RaidLevel::Raid1, 2),
            (RaidLevel::Raid1, 3),
            (RaidLevel::Raid10, 4),
            (RaidLevel::Raid10, 6),
            (RaidLevel::Raid10F2, 3),
            (RaidLevel::Raid10F2, 4),
            (RaidLevel::Raid5, 3),
            (RaidLevel::Raid5, 4),
        ] {
            let layout = Layout::new(level, members, CHUNK, 1 << 30);
            for lost in 0..1u32 << members {
                let failed = |member: usize| lost & (1 << member) != 0;
                // Every chunk of a few rows, read by itself.
                let mut parts = Vec::new();
                let readable = (0..4 * members as u64).all(|chunk| layout.split(&io(Op::Read, chunk, 4_096), failed, &mut parts));
                assert_eq!(layout.is_lost(failed), !readable, "{level:?} of {members}, lost {lost:b}");
            }
        }
    }

    #[test]
    fn a_small_raid5_write_on_three_members_reads_one_and_writes_two() {
        let parts = split(RaidLevel::Raid5, 3, io(Op::Write, 0, 16_384));
        assert_eq!(parts.iter().map(|p| (p.io.op, p.phase)).collect::<Vec<_>>(), [(Op::Read, 0), (Op::Write, 1), (Op::Write, 1)]);
        // Five members: two reads (old data, old parity) are fewer than three.
        assert_eq!(split(RaidLevel::Raid5, 5, io(Op::Write, 0, 16_384)).iter().filter(|p| p.io.op == Op::Read).count(), 2);
    }

    /// md(4): of members of 4, 2 and 3 chunks, two rows go over all, one over the first and the
    /// third, one over the first.
    #[test]
    fn raid0_of_unlike_members_uses_all_of_each() {
        let layout = Layout::of_sizes(RaidLevel::Raid0, &[4 * CHUNK, 2 * CHUNK, 3 * CHUNK], CHUNK);
        let places: Vec<(usize, u64)> = (0..9).map(|chunk| layout.pieces(chunk * CHUNK, 512)[0].copies[0]).map(|(m, at)| (m, at / CHUNK)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2), (2, 2), (0, 3)]);
        assert_eq!(layout.even_bytes(), 6 * CHUNK);
        // Every chunk of every member is used once, whatever the sizes.
        for sizes in [[1u64, 5, 5, 9], [7, 7, 7, 7], [3, 1, 2, 1]] {
            let layout = Layout::of_sizes(RaidLevel::Raid0, &sizes.map(|chunks| chunks * CHUNK), CHUNK);
            let mut used: Vec<(usize, u64)> = (0..sizes.iter().sum()).map(|chunk| layout.pieces(chunk * CHUNK, 1)[0].copies[0]).collect();
            used.sort_unstable();
            let all: Vec<(usize, u64)> = (0..4).flat_map(|member| (0..sizes[member]).map(move |chunk| (member, chunk * CHUNK))).collect();
            assert_eq!(used, all);
        }
        // Members of one size are laid out as without zones.
        let (like, plain) = (Layout::of_sizes(RaidLevel::Raid0, &[1 << 30; 3], CHUNK), Layout::new(RaidLevel::Raid0, 3, CHUNK, 1 << 30));
        assert!((0..99).all(|chunk| like.pieces(chunk * CHUNK, 9) == plain.pieces(chunk * CHUNK, 9)));
        assert_eq!(like.even_bytes(), u64::MAX);
    }

    /// The data path and the charging path must mean the same places: a mirrored or striped write
    /// goes to exactly the copies of its pieces.
    #[test]
    fn pieces_lie_where_the_parts_of_a_write_go() {
        for (level, members) in [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 2), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 3), (RaidLevel::Raid5, 4)] {
            let layout = Layout::new(level, members, CHUNK, 1 << 30);
            for start in 0..200 {
                let write = Io { op: Op::Write, offset: start * 40_960, bytes: 300_000 };
                let mut parts = Vec::new();
                assert!(layout.split(&write, |_| false, &mut parts));
                let mut charged: Vec<_> = parts.iter().filter(|p| p.io.op == Op::Write).map(|p| (p.member, p.io.offset, p.io.bytes)).collect();
                if level == RaidLevel::Raid5 {
                    // The parity's part may span more than one run: only the data's are compared.
                    let pieces = layout.pieces(write.offset, write.bytes);
                    assert!(pieces.iter().all(|p| charged.contains(&(p.copies[0].0, p.copies[0].1, p.bytes)) && p.parity != Some(p.copies[0].0)));
                    continue;
                }
                let mut placed: Vec<_> =
                    layout.pieces(write.offset, write.bytes).iter().flat_map(|p| p.copies.iter().map(|c| (c.0, c.1, p.bytes)).collect::<Vec<_>>()).collect();
                charged.sort_unstable();
                placed.sort_unstable();
                assert_eq!(charged, placed, "{level:?}");
            }
        }
        let layout = Layout::of_sizes(RaidLevel::Raid0, &[30 * CHUNK, 7 * CHUNK, 12 * CHUNK], CHUNK);
        for start in 0..290 {
            let write = Io { op: Op::Write, offset: start * 40_960, bytes: 300_000 };
            let mut parts = Vec::new();
            assert!(layout.split(&write, |_| false, &mut parts));
            let charged: Vec<_> = parts.iter().map(|p| (p.member, p.io.offset, p.io.bytes)).collect();
            let placed: Vec<_> = layout.pieces(write.offset, write.bytes).iter().map(|p| (p.copies[0].0, p.copies[0].1, p.bytes)).collect();
            assert_eq!(charged, placed);
        }
    }

    #[test]
    fn pieces_are_found_from_their_members_too() {
        for (level, members) in [(RaidLevel::Raid1, 3), (RaidLevel::Raid10, 4), (RaidLevel::Raid10F2, 3)] {
            let layout = Layout::new(level, members, CHUNK, 64 << 20);
            for piece in layout.pieces(0, 20 << 20) {
                for &(member, offset) in &piece.copies {
                    assert_eq!(layout.pieces_on(member, offset, piece.bytes), std::slice::from_ref(&piece), "{level:?} {member} {offset}");
                }
            }
        }
    }

    #[test]
    fn a_whole_stripe_needs_no_reads() {
        let parts = split(RaidLevel::Raid5, 3, io(Op::Write, 0, 2 * CHUNK as u32));
        assert_eq!(parts.iter().map(|p| p.io.op).collect::<Vec<_>>(), [Op::Write; 3]);
    }

    #[test]
    fn losses_are_survived_as_far_as_the_level_can() {
        let lost = |level, members, dead: &[usize]| {
            let mut parts = Vec::new();
            let layout = Layout::new(level, members, CHUNK, 1 << 30);
            (0..64).all(|chunk| layout.split(&io(Op::Read, chunk, 4_096), |m| dead.contains(&m), &mut parts) && parts.iter().all(|p| !dead.contains(&p.member)))
        };
        assert!(!lost(RaidLevel::Raid0, 4, &[2]));
        assert!(lost(RaidLevel::Raid1, 2, &[0]));
        assert!(lost(RaidLevel::Raid10, 4, &[0, 3]));
        assert!(!lost(RaidLevel::Raid10, 4, &[0, 1]));
        assert!(lost(RaidLevel::Raid5, 3, &[1]));
        assert!(!lost(RaidLevel::Raid5, 3, &[1, 2]));
    }
}
