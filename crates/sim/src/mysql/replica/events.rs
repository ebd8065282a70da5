//! The per-I/O form of a replica: every worker, page read, page write and flush, in virtual time.
//!
//! ```text
//!  source's commits -> receive thread -> relay log -> next in order -> a free worker:
//!      processor -> page reads, page writes that make room, one after the other
//!                -> [begins to commit] -> a group flushes the redo log (prepare) -> its turn
//!                -> a group flushes the binary log; each of it commits, one after the other
//!                   (those that come meanwhile are the next group, in both)
//! ```
//!
//! A transaction begins once a worker is free and the ones it must wait for are committed (or, in
//! the modes that overlap commits, have begun to commit). Nothing is tuned here: caps, latencies
//! and waiting are the volume model's.

use super::devices::purge_reads;
use super::scenario::ReplicaScenario;
use super::settings::ReplicaSettings;
use super::settled::Settled;
use crate::error::SimError;
use crate::mysql::database::{StorageEngine, RUN_BYTES};
use crate::setup::Setup;
use headrace_model::chance::{around, normal, poisson, unit};
use headrace_model::{Host, Instance, Io, Nanos, Op};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes in front of the pages for logs on a volume that they share with the data. Only offsets
/// depend on it.
const LOG_AREA: u64 = 64 << 20;
/// Page writes that may be under way before reads wait for one: as the clients' form
/// (innodb_lru_scan_depth).
const PAGES_BEHIND: usize = 1_024;
/// Pages that the cleaner writes at a time, behind which a flush or a read has to wait: write
/// latencies of 11.6 ms on a volume of 3,000 IOPS that was not at its cap are half of some 70
/// requests (MariaDB 10.11 with one thread, lab, 2026-11-23).
const BATCH: u32 = 64;
/// Most transactions of a run: some minutes of computing.
const MOST_TX: f64 = 2e7;

/// Result of a run I/O by I/O.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaEvents {
    /// Transactions applied in each second.
    pub applied: Vec<u64>,
    /// Lag at the end of each second, s.
    pub lag_s: Vec<f64>,
    /// Flushes of a commit group.
    pub groups: u64,
    /// Page reads.
    pub reads: u64,
    /// Page writes that a worker waited for.
    pub waited_writes: u64,
    /// Mean and standard deviation of the time of a transaction's rows, s.
    pub rows_s: (f64, f64),
}

/// Stage of a worker's transaction.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Idle,
    Rows,
    Executed,
    Preparing,
    Ready,
    Flushing,
}

#[derive(Clone, Copy)]
struct Worker {
    phase: Phase,
    tx: u64,
    reads: u32,
    writes: u32,
    begun: Nanos,
}

/// A run of the applier under way.
struct Applying<'a, 'b> {
    scenario: &'b ReplicaScenario<'a>,
    host: Host,
    /// Places of logs and relay log.
    log: usize,
    relay: usize,
    queue: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    order: u64,
    workers: Vec<Worker>,
    chance: ChaCha8Rng,
    processors: Option<BinaryHeap<Reverse<Nanos>>>,
    arrivals: Vec<Nanos>,
    received: u64,
    receive_left: u32,
    next: u64,
    begun_commit: u64,
    committed: u64,
    /// Transactions that are committed, out of order.
    done: VecDeque<bool>,
    preparing: Vec<usize>,
    prepare_left: u32,
    group: Vec<usize>,
    writes_left: u32,
    page_writes: BinaryHeap<Reverse<Nanos>>,
    /// Pages that the cleaner is to write with its next batch.
    owed: u32,
    in_run: f64,
    tx: f64,
    hint: usize,
    /// [`Settled::reading`].
    reading: f64,
    rows: (f64, f64, f64),
    outcome: ReplicaEvents,
}

