//! A volume's bytes, encrypted with AES-256-XTS (IEEE Std 1619-2018) by sectors of 512 bytes.
//!
//! The tweak of a sector is its number, and in its upper half the place it lies in: a member of an
//! array, or a snapshot. One data key serves a whole volume, and no two sectors of it are encrypted
//! alike.
//!
//! A sector whose bytes on the disk are all zeros reads as zeros: so holes stay holes, and take no
//! space. No data encrypts to such a sector but by a chance of 1 in 2^4096. A thief can see from it
//! which sectors were never written, or were discarded.
//!
//! XTS keeps the written bytes secret; it does not say whether it was changed. The checksums of
//! snapshots do.

use crate::snapshots::{BlockCipher, BLOCK_BYTES};
use crate::{within, Backing};
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are encrypted together: the sector that EBS volumes show.
pub(crate) const SECTOR: usize = 512;
/// Bytes of an AES block, and how many make a sector.
const BLOCK: usize = 16;
const BLOCKS: usize = SECTOR / BLOCK;
/// Sectors done at once: the processor works on several blocks in parallel, and 4 KiB with their
/// tweaks stay in its first cache.
const AT_ONCE: usize = 8;
/// Bytes that are encrypted before they are written, for requests of many MiB.
const PIECE: usize = 1 << 20;

/// Bytes of a data key: two keys of AES-256, for data and for tweaks.
pub const DATA_KEY_BYTES: usize = 64;

/// Location of a sector: the upper half of its tweak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The sector lies on a member of the volume; a single volume is its own member 0.
    Member(u32),
    /// The sector lies in a snapshot of the volume.
    Snapshot,
    /// The sector is set aside for a snapshot that is under way.
    Aside,
}

impl Place {
    fn tweak(self) -> u64 {
        match self {
            Place::Member(member) => u64::from(member),
            Place::Snapshot => 1 << 63,
            Place::Aside => 3 << 62,
        }
    }
}

/// The data key of one volume, ready for use. Dropping it overwrites it in memory.
pub struct SectorCipher {
    data: Aes256,
    tweak: Aes256,
}

impl std::fmt::Debug for SectorCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SectorCipher(a key that is not shown)")
    }
}

impl SectorCipher {
    /// Makes a cipher with this key.
    pub fn new(key: &[u8; DATA_KEY_BYTES]) -> SectorCipher {
        let half = |from: usize| Aes256::new_from_slice(&key[from..from + 32]).expect("32 bytes are a key of AES-256");
        SectorCipher { data: half(0), tweak: half(32) }
    }

    /// Encrypts whole sectors in place; the first has the number `sector`.
    pub fn encrypt(&self, place: Place, sector: u64, data: &mut [u8]) {
        let mut tweaks = [Block::default(); AT_ONCE * BLOCKS];
        for (number, blocks) in parts(sector, data) {
            let tweaks = &mut tweaks[..blocks.len()];
            self.mask(place, number, blocks, tweaks);
            self.data.encrypt_blocks(blocks);
            xor(blocks, tweaks);
        }
    }

    /// Decrypts whole sectors in place; those that are all zeros stay so.
    pub fn decrypt(&self, place: Place, sector: u64, data: &mut [u8]) {
        let mut tweaks = [Block::default(); AT_ONCE * BLOCKS];
        for (number, blocks) in parts(sector, data) {
            let mut holes = [false; AT_ONCE];
            for (hole, sector) in holes.iter_mut().zip(blocks.chunks(BLOCKS)) {
                *hole = sector.iter().all(|block| block.iter().all(|&byte| byte == 0));
            }
            if holes[..blocks.len() / BLOCKS].iter().all(|&hole| hole) {
                continue;
            }
            let tweaks = &mut tweaks[..blocks.len()];
            self.mask(place, number, blocks, tweaks);
            self.data.decrypt_blocks(blocks);
            xor(blocks, tweaks);
            for (_, sector) in holes.iter().zip(blocks.chunks_mut(BLOCKS)).filter(|(&hole, _)| hole) {
                sector.fill(Block::default());
            }
        }
    }

