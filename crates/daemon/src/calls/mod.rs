//! From a call of the protocol to the engine, and back to its answer.

mod answer;
mod changes;
mod keys;
mod snapshots;

use crate::calls::answer::{json, Answer};
use crate::cloudwatch::calls as cloudwatch;
use crate::engine::{lab_time, Engine};
use crate::envelope::{self, Envelope};
use crate::metrics::{Resolution, COLUMNS};
use crate::problem::{bad_input, could_not, from_io, refused, Outcome};
use crate::view;
use headrace_control::{AttachRequest, ClientToken, Command, CreateRequest, DetachRequest, ErrorKind, ModifyRequest, TagRequest, VolumeId, VolumeRecord};
use headrace_model::record::HostChange as ModelChange;
use headrace_protocol::answers::{CallNames, Cleared, Done, FaultAnswer, Faults, MetricsRows, Modifications, RecordStarted, RecordStopped, VolumeList};
use headrace_protocol::arguments::{
    Attach, Attributes, CopyVolume, Create, Detach, MetricsRequest, Modify, OneMember, Record, ReplaceMember, ResourceTags, RestoreBalance, SetBalance,
    SlowMember, SomeVolumes, Tag,
};
use headrace_protocol::{Call, CALLS};
use serde_json::Value as Arguments;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Step of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next call.
    Next,
    /// The end of the daemon.
    Down,
}

/// Reads a call from its name and arguments.
fn parse_call(name: &str, args: Arguments) -> Outcome<Call> {
    if CALLS.iter().all(|entry| entry.name != name) {
        let names: Vec<&str> = CALLS.iter().map(|entry| entry.name).collect();
        return Err(bad_input(name, "is not a call of this protocol", format!("The calls are {}.", names.join(", "))));
    }
    let hint = "Each call's arguments are in docs/reference/lab-protocol.md.";
    Call::read(name, args).map_err(|error| bad_input("args", error.to_string(), hint))
}

/// Answers one call. With a token it is done once, however often it comes; with `dry_run` it is
/// only decided.
pub fn answer(engine: &Arc<Engine>, name: &str, args: Arguments, token: Option<String>, dry_run: bool) -> (Outcome<Answer>, After) {
    if engine.ledger.is_stopping() {
        return (Err(could_not(name, "the lab is going down", "Start it again with `headrace lab up`.")), After::Next);
    }
    let token = token.map(|token| ClientToken { token, request: request_of(name, &args) });
    // Rules judge the present state: the events that are due by now come first.
    let outcome = engine.pass_due().and_then(|()| parse_call(name, args)).and_then(|call| {
        let down = matches!(call, Call::LabDown(_)) && !dry_run;
        Ok((down, answer_once(engine, call, token, dry_run)?))
    });
    match outcome {
        Ok((true, value)) => (Ok(value), After::Down),
        Ok((false, value)) => (Ok(value), After::Next),
        Err(problem) => (Err(problem), After::Next),
    }
}

/// Makes the text that identifies a request under a token: the name of the call, and a digest of
/// its arguments. An argument that is null counts as left out.
fn request_of(name: &str, args: &Arguments) -> String {
    let given: BTreeMap<&String, &Arguments> = args.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).collect();
    let text = serde_json::to_string(&given).unwrap_or_default();
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name} {hex}")
}

/// Does a call, or returns what it did before if its token was used before. A dry run ends with the
/// problem that says it would have been done.
fn answer_once(engine: &Arc<Engine>, call: Call, token: Option<ClientToken>, dry_run: bool) -> Outcome<Answer> {
    if dry_run && acts_without_a_decision(&call) {
        let hint = "Leave dry_run out.";
        return Err(refused(ErrorKind::Unsupported, "dry_run", "this call works on the devices at once and cannot be tried", hint));
    }
    let used = |token: &Option<ClientToken>| match token {
        Some(token) if !dry_run => engine.ledger.used_token(token),
        _ => Ok(None),
    };
    if let Some(used) = used(&token)? {
        return repeat_answer(engine, &call, used.subject.as_deref());
    }
    let again = call.clone();
    let outcome = envelope::under(Envelope { token: token.clone(), dry_run }, || dispatch(engine, call));
    match outcome {
        Ok(_) if dry_run => Err(envelope::dry_run_passed()),
        // Meanwhile the same call came on another connection, and was first.
        Err(problem) if problem.kind == ErrorKind::IdempotentParameterMismatch => match used(&token)? {
            Some(used) => repeat_answer(engine, &again, used.subject.as_deref()),
            None => Err(problem),
        },
        outcome => outcome,
    }
}

