//! What a request costs in tokens: the 256 KiB and 1 MiB rules.
//!
//! SSD types (gp2, gp3, io1, io2): one I/O per started 256 KiB; bytes are bytes.
//! HDD types (st1, sc1): throughput is what is metered. A sequential request costs its bytes, any other one at least 1 MiB
//! ("each non-sequential I/O of up to 1 MiB costs a whole 1 MiB credit"); small sequential requests are only put together when they are
//! larger than 32 KiB. A disk that reads in units of 1 MiB cannot tell requests of one such stretch apart by their order, and several queues of a host
//! deliver them out of order: what begins within a unit of where the last one ended is sequential (guessed; the documents do not say how near). Sources: EC2 user guide, volume types (2018-2023); AWS knowledge centre, ebs-low-throughput-performance.

use crate::io::Io;
use headrace_catalog::VolumeLimits;

/// HDD types put sequential requests together only above this size (AWS knowledge centre).
pub const HDD_SEQUENTIAL_MIN_BYTES: u32 = 32 * 1024;

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
    /// The rule of a volume's type.
    pub fn new(limits: &VolumeLimits) -> Accounting {
        Accounting { unit_bytes: limits.io_unit_bytes, random_charges_full_unit: limits.random_charges_full_unit }
    }

    /// The rule of an instance's EBS limits: I/Os as they reach the volume, in 256 KiB units.
    pub fn instance() -> Accounting {
        Accounting { unit_bytes: 256 * 1024, random_charges_full_unit: false }
    }

    /// Whether a request that begins at `offset` continues the one that ended at `end`, for what it is charged.
    #[inline]
    pub fn continues(&self, end: u64, offset: u64) -> bool {
        let near = if self.random_charges_full_unit { self.unit_bytes } else { 0 };
        offset.abs_diff(end) <= near
    }

    /// Tokens for `io`; `sequential` as of [`Accounting::continues`].
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

    /// Mean tokens of requests of `bytes` of which a share is sequential: the interval form of [`Accounting::charge`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Op;

    fn io(bytes: u32) -> Io {
        Io { op: Op::Read, offset: 0, bytes }
    }

    #[test]
    fn ssd_counts_256_kib_units() {
        let ssd = Accounting { unit_bytes: 256 * 1024, random_charges_full_unit: false };
        let ios = |kib: u32| ssd.charge(&io(kib * 1024), false).ios;
        // The whitepaper's sizes, and the documented "1,024 KiB counts as 4".
        assert_eq!((ios(16), ios(22), ios(256), ios(257), ios(1024)), (1, 1, 1, 2, 4));
    }

    #[test]
    fn hdd_charges_a_mebibyte_for_random_requests() {
        let hdd = Accounting { unit_bytes: 1 << 20, random_charges_full_unit: true };
        assert_eq!(hdd.charge(&io(16 * 1024), false).bytes, 1 << 20);
        assert_eq!(hdd.charge(&io(16 * 1024), true).bytes, 1 << 20);
        assert_eq!(hdd.charge(&io(128 * 1024), true).bytes, 128 * 1024);
        assert_eq!(hdd.charge(&io(3 << 19), false).bytes, 2 << 20);
    }
}