    /// Works out the tweak of every block of some sectors, and combines the blocks with them on the
    /// way: the processor has time for that while a tweak waits for its predecessor.
    fn mask(&self, place: Place, sector: u64, blocks: &mut [Block], tweaks: &mut [Block]) {
        let mut first = [Block::default(); AT_ONCE];
        let first = &mut first[..tweaks.len() / BLOCKS];
        for (number, tweak) in (sector..).zip(first.iter_mut()) {
            tweak[..8].copy_from_slice(&number.to_le_bytes());
            tweak[8..].copy_from_slice(&place.tweak().to_le_bytes());
        }
        self.tweak.encrypt_blocks(first);
        let sectors = blocks.chunks_exact_mut(BLOCKS).zip(tweaks.chunks_exact_mut(BLOCKS));
        for (first, (blocks, tweaks)) in first.iter().zip(sectors) {
            let value = u128::from_le_bytes((*first).into());
            // In halves: a shift of 128 bits is several instructions that wait for each other.
            let (mut low, mut high) = (value as u64, (value >> 64) as u64);
            for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                let value = u128::from(high) << 64 | u128::from(low);
                *block = Block::from((u128::from_le_bytes((*block).into()) ^ value).to_le_bytes());
                *tweak = Block::from(value.to_le_bytes());
                // Times x in GF(2^128), modulo x^128 + x^7 + x^2 + x + 1 (IEEE 1619, 5.2).
                let carry = 0x87 & ((high as i64) >> 63) as u64;
                high = high << 1 | low >> 63;
                low = low << 1 ^ carry;
            }
        }
    }
}

/// Splits data into some sectors at a time, each part with the number of its first.
fn parts(sector: u64, data: &mut [u8]) -> impl Iterator<Item = (u64, &mut [Block])> {
    debug_assert!(data.len() % SECTOR == 0);
    let parts = data.chunks_mut(AT_ONCE * SECTOR).map(|part| Array::slice_as_chunks_mut(part).0);
    (sector..).step_by(AT_ONCE).zip(parts)
}

fn xor(blocks: &mut [Block], tweaks: &[Block]) {
    // Works on plain bytes, which the compiler takes many at a time.
    let (bytes, tweaks) = (Array::slice_as_flattened_mut(blocks), Array::slice_as_flattened(tweaks));
    bytes.iter_mut().zip(tweaks).for_each(|(byte, tweak)| *byte ^= tweak);
}

