//! Manifests of the largest volumes: opening one and the first read of a volume made of it fetch a
//! bounded number of bytes, whatever its size. Counted, not timed.

use crate::support::{volume, Memory, BLOCK};
use headrace_store::objects::{Bucket, Listed};
use headrace_store::snapshots::{changed_blocks, Changed, Manifest, Place, Restored, BLOCK_BYTES};
use headrace_store::{Backing, Objects};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// The largest gp3 is 16 TiB; the largest file of ext4 is a little smaller.
const LARGEST: u64 = (16 << 40) - BLOCK;
/// Blocks of a page of a manifest: 4 GiB.
const PAGE_BLOCKS: u64 = 8_192;

/// Counts what is read of manifests, and in how many requests. Any block of a segment that is not
/// there is `FILL`: a full volume of 16 TiB fits no test.
#[derive(Default)]
pub struct Counted {
    inner: Memory,
    requests: AtomicU64,
    bytes: AtomicU64,
}

const FILL: u8 = 0xa5;

impl Counted {
    fn taken(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }
}

impl Bucket for Counted {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.inner.put(name, data)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        if name.starts_with("segments/") {
            return Ok(vec![FILL; range.map_or(0, |range| range.end - range.start) as usize]);
        }
        let data = self.inner.get(name, range)?;
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(data.len() as u64, Ordering::SeqCst);
        Ok(data)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.inner.delete(name)
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        self.inner.list(prefix)
    }
}

/// BLAKE3 of a block of `FILL`, its first 16 bytes, as a segment's reader works it out.
fn digest() -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(&[FILL; BLOCK_BYTES]).as_bytes()[..16]);
    digest
}

/// A manifest of `LARGEST` with these blocks, which lie one after another in segments of 32.
pub fn written(name: &str, blocks: impl Iterator<Item = u64>) -> (Arc<Counted>, Objects) {
    let bucket = Arc::new(Counted::default());
    let objects = Objects::over("memory://counted", bucket.clone());
    let digest = digest();
    let place = |number: u64| Place { owner: 0, segment: (number / 32) as u32, slot: (number % 32) as u32, digest };
    let blocks = blocks.zip(0..).map(|(index, number)| Ok((index, place(number))));
    Manifest::write(&objects, (name, LARGEST, ""), vec![name.to_string()], blocks).unwrap();
    bucket.taken();
    (bucket, objects)
}

fn restored(objects: &Objects, folder: &std::path::Path) -> Restored {
    let manifest = Arc::new(Manifest::load(objects, "snap").unwrap());
    Restored::create(volume(folder, "restored", LARGEST), manifest, objects.clone(), None, &folder.join("warm")).unwrap()
}

/// The worst an index can be: every second block of some pages, so that no runs shorten it; and
/// blocks all over the volume.
#[test]
fn opening_and_a_first_read_fetch_a_bounded_part_of_the_manifest() {
    let all = LARGEST / BLOCK;
    let dense = (0..64 * PAGE_BLOCKS).step_by(2);
    let sparse = (64 * PAGE_BLOCKS..all).step_by(997);
    let (bucket, objects) = written("snap", dense.chain(sparse));
    let blocks = 64 * PAGE_BLOCKS / 2 + (all - 64 * PAGE_BLOCKS).div_ceil(997);
    let whole = objects.get("manifests/snap").unwrap().len() as u64;
    bucket.taken();

    let folder = tempfile::tempdir().unwrap();
    let volume = restored(&objects, folder.path());
    let (requests, index) = bucket.taken();
    // 40 bytes for each of the 4,096 pages; of 64 a bit for each block, and 4 bytes for each of the
    // blocks that stand alone. Never more than a bit for each block.
    let most = 4_096 * 40 + 64 * PAGE_BLOCKS / 8 + 4 * (all - 64 * PAGE_BLOCKS).div_ceil(997) + 1_024;
    assert!(requests <= 2 && index <= most && index <= 4_096 * 40 + all / 8, "{requests} requests, {index} bytes of at most {most}");
    assert!(whole > 8 * index, "{index} of {whole} bytes");
    assert_eq!(volume.cold_blocks(), blocks);

    let mut buffer = [0; 4_096];
    for (block, full) in [(64 * PAGE_BLOCKS + 997 * 20_000, true), (2, true), (3, false)] {
        assert_eq!(volume.is_cold(block), full);
        volume.read(&mut buffer, block * BLOCK + 8_192).unwrap();
        assert_eq!(buffer, [if full { FILL } else { 0 }; 4_096], "{block}");
        let (requests, bytes) = bucket.taken();
        // A page: 20 bytes for each run of blocks, 16 for each block. Zeros need none.
        assert!(requests == u64::from(full) && bytes <= 36 * PAGE_BLOCKS + 4, "{requests} requests, {bytes} bytes");
    }
    assert_eq!(volume.cold_blocks(), blocks - 2);
    (4..200).step_by(2).for_each(|block| volume.read(&mut buffer, block * BLOCK).unwrap());
    assert_eq!(bucket.taken(), (0, 0), "a page is kept");
}

