//! The per-I/O form: every request by itself, through an event queue, in nanoseconds.
//!
//! Closed loads keep a fixed number of requests outstanding. Open loads bring requests at their own
//! times; the host keeps at most `max_outstanding` of them in flight, the rest wait in the host,
//! which is where a backlog builds up. Requests reach the model in order of time, so the same seed
//! gives the same run.

use crate::demand::load::{whole_sectors, Arrivals, ClosedLoad, OpenLoad, Point, MAX_ROWS, YEAR_S};
use crate::demand::recorder::{Answered, RunRecorder};
use crate::error::SimError;
use crate::report::Run;
use crate::setup::Setup;
use headrace_model::bucket::DeepQueueSpread;
use headrace_model::chance::{exponential, unit};
use headrace_model::volume::FAILURE_TAKES;
use headrace_model::{Cap, Decision, Host, Io, Nanos, Op, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the load's draws apart from the volumes'.
const LOAD_STREAM: u64 = 0x4c6f_6164;

/// Requests between two calls of the progress function.
const PROGRESS_EVERY: u64 = 1 << 20;

/// Called with the share done (0-1) every now and then; returning false stops the run.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Progress that is not reported.
pub fn quiet(_: f64) -> bool {
    true
}

/// Requests from submission to completion, each in a slot. An open load takes its slots from
/// `free`.
struct InFlight {
    queue: BinaryHeap<Reverse<(Nanos, u32)>>,
    slots: Vec<Answered>,
    free: Vec<u32>,
}

impl InFlight {
    /// Makes room for `slots` requests in flight, all of them free.
    fn new(slots: u32) -> InFlight {
        let empty = Answered {
            arrived: Nanos::ZERO,
            bytes: 0,
            decision: Decision { start: Nanos::ZERO, complete: Nanos::ZERO, cap: Default::default(), verdict: headrace_model::Verdict::Ok },
        };
        InFlight { queue: BinaryHeap::with_capacity(slots as usize), slots: vec![empty; slots as usize], free: (0..slots).rev().collect() }
    }

    fn next_completion(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    fn insert(&mut self, slot: u32, request: Answered) {
        self.slots[slot as usize] = request;
        self.queue.push(Reverse((request.decision.complete, slot)));
    }

    fn pop(&mut self) -> Option<(u32, Answered)> {
        let Reverse((_, slot)) = self.queue.pop()?;
        Some((slot, self.slots[slot as usize]))
    }
}

/// Runs a closed load for `seconds`, a row every `interval_s`.
pub fn closed(setup: &Setup, load: &ClosedLoad, seconds: f64, interval_s: f64, progress: Progress<'_>) -> Result<Run, SimError> {
    load.check()?;
    check_times(seconds, interval_s)?;
    let mut setup = setup.clone();
    setup.options.deep_queue = deep_queue_spread(&setup, load);
    let mut host = setup.host();
    let lost = host.devices[0].is_lost();
    let mut source = ClosedSource::new(load, setup.span_bytes(load.span_bytes), setup.seed);
    let end = Nanos::from_secs_f64(seconds);
    let mut recorder = RunRecorder::new(Nanos::from_secs_f64(interval_s), end);
    let mut flight = InFlight::new(load.outstanding());
    let mut submit = |flight: &mut InFlight, recorder: &mut RunRecorder, host: &mut Host, slot: u32, now: Nanos| {
        let io = source.next(slot);
        recorder.note_arrival(io.bytes);
        let decision = self::submit(host, lost, now, io);
        recorder.note_decision(now, &decision);
        flight.insert(slot, Answered { arrived: now, bytes: io.bytes, decision });
    };
    for slot in 0..load.outstanding() {
        submit(&mut flight, &mut recorder, &mut host, slot, Nanos::ZERO);
    }
    let mut count = 0u64;
    while let Some((slot, done)) = flight.pop() {
        let now = done.decision.complete;
        recorder.reach(now, &host);
        if now >= end {
            break;
        }
        recorder.note_answer(&done);
        submit(&mut flight, &mut recorder, &mut host, slot, now);
        count += 1;
        if count % PROGRESS_EVERY == 0 && !progress(now.as_secs_f64() / seconds) {
            return Err(SimError::Interrupted);
        }
    }
    Ok(recorder.finish(&host))
}

/// Returns the spread of the service of the host's queues: none for one queue (Xen) or a stripe
/// (whose members get unequal shares anyway), less if the instance's cap is the lower one.
fn deep_queue_spread(setup: &Setup, load: &ClosedLoad) -> Option<DeepQueueSpread> {
    if setup.storage.raid.is_some() || setup.options.xen {
        return None;
    }
    let spread = DeepQueueSpread::for_queues(load.numjobs, load.iodepth)?;
    let instance_iops = setup.instance.as_ref().and_then(|instance| instance.max_iops).unwrap_or(u64::MAX);
    Some(if instance_iops < setup.limits[0].iops { spread.at_instance_cap() } else { spread })
}

/// Runs an open load to its end, a row every `interval_s`.
pub fn open(setup: &Setup, load: &OpenLoad, interval_s: f64, progress: Progress<'_>) -> Result<Run, SimError> {
    load.check()?;
    let seconds = load.duration_s();
    check_times(seconds, interval_s)?;
    let mut host = setup.host();
    let lost = host.devices[0].is_lost();
    let end = Nanos::from_secs_f64(seconds);
    let mut recorder = RunRecorder::new(Nanos::from_secs_f64(interval_s), end);
    let mut flight = InFlight::new(load.max_outstanding);
    let mut source = OpenSource::new(load, setup.span_bytes(load.span_bytes), setup.seed);
    let mut coming = Coming::default();
    let mut count = 0u64;
    while let Some((arrived, io)) = source.next() {
        coming.begin((arrived, io));
        let mut slot = flight.free.pop();
        let mut issue = arrived;
        while let Some(done_at) = flight.next_completion() {
            if slot.is_some() && done_at > issue {
                break;
            }
            issue = issue.max(done_at);
            coming.count(done_at, &source, &mut recorder, &host);
            recorder.reach(done_at, &host);
            let Some((freed, done)) = flight.pop() else { break };
            if done_at < end {
                recorder.note_answer(&done);
            }
            match slot {
                None => slot = Some(freed),
                Some(_) => flight.free.push(freed),
            }
        }
        if issue >= end {
            break;
        }
        coming.count(issue, &source, &mut recorder, &host);
        let decision = submit(&mut host, lost, issue, io);
        recorder.note_decision(arrived, &decision);
        flight.insert(slot.expect("a slot is free once a completion was awaited"), Answered { arrived, bytes: io.bytes, decision });
        count += 1;
        if count % PROGRESS_EVERY == 0 && !progress(issue.as_secs_f64() / seconds) {
            return Err(SimError::Interrupted);
        }
    }
    while let Some((_, done)) = flight.pop() {
        let at = done.decision.complete;
        if at >= end {
            break;
        }
        coming.count(at, &source, &mut recorder, &host);
        recorder.reach(at, &host);
        recorder.note_answer(&done);
    }
    coming.count(end, &source, &mut recorder, &host);
    Ok(recorder.finish(&host))
}

/// Counts requests as they come. Requests that wait in the host are not stored: while some do, a
/// copy of the source runs ahead.
#[derive(Default)]
struct Coming<'a> {
    /// The next request to be counted, where it is known.
    next: Option<(Nanos, Io)>,
    /// Arrival of the last one that was.
    last: Nanos,
    /// Number of requests that are counted, from the current one on.
    counted: u64,
    ahead: Option<OpenSource<'a>>,
}

impl<'a> Coming<'a> {
    /// Notes the request that the host issues next: it is the next to be counted, unless it was
    /// counted while those before it waited.
    #[inline]
    fn begin(&mut self, request: (Nanos, Io)) {
        self.counted = self.counted.saturating_sub(1);
        if self.counted == 0 {
            (self.next, self.ahead) = (Some(request), None);
        }
    }

    /// Counts the requests that come up to a time; `source` stands behind the request at hand.
    #[inline]
    fn count(&mut self, until: Nanos, source: &OpenSource<'a>, recorder: &mut RunRecorder, host: &Host) {
        while self.next.is_some() || until > self.last {
            if self.next.is_none() {
                self.next = self.ahead.get_or_insert_with(|| source.clone()).next();
            }
            let Some((at, io)) = self.next.filter(|(at, _)| *at <= until) else { return };
            recorder.reach(at, host);
            recorder.note_arrival(io.bytes);
            (self.next, self.last) = (None, at);
            self.counted += 1;
        }
    }
}

/// Answers a request. A device whose data are gone serves nothing: its file system is read-only or
/// gone.
#[inline]
fn submit(host: &mut Host, lost: bool, now: Nanos, io: Io) -> Decision {
    if lost {
        return Decision { start: now, complete: now + FAILURE_TAKES, cap: Cap::None, verdict: Verdict::Failed };
    }
    host.submit(0, now, io)
}

/// Refuses a length of the run or of its rows, s, that is out of bounds, and more than 10 million
/// rows.
fn check_times(seconds: f64, interval_s: f64) -> Result<(), SimError> {
    for (what, value) in [("length of the run (s)", seconds), ("interval of the rows (s)", interval_s)] {
        SimError::check_range(what, value, 1e-3, YEAR_S)?;
    }
    if seconds / interval_s > MAX_ROWS {
        let rule = format!("gives more than 10 million rows over {seconds} s");
        return Err(SimError::refused("interval of the rows (s)", interval_s, rule, "Use a longer interval."));
    }
    Ok(())
}

/// Requests of a closed load, slot by slot.
struct ClosedSource<'a> {
    load: &'a ClosedLoad,
    rng: ChaCha8Rng,
    blocks: u64,
    blocks_per_job: u64,
    cursors: Vec<u64>,
    read_below: u64,
}

