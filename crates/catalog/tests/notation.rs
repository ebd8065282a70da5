//! The storage notation, and that no specification, however odd, ends in a panic or in an error
//! without its four parts. A failing case prints its seed; proptest keeps it under
//! `proptest-regressions/`.

use headrace_catalog::{Catalog, CatalogError, NaiveDate, RaidLevel, StorageSpec, VolumeSpec, VolumeType};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn storage(text: &str) -> StorageSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn reads_the_written_forms() {
    let single = storage("gp3:500:6000:250");
    assert_eq!(single.raid, None);
    assert_eq!(single.members[0].iops, Some(6_000));
    assert_eq!(single.members[0].throughput_mib_s, Some(250));
    let striped = storage("2xgp2:1700");
    assert_eq!((striped.raid, striped.members.len()), (Some(RaidLevel::Raid0), 2));
    assert_eq!(striped.chunk_kib, 256);
    assert_eq!(storage("raid10:4xgp3:500").raid, Some(RaidLevel::Raid10));
    assert_eq!(storage("raid0:gp2:500+gp2:1000").members.len(), 2);
    assert_eq!(storage("gp2:500+gp2:1000"), storage("raid0:gp2:500+gp2:1000"));
    assert_eq!(storage("raid0:2xgp2:5"), storage("2xgp2:5"));
    assert_eq!(storage(" GP2:8 "), storage("1xgp2:8"));
    assert_eq!(storage("magnetic:10"), storage("standard:10"));
    assert_eq!(storage("io2bx:10:100").members[0].volume_type, VolumeType::Io2BlockExpress);
    assert_eq!(storage("raid1:2xgp2:10@64k").chunk_kib, 64);
}

#[test]
fn usable_space() {
    let usable = |text| storage(text).usable_gib();
    assert_eq!(usable("gp2:100"), 100);
    assert_eq!(usable("3xgp2:100"), 300);
    // Unlike members count as the smallest. md's RAID 0 stripes on over the larger members; mirrors
    // and parity hold what the smallest has.
    assert_eq!(usable("raid0:gp2:100+gp2:40"), 140);
    assert_eq!(usable("2xgp3:50+gp3:20"), 120);
    assert_eq!(usable("raid1:gp2:100+gp2:40"), 40);
    assert_eq!(usable("raid1:3xgp2:100"), 100);
    assert_eq!(usable("raid5:3xgp2:100"), 200);
    assert_eq!(usable("raid10:4xgp2:100"), 200);
    assert_eq!(usable("raid10f2:3xgp2:101"), 151);
}

#[test]
fn refuses_with_four_parts_and_a_suggestion() {
    let cases = [
        ("", "notation"),
        ("gp2", "notation"),
        ("gp2:", "notation"),
        ("gp2:big", "notation"),
        ("gp2:-5", "notation"),
        ("gp2:+5", "notation"),
        ("gp2:1.5", "notation"),
        ("gp2:99999999999999999999", "notation"),
        ("gp3:1:2:3:4", "notation"),
        ("gp3:100:3000:", "notation"),
        ("pg3:100", "unknown-type"),
        ("raid7:3xgp2:5", "unknown-type"),
        ("raid0:gp2:5", "notation"),
        ("raid1:gp2:5", "notation"),
        ("raid5:2xgp2:5", "notation"),
        ("raid10:3xgp2:5", "notation"),
        ("raid10:2xgp2:5", "notation"),
        ("raid10f2:gp2:5", "notation"),
        ("0xgp2:5", "notation"),
        ("129xgp2:5", "notation"),
        ("99999999999xgp2:5", "notation"),
        ("2xgp2:5+", "notation"),
        ("2xgp2:5@", "notation"),
        ("2xgp2:5@100k", "notation"),
        ("gp2:5@64k", "notation"),
        ("gp2:5\nrm", "notation"),
    ];
    for (text, kind) in cases {
        let error = text.parse::<StorageSpec>().expect_err(text);
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert_four_parts(&error, text);
    }
    // Another level would not do what was asked for: a hint to it is dangerous.
    let raid6 = "raid6:4xgp3:100".parse::<StorageSpec>().unwrap_err();
    assert!(raid6.rule().contains("not modelled") && !raid6.hint().contains("Did you mean"), "{raid6}");
    let typo = "gp22:5".parse::<StorageSpec>().unwrap_err();
    assert_eq!(typo.hint(), "Did you mean gp2?");
    let date = Catalog::embedded().newest_date();
    let typo = Catalog::embedded().instance("m5.2xlrage", date).unwrap_err();
    assert_eq!(typo.hint(), "Did you mean m5.2xlarge?");
    let typo = Catalog::embedded().volume_prices("us-esat-1", date).unwrap_err();
    assert_eq!(typo.hint(), "Did you mean us-east-1?");
}

fn assert_four_parts(error: &CatalogError, text: &str) {
    for part in [error.rule(), error.source(), error.hint()] {
        assert!(!part.trim().is_empty(), "{text}: {error:?}");
    }
    assert!(!error.to_string().contains('\n'), "{error}");
    // "VALUE: RULE (SOURCE). HINT"
    let line = format!("{}: {} ({}). {}", error.value(), error.rule(), error.source(), error.hint());
    assert_eq!(error.to_string(), line);
}

