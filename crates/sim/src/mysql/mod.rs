//! MySQL on the volume model: what a transaction asks of its storage, and how many a second come of
//! it.
//!
//! | file | idea |
//! |---|---|
//! | `database` | a database as its storage sees it: the parameters a calibration identifies |
//! | `popularity` | how often pages are touched: classes of like pages |
//! | `revisits` | touches that come back to pages changed not long ago: TPC-C's stock levels |
//! | `last_orders` | what TPC-C's stock level reads of: cold while the data is as loaded |
//! | `cache` | pages in the buffer pool or block cache while it fills and after: reads and evictions per transaction |
//! | `cleaner` | how many dirty pages the page cleaner writes, by flavor, version and settings |
//! | `checkpoint` | its age: what a full redo log does to flushing and to clients |
//! | `warmup` | the cache followed over transactions, once per database and cache size |
//! | `hot_rows` | rows that transactions lock until they have committed, and wait for |
//! | `pauses` | pauses of a small pool, which come with the transactions |
//! | `purge` | pages that purge reads again, where a small cache lost them before it came |
//! | `settings` | what server settings and memory do to a database |
//! | `demand` | one transaction in I/Os and bytes, on data and log volumes |
//! | `standard` | sysbench-tpcc with no run measured |
//! | `costs` | what statements take of real servers, as measured: `data/mysql/standards.csv` |
//! | `sysbench` | the OLTP scripts of sysbench with no run measured |
//! | `tprocc` | HammerDB's TPROC-C with no run measured |
//! | `local_disk` | how fast a local disk is before a run tells: by its kind and what the load does to it |
//! | `interval` | second by second: the tightest of caps, clients and processors decides |
//! | `services` | the same on RDS and Aurora: standby, log-only storage, readers, billed I/O |
//! | `search` | many storages and instances at once: the planner's inner loop |
//! | `replica` | a replica: the rate it applies at, lag, semi-sync |
//! | `clients` | the per-I/O form: every client, page read and log write, for short runs and latency |

pub mod cache;
pub mod checkpoint;
pub mod cleaner;
pub mod clients;
pub mod costs;
pub mod database;
pub mod demand;
pub mod hot_rows;
pub mod interval;
pub mod last_orders;
pub mod local_disk;
pub mod pauses;
pub mod popularity;
pub mod purge;
pub mod replica;
pub mod revisits;
pub mod search;
pub mod services;
pub mod settings;
pub mod standard;
pub mod sysbench;
pub mod tprocc;
pub mod warmup;

pub use database::{CheckpointLaw, Clients, Compaction, Database, Dirtying, IoShape, Log, Noise, PageCleaner, PageWrites, StorageEngine};
pub use hot_rows::HotRows;
pub use interval::{Binding, Scenario, Second, Start, TransactionLoad};
pub use last_orders::LastOrders;
pub use popularity::{PageClass, Popularity};
pub use warmup::WarmUp;
