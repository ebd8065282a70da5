//! The Python client and the reference page that are checked in are those of these calls.

use headrace_protocol::generate::{python, reference, MARKER};
use std::path::Path;

fn checked_in(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("a file of the project")
}

#[test]
fn the_python_client_is_up_to_date() {
    assert!(checked_in("python/headrace/lab/calls.py") == python(), "python/headrace/lab/calls.py is not what the calls make: run `make generate`");
}

#[test]
fn the_reference_page_is_up_to_date() {
    let page = checked_in("docs/reference/lab-protocol.md");
    let (_, generated) = page.split_once(MARKER).expect("the marker of the generated part");
    assert!(reference() == format!("{MARKER}{generated}"), "docs/reference/lab-protocol.md is not what the calls make: run `make generate`");
}
