"""Counters of node_exporter and mysqld_exporter in answers of Prometheus: every form, resets, gaps, several hosts, and what is
refused."""

from __future__ import annotations

import json

import pytest
from places import DATA

from headrace.errors import InputError
from headrace.observe.formats import import_file, load_recording

START = 1_763_719_200.0  # 2025-11-21 10:00 UTC, as the sample
NAMES = {
    "reads": "node_disk_reads_completed_total",
    "writes": "node_disk_writes_completed_total",
    "read_bytes": "node_disk_read_bytes_total",
    "written_bytes": "node_disk_written_bytes_total",
}


def series(name: str, levels, step: float = 60.0, times=None, **labels: str) -> dict:
    """A result of a range query; its first sample is at START."""
    times = [START + step * number for number in range(len(levels))] if times is None else times
    labels = {"instance": "db1:9100", "job": "node", "device": "nvme1n1"} | labels
    labels = {key: value for key, value in labels.items() if value}
    values = [[at, f"{level:.15g}"] for at, level in zip(times, levels, strict=True)]
    return {"metric": {"__name__": name} | labels, "values": values}


def disk(count: int = 21, per_s: float = 100.0, step: float = 60.0, **more) -> list[dict]:
    """The four counters of a disk: so many reads a second, half as many writes, of 16 KiB each."""
    rates = {"reads": per_s, "writes": per_s / 2, "read_bytes": 16_384 * per_s, "written_bytes": 8_192 * per_s}
    return [
        series(NAMES[figure], [1e6 + rate * step * number for number in range(count)], step, **more)
        for figure, rate in rates.items()
    ]


def body(results: list[dict]) -> dict:
    return {"status": "success", "data": {"resultType": "matrix", "result": results}}


@pytest.fixture
def read(tmp_path):
    """Imports a document, or a text."""

    def load(document, **options):
        path = tmp_path / "answer.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return import_file(path, **options)

    return load


# --- forms ----------------------------------------------------------------------------------------


def forms() -> dict[str, str]:
    """The sample as other tools write it."""
    results = json.loads((DATA / "prometheus_range.json").read_text())["data"]["result"]
    first, second = body(results[:9]), body(results[9:])
    half = [{"metric": result["metric"], "values": result["values"][:11]} for result in results]
    rest = [{"metric": result["metric"], "values": result["values"][10:]} for result in results]
    lines = [
        {
            "metric": result["metric"],
            "values": [float(value) for _, value in result["values"]],
            "timestamps": [int(at * 1000) for at, _ in result["values"]],
        }
        for result in results
    ]
    return {
        "a list of answers": json.dumps([first, second]),
        "answers one behind the other": f"{json.dumps(first)}\n{json.dumps(second)}\n",
        "slices of time that share a sample": json.dumps([body(half), body(rest)]),
        "promtool query range -o json": json.dumps(results),
        "data alone": json.dumps(first["data"] | {"result": results}),
        "VictoriaMetrics' export, as PMM has it": "".join(json.dumps(line) + "\n" for line in lines),
    }


@pytest.mark.parametrize("name", forms())
def test_every_form_gives_the_same_points(read, name):
    assert read(forms()[name]).points.equals(import_file(DATA / "prometheus_range.json").points)


def test_names_of_exporters_before_2018(read):
    """Bytes and times had other names, and times other units."""
    older = {
        "node_disk_reads_completed": [6_000.0 * n for n in range(11)],
        "node_disk_writes_completed": [3_000.0 * n for n in range(11)],
        "node_disk_bytes_read": [6_000 * 16_384.0 * n for n in range(11)],
        "node_disk_bytes_written": [3_000 * 16_384.0 * n for n in range(11)],
        "node_disk_read_time_ms": [6_000 * 0.8 * n for n in range(11)],
    }
    points = read(body([series(name, levels) for name, levels in older.items()])).points
    assert points["reads_per_s"].to_list() == [100.0] * 10 and points["read_kib"].to_list() == [16.0] * 10
    assert points["read_await_ms"].to_list() == pytest.approx([0.8] * 10)


