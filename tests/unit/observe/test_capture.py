"""Runs as a capture writes them: /proc/diskstats counters, and transactions that only the server
counted.
"""

from __future__ import annotations

import re

import polars as pl
import pytest
from test_runs import make

from headrace.calibration.from_runs import calibrate
from headrace.calibration.runs import describe, load_run
from headrace.errors import InputError
from headrace.observe.live.host import FIELDS
from headrace.observe.live.samples import Samples, write_disk_csv, write_status_csv

T0 = 1_700_000_000
SECONDS = 150
TOML = """format = "headrace-run"
version = 1
name = "live"
engine = "innodb"
storage = "gp3:100"
as_of = 2024-01-01
cache_gib = 0.5
threads = 4
start = "warm"
[benchmark]
name = "own"
data_gib = 5
[files]
status = "status.csv"
disk = "disk.csv"
"""


def counters(seconds=SECONDS, tps=200.0, **changes):
    """Status samples at whole seconds: `tps` commits a second with four writes and ten reads each;
    others by keyword, a second.
    """
    rates = {"com_commit": tps, "com_update": 4 * tps, "com_select": 10 * tps, "questions": 16 * tps} | changes
    times = [T0 + at + 0.002 * (at % 3) for at in range(seconds + 1)]
    columns = {"t_unix": times} | {
        name: [1_000.0 + rate * at for at in range(seconds + 1)] for name, rate in rates.items()
    }
    levels = {
        "innodb_buffer_pool_pages_free": 1_024.0,
        "innodb_buffer_pool_pages_total": 32_768.0,
        "innodb_page_size": 16_384.0,
        "threads_running": 5.0,
    }
    return (
        columns
        | {name: [value] * (seconds + 1) for name, value in levels.items()}
        | {"uptime": [50.0 + at for at in range(seconds + 1)]}
    )


def disks(seconds=SECONDS, **devices):
    """Counters of devices by (reads a second, writes a second)."""
    devices = devices or {"loop3": (1_200.0, 600.0)}
    rows = [
        {"t_unix": float(T0 + at), "device": name, "reads": 7.0 + reads * at, "writes": writes * at, "read_bytes": 16_384 * reads * at, "write_bytes": 20_480 * writes * at}
        for at in range(seconds + 1)
        for name, (reads, writes) in devices.items()
    ]  # fmt: skip
    frame = pl.DataFrame(rows)
    return frame.with_columns(pl.lit(0.0).alias(name) for name in FIELDS if name not in frame.columns).select(
        "t_unix", "device", *FIELDS
    )


def write(folder, status=None, disk=None, toml=TOML):
    given = Samples(pl.DataFrame(status or counters()), disks() if disk is None else disk, pl.DataFrame({"t_unix": []}))
    write_status_csv(given, folder / "status.csv")
    write_disk_csv(given, folder / "disk.csv")
    (folder / "RUN.toml").write_text(toml)
    return folder / "RUN.toml"


def refused(path, words):
    with pytest.raises(InputError, match=words) as caught:
        load_run(path)
    assert caught.value.value.startswith("RUN.toml") and caught.value.rule
    return caught.value


def test_transactions_are_what_the_server_counted(tmp_path):
    run = load_run(write(tmp_path))
    assert run.series["t_s"].to_list() == [float(at) for at in range(SECONDS)] and run.interval_s == 1.0
    # Samples come 0, 2 and 4 ms late in turn: rates are over the time they really took, to half a
    # per cent.
    assert run.series["tps"].to_list() == pytest.approx([200.0] * SECONDS, rel=0.005)
    assert (
        run.series["qps"].median() == pytest.approx(3_200, rel=0.005) and run.series["p95_ms"].null_count() == SECONDS
    )
    assert run.series["threads"].unique().to_list() == [4]
    assert run.series["read_iops"].median() == pytest.approx(1_200) and run.series[
        "write_mib_s"
    ].median() == pytest.approx(600 * 20 / 1024)
    assert (
        "is a commit" in run.select_findings("transactions")[0].text
        and not run.select_findings("start")
        and not run.select_findings("status")
    )
    assert set(run.files) == {"status", "disk"} and run.status.height == SECONDS
    assert any("transactions" in line for line in describe(run))


def test_statements_that_commit_by_themselves_are_transactions(tmp_path):
    lonely = counters(com_commit=1.0, com_update=500.0, com_select=50.0)
    run = load_run(write(tmp_path, lonely))
    assert (
        run.series["tps"].median() == pytest.approx(550, rel=0.005)
        and "reads or writes" in run.select_findings("transactions")[0].text
    )
    reading = load_run(write(tmp_path, counters(com_commit=0.0, com_update=0.0, com_select=900.0)))
    assert reading.series["tps"].median() == pytest.approx(900, rel=0.005)
    request = load_run(write(tmp_path, lonely, toml=TOML + 'transactions = ["com_update"]\n'))
    assert request.series["tps"].median() == pytest.approx(500, rel=0.005)


