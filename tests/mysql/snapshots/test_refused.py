"""Servers and filesystems that cannot or must not be frozen or locked are refused with a reason,
and nothing is left frozen or locked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lab_folders import Command, fill, small_disk
from lab_servers import ServerLabs, left_of, sql
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import connect
from headrace.operate.snapshots.freezing.filesystems import find_filesystems
from headrace.operate.snapshots.freezing.freeze import Freezer
from headrace.operate.snapshots.freezing.watchdog import FIFREEZE, FITHAW
from headrace.operate.snapshots.services import LabService
from headrace.operate.snapshots.take import plan, prepare, take
from headrace.operate.snapshots.targets import make_lab_request
from headrace.servers.copies.locks import ServerLock

sys.path.insert(0, str(Path(__file__).parent))
from probing import Probe

PATIENCE_S = 30.0


@pytest.fixture
def mounted(lab, tmp_path):
    """A small xfs on a volume of the lab, `frail`: its mount point."""
    from headrace.servers import volumes

    volume = lab.create("gp3:1", name="frail")["id"]
    device = lab.attach(volume, unpaced=True, probe=False)["attachment"]["device"]
    volumes.make_filesystem(device)
    place = tmp_path / 'a "b"\nc'
    volumes.mount(device, place)
    yield place
    volumes.unmount(place)
    lab.detach(volume)
    lab.delete(volume)


def bound(source: Path, place: Path) -> None:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", str(source), str(place)], check=True)


def unbound(place: Path) -> None:
    subprocess.run(["umount", str(place)], check=True)


def test_the_root_filesystem(tmp_path):
    with pytest.raises(InputError, match="root filesystem"):
        find_filesystems(["/"])
    place = tmp_path / "bind"
    bound(Path("/etc"), place)
    try:
        with pytest.raises(InputError, match="root filesystem \\(bind mount at"):
            find_filesystems([str(place)])
    finally:
        unbound(place)


def test_not_on_a_block_device():
    with pytest.raises(InputError, match="can be frozen"):
        find_filesystems(["/proc"])


def test_bind_mounts_are_frozen_once(mounted, tmp_path):
    """A name with quotes and a newline, and the same filesystem at another place."""
    inside = mounted / "inside"
    inside.mkdir()
    place = tmp_path / "other"
    bound(inside, place)
    try:
        filesystems = find_filesystems([str(mounted), str(place), str(place / "x")])
        assert len(filesystems) == 1
        [alone] = find_filesystems([str(place)])
        assert alone.number == filesystems[0].number and alone.place == str(place)
        with Freezer((alone,), 10) as freezer:
            freezer.sync()
            freezer.freeze()
            with pytest.raises(OSError):
                refreeze(mounted)  # it is frozen, at its other place as well
            assert freezer.thaw().unbroken
        with Probe(mounted) as probe:
            probe.next_after(time.monotonic_ns(), PATIENCE_S)
    finally:
        unbound(place)


def refreeze(place: Path, what: int = FIFREEZE) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, what, 0)
    finally:
        os.close(handle)


def test_frozen_by_another(mounted):
    """It is refused, and stays frozen: that is the other's."""
    refreeze(mounted)
    try:
        with (
            Freezer(find_filesystems([str(mounted)]), 10) as freezer,
            pytest.raises(CouldNotRun, match="frozen already"),
        ):
            freezer.freeze()
    finally:
        refreeze(mounted, FITHAW)  # fails if it was thawed


def test_thawed_by_another(mounted):
    with Freezer(find_filesystems([str(mounted)]), 10) as freezer:
        freezer.freeze()
        refreeze(mounted, FITHAW)
        assert not freezer.thaw().unbroken


def test_read_only(mounted, tmp_path):
    """A filesystem that nobody can write needs no freeze; one that is read-only at one place does."""
    place = tmp_path / "read-only"
    bound(mounted, place)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        [filesystem] = find_filesystems([str(place)])
        assert not filesystem.read_only
        with Freezer((filesystem,), 10) as freezer:
            freezer.freeze()
            assert freezer.thaw().unbroken
    finally:
        unbound(place)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    [filesystem] = find_filesystems([str(mounted)])
    assert filesystem.read_only
    with Freezer((filesystem,), 10) as freezer:
        freezer.freeze()
        ended = freezer.thaw()
        assert ended.unbroken and ended.milliseconds == 0


def test_the_deadline_thaws(mounted):
    # Long enough for a freeze on a busy machine: one that is late is another test's.
    with Probe(mounted) as probe, Freezer(find_filesystems([str(mounted)]), 1.5) as freezer:
        freezer.freeze()
        probe.next_after(time.monotonic_ns() + 1_000_000, PATIENCE_S)
        assert not freezer.thaw().unbroken


def test_a_volume_that_does_not_answer(lab, mounted):
    """The freeze hangs, for it writes back first. It is given up in time, and when the volume
    answers again, it is thawed."""
    with Probe(mounted) as probe:
        with Freezer(find_filesystems([str(mounted)]), 0.3) as freezer:
            pid = freezer.process_id
            (mounted / "dirty").write_bytes(b"x" * (1 << 20))
            lab.fault("frail", "pause", seconds=2)  # ends by itself, whatever the test does
            with pytest.raises(CouldNotRun, match="could not be frozen within 0.3 s"):
                freezer.freeze()
        wait_until(lambda: state_of(pid) == "Z", "the end of the watchdog", PATIENCE_S)
        probe.next_after(time.monotonic_ns(), PATIENCE_S)


