//! A row: what a volume did in a second or a minute, as people read it.

use headrace_device::meter::{quantile, Histogram, Sample};
use headrace_model::{Cap, Op};
use serde_json::{json, Value};

/// The columns of a row, in order; units stand in the names. Unknown values are null in JSON and
/// empty in CSV.
///
/// Times are sums over requests, so they may be longer than the row. `*_exceeded_us` is time during
/// which requests waited for that limit: for the provisioned rate or, credits gone, for the
/// baseline. It is counted when a request arrives, so a long wait is in the row of its arrival.
/// Percentiles are read off a histogram, on a line inside their bucket (see [`super::Latencies`]);
/// they contain the wait. Balances are those at the row's end. `span_us` is the time the row is
/// about: less than 60,000,000 in a minute that was not attached throughout. `consumed_ops` counts
/// a request once per started 256 KiB; rows written before there was such a column show the number
/// of requests.
pub const COLUMNS: [&str; 27] = [
    "t_s",
    "reads",
    "writes",
    "read_bytes",
    "write_bytes",
    "read_time_us",
    "write_time_us",
    "queue_mean",
    "queue_max",
    "idle_percent",
    "balance_percent",
    "volume_iops_exceeded_us",
    "volume_throughput_exceeded_us",
    "instance_iops_exceeded_us",
    "instance_throughput_exceeded_us",
    "read_p50_us",
    "read_p99_us",
    "write_p50_us",
    "write_p99_us",
    "late_p50_us",
    "late_p99_us",
    "instance_ios_balance_percent",
    "instance_bytes_balance_percent",
    "errors",
    "flushes",
    "span_us",
    "consumed_ops",
];

/// Precision of durations: the largest ratio between the upper and the lower bound of a bucket.
///
/// A stored row holds histograms in little space. If a row does not fit its slot, neighbouring
/// buckets are joined, in the whole row alike and no further than needed: halves of an octave
/// (factor 1.5), octaves (2), two octaves (4), four (16). On reading, the count of a joined bucket
/// is spread evenly over its buckets. The number of requests stays exact. The factor holds from 1
/// us on, to 235 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorFactor(pub(crate) u8);

impl ErrorFactor {
    /// The error of durations as they are counted: four buckets an octave.
    pub const FINEST: ErrorFactor = ErrorFactor(0);

    /// Returns the factor.
    pub fn factor(self) -> f64 {
        [1.25, 1.5, 2.0, 4.0, 16.0][usize::from(self.0.min(4))]
    }
}

/// Unit of a volume's credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditUnit {
    /// I/Os: gp2. Waiting for them is waiting for IOPS.
    #[default]
    Ios,
    /// Bytes: st1, sc1. Waiting for them is waiting for throughput.
    Bytes,
}

/// Measures of a stretch that a [`Sample`] does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extra {
    /// Credits of the volume at the end of the stretch, 0-100; none where its type has none. Values
    /// that are not finite count as none.
    pub balance_percent: Option<f64>,
    /// I/O credits of the instance, 0-100 (EBSIOBalance%).
    pub instance_ios_percent: Option<f64>,
    /// Byte credits of the instance, 0-100 (EBSByteBalance%).
    pub instance_bytes_percent: Option<f64>,
    /// Unit of the volume's credits.
    pub credits: CreditUnit,
}

/// A sample with what belongs to it: what is added up, stored and shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    pub sample: Sample,
    /// Time beyond volume IOPS, volume throughput, instance IOPS, instance throughput, ns.
    pub exceeded_ns: [u64; 4],
    /// Volume, instance I/Os, instance bytes: balances in percent at the end.
    pub balances: [Option<f64>; 3],
    /// Precision of its latencies.
    pub error: ErrorFactor,
}

