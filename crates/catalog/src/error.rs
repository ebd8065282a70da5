//! Errors of questions to the catalog. Every error names the value, the rule it breaks, where the
//! rule comes from, and what to do next, so that a caller never has to add a sentence of its own.

use chrono::NaiveDate;

/// Limit of its type that a volume breaks, with the numbers, for callers that have words of their
/// own for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what was asked for and the limit, in the units of the notation
pub enum BrokenLimit {
    /// Smaller than the type is.
    SizeTooSmall { gib: u64, least: u64 },
    /// Larger than the type is.
    SizeTooLarge { gib: u64, most: u64 },
    /// Fewer IOPS than the type takes.
    IopsTooLow { iops: u64, least: u64 },
    /// More IOPS than the type takes; its other limits are said with it for io2.
    IopsTooHigh { iops: u64, most: u64, most_gib: u64, most_per_gib: u64 },
    /// More IOPS than a volume of this size takes.
    IopsPerGib { iops: u64, gib: u64, most: u64 },
    /// IOPS must be named.
    IopsMissing,
    /// IOPS cannot be named.
    IopsNotTaken,
    /// Fewer MiB/s than the type takes.
    ThroughputTooLow { mib_s: u64, least: u64 },
    /// More MiB/s than the type takes.
    ThroughputTooHigh { mib_s: u64, most: u64 },
    /// More MiB/s than a volume of these IOPS takes.
    ThroughputPerIops { mib_s: u64, iops: u64, most_for_1000_iops: u64 },
    /// MiB/s cannot be named.
    ThroughputNotTaken,
}

/// The four parts of an error. Prints as one line, `VALUE: RULE (SOURCE). HINT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Value as the user wrote it.
    pub value: String,
    /// Rule that the value breaks.
    pub rule: String,
    /// Document with the rule: a citation with its date, or a part of this catalog.
    pub source: String,
    /// Advice.
    pub hint: String,
    /// The limit that it is about, with the name of the volume type it belongs to.
    pub limit: Option<(&'static str, BrokenLimit)>,
}

impl Problem {
    /// Makes a problem that is about no limit; line breaks of value and rule become spaces.
    pub(crate) fn new(value: impl Into<String>, rule: impl Into<String>, source: impl Into<String>, hint: impl Into<String>) -> Self {
        // Text that was pasted in may hold line breaks; an error is one line.
        let one_line = |text: String| text.replace(char::is_control, " ");
        Problem { value: one_line(value.into()), rule: one_line(rule.into()), source: source.into(), hint: hint.into(), limit: None }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Problem { value, rule, source, hint, .. } = self;
        write!(f, "{value}: {rule} ({source}). {hint}")
    }
}

/// Everything the catalog can refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The storage notation cannot be read.
    #[error("{0}")]
    Notation(Box<Problem>),
    /// No such volume type or RAID level.
    #[error("{0}")]
    UnknownType(Box<Problem>),
    /// No such instance type.
    #[error("{0}")]
    UnknownInstance(Box<Problem>),
    /// No such region.
    #[error("{0}")]
    UnknownRegion(Box<Problem>),
    /// The volume or instance type did not exist on the day asked for.
    #[error("{problem}")]
    NotYet {
        /// The four parts.
        problem: Box<Problem>,
        /// First day the catalog knows the type.
        first: NaiveDate,
    },
    /// A size, IOPS or throughput outside the limits of the day.
    #[error("{0}")]
    Limit(Box<Problem>),
    /// No price is known for this combination.
    #[error("{0}")]
    NoPrice(Box<Problem>),
    /// A file under `data/` is broken; the value names file, row and field.
    #[error("{0}")]
    Data(Box<Problem>),
}

impl CatalogError {
    /// Returns the four parts as one value.
    pub fn problem(&self) -> &Problem {
        match self {
            CatalogError::NotYet { problem, .. } => problem,
            CatalogError::Notation(p)
            | CatalogError::UnknownType(p)
            | CatalogError::UnknownInstance(p)
            | CatalogError::UnknownRegion(p)
            | CatalogError::Limit(p)
            | CatalogError::NoPrice(p)
            | CatalogError::Data(p) => p,
        }
    }

