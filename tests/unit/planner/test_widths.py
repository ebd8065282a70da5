"""Width of a candidate's factor: the distances that a prediction of the same has, and no jump where
clients take over from the volume."""

from __future__ import annotations

import dataclasses
import math

import pytest

import headrace
from headrace.base import core
from headrace.catalog.price_list import PriceList
from headrace.planner import parse_goals
from headrace.planner.candidates import list_hosts
from headrace.planner.database import Conditions, DatabaseJudge
from headrace.simulation.database import predict
from headrace.workload.transactions import Covered

DAY = "2024-06-01"
HOSTS = ["r5.4xlarge", "r6g.4xlarge"]


def measured_shop():
    """A database of 180 GiB, as if calibrated on a run with 8 clients on an r5.2xlarge whose volume held it."""
    workload = headrace.sysbench_tpcc(warehouses=2_000, engine="innodb", cache_gib=32, threads=8)
    cache = workload.cache_gib
    run = {
        "name": "run",
        "storage": "gp3:500",
        "instance": "r5.2xlarge",
        "as_of": DAY,
        "cache_gib": cache,
        "threads": 8,
        "start": "warm",
        "seconds": 3_600.0,
        "transactions": 1e6,
        "measured_tps": 150.0,
        "predicted_tps": 150.0,
        "limit": "volume-iops",
    }
    covered = Covered((cache, cache), (8, 8), (3_000, 3_000), 1e6, (8, 8))
    return dataclasses.replace(workload, covered=covered, runs=(run,), instance="r5.2xlarge", as_of=DAY)


def judge_of(workload, threads: int = 8) -> DatabaseJudge:
    prices = PriceList("us-east-1", DAY)
    hosts, _ = list_hosts(HOSTS, prices, 0.25)
    goals = parse_goals(["tps>=1"], "database", defaults=False, arrivals=False)
    conditions = Conditions(threads, None, "warm", 1.0, None)
    return DatabaseJudge(workload, goals, prices, hosts, conditions, least_tps=0.0, confidence=0.8, draws=2, seed=1)


def widths_of(judge: DatabaseJudge, candidates) -> list[float]:
    widths = judge.scenarios.widths
    widths.run(candidates)
    return [widths.compute_width(candidate) for candidate in candidates]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("iops", [3_000, 4_000, 6_000, 16_000])
def test_a_candidate_is_as_doubtful_as_a_prediction_of_it(iops, place):
    """Against the distances of a prediction that its volume or its clients would hold alone, mixed
    as the rates of the candidate and of the largest volume say."""
    workload = measured_shop()
    judge = judge_of(workload)
    candidates = [(f"gp3:500:{each}:1000" if each > 3_000 else "gp3:500", None, place) for each in (iops, 16_000)]
    prediction = predict(
        workload,
        candidates[0][0],
        instance=judge.hosts[place].name,
        cache_gib=judge.hosts[place].cache_gib,
        threads=8,
        as_of=DAY,
        seconds=600,
        start="warm",
        seed=None,
    )
    tps, largest = judge.run(candidates)["tps"]
    share = (tps / largest) ** workload.database["clients"]["sharpness"]
    other = judge.hosts[place].name == "r6g.4xlarge"
    speeds = [core.instance(name, DAY)["core_speed"] or math.nan for name in ("r6g.4xlarge", "r5.2xlarge")]
    of_server = {"limit": 1.0, "speed": abs(math.log(speeds[0] / speeds[1])) if other else 0.0, "vcpus": math.log(2)}
    server, volume = (
        workload.compute_unexplained(dataclasses.replace(prediction.distances, **named))
        for named in (of_server, dict.fromkeys(of_server, 0.0))
    )
    [width] = widths_of(judge, candidates[:1])
    # A day's rate differs from that of ten minutes by some parts of a thousand.
    assert width == pytest.approx(math.sqrt(share * server**2 + (1.0 - share) * volume**2), rel=0.01)
    assert prediction.distances.limit == (1.0 if iops >= 6_000 else 0.0)


def test_the_width_grows_smoothly_as_the_server_takes_over():
    judge = judge_of(measured_shop())
    volumes = [f"gp3:500:{iops}:1000" for iops in range(4_000, 16_001, 500)]
    widths = widths_of(judge, [(volume, None, 1) for volume in volumes])
    steps = [later - earlier for earlier, later in zip(widths, widths[1:], strict=False)]
    whole = widths[-1] - widths[0]
    assert whole > 0.0 and min(steps) > -1e-6
    # Twenty-four steps from one end to the other: none is a third of the way.
    assert max(steps) < whole / 3


def test_a_larger_volume_is_never_less_sure():
    judge = judge_of(measured_shop())
    tps = judge.run([("gp3:500:16000:1000", None, 1)])["tps"][0]
    goals = parse_goals([f"tps>={0.75 * tps:.0f}"], "database", defaults=False, arrivals=False)
    judge = DatabaseJudge(
        judge.workload,
        goals,
        judge.prices,
        judge.hosts,
        judge.conditions,
        least_tps=0.0,
        confidence=0.8,
        draws=8,
        seed=1,
    )
    doubts = judge.scenarios.compute_doubts([(f"gp3:500:{iops}:1000", None, 1) for iops in range(4_000, 16_001, 1_000)])
    chances = [doubt.probability for doubt in doubts]
    # Within a hundredth: the mixture of two widths is no exact law of the lower of two factors.
    assert all(later >= earlier - 0.01 for earlier, later in zip(chances, chances[1:], strict=False)), chances


def test_processors_that_nobody_knows_are_in_doubt():
    assert core.instance("r6g.4xlarge", DAY)["core_speed"] is not None
    workload = measured_shop()
    unknown = dataclasses.replace(workload, runs=tuple(run | {"instance": None} for run in workload.runs))
    candidate = [("gp3:500:16000:1000", None, 0)]
    assert widths_of(judge_of(unknown), candidate) > widths_of(judge_of(workload), candidate)
