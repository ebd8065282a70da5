//! A replica: the applier's rate and its shares, lag in both forms, semi-sync, published tables.

mod bench;
mod lag;
mod published;
mod rate;
mod verdicts;