def test_a_server_that_did_nothing_is_refused(tmp_path):
    refused(
        write(tmp_path, counters(com_commit=0.0, com_update=0.0, com_select=0.0, questions=1.0)),
        "grows in the whole file",
    )
    without = {name: column for name, column in counters().items() if not name.startswith("com_")}
    refused(write(tmp_path, without), "none of the counters of transactions")
    refused(write(tmp_path, toml=TOML + 'transactions = ["com_xa_commit"]\n'), "no column com_xa_commit")


def test_missed_samples_and_restarts_are_gaps(tmp_path):
    columns = counters()
    keep = [at for at in range(SECONDS + 1) if at not in (40, 41, 90)]
    holed = {name: [column[at] for at in keep] for name, column in columns.items()}
    run = load_run(write(tmp_path, holed))
    # Two samples gone take three rows, one takes two.
    assert run.series.height == SECONDS - 5 and sorted({39.0, 40.0, 41.0, 89.0, 90.0} & set(run.series["t_s"])) == []
    assert any("gaps" in finding.text for finding in run.select_findings("gap"))
    again = {name: [value - (1_000 + column[60] if at > 60 and name.startswith(("com_", "questions")) else 0) + (1_000 if at > 60 else 0)
                    for at, value in enumerate(column)] for name, column in columns.items()}  # fmt: skip
    again["t_unix"] = columns["t_unix"]
    started = load_run(write(tmp_path, {name: [max(0.0, value) for value in column] for name, column in again.items()}))
    assert started.select_findings("restart") and started.series.height == SECONDS - 1


def test_samples_further_apart(tmp_path):
    columns = {name: column[::5] for name, column in counters().items()}
    run = load_run(write(tmp_path, columns))
    assert run.interval_s == 5.0 and run.series.height == SECONDS / 5 and run.series["read_iops"].null_count() == 0
    assert run.series["tps"].median() == pytest.approx(200, rel=0.005)


def test_a_percentile_of_the_whole_run(tmp_path):
    run = load_run(write(tmp_path, toml=TOML.replace('start = "warm"', 'start = "warm"\np95_ms = 70.0')))
    assert run.p95_ms == 70.0
    workload = calibrate([run])
    # 70 ms over the mean of 4 clients at 200 tps, 20 ms.
    assert workload.database["clients"]["p95_over_mean"] == pytest.approx(3.5, rel=0.01)
    assert (
        workload.database["clients"]["p95_over_mean"]
        != calibrate([load_run(write(tmp_path))]).database["clients"]["p95_over_mean"]
    )


def test_the_percentile_of_sysbenchs_summary_is_the_runs(tmp_path):
    text = (
        make.sysbench_10()
        + "Latency (ms):\n         min:                                    5.29\n         95th percentile:                      314.45\n"
    )
    for name in ("iostat.txt", "status.txt"):
        (tmp_path / name).write_text(make.FILES[name]())
    (tmp_path / "sysbench.txt").write_text(text)
    (tmp_path / "run.toml").write_text(make.RUN_TOML)
    assert load_run(tmp_path / "run.toml").p95_ms == 314.45
    (tmp_path / "run.toml").write_text(make.RUN_TOML.replace("seconds = 180", "seconds = 180\np95_ms = 200"))
    assert load_run(tmp_path / "run.toml").p95_ms == 200  # said is said
    (tmp_path / "sysbench.txt").write_text(text.replace("95th", "99th"))
    (tmp_path / "run.toml").write_text(make.RUN_TOML)
    assert load_run(tmp_path / "run.toml").p95_ms is None


def test_a_run_named_twice_is_refused(tmp_path):
    path = write(tmp_path)
    with pytest.raises(InputError, match="same benchmark file"):
        calibrate([path, path])


def test_devices_are_summed_or_chosen(tmp_path):
    two = disks(loop3=(1_000.0, 100.0), loop4=(0.0, 400.0))
    both = load_run(write(tmp_path, disk=two))
    assert both.series["write_iops"].median() == pytest.approx(500)
    run = load_run(write(tmp_path, disk=two, toml=TOML + 'device = "loop4"\n'))
    assert run.series["write_iops"].median() == pytest.approx(400) and run.series["read_iops"].median() == 0
    named = load_run(write(tmp_path, disk=two, toml=TOML + 'device = "/dev/loop4+loop3"\n'))
    assert named.series["write_iops"].median() == pytest.approx(500)
    refused(write(tmp_path, disk=two, toml=TOML + 'device = "loop9"\n'), "is not in the file")
    refused(write(tmp_path, disk=two, toml=TOML + 'device = "loop3+loop3"\n'), "twice")


