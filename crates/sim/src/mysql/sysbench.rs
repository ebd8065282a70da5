//! The standard sysbench OLTP workloads, worked out without a run.
//!
//! ```text
//!   rows' popularity (--rand-type) -> pages by popularity -> classes of like pages
//!   statements of the script       -> touches of leaf pages, pages dirtied, log bytes, processor
//!   redo size                      -> how long a page may stay dirty -> pages flushed per transaction
//! ```
//!
//! Scripts and their default options are those of sysbench 1.0.20 (its Lua files); how rows are
//! drawn is in `distribution`. `k` of a row is drawn as its id is, so a lookup by `k` finds many
//! rows where draws are skewed.
//!
//! Undo pages, and leaves that page splits and merges change, are followed with the page cleaner:
//! it writes a page soon after its change, and these are half of what few transactions change. Left
//! out: growth by `oltp_insert`, rows that `oltp_delete` no longer finds, the change buffer.
//! Constants that are guessed say so; [`SPREADS`] has how far each may be off.

mod distribution;

pub use distribution::{classes, Distribution};

use super::costs::{ClientHost, Cost, Costs, Flavor, RoundTrip};
use super::database::{Clients, Compaction, Database, Dirtying, IoShape, Log, Noise, PageCleaner, PageWrites, StorageEngine, SERIAL_SHARE};
use super::popularity::{PageClass, Popularity};
use super::settings::{evicted_before_written, syncs_per_commit, REDO_USABLE};
use crate::error::SimError;
use crate::report::MIB;
use distribution::rows_per_key;
use serde::{Deserialize, Serialize};

const GIB: f64 = 1_073_741_824.0;

/// Classes a table's pages and an index's pages are cut into.
const MOST_CLASSES: usize = 24;

/// InnoDB page, bytes (innodb_page_size).
const PAGE_BYTES: f64 = 16_384.0;
/// Part of a page that holds records: less file header 38, page header 56, infimum and supremum 26,
/// their directory slots 4, trailer 8 (InnoDB COMPACT format).
const PAGE_ROOM: f64 = PAGE_BYTES - 132.0;
/// Left free when rows come in key order: 1/16 of the page (dev.mysql.com, "The Physical Structure
/// of an InnoDB Index": 15/16 full).
const FREE_IN_ORDER: f64 = PAGE_BYTES / 16.0;
/// sbtest row, bytes: header 5, id 4, transaction id 6, roll pointer 7, k 4, c 120, pad 60, and its
/// 1/6 of a 2-byte directory slot. One byte a character.
const ROW_BYTES: f64 = 5.0 + 4.0 + 6.0 + 7.0 + 4.0 + 120.0 + 60.0 + 2.0 / 6.0;
/// Entry of the secondary index, bytes: header 5, k 4, id 4, directory 1/3. A node pointer of the
/// clustered index is as long.
const ENTRY_BYTES: f64 = 5.0 + 4.0 + 4.0 + 2.0 / 6.0;
/// Fill of its pages. Guess between 1 (freshly built) and ln 2 (random inserts for long: Yao 1978).
const INDEX_FILL: f64 = 0.85;

/// Rollback segments that transactions which write take in turn: innodb_rollback_segments (128) in
/// each of the two undo tablespaces of MySQL from 8.0 (its manual).
const ROLLBACK_SEGMENTS: f64 = 256.0;
/// Pages that a transaction changes in one: the header, which has the list of its history, and the
/// page of undo records, which the next one uses again until three quarters are full
/// (TRX_UNDO_PAGE_REUSE_LIMIT in trx0undo.h).
const PAGES_OF_SEGMENT: f64 = 2.0;
/// Splits of a leaf for an entry inserted into a secondary index, and merges of two leaves for one
/// purged: an index that was built at once is packed, so that an entry more splits a leaf, whose
/// halves the next purge merges again (MERGE_THRESHOLD, 50 %). Counted by index_page_splits and
/// index_page_merge_successful in 2,000 transactions of `oltp_read_write` with pareto accesses,
/// after 2,000 others (MySQL 9.7.4 in memory, 2026-11-29): 1,441 and 1,252 of 4,000 entries.
const SPLITS_AND_MERGES: [f64; 2] = [0.36, 0.31];
/// Leaves that either changes next to that of the entry: the new one or the one that takes the
/// other in, and the neighbor whose link changes (btr_page_split_and_insert, btr_compress).
const OTHER_LEAVES: f64 = 2.0;

