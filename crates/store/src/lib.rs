//! Storage of the bytes of volumes.
//!
//! ```text
//!  PowerCut          what is not flushed may be lost: kept, dropped or torn when the power goes
//!    Capture         the bytes of an instant are kept while writes go on  --upload-->  Objects: file:// or s3://
//!      Restored      a volume made of a snapshot: a block is fetched on first touch  <--fetch--
//!        Raid        an array: each byte on the members where the model's geometry says (a single volume has none)
//!          Encrypted   behind the volume's data key, where it has one
//!            SparseFile  one for each member: space is taken when written, given back when discarded
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `objects` | objects under names, in a folder or an S3 bucket |
//! | `power` | what a power cut does to writes that were not flushed |
//! | `raid` | the bytes of an array over its members, members that fail, rebuilds |
//! | `raid/resync` | copies and parity that may differ after a crash, made equal again |
//! | `encrypted` | bytes on the disk that only a key makes readable |
//! | `foreground` | work that nobody waits for stands back while the volume is used |
//! | `kms` | a key in KMS elsewhere, which wraps keys |
//! | `snapshots` | instants, incremental snapshots of 512 KiB blocks, volumes made of them |
//! | `sparse` | a sparse file, and which parts of it were ever written |
//!
//! A [`Backing`] may be used by many threads at once. Like a disk it promises nothing about
//! requests that overlap while both are in flight, and keeps flushed writes.

pub mod encrypted;
mod foreground;
pub mod kms;
pub mod objects;
pub mod power;
pub mod raid;
pub mod snapshots;
pub mod sparse;

pub use encrypted::{Encrypted, SectorCipher};
pub use objects::Objects;
pub use power::{CutReport, PowerCut};
pub use raid::Raid;
pub use sparse::SparseFile;

use std::io;

/// The bytes of one volume. Offsets and lengths are in bytes and lie within [`Backing::bytes`];
/// what lies outside is an error.
pub trait Backing: Send + Sync {
    /// Returns the size of the volume, bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on; bytes that were never written read as zeros.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `data` at `offset`.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written before is on stable storage.
    fn flush(&self) -> io::Result<()>;

    /// Gives the space back; the range reads as zeros.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Zeros a range; its space is kept.
    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Makes it larger. Never smaller: an error then.
    fn grow(&self, bytes: u64) -> io::Result<()>;

    /// Returns the space it takes on its file system, bytes.
    fn allocated(&self) -> io::Result<u64>;

    /// Returns false if every byte of a range is zero. May return true for zeros, never the
    /// opposite.
    fn may_hold_data(&self, _offset: u64, _bytes: u64) -> bool {
        true
    }
}

/// Refuses a range outside `size`.
pub fn within(size: u64, offset: u64, bytes: u64) -> io::Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("bytes {offset} to {offset}+{bytes} are outside a volume of {size} bytes"))),
    }
}

/// Makes the refusal of everything that needs the feature `aws`, in a build without it.
#[cfg(not(feature = "aws"))]
pub(crate) fn without_aws() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this headraced was built without S3 and KMS (Cargo feature `aws`): build it with `make lab`")
}
