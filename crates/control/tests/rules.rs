//! Every rule refuses in its words: kind, value, rule, source, hint. And modifications go on at
//! their exact times.

use headrace_control::{
    AttachRequest, AttachedDevice, Command, ControlError, CreateRequest, DetachRequest, ErrorKind, Lab, ModificationTimes, ModifyRequest, SettingsRequest,
    TagRequest, VolumeId,
};

const START_MS: u64 = 1_767_225_600_000; // 2026-01-01
const HOUR_MS: u64 = 3_600_000;

struct Bench {
    lab: Lab,
    counter: u64,
    now: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench { lab: Lab::default(), counter: 0, now: START_MS }
    }

    fn run(&mut self, command: Command) -> Result<usize, ControlError> {
        let due = self.lab.due(self.now);
        due.iter().for_each(|event| self.lab.apply(event));
        let counter = &mut self.counter;
        let events = self.lab.decide(&command, self.now, &mut || {
            *counter += 1;
            *counter
        })?;
        events.iter().for_each(|event| self.lab.apply(event));
        Ok(events.len())
    }

    fn ok(&mut self, command: Command) -> &mut Bench {
        let text = format!("{command:?}");
        self.run(command).unwrap_or_else(|error| panic!("{text}: {error}"));
        self
    }

    /// A volume called `data` that is available.
    fn with(spec: &str) -> Bench {
        let mut bench = Bench::new();
        bench.ok(create(spec, Some("data"))).ok(Command::Created { volume: data() });
        bench
    }

    #[track_caller]
    fn refuses(&mut self, command: Command, kind: ErrorKind, value: &str, rule: &str, source: &str) {
        let due = self.lab.due(self.now);
        due.iter().for_each(|event| self.lab.apply(event));
        let before = self.lab.clone();
        let text = format!("{command:?}");
        let error = self.run(command).expect_err(&text);
        let problem = error.problem();
        assert_eq!(problem.kind, kind, "{error}");
        assert!(problem.value.contains(value) && problem.rule.contains(rule) && problem.source.contains(source), "{error}");
        assert!(problem.hint.ends_with(['.', '?']) && !problem.hint.contains('\n') && !problem.source.is_empty(), "{error}");
        assert_eq!(error.to_string(), format!("{}: {} ({}). {}", problem.value, problem.rule, problem.source, problem.hint));
        assert_eq!(self.lab, before);
    }

    fn record(&self) -> &headrace_control::VolumeRecord {
        self.lab.find("data").unwrap()
    }
}

fn data() -> String {
    "data".to_string()
}

fn create(spec: &str, name: Option<&str>) -> Command {
    Command::CreateVolume(CreateRequest { spec: spec.to_string(), name: name.map(str::to_string), ..CreateRequest::default() })
}

fn as_of(spec: &str, day: &str) -> Command {
    Command::CreateVolume(CreateRequest { spec: spec.to_string(), name: Some(data()), as_of: Some(day.to_string()), ..CreateRequest::default() })
}

fn attach(name: Option<&str>) -> Command {
    Command::Attach { volume: data(), request: AttachRequest { name: name.map(str::to_string), ..AttachRequest::default() } }
}

fn detach(force: bool) -> Command {
    Command::Detach { volume: data(), request: DetachRequest { force, ..DetachRequest::default() } }
}

fn attached() -> Command {
    Command::Attached { volume: data(), device: AttachedDevice::default() }
}

fn modify(size_gib: Option<u64>, volume_type: Option<&str>, iops: Option<u64>, throughput_mib_s: Option<u64>) -> Command {
    Command::Modify {
        volume: data(),
        request: ModifyRequest { size_gib, volume_type: volume_type.map(str::to_string), iops, throughput_mib_s, used_gib: None },
    }
}

fn grow(size_gib: u64) -> Command {
    modify(Some(size_gib), None, None, None)
}

