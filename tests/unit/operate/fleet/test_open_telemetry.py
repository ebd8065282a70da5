"""Metric streams in OpenTelemetry format: the same points as the JSON of the same stream, from both
versions, and what is cut or strange is said."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import Any

import polars as pl
import pytest

from headrace.errors import InputError
from headrace.operate.fleet.importing import import_points

pytest.importorskip("opentelemetry.proto")
from google.protobuf import proto
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import SummaryDataPoint

BEGIN = 1_772_409_600  # 2026-03-02T00:00:00Z
UNITS = {"VolumeReadOps": "Count", "VolumeWriteOps": "Count", "VolumeReadBytes": "Bytes", "VolumeWriteBytes": "Bytes"}
UCUM = {"Count": "{Count}", "Bytes": "By", "Percent": "%"}


def drawn(seed: int, periods: int = 12) -> list[dict[str, Any]]:
    """Points of two volumes, as the lines of a stream in JSON."""
    draw = random.Random(seed)
    others = {"VolumeQueueLength": "Count", "BurstBalance": "Percent", "VolumeIOPSExceededCheck": "None"}
    return [
        {
            "metric_stream_name": "s", "account_id": "111111111111", "region": "us-east-1", "namespace": "AWS/EBS",
            "metric_name": metric, "dimensions": {"VolumeId": volume}, "timestamp": (BEGIN + 60 * at) * 1000,
            "value": {"count": 3.0, "sum": draw.randint(0, 30) / 2, "max": float(draw.randint(0, 1)), "min": 0.0},
            "unit": unit,
        }
        for volume in ("vol-0123456789abcdef0", "vol-0123456789abcdef1")
        for at in range(periods)
        for metric, unit in (UNITS | others).items()
    ]  # fmt: skip


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, shorter than 128, as protobuf's encoding guide writes it: key, length, content."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def encoded(lines: list[dict[str, Any]], version: str) -> bytes:
    """Each line as a record behind its length."""
    out = io.BytesIO()
    for line in lines:
        record = ExportMetricsServiceRequest()
        resource = record.resource_metrics.add()
        resource.resource.attributes.add(key="cloud.account.id").value.string_value = line["account_id"]
        metric = resource.scope_metrics.add().metrics.add()
        metric.name = f"amazonaws.com/{line['namespace']}/{line['metric_name']}"
        metric.unit = UCUM.get(line["unit"]) or ("" if line["unit"] == "None" else str(line["unit"]))
        point = SummaryDataPoint(
            start_time_unix_nano=line["timestamp"] * 1_000_000,
            time_unix_nano=(line["timestamp"] + 60_000) * 1_000_000,
            count=int(line["value"]["count"]),
            sum=line["value"]["sum"],
        )
        for quantile, figure in ((0.0, "min"), (1.0, "max")):
            point.quantile_values.add(quantile=quantile, value=line["value"][figure])
        names = {"Namespace": line["namespace"], "MetricName": line["metric_name"]}
        if version == "1.0":
            for key, value in names.items():
                point.attributes.add(key=key).value.string_value = value
            inner = point.attributes.add(key="Dimensions").value.kvlist_value
            for key, value in line["dimensions"].items():
                inner.values.add(key=key).value.string_value = value
        else:
            labels = [
                field(1, key.encode()) + field(2, value.encode()) for key, value in (names | line["dimensions"]).items()
            ]
            point.MergeFromString(b"".join(field(1, label) for label in labels))
        metric.summary.data_points.append(point)
        proto.serialize_length_prefixed(record, out)
    return out.getvalue()


def as_json(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize("version", ["1.0", "0.7"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_both_versions_give_the_points_of_the_json(tmp_path, version, pack):
    lines = drawn(1)
    shuffled = lines + lines[::5]
    random.Random(2).shuffle(shuffled)
    (tmp_path / "otel").write_bytes(pack(encoded(shuffled, version)))
    (tmp_path / "json").write_bytes(as_json(lines))
    assert import_points([tmp_path / "otel"], tmp_path / "a.parquet") == (2, 24, [])
    import_points([tmp_path / "json"], tmp_path / "b.parquet", period_s=60.0)
    table, expected = pl.read_parquet(tmp_path / "a.parquet"), pl.read_parquet(tmp_path / "b.parquet")
    assert table.equals(expected) and table["t_unix"][0] == BEGIN and table["account"][0] == "111111111111"


def test_versions_may_come_in_one_file(tmp_path):
    """The stream's output format was changed on the way."""
    lines = drawn(3)
    (tmp_path / "otel").write_bytes(encoded(lines[:70], "0.7") + encoded(lines[70:], "1.0"))
    (tmp_path / "json").write_bytes(as_json(lines))
    for name in ("otel", "json"):
        import_points([tmp_path / name], tmp_path / f"{name}.parquet", period_s=60.0)
    assert pl.read_parquet(tmp_path / "otel.parquet").equals(pl.read_parquet(tmp_path / "json.parquet"))


def test_a_record_cut_at_any_byte_is_left_out_and_said(tmp_path):
    """All but the last of 14 records: 7 metrics of one minute of a volume, and of the next."""
    lines = [line for line in drawn(4, periods=3) if line["dimensions"]["VolumeId"].endswith("0")]
    whole, last = encoded(lines[:-1], "1.0"), encoded(lines[-1:], "1.0")
    for index in range(1, len(last), 7):
        (tmp_path / "cut").write_bytes(whole + last[:index])
        _, rows, notes = import_points([tmp_path / "cut"], tmp_path / "p.parquet")
        assert rows == 3 and notes == [f"cut: the last record is cut off; {index} bytes were left out."]
    assert pl.read_parquet(tmp_path / "p.parquet")["iops_exceeded"].is_nan().to_list() == [False, False, True]


def changed(**more: Any) -> list[dict[str, Any]]:
    return [line | more if line["metric_name"] == "VolumeReadBytes" else line for line in drawn(5)]


REFUSED = {
    "kilobytes": (changed(unit="Kilobytes"), "bytes"),
    "negative": (changed(value={"count": 1.0, "sum": -1.0, "max": 0.0, "min": 0.0}), "0 or more"),
    "no number": (changed(value={"count": 1.0, "sum": float("nan"), "max": 0.0, "min": 0.0}), "0 or more|not a point"),
    "no samples": (changed(value={"count": 0.0, "sum": 1.0, "max": 0.0, "min": 0.0}), "above 0"),
    "no volumes": ([line | {"namespace": "AWS/RDS"} for line in drawn(5)], "no points of a volume"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("form", ["json", "0.7", "1.0"])
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path, case, form):
    lines, message = REFUSED[case]
    # json.dumps writes NaN as it is no JSON: a damaged line, refused because others follow.
    (tmp_path / "given").write_bytes(as_json(lines) if form == "json" else encoded(lines, form))
    with pytest.raises(InputError, match=message):
        import_points([tmp_path / "given"], tmp_path / "p.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_damage_within_is_refused(tmp_path):
    good = encoded(drawn(6)[:20], "1.0")
    for name, content in (
        ("overwritten", good[:200] + b"\xff" * 50 + good[250:]),
        ("cut.gz", gzip.compress(good)[:-20]),
        ("cut early.gz", gzip.compress(good)[:12]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            import_points([tmp_path / name], tmp_path / "p.parquet")
