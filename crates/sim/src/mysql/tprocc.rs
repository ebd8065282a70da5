//! HammerDB's TPROC-C with no run measured, worked out from the tables of TPC-C.
//!
//! ```text
//!   rows and row lengths by table -> pages of a warehouse
//!   statements of five transactions x their shares -> touches and changes of pages
//!   NURand(1023) of customers -> classes of like pages
//!   rows that every new order and payment changes -> how many clients wait for each other
//! ```
//!
//! Rows, keys and transactions are those of the TPC-C Standard Specification 5.11 (clauses 1.2,
//! 2.1.6, 2.4 to 2.8, 4.3.3.1); their shares and the tables' indexes those of HammerDB's script for
//! MySQL: of 23 calls 10 are new orders, 10 payments, and one each is an order status, a delivery
//! and a stock level. Items are drawn evenly, as that script's new order does (the standard asks
//! for NURand), customers by NURand where they are named by number. Every warehouse is equally
//! likely (HammerDB's "use all warehouses"). Every call is one transaction, whether it commits or
//! rolls back. Processor time, redo and binary log of a call are measured (`costs`).
//!
//! Left out: growth by new orders (some 0.03 pages a transaction), undo pages, and that a stock
//! level looks at the stock of the orders just made, so that in a cache that holds most of the data
//! it finds more of it than is worked out here.

use super::costs::{ClientHost, Costs, Flavor, RoundTrip};
use super::database::{Clients, Database, Dirtying, IoShape, Log, Noise, PageCleaner, PageWrites, StorageEngine};
use super::hot_rows::HotRows;
use super::popularity::{PageClass, Popularity};
use super::settings::{syncs_per_commit, REDO_USABLE};
use super::sysbench::{OLD_SHARE, USABLE_SHARE};
use crate::error::SimError;
use serde::{Deserialize, Serialize};

const GIB: f64 = 1_073_741_824.0;
/// InnoDB page, bytes, and the room for records in one whose rows came in key order (15/16 of it,
/// as in `sysbench`).
const PAGE_BYTES: f64 = 16_384.0;
const ROOM: f64 = (PAGE_BYTES - 132.0) * 15.0 / 16.0;
/// Fill of index pages whose entries come in no order: ln 2 (Yao 1978).
const INDEX_FILL: f64 = core::f64::consts::LN_2;
/// Bytes of a row besides its columns: header 5, transaction id 6, roll pointer 7, its 1/4 to 1/8
/// of a 2-byte directory slot; a byte of length for each column that varies is in the rows below.
const ROW_EXTRA: f64 = 5.0 + 6.0 + 7.0 + 2.0 / 6.0;

/// Share of each call among 23: new orders and payments; each of the others.
pub(super) const OFTEN: f64 = 10.0 / 23.0;
pub(super) const SELDOM: f64 = 1.0 / 23.0;
/// Statements that HammerDB's script sends for a call: new order and payment set a variable, call
/// and select what came out; of 23 calls the other three send six (2.87 a call are counted in
/// published runs).
const STATEMENTS: f64 = (10.0 * 3.0 + 10.0 * 3.0 + 6.0) / 23.0;
/// Lines of an order: 5 to 15 (2.4.1.3).
const LINES: f64 = 10.0;
/// Customers that a look-up by name reads: 3,000 of a district have 1,000 names (4.3.2.3); 60 % of
/// payments and order states look up by name (2.5.1.2).
const NAMESAKES: f64 = 3.0;
const BY_NAME: f64 = 0.6;
/// Customer rows that a payment or an order status reads.
const CUSTOMERS_READ: f64 = BY_NAME * NAMESAKES + (1.0 - BY_NAME);
/// Districts of a warehouse (1.2.1): a delivery delivers one order in each.
const DISTRICTS: f64 = 10.0;
/// Different items in the 20 orders that a stock level looks at (2.8.2.2): 200 lines, of which 0.2
/// repeat one of 100,000 items.
pub(super) const ITEMS_LOOKED_AT: f64 = 200.0;
/// Those orders, which are the last ones of a district.
const ORDERS_LOOKED_AT: f64 = 20.0;

/// Rows of a warehouse and the bytes of one (1.3; strings at their mean length, 4.3.3.1; MySQL's
/// types: 4 bytes a number, 8 a large one, 5 a date).
pub(super) const STOCK: (f64, f64) = (100_000.0, 318.0);
const CUSTOMER: (f64, f64) = (30_000.0, 572.0);
const ORDERS: (f64, f64) = (30_000.0, 34.0);
const ORDER_LINE: (f64, f64) = (300_000.0, 60.0);
/// Items are of all warehouses together.
const ITEM: (f64, f64) = (100_000.0, 86.0);
/// Entries of the indexes on customers' names and on orders by customer, bytes with their header.
const CUSTOMER_NAME: (f64, f64) = (30_000.0, 48.0);
const ORDER_CUSTOMER: (f64, f64) = (30_000.0, 22.0);

