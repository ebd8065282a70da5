//! Faults of seconds, members that are slow, lost or rebuilt, and power cuts.

use crate::engine::parts::{lock, random};
use crate::engine::volume_files::member_data_of;
use crate::engine::volumes::Volumes;
use crate::problem::{bad_input, could_not, from_io, refused, Outcome};
use headrace_catalog::RaidLevel;
use headrace_control::{fault_id, Command, ErrorKind, MemberState, Slowness, VolumeId, VolumeRecord, VolumeStatus, MOST_EXTRA_MS};
use headrace_device::fault_injector::{Fault, FaultKind};
use headrace_device::AttachedVolume;
use headrace_model::rates::Degradation;
use headrace_model::record::HostChange as ModelChange;
use headrace_model::{Io, Nanos, Op};
use headrace_protocol::arguments::FaultRequest;
use headrace_store::raid::{MemberData, Raid, REBUILD_STEP};
use headrace_store::{Backing, CutReport};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest fault, s: a week.
const MOST_SECONDS: f64 = 7.0 * 86_400.0;
/// A degraded minute as published: a tenth of the caps, 300 ms a request (docs/semantics.md,
/// degradation).
const DEGRADED_SECONDS: f64 = 60.0;
const DEGRADED_PERCENT: f64 = 10.0;
const DEGRADED_MS: f64 = 300.0;
/// Latency a fault adds where none is named, ms: a guess: a user clearly notices it.
const LATENCY_MS: f64 = 100.0;
/// A power cut without a wait would find nothing that is not flushed.
const CUT_AFTER_S: f64 = 1.0;
/// Time between two looks at whether a device that waits for its power cut is still attached, ns: a
/// guess, far below a user's patience.
const CUT_LOOK_NS: u64 = 100_000_000;
/// Faults of one volume: each is looked at for every request. A guess.
const MOST_FAULTS: usize = 256;
/// Interval at which the progress of a rebuild is written to the journal.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Wait of a rebuild after an error, as of a full disk. A guess.
const RETRY_AFTER: Duration = Duration::from_secs(2);

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

fn check_range(name: &str, value: Option<f64>, default: f64, least: f64, most: f64) -> Outcome<f64> {
    let value = value.unwrap_or(default);
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(bad_input(format!("{name} = {value}"), format!("must be {least} to {most}"), "Give it in the unit of its name."))
}

/// Returns the name of a fault, by which callers know it; the fault injector knows it by number.
fn fault_name(id: u64) -> String {
    fault_id(&mut || id)
}

fn degradation(slow: Slowness, from: Nanos, until: Nanos) -> Degradation {
    let Slowness { caps_per_mille, extra_latency_us } = slow;
    Degradation { from, until, caps_per_mille: u64::from(caps_per_mille), extra_latency: Nanos::from_micros(extra_latency_us) }
}