thread_local! {
    /// Buffer for the encrypted bytes of a write: kept from request to request, at most a piece for
    /// each thread.
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A backing whose bytes are encrypted on the way to another one. The size is a multiple of 512.
pub struct Encrypted {
    inner: Arc<dyn Backing>,
    cipher: Arc<SectorCipher>,
    place: Place,
    /// The lock that a change of a part of a sector takes, since it reads the sector first.
    partial: Mutex<()>,
}

impl Encrypted {
    /// Puts the bytes of `inner`, which is the member `member`, behind a cipher.
    pub fn new(inner: Arc<dyn Backing>, cipher: Arc<SectorCipher>, member: u32) -> Encrypted {
        Encrypted { inner, cipher, place: Place::Member(member), partial: Mutex::new(()) }
    }

    /// Encrypts whole sectors and writes them, [`PIECE`] bytes at a time.
    fn write_sectors(&self, data: &[u8], offset: u64) -> io::Result<()> {
        SEALED.with_borrow_mut(|sealed| {
            for (index, piece) in data.chunks(PIECE).enumerate() {
                let at = offset + (index * PIECE) as u64;
                sealed.clear();
                sealed.extend_from_slice(piece);
                self.cipher.encrypt(self.place, at / SECTOR as u64, sealed);
                self.inner.write(sealed, at)?;
            }
            Ok(())
        })
    }

    fn read_sectors(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read(buffer, offset)?;
        self.cipher.decrypt(self.place, offset / SECTOR as u64, buffer);
        Ok(())
    }

    /// Changes part of one sector.
    fn change_sector(&self, offset: u64, bytes: usize, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (sector, from) = (offset / SECTOR as u64, (offset % SECTOR as u64) as usize);
        let _guard = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let mut whole = [0u8; SECTOR];
        self.read_sectors(&mut whole, sector * SECTOR as u64)?;
        change(&mut whole[from..from + bytes]);
        self.write_sectors(&whole, sector * SECTOR as u64)
    }

    /// Zeros a range: whole sectors by `clear`, parts of sectors by writing.
    fn clear(&self, offset: u64, bytes: u64, clear: impl FnOnce(u64, u64) -> io::Result<()>) -> io::Result<()> {
        within(self.bytes(), offset, bytes)?;
        let (before, whole, after) = split(offset, bytes);
        self.change_sector(offset, before as usize, |part| part.fill(0))?;
        if whole > 0 {
            clear(offset + before, whole)?;
        }
        self.change_sector(offset + before + whole, after as usize, |part| part.fill(0))
    }
}

/// Seals the blocks of a volume's snapshots with the data key of the volume.
pub struct SnapshotCipher {
    cipher: Arc<SectorCipher>,
    key_id: String,
}

impl SnapshotCipher {
    /// Makes a cipher for blocks; `key_id` tells this data key from others.
    pub fn new(cipher: Arc<SectorCipher>, key_id: impl Into<String>) -> SnapshotCipher {
        SnapshotCipher { cipher, key_id: key_id.into() }
    }

    fn first_sector(block_index: u64) -> u64 {
        block_index * (BLOCK_BYTES / SECTOR) as u64
    }
}

impl BlockCipher for SnapshotCipher {
    fn seal(&self, block_index: u64, data: &mut [u8]) {
        self.cipher.encrypt(Place::Snapshot, SnapshotCipher::first_sector(block_index), data);
    }

    fn open(&self, block_index: u64, data: &mut [u8]) {
        self.cipher.decrypt(Place::Snapshot, SnapshotCipher::first_sector(block_index), data);
    }

    fn key_id(&self) -> &str {
        &self.key_id
    }
}

/// A volume whose key cannot be had: it keeps its size and its space, and no byte is read or
/// written.
pub struct Locked(Arc<dyn Backing>);

impl Locked {
    /// Makes bytes that cannot be had.
    pub fn new(inner: Arc<dyn Backing>) -> Locked {
        Locked(inner)
    }
}

fn no_key<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the key of this encrypted volume cannot be used"))
}

impl Backing for Locked {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        no_key()
    }

    fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        no_key()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        no_key()
    }

    fn zero(&self, _: u64, _: u64) -> io::Result<()> {
        no_key()
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        self.0.grow(bytes)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.0.allocated()
    }
}

/// Splits a range into bytes of a part of a sector, of whole sectors, and of a part of a sector.
fn split(offset: u64, bytes: u64) -> (u64, u64, u64) {
    let sector = SECTOR as u64;
    let before = (offset.next_multiple_of(sector) - offset).min(bytes);
    let whole = (bytes - before) / sector * sector;
    (before, whole, bytes - before - whole)
}