impl ClosedSource<'_> {
    /// Starts a load at its first blocks, on the first `span_bytes` of a volume.
    fn new(load: &ClosedLoad, span_bytes: u64, seed: u64) -> ClosedSource<'_> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(LOAD_STREAM);
        let blocks = (span_bytes / u64::from(load.block_bytes)).max(1);
        let read_below = (load.rw.read_share(load.rwmixread) * 4_294_967_296.0) as u64;
        let blocks_per_job = (blocks / u64::from(load.numjobs)).max(1);
        ClosedSource { load, rng, blocks, blocks_per_job, cursors: vec![0; load.numjobs as usize], read_below }
    }

    /// Returns the next request of a slot: at the job's next block for sequential patterns, at a
    /// random block otherwise.
    #[inline]
    fn next(&mut self, slot: u32) -> Io {
        let draw = self.rng.next_u64();
        let op = if (draw & 0xffff_ffff) < self.read_below { Op::Read } else { Op::Write };
        let block = if self.load.rw.is_sequential() {
            let job = (slot % self.load.numjobs) as usize;
            let block = job as u64 * self.blocks_per_job + self.cursors[job];
            self.cursors[job] = (self.cursors[job] + 1) % self.blocks_per_job;
            block
        } else {
            ((u128::from(draw >> 16) * u128::from(self.blocks)) >> 48) as u64
        };
        Io { op, offset: block * u64::from(self.load.block_bytes), bytes: self.load.block_bytes }
    }
}

