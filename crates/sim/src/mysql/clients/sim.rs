//! The event loop's steps: what clients, logs, the page cleaner and compaction do when something they waited for is done.

use super::super::demand::RUN_BYTES;
use super::super::interval::{Load, Scenario};
use super::super::warmup::At;
use super::book::{Book, Standing};
use super::parts::{stream, Arrivals, Cleaner, Draws, LogWriter, Merging, Processors, Size};
use super::parts::{CLEANER_DEPTH, COMPACTION_DEPTH, DOUBLEWRITE_BYTES, LOG_AREA_BYTES, RUN, STREAMS, TICK};
use super::{host_of, start_tx, ClientsRun, LEAST_OWN, PAGES_BEHIND};
use crate::events::nanos;
use headrace_model::{Decision, Host, Io, Nanos, Op, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Transactions of an open load under way at once: as many as one NVMe queue of EBS holds.
const OPEN_THREADS: u32 = 1_024;
/// Log bytes nobody syncs that may wait before clients do: innodb_log_buffer_size.
const LOG_BUFFER: f64 = 16.0 * 1_048_576.0;

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Idle,
    Own,
    Processor,
    Stalled,
    Reading,
    Commit,
}

/// One client, or one thread of an open load.
#[derive(Clone, Copy)]
struct Client {
    phase: Phase,
    arrived: Nanos,
    begun: Nanos,
    stalled: Nanos,
    work: Nanos,
    reads: u32,
    pages_left: u32,
    runs_left: u32,
    /// What is read is a run.
    in_run: bool,
    syncs: u8,
    synced: u8,
}

const IDLE: Client = Client {
    phase: Phase::Idle,
    arrived: Nanos::ZERO,
    begun: Nanos::ZERO,
    stalled: Nanos::ZERO,
    work: Nanos::ZERO,
    reads: 0,
    pages_left: 0,
    runs_left: 0,
    in_run: false,
    syncs: 0,
    synced: 0,
};

/// What a slot of the queue stands for, after the clients' own.
#[derive(Clone, Copy)]
enum Slot {
    Client(u32),
    Log(usize),
    Tick,
    Arrival,
    Cleaner(u32),
    Compaction(u32),
}

/// Redo log, binary log, and what is written to either without anyone waiting.
const LOGS: usize = 3;
const LOOSE: usize = 2;
const OTHER_SLOTS: u32 = LOGS as u32 + 2 + CLEANER_DEPTH + COMPACTION_DEPTH;

impl Slot {
    fn number(self, clients: u32) -> u32 {
        match self {
            Slot::Client(id) => id,
            Slot::Log(log) => clients + log as u32,
            Slot::Tick => clients + 3,
            Slot::Arrival => clients + 4,
            Slot::Cleaner(slot) => clients + 5 + slot,
            Slot::Compaction(slot) => clients + 5 + CLEANER_DEPTH + slot,
        }
    }

    fn of(number: u32, clients: u32) -> Slot {
        if number < clients {
            return Slot::Client(number);
        }
        match number - clients {
            log @ 0..=2 => Slot::Log(log as usize),
            3 => Slot::Tick,
            4 => Slot::Arrival,
            n if n - 5 < CLEANER_DEPTH => Slot::Cleaner(n - 5),
            n => Slot::Compaction(n - 5 - CLEANER_DEPTH),
        }
    }
}

/// A run under way.
pub struct Sim<'a> {
    scenario: &'a Scenario<'a>,
    host: Host,
    log_device: usize,
    pub queue: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Device and bytes of the request a slot waits for.
    asked: Vec<(usize, u32)>,
    clients: Vec<Client>,
    count: u32,
    idle: Vec<u32>,
    stalled: VecDeque<u32>,
    draws: Draws,
    page: Size,
    written_page: Size,
    processors: Option<Processors>,
    logs: [LogWriter; LOGS],
    cleaner: Cleaner,
    compaction: Merging<'a>,
    /// Arrivals as they come, and again as they are begun: those between the two wait.
    arrivals: Option<(Arrivals<'a>, Arrivals<'a>)>,
    backlog: u64,
    tx: f64,
    hint: usize,
    cache: At,
    factor: f64,
    book: Book,
    row_end: Nanos,
    step: Nanos,
    pub end: Nanos,
    compacted: bool,
    pub lost: bool,
}

