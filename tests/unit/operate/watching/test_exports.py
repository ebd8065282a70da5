"""Exports: one table of names, and everything written from it is accepted by who reads it."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.base import caps
from headrace.base.credits import CreditsLeft
from headrace.errors import InputError
from headrace.lab import exporter
from headrace.lab.calls import LabTotals, VolumeGauges, VolumeTotals
from headrace.observe.live.nvme import COUNTERS, HISTOGRAMS, NvmePage
from headrace.operate.exports import alerts, grafana, serving
from headrace.operate.exports.lab import build_lab_exposition
from headrace.operate.exports.otlp import OtlpCollector, build_metrics_data
from headrace.operate.exports.prometheus import build_exposition
from headrace.operate.exports.samples import collect_samples
from headrace.operate.exports.table import (
    KINDS,
    group_by_panel,
    read_metrics,
    select_exported_metrics,
    select_lab_metrics,
)
from headrace.operate.watching.following import TOTALS
from headrace.operate.watching.moment import InstanceNow, LiveVerdict, Moment, ReplicaNow, ServerNow, VolumeNow

LEFT = CreditsLeft(1_800.0, None, None, 1.0, 60.0)


def everything(volumes: int = 1) -> Moment:
    """A moment in which every metric has a sample."""
    bins = tuple((16 * n, 16 * n + 16, n) for n in range(56)) + ((896, 2**64 - 1, 3),)
    page = NvmePage("ebs", {name: 10 + n for n, name in enumerate(COUNTERS)}, dict.fromkeys(HISTOGRAMS, bins))
    devices = tuple(
        VolumeNow(
            f"vol-{n:017x}",
            f"db{n}",
            used={"volume-iops": 0.5},
            limits={"volume-iops": 3_000.0, "volume-throughput": 1.25e8},
            balance=0.5,
            time_to_empty=LEFT,
            page=page,
        )
        for n in range(volumes)
    )
    server = ServerNow(
        'mysql://a@"b"\\c', checkpoint_age=0.4, dirty=0.1, running=3.0, io_wait=0.2, totals=dict.fromkeys(TOTALS, 5.0)
    )
    limits = {"instance-iops": 20_000.0, "instance-throughput": 6e8}
    instance = InstanceNow("m5.large", limits, {"ios": 0.9}, {"ios": LEFT})
    binds = LiveVerdict("binds", "volume-iops", "db0", "x")
    return Moment("lab:db", 0.0, 1.0, (binds,), devices, instance, server, (ReplicaNow("", 4.0, True, True),))


def test_every_metric_of_the_table_has_samples_and_no_other():
    samples_by_name = collect_samples([everything()])
    assert list(samples_by_name) == list(select_exported_metrics())
    assert [name for name, samples in samples_by_name.items() if not samples] == []
    for name, samples in samples_by_name.items():
        assert all(len(sample.labels) == len(select_exported_metrics()[name].labels) for sample in samples)


def test_the_table_is_well_formed():
    for name, metric in read_metrics().items():
        assert metric.kind in KINDS and metric.source and re.fullmatch(r"\d{4}-\d\d-\d\d", metric.date)
        assert re.fullmatch(r"(aws_ebs_csi|headrace)_[a-z0-9_]+", name) and metric.help.endswith(".")
        assert (metric.kind == "counter") == name.endswith("_total")
        assert metric.unit in ("", "bytes", "seconds", "ratio")
        for unit in ("seconds", "ratio"):
            assert (metric.unit == unit) == (re.search(rf"_{unit}(_total)?$", name) is not None), name


def lab_totals() -> LabTotals:
    """An answer of the daemon: an array with a member, and of another volume present values
    alone."""
    bounds = [0.000016, 0.000384, 67.108864]
    times = {"counts": [3, 6, 9, 12], "sum_s": 600.9}

    def counters(member: int | None) -> VolumeTotals:
        row = dict.fromkeys(VolumeTotals.__annotations__, 2.0) | {"volume": "vol-a", "member": member, "reads": 2**40}
        row |= {"waiting_s": {"volume-iops": 3e-9, "degraded": 0.5}}
        return cast("VolumeTotals", row | dict.fromkeys(("read_latency", "write_latency", "late"), times))

    return {
        "bounds_s": bounds,
        "volumes": [counters(None), counters(1)],
        "attached": [
            {"volume": "vol-a", "queue_length": 9, "balance": 0.25},
            {"volume": 'a\\b"c\nd', "queue_length": 0, "balance": None},
        ],
        "instance_balance": {"ios": 0.5},
        "rows_dropped": 4,
    }


def test_every_figure_of_the_daemon_is_a_metric_of_the_table():
    figures = {*VolumeTotals.__annotations__, *VolumeGauges.__annotations__, *LabTotals.__annotations__}
    fields = [metric.field for metric in select_lab_metrics().values()]
    assert sorted(fields) == sorted(figures - {"volume", "member", "volumes", "attached", "bounds_s"})
    assert not any(metric.field for metric in read_metrics().values() if metric.by == "export")


def test_the_text_of_a_lab_says_what_the_daemon_counted():
    text = build_lab_exposition(lab_totals())
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name, metric in select_lab_metrics().items():
        family = families.pop(name.removesuffix("_total") if metric.kind == "counter" else name)
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        volumes = [sample.labels["volume_id"] for sample in family.samples if "volume_id" in sample.labels]
        assert family.samples and (metric.of == "volume") == (len(volumes) == len(family.samples))
    assert families == {}
    values = {name: float(value) for name, value in samples(text).items()}
    bucket = "aws_ebs_csi_read_io_latency_seconds_bucket"
    for name, value in {
        'aws_ebs_csi_read_ops_total{volume_id="vol-a"}': 2.0**40,
        'headrace_errors_total{member="1",volume_id="vol-a"}': 2.0,
        'headrace_waiting_seconds_total{cap="volume-iops",volume_id="vol-a"}': 3e-9,
        'headrace_waiting_seconds_total{cap="degraded",member="1",volume_id="vol-a"}': 0.5,
        f'{bucket}{{le="0.000016",volume_id="vol-a"}}': 3.0,
        f'{bucket}{{le="67.108864",member="1",volume_id="vol-a"}}': 9.0,
        f'{bucket}{{le="+Inf",volume_id="vol-a"}}': 12.0,
        'headrace_late_seconds_count{volume_id="vol-a"}': 12.0,
        'headrace_late_seconds_sum{volume_id="vol-a"}': 600.9,
        'aws_ebs_csi_volume_queue_length{volume_id="a\\\\b\\"c\\nd"}': 0.0,
        'headrace_volume_balance_ratio{volume_id="vol-a"}': 0.25,
        'headrace_instance_balance_ratio{credits="ios"}': 0.5,
        "headrace_metrics_rows_dropped_total": 4.0,
    }.items():
        assert values[name] == value, name
    assert sum(name.startswith("headrace_volume_balance_ratio") for name in values) == 1, "none without credits"


def samples(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def test_the_exposition_says_what_the_moment_says():
    values = samples(build_exposition([everything(2), everything(2)]))
    volume = 'volume_id="vol-00000000000000000"'
    assert values[f"aws_ebs_csi_read_ops_total{{{volume}}}"] == "10.0"
    assert values[f"aws_ebs_csi_exceeded_iops_seconds_total{{{volume}}}"] == "1.6e-05", "microseconds"
    # 0 + 1 + ... + 55 and 3 without a bound; the buckets are cumulative.
    assert values[f'aws_ebs_csi_read_io_latency_seconds_bucket{{le="+Inf",{volume}}}'] == "1543.0"
    assert values[f'aws_ebs_csi_read_io_latency_seconds_bucket{{le="0.000896",{volume}}}'] == "1540.0"
    assert values[f'headrace_verdict{{limit="volume-iops",{volume}}}'] == "1.0"
    assert values[f'headrace_verdict{{limit="volume-throughput",{volume}}}'] == "0.0"
    assert values['headrace_verdict{limit="volume-iops",volume_id="vol-00000000000000001"}'] == "0.0"
    assert values[f'headrace_time_to_empty_seconds{{credits="volume",{volume}}}'] == "1800.0"
    assert values['headrace_server_up{server="mysql://a@\\"b\\"\\\\c"}'] == "1.0"
    limits = [name for name in values if name.startswith("headrace_verdict{") and "0000000001" in name]
    assert len(limits) == len(caps.COUNTED) + 3


def test_a_server_that_is_down_says_only_that():
    down = Moment("m", 0.0, 1.0, (LiveVerdict("fine", None, "", "x"),), server=ServerNow("db", up=False, totals={}))
    assert samples(build_exposition([down])) == {'headrace_server_up{server="db"}': "0.0"}


# `make test` puts it next to the Python of its environment.
PROMTOOL = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess:
    if PROMTOOL is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    return subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True)


def test_promtool_accepts_the_metrics():
    for text in (build_exposition([everything(3)]), build_lab_exposition(lab_totals())):
        done = promtool("check", "metrics", text=text)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert promtool("check", "metrics", text="bad metric{\n").returncode != 0, "it can fail"


# Series, and the alerts that are up at a time: on after the rule's `for`, off 180 s after it ended.
RULE_TESTS = """
rule_files: [rules.yml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - series: 'headrace_verdict{volume_id="vol-1",limit="volume-iops"}'
        values: '0x3 1x3 0x3 1x19 0x40'
      - series: 'headrace_time_to_empty_seconds{volume_id="vol-1",credits="volume"}'
        values: '1e9x19 3000x40'
      - series: 'headrace_checkpoint_age_ratio{server="db"}'
        values: '0.7x19 0.8x40'
      - series: 'headrace_log_waits_total{server="db"}'
        values: '5x60'
      - series: 'headrace_server_up{server="db"}'
        values: '1x60'
    alert_rule_test:
      - {alertname: HeadraceLimitBinds, eval_time: 2m15s, exp_alerts: []}
      - {alertname: HeadraceLimitBinds, eval_time: 4m15s, exp_alerts: [BINDS]}
      - {alertname: HeadraceLimitBinds, eval_time: 10m, exp_alerts: [BINDS]}
      - {alertname: HeadraceLimitBinds, eval_time: 11m30s, exp_alerts: []}
      - {alertname: HeadraceCreditsEnd, eval_time: 5m30s, exp_alerts: []}
      - {alertname: HeadraceCreditsEnd, eval_time: 7m, exp_alerts: [CREDITS]}
      - {alertname: HeadraceCheckpointAge, eval_time: 9m, exp_alerts: []}
      - {alertname: HeadraceCheckpointAge, eval_time: 11m, exp_alerts: [AGE]}
      - {alertname: HeadraceLogBuffer, eval_time: 14m, exp_alerts: []}
      - {alertname: HeadraceServerDown, eval_time: 14m, exp_alerts: []}
"""
EXPECTED = {
    "BINDS": (
        {"severity": "critical", "volume_id": "vol-1", "limit": "volume-iops"},
        "volume-iops of vol-1 binds, and clients feel it.",
        "headrace doctor",
    ),
    "CREDITS": (
        {"severity": "warning", "volume_id": "vol-1", "credits": "volume"},
        "The credits of vol-1 are gone in 50m 0s at this rate.",
        "headrace watch",
    ),
    "AGE": (
        {"severity": "warning", "server": "db"},
        "The redo log of db is 80% full: the server will flush hard.",
        "headrace advise",
    ),
}


def test_promtool_accepts_the_rules_and_they_have_hysteresis(tmp_path):
    (tmp_path / "rules.yml").write_text(alerts.build_rules_file())
    done = promtool("check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0 and f"{len(alerts.alert_rules())} rules found" in done.stdout
    text = RULE_TESTS
    for name, (labels, summary, do) in EXPECTED.items():
        text = text.replace(
            f"[{name}]", json.dumps([{"exp_labels": labels, "exp_annotations": {"summary": summary, "do": do}}])
        )
    (tmp_path / "tests.yml").write_text(text)
    done = promtool("test", "rules", str(tmp_path / "tests.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_name_metrics_of_the_table_only():
    for rule in alerts.alert_rules():
        named = set(re.findall(r"headrace_[a-z0-9_]+|aws_ebs_csi_[a-z0-9_]+", rule.expression))
        assert named and named <= set(select_exported_metrics())
        assert rule.for_s >= 60 and rule.off_s >= 180
    with pytest.raises(KeyError):
        alerts.NAMED.sub(lambda match: read_metrics()[match[1]].name, "{headrace_no_such_metric} > 1")


def test_the_dashboard_has_every_panel_and_names_of_the_table_only():
    dashboard = json.loads(json.dumps(grafana.build_dashboard()))
    assert [panel["title"] for panel in dashboard["panels"]] == list(group_by_panel())
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]}
    assert len(places) == len(dashboard["panels"]) == len({panel["id"] for panel in dashboard["panels"]})
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {
        re.sub(r"_bucket$", "", name)
        for expression in expressions
        for name in re.findall(r"(?:headrace|aws_ebs_csi)_\w+", expression)
    }
    assert (
        {metric.name for panel in group_by_panel().values() for metric in panel}
        <= named
        <= set(select_exported_metrics())
    )
    for key, kind in {
        "uid": str,
        "title": str,
        "schemaVersion": int,
        "panels": list,
        "templating": dict,
        "time": dict,
    }.items():
        assert isinstance(dashboard[key], kind)
    for panel in dashboard["panels"]:
        assert panel["type"] == "timeseries" and panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == [chr(65 + n) for n in range(len(panel["targets"]))]


def unknown_to_grafana(given, taken, place=""):
    """Returns the places at which something is not in the types of Grafana, or is another value
    there."""
    if isinstance(given, dict) and isinstance(taken, dict):
        for key, value in given.items():
            at = f"{place}.{key}"
            yield from unknown_to_grafana(value, taken[key], at) if key in taken else [at]
    elif isinstance(given, list) and isinstance(taken, list) and len(given) == len(taken):
        for number, pair in enumerate(zip(given, taken, strict=True)):
            yield from unknown_to_grafana(*pair, f"{place}[{number}]")
    elif given != taken:
        yield place


def test_the_dashboard_is_of_grafanas_schema():
    """Read into the types that Grafana generates from its schema, and written again: nothing is lost."""
    models = pytest.importorskip(
        "grafana_foundation_sdk.models.dashboard", reason="grafana-foundation-sdk is not installed (extra `test`)"
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models import prometheus, timeseries

    register_default_plugins()

    def unknown(document):
        read = models.Dashboard.from_json(document)
        assert {type(panel.options) for panel in read.panels} == {timeseries.Options}
        assert {type(target) for panel in read.panels for target in panel.targets} == {prometheus.Dataquery}
        return list(unknown_to_grafana(document, json.loads(JSONEncoder(sort_keys=True).encode(read))))

    dashboard = json.loads(json.dumps(grafana.build_dashboard()))
    assert unknown(dashboard) == []
    dashboard["panels"][0]["gridPos"]["width"] = dashboard["refreshed"] = 1
    assert sorted(unknown(dashboard)) == [".panels[0].gridPos.width", ".refreshed"], "it can fail"


def test_prometheus_parses_every_expression_of_the_dashboard(tmp_path):
    """The expressions are parsed by promtool as alert expressions; Grafana's own variables are
    filled in."""
    panels = cast("list[dict]", grafana.build_dashboard()["panels"])
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = "groups:\n  - name: g\n    rules:\n"
    for number, expression in enumerate(expressions):
        filled = expression.replace("$__rate_interval", "1m").replace("$volume_id", ".*")
        rules += f"      - alert: A{number}\n        expr: {json.dumps(filled)}\n"
    (tmp_path / "rules.yml").write_text(rules)
    done = promtool("check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


# --- served -------------------------------------------------------------------------------------------------------


def test_fifty_volumes_are_scraped_at_once(record_property):
    """The text is written ahead: a scrape sends what is there (O9: p99 at most 20 ms; the figure is
    in the report, times are not asserted)."""
    written = serving.ExpositionText(lambda: build_exposition([everything(50)]))
    socket = serving.open_listener("127.0.0.1:0")
    urls: list[str] = []
    threading.Thread(target=exporter.serve, args=(socket, written.text, urls.append), daemon=True).start()
    took, body = [], ""
    while not urls:
        time.sleep(0.01)
    for _ in range(100):
        began = time.perf_counter()
        with urllib.request.urlopen(urls[0], timeout=10) as answer:
            body = answer.read().decode()
        took.append(1e3 * (time.perf_counter() - began))
    assert body == written.text() and len({line for line in body.splitlines() if "read_ops_total{" in line}) == 50
    record_property("scrape_p99_ms", statistics.quantiles(took, n=100)[98])


@pytest.mark.parametrize("listen", ["0.0.0.0:9481", "9481", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "[::]:1"])
def test_only_this_machine_is_served(listen):
    with pytest.raises(InputError):
        serving.open_listener(listen)


def test_targets_that_do_not_go_on_are_refused(tmp_path):
    from headrace.operate.targets import SourceOptions

    for targets in ([str(tmp_path)], ["lab:db", "lab:db"]):
        with pytest.raises(InputError):
            serving.Targets(targets, SourceOptions())


def test_figures_of_five_minutes_stay_until_the_next_ones_are_late(monkeypatch):
    from headrace.operate.targets import SourceOptions

    now = [0.0]
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: now[0]))
    targets = serving.Targets(["aws:vol-1"], SourceOptions())
    moment = Moment("aws:vol-1", 0.0, 300.0, (LiveVerdict("fine", None, "", "x"),))
    targets._newest["aws:vol-1"] = (0.0, moment)
    for now[0], listed in ((360.0, [moment]), (601.0, [])):
        assert targets.list_moments() == listed


class OtlpReceiver(BaseHTTPRequestHandler):
    """A collector: keeps bodies, unpacked."""

    got: list[bytes]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format, *_):
        """Quiet."""


def test_otlp_carries_the_same_names_and_values():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otlp` is not installed")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    kind = type("Kind", (OtlpReceiver,), {"got": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert OtlpCollector(f"http://127.0.0.1:{server.server_address[1]}/v1/metrics").send([everything()])
    finally:
        server.shutdown()
        server.server_close()
    request = ExportMetricsServiceRequest.FromString(kind.got[0])
    metrics = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert set(metrics) == set(select_exported_metrics())
    for name, metric in metrics.items():
        shape = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[select_exported_metrics()[name].kind]
        assert metric.WhichOneof("data") == shape
    reads = metrics["aws_ebs_csi_read_io_latency_seconds"].histogram.data_points[0]
    assert reads.count == 1_543 == sum(reads.bucket_counts) and len(reads.explicit_bounds) == 56
    assert metrics["aws_ebs_csi_read_ops_total"].sum.is_monotonic
    (point,) = metrics["headrace_time_to_empty_seconds"].gauge.data_points
    assert point.as_double == 1_800.0 and {attribute.key for attribute in point.attributes} == {"volume_id", "credits"}


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://x/y", "http://", "https://user:pw@host/v1/metrics"])
def test_endpoints_that_are_none_are_refused(endpoint):
    with pytest.raises(InputError) as refused:
        OtlpCollector(endpoint)
    assert "pw@" not in str(refused.value)


def test_otlp_times_are_those_of_the_sending():
    pytest.importorskip("opentelemetry.sdk.metrics", reason="the extra `otlp` is not installed")
    data = build_metrics_data([everything()], now_ns=123)
    points = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert {point.time_unix_nano for point in points} == {123}
