"""One load, as fourteen recordings of five tools, gives one workload."""

import importlib.util
import json

import pytest
from places import DATA

from headrace.errors import CouldNotRun, InputError
from headrace.observe.formats import import_file
from headrace.workload import load, save

_spec = importlib.util.spec_from_file_location("make_samples", DATA / "make_samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)

SPLIT = [
    "iostat_12.txt",
    "iostat_11_mb.txt",
    "iostat_10_comma.txt",
    "iostat.json",
    "cloudwatch_data.json",
    "cloudwatch_statistics.json",
    "cloudwatch_console.csv",
    "cloudwatch_long.csv",
    "prometheus_range.json",
]
SAR = ["sar_d.txt", "sadf_d.csv", "sadf.json"]
RATES = [samples.demand(minute) for minute in range(samples.MINUTES)]


def text_of(name):
    return (DATA / name).read_text(encoding="utf-8")


def import_text(tmp_path, text, name="rec.txt", **options):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_file(tmp_path / name, **options)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_samples_are_what_the_script_writes(name):
    assert text_of(name) == samples.SAMPLES[name]()


@pytest.mark.parametrize("name", SPLIT)
def test_formats_that_count_everything(name, tmp_path):
    workload = import_file(DATA / name)
    points = workload.points
    assert points["duration_s"].to_list() == [60.0] * 20
    assert points["reads_per_s"].to_list() == [reads for reads, _ in RATES]
    assert points["writes_per_s"].to_list() == [writes for _, writes in RATES]
    # MB/s are printed to 0.01: half of that, 5.12 KiB/s, over the slowest rate of 800 a second.
    slack = 5.12 / 800 if "mb" in name else 1e-9
    assert points["read_kib"].to_list() == pytest.approx([16.0] * 20, abs=slack)
    assert points["write_kib"].to_list() == pytest.approx([24.0] * 20, abs=slack)
    assert workload.source["clock_start"] == "2025-11-21T10:00:00"
    assert len(workload.source["sha256"]) == 64 and workload.source["period_s"] == 60
    save(workload, tmp_path / "w.toml")
    assert load(tmp_path / "w.toml") == workload


@pytest.mark.parametrize("name", SAR)
def test_sar_keeps_ios_and_bytes(name):
    workload = import_file(DATA / name)
    points = workload.points
    both = (points["reads_per_s"] + points["writes_per_s"]).to_list()
    assert both == pytest.approx([reads + writes for reads, writes in RATES])
    kib = points["reads_per_s"] * points["read_kib"] + points["writes_per_s"] * points["write_kib"]
    assert kib.to_list() == pytest.approx([16 * reads + 24 * writes for reads, writes in RATES])
    assert workload.source["clock_start"] == "2025-11-21T10:00:00"
    assert any("parted by their bytes" in caveat for caveat in workload.caveats)


@pytest.mark.parametrize(("name", "options"), [("vmstat.txt", {"interval_s": 60}), ("vmstat_t.txt", {})])
def test_vmstat_takes_sizes(name, options):
    workload = import_file(DATA / name, read_kib=16, write_kib=24, **options)
    # vmstat sees both devices; the root volume does 3 reads and 2 writes.
    assert workload.points["reads_per_s"].to_list() == pytest.approx([reads + 3 for reads, _ in RATES])
    assert workload.points["writes_per_s"].to_list() == pytest.approx([writes + 2 for _, writes in RATES])
    assert import_file(DATA / name, **options).points["write_kib"].to_list() == pytest.approx([22.0] * 20)
    assert any("since boot" in caveat for caveat in workload.caveats)
    assert ("clock_start" in workload.source) == (name == "vmstat_t.txt")


def test_devices():
    workload = import_file(DATA / "iostat_12.txt")
    assert workload.source["device"] == "nvme1n1" and any("busiest of" in caveat for caveat in workload.caveats)
    both = import_file(DATA / "iostat_12.txt", device="nvme0n1+nvme1n1")
    assert both.points["reads_per_s"].to_list() == [reads + 3 for reads, _ in RATES]
    assert import_file(DATA / "iostat_12.txt", device="nvme0n1").summarize()["peak_iops"] == 5
    for wrong in ("sda", "", "nvme1n1+nvme1n1", "nvme1n1+"):
        with pytest.raises(InputError, match=r"nvme1n1 \(2,642.5 IOPS\)"):
            import_file(DATA / "iostat_12.txt", device=wrong)


def test_even_devices_must_be_named(tmp_path):
    text = text_of("iostat_12.txt")
    lines = []
    for line in text.splitlines():
        if line.startswith("nvme0n1"):
            continue
        lines.append(line)
        if line.startswith("nvme1n1"):
            lines.append(line.replace("nvme1n1", "dm-0   "))
    with pytest.raises(InputError, match="dm-0 .*nvme1n1"):
        import_text(tmp_path, "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda b: b.replace(b"\n", b"\r\n"),
        lambda b: b"\xef\xbb\xbf" + b,
        lambda b: b.decode().encode("utf-16"),
        lambda b: b.rstrip(b"\n"),
    ],
    ids=["crlf", "bom", "utf-16", "no last newline"],
)
@pytest.mark.parametrize("name", [*SPLIT, *SAR, "vmstat_t.txt"])
def test_encodings(tmp_path, name, wrap):
    changed = import_text(tmp_path, wrap((DATA / name).read_bytes()), name)
    assert changed.points.equals(import_file(DATA / name).points)


