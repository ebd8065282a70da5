//! Turns answered requests into rows and a summary.

use crate::demand::windows::{SLOT_S, WINDOW_S};
use crate::report::{Run, RunRow, Summary, MIB};
use hdrhistogram::Histogram;
use headrace_model::{Cap, Decision, Host, Nanos, Verdict};
use std::collections::VecDeque;

/// Latencies are kept from 1 us to a day with three significant digits: an error of at most 0.1 %,
/// or half a microsecond.
const LOWEST_NS: u64 = 1_000;
const HIGHEST_NS: u64 = 86_400_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Length of a slot of the worst five minutes.
const SLOT: Nanos = Nanos::from_secs(SLOT_S as u64);

/// Makes an empty histogram of latencies, ns.
fn new_histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds are valid")
}

/// One request from arrival to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub arrived: Nanos,
    pub bytes: u32,
    pub decision: Decision,
}

pub(crate) struct RunRecorder {
    interval: Nanos,
    end: Nanos,
    row_end: Nanos,
    rows: Vec<RunRow>,
    row: RowCounts,
    summary: Summary,
    all: Histogram<u64>,
    windows: Windows,
    waited_until: Nanos,
    now: Nanos,
    in_flight: u64,
}

/// The worst five minutes: the last five minutes' answers, minute by minute.
struct Windows {
    slot: Histogram<u32>,
    slot_start: Nanos,
    slot_end: Nanos,
    /// Start, length and answers of the slots before.
    past: VecDeque<(Nanos, Nanos, Histogram<u32>)>,
    /// A window was compared with the worst so far.
    is_judged: bool,
    /// A request waited for a limit of the storage: only then the worst window has a time.
    was_limited: bool,
}

impl Windows {
    /// Starts at 0 s in a run that ends at `end`.
    fn new(end: Nanos) -> Windows {
        Windows { slot: new_histogram(), slot_start: Nanos::ZERO, slot_end: SLOT.min(end), past: VecDeque::new(), is_judged: false, was_limited: false }
    }

    /// Closes every slot that ends by `now`.
    fn reach(&mut self, now: Nanos, end: Nanos, summary: &mut Summary) {
        while self.slot_end <= now && self.slot_start < end {
            let length = self.slot_end - self.slot_start;
            let past_ns: u64 = self.past.iter().map(|(_, length, _)| length.0).sum();
            let mut fresh = None;
            while self.past.len() as f64 * SLOT_S >= WINDOW_S {
                fresh = self.past.pop_front().map(|(_, _, slot)| slot);
            }
            let mut fresh = fresh.unwrap_or_else(new_histogram);
            fresh.reset();
            self.past.push_back((self.slot_start, length, std::mem::replace(&mut self.slot, fresh)));
            // Five minutes, or the whole of a shorter run; a last slot of less than a minute is
            // looked at together with the five before it.
            if (past_ns + length.0) as f64 >= WINDOW_S * 1e9 || (self.slot_end == end && !self.is_judged) {
                self.raise_worst(summary);
            }
            self.slot_start = self.slot_end;
            self.slot_end = (self.slot_end + SLOT).min(end);
        }
    }

    /// Raises the worst figures of the summary, ms, to those of the window that ends now, where
    /// they are higher.
    fn raise_worst(&mut self, summary: &mut Summary) {
        self.is_judged = true;
        let Some(&(start, _, _)) = self.past.front() else { return };
        let mut answers = new_histogram();
        for (_, _, slot) in &self.past {
            answers.add(slot).expect("the bounds are the same");
        }
        if answers.is_empty() {
            return;
        }
        let ms = |q: f64| answers.value_at_quantile(q) as f64 / 1e6;
        if self.was_limited && summary.worst_p99_ms.is_none_or(|worst| ms(0.99) > worst) {
            summary.worst_at_s = Some(start.as_secs_f64());
        }
        let raise = |worst: &mut Option<f64>, value: f64| *worst = Some(worst.map_or(value, |worst| worst.max(value)));
        raise(&mut summary.worst_mean_ms, answers.mean() / 1e6);
        raise(&mut summary.worst_p50_ms, ms(0.5));
        raise(&mut summary.worst_p95_ms, ms(0.95));
        raise(&mut summary.worst_p99_ms, ms(0.99));
        raise(&mut summary.worst_p999_ms, ms(0.999));
    }
}