fn configure(instance: Option<&str>, day: Option<&str>, scale: Option<u32>, region: Option<&str>) -> Command {
    let text = |text: Option<&str>| text.map(str::to_string);
    Command::Configure(SettingsRequest {
        instance_type: text(instance),
        as_of: text(day),
        time_scale: scale,
        region: text(region),
        ..SettingsRequest::default()
    })
}

/// Modifications that take 10 ms until `optimizing` and 20 ms in it.
fn short_modifications() -> Command {
    let times = ModificationTimes { modifying_ms: 10, optimizing_ms: 20 };
    Command::Configure(SettingsRequest { modification_times: Some(times), ..SettingsRequest::default() })
}

fn tag(set: impl IntoIterator<Item = (String, String)>) -> Command {
    Command::Tag(TagRequest { resources: vec![data()], set: set.into_iter().collect(), ..TagRequest::default() })
}

#[test]
fn settings() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:100");
    bench.refuses(configure(Some("m5.2xlrge"), None, None, None), InvalidParameter, "m5.2xlrge", "", "");
    bench.refuses(configure(Some("r8g.2xlarge"), Some("2018-01-01"), None, None), InvalidParameter, "r8g.2xlarge", "", "");
    bench.refuses(configure(None, Some("yesterday"), None, None), InvalidParameter, "yesterday", "YYYY-MM-DD", "--as-of");
    bench.refuses(configure(None, None, Some(0), None), InvalidParameter, "0", "1 to 1000000", "lab");
    bench.refuses(configure(None, None, None, Some("mars-1")), InvalidParameter, "mars-1", "region", "data/prices_regions.csv");
    bench.ok(configure(Some("m5.2xlarge"), None, Some(60), None)).ok(attach(None));
    bench.refuses(configure(Some("m5.4xlarge"), None, None, None), InUse, "m5.4xlarge", "while data is attached", "EC2");
    bench.ok(configure(None, None, Some(3_600), None));
    assert_eq!(bench.run(configure(Some("m5.2xlarge"), None, None, None)), Ok(0), "nothing changes");
    bench.ok(Command::AttachFailed { volume: data(), reason: "no fuse".to_string() }).ok(configure(Some("none"), None, None, None));
}

#[test]
fn volumes() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:100");
    bench.refuses(create("gp2", None), InvalidParameter, "gp2", "size is missing", "notation");
    bench.refuses(create("gp2:99999", None), InvalidParameter, "gp2:99999", "1 to 16384 GiB", "EBSVolumeTypes");
    bench.refuses(as_of("gp3:10", "2018-01-01"), InvalidParameter, "gp3 on 2018-01-01", "exist since", "");
    bench.refuses(create("gp2:10", Some("data")), InvalidParameter, "data", "names are unique", "lab");
    for name in ["", "vol-1", "a b", "../x", "-a", &"n".repeat(65)] {
        bench.refuses(create("gp2:10", Some(name)), InvalidParameter, "", "a name is 1 to 64", "lab");
    }
    let with_balance = |spec: &str, percent| {
        Command::CreateVolume(CreateRequest { spec: spec.to_string(), name: None, balance_percent: Some(percent), ..CreateRequest::default() })
    };
    bench.refuses(with_balance("gp2:10", 100.1), InvalidParameter, "100.1 %", "0 to 100", "lab");
    bench.refuses(with_balance("gp2:10", f64::NAN), InvalidParameter, "NaN %", "0 to 100", "lab");
    bench.refuses(with_balance("gp3:10", 5.0), Unsupported, "gp3:10", "no credit balance", "gp2.toml");
    bench.refuses(Command::Created { volume: data() }, IncorrectState, "data", "is available, and must be creating", "EC2");
    bench.refuses(Command::Deleted { volume: data() }, IncorrectState, "data", "must be deleting", "EC2");
    bench.refuses(Command::DeleteVolume { volume: "nope".to_string() }, NotFound, "nope", "neither the id nor the name", "lab");
    bench.ok(attach(None));
    bench.refuses(Command::DeleteVolume { volume: data() }, InUse, "data", "only a volume that is available", "DeleteVolume");
    bench.ok(create("gp2:1", Some("young")));
    bench.refuses(Command::DeleteVolume { volume: "young".to_string() }, IncorrectState, "young", "is creating", "EC2");
    bench.ok(Command::VolumeFailed { volume: "young".to_string(), reason: "disk full".to_string() });
    bench.refuses(Command::Attach { volume: "young".to_string(), request: AttachRequest::default() }, IncorrectState, "young", "is error", "EC2");
    bench.ok(Command::DeleteVolume { volume: "young".to_string() });
    bench.refuses(Command::VolumeFailed { volume: "young".to_string(), reason: String::new() }, IncorrectState, "young", "is deleting", "EC2");
    bench.ok(Command::Deleted { volume: "young".to_string() }).ok(create("gp2:1", Some("young")));
    // A broken source of chance ends in words, not in a circle.
    let stuck = bench.lab.volumes.keys().next().unwrap().as_str().trim_start_matches("vol-0").to_string();
    let stuck = u64::from_str_radix(&stuck, 16).unwrap();
    let error = bench.lab.decide(&create("gp2:1", None), START_MS, &mut || stuck).unwrap_err();
    assert_eq!((error.kind(), error.problem().value.as_str()), (Unavailable, "64 new volume ids"));
    for _ in 0..16_382 / 128 {
        bench.ok(create("128xgp2:1", None));
    }
    bench.refuses(create("128xgp2:1", None), LimitExceeded, "128xgp2:1", "at most 16384 volumes", "lab");
}

