//! The journal: what is acknowledged is in it, and nothing else is state.
//!
//! ```text
//!  file   = header record* zeros
//!  header = "HRJOURNL" checkpoint(u64) version(u32) crc32c(u32)
//!  record = length(u32) crc32c(u32) sequence(u64) synced(u64) payload(length bytes of JSON: an Entry)
//! ```
//!
//! Integers are little-endian; the CRC covers length, sequence, synced and payload. `synced` is the
//! sequence of the newest record that had been forced to disk when this one was written;
//! `checkpoint` that of the checkpoint the file begins with, on disk before the file had its name,
//! or 0. They tell damage from a crash: a power cut can only take what was not forced yet, and
//! nothing of it was acknowledged.
//!
//! * The damaged record is the last, or every valid one after it says that it was not yet on disk:
//!   cut off there, and said.
//! * A valid record after it says that it had been on disk, or it is the checkpoint: the medium
//!   lost what was acknowledged. Refused in words, nothing is touched.
//!
//! The zeros are space for records to come, reserved so that forcing a record to disk is one write
//! and not also one of the file's new size. Zeros alone after the last record are not damage.
//!
//! Before a durable record everything earlier is forced to disk, so that a hole before it can only
//! be damage.
//!
//! A folder is open once: `lock` in it is held with flock(2) as long as the journal is.

mod scan;

use headrace_control::{Change, Event, Lab, VolumeId};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use scan::scan;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"HRJOURNL";
/// Raised when an older daemon could not read what a newer one writes.
const VERSION: u32 = 1;
/// Sizes of the header and of what precedes a payload: the layout above.
const HEADER_BYTES: u64 = 24;
const RECORD_HEADER_BYTES: usize = 24;
/// Most payload of a record: a checkpoint of the largest lab, 16,384 volumes with some KiB of
/// modifications and balances each and 64 MiB of tags, is about half of it.
const MAX_PAYLOAD_BYTES: usize = 256 << 20;
/// A journal is compacted long before; a larger record is damage, and is not read into memory.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Size from which a checkpoint is worth writing.
const COMPACT_ABOVE_BYTES: u64 = 16 << 20;
/// Space that is reserved at once: some thousand records. A guess: its zeros are written in
/// milliseconds.
const RESERVED_BYTES: u64 = 1 << 20;

/// Errors of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another daemon has the folder.
    #[error("{}: is in use by {}: one lab, one daemon (flock on its file lock). Stop that one with `headrace lab down`, or use another --lab.", .folder.display(), describe_holder(*.pid))]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Process id as the daemon wrote it; None if it could not.
        pid: Option<u32>,
    },
    /// Records that had been acknowledged cannot be read.
    #[error("{}: byte {offset}: {what} (record layout of the journal, version 1). Nothing was changed. {hint}", .file.display())]
    Damaged {
        /// The journal.
        file: PathBuf,
        /// Place of the damage, bytes from the beginning.
        offset: u64,
        /// Sentence about the damage, and the evidence for it.
        what: String,
        /// Advice.
        hint: String,
    },
    /// The operating system said no. Nothing was added: the journal ends where it did.
    #[error("{}: {what}: {error} (operating system). {hint}", .file.display())]
    Io {
        /// File or folder.
        file: PathBuf,
        /// Step that failed.
        what: &'static str,
        /// The answer.
        error: io::Error,
        /// Advice.
        hint: &'static str,
    },
    /// A disk that failed once while it was forced is not trusted again.
    #[error("{}: takes no more records since {since} (fsync(2): what is in memory may differ from the disk). Look at the disk, then start the daemon again.", .file.display())]
    Stopped {
        /// The journal.
        file: PathBuf,
        /// Step that failed, and its error.
        since: String,
    },
    /// Larger than a record may be.
    #[error("a record of {bytes} bytes: a record has at most {MAX_PAYLOAD_BYTES} bytes (journal). Split it.")]
    TooLarge {
        /// Bytes of JSON.
        bytes: usize,
    },
}

/// Some JSON, kept as it was written: state of the model, which the journal does not look into.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Writes a value as JSON.
    ///
    /// # Errors
    /// The error of serde for a value that has no JSON.
    pub fn from_value(value: &impl Serialize) -> Result<Json, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Json)
    }

    /// Reads the value again.
    ///
    /// # Errors
    /// When it was written by a version whose state was another.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.0.get() == other.0.get()
    }
}