    /// Returns the value that breaks the rule.
    pub fn value(&self) -> &str {
        &self.problem().value
    }

    /// Returns the rule that the value breaks.
    pub fn rule(&self) -> &str {
        &self.problem().rule
    }

    /// Returns the document with the rule.
    pub fn source(&self) -> &str {
        &self.problem().source
    }

    /// Returns the advice.
    pub fn hint(&self) -> &str {
        &self.problem().hint
    }

    /// Returns a short stable name of the kind, for other languages and for JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            CatalogError::Notation(_) => "notation",
            CatalogError::UnknownType(_) => "unknown-type",
            CatalogError::UnknownInstance(_) => "unknown-instance",
            CatalogError::UnknownRegion(_) => "unknown-region",
            CatalogError::NotYet { .. } => "not-yet",
            CatalogError::Limit(_) => "limit",
            CatalogError::NoPrice(_) => "no-price",
            CatalogError::Data(_) => "data",
        }
    }
}

/// Returns "Did you mean X?", or `otherwise` when nothing is near.
///
/// Near means an edit distance of at most a third of the word, and at least 2: one swapped or one
/// missing pair. A name that differs in its digits only, or has another number of parts, is not a
/// slip but another thing: raid0 is not offered for raid6, nor us-west-1 for us-gov-west-1. A digit
/// too many or too few at the end is one: gp22.
pub(crate) fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    let given: Vec<char> = given.to_lowercase().chars().take(64).collect();
    let reach = (given.len() / 3).max(2);
    let written: String = given.iter().collect();
    let split = |name: &str| name.chars().partition::<String, _>(char::is_ascii_digit);
    let parts = |name: &str| name.matches('-').count();
    let is_slip = |name: &str| {
        let ((digits, letters), (its_digits, its_letters)) = (split(&written), split(name));
        let one_too_many = !digits.is_empty() && !its_digits.is_empty() && (digits.starts_with(&its_digits) || its_digits.starts_with(&digits));
        (letters != its_letters || one_too_many) && parts(&written) == parts(name)
    };
    let nearest =
        names.into_iter().filter(|name| is_slip(name)).map(|name| (edit_distance(&given, name), name)).filter(|(distance, _)| *distance <= reach).min();
    match nearest {
        Some((_, name)) => format!("Did you mean {name}?"),
        None => otherwise.to_string(),
    }
}

/// Counts the characters to be replaced, inserted or left out to make `b` of `a` (Levenshtein).
pub(crate) fn edit_distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, ca) in a.iter().enumerate() {
            let substituted = diagonal + usize::from(*ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[a.len()]
}

/// Makes an error in a data file; `place` names file, row and field.
pub(crate) fn broken(place: &str, rule: &str) -> CatalogError {
    CatalogError::Data(Box::new(Problem::new(place, rule, "data/README.md", "Correct the file; the columns and keys are described there.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let names = ["gp2", "gp3", "io1", "m5.2xlarge"];
        assert_eq!(did_you_mean("m5.2xlrge", names, "no"), "Did you mean m5.2xlarge?");
        assert_eq!(did_you_mean("pg3", names, "no"), "Did you mean gp3?");
        assert_eq!(did_you_mean("completely-else", names, "no"), "no");
        // A name of another level or generation is not a slip: a hint to it would be followed.
        assert_eq!(did_you_mean("raid6", ["raid0", "raid5", "raid10"], "no"), "no");
        assert_eq!(did_you_mean("gp22", names, "no"), "Did you mean gp2?");
        assert_eq!(did_you_mean("raidd0", ["raid0", "raid5", "raid10"], "no"), "Did you mean raid0?");
        assert_eq!(did_you_mean("us-gov-west-1", ["us-west-1", "us-east-1"], "no"), "no");
        assert_eq!(did_you_mean("us-eas-1", ["us-west-1", "us-east-1"], "no"), "Did you mean us-east-1?");
    }

    #[test]
    fn prints_on_one_line() {
        let error = CatalogError::Limit(Box::new(Problem::new("gp2:0", "rule", "here", "Do it.")));
        assert_eq!(error.to_string(), "gp2:0: rule (here). Do it.");
        assert_eq!(error.kind(), "limit");
    }
}
