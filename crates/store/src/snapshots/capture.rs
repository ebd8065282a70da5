//! Keeps the bytes of an instant while reads and writes go on.
//!
//! Beginning a capture waits for writes that are in flight, and blocks nothing else. From then on
//! the first write to each 16 KiB sets the old bytes aside; only writes to the same block wait for
//! that. Reading the instant takes no lock.
//!
//! The point in time is a flag. A write takes its blocks' locks, shared, and looks at the flag; it
//! belongs to the instant when the flag was not set. A beginning sets the flag, and then takes
//! every lock once: all writes that belong are done then. One flag can serve several volumes.

use super::changes::Changes;
use super::side::{self, blocks, AsideKey, Side};
use super::{blocks_of, upload::BlockSource, BLOCK_BYTES};
use crate::foreground::Foreground;
use crate::objects::{check_part, make_folder};
use crate::{within, Backing};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks of blocks; a block's number modulo this says which. With 16 threads at random places 6 %
/// of the writes share a lock, which only matters while a write sets bytes aside.
const STRIPES: u64 = 256;
/// The longest part of a discard or zeroing that is done at once while something may have to be set
/// aside, bytes: how much is read and written before others get a turn.
const CLEARED_AT_ONCE: u64 = 8 * BLOCK_BYTES as u64;
/// The longest part when nothing has to be set aside, bytes: a beginning may wait for it.
const CLEARED_IDLE: u64 = 16 << 30;

/// Instants under way.
struct Active {
    sides: Vec<Arc<Side>>,
    /// Notes what changes.
    now: Arc<Changes>,
    /// Instant that is beginning: it counts from the moment its flag is set.
    begins: Option<Begins>,
}

#[derive(Clone)]
struct Begins {
    begun: Arc<AtomicBool>,
    side: Arc<Side>,
    after: Arc<Changes>,
}

impl Active {
    /// Returns the instant that is beginning, if its flag is set. A write asks once, so that
    /// everything about the write follows from one answer.
    fn begun(&self) -> Option<&Begins> {
        self.begins.as_ref().filter(|begins| begins.begun.load(Ordering::SeqCst))
    }
}

/// A backing whose bytes can be captured.
pub struct Capture {
    inner: Arc<dyn Backing>,
    folder: PathBuf,
    key: AsideKey,
    stripes: Vec<RwLock<()>>,
    active: RwLock<Arc<Active>>,
    /// Instants under way or beginning; 0 most of the time.
    count: AtomicUsize,
    /// The lock that the beginning and the end of an instant take, and the growth of the volume.
    changing: Mutex<()>,
    /// Requests to the volume; what an instant reads is not among them.
    foreground: Foreground,
}

/// Locks on blocks, shared or not.
struct Locks<'a> {
    _shared: Vec<RwLockReadGuard<'a, ()>>,
    _alone: Vec<RwLockWriteGuard<'a, ()>>,
}

impl Capture {
    /// Opens a capture over a volume, with a folder of its own for the bytes set aside. Instants
    /// that a process left there are under way again ([`Capture::instants`]).
    pub fn new(inner: Arc<dyn Backing>, folder: PathBuf) -> io::Result<Arc<Capture>> {
        Capture::open(inner, folder, None, AsideKey::Plain)
    }

    /// Captures a volume that is made of the snapshot `origin`. When the folder is not there yet
    /// the volume must not have been written: what changes is noted from the start, so that its
    /// first snapshot stores only that.
    pub fn of_snapshot(inner: Arc<dyn Backing>, folder: PathBuf, origin: &str) -> io::Result<Arc<Capture>> {
        Capture::sealed(inner, folder, Some(origin), AsideKey::Plain)
    }

    /// Captures either kind of volume; bytes set aside are encrypted like the volume.
    pub fn sealed(inner: Arc<dyn Backing>, folder: PathBuf, origin: Option<&str>, key: AsideKey) -> io::Result<Arc<Capture>> {
        origin.map(check_part).transpose()?;
        Capture::open(inner, folder, origin, key)
    }

