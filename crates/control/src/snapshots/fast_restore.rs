//! Fast snapshot restore: states by zone, and the credits that volumes take (EBS user guide, fast
//! snapshot restore).

use crate::error::{ControlError, ErrorKind};
use crate::event::{Change, Event};
use crate::ids::SnapshotId;
use crate::snapshots::messages::SnapshotChange;
use crate::snapshots::record::{FastRestore, FastRestoreState, SnapshotRecord};
use crate::snapshots::registry::{check_completed, refusal, Snapshots};
use crate::state::Lab;

/// Snapshots with fast restore at once in a region (EBS quotas).
const MOST_SNAPSHOTS: usize = 5;
/// Largest snapshot, GiB (EBS user guide: 16 TiB).
const MOST_GIB: u64 = 16_384;
/// Time in `optimizing`: 60 minutes a TiB (EBS user guide).
const OPTIMIZING_MS_PER_GIB: u64 = 3_600_000 / 1_024;
/// Time in `enabling` and in `disabling`: not published, a guess.
const STEP_MS: u64 = 1_000;
/// Most credits of a bucket, and most an hour (EBS user guide).
const MOST_CREDITS: u64 = 10;
/// GiB of a snapshot whose bucket holds one credit and earns one an hour (EBS user guide: 1,024 GiB
/// divided by the size).
const GIB_PER_CREDIT: u64 = 1_024;
/// Credits are kept in millionths.
const MILLIONTHS: u64 = 1_000_000;
/// Milliseconds in an hour.
const HOUR_MS: u64 = 3_600_000;

impl FastRestore {
    fn new(size_gib: u64, at_ms: u64) -> FastRestore {
        let empty =
            FastRestore { state: FastRestoreState::Enabling, size_gib, since_ms: at_ms, entered_ms: [None; 5], credits_millionths: 0, credits_at_ms: at_ms };
        empty.enter(FastRestoreState::Enabling, at_ms)
    }

    /// Returns the fast restore after it entered a state at `at_ms`; its bucket is full when it is
    /// enabled.
    fn enter(&self, state: FastRestoreState, at_ms: u64) -> FastRestore {
        let mut after = FastRestore { state, since_ms: at_ms, ..self.clone() };
        after.entered_ms[state as usize] = Some(at_ms);
        if state == FastRestoreState::Enabled {
            // A full bucket at the beginning is a guess: AWS does not publish it.
            (after.credits_millionths, after.credits_at_ms) = (self.capacity() * MILLIONTHS, at_ms);
        }
        after
    }

    /// Returns the most credits of its bucket.
    pub fn capacity(&self) -> u64 {
        (GIB_PER_CREDIT / self.size_gib.max(1)).clamp(1, MOST_CREDITS)
    }

    /// Returns the credits at a lab time (Unix milliseconds), in millionths: those that were
    /// counted last and those earned since, up to a full bucket.
    pub fn credits_millionths(&self, now_ms: u64) -> u64 {
        let earned_per_hour = (GIB_PER_CREDIT * MILLIONTHS / self.size_gib.max(1)).min(MOST_CREDITS * MILLIONTHS);
        let earned = u128::from(now_ms.saturating_sub(self.credits_at_ms)) * u128::from(earned_per_hour) / u128::from(HOUR_MS);
        let full = self.capacity() * MILLIONTHS;
        u64::try_from(earned).unwrap_or(full).saturating_add(self.credits_millionths).min(full)
    }

    /// Returns the lab time at which its next state begins, Unix milliseconds; None without one.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self.state {
            FastRestoreState::Enabling | FastRestoreState::Disabling => Some(self.since_ms + STEP_MS),
            FastRestoreState::Optimizing => Some(self.since_ms + self.size_gib * OPTIMIZING_MS_PER_GIB),
            FastRestoreState::Enabled | FastRestoreState::Disabled => None,
        }
    }

    fn next_state(&self) -> FastRestoreState {
        match self.state {
            FastRestoreState::Enabling => FastRestoreState::Optimizing,
            FastRestoreState::Optimizing | FastRestoreState::Enabled => FastRestoreState::Enabled,
            FastRestoreState::Disabling | FastRestoreState::Disabled => FastRestoreState::Disabled,
        }
    }
}

/// Makes the change that gives a snapshot this fast restore in a zone.
fn describe_restore(snapshot: &SnapshotId, zone: &str, fast: FastRestore) -> SnapshotChange {
    SnapshotChange::FastRestoreSet { snapshot: snapshot.clone(), zone: zone.to_string(), fast: Some(fast) }
}

