//! Computes in closed form the rows that sysbench draws, and the pages they are on.
//!
//! The draws are those of `sb_rand.c` of sysbench 1.0.20, compared with the binary of Debian 12
//! (4,000,000 draws each); `zipfian` is of its 1.1 branch. `special` is narrower than the manual
//! says: the draw that chooses the window, always above 1 - res, is used again for the place in it,
//! so that `rand-spec-res` % of the draws hit `rand-spec-res` % of `rand-spec-pct` % of the rows:
//! 0.75 % by default, not 1 %. Inside the window all rows are alike; the other draws are the mean
//! of `rand-spec-iter` uniforms over all rows.

use crate::error::SimError;
use crate::mysql::popularity::PageClass;
use serde::{Deserialize, Serialize};

/// Distribution of the rows that statements touch (`--rand-type`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// All rows alike.
    Uniform {},
    /// A window in the middle and the mean of uniforms (the default of 1.0).
    Special {
        /// Nominal window, percent of the rows (`--rand-spec-pct`).
        #[serde(default = "default_percent")]
        percent: f64,
        /// Draws that go there, percent (`--rand-spec-res`).
        #[serde(default = "default_share")]
        share: f64,
        /// Uniforms averaged for the others (`--rand-spec-iter`).
        #[serde(default = "default_iterations")]
        iterations: u32,
    },
    /// The mean of uniforms.
    Gaussian {
        /// Uniforms whose mean is a draw (`--rand-spec-iter`).
        #[serde(default = "default_iterations")]
        iterations: u32,
    },
    /// A share 1 - h of draws goes to a share h of rows, at the beginning.
    Pareto {
        /// `--rand-pareto-h`.
        #[serde(default = "default_h")]
        h: f64,
    },
    /// Row r with weight r^-exponent (1.1).
    Zipfian {
        /// `--rand-zipfian-exp`.
        #[serde(default = "default_exponent")]
        exponent: f64,
    },
}

fn default_percent() -> f64 {
    1.0
}
fn default_share() -> f64 {
    75.0
}
fn default_iterations() -> u32 {
    12
}
fn default_h() -> f64 {
    0.2
}
fn default_exponent() -> f64 {
    0.8
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::Special { percent: default_percent(), share: default_share(), iterations: default_iterations() }
    }
}

impl Distribution {
    /// Refuses options sysbench has no meaning for.
    pub fn check(&self) -> Result<(), SimError> {
        let iterations = |n: u32| SimError::check_range("iterations (rand-spec-iter)", f64::from(n), 1.0, 24.0);
        match *self {
            Distribution::Uniform {} => Ok(()),
            Distribution::Special { percent, share, iterations: n } => {
                SimError::check_range("percent of special rows (rand-spec-pct)", percent, 0.001, 100.0)?;
                SimError::check_range("share of special draws in percent (rand-spec-res)", share, 0.0, 99.9)?;
                iterations(n)
            }
            Distribution::Gaussian { iterations: n } => iterations(n),
            Distribution::Pareto { h } => SimError::check_range("h (rand-pareto-h)", h, 0.001, 0.999),
            Distribution::Zipfian { exponent } => SimError::check_range("exponent (rand-zipfian-exp)", exponent, 0.0, 5.0),
        }
    }

    /// Returns the first row of the window and rows in it, of `rows`; none without a window. In
    /// 1.0.20 `t` is one less than the rows.
    fn window(&self, rows: f64) -> Option<(f64, f64)> {
        let Distribution::Special { percent, share, .. } = *self else { return None };
        let (t, share) = ((rows - 1.0).max(0.0), share / 100.0);
        let nominal = t * percent / 100.0 + 1.0;
        Some((t / 2.0 - t * percent / 200.0 + (1.0 - share) * nominal, share * nominal)).filter(|(_, width)| *width > 0.0)
    }

