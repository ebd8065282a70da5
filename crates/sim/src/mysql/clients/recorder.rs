//! Rows and the summary of the per-I/O form.

use super::background::RUN;
use crate::mysql::interval::{Binding, Second};
use crate::report::MIB;
use hdrhistogram::Histogram;
use headrace_model::{Cap, Decision, Host, Nanos};
use serde::Serialize;

/// Response times from 1 us to a day with three significant digits: an error of at most 0.1 %.
const BOUNDS: (u64, u64, u8) = (1_000, 86_400_000_000_000, 3);

/// Quantiles of response times that are told.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientsSummary {
    /// Length, s.
    pub seconds: f64,
    /// Transactions answered.
    pub transactions: u64,
    /// Mean response time, ms; in an open load from arrival on.
    pub mean_ms: f64,
    /// Percentiles of the same, ms (HDR histogram, three digits).
    pub p50_ms: f64,
    /// 95th percentile, ms.
    pub p95_ms: f64,
    /// 99th percentile, ms.
    pub p99_ms: f64,
    /// Requests answered by the data device.
    pub data_ios: u64,
    /// Requests answered by the log's own device.
    pub log_ios: u64,
    /// Reads of single pages among them.
    pub page_reads: u64,
    /// Read-ahead runs.
    pub read_ahead_runs: u64,
    /// Pages written in place.
    pub pages_written: u64,
    /// Runs to the doublewrite area.
    pub doublewrite_runs: u64,
    /// Synchronous log writes.
    pub log_syncs: u64,
    /// Log writes that no transaction waited for.
    pub log_runs: u64,
    /// Runs read and written by compaction.
    pub compaction_ios: u64,
    /// Pages handed to the cleaner.
    pub pages_owed: u64,
    /// Most it was behind, pages.
    pub most_pages_behind: u64,
    /// Time clients waited for the cleaner or the log buffer, s, summed over clients.
    pub stalled_s: f64,
    /// The cap that I/Os waited for most; `Demand` when none waited.
    #[serde(skip)]
    pub cap: Binding,
    /// Waits of I/Os by cap, s, summed over I/Os: longest first.
    #[serde(skip)]
    pub waited_s: Vec<(Binding, f64)>,
}

/// Rows and summary.
#[derive(Clone, Debug, Default)]
pub struct ClientsRun {
    /// One per step, in order.
    pub rows: Vec<Second>,
    /// Over all of them.
    pub summary: ClientsSummary,
}

/// I/Os' waits by device (data, log) and cap, ns.
type Waits = [[u64; Cap::ALL.len()]; 2];

/// Counters of one row.
#[derive(Default)]
struct Counts {
    answered: u64,
    reads: u64,
    units: u64,
    bytes: u64,
    waits: Waits,
    /// Times of transactions, ns: waiting for I/O to start (or for room), for a processor, for the
    /// serial resource, and all their time.
    io_wait: u64,
    cpu_wait: u64,
    serial_wait: u64,
    spent: u64,
}

/// Counts, row by row.
pub(super) struct ClientsRecorder {
    pub rows: Vec<Second>,
    pub summary: ClientsSummary,
    row: Counts,
    of_row: Histogram<u32>,
    of_all: Histogram<u64>,
    waits: Waits,
    /// Waiting above this share of the rest of a transaction's time binds: where the interval
    /// form's limits cross.
    binds_from: f64,
}

/// The state of a run that a row shows in addition to its counts.
pub(super) struct RowState {
    /// Length of the row, s.
    pub seconds: f64,
    pub open: bool,
    pub backlog: f64,
    pub cached_share: f64,
    pub dirty_share: f64,
    /// Pages written back per transaction by the curve.
    pub written_per_tx: f64,
    /// Reads per transaction of the cache curve, for rows without a transaction.
    pub curve_reads: f64,
    pub compacting: bool,
    /// Share of the row in which clients waited for a synchronous flush.
    pub stopped_share: f64,
    /// Arrival of the oldest transaction not answered.
    pub oldest: Option<Nanos>,
}

impl ClientsRecorder {
    /// Starts the counts of a run of `seconds`; `sharpness`: see
    /// [`super::super::database::Clients::sharpness`].
    pub fn new(seconds: f64, sharpness: f64) -> ClientsRecorder {
        let (low, high, digits) = BOUNDS;
        ClientsRecorder {
            rows: Vec::new(),
            summary: ClientsSummary { seconds, ..ClientsSummary::default() },
            row: Counts::default(),
            of_row: Histogram::new_with_bounds(low, high, digits).expect("constant bounds are valid"),
            of_all: Histogram::new_with_bounds(low, high, digits).expect("constant bounds are valid"),
            waits: Waits::default(),
            binds_from: libm::exp2(1.0 / sharpness) - 1.0,
        }
    }

    /// Notes that a request was handed to a device; `waiting` transactions wait for it.
    #[inline]
    pub fn note_decision(&mut self, device: usize, now: Nanos, decision: &Decision, waiting: u64) {
        if decision.cap != Cap::None {
            let wait = decision.start.since(now).0;
            self.row.waits[device][decision.cap as usize] += wait;
            self.row.io_wait += wait * waiting;
        }
    }

