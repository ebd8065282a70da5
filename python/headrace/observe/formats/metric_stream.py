"""A point of a CloudWatch metric stream, and the streams in OpenTelemetry format.

Such a file is a row of records, each behind its length (UnsignedVarInt32), each one an
ExportMetricsServiceRequest with summaries: count, sum, and the smallest and largest as quantiles 0
and 1. OpenTelemetry 0.7 differs from 1.0 in one thing that matters here: its data points have
labels (field 1) and no attributes (field 7). Each record says which of the two it is. Needs the
extra `otlp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import IO, TYPE_CHECKING, cast

import msgspec

from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, SummaryDataPoint

OPEN_TELEMETRY = "CloudWatch guide, Metric streams, OpenTelemetry 0.7.0 and 1.0.0 formats"
NAMED = "amazonaws.com/"  # before namespace and metric in the name of a metric
LABELS = 1  # StringKeyValue in a data point of OpenTelemetry 0.7 (opentelemetry-proto v0.7.0, metrics.proto)
NS_PER_MS = 1_000_000
MS_PER_S = 1_000.0


class StreamValue(msgspec.Struct):
    """The statistics that CloudWatch keeps of a period: the number of samples, and the others in
    the metric's unit."""

    count: float
    sum: float
    max: float
    min: float


class StreamPoint(msgspec.Struct):
    """A line of a metric stream in JSON; other keys are skipped. `timestamp`: the period's begin,
    milliseconds since 1970."""

    namespace: str
    metric_name: str
    dimensions: dict[str, str]
    timestamp: int
    value: StreamValue
    account_id: str = ""
    unit: str = ""
    # Seconds of the point's period, None if the format has only its start: OpenTelemetry has both
    # ends, JSON the start alone.
    period_s: float | None = None


def yield_telemetry_points(name: str, file: IO[bytes], notes: list[str]) -> Iterator[tuple[int, StreamPoint]]:
    """Yields the points of a file in OpenTelemetry format, each with the number of its record (from
    1). A last record that is cut off is left out, with a note in `notes`. Raises InputError for
    another file, CouldNotRun without the extra `otlp`.
    """
    try:
        from google.protobuf.message import DecodeError
        from google.protobuf.proto import parse_length_prefixed
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    except ImportError:
        rule = "is not installed, or too old, and metric streams in OpenTelemetry format are read with it"
        hint = "pip install --upgrade 'headrace[otlp]'"
        raise CouldNotRun("opentelemetry", rule, "docs/guide/fleet.md", hint) from None
    number = 0
    while True:
        start = file.tell()
        try:
            record = parse_length_prefixed(ExportMetricsServiceRequest, cast("BytesIO", file))
        except (ValueError, DecodeError) as error:
            # Nothing follows: the object was cut. A file whose first record is so may be anything.
            if number and not file.read(1):
                notes.append(f"{name}: the last record is cut off; {file.tell() - start} bytes were left out.")
                return
            rule = f"is not a record of a metric stream in OpenTelemetry format: {error}"
            hint = "Fetch the object again, or set the stream's output format to JSON."
            raise InputError(f"{name}, record {number + 1}", rule, OPEN_TELEMETRY, hint) from None
        if record is None:
            return
        number += 1
        for point in _yield_points(record):
            yield number, point


def _yield_points(record: ExportMetricsServiceRequest) -> Iterator[StreamPoint]:
    """Yields the points of one record, metric by metric, each with its account ("" if the record
    does not name it)."""
    for resource in record.resource_metrics:
        account = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}.get(
            "cloud.account.id", ""
        )
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.summary.data_points:
                    yield _make_point(metric, point, account)


def _make_point(metric: Metric, point: SummaryDataPoint, account: str) -> StreamPoint:
    """Returns a summary of a metric as a point, in CloudWatch's names. A missing extreme is NaN,
    and `period_s` is None where start and end are the same."""
    names = _get_names(point)
    namespace, _, plain = metric.name.removeprefix(NAMED).rpartition("/")
    extremes = {quantile.quantile: quantile.value for quantile in point.quantile_values}
    unknown = float("nan")
    lasted_ms = (point.time_unix_nano - point.start_time_unix_nano) // NS_PER_MS
    return StreamPoint(
        namespace=names.pop("Namespace", namespace),
        metric_name=names.pop("MetricName", plain),
        dimensions=names,
        timestamp=point.start_time_unix_nano // NS_PER_MS,
        value=StreamValue(point.count, point.sum, extremes.get(1.0, unknown), extremes.get(0.0, unknown)),
        account_id=account,
        unit=metric.unit,
        period_s=lasted_ms / MS_PER_S if lasted_ms > 0 else None,
    )


def _get_names(point: SummaryDataPoint) -> dict[str, str]:
    """Returns namespace, metric and dimensions in the attributes (1.0) or labels (0.7) of a
    point."""
    names: dict[str, str] = {}
    for attribute in point.attributes:
        if attribute.key == "Dimensions":
            names |= {inner.key: inner.value.string_value for inner in attribute.value.kvlist_value.values}
        else:
            names[attribute.key] = attribute.value.string_value
    if names:
        return names
    from google.protobuf.unknown_fields import UnknownFieldSet
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

    for field in UnknownFieldSet(point):
        if field.field_number == LABELS:
            # StringKeyValue is gone from later versions; this message has its two fields.
            label = InstrumentationScope.FromString(field.data)
            names[label.name] = label.version
    return names
