//! Latency of a run in which requests waited in clumps near a cap: each walk has its own
//! percentiles, and the run's are their means. The highest of them are those of an unlucky run.

use crate::demand::mixture::Waits;
use crate::demand::near_cap::WALKS;
use crate::demand::windows::{BusySlots, Served, Slots, Worst, P99};

/// Waits of requests in clumps, by walk, in order of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clumps {
    looks: Vec<ClumpLook>,
}

/// A part of one walk's requests that waited in a slot: `wait_ms` each.
#[derive(Clone, Copy, Debug)]
struct ClumpLook {
    slot: u32,
    walk: u32,
    requests: f64,
    wait_ms: f64,
}

/// The waits of one walk in one slot: requests times their waits, and the longest wait, ms.
#[derive(Clone, Copy, Debug, Default)]
struct SlotWaits {
    sum_ms: f64,
    longest_ms: f64,
}

impl Clumps {
    /// Returns whether nothing waited in clumps.
    pub fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    /// Notes what waited in a slot, by walk; slots come in order.
    pub fn note(&mut self, slot: usize, sampled: &[(usize, Served)]) {
        self.looks.extend(sampled.iter().map(|(walk, part)| ClumpLook {
            slot: slot as u32,
            walk: *walk as u32,
            requests: part.requests,
            wait_ms: part.from_ms,
        }));
    }

    /// Returns all walks as a single distribution, on top of other waits.
    pub fn together(&self, waits: &Waits) -> Waits {
        let mut waits = waits.clone();
        self.looks.iter().for_each(|look| waits.delay(look.requests / WALKS as f64, look.wait_ms));
        waits
    }

    /// Returns the mean wait, ms, and the percentiles of the whole run.
    pub fn whole(&self, waits: &Waits, percentiles: &dyn Fn(&Waits) -> [f64; 4]) -> (f64, [f64; 4]) {
        let mut each = vec![waits.clone(); WALKS];
        self.looks.iter().for_each(|look| each[look.walk as usize].delay(look.requests, look.wait_ms));
        let mut mean = (0.0, [0.0; 4]);
        for waits in &each {
            mean.0 += waits.mean_ms() / WALKS as f64;
            mean.1.iter_mut().zip(percentiles(waits)).for_each(|(mean, ms)| *mean += ms / WALKS as f64);
        }
        mean
    }

    /// Returns the figures of the worst windows: their means over the walks, and the highest of any
    /// walk. `others` are the figures of requests that did not wait in clumps.
    pub fn worst(&self, busy: &BusySlots, slots: &Slots, own_mean_ms: f64, others: &Worst, percentiles: &dyn Fn(&Waits) -> [f64; 4]) -> (Worst, Worst) {
        let chosen = self.choose_windows(slots);
        let mut each = vec![*others; WALKS];
        let mut cache: Vec<(usize, Waits)> = Vec::new();
        for (walk, worst) in each.iter_mut().enumerate() {
            let [(mean, first), (_, second)] = chosen[walk];
            if mean <= 0.0 {
                continue;
            }
            for start in if first == second { vec![first] } else { vec![first, second] } {
                let place = cache.iter().position(|(cached, _)| *cached == start).unwrap_or_else(|| {
                    cache.push((start, busy.waits_from(slots, start)));
                    cache.len() - 1
                });
                let mut waits = cache[place].1.clone();
                let (start_s, end) = slots.window(start);
                let inside = self.looks.partition_point(|look| (look.slot as usize) < start)..self.looks.partition_point(|look| (look.slot as usize) < end);
                self.looks[inside].iter().filter(|look| look.walk as usize == walk).for_each(|look| waits.delay(look.requests, look.wait_ms));
                worst.raise(own_mean_ms + waits.mean_ms(), percentiles(&waits), start_s);
            }
        }
        each.sort_by(|a, b| a.percentiles_ms[P99].total_cmp(&b.percentiles_ms[P99]));
        summarise(&each)
    }

    /// Returns for each walk the windows of the highest mean and of the longest wait, each with its
    /// value, ms, and its first slot.
    fn choose_windows(&self, slots: &Slots) -> [[(f64, usize); 2]; WALKS] {
        // Places of the looks of each slot.
        let mut runs: Vec<(usize, usize, usize)> = Vec::new();
        for (place, look) in self.looks.iter().enumerate() {
            match runs.last_mut().filter(|run| run.0 == look.slot as usize) {
                Some(run) => run.2 = place + 1,
                None => runs.push((look.slot as usize, place, place + 1)),
            }
        }
        let mut by_walk = vec![[SlotWaits::default(); WALKS]; runs.len()];
        for (&(_, from, until), waits) in runs.iter().zip(&mut by_walk) {
            for look in &self.looks[from..until] {
                let walk_waits = &mut waits[look.walk as usize];
                walk_waits.sum_ms += look.requests * look.wait_ms;
                walk_waits.longest_ms = walk_waits.longest_ms.max(look.wait_ms);
            }
        }
        let mut starts: Vec<usize> = runs.iter().flat_map(|&(slot, _, _)| slots.windows_with(slot)).collect();
        starts.sort_unstable();
        starts.dedup();
        // Windows of the highest mean and of the longest wait are chosen for each walk: the highest
        // percentiles lie in these windows, or are hardly higher elsewhere.
        let mut chosen = [[(f64::NEG_INFINITY, 0usize); 2]; WALKS];
        for &start in &starts {
            let end = slots.window(start).1;
            let inside = runs.partition_point(|run| run.0 < start)..runs.partition_point(|run| run.0 < end);
            for (walk, chosen) in chosen.iter_mut().enumerate() {
                let waits = by_walk[inside.clone()].iter().map(|waits| waits[walk]);
                let (sum, longest) = waits.fold((0.0, 0.0_f64), |all, slot| (all.0 + slot.sum_ms, all.1.max(slot.longest_ms)));
                for (best, value) in chosen.iter_mut().zip([sum, longest]) {
                    if value > best.0 {
                        *best = (value, start);
                    }
                }
            }
        }
        chosen
    }
}

/// Returns the means over the walks, in order of their p99, and the highest figures of any walk.
fn summarise(each: &[Worst]) -> (Worst, Worst) {
    let mean = |get: &dyn Fn(&Worst) -> f64| each.iter().map(get).sum::<f64>() / WALKS as f64;
    let most = |get: &dyn Fn(&Worst) -> f64| each.iter().map(get).fold(0.0, f64::max);
    let average = Worst {
        mean_ms: mean(&|worst| worst.mean_ms),
        percentiles_ms: [0, 1, 2, 3].map(|place: usize| mean(&|worst| worst.percentiles_ms[place])),
        // Begin of the worst window of a middle walk, or of the next that waited.
        at_s: each[WALKS / 2..].iter().find_map(|worst| worst.at_s),
    };
    let unlucky = Worst {
        mean_ms: most(&|worst| worst.mean_ms),
        percentiles_ms: [0, 1, 2, 3].map(|place: usize| most(&|worst| worst.percentiles_ms[place])),
        at_s: each[WALKS - 1].at_s,
    };
    (average, unlucky)
}