/// Statements within a call: a new order reads customer and warehouse, reads and moves on the
/// district, makes two rows, and four for each line; a payment changes and reads warehouse,
/// district and customer (by name with a look-up more), and adds its history; a delivery seven in
/// each district. They take like time: a statement within a procedure costs by itself more than the
/// rows that it goes through.
const OF_NEW_ORDER: f64 = 5.0 + 4.0 * LINES;
const OF_PAYMENT: f64 = 7.0 + BY_NAME;
const OF_ORDER_STATUS: f64 = 2.0 + BY_NAME;
const OF_DELIVERY: f64 = 7.0 * DISTRICTS;
const OF_STOCK_LEVEL: f64 = 2.0;
/// Statements of a new order before the district's row is locked, and of a payment before its
/// second lock; the warehouse's is its first.
const BEFORE_DISTRICT: (f64, f64) = (1.0, 2.0);
/// Calls that commit: order states and stock levels write nothing.
const COMMITTING: f64 = 1.0 - 2.0 * SELDOM;

/// Bits of NURand's OR for customers (1023 is 10 of them): each is set with chance 3/4, being the
/// OR of two fair ones (2.1.6).
const CUSTOMER_BITS: f64 = 10.0;
const SET: f64 = 0.75;

/// [`Clients::serial_share`]. The universal scaling law of MySQL under a TPC-C-like load on 12
/// cores, 2010: contention 0.0267 (Schwartz: Practical Scalability Analysis with the Universal
/// Scalability Law, from memory). Threads of a core are in that figure, and MySQL scales better by
/// now: an upper bound rather than a mean.
const SERIAL_SHARE: f64 = 0.0267;
/// Redo log where none is given, bytes: MySQL's default from 8.0.30 (innodb_redo_log_capacity).
const DEFAULT_REDO_BYTES: f64 = 100.0 * 1_048_576.0;

/// A TPROC-C run and the settings of the server that its storage notices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tprocc {
    /// Warehouses.
    pub warehouses: f64,
    /// Redo log, GiB; none: 100 MiB, the default from 8.0.30.
    pub redo_gib: Option<f64>,
    /// Buffer pool in which pages flushed are worked out, GiB; none: half of the pages touched fit.
    pub cache_gib: Option<f64>,
    /// Flavor of the server.
    pub flavor: Flavor,
    /// Host of the clients.
    pub client_host: ClientHost,
    /// innodb_flush_log_at_trx_commit: 0, 1 or 2; 3 in MariaDB.
    pub flush_log_at_trx_commit: u8,
    /// Binary log on: the default from 8.0.
    pub log_bin: bool,
    /// sync_binlog: commits per sync; 0 never.
    pub sync_binlog: u32,
    /// innodb_doublewrite.
    pub doublewrite: bool,
    /// Version of the server, for its page cleaner; none: MySQL 8.4, MariaDB 10.11.
    pub version: Option<String>,
}

impl Default for Tprocc {
    /// Makes a run of 100 warehouses on a MySQL 8.4 with its own defaults.
    fn default() -> Tprocc {
        Tprocc {
            warehouses: 100.0,
            redo_gib: None,
            cache_gib: None,
            flavor: Flavor::default(),
            client_host: ClientHost::default(),
            flush_log_at_trx_commit: 1,
            log_bin: true,
            sync_binlog: 1,
            doublewrite: true,
            version: None,
        }
    }
}

/// Pages of like popularity: how many, touches of a call on all of them together, and those that
/// change a page.
#[derive(Clone, Copy, Debug)]
struct Part {
    pages: f64,
    touches: f64,
    changes: f64,
}

