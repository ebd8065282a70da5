//! A manifest: which blocks a snapshot has, in which segment each lies, and its checksum. One
//! object with a head (name, size, segments: enough to know what must not be deleted) and a body.

use super::bytes::{damaged, framed, framed_bytes, put_text, put_u32, put_u64, unframed, Reader};
use super::{blocks_of, Digest, BLOCK_BYTES};
use crate::objects::{check_part, Objects};
use std::collections::{BTreeSet, HashMap};
use std::io;

const HEAD_MAGIC: &[u8; 8] = b"HRMANI01";
const BODY_MAGIC: &[u8; 8] = b"HRBLCK01";
/// Bytes that are read first for a head. Most heads are smaller: 1,500 segments of 40 bytes.
const FIRST_BYTES: u64 = 64 << 10;

/// Where a block lies, and its checksum as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of its segment in [`Manifest::segments`].
    pub segment: u32,
    /// Which block of the segment.
    pub slot: u32,
    /// The checksum of its bytes as they are stored.
    pub digest: Digest,
}

/// Blocks one after another in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    blocks: u32,
    segment: u32,
    slot: u32,
    /// Where the digest of the first stands.
    digests: usize,
}

/// The blocks of a snapshot. A block that is not in it is zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    name: String,
    bytes: u64,
    key: String,
    segments: Vec<String>,
    runs: Vec<Run>,
    digests: Vec<Digest>,
}

/// The object of a snapshot's manifest.
pub(crate) fn object_of(snapshot: &str) -> String {
    format!("manifests/{snapshot}")
}

impl Manifest {
    /// Of blocks in ascending order, each with the name of its segment.
    pub(crate) fn build<'a>(name: &str, bytes: u64, key: &str, blocks: impl Iterator<Item = (u64, &'a str, u32, Digest)>) -> Manifest {
        let mut manifest = Manifest { name: name.to_string(), bytes, key: key.to_string(), segments: Vec::new(), runs: Vec::new(), digests: Vec::new() };
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for (index, segment, slot, digest) in blocks {
            let number = *numbers.entry(segment).or_insert_with(|| {
                manifest.segments.push(segment.to_string());
                manifest.segments.len() as u32 - 1
            });
            let digests = manifest.digests.len();
            manifest.digests.push(digest);
            match manifest.runs.last_mut() {
                Some(run) if run.first + u64::from(run.blocks) == index && run.segment == number && run.slot + run.blocks == slot => run.blocks += 1,
                _ => manifest.runs.push(Run { first: index, blocks: 1, segment: number, slot, digests }),
            }
        }
        manifest
    }

    /// The snapshot's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of the volume at the instant.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Which key its blocks are sealed with ([`super::BlockCipher::key_id`]); empty when they are
    /// not.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The objects it refers to.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Blocks of 512 KiB that are not zeros.
    pub fn blocks(&self) -> u64 {
        self.digests.len() as u64
    }

    /// Blocks that were stored for this snapshot, and not for one before.
    pub fn own_blocks(&self) -> u64 {
        let own = super::segment::folder_of(&self.name);
        let is_own: Vec<bool> = self.segments.iter().map(|segment| segment.starts_with(&own)).collect();
        self.runs.iter().filter(|run| is_own[run.segment as usize]).map(|run| u64::from(run.blocks)).sum()
    }

    /// Where a block lies. `None`: it is zeros.
    pub fn block(&self, index: u64) -> Option<Place> {
        let run = self.runs[..self.runs.partition_point(|run| run.first <= index)].last()?;
        let within = index - run.first;
        (within < u64::from(run.blocks)).then(|| self.place(run, within as u32))
    }

    fn place(&self, run: &Run, within: u32) -> Place {
        Place { segment: run.segment, slot: run.slot + within, digest: self.digests[run.digests + within as usize] }
    }

    /// Its blocks in order as runs: the first, how many.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| (run.first, u64::from(run.blocks)))
    }

    /// Its blocks in order, those from `first` on.
    pub fn from(&self, first: u64) -> impl Iterator<Item = (u64, Place)> + '_ {
        let at = self.runs.partition_point(|run| run.first + u64::from(run.blocks) <= first);
        let places = self.runs[at..].iter().flat_map(move |run| (0..run.blocks).map(move |within| (run.first + u64::from(within), self.place(run, within))));
        places.skip_while(move |&(index, _)| index < first)
    }

    /// Writes it as an object, and reads that back.
    pub(crate) fn store(&self, objects: &Objects) -> io::Result<()> {
        let (name, bytes) = (object_of(&self.name), self.to_bytes());
        let stored = objects.put(&name, &bytes).and_then(|()| {
            if objects.get(&name)? == bytes {
                return Ok(());
            }
            Err(damaged(format!("{}: {name} does not read back as it was written. Check the store, and make the snapshot again", objects.url())))
        });
        if stored.is_err() {
            // Half of it may be there. It would be refused when read; better that nobody finds it.
            let _ = objects.delete(&name);
        }
        stored
    }

    /// Reads the manifest of a snapshot.
    pub fn load(objects: &Objects, snapshot: &str) -> io::Result<Manifest> {
        check_part(snapshot)?;
        let found = Manifest::of_bytes(&objects.get(&object_of(snapshot))?).map_err(|error| wrong(objects, snapshot, &error))?;
        if found.name == snapshot {
            return Ok(found);
        }
        Err(wrong(objects, snapshot, &damaged(format!("it is that of {}", found.name))))
    }

    /// The objects that a snapshot refers to, without reading which blocks it has.
    pub fn segments_of(objects: &Objects, snapshot: &str) -> io::Result<Vec<String>> {
        check_part(snapshot)?;
        let name = object_of(snapshot);
        let mut head = objects.get_front(&name, FIRST_BYTES)?;
        let needed = framed_bytes(HEAD_MAGIC, &head).map_err(|error| wrong(objects, snapshot, &error))?;
        if needed > head.len() as u64 {
            head = objects.get_front(&name, needed)?;
        }
        Head::read(&head).map(|(head, _)| head.segments).map_err(|error| wrong(objects, snapshot, &error))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut head = Vec::new();
        put_text(&mut head, &self.name);
        put_u64(&mut head, self.bytes);
        put_u64(&mut head, BLOCK_BYTES as u64);
        put_text(&mut head, &self.key);
        put_u32(&mut head, self.segments.len() as u32);
        self.segments.iter().for_each(|segment| put_text(&mut head, segment));
        let mut body = Vec::with_capacity(16 + self.runs.len() * 20 + self.digests.len() * 16);
        put_u64(&mut body, self.runs.len() as u64);
        for run in &self.runs {
            put_u64(&mut body, run.first);
            put_u32(&mut body, run.blocks);
            put_u32(&mut body, run.segment);
            put_u32(&mut body, run.slot);
        }
        self.digests.iter().for_each(|digest| body.extend_from_slice(digest));
        [framed(HEAD_MAGIC, &head), framed(BODY_MAGIC, &body)].concat()
    }

    fn of_bytes(bytes: &[u8]) -> io::Result<Manifest> {
        let (Head { name, bytes, key, segments }, rest) = Head::read(bytes)?;
        let (body, rest) = unframed(BODY_MAGIC, rest)?;
        if !rest.is_empty() {
            return Err(damaged(format!("{} bytes follow its end", rest.len())));
        }
        let mut body = Reader(body);
        let (mut runs, mut digests, mut end) = (Vec::new(), 0usize, 0);
        for _ in 0..body.u64()? {
            let run = Run { first: body.u64()?, blocks: body.u32()?, segment: body.u32()?, slot: body.u32()?, digests };
            if run.first < end || run.blocks == 0 || run.segment as usize >= segments.len() || run.slot.checked_add(run.blocks).is_none() {
                return Err(damaged("its blocks are not in order, or in no segment"));
            }
            end = run.first.saturating_add(u64::from(run.blocks));
            digests += run.blocks as usize;
            runs.push(run);
        }
        if end > blocks_of(bytes) {
            return Err(damaged("it has blocks behind the end of its volume"));
        }
        let digests: Vec<Digest> = (0..digests).map(|_| body.digest()).collect::<io::Result<_>>()?;
        Ok(Manifest { name, bytes, key, segments, runs, digests })
    }
}