/// State of the model and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// Lab time, Unix milliseconds.
    pub at_ms: u64,
    /// Device time the state belongs to, nanoseconds since the host was made.
    pub device_ns: u64,
    /// The state.
    pub state: Json,
}

/// Credits and caps as they were. One entry may hold some of the volumes; the others stay as they
/// were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Balances {
    /// The instance's own.
    pub instance: Option<Saved>,
    /// The saved devices, by volume.
    pub devices: BTreeMap<VolumeId, Saved>,
}

impl Balances {
    /// Takes over newer credits; those of other volumes stay.
    pub(crate) fn merge(&mut self, newer: Balances) {
        self.instance = newer.instance.or(self.instance.take());
        self.devices.extend(newer.devices);
    }
}

/// All state at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Volumes and settings.
    pub lab: Lab,
    /// Credit balances of the volumes.
    pub balances: Balances,
}

impl Checkpoint {
    /// Returns where lab time goes on, ms of lab time: the latest moment anything was noted at.
    pub fn last_lab_ms(&self) -> u64 {
        let saved = self.balances.devices.values().chain(&self.balances.instance).map(|saved| saved.at_ms);
        saved.chain([self.lab.last_ms]).max().unwrap_or(0)
    }

    /// Applies an entry to the state.
    fn apply(&mut self, entry: Entry) {
        match entry {
            // A deleted volume takes its balance with it.
            Entry::Events(events) => events.iter().for_each(|event| {
                self.lab.apply(event);
                if let Change::VolumeDeleted { volume } = &event.change {
                    self.balances.devices.remove(volume);
                }
            }),
            Entry::Balances(mut newer) => {
                newer.devices.retain(|volume, _| self.lab.volumes.contains_key(volume));
                self.balances.merge(newer);
            }
            Entry::Checkpoint(all) => {
                *self = *all;
                self.balances.devices.retain(|volume, _| self.lab.volumes.contains_key(volume));
            }
        }
    }
}

/// A record's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// Events of one decision: all or none.
    Events(Vec<Event>),
    /// Credits as they flow.
    Balances(Balances),
    /// A checkpoint, which stands in place of everything before it.
    Checkpoint(Box<Checkpoint>),
}

/// Damage that was cut off the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// End of the journal after the cut, bytes.
    pub offset: u64,
    /// Bytes cut off.
    pub bytes: u64,
    /// Reason of the cut.
    pub reason: &'static str,
}

/// Content of a journal when it was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The state all its records make.
    pub state: Checkpoint,
    /// Good records.
    pub records: u64,
    /// Balances of a version that cannot be read any more, and were left out.
    pub skipped: u64,
    /// End that a crash left damaged and that was cut off; None if the end was good.
    pub repair: Option<Repair>,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// End of the last good record; nothing counts after it.
    end: u64,
    /// End of the file: zeros lie between `end` and here.
    reserved: u64,
    /// True if space is reserved ahead; false after a reservation failed.
    reserves: bool,
    next_sequence: u64,
    /// Sequence of the newest record known to be on disk.
    synced: u64,
    /// Size right after the last checkpoint.
    compacted: u64,
    stopped: Option<String>,
    _lock: File,
}

impl Journal {
    /// Opens the journal of a folder, or begins one; makes the folder too.
    ///
    /// # Errors
    /// [`JournalError::InUse`], [`JournalError::Damaged`], [`JournalError::Io`].
    pub fn open(folder: &Path) -> Result<(Journal, Recovered), JournalError> {
        let hint = "Check the folder and its permissions, or use another --lab.";
        fs::create_dir_all(folder).map_err(|error| io_error(folder, "making the folder", error, hint))?;
        let lock = lock_folder(folder)?;
        let path = folder.join("journal");
        // The file is of a compaction that a crash ended before it counted.
        remove_if_there(&fresh_path(&path)).map_err(|error| io_error(&path, "removing journal.new", error, hint))?;
        if !path.exists() {
            begin_journal(&path).map_err(|error| io_error(&path, "beginning a journal", error, hint))?;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| io_error(&path, "opening", error, hint))?;
        let bytes = read_all(&file, &path)?;
        let scan = scan(&bytes, &path)?;
        let recovered = Recovered { state: scan.state, records: scan.records, skipped: scan.skipped, repair: scan.repair };
        let journal = Journal {
            path,
            file,
            end: scan.end,
            reserved: scan.end,
            reserves: true,
            next_sequence: scan.next_sequence,
            synced: scan.next_sequence - 1,
            compacted: 0,
            stopped: None,
            _lock: lock,
        };
        // Records that were read may be in memory only, if their daemon was killed: they count from
        // here on, so they go to disk with the cut.
        let settle = || -> io::Result<()> {
            journal.file.set_len(journal.end)?;
            journal.file.sync_all()
        };
        settle().map_err(|error| io_error(&journal.path, "settling the end", error, hint))?;
        Ok((journal, recovered))
    }

