//! Rows that many transactions change: who comes to a locked one waits until the transaction that
//! has it is over, its commit included.
//!
//! ```text
//!   clients = m, which run, + those that wait for a row of one of them
//!   rows of a kind, alike:  each is locked a m / rows of the time
//!   waiting for the kind    = a m u / (1 - u),  u = (1 - 1 / clients) a m / rows
//! ```
//!
//! `a` is the mean number of rows of a kind that a running transaction has locked, so that the
//! length of its run, and its waits meanwhile, do not matter: only the m that run load storage and
//! processors. Each row is a server with a queue in a closed system, solved by mean values: a
//! transaction that comes finds the queue that the others leave (Reiser and Lavenberg 1980, with
//! Schweitzer's share). This is exact if a transaction locks one row from its begin to its end: m =
//! clients x rows / (rows + clients - 1). Left out are deadlocks, and the time for which a row is
//! locked while its transaction waits for the next.

use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// Rows of a kind, and how many of them a transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotRows {
    /// Rows, locked alike.
    pub rows: f64,
    /// Mean number of them that a transaction has locked while it works.
    pub at_work: f64,
    /// Mean rows of the kind that a running transaction has locked while it commits.
    pub at_commit: f64,
}

/// Newton's steps at most; from above each doubles the digits.
const MOST_STEPS: usize = 64;
/// A step of this share of the value ends them.
const CLOSE: f64 = 1e-12;

impl HotRows {
    /// Returns the mean number of rows that a transaction has locked, a share of whose time is its
    /// commit.
    pub(super) fn locked(&self, commit_share: f64) -> f64 {
        self.at_work + (self.at_commit - self.at_work) * commit_share
    }

    /// Refuses values that no transaction can have.
    pub(super) fn check(&self) -> Result<(), SimError> {
        SimError::check_range("hot rows of a kind", self.rows, 1.0, 1e12)?;
        SimError::check_range("hot rows locked at work", self.at_work, 0.0, 1.0)?;
        SimError::check_range("hot rows locked at commit", self.at_commit, 0.0, 1.0)
    }
}

/// Returns how many transactions wait for rows of these kinds while `running` run, and the
/// derivative of that by `running`. `others`: the share of all clients that can be in the way of a
/// transaction: all but its own, 0-1.
fn waiting(kinds: &[HotRows], commit_share: f64, running: f64, others: f64) -> (f64, f64) {
    kinds.iter().fold((0.0, 0.0), |(sum, slope), kind| {
        let locked_rows = kind.locked(commit_share);
        let used = others * locked_rows * running / kind.rows;
        if used >= 1.0 {
            return (f64::INFINITY, 1.0);
        }
        let queue = locked_rows * used / (1.0 - used);
        (sum + queue * running, slope + queue * (1.0 + 1.0 / (1.0 - used)))
    })
}

/// Counts the `clients` that run while the others wait for rows of these kinds; `commit_share`: of
/// the time that a transaction runs, that of its commit.
pub(super) fn count_running(kinds: &[HotRows], clients: f64, commit_share: f64) -> f64 {
    let others = 1.0 - 1.0 / clients;
    if kinds.is_empty() || others <= 0.0 {
        return clients;
    }
    let alone = |kind: &HotRows| {
        // The lower root of c (1 - a) m^2 - (1 + clients c) m + clients, c = others a / rows.
        let locked = kind.locked(commit_share);
        let c = others * locked / kind.rows;
        let sum = 1.0 + clients * c;
        2.0 * clients / (sum + libm::sqrt((sum * sum - 4.0 * c * (1.0 - locked) * clients).max(0.0)))
    };
    // With the other kinds fewer run, and what waits grows ever faster: Newton's steps come
    // down.
    let mut running = kinds.iter().map(alone).fold(clients, f64::min);
    for _ in 0..MOST_STEPS {
        let (queued, slope) = waiting(kinds, commit_share, running, others);
        let step = (running + queued - clients) / (1.0 + slope);
        running -= step;
        if step.abs() <= CLOSE * running {
            break;
        }
    }
    running
}

/// Returns the most transactions that can run at once; infinite where none waits for another's
/// rows.
pub(super) fn most_running(kinds: &[HotRows], commit_share: f64) -> f64 {
    kinds.iter().map(|kind| kind.rows / kind.locked(commit_share)).fold(f64::INFINITY, f64::min)
}

