//! The event loop's steps: what clients, logs, the page cleaner and compaction do when something
//! they waited for is done.

use super::background::{Cleaner, CompactionRuns, LogWriter, COMPACTION_DEPTH, RUN, TICK};
use super::draws::{stream, Draws, PoissonArrivals, Stream, DOUBLEWRITE_BYTES, FIRST_PAGE, LOG_AREA_BYTES};
use super::recorder::{ClientsRecorder, ClientsRun, RowState};
use super::row_locks::RowLocks;
use crate::demand::load::whole_sectors;
use crate::mysql::checkpoint::{CheckpointAge, ALL_BEGUN};
use crate::mysql::cleaner::{taken_up, CleanerPace, ROUND_DEPTH};
use crate::mysql::database::{Clients, RUN_BYTES};
use crate::mysql::interval::{commit_share, core_ms, Processors, Scenario, Start, TransactionLoad};
use crate::mysql::warmup::At;
use crate::setup::Setup;
use headrace_model::chance::poisson;
use headrace_model::first_touch::SnapshotOrigin;
use headrace_model::{Decision, Host, Instance, Io, Nanos, Op, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Pages the cleaner may be behind before clients wait for free ones: innodb_lru_scan_depth.
pub const PAGES_BEHIND: u64 = 1_024;
/// A transaction takes this long at least, so that time moves on.
pub(super) const MIN_OWN_TIME: Nanos = Nanos(1_000);
/// Transactions of an open load under way at once: as many as one NVMe queue of EBS holds.
const OPEN_THREADS: u32 = 1_024;
/// A row of which clients waited for less than this share tells what they do when they run
/// (chosen).
const MOSTLY_RAN: f64 = 0.5;
/// Log bytes without a sync of their own that may be buffered before clients wait:
/// innodb_log_buffer_size (16 MiB by default).
const LOG_BUFFER: f64 = 16.0 * 1_048_576.0;

/// Stage of a client's transaction.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Idle,
    Own,
    Processor,
    Serial,
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
    own: Nanos,
    work: Nanos,
    serial: Nanos,
    reads: u32,
    pages_left: u32,
    runs_left: u32,
    /// True while the read is one of a run.
    in_run: bool,
    syncs: u8,
    synced: u8,
}

const IDLE: Client = Client {
    phase: Phase::Idle,
    arrived: Nanos::ZERO,
    begun: Nanos::ZERO,
    stalled: Nanos::ZERO,
    own: Nanos::ZERO,
    work: Nanos::ZERO,
    serial: Nanos::ZERO,
    reads: 0,
    pages_left: 0,
    runs_left: 0,
    in_run: false,
    syncs: 0,
    synced: 0,
};

/// Meaning of a slot of the queue, after the clients' own.
#[derive(Clone, Copy)]
enum EventSlot {
    Client(u32),
    Log(usize),
    Tick,
    Arrival,
    Cleaner(u32),
    Compaction(u32),
}

/// Redo log, binary log, and what is written to either without a transaction that waits for it.
const LOGS: usize = 3;
const UNSYNCED: usize = 2;
const OTHER_SLOTS: u32 = LOGS as u32 + 2 + ROUND_DEPTH + COMPACTION_DEPTH;

impl EventSlot {
    /// Returns the number under which the queue of events knows this slot, in a run of `clients`
    /// clients.
    fn number(self, clients: u32) -> u32 {
        match self {
            EventSlot::Client(id) => id,
            EventSlot::Log(log) => clients + log as u32,
            EventSlot::Tick => clients + 3,
            EventSlot::Arrival => clients + 4,
            EventSlot::Cleaner(slot) => clients + 5 + slot,
            EventSlot::Compaction(slot) => clients + 5 + ROUND_DEPTH + slot,
        }
    }

    /// Returns the slot of a number, as [`EventSlot::number`] gave it.
    fn from_number(number: u32, clients: u32) -> EventSlot {
        if number < clients {
            return EventSlot::Client(number);
        }
        match number - clients {
            log @ 0..=2 => EventSlot::Log(log as usize),
            3 => EventSlot::Tick,
            4 => EventSlot::Arrival,
            n if n - 5 < ROUND_DEPTH => EventSlot::Cleaner(n - 5),
            n => EventSlot::Compaction(n - 5 - ROUND_DEPTH),
        }
    }
}

/// Servers, first come first served: virtual CPUs, or the one of the serial resource. The answer is
/// known when a job comes.
struct Servers {
    free_at: BinaryHeap<Reverse<Nanos>>,
    /// Processors whose threads slow each other down; none: each has one of its own.
    processors: Option<Processors>,
    /// Threads that spin without work.
    spinning: u32,
}

