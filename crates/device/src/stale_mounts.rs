//! Mounts and loop devices that an earlier daemon of this lab left behind. They are found by the
//! lab's own folder, so those of others are never touched.

use crate::loopdev;
use crate::mount::SOURCE;
use rustix::mount::{mount, unmount, MountFlags, UnmountFlags};
use std::io;
use std::path::{Path, PathBuf};

/// Place where the kernel shows the connection of each FUSE mount (fuse.rst in its documentation).
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// SIGKILL in the masks of pending signals of /proc/PID/status (proc_pid_status(5)).
const KILL_BIT: u64 = 1 << 8;

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

/// Aborts the connections of our mounts on `folder`: what waits for an answer of theirs fails. A
/// daemon that was killed while a thread of it waited for its own mount cannot end otherwise, and
/// whatever looks at the mount waits with it.
pub fn abort(folder: &Path) -> io::Result<()> {
    for connection in connections(folder)? {
        let file = Path::new(CONNECTIONS).join(connection).join("abort");
        if !file.exists() {
            mount("none", CONNECTIONS, "fusectl", MountFlags::empty(), None)?;
        }
        // A connection that is gone has no file: its daemon has just ended.
        std::fs::write(&file, "1").or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

/// Returns true if a process was killed with SIGKILL and has not ended yet.
pub fn is_killed(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().filter_map(|line| line.split_once(":\t")).any(|(name, value)| match name {
        "State" => value.starts_with('Z'),
        "SigPnd" | "ShdPnd" => u64::from_str_radix(value, 16).is_ok_and(|mask| mask & KILL_BIT != 0),
        _ => false,
    })
}

/// Returns true if one of our file systems is mounted on `folder`.
pub fn is_ours(folder: &Path) -> io::Result<bool> {
    Ok(!connections(folder)?.is_empty())
}

/// Returns the connection of each of our mounts on `folder`: the minor number of its device, whose
/// major number is 0.
fn connections(folder: &Path) -> io::Result<Vec<String>> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().filter_map(|line| read_connection(line, folder)).collect())
}

/// Returns the connection of a line of the mount table, None unless it is one of our mounts on
/// `folder`.
fn read_connection(line: &str, folder: &Path) -> Option<String> {
    let (before, after) = line.split_once(" - ")?;
    let (mut fields, kind) = (before.split(' ').skip(2), after.split(' ').next()?);
    let (device, place) = (fields.next()?, fields.nth(1)?);
    let is_ours = Some(unescape(place).as_str()) == folder.to_str() && (kind == "fuse" || kind == format!("fuse.{SOURCE}"));
    is_ours.then(|| device.split_once(':').map(|(_, minor)| minor.to_string())).flatten()
}

/// Reads a path of a mount table, in which the kernel writes space, tab, newline and backslash as
/// octal.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}
