//! The metrics of AWS/EBS and AWS/EC2 from what volumes did in a minute.
//!
//! Meanings are those of the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS", and of the
//! EC2 user guide, "CloudWatch metrics that are available for your instances" (both read 2026-08).
//! The lab's host counts as an instance of the Nitro System: a volume has one value a minute, and
//! SampleCount counts minutes, not requests.
//!
//! A volume that is not attached has no minutes, so nothing is published.

use crate::metric::Unit;
use serde::{Deserialize, Serialize};

/// Namespace of a volume's metrics; their dimension is `VolumeId`.
pub const EBS: &str = "AWS/EBS";
/// Namespace of an instance's metrics; their dimension is `InstanceId`.
pub const EC2: &str = "AWS/EC2";
/// Bytes that count as one consumed operation (EBS user guide, VolumeConsumedReadWriteOps).
pub const CONSUMED_BYTES: u64 = 256 << 10;
/// Seconds from one value of EBSIOBalance% and EBSByteBalance% to the next: they belong to basic
/// monitoring (EC2 user guide).
pub const BALANCE_STEP_S: i64 = 300;

/// Activity of a volume in a minute, or in the part of it during which it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Minute {
    /// Beginning, Unix seconds.
    pub t_s: i64,
    /// Length of the stretch, us.
    pub span_us: u64,
    /// Requests that were answered: reads, writes.
    pub ops: [u64; 2],
    /// Bytes of those requests.
    pub bytes: [u64; 2],
    /// Sum of their times from arrival to answer, us.
    pub time_us: [u64; 2],
    /// Operations in units of [`CONSUMED_BYTES`].
    pub consumed_ops: u64,
    /// Time without a request, us.
    pub idle_us: f64,
    /// Mean of the requests outstanding.
    pub queue_mean: f64,
    /// Most requests outstanding.
    pub queue_max: u32,
    /// Credits at the end, percent.
    pub balance_percent: Option<f64>,
    /// Time during which requests waited for the volume's IOPS and throughput, us.
    pub volume_exceeded_us: [u64; 2],
    /// Time beyond the instance's limits, in the same units.
    pub instance_exceeded_us: [u64; 2],
    /// Credits of the instance at the end, percent: I/Os, bytes.
    pub instance_balance_percent: [Option<f64>; 2],
}

/// Facts that decide which metrics a volume has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeFacts {
    /// Provisioned IOPS, of io1 and io2 only.
    pub provisioned_iops: Option<u64>,
    /// True if it has credits that can be spent: gp2, st1 and sc1 whose baseline is below their
    /// burst.
    pub bursts: bool,
    /// True for a volume of the type `standard`.
    pub is_magnetic: bool,
}

/// A metric of a volume.
#[derive(Clone, Copy)]
pub struct VolumeMetric {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    has: fn(&VolumeFacts) -> bool,
    value: fn(&Minute, &VolumeFacts) -> Option<f64>,
}

impl VolumeMetric {
    /// Returns true if a volume has the metric.
    pub fn is_of(&self, facts: &VolumeFacts) -> bool {
        (self.has)(facts)
    }

    /// Returns the value of the metric in a minute; None where it is not published.
    pub fn value(&self, minute: &Minute, facts: &VolumeFacts) -> Option<f64> {
        self.is_of(facts).then(|| (self.value)(minute, facts)).flatten().filter(|value| value.is_finite())
    }
}

const fn volume(name: &'static str, unit: Unit, has: fn(&VolumeFacts) -> bool, value: fn(&Minute, &VolumeFacts) -> Option<f64>) -> VolumeMetric {
    VolumeMetric { name, unit, has, value }
}

fn all(_: &VolumeFacts) -> bool {
    true
}

fn provisioned(facts: &VolumeFacts) -> bool {
    facts.provisioned_iops.is_some()
}

fn not_magnetic(facts: &VolumeFacts) -> bool {
    !facts.is_magnetic
}

fn seconds(micros: f64) -> f64 {
    micros / 1e6
}