def state_of(pid: int | None) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_held_too_short_a_time(lab, server):
    """The snapshot call takes longer than the freeze may: the set is deleted again."""
    before = len(LabService(lab).list_stored())

    class Slow(LabService):
        def create(self, volumes, tags, description, token):
            time.sleep(0.5)
            return super().create(volumes, tags, description, token)

    request = replace(make_lab_request(lab, server.name), service=Slow(lab), hold_s=0.2)
    with pytest.raises(CouldNotRun, match="thawed before"):
        take(request)
    assert len(LabService(lab).list_stored()) == before
    sql(server, "SET SESSION lock_wait_timeout = 20", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END")  # fmt: skip


def test_the_lock_is_not_had_in_time(lab, server):
    """Another backup holds it. Nothing was frozen, nothing is locked by us."""
    before = len(LabService(lab).list_stored())
    with connect(server.make_address()) as other, other.cursor() as cursor:
        cursor.execute("BACKUP STAGE START")
        steps = []
        with pytest.raises(CouldNotRun, match="did not get its lock within 1 s"):
            take(replace(make_lab_request(lab, server.name), wait_lock_s=1), steps.append)
        assert steps == ["watchdog"]
        cursor.execute("BACKUP STAGE END")
    assert len(LabService(lab).list_stored()) == before
    take(make_lab_request(lab, server.name))


def test_rights_that_are_missing(lab, server):
    sql(server, "CREATE USER IF NOT EXISTS poor@localhost IDENTIFIED BY 'poor'")
    try:
        from headrace.mysql import Secret

        address = replace(server.make_address(), user="poor", password=Secret("poor"))
        with pytest.raises(InputError, match="poor may not"):
            take(replace(make_lab_request(lab, server.name), address=address))
    finally:
        sql(server, "DROP USER poor@localhost")


def test_a_lock_ends_by_itself(server):
    """A session that holds the lock and hangs is ended by the server."""
    with ServerLock(server.make_address(), wait_s=5, hold_s=1) as lock:
        lock.take()
        # It waits for the lock, longer than the server lets the other hold it.
        sql(server, "SET SESSION lock_wait_timeout = 30", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END")  # fmt: skip
        with pytest.raises(CouldNotRun, match="the lock was lost"):
            lock.release()


def test_no_room_in_the_lab(lab, server):
    """A refusal of the call, of any kind, leaves nothing frozen or locked."""

    class Full(LabService):
        def create(self, volumes, tags, description, token):
            raise CouldNotRun("the lab", "no space is left")

    with pytest.raises(CouldNotRun, match="no space"):
        take(replace(make_lab_request(lab, server.name), service=Full(lab)))
    with Probe(server.paths.data_mount) as probe:
        probe.next_after(time.monotonic_ns(), PATIENCE_S)
    sql(server, "SET SESSION lock_wait_timeout = 20", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END")  # fmt: skip


def test_a_restore_without_room_leaves_nothing(tmp_path):
    """Onto a volume that is too small it is refused; on a full disk of the lab it fails and leaves
    nothing, and the same command works once there is room."""
    with small_disk(tmp_path / "d", 900) as place, contextlib.closing(ServerLabs()) as labs:
        lab = labs.up(labs.clean_later(place / "lab"), time_scale=1_000_000)
        headrace = Command(lab.place.data_dir)
        settings = {"innodb_buffer_pool_size": "32M", "innodb_log_file_size": "16M"}
        servers.bring_up(lab, name="db", storage="gp3:2", unpaced=True, settings=settings)
        headrace("snapshot", "take", "db", "--wait")
        done = headrace("snapshot", "restore", "latest", "--name", "new", "--storage", "gp3:1", code=2)
        assert "smaller" in done.stderr, done.stderr
        servers.stop(servers.find(lab, "db"))
        filler = fill(place, free_bytes=1 << 20)
        done = headrace("snapshot", "restore", "latest", "--name", "new", code=3)
        assert f"disk of the lab's folder {place}/lab is full" in done.stderr, done.stderr
        assert left_of(lab, "new") == []
        filler.unlink()
        headrace("snapshot", "restore", "latest", "--name", "new")
        assert sql(servers.find(lab, "new"), "SELECT 1") == ((1,),)
        assert servers.bring_up(lab, name="db").state == "running"


def test_what_the_way_to_the_snapshot_needs_is_not_frozen(lab, server):
    request = replace(make_lab_request(lab, server.name), keep_off=(str(server.paths.data_mount),))
    with pytest.raises(InputError, match="needed to take the snapshot"):
        plan(request)


def test_a_server_elsewhere(lab, server):
    request = make_lab_request(lab, server.name)
    with ServerLock(request.address, 5, 5) as lock:
        facts = lock.facts
    assert facts is not None
    with pytest.raises(InputError, match="not found here"):
        prepare(request, replace(facts, pid_file="/nowhere/mysqld.pid"))
    mine = Path("/proc/self/stat").read_text().split()[0]
    elsewhere = Path(server.paths.run) / "pid-of-another"
    elsewhere.write_text(mine)
    try:
        with pytest.raises(InputError, match="works in"):
            prepare(request, replace(facts, pid_file=str(elsewhere)))
    finally:
        elsewhere.unlink()
