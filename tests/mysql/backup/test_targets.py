"""Targets that fail, runs that are killed, credits that are kept.

BACKUP_KILLS=50 for the soak: `kill -9` of a run and of a stream, each at 50 random moments.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backup_chains import SETTINGS, Load, gone_after
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.servers import volumes
from headrace.servers.backup import checking, copying, manifest, restore, unfinished
from headrace.servers.backup.forecast import find_target_volume
from headrace.servers.backup.history import archive
from headrace.servers.backup.pacing import PaceLimits, make_lab_pacer
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target
from headrace.servers.copies.source import read_source

KILLS = int(os.environ.get("BACKUP_KILLS", "2"))
S3RVER = Path(__file__).parents[3] / ".venv/clients/node_modules/.bin/s3rver"


@pytest.fixture(scope="module")
def source(lab, machine):
    server = servers.bring_up(lab, name="kept", storage="gp2:10", settings=SETTINGS["mariadb"])
    with Load(server):
        time.sleep(0.3)
    return read_source(server.make_address(), server.name, server)


WAYS = {
    "physical": ("--method", "physical", "--mib-s", "40"),
    "logical": ("--method", "logical", "--mib-s", "4"),
    "snapshot": ("--method", "snapshot"),
    "spooled": ("--method", "physical", "--spool", "SPOOL"),
}


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"] if KILLS > 2 else ["mariadb"])
def test_a_killed_run_leaves_nothing_that_looks_whole(request, lab, source, flavor, tmp_path, monkeypatch):
    """`kill -9` at a random moment: there is a whole backup or none, the next run of each way ends
    with a backup that verifies, and nothing is left: no file, snapshot, folder or process."""
    if flavor == "mysql":
        request.getfixturevalue("mysql_program")
        server = servers.bring_up(lab, name="kept-mysql", flavor="mysql", storage="gp3:4", settings=SETTINGS["mysql"])
        request.addfinalizer(lambda: servers.destroy(server))
        with Load(server):
            time.sleep(0.3)
    name = "kept" if flavor == "mariadb" else "kept-mysql"
    target, seed = open_target(tmp_path / "t"), random.randrange(1 << 32)
    print("seed", seed)
    chance, message, temporary = random.Random(seed), [], tmp_path / "temporary"
    temporary.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(temporary))

    def begun(way: str) -> subprocess.Popen[str]:
        words = [entry.replace("SPOOL", str(tmp_path / "spool")) for entry in WAYS[way]]
        words = ["run", name, "--to", str(tmp_path / "t"), *words, "--lab", str(lab.place.data_dir)]
        command = [sys.executable, "-m", "headrace", "backup", *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    for _ in range(KILLS):
        child = begun(chance.choice(list(WAYS)))
        # From its first file on: before it there is nothing to leave.
        while child.poll() is None and not list(tmp_path.rglob("running")):
            time.sleep(0.01)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(chance.uniform(0.0, 2.0))
        child.kill()
        message += child.communicate()[1].splitlines()
        for backup in manifest.read_backups(target)[0]:
            assert not checking.check_backup(target, backup.id).problems
    before = manifest.read_backups(target)[0]
    for way in WAYS:
        child = begun(way)
        message += child.communicate(timeout=120)[1].splitlines()
        assert child.returncode == 0, message
    backups, problems = manifest.read_backups(target)
    # One that was gone on with has an older id.
    methods = sorted(backup.manifest.method for backup in backups if backup.id not in {old.id for old in before})
    assert not problems and methods == ["logical", "physical", "physical", "snapshot"]
    assert not [problem for backup in backups for problem in checking.check_backup(target, backup.id).problems]
    there = [path.name for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert all(entry == "manifest.json" or entry.startswith("data.") for entry in there), there
    assert not [path for path in (tmp_path / "spool").rglob("*") if path.is_file()] and not list(temporary.iterdir())
    tagged = {snapshot["tags"].get("headrace:backup"): snapshot["id"] for snapshot in lab.snapshots()["snapshots"]}
    mine = {backup.id for backup in backups if backup.manifest.method == "snapshot"}
    assert {entry for entry in tagged if entry and f"-{name}-" in entry} == mine
    assert not list((servers.find(lab, name).paths.datadir.parent / "tmp").glob("headrace-*"))
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [entry for entry in running if str(tmp_path).encode() in entry]
    for row in backups:
        for snapshot in row.manifest.snapshots.values():
            lab.delete_snapshot(snapshot)
    print("\n".join(sorted({entry for entry in message if entry.startswith("note: ")})))


@pytest.mark.parametrize(("way", "step"), [("snapshot", "wait_stored"), ("spooled", "_send")])
def test_a_killed_run_goes_on_where_its_server_is_needed_no_more(lab, source, tmp_path, way, step):
    """Killed while its snapshots are stored, or its copy is sent: the next run ends with that
    backup, of the moment before rows that came later."""
    words = [entry.replace("SPOOL", str(tmp_path / "spool")) for entry in WAYS[way]]
    words = ["backup", "run", "kept", "--to", str(tmp_path / "t"), *words, "--lab", str(lab.place.data_dir)]
    dying = f"import os, runpy; from headrace.servers.backup import copying; copying.{step} = lambda *_: os._exit(9);"
    dying += "runpy.run_module('headrace', run_name='__main__')"
    first = subprocess.run([sys.executable, "-c", dying, *words], capture_output=True, text=True)
    assert first.returncode == 9, first.stderr
    target = open_target(tmp_path / "t")
    backups, problems = manifest.read_backups(target)
    assert not backups and len(problems) == 1
    began = time.time()
    with connect_to(servers.find(lab, "kept")) as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS later")
    second = subprocess.run([sys.executable, "-m", "headrace", *words], capture_output=True, text=True)
    assert second.returncode == 0 and "goes on with" in second.stderr, second.stderr
    (result,), problems = manifest.read_backups(target)
    assert not problems and not checking.check_backup(target, result.id).problems
    assert result.manifest.began_unix < began and result.id in second.stderr
    done = restore.restore(lab, target, RestoreRequest(result.id, "gone-on", "gp2:10", unpaced=True))
    with gone_after(done.server), connect_to(done.server) as cursor:
        cursor.execute("SHOW DATABASES LIKE 'later'")
        assert not cursor.fetchall()
        cursor.execute("SELECT COUNT(*) FROM kept.row_of")
        assert cursor.fetchall()[0][0] > 0
    with connect_to(servers.find(lab, "kept")) as cursor:
        cursor.execute("DROP DATABASE later")
    for snapshot in result.manifest.snapshots.values():
        lab.delete_snapshot(snapshot)


def test_a_killed_stream_goes_on_where_it_was(lab, source, tmp_path):
    """`kill -9` at random moments under load; in the end the archive has every acknowledged
    commit, without a gap."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    words = [sys.executable, "-m", "headrace", "backup", "stream", "kept", "--to", str(tmp_path / "t")]
    words += ["--lab", str(lab.place.data_dir)]
    server = servers.bring_up(lab, name="kept")
    with servers.connect(server.make_address()) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS kept")
    with Load(server) as load:
        for _ in range(KILLS):
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(chance.uniform(1.0, 2.5))
            child.send_signal(signal.SIGKILL)
            child.wait()
            with connect_to(server) as cursor:
                cursor.execute("FLUSH BINARY LOGS")
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with connect_to(server) as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        position = str((cursor.fetchone() or ("",))[0])
    # On a busy machine the killed runs stored little: the last has all the rest to store.
    wait_until(
        lambda: [str(line.ends) for line in archive.read_timelines(open_target(tmp_path / "t"))] == [position],
        f"the archive ends at {position}",
    )
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 0, stderr
    (line,) = archive.read_timelines(open_target(tmp_path / "t"))
    assert not line.problems and not checking.check_timeline(open_target(tmp_path / "t"), line).problems
    assert str(line.ends) == position
    assert load.commits


