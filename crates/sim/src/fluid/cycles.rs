//! A load repeated: how low credits were, whether the balances of two cycles are alike, and cycles left out.

use super::line::Line;
use super::{is_a_day, Balances, Fluid, SETTLED_SHARE};
use crate::measure::MeasuredLoad;
use headrace_model::Cap;

impl Fluid {
    /// Notes how low and how high credits are.
    #[inline]
    pub(super) fn note_levels(&mut self, at_s: f64) {
        for line in self.lines.iter_mut().filter(|line| line.is_credits()) {
            if line.level < line.low {
                (line.low, line.low_at_s) = (line.level, at_s);
            }
            line.high = line.high.max(line.level);
        }
    }

    /// Before a load goes through (again): the lowest and highest levels are those of that time.
    pub fn forget_extremes(&mut self) {
        for line in &mut self.lines {
            (line.low, line.low_at_s, line.high) = (f64::INFINITY, 0.0, 0.0);
        }
    }

    /// The lowest balance of one kind, percent, and when it was, s.
    pub fn lowest(&self, cap: Cap) -> Option<(f64, f64)> {
        let seen = self.lines.iter().filter(|line| line.cap == cap && line.low.is_finite());
        seen.map(|line| (100.0 * line.low / line.depth, line.low_at_s)).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Levels and backlog, to compare cycles by.
    pub fn balances(&self) -> Balances {
        Balances { levels: self.lines.iter().map(|line| line.level).collect(), backlog: self.backlog() }
    }

    /// The load begins again: time counts from its start, and an instance's burst buckets are full where it is a day long. A shorter one is repeated without that: most of
    /// its repetitions in a day see none.
    pub fn begin_again(&mut self, seconds: f64) {
        for batch in &mut self.backlog {
            batch.arrived_s -= seconds;
        }
        self.next_top_up_s = f64::INFINITY;
        if is_a_day(seconds) {
            self.next_top_up_s = 0.0;
            self.top_up(0.0);
        }
    }

    /// Whether credits and backlog are what they were: to a millionth of their depth, and of the requests that come.
    pub fn is_at(&self, before: &Balances, load: &MeasuredLoad) -> bool {
        let moved = |(line, level): (&Line, &f64)| line.is_credits() && (line.level - level).abs() > SETTLED_SHARE * line.depth;
        let came: f64 = load.points.iter().map(|point| point.iops * point.duration_s).sum();
        (self.backlog() - before.backlog).abs() <= SETTLED_SHARE * came && !self.lines.iter().zip(&before.levels).any(moved)
    }

    /// Whether the cycle that began at `before` was one of those without an end: more is asked than comes back, requests are carried over from cycle to cycle, and the
    /// credits are gone.
    pub fn is_beyond_help(&self, before: &Balances, load: &MeasuredLoad) -> bool {
        let seconds = load.seconds();
        let mut over = self.lines.iter().zip(&before.levels).filter(|(line, _)| line.asked(load) > line.gives(seconds, true)).peekable();
        let any = over.peek().is_some();
        let mut credits = over.filter(|(line, _)| line.is_credits()).peekable();
        any && before.backlog > 0.0 && (credits.peek().is_none() || credits.any(|(line, level)| line.is_empty_at(*level)))
    }

    /// Leaves out the cycles that would be like the one that began at `before`, and says how many: as long as no balance runs full or empty, each takes off, or puts on, the
    /// same. Stops short of the one in which the first of them does.
    pub fn leave_out_like_cycles(&mut self, before: &Balances) -> f64 {
        if self.backlog() != before.backlog {
            return 0.0;
        }
        let drift = |line: &Line, level: f64| if line.is_credits() { line.level - level } else { 0.0 };
        let left_out = |(line, &level): (&Line, &f64)| {
            let drift = drift(line, level);
            let above = line.depth - line.high;
            // One that ran full or empty would go otherwise from another level.
            let bounced = line.is_empty_at(line.low) || above <= 0.0;
            let room = if bounced {
                0.0
            } else if drift < 0.0 {
                line.low
            } else {
                above
            };
            (drift.abs() > SETTLED_SHARE * line.depth).then(|| (room / drift.abs()).floor())
        };
        let cycles = self.lines.iter().zip(&before.levels).filter_map(left_out).fold(f64::INFINITY, f64::min);
        if !(cycles.is_finite() && cycles >= 1.0) {
            return 0.0;
        }
        for (line, &level) in self.lines.iter_mut().zip(&before.levels) {
            line.level = (line.level + cycles * drift(line, level)).clamp(0.0, line.depth);
        }
        cycles
    }

    /// What the credits that lose most lose in a cycle, percent of their depth.
    pub fn loses_percent(&self, load: &MeasuredLoad) -> Option<f64> {
        let seconds = load.seconds();
        // What an instance's lose is filled up every day.
        let lasting = |line: &&Line| line.cap == Cap::VolumeCredits || (line.is_credits() && !is_a_day(seconds));
        let loss = |line: &Line| 100.0 * (line.asked(load) - line.rate * seconds) / line.depth;
        self.lines.iter().filter(lasting).map(loss).filter(|&percent| percent > 0.0).max_by(f64::total_cmp)
    }
}
