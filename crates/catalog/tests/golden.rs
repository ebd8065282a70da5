//! Figures by day, each derived from the rule of that day.

use headrace_catalog::{Catalog, CatalogError, CostItem, NaiveDate, ReadLimits, StorageSpec, VolumeLimits, VolumeSpec, VolumeType};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

pub fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn try_limits(spec: &str, date: &str) -> Result<VolumeLimits, CatalogError> {
    let spec: VolumeSpec = spec.parse().unwrap();
    Catalog::embedded().volume_limits(&spec, day(date), None)
}

fn limits(spec: &str, date: &str) -> VolumeLimits {
    try_limits(spec, date).unwrap()
}

fn caveat(limits: &VolumeLimits, field: &str) -> bool {
    limits.caveats.iter().any(|caveat| caveat.field == field)
}

#[test]
fn gp2_in_the_summer_of_2018() {
    let gp2 = limits("gp2:500", "2018-08-15");
    // 3 x 500; above 170 GiB 160 MiB/s; bucket 5.4 million, full at first; burst 3,000 below 1,000
    // GiB.
    assert_eq!(gp2.iops, 1_500);
    assert_eq!(gp2.throughput_bytes_s, 160 * MIB);
    let burst = gp2.io_burst.unwrap();
    assert_eq!((burst.iops, burst.capacity_ios, burst.initial_ios), (3_000, 5_400_000, 5_400_000));
    // AWS's own table: 500 GiB burst for 5.4e6 / (3,000 - 1,500) = 3,600 s.
    assert_eq!(burst.capacity_ios / (burst.iops - gp2.iops), 3_600);
    assert_eq!(gp2.era_from, day("2017-05-01"));
    assert_eq!(gp2.io_unit_bytes, 262_144);
    assert!(!gp2.random_charges_full_unit && gp2.persistent);
    let promise = gp2.consistency.unwrap();
    assert_eq!((promise.at_least_percent, promise.of_time_percent), (90.0, 99.0));
}

#[test]
fn gp2_steps_of_size() {
    // Floor 100: 3 x 20 = 60. Up to 170 GiB 128 MiB/s.
    let small = limits("gp2:20", "2026-01-01");
    assert_eq!((small.iops, small.throughput_bytes_s), (100, 128 * MIB));
    assert_eq!(limits("gp2:170", "2026-01-01").throughput_bytes_s, 128 * MIB);
    // 171 to 333 GiB: 250 MiB/s with credits, and a caveat; from 334 GiB without one.
    let band = limits("gp2:200", "2026-01-01");
    assert_eq!(band.throughput_bytes_s, 250 * MIB);
    assert!(caveat(&band, "throughput.credits_needed_below_gib"));
    assert!(limits("gp2:334", "2026-01-01").caveats.is_empty());
    // 1,000 GiB: baseline 3,000 is the burst, so no credits. Cap 16,000 from 5,334 GiB.
    assert!(limits("gp2:999", "2026-01-01").io_burst.is_some());
    assert!(limits("gp2:1000", "2026-01-01").io_burst.is_none());
    assert_eq!(limits("gp2:5333", "2026-01-01").iops, 15_999);
    assert_eq!(limits("gp2:5334", "2026-01-01").iops, 16_000);
    assert_eq!(limits("gp2:5334", "2018-12-02").iops, 10_000);
}

#[test]
fn gp2_at_its_launch_has_no_floor() {
    let gp2 = limits("gp2:20", "2014-07-01");
    assert_eq!(gp2.iops, 60);
    assert_eq!(gp2.throughput_bytes_s, 128 * MIB);
    assert!(caveat(&gp2, "throughput.mib_s") && caveat(&gp2, "iops.burst.capacity_ios"));
    assert!(try_limits("gp2:2000", "2014-07-01").is_err());
}