/// Runs the applier for `seconds` behind the source's transactions a second (a step each, spread
/// evenly). The seed decides every draw.
pub fn run_events(scenario: &ReplicaScenario<'_>, source_tps: &[f64], seconds: u32, seed: u64) -> Result<ReplicaEvents, SimError> {
    let step_s = scenario.source.step_s;
    let total: f64 = source_tps.iter().map(|tps| tps * step_s).sum();
    SimError::check_range("transactions of a run I/O by I/O", total, 1.0, MOST_TX)?;
    let mut arrivals = Vec::with_capacity(total as usize + 1);
    let mut owed = 0.0;
    for (step, tps) in source_tps.iter().enumerate() {
        let from = owed;
        owed += tps * step_s;
        while (arrivals.len() as f64 + 1.0) <= owed {
            let part = (arrivals.len() as f64 + 1.0 - from) / (tps * step_s);
            arrivals.push(Nanos::from_secs_f64((step as f64 + part) * step_s));
        }
    }
    let settled = Settled::find(scenario, source_tps);
    let scenario = &settled.scenario(scenario);
    let mut applying = Applying::new(scenario, arrivals, seed);
    applying.reading = settled.reading;
    applying.run(Nanos::from_secs(u64::from(seconds)));
    Ok(applying.finish())
}

