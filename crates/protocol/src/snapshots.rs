//! Arguments and answers of calls about snapshots.

use crate::message::message;
use std::collections::BTreeMap;

message! {
    /// A snapshot.
    #[serde(deny_unknown_fields)]
    pub struct OneSnapshot {
        /// Id.
        pub snapshot: String;
    }
}

message! {
    /// A snapshot of a volume.
    #[serde(deny_unknown_fields)]
    pub struct CreateSnapshot {
        /// Id or unique name of the volume.
        pub volume: String;
        /// Description, at most 255 characters.
        pub description: Option<String> = "none";
        /// Tags: at most 50, keys up to 128 and values up to 256 characters.
        pub tags: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// Snapshots of several volumes, all of one instant.
    #[serde(deny_unknown_fields)]
    pub struct CreateSnapshots {
        /// Ids or unique names of the volumes.
        pub volumes: Vec<String>;
        /// Description, at most 255 characters.
        pub description: Option<String> = "none";
        /// Tags of each.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// True if each also gets the tags of its volume.
        pub copy_tags: Option<bool> = "false";
    }
}

message! {
    /// Filter of the list of snapshots.
    #[serde(deny_unknown_fields)]
    pub struct ListSnapshots {
        /// Ids.
        pub snapshots: Option<Vec<String>> = "all";
        /// Id or unique name of their volume, which may be gone by now.
        pub volume: Option<String> = "any";
        /// `pending`, `completed` or `error`.
        pub state: Option<String> = "any";
        /// True for snapshots in the recycle bin, in place of all others.
        pub bin: Option<bool> = "false";
        /// Id after which the list goes on.
        pub after: Option<String> = "the first";
        /// Most items of an answer.
        pub limit: Option<usize> = "1000";
    }
}

message! {
    /// A copy of a snapshot.
    #[serde(deny_unknown_fields)]
    pub struct CopySnapshot {
        /// Id.
        pub snapshot: String;
        /// Store of the source: URL of an object store, or `lab:///FOLDER`, another lab's data
        /// directory.
        pub store: Option<String> = "that of the region";
        /// Region that has it: this lab's, or one whose object store is known.
        pub region: Option<String> = "this lab's";
        /// True to encrypt it; a copy of an encrypted snapshot always is.
        pub encrypted: Option<bool> = "as the source";
        /// Id, ARN or alias of the key that wraps its data key.
        pub kms_key: Option<String> = "that of the source, or the default";
        /// Description, at most 255 characters.
        pub description: Option<String> = "that of the source";
        /// Tags.
        pub tags: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// The object store of another region: another lab's.
    #[serde(deny_unknown_fields)]
    pub struct SetRegion {
        /// Name, like eu-west-1.
        pub region: String;
        /// URL: file:///FOLDER or s3://BUCKET/PREFIX; or `lab:///FOLDER`, the data directory of a
        /// lab of this machine, which also has the keys of its encrypted snapshots.
        pub store: Option<String> = "the region is forgotten";
    }
}

message! {
    /// Facts that another lab needs for a copy of a snapshot.
    pub struct SnapshotOffer {
        /// URL of the object store that has it.
        pub store: String;
        /// ARN of the key that wraps its data key; null if it is not encrypted.
        pub kms_key: Option<String>;
        /// Data key of the snapshot, wrapped, in base64; null if it is not encrypted.
        pub wrapped: Option<String>;
        /// Encryption context of the wrapped data key: its `aws:ebs:id`.
        pub context: Option<String>;
    }
}

message! {
    /// Object stores of other regions.
    pub struct Regions {
        /// URLs by region.
        pub regions: BTreeMap<String, String>;
    }
}

message! {
    /// Accounts that may make volumes from a snapshot.
    #[serde(deny_unknown_fields)]
    pub struct ShareSnapshot {
        /// Id.
        pub snapshot: String;
        /// Account ids to add, of 12 digits each.
        pub add: Option<Vec<String>> = "none";
        /// Account ids to remove, before adding.
        pub remove: Option<Vec<String>> = "none";
    }
}

message! {
    /// A lock against deletion.
    #[serde(deny_unknown_fields)]
    pub struct LockSnapshot {
        /// Id.
        pub snapshot: String;
        /// `governance` or `compliance`.
        pub mode: String;
        /// Duration of the lock, days, 1 to 36,500; either this or `expires_at`.
        pub duration_days: Option<u32> = "none";
        /// End of the lock, lab time, ISO 8601.
        pub expires_at: Option<String> = "none";
        /// Hours in which a lock in compliance mode can be taken away: 1 to 72.
        pub cool_off_hours: Option<u32> = "none";
    }
}

message! {
    /// Fast snapshot restore on or off.
    #[serde(deny_unknown_fields)]
    pub struct SetFastRestore {
        /// Ids.
        pub snapshots: Vec<String>;
        /// True for on, false for off.
        pub enable: bool;
        /// Availability zones; the lab has one.
        pub zones: Option<Vec<String>> = "the lab's";
    }
}

message! {
    /// A rule that keeps deleted snapshots in the recycle bin.
    #[serde(deny_unknown_fields)]
    pub struct RetentionRuleView {
        /// Unique name; a rule of that name is replaced.
        pub name: String;
        /// Days that deleted snapshots are kept, 1 to 365.
        pub days: u32;
        /// Snapshots with one of these tags.
        pub tags: Option<BTreeMap<String, String>> = "all snapshots";
        /// Description.
        pub description: Option<String> = "none";
    }
}

message! {
    /// The name of a retention rule or of a schedule.
    #[serde(deny_unknown_fields)]
    pub struct OneName {
        /// Name.
        pub name: String;
    }
}

message! {
    /// A schedule: snapshots of tagged volumes, and how long they are kept.
    #[serde(deny_unknown_fields)]
    pub struct SetSchedule {
        /// Unique name; a schedule of that name is replaced.
        pub name: String;
        /// Seconds of lab time between two runs, 60 or more.
        pub interval_s: u64;
        /// Volumes with one of these tags.
        pub target_tags: Option<BTreeMap<String, String>> = "refused: name one at least";
        /// Snapshots of each volume that are kept, 1 to 1,000; either this or `keep_days`.
        pub keep: Option<u32> = "none";
        /// Days that snapshots are kept.
        pub keep_days: Option<u32> = "none";
        /// Tags of its snapshots.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// True if its snapshots also get the tags of their volumes.
        pub copy_tags: Option<bool> = "false";
        /// True if the schedule does not run.
        pub disabled: Option<bool> = "false";
    }
}

message! {
    /// Blocks of a snapshot.
    #[serde(deny_unknown_fields)]
    pub struct ListBlocks {
        /// Id.
        pub snapshot: String;
        /// An earlier snapshot: only blocks that differ from it.
        pub since: Option<String> = "every block";
        /// First index.
        pub start: Option<u64> = "0";
        /// Most blocks of an answer, up to 10,000.
        pub limit: Option<usize> = "1000";
    }
}

message! {
    /// A block of a snapshot.
    #[serde(deny_unknown_fields)]
    pub struct GetBlock {
        /// Id.
        pub snapshot: String;
        /// Index, in blocks of 512 KiB.
        pub block: u64;
        /// Token of the block, as listed.
        pub block_token: Option<String> = "not checked";
    }
}

message! {
    /// A snapshot that is put block by block.
    #[serde(deny_unknown_fields)]
    pub struct StartSnapshot {
        /// Size, GiB.
        pub size_gib: u64;
        /// The snapshot that has the blocks which are not put.
        pub parent: Option<String> = "none: they are zeros";
        /// Description, at most 255 characters.
        pub description: Option<String> = "none";
        /// Tags.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// True to encrypt it. Refused with a parent: it is encrypted as its parent is.
        pub encrypted: Option<bool> = "as encryption by default says";
        /// Id, ARN or alias of the key.
        pub kms_key: Option<String> = "the default key";
    }
}

message! {
    /// A block that is put.
    #[serde(deny_unknown_fields)]
    pub struct PutBlock {
        /// Id.
        pub snapshot: String;
        /// Index, in blocks of 512 KiB.
        pub block: u64;
        /// The 512 KiB of the block in base64.
        pub data: String;
        /// SHA-256 of the bytes in base64.
        pub checksum: String;
    }
}

message! {
    /// The end of a snapshot that is put block by block.
    #[serde(deny_unknown_fields)]
    pub struct FinishSnapshot {
        /// Id.
        pub snapshot: String;
        /// Number of blocks that were put.
        pub changed_blocks: u64;
        /// SHA-256 in base64 of the blocks' checksums, in order of their index.
        pub checksum: Option<String> = "not checked";
    }
}

message! {
    /// Blocks of a volume that are still in its snapshot.
    #[serde(deny_unknown_fields)]
    pub struct ListCold {
        /// Id or unique name.
        pub volume: String;
        /// First index.
        pub start: Option<u64> = "0";
        /// Most items of an answer.
        pub limit: Option<usize> = "10000";
    }
}

message! {
    /// A lock against deletion. Times are lab time.
    pub struct LockView {
        /// `governance`, `compliance-cooloff`, `compliance` or `expired`.
        pub state: String;
        /// `governance` or `compliance`.
        pub mode: String;
        /// Time at which it was set.
        pub created_at: String;
        /// Time at which it ends.
        pub expires_at: String;
        /// Whole days from its beginning to its end.
        pub duration_days: u64;
        /// The cooling-off period as it was asked for; null without one.
        pub cool_off_hours: Option<u32>;
        /// End of the cooling-off period; null without one.
        pub cool_off_until: Option<String>;
    }
}

message! {
    /// A stay in the recycle bin. Times are lab time.
    pub struct BinView {
        /// Time of the snapshot's deletion.
        pub entered_at: String;
        /// Time at which it leaves the bin for good.
        pub exit_at: String;
        /// The rule that keeps it.
        pub rule: String;
    }
}

message! {
    /// The blocks of a snapshot.
    pub struct SnapshotBlocksView {
        /// Bytes of blocks that were stored for it.
        pub stored_bytes: u64;
        /// Bytes of all its blocks.
        pub full_bytes: u64;
    }
}

message! {
    /// A snapshot. Times are lab time.
    pub struct SnapshotView with SnapshotBlocksView LockView BinView {
        /// Id.
        pub id: String;
        /// Id of the volume; null for a copy, and for a snapshot that was put block by block.
        pub volume: Option<String>;
        /// Size of the volume at the instant, GiB.
        pub size_gib: u64;
        /// `pending`, `completed` or `error`.
        pub state: String;
        /// Reason of the state error; null in other states.
        pub error: Option<String>;
        /// Progress of storing it.
        pub progress_percent: u8;
        /// Time of the request: the instant of its data.
        pub started_at: String;
        /// Time at which everything was stored; null until then.
        pub completed_at: Option<String>;
        /// Description.
        pub description: String;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// True if its blocks are encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null if it is not encrypted.
        pub kms_key: Option<String>;
        /// `volume`, `copy` or `direct`.
        pub source: String;
        /// The snapshot that a copy was made from; null for others.
        pub copy_of: Option<String>;
        /// The earlier snapshot whose stored blocks it uses; null without one.
        pub parent: Option<String>;
        /// Blocks, in bytes.
        pub blocks: SnapshotBlocksView;
        /// Lock; null if it was never locked.
        pub lock: Option<LockView>;
        /// Accounts that may make volumes from it.
        pub shared_with: Vec<String>;
        /// Stay in the recycle bin; null if it is not in the bin.
        pub bin: Option<BinView>;
        /// The schedule that made it; null without one.
        pub schedule: Option<String>;
    }
}

message! {
    /// Snapshots in order of their ids.
    pub struct SnapshotList with SnapshotView {
        /// Snapshots.
        pub snapshots: Vec<SnapshotView>;
        /// Argument `after` of the next page; null on the last page.
        pub next: Option<String>;
    }
}

message! {
    /// Snapshots that changed since a version, or all.
    pub struct SnapshotChanges with SnapshotView {
        /// The version of this answer.
        pub version: String;
        /// True if these are all snapshots by id, in pages, which replace the caller's copy.
        pub whole: bool;
        /// Snapshots as they are now.
        pub snapshots: Vec<SnapshotView>;
        /// Ids of snapshots that are gone.
        pub gone: Vec<String>;
        /// The id after which the next page begins; null on the last page.
        pub next: Option<String>;
    }
}

message! {
    /// Fast snapshot restore in a zone. Times are lab time, and null if it was never in that state.
    pub struct FastRestoreView {
        /// Id of the snapshot.
        pub snapshot: String;
        /// Zone.
        pub zone: String;
        /// `enabling`, `optimizing`, `enabled`, `disabling` or `disabled`.
        pub state: String;
        /// Time of the request.
        pub enabling_at: Option<String>;
        /// Time at which optimizing began.
        pub optimizing_at: Option<String>;
        /// Time at which it was ready.
        pub enabled_at: Option<String>;
        /// Time at which it was switched off.
        pub disabling_at: Option<String>;
        /// Time at which it was gone.
        pub disabled_at: Option<String>;
        /// Volumes that can be made now without first touch.
        pub credits: f64;
        /// Most credits.
        pub credits_max: u64;
    }
}

message! {
    /// Fast snapshot restore that could not be switched.
    pub struct FastRestoreFailure {
        /// Id of the snapshot.
        pub snapshot: String;
        /// Zone.
        pub zone: String;
        /// Kind of the refusal.
        pub kind: String;
        /// AWS's error code.
        pub code: String;
        /// Reason, as AWS says it.
        pub message: String;
    }
}

message! {
    /// Fast snapshot restores.
    pub struct FastRestores with FastRestoreView FastRestoreFailure {
        /// Fast restores by snapshot and zone.
        pub fast_restores: Vec<FastRestoreView>;
        /// Snapshots and zones that were refused.
        pub failures: Vec<FastRestoreFailure>;
    }
}

message! {
    /// Retention rules of the recycle bin.
    pub struct RetentionRules with RetentionRuleView {
        /// Entries by name.
        pub rules: Vec<RetentionRuleView>;
    }
}

message! {
    /// A schedule. Times are lab time.
    pub struct ScheduleView {
        /// Name.
        pub name: String;
        /// Volumes with one of these tags.
        pub target_tags: BTreeMap<String, String>;
        /// Seconds of lab time between two runs.
        pub interval_s: u64;
        /// Snapshots of each volume that are kept; null if they are kept by age.
        pub keep: Option<u32>;
        /// Days that snapshots are kept; null if they are kept by count.
        pub keep_days: Option<u32>;
        /// Tags of its snapshots.
        pub tags: BTreeMap<String, String>;
        /// True if its snapshots also get the tags of their volumes.
        pub copy_tags: bool;
        /// True if the schedule is in force.
        pub enabled: bool;
        /// Time of its next run.
        pub next_at: String;
        /// Time of its last run; null if it never ran.
        pub last_at: Option<String>;
    }
}

message! {
    /// Schedules.
    pub struct Schedules with ScheduleView {
        /// Entries by name.
        pub schedules: Vec<ScheduleView>;
    }
}

message! {
    /// A block of a snapshot.
    pub struct BlockView {
        /// Index, in blocks of 512 KiB.
        pub block: u64;
        /// Token of the block; null if this snapshot does not have it.
        pub token: Option<String>;
        /// Token of the block in the earlier snapshot; null if that does not have it.
        pub since_token: Option<String>;
    }
}

message! {
    /// Blocks of a snapshot, in order of their index.
    pub struct Blocks with BlockView {
        /// Blocks.
        pub blocks: Vec<BlockView>;
        /// Argument `start` of the next page; null on the last page.
        pub next: Option<u64>;
        /// Size of the snapshot's volume, GiB.
        pub size_gib: u64;
        /// End of the tokens' validity, Unix seconds of the wall clock.
        pub tokens_until_s: u64;
    }
}

message! {
    /// The bytes of a block.
    pub struct BlockData {
        /// 512 KiB in base64.
        pub data: String;
        /// SHA-256 of the bytes in base64.
        pub checksum: String;
    }
}

message! {
    /// Blocks of a volume that are still in its snapshot.
    pub struct ColdBlocks {
        /// Indices, in blocks of 512 KiB, in order.
        pub blocks: Vec<u64>;
        /// Argument `start` of the next page; null on the last page.
        pub next: Option<u64>;
        /// Number of all such blocks.
        pub remaining: u64;
    }
}

message! {
    /// Progress of loading a volume from its snapshot.
    pub struct InitializationView {
        /// `initializing` or `completed`.
        pub state: String;
        /// `provisioned-rate`, or `default`: on first touch.
        pub r#type: String;
        /// Share of the snapshot's blocks that are loaded.
        pub progress_percent: f64;
        /// Blocks of 512 KiB that are not loaded yet.
        pub blocks_left: u64;
        /// Provisioned rate, MiB/s; null if blocks load on first touch alone.
        pub rate_mib_s: Option<u64>;
        /// Seconds until everything is loaded, at that rate; null if it is not known.
        pub remaining_s: Option<u64>;
        /// True if it was made with fast snapshot restore: first touch costs nothing.
        pub fast: bool;
    }
}