    /// Adds a record and gives its sequence number. With `durable` it is on disk on return, and so
    /// is all before it. On an error nothing was added, and the state must stay as it was. (Where
    /// forcing it to disk failed, it is not known what the disk holds: the record is taken back,
    /// but the next start may find it.)
    ///
    /// # Errors
    /// [`JournalError::Io`] when the disk is full or failed, [`JournalError::Stopped`] after it
    /// failed, [`JournalError::TooLarge`].
    pub fn append(&mut self, entry: &Entry, durable: bool) -> Result<u64, JournalError> {
        self.check_running()?;
        if durable && self.synced + 1 < self.next_sequence {
            self.sync()?;
        }
        let sequence = self.next_sequence;
        let record = encode_record(entry, sequence, self.synced)?;
        let room = self.end + record.len() as u64 <= MAX_FILE_BYTES;
        self.reserve(record.len() as u64);
        let written = if room { self.file.write_all_at(&record, self.end) } else { Err(io::ErrorKind::FileTooLarge.into()) };
        if let Err(error) = written {
            self.cut();
            return Err(io_error(&self.path, "adding a record", error, "Free space on its disk, then try again."));
        }
        let before = self.end;
        self.end += record.len() as u64;
        self.reserved = self.reserved.max(self.end);
        self.next_sequence += 1;
        if durable {
            if let Err(error) = self.sync() {
                self.end = before;
                self.next_sequence = sequence;
                self.cut();
                return Err(error);
            }
        }
        Ok(sequence)
    }

    /// Makes room for a record of `bytes` and for many after it. Without it the record itself makes
    /// the file longer, which is slower to force to disk.
    fn reserve(&mut self, bytes: u64) {
        let needed = self.end + bytes;
        if !self.reserves || needed <= self.reserved {
            return;
        }
        let zeros = vec![0; (needed + RESERVED_BYTES - self.reserved) as usize];
        match self.file.write_all_at(&zeros, self.reserved) {
            Ok(()) => self.reserved += zeros.len() as u64,
            Err(_) => {
                self.reserves = false;
                self.cut();
            }
        }
    }

    /// Ends the file with its last good record. If that fails, bytes stay behind that are not
    /// valid, and the next record is written over them.
    fn cut(&mut self) {
        let _ = self.file.set_len(self.end);
        self.reserved = self.end;
    }

    /// Forces everything to disk.
    ///
    /// # Errors
    /// The errors of [`Journal::append`].
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.check_running()?;
        match self.file.sync_data() {
            Ok(()) => {
                self.synced = self.next_sequence - 1;
                Ok(())
            }
            // Linux may drop what it could not write and answer the next fsync with success: only a
            // new start reads the bytes that are on the medium.
            Err(error) => Err(self.stop("forcing to disk", error)),
        }
    }

    /// Returns the bytes of the journal up to the end of its last whole entry.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Returns true if [`Journal::compact`] is due: the journal has above 16 MiB, and twice the
    /// size after the last checkpoint, so that a large lab is not written over and over.
    pub fn needs_compaction(&self) -> bool {
        self.end > COMPACT_ABOVE_BYTES.max(2 * self.compacted)
    }

    /// Puts a checkpoint in place of all records. The old journal counts until the new one is
    /// complete on disk.
    ///
    /// # Errors
    /// The errors of [`Journal::append`]. The journal goes on unchanged, or, when it is not known
    /// which of the two is on disk, takes no more records.
    pub fn compact(&mut self, state: &Checkpoint) -> Result<(), JournalError> {
        self.check_running()?;
        let sequence = self.next_sequence;
        let record = encode_record(&Entry::Checkpoint(Box::new(state.clone())), sequence, self.synced)?;
        let fresh = begin_fresh(&self.path, sequence, &record).map_err(|error| {
            let _ = remove_if_there(&fresh_path(&self.path));
            io_error(&self.path, "writing a checkpoint", error, "Free space on its disk; until then the journal grows.")
        })?;
        fs::rename(fresh_path(&self.path), &self.path)
            .map_err(|error| io_error(&self.path, "renaming journal.new", error, "Check the permissions of its folder."))?;
        self.file = fresh;
        self.end = HEADER_BYTES + record.len() as u64;
        self.compacted = self.end;
        (self.reserved, self.reserves) = (self.end, true);
        self.next_sequence = sequence + 1;
        self.synced = sequence;
        sync_folder_of(&self.path).map_err(|error| self.stop("forcing its folder to disk", error))
    }

    fn check_running(&self) -> Result<(), JournalError> {
        match &self.stopped {
            None => Ok(()),
            Some(since) => Err(JournalError::Stopped { file: self.path.clone(), since: since.clone() }),
        }
    }

    fn stop(&mut self, what: &'static str, error: io::Error) -> JournalError {
        self.stopped = Some(format!("{what} failed: {error}"));
        io_error(&self.path, what, error, "Look at the disk, then start the daemon again: it takes no more commands until then.")
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.stopped.is_none() {
            self.cut();
        }
    }
}

