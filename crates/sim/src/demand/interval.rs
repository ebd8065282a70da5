//! The per-interval form: hours, days and fleets in microseconds, on the buckets of
//! [`crate::demand::fluid`].
//!
//! A row per point of the demand. It adds to the buckets: latency (the waits of requests plus their
//! own distribution) and blocks that still lie in a snapshot, as a share of requests that need a
//! fetch.

use crate::demand::clumps::Clumps;
use crate::demand::fluid::{Fluid, Step};
use crate::demand::load::{ClosedLoad, OpenLoad, Point, MAX_ROWS};
use crate::demand::measure::{Measured, MeasuredLoad};
use crate::demand::mixture::{OwnLatency, Waits};
use crate::demand::windows::{pieces, BusySlots, Worst};
use crate::error::SimError;
use crate::report::{Run, RunRow, Summary, UnluckyRun, MIB};
use crate::setup::Setup;
use headrace_model::first_touch::{CHUNK_BYTES, DEFAULT_FETCH_BYTES_S, FETCH_MEAN_NS};
use headrace_model::Cap;

/// Runs an open load. Points longer than `interval_s` are cut into rows of that length.
pub fn open(setup: &Setup, load: &OpenLoad, interval_s: f64) -> Result<Run, SimError> {
    load.check()?;
    refuse_lost_members(setup)?;
    let load = cut(load, interval_s)?;
    let measured = measure(setup, &load);
    let own = OwnLatency::cached(&measured.latency_key(setup));
    let mut rows = Vec::with_capacity(load.points.len());
    let summary = Driver::new(setup, &measured, &own, true).cycle(&mut row_collector(&mut rows, &own));
    Ok(Run { rows, summary })
}

/// Runs a closed load for `seconds`: its clients ask as fast as own latency lets them, and wait
/// instead of piling up.
pub fn closed(setup: &Setup, load: &ClosedLoad, seconds: f64, interval_s: f64) -> Result<Run, SimError> {
    load.check()?;
    refuse_lost_members(setup)?;
    refuse_snapshot(setup)?;
    let read_share = load.rw.read_share(load.rwmixread);
    let sequential = f64::from(u8::from(load.rw.is_sequential()));
    let point = |iops: f64| Point {
        duration_s: seconds,
        reads_per_s: iops * read_share,
        writes_per_s: iops * (1.0 - read_share),
        read_bytes: load.block_bytes.into(),
        write_bytes: load.block_bytes.into(),
    };
    let load_at = |iops: f64| OpenLoad { sequential_read_share: sequential, sequential_write_share: sequential, ..OpenLoad::new(vec![point(iops)]) };
    let own = OwnLatency::new(&measure(setup, &load_at(1.0)).latency_key(setup));
    let outstanding = f64::from(load.outstanding());
    let offered = outstanding / (own.mean_ms() / 1e3);
    let measured = measure(setup, &cut(&load_at(offered), interval_s)?);
    let mut rows = Vec::with_capacity(measured.points.len());
    let mut summary = Driver::new(setup, &measured, &own, false).cycle(&mut row_collector(&mut rows, &own));
    // Little's law: outstanding requests over delivered requests a second.
    let mean_ms = outstanding / (summary.delivered_ios / summary.seconds).max(1e-9) * 1e3;
    for row in &mut rows {
        (row.asked_iops, row.asked_mib_s, row.queue) = (row.iops, row.mib_s, outstanding);
        row.mean_ms = (row.iops > 0.0).then(|| outstanding / row.iops * 1e3);
        (row.p50_ms, row.p95_ms, row.p99_ms, row.p999_ms) = (None, None, None, None);
        if row.cap == Cap::None {
            row.cap = Cap::Clients;
        }
    }
    summary.asked_ios = summary.delivered_ios;
    summary.mean_ms = mean_ms;
    (summary.p50_ms, summary.p95_ms, summary.p99_ms, summary.p999_ms) = (None, None, None, None);
    (summary.worst_p50_ms, summary.worst_p95_ms, summary.worst_p99_ms, summary.worst_p999_ms) = (None, None, None, None);
    (summary.worst_mean_ms, summary.worst_at_s) = slowest(&measured, &rows, outstanding);
    (summary.peak_queue, summary.queue_at_end) = (outstanding, outstanding);
    Ok(Run { rows, summary })
}

