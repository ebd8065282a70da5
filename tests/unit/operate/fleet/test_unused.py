"""Volumes that nobody uses, and evidence that is not there."""

from __future__ import annotations

import json
import random

import msgspec
import numpy as np
import polars as pl
import pytest

from headrace.errors import InputError
from headrace.observe.formats.metric_pages import read_pages
from headrace.operate.fleet import importing
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.batch import answer_batch
from headrace.operate.fleet.closed import MOST_CLIENTS, find_waiting_clients
from headrace.operate.fleet.history import build_history
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.inventory import parse_inventory
from headrace.operate.fleet.points import METRICS, SCHEMA

BEGIN = 1_772_409_600.0  # 2026-03-02 00:00 UTC
VOL = "vol-0123456789abcdef0"
QUICK = FleetSettings(fortnights=0)
NAN = float("nan")


def described(**more) -> dict:
    volume = {"VolumeId": VOL, "VolumeType": "gp3", "Size": 200, "Iops": 3000, "Throughput": 125, "State": "in-use"}
    return volume | {"AvailabilityZone": "us-east-1a", "Attachments": []} | more


def points(iops: np.ndarray | float, days: int = 8, **columns) -> pl.DataFrame:
    count = days * 288
    ops = np.broadcast_to(np.asarray(iops, dtype=float) * 300, count)
    own = {
        "volume": [VOL] * count, "t_unix": BEGIN + 300.0 * np.arange(count), "period_s": [300.0] * count,
        "read_ops": np.round(ops / 2), "write_ops": np.round(ops / 2), "read_bytes": np.round(ops / 2) * 16_384.0,
        "write_bytes": np.round(ops / 2) * 16_384.0, "queue": np.full(count, NAN), "balance_percent": np.full(count, NAN),
        "iops_exceeded": np.full(count, NAN), "throughput_exceeded": np.full(count, NAN), "account": [""] * count,
    }  # fmt: skip
    return pl.DataFrame({name: own[name] for name in SCHEMA} | columns)


def answered(rows: pl.DataFrame | None, reservations=(), settings=QUICK, **more):
    (device,) = parse_inventory([described(**more)], reservations).list_devices()
    (answer,) = answer_batch([device], {} if rows is None else {VOL: rows}, settings)
    return answer


AT = [{"InstanceId": "i-0123456789abcdef0", "Device": "/dev/xvda", "State": "attached"}]
HOST = {"InstanceId": "i-0123456789abcdef0", "InstanceType": "m5.xlarge", "State": {"Name": "running"}}


def test_a_volume_without_io_is_unused_and_saves_its_bill():
    entry = answered(points(0.0), Attachments=AT, Tags=[{"Key": "Name", "Value": "old"}])
    assert (entry.verdict, entry.proposed, entry.name) == ("unused", "", "old") and "no I/O in 8 days" in entry.why
    assert entry.saves_usd == entry.usd_today == pytest.approx(16.0)  # 200 GiB x 0.08


def test_one_io_a_day_is_a_use():
    few = np.zeros(8 * 288)
    few[:16] = 2 / 300  # 32 I/Os in 8 days
    assert answered(points(few), Attachments=AT).verdict != "unused"
    few[:] = 0.0
    few[0] = 2 / 300  # 2 in 8 days: less than one a day
    assert answered(points(few), Attachments=AT).verdict == "unused"


def test_a_boot_volume_and_few_days_are_never_called_unused():
    root = [{"OwnerId": "1", "Instances": [HOST | {"RootDeviceName": "/dev/xvda"}]}]
    assert answered(points(0.0), root, Attachments=AT).verdict != "unused"
    assert answered(points(0.0, days=3), Attachments=AT).verdict == "withheld"
    managed = {"Managed": True, "Principal": "workspaces"}
    assert answered(points(0.0), Attachments=AT, Operator=managed).verdict == "withheld"


