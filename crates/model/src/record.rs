//! The journal of decisions: every request with its arrival and what the model decided, every change made to the model meanwhile, as a file.
//!
//! A wall-clock device writes it; replaying the arrivals through the same model on a virtual clock must give the same decisions to the nanosecond. How late the wall
//! clock answered stands beside each answer and takes no part in that.
//!
//! ```text
//!  "HRREC1\n"  header length u32  check u32  header JSON  frames ...
//!  frame: 1  device u16  member u8 (255: the device)  op u8  cap u8  verdict u8  bytes u32  offset u64  now u64  start u64  complete u64
//!         2  now u64  length u32  check u32  change JSON
//!         3  late u32 (ns, at most 4.29 s)
//! ```
//! Numbers are little-endian; a check is the 32-bit FNV-1a of the text behind it. A file may end inside a frame (its writer was killed): what was whole counts.

use crate::fault::Degradation;
use crate::host::{Device, Host, SavedDevice};
use crate::instance::{Instance, InstanceState};
use crate::io::{Cap, Decision, Io, Op, Verdict};
use crate::modification::Modification;
use crate::time::Nanos;
use headrace_catalog::InstanceLimits;
use serde::{Deserialize, Serialize};
use std::fmt;

const MAGIC: &[u8; 7] = b"HRREC1\n";
/// No header or change is larger: 64 arrays of 32 members stay far below.
const MOST_JSON: u32 = 64 << 20;
const REQUEST: u8 = 1;
const REQUEST_BYTES: usize = 43;
const WHOLE: u8 = 255;
const CHANGE: u8 = 2;
const LATE: u8 = 3;

/// An instance at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedInstance {
    /// Its limits.
    pub limits: InstanceLimits,
    /// Levels.
    pub state: InstanceState,
}

/// A host at rest: what a record begins with, and what a daemon keeps over a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedHost {
    /// The moment it was saved.
    pub now: Nanos,
    /// Limits all devices share.
    pub instance: Option<SavedInstance>,
    /// Devices by slot; none where nothing is attached.
    pub devices: Vec<Option<SavedDevice>>,
}

/// Something done to the model from outside while it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A device takes a slot.
    Put {
        /// Slot.
        device: usize,
        /// What comes.
        saved: Box<SavedDevice>,
    },
    /// Credits of one member, or of all.
    Balance {
        /// Slot.
        device: usize,
        /// Member; none: all.
        member: Option<usize>,
        /// 0-100.
        percent: f64,
    },
    /// Another instance; none: no limits beyond the volumes'.
    Instance {
        /// What comes.
        saved: Option<Box<SavedInstance>>,
    },
    /// Burst buckets of the instance.
    InstanceBalance {
        /// 0-100.
        percent: f64,
    },
    /// A degradation event of a member.
    Degrade {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
        /// When and how much.
        event: Degradation,
    },
    /// A member has no degradation events any more.
    Recover {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
    },
    /// A member is lost, or back.
    Failed {
        /// Slot.
        device: usize,
        /// Member.
        member: usize,
        /// Lost.
        failed: bool,
    },
    /// A modification of every member, in order.
    Modify {
        /// Slot.
        device: usize,
        /// One a member.
        targets: Vec<Modification>,
    },
}

/// A frame of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A request and its answer.
    Request {
        /// Slot of the device.
        device: u16,
        /// Asked of one member alone (a rebuild), not of the device.
        member: Option<u8>,
        /// Arrival.
        now: Nanos,
        /// What was asked.
        io: Io,
        /// What was decided.
        decision: Decision,
    },
    /// A change.
    Change {
        /// When.
        now: Nanos,
        /// What.
        change: Change,
    },
    /// How late one answer left the wall clock, ns.
    Late(u32),
}

/// The instance of a record, with the saved second that rested ones have: the same at its beginning and in a change.
fn recorded_instance(saved: &SavedInstance) -> Instance {
    let mut instance = Instance::new(&saved.limits, true);
    instance.restore(&saved.state);
    instance
}

