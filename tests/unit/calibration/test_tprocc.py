"""TPROC-C as a standard benchmark and in run descriptions; local disks whose speed only the run tells."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import headrace
from headrace.base import core
from headrace.calibration.counted import average_counted_pages
from headrace.calibration.fit import Objective, fit
from headrace.calibration.observations import make_core_run, observe
from headrace.calibration.prior import build_prior
from headrace.calibration.processor_time import ProcessorTime
from headrace.calibration.runs import load_run
from headrace.errors import InputError
from headrace.workload.server import SourceServer

SECONDS, THREADS = 600, 64
RUN = f"""\
format = "headrace-run"
version = 1
name = "tprocc"
engine = "innodb"
engine_version = "9.7.0"
storage = "STORAGE"
as_of = 2025-06-01
cache_gib = 2
threads = {THREADS}
start = "warm"
[benchmark]
name = "hammerdb-tprocc"
scale = 100
[settings]
redo_gib = 8
io_capacity = 10000
[files]
sysbench = "run.csv"
"""


def write_run(folder, storage: str, tps: list[float], more: str = ""):
    """Writes and loads a run of so many transactions in each second."""
    (folder / "run.csv").write_text(
        "t_s,threads,tps\n" + "".join(f"{t},{THREADS},{rate:.3f}\n" for t, rate in enumerate(tps, 1))
    )
    (folder / "run.toml").write_text(RUN.replace("STORAGE", storage) + more)
    return load_run(folder / "run.toml")


def test_a_standard_that_can_be_written_in_a_line_saved_and_read(call, tmp_path):
    shop = headrace.hammerdb_tprocc(warehouses=100, cache_gib=2, threads=16, redo_gib=8)
    headrace.save(shop, tmp_path / "shop.toml")
    again = headrace.load_database(tmp_path / "shop.toml")
    for name in ("dirtying", "hot_rows"):
        assert again.database[name] == shop.database[name]
    assert again.database["log"]["redo_capacity_bytes"] == 8 * 2**30
    # 100 MB a warehouse.
    assert shop.size_gib == pytest.approx(100 * 100e6 / 2**30)
    line = "hammerdb-tprocc:warehouses=100,cache_gib=2,threads=16,redo_gib=8"
    code, out, err = call("predict", line, "--storage", "gp3:200", "--seconds", "60", "--output", "csv")
    assert code == 0 and out.count("\n") == 61, err
    code, _, err = call("predict", "hammerdb-tprocc:cache_gib=2,threads=16", "--storage", "gp3:200")
    assert code == 2 and "needs warehouses" in err


def test_a_larger_pool_reads_less_and_leaves_dirtier():
    """By hand, of a pool that holds next to nothing: 13.0 touches of stock, 1.9 of customers and some of indexes are read, and
    4.3 and 0.9 of them are changed."""
    database = headrace.hammerdb_tprocc(warehouses=1000, cache_gib=10, threads=16, redo_gib=64).database

    def find_settled(gib: float) -> tuple[float, float]:
        curve = core.mysql_warm_up(database, gib * 2**30)
        return curve["reads"][-1], curve["evicted_dirty"][-1] / curve["reads"][-1]

    (most, clean), (middle, dirtier), (least, dirtiest) = find_settled(4), find_settled(16), find_settled(40)
    assert 12 < most < 16.5 and most > middle > least
    assert 0.25 < clean < dirtier < dirtiest < 1


def test_a_run_begins_at_its_warehouses_and_redo(tmp_path):
    run = write_run(tmp_path, "gp3:200:6000:500", [300.0] * SECONDS)
    database = build_prior(run)
    # InnoDB pages of 100 warehouses: 0.087 GB each, without history.
    assert sum(item["pages"] for item in database["popularity"]) * 16_384 == pytest.approx(8.7e9, rel=0.02)
    assert database["log"]["redo_capacity_bytes"] == 8 * 2**30
    # A page that is written early is not written later: no rate of its own, but the cleaner's.
    assert database["writes"]["background_per_s"] == 0.0 and database["local_disk"] is None
    assert database["cleaner"] == core.page_cleaner("mysql", "9.7.0")


def test_processor_time_that_was_counted_has_its_ios_in_it(tmp_path):
    more = "vcpus = 16\nio_cpu_us = 100\n"
    usual = build_prior(write_run(tmp_path, "gp3:200:6000:500", [300.0] * SECONDS))
    described = RUN.replace("io_capacity = 10000\n", f"io_capacity = 10000\n{more}").replace(
        "STORAGE", "gp3:200:6000:500"
    )
    (tmp_path / "run.toml").write_text(described)
    run = load_run(tmp_path / "run.toml")
    database, observation = build_prior(run), observe(run)
    # 0.03 ms of a core where nothing is said, 0.1 here; both as of a thread that shares its core. The
    # program that serves the volume spends the rest beyond a server's.
    assert [each["clients"]["io_ms"] for each in (usual, database)] == pytest.approx([0.03 / 0.685, 0.1 / 0.685])
    assert "io_device_ms" not in usual["clients"]
    assert database["clients"]["io_device_ms"] == pytest.approx(0.07 / 0.685)
    columns = core.mysql_runs(database, [observation.core_run])[0]
    ios_per_tx = sum(columns["iops"]) / sum(columns["tps"])
    assert ios_per_tx > 5
    clients = database["clients"]
    cpu_ms = core.cpu_ms_among(clients, run.threads, ios_per_tx, 16, 2)
    # Four clients of a processor crowd it by 3 %, and seven of eight turns fill first caches again: 1.1
    # hand-overs, of which a core of two threads loses 37 %.
    refilling = 0.37 * 1.1 * 0.875 * clients["handover_share"]
    assert run.threads == 64 and cpu_ms == pytest.approx(
        1.03 * (clients["cpu_ms"] + ios_per_tx * clients["io_ms"]) + refilling * clients["cpu_ms"]
    )
    objective = Objective(database, "innodb", [observation], measured_cpu=ProcessorTime(cpu_ms, 0.15, ("tprocc",)))
    standard = np.zeros(len(objective.names))
    at = len(standard)
    assert objective(standard)[at] == pytest.approx(0.0, abs=1e-9)
    # A factor on the processor time is one on that of I/Os.
    standard[objective.names.index("cpu_ms")] = 0.1
    moved = core.mysql_runs(objective.apply(standard), [observation.core_run])[0]
    more_ios = sum(moved["iops"]) / sum(moved["tps"]) / ios_per_tx
    assert objective(standard)[at] == pytest.approx(0.1 / 0.15, abs=abs(np.log(more_ios)) / 0.15 + 1e-9)


def test_settings_of_the_page_cleaner_are_asked():
    shop = headrace.hammerdb_tprocc(warehouses=100, cache_gib=2, threads=16)
    settings = ["innodb_io_capacity=2000", "innodb_max_dirty_pages_pct=50", "innodb_max_dirty_pages_pct_lwm=5"]
    cleaner = headrace.with_settings(shop, [*settings, "innodb_adaptive_flushing_lwm=20"]).database["cleaner"]
    usual = core.page_cleaner("mysql", "8.4")
    assert cleaner == usual | {"io_capacity": 2000.0, "most_dirty": 0.5, "low_water": 0.05, "redo_low_water": 0.2}

    def count_written(workload: headrace.TransactionWorkload) -> float:
        run = {"storage": "gp3:200:6000:500", "log_storage": None, "instance": None, "as_of": "2025-06-01", "cache_bytes": 2.0 * 2**30, "clients": 16,
               "arrivals": None, "start": "warm", "seconds": 60, "step_s": 1.0, "seed": None, "start_balance_percent": None, "follow": None}  # fmt: skip
        return float(np.mean(core.mysql_runs(workload.database, [run])[0]["written_per_tx"][30:]))

    # A window of 0.91 x 126,000 pages / 10,000 = 11 s, and one of 57 s.
    redo = headrace.hammerdb_tprocc(warehouses=100, cache_gib=2, threads=16, redo_gib=8)
    assert count_written(redo) > 1.1 * count_written(headrace.with_settings(redo, ["innodb_io_capacity=2000"]))
    # TPC-C by sysbench does not say which touches change a page.
    with pytest.raises(InputError, match="is not followed"):
        headrace.with_settings(
            headrace.sysbench_tpcc(warehouses=100, cache_gib=2, threads=16), ["innodb_max_dirty_pages_pct_lwm=5"]
        )


def test_another_flavor_flushes_by_its_own_rule():
    shop = replace(
        headrace.hammerdb_tprocc(warehouses=100, cache_gib=2, threads=16, redo_gib=8),
        server=SourceServer("mysql", "9.7.0"),
    )
    assert shop.on_release("mysql-8.4.0") is shop and shop.on_release(None) is shop
    moved = shop.on_release("mariadb-12.2.2")
    assert moved.database["cleaner"]["holds_age"] and moved.server == shop.server
    assert moved.database["log"]["redo_bytes_per_tx"] > shop.database["log"]["redo_bytes_per_tx"]
    here, there = (
        headrace.predict(shop, "gp3:200", seconds=10, release=release, draws=0)
        for release in ("mysql-9.7.0", "mariadb-12.2.2")
    )
    assert [each.workload and each.workload.database for each in (here, there)] == [shop.database, moved.database]


def test_few_warehouses_hold_their_clients():
    """By the law of crates/sim/src/mysql/hot_rows.rs: 64 clients that lock 0.13 to 0.48 rows of a warehouse and 0.83 to 0.95 of a
    district, of 10 and 100: less than two thirds of them run, 98 % and more in 1,000 warehouses. In memory and without processors
    the rate goes with those."""

    def find_rate(warehouses: int, hot: bool) -> float:
        shop = headrace.hammerdb_tprocc(warehouses=warehouses, cache_gib=200, threads=64, redo_gib=64)
        database = shop.database if hot else shop.database | {"hot_rows": []}
        shop = replace(shop, database=database)
        return headrace.predict(shop, "io2:500:60000", start="warm", seconds=20, seed=None, draws=0).summary["tps"]

    shares = [find_rate(warehouses, True) / find_rate(warehouses, False) for warehouses in (10, 1_000)]
    assert shares[0] < 0.67 and 0.98 < shares[1] < 1.0


def test_pages_that_the_benchmarks_rows_count_are_read(tmp_path):
    write_run(tmp_path, "gp3:200:6000:500", [300.0] * SECONDS)
    rows = "".join(f"{t},{THREADS},300,{600 + t % 2}\n" for t in range(1, SECONDS + 1))
    (tmp_path / "run.csv").write_text("t_s,threads,tps,pages_flushed_ps\n" + rows)
    run = load_run(tmp_path / "run.toml")
    assert run.series["pages_written_per_s"].to_list() == [601.0, 600.0] * (SECONDS // 2)
    # 600.5 pages a second at 300 transactions, in each half.
    assert [each.value for each in average_counted_pages(observe(run))] == pytest.approx([600.5 / 300] * 2, rel=1e-3)


def test_only_of_innodb(tmp_path):
    with pytest.raises(InputError, match="InnoDB alone"):
        (tmp_path / "run.csv").write_text("t_s,threads,tps\n")
        text = RUN.replace('"innodb"', '"myrocks"').replace("9.7.0", "8.0.22").replace("STORAGE", "gp3:200")
        (tmp_path / "run.toml").write_text(text.replace("redo_gib = 8\nio_capacity = 10000\n", ""))
        load_run(tmp_path / "run.toml")


@pytest.mark.parametrize(
    ("storage", "speed"), [("instance-store:500", 2.0), ("gp3:500", 1.0), ("2xinstance-store:500", 2.0)]
)
def test_a_local_disk_without_a_figure_is_as_fast_as_the_run_says(storage, speed):
    """Twice as fast, where the disk binds: twice the transactions; other storage stays."""
    database = headrace.hammerdb_tprocc(warehouses=1000, cache_gib=2, threads=4000).database
    # The page cleaner writes fewer pages a transaction the faster these come.
    database["cleaner"] = None
    database["clients"]["cpu_ms"] = 0.0
    run = {"storage": storage, "log_storage": None, "instance": None, "as_of": "2025-06-01", "cache_bytes": 2.0 * 2**30, "clients": 4000,
           "arrivals": None, "start": "warm", "seconds": 60, "step_s": 1.0, "seed": None, "start_balance_percent": None, "follow": None}  # fmt: skip
    tps = [
        float(np.mean(core.mysql_runs(database | {"local_disk": factor}, [run])[0]["tps"][30:]))
        for factor in (1.0, 2.0)
    ]
    # The clients' own limit is hundreds of times higher; log writes that share a sync change a little.
    assert tps[1] / tps[0] == pytest.approx(speed, rel=0.02)


def test_reads_and_writes_of_a_local_disk_have_caps_of_their_own():
    """A load that only reads gains by reads alone: 67,700 a second at the catalog's guess, which it reaches to 2 %."""
    database = headrace.hammerdb_tprocc(warehouses=1000, cache_gib=2, threads=4000).database
    # Nothing but reads: the page cleaner's own rule would write.
    database["cleaner"] = None
    database["clients"]["cpu_ms"] = 0.0
    database["log"] |= {"redo_bytes_per_tx": 0.0, "binlog_bytes_per_tx": 0.0, "syncs_per_commit": 0.0}
    quiet = {"flush_per_tx": 0.0, "first_dirty": 0.0, "later_dirty": 0.0, "background_per_s": 0.0}
    run = {"storage": "instance-store:500", "log_storage": None, "instance": None, "as_of": "2025-06-01", "cache_bytes": 2.0 * 2**30, "clients": 4000,
           "arrivals": None, "start": "warm", "seconds": 10, "step_s": 1.0, "seed": None, "start_balance_percent": None, "follow": None}  # fmt: skip

    def reads_per_s(changes: dict, writes: dict) -> float:
        rows = core.mysql_runs(database | {"writes": {**database["writes"], **writes}} | changes, [run])[0]
        return float(np.mean(np.array(rows["tps"]) * np.array(rows["reads_per_tx"])))

    assert reads_per_s({}, quiet) == pytest.approx(67_700, rel=0.02)
    assert reads_per_s({"local_disk_reads": 0.5}, quiet) == pytest.approx(33_850, rel=0.02)
    # Twice the writes and as many reads: nothing changes.
    assert reads_per_s({"local_disk": 2.0, "local_disk_reads": 0.5}, quiet) == pytest.approx(67_700, rel=0.02)
    # Two pages of three that are evicted are dirty, and are written twice: writes bind, however fast it reads.
    dirty = {**quiet, "later_dirty": 2.0}
    assert reads_per_s({}, dirty) == reads_per_s({"local_disk_reads": 3.0}, dirty) < 67_700