/// Calls whose work is not begun by a decision of the lab, so that a dry run of them would be the
/// real one.
fn acts_without_a_decision(call: &Call) -> bool {
    matches!(
        call,
        Call::LabDown(_)
            | Call::CloudwatchPutMetricData(_)
            | Call::VolumeFault(_)
            | Call::VolumeClearFault(_)
            | Call::VolumeRestoreBalance(_)
            | Call::VolumeRecord(_)
            | Call::VolumeRecordStop(_)
            | Call::SnapshotPutBlock(_)
    )
}

/// Returns the answer to a call that was done before under its token: what it made or changed, as
/// it is now.
fn repeat_answer(engine: &Arc<Engine>, call: &Call, subject: Option<&str>) -> Outcome<Answer> {
    let Some(subject) = subject else { return json(Done {}) };
    if subject.starts_with("snap-") {
        return snapshots::repeat_answer(engine, subject);
    }
    if let Ok(key) = engine.keys.key(subject) {
        return json(engine.keys.key_view(&key));
    }
    let record = engine.ledger.find(subject)?;
    match (call, record.modification()) {
        (Call::VolumeModify(_), Some(last)) => json(engine.volumes.modification_view(&record, last)),
        (Call::VolumeDelete(_) | Call::ResourceTag(_), _) => json(Done {}),
        _ => json(engine.volumes.view(&record)),
    }
}

/// Does a call and returns its answer.
fn dispatch(engine: &Arc<Engine>, call: Call) -> Outcome<Answer> {
    let show = |record: VolumeRecord| json(engine.volumes.view(&record));
    match call {
        Call::LabStatus(_) => json(engine.status()),
        Call::LabCalls(_) => json(CallNames { calls: CALLS.iter().map(|entry| entry.name.to_string()).collect() }),
        Call::LabDown(args) => engine.shut_down(args.force.unwrap_or(false)).and_then(|()| json(Done {})),
        Call::MetricsTotals(_) => json(engine.volumes.totals()),
        Call::VolumeCreate(args) => create_volume(engine, args).and_then(show),
        Call::VolumeCopy(args) => copy_volume(engine, args).and_then(show),
        Call::VolumeList(args) => list_volumes(engine, args),
        Call::VolumeChanges(args) => changes::volumes(engine, &args),
        Call::SnapshotChanges(args) => changes::snapshots(engine, &args),
        Call::VolumeDescribe(args) => engine.ledger.find(&args.volume).and_then(show),
        Call::VolumeDelete(args) => engine.volumes.delete(&args.volume).and_then(|()| json(Done {})),
        Call::VolumeAttach(args) => attach(engine, args).and_then(show),
        Call::VolumeDetach(args) => detach(engine, args).and_then(show),
        Call::VolumeModify(args) => modify(engine, args),
        Call::VolumeModifications(args) => list_modifications(engine, args.volume.as_deref()),
        Call::VolumeAttributes(args) => set_attributes(engine, args).and_then(show),
        Call::ResourceTag(args) => tag_resources(engine, args),
        Call::VolumeTag(args) => tag_volume(engine, args).and_then(show),
        Call::VolumeBalance(args) => engine.volumes.balance_view(&args.volume).and_then(json),
        Call::VolumeSetBalance(args) => set_balance(engine, &args).and_then(|()| engine.volumes.balance_view(&args.volume)).and_then(json),
        Call::VolumeRestoreBalance(args) => restore_balance(engine, &args),
        Call::VolumeFault(args) => engine.volumes.set_fault(&args).and_then(|set| json(FaultAnswer { fault: engine.volumes.fault_view(&set) })),
        Call::VolumeFaults(args) => list_faults(engine, &args.volume),
        Call::VolumeClearFault(args) => engine.volumes.clear_faults(&args.volume, args.fault.as_deref()).and_then(|cleared| json(Cleared { cleared })),
        Call::VolumeFailMember(OneMember { volume, member }) => engine.volumes.change_member(&Command::FailMember { volume, member }).and_then(show),
        Call::VolumeSlowMember(args) => engine.volumes.change_member(&slow_member(args)).and_then(show),
        Call::VolumeRestoreMember(OneMember { volume, member }) => engine.volumes.change_member(&Command::RestoreMember { volume, member }).and_then(show),
        Call::VolumeReplaceMember(ReplaceMember { volume, member, mib_s }) => {
            engine.volumes.change_member(&Command::ReplaceMember { volume, member, mib_s }).and_then(show)
        }
        Call::VolumeMetrics(args) => list_metric_rows(engine, &args),
        Call::VolumeRecord(args) => start_recording(engine, args),
        Call::VolumeRecordStop(args) => stop_recording(engine, &args.volume),
        other => dispatch_watched(engine, other),
    }
}

