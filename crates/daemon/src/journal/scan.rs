//! Reading a journal: what its records make, where it ends, and whether what is wrong at the end is
//! what a crash leaves or damage.

use super::{crc_of, encode_header, Checkpoint, JournalError, Repair, HEADER_BYTES, MAGIC, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES};
use std::path::Path;

/// A record as it lies in the file.
struct Raw<'a> {
    sequence: u64,
    synced: u64,
    payload: &'a [u8],
    bytes: usize,
}

/// Reads the record at the beginning of `bytes`, or says what is wrong with it.
fn raw_at(bytes: &[u8]) -> Result<Raw<'_>, &'static str> {
    let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or(0);
    let long = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or(0);
    if bytes.len() < RECORD_HEADER_BYTES {
        return Err("a record ends before its header does");
    }
    let length = word(0) as usize;
    if length > MAX_PAYLOAD_BYTES || length > bytes.len() - RECORD_HEADER_BYTES {
        return Err("a record is longer than what is left of the file");
    }
    let record = &bytes[..RECORD_HEADER_BYTES + length];
    if crc_of(record) != word(4) {
        return Err("the checksum of a record is wrong");
    }
    Ok(Raw { sequence: long(8), synced: long(16), payload: &record[RECORD_HEADER_BYTES..], bytes: record.len() })
}

/// Content of a journal's bytes.
pub(super) struct Scan {
    pub(super) state: Checkpoint,
    pub(super) records: u64,
    pub(super) skipped: u64,
    pub(super) repair: Option<Repair>,
    /// End of the last good record.
    pub(super) end: u64,
    pub(super) next_sequence: u64,
}

/// Reads records until the end, or until one that a crash left behind.
pub(super) fn scan(bytes: &[u8], path: &Path) -> Result<Scan, JournalError> {
    let checkpoint = check_header(bytes, path)?;
    let mut scan = Scan { state: Checkpoint::default(), records: 0, skipped: 0, repair: None, end: HEADER_BYTES, next_sequence: checkpoint.max(1) };
    while (scan.end as usize) < bytes.len() {
        let rest = &bytes[scan.end as usize..];
        let result = raw_at(rest).and_then(|raw| match raw.sequence {
            sequence if sequence == scan.next_sequence => Ok(raw),
            _ => Err("a record is out of sequence"),
        });
        let raw = match result {
            Ok(raw) => raw,
            // Space that was reserved. No record is zeros alone: its checksum would not be 0.
            Err(_) if rest.iter().all(|&byte| byte == 0) => break,
            Err(reason) => {
                if let Some(proof) = find_evidence(rest, &scan) {
                    return Err(damage_error(path, scan.end, format!("{reason}, and {proof}: this is damage, not the end a crash leaves")));
                }
                scan.repair = Some(Repair { offset: scan.end, bytes: rest.len() as u64, reason });
                break;
            }
        };
        match serde_json::from_slice(raw.payload) {
            Ok(entry) => scan.state.apply(entry),
            // Credits matter less than the volumes: they start over rather than keep the lab down.
            Err(_) if raw.payload.starts_with(b"{\"balances\":") => scan.skipped += 1,
            Err(error) => {
                let what = format!("record {} is whole, but cannot be read: {error}", raw.sequence);
                let hint = "It was written by a later version: start that one.".to_string();
                return Err(JournalError::Damaged { file: path.to_path_buf(), offset: scan.end, what, hint });
            }
        }
        scan.records += 1;
        scan.next_sequence = raw.sequence + 1;
        scan.end += raw.bytes as u64;
    }
    // The checkpoint was on disk before the file had its name: no crash takes it.
    if scan.next_sequence <= checkpoint {
        let reason = scan.repair.map_or("the file ends", |repair| repair.reason);
        return Err(damage_error(path, scan.end, format!("{reason} where the checkpoint must be that the journal begins with")));
    }
    Ok(scan)
}

/// Checks the header of a journal, and returns the sequence of its checkpoint.
fn check_header(bytes: &[u8], path: &Path) -> Result<u64, JournalError> {
    let refuse = |what: &str, hint: &str| Err(JournalError::Damaged { file: path.to_path_buf(), offset: 0, what: what.to_string(), hint: hint.to_string() });
    // A journal appears by a rename, with its header on disk: no crash leaves it without one.
    let Some(head) = bytes.get(..HEADER_BYTES as usize) else {
        return refuse("the file ends before its header does", "Restore it from a copy, or move it away to begin an empty lab.");
    };
    let checkpoint = head[8..16].try_into().map(u64::from_le_bytes).unwrap_or(0);
    if head == encode_header(checkpoint) {
        return Ok(checkpoint);
    }
    let whole = crc32c::crc32c(&head[..20]).to_le_bytes() == head[20..];
    if head.starts_with(MAGIC) && whole {
        return refuse("it has a version this daemon does not know", "Start the version of headraced that wrote it.");
    }
    refuse("the header is damaged, or the file is not a journal", "Restore it from a copy, or move it away to begin an empty lab.")
}

/// Returns the evidence that the damaged record at the beginning of `rest` had been on disk; None
/// without any.
fn find_evidence(rest: &[u8], scan: &Scan) -> Option<String> {
    let damaged = scan.next_sequence;
    // Each record takes its header at least, so a sequence further on cannot be one of this file.
    let furthest = damaged.saturating_add((rest.len() / RECORD_HEADER_BYTES) as u64);
    (1..rest.len().saturating_sub(RECORD_HEADER_BYTES)).find_map(|at| {
        // Cheap first: a checksum at every byte would take minutes.
        let sequence = rest[at + 8..at + 16].try_into().map(u64::from_le_bytes).unwrap_or(0);
        let plausible = sequence > damaged && sequence <= furthest;
        let raw = plausible.then(|| raw_at(&rest[at..]).ok()).flatten().filter(|raw| raw.synced >= damaged)?;
        Some(format!("record {} at byte {} shows that it had been on disk", raw.sequence, scan.end + at as u64))
    })
}

/// Makes the error of a damaged record at `offset`, bytes.
fn damage_error(path: &Path, offset: u64, what: String) -> JournalError {
    let file = path.to_path_buf();
    let hint = match offset {
        HEADER_BYTES => "Restore the journal from a copy, or move it away to begin an empty lab.".to_string(),
        _ => format!("Restore the journal from a copy. To give up all from there on, keep a copy and cut it: truncate -s {offset} {}", path.display()),
    };
    JournalError::Damaged { file, offset, what, hint }
}
