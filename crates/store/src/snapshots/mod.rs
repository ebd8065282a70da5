//! Snapshots: the bytes of a volume at an instant, in an object store, and volumes made of them.
//!
//! | file | idea |
//! |---|---|
//! | `capture` | an instant is kept while writes go on: what a write replaces is set aside first |
//! | `side` | the files with what was set aside |
//! | `changes` | which blocks changed since the last capture, in a file that survives the process |
//! | `upload` | an instant becomes segments and a manifest; what is unchanged is not stored again |
//! | `segment` | up to 32 blocks in one object |
//! | `manifest` | which blocks a snapshot has and where; what differs between two |
//! | `restored` | a volume that fetches each block when it is first touched |
//! | `direct` | a snapshot made and read block by block |
//! | `sweep` | deletes a snapshot of a chain, and what nothing refers to |
//! | `wrapped` | the wrapped data key of an encrypted snapshot |
//!
//! In the object store: `manifests/NAME`, `segments/NAME/NUMBER`, and `keys/NAME` of an encrypted
//! snapshot. The manifest is written last: without it a snapshot does not exist, and its segments
//! are found by a sweep.

mod bytes;
mod capture;
mod changes;
mod direct;
mod manifest;
mod paged;
mod restored;
mod segment;
mod side;
mod sweep;
mod upload;
mod wrapped;

pub use crate::foreground::Foreground;
pub use capture::{begin_all, Capture, Instant};
pub use changes::Changes;
pub use direct::{read_block, Builder, Stored};
pub use manifest::{changed_blocks, Changed, Manifest, Place};
pub use paged::BlockSet;
pub use restored::{initialize_all, Restored};
pub use segment::SEGMENT_BLOCKS;
pub use side::AsideKey;
pub use sweep::{delete_snapshot, forget_upload, sweep, unreferenced};
pub use upload::{upload, BlockSource, Progress};
pub use wrapped::WrappedKey;

use std::sync::OnceLock;

/// Bytes of a block: what the EBS direct API calls a block, and what a snapshot is made of.
pub const BLOCK_BYTES: usize = 512 << 10;

/// The first 16 bytes of the BLAKE3 hash of a block as it is stored. The digest has this length
/// because equal digests are taken for equal blocks when it is not known what changed.
pub type Digest = [u8; 16];

pub(crate) fn digest_of(data: &[u8]) -> Digest {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(data).as_bytes()[..16]);
    digest
}

/// Returns the number of blocks of a volume of `bytes`. The last may be a part of one; the rest of
/// the block is zeros.
pub fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

fn is_zero(data: &[u8]) -> bool {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    data.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()])
}

/// Cipher that seals blocks before they are stored, and opens them again.
pub trait BlockCipher: Send + Sync {
    /// Seals the block with this number in place.
    fn seal(&self, block_index: u64, data: &mut [u8]);
    /// Opens the block with this number in place.
    fn open(&self, block_index: u64, data: &mut [u8]);
    /// Tells keys apart without giving them away. Blocks are only taken from a parent that was
    /// sealed with the same.
    fn key_id(&self) -> &str {
        "sealed"
    }
}

/// Returns the id of this start of the machine: files whose writes were not flushed are whole after
/// the process died, but not after the machine did.
fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| "unknown".to_string(), |text| text.trim().to_string()))
}
