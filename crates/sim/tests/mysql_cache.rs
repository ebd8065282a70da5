//! The cache followed as a fluid, against a list of pages touched one by one, against Che's
//! approximation and against what must be conserved; and the curve made of it.
//!
//! Random cases print their classes and seed when they fail.

use headrace_sim::mysql::cache::{Cache, PageCounts, Written};
use headrace_sim::mysql::warmup::At;
use headrace_sim::mysql::{standard, Compaction, Database, LastOrders, PageClass, Popularity, StorageEngine, WarmUp};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A step of the curve reads this share of the cache at most; where the fluid is compared with a
/// list it takes finer ones, so that only chance and merged cohorts are left.
const STEP: f64 = 0.02;
const FINE: f64 = 0.001;
const GIB: f64 = 1_073_741_824.0;

/// Cases of a property: more of them with PROPTEST_CASES (`make soak`).
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn popularity(classes: &[(f64, f64)]) -> Popularity {
    Popularity { classes: classes.iter().map(|&(pages, touches_per_tx)| PageClass { pages, touches_per_tx }).collect() }
}

/// Two to four classes of whole pages whose heat goes over three decades; a transaction touches
/// some ten pages.
fn classes() -> impl Strategy<Value = Popularity> {
    prop::collection::vec((200u32..4_000, 0.0f64..3.0), 2..5).prop_map(|drawn| {
        let heat: f64 = drawn.iter().map(|&(pages, decade)| f64::from(pages) * 10f64.powf(decade)).sum();
        popularity(&drawn.iter().map(|&(pages, decade)| (f64::from(pages), 10.0 * 10f64.powf(decade) / heat)).collect::<Vec<_>>())
    })
}

/// Rules of a list: share behind the midpoint, and whether hits reorder it while it fills.
#[derive(Clone, Copy, Debug)]
struct Rules {
    old_share: f64,
    ordered_while_filling: bool,
}

const INNODB: Rules = Rules { old_share: 0.375, ordered_while_filling: false };
const LRU: Rules = Rules { old_share: 1.0, ordered_while_filling: true };

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![Just(INNODB), Just(LRU), (0.1f64..1.0, any::<bool>()).prop_map(|(old_share, ordered_while_filling)| Rules { old_share, ordered_while_filling }),]
}

/// The list with every page in it, head first. Reads enter at the midpoint, hits go to the head,
/// the tail is evicted; nothing moves before the first eviction if so ruled.
struct List {
    rules: Rules,
    capacity: usize,
    pages: Vec<u32>,
    /// Flags of every page: in the list, and there since before the first eviction.
    inside: Vec<bool>,
    first: Vec<bool>,
    evicting: bool,
    moved: PageCounts,
}

impl List {
    fn new(all: usize, capacity: usize, rules: Rules) -> List {
        let pages = Vec::with_capacity(capacity + 1);
        List { rules, capacity, pages, inside: vec![false; all], first: vec![false; all], evicting: false, moved: PageCounts::default() }
    }

    fn touch(&mut self, page: u32) {
        let index = page as usize;
        if self.inside[index] {
            if self.evicting || self.rules.ordered_while_filling {
                let at = self.pages.iter().position(|&other| other == page).unwrap();
                self.pages.copy_within(..at, 1);
                self.pages[0] = page;
            }
            return;
        }
        self.moved.reads += 1.0;
        (self.inside[index], self.first[index]) = (true, !self.evicting);
        let midpoint = ((1.0 - self.rules.old_share) * self.pages.len() as f64) as usize;
        self.pages.insert(midpoint, page);
        if self.pages.len() > self.capacity {
            self.evicting = true;
            let gone = self.pages.pop().unwrap() as usize;
            self.inside[gone] = false;
            if self.first[gone] {
                self.moved.evicted_first += 1.0;
            } else {
                self.moved.evicted_later += 1.0;
            }
        }
    }
}

/// Touches drawn one by one: a class by its share of them, a page of it evenly.
struct Touches {
    /// Share of touches up to a class and with it, its first page, its pages.
    classes: Vec<(f64, u32, u32)>,
    chance: ChaCha8Rng,
}

