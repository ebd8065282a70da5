//! Faults around the model: more latency, errors and no power when a request comes, pauses when it
//! would be answered. Slow and degraded members are the model's own business.

use headrace_model::{Nanos, Op};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing is answered before it ends.
    Pause,
    /// Each request takes this many ns longer.
    Latency(u64),
    /// Every Nth request fails, beginning with the first.
    Error(u64),
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the fault.
    pub id: u64,
    /// Effect of the fault.
    pub kind: FaultKind,
    /// Operations it strikes; None for both.
    pub op: Option<Op>,
    /// First moment.
    pub from: Nanos,
    /// First moment after it.
    pub until: Nanos,
}

/// The faults of one attached volume.
#[derive(Debug, Default)]
pub struct FaultInjector {
    any: AtomicBool,
    off: AtomicBool,
    faults: Mutex<Vec<(Fault, u64)>>,
}

/// Effect of all faults on a request, decided when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultVerdict {
    /// Earliest time of its answer.
    pub at: Nanos,
    /// True to answer with an error.
    pub fail: bool,
}

impl FaultInjector {
    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push((fault, 0));
        self.any.store(true, Ordering::Release);
    }

    /// Takes away the fault of that id, or all. Returns the number of faults taken away.
    pub fn clear(&self, id: Option<u64>) -> usize {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let before = faults.len();
        faults.retain(|(fault, _)| id.is_some_and(|id| id != fault.id));
        self.any.store(!faults.is_empty(), Ordering::Release);
        before - faults.len()
    }

    /// Returns the faults that have not ended.
    pub fn faults(&self, now: Nanos) -> Vec<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|(fault, _)| fault.until > now);
        self.any.store(!faults.is_empty(), Ordering::Release);
        faults.iter().map(|(fault, _)| *fault).collect()
    }

    /// Switches the power off or on. Off, every request fails at once.
    pub fn set_power(&self, on: bool) {
        self.off.store(!on, Ordering::Release);
    }

    /// Returns true if the power is off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Decides the effect of the faults on a request that came at `now` and would be answered at
    /// `at`.
    pub fn pass(&self, now: Nanos, op: Op, at: Nanos) -> FaultVerdict {
        if self.is_off() {
            return FaultVerdict { at: now, fail: true };
        }
        if !self.any.load(Ordering::Acquire) {
            return FaultVerdict { at, fail: false };
        }
        let mut passed = FaultVerdict { at, fail: false };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        for (fault, count) in faults.iter_mut() {
            if fault.op.is_some_and(|only| only != op) {
                continue;
            }
            match fault.kind {
                FaultKind::Latency(more) if fault.from <= now && now < fault.until => passed.at += Nanos(more),
                FaultKind::Error(every) if fault.from <= now && now < fault.until => {
                    passed.fail |= *count % every.max(1) == 0;
                    *count += 1;
                }
                _ => {}
            }
        }
        passed
    }

    /// Returns the time until which pauses hold an answer that would leave at `now`; None if it may
    /// leave. Asked again then: a pause may have been added or cleared meanwhile.
    pub fn pause_end(&self, now: Nanos, op: Op) -> Option<Nanos> {
        if !self.any.load(Ordering::Acquire) || self.is_off() {
            return None;
        }
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let pauses = faults.iter().map(|(fault, _)| fault).filter(|fault| fault.kind == FaultKind::Pause && fault.op.is_none_or(|only| only == op));
        pauses.filter(|fault| fault.from <= now && now < fault.until).map(|fault| fault.until).max()
    }
}