/// MyRocks: bytes of a row and an index entry in a block: keys with the sequence number, less
/// shared prefixes. Guess.
const ROCKS_ROW_BYTES: f64 = 199.0;
/// Bytes of an entry of the secondary index in MyRocks.
const ROCKS_ENTRY_BYTES: f64 = 17.0;
/// Block and its compressed size. Guess: 2:1 (sbtest's digits compress well).
const ROCKS_BLOCK_BYTES: f64 = 16_384.0;
/// Bytes of a block over its compressed size (guess, see above).
const ROCKS_COMPRESSION: f64 = 2.0;
/// Level-0 files that start a compaction (level0_file_num_compaction_trigger, default).
const ROCKS_TRIGGER: f64 = 4.0;
/// Bytes written, flush included, per byte put (both compressed). Guess for levelled compaction; it
/// reads as many less the flush.
const ROCKS_WRITE_AMPLIFICATION: f64 = 8.0;
/// Bytes a second compaction moves at most. Guess.
const ROCKS_COMPACTION_RATE: f64 = 200.0 * MIB;

/// Redo of MySQL 5.7 and 8.0 up to 8.0.29: 2 files of 48 MiB. From 8.0.30 innodb_redo_log_capacity
/// is 100 MiB.
const DEFAULT_REDO_BYTES: f64 = 96.0 * MIB;
/// Share of the buffer pool that holds pages: less adaptive hash and control structures. Guess.
pub(super) const USABLE_SHARE: f64 = 0.96;
/// Share of the list behind the midpoint: innodb_old_blocks_pct, 37.
pub(super) const OLD_SHARE: f64 = 0.375;

/// Spread of a parameter of [`Oltp::database`] if nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The parameter, as the database file names it.
    pub parameter: &'static str,
    /// Standard deviation of its logarithm.
    pub relative_sd: f64,
    /// Source of the width.
    pub because: &'static str,
}

/// Makes a row of the table.
const fn spread(parameter: &'static str, relative_sd: f64, because: &'static str) -> Spread {
    Spread { parameter, relative_sd, because }
}

/// Widths, all guessed from how the parameter was derived.
pub const SPREADS: &[Spread] = &[
    spread("popularity.pages", 0.05, "rows per page follow from the record format; fill of index pages 0.69 to 1"),
    spread("popularity.touches_per_tx", 0.05, "statements are known; change buffer and repeated touches are left out"),
    spread("usable_share", 0.03, "guess"),
    spread("read_bytes", 0.2, "exact for InnoDB; compression of MyRocks is a guess"),
    spread("writes.flush_per_tx", 0.5, "redo bytes and the usable share of the redo log"),
    spread("writes.flush_ramp_tx", 0.5, "as flush_per_tx"),
    spread("writes.first_dirty", 0.5, "split between flush list and eviction is approximate"),
    spread("writes.later_dirty", 0.5, "as first_dirty"),
    spread("writes.background_per_s", 0.7, "innodb_io_capacity is a ceiling more than a rate"),
    spread("log.redo_bytes_per_tx", 0.25, "measured; cases lie up to 29 % from the sums of their statements, and a young index splits"),
    spread("log.binlog_bytes_per_tx", 0.1, "measured with full row images"),
    spread("compaction.period_tx", 0.4, "size of memtables as flushed"),
    spread("compaction.read_bytes_per_tx", 0.5, "write amplification is a guess"),
    spread("compaction.write_bytes_per_tx", 0.5, "write amplification is a guess"),
    spread("compaction.rate_bytes_s", 0.5, "guess"),
    spread("clients.base_ms", 0.4, "where the client is, is a guess"),
    spread("clients.cpu_ms", 0.35, "measured on one machine; other versions, ways of clients and processors"),
    spread("clients.serial_share", 1.0, "guess"),
    spread("clients.sharpness", 0.3, "six runs of another workload"),
    spread("clients.p95_over_mean", 0.3, "guess"),
    spread("noise.fano", 0.4, "2 to 4 on io1 runs of TPC-C, 2018"),
    spread("noise.cv", 0.3, "0.05 to 0.06 on the same runs"),
];

