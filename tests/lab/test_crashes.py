"""kill -9 of the daemon under a writing database-like load: what was flushed is there, the file
system is clean, journal and credits are where they were.

CRASHES=50 for the soak; every round is killed at another random moment, printed with its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flushing_writer import BLOCK, number_of
from lab_folders import SECTOR, SECTOR_AT, kill, read_mark, write_mark
from lab_folders import device_of as attached_device_of
from waiting import wait_until

from headrace.lab import Lab, LabRefused, stop_lab

CRASHES = int(os.environ.get("CRASHES", "3"))
BLOCKS = 2_000
SPEC = "gp2:10"
WRITER = Path(__file__).with_name("flushing_writer.py")


@contextlib.contextmanager
def mounted(device: str, folder: Path):
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "noatime", device, str(folder)], check=True, timeout=60)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=False, timeout=60)


def device_of(lab: Lab) -> str:
    return lab.describe("db")["attachment"]["links"][0]


def write_until_killed(lab: Lab, place: Path, seed: int, after_s: float) -> int:
    """The last number the writer was told is safe."""
    with mounted(device_of(lab), place):
        writer = subprocess.Popen([sys.executable, str(WRITER), str(place / "data"), str(BLOCKS), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        # The time counts from the first flush: on a busy machine the writer begins late.
        words = [writer.stdout.readline()]
        time.sleep(after_s)
        lab.close()
        kill(lab.place.data_dir)
        # It ends by itself: its next write is an I/O error.
        words += writer.communicate(timeout=60)[0].split()
    return int(words[-1]) if words else 0


def check_blocks(place: Path, safe: int) -> None:
    """Every slot holds a whole block at least as new as the last safe one that was written to it."""
    with (place / "data").open("rb") as file:
        for slot in range(BLOCKS):
            data = file.read(BLOCK).ljust(BLOCK, b"\0")
            number = number_of(data)
            last_safe = safe - (safe - slot) % BLOCKS if safe >= slot else 0
            assert number is not None, f"slot {slot} is damaged"
            assert number >= max(last_safe, 0), f"slot {slot} has {number}, {last_safe} was flushed"


def clean(device: str) -> None:
    done = subprocess.run(["xfs_repair", "-n", device], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_flushed_is_lost_however_often_it_is_killed(labs, tmp_path):
    folder = labs.folder()
    lab = labs.up(folder)
    lab.create(SPEC, name="db", balance_percent=50)
    lab.attach("db")
    subprocess.run(["mkfs.xfs", "-q", device_of(lab)], check=True, timeout=60)
    chance = random.Random(int(os.environ.get("SEED", "1")))
    for crash in range(CRASHES):
        seed, after_s = chance.randrange(2**32), chance.uniform(0.2, 2.5)
        print(f"crash {crash}: seed {seed}, after {after_s:.3f} s")
        safe = write_until_killed(lab, tmp_path / "m", seed, after_s)
        lab = labs.up(folder)
        volume = lab.describe("db")
        assert volume["attachment"]["state"] == "attached"
        assert lab.status()["leftovers"]["busy"] == []
        with mounted(device_of(lab), tmp_path / "m") as place:
            check_blocks(place, safe)
        clean(device_of(lab))
    lab.close()


def test_credits_are_where_they_were_a_second_ago(labs):
    folder = labs.folder()
    lab = labs.up(folder)
    lab.create("gp2:100", name="db")
    device = lab.attach("db")["attachment"]["device"]
    lab.set_balance("db", 10.0)
    subprocess.run(
        ["dd", f"if={device}", "of=/dev/null", "bs=16k", "count=4000", "iflag=direct"], check=True, capture_output=True
    )
    time.sleep(2.2)  # balances are noted once a second
    before = lab.balance("db")["members"][0]["credits"]
    lab.close()
    kill(folder)
    lab = labs.up(folder)
    after = lab.balance("db")["members"][0]["credits"]
    # A lab that is down stands still. The part that was not noted is at most a second of refill
    # (300) and some reads of the kernel looking at the new device; since then it earned 300 a
    # second while it came up, which takes some seconds here.
    assert before - 300 - 100 <= after <= before + 30 * 300
    lab.close()


def records(journal):
    """The bytes of a journal without the space that it reserves: zeros, which no record ends with."""
    return journal.read_bytes().rstrip(b"\0")


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_cut_journal_loses_its_last_record_alone(labs, cut):
    folder = labs.folder()
    lab = labs.up(folder)
    for name in ("a", "b", "c"):
        lab.create("gp3:8", name=name)
    journal = folder / "journal"
    # The journal says that a volume is ready a moment after the answer: a start would find it out.
    wait_until(lambda: records(journal).count(b'"volume-ready"') == 3, "three volumes that are ready in the journal")
    lab.close()
    kill(folder)
    os.truncate(journal, len(records(journal)) - cut)
    lab = labs.up(folder)
    # The last record made "c" available; it was being made, so its files are made again.
    assert {volume["name"] for volume in lab.volumes()} == {"a", "b", "c"}
    assert lab.status()["journal_repaired"]
    lab.close()


def test_a_volume_outlives_a_kill_right_after_its_answer(labs):
    """Before anything was written down that need not last."""
    folder = labs.folder()
    ids = set()
    for _ in range(4):
        lab = labs.up(folder)
        assert {volume["id"]: volume["state"] for volume in lab.volumes()} == dict.fromkeys(ids, "available")
        result = [lab.create("gp3:1")["id"] for _ in range(3)]
        lab.delete(result[0])
        ids |= set(result[1:])
        lab.close()
        kill(folder)
        assert len(list((folder / "volumes").iterdir())) == len(ids)


def test_a_damaged_journal_is_refused_in_words(labs):
    from headrace.errors import HeadraceError

    folder = labs.folder()
    lab = labs.up(folder)
    for name in ("a", "b", "c"):
        lab.create("gp3:8", name=name)
    lab.close()
    kill(folder)
    journal = folder / "journal"
    data = bytearray(journal.read_bytes())
    data[len(records(journal)) // 3] ^= 0xFF
    journal.write_bytes(bytes(data))
    with pytest.raises(HeadraceError, match="journal"):
        labs.up(folder)
    assert journal.read_bytes() == bytes(data), "nothing may be changed"


def test_an_array_that_was_in_use_is_resynced(labs):
    folder = labs.folder()
    with labs.up(folder) as lab:
        volume = lab.create("raid1:2xgp3:1", name="db")["id"]
        write_mark(attached_device_of(lab, "db"))
    kill(folder)
    place = folder / "volumes" / volume
    # A write that had reached the first copy alone.
    other = SECTOR[::-1]
    with (place / "member-0").open("r+b") as file:
        os.pwrite(file.fileno(), other, SECTOR_AT)
    with labs.up(folder) as lab, (place / "member-1").open("rb", buffering=0) as second:
        assert read_mark(lab.describe("db")["attachment"]["device"]) == other
        wait_until(lambda: os.pread(second.fileno(), len(other), SECTOR_AT) == other, "two equal copies")
        # The place is on disk, and the next was looked for, a moment after it can be read.
        wait_until(lambda: not lab.describe("db")["resyncing"], "an array that is in sync")
        stop_lab(lab, force=True)
    assert not (place / "in-use").exists(), "closed in order"


def test_volumes_whose_files_come_back_are_usable_again(labs):
    """A start of the machine may mount the disk of the volumes too late."""
    folder = labs.folder()
    with labs.up(folder) as lab:
        for name in ("attached", "detached"):
            lab.create("gp3:1", name=name)
            write_mark(attached_device_of(lab, name))
        lab.detach("detached")
    kill(folder)
    volumes, away = folder / "volumes", folder / "away"
    volumes.rename(away)
    with labs.up(folder) as lab:
        assert [(volume["state"], volume["attachment"]) for volume in lab.volumes()] == [("error", None)] * 2
        with pytest.raises(LabRefused, match="start the lab again"):
            lab.attach("detached")
    kill(folder)
    volumes.rmdir()
    away.rename(volumes)
    with labs.up(folder) as lab:
        assert [(volume["state"], volume["error"]) for volume in lab.volumes()] == [("available", None)] * 2
        for name in ("attached", "detached"):
            assert read_mark(attached_device_of(lab, name)) == SECTOR


def test_a_missing_file_is_an_error_of_that_volume_alone(labs):
    folder = labs.folder()
    lab = labs.up(folder)
    lost = lab.create("gp3:8", name="lost")["id"]
    lab.create("gp3:8", name="kept")
    lab.attach("lost")
    lab.close()
    kill(folder)
    (folder / "volumes" / lost / "data").unlink()
    lab = labs.up(folder)
    states = {volume["name"]: volume["state"] for volume in lab.volumes()}
    assert states == {"lost": "error", "kept": "available"}
    assert "data" in lab.describe("lost")["error"]
    lab.delete("lost")
    lab.close()


def test_a_rebuild_that_was_under_way_begins_again(labs):
    folder = labs.folder()
    lab = labs.up(folder)
    volume = lab.create("raid1:2xgp3:1", name="pair")["id"]
    data = random.Random(1).randbytes(8 << 20)
    with open(lab.attach("pair", unpaced=True, probe=False)["attachment"]["device"], "r+b") as device:
        device.write(data)
        device.flush()
        os.fsync(device.fileno())
    third = 33 * len(data) / (1 << 30)  # percent of the member
    lab.replace_member("pair", 0, mib_s=2)  # 4 s
    wait_until(lambda: lab.describe("pair")["members"][0]["done_percent"] >= third, "a third of the rebuild")
    lab.close()
    kill(folder)
    lab = labs.up(folder)
    assert lab.describe("pair")["members"][0]["state"] == "rebuilding"
    wait_until(lambda: lab.describe("pair")["members"][0]["state"] == "ok", "the end of the rebuild", 60)
    with (folder / "volumes" / volume / "member-0").open("rb") as rebuilt:
        assert rebuilt.read(len(data)) == data
    lab.close()