def test_a_documented_local_disk_keeps_its_figures():
    database = headrace.hammerdb_tprocc(warehouses=1000, cache_gib=2, threads=4000).database
    run = {"storage": "instance-store:400", "log_storage": None, "instance": "i3.large", "as_of": "2023-06-01", "cache_bytes": 2.0 * 2**30, "clients": 4000,
           "arrivals": None, "start": "warm", "seconds": 10, "step_s": 1.0, "seed": None, "start_balance_percent": None, "follow": None}  # fmt: skip
    first, second = (core.mysql_runs(database | {"local_disk": factor}, [run])[0]["tps"] for factor in (1.0, 3.0))
    assert first == second


def test_a_fit_tells_the_speed_of_a_local_disk(tmp_path):
    """The run is on a disk three times as fast as the catalog's guess, with its counters: within a
    tenth."""
    first = write_run(tmp_path, "instance-store:500", [300.0] * SECONDS)
    true = deepcopy(build_prior(first)) | {"local_disk": 3.0}
    rows = core.mysql_runs(true, [make_core_run(first, SECONDS, 1.0)])[0]
    status = "t_s,Innodb_pages_read,Innodb_pages_written,Com_commit\n"
    tps = np.array(rows["tps"])
    sums = [
        np.cumsum(np.array(values) * tps) for values in (rows["reads_per_tx"], rows["written_per_tx"], np.ones(SECONDS))
    ]
    status += "0,0,0,0\n" + "".join(
        f"{t},{a:.0f},{b:.0f},{c:.0f}\n" for t, (a, b, c) in enumerate(zip(*sums, strict=True), 1)
    )
    (tmp_path / "status.csv").write_text(status)
    run = write_run(tmp_path, "instance-store:500", rows["tps"], 'status = "status.csv"\n')
    objective = Objective(build_prior(run), "innodb", [observe(run)])
    fitted = fit(objective, [np.zeros(len(objective.names))])
    assert fitted.names[-2:] == ("local_disk", "local_disk_reads")
    assert fitted.database["local_disk"] == pytest.approx(3.0, rel=0.1)