@contextlib.contextmanager
def connect_to(server):
    with servers.connect(server.make_address()) as connection, connection.cursor() as cursor:
        yield cursor


def test_a_target_that_is_full_read_only_or_gone(lab, source, tmp_path, monkeypatch):
    """A volume of the lab as the target: clear errors, and no backup that looks whole."""
    record = lab.create("st1:125", name="archive")
    place = tmp_path / "mounted"
    device = volumes.attach_fresh(lab, record["id"], unpaced=True)
    volumes.make_filesystem(device)
    volumes.mount(device, place)
    try:
        target = open_target(place / "b")
        result = copying.run(source, target, copying.BackupRequest(pack="none"))
        assert find_target_volume(lab, target) == record["id"]
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises(CouldNotRun, match="read-only"):
            copying.run(source, target, copying.BackupRequest(pack="none"))
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        filler = place / "filler"
        room = os.statvfs(place)
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - (8 << 20))
        with pytest.raises(CouldNotRun, match="too little room: .* left|is full"):
            copying.run(source, target, copying.BackupRequest(pack="none"))
        filler.unlink()
        backups, problems = manifest.read_backups(target)
        assert [backup.id for backup in backups] == [result.id] and not problems

        def vanish(share: float, text: str) -> None:
            if place.is_mount():
                volumes.unmount(place, lazily=True)

        with pytest.raises(CouldNotRun, match="another filesystem"):
            copying.run(source, target, copying.BackupRequest(pack="none", progress=vanish))
        volumes.mount(device, place)
        backups, problems = manifest.read_backups(target)
        assert [backup.id for backup in backups] == [result.id] and len(problems) == 1, "its mark and half a file"
        with monkeypatch.context() as patch:
            patch.setattr(unfinished, "look_up", lambda pid: None)  # as if that process had ended
            assert copying.run(source, target, copying.BackupRequest(method="logical")).parts
        assert len(manifest.read_backups(target)[0]) == 2 and not manifest.read_backups(target)[1]
        assert not list(place.rglob("*.begun"))
        volumes.unmount(place)
        with pytest.raises(CouldNotRun, match="another filesystem"):
            copying.run(source, target, copying.BackupRequest(pack="none"))
        assert list(place.iterdir()) == [], "nothing is written below the mount point of a volume that is gone"
    finally:
        with contextlib.suppress(HeadraceError):
            volumes.unmount(place, lazily=True)
        volumes.remove(lab, record["id"])
    with pytest.raises(InputError):
        open_target("s3://bucket/../x")


