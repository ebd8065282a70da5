//! The calls: name, arguments, answer and description of each.

use crate::answers::*;
use crate::arguments::*;
use crate::cloudwatch::*;
use crate::keys::*;
use crate::message::{Described, Message};
use crate::snapshots::*;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// Table row of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallEntry {
    /// Name on the socket.
    pub name: &'static str,
    /// Heading of the reference page under which it is described.
    pub section: &'static str,
    /// Description: the doc comment of the call.
    pub doc: &'static str,
    /// Name of its method in the Python client.
    pub method: &'static str,
    /// The one key of its answer that the method returns; "" for the answer as it is.
    pub returns: &'static str,
    /// True if it may take minutes: it measures, writes back or frees the data of a volume.
    pub long: bool,
    /// Message of its arguments.
    pub arguments: &'static Message,
    /// Message of its answer.
    pub answer: &'static Message,
}

/// Headings of the reference, in order, each with an introduction.
pub const SECTIONS: [(&str, &str); 9] = [
    ("The lab", ""),
    ("Volumes", "A volume is named by its id or its unique name."),
    ("Snapshots", "A block has 512 KiB. Nothing is stored of blocks that were never written."),
    ("Credits", ""),
    ("Faults", ""),
    ("Measurements", ""),
    ("CloudWatch", "Times are those of the wall clock, in Unix seconds. Rules and error codes are CloudWatch's."),
    ("Events", ""),
    ("Keys", "A key is named by its id, its ARN, an alias or the ARN of one."),
];

