//! Empty: Cargo looks at build-dependencies only where a build script is.

fn main() {}
