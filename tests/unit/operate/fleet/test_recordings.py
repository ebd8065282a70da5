"""`fleet import` of what hosts recorded: iostat with and without times, Prometheus, standard input; which device is which volume."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from places import DATA

from headrace.errors import InputError
from headrace.observe.remote import aws
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.recordings import RecordingHints, parse_devices

VOL = "vol-0123456789abcdef0"
BEGIN = 1_763_719_200.0  # 2025-11-21 10:00 UTC, as tests/unit/data/make_samples.py
# Reads and writes a second of nvme1n1 in the first minute there, in 16 and 24 KiB.
READS, WRITES = 1500, 800


def imported(folder: Path, *files: object, **answer) -> tuple[pl.DataFrame, list[str]]:
    to = folder / "points.parquet"
    _, _, notes = import_points([str(file) for file in files], to, hints=RecordingHints(**answer))
    return pl.read_parquet(to), notes


@pytest.mark.parametrize("name", ["iostat_12.txt", "iostat.json", "prometheus_range.json"])
def test_devices_become_volumes(tmp_path, name):
    points, notes = imported(tmp_path, DATA / name, volumes={"nvme1n1": VOL})
    first = points.row(0, named=True)
    assert points["volume"].unique().to_list() == [VOL] and points.height == 20
    assert (first["t_unix"], first["period_s"]) == (BEGIN, 60.0)
    assert (first["read_ops"], first["write_ops"]) == (60 * READS, 60 * WRITES)
    assert (first["read_bytes"], first["write_bytes"]) == (60 * READS * 16_384, 60 * WRITES * 24_576)
    # Prometheus' counters are rounded to a millisecond over a minute.
    assert first["queue"] == pytest.approx(1.8, abs=1e-3 / 60)
    assert any("without a zone" in note for note in notes) == (name == "iostat_12.txt")


def test_without_a_name_devices_are_called_after_their_recording(tmp_path):
    points, notes = imported(tmp_path, DATA / "iostat_12.txt")
    assert sorted(points["volume"].unique()) == ["iostat_12/nvme0n1", "iostat_12/nvme1n1"]
    assert any("--device nvme" in note and "an inventory has ids" in note for note in notes)


def test_a_serial_number_tells_the_volume(tmp_path):
    document = json.loads((DATA / "prometheus_range.json").read_text())
    labels = {"__name__": "node_disk_info", "device": "nvme1n1", "instance": "db1:9100", "serial": VOL.replace("-", "")}
    document["data"]["result"].append({"metric": labels, "values": []})
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(document))
    points, _ = imported(tmp_path, path)
    assert sorted(points["volume"].unique()) == ["answer/nvme0n1", VOL]


def untimed() -> str:
    """iostat_12.txt as without -t."""
    text = (DATA / "iostat_12.txt").read_text()
    return "\n".join(line for line in text.split("\n") if not line.startswith("11/21/25 "))


def test_standard_input_without_times(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(untimed().encode())))
    answer = {"volumes": {"nvme1n1": VOL}, "interval_s": 60.0, "clock_start": "2025-11-21T10:00:00Z"}
    points, _ = imported(tmp_path, "-", **answer)
    assert points.height == 20 and points["t_unix"][0] == BEGIN and points["read_ops"][0] == 60 * READS


def test_a_clock_start_says_the_zone_of_printed_times_and_nothing_else(tmp_path):
    path, volumes = DATA / "iostat_12.txt", {"nvme1n1": VOL}
    points, notes = imported(tmp_path, path, volumes=volumes, clock_start="2025-11-21T10:00:00-05:00")
    assert points["t_unix"][0] == BEGIN + 5 * 3600 and not any("without a zone" in note for note in notes)
    with pytest.raises(InputError, match="the file's own times begin at 2025-11-21T10:00:00"):
        imported(tmp_path, path, volumes=volumes, clock_start="2007-01-01T10:00:00")


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        ({}, "how many seconds lie between", "--interval"),
        ({"interval_s": 60.0}, "points of a fleet have their times", "--clock-start"),
        ({"interval_s": 60.0, "clock_start": "10:00"}, "must be a date and time", ""),
        ({"interval_s": 60.0, "clock_start": "2001-01-01T00:00"}, "must be between 2006", ""),
    ],
)
def test_what_a_recording_without_times_needs(tmp_path, answer, message, hint):
    path = tmp_path / "db1.txt"
    path.write_text(untimed())
    with pytest.raises(InputError, match=message) as caught:
        imported(tmp_path, path, volumes={"nvme1n1": VOL}, **answer)
    assert hint in caught.value.hint and not (tmp_path / "points.parquet").exists()


def test_two_recordings_of_one_name_are_two_hosts_that_nobody_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "iostat.txt").write_text((DATA / "iostat_12.txt").read_text())
    files = (tmp_path / "a" / "iostat.txt", tmp_path / "b" / "iostat.txt")
    with pytest.raises(InputError, match="two recordings of one name") as caught:
        imported(tmp_path, *files)
    assert "--device" in caught.value.hint and not (tmp_path / "points.parquet").exists()
    assert imported(tmp_path, *files, volumes={"nvme1n1": VOL})[0].height == 20  # a copy counts once


def test_a_device_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no device that is to be imported") as caught:
        imported(tmp_path, DATA / "iostat_12.txt", volumes={"sdz": VOL})
    assert "nvme1n1" in caught.value.hint


def test_the_same_points_as_cloudwatch_had(tmp_path):
    """The sample is one load: what iostat saw of a device is what CloudWatch has of its volume."""
    labelled = (DATA / "cloudwatch_data.json").read_text()
    for metric in ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes"):
        labelled = labelled.replace(f'"Label": "{metric}"', f'"Label": "{VOL} {metric}"')
    (tmp_path / "page.json").write_text(labelled)
    columns = ["volume", "t_unix", "period_s", "read_ops", "write_ops", "read_bytes", "write_bytes"]
    of_cloudwatch, _ = imported(tmp_path, tmp_path / "page.json", interval_s=60.0)
    of_host, _ = imported(tmp_path, DATA / "iostat_12.txt", volumes={"nvme1n1": VOL})
    assert of_host.select(columns).equals(of_cloudwatch.select(columns))


# --- services -------------------------------------------------------------------------------------

MINUTES = [BEGIN + 60 * number for number in range(10)]


def fetched(name: str, volume: str, figures: dict[str, float]) -> aws.Fetched:
    points = {(volume, metric): dict.fromkeys(MINUTES, value) for metric, value in figures.items()}
    return aws.Fetched(name, points, 60.0, {}, "zero")


def test_volumes_of_aws(tmp_path, monkeypatch):
    """Checks of CloudWatch go with them."""
    figures = {
        "VolumeReadOps": 6_000.0,
        "VolumeWriteOps": 0.0,
        "VolumeReadBytes": 6_000 * 16_384.0,
        "VolumeWriteBytes": 0.0,
    }
    figures |= {"VolumeIOPSExceededCheck": 1.0}
    monkeypatch.setattr(aws, "fetch", lambda target, span: fetched(VOL, VOL, figures))
    points, _ = imported(tmp_path, f"aws:{VOL}")
    assert points["volume"].to_list() == [VOL] * 10 and points["read_ops"].to_list() == [6_000.0] * 10
    assert points["iops_exceeded"].to_list() == [1.0] * 10


def test_an_instance_of_rds_has_rates_that_become_sums(tmp_path, monkeypatch):
    figures = {"ReadIOPS": 100.0, "WriteIOPS": 50.0, "ReadThroughput": 1_638_400.0, "WriteThroughput": 819_200.0}
    figures |= {"DiskQueueDepth": 0.5, "ReadLatency": 0.001}
    monkeypatch.setattr(aws, "fetch", lambda target, span: fetched("db-shop", "", figures))
    points, _ = imported(tmp_path, "aws:db-shop")
    first = points.row(0, named=True)
    assert first["volume"] == "db-shop" and first["read_ops"] == 6_000.0 and first["write_bytes"] == 60 * 819_200.0
    assert first["queue"] == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nvme1n1"], "must be the name of a device"),
        (["=vol-1"], "must be the name of a device"),
        (["nvme1n1=vol-1", "/dev/nvme1n1=vol-2"], "another --device names"),
        (["nvme1n1=vol-1", "nvme2n1=vol-1"], "another --device names"),
    ],
)
def test_devices_that_are_named_wrongly(given, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_devices(given)
    assert caught.value.hint


def test_the_command(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "db1.txt").write_text(untimed())
    words = ("fleet", "import", "db1.txt", "--to", "x.parquet", "--device", f"nvme1n1={VOL}")
    code, _, err = call(*words)
    assert code == 2 and "--interval 10" in err
    code, _, err = call(*words, "--interval", "60", "--clock-start", "2025-11-21T10:00:00")
    assert code == 0 and "20 points of 1 volumes written to x.parquet" in err
    code, _, err = call(*words, "--last", "3d", "--force")
    assert code == 2 and "is for prometheus: and aws:" in err
