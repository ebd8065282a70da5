//! Draws of the per-I/O form: lengths of transactions, places of their pages, times of arrival.

use crate::mysql::interval::{sigma_of_p95, Scenario};
use headrace_model::chance::{around, exponential, normal_of, unit};
use headrace_model::Nanos;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The front of the data device: the doublewrite area (of this size by choice; it only decides
/// which offsets are written), then three circular logs; pages and sorted files lie behind them.
pub const DOUBLEWRITE_BYTES: u64 = 16 << 20;
/// One circular log, bytes (chosen likewise).
pub const LOG_AREA_BYTES: u64 = 64 << 20;
/// Offset of pages and sorted files on the data device, bytes.
pub const FIRST_PAGE: u64 = DOUBLEWRITE_BYTES + 3 * LOG_AREA_BYTES;

/// Purpose of each stream of a seed, so that one more draw for one does not change the others.
#[derive(Clone, Copy)]
pub enum Stream {
    Transactions = 1,
    Places = 2,
    Arrivals = 3,
    Rows = 4,
}

/// Draws of transactions and places.
pub struct Draws {
    pub of_tx: ChaCha8Rng,
    pub of_place: ChaCha8Rng,
    sigma: f64,
    pub first_page: u64,
    /// Places on the data device, each of `align` bytes.
    pub places: u64,
    pub align: u64,
}

impl Draws {
    /// Seeds the draws of a scenario; places are on all of its data device, or on the data that a
    /// snapshot holds.
    pub fn new(scenario: &Scenario<'_>) -> Draws {
        let sigma = sigma_of_p95(scenario.database.clients.p95_over_mean);
        let align = u64::from((scenario.database.read_bytes.max(scenario.database.cached_bytes) as u32).max(4_096).next_power_of_two());
        let first_page = FIRST_PAGE;
        // All of the volume, or the data that a snapshot holds.
        let data = scenario.data.snapshot.map_or(u64::MAX, |origin| origin.written_bytes);
        let places = ((scenario.data.span_bytes(0) - first_page).min(data) / align).max(1);
        Draws { of_tx: stream(scenario, Stream::Transactions), of_place: stream(scenario, Stream::Places), sigma, first_page, places, align }
    }

    /// Draws the length of a transaction over the mean.
    pub fn length(&mut self) -> f64 {
        let (radius, angle) = (1.0 - unit(&mut self.of_tx), unit(&mut self.of_tx));
        libm::exp(self.sigma * normal_of(radius, angle) - 0.5 * self.sigma * self.sigma)
    }

    /// Draws a whole number whose mean is `mean`: one of its two neighbours.
    pub fn whole(&mut self, mean: f64) -> u8 {
        around(&mut self.of_tx, mean) as u8
    }

    /// Draws the offset of a page, bytes.
    #[inline]
    pub fn place(&mut self) -> u64 {
        self.first_page + ((u128::from(self.of_place.next_u64()) * u128::from(self.places)) >> 64) as u64 * self.align
    }
}

/// Makes the generator of one stream of a scenario's seed.
pub fn stream(scenario: &Scenario<'_>, stream: Stream) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(scenario.seed.unwrap_or(0));
    rng.set_stream(stream as u64);
    rng
}

/// Poisson arrivals at a rate per step; the last rate holds.
#[derive(Clone)]
pub struct PoissonArrivals<'a> {
    rates: &'a [f64],
    step_s: f64,
    step: usize,
    at_s: f64,
    rng: ChaCha8Rng,
}

impl<'a> PoissonArrivals<'a> {
    /// Starts the arrivals of a scenario at 0 s; `rates`: transactions a second, by step.
    pub fn new(scenario: &Scenario<'_>, rates: &'a [f64]) -> PoissonArrivals<'a> {
        PoissonArrivals { rates, step_s: scenario.step_s, step: 0, at_s: 0.0, rng: stream(scenario, Stream::Arrivals) }
    }

    /// Returns the next arrival; None if the last rate is 0.
    pub fn next(&mut self) -> Option<Nanos> {
        let mut to_go = exponential(&mut self.rng);
        loop {
            let rate = self.rates[self.step.min(self.rates.len() - 1)];
            let last = self.step + 1 >= self.rates.len();
            let left_s = if last { f64::INFINITY } else { (self.step + 1) as f64 * self.step_s - self.at_s };
            if rate > 0.0 && to_go <= left_s * rate {
                self.at_s += to_go / rate;
                return Some(Nanos::from_secs_f64(self.at_s));
            }
            if last {
                return None;
            }
            to_go -= left_s * rate;
            self.step += 1;
            self.at_s = self.step as f64 * self.step_s;
        }
    }
}
