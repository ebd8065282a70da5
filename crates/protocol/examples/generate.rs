//! Writes the Python client and the generated part of the reference page: `make generate`.

use headrace_protocol::generate::{python, reference, MARKER};
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::write(root.join("python/headrace/lab/calls.py"), python())?;
    let page = root.join("docs/reference/lab-protocol.md");
    let text = fs::read_to_string(&page)?;
    let (written, _) =
        text.split_once(MARKER).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{}: has no line {MARKER}", page.display())))?;
    fs::write(&page, format!("{written}{}", reference()))
}
