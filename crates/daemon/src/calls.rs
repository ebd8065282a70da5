//! From JSON to the engine and back: the calls of the socket protocol.

use crate::engine::Engine;
use crate::faulting::FaultWish;
use crate::metrics::{Resolution, COLUMNS};
use crate::modifying::Wish;
use crate::problem::{bad_input, of_io, Outcome};
use crate::view;
use headrace_control::{Command, ErrorKind, Problem};
use headrace_model::record::HostChange as ModelChange;
use headrace_model::Op;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Every call, in the order of the reference.
pub const CALLS: [&str; 26] = [
    "lab.status",
    "lab.down",
    "volume.create",
    "volume.list",
    "volume.describe",
    "volume.delete",
    "volume.attach",
    "volume.detach",
    "volume.modify",
    "volume.modifications",
    "volume.balance",
    "volume.set_balance",
    "volume.restore_balance",
    "volume.tag",
    "volume.fault",
    "volume.faults",
    "volume.clear_fault",
    "volume.fail_member",
    "volume.slow_member",
    "volume.restore_member",
    "volume.replace_member",
    "volume.metrics",
    "volume.record",
    "volume.record_stop",
    "metrics.text",
    "lab.calls",
];

/// What an answer is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next call.
    Next,
    /// The end of the daemon.
    Down,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Down {
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    spec: String,
    name: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    as_of: Option<String>,
    balance_percent: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    volumes: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    volume: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maybe {
    volume: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attach {
    volume: String,
    name: Option<String>,
    #[serde(default)]
    unpaced: bool,
    #[serde(default = "yes")]
    probe: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detach {
    volume: String,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Modify {
    volume: String,
    size_gib: Option<u64>,
    volume_type: Option<String>,
    iops: Option<u64>,
    throughput_mib_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetBalance {
    volume: String,
    percent: f64,
    member: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreBalance {
    volume: String,
    state: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tag {
    volume: String,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    volume: String,
    kind: String,
    in_s: Option<f64>,
    seconds: Option<f64>,
    extra_ms: Option<f64>,
    every: Option<u64>,
    op: Option<String>,
    member: Option<u32>,
    caps_percent: Option<f64>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClearFault {
    volume: String,
    fault: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberCall {
    volume: String,
    member: u32,
    caps_percent: Option<f64>,
    extra_ms: Option<f64>,
    mib_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metrics {
    volume: String,
    member: Option<u32>,
    resolution: Option<String>,
    last: Option<usize>,
    since: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    volume: String,
    path: Option<PathBuf>,
}

fn read<T: DeserializeOwned>(args: Value) -> Outcome<T> {
    serde_json::from_value(args).map_err(|error| bad_input("args", error.to_string(), "Each call's arguments stand in docs/reference/lab-protocol.md."))
}

/// Answers one call.
pub fn answer(engine: &Arc<Engine>, call: &str, args: Value) -> (Outcome<Value>, After) {
    if engine.is_stopping() {
        let hint = "Start it again with `headrace lab up`.".into();
        let problem = Problem { kind: ErrorKind::CouldNot, value: call.into(), rule: "the lab is going down".into(), source: "headraced".into(), hint };
        return (Err(problem), After::Next);
    }
    // Rules look at what is so now: what was due until now comes first.
    if let Err(problem) = engine.pass_due() {
        return (Err(problem), After::Next);
    }
    if call == "lab.down" {
        return match read::<Down>(args).and_then(|down| engine.shut_down(down.force)) {
            Ok(()) => (Ok(json!({})), After::Down),
            Err(problem) => (Err(problem), After::Next),
        };
    }
    (dispatch(engine, call, args), After::Next)
}

fn dispatch(engine: &Arc<Engine>, call: &str, args: Value) -> Outcome<Value> {
    match call {
        "lab.status" => read::<Nothing>(args).map(|_| engine.status()),
        "lab.calls" => read::<Nothing>(args).map(|_| json!({"calls": CALLS})),
        "metrics.text" => read::<Nothing>(args).map(|_| json!({"text": engine.exposition()})),
        "volume.create" => read(args).and_then(|args| create(engine, args)),
        "volume.list" => read(args).and_then(|args| list(engine, args)),
        "volume.describe" => read::<One>(args).and_then(|args| engine.find(&args.volume)).map(|record| engine.view(&record)),
        "volume.delete" => read::<One>(args).and_then(|args| engine.delete(&args.volume)).map(|()| json!({})),
        "volume.attach" => {
            let Attach { volume, name, unpaced, probe } = read(args)?;
            engine.attach(&volume, name, unpaced, probe).map(|record| engine.view(&record))
        }
        "volume.detach" => read::<Detach>(args).and_then(|args| engine.detach(&args.volume, args.force)).map(|record| engine.view(&record)),
        "volume.modify" => {
            let Modify { volume, size_gib, volume_type, iops, throughput_mib_s } = read(args)?;
            let modification = engine.modify(&volume, Wish { size_gib, volume_type, iops, throughput_mib_s })?;
            Ok(view::modification(&modification, engine.lab_ms()))
        }
        "volume.modifications" => read(args).and_then(|args| modifications(engine, args)),
        "volume.balance" => read::<One>(args).and_then(|args| engine.balance_view(&args.volume)),
        "volume.set_balance" => read(args).and_then(|args| set_balance(engine, args)),
        "volume.restore_balance" => read(args).and_then(|args| restore_balance(engine, args)),
        "volume.tag" => {
            let Tag { volume, set, remove } = read(args)?;
            engine.command(&Command::Tag { volume: volume.clone(), set, remove })?;
            engine.find(&volume).map(|record| engine.view(&record))
        }
        "volume.fault" => read(args).and_then(|args| fault(engine, args)),
        "volume.faults" => {
            let One { volume } = read(args)?;
            let faults = engine.faults(&volume)?;
            Ok(json!({"faults": faults.iter().map(|one| engine.fault_view(one)).collect::<Vec<_>>()}))
        }
        "volume.clear_fault" => {
            let ClearFault { volume, fault } = read(args)?;
            engine.clear_faults(&volume, fault.as_deref()).map(|cleared| json!({"cleared": cleared}))
        }
        "volume.fail_member" | "volume.slow_member" | "volume.restore_member" | "volume.replace_member" => member(engine, call, read(args)?),
        "volume.metrics" => read(args).and_then(|args| metrics(engine, args)),
        "volume.record" => read(args).and_then(|args| record(engine, args)),
        "volume.record_stop" => read::<One>(args).and_then(|args| record_stop(engine, &args.volume)),
        other => Err(bad_input(other, "is no call", format!("The calls are {}.", CALLS.join(", ")))),
    }
}

fn create(engine: &Arc<Engine>, args: Create) -> Outcome<Value> {
    let Create { spec, name, tags, as_of, balance_percent } = args;
    let record = engine.create(&Command::CreateVolume { spec, name, tags, as_of, balance_percent })?;
    Ok(engine.view(&record))
}

fn list(engine: &Arc<Engine>, args: List) -> Outcome<Value> {
    let records = match args.volumes {
        Some(wanted) => wanted.iter().map(|volume| engine.find(volume)).collect::<Outcome<Vec<_>>>()?,
        None => engine.lab(|lab| lab.volumes.values().cloned().collect()),
    };
    Ok(json!({"volumes": records.iter().map(|record| engine.view(record)).collect::<Vec<_>>()}))
}

fn modifications(engine: &Arc<Engine>, args: Maybe) -> Outcome<Value> {
    let now = engine.lab_ms();
    let shown = engine.modifications(args.volume.as_deref())?.into_iter().map(|(record, one)| {
        let mut shown = view::modification(&one, now);
        shown["volume"] = json!(record.id.as_str());
        shown
    });
    Ok(json!({"modifications": shown.collect::<Vec<_>>()}))
}

fn set_balance(engine: &Arc<Engine>, args: SetBalance) -> Outcome<Value> {
    let SetBalance { volume, percent, member } = args;
    engine.command(&Command::SetBalance { volume: volume.clone(), member, percent })?;
    engine.change_model(&volume, |device| ModelChange::Balance { device, member: member.map(|member| member as usize), percent })?;
    engine.balance_view(&volume)
}

fn restore_balance(engine: &Arc<Engine>, args: RestoreBalance) -> Outcome<Value> {
    let wrong = || bad_input("state", "is not what volume.balance gives", "Give the `state` of `headrace volume balance --save`.");
    if args.state["format"] != "headrace-balance/1" {
        return Err(wrong());
    }
    let members = args.state["members"].as_array().ok_or_else(wrong)?;
    let record = engine.find(&args.volume)?;
    if members.len() != record.members.len() {
        return Err(bad_input(
            "state",
            format!("is of {} members, {} has {}", members.len(), record.label(), record.members.len()),
            "Give one of this volume.",
        ));
    }
    for (index, member) in members.iter().enumerate().filter(|(_, member)| !member.is_null()) {
        let percent = member["percent"].as_f64().ok_or_else(wrong)?;
        set_balance(engine, SetBalance { volume: args.volume.clone(), percent, member: Some(index as u32) })?;
    }
    engine.balance_view(&args.volume)
}

fn fault(engine: &Arc<Engine>, args: Fault) -> Outcome<Value> {
    let Fault { volume, kind, in_s, seconds, extra_ms, every, op, member, caps_percent, seed } = args;
    let op = match op.as_deref() {
        None | Some("any") => None,
        Some("read") => Some(Op::Read),
        Some("write") => Some(Op::Write),
        Some(other) => return Err(bad_input(other, "is no operation: read, write or any", "Name one of them.")),
    };
    let set = engine.fault(&volume, &FaultWish { kind, in_s, seconds, extra_ms, every, op, member, caps_percent, seed })?;
    Ok(json!({"fault": engine.fault_view(&set)}))
}

fn member(engine: &Arc<Engine>, call: &str, args: MemberCall) -> Outcome<Value> {
    let MemberCall { volume, member, caps_percent, extra_ms, mib_s } = args;
    let named = volume.clone();
    let command = match call {
        "volume.fail_member" => Command::FailMember { volume, member },
        "volume.restore_member" => Command::RestoreMember { volume, member },
        "volume.replace_member" => Command::ReplaceMember { volume, member, mib_s },
        _ => Command::SlowMember { volume, member, caps_percent: caps_percent.unwrap_or(100.0), extra_ms: extra_ms.unwrap_or(0.0) },
    };
    engine.member(&command, &named, member).map(|record| engine.view(&record))
}

fn metrics(engine: &Arc<Engine>, args: Metrics) -> Outcome<Value> {
    let record = engine.find(&args.volume)?;
    let resolution = match args.resolution.as_deref() {
        None | Some("second") => Resolution::Second,
        Some("minute") => Resolution::Minute,
        Some(other) => return Err(bad_input(other, "is no resolution: second or minute", "Name one of them.")),
    };
    let rows = engine.metrics.rows(record.id.as_str(), args.member, resolution, args.since, args.last).map_err(|error| of_io("reading metrics", &error))?;
    Ok(json!({"columns": COLUMNS, "rows": rows.iter().map(|row| row.to_json()).collect::<Vec<_>>()}))
}

fn record(engine: &Arc<Engine>, args: Record) -> Outcome<Value> {
    let found = engine.find(&args.volume)?;
    engine.slot(&found)?;
    let path = match args.path {
        Some(path) if path.is_absolute() => path,
        Some(path) => return Err(bad_input(path.display().to_string(), "must be a path from the root: the daemon has another folder", "Write it whole.")),
        None => engine.folder.join("records").join(format!("{}-{}.rec", found.id, view::lab_time(engine.lab_ms()).replace(':', ""))),
    };
    engine.shelf().record(&path).map_err(|error| of_io(format!("recording to {}", path.display()), &error))?;
    Ok(json!({"path": path.display().to_string()}))
}

fn record_stop(engine: &Arc<Engine>, volume: &str) -> Outcome<Value> {
    // The record is of all volumes of the lab; a name that is none of them is a mistake all the same.
    engine.find(volume)?;
    let (path, outcome) =
        engine.shelf().stop_recording().ok_or_else(|| bad_input("record", "none is being written", "Begin one with `headrace volume record VOL start`."))?;
    let requests = outcome.map_err(|error| of_io(format!("writing {}", path.display()), &error))?;
    Ok(json!({"path": path.display().to_string(), "requests": requests}))
}

impl Engine {
    /// A change of the model of one volume.
    pub(crate) fn change_model(&self, volume: &str, change: impl FnOnce(usize) -> ModelChange) -> Outcome<()> {
        let slot = self.slot(&self.find(volume)?)?;
        self.shelf().change(&change(slot));
        Ok(())
    }
}
