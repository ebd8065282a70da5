//! The worst five minutes of a run, for the interval form.
//!
//! A window is as few consecutive slots as make five minutes; one begins at every slot. A slot is a
//! minute: points of a recording that are shorter are put together, longer ones are cut, so that
//! the answer does not depend on how finely the same demand was written down. A run shorter than
//! five minutes is one window.
//!
//! ```text
//!  slots     | 60 s | 60 s | 60 s | 60 s | 60 s | 60 s | 60 s |
//!  windows   |------------- 1 --------------|
//!                   |------------- 2 --------------|
//! ```
//!
//! Slots follow from the demand alone and are cut once per load. A storage then only notes the
//! slots in which requests waited: where none did, the latency is the storage's own.

use crate::demand::mixture::{OwnLatency, Waits};

/// Place of the 99th among the percentiles of a row (`QUANTILES` of `interval`).
pub(crate) const P99: usize = 2;

/// Length of a window, s.
pub const WINDOW_S: f64 = 300.0;
/// Length of a slot, s: how far apart windows begin.
pub const SLOT_S: f64 = 60.0;
/// Recordings keep time to about a percent: five points of 59.9 s are five minutes.
const NEARLY: f64 = 0.99;

/// Returns the number of slots into which a point of that length is cut; 1 for points that share a
/// slot.
#[inline]
pub(crate) fn pieces(duration_s: f64) -> usize {
    if duration_s <= SLOT_S / NEARLY {
        return 1;
    }
    // At most a year in minutes: far below what a usize holds.
    (duration_s / SLOT_S - (1.0 - NEARLY)).ceil() as usize
}

/// The slots of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<TimeSlot>,
    /// The first slot of each point.
    first: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct TimeSlot {
    start_s: f64,
    seconds: f64,
    /// Requests that come in it.
    requests: f64,
    /// One after the last slot of the window that begins here; 0 where the run ends before.
    window_end: u32,
}

impl Slots {
    /// Cuts points, given as (length in s, requests a second).
    pub fn new(points: impl Iterator<Item = (f64, f64)>) -> Slots {
        let mut cut = Slots::default();
        let (mut t_s, mut open) = (0.0, false);
        for (seconds, rate) in points {
            let pieces = pieces(seconds);
            let piece_s = seconds / pieces as f64;
            open &= pieces == 1;
            cut.first.push((cut.slots.len() - usize::from(open)) as u32);
            for piece in 0..pieces {
                if !open {
                    cut.slots.push(TimeSlot { start_s: t_s + piece as f64 * piece_s, seconds: 0.0, requests: 0.0, window_end: 0 });
                }
                if let Some(slot) = cut.slots.last_mut() {
                    slot.seconds += piece_s;
                    slot.requests += rate * piece_s;
                    open = pieces == 1 && slot.seconds < SLOT_S * NEARLY;
                }
            }
            t_s += seconds;
        }
        cut.mark_windows();
        cut
    }

    /// Sets the end of each window; a window that the run's end would cut short stays without one,
    /// except the first.
    fn mark_windows(&mut self) {
        let (mut end, mut seconds) = (0, 0.0);
        for start in 0..self.slots.len() {
            while seconds < WINDOW_S * NEARLY && end < self.slots.len() {
                seconds += self.slots[end].seconds;
                end += 1;
            }
            if seconds < WINDOW_S * NEARLY && start > 0 {
                return;
            }
            self.slots[start].window_end = end as u32;
            seconds -= self.slots[start].seconds;
        }
    }

    /// Returns the slot in which the `piece`-th part of a point lies.
    #[inline]
    pub fn slot_of(&self, point: usize, piece: usize) -> usize {
        self.first[point] as usize + piece
    }

    /// Returns the first slots of the windows that `slot` is part of.
    pub fn windows_with(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        // The run's last slots begin no window (0); behind them ends are in order.
        let before = (0..=slot).rev().take_while(move |&start| self.slots[start].window_end == 0 || self.slots[start].window_end as usize > slot);
        before.filter(|&start| self.slots[start].window_end > 0)
    }

    /// Returns the start of a window, s, and the slot behind its last.
    pub fn window(&self, start: usize) -> (f64, usize) {
        (self.slots[start].start_s, self.slots[start].window_end as usize)
    }