impl Backing for Encrypted {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    /// Reads the whole sectors that contain the range, and decrypts them.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, buffer.len() as u64)?;
        let sector = SECTOR as u64;
        if offset % sector == 0 && buffer.len() % SECTOR == 0 {
            return self.read_sectors(buffer, offset);
        }
        let from = offset / sector * sector;
        let until = (offset + buffer.len() as u64).next_multiple_of(sector);
        let mut whole = vec![0u8; (until - from) as usize];
        self.read_sectors(&mut whole, from)?;
        let skipped = (offset - from) as usize;
        buffer.copy_from_slice(&whole[skipped..skipped + buffer.len()]);
        Ok(())
    }

    /// Writes whole sectors at once, and the parts of sectors at both ends after reading the rest
    /// of them.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        within(self.bytes(), offset, data.len() as u64)?;
        let (before, whole, _) = split(offset, data.len() as u64);
        let (first, rest) = data.split_at(before as usize);
        let (middle, last) = rest.split_at(whole as usize);
        self.change_sector(offset, first.len(), |part| part.copy_from_slice(first))?;
        self.write_sectors(middle, offset + before)?;
        self.change_sector(offset + before + whole, last.len(), |part| part.copy_from_slice(last))
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, |offset, bytes| self.inner.discard(offset, bytes))
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.clear(offset, bytes, |offset, bytes| self.inner.zero(offset, bytes))
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        self.inner.grow(bytes)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.inner.allocated()
    }

    // A hole below is a hole here: bytes that were never written are not encrypted.
    fn may_hold_data(&self, offset: u64, bytes: u64) -> bool {
        self.inner.may_hold_data(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::BlockCipherEncrypt;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap()).collect()
    }

    fn key(hex: &str) -> [u8; DATA_KEY_BYTES] {
        bytes(hex).try_into().unwrap()
    }

    /// IEEE 1619-2007, annex B, vector 10: XTS-AES-256, data unit 0xff, 512 bytes 00 to ff twice.
    #[test]
    fn vector_10_of_ieee_1619() {
        let cipher = SectorCipher::new(&key(concat!(
            "2718281828459045235360287471352662497757247093699959574966967627",
            "3141592653589793238462643383279502884197169399375105820974944592"
        )));
        let expected = bytes(concat!(
            "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac683f44",
            "680a86ac35adfc3345befecb4bb188fd5776926c49a3095eb108fd1098baec70aaa66999a72a82f27d848b21d4a741b0",
            "c5cd4d5fff9dac89aeba122961d03a757123e9870f8acf1000020887891429ca2a3e7a7d7df7b10355165c8b9a6d0a7d",
            "e8b062c4500dc4cd120c0f7418dae3d0b5781c34803fa75421c790dfe1de1834f280d7667b327f6c8cd7557e12ac3a0f",
            "93ec05c52e0493ef31a12d3d9260f79a289d6a379bc70c50841473d1a8cc81ec583e9645e07b8d9670655ba5bbcfecc6",
            "dc3966380ad8fecb17b6ba02469a020a84e18e8f84252070c13e9f1f289be54fbc481457778f616015e1327a02b140f1",
            "505eb309326d68378f8374595c849d84f4c333ec4423885143cb47bd71c5edae9be69a2ffeceb1bec9de244fbe15992b",
            "11b77c040f12bd8f6a975a44a0f90c29a9abc3d4d893927284c58754cce294529f8614dcd2aba991925fedc4ae74ffac",
            "6e333b93eb4aff0479da9a410e4450e0dd7ae4c6e2910900575da401fc07059f645e8b7e9bfdef33943054ff84011493",
            "c27b3429eaedb4ed5376441a77ed43851ad77f16f541dfd269d50d6a5f14fb0aab1cbb4c1550be97f7ab4066193c4caa",
            "773dad38014bd2092fa755c824bb5e54c4f36ffda9fcea70b9c6e693e148c151"
        ));
        let plain: Vec<u8> = (0..SECTOR).map(|index| index as u8).collect();
        let mut data = plain.clone();
        cipher.encrypt(Place::Member(0), 0xff, &mut data);
        assert_eq!(data, expected);
        cipher.decrypt(Place::Member(0), 0xff, &mut data);
        assert_eq!(data, plain);
    }

    /// Encrypts by XTS as the standard words it: one block at a time, the tweak multiplied byte by
    /// byte.
    fn by_the_book(key: &[u8; DATA_KEY_BYTES], tweak: u128, sector: &mut [u8]) {
        let [data, second] = [0, 32].map(|from| Aes256::new_from_slice(&key[from..from + 32]).unwrap());
        let mut t = Block::from(tweak.to_le_bytes());
        second.encrypt_block(&mut t);
        for block in sector.chunks_mut(BLOCK) {
            let mut buffer = Block::default();
            (0..BLOCK).for_each(|i| buffer[i] = block[i] ^ t[i]);
            data.encrypt_block(&mut buffer);
            (0..BLOCK).for_each(|i| block[i] = buffer[i] ^ t[i]);
            let mut carry = 0;
            for byte in t.iter_mut() {
                let next = *byte >> 7;
                *byte = (*byte << 1) | carry;
                carry = next;
            }
            if carry == 1 {
                t[0] ^= 0x87;
            }
        }
    }

    proptest! {
        #[test]
        fn many_sectors_at_once_are_the_standards_one_by_one(
            halves in any::<[[u8; 32]; 2]>(), member in prop_oneof![Just(0u32), any::<u32>()], sector in any::<u32>(), sectors in 1usize..20, seed in any::<u8>(),
        ) {
            let key: [u8; DATA_KEY_BYTES] = halves.concat().try_into().unwrap();
            let plain: Vec<u8> = (0..sectors * SECTOR).map(|index| (index as u8).wrapping_mul(seed)).collect();
            let mut data = plain.clone();
            SectorCipher::new(&key).encrypt(Place::Member(member), u64::from(sector), &mut data);
            let mut expected = plain.clone();
            for (index, chunk) in expected.chunks_mut(SECTOR).enumerate() {
                by_the_book(&key, (u128::from(member) << 64) + u128::from(sector) + index as u128, chunk);
            }
            prop_assert_eq!(&data, &expected);
            SectorCipher::new(&key).decrypt(Place::Member(member), u64::from(sector), &mut data);
            prop_assert_eq!(data, plain);
        }
    }

    /// Blocks of a snapshot with holes; the end of the volume cuts the last block short.
    #[test]
    fn blocks_of_snapshots_are_sealed_by_their_number() {
        let cipher = Arc::new(SectorCipher::new(&[7; DATA_KEY_BYTES]));
        let snapshot = SnapshotCipher::new(cipher.clone(), "one");
        let plain: Vec<u8> = (0..BLOCK_BYTES).map(|index| (index % 251) as u8).collect();
        let sealed = |index| {
            let mut data = plain.clone();
            snapshot.seal(index, &mut data);
            data
        };
        assert!(sealed(0) != sealed(1) && sealed(0) != plain);
        let mut opened = sealed(5);
        snapshot.open(5, &mut opened);
        assert_eq!((&opened, snapshot.key_id()), (&plain, "one"));
        let mut same_sector_of_the_volume = plain[..SECTOR].to_vec();
        cipher.encrypt(Place::Member(0), 5 * 1_024, &mut same_sector_of_the_volume);
        assert_ne!(sealed(5)[..SECTOR], same_sector_of_the_volume);
    }

    #[test]
    fn places_and_sectors_are_encrypted_differently_and_holes_stay() {
        let cipher = SectorCipher::new(&[7; DATA_KEY_BYTES]);
        let sealed = |place, sector| {
            let mut data = vec![0; SECTOR];
            cipher.encrypt(place, sector, &mut data);
            data
        };
        let all = [sealed(Place::Member(0), 0), sealed(Place::Member(0), 1), sealed(Place::Member(1), 0), sealed(Place::Snapshot, 0)];
        for (index, ciphertext) in all.iter().enumerate() {
            assert!(ciphertext.iter().any(|&byte| byte != 0) && all[index + 1..].iter().all(|other| other != ciphertext));
        }
        // A hole between two sectors of data.
        let mut data = [sealed(Place::Member(0), 0), vec![0; SECTOR], sealed(Place::Member(0), 2)].concat();
        cipher.decrypt(Place::Member(0), 0, &mut data);
        assert_eq!(data, vec![0; 3 * SECTOR]);
    }
}
