//! A manifest: which blocks a snapshot has, in which segment each lies, and its checksum. One
//! object.
//!
//! ```text
//!  head: name, size, key, owners of segments | index: pages, and which blocks each has |
//!  segments: what must not be deleted | page | page | ...
//! ```
//!
//! Opening it reads head and index: 40 bytes for each page, and at most a bit for each block. A
//! page has places and checksums of 4 GiB of the volume; it is read, and held against the checksum
//! in the index, when one of its blocks is asked for. Some are kept.

use super::bytes::{damaged, framed, framed_bytes, put_text, put_u32, put_u64, unframed, Reader, FRAME_BYTES};
use super::{blocks_of, digest_of, segment, BlockSet, Digest, BLOCK_BYTES};
use crate::objects::{check_part, Objects};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

const HEAD_MAGIC: &[u8; 8] = b"HRMANI02";
const INDEX_MAGIC: &[u8; 8] = b"HRINDX01";
const SEGMENTS_MAGIC: &[u8; 8] = b"HRHELD01";
/// Bytes that are read first: head and index of most snapshots.
const FIRST_BYTES: u64 = 64 << 10;
/// Blocks of a page: 4 GiB of the volume. The checksums of a page take 128 KiB, a quarter of a
/// block, so that a first read is not much more than its block.
const PAGE_BLOCKS: u64 = 8_192;
/// Pages of a manifest that are kept: at most 5 MiB. A guess: readers at as many places.
const KEPT_PAGES: usize = 16;
/// Says in the index that bits follow, and not runs.
const AS_BITS: u32 = u32::MAX;
/// Bytes that are read at once when written blocks are compared.
const COMPARED_AT_ONCE: usize = 32 << 20;

/// Place of a block in the store, and its checksum as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Snapshot that stored the block: its number among [`Manifest::owners`].
    pub owner: u32,
    /// Number of the segment of that snapshot.
    pub segment: u32,
    /// Number of the block in the segment.
    pub slot: u32,
    /// The checksum of its bytes as they are stored.
    pub digest: Digest,
}

/// Blocks one after another in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    blocks: u32,
    owner: u32,
    segment: u32,
    slot: u32,
    /// Index of the digest of the first block of the run.
    digests: usize,
}

/// Places of the blocks of 4 GiB.
#[derive(Default)]
struct Page {
    runs: Vec<Run>,
    digests: Vec<Digest>,
}

/// A page as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PageRef {
    number: u32,
    blocks: u32,
    /// Offset of the page in the object, bytes, and its length.
    at: u64,
    bytes: u32,
    digest: Digest,
}

struct Head {
    name: String,
    bytes: u64,
    key: String,
    owners: Vec<String>,
    blocks: u64,
    own_blocks: u64,
    /// Bytes of the head with its frame, of the index, and of what follows it.
    head_bytes: u64,
    index_bytes: u64,
    segments_bytes: u64,
}

struct Inner {
    head: Head,
    /// Head and index as they are stored.
    front: Vec<u8>,
    set: BlockSet,
    pages: Vec<PageRef>,
    objects: Objects,
    /// Pages that were read, by position among the pages, the last used in front.
    cache: Mutex<VecDeque<(usize, Arc<Page>)>>,
}

/// The blocks of a snapshot. A block that is not in it is zeros. Cheap to clone.
#[derive(Clone)]
pub struct Manifest(Arc<Inner>);

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manifest({}, {} blocks)", self.name(), self.blocks())
    }
}

impl PartialEq for Manifest {
    fn eq(&self, other: &Manifest) -> bool {
        let of = |manifest: &Manifest| {
            let head = &manifest.0.head;
            (head.name.clone(), head.bytes, head.key.clone(), head.owners.clone(), head.blocks, head.own_blocks)
        };
        of(self) == of(other) && self.0.pages == other.0.pages
    }
}

/// Returns the name of the object of a snapshot's manifest.
pub(crate) fn object_of(snapshot: &str) -> String {
    format!("manifests/{snapshot}")
}