    /// Opens the instants and the set of changes in `folder`, which is made if it is missing; only
    /// then `origin` counts.
    fn open(inner: Arc<dyn Backing>, folder: PathBuf, origin: Option<&str>, key: AsideKey) -> io::Result<Arc<Capture>> {
        let origin = origin.filter(|_| !folder.is_dir());
        make_folder(&folder).map_err(|error| folder_error(&folder, &error))?;
        let (sides, afters) = list_names(&folder)?;
        let sides = sides
            .iter()
            .map(|name| Side::open(&folder, name, key.clone()).map(Arc::new))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| folder_error(&folder, &error))?;
        let now = open_changes(&folder, &sides, &afters, origin)?;
        let count = AtomicUsize::new(sides.len());
        let active = RwLock::new(Arc::new(Active { sides, now: Arc::new(now.unwrap_or_else(Changes::unknown)), begins: None }));
        let stripes = (0..STRIPES).map(|_| RwLock::new(())).collect();
        Ok(Arc::new(Capture { inner, folder, key, stripes, active, count, changing: Mutex::new(()), foreground: Foreground::default() }))
    }

    fn active(&self) -> Arc<Active> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_active(&self, active: Active) {
        self.count.store(active.sides.len() + usize::from(active.begins.is_some()), Ordering::SeqCst);
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(active);
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Captures the bytes as they are now, under the name of the snapshot they are for. Writes that
    /// were answered are in it, writes that begin after this returned are not.
    pub fn begin(self: &Arc<Self>, name: &str) -> io::Result<Instant> {
        let mut begun = begin_all(&[(self.clone(), name)])?;
        begun.pop().ok_or_else(|| io::Error::other("nothing was captured"))
    }

    /// Returns the instants that are not finished, those of an earlier process included.
    pub fn instants(self: &Arc<Self>) -> Vec<Instant> {
        self.active().sides.iter().map(|side| Instant { capture: self.clone(), side: side.clone() }).collect()
    }

    /// Puts everything that was noted on disk: call it when the volume is closed in order.
    pub fn close(&self) -> io::Result<()> {
        let _guard = self.changing();
        self.inner.flush()?;
        self.active().now.close()
    }

    /// Makes the files of an instant.
    fn prepare(&self, name: &str, begun: &Arc<AtomicBool>) -> io::Result<Begins> {
        let active = self.active();
        if active.now.since() == Some(name) || active.sides.iter().any(|side| side.name == name || side.since() == name) {
            let sentence = format!("{name} was captured before: a snapshot has a name of its own");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, sentence));
        }
        let now = active.now.clone();
        // In this order: a crash in between leaves an instant, and nothing that is known of now.
        let result = Side::create(&self.folder, name, self.inner.bytes(), now, self.key.clone()).and_then(|side| {
            let after = Changes::create(&side::changes_path(&self.folder, name), name)?;
            Ok(Begins { begun: begun.clone(), side: Arc::new(side), after: Arc::new(after) })
        });
        result.map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                self.remove_files(name);
                let _ = std::fs::remove_file(side::changes_path(&self.folder, name));
            }
            folder_error(&self.folder, &error)
        })
    }

    fn remove_files(&self, name: &str) {
        side::remove(&self.folder, name);
    }

    /// Locks the blocks of a range: alone, or shared with other requests.
    fn lock_blocks(&self, offset: u64, bytes: u64, alone: bool) -> Locks<'_> {
        let blocks = blocks(offset, bytes);
        let mut stripes: Vec<u64> = if blocks.end - blocks.start >= STRIPES { (0..STRIPES).collect() } else { blocks.map(|block| block % STRIPES).collect() };
        // Everybody takes them in this order.
        stripes.sort_unstable();
        let (mut locks, stripes) = (Locks { _shared: Vec::new(), _alone: Vec::new() }, stripes.into_iter().map(|stripe| &self.stripes[stripe as usize]));
        if alone {
            locks._alone = stripes.map(|stripe| stripe.write().unwrap_or_else(PoisonError::into_inner)).collect();
        } else {
            locks._shared = stripes.map(|stripe| stripe.read().unwrap_or_else(PoisonError::into_inner)).collect();
        }
        locks
    }

    /// Sets aside what a change of the range replaces, notes the change and makes it.
    fn change(&self, offset: u64, bytes: u64, clears: bool, make: &dyn Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        loop {
            let locks = self.lock_blocks(offset, bytes, false);
            let active = self.active();
            let begun = active.begun();
            let quiet = active.sides.is_empty() && begun.is_none();
            // Zeros that become zeros are not a change.
            let holes = || clears && !self.inner.may_hold_data(offset, bytes);
            let mut sides = active.sides.iter().chain(begun.map(|begins| &begins.side));
            if quiet || !sides.any(|side| side.needs(offset, bytes)) || holes() {
                let blocks = blocks(offset, bytes);
                begun.map_or(&active.now, |begins| &begins.after).insert(blocks.start, blocks.end - blocks.start);
                return make(offset, bytes);
            }
            drop(locks);
            let _alone = self.lock_blocks(offset, bytes, true);
            let active = self.active();
            let sides = active.sides.iter().chain(active.begun().map(|begins| &begins.side));
            sides.for_each(|side| side.set_aside(&*self.inner, offset, bytes));
        }
    }

    /// Discards or zeros a range, which may be the whole volume, in parts.
    fn clear(&self, offset: u64, bytes: u64, make: &dyn Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        within(self.bytes(), offset, bytes)?;
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let long = CLEARED_IDLE - at % CLEARED_IDLE;
            let quiet = self.count.load(Ordering::SeqCst) == 0 || !self.inner.may_hold_data(at, long.min(end - at));
            let part = if quiet { long } else { CLEARED_AT_ONCE - at % CLEARED_AT_ONCE }.min(end - at);
            self.change(at, part, true, make)?;
            at += part;
        }
        Ok(())
    }
}

