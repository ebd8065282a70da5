//! Measures the cost of encryption at 16 KiB: a request on a plain file, on an encrypted one, and
//! the cipher alone.
//!
//!     cargo run --release -p headrace-store --example encryption_cost [FOLDER]

use headrace_store::encrypted::{Place, DATA_KEY_BYTES};
use headrace_store::{Backing, Encrypted, SectorCipher, SparseFile};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const BYTES: u64 = 256 << 20;
const REQUEST: usize = 16 << 10;
/// Each way is measured this often, in turns, and the fastest round counts: the rest is what else
/// the machine did.
const ROUNDS: usize = 9;

fn microseconds(requests: u64, mut request: impl FnMut(u64) -> io::Result<()>) -> io::Result<f64> {
    let begun = Instant::now();
    // A stride that is prime to the number of requests: each place once, none next to the last.
    (0..requests).try_for_each(|index| request(index * 7_919 % requests))?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / requests as f64)
}

fn main() -> io::Result<()> {
    let folder = tempfile::tempdir_in(std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from))?;
    let cipher = Arc::new(SectorCipher::new(&[0x5a; DATA_KEY_BYTES]));
    let plain: Arc<dyn Backing> = Arc::new(SparseFile::create(&folder.path().join("plain"), BYTES)?);
    let file = Arc::new(SparseFile::create(&folder.path().join("encrypted"), BYTES)?);
    let encrypted: Arc<dyn Backing> = Arc::new(Encrypted::new(file, cipher.clone(), 0));
    let mut buffer = vec![0x77; REQUEST];
    let requests = BYTES / REQUEST as u64;
    let mut best = [[f64::INFINITY; 2]; 3];
    for _ in 0..ROUNDS {
        for (backing, best) in [&plain, &encrypted].into_iter().zip(&mut best) {
            best[1] = best[1].min(microseconds(requests, |at| backing.write(&buffer, at * REQUEST as u64))?);
            best[0] = best[0].min(microseconds(requests, |at| backing.read(&mut buffer, at * REQUEST as u64))?);
        }
        best[2][1] = best[2][1].min(microseconds(requests, |at| {
            cipher.encrypt(Place::Member(0), at * 32, &mut buffer);
            Ok(())
        })?);
        best[2][0] = best[2][0].min(microseconds(requests, |at| {
            cipher.decrypt(Place::Member(0), at * 32, &mut buffer);
            Ok(())
        })?);
    }
    for (name, [read, write]) in ["plain", "encrypted", "cipher alone"].into_iter().zip(best) {
        println!("{name:>12}: {read:6.2} us a read, {write:6.2} us a write of 16 KiB");
    }
    Ok(())
}
