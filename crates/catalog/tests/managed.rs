//! RDS and Aurora by day: storage behind RDS and bills, worked out by hand from the price list and
//! the guide.

use crate::golden::day;
use headrace_catalog::{Catalog, CatalogError, Deployment, Service, ServiceBill, ServiceSpec, VolumeType};

const MIB: u64 = 1024 * 1024;

const TODAY: &str = "2026-11-01";

fn array(storage: &str) -> String {
    Catalog::embedded().rds_storage(&storage.parse().unwrap(), day(TODAY)).unwrap().array.to_string()
}

fn refused(storage: &str, date: &str) -> String {
    Catalog::embedded().rds_storage(&storage.parse().unwrap(), day(date)).unwrap_err().to_string()
}

/// IOPS, burst and MiB/s of all volumes together.
fn together(storage: &str) -> (u64, u64, u64) {
    let catalog = Catalog::embedded();
    let storage_of_rds = catalog.rds_storage(&storage.parse().unwrap(), day(TODAY)).unwrap();
    let limits = catalog.storage_limits(&storage_of_rds.array, day(TODAY), None).unwrap();
    let burst = |limits: &headrace_catalog::VolumeLimits| limits.io_burst.map_or(limits.iops, |burst| burst.iops);
    (limits.iter().map(|limits| limits.iops).sum(), limits.iter().map(burst).sum(), limits.iter().map(|limits| limits.throughput_bytes_s).sum::<u64>() / MIB)
}

#[test]
fn one_gib_more_is_four_volumes() {
    assert_eq!(array("gp3:399"), "gp3:399:3000:125");
    assert_eq!(array("gp3:400"), "4xgp3:100:3000:125");
    assert_eq!(together("gp3:399"), (3_000, 3_000, 125));
    assert_eq!(together("gp3:400"), (12_000, 12_000, 500));
}

/// The guide's table of gp2, which the model never reads: it follows from four EBS volumes.
#[test]
fn gp2_of_the_guide_follows_from_its_volumes() {
    // 100 GiB: 300 IOPS, burst 3,000, 128 MiB/s each.
    assert_eq!(together("gp2:400"), (1_200, 12_000, 512));
    assert_eq!(together("gp2:399"), (1_197, 3_000, 250));
    // 334 GiB have 250 MiB/s each: 1,000 from 1,336 GiB on.
    assert_eq!(together("gp2:1336"), (4 * 3 * 334, 12_000, 1_000));
    // From 1,000 GiB each nothing bursts; 5,334 GiB reach 16,000 IOPS each.
    assert_eq!(together("gp2:4000"), (12_000, 12_000, 1_000));
    assert_eq!(together("gp2:22000"), (64_000, 64_000, 1_000));
}

#[test]
fn what_is_bought_is_shared_by_four() {
    // Below what is included nothing is bought: 12,000 and 500 stay.
    assert_eq!(array("gp3:500:6000:250"), "4xgp3:125:3000:125");
    assert_eq!(array("gp3:800:16000:1000"), "4xgp3:200:4000:250");
    // Above 32,000 IOPS throughput rises by itself: 40,000 / 64 = 625, a quarter 156.25.
    assert_eq!(array("gp3:800:40000"), "4xgp3:200:10000:156");
    assert_eq!(array("io1:400:20000"), "4xio1:100:5000");
    assert_eq!(array("io2:200:5000"), "io2:200:5000");
}

#[test]
fn what_rds_does_not_take_is_refused_with_the_rule() {
    assert!(refused("gp3:300:6000", TODAY).contains("at most 3000 IOPS with 300 GiB"));
    assert!(refused("gp3:10", TODAY).contains("20 to 65536 GiB"));
    assert!(refused("st1:500", TODAY).contains("does not offer st1"));
    assert!(refused("io1:500", TODAY).contains("must be named"));
    assert!(refused("io1:100:6000", TODAY).contains("50 IOPS per GiB"));
    assert!(refused("gp3:400:12000:4001", TODAY).contains("at most 3000 MiB/s"));
    assert!(refused("gp3:500", "2021-01-01").contains("2022-11-09"));
    assert!(matches!(Catalog::embedded().service_class(Deployment::AuroraIoOptimized, "r5.large", day("2020-01-01")), Err(CatalogError::NotYet { .. })));
    assert!(Catalog::embedded().service_class(Deployment::RdsMultiAz, "c1.medium", day(TODAY)).is_err());
    assert!(Deployment::named("rsd").unwrap_err().to_string().contains("rds"));
}

