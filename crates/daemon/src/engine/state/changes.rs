//! Volumes or snapshots that changed since a version that a caller has, so that a caller with a
//! copy asks for the changes only.
//!
//! A version counts the changes of this run of the daemon. It is raised where a change is written
//! down and applied, under the same lock, so that what is read under that lock is of that version.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Changes that are kept: at most one of each volume there is, twice as many as a lab has volumes
/// for those that are gone. A caller whose version is older gets everything anew.
const MOST: usize = 2 * headrace_control::MAX_VOLUMES;

/// Last change of each volume or snapshot, by version.
pub(crate) struct Changes<Id> {
    /// Tells this run's versions from those of another.
    run: u64,
    version: u64,
    /// The oldest version from which on every change is known.
    oldest: u64,
    by_version: BTreeMap<u64, Id>,
    last: HashMap<Id, u64>,
}

impl<Id: Clone + Eq + Hash> Changes<Id> {
    /// Makes the record of a run in which nothing has changed yet. `run` is a random number.
    pub(crate) fn new(run: u64) -> Changes<Id> {
        Changes { run, version: 0, oldest: 0, by_version: BTreeMap::new(), last: HashMap::new() }
    }

    /// Notes that a volume or snapshot changed, begins to exist, or is gone.
    pub(crate) fn note(&mut self, id: &Id) {
        self.version += 1;
        if let Some(before) = self.last.insert(id.clone(), self.version) {
            self.by_version.remove(&before);
        }
        self.by_version.insert(self.version, id.clone());
        if self.by_version.len() > MOST {
            if let Some((version, id)) = self.by_version.pop_first() {
                self.oldest = version;
                self.last.remove(&id);
            }
        }
    }

    /// Notes that all may have changed.
    pub(crate) fn note_all(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.by_version.clear();
        self.last.clear();
    }

    /// Returns the current version.
    pub(crate) fn version(&self) -> String {
        format!("{:016x}-{}", self.run, self.version)
    }

    /// Returns the ids that changed since a version; None if their changes are not kept any more,
    /// or the version is not of this run.
    pub(crate) fn since(&self, version: &str) -> Option<Vec<&Id>> {
        let (run, number) = version.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let valid = u64::from_str_radix(run, 16) == Ok(self.run) && (self.oldest..=self.version).contains(&number);
        valid.then(|| self.by_version.range(number + 1..).map(|(_, id)| id).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A caller that applies the changes it is told has the rows that are there.
        #[test]
        fn who_asks_now_and_then_has_what_is_there(steps in prop::collection::vec((0..40u32, any::<bool>(), 0..8u8), 1..300)) {
            let mut changes = Changes::new(7);
            let mut there: BTreeMap<u32, usize> = BTreeMap::new();
            let mut callers = vec![(None::<String>, BTreeMap::new()); 3];
            for (step, (id, gone, then)) in steps.into_iter().enumerate() {
                if gone { there.remove(&id) } else { there.insert(id, step) };
                if then == 7 { changes.note_all() } else { changes.note(&id) }
                let Some((version, copy)) = callers.get_mut(usize::from(then)) else { continue };
                match version.as_deref().and_then(|version| changes.since(version)) {
                    None => copy.clone_from(&there),
                    Some(changed) => changed.into_iter().for_each(|id| match there.get(id) {
                        Some(is) => drop(copy.insert(*id, *is)),
                        None => drop(copy.remove(id)),
                    }),
                }
                *version = Some(changes.version());
                prop_assert_eq!(&*copy, &there);
                prop_assert_eq!(changes.since(&changes.version()), Some(Vec::new()));
            }
        }
    }

    #[test]
    fn versions_of_others_and_those_forgotten_are_not_known() {
        let mut changes = Changes::new(0xabc);
        let first = changes.version();
        changes.note(&0);
        assert_eq!(changes.since(&first), Some(vec![&0]));
        for version in ["", "-", "abc", "0000000000000abc-", "0000000000000abd-0", "0000000000000abc-2", "0000000000000abc--1"] {
            assert_eq!(changes.since(version), None, "{version:?}");
        }
        let second = changes.version();
        (1..=MOST as u32).for_each(|id| changes.note(&id));
        assert_eq!(changes.since(&first), None);
        assert_eq!(changes.since(&second).map(|changed| changed.len()), Some(MOST));
        assert_eq!((changes.by_version.len(), changes.last.len()), (MOST, MOST));
        changes.note(&5);
        assert_eq!(changes.by_version.len(), MOST);
        changes.note_all();
        assert_eq!(changes.since(&second), None);
    }
}
