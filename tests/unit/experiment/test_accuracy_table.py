"""The table of predictions beside runs of real servers (benchmarks/prove_accuracy.py): what it judges and how it counts."""

from __future__ import annotations

import random
import statistics
import time
from types import SimpleNamespace

import pytest

import prove_accuracy
from headrace.base.machine import count_cores
from headrace.experiment import neighbours


def make_row(error_percent: float, *, name: str = "900 IOPS", regime: str = "storage", judged: bool = True, **changes):
    tps = 100.0
    return {
        "configuration": name,
        "regime": regime,
        "judged": judged,
        "tps_measured": tps,
        "tps_error_percent": error_percent,
        "p95_error_percent": error_percent,
        "interval_holds": abs(error_percent) < 10.0,
    } | changes


def test_errors_are_counted_in_each_regime_and_only_where_they_are_judged():
    """Against plain lists."""
    for seed in range(20):
        chance = random.Random(seed)
        rows = [
            make_row(
                chance.uniform(-40, 40), regime=chance.choice(["storage", "clients"]), judged=chance.random() < 0.8
            )
            for _ in range(chance.randrange(1, 40))
        ]
        result = prove_accuracy.summary(rows, "innodb")
        assert result["not_judged"] == sum(not row["judged"] for row in rows), f"seed {seed}"
        for regime in ("storage", "clients"):
            errors = sorted(abs(row["tps_error_percent"]) for row in rows if row["judged"] and row["regime"] == regime)
            if not errors:
                assert regime not in result["regimes"]
                continue
            counted = result["regimes"][regime]
            assert counted["rows"] == len(errors) and counted["worst_percent"] == errors[-1], f"seed {seed}"
            assert counted["median_percent"] == pytest.approx(statistics.median(errors))
            assert counted["intervals_hold"] == sum(error < 10.0 for error in errors)
            assert counted["p95_within_20_percent"] == sum(error <= 20.0 for error in errors)
            assert errors[0] <= counted["p90_percent"] <= errors[-1]


def test_bars_are_of_what_the_storage_held():
    near, far = make_row(2.0), make_row(30.0, regime="clients")
    assert prove_accuracy.summary([near, far], "innodb")["met"]
    assert not prove_accuracy.summary([near, make_row(30.0)], "innodb")["met"]
    # A row that was not judged decides nothing.
    assert prove_accuracy.summary([near, make_row(30.0, judged=False)], "innodb")["met"]


def test_seeds_of_a_configuration_lie_apart():
    rows = [
        make_row(0.0, tps_measured=90.0, seed=1),
        make_row(0.0, tps_measured=110.0, seed=2),
        make_row(0.0, tps_measured=10.0, seed=3, judged=False),
        make_row(0.0, tps_measured=70.0, name="1 client"),
    ]
    assert prove_accuracy.spread_percent(rows, rows[0]) == pytest.approx(20.0)
    assert prove_accuracy.spread_percent(rows, rows[3]) is None


def test_a_run_is_held_by_the_storage_where_requests_waited_for_its_limits():
    assert prove_accuracy.regime({"cap_volume_iops": 0.3, "cap_volume_throughput": 0.3}) == "storage"
    assert prove_accuracy.regime({"cap_volume_iops": 0.3, "cap_volume_throughput": None}) == "clients"
    assert prove_accuracy.regime({}) == "clients"


def test_a_look_at_neighbours_leaves_out_the_own_work():
    """This process works for half a second of its own processor time; other programs may work meanwhile, as much as they like."""
    with neighbours.watch() as beside:
        own_s = time.process_time()
        while time.process_time() - own_s < 0.5:
            pass
    (during,) = beside
    assert 0.0 <= during.others <= count_cores()
    assert during.pressure is None or 0.0 <= during.pressure <= 1.0


def test_own_processes_descend_from_this_one_or_are_the_kernels():
    own = neighbours.os.getpid()
    parents = {1: 0, 2: 0, 90: 2, own: 1, 101: own, 102: 101, 103: 1, 104: 103}
    look = neighbours._Snapshot(0.0, 0.0, None, {process: (parent, 0.0) for process, parent in parents.items()})
    assert {process for process in parents if neighbours._is_own(look, process)} == {2, 90, own, 101, 102}


@pytest.mark.parametrize(
    ("others", "calibrates", "judged"), [(0.05, True, True), (0.2, False, True), (1e3, False, False)]
)
def test_a_calibration_needs_more_rest_than_a_judged_run(others, calibrates, judged, tmp_path):
    """0.05 and 0.2 lie to either side of CALIBRATION_OTHERS; 1,000 processors are more than a quarter of any machine's."""
    neighbours.keep(neighbours.Neighbours(others, None, 0.0), tmp_path)
    record = SimpleNamespace(folder=tmp_path, summary={})
    assert prove_accuracy.is_judged(record) is judged
    assert prove_accuracy.is_judged(record, prove_accuracy.CALIBRATION_OTHERS) is calibrates
