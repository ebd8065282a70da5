//! Cost of a request in tokens: the 256 KiB and 1 MiB rules.
//!
//! SSD types (gp2, gp3, io1, io2): one I/O per started 256 KiB; bytes are bytes. HDD types (st1,
//! sc1): throughput is what is metered. A sequential request costs its bytes, any other one at
//! least 1 MiB ("each non-sequential I/O of up to 1 MiB costs a whole 1 MiB credit"); small
//! sequential requests are only put together when they are larger than 32 KiB. Several queues of a
//! host deliver requests out of order, and a disk that reads in units of 1 MiB cannot tell the
//! order inside a unit: a request that begins within a unit of the end of the last one counts as
//! sequential (guess; the documents do not say how near). Sources: EC2 user guide, volume types
//! (2018-2023); AWS knowledge centre, ebs-low-throughput-performance.

use crate::array::{copies, Amplification};
use crate::io::{Io, Nanos, Op};
use headrace_catalog::{StorageSpec, VolumeLimits};
use serde::{Deserialize, Serialize};

/// HDD types put sequential requests together only above this size (AWS knowledge centre).
pub const HDD_SEQUENTIAL_MIN_BYTES: u32 = 32 * 1024;

/// SSD types and instances count I/Os in units of this size (EC2 user guide, "I/O size and
/// throughput").
pub const SSD_UNIT_BYTES: u64 = 256 * 1024;

/// HDD types charge a request that is not sequential for a whole unit of this size (the same page).
pub const HDD_UNIT_BYTES: u64 = 1024 * 1024;

/// Tokens one request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// I/O tokens of the IOPS cap.
    pub ios: u64,
    /// Byte tokens of the throughput cap.
    pub bytes: u64,
}

/// The rule of one volume.
#[derive(Clone, Copy, Debug)]
pub struct Accounting {
    unit_bytes: u64,
    random_charges_full_unit: bool,
}

impl Accounting {
    /// Makes the rule of a volume's type.
    pub fn new(limits: &VolumeLimits) -> Accounting {
        Accounting { unit_bytes: limits.io_unit_bytes, random_charges_full_unit: limits.random_charges_full_unit }
    }

    /// Makes the rule of an instance's EBS limits: I/Os as they reach the volume, in 256 KiB units.
    pub fn instance() -> Accounting {
        Accounting { unit_bytes: SSD_UNIT_BYTES, random_charges_full_unit: false }
    }

    /// Makes the rule of HDD types, for the cost of a demand before a volume is chosen.
    pub fn hdd() -> Accounting {
        Accounting { unit_bytes: HDD_UNIT_BYTES, random_charges_full_unit: true }
    }

    /// Returns true if a request that begins at `offset` is charged as a continuation of the
    /// request that ended at `end`.
    #[inline]
    pub fn continues(&self, end: u64, offset: u64) -> bool {
        let near = if self.random_charges_full_unit { self.unit_bytes } else { 0 };
        offset.abs_diff(end) <= near
    }

    /// Returns the tokens of `io`; [`Accounting::continues`] says whether it is `sequential`.
    #[inline]
    pub fn charge(&self, io: &Io, sequential: bool) -> Charge {
        let bytes = u64::from(io.bytes);
        if self.random_charges_full_unit {
            if sequential && io.bytes > HDD_SEQUENTIAL_MIN_BYTES {
                return Charge { ios: 0, bytes };
            }
            return Charge { ios: 0, bytes: bytes.div_ceil(self.unit_bytes) * self.unit_bytes };
        }
        let ios = if bytes <= self.unit_bytes { 1 } else { bytes.div_ceil(self.unit_bytes) };
        Charge { ios, bytes }
    }

    /// Computes the mean tokens of requests of `bytes` of which a share is sequential: the interval
    /// form of [`Accounting::charge`].
    pub fn mean_charge(&self, bytes: f64, sequential_share: f64) -> (f64, f64) {
        if bytes <= 0.0 {
            return (0.0, 0.0);
        }
        let units = (bytes / self.unit_bytes as f64).ceil();
        if !self.random_charges_full_unit {
            return (units, bytes);
        }
        let sequential = if bytes > f64::from(HDD_SEQUENTIAL_MIN_BYTES) { sequential_share } else { 0.0 };
        (0.0, sequential * bytes + (1.0 - sequential) * units * self.unit_bytes as f64)
    }
}

