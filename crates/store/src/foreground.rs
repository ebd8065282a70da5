//! Work on a volume that nobody waits for stands back while the volume is used: in small pieces,
//! one at a time, with rests in between.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are written between two rests. A guess: little enough for a journal of the file
/// system that waits for them.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// A volume counts as used for as long after a request, milliseconds. A guess: a volume that
/// serves 20 requests a second or more counts as used all the time.
const USED_MS: u64 = 50;
/// Rests take as many times as long as the piece before: a fifth of the time is work. A guess.
const REST_TIMES: u32 = 4;
/// The shortest rest. With two pieces of reading and one of writing for each MiB, an upload next to
/// a load has less than 1000 / 12 = 83 MiB/s. A guess; with it the p99 of a 16 KiB load during a
/// snapshot was 0.9 to 1.2 times that before, and 2.9 times without any rest
/// (benchmarks/snapshot_bench.py, on a machine that did other things too).
const SHORTEST_REST: Duration = Duration::from_millis(4);
/// The longest: a slow store does not stop an upload. A guess.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Time of the last use of a volume.
#[derive(Debug, Default)]
pub struct Foreground {
    /// Milliseconds since the process first asked; 0: never.
    last_ms: AtomicU64,
}

impl Foreground {
    /// Notes a request.
    pub fn note(&self) {
        let now = now_ms();
        // Threads that only read the word do not take it from each other.
        if self.last_ms.load(Ordering::Relaxed) != now {
            self.last_ms.store(now, Ordering::Relaxed);
        }
    }

    /// Returns true if a request came within the last `USED_MS` milliseconds.
    pub fn is_used(&self) -> bool {
        let last = self.last_ms.load(Ordering::Relaxed);
        last != 0 && now_ms().saturating_sub(last) < USED_MS
    }
}

fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// Paces work next to a volume.
pub(crate) struct Pace<'a> {
    foreground: Option<&'a Foreground>,
    turn: Mutex<()>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(foreground: Option<&'a Foreground>) -> Pace<'a> {
        Pace { foreground, turn: Mutex::new(()) }
    }

    fn is_used(&self) -> bool {
        self.foreground.is_some_and(Foreground::is_used)
    }

    /// Does a piece of work and rests, both alone, while the volume is used; else it only does the
    /// work. A long piece calls its argument now and then, to rest there.
    pub(crate) fn piece<T>(&self, work: impl FnOnce(&dyn Fn()) -> T) -> T {
        let _turn = self.is_used().then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let begun = Cell::new(Instant::now());
        let rest = || {
            if self.is_used() {
                std::thread::sleep((begun.get().elapsed() * REST_TIMES).clamp(SHORTEST_REST, LONGEST_REST));
            }
            begun.set(Instant::now());
        };
        let done = work(&rest);
        rest();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_volume_that_nobody_used_yet_is_not_used() {
        let foreground = Foreground::default();
        assert!(!foreground.is_used());
        foreground.note();
        assert_ne!(foreground.last_ms.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn while_it_is_used_pieces_are_done_one_at_a_time() {
        // Always just now.
        let foreground = Foreground { last_ms: AtomicU64::new(u64::MAX) };
        let pace = Pace::new(Some(&foreground));
        let (at_once, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let piece = || {
            for _ in 0..10 {
                pace.piece(|rest| {
                    assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "another is at work");
                    rest();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                });
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(piece))));
        assert_eq!(done.load(Ordering::SeqCst), 40);
    }

    /// Each of two pieces ends when it has seen the other's begin.
    #[test]
    fn else_they_are_done_side_by_side() {
        let foreground = Foreground::default();
        for pace in &[Pace::new(None), Pace::new(Some(&foreground))] {
            let ((to_first, first_inbox), (to_second, second_inbox)) = (sync_channel(1), sync_channel(1));
            let most = Duration::from_secs(60);
            let heard = std::thread::scope(|scope| {
                let first = scope.spawn(move || pace.piece(|_| to_second.send(()).is_ok() && first_inbox.recv_timeout(most).is_ok()));
                let second = pace.piece(|_| to_first.send(()).is_ok() && second_inbox.recv_timeout(most).is_ok());
                second && first.join().unwrap()
            });
            assert!(heard);
        }
    }
}