    /// Notes that a device (0: data) answered a request of `bytes`.
    #[inline]
    pub fn note_io_answer(&mut self, device: usize, bytes: u32) {
        self.row.units += u64::from(bytes.div_ceil(RUN));
        self.row.bytes += u64::from(bytes);
        *(if device == 0 { &mut self.summary.data_ios } else { &mut self.summary.log_ios }) += 1;
    }

    /// Notes that a transaction waited for a processor.
    pub fn note_processor_wait(&mut self, wait: Nanos) {
        self.row.cpu_wait += wait.0;
    }

    /// Notes that a transaction waited for others in the serial resource, or for a row.
    pub fn note_serial_wait(&mut self, wait: Nanos) {
        self.row.serial_wait += wait.0;
    }

    /// Notes that a transaction waited for the cleaner or the log buffer.
    pub fn note_stall(&mut self, wait: Nanos) {
        self.row.io_wait += wait.0;
        self.summary.stalled_s += wait.as_secs_f64();
    }

    /// Notes that a transaction was answered.
    pub fn note_answer(&mut self, arrived: Nanos, begun: Nanos, now: Nanos, reads: u32) {
        let response = now.since(arrived).0;
        self.row.answered += 1;
        self.row.reads += u64::from(reads);
        self.row.spent += now.since(begun).0;
        self.of_row.saturating_record(response);
        self.of_all.saturating_record(response);
        self.summary.transactions += 1;
    }

    /// Returns the last row that was closed; None in the first.
    pub fn last_row(&self) -> Option<&Second> {
        self.rows.last()
    }

    /// Closes the row that ends at `end`.
    pub fn close_row(&mut self, end: Nanos, host: &Host, state: &RowState) {
        let row = std::mem::take(&mut self.row);
        let answered = row.answered as f64;
        let waited = (0..host.devices.len()).filter_map(|device| host.lowest_balance_percent(device, end));
        let balances = host.instance.as_ref().map(|instance| instance.balances(end)).unwrap_or_default();
        let instance = balances.ios.into_iter().chain(balances.bytes).map(|balance| balance.percent());
        // No transaction was answered: the oldest waits at least this long.
        let waited_ns = state.oldest.map_or(0, |arrived| end.since(arrived).0);
        let [p50_ms, p95_ms, p99_ms] =
            QUANTILES.map(|quantile| if row.answered > 0 { self.of_row.value_at_quantile(quantile) } else { waited_ns } as f64 / 1e6);
        self.rows.push(Second {
            t_s: end.as_secs_f64(),
            tps: answered / state.seconds,
            p50_ms,
            p95_ms,
            p99_ms,
            iops: row.units as f64 / state.seconds,
            mib_s: row.bytes as f64 / state.seconds / MIB,
            balance_percent: waited.min_by(f64::total_cmp),
            instance_balance_percent: instance.min_by(f64::total_cmp),
            binding: self.binding(&row, state.open),
            cached_share: state.cached_share,
            dirty_share: state.dirty_share,
            reads_per_tx: if row.answered > 0 { row.reads as f64 / answered } else { state.curve_reads },
            written_per_tx: state.written_per_tx,
            backlog: state.backlog,
            compacting: state.compacting,
            stopped_share: state.stopped_share,
        });
        self.of_row.reset();
        for (sum, waits) in self.waits.iter_mut().flatten().zip(row.waits.iter().flatten()) {
            *sum += waits;
        }
    }

    /// Returns the bottleneck of a row: the longest of its waits, if it is long next to the
    /// transactions' own time.
    fn binding(&self, row: &Counts, open: bool) -> Binding {
        let own = row.spent.saturating_sub(row.io_wait + row.cpu_wait + row.serial_wait) as f64;
        let on_server = row.cpu_wait.max(row.serial_wait);
        let most = row.io_wait.max(on_server) as f64;
        if most == 0.0 || most < self.binds_from * own {
            return if open { Binding::Demand } else { Binding::Clients };
        }
        let cap = by_cap(&row.waits).first().map(|(cap, _)| *cap);
        let of_server = if row.cpu_wait >= row.serial_wait { Binding::Cpu } else { Binding::Contention };
        cap.filter(|_| row.io_wait >= on_server).unwrap_or(of_server)
    }

    /// Returns the rows with the response times and waits of the whole run.
    pub fn finish(mut self) -> ClientsRun {
        let ms = |ns: u64| ns as f64 / 1e6;
        let summary = &mut self.summary;
        if !self.of_all.is_empty() {
            summary.mean_ms = self.of_all.mean() / 1e6;
            [summary.p50_ms, summary.p95_ms, summary.p99_ms] = QUANTILES.map(|q| ms(self.of_all.value_at_quantile(q)));
        }
        summary.waited_s = by_cap(&self.waits);
        summary.cap = summary.waited_s.first().map_or(Binding::Demand, |(cap, _)| *cap);
        ClientsRun { rows: self.rows, summary: self.summary }
    }
}

/// Returns the waits by cap, s, longest first.
fn by_cap(waits: &Waits) -> Vec<(Binding, f64)> {
    let binding = |device: usize, cap: Cap| if device == 0 { Binding::Data(cap) } else { Binding::Log(cap) };
    let all = (0..2).flat_map(|device| Cap::ALL.into_iter().map(move |cap| (binding(device, cap), waits[device][cap as usize] as f64 / 1e9)));
    let mut all: Vec<(Binding, f64)> = all.filter(|(_, seconds)| *seconds > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}