/// A standard script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // The names are sysbench's own.
pub enum Script {
    OltpReadWrite,
    OltpReadOnly,
    OltpWriteOnly,
    OltpPointSelect,
    OltpUpdateIndex,
    OltpUpdateNonIndex,
    OltpInsert,
    OltpDelete,
    SelectRandomPoints,
    SelectRandomRanges,
}

/// Statements of a transaction. Options that are not given have the script's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)] // The names are sysbench's own options.
pub struct Overrides {
    pub point_selects: Option<u32>,
    pub simple_ranges: Option<u32>,
    pub sum_ranges: Option<u32>,
    pub order_ranges: Option<u32>,
    pub distinct_ranges: Option<u32>,
    pub index_updates: Option<u32>,
    pub non_index_updates: Option<u32>,
    pub delete_inserts: Option<u32>,
    pub random_points: Option<u32>,
    pub number_of_ranges: Option<u32>,
}

/// A sysbench run and the settings of the server that its storage notices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oltp {
    /// Script.
    pub script: Script,
    /// `--rand-type` and its options.
    pub distribution: Distribution,
    /// Statement counts other than the script's.
    pub statements: Overrides,
    /// Storage engine.
    pub engine: StorageEngine,
    /// Flavor of the server.
    pub flavor: Flavor,
    /// `--tables`.
    pub tables: u32,
    /// Rows of a table (`--table-size`).
    pub table_size: u64,
    /// Rows of a range select (`--range-size`).
    pub range_size: u32,
    /// Keys of a range of select_random_ranges, less one (`--delta`).
    pub delta: u32,
    /// Threads; only select_random_* draw by them.
    pub threads: u32,
    /// Every statement commits by itself (`--skip-trx`).
    pub skip_trx: bool,
    /// Redo log, GiB; none: 96 MiB, the default up to 8.0.29.
    pub redo_gib: Option<f64>,
    /// Buffer pool for which page writes are split between flush list and eviction, GiB; none: half
    /// of the pages fit.
    pub cache_gib: Option<f64>,
    /// innodb_flush_log_at_trx_commit, rocksdb_flush_log_at_trx_commit: 0, 1 or 2; 3 in MariaDB.
    pub flush_log_at_trx_commit: u8,
    /// Binary log on: the default from 8.0.
    pub log_bin: bool,
    /// sync_binlog: commits per sync; 0 never.
    pub sync_binlog: u32,
    /// innodb_io_capacity, pages a second.
    pub io_capacity: f64,
    /// innodb_doublewrite.
    pub doublewrite: bool,
    /// The page cleaner, with which pages are followed class by class; none: dirty shares and pages
    /// in the background are of the whole cache.
    pub cleaner: Option<PageCleaner>,
    /// MyRocks' memtable (write_buffer_size), MiB.
    pub memtable_mib: f64,
    /// Host of the clients.
    pub client_host: ClientHost,
    /// Round trip of a statement without processor time, ms; none: as from there.
    pub round_trip_ms: Option<f64>,
}

impl Default for Oltp {
    /// Makes `oltp_read_write` with sysbench's defaults on a MySQL 8.0 with its own.
    fn default() -> Oltp {
        Oltp {
            script: Script::OltpReadWrite,
            distribution: Distribution::default(),
            statements: Overrides::default(),
            engine: StorageEngine::Innodb,
            flavor: Flavor::default(),
            tables: 1,
            table_size: 10_000,
            range_size: 100,
            delta: 5,
            threads: 1,
            skip_trx: false,
            redo_gib: None,
            cache_gib: None,
            flush_log_at_trx_commit: 1,
            log_bin: true,
            sync_binlog: 1,
            io_capacity: 200.0,
            doublewrite: true,
            cleaner: None,
            memtable_mib: 64.0,
            client_host: ClientHost::default(),
            round_trip_ms: None,
        }
    }
}

