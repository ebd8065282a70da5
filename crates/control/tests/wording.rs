//! Every refusal that the EC2 API has words of its own for says them: error code and sentence.
//! Clients find limits in them, so they are compared to the letter.

use headrace_control::{
    AttachRequest, AttachedDevice, ClientToken, Command, CreateRequest, DetachRequest, ErrorKind, Lab, ModificationTimes, ModifyRequest, SettingsRequest,
    TagRequest,
};
use std::collections::BTreeMap;

const START_MS: u64 = 1_767_225_600_000; // 2026-01-01

struct Ec2 {
    lab: Lab,
    drawn: u64,
    now: u64,
}

impl Ec2 {
    fn new() -> Ec2 {
        let mut ec2 = Ec2 { lab: Lab::default(), drawn: 0, now: START_MS };
        ec2.done(&Command::Configure(SettingsRequest::default()));
        ec2
    }

    fn done(&mut self, command: &Command) -> String {
        self.lab.due(self.now).iter().for_each(|event| self.lab.apply(event));
        let drawn = &mut self.drawn;
        let mut ids = || {
            *drawn += 1;
            *drawn
        };
        let events = self.lab.decide(command, self.now, &mut ids).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        events.iter().for_each(|event| self.lab.apply(event));
        events.iter().find_map(|event| event.change.subject()).unwrap_or_default()
    }

    /// An available volume; its id.
    fn volume(&mut self, spec: &str) -> String {
        let id = self.done(&Command::CreateVolume(CreateRequest { spec: spec.to_string(), ..CreateRequest::default() }));
        self.done(&Command::Created { volume: id.clone() });
        id
    }

    fn attached(&mut self, volume: &str, name: &str) {
        self.done(&attach(volume, name));
        self.done(&Command::Attached { volume: volume.to_string(), device: AttachedDevice::default() });
    }

    #[track_caller]
    fn says(&mut self, command: &Command, code: &str, message: &str) {
        self.lab.due(self.now).iter().for_each(|event| self.lab.apply(event));
        let error = self.lab.decide(command, self.now, &mut || 99).expect_err("refused");
        assert_eq!((error.problem().code.as_str(), error.problem().message.as_str()), (code, message), "{error}");
    }
}

fn create(volume_type: &str, size_gib: u64, iops: Option<u64>, throughput_mib_s: Option<u64>) -> Command {
    let volume_type = Some(volume_type.to_string());
    Command::CreateVolume(CreateRequest { volume_type, size_gib: Some(size_gib), iops, throughput_mib_s, ..CreateRequest::default() })
}

fn attach(volume: &str, device: &str) -> Command {
    let request = AttachRequest { device_name: Some(device.to_string()), ..AttachRequest::default() };
    Command::Attach { volume: volume.to_string(), request }
}

fn detach(volume: &str, request: DetachRequest) -> Command {
    Command::Detach { volume: volume.to_string(), request }
}

fn grow(volume: &str, size_gib: u64) -> Command {
    Command::Modify { volume: volume.to_string(), request: ModifyRequest { size_gib: Some(size_gib), ..ModifyRequest::default() } }
}

/// The limits are those of the newest day of data/volumes: the numbers stand in
/// data/volumes/*.toml.
#[test]
fn limits_of_types() {
    let mut ec2 = Ec2::new();
    let (value, combination) = ("InvalidParameterValue", "InvalidParameterCombination");
    // The CSI driver asks for the limits like this.
    let most = i32::MAX as u64;
    ec2.says(&create("gp3", 4, Some(most), None), value, "Volume iops of 2147483647 is too high; maximum is 80000.");
    ec2.says(&create("io1", 4, Some(most), None), value, "Volume iops of 2147483647 is too high; maximum is 64000.");
    let io2 = "io2 volumes configured with greater than 64 TiB or 256K IOPS or 1000:1 IOPS:GB ratio are not supported.";
    ec2.says(&create("io2", 4, Some(most), None), value, io2);
    for none in ["gp2", "st1", "sc1", "standard"] {
        let message = format!("The parameter iops is not supported for {none} volumes.");
        ec2.says(&create(none, 500, Some(3_000), None), combination, &message);
    }
    ec2.says(&create("io1", 100, None, None), combination, "The parameter iops must be specified for io1 volumes.");
    ec2.says(&create("gp3", 10, Some(7_500), None), value, "Iops to volume size ratio of 750.000000 is too high; maximum is 500");
    ec2.says(&create("io1", 100, Some(99), None), value, "Volume iops of 99 is too low; minimum is 100.");
    ec2.says(&create("io1", 3, Some(100), None), value, "Volume of 3GiB is too small; minimum is 4GiB.");
    ec2.says(&create("gp2", 16_385, None, None), value, "Volume of 16385GiB is too large; maximum is 16384GiB.");
    ec2.says(&create("gp3", 100, None, Some(2_001)), value, "Volume throughput of 2001 is too high; maximum is 2000.");
    ec2.says(&create("gp3", 100, None, Some(124)), value, "Volume throughput of 124 is too low; minimum is 125.");
    let ratio = "Throughput (MiBps) to iops ratio of 0.333333 is too high; maximum is 0.250000 MiBps per iops.";
    ec2.says(&create("gp3", 100, Some(3_000), Some(1_000)), value, ratio);
    ec2.says(&create("gp2", 100, None, Some(250)), combination, "The parameter throughput is not supported for gp2 volumes.");
    ec2.says(&create("xx9", 100, None, None), "UnknownVolumeType", "Unknown volume type 'xx9'.");
}

