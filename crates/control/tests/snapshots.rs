//! Random commands about snapshots against a naive lab that knows the rules one by one; and the
//! events, written and read again, make the same lab.

use headrace_control::{
    Change, Command, CopyRequest, CreateRequest, Event, FastRestoreState, Lab, LockMode, LockRequest, RetentionRule, ScheduleRequest, SnapshotChange,
    SnapshotCommand, SnapshotId, SnapshotRequest, SnapshotState,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const START_MS: u64 = 1_700_000_000_000;
const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

#[derive(Clone, Debug)]
enum Act {
    Create(usize),
    CreateBoth,
    Complete(usize),
    Fail(usize),
    Delete(usize),
    Recover(usize),
    Copy(usize),
    Lock { of: usize, compliance: bool, days: u32, cool_off: Option<u32> },
    Unlock(usize),
    Rule(Option<u32>),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let index = 0..12usize;
    prop_oneof![
        4 => (0..2usize).prop_map(Act::Create),
        1 => Just(Act::CreateBoth),
        6 => index.clone().prop_map(Act::Complete),
        1 => index.clone().prop_map(Act::Fail),
        3 => index.clone().prop_map(Act::Delete),
        1 => index.clone().prop_map(Act::Recover),
        1 => index.clone().prop_map(Act::Copy),
        2 => (index.clone(), any::<bool>(), 1..4u32, prop_oneof![Just(None), Just(Some(1)), Just(Some(72))])
            .prop_map(|(of, compliance, days, cool_off)| Act::Lock { of, compliance, days, cool_off }),
        2 => index.prop_map(Act::Unlock),
        1 => prop_oneof![Just(None), (1..3u32).prop_map(Some)].prop_map(Act::Rule),
        4 => prop_oneof![Just(0), Just(14 * SECOND_MS), Just(15 * SECOND_MS), Just(HOUR_MS), Just(DAY_MS)].prop_map(Act::Wait),
    ]
}

/// Notes about a snapshot by a naive reader of AWS's documents.
#[derive(Clone, Debug)]
struct Naive {
    id: SnapshotId,
    volume: Option<usize>,
    copy_of: Option<SnapshotId>,
    started: u64,
    state: SnapshotState,
    lock: Option<(bool, u64, u64)>,
    bin_until: Option<u64>,
}

struct Bench {
    lab: Lab,
    events: Vec<Event>,
    now: u64,
    next_id: u64,
    volumes: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench { lab: Lab::default(), events: Vec::new(), now: START_MS, next_id: 0, volumes: vec!["a".to_string(), "b".to_string()] };
        for name in bench.volumes.clone() {
            let request = CreateRequest { spec: "gp3:10".to_string(), name: Some(name.clone()), ..CreateRequest::default() };
            bench.run(Command::CreateVolume(request)).expect("a volume");
            bench.run(Command::Created { volume: name }).expect("created");
        }
        bench
    }

    fn run(&mut self, command: Command) -> Result<Vec<Event>, String> {
        for event in self.lab.due(self.now) {
            self.lab.apply(&event);
            self.events.push(event);
        }
        let next_id = &mut self.next_id;
        let mut ids = || {
            *next_id += 1;
            *next_id
        };
        let events = self.lab.decide(&command, self.now, &mut ids).map_err(|error| error.to_string())?;
        for event in &events {
            self.lab.apply(event);
        }
        self.events.extend(events.clone());
        Ok(events)
    }

    fn snapshot(&mut self, command: SnapshotCommand) -> Result<Vec<Event>, String> {
        self.run(Command::Snapshot(command))
    }
}

