"""sysbench OLTP as the prior of a calibration: its pages are known from its rows, so that a run tells the disk."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest

import headrace
from headrace.base import core
from headrace.calibration.observations import make_core_run, observe
from headrace.calibration.pool_start import find_pool_starts
from headrace.calibration.prior import build_prior
from headrace.calibration.response import READ_SPREAD, derive_burst
from headrace.calibration.runs import Run, load_run
from headrace.workload.parameters import CPU_SPREAD, list_parameters
from headrace.workload.unexplained import read_spreads

SECONDS, THREADS, CACHE_GIB = 600, 64, 2.0
# 10 tables of 5 million rows are 11 GiB: 75 rows a page, and the index.
RUN = f"""\
format = "headrace-run"
version = 1
name = "oltp"
engine = "innodb"
engine_version = "8.0.22"
storage = "instance-store:500"
as_of = 2025-06-01
cache_gib = {CACHE_GIB}
threads = {THREADS}
start = "warm"
[benchmark]
name = "sysbench-oltp"
script = "oltp_read_write"
distribution = "uniform"
tables = 10
scale = 5_000_000
[settings]
vcpus = 64
redo_gib = 8
[files]
sysbench = "run.csv"
"""
# A third of a logarithm, half a standard deviation, above what a SATA drive of its size takes of the
# catalog's guess (0.121).
DISK = 0.169


def write_run(
    folder, tps: list[float], p95_ms: list[float] | None = None, start: str = "warm", cache_gib: float = CACHE_GIB
) -> Run:
    """Writes and loads a run of so many transactions in each second, with percentiles where given."""
    columns = {"tps": tps} | ({} if p95_ms is None else {"lat_p95_ms": p95_ms})
    rows = "".join(
        f"{second},{THREADS},{','.join(f'{value:.3f}' for value in row)}\n"
        for second, row in enumerate(zip(*columns.values(), strict=True), 1)
    )
    (folder / "run.csv").write_text(f"t_s,threads,{','.join(columns)}\n{rows}")
    described = RUN.replace('start = "warm"', f'start = "{start}"')
    (folder / "run.toml").write_text(described.replace(f"cache_gib = {CACHE_GIB}", f"cache_gib = {cache_gib}"))
    return load_run(folder / "run.toml")


@pytest.fixture(scope="module")
def true_and_calibrated(tmp_path_factory) -> tuple[dict, headrace.TransactionWorkload]:
    """The standard on a disk slower than the catalog's guess, and what its run is calibrated to."""
    folder = tmp_path_factory.mktemp("oltp")
    run = write_run(folder, [300.0] * SECONDS)
    true = deepcopy(build_prior(run)) | {"local_disk": DISK}
    tps = core.mysql_runs(true, [make_core_run(run, SECONDS, 1.0)])[0]["tps"]
    return true, headrace.calibrate([write_run(folder, tps)])


def count_pages(database: dict) -> float:
    return sum(item["pages"] for item in database["popularity"])


def test_a_run_tells_the_disk_and_not_the_pages(true_and_calibrated):
    """The pages are known to 7 %, the disk to 33 % (drives of its size). Both move the rate alike, so
    that of the way between the disk's prior and its truth, a third of a logarithm, a share of
    0.07^2 / 0.33^2 = 4.6 % goes to the pages, 1.5 %; a tenth leaves room for the dirty shares,
    which trade with both."""
    true, calibrated = true_and_calibrated
    assert count_pages(calibrated.database) == pytest.approx(count_pages(true), rel=0.1)
    assert calibrated.database["local_disk"] == pytest.approx(DISK, rel=0.2)


def test_a_table_that_fits_reads_nothing_and_processors_hold_it(true_and_calibrated):
    """A tenth of 11 GiB in a cache of 2: nothing is read once all of it has been, and the rate is
    that of the true database, as far as the prior of the processor time is that of both."""
    true, calibrated = true_and_calibrated
    # Four of the disks: writes of 20,000 transactions a second would wait for one.
    storage = "4xinstance-store:500"
    predicted = headrace.predict(calibrated, storage, start="cold", growth=0.1, seconds=1_200, seed=None)
    assert predicted.rows["reads_per_tx"][-1] < 0.01
    assert predicted.rows["cap"][-1] == "cpu"
    grown = core.mysql_grown(true, 0.1)
    run = {"storage": storage, "log_storage": None, "instance": None, "vcpus": 64, "as_of": None,
           "cache_bytes": CACHE_GIB * 2**30, "clients": THREADS, "arrivals": None, "start": "cold", "seconds": 1_200,
           "step_s": 1.0, "seed": None, "start_balance_percent": None, "follow": None}  # fmt: skip
    rate = core.mysql_runs(grown, [run])[0]["tps"][-1]
    # A run that the disk held says nothing of the processors: they stay the standard's, within what
    # a fit stops short of (a hundredth of a spread of 0.5).
    assert predicted.rows["tps"][-1] == pytest.approx(rate, rel=0.01)
    # 80 % of what is known of the processor time and of another limit.
    spread = math.hypot(CPU_SPREAD, read_spreads()["unknown_speed"])
    assert predicted.summary["tps_high"] / predicted.summary["tps_low"] > math.exp(2.0 * spread)