#[test]
fn names_stand_for_deployments() {
    assert_eq!(Deployment::named("RDS").unwrap().len(), 3);
    for deployment in Deployment::ALL {
        assert_eq!(Deployment::named(&deployment.to_string()).unwrap(), [deployment]);
    }
    assert_eq!("aurora".parse::<Deployment>().unwrap(), Deployment::AuroraStandard);
}

fn bill(deployment: Deployment, instance: &str, storage: &str, readers: u32, data_gib: f64, million_ios: f64) -> ServiceBill {
    let spec = ServiceSpec { deployment, instance_type: instance.into(), storage: storage.parse().unwrap(), readers, data_gib, million_ios };
    Catalog::embedded().service_bill(&spec, "us-east-1", day(TODAY)).unwrap()
}

/// In cents, as a bill is.
fn cents(bill: &ServiceBill) -> i64 {
    (bill.total_usd.unwrap() * 100.0).round() as i64
}

#[test]
fn bills_to_the_cent() {
    // 0.4284 x 730 = 312.73; 500 GiB x 0.08 = 40; 3,000 IOPS x 0.005 = 15; 125 MiB/s x 0.04 = 5.
    assert_eq!(cents(&bill(Deployment::Ec2, "r7g.2xlarge", "gp3:500:6000:250", 0, 0.0, 0.0)), 37_273);
    // 0.956 x 730 = 697.88; 500 x 0.115 = 57.50; 4,000 IOPS above 12,000 x 0.02 = 80.
    assert_eq!(cents(&bill(Deployment::RdsSingleAz, "r7g.2xlarge", "gp3:500:16000", 0, 0.0, 0.0)), 83_538);
    // 1.913 x 730 = 1,396.49; 500 x 0.23 = 115; 4,000 x 0.04 = 160.
    assert_eq!(cents(&bill(Deployment::RdsMultiAz, "db.r7g.2xlarge", "gp3:500:16000", 0, 0.0, 0.0)), 167_149);
    // 0.956 x 730 = 697.88; io1: 500 x 0.125 = 62.50; 10,000 x 0.10 = 1,000.
    assert_eq!(cents(&bill(Deployment::RdsSingleAz, "r7g.2xlarge", "io1:500:10000", 0, 0.0, 0.0)), 176_038);
    // db.t3.large 0.136 x 730 = 99.28; gp2: 20 x 0.115 = 2.30.
    assert_eq!(cents(&bill(Deployment::RdsSingleAz, "t3.large", "gp2:20", 0, 0.0, 0.0)), 10_158);
    // Writer and reader: 2 x 1.106 x 730 = 1,614.76; 500 x 0.10 = 50; 1,000 million x 0.20 = 200.
    assert_eq!(cents(&bill(Deployment::AuroraStandard, "r7g.2xlarge", "gp3:500", 1, 500.0, 1_000.0)), 186_476);
    // 2 x 1.437 x 730 = 2,098.02; 500 x 0.225 = 112.50; I/O nothing.
    assert_eq!(cents(&bill(Deployment::AuroraIoOptimized, "r7g.2xlarge", "gp3:500", 1, 500.0, 1_000.0)), 221_052);
}