impl Manifest {
    /// Writes the manifest of blocks that are stored, in ascending order, and reads it back. From
    /// then on the snapshot exists. `owners` are the snapshots whose segments the places name; a
    /// parent's come first and in its order, so that pages which did not change are the same.
    pub fn write(
        objects: &Objects,
        (name, bytes, key): (&str, u64, &str),
        owners: Vec<String>,
        blocks: impl Iterator<Item = io::Result<(u64, Place)>>,
    ) -> io::Result<Manifest> {
        check_part(name)?;
        let own = owners.iter().position(|owner| owner == name).map(|own| own as u32);
        let mut builder = ManifestBuilder { own, ..ManifestBuilder::default() };
        for block in blocks {
            let (index, place) = block?;
            builder.add(index, place);
        }
        builder.end_page();
        let [mut index, mut segments] = [Vec::new(), Vec::new()];
        put_u32(&mut index, builder.pages);
        index.extend_from_slice(&builder.index);
        let ranges = builder.list_ranges();
        put_u32(&mut segments, ranges.len() as u32);
        ranges.iter().flatten().for_each(|&number| put_u32(&mut segments, number));
        let (index, segments) = (framed(INDEX_MAGIC, &index), framed(SEGMENTS_MAGIC, &segments));
        let mut head = Vec::new();
        put_text(&mut head, name);
        put_u64(&mut head, bytes);
        put_u64(&mut head, BLOCK_BYTES as u64);
        put_text(&mut head, key);
        put_u32(&mut head, owners.len() as u32);
        owners.iter().for_each(|owner| put_text(&mut head, owner));
        [builder.blocks, builder.own_blocks, index.len() as u64, segments.len() as u64].into_iter().for_each(|number| put_u64(&mut head, number));
        let all = [framed(HEAD_MAGIC, &head), index, segments, builder.body].concat();
        store(objects, &object_of(name), &all)?;
        Manifest::read_front(&all, objects)
    }

    /// Returns the snapshot's name.
    pub fn name(&self) -> &str {
        &self.0.head.name
    }

    /// Returns the size of the volume at the instant.
    pub fn bytes(&self) -> u64 {
        self.0.head.bytes
    }

    /// Returns the id of the key that its blocks are sealed with ([`super::BlockCipher::key_id`]);
    /// empty when they are not.
    pub fn key(&self) -> &str {
        &self.0.head.key
    }

    /// Returns the snapshots that stored its blocks.
    pub fn owners(&self) -> &[String] {
        &self.0.head.owners
    }

    /// Returns the number of blocks of 512 KiB that are not zeros.
    pub fn blocks(&self) -> u64 {
        self.0.head.blocks
    }

    /// Returns the number of blocks that were stored for this snapshot, and not for one before.
    pub fn own_blocks(&self) -> u64 {
        self.0.head.own_blocks
    }

    /// Returns the set of its blocks. Reads nothing.
    pub fn set(&self) -> &BlockSet {
        &self.0.set
    }

    /// Returns the object in which a block lies.
    pub(crate) fn segment_of(&self, place: &Place) -> String {
        segment::name_of(&self.0.head.owners[place.owner as usize], place.segment)
    }

    /// Finds where a block lies. `None`: it is zeros.
    pub fn block(&self, index: u64) -> io::Result<Option<Place>> {
        if !self.0.set.contains(index) {
            return Ok(None);
        }
        let at = self.0.pages.binary_search_by_key(&(index / PAGE_BLOCKS), |page| u64::from(page.number));
        let page = self.page(at.map_err(|_| self.wrong(&damaged(format!("it has no page with block {index}"))))?)?;
        page.place(index).map(Some).ok_or_else(|| self.wrong(&damaged(format!("its page has no block {index}"))))
    }