/// Requests of an open load in order of arrival.
#[derive(Clone)]
struct OpenSource<'a> {
    load: &'a OpenLoad,
    rng: ChaCha8Rng,
    /// Bytes of the volume that requests may touch.
    span_bytes: u64,
    /// Index of the point of the load whose rates hold, and the time at which it begins.
    point: usize,
    point_start_s: f64,
    /// Time up to which requests were made.
    at_s: f64,
    /// Time until the next request comes, as a multiple of the mean time between two: begins at 1
    /// for even arrivals, at an exponential draw for Poisson's.
    gaps_to_next: f64,
    /// Reads that are owed, in requests: with even arrivals the next request is a read from 0.5 on.
    read_credit: f64,
    /// Offset behind the last read and behind the last write, bytes, where a sequential one goes
    /// on.
    cursors: [u64; 2],
}

impl OpenSource<'_> {
    /// Starts the arrivals of a load at 0 s, on the first `span_bytes` of a volume.
    fn new(load: &OpenLoad, span_bytes: u64, seed: u64) -> OpenSource<'_> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(LOAD_STREAM);
        let mut source =
            OpenSource { load, rng, span_bytes, point: 0, point_start_s: 0.0, at_s: 0.0, gaps_to_next: 0.0, read_credit: 0.0, cursors: [0, span_bytes / 2] };
        source.gaps_to_next = source.draw_gap();
        source
    }

    /// Draws a time between two requests, as a multiple of the mean one.
    fn draw_gap(&mut self) -> f64 {
        match self.load.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => exponential(&mut self.rng),
        }
    }

    /// Returns the next request with its arrival; None after the last point of the load.
    fn next(&mut self) -> Option<(Nanos, Io)> {
        loop {
            let point = self.load.points.get(self.point)?;
            let left_s = self.point_start_s + point.duration_s - self.at_s;
            let needed_s = self.gaps_to_next / point.iops();
            if needed_s <= left_s {
                self.at_s += needed_s;
                self.gaps_to_next = self.draw_gap();
                let io = self.draw_request(point);
                return Some((Nanos::from_secs_f64(self.at_s), io));
            }
            self.gaps_to_next -= left_s * point.iops();
            self.point_start_s += point.duration_s;
            self.at_s = self.point_start_s;
            self.point += 1;
        }
    }

    /// Draws a request of a point: read or write, its size and its offset, all in bytes.
    fn draw_request(&mut self, point: &Point) -> Io {
        let share = point.reads_per_s / point.iops();
        let is_read = match self.load.arrivals {
            Arrivals::Poisson => unit(&mut self.rng) < share,
            Arrivals::Even => {
                self.read_credit += share;
                let read = self.read_credit >= 0.5;
                self.read_credit -= f64::from(u8::from(read));
                read
            }
        };
        let (op, mean, sequential) = if is_read {
            (Op::Read, point.read_bytes, self.load.sequential_read_share)
        } else {
            (Op::Write, point.write_bytes, self.load.sequential_write_share)
        };
        let bytes = whole_sectors(&mut self.rng, mean);
        let cursor = self.cursors[op as usize];
        let offset = if sequential > 0.0 && unit(&mut self.rng) < sequential && cursor + u64::from(bytes) <= self.span_bytes {
            cursor
        } else {
            // Aligned to the next power of two, so that a request no larger than a chunk stays
            // inside one.
            let align = u64::from(bytes.max(4_096)).next_power_of_two();
            let places = (self.span_bytes / align).max(1);
            (((u128::from(self.rng.next_u64()) * u128::from(places)) >> 64) as u64) * align
        };
        self.cursors[op as usize] = offset + u64::from(bytes);
        Io { op, offset, bytes }
    }
}