impl Stretch {
    /// Makes the stretch of a sample: the times that requests waited for each cap are summed into
    /// four columns, by the unit of the volume's credits, and balances that are not finite are left
    /// out.
    pub fn new(sample: &Sample, extra: &Extra) -> Stretch {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let balances = [finite(extra.balance_percent), finite(extra.instance_ios_percent), finite(extra.instance_bytes_percent)];
        let mut exceeded_ns = [0u64; 4];
        for (cap, &nanos) in Cap::ALL.iter().zip(&sample.exceeded_ns) {
            let column = match cap {
                Cap::VolumeIops => 0,
                Cap::VolumeThroughput => 1,
                Cap::VolumeCredits => usize::from(extra.credits == CreditUnit::Bytes),
                Cap::InstanceIops => 2,
                Cap::InstanceThroughput => 3,
                // The model does not say which of the instance's two buckets was empty: it is the
                // emptier one.
                Cap::InstanceCredits => 2 + usize::from(balances[1].unwrap_or(100.0) >= balances[2].unwrap_or(100.0)),
                Cap::None | Cap::FirstTouch | Cap::Degraded | Cap::Clients => continue,
            };
            exceeded_ns[column] += nanos;
        }
        Stretch { sample: sample.clone(), exceeded_ns, balances, error: ErrorFactor::FINEST }
    }

    /// Adds a stretch that followed.
    pub fn add(&mut self, next: &Stretch) {
        self.sample.add(&next.sample);
        self.exceeded_ns.iter_mut().zip(next.exceeded_ns).for_each(|(to, from)| *to += from);
        self.balances = next.balances;
        self.error = self.error.max(next.error);
    }

    /// Returns true if the stretch has no request and no wait.
    pub fn is_idle(&self) -> bool {
        let sample = &self.sample;
        let counts = sample.ops.iter().chain(&sample.bytes).chain(&sample.time_ns).chain(&sample.exceeded_ns);
        counts.chain([&sample.errors, &sample.flushes, &sample.queue_ns]).all(|&n| n == 0)
            && sample.queue_max == 0
            && sample.idle_ns == sample.span_ns
            && sample.late.iter().chain(sample.latency.iter().flatten().flatten()).all(|&n| n == 0)
    }
}

/// Metrics of a volume over a second or a minute. The fields are the [`COLUMNS`], with their units.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The names say it; what needs words has them at COLUMNS.
pub struct Row {
    pub t_s: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_time_us: u64,
    pub write_time_us: u64,
    pub queue_mean: Option<f64>,
    pub queue_max: u32,
    pub idle_percent: Option<f64>,
    pub balance_percent: Option<f64>,
    pub volume_iops_exceeded_us: u64,
    pub volume_throughput_exceeded_us: u64,
    pub instance_iops_exceeded_us: u64,
    pub instance_throughput_exceeded_us: u64,
    pub read_p50_us: Option<f64>,
    pub read_p99_us: Option<f64>,
    pub write_p50_us: Option<f64>,
    pub write_p99_us: Option<f64>,
    pub late_p50_us: Option<f64>,
    pub late_p99_us: Option<f64>,
    pub instance_ios_balance_percent: Option<f64>,
    pub instance_bytes_balance_percent: Option<f64>,
    pub errors: u64,
    pub flushes: u64,
    pub span_us: u64,
    pub consumed_ops: u64,
    /// Precision of the percentiles, a factor; not a column.
    pub latency_error: ErrorFactor,
}

enum Cell {
    Count(u64),
    Measure(Option<f64>),
}

impl Row {
    /// Makes the row of one sample, for the second `t_s` (Unix seconds).
    pub fn new(t_s: u64, sample: &Sample, extra: &Extra) -> Row {
        Row::from_stretch(t_s, &Stretch::new(sample, extra))
    }

