//! Random commands against a naive lab: a few maps, with the rules written down once more and
//! plainly. Both must accept and refuse the same, with the same kind, and be in the same state
//! after every step. Along the way: deciding changes nothing, and the events alone make the same
//! lab.

use headrace_control::{
    AttachRequest, AttachedDevice, AttachmentState, Command, CreateRequest, DetachRequest, Event, Lab, MemberState, ModificationState, ModificationTimes,
    ModifyRequest, Settings, TagRequest, VolumeStatus,
};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const MODIFYING_MS: u64 = 30_000;
const OPTIMIZING_MS: u64 = 600_000;
const DAY_MS: u64 = 86_400_000;

/// Specifications with what the naive lab must know of them: (text, members, data members, type,
/// member GiB, redundancy group).
const SPECS: [(&str, usize, u64, &str, u64); 7] = [
    ("gp2:100", 1, 1, "gp2", 100),
    ("gp3:200", 1, 1, "gp3", 200),
    ("2xgp2:50", 2, 2, "gp2", 50),
    ("raid1:2xgp3:10", 2, 1, "gp3", 10),
    ("raid5:3xgp2:30", 3, 2, "gp2", 30),
    ("raid10:4xgp3:20", 4, 2, "gp3", 20),
    ("raid10f2:3xgp2:40", 3, 0, "gp2", 40), // 0: three halves
];

#[derive(Clone, Debug)]
enum Act {
    Create(usize, Option<u8>),
    Created,
    Failed,
    Delete,
    Deleted,
    Tag(u8, u8),
    Attach(Option<u8>),
    Attached,
    AttachFailed,
    Detach(bool),
    Busy,
    Detached,
    Modify(Option<u64>, Option<bool>),
    ModifyFailed,
    Balance(Option<u32>, u8),
    Slow(u32),
    Fail(u32),
    Restore(u32),
    Replace(u32),
    Rebuilding(u32, u64),
    Rebuilt(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let member = || 0..4u32;
    prop_oneof![
        3 => (0..SPECS.len(), prop::option::of(0..3u8)).prop_map(|(spec, name)| Act::Create(spec, name)),
        3 => Just(Act::Created),
        1 => Just(Act::Failed),
        1 => Just(Act::Delete),
        1 => Just(Act::Deleted),
        1 => (0..60u8, 0..60u8).prop_map(|(set, remove)| Act::Tag(set, remove)),
        3 => prop::option::of(0..3u8).prop_map(Act::Attach),
        3 => Just(Act::Attached),
        1 => Just(Act::AttachFailed),
        2 => any::<bool>().prop_map(Act::Detach),
        1 => Just(Act::Busy),
        2 => Just(Act::Detached),
        6 => (prop::option::of(1..400u64), prop::option::of(any::<bool>())).prop_map(|(size, gp3)| Act::Modify(size, gp3)),
        1 => Just(Act::ModifyFailed),
        1 => (prop::option::of(member()), 0..=100u8).prop_map(|(member, percent)| Act::Balance(member, percent)),
        1 => member().prop_map(Act::Slow),
        2 => member().prop_map(Act::Fail),
        1 => member().prop_map(Act::Restore),
        2 => member().prop_map(Act::Replace),
        1 => (member(), 0..50_000_000_000u64).prop_map(|(member, bytes)| Act::Rebuilding(member, bytes)),
        1 => member().prop_map(Act::Rebuilt),
    ]
}

/// Steps in time from nothing to a day, at the edges of what happens by itself.
fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 1..60_000u64, Just(MODIFYING_MS), Just(MODIFYING_MS + OPTIMIZING_MS), 0..DAY_MS / 3, Just(DAY_MS - 1), Just(DAY_MS)]
}

