//! Estimates the speed of a local disk without a figure in the catalog, before a run tells: by its
//! kind and by the load of the database.
//!
//! ```text
//!   data sheets of drives of its kind -> pages read and written at random, bytes in sequence a second
//!   time of a transaction on the disk  = reads / r + page writes / w + log and doublewrite / s
//! ```
//!
//! Flash reads and writes by the same channels, so their times add up. A volume of the model has
//! caps for reads and for writes that do not know of each other. Whichever of them takes more of
//! the disk's time has its cap where both together are done in time; the other has half of the
//! disk, which it does not need here.

use super::database::Database;
use super::demand::{DeviceCounting, Flow, Places};
use super::warmup::{At, WarmUp};
use crate::demand::measure::Measured;
use crate::error::SimError;
use crate::setup::Setup;
use chrono::NaiveDate;
use headrace_catalog::VolumeLimits;
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("../../../../data/local_disks.csv");
/// Size of the requests that data sheets count, and bytes of their MB.
const SHEET_BYTES: f64 = 4_096.0;
const MB: f64 = 1e6;
/// Share of the disk's time that reads or writes get at least: more than the smaller of them needs.
const LEAST_SHARE: f64 = 0.5;
/// Drives for servers are sold from 240 GB to 15.36 TB: a smaller size is a part of one.
const LEAST_GB: f64 = 240.0;
const MOST_GB: f64 = 15_360.0;
/// A size with a quarter to spare, and half of the way, in octaves, from there to 0.96 of the
/// flash.
const SPARED_GB: f64 = 1_600.0;
const HALF_STEP: f64 = 0.13;
/// The largest drives behind SATA, with a quarter to spare (Intel DC S3610) and without (Samsung
/// PM883), and a twentieth for how sizes are rounded.
const MOST_SATA_SPARED_GB: f64 = 1.05 * 1_600.0;
const MOST_SATA_GB: f64 = 1.05 * 7_680.0;

/// Kind of a local disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Flash behind SATA.
    SataSsd,
    /// Flash behind NVMe.
    NvmeSsd,
}

impl DiskKind {
    /// Returns the typical time of a 4 KiB read that has the drive for itself, us. Data sheets,
    /// from memory: Intel DC P4510 77, Micron 7450 PRO 80; Micron 5200 ECO 150.
    fn read_us(self) -> f64 {
        match self {
            DiskKind::SataSsd => 150.0,
            DiskKind::NvmeSsd => 80.0,
        }
    }
}

/// Rates of a disk that does nothing else, logarithms of bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sheet {
    random_reads: f64,
    random_writes: f64,
    sequential_writes: f64,
}

/// Facts about a local disk under a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LocalDisk {
    /// [`Database::local_disk`]: how many times faster than the catalog's guess it writes.
    pub writes: f64,
    /// [`Database::local_disk_reads`]: how many times as many reads for each write.
    pub reads: f64,
    /// [`Database::local_disk_read_ms`]: a page read alone, ms.
    pub read_ms: f64,
    /// Pages it writes a second at random if it does nothing else.
    pub page_writes_per_s: f64,
    /// Standard deviation of the logarithm of its speed.
    pub spread: f64,
}