/// Computes only the summary of an open load that is measured and whose own latency is known. This
/// is the planner's inner loop.
pub fn summarise(setup: &Setup, measured: &MeasuredLoad, own: &OwnLatency) -> Summary {
    Driver::new(setup, measured, own, true).cycle(&mut |_, _, _, _, _| {})
}

/// Returns the highest mean latency of any five minutes of a closed load (Little's law), ms, and
/// their begin, s.
fn slowest(measured: &MeasuredLoad, rows: &[RunRow], outstanding: f64) -> (Option<f64>, Option<f64>) {
    let mut worst: Option<(f64, f64)> = None;
    for (from, until) in measured.slots().spans() {
        let inside = rows.iter().filter(|row| row.t_s + 0.5 * row.duration_s >= from && row.t_s + 0.5 * row.duration_s < until);
        let (delivered, seconds) = inside.fold((0.0, 0.0), |sum, row| (sum.0 + row.iops * row.duration_s, sum.1 + row.duration_s));
        let mean_ms = outstanding * seconds / delivered * 1e3;
        if delivered > 0.0 && worst.is_none_or(|(most, _)| mean_ms > most) {
            worst = Some((mean_ms, from));
        }
    }
    worst.unzip()
}

/// Measures a load for the accounting of a storage.
pub fn measure(setup: &Setup, load: &OpenLoad) -> MeasuredLoad {
    let chunk = setup.storage.raid.map(|_| setup.storage.chunk_kib as f64 * 1_024.0);
    let hdd = setup.limits.iter().find(|limits| limits.random_charges_full_unit);
    MeasuredLoad::new(load, chunk, hdd)
}

/// Refuses a storage that has lost a member.
fn refuse_lost_members(setup: &Setup) -> Result<(), SimError> {
    match setup.failed_members.first() {
        None => Ok(()),
        Some(member) => {
            let rule = "needs the per-I/O form: the interval form does not know which requests meet it";
            Err(SimError::refused("lost member", member, rule, "Ask for the per-I/O form (events)."))
        }
    }
}

/// Refuses a storage that is made from a snapshot.
fn refuse_snapshot(setup: &Setup) -> Result<(), SimError> {
    match setup.snapshot {
        None => Ok(()),
        Some(origin) => {
            let rule = "needs the per-I/O form for a closed load: its clients wait for each fetch";
            Err(SimError::refused("snapshot (bytes)", origin.written_bytes, rule, "Ask for the per-I/O form (events)."))
        }
    }
}

/// Cuts points longer than `interval_s` into rows of that length.
pub(crate) fn cut(load: &OpenLoad, interval_s: f64) -> Result<OpenLoad, SimError> {
    if !(interval_s >= 1e-3 && interval_s.is_finite()) {
        return Err(SimError::refused("interval of the rows (s)", interval_s, "must be at least 0.001", "Give 0.001 or more."));
    }
    let mut points = Vec::with_capacity(load.points.len());
    for point in &load.points {
        let pieces = (point.duration_s / interval_s - 1e-9).ceil().max(1.0);
        if points.len() as f64 + pieces > MAX_ROWS {
            return Err(SimError::refused("interval of the rows (s)", interval_s, "gives more than 10 million rows", "Use a longer interval."));
        }
        for piece in 0..pieces as u64 {
            let rest_s = point.duration_s - piece as f64 * interval_s;
            points.push(Point { duration_s: rest_s.min(interval_s), ..*point });
        }
    }
    Ok(OpenLoad { points, ..load.clone() })
}

/// Blocks still in a snapshot, for random requests: the share of requests that meet one, and the
/// fetches that wait for the service's rate.
struct Cold {
    cold_bytes: f64,
    span_bytes: f64,
    background_bytes_s: f64,
    fetch_bytes_s: f64,
    queued_bytes: f64,
}

/// Steps of a point in which its first touches are counted, at most, and steps in the time in which
/// the cold share falls to 1/e (guesses: 1/8 of it changes the share by an eighth at most).
const COLD_STEPS: f64 = 1_000.0;
const STEPS_PER_DECAY: f64 = 8.0;

impl Cold {
    /// Returns the state in which no block is loaded yet, with the rates of all members together;
    /// None for a storage that is not made from a snapshot. `span_bytes`: of the load, 0 for all.
    fn new(setup: &Setup, span_bytes: u64) -> Option<Cold> {
        let origin = setup.snapshot.as_ref()?;
        let members = setup.data_members() as f64;
        let span_bytes = setup.span_bytes(span_bytes) as f64;
        let bought = origin.initialization_bytes_s.map(|rate| rate as f64 * members);
        Some(Cold {
            cold_bytes: (origin.written_bytes as f64).min(span_bytes),
            span_bytes,
            background_bytes_s: bought.unwrap_or(0.0),
            fetch_bytes_s: bought.unwrap_or(DEFAULT_FETCH_BYTES_S as f64 * members),
            queued_bytes: 0.0,
        })
    }

