//! Calls that return the volumes and snapshots changed since a version, for callers that keep a
//! copy. They return only facts that change with an event of the lab.

use crate::calls::answer::{json, Answer};
use crate::calls::snapshots::snapshot_view;
use crate::engine::state::changes::Changes;
use crate::engine::{lab_time, Engine};
use crate::problem::Outcome;
use headrace_control::keys::key_arn;
use headrace_control::{Problem, SnapshotId, VolumeId, VolumeRecord};
use headrace_protocol::answers::{AttachmentFacts, VolumeChanges, VolumeFacts};
use headrace_protocol::arguments::Since;
use headrace_protocol::snapshots::SnapshotChanges;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Bound;
use std::str::FromStr;

/// Records of an answer. With 50 tags of the longest kind a volume has some 80 KB, and an answer
/// has at most 64 MiB.
const PAGE: usize = 500;

/// Records that an answer has, and the ids of those that are gone.
struct Page<'a, Id, Record> {
    whole: bool,
    records: Vec<&'a Record>,
    gone: Vec<String>,
    next: Option<Id>,
}

/// Returns the records that changed since the version of `args`, or, where that is not known or
/// they are too many, a page of all records.
fn select_changed<'a, Id, Record>(changes: &Changes<Id>, all: &'a BTreeMap<Id, Record>, args: &Since) -> Outcome<Page<'a, Id, Record>>
where
    Id: Clone + Eq + Hash + Ord + std::fmt::Display + FromStr<Err = headrace_control::ControlError>,
{
    let limit = args.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let changed = args.since.as_deref().and_then(|version| changes.since(version));
    if let Some(changed) = changed.filter(|changed| changed.len() <= limit) {
        let records = changed.iter().filter_map(|id| all.get(*id)).collect();
        let gone = changed.iter().filter(|id| !all.contains_key(**id)).map(ToString::to_string).collect();
        return Ok(Page { whole: false, records, gone, next: None });
    }
    let from = match &args.after {
        Some(after) => Bound::Excluded(after.parse::<Id>()?),
        None => Bound::Unbounded,
    };
    let mut rest = all.range((from, Bound::Unbounded));
    let page: Vec<(&Id, &Record)> = rest.by_ref().take(limit).collect();
    let next = rest.next().and(page.last()).map(|(id, _)| (*id).clone());
    Ok(Page { whole: true, records: page.into_iter().map(|(_, record)| record).collect(), gone: Vec::new(), next })
}

/// Returns the volumes that changed since a version, or all.
pub(crate) fn volumes(engine: &Engine, args: &Since) -> Outcome<Answer> {
    let (version, whole, records, gone, next) = engine.ledger.state(|state| {
        let page = select_changed::<VolumeId, VolumeRecord>(&state.changed_volumes, &state.lab.volumes, args)?;
        let records: Vec<VolumeRecord> = page.records.into_iter().cloned().collect();
        Ok::<_, Problem>((state.changed_volumes.version(), page.whole, records, page.gone, page.next))
    })?;
    let volumes = collect_facts(engine, &records);
    json(VolumeChanges { version, whole, volumes, gone, next: next.map(|id| id.to_string()) })
}

/// Returns the snapshots that changed since a version, or all, those in the recycle bin included.
pub(crate) fn snapshots(engine: &Engine, args: &Since) -> Outcome<Answer> {
    let now_ms = engine.ledger.lab_ms();
    let answer = engine.ledger.state(|state| {
        let all = &state.lab.snapshots;
        let page = select_changed::<SnapshotId, _>(&state.changed_snapshots, &all.records, args)?;
        let snapshots = page.records.into_iter().map(|record| snapshot_view(&state.lab.settings, all, record, now_ms)).collect();
        let next = page.next.map(|id| id.to_string());
        Ok::<_, Problem>(SnapshotChanges { version: state.changed_snapshots.version(), whole: page.whole, snapshots, gone: page.gone, next })
    })?;
    json(answer)
}

/// Returns the facts about volumes that change only with an event of the lab.
fn collect_facts(engine: &Engine, records: &[VolumeRecord]) -> Vec<VolumeFacts> {
    let settings = engine.ledger.lab(|lab| lab.settings.clone());
    let (zone, zone_id) = (settings.zone(), settings.zone_id());
    let facts_of = |record: &VolumeRecord| {
        let limits = engine.volumes.limits(record).unwrap_or_default();
        let attachment = record.attachment.as_ref().map(|attachment| AttachmentFacts {
            state: attachment.state.as_str().to_string(),
            instance: settings.instance_id.clone(),
            delete_on_termination: attachment.delete_on_termination,
            name: attachment.name.clone(),
            attached_at: attachment.attached_ms.map(lab_time),
        });
        VolumeFacts {
            id: record.id.to_string(),
            r#type: record.spec.members.first().map(|member| member.volume_type.to_string()).unwrap_or_default(),
            size_gib: record.size_gib(),
            iops: limits.iter().map(|limits| limits.iops).sum(),
            throughput_mib_s: limits.iter().map(|limits| limits.throughput_bytes_s >> 20).sum(),
            state: record.status.as_str().to_string(),
            created_at: lab_time(record.created_ms),
            zone: zone.clone(),
            zone_id: zone_id.clone(),
            encrypted: record.encryption.is_some(),
            kms_key: record.encryption.as_ref().map(|encryption| key_arn(&settings, &encryption.key)),
            tags: record.tags.clone(),
            attachment,
            snapshot: record.origin.as_ref().map(|origin| origin.snapshot.to_string()),
            source_volume: record.source_volume.as_ref().map(ToString::to_string),
            fast_restored: record.origin.as_ref().map(|origin| origin.fast),
            initialization_rate_mib_s: record.origin.as_ref().and_then(|origin| origin.initialization_mib_s),
        }
    };
    records.iter().map(facts_of).collect()
}