#[test]
fn a_volume_that_could_be_used_comes_back_from_error() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:10");
    let failed = |volume: &str| Command::VolumeFailed { volume: volume.to_string(), reason: "its file is missing".to_string() };
    bench.ok(attach(None)).ok(attached()).ok(Command::Detached { volume: data() }).ok(failed("data")).ok(failed("data"));
    let error = bench.run(attach(None)).unwrap_err();
    assert!(error.problem().hint.contains("its file is missing. Put back what is missing, then start the lab again"), "{error}");
    bench.ok(Command::Created { volume: data() });
    assert_eq!((bench.record().status.as_str(), &bench.record().error), ("available", &None));
    bench.ok(attach(None)).ok(attached());
    // A volume that was never made has no bytes to come back to.
    bench.ok(create("gp2:1", Some("young"))).ok(failed("young"));
    bench.refuses(Command::Created { volume: "young".to_string() }, IncorrectState, "young", "is error, and must be creating", "EC2");
    let error = bench.run(Command::Attach { volume: "young".to_string(), request: AttachRequest::default() }).unwrap_err();
    assert!(error.problem().hint.ends_with("Delete it and create another."), "{error}");
}

#[test]
fn tags() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:100");
    let tag_pair = |key: &str, value: &str| tag([(key.to_string(), value.to_string())]);
    bench.refuses(tag_pair("", "v"), InvalidParameter, "(nothing)", "1 to 128 characters, this one 0", "tag restrictions");
    bench.refuses(tag_pair(&"ä".repeat(129), "v"), InvalidParameter, "ä", "this one 129", "tag restrictions");
    bench.refuses(tag_pair("aws:x", "v"), InvalidParameter, "aws:x", "belong to AWS", "tag restrictions");
    bench.refuses(tag_pair("k", &"v".repeat(257)), InvalidParameter, "vvv...", "at most 256 characters", "tag restrictions");
    bench.ok(tag_pair(&"ä".repeat(128), &"ä".repeat(256)));
    let many = |count: usize| tag((0..count).map(|n| (format!("k{n}"), String::new())));
    bench.refuses(many(50), LimitExceeded, "51 tags", "at most 50 tags", "tag restrictions");
    bench.ok(many(49));
    assert_eq!(bench.run(many(49)), Ok(0), "nothing changes");
    bench.ok(Command::Tag(TagRequest { resources: vec![data()], remove: vec!["k3".to_string(), "unknown".to_string()], ..TagRequest::default() }));
    assert_eq!(bench.record().tags.len(), 49);
}

