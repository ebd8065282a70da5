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
//! Where it is known which touches change a page ([`Cache::dirtied`]), each cohort also knows how
//! much of it is clean: a page that leaves is dirty when the touch that brought it changed it, or
//! one since, unless the flush list has written it.
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
    /// The part of them that is clean; empty where that is not followed.
    clean: Vec<f64>,
    total: f64,
    /// When they were read, transactions since the start.
    read_at: f64,
}

impl Cohort {
    fn new(pages: Vec<f64>, first: Vec<f64>, clean: Vec<f64>, read_at: f64) -> Cohort {
        let total = pages.iter().sum();
        Cohort { pages, first, clean, total, read_at }
    }

    /// Share of a class's pages that is dirty.
    fn dirty_share(&self, class: usize) -> f64 {
        (1.0 - self.clean[class] / self.pages[class].max(1e-300)).clamp(0.0, 1.0)
    }

    /// Takes a share out.
    fn split(&mut self, share: f64) -> Cohort {
        let mut taken = self.clone();
        taken.scale(share);
        self.scale(1.0 - share);
        taken
    }

    fn scale(&mut self, by: f64) {
        self.pages.iter_mut().chain(&mut self.first).chain(&mut self.clean).for_each(|amount| *amount *= by);
        self.total *= by;
    }

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

/// What a number of transactions did, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Pages read.
    pub reads: f64,
    /// Pages evicted that had been in the cache since before its first eviction.
    pub evicted_first: f64,
    /// Pages evicted that were read later.
    pub evicted_later: f64,
    /// The same two, each class times its weight ([`Cache::weighted`]) or its dirty share
    /// ([`Cache::dirtied`]).
    pub weighted_first: f64,
    /// Read later, weighted.
    pub weighted_later: f64,
    /// Pages that the flush list wrote, where dirtying is followed.
    pub flushed: f64,
}

/// Rates per transaction at which the pages of a class change between clean and dirty.
#[derive(Clone, Debug)]
struct Changing {
    /// Share of touches that change a page, by class.
    share: Vec<f64>,
    /// Dirty pages that are written, a share of them a transaction.
    cleaned: f64,
}

/// A step of [`Changing`] for one class: of pages that began dirty or clean the share that is dirty
/// at its end, and the pages written on the way, per page.
#[derive(Clone, Copy)]
struct ChangingStep {
    dirty: [f64; 2],
    written: [f64; 2],
}

impl ChangingStep {
    /// Two states over `tx` transactions: dirtied at `changes`, cleaned at `cleaned` a transaction.
    fn new(changes: f64, cleaned: f64, tx: f64) -> ChangingStep {
        let sum = changes + cleaned;
        if sum <= 0.0 {
            return ChangingStep { dirty: [1.0, 0.0], written: [0.0, 0.0] };
        }
        let (end, gone) = (changes / sum, -libm::expm1(-sum * tx));
        let of = |begin: f64| (end + (begin - end) * (1.0 - gone), cleaned * (end * tx + (begin - end) * gone / sum));
        let ((from_dirty, wrote_dirty), (from_clean, wrote_clean)) = (of(1.0), of(0.0));
        ChangingStep { dirty: [from_dirty, from_clean], written: [wrote_dirty, wrote_clean] }
    }

    /// Clean pages after the step of `pages`, of which `clean` were clean; and pages written.
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
}