# --- counters -------------------------------------------------------------------------------------


def test_a_reset_costs_its_interval(read):
    """A host that starts again counts from zero: no rate is made of the fall, nor of what came after it."""
    results = disk()
    for result in results:
        for pair in result["values"][11:]:
            pair[1] = f"{float(pair[1]) - float(result['values'][10][1]):.15g}"
    workload = read(body(results))
    assert workload.points["reads_per_s"].to_list() == pytest.approx([100.0] * 20)
    assert any("began anew 1 times" in text for text in workload.caveats)
    assert any("1 of 20 intervals are missing" in text for text in workload.caveats)


def test_one_missing_sample_costs_the_grain_and_more_are_a_gap(read):
    results = disk()
    for result in results:
        del result["values"][5]
    workload = read(body(results))
    assert workload.points["reads_per_s"].to_list() == pytest.approx([100.0] * 20) and workload.points.height == 20
    assert not any("missing" in text for text in workload.caveats)
    for row in results:
        del row["values"][8:12]
    with pytest.raises(InputError, match="of the recording in all is missing") as caught:
        read(body(results))
    assert "--gaps hold" in caught.value.hint and "2025-11-21" in caught.value.value
    assert read(body(results), gaps="zero").points["reads_per_s"].to_list().count(0.0) == 5


def test_scrapes_that_come_early_and_late_lose_nothing(read):
    """Samples up to 3 s early: the grid is even, and a steady rate stays what it is."""
    results = disk()
    for result in results:
        rate = (float(result["values"][1][1]) - float(result["values"][0][1])) / 60
        for number, pair in enumerate(result["values"][1:-1], 1):
            late = number % 3 - 3
            pair[0] += late
            pair[1] = f"{float(pair[1]) + late * rate:.15g}"
    points = read(body(results)).points
    assert points["reads_per_s"].to_list() == pytest.approx([100.0] * 20)


def test_a_second_exporter_of_a_host_is_left_out(read):
    """PMM scrapes at three resolutions, and pairs of Prometheus both: counted once."""
    coarse = disk(11, step=120.0, job="node_lr")
    workload = read(body(coarse + disk(21, job="node_hr")))
    assert workload.source["period_s"] == 60 and workload.points["reads_per_s"].to_list() == pytest.approx([100.0] * 20)
    assert any("counted by 2 exporters" in text for text in workload.caveats)


# --- hosts and devices ----------------------------------------------------------------------------


def test_several_hosts_are_told_apart_and_one_is_named(read):
    results = disk() + disk(per_s=120.0, instance="db2:9100")
    with pytest.raises(InputError, match="none does clearly more") as caught:
        read(body(results))
    assert "db1:9100/nvme1n1 (150.0 IOPS)" in caught.value.hint and "db2:9100/nvme1n1" in caught.value.hint
    chosen = read(body(results), device="db2:9100/nvme1n1")
    assert chosen.points["reads_per_s"].to_list() == pytest.approx([120.0] * 20)


def test_a_disk_that_was_not_there_is_not_idle(read):
    """Attached after ten minutes: its recording begins there. iostat -z leaves out what is idle, Prometheus does not."""
    late = disk(11, per_s=500.0, device="nvme2n1", times=[START + 60.0 * n for n in range(10, 21)])
    workload = read(body(disk() + late), device="nvme2n1")
    assert workload.points.height == 10 and workload.source["clock_start"] == "2025-11-21T10:10:00"


def test_the_volume_behind_a_device_is_known_by_its_serial(tmp_path):
    info = series("node_disk_info", [], serial="vol0123456789abcdef0", major="259")
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(body([*disk(), info])))
    described = load_recording(path).readings.described
    assert described["nvme1n1"].id == "vol-0123456789abcdef0"


# --- server and processors ------------------------------------------------------------------------


def mysql(name: str, levels, **labels: str) -> dict:
    return series(f"mysql_global_status_{name}", levels, instance="db1:9104", job="mysql", device="", **labels)


