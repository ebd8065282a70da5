//! Sources of figures: the rows of `data/sources.csv`, and the figure that carries its sources with
//! it.

use crate::error::{broken, CatalogError};
use serde::{Deserialize, Serialize};

/// One row of `data/sources.csv`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Short name used in the data.
    pub id: String,
    /// Document, with repository and revision if it has them.
    pub citation: String,
    /// Day the document speaks for, `YYYY-MM-DD`; `note` says where the day is not exact.
    pub as_of: String,
    /// `high` (AWS text or machine-made AWS data), `medium` (restated or derived) or `low`.
    pub confidence: String,
    /// Remark about the document.
    pub note: String,
}

/// A figure with its sources. In a file: `{ value = 16000, source = "guide-2020-10" }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param<T> {
    /// The figure, in the unit its name says.
    pub value: T,
    /// Ids of [`Source`] rows.
    pub source: SourceIds,
    /// `false`: not read in a stored source, read for another day only, or chosen by this project.
    #[serde(default = "yes")]
    pub confirmed: bool,
    /// Remark about the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// First day of a rule that began on a known day, `YYYY-MM-DD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<chrono::NaiveDate>,
}

fn yes() -> bool {
    true
}

/// One source id or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SourceIds {
    /// `source = "a"`
    One(String),
    /// `source = ["a", "b"]`
    Several(Vec<String>),
}

impl SourceIds {
    /// Returns the ids in order.
    pub fn ids(&self) -> Vec<&str> {
        match self {
            SourceIds::One(id) => vec![id],
            SourceIds::Several(ids) => ids.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the ids joined by `+`, as the CSV files write them.
    pub fn joined(&self) -> String {
        self.ids().join("+")
    }
}

/// A figure that was used although it is not confirmed, or was chosen by this project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// Name of the figure in the data, such as `throughput.mib_s`.
    pub field: String,
    /// The figure and its uncertainty.
    pub text: String,
    /// Source ids, joined by `+`.
    pub source: String,
}

impl Caveat {
    pub(crate) fn new(field: &str, text: impl Into<String>, source: impl Into<String>) -> Self {
        Caveat { field: field.to_string(), text: text.into(), source: source.into() }
    }
}

impl<T: Copy + std::fmt::Display> Param<T> {
    /// Returns the value; records a caveat when it is not confirmed.
    pub(crate) fn used(&self, field: &str, caveats: &mut Vec<Caveat>) -> T {
        if !self.confirmed {
            let note = self.note.as_deref().unwrap_or("not confirmed");
            caveats.push(Caveat::new(field, format!("{}: {note}", self.value), self.source.joined()));
        }
        self.value
    }
}

/// `data/sources.csv` in memory.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    rows: Vec<Source>,
}

impl Sources {
    /// Reads the file, and refuses a day that is none.
    pub(crate) fn parse(text: &str) -> Result<Self, CatalogError> {
        let rows: Vec<Source> = crate::table::rows("sources.csv", text)?;
        for row in &rows {
            if row.as_of.parse::<chrono::NaiveDate>().is_err() {
                return Err(broken(&format!("sources.csv: row {}: field as_of: {:?}", row.id, row.as_of), "must be a day, YYYY-MM-DD"));
            }
        }
        Ok(Sources { rows })
    }

    pub(crate) fn rows(&self) -> &[Source] {
        &self.rows
    }

    /// Returns the row of an id; what stands behind `@` is a revision of the document.
    pub(crate) fn find(&self, id: &str) -> Option<&Source> {
        let id = id.split_once('@').map_or(id, |(id, _)| id);
        self.rows.iter().find(|row| row.id == id)
    }

    /// Returns the citation and day of joined ids, for errors.
    pub(crate) fn cite(&self, joined: &str) -> String {
        joined
            .split('+')
            .map(|id| match self.find(id) {
                Some(row) => format!("{}, {}", row.citation, row.as_of),
                None => id.to_string(),
            })
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Refuses an id that has no row; `place` names file, row and field.
    pub(crate) fn require(&self, joined: &str, place: &str) -> Result<(), CatalogError> {
        for id in joined.split('+') {
            if self.find(id).is_none() {
                return Err(broken(&format!("{place}: {id:?}"), "is not an id of sources.csv"));
            }
        }
        Ok(())
    }
}