#[derive(Default)]
/// Counts of the row at hand; times in ns.
struct RowCounts {
    requests: u64,
    asked_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    throttled: u64,
    waits: [u64; Cap::ALL.len()],
    latencies: Option<Histogram<u32>>,
}

impl RunRecorder {
    /// Starts a run that ends at `end`, with a row for each `interval`.
    pub fn new(interval: Nanos, end: Nanos) -> RunRecorder {
        let all = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds are valid");
        let row = RowCounts { latencies: Some(new_histogram()), ..RowCounts::default() };
        let summary = Summary { seconds: end.as_secs_f64(), ..Summary::default() };
        RunRecorder {
            interval,
            end,
            row_end: interval.min(end),
            rows: Vec::new(),
            row,
            summary,
            all,
            windows: Windows::new(end),
            waited_until: Nanos::ZERO,
            now: Nanos::ZERO,
            in_flight: 0,
        }
    }

    /// Notes that a request came. Call in order of time, after [`RunRecorder::reach`].
    pub fn note_arrival(&mut self, bytes: u32) {
        self.row.requests += 1;
        self.row.asked_bytes += u64::from(bytes);
        self.in_flight += 1;
        if self.in_flight as f64 > self.summary.peak_queue {
            (self.summary.peak_queue, self.summary.peak_queue_at_s) = (self.in_flight as f64, Some(self.now.as_secs_f64()));
        }
    }

    /// Notes the storage's decision on a request; `arrived` is earlier than the decision where the
    /// request waited in the host.
    pub fn note_decision(&mut self, arrived: Nanos, decision: &Decision) {
        let wait = decision.start.since(arrived);
        if wait == Nanos::ZERO || decision.cap == Cap::None {
            return;
        }
        self.windows.was_limited = true;
        self.row.waits[decision.cap as usize] += wait.0;
        self.summary.longest_wait_s = self.summary.longest_wait_s.max(wait.as_secs_f64());
        let from = arrived.max(self.waited_until);
        let until = decision.start.min(self.end);
        if until > from {
            self.waited_until = until;
            self.row.throttled += (until - from).0;
            self.summary.see_throttled(decision.cap, from.as_secs_f64(), (until - from).as_secs_f64());
        }
    }

    /// Notes that a request was answered. Call in order of completion.
    pub fn note_answer(&mut self, done: &Answered) {
        self.in_flight -= 1;
        if done.decision.verdict == Verdict::Failed {
            self.summary.failed_ios += 1.0;
            self.summary.lost_at_s.get_or_insert(done.arrived.as_secs_f64());
            return;
        }
        let latency = done.decision.complete.since(done.arrived).0;
        self.row.delivered += 1;
        self.row.delivered_bytes += u64::from(done.bytes);
        if let Some(latencies) = &mut self.row.latencies {
            latencies.saturating_record(latency);
        }
        self.all.saturating_record(latency);
        self.windows.slot.saturating_record(latency);
    }

    /// Returns the start of the row at hand.
    fn row_start(&self) -> Nanos {
        Nanos(self.rows.len() as u64 * self.interval.0)
    }

    /// Closes every row that ends by `now`.
    #[inline]
    pub fn reach(&mut self, now: Nanos, host: &Host) {
        self.now = now;
        while self.row_end <= now && self.row_start() < self.end {
            self.close_row(host);
        }
        if self.windows.slot_end <= now {
            self.windows.reach(now, self.end, &mut self.summary);
        }
    }

