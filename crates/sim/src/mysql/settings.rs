//! What server settings and memory do to a database: the one place that knows.
//!
//! Used by calibrations (what a run's settings decide outright), by the advice (what another setting would bring), by the planner and the lab's servers (how large a cache
//! an instance has room for). Decided in docs/decisions/0006.

/// Share of memory given to the cache (InnoDB's buffer pool, MyRocks' block cache and memtables). MySQL's own rule for a server that has its machine to itself:
/// 75 % above 4 GiB, 50 % from 1 to 4 GiB (innodb_dedicated_server, "Enabling Automatic InnoDB Configuration"); the default parameter groups of Amazon RDS take 3/4 too
/// (innodb_buffer_pool_size = {DBInstanceClassMemory*3/4}).
pub const CACHE_SHARE: f64 = 0.75;

/// Left to the operating system, connections and everything else, GiB; half of a memory below twice that. With [`CACHE_SHARE`] this is MySQL's table without its jump from
/// 50 to 75 % at 4 GiB: up to 4 GiB a half, from 8 GiB on three quarters, in between all but 2 GiB. That 2 GiB do between 4 and 8 is a guess.
const LEFT_GIB: f64 = 2.0;

/// GiB of cache that a memory of `memory_gib` has room for; `share` of it at most, [`CACHE_SHARE`] where none is given.
pub fn cache_gib_for(memory_gib: f64, share: Option<f64>) -> f64 {
    let left = LEFT_GIB.min(memory_gib / 2.0);
    (memory_gib * share.unwrap_or(CACHE_SHARE)).min(memory_gib - left).max(0.0)
}