#[test]
fn io1_throughput_follows_its_iops() {
    // 256 KiB x 30,000 = 7,500 MiB/s, capped at 500 since 2017-12-06.
    let io1 = limits("io1:1024:30000", "2018-08-15");
    assert_eq!((io1.iops, io1.throughput_bytes_s), (30_000, 500 * MIB));
    // 256 KiB x 1,000 = 250 MiB/s, below the cap.
    assert_eq!(limits("io1:1024:1000", "2018-08-15").throughput_bytes_s, 250 * MIB);
    // Above 32,000: 16 KiB x 48,000 = 750 MiB/s, the guide's own example; 64,000 reach 1,000.
    assert_eq!(limits("io1:1024:48000", "2021-05-01").throughput_bytes_s, 750 * MIB);
    assert_eq!(limits("io1:1280:64000", "2021-05-01").throughput_bytes_s, 1_000 * MIB);
    assert_eq!(limits("io1:1280:32000", "2021-05-01").throughput_bytes_s, 500 * MIB);
    // Ratio 30 until 2017-01, 50 after.
    assert!(try_limits("io1:100:5000", "2016-06-01").is_err());
    assert_eq!(limits("io1:100:5000", "2017-06-01").iops, 5_000);
    // 2012: throughput chosen by us, and said.
    let launch = limits("io1:100:1000", "2012-09-01");
    assert_eq!(launch.throughput_bytes_s, 128 * MIB);
    assert!(caveat(&launch, "throughput.cap_mib_s"));
}

#[test]
fn io2_and_block_express() {
    assert_eq!(limits("io2:100:50000", "2021-01-15").throughput_bytes_s, 50_000 * 16 * 1024);
    assert!(try_limits("io2:100:50001", "2021-01-15").is_err());
    // 256 KiB x 10,000 = 2,500 MiB/s; 4,000 from 16,000 IOPS.
    let express = limits("io2-block-express:1000:10000", "2021-09-01");
    assert_eq!(express.throughput_bytes_s, 2_500 * MIB);
    assert_eq!(limits("io2:1000:256000", "2024-06-01").throughput_bytes_s, 4_000 * MIB);
    assert_eq!(express.durability_afr_percent, Some((0.001, 0.001)));
}

#[test]
fn gp3_by_day() {
    let included = limits("gp3:1", "2021-06-01");
    assert_eq!((included.iops, included.throughput_bytes_s), (3_000, 125 * MIB));
    let bought = limits("gp3:500:6000:250", "2021-06-01");
    assert_eq!((bought.iops, bought.throughput_bytes_s), (6_000, 250 * MIB));
    // 16,000 need 32 GiB (500 per GiB); 1,000 MiB/s need 4,000 IOPS (0.25 each).
    assert_eq!(limits("gp3:32:16000", "2021-06-01").iops, 16_000);
    assert!(try_limits("gp3:31:16000", "2021-06-01").is_err());
    assert_eq!(limits("gp3:32:4000:1000", "2021-06-01").throughput_bytes_s, 1_000 * MIB);
    assert!(try_limits("gp3:32:3999:1000", "2021-06-01").is_err());
    assert_eq!(limits("gp3:32::750", "2021-06-01").throughput_bytes_s, 750 * MIB);
    assert!(try_limits("gp3:32::751", "2021-06-01").is_err());
    // 80,000 IOPS, 2,000 MiB/s and 64 TiB since 2025-09-26.
    assert!(try_limits("gp3:160:80000:2000", "2025-09-25").is_err());
    assert_eq!(limits("gp3:160:80000:2000", "2025-09-26").iops, 80_000);
    assert_eq!(limits("gp3:65536", "2025-09-26").iops, 3_000);
}

#[test]
fn hdd_grows_with_its_size() {
    let st1 = limits("st1:1024", "2018-08-15");
    let burst = st1.byte_burst.unwrap();
    // 1 TiB: 40 MiB/s baseline, 250 burst, a bucket of 1 TiB, full.
    assert_eq!((burst.baseline_bytes_s, st1.throughput_bytes_s), (40 * MIB, 250 * MIB));
    assert_eq!((burst.capacity_bytes, burst.initial_bytes), (1024 * GIB, 1024 * GIB));
    assert_eq!((st1.iops, st1.io_unit_bytes), (250, 1_048_576));
    assert!(st1.random_charges_full_unit && caveat(&st1, "throughput.initial_fraction"));
    // Burst cap at 2 TiB, baseline cap at 12.5 TiB, where the bucket has no effect.
    assert_eq!(limits("st1:4096", "2018-08-15").throughput_bytes_s, 500 * MIB);
    assert!(limits("st1:12799", "2018-08-15").byte_burst.is_some());
    assert!(limits("st1:12800", "2018-08-15").byte_burst.is_none());
    // 16 TiB of sc1: 192 baseline, 250 burst.
    let sc1 = limits("sc1:16384", "2021-06-01");
    assert_eq!(sc1.byte_burst.unwrap().baseline_bytes_s, 192 * MIB);
    assert_eq!((sc1.throughput_bytes_s, sc1.iops), (250 * MIB, 250));
    // 125 GiB since 2020-12: 125/1024 x 250 = 30.5 MiB/s, bound by bytes and not by 30 I/Os.
    let least = limits("st1:125", "2021-06-01");
    assert_eq!((least.throughput_bytes_s, least.iops), (125 * 250 * MIB / 1024, 31));
    assert!(try_limits("st1:125", "2018-08-15").is_err());
}

