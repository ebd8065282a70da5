//! A replica: the applier's rate and its shares, its cache, lag in both forms, semi-sync, published tables.

mod bench;
mod cache;
mod lag;
mod published;
mod rate;
mod verdicts;
