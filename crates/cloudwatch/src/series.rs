//! Periods, and the points in them.

use crate::error::Refusal;
use crate::statistic::{Distribution, Statistic};
use std::collections::BTreeMap;

/// Points by the beginning of their period, Unix seconds.
pub type Points = BTreeMap<i64, f64>;

/// Seconds of a minute.
pub const MINUTE_S: i64 = 60;
/// Seconds of an hour.
pub const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

/// Periods shorter than a minute (API text of GetMetricData, botocore 1.43).
const SHORT_PERIODS_S: [u32; 5] = [1, 5, 10, 20, 30];

/// The periods that are asked for: from `start_s` on, `period_s` long, as many as begin before
/// `end_s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The beginning of the first period.
    pub start_s: i64,
    /// The first second that is not asked for.
    pub end_s: i64,
    /// Length of a period.
    pub period_s: u32,
}

impl Window {
    /// Returns the beginning of the period that `t_s` is in; none outside the window.
    pub fn period_of(&self, t_s: i64) -> Option<i64> {
        let inside = t_s >= self.start_s && t_s < self.end_s;
        inside.then(|| t_s - (t_s - self.start_s) % i64::from(self.period_s))
    }

    /// Returns the beginnings of all periods.
    pub fn periods(&self) -> impl DoubleEndedIterator<Item = i64> + '_ {
        let many = (self.end_s - self.start_s).max(0).div_euclid(i64::from(self.period_s))
            + i64::from((self.end_s - self.start_s).max(0) % i64::from(self.period_s) != 0);
        (0..many).map(|number| self.start_s + number * i64::from(self.period_s))
    }

    /// Returns the number of periods.
    pub fn len(&self) -> usize {
        self.periods().count()
    }

    /// Returns true if the window has no period.
    pub fn is_empty(&self) -> bool {
        self.end_s <= self.start_s
    }
}

/// Checks a period: 1, 5, 10, 20, 30 or a multiple of 60 seconds, a day at most.
///
/// # Errors
/// It is another.
pub fn check_period(period_s: u32) -> Result<(), Refusal> {
    let long = period_s > 0 && i64::from(period_s) % MINUTE_S == 0 && i64::from(period_s) <= DAY_S;
    if long || SHORT_PERIODS_S.contains(&period_s) {
        return Ok(());
    }
    Err(Refusal::value("Period", period_s, format_args!("it must be 1, 5, 10, 20, 30 or a multiple of 60, and at most {DAY_S} s")))
}

/// Returns the start that CloudWatch takes for the requested start (API text of GetMetricData):
/// rounded down to the minute, for older starts to 5 minutes or an hour, for periods below a minute
/// to a multiple of the period.
pub fn rounded_start(start_s: i64, now_s: i64, period_s: u32) -> i64 {
    let age_s = now_s - start_s;
    let step_s = match age_s {
        _ if i64::from(period_s) < MINUTE_S => i64::from(period_s.max(1)),
        _ if age_s < 15 * DAY_S => MINUTE_S,
        _ if age_s < 63 * DAY_S => 5 * MINUTE_S,
        _ => HOUR_S,
    };
    start_s - start_s.rem_euclid(step_s)
}

/// Returns true if CloudWatch has points of such a period that far back: below a minute for 3
/// hours, one minute for 15 days, 5 minutes for 63 days, an hour beyond.
pub fn has_points(start_s: i64, now_s: i64, period_s: u32) -> bool {
    let (age_s, period_s) = (now_s - start_s, i64::from(period_s));
    let step_s = match age_s {
        _ if age_s <= 3 * HOUR_S => 1,
        _ if age_s <= 15 * DAY_S => MINUTE_S,
        _ if age_s <= 63 * DAY_S => 5 * MINUTE_S,
        _ => HOUR_S,
    };
    period_s % step_s == 0
}

/// Returns the statistic of each period that has values.
pub fn aggregate<'a>(values: impl IntoIterator<Item = (i64, &'a Distribution)>, window: &Window, statistic: Statistic) -> Points {
    let mut periods: BTreeMap<i64, Distribution> = BTreeMap::new();
    for (t_s, distribution) in values {
        let Some(period) = window.period_of(t_s) else { continue };
        periods.entry(period).and_modify(|sum| sum.add(distribution)).or_insert_with(|| distribution.clone());
    }
    periods.into_iter().filter_map(|(t_s, distribution)| Some((t_s, distribution.statistic(statistic)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_rounded_as_the_api_text_says() {
        let noon = 1_700_000_000 / DAY_S * DAY_S + 12 * HOUR_S;
        // 12:32:34 of the API text.
        let start_s = noon + 32 * 60 + 34;
        assert_eq!(rounded_start(start_s, start_s + HOUR_S, 60), noon + 32 * 60);
        assert_eq!(rounded_start(start_s, start_s + 20 * DAY_S, 300), noon + 30 * 60);
        assert_eq!(rounded_start(start_s, start_s + 70 * DAY_S, 3_600), noon);
        // 01:05:13 with a period of 10 s gives 01:05:10.
        assert_eq!(rounded_start(noon + 313, noon + 323, 10), noon + 310);
    }

    #[test]
    fn a_period_that_is_cut_short_counts() {
        let window = Window { start_s: 0, end_s: 130, period_s: 60 };
        assert_eq!(window.periods().collect::<Vec<_>>(), [0, 60, 120]);
        assert_eq!((window.period_of(129), window.period_of(130), window.period_of(-1)), (Some(120), None, None));
        assert!(Window { end_s: 0, ..window }.is_empty());
    }

    #[test]
    fn only_the_periods_of_the_api_text_are_allowed() {
        for period_s in [1, 5, 10, 20, 30, 60, 120, 86_400] {
            check_period(period_s).unwrap();
        }
        for period_s in [0, 2, 15, 45, 90, 86_460] {
            assert!(check_period(period_s).is_err());
        }
    }
}