impl Servers {
    /// Makes `count` idle servers.
    fn new(count: u32, processors: Option<Processors>) -> Servers {
        Servers { free_at: (0..count).map(|_| Reverse(Nanos::ZERO)).collect(), processors, spinning: 0 }
    }

    /// Takes a job that is handed over at `now`; returns when it is done, and how long it waited to
    /// be begun. It is as much slower as its core is likely to be shared when it begins.
    fn take(&mut self, now: Nanos, work: Nanos) -> (Nanos, Nanos) {
        let Some(Reverse(first)) = self.free_at.pop() else { return (now + work, Nanos::ZERO) };
        let begun = now.max(first);
        let work = if self.processors.is_some() { Nanos::from_secs_f64(work.as_secs_f64() / self.speed(begun)) } else { work };
        self.free_at.push(Reverse(begun + work));
        (begun + work, begun - now)
    }

    /// Returns the speed of one more job from `begun` on, 1 alone: any of the others may share its
    /// core.
    fn speed(&self, begun: Nanos) -> f64 {
        let Some(processors) = &self.processors else { return 1.0 };
        let others = self.free_at.iter().filter(|free| free.0 > begun).count() as f64;
        let all = (self.free_at.len() as f64).max(1.0);
        processors.speed_among((others + f64::from(self.spinning)).min(all) / all)
    }
}

/// The synchronous flush of a full redo log. Clients do some transactions during it, then wait
/// until its pages are written.
#[derive(Default)]
struct SynchronousFlush {
    under_way: bool,
    until_written: u64,
    /// Pages written when the checkpointer asks again; none: it has.
    asks_again_at: Option<u64>,
    /// Transactions that have begun during it, and those that still may.
    begun_tx: f64,
    room_tx: f64,
    waiting_since: Option<Nanos>,
    /// Waits of the row, ns.
    waited: u64,
}

impl SynchronousFlush {
    /// Returns whether clients wait for its pages.
    fn is_waited_for(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Begins a flush, or extends the one under way: it is over once `until_written` pages are
    /// written in the run, of which `written` are. Clients may do `room_tx` transactions meanwhile.
    fn begin(&mut self, (written, until_written): (u64, u64), room_tx: f64) {
        if !self.under_way {
            (self.begun_tx, self.room_tx) = (0.0, room_tx);
            self.asks_again_at = Some(written + (ALL_BEGUN * until_written.saturating_sub(written) as f64) as u64);
        }
        (self.under_way, self.until_written) = (true, until_written);
    }

    /// Counts a transaction that has begun. Returns whether clients wait from now on.
    fn use_room(&mut self, now: Nanos) -> bool {
        if !self.under_way || self.is_waited_for() {
            return false;
        }
        self.begun_tx += 1.0;
        self.room_tx -= 1.0;
        let full = self.room_tx < 0.0;
        if full {
            self.waiting_since = Some(now);
        }
        full
    }

    /// Returns the transactions of clients since its begin where the checkpointer asks again now
    /// that these pages are written.
    fn asks_again(&mut self, written: u64) -> Option<f64> {
        let due = self.under_way && self.asks_again_at.is_some_and(|pages| written >= pages);
        due.then(|| {
            self.asks_again_at = None;
            self.begun_tx
        })
    }

    /// Ends the flush once its pages are written, and counts how long clients waited for it.
    fn end_if_written(&mut self, written: u64, now: Nanos) {
        if self.under_way && written >= self.until_written {
            self.under_way = false;
            self.waited += self.waiting_since.take().map_or(0, |since| now.since(since).0);
        }
    }

    /// Returns the share of the row that ends at `end` in which clients waited, and forgets it.
    fn take_share(&mut self, end: Nanos, length: Nanos) -> f64 {
        if let Some(since) = &mut self.waiting_since {
            self.waited += end.since(*since).0;
            *since = end;
        }
        std::mem::take(&mut self.waited) as f64 / length.0 as f64
    }
}

/// Work of processors that no client waits for. It is handed over in jobs as long as that of a
/// transaction, so that clients wait for it as for each other.
struct BackgroundWork {
    /// On a core by itself: of a transaction, of an I/O, and of a job, ms.
    transaction_ms: f64,
    io_ms: f64,
    job_ms: f64,
    /// Part of `io_ms` that passes before the volume answers ([`Clients::io_device_ms`]).
    io_device_ms: f64,
    /// Not yet a job.
    owed_ms: f64,
}

impl BackgroundWork {
    /// Makes the background of clients that behave so; `of_core_ms` gives processor time on a core
    /// by itself, ms.
    fn new(behaviour: &Clients, of_core_ms: impl Fn(f64) -> f64) -> BackgroundWork {
        let (transaction_ms, io_ms) = (of_core_ms(behaviour.cpu_ms * behaviour.background_share), of_core_ms(behaviour.io_ms));
        let io_device_ms = of_core_ms(behaviour.io_device_ms).min(io_ms);
        BackgroundWork { transaction_ms, io_ms, job_ms: (of_core_ms(behaviour.cpu_ms) - transaction_ms).max(io_ms), io_device_ms, owed_ms: 0.0 }
    }