/// Counts the transactions of an open load that wait for rows while `running` run.
pub(super) fn count_waiting(kinds: &[HotRows], commit_share: f64, running: f64) -> f64 {
    waiting(kinds, commit_share, running, 1.0).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};

    fn kind(rows: f64, locked: f64) -> HotRows {
        HotRows { rows, at_work: locked, at_commit: locked }
    }

    /// A row from begin to end: the closed network of alike servers, of which m = n W / (W + n - 1)
    /// are at work.
    #[test]
    fn a_row_for_all_of_a_transaction_is_a_network_of_servers() {
        for rows in [1.0, 3.0, 64.0, 1_000.0] {
            for clients in [1.0, 2.0, 8.0, 64.0, 500.0] {
                let exact = clients * rows / (rows + clients - 1.0);
                let running = count_running(&[kind(rows, 1.0)], clients, 0.3);
                assert!((running / exact - 1.0).abs() < 1e-12, "{rows} rows, {clients} clients: {running}, not {exact}");
            }
        }
        assert_eq!(count_running(&[], 64.0, 0.1), 64.0);
    }

    /// All clients run or wait, and the more clients the more run, up to what the rows let.
    #[test]
    fn clients_run_or_wait() {
        let kinds = [HotRows { rows: 10.0, at_work: 0.15, at_commit: 0.5 }, kind(100.0, 0.8)];
        let mut before = 0.0;
        for clients in [1.0, 2.0, 16.0, 64.0, 256.0, 4_096.0] {
            let running = count_running(&kinds, clients, 0.2);
            let queued = waiting(&kinds, 0.2, running, 1.0 - 1.0 / clients).0;
            assert!(((running + queued) / clients - 1.0).abs() < 1e-9, "{clients}: {running} + {queued}");
            assert!(running > before && running <= most_running(&kinds, 0.2) * (1.0 + 1.0 / clients), "{clients}: {running}");
            before = running;
        }
        assert!((most_running(&kinds, 0.2) - 10.0 / 0.22).abs() < 1e-9);
    }

    /// Transactions of exponential length drawn one by one: half of them lock a row of a few when
    /// they begin, four fifths then one of the many, and let go of both at their end. The law
    /// leaves out that the first stays locked while they wait for the second: its rows are locked
    /// longer by the share that waits, u / (1 - u) of the second kind, and at most as many fewer
    /// run. Runs of 200,000 transactions: 1 % of chance.
    #[test]
    fn drawn_transactions_wait_as_long() {
        for (few, many, clients) in [(1_000, 10_000, 64), (50, 500, 64), (20, 200, 32)] {
            let running = count_running(&[kind(few as f64, 0.5), kind(many as f64, 0.8)], clients as f64, 0.0);
            let used = 0.8 * running / many as f64;
            let tolerance = 0.01 + 0.8 * used / (1.0 - used);
            let drawn = draw_running([few, many], [0.5, 0.8], clients);
            assert!((running / drawn - 1.0).abs() < tolerance, "{few} and {many} rows, {clients} clients: {running}, drawn {drawn}");
        }
    }

    /// Mean number of clients that run, by drawing.
    fn draw_running(rows: [usize; 2], chances: [f64; 2], clients: usize) -> f64 {
        let mut chance = ChaCha8Rng::seed_from_u64(25);
        let mut draw = || (chance.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut queues: [Vec<std::collections::VecDeque<usize>>; 2] = rows.map(|rows| vec![Default::default(); rows]);
        // Rows that a client has locked, the kind it is about to lock, and the time of its end.
        let mut picks = vec![[None, None]; clients];
        let mut ends = vec![f64::INFINITY; clients];
        let mut ready: Vec<(usize, usize)> = Vec::new();
        let (mut now, mut area, mut done) = (0.0, 0.0, 0);
        for (client, picked) in picks.iter_mut().enumerate() {
            *picked = [0, 1].map(|kind| (draw() < chances[kind]).then(|| (draw() * rows[kind] as f64) as usize));
            ready.push((client, 0));
        }
        while done < 200_000 {
            while let Some((client, from)) = ready.pop() {
                let blocked = (from..2).find(|kind| {
                    picks[client][*kind].is_some_and(|row| {
                        queues[*kind][row].push_back(client);
                        queues[*kind][row].len() > 1
                    })
                });
                if blocked.is_none() {
                    ends[client] = now - (1.0 - draw()).ln();
                }
            }
            let client = (0..clients).min_by(|a, b| ends[*a].total_cmp(&ends[*b])).unwrap();
            let running = ends.iter().filter(|end| end.is_finite()).count() as f64;
            area += running * (ends[client] - now);
            now = std::mem::replace(&mut ends[client], f64::INFINITY);
            done += 1;
            for kind in [1, 0] {
                if let Some(row) = picks[client][kind] {
                    queues[kind][row].pop_front();
                    ready.extend(queues[kind][row].front().map(|next| (*next, kind + 1)));
                }
            }
            picks[client] = [0, 1].map(|kind| (draw() < chances[kind]).then(|| (draw() * rows[kind] as f64) as usize));
            ready.insert(0, (client, 0));
        }
        area / now
    }
}