def test_credits_stay_above_the_floor(lab, source, tmp_path):
    """A gp2 volume with 13 % of its credits and a floor of 10 %: the copy goes slower and stops
    short of it; it never takes more than the guard leaves."""
    server = source.server
    assert server is not None and server.volumes.data is not None
    lab.set_balance(server.volumes.data, 10.4)
    with make_lab_pacer(source, PaceLimits(credit_floor_percent=10.0)) as pacer:
        stuck = threading.Thread(
            target=lambda: (
                contextlib.suppress(HeadraceError).__enter__()
                or copying.run(source, open_target(tmp_path / "t"), copying.BackupRequest(pace=pacer))
            )
        )
        stuck.start()
        lowest = 100.0
        until = time.monotonic() + 3
        while time.monotonic() < until:
            balance = lab.balance(server.volumes.data)["members"][0]
            assert balance is not None
            lowest = min(lowest, balance["percent"])
            time.sleep(0.1)
        lab.set_balance(server.volumes.data, 100.0)
        stuck.join(60)
    assert not stuck.is_alive()
    assert lowest >= 10.0, lowest
    assert pacer.report.held_s.get("credits", 0.0) > 1.0


# --- S3 -------------------------------------------------------------------------------------------


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on to s3rver, but for what `plan` says of the next PUTs."""

    protocol_version = "HTTP/1.1"
    port = 0
    plan: list[str] = []

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        todo = type(self).plan.pop(0) if self.command == "PUT" and type(self).plan else ""
        if todo == "503":
            return self._answer(503, b"<Error><Code>SlowDown</Code><Message>slower</Message></Error>")
        if todo == "region":
            text = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-north-1</Region></Error>"
            return self._answer(400, text)
        if todo == "cut":
            body = body[: len(body) // 2]
        inner = http.client.HTTPConnection("127.0.0.1", type(self).port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        inner.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))})
        answer = inner.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, code: int, text: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

    def log_message(self, format: str, *_: object) -> None:
        """Says nothing."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """The text of a target: s3rver behind `Between`."""
    if not S3RVER.exists() or shutil.which("node") is None:
        pytest.skip("s3rver: needs Node.js and npm ci in .venv/clients")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "S3RVER")
    port = free_port()
    words = [str(S3RVER), "-d", str(tmp_path / "s3"), "-a", "127.0.0.1", "-p", str(port), "-s"]
    (tmp_path / "s3").mkdir()
    inner = subprocess.Popen(
        [*words, "--configure-bucket", "lab"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    handler = type("Handler", (Between,), {"port": port, "plan": []})
    outer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=outer.serve_forever, daemon=True).start()
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(listens, "the object store")
        yield f"s3://lab/x?endpoint=http://127.0.0.1:{outer.server_port}", handler.plan
    finally:
        outer.shutdown()
        inner.kill()
        inner.wait(30)


def test_a_bucket_that_refuses_cuts_or_lies_elsewhere(lab, source, bucket, tmp_path, monkeypatch):
    text, plan = bucket
    target = open_target(text)
    result = copying.run(source, target, copying.BackupRequest(key=bytes(32)))
    assert not checking.check_backup(target, result.id, bytes(32)).problems
    with pytest.raises(InputError, match="never overwritten"):
        target.put_new(f"backups/{result.id}/manifest.json", b"x")
    writer = target.create("many/parts")
    for _ in range(20):
        writer.write(os.urandom(1 << 20))
    writer.close()
    assert sum(len(piece) for piece in target.read("many/parts")) == 20 << 20
    plan += ["503", "503"]  # botocore tries again
    target.put_new("after/503", b"there")
    assert target.read_document("after/503") == b"there"
    plan += ["region"] * 5  # botocore follows the first ones by itself
    with pytest.raises(InputError, match="another region") as refusal:
        target.put_new("elsewhere", b"x")
    assert "eu-north-1" in refusal.value.hint
    plan.clear()
    plan += ["cut"]
    with pytest.raises(CouldNotRun):
        target.put_new("cut", b"x" * 1000)
    plan += ["503"] * 50
    with pytest.raises(CouldNotRun, match="does not take requests"):
        copying.run(source, target, copying.BackupRequest())
    plan.clear()
    backups, _ = manifest.read_backups(target, bytes(32))
    assert [backup.id for backup in backups] == [result.id]
    # It goes away in the middle of sending; the copy is kept, and only what is missing is sent.
    messages: list[str] = []
    request = copying.BackupRequest(method="logical", spool=tmp_path / "spool", note=messages.append)
    plan += ["", "", *["503"] * 50]  # the mark, and one file
    monkeypatch.setattr(copying, "PART_BYTES", 10 << 10)
    with pytest.raises(CouldNotRun, match="does not take requests"):
        copying.run(source, target, request)
    plan.clear()
    late = copying.run(source, target, request)
    assert any("is whole in" in message for message in messages) and any(
        "1 of its" in message for message in messages
    ), messages
    assert not checking.check_backup(target, late.id).problems
    gone = open_target(f"s3://lab/x?endpoint=http://127.0.0.1:{free_port()}")
    with pytest.raises(CouldNotRun, match="cannot be reached"):
        copying.run(source, gone, copying.BackupRequest(method="logical"))