#[test]
fn magnetic_before_and_after_aws_published_a_figure() {
    let early = limits("standard:100", "2010-01-01");
    assert_eq!((early.iops, early.throughput_bytes_s), (1_100, 90 * MIB));
    assert!(caveat(&early, "iops.sustained") && caveat(&early, "throughput.mib_s"));
    assert_eq!(early.durability_afr_percent, Some((0.1, 0.5)));
    let later = limits("magnetic:100", "2018-08-15");
    assert_eq!((later.iops, later.throughput_bytes_s), (100, 40 * MIB));
    assert!(!caveat(&later, "iops.sustained") && caveat(&later, "throughput.mib_s"));
    assert_eq!(later.io_unit_bytes, 1_048_576);
}

#[test]
fn instances_change_with_time() {
    let catalog = Catalog::embedded();
    let c5 = |date| catalog.instance("c5.9xlarge", day(date)).unwrap().max_bytes_s.unwrap();
    // 4,500, 7,000 and 9,500 Mbit/s; bytes from the MB/s column.
    assert_eq!(c5("2018-08-03"), 562_500_000);
    assert_eq!(c5("2018-08-15"), 7_000_000_000 / 8);
    assert_eq!(c5("2026-11-01"), 9_500_000_000 / 8);
    let m5 = catalog.instance("m5.2xlarge", day("2018-08-15")).unwrap();
    assert_eq!((m5.baseline_iops, m5.max_iops), (Some(12_000), Some(18_750)));
    assert_eq!((m5.baseline_bytes_s, m5.max_bytes_s), (Some(212_500_000), Some(437_500_000)));
    assert_eq!((m5.vcpus, m5.memory_mib, m5.nitro, m5.burst_seconds), (8, 32_768, true, 1_800));
    // 3.1 GHz of Skylake with two threads a core; 2.5 GHz of Graviton 2 at 0.95 of its work per
    // clock. 4 cores of 24 have 4 / 9 of 33 MiB, 8 of 64 have 8 / 22 of 32: misses take 0.2611 and
    // 0.2931 where the whole cache has 0.1741 and 0.1768, besides 1.8245.
    let near = |speed: Option<f64>, by_hand: f64| (speed.unwrap() - by_hand).abs() < 1e-3;
    assert!(m5.threads_per_core == 2 && near(m5.core_speed, 3.1 * 1.9986 / 2.0856), "{:?}", m5.core_speed);
    let m6g = catalog.instance("m6g.2xlarge", day("2026-11-01")).unwrap();
    assert!(m6g.threads_per_core == 1 && near(m6g.core_speed, 2.375 * 2.0013 / 2.1176), "{:?}", m6g.core_speed);
    let whole = catalog.instance("m5.24xlarge", day("2026-11-01")).unwrap();
    assert_eq!(whole.core_speed, Some(3.1));
    // 3.8 GHz alone; no core of Graviton 2 clocks above what all of them do, and none slower alone.
    let alone = |processor, ghz| catalog.alone_faster(processor, ghz).unwrap();
    assert!((alone("skylake", 2.8) - 3.8 / 2.8).abs() < 1e-12);
    assert_eq!([alone("neoverse-n1", 2.5), alone("skylake", 4.0)], [1.0; 2]);
    let r5 = catalog.instance("r5.large", day("2026-11-01")).unwrap();
    assert_eq!((r5.baseline_bytes_s, r5.max_bytes_s), (Some(81_250_000), Some(593_750_000)));
    assert_eq!((r5.baseline_iops, r5.max_iops), (Some(3_600), Some(18_750)));
    assert_eq!(catalog.instance("c5.9xlarge", day("2020-01-01")).unwrap().burst_seconds, 0);
    // A slip of the guide doubled the bandwidth of m4.10xlarge for a while; its MB/s stayed at 500.
    let m4 = catalog.instance("m4.10xlarge", day("2022-01-01")).unwrap();
    assert_eq!((m4.max_bytes_s, m4.nitro), (Some(500_000_000), false));
    assert!(!m4.caveats.is_empty());
}

