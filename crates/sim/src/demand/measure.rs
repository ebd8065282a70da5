//! Demand in what buckets count: 256 KiB units, bytes, and the whole mebibytes of HDD types.
//! Computed once for a load, used for every storage.

use crate::demand::load::{Arrivals, OpenLoad, Point};
use crate::demand::mixture::OwnLatencyKey;
use crate::demand::windows::Slots;
use crate::report::MIB;
use crate::setup::Setup;
use headrace_catalog::{StorageSpec, VolumeLimits};
use headrace_model::accounting::{Accounting, StorageCost};
use std::sync::OnceLock;

/// Unit in which a bucket counts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// 256 KiB units.
    Units,
    /// Bytes.
    Bytes,
    /// Bytes of HDD types: a random request counts as 1 MiB.
    HddBytes,
}

/// Demand of one point in every measure, for reads and writes: computed once, used for every
/// storage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub duration_s: f64,
    pub iops: f64,
    /// Reads a second, and the parts of one that go to members of a stripe; the same of writes.
    pub reads: (f64, f64),
    pub writes: (f64, f64),
    pub bytes_s: f64,
    pub read_units: f64,
    pub write_units: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
    pub read_hdd: f64,
    pub write_hdd: f64,
}

/// An open load measured for devices of one chunk size.
#[derive(Clone, Debug)]
pub struct MeasuredLoad {
    pub(crate) points: Vec<Measured>,
    pub(crate) independent_arrivals: bool,
    /// Bytes of the device that requests touch, 0: all of it.
    pub(crate) span_bytes: u64,
    /// Most bytes of one 256 KiB unit, and most bytes a second of reads and of writes.
    pub(crate) bytes_per_unit: f64,
    pub(crate) peak_bytes_s: (f64, f64),
    // Minutes, for the worst five of them: cut where something waits.
    slots: OnceLock<Slots>,
    mix: RequestMix,
}

/// Requests that a device's own latency depends on.
#[derive(Clone, Copy, Debug)]
struct RequestMix {
    read_share: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
}

/// Rules by which a storage counts the requests of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    chunk_bytes: Option<f64>,
    hdd: Option<Accounting>,
}

impl Counting {
    /// Counts for stripes with chunks of `chunk_bytes` (None: single volumes); `hdd` gives the
    /// accounting of 1 MiB.
    pub fn new(chunk_bytes: Option<f64>, hdd: Option<&VolumeLimits>) -> Counting {
        Counting { chunk_bytes, hdd: hdd.map(Accounting::new) }
    }

    /// Counts for a storage whose type is still open: as SSD types and as HDD types do.
    fn either(chunk_bytes: Option<f64>) -> Counting {
        Counting { chunk_bytes, hdd: Some(Accounting::hdd()) }
    }

    /// Returns the parts of a request of `bytes`: a request larger than a chunk becomes one per
    /// chunk.
    #[inline]
    fn parts(&self, bytes: f64) -> f64 {
        self.chunk_bytes.map_or(1.0, |chunk| (bytes / chunk).ceil().max(1.0))
    }

    /// Returns the units, bytes and HDD bytes a second of `rate` requests of `bytes`, a share of
    /// which (`sequential`, 0-1) is sequential.
    #[inline]
    pub fn count(&self, rate: f64, bytes: f64, sequential: f64) -> (f64, f64, f64) {
        let parts = self.parts(bytes);
        let (units, _) = Accounting::instance().mean_charge(bytes / parts, sequential);
        let hdd_bytes = self.hdd.map_or(0.0, |hdd| hdd.mean_charge(bytes / parts, sequential).1 * parts);
        (rate * units * parts, rate * bytes, rate * hdd_bytes)
    }
}

/// Demand on all volumes of a storage together at one point of a load, copies and parity included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OnVolumes {
    /// Begin of the point, s.
    pub t_s: f64,
    /// Length of the point, s.
    pub duration_s: f64,
    /// I/Os a second in units of 256 KiB.
    pub iops: f64,
    /// MiB a second.
    pub mib_s: f64,
    /// MiB a second as HDD types count them, for volumes of any type.
    pub hdd_mib_s: f64,
}

