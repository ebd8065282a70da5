//! Wait that semi-synchronous replication adds to a commit, and the transactions a second that it
//! lets the source do.
//!
//! A commit waits until enough replicas have said that the transaction is in their relay log. Not
//! that it is on disk there: that is so only with `sync_relay_log` = 1, which flushes after every
//! event, one transaction after the other and never for several at once.

use crate::error::SimError;
use serde::{Deserialize, Serialize};

/// One client never waits for another's group ([`SemiSyncPrice::rate`]).
const TWO: f64 = 2.0;

/// A receive thread that is busy for less than this share of the time makes nobody wait.
const NEVER_FULL: f64 = 0.01;

/// Place of the wait in a commit: before it is seen by others, holding its place in the order of
/// commits, or after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitPoint {
    #[default]
    /// rpl_semi_sync_source_wait_point = AFTER_SYNC: before others see the commit.
    AfterSync,
    /// AFTER_COMMIT: before the client has its answer.
    AfterCommit,
}

/// Semi-synchronous replication as the source sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SemiSync {
    /// Round trip to each replica that acknowledges, ms.
    pub round_trips_ms: Vec<f64>,
    /// Replicas that must acknowledge (rpl_semi_sync_source_wait_for_replica_count).
    pub acknowledgements: u32,
    /// Milliseconds until the source goes on without (rpl_semi_sync_source_timeout).
    pub timeout_ms: f64,
    /// Place of the wait in a commit (rpl_semi_sync_source_wait_point).
    #[serde(default)]
    pub wait_point: WaitPoint,
    /// Groups of commits that meet become one, as in MySQL, and one acknowledgement wakes all of
    /// it; in MariaDB a group is sent when the one before it has its acknowledgement.
    #[serde(default)]
    pub groups_merge: bool,
}

/// The price of semi-sync.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SemiSyncPrice {
    /// Wait of a commit beyond its own flushes, ms.
    pub added_ms: f64,
    /// Part of it for the receive thread's flushes, ms.
    pub relay_ms: f64,
    /// Most transactions a second that receive threads take in.
    pub most_tps: f64,
    /// The wait is longer than the timeout: the source goes on unprotected.
    pub times_out: bool,
    /// One group of commits after the other has its acknowledgement; the next is flushed meanwhile.
    pub in_turn: bool,
    /// All clients wait together and then work together: nobody works while the others wait.
    pub in_step: bool,
}

impl SemiSyncPrice {
    /// Returns the wait of a commit for the network, ms.
    pub fn network_ms(&self) -> f64 {
        self.added_ms - self.relay_ms
    }

    /// Returns whether these clients wait for the network side by side, each for itself.
    pub fn side_by_side(&self, clients: f64) -> bool {
        !self.in_step || clients < TWO
    }

    /// Returns the transactions a second of `clients` that commit once each and would do `tps` if
    /// they waited for the network alone, or where they wait in step, without it; `flush_ms`: of
    /// the binary log.
    ///
    /// Clients in step begin together: all of their work comes before the wait, as if each found
    /// all the others there, and the wait behind it. Groups that have met never part. Groups in
    /// turn are sent every network's wait, or flush where that is longer, and a client that comes
    /// back waits for the next. The receive thread is one server for all of them: mean value
    /// analysis of a closed queue, which one client never finds occupied.
    pub fn rate(&self, clients: f64, tps: f64, flush_ms: f64) -> f64 {
        if tps <= 0.0 || self.times_out {
            return tps;
        }
        let (mut cycle_ms, network_ms) = (clients * 1e3 / tps, self.network_ms());
        if !self.side_by_side(clients) {
            cycle_ms += network_ms;
        }
        if self.in_turn && clients >= TWO {
            let period_ms = flush_ms.max(network_ms);
            let away_ms = (cycle_ms - flush_ms - network_ms).max(1e-3);
            let until_next_ms = period_ms / (1.0 - libm::exp(-period_ms / away_ms)) - away_ms;
            // Without semi-sync a client waits half a flush for the group before it.
            cycle_ms += (until_next_ms - flush_ms / 2.0).max(0.0);
        }
        let alone = clients * 1e3 / (cycle_ms + self.relay_ms);
        if alone < NEVER_FULL * self.most_tps {
            return alone;
        }
        let (mut queue, mut rate_per_ms) = (0.0, 0.0);
        for present in 1..=clients.ceil() as u64 {
            let there_ms = self.relay_ms * (1.0 + queue);
            rate_per_ms = present as f64 / (cycle_ms + there_ms);
            queue = rate_per_ms * there_ms;
        }
        rate_per_ms * 1e3
    }
}

/// Returns the time of the relay log's flushes for a transaction, s; the receive thread does
/// nothing else that counts. `events`: of a transaction; `sync_relay_log`: events per flush, 0
/// never.
pub fn receive_s(events: f64, sync_relay_log: u32, flush_s: f64) -> f64 {
    if sync_relay_log == 0 {
        return 0.0;
    }
    events / f64::from(sync_relay_log) * flush_s
}

impl SemiSync {
    /// Refuses values out of bounds, and more acknowledgements than replicas, which would never
    /// come.
    pub fn check(&self) -> Result<(), SimError> {
        self.round_trips_ms.iter().try_for_each(|ms| SimError::check_range("round trip to a replica (ms)", *ms, 0.0, 60_000.0))?;
        SimError::check_range("timeout of semi-sync (ms)", self.timeout_ms, 1.0, 4_294_967_295.0)?;
        if self.acknowledgements == 0 || self.acknowledgements as usize > self.round_trips_ms.len() {
            let rule = format!("must be from 1 to the {} replicas that acknowledge: more would never come", self.round_trips_ms.len());
            return Err(SimError::refused("acknowledgements", self.acknowledgements, rule, "Ask for fewer, or name more round trips."));
        }
        Ok(())
    }

    /// Returns the price, with `receive_s` of the receive thread's flushes per transaction.
    pub fn price(&self, receive_s: f64) -> SemiSyncPrice {
        let mut sorted = self.round_trips_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let nearest = sorted.get(self.acknowledgements as usize - 1).copied().unwrap_or(0.0);
        let added_ms = nearest + receive_s * 1e3;
        let most_tps = if receive_s > 0.0 { 1.0 / receive_s } else { f64::INFINITY };
        let in_turn = self.wait_point == WaitPoint::AfterSync && !self.groups_merge;
        let times_out = added_ms > self.timeout_ms;
        SemiSyncPrice { added_ms, relay_ms: receive_s * 1e3, most_tps, times_out, in_turn, in_step: self.groups_merge }
    }
}
