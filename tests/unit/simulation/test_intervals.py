"""Every interval stands on one function, which is told all that is asked: how far that lies from
what was measured."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace
from headrace.experiment.predict import predict_result
from headrace.experiment.request import Configuration
from headrace.simulation.services import compare
from headrace.workload.transactions import Covered, TransactionWorkload

DAY = "2024-06-01"
INSTANCE = "r6g.xlarge"
SHORT = {"instance": INSTANCE, "seconds": 30, "draws": 2}
# Facts that each interval is told, and those it has no figure of: the release is that of the runs
# but where a run is compared, and a settled cache has no count of transactions.
ALWAYS = {"cache_gib", "storage", "limit"}
PROCESSORS = {"core_speed", "vcpus"}
LOAD = {"threads", "tps"}


def measured_shop() -> TransactionWorkload:
    """A database as if calibrated on a run on an m5.large."""
    workload = headrace.sysbench_tpcc(warehouses=200, engine="innodb", cache_gib=4, threads=8)
    run = {
        "name": "run",
        "storage": "gp3:500",
        "instance": "m5.large",
        "as_of": DAY,
        "cache_gib": 4.0,
        "threads": 8,
        "start": "warm",
        "seconds": 600.0,
        "transactions": 1e5,
        "measured_tps": 150.0,
        "predicted_tps": 150.0,
        "limit": "volume-iops",
    }
    covered = Covered((4.0, 4.0), (8, 8), (3_000, 3_000), 1e5, (2, 2))
    return dataclasses.replace(workload, covered=covered, runs=(run,), instance="m5.large", as_of=DAY)


def predict_it(workload: TransactionWorkload) -> None:
    headrace.predict(workload, "gp3:500", as_of=DAY, start="warm", **SHORT)


def predict_on_services(workload: TransactionWorkload) -> None:
    compare(workload, "gp3:500", on=["ec2", "rds:multi-az"], as_of=DAY, **SHORT)


def predict_on_aurora(workload: TransactionWorkload) -> None:
    compare(workload, "gp3:500", on=["aurora:standard"], as_of=DAY, **SHORT)


def predict_its_replica(workload: TransactionWorkload) -> None:
    replica = headrace.Replica("gp3:500", instance=INSTANCE)
    headrace.predict_replica(workload, "gp3:500", replica, as_of=DAY, seconds=30, drain_s=10, draws=2)


def plan_for_it(workload: TransactionWorkload) -> None:
    headrace.plan(
        workload,
        goals=["tps>=50"],
        instances=[INSTANCE],
        exclude=[
            "gp2",
            "io1",
            "io2",
            "io2-block-express",
            "standard",
            "st1",
            "sc1",
            "raid0",
            "raid10",
            "instance-store",
        ],
        draws=2,
        as_of=DAY,
    )


def prove_it(workload: TransactionWorkload) -> None:
    configuration = Configuration("a", "gp3:500", 4.0, 8)
    predict_result(workload, configuration, seconds=10, warmup_s=2, as_of=DAY, draws=2, processors=4)


@pytest.mark.parametrize(
    ("ask", "texts"),
    [
        (predict_it, ALWAYS | LOAD | PROCESSORS),
        (predict_on_services, ALWAYS | LOAD | PROCESSORS),
        # Storage of Aurora is none of the catalog's kinds.
        (predict_on_aurora, ALWAYS - {"storage"} | LOAD | PROCESSORS),
        # Workers of a replica are not clients.
        (predict_its_replica, ALWAYS | PROCESSORS),
        (plan_for_it, ALWAYS | LOAD | PROCESSORS),
        # The lab's machine has processors, of a speed nobody knows.
        (prove_it, ALWAYS | LOAD | {"vcpus"}),
    ],
)
def test_an_interval_is_told_all_that_is_asked(
    ask: Callable[[TransactionWorkload], None], texts: set[str], monkeypatch: pytest.MonkeyPatch
):
    givens: list[dict] = []
    measure = TransactionWorkload.compute_distances

    def record(workload: TransactionWorkload, **given: object):
        givens.append(given)
        return measure(workload, **given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(TransactionWorkload, "compute_distances", record)
    ask(measured_shop())
    lacking = [texts - {name for name, value in given.items() if value is not None} for given in givens]
    # Services are shown with a replica, whose workers are no clients.
    assert set() in lacking and all(names <= LOAD for names in lacking), givens


def test_nothing_computes_an_interval_by_itself():
    """Code with a rate and its spread asks `compute_interval`; the rest are intervals of a change,
    which is no rate."""
    package = Path(headrace.__file__).parent
    own = {"base/units.py", "workload/unexplained.py", "advice/effects.py", "operate/doctor/advising/gains.py"}
    users = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"\bZ80\b|1\.28", path.read_text(encoding="utf-8"))
    }
    assert users == own
