//! Nothing: this crate exists for the list of features in its Cargo.toml.
