//! The text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>, read 2026-08).
//!
//! Metrics that the EBS CSI driver exports too have its names (`aws_ebs_csi_*`); names of others
//! begin with `headrace_`. Base units: seconds, bytes, ratios from 0 to 1. An array has a series of
//! its own and one for each member, told apart by the label `member`: sum over `member=""` or over
//! `member!=""`, not over both.

use super::totals::Totals;
use super::Key;
use headrace_device::meter::{bounds_of, BUCKETS};
use headrace_model::Cap;
use std::fmt::Write;

/// Bounds of the histograms' buckets: every second of the meter's from 16 us to 67 s, so two an
/// octave (factor 1.5 at most).
const EDGES: std::ops::RangeInclusive<usize> = 17..=105;
/// Buckets of the meter in one of these.
const EDGE_STEP: usize = 2;

/// Present values of a volume or a member of an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeGauges {
    /// The volume's id.
    pub volume: String,
    /// The member's number.
    pub member: Option<u32>,
    /// Requests in flight.
    pub queue_length: u32,
    /// Credits, 0-100; none where its type has none.
    pub balance_percent: Option<f64>,
}

/// Present values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// The attached volumes, in any order.
    pub volumes: Vec<VolumeGauges>,
    /// I/O credits of the instance, 0-100.
    pub instance_ios_percent: Option<f64>,
    /// Byte credits of the instance, 0-100.
    pub instance_bytes_percent: Option<f64>,
}

type Counter = (&'static str, &'static str, fn(&Totals) -> Number);

enum Number {
    Count(u64),
    /// Nanoseconds, shown in seconds.
    Nanos(u64),
    Ratio(f64),
}

const COUNTERS: [Counter; 14] = [
    ("aws_ebs_csi_read_ops_total", "Read requests answered.", |totals| Number::Count(totals.ops[0])),
    ("aws_ebs_csi_write_ops_total", "Write requests answered.", |totals| Number::Count(totals.ops[1])),
    ("aws_ebs_csi_read_bytes_total", "Bytes read.", |totals| Number::Count(totals.bytes[0])),
    ("aws_ebs_csi_write_bytes_total", "Bytes written.", |totals| Number::Count(totals.bytes[1])),
    ("aws_ebs_csi_read_seconds_total", "Time of read requests from arrival to answer, summed.", |totals| Number::Nanos(totals.time_ns[0])),
    ("aws_ebs_csi_write_seconds_total", "Time of write requests from arrival to answer, summed.", |totals| Number::Nanos(totals.time_ns[1])),
    ("aws_ebs_csi_exceeded_iops_seconds_total", "Time during which requests waited for the IOPS of the volume.", |totals| Number::Nanos(totals.exceeded_ns[0])),
    ("aws_ebs_csi_exceeded_tp_seconds_total", "Time during which requests waited for the throughput of the volume.", |totals| {
        Number::Nanos(totals.exceeded_ns[1])
    }),
    ("aws_ebs_csi_ec2_exceeded_iops_seconds_total", "Time during which requests waited for the EBS IOPS of the instance.", |totals| {
        Number::Nanos(totals.exceeded_ns[2])
    }),
    ("aws_ebs_csi_ec2_exceeded_tp_seconds_total", "Time during which requests waited for the EBS throughput of the instance.", |totals| {
        Number::Nanos(totals.exceeded_ns[3])
    }),
    ("headrace_errors_total", "Requests answered with an error.", |totals| Number::Count(totals.errors)),
    ("headrace_flushes_total", "Flushes.", |totals| Number::Count(totals.flushes)),
    ("headrace_idle_seconds_total", "Time with no request in flight.", |totals| Number::Nanos(totals.idle_ns)),
    ("headrace_queue_seconds_total", "Requests in flight times time: its rate is the mean queue length.", |totals| Number::Nanos(totals.queue_ns)),
];

type Histogram = (&'static str, &'static str, fn(&Totals) -> (&[u64; BUCKETS], u64));

const HISTOGRAMS: [Histogram; 3] = [
    ("aws_ebs_csi_read_io_latency_seconds", "Time of a read request from arrival to answer, with waits for caps.", |totals| {
        (&totals.latency[0], totals.time_ns[0])
    }),
    ("aws_ebs_csi_write_io_latency_seconds", "Time of a write request from arrival to answer, with waits for caps.", |totals| {
        (&totals.latency[1], totals.time_ns[1])
    }),
    (
        "headrace_late_seconds",
        "Delay of answers behind the time that the model gave them. The sum is estimated from the middles of the meter's buckets.",
        |totals| (&totals.late, estimated_sum_ns(&totals.late)),
    ),
];

