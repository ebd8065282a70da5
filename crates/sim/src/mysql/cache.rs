//! A page cache under independent touches, followed as a fluid.
//!
//! InnoDB keeps one list with a midpoint: pages that are read enter there, at the head of its old
//! part; a page touched again moves to the head of the young part; the tail of the old part is
//! evicted; what leaves the young part's tail becomes old.
//!
//! ```text
//!     hit -> [ young ............. | old ........ ] -> evicted
//!                          read ->  ^ midpoint: old is `old_share` of the list
//! ```
//!
//! A hit on a page of the old part moves it only when the page was read a while ago
//! (innodb_old_blocks_time): [`Cache::held_back`].
//!
//! Cohorts also hold their clean amount, if it is known which touches change a page
//! ([`Cache::dirtied`]): a page that leaves is dirty when the touch that brought it changed it, or
//! one since, unless the flush list has written it.
//!
//! Pages whose file an LSM tree has deleted stay as dead weight: no touch comes to them any more,
//! and they leave at the tail ([`Cache::delete_files`]).
//!
//! Pages of a class are alike, so the list is a row of cohorts, each with an amount of every class,
//! and an amount of it that has been in the cache since it first filled. Between evictions and hits
//! everything is an exponential, so steps may be long.

use super::popularity::Popularity;
use std::collections::VecDeque;

/// Cohorts each part is kept to: the neighbours with least in them are merged. 64 against 256 move
/// reads per transaction by less than 0.2 %.
const MOST_COHORTS: usize = 64;

/// Pages that moved together, by class.
#[derive(Clone, Debug)]
struct Cohort {
    pages: Vec<f64>,
    /// The part of them that has been in the cache since before its first eviction.
    first: Vec<f64>,
    /// Clean pages of them, class after class for one window after the other; empty
    /// where that is not followed.
    clean: Vec<f64>,
    total: f64,
    /// When they were read, transactions since the start.
    read_at: f64,
}

impl Cohort {
    /// Makes a cohort of `pages`, by class, that were read at `read_at`, transactions since the
    /// start.
    fn new(pages: Vec<f64>, first: Vec<f64>, clean: Vec<f64>, read_at: f64) -> Cohort {
        let total = pages.iter().sum();
        Cohort { pages, first, clean, total, read_at }
    }

    /// Returns the share of a class's pages that is dirty with a window, 0-1.
    fn dirty_share(&self, window: usize, class: usize) -> f64 {
        (1.0 - self.clean[window * self.pages.len() + class] / self.pages[class].max(1e-300)).clamp(0.0, 1.0)
    }

    /// Returns the pages that were there before the first eviction and the others, each class times
    /// its weight.
    fn weighted(&self, weights: &[f64]) -> (f64, f64) {
        let sum = |pages: &[f64]| -> f64 { pages.iter().zip(weights).map(|(pages, weight)| pages * weight).sum() };
        let first = sum(&self.first);
        (first, sum(&self.pages) - first)
    }

    /// Takes a share of the pages out and returns it as a cohort.
    fn split(&mut self, share: f64) -> Cohort {
        let mut taken = self.clone();
        taken.scale(share);
        self.scale(1.0 - share);
        taken
    }

    /// Multiplies all amounts of pages by a factor.
    fn scale(&mut self, by: f64) {
        self.pages.iter_mut().chain(&mut self.first).chain(&mut self.clean).for_each(|amount| *amount *= by);
        self.total *= by;
    }

    /// Adds the pages of another cohort; `read_at` becomes the mean over the pages of both.
    fn absorb(&mut self, other: &Cohort) {
        let total = self.total + other.total;
        if total > 0.0 {
            self.read_at += (other.read_at - self.read_at) * other.total / total;
        }
        self.pages.iter_mut().zip(&other.pages).for_each(|(to, from)| *to += from);
        self.first.iter_mut().zip(&other.first).for_each(|(to, from)| *to += from);
        self.clean.iter_mut().zip(&other.clean).for_each(|(to, from)| *to += from);
        self.total += other.total;
    }
}

/// Dirty pages of one window, where dirtying is followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Evicted dirty, of those that had been in the cache since before its first eviction.
    pub evicted_first: f64,
    /// Evicted dirty, of those that were read later.
    pub evicted_later: f64,
    /// Written by the flush list.
    pub flushed: f64,
}

impl Written {
    /// Returns the amounts of one transaction, if these are of `tx`.
    pub(super) fn per(&self, tx: f64) -> Written {
        Written { evicted_first: self.evicted_first / tx, evicted_later: self.evicted_later / tx, flushed: self.flushed / tx }
    }
}

