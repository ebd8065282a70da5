//! Counters since the daemon's start.

use super::row::Stretch;
use headrace_device::meter::{bounds_of, BUCKETS};
use headrace_model::Cap;
use headrace_protocol::answers::{TimeHistogram, VolumeTotals};

/// Buckets of the meter whose lower ends bound the histograms' buckets: every second one from 16 us
/// to 67 s, so two an octave (factor 1.5 at most).
const EDGES: std::ops::RangeInclusive<usize> = 17..=105;
/// Buckets of the meter in one of these.
const EDGE_STEP: usize = 2;

/// Counters since the daemon's start: one that is lower than before tells of a restart.
///
/// The meter is read once a second, into a [`Stretch`]: rows are made of it, and it is added here.
/// One long stretch could not hold them: its histograms count in 32 bits, enough for a minute.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub ops: [u64; 2],
    pub bytes: [u64; 2],
    pub time_ns: [u64; 2],
    pub errors: u64,
    pub flushes: u64,
    pub queue_ns: u64,
    pub idle_ns: u64,
    pub exceeded_ns: [u64; 4],
    pub waited_ns: [u64; Cap::ALL.len()],
    pub latency: [[u64; BUCKETS]; 2],
    pub late: [u64; BUCKETS],
}

impl Totals {
    /// Makes counters that are all 0.
    pub fn new() -> Totals {
        Totals {
            ops: [0; 2],
            bytes: [0; 2],
            time_ns: [0; 2],
            errors: 0,
            flushes: 0,
            queue_ns: 0,
            idle_ns: 0,
            exceeded_ns: [0; 4],
            waited_ns: [0; Cap::ALL.len()],
            latency: [[0; BUCKETS]; 2],
            late: [0; BUCKETS],
        }
    }

    /// Adds a stretch to the counters.
    pub fn add(&mut self, stretch: &Stretch) {
        let sample = &stretch.sample;
        sum(&mut self.ops, &sample.ops);
        sum(&mut self.bytes, &sample.bytes);
        sum(&mut self.time_ns, &sample.time_ns);
        self.errors += sample.errors;
        self.flushes += sample.flushes;
        self.queue_ns += sample.queue_ns;
        self.idle_ns += sample.idle_ns;
        sum(&mut self.exceeded_ns, &stretch.exceeded_ns);
        sum(&mut self.waited_ns, &sample.exceeded_ns);
        for (to, classes) in self.latency.iter_mut().zip(sample.latency.iter()) {
            classes.iter().for_each(|class| to.iter_mut().zip(class).for_each(|(to, &n)| *to += u64::from(n)));
        }
        self.late.iter_mut().zip(sample.late.iter()).for_each(|(to, &n)| *to += u64::from(n));
    }

    /// Returns the counters of a volume or member in base units.
    pub fn of_volume(&self, volume: &str, member: Option<u32>) -> VolumeTotals {
        let waits = Cap::ALL.iter().zip(&self.waited_ns).filter(|(&cap, _)| cap != Cap::None && cap != Cap::Clients);
        VolumeTotals {
            volume: volume.to_string(),
            member,
            reads: self.ops[0],
            writes: self.ops[1],
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            read_s: seconds(self.time_ns[0]),
            write_s: seconds(self.time_ns[1]),
            exceeded_iops_s: seconds(self.exceeded_ns[0]),
            exceeded_throughput_s: seconds(self.exceeded_ns[1]),
            instance_exceeded_iops_s: seconds(self.exceeded_ns[2]),
            instance_exceeded_throughput_s: seconds(self.exceeded_ns[3]),
            waiting_s: waits.map(|(cap, &nanos)| (cap.name().to_string(), seconds(nanos))).collect(),
            errors: self.errors,
            flushes: self.flushes,
            idle_s: seconds(self.idle_ns),
            queue_s: seconds(self.queue_ns),
            read_latency: histogram(&self.latency[0], self.time_ns[0]),
            write_latency: histogram(&self.latency[1], self.time_ns[1]),
            late: histogram(&self.late, estimated_sum_ns(&self.late)),
        }
    }
}

/// Returns the upper bounds of the histograms' buckets, s.
pub fn histogram_bounds_s() -> Vec<f64> {
    EDGES.step_by(EDGE_STEP).map(|edge| seconds(bounds_of(edge).0)).collect()
}

fn histogram(counts: &[u64; BUCKETS], sum_ns: u64) -> TimeHistogram {
    let edges = EDGES.step_by(EDGE_STEP).chain([BUCKETS]);
    TimeHistogram { counts: edges.map(|edge| counts[..edge].iter().sum()).collect(), sum_s: seconds(sum_ns) }
}

fn estimated_sum_ns(counts: &[u64; BUCKETS]) -> u64 {
    let middle = |bucket| match bounds_of(bucket) {
        (from, u64::MAX) => from,
        (from, until) => from.midpoint(until),
    };
    counts.iter().enumerate().fold(0u64, |sum, (bucket, &count)| sum.saturating_add(count.saturating_mul(middle(bucket))))
}

/// Turns nanoseconds into seconds, exact to half a unit of the last place below 2^53 ns.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn sum(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
