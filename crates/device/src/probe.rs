//! The latency of the machine's own path, from a block device to this process and back, and the
//! most it can carry. Both are measured on a scratch volume, so that no user's data is touched.

use crate::devices::{AttachedVolume, Devices, Pace, MOST_VOLUMES};
use crate::loopdev;
use crate::mount::Mount;
use headrace_store::{Backing, SparseFile};
use rand_core::{RngCore, SeedableRng};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of the scratch volume and of a read: InnoDB's page. The size is a guess that no cache of
/// the loop driver changes, for I/O is direct.
const SCRATCH_BYTES: u64 = 64 << 20;
const BLOCK: usize = 16 << 10;
/// Answers are held back this long while the path is measured, so that the timer's part is in it.
const HELD_NS: u64 = 400_000;
/// Reads at depth 1: some 300 ms. A guess at what makes a steady median.
const SAMPLES: usize = 600;
/// Depth at which the ceiling is measured, and for how long. Guesses: more depth gave no more.
const DEPTH: usize = 16;
const CEILING_FOR: Duration = Duration::from_millis(200);
const NAME: &str = ".probe";

/// Latency and highest rates of the machine's path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathCost {
    /// Median time of a 16 KiB read at depth 1 less the time that the model held it back, ns.
    pub own_ns: u64,
    /// 16 KiB reads a second at depth 16 when nothing is held back.
    pub iops: f64,
    /// MiB/s of 256 KiB reads at depth 16.
    pub mib_s: f64,
}

/// Memory aligned as direct I/O wants it.
#[repr(C, align(4096))]
struct Aligned([u8; 256 << 10]);

/// Measures the path through `mount`: some 900 ms. `folder` holds the scratch file while it lasts.
pub fn measure(devices: &Arc<Devices>, mount: &Mount, folder: &Path) -> io::Result<PathCost> {
    let scratch = folder.join(NAME);
    let _ = std::fs::remove_file(&scratch);
    let backing = SparseFile::create(&scratch, SCRATCH_BYTES)?;
    std::fs::remove_file(&scratch)?;
    // Written once: holes would be faster than data.
    (0..SCRATCH_BYTES >> 20).try_for_each(|at| backing.write(&[0x5a; 1 << 20], at << 20))?;
    let volume = Arc::new(AttachedVolume::new(MOST_VOLUMES, NAME, Arc::new(backing), devices.clock.now()));
    devices.open(volume.clone());
    let device = loopdev::attach(&mount.file(NAME));
    let measured = device.and_then(|device| {
        let measured = measure_on(&volume, &device);
        loopdev::release(&device)?;
        measured
    });
    devices.close(MOST_VOLUMES);
    measured
}

/// Measures the path through a block device of the scratch volume, whose pace is changed for that.
fn measure_on(volume: &AttachedVolume, device: &Path) -> io::Result<PathCost> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device)?;
    volume.set_pace(Pace::Fixed(HELD_NS));
    let mut buffer = Box::new(Aligned([0; 256 << 10]));
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut times = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let offset = random.next_u64() % (SCRATCH_BYTES / BLOCK as u64) * BLOCK as u64;
        let begun = Instant::now();
        file.read_exact_at(&mut buffer.0[..BLOCK], offset)?;
        times.push(begun.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    volume.set_pace(Pace::Fixed(0));
    let iops = ceiling(&file, BLOCK)?;
    let mib_s = ceiling(&file, 256 << 10)? * 0.25;
    Ok(PathCost { own_ns: times[SAMPLES / 2].saturating_sub(HELD_NS), iops, mib_s })
}

/// Returns the reads a second of `block` bytes, from [`DEPTH`] threads.
fn ceiling(file: &File, block: usize) -> io::Result<f64> {
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..DEPTH)
            .map(|worker| {
                let done = &done;
                scope.spawn(move || {
                    let mut buffer = Box::new(Aligned([0; 256 << 10]));
                    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(worker as u64);
                    while begun.elapsed() < CEILING_FOR {
                        let offset = random.next_u64() % (SCRATCH_BYTES / block as u64) * block as u64;
                        file.read_exact_at(&mut buffer.0[..block], offset)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    io::Result::Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a measuring thread failed"))))
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}