/// Calls about metrics, alarms and events; what is left is about snapshots.
fn dispatch_watched(engine: &Arc<Engine>, call: Call) -> Outcome<Answer> {
    let done = |()| json(Done {});
    match call {
        Call::VolumeNvmeStatistics(args) => cloudwatch::nvme_statistics(engine, args).and_then(json),
        Call::CloudwatchPutMetricData(args) => cloudwatch::put_metric_data(engine, args).and_then(done),
        Call::CloudwatchListMetrics(args) => cloudwatch::list_metrics(engine, args).and_then(json),
        Call::CloudwatchGetMetricStatistics(args) => cloudwatch::get_metric_statistics(engine, args).and_then(json),
        Call::CloudwatchGetMetricData(args) => cloudwatch::get_metric_data(engine, args).and_then(json),
        Call::CloudwatchPutAlarm(args) => cloudwatch::put_alarm(engine, args).and_then(done),
        Call::CloudwatchDescribeAlarms(args) => cloudwatch::describe_alarms(engine, args).and_then(json),
        Call::CloudwatchDeleteAlarms(args) => cloudwatch::delete_alarms(engine, args.names).and_then(done),
        Call::CloudwatchSetAlarmState(args) => cloudwatch::set_alarm_state(engine, args).and_then(done),
        Call::CloudwatchEnableAlarmActions(args) => cloudwatch::enable_actions(engine, args.names, true).and_then(done),
        Call::CloudwatchDisableAlarmActions(args) => cloudwatch::enable_actions(engine, args.names, false).and_then(done),
        Call::CloudwatchAlarmHistory(args) => cloudwatch::alarm_history(engine, args).and_then(json),
        Call::CloudwatchAlarmTags(args) => cloudwatch::alarm_tags(engine, &args.arn).and_then(json),
        Call::CloudwatchTagAlarm(args) => cloudwatch::tag_alarm(engine, args).and_then(done),
        Call::EventsSince(args) => cloudwatch::events_since(engine, args).and_then(json),
        other if keys::are_about(&other) => keys::dispatch(engine, other),
        other => snapshots::dispatch(engine, other),
    }
}

/// Creates a volume, and begins to load it in the background where that is due.
fn create_volume(engine: &Arc<Engine>, args: Create) -> Outcome<VolumeRecord> {
    let record = engine.volumes.create(CreateRequest {
        spec: args.spec.unwrap_or_default(),
        volume_type: args.volume_type,
        size_gib: args.size_gib,
        iops: args.iops,
        throughput_mib_s: args.throughput_mib_s,
        zone: args.zone,
        zone_id: args.zone_id,
        encrypted: args.encrypted,
        kms_key: args.kms_key,
        multi_attach: args.multi_attach.unwrap_or(false),
        name: args.name,
        tags: args.tags.unwrap_or_default(),
        as_of: args.as_of,
        balance_percent: args.balance_percent,
        snapshot: args.snapshot,
        initialization_mib_s: args.initialization_rate_mib_s,
        source_volume: None,
    })?;
    engine.volumes.start_loading(&record);
    Ok(record)
}

/// Begins a copy of a volume, and returns its record, in status creating.
fn copy_volume(engine: &Arc<Engine>, args: CopyVolume) -> Outcome<VolumeRecord> {
    engine.workers.copy_volume(CreateRequest {
        name: args.name,
        tags: args.tags.unwrap_or_default(),
        volume_type: args.volume_type,
        size_gib: args.size_gib,
        iops: args.iops,
        throughput_mib_s: args.throughput_mib_s,
        encrypted: args.encrypted,
        kms_key: args.kms_key,
        multi_attach: args.multi_attach.unwrap_or(false),
        source_volume: Some(args.volume),
        ..CreateRequest::default()
    })
}

