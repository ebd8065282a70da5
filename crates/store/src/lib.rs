//! Where the bytes of a volume live.
//!
//! ```text
//!  PowerCut        what is not flushed may be lost: kept, dropped or torn when the power goes
//!    Raid          an array: each byte on the members where the model's geometry says (a single volume has none)
//!      Encrypted   behind the volume's data key, where it has one
//!      SparseFile  one for each member: space is taken when written, given back when discarded
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `power` | what a power cut does to writes that were not flushed |
//! | `raid` | the bytes of an array over its members, members that fail, rebuilds |
//! | `encrypted` | bytes on the disk that only a key makes readable |
//! | `sparse` | a sparse file, and which parts of it were ever written |
//!
//! A [`Backing`] may be used by many threads at once. Like a disk it promises nothing about
//! requests that overlap while both are in flight, and keeps what was flushed.

pub mod encrypted;
pub mod power;
pub mod raid;
pub mod sparse;

pub use encrypted::{Encrypted, SectorCipher};
pub use power::{CutReport, PowerCut};
pub use raid::Raid;
pub use sparse::SparseFile;

use std::io;

/// The bytes of one volume. Offsets and lengths are in bytes and lie within [`Backing::bytes`];
/// what lies outside is an error.
pub trait Backing: Send + Sync {
    /// Its size.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on; what was never written reads as zeros.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `data` at `offset`.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Returns when everything written before is on stable storage.
    fn flush(&self) -> io::Result<()>;

    /// Gives the space back; the range reads as zeros.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// The range reads as zeros; its space is kept.
    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Makes it larger. Never smaller: an error then.
    fn grow(&self, bytes: u64) -> io::Result<()>;

    /// Space it takes on its file system.
    fn allocated(&self) -> io::Result<u64>;
}

/// An error for a range outside `size`.
pub fn within(size: u64, offset: u64, bytes: u64) -> io::Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("bytes {offset} to {offset}+{bytes} are outside a volume of {size} bytes"))),
    }
}