    /// Adds `more_ms` to what is owed and takes the whole jobs of it.
    fn take_jobs(&mut self, more_ms: f64) -> u32 {
        self.owed_ms += more_ms;
        let jobs = if self.job_ms > 0.0 { (self.owed_ms / self.job_ms).floor() } else { 0.0 };
        self.owed_ms -= jobs * self.job_ms;
        jobs as u32
    }
}

/// A run under way.
pub struct ClientsSim<'a> {
    scenario: &'a Scenario<'a>,
    host: Host,
    log_device: usize,
    pub queue: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Device and bytes of the request a slot waits for.
    requests: Vec<(usize, u32)>,
    clients: Vec<Client>,
    count: u32,
    idle: Vec<u32>,
    stalled: VecDeque<u32>,
    row_locks: RowLocks,
    draws: Draws,
    /// Clients as they behave alone on the processors.
    behaviour: Clients,
    processors: Option<Servers>,
    /// Processor time of a transaction that its client waits for, on a core by itself, ms; none
    /// where processors never bind.
    core_ms: f64,
    background: BackgroundWork,
    /// Factor on the processor time of I/Os and of the background (`Processors::crowding`).
    crowding: f64,
    /// Factor on the other processor time that a client waits for: it has the time in which first
    /// caches are filled again too (`Processors::refilling`).
    own_crowding: f64,
    serial: Servers,
    /// Clients that have the serial resource or wait for it, and whether these spin.
    in_serial: u32,
    waiters_spin: bool,
    logs: [LogWriter; LOGS],
    cleaner: Cleaner,
    checkpoint: CheckpointAge,
    stop: SynchronousFlush,
    /// Transactions a second of the last row in which clients mostly ran.
    pace: f64,
    /// Share of its rate that the page cleaner had taken up at the beginning of the row.
    taken_up: f64,
    compaction: CompactionRuns<'a>,
    /// Arrivals as they come, and again as they are begun: those between the two wait.
    arrivals: Option<(PoissonArrivals<'a>, PoissonArrivals<'a>)>,
    backlog: u64,
    tx: f64,
    hint: usize,
    cache: At,
    factor: f64,
    recorder: ClientsRecorder,
    row_end: Nanos,
    step: Nanos,
    pub end: Nanos,
    compacted: bool,
    pub lost: bool,
}