impl Touches {
    fn new(popularity: &Popularity, seed: u64) -> Touches {
        let (mut share, mut page, all) = (0.0, 0, popularity.touches_per_tx());
        let mut classes = Vec::new();
        for class in &popularity.classes {
            share += class.pages * class.touches_per_tx / all;
            classes.push((share, page, class.pages as u32));
            page += class.pages as u32;
        }
        Touches { classes, chance: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn uniform(&mut self) -> f64 {
        (self.chance.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u32 {
        let (class, place) = (self.uniform(), self.uniform());
        let &(_, from, pages) = self.classes.iter().find(|&&(share, ..)| class < share).unwrap_or(&self.classes[self.classes.len() - 1]);
        from + (place * f64::from(pages)) as u32
    }
}

fn add(to: &mut PageCounts, more: &PageCounts) {
    to.reads += more.reads;
    to.evicted_first += more.evicted_first;
    to.evicted_later += more.evicted_later;
}

/// Lets `tx` transactions pass in steps of at most `share` of the cache.
fn pass_in_steps(cache: &mut Cache, tx: f64, share: f64) -> PageCounts {
    let (mut remaining, mut moved) = (tx, PageCounts::default());
    while remaining > 0.0 {
        let step = remaining.min(share * cache.capacity() / cache.reads_per_tx().max(1e-12));
        add(&mut moved, &cache.pass(step));
        remaining -= step;
    }
    moved
}

fn cold(popularity: &Popularity, capacity: f64, rules: Rules) -> Cache {
    Cache::cold(popularity, capacity, rules.old_share, rules.ordered_while_filling)
}

/// Returns the allowed difference between a count of independent events and the fluid: a read is a
/// coin with a small chance, so n of them scatter by sqrt(n); the pages outside scatter by as much
/// again; five of these, of the larger count. 1 % on top: within a step the fluid does not know the
/// order of events, and cohorts are merged.
fn allowed(first: f64, second: f64) -> f64 {
    let counted = first.max(second);
    5.0 * (2.0 * counted).sqrt() + 0.01 * counted + 1.0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Window by window, from a cold start through six turnovers: reads, evictions, and how many of
    /// those go back to before the first eviction.
    #[test]
    fn a_list_of_pages_does_the_same(popularity in classes(), share in 0.1f64..0.7, rules in rules(), seed in any::<u64>()) {
        let capacity = (share * popularity.pages()).floor();
        let (mut cache, mut list) = (cold(&popularity, capacity, rules), List::new(popularity.pages() as usize, capacity as usize, rules));
        let mut touches = Touches::new(&popularity, seed);
        let mut fluid = PageCounts::default();
        for window in 0..28 {
            // A quarter of the cache is read in each, unless it takes too long.
            let (before, by_then) = (list.moved.clone(), fluid.clone());
            let mut touched = 0.0;
            while list.moved.reads - before.reads < 0.25 * capacity && touched < 150_000.0 {
                list.touch(touches.next());
                touched += 1.0;
            }
            add(&mut fluid, &pass_in_steps(&mut cache, touched / popularity.touches_per_tx(), FINE));
            let same = |what: &str, fluid: f64, list: f64| {
                let allowed = allowed(fluid, list);
                prop_assert!((fluid - list).abs() <= allowed, "window {window}, {what}: {fluid} by fluid, {list} by list, allowed {allowed}");
                Ok(())
            };
            same("reads in it", fluid.reads - by_then.reads, list.moved.reads - before.reads)?;
            same("reads so far", fluid.reads, list.moved.reads)?;
            // Evictions depend on when the cache was full, which is as uncertain as a cache's worth
            // of reads: counted with it.
            let by = |list: f64| list + capacity;
            same("evicted of the first", by(fluid.evicted_first), by(list.moved.evicted_first))?;
            same("evicted later", by(fluid.evicted_later), by(list.moved.evicted_later))?;
            let first = list.pages.iter().filter(|&&page| list.first[page as usize]).count();
            same("first ones left", cache.first_share() * cache.page_count(), first as f64)?;
        }
    }

    /// Dirty pages of a list: some touches change a page, and a page of the list is written, dirty
    /// or not, once a window by chance (one a touch at most, so that a window is no shorter than
    /// the cache). Compared are the pages that leave dirty, those that were written, and those that
    /// are dirty at the end.
    #[test]
    fn a_list_of_pages_is_as_dirty(
        popularity in classes(), share in 0.1f64..0.9, rules in rules(), windows in 1.0f64..20.0, seed in any::<u64>(),
        changes in prop::collection::vec(0.0f64..1.0, 4),
    ) {
        let capacity = (share * popularity.pages()).floor();
        // A window is as many touches as this many times the cache holds pages.
        let window = windows * capacity;
        let changed = &changes[..popularity.classes.len()];
        let mut cache = cold(&popularity, capacity, rules).dirtied(changed, 1.0, &[window / popularity.touches_per_tx()]);
        let (mut list, mut touches) = (List::new(popularity.pages() as usize, capacity as usize, rules), Touches::new(&popularity, seed));
        let class_of: Vec<usize> = popularity.classes.iter().enumerate().flat_map(|(class, of)| vec![class; of.pages as usize]).collect();
        let (mut dirty, mut left_dirty, mut written) = (vec![false; class_of.len()], 0.0, 0.0);
        // Some turnovers, whatever the cache holds: 2,000 steps of the fluid.
        let touched = (20.0 * capacity) as u32;
        for _ in 0..touched {
            let page = touches.next() as usize;
            let tail = list.pages.last().copied().filter(|_| !list.inside[page] && list.pages.len() == list.capacity);
            list.touch(page as u32);
            // A full list read this page, so that its tail, or the page itself, has left.
            if let Some(gone) = tail.map(|tail| if list.inside[tail as usize] { page } else { tail as usize }) {
                left_dirty += f64::from(u8::from(dirty[gone]));
                dirty[gone] = false;
            }
            dirty[page] |= list.inside[page] && touches.uniform() < changed[class_of[page]];
            if touches.uniform() < list.pages.len() as f64 / window {
                let cleaned = list.pages[(touches.uniform() * list.pages.len() as f64) as usize] as usize;
                written += f64::from(u8::from(dirty[cleaned]));
                dirty[cleaned] = false;
            }
        }
        let steps = (f64::from(touched) / popularity.touches_per_tx(), 0.01 * capacity / popularity.touches_per_tx());
        let (mut passed, mut left_by_fluid, mut written_by_fluid) = (0.0, 0.0, 0.0);
        while passed < steps.0 {
            let moved = cache.pass(steps.1.min(steps.0 - passed));
            passed += steps.1;
            left_by_fluid += moved.written[0].evicted_first + moved.written[0].evicted_later;
            written_by_fluid += moved.written[0].flushed;
        }
        let still = dirty.iter().filter(|dirty| **dirty).count() as f64;
        for (what, fluid, list) in [
            ("left dirty", left_by_fluid, left_dirty),
            ("written", written_by_fluid, written),
            ("dirty at the end", cache.dirty_share(0).unwrap() * cache.page_count(), still),
        ] {
            // The allowed difference of reads, and 2 % more: a step of 1 % of the cache's touches
            // counts a change twice if a page is touched twice within it, and a page read in one is
            // not written before its end.
            let allowed = allowed(fluid, list) + 0.02 * fluid.max(list);
            prop_assert!((fluid - list).abs() <= allowed, "{what}: {fluid} by fluid, {list} by list, allowed {allowed}; {popularity:?} {changed:?}");
        }
    }

    /// Windows that are followed together are what each is by itself, to the bit.
    #[test]
    fn windows_do_not_know_of_each_other(popularity in classes(), share in 0.1f64..0.9, rules in rules(), changed in 0.0f64..1.0) {
        let capacity = (share * popularity.pages()).floor();
        let shares = vec![changed; popularity.classes.len()];
        let windows = [1e4, 300.0, 20.0];
        let mut together = cold(&popularity, capacity, rules).dirtied(&shares, 1.0, &windows);
        let mut alone: Vec<Cache> = windows.iter().map(|window| cold(&popularity, capacity, rules).dirtied(&shares, 1.0, &[*window])).collect();
        for _ in 0..40 {
            let moved = together.pass(0.1 * capacity / popularity.touches_per_tx());
            for (window, cache) in alone.iter_mut().enumerate() {
                let by_itself = cache.pass(0.1 * capacity / popularity.touches_per_tx());
                let figures = |written: &Written| [written.evicted_first, written.evicted_later, written.flushed].map(f64::to_bits);
                prop_assert_eq!(figures(&moved.written[window]), figures(&by_itself.written[0]));
                prop_assert_eq!(together.dirty_share(window), cache.dirty_share(0));
            }
        }
    }

    /// Che's approximation of LRU: every page stays for the same time T without a touch, `sum of
    /// pages x (1 - exp(-touches T)) = capacity`. The fluid has a cohort of pages of like age in
    /// place of Che's sharp T: 0.5 %, and Che's own difference for 0.2 % more or less capacity,
    /// since the hot pages of some cases just about fill the cache.
    #[test]
    fn settled_lru_misses_as_che_says(popularity in classes(), share in 0.1f64..0.7, ordered_while_filling in any::<bool>()) {
        let capacity = share * popularity.pages();
        let mut cache = cold(&popularity, capacity, Rules { old_share: 1.0, ordered_while_filling });
        let moved = pass_in_steps(&mut cache, 6.0 * stay(&popularity, capacity), FINE);
        prop_assume!(moved.evicted_first + moved.evicted_later > 0.0);
        let che = |capacity: f64| popularity.first_touches_per_tx(stay(&popularity, capacity));
        let allowed = 0.005 * che(capacity) + che(0.998 * capacity) - che(1.002 * capacity);
        let reads = cache.reads_per_tx();
        prop_assert!((reads - che(capacity)).abs() < allowed, "{reads} reads per transaction, {} by Che, allowed {allowed}", che(capacity));
    }

    /// No list is better than another if all pages are alike: a touch misses by the share outside.
    #[test]
    fn alike_pages_miss_by_what_is_outside(pages in 1e3f64..1e9, share in 0.01f64..0.99, touches in 0.1f64..100.0, rules in rules()) {
        let mut cache = cold(&popularity(&[(0.7 * pages, touches / pages), (0.3 * pages, touches / pages)]), share * pages, rules);
        pass_in_steps(&mut cache, 4.0 * stay(&popularity(&[(pages, touches / pages)]), share * pages), STEP);
        prop_assert!(cache.is_full());
        let ratio = cache.reads_per_tx() / touches;
        // The cache is full to a billionth of it; sums of some hundred amounts round.
        prop_assert!((ratio - (1.0 - share)).abs() < 1e-8, "{ratio} of touches miss, {} is outside", 1.0 - share);
    }

    /// Cold and not full: `sum of pages x touches x exp(-touches x tx)`, in steps of any size.
    #[test]
    fn a_cold_cache_reads_first_touches(popularity in classes(), steps in prop::collection::vec(-2.0f64..3.0, 1..40), rules in rules()) {
        let mut cache = cold(&popularity, 1.01 * popularity.pages(), rules);
        let (mut tx, mut reads) = (0.0, 0.0);
        for step in steps {
            tx += 10f64.powf(step);
            reads += cache.pass(10f64.powf(step)).reads;
            // Differences of sums of a few thousand pages, in doubles.
            prop_assert!((cache.reads_per_tx() - popularity.first_touches_per_tx(tx)).abs() < 1e-11 * popularity.touches_per_tx());
            prop_assert!((reads - popularity.touched(tx)).abs() < 1e-10 * popularity.pages());
            prop_assert!((cache.page_count() - reads).abs() < 1e-10 * popularity.pages());
            prop_assert!(!cache.is_full() && cache.first_share() > 1.0 - 1e-12);
        }
    }

    /// Every page is inside or outside, class by class, whatever the steps: what is outside of a
    /// class is told by what was evicted of it, each class weighed by itself.
    #[test]
    fn pages_are_conserved(popularity in classes(), share in 0.02f64..1.2, rules in rules(), steps in prop::collection::vec(-3.0f64..6.0, 1..60)) {
        let capacity = share * popularity.pages();
        let mut alone: Vec<Cache> = popularity
            .classes
            .iter()
            .map(|class| cold(&popularity, capacity, rules).weighted(|touches| f64::from(u8::from(touches == class.touches_per_tx))))
            .collect();
        let mut outside: Vec<f64> = popularity.classes.iter().map(|class| class.pages).collect();
        let slack = 1e-8 * popularity.pages();
        for step in steps {
            let tx = 10f64.powf(step);
            let mut evicted = 0.0;
            for ((cache, class), outside) in alone.iter_mut().zip(&popularity.classes).zip(&mut outside) {
                let moved = cache.pass(tx);
                *outside *= (-class.touches_per_tx * tx).exp();
                *outside += moved.weighted_first + moved.weighted_later;
                evicted += moved.weighted_first + moved.weighted_later;
                prop_assert!((-slack..=class.pages + slack).contains(outside), "{outside} outside of {}", class.pages);
                prop_assert!(moved.reads >= 0.0 && moved.evicted_first >= -slack && moved.evicted_later >= -slack);
            }
            let cache = &mut alone[0];
            let moved = cache.clone().pass(0.0);
            prop_assert_eq!(moved.reads, 0.0);
            prop_assert!(cache.page_count() <= capacity * (1.0 + 1e-8));
            prop_assert!((cache.page_count() + outside.iter().sum::<f64>() - popularity.pages()).abs() < slack, "{} inside, {outside:?} outside, {evicted} evicted", cache.page_count());
            let reads: f64 = outside.iter().zip(&popularity.classes).map(|(outside, class)| outside * class.touches_per_tx).sum();
            prop_assert!((cache.reads_per_tx() - reads).abs() < 1e-8 * popularity.touches_per_tx());
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&cache.first_share()));
        }
    }
}

/// Transactions a page stays in an LRU cache without a touch (Che), by halving.
fn stay(popularity: &Popularity, capacity: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while popularity.touched(high) < capacity {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        *(if popularity.touched(middle) < capacity { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The curve's steps are coarse. On the standard workloads halving them moves reads, from a cold
/// start through six turnovers, by less than 1 %, and steps twenty times finer by less than 1.5 %.
///
/// Why there is an error at all: what a step evicts can be read again in the next one only, so in a
/// step a class that is touched often misses less than it should: by half the step's evictions of
/// it times its touches. It falls with the step. The rate at one moment is right to 1 %: cohorts
/// leave one by one.
#[test]
fn finer_steps_change_little() {
    for (engine, warehouses, gib) in [
        (StorageEngine::Innodb, 5_000.0, 54.0),
        (StorageEngine::Innodb, 5_000.0, 5.0),
        (StorageEngine::Myrocks, 5_000.0, 25.0),
        (StorageEngine::Innodb, 1_000.0, 54.0),
    ] {
        let database = standard::tpcc(engine, warehouses).unwrap();
        let rules = Rules { old_share: database.old_share, ordered_while_filling: database.ordered_while_filling };
        let capacity = database.cache_pages(gib * GIB);
        let tx = 6.0 * stay(&database.popularity, capacity);
        let followed = |share: f64| {
            let mut cache = cold(&database.popularity, capacity, rules);
            (pass_in_steps(&mut cache, tx, share).reads, cache.reads_per_tx())
        };
        let (coarse, half, fine) = (followed(STEP), followed(0.5 * STEP), followed(FINE));
        let off = |a: f64, b: f64| (a / b - 1.0).abs();
        assert!(off(coarse.0, half.0) < 0.01, "{engine:?} {gib} GiB: {coarse:?} {half:?}");
        assert!(off(coarse.0, fine.0) < 0.015, "{engine:?} {gib} GiB: {coarse:?} {fine:?}");
        assert!(off(coarse.1, fine.1) < 0.01, "{engine:?} {gib} GiB: {coarse:?} {fine:?}");
    }
}

fn tpcc(warehouses: f64) -> Database {
    standard::tpcc(StorageEngine::Innodb, warehouses).unwrap()
}

fn values(at: &At) -> [f64; 8] {
    [at.reads, at.evicted_dirty, at.flushed, at.turned, at.cached_share, at.dirty_share, at.shape, at.full]
}

fn database_with(popularity: Popularity, dirty_slope: f64) -> Database {
    let mut database = Database { popularity, old_share: 0.375, usable_share: 1.0, ..tpcc(1.0) };
    database.writes.dirty_slope = dirty_slope;
    database.check().unwrap();
    database
}

/// The curve at any number of transactions and with any hint: linear between its points, its ends
/// hold.
#[test]
fn a_curve_is_linear_between_its_points_with_any_hint() {
    let warm_up = WarmUp::new(&tpcc(1_000.0), 10.0 * GIB);
    let points = warm_up.points();
    assert!(points.windows(2).all(|pair| pair[1].tx > pair[0].tx && pair[1].turned >= pair[0].turned && pair[1].full >= pair[0].full));
    let full_at = warm_up.full_at_tx.unwrap();
    // A step ends where the cache is full; points lie in the middle of steps of at most 2 % of the
    // cache.
    assert!(points.iter().all(|point| if point.full == 1.0 { point.tx > 0.99 * full_at } else { point.tx < 1.01 * full_at }));
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (first, last) = (points[0], points[points.len() - 1]);
    assert_eq!(values(&warm_up.at(0.0, &mut 0)), values(&first));
    assert_eq!(values(&warm_up.at(10.0 * last.tx, &mut 0)), values(&last));
    assert_eq!(warm_up.settled_tx(), last.tx);
    let mut rolling = 0;
    for (index, pair) in points.windows(2).enumerate() {
        let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let tx = pair[0].tx + share * (pair[1].tx - pair[0].tx);
        let at = warm_up.at(tx, &mut rolling);
        assert_eq!(at.tx, tx);
        assert_eq!(rolling, index);
        // The share itself rounds to a part in 2^53 of tx over the distance of points, at least
        // some thousandths of tx.
        for ((a, b), got) in values(&pair[0]).into_iter().zip(values(&pair[1])).zip(values(&at)) {
            assert!((got - (a + share * (b - a))).abs() <= 1e-9 * (a.abs() + b.abs()), "{got} between {a} and {b} at {share}");
        }
        for mut hint in [0, index, index + 1, points.len() - 1, usize::MAX, (random.next_u64() % points.len() as u64) as usize] {
            assert_eq!(warm_up.at(tx, &mut hint), at);
        }
    }
}

/// While the cache fills, a point is the mean of its step, from the closed form: distinct pages
/// touched by the end less those touched by the beginning, over the transactions.
#[test]
fn the_curve_begins_with_first_touches() {
    let database = tpcc(1_000.0);
    let warm_up = WarmUp::new(&database, 10.0 * GIB);
    let full_at = warm_up.full_at_tx.unwrap();
    assert!((database.popularity.touched(full_at) / database.cache_pages(10.0 * GIB) - 1.0).abs() < 1e-3, "full at {full_at}");
    for point in warm_up.points().iter().filter(|point| point.full == 0.0) {
        // A step is at most 8 % of the transactions so far; the curve's own bend over it is second
        // order: (0.08)^2 / 24 times a second derivative of the size of reads itself.
        let expected = database.popularity.first_touches_per_tx(point.tx);
        assert!((point.reads / expected - 1.0).abs() < 1e-3, "{} for {expected} at {}", point.reads, point.tx);
        assert_eq!(point.evicted_dirty, 0.0);
        assert_eq!(point.turned, 0.0);
    }
}

/// Everything fits: reads end, nothing is ever evicted.
#[test]
fn data_that_fits_is_read_once() {
    let database = tpcc(10.0);
    let warm_up = WarmUp::new(&database, 1.1 * database.popularity.pages() * database.cached_bytes / database.usable_share);
    assert_eq!(warm_up.full_at_tx, None);
    let (first, last) = (warm_up.points()[0], warm_up.points()[warm_up.points().len() - 1]);
    assert!(last.reads < 2e-4 * first.reads, "{last:?}");
    assert!(warm_up.points().iter().all(|point| point.full == 0.0 && point.evicted_dirty == 0.0 && point.turned == 0.0));
    assert!(warm_up.points().windows(2).all(|pair| pair[1].reads < pair[0].reads && pair[1].cached_share > pair[0].cached_share));
    // The cached share belongs to the end of a step, whose middle is at most 4 % back.
    let touched = |tx: f64| database.popularity.touched(tx) / database.popularity.pages() / 1.1;
    assert!((touched(last.tx)..touched(1.05 * last.tx)).contains(&last.cached_share), "{last:?}");
}

/// Twice the data, twice the cache: the same at twice the transactions. Only rounding differs.
#[test]
fn twice_the_data_in_twice_the_cache_takes_twice_as_long() {
    let mut database = tpcc(500.0);
    database.shape.filling = vec![(1e3, 1.3), (5e4, 0.9), (1e6, 1.1)];
    database.shape.full = vec![(0.5, 1.2), (3.0, 0.8)];
    let single = WarmUp::new(&database, 4.0 * GIB);
    let double = WarmUp::new(&database.grown(2.0), 8.0 * GIB);
    assert_eq!(single.points().len(), double.points().len());
    for (a, b) in single.points().iter().zip(double.points()) {
        assert!((b.tx / a.tx - 2.0).abs() < 1e-9);
        for (x, y) in values(a).into_iter().zip(values(b)) {
            assert!((x - y).abs() <= 1e-9 * (1.0 + x.abs()), "{a:?} {b:?}");
        }
    }
}

/// Measured over modelled: by transactions while the cache fills, by turnovers once it evicts;
/// linear between points, the ends hold, 1 where there are none.
#[test]
fn shape_is_looked_up_where_it_belongs() {
    let mut database = tpcc(500.0);
    let plain = WarmUp::new(&database, 4.0 * GIB);
    assert!(plain.points().iter().all(|point| point.shape == 1.0));
    let full_at = plain.full_at_tx.unwrap();
    database.shape.filling = vec![(0.1 * full_at, 2.0), (0.3 * full_at, 1.0), (0.4 * full_at, 1.5)];
    database.shape.full = vec![(1.0, 3.0), (2.0, 4.0)];
    let warm_up = WarmUp::new(&database, 4.0 * GIB);
    let (mut filling, mut full) = (0, 0);
    for point in warm_up.points() {
        let expected = if point.full == 0.0 {
            filling += 1;
            let share = point.tx / full_at;
            if share <= 0.3 {
                2.0 - ((share - 0.1) / 0.2).clamp(0.0, 1.0)
            } else {
                1.0 + 0.5 * ((share - 0.3) / 0.1).clamp(0.0, 1.0)
            }
        } else {
            full += 1;
            3.0 + (point.turned - 1.0).clamp(0.0, 1.0)
        };
        assert!((point.shape - expected).abs() < 1e-9, "{point:?}: {expected}");
    }
    assert!(filling > 20 && full > 20, "{filling} {full}");
    // It changes nothing else.
    let pairs = plain.points().iter().zip(warm_up.points());
    assert!(pairs.clone().all(|(a, b)| At { shape: 1.0, ..*b } == *a));
}

/// A class of pages that are never touched: never read, never evicted, and nothing about the others
/// becomes undefined.
#[test]
fn pages_that_are_never_touched_change_no_reads() {
    let curve = |classes: &[(f64, f64)], slope: f64| {
        let warm_up = WarmUp::new(&database_with(popularity(classes), slope), 1e5 * 16_384.0);
        assert!(warm_up.points().iter().all(|point| values(point).into_iter().all(f64::is_finite)), "{classes:?}");
        warm_up
    };
    let (two, three) = ([(5e4, 1e-4), (5e5, 2e-6)], [(5e4, 1e-4), (5e5, 2e-6), (1e6, 0.0)]);
    let without = curve(&two, 0.0);
    for slope in [0.0, 0.3] {
        let with = curve(&three, slope);
        assert_eq!(without.points().len(), with.points().len());
        for (a, b) in without.points().iter().zip(with.points()) {
            assert!((a.reads / b.reads - 1.0).abs() < 1e-9, "{a:?} {b:?}");
            assert!(b.full == 0.0 || b.evicted_dirty < 0.95 * b.reads, "{b:?}");
        }
    }
    assert_eq!(curve(&[(1e3, 0.0)], 0.3).points()[0].reads, 0.0);
}

/// Pages read before the first eviction: what has left of them by a point and what is still there
/// make a full cache. With such pages all dirty and later ones clean, the curve tells both.
#[test]
fn first_pages_leave_once() {
    let mut database = tpcc(1_000.0);
    (database.writes.first_dirty, database.writes.later_dirty, database.writes.dirty_slope) = (1.0, 0.0, 0.0);
    let warm_up = WarmUp::new(&database, 10.0 * GIB);
    let capacity = database.cache_pages(10.0 * GIB);
    let (mut begin, mut evicted) = (0.0, 0.0);
    // A point lies in the middle of its step, but from the last one followed on, where steps are no
    // longer taken: its turnovers grow by 15 % at once.
    let followed = warm_up.points().windows(2).take_while(|pair| pair[1].reads != pair[0].reads || pair[1].full == 0.0).count();
    for point in &warm_up.points()[..followed] {
        let step = 2.0 * (point.tx - begin);
        evicted += point.evicted_dirty * step;
        begin += step;
        if point.full == 1.0 {
            assert!((evicted / capacity + point.dirty_share - 1.0).abs() < 1e-6, "{point:?}: {evicted} have left of {capacity}");
        }
    }
    assert!(evicted > 0.5 * capacity && evicted < capacity, "{evicted} of {capacity}");
}

/// With dirty shares of 1 a page leaves dirty however read: as many as are read, once full. A slope
/// makes rare pages dirtier and leaves hot ones cleaner.
#[test]
fn evicted_pages_are_dirty_by_their_share() {
    let settled = |slope: f64, share: f64| {
        let mut database = database_with(popularity(&[(5e4, 1e-4), (5e5, 2e-6)]), slope);
        (database.writes.first_dirty, database.writes.later_dirty) = (share, share);
        let warm_up = WarmUp::new(&database, 1e5 * 16_384.0);
        warm_up.at(warm_up.settled_tx(), &mut 0)
    };
    let flat = settled(0.0, 1.0);
    // Equal numbers leave and come, to the billionth of the cache by which it may be over-full.
    assert!((flat.evicted_dirty / flat.reads - 1.0).abs() < 1e-6, "{flat:?}");
    assert!((settled(0.0, 0.25).evicted_dirty / flat.reads - 0.25).abs() < 1e-6);
    // Equal numbers of each class leave and come, as touches tell: rare ones miss almost always.
    let steep = settled(0.3, 0.25);
    let mean = (5e4 * 1e-4 + 5e5 * 2e-6) / 5.5e5;
    let (hot, rare) = ((1e-4f64 / mean).powf(-0.3), (2e-6f64 / mean).powf(-0.3));
    let of_rare = (steep.evicted_dirty / 0.25 - hot * steep.reads) / (rare - hot);
    // Rare pages outside are 4.5e5 to 5e5 of 5e5, each read 2e-6 times; the step's middle is 1 % of
    // the cache away from its end.
    assert!((0.9 * 0.99..1.0).contains(&of_rare), "{of_rare}");
}

/// Reads of one class settle within a few turnovers; what the flush list writes goes on along its
/// ramp, ten times as long.
#[test]
fn page_writes_grow_on_where_reads_have_settled() {
    let classes = vec![PageClass { pages: 1_000_000.0, touches_per_tx: 1e-5 }];
    let (mut database, cache_bytes) = (database_with(Popularity { classes }, 0.0), 8e9);
    let settled = WarmUp::new(&database, cache_bytes).points().iter().find(|point| point.turned > 3.0).unwrap().tx;
    let ramp = 10.0 * settled;
    database.writes.flush_ramp_tx = ramp;
    let curve = WarmUp::new(&database, cache_bytes);
    for tx in [0.1 * ramp, ramp, 3.0 * ramp] {
        let expected = database.writes.flush_per_tx * (1.0 - (-tx / ramp).exp());
        // Points lie 15 % apart: the line between two is below the curve by 0.15^2 / 8, 0.3 % of
        // it, at most.
        let flushed = curve.at(tx, &mut 0).flushed;
        assert!((flushed / expected - 1.0).abs() < 0.01, "{flushed} for {expected} at {tx}");
    }
}

/// Last orders in a cache that holds everything: of a page touched `touches` times a transaction
/// what is read is its first touch, whose chance after n transactions is exp(-integral of touches).
/// The integral is taken here in 2,000 steps, and the share of own orders by Poisson's chances.
///
/// A point stands for a step of at most 8 % of its transactions, in which touches change by less
/// than 8 % and are taken from the middle: the second order is 0.08^2 / 24 = 0.03 %, times some
/// curvature; 0.5 % is allowed.
#[test]
fn last_orders_are_read_until_a_run_has_made_them() {
    let popularity = Popularity { classes: vec![PageClass { pages: 40_000.0, touches_per_tx: 1e-5 }] };
    let last = LastOrders { share: 0.5, rows_per_page: 0.8, touches_per_tx: 5.0, window_tx: 10_000.0 };
    let database = Database { last_orders: Some(last), usable_share: 1.0, ..database_with(popularity, 0.0) };
    let warm_up = WarmUp::new(&database, 2.0 * 40_000.0 * database.cached_bytes);
    let load_share = |tx: f64| {
        let expected = 20.0 * tx / last.window_tx;
        let chance = |orders: i32| (-expected).exp() * expected.powi(orders) / (1..=orders).map(f64::from).product::<f64>();
        (0..20).map(|orders| chance(orders) * f64::from(20 - orders) / 20.0).sum::<f64>()
    };
    let poisson = |rows: i32| (-0.8f64).exp() * 0.8f64.powi(rows) / (1..=rows).map(f64::from).product::<f64>();
    let several: f64 = (3..30).map(poisson).sum();
    let rows_of_several = (3..30).map(|rows| f64::from(rows) * poisson(rows)).sum::<f64>() / several;
    for tx in [500.0, 2_000.0, 6_000.0, 9_000.0] {
        let integral = (0..2_000).map(|step| load_share(tx * (f64::from(step) + 0.5) / 2_000.0) * tx / 2_000.0).sum::<f64>();
        let a_row = 5.0 / 20_000.0 / 0.8;
        let of = |pages: f64, rows: f64| pages * (1e-5 + rows * a_row * load_share(tx)) * (-1e-5 * tx - rows * a_row * integral).exp();
        let expected =
            of(20_000.0 * (1.0 + poisson(0)), 0.0) + of(20_000.0 * poisson(1), 1.0) + of(20_000.0 * poisson(2), 2.0) + of(20_000.0 * several, rows_of_several);
        let reads = warm_up.at(tx, &mut 0).reads;
        assert!((reads / expected - 1.0).abs() < 0.005, "{tx}: {reads} {expected}");
    }
}

/// P pages of one class, each touched `a` times a transaction and lost to compaction `r` times, in a
/// plain LRU list, by hand.
///
/// While all fits: live pages follow L' = a (P - L) - r L, before the first compaction with r = 0.
///
/// Settled, with T transactions from the last touch of a page to the tail of the list: pages touched
/// s ago and not deleted since are P a exp(-(a + r) s), so that L = P a / (a + r) (1 - exp(-(a + r) T)).
/// Last touches of which a deletion has followed up to s later are a P r / (a + r)
/// (1 - exp(-(a + r) s)) a transaction; the sum over s up to T is the dead weight, and both together
/// fill the cache, which gives T.
#[test]
fn pages_whose_file_compaction_deletes_are_read_again() {
    let (pages, touches, lost, first) = (40_000.0, 1e-4, 5e-5, 5_000.0);
    let popularity = || Popularity { classes: vec![PageClass { pages, touches_per_tx: touches }] };
    let compaction = Compaction {
        period_tx: 1_000.0,
        first_tx: first,
        read_bytes_per_tx: lost * pages * 16_384.0,
        write_bytes_per_tx: 0.0,
        rate_bytes_s: 1e8,
        profile: vec![1.0],
    };
    let database = Database {
        engine: StorageEngine::Myrocks,
        compaction: Some(compaction),
        old_share: 1.0,
        ordered_while_filling: true,
        ..database_with(popularity(), 0.0)
    };
    let reads = |of_pages: f64, tx: f64| WarmUp::new(&database, of_pages * database.cached_bytes).at(tx, &mut 0).reads;
    let sum = touches + lost;
    for tx in [2_000.0, 4_500.0, 7_000.0, 12_000.0] {
        let before = pages * -(-touches * f64::min(tx, first)).exp_m1();
        let end = pages * touches / sum;
        let live = end + (before - end) * (-sum * (tx - first).max(0.0)).exp();
        // Points stand for steps of at most 8 % of the transactions, whose middle is off by the
        // second order, 0.2 %, and the first compaction by half a step, in which r t is 1 %.
        let (got, expected) = (reads(2.0 * pages, tx), touches * (pages - live));
        assert!((got / expected - 1.0).abs() < 0.015, "{tx}: {got} {expected}");
    }
    let capacity = 0.5 * pages;
    let live = |stay: f64| pages * touches / sum * -(-sum * stay).exp_m1();
    let dead = |stay: f64| touches * pages * lost / sum * (stay + (-sum * stay).exp_m1() / sum);
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        *(if live(middle) + dead(middle) < capacity { &mut low } else { &mut high }) = middle;
    }
    // The list moves 2 % of the cache a step.
    let (got, expected) = (reads(capacity, 1e9), touches * (pages - live(low)));
    assert!((got / expected - 1.0).abs() < 0.02, "{got} {expected}");
    assert!(expected > 1.05 * touches * (pages - capacity), "dead weight takes room");
}
