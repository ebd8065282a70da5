//! Reading the CSV files so that an error names file, row and field.

use crate::error::broken;
use crate::error::CatalogError;
use serde::de::DeserializeOwned;

/// All rows of a file.
pub(crate) fn rows<T: DeserializeOwned>(file: &str, text: &str) -> Result<Vec<T>, CatalogError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| broken(file, &error.to_string()))?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(file, &error.to_string()))?;
        let row = record.deserialize(Some(&headers)).map_err(|error| {
            let line = record.position().map_or(0, csv::Position::line);
            let (field, reason) = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => (err.field().and_then(|index| headers.get(index as usize)).unwrap_or("?"), err.kind().to_string()),
                _ => ("?", error.to_string()),
            };
            broken(&format!("{file}: line {line} ({}): field {field}", record.get(0).unwrap_or_default()), &reason)
        })?;
        rows.push(row);
    }
    Ok(rows)
}
