//! Records and saved hosts: what is written is read again, what is damaged is said, and a host that
//! was saved and made again in the middle of its life goes on to the nanosecond as the one that was
//! not.

use headrace_catalog::{Catalog, NaiveDate, StorageSpec};
use headrace_model::first_touch::SnapshotOrigin;
use headrace_model::rates::Degradation;
use headrace_model::rates::VolumeModification;
use headrace_model::record::{Frame, HostChange, SavedHost, SavedInstance};
use headrace_model::{Cap, Decision, Device, Host, Instance, Io, ModelOptions, Nanos, Op, SavedDevice, Verdict};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const STORAGES: [&str; 14] = [
    "gp2:10",
    "gp3:20:4000",
    "io1:20:1000",
    "io2:20:2000",
    "io2-block-express:20:2000",
    "st1:125",
    "sc1:125",
    "standard:20",
    "instance-store:75",
    "2xgp2:10",
    "raid1:2xgp3:10",
    "raid5:3xgp3:10@64k",
    "raid10:4xgp2:10",
    "raid10f2:3xio2:10:1000",
];
const INSTANCES: [&str; 3] = ["m5.large", "m5.2xlarge", "c5.large"];

fn day() -> NaiveDate {
    "2025-06-01".parse().expect("a date")
}

fn saved(spec: &str, seed: u64, snapshot: bool) -> SavedDevice {
    let storage: StorageSpec = spec.parse().expect("a storage");
    let limits = Catalog::embedded().storage_limits(&storage, day(), None).expect("limits");
    let mut device = Device::new(&storage, &limits, &ModelOptions::default(), seed);
    if snapshot {
        let origin = SnapshotOrigin { written_bytes: 1 << 30, initialization_bytes_s: (seed % 2 == 0).then_some(100 << 20) };
        device.members_mut().iter_mut().for_each(|member| member.created_from_snapshot(&origin));
    }
    device.save(&storage, Nanos::ZERO)
}

fn saved_host(instance: Option<&str>, devices: &[(&str, bool)]) -> SavedHost {
    let instance = instance.map(|name| {
        let limits = Catalog::embedded().instance(name, day()).expect("an instance");
        SavedInstance { state: Instance::new(&limits, true).state(), limits }
    });
    let devices = devices.iter().enumerate().map(|(slot, (spec, snapshot))| Some(saved(spec, slot as u64 + 5, *snapshot)));
    SavedHost { now: Nanos::ZERO, instance, devices: devices.collect() }
}

/// Saves a running host as a lab does.
fn save(host: &mut Host, saved: &SavedHost, now: Nanos) -> SavedHost {
    let instance =
        host.instance.as_ref().zip(saved.instance.as_ref()).map(|(instance, saved)| SavedInstance { limits: saved.limits.clone(), state: instance.state() });
    let devices = host
        .devices
        .iter_mut()
        .zip(&saved.devices)
        .map(|(device, device_saved)| device_saved.as_ref().map(|device_saved| device.save(&device_saved.storage, now)));
    SavedHost { now, instance, devices: devices.collect() }
}

#[derive(Clone, Debug)]
enum Event {
    Ask(Io),
    AskMember(usize, Io),
    Change(HostChange),
}

fn io() -> impl Strategy<Value = Io> {
    let bytes = prop_oneof![Just(512u32), Just(4_096), Just(16_384), Just(131_072), Just(262_144), Just(1 << 20), 512u32..2_000_000];
    (any::<bool>(), 0u64..(9 << 30) / 512, any::<bool>(), bytes).prop_map(|(read, sector, early, bytes)| Io {
        op: if read { Op::Read } else { Op::Write },
        // Half of them close together, so that some follow each other.
        offset: if early { sector % 64 * 4_096 } else { sector * 512 },
        bytes,
    })
}

fn change() -> impl Strategy<Value = HostChange> {
    let member = 0usize..4;
    let span = || (0u64..3_000_000_000).prop_map(Nanos);
    prop_oneof![
        (prop::option::of(member.clone()), 0.0f64..100.0).prop_map(|(member, percent)| HostChange::Balance {
            device: 0,
            member,
            percent: percent * percent / 100.0
        }),
        (0.0f64..100.0).prop_map(|percent| HostChange::InstanceBalance { percent }),
        // Left of the caps: never so little that a cap of 100 falls to one token a second.
        (member.clone(), span(), span(), 20u64..=1_000, 0u64..2_000_000).prop_map(|(member, from, length, caps_per_mille, extra)| HostChange::Degrade {
            device: 0,
            member,
            event: Degradation { from, until: from + length, caps_per_mille, extra_latency: Nanos(extra) },
        }),
        member.clone().prop_map(|member| HostChange::Recover { device: 0, member }),
        (member, any::<bool>()).prop_map(|(member, failed)| HostChange::Failed { device: 0, member, failed }),
        (span(), span(), prop::sample::select(vec!["gp2:40", "gp3:30:5000:250", "io2:30:3000", "st1:500"])).prop_map(|(modifying, optimizing, spec)| {
            let target = Catalog::embedded().volume_limits(&spec.parse().expect("a volume"), day(), None).expect("limits");
            let change = VolumeModification { target, modifying_until: modifying, optimizing_until: modifying + optimizing };
            HostChange::Modify { device: 0, targets: vec![change; 4] }
        }),
        prop::sample::select(STORAGES.to_vec()).prop_map(|spec| HostChange::Put { device: 1, saved: Box::new(saved(spec, 99, false)) }),
        prop::option::of(prop::sample::select(INSTANCES.to_vec()))
            .prop_map(|name| HostChange::Instance { saved: name.and_then(|name| saved_host(Some(name), &[]).instance).map(Box::new) }),
    ]
}