impl Cache {
    /// An empty cache of `capacity` pages.
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
        }
    }

    /// Hits move no page of the old part for `held_tx` transactions after it was read.
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

    /// From here on a page of `class` is touched as those of `like` are, and `more` times a
    /// transaction.
    pub fn touch_besides(&mut self, class: usize, like: usize, more: f64) {
        self.touches[class] = self.touches[like] + more;
    }

    /// Pages of a class that are not in it.
    pub fn outside(&self, class: usize) -> f64 {
        self.outside[class]
    }

    /// Follows which pages are dirty: `changed` is the share of touches that change a page, by
    /// class; a changed page is written within `window_tx` transactions.
    pub fn dirtied(mut self, changed: &[f64], window_tx: f64) -> Cache {
        self.changing = Some(Changing { share: changed.to_vec(), cleaned: 1.0 / window_tx });
        self
    }

    /// The share of the pages in it that is dirty; none where that is not followed.
    pub fn dirty_share(&self) -> Option<f64> {
        self.changing.as_ref()?;
        let clean: f64 = self.young.iter().chain(&self.old).map(|cohort| cohort.clean.iter().sum::<f64>()).sum();
        Some((1.0 - clean / self.page_count().max(1e-300)).clamp(0.0, 1.0))
    }

    /// Whether anything has been evicted: the cache is full.
    pub fn is_full(&self) -> bool {
        self.evicting
    }

    /// Pages it can hold.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// How many pages it holds.
    pub fn page_count(&self) -> f64 {
        total(&self.young) + total(&self.old)
    }

    /// The share of the pages in it that came before the first eviction.
    pub fn first_share(&self) -> f64 {
        let first: f64 = self.young.iter().chain(&self.old).map(|cohort| cohort.first.iter().sum::<f64>()).sum();
        first / self.page_count().max(1e-300)
    }

    /// Reads per transaction right now.
    pub fn reads_per_tx(&self) -> f64 {
        self.outside.iter().zip(&self.touches).map(|(pages, touches)| pages * touches).sum()
    }

    /// Lets `tx` transactions pass.
    pub fn pass(&mut self, tx: f64) -> Moved {
        let touched: Vec<f64> = self.touches.iter().map(|rate| -libm::expm1(-rate * tx)).collect();
        self.passed += tx;
        let mut flushed = 0.0;
        let moves = self.evicting || self.ordered_while_filling;
        let hit = moves.then(|| self.take_hits(&touched, tx));
        if self.changing.is_some() {
            flushed += self.change_unmoved(tx, moves);
        }
        if let Some(mut hit) = hit.filter(|hit| hit.total > 0.0) {
            flushed += self.change(&mut hit, tx);
            self.young.push_front(hit);
        }
        let read: Vec<f64> = self.outside.iter_mut().zip(&touched).map(|(outside, share)| take(outside, share)).collect();
        let first = if self.evicting { vec![0.0; read.len()] } else { read.clone() };
        let clean =
            self.changing.as_ref().map_or(Vec::new(), |changing| read.iter().zip(&changing.share).map(|(pages, share)| pages * (1.0 - share)).collect());
        let read = Cohort::new(read, first, clean, self.passed - 0.5 * tx);
        let mut moved = Moved { reads: read.total, flushed, ..Moved::default() };
        self.old.push_front(read);
        self.evict(&mut moved);
        self.place_midpoint();
        thin(&mut self.young);
        thin(&mut self.old);
        moved
    }

    /// Rates at which the pages of a class change, per page and transaction.
    fn changes(&self, class: usize) -> (f64, f64) {
        self.changing.as_ref().map_or((0.0, 0.0), |changing| (self.touches[class] * changing.share[class], changing.cleaned))
    }

    /// Pages that moved in a step were touched in it: the change of that touch is counted already.
    fn change(&self, cohort: &mut Cohort, tx: f64) -> f64 {
        let mut written = 0.0;
        for class in 0..cohort.clean.len() {
            let (changes, cleaned) = self.changes(class);
            let (clean, wrote) = ChangingStep::new(changes, cleaned, tx).apply(cohort.pages[class], cohort.clean[class]);
            cohort.clean[class] = clean;
            written += wrote;
        }
        written
    }

    /// Pages that did not move: where a touch moves a page none of these was touched, so that they
    /// are only cleaned; else they are touched as all are.
    fn change_unmoved(&mut self, tx: f64, moves: bool) -> f64 {
        let readable = self.passed - self.held_tx;
        let of = |untouched: bool| -> Vec<ChangingStep> {
            let step = |class| {
                let (changes, cleaned) = self.changes(class);
                ChangingStep::new(if untouched { 0.0 } else { changes }, cleaned, tx)
            };
            (0..self.touches.len()).map(step).collect()
        };
        let (still, touched) = (of(true), of(false));
        let mut written = 0.0;
        let young = self.young.iter_mut().map(|cohort| (moves, cohort));
        for (untouched, cohort) in young.chain(self.old.iter_mut().map(|cohort| (moves && cohort.read_at <= readable, cohort))) {
            let steps = if untouched { &still } else { &touched };
            for (class, step) in steps.iter().enumerate() {
                let (clean, wrote) = step.apply(cohort.pages[class], cohort.clean[class]);
                cohort.clean[class] = clean;
                written += wrote;
            }
        }
        written
    }

    fn take_hits(&mut self, touched: &[f64], tx: f64) -> Cohort {
        let unchanged: Vec<f64> = self.changing.as_ref().map_or(Vec::new(), |changing| {
            // Touched, and by no touch that changes: exp(-changes) - exp(-touches).
            let of = |(touches, share): (&f64, &f64)| (libm::exp(-touches * share * tx) - libm::exp(-touches * tx)).max(0.0);
            self.touches.iter().zip(&changing.share).map(of).collect()
        });
        let none = vec![0.0; touched.len()];
        let mut hit = Cohort::new(none.clone(), none, vec![0.0; unchanged.len()], self.passed - self.held_tx);
        let readable = self.passed - self.held_tx;
        for cohort in self.young.iter_mut().chain(self.old.iter_mut().filter(|cohort| cohort.read_at <= readable)) {
            let mut gone = 0.0;
            for (class, share) in touched.iter().enumerate() {
                let pages = take(&mut cohort.pages[class], share);
                hit.pages[class] += pages;
                hit.first[class] += take(&mut cohort.first[class], share);
                if let Some(stays) = unchanged.get(class) {
                    hit.clean[class] += cohort.clean[class] * stays;
                    cohort.clean[class] *= 1.0 - share;
                }
                gone += pages;
            }
            cohort.total -= gone;
            hit.total += gone;
        }
        hit
    }

    fn evict(&mut self, moved: &mut Moved) {
        let mut excess = self.page_count() - self.capacity;
        while excess > 1e-9 * self.capacity {
            self.evicting = true;
            let Some(mut gone) = take_end(&mut self.old, excess, VecDeque::pop_back, VecDeque::push_back)
                .or_else(|| take_end(&mut self.young, excess, VecDeque::pop_back, VecDeque::push_back))
            else {
                return;
            };
            let first: f64 = gone.first.iter().sum();
            let dirty: Vec<f64> = if gone.clean.is_empty() { Vec::new() } else { (0..gone.clean.len()).map(|class| gone.dirty_share(class)).collect() };
            let weights = if dirty.is_empty() { &self.weights } else { &dirty };
            let weighted = |pages: &[f64]| -> f64 { pages.iter().zip(weights).map(|(pages, weight)| pages * weight).sum() };
            let weighted_first = weighted(&gone.first);
            moved.weighted_first += weighted_first;
            moved.weighted_later += weighted(&gone.pages) - weighted_first;
            moved.evicted_first += first;
            moved.evicted_later += gone.total - first;
            excess -= gone.total;
            gone.pages.iter_mut().zip(&mut self.outside).for_each(|(pages, outside)| *outside += *pages);
        }
    }

    /// Moves the midpoint so that the old part has its share again.
    fn place_midpoint(&mut self) {
        let (old, young) = (total(&self.old), total(&self.young));
        let mut surplus = old - self.old_share * (old + young);
        let slack = 1e-9 * (old + young);
        while surplus > slack {
            let Some(moved) = take_end(&mut self.old, surplus, VecDeque::pop_front, VecDeque::push_front) else { return };
            surplus -= moved.total;
            self.young.push_back(moved);
        }
        while surplus < -slack {
            let Some(moved) = take_end(&mut self.young, -surplus, VecDeque::pop_back, VecDeque::push_back) else { return };
            surplus += moved.total;
            self.old.push_front(moved);
        }
    }
}

fn take(from: &mut f64, share: &f64) -> f64 {
    let taken = *from * share;
    *from -= taken;
    taken
}

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

fn thin(part: &mut VecDeque<Cohort>) {
    while part.len() > MOST_COHORTS {
        let pair = |i: usize| part[i].total + part[i + 1].total;
        let least = (0..part.len() - 1).min_by(|&a, &b| pair(a).total_cmp(&pair(b))).unwrap_or(0);
        if let Some(behind) = part.remove(least + 1) {
            part[least].absorb(&behind);
        }
    }
}