/// A volume opens while its store is away, and knows what is zeros; a part of a page that was kept
/// nowhere is an error in words, and is there again with the store.
#[test]
fn a_kept_index_opens_while_the_store_is_away() {
    let (bucket, objects) = written("snap", (5..9).chain([3 * PAGE_BLOCKS]));
    let folder = tempfile::tempdir().unwrap();
    let copies = Objects::open(&format!("file://{}", folder.path().join("origin").display())).unwrap();
    Manifest::load(&objects, "snap").unwrap().keep(&copies).unwrap();
    let all = bucket.inner.get("manifests/snap", None).unwrap();
    bucket.delete("manifests/snap").unwrap();
    let manifest = Arc::new(Manifest::load_from(&copies, &objects, "snap").unwrap());
    let volume = Restored::create(volume(folder.path(), "restored", LARGEST), manifest, objects.clone(), None, &folder.path().join("warm")).unwrap();
    let volume = volume.with_log(|_| {});
    assert_eq!((volume.cold_blocks(), volume.next_cold(6), volume.next_cold(9)), (5, Some(6), Some(3 * PAGE_BLOCKS)));
    let mut buffer = [1; 512];
    volume.read(&mut buffer, 4 * BLOCK).expect("zeros need no store");
    assert_eq!(buffer, [0; 512]);
    let error = volume.read(&mut buffer, 5 * BLOCK).unwrap_err();
    assert!(error.to_string().contains("block 5 of snap") && error.to_string().contains("manifests/snap"), "{error}");
    volume.write(&[7; BLOCK_BYTES], 6 * BLOCK).expect("a whole block needs no store");
    bucket.put("manifests/snap", &all).unwrap();
    volume.read(&mut buffer, 5 * BLOCK).unwrap();
    assert_eq!((buffer, volume.cold_blocks()), ([FILL; 512], 3));
    let good = |objects: &Objects| Manifest::load_from(&copies, objects, "snap").unwrap().from(0).collect::<io::Result<Vec<_>>>().map(|blocks| blocks.len());
    assert_eq!(good(&objects).unwrap(), 5);
    // The index of another snapshot in its place is not taken for it.
    let (_, other) = written("snap", 0..5);
    assert!(good(&other).unwrap_err().to_string().contains("snap"));
}

/// Pages that are the same in two snapshots are not read to find what differs.
#[test]
fn differences_read_the_pages_that_differ() {
    let bucket = Arc::new(Counted::default());
    let objects = Objects::over("memory://counted", bucket.clone());
    let place = |owner, digest| Place { owner, segment: 0, slot: 0, digest: [digest; 16] };
    let (first, second) = (vec!["first".to_string()], vec!["first".to_string(), "second".to_string()]);
    let blocks = |changed: u64| {
        let pages = (0..1_000).map(|page| page * PAGE_BLOCKS + 5);
        pages.map(move |index| Ok((index, if index == changed { place(1, 2) } else { place(0, 1) })))
    };
    let at = 300 * PAGE_BLOCKS + 5;
    let first = Manifest::write(&objects, ("first", LARGEST, ""), first, blocks(u64::MAX)).unwrap();
    let second = Manifest::write(&objects, ("second", LARGEST, ""), second, blocks(at)).unwrap();
    bucket.taken();
    let changed: Vec<Changed> = changed_blocks(&first, &second, 0).collect::<io::Result<_>>().unwrap();
    assert_eq!(changed, [Changed { index: at, in_first: true, in_second: true }]);
    assert_eq!(bucket.taken().0, 2);
    assert_eq!((second.own_blocks(), second.blocks()), (1, 1_000));
    assert_eq!(second.segments().unwrap(), ["segments/first/00000000", "segments/second/00000000"]);
}

#[test]
#[ignore = "prints figures"]
fn speed_of_a_first_read_of_16_tib() {
    let begun = Instant::now();
    let (bucket, objects) = written("snap", 0..LARGEST / BLOCK);
    let folder = tempfile::tempdir().unwrap();
    // On the disk, as a lab has it.
    let disk = crate::support::store(folder.path());
    disk.put("manifests/snap", &objects.get("manifests/snap").unwrap()).unwrap();
    println!("16 TiB, every block: a manifest of {} MiB, written in {:?}", bucket.taken().1 >> 20, begun.elapsed());
    let begun = Instant::now();
    let manifest = Arc::new(Manifest::load(&disk, "snap").unwrap());
    println!("read its index in {:?}", begun.elapsed());
    let volume = Restored::create(volume(folder.path(), "restored", LARGEST), manifest, objects.clone(), None, &folder.path().join("warm")).unwrap();
    let mut slowest = std::time::Duration::ZERO;
    println!("usable after {:?}", begun.elapsed());
    for number in 0..200 {
        let begun = Instant::now();
        volume.read(&mut [0; 4_096], number * 7_919 * 997 % (LARGEST / BLOCK) * BLOCK).unwrap();
        slowest = slowest.max(begun.elapsed());
    }
    let begun = Instant::now();
    let reopened = Manifest::load(&disk, "snap").unwrap();
    println!("200 first reads, the slowest {slowest:?}; opened again in {:?}", begun.elapsed());
    assert_eq!(reopened.blocks(), LARGEST / BLOCK);
}
