//! The Python client and the reference page that are checked in are those of these calls.

use headrace_protocol::generate::{reference, stub, table, MARKER};
use std::path::Path;

fn checked_in(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("a file of the project")
}

#[test]
fn the_python_client_is_up_to_date() {
    for (path, text) in [("python/headrace/lab/calls.pyi", stub()), ("python/headrace/lab/calls.json", table())] {
        assert!(checked_in(path) == text, "{path} is not what the calls make: run `make generate`");
    }
}

#[test]
fn the_reference_page_is_up_to_date() {
    let page = checked_in("docs/reference/lab-protocol.md");
    let (_, generated) = page.split_once(MARKER).expect("the marker of the generated part");
    assert!(reference() == format!("{MARKER}{generated}"), "docs/reference/lab-protocol.md is not what the calls make: run `make generate`");
}
