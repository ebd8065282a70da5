"""Offers of the market: hosts with their caches, instances by pattern, attachments, log volumes,
and the gaps of a day or a region."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_cases import only, shop, steady, verdict

from headrace.base import core
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.planner import plan
from headrace.planner.candidates import (
    DEFAULT_SHARE,
    GIB_STEPS,
    NOT_ASKED_FOR,
    TYPES,
    Directory,
    Family,
    Shape,
    Space,
    compute_cache_gib,
    find_rounding_range,
    list_families,
    list_hosts,
    list_member_counts,
    list_sensible_instances,
    list_shapes,
    list_spaces,
    make_lone_host,
    remove_dominated,
)
from headrace.planner.database import compute_log_room, list_log_volumes
from headrace.planner.market.durability import combine_afr_percent, compute_layout_afr_percent

DAY = "2024-06-01"


@pytest.fixture(scope="module")
def prices() -> PriceList:
    return PriceList("us-east-1", DAY)


def families(day: str, excluded=(), most: int = 8, hosts=None) -> tuple[list[Family], dict[str, str]]:
    hosts = make_lone_host() if hosts is None else hosts
    families, verdicts = list_families(
        Directory(day), PriceList("us-east-1", day), dict.fromkeys(excluded, "not wanted"), most, hosts
    )
    return families, {verdict.family: verdict.why for verdict in verdicts}


def test_every_type_is_searched_or_said_to_be_out():
    for day in ("2012-06-01", "2018-08-15", "2021-01-01", "2026-11-21"):
        result, out = families(day)
        assert {family.volume_type for family in result} | set(out) == set(TYPES)
        assert not {family.volume_type for family in result} & set(out)
    assert families("2012-06-01")[1]["gp3"] == "does not exist on 2012-06-01"


def test_a_layout_that_is_not_wanted_is_out_for_every_type():
    result, out = families(DAY, ["raid10", "gp2"])
    assert not [family.name for family in result if "RAID 10" in family.name or family.volume_type == "gp2"]
    assert out["gp2"] == out["gp3 RAID 10"] == "not wanted" and "gp2 RAID 0" not in out
    # One volume at most: no array is a family, and none is a verdict (B16).
    result, out = families(DAY, most=1)
    assert {family.layout for family in result} == {"single"} and not [name for name in out if "RAID" in name]


def test_numbers_of_members():
    assert list_member_counts("single", 8) == (1,)
    assert list_member_counts("raid0", 4) == (2, 3, 4)
    assert list_member_counts("raid10", 8) == (4, 6, 8) and list_member_counts("raid10", 3) == ()


def test_shapes_hold_the_data():
    for family in families("2026-11-21")[0]:
        for size in (1, 100, 999, 20_000):
            for shape in list_shapes(family, size):
                low = shape.write_storage((shape.x[0], shape.y[0]))
                assert core.parse_storage(low)["usable_gib"] >= size, low
                core.storage_limits(low, "2026-11-21", None)
                high = shape.write_storage((shape.x[1], shape.y[1]))
                core.storage_limits(high, "2026-11-21", None)
                # One step less a member would not hold it, unless it is the smallest sold.
                below = find_rounding_range(shape.member_gib, GIB_STEPS, family.min_gib, family.max_gib)[0] - 1
                assert shape.member_gib == family.min_gib or below * shape.members < size * family.data_copies


def test_iops_bring_the_gib_they_need_and_mib_s_the_iops():
    gp3 = next(family for family in families("2026-11-21")[0] if family.name == "gp3")
    shape = list_shapes(gp3, 1)[0]
    # 500 IOPS a GiB, 0.25 MiB/s for an IOPS.
    assert shape.write_storage((3_000, 125)) == "gp3:1" and shape.write_storage((6_000, 125)) == "gp3:12:6000"
    assert shape.write_storage((3_000, 1_000)) == "gp3:8:4000:1000"
    io1 = next(family for family in families("2026-11-21")[0] if family.name == "io1")
    assert list_shapes(io1, 10)[0].write_storage((1_000, 0)) == "io1:20:1000"


def test_instances_by_pattern(prices):
    hosts, skipped = list_hosts(["r6i.*"], prices)
    names = [host.name for host in hosts]
    assert "r6i.large" in names and all(name.startswith("r6i.") for name in names) and skipped == []
    assert [host.usd_month for host in hosts] == sorted(host.usd_month for host in hosts)
    assert hosts[0].usd_month == pytest.approx(730 * core.instance_price("r6i.large", "us-east-1", DAY)["usd"])
    with pytest.raises(InputError, match="matches no instance"):
        list_hosts("z9.*", prices)
    with pytest.raises(InputError, match="2018"):
        list_hosts("r6i.large", PriceList("us-east-1", "2018-08-15"))


def test_an_instance_too_small_for_a_cache_is_left_out_with_the_reason(prices):
    hosts, skipped = list_hosts(["t3.nano", "r6i.large"], prices, DEFAULT_SHARE)
    assert [host.name for host in hosts] == ["r6i.large"] and skipped == [
        ("t3.nano", "0.5 GiB of memory leave no 0.5 GiB of cache")
    ]
    # Without a cache in question it is an instance like any other.
    assert len(list_hosts(["t3.nano", "r6i.large"], prices)[0]) == 2


def test_the_cache_of_a_plan_is_the_cache_that_is_advised(prices):
    # B11: 0.75 of memory here, 80 % there.
    for name in ("r6i.large", "m6i.2xlarge", "r6i.4xlarge"):
        entry = core.instance(name, DAY)
        assert (
            compute_cache_gib(entry)
            == compute_cache_gib(entry, DEFAULT_SHARE)
            == core.cache_gib_for(entry["memory_mib"] / 1024, None)
        )
    assert compute_cache_gib(core.instance("r6i.large", DAY), 0.5) == 8.0
    with pytest.raises(InputError, match="cache_share"):
        compute_cache_gib(core.instance("r6i.large", DAY), 1.0)


def test_two_newest_generations_are_looked_at(prices):
    names = list_sensible_instances(DAY)
    assert {"m6i.large", "r6i.large"} & set(names) or {"m7i.large", "r7i.large"} & set(names)
    assert not [name for name in names if name.startswith(("t", "p", "g")) or "flex" in name or "metal" in name]
    for letter in "mrci":
        generations = {name[1] for name in names if name[0] == letter}
        assert len(generations) <= 2, (letter, generations)


def test_what_a_cheaper_host_equals_is_left_out_but_not_today_s_family(prices):
    hosts, _ = list_hosts(["m5.*", "m5n.*", "m6i.*", "r6i.*"], prices, DEFAULT_SHARE)
    retained = remove_dominated(hosts)
    assert 0 < len(retained) < len(hosts)
    names = (
        "vcpus",
        "core_speed",
        "baseline_iops",
        "max_iops",
        "baseline_bytes_s",
        "max_bytes_s",
        "max_ebs_attachments",
    )
    for host in hosts:
        if host in retained:
            continue
        better = [
            other
            for other in retained
            if other.usd_month <= host.usd_month
            and other.cache_gib >= host.cache_gib
            and other.instance["threads_per_core"] <= host.instance["threads_per_core"]
            and all((other.instance[name] or 0) >= (host.instance[name] or 0) for name in names)
        ]
        assert better, host.name
    assert {host.name for host in remove_dominated(hosts, frozenset({"m5"}))} >= {
        host.name for host in hosts if host.name.startswith("m5.")
    }


def test_faster_cores_are_looked_at_though_slower_ones_cost_less():
    hosts, _ = list_hosts(["c8a.2xlarge", "c8g.2xlarge"], PriceList("us-east-1", core.newest_date()), DEFAULT_SHARE)
    slower, faster = (host.instance for host in hosts)
    assert slower is not None and faster is not None and slower["core_speed"] < faster["core_speed"]
    assert all(slower[name] == faster[name] for name in ("vcpus", "baseline_iops", "max_iops", "memory_mib"))
    assert len(remove_dominated(hosts)) == 2
    # Nobody can say of a core whose speed is not known that it is slower.
    unknown = [replace(host, instance=dict(host.instance or {}, core_speed=None)) for host in hosts]
    assert len(remove_dominated([*hosts, *unknown])) == 3


def test_nothing_named_is_cheaper_than_what_is_searched_by_itself():
    # Twelve times the processor time: processors hold it, and fewer dearer cores may be cheaper than more cheap ones.
    heavy = shop()
    heavy.database["clients"]["cpu_ms"] *= 12.0
    settings = {"goals": ["tps>=600"], "threads": 64, "draws": 4, "exclude": only("gp3")}
    named = plan(heavy, instances=["c8a.*", "m8a.*"], **settings).recommended
    by_itself = plan(heavy, **settings).recommended
    assert named is not None and by_itself is not None
    assert by_itself.cost_usd_month <= named.cost_usd_month + 0.005, (by_itself.place, named.place)


def test_more_volumes_than_an_instance_attaches_are_no_candidate(prices):
    # B8: 40 volumes on an m5.large (27 attachments, its network and its root volume among them)
    # were simulated as if they could be.
    result, _ = families(DAY, only("gp3", arrays=True), most=128)
    (host,), _ = list_hosts("m5.large", prices)
    most = max(space.volumes for family in result for space in list_spaces(family, [host], [None, "gp3:20"], 1_000, 50))
    # One is the root volume.
    assert 20 <= most == host.instance["max_ebs_attachments"] - 1 < 28
    alone = max(space.volumes for family in result for space in list_spaces(family, make_lone_host(), [None], 1_000, 0))
    assert alone == 128


def test_without_a_log_volume_the_log_lies_beside_the_data():
    result, _ = families(DAY, only("gp3"))
    spaces = list_spaces(result[0], make_lone_host(), [None, "gp3:40"], 100, 40)
    assert {(space.log, space.shape.member_gib) for space in spaces} == {(None, 140), ("gp3:40", 100)}


def test_log_volumes_are_single_ssds_that_hold_the_log():
    result, _ = families(DAY)
    logs = list_log_volumes(result, 60)
    assert set(logs) == {"gp2:60", "gp2:240", "gp3:60", "io1:60:1000", "io1:60:3000", "io2:60:1000", "io2:60:3000"}
    # 3,000 bytes of binlog a transaction x 300 tps x a day are 72.4 GiB, and 8 GiB of redo.
    assert compute_log_room(shop().database, 300, 1.0).gib == 8 + 73


def test_a_region_without_a_price_is_a_verdict():
    answer = plan(steady(), as_of="2012-06-01", exclude=("raid0", "raid10"))
    assert verdict(answer, "gp2").why == "does not exist on 2012-06-01"
    assert NOT_ASKED_FOR in verdict(answer, "instance-store").why


def test_the_chance_to_lose_an_array():
    # One volume fails with 0.2 % in a year.
    assert compute_layout_afr_percent("raid0", 3, 0.2) == pytest.approx(100 * (1 - 0.998**3))
    assert compute_layout_afr_percent("raid10", 4, 0.2) == pytest.approx(100 * (1 - (1 - 0.002**2) ** 2))
    assert compute_layout_afr_percent("raid1", 2, 0.2) == pytest.approx(100 * 0.002**2)
    # Two or more of three.
    assert compute_layout_afr_percent("raid5", 3, 0.2) == pytest.approx(100 * (3 * 0.002**2 * 0.998 + 0.002**3))
    assert compute_layout_afr_percent("single", 1, None) is None
    assert (
        combine_afr_percent([0.2, 0.001]) == pytest.approx(100 * (1 - 0.998 * 0.99999))
        and combine_afr_percent([0.2, None]) is None
    )


def test_a_shape_is_written_once():
    gp2 = next(family for family in families(DAY)[0] if family.name == "gp2")
    shape = Shape(gp2, 1, 10, (10, 100))
    space = Space(shape, None, 0)
    assert space.make_candidate((50, 0)) == ("gp2:50", None, 0) and shape.write_storage((50, 0)) is shape.write_storage(
        (50, 0)
    )