/// Cost of a read and of a write of a storage's user on its volumes, and the units in which the
/// I/Os are counted there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StorageCost {
    /// Volumes.
    pub members: usize,
    /// Volumes' worth of distinct data: 1.5 for a far-2 RAID 10 of three.
    pub data_members: f64,
    /// Copies of every byte.
    pub copies: f64,
    /// I/Os that reach volumes for one read.
    pub ios_per_read: f64,
    /// I/Os that reach volumes for one small write, reads for parity included.
    pub ios_per_write: f64,
    /// Reads among the I/Os of one small write.
    pub reads_per_write: f64,
    /// Chunk, KiB: a larger request becomes one per chunk; none for a single volume.
    pub chunk_kib: Option<f64>,
    /// Unit in which I/Os of SSD types and instances are counted, KiB.
    pub unit_kib: f64,
    /// Unit in which HDD types charge a request that is not sequential, KiB.
    pub hdd_unit_kib: f64,
    /// Size above which HDD types put sequential requests together, KiB.
    pub hdd_merge_kib: f64,
}

impl StorageCost {
    /// Computes the cost for a volume or an array.
    pub fn of(storage: &StorageSpec) -> StorageCost {
        let members = storage.members.len();
        let (data, share) = storage.raid.map_or((1, 1), |level| level.data_members(members as u64));
        let amplification = Amplification::of(storage.raid, members);
        let copies = storage.raid.map_or(1, |level| copies(level, members as u64));
        StorageCost {
            members,
            data_members: data as f64 / share as f64,
            copies: copies as f64,
            ios_per_read: amplification.reads_per_read,
            ios_per_write: amplification.reads_per_write + amplification.writes_per_write,
            reads_per_write: amplification.reads_per_write,
            chunk_kib: storage.raid.map(|_| storage.chunk_kib as f64),
            unit_kib: SSD_UNIT_BYTES as f64 / 1024.0,
            hdd_unit_kib: HDD_UNIT_BYTES as f64 / 1024.0,
            hdd_merge_kib: f64::from(HDD_SEQUENTIAL_MIN_BYTES) / 1024.0,
        }
    }
}

/// Requests behind which merging begins: above the depth at which it was measured not to happen.
const MIN_WAITING: u32 = 4;

/// The last request that waits in the limiter, grown by those that joined it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct WaitingIo {
    op: Op,
    end: u64,
    bytes: u64,
    start: Nanos,
}

/// Remembers what the next request could join: one that continues a request still waiting in the
/// limiter shares its I/O.
///
/// AWS documents that physically sequential small requests are merged into one I/O of up to 256
/// KiB. Measured on gp2 at depth 4 they were not (3,068 sequential 4 KiB writes a second against a
/// cap of 3,000; dyu/vps-comparison 2017). Both hold if only requests that wait in a deeper queue
/// are merged, so that is the rule. HDD types charge sequential bytes anyway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merger {
    limit_bytes: u64,
    last: Option<WaitingIo>,
    // Starts of the last few requests: the oldest still ahead of `now` means more than MIN_WAITING
    // wait.
    recent_starts: [Nanos; MIN_WAITING as usize],
    cursor: usize,
}

impl Merger {
    /// Merges up to `limit_bytes` into one I/O.
    pub fn new(limit_bytes: u64) -> Merger {
        Merger { limit_bytes, last: None, recent_starts: [Nanos::ZERO; MIN_WAITING as usize], cursor: 0 }
    }

    /// Returns the start of the I/O that `io` may join, if there is one: it costs no I/O token
    /// then.
    #[inline]
    pub fn joins(&mut self, now: Nanos, io: &Io) -> Option<Nanos> {
        let last = self.last.as_mut()?;
        let deep = self.recent_starts[self.cursor] > now;
        let bytes = last.bytes + u64::from(io.bytes);
        if !deep || last.start <= now || last.op != io.op || last.end != io.offset || bytes > self.limit_bytes {
            return None;
        }
        last.end += u64::from(io.bytes);
        last.bytes = bytes;
        Some(last.start)
    }

