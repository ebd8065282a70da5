//! The daemon of the lab.

pub mod journal;
