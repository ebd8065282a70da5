//! Parts that the tests share: volumes, stores in a folder or in memory, a cipher, and comparisons.

use headrace_store::objects::{Bucket, Listed};
use headrace_store::snapshots::{upload, BlockCipher, BlockSource, Manifest, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects, SparseFile};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

pub const BLOCK: u64 = BLOCK_BYTES as u64;

pub fn volume(folder: &Path, name: &str, bytes: u64) -> Arc<dyn Backing> {
    Arc::new(SparseFile::create(&folder.join(name), bytes).unwrap())
}

pub fn store(folder: &Path) -> Objects {
    Objects::open(&format!("file://{}", folder.join("objects").display())).unwrap()
}

pub fn memory() -> Objects {
    Objects::over("memory://test", Arc::new(Memory::default()))
}

pub fn stored(source: &dyn BlockSource, name: &str, objects: &Objects, parent: Option<&Manifest>) -> Manifest {
    upload(source, objects, name, parent, None, &|_| {}, &AtomicBool::new(false)).unwrap()
}

pub fn content(backing: &dyn Backing) -> Vec<u8> {
    let mut all = vec![0xee; backing.bytes() as usize];
    backing.read(&mut all, 0).unwrap();
    all
}

pub fn restore(folder: &Path, name: &str, manifest: &Manifest, objects: &Objects, cipher: Option<Arc<dyn BlockCipher>>) -> Restored {
    let inner = volume(folder, name, manifest.bytes());
    let marks = folder.join(format!("{name}.warm"));
    Restored::create(inner, Arc::new(manifest.clone()), objects.clone(), cipher, &marks).unwrap()
}

/// Returns the place where two contents differ, instead of megabytes in a message.
pub fn difference(actual: &[u8], expected: &[u8]) -> Option<String> {
    if actual == expected {
        return None;
    }
    let at = actual.iter().zip(expected).position(|(a, b)| a != b);
    Some(match at {
        Some(at) => format!("byte {at} (block {}) is {} and should be {}", at / BLOCK_BYTES, actual[at], expected[at]),
        None => format!("{} bytes and not {}", actual.len(), expected.len()),
    })
}

/// Tells threads to stop, also when a test fails: it would wait for them for ever.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// A hook that is asked before a read or a write at an offset.
type Hook = Box<dyn Fn(u64) -> io::Result<()> + Send + Sync>;

/// A backing that waits or fails when it is told to.
pub struct Hooked {
    pub inner: Arc<dyn Backing>,
    pub before_read: Hook,
    pub before_write: Hook,
    pub before_flush: Box<dyn Fn() + Send + Sync>,
}

impl Hooked {
    /// Makes a backing that does what `inner` does.
    pub fn new(inner: Arc<dyn Backing>) -> Hooked {
        Hooked { inner, before_read: Box::new(|_| Ok(())), before_write: Box::new(|_| Ok(())), before_flush: Box::new(|| ()) }
    }
}

impl Backing for Hooked {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (self.before_read)(offset)?;
        self.inner.read(buffer, offset)
    }
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        (self.before_write)(offset)?;
        self.inner.write(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        (self.before_flush)();
        self.inner.flush()
    }
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.discard(offset, bytes)
    }
    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.zero(offset, bytes)
    }
    fn grow(&self, bytes: u64) -> io::Result<()> {
        self.inner.grow(bytes)
    }
    fn allocated(&self) -> io::Result<u64> {
        self.inner.allocated()
    }
}

/// Objects in memory.
#[derive(Default)]
pub struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

impl Bucket for Memory {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().insert(name.to_string(), data.to_vec());
        Ok(())
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        let objects = self.0.lock().unwrap();
        let data = objects.get(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such object"))?;
        let range = range.map_or(0..data.len(), |range| range.start as usize..(range.end as usize).min(data.len()));
        data.get(range).map(<[u8]>::to_vec).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "behind its end"))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        let objects = self.0.lock().unwrap();
        Ok(objects.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, data)| Listed { name: name.clone(), bytes: data.len() as u64 }).collect())
    }
}

/// Not safe at all, but every bit depends on the key and the number of the block.
pub struct Toy {
    key: u8,
    name: String,
}

impl Toy {
    pub fn new(key: u8) -> Toy {
        Toy { key, name: format!("key-{key}") }
    }
}

impl BlockCipher for Toy {
    fn seal(&self, block_index: u64, data: &mut [u8]) {
        let mask = self.key ^ (block_index as u8).wrapping_mul(31) | 1;
        data.iter_mut().for_each(|byte| *byte ^= mask);
    }

    fn open(&self, block_index: u64, data: &mut [u8]) {
        self.seal(block_index, data);
    }

    fn key_id(&self) -> &str {
        &self.name
    }
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
pub fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/snapshots.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), max_shrink_iters: 200, ..ProptestConfig::with_cases(cases) }
}
