"""Error that no parameter covers: the distance of a prediction from the runs, and the width that it
gives the interval."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace

import pytest

import headrace
from headrace.base import core
from headrace.workload.life import SETTLED_TURNOVERS, compute_turnovers
from headrace.workload.transactions import Covered, TransactionWorkload
from headrace.workload.unexplained import (
    Distances,
    classify_limit,
    compute_distance_from,
    compute_interval,
    read_spreads,
)

AS_OF = "2021-10-15"
MEASURED = {
    "name": "run",
    "storage": "gp3:100",
    "instance": "c5.4xlarge",
    "as_of": AS_OF,
    "cache_gib": 2.0,
    "threads": 8,
    "start": "warm",
    "seconds": 300.0,
    "transactions": 1e6,
    "measured_tps": 4_000.0,
    "predicted_tps": 4_000.0,
    "limit": "clients",
}


def measured_on(instance: str | None = "c5.4xlarge", **run: object) -> TransactionWorkload:
    """A database in memory with one run behind it: 8 clients, 4,000 transactions a second, 16
    virtual CPUs."""
    standard = headrace.sysbench_oltp(
        script="oltp_read_only", tables=10, table_size=500_000, cache_gib=2, threads=8, distribution={"type": "uniform"}
    )
    covered = Covered((2.0, 2.0), (8, 8), None, 1e6, (16, 16))
    database = standard.database | {
        "clients": core.clients_at_speed(standard.database["clients"], speed_of(instance) if instance else None)
    }
    return replace(
        standard,
        database=database,
        covered=covered,
        runs=(MEASURED | {"instance": instance} | run,),
        instance=instance,
        as_of=AS_OF,
    )


def distances_of(workload: TransactionWorkload, **changes: object) -> Distances:
    """The distances of what is asked; the rest as in the runs."""
    nothing = dict.fromkeys(("transactions", "threads", "storage", "limit", "release", "tps", "core_speed", "vcpus"))
    return workload.compute_distances(**nothing | changes)


def speed_of(instance: str) -> float:
    speed = core.instance(instance, AS_OF)["core_speed"]
    assert speed is not None
    return speed


def test_the_table_has_a_spread_for_each_distance():
    assert set(read_spreads()) == {"none", *(each.name for each in fields(Distances))}
    assert Distances().spread == read_spreads()["none"]
    for each in fields(Distances):
        # Independent of each other: their squares add.
        assert Distances(**{each.name: 2.0}).spread == pytest.approx(
            math.hypot(read_spreads()["none"], 2.0 * read_spreads()[each.name])
        )


def test_more_clients_are_far_where_rate_and_response_time_both_differ():
    """Against the distances worked out by hand, for random clients and rates."""
    chance, workload = random.Random(25), measured_on()
    for _ in range(200):
        threads, tps = chance.randrange(1, 1_000), 10.0 ** chance.uniform(0, 5)
        distances = distances_of(workload, cache_gib=2.0, threads=threads, tps=tps)
        clients, rate = abs(math.log(threads / 8)), abs(math.log(tps / 4_000))
        response = abs(math.log((threads / tps) / (8 / 4_000)))
        assert distances.clients == pytest.approx(clients)
        assert distances.load == pytest.approx(min(clients, rate, response), abs=1e-12)
    # Equal rates (something else binds in both), or equal response times (clients alone in both).
    assert distances_of(workload, cache_gib=2.0, threads=64, tps=4_000.0).load == pytest.approx(0.0, abs=1e-12)
    assert distances_of(workload, cache_gib=2.0, threads=64, tps=32_000.0).load == pytest.approx(0.0, abs=1e-12)
    # Nobody says at what rate: as far as the clients.
    assert distances_of(workload, cache_gib=2.0, threads=64).load == pytest.approx(math.log(8))


@pytest.mark.parametrize(
    ("storage", "limit", "counts"),
    [
        ("gp3:100", "volume-iops", False),
        ("gp3:100", "log-volume-throughput", False),
        ("gp3:100", "clients", True),
        ("gp3:100", "cpu", True),
        ("gp3:100", None, True),
        # I/Os queue on a local disk before it is full.
        ("instance-store:100", "volume-iops", True),
    ],
)
def test_rate_and_response_time_count_where_no_sharp_cap_holds(storage, limit, counts):
    distances = distances_of(measured_on(), cache_gib=2.0, threads=64, tps=1_000.0, storage=storage, limit=limit)
    assert distances.clients == pytest.approx(math.log(8))
    assert distances.load == pytest.approx(math.log(4) if counts else 0.0)


def test_a_cache_is_as_far_as_what_its_size_changes():
    """Even accesses to 1.2 GB: the pages read are those that the cache does not hold, and where it
    holds all of them, more of it changes nothing."""
    workload = measured_on(cache_gib=0.2)
    far = [distances_of(workload, cache_gib=cache_gib).cache for cache_gib in (0.2, 0.3, 0.4, 0.8, 8.0, 80.0)]
    assert far[0] == 0.0 and far == sorted(far) and far[-2] == far[-1]
    curves = [core.mysql_warm_up(workload.database, cache_gib * 2**30) for cache_gib in (0.2, 0.4)]
    reads = [curve["reads"][-1] for curve in curves]
    assert far[2] == pytest.approx(math.log((1.0 + reads[0]) / (1.0 + reads[1])), rel=1e-6)


@pytest.mark.parametrize("limit", ["clients", "cpu", "contention", "volume-iops", "log-volume-throughput", None])
def test_processors_are_far_where_they_are_felt(limit):
    distances = distances_of(
        measured_on(), cache_gib=2.0, threads=8, limit=limit, core_speed=speed_of("c6g.large"), vcpus=2
    )
    felt = limit in ("clients", "cpu", "contention")
    speeds = [speed_of(name) for name in ("c5.4xlarge", "c6g.large")]
    assert distances.speed == pytest.approx(math.log(speeds[0] / speeds[1]) if felt else 0.0)
    assert distances.vcpus == pytest.approx(math.log(8) if felt else 0.0)


def test_a_speed_that_is_not_known_on_one_side_is_far():
    with_speed, without_speed = measured_on(), measured_on(None)
    of = {"cache_gib": 2.0, "threads": 8, "limit": "cpu"}
    assert distances_of(with_speed, **of, core_speed=speed_of("c5.4xlarge")) == replace(
        distances_of(with_speed, **of), unknown_speed=0.0
    )
    assert distances_of(with_speed, **of).unknown_speed == 1.0
    assert distances_of(without_speed, **of, core_speed=speed_of("c5.4xlarge")).unknown_speed == 1.0
    assert distances_of(without_speed, **of) == Distances(limit=1.0), "the machine of the run"


def test_the_unknown_speed_is_as_uncertain_as_families_differ():
    """The logarithm of the speeds of the families m, c and r, as data/instances.csv has them."""
    families: dict[str, list[float]] = {}
    for instance in core.instances():
        family, speed = instance["instance_type"].split(".")[0], instance["core_speed"]
        if speed is not None and family[0] in "mcr" and family[1:2].isdigit() and int(family[1]) >= 4:
            families.setdefault(family, []).append(math.log(speed))
    means = [sum(values) / len(values) for values in families.values()]
    middle = sum(means) / len(means)
    spread = math.sqrt(sum((mean - middle) ** 2 for mean in means) / len(means))
    # Two digits are stated.
    assert read_spreads()["unknown_speed"] == pytest.approx(spread, abs=0.01)


def test_locks_of_the_server_are_no_limit_of_the_storage():
    assert [classify_limit(cap) for cap in ("clients", "cpu", "contention", "demand", "volume-iops")] == [
        "clients",
        "cpu",
        "cpu",
        "demand",
        "storage",
    ]


def test_another_family_of_instances_is_less_certain_in_memory_than_at_a_cap():
    workload = measured_on()

    def spread(storage: str, cache_gib: float, instance: str) -> float:
        prediction = headrace.predict(
            workload, storage, cache_gib=cache_gib, instance=instance, threads=8, as_of=AS_OF, seconds=60, start="warm"
        )
        return prediction.distances.spread

    in_memory = [spread("gp3:100", 2.0, instance) for instance in ("c5.4xlarge", "c6g.4xlarge", "c6g.large")]
    assert in_memory == sorted(set(in_memory))
    # A tenth of the data is cached: the volume binds, whatever the processors are.
    at_a_cap = {spread("gp3:100", 0.1, instance) for instance in ("c5.4xlarge", "c6g.4xlarge", "c6g.large")}
    assert len(at_a_cap) == 1


def test_between_runs_a_value_is_nearer_than_to_either_of_them():
    """Against a naive search of the nearest on either side, for random values."""
    chance = random.Random(16)
    for _ in range(200):
        measured = [chance.uniform(1, 200) for _ in range(chance.randint(1, 4))]
        value = chance.uniform(0.5, 400)
        away = [math.log(each / value) for each in measured]
        below, above = [-each for each in away if each <= 0], [each for each in away if each >= 0]
        distance = compute_distance_from(measured, value)
        if below and above:
            # In parallel: less than either, more than half of the less.
            assert min(*below, *above) / 2 - 1e-12 <= distance <= min(*below, *above)
        else:
            assert distance == pytest.approx(min(abs(each) for each in away))
        assert compute_distance_from([*measured, value], value) == 0.0
    assert compute_distance_from([1, 128], 16) == pytest.approx(math.log(16) * math.log(8) / math.log(128))


def test_an_interval_is_a_factor_to_either_side():
    low, high = compute_interval(100.0, 0.2)
    # 1.2816: four fifths of a normal distribution.
    assert (low, high) == pytest.approx((100 * math.exp(-0.25632), 100 * math.exp(0.25632)))
    assert compute_interval(100.0, 3.0)[0] > 0.0


def test_a_run_that_ends_early_is_far_from_where_the_cache_settles():
    """A tenth of the data is cached, so that the pool turns over; against the curve of the core."""
    end = 1.5e3
    workload = measured_on(cache_gib=0.1, start="cold", transactions=end)
    curve = core.mysql_warm_up(workload.database, 0.1 * 2**30)
    seen = max(t for tx, t in zip(curve["tx"], curve["turned"], strict=True) if tx <= end)
    # The curve's points lie a hundredth of a turnover or so apart.
    assert compute_turnovers(workload, 0.1, end) == pytest.approx(seen, rel=0.1)
    assert 0.1 < seen < SETTLED_TURNOVERS
    settled = distances_of(workload, cache_gib=0.1).life
    assert settled == pytest.approx(math.log(SETTLED_TURNOVERS / seen), abs=0.1)
    lives = [distances_of(workload, cache_gib=0.1, transactions=end * factor).life for factor in (0.5, 1.0, 2.0, 1e6)]
    assert lives[:2] == [0.0, 0.0] and 0.0 < lives[2] < lives[3] == settled
    # A warm run has seen it all, and a cache that holds everything never turns over.
    assert distances_of(measured_on(cache_gib=0.1, start="warm"), cache_gib=0.1).life == 0.0
    assert distances_of(measured_on(start="cold"), cache_gib=2.0).life == 0.0