def test_comma_and_point_are_the_same(tmp_path):
    pointed = import_text(tmp_path, text_of("iostat_10_comma.txt").replace(",", "."))
    assert pointed.points.equals(import_file(DATA / "iostat_10_comma.txt").points)


def test_idle_device_left_out_by_z(tmp_path):
    lines = text_of("iostat_12.txt").splitlines(keepends=True)
    rows = [at for at, line in enumerate(lines) if line.startswith("nvme1n1")]
    del lines[rows[5]]
    workload = import_text(tmp_path, "".join(lines))
    assert workload.points["reads_per_s"][4] == 0 and workload.points["reads_per_s"][5] == RATES[5][0]
    assert any("taken as idle" in caveat for caveat in workload.caveats)


def test_last_report_without_the_device_is_dropped(tmp_path):
    text = text_of("iostat_12.txt")
    workload = import_text(tmp_path, text[: text.rindex("nvme1n1")])
    assert workload.points.height == 19 and any("last report was left out" in caveat for caveat in workload.caveats)


def test_iostat_restart_with_times(tmp_path):
    """The mean since boot of the second start is left out, and the time between is a gap."""
    text = text_of("iostat_12.txt")
    banner, blocks = text.split("\n\n", 1)[0], text.split("\n\n", 1)[1].split("\n\n\n")
    joined = banner + "\n\n" + "\n\n\n".join(blocks[:12]) + "\n\n" + banner + "\n\n" + "\n\n\n".join(blocks[12:])
    workload = import_text(tmp_path, joined)
    assert workload.points.height == 20
    assert workload.points["reads_per_s"][11] == RATES[10][0]  # held
    assert any("started again 1 times" in caveat for caveat in workload.caveats)
    assert any("1 of 20 intervals are missing" in caveat for caveat in workload.caveats)


def test_gaps(tmp_path):
    text = text_of("sadf_d.csv")
    lines = text.splitlines(keepends=True)

    def without(minutes):
        return "".join(line for line in lines if not any(f" 10:{minute + 1:02d}:00" in line for minute in minutes))

    state = import_text(tmp_path, without([4, 5]))
    assert state.points.height == 20 and state.points["reads_per_s"][5] == state.points["reads_per_s"][3]
    assert any("10.0 %" in caveat and "120 s" in caveat for caveat in state.caveats)
    with pytest.raises(InputError, match="15 % of the recording") as caught:
        import_text(tmp_path, without([4, 5, 6]))
    assert "line 10" in caught.value.value and "--gaps" in caught.value.hint
    zeros = import_text(tmp_path, without([4, 5, 6]), gaps="zero")
    assert zeros.points["reads_per_s"][3:8].to_list()[1:4] == [0, 0, 0]
    assert import_text(tmp_path, without([4, 5, 6]), gaps="hold").points["writes_per_s"][6] > 0


