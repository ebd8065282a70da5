//! Mounts and loop devices that an earlier daemon of this lab left behind. They are found by the
//! lab's own folder, so those of others are never touched.

use crate::{loopdev, mount};
use rustix::mount::{unmount, UnmountFlags};
use std::io;
use std::path::{Path, PathBuf};

/// Mounts and loop devices that were found, and the result of their release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleMounts {
    /// Loop devices that were released.
    pub released: Vec<PathBuf>,
    /// Loop devices that are still in use (by a mounted file system); they go away with their last
    /// user.
    pub busy: Vec<PathBuf>,
    /// Mounts taken down.
    pub unmounted: u32,
}

/// Releases loop devices on files in `folder` and takes down our mounts there.
pub fn release(folder: &Path) -> io::Result<StaleMounts> {
    let mut mounts = StaleMounts::default();
    for device in loopdev::under(folder)? {
        let busy = loopdev::is_busy(&device);
        loopdev::release(&device)?;
        if busy { &mut mounts.busy } else { &mut mounts.released }.push(device);
    }
    while is_ours(folder)? {
        // Detached at once; what still uses it sees errors, as it did since the daemon died.
        unmount(folder, UnmountFlags::DETACH)?;
        mounts.unmounted += 1;
    }
    Ok(mounts)
}

/// Returns true if one of our file systems is mounted on `folder`.
pub fn is_ours(folder: &Path) -> io::Result<bool> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().any(|line| {
        let mut parts = line.split(" - ");
        let place = parts.next().and_then(|before| before.split(' ').nth(4)).map(unescape);
        let kind = parts.next().and_then(|after| after.split(' ').next());
        place.as_deref() == folder.to_str() && kind.is_some_and(|kind| kind == format!("fuse.{}", mount::SOURCE) || kind == "fuse")
    }))
}

/// Reads a path of a mount table, in which the kernel writes space, tab, newline and backslash as
/// octal.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}