/// Pages that a number of transactions read, evict and write.
#[derive(Clone, Debug, Default)]
pub struct PageCounts {
    /// Pages read.
    pub reads: f64,
    /// Pages evicted that had been in the cache since before its first eviction.
    pub evicted_first: f64,
    /// Pages evicted that were read later.
    pub evicted_later: f64,
    /// Pages of `evicted_first`, each class times its weight ([`Cache::weighted`]).
    pub weighted_first: f64,
    /// Pages of `evicted_later`, weighted alike.
    pub weighted_later: f64,
    /// By window of [`Cache::dirtied`].
    pub written: Vec<Written>,
}

/// Rates per transaction at which the pages of a class change between clean and dirty.
#[derive(Clone, Debug)]
struct Changing {
    /// Share of touches that change a page, by class.
    share: Vec<f64>,
    /// Changes over those of the shares: a page may be changed more often than it is touched.
    more: f64,
    /// Dirty pages that are written, a share of them a transaction, by window.
    cleaning_rates: Vec<f64>,
}

/// A step of [`Changing`] for one class: of pages that began dirty or clean the share that is dirty
/// at its end, and the pages written on the way, per page.
#[derive(Clone, Copy)]
struct ChangingStep {
    dirty: [f64; 2],
    written: [f64; 2],
}

impl ChangingStep {
    /// Makes the step of `tx` transactions: clean pages are dirtied at the rate `changes`, dirty
    /// ones cleaned at the rate `cleaning` a transaction.
    fn new(changes: f64, cleaning: f64, tx: f64) -> ChangingStep {
        let sum = changes + cleaning;
        if sum <= 0.0 {
            return ChangingStep { dirty: [1.0, 0.0], written: [0.0, 0.0] };
        }
        let (end, decayed) = (changes / sum, -libm::expm1(-sum * tx));
        let end_and_written = |begin: f64| (end + (begin - end) * (1.0 - decayed), cleaning * (end * tx + (begin - end) * decayed / sum));
        let ((from_dirty, wrote_dirty), (from_clean, wrote_clean)) = (end_and_written(1.0), end_and_written(0.0));
        ChangingStep { dirty: [from_dirty, from_clean], written: [wrote_dirty, wrote_clean] }
    }

    /// Returns the clean pages after the step of `pages`, of which `clean` were clean; and the
    /// pages written.
    fn apply(&self, pages: f64, clean: f64) -> (f64, f64) {
        let dirty = (pages - clean).max(0.0);
        (pages - self.dirty[0] * dirty - self.dirty[1] * clean, self.written[0] * dirty + self.written[1] * clean)
    }
}

/// A cache and what it holds.
#[derive(Clone, Debug)]
pub struct Cache {
    touches: Vec<f64>,
    weights: Vec<f64>,
    changing: Option<Changing>,
    outside: Vec<f64>,
    young: VecDeque<Cohort>,
    old: VecDeque<Cohort>,
    capacity: f64,
    old_share: f64,
    ordered_while_filling: bool,
    evicting: bool,
    /// Transactions that have passed, and those after its read in which no hit moves a page.
    passed: f64,
    held_tx: f64,
    /// Class of pages whose file was deleted, where files are.
    dead: Option<usize>,
}

impl Cache {
    /// Makes an empty cache of `capacity` pages. `old_share` and `ordered_while_filling` are those
    /// of the database.
    pub fn cold(popularity: &Popularity, capacity: f64, old_share: f64, ordered_while_filling: bool) -> Cache {
        let touches = popularity.classes.iter().map(|class| class.touches_per_tx).collect();
        let outside: Vec<f64> = popularity.classes.iter().map(|class| class.pages).collect();
        let weights = vec![1.0; outside.len()];
        Cache {
            touches,
            weights,
            changing: None,
            outside,
            young: VecDeque::new(),
            old: VecDeque::new(),
            capacity,
            old_share,
            ordered_while_filling,
            evicting: false,
            passed: 0.0,
            held_tx: 0.0,
            dead: None,
        }
    }

    /// Makes hits leave a page of the old part where it is for `held_tx` transactions after it was
    /// read.
    pub fn held_back(mut self, held_tx: f64) -> Cache {
        self.held_tx = held_tx;
        self
    }

    /// Gives classes weights in what is counted of evictions.
    pub fn weighted(mut self, weight: impl Fn(f64) -> f64) -> Cache {
        self.weights = self.touches.iter().map(|&touches| weight(touches)).collect();
        self
    }