    /// Returns the share of draws that fall on rows `from` to `to` (counted from 0, fractions
    /// allowed) of `rows`.
    pub fn mass(&self, rows: f64, from: f64, to: f64) -> f64 {
        let (a, b) = (from / rows, to / rows);
        match *self {
            Distribution::Uniform {} => b - a,
            Distribution::Gaussian { iterations } => mean_of_uniforms(iterations, a, b),
            Distribution::Special { share, iterations, .. } => {
                let special = self.window(rows).map_or(0.0, |(start, width)| ((to.min(start + width) - from.max(start)) / width).max(0.0));
                share / 100.0 * special + (1.0 - share / 100.0) * mean_of_uniforms(iterations, a, b)
            }
            Distribution::Pareto { h } => {
                let power = libm::log(1.0 - h) / libm::log(h);
                libm::pow(b, power) - libm::pow(a, power)
            }
            Distribution::Zipfian { exponent } => (harmonic(exponent, to) - harmonic(exponent, from)) / harmonic(exponent, rows),
        }
    }
}

/// Returns the chance that the mean of `n` uniforms is between `a` and `b`: Irwin and Hall. The
/// upper half by symmetry, where the sum would lose its digits.
fn mean_of_uniforms(n: u32, a: f64, b: f64) -> f64 {
    let below = |x: f64| {
        let s = x.clamp(0.0, 0.5) * f64::from(n);
        let (mut sum, mut choose) = (0.0, 1.0);
        for k in 0..=s.floor() as u32 {
            sum += choose * libm::pow(s - f64::from(k), f64::from(n));
            choose *= -f64::from(n - k) / f64::from(k + 1);
        }
        (1..=n).fold(sum, |sum, k| sum / f64::from(k))
    };
    match (a < 0.5, b <= 0.5) {
        (_, true) => below(b) - below(a),
        (false, _) => below(1.0 - a) - below(1.0 - b),
        _ => 1.0 - below(a) - below(1.0 - b),
    }
}

/// Returns `sum of k^-s for k = 1..n`: by terms up to 32, then Euler and Maclaurin (next term below
/// 1e-8 of a row). Linear inside a row.
fn harmonic(s: f64, n: f64) -> f64 {
    const TERMS: f64 = 32.0;
    let whole = n.floor();
    let first: f64 = (1..=whole.min(TERMS) as u32).map(|k| libm::pow(f64::from(k), -s)).sum();
    let part = (n - whole) * libm::pow(whole + 1.0, -s);
    if whole <= TERMS {
        return first + part;
    }
    let integral = if (s - 1.0).abs() < 1e-9 { libm::log(whole / TERMS) } else { (libm::pow(whole, 1.0 - s) - libm::pow(TERMS, 1.0 - s)) / (1.0 - s) };
    let ends = (libm::pow(whole, -s) - libm::pow(TERMS, -s)) / 2.0 + s / 12.0 * (libm::pow(TERMS, -s - 1.0) - libm::pow(whole, -s - 1.0));
    first + integral + ends + part
}

/// Neighbouring pages: how many, and their share of draws.
#[derive(Clone, Copy)]
struct Cell {
    from: f64,
    pages: f64,
    mass: f64,
}

/// Up to this many pages, each page is a cell of its own.
const EXACT_PAGES: f64 = 512.0;

/// Returns the pages of a table in runs short enough to be alike: geometric from both ends and the
/// middle, with the window's first and last page alone.
fn cells(distribution: &Distribution, rows: f64, rows_per_page: f64) -> Vec<Cell> {
    let pages = rows / rows_per_page;
    let mut edges = vec![0.0, pages];
    if pages <= EXACT_PAGES {
        edges.extend((1..pages.ceil() as u32).map(f64::from));
    } else {
        let half = pages / 2.0;
        let mut away = half;
        while away > 1.0 {
            edges.extend([away, pages - away].map(f64::floor));
            away /= 1.06;
        }
        edges.extend((0..256).map(|i| (pages * f64::from(i) / 256.0).floor()));
        if let Some((start, width)) = distribution.window(rows) {
            let (first, last) = ((start / rows_per_page).floor(), ((start + width) / rows_per_page).floor());
            edges.extend([first, first + 1.0, last, last + 1.0].map(|edge| edge.min(pages)));
        }
    }
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges
        .windows(2)
        .map(|edge| {
            let rows_at = |page: f64| (page * rows_per_page).min(rows);
            Cell { from: edge[0], pages: edge[1] - edge[0], mass: distribution.mass(rows, rows_at(edge[0]), rows_at(edge[1])).max(0.0) }
        })
        .collect()
}