#[test]
fn new_volumes() {
    let mut ec2 = Ec2::new();
    let request = CreateRequest { size_gib: Some(10), ..CreateRequest::default() };
    let id = ec2.done(&Command::CreateVolume(request.clone()));
    assert_eq!(ec2.lab.find(&id).unwrap().spec.to_string(), "gp2:10", "EC2's default type");
    ec2.says(&Command::CreateVolume(CreateRequest::default()), "MissingParameter", "The request must contain the parameter size/snapshot");
    let elsewhere = CreateRequest { zone: Some("us-east-1b".to_string()), ..request.clone() };
    ec2.says(&Command::CreateVolume(elsewhere), "InvalidZone.NotFound", "The zone 'us-east-1b' does not exist.");
    let both = CreateRequest { zone: Some("us-east-1a".to_string()), zone_id: Some("use1-az1".to_string()), ..request.clone() };
    let message = "The parameter AvailabilityZone cannot be used with the parameter AvailabilityZoneId";
    ec2.says(&Command::CreateVolume(both), "InvalidParameterCombination", message);
    for (zone, zone_id) in [(Some("us-east-1a"), None), (None, Some("use1-az1"))] {
        ec2.done(&Command::CreateVolume(CreateRequest { zone: zone.map(Into::into), zone_id: zone_id.map(Into::into), ..request.clone() }));
    }
    let shared = CreateRequest { multi_attach: true, ..request };
    ec2.says(&Command::CreateVolume(shared), "UnsupportedOperation", "Multi-Attach is not supported: this lab has one instance.");
}

/// The ids are as AWS lists them: use1, usw2, euc1, apse2, apne1, sae1, usgw1.
#[test]
fn ids_of_zones() {
    let regions = ["us-east-1", "us-west-2", "eu-central-1", "ap-southeast-2", "ap-northeast-1", "sa-east-1", "us-gov-west-1", "ca-central-1"];
    let ids = ["use1-az1", "usw2-az1", "euc1-az1", "apse2-az1", "apne1-az1", "sae1-az1", "usgw1-az1", "cac1-az1"];
    let mut settings = Lab::default().settings;
    for (region, id) in regions.into_iter().zip(ids) {
        settings.region = region.to_string();
        assert_eq!((settings.zone(), settings.zone_id()), (format!("{region}a"), id.to_string()));
    }
}

