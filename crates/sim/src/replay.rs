//! Replays a record of a real device on the virtual clock: one model, two clocks, the same
//! decisions.
//!
//! The record holds the host as it was, then every request with its arrival and its decision, and
//! every change made meanwhile. Here the host is built again, asked again, and each answer (start,
//! completion, cap, verdict) compared to the nanosecond. The record also says how late the wall
//! clock answered; this is summed up, and no verdict depends on it.

use hdrhistogram::Histogram;
use headrace_model::record::{Frame, HostChange, NotARecord, SavedHost};
use headrace_model::{Decision, Host, Io, Nanos};
use serde::Serialize;
use std::fmt;
use std::io::{ErrorKind, Read};

/// Bytes that are read from the file at once.
const READ_AT_ONCE: usize = 1 << 20;
/// Lateness is kept up to what a frame can say (4.29 s) with three significant digits: an error of
/// at most 0.1 %.
const LATEST_NS: u64 = u32::MAX as u64;
const SIGNIFICANT_DIGITS: u8 = 3;
/// No device runs longer than this (292 years): a later time means a damaged record.
const LAST_MOMENT: Nanos = Nanos(i64::MAX as u64);

/// A function that is told how many bytes are done; returning false stops.
pub type BytesProgress<'a> = &'a mut dyn FnMut(u64) -> bool;

type Decode<T> = fn(&[u8]) -> Result<Option<(T, usize)>, NotARecord>;

/// Why a record was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It could not be read.
    #[error("reading the record: {0}")]
    Read(#[from] std::io::Error),
    /// It is not a record, or a damaged one.
    #[error("byte {at}: {rule}")]
    Damaged {
        /// Offset of the damaged part in the file, bytes.
        at: u64,
        /// Rule that it breaks.
        rule: String,
    },
    /// Stopped by the caller.
    #[error("stopped before it was done")]
    Interrupted,
}

/// The first answer that was not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Number of the request, from 1 on.
    pub request: u64,
    /// The request as text.
    pub arrival: String,
    /// Decision of the device.
    pub recorded: String,
    /// Decision of the replay.
    pub replayed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} ({}) was recorded as {} and replayed as {}", self.request, self.arrival, self.recorded, self.replayed)
    }
}

/// Lateness of the wall clock's answers, ns: quantiles by rank, each at most 0.1 % above the value
/// of that rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Answers that were timed.
    pub answers: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Latest; all above 4.29 s count as that.
    pub max_ns: u64,
    /// Upper bounds (1, 2, 5, 10, ... us) and how many answers were that late or less but later
    /// than the bound before; up to the latest.
    pub histogram: Vec<(u64, u64)>,
}

/// Result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// Requests in the record.
    pub requests: u64,
    /// Changes in the record.
    pub changes: u64,
    /// Requests whose decision was the recorded one to the nanosecond.
    pub equal: u64,
    /// The first that was not.
    pub first_difference: Option<Difference>,
    /// Lateness of the wall clock.
    pub lateness: Lateness,
    /// From the moment the record begins to its last request or change.
    pub span: Nanos,
    /// The file ends inside a frame: its writer was killed, or still writes.
    pub cut_tail: bool,
}

/// Replays the record that `input` holds.
///
/// # Errors [`ReplayError::Damaged`] for bytes that this program did not write as a record: nothing
/// is guessed behind them.
pub fn replay(input: impl Read, progress: BytesProgress<'_>) -> Result<Replayed, ReplayError> {
    let mut source = RecordReader { input, bytes: Vec::new(), used: 0, before: 0, part_at: 0, ended: false };
    let Some(saved) = source.next(SavedHost::decode, progress)? else {
        let rule = "it ends before the state of the host does, with which a record begins".to_string();
        return Err(ReplayError::Damaged { at: source.before + source.bytes.len() as u64, rule });
    };
    let mut replay = Replay::new(&saved);
    while let Some(frame) = source.next(Frame::decode, progress)? {
        replay.repeat_frame(&frame).map_err(|rule| ReplayError::Damaged { at: source.part_at, rule })?;
    }
    Ok(replay.finish(source.has_rest()))
}

/// A file read bit by bit.
struct RecordReader<R> {
    input: R,
    bytes: Vec<u8>,
    /// Bytes of `bytes` that are decoded already.
    used: usize,
    /// Bytes of the file before `bytes`.
    before: u64,
    /// Offset in the file of the part last given, bytes.
    part_at: u64,
    ended: bool,
}

impl<R: Read> RecordReader<R> {
    /// Reads the next part; None at the end, or where too few bytes follow.
    fn next<T>(&mut self, decode: Decode<T>, progress: BytesProgress<'_>) -> Result<Option<T>, ReplayError> {
        self.part_at = self.before + self.used as u64;
        loop {
            match decode(&self.bytes[self.used..]) {
                Ok(Some((part, length))) => {
                    self.used += length;
                    return Ok(Some(part));
                }
                Ok(None) if self.ended => return Ok(None),
                Ok(None) if !progress(self.part_at) => return Err(ReplayError::Interrupted),
                Ok(None) => self.fill()?,
                Err(error) => return Err(ReplayError::Damaged { at: self.part_at, rule: error.to_string() }),
            }
        }
    }

