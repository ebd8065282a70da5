"""The run store: whole runs only, found by what a user types, asked in SQL that reaches no further; RUN.toml as a calibration takes it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import polars as pl
import pytest
from bench_runs import document, keep, series, store_in

from headrace.bench import Mysqlslap, SysbenchOltp
from headrace.bench.drivers.benchmark import ToolOutcome
from headrace.bench.running import run_files, summary
from headrace.bench.store.query import export, query
from headrace.bench.store.store import Store, get_default_store
from headrace.bench.target import Target
from headrace.calibration.runs import load_run
from headrace.cli.bench.bench import explain_short_run
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address, Secret
from headrace.observe.live.samples import Samples


def test_runs_are_found_by_what_a_user_types(tmp_path):
    store = store_in(tmp_path)
    keeps = [keep(store) for _ in range(3)]
    ordered = store.list_ids()
    assert sorted(record.id for record in keeps) == ordered
    assert store.resolve("latest") == ordered[-1] and store.resolve("latest~2") == ordered[0]
    assert store.resolve(ordered[1][-4:]) == ordered[1] and store.resolve(ordered[0]) == ordered[0]
    for wrong in ("latest~3", "nothing", ordered[0][:8], "", "../" + ordered[0], "~1"):
        with pytest.raises(InputError):
            store.resolve(wrong)
    assert store.open("latest").read_series().height == 130


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    store = Store(tmp_path / "nothing")
    assert store.list_ids() == [] and store.list_runs() == [] and store.list_unfinished() == []
    with pytest.raises(InputError, match="headrace bench run"):
        store.open("latest")
    assert not (tmp_path / "nothing").exists()


def test_what_is_not_finished_is_no_run(tmp_path):
    store = store_in(tmp_path)
    name, folder = store.begin("Tables & more / ü")
    assert (
        store.list_ids() == []
        and store.list_unfinished() == [folder]
        and name.split("-", 2)[2].startswith("tables-more-")
    )
    store.drop(folder)
    assert store.list_unfinished() == []


def test_damaged_runs_do_not_hide_the_others(tmp_path):
    store = store_in(tmp_path)
    good, bad, newer, short = (keep(store) for _ in range(4))
    (bad.folder / "run.json").write_text('{"format": "headrace-bench-run", ')
    (newer.folder / "run.json").write_text(json.dumps({**newer.document, "version": 99}))
    (short.folder / "run.json").write_text(
        json.dumps({key: value for key, value in short.document.items() if key != "summary"})
    )
    assert [record.id for record in store.list_runs()] == [good.id] and store.list_damaged() == sorted(
        [bad.id, newer.id, short.id]
    )
    with pytest.raises(InputError, match="damaged"):
        store.open(bad.id)
    with pytest.raises(InputError, match="newer Headrace"):
        store.open(newer.id)
    (good.folder / "series.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(CouldNotRun, match="cannot be read"):
        store.open(good.id).read_series()
    assert query(store, "SELECT count(*) FROM runs").item() == 1


def test_a_place_that_cannot_hold_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CouldNotRun, match="HEADRACE_RUNS"):
        Store(tmp_path / "file" / "runs").begin("x")


def test_runs_are_removed_whole(tmp_path):
    store = store_in(tmp_path)
    first, second = keep(store), keep(store)
    assert store.delete(first.id) == first.id and store.list_ids() == [second.id] and store.list_unfinished() == []


def test_two_runs_begun_at_once_are_two(tmp_path):
    store, names = store_in(tmp_path), []
    threads = [threading.Thread(target=lambda: names.append(store.begin("x")[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 8


def test_the_default_store(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_RUNS", str(tmp_path / "a"))
    assert get_default_store() == tmp_path / "a"
    monkeypatch.delenv("HEADRACE_RUNS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert get_default_store() == tmp_path / "data/headrace/runs"


# --- SQL ------------------------------------------------------------------------------------------------------------------


def test_runs_series_and_percentiles_are_tables(tmp_path):
    store = store_in(tmp_path)
    entry, two = keep(store, series(500.0, 0.0)), keep(store, series(700.0, 0.0), storage="io2:100:5000")
    table = query(store, "SELECT run, storage, threads, tps FROM runs ORDER BY tps")
    assert table.rows() == [
        (entry.id, "gp3:100", 16, pytest.approx(500.0)),
        (two.id, "io2:100:5000", 16, pytest.approx(700.0)),
    ]
    means = query(store, "SELECT run, avg(tps) AS tps FROM series WHERE phase = 'measure' GROUP BY run ORDER BY 2")
    assert means["tps"].to_list() == pytest.approx([500.0, 700.0])
    assert query(store, "SELECT count(DISTINCT run) FROM percentiles").item() == 2
    assert query(store, "SELECT count(*) FROM series", [two]).item() == 130


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM read_csv('/etc/passwd')", "COPY runs TO '/tmp/stolen.csv'", "SELEC 1", "SELECT nothing FROM runs", "SET enable_external_access = true", "INSTALL httpfs", "ATTACH 'x.db'"],
)  # fmt: skip
def test_sql_reaches_no_further_than_the_store(tmp_path, sql):
    store = store_in(tmp_path)
    keep(store)
    with pytest.raises(InputError):
        query(store, sql)
    assert not Path("/tmp/stolen.csv").exists()


def test_tables_are_exported_whole_or_not_at_all(tmp_path):
    store = store_in(tmp_path)
    keep(store)
    assert (
        export(store, tmp_path / "x.parquet", what="series") == 130
        and pl.read_parquet(tmp_path / "x.parquet").height == 130
    )
    assert export(store, tmp_path / "x.csv", sql="SELECT run, tps FROM runs;") == 1 and (
        tmp_path / "x.csv"
    ).read_text().startswith("run,tps\n")
    assert (
        export(store, tmp_path / "x.json", what="runs") == 1
        and json.loads((tmp_path / "x.json").read_text())[0]["benchmark"] == "sysbench-oltp"
    )
    for name, what, sql in (
        ("y.xlsx", "runs", None),
        ("y.csv", "all", None),
        ("no/y.csv", "runs", None),
        ("y.csv", "runs", "SELECT"),
        ("runs", "runs", None),
    ):
        with pytest.raises(InputError):
            export(store, tmp_path / name, what=what, sql=sql)
    assert sorted(os.listdir(tmp_path)) == ["runs", "x.csv", "x.json", "x.parquet"]


def test_a_store_with_quotes_in_its_path(tmp_path):
    store = Store(tmp_path / "it's [a] *store*")
    keep(store)
    assert query(store, "SELECT count(*) FROM series").item() == 130
    assert export(store, tmp_path / "o'clock.csv") == 1


def test_an_empty_store_has_empty_tables(tmp_path):
    store = Store(tmp_path / "none")
    (tmp_path / "none").mkdir()
    assert (
        query(store, "SELECT count(*) FROM runs").item() == 0
        and query(store, "SELECT count(*) FROM series").item() == 0
    )


# --- RUN.toml -------------------------------------------------------------------------------------------------------------


def target(**changes) -> Target:
    config = {"innodb_io_capacity": "2000", "innodb_doublewrite": "ON", "innodb_page_size": "16384", "innodb_log_file_size": "100663296", "sync_binlog": "1", "log_bin": "OFF",
              "innodb_flush_log_at_trx_commit": "1", "version": "10.11.6-MariaDB"}  # fmt: skip
    result = {"address": Address("bench", socket="/s", database="d", password=Secret("hush")), "storage": "gp3:100", "devices": ("/dev/loop3",), "flavor": "mariadb",
            "version": "10.11.6-MariaDB", "engine": "innodb", "cache_gib": 0.125, "config": config}  # fmt: skip
    return Target(**result | changes)


def empty_samples() -> Samples:
    empty = pl.DataFrame(schema={"t_unix": pl.Float64})
    return Samples(empty, pl.DataFrame(schema={"t_unix": pl.Float64, "device": pl.String}), empty)


def run_document() -> dict:
    return {
        "name": "a run",
        "start": "warm",
        "load": {"threads": 16},
        "target": {"data_gib": 2.0},
        "environment": {"cpus_usable": 2, "cpus": 2},
    }


def test_run_toml_is_read_as_it_is(tmp_path):
    frame = series(500.0, seconds=60)
    assert run_files.write(tmp_path, SysbenchOltp(), target(), run_document(), frame, empty_samples(), ["One."]) is None
    run = load_run(tmp_path / "RUN.toml")
    assert (run.threads, run.storage, run.benchmark.script, run.benchmark.scale, run.seconds) == (
        16,
        "gp3:100",
        "oltp_read_write",
        100_000,
        70.0,
    )
    assert (
        run.series["tps"].to_list() == pytest.approx(frame["tps"].to_list(), rel=1e-4) and run.series["t_s"][0] == 0.0
    )
    assert (
        run.settings["io_capacity"] == 2000 and run.settings["doublewrite"] is True and run.settings["binlog"] is False
    )
    assert "hush" not in (tmp_path / "RUN.toml").read_text()
    # 2 - 1.2 idle - 0.1 waiting, of the two processors of `series`.
    assert run.vcpus == 2 and run.busy_share == pytest.approx(0.35)


@pytest.mark.parametrize(
    ("instance", "usable", "vcpus", "share"),
    # 0.7 processors at work: of this machine's where it has fewer than the instance, else of the instance's.
    [("m6i.2xlarge", 4, 4, 0.175), ("m6i.large", 4, 2, 0.35), (None, 4, 4, 0.175)],
)
def test_the_processors_are_the_machines_or_the_instances(tmp_path, instance, usable, vcpus, share):
    document = run_document() | {"environment": {"cpus_usable": usable, "cpus": usable}}
    frame = series(500.0, seconds=60).with_columns(idle_cpus=usable - 0.8)
    where = target(instance=instance)
    assert run_files.write(tmp_path, SysbenchOltp(), where, document, frame, empty_samples(), []) is None
    run = load_run(tmp_path / "RUN.toml")
    # Shares are written with four digits.
    assert run.vcpus == vcpus and run.busy_share == pytest.approx(share, abs=1e-4)


def test_processors_of_another_machine_are_not_the_servers(tmp_path):
    where = target(devices=())
    assert (
        run_files.write(tmp_path, SysbenchOltp(), where, run_document(), series(500.0, seconds=60), empty_samples(), [])
        is None
    )
    assert load_run(tmp_path / "RUN.toml").busy_share is None


def test_the_log_device_of_a_run_is_named(tmp_path):
    rows = [
        {"t_unix": 1.8e9 + second, "device": device, "reads": 0.0, "read_bytes": 0.0, "writes": rate * second,
         "write_bytes": rate * second * 4096.0, "reads_merged": 0.0, "writes_merged": 0.0, "flushes": 0.0}
        for second in range(71) for device, rate in (("nvme1n1", 0.0), ("nvme2n1", 351.0))
    ]  # fmt: skip
    samples = Samples(empty_samples().status, pl.DataFrame(rows), empty_samples().host)
    where = target(log_storage="gp3:10", devices=("/dev/nvme1n1", "/dev/nvme2n1"))
    assert (
        run_files.write(tmp_path, SysbenchOltp(), where, run_document(), series(500.0, seconds=60), samples, []) is None
    )
    run = load_run(tmp_path / "RUN.toml")
    assert run.log_rates.write_iops == pytest.approx(351.0)


def test_a_short_run_says_before_that_nothing_can_be_calibrated_from_it():
    assert "120 s" in explain_short_run(SysbenchOltp(), 30)
    assert explain_short_run(SysbenchOltp(), 120) is None
    assert explain_short_run(Mysqlslap(), 30) is None


@pytest.mark.parametrize(("changes", "words"), [({"storage": None}, "storage"), ({"cache_gib": None}, "cache")])
def test_a_run_that_cannot_be_calibrated_from_says_why(tmp_path, changes, words):
    given = target(**changes), run_document(), series(seconds=5), empty_samples(), []
    message = run_files.write(tmp_path, SysbenchOltp(), *given)
    assert words in message and os.listdir(tmp_path) == []


def test_the_log_volume_is_not_the_data_volume():
    assert run_files.list_data_devices(target(log_storage="gp3:10"), ["loop3", "loop4"]) == ["loop3"]
    assert run_files.list_data_devices(target(), ["nvme1n1", "nvme2n1"]) == ["nvme1n1", "nvme2n1"]


def test_a_record_of_a_target_has_no_password():
    assert "hush" not in json.dumps(target().to_dict(), default=str) and "hush" not in repr(target())


# --- summary --------------------------------------------------------------------------------------------------------------


def test_figures_are_of_the_part_that_counts():
    frame = series(500.0, 0.0).with_columns(
        pl.when(pl.col("phase") == "warmup").then(9e9).otherwise(pl.col("tps")).alias("tps")
    )
    figures = summary.compute_figures(frame, ToolOutcome())
    assert figures["tps"] == pytest.approx(500.0) and figures["seconds"] == 120.0 and figures["stall_s"] == 0.0
    assert figures["reads_per_transaction"] == pytest.approx(2.0) and figures[
        "writes_per_transaction"
    ] == pytest.approx(1.2)
    assert figures["balance_percent_first"] == pytest.approx(49.0) and figures["cap_volume_iops"] == pytest.approx(0.5)


def test_a_run_without_a_part_that_counts_has_no_figures():
    frame = series(seconds=0, warmup=5)
    figures = summary.compute_figures(frame, ToolOutcome())
    assert figures["tps"] is None and figures["seconds"] == 0.0


def test_processors_that_a_run_may_not_use_are_not_idle_for_it():
    """Two of 64 processors may be used (cpuset, taskset): all their work is 1.96 of them, or 1."""
    for busy, sentence in ((1.96, "The processors were 98 % busy: "), (1.0, None)):
        frame = series(seconds=60).with_columns(idle_cpus=pl.lit(64.0 - busy), iowait_cpus=pl.lit(0.0))
        facts = document(frame, environment={"cpus": 64, "cpus_usable": 2})
        findings = summary.list_findings(facts, frame, empty_samples(), None, False)
        assert [each for each in findings if each.startswith(sentence or "The processors")] == findings[
            : bool(sentence)
        ]
    # A run of before usable processors were counted.
    assert summary.compute_idle_share({"cpus": 4}, 1.0, 1.0) == 0.5
    assert summary.compute_idle_share({"cpus": 4}, None, None) is None


@pytest.mark.parametrize(
    ("state", "data_gib", "expected"),
    [(0, 2.0, "cold"), (8000, 2.0, "warm"), (100, 0.003, "warm"), (100, None, "cold")],
)
def test_cold_is_an_empty_cache(state, data_gib, expected):
    """A pool of 8,192 pages of 16 KiB is cold with less than half of what could be held of the
    data. 100 pages are half of 0.003 GiB and nothing of 2."""
    status = pl.DataFrame(
        {
            "t_unix": [1.0],
            "innodb_buffer_pool_pages_data": [float(state)],
            "innodb_buffer_pool_pages_total": [8192.0],
            "innodb_page_size": [16384.0],
        }
    )
    samples = empty_samples()
    samples.status = status
    assert summary.classify_start(samples, target(), data_gib) == expected
