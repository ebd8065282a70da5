"""Demand of a device, from the points of its volumes: arrays, modifications, and what one strange
volume does to the others of its fleet."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import polars as pl
import pytest

from headrace.errors import InputError
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.batch import answer_batch
from headrace.operate.fleet.history import history_of
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.inventory import FleetDevice, inventory_json, read_inventory
from headrace.operate.fleet.points import SCHEMA

DAY_S, BEGIN = 86_400.0, 1_763_856_000.0  # 2025-11-23, midnight, UTC
SETTINGS = FleetSettings(fortnights=0)


def describe(name: str, kind: str = "gp3", zone: str = "us-east-1a", tags: dict | None = None, **more: Any) -> dict:
    bought = {"Iops": 3_000, "Throughput": 125} if kind == "gp3" else {}
    listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    place = {"AvailabilityZone": zone, "State": "in-use", "Tags": listed}
    return {"VolumeId": name, "VolumeType": kind, "Size": 500, **bought, **place, **more}


def points(name: str, reads: float, writes: float, days: float = 8.0, period: float = 300.0) -> pl.DataFrame:
    """Returns points with equal rates in every period; I/Os of 16 KiB."""
    count = round(days * DAY_S / period)
    sums = {"read_ops": reads * period, "write_ops": writes * period}
    sums |= {f"{way}_bytes": sums[f"{way}_ops"] * 16_384.0 for way in ("read", "write")}
    columns: dict[str, Any] = {column: np.full(count, sums.get(column, np.nan)) for column in SCHEMA}
    columns |= {"volume": [name] * count, "account": [""] * count, "t_unix": BEGIN + period * np.arange(count)}
    return pl.DataFrame(columns | {"period_s": np.full(count, period)}, schema=SCHEMA)


def array(level: str, members: int) -> FleetDevice:
    tags = {"headrace:array": "md0", "headrace:level": level}
    (device,) = inventory_json([describe(f"vol-{number}", tags=tags) for number in range(members)]).devices()
    return device


@pytest.mark.parametrize(
    ("level", "members", "reads", "writes", "expected"),
    [
        ("raid0", 2, 100.0, 50.0, (200.0, 100.0)),
        ("raid1", 2, 100.0, 50.0, (200.0, 50.0)),  # each write stands on both
        ("raid10", 4, 100.0, 50.0, (400.0, 100.0)),
        # A write is a read and two writes of members: 150 writes are 75, and 75 of 300 reads are theirs.
        ("raid5", 3, 100.0, 50.0, (225.0, 75.0)),
    ],
)
def test_what_was_asked_of_an_array_is_not_what_its_members_did(level, members, reads, writes, expected):
    device = array(level, members)
    history = history_of(device, {member.id: points(member.id, reads, writes) for member in device.members}, 7)
    columns = history.columns
    assert (columns["reads_per_s"][0], columns["writes_per_s"][0]) == pytest.approx(expected)
    assert columns["write_bytes"][0] == pytest.approx(16_384)
    assert history.given_iops[0] == pytest.approx(members * (reads + writes)), "limits are those of the members"


def modified(ended: str) -> FleetDevice:
    modification = {"VolumeId": "vol-0", "ModificationState": "completed", "StartTime": "2025-11-01T00:00:00Z"}
    return device_of({"Volumes": [describe("vol-0")], "VolumesModifications": [modification | {"EndTime": ended}]})


def device_of(document: dict) -> FleetDevice:
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        (device,) = read_inventory([file.name]).devices()
    return device


def test_a_history_begins_behind_the_last_modification():
    """The rates of a smaller volume before say nothing of the demand now."""
    points_of = {"vol-0": points("vol-0", 100.0, 0.0, days=10)}
    before = history_of(modified("2025-11-01T06:00:00Z"), points_of, 7)
    assert (before.begin_unix, before.span_s) == (BEGIN, 10 * DAY_S)
    within = history_of(modified("2025-11-25T00:02:00Z"), points_of, 7)
    assert (within.begin_unix, within.span_s) == (BEGIN + 2 * DAY_S + 300, 8 * DAY_S - 300)
    with pytest.raises(InputError, match="4.0 days since it was modified on 2025-11-29"):
        history_of(modified("2025-11-29T00:00:00Z"), points_of, 7)
    with pytest.raises(InputError, match="0.0 days since it was modified on 2026-01-01"):
        history_of(modified("2026-01-01T00:00:00Z"), points_of, 7)


@pytest.mark.parametrize("period", [3_600.0, DAY_S, 30 * DAY_S])
def test_long_points_hide_bursts_and_get_no_advice(period):
    (device,) = inventory_json([describe("vol-0")]).devices()
    with pytest.raises(InputError, match="hide bursts"):
        history_of(device, {"vol-0": points("vol-0", 100.0, 0.0, days=60, period=period)}, 7)


@pytest.mark.parametrize(
    ("zone", "reads", "why"),
    [
        ("cn-north-1a", 100.0, "not a region with prices"),
        ("me-central-1a", 100.0, "none of EBS"),
        ("us-east-1a", 1e9, "more than any volume can"),
    ],
)
def test_one_strange_volume_does_not_stop_a_fleet(zone, reads, why):
    devices = list(inventory_json([describe("vol-0"), describe("vol-1", zone=zone)]).devices())
    recorded = {"vol-0": points("vol-0", 100.0, 50.0), "vol-1": points("vol-1", reads, 0.0)}
    fine, strange = answer_batch(devices, recorded, SETTINGS)
    assert fine.verdict == "keep" and strange.verdict == "withheld" and why in strange.why


def test_what_is_not_searched_says_so():
    tags = {"headrace:array": "md0", "headrace:level": "raid0"}
    unequal = [describe("vol-0", tags=tags), describe("vol-1", tags=tags) | {"Size": 600}]
    devices = list(inventory_json([*unequal, describe("vol-2", "standard")]).devices())
    recorded = {f"vol-{number}": points(f"vol-{number}", 10.0, 5.0) for number in range(3)}
    for advice in answer_batch(devices, recorded, SETTINGS):
        assert advice.verdict == "keep" and "nothing is looked for" in advice.why


# --- points of several files ----------------------------------------------------------------------

VOL = "vol-0123456789abcdef0"
FOUR = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")


def page(begin: float, period: float, count: int, value: float) -> dict:
    times = [datetime.fromtimestamp(begin + period * number, UTC).isoformat() for number in range(count)]
    return {
        "MetricDataResults": [
            {"Id": f"m{number}", "Label": f"{VOL} {name}", "Timestamps": times, "Values": [value] * count}
            for number, name in enumerate(FOUR)
        ]
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_a_page_of_the_cli_may_be_gzipped(tmp_path, indent):
    """A page is one line, as boto3 users write it, or indented, as the CLI does."""
    content = json.dumps(page(BEGIN, 300.0, 3, 600.0), indent=indent)
    (tmp_path / "metrics-1.json.gz").write_bytes(gzip.compress(content.encode()))
    assert import_points([tmp_path / "metrics-1.json.gz"], tmp_path / "p.parquet") == (1, 3, [])
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b'{"metric_stream_name": "s", "metric_name": "Volu'))
    with pytest.raises(InputError, match="not a point of a metric stream"):
        import_points([tmp_path / "cut.json.gz"], tmp_path / "q.parquet")


def imported(folder: Path, name: str, *pages: dict, **more: Any) -> Path:
    files = []
    for number, document in enumerate(pages):
        files.append(folder / f"{name}-{number}.json")
        files[-1].write_text(json.dumps(document))
    import_points(files, folder / f"{name}.parquet", **more)
    return folder / f"{name}.parquet"


def test_points_of_two_periods_are_not_taken_for_one(tmp_path):
    """Older points of 300 s before newer ones of 60 s: five times the rate, if all count as 60 s."""
    older, newer = page(BEGIN, 300.0, 100, 3_000.0), page(BEGIN + 30_000, 60.0, 1_000, 600.0)
    with pytest.raises(InputError, match="points of 60 s and of 300 s"):
        imported(tmp_path, "both", older, newer)
    joined = pl.read_parquet(imported(tmp_path, "joined", older, newer, period_s=300.0))
    assert joined["read_ops"].unique().to_list() == [3_000.0], "the same rate in sums of 300 s"
    assert set(joined["period_s"]) == {300.0}
    with pytest.raises(InputError, match="cannot become points of 90 s"):
        imported(tmp_path, "uneven", newer, period_s=90.0)
    first = imported(tmp_path, "first", newer)
    second = imported(tmp_path, "second", page(BEGIN + 30_000, 300.0, 200, 3_000.0))
    import_points([first, second], tmp_path / "over.parquet", period_s=300.0)
    over = pl.read_parquet(tmp_path / "over.parquet")
    assert over["read_ops"].unique().to_list() == [3_000.0] and over["t_unix"].is_unique().all()


def test_holes_are_no_other_period(tmp_path):
    whole = page(BEGIN, 300.0, 400, 600.0)
    for metric_data_result in whole["MetricDataResults"]:
        places = [place for place in range(400) if place % 7 and not 100 < place < 160]
        metric_data_result["Timestamps"] = [metric_data_result["Timestamps"][place] for place in places]
        metric_data_result["Values"] = [metric_data_result["Values"][place] for place in places]
    rows = pl.read_parquet(imported(tmp_path, "holes", whole))
    assert set(rows["period_s"]) == {300.0}


def test_an_account_that_is_not_said_agrees_with_any(tmp_path):
    lines = [
        json.dumps(
            {
                "metric_stream_name": "s",
                "account_id": "123456789012",
                "region": "us-east-1",
                "namespace": "AWS/EBS",
                "metric_name": name,
                "dimensions": {"VolumeId": VOL},
                "timestamp": int(1e3 * (BEGIN + 900)),
                "value": {"max": 1.0, "min": 0.0, "sum": 600.0, "count": 60.0},
                "unit": "Count" if "Ops" in name else "Bytes",
            }
        )
        for name in FOUR
    ]
    (tmp_path / "s.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "page.json").write_text(json.dumps(page(BEGIN, 300.0, 3, 600.0)))
    import_points([tmp_path / "page.json", tmp_path / "s.json"], tmp_path / "p.parquet")
    assert pl.read_parquet(tmp_path / "p.parquet")["account"].to_list() == ["123456789012"] * 4
