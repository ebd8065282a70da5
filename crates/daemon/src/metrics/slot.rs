//! A slot: one stored row, or a run of idle ones, with a checksum.
//!
//! ```text
//!  slot    = crc32c(u32) used(u16) version(u8) coarse(u8) sequence(u64) body
//!  body    = t_s rows through counters... balances-known(u8) balances(f64)... histogram{11} consumed
//!  histogram = groups (gap count)*          a group is 2^coarse neighbouring buckets with a count above 0
//! ```
//!
//! `consumed` is there where it differs from the number of requests. It came later: an older slot
//! ends without it, and an older daemon does not look behind the histograms.
//!
//! Integers of the body are LEB128, the rest little-endian. The CRC covers everything from `used`
//! to its end; what lies behind it is left over from earlier rows. A slot that is torn, of another
//! version or at another place than its sequence says is skipped.

use super::row::{ErrorFactor, Stretch};
use headrace_device::meter::{Histogram, Sample, BUCKETS};

/// Raised when an older daemon could not read what a newer one writes.
const VERSION: u8 = 1;
/// Bytes before the columns: checksum, length, version, sequence.
const HEAD_BYTES: usize = 16;
/// Joined 16 to one, eleven full histograms are 11 x (1 + 8 groups x 7) bytes, the largest counters
/// 342: together less than the smaller slot.
const COARSEST: u8 = 4;

/// A stored row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub sequence: u64,
    /// Time of the row, in a run that of the first row, Unix seconds.
    pub t_s: u64,
    /// 1, or how many idle rows follow each other; their spans are summed in `stretch`.
    pub rows: u64,
    /// The sequence of the first second that is not in a minute.
    pub through: u64,
    pub stretch: Stretch,
}

