//! The metrics of volumes through the daemon's calls: rows of minutes are recorded for times of the
//! past, so nothing waits for a minute to pass. Needs root and FUSE, as the devices' tests do.

use clap::Parser;
use headrace_cloudwatch::ebs::{INSTANCE_METRICS, VOLUME_METRICS};
use headrace_daemon::calls::answer;
use headrace_daemon::engine::Engine;
use headrace_daemon::metrics::{CreditUnit, Extra};
use headrace_daemon::options::Options;
use headrace_device::meter::Sample;
use headrace_model::Cap;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A lab that is taken down whatever happens.
struct Lab(Arc<Engine>);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.0.shut_down(true);
    }
}

fn open(folder: &Path) -> Lab {
    assert!(rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists(), "this test mounts a file system: it needs root and FUSE");
    let options = Options::parse_from(["headraced", "--data-dir", folder.to_str().unwrap(), "--instance-type", "m5.large"]);
    Lab(Engine::open(&options).unwrap_or_else(|problem| panic!("{problem:?}")))
}

fn call(lab: &Lab, name: &str, args: Value) -> Value {
    let reply = answer(&lab.0, name, args, None, false).0.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
    serde_json::from_str(reply.get()).expect("JSON")
}

fn code(lab: &Lab, name: &str, args: Value) -> String {
    answer(&lab.0, name, args, None, false).0.expect_err("it must be refused").code
}

/// A minute that began this many minutes ago.
fn minutes_ago(many: u64) -> u64 {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now_s / 60 * 60 - many * 60
}

/// A minute with 3,000 reads of 16 KiB and 100 writes of 1 MiB that waited for IOPS for 40 s.
fn busy() -> Sample {
    let mut sample = Sample { span_ns: 60_000_000_000, ops: [3_000, 100], bytes: [3_000 << 14, 100 << 20], ..Sample::empty() };
    (sample.time_ns, sample.consumed, sample.idle_ns) = ([6_000_000_000, 500_000_000], 3_400, 0);
    (sample.queue_ns, sample.queue_max) = (120_000_000_000, 4);
    let cap = Cap::ALL.iter().position(|&cap| cap == Cap::VolumeIops).unwrap();
    sample.exceeded_ns[cap] = 40_000_000_000;
    sample
}

fn record(lab: &Lab, volume: &str, t_s: u64, sample: &Sample, balance_percent: f64) {
    let extra =
        Extra { balance_percent: Some(balance_percent), instance_ios_percent: Some(90.0), instance_bytes_percent: Some(80.0), credits: CreditUnit::Ios };
    lab.0.metrics.store.record(volume, None, t_s, sample, &extra).unwrap();
}

