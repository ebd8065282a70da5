//! The cache followed from a cold start over transactions: computed once for a database and a cache
//! size, then used for every storage.
//!
//! It depends on transactions alone, not on time. A slow volume goes through the same curve more
//! slowly, so for hours it is slower by more than the ratio of its IOPS: its cache is colder as
//! well.

use super::cache::{Cache, Written};
use super::cleaner::{windows_of, CleanerPace, Cleaning, DirtyPages};
use super::database::Database;
use super::last_orders::LastOrders;
use super::popularity::Popularity;

/// A step moves at most this share of the cache, and of the transactions so far (chosen).
const STEP_OF_CACHE: f64 = 0.02;
const STEP_OF_TX: f64 = 0.08;
/// The cache is followed until reads change by less than this share over one turnover, or for at
/// most 24 turnovers.
const SETTLED: f64 = 1e-3;
const MOST_TURNOVERS: f64 = 24.0;
/// From there the curve is extended with settled rates up to this many turnovers, each point 15 %
/// further than the last, so that the shape that a calibration found over many turnovers has its
/// effect.
const LAST_TURNOVER: f64 = 256.0;
const FURTHER: f64 = 1.15;
/// Pages touched this many times as often anyway are not read for the last orders' sake.
const HOT: f64 = 5.0;
/// Most points of a curve: a bound on time and memory.
const MOST_STEPS: usize = 4_000;

/// The cache at a number of transactions. Rates are per transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct At {
    /// Transactions since the cold start.
    pub tx: f64,
    /// Pages read.
    pub reads: f64,
    /// Dirty pages evicted.
    pub evicted_dirty: f64,
    /// Pages the flush list writes.
    pub flushed: f64,
    /// Times the cache has been turned over by evictions.
    pub turned: f64,
    /// Share of the cache in use.
    pub cached_share: f64,
    /// Share of its pages that are dirty.
    pub dirty_share: f64,
    /// Measured over modelled I/Os.
    pub shape: f64,
    /// 1 once the cache evicts: background writing counts.
    pub full: f64,
}

/// The curve.
#[derive(Clone, Debug)]
pub struct WarmUp {
    points: Vec<At>,
    /// Rule by which the dirty pages of each point follow from the page cleaner, if it is known.
    cleaning: Option<Cleaning>,
    /// Transactions at which the cache is full; none when the data fits.
    pub full_at_tx: Option<f64>,
}

impl WarmUp {
    /// Follows `database` in a cache of `cache_bytes`.
    pub fn new(database: &Database, cache_bytes: f64) -> WarmUp {
        WarmUp::held_back(database, cache_bytes, 0.0)
    }

    /// Follows a cache where hits move no page for `held_tx` transactions after it was read.
    pub fn held_back(database: &Database, cache_bytes: f64, held_tx: f64) -> WarmUp {
        let revisits = database.revisits();
        let database = &database.with_independent_touches(database.cache_pages(cache_bytes));
        let mean_touches = database.popularity.touches_per_tx() / database.popularity.pages();
        let slope = database.writes.dirty_slope;
        let mut cache = Cache::cold(&database.popularity, database.cache_pages(cache_bytes), database.old_share, database.ordered_while_filling)
            .held_back(held_tx)
            // Pages that are never touched are never read, so never evicted.
            .weighted(|touches| if touches > 0.0 { libm::pow(touches / mean_touches, -slope) } else { 1.0 });
        let windows_tx = windows_of(database, cache.capacity());
        if let Some(dirtying) = &database.dirtying {
            cache = cache.dirtied(&dirtying.changed, database.changes_over_usual(), &windows_tx);
        }
        let stock = database.last_orders.map(|last| Stock::in_cache(last, &database.popularity, &mut cache));
        let settled_tx = database.last_orders.map_or(0.0, LastOrders::settled_tx);
        let data_bytes = database.popularity.pages() * database.read_bytes;
        let cleaning = Cleaning::new(database, cache.capacity(), windows_tx);
        let mut curve = WarmUp { points: Vec::with_capacity(1_024), cleaning, full_at_tx: None };
        let (mut tx, mut evicted, mut settled) = (0.0, 0.0, (0.0, f64::INFINITY));
        let smallest = STEP_OF_CACHE * 0.01 * cache.capacity().min(database.popularity.pages());
        while curve.points.len() < MOST_STEPS {
            let by_cache = STEP_OF_CACHE * cache.capacity() / cache.reads_per_tx().max(1e-12);
            // Up to the first eviction exactly, so that the step there is not smeared.
            let to_full = if cache.is_full() { f64::INFINITY } else { (cache.capacity() - cache.page_count()) / cache.reads_per_tx().max(1e-12) * 1.0001 };
            let by_tx = STEP_OF_TX * tx + smallest / cache.reads_per_tx().max(1e-12);
            let step = by_cache.min(by_tx).min(to_full.max(1e-3 * by_cache));
            if let (Some(revisits), Some(dirtying)) = (&revisits, &database.dirtying) {
                let settled = (database.popularity.classes[0].touches_per_tx, dirtying.changed[0]);
                cache.touch(0, if cache.is_full() { settled } else { revisits.while_filling(tx + 0.5 * step) });
            }
            if let Some(stock) = &stock {
                stock.set_touches(&mut cache, tx + 0.5 * step);
            }
            // Compaction deletes each file that it has read, evenly over the data (taken so).
            if let Some(compaction) = database.compaction.as_ref().filter(|compaction| tx >= compaction.first_tx) {
                cache.delete_files(-libm::expm1(-step * compaction.read_bytes_per_tx / data_bytes));
            }
            let counts = cache.pass(step);
            if cache.is_full() && curve.full_at_tx.is_none() {
                curve.full_at_tx = Some(tx + step);
            }
            evicted += counts.evicted_first + counts.evicted_later;
            let turned = evicted / cache.capacity();
            let weighted = Written { evicted_first: counts.weighted_first, evicted_later: counts.weighted_later, flushed: 0.0 };
            let written = counts.written.first().copied().unwrap_or(weighted);
            curve.points.push(make_point(database, &cache, tx + 0.5 * step, turned, (counts.reads / step, written.per(step))));
            if let Some(cleaning) = &mut curve.cleaning {
                cleaning.push(
                    counts.written.iter().enumerate().map(|(window, written)| dirty_pages(database, &cache, window, counts.reads / step, written.per(step))),
                );
            }
            tx += step;
            if turned >= settled.0 + 1.0 {
                let reads = counts.reads / step;
                if ((reads / settled.1 - 1.0).abs() < SETTLED && tx > settled_tx) || turned > MOST_TURNOVERS {
                    break;
                }
                settled = (turned, reads);
            }
            if tx > 1e13 || cache.reads_per_tx() < 1e-4 * curve.points[0].reads && !cache.is_full() && database.popularity.pages() <= cache.capacity() {
                break;
            }
        }
        if cache.is_full() {
            curve.extend_settled(database, &cache, evicted / cache.capacity(), stock.as_ref());
        }
        curve
    }