    /// Makes a class of its own of a share of the pages of another, while all are outside, and
    /// returns it.
    pub fn split_class(&mut self, class: usize, share: f64) -> usize {
        let pages = take(&mut self.outside[class], &share);
        self.outside.push(pages);
        self.touches.push(self.touches[class]);
        self.weights.push(self.weights[class]);
        if let Some(changing) = &mut self.changing {
            changing.share.push(changing.share[class]);
        }
        self.touches.len() - 1
    }

    /// Deletes the files that hold a share of all pages, since their rows have been written into
    /// others. Those of them in the cache take room until they are evicted (RocksDB drops no block
    /// of a deleted file unless uncache_aggressiveness says so, from 9.8 on), and the next touch
    /// reads the new file.
    pub fn delete_files(&mut self, share: f64) {
        let dead = self.dead.unwrap_or_else(|| {
            let class = self.split_class(0, 0.0);
            self.touches[class] = 0.0;
            for cohort in self.young.iter_mut().chain(&mut self.old) {
                cohort.pages.push(0.0);
                cohort.first.push(0.0);
            }
            class
        });
        self.dead = Some(dead);
        for cohort in self.young.iter_mut().chain(&mut self.old) {
            for class in 0..dead {
                let pages = take(&mut cohort.pages[class], &share);
                cohort.pages[dead] += pages;
                self.outside[class] += pages;
                cohort.first[dead] += take(&mut cohort.first[class], &share);
            }
        }
    }

    /// Sets the touches of a page of `class` from here on: as often as those of `like`, and `more`
    /// times a transaction.
    pub fn touch_besides(&mut self, class: usize, like: usize, more: f64) {
        self.touches[class] = self.touches[like] + more;
    }

    /// Sets the touches of a page of `class` from here on, and those of them that change it.
    pub fn touch(&mut self, class: usize, (touches, changed): (f64, f64)) {
        self.touches[class] = touches;
        if let Some(changing) = &mut self.changing {
            changing.share[class] = changed;
        }
    }

    /// Returns the pages of a class that are not in the cache.
    pub fn outside(&self, class: usize) -> f64 {
        self.outside[class]
    }

    /// Follows which pages are dirty: `changed` is the share of touches that change a page, by
    /// class, and pages are changed `more` times as often; a changed page is written within a
    /// window of `windows_tx` transactions. Each window is followed by itself: which pages are
    /// where is the same with all.
    pub fn dirtied(mut self, changed: &[f64], more: f64, windows_tx: &[f64]) -> Cache {
        self.changing = Some(Changing { share: changed.to_vec(), more, cleaning_rates: windows_tx.iter().map(|window_tx| 1.0 / window_tx).collect() });
        self
    }

    /// Returns the number of windows that are followed; 0 if it is not known which touches change a
    /// page.
    pub fn window_count(&self) -> usize {
        self.changing.as_ref().map_or(0, |changing| changing.cleaning_rates.len())
    }

    /// Returns the share of the pages in the cache that are dirty, 0-1, with a window of those of
    /// [`Cache::dirtied`], by its index: the transactions within which a changed page is written.
    /// None if changes are not followed.
    pub fn dirty_share(&self, window_index: usize) -> Option<f64> {
        self.changing.as_ref()?;
        let (from, to) = (window_index * self.touches.len(), (window_index + 1) * self.touches.len());
        let clean: f64 = self.young.iter().chain(&self.old).map(|cohort| cohort.clean[from..to].iter().sum::<f64>()).sum();
        Some((1.0 - clean / self.page_count().max(1e-300)).clamp(0.0, 1.0))
    }

    /// Returns whether anything has been evicted: the cache is full.
    pub fn is_full(&self) -> bool {
        self.evicting
    }

    /// Returns the pages that it can hold.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Returns the number of pages in the cache.
    pub fn page_count(&self) -> f64 {
        total(&self.young) + total(&self.old)
    }

    /// Returns the share of the pages in it that came before the first eviction, 0-1.
    pub fn first_share(&self) -> f64 {
        let first: f64 = self.young.iter().chain(&self.old).map(|cohort| cohort.first.iter().sum::<f64>()).sum();
        first / self.page_count().max(1e-300)
    }

    /// Returns the page reads of a transaction with the pages that the cache holds now.
    pub fn reads_per_tx(&self) -> f64 {
        self.outside.iter().zip(&self.touches).map(|(pages, touches)| pages * touches).sum()
    }

