//! The journal of decisions: every request with its arrival and what the model decided, every
//! change made to the model meanwhile, as a file.
//!
//! A wall-clock device writes it; replaying the arrivals through the same model on a virtual clock
//! must give the same decisions to the nanosecond. A frame of its own after a request says how late
//! the wall clock answered; the replay does not use it.
//!
//! ```text
//!  "HRREC1\n"  header length u32  check u32  header JSON  frames ...
//!  frame: 1  device u16  member u8 (255: the device)  op u8  cap u8  verdict u8  bytes u32  offset u64  now u64  start u64  complete u64
//!         2  now u64  length u32  check u32  change JSON
//!         3  late u32 (ns, at most 4.29 s)
//! ```
//! Numbers are little-endian; a check is the 32-bit FNV-1a of the text behind it. A file may end
//! inside a frame (its writer was killed): what was whole counts.

use crate::host::SavedDevice;
pub use crate::host::{HostChange, SavedHost, SavedInstance};
use crate::io::{Cap, Decision, Io, Nanos, Op, Verdict};
use serde::Serialize;
use std::fmt;

/// First bytes of a record; the digit is the version of the format.
const MAGIC: &[u8; 7] = b"HRREC1\n";
/// Longest header or change that is read, bytes: 64 arrays of 32 members stay far below. A longer
/// one means that the file is damaged.
const MOST_JSON: u32 = 64 << 20;
/// Kinds of frames, the length of a request's, and the member that stands for the whole device.
const REQUEST: u8 = 1;
const REQUEST_BYTES: usize = 43;
const WHOLE: u8 = 255;
const CHANGE: u8 = 2;
const LATE: u8 = 3;

/// A frame of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A request and its answer.
    Request {
        /// Slot of the device.
        device: u16,
        /// Member that was asked alone (a rebuild), in place of the device.
        member: Option<u8>,
        /// Arrival.
        now: Nanos,
        /// Request.
        io: Io,
        /// Decision of the model.
        decision: Decision,
    },
    /// A change.
    Change {
        /// Time of the change.
        now: Nanos,
        /// Change of the model's state.
        change: HostChange,
    },
    /// Delay of one answer behind its completion time on the wall clock, ns.
    Late(u32),
}

/// Error of bytes that cannot be read as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARecord(String);

impl fmt::Display for NotARecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotARecord {}

/// Makes the error of bytes that cannot be read.
fn refuse<T>(rule: impl Into<String>) -> Result<T, NotARecord> {
    Err(NotARecord(rule.into()))
}

impl SavedHost {
    /// Encodes the beginning of a record of this host.
    pub fn encode(&self) -> Vec<u8> {
        let json = json_of(self);
        let mut bytes = MAGIC.to_vec();
        push_text(&mut bytes, &json);
        bytes
    }

    /// Decodes the host a record begins with, and returns the number of bytes that took; None while
    /// `bytes` are too few to tell.
    pub fn decode(bytes: &[u8]) -> Result<Option<(SavedHost, usize)>, NotARecord> {
        let begun = bytes.len().min(MAGIC.len());
        if bytes[..begun] != MAGIC[..begun] {
            return refuse("it does not begin as a record of version 1 does");
        }
        let Some((json, used)) = text_at(bytes, MAGIC.len())? else { return Ok(None) };
        match serde_json::from_slice::<SavedHost>(json) {
            Ok(host) => host.devices.iter().flatten().try_for_each(check_device).map(|()| Some((host, used))),
            Err(error) => refuse(format!("its header cannot be read: {error}")),
        }
    }
}