fn points(lab: &Lab, namespace: &str, name: &str, dimension: [&str; 2], stat: &str, start_s: u64, end_s: u64) -> Vec<(u64, f64)> {
    let metric = json!({"Namespace": namespace, "MetricName": name, "Dimensions": [{"Name": dimension[0], "Value": dimension[1]}]});
    let query = json!({"Id": "m1", "MetricStat": {"Metric": metric, "Period": 60, "Stat": stat}});
    let data = call(lab, "cloudwatch.get_metric_data", json!({"queries": [query], "start_s": start_s, "end_s": end_s, "scan_by": "TimestampAscending"}));
    let result = &data["results"][0];
    let times = result["times_s"].as_array().unwrap().iter().map(|t_s| t_s.as_u64().unwrap());
    times.zip(result["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap())).collect()
}

#[test]
fn volumes_publish_what_their_minutes_say() {
    let folder = tempfile::tempdir().unwrap();
    let lab = open(folder.path());
    let create = |spec: &str| call(&lab, "volume.create", json!({"spec": spec}))["id"].as_str().unwrap().to_string();
    let (gp2, io1, idle) = (create("gp2:500"), create("io1:500:100"), create("gp3:100"));
    let first = minutes_ago(8);
    for (index, balance) in [100.0, 50.0].into_iter().enumerate() {
        record(&lab, &gp2, first + 60 * index as u64, &busy(), balance);
        record(&lab, &io1, first + 60 * index as u64, &busy(), 0.0);
    }
    // A minute without the volume, and one that is not over.
    record(&lab, &gp2, first + 180, &Sample { span_ns: 60_000_000_000, idle_ns: 60_000_000_000, ..Sample::empty() }, 51.0);
    record(&lab, &gp2, minutes_ago(0), &busy(), 52.0);
    let of = |volume: &str, name: &str| points(&lab, "AWS/EBS", name, ["VolumeId", volume], "Sum", first, minutes_ago(0) + 120);
    let times = |values: [f64; 3]| vec![(first, values[0]), (first + 60, values[1]), (first + 180, values[2])];
    assert_eq!(of(&gp2, "VolumeReadOps"), times([3_000.0, 3_000.0, 0.0]));
    assert_eq!(of(&gp2, "VolumeWriteBytes"), times([104_857_600.0, 104_857_600.0, 0.0]));
    assert_eq!(of(&gp2, "BurstBalance"), times([100.0, 50.0, 51.0]));
    assert_eq!(of(&gp2, "VolumeQueueLength"), times([2.0, 2.0, 0.0]));
    assert_eq!(of(&gp2, "VolumeIOPSExceededCheck"), times([1.0, 1.0, 0.0]), "40 s of 60 are more than half");
    assert_eq!(of(&gp2, "VolumeConsumedReadWriteOps"), [], "gp2 does not publish it");
    // 3,000 reads, and 100 writes of 1 MiB that count four times each.
    assert_eq!(of(&io1, "VolumeConsumedReadWriteOps"), [(first, 3_400.0), (first + 60, 3_400.0)]);
    // 3,400 in a minute are 56.7 a second of 100 provisioned.
    let delivered = of(&io1, "VolumeThroughputPercentage")[0].1;
    assert!((delivered - 3_400.0 / 60.0).abs() < 1e-9, "{delivered}");
    assert_eq!((of(&io1, "BurstBalance"), of(&idle, "VolumeReadOps"), of("vol-00000000000000000", "VolumeReadOps")), (vec![], vec![], vec![]));

    let instance = lab.0.ledger.lab(|lab| lab.settings.instance_id.clone());
    let of_instance = |name: &str| points(&lab, "AWS/EC2", name, ["InstanceId", &instance], "Sum", first, minutes_ago(0));
    assert_eq!(of_instance("EBSReadOps"), times([6_000.0, 6_000.0, 0.0]));
    let balance = of_instance("EBSIOBalance%");
    assert!(balance.iter().all(|(t_s, percent)| t_s % 300 == 0 && *percent == 90.0), "{balance:?}");

    let listed = call(&lab, "cloudwatch.list_metrics", json!({"namespace": "AWS/EBS", "recently_active": true}));
    let listed: Vec<(&str, &str)> = listed["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| (metric["name"].as_str().unwrap(), metric["dimensions"]["VolumeId"].as_str().unwrap()))
        .collect();
    assert_eq!(listed.iter().filter(|(_, volume)| *volume == idle).count(), 0, "it was never attached");
    assert!(listed.contains(&("BurstBalance", gp2.as_str())) && !listed.contains(&("BurstBalance", io1.as_str())));
    assert_eq!((VOLUME_METRICS.len(), INSTANCE_METRICS.len()), (18, 9));
}

/// An alarm on a math expression over a volume's minutes, as the engine's thread would see it.
#[test]
fn statistics_and_refusals_of_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let lab = open(folder.path());
    let volume = call(&lab, "volume.create", json!({"spec": "gp2:500"}))["id"].as_str().unwrap().to_string();
    let first = minutes_ago(20) / 300 * 300;
    for minute in 0..10 {
        record(&lab, &volume, first + 60 * minute, &busy(), 100.0 - 10.0 * minute as f64);
    }
    let arguments = |more: Value| {
        let mut args = json!({"namespace": "AWS/EBS", "name": "BurstBalance", "start_s": first, "end_s": first + 600, "period_s": 300,
                              "dimensions": [{"Name": "VolumeId", "Value": volume}]});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let statistics = call(&lab, "cloudwatch.get_metric_statistics", arguments(json!({"statistics": ["Minimum", "Average", "SampleCount"]})));
    let expected = json!([
        {"t_s": first, "unit": "Percent", "values": {"Minimum": 60.0, "Average": 80.0, "SampleCount": 5.0}},
        {"t_s": first + 300, "unit": "Percent", "values": {"Minimum": 10.0, "Average": 30.0, "SampleCount": 5.0}},
    ]);
    assert_eq!(statistics["datapoints"], expected);
    let other_unit = call(&lab, "cloudwatch.get_metric_statistics", arguments(json!({"statistics": ["Sum"], "unit": "Bytes"})));
    assert_eq!(other_unit["datapoints"], json!([]));
    for (more, expected) in [
        (json!({}), "MissingParameter"),
        (json!({"statistics": ["Sum"], "extended": ["p50"]}), "InvalidParameterCombination"),
        (json!({"statistics": ["Sum"], "period_s": 7}), "InvalidParameterValue"),
        (json!({"statistics": ["Sum"], "end_s": first}), "InvalidParameterValue"),
        (json!({"statistics": ["Sum"], "start_s": -1.0}), "InvalidParameterValue"),
        (json!({"statistics": ["Sum"], "unit": "Furlong"}), "InvalidParameterValue"),
    ] {
        assert_eq!(code(&lab, "cloudwatch.get_metric_statistics", arguments(more.clone())), expected, "{more}");
    }
    assert_eq!(code(&lab, "volume.nvme_statistics", json!({"volume": volume})), "IncorrectState", "it is not attached");
    assert_eq!(code(&lab, "events.since", json!({"cursor": "x"})), "InvalidParameterValue");
    let events = call(&lab, "events.since", json!({}));
    assert_eq!(events["events"][0]["detail"]["event"], "createVolume");
    let later = call(&lab, "events.since", json!({"cursor": events["cursor"]}));
    assert_eq!((later["events"].as_array().unwrap().len(), &later["cursor"]), (0, &events["cursor"]));
}