def test_slow_drift_makes_no_gap(tmp_path):
    """A tool that wakes 20 ms late each second skips a printed second now and then: 2 % held, no
    refusal.
    """
    head, rows = text_of("vmstat_t.txt").splitlines()[:2], []
    for tick in range(101):
        second = int(tick * 1.02)
        clock = f"2025-11-21 10:{second // 60:02d}:{second % 60:02d}"
        rows.append(f" 1 14      0 304624   3004 29272436    0    0 16000 24000 17479 28507  5  5 15 75  0 {clock}")
    workload = import_text(tmp_path, "\n".join(head + rows) + "\n")
    assert workload.points["duration_s"].unique().to_list() == [1.0] and 100 <= workload.points.height <= 103


def test_day_and_month_order(tmp_path):
    text = text_of("iostat_12.txt")
    assert import_text(tmp_path, text.replace("11/21/25", "21/11/25")).source["clock_start"] == "2025-11-21T10:00:00"
    doubtful = import_text(tmp_path, text.replace("11/21/25", "03/04/25"))
    assert doubtful.source["clock_start"] == "2025-03-04T10:00:00" and any(
        "month/day" in caveat for caveat in doubtful.caveats
    )
    assert import_text(tmp_path, text.replace("11/21/25", "03.04.2025")).source["clock_start"] == "2025-04-03T10:00:00"


def test_night_passes_midnight(tmp_path):
    """sar prints times only: 11:59 PM is followed by 12:00 AM of the next day."""
    text = text_of("sar_d.txt")
    for minute in range(20, -1, -1):
        late = 23 * 60 + 50 + minute
        hour, rest = divmod(late % 1440, 60)
        clock = f"{(hour + 11) % 12 + 1:02d}:{rest:02d}:00 {'PM' if hour >= 12 else 'AM'}"
        text = text.replace(f"10:{minute:02d}:00 AM", clock)
    workload = import_text(tmp_path, text)
    assert workload.source["clock_start"] == "2025-11-21T23:50:00" and workload.points.height == 20


def test_sar_restart_line(tmp_path):
    text = text_of("sar_d.txt")
    at = text.index("10:11:00 AM")
    header = text.splitlines()[2].replace("10:00:00", "10:10:31")
    text = f"{text[:at]}\n10:10:30 AM  LINUX RESTART\t(8 CPU)\n\n{header}\n{text[at:]}"
    workload = import_text(tmp_path, text)
    assert workload.points.height == 20 and any("restarted" in caveat for caveat in workload.caveats)


def test_start_name_and_interval(tmp_path):
    workload = import_file(DATA / "vmstat.txt", interval_s=60, start="2025-11-21T10:00:00+01:00", name="mine")
    assert workload.source["clock_start"] == "2025-11-21T10:00:00" and workload.name == "mine"
    for options in (
        {},
        {"interval_s": 0.5},
        {"interval_s": 4000},
        {"interval_s": float("nan")},
        {"interval_s": 60, "start": "yesterday"},
    ):
        with pytest.raises(InputError):
            import_file(DATA / "vmstat.txt", **options)
    with pytest.raises(InputError, match="reports are 60 s apart"):
        import_file(DATA / "iostat_12.txt", interval_s=1)


def test_cloudwatch_pages_and_volumes(tmp_path):
    document = json.loads(text_of("cloudwatch_data.json"))
    first, second = json.loads(json.dumps(document)), json.loads(json.dumps(document))
    for result in first["MetricDataResults"]:
        result["Timestamps"], result["Values"] = result["Timestamps"][:10], result["Values"][:10]
    for result in second["MetricDataResults"]:
        result["Timestamps"], result["Values"] = result["Timestamps"][10:], result["Values"][10:]
    first["NextToken"] = "abc"
    whole = import_text(tmp_path, json.dumps(first) + "\n" + json.dumps(second))
    assert whole.points.equals(import_file(DATA / "cloudwatch_data.json").points)
    with pytest.raises(InputError, match="cut off"):
        import_text(tmp_path, json.dumps(first))
    two = {"MetricDataResults": []}
    for volume in ("vol-0aaaaaaaaaaaaaaaa", "vol-0bbbbbbbbbbbbbbbb"):
        two["MetricDataResults"] += [r | {"Label": f"{volume} {r['Label']}"} for r in document["MetricDataResults"]]
    with pytest.raises(InputError, match="Name one"):
        import_text(tmp_path, json.dumps(two))
    summed = import_text(tmp_path, json.dumps(two), device="vol-0aaaaaaaaaaaaaaaa+vol-0bbbbbbbbbbbbbbbb")
    assert summed.points["reads_per_s"].to_list() == [2 * reads for reads, _ in RATES]


