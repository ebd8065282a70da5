//! What an instance lets through to all its volumes together.
//!
//! Every instance type has EBS limits in IOPS (of 16 KiB) and bytes a second. Small sizes have a baseline and a maximum: AWS promises the maximum for
//! at least 30 minutes once every 24 hours. The bucket behind that is not published; the natural one is taken, and said to be taken:
//! it holds 30 minutes of (maximum - baseline), refills at what is left of the baseline, and is full again after 24 hours whatever happened. I/Os and bytes have
//! balances of their own (CloudWatch: EBSIOBalance%, EBSByteBalance%).
//!
//! The instance stage comes first: a request leaves the host in order of arrival, then meets its volume's own limiter.

use crate::accounting::Accounting;
use crate::bucket::{Bucket, BucketState};
use crate::io::{Cap, Io};
use crate::time::Nanos;
use crate::volume::Balance;
use headrace_catalog::InstanceLimits;
use serde::{Deserialize, Serialize};

/// The burst bucket is full again this often.
pub const TOP_UP_EVERY: Nanos = Nanos::from_secs(24 * 3_600);

/// One limit with its burst bucket.
#[derive(Clone, Debug)]
struct Limit {
    cap: Bucket,
    credits: Option<Bucket>,
}

/// The EBS limits of one instance, shared by every volume attached to it.
#[derive(Clone, Debug)]
pub struct Instance {
    iops: Option<Limit>,
    bytes: Option<Limit>,
    accounting: Accounting,
    last_start: Nanos,
    next_top_up: Nanos,
}

/// Balances of the two burst buckets; none where the type has no burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceBalances {
    /// I/Os, as EBSIOBalance%.
    pub ios: Option<Balance>,
    /// Bytes, as EBSByteBalance%.
    pub bytes: Option<Balance>,
}

/// What changes in an instance, for saving.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceState {
    iops: Option<(BucketState, Option<BucketState>)>,
    bytes: Option<(BucketState, Option<BucketState>)>,
    last_start: Nanos,
    next_top_up: Nanos,
}

impl Limit {
    fn new(baseline: Option<u64>, max: Option<u64>, burst_seconds: u64, saved_second: bool) -> Option<Limit> {
        let max = max.or(baseline)?;
        let baseline = baseline.unwrap_or(max);
        let credits = (baseline < max && burst_seconds > 0).then(|| {
            let capacity = (max - baseline) * burst_seconds;
            Bucket::credits(baseline, capacity, capacity)
        });
        // A type whose limits differ but that may not burst stays at its baseline.
        let rate = if credits.is_some() { max } else { baseline };
        Some(Limit { cap: Bucket::cap(rate, saved_second), credits })
    }

    #[inline]
    fn earliest(&self, from: Nanos, tokens: u64, cap: Cap, best: (Nanos, Cap)) -> (Nanos, Cap) {
        let mut best = best;
        let at = self.cap.earliest(from, tokens);
        if at > best.0 {
            best = (at, cap);
        }
        if let Some(credits) = &self.credits {
            let at = credits.earliest(from, tokens);
            if at > best.0 {
                best = (at, Cap::InstanceCredits);
            }
        }
        best
    }

    #[inline]
    fn take(&mut self, at: Nanos, tokens: u64) {
        self.cap.take(at, tokens);
        if let Some(credits) = &mut self.credits {
            credits.take(at, tokens);
        }
    }

    fn top_up(&mut self, now: Nanos) {
        if let Some(credits) = &mut self.credits {
            credits.set_level(now, credits.capacity());
        }
    }

    fn balance(&self, now: Nanos) -> Option<Balance> {
        self.credits.as_ref().map(|credits| Balance { credits: credits.available(now), capacity: credits.capacity() })
    }

    fn set_balance_percent(&mut self, now: Nanos, percent: f64) {
        if let Some(credits) = &mut self.credits {
            let tokens = credits.capacity() as f64 * (percent / 100.0).clamp(0.0, 1.0);
            credits.set_level(now, tokens as u64);
        }
    }

    fn state(&self) -> (BucketState, Option<BucketState>) {
        (self.cap.state(), self.credits.as_ref().map(Bucket::state))
    }

    fn restore(&mut self, state: &(BucketState, Option<BucketState>)) {
        self.cap.restore(&state.0);
        if let (Some(credits), Some(state)) = (&mut self.credits, &state.1) {
            credits.restore(state);
        }
    }
}

impl Instance {
    /// An instance with full burst buckets.
    pub fn new(limits: &InstanceLimits, saved_second: bool) -> Instance {
        let limit = |baseline, max| Limit::new(baseline, max, limits.burst_seconds, saved_second);
        Instance {
            iops: limit(limits.baseline_iops, limits.max_iops),
            bytes: limit(limits.baseline_bytes_s, limits.max_bytes_s),
            accounting: Accounting::instance(),
            last_start: Nanos::ZERO,
            next_top_up: TOP_UP_EVERY,
        }
    }

    /// When a request that reaches the host at `now` leaves it for its volume, and what held it.
    #[inline]
    pub fn admit(&mut self, now: Nanos, io: &Io) -> (Nanos, Cap) {
        let charge = self.accounting.charge(io, false);
        let from = now.max(self.last_start);
        while self.next_top_up <= from {
            let at = self.next_top_up;
            self.iops.iter_mut().chain(self.bytes.iter_mut()).for_each(|limit| limit.top_up(at));
            self.next_top_up += TOP_UP_EVERY;
        }
        let mut best = (from, Cap::None);
        if let Some(limit) = &self.iops {
            best = limit.earliest(from, charge.ios, Cap::InstanceIops, best);
        }
        if let Some(limit) = &self.bytes {
            best = limit.earliest(from, charge.bytes, Cap::InstanceThroughput, best);
        }
        if let Some(limit) = &mut self.iops {
            limit.take(best.0, charge.ios);
        }
        if let Some(limit) = &mut self.bytes {
            limit.take(best.0, charge.bytes);
        }
        self.last_start = best.0;
        if best.0 > now && best.1 == Cap::None {
            best.1 = Cap::InstanceThroughput;
        }
        best
    }

    /// The two burst balances.
    pub fn balances(&self, now: Nanos) -> InstanceBalances {
        let of = |limit: &Option<Limit>| limit.as_ref().and_then(|limit| limit.balance(now));
        InstanceBalances { ios: of(&self.iops), bytes: of(&self.bytes) }
    }

    /// Sets both burst balances.
    pub fn set_balance_percent(&mut self, now: Nanos, percent: f64) {
        self.iops.iter_mut().chain(self.bytes.iter_mut()).for_each(|limit| limit.set_balance_percent(now, percent));
    }

    /// What changes, for saving.
    pub fn state(&self) -> InstanceState {
        InstanceState {
            iops: self.iops.as_ref().map(Limit::state),
            bytes: self.bytes.as_ref().map(Limit::state),
            last_start: self.last_start,
            next_top_up: self.next_top_up,
        }
    }

    /// Goes on where [`Instance::state`] was taken, on an instance of the same limits.
    pub fn restore(&mut self, state: &InstanceState) {
        let put = |limit: &mut Option<Limit>, state: &Option<(BucketState, Option<BucketState>)>| {
            if let (Some(limit), Some(state)) = (limit, state) {
                limit.restore(state);
            }
        };
        put(&mut self.iops, &state.iops);
        put(&mut self.bytes, &state.bytes);
        self.last_start = state.last_start;
        self.next_top_up = state.next_top_up;
    }
}
