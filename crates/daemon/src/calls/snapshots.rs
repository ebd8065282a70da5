//! Calls about snapshots: to the engine, and back to what callers see.

use crate::calls::answer::{json, Answer};
use crate::engine::{lab_time, Engine};
use crate::problem::{bad_input, Outcome};
use chrono::DateTime;
use headrace_control::keys::key_arn;
use headrace_control::{
    Command, CopyRequest, DirectRequest, FastRestore, LockMode, LockRequest, Problem, RetentionRule, Schedule, ScheduleRequest, Settings, SnapshotCommand,
    SnapshotId, SnapshotLock, SnapshotRecord, SnapshotRequest, SnapshotSource, Snapshots,
};
use headrace_protocol::answers::Done;
use headrace_protocol::snapshots::*;
use headrace_protocol::Call;
use std::ops::Bound;
use std::sync::Arc;

/// Snapshots that a page has where none is named, and at most: some 500 bytes each, far below the
/// longest answer.
const PAGE: usize = 1_000;
const MOST_PAGE: usize = 10_000;
/// Blocks that a page of a list has (EBS direct API text: 100 to 10,000).
const MOST_BLOCKS: usize = 10_000;
/// Milliseconds in a day.
const DAY_MS: u64 = 86_400_000;

/// Answers a call about snapshots.
pub(crate) fn dispatch(engine: &Arc<Engine>, call: Call) -> Outcome<Answer> {
    let command = |command: SnapshotCommand| engine.ledger.command(&Command::Snapshot(command));
    match call {
        Call::SnapshotCreate(CreateSnapshot { volume, description, tags }) => {
            let request = snapshot_request(vec![volume], description, tags, false);
            let ids = engine.workers.create_snapshots(request)?;
            describe_snapshot(engine, &ids[0])
        }
        Call::SnapshotCreateMany(CreateSnapshots { volumes, description, tags, copy_tags }) => {
            let ids = engine.workers.create_snapshots(snapshot_request(volumes, description, tags, copy_tags.unwrap_or(false)))?;
            let now_ms = engine.ledger.lab_ms();
            let all = engine.ledger.lab(|lab| {
                lab.snapshots
                    .records
                    .values()
                    .filter(|record| ids.contains(&record.id))
                    .map(|record| snapshot_view(&lab.settings, &lab.snapshots, record, now_ms))
                    .collect()
            });
            json(SnapshotList { snapshots: all, next: None })
        }
        Call::SnapshotList(args) => list_snapshots(engine, &args),
        Call::SnapshotDescribe(args) => find_snapshot(engine, &args.snapshot).and_then(|id| describe_snapshot(engine, &id)),
        Call::SnapshotDelete(args) => engine.snapshots.delete_snapshot(&args.snapshot).and_then(|()| json(Done {})),
        Call::SnapshotCopy(CopySnapshot { snapshot, store, region, encrypted, kms_key, description, tags }) => {
            let store = store.map_or_else(|| store_of(engine, region.as_deref()), |store| Ok(Some(store)))?;
            let request = CopyRequest { snapshot, store, description, tags: tags.unwrap_or_default(), ..CopyRequest::default() };
            engine.snapshots.copy_snapshot(request, encrypted, kms_key).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotOffer(args) => engine.snapshots.offer_snapshot(&args.snapshot).and_then(json),
        Call::SnapshotShare(ShareSnapshot { snapshot, add, remove }) => {
            command(SnapshotCommand::Share { snapshot: snapshot.clone(), add: add.unwrap_or_default(), remove: remove.unwrap_or_default() })?;
            find_snapshot(engine, &snapshot).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotLock(args) => {
            let snapshot = args.snapshot.clone();
            command(SnapshotCommand::Lock(lock_request(args)?))?;
            find_snapshot(engine, &snapshot).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotUnlock(OneSnapshot { snapshot }) => {
            command(SnapshotCommand::Unlock { snapshot: snapshot.clone() })?;
            find_snapshot(engine, &snapshot).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotRecover(OneSnapshot { snapshot }) => {
            command(SnapshotCommand::Recover { snapshot: snapshot.clone() })?;
            find_snapshot(engine, &snapshot).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotSetFastRestore(args) => set_fast_restore(engine, &args),
        Call::SnapshotFastRestores(_) => {
            let now_ms = engine.ledger.lab_ms();
            let all = engine.ledger.lab(|lab| list_fast_restores(&lab.snapshots, now_ms, |_, _| true));
            json(FastRestores { fast_restores: all, failures: Vec::new() })
        }
        other => dispatch_settings_and_blocks(engine, other),
    }
}

/// Answers a call about retention rules, schedules, regions, or blocks of a snapshot or a volume.
fn dispatch_settings_and_blocks(engine: &Arc<Engine>, call: Call) -> Outcome<Answer> {
    let command = |command: SnapshotCommand| engine.ledger.command(&Command::Snapshot(command));
    match call {
        Call::SnapshotSetRule(RetentionRuleView { name, days, tags, description }) => {
            let rule = RetentionRule { name, days, tags: tags.unwrap_or_default(), description: description.unwrap_or_default() };
            command(SnapshotCommand::SetRule { rule }).and_then(|_| list_rules(engine))
        }
        Call::SnapshotDeleteRule(OneName { name }) => command(SnapshotCommand::DeleteRule { rule: name }).and_then(|_| json(Done {})),
        Call::SnapshotRules(_) => list_rules(engine),
        Call::SnapshotSetSchedule(args) => command(SnapshotCommand::SetSchedule(schedule_request(args))).and_then(|_| list_schedules(engine)),
        Call::SnapshotDeleteSchedule(OneName { name }) => command(SnapshotCommand::DeleteSchedule { schedule: name }).and_then(|_| json(Done {})),
        Call::SnapshotSchedules(_) => list_schedules(engine),
        Call::SnapshotSetRegion(SetRegion { region, store }) => command(SnapshotCommand::SetRegion { region, store }).and_then(|_| list_regions(engine)),
        Call::SnapshotRegions(_) => list_regions(engine),
        Call::SnapshotBlocks(args) => {
            let limit = args.limit.unwrap_or(PAGE).clamp(1, MOST_BLOCKS);
            engine.snapshots.snapshot_blocks(&args.snapshot, args.since.as_deref(), args.start.unwrap_or(0), limit).and_then(json)
        }
        Call::SnapshotGetBlock(args) => engine.snapshots.snapshot_block(&args.snapshot, args.block, args.block_token.as_deref()).and_then(json),
        Call::SnapshotStart(StartSnapshot { size_gib, parent, description, tags, encrypted, kms_key }) => {
            let request = DirectRequest { size_gib, parent, description: description.unwrap_or_default(), tags: tags.unwrap_or_default(), key: None };
            engine.snapshots.start_snapshot(request, encrypted, kms_key).and_then(|id| describe_snapshot(engine, &id))
        }
        Call::SnapshotPutBlock(args) => engine.snapshots.put_block(&args).and_then(|()| json(Done {})),
        Call::SnapshotFinish(args) => engine.snapshots.finish_snapshot(&args).and_then(|id| describe_snapshot(engine, &id)),
        Call::VolumeCold(args) => {
            engine.volumes.cold_blocks(&args.volume, args.start.unwrap_or(0), args.limit.unwrap_or(MOST_BLOCKS).clamp(1, MOST_BLOCKS)).and_then(json)
        }
        _ => Err(bad_input("call", "is not about snapshots", "Report it.")),
    }
}

fn snapshot_request(
    volumes: Vec<String>,
    description: Option<String>,
    tags: Option<std::collections::BTreeMap<String, String>>,
    copy_tags: bool,
) -> SnapshotRequest {
    SnapshotRequest { volumes, description: description.unwrap_or_default(), tags: tags.unwrap_or_default(), copy_tags }
}

/// Converts the arguments of a call to a request for a schedule.
fn schedule_request(args: SetSchedule) -> ScheduleRequest {
    let SetSchedule { name, target_tags, interval_s, keep, keep_days, tags, copy_tags, disabled } = args;
    ScheduleRequest {
        name,
        target_tags: target_tags.unwrap_or_default(),
        interval_s,
        keep,
        keep_days,
        tags: tags.unwrap_or_default(),
        copy_tags: copy_tags.unwrap_or(false),
        disabled: disabled.unwrap_or(false),
    }
}

/// Converts the arguments of a call to a request for a lock; fails if mode or time cannot be read.
fn lock_request(args: LockSnapshot) -> Outcome<LockRequest> {
    let mode = match args.mode.as_str() {
        "governance" => LockMode::Governance,
        "compliance" => LockMode::Compliance,
        other => return Err(bad_input(other, "is not a lock mode: governance or compliance", "Name one of the two.")),
    };
    let parsed = |text: &String| DateTime::parse_from_rfc3339(text).ok().and_then(|time| u64::try_from(time.timestamp_millis()).ok());
    let expires_ms = match &args.expires_at {
        None => None,
        Some(text) => Some(parsed(text).ok_or_else(|| bad_input(text, "is not a time", "Write it like 2027-01-31T00:00:00Z."))?),
    };
    Ok(LockRequest { snapshot: args.snapshot, mode, duration_days: args.duration_days, expires_ms, cool_off_hours: args.cool_off_hours })
}

/// Returns the answer to a call that was done before under its token.
pub(crate) fn repeat_answer(engine: &Engine, snapshot: &str) -> Outcome<Answer> {
    find_snapshot(engine, snapshot).and_then(|id| describe_snapshot(engine, &id))
}

/// Returns a snapshot that is not in the recycle bin.
fn find_snapshot(engine: &Engine, snapshot: &str) -> Outcome<SnapshotId> {
    engine.ledger.lab(|lab| lab.snapshots.find(snapshot).map(|record| record.id.clone())).map_err(Problem::from)
}

/// Returns the answer with a snapshot, which may be in the recycle bin.
fn describe_snapshot(engine: &Engine, id: &SnapshotId) -> Outcome<Answer> {
    let now_ms = engine.ledger.lab_ms();
    let view = engine.ledger.lab(|lab| lab.snapshots.records.get(id).map(|record| snapshot_view(&lab.settings, &lab.snapshots, record, now_ms)));
    match view {
        Some(view) => json(view),
        None => Err(bad_input(id.as_str(), "was deleted meanwhile", "See `headrace snapshot list`.")),
    }
}

/// Lists a page of the snapshots that the filters match, by id: those in the recycle bin, or all
/// others.
fn list_snapshots(engine: &Engine, args: &ListSnapshots) -> Outcome<Answer> {
    let now_ms = engine.ledger.lab_ms();
    let limit = args.limit.unwrap_or(PAGE).clamp(1, MOST_PAGE);
    let in_bin = args.bin.unwrap_or(false);
    engine
        .ledger
        .lab(|lab| {
            let all = &lab.snapshots;
            if let Some(names) = args.snapshots.as_ref().filter(|_| !in_bin) {
                let records = names.iter().map(|snapshot| all.find(snapshot)).collect::<Result<Vec<_>, _>>()?;
                return Ok(SnapshotList {
                    snapshots: records.into_iter().map(|record| snapshot_view(&lab.settings, all, record, now_ms)).collect(),
                    next: None,
                });
            }
            // A volume that is gone still has its snapshots.
            let volume = args.volume.as_ref().map(|volume| lab.find(volume).map_or_else(|_| volume.clone(), |record| record.id.to_string()));
            let from = match &args.after {
                Some(after) => Bound::Excluded(after.parse::<SnapshotId>()?),
                None => Bound::Unbounded,
            };
            let matches = |record: &&SnapshotRecord| {
                all.bin.contains_key(&record.id) == in_bin
                    && volume.as_ref().is_none_or(|volume| record.properties.volume.as_ref().is_some_and(|id| id.as_str() == volume))
                    && args.state.as_ref().is_none_or(|state| record.state.as_str() == state)
                    && args.snapshots.as_ref().is_none_or(|names| names.iter().any(|id| id == record.id.as_str()))
            };
            let mut records = all.records.range((from, Bound::Unbounded)).map(|(_, record)| record).filter(matches);
            let snapshots: Vec<SnapshotView> = records.by_ref().take(limit).map(|record| snapshot_view(&lab.settings, all, record, now_ms)).collect();
            let next = records.next().and(snapshots.last()).map(|last| last.id.clone());
            Ok(SnapshotList { snapshots, next })
        })
        .and_then(json)
}

/// Returns a snapshot as callers see it.
pub(super) fn snapshot_view(settings: &Settings, all: &Snapshots, record: &SnapshotRecord, now_ms: u64) -> SnapshotView {
    let (source, copy_of) = match &record.properties.source {
        SnapshotSource::Volume => ("volume", None),
        SnapshotSource::Copy { snapshot, .. } => ("copy", Some(snapshot.to_string())),
        SnapshotSource::Direct { .. } => ("direct", None),
    };
    SnapshotView {
        id: record.id.to_string(),
        volume: record.properties.volume.as_ref().map(ToString::to_string),
        size_gib: record.properties.size_gib,
        state: record.state.as_str().to_string(),
        error: record.error.clone(),
        progress_percent: record.progress_percent,
        started_at: lab_time(record.started_ms),
        completed_at: record.completed_ms.map(lab_time),
        description: record.properties.description.clone(),
        tags: record.properties.tags.clone(),
        encrypted: record.properties.encryption.is_some(),
        kms_key: record.properties.encryption.as_ref().map(|key| key_arn(settings, &key.key)),
        source: source.to_string(),
        copy_of,
        parent: record.parent.as_ref().map(ToString::to_string),
        blocks: SnapshotBlocksView { stored_bytes: record.stored_bytes, full_bytes: record.full_bytes },
        lock: record.lock.as_ref().map(|lock| lock_view(lock, now_ms)),
        shared_with: record.shared_with.clone(),
        bin: all.bin.get(&record.id).map(|bin| BinView { entered_at: lab_time(bin.entered_ms), exit_at: lab_time(bin.exit_ms), rule: bin.rule.clone() }),
        schedule: record.properties.schedule.clone(),
    }
}

/// Returns a lock as callers see it at a lab time.
fn lock_view(lock: &SnapshotLock, now_ms: u64) -> LockView {
    LockView {
        state: lock.state(now_ms).to_string(),
        mode: lock.mode.as_str().to_string(),
        created_at: lab_time(lock.created_ms),
        expires_at: lab_time(lock.expires_ms),
        duration_days: lock.expires_ms.saturating_sub(lock.created_ms) / DAY_MS,
        cool_off_hours: lock.cool_off_hours,
        cool_off_until: lock.cool_off_until_ms.map(lab_time),
    }
}

/// Switches fast restore of each snapshot on or off in each zone, and lists what was switched and
/// what was refused.
fn set_fast_restore(engine: &Arc<Engine>, args: &SetFastRestore) -> Outcome<Answer> {
    let zones = args.zones.clone().unwrap_or_else(|| vec![engine.ledger.lab(|lab| lab.settings.zone())]);
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for snapshot in &args.snapshots {
        for zone in &zones {
            let command = SnapshotCommand::FastRestore { snapshot: snapshot.clone(), zone: zone.clone(), enable: args.enable };
            match engine.ledger.command(&Command::Snapshot(command)) {
                Ok(_) => done.push((snapshot.clone(), zone.clone())),
                Err(problem) => failures.push(FastRestoreFailure {
                    snapshot: snapshot.clone(),
                    zone: zone.clone(),
                    kind: problem.kind.as_str().to_string(),
                    code: problem.code,
                    message: problem.message,
                }),
            }
        }
    }
    let now_ms = engine.ledger.lab_ms();
    let is_done = |snapshot: &str, zone: &str| done.iter().any(|(id, at)| id == snapshot && at == zone);
    let fast_restores = engine.ledger.lab(|lab| list_fast_restores(&lab.snapshots, now_ms, is_done));
    json(FastRestores { fast_restores, failures })
}

fn list_fast_restores(all: &Snapshots, now_ms: u64, matches: impl Fn(&str, &str) -> bool) -> Vec<FastRestoreView> {
    let each = all.fast.iter().flat_map(|(id, zones)| zones.iter().map(move |(zone, fast)| (id, zone, fast)));
    each.filter(|(id, zone, _)| matches(id.as_str(), zone)).map(|(id, zone, fast)| fast_view(id, zone, fast, now_ms)).collect()
}

/// Returns fast restore of a snapshot in a zone as callers see it; its credits are those at
/// `now_ms`.
fn fast_view(id: &SnapshotId, zone: &str, fast: &FastRestore, now_ms: u64) -> FastRestoreView {
    let [enabling_at, optimizing_at, enabled_at, disabling_at, disabled_at] = fast.entered_ms.map(|ms| ms.map(lab_time));
    FastRestoreView {
        snapshot: id.to_string(),
        zone: zone.to_string(),
        state: fast.state.as_str().to_string(),
        enabling_at,
        optimizing_at,
        enabled_at,
        disabling_at,
        disabled_at,
        credits: fast.credits_millionths(now_ms) as f64 / 1e6,
        credits_max: fast.capacity(),
    }
}

fn list_regions(engine: &Engine) -> Outcome<Answer> {
    json(Regions { regions: engine.ledger.lab(|lab| lab.snapshots.regions.clone()) })
}

/// Returns the object store of a region; None for this lab's own.
fn store_of(engine: &Engine, region: Option<&str>) -> Outcome<Option<String>> {
    let Some(region) = region else { return Ok(None) };
    let (own, store) = engine.ledger.lab(|lab| (lab.settings.region == region, lab.snapshots.regions.get(region).cloned()));
    if own || store.is_some() {
        return Ok(store);
    }
    let hint = "Name its object store: `headrace snapshot region REGION URL`.";
    let problem = bad_input(region, "is not a region whose object store this lab knows", hint);
    Err(problem.says("InvalidParameterValue", format!("Invalid value '{region}' for sourceRegion: the lab knows no object store of that region.")))
}

fn list_rules(engine: &Engine) -> Outcome<Answer> {
    let rules = engine.ledger.lab(|lab| lab.snapshots.rules.values().cloned().collect::<Vec<_>>());
    let view = |rule: RetentionRule| RetentionRuleView { name: rule.name, days: rule.days, tags: Some(rule.tags), description: Some(rule.description) };
    json(RetentionRules { rules: rules.into_iter().map(view).collect() })
}

/// Returns the answer with all schedules.
fn list_schedules(engine: &Engine) -> Outcome<Answer> {
    let schedules = engine.ledger.lab(|lab| lab.snapshots.schedules.values().cloned().collect::<Vec<Schedule>>());
    let view = |schedule: Schedule| ScheduleView {
        name: schedule.name,
        target_tags: schedule.target_tags,
        interval_s: schedule.interval_s,
        keep: schedule.keep,
        keep_days: schedule.keep_days,
        tags: schedule.tags,
        copy_tags: schedule.copy_tags,
        enabled: schedule.enabled,
        next_at: lab_time(schedule.next_ms),
        last_at: schedule.last_ms.map(lab_time),
    };
    json(Schedules { schedules: schedules.into_iter().map(view).collect() })
}
