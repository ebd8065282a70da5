//! Result of a simulation: a row per interval and a summary.

use headrace_model::Cap;
use serde::Serialize;

/// Bytes of a MiB.
pub(crate) const MIB: f64 = 1_048_576.0;

/// One interval of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunRow {
    /// Start, s.
    pub t_s: f64,
    /// Length, s.
    pub duration_s: f64,
    /// Requests a second that came.
    pub asked_iops: f64,
    /// MiB/s that came.
    pub asked_mib_s: f64,
    /// Requests a second answered.
    pub iops: f64,
    /// MiB/s answered.
    pub mib_s: f64,
    /// Requests not yet answered at the end of the interval (in the per-I/O form: with those in
    /// service).
    pub queue: f64,
    /// Lowest credit balance of the members at the end, percent; none for types without credits.
    pub balance_percent: Option<f64>,
    /// Instance burst bucket for I/Os at the end, percent.
    pub instance_io_balance_percent: Option<f64>,
    /// Instance burst bucket for bytes at the end, percent.
    pub instance_byte_balance_percent: Option<f64>,
    /// The limit that made requests wait longest in this interval.
    pub cap: Cap,
    /// Time in which requests waited for a limit, s.
    pub throttled_s: f64,
    /// Mean latency of the requests answered, waiting included, ms.
    pub mean_ms: Option<f64>,
    /// Percentiles of the same, ms.
    pub p50_ms: Option<f64>,
    /// 95th percentile, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile, ms.
    pub p999_ms: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Length, s.
    pub seconds: f64,
    /// Requests that came.
    pub asked_ios: f64,
    /// Requests served; those answered with an error (`failed_ios`) are not.
    pub delivered_ios: f64,
    /// Bytes served.
    pub delivered_bytes: f64,
    /// Time in which requests waited for a limit, s.
    pub throttled_s: f64,
    /// Throttled seconds by the limit that was to blame.
    pub throttled_by_s: Vec<(Cap, f64)>,
    /// Most requests waiting at once, and when, s.
    pub peak_queue: f64,
    /// When that was, s.
    pub peak_queue_at_s: Option<f64>,
    /// Longest wait for a limit, s.
    pub longest_wait_s: f64,
    /// When the last backlog was worked off, s; none: it was still there at the end, or there was
    /// none.
    pub recovered_at_s: Option<f64>,
    /// Requests still waiting at the end.
    pub queue_at_end: f64,
    /// Lowest credit balance, percent.
    pub lowest_balance_percent: Option<f64>,
    /// When that was, s.
    pub lowest_balance_at_s: Option<f64>,
    /// First moment at which the volume's credits were gone, s.
    pub credits_empty_at_s: Option<f64>,
    /// Time for which credits were gone in all, s.
    pub credits_empty_s: f64,
    /// Lowest instance burst balance (the lower of I/Os and bytes), percent.
    pub lowest_instance_balance_percent: Option<f64>,
    /// First moment at which the instance's burst bucket was empty, s.
    pub instance_empty_at_s: Option<f64>,
    /// Time for which it was empty in all, s.
    pub instance_empty_s: f64,
    /// Mean latency over all requests, ms.
    pub mean_ms: f64,
    /// Median, ms; none where the form does not know it.
    pub p50_ms: Option<f64>,
    /// 95th percentile, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile, ms.
    pub p999_ms: Option<f64>,
    /// Mean latency of the worst five minutes, ms; none where nothing was answered. Each of these
    /// five figures is the highest of any window of 300 s (a run shorter than that is one window);
    /// windows begin every minute.
    pub worst_mean_ms: Option<f64>,
    /// Highest median of a window, ms; none if the form does not know it.
    pub worst_p50_ms: Option<f64>,
    /// Highest 95th percentile of a window, ms.
    pub worst_p95_ms: Option<f64>,
    /// Highest 99th percentile of a window, ms.
    pub worst_p99_ms: Option<f64>,
    /// Highest 99.9th percentile of a window, ms.
    pub worst_p999_ms: Option<f64>,
    /// Start of the window with the highest 99th percentile, s; none where no request waited,
    /// because all windows are alike then.
    pub worst_at_s: Option<f64>,
    /// The five figures before in an unlucky run, if requests wait in clumps near a cap and runs
    /// differ by chance; none elsewhere, and in the per-I/O form, which is one run.
    pub unlucky: Option<UnluckyRun>,
    /// Requests answered with an error (a lost array).
    pub failed_ios: f64,
    /// From when on the array is lost, and with it all data, s: it serves nothing from then on.
    /// None: it is not.
    pub lost_at_s: Option<f64>,
}

/// Latency of the worst five minutes in the unluckiest of the 64 runs that the interval form
/// follows near a cap, ms: one run in 64 is as bad or worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UnluckyRun {
    /// Mean.
    pub worst_mean_ms: f64,
    /// Median.
    pub worst_p50_ms: f64,
    /// 95th percentile.
    pub worst_p95_ms: f64,
    /// 99th percentile.
    pub worst_p99_ms: f64,
    /// 99.9th percentile.
    pub worst_p999_ms: f64,
}

impl UnluckyRun {
    pub(crate) fn new(worst_mean_ms: f64, [worst_p50_ms, worst_p95_ms, worst_p99_ms, worst_p999_ms]: [f64; 4]) -> UnluckyRun {
        UnluckyRun { worst_mean_ms, worst_p50_ms, worst_p95_ms, worst_p99_ms, worst_p999_ms }
    }
}

/// Rows and summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// The rows, in order of time.
    pub rows: Vec<RunRow>,
    /// Over all rows.
    pub summary: Summary,
}

impl Summary {
    /// Returns the 99th percentile of the worst five minutes that a recommendation is judged by,
    /// ms: near a cap that of the unluckiest run, elsewhere that of the report.
    pub fn judged_p99_ms(&self) -> Option<f64> {
        self.unlucky.map_or(self.worst_p99_ms, |unlucky| Some(unlucky.worst_p99_ms))
    }

    /// Lowers the lowest credit balance to `percent` at `at_s`, if that is lower.
    pub(crate) fn see_balance(&mut self, at_s: f64, percent: Option<f64>) {
        if let Some(percent) = percent {
            if self.lowest_balance_percent.is_none_or(|lowest| percent < lowest) {
                self.lowest_balance_percent = Some(percent);
                self.lowest_balance_at_s = Some(at_s);
            }
        }
    }

    /// Lowers the lowest balance of the instance to those of I/Os and bytes, percent, if one is
    /// lower.
    pub(crate) fn see_instance_balance(&mut self, percents: [Option<f64>; 2]) {
        for percent in percents.into_iter().flatten() {
            let lowest = self.lowest_instance_balance_percent.get_or_insert(percent);
            *lowest = lowest.min(percent);
        }
    }

    /// Notes time spent waiting for `cap` from `at_s` on.
    pub(crate) fn see_throttled(&mut self, cap: Cap, at_s: f64, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        self.throttled_s += seconds;
        match self.throttled_by_s.iter_mut().find(|(entry, _)| *entry == cap) {
            Some((_, total)) => *total += seconds,
            None => self.throttled_by_s.push((cap, seconds)),
        }
        match cap {
            Cap::VolumeCredits => {
                self.credits_empty_s += seconds;
                self.credits_empty_at_s.get_or_insert(at_s);
            }
            Cap::InstanceCredits => {
                self.instance_empty_s += seconds;
                self.instance_empty_at_s.get_or_insert(at_s);
            }
            _ => {}
        }
    }
}