#[test]
fn attachments() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:100");
    for name in ["", "by-id", "a/b", "..", "SDF", "1a", &"n".repeat(33)] {
        bench.refuses(attach(Some(name)), InvalidParameter, "", "an attach name is 1 to 32", "lab");
    }
    bench.refuses(detach(true), IncorrectState, "data", "is available and not attached", "DetachVolume");
    bench.ok(create("gp2:1", Some("other"))).ok(Command::Created { volume: "other".to_string() });
    bench.ok(Command::Attach { volume: "other".to_string(), request: AttachRequest::default() });
    assert_eq!(bench.lab.find("other").unwrap().attachment.as_ref().unwrap().name, "sdf");
    bench.refuses(attach(Some("/dev/sdf")), InvalidParameter, "/dev/sdf", "attach name of other", "EC2");
    bench.ok(attach(None));
    assert_eq!(bench.record().attachment.as_ref().unwrap().name, "sdg");
    bench.refuses(attach(None), InUse, "data", "is already attaching as sdg", "VolumeInUse");
    bench.refuses(detach(false), IncorrectState, "data", "is attaching", "EC2");
    bench.ok(attached()).ok(attached());
    bench.refuses(Command::AttachFailed { volume: data(), reason: String::new() }, IncorrectState, "data", "is attached", "EC2");
    bench.refuses(Command::DetachBusy { volume: data(), reason: String::new(), waits: false }, IncorrectState, "data", "is attached", "EC2");
    bench.ok(detach(false));
    bench.refuses(attached(), IncorrectState, "data", "is detaching", "EC2");
    bench.refuses(detach(false), IncorrectState, "data", "is detaching", "EC2");
    bench.ok(Command::DetachBusy { volume: data(), reason: "mounted on /mnt".to_string(), waits: false });
    assert_eq!(bench.record().attachment.as_ref().unwrap().busy.as_deref(), Some("mounted on /mnt"));
    bench.ok(detach(true));
    bench.refuses(detach(true), IncorrectState, "data", "is detaching", "EC2");
    bench.ok(Command::Detached { volume: data() });
    // Members count one by one: 1 + 127 fit, 1 + 128 do not.
    bench.ok(create("128xgp2:1", Some("wide"))).ok(Command::Created { volume: "wide".to_string() });
    bench.refuses(
        Command::Attach { volume: "wide".to_string(), request: AttachRequest::default() },
        LimitExceeded,
        "wide",
        "129 attached volumes",
        "data/instances.csv",
    );
    bench.ok(grow(200));
    bench.refuses(attach(None), IncorrectState, "data", "in state modifying", "OperationNotPermitted");
    bench.now += 30_000;
    bench.ok(attach(None));
}

