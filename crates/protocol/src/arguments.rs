//! Arguments of calls. An argument that is left out and one that is null are the same.

use crate::message::message;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

message! {
    /// No arguments.
    #[serde(deny_unknown_fields)]
    pub struct NoArguments {}
}

message! {
    /// Options of ending the lab.
    #[serde(deny_unknown_fields)]
    pub struct Down {
        /// True to end it also while something is mounted: its users then see I/O errors.
        pub force: Option<bool> = "false";
    }
}

message! {
    /// A volume.
    #[serde(deny_unknown_fields)]
    pub struct OneVolume {
        /// Id or unique name.
        pub volume: String;
    }
}

message! {
    /// One volume or all.
    #[serde(deny_unknown_fields)]
    pub struct MaybeVolume {
        /// Id or unique name.
        pub volume: Option<String> = "all";
    }
}

message! {
    /// Some volumes or all.
    #[serde(deny_unknown_fields)]
    pub struct SomeVolumes {
        /// Ids or unique names.
        pub volumes: Option<Vec<String>> = "all";
        /// Id after which the list of all volumes begins.
        pub after: Option<String> = "from the first on";
        /// Most volumes of the list of all.
        pub limit: Option<usize> = "no limit";
    }
}

message! {
    /// Version that a caller has.
    #[serde(deny_unknown_fields)]
    pub struct Since {
        /// The version of the last answer.
        pub since: Option<String> = "all";
        /// Id after which the list of all goes on.
        pub after: Option<String> = "the first";
        /// Most records of an answer, up to 500.
        pub limit: Option<usize> = "500";
    }
}

message! {
    /// A new volume or array.
    #[serde(deny_unknown_fields)]
    pub struct Create {
        /// Storage notation, like `gp2:500` or `raid10:4xgp3:500`.
        pub spec: Option<String> = "type, size, IOPS and MiB/s one by one";
        /// A unique name.
        pub name: Option<String> = "none";
        /// Tags: at most 50, keys up to 128 and values up to 256 characters.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// Day of its limits, `YYYY-MM-DD`.
        pub as_of: Option<String> = "the lab's day";
        /// Credit balance to begin with, 0 to 100.
        pub balance_percent: Option<f64> = "full, as AWS starts volumes";
        /// Id of the snapshot it is made from: usable at once, blocks load on first touch.
        pub snapshot: Option<String> = "none: empty";
        /// Rate at which the snapshot's blocks are loaded in the background, 100 to 300 MiB/s.
        pub initialization_rate_mib_s: Option<u64> = "none: on first touch alone";
        /// Type, like `gp3`.
        pub volume_type: Option<String> = "gp2";
        /// Size, GiB.
        pub size_gib: Option<u64> = "an error without a notation";
        /// Provisioned IOPS.
        pub iops: Option<u64> = "what the type includes";
        /// Provisioned MiB/s.
        pub throughput_mib_s: Option<u64> = "what the type includes";
        /// Availability zone; the lab has one.
        pub zone: Option<String> = "the lab's";
        /// Id of the availability zone.
        pub zone_id: Option<String> = "the lab's";
        /// True to encrypt it; encryption by default wins over false.
        pub encrypted: Option<bool> = "as encryption by default says";
        /// The key that wraps its data key: id, ARN or alias.
        pub kms_key: Option<String> = "the default key";
        /// True for several instances at once: refused, the lab has one.
        pub multi_attach: Option<bool> = "false";
    }
}