/// Draws events and the time since the one before, ns: mostly close together, now and then far
/// apart.
fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let gap = prop_oneof![6 => 0u64..2_000_000, 1 => Just(0), 1 => 0u64..60_000_000_000];
    let event = prop_oneof![20 => io().prop_map(Event::Ask), 1 => (0usize..5, io()).prop_map(|(member, io)| Event::AskMember(member, io)), 2 => change().prop_map(Event::Change)];
    prop::collection::vec((gap, event), 2..150)
}

/// Times in a change are from the moment it is made on.
fn placed(change: &HostChange, now: Nanos) -> HostChange {
    let mut placed = change.clone();
    match &mut placed {
        HostChange::Degrade { event, .. } => (event.from, event.until) = (event.from + now, event.until + now),
        HostChange::Modify { targets, .. } => {
            for target in targets {
                (target.modifying_until, target.optimizing_until) = (target.modifying_until + now, target.optimizing_until + now);
            }
        }
        _ => {}
    }
    placed
}

fn happen(host: &mut Host, device: usize, now: Nanos, event: &Event) -> Option<Decision> {
    match event {
        Event::Ask(io) => Some(host.submit(device % host.devices.len(), now, *io)),
        Event::AskMember(member, io) => host.submit_member(0, *member, now, *io),
        Event::Change(change) => {
            host.change(now, &placed(change, now));
            None
        }
    }
}

/// `PROPTEST_CASES` asks for more (`make soak`). A failing case is printed, kept in the file, and
/// tried first on the next run.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let file = FileFailurePersistence::Direct("proptest-regressions/record.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn saved_in_the_middle_it_goes_on_as_if_it_were_not(
        first in prop::sample::select(STORAGES.to_vec()),
        second in prop::sample::select(STORAGES.to_vec()),
        instance in prop::option::of(prop::sample::select(INSTANCES.to_vec())),
        snapshot in any::<bool>(),
        events in events(),
        middle in 0.0f64..1.0,
    ) {
        let mut start = saved_host(instance, &[(first, snapshot), (second, false)]);
        let mut host = Host::from_saved(&start);
        let mut other: Option<Host> = None;
        let mut now = Nanos::ZERO;
        let middle = (middle * events.len() as f64) as usize;
        for (number, (gap, event)) in events.iter().enumerate() {
            now += Nanos(*gap);
            if number == middle {
                let json = serde_json::to_string(&save(&mut host, &start, now)).expect("JSON");
                other = Some(Host::from_saved(&serde_json::from_str(&json).expect("what was written")));
            }
            if let Event::Change(HostChange::Put { saved, .. }) = event {
                start.devices[1] = Some(*saved.clone());
            }
            if let Event::Change(HostChange::Instance { saved }) = event {
                start.instance = saved.as_deref().cloned();
            }
            let original = happen(&mut host, number % 2, now, event);
            if let Some(other) = &mut other {
                prop_assert_eq!(happen(other, number % 2, now, event), original, "event {} of {}, saved before {}", number, events.len(), middle);
                for device in 0..2 {
                    prop_assert_eq!(other.lowest_balance_percent(device, now), host.lowest_balance_percent(device, now));
                }
            }
        }
        if let Some(mut other) = other {
            prop_assert_eq!(save(&mut other, &start, now), save(&mut host, &start, now));
        }
    }

    #[test]
    fn what_is_written_is_read_and_every_cut_is_seen(frames in prop::collection::vec(frame(), 1..20)) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for frame in &frames {
            frame.encode(&mut bytes);
            ends.push(bytes.len());
        }
        for (number, frame) in frames.iter().enumerate() {
            let (from, to) = (ends[number], ends[number + 1]);
            prop_assert_eq!(Frame::decode(&bytes[from..]), Ok(Some((frame.clone(), to - from))));
            // A change may be long: some hundred cuts of it are enough.
            for cut in (from..to).step_by((to - from).div_ceil(200)) {
                prop_assert_eq!(Frame::decode(&bytes[from..cut]), Ok(None));
            }
        }
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    let decision = (any::<u64>(), any::<u64>(), prop::sample::select(Cap::ALL.to_vec()), any::<bool>()).prop_map(|(start, complete, cap, ok)| Decision {
        start: Nanos(start),
        complete: Nanos(complete),
        cap,
        verdict: if ok { Verdict::Ok } else { Verdict::Failed },
    });
    // 255 stands for the device itself: arrays have at most 128 members.
    let member = prop::option::of(0u8..128);
    prop_oneof![
        4 => (any::<u16>(), member, any::<u64>(), io(), decision)
            .prop_map(|(device, member, now, io, decision)| Frame::Request { device, member, now: Nanos(now), io, decision }),
        2 => any::<u32>().prop_map(Frame::Late),
        1 => (any::<u64>(), change()).prop_map(|(now, change)| Frame::Change { now: Nanos(now), change }),
    ]
}