fn attach(engine: &Arc<Engine>, args: Attach) -> Outcome<VolumeRecord> {
    let Attach { volume, name, unpaced, device_name, instance, probe } = args;
    let (unpaced, probe) = (unpaced.unwrap_or(false), probe.unwrap_or(true));
    engine.volumes.attach(&volume, AttachRequest { name, device_name, instance, unpaced, probe })
}

fn detach(engine: &Arc<Engine>, args: Detach) -> Outcome<VolumeRecord> {
    let Detach { volume, force, instance, name, waits } = args;
    engine.volumes.detach(&volume, DetachRequest { force: force.unwrap_or(false), instance, name }, waits.unwrap_or(false))
}

fn set_attributes(engine: &Arc<Engine>, args: Attributes) -> Outcome<VolumeRecord> {
    let Attributes { volume, auto_enable_io, delete_on_termination } = args;
    engine.ledger.command(&Command::SetAttributes { volume: volume.clone(), auto_enable_io, delete_on_termination })?;
    engine.ledger.find(&volume)
}

fn tag_resources(engine: &Arc<Engine>, args: ResourceTags) -> Outcome<Answer> {
    let ResourceTags { resources, set, remove, remove_equal } = args;
    let (set, remove, remove_equal) = (set.unwrap_or_default(), remove.unwrap_or_default(), remove_equal.unwrap_or_default());
    engine.ledger.command(&Command::Tag(TagRequest { resources, set, remove, remove_equal }))?;
    json(Done {})
}

fn modify(engine: &Arc<Engine>, args: Modify) -> Outcome<Answer> {
    let Modify { volume, size_gib, volume_type, iops, throughput_mib_s } = args;
    let (record, modification) = engine.volumes.modify(&volume, ModifyRequest { size_gib, volume_type, iops, throughput_mib_s, used_gib: None })?;
    json(engine.volumes.modification_view(&record, &modification))
}

fn list_modifications(engine: &Arc<Engine>, volume: Option<&str>) -> Outcome<Answer> {
    let modifications = engine.volumes.modifications(volume)?;
    json(Modifications { modifications: modifications.iter().map(|(record, modification)| engine.volumes.modification_view(record, modification)).collect() })
}

/// Sets and removes tags of a volume, and returns its record afterwards.
fn tag_volume(engine: &Arc<Engine>, args: Tag) -> Outcome<VolumeRecord> {
    let Tag { volume, set, remove } = args;
    let (set, remove) = (set.unwrap_or_default(), remove.unwrap_or_default());
    // The volume is passed by its id: a name may look like the id of another type of resource.
    let resources = vec![engine.ledger.find(&volume)?.id.to_string()];
    engine.ledger.command(&Command::Tag(TagRequest { resources, set, remove, ..TagRequest::default() }))?;
    engine.ledger.find(&volume)
}

fn list_faults(engine: &Arc<Engine>, volume: &str) -> Outcome<Answer> {
    let faults = engine.volumes.faults(volume)?;
    json(Faults { faults: faults.iter().map(|fault| engine.volumes.fault_view(fault)).collect() })
}

fn slow_member(args: SlowMember) -> Command {
    let SlowMember { volume, member, caps_percent, extra_ms } = args;
    Command::SlowMember { volume, member, caps_percent: caps_percent.unwrap_or(100.0), extra_ms: extra_ms.unwrap_or(0.0) }
}

