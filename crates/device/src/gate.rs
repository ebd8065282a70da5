//! Faults that stand in front of the model: pauses, more latency, errors, no power. Slow and degraded members are the model's own business.

use headrace_model::{Nanos, Op};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing is answered before it ends.
    Pause,
    /// So many ns more for each request.
    Latency(u64),
    /// Every so many-th request fails, from the first on.
    Error(u64),
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// To name it by.
    pub id: u64,
    /// What.
    pub kind: Kind,
    /// Which operations; none: both.
    pub op: Option<Op>,
    /// First moment.
    pub from: Nanos,
    /// First moment after it.
    pub until: Nanos,
}

/// Where faults stand.
#[derive(Debug, Default)]
pub struct Gate {
    any: AtomicBool,
    off: AtomicBool,
    faults: Mutex<Vec<(Fault, u64)>>,
    seen_errors: AtomicU64,
}

/// What the gate makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// When it may be answered.
    pub at: Nanos,
    /// Answer with an error.
    pub fail: bool,
}

impl Gate {
    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push((fault, 0));
        self.any.store(true, Ordering::Release);
    }

    /// Takes away the fault of that id, or all; how many went.
    pub fn clear(&self, id: Option<u64>) -> usize {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let before = faults.len();
        faults.retain(|(fault, _)| id.is_some_and(|id| id != fault.id));
        self.any.store(!faults.is_empty(), Ordering::Release);
        before - faults.len()
    }

    /// Those that have not ended.
    pub fn faults(&self, now: Nanos) -> Vec<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|(fault, _)| fault.until > now);
        self.any.store(!faults.is_empty(), Ordering::Release);
        faults.iter().map(|(fault, _)| *fault).collect()
    }

    /// Power off or on. Off, every request fails at once.
    pub fn set_power(&self, on: bool) {
        self.off.store(!on, Ordering::Release);
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Requests failed by faults so far.
    pub fn errors(&self) -> u64 {
        self.seen_errors.load(Ordering::Relaxed)
    }

    /// A request that came at `now` and would be answered at `at`.
    pub fn pass(&self, now: Nanos, op: Op, at: Nanos) -> Passed {
        if self.is_off() {
            return Passed { at: now, fail: true };
        }
        if !self.any.load(Ordering::Acquire) {
            return Passed { at, fail: false };
        }
        let mut passed = Passed { at, fail: false };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        for (fault, count) in faults.iter_mut() {
            if fault.op.is_some_and(|only| only != op) {
                continue;
            }
            match fault.kind {
                // A request under way when the pause begins waits too.
                Kind::Pause if passed.at >= fault.from && now < fault.until => passed.at = passed.at.max(fault.until),
                Kind::Latency(more) if fault.from <= now && now < fault.until => passed.at += Nanos(more),
                Kind::Error(every) if fault.from <= now && now < fault.until => {
                    passed.fail |= *count % every.max(1) == 0;
                    *count += 1;
                }
                _ => {}
            }
        }
        if passed.fail {
            self.seen_errors.fetch_add(1, Ordering::Relaxed);
        }
        passed
    }
}