fn command(act: &Act, volume: &str) -> Command {
    let (volume, reason) = (volume.to_string(), "because".to_string());
    match act.clone() {
        Act::Create(spec, name) => {
            Command::CreateVolume(CreateRequest { spec: SPECS[spec].0.to_string(), name: name.map(|n| format!("name{n}")), ..CreateRequest::default() })
        }
        Act::Created => Command::Created { volume },
        Act::Failed => Command::VolumeFailed { volume, reason },
        Act::Delete => Command::DeleteVolume { volume },
        Act::Deleted => Command::Deleted { volume },
        Act::Tag(set, remove) => {
            let (set, remove) = ((0..set).map(|n| (format!("k{n}"), "v".to_string())).collect(), (0..remove).map(|n| format!("k{n}")).collect());
            Command::Tag(TagRequest { resources: vec![volume], set, remove, ..TagRequest::default() })
        }
        Act::Attach(name) => {
            let name = name.map(|n| format!("/dev/sd{}", ['f', 'g', 'x'][n as usize]));
            Command::Attach { volume, request: AttachRequest { name, probe: true, ..AttachRequest::default() } }
        }
        Act::Attached => Command::Attached { volume, device: AttachedDevice { device: "/dev/loop9".to_string(), ..AttachedDevice::default() } },
        Act::AttachFailed => Command::AttachFailed { volume, reason },
        Act::Detach(force) => Command::Detach { volume, request: DetachRequest { force, ..DetachRequest::default() } },
        Act::Busy => Command::DetachBusy { volume, reason, waits: false },
        Act::Detached => Command::Detached { volume },
        Act::Modify(size_gib, gp3) => {
            let volume_type = gp3.map(|gp3| if gp3 { "gp3" } else { "gp2" }.to_string());
            Command::Modify { volume, request: ModifyRequest { size_gib, volume_type, iops: None, throughput_mib_s: None, used_gib: None } }
        }
        Act::ModifyFailed => Command::ModifyFailed { volume, reason },
        Act::Balance(member, percent) => Command::SetBalance { volume, member, percent: f64::from(percent) },
        Act::Slow(member) => Command::SlowMember { volume, member, caps_percent: 30.0, extra_ms: 0.02 },
        Act::Fail(member) => Command::FailMember { volume, member },
        Act::Restore(member) => Command::RestoreMember { volume, member },
        Act::Replace(member) => Command::ReplaceMember { volume, member, mib_s: None },
        Act::Rebuilding(member, done_bytes) => Command::MemberRebuilding { volume, member, done_bytes },
        Act::Rebuilt(member) => Command::MemberRebuilt { volume, member },
    }
}

/// `PROPTEST_CASES` asks for more (`make soak`).
#[allow(clippy::disallowed_methods)] // a test is not control
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

type Refusal = &'static str;

