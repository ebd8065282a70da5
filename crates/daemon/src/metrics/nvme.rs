//! The NVMe statistics page of a volume (log page 0xD0) as bytes.
//!
//! The layout is `data/nvme_log_page_d0.csv`; only the names of the fields are repeated here.
//! Counters count from the daemon's start, as after the attachment of a volume on AWS, and are a
//! second old at most. The bounds of the bins are those of the lab's own histograms, two to an
//! octave: AWS does not document its own, and readers take them from the page.

use super::totals::Totals;
use headrace_device::meter::{bounds_of, BUCKETS};

/// Bytes of the page.
pub const PAGE_BYTES: usize = 4_096;
/// Marks a page of EBS.
const MAGIC: u32 = 0x3C23_B510;
/// Bytes of a bin: lower bound, upper bound, count, reserved.
const BIN_BYTES: usize = 24;
/// Bytes before the bins: how many there are.
const BINS_HEAD_BYTES: usize = 8;
/// Buckets of the meter in one bin: 1 + 112 / 2 bins fit the 64 of the page.
const BUCKETS_OF_BIN: usize = 2;

const LAYOUT: &str = include_str!("../../../../data/nvme_log_page_d0.csv");

/// Returns the offset and length of a field, bytes, from the table.
fn place_of(field: &str) -> (usize, usize) {
    let row = LAYOUT.lines().find_map(|line| {
        let mut fields = line.splitn(4, ',');
        let (offset, bytes, name) = (fields.next()?, fields.next()?, fields.next()?);
        (name == field).then(|| Some((offset.parse().ok()?, bytes.parse().ok()?))).flatten()
    });
    row.unwrap_or_else(|| panic!("data/nvme_log_page_d0.csv has no field {field}"))
}

fn put(page: &mut [u8], field: &str, value: u64) {
    let (offset, bytes) = place_of(field);
    page[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Writes a histogram into its field, two buckets of the meter to a bin; bounds are in
/// microseconds.
fn put_histogram(page: &mut [u8], field: &str, counts: &[u64; BUCKETS]) {
    let (offset, bytes) = place_of(field);
    // Bucket 0 is what took less than a microsecond, and a bin alone.
    let bins: Vec<std::ops::Range<usize>> =
        std::iter::once(0..1).chain((1..BUCKETS).step_by(BUCKETS_OF_BIN).map(|first| first..(first + BUCKETS_OF_BIN).min(BUCKETS))).collect();
    assert!(BINS_HEAD_BYTES + bins.len() * BIN_BYTES <= bytes, "{} bins do not fit {bytes} bytes", bins.len());
    let page = &mut page[offset..offset + bytes];
    page[..8].copy_from_slice(&(bins.len() as u64).to_le_bytes());
    for (bin, field) in bins.into_iter().zip(page[BINS_HEAD_BYTES..].chunks_exact_mut(BIN_BYTES)) {
        let (lower_ns, upper_ns) = (bounds_of(bin.start).0, bounds_of(bin.end - 1).1);
        let upper_us = if upper_ns == u64::MAX { u64::MAX } else { upper_ns / 1_000 };
        let count: u64 = counts[bin].iter().sum();
        field[..8].copy_from_slice(&(lower_ns / 1_000).to_le_bytes());
        field[8..16].copy_from_slice(&upper_us.to_le_bytes());
        field[16..20].copy_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Writes the page of the counters, with the requests outstanding now.
pub(crate) fn page(totals: &Totals, queue_length: u32) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    put(&mut page, "magic", u64::from(MAGIC));
    for (field, value) in [
        ("total_read_ops", totals.ops[0]),
        ("total_write_ops", totals.ops[1]),
        ("total_read_bytes", totals.bytes[0]),
        ("total_write_bytes", totals.bytes[1]),
        ("total_read_time", totals.time_ns[0] / 1_000),
        ("total_write_time", totals.time_ns[1] / 1_000),
        ("ebs_volume_performance_exceeded_iops", totals.exceeded_ns[0] / 1_000),
        ("ebs_volume_performance_exceeded_tp", totals.exceeded_ns[1] / 1_000),
        ("ec2_instance_ebs_performance_exceeded_iops", totals.exceeded_ns[2] / 1_000),
        ("ec2_instance_ebs_performance_exceeded_tp", totals.exceeded_ns[3] / 1_000),
        ("volume_queue_length", u64::from(queue_length)),
    ] {
        put(&mut page, field, value);
    }
    put_histogram(&mut page, "read_io_latency_histogram", &totals.latency[0]);
    put_histogram(&mut page, "write_io_latency_histogram", &totals.latency[1]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_device::meter::bucket_of;

    fn word(page: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(page[at..at + 8].try_into().unwrap())
    }

    /// Offsets as the CSI driver reads them, written down a second time.
    #[test]
    fn a_page_is_laid_out_as_readers_expect() {
        let mut totals = Totals::new();
        (totals.ops, totals.bytes, totals.time_ns) = ([1, 2], [3, 4], [5_000, 6_999]);
        totals.exceeded_ns = [7_000, 8_000, 9_000, 10_000];
        // 300 us lie in the bin from 256 to 384 us: 2^8 us, halves of an octave.
        totals.latency[0][bucket_of(300_000)] = 11;
        totals.latency[1][BUCKETS - 1] = u64::from(u32::MAX) + 1;
        let page = page(&totals, 12);
        assert_eq!((page.len(), word(&page, 0)), (4_096, 0x3C23_B510));
        let counters: Vec<u64> = (0..11).map(|index| word(&page, 8 + 8 * index)).collect();
        assert_eq!(counters, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
        let bins = word(&page, 512) as usize;
        assert_eq!((bins, word(&page, 2_056)), (57, 57));
        let bin = |at: usize, index: usize| {
            let at = at + 8 + 24 * index;
            (word(&page, at), word(&page, at + 8), u32::from_le_bytes(page[at + 16..at + 20].try_into().unwrap()))
        };
        let counted: Vec<_> = (0..bins).map(|index| bin(512, index)).filter(|bin| bin.2 > 0).collect();
        assert_eq!(counted, [(256, 384, 11)]);
        assert_eq!(bin(2_056, bins - 1).1, u64::MAX, "the last bin has no end");
        assert_eq!(bin(2_056, bins - 1).2, u32::MAX, "a bin stops at what it can count");
        for index in 1..bins {
            assert_eq!(bin(512, index).0, bin(512, index - 1).1, "bins follow each other without a gap");
        }
        assert!(page[96..512].iter().chain(&page[3_600..]).all(|&byte| byte == 0));
    }
}
