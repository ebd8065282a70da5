//! A segment: up to 32 blocks in one object, and behind them which blocks they are.
//!
//! ```text
//!  block 512 KiB | block | ... | for each block: index u64, digest 16 bytes | checksum u32, blocks u32, magic
//! ```
//!
//! The table at the end lets an upload that was interrupted go on: stored bytes name their format.

use super::bytes::{damaged, put_u32, put_u64, Reader};
use super::{Digest, BLOCK_BYTES};
use crate::objects::Objects;
use std::io;

/// Blocks of a full segment: 16 MiB. Smaller and an object's overhead shows (a request, or a file
/// with its flush), larger and more memory is held by each thread of an upload. A guess.
pub const SEGMENT_BLOCKS: u32 = 32;
const MAGIC: &[u8; 8] = b"HRSEGM01";
/// Bytes of the table for each block: index and digest.
const ENTRY_BYTES: usize = 8 + 16;
/// Bytes behind the table: checksum, number of blocks, magic.
const TAIL_BYTES: usize = 4 + 4 + 8;

/// Returns the prefix of the names of a snapshot's segments.
pub fn folder_of(snapshot: &str) -> String {
    format!("segments/{snapshot}/")
}

/// Returns the name of an object with the blocks of a snapshot.
pub(crate) fn name_of(snapshot: &str, number: u32) -> String {
    format!("segments/{snapshot}/{number:08}")
}

/// Returns the number in a segment's name.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    name.rsplit('/').next()?.parse().ok()
}

/// A segment in the making.
#[derive(Default)]
pub(crate) struct Segment {
    data: Vec<u8>,
    blocks: Vec<(u64, Digest)>,
}

impl Segment {
    /// Makes room for one more block, to be filled and then kept or left.
    pub(crate) fn reserve_room(&mut self) -> &mut [u8] {
        let at = self.blocks.len() * BLOCK_BYTES;
        if self.data.len() < at + BLOCK_BYTES {
            self.data.resize(at + BLOCK_BYTES, 0);
        }
        &mut self.data[at..at + BLOCK_BYTES]
    }

    /// Keeps the blocks that were filled in.
    pub(crate) fn keep(&mut self, index: u64, digest: Digest) {
        self.blocks.push((index, digest));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.len() >= SEGMENT_BLOCKS as usize
    }

    /// Writes it as an object, and is empty again. Returns the blocks it had, in order of their
    /// places. `lazily`: durable once it is settled, and this is called between parts of the work.
    pub(crate) fn put(&mut self, objects: &Objects, name: &str, lazily: Option<&dyn Fn()>) -> io::Result<Vec<(u64, Digest)>> {
        let blocks = std::mem::take(&mut self.blocks);
        self.data.truncate(blocks.len() * BLOCK_BYTES);
        let at = self.data.len();
        for (index, digest) in &blocks {
            put_u64(&mut self.data, *index);
            self.data.extend_from_slice(digest);
        }
        let checksum = crc32c::crc32c(&self.data[at..]);
        put_u32(&mut self.data, checksum);
        put_u32(&mut self.data, blocks.len() as u32);
        self.data.extend_from_slice(MAGIC);
        let done = lazily.map_or_else(|| objects.put(name, &self.data), |rest| objects.put_lazily(name, &self.data, rest));
        self.data.truncate(at);
        done.map(|()| blocks)
    }
}

/// Returns the size of a segment's object with as many blocks, bytes.
pub(crate) fn object_bytes(blocks: u32) -> u64 {
    blocks as u64 * (BLOCK_BYTES + ENTRY_BYTES) as u64 + TAIL_BYTES as u64
}

/// Reads which blocks a segment whose object has `bytes` holds, in order of their places. An error
/// when the object was cut or its table is damaged.
pub(crate) fn read_table(objects: &Objects, name: &str, bytes: u64) -> io::Result<Vec<(u64, Digest)>> {
    let blocks = bytes.saturating_sub(TAIL_BYTES as u64) / (BLOCK_BYTES + ENTRY_BYTES) as u64;
    if blocks == 0 || blocks > u64::from(SEGMENT_BLOCKS) || object_bytes(blocks as u32) != bytes {
        return Err(damaged(format!("{name} has {bytes} bytes, which no segment has: it was cut")));
    }
    let table = objects.get_range(name, blocks * BLOCK_BYTES as u64..bytes)?;
    let (entries, tail) = table.split_at(blocks as usize * ENTRY_BYTES);
    let mut tail = Reader(tail);
    if tail.u32()? != crc32c::crc32c(entries) || u64::from(tail.u32()?) != blocks || tail.0 != MAGIC {
        return Err(damaged(format!("the table of {name} is damaged")));
    }
    let mut entries = Reader(entries);
    (0..blocks).map(|_| Ok((entries.u64()?, entries.digest()?))).collect()
}

/// Reads the table like [`read_table`], and compares every block with its digest.
pub(crate) fn read_whole_table(objects: &Objects, name: &str, bytes: u64) -> io::Result<Vec<(u64, Digest)>> {
    let table = read_table(objects, name, bytes)?;
    let data = objects.get_range(name, 0..table.len() as u64 * BLOCK_BYTES as u64)?;
    let wrong = data.chunks(BLOCK_BYTES).zip(&table).find(|(block, (_, digest))| super::digest_of(block) != *digest);
    match wrong {
        Some((_, (index, _))) => Err(damaged(format!("block {index} in {name} is damaged"))),
        None => Ok(table),
    }
}

/// Reads the block at a place of a segment, as it is stored. Fails when the block has another
/// digest.
pub(crate) fn read(objects: &Objects, name: &str, slot: u32, digest: &Digest) -> io::Result<Vec<u8>> {
    let at = u64::from(slot) * BLOCK_BYTES as u64;
    let data = objects.get_range(name, at..at + BLOCK_BYTES as u64)?;
    if super::digest_of(&data) == *digest {
        return Ok(data);
    }
    let sentence = format!("{}: {name}: the block at byte {at} is damaged: its checksum is not the one that was noted when it was written", objects.url());
    Err(damaged(sentence))
}
