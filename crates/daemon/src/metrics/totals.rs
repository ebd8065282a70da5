//! Counters since the daemon's start.

use super::row::Stretch;
use headrace_device::meter::BUCKETS;
use headrace_model::Cap;

/// Counters since the daemon's start, for Prometheus, which takes a counter that begins at 0 again
/// for a restart.
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
}

fn sum(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