/// Statements of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Statements {
    point_selects: f64,
    ranges: f64,
    index_updates: f64,
    non_index_updates: f64,
    /// Each with the insert of the same row.
    delete_inserts: f64,
    deletes: f64,
    appends: f64,
    random_points: f64,
    random_ranges: f64,
    /// BEGIN and COMMIT.
    brackets: f64,
}

impl Statements {
    /// Returns the statements that write, by number and by their name in the table of costs.
    fn writing(&self) -> [(f64, &'static str); 4] {
        [
            (self.index_updates, "index_update"),
            (self.non_index_updates, "non_index_update"),
            (self.delete_inserts + self.deletes, "delete"),
            (self.delete_inserts + self.appends, "insert"),
        ]
    }

    /// Returns the number of statements that write.
    fn writes(&self) -> f64 {
        self.writing().iter().map(|(count, _)| count).sum()
    }

    /// Returns the number of statements that are sent, BEGIN and COMMIT included.
    fn round_trips(&self) -> f64 {
        self.point_selects + self.ranges + self.writes() + self.lookups() + self.brackets
    }

    /// Returns the number of statements of select_random_*.
    fn lookups(&self) -> f64 {
        f64::from(u8::from(self.random_points > 0.0)) + f64::from(u8::from(self.random_ranges > 0.0))
    }

    /// Returns the number of commits: one of a transaction that writes, or one for each writing
    /// statement under autocommit.
    fn commits(&self) -> f64 {
        if self.brackets > 0.0 {
            self.writes().min(1.0)
        } else {
            self.writes()
        }
    }

    /// Returns the cost of the writing statements of a transaction and of its commits.
    fn written(&self, costs: &Costs) -> Result<Cost, SimError> {
        let mut sum = Cost::default();
        for (count, statement) in self.writing().into_iter().chain([(self.commits(), "commit")]) {
            sum.add(count, costs.find(statement)?);
        }
        Ok(sum)
    }
}

/// Pages of like popularity and how often they are changed.
#[derive(Clone, Copy)]
struct PagePart {
    class: PageClass,
    writes_per_tx: f64,
}

/// Layout of rows in the engine's pages.
struct RowLayout {
    rows_per_page: f64,
    entries_per_page: f64,
}

impl Oltp {
    /// Returns the pages of the data set: leaf pages of primary key and index k, of all tables.
    pub fn pages(&self) -> f64 {
        let layout = self.layout();
        f64::from(self.tables) * (self.table_size as f64 / layout.rows_per_page + self.index_pages(&layout))
    }

    /// Refuses options that sysbench or MySQL would refuse.
    pub fn check(&self) -> Result<(), SimError> {
        self.distribution.check()?;
        SimError::check_range("tables", f64::from(self.tables), 1.0, 100_000.0)?;
        SimError::check_range("rows of a table (table_size)", self.table_size as f64, 1.0, 4_294_967_295.0)?;
        SimError::check_range("rows of a range (range_size)", f64::from(self.range_size), 1.0, 1e6)?;
        SimError::check_range("keys of a range (delta)", f64::from(self.delta), 0.0, 1e6)?;
        SimError::check_range("threads", f64::from(self.threads), 1.0, 4_096.0)?;
        SimError::check_range("flush_log_at_trx_commit", f64::from(self.flush_log_at_trx_commit), 0.0, 3.0)?;
        SimError::check_range("redo log (GiB)", self.redo_gib.unwrap_or(1.0), 0.004, 1_024.0)?;
        SimError::check_range("cache (GiB)", self.cache_gib.unwrap_or(1.0), 0.004, 65_536.0)?;
        SimError::check_range("io_capacity (pages a second)", self.io_capacity, 0.0, 1e6)?;
        SimError::check_range("memtable (MiB)", self.memtable_mib, 0.1, 65_536.0)?;
        SimError::check_range("round trip (ms)", self.round_trip_ms.unwrap_or(0.0), 0.0, 1e4)?;
        let statements = self.statements();
        SimError::check_range("statements of a transaction", statements.round_trips() - statements.brackets, 1.0, 10_000.0)?;
        let lookups = statements.random_points + statements.random_ranges;
        if lookups > 0.0 && self.tables != 1 {
            let rule = "must be 1 for select_random_*: they read sbtest1 alone (sysbench refuses others)";
            return Err(SimError::refused("tables", self.tables, rule, "Give 1 table."));
        }
        SimError::check_range("keys of a select_random_* statement", lookups, 0.0, 10_000.0)
    }

