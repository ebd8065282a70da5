//! From a call of the protocol to the engine, and back to its answer.

use crate::engine::Engine;
use crate::metrics::{Resolution, COLUMNS};
use crate::problem::{bad_input, could_not, of_io, refused, Outcome};
use crate::view;
use headrace_control::{AttachRequest, Command, CreateRequest, ErrorKind, ModifyRequest, VolumeRecord};
use headrace_model::record::HostChange as ModelChange;
use headrace_protocol::answers::{
    CallNames, Cleared, Done, FaultAnswer, Faults, MetricsRows, MetricsText, Modifications, RecordStarted, RecordStopped, VolumeList,
};
use headrace_protocol::arguments::{Attach, Create, MetricsRequest, Modify, OneMember, Record, ReplaceMember, RestoreBalance, SetBalance, SlowMember, Tag};
use headrace_protocol::{Call, CALLS};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// What an answer is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next call.
    Next,
    /// The end of the daemon.
    Down,
}

fn read(name: &str, args: Value) -> Outcome<Call> {
    if CALLS.iter().all(|entry| entry.name != name) {
        let names: Vec<&str> = CALLS.iter().map(|entry| entry.name).collect();
        return Err(bad_input(name, "is not a call of this protocol", format!("The calls are {}.", names.join(", "))));
    }
    let hint = "Each call's arguments are in docs/reference/lab-protocol.md.";
    Call::read(name, args).map_err(|error| bad_input("args", error.to_string(), hint))
}

fn json(answer: impl Serialize) -> Outcome<Value> {
    serde_json::to_value(answer).map_err(|error| could_not("answer", error.to_string(), "Report it: it cannot be written as JSON."))
}

/// Answers one call.
pub fn answer(engine: &Arc<Engine>, name: &str, args: Value) -> (Outcome<Value>, After) {
    if engine.is_stopping() {
        return (Err(could_not(name, "the lab is going down", "Start it again with `headrace lab up`.")), After::Next);
    }
    // Rules look at what is so now: what was due until now comes first.
    let outcome = engine.pass_due().and_then(|()| read(name, args));
    match outcome.and_then(|call| Ok((matches!(call, Call::LabDown(_)), dispatch(engine, call)?))) {
        Ok((true, value)) => (Ok(value), After::Down),
        Ok((false, value)) => (Ok(value), After::Next),
        Err(problem) => (Err(problem), After::Next),
    }
}

fn dispatch(engine: &Arc<Engine>, call: Call) -> Outcome<Value> {
    let shown = |record: VolumeRecord| json(engine.view(&record));
    match call {
        Call::LabStatus(_) => json(engine.status()),
        Call::LabCalls(_) => json(CallNames { calls: CALLS.iter().map(|entry| entry.name.to_string()).collect() }),
        Call::LabDown(args) => engine.shut_down(args.force.unwrap_or(false)).and_then(|()| json(Done {})),
        Call::MetricsText(_) => json(MetricsText { text: engine.exposition() }),
        Call::VolumeCreate(args) => create(engine, args).and_then(shown),
        Call::VolumeList(args) => list(engine, args.volumes),
        Call::VolumeDescribe(args) => engine.find(&args.volume).and_then(shown),
        Call::VolumeDelete(args) => engine.delete(&args.volume).and_then(|()| json(Done {})),
        Call::VolumeAttach(args) => attach(engine, args).and_then(shown),
        Call::VolumeDetach(args) => engine.detach(&args.volume, args.force.unwrap_or(false)).and_then(shown),
        Call::VolumeModify(args) => modify(engine, args),
        Call::VolumeModifications(args) => modifications(engine, args.volume.as_deref()),
        Call::VolumeTag(args) => tag(engine, args).and_then(shown),
        Call::VolumeBalance(args) => engine.balance_view(&args.volume).and_then(json),
        Call::VolumeSetBalance(args) => set_balance(engine, &args).and_then(|()| engine.balance_view(&args.volume)).and_then(json),
        Call::VolumeRestoreBalance(args) => restore_balance(engine, &args),
        Call::VolumeFault(args) => engine.fault(&args).and_then(|set| json(FaultAnswer { fault: engine.fault_view(&set) })),
        Call::VolumeFaults(args) => faults(engine, &args.volume),
        Call::VolumeClearFault(args) => engine.clear_faults(&args.volume, args.fault.as_deref()).and_then(|cleared| json(Cleared { cleared })),
        Call::VolumeFailMember(OneMember { volume, member }) => engine.member(&Command::FailMember { volume, member }).and_then(shown),
        Call::VolumeSlowMember(args) => engine.member(&slow_member(args)).and_then(shown),
        Call::VolumeRestoreMember(OneMember { volume, member }) => engine.member(&Command::RestoreMember { volume, member }).and_then(shown),
        Call::VolumeReplaceMember(ReplaceMember { volume, member, mib_s }) => engine.member(&Command::ReplaceMember { volume, member, mib_s }).and_then(shown),
        Call::VolumeMetrics(args) => metrics(engine, &args),
        Call::VolumeRecord(args) => record(engine, args),
        Call::VolumeRecordStop(args) => record_stop(engine, &args.volume),
    }
}

fn create(engine: &Arc<Engine>, args: Create) -> Outcome<VolumeRecord> {
    let Create { spec, name, tags, as_of, balance_percent } = args;
    engine.create(&Command::CreateVolume(CreateRequest { spec, name, tags: tags.unwrap_or_default(), as_of, balance_percent }))
}