# --- what stands beside the rates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("iostat_12.txt", {"read_await_ms": 0.51, "write_await_ms": 0.72, "queue": 1.8, "util_percent": 88.4}),
        ("iostat_11_mb.txt", {"read_await_ms": 0.5, "write_await_ms": 0.7, "queue": 1.8, "util_percent": 88.4}),
        ("iostat_10_comma.txt", {"await_ms": 0.6, "queue": 1.8, "util_percent": 88.4}),
        ("iostat.json", {"read_await_ms": 0.51, "write_await_ms": 0.72, "queue": 1.8, "util_percent": 88.4}),
        ("sar_d.txt", {"await_ms": 0.6, "queue": 1.8, "util_percent": 88.4}),
        ("sadf_d.csv", {"await_ms": 0.6, "queue": 1.8, "util_percent": 88.4}),
        ("sadf.json", {"await_ms": 0.6, "util_percent": 88.4}),
        (
            "prometheus_range.json",
            {"read_await_ms": 0.51, "write_await_ms": 0.72, "queue": 1.8, "util_percent": 88.4},
        ),
        ("cloudwatch_data.json", {}),
        ("vmstat_t.txt", {}),
    ],
)
def test_what_stands_beside_the_rates_is_kept(name, columns):
    points = import_file(DATA / name).points
    assert points.columns[6:] == list(columns)
    for column, value in columns.items():
        # Counters of Prometheus are rounded to a millisecond here: over 60 s of 800 writes and more, that is below 1e-4 ms.
        assert points[column].to_list() == pytest.approx([value] * 20, abs=1e-4 if "prometheus" in name else 0)
    latency = import_file(DATA / name).find_recorded_latency()
    assert (latency is None) == (not columns)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("iostat_12.txt", "local, not stated"),
        ("iostat.json", "UTC"),
        ("sar_d.txt", "local, not stated"),
        ("sadf_d.csv", "UTC"),
        ("sadf.json", "UTC"),
        ("cloudwatch_data.json", "UTC"),
        ("cloudwatch_console.csv", "UTC"),
        ("prometheus_range.json", "UTC"),
        ("vmstat_t.txt", "local, not stated"),
    ],
)
def test_the_zone_of_the_clock(name, zone):
    own = import_file(DATA / name)
    assert own.clock_zone == zone
    if zone == "UTC":
        with pytest.raises(InputError, match="the file's own times begin at 2025-11-21T10:00:00 UTC"):
            import_file(DATA / name, start="2025-11-21T10:00:00-05:00")
    else:
        zoned = import_file(DATA / name, start="2025-11-21T10:00:00-05:00")
        assert zoned.clock_zone == "UTC-05:00" and zoned.source["clock_start"] == own.source["clock_start"]


@pytest.mark.parametrize("start", ["1999-01-01T10:00:00", "2025-11-21T10:05:00", "2025-11-21T09:00:00+01:00"])
def test_a_clock_start_does_not_contradict_the_times_of_a_file(start):
    with pytest.raises(InputError, match="the file's own times begin at 2025-11-21T10:00:00") as caught:
        import_file(DATA / "iostat_12.txt", start=start)
    assert caught.value.value == f"iostat_12.txt: clock start {start}" and "with the zone" in caught.value.hint


@pytest.mark.parametrize("start", ["2025-11-21T10:00:00", "2025-11-21T10:01:00"])
def test_a_clock_start_may_repeat_the_begin_of_a_file_or_its_first_report(start):
    assert import_file(DATA / "iostat_12.txt", start=start) == import_file(DATA / "iostat_12.txt")