impl Frame {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Request { device, member, now, io, decision } => {
                out.push(REQUEST);
                out.extend(device.to_le_bytes());
                let cap = Cap::ALL.iter().position(|&cap| cap == decision.cap).unwrap_or(0) as u8;
                out.extend([member.unwrap_or(WHOLE), io.op as u8, cap, u8::from(decision.verdict == Verdict::Failed)]);
                out.extend(io.bytes.to_le_bytes());
                [io.offset, now.0, decision.start.0, decision.complete.0].iter().for_each(|number| out.extend(number.to_le_bytes()));
            }
            Frame::Change { now, change } => {
                let json = json_of(change);
                out.push(CHANGE);
                out.extend(now.0.to_le_bytes());
                push_text(out, &json);
            }
            Frame::Late(nanos) => {
                out.push(LATE);
                out.extend(nanos.to_le_bytes());
            }
        }
    }

    /// Decodes the frame that `bytes` begin with, and returns the number of bytes it took; None
    /// while they are too few.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, NotARecord> {
        match bytes.first() {
            None => Ok(None),
            Some(&REQUEST) if bytes.len() < REQUEST_BYTES => Ok(None),
            Some(&REQUEST) => Ok(Some((decode_request(&bytes[..REQUEST_BYTES])?, REQUEST_BYTES))),
            Some(&CHANGE) => {
                let Some(now) = bytes.get(1..9) else { return Ok(None) };
                let Some((json, used)) = text_at(bytes, 9)? else { return Ok(None) };
                match serde_json::from_slice(json) {
                    Ok(HostChange::Put { saved, .. }) if check_device(&saved).is_err() => {
                        refuse("a device that is put has members other than its storage says")
                    }
                    Ok(change) => Ok(Some((Frame::Change { now: Nanos(u64_of(now)), change }, used))),
                    Err(error) => refuse(format!("a change cannot be read: {error}")),
                }
            }
            Some(&LATE) => Ok(bytes.get(1..5).map(|late| (Frame::Late(u32_of(late)), 5))),
            Some(other) => refuse(format!("frame of kind {other} is not known")),
        }
    }
}

/// Checks that a device can be made from its saved state.
fn check_device(saved: &SavedDevice) -> Result<(), NotARecord> {
    match saved.storage.check() {
        Ok(()) if saved.members.len() == saved.storage.members.len() => Ok(()),
        Ok(()) => refuse(format!("a device of {} has {} members", saved.storage, saved.members.len())),
        Err(error) => refuse(error.to_string()),
    }
}

/// Decodes the frame of a request of REQUEST_BYTES.
fn decode_request(bytes: &[u8]) -> Result<Frame, NotARecord> {
    let op = match bytes[4] {
        0 => Op::Read,
        1 => Op::Write,
        other => return refuse(format!("operation {other} is neither 0 (read) nor 1 (write)")),
    };
    let Some(&cap) = Cap::ALL.get(usize::from(bytes[5])) else { return refuse(format!("cap {} is not known", bytes[5])) };
    let verdict = if bytes[6] == 0 { Verdict::Ok } else { Verdict::Failed };
    let number = |place: usize| u64_of(&bytes[11 + 8 * place..19 + 8 * place]);
    Ok(Frame::Request {
        device: u16::from_le_bytes([bytes[1], bytes[2]]),
        member: (bytes[3] != WHOLE).then_some(bytes[3]),
        now: Nanos(number(1)),
        io: Io { op, offset: number(0), bytes: u32_of(&bytes[7..11]) },
        decision: Decision { start: Nanos(number(2)), complete: Nanos(number(3)), cap, verdict },
    })
}

/// Reads a text with its length and check before it, and returns its end; None while `bytes` are
/// too few.
fn text_at(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, NotARecord> {
    let Some(head) = bytes.get(at..at + 8) else { return Ok(None) };
    let (length, check) = (u32_of(&head[..4]), u32_of(&head[4..]));
    if length > MOST_JSON {
        return refuse(format!("a text of {length} bytes is longer than any this program writes"));
    }
    let end = at + 8 + length as usize;
    match bytes.get(at + 8..end) {
        Some(text) if check_of(text) != check => refuse("a text does not match its check: the file is damaged"),
        text => Ok(text.map(|text| (text, end))),
    }
}

/// Appends a text with its length and check before it.
fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(check_of(text).to_le_bytes());
    out.extend(text);
}

/// Computes the 32-bit FNV-1a of a text.
fn check_of(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |check: u32, &byte| (check ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn json_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is saved has neither maps with strange keys nor failing parts")
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
