"""Processor time of a transaction, from how busy vmstat and iostat say the processors were; and
what a workload keeps of where it was measured.
"""

import math

import pytest
from calibration_runs import LONG, record, truth

import headrace
from headrace.base import core
from headrace.calibration.from_runs import calibrate
from headrace.calibration.processor_time import SYSTEMATIC, measure_processor_time
from headrace.calibration.runs import load_run
from headrace.errors import InputError
from headrace.observe.run_files.disk import read_busy_shares
from headrace.simulation.database import predict
from headrace.workload import files
from headrace.workload.parameters import CPU_SPREAD

VCPUS = 36  # of c5.9xlarge, on which the made runs are


def record_busy_run(folder, cpu_ms: float, settings: str = "", engine: str = "innodb"):
    """Records a run with iostat beside it, whose processors are at work for `cpu_ms` a transaction;
    55 % of that in user space."""
    path = record(folder, truth(engine), seconds=600, iostat=True, settings=settings)
    tps = [float(row.split(",")[2]) for row in (folder / "run.csv").read_text().splitlines()[1:]]
    first, *reports = (folder / "iostat.txt").read_text().split("\nDevice ")
    text = first
    for index, report in enumerate(reports):
        busy = 5.0 if index == 0 else 100.0 * tps[index - 1] * cpu_ms / 1e3 / VCPUS
        figures = f"{0.55 * busy:.2f} 0.00 {0.45 * busy:.2f} 20.00 1.00 {max(0.0, 79.0 - busy):.2f}"
        text += f"\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n {figures}\n\nDevice {report}"
    (folder / "iostat.txt").write_text(text)
    return load_run(path)


def find_cpu_row(workload) -> dict:
    return next(row for row in workload.parameters if row["name"] == "cpu_ms")


@pytest.mark.parametrize("cpu_ms", [2.4, 9.6])
def test_processor_time_comes_from_the_run(tmp_path, cpu_ms):
    run = record_busy_run(tmp_path, cpu_ms)
    assert run.vcpus == VCPUS and run.series["busy_share"].null_count() == 0
    processors = measure_processor_time([run])
    # Most of these worked on a core by itself, where they are faster: 1 - 0.315 x share of the others
    # that are at work, over 0.685 where all are. Shares are printed to 0.01 %, of some 10 %: a
    # thousandth.
    busy_ms, cpu_ms = cpu_ms, cpu_ms * (1.0 - 0.315 * run.busy_share) / 0.685
    assert core.processor_ms(busy_ms, run.busy_share, 2) == pytest.approx(cpu_ms)
    assert core.processor_ms(busy_ms, run.busy_share, 1) == pytest.approx(busy_ms / 0.685)
    assert processors.cpu_ms == pytest.approx(cpu_ms, rel=2e-3) and SYSTEMATIC <= processors.spread < 1.1 * SYSTEMATIC
    workload = calibrate([run])
    row = find_cpu_row(workload)
    # The value before the runs, 4.8 ms to 35 %, pulls by its weight: 0.15^2 / (0.15^2 + 0.35^2) =
    # 0.155 of the way in logarithms, here of up to a factor of three; processors bind nothing. The
    # response time moves with it (0.4 is known of the rest), which a run that stays as fast holds
    # back: by less than half of that pull, 0.07 of a factor of three.
    # Two clients of each processor crowd it by 1.5 %, which is no work of a transaction alone.
    assert run.threads == 2 * VCPUS
    alone_ms = cpu_ms / 1.015
    assert row["value"] == pytest.approx(alone_ms * (4.8 / alone_ms) ** 0.155, rel=0.08)
    # 1 / sqrt(1 / 0.15^2 + 1 / 0.35^2) = 0.138.
    assert row["spread"] == pytest.approx(0.138, rel=0.05) and row["before"] == CPU_SPREAD and "made" in row["from"]
    assert not any("busy" in text for text in workload.caveats)
    # It enters the probability: databases drawn differ in it as far as it may lie, however few they are.
    logs = [math.log(database["clients"]["cpu_ms"] / row["value"]) for database in workload.draw_databases(24, 1)]
    assert math.sqrt(sum(value**2 for value in logs) / 23) == pytest.approx(row["spread"], rel=1e-6)
    assert sum(logs) == pytest.approx(0.0, abs=1e-6)


def test_without_a_figure_it_stays_the_standards_and_says_so(tmp_path):
    workload = calibrate([load_run(record(tmp_path, truth("innodb"), seconds=600, iostat=True))])
    row = find_cpu_row(workload)
    # A run that processors do not bind moves it little: well within what is known of it.
    assert row["spread"] == pytest.approx(CPU_SPREAD, rel=0.1) and "prior" in row["from"]
    assert abs(math.log(row["value"] / 4.8)) < CPU_SPREAD
    assert any("The busy share of the processors is not known" in text for text in workload.caveats)


