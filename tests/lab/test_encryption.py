"""Encrypted volumes: what lies on the disk, who may attach them, what a crash leaves, and where keys
are not.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
from pathlib import Path

import pytest
from waiting import wait_until

from headrace.lab import Lab, LabRefused, Settings, start_lab

# Found nowhere by chance: 64 bytes, written in whole sectors.
MARK = b"headrace marks what it wrote here, and looks for it elsewhere..."
SECTORS = MARK * 8 * 32  # 16 KiB


def write(device: str, data: bytes, offset: int = 1 << 20) -> None:
    with open(device, "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), data, offset)
        os.fsync(file.fileno())


def read(device: str, count: int = len(SECTORS), offset: int = 1 << 20) -> bytes:
    with open(device, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(file.fileno(), count, offset)


def files_with(folder: Path, needles: list[bytes], without: str | None = None) -> list[Path]:
    """Files of a folder that hold one of these, in pieces that overlap: some are sparse and large."""
    paths, longest = [], max(map(len, needles))
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        if without in path.relative_to(folder).parts or "mnt" in path.relative_to(folder).parts:
            continue
        with open(path, "rb", buffering=0) as file:
            end, at = os.fstat(file.fileno()).st_size, 0
            while at < end:
                try:
                    at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                except OSError:
                    break  # a hole to the end
                piece = os.pread(file.fileno(), 1 << 20, at)
                if any(needle in piece for needle in needles):
                    paths.append(path)
                    break
                at += max(len(piece) - longest, 1) if len(piece) == 1 << 20 else len(piece)
    return paths


def killed(lab: Lab) -> None:
    """Kills the daemon, and waits until it is gone."""
    watched = os.pidfd_open(lab.get_pid())
    try:
        signal.pidfd_send_signal(watched, signal.SIGKILL)
        assert select.select([watched], [], [], 30)[0]
    finally:
        os.close(watched)


def device_of(lab: Lab, volume: str) -> str:
    device = lab.attach(volume, probe=False, unpaced=True)["attachment"]["device"]
    assert device is not None
    return device


@pytest.mark.parametrize("spec", ["gp3:1", "raid5:3xgp3:1"])
def test_only_a_key_makes_it_readable(lab: Lab, spec: str):
    folder = Path(str(lab.place.data_dir))
    key = lab.create_key(description="data")
    lab.set_key_alias("alias/data", key["id"])
    record = lab.create(spec, name="db", encrypted=True, kms_key="alias/data")
    assert record["encrypted"] and record["kms_key"] == key["arn"]
    plain = lab.create("gp3:1", name="plain")
    assert not plain["encrypted"] and plain["kms_key"] is None
    device = device_of(lab, "db")
    assert read(device) == bytes(len(SECTORS)), "a new volume has zeros"
    write(device, SECTORS)
    assert read(device) == SECTORS
    assert files_with(folder, [MARK]) == []
    # The test of the test: without a key it is found.
    write(device_of(lab, "plain"), SECTORS)
    assert [path.parent.name for path in files_with(folder, [MARK])] == [plain["id"]]

    lab.disable_key("alias/data")
    assert read(device) == SECTORS, "what is attached goes on"
    lab.detach("db")
    with pytest.raises(LabRefused) as refused:
        lab.attach("db", probe=False)
    assert refused.value.code == "InvalidKMSKey.InvalidState" and key["arn"] in refused.value.message
    assert lab.describe("db")["state"] == "available"
    with pytest.raises(LabRefused):
        lab.create("gp3:1", encrypted=True, kms_key=key["arn"])
    lab.enable_key(key["id"])
    assert read(device_of(lab, "db")) == SECTORS


def test_a_volume_waits_for_the_key_of_the_snapshot_it_loads_from(labs):
    """The own key is enabled throughout; a restart while the other is not must not end the volume."""
    folder, place = labs.folder(), 512 << 20  # where no kernel looks for partitions
    with labs.up(folder) as lab:
        others, own = (lab.create_key(description=name)["id"] for name in ("others", "own"))
        lab.create("gp3:1", name="db", encrypted=True, kms_key=others)
        write(device_of(lab, "db"), SECTORS, place)
        snapshot = lab.create_snapshot("db")["id"]
        wait_until(lambda: lab.describe_snapshot(snapshot)["state"] == "completed", "a snapshot that is stored")
        lab.create("gp3:1", name="copy", snapshot=snapshot, encrypted=True, kms_key=own)
        device_of(lab, "copy")
        lab.disable_key(others)
        killed(lab)
    with labs.up(folder) as lab:
        assert lab.describe("copy")["state"] == "available"
        with pytest.raises(LabRefused) as refused:
            lab.attach("copy", probe=False)
        assert refused.value.code == "InvalidKMSKey.InvalidState"
        lab.enable_key(others)
        assert read(device_of(lab, "copy"), offset=place) == SECTORS


def test_keys_outlive_a_journal_that_was_moved_away(labs):
    folder = labs.folder()
    with labs.up(folder) as lab:
        lab.create("gp3:1", name="db", encrypted=True)
        write(device_of(lab, "db"), SECTORS)
        lab.detach("db")
        killed(lab)
    journal, away = folder / "journal", folder / "away"
    journal.rename(away)
    with labs.up(folder) as lab:
        assert lab.volumes() == []
        killed(lab)
    away.rename(journal)
    with labs.up(folder) as lab:
        assert read(device_of(lab, "db")) == SECTORS


def test_a_crash_keeps_what_was_written_and_keys_are_in_no_other_file(labs):
    folder = labs.folder()
    with labs.up(folder) as lab:
        lab.set_encryption(by_default=True)
        record = lab.create("gp3:1", name="db")
        assert record["encrypted"]
        write(device_of(lab, "db"), SECTORS)
        key = next(key for key in lab.keys()["keys"] if key["arn"] == record["kms_key"])
        assert key["managed"] and key["aliases"] == ["alias/aws/ebs"]
        pid = lab.get_pid()
        status = Path(f"/proc/{pid}/status").read_text()
        locked = next(line for line in status.splitlines() if line.startswith("VmLck:"))
        assert int(locked.split()[1]) > 0, "its memory is locked"
        limits = Path(f"/proc/{pid}/limits").read_text()
        core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
        assert core.split()[4:6] == ["0", "0"]
        killed(lab)
    material = (folder / "keys" / key["id"]).read_bytes()
    assert (folder / "keys" / key["id"]).stat().st_mode & 0o777 == 0o600
    with labs.up(folder) as lab:
        device = lab.describe("db")["attachment"]["device"]
        assert read(device) == SECTORS
        sealed = lab.encrypt(key["id"], base64.b64encode(MARK).decode(), {"a": "b"})
        assert base64.b64decode(lab.decrypt(sealed["ciphertext"], {"a": "b"})["plaintext"]) == MARK
        text = json.dumps(lab.metrics_totals()).encode()
    needles = [material, material.hex().encode(), base64.b64encode(material)]
    assert not any(needle in text for needle in needles)
    assert files_with(folder, [*needles, MARK, base64.b64encode(MARK)], without="keys") == []


def test_a_snapshot_is_encrypted_like_its_volume(lab: Lab):
    folder = Path(str(lab.place.data_dir))
    lab.create("gp3:1", name="db", encrypted=True)
    device = device_of(lab, "db")
    write(device, SECTORS)
    snapshot = lab.call("snapshot.create", volume="db")
    wait_for(lab, snapshot)
    assert files_with(folder, [MARK]) == []
    restored = lab.call("volume.create", volume_type="gp3", snapshot=snapshot["id"], name="again")
    assert restored["encrypted"], "although nobody asked for it"
    assert read(device_of(lab, "again")) == SECTORS
    key = lab.create_key(description="copies")
    copy = lab.call("snapshot.copy", snapshot=snapshot["id"], kms_key=key["id"])
    wait_for(lab, copy)
    of_copy = lab.call("volume.create", volume_type="gp3", snapshot=copy["id"], name="other")
    assert of_copy["kms_key"] == key["arn"]
    assert read(device_of(lab, "other")) == SECTORS
    assert files_with(folder, [MARK]) == []


def wait_for(lab: Lab, snapshot: dict) -> None:
    wait_until(
        lambda: lab.call("snapshot.describe", snapshot=snapshot["id"])["state"] == "completed", "the snapshot", 60
    )


def test_credits_of_a_volume_that_rests(labs):
    """Balances are set, seen and kept without the files being open."""
    folder = labs.folder()
    with labs.up(folder) as lab:
        for number in range(20):
            lab.create("gp2:100", name=f"v{number}", balance_percent=5)
        descriptors = len(os.listdir(f"/proc/{lab.get_pid()}/fd"))
        first = [lab.describe(f"v{number}")["balance_percent"] for number in range(20)]
        assert all(percent is not None and 5 <= percent < 6 for percent in first)
        assert len(os.listdir(f"/proc/{lab.get_pid()}/fd")) <= descriptors, "a look opens nothing"
        lab.set_balance("v0", 50.0)
        killed(lab)
    with start_lab(folder, settings=Settings(metrics_port=0, api_port=0)) as lab:
        # 100 GiB refill at 300 credits/s of 5,400,000: 0.0056 % a second; a minute is 0.34 %.
        assert 50 <= (lab.describe("v0")["balance_percent"] or 0) < 51
        assert 5 <= (lab.describe("v1")["balance_percent"] or 0) < 6
        lab.down()