/// Returns the operations a fault is for; None for reads and writes.
fn parse_operation(named: Option<&str>) -> Outcome<Option<Op>> {
    match named {
        None | Some("any") => Ok(None),
        Some("read") => Ok(Some(Op::Read)),
        Some("write") => Ok(Some(Op::Write)),
        Some(other) => Err(bad_input(other, "is not an operation: read, write or any", "Name one of them.")),
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// A step of a rebuild.
#[derive(Debug)]
pub enum RebuildStep {
    /// The bytes from `offset` on are filled, `written` of them not with holes.
    Done {
        /// First byte on the member.
        offset: u64,
        /// Bytes written.
        written: u64,
    },
    /// Something failed, and is about to be tried again.
    Failed(io::Error),
}

/// Fills a member of an array from the others and flushes it. Returns false if `goes_on`, which
/// gets every step, ended it.
pub fn fill_member(raid: &Raid, member: usize, mut goes_on: impl FnMut(RebuildStep) -> bool) -> bool {
    loop {
        let mut offset = 0;
        while offset < raid.member_bytes() {
            let (step, filled) = match raid.rebuild_step(member, offset) {
                Ok(written) => (RebuildStep::Done { offset, written }, u64::from(REBUILD_STEP)),
                Err(error) => (RebuildStep::Failed(error), 0),
            };
            if !goes_on(step) {
                return false;
            }
            offset += filled;
        }
        // Only what is on the disk may be called rebuilt. The kernel may drop what it could not
        // write, so after a failure all is written again.
        match raid.flush() {
            Ok(()) => return true,
            Err(error) => {
                if !goes_on(RebuildStep::Failed(error)) {
                    return false;
                }
            }
        }
    }
}

impl Volumes {
    fn attached_of(&self, record: &VolumeRecord) -> Outcome<Arc<AttachedVolume>> {
        let attached = lock(&self.files).get(&record.id).and_then(|files| files.attached.clone());
        attached
            .ok_or_else(|| refused(ErrorKind::IncorrectState, record.label(), "is not attached", "Attach it first: a fault changes what its device answers."))
    }

    /// Sets a fault, and returns it with its exact times.
    pub fn set_fault(self: &Arc<Self>, request: &FaultRequest) -> Outcome<FaultSet> {
        let record = self.ledger.find(&request.volume)?;
        let op = parse_operation(request.op.as_deref())?;
        let in_s = check_range("in_s", request.in_s, if request.kind == "power-cut" { CUT_AFTER_S } else { 0.0 }, 0.0, MOST_SECONDS)?;
        let seconds = check_range("seconds", request.seconds, if request.kind == "pause" { 1.0 } else { DEGRADED_SECONDS }, 0.001, MOST_SECONDS)?;
        let from = self.devices.clock.now() + nanos(in_s);
        let id = random();
        let set = FaultSet { id: fault_name(id), kind: request.kind.clone(), from, until: from + nanos(seconds), seed: None };
        let kind = match request.kind.as_str() {
            "pause" => FaultKind::Pause,
            "latency" => FaultKind::Latency((check_range("extra_ms", request.extra_ms, LATENCY_MS, 0.001, MOST_EXTRA_MS)? * 1e6) as u64),
            "error" => FaultKind::Error(request.every.filter(|&every| every > 0).unwrap_or(1)),
            "degraded" => return self.degrade(&record, request, set),
            "power-cut" => return self.cut_power(&record, request, set),
            other => return Err(bad_input(other, "is not a fault: pause, latency, error, degraded or power-cut", "Name one of them.")),
        };
        if request.member.is_some() {
            return Err(bad_input(request.kind.as_str(), "stands before the whole device", "Leave the member out, or use degraded, or slow the member."));
        }
        let attached = self.attached_of(&record)?;
        if attached.faults.faults(self.devices.clock.now()).len() >= MOST_FAULTS {
            let rule = format!("has {MOST_FAULTS} faults already");
            return Err(refused(ErrorKind::LimitExceeded, record.label(), rule, "Clear some."));
        }
        attached.faults.add(Fault { id, kind, op, from, until: set.until });
        Ok(set)
    }

    /// Degrades one member, or all, in the model for the time of the fault.
    fn degrade(&self, record: &VolumeRecord, request: &FaultRequest, set: FaultSet) -> Outcome<FaultSet> {
        let slow = Slowness::new(request.caps_percent.unwrap_or(DEGRADED_PERCENT), request.extra_ms.unwrap_or(DEGRADED_MS))?;
        let event = degradation(slow, set.from, set.until);
        let device = self.device_number(record)?;
        let chosen = match request.member {
            Some(member) => std::iter::once(record.member_index(member)?).collect(),
            None => (0..record.members.len()).collect::<Vec<_>>(),
        };
        for member in chosen {
            self.devices.change(&ModelChange::Degrade { device, member, event });
        }
        Ok(set)
    }

    /// Arms a power cut: writes can be lost from now on, and at its time the power goes.
    fn cut_power(self: &Arc<Self>, record: &VolumeRecord, request: &FaultRequest, set: FaultSet) -> Outcome<FaultSet> {
        // A detach ends the cut of the device that it takes: not between a look and the arming.
        let _work = lock(&self.work);
        let attached = self.attached_of(record)?;
        let power = lock(&self.files).get(&record.id).map(|files| files.power.clone());
        let power = power.ok_or_else(|| could_not(record.label(), "its files are not open", "See the daemon's log."))?;
        if attached.faults.is_off() {
            return Err(refused(ErrorKind::IncorrectState, record.label(), "is without power already", "Detach it, and attach it again."));
        }
        if power.is_armed() {
            return Err(refused(ErrorKind::IncorrectState, record.label(), "has a power cut coming", "Wait for it, or detach the volume."));
        }
        power.arm().map_err(|error| from_io("flushing before the power cut", &error))?;
        let seed = request.seed.unwrap_or_else(random);
        let (volumes, at, id) = (self.clone(), set.from, record.id.clone());
        std::thread::spawn(move || {
            if !volumes.switch_off(&id, &attached, at) {
                return;
            }
            match power.cut(seed) {
                Ok(CutReport { unflushed, lost, torn }) => tracing::info!(volume = id.as_str(), unflushed, lost, torn, seed, "power cut"),
                Err(error) => tracing::error!(volume = id.as_str(), "power cut: {error}"),
            }
        });
        // Off until it is attached again.
        Ok(FaultSet { seed: Some(seed), until: Nanos::NEVER, ..set })
    }

    /// Waits for the time of a power cut and switches the device off. Returns false if the device
    /// was taken away before: the cut ended with it, whether or not the volume is attached again.
    fn switch_off(&self, id: &VolumeId, device: &Arc<AttachedVolume>, at: Nanos) -> bool {
        loop {
            let wait = at.0.saturating_sub(self.devices.clock.now().0);
            let files = lock(&self.files);
            let attached = files.get(id).and_then(|files| files.attached.as_ref());
            if !attached.is_some_and(|attached| Arc::ptr_eq(attached, device)) {
                return false;
            }
            if wait == 0 {
                // Under the lock: a detach sees that the power is off, and waits for the cut.
                device.faults.set_power(false);
                return true;
            }
            drop(files);
            std::thread::sleep(Duration::from_nanos(wait.min(CUT_LOOK_NS)));
        }
    }

    /// Returns the faults of a volume's device that have not ended.
    pub fn faults(&self, volume: &str) -> Outcome<Vec<FaultSet>> {
        let record = self.ledger.find(volume)?;
        let Some(attached) = lock(&self.files).get(&record.id).and_then(|files| files.attached.clone()) else { return Ok(Vec::new()) };
        let mut faults: Vec<FaultSet> = attached.faults.faults(self.devices.clock.now()).iter().map(describe_fault).collect();
        if attached.faults.is_off() {
            faults.push(FaultSet { id: "power".into(), kind: "power-cut".into(), from: Nanos::ZERO, until: Nanos::NEVER, seed: None });
        }
        Ok(faults)
    }

    /// Ends one fault, or with None all of them and every degradation; returns the number of faults
    /// ended, degradations not counted.
    pub fn clear_faults(&self, volume: &str, fault: Option<&str>) -> Outcome<usize> {
        let record = self.ledger.find(volume)?;
        let attached = lock(&self.files).get(&record.id).and_then(|files| files.attached.clone());
        let Some(fault) = fault else {
            let device = self.device_number(&record)?;
            for (member, entry) in record.members.iter().enumerate() {
                self.devices.change(&ModelChange::Recover { device, member });
                self.slow_in_model(device, member, &entry.state);
            }
            return Ok(attached.map_or(0, |attached| attached.faults.clear(None)));
        };
        let active = attached
            .as_ref()
            .and_then(|attached| attached.faults.faults(self.devices.clock.now()).into_iter().find(|candidate| fault_name(candidate.id) == fault));
        match (attached, active) {
            (Some(attached), Some(active)) => Ok(attached.faults.clear(Some(active.id))),
            _ => Err(refused(ErrorKind::NotFound, fault, "is not a fault of this volume's device", "See `headrace volume fault`.")),
        }
    }

    /// Loses, slows, restores or replaces a member, in the ledger, the model and the array, and
    /// returns the record afterwards.
    pub fn change_member(self: &Arc<Self>, command: &Command) -> Outcome<VolumeRecord> {
        let (Command::FailMember { volume, member }
        | Command::SlowMember { volume, member, .. }
        | Command::RestoreMember { volume, member }
        | Command::ReplaceMember { volume, member, .. }) = command
        else {
            return Err(could_not("member", "this command is of no member", "Report it."));
        };
        let _work = lock(&self.work);
        self.ledger.command(command)?;
        let record = self.ledger.find(volume)?;
        let index = *member as usize;
        let device = self.device_number(&record)?;
        self.devices.change(&ModelChange::Recover { device, member: index });
        let raid = lock(&self.files).get(&record.id).and_then(|files| files.raid.clone());
        // A lost member may take a rebuild with it: all are set.
        for (index, entry) in record.members.iter().enumerate() {
            let state = member_data_of(&entry.state);
            // The model knows no rebuild: until then the array counts the member as lost.
            self.devices.change(&ModelChange::Failed { device, member: index, failed: state != MemberData::Good });
            if let Some(raid) = &raid {
                raid.set_member(index, state);
            }
        }
        self.slow_in_model(device, index, &record.members[index].state);
        if matches!(record.members[index].state, MemberState::Rebuilding { .. }) {
            if let Some(raid) = &raid {
                // The rebuild goes over all of it again: this only gives the space back sooner.
                if let Err(error) = raid.empty_member(index) {
                    tracing::warn!(volume = record.id.as_str(), member = index, "emptying: {error}");
                }
            }
            self.start_rebuild(&record, index);
        }
        Ok(record)
    }

    pub(crate) fn slow_in_model(&self, device: usize, member: usize, state: &MemberState) {
        if let MemberState::Slow { caps_per_mille, extra_latency_us } = *state {
            let event = degradation(Slowness { caps_per_mille, extra_latency_us }, Nanos::ZERO, Nanos::NEVER);
            self.devices.change(&ModelChange::Degrade { device, member, event });
        }
    }

    /// Goes on with what a restart ended: from the beginning, since the last writes may not have
    /// reached the disk.
    pub fn resume_rebuilds(self: &Arc<Self>) {
        for record in self.ledger.lab(|lab| lab.volumes.values().cloned().collect::<Vec<_>>()) {
            for (member, entry) in record.members.iter().enumerate() {
                if matches!(entry.state, MemberState::Rebuilding { .. }) {
                    self.start_rebuild(&record, member);
                }
            }
        }
    }

    /// Starts the thread that rebuilds a member.
    fn start_rebuild(self: &Arc<Self>, record: &VolumeRecord, member: usize) {
        let (volumes, record) = (self.clone(), record.clone());
        std::thread::spawn(move || match volumes.rebuild(&record, member) {
            Ok(true) => tracing::info!(volume = record.id.as_str(), member, "rebuilt"),
            Ok(false) => {}
            Err(problem) => tracing::error!(volume = record.id.as_str(), member, "rebuild: {}: {}", problem.value, problem.rule),
        });
    }

    /// Returns true while a member of `record` is to be filled. `fail` and `replace`, which may
    /// come between two looks, begin another rebuild, and end the one before.
    fn is_rebuilding(&self, record: &VolumeRecord, member: usize) -> bool {
        let is_same = |current: &VolumeRecord| {
            let is_usable = matches!(current.status, VolumeStatus::Available | VolumeStatus::InUse);
            let current = &current.members[member];
            is_usable && current.replaced == record.members[member].replaced && matches!(current.state, MemberState::Rebuilding { .. })
        };
        !self.ledger.is_stopping() && self.ledger.lab(|lab| lab.volumes.get(&record.id).is_some_and(is_same))
    }

    /// Fills a member from the others, as fast as the model lets it. Returns false if the rebuild
    /// was ended before, by a command or by the end of the lab.
    fn rebuild(&self, record: &VolumeRecord, member: usize) -> Outcome<bool> {
        let Some((device_number, raid)) = self.files_of(record, |files| Some((files.device_number, files.raid.clone()?)))? else { return Ok(false) };
        let MemberState::Rebuilding { mib_s, .. } = record.members[member].state else { return Ok(false) };
        let (begun, mut reported) = (Instant::now(), Instant::now());
        let (id, index) = (record.id.to_string(), member as u32);
        let is_filled = fill_member(&raid, member, |step| {
            match step {
                RebuildStep::Done { offset, written } => {
                    let done_bytes = (offset + u64::from(REBUILD_STEP)).min(raid.member_bytes());
                    if written > 0 {
                        self.charge(device_number, record, member, offset);
                    }
                    if let Some(most) = mib_s.filter(|_| written > 0) {
                        let due = Duration::from_secs_f64(done_bytes as f64 / (most << 20) as f64);
                        std::thread::sleep(due.saturating_sub(begun.elapsed()).min(Duration::from_secs(1)));
                    }
                    if reported.elapsed() >= PROGRESS_EVERY && self.is_rebuilding(record, member) {
                        reported = Instant::now();
                        // The next report makes up for one that cannot be noted.
                        if let Err(problem) = self.ledger.command(&Command::MemberRebuilding { volume: id.clone(), member: index, done_bytes }) {
                            tracing::warn!(volume = id.as_str(), member, "progress of a rebuild: {}: {}", problem.value, problem.rule);
                        }
                    }
                }
                RebuildStep::Failed(error) => {
                    tracing::warn!(volume = id.as_str(), member, "rebuilding: {error}");
                    std::thread::sleep(RETRY_AFTER);
                }
            }
            self.is_rebuilding(record, member)
        });
        loop {
            let work = lock(&self.work);
            if !is_filled || !self.is_rebuilding(record, member) {
                return Ok(false);
            }
            match self.ledger.command(&Command::MemberRebuilt { volume: id.clone(), member: index }) {
                Ok(_) => {
                    raid.set_member(member, MemberData::Good);
                    self.devices.change(&ModelChange::Failed { device: device_number, member, failed: false });
                    return Ok(true);
                }
                Err(problem) => tracing::warn!(volume = id.as_str(), member, "end of a rebuild: {}: {}", problem.value, problem.rule),
            }
            drop(work);
            std::thread::sleep(RETRY_AFTER);
        }
    }

    /// Charges the members with a step of a rebuild: a read of the members that have the data, then
    /// a write of the new member.
    fn charge(&self, device_number: usize, record: &VolumeRecord, member: usize, offset: u64) {
        let count = record.members.len();
        let sources: Vec<usize> = match record.spec.raid {
            Some(RaidLevel::Raid5) => (0..count).filter(|&other| other != member).collect(),
            Some(RaidLevel::Raid10) => vec![member ^ 1],
            // The first half of a member is also on the next member, its second half comes from the
            // member before.
            Some(RaidLevel::Raid10F2) if offset >= (record.spec.members[member].size_gib << 30) / 2 => vec![(member + count - 1) % count],
            Some(RaidLevel::Raid10F2) => vec![(member + 1) % count],
            _ => vec![(member + 1) % count],
        };
        let wait = |members: &[usize], op: Op| {
            let io = Io { op, offset, bytes: REBUILD_STEP };
            let done = members.iter().filter_map(|&member| self.devices.decide_member(device_number, member, io)).map(|(_, decision)| decision.complete).max();
            let remaining = done.unwrap_or(Nanos::ZERO).0.saturating_sub(self.devices.clock.now().0);
            std::thread::sleep(Duration::from_nanos(remaining));
        };
        wait(&sources, Op::Read);
        wait(&[member], Op::Write);
    }
}

/// Returns a fault of the injector as callers see it.
fn describe_fault(fault: &Fault) -> FaultSet {
    let kind = match fault.kind {
        FaultKind::Pause => "pause",
        FaultKind::Latency(_) => "latency",
        FaultKind::Error(_) => "error",
    };
    FaultSet { id: fault_name(fault.id), kind: kind.into(), from: fault.from, until: fault.until, seed: None }
}