#[test]
fn types_are_refused_before_they_were_seen_and_listed_after() {
    let catalog = Catalog::embedded();
    let error = catalog.instance("m7i.large", day("2018-08-15")).unwrap_err();
    assert!(matches!(error, CatalogError::NotYet { first, .. } if first > day("2022-01-01")), "{error}");
    let names = |date| -> Vec<String> { catalog.instances(day(date)).into_iter().map(|i| i.instance_type).collect() };
    let (old, new) = (names("2018-08-15"), names("2026-11-21"));
    assert!(old.contains(&"m5.2xlarge".to_string()) && !old.contains(&"m7i.large".to_string()));
    assert_eq!(new.len(), 1_434);
    assert_eq!(names("2008-01-01"), ["m1.large", "m1.small", "m1.xlarge"]);
    assert!(names("2006-01-01").is_empty());
}

#[test]
fn caps_outside_nitro() {
    let catalog = Catalog::embedded();
    let date = day("2021-05-01");
    let spec: VolumeSpec = "io1:1280:64000".parse().unwrap();
    let on = |name| {
        let instance = catalog.instance(name, date).unwrap();
        catalog.volume_limits(&spec, date, Some(&instance)).unwrap()
    };
    let xen = on("r4.16xlarge");
    assert_eq!((xen.iops, xen.throughput_bytes_s), (32_000, 500 * MIB));
    assert!(caveat(&xen, "iops.non_nitro") && caveat(&xen, "throughput.non_nitro"));
    let nitro = on("r5.24xlarge");
    assert_eq!((nitro.iops, nitro.throughput_bytes_s), (64_000, 1_000 * MIB));
}

#[test]
fn local_disks() {
    let catalog = Catalog::embedded();
    let date = day("2020-01-01");
    let on = |name, spec: &str| {
        let instance = catalog.instance(name, date).unwrap();
        catalog.volume_limits(&spec.parse().unwrap(), date, Some(&instance))
    };
    // i3.16xlarge: 8 disks of 1,900 GB (1,769 GiB), 1.4 million 4 KiB writes over all of them.
    let i3 = on("i3.16xlarge", "instance-store:1769").unwrap();
    assert_eq!((i3.iops, i3.persistent), (175_000, false));
    assert_eq!(i3.throughput_bytes_s, 175_000 * 4_096);
    // 3.3 million reads.
    assert_eq!(i3.reads, Some(ReadLimits { iops: 412_500, throughput_bytes_s: 412_500 * 4_096 }));
    assert!(on("i3.16xlarge", "instance-store:1770").is_err());
    assert!(on("m5.large", "instance-store:10").unwrap_err().rule().contains("no local disks"));
    let plain = on("m5d.large", "instance-store:60").unwrap();
    assert_eq!(plain.iops, 32_000);
    assert!(caveat(&plain, "iops.fallback"));
    // 67,700 reads of 16 KiB: 1,057.8 MiB/s.
    assert_eq!(plain.reads, Some(ReadLimits { iops: 67_700, throughput_bytes_s: 1_058 * MIB }));
    assert!(caveat(&plain, "iops.fallback_reads"));
    assert_eq!(limits("io2:100:20000", "2024-01-01").reads, None);
}

fn bill(storage: &str, region: &str, date: &str) -> Vec<CostItem> {
    let storage: StorageSpec = storage.parse().unwrap();
    Catalog::embedded().monthly_cost(&storage, region, day(date), 0.0).unwrap()
}

fn usd(items: &[CostItem]) -> f64 {
    items.iter().map(|item| item.usd).sum()
}

