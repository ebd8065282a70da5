//! The shipped files are whole, and a broken one is reported by file, row and field.

use headrace_catalog::{Catalog, DataFiles, IopsRule, VolumeSpec, VolumeType};
use std::collections::BTreeSet;

#[test]
fn every_file_is_read_to_its_end() {
    Catalog::embedded().check().unwrap();
}

/// Every dated era that is known; a lost one would silently answer with its neighbour.
#[test]
fn no_era_is_missing() {
    let eras = |volume_type| Catalog::embedded().volume_eras(volume_type).len();
    let counts = VolumeType::ALL.map(eras);
    // standard, gp2, gp3, io1, io2, io2-block-express, st1, sc1, instance-store
    assert_eq!(counts, [2, 5, 2, 7, 3, 3, 2, 2, 1]);
}

#[test]
fn every_era_resolves_from_its_first_to_its_last_day() {
    let catalog = Catalog::embedded();
    for volume_type in VolumeType::ALL {
        for era in catalog.volume_eras(volume_type) {
            let last = era.until.map_or(catalog.newest_date(), |until| until.pred_opt().unwrap());
            let iops = match &era.iops {
                IopsRule::Provisioned { min, .. } => Some(min.value),
                _ => None,
            };
            for size_gib in [era.size_gib.min.value.max(10), era.size_gib.max.value] {
                let spec = VolumeSpec { volume_type, size_gib, iops, throughput_mib_s: None };
                for date in [era.from, last] {
                    let limits = catalog.volume_limits(&spec, date, None).unwrap();
                    assert_eq!(limits.era_from, era.from);
                    assert!(limits.iops > 0 && limits.throughput_bytes_s > 0, "{limits:?}");
                }
            }
        }
        let first = &catalog.volume_eras(volume_type)[0];
        let before = first.from.pred_opt().unwrap();
        let error = catalog.volume_era(volume_type, before).unwrap_err();
        assert!(error.to_string().contains(&first.from.to_string()), "{error}");
    }
}

/// Source ids are checked while reading; here that every source has a day and a confidence, and
/// none is unused.
#[test]
fn sources_are_whole_and_used() {
    let files = DataFiles::embedded();
    let mut all: String = [files.rules, files.instances, files.processors, files.instances_limits].concat();
    all += &[files.instances_local_iops, files.instances_launch, files.prices_volumes, files.prices_instances, files.prices_commitments].concat();
    for (_, text) in &files.volumes {
        all += text;
    }
    // Tables other crates read name the same sources.
    all += include_str!("../../../data/mysql/popularity.csv");
    all += include_str!("../../../data/mysql/replicas.csv");
    all += include_str!("../../../data/nvme_log_page_d0.csv");
    let managed = &files.managed;
    for text in [managed.classes, managed.rds_storage, managed.rules, managed.cannot, managed.features, managed.published] {
        all += text;
    }
    all += &[managed.prices_classes, managed.prices_storage, files.instances_network].concat();
    // Tables that other crates read.
    all += include_str!("../../../data/mysql/standards.csv");
    all += include_str!("../../../data/local_disks.csv");
    let words: BTreeSet<&str> = all.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))).collect();
    for source in Catalog::embedded().sources() {
        assert!(!source.citation.is_empty());
        assert!(source.as_of.parse::<headrace_catalog::NaiveDate>().is_ok(), "{source:?}");
        assert!(["high", "medium", "low"].contains(&source.confidence.as_str()), "{source:?}");
        assert!(words.contains(source.id.as_str()), "{} is used nowhere", source.id);
    }
}

/// A figure that is not confirmed must say why somewhere: a note, or the standing note of the
/// source it names.
#[test]
fn unconfirmed_figures_name_a_source() {
    let catalog = Catalog::embedded();
    for volume_type in VolumeType::ALL {
        for era in catalog.volume_eras(volume_type) {
            for (name, fact) in &era.facts {
                for id in fact.source.ids() {
                    assert!(catalog.source(id).is_some(), "{volume_type} {} {name}", era.from);
                }
                if fact.source.ids() == ["unsourced"] {
                    assert!(!fact.confirmed, "{volume_type} {} {name}", era.from);
                }
            }
        }
    }
}

#[test]
fn instances_are_sound() {
    let catalog = Catalog::embedded();
    let all = catalog.instances(catalog.newest_date());
    assert_eq!(all.len(), 1_434);
    for instance in &all {
        let name = &instance.instance_type;
        // 27 types have no known EBS limit, 21 no known vCPUs: each says so.
        if instance.max_iops.is_none() || instance.vcpus == 0 || instance.memory_mib == 0 {
            assert!(!instance.caveats.is_empty(), "{name}");
        }
        if let (Some(low), Some(high)) = (instance.baseline_iops, instance.max_iops) {
            assert!(0 < low && low <= high, "{name}");
        }
        if let (Some(low), Some(high)) = (instance.baseline_bytes_s, instance.max_bytes_s) {
            assert!(0 < low && low <= high, "{name}");
        }
        assert_eq!(instance.instance_store_gb == 0, instance.instance_store_devices == 0, "{name}");
    }
    assert_eq!(all.iter().filter(|instance| instance.max_iops.is_none()).count(), 27);
}