/// Computes the mean in ms. The mean of nothing is 0, as AWS publishes it: a zero here is not a
/// fast disk.
fn mean_ms(minute: &Minute, op: usize) -> f64 {
    if minute.ops[op] == 0 {
        return 0.0;
    }
    minute.time_us[op] as f64 / minute.ops[op] as f64 / 1e3
}

fn per_second(many: u64, minute: &Minute) -> Option<f64> {
    (minute.span_us > 0).then(|| many as f64 / seconds(minute.span_us as f64))
}

/// Returns 1 where requests waited for a limit during more than half of the time. AWS says
/// "consistently attempted"; that this means more than 30 s of the minute is what an exporter of
/// these metrics found (2025), not a documented rule.
fn exceeded(waited_us: u64, minute: &Minute) -> f64 {
    f64::from(u8::from(minute.span_us > 0 && 2 * waited_us > minute.span_us))
}

/// Returns 1 where requests were outstanding all the time and none was answered.
fn stalled(minute: &Minute) -> f64 {
    let outstanding = minute.queue_max > 0 && minute.queue_mean > 0.0 && minute.idle_us < 1.0;
    f64::from(u8::from(outstanding && minute.ops == [0, 0]))
}

/// Computes the share of the provisioned operations that was delivered, percent. It is 100 where
/// requests were not pending all the time: AWS publishes 100 % for a minute without pending
/// requests (EBS user guide of 2018).
fn delivered_percent(minute: &Minute, facts: &VolumeFacts) -> Option<f64> {
    let provisioned = facts.provisioned_iops.filter(|iops| *iops > 0)? as f64;
    if minute.idle_us >= 1.0 {
        return Some(100.0);
    }
    Some((100.0 * per_second(minute.consumed_ops, minute)? / provisioned).min(100.0))
}

/// Every metric of AWS/EBS that the lab publishes.
pub const VOLUME_METRICS: [VolumeMetric; 18] = [
    volume("VolumeReadOps", Unit::COUNT, all, |minute, _| Some(minute.ops[0] as f64)),
    volume("VolumeWriteOps", Unit::COUNT, all, |minute, _| Some(minute.ops[1] as f64)),
    volume("VolumeReadBytes", Unit::BYTES, all, |minute, _| Some(minute.bytes[0] as f64)),
    volume("VolumeWriteBytes", Unit::BYTES, all, |minute, _| Some(minute.bytes[1] as f64)),
    volume("VolumeTotalReadTime", Unit::SECONDS, all, |minute, _| Some(seconds(minute.time_us[0] as f64))),
    volume("VolumeTotalWriteTime", Unit::SECONDS, all, |minute, _| Some(seconds(minute.time_us[1] as f64))),
    volume("VolumeIdleTime", Unit::SECONDS, all, |minute, _| Some(seconds(minute.idle_us))),
    volume("VolumeQueueLength", Unit::COUNT, all, |minute, _| Some(minute.queue_mean)),
    volume("BurstBalance", Unit::PERCENT, |facts| facts.bursts, |minute, _| minute.balance_percent),
    volume("VolumeThroughputPercentage", Unit::PERCENT, provisioned, delivered_percent),
    volume("VolumeConsumedReadWriteOps", Unit::COUNT, provisioned, |minute, _| Some(minute.consumed_ops as f64)),
    volume("VolumeAvgReadLatency", Unit::MILLISECONDS, all, |minute, _| Some(mean_ms(minute, 0))),
    volume("VolumeAvgWriteLatency", Unit::MILLISECONDS, all, |minute, _| Some(mean_ms(minute, 1))),
    volume("VolumeAvgIOPS", Unit::COUNT_PER_SECOND, all, |minute, _| per_second(minute.ops[0] + minute.ops[1], minute)),
    volume("VolumeAvgThroughput", Unit::KILOBYTES_PER_SECOND, all, |minute, _| Some(per_second(minute.bytes[0] + minute.bytes[1], minute)? / 1024.0)),
    volume("VolumeIOPSExceededCheck", Unit::NONE, not_magnetic, |minute, _| Some(exceeded(minute.volume_exceeded_us[0], minute))),
    volume("VolumeThroughputExceededCheck", Unit::NONE, not_magnetic, |minute, _| Some(exceeded(minute.volume_exceeded_us[1], minute))),
    volume("VolumeStalledIOCheck", Unit::NONE, all, |minute, _| Some(stalled(minute))),
];