impl<'a, 'b> Applying<'a, 'b> {
    /// Makes the applier at 0 s with idle workers; `arrivals` are the source's commits, in order.
    fn new(scenario: &'b ReplicaScenario<'a>, arrivals: Vec<Nanos>, seed: u64) -> Applying<'a, 'b> {
        let storage = &scenario.storage;
        let device = |setup: &Setup, salt: u64| {
            Setup { instance: None, seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt), ..setup.clone() }.host().devices
        };
        let mut devices = device(storage.data, 0);
        devices.extend(storage.log.into_iter().flat_map(|log| device(log, 1 << 40)));
        let log = devices.len() - 1;
        devices.extend(storage.relay.into_iter().flat_map(|relay| device(relay, 2 << 40)));
        let relay = devices.len() - 1;
        let instance = storage.instance.map(|limits| Instance::new(limits, storage.data.options.saved_second));
        // The coordinator's are not the workers'; of a single one it gets a part, which is left out
        // here.
        let taken = scenario.settings.coordinator_cores as u32;
        let vcpus = storage.instance.map_or(0, |limits| limits.vcpus.saturating_sub(taken).max(limits.vcpus.min(1)));
        let tx = scenario.start_tx();
        let idle = Worker { phase: Phase::Idle, tx: 0, reads: 0, writes: 0, begun: Nanos::ZERO };
        Applying {
            scenario,
            host: Host { instance, devices },
            log,
            relay,
            queue: BinaryHeap::new(),
            order: 0,
            workers: vec![idle; scenario.settings.threads() as usize],
            chance: ChaCha8Rng::seed_from_u64(seed),
            processors: (vcpus > 0).then(|| (0..vcpus).map(|_| Reverse(Nanos::ZERO)).collect()),
            arrivals,
            received: 0,
            receive_left: 0,
            next: 0,
            begun_commit: 0,
            committed: 0,
            done: VecDeque::new(),
            preparing: Vec::new(),
            prepare_left: 0,
            group: Vec::new(),
            writes_left: 0,
            page_writes: BinaryHeap::new(),
            owed: 0,
            in_run: 0.0,
            tx,
            hint: 0,
            reading: 0.0,
            rows: (0.0, 0.0, 0.0),
            outcome: ReplicaEvents::default(),
        }
    }

    fn flush_slot(&self) -> usize {
        self.workers.len()
    }

    fn receive_slot(&self) -> usize {
        self.workers.len() + 1
    }

    fn prepare_slot(&self) -> usize {
        self.workers.len() + 2
    }

    fn commit_slot(&self) -> usize {
        self.workers.len() + 3
    }

    /// Adds an event of a slot to the queue; events of one time are handled in the order in which
    /// they are added.
    fn push(&mut self, at: Nanos, slot: usize) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, slot)));
    }

    /// Submits a request of `bytes` to a device (0: data) and returns when it is complete.
    fn submit(&mut self, device: usize, now: Nanos, op: Op, offset: u64, bytes: f64) -> Nanos {
        // Whole sectors, at most a run.
        let bytes = ((bytes / 512.0).ceil().max(1.0) * 512.0).min(RUN_BYTES) as u32;
        self.host.submit(device, now, Io { op, offset, bytes }).complete
    }

    /// Draws the offset of a page on the data volume, bytes.
    fn page_place(&mut self) -> u64 {
        let size = self.scenario.storage.data.span_bytes(0);
        let pages = (size - LOG_AREA) / 16_384;
        LOG_AREA + (unit(&mut self.chance) * pages as f64) as u64 * 16_384
    }

    /// Handles all events up to `end`, and notes transactions and lag second by second.
    fn run(&mut self, end: Nanos) {
        self.receive(Nanos::ZERO);
        let mut second = Nanos::from_secs(1);
        let mut before = 0;
        while let Some(Reverse((now, _, slot))) = self.queue.pop() {
            while second <= now && second <= end {
                self.outcome.applied.push(self.committed - before);
                before = self.committed;
                self.outcome.lag_s.push(self.lag_s(second));
                second += Nanos::from_secs(1);
            }
            if now >= end {
                return;
            }
            if slot == self.flush_slot() {
                self.flush(now);
            } else if slot == self.prepare_slot() {
                self.prepare(now);
            } else if slot == self.commit_slot() {
                self.commit_group(now);
            } else if slot == self.receive_slot() {
                self.receive(now);
            } else {
                self.resume_worker(slot, now);
            }
        }
        // Nothing is left to do: the rest of the time is idle.
        while second <= end {
            self.outcome.applied.push(self.committed - before);
            before = self.committed;
            self.outcome.lag_s.push(self.lag_s(second));
            second += Nanos::from_secs(1);
        }
    }

    /// Returns the age of the newest transaction applied, s; 0 where none is missing.
    fn lag_s(&self, now: Nanos) -> f64 {
        let missing = self.arrivals.get(self.committed as usize).is_some_and(|at| *at <= now);
        let last = self.committed.checked_sub(1).map_or(Nanos::ZERO, |last| self.arrivals[last as usize]);
        if missing {
            now.since(last).as_secs_f64()
        } else {
            0.0
        }
    }

    /// Lets the receive thread go on: it writes one transaction after the other to the relay log.
    fn receive(&mut self, now: Nanos) {
        let settings = self.scenario.settings;
        if self.receive_left > 0 {
            self.receive_left -= 1;
            if self.receive_left == 0 {
                self.received += 1;
                self.start_transactions(now);
            }
        }
        while let Some(&at) = self.arrivals.get(self.received as usize) {
            if self.receive_left == 0 {
                if at > now {
                    self.push(at, self.receive_slot());
                    break;
                }
                let mean = flush_writes(self.scenario, settings);
                let writes = around(&mut self.chance, mean);
                if writes == 0 {
                    self.received += 1;
                    continue;
                }
                self.receive_left = writes;
            }
            let bytes = self.scenario.source.database.log.binlog_bytes_per_tx / f64::from(self.receive_left.max(1));
            let done = self.submit(self.relay, now, Op::Write, LOG_AREA / 2, bytes);
            self.push(done, self.receive_slot());
            break;
        }
        self.start_transactions(now);
    }

    /// Gives the next transactions to free workers, as far as they need not wait for others.
    fn start_transactions(&mut self, now: Nanos) {
        let settings = self.scenario.settings;
        let width = settings.width(self.scenario.applier, self.scenario.applier.commit_order_width.unwrap_or(1.0));
        while self.next < self.received {
            let before = if settings.mode.overlaps_commits() { self.begun_commit } else { self.committed };
            if width.is_finite() && ((self.next - before) as f64) >= width {
                return;
            }
            let Some(id) = self.workers.iter().position(|worker| worker.phase == Phase::Idle) else { return };
            let at = self.scenario.warm_up.at(self.tx, &mut self.hint);
            self.tx += 1.0;
            let applier = self.scenario.applier;
            let reads = poisson(&mut self.chance, at.reads * at.shape);
            let dirty = at.evicted_dirty * at.shape;
            let writes = poisson(&mut self.chance, applier.forced_writes * dirty);
            self.workers[id] = Worker { phase: Phase::Rows, tx: self.next, reads, writes, begun: now };
            self.next += 1;
            // Purge comes behind: nobody waits for its reads.
            let full = at.full > 0.0 && self.scenario.database.engine == StorageEngine::Innodb;
            let purged = if full { purge_reads(self.scenario.database, settings, at.reads, self.scenario.cache_bytes, self.reading) } else { 0.0 };
            for _ in 0..poisson(&mut self.chance, purged * at.shape) {
                let place = self.page_place();
                self.submit(0, now, Op::Read, place, self.scenario.database.read_bytes);
                self.outcome.reads += 1;
            }
            let dirtied = dirty * purged / at.reads.max(1e-9);
            let others = poisson(&mut self.chance, (dirty * (1.0 - applier.forced_writes)).max(0.0) + dirtied + at.flushed * at.shape);
            self.owed += others;
            if self.owed >= BATCH {
                (0..std::mem::take(&mut self.owed)).for_each(|_| self.write_in_background(now));
            }
            let redone = if unit(&mut self.chance) < settings.redone(applier) { 2.0 } else { 1.0 };
            let done = self.process(now, applier.cpu_ms / 1e3 * (1.0 - applier.commit_cpu_share) * redone);
            self.push(done, id);
        }
    }

    /// Hands a job to the processors and returns when it is done; its time has a scatter of half
    /// its mean (lognormal; a guess).
    fn process(&mut self, now: Nanos, mean_s: f64) -> Nanos {
        let sigma = 0.47; // sqrt(ln(1 + 0.5^2))
        let work = Nanos::from_secs_f64(mean_s * libm::exp(sigma * normal(&mut self.chance) - 0.5 * sigma * sigma));
        let Some(processors) = &mut self.processors else { return now + work };
        let Some(mut first) = processors.peek_mut() else { return now + work };
        first.0 = now.max(first.0) + work;
        first.0
    }

    /// Writes a page of the cleaner, for which nobody waits unless too many are under way.
    fn write_in_background(&mut self, now: Nanos) {
        let done = self.submit_page_write(now);
        self.page_writes.push(Reverse(done));
    }

    /// Submits the write of a page in its place, and a run to the doublewrite area whenever one is
    /// full; returns when the page is written.
    fn submit_page_write(&mut self, now: Nanos) -> Nanos {
        let database = self.scenario.database;
        if database.writes.doublewrite {
            self.in_run += database.cached_bytes;
            if self.in_run >= RUN_BYTES {
                self.in_run -= RUN_BYTES;
                self.submit(0, now, Op::Write, 0, RUN_BYTES);
            }
        }
        let place = self.page_place();
        self.submit(0, now, Op::Write, place, database.cached_bytes)
    }

    /// Begins what a worker does next: a read, a write that it waits for, or its commit.
    fn resume_worker(&mut self, id: usize, now: Nanos) {
        let worker = self.workers[id];
        match worker.phase {
            Phase::Rows if worker.reads > 0 => {
                let from = self.find_read_start(now);
                if from > now {
                    return self.push(from, id);
                }
                self.workers[id].reads -= 1;
                self.outcome.reads += 1;
                let place = self.page_place();
                let done = self.submit(0, now, Op::Read, place, self.scenario.database.read_bytes);
                self.push(done, id);
            }
            Phase::Rows if worker.writes > 0 => {
                self.workers[id].writes -= 1;
                self.outcome.waited_writes += 1;
                let done = self.submit_page_write(now);
                self.push(done, id);
            }
            Phase::Rows => {
                let took = now.since(worker.begun).as_secs_f64();
                self.rows = (self.rows.0 + 1.0, self.rows.1 + took, self.rows.2 + took * took);
                self.workers[id].phase = Phase::Executed;
                self.begun_commit += 1;
                self.prepare_ready(now);
                self.start_transactions(now);
            }
            Phase::Idle | Phase::Executed | Phase::Preparing | Phase::Ready | Phase::Flushing => {}
        }
    }

    /// Returns when a read may begin: at once, or when the cleaner is no longer too far behind.
    fn find_read_start(&mut self, now: Nanos) -> Nanos {
        while self.page_writes.peek().is_some_and(|done| done.0 <= now) {
            self.page_writes.pop();
        }
        if self.page_writes.len() > PAGES_BEHIND {
            self.page_writes.peek().map_or(now, |done| done.0)
        } else {
            now
        }
    }

    /// Returns the synchronous writes of the shorter stage, which comes first, and of the longest.
    fn stages(&self) -> (f64, f64) {
        let syncs = self.scenario.database.log.syncs_per_commit * self.scenario.applier.flush_factor;
        let longest = self.scenario.settings.longest_stage();
        (syncs * (1.0 - longest), syncs * longest)
    }

    /// Begins the next group of the first stage, if none is under way: all that are executed.
    fn prepare_ready(&mut self, now: Nanos) {
        if !self.preparing.is_empty() {
            return;
        }
        self.preparing = (0..self.workers.len()).filter(|&id| self.workers[id].phase == Phase::Executed).collect();
        if self.preparing.is_empty() {
            return;
        }
        for &id in &self.preparing {
            self.workers[id].phase = Phase::Preparing;
        }
        let mean = self.stages().0;
        self.prepare_left = around(&mut self.chance, mean);
        self.prepare(now);
    }

    /// Submits the next write of the redo log for the group that prepares; after the last one its
    /// transactions are ready.
    fn prepare(&mut self, now: Nanos) {
        if self.prepare_left > 0 {
            let bytes = self.scenario.database.log.redo_bytes_per_tx * self.preparing.len() as f64 / f64::from(self.prepare_left);
            self.prepare_left -= 1;
            let done = self.submit(self.log, now, Op::Write, LOG_AREA / 4, bytes);
            return self.push(done, self.prepare_slot());
        }
        for id in std::mem::take(&mut self.preparing) {
            self.workers[id].phase = Phase::Ready;
        }
        self.flush_ready(now);
        self.prepare_ready(now);
    }

    /// Begins the next group of the second stage, if none is under way: all that are ready, in
    /// order where it is kept.
    fn flush_ready(&mut self, now: Nanos) {
        if !self.group.is_empty() {
            return;
        }
        let settings = self.scenario.settings;
        let applier = self.scenario.applier;
        // Below a half the calibrated share is the limit; from there on groups that take turns are.
        let most = if applier.group_share < 0.5 { ((applier.group_share * self.workers.len() as f64).round() as usize).max(1) } else { usize::MAX };
        let mut ready: Vec<usize> = (0..self.workers.len()).filter(|&id| self.workers[id].phase == Phase::Ready).collect();
        ready.sort_by_key(|&id| self.workers[id].tx);
        if settings.preserve_order {
            let first = self.committed;
            let in_order = ready.iter().zip(first..).take_while(|(id, turn)| self.workers[**id].tx == *turn).count();
            ready.truncate(in_order);
        }
        ready.truncate(most);
        if ready.is_empty() {
            return;
        }
        ready.iter().for_each(|&id| self.workers[id].phase = Phase::Flushing);
        self.group = ready;
        let mean = self.stages().1;
        self.writes_left = around(&mut self.chance, mean);
        self.outcome.groups += 1;
        self.flush(now);
    }

    /// Submits the next write of the binary log for the group that flushes; after the last one
    /// hands its commits to the processors.
    fn flush(&mut self, now: Nanos) {
        if self.writes_left == 0 {
            let applier = self.scenario.applier;
            let times = if self.scenario.settings.commits_in_turn() { self.group.len() as f64 } else { 1.0 };
            let done = self.process(now, applier.cpu_ms / 1e3 * applier.commit_cpu_share * times);
            return self.push(done, self.commit_slot());
        }
        let log = &self.scenario.database.log;
        let bytes = (log.redo_bytes_per_tx + log.binlog_bytes_per_tx) * self.group.len() as f64 / f64::from(self.writes_left);
        self.writes_left -= 1;
        let done = self.submit(self.log, now, Op::Write, LOG_AREA / 4, bytes);
        self.push(done, self.flush_slot());
    }

    /// Counts the group's transactions as committed and frees their workers.
    fn commit_group(&mut self, now: Nanos) {
        for id in std::mem::take(&mut self.group) {
            self.workers[id].phase = Phase::Idle;
            let place = (self.workers[id].tx - self.committed) as usize;
            if self.done.len() <= place {
                self.done.resize(place + 1, false);
            }
            self.done[place] = true;
            while self.done.front() == Some(&true) {
                self.done.pop_front();
                self.committed += 1;
            }
        }
        self.start_transactions(now);
        self.flush_ready(now);
    }

    /// Returns the outcome with the mean and the standard deviation of the time of rows, s.
    fn finish(mut self) -> ReplicaEvents {
        let (count, sum, squares) = self.rows;
        let mean = sum / count.max(1.0);
        self.outcome.rows_s = (mean, (squares / count.max(1.0) - mean * mean).max(0.0).sqrt());
        self.outcome
    }
}

/// Returns the device writes of the receive thread for a transaction.
fn flush_writes(scenario: &ReplicaScenario<'_>, settings: &ReplicaSettings) -> f64 {
    if settings.sync_relay_log == 0 {
        return 0.0;
    }
    super::devices::relay_writes() * scenario.applier.relay_flush_factor * scenario.applier.events_per_tx / f64::from(settings.sync_relay_log)
}