/// Captures several volumes at one instant: a write that followed another, on whichever of them, is
/// only in it together with that one. All or none.
pub fn begin_all(captures: &[(Arc<Capture>, &str)]) -> io::Result<Vec<Instant>> {
    let mut order: Vec<&(Arc<Capture>, &str)> = captures.iter().collect();
    order.sort_by_key(|(capture, _)| Arc::as_ptr(capture) as usize);
    if order.windows(2).any(|two| Arc::ptr_eq(&two[0].0, &two[1].0)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a volume is named twice for one instant"));
    }
    captures.iter().try_for_each(|(_, name)| check_part(name))?;
    let _guards: Vec<_> = order.iter().map(|(capture, _)| capture.changing()).collect();
    let flag = Arc::new(AtomicBool::new(false));
    let mut prepared: Vec<Begins> = Vec::new();
    for (capture, name) in captures {
        match capture.prepare(name, &flag) {
            Ok(begins) => prepared.push(begins),
            Err(error) => {
                for ((capture, name), _) in captures.iter().zip(&prepared) {
                    capture.remove_files(name);
                    let _ = std::fs::remove_file(side::changes_path(&capture.folder, name));
                }
                return Err(error);
            }
        }
    }
    for ((capture, _), begins) in captures.iter().zip(&prepared) {
        let active = capture.active();
        capture.set_active(Active { sides: active.sides.clone(), now: active.now.clone(), begins: Some(begins.clone()) });
    }
    // The instant.
    flag.store(true, Ordering::SeqCst);
    for (capture, _) in captures {
        capture.stripes.iter().for_each(|stripe| drop(stripe.write().unwrap_or_else(PoisonError::into_inner)));
    }
    let mut instants = Vec::new();
    for ((capture, _), begins) in captures.iter().zip(prepared) {
        let mut sides = capture.active().sides.clone();
        sides.push(begins.side.clone());
        capture.set_active(Active { sides, now: begins.after, begins: None });
        instants.push(Instant { capture: capture.clone(), side: begins.side });
    }
    Ok(instants)
}

fn folder_error(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("a snapshot's files in {}: {error}", folder.display()))
}

