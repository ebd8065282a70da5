"""Sends the same metrics to a collector of OpenTelemetry, over HTTP by OpenTelemetry's own
exporter. Needs the extra `otlp`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace import __version__
from headrace.errors import Refusals
from headrace.operate.exports.samples import BinSample, ValueSample, collect_samples
from headrace.operate.exports.table import ExportedMetric, select_exported_metrics
from headrace.operate.watching.moment import Moment

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import export

refuse = Refusals("docs/guide/exports.md")
DEFAULT_ENDPOINT = "http://127.0.0.1:4318/v1/metrics"  # OTLP/HTTP, default port and path
# Units as UCUM writes them (OpenTelemetry, "Instrument unit").
UNITS = {"bytes": "By", "seconds": "s", "ratio": "1", "": "1"}
# Longest wait for the collector's answer, s; the next interval sends again.
TIMEOUT_S = 5.0


class OtlpCollector:
    """A collector at an endpoint."""

    def __init__(self, endpoint: str) -> None:
        """Raises InputError for an endpoint that is not http or https, CouldNotRun without the
        extra."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            hint = f"For example {DEFAULT_ENDPOINT}."
            raise refuse.input(f"--endpoint {endpoint[:200]}", "must be a URL of http or https", hint)
        if parts.username or parts.password:
            hint = "Use OTEL_EXPORTER_OTLP_HEADERS."
            raise refuse.input("--endpoint", "has a password in it, which process lists show", hint)
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        except ImportError:
            rule = "is not installed, and OTLP is written with it"
            raise refuse.run("opentelemetry", rule, "pip install 'headrace[otlp]'") from None
        self.endpoint = endpoint
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=TIMEOUT_S)

    def send(self, moments: Iterable[Moment]) -> bool:
        """Sends the metrics of the moments; False where the collector did not accept them."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        return self._exporter.export(build_metrics_data(moments)) is MetricExportResult.SUCCESS


def build_metrics_data(moments: Iterable[Moment], now_ns: int | None = None) -> export.MetricsData:
    """Returns the moments as OpenTelemetry's own values. `now_ns`: Unix time of the points,
    nanoseconds; None: now."""
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    at = time.time_ns() if now_ns is None else now_ns
    samples_by_name = collect_samples(moments)
    metrics = [
        _make_metric(select_exported_metrics()[name], samples, at)
        for name, samples in samples_by_name.items()
        if samples
    ]
    scope = InstrumentationScope("headrace", __version__)
    resource = Resource({"service.name": "headrace", "service.version": __version__})
    return export.MetricsData([export.ResourceMetrics(resource, [export.ScopeMetrics(scope, metrics, "")], "")])


def _make_metric(metric: ExportedMetric, samples: list[ValueSample | BinSample], at: int) -> export.Metric:
    """Returns a metric with its samples as OpenTelemetry's value. `at`: Unix time, nanoseconds."""
    from opentelemetry.sdk.metrics import export

    cumulative = export.AggregationTemporality.CUMULATIVE
    if metric.kind == "histogram":
        data: export.Histogram | export.Sum | export.Gauge = export.Histogram(
            [_make_histogram_point(metric, sample, at) for sample in samples if isinstance(sample, BinSample)],
            cumulative,
        )
    else:
        points = [
            # 0: when the counter began is not known (OTLP, start_time_unix_nano).
            export.NumberDataPoint(dict(zip(metric.labels, sample.labels, strict=True)), 0, at, sample.value)
            for sample in samples
            if isinstance(sample, ValueSample)
        ]
        data = export.Sum(points, cumulative, True) if metric.kind == "counter" else export.Gauge(points)
    return export.Metric(metric.name, metric.help, UNITS[metric.unit], data)


def _make_histogram_point(metric: ExportedMetric, sample: BinSample, at: int) -> export.HistogramDataPoint:
    """Returns a histogram as OpenTelemetry's point, with the count of each bucket instead of all up
    to it. `at`: Unix time, nanoseconds."""
    from opentelemetry.sdk.metrics import export

    below, counts = 0, []
    for _, up_to in sample.buckets:
        counts.append(up_to - below)
        below = up_to
    bounds = [upper for upper, _ in sample.buckets[:-1]]
    labels = dict(zip(metric.labels, sample.labels, strict=True))
    # Smallest and largest are not kept: OTLP leaves them out where they are infinite the wrong way.
    return export.HistogramDataPoint(labels, 0, at, below, sample.total, counts, bounds, float("inf"), float("-inf"))