/// I/O of 0.30 C + 1.25 S makes both alike (AWS's analyzer): the price of a class times 1.3 is
/// rounded to a tenth of a cent, so within 1 %.
#[test]
fn io_optimized_breaks_even_where_its_formula_says() {
    for (instance, gib) in [("r7g.2xlarge", 500.0), ("r6g.large", 50.0), ("r5.4xlarge", 5_000.0)] {
        let standard = bill(Deployment::AuroraStandard, instance, "gp3:500", 0, gib, 0.0);
        let optimized = bill(Deployment::AuroraIoOptimized, instance, "gp3:500", 0, gib, 0.0);
        let (class, storage) = (standard.items[0].usd, standard.items[1].usd);
        let even = optimized.total_usd.unwrap() - standard.total_usd.unwrap();
        let formula = 0.30 * class + 1.25 * storage;
        assert!((even / formula - 1.0).abs() < 0.01, "{instance}: {even} {formula}");
    }
}

#[test]
fn a_missing_price_is_named_and_there_is_no_total() {
    let cluster = bill(Deployment::RdsCluster, "r7g.2xlarge", "gp3:500", 0, 0.0, 0.0);
    assert!(cluster.total_usd.is_none() && cluster.missing[0].contains("db.r7g.2xlarge"));
    let spec = ServiceSpec {
        deployment: Deployment::AuroraStandard,
        instance_type: "r7g.2xlarge".into(),
        storage: "gp3:500".parse().unwrap(),
        readers: 0,
        data_gib: 10.0,
        million_ios: 1.0,
    };
    let elsewhere = Catalog::embedded().service_bill(&spec, "eu-west-1", day(TODAY)).unwrap();
    assert_eq!(elsewhere.missing.len(), 2, "{elsewhere:?}");
    // Included IOPS and MiB/s need no price.
    let rds = ServiceSpec { deployment: Deployment::RdsSingleAz, ..spec };
    assert_eq!(Catalog::embedded().service_bill(&rds, "eu-west-1", day(TODAY)).unwrap().missing, ["storage of gp3, single-az, in eu-west-1"]);
}

#[test]
fn every_item_has_a_day_and_a_known_source() {
    for deployment in Deployment::ALL {
        for item in bill(deployment, "r7g.2xlarge", "gp3:800:20000:1000", 1, 100.0, 10.0).items {
            assert!(item.as_of.starts_with("20"), "{item:?}");
            assert!(item.source.split('+').all(|id| Catalog::embedded().source(id).is_some()), "{item:?}");
        }
    }
}

#[test]
fn rules_have_days() {
    let replicas = |date: &str| Catalog::embedded().managed_rule(Deployment::RdsSingleAz, "read_replicas", day(date)).unwrap().number();
    assert_eq!((replicas("2018-01-01"), replicas(TODAY)), (Some(5.0), Some(15.0)));
    let rto = |option: &str| Catalog::embedded().managed_rule_of(Service::Aurora, option, "rto_high", day(TODAY)).unwrap().number();
    assert_eq!((rto("reader"), rto("no-reader")), (Some(60.0), Some(600.0)));
    for deployment in Deployment::ALL {
        assert!(!Catalog::embedded().service_limits(deployment).is_empty(), "{deployment}");
    }
}

/// Between two bounds nothing changes, and every size lies in one range.
#[test]
fn ranges_cover_every_size_once() {
    for volume_type in [VolumeType::Gp2, VolumeType::Gp3, VolumeType::Io1, VolumeType::Io2] {
        let ranges = Catalog::embedded().rds_ranges(volume_type, day(TODAY)).unwrap();
        assert!(ranges.windows(2).all(|pair| pair[0].to_gib + 1 == pair[1].from_gib), "{volume_type}");
        assert_eq!(ranges.last().unwrap().to_gib, 65_536);
        for range in &ranges {
            assert_eq!(range.figures["volumes"], if range.from_gib < 400 { 1.0 } else { 4.0 }, "{volume_type} {}", range.from_gib);
        }
    }
    assert!(Catalog::embedded().rds_ranges(VolumeType::St1, day(TODAY)).unwrap().is_empty());
    assert!(Catalog::embedded().rds_ranges(VolumeType::Gp3, day("2021-01-01")).unwrap().is_empty());
}