/// Naive reference of the lab: a map for everything.
#[derive(Default)]
struct Naive {
    shape: HashMap<String, usize>,
    name: HashMap<String, u8>,
    status: HashMap<String, &'static str>,
    /// Volumes that could be used once.
    was_ready: HashSet<String>,
    tags: HashMap<String, Vec<String>>,
    attachment: HashMap<String, (&'static str, String, bool)>,
    /// Start, state, type and size afterwards.
    modifications: HashMap<String, Vec<(u64, &'static str, String, u64)>>,
    kind: HashMap<String, String>,
    member_gib: HashMap<String, u64>,
    /// ok, slow, failed, or bytes rebuilt as text.
    members: HashMap<String, Vec<String>>,
    balance: HashMap<(String, u32), u32>,
}

impl Naive {
    fn settle(&mut self, now: u64) {
        for (volume, history) in &mut self.modifications {
            let Some(last) = history.last_mut() else { continue };
            if last.1 == "modifying" && now >= last.0 + MODIFYING_MS {
                last.1 = "optimizing";
                self.kind.insert(volume.clone(), last.2.clone());
                self.member_gib.insert(volume.clone(), last.3);
            }
            if last.1 == "optimizing" && now >= last.0 + MODIFYING_MS + OPTIMIZING_MS {
                last.1 = "completed";
            }
        }
    }

    fn size(&self, volume: &str, member_gib: u64) -> u64 {
        match SPECS[self.shape[volume]].2 {
            0 => member_gib * 3 / 2,
            data => member_gib * data,
        }
    }

    fn alive(&self, volume: &str, member: usize) -> bool {
        ["ok", "slow"].contains(&self.members[volume][member].as_str())
    }

    fn sources(&self, volume: &str, member: usize) -> bool {
        let count = self.members[volume].len();
        match SPECS[self.shape[volume]].0.split(':').next().unwrap() {
            "raid1" => self.alive(volume, 1 - member),
            "raid5" => (0..count).all(|other| other == member || self.alive(volume, other)),
            "raid10" => self.alive(volume, [1, 0, 3, 2][member]),
            // Three members: before and after are the two others.
            "raid10f2" => (0..count).all(|other| other == member || self.alive(volume, other)),
            _ => false,
        }
    }

    fn attachment_state(&self, volume: &str) -> Result<(&'static str, String, bool), Refusal> {
        self.attachment.get(volume).cloned().ok_or("incorrect-state")
    }

    fn of_status(&self, volume: &str, allowed: &[&str]) -> Result<(), Refusal> {
        match self.status[volume] {
            status if allowed.contains(&status) => Ok(()),
            _ => Err("incorrect-state"),
        }
    }

    fn member(&self, volume: &str, member: u32) -> Result<usize, Refusal> {
        self.of_status(volume, &["available", "in-use"])?;
        if (member as usize) < self.members[volume].len() {
            Ok(member as usize)
        } else {
            Err("not-found")
        }
    }

    fn set_member(&mut self, volume: &str, member: usize, state: &str) {
        self.members.get_mut(volume).unwrap()[member] = state.to_string();
    }

    fn set_status(&mut self, volume: &str, from: &[&str], to: &'static str) -> Result<(), Refusal> {
        self.of_status(volume, from)?;
        self.status.insert(volume.to_string(), to);
        Ok(())
    }

    fn step(&mut self, act: &Act, volume: &str, born: Option<&str>, now: u64) -> Result<(), Refusal> {
        if let Act::Create(spec, name) = act {
            return self.create(*spec, *name, born);
        }
        if !self.status.contains_key(volume) {
            return Err("not-found");
        }
        let key = volume.to_string();
        match act {
            Act::Create(..) => {}
            Act::Created if self.status[volume] == "error" && self.was_ready.contains(volume) => {
                self.status.insert(key, if self.attachment.contains_key(volume) { "in-use" } else { "available" });
            }
            Act::Created => self.set_status(volume, &["creating"], "available")?,
            Act::Failed if self.status[volume] == "deleting" => return Err("incorrect-state"),
            Act::Failed => {
                if ["available", "in-use"].contains(&self.status[volume]) {
                    self.was_ready.insert(key.clone());
                }
                self.status.insert(key, "error");
            }
            Act::Delete if self.attachment.contains_key(volume) => return Err("in-use"),
            Act::Delete => self.set_status(volume, &["available", "error"], "deleting")?,
            Act::Deleted => {
                self.of_status(volume, &["deleting"])?;
                self.status.remove(volume);
                self.name.remove(volume);
                self.modifications.remove(volume);
                self.balance.retain(|(of, _), _| of != volume);
            }
            Act::Tag(set, remove) => {
                let tags = &self.tags[volume];
                let mut after: Vec<String> = tags.iter().filter(|tag| !(0..*remove).any(|n| **tag == format!("k{n}"))).cloned().collect();
                after.extend((0..*set).map(|n| format!("k{n}")));
                after.sort();
                after.dedup();
                if after.len() > 50 {
                    return Err("limit-exceeded");
                }
                self.tags.insert(key, after);
            }
            Act::Attach(..) | Act::Attached | Act::AttachFailed | Act::Detach(..) | Act::Busy | Act::Detached => self.attachments(act, volume)?,
            Act::Modify(size, gp3) => self.modify(volume, *size, *gp3, now)?,
            Act::ModifyFailed => match self.modifications.get_mut(volume).and_then(|history| history.last_mut()) {
                Some(last) if last.1 == "modifying" => last.1 = "failed",
                _ => return Err("incorrect-modification-state"),
            },
            _ => self.members(act, volume)?,
        }
        Ok(())
    }

    fn create(&mut self, spec: usize, name: Option<u8>, born: Option<&str>) -> Result<(), Refusal> {
        if name.is_some() && self.name.values().any(|taken| Some(*taken) == name) {
            return Err("invalid-parameter");
        }
        let volume = born.expect("a volume was born").to_string();
        let (_, members, _, kind, gib) = SPECS[spec];
        self.shape.insert(volume.clone(), spec);
        self.status.insert(volume.clone(), "creating");
        self.tags.insert(volume.clone(), Vec::new());
        self.kind.insert(volume.clone(), kind.to_string());
        self.member_gib.insert(volume.clone(), gib);
        self.members.insert(volume.clone(), vec!["ok".to_string(); members]);
        if let Some(name) = name {
            self.name.insert(volume, name);
        }
        Ok(())
    }

    fn attachments(&mut self, act: &Act, volume: &str) -> Result<(), Refusal> {
        let key = volume.to_string();
        if let Act::Attach(name) = act {
            if self.attachment.contains_key(volume) {
                return Err("in-use");
            }
            self.of_status(volume, &["available"])?;
            if self.modifications.get(volume).and_then(|history| history.last()).is_some_and(|last| last.1 == "modifying") {
                return Err("incorrect-state");
            }
            let taken = |name: &str| self.attachment.values().any(|(_, other, _)| other == name);
            let letters = ["sdf", "sdg", "sdx"];
            let name = match name {
                Some(n) if taken(letters[*n as usize]) => return Err("invalid-parameter"),
                Some(n) => letters[*n as usize].to_string(),
                None => ('f'..='p').map(|letter| format!("sd{letter}")).find(|name| !taken(name)).unwrap(),
            };
            self.attachment.insert(key.clone(), ("attaching", name, false));
            self.status.insert(key, "in-use");
            return Ok(());
        }
        let (state, name, forced) = self.attachment_state(volume)?;
        let next = match (act, state) {
            (Act::Attached, "attaching" | "attached") => ("attached", forced),
            (Act::Detach(force), "attached" | "busy") => ("detaching", *force),
            (Act::Detach(true), "attaching" | "detaching") if !forced => ("detaching", true),
            (Act::Busy, "detaching") => ("busy", false),
            (Act::AttachFailed, "attaching") | (Act::Detached, _) => {
                self.attachment.remove(volume);
                if self.status[volume] == "in-use" {
                    self.status.insert(key, "available");
                }
                return Ok(());
            }
            _ => return Err("incorrect-state"),
        };
        self.attachment.insert(key, (next.0, name, next.1));
        Ok(())
    }

    fn modify(&mut self, volume: &str, size: Option<u64>, gp3: Option<bool>, now: u64) -> Result<(), Refusal> {
        self.of_status(volume, &["available", "in-use"])?;
        let history = self.modifications.entry(volume.to_string()).or_default().clone();
        if history.last().is_some_and(|last| ["modifying", "optimizing"].contains(&last.1)) {
            return Err("incorrect-modification-state");
        }
        let (had, had_kind) = (self.member_gib[volume], self.kind[volume].clone());
        let gib = match size {
            None => had,
            Some(size) if size < self.size(volume, had) => return Err("invalid-parameter"),
            // Halves: a raid10f2 array does not grow.
            Some(size) if size > self.size(volume, had) && SPECS[self.shape[volume]].2 == 0 => return Err("unsupported"),
            // Every size of a member up to the largest asked for: the slow way to divide.
            Some(size) => match (1..=size).find(|&gib| self.size(volume, gib) == size && (SPECS[self.shape[volume]].2 > 0 || gib % 2 == 0)) {
                Some(gib) => gib,
                None => return Err("invalid-parameter"),
            },
        };
        let kind = gp3.map_or(had_kind.clone(), |gp3| if gp3 { "gp3" } else { "gp2" }.to_string());
        if gib == had && kind == had_kind {
            return Err("invalid-parameter");
        }
        if self.size(volume, gib) > self.size(volume, had) && (0..self.members[volume].len()).any(|member| !self.alive(volume, member)) {
            return Err("incorrect-state");
        }
        if history.iter().filter(|(start, ..)| now < start + DAY_MS).count() >= 4 {
            return Err("rate-exceeded");
        }
        self.modifications.get_mut(volume).unwrap().push((now, "modifying", kind, gib));
        self.settle(now);
        Ok(())
    }

    fn members(&mut self, act: &Act, volume: &str) -> Result<(), Refusal> {
        self.of_status(volume, &["available", "in-use"])?;
        let redundant = SPECS[self.shape[volume]].0.starts_with("raid");
        match *act {
            Act::Balance(member, percent) => {
                if let Some(member) = member {
                    self.member(volume, member)?;
                }
                if self.kind[volume] != "gp2" {
                    return Err("unsupported");
                }
                for index in 0..self.members[volume].len() as u32 {
                    if member.is_none_or(|member| member == index) {
                        self.balance.insert((volume.to_string(), index), u32::from(percent) * 10_000);
                    }
                }
            }
            Act::Slow(member) => {
                let member = self.member(volume, member)?;
                if !self.alive(volume, member) {
                    return Err("incorrect-state");
                }
                self.set_member(volume, member, "slow");
            }
            Act::Fail(member) => {
                let member = self.member(volume, member)?;
                self.set_member(volume, member, "failed");
                for other in 0..self.members[volume].len() {
                    if self.members[volume][other].parse::<u64>().is_ok() && !self.sources(volume, other) {
                        self.set_member(volume, other, "failed");
                    }
                }
            }
            Act::Restore(member) => {
                let member = self.member(volume, member)?;
                let ok = self.alive(volume, member) || (!redundant && self.members[volume][member] == "failed");
                if !ok {
                    return Err("incorrect-state");
                }
                self.set_member(volume, member, "ok");
            }
            _ => self.rebuilds(act, volume, redundant)?,
        }
        Ok(())
    }

    fn rebuilds(&mut self, act: &Act, volume: &str, redundant: bool) -> Result<(), Refusal> {
        match *act {
            Act::Replace(member) => {
                let member = self.member(volume, member)?;
                if !redundant {
                    return Err("unsupported");
                }
                if self.members[volume][member].parse::<u64>().is_ok() {
                    return Err("incorrect-state");
                }
                if self.modifications.get(volume).and_then(|history| history.last()).is_some_and(|last| last.1 == "modifying") {
                    return Err("incorrect-state");
                }
                if !self.sources(volume, member) {
                    return Err("incorrect-state");
                }
                self.set_member(volume, member, "0");
                self.balance.remove(&(volume.to_string(), member as u32));
            }
            Act::Rebuilding(member, bytes) => {
                let member = self.member(volume, member)?;
                self.members[volume][member].parse::<u64>().map_err(|_| "incorrect-state")?;
                // Growing an array with a member in rebuild is refused, so this is the size the
                // rebuild began with.
                if bytes > self.member_gib[volume] * 1_073_741_824 {
                    return Err("invalid-parameter");
                }
                self.set_member(volume, member, &bytes.to_string());
            }
            Act::Rebuilt(member) => {
                let member = self.member(volume, member)?;
                self.members[volume][member].parse::<u64>().map_err(|_| "incorrect-state")?;
                self.set_member(volume, member, "ok");
            }
            _ => {}
        }
        Ok(())
    }

    fn assert_same(&self, lab: &Lab) {
        assert_eq!(lab.volumes.len(), self.status.len());
        for (id, record) in &lab.volumes {
            let id = id.as_str();
            assert_eq!(record.status.as_str(), self.status[id]);
            assert_eq!(record.status == VolumeStatus::InUse, record.attachment.is_some() && record.status != VolumeStatus::Error);
            assert_eq!(record.name, self.name.get(id).map(|n| format!("name{n}")));
            assert_eq!(record.tags.keys().cloned().collect::<Vec<_>>(), self.tags[id]);
            let attachment = record.attachment.as_ref().map(|a| (a.state.as_str(), a.name.clone(), a.force));
            assert_eq!(attachment, self.attachment.get(id).cloned());
            assert_eq!(record.size_gib(), self.size(id, self.member_gib[id]));
            assert_eq!(record.spec.members[0].volume_type.as_str(), self.kind[id]);
            let history: Vec<_> = record.modifications.iter().map(|m| (m.started_ms, m.state.as_str())).collect();
            let naive: Vec<_> = self.modifications.get(id).into_iter().flatten().map(|m| (m.0, m.1)).collect();
            assert!(naive.ends_with(&history) && history.len() == naive.len().min(8), "{history:?} of {naive:?}");
            for (index, member) in record.members.iter().enumerate() {
                let state = match member.state {
                    MemberState::Ok => "ok".to_string(),
                    MemberState::Slow { .. } => "slow".to_string(),
                    MemberState::Failed => "failed".to_string(),
                    MemberState::Rebuilding { done_bytes, .. } => done_bytes.to_string(),
                };
                assert_eq!(state, self.members[id][index], "member {index} of {id}");
                assert_eq!(member.balance.map(|balance| balance.per_million), self.balance.get(&(id.to_string(), index as u32)).copied());
            }
        }
    }
}

fn settle(lab: &mut Lab, now: u64, journal: &mut Vec<Event>) {
    let next = lab.next_due();
    let due = lab.due(now);
    assert_eq!(due.first().map(|event| event.at_ms), next.filter(|&next| next <= now));
    assert!(due.is_sorted_by_key(|event| event.at_ms));
    due.iter().for_each(|event| lab.apply(event));
    journal.extend(due);
    assert_eq!(lab.due(now), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]
    #[test]
    fn the_lab_is_the_naive_lab(steps in prop::collection::vec((act(), 0..3usize, wait()), 1..160)) {
        let settings = Settings { modification_times: Some(ModificationTimes { modifying_ms: MODIFYING_MS, optimizing_ms: OPTIMIZING_MS }), ..Settings::default() };
        let start = Lab { settings, ..Lab::default() };
        let (mut lab, mut naive, mut journal) = (start.clone(), Naive::default(), Vec::new());
        let (mut now, mut counter, mut slots) = (1_700_000_000_000, 0, vec!["vol-none".to_string(); 3]);
        for (act, slot, wait) in steps {
            now += wait;
            settle(&mut lab, now, &mut journal);
            naive.settle(now);
            let before = lab.clone();
            let decided = lab.decide(&command(&act, &slots[slot]), now, &mut || { counter += 1; counter });
            prop_assert_eq!(&before, &lab, "deciding changed the lab");
            let born = decided.as_ref().ok().and_then(|events| events.first()?.change.volume()).map(ToString::to_string);
            let expected = naive.step(&act, &slots[slot], born.as_deref(), now);
            prop_assert_eq!(decided.as_ref().map(|_| ()).map_err(|error| error.kind().as_str()), expected, "{:?}: {:?}", act, decided);
            if let Ok(events) = decided {
                events.iter().for_each(|event| lab.apply(event));
                journal.extend(events);
                if let (Act::Create(..), Some(born)) = (&act, born) {
                    slots[slot] = born;
                }
            }
            naive.assert_same(&lab);
        }
        // Events of the journal, read back from their text, make an equal lab; and so does a
        // checkpoint half way.
        let text = serde_json::to_string(&journal).unwrap();
        let read: Vec<Event> = serde_json::from_str(&text).unwrap();
        let mut again = start;
        for (index, event) in read.iter().enumerate() {
            let next = again.next_due();
            again.apply(event);
            // A caller that remembers the next due time misses nothing, if events that may bring it
            // forward say so.
            let sooner = again.next_due().is_some_and(|after| next.is_none_or(|before| after < before));
            prop_assert!(!sooner || event.change.may_become_due(), "{:?}", event);
            if index == read.len() / 2 {
                again = serde_json::from_str(&serde_json::to_string(&again).unwrap()).unwrap();
            }
        }
        prop_assert_eq!(again, lab);
    }
}

#[test]
fn states_have_ec2_names() {
    let attachment = [AttachmentState::Attaching, AttachmentState::Attached, AttachmentState::Detaching, AttachmentState::Busy].map(AttachmentState::as_str);
    assert_eq!(attachment, ["attaching", "attached", "detaching", "busy"]);
    let modification = [ModificationState::Modifying, ModificationState::Optimizing, ModificationState::Completed, ModificationState::Failed];
    assert_eq!(modification.map(ModificationState::as_str), ["modifying", "optimizing", "completed", "failed"]);
    for state in modification {
        assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{}\"", state.as_str()));
    }
}