    /// Returns the statements of a transaction of the script, with the numbers that were given
    /// instead of its own.
    fn statements(&self) -> Statements {
        use Script::*;
        let (script, given) = (self.script, &self.statements);
        let count = |scripts: &[Script], given: Option<u32>, default: u32| if scripts.contains(&script) { f64::from(given.unwrap_or(default)) } else { 0.0 };
        let (reading, writing) = ([OltpReadWrite, OltpReadOnly], [OltpReadWrite, OltpWriteOnly]);
        let ranges = [given.simple_ranges, given.sum_ranges, given.order_ranges, given.distinct_ranges];
        let point_selects = match script {
            OltpPointSelect => count(&[script], given.point_selects, 1),
            _ => count(&reading, given.point_selects, 10),
        };
        Statements {
            point_selects,
            ranges: ranges.iter().map(|given| count(&reading, *given, 1)).sum(),
            index_updates: count(&[OltpReadWrite, OltpWriteOnly, OltpUpdateIndex], given.index_updates, 1),
            non_index_updates: count(&[OltpReadWrite, OltpWriteOnly, OltpUpdateNonIndex], given.non_index_updates, 1),
            delete_inserts: count(&writing, given.delete_inserts, 1),
            deletes: count(&[OltpDelete], None, 1),
            appends: count(&[OltpInsert], None, 1),
            random_points: count(&[SelectRandomPoints], given.random_points, 10),
            random_ranges: count(&[SelectRandomRanges], given.number_of_ranges, 10),
            brackets: if self.skip_trx { 0.0 } else { count(&[OltpReadWrite, OltpReadOnly, OltpWriteOnly], None, 2) },
        }
    }

    /// Returns how many rows and index entries a page of the engine holds.
    fn layout(&self) -> RowLayout {
        match self.engine {
            // Records do not span pages.
            StorageEngine::Innodb => {
                RowLayout { rows_per_page: ((PAGE_ROOM - FREE_IN_ORDER) / ROW_BYTES).floor(), entries_per_page: PAGE_ROOM / ENTRY_BYTES * INDEX_FILL }
            }
            StorageEngine::Myrocks => RowLayout { rows_per_page: ROCKS_BLOCK_BYTES / ROCKS_ROW_BYTES, entries_per_page: ROCKS_BLOCK_BYTES / ROCKS_ENTRY_BYTES },
        }
    }

    /// Returns the leaf pages of index k of one table.
    fn index_pages(&self, layout: &RowLayout) -> f64 {
        self.table_size as f64 / layout.entries_per_page
    }

    /// Returns the leaf pages of the primary key of all tables, by popularity.
    fn row_pages(&self, statements: &Statements, layout: &RowLayout) -> Vec<PagePart> {
        let (rows, tables) = (self.table_size as f64, f64::from(self.tables));
        // A range begins anywhere in a page and goes on to the next ones.
        let pages_of_range = 1.0 + (f64::from(self.range_size).min(rows) - 1.0) / layout.rows_per_page;
        // The row inserted after its delete is on the page just touched.
        let written = statements.index_updates + statements.non_index_updates + statements.delete_inserts + statements.deletes;
        let touched = statements.point_selects + statements.ranges * pages_of_range + written;
        // Rows found by k lie anywhere.
        let by_key = if statements.random_points > 0.0 { statements.random_points * rows_per_key(&self.distribution, rows, self.threads) } else { 0.0 };
        let pages = tables * rows / layout.rows_per_page;
        classes(&self.distribution, rows, layout.rows_per_page, 1.0, MOST_CLASSES)
            .into_iter()
            .map(|class| {
                let share = class.touches_per_tx / tables;
                let class = PageClass { pages: class.pages * tables, touches_per_tx: touched * share + by_key / pages };
                PagePart { class, writes_per_tx: written * share }
            })
            .collect()
    }