def test_an_array_is_one_device(tmp_path):
    """Rates and queues add up, latency is that of the mean I/O, utilisation that of the busiest
    member.
    """
    text = text_of("iostat_12.txt").replace("    0.51    16.00    3.00", "    9.00    16.00    3.00")
    lines = [
        line.replace("   0.51 ", "   9.00 ").replace("  1.80  88.40", "  0.20  99.00")
        if line.startswith("nvme0n1")
        else line
        for line in text.split("\n")
    ]
    both = import_text(tmp_path, "\n".join(lines), device="nvme0n1+/dev/nvme1n1")
    first = both.points.row(0, named=True)
    assert both.source["device"] == "nvme0n1+nvme1n1"
    reads = RATES[0][0]
    assert first["read_await_ms"] == pytest.approx((3 * 9.0 + reads * 0.51) / (3 + reads))
    assert first["queue"] == pytest.approx(2.0) and first["util_percent"] == 99.0


def test_gaps_hold_rates_not_latencies(tmp_path):
    lines = text_of("sadf_d.csv").splitlines(keepends=True)
    text = "".join(line for line in lines if " 10:05:00" not in line)
    for gaps in ("hold", "zero"):
        points = import_text(tmp_path, text, gaps=gaps).points
        assert points["await_ms"].to_list() == [0.6] * 4 + [None] + [0.6] * 15


def test_absurd_figures_beside_the_rates_are_left_out(tmp_path):
    text = text_of("iostat_12.txt").replace("1.80  88.40", "99999999 4300.00", 5)
    workload = import_text(tmp_path, text)
    assert workload.points["queue"].null_count() > 0 and workload.points["util_percent"].null_count() > 0
    assert sum("beyond what a device can do" in caveat for caveat in workload.caveats) == 1
    assert (
        import_text(tmp_path, text_of("iostat_12.txt").replace("88.40", "100.20")).points["util_percent"].max() == 100
    )


def test_devices_by_path():
    assert import_file(DATA / "iostat_12.txt", device="/dev/nvme1n1").source["device"] == "nvme1n1"
    with pytest.raises(InputError, match="/dev/sdz"):
        import_file(DATA / "iostat_12.txt", device="/dev/sdz")
    with pytest.raises(InputError, match="twice"):
        import_file(DATA / "iostat_12.txt", device="/dev/nvme1n1+nvme1n1")


def test_standard_input(monkeypatch):
    with (DATA / "iostat_12.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        piped = import_file("-")
    assert piped.points.equals(import_file(DATA / "iostat_12.txt").points) and piped.name == "standard input"
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CouldNotRun, match="standard input"):
        import_file("-")


BESIDE = {
    "VolumeQueueLength": 3.5,
    "VolumeTotalReadTime": 45.0,
    "VolumeTotalWriteTime": 96.0,
    "VolumeIdleTime": 15.0,
    "BurstBalance": 62.5,
}


def with_metrics(values):
    document = json.loads(text_of("cloudwatch_data.json"))
    times = document["MetricDataResults"][0]["Timestamps"]
    for metric, value in values.items():
        result = {
            "Id": metric.lower(),
            "Label": metric,
            "Timestamps": times,
            "Values": [value] * len(times),
            "StatusCode": "Complete",
        }
        document["MetricDataResults"].append(result)
    return document


def test_cloudwatch_queue_times_and_balance(tmp_path):
    points = import_text(tmp_path, json.dumps(with_metrics(BESIDE))).points
    assert points.columns[6:] == ["read_await_ms", "write_await_ms", "queue", "util_percent", "balance_percent"]
    assert points["read_await_ms"].to_list() == pytest.approx([45.0 / (60 * reads) * 1_000 for reads, _ in RATES])
    assert points["write_await_ms"].to_list() == pytest.approx([96.0 / (60 * writes) * 1_000 for _, writes in RATES])
    assert (
        set(points["queue"]) == {3.5}
        and set(points["util_percent"]) == {75.0}
        and set(points["balance_percent"]) == {62.5}
    )
    # Every five minutes beside every minute: not used, and said.
    document = with_metrics({"BurstBalance": 50.0})
    last = document["MetricDataResults"][-1]
    last["Timestamps"], last["Values"] = last["Timestamps"][::5], last["Values"][::5]
    workload = import_text(tmp_path, json.dumps(document))
    assert workload.points.width == 6 and any("BurstBalance, every 300 s" in caveat for caveat in workload.caveats)