    /// Returns the blocks in order, from `first` on. Reads page after page.
    pub fn from(&self, first: u64) -> impl Iterator<Item = io::Result<(u64, Place)>> + '_ {
        let from = self.0.pages.partition_point(|page| (u64::from(page.number) + 1) * PAGE_BLOCKS <= first);
        (from..self.0.pages.len()).flat_map(move |at| match self.page(at) {
            Ok(page) => page.places().filter(|&(index, _)| index >= first).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Returns a page by its position in the index; the last [`KEPT_PAGES`] that were read are
    /// cached.
    fn page(&self, at: usize) -> io::Result<Arc<Page>> {
        let mut cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = cache.iter().position(|&(number, _)| number == at).and_then(|position| cache.remove(position)) {
            cache.push_front(entry.clone());
            return Ok(entry.1);
        }
        drop(cache);
        // The lock is not held meanwhile: other pages can be had meanwhile.
        let page = Arc::new(self.read_page(&self.0.pages[at])?);
        let mut cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_front((at, page.clone()));
        cache.truncate(KEPT_PAGES);
        Ok(page)
    }

    fn read_page(&self, page: &PageRef) -> io::Result<Page> {
        let data = self.0.objects.get_range(&object_of(self.name()), page.at..page.at + u64::from(page.bytes))?;
        if digest_of(&data) != page.digest {
            return Err(self.wrong(&damaged(format!("page {} is damaged: its checksum is not the one in the index", page.number))));
        }
        Page::read(&data, page, self.owners().len()).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &io::Error) -> io::Error {
        manifest_error(&self.0.objects, self.name(), error)
    }

    /// Reads head and index of the manifest of a snapshot.
    pub fn load(objects: &Objects, snapshot: &str) -> io::Result<Manifest> {
        Manifest::load_from(objects, objects, snapshot)
    }

    /// Reads a manifest whose head and index [`Manifest::keep`] kept in `copies`.
    pub fn load_from(copies: &Objects, objects: &Objects, snapshot: &str) -> io::Result<Manifest> {
        let front = load_front(copies, snapshot)?;
        let manifest = Manifest::read_front(&front, objects).map_err(|error| manifest_error(copies, snapshot, &error))?;
        if manifest.name() == snapshot {
            return Ok(manifest);
        }
        Err(manifest_error(copies, snapshot, &damaged(format!("it is that of {}", manifest.name()))))
    }

    /// Keeps head and index in `copies`, for [`Manifest::load_from`]: which blocks a snapshot has
    /// is known while its store is away.
    pub fn keep(&self, copies: &Objects) -> io::Result<()> {
        copies.put(&object_of(self.name()), &self.0.front)
    }

    /// Reads the whole manifest and compares it with its checksums.
    pub fn check(&self) -> io::Result<()> {
        self.segments()?;
        self.from(0).try_for_each(|block| block.map(drop))
    }

    /// Returns the objects that it refers to.
    pub fn segments(&self) -> io::Result<Vec<String>> {
        read_segments(&self.0.objects, &self.0.head).map_err(|error| self.wrong(&error))
    }

    /// Returns the objects that a snapshot refers to, without reading which blocks it has.
    pub fn segments_of(objects: &Objects, snapshot: &str) -> io::Result<Vec<String>> {
        let (front, bytes) = load_head(objects, snapshot)?;
        let (head, _) = Head::read(&front[..bytes as usize]).map_err(|error| manifest_error(objects, snapshot, &error))?;
        if head.name != snapshot {
            return Err(manifest_error(objects, snapshot, &damaged(format!("it is that of {}", head.name))));
        }
        read_segments(objects, &head).map_err(|error| manifest_error(objects, snapshot, &error))
    }

    /// Reads the first bytes of an object; what follows the index is not looked at.
    fn read_front(bytes: &[u8], objects: &Objects) -> io::Result<Manifest> {
        let (head, rest) = Head::read(bytes)?;
        let (index, after) = unframed(INDEX_MAGIC, rest)?;
        let (mut index, set, mut pages) = (Reader(index), BlockSet::default(), Vec::new());
        let (mut at, mut blocks, mut least) = (head.head_bytes + head.index_bytes + head.segments_bytes, 0, 0);
        for _ in 0..index.u32()? {
            let page = PageRef { number: index.u32()?, blocks: index.u32()?, bytes: index.u32()?, digest: index.digest()?, at };
            if u64::from(page.number) < least || page.blocks == 0 {
                return Err(damaged("its pages are not in order"));
            }
            read_set(&mut index, &page, &set)?;
            at += u64::from(page.bytes);
            blocks += u64::from(page.blocks);
            least = u64::from(page.number) + 1;
            pages.push(page);
        }
        if blocks != head.blocks || set.count() != blocks || set.next(blocks_of(head.bytes)).is_some() {
            return Err(damaged("its index does not have the blocks it should, or some behind the end of its volume"));
        }
        if rest.len() as u64 - after.len() as u64 != head.index_bytes {
            return Err(damaged("its index has another length than its head says"));
        }
        let front = bytes[..(head.head_bytes + head.index_bytes) as usize].to_vec();
        Ok(Manifest(Arc::new(Inner { head, front, set, pages, objects: objects.clone(), cache: Mutex::default() })))
    }
}

/// Reads the first bytes of an object with its whole head, and returns the number of them too.
fn load_head(objects: &Objects, snapshot: &str) -> io::Result<(Vec<u8>, u64)> {
    check_part(snapshot)?;
    let name = object_of(snapshot);
    let mut front = objects.get_front(&name, FIRST_BYTES)?;
    let needed = framed_bytes(HEAD_MAGIC, &front).map_err(|error| manifest_error(objects, snapshot, &error))?;
    if needed > front.len() as u64 {
        front = objects.get_range(&name, 0..needed)?;
    }
    Ok((front, needed))
}

/// Reads head and index of a manifest.
fn load_front(objects: &Objects, snapshot: &str) -> io::Result<Vec<u8>> {
    let (mut front, _) = load_head(objects, snapshot)?;
    let (head, _) = Head::read(&front).map_err(|error| manifest_error(objects, snapshot, &error))?;
    let needed = head.head_bytes.saturating_add(head.index_bytes);
    if needed > front.len() as u64 {
        let rest = objects.get_range(&object_of(snapshot), front.len() as u64..needed)?;
        front.extend_from_slice(&rest);
    }
    front.truncate(needed as usize);
    Ok(front)
}

/// Reads the names of the segments that a manifest refers to.
fn read_segments(objects: &Objects, head: &Head) -> io::Result<Vec<String>> {
    let at = head.head_bytes + head.index_bytes;
    let bytes = objects.get_range(&object_of(&head.name), at..at + head.segments_bytes)?;
    let mut ranges = Reader(unframed(SEGMENTS_MAGIC, &bytes)?.0);
    let mut names = Vec::new();
    for _ in 0..ranges.u32()? {
        let (owner, first, count) = (ranges.u32()?, ranges.u32()?, ranges.u32()?);
        let owner = head.owners.get(owner as usize).ok_or_else(|| damaged("it refers to a snapshot that it does not name"))?;
        names.extend((first..first.saturating_add(count)).map(|number| segment::name_of(owner, number)));
    }
    Ok(names)
}

/// Writes an object, and reads it back.
fn store(objects: &Objects, name: &str, bytes: &[u8]) -> io::Result<()> {
    let stored = objects.put(name, bytes).and_then(|()| {
        for (index, part) in bytes.chunks(COMPARED_AT_ONCE).enumerate() {
            let at = (index * COMPARED_AT_ONCE) as u64;
            if objects.get_range(name, at..at + part.len() as u64)? != part {
                let sentence = format!("{}: {name} does not read back as it was written. Check the store, and make the snapshot again", objects.url());
                return Err(damaged(sentence));
            }
        }
        Ok(())
    });
    if stored.is_err() {
        // Half of it may be there. It would be refused when read; better that nobody finds it.
        let _ = objects.delete(name);
    }
    stored
}

fn manifest_error(objects: &Objects, snapshot: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: the manifest of {snapshot} cannot be used: {error}", objects.url()))
}

impl Head {
    /// Reads the head of a manifest; returns it with the bytes that follow it.
    fn read(bytes: &[u8]) -> io::Result<(Head, &[u8])> {
        let (body, rest) = unframed(HEAD_MAGIC, bytes)?;
        let head_bytes = (FRAME_BYTES + body.len()) as u64;
        let mut head = Reader(body);
        let (name, bytes, block) = (head.text()?, head.u64()?, head.u64()?);
        if block != BLOCK_BYTES as u64 {
            return Err(damaged(format!("its blocks have {block} bytes; this version knows {BLOCK_BYTES}")));
        }
        let key = head.text()?;
        let count = head.u32()?;
        let owners = (0..count).map(|_| head.text()).collect::<io::Result<Vec<_>>>()?;
        owners.iter().try_for_each(|owner| check_part(owner)).map_err(|error| damaged(error.to_string()))?;
        let (blocks, own_blocks, index_bytes, segments_bytes) = (head.u64()?, head.u64()?, head.u64()?, head.u64()?);
        Ok((Head { name, bytes, key, owners, blocks, own_blocks, head_bytes, index_bytes, segments_bytes }, rest))
    }
}

impl Page {
    /// Reads a page; checks that its blocks are in order and as many as the index says. `owners` is
    /// the number of owners.
    fn read(bytes: &[u8], page: &PageRef, owners: usize) -> io::Result<Page> {
        let mut body = Reader(bytes);
        let start = u64::from(page.number) * PAGE_BLOCKS;
        let (mut runs, mut digests, mut end) = (Vec::new(), 0usize, start);
        for _ in 0..body.u32()? {
            let first = start + u64::from(body.u32()?);
            let run = Run { first, blocks: body.u32()?, owner: body.u32()?, segment: body.u32()?, slot: body.u32()?, digests };
            if run.first < end || run.blocks == 0 || run.owner as usize >= owners || run.slot.checked_add(run.blocks).is_none() {
                return Err(damaged("the blocks of a page are not in order, or in no segment"));
            }
            end = run.first + u64::from(run.blocks);
            digests += run.blocks as usize;
            runs.push(run);
        }
        if end > start + PAGE_BLOCKS || digests != page.blocks as usize {
            return Err(damaged("a page has other blocks than the index says"));
        }
        let digests = (0..digests).map(|_| body.digest()).collect::<io::Result<_>>()?;
        Ok(Page { runs, digests })
    }

    /// Encodes the page; `start` is the number of its first block.
    fn write(&self, start: u64) -> Vec<u8> {
        let mut body = Vec::with_capacity(4 + self.runs.len() * 20 + self.digests.len() * 16);
        put_u32(&mut body, self.runs.len() as u32);
        for run in &self.runs {
            [(run.first - start) as u32, run.blocks, run.owner, run.segment, run.slot].into_iter().for_each(|number| put_u32(&mut body, number));
        }
        self.digests.iter().for_each(|digest| body.extend_from_slice(digest));
        body
    }

    fn place(&self, index: u64) -> Option<Place> {
        let run = self.runs[..self.runs.partition_point(|run| run.first <= index)].last()?;
        let within = index - run.first;
        (within < u64::from(run.blocks)).then(|| self.within(run, within as u32))
    }

    fn within(&self, run: &Run, within: u32) -> Place {
        Place { owner: run.owner, segment: run.segment, slot: run.slot + within, digest: self.digests[run.digests + within as usize] }
    }

    fn places(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.runs.iter().flat_map(|run| (0..run.blocks).map(|within| (run.first + u64::from(within), self.within(run, within))))
    }
}

/// A manifest in the making.
#[derive(Default)]
struct ManifestBuilder {
    own: Option<u32>,
    blocks: u64,
    own_blocks: u64,
    /// The page that is being filled.
    number: u64,
    page: Page,
    pages: u32,
    index: Vec<u8>,
    body: Vec<u8>,
    segments: BTreeSet<(u32, u32)>,
}

impl ManifestBuilder {
    /// Adds a block, which comes after all earlier ones.
    fn add(&mut self, index: u64, place: Place) {
        if index / PAGE_BLOCKS != self.number {
            self.end_page();
            self.number = index / PAGE_BLOCKS;
        }
        let Place { owner, segment, slot, digest } = place;
        let digests = self.page.digests.len();
        self.page.digests.push(digest);
        self.blocks += 1;
        self.own_blocks += u64::from(self.own == Some(owner));
        let follows = |run: &Run| run.first + u64::from(run.blocks) == index && run.owner == owner && run.segment == segment && run.slot + run.blocks == slot;
        match self.page.runs.last_mut() {
            Some(run) if follows(run) => run.blocks += 1,
            _ => {
                self.page.runs.push(Run { first: index, blocks: 1, owner, segment, slot, digests });
                self.segments.insert((owner, segment));
            }
        }
    }

    /// Encodes the page that is being filled, if it has any block, and adds it to the index.
    fn end_page(&mut self) {
        let page = std::mem::take(&mut self.page);
        if page.runs.is_empty() {
            return;
        }
        let start = self.number * PAGE_BLOCKS;
        let body = page.write(start);
        self.pages += 1;
        [self.number as u32, page.digests.len() as u32, body.len() as u32].into_iter().for_each(|number| put_u32(&mut self.index, number));
        self.index.extend_from_slice(&digest_of(&body));
        put_set(&mut self.index, start, &page);
        self.body.extend_from_slice(&body);
    }

    /// Lists the segments as runs of numbers: owner, first, how many.
    fn list_ranges(&self) -> Vec<[u32; 3]> {
        let mut ranges: Vec<[u32; 3]> = Vec::new();
        for &(owner, number) in &self.segments {
            match ranges.last_mut() {
                Some([of, first, count]) if *of == owner && *first + *count == number => *count += 1,
                _ => ranges.push([owner, number, 1]),
            }
        }
        ranges
    }
}

/// Writes which blocks a page has: as runs or as bits, whichever is shorter.
fn put_set(into: &mut Vec<u8>, start: u64, page: &Page) {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for run in &page.runs {
        let (first, blocks) = (run.first - start, u64::from(run.blocks));
        match runs.last_mut() {
            Some((before, count)) if *before + *count == first => *count += blocks,
            _ => runs.push((first, blocks)),
        }
    }
    if runs.len() as u64 * 4 <= PAGE_BLOCKS / 8 {
        put_u32(into, runs.len() as u32);
        // Both fit 16 bits: a page has 8,192 blocks.
        runs.iter().for_each(|&(first, blocks)| put_u32(into, (first << 16 | (blocks - 1)) as u32));
        return;
    }
    let mut words = [0u64; (PAGE_BLOCKS / 64) as usize];
    runs.iter().flat_map(|&(first, blocks)| first..first + blocks).for_each(|block| words[(block / 64) as usize] |= 1 << (block % 64));
    put_u32(into, AS_BITS);
    words.iter().for_each(|&word| put_u64(into, word));
}

/// Reads which blocks a page has, and puts them into `set`.
fn read_set(from: &mut Reader<'_>, page: &PageRef, set: &BlockSet) -> io::Result<()> {
    let start = u64::from(page.number) * PAGE_BLOCKS;
    let runs = from.u32()?;
    if runs == AS_BITS {
        return (0..PAGE_BLOCKS / 64).try_for_each(|word| from.u64().map(|bits| set.insert_word(start / 64 + word, bits)));
    }
    for _ in 0..runs {
        let run = u64::from(from.u32()?);
        let (first, blocks) = (run >> 16, (run & 0xffff) + 1);
        if first + blocks > PAGE_BLOCKS {
            return Err(damaged("a page has blocks of another"));
        }
        set.insert(start + first, blocks);
    }
    Ok(())
}

/// A block that is not the same in two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Number of the block.
    pub index: u64,
    /// True if the first snapshot has the block; otherwise it is zeros there.
    pub in_first: bool,
    /// True if the second snapshot has the block.
    pub in_second: bool,
}

/// Returns the blocks from `first_block` on that are not the same in two snapshots, in order.
/// Snapshots sealed with two keys differ in every block. Pages that are the same in both are not
/// read.
pub fn changed_blocks<'a>(first: &'a Manifest, second: &'a Manifest, first_block: u64) -> impl Iterator<Item = io::Result<Changed>> + 'a {
    let numbers: BTreeSet<u32> = [first, second].into_iter().flat_map(|manifest| manifest.0.pages.iter().map(|page| page.number)).collect();
    let later = numbers.into_iter().filter(move |&number| (u64::from(number) + 1) * PAGE_BLOCKS > first_block);
    later.flat_map(move |number| match changed_in(first, second, number) {
        Ok(changed) => changed.into_iter().filter(|changed| changed.index >= first_block).map(Ok).collect(),
        Err(error) => vec![Err(error)],
    })
}

/// Returns the blocks of the page with this number that are not the same in two snapshots.
fn changed_in(first: &Manifest, second: &Manifest, number: u32) -> io::Result<Vec<Changed>> {
    let at = |manifest: &Manifest| manifest.0.pages.binary_search_by_key(&number, |page| page.number).ok();
    let (first_page, second_page) = (at(first), at(second));
    let same_key = first.key() == second.key();
    if let (Some(first_page), Some(second_page)) = (first_page, second_page) {
        let (first_page, second_page) = (&first.0.pages[first_page], &second.0.pages[second_page]);
        if same_key && (first_page.digest, first_page.bytes) == (second_page.digest, second_page.bytes) {
            return Ok(Vec::new());
        }
    }
    let read = |manifest: &Manifest, at: Option<usize>| at.map_or_else(|| Ok(Arc::default()), |at| manifest.page(at));
    let (first_page, second_page) = (read(first, first_page)?, read(second, second_page)?);
    let start = u64::from(number) * PAGE_BLOCKS;
    let changed = (start..start + PAGE_BLOCKS).filter_map(|index| {
        let (before, after) = (first_page.place(index), second_page.place(index));
        let same = match (&before, &after) {
            (Some(before), Some(after)) => same_key && before.digest == after.digest,
            (before, after) => before.is_none() && after.is_none(),
        };
        (!same).then_some(Changed { index, in_first: before.is_some(), in_second: after.is_some() })
    });
    Ok(changed.collect())
}