    /// Returns the leaf pages of index k of all tables, by popularity. An entry is as popular as
    /// its row and anywhere: pages are sorted by the hottest class of rows they hold an entry of.
    /// Inserts, splits and lookups go anywhere. MyRocks writes its index blindly.
    fn index_leaf_pages(&self, statements: &Statements, layout: &RowLayout) -> Vec<PagePart> {
        let (rows, tables, pages) = (self.table_size as f64, f64::from(self.tables), self.index_pages(layout));
        let (by_row, inserted) = match self.engine {
            StorageEngine::Innodb => {
                (statements.index_updates + statements.delete_inserts + statements.deletes, statements.delete_inserts + statements.appends)
            }
            StorageEngine::Myrocks => (0.0, 0.0),
        };
        // An updated entry goes and comes again.
        let [splits, merges] = if self.cleaner.is_some() { SPLITS_AND_MERGES } else { [0.0; 2] };
        let others = OTHER_LEAVES * (splits * (inserted + statements.index_updates.min(by_row)) + merges * by_row);
        let lookups = statements.random_points + statements.random_ranges;
        let keys = if statements.random_ranges > 0.0 { f64::from(self.delta) + 1.0 } else { 1.0 };
        let entries = if lookups > 0.0 { keys * rows_per_key(&self.distribution, rows, self.threads) } else { 0.0 };
        let read = lookups * (1.0 + entries / layout.entries_per_page);
        let mut parts = Vec::new();
        // Share of pages without an entry of the classes before, and touches of every one of them.
        let mut untouched: f64 = 1.0;
        let by_popularity = classes(&self.distribution, rows, 1.0, 1.0, MOST_CLASSES);
        let mut colder: f64 = 1.0;
        for (i, class) in by_popularity.iter().enumerate() {
            let mass = class.pages * class.touches_per_tx;
            colder = (colder - mass).max(0.0);
            let share = if i + 1 == by_popularity.len() { untouched } else { untouched * -libm::expm1(-class.pages / pages) };
            if untouched < 1e-12 {
                break;
            }
            // Entries of its class that are not on hotter pages; colder ones are spread over all.
            let hits = mass * untouched / share + colder;
            let written = (by_row * hits + inserted + others) / pages / tables;
            let class = PageClass { pages: share * pages * tables, touches_per_tx: written + read / pages / tables };
            parts.push(PagePart { class, writes_per_tx: written });
            untouched -= share;
        }
        parts
    }

    /// Returns the leaf pages that are touched at all.
    fn parts(&self, statements: &Statements, layout: &RowLayout) -> Vec<PagePart> {
        let mut parts = self.row_pages(statements, layout);
        parts.extend(self.index_leaf_pages(statements, layout));
        parts.retain(|part| part.class.touches_per_tx > 0.0);
        parts
    }

    /// Returns the share of touches that change the page, for each class of [`Self::database`]: a
    /// leaf of an index is changed by nearly all, one of rows by some, a node page by next to none.
    pub fn changed(&self) -> Vec<f64> {
        let (statements, layout) = (self.statements(), self.layout());
        let share = |part: PagePart| (part.writes_per_tx / part.class.touches_per_tx).min(1.0);
        let undo = self.undo_pages(&statements).map(|_| 1.0);
        self.parts(&statements, &layout).into_iter().map(share).chain([0.0]).chain(undo).collect()
    }

    /// Returns the pages of the rollback segments, which transactions that write change in turn;
    /// none where dirty pages are not followed.
    fn undo_pages(&self, statements: &Statements) -> Option<PageClass> {
        let commits = statements.commits();
        let pages = PAGES_OF_SEGMENT * ROLLBACK_SEGMENTS;
        self.cleaner.filter(|_| commits > 0.0).map(|_| PageClass { pages, touches_per_tx: commits / ROLLBACK_SEGMENTS })
    }

