"""Drivers without a server: what tools print is read right, what goes into their files is what they take, processes are ended."""

from __future__ import annotations

import json
import math
import os
import random
import stat
import statistics
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from headrace.bench import FioJob, Mysqlslap, SysbenchFileio, SysbenchOltp, Tpcc
from headrace.bench.drivers import fio, sysbench
from headrace.bench.drivers.benchmark import Histogram, RunLoad, merge_histograms
from headrace.bench.drivers.tpcc import parse_latencies
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address, Secret

RAW = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Threads started!

[ 1s ] thds: 2 tps: 882.22 qps: 17695.37 (r/w/o: 12393.06/3534.88/1767.44) lat (ms,95%): 3.19 err/s: 1.00 reconn/s: 0.00
[ 2s ] Checkpoint report:
[ 2s ] thds: 2 tps: 940.98 qps: 18839.54 (r/w/o: 13197.68/3757.91/1883.95) lat (ms,95%): 0.00 err/s: 2.00 reconn/s: 0.00
    transactions:                        2747   (915.37 per sec.)
    total number of events:              2747
         95th percentile:                        2.91
Threads fairness:
[ 3s ] thds: 2 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): 0.00 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.920 |*                                        2
       1.759 |********                                 26
       2.032 |**************************************** 135
     100.000 |                                         1

