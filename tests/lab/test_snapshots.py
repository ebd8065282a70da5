"""Snapshots on real devices: the bytes of their instant, whatever happens meanwhile.

CRASHES=50 for the soak; every round is killed at another random moment, printed with its seed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_folders import kill
from waiting import wait_until

from headrace import lab as lab_package
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.lab.launch import find_headraced
from headrace.lab.wire import LabRefused

CRASHES = int(os.environ.get("CRASHES", "2"))
SECTOR = 4096
CHUNK = 512 * 1024
MIB = 1 << 20
# For a state that comes within moments. A guess for a busy machine.
PATIENCE_S = 60.0


class Device:
    """A block device without the page cache: what is read is what it has."""

    def __init__(self, lab: Lab, volume: str) -> None:
        self.volume = volume
        self.path = lab.describe(volume)["attachment"]["device"]  # pyright: ignore[reportOptionalSubscript]
        self.file = os.open(self.path, os.O_RDWR | os.O_DIRECT)

    def close(self) -> None:
        os.close(self.file)

    def read(self, at: int, count: int = SECTOR) -> bytes:
        into = mmap.mmap(-1, count)
        assert os.preadv(self.file, [into], at) == count
        return bytes(into)

    def write(self, at: int, data: bytes) -> None:
        out = mmap.mmap(-1, len(data))
        out.write(data)
        assert os.pwritev(self.file, [out], at) == len(data)


@contextmanager
def device(lab: Lab, volume: str, **attach) -> Iterator[Device]:
    if lab.describe(volume)["attachment"] is None:
        lab.attach(volume, **({"unpaced": True, "probe": False} | attach))
    opened = Device(lab, volume)
    try:
        yield opened
    finally:
        opened.close()


def until(look: Callable[[], bool]) -> None:
    wait_until(look, "the state of a snapshot", PATIENCE_S)


def completed(lab: Lab, snapshot: str) -> dict:
    until(lambda: lab.describe_snapshot(snapshot)["state"] != "pending")
    snapshot_facts = lab.describe_snapshot(snapshot)
    assert snapshot_facts["state"] == "completed", snapshot_facts
    return dict(snapshot_facts)


def fresh(lab: Lab, name: str, snapshot: str | None = None, **more) -> str:
    record = lab.create(volume_type="gp3", size_gib=1, name=name, snapshot=snapshot, **more)
    return record["id"]


def numbered(number: int, of: int = 0) -> bytes:
    """A sector that says its number and has no zero sector's chance to be mistaken."""
    return f"{of}:{number:020d};".encode() * (SECTOR // 23) + bytes([1 + number % 255]) * (SECTOR - 23 * (SECTOR // 23))


def number_in(data: bytes) -> int:
    """The number of a sector; 0 of one that was never written. A torn sector fails the test."""
    if not any(data):
        return 0
    of, number = data.split(b";", 1)[0].split(b":")
    assert data == numbered(int(number), int(of)), "a torn sector"
    return int(number)


class Writer(threading.Thread):
    """Writes growing numbers, one after another, to slots of one device or of several in turn."""

    def __init__(self, devices: list[Device], slots: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.devices, self.slots, self.random = devices, slots, random.Random(seed)
        self.stop, self.last = threading.Event(), 0
        self.written: list[list[tuple[int, int]]] = [[] for _ in devices]
        self.failed: OSError | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self.stop.is_set():
                number += 1
                for index, device in enumerate(self.devices):
                    slot = self.random.randrange(self.slots)
                    self.written[index].append((number, slot))
                    device.write(slot * SECTOR, numbered(number, index))
                self.last = number
        except OSError as error:
            self.failed = error

    def newest(self, index: int, at_most: int) -> list[int]:
        """Returns the number that each slot holds after `at_most` was written."""
        slots = [0] * self.slots
        for number, slot in self.written[index]:
            if number <= at_most:
                slots[slot] = number
        return slots


def numbers_in(restored: Device, slots: int) -> list[int]:
    data = b"".join(restored.read(at, MIB) for at in range(0, slots * SECTOR, MIB))
    return [number_in(data[slot * SECTOR : (slot + 1) * SECTOR]) for slot in range(slots)]


def check_instant(writer: Writer, index: int, numbers: list[int], before: int, after: int) -> int:
    """The slots are those of one moment between two numbers; which. One write at a time is under
    way, so the newest number in them is that moment.
    """
    newest = max(numbers)
    # A write that was answered before the call is in the snapshot; one that was under way may be.
    assert before <= max(newest, before) <= after + 1
    moment = max(newest, before)
    assert numbers == writer.newest(index, moment)
    return moment


def test_a_snapshot_under_load_has_the_bytes_of_its_instant(labs):
    slots = 4_096  # 16 MiB: many slots are written between two snapshots
    with labs.up() as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            writer = Writer([db], slots, seed=7)
            writer.start()
            taken = []
            for _ in range(4):
                time.sleep(0.3)
                before = writer.last
                snapshot = lab.create_snapshot("db")["id"]
                taken.append((snapshot, before, writer.last))
                completed(lab, snapshot)
            writer.stop.set()
            writer.join()
        assert writer.failed is None
        moments = []
        for index, (snapshot, before, after) in enumerate(taken):
            fresh(lab, f"copy{index}", snapshot)
            with device(lab, f"copy{index}") as copy:
                moments.append(check_instant(writer, 0, numbers_in(copy, slots), before, after))
        assert moments == sorted(moments)
        # Any member of the chain can go: the others keep their bytes.
        objects = lab.place.data_dir / "snapshots" / "manifests"
        for doomed in (taken[1][0], taken[3][0]):
            # The volumes that were made from it still load from it; then it goes.
            lab.delete_snapshot(doomed)
        for index in range(4):
            lab.detach(f"copy{index}", force=True)
            lab.delete(f"copy{index}")
        until(lambda: sorted(path.name for path in objects.iterdir()) == sorted((taken[0][0], taken[2][0])))
        for index in (0, 2):
            fresh(lab, f"again{index}", taken[index][0])
            with device(lab, f"again{index}") as copy:
                assert numbers_in(copy, slots) == writer.newest(0, moments[index])


def test_several_volumes_at_one_instant(labs):
    slots = 1_024
    with labs.up() as lab:
        fresh(lab, "data")
        fresh(lab, "log")
        with device(lab, "data") as data, device(lab, "log") as log:
            writer = Writer([data, log], slots, seed=11)
            writer.start()
            pairs = []
            for _ in range(5):
                time.sleep(0.2)
                snapshots = lab.create_snapshots(["data", "log"], description="both")
                ids = {entry["volume"]: entry["id"] for entry in snapshots}
                pairs.append([ids[lab.describe(name)["id"]] for name in ("data", "log")])
                for snapshot_id in pairs[-1]:
                    completed(lab, snapshot_id)
            writer.stop.set()
            writer.join()
        assert writer.failed is None
        for number, pair in enumerate(pairs):
            newest = []
            for index, snapshot in enumerate(pair):
                name = f"copy{number}-{index}"
                fresh(lab, name, snapshot)
                with device(lab, name) as copy:
                    slots_now = numbers_in(copy, slots)
                assert slots_now == writer.newest(index, max(slots_now))
                newest.append(max(slots_now))
            # Every number goes to data first and then to log: data is never behind, and at most the
            # one write ahead that was under way.
            assert newest[0] - newest[1] in (0, 1), newest


def test_a_restored_volume_is_usable_at_once_and_slow_at_first(labs):
    with labs.up() as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            for at in range(0, 8 * MIB, MIB):
                db.write(at, numbered(at + 1))
        snapshot = lab.create_snapshot("db")["id"]
        assert completed(lab, snapshot)["blocks"]["full_bytes"] == 8 * 512 * 1024
        fresh(lab, "copy", snapshot)
        view = lab.describe("copy")
        assert view["snapshot"] == snapshot
        assert view["initialization"] is not None
        assert (view["initialization"]["state"], view["initialization"]["blocks_left"]) == ("initializing", 8)
        assert lab.cold_blocks("copy")["blocks"] == [at * 2 for at in range(8)]
        with device(lab, "copy", unpaced=False) as copy:
            cold = [timed(lambda at=at: copy.read(at)) for at in range(0, 8 * MIB, MIB)]
            warm = [timed(lambda at=at: copy.read(at)) for at in range(0, 8 * MIB, MIB)]
        # The model's first touch takes 30 ms at the median with a sigma of 0.5: of eight, all under
        # 10 ms happens once in 10^15 runs. A warm read of gp3 takes 0.5 ms; a busy machine adds.
        assert sorted(cold)[4] > 0.010
        assert sorted(warm)[4] < sorted(cold)[4]
        assert lab.cold_blocks("copy")["remaining"] == 0
        until(lambda: lab.describe("copy")["initialization"]["state"] == "completed")  # pyright: ignore[reportOptionalSubscript]
        with pytest.raises(LabRefused) as caught:
            lab.create(volume_type="gp3", size_gib=1, name="x", snapshot="snap-0123456789abcdef0")
        assert caught.value.kind == "not-found"


def timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def wait_for_room(lab: Lab) -> None:
    """Until one more snapshot may be pending."""
    until(lambda: len(lab.call("snapshot.list", state="pending")["snapshots"]) < 5)


def scribbled(db, chance: random.Random, contents: list[int], number: int) -> int:
    """Writes the next numbers to random slots for up to 0.1 s, and notes them; the last number."""
    end = time.monotonic() + chance.random() * 0.1
    while time.monotonic() < end:
        number += 1
        slot = chance.randrange(len(contents))
        db.write(slot * SECTOR, numbered(number))
        contents[slot] = number
    return number


def test_kill_9_loses_no_snapshot(labs):
    slots = 2_048
    folder = labs.folder()
    seeds = [random.randrange(1 << 30) for _ in range(CRASHES)]
    taken: list[tuple[str, list[int]]] = []
    # The next snapshot of a volume may be taken 15 s of lab time after one that is still pending: here
    # at once. Five may be pending.
    lab = labs.up(folder, time_scale=1_000_000)
    fresh(lab, "db")
    contents = [0] * slots
    number = 0
    for seed in seeds:
        print(f"seed {seed}")
        chance = random.Random(seed)
        with device(lab, "db") as db:
            for _ in range(300):
                number += 1
                slot = chance.randrange(slots)
                db.write(slot * SECTOR, numbered(number))
                contents[slot] = number
            wait_for_room(lab)
            snapshot = lab.create_snapshot("db")["id"]
            taken.append((snapshot, list(contents)))
            # Writes after the instant, until the daemon is gone.
            number = scribbled(db, chance, contents, number)
            lab.close()
            kill(folder)
        lab = labs.up(folder, time_scale=1_000_000)
    for index, (snapshot, expected) in enumerate(taken):
        completed(lab, snapshot)
        fresh(lab, f"copy{index}", snapshot)
        with device(lab, f"copy{index}") as copy:
            assert numbers_in(copy, slots) == expected, snapshot
    lab.close()


class PageRange(ctypes.Structure):
    """struct cachestat_range of Linux."""

    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class CachedPages(ctypes.Structure):
    """struct cachestat of Linux: pages of a file, by their state."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("cached", "dirty", "written_back", "evicted", "recently_evicted")]


def count_unwritten_pages(path: Path, count: int) -> int:
    """The pages of the first `count` bytes of a file that the disk does not have yet. Needs Linux 6.5."""
    number = 451  # cachestat, on every architecture
    pages = CachedPages()
    with path.open("rb") as file:
        result = ctypes.CDLL(None, use_errno=True).syscall(
            number, file.fileno(), ctypes.byref(PageRange(0, count)), ctypes.byref(pages), 0
        )
    if result != 0:
        pytest.skip(f"this kernel does not tell what is on disk: {os.strerror(ctypes.get_errno())}")
    return pages.dirty + pages.written_back


def test_a_volume_that_is_opened_is_not_closed_on_the_disk(labs):
    """A machine that stops now must not find the changed blocks as they were noted at the end of the
    last use: those of this use would be missing in the next snapshot."""
    folder = labs.folder()
    with labs.up(folder) as lab:
        volume = fresh(lab, "db")
        completed(lab, lab.create_snapshot("db")["id"])
        lab_package.stop_lab(lab)
    with labs.up(folder) as lab, device(lab, "db"):
        (marks,) = (folder / "volumes" / volume / "captures").glob("*.after")
        assert count_unwritten_pages(marks, SECTOR) == 0


def test_a_store_that_is_away(labs):
    with labs.up() as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            db.write(0, numbered(1))
            first = lab.create_snapshot("db")["id"]
            completed(lab, first)
            # The folder of the objects is taken away: uploads wait, the volume goes on.
            objects = lab.place.data_dir / "snapshots"
            segments = objects / "segments"
            segments.rename(objects / "elsewhere")
            segments.write_text("not a folder")
            db.write(0, numbered(2))
            second = lab.create_snapshot("db")["id"]
            db.write(0, numbered(3))
            time.sleep(0.5)
            assert lab.describe_snapshot(second)["state"] == "pending"
            segments.unlink()
            (objects / "elsewhere").rename(segments)
            completed(lab, second)
        for name, snapshot, number in (("one", first, 1), ("two", second, 2)):
            fresh(lab, name, snapshot)
            with device(lab, name) as copy:
                assert number_in(copy.read(0)) == number


def test_another_labs_snapshots(labs):
    """A lab that lost its folder comes back from its object store."""
    store = labs.folder() / "store"
    url = f"file://{store}"
    with up_with_store(labs, url) as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            db.write(5 * MIB, numbered(42))
        snapshot = lab.create_snapshot("db")["id"]
        completed(lab, snapshot)
    with labs.up() as other:
        other.call("snapshot.set_region", region="eu-west-1", store=url)
        copy = other.copy_snapshot(snapshot, region="eu-west-1", description="disaster")["id"]
        completed(other, copy)
        shutil.rmtree(store)
        fresh(other, "back", copy)
        with device(other, "back") as back:
            assert number_in(back.read(5 * MIB)) == 42
        with pytest.raises(HeadraceError):
            other.copy_snapshot(snapshot, region="us-west-2")


def test_a_store_without_the_labs_snapshots_is_refused(labs):
    """Another store is taken when it has what the lab stored, and refused with what is missing."""
    folder = labs.folder()
    with labs.up(folder) as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            db.write(5 * MIB, numbered(43))
        snapshot = lab.create_snapshot("db")["id"]
        completed(lab, snapshot)
        lab_package.stop_lab(lab, force=True)
    other = labs.folder() / "other"
    words = [str(find_headraced()), "--data-dir", str(folder), "--snapshot-store", f"file://{other}"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert refused.returncode != 0
    for part in (f"file://{other}", "1 of the 1 snapshots", snapshot, f"file://{folder}/snapshots", "--snapshot-store"):
        assert part in refused.stderr, (part, refused.stderr)
    with labs.up(folder) as lab:
        assert lab.call("snapshot.describe", snapshot=snapshot)["state"] == "completed"
        lab_package.stop_lab(lab, force=True)
    shutil.copytree(folder / "snapshots", other, dirs_exist_ok=True)
    shutil.rmtree(folder / "snapshots")
    with up_with_store(labs, f"file://{other}", folder) as lab:
        fresh(lab, "back", snapshot)
        with device(lab, "back") as back:
            assert number_in(back.read(5 * MIB)) == 43


@contextmanager
def up_with_store(labs, url: str, folder: Path | None = None) -> Iterator[Lab]:
    """A daemon of its own with another object store."""
    folder = folder or labs.folder()
    daemon = subprocess.Popen(
        [str(find_headraced()), "--data-dir", str(folder), "--snapshot-store", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert daemon.stdout is not None
    assert daemon.stdout.readline().strip() == "ready"
    with Lab(folder) as lab:
        yield lab
        lab.down(force=True)
    daemon.wait(timeout=PATIENCE_S)


def test_schedules_keep_what_they_say(labs):
    # A minute of lab time is 0.1 s.
    with labs.up(time_scale=600) as lab:
        record = lab.create(volume_type="gp3", size_gib=1, name="db", tags={"backup": "often"})
        lab.create(volume_type="gp3", size_gib=1, name="other")
        lab.call("snapshot.set_schedule", name="often", target_tags={"backup": "often"}, interval_s=60, keep=2)
        seen: set[str] = set()

        def ran() -> bool:
            seen.update(snapshot["id"] for snapshot in lab.snapshots()["snapshots"])
            return len(seen) >= 6

        until(ran)
        lab.call("snapshot.delete_schedule", name="often")
        until(lambda: all(entry["state"] == "completed" for entry in lab.snapshots()["snapshots"]))
        remaining = lab.snapshots()["snapshots"]
        assert {entry["volume"] for entry in remaining} == {record["id"]}
        assert {entry["schedule"] for entry in remaining} == {"often"}
        # Two completed ones are kept; at most five were pending when the schedule was deleted.
        assert 2 <= len(remaining) <= 7


def available(lab: Lab, copy: str) -> None:
    until(lambda: lab.describe(copy)["state"] != "creating")
    facts = lab.describe(copy)
    assert (facts["state"], facts["error"]) == ("available", None)


def left_of(lab: Lab, kind: str = "marks") -> list[Path]:
    """Files of instants that are under way."""
    return sorted((lab.place.data_dir / "volumes").glob(f"*/captures/*.{kind}"))


def test_copies_under_load_have_the_bytes_of_their_instant(labs):
    slots = 4_096
    with labs.up() as lab:
        source = fresh(lab, "db")
        with device(lab, "db") as db:
            writer = Writer([db], slots, seed=13)
            writer.start()
            taken = []
            for number in range(3):
                time.sleep(0.3)
                before = writer.last
                copy = lab.copy("db", f"copy{number}", volume_type="gp3", size_gib=2 if number == 1 else None)
                taken.append((copy["name"], before, writer.last))
                assert (copy["source_volume"], copy["snapshot"]) == (source, None)
            writer.stop.set()
            writer.join()
            assert writer.failed is None
            for name, _, _ in taken:
                available(lab, name)
            until(lambda: left_of(lab) == [])
            moments = []
            for name, before, after in taken:
                with device(lab, name) as copy:
                    moments.append(check_instant(writer, 0, numbers_in(copy, slots), before, after))
                    # A write to a copy does not reach its source.
                    copy.write(0, numbered(1, 9))
                    assert number_in(db.read(0)) == writer.newest(0, writer.last + 1)[0]
            assert moments == sorted(moments)
        assert [lab.describe(name)["size_gib"] for name, _, _ in taken] == [1, 2, 1]
        # No snapshot is to be seen, and a copy is copied and snapshotted like any volume.
        assert lab.snapshots()["snapshots"] == []
        lab.copy("copy1", "third")
        available(lab, "third")
        snapshot = lab.create_snapshot("third")["id"]
        # A snapshot keeps whole chunks of 512 KiB; a busy machine writes few slots, so it may not touch every chunk.
        chunks = {slot * SECTOR // CHUNK for slot, number in enumerate(writer.newest(0, taken[1][1])) if number}
        assert chunks and completed(lab, snapshot)["blocks"]["full_bytes"] >= len(chunks) * CHUNK


def test_a_source_may_go_before_its_copy_is_made(labs):
    with labs.up() as lab:
        fresh(lab, "db")
        with device(lab, "db") as db:
            for at in range(0, 256 * MIB, MIB):
                db.write(at, numbered(1 + at // MIB) * (MIB // SECTOR))
        lab.detach("db", force=True)
        folder = lab.place.data_dir / "volumes" / lab.describe("db")["id"]
        lab.copy("db", "copy")
        with pytest.raises(LabRefused) as caught:
            for _ in range(2):
                lab.delete("copy")
                lab.describe("copy")
        # Either it was under way, or it was there so soon that it could be deleted.
        assert caught.value.kind in ("incorrect-state", "not-found")
        if caught.value.kind == "not-found":
            lab.copy("db", "copy")
        lab.delete("db")
        available(lab, "copy")
        until(lambda: not folder.exists())
        with device(lab, "copy") as copy:
            for at in range(0, 256 * MIB, 16 * MIB):
                assert number_in(copy.read(at)) == 1 + at // MIB


def test_copies_survive_kills(labs):
    """Killed at a random moment after the answer, while the source is written: the copy is made of
    the bytes of its instant, and no instant stays behind.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    folder, slots = labs.folder(), 8_192
    lab = labs.up(folder)
    fresh(lab, "db")
    contents, number = [0] * slots, 0
    # Behind the slots, so that the daemon is killed before all of it is copied.
    filled = range(64 * MIB, 320 * MIB, MIB)
    with device(lab, "db") as db:
        for at in filled:
            db.write(at, numbered(at // MIB) * (MIB // SECTOR))
    expected: dict[str, list[int]] = {}
    for round_ in range(CRASHES):
        with device(lab, "db") as db:
            for slot in range(slots):
                if round_ == 0 or chance.random() < 0.02:
                    number += 1
                    db.write(slot * SECTOR, numbered(number))
                    contents[slot] = number
            name = f"copy{round_}"
            lab.copy("db", name)
            expected[name] = list(contents)
            number = scribbled(db, chance, contents, number)
            lab.close()
            kill(folder)
        lab = labs.up(folder)
        available(lab, name)
        until(lambda lab=lab: left_of(lab) == [])
    for name, slots_then in expected.items():
        with device(lab, name) as copy:
            assert numbers_in(copy, slots) == slots_then, name
            assert [number_in(copy.read(at)) for at in filled] == [at // MIB for at in filled]
    lab.close()


def test_a_copy_whose_instant_is_lost_says_so(labs):
    folder = labs.folder()
    lab = labs.up(folder)
    fresh(lab, "db")
    with device(lab, "db") as db:
        for at in range(0, 512 * MIB, MIB):
            db.write(at, numbered(1 + at // MIB) * (MIB // SECTOR))
    # Another machine's start: what was set aside may not be whole.
    lab.copy("db", "copy")
    lab.close()
    kill(folder)
    source = next(path for path in (folder / "volumes").iterdir() if (path / "captures").is_dir())
    for capture in (source / "captures").iterdir():
        capture.unlink()
    lab = labs.up(folder)
    facts = lab.describe("copy")
    assert facts["state"] == "error" and "instant was lost" in str(facts["error"])
    lab.delete("copy")
    lab.copy("db", "copy")
    available(lab, "copy")
    lab.close()


def test_an_encrypted_volume_has_encrypted_copies(labs):
    with labs.up() as lab:
        fresh(lab, "db", encrypted=True)
        key = lab.create_key(description="copies")["arn"]
        with device(lab, "db") as db:
            for slot in range(64):
                db.write(slot * SECTOR, numbered(slot + 1))
        lab.copy("db", "same", encrypted=False)
        lab.copy("db", "other", kms_key=key)
        for name in ("same", "other"):
            available(lab, name)
            with device(lab, name) as copy:
                assert [number_in(copy.read(slot * SECTOR)) for slot in range(64)] == list(range(1, 65))
            data = lab.place.data_dir / "volumes" / lab.describe(name)["id"] / "data"
            with data.open("rb") as file:
                assert numbered(1)[:20] not in file.read(MIB)
        assert lab.describe("same")["kms_key"] == lab.describe("db")["kms_key"] != key
        assert lab.describe("other")["kms_key"] == key
        # A source that is not encrypted has a copy that is, where that is asked for.
        fresh(lab, "plain")
        lab.copy("plain", "sealed", encrypted=True)
        available(lab, "sealed")
        assert lab.describe("sealed")["encrypted"]


def test_a_copy_under_a_key_that_is_off_fails_and_says_why(labs):
    with labs.up() as lab:
        key = lab.create_key(description="off")["arn"]
        fresh(lab, "db")
        lab.call("key.disable", key=key)
        with pytest.raises(LabRefused):
            lab.copy("db", "copy", encrypted=True, kms_key=key)
        assert [volume["name"] for volume in lab.volumes()] == ["db"]