    /// Touches blocks with `requests` of `bytes` each in `seconds`; notes the waits of those that
    /// met a cold one. Returns their number and mean wait, ms.
    ///
    /// Random touches leave exp(-touches / blocks) of the blocks cold. A fetch waits for those
    /// before it, at the service's rate, and for its own latency.
    fn touch(&mut self, requests: f64, bytes: f64, seconds: f64, waits: &mut Waits) -> (f64, f64) {
        let touched_bytes_s = requests * bytes.max(CHUNK_BYTES as f64) / seconds;
        let steps = (STEPS_PER_DECAY * touched_bytes_s * seconds / self.span_bytes).ceil().clamp(1.0, COLD_STEPS);
        let step_s = seconds / steps;
        let fetched_share = -libm::expm1(-touched_bytes_s * step_s / self.span_bytes);
        let (mut cold_requests, mut wait_sum_ms) = (0.0, 0.0);
        for _ in 0..steps as u64 {
            if self.cold_bytes <= 0.0 {
                self.queued_bytes = (self.queued_bytes - self.fetch_bytes_s * step_s).max(0.0);
                continue;
            }
            let fetched = self.cold_bytes * fetched_share;
            let queued_after = (self.queued_bytes + fetched - self.fetch_bytes_s * step_s).max(0.0);
            let wait_ms = FETCH_MEAN_NS / 1e6 + 1e3 * 0.5 * (self.queued_bytes + queued_after) / self.fetch_bytes_s;
            let touching = fetched / bytes.max(CHUNK_BYTES as f64);
            waits.delay(touching, wait_ms);
            cold_requests += touching;
            wait_sum_ms += touching * wait_ms;
            self.queued_bytes = queued_after;
            self.cold_bytes = (self.cold_bytes - fetched - self.background_bytes_s * step_s).max(0.0);
        }
        (cold_requests, wait_sum_ms / cold_requests.max(f64::MIN_POSITIVE))
    }
}

/// Called after each interval: its start (s), buckets, demand, outcome, and the requests that met
/// cold blocks with their delay, ms.
pub(crate) type Each<'a> = dyn FnMut(f64, &Fluid, &Measured, &Step, (f64, f64)) + 'a;

/// Takes a load through a storage's buckets, once or again and again.
pub(crate) struct Driver<'a> {
    setup: &'a Setup,
    measured: &'a MeasuredLoad,
    own: &'a OwnLatency,
    keep_queue: bool,
    /// Balances and backlog, as the last time left them.
    pub fluid: Fluid,
    /// The points at which something may happen though all buckets are full; none: any. The others
    /// are passed over while they are, and then do not count in sums of a summary.
    pub busy_points: Option<Vec<u32>>,
    /// A cycle ends where requests have waited for longer than this, s.
    pub stop_above_s: f64,
}

