"""Labs of tests: made in folders of their own, ended and cleaned up whatever happened; and headrace
as a user runs it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from waiting import wait_until

from headrace import lab as lab_package
from headrace.base.mounts import read_mount_table
from headrace.base.processes import is_killed
from headrace.errors import HeadraceError
from headrace.lab import Lab, Settings, doctor
from headrace.lab.launch import find_headraced

NO_METRICS_PORT = 0  # nor an endpoint: labs next to each other must not want the same port
# Place where the kernel shows the connections of FUSE.
CONNECTIONS = Path("/sys/fs/fuse/connections")
# A killed process that can end does so within a second, on a busy machine within some.
ENDS_WITHIN_S = 10.0


ROOT = Path(__file__).parents[2]


def find_lacking(programs: Sequence[str] = ()) -> list[str]:
    """Lists in words what this machine lacks for a lab; `programs`, which are notes to a user, are
    needed too. Names the daemon that cargo built in HEADRACED where no other is found."""
    try:
        find_headraced()
    except HeadraceError:
        built = ROOT / "target/release/headraced"
        if built.exists():
            os.environ["HEADRACED"] = str(built)
    return [
        f"{check.what}: {check.finding}. {check.do}"
        for check in doctor.examine()
        if check.state == "missing" or (check.what in programs and check.state != "ok")
    ]


class Labs:
    """Makes folders for labs, and afterwards leaves no daemon, mount, loop device or file of
    theirs.
    """

    def __init__(self) -> None:
        self.folders: list[Path] = []

    def folder(self) -> Path:
        # Short: the path of a socket has at most 107 bytes.
        self.folders.append(Path(tempfile.mkdtemp(prefix="lab-")))
        return self.folders[-1]

    def clean_later(self, folder: Path) -> Path:
        """Has a folder cleaned up as those of `folder` are; returns it."""
        self.folders.append(folder)
        return folder

    def up(self, folder: Path | None = None, **settings) -> Lab:
        return lab_package.start_lab(
            folder or self.folder(),
            settings=Settings(**{"metrics_port": NO_METRICS_PORT, "api_port": NO_METRICS_PORT, **settings}),
        )

    def close(self) -> None:
        for folder in self.folders:
            clean_up(folder)


def clean_up(folder: Path) -> None:
    try:
        with Lab(folder, timeout_s=20) as lab:
            lab_package.stop_lab(lab, force=True)
    except HeadraceError:
        kill(folder)
    mounted = {entry.place: entry for entry in read_mount_table()}
    loops = loops_of(folder)
    for place in sorted(mounted, reverse=True):
        if place.startswith(f"{folder}/") or mounted[place].source in loops:
            subprocess.run(["umount", "-l", place], check=False)
    for device in loops_of(folder):
        subprocess.run(["losetup", "-d", device], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def abort_mounts(folder: Path) -> None:
    """Aborts what is mounted in a folder, whatever the test did: a mount that hangs stops all that
    look at the mounts of this machine."""
    if not CONNECTIONS.is_mount():
        subprocess.run(["mount", "-t", "fusectl", "none", str(CONNECTIONS)], check=True)
    for entry in read_mount_table():
        if entry.place.startswith(f"{folder}/") and entry.kind == "fuse":
            with contextlib.suppress(OSError):
                (CONNECTIONS / entry.number.partition(":")[2] / "abort").write_text("1")


def kill(folder: Path) -> None:
    """kill -9 of the daemon of a folder, if there is one; returns when it is gone. One whose thread
    waits for its own mount (it flushes a device before it takes it away) is ended as the next
    daemon would end it: its mount is aborted."""
    pid = doctor.find_daemon(doctor.Machine(), folder)
    if pid is None:
        return
    watched = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    aborts_at = time.monotonic() + ENDS_WITHIN_S

    def has_ended() -> bool:
        if time.monotonic() >= aborts_at and is_killed(pid):
            abort_mounts(folder)
        return doctor.find_daemon(doctor.Machine(), folder) != pid

    wait_until(has_ended, "the end of a killed daemon")
    os.close(watched)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def loops_of(folder: Path) -> list[str]:
    texts = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if backing.read_text().startswith(f"{folder}/"):
                texts.append(f"/dev/{backing.parts[3]}")
    return texts


@contextlib.contextmanager
def small_disk(place: Path, mib: int) -> Iterator[Path]:
    """A filesystem in memory with so much room, mounted at a new folder."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def fill(folder: Path, free_bytes: int = 0) -> Path:
    """Fills a filesystem but for `free_bytes` bytes; returns the path of the file that takes the room."""
    room = os.statvfs(folder)
    size = room.f_bavail * room.f_frsize - free_bytes
    with open(folder / "filler", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return folder / "filler"


class Command:
    """headrace as a user runs it, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.environment = os.environ | {"HEADRACE_LAB": str(folder), "COLUMNS": "200"}

    def words(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "headrace", *arguments]

    def begun(self, *arguments: str) -> subprocess.Popen:
        """A process that has begun, with its output in pipes."""
        return subprocess.Popen(
            self.words(*arguments),
            text=True,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run(
            self.words(*arguments),
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr and "bug in headrace" not in done.stderr
        return done


@contextlib.contextmanager
def in_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Gives this process other variables of the environment for a block."""
    own = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(own)


class CommandHere(Command):
    """headrace in the process of the test, which has imported what each process of a command imports
    again (half a second of a processor). `begun` starts a process of its own."""

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
        from headrace.cli import main as cli

        # With a buffer of bytes, as a process has: pages of counters are written to it.
        out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            in_environment(self.environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            returned = cli.main(list(arguments))
        texts = [stream.buffer.getvalue().decode() for stream in (out, errors)]
        done = subprocess.CompletedProcess(self.words(*arguments), returned, *texts)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr and "bug in headrace" not in done.stderr
        return done


def call(line: str) -> tuple[int, str]:
    """The exit code of a command that this process carries out, and all that it says."""
    from headrace.cli import main as cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main(line.split())
    return code, out.getvalue()


# The user and group `nobody` of Debian and others (passwd(5) has no fixed number; any but 0 will do).
NOBODY = 65534


def call_as_nobody(lines: Sequence[str]) -> list[tuple[str, int, str]]:
    """Each command with its exit code and what it says, as the user `nobody`: in a child of this
    process, whose files that user may not read. So what the commands import is imported before."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answers = json.dumps([(line, -1, "broke off") for line in lines])
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            # 2,000 characters hold any message.
            answers = json.dumps([(line, code, message[-2_000:]) for line in lines for code, message in [call(line)]])
        finally:
            with open(writer, "w") as out:
                out.write(answers)
            os._exit(0)
    os.close(writer)
    with open(reader) as answers_of_child:
        recording = json.load(answers_of_child)
    os.waitpid(child, 0)
    return [(line, code, message) for line, code, message in recording]


# Content that is written to a volume and looked for on it, on one sector of 4 KiB at 1 MiB.
MARK = b"headrace wrote this before the copy."
SECTOR = MARK.ljust(4096, b".")
SECTOR_AT = 1 << 20


def device_of(lab: Lab, volume: str) -> str:
    """Attaches a volume without its latency, and says its block device."""
    attached = lab.attach(volume, probe=False, unpaced=True)["attachment"]
    assert attached is not None and attached["device"] is not None
    return attached["device"]


def write_mark(device: str) -> None:
    with open(device, "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), SECTOR, SECTOR_AT)
        os.fsync(file.fileno())


def read_mark(device: str) -> bytes:
    """The sector of the mark, from the device and not from the page cache."""
    with open(device, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(file.fileno(), len(SECTOR), SECTOR_AT)