    /// Makes the row of a stretch that begins at `t_s`, Unix seconds.
    pub(crate) fn from_stretch(t_s: u64, stretch: &Stretch) -> Row {
        let sample = &stretch.sample;
        let span = Some(sample.span_ns as f64).filter(|&span| span > 0.0);
        let [reads, writes] = [Op::Read, Op::Write].map(|op| sample.latency_of(op));
        let exceeded = stretch.exceeded_ns.map(micros);
        Row {
            t_s,
            reads: sample.ops[0],
            writes: sample.ops[1],
            read_bytes: sample.bytes[0],
            write_bytes: sample.bytes[1],
            read_time_us: micros(sample.time_ns[0]),
            write_time_us: micros(sample.time_ns[1]),
            queue_mean: span.map(|span| rounded(sample.queue_ns as f64 / span, 1e6)),
            queue_max: sample.queue_max,
            idle_percent: span.map(|span| rounded((100.0 * sample.idle_ns as f64 / span).min(100.0), 1e4)),
            balance_percent: stretch.balances[0],
            volume_iops_exceeded_us: exceeded[0],
            volume_throughput_exceeded_us: exceeded[1],
            instance_iops_exceeded_us: exceeded[2],
            instance_throughput_exceeded_us: exceeded[3],
            read_p50_us: quantile_us(&reads, 0.50),
            read_p99_us: quantile_us(&reads, 0.99),
            write_p50_us: quantile_us(&writes, 0.50),
            write_p99_us: quantile_us(&writes, 0.99),
            late_p50_us: quantile_us(&sample.late, 0.50),
            late_p99_us: quantile_us(&sample.late, 0.99),
            instance_ios_balance_percent: stretch.balances[1],
            instance_bytes_balance_percent: stretch.balances[2],
            errors: sample.errors,
            flushes: sample.flushes,
            span_us: micros(sample.span_ns),
            consumed_ops: sample.consumed,
            latency_error: stretch.error,
        }
    }

    /// Returns the row as a JSON array in the order of [`COLUMNS`].
    pub fn to_json(&self) -> Vec<Value> {
        self.cells()
            .into_iter()
            .map(|cell| match cell {
                Cell::Count(count) => json!(count),
                Cell::Measure(value) => json!(value),
            })
            .collect()
    }

    /// Returns the row as a line of CSV in the order of [`COLUMNS`], without its end.
    pub fn to_csv(&self) -> String {
        let texts = self.cells().map(|cell| match cell {
            Cell::Count(count) => count.to_string(),
            Cell::Measure(value) => value.map(|value| value.to_string()).unwrap_or_default(),
        });
        texts.join(",")
    }

    /// Returns the first line of a CSV file.
    pub fn csv_header() -> String {
        COLUMNS.join(",")
    }

    /// Returns the values in the order of [`COLUMNS`].
    fn cells(&self) -> [Cell; COLUMNS.len()] {
        use Cell::{Count, Measure};
        [
            Count(self.t_s),
            Count(self.reads),
            Count(self.writes),
            Count(self.read_bytes),
            Count(self.write_bytes),
            Count(self.read_time_us),
            Count(self.write_time_us),
            Measure(self.queue_mean),
            Count(u64::from(self.queue_max)),
            Measure(self.idle_percent),
            Measure(self.balance_percent),
            Count(self.volume_iops_exceeded_us),
            Count(self.volume_throughput_exceeded_us),
            Count(self.instance_iops_exceeded_us),
            Count(self.instance_throughput_exceeded_us),
            Measure(self.read_p50_us),
            Measure(self.read_p99_us),
            Measure(self.write_p50_us),
            Measure(self.write_p99_us),
            Measure(self.late_p50_us),
            Measure(self.late_p99_us),
            Measure(self.instance_ios_balance_percent),
            Measure(self.instance_bytes_balance_percent),
            Count(self.errors),
            Count(self.flushes),
            Count(self.span_us),
            Count(self.consumed_ops),
        ]
    }
}

fn micros(nanos: u64) -> u64 {
    nanos / 1_000 + u64::from(nanos % 1_000 >= 500)
}

fn rounded(value: f64, places: f64) -> f64 {
    (value * places).round() / places
}

fn quantile_us(histogram: &Histogram, q: f64) -> Option<f64> {
    quantile(histogram, q).map(|nanos| rounded(nanos as f64 / 1e3, 10.0))
}
