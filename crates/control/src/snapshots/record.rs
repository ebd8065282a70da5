//! Records of snapshots in the lab. No rule is here, only what follows from a state.

use crate::ids::{SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a snapshot, with EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    /// The blocks are on their way to the object store.
    Pending,
    /// Every block is in the object store.
    Completed,
    /// The snapshot cannot be used; it can be deleted.
    Error,
}

impl SnapshotState {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            SnapshotState::Pending => "pending",
            SnapshotState::Completed => "completed",
            SnapshotState::Error => "error",
        }
    }
}

/// Source of the blocks of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotSource {
    /// A volume, as it was when the snapshot was asked for.
    Volume,
    /// Another snapshot, in this lab or in the object store of another one.
    Copy {
        /// URL of the other object store; None for this lab's own.
        #[serde(default)]
        store: Option<String>,
        /// The snapshot that is copied.
        snapshot: SnapshotId,
        /// The data key under which it is encrypted there, wrapped under a key of this lab.
        #[serde(default)]
        key: Option<SnapshotKey>,
    },
    /// The callers of the EBS direct API, block by block.
    Direct {
        /// The snapshot that has the blocks which are not put.
        #[serde(default)]
        parent: Option<SnapshotId>,
    },
}

/// The data key under which the blocks are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotKey {
    /// Id of the KMS key that wraps the data key.
    pub key: String,
    /// The data key, wrapped, in base64.
    pub wrapped: String,
    /// Id of the volume or snapshot for which it was wrapped: its encryption context.
    pub context: String,
}

/// A snapshot at its birth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSnapshot {
    /// The volume; none for a copy and for one made by the EBS direct API.
    #[serde(default)]
    pub volume: Option<VolumeId>,
    /// Size of the volume when the snapshot was asked for, GiB.
    pub size_gib: u64,
    /// Name of the chain: only members of one chain share stored blocks.
    pub chain: String,
    /// Source of its blocks.
    pub source: SnapshotSource,
    /// Description.
    #[serde(default)]
    pub description: String,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Data key of its blocks; None if they are not encrypted.
    #[serde(default)]
    pub encryption: Option<SnapshotKey>,
    /// The schedule that asked for it.
    #[serde(default)]
    pub schedule: Option<String>,
}

/// Mode of a lock, with EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockMode {
    /// A lock that may be shortened and taken away.
    Governance,
    /// A lock that may only be extended once its cooling-off period is over.
    Compliance,
}

impl LockMode {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            LockMode::Governance => "governance",
            LockMode::Compliance => "compliance",
        }
    }
}

/// A lock against deletion. Times are lab time in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLock {
    /// Mode of the lock.
    pub mode: LockMode,
    /// Time at which the lock was set.
    pub created_ms: u64,
    /// Time at which the lock ends.
    pub expires_ms: u64,
    /// End of the cooling-off period, where one was asked for.
    #[serde(default)]
    pub cool_off_until_ms: Option<u64>,
    /// The cooling-off period as it was asked for, hours.
    #[serde(default)]
    pub cool_off_hours: Option<u32>,
}

impl SnapshotLock {
    /// Returns EC2's name of the state: governance, compliance-cooloff, compliance or expired.
    pub fn state(&self, now_ms: u64) -> &'static str {
        match self.mode {
            _ if now_ms >= self.expires_ms => "expired",
            LockMode::Governance => "governance",
            LockMode::Compliance if self.cool_off_until_ms.is_some_and(|until| now_ms < until) => "compliance-cooloff",
            LockMode::Compliance => "compliance",
        }
    }

    /// Returns true if the lock forbids deletion at this lab time.
    pub fn holds(&self, now_ms: u64) -> bool {
        now_ms < self.expires_ms
    }
}

/// A snapshot. Times are lab time in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    /// Id.
    pub id: SnapshotId,
    /// Properties that it was made with; tags and description may change later.
    #[serde(flatten)]
    pub properties: NewSnapshot,
    /// Time of the request: the instant of its data.
    pub started_ms: u64,
    /// State of the snapshot.
    pub state: SnapshotState,
    /// Progress of storing it, percent.
    #[serde(default)]
    pub progress_percent: u8,
    /// Time of its completion.
    #[serde(default)]
    pub completed_ms: Option<u64>,
    /// Reason of the state `error`; for a pending snapshot the thing it waits for, if any.
    #[serde(default)]
    pub error: Option<String>,
    /// The earlier snapshot whose stored blocks it uses.
    #[serde(default)]
    pub parent: Option<SnapshotId>,
    /// Bytes that were stored for it.
    #[serde(default)]
    pub stored_bytes: u64,
    /// Bytes of all blocks that a volume made from it gets.
    #[serde(default)]
    pub full_bytes: u64,
    /// Lock against deletion.
    #[serde(default)]
    pub lock: Option<SnapshotLock>,
    /// Accounts that may make volumes from it.
    #[serde(default)]
    pub shared_with: Vec<String>,
}

