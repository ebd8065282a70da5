//! Savings of a commitment of one or three years on the hour of an instance:
//! `data/prices_commitments.csv`.

use crate::error::{broken, did_you_mean, CatalogError, Problem};
use crate::source::Sources;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Factor of a commitment on the on-demand price of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commitment {
    /// Name, such as `reserved-1y`.
    pub commitment: String,
    /// Family it was found for; `*` for all families without a row.
    pub family: String,
    /// The hour with the commitment over the hour on demand.
    pub factor: f64,
    /// First day the commitment was sold.
    pub from: NaiveDate,
    /// Source ids, joined by `+`.
    pub source: String,
    /// `false`: not read in a source for this family or this kind of commitment.
    pub confirmed: bool,
    /// Remark about the factor.
    pub note: String,
}

/// The rows of the file.
#[derive(Debug)]
pub(crate) struct Commitments {
    rows: Vec<Commitment>,
}

impl Commitments {
    /// Reads the file, and refuses factors above 1 and commitments of a family that are given
    /// twice.
    pub(crate) fn parse(text: &str, sources: &Sources) -> Result<Self, CatalogError> {
        let rows: Vec<Commitment> = crate::table::rows("prices_commitments.csv", text)?;
        let mut pairs = BTreeSet::new();
        for row in &rows {
            let place = format!("prices_commitments.csv: {} {}: field", row.commitment, row.family);
            sources.require(&row.source, &format!("{place} source"))?;
            if !(row.factor > 0.0 && row.factor <= 1.0) {
                return Err(broken(&format!("{place} factor"), "must be above 0 and at most 1"));
            }
            if !pairs.insert((&row.commitment, &row.family)) {
                return Err(broken(&format!("{place} family"), "is given twice"));
            }
        }
        Ok(Commitments { rows })
    }

    /// Returns the factor for an instance type on a day: that of its family, else that of all
    /// families.
    pub(crate) fn get(&self, commitment: &str, instance_type: &str, date: NaiveDate) -> Result<&Commitment, CatalogError> {
        let offers = || self.rows.iter().filter(|row| row.commitment == commitment);
        let names: BTreeSet<&str> = self.rows.iter().map(|row| row.commitment.as_str()).collect();
        let family = crate::instance::family(instance_type);
        let row = offers().find(|row| row.family == family).or_else(|| offers().find(|row| row.family == "*")).ok_or_else(|| {
            let otherwise = format!("Known: {}.", names.iter().copied().collect::<Vec<_>>().join(", "));
            let hint = did_you_mean(commitment, names.iter().copied(), &otherwise);
            CatalogError::NoPrice(Box::new(Problem::new(format!("{commitment:?}"), "is not a commitment", "data/prices_commitments.csv", hint)))
        })?;
        if row.from > date {
            return Err(CatalogError::NotYet {
                problem: Box::new(Problem::new(
                    format!("{commitment} on {date}"),
                    format!("sold since {}", row.from),
                    "data/prices_commitments.csv",
                    format!("Ask for {} or later, or for another commitment.", row.from),
                )),
                first: row.from,
            });
        }
        Ok(row)
    }
}