    /// Ends the row at hand, adds it to the rows and the summary, and begins the next.
    fn close_row(&mut self, host: &Host) {
        let start = self.row_start();
        let seconds = (self.row_end - start).as_secs_f64();
        let end_s = self.row_end.as_secs_f64();
        let counts = &self.row;
        let balances = host.instance.as_ref().map(|instance| instance.balances(self.row_end)).unwrap_or_default();
        let worst = (0..counts.waits.len()).max_by_key(|&i| counts.waits[i]).filter(|&i| counts.waits[i] > 0);
        let latencies = counts.latencies.as_ref().filter(|latencies| !latencies.is_empty());
        let percentile = |q: f64| latencies.map(|latencies| latencies.value_at_quantile(q) as f64 / 1e6);
        let row = RunRow {
            t_s: start.as_secs_f64(),
            duration_s: seconds,
            asked_iops: counts.requests as f64 / seconds,
            asked_mib_s: counts.asked_bytes as f64 / seconds / MIB,
            iops: counts.delivered as f64 / seconds,
            mib_s: counts.delivered_bytes as f64 / seconds / MIB,
            queue: self.in_flight as f64,
            balance_percent: host.lowest_balance_percent(0, self.row_end),
            instance_io_balance_percent: balances.ios.map(|balance| balance.percent()),
            instance_byte_balance_percent: balances.bytes.map(|balance| balance.percent()),
            cap: worst.map_or(Cap::None, |i| Cap::ALL[i]),
            throttled_s: (counts.throttled as f64 / 1e9).min(seconds),
            mean_ms: latencies.map(|latencies| latencies.mean() / 1e6),
            p50_ms: percentile(0.5),
            p95_ms: percentile(0.95),
            p99_ms: percentile(0.99),
            p999_ms: percentile(0.999),
        };
        self.summarise(&row, end_s);
        self.rows.push(row);
        let mut latencies = self.row.latencies.take().unwrap_or_else(new_histogram);
        latencies.reset();
        self.row = RowCounts { latencies: Some(latencies), ..RowCounts::default() };
        self.row_end = (self.row_end + self.interval).min(self.end);
    }

    /// Adds a row that ends at `end_s` to the summary: requests, bytes, balances, and when
    /// throttling was over.
    fn summarise(&mut self, row: &RunRow, end_s: f64) {
        let summary = &mut self.summary;
        summary.asked_ios += self.row.requests as f64;
        summary.delivered_ios += self.row.delivered as f64;
        summary.delivered_bytes += self.row.delivered_bytes as f64;
        summary.see_balance(end_s, row.balance_percent);
        summary.see_instance_balance([row.instance_io_balance_percent, row.instance_byte_balance_percent]);
        if row.throttled_s > 0.0 {
            // Requests in flight at the end of a row were let go long ago unless the row was
            // throttled throughout.
            let over = row.throttled_s < row.duration_s * 0.999 && self.waited_until < self.row_end;
            summary.recovered_at_s = over.then_some(self.waited_until.as_secs_f64().min(end_s));
        }
        summary.queue_at_end = row.queue;
    }

    /// Closes the last rows and returns them with the summary of the run.
    pub fn finish(mut self, host: &Host) -> Run {
        self.reach(self.end, host);
        let ms = |ns: u64| ns as f64 / 1e6;
        if !self.all.is_empty() {
            self.summary.mean_ms = self.all.mean() / 1e6;
            self.summary.p50_ms = Some(ms(self.all.value_at_quantile(0.5)));
            self.summary.p95_ms = Some(ms(self.all.value_at_quantile(0.95)));
            self.summary.p99_ms = Some(ms(self.all.value_at_quantile(0.99)));
            self.summary.p999_ms = Some(ms(self.all.value_at_quantile(0.999)));
        }
        Run { rows: self.rows, summary: self.summary }
    }
}