    /// Makes the database of this run.
    ///
    /// # Errors
    /// Options that sysbench or MySQL would refuse.
    pub fn database(&self) -> Result<Database, SimError> {
        self.check()?;
        let (statements, layout) = (self.statements(), self.layout());
        let costs = Costs::read(self.engine, self.flavor)?;
        let parts = self.parts(&statements, &layout);
        let innodb = self.engine == StorageEngine::Innodb;
        let written = statements.written(&costs)?;
        let log = self.log(&statements, written);
        let cached_bytes = if innodb { PAGE_BYTES } else { ROCKS_BLOCK_BYTES };
        let mut writes = if innodb { self.page_writes(&statements, &layout, &parts, log.redo_bytes_per_tx) } else { PageWrites::none() };
        // Rows that are appended are on pages of their own, which no class has.
        let cleaner = self.cleaner.filter(|_| innodb && writes.flush_per_tx > 0.0 && statements.appends == 0.0);
        let undo = self.undo_pages(&statements);
        let dirtying = cleaner.map(|_| Dirtying {
            changed: self.changed(),
            window_tx: writes.flush_ramp_tx,
            flush_per_tx: writes.flush_per_tx,
            revisit_tx: None,
            undo_pages: undo.map_or(0.0, |undo| undo.pages),
        });
        if dirtying.is_some() {
            writes = PageWrites { first_dirty: 1.0, later_dirty: 1.0, background_per_s: 0.0, ..writes };
        }
        let mut classes: Vec<PageClass> = parts.iter().map(|part| part.class).collect();
        // Node pages (index and filter blocks in MyRocks): few, and every statement passes one, so
        // they are never evicted.
        let upper = self.pages() * ENTRY_BYTES / PAGE_ROOM + 2.0 * f64::from(self.tables);
        classes.push(PageClass { pages: upper, touches_per_tx: (statements.round_trips() - statements.brackets) / upper });
        classes.extend(undo);
        let database = Database {
            engine: self.engine,
            read_bytes: if innodb { PAGE_BYTES } else { ROCKS_BLOCK_BYTES / ROCKS_COMPRESSION },
            cached_bytes,
            popularity: Popularity { classes },
            last_orders: None,
            usable_share: USABLE_SHARE,
            // RocksDB's block cache is plain LRU.
            old_share: if innodb { OLD_SHARE } else { 1.0 },
            ordered_while_filling: !innodb,
            // Ranges of 100 rows are 2 or 3 pages; linear read-ahead begins after 56 of 64
            // (innodb_read_ahead_threshold).
            read_ahead_share: 0.0,
            writes,
            dirtying,
            cleaner,
            compaction: if innodb { None } else { self.compaction(log.redo_bytes_per_tx) },
            log,
            clients: self.clients(&statements, &costs, written)?,
            // Variance of one-second tps on io1, TPC-C of 2018: fano 2 to 4, cv 0.05 to 0.06. Guess
            // for sysbench.
            noise: Noise { fano: 3.0, cv: 0.055 },
            shape: IoShape::default(),
            hot_rows: Vec::new(),
            checkpoint: None,
            local_disk: None,
            local_disk_reads: None,
            local_disk_read_ms: None,
        };
        database.check()?;
        Ok(database)
    }

    /// Makes the logs of a transaction whose writing statements cost `written`.
    fn log(&self, statements: &Statements, written: Cost) -> Log {
        Log {
            redo_bytes_per_tx: written.log_bytes,
            binlog_bytes_per_tx: if self.log_bin { written.binlog_bytes } else { 0.0 },
            syncs_per_commit: statements.commits() * syncs_per_commit(self.flush_log_at_trx_commit, self.log_bin, self.sync_binlog),
            commits_per_tx: Some(statements.commits()),
            redo_capacity_bytes: (self.engine == StorageEngine::Innodb).then(|| self.redo_bytes()),
        }
    }

    /// Returns the redo log in all, bytes.
    fn redo_bytes(&self) -> f64 {
        self.redo_gib.map_or(DEFAULT_REDO_BYTES, |gib| gib * GIB)
    }

