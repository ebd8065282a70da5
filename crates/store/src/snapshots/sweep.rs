//! Deletes a snapshot of a chain, and what nothing refers to.

use super::manifest::{self, Manifest};
use super::segment;
use crate::objects::{check_part, Objects};
use std::collections::{BTreeSet, HashSet};
use std::io;

/// Returns the objects that only the deleted snapshot refers to: what goes when it is deleted.
/// `others` are the segments of all other snapshots of the store, and those of the parents of
/// uploads under way.
pub fn unreferenced<'a>(deleted: &[String], others: impl IntoIterator<Item = &'a [String]>) -> Vec<String> {
    let mut alone: BTreeSet<&str> = deleted.iter().map(String::as_str).collect();
    for segment in others.into_iter().flatten() {
        alone.remove(segment.as_str());
    }
    alone.into_iter().map(str::to_string).collect()
}

/// Deletes a snapshot. `others` are all snapshots that may share blocks with it: those of the same
/// volume, of volumes made of its snapshots, and so on; all others of the store will do. No upload
/// that has it as its parent may be under way. Returns the number of objects removed.
///
/// The manifest goes first: when this ends early, the rest is found by [`sweep`].
pub fn delete_snapshot(objects: &Objects, name: &str, others: &[String]) -> io::Result<usize> {
    let segments = match Manifest::segments_of(objects, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        segments => segments?,
    };
    let references: Vec<Vec<String>> =
        others.iter().filter(|other| *other != name).map(|other| Manifest::segments_of(objects, other)).collect::<io::Result<_>>()?;
    let gone = unreferenced(&segments, references.iter().map(Vec::as_slice));
    objects.delete(&manifest::object_of(name))?;
    gone.iter().try_for_each(|segment| objects.delete(segment))?;
    Ok(gone.len())
}

/// Removes what an upload stored that will not go on; its manifest, too, which may be there when
/// the last answer of the store was lost.
pub fn forget_upload(objects: &Objects, name: &str) -> io::Result<()> {
    check_part(name)?;
    objects.delete(&manifest::object_of(name))?;
    objects.list(&segment::folder_of(name))?.iter().try_for_each(|listed| objects.delete(&listed.name))
}

/// Removes every segment that no snapshot refers to, except those of the uploads in `pending`.
/// Returns the number of segments removed. When a manifest cannot be read, nothing is removed: it
/// may refer to any of them.
pub fn sweep(objects: &Objects, pending: &[String]) -> io::Result<usize> {
    let segments = objects.list("segments/")?;
    let mut referenced = HashSet::new();
    for listed in objects.list("manifests/")? {
        let name = listed.name.trim_start_matches("manifests/");
        referenced.extend(Manifest::segments_of(objects, name)?);
    }
    let is_pending = |name: &str| name.split('/').nth(1).is_some_and(|owner| pending.iter().any(|pending| pending == owner));
    let gone: Vec<_> = segments.iter().filter(|listed| !referenced.contains(&listed.name) && !is_pending(&listed.name)).collect();
    gone.iter().try_for_each(|listed| objects.delete(&listed.name))?;
    Ok(gone.len())
}