/// Opens the set of what changed since the last capture: the set that no instant ends. More than
/// one are what a crash left while an instant ended; then nothing is known, as when the file cannot
/// be trusted.
fn open_changes(folder: &Path, sides: &[Arc<Side>], afters: &[String], origin: Option<&str>) -> io::Result<Option<Changes>> {
    let open: Vec<&String> = afters.iter().filter(|name| sides.iter().all(|side| side.since() != name.as_str())).collect();
    if let Some(origin) = origin {
        return Changes::create(&side::changes_path(folder, origin), origin).map(Some);
    }
    let changes = match &open[..] {
        [name] => Changes::open(&side::changes_path(folder, name), name)?,
        _ => None,
    };
    if changes.is_none() {
        open.iter().try_for_each(|name| std::fs::remove_file(side::changes_path(folder, name)))?;
    }
    Ok(changes)
}

/// Lists the names of the instants in a folder, and of the sets of changes.
fn list_names(folder: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let (mut sides, mut afters, mut asides) = (Vec::new(), Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if let Some(name) = name.strip_suffix(".marks") {
            sides.push(name.to_string());
        } else if let Some(name) = name.strip_suffix(".after") {
            afters.push(name.to_string());
        } else if name.contains(".aside") {
            asides.push(name);
        }
    }
    // A crash while an instant began or ended.
    for name in asides.iter().filter(|name| name.rsplit_once(".aside").is_none_or(|(side, _)| !sides.iter().any(|other| other == side))) {
        std::fs::remove_file(folder.join(name))?;
    }
    sides.sort();
    Ok((sides, afters))
}

/// The bytes of a volume as they were. It stays under way, and on disk, until it is finished.
pub struct Instant {
    capture: Arc<Capture>,
    side: Arc<Side>,
}

impl Instant {
    /// Returns the name it was begun with.
    pub fn name(&self) -> &str {
        &self.side.name
    }

    /// Returns an error once the instant is lost: the disk was full when something had to be set
    /// aside, or the machine stopped. The volume is not affected.
    pub fn check(&self) -> io::Result<()> {
        self.side.check()
    }

    /// Ends it: nothing is set aside for it any more, and its files are gone.
    pub fn finish(self) -> io::Result<()> {
        let capture = &self.capture;
        let _guard = capture.changing();
        let active = capture.active();
        let sides: Vec<_> = active.sides.iter().filter(|side| side.name != self.side.name).cloned().collect();
        capture.set_active(Active { sides, now: active.now.clone(), begins: None });
        // In this order: a set without the instant that ends it would be taken for the current set.
        if !self.side.since().is_empty() && active.now.since() != Some(self.side.since()) {
            let _ = std::fs::remove_file(side::changes_path(&capture.folder, self.side.since()));
        }
        capture.remove_files(&self.side.name);
        Ok(())
    }
}

impl BlockSource for Instant {
    fn bytes(&self) -> u64 {
        self.side.bytes
    }

    fn read_block(&self, index: u64, into: &mut [u8]) -> io::Result<()> {
        self.side.read_block(&*self.capture.inner, index, into)
    }

    fn may_hold_data(&self, first: u64, count: u64) -> bool {
        self.side.may_hold_data(&*self.capture.inner, first, count.min(blocks_of(self.side.bytes).saturating_sub(first)))
    }

    fn changes(&self) -> Option<(&str, &super::BlockSet)> {
        let changes = &self.side.changes;
        changes.since().map(|since| (since, changes.set()))
    }

    fn foreground(&self) -> Option<&Foreground> {
        Some(&self.capture.foreground)
    }

    fn stored(&self, index: u64) {
        self.side.mark_stored(index);
    }
}

impl Backing for Capture {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.foreground.note();
        self.inner.read(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, data.len() as u64)?;
        self.foreground.note();
        self.change(offset, data.len() as u64, false, &|_, _| self.inner.write(data, offset))
    }

    fn flush(&self) -> io::Result<()> {
        self.foreground.note();
        self.inner.flush()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, &|at, bytes| self.inner.discard(at, bytes))
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, &|at, bytes| self.inner.zero(at, bytes))
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        let _guard = self.changing();
        self.inner.grow(bytes)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.inner.allocated()
    }

    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        self.inner.may_hold_data(offset, bytes)
    }
}