impl Slot {
    /// Encodes the slot in at most `most` bytes.
    pub fn encode(&self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(most);
        for coarse in self.stretch.error.0..=COARSEST {
            bytes.clear();
            bytes.resize(HEAD_BYTES, 0);
            self.encode_counters(&mut bytes);
            let sample = &self.stretch.sample;
            for histogram in sample.latency.iter().flatten().chain([&*sample.late]) {
                encode_histogram(&mut bytes, histogram, coarse);
            }
            if sample.consumed != count_requests(sample) {
                put_number(&mut bytes, sample.consumed);
            }
            if bytes.len() <= most {
                bytes[6] = VERSION;
                bytes[7] = coarse;
                break;
            }
        }
        assert!(bytes.len() <= most, "a slot of {} bytes does not fit {most}", bytes.len());
        let used = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&used.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Appends the columns before the histograms.
    fn encode_counters(&self, to: &mut Vec<u8>) {
        let sample = &self.stretch.sample;
        let head =
            [self.t_s, self.rows, self.through, sample.span_ns, sample.errors, sample.flushes, sample.queue_ns, u64::from(sample.queue_max), sample.idle_ns];
        let pairs = [sample.ops, sample.bytes, sample.time_ns];
        for &value in head.iter().chain(pairs.iter().flatten()).chain(&self.stretch.exceeded_ns) {
            put_number(to, value);
        }
        put_number(to, sample.exceeded_ns.len() as u64);
        sample.exceeded_ns.iter().for_each(|&nanos| put_number(to, nanos));
        let balances = &self.stretch.balances;
        to.push(balances.iter().enumerate().fold(0, |present, (bit, balance)| present | u8::from(balance.is_some()) << bit));
        balances.iter().flatten().for_each(|balance| to.extend(balance.to_le_bytes()));
    }

    /// Returns the sequence of a whole slot, without reading the rest.
    pub fn sequence_of(slot: &[u8]) -> Option<u64> {
        let used = usize::from(u16::from_le_bytes(slot.get(4..6)?.try_into().ok()?));
        if used < HEAD_BYTES {
            return None;
        }
        let covered = slot.get(4..used)?;
        let sum = u32::from_le_bytes(slot[..4].try_into().ok()?);
        (crc32c::crc32c(covered) == sum && slot[6] == VERSION).then(|| u64::from_le_bytes(slot[8..16].try_into().expect("eight bytes")))
    }

    /// Reads a slot from its bytes; None if they do not hold one.
    pub fn decode(slot: &[u8]) -> Option<Slot> {
        let sequence = Slot::sequence_of(slot)?;
        let coarse = Some(slot[7]).filter(|&coarse| coarse <= COARSEST)?;
        let mut from = &slot[HEAD_BYTES..usize::from(u16::from_le_bytes([slot[4], slot[5]]))];
        let from = &mut from;
        let mut sample = Sample::empty();
        let (t_s, rows, through) = (get_number(from)?, get_number(from)?, get_number(from)?);
        for counter in [&mut sample.span_ns, &mut sample.errors, &mut sample.flushes, &mut sample.queue_ns] {
            *counter = get_number(from)?;
        }
        sample.queue_max = u32::try_from(get_number(from)?).ok()?;
        sample.idle_ns = get_number(from)?;
        for counter in [&mut sample.ops, &mut sample.bytes, &mut sample.time_ns].into_iter().flatten() {
            *counter = get_number(from)?;
        }
        let mut exceeded_ns = [0; 4];
        for nanos in &mut exceeded_ns {
            *nanos = get_number(from)?;
        }
        // A later daemon may know more caps, or fewer.
        for cap in 0..get_number(from)? {
            let nanos = get_number(from)?;
            if let Some(to) = sample.exceeded_ns.get_mut(cap as usize) {
                *to = nanos;
            }
        }
        let present = take_bytes(from, 1)?[0];
        let mut balances = [None; 3];
        for (bit, balance) in balances.iter_mut().enumerate() {
            if present & 1 << bit != 0 {
                *balance = Some(f64::from_le_bytes(take_bytes(from, 8)?.try_into().ok()?));
            }
        }
        for histogram in sample.latency.iter_mut().flatten().chain([&mut *sample.late]) {
            decode_histogram(from, histogram, coarse)?;
        }
        sample.consumed = if from.is_empty() { count_requests(&sample) } else { get_number(from)? };
        let stretch = Stretch { sample, exceeded_ns, balances, error: ErrorFactor(coarse) };
        (rows > 0).then_some(Slot { sequence, t_s, rows, through, stretch })
    }
}

/// Reads and writes together.
fn count_requests(sample: &Sample) -> u64 {
    sample.ops.iter().fold(0, |sum, &ops| sum.saturating_add(ops))
}

/// Returns the buckets a group joins: bucket 0 alone, then 2^coarse at a time.
fn group(number: usize, coarse: u8) -> std::ops::Range<usize> {
    if number == 0 {
        return 0..1;
    }
    let first = 1 + ((number - 1) << coarse);
    first.min(BUCKETS)..(first + (1 << coarse)).min(BUCKETS)
}

/// Appends a histogram: the number of its groups that are not empty, then for each the gap since
/// the one before and its count.
fn encode_histogram(to: &mut Vec<u8>, histogram: &Histogram, coarse: u8) {
    let groups = (0..).map(|number| group(number, coarse)).take_while(|buckets| !buckets.is_empty());
    let counts: Vec<(usize, u64)> =
        groups.map(|buckets| histogram[buckets].iter().map(|&n| u64::from(n)).sum()).enumerate().filter(|&(_, count)| count > 0).collect();
    put_number(to, counts.len() as u64);
    let mut next = 0;
    for (number, count) in counts {
        put_number(to, (number - next) as u64);
        put_number(to, count);
        next = number + 1;
    }
}

/// Reads a histogram, and spreads the count of each group over its buckets; None if the bytes are
/// not one.
fn decode_histogram(from: &mut &[u8], histogram: &mut Histogram, coarse: u8) -> Option<()> {
    let mut next = 0;
    for _ in 0..get_number(from)? {
        let number = usize::try_from(get_number(from)?).ok().filter(|&gap| gap <= BUCKETS)? + next;
        let buckets = group(number.min(BUCKETS + 1), coarse);
        let (count, size) = (get_number(from)?, buckets.len() as u64);
        if size == 0 {
            return None;
        }
        for (nth, bucket) in buckets.enumerate() {
            histogram[bucket] = u32::try_from(count / size + u64::from((nth as u64) < count % size)).ok()?;
        }
        next = number + 1;
    }
    Some(())
}

fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Takes a LEB128 number off the front; None if it ends early or is too long.
fn get_number(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_bytes(from, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take_bytes<'a>(from: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (head, rest) = from.split_at_checked(bytes)?;
    *from = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fullest() -> Slot {
        let mut sample = Sample::empty();
        (sample.span_ns, sample.errors, sample.flushes, sample.queue_ns, sample.idle_ns) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        (sample.ops, sample.bytes, sample.time_ns, sample.queue_max) = ([u64::MAX; 2], [u64::MAX; 2], [u64::MAX; 2], u32::MAX);
        sample.consumed = u64::MAX - 1;
        sample.exceeded_ns.fill(u64::MAX);
        sample.latency.iter_mut().flatten().flatten().chain(sample.late.iter_mut()).for_each(|n| *n = u32::MAX);
        let stretch = Stretch { sample, exceeded_ns: [u64::MAX; 4], balances: [Some(f64::MAX); 3], error: ErrorFactor::FINEST };
        Slot { sequence: u64::MAX, t_s: u64::MAX, rows: u64::MAX, through: u64::MAX, stretch }
    }

    #[test]
    fn the_fullest_row_fits_the_smallest_slot() {
        let slot = fullest();
        let bytes = slot.encode(super::super::ring::SECONDS.slot_bytes);
        let back = Slot::decode(&bytes).unwrap();
        let coarse = Stretch { error: ErrorFactor(COARSEST), ..slot.stretch.clone() };
        assert_eq!(back, Slot { stretch: coarse, ..slot.clone() });
        assert_eq!(Slot::decode(&slot.encode(16_384)), Some(slot));
    }

    #[test]
    fn a_slot_of_before_is_read_with_an_operation_a_request() {
        let mut slot = fullest();
        (slot.stretch.sample.ops, slot.stretch.sample.consumed) = ([70, 30], 1);
        let mut bytes = slot.encode(16_384);
        // An older daemon wrote it without the last integer, here one byte.
        bytes.pop();
        let used = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&used.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        slot.stretch.sample.consumed = 100;
        assert_eq!(Slot::decode(&bytes), Some(slot));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let bytes = fullest().encode(1_024);
        for position in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[position] ^= 0x10;
            assert_eq!(Slot::decode(&torn), None, "byte {position}");
            assert_eq!(Slot::decode(&bytes[..position]), None, "cut at {position}");
        }
    }

    #[test]
    fn whatever_the_body_says_nothing_panics() {
        // A valid checksum over any body: the decoder must not trust it.
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        for round in 0..20_000usize {
            let mut bytes = fullest().encode(1_024);
            bytes.truncate(HEAD_BYTES + round % (bytes.len() - HEAD_BYTES));
            for byte in &mut bytes[HEAD_BYTES..] {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (seed >> 56) as u8 >> (round % 8);
            }
            bytes[7] = (round % 7) as u8;
            let used = bytes.len() as u16;
            bytes[4..6].copy_from_slice(&used.to_le_bytes());
            let sum = crc32c::crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            let _ = Slot::decode(&bytes);
        }
    }
}
