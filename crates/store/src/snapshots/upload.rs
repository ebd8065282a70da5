//! Stores an instant: its blocks go into segments, by several threads that each read one segment
//! and write it, and at the end the manifest is written. Until then the snapshot does not exist.
//!
//! Blocks that are not stored are zeros, blocks that did not change since the parent when that is
//! known, and blocks whose digest is the parent's when it is not. An upload that was interrupted
//! reads from the store how far it came, and goes on.

use super::manifest::{Manifest, Place};
use super::segment::{self, Segment, SEGMENT_BLOCKS};
use super::{blocks_of, digest_of, is_zero, BlockCipher, BlockSet, Digest};
use crate::foreground::{Foreground, Pace};
use crate::objects::{check_part, Objects};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Threads of an upload. One reads and hashes while another writes; each holds a segment, so 64 MiB
/// in all. A guess that suits a local disk; a store far away gains from more.
const THREADS: usize = 4;
/// Niceness of the threads of an upload: when processors are scarce, their weight is a tenth of
/// that of the threads that serve the volume.
const NICENESS: i32 = 10;
/// Blocks that are looked at together for holes: 2 GiB.
const HOLE_BLOCKS: u64 = 4_096;

/// Source of the blocks of a snapshot.
pub trait BlockSource: Send + Sync {
    /// Returns the size of the volume.
    fn bytes(&self) -> u64;
    /// Fills `into` with a block; zeros behind the end of the volume.
    fn read_block(&self, index: u64, into: &mut [u8]) -> io::Result<()>;
    /// Returns false if all of `count` blocks from `first` on are zeros, and none is stored.
    fn may_hold_data(&self, _first: u64, _count: u64) -> bool {
        true
    }
    /// Returns the capture since which it is known what changed, and the changed blocks.
    fn changes(&self) -> Option<(&str, &BlockSet)> {
        None
    }
    /// Returns the load of the volume, which goes before the upload; None without any.
    fn foreground(&self) -> Option<&Foreground> {
        None
    }
    /// Notes that a block is stored: the upload does not read it again, so a source may free its
    /// copy.
    fn stored(&self, _index: u64) {}
}

/// Progress of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Blocks that were looked at or skipped.
    pub done: u64,
    /// All blocks of the volume.
    pub blocks: u64,
    /// Blocks stored by this snapshot.
    pub stored: u64,
}

impl Progress {
    /// Returns the progress in percent; 100 only when all is done.
    pub fn percent(&self) -> u64 {
        (self.done * 100).checked_div(self.blocks).unwrap_or(100)
    }
}

/// Result of the look at a block.
enum Outcome {
    /// The block is as in the parent.
    Kept,
    /// The block is stored in the segment with this number.
    New { segment: u32, slot: u32, digest: Digest },
}

struct Job<'a> {
    source: &'a dyn BlockSource,
    objects: &'a Objects,
    name: &'a str,
    parent: Option<&'a Manifest>,
    /// Blocks that changed since the parent, when that is known.
    changed: Option<&'a BlockSet>,
    cipher: Option<&'a dyn BlockCipher>,
    /// Blocks that an earlier try stored.
    stored_before: HashMap<u64, (u32, u32, Digest)>,
    blocks: u64,
    next: Mutex<u64>,
    next_segment: AtomicU64,
    done: AtomicU64,
    stored: AtomicU64,
    stop: AtomicBool,
    pace: Pace<'a>,
    cancel: &'a AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
}

/// Stores `source` under a name of its own, and returns the manifest once it is in the store.
///
/// `parent` is the snapshot before, if any; it must stay until this returns. After an error the
/// stored blocks stay, and the same call goes on with them; [`super::forget_upload`] gives it up.
/// When `cancel` is set, it is given up, and the error is of kind `Interrupted`.
pub fn upload(
    source: &dyn BlockSource,
    objects: &Objects,
    name: &str,
    parent: Option<&Manifest>,
    cipher: Option<&dyn BlockCipher>,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> io::Result<Manifest> {
    check_part(name)?;
    // An earlier try may have come to its end, and nobody heard.
    match Manifest::load(objects, name).and_then(|manifest| manifest.check().map(|()| manifest)) {
        Ok(manifest) => return Ok(manifest),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
        Err(error) => return Err(error),
    }
    let key = cipher.map_or("", BlockCipher::key_id);
    // Blocks that were sealed with another key are of no use here.
    let parent = parent.filter(|parent| parent.key() == key);
    let changed = source.changes().filter(|(since, _)| parent.is_some_and(|parent| parent.name() == *since)).map(|(_, set)| set);
    let (stored_before, next_segment) = find_stored(objects, name)?;
    let blocks = blocks_of(source.bytes());
    let job = Job {
        source,
        objects,
        name,
        parent,
        changed,
        cipher,
        stored: AtomicU64::new(stored_before.len() as u64),
        stored_before,
        blocks,
        next: Mutex::new(0),
        next_segment: AtomicU64::new(u64::from(next_segment)),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        pace: Pace::new(source.foreground()),
        cancel,
        progress,
    };
    let finished = job.run().and_then(|outcomes| job.finish(key, outcomes));
    if cancel.load(Ordering::SeqCst) && finished.is_err() {
        super::forget_upload(objects, name)?;
        return Err(cancelled_error(name));
    }
    finished
}

fn cancelled_error(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, format!("the upload of {name} was cancelled"))
}