message! {
    /// A copy of a volume.
    #[serde(deny_unknown_fields)]
    pub struct CopyVolume {
        /// Id or unique name of the volume that is copied.
        pub volume: String;
        /// A unique name.
        pub name: Option<String> = "none";
        /// Tags: at most 50, keys up to 128 and values up to 256 characters.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// Type.
        pub volume_type: Option<String> = "gp2, as EC2 has it";
        /// Size, GiB; never below that of the source.
        pub size_gib: Option<u64> = "that of the source";
        /// Provisioned IOPS.
        pub iops: Option<u64> = "as AWS gives";
        /// Provisioned MiB/s.
        pub throughput_mib_s: Option<u64> = "as AWS gives";
        /// True to encrypt it. The copy of an encrypted volume always is.
        pub encrypted: Option<bool> = "as the source, else as the lab's default says";
        /// KMS key.
        pub kms_key: Option<String> = "that of the source, else the default key";
        /// True for several instances at once: refused, the lab has one.
        pub multi_attach: Option<bool> = "false";
    }
}

message! {
    /// Options of attaching a volume.
    #[serde(deny_unknown_fields)]
    pub struct Attach {
        /// Id or unique name.
        pub volume: String;
        /// Attach name like `sdf` or `/dev/sdf`.
        pub name: Option<String> = "the first free of sdf to sdp, then xvdba and so on";
        /// True to answer without the model's delays: as fast as this machine goes.
        pub unpaced: Option<bool> = "false";
        /// True to measure the machine's own path (at most once a minute) and take it out of the
        /// model's latency.
        pub probe: Option<bool> = "true";
        /// Attach name as EC2 takes it, like `/dev/sdf` or `/dev/xvdba`; instead of `name`.
        pub device_name: Option<String> = "none";
        /// Id of the instance; the lab has one.
        pub instance: Option<String> = "the lab's";
    }
}

message! {
    /// Options of detaching a volume.
    #[serde(deny_unknown_fields)]
    pub struct Detach {
        /// Id or unique name.
        pub volume: String;
        /// True to detach it also while it is mounted or in an array of md: its users see I/O
        /// errors from then on.
        pub force: Option<bool> = "false";
        /// Id of the instance from which it is detached.
        pub instance: Option<String> = "the lab's";
        /// Attach name that it must have.
        pub name: Option<String> = "any";
        /// True to detach a volume in use as soon as it is not used any more, as on EC2: it is
        /// `busy` until then. Otherwise it is refused.
        pub waits: Option<bool> = "false";
    }
}

message! {
    /// Attributes of a volume.
    #[serde(deny_unknown_fields)]
    pub struct Attributes {
        /// Id or unique name.
        pub volume: String;
        /// EC2's AutoEnableIO: true if I/O goes on after a check that failed.
        pub auto_enable_io: Option<bool> = "as it is";
        /// True if an attached volume is deleted with the instance.
        pub delete_on_termination: Option<bool> = "as it is";
    }
}