#[test]
fn every_region_prices_every_type_it_has() {
    let catalog = Catalog::embedded();
    let priced = |region: &&str| !catalog.volume_prices(region, catalog.newest_date()).unwrap().items.is_empty();
    let (priced, instances_alone): (Vec<&str>, Vec<&str>) = catalog.regions().into_iter().partition(priced);
    // No source of EBS prices was found for these.
    let without = [
        ["ap-south-2", "ap-southeast-4", "ap-southeast-5", "ap-southeast-7", "ca-west-1", "eu-central-2"],
        ["eu-south-2", "il-central-1", "me-central-1", "mx-central-1", "us-gov-east-1", "us-gov-west-1"],
    ];
    assert_eq!(instances_alone, without.concat());
    for region in catalog.regions() {
        assert!(catalog.prices_seen(region, catalog.newest_date()).unwrap().instances.is_some(), "{region}");
    }
    for region in priced {
        let prices = catalog.volume_prices(region, catalog.newest_date()).unwrap();
        for product in ["standard", "gp2", "gp3", "io1", "st1", "sc1", "snapshot"] {
            // ap-southeast-3 opened after the snapshot list was taken.
            if (region, product) != ("ap-southeast-3", "snapshot") {
                assert!(!prices.steps(product, "storage").is_empty(), "{region} {product}");
            }
        }
        let steps = prices.steps("io2", "iops").len();
        assert!(steps == 0 || steps == 3, "{region}");
    }
}

fn changed(file: &'static str, from: &str, to: &str) -> DataFiles<'static> {
    let mut files = DataFiles::embedded();
    let text = match file {
        "volumes/gp2.toml" => files.volumes[1].1,
        "sources.csv" => files.sources,
        "rules.toml" => files.rules,
        "instances.csv" => files.instances,
        "instances_limits.csv" => files.instances_limits,
        "prices_volumes.csv" => files.prices_volumes,
        "prices_instances.csv" => files.prices_instances,
        "prices_commitments.csv" => files.prices_commitments,
        "instances_launch.csv" => files.instances_launch,
        other => panic!("{other}"),
    };
    assert!(text.contains(from), "{file} has no {from:?}");
    let text: &'static str = Box::leak(text.replacen(from, to, 1).into_boxed_str());
    match file {
        "volumes/gp2.toml" => files.volumes[1].1 = text,
        "sources.csv" => files.sources = text,
        "rules.toml" => files.rules = text,
        "instances.csv" => files.instances = text,
        "instances_limits.csv" => files.instances_limits = text,
        "prices_volumes.csv" => files.prices_volumes = text,
        "prices_commitments.csv" => files.prices_commitments = text,
        "instances_launch.csv" => files.instances_launch = text,
        _ => files.prices_instances = text,
    }
    files
}

fn complaint(files: DataFiles<'static>) -> String {
    let result = Catalog::new(files).and_then(|catalog| catalog.check());
    let error = result.expect_err("a broken file was taken");
    assert_eq!(error.kind(), "data");
    error.to_string()
}

#[test]
fn a_broken_file_is_named_with_row_and_field() {
    let cases = [
        ("volumes/gp2.toml", "aliases = []", "aliases = [\"gp3\"]", vec!["volumes/gp2.toml", "aliases", "gp3"]),
        ("volumes/gp2.toml", "cap = { value = 3072", "cap = { value = \"many\"", vec!["volumes/gp2.toml", "2014-06-17"]),
        ("volumes/gp2.toml", "cap = { value = 3072", "kap = { value = 3072", vec!["volumes/gp2.toml", "2014-06-17", "kap"]),
        ("volumes/gp2.toml", "source = \"botocore-0.86.0\"", "source = \"nowhere\"", vec!["volumes/gp2.toml", "2014-06-17", "nowhere"]),
        ("volumes/gp2.toml", "from = \"2015-03-19\"", "from = \"2013-03-19\"", vec!["volumes/gp2.toml", "from", "order"]),
        ("volumes/gp2.toml", "from = \"2015-03-19\"", "from = \"someday\"", vec!["volumes/gp2.toml", "from", "someday"]),
        ("sources.csv", "2014-06-17,high", "june,high", vec!["sources.csv", "as_of", "june"]),
        ("rules.toml", "value = 30,", "value = 30, price = 1,", vec!["rules.toml", "burst_minutes", "price"]),
        ("instances.csv", "a1.2xlarge,8,", "a1.2xlarge,eight,", vec!["instances.csv", "a1.2xlarge", "vcpus"]),
        ("instances.csv", "2018-11-29,moto-5.2.5", "2018-11-29,nowhere", vec!["instances.csv", "a1.2xlarge", "source"]),
        ("instances_limits.csv", "437.5,437.5", "NaN,437.5", vec!["instances_limits.csv", "a1.2xlarge", "baseline_mb_s"]),
        ("prices_volumes.csv", "0.1309", "-0.1309", vec!["prices_volumes.csv", "af-south-1", "usd"]),
        ("prices_instances.csv", "0.204", "cheap", vec!["prices_instances.csv", "a1.2xlarge", "usd_hour"]),
        ("prices_commitments.csv", "m4,0.620", "m4,1.620", vec!["prices_commitments.csv", "reserved-1y m4", "factor"]),
        ("prices_commitments.csv", "reserved-1y,m3", "reserved-1y,m4", vec!["prices_commitments.csv", "family", "twice"]),
        ("instances_launch.csv", "m5,2017-11-28", "m5,2018-11-28", vec!["instances_launch.csv", "m5", "launched", "2018-02-02"]),
        ("instances_launch.csv", "m5,2017-11-28", "m55,2017-11-28", vec!["instances_launch.csv", "m55", "name"]),
    ];
    for (file, from, to, parts) in cases {
        let text = complaint(changed(file, from, to));
        for part in parts {
            assert!(text.contains(part), "{file}: {text:?} does not name {part:?}");
        }
        assert!(!text.contains('\n'), "{text:?}");
    }
}