fn estimated_sum_ns(counts: &[u64; BUCKETS]) -> u64 {
    let middle = |bucket| match bounds_of(bucket) {
        (from, u64::MAX) => from,
        (from, until) => from.midpoint(until),
    };
    counts.iter().enumerate().fold(0u64, |sum, (bucket, &count)| sum.saturating_add(count.saturating_mul(middle(bucket))))
}

/// Returns the exposition of counters and gauges.
pub(crate) fn text(totals: &[(Key, Totals)], gauges: &Gauges, dropped: u64) -> String {
    let mut out = Exposition::default();
    for (name, help, number) in COUNTERS {
        out.family(name, "counter", help);
        totals.iter().for_each(|(key, totals)| out.sample(name, &key.0, key.1, None, &number(totals)));
    }
    let name = "headrace_waiting_seconds_total";
    out.family(name, "counter", "Time during which requests waited, by the limit they waited for.");
    for (key, totals) in totals {
        for (cap, &nanos) in Cap::ALL.iter().zip(&totals.waited_ns).filter(|(&cap, _)| cap != Cap::None && cap != Cap::Clients) {
            out.sample(name, &key.0, key.1, Some(("cap", cap.name())), &Number::Nanos(nanos));
        }
    }
    for (name, help, of) in HISTOGRAMS {
        out.family(name, "histogram", help);
        for (key, totals) in totals {
            let (counts, sum_ns) = of(totals);
            out.histogram(name, key, counts, sum_ns);
        }
    }
    out.gauges(gauges);
    let name = "headrace_metrics_rows_dropped_total";
    out.family(name, "counter", "Rows of metrics that could not be written, as on a full disk.");
    out.line(name, &[], &Number::Count(dropped));
    out.text
}

#[derive(Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn gauges(&mut self, gauges: &Gauges) {
        let name = "aws_ebs_csi_volume_queue_length";
        self.family(name, "gauge", "Requests in flight.");
        for volume in &gauges.volumes {
            self.sample(name, &volume.volume, volume.member, None, &Number::Count(u64::from(volume.queue_length)));
        }
        let name = "headrace_volume_balance_ratio";
        self.family(name, "gauge", "Credits of the volume, 1 when full.");
        for volume in &gauges.volumes {
            if let Some(percent) = volume.balance_percent {
                self.sample(name, &volume.volume, volume.member, None, &Number::Ratio(percent / 100.0));
            }
        }
        let name = "headrace_instance_balance_ratio";
        self.family(name, "gauge", "EBS burst credits of the instance, 1 when full.");
        for (unit, percent) in [("ios", gauges.instance_ios_percent), ("bytes", gauges.instance_bytes_percent)] {
            if let Some(percent) = percent {
                self.line(name, &[("credits", unit)], &Number::Ratio(percent / 100.0));
            }
        }
    }

    fn histogram(&mut self, name: &str, key: &Key, counts: &[u64; BUCKETS], sum_ns: u64) {
        let bucket = format!("{name}_bucket");
        let (mut below, mut next) = (0, 0);
        for edge in EDGES.step_by(EDGE_STEP) {
            below += counts[next..edge].iter().sum::<u64>();
            next = edge;
            let le = seconds(bounds_of(edge).0);
            self.sample(&bucket, &key.0, key.1, Some(("le", &le)), &Number::Count(below));
        }
        let all = counts.iter().sum();
        self.sample(&bucket, &key.0, key.1, Some(("le", "+Inf")), &Number::Count(all));
        self.sample(&format!("{name}_sum"), &key.0, key.1, None, &Number::Nanos(sum_ns));
        self.sample(&format!("{name}_count"), &key.0, key.1, None, &Number::Count(all));
    }

    fn sample(&mut self, name: &str, volume: &str, member: Option<u32>, more: Option<(&str, &str)>, number: &Number) {
        let member = member.map(|member| member.to_string());
        let member = member.as_deref().map(|member| ("member", member));
        let labels: Vec<(&str, &str)> = [("volume_id", volume)].into_iter().chain(member).chain(more).collect();
        self.line(name, &labels, number);
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], number: &Number) {
        self.text.push_str(name);
        for (nth, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if nth == 0 { '{' } else { ',' }, escaped(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = match number {
            Number::Count(count) => writeln!(self.text, " {count}"),
            Number::Nanos(nanos) => writeln!(self.text, " {}", seconds(*nanos)),
            Number::Ratio(ratio) => writeln!(self.text, " {}", if ratio.is_finite() { ratio.to_string() } else { "NaN".to_string() }),
        };
    }
}

/// Writes nanoseconds as seconds, exactly.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
