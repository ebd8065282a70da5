//! Metrics of volumes: a row a second kept for an hour, a row a minute kept for 15 days, counters
//! since the daemon's start.
//!
//! | file | idea |
//! |---|---|
//! | `row` | the columns, JSON, CSV |
//! | `latencies` | histograms over a stretch, and how exact they are |
//! | `slot` | a stored row with its checksum |
//! | `ring` | the file of the newest rows |
//! | `series` | seconds and minutes of one volume or member |
//! | `totals` | counters since the daemon's start |
//! | `retired` | the rows of volumes that were deleted |
//! | `minutes` | rows of minutes as CloudWatch's metrics see them |
//! | `nvme` | the NVMe statistics page |
//!
//! Files: `FOLDER/{VOLUME or VOLUME-mN}/{seconds,minutes}`, at most 3.5 and 42.2 MiB. Memory: about
//! 20 KiB a volume or member.
//!
//! Rows are in the order they happened: where the clock was set back, `t_s` steps back too. Minutes
//! are those of the clock; one that is not over yet is in the rows, as far as it has come. A volume
//! keeps its rows while it is detached: an hour means 3,600 rows.
//!
//! The counters hold what was recorded; the rows may lack what a full disk refused, which is
//! counted ([`Store::dropped`]).

mod latencies;
mod minutes;
mod nvme;
mod retired;
mod ring;
mod row;
mod series;
mod slot;
mod totals;

pub use latencies::{Latencies, CLASSES};
pub use minutes::{facts_of, minute_of};
pub use retired::Retired;
pub use row::{CreditUnit, ErrorFactor, Extra, Row, COLUMNS};
pub use totals::histogram_bounds_s;

use headrace_device::meter::Sample;
use headrace_protocol::answers::VolumeTotals;
use row::Stretch;
use series::Series;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use totals::Totals;

/// The length of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// One second; 3,600 are kept.
    Second,
    /// One minute; 21,600 are kept.
    Minute,
}

type Key = (String, Option<u32>);

/// The rows and counters of a volume or member, as far as they are known.
#[derive(Default)]
struct VolumeMetrics {
    /// Rows of the volume; None until its files were looked at.
    series: Option<Series>,
    /// Counters of the volume; None until a second was recorded.
    totals: Option<Totals>,
    /// Rows lost because its files could not be looked at.
    dropped: u64,
    /// True if it was forgotten: a row that came while it was deleted must not bring it back.
    forgotten: bool,
}

impl VolumeMetrics {
    fn series(&mut self, folder: &Path) -> io::Result<&mut Series> {
        if self.series.is_none() {
            self.series = Some(Series::open(folder)?);
        }
        Ok(self.series.as_mut().expect("just set"))
    }

    fn dropped(&self) -> u64 {
        self.dropped + self.series.as_ref().map_or(0, |series| series.dropped)
    }
}

type Shared = Arc<Mutex<VolumeMetrics>>;

/// The rows and counters of all volumes. One store a folder; the folder's lock is the journal's.
pub struct Store {
    folder: PathBuf,
    series: Mutex<BTreeMap<Key, Shared>>,
    /// Volumes that were deleted and whose rows are kept.
    retired: Mutex<BTreeMap<String, Retired>>,
    /// Rows that were lost of volumes that were forgotten since.
    dropped: AtomicU64,
}