macro_rules! calls {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident($arguments:ty) -> $answer:ty = $name:literal in $section:literal as $method:ident $(. $returns:ident)? $(, $long:ident)?;
    )*) => {
        /// A call with its arguments, as it is written on a line to the daemon.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "call", content = "args")]
        pub enum Call {
            $( $(#[doc = $doc])+ #[serde(rename = $name)] $variant($arguments), )*
        }

        /// Every call, in the order of the reference.
        pub const CALLS: &[CallEntry] = &[$( CallEntry {
            name: $name,
            section: $section,
            doc: concat!($($doc, "\n"),+),
            method: stringify!($method),
            returns: concat!($(stringify!($returns))?),
            long: !concat!($(stringify!($long))?).is_empty(),
            arguments: &<$arguments as Described>::MESSAGE,
            answer: &<$answer as Described>::MESSAGE,
        }, )*];
    };
}

calls! {
    /// Version, instance, day, clock, directory and volumes of the lab.
    LabStatus(NoArguments) -> LabStatus = "lab.status" in "The lab" as status;
    /// Flushes and takes away every device, and ends the daemon after the answer. Attachments stay
    /// noted: the next start makes the devices again. Refused as `in-use` while something is
    /// mounted, unless forced.
    LabDown(Down) -> Done = "lab.down" in "The lab" as down, long;
    /// Names every call of this page.
    LabCalls(NoArguments) -> CallNames = "lab.calls" in "The lab" as calls.calls;
    /// Counters of volumes since the start of the daemon, and present values: what the endpoint for
    /// Prometheus serves, as numbers.
    MetricsTotals(NoArguments) -> LabTotals = "metrics.totals" in "The lab" as metrics_totals;

    /// Makes a volume or array. The files are sparse and take no space yet.
    VolumeCreate(Create) -> LabVolumeView = "volume.create" in "Volumes" as create;
    /// Makes a copy of a volume as it is now, in use or not. It is `creating` until all bytes are
    /// on disk; `initialization` says how far it is.
    VolumeCopy(CopyVolume) -> LabVolumeView = "volume.copy" in "Volumes" as copy;
    /// All volumes, or those named.
    VolumeList(SomeVolumes) -> VolumeList = "volume.list" in "Volumes" as volumes.volumes;
    /// Volumes that changed since a version of an earlier answer; without one, or with one that is
    /// too old or of another run of the daemon, all of them in pages. The pages of a list may be of
    /// several versions: ask again with that of the first page when it is complete.
    VolumeChanges(Since) -> VolumeChanges = "volume.changes" in "Volumes" as volume_changes;
    /// One volume.
    VolumeDescribe(OneVolume) -> LabVolumeView = "volume.describe" in "Volumes" as describe;
    /// Deletes an available volume and its data.
    VolumeDelete(OneVolume) -> Done = "volume.delete" in "Volumes" as delete, long;
    /// Makes a block device of a volume: `attachment.device`; `attachment.links` are stable names
    /// of the device.
    VolumeAttach(Attach) -> LabVolumeView = "volume.attach" in "Volumes" as attach, long;
    /// Flushes and takes the device away. Refused as `in-use` while it is mounted or in an array of
    /// md, unless forced.
    VolumeDetach(Detach) -> LabVolumeView = "volume.detach" in "Volumes" as detach, long;
    /// Changes a volume, in use or not. While `modifying` all is as before; from `optimizing` on
    /// the new size is there and limits are in between. A volume never shrinks; at most four
    /// modifications are accepted in a rolling 24 hours of lab time, and none while another runs.
    VolumeModify(Modify) -> ModificationView = "volume.modify" in "Volumes" as modify;
    /// The last modifications of a volume, or of all.
    VolumeModifications(MaybeVolume) -> Modifications = "volume.modifications" in "Volumes" as modifications.modifications;
    /// Sets attributes.
    VolumeAttributes(Attributes) -> LabVolumeView = "volume.attributes" in "Volumes" as set_attributes;
    /// Removes tags of resources of any kind, then sets tags: of all, or of none where one of them
    /// is not there or would have too many.
    ResourceTag(ResourceTags) -> Done = "resource.tag" in "Volumes" as tag_resources;
    /// Removes tags by key, then sets tags.
    VolumeTag(Tag) -> LabVolumeView = "volume.tag" in "Volumes" as tag;

    /// Takes a snapshot of a volume, in use or not: of its bytes as they are at this call. The
    /// answer is `pending`; blocks are stored while the volume is used.
    SnapshotCreate(CreateSnapshot) -> SnapshotView = "snapshot.create" in "Snapshots" as create_snapshot;
    /// Takes snapshots of several volumes, all of one instant: all or none.
    SnapshotCreateMany(CreateSnapshots) -> SnapshotList = "snapshot.create_many" in "Snapshots" as create_snapshots.snapshots;
    /// Snapshots, page by page.
    SnapshotList(ListSnapshots) -> SnapshotList = "snapshot.list" in "Snapshots" as snapshots;
    /// Snapshots that changed since a version, as `volume.changes` has volumes; also those in the
    /// recycle bin. The state of a lock, which changes with time, is that of this answer.
    SnapshotChanges(Since) -> SnapshotChanges = "snapshot.changes" in "Snapshots" as snapshot_changes;
    /// One snapshot.
    SnapshotDescribe(OneSnapshot) -> SnapshotView = "snapshot.describe" in "Snapshots" as describe_snapshot;
    /// Deletes a snapshot; one that a retention rule keeps goes to the recycle bin. Blocks that
    /// other snapshots need stay.
    SnapshotDelete(OneSnapshot) -> Done = "snapshot.delete" in "Snapshots" as delete_snapshot;
    /// Copies a completed snapshot, of this lab or from another lab's object store. The copy has
    /// blocks of its own.
    SnapshotCopy(CopySnapshot) -> SnapshotView = "snapshot.copy" in "Snapshots" as copy_snapshot;
    /// Facts that another lab needs to copy a snapshot: it asks `key.decrypt` for the data key.
    SnapshotOffer(OneSnapshot) -> SnapshotOffer = "snapshot.offer" in "Snapshots" as offer_snapshot;
    /// Removes and adds accounts that may make volumes from a snapshot. It is noted; the lab has
    /// one account.
    SnapshotShare(ShareSnapshot) -> SnapshotView = "snapshot.share" in "Snapshots" as share_snapshot;
    /// Locks a snapshot against deletion, or changes its lock.
    SnapshotLock(LockSnapshot) -> SnapshotView = "snapshot.lock" in "Snapshots" as lock_snapshot;
    /// Takes a lock away.
    SnapshotUnlock(OneSnapshot) -> SnapshotView = "snapshot.unlock" in "Snapshots" as unlock_snapshot;
    /// Switches fast snapshot restore on or off.
    SnapshotSetFastRestore(SetFastRestore) -> FastRestores = "snapshot.set_fast_restore" in "Snapshots" as set_fast_restore;
    /// Fast snapshot restores that are on, or were.
    SnapshotFastRestores(NoArguments) -> FastRestores = "snapshot.fast_restores" in "Snapshots" as fast_restores.fast_restores;
    /// Takes a snapshot out of the recycle bin.
    SnapshotRecover(OneSnapshot) -> SnapshotView = "snapshot.recover" in "Snapshots" as recover_snapshot;
    /// Adds or replaces a retention rule of the recycle bin.
    SnapshotSetRule(RetentionRuleView) -> RetentionRules = "snapshot.set_rule" in "Snapshots" as set_retention_rule.rules;
    /// Takes a retention rule away. Snapshots that it keeps stay until their time.
    SnapshotDeleteRule(OneName) -> Done = "snapshot.delete_rule" in "Snapshots" as delete_retention_rule;
    /// Retention rules of the recycle bin.
    SnapshotRules(NoArguments) -> RetentionRules = "snapshot.rules" in "Snapshots" as retention_rules.rules;
    /// Adds or replaces a schedule.
    SnapshotSetSchedule(SetSchedule) -> Schedules = "snapshot.set_schedule" in "Snapshots" as set_schedule.schedules;
    /// Takes a schedule away; its snapshots stay.
    SnapshotDeleteSchedule(OneName) -> Done = "snapshot.delete_schedule" in "Snapshots" as delete_schedule;
    /// Schedules.
    SnapshotSchedules(NoArguments) -> Schedules = "snapshot.schedules" in "Snapshots" as schedules.schedules;
    /// Names the object store of another region, from which snapshots can then be copied.
    SnapshotSetRegion(SetRegion) -> Regions = "snapshot.set_region" in "Snapshots" as set_region.regions;
    /// Object stores of other regions.
    SnapshotRegions(NoArguments) -> Regions = "snapshot.regions" in "Snapshots" as regions.regions;
    /// Blocks of a completed snapshot, all or those that differ from an earlier one.
    SnapshotBlocks(ListBlocks) -> Blocks = "snapshot.blocks" in "Snapshots" as snapshot_blocks;
    /// The bytes of a block.
    SnapshotGetBlock(GetBlock) -> BlockData = "snapshot.get_block" in "Snapshots" as get_block;
    /// Begins a snapshot that is put block by block.
    SnapshotStart(StartSnapshot) -> SnapshotView = "snapshot.start" in "Snapshots" as start_snapshot;
    /// Puts a block of a snapshot that was begun so; a second time replaces it.
    SnapshotPutBlock(PutBlock) -> Done = "snapshot.put_block" in "Snapshots" as put_block;
    /// Completes a snapshot that was put block by block.
    SnapshotFinish(FinishSnapshot) -> SnapshotView = "snapshot.finish" in "Snapshots" as finish_snapshot, long;
    /// Blocks of a volume that are not loaded from its snapshot yet: reading them loads them.
    VolumeCold(ListCold) -> ColdBlocks = "volume.cold" in "Snapshots" as cold_blocks;

    /// Credit balances now.
    VolumeBalance(OneVolume) -> BalanceView = "volume.balance" in "Credits" as balance;
    /// Sets the balance of a member, or of all that have one. Answers the balance afterwards.
    VolumeSetBalance(SetBalance) -> BalanceView = "volume.set_balance" in "Credits" as set_balance;
    /// Brings back an earlier balance. Answers the balance afterwards.
    VolumeRestoreBalance(RestoreBalance) -> BalanceView = "volume.restore_balance" in "Credits" as restore_balance;

    /// Sets a fault. All but degraded need an attached volume.
    ///
    /// | kind | does | its arguments |
    /// |---|---|---|
    /// | `pause` | nothing is answered before it ends | `op` |
    /// | `latency` | each request takes longer | `extra_ms` (to 60,000), `op` |
    /// | `error` | every Nth request fails with EIO | `every`, `op` |
    /// | `degraded` | limits shrink and requests take longer, in the model: a record replays it | `caps_percent` (0.1 to 100), `extra_ms` (0 to 60,000), `member` |
    /// | `power-cut` | at its time every request fails, and writes that were not flushed are kept, dropped or torn, by `seed`; until the volume is attached again. A detach before its time ends it | `seed` |
    VolumeFault(FaultRequest) -> FaultAnswer = "volume.fault" in "Faults" as fault.fault;
    /// Faults that wait or last. Degraded times are the model's and not listed.
    VolumeFaults(OneVolume) -> Faults = "volume.faults" in "Faults" as faults.faults;
    /// Ends a fault, or all of the volume and every degraded time; answers how many faults that
    /// were.
    VolumeClearFault(ClearFault) -> Cleared = "volume.clear_fault" in "Faults" as clear_fault.cleared;
    /// Loses a member: its data is gone for the array. Without redundancy, requests to it fail.
    VolumeFailMember(OneMember) -> LabVolumeView = "volume.fail_member" in "Faults" as fail_member;
    /// Leaves a member this share of its caps and adds latency, until it is restored.
    VolumeSlowMember(SlowMember) -> LabVolumeView = "volume.slow_member" in "Faults" as slow_member;
    /// Ends the slowness of a member; brings back a lost one where there is no redundancy, because
    /// nothing was written without it.
    VolumeRestoreMember(OneMember) -> LabVolumeView = "volume.restore_member" in "Faults" as restore_member;
    /// Puts a new volume in the place of a member and rebuilds it, at the cost of the members' own
    /// limits.
    VolumeReplaceMember(ReplaceMember) -> LabVolumeView = "volume.replace_member" in "Faults" as replace_member;

    /// Metrics of a volume. Rows are written while it is attached, when their second or minute has
    /// ended.
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `t_s` | Unix seconds of the row's beginning |
    /// | `reads`, `writes`, `flushes`, `errors` | requests |
    /// | `read_bytes`, `write_bytes` | bytes |
    /// | `read_time_us`, `write_time_us` | sum over requests, so it may be longer than the row |
    /// | `queue_mean`, `queue_max` | requests outstanding |
    /// | `idle_percent` | time without any |
    /// | `balance_percent` | credits at the row's end, of the member with the least |
    /// | `volume_iops_exceeded_us`, `volume_throughput_exceeded_us` | time during which requests waited for that limit of the volume, spent credits included |
    /// | `instance_iops_exceeded_us`, `instance_throughput_exceeded_us` | the same for the instance |
    /// | `read_p50_us`, `read_p99_us`, `write_p50_us`, `write_p99_us` | latency as the caller saw it, waits included, from a histogram |
    /// | `late_p50_us`, `late_p99_us` | how late the machine was with answers, compared with the model |
    /// | `instance_ios_balance_percent`, `instance_bytes_balance_percent` | credits of the instance at the row's end |
    /// | `span_us` | time the row is about: less than a minute where the volume was not attached throughout |
    /// | `consumed_ops` | reads and writes, larger ones counted once per started 256 KiB; in rows of earlier versions the number of requests |
    VolumeMetrics(MetricsRequest) -> MetricsRows = "volume.metrics" in "Measurements" as metrics;
    /// Begins to write every arrival and decision of the lab to a file, for `headrace replay`. One
    /// record at a time.
    VolumeRecord(Record) -> RecordStarted = "volume.record" in "Measurements" as record;
    /// Ends the record.
    VolumeRecordStop(OneVolume) -> RecordStopped = "volume.record_stop" in "Measurements" as record_stop;

    /// Makes a key; its material never leaves the lab.
    KeyCreate(NewKey) -> KeyView = "key.create" in "Keys" as create_key;
    /// All keys and aliases.
    KeyList(NoArguments) -> KeyList = "key.list" in "Keys" as keys;
    /// One key.
    KeyDescribe(OneKey) -> KeyView = "key.describe" in "Keys" as describe_key;
    /// Lets a disabled key be used again.
    KeyEnable(OneKey) -> KeyView = "key.enable" in "Keys" as enable_key;
    /// Lets a key be used no more. Volumes that are attached go on until they are detached.
    KeyDisable(OneKey) -> KeyView = "key.disable" in "Keys" as disable_key;
    /// Deletes a key after some days of lab time. Until then it cannot be used; afterwards the
    /// bytes that it encrypted are lost.
    KeyScheduleDeletion(KeyDeletion) -> KeyView = "key.schedule_deletion" in "Keys" as schedule_key_deletion;
    /// Keeps a key that was to be deleted; it is disabled then.
    KeyCancelDeletion(OneKey) -> KeyView = "key.cancel_deletion" in "Keys" as cancel_key_deletion;
    /// Changes description or policy, or tags.
    KeyUpdate(KeyUpdate) -> KeyView = "key.update" in "Keys" as update_key;
    /// Gives a key a name.
    KeySetAlias(SetAlias) -> KeyView = "key.set_alias" in "Keys" as set_key_alias;
    /// Takes a name away.
    KeyDeleteAlias(OneAlias) -> Done = "key.delete_alias" in "Keys" as delete_key_alias;
    /// Notes a grant.
    KeyGrant(NewGrant) -> KeyGrant = "key.grant" in "Keys" as grant_key;
    /// Takes a grant away.
    KeyEndGrant(OneGrant) -> Done = "key.end_grant" in "Keys" as end_key_grant;
    /// Encrypts up to 4 KiB.
    KeyEncrypt(Encrypt) -> Ciphertext = "key.encrypt" in "Keys" as encrypt;
    /// The material of an enabled key that this lab keeps, for `key.import` of another lab.
    KeyExport(OneKey) -> ExportedKey = "key.export" in "Keys" as export_key;
    /// Takes in a key that another lab exported: what that lab encrypted under it can be opened
    /// here.
    KeyImport(ImportKey) -> KeyView = "key.import" in "Keys" as import_key;
    /// Decrypts.
    KeyDecrypt(Decrypt) -> Plaintext = "key.decrypt" in "Keys" as decrypt;
    /// Decrypts and encrypts under another key or context.
    KeyReEncrypt(ReEncrypt) -> ReEncrypted = "key.re_encrypt" in "Keys" as re_encrypt;
    /// Draws a data key and wraps it.
    KeyGenerateDataKey(DataKeyRequest) -> DataKey = "key.generate_data_key" in "Keys" as generate_data_key;
    /// Encryption of new volumes that do not ask for one: on or off, and the key.
    EncryptionDefaults(NoArguments) -> EncryptionDefaults = "encryption.defaults" in "Keys" as encryption_defaults;
    /// Sets the encryption of new volumes that do not ask for one.
    EncryptionSet(SetEncryption) -> EncryptionDefaults = "encryption.set" in "Keys" as set_encryption;
    /// The NVMe statistics page (log page 0xD0) of an attached volume, laid out as
    /// `data/nvme_log_page_d0.csv` says. Counters count from the daemon's start.
    VolumeNvmeStatistics(StatisticsPageRequest) -> StatisticsPage = "volume.nvme_statistics" in "Measurements" as nvme_statistics;

    /// Adds values of metrics of your own: all of them, or none. The lab keeps 15 days of at most
    /// 1,000 metrics and 200,000 values; after a restart of the daemon, the newest 16 MiB of the
    /// values are there again.
    CloudwatchPutMetricData(PutMetrics) -> Done = "cloudwatch.put_metric_data" in "CloudWatch" as put_metric_data;
    /// Metrics that have points: those of volumes that were attached, of the instance, and your
    /// own. At most 500 in an answer.
    CloudwatchListMetrics(MetricFilter) -> MetricNames = "cloudwatch.list_metrics" in "CloudWatch" as list_metrics;
    /// Statistics of a metric in periods that begin at the start, which is rounded down to a
    /// minute. At most 1,440 periods.
    CloudwatchGetMetricStatistics(StatisticsRequest) -> MetricStatistics = "cloudwatch.get_metric_statistics" in "CloudWatch" as get_metric_statistics;
    /// Points of metrics and of expressions over them.
    CloudwatchGetMetricData(DataRequest) -> MetricData = "cloudwatch.get_metric_data" in "CloudWatch" as get_metric_data;
    /// Makes an alarm, or replaces all of its configuration. It is evaluated once a minute, with
    /// periods of 10, 20 or 30 seconds every ten.
    CloudwatchPutAlarm(PutAlarm) -> Done = "cloudwatch.put_alarm" in "CloudWatch" as put_alarm;
    /// Alarms, by name.
    CloudwatchDescribeAlarms(AlarmFilter) -> AlarmList = "cloudwatch.describe_alarms" in "CloudWatch" as describe_alarms;
    /// Deletes alarms: all that are named, or none.
    CloudwatchDeleteAlarms(AlarmNames) -> Done = "cloudwatch.delete_alarms" in "CloudWatch" as delete_alarms;
    /// Sets the state of an alarm until it is evaluated again; its actions are taken.
    CloudwatchSetAlarmState(AlarmState) -> Done = "cloudwatch.set_alarm_state" in "CloudWatch" as set_alarm_state;
    /// Switches actions on. Names without an alarm are left out.
    CloudwatchEnableAlarmActions(AlarmNames) -> Done = "cloudwatch.enable_alarm_actions" in "CloudWatch" as enable_alarm_actions;
    /// Switches actions off. Names without an alarm are left out.
    CloudwatchDisableAlarmActions(AlarmNames) -> Done = "cloudwatch.disable_alarm_actions" in "CloudWatch" as disable_alarm_actions;
    /// History of alarms: the last 1,000 items of all alarms together, the newest first.
    CloudwatchAlarmHistory(HistoryFilter) -> AlarmHistory = "cloudwatch.alarm_history" in "CloudWatch" as alarm_history;
    /// Tags of an alarm.
    CloudwatchAlarmTags(AlarmArn) -> AlarmTags = "cloudwatch.alarm_tags" in "CloudWatch" as alarm_tags.tags;
    /// Removes tags of an alarm by key, then sets tags.
    CloudwatchTagAlarm(AlarmTagRequest) -> Done = "cloudwatch.tag_alarm" in "CloudWatch" as tag_alarm;

    /// Changes of state as events in EventBridge's shape: of volumes, attachments, modifications,
    /// snapshots, keys and alarms. The newest are kept, 8 MiB at most, also over a restart.
    EventsSince(EventsRequest) -> LabEvents = "events.since" in "Events" as events_since;
}

impl Call {
    /// Reads the call of that name with these arguments.
    ///
    /// # Errors
    /// There is no such call, or its arguments are others.
    pub fn read(name: &str, args: Value) -> Result<Call, serde_json::Error> {
        serde_json::from_value(json!({"call": name, "args": args}))
    }
}