/// Lists the volumes that are named, or a page of all volumes by id.
fn list_volumes(engine: &Arc<Engine>, args: SomeVolumes) -> Outcome<Answer> {
    let after = match args.after {
        Some(after) => Bound::Excluded(after.parse::<VolumeId>()?),
        None => Bound::Unbounded,
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    let records: Vec<VolumeRecord> = match args.volumes {
        Some(names) => engine.ledger.lab(|lab| lab.find_all(&names).map(|records| records.into_iter().cloned().collect::<Vec<_>>()))?,
        None => engine.ledger.lab(|lab| lab.volumes.range((after, Bound::Unbounded)).take(limit).map(|(_, record)| record.clone()).collect()),
    };
    json(VolumeList { volumes: records.iter().map(|record| engine.volumes.view(record)).collect() })
}

fn set_balance(engine: &Arc<Engine>, args: &SetBalance) -> Outcome<()> {
    let &SetBalance { ref volume, percent, member } = args;
    engine.ledger.command(&Command::SetBalance { volume: volume.clone(), member, percent })?;
    let device = engine.volumes.device_number(&engine.ledger.find(volume)?)?;
    engine.volumes.devices.change(&ModelChange::Balance { device, member: member.map(|member| member as usize), percent });
    Ok(())
}

/// Sets the credit balances, percent, that an earlier `volume.balance` answered.
fn restore_balance(engine: &Arc<Engine>, args: &RestoreBalance) -> Outcome<Answer> {
    let wrong = || bad_input("state", "is not what volume.balance gives", "Give the `state` of `headrace volume balance --save`.");
    if args.state["format"] != view::BALANCE_FORMAT {
        return Err(wrong());
    }
    let members = args.state["members"].as_array().ok_or_else(wrong)?;
    let record = engine.ledger.find(&args.volume)?;
    if members.len() != record.members.len() {
        let rule = format!("is of {} members, {} has {}", members.len(), record.label(), record.members.len());
        return Err(bad_input("state", rule, "Give one of this volume."));
    }
    for (index, member) in members.iter().enumerate().filter(|(_, member)| !member.is_null()) {
        let percent = member["percent"].as_f64().ok_or_else(wrong)?;
        set_balance(engine, &SetBalance { volume: args.volume.clone(), percent, member: Some(index as u32) })?;
    }
    engine.volumes.balance_view(&args.volume).and_then(json)
}

/// Lists rows of a volume or member, one a second or a minute; also of a volume that was deleted,
/// by its id.
fn list_metric_rows(engine: &Arc<Engine>, args: &MetricsRequest) -> Outcome<Answer> {
    // The rows of a deleted volume are found by its id.
    let volume = match engine.ledger.find(&args.volume) {
        Ok(record) => record.id.to_string(),
        Err(_) if engine.metrics.store.retired(&args.volume).is_some() => args.volume.clone(),
        Err(problem) => return Err(problem),
    };
    let resolution = match args.resolution.as_deref() {
        None | Some("second") => Resolution::Second,
        Some("minute") => Resolution::Minute,
        Some(other) => return Err(bad_input(other, "is not a resolution: second or minute", "Name one of them.")),
    };
    let rows = engine.metrics.store.rows(&volume, args.member, resolution, args.since, args.last).map_err(|error| from_io("reading metrics", &error))?;
    json(MetricsRows { columns: COLUMNS.iter().map(ToString::to_string).collect(), rows: rows.iter().map(|row| row.to_json()).collect() })
}

/// Begins the record of all requests, in the given file or in one in the folder `records` of the
/// lab.
fn start_recording(engine: &Arc<Engine>, args: Record) -> Outcome<Answer> {
    let volume = engine.ledger.find(&args.volume)?;
    engine.volumes.device_number(&volume)?;
    let path = match args.path {
        Some(path) if path.is_absolute() => path,
        Some(path) => return Err(bad_input(path.display().to_string(), "must be a path from the root: the daemon has another folder", "Write it whole.")),
        None => engine.volumes.folder.join("records").join(format!("{}-{}.rec", volume.id, lab_time(engine.ledger.lab_ms()).replace(':', ""))),
    };
    engine.volumes.devices.record(&path).map_err(|error| from_io(format!("recording to {}", path.display()), &error))?;
    json(RecordStarted { path: path_text(&path) })
}

/// Ends the record, and returns its file and the number of its requests.
fn stop_recording(engine: &Arc<Engine>, volume: &str) -> Outcome<Answer> {
    // The record is of the whole lab; a name that no volume has is still a mistake of the caller.
    engine.ledger.find(volume)?;
    let hint = "Begin one with `headrace volume record VOL start`.";
    let stopped = engine.volumes.devices.stop_recording();
    let (path, outcome) = stopped.ok_or_else(|| refused(ErrorKind::IncorrectState, "record", "none is being written", hint))?;
    let hint = "The record ends early, and the volumes went on. Free space there, or name another place with --to.";
    let requests = outcome.map_err(|error| could_not(path.display().to_string(), format!("the record is not whole: {error}"), hint))?;
    json(RecordStopped { path: path_text(&path), requests })
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