fn attach(engine: &Arc<Engine>, args: Attach) -> Outcome<VolumeRecord> {
    let Attach { volume, name, unpaced, probe } = args;
    engine.attach(&volume, AttachRequest { name, unpaced: unpaced.unwrap_or(false), probe: probe.unwrap_or(true) })
}

fn modify(engine: &Arc<Engine>, args: Modify) -> Outcome<Value> {
    let Modify { volume, size_gib, volume_type, iops, throughput_mib_s } = args;
    let (record, modification) = engine.modify(&volume, ModifyRequest { size_gib, volume_type, iops, throughput_mib_s, used_gib: None })?;
    json(view::modification(&record, &modification, engine.lab_ms()))
}

fn modifications(engine: &Arc<Engine>, volume: Option<&str>) -> Outcome<Value> {
    let (now_ms, found) = (engine.lab_ms(), engine.modifications(volume)?);
    json(Modifications { modifications: found.iter().map(|(record, one)| view::modification(record, one, now_ms)).collect() })
}

fn tag(engine: &Arc<Engine>, args: Tag) -> Outcome<VolumeRecord> {
    let Tag { volume, set, remove } = args;
    engine.command(&Command::Tag { volume: volume.clone(), set: set.unwrap_or_default(), remove: remove.unwrap_or_default() })?;
    engine.find(&volume)
}

fn faults(engine: &Arc<Engine>, volume: &str) -> Outcome<Value> {
    let found = engine.faults(volume)?;
    json(Faults { faults: found.iter().map(|one| engine.fault_view(one)).collect() })
}

fn slow_member(args: SlowMember) -> Command {
    let SlowMember { volume, member, caps_percent, extra_ms } = args;
    Command::SlowMember { volume, member, caps_percent: caps_percent.unwrap_or(100.0), extra_ms: extra_ms.unwrap_or(0.0) }
}

fn list(engine: &Arc<Engine>, wanted: Option<Vec<String>>) -> Outcome<Value> {
    let records = match wanted {
        Some(wanted) => wanted.iter().map(|volume| engine.find(volume)).collect::<Outcome<Vec<_>>>()?,
        None => engine.lab(|lab| lab.volumes.values().cloned().collect()),
    };
    json(VolumeList { volumes: records.iter().map(|record| engine.view(record)).collect() })
}

fn set_balance(engine: &Arc<Engine>, args: &SetBalance) -> Outcome<()> {
    let &SetBalance { ref volume, percent, member } = args;
    engine.command(&Command::SetBalance { volume: volume.clone(), member, percent })?;
    let device = engine.device_number(&engine.find(volume)?)?;
    engine.devices().change(&ModelChange::Balance { device, member: member.map(|member| member as usize), percent });
    Ok(())
}

fn restore_balance(engine: &Arc<Engine>, args: &RestoreBalance) -> Outcome<Value> {
    let wrong = || bad_input("state", "is not what volume.balance gives", "Give the `state` of `headrace volume balance --save`.");
    if args.state["format"] != view::BALANCE_FORMAT {
        return Err(wrong());
    }
    let members = args.state["members"].as_array().ok_or_else(wrong)?;
    let record = engine.find(&args.volume)?;
    if members.len() != record.members.len() {
        let rule = format!("is of {} members, {} has {}", members.len(), record.label(), record.members.len());
        return Err(bad_input("state", rule, "Give one of this volume."));
    }
    for (index, member) in members.iter().enumerate().filter(|(_, member)| !member.is_null()) {
        let percent = member["percent"].as_f64().ok_or_else(wrong)?;
        set_balance(engine, &SetBalance { volume: args.volume.clone(), percent, member: Some(index as u32) })?;
    }
    engine.balance_view(&args.volume).and_then(json)
}

fn metrics(engine: &Arc<Engine>, args: &MetricsRequest) -> Outcome<Value> {
    let record = engine.find(&args.volume)?;
    let resolution = match args.resolution.as_deref() {
        None | Some("second") => Resolution::Second,
        Some("minute") => Resolution::Minute,
        Some(other) => return Err(bad_input(other, "is not a resolution: second or minute", "Name one of them.")),
    };
    let rows = engine.metrics.rows(record.id.as_str(), args.member, resolution, args.since, args.last).map_err(|error| of_io("reading metrics", &error))?;
    json(MetricsRows { columns: COLUMNS.iter().map(ToString::to_string).collect(), rows: rows.iter().map(|row| row.to_json()).collect() })
}

fn record(engine: &Arc<Engine>, args: Record) -> Outcome<Value> {
    let found = engine.find(&args.volume)?;
    engine.device_number(&found)?;
    let path = match args.path {
        Some(path) if path.is_absolute() => path,
        Some(path) => return Err(bad_input(path.display().to_string(), "must be a path from the root: the daemon has another folder", "Write it whole.")),
        None => engine.folder.join("records").join(format!("{}-{}.rec", found.id, view::lab_time(engine.lab_ms()).replace(':', ""))),
    };
    engine.devices().record(&path).map_err(|error| of_io(format!("recording to {}", path.display()), &error))?;
    json(RecordStarted { path: text_of(&path) })
}

fn record_stop(engine: &Arc<Engine>, volume: &str) -> Outcome<Value> {
    // The record is of the whole lab; a name that no volume has is still a mistake of the caller.
    engine.find(volume)?;
    let hint = "Begin one with `headrace volume record VOL start`.";
    let stopped = engine.devices().stop_recording();
    let (path, outcome) = stopped.ok_or_else(|| refused(ErrorKind::IncorrectState, "record", "none is being written", hint))?;
    let requests = outcome.map_err(|error| of_io(format!("writing {}", path.display()), &error))?;
    json(RecordStopped { path: text_of(&path), requests })
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}