    /// Returns the pages that the server writes. A page changed is written back once: when its redo
    /// is about to be overwritten, after as many transactions as the log holds, or when it is
    /// evicted before that.
    fn page_writes(&self, statements: &Statements, layout: &RowLayout, parts: &[PagePart], redo_per_tx: f64) -> PageWrites {
        let sum = |per_page: &dyn Fn(&PagePart) -> f64| parts.iter().map(|part| part.class.pages * per_page(part)).sum::<f64>();
        let none = PageWrites { doublewrite: self.doublewrite, ..PageWrites::none() };
        if redo_per_tx <= 0.0 || parts.is_empty() {
            return none;
        }
        let window = REDO_USABLE * self.redo_bytes() / redo_per_tx;
        let total = sum(&|_| 1.0);
        let leaves = Popularity { classes: parts.iter().map(|part| part.class).collect() };
        let stay = leaves.stay_tx(self.cache_gib.map_or(total / 2.0, |gib| gib * GIB * USABLE_SHARE / PAGE_BYTES)).min(1e12);
        let missed = |part: &PagePart| libm::exp(-part.class.touches_per_tx * stay);
        let misses = sum(&|part| part.class.touches_per_tx * missed(part));
        let misses_written = sum(&|part| part.writes_per_tx * missed(part));
        // With the midpoint it stays for the old part of the list only.
        let evicted_first = evicted_before_written(window, OLD_SHARE * stay);
        let share = if misses > 0.0 { misses_written / misses } else { sum(&|part| part.writes_per_tx) / sum(&|part| part.class.touches_per_tx) };
        let dirty = share.min(1.0) * evicted_first;
        // Pages that stay are written once a window in which they were changed; the others as far
        // as eviction does not come first.
        let staying = |part: &PagePart| (1.0 - missed(part)) * -libm::expm1(-part.writes_per_tx * window) / window;
        let flush_per_tx = sum(&|part| staying(part) + part.writes_per_tx * missed(part) * (1.0 - evicted_first));
        PageWrites {
            // Rows appended fill pages of their own.
            flush_per_tx: flush_per_tx + statements.appends / layout.rows_per_page,
            flush_ramp_tx: window.min(1e12),
            first_dirty: dirty,
            later_dirty: dirty,
            background_per_s: self.io_capacity,
            ..none
        }
    }

    /// Makes the compaction of transactions that put `put_per_tx` bytes; None if they put nothing.
    fn compaction(&self, put_per_tx: f64) -> Option<Compaction> {
        let period_tx = self.memtable_mib * MIB / put_per_tx * ROCKS_TRIGGER;
        (put_per_tx > 0.0).then(|| Compaction {
            period_tx,
            first_tx: period_tx,
            read_bytes_per_tx: put_per_tx / ROCKS_COMPRESSION * (ROCKS_WRITE_AMPLIFICATION - 1.0),
            write_bytes_per_tx: put_per_tx / ROCKS_COMPRESSION * ROCKS_WRITE_AMPLIFICATION,
            rate_bytes_s: ROCKS_COMPACTION_RATE,
            // Guess: merged blocks come back at once.
            profile: vec![1.0],
        })
    }

    /// Makes the clients: processor time of all statements and their round trips; `written`: cost
    /// of those that write.
    fn clients(&self, statements: &Statements, costs: &Costs, written: Cost) -> Result<Clients, SimError> {
        let rows = self.table_size as f64;
        let per_key = || rows_per_key(&self.distribution, rows, self.threads);
        let range_rows = statements.ranges * (f64::from(self.range_size).min(rows) - 1.0);
        let trip = RoundTrip::from_host(self.client_host);
        let mut sum = written;
        for (count, statement) in [
            (statements.point_selects + statements.lookups(), "point_select"),
            (statements.ranges, "range"),
            (range_rows, "range_row"),
            (statements.brackets, "bracket"),
        ] {
            sum.add(count, costs.find(statement)?);
        }
        if statements.random_points > 0.0 {
            sum.add(statements.random_points * per_key(), costs.find("point_row")?);
        }
        if statements.random_ranges > 0.0 {
            sum.add(statements.random_ranges * (f64::from(self.delta) + 1.0) * per_key(), costs.find("range_key")?);
        }
        let core_ms = sum.core_ms + statements.round_trips() * trip.core_ms;
        let away_ms = statements.round_trips() * self.round_trip_ms.unwrap_or(trip.away_ms);
        let mut clients = costs.clients((core_ms, sum.background_ms), (statements.round_trips(), away_ms), &trip, SERIAL_SHARE);
        if self.engine != StorageEngine::Innodb {
            // MyRocks' processor time of an I/O is not known apart.
            clients.io_ms = 0.0;
        }
        if self.round_trip_ms.is_some() {
            // The round trip that was given has the waking up in it.
            clients.wake_ms = 0.0;
        }
        Ok(clients)
    }
}
