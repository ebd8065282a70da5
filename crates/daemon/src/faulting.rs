//! Faults of seconds, members that are slow, lost or rebuilt, and power cuts.

use crate::engine::{held, random, Engine};
use crate::opened::member_of;
use crate::problem::{bad_input, busy, could_not, of_io, Outcome};
use headrace_catalog::RaidLevel;
use headrace_control::{fault_id, Command, MemberState, VolumeRecord, MOST_EXTRA_MS};
use headrace_device::gate::{Fault, Kind};
use headrace_device::raid::{Member, REBUILD_STEP};
use headrace_device::Line;
use headrace_model::rates::Degradation;
use headrace_model::record::HostChange as ModelChange;
use headrace_model::{Io, Nanos, Op};
use headrace_store::power::CutReport;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest fault, s: a week.
const MOST_SECONDS: f64 = 7.0 * 86_400.0;
/// A degraded minute as published: a tenth of the caps, 300 ms a request (docs/semantics.md, degradation).
const DEGRADED_SECONDS: f64 = 60.0;
const DEGRADED_PERCENT: f64 = 10.0;
const DEGRADED_MS: f64 = 300.0;
/// A cut that begins at once would find nothing unflushed.
const CUT_AFTER_S: f64 = 1.0;
const MOST_FAULTS: usize = 256;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What a fault asks for.
#[derive(Clone, Debug, Default)]
pub struct FaultWish {
    /// pause, latency, error, degraded or power-cut.
    pub kind: String,
    /// Begins so many s from now.
    pub in_s: Option<f64>,
    /// Lasts so many s.
    pub seconds: Option<f64>,
    /// ms more for each request.
    pub extra_ms: Option<f64>,
    /// Every so many-th request.
    pub every: Option<u64>,
    /// read or write; none: both.
    pub op: Option<Op>,
    /// One member alone.
    pub member: Option<u32>,
    /// What is left of the caps.
    pub caps_percent: Option<f64>,
    /// Of a power cut.
    pub seed: Option<u64>,
}

/// A fault that was set.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSet {
    /// Id.
    pub id: String,
    /// Kind, as asked.
    pub kind: String,
    /// First moment, device time.
    pub from: Nanos,
    /// First moment after it.
    pub until: Nanos,
    /// Seed of a power cut.
    pub seed: Option<u64>,
}

fn within(name: &str, value: Option<f64>, default: f64, least: f64, most: f64) -> Outcome<f64> {
    let value = value.unwrap_or(default);
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(bad_input(format!("{name} = {value}"), format!("must be {least} to {most}"), "Give it in the unit of its name."))
}