def test_innodb_alone_is_a_device_with_a_caveat(read):
    grown = {"innodb_data_reads": 6_000, "innodb_data_writes": 3_000, "innodb_data_read": 6_000 * 16_384}
    grown["innodb_data_written"] = 3_000 * 16_384
    workload = read(body([mysql(name, [step * n for n in range(11)]) for name, step in grown.items()]))
    assert workload.source["device"] == "innodb" and workload.points["reads_per_s"].to_list() == [100.0] * 10
    assert any("not those of a disk" in text for text in workload.caveats)


def test_the_status_has_its_names_of_show_global_status(tmp_path):
    """mysqld_exporter parts some names into a metric and a label (collector/global_status.go)."""
    status = [
        mysql("commands_total", [10.0 * n for n in range(21)], command="commit"),
        mysql("buffer_pool_pages", [900.0] * 21, state="data"),
        mysql("buffer_pool_pages", [90.0] * 21, state="free"),
        mysql("buffer_pool_pages", [10.0] * 21, state="misc"),
        mysql("buffer_pool_dirty_pages", [50.0] * 21),
        mysql("threads_running", [4.0] * 21),
    ]
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(body(disk() + status)))
    samples = load_recording(path).readings.server
    assert len(samples) == 21 and samples[3].t_unix == START + 180
    assert samples[3].values == {
        "com_commit": 30.0,
        "innodb_buffer_pool_pages_data": 900.0,
        "innodb_buffer_pool_pages_free": 90.0,
        "innodb_buffer_pool_pages_misc": 10.0,
        "innodb_buffer_pool_pages_total": 1000.0,
        "innodb_buffer_pool_pages_dirty": 50.0,
        "threads_running": 4.0,
    }


def test_processors_are_counted_by_mode(tmp_path):
    """Two processors: one idle all the time, one at work for a quarter of it."""
    cpus = [
        series("node_cpu_seconds_total", [60.0 * n for n in range(21)], device="", cpu="0", mode="idle"),
        series("node_cpu_seconds_total", [45.0 * n for n in range(21)], device="", cpu="1", mode="idle"),
        series("node_cpu_seconds_total", [15.0 * n for n in range(21)], device="", cpu="1", mode="user"),
    ]
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(body(disk() + cpus)))
    reports = load_recording(path).readings.reports
    assert [report.processors["db1:9100"] for report in reports] == [{"idle": 1.75, "user": 0.25}] * 20


# --- what is refused ------------------------------------------------------------------------------

RATE = {"metric": {"device": "nvme1n1", "instance": "db1:9100"}, "values": [[START, "1.5"], [START + 60, "1.6"]]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (body([RATE]), "has no __name__: rate"),
        (body([]), "no series at all"),
        (body([series("go_goroutines", [1, 2])]), "go_goroutines"),
        (body(disk()[:2]), "node_disk_read_bytes_total, node_disk_written_bytes_total"),
        (body(disk(1)), "a rate needs two|one sample"),
        (
            {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [START, "1"]}]}},
            "a time for each series",
        ),
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "bad_data: parse error"),
        (body([series(NAMES["reads"], [1, 2], times=[1.7e12, 1.7e12 + 6e4])]), "must be seconds since 1970"),
        (body([series(NAMES["reads"], [1, 2], device="")]), "label device|reads, writes"),
        (body([*disk(), series(NAMES["reads"], [7] * 21)]), "was 1e\\+06 at this time"),
        ("[" + json.dumps(body(disk())), "is not JSON"),
        (json.dumps(body(disk()))[:-9], "ends too early"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_place(read, document, message):
    with pytest.raises(InputError, match=message) as caught:
        read(document)
    assert "answer.json" in caught.value.value and caught.value.rule and caught.value.hint


def test_metrics_of_an_exporter_at_one_moment_are_no_recording(read):
    with pytest.raises(InputError, match="at one moment"):
        read("# HELP node_disk_reads_completed_total x\n# TYPE node_disk_reads_completed_total counter\n")