impl<'a> Sim<'a> {
    pub fn new(scenario: &'a Scenario<'a>) -> Sim<'a> {
        let database = scenario.database;
        let (host, log_device) = host_of(scenario);
        let (count, arrivals) = match &scenario.load {
            Load::Clients(clients) => (*clients, None),
            Load::Arrivals(rates) => {
                let arrivals = Arrivals { rates, step_s: scenario.step_s, step: 0, at_s: 0.0, rng: stream(scenario, STREAMS[2]) };
                (OPEN_THREADS, Some((arrivals.clone(), arrivals)))
            }
        };
        let processors = scenario.instance.filter(|limits| limits.vcpus > 0 && database.clients.cpu_ms > 0.0);
        let tx = start_tx(scenario);
        let area = |log: usize| if log_device == 0 { DOUBLEWRITE_BYTES + log as u64 * LOG_AREA_BYTES } else { log as u64 * LOG_AREA_BYTES };
        let step = nanos(scenario.step_s);
        let end = Nanos(step.0 * (f64::from(scenario.seconds) / scenario.step_s).ceil() as u64);
        Sim {
            scenario,
            host,
            log_device,
            queue: BinaryHeap::with_capacity((count + OTHER_SLOTS) as usize),
            asked: vec![(0, 0); (count + OTHER_SLOTS) as usize],
            clients: vec![IDLE; count as usize],
            count,
            idle: if arrivals.is_some() { (0..count).rev().collect() } else { Vec::new() },
            stalled: VecDeque::new(),
            draws: Draws::new(scenario),
            page: Size::new(database.read_bytes),
            written_page: Size::new(database.cached_bytes),
            processors: processors.map(|limits| Processors { free_at: (0..limits.vcpus).map(|_| Reverse(Nanos::ZERO)).collect() }),
            logs: [0, 1, 2].map(|log| LogWriter { start: area(log), ..LogWriter::default() }),
            cleaner: Cleaner::new(database),
            compaction: Merging::new(database.compaction.as_ref(), tx),
            arrivals,
            backlog: 0,
            tx,
            hint: 0,
            cache: At::default(),
            factor: 1.0,
            book: Book::new(end.as_secs_f64(), database.clients.sharpness),
            row_end: step,
            step,
            end,
            compacted: false,
            lost: false,
        }
    }

    pub fn open_shop(&mut self) {
        self.look_up();
        self.push(TICK, Slot::Tick);
        match self.scenario.load {
            Load::Clients(clients) => (0..clients).for_each(|id| self.begin(id, Nanos::ZERO, Nanos::ZERO)),
            Load::Arrivals(_) => self.expect_arrival(),
        }
    }

    #[inline]
    fn push(&mut self, at: Nanos, slot: Slot) {
        self.queue.push(Reverse((at, slot.number(self.count))));
    }

    /// Hands a request to a device; `waiting` transactions wait for it.
    #[inline]
    fn submit(&mut self, slot: Slot, device: usize, now: Nanos, io: Io, waiting: u64) {
        let decision: Decision = self.host.submit(device, now, io);
        self.lost |= decision.verdict == Verdict::Failed;
        self.book.decided(device, now, &decision, waiting);
        self.asked[slot.number(self.count) as usize] = (device, io.bytes);
        self.push(decision.complete, slot);
    }

    #[inline]
    fn answered(&mut self, number: u32) {
        let (device, bytes) = self.asked[number as usize];
        self.book.answered_io(device, bytes);
    }

    pub fn handle(&mut self, number: u32, now: Nanos) {
        match Slot::of(number, self.count) {
            Slot::Client(id) => {
                let client = self.clients[id as usize];
                if client.phase == Phase::Reading {
                    self.answered(number);
                    *(if client.in_run { &mut self.book.summary.read_ahead_runs } else { &mut self.book.summary.page_reads }) += 1;
                }
                self.go_on(id, now);
            }
            Slot::Log(log) => {
                self.answered(number);
                self.log_written(log, now);
            }
            Slot::Tick => self.tick(now),
            Slot::Arrival => {
                self.backlog += 1;
                self.begin_waiting(now);
                self.expect_arrival();
            }
            Slot::Cleaner(slot) => {
                self.answered(number);
                self.page_written(slot, now);
            }
            Slot::Compaction(slot) => {
                self.answered(number);
                self.book.summary.compaction_ios += 1;
                self.compaction.free.push(slot);
                self.compact(now);
            }
        }
    }

    /// The cache at the transactions done so far.
    fn look_up(&mut self) {
        self.cache = self.scenario.warm_up.at(self.tx, &mut self.hint);
        self.factor = self.compaction.factor(self.tx);
    }

    fn begin(&mut self, id: u32, arrived: Nanos, now: Nanos) {
        let database = self.scenario.database;
        let length = self.draws.length();
        let cpu_ms = if self.processors.is_some() { database.clients.cpu_ms } else { 0.0 };
        let own = nanos((database.clients.base_ms - cpu_ms).max(0.0) / 1e3 * length).max(LEAST_OWN);
        let reads = self.cache.reads * self.cache.shape * self.factor;
        let ahead = database.read_ahead_share;
        let runs_left = if ahead > 0.0 { self.draws.poisson(reads * ahead * database.read_bytes / RUN_BYTES) } else { 0 };
        let pages = self.draws.poisson(reads * (1.0 - ahead));
        let pages_ahead = (f64::from(runs_left) * RUN_BYTES / database.read_bytes) as u32;
        self.clients[id as usize] = Client {
            phase: Phase::Own,
            arrived,
            begun: now,
            stalled: Nanos::ZERO,
            work: nanos(cpu_ms / 1e3 * length),
            reads: pages + pages_ahead,
            pages_left: pages,
            runs_left,
            in_run: false,
            syncs: self.draws.whole(database.log.syncs_per_commit),
            synced: 0,
        };
        self.push(now + own, Slot::Client(id));
        let flushed = database.writes.limited(self.cache.flushed, self.book.tps_before());
        self.cleaner.owe((self.cache.evicted_dirty + flushed) * self.cache.shape);
        self.clean(now);
    }

    /// The next thing a transaction does once the one before is done.
    fn go_on(&mut self, id: u32, now: Nanos) {
        let client = &mut self.clients[id as usize];
        if client.phase == Phase::Own {
            client.phase = Phase::Processor;
            let work = client.work;
            if let Some(processors) = &mut self.processors {
                let done = processors.take(now, work);
                self.book.waited_for_processor(done - now - work);
                return self.push(done, Slot::Client(id));
            }
        }
        if self.must_wait() {
            let client = &mut self.clients[id as usize];
            (client.phase, client.stalled) = (Phase::Stalled, now);
            return self.stalled.push_back(id);
        }
        self.read_or_commit(id, now);
    }

    fn read_or_commit(&mut self, id: u32, now: Nanos) {
        let client = &mut self.clients[id as usize];
        (client.phase, client.in_run) = (Phase::Reading, client.runs_left > 0);
        if client.runs_left > 0 {
            client.runs_left -= 1;
            let offset = self.draws.place() / u64::from(RUN) * u64::from(RUN);
            return self.submit(Slot::Client(id), 0, now, Io { op: Op::Read, offset, bytes: RUN }, 1);
        }
        if client.pages_left > 0 {
            client.pages_left -= 1;
            let io = Io { op: Op::Read, offset: self.draws.place(), bytes: self.page.draw(&mut self.draws.of_place) };
            return self.submit(Slot::Client(id), 0, now, io, 1);
        }
        client.phase = Phase::Commit;
        let (syncs, log) = (client.syncs, &self.scenario.database.log);
        // What no sync of its own carries leaves in runs.
        let loose = if syncs == 0 { log.redo_bytes_per_tx } else { 0.0 } + if syncs < 2 { log.binlog_bytes_per_tx } else { 0.0 };
        if loose > 0.0 {
            self.logs[LOOSE].bytes += loose;
            self.write_loose(now, RUN_BYTES);
        }
        self.sync_or_finish(id, now);
    }

    /// The next sync of a commit: redo log and binary log in turn, each with its share of the bytes.
    fn sync_or_finish(&mut self, id: u32, now: Nanos) {
        let client = &mut self.clients[id as usize];
        if client.synced == client.syncs {
            return self.finish(id, now);
        }
        let of = &self.scenario.database.log;
        let (log, bytes) = match client.synced {
            0 => (0, of.redo_bytes_per_tx),
            1 if of.binlog_bytes_per_tx > 0.0 => (1, of.binlog_bytes_per_tx),
            _ => (0, 0.0),
        };
        client.synced += 1;
        self.logs[log].bytes += bytes;
        self.logs[log].waiting.push(id);
        if !self.logs[log].busy {
            self.sync(log, now);
        }
    }

    fn sync(&mut self, log: usize, now: Nanos) {
        let writer = &mut self.logs[log];
        writer.busy = true;
        std::mem::swap(&mut writer.waiting, &mut writer.riders);
        let riders = writer.riders.len() as u64;
        let io = writer.next(LOG_AREA_BYTES as f64);
        self.submit(Slot::Log(log), self.log_device, now, io, riders);
    }

    fn log_written(&mut self, log: usize, now: Nanos) {
        if log == LOOSE {
            self.book.summary.log_runs += 1;
            self.logs[LOOSE].busy = false;
            self.write_loose(now, RUN_BYTES);
            return self.release(now);
        }
        self.book.summary.log_syncs += 1;
        let mut riders = std::mem::take(&mut self.logs[log].riders);
        // Still busy meanwhile: riders that come again share the next write with those who wait.
        riders.drain(..).for_each(|id| self.sync_or_finish(id, now));
        self.logs[log].riders = riders;
        if self.logs[log].waiting.is_empty() {
            self.logs[log].busy = false;
        } else {
            self.sync(log, now);
        }
    }

    /// Writes what nobody waits for, once there are `least` bytes of it.
    fn write_loose(&mut self, now: Nanos, least: f64) {
        let writer = &mut self.logs[LOOSE];
        if !writer.busy && writer.bytes >= least {
            writer.busy = true;
            let io = writer.next(RUN_BYTES);
            self.submit(Slot::Log(LOOSE), self.log_device, now, io, 0);
        }
    }

    fn finish(&mut self, id: u32, now: Nanos) {
        let client = self.clients[id as usize];
        self.tx += 1.0;
        self.look_up();
        self.book.answered(client.arrived, client.begun, now, client.reads);
        if self.arrivals.is_none() {
            return self.begin(id, now, now);
        }
        self.clients[id as usize].phase = Phase::Idle;
        self.idle.push(id);
        self.begin_waiting(now);
    }

    fn expect_arrival(&mut self) {
        if let Some(at) = self.arrivals.as_mut().and_then(|(coming, _)| coming.next()) {
            self.push(at, Slot::Arrival);
        }
    }

    fn begin_waiting(&mut self, now: Nanos) {
        while self.backlog > 0 {
            let Some((_, begun)) = &mut self.arrivals else { return };
            let Some(id) = self.idle.pop() else { return };
            self.backlog -= 1;
            let arrived = begun.next().expect("as many begin as have come");
            self.begin(id, arrived, now);
        }
    }

    /// No room: for pages, because dirty ones are not written yet, or in the log buffer.
    #[inline]
    fn must_wait(&self) -> bool {
        self.cleaner.behind() > PAGES_BEHIND || self.logs[LOOSE].bytes > LOG_BUFFER
    }

    fn release(&mut self, now: Nanos) {
        while !self.stalled.is_empty() && !self.must_wait() {
            let Some(id) = self.stalled.pop_front() else { return };
            self.book.stalled(now - self.clients[id as usize].stalled);
            self.read_or_commit(id, now);
        }
    }

    fn clean(&mut self, now: Nanos) {
        self.book.summary.most_pages_behind = self.book.summary.most_pages_behind.max(self.cleaner.behind());
        while let Some((slot, carries)) = self.cleaner.next() {
            let io = if carries > 0 {
                self.cleaner.run_at = (self.cleaner.run_at + u64::from(RUN)) % DOUBLEWRITE_BYTES;
                Io { op: Op::Write, offset: self.cleaner.run_at, bytes: self.cleaner.run_bytes }
            } else {
                Io { op: Op::Write, offset: self.draws.place(), bytes: self.written_page.draw(&mut self.draws.of_place) }
            };
            self.submit(Slot::Cleaner(slot), 0, now, io, 0);
        }
    }

    fn page_written(&mut self, slot: u32, now: Nanos) {
        let carried = self.cleaner.carries[slot as usize];
        self.cleaner.free.push(slot);
        if carried > 0 {
            self.cleaner.in_runs -= carried;
            self.cleaner.ready += carried;
            self.book.summary.doublewrite_runs += 1;
        } else {
            self.cleaner.written += 1;
        }
        self.clean(now);
        self.release(now);
    }

    fn compact(&mut self, now: Nanos) {
        while let Some((slot, io)) = self.compaction.next(&self.draws) {
            self.compacted = true;
            self.submit(Slot::Compaction(slot), 0, now, io, 0);
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.push(now + TICK, Slot::Tick);
        // Background pages are left for later while the cleaner is behind.
        if self.cleaner.behind() <= PAGES_BEHIND / 2 {
            let database = self.scenario.database;
            let written = (self.cache.evicted_dirty + self.cache.flushed) * self.cache.shape;
            let background = database.writes.background(self.book.tps_before(), database.popularity.touches_per_tx(), written);
            self.cleaner.owe(background * self.cache.full * TICK.as_secs_f64());
            self.clean(now);
        }
        self.compaction.earn();
        self.compact(now);
        if now.0 % headrace_model::io::NANOS_PER_SECOND == 0 {
            self.write_loose(now, 1.0);
        }
    }

    /// Closes every row that ends by `now`.
    #[inline]
    pub fn reach(&mut self, now: Nanos) {
        while self.row_end <= now && self.row_end <= self.end {
            self.close_row();
        }
    }

    fn close_row(&mut self) {
        let waiting = self.arrivals.as_ref().filter(|_| self.backlog > 0).and_then(|(_, begun)| begun.clone().next());
        let under_way = self.clients.iter().filter(|client| client.phase != Phase::Idle).map(|client| client.arrived);
        let standing = Standing {
            seconds: self.step.as_secs_f64(),
            open: self.arrivals.is_some(),
            backlog: self.backlog as f64,
            cached_share: self.cache.cached_share,
            dirty_share: self.cache.dirty_share,
            curve_reads: self.cache.reads * self.cache.shape * self.factor,
            compacting: std::mem::take(&mut self.compacted) || self.compaction.is_merging(),
            oldest: under_way.chain(waiting).min(),
        };
        self.book.close_row(self.row_end, &self.host, &standing);
        self.row_end += self.step;
    }

    pub fn finish_run(mut self) -> ClientsRun {
        let summary = &mut self.book.summary;
        (summary.pages_owed, summary.pages_written) = (self.cleaner.owed, self.cleaner.written);
        self.book.finish()
    }
}
