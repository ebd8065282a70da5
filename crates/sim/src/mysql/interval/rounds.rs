//! Rounds of MySQL's page cleaner: clients that wait behind the pages of a second.
//!
//! ```text
//!  I/Os of the cleaner that are outstanding
//!  depth |-------.           what a second asks for is written from its begin on
//!        |        `.
//!        |          `.
//!        +------------`-------> a second
//!        '--- drain --'  free
//! ```
//!
//! A transaction makes pages due that take the device `d` seconds, and its own I/O takes it `u`.
//! Clients do `f` transactions a second while no round is under way, and `b` behind one, which
//! leave the round `1 - b u` of the device. So of `x` transactions a second in the mean, with `o`
//! seconds for other pages, a round takes the share `s` of a second, and
//!
//!   s = (d x + o) / (1 - b u)        x = f - s (f - b)
//!
//! which is linear in x. Behind a round each I/O that a client waits for waits for what is
//! outstanding when it comes: `q`, the time of the depth, while that much is left of the round's
//! `B` seconds, and half of it on the way to none: q (1 - q / 2B) in the mean, or B/2 where B is
//! shorter than q. Between rounds clients do no more than the caps let through, 1 / u. If the same
//! cap holds pages and clients, a device that is always at work does 1 / (u + d), as it does
//! without rounds.

/// Rates from which the wait behind a round is taken, one after the other: the second one differs
/// from the first by a few percent of the wait.
const TIMES: usize = 2;

/// A round as clients meet it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// Time of the device for the pages that a transaction makes due, s.
    pub due_s: f64,
    /// Time of the device for other pages of a second, s.
    pub others_s: f64,
    /// Time of the device for a transaction's own I/O, s.
    pub own_s: f64,
    /// Time of the device for the most I/Os that the cleaner keeps outstanding, s.
    pub outstanding_s: f64,
    /// I/Os that a client waits for in a transaction, one after the other.
    pub waits: f64,
}

impl Round {
    /// Returns the mean wait, s, of a transaction that is behind the round of a second of `tps`
    /// all the time.
    fn wait_s(&self, tps: f64) -> f64 {
        let round_s = self.due_s * tps + self.others_s;
        let each_s = if round_s <= self.outstanding_s { 0.5 * round_s } else { self.outstanding_s * (1.0 - 0.5 * self.outstanding_s / round_s) };
        self.waits * each_s
    }

    /// Returns transactions a second of clients that do `free` while no round is under way and
    /// `behind` with a wait, s, more in each; `near` is a rate where the search begins.
    pub fn closed_rate(&self, near: f64, free: f64, behind: impl Fn(f64) -> f64) -> f64 {
        // Pages may be held by bytes, and clients between two rounds by IOPS.
        let free = free.min(1.0 / self.own_s);
        (0..TIMES).fold(near, |tps, _| self.mean(free, behind(self.wait_s(tps))))
    }

    /// Returns the mean rate of clients, transactions a second, that do `free` while no round is
    /// under way and `behind` behind one: the x of the module's equations.
    fn mean(&self, free: f64, behind: f64) -> f64 {
        let room = 1.0 - behind * self.own_s;
        if room <= 0.0 {
            return behind;
        }
        let lost = (free - behind) / room;
        // A round that takes longer than its second is always under way.
        ((free - self.others_s * lost) / (1.0 + self.due_s * lost)).max(behind)
    }

    /// Returns the mean wait of a transaction of an open load of `tps` behind rounds, s.
    pub fn open_wait_s(&self, tps: f64) -> f64 {
        let room = 1.0 - tps * self.own_s;
        let share = if room > 0.0 { ((self.due_s * tps + self.others_s) / room).min(1.0) } else { 1.0 };
        share * self.wait_s(tps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of 2 ms a transaction, which takes the device 2 ms itself; 40 ms are outstanding.
    const ROUND: Round = Round { due_s: 2e-3, others_s: 0.0, own_s: 2e-3, outstanding_s: 0.04, waits: 3.0 };

    /// By hand: of 100 a second alone and 20 behind a round, 85.71 take 0.1714 s for pages and 0.96
    /// of the device is theirs: a round drains 0.1786 s, in which 80 a second are lost. With other
    /// pages of 96 ms a second 8 / 1.1667 fewer.
    #[test]
    fn a_round_takes_its_share_of_the_second() {
        assert!((ROUND.mean(100.0, 20.0) - 600.0 / 7.0).abs() < 1e-9);
        let others = Round { others_s: 0.096, ..ROUND };
        assert!((others.mean(100.0, 20.0) - 552.0 / 7.0).abs() < 1e-9);
        assert_eq!(ROUND.mean(100.0, 100.0), 100.0);
        // Many clients: 500 a second between rounds, 1 / (u + d) in the mean.
        assert!((ROUND.closed_rate(1.0, 1e9, |_| 20.0) - 250.0).abs() < 1e-9);
        // A round longer than a second, and clients that take all of the device.
        assert_eq!(Round { due_s: 0.1, ..ROUND }.mean(100.0, 20.0), 20.0);
        assert_eq!(ROUND.mean(900.0, 600.0), 600.0);
    }

    /// By hand: three I/Os wait for half of a round of 20 ms, and behind one of 200 ms for the 40
    /// ms outstanding but at its end: 36. Both lines meet where a round is what is outstanding.
    #[test]
    fn clients_wait_for_what_is_outstanding() {
        for (tps, wait_s) in [(0.0, 0.0), (10.0, 0.03), (20.0, 0.06), (100.0, 0.108), (1e9, 0.12)] {
            assert!((ROUND.wait_s(tps) - wait_s).abs() < 1e-6, "{tps}: {}", ROUND.wait_s(tps));
        }
        // 50 a second: 0.1 s of pages in 0.9 of the device.
        assert!((ROUND.open_wait_s(50.0) - 0.1 / 0.9 * 3.0 * 0.032).abs() < 1e-9);
    }
}