    /// Reads the next part of the file behind the bytes that are not decoded yet.
    fn fill(&mut self) -> Result<(), ReplayError> {
        self.bytes.drain(..self.used);
        self.before += self.used as u64;
        self.used = 0;
        let start = self.bytes.len();
        self.bytes.resize(start + READ_AT_ONCE, 0);
        let outcome = self.input.read(&mut self.bytes[start..]);
        self.bytes.truncate(start + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns whether bytes are left that form no whole frame.
    fn has_rest(&self) -> bool {
        self.bytes.len() > self.used
    }
}

struct Replay {
    host: Host,
    begun: Nanos,
    last: Nanos,
    requests: u64,
    changes: u64,
    equal: u64,
    first_difference: Option<Difference>,
    late: Histogram<u64>,
}

impl Replay {
    /// Makes the host that a record begins with.
    fn new(saved: &SavedHost) -> Replay {
        let late = Histogram::new_with_bounds(1, LATEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds are valid");
        let host = Host::from_saved(saved);
        Replay { host, begun: saved.now, last: saved.now, requests: 0, changes: 0, equal: 0, first_difference: None, late }
    }

    /// Repeats a frame; the error is the rule that it breaks when a device cannot have written it.
    fn repeat_frame(&mut self, frame: &Frame) -> Result<(), String> {
        match frame {
            Frame::Request { device, member, now, io, decision } => {
                self.reach(*now)?;
                let submission = Submission { device: usize::from(*device), member: member.map(usize::from), now: *now, io: *io };
                self.compare_request(&submission, decision)
            }
            Frame::Change { now, change } => {
                self.reach(*now)?;
                self.changes += 1;
                if let HostChange::Put { device, .. } = change {
                    if *device > usize::from(u16::MAX) {
                        return Err(format!("slot {device} is beyond the last one, {}", u16::MAX));
                    }
                }
                self.host.change(*now, change);
                Ok(())
            }
            Frame::Late(nanos) => {
                self.late.saturating_record(u64::from(*nanos));
                Ok(())
            }
        }
    }

    /// Sets the time of the replay; the error names times that run backwards or are beyond any
    /// device's.
    fn reach(&mut self, now: Nanos) -> Result<(), String> {
        if now < self.last || now > LAST_MOMENT {
            return Err(format!("its time, {} ns, does not follow {} ns", now.0, self.last.0));
        }
        self.last = now;
        Ok(())
    }

    /// Submits a request again and compares the decision with the recorded one; the error says why
    /// no device can have taken it.
    fn compare_request(&mut self, submission: &Submission, recorded: &Decision) -> Result<(), String> {
        let members = self.host.devices.get(submission.device).map_or(0, |device| device.members().len());
        if members <= submission.member.unwrap_or(0) {
            return Err(format!("{submission}: there is no such device in the record"));
        }
        if submission.io.offset.checked_add(u64::from(submission.io.bytes)).is_none() {
            return Err(format!("{submission}: no volume is that large"));
        }
        let replayed = match submission.member {
            None => Some(self.host.submit(submission.device, submission.now, submission.io)),
            Some(member) => self.host.submit_member(submission.device, member, submission.now, submission.io),
        };
        self.requests += 1;
        if replayed.as_ref() == Some(recorded) {
            self.equal += 1;
        } else if self.first_difference.is_none() {
            let replayed = replayed.map_or_else(|| "nothing".to_string(), |decision| describe_decision(&decision));
            self.first_difference =
                Some(Difference { request: self.requests, arrival: submission.to_string(), recorded: describe_decision(recorded), replayed });
        }
        Ok(())
    }

    /// Returns the counts of the replay.
    fn finish(self, cut_tail: bool) -> Replayed {
        let Replay { begun, last, requests, changes, equal, first_difference, late, .. } = self;
        Replayed { requests, changes, equal, first_difference, lateness: lateness_of(&late), span: last.since(begun), cut_tail }
    }
}

struct Submission {
    device: usize,
    member: Option<usize>,
    now: Nanos,
    io: Io,
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = if self.io.op == headrace_model::Op::Read { "read" } else { "write" };
        write!(f, "{op} of {} bytes at {} to device {}", self.io.bytes, self.io.offset, self.device)?;
        if let Some(member) = self.member {
            write!(f, " member {member}")?;
        }
        write!(f, " at {} ns", self.now.0)
    }
}

/// Writes a decision as text.
fn describe_decision(decision: &Decision) -> String {
    let verdict = if decision.verdict == headrace_model::Verdict::Ok { "ok" } else { "failed" };
    format!("start {} ns, complete {} ns, cap {}, {verdict}", decision.start.0, decision.complete.0, decision.cap.name())
}

/// Returns the quantiles of lateness, ns, and its histogram with bounds of 1, 2, 5, 10, ... us.
fn lateness_of(late: &Histogram<u64>) -> Lateness {
    if late.is_empty() {
        return Lateness::default();
    }
    let mut histogram = Vec::new();
    let (mut below, mut bound) = (0, 1_000u64);
    while below < late.len() {
        let up_to = late.count_between(0, bound);
        histogram.push((bound, up_to - below));
        below = up_to;
        // 1, 2, 5, 10, ...
        bound = if bound.to_string().starts_with('2') { bound / 2 * 5 } else { bound * 2 };
    }
    let at = |quantile: f64| late.value_at_quantile(quantile);
    Lateness { answers: late.len(), p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99), p99_9_ns: at(0.999), max_ns: late.max(), histogram }
}
