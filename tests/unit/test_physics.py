"""Rules of the model that Python asks the core for: each against what the rule says in words, or a naive count of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _core
from headrace.core import core_load
from headrace.workload import OpenWorkload
from headrace.workload.model import make_points


@pytest.mark.parametrize(
    ("storage", "ios_per_write", "reads", "copies", "data_members"),
    [
        ("gp3:500", 1, 0, 1, 1),
        ("4xgp3:500", 1, 0, 1, 4),
        ("raid1:2xgp3:500", 2, 0, 2, 1),
        ("raid1:3xgp3:500", 3, 0, 3, 1),
        ("raid10:4xgp3:500", 2, 0, 2, 2),
        ("raid10f2:3xgp3:500", 2, 0, 2, 1.5),
        # A write to one of two data chunks reads the other one (reconstruct-write), then writes data and parity (docs/decisions/0006).
        ("raid5:3xgp3:500", 3, 1, 1, 2),
        # From four members on: the old data and the old parity are read, or as many others.
        ("raid5:4xgp3:500", 4, 2, 1, 3),
        ("raid5:8xgp3:500", 4, 2, 1, 7),
    ],
)
def test_what_a_write_costs_on_each_layout(storage, ios_per_write, reads, copies, data_members):
    cost = _core.storage_cost(storage)
    assert (cost["ios_per_write"], cost["reads_per_write"], cost["copies"]) == (ios_per_write, reads, copies)
    assert (cost["data_members"], cost["ios_per_read"]) == (data_members, 1)


def test_the_units_of_a_storage():
    units = {name: _core.storage_cost("raid10:4xst1:500@512k")[name] for name in ("chunk_kib", "unit_kib", "hdd_unit_kib", "hdd_merge_kib")}
    assert units == {"chunk_kib": 512, "unit_kib": 256, "hdd_unit_kib": 1024, "hdd_merge_kib": 32}
    assert _core.storage_cost("gp3:500")["chunk_kib"] is None


POINTS = st.lists(
    st.tuples(st.floats(0, 5000), st.floats(0, 5000), st.floats(0.5, 2048), st.floats(0.5, 2048), st.floats(1, 600)), min_size=1, max_size=8
)


@given(
    points=POINTS,
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    storage=st.sampled_from(
        ["gp3:500", "2xst1:500", "raid1:3xgp3:500", "raid10:4xgp3:500@64k", "raid5:3xgp3:500", "raid5:6xgp3:500", "raid10f2:3xgp3:500"]
    ),
)
def test_demand_on_volumes_is_counted_as_the_rules_say(points, shares, storage):
    reads, writes, read_kib, write_kib, seconds = (list(column) for column in zip(*points, strict=True))
    starts = [math.fsum(seconds[:index]) for index in range(len(seconds))]
    workload = OpenWorkload(
        name="any", kind="recorded", points=make_points(starts, seconds, reads, writes, read_kib, write_kib), sequential_read_share=shares[0],
        sequential_write_share=shares[1],
    )  # fmt: skip
    found = _core.demand_on_volumes(core_load(workload), storage)
    cost = _core.storage_cost(storage)

    def one(rate, kib, share):
        """(I/Os in units, MiB/s, MiB/s of disks) of requests of one size."""
        parts = 1 if cost["chunk_kib"] is None else max(1, math.ceil(kib / cost["chunk_kib"]))
        part = kib / parts
        sequential = share if part > 32 else 0.0
        disk = parts * (sequential * part + (1 - sequential) * math.ceil(part / 1024) * 1024)
        return rate * parts * math.ceil(part / 256), rate * kib / 1024, rate * disk / 1024

    for index in range(len(points)):
        r = one(reads[index], read_kib[index], shares[0])
        w = one(writes[index] * cost["ios_per_write"], write_kib[index], shares[1])
        # The same products in another order: a few roundings of 2^-53 each.
        for name, a, b in zip(("iops", "mib_s", "hdd_mib_s"), r, w, strict=True):
            assert found[name][index] == pytest.approx(a + b, rel=1e-12, abs=1e-9), name
        assert found["t_s"][index] == pytest.approx(starts[index], rel=1e-12, abs=1e-9)
    assert found["duration_s"] == seconds


@pytest.mark.parametrize(("memory", "cache"), [(0.5, 0.25), (2, 1), (4, 2), (6, 4), (8, 6), (16, 12), (64, 48), (244, 183)])
def test_the_cache_a_memory_has_room_for(memory, cache):
    """A half up to 4 GiB, three quarters from 8 GiB on (innodb_dedicated_server), all but 2 GiB in between."""
    assert _core.cache_gib_for(memory) == cache


@given(memory=st.floats(0.1, 24_576), more=st.floats(0, 1000), share=st.floats(0.05, 0.95))
def test_more_memory_is_never_less_cache_and_something_is_left(memory, more, share):
    cache = _core.cache_gib_for(memory, share)
    assert cache <= _core.cache_gib_for(memory + more, share)
    assert 0 < cache <= share * memory * (1 + 1e-12)
    # Half of a small memory, 2 GiB of a large one; subtracting rounds at most once at the memory's size.
    assert memory - cache >= min(2.0, memory / 2) - 1e-11
