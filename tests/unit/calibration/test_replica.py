"""A replica's parameters found again from runs that the core made with others."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base import core
from headrace.calibration.replica import ReplicaRun, average_rates, calibrate_replica, predict_run
from headrace.calibration.runs.replica import load_database, load_replica_run, load_replica_runs
from headrace.errors import InputError
from headrace.simulation.replica import Replica
from headrace.workload import TransactionWorkload
from headrace.workload.replica import add_measured_replica, make_applier

TRUE = {"cpu_ms": 0.6, "flush_factor": 1.4, "forced_writes": 0.3, "group_share": 0.3}
DESCRIPTION = """format = "headrace-replica-run"
version = 1
server = "mariadb-10.11"
storage = "gp3:20:3000"
cache_gib = 0.2
workers = 0
log_bin = true
seconds = 15.0
transactions = 2700
cpu_s = 1.35
[files]
status_before = "before.txt"
status_after = "after.txt"
"""


def build_database() -> TransactionWorkload:
    options = {"script": "oltp_write_only", "engine": "innodb", "tables": 8, "table_size": 200_000}
    options |= {"distribution": {"type": "uniform"}, "threads": 16, "cache_gib": 0.2, "log_bin": True}
    standard = core.mysql_sysbench(options)
    workload = TransactionWorkload("shop", "innodb", dict(standard["database"]), 0.2, 16, 0.4)
    return add_measured_replica(workload, {}, written=tuple(standard["changed"]))


def simulate_run(workload: TransactionWorkload, name: str, storage: str, cache_gib: float, workers: int) -> ReplicaRun:
    """Returns what the core says, as a run with its counters."""
    mode = "optimistic" if workers else "single"
    settings = {"version": "mariadb-10.11", "mode": mode, "workers": workers, "log_bin": True}
    replica = Replica(storage, instance="m5.large", cache_gib=cache_gib, **settings)
    draft = ReplicaRun(name, replica, seconds=10, tps=1.0, warmup_s=5)
    prediction = predict_run(workload, draft)
    tps, reads = average_rates(prediction, draft)
    applier = make_applier(workload)
    cpu_ms = applier["cpu_ms"] + applier["page_cpu_ms"] * reads
    return replace(draft, tps=tps, reads=reads, group=prediction.summary["grouped"], cpu_ms=cpu_ms)


@pytest.fixture(scope="module")
def runs() -> list[ReplicaRun]:
    truth = add_measured_replica(build_database(), TRUE)
    return [
        simulate_run(truth, "one thread", "gp3:20:3000", 0.1, 0),
        simulate_run(truth, "in memory", "gp3:20:3000", 1.0, 0),
        simulate_run(truth, "workers", "gp3:20:6000", 0.2, 4),
    ]


def test_parameters_are_found_again(runs):
    applier = make_applier(calibrate_replica(build_database(), runs))
    # The prior pulls: its spreads are 0.25 to 0.7, and a rate is taken to be known to 5 %. The fit
    # lies between; these two are told apart by the cache and by the processor time.
    assert applier["cpu_ms"] == pytest.approx(TRUE["cpu_ms"], rel=0.1)
    assert applier["flush_factor"] == pytest.approx(TRUE["flush_factor"], rel=0.1)
    assert applier["group_share"] == pytest.approx(TRUE["group_share"], rel=0.2)


def test_what_was_not_calibrated_on_is_predicted(runs):
    truth, calibrated = add_measured_replica(build_database(), TRUE), calibrate_replica(build_database(), runs)
    for storage, cache_gib, workers in (("io2:20:8000", 0.15, 0), ("gp3:20:4000", 0.3, 8), ("gp2:100", 0.1, 0)):
        run = simulate_run(truth, storage, storage, cache_gib, workers)
        tps, _ = average_rates(predict_run(calibrated, run), run)
        plain, _ = average_rates(predict_run(build_database(), run), run)
        assert tps == pytest.approx(run.tps, rel=0.1), storage
        # And it is the calibration that makes it so.
        assert abs(tps / run.tps - 1) <= abs(plain / run.tps - 1) + 0.01, storage


def test_spreads_shrink_and_origins_are_named(runs):
    parameters = calibrate_replica(build_database(), runs).replica
    assert parameters is not None
    assert parameters.spread["flush_factor"] < 0.2
    assert parameters.origin["flush_factor"] == "one thread, in memory, workers"


def test_one_thread_tells_nothing_of_groups(runs):
    parameters = calibrate_replica(build_database(), runs[:1]).replica
    assert parameters is not None
    assert "group_share" not in parameters.values


def test_nothing_to_calibrate_from():
    with pytest.raises(InputError, match="at least one run"):
        calibrate_replica(build_database(), [])


def write_files(folder: Path, text: str = DESCRIPTION, after: str | None = None) -> Path:
    (folder / "before.txt").write_text(
        "Uptime\t100\nInnodb_buffer_pool_reads\t5000\nBinlog_commits\t10\nBinlog_group_commits\t10\n"
    )
    (folder / "after.txt").write_text(
        after
        or "| Uptime | 115 |\n| Innodb_buffer_pool_reads | 10400 |\n| Binlog_commits | 2710 |\n| Binlog_group_commits | 1810 |\n"
    )
    (folder / "replica.toml").write_text(text)
    return folder / "replica.toml"


def test_a_description_and_its_counters(tmp_path):
    run, sample = load_replica_run(write_files(tmp_path))
    assert sample is None
    assert (run.tps, run.reads, run.cpu_ms) == (180.0, 2.0, pytest.approx(0.5))
    assert run.group == pytest.approx(2700 / 1800)
    assert run.replica.make_settings()["workers"] == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "version = 2", "newer Headrace"),
        ("mariadb-10.11", "postgres-17", "a flavor and a version"),
        ("gp3:20:3000", "gp9:20", "gp9"),
        ("seconds = 15.0", "seconds = 0.0", "seconds"),
        ("transactions = 2700", "transactions = 0", "transactions"),
        ("transactions = 2700", "transaction = 2700", "transaction"),
        ("cache_gib = 0.2", "", "cache_gib"),
        ('status_after = "after.txt"', "", "belong together"),
        ('"after.txt"', '"none.txt"', "no such file"),
        ("workers = 0", "workers = 0\nmode = 'fast'", "mode"),
    ],
)
def test_descriptions_that_are_wrong(tmp_path, old, new, words):
    with pytest.raises(InputError, match=words):
        load_replica_run(write_files(tmp_path, DESCRIPTION.replace(old, new)))


def test_counters_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match="restarted"):
        load_replica_run(write_files(tmp_path, after="Uptime\t5\nInnodb_buffer_pool_reads\t1\n"))
    with pytest.raises(InputError, match="SHOW GLOBAL STATUS"):
        load_replica_run(write_files(tmp_path, after="Innodb_buffer_pool_reads\t1\n"))
    with pytest.raises(InputError, match="zero byte"):
        load_replica_run(write_files(tmp_path, after="binary\0" * 100))
    twice = "Uptime\t110\nInnodb_buffer_pool_reads\t1\nUptime\t115\nInnodb_buffer_pool_reads\t2\n"
    with pytest.raises(InputError, match="2 samples"):
        load_replica_run(write_files(tmp_path, after=twice))


def test_one_binary_log_at_most(tmp_path, monkeypatch):
    from headrace.calibration.runs import replica as runs_of_replicas

    monkeypatch.setattr(runs_of_replicas, "read_binary_log", lambda path: path)
    text = DESCRIPTION + 'binary_log = "binlog.000001"\n'
    loaded, sample = load_replica_runs([write_files(tmp_path, text)])
    assert (len(loaded), sample) == (1, tmp_path / "binlog.000001")
    with pytest.raises(InputError, match="2 binary logs"):
        load_replica_runs([write_files(tmp_path, text)], tmp_path / "binlog.000002")


def test_a_recording_has_no_replica(tmp_path):
    from headrace.workload import save

    save(build_database(), tmp_path / "shop.toml")
    assert load_database(tmp_path / "shop.toml").name == "shop"
    (tmp_path / "no.toml").write_text("format = 'headrace-workload'\n")
    with pytest.raises(InputError):
        load_database(tmp_path / "no.toml")


def test_bounds_are_asked_of_the_core_once(runs, monkeypatch):
    """The table of parameters is the same for every database: a fit of a hundred runs reads it
    once."""
    calls = []
    real = core.mysql_tpcc
    monkeypatch.setattr(core, "mysql_tpcc", lambda *given: calls.append(given) or real(*given))
    calibrate_replica(build_database(), runs[:1])
    assert len(calls) <= 1


def test_a_damaged_binary_log_is_named(tmp_path):
    (tmp_path / "binlog.000001").write_bytes(struct.pack("<IBIIIH", 0, 2, 1, 3, 0, 0))
    with pytest.raises(InputError, match="binary log"):
        load_replica_run(write_files(tmp_path, DESCRIPTION + 'binary_log = "binlog.000001"\n'))
