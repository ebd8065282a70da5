//! Errors as the protocol writes them.

use crate::journal::JournalError;
use headrace_control::{ErrorKind, Problem};
use std::io;

/// Result of a call or of a step, or an error with all its parts.
pub type Outcome<T> = Result<T, Problem>;

/// Makes an error of the machine, not of the caller.
pub fn could_not(value: impl Into<String>, rule: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(ErrorKind::Unavailable, value, rule, "operating system", hint)
}

/// Makes the error of a call that breaks a rule of the protocol.
pub fn refused(kind: ErrorKind, value: impl Into<String>, rule: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(kind, value, rule, "docs/reference/lab-protocol.md", hint)
}

/// Makes the error of an argument that is not what the protocol asks for.
pub fn bad_input(value: impl Into<String>, rule: impl Into<String>, hint: impl Into<String>) -> Problem {
    refused(ErrorKind::InvalidParameter, value, rule, hint)
}

/// Makes the error of a volume that is mounted or in an array.
pub fn in_use(value: impl Into<String>, rule: impl Into<String>, hint: impl Into<String>) -> Problem {
    refused(ErrorKind::InUse, value, rule, hint)
}

/// Makes an error of the journal: nothing was written.
impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Problem {
        could_not("journal", error.to_string(), "Nothing was changed. Free space or repair the disk, then try again.")
    }
}

/// Makes the error of an I/O error while doing `what`.
pub fn from_io(what: impl Into<String>, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "Free space on the disk of the lab's folder, or of its object store, then try again.",
        _ => "Look at the daemon's log and the disk of the data directory.",
    };
    could_not(what, error.to_string(), hint)
}