fn wrong(objects: &Objects, snapshot: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: the manifest of {snapshot} cannot be used: {error}", objects.url()))
}

struct Head {
    name: String,
    bytes: u64,
    key: String,
    segments: Vec<String>,
}

impl Head {
    fn read(bytes: &[u8]) -> io::Result<(Head, &[u8])> {
        let (head, rest) = unframed(HEAD_MAGIC, bytes)?;
        let mut head = Reader(head);
        let (name, bytes, block) = (head.text()?, head.u64()?, head.u64()?);
        if block != BLOCK_BYTES as u64 {
            return Err(damaged(format!("its blocks have {block} bytes; this version knows {BLOCK_BYTES}")));
        }
        let key = head.text()?;
        let count = head.u32()?;
        let segments = (0..count).map(|_| head.text()).collect::<io::Result<_>>()?;
        Ok((Head { name, bytes, key, segments }, rest))
    }
}

/// A block that is not the same in two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Which block.
    pub index: u64,
    /// Whether the first snapshot has it; otherwise it is zeros there.
    pub in_first: bool,
    /// Whether the second has it.
    pub in_second: bool,
}

/// The blocks from `first_block` on that are not the same in two snapshots, in order. Snapshots
/// sealed with two keys differ in every block.
pub fn changed_blocks<'a>(first: &'a Manifest, second: &'a Manifest, first_block: u64) -> impl Iterator<Item = Changed> + 'a {
    let (mut left, mut right) = (first.from(first_block).peekable(), second.from(first_block).peekable());
    let same_key = first.key == second.key;
    std::iter::from_fn(move || loop {
        let index = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => left.0.min(right.0),
            (Some(one), None) | (None, Some(one)) => one.0,
            (None, None) => return None,
        };
        let before = left.next_if(|&(at, _)| at == index);
        let after = right.next_if(|&(at, _)| at == index);
        let same = same_key && matches!((&before, &after), (Some(before), Some(after)) if before.1.digest == after.1.digest);
        if !same {
            return Some(Changed { index, in_first: before.is_some(), in_second: after.is_some() });
        }
    })
}

/// The objects that only the deleted snapshot refers to: what goes when it is deleted. `others` are
/// the segments of all other snapshots of the store, and those of the parents of uploads under way.
pub fn unreferenced<'a>(deleted: &[String], others: impl IntoIterator<Item = &'a [String]>) -> Vec<String> {
    let mut alone: BTreeSet<&str> = deleted.iter().map(String::as_str).collect();
    for segment in others.into_iter().flatten() {
        alone.remove(segment.as_str());
    }
    alone.into_iter().map(str::to_string).collect()
}