def test_a_volume_that_was_just_detached_is_asked_for_first():
    entry = answered(points(100.0), State="available")
    assert entry.verdict == "withheld" and "did I/O until 2026-03-10 00:00 UTC" in entry.why
    entry = answered(None, State="available", CreateTime="2025-01-02T00:00:00Z")
    assert entry.verdict == "unused" and "2025-01-02" in entry.why and entry.saves_usd == pytest.approx(16.0)


# --- evidence -------------------------------------------------------------------------------------


def at_the_limit(**columns) -> pl.DataFrame:
    return points(3_000.0, **{name: np.full(8 * 288, value) for name, value in columns.items()})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"queue": 48.0}, "48 I/Os waited there"),  # neither checks nor balance: the rate and the queue say it
        ({"queue": 48.0, "iops_exceeded": 1.0, "throughput_exceeded": 0.0}, "48 I/Os waited there"),
        ({}, "at a limit in 2,304 of 2,304"),  # the rate alone
    ],
)
def test_a_saturated_volume_gets_its_advice_whatever_was_published(columns, message):
    entry = answered(at_the_limit(**columns))
    assert entry.verdict == "grow" and message in entry.why and "checks" not in entry.why, entry.why
    assert int(entry.proposed.split(":")[2]) >= 3_900  # 30 % of head-room


def test_a_queue_that_grows_without_end_is_not_one_of_clients():
    rows = at_the_limit(queue=10.0 * MOST_CLIENTS)
    (device,) = parse_inventory([described()]).list_devices()
    history = build_history(device, {VOL: rows}, 7, None)
    assert find_waiting_clients(history, device.make_storage(), None, None) is None


def test_clients_that_would_get_more_than_they_got_mean_that_it_was_another_limit():
    """48 waited at a flat 1,500 IOPS, flagged all the time, on a volume that gives 3,000."""
    count = 8 * 288
    rows = points(
        1_500.0, queue=np.full(count, 48.0), iops_exceeded=np.ones(count), throughput_exceeded=np.zeros(count)
    )
    entry = answered(rows)
    assert entry.verdict == "withheld" and "48 I/Os outstanding it gave 1,500 IOPS" in entry.why
    # The rested second's worth that a bucket has saved makes it a little more than 3,000.
    assert "simulated as many get 3,0" in entry.why


@pytest.mark.parametrize(("day", "over"), [("2018-08-15", "1.25 times"), (None, "")])
def test_a_volume_is_held_to_the_limits_of_the_day_of_the_answer(day, over):
    """A gp2 of 1,000 GiB gave 160 MiB/s in 2018, and gives 250 now: 800 I/Os of 256 KiB are 200."""
    size = np.full(8 * 288, 800.0 / 2 * 300 * 256 * 1024)
    rows = points(800.0, read_bytes=size, write_bytes=size)
    volume = {"VolumeType": "gp2", "Size": 1_000, "Iops": 3_000, "Throughput": None}
    entry = answered(rows, settings=msgspec.structs.replace(QUICK, as_of=day), **volume)
    assert ("times what gp2:1000 can give" in entry.why) == bool(over) and over in entry.why, entry.why


@pytest.mark.parametrize(
    ("iops", "kib", "share"),
    [
        (100.0, 16, "0.33 times"),  # of the 300 IOPS of 100 GiB: 200 credits a second come back
        (290.0, 16, ""),
        (100.0, 1_024, ""),  # four credits each: 400
    ],
)
def test_credits_that_are_gone_mean_that_the_baseline_was_delivered(iops, kib, share):
    count = 8 * 288
    size = np.full(count, iops / 2 * 300 * kib * 1024)
    columns = {
        "balance_percent": np.zeros(count),
        "iops_exceeded": np.ones(count),
        "throughput_exceeded": np.zeros(count),
    }
    rows = points(iops, read_bytes=size, write_bytes=size, **columns)
    entry = answered(rows, VolumeType="gp2", Size=100, Iops=300, Throughput=None)
    assert ("gp2:100 gives without credits" in entry.why) == bool(share) and share in entry.why, entry.why


