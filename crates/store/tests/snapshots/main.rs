//! Snapshots: random operations against plain vectors of bytes, an object store that fails, threads
//! that write while an instant begins, and the promises of each part.

mod capturing;
mod faults;
mod life;
mod paging;
mod random;
mod restoring;
mod s3;
mod speed;
mod support;
