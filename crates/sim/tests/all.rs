//! The tests of this crate as one program: each file as a program of its own would be compiled with proptest
//! and linked again.

mod common;
mod cycles;
mod fleet;
mod forms;
mod mysql_cache;
mod mysql_checkpoint;
mod mysql_cleaner;
mod mysql_clients;
mod mysql_database;
mod mysql_interval;
mod mysql_search;
mod mysql_sysbench;
mod mysql_tprocc;
mod near_cap;
#[path = "replica/main.rs"]
mod replica;
mod services;