    /// Extends the curve of a cache that has been turned over `turned` times up to LAST_TURNOVER;
    /// only the shape, the flushing and the reads of the last orders still change.
    fn extend_settled(&mut self, database: &Database, cache: &Cache, mut turned: f64, stock: Option<&Stock>) {
        let Some(mut last) = self.points.last().copied() else { return };
        let capacity = cache.capacity();
        let read_of = |tx: f64| stock.map_or(0.0, |stock| stock.reads_per_tx(cache, tx));
        let others = last.reads - read_of(last.tx);
        while turned < LAST_TURNOVER {
            let next = turned * FURTHER;
            // Settled but for the last orders: as many pages go as come.
            last.tx += (next - turned) * capacity / last.reads.max(1e-12);
            last.reads = others + read_of(last.tx);
            turned = next;
            (last.turned, last.shape) = (turned, interpolated(&database.shape.full, turned));
            if database.dirtying.is_none() {
                last.flushed = flushed(database, last.tx);
            }
            self.points.push(last);
            if let Some(cleaning) = &mut self.cleaning {
                cleaning.repeat_last();
            }
        }
    }

    /// Returns the transactions at the end of the curve, from which on nothing changes: the state
    /// of a warm run.
    pub fn settled_tx(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.tx)
    }

    /// Returns the points of the curve.
    pub fn points(&self) -> &[At] {
        &self.points
    }

    /// Returns the cache at `tx`, linear between points. `hint` is where the search begins and
    /// ends: transactions mostly grow.
    pub fn at(&self, tx: f64, hint: &mut usize) -> At {
        let last = self.points.len() - 1;
        if *hint > last || self.points[*hint].tx > tx {
            *hint = 0;
        }
        let later = &self.points[*hint + 1..];
        if later.first().is_some_and(|next| next.tx <= tx) {
            *hint += later.partition_point(|point| point.tx <= tx);
        }
        let from = &self.points[*hint];
        if *hint == last || tx <= from.tx {
            return At { tx, ..*from };
        }
        let to = &self.points[*hint + 1];
        let share = (tx - from.tx) / (to.tx - from.tx);
        let mix = |a: f64, b: f64| a + share * (b - a);
        At {
            tx,
            reads: mix(from.reads, to.reads),
            evicted_dirty: mix(from.evicted_dirty, to.evicted_dirty),
            flushed: mix(from.flushed, to.flushed),
            turned: mix(from.turned, to.turned),
            cached_share: mix(from.cached_share, to.cached_share),
            dirty_share: mix(from.dirty_share, to.dirty_share),
            shape: mix(from.shape, to.shape),
            full: mix(from.full, to.full),
        }
    }
}