/// A class while neighbours in popularity are merged.
#[derive(Clone, Copy)]
struct Group {
    pages: f64,
    mass: f64,
    /// Weight and weighted mean of log popularity.
    weight: f64,
    log: f64,
}

/// Popularity below this share of the mean counts as alike: such pages are touched once in 10^4
/// passes over the data.
const HARDLY_TOUCHED: f64 = 1e-5;

/// Returns the pages of a table by popularity, in at most `how_many` classes; pages and touches are
/// conserved. Neighbours are merged while it costs least: squared distance in log popularity,
/// weighted by their share of pages and of touches (Ward 1963). `touches_per_tx` is of the whole
/// table.
pub fn classes(distribution: &Distribution, rows: f64, rows_per_page: f64, touches_per_tx: f64, how_many: usize) -> Vec<PageClass> {
    let all = rows / rows_per_page;
    let group = |cell: Cell| {
        let (pages, mass) = (cell.pages, cell.mass);
        Group { pages, mass, weight: pages / all + mass, log: libm::log((mass / pages * all).max(HARDLY_TOUCHED)) }
    };
    let mut groups: Vec<Group> = cells(distribution, rows, rows_per_page).into_iter().map(group).collect();
    groups.sort_by(|a, b| (b.mass / b.pages).total_cmp(&(a.mass / a.pages)));
    let cost = |a: &Group, b: &Group| a.weight * b.weight / (a.weight + b.weight) * (a.log - b.log) * (a.log - b.log);
    let mut costs: Vec<f64> = groups.windows(2).map(|pair| cost(&pair[0], &pair[1])).collect();
    while let Some(least) = (0..costs.len()).min_by(|&i, &j| costs[i].total_cmp(&costs[j])) {
        // Rounding makes like pages differ by 1e-8 at most.
        if groups.len() <= how_many.max(1) && costs[least] > 1e-14 {
            break;
        }
        let (a, b) = (groups[least], groups.remove(least + 1));
        let weight = a.weight + b.weight;
        groups[least] = Group { pages: a.pages + b.pages, mass: a.mass + b.mass, weight, log: (a.weight * a.log + b.weight * b.log) / weight };
        costs.remove(least);
        if least > 0 {
            costs[least - 1] = cost(&groups[least - 1], &groups[least]);
        }
        if least < costs.len() {
            costs[least] = cost(&groups[least], &groups[least + 1]);
        }
    }
    groups.iter().map(|group| PageClass { pages: group.pages, touches_per_tx: touches_per_tx * group.mass / group.pages }).collect()
}

/// Returns the rows that a lookup by `k` finds on average: rows x sum over k of (chance to be
/// stored) x (chance to be asked for). Each of `threads` asks in its own part of the keys.
pub(super) fn rows_per_key(distribution: &Distribution, rows: f64, threads: u32) -> f64 {
    let part = rows / f64::from(threads);
    let drawn: Vec<Cell> = cells(distribution, part.max(1.0), 1.0);
    let count_rows = |thread: u32| {
        let start = f64::from(thread) * part;
        drawn
            .iter()
            .map(move |cell| cell.mass * distribution.mass(rows, start + cell.from, (start + cell.from + cell.pages).min(rows)) / cell.pages)
            .sum::<f64>()
    };
    (0..threads).map(count_rows).sum::<f64>() * rows / f64::from(threads)
}