SQL statistics:
    queries performed:
        read:                            36866
    transactions:                        164   (876.96 per sec.)
    queries:                             52664  (17547.18 per sec.)
    ignored errors:                      3      (1.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          6.0019s
    total number of events:              164

Latency (ms):
         min:                                    0.92
         avg:                                    2.28
         max:                                    100.75
         95th percentile:                        3.19
         sum:                                 5998.93

Threads fairness:
    events (avg/stddev):           1316.0000/1.00
"""


def test_a_report_of_sysbench_is_read():
    report = sysbench.parse_report(RAW.splitlines()[3])
    assert (report.end_s, report.threads, report.tps, report.qps, report.p95_ms, report.errors_per_s) == (
        1.0,
        2,
        882.22,
        17695.37,
        3.19,
        1.0,
    )
    assert sysbench.parse_report("[ 2s ] Checkpoint report:") is None
    # 0.00 is the percentile of nothing, and what could not be divided is no number.
    assert sysbench.parse_report(RAW.splitlines()[10]).p95_ms is None
    text = "[ 3s ] thds: 2 tps: -nan qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): inf err/s: 0.00 reconn/s: 0.00"
    assert (sysbench.parse_report(text).tps, sysbench.parse_report(text).p95_ms) == (None, None)


def test_totals_and_histogram_are_those_of_the_part_that_counts():
    outcome = sysbench.parse_outcome(RAW, RunLoad(2, 2, 4, 1))
    assert outcome.figures == {
        "transactions": 164,
        "queries": 52664,
        "errors": 3,
        "reconnects": 0,
        "events": 164,
        "min_ms": 0.92,
        "mean_ms": 2.28,
        "max_ms": 100.75,
    }
    assert outcome.histogram.values_ms == (0.92, 1.759, 2.032, 100.0) and outcome.histogram.total == 164
    assert outcome.notes == ()


@pytest.mark.parametrize("cut", [0, 200, 900, RAW.rindex("Threads fairness")])
def test_output_that_was_cut_off_is_refused(cut):
    with pytest.raises(InputError, match="cut off"):
        sysbench.parse_outcome(RAW[:cut], RunLoad(2, 0, 4, 1))


def test_a_percentile_is_the_smallest_value_with_its_share_at_or_below():
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(50):
        values = sorted(chance.sample(range(1, 1000), chance.randrange(1, 30)))
        counts = [chance.randrange(1, 40) for _ in values]
        histogram = Histogram(tuple(map(float, values)), tuple(counts), "", 0.0)
        flat = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
        for share in (0.5, 0.9, 0.95, 0.99):
            want = next(value for index, value in enumerate(flat, 1) if index >= share * len(flat) - 1e-9)
            assert histogram.percentile(share) == want
    assert Histogram((), (), "", 0.0).percentile(0.5) is None


def test_percentiles_with_too_little_above_them_are_not_told():
    histogram = Histogram((1.0, 2.0), (900, 100), "", 0.0)
    assert histogram.summarize() == {"p50_ms": 1.0, "p90_ms": 1.0, "p95_ms": 2.0, "p99_ms": 2.0, "p999_ms": None}
    assert merge_histograms([histogram, Histogram((2.0, 3.0), (1, 1), "", 0.0)]).counts == (900, 101, 1)


def test_the_account_file_has_the_password_and_nobody_else_reads_it(tmp_path):
    path = tmp_path / "account"
    path.write_text("older")
    path.chmod(0o644)
    sysbench.write_account(Address("me", socket="/s", database="d", password=Secret("p#a s,s=")), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines() == [
        "mysql-user='me'",
        "mysql-socket='/s'",
        "mysql-password='p#a s,s='",
        "mysql-db='d'",
    ]
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(CouldNotRun):  # another user's link is not followed
        sysbench.write_account(Address("me", socket="/s"), tmp_path / "link")


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ("plain", "'plain'"),
        ("it's", '"it\'s"'),
        ('a"b', "'a\"b'"),
        ("a'b\"c", "a'b\"c"),
        ("", "''"),
        ("é€", "'é€'"),
        ("back\\slash", "'back\\slash'"),
    ],
)
def test_passwords_are_quoted_as_sysbench_reads_them(password, written):
    assert sysbench.quote_option("password", password, secret=True) == written


@pytest.mark.parametrize("password", ["a'b\" c", "'a\"", "line\nend", "zero\0"])
def test_a_password_sysbench_cannot_be_given_is_refused_and_not_repeated(password):
    with pytest.raises(InputError) as refused:
        sysbench.quote_option("password", password, secret=True)
    assert password not in str(refused.value) and "***" in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"script": "oltp_rw"}, {"tables": 0}, {"rows": 0}, {"rows": 3_000_000_000}, {"tables": True}, {"distribution": "normal"}, {"parameters": {"rand_pareto_h": 0.2}},
        {"distribution": "pareto", "parameters": {"rand_pareto_h": 7}}, {"shape": {"point_select": 1}}, {"shape": {"skip_trx": 1}}, {"shape": {"point_selects": -1}},
        {"shape": {"point_selects": True}}, {"shape": {"random_points": 3}}, {"script": "bulk_insert", "shape": {"skip_trx": True}},
    ],
)  # fmt: skip
def test_options_beyond_their_bounds_are_refused(wrong):
    with pytest.raises(InputError):
        SysbenchOltp(**wrong)


def test_bulk_inserts_begin_with_empty_tables():
    """sysbench makes a table for each client, whatever tables and rows are."""
    assert SysbenchOltp("bulk_insert")._plan_preparation(4) == ("4 empty tables", 600.0)
    assert SysbenchOltp("bulk_insert", rows=2_000_000_000)._plan_preparation(1) == ("1 empty table", 600.0)
    # 1 ms for each of 800,000 rows, and 600 s.
    assert SysbenchOltp()._plan_preparation(4) == ("8 tables of 100,000 rows", 1_400.0)


def test_the_same_load_has_the_same_options():
    """Runs with equal options are alike: defaults that are spelled out do not make another load."""
    assert SysbenchOltp().list_options() == SysbenchOltp(parameters={"rand_spec_pct": 1}).list_options()
    assert SysbenchOltp(distribution="zipfian").list_options()["parameters"] == {"rand_zipfian_exp": 0.8}
    assert SysbenchOltp(tables=3, rows=7).make_benchmark_table()["scale"] == 7
    assert Tpcc(5).make_benchmark_table() == {"name": "sysbench-tpcc", "tables": 1, "scale": 5}
    assert Tpcc(5, items=1000).make_benchmark_table() == {"name": "own"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tpcc(0), lambda: Tpcc(1, items=5), lambda: Tpcc(1, customers=True), lambda: Mysqlslap("all"), lambda: Mysqlslap(rows=3), lambda: FioJob("readwrite"), lambda: FioJob(bs_kib=0),
        lambda: FioJob(ioengine="sync", iodepth=4), lambda: FioJob(size_gib=float("nan")), lambda: SysbenchFileio("rnd"), lambda: SysbenchFileio(flags=("fast",)),
        lambda: SysbenchFileio(files=100_000, size_gib=0.01), lambda: SysbenchFileio(size_gib=float("inf")),
    ],
)  # fmt: skip
def test_other_drivers_refuse_too(make):
    with pytest.raises(InputError):
        make()


def test_fileio_reports_requests():
    load = SysbenchFileio(block_kib=16)
    report = load.parse_line("[ 2s ] reads: 158.25 MiB/s writes: 105.50 MiB/s fsyncs: 671.38/s latency (ms,95%): 0.182")
    assert report.tps == pytest.approx((158.25 + 105.5) * 64) and report.qps == pytest.approx(report.tps + 671.38)
    assert report.more["tool_fsyncs_per_s"] == 671.38
    assert load.parse_line("[ 1s ] Checkpoint report:") is None


def test_latencies_by_transaction_are_added_over_clients():
    histograms = parse_latencies(
        "x\nheadrace-tpcc new_order 10:2,-3:1\nheadrace-tpcc payment 5:1\nheadrace-tpcc new_order 10:5\nheadrace-tpcc delivery \n"
    )
    assert set(histograms) == {"new_order", "payment"} and histograms["new_order"].counts == (1, 7)
    assert histograms["new_order"].values_ms[1] == pytest.approx(2.718281828**0.18)


def test_the_buckets_of_fio_hold_their_values():
    """Every latency lies within half a bucket of the name of its bucket: stat.c, plat_val_to_idx, done anew."""
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(2000):
        value = int(10 ** chance.uniform(0, 10))
        top = value.bit_length() - 1
        index = value if top <= fio.BITS else ((top - fio.BITS + 1) << fio.BITS) + ((value >> (top - fio.BITS)) & 63)
        assert abs(fio.compute_bucket_ns(index) - value) <= fio.ERROR_PERCENT / 100 * value + 0.5


def make_fio_report(**latencies_ns: list[int]) -> str:
    """Returns a report of fio as json+, of reads and writes with these latencies."""
    job = {}
    for op in ("read", "write"):
        values = sorted(latencies_ns.get(op, ()))
        times = (
            {"mean": statistics.mean(values), "stddev": statistics.pstdev(values), "max": values[-1]} if values else {}
        )
        counts = {str(value): count for value, count in Counter(values).items()}
        shares = {
            f"{percent:f}": values[math.ceil(round(percent / 100, 6) * len(values)) - 1]
            for percent in fio.PERCENTILES
            if values
        }
        job[op] = {
            "total_ios": len(values),
            "iops": len(values) / 2,
            "bw_bytes": 4096 * len(values) / 2,
            "runtime": 2000,
        }
        job[op]["clat_ns"] = {"mean": 0.0, "stddev": 0.0, "max": 0, "percentile": shares, "bins": counts} | times
    return "fio: a warning\n" + json.dumps({"jobs": [job]})


def test_figures_of_reads_and_writes_are_those_of_all_requests():
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(30):
        read, write = (
            [
                chance.choice(range(scale, 4 * scale, scale // 10))
                for _ in range(chance.choice((0, chance.randrange(1000))))
            ]
            for scale in (1_000_000, 400_000)
        )
        every = sorted([*read, *write, 7_000_000])
        result = fio.read_result(make_fio_report(read=read, write=[*write, 7_000_000]))
        assert (result.ios, result.iops, result.seconds) == (len(every), len(every) / 2, 2.0)
        assert result.mean_ms == pytest.approx(statistics.mean(every) / 1e6)
        assert result.sd_ms == pytest.approx(statistics.pstdev(every) / 1e6)
        percentiles = [every[math.ceil(share * len(every)) - 1] / 1e6 for share in (0.5, 0.99, 0.999)]
        assert [result.p50_ms, result.p99_ms, result.p999_ms] == percentiles
    report = make_fio_report(read=[1_000_000] * 700, write=[400_000] * 300)
    assert fio.read_result(report).mean_ms == pytest.approx(0.82)
    # Percentiles of both are in their buckets alone.
    with pytest.raises(InputError, match="no buckets of both"):
        fio.read_result(report.replace('"bins"', '"others"'))


def test_a_run_of_fio_without_a_request_says_so(tmp_path):
    with pytest.raises(CouldNotRun, match="finished no request"):
        fio.read_result(make_fio_report())
    (tmp_path / fio.JSON).write_text(make_fio_report())
    outcome = FioJob().read_partial_outcome("", RunLoad(2, 2, 3, 1), tmp_path)
    assert outcome.histogram is None and outcome.notes


def test_the_logs_of_fio_are_put_on_one_axis(tmp_path):
    """Two jobs, reads and writes, stamps a few ms apart; the ramp of 2 s is not in the logs."""
    lines = [
        f"{1_800_000_001_000 + 1000 * second + jitter}, {100 + second}, {op}, 0, 0"
        for second in range(3)
        for op in (0, 1)
        for jitter in (0, 3)
    ]
    (tmp_path / "log_iops.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "log_bw.log").write_text("\n".join(line.replace(", 10", ", 204", 1) for line in lines))
    bins = [0] * 1856
    bins[64] = 99
    (tmp_path / "log_clat_hist.log").write_text(
        "".join(f"{1_800_000_001_000 + 1000 * second}, 0, 4096, {', '.join(map(str, bins))}\n" for second in range(3))
    )
    reports, began = fio.read_seconds(tmp_path, RunLoad(2, 2, 3, 1))
    assert began == pytest.approx(1_800_000_001.0 - 1.0 - 2.0)
    assert [report.end_s for report in reports] == [3.0, 4.0, 5.0]
    assert [report.tps for report in reports] == [400.0, 404.0, 408.0]
    assert reports[0].p95_ms == pytest.approx(64e-6)


def test_writing_to_a_device_needs_to_be_said(tmp_path, monkeypatch):
    from headrace.base.mounts import Mount
    from headrace.bench.drivers import files
    from headrace.bench.target import Target

    devices = [
        line.split()[3] for line in Path("/proc/partitions").read_text().splitlines()[2:] if len(line.split()) == 4
    ]
    device = next((f"/dev/{name}" for name in devices if os.path.exists(f"/dev/{name}")), None)
    if device is None:
        pytest.skip("no block device on this machine")
    monkeypatch.setattr(files, "read_mount_table", list)
    monkeypatch.setattr(files, "_is_claimed", lambda device: False)
    with pytest.raises(InputError, match="overwrites it"):
        files.check_overwrite(Target(folder=Path(device)), False)
    files.check_overwrite(Target(folder=Path(device)), True)
    mount = Mount("0:1", "/somewhere", "xfs", device, frozenset(), False)
    monkeypatch.setattr(files, "read_mount_table", lambda: [mount])
    with pytest.raises(InputError, match="is mounted at /somewhere"):
        files.check_overwrite(Target(folder=Path(device)), True)


def test_files_with_holes_are_not_whole(tmp_path):
    from headrace.bench.drivers.files import is_file_whole

    path = tmp_path / "f"
    assert not is_file_whole(path, 1 << 20)
    subprocess.run(["truncate", "-s", "1M", str(path)], check=True)
    with pytest.raises(InputError, match="--fresh"):
        is_file_whole(path, 1 << 20)
    path.write_bytes(b"x" * (1 << 20))
    assert is_file_whole(path, 1 << 20)
    with pytest.raises(InputError):
        is_file_whole(path, 2 << 20)
