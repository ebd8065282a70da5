//! The rows of one volume or member: seconds, and minutes made of them.

use super::latencies::Latencies;
use super::ring::{Ring, MINUTES, SECONDS};
use super::row::{Row, Stretch};
use super::slot::Slot;
use super::Resolution;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// Seconds a minute takes at most: a clock that stands still must not let its sums run over.
const MINUTE_ROWS: u32 = 600;

/// Distance that [`Series::minutes`] looks back before the rows that are asked for, s.
const LOOK_BACK_S: u64 = 3_600;

/// The minute that is being counted.
struct Minute {
    t_s: u64,
    rows: u32,
    stretch: Stretch,
}

pub(crate) struct Series {
    seconds: Ring,
    minutes: Ring,
    minute: Option<Minute>,
    /// Rows that could not be written since the daemon's start.
    pub dropped: u64,
}

impl Series {
    /// Opens what `folder` has; it need not exist. The minute that was being counted is made of its
    /// seconds again.
    pub fn open(folder: &Path) -> io::Result<Series> {
        let minutes = Ring::open(folder.join("minutes"), MINUTES)?;
        let mut through = 0;
        minutes.walk(|slot| {
            through = slot.through;
            ControlFlow::Break(())
        })?;
        let mut seconds = Ring::open(folder.join("seconds"), SECONDS)?;
        let mut slots = Vec::new();
        seconds.walk(|slot| {
            if slot.sequence < through {
                return ControlFlow::Break(());
            }
            slots.push(slot);
            ControlFlow::Continue(())
        })?;
        seconds.skip_to(through);
        let mut series = Series { seconds, minutes, minute: None, dropped: 0 };
        series.restore_minutes(slots);
        Ok(series)
    }

    /// Counts the seconds that no minute contains yet, after a restart.
    fn restore_minutes(&mut self, newest_first: Vec<Slot>) {
        for slot in newest_first.into_iter().rev() {
            // A minute that cannot be written now is counted as dropped, as it is in `record`.
            let _ = self.close_minute(slot.t_s, slot.sequence);
            let rows = u32::try_from(slot.rows).unwrap_or(u32::MAX);
            self.add_to_minute(slot.t_s, rows, &slot.stretch);
        }
    }

    /// Takes the row of a second, or of the part of a second that is not over. An error says that a
    /// row was dropped; the minute still contains it.
    pub fn record(&mut self, unix_s: u64, stretch: &Stretch, is_part: bool) -> io::Result<()> {
        let minute = self.close_minute(unix_s, self.seconds.next());
        let pushed = match is_part {
            true => self.seconds.push_part(unix_s, 0, stretch),
            false => self.seconds.push(unix_s, 0, stretch),
        };
        let second = pushed.inspect_err(|_| self.dropped += 1);
        self.add_to_minute(unix_s, 1, stretch);
        minute.and(second)
    }

    /// Adds a stretch of `rows` rows to the minute that is being counted, or begins one.
    fn add_to_minute(&mut self, unix_s: u64, rows: u32, stretch: &Stretch) {
        match &mut self.minute {
            Some(minute) => {
                minute.rows = minute.rows.saturating_add(rows);
                minute.stretch.add(stretch);
            }
            None => self.minute = Some(Minute { t_s: unix_s - unix_s % MINUTES.step_s, rows, stretch: stretch.clone() }),
        }
    }

    /// Writes the minute when `unix_s` is in another.
    fn close_minute(&mut self, unix_s: u64, through: u64) -> io::Result<()> {
        let is_over = |minute: &mut Minute| minute.t_s != unix_s - unix_s % MINUTES.step_s || minute.rows >= MINUTE_ROWS;
        match self.minute.take_if(is_over) {
            Some(minute) => self.minutes.push(minute.t_s, through, &minute.stretch).inspect_err(|_| self.dropped += 1),
            None => Ok(()),
        }
    }

    /// Calls `see` with each slot from the newest to the oldest, until it breaks off or as many
    /// rows were seen as the resolution keeps. The other arguments of `see` are the number of rows
    /// of the slot that still count, newest first, and the time from row to row, s.
    fn walk(&self, resolution: Resolution, mut see: impl FnMut(Slot, u64, u64) -> ControlFlow<()>) -> io::Result<()> {
        let (ring, shape) = match resolution {
            Resolution::Second => (&self.seconds, SECONDS),
            Resolution::Minute => (&self.minutes, MINUTES),
        };
        let mut remaining = shape.slots;
        if let Some(minute) = self.minute.as_ref().filter(|_| resolution == Resolution::Minute) {
            let slot = Slot { sequence: 0, t_s: minute.t_s, rows: 1, through: 0, stretch: minute.stretch.clone() };
            remaining -= 1;
            if see(slot, 1, shape.step_s).is_break() {
                return Ok(());
            }
        }
        ring.walk(|slot| {
            let rows = slot.rows.min(remaining);
            remaining -= rows;
            see(slot, rows, shape.step_s)?;
            if remaining == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
    }

    /// Returns the newest `last` rows of those from `since` on, in the order they happened.
    pub fn rows(&self, resolution: Resolution, since: u64, last: usize) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        if last == 0 {
            return Ok(rows);
        }
        self.walk(resolution, |slot, newest, step_s| {
            for (t_s, stretch) in slot.newest_first(step_s).take(newest as usize).filter(|&(t_s, _)| t_s >= since) {
                rows.push(Row::from_stretch(t_s, &stretch));
                if rows.len() == last {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        rows.reverse();
        Ok(rows)
    }

    /// Returns the rows of minutes from `since` to before `until`, in the order they happened.
    pub fn minutes(&self, since: u64, until: u64) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.walk(Resolution::Minute, |slot, newest, step_s| {
            if slot.t_s.saturating_add(slot.rows.saturating_mul(step_s)) < since.saturating_sub(LOOK_BACK_S) {
                return ControlFlow::Break(());
            }
            let stretches = slot.newest_first(step_s).take(newest as usize).filter(|(t_s, _)| (since..until).contains(t_s));
            rows.extend(stretches.map(|(t_s, stretch)| Row::from_stretch(t_s, &stretch)));
            ControlFlow::Continue(())
        })?;
        rows.reverse();
        Ok(rows)
    }

    /// Returns the latencies of the rows from `since` to before `until`.
    pub fn latencies(&self, resolution: Resolution, since: u64, until: u64) -> io::Result<Latencies> {
        let mut latencies = Latencies::default();
        self.walk(resolution, |slot, newest, step_s| {
            // Only idle rows, without any latencies, share a slot.
            let rows = slot.newest_first(step_s).take(newest as usize).filter(|(t_s, _)| (since..until).contains(t_s)).count();
            if rows > 0 {
                latencies.add(&slot.stretch, rows as u64);
            }
            ControlFlow::Continue(())
        })?;
        Ok(latencies)
    }
}
