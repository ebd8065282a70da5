"""Facts of the server in a calibration: flavor, version, binary log, and the busy share of its
processors."""

from __future__ import annotations

import math

import polars as pl
import pytest
from calibration_runs import record, truth

import headrace
from headrace.calibration.runs import describe, load_run
from headrace.simulation.replica import Replica, predict_replica
from headrace.workload.server import FULL_SHARE, UNEXPLAINED_WHERE_FULL, SourceServer
from headrace.workload.unexplained import Distances


def add_lines(path, top: str = "", settings: str = "", busy: float | None = None):
    """Adds lines to the description; `busy`: share of the processors, beside the transactions."""
    text = (
        path.read_text().replace("[benchmark]", f"{top}\n[benchmark]").replace("[settings]", f"[settings]\n{settings}")
    )
    path.write_text(text)
    if busy is not None:
        frame = pl.read_csv(path.parent / "run.csv").with_columns(pl.lit(busy).alias("busy_share"))
        frame.write_csv(path.parent / "run.csv")
    return path


MARIADB = 'engine_version = "10.11.19-MariaDB-log"\nflavor = "mariadb"'


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory):
    """A run of a full MariaDB 10.11 with a binary log, calibrated."""
    folder = tmp_path_factory.mktemp("mariadb")
    path = add_lines(record(folder, truth("innodb"), seconds=300), MARIADB, "binlog = true\nvcpus = 2", busy=0.97)
    return load_run(path), headrace.calibrate([path])


def test_the_server_is_kept_and_read_again(mariadb, tmp_path):
    run, workload = mariadb
    facts = workload.server
    assert (facts.flavor, facts.version, facts.log_bin, facts.vcpus) == ("mariadb", "10.11.19-MariaDB-log", True, 2)
    assert facts.busy_share == 0.97 and facts.busy_s == run.span_s and facts.is_full
    headrace.save(workload, tmp_path / "shop.toml")
    assert headrace.load_database(tmp_path / "shop.toml").server == facts


def test_full_processors_are_said_and_widen_what_is_predicted(mariadb):
    run, workload = mariadb
    assert any("97 % busy" in text and "Predictions are wider" in text for text in describe(run))
    assert any("97 % busy" in text for text in workload.caveats)
    assert not any("is not known" in text and "processors" in text for text in workload.caveats)
    assert workload.compute_unexplained(Distances()) >= UNEXPLAINED_WHERE_FULL
    idle = headrace.workload.TransactionWorkload(
        **(vars(workload) | {"server": SourceServer(busy_share=FULL_SHARE - 0.1)})
    )
    wide, narrow = (
        math.log(prediction.summary["tps_high"] / prediction.summary["tps_low"])
        for prediction in (headrace.predict(each, "gp3:2000:6000", seconds=600) for each in (workload, idle))
    )
    # 80 % of a normal distribution are within 1.28 standard deviations: 2 x 1.28 x 0.35 alone.
    assert wide > 2 * 1.28 * UNEXPLAINED_WHERE_FULL and narrow < wide


def test_a_replica_of_it_is_the_one_that_replica_up_makes(mariadb):
    _, workload = mariadb
    prediction = predict_replica(workload, "gp3:2000:6000", Replica("gp3:2000:3000"), seconds=60, draws=0)
    assert prediction.replica.release == "mariadb-10.11.19" and prediction.settings["mode"] == "optimistic"
    assert prediction.settings["log_bin"] and prediction.settings["sync_binlog"] == 1
    named = predict_replica(
        workload, "gp3:2000:6000", Replica("gp3:2000:3000", version="mariadb-10.11"), seconds=60, draws=0
    )
    assert named.settings == prediction.settings
    bare = Replica("gp3:2000:3000", log_bin=False)
    assert not predict_replica(workload, "gp3:2000:6000", bare, seconds=60, draws=0).settings["log_bin"]
    assert not any("version of the source is not known" in text for text in prediction.warnings)


def test_an_unknown_server_is_said(tmp_path):
    workload = headrace.sysbench_tpcc(warehouses=10, engine="innodb", cache_gib=1, threads=4)
    assert workload.server == SourceServer() and not workload.server.is_full and workload.server.release is None
    prediction = predict_replica(workload, "gp3:100", Replica("gp3:100"), seconds=60, draws=0)
    assert any("version of the source is not known" in text and "mysql-8.4" in text for text in prediction.warnings)
    headrace.save(workload, tmp_path / "plain.toml")
    assert "[server]" not in (tmp_path / "plain.toml").read_text()


