//! The tests of this crate as one program: each file as a program of its own would be compiled with proptest
//! and linked again.

mod alarms;
mod keys;
mod reference;
mod rules;
mod snapshots;
mod wording;