impl WarmUp {
    /// Returns the cache at `tx` as [`WarmUp::at`], with the dirty pages that the page cleaner
    /// leaves at this pace.
    pub fn at_pace(&self, tx: f64, hint: &mut usize, pace: CleanerPace) -> At {
        let mut at = self.at(tx, hint);
        if let Some(cleaning) = self.cleaning.as_ref().filter(|_| pace.tps > 0.0) {
            let next = (*hint + 1).min(self.points.len() - 1);
            let (from, to) = (self.points[*hint].tx, self.points[next].tx);
            let share = if to > from { ((tx - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
            if let Some(DirtyPages { evicted, flushed, of_pool }) = cleaning.settle((*hint, next, share), (tx, at.full >= 1.0), pace) {
                (at.evicted_dirty, at.flushed) = (evicted, flushed);
                at.dirty_share = (of_pool / at.cached_share.max(1e-12)).clamp(0.0, 1.0);
            }
        }
        at
    }
}

/// The stock in a cache.
struct Stock {
    last_orders: LastOrders,
    pages: f64,
    classes: Vec<StockClass>,
}

/// Pages of the stock that are touched `over_mean` times as often as its mean for the last orders,
/// and else as those of `like`, the class that they were taken out of.
struct StockClass {
    class: usize,
    like: usize,
    over_mean: f64,
}

impl Stock {
    /// Takes the stock's share out of all classes that the reads of the last orders matter to.
    fn in_cache(last_orders: LastOrders, popularity: &Popularity, cache: &mut Cache) -> Stock {
        let pages = last_orders.share * popularity.pages();
        let mut classes = Vec::new();
        for (like, class) in popularity.classes.iter().enumerate() {
            if class.touches_per_tx * pages >= HOT * last_orders.touches_per_tx {
                continue;
            }
            let mut taken = 0.0;
            for (part, over_mean) in last_orders.parts() {
                let share = last_orders.share * part;
                classes.push(StockClass { class: cache.split_class(like, share / (1.0 - taken)), like, over_mean });
                taken += share;
            }
        }
        Stock { last_orders, pages, classes }
    }

    /// Returns the mean touches of one of its pages by a transaction at `tx`.
    fn touches(&self, tx: f64) -> f64 {
        self.last_orders.touches(tx) / self.pages
    }

    /// Sets the touches of the stock's pages in a cache to those of a transaction at `tx`.
    fn set_touches(&self, cache: &mut Cache, tx: f64) {
        let mean = self.touches(tx);
        self.classes.iter().for_each(|stock| cache.touch_besides(stock.class, stock.like, mean * stock.over_mean));
    }

    /// Returns the reads of the last orders of a transaction at `tx`, of a cache as it is now.
    fn reads_per_tx(&self, cache: &Cache, tx: f64) -> f64 {
        self.touches(tx) * self.classes.iter().map(|stock| cache.outside(stock.class) * stock.over_mean).sum::<f64>()
    }
}

/// Returns the dirty pages of a window, times the factor of the parameters over their usual values.
fn dirty_pages(database: &Database, cache: &Cache, window: usize, reads: f64, written: Written) -> DirtyPages {
    let writes = &database.writes;
    let flushed_by = if database.is_asked_by_rule() { 1.0 } else { database.flushed_over_usual() };
    DirtyPages {
        evicted: (written.evicted_first * writes.first_dirty + written.evicted_later * writes.later_dirty).min(reads),
        flushed: written.flushed * flushed_by,
        of_pool: cache.dirty_share(window).unwrap_or(0.0) * cache.page_count() / cache.capacity(),
    }
}

/// Makes the point of the curve at `tx`; `reads` and `written` are of one transaction.
fn make_point(database: &Database, cache: &Cache, tx: f64, turned: f64, (reads, written): (f64, Written)) -> At {
    let writes = &database.writes;
    let first_share = cache.first_share();
    let by_shares = first_share * writes.first_dirty + (1.0 - first_share) * writes.later_dirty;
    let of_window = dirty_pages(database, cache, 0, reads, written);
    At {
        tx,
        reads,
        evicted_dirty: of_window.evicted,
        flushed: database.dirtying.as_ref().map_or_else(|| flushed(database, tx), |_| of_window.flushed),
        turned,
        cached_share: (cache.page_count() / cache.capacity()).min(1.0),
        dirty_share: cache.dirty_share(0).unwrap_or(by_shares).clamp(0.0, 1.0),
        shape: if cache.is_full() { interpolated(&database.shape.full, turned) } else { interpolated(&database.shape.filling, tx) },
        full: f64::from(u8::from(cache.is_full())),
    }
}

/// Returns the pages that the flush list writes per transaction after `tx` transactions; it still
/// grows when reads have long settled.
fn flushed(database: &Database, tx: f64) -> f64 {
    let writes = &database.writes;
    let ramp = if writes.flush_ramp_tx > 0.0 { -libm::expm1(-tx / writes.flush_ramp_tx) } else { 1.0 };
    writes.flush_per_tx * ramp
}

/// Interpolates linearly between points; the ends hold; 1 without any.
pub(crate) fn interpolated(points: &[(f64, f64)], x: f64) -> f64 {
    match points.partition_point(|point| point.0 <= x) {
        _ if points.is_empty() => 1.0,
        0 => points[0].1,
        n if n == points.len() => points[n - 1].1,
        n => {
            let ((x0, y0), (x1, y1)) = (points[n - 1], points[n]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
    }
}
