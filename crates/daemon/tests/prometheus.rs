//! The Prometheus text against a strict reader.

use headrace_daemon::metrics::{Extra, Gauges, Store, VolumeGauges};
use headrace_device::meter::{bucket_of, Sample};
use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// Reads the text format 0.0.4 as strictly as its rules are written: families in one piece, HELP
/// and TYPE first, no series twice.
fn read(text: &str) -> BTreeMap<String, Vec<(String, Labels, f64)>> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Vec<(String, Labels, f64)>> = BTreeMap::new();
    let (mut types, mut seen, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && !help.contains('\\'));
            family = name.to_string();
            assert!(families.insert(family.clone(), Vec::new()).is_none(), "{name} comes twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
            types.insert(name.to_string(), kind.to_string());
        } else {
            let (name, labels, value) = sample(line);
            let base = if types[&family] == "histogram" {
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or_else(|| panic!("{name} in a histogram"))
            } else {
                &name
            };
            assert_eq!(base, family, "{line}");
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            families.get_mut(&family).unwrap().push((name, labels, value));
        }
    }
    families
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let name = &line[..end];
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.as_bytes()[0].is_ascii_digit());
    let (mut labels, mut rest) = (Labels::new(), &line[end..]);
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let at = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, same) => value.push(same),
                }
            };
            assert!(labels.insert(label.to_string(), value).is_none());
            rest = &after[at + 1..];
            match rest.as_bytes()[0] {
                b',' => rest = &rest[1..],
                b'}' => break rest = &rest[1..],
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_string(), labels, value.parse().unwrap_or_else(|_| panic!("{value} in {line}")))
}

fn busy() -> Sample {
    let mut sample = Sample { span_ns: 1_000_000_000, ops: [4, 2], bytes: [16_384, 8_192], time_ns: [2_000_000, 1], idle_ns: 250_000_001, ..Sample::empty() };
    sample.exceeded_ns = [0, 1_000_000_000, 2, 0, 3, 4, 0, 0, 5, 0];
    for took in [1, 300_000, 500_000_000, 200_000_000_000] {
        sample.latency[0][1][bucket_of(took)] += 1;
    }
    sample.latency[1][0][bucket_of(800_000)] += 2;
    sample.late[bucket_of(40_000)] += 6;
    sample
}

#[test]
fn the_exposition_reads_as_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (volume, member) in [("vol-a", None), ("vol-a", Some(0)), ("vol-b", None)] {
        for t_s in 0..3 {
            store.record(volume, member, t_s, &busy(), &Extra::default()).unwrap();
        }
    }
    let odd = "a\\b\"c\nd";
    let attached = [("vol-a", None, Some(25.0)), ("vol-a", Some(0), None), (odd, None, Some(100.0))];
    let volumes = attached.map(|(volume, member, balance_percent)| VolumeGauges { volume: volume.to_string(), member, queue_length: 9, balance_percent });
    let text = store.exposition(&Gauges { volumes: volumes.to_vec(), instance_ios_percent: Some(50.0), instance_bytes_percent: None });
    let families = read(&text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels: Labels = labels.iter().map(|&(label, value)| (label.to_string(), value.to_string())).collect();
        let of = ["_bucket", "_sum", "_count"].iter().find_map(|end| families.get(name.strip_suffix(end)?)).unwrap_or_else(|| &families[name]);
        of.iter().find(|sample| sample.0 == name && sample.1 == labels).unwrap_or_else(|| panic!("no {name} {labels:?}")).2
    };
    let of_a = [("volume_id", "vol-a")];
    for (name, expected) in [
        ("aws_ebs_csi_read_ops_total", 12.0),
        ("aws_ebs_csi_write_ops_total", 6.0),
        ("aws_ebs_csi_read_bytes_total", 49_152.0),
        ("aws_ebs_csi_write_bytes_total", 24_576.0),
        ("aws_ebs_csi_read_seconds_total", 0.006),
        ("aws_ebs_csi_write_seconds_total", 3e-9),
        // Volume IOPS and I/O credits.
        ("aws_ebs_csi_exceeded_iops_seconds_total", 3.0),
        ("aws_ebs_csi_exceeded_tp_seconds_total", 6e-9),
        ("aws_ebs_csi_ec2_exceeded_iops_seconds_total", 9e-9),
        ("aws_ebs_csi_ec2_exceeded_tp_seconds_total", 12e-9),
        ("aws_ebs_csi_volume_queue_length", 9.0),
        ("headrace_volume_balance_ratio", 0.25),
        ("headrace_idle_seconds_total", 0.750_000_003),
        ("aws_ebs_csi_read_io_latency_seconds_count", 12.0),
        ("aws_ebs_csi_read_io_latency_seconds_sum", 0.006),
        ("headrace_late_seconds_count", 18.0),
    ] {
        assert_eq!(value(name, &of_a), expected, "{name}");
    }
    assert_eq!(value("aws_ebs_csi_read_ops_total", &[("volume_id", "vol-a"), ("member", "0")]), 12.0);
    assert_eq!(value("headrace_volume_balance_ratio", &[("volume_id", odd)]), 1.0);
    assert_eq!(value("headrace_instance_balance_ratio", &[("credits", "ios")]), 0.5);
    assert_eq!(value("headrace_waiting_seconds_total", &[("volume_id", "vol-b"), ("cap", "degraded")]), 15e-9);
    let le = |bound: &str| value("aws_ebs_csi_read_io_latency_seconds_bucket", &[("volume_id", "vol-a"), ("le", bound)]);
    // 1 ns, 300 us, 0.5 s and 200 s, three times each.
    assert_eq!([le("0.000016"), le("0.000256"), le("0.000384"), le("0.524288"), le("67.108864"), le("+Inf")], [3.0, 3.0, 6.0, 9.0, 9.0, 12.0]);
    for (name, samples) in &families {
        let mut last: BTreeMap<Labels, (f64, f64)> = BTreeMap::new();
        for (_, labels, count) in samples.iter().filter(|sample| sample.0 == format!("{name}_bucket")) {
            let mut series = labels.clone();
            let bound: f64 = series.remove("le").unwrap().parse().unwrap();
            let before = last.insert(series, (bound, *count)).unwrap_or((f64::NEG_INFINITY, 0.0));
            assert!(bound > before.0 && *count >= before.1, "{name} {labels:?}");
        }
        assert!(last.values().all(|(bound, _)| bound.is_infinite()));
    }
}