/// Sums of a few products of prices with at most five decimals: exact but for rounding in the last
/// bits of a double.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn gp3_bill() {
    // 500 x 0.08 + (6,000 - 3,000) x 0.005 + (250 - 125) x 0.04 = 40 + 15 + 5.
    let items = bill("gp3:500:6000:250", "us-east-1", "2026-11-21");
    let each: Vec<f64> = items.iter().map(|item| item.usd).collect();
    assert!(each.len() == 3 && close(each[0], 40.0) && close(each[1], 15.0) && close(each[2], 5.0));
    // Nothing above the included figures: storage alone. Four members, four times.
    assert!(close(usd(&bill("raid10:4xgp3:500", "us-east-1", "2026-11-21")), 160.0));
}

#[test]
fn io2_bill_goes_by_steps() {
    // 500 x 0.125 + 32,000 x 0.065 + 32,000 x 0.0455 + 36,000 x 0.03185 = 62.5 + 2,080 + 1,456 +
    // 1,146.6.
    let items = bill("io2:500:100000", "us-east-1", "2026-11-21");
    assert_eq!(items.len(), 4);
    assert!(close(usd(&items), 4_745.1), "{items:?}");
    // The steps are of one volume: two of 50,000 pay 2 x (32,000 x 0.065 + 18,000 x 0.0455).
    let two = usd(&bill("2xio2:500:50000", "us-east-1", "2026-11-21"));
    assert!(close(two, 2.0 * (62.5 + 2_080.0 + 819.0)), "{two}");
    assert!(close(usd(&bill("io1:1024:10000", "us-east-1", "2018-08-15")), 128.0 + 650.0));
}

#[test]
fn prices_have_days() {
    // sc1 fell from 0.025 to 0.015 between 2016 and 2021; magnetic from 0.10 to 0.05 by 2015.
    assert!(close(usd(&bill("sc1:1000", "us-east-1", "2018-08-15")), 25.0));
    assert!(close(usd(&bill("sc1:1000", "us-east-1", "2021-06-01")), 15.0));
    let catalog = Catalog::embedded();
    let magnetic: StorageSpec = "standard:100".parse().unwrap();
    let items = catalog.monthly_cost(&magnetic, "us-east-1", day("2010-01-01"), 260.0).unwrap();
    // 100 x 0.10 + 260 million x 0.10.
    assert!(close(usd(&items), 36.0));
    // A price of a later day used for an earlier one says so.
    let items = bill("gp2:100", "us-west-2", "2018-08-15");
    assert!(items[0].as_of.contains("2022-02-10") && items[0].as_of.contains("later than 2018-08-15"));
    let no_io2: StorageSpec = "io2:100:1000".parse().unwrap();
    let error = catalog.monthly_cost(&no_io2, "af-south-1", day("2024-01-01"), 0.0).unwrap_err();
    assert_eq!(error.kind(), "no-price");
}

#[test]
fn instance_prices() {
    let catalog = Catalog::embedded();
    let price = |name, region, date| catalog.instance_price(name, region, day(date));
    assert_eq!(price("m5.2xlarge", "us-east-1", "2026-11-21").unwrap().usd, 0.384);
    // m3.xlarge in us-east-1: 0.50 in 2013, 0.45 in early 2014, 0.28 from mid-2014, 0.266 by
    // 2015-08.
    assert_eq!(price("m3.xlarge", "us-east-1", "2014-03-01").unwrap().usd, 0.45);
    let late = price("m3.xlarge", "us-east-1", "2018-08-15").unwrap();
    assert_eq!((late.usd, late.ebs_optimized_surcharge_usd), (0.266, Some(0.025)));
    let early = price("m3.xlarge", "us-east-1", "2012-01-01").unwrap();
    assert!(early.usd == 0.5 && early.as_of.contains("later than 2012-01-01"));
    // Sao Paulo: 0.153, seen in 2025-03 (libcloud). No source has x8i there.
    assert_eq!(price("m5.large", "sa-east-1", "2026-11-21").unwrap().usd, 0.153);
    assert!(price("x8i.large", "sa-east-1", "2026-11-21").is_none());
    assert!(price("no.such", "us-east-1", "2026-11-21").is_none());
}