impl Host {
    /// Makes a change at `now`; those of slots that do not exist change nothing.
    pub fn change(&mut self, now: Nanos, change: &Change) {
        let member_of = |host: &mut Host, device: usize, member: usize, act: &mut dyn FnMut(&mut crate::Volume)| {
            if let Some(volume) = host.devices.get_mut(device).and_then(|device| device.members_mut().get_mut(member)) {
                act(volume);
            }
        };
        // What was due before comes first, whether or not anything was asked meanwhile.
        self.advance(now);
        match change {
            // No request could name it.
            Change::Put { device, .. } if *device > usize::from(u16::MAX) => {}
            Change::Put { device, saved } => {
                let fresh = Device::from_saved(saved, now);
                while self.devices.len() < *device {
                    self.devices.push(Device::from_saved(&SavedDevice { storage: saved.storage.clone(), members: Vec::new() }, now));
                }
                match self.devices.get_mut(*device) {
                    Some(slot) => *slot = fresh,
                    None => self.devices.push(fresh),
                }
            }
            Change::Balance { device, member, percent } => {
                let Some(device) = self.devices.get_mut(*device) else { return };
                let chosen = device.members_mut().iter_mut().enumerate().filter(|(index, _)| member.is_none_or(|wanted| wanted == *index));
                chosen.for_each(|(_, volume)| {
                    volume.set_balance_percent(now, *percent);
                });
            }
            Change::Instance { saved } => {
                self.instance = saved.as_deref().map(recorded_instance);
            }
            Change::InstanceBalance { percent } => {
                if let Some(instance) = &mut self.instance {
                    instance.set_balance_percent(now, *percent);
                }
            }
            Change::Degrade { device, member, event } => member_of(self, *device, *member, &mut |volume| volume.degrade(now, [*event])),
            Change::Recover { device, member } => member_of(self, *device, *member, &mut |volume| volume.recover(now)),
            Change::Failed { device, member, failed } => member_of(self, *device, *member, &mut |volume| volume.set_failed(*failed)),
            Change::Modify { device, targets } => {
                for (member, target) in targets.iter().enumerate() {
                    member_of(self, *device, member, &mut |volume| {
                        volume.modify(now, target.clone());
                    });
                }
            }
        }
    }

    /// The host a record begins with. A record is of real devices, whose volumes and instances have the saved second.
    pub fn from_saved(saved: &SavedHost) -> Host {
        let instance = saved.instance.as_ref().map(recorded_instance);
        let mut host = Host { instance, devices: Vec::new() };
        for (slot, device) in saved.devices.iter().enumerate() {
            if let Some(device) = device {
                host.change(saved.now, &Change::Put { device: slot, saved: Box::new(device.clone()) });
            }
        }
        host
    }
}

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARecord(String);

impl fmt::Display for NotARecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotARecord {}

fn wrong<T>(words: impl Into<String>) -> Result<T, NotARecord> {
    Err(NotARecord(words.into()))
}

impl SavedHost {
    /// The beginning of a record of this host.
    pub fn encode(&self) -> Vec<u8> {
        let json = json_of(self);
        let mut bytes = MAGIC.to_vec();
        push_text(&mut bytes, &json);
        bytes
    }

    /// The host a record begins with, and how many bytes that took; none while `bytes` are too few to tell.
    pub fn decode(bytes: &[u8]) -> Result<Option<(SavedHost, usize)>, NotARecord> {
        let begun = bytes.len().min(MAGIC.len());
        if bytes[..begun] != MAGIC[..begun] {
            return wrong("it does not begin as a record of version 1 does");
        }
        let Some((json, used)) = text_at(bytes, MAGIC.len())? else { return Ok(None) };
        match serde_json::from_slice::<SavedHost>(json) {
            Ok(host) => host.devices.iter().flatten().try_for_each(sound).map(|()| Some((host, used))),
            Err(error) => wrong(format!("its header cannot be read: {error}")),
        }
    }
}