impl<'a> Driver<'a> {
    /// Makes a run at the storage's start. `keep_queue` lets requests pile up; without it they give
    /// up, as clients of a closed load that never sent them.
    pub fn new(setup: &'a Setup, measured: &'a MeasuredLoad, own: &'a OwnLatency, keep_queue: bool) -> Driver<'a> {
        let mut fluid = Fluid::new(setup);
        fluid.independent_arrivals = measured.independent_arrivals && keep_queue;
        fluid.foresee_backlog(measured);
        if !setup.has_events() {
            fluid.leave_out_idle_caps(measured);
        }
        Driver { setup, measured, own, keep_queue, fluid, busy_points: None, stop_above_s: f64::INFINITY }
    }

    /// Goes through the load once and returns its summary; `each` is called after each interval.
    pub fn cycle(&mut self, each: &mut Each<'_>) -> Summary {
        let mut summary = Summary::default();
        let (mut waits, mut busy, mut step) = (Waits::default(), Busy::default(), Step::default());
        let mut cold = Cold::new(self.setup, self.measured.span_bytes);
        let (mut t_s, mut next) = (0.0, 0);
        self.fluid.forget_extremes();
        let measured = self.measured;
        for (index, point) in measured.points.iter().enumerate() {
            if index < next {
                t_s += point.duration_s;
                continue;
            }
            self.fluid.top_up(t_s);
            next = self.rests_until(index);
            if index < next {
                t_s += point.duration_s;
                self.fluid.rest_until(t_s);
                continue;
            }
            step.clear();
            let pieces = pieces(point.duration_s);
            if pieces > 1 && (self.setup.has_events() || cold.is_some() || !self.fluid.is_calm(point)) {
                let piece = Measured { duration_s: point.duration_s / pieces as f64, ..*point };
                for part in 0..pieces {
                    self.part(&piece, t_s + part as f64 * piece.duration_s, (index, part), &mut waits, &mut step, &mut busy);
                }
            } else {
                self.part(point, t_s, (index, 0), &mut waits, &mut step, &mut busy);
            }
            let end_s = t_s + point.duration_s;
            summary.asked_ios += point.iops * point.duration_s;
            summary.delivered_ios += step.delivered;
            summary.delivered_bytes += step.delivered_bytes;
            let request_bytes = step.delivered_bytes / step.delivered.max(f64::MIN_POSITIVE);
            let touch = |cold: &mut Cold| cold.touch(step.delivered, request_bytes, point.duration_s, &mut waits);
            let cold_delay = cold.as_mut().map(touch).unwrap_or_default();
            if !step.stretches.is_empty() {
                note_throttled(&mut summary, &step, self.fluid.backlog(), end_s);
                if step.peak_queue > summary.peak_queue {
                    (summary.peak_queue, summary.peak_queue_at_s) = (step.peak_queue, Some(end_s));
                }
            }
            each(t_s, &self.fluid, point, &step, cold_delay);
            t_s = end_s;
            if summary.throttled_s > self.stop_above_s {
                break;
            }
        }
        summary.seconds = t_s;
        summary.queue_at_end = self.fluid.queue();
        (summary.lowest_balance_percent, summary.lowest_balance_at_s) = self.fluid.lowest(Cap::VolumeCredits).unzip();
        summary.lowest_instance_balance_percent = self.fluid.lowest(Cap::InstanceCredits).map(|(percent, _)| percent);
        self.note_latency(&mut summary, &waits, &busy);
        summary
    }

    /// Returns the point up to which no request waits from `index` on: all buckets are full, and no
    /// limit is near.
    fn rests_until(&self, index: usize) -> usize {
        let Some(busy) = &self.busy_points else { return index };
        let next = busy.partition_point(|&at| (at as usize) < index);
        let until = busy.get(next).map_or(self.measured.points.len(), |&at| at as usize);
        if until > index && self.fluid.is_at_rest() {
            until
        } else {
            index
        }
    }

    /// Simulates the `piece`-th part of point `index`, which begins at `t_s` and lies in a single
    /// slot; adds its outcome to `step` and its waits to `waits` and `busy`.
    #[inline]
    fn part(&mut self, point: &Measured, t_s: f64, (index, piece): (usize, usize), waits: &mut Waits, step: &mut Step, busy: &mut Busy) {
        if self.setup.has_events() {
            self.fluid.follow_events(self.setup, t_s, point.duration_s);
        }
        let (delivered, stretches, served, sampled) = (step.delivered, step.stretches.len(), step.served.len(), step.sampled.len());
        self.fluid.step(point, t_s, self.keep_queue, waits, step);
        if step.stretches.len() > stretches || step.served.len() > served {
            let slot = self.measured.slots().slot_of(index, piece);
            busy.slots.note(slot, point.iops * point.duration_s, step.delivered - delivered, &step.served[served..]);
            busy.clumps.note(slot, &step.sampled[sampled..]);
        }
    }

    /// Sets the mean and the percentiles of the run and of its worst five minutes, ms; near a cap
    /// also those of an unlucky run.
    fn note_latency(&self, summary: &mut Summary, waits: &Waits, busy: &Busy) {
        let calm = calm_ms(self.own);
        let mut worst = Worst::calm(self.own, calm);
        if busy.slots.any() {
            worst = busy.slots.worst(self.measured.slots(), self.own, QUANTILES, calm);
        }
        let percentiles = |waits: &Waits| if waits.any() { self.own.percentiles_ms(waits, QUANTILES) } else { calm };
        let (mean_ms, whole) = if busy.clumps.is_empty() {
            (waits.mean_ms(), percentiles(waits))
        } else if self.fluid.has_backlog() {
            let waits = busy.clumps.together(waits);
            (waits.mean_ms(), percentiles(&waits))
        } else {
            let (mean, unlucky) = busy.clumps.worst(&busy.slots, self.measured.slots(), self.own.mean_ms(), &worst, &percentiles);
            summary.unlucky = Some(UnluckyRun::new(unlucky.mean_ms, unlucky.percentiles_ms));
            worst = mean;
            busy.clumps.whole(waits, &percentiles)
        };
        summary.mean_ms = self.own.mean_ms() + mean_ms;
        [summary.p50_ms, summary.p95_ms, summary.p99_ms, summary.p999_ms] = whole.map(Some);
        [summary.worst_p50_ms, summary.worst_p95_ms, summary.worst_p99_ms, summary.worst_p999_ms] = worst.percentiles_ms.map(Some);
        (summary.worst_mean_ms, summary.worst_at_s) = (Some(worst.mean_ms), worst.at_s);
    }
}

/// Waits of requests, by slot.
#[derive(Default)]
struct Busy {
    slots: BusySlots,
    clumps: Clumps,
}

/// Adds the waits of an interval that ends at `end_s` to the summary: the limits, the longest wait,
/// the highest backlog and the time at which it was gone.
fn note_throttled(summary: &mut Summary, step: &Step, backlog: f64, end_s: f64) {
    for &(from_s, seconds, cap) in &step.stretches {
        summary.see_throttled(cap, from_s, seconds);
    }
    summary.longest_wait_s = summary.longest_wait_s.max(step.longest_wait_s);
    if backlog > summary.peak_queue {
        (summary.peak_queue, summary.peak_queue_at_s) = (backlog, Some(end_s));
    }
    // Over once the queue is gone; each later backlog makes it later.
    let last_end = step.stretches.last().map(|(from_s, seconds, _)| from_s + seconds);
    summary.recovered_at_s = if backlog > 0.0 { None } else { last_end };
}

/// Percentiles of rows and summaries.
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];
/// Returns the percentiles of requests that do not wait, ms.
pub(crate) fn calm_ms(own: &OwnLatency) -> [f64; 4] {
    own.percentiles_ms(&Waits::default(), QUANTILES)
}

