//! Answers that wait for their time, good to some tens of microseconds.
//!
//! An answer may leave a little before its time, by [`EARLY_SHARE`] of its wait, when the thread is
//! awake for another: at tens of thousands a second that halves the wake-ups, and no wait is wrong
//! by more than the machine's own scatter.
//!
//! One thread sleeps until shortly before the earliest deadline and spins the rest. The distance is
//! learnt: the kernel's wake-ups are late by an amount that changes with the machine and its load.
//! A spin is at most [`MOST_MARGIN`] long, so an idle device costs nothing.

use crate::clock::Clock;
use headrace_model::Nanos;
use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bounds of how long before a deadline the thread wakes, ns: measured wake-ups of idle and loaded
/// machines lie between them.
const LEAST_MARGIN: u64 = 4_000;
const MOST_MARGIN: u64 = 60_000;
/// Closer than two answers can follow each other.
const LEAST_EARLY: u64 = 1_000;
/// The most by which an answer may leave early: ns, and the divisor of its wait.
const MOST_EARLY: u64 = 30_000;
const EARLY_SHARE: u64 = 32;
/// A thing that cannot be handed over at its time is asked about again after this many ns at most.
const AGAIN: u64 = 5_000_000;

struct Due<T> {
    at: u64,
    /// This many ns before `at` are near enough.
    early: u64,
    order: u64,
    what: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}
impl<T> Eq for Due<T> {}
impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Due<T> {
    // The heap gives the greatest first: the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Order {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Called with a thing, its deadline, and whether it must be done with now. A thing that it gives
/// back is asked about again, at that time or within 5 ms.
type Handle<T> = Box<dyn Fn(T, Nanos, bool) -> Option<(Nanos, T)> + Send + Sync>;

struct Queue<T> {
    heap: BinaryHeap<Due<T>>,
    order: u64,
    stopping: bool,
    /// True if the thread has ended: from now on `push` completes each request on the calling
    /// thread.
    ended: bool,
}

struct Shared<T> {
    handle: Handle<T>,
    queue: Mutex<Queue<T>>,
    wake: Condvar,
    /// Earliest deadline, for the spinning thread; u64::MAX when there is none.
    earliest: AtomicU64,
    /// Deadline the thread sleeps for; 0 while it is awake.
    sleeping_for: AtomicU64,
    clock: Clock,
}

/// Hands things over at their time.
pub struct Timer<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + 'static> Timer<T> {
    /// Starts the thread; `handle` is called in it with each thing, its deadline, and whether this
    /// is the last time: else it may give the thing back with a later deadline.
    pub fn start(clock: Clock, handle: impl Fn(T, Nanos, bool) -> Option<(Nanos, T)> + Send + Sync + 'static) -> std::io::Result<Timer<T>> {
        let queue = Mutex::new(Queue { heap: BinaryHeap::new(), order: 0, stopping: false, ended: false });
        let (earliest, sleeping_for) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let shared = Arc::new(Shared { handle: Box::new(handle), queue, wake: Condvar::new(), earliest, sleeping_for, clock });
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("headrace-timer".into()).spawn(move || {
            // The kernel may delay a sleeper by its slack, 50 us unless asked for less.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            worker.hand_over();
        })?;
        Ok(Timer { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Hands `what` over at `at`, or as soon as possible when that is past or the timer was
    /// stopped: nothing is ever left behind.
    pub fn push(&self, at: Nanos, what: T) {
        let mut queue = self.shared.lock();
        if queue.ended {
            drop(queue);
            (self.shared.handle)(what, at, true);
            return;
        }
        let early = (at.0.saturating_sub(self.shared.clock.now().0) / EARLY_SHARE).clamp(LEAST_EARLY, MOST_EARLY);
        let order = queue.order;
        queue.order += 1;
        queue.heap.push(Due { at: at.0, early, order, what });
        self.shared.earliest.fetch_min(at.0, Ordering::AcqRel);
        let asleep = self.shared.sleeping_for.load(Ordering::Acquire);
        drop(queue);
        if asleep > at.0 {
            self.shared.wake.notify_one();
        }
    }

    /// Returns the number of answers that wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().heap.len()
    }

    /// Hands everything over at once and ends the thread.
    pub fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl<T: Send + 'static> Drop for Timer<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<T: Send + 'static> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what is due, and sleeps or spins until the next deadline, until the timer is
    /// stopped and nothing waits.
    fn hand_over(&self) {
        let mut margin = Margin::default();
        let mut due: Vec<Due<T>> = Vec::new();
        let mut queue = self.lock();
        loop {
            let now = self.clock.now().0;
            let stopping = queue.stopping;
            while queue.heap.peek().is_some_and(|first| stopping || first.at <= now + first.early) {
                due.extend(queue.heap.pop());
            }
            let next = queue.heap.peek().map_or(u64::MAX, |first| first.at);
            self.earliest.store(next, Ordering::Release);
            if !due.is_empty() {
                drop(queue);
                let back: Vec<_> = due.drain(..).filter_map(|due| (self.handle)(due.what, Nanos(due.at), stopping)).collect();
                queue = self.lock();
                self.put_back(&mut queue, back);
            } else if stopping {
                queue.ended = true;
                return;
            } else if next > now + margin.nanos() {
                queue = self.sleep(queue, next, now, &mut margin);
            } else {
                drop(queue);
                self.spin();
                queue = self.lock();
            }
        }
    }

    /// Puts back what could not be handed over.
    fn put_back(&self, queue: &mut Queue<T>, back: Vec<(Nanos, T)>) {
        for (at, what) in back {
            let at = at.0.min(self.clock.now().0 + AGAIN);
            queue.heap.push(Due { at, early: 0, order: queue.order, what });
            queue.order += 1;
        }
    }

    /// Sleeps until the margin before the deadline `next`, or until a push or the stop wakes it,
    /// and learns how late it woke. Times are ns of device time.
    fn sleep<'a>(&'a self, queue: MutexGuard<'a, Queue<T>>, next: u64, now: u64, margin: &mut Margin) -> MutexGuard<'a, Queue<T>> {
        self.sleeping_for.store(next, Ordering::Release);
        let queue = if next == u64::MAX {
            self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
        } else {
            let wait_ns = next - now - margin.nanos();
            let (queue, timeout) = self.wake.wait_timeout(queue, Duration::from_nanos(wait_ns)).unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                margin.learn(self.clock.now().0.saturating_sub(now + wait_ns));
            }
            queue
        };
        self.sleeping_for.store(0, Ordering::Release);
        queue
    }

    fn spin(&self) {
        while self.clock.now().0 < self.earliest.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }
}

/// Margin before a deadline at which the thread wakes, ns: the recent lateness of wake-ups, and
/// half of that again.
#[derive(Default)]
struct Margin {
    late: u64,
}

impl Margin {
    fn nanos(&self) -> u64 {
        (self.late + self.late / 2).clamp(LEAST_MARGIN, MOST_MARGIN)
    }

    fn learn(&mut self, late: u64) {
        // Down slowly, up quickly, and no single stall counts for more than the most that can be
        // waited out.
        let late = late.min(MOST_MARGIN);
        self.late = if late > self.late { (self.late + late) / 2 } else { (self.late * 15 + late) / 16 };
    }
}