#[test]
fn modifications() {
    use ErrorKind::*;
    let mut bench = Bench::with("gp2:100");
    bench.refuses(grow(99), InvalidParameter, "99 GiB", "never shrinks, and data has 100 GiB", "modify-volume-requirements");
    bench.refuses(grow(100), InvalidParameter, "gp2:100", "is what the volume already is", "lab");
    bench.refuses(grow(20_000), InvalidParameter, "gp2:20000", "1 to 16384 GiB", "");
    bench.refuses(modify(None, Some("gp9"), None, None), InvalidParameter, "gp9", "is not a volume type", "data/volumes");
    bench.refuses(modify(None, None, Some(4_000), None), InvalidParameter, "gp2:100:4000", "no IOPS to choose", "gp2.toml");
    bench.refuses(
        Command::ModifyFailed { volume: data(), reason: String::new() },
        IncorrectModificationState,
        "data",
        "no modification in state modifying",
        "EC2",
    );
    bench.refuses(modify(None, Some("instance-store"), None, None), Unsupported, "instance-store", "not EBS volumes", "instance-store.toml");
    bench.ok(grow(200));
    bench.refuses(grow(300), IncorrectModificationState, "data", "in modification state modifying", "IncorrectModificationState");
    bench.now += 30_000;
    bench.refuses(grow(300), IncorrectModificationState, "data", "in modification state optimizing", "IncorrectModificationState");
    bench.refuses(
        Command::ModifyFailed { volume: data(), reason: String::new() },
        IncorrectModificationState,
        "data",
        "no modification in state modifying",
        "EC2",
    );
    let nobody = Command::Modify {
        volume: "nope".to_string(),
        request: ModifyRequest { size_gib: Some(1), volume_type: None, iops: None, throughput_mib_s: None, used_gib: None },
    };
    bench.refuses(nobody, NotFound, "nope", "", "lab");
    // 3,000 IOPS where none are named are too many for a small volume.
    let mut small = Bench::with("gp2:40");
    small.refuses(modify(None, Some("io1"), None, None), InvalidParameter, "io1:40:3000", "at most 50 IOPS per GiB", "");
    // Before volumes could be modified.
    let mut old = Bench::new();
    old.ok(as_of("gp2:100", "2016-06-01")).ok(Command::Created { volume: data() });
    old.refuses(grow(200), Unsupported, "data as of 2016-06-01", "since 2017-02-13", "botocore 1.5.11");
    // Arrays.
    let mut array = Bench::with("raid10:4xgp3:100");
    array.refuses(grow(301), InvalidParameter, "301 GiB", "multiple of 2 GiB", "lab");
    array.ok(Command::FailMember { volume: data(), member: 1 });
    let member = format!("{}-m1", array.record().id);
    array.refuses(grow(400), IncorrectState, &member, "only a whole array can grow", "lab");
    array.ok(modify(None, None, Some(4_000), None));
}

#[test]
fn four_in_a_rolling_day_and_not_one_more() {
    let mut bench = Bench::with("gp3:100");
    bench.ok(short_modifications());
    let starts = [0, HOUR_MS, 5 * HOUR_MS, 23 * HOUR_MS];
    for (index, start) in starts.into_iter().enumerate() {
        bench.now = START_MS + start;
        bench.ok(grow(200 + index as u64));
    }
    bench.now = START_MS + 24 * HOUR_MS - 1;
    let hint = "2026-01-02 00:00:00 UTC";
    let error = bench.run(grow(300)).unwrap_err();
    assert!(error.problem().hint.contains(hint), "{error}");
    bench.refuses(grow(300), ErrorKind::RateExceeded, "data", "was modified 4 times in 24 hours", "VolumeModificationRateExceeded");
    // Exactly a day old counts no more; then the second is the oldest.
    bench.now += 1;
    bench.ok(grow(300));
    bench.now = START_MS + 25 * HOUR_MS - 1;
    bench.refuses(grow(301), ErrorKind::RateExceeded, "data", "4 times", "1.42.29");
    bench.now += 1;
    bench.ok(grow(301));
    // One that failed counts: it was accepted.
    bench.ok(Command::ModifyFailed { volume: data(), reason: "no space".to_string() });
    assert_eq!((bench.record().size_gib(), bench.record().modification().unwrap().reason.as_deref()), (300, Some("no space")));
    bench.now = START_MS + 29 * HOUR_MS - 1;
    bench.refuses(grow(301), ErrorKind::RateExceeded, "data", "4 times", "");
}

#[test]
fn six_hours_apart_before_2026() {
    let mut bench = Bench::new();
    bench.ok(as_of("gp2:100", "2026-01-14")).ok(Command::Created { volume: data() });
    bench.ok(short_modifications());
    for size in 101..=106 {
        bench.ok(grow(size));
        bench.now += 6 * HOUR_MS - 1;
        bench.refuses(grow(size + 1), ErrorKind::RateExceeded, "data", "less than 6 hours ago", "VolumeModificationRateExceeded");
        bench.now += 1;
    }
}