fn begun(events: &[Event]) -> Vec<SnapshotId> {
    let of = |event: &Event| match &event.change {
        Change::Snapshot(SnapshotChange::Started { snapshot, .. }) => Some(snapshot.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn may_create(all: &[Naive], volume: usize, now: u64) -> bool {
    let pending: Vec<&Naive> = all.iter().filter(|snapshot| snapshot.volume == Some(volume) && snapshot.state == SnapshotState::Pending).collect();
    pending.len() < 5 && pending.iter().all(|snapshot| now >= snapshot.started + 15 * SECOND_MS)
}

fn step(bench: &mut Bench, all: &mut Vec<Naive>, rule: &mut Option<u32>, act: &Act) {
    let now = bench.now;
    all.retain(|snapshot| snapshot.bin_until.is_none_or(|until| until > now));
    let born = |id: SnapshotId, volume, copy_of| Naive { id, volume, copy_of, started: now, state: SnapshotState::Pending, lock: None, bin_until: None };
    let pick = |index: usize| all.get(index).cloned();
    match *act {
        Act::Wait(ms) => bench.now += ms,
        Act::Rule(days) => {
            *rule = days;
            let command = match days {
                Some(days) => SnapshotCommand::SetRule { rule: RetentionRule { name: "r".into(), days, tags: BTreeMap::new(), description: String::new() } },
                None if bench.lab.snapshots.rules.is_empty() => return,
                None => SnapshotCommand::DeleteRule { rule: "r".into() },
            };
            bench.snapshot(command).expect("a rule");
        }
        Act::Create(volume) => {
            let request = SnapshotRequest { volumes: vec![bench.volumes[volume].clone()], ..SnapshotRequest::default() };
            let result = bench.snapshot(SnapshotCommand::Create(request));
            assert_eq!(result.is_ok(), may_create(all, volume, now), "{result:?}");
            all.extend(result.iter().flat_map(|events| begun(events)).map(|id| born(id, Some(volume), None)));
        }
        Act::CreateBoth => {
            let request = SnapshotRequest { volumes: bench.volumes.clone(), ..SnapshotRequest::default() };
            let result = bench.snapshot(SnapshotCommand::Create(request));
            assert_eq!(result.is_ok(), may_create(all, 0, now) && may_create(all, 1, now), "all or none: {result:?}");
            all.extend(result.iter().flat_map(|events| begun(events)).enumerate().map(|(volume, id)| born(id, Some(volume), None)));
        }
        Act::Copy(of) => {
            let Some(snapshot) = pick(of) else { return };
            let result = bench.snapshot(SnapshotCommand::Copy(CopyRequest { snapshot: snapshot.id.to_string(), ..CopyRequest::default() }));
            assert_eq!(result.is_ok(), snapshot.state == SnapshotState::Completed && snapshot.bin_until.is_none(), "{result:?}");
            all.extend(result.iter().flat_map(|events| begun(events)).map(|id| born(id, None, Some(snapshot.id.clone()))));
        }
        _ => change(bench, all, *rule, act),
    }
}

fn change(bench: &mut Bench, all: &mut Vec<Naive>, rule: Option<u32>, act: &Act) {
    let now = bench.now;
    let (Act::Complete(of) | Act::Fail(of) | Act::Delete(of) | Act::Recover(of) | Act::Unlock(of) | Act::Lock { of, .. }) = *act else { return };
    let Some(snapshot) = all.get(of).cloned() else { return };
    let (id, listed, pending) = (snapshot.id.clone(), snapshot.bin_until.is_none(), snapshot.state == SnapshotState::Pending);
    let locked = snapshot.lock.is_some_and(|(_, until, _)| now < until);
    let copied = all.iter().any(|other| other.state == SnapshotState::Pending && other.copy_of.as_ref() == Some(&id));
    let (command, good) = match *act {
        Act::Complete(_) => (SnapshotCommand::Completed { snapshot: id, parent: None, stored_bytes: 1, full_bytes: 2 }, pending),
        Act::Fail(_) => (SnapshotCommand::Failed { snapshot: id, reason: "because".into() }, pending),
        Act::Delete(_) => (SnapshotCommand::Delete { snapshot: id.to_string() }, listed && !locked && !copied),
        Act::Recover(_) => (SnapshotCommand::Recover { snapshot: id.to_string() }, !listed),
        Act::Unlock(_) => {
            let free = snapshot.lock.is_some_and(|(compliance, _, cool_off)| !compliance || now < cool_off);
            (SnapshotCommand::Unlock { snapshot: id.to_string() }, listed && locked && free)
        }
        Act::Lock { compliance, days, cool_off, .. } => {
            let mode = if compliance { LockMode::Compliance } else { LockMode::Governance };
            let request = LockRequest { snapshot: id.to_string(), mode, duration_days: Some(days), expires_ms: None, cool_off_hours: cool_off };
            let fixed = snapshot.lock.filter(|(was, until, cool)| *was && now < *until && now >= *cool);
            let extends = fixed.is_none_or(|(_, until, _)| compliance && cool_off.is_none() && now + u64::from(days) * DAY_MS >= until);
            let good = listed && snapshot.state != SnapshotState::Error && (compliance || cool_off.is_none()) && extends;
            (SnapshotCommand::Lock(request), good)
        }
        _ => return,
    };
    let done = bench.snapshot(command);
    assert_eq!(done.is_ok(), good, "{act:?} of {snapshot:?}: {done:?}");
    if !good {
        return;
    }
    let entry = &mut all[of];
    match *act {
        Act::Complete(_) => entry.state = SnapshotState::Completed,
        Act::Fail(_) => entry.state = SnapshotState::Error,
        Act::Recover(_) => entry.bin_until = None,
        Act::Unlock(_) => entry.lock = None,
        Act::Lock { compliance, days, cool_off, .. } => {
            entry.lock = Some((compliance, now + u64::from(days) * DAY_MS, now + cool_off.map_or(0, |hours| u64::from(hours) * HOUR_MS)));
        }
        Act::Delete(_) => match rule.filter(|_| snapshot.state == SnapshotState::Completed) {
            Some(days) => entry.bin_until = Some(now + u64::from(days) * DAY_MS),
            None => drop(all.remove(of)),
        },
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_snapshots_are_those_of_the_naive_lab(acts in prop::collection::vec(act(), 1..60)) {
        let mut bench = Bench::new();
        let (mut all, mut rule) = (Vec::new(), None);
        for act in &acts {
            step(&mut bench, &mut all, &mut rule, act);
        }
        let _ = bench.run(Command::Configure(Default::default()));
        all.retain(|snapshot| snapshot.bin_until.is_none_or(|until| until > bench.now));
        let mut expected: Vec<_> = all.iter().map(|snapshot| (snapshot.id.clone(), snapshot.state, snapshot.bin_until.is_some())).collect();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        let snapshots = &bench.lab.snapshots;
        let actual: Vec<_> = snapshots.records.values().map(|record| (record.id.clone(), record.state, snapshots.bin.contains_key(&record.id))).collect();
        prop_assert_eq!(actual, expected);
        // The journal, written and read again, makes the same lab.
        let mut again = Lab::default();
        for event in &bench.events {
            let text = serde_json::to_string(event).expect("JSON");
            again.apply(&serde_json::from_str(&text).expect("an event"));
        }
        prop_assert_eq!(&again, &bench.lab);
        let text = serde_json::to_string(&bench.lab).expect("JSON");
        prop_assert_eq!(&serde_json::from_str::<Lab>(&text).expect("a checkpoint"), &bench.lab);
    }
}

fn complete_one(bench: &mut Bench) -> String {
    let request = SnapshotRequest { volumes: vec!["a".into()], ..SnapshotRequest::default() };
    let id = begun(&bench.snapshot(SnapshotCommand::Create(request)).expect("created")).remove(0);
    bench.snapshot(SnapshotCommand::Completed { snapshot: id.clone(), parent: None, stored_bytes: 0, full_bytes: 0 }).expect("completed");
    id.to_string()
}

/// 10 GiB: the bucket holds min(10, 1024/10) = 10 credits and earns 10 an hour; optimizing takes
/// 10 GiB x 60 min / 1,024 GiB = 35.1 s, after one second of enabling.
#[test]
fn fast_restore_has_the_credits_of_its_size() {
    let mut bench = Bench::new();
    let id = complete_one(&mut bench);
    bench.snapshot(SnapshotCommand::FastRestore { snapshot: id.clone(), zone: "us-east-1a".into(), enable: true }).expect("enabled");
    let state = |bench: &Bench| bench.lab.snapshots.fast.values().next().and_then(|zones| zones.values().next()).map(|fast| fast.state);
    let restore = |bench: &mut Bench| {
        let request = CreateRequest { spec: "gp3:10".into(), snapshot: Some(id.clone()), ..CreateRequest::default() };
        let events = bench.run(Command::CreateVolume(request)).expect("restored");
        let fast = |event: &Event| matches!(&event.change, Change::VolumeCreated { new, .. } if new.origin.as_ref().is_some_and(|origin| origin.fast));
        events.iter().any(fast)
    };
    bench.now += 36 * SECOND_MS;
    assert!(!restore(&mut bench), "35.1 s after the first second: not ready at 36 s");
    assert_eq!(state(&bench), Some(FastRestoreState::Optimizing));
    bench.now += SECOND_MS;
    assert_eq!((0..11).map(|_| restore(&mut bench)).filter(|&fast| fast).count(), 10);
    bench.now += HOUR_MS / 10 - 1;
    assert!(!restore(&mut bench));
    bench.now += 1;
    assert!(restore(&mut bench) && !restore(&mut bench));
}

#[test]
fn a_schedule_keeps_as_many_as_it_says_and_leaves_the_locked() {
    let mut bench = Bench::new();
    let tag = |set: &[(&str, &str)]| set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect::<BTreeMap<_, _>>();
    let tagged = headrace_control::TagRequest { resources: vec!["a".into()], set: tag(&[("backup", "yes")]), ..Default::default() };
    bench.run(Command::Tag(tagged)).expect("tagged");
    let schedule = ScheduleRequest { name: "s".into(), target_tags: tag(&[("backup", "yes")]), interval_s: 3_600, keep: Some(2), ..Default::default() };
    bench.snapshot(SnapshotCommand::SetSchedule(schedule)).expect("set");
    assert!(bench.lab.snapshots.schedules_due(bench.now + HOUR_MS - 1).is_empty());
    let mut ids = Vec::new();
    for round in 0..4 {
        bench.now += HOUR_MS;
        assert_eq!(bench.lab.snapshots.schedules_due(bench.now), ["s"]);
        let id = begun(&bench.snapshot(SnapshotCommand::RunSchedule { schedule: "s".into() }).expect("run")).remove(0);
        bench.snapshot(SnapshotCommand::Completed { snapshot: id.clone(), parent: None, stored_bytes: 0, full_bytes: 0 }).expect("completed");
        if round == 0 {
            let request = LockRequest { snapshot: id.to_string(), mode: LockMode::Governance, duration_days: Some(30), expires_ms: None, cool_off_hours: None };
            bench.snapshot(SnapshotCommand::Lock(request)).expect("locked");
        }
        ids.push(id);
    }
    let remaining: Vec<&SnapshotId> = bench.lab.snapshots.records.keys().collect();
    // The first is locked; of the others the last two are kept.
    assert_eq!(remaining, [&ids[0], &ids[2], &ids[3]]);
    // Runs that were missed are one run, and the next comes at its own time.
    bench.now += 5 * HOUR_MS + 7;
    bench.snapshot(SnapshotCommand::RunSchedule { schedule: "s".into() }).expect("run");
    assert_eq!(bench.lab.snapshots.schedules["s"].next_ms, START_MS + 10 * HOUR_MS);
}

/// Completed snapshots remain, up to the limit, whatever becomes of a new one.
#[test]
fn a_schedule_deletes_the_old_when_the_new_is_completed() {
    let mut bench = Bench::new();
    let tags = BTreeMap::from([("backup".to_string(), "yes".to_string())]);
    bench.run(Command::Tag(headrace_control::TagRequest { resources: vec!["a".into()], set: tags.clone(), ..Default::default() })).expect("tagged");
    let schedule = ScheduleRequest { name: "s".into(), target_tags: tags, interval_s: 3_600, keep: Some(1), ..Default::default() };
    bench.snapshot(SnapshotCommand::SetSchedule(schedule)).expect("set");
    let completed = |bench: &Bench| -> Vec<SnapshotId> {
        let records = bench.lab.snapshots.records.values().filter(|record| record.state == SnapshotState::Completed);
        records.map(|record| record.id.clone()).collect()
    };
    let run = |bench: &mut Bench| {
        bench.now += HOUR_MS;
        begun(&bench.snapshot(SnapshotCommand::RunSchedule { schedule: "s".into() }).expect("run")).remove(0)
    };
    let complete = |bench: &mut Bench, snapshot: &SnapshotId| {
        bench.snapshot(SnapshotCommand::Completed { snapshot: snapshot.clone(), parent: None, stored_bytes: 0, full_bytes: 0 }).expect("completed");
    };
    let first = run(&mut bench);
    complete(&mut bench, &first);
    let second = run(&mut bench);
    assert_eq!(completed(&bench), std::slice::from_ref(&first), "the second is pending");
    bench.snapshot(SnapshotCommand::Failed { snapshot: second, reason: "the store is full".into() }).expect("failed");
    let third = run(&mut bench);
    bench.snapshot(SnapshotCommand::Abandon { snapshots: vec![third] }).expect("abandoned");
    assert_eq!(completed(&bench), std::slice::from_ref(&first), "there is no other");
    let fourth = run(&mut bench);
    complete(&mut bench, &fourth);
    assert_eq!(completed(&bench), [fourth]);
}

#[test]
fn an_array_that_is_too_large_has_no_snapshot() {
    let mut bench = Bench::new();
    for (name, spec) in [("largest", "8xgp3:65536"), ("larger", "raid10:18xgp3:65536")] {
        let request = CreateRequest { spec: spec.to_string(), name: Some(name.to_string()), as_of: Some("2026-01-01".to_string()), ..CreateRequest::default() };
        bench.run(Command::CreateVolume(request)).expect("a volume");
        bench.run(Command::Created { volume: name.to_string() }).expect("created");
    }
    let of = |name: &str| SnapshotCommand::Create(SnapshotRequest { volumes: vec![name.to_string()], ..SnapshotRequest::default() });
    bench.snapshot(of("largest")).expect("512 TiB");
    let error = bench.snapshot(of("larger")).unwrap_err();
    assert!(error.contains("has 589824 GiB, and a snapshot of this lab has at most 524288"), "{error}");
}

/// Copies of volumes: what is asked of them, how many are at once, and that no snapshot is made.
#[test]
fn copies_of_volumes() {
    let mut bench = Bench::new();
    let copy = |of: &str, size_gib: Option<u64>| {
        let volume_type = Some("gp3".to_string());
        Command::CreateVolume(CreateRequest { source_volume: Some(of.to_string()), volume_type, size_gib, ..CreateRequest::default() })
    };
    let find_volume = |events: Vec<Event>| events.iter().find_map(|event| event.change.volume().cloned()).expect("a volume");
    assert!(bench.run(copy("none", None)).unwrap_err().contains("none"));
    let first = find_volume(bench.run(copy("a", None)).expect("a copy"));
    assert_eq!(bench.lab.volumes[&first].size_gib(), 10);
    assert_eq!(bench.lab.volumes[&first].source_volume.as_ref(), Some(&bench.lab.find("a").unwrap().id));
    assert!(bench.run(copy("a", Some(9))).unwrap_err().contains("a copy is at least as large"));
    // One that is not there yet cannot be copied, attached or deleted.
    for command in [copy(first.as_str(), None), Command::DeleteVolume { volume: first.to_string() }] {
        assert!(bench.run(command).unwrap_err().contains("is creating"));
    }
    // Five at once, of each source for itself; one that ended, well or not, makes room.
    let mut others: Vec<_> = (0..4).map(|_| find_volume(bench.run(copy("a", Some(20))).expect("a copy"))).collect();
    assert!(bench.run(copy("a", None)).unwrap_err().contains("5 copies of it are being made"));
    bench.run(copy("b", None)).expect("of another");
    bench.run(Command::Created { volume: first.to_string() }).expect("created");
    others.push(find_volume(bench.run(copy("a", None)).expect("room for one")));
    bench.run(Command::VolumeFailed { volume: others[0].to_string(), reason: "no room".to_string() }).expect("noted");
    bench.run(copy("a", None)).expect("room for one");
    bench.run(copy(first.as_str(), None)).expect("a copy of a copy");
    assert!(bench.lab.snapshots.records.is_empty());
    let mut again = Lab::default();
    for event in &bench.events {
        again.apply(&serde_json::from_str(&serde_json::to_string(event).expect("written")).expect("read"));
    }
    assert_eq!(again, bench.lab);
}