impl SnapshotRecord {
    /// Makes the record of a pending snapshot that began at the lab time `started_ms`, Unix
    /// milliseconds.
    pub(crate) fn new(id: SnapshotId, properties: NewSnapshot, started_ms: u64) -> SnapshotRecord {
        SnapshotRecord {
            id,
            properties,
            started_ms,
            state: SnapshotState::Pending,
            progress_percent: 0,
            completed_ms: None,
            error: None,
            parent: None,
            stored_bytes: 0,
            full_bytes: 0,
            lock: None,
            shared_with: Vec::new(),
        }
    }

    /// Returns true if it is locked at this lab time.
    pub fn is_locked(&self, now_ms: u64) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.holds(now_ms))
    }
}

/// A snapshot in the recycle bin: lab times, Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binned {
    /// Time of its deletion.
    pub entered_ms: u64,
    /// Time at which it leaves the bin for good.
    pub exit_ms: u64,
    /// The retention rule that keeps it.
    pub rule: String,
}

/// Origin of a volume that was made from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeOrigin {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Chain of the snapshot.
    pub chain: String,
    /// Size of the snapshot, GiB.
    pub size_gib: u64,
    /// Provisioned initialization rate, MiB/s; None if blocks load on first touch alone.
    #[serde(default)]
    pub initialization_mib_s: Option<u64>,
    /// Data key of the snapshot's blocks; None if they are not encrypted.
    #[serde(default)]
    pub encryption: Option<SnapshotKey>,
    /// True if it was made with a credit of fast snapshot restore: first touch costs nothing then.
    #[serde(default)]
    pub fast: bool,
    /// True if every block is in the volume's own files.
    #[serde(default)]
    pub loaded: bool,
}

/// State of fast restore, with EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // EC2's names
pub enum FastRestoreState {
    Enabling,
    Optimizing,
    Enabled,
    Disabling,
    Disabled,
}

impl FastRestoreState {
    /// Returns EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            FastRestoreState::Enabling => "enabling",
            FastRestoreState::Optimizing => "optimizing",
            FastRestoreState::Enabled => "enabled",
            FastRestoreState::Disabling => "disabling",
            FastRestoreState::Disabled => "disabled",
        }
    }
}

/// Fast restore of a snapshot in a zone. Times are lab time in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastRestore {
    /// State of fast restore.
    pub state: FastRestoreState,
    /// Size of the snapshot, GiB.
    pub size_gib: u64,
    /// Time at which it entered its state.
    pub since_ms: u64,
    /// Times at which it entered `enabling`, `optimizing`, `enabled`, `disabling` and `disabled`
    /// last.
    #[serde(default)]
    pub entered_ms: [Option<u64>; 5],
    /// Credits in millionths, at `credits_at_ms`.
    #[serde(default)]
    pub credits_millionths: u64,
    /// Time at which the credits were counted.
    #[serde(default)]
    pub credits_at_ms: u64,
}

/// A rule of the recycle bin: keeps deleted snapshots for some days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionRule {
    /// Unique name.
    pub name: String,
    /// Time that deleted snapshots are kept, days.
    pub days: u32,
    /// Tags of the snapshots, one of which they have; empty for all snapshots.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Description.
    #[serde(default)]
    pub description: String,
}

/// A schedule. Times are lab time in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Unique name.
    pub name: String,
    /// Volumes with one of these tags.
    pub target_tags: BTreeMap<String, String>,
    /// Seconds of lab time between two runs.
    pub interval_s: u64,
    /// Snapshots of each volume that are kept; None if they are kept by age.
    #[serde(default)]
    pub keep: Option<u32>,
    /// Days that snapshots are kept; None if they are kept by count.
    #[serde(default)]
    pub keep_days: Option<u32>,
    /// Tags of its snapshots.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// True if its snapshots also get the tags of their volumes.
    #[serde(default)]
    pub copy_tags: bool,
    /// True if the schedule is in force.
    pub enabled: bool,
    /// Time of its next run.
    pub next_ms: u64,
    /// Time of its last run.
    #[serde(default)]
    pub last_ms: Option<u64>,
}