#[test]
fn a_modification_goes_on_at_its_exact_times() {
    let mut bench = Bench::with("gp2:1024");
    bench.ok(Command::Modify {
        volume: data(),
        request: ModifyRequest { size_gib: Some(2_048), volume_type: None, iops: None, throughput_mib_s: None, used_gib: Some(512) },
    });
    // The model's guess: 30 s, then 6 h and 12 h per TiB in use.
    let (optimizing, completed) = (START_MS + 30_000, START_MS + 30_000 + 12 * HOUR_MS);
    assert_eq!(bench.lab.next_due(), Some(optimizing));
    assert_eq!(bench.lab.due(optimizing - 1), []);
    let both = bench.lab.due(completed);
    assert_eq!(both.iter().map(|event| event.at_ms).collect::<Vec<_>>(), [optimizing, completed]);
    let due = bench.lab.due(completed - 1);
    assert_eq!(due, both[..1]);
    assert_eq!((bench.record().size_gib(), bench.record().modification().unwrap().progress_percent(optimizing)), (1_024, 0));
    bench.lab.apply(&due[0]);
    assert_eq!((bench.record().size_gib(), bench.lab.next_due()), (2_048, Some(completed)));
    let progress = |bench: &Bench, at| bench.record().modification().unwrap().progress_percent(at);
    assert_eq!([0, 6, 12].map(|hours| progress(&bench, optimizing + hours * HOUR_MS)), [0, 50, 99]);
    bench.lab.due(completed).iter().for_each(|event| bench.lab.apply(event));
    assert_eq!((progress(&bench, completed), bench.lab.next_due(), bench.lab.due(u64::MAX)), (100, None, vec![]));
    assert_eq!(bench.record().modification().unwrap().ended_ms, Some(completed));
}

#[test]
fn what_is_not_named_has_ec2_defaults() {
    let after = |from: &str, command: Command| {
        let mut bench = Bench::with(from);
        bench.ok(command);
        bench.record().modification().unwrap().to.to_string()
    };
    let to = |volume_type| modify(None, Some(volume_type), None, None);
    // The guide's own example: 500 GiB of gp2 becomes 3,000 IOPS (included) and 250 MiB/s.
    assert_eq!(after("gp2:500", to("gp3")), "gp3:500::250");
    assert_eq!(after("gp2:2000", to("gp3")), "gp3:2000:6000:250");
    assert_eq!(after("io1:500:5000", to("gp3")), "gp3:500");
    assert_eq!(after("io1:500:5000", to("io2")), "io2:500:3000");
    assert_eq!(after("gp3:500:6000:300", to("gp2")), "gp2:500");
    assert_eq!(after("gp3:500:6000:300", grow(600)), "gp3:600:6000:300");
    assert_eq!(after("gp3:500", modify(None, None, Some(5_000), Some(400))), "gp3:500:5000:400");
    assert_eq!(after("raid5:3xgp3:100", grow(300)), "raid5:3xgp3:150");
    assert_eq!(after("raid10f2:4xgp3:100", modify(Some(200), None, Some(4_000), None)), "raid10f2:4xgp3:100:4000");
    Bench::with("raid10f2:4xgp3:100").refuses(grow(202), ErrorKind::Unsupported, "raid10f2:4xgp3:100", "cannot grow", "lab");
    assert_eq!(after("raid1:gp3:100+gp3:150", grow(120)), "raid1:gp3:120+gp3:150");
}