#[test]
fn the_newest_day_has_every_type() {
    let catalog = Catalog::embedded();
    assert_eq!(catalog.newest_date(), day("2026-11-28"));
    for volume_type in VolumeType::ALL {
        assert!(catalog.volume_era(volume_type, catalog.newest_date()).is_ok());
    }
    assert_eq!(catalog.regions().len(), 34);
    assert_eq!(catalog.rule("modify_volume", "wait_hours").unwrap().value.as_u64(), Some(6));
}

/// A misspelt region is corrected; another number, partition or place is not: its prices are others.
#[test]
fn unknown_regions_offer_no_other() {
    let hint = |region| Catalog::embedded().region(region).unwrap_err().hint().to_string();
    for (wrong, meant) in [("us-esat-1", "us-east-1"), ("US_EAST_1", "us-east-1"), ("eu-cntral-1", "eu-central-1"), ("us-gov-wset-1", "us-gov-west-1")] {
        assert_eq!(hint(wrong), format!("Did you mean {meant}?"), "{wrong}");
    }
    for other in ["cn-north-1", "cn-northwest-1", "ap-southeast-9", "us-gov-west-2", "us-iso-east-1", "us-east-3", "mars-1", "", "\u{e9}-1"] {
        assert!(hint(other).starts_with("Known: af-south-1, "), "{other}: {}", hint(other));
        // A region without prices of EBS is offered to nobody.
        assert!(!hint(other).contains("eu-central-2") && !hint(other).contains("us-gov-west-1"), "{}", hint(other));
    }
    let offered = Catalog::embedded().priced_regions();
    assert!(offered.len() == 22 && offered.contains(&"us-east-1") && !offered.contains(&"eu-central-2"), "{offered:?}");
    assert_eq!(Catalog::embedded().region(" eu-west-1 ").unwrap(), ("eu-west-1", "EU (Ireland)"));
}

#[test]
fn instances_do_not_exist_before_their_launch() {
    let catalog = Catalog::embedded();
    // Family, last day without it, first day with it: AWS announcements
    // (data/instances_launch.csv).
    let launches = [
        ("m5.large", "2017-11-27", "2017-11-28"),
        ("c5.large", "2017-11-05", "2017-11-06"),
        ("i3.large", "2017-02-22", "2017-02-23"),
        ("r4.large", "2016-11-29", "2016-11-30"),
        ("x1.32xlarge", "2016-05-17", "2016-05-18"),
        ("p3.2xlarge", "2017-10-24", "2017-10-25"),
        ("m4.large", "2015-06-10", "2015-06-11"),
        ("m4.16xlarge", "2016-09-11", "2016-09-12"),
        ("m7i.48xlarge", "2023-08-01", "2023-08-02"),
        // A size that joined its family later, with no row of its own: the day a table first showed
        // it.
        ("m5.8xlarge", "2019-06-26", "2019-06-27"),
    ];
    for (name, before, first) in launches {
        let error = catalog.instance(name, day(before)).unwrap_err();
        assert_eq!(error.kind(), "not-yet", "{name}");
        assert!(error.rule().contains(first), "{name}: {error}");
        assert_eq!(catalog.instance(name, day(first)).unwrap().exists_since, day(first));
        let listed = |date| catalog.instances(day(date)).iter().any(|instance| instance.instance_type == name);
        assert!(!listed(before) && listed(first), "{name}");
    }
    let error = catalog.instance("m5.large", day("2014-01-01")).unwrap_err();
    assert!(error.rule().contains("not confirmed") && error.source().contains("AWS What's New"), "{error}");
    // Between the launch and the first table the launch is what the answer stands on, and it says
    // so.
    assert!(catalog.instance("m5.large", day("2017-12-24")).unwrap().caveats.iter().any(|caveat| caveat.field == "exists_since"));
    assert!(!catalog.instance("m5.large", day("2019-12-24")).unwrap().caveats.iter().any(|caveat| caveat.field == "exists_since"));
}

#[test]
fn a_stripe_sustains_what_its_slowest_member_does() {
    let sustained = |storage: &str| Catalog::embedded().sustained_iops(&storage.parse().unwrap(), day("2026-11-21")).unwrap();
    // gp2: 3 IOPS a GiB, at least 100; gp3: those that are bought, 3,000 of them included.
    assert_eq!(sustained("gp2:1200"), Some(3_600.0));
    assert_eq!(sustained("raid0:gp2:10+gp3:100:4000"), Some(200.0));
    assert_eq!(sustained("4xgp3:100"), Some(12_000.0));
    // A write to a mirror is two, and one to a parity four: no single figure.
    assert_eq!(sustained("raid10:4xgp3:100"), None);
    assert_eq!(sustained("raid5:3xgp3:100"), None);
}

