//! The cache followed as a fluid, against a list of pages touched one by one, against Che's approximation and against what must be conserved; and the curve made of it.
//!
//! Random cases print their classes and seed when they fail.

use headrace_sim::mysql::cache::{Cache, Moved};
use headrace_sim::mysql::warmup::At;
use headrace_sim::mysql::{standard, Database, Engine, PageClass, Popularity, WarmUp};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A step of the curve reads this share of the cache at most; where the fluid is compared with a list it takes finer ones, so that only chance and merged cohorts are left.
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

/// Two to four classes of whole pages whose heat goes over three decades; a transaction touches some ten pages.
fn classes() -> impl Strategy<Value = Popularity> {
    prop::collection::vec((200u32..4_000, 0.0f64..3.0), 2..5).prop_map(|drawn| {
        let heat: f64 = drawn.iter().map(|&(pages, decade)| f64::from(pages) * 10f64.powf(decade)).sum();
        popularity(&drawn.iter().map(|&(pages, decade)| (f64::from(pages), 10.0 * 10f64.powf(decade) / heat)).collect::<Vec<_>>())
    })
}

/// How a list is kept: share behind the midpoint, and whether hits reorder it while it fills.
#[derive(Clone, Copy, Debug)]
struct Rules {
    old_share: f64,
    ordered_while_filling: bool,
}

const INNODB: Rules = Rules { old_share: 0.375, ordered_while_filling: false };
const LRU: Rules = Rules { old_share: 1.0, ordered_while_filling: true };

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![
        Just(INNODB),
        Just(LRU),
        (0.1f64..1.0, any::<bool>()).prop_map(|(old_share, ordered_while_filling)| Rules { old_share, ordered_while_filling }),
    ]
}

/// The list with every page in it, head first. Reads enter at the midpoint, hits go to the head, the tail is evicted; nothing moves before the first eviction if so ruled.
struct List {
    rules: Rules,
    capacity: usize,
    pages: Vec<u32>,
    /// Of every page: in the list, and there since before the first eviction.
    inside: Vec<bool>,
    first: Vec<bool>,
    evicting: bool,
    moved: Moved,
}

impl List {
    fn new(all: usize, capacity: usize, rules: Rules) -> List {
        let pages = Vec::with_capacity(capacity + 1);
        List { rules, capacity, pages, inside: vec![false; all], first: vec![false; all], evicting: false, moved: Moved::default() }
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

fn add(to: &mut Moved, more: &Moved) {
    to.reads += more.reads;
    to.evicted_first += more.evicted_first;
    to.evicted_later += more.evicted_later;
}

/// Lets `tx` transactions pass in steps of at most `share` of the cache.
fn pass_in_steps(cache: &mut Cache, tx: f64, share: f64) -> Moved {
    let (mut left, mut moved) = (tx, Moved::default());
    while left > 0.0 {
        let step = left.min(share * cache.capacity() / cache.reads_per_tx().max(1e-12));
        add(&mut moved, &cache.pass(step));
        left -= step;
    }
    moved
}

fn cold(popularity: &Popularity, capacity: f64, rules: Rules) -> Cache {
    Cache::cold(popularity, capacity, rules.old_share, rules.ordered_while_filling)
}

/// What a count of independent events may be off by, and the fluid: a read is a coin with a small chance, so n of them scatter by sqrt(n); the pages outside scatter by as much again; five
/// of these. 1 % on top: within a step the fluid does not know what came first, and cohorts are merged.
fn allowed(counted: f64) -> f64 {
    5.0 * (2.0 * counted).sqrt() + 0.01 * counted + 1.0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Window by window, from a cold start through six turnovers: reads, evictions, and how many of those go back to before the first eviction.
    #[test]
    fn a_list_of_pages_does_the_same(popularity in classes(), share in 0.1f64..0.7, rules in rules(), seed in any::<u64>()) {
        let capacity = (share * popularity.pages()).floor();
        let (mut cache, mut list) = (cold(&popularity, capacity, rules), List::new(popularity.pages() as usize, capacity as usize, rules));
        let mut touches = Touches::new(&popularity, seed);
        let mut fluid = Moved::default();
        for window in 0..28 {
            // A quarter of the cache is read in each, unless it takes too long.
            let (before, by_then) = (list.moved, fluid);
            let mut touched = 0.0;
            while list.moved.reads - before.reads < 0.25 * capacity && touched < 150_000.0 {
                list.touch(touches.next());
                touched += 1.0;
            }
            add(&mut fluid, &pass_in_steps(&mut cache, touched / popularity.touches_per_tx(), FINE));
            let same = |what: &str, fluid: f64, list: f64| {
                prop_assert!((fluid - list).abs() <= allowed(list), "window {window}, {what}: {fluid} by fluid, {list} by list, allowed {}", allowed(list));
                Ok(())
            };
            same("reads in it", fluid.reads - by_then.reads, list.moved.reads - before.reads)?;
            same("reads so far", fluid.reads, list.moved.reads)?;
            same("evicted of the first", fluid.evicted_first, list.moved.evicted_first)?;
            same("evicted later", fluid.evicted_later, list.moved.evicted_later)?;
            let first = list.pages.iter().filter(|&&page| list.first[page as usize]).count();
            same("first ones left", cache.first_share() * cache.held(), first as f64)?;
        }
    }

    /// Che's approximation of LRU: every page stays for the same time T without a touch, `sum of pages x (1 - exp(-touches T)) = capacity`. The fluid's pages of one cohort share an age
    /// where Che has a sharp one: 64 cohorts, and steps as fine as this, leave 0.5 %.
    #[test]
    fn settled_lru_misses_as_che_says(popularity in classes(), share in 0.1f64..0.7, ordered_while_filling in any::<bool>()) {
        let capacity = share * popularity.pages();
        let mut cache = cold(&popularity, capacity, Rules { old_share: 1.0, ordered_while_filling });
        let moved = pass_in_steps(&mut cache, 6.0 * stay(&popularity, capacity), FINE);
        prop_assume!(moved.evicted_first + moved.evicted_later > 0.0);
        let che = popularity.first_touches_per_tx(stay(&popularity, capacity));
        let ratio = cache.reads_per_tx() / che;
        prop_assert!((ratio - 1.0).abs() < 0.005, "{} reads per transaction, {che} by Che, ratio {ratio}", cache.reads_per_tx());
    }

    /// Where all pages are alike no list is better than another: a touch misses with what is outside.
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
            prop_assert!((cache.held() - reads).abs() < 1e-10 * popularity.pages());
            prop_assert!(!cache.is_full() && cache.first_share() > 1.0 - 1e-12);
        }
    }

    /// Every page is inside or outside, class by class, whatever the steps: what is outside of a class is told by what was evicted of it, each class weighed by itself.
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
            prop_assert!(cache.held() <= capacity * (1.0 + 1e-8));
            prop_assert!((cache.held() + outside.iter().sum::<f64>() - popularity.pages()).abs() < slack, "{} inside, {outside:?} outside, {evicted} evicted", cache.held());
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