impl Frame {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Request { device, member, now, io, decision } => {
                out.push(REQUEST);
                out.extend(device.to_le_bytes());
                let cap = Cap::ALL.iter().position(|&cap| cap == decision.cap).unwrap_or(0) as u8;
                out.extend([member.unwrap_or(WHOLE), io.op as u8, cap, u8::from(decision.verdict == Verdict::Failed)]);
                out.extend(io.bytes.to_le_bytes());
                [io.offset, now.0, decision.start.0, decision.complete.0].iter().for_each(|number| out.extend(number.to_le_bytes()));
            }
            Frame::Change { now, change } => {
                let json = json_of(change);
                out.push(CHANGE);
                out.extend(now.0.to_le_bytes());
                push_text(out, &json);
            }
            Frame::Late(nanos) => {
                out.push(LATE);
                out.extend(nanos.to_le_bytes());
            }
        }
    }

    /// The frame that `bytes` begin with, and how many bytes it took; none while they are too few.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, NotARecord> {
        match bytes.first() {
            None => Ok(None),
            Some(&REQUEST) if bytes.len() < REQUEST_BYTES => Ok(None),
            Some(&REQUEST) => Ok(Some((request(&bytes[..REQUEST_BYTES])?, REQUEST_BYTES))),
            Some(&CHANGE) => {
                let Some(now) = bytes.get(1..9) else { return Ok(None) };
                let Some((json, used)) = text_at(bytes, 9)? else { return Ok(None) };
                match serde_json::from_slice(json) {
                    Ok(Change::Put { saved, .. }) if sound(&saved).is_err() => wrong("a device that is put has members other than its storage says"),
                    Ok(change) => Ok(Some((Frame::Change { now: Nanos(u64_of(now)), change }, used))),
                    Err(error) => wrong(format!("a change cannot be read: {error}")),
                }
            }
            Some(&LATE) => Ok(bytes.get(1..5).map(|late| (Frame::Late(u32_of(late)), 5))),
            Some(other) => wrong(format!("frame of kind {other} is not known")),
        }
    }
}

/// Whether a device can be made of what was saved.
fn sound(saved: &SavedDevice) -> Result<(), NotARecord> {
    match saved.storage.check() {
        Ok(()) if saved.members.len() == saved.storage.members.len() => Ok(()),
        Ok(()) => wrong(format!("a device of {} has {} members", saved.storage, saved.members.len())),
        Err(error) => wrong(error.to_string()),
    }
}

fn request(bytes: &[u8]) -> Result<Frame, NotARecord> {
    let op = match bytes[4] {
        0 => Op::Read,
        1 => Op::Write,
        other => return wrong(format!("operation {other} is neither 0 (read) nor 1 (write)")),
    };
    let Some(&cap) = Cap::ALL.get(usize::from(bytes[5])) else { return wrong(format!("cap {} is not known", bytes[5])) };
    let verdict = if bytes[6] == 0 { Verdict::Ok } else { Verdict::Failed };
    let number = |place: usize| u64_of(&bytes[11 + 8 * place..19 + 8 * place]);
    Ok(Frame::Request {
        device: u16::from_le_bytes([bytes[1], bytes[2]]),
        member: (bytes[3] != WHOLE).then_some(bytes[3]),
        now: Nanos(number(1)),
        io: Io { op, offset: number(0), bytes: u32_of(&bytes[7..11]) },
        decision: Decision { start: Nanos(number(2)), complete: Nanos(number(3)), cap, verdict },
    })
}

/// A text with its length and check before it, and where it ends; none while `bytes` are too few.
fn text_at(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, NotARecord> {
    let Some(head) = bytes.get(at..at + 8) else { return Ok(None) };
    let (length, check) = (u32_of(&head[..4]), u32_of(&head[4..]));
    if length > MOST_JSON {
        return wrong(format!("a text of {length} bytes is longer than any this program writes"));
    }
    let end = at + 8 + length as usize;
    match bytes.get(at + 8..end) {
        Some(text) if check_of(text) != check => wrong("a text does not match its check: the file is damaged"),
        text => Ok(text.map(|text| (text, end))),
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(check_of(text).to_le_bytes());
    out.extend(text);
}

fn check_of(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |check: u32, &byte| (check ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn json_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is saved has neither maps with strange keys nor failing parts")
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