/// A metric of the instance: how the minutes of its volumes, all of the same time, make one value.
#[derive(Clone, Copy)]
pub struct InstanceMetric {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// True if the metric has a value only every five minutes.
    pub is_basic: bool,
    value: fn(&[Minute]) -> Option<f64>,
}

impl InstanceMetric {
    /// Returns the value of the metric by the volumes' minutes; None where it is not published.
    pub fn value(&self, minutes: &[Minute]) -> Option<f64> {
        (self.value)(minutes).filter(|value| value.is_finite())
    }
}

const fn instance(name: &'static str, unit: Unit, is_basic: bool, value: fn(&[Minute]) -> Option<f64>) -> InstanceMetric {
    InstanceMetric { name, unit, is_basic, value }
}

fn sum(minutes: &[Minute], of: impl Fn(&Minute) -> u64) -> Option<f64> {
    (!minutes.is_empty()).then(|| minutes.iter().map(|minute| of(minute) as f64).sum())
}

fn most(minutes: &[Minute], of: impl Fn(&Minute) -> Option<f64>) -> Option<f64> {
    minutes.iter().filter_map(of).max_by(f64::total_cmp)
}

fn least(minutes: &[Minute], of: impl Fn(&Minute) -> Option<f64>) -> Option<f64> {
    minutes.iter().filter_map(of).min_by(f64::total_cmp)
}