def test_processors_that_others_used_say_nothing_of_a_transaction(tmp_path):
    """A machine that was busy before the run: its share during the run is not the server's."""
    path = add_lines(record(tmp_path, truth("innodb"), seconds=300), "busy_before = 0.9", "vcpus = 2", busy=0.97)
    workload = headrace.calibrate([path])
    assert workload.server.is_full
    assert any("90 % of the processors were busy before the run" in text for text in workload.caveats)
    cpu = next(row for row in workload.parameters if row["name"] == "cpu_ms")
    assert "processors at work" not in cpu["from"]
    quiet = add_lines(
        record(tmp_path / "q", truth("innodb"), seconds=300), "busy_before = 0.01", "vcpus = 2", busy=0.97
    )
    cpu = next(row for row in headrace.calibrate([quiet]).parameters if row["name"] == "cpu_ms")
    assert "processors at work" in cpu["from"]


@pytest.mark.parametrize(
    ("flavor", "version", "release"),
    [
        ("mysql", "8.0.36", "mysql-8.0.36"),
        ("percona", "8.4.3-3", "mysql-8.4.3"),
        ("mariadb", "11.4.2-MariaDB", "mariadb-11.4.2"),
        (None, "5.7.44-log", "mysql-5.7.44"),
        ("mysql", None, None),
    ],
)
def test_releases_as_the_model_knows_them(flavor, version, release):
    assert SourceServer(flavor=flavor, version=version).release == release


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("busy_share = 1.5", "server.busy_share = 1.5: must be 0 to 1"),
        ('flavor = "oracle"', "server.flavor = 'oracle': must be one of mysql, percona, mariadb"),
        ('flavor = "marriadb"', "server.flavor = 'marriadb': .*Did you mean mariadb?"),
        ("vcpus = 0", "server.vcpus = 0: must be a whole number 1 to 65,536"),
        ('version = ""', "server.version = '': must be text"),
        ("unknown = 1", "server.unknown"),
        ('log_bin = "yes"', "server.log_bin = 'yes': must be true or false"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, line, words):
    workload = headrace.sysbench_tpcc(warehouses=10, engine="innodb", cache_gib=1, threads=4)
    headrace.save(workload, tmp_path / "w.toml")
    text = (tmp_path / "w.toml").read_text()
    (tmp_path / "w.toml").write_text(f"{text}\n[server]\n{line}\n")
    with pytest.raises(headrace.InputError, match=words):
        headrace.load(tmp_path / "w.toml")


def test_the_log_volumes_writes_are_counted(tmp_path):
    """Data on loop3 without a write, redo and binary log on loop4 with 351 a second."""
    path = record(tmp_path, truth("innodb"), seconds=300)
    rows = ["time,device,reads,read_bytes,writes,write_bytes"]
    for second in range(302):
        # Whole seconds since 1970 of the run's clock, which its CSV has not: both begin together.
        moment = 1_760_000_000 + second
        rows.append(f"{moment},nvme1n1,{second * 100},{second * 100 * 16384},0,0")
        rows.append(f"{moment},nvme2n1,0,0,{second * 351},{second * 351 * 4096}")
    (tmp_path / "disk.csv").write_text("\n".join(rows) + "\n")
    files = 'disk = "disk.csv"\ndevice = "nvme1n1"\nlog_device = "nvme2n1"'
    path.write_text(path.read_text().replace('sysbench = "run.csv"', f'sysbench = "run.csv"\n{files}'))
    path.write_text(path.read_text().replace("[benchmark]", 'log_storage = "gp2:100"\n[benchmark]'))
    run = load_run(path)
    # Means of rows over constant rates: rounding alone.
    assert run.log_rates.write_iops == pytest.approx(351.0) and run.log_rates.write_mib_s == pytest.approx(351 / 256)
    words = " ".join(describe(run))
    assert "data volume did 100 reads and 0 writes" in words and "log volume did 351 writes a second" in words


def test_a_log_device_needs_the_data_devices(tmp_path):
    path = record(tmp_path, truth("innodb"), seconds=300)
    path.write_text(path.read_text().replace('sysbench = "run.csv"', 'sysbench = "run.csv"\nlog_device = "nvme2n1"'))
    with pytest.raises(headrace.InputError, match="log_device"):
        load_run(path)