/// Checks that a zone is the one of the lab.
fn check_zone(lab: &Lab, zone: &str) -> Result<(), ControlError> {
    if zone == lab.settings.zone() {
        return Ok(());
    }
    let message = format!("The zone '{zone}' does not exist.");
    let hint = format!("The lab has one zone: {}.", lab.settings.zone());
    Err(refusal(ErrorKind::InvalidParameter, "InvalidZone.NotFound", message, zone, hint))
}

fn find_restore<'a>(all: &'a Snapshots, snapshot: &SnapshotId, zone: &str) -> Option<&'a FastRestore> {
    all.fast.get(snapshot)?.get(zone)
}

/// Decides that fast restore of a completed snapshot begins in a zone, for up to [`MOST_SNAPSHOTS`]
/// snapshots at once; no change where it is on already.
pub(crate) fn enable(lab: &Lab, record: &SnapshotRecord, zone: &str, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    check_zone(lab, zone)?;
    check_completed(record)?;
    let all = &lab.snapshots;
    if find_restore(all, &record.id, zone).is_some_and(|fast| fast.next_state() == FastRestoreState::Enabled || fast.state == FastRestoreState::Enabling) {
        return Ok(Vec::new());
    }
    if record.properties.size_gib > MOST_GIB {
        let message = format!("Fast snapshot restore is for snapshots of at most {MOST_GIB} GiB.");
        return Err(refusal(ErrorKind::Unsupported, "InvalidParameterValue", message, record.id.as_str(), "Restore it with an initialization rate."));
    }
    let active = all.fast.values().filter(|zones| zones.values().any(|fast| fast.state != FastRestoreState::Disabled)).count();
    if active >= MOST_SNAPSHOTS {
        let message = format!("Fast snapshot restore is enabled for {MOST_SNAPSHOTS} snapshots, which is the limit of a region.");
        return Err(refusal(ErrorKind::LimitExceeded, "FastSnapshotRestoreLimitExceeded", message, record.id.as_str(), "Disable it for another snapshot."));
    }
    Ok(vec![describe_restore(&record.id, zone, FastRestore::new(record.properties.size_gib, at_ms))])
}

/// Decides that fast restore of a snapshot ends in a zone; no change where it has ended already.
pub(crate) fn disable(lab: &Lab, record: &SnapshotRecord, zone: &str, at_ms: u64) -> Result<Vec<SnapshotChange>, ControlError> {
    check_zone(lab, zone)?;
    match find_restore(&lab.snapshots, &record.id, zone) {
        Some(fast) if !matches!(fast.state, FastRestoreState::Disabling | FastRestoreState::Disabled) => {
            Ok(vec![describe_restore(&record.id, zone, fast.enter(FastRestoreState::Disabling, at_ms))])
        }
        Some(_) => Ok(Vec::new()),
        None => {
            let message = format!("Fast snapshot restore is not enabled for '{}' in {zone}.", record.id);
            Err(refusal(ErrorKind::IncorrectState, "InvalidFastSnapshotRestoreState", message, record.id.as_str(), "Enable it first."))
        }
    }
}

/// Takes a credit, if fast restore is enabled there and the bucket holds one.
pub(crate) fn take_credit(all: &Snapshots, record: &SnapshotRecord, zone: &str, at_ms: u64) -> Option<SnapshotChange> {
    let fast = find_restore(all, &record.id, zone).filter(|fast| fast.state == FastRestoreState::Enabled)?;
    let remainder = fast.credits_millionths(at_ms).checked_sub(MILLIONTHS)?;
    Some(describe_restore(&record.id, zone, FastRestore { credits_millionths: remainder, credits_at_ms: at_ms, ..fast.clone() }))
}

/// Returns the steps of fast restores that are due. `now_ms`: lab time, Unix milliseconds; a step
/// that is due then is included.
pub(crate) fn due(all: &Snapshots, now_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for (snapshot, zones) in &all.fast {
        for (zone, fast) in zones {
            let mut fast = fast.clone();
            while let Some(at_ms) = fast.next_ms().filter(|&at_ms| at_ms <= now_ms) {
                fast = fast.enter(fast.next_state(), at_ms);
                events.push(Event { at_ms, change: Change::Snapshot(describe_restore(snapshot, zone, fast.clone())) });
            }
        }
    }
    events
}