#[test]
fn a_host_is_read_as_it_was_written_and_no_damage_is_taken_for_one() {
    let host = saved_host(Some("m5.large"), &[("raid5:3xgp2:10", true), ("st1:125", false)]);
    let mut bytes = host.encode();
    let length = bytes.len();
    bytes.extend([1, 2, 3]);
    assert_eq!(SavedHost::decode(&bytes), Ok(Some((host, length))));
    (0..length).for_each(|cut| assert_eq!(SavedHost::decode(&bytes[..cut]), Ok(None), "cut at {cut}"));
    for place in 0..length {
        for bit in [1, 16, 128] {
            bytes[place] ^= bit;
            // A longer length looks like a cut file; everything else is refused.
            assert!(!matches!(SavedHost::decode(&bytes[..length]), Ok(Some(_))), "bit {bit} of byte {place}");
            bytes[place] ^= bit;
        }
    }
}

#[test]
fn what_is_no_record_is_refused_with_words() {
    let refused = |bytes: &[u8]| SavedHost::decode(bytes).expect_err("no record").to_string();
    assert!(refused(b"HRREC2\n....").contains("version 1"));
    assert!(refused(b"\x7fELF").contains("version 1"));
    let mut long = b"HRREC1\n".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    long.extend([0; 8]);
    assert!(refused(&long).contains("4294967295 bytes"), "{}", refused(&long));
    let mut host = saved_host(None, &[("raid1:2xgp3:10", false)]);
    host.devices[0].as_mut().expect("a device").members.pop();
    assert!(refused(&host.encode()).contains("1 members"), "{}", refused(&host.encode()));
    let mut frame = Vec::new();
    Frame::Change { now: Nanos(1), change: HostChange::Put { device: 3, saved: Box::new(host.devices[0].clone().expect("a device")) } }.encode(&mut frame);
    assert!(Frame::decode(&frame).expect_err("members are missing").to_string().contains("members"));
    assert!(Frame::decode(&[9]).expect_err("unknown").to_string().contains("kind 9"));
    let decision = Decision { start: Nanos(1), complete: Nanos(2), cap: Cap::None, verdict: Verdict::Ok };
    let mut frame = Vec::new();
    Frame::Request { device: 0, member: None, now: Nanos(1), io: Io { op: Op::Read, offset: 0, bytes: 512 }, decision }.encode(&mut frame);
    for (place, words) in [(4, "operation 7"), (5, "cap")] {
        let mut damaged = frame.clone();
        damaged[place] ^= 7 | if place == 5 { 64 } else { 0 };
        assert!(Frame::decode(&damaged).expect_err("damaged").to_string().contains(words));
    }
}

#[test]
fn changes_of_what_is_not_there_change_nothing() {
    let start = saved_host(None, &[("gp2:10", false)]);
    let mut host = Host::from_saved(&start);
    let before = save(&mut host, &start, Nanos(5));
    for device in [0, 1, 70_000] {
        for change in [
            HostChange::Balance { device: device.max(1), member: None, percent: 5.0 },
            HostChange::Recover { device, member: 1 },
            HostChange::Failed { device, member: 9, failed: true },
            HostChange::InstanceBalance { percent: 5.0 },
            HostChange::Modify { device: device.max(1), targets: Vec::new() },
        ] {
            host.change(Nanos(5), &change);
        }
    }
    host.change(Nanos(5), &HostChange::Put { device: usize::MAX, saved: Box::new(saved("gp2:10", 1, false)) });
    assert_eq!(host.devices.len(), 1);
    assert_eq!(save(&mut host, &start, Nanos(5)), before);
}

/// A modification that ended while nothing was asked ends before a change that comes later is made,
/// as it would have with a request in between.
#[test]
fn what_was_due_comes_before_a_change() {
    let target = Catalog::embedded().volume_limits(&"gp2:40".parse().expect("a volume"), day(), None).expect("limits");
    let modification = VolumeModification { target: target.clone(), modifying_until: Nanos::from_secs(1), optimizing_until: Nanos::from_secs(2) };
    let start = saved_host(None, &[("gp2:10", false)]);
    let mut host = Host::from_saved(&start);
    host.change(Nanos::ZERO, &HostChange::Modify { device: 0, targets: vec![modification] });
    host.change(Nanos::from_secs(5), &HostChange::Recover { device: 0, member: 0 });
    assert_eq!(host.devices[0].members()[0].limits(), &target);
    assert_eq!(host.devices[0].members()[0].modification_state(Nanos::from_secs(5)), None);
}