def test_fewer_processors_than_the_instances_may_be_said(tmp_path):
    whole, half = (
        record_busy_run(tmp_path / "a", 4.0),
        record_busy_run(tmp_path / "b", 4.0, settings=f"vcpus = {VCPUS // 2}"),
    )
    assert measure_processor_time([half]).cpu_ms == pytest.approx(measure_processor_time([whole]).cpu_ms / 2)
    # Two that lie a factor of two apart know it no better than that: half of their distance, ln(2)
    # / 2.
    both = measure_processor_time([whole, half])
    assert both.spread > math.log(2) / 2 and both.runs == ("made", "made")


VMSTAT = """procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 0  1      0 304624   3004 29272436    0    0  2588  2669   31    5 14  4 61 21  0
 0 15      0 305792   3004 29084156    0    0 110261 67845 27789 45605 11 10 36 42  0
 0 15      0 305792   3004 29084156    0    0 110261 67845 27789 45605 60 40  0  0  0
"""


def read_shares(text: str, tool: str, reports: int):
    return read_busy_shares(_Text(text), tool, reports)


class _Text:
    """A recording as far as its text is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text


def test_shares_are_what_is_neither_idle_nor_waiting():
    # the first, since boot, is left out
    assert read_shares(VMSTAT, "vmstat", 2) == pytest.approx([0.21, 1.0])
    assert read_shares(VMSTAT, "vmstat", 3) == pytest.approx([0.18, 0.21, 1.0])  # a file without one
    assert read_shares(VMSTAT, "vmstat", 5) is None
    assert read_shares(VMSTAT.replace(" 60 40 ", " 60 90 "), "vmstat", 2) is None, "more than all"
    iostat = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n 12,31 1,00 3,02 4,90 0,05 78,72\n\nDevice r/s\nnvme1n1 1\n\n"
    assert read_shares(iostat * 2, "iostat", 1) == pytest.approx([0.1633])
    assert read_shares("Device r/s\nnvme1n1 1\n\n" * 2, "iostat", 1) is None


def test_a_workload_keeps_where_and_how_it_was_measured(tmp_path):
    workload = calibrate([load_run(record(tmp_path, truth("innodb"), seconds=600, start="warm"))])
    origin = (LONG, None, "warm", "c5.9xlarge", (VCPUS, VCPUS))
    files.save(workload, tmp_path / "w.toml")
    for each in (workload, files.load_database(tmp_path / "w.toml")):
        assert (each.storage, each.log_storage, each.start, each.instance, each.covered.vcpus) == origin
    standard = headrace.sysbench_tpcc(warehouses=10, cache_gib=1, threads=4)
    assert (standard.storage, standard.start, standard.covered.vcpus) == (None, None, None)


@pytest.mark.parametrize("key", ["storage", "log_storage", "start"])
def test_where_it_was_measured_is_checked(tmp_path, key):
    files.save(headrace.sysbench_tpcc(warehouses=10, cache_gib=1, threads=4), tmp_path / "w.toml")
    text = (tmp_path / "w.toml").read_text()
    for wrong in ("7", "true") + (('"lukewarm"',) if key == "start" else ()):
        (tmp_path / "bad.toml").write_text(text.replace("cache_gib = ", f"{key} = {wrong}\ncache_gib = ", 1))
        with pytest.raises(InputError, match=key):
            files.load(tmp_path / "bad.toml")


def test_far_more_processors_are_said(tmp_path):
    workload = calibrate([load_run(record(tmp_path, truth("innodb"), seconds=600))])

    def list_warnings(vcpus):
        return [
            text
            for text in workload.describe_extrapolation(cache_gib=50, threads=72, vcpus=vcpus)
            if "virtual CPUs" in text
        ]

    assert not list_warnings(None) and not list_warnings(18) and not list_warnings(36) and not list_warnings(72)
    assert list_warnings(16) and list_warnings(96) == [
        "96 virtual CPUs differ by more than a factor of 2 from the 36 of the runs."
    ]
    far = predict(workload, LONG, instance="c5.4xlarge", as_of="2018-08-15", cache_gib=24, seconds=60, draws=0).warnings
    assert any("16 virtual CPUs" in text for text in far)


def test_a_cache_fits_its_instance():
    shop = headrace.sysbench_tpcc(warehouses=100, cache_gib=24, threads=16)
    with pytest.raises(InputError) as caught:
        predict(shop, "gp3:400:6000:250", instance="t3.nano", seconds=10, draws=0)
    error = caught.value
    assert error.value == "cache of 24 GiB" and error.rule == "t3.nano has 0.5 GiB of memory"
    assert "--cache-gib 0.25" in error.hint and error.source == "data/instances.csv"
    # m5.large: 8 GiB. A resource that is said to have room has it.
    room = core.cache_gib_for(8)
    for cache, tight in ((room, False), (7.2, False), (7.3, True), (8.0, True)):
        warnings = predict(shop, "gp3:400", instance="m5.large", cache_gib=cache, seconds=10, draws=0).warnings
        assert any("would swap" in text for text in warnings) == tight, cache
    with pytest.raises(InputError, match=r"8\.001 GiB"):
        predict(shop, "gp3:400", instance="m5.large", cache_gib=8.001, seconds=10, draws=0)
    assert not predict(shop, "gp3:400", cache_gib=500, seconds=10, draws=0).warnings[1:], "volumes alone have no memory"
