//! Counters of a volume since the last reading: operations, bytes, times, queue, idle time, time
//! beyond each cap, latencies by size.

use headrace_model::{Cap, Decision, Io, Nanos, Op, Verdict};
use std::sync::{Mutex, PoisonError};

/// Upper bounds of the size classes, bytes; the last has none.
pub const SIZE_CLASSES: [u32; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Buckets of a histogram: four an octave from 1 us on, so one is at most a quarter as wide as its
/// lower bound and its middle within 12.5 % of any value in it; the last takes all from 235 s on.
pub const BUCKETS: usize = 4 * 28 + 1;

/// Bytes of one consumed operation: larger requests count once per started 256 KiB (EBS user guide,
/// VolumeConsumedReadWriteOps).
pub const CONSUMED_BYTES: u32 = 256 << 10;

/// A histogram of durations.
pub type Histogram = [u32; BUCKETS];

/// Returns the bucket of a duration.
pub fn bucket_of(nanos: u64) -> usize {
    let Some(octave) = (nanos / 1_000).checked_ilog2() else { return 0 };
    // The octave of 2^64 ns is 54: the shift does not overflow.
    let quarter = nanos / ((1_000u64 << octave) / 4) - 4;
    (octave as usize * 4 + quarter as usize + 1).min(BUCKETS - 1)
}

/// Returns the bounds of a bucket in ns: from, until.
pub fn bounds_of(bucket: usize) -> (u64, u64) {
    let lower = |bucket: usize| if bucket == 0 { 0 } else { (1_000u64 << ((bucket - 1) / 4)) / 4 * (4 + (bucket as u64 - 1) % 4) };
    (lower(bucket), if bucket + 1 == BUCKETS { u64::MAX } else { lower(bucket + 1) })
}

/// Returns the size class of a request.
pub fn class_of(bytes: u32) -> usize {
    SIZE_CLASSES.iter().position(|&most| bytes <= most).unwrap_or(SIZE_CLASSES.len())
}

/// Counts of a volume over a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Length of the stretch, ns.
    pub span_ns: u64,
    /// Requests answered: reads, writes.
    pub ops: [u64; 2],
    /// Bytes of those requests.
    pub bytes: [u64; 2],
    /// Sum of their times from arrival to answer, ns.
    pub time_ns: [u64; 2],
    /// Reads and writes in units of [`CONSUMED_BYTES`].
    pub consumed: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests in flight x time, ns: over `span_ns` the mean queue.
    pub queue_ns: u64,
    /// Most requests in flight.
    pub queue_max: u32,
    /// Time with nothing in flight, ns.
    pub idle_ns: u64,
    /// Time during which requests waited for each cap, ns, in the order of [`Cap::ALL`].
    pub exceeded_ns: [u64; Cap::ALL.len()],
    /// Latencies by operation and size class.
    pub latency: Box<[[Histogram; 5]; 2]>,
    /// Answers by their delay behind the model's completion time.
    pub late: Box<Histogram>,
}

impl Sample {
    /// Makes a sample without any request.
    pub fn empty() -> Sample {
        Sample {
            span_ns: 0,
            ops: [0; 2],
            bytes: [0; 2],
            time_ns: [0; 2],
            consumed: 0,
            errors: 0,
            flushes: 0,
            queue_ns: 0,
            queue_max: 0,
            idle_ns: 0,
            exceeded_ns: [0; Cap::ALL.len()],
            latency: Box::new([[[0; BUCKETS]; 5]; 2]),
            late: Box::new([0; BUCKETS]),
        }
    }

    /// Counts a request that took `took_ns`.
    fn count(&mut self, op: Op, bytes: u32, took_ns: u64, failed: bool) {
        self.ops[op as usize] += 1;
        self.bytes[op as usize] += u64::from(bytes);
        self.time_ns[op as usize] += took_ns;
        self.consumed += u64::from(bytes.div_ceil(CONSUMED_BYTES).max(1));
        self.errors += u64::from(failed);
        self.latency[op as usize][class_of(bytes)][bucket_of(took_ns)] += 1;
    }

    /// Returns the latencies of an operation, all sizes together.
    pub fn latency_of(&self, op: Op) -> Histogram {
        let mut sum = [0; BUCKETS];
        for class in &self.latency[op as usize] {
            sum.iter_mut().zip(class).for_each(|(to, from)| *to += from);
        }
        sum
    }

    /// Adds a stretch that followed.
    pub fn add(&mut self, other: &Sample) {
        self.span_ns += other.span_ns;
        for op in 0..2 {
            self.ops[op] += other.ops[op];
            self.bytes[op] += other.bytes[op];
            self.time_ns[op] += other.time_ns[op];
            for (to, from) in self.latency[op].iter_mut().flatten().zip(other.latency[op].iter().flatten()) {
                *to += from;
            }
        }
        self.consumed += other.consumed;
        self.errors += other.errors;
        self.flushes += other.flushes;
        self.queue_ns += other.queue_ns;
        self.queue_max = self.queue_max.max(other.queue_max);
        self.idle_ns += other.idle_ns;
        self.exceeded_ns.iter_mut().zip(other.exceeded_ns).for_each(|(to, from)| *to += from);
        self.late.iter_mut().zip(other.late.iter()).for_each(|(to, from)| *to += from);
    }
}