    /// Lets `tx` transactions pass, and returns the pages that they read, evict and write.
    pub fn pass(&mut self, tx: f64) -> PageCounts {
        let touched: Vec<f64> = self.touches.iter().map(|rate| -libm::expm1(-rate * tx)).collect();
        self.passed += tx;
        let mut counts = PageCounts { written: vec![Written::default(); self.window_count()], ..PageCounts::default() };
        let moves = self.evicting || self.ordered_while_filling;
        let hit = moves.then(|| self.take_hits(&touched, tx));
        if self.changing.is_some() {
            self.change_unmoved(tx, moves, &mut counts.written);
        }
        if let Some(mut hit) = hit.filter(|hit| hit.total > 0.0) {
            self.change(&mut hit, tx, &mut counts.written);
            self.young.push_front(hit);
        }
        let read: Vec<f64> = self.outside.iter_mut().zip(&touched).map(|(outside, share)| take(outside, share)).collect();
        let first = if self.evicting { vec![0.0; read.len()] } else { read.clone() };
        let unchanged = |changing: &Changing| -> Vec<f64> {
            read.iter().zip(&changing.share).map(|(pages, share)| pages * (1.0 - changing.more * share).max(0.0)).collect()
        };
        let clean = self.changing.as_ref().map_or(Vec::new(), |changing| unchanged(changing).repeat(changing.cleaning_rates.len()));
        let read = Cohort::new(read, first, clean, self.passed - 0.5 * tx);
        counts.reads = read.total;
        self.old.push_front(read);
        self.evict(&mut counts);
        self.place_midpoint();
        thin(&mut self.young);
        thin(&mut self.old);
        counts
    }

    /// Returns the steps of `tx` transactions in which pages are changed, or are `untouched`: class
    /// after class for one window after the other.
    fn changing_steps(&self, tx: f64, untouched: bool) -> Vec<ChangingStep> {
        let Some(changing) = &self.changing else { return Vec::new() };
        let class_steps = |cleaning: f64| {
            let classes = self.touches.iter().zip(&changing.share);
            classes.map(move |(touches, share)| ChangingStep::new(if untouched { 0.0 } else { touches * share * changing.more }, cleaning, tx))
        };
        changing.cleaning_rates.iter().flat_map(|cleaning| class_steps(*cleaning)).collect()
    }

    /// Changes and writes the pages that moved in a step of `tx` transactions, whose first touch is
    /// counted already.
    fn change(&self, cohort: &mut Cohort, tx: f64, written: &mut [Written]) {
        apply_steps(&self.changing_steps(tx, false), cohort, written);
    }

    /// Changes and writes the pages that did not move in a step: where a touch `moves` a page none
    /// of these was touched, so that they are only cleaned; else they are touched as all are.
    fn change_unmoved(&mut self, tx: f64, moves: bool, written: &mut [Written]) {
        let readable = self.passed - self.held_tx;
        let (still, touched) = (self.changing_steps(tx, true), self.changing_steps(tx, false));
        let young = self.young.iter_mut().map(|cohort| (moves, cohort));
        for (untouched, cohort) in young.chain(self.old.iter_mut().map(|cohort| (moves && cohort.read_at <= readable, cohort))) {
            apply_steps(if untouched { &still } else { &touched }, cohort, written);
        }
    }

    /// Takes the pages out of the list that hits of `tx` transactions move to its head; `touched`:
    /// share of the pages that are touched, by class.
    fn take_hits(&mut self, touched: &[f64], tx: f64) -> Cohort {
        let unchanged: Vec<f64> = self.changing.as_ref().map_or(Vec::new(), |changing| {
            // Touched, and by no touch that changes: exp(-changes) - exp(-touches).
            let touched_unchanged = |(touches, share): (&f64, &f64)| (libm::exp(-touches * share * changing.more * tx) - libm::exp(-touches * tx)).max(0.0);
            self.touches.iter().zip(&changing.share).map(touched_unchanged).collect()
        });
        let none = vec![0.0; touched.len()];
        let clean = vec![0.0; self.window_count() * unchanged.len()];
        let mut hit = Cohort::new(none.clone(), none, clean, self.passed - self.held_tx);
        let readable = self.passed - self.held_tx;
        for cohort in self.young.iter_mut().chain(self.old.iter_mut().filter(|cohort| cohort.read_at <= readable)) {
            let mut hits = 0.0;
            for (class, share) in touched.iter().enumerate() {
                let pages = take(&mut cohort.pages[class], share);
                hit.pages[class] += pages;
                hit.first[class] += take(&mut cohort.first[class], share);
                for place in (class..cohort.clean.len()).step_by(touched.len()) {
                    hit.clean[place] += cohort.clean[place] * unchanged[class];
                    cohort.clean[place] *= 1.0 - share;
                }
                hits += pages;
            }
            cohort.total -= hits;
            hit.total += hits;
        }
        hit
    }

