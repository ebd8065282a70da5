"""Storage as a value: what the notation says, taken apart and put together again; data, log and
instance in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import core
from headrace.base.storage import Placement, Storage, Volume, parse_placement
from headrace.errors import InputError

TYPES = ("gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1", "standard", "instance-store")
FIGURES = st.none() | st.integers(1, 100_000)
VOLUMES = st.builds(Volume, st.sampled_from(TYPES), st.integers(1, 65_536), FIGURES, FIGURES)
CHUNKS = st.sampled_from([None, 4, 128, 512, 65_536])
ARRAYS = st.one_of(
    st.tuples(st.lists(VOLUMES, min_size=2, max_size=5), st.sampled_from([None, "raid0", "raid1", "raid10f2"]), CHUNKS),
    st.tuples(st.lists(VOLUMES, min_size=3, max_size=5), st.just("raid5"), CHUNKS),
    st.tuples(st.lists(VOLUMES, min_size=4, max_size=4), st.just("raid10"), CHUNKS),
    st.tuples(st.lists(VOLUMES, min_size=1, max_size=1), st.none(), st.none()),
)
INSTANCES = st.none() | st.sampled_from(["m5.large", "r6id.metal", "u-6tb1.112xlarge", "x2iedn.32xlarge"])


@given(ARRAYS)
def test_parts_go_into_the_notation_and_come_back(parts):
    members, level, chunk_kib = parts
    storage = Storage.of(members, level, chunk_kib)
    assert storage.members == tuple(members)
    assert storage.level == (level or ("raid0" if len(members) > 1 else None))
    assert storage.chunk_kib == (chunk_kib or 256)  # the notation's own
    assert storage.layout == (storage.level or "single")
    again = Storage.parse(str(storage))
    assert again == storage and hash(again) == hash(storage) and repr(again) == repr(storage)
    assert str(storage) == core.parse_storage(str(storage))["text"]
    assert storage.size_gib == sum(member.size_gib for member in members)


@given(ARRAYS, st.integers(1, 65_536), FIGURES, FIGURES)
def test_changing_one_figure_changes_nothing_else(parts, size_gib, iops, mib_s):
    before = Storage.of(*parts)
    after = before.with_(size_gib=size_gib).with_(iops=iops).with_(mib_s=mib_s)
    assert after.members == tuple(Volume(member.type, size_gib, iops, mib_s) for member in before.members)
    assert (after.level, after.chunk_kib) == (before.level, before.chunk_kib)


@pytest.mark.parametrize(
    ("entry", "other"),
    [("2xgp2:100", "raid0:gp2:100+gp2:100"), ("GP3:500", "gp3:500"), ("io2bx:8:100", "io2-block-express:8:100")],
)
def test_what_is_the_same_is_equal_however_it_is_written(entry, other):
    assert Storage.parse(entry) == Storage.parse(other) and len({Storage.parse(entry), Storage.parse(other)}) == 1
    assert Storage.parse(entry) != Storage.parse("gp2:101")


def test_limits_and_bill_are_those_of_the_catalog():
    storage = Storage.parse("raid10:4xgp3:500:4000")
    assert [limits["iops"] for limits in storage.list_limits()] == [4_000] * 4
    assert sum(item["usd"] for item in storage.list_monthly_costs("us-east-1")) == pytest.approx(
        core.monthly_totals([str(storage)], "us-east-1")[0]
    )
    with pytest.raises(InputError, match="gp3"):
        storage.list_limits("2015-01-01")  # gp3 came in 2020
    with pytest.raises(InputError):
        storage.list_monthly_costs("nowhere-1")


@given(INSTANCES, ARRAYS, st.none() | ARRAYS)
def test_a_placement_is_read_as_it_is_written(instance, data, log):
    placement = Placement(instance, Storage.of(*data), None if log is None else Storage.of(*log))
    read = parse_placement(str(placement))
    assert read == placement and str(read) == str(placement)
    # The normal form names the level of a mixed array, so that nothing needs saying.
    assert read.note is None


def test_a_plus_between_volumes_is_an_array_and_says_so_where_it_meant_a_log():
    read = parse_placement("io1:400:9000+gp3:20")
    assert (str(read.data), read.log) == ("raid0:io1:400:9000+gp3:20", None)
    assert "RAID 0 of unlike members" in read.note and "io1:400:9000,log=gp3:20" in read.note


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "a storage is missing"),
        ("m5.large", "a storage is missing"),
        ("m5.large/", "a storage is missing"),
        ("m5.large+", "a storage is missing"),
        ("gp3:100,log=", "a storage is missing"),
        ("/gp3:100", "names no instance type"),
        ("gp3:100/gp3:200", "names no instance type"),
        ("m5.large/m5.large/gp3:100", "names no instance type"),
        ("M5.large + gp3:100,log=gp3:20", "have a / between them"),
        ("gp3:100,", "after the comma comes log=STORAGE"),
        ("gp3:100,gp3:20", "after the comma comes log=STORAGE"),
        ("gp3:100,wal=gp3:20", "after the comma comes log=STORAGE"),
        ("gp3:100,log=gp3:1,log=gp3:2", "one log volume at most"),
        ("gp3", "the size is missing"),
        ("gp9:100", "is not a volume type"),
        ("m5.large/gp3:100+", "a member is missing"),
        (None, "must be storage in text"),
        (7, "must be storage in text"),
    ],
)
def test_what_is_no_placement_is_refused_with_its_reason(text, rule):
    with pytest.raises(InputError) as refused:
        parse_placement(text)
    assert rule in refused.value.rule
    assert refused.value.value and refused.value.source and refused.value.hint


@given(st.text(alphabet="gp3io12:+x@k,/=logmraid0.5 ", max_size=40) | st.text(max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        read = parse_placement(text)
    except InputError as refused:
        assert len(str(refused)) < 1_000
    else:
        assert parse_placement(str(read)) == read
