//! Writes the journal of decisions in a thread of its own, so that requests do not wait for it.

use headrace_model::record::{Frame, SavedHost};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames that may wait for the disk: some 60 MB. A disk slower than that breaks the record, not
/// the volume.
const MOST_WAITING: usize = 1 << 20;
/// Interval at which frames are written, so that writes are few and large. A guess.
const WRITE_EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Waiting {
    frames: Vec<Frame>,
    stopping: bool,
    broken: Option<String>,
    requests: u64,
}

struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

/// A record being written.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    path: PathBuf,
}

impl Recorder {
    /// Makes the file of a record, which must not exist yet. This is separate from
    /// [`Recorder::start`] because the file may lie on a volume that waits for the lock its caller
    /// holds.
    pub fn file(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }

    /// Begins a record in its file. Writes nothing yet.
    pub fn start(file: File, path: &Path, header: &SavedHost) -> io::Result<Recorder> {
        let shared = Arc::new(Shared { waiting: Mutex::new(Waiting::default()), wake: Condvar::new() });
        let (writer, header) = (shared.clone(), header.encode());
        let thread = std::thread::Builder::new().name("headrace-record".into()).spawn(move || writer.write_frames(file, header))?;
        Ok(Recorder { shared, thread: Some(thread), path: path.to_path_buf() })
    }

    /// Returns the path of the record.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a frame.
    pub fn push(&self, frame: Frame) {
        let mut waiting = self.shared.lock();
        if waiting.broken.is_some() {
            return;
        }
        if waiting.frames.len() >= MOST_WAITING {
            waiting.broken = Some(format!("the disk took less than it was given: {MOST_WAITING} frames waited"));
            return;
        }
        waiting.requests += u64::from(matches!(frame, Frame::Request { .. }));
        waiting.frames.push(frame);
    }

    /// Returns the reason why it ended early; None if it did not.
    pub fn broken(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// Ends the record, and returns the number of its requests. An error when not all could be
    /// written.
    pub fn finish(mut self) -> io::Result<u64> {
        let outcome = self.end();
        let waiting = self.shared.lock();
        outcome?;
        match &waiting.broken {
            Some(reason) => Err(io::Error::other(reason.clone())),
            None => Ok(waiting.requests),
        }
    }

    /// Lets the thread write what waits, and waits for its end.
    fn end(&mut self) -> io::Result<()> {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_one();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(io::Error::other("the writing thread failed")),
            None => Ok(()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the header in `bytes` and then the frames that wait, every [`WRITE_EVERY`], until the
    /// record ends. An error breaks the record.
    fn write_frames(&self, mut file: File, mut bytes: Vec<u8>) -> io::Result<()> {
        loop {
            let mut waiting = self.lock();
            if waiting.frames.is_empty() && !waiting.stopping {
                waiting = self.wake.wait_timeout(waiting, WRITE_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            }
            let frames = std::mem::take(&mut waiting.frames);
            let stopping = waiting.stopping;
            drop(waiting);
            frames.iter().for_each(|frame| frame.encode(&mut bytes));
            if let Err(error) = file.write_all(&bytes) {
                self.lock().broken = Some(error.to_string());
                return Err(error);
            }
            bytes.clear();
            if stopping && frames.is_empty() {
                return Ok(());
            }
            // Frames come by the thousand: fewer, larger writes.
            if !stopping {
                std::thread::sleep(WRITE_EVERY);
            }
        }
    }
}