RDS_METRICS = {
    "ReadIOPS": (0, 1),
    "WriteIOPS": (1, 1),
    "ReadThroughput": (0, 16 * 1024),
    "WriteThroughput": (1, 24 * 1024),
}


def rds(kind):
    """Returns the load as RDS reports it, every 60 s: I/Os and bytes a second, latencies in
    seconds."""
    values = {metric: [rates[at] * factor for rates in RATES] for metric, (at, factor) in RDS_METRICS.items()}
    values |= {"ReadLatency": [0.0005] * 20, "WriteLatency": [0.0012] * 20, "DiskQueueDepth": [2.25] * 20}
    times = [f"2025-11-21T10:{minute:02d}:00Z" for minute in range(20)]
    if kind == "json":
        results = [
            {"Id": f"m{i}", "Label": m, "Timestamps": times, "Values": v} for i, (m, v) in enumerate(values.items())
        ]
        return json.dumps({"MetricDataResults": results})
    if kind == "statistics":
        units = {
            "ReadIOPS": "Count/Second",
            "ReadThroughput": "Bytes/Second",
            "ReadLatency": "Seconds",
            "DiskQueueDepth": "Count",
        }
        documents = []
        for metric, figures in values.items():
            points = [
                {"Timestamp": time, "Average": value, "Unit": units.get(metric, "None")}
                for time, value in zip(times, figures, strict=True)
            ]
            documents.append(json.dumps({"Label": metric, "Datapoints": points}))
        return "\n".join(documents)
    if kind == "long":
        rows = [
            f"{metric},{time},{value}"
            for metric, figures in values.items()
            for time, value in zip(times, figures, strict=True)
        ]
        return "metric,timestamp,value\n" + "\n".join(rows) + "\n"
    head = "Label," + ",".join(values) + "\nStatistic" + ",Average" * 7 + "\nPeriod" + ",60" * 7 + "\n"
    return head + "".join(
        f"{time}," + ",".join(str(v[at]) for v in values.values()) + "\n" for at, time in enumerate(times)
    )


@pytest.mark.parametrize("kind", ["json", "statistics", "long", "console"])
def test_rds_metrics(tmp_path, kind):
    workload = import_text(tmp_path, rds(kind))
    points = workload.points
    assert points["reads_per_s"].to_list() == [reads for reads, _ in RATES]
    assert points["writes_per_s"].to_list() == [writes for _, writes in RATES]
    assert points["read_kib"].to_list() == pytest.approx([16.0] * 20) and points[
        "write_kib"
    ].to_list() == pytest.approx([24.0] * 20)
    assert points["read_await_ms"].to_list() == pytest.approx([0.5] * 20) and points["queue"].to_list() == [2.25] * 20
    assert workload.source["tool"] == "CloudWatch of RDS" and workload.clock_zone == "UTC"
    assert workload.source["clock_start"] == "2025-11-21T10:00:00" and any(
        "averages" in caveat for caveat in workload.caveats
    )


def test_rds_mistakes(tmp_path):
    with pytest.raises(InputError, match="WriteThroughput of database"):
        import_text(tmp_path, rds("long").replace("WriteThroughput", "NetworkThroughput"))
    with pytest.raises(InputError, match="statistic Sum of ReadIOPS"):
        import_text(tmp_path, rds("console").replace("Statistic,Average", "Statistic,Sum"))
    with pytest.raises(InputError, match="Average is needed"):
        import_text(tmp_path, rds("statistics").replace("Average", "Maximum"))
    with pytest.raises(InputError, match="EBS and of RDS"):
        import_text(tmp_path, rds("long") + text_of("cloudwatch_long.csv").split("\n", 1)[1])
    # Aurora bills I/Os of its cluster under a like name; they are of no volume.
    with pytest.raises(InputError, match="missing"):
        import_text(tmp_path, rds("json").replace("ReadIOPS", "VolumeReadIOPs"))


def test_cloudwatch_hourly_is_taken_with_a_caveat(tmp_path):
    text = text_of("cloudwatch_long.csv")
    for minute in range(20):
        text = text.replace(f"T10:{minute:02d}:00Z", f"T{minute:02d}-00:00Z")
    text = text.replace("-00:00Z", ":00:00Z")
    assert any("bursts shorter" in caveat for caveat in import_text(tmp_path, text).caveats)