/// Returns the local disk of a database with a settled cache of `cache_bytes`: of `gb` GB and of a
/// kind. A disk of unknown kind is of the slower kind of this size, so that a plan does not promise
/// what only the faster has, and its spread contains the faster. `known_writes`: pages a second at
/// random that somebody knows it to write, and the standard deviation of the logarithm; they move
/// its speed by what they are worth. `as_of`: the day of the catalog's guess.
///
/// # Errors
/// A table that cannot be read; a catalog without local disks at this day.
pub fn local_disk(
    database: &Database,
    cache_bytes: f64,
    (kind, gb): (Option<DiskKind>, f64),
    known_writes: Option<(f64, f64)>,
    as_of: NaiveDate,
) -> Result<LocalDisk, SimError> {
    let setup = Setup::resolve("instance-store:1", None, as_of)?;
    let warm_up = WarmUp::new(database, cache_bytes);
    let at = warm_up.at(warm_up.settled_tx(), &mut 0);
    let kinds = kinds_of(kind, gb);
    let (mut sheet, mut variance) = sheet_of(kinds[0], gb)?;
    let seconds = |sheet: &Sheet| Times::new(database, &setup, &at, sheet).all();
    for other in &kinds[1..] {
        // The other kind is as likely, and does this load faster by this logarithm.
        let faster = libm::log(seconds(&sheet) / seconds(&sheet_of(*other, gb)?.0));
        variance += if faster.is_finite() { faster * faster / kinds.len() as f64 } else { 0.0 };
    }
    let mut spread = libm::sqrt(variance);
    if let Some((pages_s, doubt)) = known_writes {
        SimError::check_range("pages written a second", pages_s, 1.0, 1e9)?;
        let difference = libm::log(pages_s * database.cached_bytes) - sheet.random_writes;
        // Two things known of one logarithm; what writes faster reads faster by as much.
        let weight = spread * spread / (spread * spread + doubt * doubt);
        sheet = Sheet {
            random_reads: sheet.random_reads + weight * difference,
            random_writes: sheet.random_writes + weight * difference,
            sequential_writes: sheet.sequential_writes + weight * difference,
        };
        spread *= libm::sqrt(1.0 - weight);
    }
    let (writes, reads) = Times::new(database, &setup, &at, &sheet).shares(&setup, &sheet);
    // The rest of a page follows at the pace of many reads.
    let rest_bytes = (database.read_bytes - SHEET_BYTES).max(0.0);
    Ok(LocalDisk {
        writes,
        reads: reads / writes,
        read_ms: kinds[0].read_us() / 1e3 + rest_bytes / libm::exp(sheet.random_reads) * 1e3,
        page_writes_per_s: libm::exp(sheet.random_writes) / database.cached_bytes,
        spread,
    })
}

/// Seconds that a disk is busy with a transaction of a load.
struct Times {
    measured: Measured,
    reading: f64,
    writing: f64,
}

impl Times {
    /// Returns the times of a transaction in the state `at` of the cache, on a disk of these rates.
    fn new(database: &Database, setup: &Setup, at: &At, sheet: &Sheet) -> Times {
        let places = Places { data: DeviceCounting::new(setup, database), log: None };
        // A log write that a drive keeps over a power cut costs its bytes.
        let (flow, _) = places.of_transaction(database, at, 1.0, 0.0);
        let pages = (at.evicted_dirty + at.flushed) * at.shape * database.cached_bytes;
        let Flow { measured } = flow;
        let reading = measured.read_bytes / libm::exp(sheet.random_reads);
        let writing = pages / libm::exp(sheet.random_writes) + (measured.write_bytes - pages).max(0.0) / libm::exp(sheet.sequential_writes);
        Times { measured, reading, writing }
    }

    /// Returns the time of reads and writes together, s: they share the flash's channels.
    fn all(&self) -> f64 {
        self.reading + self.writing
    }

    /// Returns the factors on the catalog's caps of writes and of reads with which a load gets done
    /// what the disk does of it.
    fn shares(&self, setup: &Setup, sheet: &Sheet) -> (f64, f64) {
        let all = self.all();
        // A load without I/O has the disk for either.
        let share = |time: f64| if all > 0.0 { (time / all).max(LEAST_SHARE) } else { 1.0 };
        let limits = &setup.limits[0];
        let factor = |time: f64, capped: f64, pure: f64| share(time) * if time > 0.0 { capped / time } else { pure };
        let [by_writes, by_reads] = on_caps(limits, &self.measured);
        let [pure_writes, pure_reads] = [
            libm::exp(sheet.random_writes) / limits.throughput_bytes_s as f64,
            libm::exp(sheet.random_reads) / limits.reads.map_or(limits.throughput_bytes_s, |reads| reads.throughput_bytes_s) as f64,
        ];
        (factor(self.writing, by_writes, pure_writes), factor(self.reading, by_reads, pure_reads))
    }
}