    /// Lists from when to when each window lasts, s.
    pub fn spans(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.slots.iter().filter(|slot| slot.window_end > 0).map(|slot| {
            let last = &self.slots[slot.window_end as usize - 1];
            (slot.start_s, last.start_s + last.seconds)
        })
    }
}

/// Requests whose waits lie evenly between two values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub requests: f64,
    pub from_ms: f64,
    pub to_ms: f64,
}

/// A slot in which requests waited, or not all that came were delivered.
#[derive(Clone, Copy, Debug)]
struct Busy {
    slot: usize,
    /// Delivered beyond what came.
    more: f64,
    wait_sum_ms: f64,
    longest_ms: f64,
    /// Index of its first wait; its waits end at the first of the next.
    first: usize,
}

/// Waits of a storage's requests, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusySlots {
    busy: Vec<Busy>,
    served: Vec<Served>,
}

/// Figures of the worst windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worst {
    pub mean_ms: f64,
    /// The percentiles by quantile, each the highest of any window.
    pub percentiles_ms: [f64; 4],
    /// Start of the window with the highest 99th percentile, s; none where nothing waited.
    pub at_s: Option<f64>,
}

/// A window in which something waited.
struct Window {
    start_s: f64,
    busy: (usize, usize),
    delivered: f64,
    mean_ms: f64,
    longest_ms: f64,
}

impl Worst {
    /// Makes the worst window of a run in which nothing waited.
    pub fn calm(own: &OwnLatency, percentiles_ms: [f64; 4]) -> Worst {
        Worst { mean_ms: own.mean_ms(), percentiles_ms, at_s: None }
    }

    /// Takes in the figures of one more window.
    pub fn raise(&mut self, mean_ms: f64, percentiles_ms: [f64; 4], start_s: f64) {
        if self.at_s.is_none() || percentiles_ms[P99] > self.percentiles_ms[P99] {
            self.at_s = Some(start_s);
        }
        self.mean_ms = self.mean_ms.max(mean_ms);
        self.percentiles_ms.iter_mut().zip(percentiles_ms).for_each(|(most, ms)| *most = most.max(ms));
    }
}