#[test]
fn members() {
    use ErrorKind::*;
    let mut bench = Bench::with("raid10:4xgp2:100");
    let slow = |member, caps_percent, extra_ms| Command::SlowMember { volume: data(), member, caps_percent, extra_ms };
    let fail = |member| Command::FailMember { volume: data(), member };
    let replace = |member, mib_s| Command::ReplaceMember { volume: data(), member, mib_s };
    let rebuilding = |member, done_bytes| Command::MemberRebuilding { volume: data(), member, done_bytes };
    let restore = |member| Command::RestoreMember { volume: data(), member };
    bench.refuses(fail(4), NotFound, "member 4", "members 0 to 3", "lab");
    // The error repeats the user's value in the user's units, whatever is wrong with it.
    for (caps, text) in [(0.0, "0 %"), (0.09, "0.09 %"), (-5.0, "-5 %"), (100.1, "100.1 %"), (f64::NAN, "NaN %")] {
        bench.refuses(slow(0, caps, 0.0), InvalidParameter, text, "0.1 to 100 percent", "lab");
    }
    for (extra, text) in [(60_000.001, "60000.001 ms"), (-0.001, "-0.001 ms"), (1e6, "1000000 ms"), (f64::INFINITY, "inf ms")] {
        bench.refuses(slow(0, 50.0, extra), InvalidParameter, text, "0 to 60000 ms", "lab");
    }
    bench.refuses(replace(0, Some(0)), InvalidParameter, "0 MiB/s", "1 MiB/s or more", "lab");
    bench.refuses(Command::MemberRebuilt { volume: data(), member: 0 }, IncorrectState, "-m0", "is not being rebuilt", "lab");
    bench.refuses(Command::SetBalance { volume: data(), member: Some(9), percent: 5.0 }, NotFound, "member 9", "members 0 to 3", "lab");
    bench.refuses(Command::SetBalance { volume: data(), member: None, percent: -1.0 }, InvalidParameter, "-1 %", "0 to 100", "lab");
    assert_eq!(bench.run(Command::SetBalance { volume: data(), member: None, percent: 0.5 }), Ok(4));
    bench.ok(slow(2, 0.1, 60_000.0)).ok(slow(2, 50.0, 0.01)).ok(slow(2, 100.0, 0.0)).ok(fail(0));
    bench.refuses(slow(0, 50.0, 0.01), IncorrectState, "-m0", "is lost", "lab");
    bench.refuses(restore(0), IncorrectState, "-m0", "is lost", "lab");
    bench.ok(replace(0, None));
    bench.refuses(replace(0, None), IncorrectState, "-m0", "already being rebuilt", "lab");
    bench.refuses(restore(0), IncorrectState, "-m0", "is being rebuilt", "lab");
    bench.refuses(rebuilding(0, (100 << 30) + 1), InvalidParameter, "bytes", "ends at the size", "lab");
    // A restart begins it again.
    bench.ok(rebuilding(0, 4_096)).ok(rebuilding(0, 4_095));
    assert!(bench.record().data_complete());
    // The other half of the pair goes: the rebuild has nothing to read.
    assert_eq!(bench.run(fail(1)), Ok(2));
    assert!(!bench.record().data_complete());
    bench.refuses(replace(0, None), IncorrectState, "-m0", "hold the same data are lost too", "md(4)");
    let mut single = Bench::with("gp3:100");
    single.refuses(fail(1), NotFound, "member 1", "whose only member is 0", "lab");
    single.refuses(replace(0, None), Unsupported, "vol-", "no redundancy", "md(4)");
    single.refuses(Command::SetBalance { volume: data(), member: None, percent: 5.0 }, Unsupported, "gp3:100", "no credit balance", "gp2.toml");
    single.ok(fail(0)).ok(restore(0));
    let mut growing = Bench::with("raid1:2xgp3:100");
    growing.ok(grow(200)).ok(fail(0));
    growing.refuses(replace(0, None), IncorrectState, "-m0", "its size is about to change", "lab");
}

#[test]
fn ids_look_like_those_of_ec2_and_nothing_else_is_one() {
    let bench = Bench::with("gp2:1");
    assert_eq!(bench.record().id.as_str(), "vol-00000000000000001");
    for text in ["vol-1", "vol-0000000000000000g", "vol-0000000000000000A", "VOL-00000000000000001", "vol-00000000000000001/..", "../etc"] {
        assert!(text.parse::<VolumeId>().is_err() && serde_json::from_str::<VolumeId>(&format!("{text:?}")).is_err(), "{text}");
    }
    assert_eq!(headrace_control::fault_id(&mut || u64::MAX), "fault-0ffffffffffffffff");
}