/// Returns the demand of a load on all volumes of `storage` together, point by point.
pub fn on_volumes(load: &OpenLoad, storage: &StorageSpec) -> Vec<OnVolumes> {
    let cost = StorageCost::of(storage);
    let counting = Counting::either(cost.chunk_kib.map(|kib| kib * 1_024.0));
    let mut t_s = 0.0;
    let measure_point = |point: &Point| {
        let reads = counting.count(point.reads_per_s * cost.ios_per_read, point.read_bytes, load.sequential_read_share);
        let writes = counting.count(point.writes_per_s * cost.ios_per_write, point.write_bytes, load.sequential_write_share);
        let begin = t_s;
        t_s += point.duration_s;
        let mib = |bytes: f64| bytes / MIB;
        OnVolumes { t_s: begin, duration_s: point.duration_s, iops: reads.0 + writes.0, mib_s: mib(reads.1 + writes.1), hdd_mib_s: mib(reads.2 + writes.2) }
    };
    load.points.iter().map(measure_point).collect()
}

impl MeasuredLoad {
    /// Measures a load for devices whose stripes have chunks of `chunk_bytes` (none: single
    /// volumes). `hdd` gives the 1 MiB accounting.
    pub fn new(load: &OpenLoad, chunk_bytes: Option<f64>, hdd: Option<&VolumeLimits>) -> MeasuredLoad {
        let counting = Counting::new(chunk_bytes, hdd);
        let measure = |rate: f64, bytes: f64, sequential: f64| counting.count(rate, bytes, sequential);
        let mut mix = RequestMix { read_share: 0.0, read_bytes: 0.0, write_bytes: 0.0 };
        let (mut reads, mut writes) = (0.0, 0.0);
        let points: Vec<Measured> = load
            .points
            .iter()
            .map(|point| {
                let (read_units, read_bytes, read_hdd) = measure(point.reads_per_s, point.read_bytes, load.sequential_read_share);
                let (write_units, write_bytes, write_hdd) = measure(point.writes_per_s, point.write_bytes, load.sequential_write_share);
                reads += point.reads_per_s * point.duration_s;
                writes += point.writes_per_s * point.duration_s;
                mix.read_bytes += read_bytes * point.duration_s;
                mix.write_bytes += write_bytes * point.duration_s;
                let (iops, bytes_s) = (point.iops(), point.bytes_s());
                let (reads, writes) = ((point.reads_per_s, counting.parts(point.read_bytes)), (point.writes_per_s, counting.parts(point.write_bytes)));
                Measured { duration_s: point.duration_s, iops, reads, writes, bytes_s, read_units, write_units, read_bytes, write_bytes, read_hdd, write_hdd }
            })
            .collect();
        mix.read_bytes /= f64::max(reads, 1e-9);
        mix.write_bytes /= f64::max(writes, 1e-9);
        mix.read_share = if reads + writes > 0.0 { reads / (reads + writes) } else { 1.0 };
        let largest_unit = |m: &Measured| {
            let per_unit = |bytes: f64, units: f64| if units > 0.0 { bytes / units } else { 0.0 };
            per_unit(m.read_bytes, m.read_units).max(per_unit(m.write_bytes, m.write_units))
        };
        let bytes_per_unit = points.iter().map(largest_unit).fold(0.0, f64::max);
        let most = |get: fn(&Measured) -> f64| points.iter().map(get).fold(0.0, f64::max);
        let peak_bytes_s = (most(|m| m.read_bytes), most(|m| m.write_bytes));
        let independent_arrivals = load.arrivals == Arrivals::Poisson;
        MeasuredLoad { points, independent_arrivals, span_bytes: load.span_bytes, bytes_per_unit, peak_bytes_s, slots: OnceLock::new(), mix }
    }

    /// Returns the load's minutes, for the worst five of them.
    pub(crate) fn slots(&self) -> &Slots {
        self.slots.get_or_init(|| Slots::new(self.points.iter().map(|point| (point.duration_s, point.iops))))
    }

    /// Returns the length, s.
    pub(crate) fn seconds(&self) -> f64 {
        self.points.iter().map(|point| point.duration_s).sum()
    }

    /// Returns the key of this load's own latency on a storage.
    pub fn latency_key(&self, setup: &Setup) -> OwnLatencyKey {
        let first = &setup.limits[0];
        OwnLatencyKey {
            volume_type: first.spec.volume_type,
            as_of: first.as_of,
            raid: setup.storage.raid,
            members: setup.limits.len(),
            read_share: self.mix.read_share,
            read_bytes: self.mix.read_bytes,
            write_bytes: self.mix.write_bytes,
        }
    }
}