message! {
    /// Tags of one or more resources: all change, or none.
    #[serde(deny_unknown_fields)]
    pub struct ResourceTags {
        /// Ids; a volume also by its name.
        pub resources: Vec<String>;
        /// Tags to add or overwrite, after removing.
        pub set: Option<BTreeMap<String, String>> = "none";
        /// Keys to remove.
        pub remove: Option<Vec<String>> = "none";
        /// Keys to remove where they have this value.
        pub remove_equal: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// Tags to remove and to set.
    #[serde(deny_unknown_fields)]
    pub struct Tag {
        /// Id or unique name.
        pub volume: String;
        /// Tags to add or overwrite, after removing.
        pub set: Option<BTreeMap<String, String>> = "none";
        /// Keys to remove.
        pub remove: Option<Vec<String>> = "none";
    }
}

message! {
    /// A change of a volume; at least one property is named. The size of an array is that of the
    /// whole array, the rest is for each member.
    #[serde(deny_unknown_fields)]
    pub struct Modify {
        /// Id or unique name.
        pub volume: String;
        /// Usable size afterwards, GiB; never smaller.
        pub size_gib: Option<u64> = "as it is";
        /// Type afterwards.
        pub volume_type: Option<String> = "as it is";
        /// Provisioned IOPS afterwards.
        pub iops: Option<u64> = "as it is";
        /// Provisioned MiB/s afterwards.
        pub throughput_mib_s: Option<u64> = "as it is";
    }
}

message! {
    /// A credit balance to set.
    #[serde(deny_unknown_fields)]
    pub struct SetBalance {
        /// Id or unique name.
        pub volume: String;
        /// Balance, percent of the capacity, 0 to 100.
        pub percent: f64;
        /// Index of a member.
        pub member: Option<u32> = "all that have credits";
    }
}

message! {
    /// A balance to bring back.
    #[serde(deny_unknown_fields)]
    pub struct RestoreBalance {
        /// Id or unique name.
        pub volume: String;
        /// The `state` of an earlier `volume.balance` of a volume with as many members.
        pub state: Value;
    }
}

message! {
    /// A fault; kinds and their arguments are those of the table of `volume.fault`.
    #[serde(deny_unknown_fields)]
    pub struct FaultRequest {
        /// Id or unique name.
        pub volume: String;
        /// `pause`, `latency`, `error`, `degraded` or `power-cut`.
        pub kind: String;
        /// Seconds until it begins.
        pub in_s: Option<f64> = "0; power-cut 1";
        /// Seconds it lasts.
        pub seconds: Option<f64> = "60; pause 1";
        /// Latency added to each request, ms.
        pub extra_ms: Option<f64> = "latency 100, degraded 300";
        /// Number N: every Nth request fails.
        pub every: Option<u64> = "1";
        /// `read`, `write` or `any`.
        pub op: Option<String> = "any";
        /// Index of a member, for degraded.
        pub member: Option<u32> = "all";
        /// Share of the caps that remains, percent.
        pub caps_percent: Option<f64> = "10";
        /// Seed of a power cut.
        pub seed: Option<u64> = "drawn";
    }
}

message! {
    /// Faults to end.
    #[serde(deny_unknown_fields)]
    pub struct ClearFault {
        /// Id or unique name.
        pub volume: String;
        /// Id of a fault.
        pub fault: Option<String> = "all, and every degraded time";
    }
}

message! {
    /// A member of a volume; a single volume is its own member 0.
    #[serde(deny_unknown_fields)]
    pub struct OneMember {
        /// Id or unique name.
        pub volume: String;
        /// Index of the member.
        pub member: u32;
    }
}

message! {
    /// Slowness of a member.
    #[serde(deny_unknown_fields)]
    pub struct SlowMember {
        /// Id or unique name.
        pub volume: String;
        /// Index of the member.
        pub member: u32;
        /// Share of its caps that remains, 0.1 to 100 %.
        pub caps_percent: Option<f64> = "100";
        /// Latency added to each request, 0 to 60,000 ms.
        pub extra_ms: Option<f64> = "0";
    }
}

message! {
    /// A member to replace.
    #[serde(deny_unknown_fields)]
    pub struct ReplaceMember {
        /// Id or unique name.
        pub volume: String;
        /// Index of the member.
        pub member: u32;
        /// Most MiB/s of the rebuild.
        pub mib_s: Option<u64> = "as fast as the members allow";
    }
}

message! {
    /// Rows of metrics.
    #[serde(deny_unknown_fields)]
    pub struct MetricsRequest {
        /// Id or unique name.
        pub volume: String;
        /// `second` (an hour is kept) or `minute` (15 days are kept).
        pub resolution: Option<String> = "second";
        /// Number of rows, the newest.
        pub last: Option<usize> = "all";
        /// Rows from this time on, Unix seconds.
        pub since: Option<u64> = "all";
        /// Index of a member.
        pub member: Option<u32> = "the volume as a whole";
    }
}

message! {
    /// A record of all decisions.
    #[serde(deny_unknown_fields)]
    pub struct Record {
        /// Id or unique name; the record is of the whole lab.
        pub volume: String;
        /// Path of the file, from the root.
        pub path: Option<PathBuf> = "a file in records/ of the data directory";
    }
}
