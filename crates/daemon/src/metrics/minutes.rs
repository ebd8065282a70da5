//! Rows of minutes as the metrics of CloudWatch see them.
//!
//! Rows stand on the wall clock, whatever the speed of lab time: requests and credits run in real
//! time, and a minute of CloudWatch is a minute of the requests it counts.

use super::row::Row;
use headrace_catalog::{VolumeLimits, VolumeType};
use headrace_cloudwatch::ebs::{Minute, VolumeFacts};

/// A minute, us.
const MINUTE_US: u64 = 60_000_000;

/// Returns CloudWatch's view of a minute, from its row.
pub fn minute_of(row: &Row) -> Minute {
    // Rows end some milliseconds after their second, so sixty of them may span more than a minute.
    let span_us = row.span_us.min(MINUTE_US);
    Minute {
        t_s: row.t_s as i64,
        span_us,
        ops: [row.reads, row.writes],
        bytes: [row.read_bytes, row.write_bytes],
        time_us: [row.read_time_us, row.write_time_us],
        consumed_ops: row.consumed_ops,
        idle_us: row.idle_percent.unwrap_or(0.0) / 100.0 * span_us as f64,
        queue_mean: row.queue_mean.unwrap_or(0.0),
        queue_max: row.queue_max,
        balance_percent: row.balance_percent,
        volume_exceeded_us: [row.volume_iops_exceeded_us, row.volume_throughput_exceeded_us],
        instance_exceeded_us: [row.instance_iops_exceeded_us, row.instance_throughput_exceeded_us],
        instance_balance_percent: [row.instance_ios_balance_percent, row.instance_bytes_balance_percent],
    }
}

/// Returns the facts that decide which metrics a volume with these limits has. Only io1 and io2
/// count as provisioned here: the metrics of provisioned operations are not published for gp3. A
/// type with credits whose baseline reaches its burst has none in the model, and on an instance of
/// the Nitro System it publishes no BurstBalance (EBS user guide).
pub fn facts_of(limits: &VolumeLimits) -> VolumeFacts {
    let volume_type = limits.spec.volume_type;
    VolumeFacts {
        provisioned_iops: matches!(volume_type, VolumeType::Io1 | VolumeType::Io2).then_some(limits.iops),
        bursts: limits.io_burst.is_some() || limits.byte_burst.is_some(),
        is_magnetic: volume_type == VolumeType::Standard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headrace_catalog::{Catalog, StorageSpec};
    use headrace_cloudwatch::ebs::VOLUME_METRICS;

    fn names(spec: &str) -> Vec<&'static str> {
        let catalog = Catalog::embedded();
        let spec: StorageSpec = spec.parse().unwrap();
        let limits = catalog.volume_limits(&spec.members[0], catalog.newest_date(), None).unwrap();
        let facts = facts_of(&limits);
        VOLUME_METRICS.iter().filter(|metric| metric.is_of(&facts)).map(|metric| metric.name).collect()
    }

    #[test]
    fn metrics_are_those_of_the_type() {
        let has = |spec: &str, name: &str| names(spec).contains(&name);
        for (spec, bursts, provisioned) in [
            ("gp2:500", true, false),
            // 3,000 IOPS without credits: the baseline reaches the burst.
            ("gp2:1000", false, false),
            ("gp3:500", false, false),
            ("io1:500:5000", false, true),
            ("io2:500:5000", false, true),
            ("st1:500", true, false),
            // From 12.5 TiB on, 40 MiB/s per TiB reach the burst of 500 MiB/s.
            ("st1:16384", false, false),
            ("sc1:500", true, false),
            ("standard:500", false, false),
        ] {
            assert_eq!(has(spec, "BurstBalance"), bursts, "{spec}");
            assert_eq!(has(spec, "VolumeThroughputPercentage"), provisioned, "{spec}");
            assert_eq!(has(spec, "VolumeConsumedReadWriteOps"), provisioned, "{spec}");
            assert_eq!(has(spec, "VolumeIOPSExceededCheck"), !spec.starts_with("standard"), "{spec}");
            assert!(has(spec, "VolumeReadOps"), "{spec}");
        }
    }
}