impl BusySlots {
    /// Returns whether something waited.
    pub fn any(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Notes a step, or a part of one, in `slot`; slots come in order.
    pub fn note(&mut self, slot: usize, offered: f64, delivered: f64, served: &[Served]) {
        if self.busy.last().is_none_or(|last| last.slot != slot) {
            self.busy.push(Busy { slot, more: 0.0, wait_sum_ms: 0.0, longest_ms: 0.0, first: self.served.len() });
        }
        let Some(busy) = self.busy.last_mut() else { return };
        busy.more += delivered - offered;
        for part in served {
            busy.wait_sum_ms += part.requests * 0.5 * (part.from_ms + part.to_ms);
            busy.longest_ms = busy.longest_ms.max(part.from_ms).max(part.to_ms);
        }
        self.served.extend_from_slice(served);
    }

    /// Returns the worst of all windows; windows without waits have the percentiles `calm`.
    pub fn worst(&self, slots: &Slots, own: &OwnLatency, quantiles: [f64; 4], calm: [f64; 4]) -> Worst {
        let mut worst = Worst::calm(own, calm);
        let mut windows = self.windows(slots);
        // The slots with the longest waits come first: once the rest cannot come near, they need
        // not be looked at.
        windows.sort_by(|a, b| b.longest_ms.total_cmp(&a.longest_ms));
        let can_raise = |window: &Window, best: &[f64; 4]| (0..4).any(|i| window.longest_ms + calm[i] > best[i]);
        for window in &windows {
            worst.mean_ms = worst.mean_ms.max(own.mean_ms() + window.mean_ms);
            if !can_raise(window, &worst.percentiles_ms) {
                continue;
            }
            let before = worst.percentiles_ms[P99];
            own.raise_percentiles_ms(&self.waits_of(window), quantiles, &mut worst.percentiles_ms);
            if worst.percentiles_ms[P99] > before || worst.at_s.is_none() {
                worst.at_s = Some(window.start_s);
            }
        }
        worst
    }

    /// Returns every window that has a busy slot, in order.
    fn windows(&self, slots: &Slots) -> Vec<Window> {
        let mut windows = Vec::with_capacity(self.busy.len() + 8);
        let (mut start, mut from, mut until) = (0, 0, 0);
        for next in 0..self.busy.len() {
            // Back to the first window that this slot is part of and that was not looked at.
            let mut first = self.busy[next].slot;
            let part_of = |window: usize| match slots.slots[window].window_end as usize {
                0 => true,
                end => end > self.busy[next].slot,
            };
            while first > start && part_of(first - 1) {
                first -= 1;
            }
            start = start.max(first);
            // The run's last windows end with it; a slot behind their starts is in the last of
            // them.
            while start <= self.busy[next].slot && slots.slots[start].window_end > 0 {
                let end = slots.slots[start].window_end as usize;
                while from < self.busy.len() && self.busy[from].slot < start {
                    from += 1;
                }
                until = until.max(from);
                while until < self.busy.len() && self.busy[until].slot < end {
                    until += 1;
                }
                windows.extend(self.window(slots, (start, end), (from, until)));
                start += 1;
            }
        }
        windows
    }

    /// Sums up the window of slots `start..end`, whose busy slots are `from..until`; None if it has
    /// no busy slot or delivered nothing.
    fn window(&self, slots: &Slots, (start, end): (usize, usize), (from, until): (usize, usize)) -> Option<Window> {
        let busy = &self.busy[from..until];
        let arrivals: f64 = slots.slots[start..end].iter().map(|slot| slot.requests).sum();
        let delivered = arrivals + busy.iter().map(|slot| slot.more).sum::<f64>();
        // A billionth of what came is rounding.
        if busy.is_empty() || delivered <= 1e-9 * arrivals {
            return None;
        }
        let waited: f64 = busy.iter().map(|slot| slot.wait_sum_ms).sum();
        let longest_ms = busy.iter().map(|slot| slot.longest_ms).fold(0.0, f64::max);
        Some(Window { start_s: slots.slots[start].start_s, busy: (from, until), delivered, mean_ms: waited / delivered, longest_ms })
    }

    /// Returns the waits of a window, with all its requests counted.
    pub fn waits_from(&self, slots: &Slots, start: usize) -> Waits {
        let end = slots.slots[start].window_end as usize;
        let place = |slot: usize| self.busy.partition_point(|busy| busy.slot < slot);
        self.window(slots, (start, end), (place(start), place(end))).map(|window| self.waits_of(&window)).unwrap_or_default()
    }

    /// Returns the waits of a window's requests; those without a noted wait count as not waiting.
    fn waits_of(&self, window: &Window) -> Waits {
        let first = self.busy[window.busy.0].first;
        let last = self.busy.get(window.busy.1).map_or(self.served.len(), |next| next.first);
        let mut waits = Waits::default();
        for part in &self.served[first..last] {
            waits.add(part.requests, part.from_ms, part.to_ms);
        }
        waits.complete(window.delivered);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(lengths: &[f64]) -> Vec<(f64, f64)> {
        Slots::new(lengths.iter().map(|&seconds| (seconds, 1.0))).spans().collect()
    }

    #[test]
    fn a_window_is_five_minutes_and_begins_every_minute() {
        assert_eq!(spans(&[60.0; 7]), [(0.0, 300.0), (60.0, 360.0), (120.0, 420.0)]);
        // Equal demand in other points has equal windows.
        assert_eq!(spans(&[420.0]), spans(&[60.0; 7]));
        assert_eq!(spans(&[1.0; 420]), spans(&[60.0; 7]));
        assert_eq!(spans(&[59.9; 7]).len(), 3);
    }

    #[test]
    fn a_short_run_is_one_window_and_odd_points_make_at_least_five_minutes() {
        assert_eq!(spans(&[60.0, 60.0]), [(0.0, 120.0)]);
        assert_eq!(spans(&[7.0]), [(0.0, 7.0)]);
        // 7 s: nine make a slot of 63 s, five of those a window of 315 s.
        assert_eq!(spans(&[7.0; 100])[..2], [(0.0, 315.0), (63.0, 378.0)]);
    }

    #[test]
    fn a_long_point_begins_a_slot_of_its_own() {
        let mixed = Slots::new([(10.0, 1.0), (120.0, 2.0), (10.0, 3.0)].into_iter());
        assert_eq!(mixed.first, [0, 1, 3]);
        let requests: Vec<f64> = mixed.slots.iter().map(|slot| slot.requests).collect();
        assert_eq!(requests, [10.0, 120.0, 120.0, 30.0]);
    }
}