#[test]
fn impossible_volumes_of_their_day() {
    let cases = [
        ("gp2:0", "2020-01-01", "limit"),
        ("gp2:16385", "2020-01-01", "limit"),
        ("gp2:100:3000", "2020-01-01", "limit"),
        ("gp2:100::250", "2020-01-01", "limit"),
        ("gp3:100", "2019-01-01", "not-yet"),
        ("gp3:100:2999", "2021-01-01", "limit"),
        ("gp3:100:3000:124", "2021-01-01", "limit"),
        ("gp3:100:3000:1001", "2021-01-01", "limit"),
        ("io1:100", "2020-01-01", "limit"),
        ("io1:100:99", "2020-01-01", "limit"),
        ("io1:100:5001", "2020-01-01", "limit"),
        ("io1:16384:64001", "2020-01-01", "limit"),
        ("st1:499", "2018-01-01", "limit"),
        ("sc1:500", "2016-04-18", "not-yet"),
        ("standard:1", "2008-08-19", "not-yet"),
    ];
    for (text, date, kind) in cases {
        let spec: VolumeSpec = text.parse().unwrap();
        let date: NaiveDate = date.parse().unwrap();
        let error = Catalog::embedded().volume_limits(&spec, date, None).expect_err(text);
        assert_eq!(error.kind(), kind, "{error}");
        assert_four_parts(&error, text);
    }
}

fn volume_type() -> impl Strategy<Value = VolumeType> {
    proptest::sample::select(VolumeType::ALL.to_vec())
}

fn volume() -> impl Strategy<Value = VolumeSpec> {
    let amount = || prop_oneof![0u64..20_000, 0u64..300_000, any::<u64>()];
    (volume_type(), amount(), proptest::option::of(amount()), proptest::option::of(amount()))
        .prop_map(|(volume_type, size_gib, iops, throughput_mib_s)| VolumeSpec { volume_type, size_gib, iops, throughput_mib_s })
}

fn any_storage() -> impl Strategy<Value = StorageSpec> {
    let level = proptest::sample::select(RaidLevel::ALL.to_vec());
    let like = (volume(), 1usize..6).prop_map(|(volume, count)| vec![volume; count]);
    let members = prop_oneof![like, proptest::collection::vec(volume(), 1..6)];
    (proptest::option::of(level), members, 2u32..16).prop_map(|(raid, members, power)| StorageSpec { raid, members, chunk_kib: 1 << power })
}

fn date() -> impl Strategy<Value = NaiveDate> {
    // 2006 to 2030, before the first era and after the last.
    (0u64..9_000).prop_map(|days| NaiveDate::from_ymd_opt(2006, 1, 1).unwrap() + chrono::Days::new(days))
}

/// A failing seed is printed, kept here, and tried first on the next run.
fn config() -> ProptestConfig {
    let file = FileFailurePersistence::Direct("proptest-regressions/notation.txt");
    ProptestConfig { failure_persistence: Some(Box::new(file)), ..ProptestConfig::with_cases(2_000) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn written_storage_reads_back_the_same(storage in any_storage()) {
        let written = storage.to_string();
        match storage.check() {
            // A single volume has no chunk to write.
            Ok(()) => {
                let mut expected = storage.clone();
                if expected.raid.is_none() {
                    expected.chunk_kib = headrace_catalog::DEFAULT_CHUNK_KIB;
                }
                prop_assert_eq!(written.parse::<StorageSpec>().unwrap(), expected);
            }
            Err(error) => assert_four_parts(&error, &written),
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}|[a-z0-9:x+@]{0,30}|(raid(0|1|5|10|10f2):)?[0-9]{0,4}x?(gp2|gp3|io1):[0-9]{1,22}(:[0-9]{0,9}){0,3}") {
        match text.parse::<StorageSpec>() {
            Ok(storage) => prop_assert_eq!(storage.to_string().parse::<StorageSpec>().unwrap(), storage),
            Err(error) => assert_four_parts(&error, &text),
        }
    }

    #[test]
    fn random_volumes_never_panic(spec in volume(), date in date(), on_xen in any::<bool>()) {
        let catalog = Catalog::embedded();
        let name = if on_xen { "r4.16xlarge" } else { "r5.24xlarge" };
        let instance = catalog.instance(name, catalog.newest_date()).unwrap();
        for instance in [None, Some(&instance)] {
            match catalog.volume_limits(&spec, date, instance) {
                Ok(limits) => {
                    prop_assert!(limits.iops > 0 && limits.throughput_bytes_s > 0);
                    if let Some(burst) = limits.io_burst {
                        prop_assert!(burst.iops > limits.iops && burst.initial_ios <= burst.capacity_ios);
                    }
                    if let Some(burst) = limits.byte_burst {
                        prop_assert!(burst.baseline_bytes_s < limits.throughput_bytes_s);
                        prop_assert!(burst.initial_bytes <= burst.capacity_bytes);
                    }
                }
                Err(error) => assert_four_parts(&error, &spec.to_string()),
            }
        }
    }

    #[test]
    fn random_bills_never_panic(storage in any_storage(), date in date(), requests in any::<f64>()) {
        let catalog = Catalog::embedded();
        match catalog.monthly_cost(&storage, "us-east-1", date, requests) {
            Ok(items) => prop_assert!(items.iter().all(|item| item.usd >= 0.0)),
            Err(error) => assert_four_parts(&error, &storage.to_string()),
        }
    }

    #[test]
    fn more_size_never_delivers_less(
        volume_type in proptest::sample::select(vec![VolumeType::Gp2, VolumeType::St1, VolumeType::Sc1]),
        size_gib in 1u64..16_384,
        date in date(),
    ) {
        let catalog = Catalog::embedded();
        let limits = |size_gib| catalog.volume_limits(&VolumeSpec::new(volume_type, size_gib), date, None);
        if let (Ok(small), Ok(large)) = (limits(size_gib), limits(size_gib + 1)) {
            prop_assert!(small.iops <= large.iops);
            prop_assert!(small.throughput_bytes_s <= large.throughput_bytes_s);
        }
    }
}