# --- pages at once and point by point -------------------------------------------------------------


def page(seed: int) -> dict:
    """Metrics of some volumes with holes, newest first or oldest; another metric, and a time of another zone."""
    draw = random.Random(seed)
    results = []
    for number in range(draw.randint(1, 4)):
        begin, count = BEGIN + 300 * draw.randint(0, 5), draw.randint(4, 30)
        times = [begin + 300 * at for at in range(count)]
        texts = [f"2026-03-02T{int(at - BEGIN) // 3600:02d}:{int(at - BEGIN) % 3600 // 60:02d}:00" for at in times]
        texts = [f"{text}{draw.choice(['Z', '+00:00'])}" for text in texts]
        for metric, (column, _) in METRICS.items():
            whole = column.endswith(("ops", "bytes"))
            figures = [float(draw.randint(0, 10**6)) if whole else draw.random() for _ in times]
            pairs = list(zip(texts, figures, strict=True))
            if draw.random() < 0.5:
                pairs.reverse()
            label = f"vol-{number:017x} {metric}"
            results.append(
                {"Id": f"m{len(results)}", "Label": label, "Timestamps": [entry for entry, _ in pairs], "Values": [entry for _, entry in pairs]}
            )  # fmt: skip
    results.append({"Id": "x", "Label": "vol-0 VolumeIdleTimeOfSomething", "Timestamps": [], "Values": []})
    return {"MetricDataResults": results, "Messages": []}


@pytest.mark.parametrize("seed", range(12))
def test_pages_are_read_at_once_as_point_by_point(tmp_path, monkeypatch, seed):
    document = page(seed)
    half = len(document["MetricDataResults"]) // 2
    parts = [document["MetricDataResults"][:half], document["MetricDataResults"][half:]]
    text = "\n".join(json.dumps({"MetricDataResults": part}) for part in parts if part)
    (tmp_path / "page.json").write_text(text)
    assert read_pages(text.encode()) is not None
    fast = import_points([tmp_path / "page.json"], tmp_path / "fast.parquet", period_s=300.0)
    monkeypatch.setattr(importing, "read_pages", lambda content: None)
    slow = import_points([tmp_path / "page.json"], tmp_path / "slow.parquet", period_s=300.0)
    assert fast == slow, seed
    assert pl.read_parquet(tmp_path / "fast.parquet").equals(pl.read_parquet(tmp_path / "slow.parquet")), seed


def changed(**more) -> dict:
    result = {"Id": "m", "Label": f"{VOL} VolumeReadOps", "Timestamps": ["2026-03-02T00:00:00Z"], "Values": [1.0]}
    return {"MetricDataResults": [result | more]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed() | {"NextToken": "more"}, "more pages follow"),
        (changed(Values=[1.5]), "whole number"),
        (changed(Values=[-1.0]), "negative"),
        (changed(Values=[1.0, 2.0]), "must be as many"),
        (changed(Timestamps=["2026-03-02T00:00:00Z"] * 2, Values=[1.0, 2.0]), "is there twice"),
        (changed(Timestamps=["yesterday"]), "not a time"),
        (changed(Timestamps=["1971-01-01T00:00:00Z"]), "2006|not a time"),
        (changed(StatusCode="InternalError"), "did not deliver"),
        (changed(Label="VolumeReadOps"), "of which volume"),
    ],
)
def test_what_is_not_in_order_is_refused_by_the_reader_that_says_where(tmp_path, document, message):
    (tmp_path / "page.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        import_points([tmp_path / "page.json"], tmp_path / "p.parquet")
    assert not (tmp_path / "p.parquet").exists()


def test_an_empty_page_names_itself_and_not_the_output(tmp_path):
    (tmp_path / "page.json").write_text('{"MetricDataResults": []}')
    with pytest.raises(InputError, match=r"page\.json: has no points of a volume|page\.json"):
        import_points([tmp_path / "page.json"], tmp_path / "out.parquet")