#[test]
fn volumes_that_are_not_there() {
    let mut ec2 = Ec2::new();
    let existing = ec2.volume("gp3:10");
    let delete = |volume: &str| Command::DeleteVolume { volume: volume.to_string() };
    let gone = "vol-0123456789abcdef0";
    ec2.says(&delete(gone), "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist.");
    let malformed = "Value (vol-12) for parameter volumeId is invalid. Expected: 'vol-...'.";
    ec2.says(&delete("vol-12"), "InvalidParameterValue", malformed);
    let volumes = [gone.to_string(), existing, "vol-0123456789abcdef1".to_string()];
    let error = ec2.lab.find_all(&volumes).unwrap_err();
    assert_eq!(error.problem().message, "The volumes 'vol-0123456789abcdef0, vol-0123456789abcdef1' do not exist.");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn attachments() {
    let mut ec2 = Ec2::new();
    let (data, other) = (ec2.volume("gp3:10"), ec2.volume("gp3:10"));
    let instance = ec2.lab.settings.instance_id.clone();
    assert!(instance.starts_with("i-0") && instance.len() == 19, "{instance}");
    let is_available = format!("Volume '{data}' is in the 'available' state.");
    ec2.says(&detach(&data, DetachRequest::default()), "IncorrectState", &is_available);
    for name in ["/dev/sda0", "/dev/sd1", "xvdabc", "/dev/nvme1n1", "/dev/sdf16", "data", "../x", ""] {
        let message = format!("Value ({name}) for parameter device is invalid. {name} is not a valid EBS device name.");
        ec2.says(&attach(&data, name), "InvalidParameterValue", &message);
    }
    let root = "Invalid value '/dev/xvda' for unixDevice. Attachment point /dev/xvda is already in use";
    ec2.says(&attach(&data, "/dev/xvda"), "InvalidParameterValue", root);
    ec2.attached(&data, "/dev/sdf");
    let taken = "Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use";
    ec2.says(&attach(&other, "/dev/sdf"), "InvalidParameterValue", taken);
    ec2.says(&attach(&data, "/dev/sdg"), "VolumeInUse", &format!("{data} is already attached to an instance"));
    let delete = Command::DeleteVolume { volume: data.clone() };
    ec2.says(&delete, "VolumeInUse", &format!("Volume {data} is currently attached to {instance}"));
    let elsewhere = |instance: &str| AttachRequest { instance: Some(instance.to_string()), ..AttachRequest::default() };
    let to_other = Command::Attach { volume: other.clone(), request: elsewhere("i-0123456789abcdef0") };
    ec2.says(&to_other, "InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist");
    let malformed = Command::Attach { volume: other.clone(), request: elsewhere("here") };
    ec2.says(&malformed, "InvalidInstanceID.Malformed", "Invalid id: \"here\"");
    let named = |name: &str| DetachRequest { name: Some(name.to_string()), instance: Some(instance.clone()), ..DetachRequest::default() };
    let message = format!("The volume '{data}' is not attached to instance '{instance}' as device '/dev/sdg'");
    ec2.says(&detach(&data, named("/dev/sdg")), "InvalidAttachment.NotFound", &message);
    ec2.done(&detach(&data, named("/dev/sdf")));
    ec2.done(&Command::Detached { volume: data.clone() });
    // EC2 takes names with a partition, and with two letters.
    for name in ["/dev/sdz15", "sdh1", "/dev/xvdba", "/dev/hdb"] {
        ec2.attached(&data, name);
        ec2.done(&detach(&data, DetachRequest::default()));
        ec2.done(&Command::Detached { volume: data.clone() });
    }
    let creating = ec2.done(&create("gp3", 10, None, None));
    ec2.says(&attach(&creating, "/dev/sdf"), "IncorrectState", &format!("{creating} is not 'available'."));
    let wide = ec2.volume("128xgp2:1");
    ec2.attached(&data, "/dev/sdf");
    let full = "The maximum number of attachments for this instance has been reached. Limit is 128";
    ec2.says(&attach(&wide, "/dev/sdg"), "AttachmentLimitExceeded", full);
}

#[test]
fn modifications() {
    let mut ec2 = Ec2::new();
    let modification_times = Some(ModificationTimes { modifying_ms: 30_000, optimizing_ms: 60_000 });
    ec2.done(&Command::Configure(SettingsRequest { modification_times, ..SettingsRequest::default() }));
    let data = ec2.volume("gp3:10");
    ec2.says(&grow(&data, 9), "InvalidParameterValue", "New size cannot be smaller than existing size");
    ec2.done(&grow(&data, 11));
    let modifying = format!("Cannot attach volume {data} when it is in modification state: MODIFYING");
    ec2.says(&attach(&data, "/dev/sdf"), "OperationNotPermitted", &modifying);
    ec2.says(&grow(&data, 12), "IncorrectModificationState", &format!("Volume {data} cannot be modified in modification state MODIFYING"));
    ec2.now += 30_000;
    ec2.says(&grow(&data, 12), "IncorrectModificationState", &format!("Volume {data} cannot be modified in modification state OPTIMIZING"));
    for size in 12..=14 {
        ec2.now += 3_600_000;
        ec2.done(&grow(&data, size));
    }
    ec2.now += 3_600_000;
    // The first was at 00:00 of 2026-01-01.
    let rate = "You've reached the maximum modification rate per volume limit. The next modification is allowed at 2026-01-02 00:00:00 UTC.";
    ec2.says(&grow(&data, 15), "VolumeModificationRateExceeded", rate);
    let kind = Command::Modify { volume: data, request: ModifyRequest { volume_type: Some("gp9".to_string()), ..ModifyRequest::default() } };
    ec2.says(&kind, "UnknownVolumeType", "Unknown volume type 'gp9'.");
}

#[test]
fn tags_of_several_resources_at_once() {
    let mut ec2 = Ec2::new();
    let (first, second) = (ec2.volume("gp3:10"), ec2.volume("gp3:10"));
    let pairs = |count: usize| -> BTreeMap<String, String> { (0..count).map(|n| (format!("k{n}"), "v".to_string())).collect() };
    let tags = |resources: &[&String], set| TagRequest { resources: resources.iter().map(ToString::to_string).collect(), set, ..TagRequest::default() };
    ec2.done(&Command::Tag(tags(&[&first, &second, &first], pairs(2))));
    assert_eq!((ec2.lab.find(&first).unwrap().tags.len(), ec2.lab.find(&second).unwrap().tags.len()), (2, 2));
    // All or none.
    let nobody = "vol-0123456789abcdef0".to_string();
    ec2.says(&Command::Tag(tags(&[&first, &nobody], pairs(3))), "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist.");
    ec2.done(&Command::Tag(tags(&[&first], pairs(50))));
    let many = TagRequest { set: [("more".to_string(), String::new())].into(), ..tags(&[&second, &first], BTreeMap::new()) };
    ec2.says(&Command::Tag(many), "TagLimitExceeded", "The maximum number of Tags for a resource has been reached. Limit is 50");
    assert_eq!(ec2.lab.find(&second).unwrap().tags.len(), 2);
    // DeleteTags with a value removes only a tag that has it.
    let remove_equal = [("k0".to_string(), "v".to_string()), ("k1".to_string(), "other".to_string())].into();
    ec2.done(&Command::Tag(TagRequest { remove_equal, ..tags(&[&second], BTreeMap::new()) }));
    assert_eq!(ec2.lab.find(&second).unwrap().tags.keys().collect::<Vec<_>>(), ["k1"]);
}

#[test]
fn attributes() {
    let mut ec2 = Ec2::new();
    let data = ec2.volume("gp3:10");
    let set = |auto_enable_io, delete_on_termination| Command::SetAttributes { volume: data.clone(), auto_enable_io, delete_on_termination };
    assert!(!ec2.lab.find(&data).unwrap().auto_enable_io);
    ec2.done(&set(Some(true), None));
    ec2.says(&set(None, Some(true)), "IncorrectState", &format!("Volume '{data}' is in the 'available' state."));
    ec2.attached(&data, "/dev/sdf");
    ec2.done(&set(None, Some(true)));
    let record = ec2.lab.find(&data).unwrap();
    assert!(record.auto_enable_io && record.attachment.as_ref().unwrap().delete_on_termination);
}

/// A token is one event of the decision it came with.
#[test]
fn a_token_and_what_was_done_under_it_are_one_decision() {
    let ec2 = Ec2::new();
    let token = |request: &str| ClientToken { token: "t".to_string(), request: request.to_string() };
    let command = create("gp3", 10, None, None);
    let events = ec2.lab.decide_once(&command, &token("a"), START_MS, &mut || 7).unwrap();
    assert_eq!(events.len(), 2);
    let mut lab = ec2.lab.clone();
    events.iter().for_each(|event| lab.apply(event));
    let used = lab.tokens.find(&token("a")).unwrap().unwrap();
    assert_eq!(used.subject, events[0].change.subject());
    let again = lab.decide_once(&command, &token("b"), START_MS, &mut || 8).unwrap_err();
    let sentence = "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
    assert_eq!((again.problem().code.as_str(), again.problem().message.as_str()), ("IdempotentParameterMismatch", sentence));
    // A refused command uses no token.
    assert!(ec2.lab.decide_once(&create("gp3", 0, None, None), &token("a"), START_MS, &mut || 7).is_err());
}