fn io_error(file: &Path, what: &'static str, error: io::Error, hint: &'static str) -> JournalError {
    JournalError::Io { file: file.to_path_buf(), what, error, hint }
}

/// Takes the lock of a folder, and writes the id of this process into its file.
fn lock_folder(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join("lock");
    let hint = "Check the folder and its permissions, or use another --lab.";
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = opened.map_err(|error| io_error(&path, "opening", error, hint))?;
    if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(io_error(&path, "locking", error.into(), hint));
        }
        let mut holder = String::new();
        let pid = file.read_to_string(&mut holder).ok().and_then(|_| holder.trim().parse::<u32>().ok());
        return Err(JournalError::InUse { folder: folder.to_path_buf(), pid });
    }
    // For people, and for what frees a killed daemon: the lock itself ends with the process.
    let note = || -> io::Result<()> {
        file.set_len(0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
    };
    // A full disk must not keep a lab from starting.
    let _ = note();
    Ok(file)
}

/// Returns the daemon that holds a lock, in words.
fn describe_holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another daemon".to_string(), |pid| format!("process {pid}"))
}

fn fresh_path(path: &Path) -> PathBuf {
    path.with_file_name("journal.new")
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes `journal.new` complete to disk: a header and perhaps a record.
fn begin_fresh(path: &Path, checkpoint: u64, record: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(fresh_path(path))?;
    file.write_all(&encode_header(checkpoint))?;
    file.write_all(record)?;
    file.sync_all()?;
    Ok(file)
}

fn begin_journal(path: &Path) -> io::Result<()> {
    begin_fresh(path, 0, &[])?;
    fs::rename(fresh_path(path), path)?;
    sync_folder_of(path)
}

/// Makes the header of a journal whose checkpoint has this sequence; 0 without one.
fn encode_header(checkpoint: u64) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&checkpoint.to_le_bytes());
    header[16..20].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Encodes an entry as a record. `synced` is the sequence of the newest record that is on disk.
fn encode_record(entry: &Entry, sequence: u64, synced: u64) -> Result<Vec<u8>, JournalError> {
    let mut record = vec![0; RECORD_HEADER_BYTES];
    // Every map in it has text keys, so it always has JSON.
    serde_json::to_writer(&mut record, entry).expect("an entry has JSON");
    let bytes = record.len() - RECORD_HEADER_BYTES;
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(JournalError::TooLarge { bytes });
    }
    record[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[16..24].copy_from_slice(&synced.to_le_bytes());
    let crc = crc_of(&record);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    Ok(record)
}

fn crc_of(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Reads a whole journal; refuses a file that is larger than any journal.
fn read_all(file: &File, path: &Path) -> Result<Vec<u8>, JournalError> {
    let hint = "Check the disk.";
    let size = file.metadata().map_err(|error| io_error(path, "reading its size", error, hint))?.len();
    if size > MAX_FILE_BYTES {
        let what = format!("the file has {size} bytes, and no journal grows beyond {MAX_FILE_BYTES}");
        let hint = "Move it away to begin an empty lab.".to_string();
        return Err(JournalError::Damaged { file: path.to_path_buf(), offset: 0, what, hint });
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| io_error(path, "reading", error, hint))?;
    Ok(bytes)
}