/// Places of the blocks that an earlier try stored: segment, slot, digest.
type StoredBlocks = HashMap<u64, (u32, u32, Digest)>;

/// Finds what an earlier try stored, and the first number for a segment that is free. Damaged
/// segments are removed.
fn find_stored(objects: &Objects, name: &str) -> io::Result<(StoredBlocks, u32)> {
    let (mut stored_before, mut next) = (HashMap::new(), 0);
    for listed in objects.list(&segment::folder_of(name))? {
        let Some(number) = segment::number_of(&listed.name) else { continue };
        next = next.max(number + 1);
        let table = if objects.is_lazy() { segment::read_whole_table } else { segment::read_table };
        match table(objects, &listed.name, listed.bytes) {
            Ok(table) => stored_before.extend(table.into_iter().enumerate().map(|(slot, (index, digest))| (index, (number, slot as u32, digest)))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => objects.delete(&listed.name)?,
            Err(error) => return Err(error),
        }
    }
    Ok((stored_before, next))
}

impl Job<'_> {
    /// Looks at all blocks, with [`THREADS`] threads, and returns the outcome of each that matters,
    /// by block.
    fn run(&self) -> io::Result<Vec<(u64, Outcome)>> {
        let parts: Vec<io::Result<Vec<(u64, Outcome)>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| self.work())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the upload ended early")))).collect()
        });
        let mut outcomes = Vec::new();
        for part in parts {
            outcomes.extend(part?);
        }
        outcomes.sort_unstable_by_key(|&(index, _)| index);
        Ok(outcomes)
    }

    /// Does the work of one thread; an error of it stops the others.
    fn work(&self) -> io::Result<Vec<(u64, Outcome)>> {
        // The niceness is that of this thread alone. If the machine does not allow it, the thread
        // goes on without.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let mut outcomes = Vec::new();
        let mut segment = Segment::default();
        let worked = self.work_batches(&mut segment, &mut outcomes);
        if worked.is_err() {
            self.stop.store(true, Ordering::SeqCst);
        }
        worked.map(|()| outcomes)
    }

    /// Looks at batch after batch and stores each segment that is full. Ends early if another
    /// thread failed.
    fn work_batches(&self, segment: &mut Segment, outcomes: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        while let Some((first, count)) = self.take_batch() {
            for index in first..first + count {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(cancelled_error(self.name));
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.decide_block(index, segment, outcomes)?;
                if segment.is_full() {
                    self.put_segment(segment, outcomes)?;
                }
            }
            self.done.fetch_add(count, Ordering::Relaxed);
            self.report_progress();
        }
        self.put_segment(segment, outcomes)
    }

    fn report_progress(&self) {
        (self.progress)(Progress { done: self.done.load(Ordering::Relaxed), blocks: self.blocks, stored: self.stored.load(Ordering::Relaxed) });
    }

    /// Takes the next batch of blocks: the first and their number, at most a segment's. Batches
    /// without data or without a change are skipped.
    fn take_batch(&self) -> Option<(u64, u64)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        while *next < self.blocks {
            let first = *next;
            let hole = HOLE_BLOCKS.min(self.blocks - first);
            let batch = u64::from(SEGMENT_BLOCKS).min(self.blocks - first);
            let skipped = if self.is_skipped(first, hole) {
                hole
            } else if self.is_skipped(first, batch) {
                batch
            } else {
                *next += batch;
                return Some((first, batch));
            };
            *next += skipped;
            self.done.fetch_add(skipped, Ordering::Relaxed);
        }
        None
    }

    fn is_skipped(&self, first: u64, count: u64) -> bool {
        self.changed.is_some_and(|changed| !changed.any(first, count)) || !self.source.may_hold_data(first, count)
    }

    /// Decides one block: not changed, stored by an earlier try, zeros, or to be read.
    fn decide_block(&self, index: u64, segment: &mut Segment, outcomes: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        if self.changed.is_some_and(|changed| !changed.contains(index)) {
            return Ok(());
        }
        if let Some(&(segment, slot, digest)) = self.stored_before.get(&index) {
            self.source.stored(index);
            outcomes.push((index, Outcome::New { segment, slot, digest }));
            return Ok(());
        }
        if !self.source.may_hold_data(index, 1) {
            return Ok(());
        }
        self.pace.piece(|_| self.read_into(index, segment, outcomes))
    }

    /// Reads a block into the segment, sealed; leaves it out if it is zeros, or the same as in the
    /// parent.
    fn read_into(&self, index: u64, segment: &mut Segment, outcomes: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        let data = segment.reserve_room();
        self.source.read_block(index, data)?;
        if is_zero(data) {
            return Ok(());
        }
        if let Some(cipher) = self.cipher {
            cipher.seal(index, data);
        }
        let digest = digest_of(data);
        let before = self.parent.map(|parent| parent.block(index)).transpose()?.flatten();
        if before.is_some_and(|place| place.digest == digest) {
            outcomes.push((index, Outcome::Kept));
            return Ok(());
        }
        segment.keep(index, digest);
        Ok(())
    }

    /// Stores the segment as an object, and notes the places of its blocks. Nothing is done for an
    /// empty one.
    fn put_segment(&self, segment: &mut Segment, outcomes: &mut Vec<(u64, Outcome)>) -> io::Result<()> {
        if segment.is_empty() {
            return Ok(());
        }
        let number =
            u32::try_from(self.next_segment.fetch_add(1, Ordering::Relaxed)).map_err(|_| io::Error::other("more segments than a snapshot may have"))?;
        let name = segment::name_of(self.name, number);
        let blocks = self.pace.piece(|rest| segment.put(self.objects, &name, Some(rest)))?;
        self.stored.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        for (slot, (index, digest)) in blocks.into_iter().enumerate() {
            self.source.stored(index);
            outcomes.push((index, Outcome::New { segment: number, slot: slot as u32, digest }));
        }
        Ok(())
    }

    /// Makes the manifest, checks that all it refers to is there, and writes it.
    fn finish(&self, key: &str, outcomes: Vec<(u64, Outcome)>) -> io::Result<Manifest> {
        let segments = self.list_written(&outcomes)?;
        let mut owners = self.parent.map_or_else(Vec::new, |parent| parent.owners().to_vec());
        let own_owner = owners.len() as u32;
        if !segments.is_empty() {
            owners.push(self.name.to_string());
        }
        let unchanged = |index: u64| self.changed.is_some_and(|changed| !changed.contains(index));
        let within = |old: &io::Result<(u64, Place)>| old.as_ref().map_or(true, |&(index, _)| index < self.blocks);
        let mut parents = self.parent.into_iter().flat_map(|parent| parent.from(0)).filter(within).peekable();
        let mut news = outcomes.into_iter().peekable();
        let merged = std::iter::from_fn(|| loop {
            let index = match (parents.peek(), news.peek()) {
                (Some(Err(_)), _) => return parents.next(),
                (Some(Ok(old)), Some(new)) => old.0.min(new.0),
                (Some(&Ok((index, _))), None) | (None, Some(&(index, _))) => index,
                (None, None) => return None,
            };
            let old = parents.next_if(|old| old.as_ref().is_ok_and(|&(at, _)| at == index)).and_then(Result::ok);
            let new = news.next_if(|&(at, _)| at == index);
            match (new, old) {
                (Some((_, Outcome::New { segment, slot, digest })), _) => return Some(Ok((index, Place { owner: own_owner, segment, slot, digest }))),
                (Some((_, Outcome::Kept)), Some((_, place))) => return Some(Ok((index, place))),
                (None, Some((_, place))) if unchanged(index) => return Some(Ok((index, place))),
                _ => {}
            }
        });
        self.pace.piece(|rest| self.objects.settle(&segments, rest))?;
        Manifest::write(self.objects, (self.name, self.source.bytes(), key), owners, merged)
    }

    /// Returns the names of the segments that were written. Fails when a segment is not whole.
    fn list_written(&self, outcomes: &[(u64, Outcome)]) -> io::Result<Vec<String>> {
        let mut slots: HashMap<u32, u32> = HashMap::new();
        for (_, outcome) in outcomes {
            if let Outcome::New { segment, slot, .. } = outcome {
                let most = slots.entry(*segment).or_default();
                *most = (*most).max(slot + 1);
            }
        }
        let listed: HashMap<String, u64> = self.objects.list(&segment::folder_of(self.name))?.into_iter().map(|listed| (listed.name, listed.bytes)).collect();
        let mut names = Vec::new();
        for (number, blocks) in slots {
            let name = segment::name_of(self.name, number);
            let bytes = listed.get(&name).copied().unwrap_or(0);
            // An earlier try may have stored blocks behind the last that is of use now.
            if bytes < segment::object_bytes(blocks) {
                let sentence = format!(
                    "{}: {name} has {bytes} bytes after it was written: the store lost it. Check the store, and make the snapshot again",
                    self.objects.url()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
            }
            names.push(name);
        }
        Ok(names)
    }
}
