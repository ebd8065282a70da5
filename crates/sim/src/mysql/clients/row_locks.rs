//! Rows that transactions have locked, and who waits for them.

use crate::mysql::database::Database;
use headrace_model::chance::unit;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// A row: its kind, and its number among its like.
type Row = (usize, u64);

/// The rows of a transaction, in the order in which it locks them.
#[derive(Clone, Default)]
struct Locking {
    rows: Vec<Row>,
    /// Number of rows that it has requested.
    requested: usize,
}

/// Locks of a run. They are taken when a transaction begins, kind after kind, so that none waits in
/// a circle, and released when it is over.
pub(super) struct RowLocks {
    /// Chance that a transaction locks a row of a kind, and rows of the kind.
    kinds: Vec<(f64, f64)>,
    /// Clients by row: the first has the row, the others wait for it.
    queues: BTreeMap<Row, VecDeque<u32>>,
    clients: Vec<Locking>,
    chance: ChaCha8Rng,
}

impl RowLocks {
    /// Makes the locks of `clients`, none of which has begun. `commit_share`: of the time of a
    /// transaction, that of its commit.
    pub fn new(database: &Database, clients: u32, commit_share: f64, chance: ChaCha8Rng) -> RowLocks {
        let kinds = database.hot_rows.iter().map(|kind| (kind.locked(commit_share), kind.rows)).collect();
        RowLocks { kinds, queues: BTreeMap::new(), clients: vec![Locking::default(); clients as usize], chance }
    }

    /// Draws the rows of a client's new transaction and asks for them; returns whether it has them
    /// all.
    pub fn begin(&mut self, id: u32) -> bool {
        let mut rows = Vec::new();
        for (kind, &(locks, count)) in self.kinds.iter().enumerate() {
            if unit(&mut self.chance) < locks {
                rows.push((kind, (unit(&mut self.chance) * count) as u64));
            }
        }
        self.clients[id as usize] = Locking { rows, requested: 0 };
        self.lock(id)
    }

    /// Asks for the rest of a client's rows, up to the first that another one has; returns whether
    /// it has them all.
    fn lock(&mut self, id: u32) -> bool {
        let client = &mut self.clients[id as usize];
        while let Some(row) = client.rows.get(client.requested) {
            client.requested += 1;
            let queue = self.queues.entry(*row).or_default();
            queue.push_back(id);
            if queue.len() > 1 {
                return false;
            }
        }
        true
    }

    /// Releases the rows of a client whose transaction is over; returns the clients that have all
    /// their rows now and may run.
    pub fn release(&mut self, id: u32) -> Vec<u32> {
        let mut ready = Vec::new();
        for row in std::mem::take(&mut self.clients[id as usize]).rows {
            let Some(queue) = self.queues.get_mut(&row) else { continue };
            queue.pop_front();
            match queue.front().copied() {
                Some(next) => ready.extend(self.lock(next).then_some(next)),
                None => {
                    self.queues.remove(&row);
                }
            }
        }
        ready
    }
}