    /// Records a request that got tokens of its own and starts at `start`.
    #[inline]
    pub fn admitted(&mut self, io: &Io, start: Nanos) {
        self.last = Some(WaitingIo { op: io.op, end: io.offset + u64::from(io.bytes), bytes: u64::from(io.bytes), start });
        self.recent_starts[self.cursor] = start;
        self.cursor = (self.cursor + 1) % MIN_WAITING as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(bytes: u32) -> Io {
        Io { op: Op::Read, offset: 0, bytes }
    }

    #[test]
    fn ssd_counts_256_kib_units() {
        let ssd = Accounting::instance();
        let ios = |kib: u32| ssd.charge(&io(kib * 1024), false).ios;
        // The whitepaper's sizes, and the documented "1,024 KiB counts as 4".
        assert_eq!((ios(16), ios(22), ios(256), ios(257), ios(1024)), (1, 1, 1, 2, 4));
    }

    #[test]
    fn hdd_charges_a_mebibyte_for_random_requests() {
        let hdd = Accounting::hdd();
        assert_eq!(hdd.charge(&io(16 * 1024), false).bytes, 1 << 20);
        assert_eq!(hdd.charge(&io(16 * 1024), true).bytes, 1 << 20);
        assert_eq!(hdd.charge(&io(128 * 1024), true).bytes, 128 * 1024);
        assert_eq!(hdd.charge(&io(3 << 19), false).bytes, 2 << 20);
    }
    #[test]
    fn the_rules_without_a_volume_are_those_of_every_volume_in_the_catalog() {
        use headrace_catalog::Catalog;
        let catalog = Catalog::embedded();
        for (text, rule) in
            [("gp3:500", Accounting::instance()), ("gp2:500", Accounting::instance()), ("st1:500", Accounting::hdd()), ("sc1:500", Accounting::hdd())]
        {
            let limits = catalog.storage_limits(&text.parse().unwrap(), catalog.newest_date(), None).unwrap();
            let own = Accounting::new(&limits[0]);
            assert_eq!((own.unit_bytes, own.random_charges_full_unit), (rule.unit_bytes, rule.random_charges_full_unit), "{text}");
        }
    }

    /// The cost of a storage follows from its geometry: it is the mean number of parts of small
    /// requests, each inside one chunk, over every chunk of many stripes.
    #[test]
    fn the_cost_of_a_storage_is_what_its_layout_splits_a_small_request_into() {
        use crate::array::{Layout, Part};
        for text in [
            "2xgp3:100",
            "5xgp3:100",
            "raid1:2xgp3:100",
            "raid1:3xgp3:100",
            "raid10:4xgp3:100",
            "raid10f2:3xgp3:100",
            "raid5:3xgp3:100",
            "raid5:4xgp3:100",
            "raid5:7xgp3:100",
        ] {
            let storage: StorageSpec = text.parse().unwrap();
            let (cost, chunk) = (StorageCost::of(&storage), storage.chunk_kib * 1024);
            let layout = Layout::new(storage.raid.unwrap(), cost.members, chunk, 100 << 30);
            let (mut parts, requests) = (Vec::<Part>::new(), 420);
            let mut mean = |op: Op, counted: fn(&Part) -> bool| {
                let each = (0..requests).map(|index| {
                    layout.split(&Io { op, offset: index * chunk, bytes: 16_384 }, |_| false, &mut parts);
                    parts.iter().filter(|part| counted(part)).count()
                });
                each.sum::<usize>() as f64 / requests as f64
            };
            assert_eq!(mean(Op::Read, |_| true), cost.ios_per_read, "{text}");
            assert_eq!(mean(Op::Write, |_| true), cost.ios_per_write, "{text}");
            assert_eq!(mean(Op::Write, |part| part.io.op == Op::Read), cost.reads_per_write, "{text}");
            assert_eq!(cost.data_members, storage.usable_gib() as f64 / 100.0, "{text}");
            assert_eq!(cost.copies, layout.pieces(0, 4_096)[0].copies.len() as f64, "{text}");
        }
    }
}