/// Every metric of AWS/EC2 that the lab publishes.
pub const INSTANCE_METRICS: [InstanceMetric; 9] = [
    instance("EBSReadOps", Unit::COUNT, false, |minutes| sum(minutes, |minute| minute.ops[0])),
    instance("EBSWriteOps", Unit::COUNT, false, |minutes| sum(minutes, |minute| minute.ops[1])),
    instance("EBSReadBytes", Unit::BYTES, false, |minutes| sum(minutes, |minute| minute.bytes[0])),
    instance("EBSWriteBytes", Unit::BYTES, false, |minutes| sum(minutes, |minute| minute.bytes[1])),
    instance("EBSIOBalance%", Unit::PERCENT, true, |minutes| least(minutes, |minute| minute.instance_balance_percent[0])),
    instance("EBSByteBalance%", Unit::PERCENT, true, |minutes| least(minutes, |minute| minute.instance_balance_percent[1])),
    instance("InstanceEBSIOPSExceededCheck", Unit::NONE, false, |minutes| most(minutes, |minute| Some(exceeded(minute.instance_exceeded_us[0], minute)))),
    instance("InstanceEBSThroughputExceededCheck", Unit::NONE, false, |minutes| most(minutes, |minute| Some(exceeded(minute.instance_exceeded_us[1], minute)))),
    instance("StatusCheckFailed_AttachedEBS", Unit::COUNT, false, |minutes| most(minutes, |minute| Some(stalled(minute)))),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, minute: &Minute, facts: &VolumeFacts) -> Option<f64> {
        VOLUME_METRICS.iter().find(|metric| metric.name == name).unwrap().value(minute, facts)
    }

    /// Returns a minute with 6,000 reads of 16 KiB that took 0.5 ms each, one at a time: 3 s busy.
    fn busy() -> Minute {
        Minute {
            t_s: 0,
            span_us: 60_000_000,
            ops: [6_000, 0],
            bytes: [6_000 * 16_384, 0],
            time_us: [3_000_000, 0],
            consumed_ops: 6_000,
            idle_us: 57e6,
            queue_mean: 0.05,
            queue_max: 1,
            balance_percent: Some(50.0),
            ..Minute::default()
        }
    }

    #[test]
    fn a_minute_has_the_values_of_its_requests() {
        let (minute, facts) = (busy(), VolumeFacts::default());
        let of = |name: &str| value(name, &minute, &facts).unwrap();
        assert_eq!((of("VolumeReadOps"), of("VolumeReadBytes"), of("VolumeTotalReadTime")), (6_000.0, 98_304_000.0, 3.0));
        // 3 s over 6,000 reads are 0.5 ms; there was no write.
        assert_eq!((of("VolumeAvgReadLatency"), of("VolumeAvgWriteLatency")), (0.5, 0.0));
        // 6,000 in 60 s; 98,304,000 B are 96,000 KiB, in 60 s 1,600 KiB/s.
        assert_eq!((of("VolumeAvgIOPS"), of("VolumeAvgThroughput"), of("VolumeIdleTime")), (100.0, 1_600.0, 57.0));
        assert_eq!((of("VolumeStalledIOCheck"), of("VolumeIOPSExceededCheck")), (0.0, 0.0));
    }

    #[test]
    fn what_is_published_depends_on_the_volume() {
        let minute = busy();
        let (gp3, gp2) = (VolumeFacts::default(), VolumeFacts { bursts: true, ..VolumeFacts::default() });
        let io1 = VolumeFacts { provisioned_iops: Some(1_000), ..VolumeFacts::default() };
        let magnetic = VolumeFacts { is_magnetic: true, ..VolumeFacts::default() };
        assert_eq!((value("BurstBalance", &minute, &gp2), value("BurstBalance", &minute, &gp3)), (Some(50.0), None));
        for name in ["VolumeThroughputPercentage", "VolumeConsumedReadWriteOps"] {
            assert!(value(name, &minute, &io1).is_some() && value(name, &minute, &gp3).is_none(), "{name}");
        }
        for name in ["VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck"] {
            assert!(value(name, &minute, &gp3).is_some() && value(name, &minute, &magnetic).is_none(), "{name}");
        }
    }

    #[test]
    fn provisioned_operations_are_delivered_in_part_while_requests_wait_all_the_time() {
        let io1 = VolumeFacts { provisioned_iops: Some(1_000), ..VolumeFacts::default() };
        assert_eq!(value("VolumeThroughputPercentage", &busy(), &io1), Some(100.0), "nothing was pending for 57 s");
        // 30,000 operations of the 60,000 that 1,000 IOPS deliver in a minute.
        let waiting = Minute { idle_us: 0.0, consumed_ops: 30_000, queue_mean: 32.0, queue_max: 32, ..busy() };
        assert_eq!(value("VolumeThroughputPercentage", &waiting, &io1), Some(50.0));
    }

    #[test]
    fn a_volume_stalls_when_it_answers_nothing_that_it_was_asked() {
        let stalled = Minute { ops: [0, 0], idle_us: 0.0, queue_mean: 4.0, queue_max: 4, ..busy() };
        let check = |minute: &Minute| value("VolumeStalledIOCheck", minute, &VolumeFacts::default());
        assert_eq!(check(&stalled), Some(1.0));
        assert_eq!(check(&Minute { ops: [1, 0], ..stalled }), Some(0.0), "one answer is progress");
        assert_eq!(check(&Minute { idle_us: 6e7, queue_mean: 0.0, queue_max: 0, ..stalled }), Some(0.0), "nothing was asked");
    }

    #[test]
    fn an_instance_is_its_volumes_together() {
        let waiting = Minute { instance_exceeded_us: [31_000_000, 0], instance_balance_percent: [Some(12.5), None], ..busy() };
        let of = |name: &str| INSTANCE_METRICS.iter().find(|metric| metric.name == name).unwrap().value(&[busy(), waiting]);
        assert_eq!((of("EBSReadOps"), of("EBSIOBalance%"), of("EBSByteBalance%")), (Some(12_000.0), Some(12.5), None));
        // 31 of 60 s are more than half.
        assert_eq!((of("InstanceEBSIOPSExceededCheck"), of("InstanceEBSThroughputExceededCheck")), (Some(1.0), Some(0.0)));
        assert_eq!(INSTANCE_METRICS[0].value(&[]), None);
    }
}