def test_requests_are_as_the_volume_had_them(tmp_path):
    """Flushes are among the writes; merged requests leave a loop device in their parts, another one
    whole.
    """
    for device, reads, writes in (("loop3", 1_000.0 + 50, 300.0 - 100 + 25), ("nvme1n1", 1_000.0, 200.0)):
        counted = disks(**{device: (1_000.0, 300.0)})
        grown = pl.col("t_unix") - T0
        counted = counted.with_columns(
            (100.0 * grown).alias("flushes"),
            (50.0 * grown).alias("reads_merged"),
            (25.0 * grown).alias("writes_merged"),
        )
        run = load_run(write(tmp_path, disk=counted))
        assert (run.series["read_iops"].median(), run.series["write_iops"].median()) == pytest.approx(
            (reads, writes)
        ), device
        rate_table = Samples(pl.DataFrame({"t_unix": []}), counted, pl.DataFrame({"t_unix": []})).compute_rates()
        assert (rate_table["read_iops"].median(), rate_table["write_iops"].median()) == pytest.approx(
            (reads, writes)
        ), device
    # A second with a flush and no write is no restart.
    still = disks(loop3=(10.0, 0.0)).with_columns((pl.col("t_unix") - T0).alias("flushes"))
    run = load_run(write(tmp_path, disk=still))
    assert not run.select_findings("restart") and run.series["write_iops"].max() == 0


def test_a_device_attached_again_is_null_there(tmp_path):
    again = disks().with_columns(
        pl.when(pl.col("t_unix") > T0 + 80)
        .then(pl.col("reads") - 1_200.0 * 80)
        .otherwise(pl.col("reads"))
        .alias("reads")
    )
    run = load_run(write(tmp_path, disk=again))
    assert run.series["read_iops"].null_count() == 1 and run.select_findings("restart")


def test_data_and_log_may_give_what_both_give(tmp_path):
    """3,000 IOPS each: 4,900 of both are fine with a log volume, and 1.6 times too many without."""
    much = disks(loop3=(2_900.0, 0.0), loop4=(0.0, 2_000.0))
    refused(write(tmp_path, disk=much), "gives at most 3,000 IOPS")
    run = load_run(write(tmp_path, disk=much, toml=TOML.replace("as_of", 'log_storage = "gp3:10"\nas_of')))
    assert not run.select_findings("storage")


def test_disk_counters_win_over_iostat(tmp_path):
    (tmp_path / "iostat.txt").write_text(make.FILES["iostat.txt"]())
    toml = make.RUN_TOML.replace('device = "nvme1n1"', 'device = "nvme1n1"\ndisk = "disk.csv"')
    # 2018-08-15 10:00 UTC
    columns = disks(180, nvme1n1=(1_000.0, 100.0)).with_columns(pl.col("t_unix") - T0 + 1_534_327_200.0)
    write(tmp_path, disk=columns, toml=toml)
    for name in ("sysbench.txt", "status.txt"):
        (tmp_path / name).write_text(make.FILES[name]())
    run = load_run(tmp_path / "RUN.toml")
    assert run.series["read_iops"].median() == pytest.approx(1_000) and any(
        "disk's" in finding.text for finding in run.select_findings("disk")
    )


DAMAGE = [
    (r"\A(.*)\n", r"time,device,reads\n", "no column read_bytes"),
    (r"\Atime,", "time,time,", "twice"),
    (r"\n1700000050[^\n]*", r"\n1700000050.0,loop3,1", "columns"),
    (r"\n1700000050\.0+,", r"\nnoon,", "ISO 8601"),
    (r"\n1700000050\.0+,", r"\n1700000040.0,", "back in time"),
    (r"\n(1700000050\.0+,loop3),\d+", r"\n\1,-7", "negative|must be a number"),
    (r"\n(1700000050\.0+,loop3),\d+", r"\n\1,nan", "finite"),
    (r"\n1700000050\.0+,loop3", r"\n1700000050.0,", "name of a device"),
    (r"(?s)\n17000000[1-8].*?(?=\n17000000[9])", r"", "have no samples"),
]


@pytest.mark.parametrize(("old", "new", "words"), DAMAGE, ids=[words for _, _, words in DAMAGE])
def test_damaged_disk_files(tmp_path, old, new, words):
    path = write(tmp_path)
    text = (tmp_path / "disk.csv").read_text()
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    (tmp_path / "disk.csv").write_text(changed)
    refused(path, words)


def test_a_disk_file_cut_off_is_said(tmp_path):
    path = write(tmp_path)
    text = (tmp_path / "disk.csv").read_text()
    (tmp_path / "disk.csv").write_text(text[: text.rindex("loop3")])
    run = load_run(path)
    assert (
        any("cut off" in finding.text for finding in run.select_findings("cut"))
        and run.series["read_iops"].null_count() <= 1
    )


def test_the_age_of_the_checkpoint_from_its_ends(tmp_path):
    """MySQL's names and MariaDB's; whoever counts the age itself is believed."""
    for current, checkpoint in (
        ("innodb_redo_log_current_lsn", "innodb_redo_log_checkpoint_lsn"),
        ("innodb_lsn_current", "innodb_lsn_last_checkpoint"),
    ):
        ends = {current: [5e9 + at * 1e6 for at in range(SECONDS + 1)], checkpoint: [5e9] * (SECONDS + 1)}
        status = load_run(write(tmp_path, counters() | ends)).status
        assert status["innodb_checkpoint_age"].to_list() == [(at + 1) * 1e6 for at in range(SECONDS)]
        counted = load_run(write(tmp_path, counters() | ends | {"innodb_checkpoint_age": [7.0] * (SECONDS + 1)})).status
        assert counted["innodb_checkpoint_age"].unique().to_list() == [7.0]
