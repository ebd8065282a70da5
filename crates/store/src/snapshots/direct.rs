//! A snapshot block by block, as the EBS direct API has it: one block of a stored snapshot, and a
//! snapshot that is made of blocks which come one at a time, in any order.

use super::manifest::{Manifest, Place};
use super::segment::{self, Segment};
use super::upload::BlockSource;
use super::{blocks_of, digest_of, BlockCipher, Digest, BLOCK_BYTES};
use crate::objects::{check_part, Objects};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Locks for puts: two puts of the same block are serialized.
const LOCKS: u64 = 16;

/// Reads a block of a stored snapshot, opened. `None`: it is zeros.
pub fn read_block(objects: &Objects, manifest: &Manifest, index: u64, cipher: Option<&dyn BlockCipher>) -> io::Result<Option<Vec<u8>>> {
    let key = cipher.map_or("", BlockCipher::key_id);
    if manifest.key() != key {
        let sealed = |key: &str| if key.is_empty() { "not encrypted".to_string() } else { format!("encrypted with {key}") };
        let sentence = format!("{} is {}, and was to be read as {}", manifest.name(), sealed(manifest.key()), sealed(key));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    let wrong = |error: io::Error| io::Error::new(error.kind(), format!("block {index} of {} cannot be read: {error}", manifest.name()));
    let Some(place) = manifest.block(index).map_err(wrong)? else { return Ok(None) };
    let mut data = segment::read(objects, &manifest.segment_of(&place), place.slot, &place.digest).map_err(wrong)?;
    if let Some(cipher) = cipher {
        cipher.open(index, &mut data);
    }
    Ok(Some(data))
}

/// A stored snapshot as the source of another: a copy, to another store or under another key.
pub struct Stored<'a> {
    /// Store of the snapshot.
    pub objects: &'a Objects,
    /// Manifest of the snapshot.
    pub manifest: &'a Manifest,
    /// Cipher that opens the blocks; None if they are not encrypted.
    pub cipher: Option<&'a dyn BlockCipher>,
}

impl BlockSource for Stored<'_> {
    fn bytes(&self) -> u64 {
        self.manifest.bytes()
    }

    fn read_block(&self, index: u64, into: &mut [u8]) -> io::Result<()> {
        match read_block(self.objects, self.manifest, index, self.cipher)? {
            Some(data) => into.copy_from_slice(&data),
            None => into.fill(0),
        }
        Ok(())
    }

    fn may_hold_data(&self, first: u64, count: u64) -> bool {
        self.manifest.set().any(first, count)
    }
}

/// A snapshot that is made block by block. A block that was put is stored, and stays when the
/// process dies: opening it again finds it.
pub struct Builder {
    objects: Objects,
    name: String,
    bytes: u64,
    parent: Option<Manifest>,
    cipher: Option<Arc<dyn BlockCipher>>,
    put: Mutex<BTreeMap<u64, Digest>>,
    locks: Vec<Mutex<()>>,
}

impl Builder {
    /// Opens a new snapshot, or one that was begun. Blocks that are not put are those of the
    /// parent, or zeros.
    pub fn open(objects: Objects, name: &str, bytes: u64, parent: Option<Manifest>, cipher: Option<Arc<dyn BlockCipher>>) -> io::Result<Builder> {
        check_part(name)?;
        let key = cipher.as_ref().map_or("", |cipher| cipher.key_id());
        if let Some(parent) = parent.as_ref().filter(|parent| parent.key() != key || parent.bytes() > bytes) {
            let sentence =
                format!("{} cannot be the parent of {name}: it has {} bytes and another key, or is larger than {bytes} bytes", parent.name(), parent.bytes());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let mut put = BTreeMap::new();
        for listed in objects.list(&segment::folder_of(name))? {
            match segment::read_table(&objects, &listed.name, listed.bytes) {
                Ok(table) => put.extend(table),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => objects.delete(&listed.name)?,
                Err(error) => return Err(error),
            }
        }
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        Ok(Builder { objects, name: name.to_string(), bytes, parent, cipher, put: Mutex::new(put), locks })
    }

    /// Stores a block, in place of the block that was put before.
    pub fn put(&self, index: u64, data: &[u8]) -> io::Result<()> {
        if data.len() != BLOCK_BYTES || index >= blocks_of(self.bytes) {
            let sentence = format!(
                "block {index} of {} bytes: {} has blocks 0 to {} of {BLOCK_BYTES} bytes",
                data.len(),
                self.name,
                blocks_of(self.bytes).saturating_sub(1)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let number = u32::try_from(index).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("block {index} is behind the largest volume")))?;
        let _guard = self.locks[(index % LOCKS) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let mut segment = Segment::default();
        segment.reserve_room().copy_from_slice(data);
        if let Some(cipher) = &self.cipher {
            cipher.seal(index, segment.reserve_room());
        }
        let digest = digest_of(segment.reserve_room());
        segment.keep(index, digest);
        segment.put(&self.objects, &segment::name_of(&self.name, number), None)?;
        self.put.lock().unwrap_or_else(PoisonError::into_inner).insert(index, digest);
        Ok(())
    }

    /// Returns the number of blocks that were put.
    pub fn changed_blocks(&self) -> u64 {
        self.put.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// Writes the manifest: from now on the snapshot exists. Blocks that were put and then lost by
    /// the store make it an error.
    pub fn complete(self) -> io::Result<Manifest> {
        let put = self.put.into_inner().unwrap_or_else(PoisonError::into_inner);
        let names: BTreeMap<u64, String> = put.keys().map(|&index| (index, segment::name_of(&self.name, index as u32))).collect();
        let listed: BTreeMap<String, u64> = self.objects.list(&segment::folder_of(&self.name))?.into_iter().map(|listed| (listed.name, listed.bytes)).collect();
        if let Some(name) = names.values().find(|name| listed.get(*name) != Some(&segment::object_bytes(1))) {
            let sentence = format!("{}: {name} is not there as it was written: the store lost it. Put the block again", self.objects.url());
            return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
        }
        let mut owners = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.owners().to_vec());
        let owner = owners.len() as u32;
        if !put.is_empty() {
            owners.push(self.name.clone());
        }
        let old = self.parent.iter().flat_map(|parent| parent.from(0));
        let mut blocks = old.collect::<io::Result<BTreeMap<u64, Place>>>()?;
        blocks.extend(put.iter().map(|(&index, &digest)| (index, Place { owner, segment: index as u32, slot: 0, digest })));
        let key = self.cipher.as_ref().map_or("", |cipher| cipher.key_id());
        Manifest::write(&self.objects, (&self.name, self.bytes, key), owners, blocks.into_iter().map(Ok))
    }
}
