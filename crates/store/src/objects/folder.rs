//! Objects as files of a folder. A file is written under a temporary name, flushed, renamed, and
//! the folder flushed: after a power cut an object is there whole, or not at all.

use super::{Bucket, Listed, MOST_OBJECT_BYTES};
use crate::foreground::PIECE_BYTES;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Folder of files until they are whole.
const INCOMING: &str = ".incoming";
/// An incoming file that was not touched for as long is what a crash left. A guess: no put takes a
/// day.
const ABANDONED_AFTER: Duration = Duration::from_secs(86_400);

/// Times a folder is made that deletes remove again. A guess.
const TRIES: u32 = 10;

pub(super) struct Folder {
    root: PathBuf,
    serial: AtomicU64,
}

/// Returns the path of a URL.
fn check_path(path: &str) -> io::Result<PathBuf> {
    let root = PathBuf::from(path);
    if !root.is_absolute() || path.contains(['?', '#', '%']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of a file:// URL begins with / and has no '?', '#' or '%'"));
    }
    Ok(root)
}

impl Folder {
    /// Opens a folder that is there, to be read: nothing is made.
    pub(super) fn open_existing(path: &str) -> io::Result<Folder> {
        let root = check_path(path)?;
        match root.is_dir() {
            true => Ok(Folder { root, serial: AtomicU64::new(0) }),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such folder")),
        }
    }

    pub(super) fn open(path: &str) -> io::Result<Folder> {
        let root = check_path(path)?;
        make_folder(&root.join(INCOMING))?;
        let folder = Folder { root, serial: AtomicU64::new(0) };
        folder.remove_abandoned()?;
        Ok(folder)
    }

    /// Removes incoming files older than [`ABANDONED_AFTER`].
    fn remove_abandoned(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.root.join(INCOMING))? {
            let entry = entry?;
            let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED_AFTER) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Writes an object as the file `incoming`, flushes it and renames it to `path`. With `lazily`
    /// nothing is flushed, and the function is called after each piece.
    fn write_as(&self, incoming: &Path, path: &Path, data: &[u8], lazily: Option<&dyn Fn()>) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(incoming)?;
        match lazily {
            // Piece by piece, so that never much is to be written at once.
            Some(rest) => data.chunks(PIECE_BYTES).try_for_each(|piece| {
                file.write_all(piece)?;
                begin_writing(&file);
                rest();
                io::Result::Ok(())
            })?,
            None => {
                file.write_all(data)?;
                file.sync_all()?;
            }
        }
        let folder = path.parent().unwrap_or(&self.root);
        // Again: a delete may remove the folder, found empty, in between.
        for _ in 0..TRIES {
            make_folder(folder)?;
            match std::fs::rename(incoming, path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done if lazily.is_some() => return done,
                done => return done.and_then(|()| sync_folder(folder)),
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is removed again and again", folder.display())))
    }

    /// Writes an object under a temporary name of its own first; removes that file after an error.
    fn put_as(&self, name: &str, data: &[u8], lazily: Option<&dyn Fn()>) -> io::Result<()> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let incoming = self.root.join(INCOMING).join(format!("{}-{:x}-{serial}", std::process::id(), std::ptr::from_ref(self) as usize));
        let done = self.write_as(&incoming, &self.root.join(name), data, lazily);
        if done.is_err() {
            let _ = std::fs::remove_file(&incoming);
        }
        done
    }

    /// Appends the files below a folder to `listed`, with names that begin with `prefix`. Hidden
    /// files are left out.
    fn list_below(&self, folder: &Path, prefix: &str, listed: &mut Vec<Listed>) -> io::Result<()> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let name = format!("{prefix}{name}");
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => self.list_below(&entry.path(), &format!("{name}/"), listed)?,
                Ok(meta) => listed.push(Listed { name, bytes: meta.len() }),
                // Deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Bucket for Folder {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.put_as(name, data, None)
    }

    fn put_lazily(&self, name: &str, data: &[u8], rest: &dyn Fn()) -> io::Result<()> {
        self.put_as(name, data, Some(rest))
    }

    /// Flushes the files of objects that were put lazily, and then their folders.
    fn settle(&self, names: &[String], rest: &dyn Fn()) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for path in names.iter().map(|name| self.root.join(name)) {
            let file = File::open(&path)?;
            file.sync_all()?;
            // It is on disk: its place in memory is of more use to the volume.
            begin_writing(&file);
            rest();
            folders.extend(path.parent().map(Path::to_path_buf));
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.root.join(name))?;
        let bytes = file.metadata()?.len();
        let Some(range) = range else {
            if bytes > MOST_OBJECT_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has {bytes} bytes; the largest object has {MOST_OBJECT_BYTES}")));
            }
            let mut data = Vec::with_capacity(bytes as usize);
            file.read_to_end(&mut data)?;
            return Ok(data);
        };
        let end = range.end.min(bytes);
        let mut data = vec![0; end.saturating_sub(range.start).min(MOST_OBJECT_BYTES) as usize];
        file.read_exact_at(&mut data, range.start)?;
        Ok(data)
    }

    /// Removes the file of an object, and its folder if that is empty then.
    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.root.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // An empty folder is of no use; one that is not empty stays.
        if let Some(folder) = path.parent().filter(|folder| *folder != self.root) {
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        self.list_below(&self.root.join(prefix), prefix, &mut listed)?;
        Ok(listed)
    }
}

/// Lets the kernel write its dirty pages of a file, without waiting, and free the pages that are
/// written. Only a hint: the flush does the rest.
fn begin_writing(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// Makes a folder and those above it, each on disk when this returns; readable by the owner alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_folder(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    path.parent().map_or(Ok(()), sync_folder)
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