    /// Evicts pages from the tail until the cache is within its capacity, and counts them in
    /// `counts`.
    fn evict(&mut self, counts: &mut PageCounts) {
        let mut excess = self.page_count() - self.capacity;
        while excess > 1e-9 * self.capacity {
            self.evicting = true;
            let Some(mut cohort) = take_end(&mut self.old, excess, VecDeque::pop_back, VecDeque::push_back)
                .or_else(|| take_end(&mut self.young, excess, VecDeque::pop_back, VecDeque::push_back))
            else {
                return;
            };
            let first: f64 = cohort.first.iter().sum();
            let (weighted_first, weighted_later) = cohort.weighted(&self.weights);
            counts.weighted_first += weighted_first;
            counts.weighted_later += weighted_later;
            for (window, written) in counts.written.iter_mut().enumerate() {
                let dirty: Vec<f64> = (0..cohort.pages.len()).map(|class| cohort.dirty_share(window, class)).collect();
                let (dirty_first, dirty_later) = cohort.weighted(&dirty);
                written.evicted_first += dirty_first;
                written.evicted_later += dirty_later;
            }
            counts.evicted_first += first;
            counts.evicted_later += cohort.total - first;
            excess -= cohort.total;
            cohort.pages.iter_mut().zip(&mut self.outside).for_each(|(pages, outside)| *outside += *pages);
        }
    }

    /// Moves the midpoint so that the old part has its share again.
    fn place_midpoint(&mut self) {
        let (old, young) = (total(&self.old), total(&self.young));
        let mut surplus = old - self.old_share * (old + young);
        let slack = 1e-9 * (old + young);
        while surplus > slack {
            let Some(cohort) = take_end(&mut self.old, surplus, VecDeque::pop_front, VecDeque::push_front) else { return };
            surplus -= cohort.total;
            self.young.push_back(cohort);
        }
        while surplus < -slack {
            let Some(cohort) = take_end(&mut self.young, -surplus, VecDeque::pop_back, VecDeque::push_back) else { return };
            surplus += cohort.total;
            self.old.push_front(cohort);
        }
    }
}

/// Lets the pages of a cohort be changed and written by `steps`, class after class for one window
/// after the other.
fn apply_steps(steps: &[ChangingStep], cohort: &mut Cohort, written: &mut [Written]) {
    let classes = cohort.pages.len();
    for ((steps, clean), written) in steps.chunks(classes).zip(cohort.clean.chunks_mut(classes)).zip(written) {
        for ((step, clean), pages) in steps.iter().zip(clean).zip(&cohort.pages) {
            let (still_clean, wrote) = step.apply(*pages, *clean);
            *clean = still_clean;
            written.flushed += wrote;
        }
    }
}

/// Takes a share from an amount of pages and returns what was taken.
fn take(from: &mut f64, share: &f64) -> f64 {
    let taken = *from * share;
    *from -= taken;
    taken
}

/// Returns the pages of a part of the list.
fn total(part: &VecDeque<Cohort>) -> f64 {
    part.iter().map(|cohort| cohort.total).sum()
}

/// Takes at most `amount` pages from one end.
fn take_end(
    part: &mut VecDeque<Cohort>,
    amount: f64,
    pop: fn(&mut VecDeque<Cohort>) -> Option<Cohort>,
    push: fn(&mut VecDeque<Cohort>, Cohort),
) -> Option<Cohort> {
    let mut cohort = pop(part)?;
    if cohort.total <= amount {
        return Some(cohort);
    }
    let taken = cohort.split(amount / cohort.total);
    push(part, cohort);
    Some(taken)
}

/// Merges neighbours until a part has no more than MOST_COHORTS cohorts.
fn thin(part: &mut VecDeque<Cohort>) {
    while part.len() > MOST_COHORTS {
        let pair = |i: usize| part[i].total + part[i + 1].total;
        let least = (0..part.len() - 1).min_by(|&a, &b| pair(a).total_cmp(&pair(b))).unwrap_or(0);
        if let Some(behind) = part.remove(least + 1) {
            part[least].absorb(&behind);
        }
    }
}