/// Returns the quantile `q` (0-1) of a histogram, ns, on a line inside its bucket; None when it is
/// empty.
pub fn quantile(histogram: &Histogram, q: f64) -> Option<u64> {
    let count: u64 = histogram.iter().map(|&n| u64::from(n)).sum();
    if count == 0 {
        return None;
    }
    let rank = q.clamp(0.0, 1.0) * count as f64;
    let mut below = 0.0;
    for (bucket, &n) in histogram.iter().enumerate() {
        if n > 0 && below + f64::from(n) >= rank {
            let (from, until) = bounds_of(bucket);
            let until = if until == u64::MAX { from } else { until };
            return Some(from + ((until - from) as f64 * ((rank - below) / f64::from(n)).clamp(0.0, 1.0)) as u64);
        }
        below += f64::from(n);
    }
    None
}

struct State {
    sample: Sample,
    since: u64,
    changed: u64,
    in_flight: u32,
    exceeded_until: [u64; Cap::ALL.len()],
    /// Answers of a member still to come.
    pending: Vec<u64>,
}

/// Counts what a volume does.
pub struct Meter {
    state: Mutex<State>,
}

impl Meter {
    /// Begins at `now`.
    pub fn new(now: Nanos) -> Meter {
        let state = State { sample: Sample::empty(), since: now.0, changed: now.0, in_flight: 0, exceeded_until: [0; Cap::ALL.len()], pending: Vec::new() };
        Meter { state: Mutex::new(state) }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a request came; `decision` where the model was asked.
    pub fn arrived(&self, now: Nanos, decision: Option<&Decision>) {
        self.with(|state| {
            state.advance(now.0);
            state.in_flight += 1;
            state.sample.queue_max = state.sample.queue_max.max(state.in_flight);
            if let Some(decision) = decision {
                state.count_wait(now, decision);
            }
        });
    }

    /// Notes that a request was answered at `now`, `late_ns` after its time.
    pub fn answered(&self, arrived: Nanos, now: Nanos, op: Op, bytes: u32, late_ns: u64, failed: bool) {
        let took = now.0.saturating_sub(arrived.0);
        self.with(|state| {
            state.advance(now.0);
            state.in_flight = state.in_flight.saturating_sub(1);
            state.sample.count(op, bytes, took, failed);
            state.sample.late[bucket_of(late_ns)] += 1;
        });
    }

    /// Notes that a member of an array was asked at `now` and answers as decided: its arrival and
    /// answer are not seen one by one, so both are counted at once.
    pub fn decided(&self, now: Nanos, io: &Io, decision: &Decision) {
        let took = decision.complete.since(now).0;
        self.with(|state| {
            // With nothing in flight by its own count, what passed since the last answer was idle.
            state.advance(now.0);
            state.count_wait(now, decision);
            state.changed = state.changed.max(decision.complete.0);
            state.pending.retain(|&complete| complete > now.0);
            state.pending.push(decision.complete.0);
            let sample = &mut state.sample;
            sample.queue_max = sample.queue_max.max(state.pending.len() as u32);
            sample.queue_ns += took;
            sample.count(io.op, io.bytes, took, decision.verdict == Verdict::Failed);
        });
    }

    /// Notes that a flush was done.
    pub fn flushed(&self) {
        self.with(|state| state.sample.flushes += 1);
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u32 {
        self.with(|state| state.in_flight)
    }

    /// Takes everything since the last call.
    pub fn take(&self, now: Nanos) -> Sample {
        self.with(|state| {
            state.advance(now.0);
            let mut sample = std::mem::replace(&mut state.sample, Sample::empty());
            sample.span_ns = now.0.saturating_sub(state.since);
            state.since = now.0;
            state.sample.queue_max = state.in_flight;
            sample
        })
    }
}

impl State {
    /// Adds the time that a request waits for its cap, without the part that was counted for an
    /// earlier one.
    fn count_wait(&mut self, now: Nanos, decision: &Decision) {
        if decision.cap != Cap::None && decision.start > now {
            let cap = Cap::ALL.iter().position(|&cap| cap == decision.cap).unwrap_or(0);
            // Waits overlap: only the time after the last counted wait is added.
            let from = now.0.max(self.exceeded_until[cap]);
            self.sample.exceeded_ns[cap] += decision.start.0.saturating_sub(from);
            self.exceeded_until[cap] = self.exceeded_until[cap].max(decision.start.0);
        }
    }

    /// Adds the time since the last change to the queue, or to the idle time.
    fn advance(&mut self, now: u64) {
        let gap = now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        self.sample.queue_ns += gap * u64::from(self.in_flight);
        if self.in_flight == 0 {
            self.sample.idle_ns += gap;
        }
    }
}