/// The gate counts faults by number, callers name them.
fn fault_name(id: u64) -> String {
    fault_id(&mut || id)
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

impl Engine {
    fn line_of(&self, record: &VolumeRecord) -> Outcome<Arc<Line>> {
        let line = held(&self.volumes).get(&record.id).and_then(|opened| opened.line.clone());
        line.ok_or_else(|| bad_input(record.label(), "is not attached", "Attach it first: faults stand before its device."))
    }

    /// Sets a fault; its exact times are in the answer.
    pub fn fault(self: &Arc<Self>, volume: &str, wish: &FaultWish) -> Outcome<FaultSet> {
        let record = self.find(volume)?;
        let in_s = within("in_s", wish.in_s, if wish.kind == "power-cut" { CUT_AFTER_S } else { 0.0 }, 0.0, MOST_SECONDS)?;
        let seconds = within("seconds", wish.seconds, if wish.kind == "pause" { 1.0 } else { DEGRADED_SECONDS }, 0.001, MOST_SECONDS)?;
        let from = self.shelf.clock.now() + nanos(in_s);
        let id = random();
        let set = FaultSet { id: fault_name(id), kind: wish.kind.clone(), from, until: from + nanos(seconds), seed: None };
        let kind = match wish.kind.as_str() {
            "pause" => Kind::Pause,
            "latency" => Kind::Latency((within("extra_ms", wish.extra_ms, 100.0, 0.001, MOST_EXTRA_MS)? * 1e6) as u64),
            "error" => Kind::Error(wish.every.filter(|&every| every > 0).unwrap_or(1)),
            "degraded" => return self.degrade(&record, wish, set),
            "power-cut" => return self.cut_power(&record, wish, set),
            other => return Err(bad_input(other, "is no fault: pause, latency, error, degraded or power-cut", "Name one of them.")),
        };
        if wish.member.is_some() {
            return Err(bad_input(wish.kind.as_str(), "stands before the whole device", "Leave the member out, or use degraded, or slow the member."));
        }
        let line = self.line_of(&record)?;
        if line.gate.faults(self.shelf.clock.now()).len() >= MOST_FAULTS {
            return Err(bad_input(record.label(), format!("has {MOST_FAULTS} faults already"), "Clear some."));
        }
        line.gate.add(Fault { id, kind, op: wish.op, from, until: set.until });
        Ok(set)
    }

    fn degrade(&self, record: &VolumeRecord, wish: &FaultWish, set: FaultSet) -> Outcome<FaultSet> {
        let caps = within("caps_percent", wish.caps_percent, DEGRADED_PERCENT, 0.1, 100.0)?;
        let extra = within("extra_ms", wish.extra_ms, DEGRADED_MS, 0.0, MOST_EXTRA_MS)?;
        let event = Degradation { from: set.from, until: set.until, caps_per_mille: (caps * 10.0).round() as u64, extra_latency: Nanos((extra * 1e6) as u64) };
        let device = self.slot(record)?;
        let members = record.members.len();
        let chosen = match wish.member {
            Some(member) if member as usize >= members => {
                return Err(bad_input(format!("member {member}"), format!("{} has {members}", record.label()), "Members count from 0."))
            }
            Some(member) => member as usize..member as usize + 1,
            None => 0..members,
        };
        for member in chosen {
            self.shelf.change(&ModelChange::Degrade { device, member, event });
        }
        Ok(set)
    }

    /// From now on writes can be lost; at its time the power goes.
    fn cut_power(self: &Arc<Self>, record: &VolumeRecord, wish: &FaultWish, set: FaultSet) -> Outcome<FaultSet> {
        let line = self.line_of(record)?;
        let power = held(&self.volumes).get(&record.id).map(|opened| opened.power.clone());
        let power = power.ok_or_else(|| could_not(record.label(), "its files are not open", "See the daemon's log."))?;
        if power.is_armed() {
            return Err(busy(record.label(), "has a power cut coming", "Wait for it, or detach the volume."));
        }
        power.arm().map_err(|error| of_io("flushing before the power cut", &error))?;
        let seed = wish.seed.unwrap_or_else(random);
        let (engine, at, id) = (self.clone(), set.from, record.id.clone());
        std::thread::spawn(move || {
            while engine.shelf.clock.now() < at && !engine.is_stopping() {
                std::thread::sleep(Duration::from_nanos(at.0.saturating_sub(engine.shelf.clock.now().0).min(100_000_000)));
            }
            line.gate.set_power(false);
            match power.cut(seed) {
                Ok(CutReport { unflushed, lost, torn }) => tracing::info!(volume = id.as_str(), unflushed, lost, torn, seed, "power cut"),
                Err(error) => tracing::error!(volume = id.as_str(), "power cut: {error}"),
            }
        });
        // Off until it is attached again.
        Ok(FaultSet { seed: Some(seed), until: Nanos::NEVER, ..set })
    }

    /// Faults of a volume's device that have not ended.
    pub fn faults(&self, volume: &str) -> Outcome<Vec<FaultSet>> {
        let record = self.find(volume)?;
        let Some(line) = held(&self.volumes).get(&record.id).and_then(|opened| opened.line.clone()) else { return Ok(Vec::new()) };
        let mut found: Vec<FaultSet> = line.gate.faults(self.shelf.clock.now()).iter().map(described).collect();
        if line.gate.is_off() {
            found.push(FaultSet { id: "power".into(), kind: "power-cut".into(), from: Nanos::ZERO, until: Nanos::NEVER, seed: None });
        }
        Ok(found)
    }

    /// Ends one fault or all, and every degradation with the last; how many ended.
    pub fn clear_faults(&self, volume: &str, fault: Option<&str>) -> Outcome<usize> {
        let record = self.find(volume)?;
        let line = held(&self.volumes).get(&record.id).and_then(|opened| opened.line.clone());
        let Some(fault) = fault else {
            let device = self.slot(&record)?;
            for (member, is) in record.members.iter().enumerate() {
                self.shelf.change(&ModelChange::Recover { device, member });
                self.slow_in_model(device, member, &is.state);
            }
            return Ok(line.map_or(0, |line| line.gate.clear(None)));
        };
        let known = line.as_ref().and_then(|line| line.gate.faults(self.shelf.clock.now()).into_iter().find(|one| fault_name(one.id) == fault));
        match (line, known) {
            (Some(line), Some(known)) => Ok(line.gate.clear(Some(known.id))),
            _ => Err(bad_input(fault, "is no fault of this volume's device", "See `headrace volume faults`.")),
        }
    }

    /// Loses, slows, restores or replaces a member.
    pub fn member(self: &Arc<Self>, command: &Command, volume: &str, member: u32) -> Outcome<VolumeRecord> {
        let _work = held(&self.work);
        self.command(command)?;
        let record = self.find(volume)?;
        let index = member as usize;
        let device = self.slot(&record)?;
        self.shelf.change(&ModelChange::Recover { device, member: index });
        let raid = held(&self.volumes).get(&record.id).and_then(|opened| opened.raid.clone());
        // A lost member may take a rebuild with it: all are set.
        for (index, is) in record.members.iter().enumerate() {
            let state = member_of(&is.state);
            // The model knows no rebuild: until it is over the member is lost to it.
            self.shelf.change(&ModelChange::Failed { device, member: index, failed: state != Member::Good });
            if let Some(raid) = &raid {
                raid.set_member(index, state);
            }
        }
        self.slow_in_model(device, index, &record.members[index].state);
        if matches!(record.members[index].state, MemberState::Rebuilding { .. }) {
            if let Some(raid) = &raid {
                raid.empty_member(index).map_err(|error| of_io(format!("emptying {}", record.member_name(index)), &error))?;
            }
            self.start_rebuild(&record, index);
        }
        Ok(record)
    }

    pub(crate) fn slow_in_model(&self, device: usize, member: usize, state: &MemberState) {
        if let MemberState::Slow { caps_per_mille, extra_latency_us } = *state {
            let event = Degradation {
                from: Nanos::ZERO,
                until: Nanos::NEVER,
                caps_per_mille: u64::from(caps_per_mille),
                extra_latency: Nanos::from_micros(extra_latency_us),
            };
            self.shelf.change(&ModelChange::Degrade { device, member, event });
        }
    }

    /// Goes on with what a restart ended: from the beginning, since what was written last may not have reached the disk.
    pub fn resume_rebuilds(self: &Arc<Self>) {
        for record in self.lab(|lab| lab.volumes.values().cloned().collect::<Vec<_>>()) {
            for (member, is) in record.members.iter().enumerate() {
                if matches!(is.state, MemberState::Rebuilding { .. }) {
                    self.start_rebuild(&record, member);
                }
            }
        }
    }

    fn start_rebuild(self: &Arc<Self>, record: &VolumeRecord, member: usize) {
        let (engine, record) = (self.clone(), record.clone());
        std::thread::spawn(move || match engine.rebuild(&record, member) {
            Ok(true) => tracing::info!(volume = record.id.as_str(), member, "rebuilt"),
            Ok(false) => {}
            Err(problem) => tracing::error!(volume = record.id.as_str(), member, "rebuild: {}: {}", problem.value, problem.rule),
        });
    }

    /// Fills a member from the others, as fast as the model lets it; false when it was ended.
    fn rebuild(&self, record: &VolumeRecord, member: usize) -> Outcome<bool> {
        let opened = held(&self.volumes).get(&record.id).and_then(|opened| Some((opened.slot, opened.raid.clone()?)));
        let Some((slot, raid)) = opened else { return Ok(false) };
        let MemberState::Rebuilding { mib_s, .. } = record.members[member].state else { return Ok(false) };
        let (begun, mut told) = (Instant::now(), Instant::now());
        let (id, index) = (record.id.to_string(), member as u32);
        let mut offset = 0;
        while offset < raid.member_bytes() {
            if self.is_stopping() || raid.member(member) != Member::Rebuilding {
                return Ok(false);
            }
            let written = raid.rebuild_step(member, offset).map_err(|error| of_io(format!("rebuilding {}", record.member_name(member)), &error))?;
            if written > 0 {
                self.charge(slot, record, member, offset);
            }
            offset += u64::from(REBUILD_STEP);
            if let Some(most) = mib_s.filter(|_| written > 0) {
                let due = Duration::from_secs_f64(offset as f64 / (most << 20) as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()).min(Duration::from_secs(1)));
            }
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                self.command(&Command::MemberRebuilding { volume: id.clone(), member: index, done_bytes: offset.min(raid.member_bytes()) })?;
            }
        }
        let _work = held(&self.work);
        if raid.member(member) != Member::Rebuilding {
            return Ok(false);
        }
        self.command(&Command::MemberRebuilt { volume: id, member: index })?;
        raid.set_member(member, Member::Good);
        self.shelf.change(&ModelChange::Failed { device: slot, member, failed: false });
        Ok(true)
    }

    /// What a step costs the members: a read of those it comes from, then a write of the new one, one after the other.
    fn charge(&self, slot: usize, record: &VolumeRecord, member: usize, offset: u64) {
        let count = record.members.len();
        let sources: Vec<usize> = match record.spec.raid {
            Some(RaidLevel::Raid5) => (0..count).filter(|&other| other != member).collect(),
            Some(RaidLevel::Raid10) => vec![member ^ 1],
            // Its first copies lie again on the next, its second copies come from the one before: by halves.
            Some(RaidLevel::Raid10F2) if offset >= (record.spec.members[member].size_gib << 30) / 2 => vec![(member + count - 1) % count],
            Some(RaidLevel::Raid10F2) => vec![(member + 1) % count],
            _ => vec![(member + 1) % count],
        };
        let wait = |members: &[usize], op: Op| {
            let io = Io { op, offset, bytes: REBUILD_STEP };
            let done = members.iter().filter_map(|&member| self.shelf.decide_member(slot, member, io)).map(|(_, decision)| decision.complete).max();
            let left = done.unwrap_or(Nanos::ZERO).0.saturating_sub(self.shelf.clock.now().0);
            std::thread::sleep(Duration::from_nanos(left));
        };
        wait(&sources, Op::Read);
        wait(&[member], Op::Write);
    }
}

fn described(fault: &Fault) -> FaultSet {
    let kind = match fault.kind {
        Kind::Pause => "pause",
        Kind::Latency(_) => "latency",
        Kind::Error(_) => "error",
    };
    FaultSet { id: fault_name(fault.id), kind: kind.into(), from: fault.from, until: fault.until, seed: None }
}
