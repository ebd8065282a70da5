"""Commands of a lab whose target has no room left: what was there stays whole, nothing half-made is
left to be used, and the reason is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from lab_folders import CommandHere, clean_up, device_of, fill, read_mark, small_disk, write_mark
from waiting import wait_until

from headrace import lab as lab_package
from headrace.lab import Lab, Settings

# Room of a lab's disk and of what is written to a volume, MiB: the second time it does not fit.
DISK_MIB, DATA_MIB = 64, 40
# Time in which so many MiB are stored or copied, s: they take one or two on an idle machine.
STORED_S = 60.0


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "d", DISK_MIB) as place:
        yield place


@pytest.fixture
def small_lab(disk):
    """A lab on a small disk; its command line."""
    folder = disk / "lab"
    lab = lab_package.start_lab(folder, settings=Settings(metrics_port=0, api_port=0))
    try:
        with lab:
            yield lab, CommandHere(folder)
    finally:
        clean_up(folder)


def written(lab: Lab, name: str) -> str:
    """A volume with a mark and so many MiB of noise; its device."""
    lab.create("gp3:1", name=name)
    device = device_of(lab, name)
    with open(device, "r+b", buffering=0) as file:
        for number in range(DATA_MIB):
            os.pwrite(file.fileno(), os.urandom(1 << 20), (2 + number) << 20)
        os.fsync(file.fileno())
    write_mark(device)
    return device


def room(folder: Path) -> int:
    result = os.statvfs(folder)
    return result.f_bavail * result.f_frsize


def test_a_copy_without_room_is_refused_and_made_once_there_is(small_lab, disk):
    lab, headrace = small_lab
    device = written(lab, "db")
    before = room(disk)
    refused = headrace("volume", "create", "--copy-of", "db", "--name", "twin", code=3)
    assert "MiB of data to copy, and the disk of the lab's folder has" in refused.stderr, refused.stderr
    # Nothing of it is left, and the source can be written: records in the journal are some KiB.
    assert [volume["name"] for volume in lab.volumes()] == ["db"] and room(disk) > before - (1 << 20)
    write_mark(device)
    subprocess.run(["mount", "-o", f"remount,size={4 * DISK_MIB}m", str(disk)], check=True)
    headrace("volume", "create", "--copy-of", "db", "--name", "twin")
    wait_until(lambda: lab.describe("twin")["state"] == "available", "the copy", STORED_S)
    assert read_mark(device_of(lab, "twin")).startswith(b"headrace wrote this")


def test_a_record_without_room_ends_and_the_volume_goes_on(lab, headrace, tmp_path):
    lab.create("gp3:1", name="db")
    device = device_of(lab, "db")
    with small_disk(tmp_path / "r", 1) as place:
        record = place / "db.rec"
        headrace("volume", "record", "db", "start", "--to", str(record))
        filler = fill(place)

        def is_broken() -> bool:
            # The rest of a page of the record's disk holds some hundred decisions.
            write_mark(device)
            return bool((lab.status()["recording"] or {}).get("broken"))

        wait_until(is_broken, "a record that has ended early", pause_s=0.01)
        assert "No space left on device" in headrace("lab", "status").stdout
        assert read_mark(device).startswith(b"headrace wrote this")
        stopped = headrace("volume", "record", "db", "stop", code=3)
        assert "No space left on device" in stopped.stderr and "is not whole" in stopped.stderr, stopped.stderr
        filler.unlink()
        # The record of before is in the way of none.
        headrace("volume", "record", "db", "start", "--to", str(place / "again.rec"))
        write_mark(device)
        assert "requests" in headrace("volume", "record", "db", "stop").stdout
        headrace("replay", str(place / "again.rec"))


def test_a_copy_of_a_snapshot_without_room_fails_and_says_so(small_lab, disk, labs):
    lab, headrace = small_lab
    with labs.up() as other:
        written(other, "db")
        snapshot = other.create_snapshot("db")["id"]
        wait_until(lambda: other.describe_snapshot(snapshot)["state"] == "completed", "a snapshot", STORED_S)
        fill(disk, free_bytes=8 << 20)
        source = str(other.place.data_dir)
        done = headrace("snapshot", "copy", snapshot, "--from-lab", source, "--wait", code=3)
        assert "o space left on device" in done.stderr, done.stderr
        [failed] = lab.snapshots()["snapshots"]
        assert failed["state"] == "error" and "o space left on device" in failed["error"]
        headrace("snapshot", "delete", failed["id"], "--yes")
        (disk / "filler").unlink()
        headrace("snapshot", "copy", snapshot, "--from-lab", source, "--wait")
        [copied] = lab.snapshots()["snapshots"]
        lab.create(name="db", snapshot=copied["id"], volume_type="gp3", size_gib=1)
        assert read_mark(device_of(lab, "db")).startswith(b"headrace wrote this")