/// Returns the seconds that the caps of writes and of reads alone take for a flow.
fn on_caps(limits: &VolumeLimits, flow: &Measured) -> [f64; 2] {
    let seconds = |units: f64, bytes: f64, iops: u64, rate: u64| (units / iops as f64).max(bytes / rate as f64);
    let (iops, rate) = limits.reads.map_or((limits.iops, limits.throughput_bytes_s), |reads| (reads.iops, reads.throughput_bytes_s));
    [seconds(flow.write_units, flow.write_bytes, limits.iops, limits.throughput_bytes_s), seconds(flow.read_units, flow.read_bytes, iops, rate)]
}

/// Returns the kinds that a drive of `gb` GB may be of, the slower first.
fn kinds_of(kind: Option<DiskKind>, gb: f64) -> Vec<DiskKind> {
    let most_gb = if has_spare(gb) { MOST_SATA_SPARED_GB } else { MOST_SATA_GB };
    match kind {
        Some(kind) => vec![kind],
        None if gb > most_gb => vec![DiskKind::NvmeSsd],
        None => vec![DiskKind::SataSsd, DiskKind::NvmeSsd],
    }
}

/// Returns the rates in the middle of the drives of a kind with as much flash and as much of it to
/// spare, and the variance of their writes at random.
fn sheet_of(kind: DiskKind, gb: f64) -> Result<(Sheet, f64), SimError> {
    let gb = gb.clamp(LEAST_GB, MOST_GB);
    let drives = drives()?;
    let alike = drives.iter().filter(|drive| drive.kind == kind && has_spare(drive.gb) == has_spare(gb));
    Ok(summarise_drives(alike.map(|drive| drive.sheet_at(gb))))
}

/// Returns the middle of some drives, and the variance of their writes at random.
fn summarise_drives(drives: impl Iterator<Item = Sheet> + Clone) -> (Sheet, f64) {
    let middle = mean_of(drives.clone());
    let squares: Vec<f64> = drives.map(|sheet| (sheet.random_writes - middle.random_writes) * (sheet.random_writes - middle.random_writes)).collect();
    (middle, squares.iter().sum::<f64>() / (squares.len() as f64 - 1.0))
}

/// Returns the mean of each figure over the sheets.
fn mean_of(sheets: impl Iterator<Item = Sheet> + Clone) -> Sheet {
    let count = sheets.clone().count() as f64;
    let mean = |figure: fn(&Sheet) -> f64| sheets.clone().map(|sheet| figure(&sheet)).sum::<f64>() / count;
    Sheet {
        random_reads: mean(|sheet| sheet.random_reads),
        random_writes: mean(|sheet| sheet.random_writes),
        sequential_writes: mean(|sheet| sheet.sequential_writes),
    }
}

/// A row of the table, in requests and bytes a second.
#[derive(Clone, Copy, Debug)]
struct Drive {
    kind: DiskKind,
    gb: f64,
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
}

impl Drive {
    /// Returns the figures of such a drive of `gb`. At random it moves as many bytes a second in
    /// pages as in the requests of data sheets, and not more than in sequence. Random writes go
    /// with the dies that write at the same time; reads and sequences end at controller and
    /// interface.
    fn sheet_at(&self, gb: f64) -> Sheet {
        let at_random = |iops: f64, most: f64| libm::log((iops * SHEET_BYTES).min(most));
        Sheet {
            random_reads: at_random(self.reads, self.read_bytes),
            random_writes: at_random(self.writes * gb / self.gb, self.written_bytes),
            sequential_writes: libm::log(self.written_bytes),
        }
    }
}

/// Returns whether drives of this size leave a quarter of their flash free, which garbage
/// collection needs for random writes: makers sell 2^k TB of flash as 0.8 of it then (1.6 TB, 3.2
/// TB), and as 0.96 or all of it where they do not (1.92 TB, 2 TB).
fn has_spare(gb: f64) -> bool {
    let octaves = libm::log2(gb / SPARED_GB);
    (octaves - libm::round(octaves)).abs() < HALF_STEP
}