impl Tprocc {
    /// Returns the touches by table, for all warehouses together.
    fn parts(&self) -> Vec<Part> {
        let pages = |(rows, bytes): (f64, f64)| self.warehouses * rows / (ROOM / (bytes + ROW_EXTRA)).floor();
        let index = |(rows, bytes): (f64, f64)| self.warehouses * rows * bytes / (PAGE_BYTES - 132.0) / INDEX_FILL;
        let rows_per_page = |(_, bytes): (f64, f64)| (ROOM / (bytes + ROW_EXTRA)).floor();
        let stock = Part { pages: pages(STOCK), touches: OFTEN * LINES + SELDOM * ITEMS_LOOKED_AT, changes: OFTEN * LINES };
        let customer = Part {
            pages: pages(CUSTOMER),
            touches: OFTEN * (1.0 + CUSTOMERS_READ) + SELDOM * (CUSTOMERS_READ + DISTRICTS),
            changes: OFTEN + SELDOM * DISTRICTS,
        };
        let by_number = OFTEN + (OFTEN + SELDOM) * (1.0 - BY_NAME);
        let bits = CUSTOMER_BITS - libm::log2(rows_per_page(CUSTOMER));
        let mut parts = vec![stock];
        parts.extend(skewed(customer, by_number / customer.touches, bits));
        let names = (OFTEN + SELDOM) * BY_NAME;
        parts.push(Part { pages: index(CUSTOMER_NAME), touches: names, changes: 0.0 });
        parts.push(Part { pages: index(ORDER_CUSTOMER), touches: OFTEN + SELDOM, changes: OFTEN });
        // An order status reads the last order of a customer and its lines, which lie anywhere; a
        // delivery goes on to new pages of orders and lines.
        let orders = pages(ORDERS) + pages(ORDER_LINE);
        let delivered = SELDOM * DISTRICTS * (1.0 / rows_per_page(ORDERS) + LINES / rows_per_page(ORDER_LINE));
        parts.push(Part { pages: orders, touches: 2.0 * SELDOM + delivered, changes: delivered });
        // The end of each district's orders, lines and new orders, and where its delivery is.
        let ends = 3.0 * (OFTEN + SELDOM * DISTRICTS);
        parts.push(Part { pages: 6.0 * DISTRICTS * self.warehouses, touches: ends + SELDOM, changes: ends });
        // Items, warehouses, districts (some hundred bytes each), and the pages above the leaves:
        // all statements pass them, so they are never evicted.
        let hot = ITEM.0 / rows_per_page(ITEM) + self.warehouses * (1.0 + DISTRICTS) / rows_per_page((1.0, 100.0));
        let upper = parts.iter().map(|part| part.pages).sum::<f64>() * 20.0 / ROOM + 20.0;
        let districts = 2.0 * OFTEN + SELDOM;
        parts.push(Part { pages: hot + upper, touches: OFTEN * LINES + OFTEN * 2.0 + districts, changes: 3.0 * OFTEN });
        parts
    }

    /// Makes the database of this run.
    ///
    /// # Errors
    /// Sizes and settings outside any server's.
    pub fn database(&self) -> Result<Database, SimError> {
        self.check()?;
        let parts = self.parts();
        let costs = Costs::read(StorageEngine::Innodb, self.flavor)?;
        let call = costs.find("tprocc_call")?;
        let redo_bytes_per_tx = call.log_bytes;
        let redo_bytes = self.redo_gib.map_or(DEFAULT_REDO_BYTES, |gib| gib * GIB);
        let window_tx = (REDO_USABLE * redo_bytes / redo_bytes_per_tx).min(1e12);
        let popularity = Popularity { classes: parts.iter().map(|part| PageClass { pages: part.pages, touches_per_tx: part.touches / part.pages }).collect() };
        let pool = self.cache_gib.map_or(popularity.pages() / 2.0, |gib| gib * GIB * USABLE_SHARE / PAGE_BYTES);
        let flush_per_tx = flushed(&parts, window_tx, popularity.stay_tx(pool));
        let database = Database {
            engine: StorageEngine::Innodb,
            read_bytes: PAGE_BYTES,
            cached_bytes: PAGE_BYTES,
            last_orders: None,
            usable_share: USABLE_SHARE,
            old_share: OLD_SHARE,
            ordered_while_filling: false,
            read_ahead_share: 0.0,
            writes: PageWrites {
                flush_per_tx,
                flush_ramp_tx: window_tx,
                first_dirty: 1.0,
                later_dirty: 1.0,
                doublewrite: self.doublewrite,
                ..PageWrites::none()
            },
            dirtying: Some(Dirtying {
                changed: parts.iter().map(|part| part.changes / part.touches).collect(),
                window_tx,
                flush_per_tx,
                // Stock is the first class.
                revisit_tx: Some(ORDERS_LOOKED_AT * DISTRICTS * self.warehouses / OFTEN),
                undo_pages: 0.0,
            }),
            popularity,
            cleaner: Some(self.cleaner()),
            log: Log {
                redo_bytes_per_tx,
                binlog_bytes_per_tx: if self.log_bin { call.binlog_bytes } else { 0.0 },
                syncs_per_commit: COMMITTING * syncs_per_commit(self.flush_log_at_trx_commit, self.log_bin, self.sync_binlog),
                commits_per_tx: Some(COMMITTING),
                redo_capacity_bytes: Some(redo_bytes),
            },
            compaction: None,
            clients: self.clients(&costs)?,
            hot_rows: self.hot_rows(),
            noise: Noise { fano: 3.0, cv: 0.055 },
            shape: IoShape::default(),
            checkpoint: None,
            local_disk: None,
            local_disk_reads: None,
            local_disk_read_ms: None,
        };
        database.check()?;
        Ok(database)
    }

