//! What calls about snapshots are given, and what they answer.

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
        /// At most 255 characters.
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
        /// At most 255 characters.
        pub description: Option<String> = "none";
        /// Tags of each.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// Each also gets the tags of its volume.
        pub copy_tags: Option<bool> = "false";
    }
}

message! {
    /// Which snapshots are listed.
    #[serde(deny_unknown_fields)]
    pub struct ListSnapshots {
        /// Ids.
        pub snapshots: Option<Vec<String>> = "all";
        /// Id or unique name of their volume, which may be gone by now.
        pub volume: Option<String> = "any";
        /// `pending`, `completed` or `error`.
        pub state: Option<String> = "any";
        /// Those in the recycle bin, in place of all others.
        pub bin: Option<bool> = "false";
        /// Goes on after this id.
        pub after: Option<String> = "the first";
        /// Most that are answered.
        pub limit: Option<usize> = "1000";
    }
}

message! {
    /// A copy of a snapshot.
    #[serde(deny_unknown_fields)]
    pub struct CopySnapshot {
        /// Id.
        pub snapshot: String;
        /// Where it is: URL of an object store, or `lab:///FOLDER`, another lab's data directory.
        pub store: Option<String> = "that of the region";
        /// Region that has it: this lab's, or one whose object store is known.
        pub region: Option<String> = "this lab's";
        /// Encrypt it; a copy of an encrypted snapshot always is.
        pub encrypted: Option<bool> = "as the source";
        /// Id, ARN or alias of the key that wraps its data key.
        pub kms_key: Option<String> = "that of the source, or the default";
        /// At most 255 characters.
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
    /// What another lab needs for a copy of a snapshot.
    pub struct SnapshotOffer {
        /// URL of the object store that has it.
        pub store: String;
        /// ARN of the key that wraps its data key; null: it is not encrypted.
        pub kms_key: Option<String>;
        /// Its data key, wrapped, in base64.
        pub wrapped: Option<String>;
        /// Encryption context of that: its `aws:ebs:id`.
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
        /// 1 to 36,500; either this or `expires_at`.
        pub duration_days: Option<u32> = "none";
        /// Lab time, ISO 8601.
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
        /// On or off.
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
        /// How long, 1 to 365.
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
        /// Its snapshots also get the tags of their volumes.
        pub copy_tags: Option<bool> = "false";
        /// It does not run.
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
        /// Most that are answered, 10,000.
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
        /// Its token, as listed.
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
        /// At most 255 characters.
        pub description: Option<String> = "none";
        /// Tags.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// Whether it is encrypted. Refused with a parent: it is encrypted as its parent is.
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
        /// Its 512 KiB in base64.
        pub data: String;
        /// SHA-256 of its bytes in base64.
        pub checksum: String;
    }
}

message! {
    /// The end of a snapshot that is put block by block.
    #[serde(deny_unknown_fields)]
    pub struct FinishSnapshot {
        /// Id.
        pub snapshot: String;
        /// How many blocks were put.
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
        /// Most that are answered.
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
        /// When it was set.
        pub created_at: String;
        /// When it ends.
        pub expires_at: String;
        /// Whole days from its beginning to its end.
        pub duration_days: u64;
        /// The cooling-off period as it was asked for; null: none.
        pub cool_off_hours: Option<u32>;
        /// End of the cooling-off period; null: none.
        pub cool_off_until: Option<String>;
    }
}

message! {
    /// A stay in the recycle bin. Times are lab time.
    pub struct BinView {
        /// When the snapshot was deleted.
        pub entered_at: String;
        /// When it leaves the bin for good.
        pub exit_at: String;
        /// The rule that keeps it.
        pub rule: String;
    }
}

message! {
    /// A snapshot. Times are lab time.
    pub struct SnapshotView with LockView BinView {
        /// Id.
        pub id: String;
        /// The volume's id; null: a copy, or put block by block.
        pub volume: Option<String>;
        /// Size of the volume then.
        pub size_gib: u64;
        /// `pending`, `completed` or `error`.
        pub state: String;
        /// Why it is in state error.
        pub error: Option<String>;
        /// How much is stored.
        pub progress_percent: u8;
        /// When it was asked for: the instant of its data.
        pub started_at: String;
        /// When everything was stored; null: not yet.
        pub completed_at: Option<String>;
        /// Description.
        pub description: String;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Whether its blocks are encrypted.
        pub encrypted: bool;
        /// ARN of the key that wraps its data key; null: not encrypted.
        pub kms_key: Option<String>;
        /// `volume`, `copy` or `direct`.
        pub source: String;
        /// Of a copy: the snapshot it was made from.
        pub copy_of: Option<String>;
        /// The earlier snapshot whose stored blocks it uses; null: none.
        pub parent: Option<String>;
        /// Bytes of blocks that were stored for it.
        pub stored_bytes: u64;
        /// Bytes of all its blocks.
        pub full_bytes: u64;
        /// Lock; null: never locked.
        pub lock: Option<LockView>;
        /// Accounts that may make volumes from it.
        pub shared_with: Vec<String>;
        /// Recycle bin; null: not in it.
        pub bin: Option<BinView>;
        /// The schedule that made it; null: none.
        pub schedule: Option<String>;
    }
}

message! {
    /// Snapshots in order of their ids.
    pub struct SnapshotList with SnapshotView {
        /// Snapshots.
        pub snapshots: Vec<SnapshotView>;
        /// `after` of the next page; null: there are no more.
        pub next: Option<String>;
    }
}

message! {
    /// Snapshots that changed since a version, or all.
    pub struct SnapshotChanges with SnapshotView {
        /// The version that this is of.
        pub version: String;
        /// Whether these are all snapshots by id, in pages: what the caller knew does not count.
        pub whole: bool;
        /// Snapshots as they are now.
        pub snapshots: Vec<SnapshotView>;
        /// Ids of snapshots that are gone.
        pub gone: Vec<String>;
        /// The id after which the next page begins; null: there is none.
        pub next: Option<String>;
    }
}

message! {
    /// Fast snapshot restore in a zone. Times are lab time; null: never in that state.
    pub struct FastRestoreView {
        /// Id of the snapshot.
        pub snapshot: String;
        /// Zone.
        pub zone: String;
        /// `enabling`, `optimizing`, `enabled`, `disabling` or `disabled`.
        pub state: String;
        /// When it was asked for.
        pub enabling_at: Option<String>;
        /// When optimizing began.
        pub optimizing_at: Option<String>;
        /// When it was ready.
        pub enabled_at: Option<String>;
        /// When it was switched off.
        pub disabling_at: Option<String>;
        /// When it was gone.
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
        /// Why.
        pub message: String;
    }
}

message! {
    /// Fast snapshot restores.
    pub struct FastRestores with FastRestoreView FastRestoreFailure {
        /// By snapshot and zone.
        pub fast_restores: Vec<FastRestoreView>;
        /// What was refused.
        pub failures: Vec<FastRestoreFailure>;
    }
}

message! {
    /// Retention rules of the recycle bin.
    pub struct RetentionRules with RetentionRuleView {
        /// By name.
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
        /// Snapshots of each volume that are kept; null: by age.
        pub keep: Option<u32>;
        /// Days that snapshots are kept; null: by count.
        pub keep_days: Option<u32>;
        /// Tags of its snapshots.
        pub tags: BTreeMap<String, String>;
        /// Its snapshots also get the tags of their volumes.
        pub copy_tags: bool;
        /// Whether it runs.
        pub enabled: bool;
        /// When it runs next.
        pub next_at: String;
        /// When it ran last; null: never.
        pub last_at: Option<String>;
    }
}

message! {
    /// Schedules.
    pub struct Schedules with ScheduleView {
        /// By name.
        pub schedules: Vec<ScheduleView>;
    }
}

message! {
    /// A block of a snapshot.
    pub struct BlockView {
        /// Index, in blocks of 512 KiB.
        pub block: u64;
        /// Its token; null: this snapshot does not have it.
        pub token: Option<String>;
        /// Its token in the earlier snapshot; null: that does not have it.
        pub since_token: Option<String>;
    }
}

message! {
    /// Blocks of a snapshot, in order of their index.
    pub struct Blocks with BlockView {
        /// Blocks.
        pub blocks: Vec<BlockView>;
        /// `start` of the next page; null: there are no more.
        pub next: Option<u64>;
        /// Size of the snapshot's volume.
        pub size_gib: u64;
        /// Until when the tokens hold, Unix seconds of the wall clock.
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
        /// `start` of the next page; null: there are no more.
        pub next: Option<u64>;
        /// How many there are in all.
        pub left: u64;
    }
}

message! {
    /// How far a volume is loaded from its snapshot.
    pub struct InitializationView {
        /// `initializing` or `completed`.
        pub state: String;
        /// `provisioned-rate`, or `default`: on first touch.
        pub r#type: String;
        /// Share of the snapshot's blocks that are loaded.
        pub progress_percent: f64;
        /// Blocks of 512 KiB that are not loaded yet.
        pub blocks_left: u64;
        /// Provisioned rate; null: on first touch alone.
        pub rate_mib_s: Option<u64>;
        /// Seconds until everything is loaded, at that rate; null: not known.
        pub remaining_s: Option<u64>;
        /// Made with fast snapshot restore: first touch costs nothing.
        pub fast: bool;
    }
}
