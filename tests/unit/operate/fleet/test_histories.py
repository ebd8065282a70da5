"""Demand of a device, from the points of its volumes: arrays, modifications, and what one strange
volume does to the others of its fleet."""

from __future__ import annotations

import json
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import polars as pl
import pytest

from headrace.errors import InputError
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.batch import answer_batch
from headrace.operate.fleet.history import build_history
from headrace.operate.fleet.inventory import FleetDevice, parse_inventory, read_inventory
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
    (device,) = parse_inventory([describe(f"vol-{number}", tags=tags) for number in range(members)]).list_devices()
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
    history = build_history(device, {member.id: points(member.id, reads, writes) for member in device.members}, 7)
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
        (device,) = read_inventory([file.name]).list_devices()
    return device


def test_a_history_begins_behind_the_last_modification():
    """The rates of a smaller volume before say nothing of the demand now."""
    points_of = {"vol-0": points("vol-0", 100.0, 0.0, days=10)}
    before = build_history(modified("2025-11-01T06:00:00Z"), points_of, 7)
    assert (before.begin_unix, before.span_s) == (BEGIN, 10 * DAY_S)
    within = build_history(modified("2025-11-25T00:02:00Z"), points_of, 7)
    assert (within.begin_unix, within.span_s) == (BEGIN + 2 * DAY_S + 300, 8 * DAY_S - 300)
    with pytest.raises(InputError, match="4.0 days since it was modified on 2025-11-29"):
        build_history(modified("2025-11-29T00:00:00Z"), points_of, 7)
    with pytest.raises(InputError, match="0.0 days since it was modified on 2026-01-01"):
        build_history(modified("2026-01-01T00:00:00Z"), points_of, 7)


@pytest.mark.parametrize("period", [3_600.0, DAY_S, 30 * DAY_S])
def test_long_points_hide_bursts_and_get_no_advice(period):
    (device,) = parse_inventory([describe("vol-0")]).list_devices()
    with pytest.raises(InputError, match="hide bursts"):
        build_history(device, {"vol-0": points("vol-0", 100.0, 0.0, days=60, period=period)}, 7)


@pytest.mark.parametrize(
    ("zone", "reads", "why"),
    [
        ("cn-north-1a", 100.0, "not a region with prices"),
        ("me-central-1a", 100.0, "none of EBS"),
        ("us-east-1a", 1e9, "more than any volume can"),
    ],
)
def test_one_strange_volume_does_not_stop_a_fleet(zone, reads, why):
    devices = list(parse_inventory([describe("vol-0"), describe("vol-1", zone=zone)]).list_devices())
    recorded = {"vol-0": points("vol-0", 100.0, 50.0), "vol-1": points("vol-1", reads, 0.0)}
    fine, strange = answer_batch(devices, recorded, SETTINGS)
    assert fine.verdict == "keep" and strange.verdict == "withheld" and why in strange.why


def test_what_is_not_searched_says_so():
    tags = {"headrace:array": "md0", "headrace:level": "raid0"}
    unequal = [describe("vol-0", tags=tags), describe("vol-1", tags=tags) | {"Size": 600}]
    devices = list(parse_inventory([*unequal, describe("vol-2", "standard")]).list_devices())
    recorded = {f"vol-{number}": points(f"vol-{number}", 10.0, 5.0) for number in range(3)}
    for advice in answer_batch(devices, recorded, SETTINGS):
        assert advice.verdict == "keep" and "nothing is looked for" in advice.why
