//! An answer as it crosses to a page: a head in JSON, and its columns as they lie in memory.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | length of the head in bytes, a multiple of 8 |
//! | 4 | how many numbers follow it |
//! | | the head: the answer in JSON with the names of its columns, filled up with spaces |
//! | | the columns one after another, each as long as the others |
//!
//! Everything is little-endian, and several answers may stand one after another. A page reads the
//! columns where they lie (`Float64Array`): a run of an hour has 36,000 numbers, which are half a
//! MiB as text and take a browser longer to read than the model takes to compute them.

use serde::Serialize;

/// Columns of equal length. A number that is missing or not finite is NaN, where JSON has null.
#[derive(Default)]
pub(crate) struct Columns {
    names: Vec<&'static str>,
    values: Vec<f64>,
}

impl Columns {
    /// Appends a column; one without any value, such as the balance of a storage without credits,
    /// is left out.
    pub(crate) fn add(&mut self, name: &'static str, values: impl Iterator<Item = Option<f64>>) {
        let from = self.values.len();
        self.values.extend(values.map(|value| value.filter(|value| value.is_finite()).unwrap_or(f64::NAN)));
        if self.values[from..].iter().all(|value| value.is_nan()) {
            self.values.truncate(from);
        } else {
            self.names.push(name);
        }
    }
}

/// An answer with the names of its columns.
#[derive(Serialize)]
struct Head<'a, A> {
    #[serde(flatten)]
    answer: &'a A,
    columns: &'a [&'static str],
}

const ALIGNED: usize = 8;

/// Writes an answer and its columns.
pub(crate) fn pack<A: Serialize>(answer: &A, columns: &Columns) -> Vec<u8> {
    let head = serde_json::to_string(&Head { answer, columns: &columns.names })
        .unwrap_or_else(|error| format!("{{\"refused\":{{\"value\":\"\",\"rule\":\"{error}\",\"source\":\"headrace\",\"hint\":\"\"}},\"columns\":[]}}"));
    let length = head.len().next_multiple_of(ALIGNED);
    let mut bytes = Vec::with_capacity(2 * size_of::<u32>() + length + ALIGNED * columns.values.len());
    for count in [length, columns.values.len()] {
        bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes.extend(head.as_bytes());
    bytes.resize(2 * size_of::<u32>() + length, b' ');
    for value in &columns.values {
        bytes.extend(value.to_le_bytes());
    }
    bytes
}