def test_what_is_known_before_a_run_hangs_on_benchmark_and_machine(true_and_calibrated):
    database = true_and_calibrated[0]

    def before(facts: dict, benchmark: str) -> dict[str, float]:
        return {parameter.name: parameter.spread for parameter in list_parameters("innodb", facts, benchmark)}

    sized, other = before(database, "sysbench-oltp"), before(database, "own")
    assert sized["pages_touched"] == pytest.approx(0.0707, abs=1e-4) and other["pages_touched"] == 0.25
    on_known = database | {"clients": database["clients"] | {"core_speed": 3.1}}
    assert before(on_known, "own")["cpu_ms"] == CPU_SPREAD
    assert other["cpu_ms"] == pytest.approx(math.hypot(CPU_SPREAD, read_spreads()["unknown_speed"]))


def test_a_cold_start_tells_bursts_of_writes_from_what_reads_spread(tmp_path):
    """While the cache fills, the 95th percentile is 1.4 times the mean; full, some transactions wait
    behind 2,000 pages too, as long with four times the clients. In proportion to the mean that
    would be told too high by a quarter or more."""
    run = write_run(tmp_path, [300.0] * SECONDS, start="cold")
    true = deepcopy(build_prior(run)) | {"local_disk": DISK}
    true["shape"] = true["shape"] | {"response": [[1.0, 1.4]], "burst_pages": 2_000.0}
    seen = core.mysql_runs(true, [make_core_run(run, SECONDS, 1.0)])[0]
    measured = write_run(tmp_path, seen["tps"], seen["p95_ms"], "cold")
    identified = headrace.calibrate([measured]).database
    assert identified["shape"]["response"][0][1] == pytest.approx(1.4, abs=0.02)
    # A cleaner that writes in rounds while the cache fills leaves less to its bursts.
    in_rounds = derive_burst(identified | {"cleaner": core.page_cleaner("mysql", "8.4")}, [observe(measured)])
    assert in_rounds["response"][0][1] == pytest.approx(1.0 + READ_SPREAD)
    assert 0.0 < in_rounds["burst_pages"] < identified["shape"]["burst_pages"]

    def measure_p95(database: dict, clients: int) -> float:
        rows = core.mysql_runs(database, [make_core_run(run, SECONDS, 1.0, clients=clients)])[0]
        return rows["p95_ms"][-1]

    proportional = identified | {"shape": identified["shape"] | {"response": [], "burst_pages": 0.0}}
    many, few = 4 * THREADS, 4
    truth, alone = measure_p95(true, many), measure_p95(true, few)
    assert measure_p95(proportional, many) > 1.2 * truth, "the case is no longer what it was"
    # A fit misses its own run by 5 % at most, and bursts are told from the medians of seconds that are
    # all alike.
    assert measure_p95(identified, THREADS) == pytest.approx(measure_p95(true, THREADS), rel=0.05)
    assert measure_p95(identified, many) == pytest.approx(truth, rel=0.08)
    # Fewer than one in twenty of 4 clients' transactions meet a burst.
    assert measure_p95(identified, few) == pytest.approx(alone, rel=0.08)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_cold_start_tells_how_full_the_pool_was(tmp_path, share):
    """8 of 11 GiB take several windows of five seconds to fill. The run has no scatter, so that its own
    share is the likeliest."""
    cache_gib = 8.0
    run = write_run(tmp_path, [300.0] * SECONDS, start="cold", cache_gib=cache_gib)
    true = deepcopy(build_prior(run)) | {"local_disk": DISK}
    full_at_tx = core.mysql_warm_up(true, cache_gib * 2**30)["full_at_tx"]
    rows = core.mysql_runs(true, [make_core_run(run, SECONDS, 1.0, start=share * full_at_tx)])[0]
    tps = rows["tps"]
    # Full throughout, or not before the third window.
    assert (rows["cached_share"][0] > 0.99, rows["cached_share"][10] > 0.99) == (share == 1.0, share == 1.0)
    measured = observe(write_run(tmp_path, tps, start="cold", cache_gib=cache_gib))
    [observation], notes = find_pool_starts(build_prior(run), [measured])
    assert observation.begun_tx == pytest.approx(share * full_at_tx)
    assert ("100 % of the pool" in "".join(notes)) == (share == 1.0)
    # A run that is said to be warm has no pool to fill.
    [warm], notes = find_pool_starts(build_prior(run), [observe(write_run(tmp_path, tps))])
    assert warm.begun_tx == 0.0 and not notes
