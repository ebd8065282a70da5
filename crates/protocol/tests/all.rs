//! The tests of this crate as one program: each file as a program of its own would be compiled and linked again.

mod calls;
mod generated;