    /// Makes the clients, with the processor time of their transactions.
    fn clients(&self, costs: &Costs) -> Result<Clients, SimError> {
        let (call, trip) = (costs.find("tprocc_call")?, RoundTrip::from_host(self.client_host));
        // Half of the statements besides the call set a variable, half select one: as a bracket
        // and, at most, as a point select.
        let others_ms = 0.5 * (STATEMENTS - 1.0) * (costs.find("bracket")?.core_ms + costs.find("point_select")?.core_ms);
        let core_ms = call.core_ms + others_ms + STATEMENTS * trip.core_ms;
        Ok(costs.clients((core_ms, call.background_ms), (STATEMENTS, STATEMENTS * trip.away_ms), &trip, SERIAL_SHARE))
    }

    /// Returns the rows of warehouses and districts. A payment changes that of its warehouse first,
    /// a new order and a payment that of their district, and lock them until they have committed.
    fn hot_rows(&self) -> Vec<HotRows> {
        let mean = OFTEN * (OF_NEW_ORDER + OF_PAYMENT) + SELDOM * (OF_ORDER_STATUS + OF_DELIVERY + OF_STOCK_LEVEL);
        let kind = |rows: f64, statements: f64, calls: f64| HotRows { rows, at_work: OFTEN * statements / mean, at_commit: OFTEN * calls / COMMITTING };
        let (of_new_order, of_payment) = (OF_NEW_ORDER - BEFORE_DISTRICT.0, OF_PAYMENT - BEFORE_DISTRICT.1);
        vec![kind(self.warehouses, OF_PAYMENT, 1.0), kind(self.warehouses * DISTRICTS, of_new_order + of_payment, 2.0)]
    }

    /// Makes the page cleaner of the server where nothing is set.
    fn cleaner(&self) -> PageCleaner {
        let usual = match self.flavor {
            Flavor::Mysql => "8.4.0",
            Flavor::Mariadb => "10.11.0",
        };
        PageCleaner::of_server(self.flavor.name(), self.version.as_deref().unwrap_or(usual))
    }

    /// Refuses sizes and settings outside any server's.
    fn check(&self) -> Result<(), SimError> {
        SimError::check_range("warehouses", self.warehouses, 1.0, 1e7)?;
        SimError::check_range("flush_log_at_trx_commit", f64::from(self.flush_log_at_trx_commit), 0.0, 3.0)?;
        SimError::check_range("redo log (GiB)", self.redo_gib.unwrap_or(1.0), 0.004, 1_024.0)?;
        SimError::check_range("cache (GiB)", self.cache_gib.unwrap_or(1.0), 0.004, 65_536.0)
    }
}

/// Returns the pages that stay for `stay_tx` transactions after a touch and are written once a
/// window in which they were changed, of a transaction: the settled rate of the flush list.
fn flushed(parts: &[Part], window_tx: f64, stay_tx: f64) -> f64 {
    let flushed_part = |part: &Part| {
        let each = part.touches / part.pages;
        let (changes, stays) = (part.changes / part.pages, -libm::expm1(-each * stay_tx.min(1e15)));
        part.pages * stays / (window_tx + 1.0 / changes.max(1e-300))
    };
    parts.iter().map(flushed_part).sum()
}

/// Splits a table of whose touches a share is drawn by NURand and the others evenly: its pages by
/// how many of `bits` bits of the OR are set, those that lie within a page taken off. Between whole
/// numbers of bits the neighbours are mixed.
fn skewed(table: Part, drawn_share: f64, bits: f64) -> Vec<Part> {
    let below = libm::floor(bits.max(0.0));
    let above = bits.max(0.0) - below;
    let mut parts = Vec::new();
    for (count, weight) in [(below as u32, 1.0 - above), (below as u32 + 1, above)] {
        if weight <= 1e-9 {
            continue;
        }
        let mut ways = 1.0;
        for set in 0..=count {
            let of_pages = weight * ways / libm::pow(2.0, f64::from(count));
            let drawn = weight * ways * libm::pow(SET, f64::from(set)) * libm::pow(1.0 - SET, f64::from(count - set));
            let mass = drawn_share * drawn + (1.0 - drawn_share) * of_pages;
            parts.push(Part { pages: table.pages * of_pages, touches: table.touches * mass, changes: table.changes * mass });
            ways *= f64::from(count - set) / f64::from(set + 1);
        }
    }
    parts
}