/// Returns a function that appends a row to `rows` after each interval.
pub(crate) fn row_collector<'a>(rows: &'a mut Vec<RunRow>, own: &'a OwnLatency) -> impl FnMut(f64, &Fluid, &Measured, &Step, (f64, f64)) + 'a {
    let unthrottled = calm_ms(own);
    move |t_s, fluid, point, step, cold| {
        let mut row = row_of(fluid, point, step, t_s, own.mean_ms(), cold);
        if step.delivered > 0.0 {
            let waited = !step.served.is_empty() || !step.sampled.is_empty() || cold.0 > 0.0;
            let percentiles = if waited {
                let mut waits = step.waits();
                waits.delay(cold.0, cold.1);
                own.percentiles_ms(&waits, QUANTILES)
            } else {
                unthrottled
            };
            [row.p50_ms, row.p95_ms, row.p99_ms, row.p999_ms] = percentiles.map(Some);
        }
        rows.push(row);
    }
}

/// Makes the row of an interval that begins at `t_s`, without percentiles. `cold` requests met
/// blocks in a snapshot and waited `cold_ms` each.
fn row_of(fluid: &Fluid, point: &Measured, step: &Step, t_s: f64, own_mean_ms: f64, (cold, cold_ms): (f64, f64)) -> RunRow {
    let seconds = point.duration_s;
    let instance = fluid.instance_percents();
    let waited_ms = (step.wait_sum_s * 1e3 + cold * cold_ms) / step.delivered.max(1e-9);
    let cap = step.cap();
    RunRow {
        t_s,
        duration_s: seconds,
        asked_iops: point.iops,
        asked_mib_s: point.bytes_s / MIB,
        iops: step.delivered / seconds,
        mib_s: step.delivered_bytes / seconds / MIB,
        queue: fluid.queue(),
        balance_percent: fluid.percent_of(Cap::VolumeCredits),
        instance_io_balance_percent: instance[0],
        instance_byte_balance_percent: instance[1],
        cap: if cap == Cap::None && cold > 0.01 * step.delivered { Cap::FirstTouch } else { cap },
        throttled_s: step.throttled_s(),
        mean_ms: (step.delivered > 0.0).then_some(own_mean_ms + waited_ms),
        ..RunRow::default()
    }
}
