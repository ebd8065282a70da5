//! Answers what-if questions of a page or a report: JSON in; out, a head in JSON with columns.
//!
//! Equal texts get equal answers, byte by byte, in `headrace._core` and in a browser
//! (`crates/wasm`). The requests that questions are made of are those of the Python package too:
//! `crates/py` reads them from dictionaries.
//!
//! | file | idea |
//! |---|---|
//! | `demand` | demand over time on many storages, and the day of a storage |
//! | `database` | a database on many storages, and its course on a storage |
//! | `run` | a run of a database, second by second |
//! | `replica` | a replica behind a run |
//! | `columns` | an answer as it crosses to a page |
//! | `refusal` | why there is no answer |

mod columns;
pub mod database;
pub mod demand;
mod refusal;
pub mod replica;
pub mod run;

pub use refusal::Refusal;

use columns::{pack, Columns};
use database::DatabaseQuestion;
use demand::{DemandQuestion, LoadColumns};
use headrace_catalog::{Catalog, NaiveDate, RegionPrices, StorageSpec};
use headrace_sim::demand::search::SearchMemory;
use headrace_sim::mysql::search::WarmUps;
use headrace_sim::mysql::Database;
use headrace_sim::OpenLoad;
use replica::ReplicaQuestion;
use run::{FollowedCaches, RunQuestion};
use serde::{Deserialize, Serialize};

/// A question; `ask` says which.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
enum Question {
    Demand(Box<DemandQuestion>),
    Database(Box<DatabaseQuestion>),
    Run(Box<RunQuestion>),
    Replica(Box<ReplicaQuestion>),
}

/// An answer, or why there is none.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Demand(demand::DemandAnswer),
    Database(database::DatabaseAnswer),
    Run(run::RunAnswer),
    Replica(replica::ReplicaAnswer),
    Refused(Refusal),
}

/// Answers questions, and remembers intermediate results that the next question about the load or
/// database needs again. They change no answer.
#[derive(Default)]
pub struct WhatIf {
    load: Option<OpenLoad>,
    /// The load times a factor, and its results so far.
    factored: Option<(OpenLoad, SearchMemory)>,
    database: Option<(Database, WarmUps)>,
    /// The database of a run as it was given, and the caches of runs.
    base: Option<Database>,
    followed: FollowedCaches,
}

impl WhatIf {
    /// Answers a question in JSON, in the form that `columns` describes. Refusals are answers too:
    /// `{"refused": {value, rule, source, hint}}`.
    pub fn answer(&mut self, question: &str) -> Vec<u8> {
        let mut columns = Columns::default();
        let answer = match serde_json::from_str::<Question>(question) {
            Ok(Question::Demand(question)) => question.answer(self, &mut columns).map(Answer::Demand),
            Ok(Question::Database(question)) => question.answer(self, &mut columns).map(Answer::Database),
            Ok(Question::Run(question)) => question.answer(self, &mut columns).map(Answer::Run),
            Ok(Question::Replica(question)) => question.answer(self, &mut columns).map(Answer::Replica),
            Err(error) => Err(Refusal::of_text(question, &error)),
        };
        pack(&answer.unwrap_or_else(Answer::Refused), &columns)
    }

    /// Returns a load times a factor, with the results that are remembered for it; without columns,
    /// the load of the question before.
    fn memory_of(&mut self, columns: Option<&LoadColumns>, factor: f64) -> Result<&(OpenLoad, SearchMemory), Refusal> {
        if let Some(columns) = columns {
            self.load = Some(columns.load()?);
        }
        let Some(base) = &self.load else {
            return Err(Refusal::new("load", "is missing, and no question came before", "crates/whatif", "Give the columns of the load."));
        };
        let load = base.times(factor);
        if self.factored.as_ref().is_some_and(|(before, _)| *before != load) {
            self.factored = None;
        }
        Ok(self.factored.get_or_insert_with(|| (load, SearchMemory::default())))
    }

    /// Returns the database of a run; without one, that of the question before.
    fn base_of(&mut self, given: Option<&Database>) -> Result<&Database, Refusal> {
        if let Some(database) = given {
            self.base = Some(database.clone());
        }
        self.base
            .as_ref()
            .ok_or_else(|| Refusal::new("database", "is missing, and no question came before", "crates/whatif", "Give the table of the database."))
    }

    /// Returns the caches of a database that have been followed: none where the question before had
    /// another database.
    fn caches_of(&mut self, database: Database) -> &(Database, WarmUps) {
        if self.database.as_ref().is_some_and(|(before, _)| *before != database) {
            self.database = None;
        }
        self.database.get_or_insert_with(|| (database, WarmUps::default()))
    }
}

/// Returns the day that a question is about: the newest of the catalog where it names none.
pub fn day(text: Option<&str>) -> Result<NaiveDate, Refusal> {
    let Some(text) = text else { return Ok(Catalog::embedded().newest_date()) };
    text.parse().map_err(|_| Refusal::new(text, "a date is written YYYY-MM-DD", "ISO 8601", "for example 2018-08-15"))
}

/// Returns the USD a month of a storage at the list prices of a region; None where a price is
/// missing. Volumes that are billed by the request cost more than that.
fn usd_month(storage: &StorageSpec, prices: &RegionPrices) -> Option<f64> {
    let items = Catalog::embedded().monthly_cost_at(storage, prices, 0.0).ok()?;
    Some(items.iter().map(|item| item.usd).sum())
}