impl Store {
    /// Makes the folder where it is missing. Files of a volume are opened when it is first asked
    /// for.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path) -> io::Result<Store> {
        fs::create_dir_all(folder).map_err(|error| add_path(folder, error))?;
        let retired = retired::read(folder).map_err(|error| add_path(folder, error))?;
        Ok(Store { folder: folder.to_path_buf(), series: Mutex::new(BTreeMap::new()), retired: Mutex::new(retired), dropped: AtomicU64::new(0) })
    }

    /// Records what a volume, or a member of an array, did in the second `unix_s`.
    ///
    /// # Errors
    /// A row could not be written (a full disk, most often): it is lost and counted, the next one
    /// is tried again. Counters and the minute under way contain it all the same. A volume's id
    /// that is not well-formed ([`ErrorKind::InvalidInput`]): nothing was recorded.
    pub fn record(&self, volume: &str, member: Option<u32>, unix_s: u64, sample: &Sample, extra: &Extra) -> io::Result<()> {
        self.add(volume, member, unix_s, sample, extra, false)
    }

    /// Records what a volume did in a part of the second `unix_s`, which is not over: what follows
    /// in that second is added to the same row.
    ///
    /// # Errors
    /// The errors of [`Store::record`].
    pub fn record_part(&self, volume: &str, member: Option<u32>, unix_s: u64, sample: &Sample, extra: &Extra) -> io::Result<()> {
        self.add(volume, member, unix_s, sample, extra, true)
    }

    /// Adds a sample to the counters, and to the row of the second `unix_s`; with `is_part` that
    /// second is not over.
    fn add(&self, volume: &str, member: Option<u32>, unix_s: u64, sample: &Sample, extra: &Extra, is_part: bool) -> io::Result<()> {
        let folder = self.folder_of(volume, member)?;
        let shared = Arc::clone(lock(&self.series).entry((volume.to_string(), member)).or_default());
        let mut metrics = lock(&shared);
        if metrics.forgotten {
            return Ok(());
        }
        let stretch = Stretch::new(sample, extra);
        metrics.totals.get_or_insert_with(Totals::new).add(&stretch);
        let written = match metrics.series(&folder) {
            Ok(series) => series.record(unix_s, &stretch, is_part),
            Err(error) => {
                metrics.dropped += 1;
                Err(error)
            }
        };
        written.map_err(|error| add_path(&folder, error))
    }

    /// Returns the newest `last` of the rows from `since_unix_s` on; without them, all that are
    /// kept. A volume nothing was recorded of has none.
    ///
    /// # Errors
    /// The files cannot be read; [`ErrorKind::InvalidInput`] for a volume's id that is not
    /// well-formed.
    pub fn rows(&self, volume: &str, member: Option<u32>, resolution: Resolution, since_unix_s: Option<u64>, last: Option<usize>) -> io::Result<Vec<Row>> {
        self.with_series(volume, member, |series| series.rows(resolution, since_unix_s.unwrap_or(0), last.unwrap_or(usize::MAX))).map(Option::unwrap_or_default)
    }

    /// Returns the rows of minutes from `since_unix_s` to before `until_unix_s`, as they happened.
    /// Looks no further back than an hour before the first: where the clock was set back by more,
    /// rows from before that are not found.
    ///
    /// # Errors
    /// The errors of [`Store::rows`].
    pub fn minutes(&self, volume: &str, member: Option<u32>, since_unix_s: u64, until_unix_s: u64) -> io::Result<Vec<Row>> {
        self.with_series(volume, member, |series| series.minutes(since_unix_s, until_unix_s)).map(Option::unwrap_or_default)
    }

    /// Returns the latencies, by operation and size class, of the rows from `since_unix_s` to
    /// before `until_unix_s`; without them, of all that are kept.
    ///
    /// # Errors
    /// The errors of [`Store::rows`].
    pub fn histogram(
        &self,
        volume: &str,
        member: Option<u32>,
        resolution: Resolution,
        since_unix_s: Option<u64>,
        until_unix_s: Option<u64>,
    ) -> io::Result<Latencies> {
        let (since, until) = (since_unix_s.unwrap_or(0), until_unix_s.unwrap_or(u64::MAX));
        self.with_series(volume, member, |series| series.latencies(resolution, since, until)).map(Option::unwrap_or_default)
    }

    /// Deletes the rows and counters of a volume and its members. Returns true if its rows are gone
    /// from the disk; files that could not be deleted do no harm.
    pub fn forget(&self, volume: &str) -> bool {
        lock(&self.retired).remove(volume);
        self.close(volume);
        self.folders_of(volume).into_iter().map(fs::remove_dir_all).fold(true, |all_gone, removed| match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => false,
            _ => all_gone,
        })
    }

    /// Ends the counters of a volume that is deleted, and takes no more rows of the volume.
    fn close(&self, volume: &str) {
        let mut all = lock(&self.series);
        let gone: Vec<Shared> = {
            let keys: Vec<Key> = all.keys().filter(|(name, _)| name == volume).cloned().collect();
            keys.iter().filter_map(|key| all.remove(key)).collect()
        };
        for shared in &gone {
            let mut metrics = lock(shared);
            self.dropped.fetch_add(metrics.dropped(), Ordering::Relaxed);
            *metrics = VolumeMetrics { forgotten: true, ..VolumeMetrics::default() };
        }
    }

    /// Returns the folders of a volume's members and its own, which comes last.
    fn folders_of(&self, volume: &str) -> Vec<PathBuf> {
        let Ok(whole) = self.folder_of(volume, None) else { return Vec::new() };
        let members = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(volume)?.strip_prefix("-m"));
            name.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        members.chain([whole]).collect()
    }

    /// Returns the number of rows that could not be written since the daemon's start.
    pub fn dropped(&self) -> u64 {
        let live: u64 = self.list_all().iter().map(|(_, shared)| lock(shared).dropped()).sum();
        live + self.dropped.load(Ordering::Relaxed)
    }

    /// Returns everything counted since the daemon's start, by volume and member.
    pub fn totals(&self) -> Vec<VolumeTotals> {
        self.list_all().into_iter().filter_map(|((volume, member), shared)| Some(lock(&shared).totals.as_ref()?.of_volume(&volume, member))).collect()
    }

    /// Returns the NVMe statistics page of a volume or member, as bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a volume's id that is not well-formed.
    pub fn nvme_page(&self, volume: &str, member: Option<u32>, queue_length: u32) -> io::Result<Vec<u8>> {
        self.folder_of(volume, member)?;
        let shared = lock(&self.series).get(&(volume.to_string(), member)).cloned();
        let totals = shared.and_then(|shared| lock(&shared).totals.clone());
        Ok(nvme::page(&totals.unwrap_or_else(Totals::new), queue_length))
    }

    fn list_all(&self) -> Vec<(Key, Shared)> {
        lock(&self.series).iter().map(|(key, shared)| (key.clone(), Arc::clone(shared))).collect()
    }

    /// Calls `look` with the rows of a volume or member; None where nothing was ever recorded.
    fn with_series<R>(&self, volume: &str, member: Option<u32>, look: impl FnOnce(&Series) -> io::Result<R>) -> io::Result<Option<R>> {
        let folder = self.folder_of(volume, member)?;
        let shared = {
            let mut all = lock(&self.series);
            let key = (volume.to_string(), member);
            // A question about a volume without rows makes no files.
            if !all.contains_key(&key) && !folder.exists() {
                return Ok(None);
            }
            Arc::clone(all.entry(key).or_default())
        };
        let mut metrics = lock(&shared);
        if metrics.forgotten {
            return Ok(None);
        }
        metrics.series(&folder).and_then(|series| look(series)).map(Some).map_err(|error| add_path(&folder, error))
    }

    /// Returns the folder of a volume or member; refuses an id that is not safe as a file name.
    fn folder_of(&self, volume: &str, member: Option<u32>) -> io::Result<PathBuf> {
        let plain = volume.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        let like_member = volume.rsplit_once("-m").is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        if !plain || like_member || !(1..=64).contains(&volume.len()) {
            let sentence = format!(
                "volume {volume:?}: a volume's id has 1-64 letters, digits, - and _, and does not end like a member's (-m0). Ask with the id the lab gave it."
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, sentence));
        }
        Ok(self.folder.join(member.map_or_else(|| volume.to_string(), |member| format!("{volume}-m{member}"))))
    }
}

fn add_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Locks a mutex. A thread that panicked left nothing half-done that matters: sums at most.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