#[test]
fn an_instance_takes_so_many_volumes() {
    let catalog = Catalog::embedded();
    let on = |name, storage: &str| {
        let instance = catalog.instance(name, day("2026-11-21")).unwrap();
        catalog.storage_limits(&storage.parse().unwrap(), day("2026-11-21"), Some(&instance))
    };
    // m5.large: 28 slots less one network interface are 27, the root volume takes one of them.
    assert_eq!(on("m5.large", "26xgp3:500").unwrap().len(), 26);
    let error = on("m5.large", "27xgp3:500").unwrap_err();
    assert_eq!((error.kind(), error.value()), ("limit", "27xgp3:500"));
    assert!(error.rule().contains("at most 27 EBS volumes") && error.rule().contains("network interface"), "{error}");
    assert!(error.source().contains("moto 5.2.5") && error.hint().contains("26 volumes or fewer"), "{error}");
    // m5d.large: a local disk takes another slot of the 28. Local disks themselves are not
    // attached.
    assert!(on("m5d.large", "25xgp3:500").is_ok() && on("m5d.large", "26xgp3:500").is_err());
    assert!(on("m5d.large", "instance-store:60").is_ok());
    let error = on("m5d.large", "2xinstance-store:60").unwrap_err();
    assert!(error.rule().contains("has 1 local disk, 2 are asked for"), "{error}");
    // Types of 2023 and later have slots of volumes alone.
    assert!(on("m7i.48xlarge", "127xgp3:500").is_ok());
    assert!(!on("m7i.48xlarge", "128xgp3:500").unwrap_err().rule().contains("network interface"));
    // Data and log together.
    let host = catalog.instance("m5.large", day("2026-11-21")).unwrap();
    let storages: Vec<StorageSpec> = ["20xgp3:500", "7xgp3:20"].map(|text| text.parse().unwrap()).into();
    let error = catalog.check_attachments(&storages.iter().collect::<Vec<_>>(), &host).unwrap_err();
    assert!(error.value() == "20xgp3:500 and 7xgp3:20" && error.rule().contains("27 are asked for"), "{error}");
    assert!(catalog.check_attachments(&[&storages[0]], &host).is_ok());
    // No limit is known of the largest old bare metal: none is applied.
    let unlimited = catalog.instance("u-12tb1.metal", day("2026-11-21")).unwrap();
    assert!(unlimited.max_ebs_attachments.is_none() && catalog.check_attachments(&[&storages[0]], &unlimited).is_ok());
}

#[test]
fn commitments_lower_the_hour() {
    let catalog = Catalog::embedded();
    let factor = |name, instance, date| catalog.commitment(name, instance, day(date)).unwrap().factor;
    // 2017-10, us-east-1, m4: 0.062 of 0.10 for a year, 0.0432 for three (0.043 for m4.large, its
    // last figure rounded).
    assert_eq!(factor("reserved-1y", "m4.large", "2018-01-01"), 0.620);
    assert_eq!(factor("reserved-3y", "m4.xlarge", "2018-01-01"), 0.432);
    assert!(catalog.commitment("reserved-1y", "m4.large", day("2018-01-01")).unwrap().confirmed);
    let carried = catalog.commitment("savings-1y", "m8g.large", day("2026-11-21")).unwrap();
    assert!(!carried.confirmed && carried.family == "*" && !carried.note.is_empty());
    assert_eq!(catalog.commitment("savings-1y", "m5.large", day("2018-01-01")).unwrap_err().kind(), "not-yet");
    assert!(catalog.commitment("reserved-2y", "m5.large", day("2018-01-01")).unwrap_err().hint().contains("reserved-"));
    for (longer, shorter) in [("reserved-3y", "reserved-1y"), ("savings-3y", "savings-1y")] {
        assert!(factor(longer, "r7g.large", "2026-11-21") < factor(shorter, "r7g.large", "2026-11-21"));
    }
}