/// Returns the drives of the table.
fn drives() -> Result<Vec<Drive>, SimError> {
    let read = |row: &str| -> Option<Drive> {
        let cells: Vec<&str> = row.split(',').collect();
        let [kind, _, gb, reads, writes, read_mb, write_mb, ..] = cells[..] else { return None };
        let kind = match kind {
            "sata-ssd" => DiskKind::SataSsd,
            "nvme-ssd" => DiskKind::NvmeSsd,
            _ => return None,
        };
        let number = |text: &str| text.parse::<f64>().ok();
        let (read_bytes, written_bytes) = (number(read_mb)? * MB, number(write_mb)? * MB);
        Some(Drive { kind, gb: number(gb)?, reads: number(reads)?, writes: number(writes)?, read_bytes, written_bytes })
    };
    TABLE
        .lines()
        .skip(1)
        .map(|row| read(row).ok_or_else(|| SimError::refused("row of data/local_disks.csv", row, "must hold a kind and numbers", "Correct the file.")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::sysbench::{Oltp, Script};

    const GIB: f64 = 1_073_741_824.0;

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2021, 2, 23).unwrap()
    }

    fn oltp(script: Script) -> Database {
        Oltp { script, tables: 10, table_size: 10_000_000, cache_gib: Some(4.0), redo_gib: Some(4.0), ..Oltp::default() }.database().unwrap()
    }

    /// Returns what a transaction with a settled cache takes of a drive of 960 GB, by its sheet.
    fn disk_seconds(database: &Database, cache_bytes: f64, kind: DiskKind) -> f64 {
        let (sheet, _) = sheet_of(kind, 960.0).unwrap();
        let at = *WarmUp::new(database, cache_bytes).points().last().unwrap();
        let pages = (at.evicted_dirty + at.flushed) * at.shape;
        let logged = database.log.redo_bytes_per_tx + database.log.binlog_bytes_per_tx;
        let [reads, writes, sequential] = [sheet.random_reads, sheet.random_writes, sheet.sequential_writes].map(f64::exp);
        at.reads * at.shape * 16_384.0 / reads + pages * 16_384.0 / writes + (pages * 16_384.0 + logged) / sequential
    }

    /// Pages written at random by the table, by hand, in thousands of 4 KiB. Drives of 960 GB
    /// without much spare flash: SATA (16 x 36 x 24 x 25 x 28)^(1/5) = 24.95, 6,239 pages; NVMe
    /// (81.5/2 x 50/1.92 x 135/3.84 x 170/3.84 x 180/3.84)^(1/5) x 0.96 = 36.31, 9,078 pages.
    /// With it, of 3.2 TB, which is not made behind SATA: (56/1.6 x 180/3.2 x 310/3.2
    /// x 350/3.2 x 390/3.2)^(1/5) x 3.2 = 243.3, 60,833 pages. Deviations: 0.294, 0.235
    /// and 0.526. A drive of unknown kind is SATA, and as likely NVMe, which does this load e^d
    /// times faster: sqrt(0.294^2 + d^2 / 2).
    #[test]
    fn drives_of_a_kind_and_size_have_a_middle() {
        let of = |kind, gb| local_disk(&oltp(Script::OltpReadWrite), 4.0 * GIB, (kind, gb), None, day()).unwrap();
        let (sata, nvme) = (Some(DiskKind::SataSsd), Some(DiskKind::NvmeSsd));
        let seconds = |kind| disk_seconds(&oltp(Script::OltpReadWrite), 4.0 * GIB, kind);
        let faster = (seconds(DiskKind::SataSsd) / seconds(DiskKind::NvmeSsd)).ln();
        let either = (0.294f64.powi(2) + faster * faster / 2.0).sqrt();
        // Writes at random are 1.46 times faster, reads six times.
        assert!((1.46f64.ln()..6.0f64.ln()).contains(&faster), "{faster}");
        for (kind, gb, pages, spread) in
            [(sata, 960.0, 6_239.0, 0.294), (nvme, 960.0, 9_078.0, 0.235), (None, 960.0, 6_239.0, either), (None, 3_200.0, 60_833.0, 0.526)]
        {
            let disk = of(kind, gb);
            assert!((disk.page_writes_per_s / pages - 1.0).abs() < 2e-4 && (disk.spread - spread).abs() < 1e-3, "{kind:?}: {disk:?}");
        }
        assert_eq!(of(None, 3_200.0), of(nvme, 3_200.0));
        // 80 us, and 12 KiB at the pace of the NVMe drives' reads.
        let reads = sheet_of(DiskKind::NvmeSsd, 1_920.0).unwrap().0.random_reads.exp();
        assert!((of(nvme, 1_920.0).read_ms - 0.08 - 12_288.0 / reads * 1e3).abs() < 1e-12);
    }

    /// A transaction takes of the tighter cap what the disk takes for its reads and writes
    /// together: worked out here from the sheet of the SATA drives by hand.
    #[test]
    fn times_of_reads_and_writes_add_up() {
        let database = oltp(Script::OltpReadWrite);
        let (cache, setup) = (4.0 * GIB, Setup::resolve("instance-store:1", None, day()).unwrap());
        let at = *WarmUp::new(&database, cache).points().last().unwrap();
        let disk_s = disk_seconds(&database, cache, DiskKind::SataSsd);
        let disk = local_disk(&database, cache, (Some(DiskKind::SataSsd), 960.0), None, day()).unwrap();
        let scaled = setup.with_local_disk(disk.writes, disk.writes * disk.reads);
        let (flow, _) = Places { data: DeviceCounting::new(&scaled, &database), log: None }.of_transaction(&database, &at, 1.0, 0.0);
        let [writing, reading] = on_caps(&scaled.limits[0], &flow.measured);
        // Caps are whole numbers of some ten thousand: off by 1e-4.
        assert!((writing.max(reading) / disk_s - 1.0).abs() < 2e-4, "{writing} and {reading} of {disk_s}");
    }

    /// A load that only reads has the disk for its reads.
    #[test]
    fn a_load_that_reads_has_all_of_the_disk() {
        let setup = Setup::resolve("instance-store:1", None, day()).unwrap();
        let disk = local_disk(&oltp(Script::OltpPointSelect), 4.0 * GIB, (Some(DiskKind::NvmeSsd), 1_920.0), None, day()).unwrap();
        let (sheet, _) = sheet_of(DiskKind::NvmeSsd, 1_920.0).unwrap();
        let capped = setup.limits[0].reads.unwrap().throughput_bytes_s as f64 * disk.writes * disk.reads;
        // The guess's IOPS bind before its bytes, by less than a percent.
        assert!((capped / sheet.random_reads.exp() - 1.0).abs() < 0.01, "{capped}");
    }

    /// Two things known of one speed meet at their weighted mean: as doubtful as the table is, half
    /// of the way by ratio, and known better by the root of two; of no doubt at all, they are it.
    #[test]
    fn what_else_is_known_moves_the_speed() {
        let database = oltp(Script::OltpReadWrite);
        let plain = local_disk(&database, 4.0 * GIB, (None, 960.0), None, day()).unwrap();
        let halfway = local_disk(&database, 4.0 * GIB, (None, 960.0), Some((4.0 * plain.page_writes_per_s, plain.spread)), day()).unwrap();
        assert!((halfway.page_writes_per_s / plain.page_writes_per_s - 2.0).abs() < 1e-9);
        assert!((halfway.spread * 2f64.sqrt() / plain.spread - 1.0).abs() < 1e-9);
        assert!((halfway.writes / plain.writes - 2.0).abs() < 1e-9 && (halfway.reads / plain.reads - 1.0).abs() < 1e-9);
        let sure = local_disk(&database, 4.0 * GIB, (None, 960.0), Some((8_000.0, 0.0)), day()).unwrap();
        assert!((sure.page_writes_per_s / 8_000.0 - 1.0).abs() < 1e-9 && sure.spread < 1e-9);
    }
}