impl<'a> ClientsSim<'a> {
    /// Makes a run at 0 s, in which no client has begun.
    pub fn new(scenario: &'a Scenario<'a>) -> ClientsSim<'a> {
        let database = scenario.database;
        let (host, log_device) = host_of(scenario);
        let (count, arrivals) = match &scenario.load {
            TransactionLoad::Clients(clients) => (*clients, None),
            TransactionLoad::Arrivals(rates) => {
                let arrivals = PoissonArrivals::new(scenario, rates);
                (OPEN_THREADS, Some((arrivals.clone(), arrivals)))
            }
        };
        let arrivals_come = arrivals.is_some();
        let processors = scenario.processors();
        let behaviour = database.clients.alone_on(processors.as_ref());
        let of_core_ms = |cpu_ms: f64| processors.map_or(core_ms(cpu_ms), |processors| processors.of_core_ms(cpu_ms));
        let background = BackgroundWork::new(&behaviour, of_core_ms);
        let transaction_ms = of_core_ms(behaviour.cpu_ms);
        let own_ms = transaction_ms - background.transaction_ms;
        let processors = processors.filter(|_| behaviour.cpu_ms + behaviour.io_ms > 0.0);
        let crowded = processors.filter(|_| !arrivals_come);
        let crowding = crowded.map_or(1.0, |processors| processors.crowding(f64::from(count)));
        let refilling = crowded.map_or(0.0, |processors| processors.refilling(f64::from(count), behaviour.handover_share));
        let tx = scenario.start_tx();
        let area = |log: usize| if log_device == 0 { DOUBLEWRITE_BYTES + log as u64 * LOG_AREA_BYTES } else { log as u64 * LOG_AREA_BYTES };
        let step = Nanos::from_secs_f64(scenario.step_s);
        let end = Nanos(step.0 * (f64::from(scenario.seconds) / scenario.step_s).ceil() as u64);
        ClientsSim {
            scenario,
            host,
            log_device,
            queue: BinaryHeap::with_capacity((count + OTHER_SLOTS) as usize),
            requests: vec![(0, 0); (count + OTHER_SLOTS) as usize],
            clients: vec![IDLE; count as usize],
            count,
            idle: if arrivals.is_some() { (0..count).rev().collect() } else { Vec::new() },
            stalled: VecDeque::new(),
            row_locks: RowLocks::new(database, count, commit_share(scenario), stream(scenario, Stream::Rows)),
            draws: Draws::new(scenario),
            behaviour,
            core_ms: processors.map_or(0.0, |_| own_ms),
            background,
            crowding,
            own_crowding: crowding + if own_ms > 0.0 { refilling * transaction_ms / own_ms } else { 0.0 },
            processors: processors.map(|processors| Servers::new(processors.threads, Some(processors).filter(|own| own.lost_by_others() > 0.0))),
            serial: Servers::new(1, None),
            in_serial: 0,
            waiters_spin: database.waiters_spin(),
            logs: [0, 1, 2].map(|log| LogWriter { start: area(log), ..LogWriter::default() }),
            cleaner: Cleaner::new(database),
            checkpoint: CheckpointAge::new(database, scenario.start == Start::Warm),
            stop: SynchronousFlush::default(),
            pace: 0.0,
            taken_up: 1.0,
            compaction: CompactionRuns::new(database.compaction.as_ref(), tx),
            arrivals,
            backlog: 0,
            tx,
            hint: 0,
            cache: At::default(),
            factor: 1.0,
            recorder: ClientsRecorder::new(end.as_secs_f64(), database.clients.sharpness),
            row_end: step,
            step,
            end,
            compacted: false,
            lost: false,
        }
    }

    /// Puts the first events into the queue: those of all clients or the first arrival, and the
    /// first tick.
    pub fn start_clients(&mut self) {
        self.update_rates();
        self.push(TICK, EventSlot::Tick);
        match self.scenario.load {
            TransactionLoad::Clients(clients) => (0..clients).for_each(|id| self.begin(id, Nanos::ZERO, Nanos::ZERO)),
            TransactionLoad::Arrivals(_) => self.expect_arrival(),
        }
    }

    /// Adds an event of a slot to the queue.
    #[inline]
    fn push(&mut self, at: Nanos, slot: EventSlot) {
        self.queue.push(Reverse((at, slot.number(self.count))));
    }

    /// Hands a request to a device; `waiting` transactions wait for it.
    #[inline]
    fn submit(&mut self, slot: EventSlot, device: usize, now: Nanos, io: Io, waiting: u64) {
        let decision: Decision = self.host.submit(device, now, io);
        self.lost |= decision.verdict == Verdict::Failed;
        self.recorder.note_decision(device, now, &decision, waiting);
        if !matches!(slot, EventSlot::Client(_)) {
            self.work_in_background(now, self.background.io_ms);
        }
        self.requests[slot.number(self.count) as usize] = (device, io.bytes);
        self.push(decision.complete, slot);
    }

    /// Hands work to the processors that no client waits for, ms on a core by itself.
    #[inline]
    fn work_in_background(&mut self, now: Nanos, core_ms: f64) {
        let Some(processors) = &mut self.processors else { return };
        for _ in 0..self.background.take_jobs(self.crowding * core_ms) {
            processors.take(now, Nanos::from_secs_f64(self.background.job_ms / 1e3));
        }
    }

    /// Counts the request that a slot has waited for as answered.
    #[inline]
    fn count_answer(&mut self, number: u32) {
        let (device, bytes) = self.requests[number as usize];
        self.recorder.note_io_answer(device, bytes);
    }

    /// Handles the event of slot `number`: counts a request that was answered, and begins what
    /// waited for it.
    pub fn handle(&mut self, number: u32, now: Nanos) {
        match EventSlot::from_number(number, self.count) {
            EventSlot::Client(id) => {
                let client = self.clients[id as usize];
                if client.phase == Phase::Reading {
                    self.count_answer(number);
                    *(if client.in_run { &mut self.recorder.summary.read_ahead_runs } else { &mut self.recorder.summary.page_reads }) += 1;
                }
                self.resume_transaction(id, now);
            }
            EventSlot::Log(log) => {
                self.count_answer(number);
                self.log_written(log, now);
            }
            EventSlot::Tick => self.tick(now),
            EventSlot::Arrival => {
                self.backlog += 1;
                self.begin_arrivals(now);
                self.expect_arrival();
            }
            EventSlot::Cleaner(slot) => {
                self.count_answer(number);
                self.cleaner_wrote(slot, now);
            }
            EventSlot::Compaction(slot) => {
                self.count_answer(number);
                self.recorder.summary.compaction_ios += 1;
                self.compaction.free.push(slot);
                self.submit_compaction(now);
            }
        }
    }

    /// Sets the state of the cache and the factor of compaction to the transactions done so far.
    fn update_rates(&mut self) {
        self.cache = self.scenario.warm_up.at_pace(self.tx, &mut self.hint, CleanerPace { tps: self.pace, taken_up: self.taken_up });
        self.factor = self.compaction.factor(self.tx);
    }

    /// Begins a transaction: draws its length, reads and syncs, locks its hot rows, and hands the
    /// page cleaner the pages that it makes due.
    fn begin(&mut self, id: u32, arrived: Nanos, now: Nanos) {
        let database = self.scenario.database;
        let length = self.draws.length();
        let serial_ms = self.behaviour.serial_share * self.behaviour.core_ms();
        let processors = self.processors.as_ref().map_or(f64::INFINITY, |processors| processors.free_at.len() as f64);
        let base_ms = self.behaviour.base_at(self.pace, processors);
        let reads = self.cache.reads * self.cache.shape * self.factor;
        let ahead = database.read_ahead_share;
        let runs_left = if ahead > 0.0 { poisson(&mut self.draws.of_tx, reads * ahead * database.read_bytes / RUN_BYTES) } else { 0 };
        let pages = poisson(&mut self.draws.of_tx, reads * (1.0 - ahead));
        let pages_ahead = (f64::from(runs_left) * RUN_BYTES / database.read_bytes) as u32;
        let ios_ms = f64::from(pages) * (self.background.io_ms - self.background.io_device_ms);
        let (ios_alone_ms, ios_work_ms) = if self.processors.is_some() { (0.0, ios_ms) } else { (ios_ms, 0.0) };
        let own_s = (base_ms - self.core_ms - serial_ms).max(0.0) / 1e3 * length + ios_alone_ms / 1e3;
        let own = Nanos::from_secs_f64(own_s).max(MIN_OWN_TIME);
        self.clients[id as usize] = Client {
            phase: Phase::Own,
            arrived,
            begun: now,
            stalled: Nanos::ZERO,
            own,
            work: Nanos::from_secs_f64(self.own_crowding * self.core_ms / 1e3 * length + self.crowding * ios_work_ms / 1e3),
            serial: Nanos::from_secs_f64(self.own_crowding * serial_ms / 1e3 * length),
            reads: pages + pages_ahead,
            pages_left: pages,
            runs_left,
            in_run: false,
            syncs: self.draws.whole(database.log.syncs_per_commit),
            synced: 0,
        };
        if self.row_locks.begin(id) {
            self.push(now + own, EventSlot::Client(id));
        }
        let due = self.cache.flushed;
        // The cleaner does nothing else during a synchronous flush.
        let flushed = if self.stop.under_way {
            0.0
        } else {
            self.checkpoint.flushed(&database.page_writes(self.cache.full >= 1.0), due, self.pace, self.step.as_secs_f64())
        };
        self.cleaner.owe((self.cache.evicted_dirty + flushed) * self.cache.shape);
        if let Some((at_once, room_tx)) = self.checkpoint.begin(due, flushed, self.pace) {
            self.cleaner.owe(at_once * self.cache.shape);
            self.cleaner.hurry();
            self.stop.begin((self.cleaner.written, self.cleaner.sure_of_all()), room_tx);
        }
        if self.stop.use_room(now) && self.stop.asks_again_at.take().is_some() {
            self.flush_more(None);
        }
        self.submit_cleaner_writes(now);
    }

    /// Begins what a transaction does next, now that what it waited for is done.
    fn resume_transaction(&mut self, id: u32, now: Nanos) {
        if self.clients[id as usize].phase == Phase::Serial {
            self.count_in_serial(self.in_serial - 1);
        }
        let client = &mut self.clients[id as usize];
        if client.phase == Phase::Own {
            client.phase = Phase::Processor;
            let work = client.work;
            if let Some(processors) = &mut self.processors {
                let (done, waited) = processors.take(now, work);
                self.recorder.note_processor_wait(waited);
                return self.push(done, EventSlot::Client(id));
            }
        }
        let client = &mut self.clients[id as usize];
        if client.phase == Phase::Processor && client.serial > Nanos::ZERO {
            client.phase = Phase::Serial;
            let speed = self.processors.as_ref().map_or(1.0, |processors| processors.speed(now));
            let (done, waited) = self.serial.take(now, Nanos::from_secs_f64(client.serial.as_secs_f64() / speed));
            self.recorder.note_serial_wait(waited);
            self.count_in_serial(self.in_serial + 1);
            return self.push(done, EventSlot::Client(id));
        }
        if self.is_out_of_room() {
            let client = &mut self.clients[id as usize];
            (client.phase, client.stalled) = (Phase::Stalled, now);
            return self.stalled.push_back(id);
        }
        self.read_or_commit(id, now);
    }

    /// Sets the number of clients in the serial resource. All but one of them wait, and spin where
    /// the server's threads do.
    fn count_in_serial(&mut self, count: u32) {
        self.in_serial = count;
        if let Some(processors) = self.processors.as_mut().filter(|_| self.waiters_spin) {
            processors.spinning = count.saturating_sub(1);
        }
    }

    /// Submits the next read of a transaction, runs first; after the last one begins its commit.
    fn read_or_commit(&mut self, id: u32, now: Nanos) {
        let client = &mut self.clients[id as usize];
        (client.phase, client.in_run) = (Phase::Reading, client.runs_left > 0);
        if client.runs_left > 0 {
            client.runs_left -= 1;
            self.work_in_background(now, self.background.io_ms);
            let offset = self.draws.place() / u64::from(RUN) * u64::from(RUN);
            return self.submit(EventSlot::Client(id), 0, now, Io { op: Op::Read, offset, bytes: RUN }, 1);
        }
        if client.pages_left > 0 {
            client.pages_left -= 1;
            self.work_in_background(now, self.background.io_device_ms);
            let io = Io { op: Op::Read, offset: self.draws.place(), bytes: whole_sectors(&mut self.draws.of_place, self.scenario.database.read_bytes) };
            return self.submit(EventSlot::Client(id), 0, now, io, 1);
        }
        client.phase = Phase::Commit;
        let (syncs, log) = (client.syncs, &self.scenario.database.log);
        // Bytes that no sync of this transaction writes leave in runs.
        let unsynced = if syncs == 0 { log.redo_bytes_per_tx } else { 0.0 } + if syncs < 2 { log.binlog_bytes_per_tx } else { 0.0 };
        if unsynced > 0.0 {
            self.logs[UNSYNCED].bytes += unsynced;
            self.write_unsynced(now, RUN_BYTES);
        }
        self.sync_or_finish(id, now);
    }

    /// Queues a transaction for the next sync of its commit: redo log and binary log in turn, each
    /// with its share of the bytes. Finishes it after the last one.
    fn sync_or_finish(&mut self, id: u32, now: Nanos) {
        let client = &mut self.clients[id as usize];
        if client.synced == client.syncs {
            return self.finish(id, now);
        }
        let sizes = &self.scenario.database.log;
        let (log, bytes) = match client.synced {
            0 => (0, sizes.redo_bytes_per_tx),
            1 if sizes.binlog_bytes_per_tx > 0.0 => (1, sizes.binlog_bytes_per_tx),
            _ => (0, 0.0),
        };
        client.synced += 1;
        self.logs[log].bytes += bytes;
        self.logs[log].waiting.push(id);
        if !self.logs[log].busy {
            self.sync(log, now);
        }
    }

    /// Writes a log for all transactions that wait for it, as many bytes as there are.
    fn sync(&mut self, log: usize, now: Nanos) {
        let writer = &mut self.logs[log];
        writer.busy = true;
        std::mem::swap(&mut writer.waiting, &mut writer.group);
        let group = writer.group.len() as u64;
        let io = writer.next(LOG_AREA_BYTES as f64);
        self.submit(EventSlot::Log(log), self.log_device, now, io, group);
    }

    /// Lets the transactions of a log write go on, and begins the next write if others wait for it.
    fn log_written(&mut self, log: usize, now: Nanos) {
        if log == UNSYNCED {
            self.recorder.summary.log_runs += 1;
            self.logs[UNSYNCED].busy = false;
            self.write_unsynced(now, RUN_BYTES);
            return self.resume_stalled(now);
        }
        self.recorder.summary.log_syncs += 1;
        let mut group = std::mem::take(&mut self.logs[log].group);
        // Still busy meanwhile: transactions that sync again share the next write with those that
        // wait.
        group.drain(..).for_each(|id| self.sync_or_finish(id, now));
        self.logs[log].group = group;
        if self.logs[log].waiting.is_empty() {
            self.logs[log].busy = false;
        } else {
            self.sync(log, now);
        }
    }

    /// Writes log bytes that no transaction waits for, once there are `least` of them.
    fn write_unsynced(&mut self, now: Nanos, least: f64) {
        let writer = &mut self.logs[UNSYNCED];
        if !writer.busy && writer.bytes >= least {
            writer.busy = true;
            let io = writer.next(RUN_BYTES);
            self.submit(EventSlot::Log(UNSYNCED), self.log_device, now, io, 0);
        }
    }

    /// Counts a transaction as answered, releases its rows, and begins the client's next one or an
    /// arrival that waits.
    fn finish(&mut self, id: u32, now: Nanos) {
        let client = self.clients[id as usize];
        self.tx += 1.0;
        self.work_in_background(now, self.background.transaction_ms);
        self.update_rates();
        self.recorder.note_answer(client.arrived, client.begun, now, client.reads);
        for next in self.row_locks.release(id) {
            let waiting = self.clients[next as usize];
            self.recorder.note_serial_wait(now.since(waiting.begun));
            self.push(now + waiting.own, EventSlot::Client(next));
        }
        if self.arrivals.is_none() {
            return self.begin(id, now, now);
        }
        self.clients[id as usize].phase = Phase::Idle;
        self.idle.push(id);
        self.begin_arrivals(now);
    }

    /// Adds the next arrival to the queue; nothing without an open load.
    fn expect_arrival(&mut self) {
        if let Some(at) = self.arrivals.as_mut().and_then(|(coming, _)| coming.next()) {
            self.push(at, EventSlot::Arrival);
        }
    }

    /// Begins arrivals that wait, oldest first, while threads are idle.
    fn begin_arrivals(&mut self, now: Nanos) {
        while self.backlog > 0 {
            let Some((_, begun)) = &mut self.arrivals else { return };
            let Some(id) = self.idle.pop() else { return };
            self.backlog -= 1;
            let arrived = begun.next().expect("as many begin as have come");
            self.begin(id, arrived, now);
        }
    }

    /// Returns whether transactions must wait: the page cleaner is too far behind to free pages, or
    /// the log buffer is full.
    #[inline]
    fn is_out_of_room(&self) -> bool {
        let behind = !self.stop.under_way && self.cleaner.is_behind(PAGES_BEHIND);
        self.stop.is_waited_for() || behind || self.logs[UNSYNCED].bytes > LOG_BUFFER
    }

    /// Lets stalled transactions go on, oldest first, while there is room for them.
    fn resume_stalled(&mut self, now: Nanos) {
        while !self.stalled.is_empty() && !self.is_out_of_room() {
            let Some(id) = self.stalled.pop_front() else { return };
            self.recorder.note_stall(now - self.clients[id as usize].stalled);
            self.read_or_commit(id, now);
        }
    }

    /// Submits the writes that the page cleaner may have outstanding.
    fn submit_cleaner_writes(&mut self, now: Nanos) {
        self.recorder.summary.most_pages_behind = self.recorder.summary.most_pages_behind.max(self.cleaner.behind());
        while let Some((slot, carries)) = self.cleaner.next() {
            let io = if carries > 0 {
                self.cleaner.run_at = (self.cleaner.run_at + u64::from(RUN)) % DOUBLEWRITE_BYTES;
                Io { op: Op::Write, offset: self.cleaner.run_at, bytes: self.cleaner.run_bytes }
            } else {
                Io { op: Op::Write, offset: self.draws.place(), bytes: whole_sectors(&mut self.draws.of_place, self.scenario.database.cached_bytes) }
            };
            self.submit(EventSlot::Cleaner(slot), 0, now, io, 0);
        }
    }

    /// Counts a write of the page cleaner that has ended: a run of the doublewrite buffer, whose
    /// pages can then be written in place, or a page in its place.
    fn cleaner_wrote(&mut self, slot: u32, now: Nanos) {
        let carried = self.cleaner.carries[slot as usize];
        self.cleaner.free.push(slot);
        if carried > 0 {
            self.cleaner.in_runs -= carried;
            self.cleaner.ready += carried;
            self.recorder.summary.doublewrite_runs += 1;
        } else {
            self.cleaner.written += 1;
            if let Some(begun_tx) = self.stop.asks_again(self.cleaner.written) {
                self.flush_more(Some(begun_tx));
            }
            self.stop.end_if_written(self.cleaner.written, now);
        }
        self.submit_cleaner_writes(now);
        self.resume_stalled(now);
    }

    /// Extends a synchronous flush when the checkpointer asks again: see
    /// [`CheckpointAge::ask_again`].
    fn flush_more(&mut self, done_tx: Option<f64>) {
        self.cleaner.owe(self.checkpoint.ask_again(self.cache.flushed, done_tx) * self.cache.shape);
        self.cleaner.hurry();
        self.stop.until_written = self.cleaner.sure_of_all();
    }

    /// Submits the reads and writes that compaction may have outstanding.
    fn submit_compaction(&mut self, now: Nanos) {
        while let Some((slot, io)) = self.compaction.next(&self.draws) {
            self.compacted = true;
            self.submit(EventSlot::Compaction(slot), 0, now, io, 0);
        }
    }

    /// Does what is due every ten milliseconds: a round of the page cleaner, pages in the
    /// background, compaction, and once a second log bytes that no sync has written.
    fn tick(&mut self, now: Nanos) {
        self.push(now + TICK, EventSlot::Tick);
        if self.cleaner.begin_round(now) {
            self.submit_cleaner_writes(now);
        }
        // Background pages are left for later while the cleaner is behind.
        if self.cleaner.behind() <= PAGES_BEHIND / 2 {
            let database = self.scenario.database;
            let written = (self.cache.evicted_dirty + self.cache.flushed) * self.cache.shape;
            let background = database.writes.background(self.pace, database.popularity.touches_per_tx(), written);
            let early = background * self.cache.full * TICK.as_secs_f64();
            self.cleaner.owe(early);
            self.checkpoint.wrote_early(early);
            self.submit_cleaner_writes(now);
        }
        self.compaction.earn();
        self.submit_compaction(now);
        if now.0 % headrace_model::io::NANOS_PER_SECOND == 0 {
            self.write_unsynced(now, 1.0);
        }
    }

    /// Closes every row that ends by `now`.
    #[inline]
    pub fn reach(&mut self, now: Nanos) {
        while self.row_end <= now && self.row_end <= self.end {
            self.close_row();
        }
    }

    /// Ends the row at hand and takes its rate for the cleaner's pace, unless clients mostly waited
    /// for a synchronous flush.
    fn close_row(&mut self) {
        let waiting = self.arrivals.as_ref().filter(|_| self.backlog > 0).and_then(|(_, begun)| begun.clone().next());
        let under_way = self.clients.iter().filter(|client| client.phase != Phase::Idle).map(|client| client.arrived);
        let state = RowState {
            seconds: self.step.as_secs_f64(),
            open: self.arrivals.is_some(),
            backlog: self.backlog as f64,
            cached_share: self.cache.cached_share,
            dirty_share: self.cache.dirty_share,
            written_per_tx: (self.cache.evicted_dirty + self.cache.flushed) * self.cache.shape,
            curve_reads: self.cache.reads * self.cache.shape * self.factor,
            compacting: std::mem::take(&mut self.compacted) || self.compaction.is_running(),
            stopped_share: self.stop.take_share(self.row_end, self.step),
            oldest: under_way.chain(waiting).min(),
        };
        self.recorder.close_row(self.row_end, &self.host, &state);
        if let Some(row) = self.recorder.last_row().filter(|row| row.stopped_share < MOSTLY_RAN) {
            self.pace = row.tps / (1.0 - row.stopped_share);
        }
        self.taken_up = if self.scenario.start == Start::Cold { taken_up(self.row_end.as_secs_f64()) } else { 1.0 };
        self.row_end += self.step;
    }

    /// Returns the rows and the summary, with the pages of the cleaner.
    pub fn finish_run(mut self) -> ClientsRun {
        let summary = &mut self.recorder.summary;
        (summary.pages_owed, summary.pages_written) = (self.cleaner.owed, self.cleaner.written);
        self.recorder.finish()
    }
}

/// Makes the devices for data and log, with the instance they share; returns them with the index of
/// the log's device. Seeds keep data, log and runs apart.
fn host_of(scenario: &Scenario<'_>) -> (Host, usize) {
    let alone = |setup: &Setup, salt: u64| {
        let seed = setup.seed.wrapping_add(scenario.seed.unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(salt);
        // A snapshot holds the pages, and what lies in front of them.
        let snapshot = setup.snapshot.map(|origin| SnapshotOrigin { written_bytes: FIRST_PAGE + origin.written_bytes, ..origin });
        Setup { instance: None, seed, snapshot, ..setup.clone() }.host().devices
    };
    let mut devices = alone(scenario.data, 0);
    devices.extend(scenario.log.into_iter().flat_map(|log| alone(log, 1 << 40)));
    let instance = scenario.instance.map(|limits| {
        let mut instance = Instance::new(limits, scenario.data.options.saved_second);
        if let Some(percent) = scenario.data.start_balance_percent {
            instance.set_balance_percent(Nanos::ZERO, percent);
        }
        instance
    });
    let log = devices.len() - 1;
    (Host { instance, devices }, log)
}
