"""Freezing from the side of the process that takes the snapshot."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.base.files import write_back
from headrace.base.processes import PRIVATE_ENVIRONMENT, spawn
from headrace.errors import CouldNotRun
from headrace.operate.snapshots.freezing import watchdog
from headrace.operate.snapshots.freezing.filesystems import Filesystem, escape_text, format_number, refuse

# Until the watchdog is up: starting Python and locking its memory takes 0.1 s on an idle machine. A
# guess for a busy one. Nothing is frozen yet.
START_S = 30.0
# From the order to thaw until the watchdog has said that all is thawed, s: a guess, a thousand
# times what it takes.
GRACE_S = 5.0


@dataclass(frozen=True)
class FreezeTimes:
    """Times of a freeze, ns of CLOCK_MONOTONIC: the first call to freeze, when writers begin to
    wait, and the last thaw. `unbroken`: all filesystems were frozen until we thawed them in
    time."""

    began_ns: int
    ended_ns: int
    unbroken: bool

    @property
    def milliseconds(self) -> float:
        """The time that writers may have waited, ms."""
        return (self.ended_ns - self.began_ns) / 1e6


class Freezer:
    """Freezes these filesystems, and thaws them at the latest `deadline_s` after the order.

    A context: within it the watchdog is up, after it nothing is frozen by us.
    """

    def __init__(self, filesystems: tuple[Filesystem, ...], deadline_s: float) -> None:
        """Opens nothing yet. Filesystems that are read-only are left out, as nothing is written to
        them."""
        self.filesystems = tuple(filesystem for filesystem in filesystems if not filesystem.read_only)
        self.deadline_s = deadline_s
        self.late = False
        self._handles: list[int] = []
        self._commands = self._answers = -1
        self._program: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._frozen: dict[int, int] = {}
        self._thawed: dict[int, int] = {}
        self._lost = False
        self._refused = -1
        self._ordered = self._dead = False

    def __enter__(self) -> Freezer:
        """Opens the mount points and starts the watchdog. Raises CouldNotRun; then nothing stays
        open."""
        try:
            for filesystem in self.filesystems:
                self._handles.append(_open_place(filesystem))
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Thaws what is still frozen, ends the watchdog and closes the mount points."""
        try:
            self._end_watchdog()
        finally:
            for handle in self._handles:
                os.close(handle)
            self._handles = []

    @property
    def process_id(self) -> int | None:
        """The process id of the watchdog."""
        return None if self._program is None else self._program.pid

    def sync(self) -> None:
        """Writes back what is dirty, while nobody waits for it: the freeze is then short."""
        for filesystem, handle in zip(self.filesystems, self._handles, strict=True):
            try:
                write_back(handle)
            except OSError as error:
                rule = f"could not be written back: {error.strerror}"
                raise CouldNotRun(escape_text(filesystem.place), rule, "syncfs(2)") from None

    def freeze(self) -> None:
        """Freezes all of them. Raises CouldNotRun where one refuses or the deadline passes; nothing
        is frozen then."""
        self._ordered = True
        try:
            os.write(self._commands, b"freeze\n")
        except OSError:
            raise _make_ended_error() from None
        until = time.monotonic() + self.deadline_s + GRACE_S
        while True:
            fields = self._read_answer(until)
            match fields[0] if fields else "":
                case "all":
                    return
                case "refused":
                    self._refused = int(fields[1])
                    self.thaw()
                    raise self._make_refusal(int(fields[1]), int(fields[2]))
                case "late" | "":
                    self.thaw()
                    raise refuse.run(
                        ", ".join(escape_text(filesystem.place) for filesystem in self.filesystems),
                        f"could not be frozen within {self.deadline_s:g} s; the watchdog thaws it as soon as its volume answers",
                        "Is a volume paused, or far too slow for what is to be written back?",
                    )
                case _:
                    self._record_answer(fields)

    def thaw(self) -> FreezeTimes:
        """Thaws all of them, ends the watchdog, and returns the times of the freeze. Never raises
        while something is frozen."""
        self._end_watchdog()
        began = min(self._frozen.values(), default=0)
        whole = len(self._thawed) == len(self._handles)
        return FreezeTimes(began, max(self._thawed.values(), default=began), whole and not (self.late or self._lost))

    # --- the watchdog ---

    def _start(self) -> None:
        """Starts the watchdog with both pipes and the handles, and waits START_S seconds for it at
        most. Raises CouldNotRun; nothing is frozen then."""
        commands, self._commands = os.pipe2(os.O_CLOEXEC)
        self._answers, answers = os.pipe2(os.O_CLOEXEC)
        numbers = [commands, answers, *self._handles]
        # -I, -S: nothing of this user's or of the package is imported.
        command = [sys.executable, "-I", "-S", str(Path(watchdog.__file__).resolve()), str(self.deadline_s)]
        try:
            self._program = spawn([*command, *map(str, numbers)], environment=PRIVATE_ENVIRONMENT, passed=numbers)
        except OSError as error:
            raise refuse.run("the watchdog", f"could not be started: {error.strerror}") from None
        finally:
            os.close(commands)
            os.close(answers)
        if self._read_answer(time.monotonic() + START_S) != ["ready"]:
            raise _make_ended_error()

    def _read_answer(self, until: float) -> list[str]:
        """Waits until the time `until` (monotonic) for the next line of the watchdog, and returns
        its fields; none when it is dead or silent."""
        while b"\n" not in self._buffer:
            remaining_s = until - time.monotonic()
            if self._answers < 0 or remaining_s <= 0 or not select.select([self._answers], [], [], remaining_s)[0]:
                return []
            part = os.read(self._answers, 4096)
            if not part:
                self._dead = True
                return []
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode().split()

    def _record_answer(self, fields: list[str]) -> None:
        """Keeps what an answer of the watchdog says: when a filesystem's freeze began or it was
        thawed (ns of CLOCK_MONOTONIC), that another process thawed it, or that the deadline has
        passed."""
        match fields[0]:
            case "frozen":
                self._frozen[int(fields[1])] = int(fields[2])
            case "thawed":
                self._thawed[int(fields[1])] = int(fields[2])
            case "lost":
                self._lost = True
            case "late":
                self.late = True

    def _end_watchdog(self) -> None:
        """Has the watchdog thaw, waits GRACE_S seconds at most, and thaws here if it is dead.

        A watchdog that lives and is silent waits for a freeze that hangs in the kernel, and to thaw
        now would hang as well. It stays, and thaws when that freeze ends.
        """
        if self._program is None:
            return
        os.close(self._commands)  # it thaws when the pipe is closed, by whatever means
        until = time.monotonic() + GRACE_S
        while (fields := self._read_answer(until)) and fields[0] != "done":
            self._record_answer(fields)
        # The pipe's end, not that of the process, which is noted a moment later: the kernel closes
        # the pipe when its last thread has ended, so no freeze of it comes after.
        if self._dead:
            self._thaw_here()
        os.close(self._answers)
        self._commands = self._answers = -1
        program, self._program = self._program, None
        try:
            program.wait(GRACE_S if fields else 0)
        except subprocess.TimeoutExpired:
            program.returncode = 0  # no longer ours to wait for

    def _thaw_here(self) -> None:
        """Thaws in this process what a dead watchdog may have left frozen."""
        import fcntl

        # It may have died between a freeze and the word of it: all that did not refuse, then.
        for number, handle in enumerate(self._handles if self._ordered else ()):
            if number not in self._thawed and number != self._refused:
                try:
                    fcntl.ioctl(handle, watchdog.FITHAW, 0)
                    self._thawed[number] = time.monotonic_ns()
                except OSError as error:
                    self._lost = self._lost or error.errno == errno.EINVAL

    def _make_refusal(self, number: int, code: int) -> CouldNotRun:
        """Returns the error for filesystem `number` that could not be frozen, for the errno
        `code`."""
        place = escape_text(self.filesystems[number].place)
        if code == errno.EBUSY:
            hint = f"Another backup may be at work. If nothing is: fsfreeze --unfreeze '{place}'"
            return CouldNotRun(place, "is frozen already, by another program", "ioctl FIFREEZE", hint)
        if code in (errno.EPERM, errno.EACCES):
            return CouldNotRun(place, "only root may freeze a filesystem", "ioctl FIFREEZE", "Run it with sudo.")
        return CouldNotRun(place, f"cannot be frozen: {os.strerror(code)}", "ioctl FIFREEZE", "")


def _open_place(filesystem: Filesystem) -> int:
    """Opens the mount point and keeps it open. Raises CouldNotRun if the filesystem is another."""
    try:
        handle = os.open(filesystem.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise refuse.run(escape_text(filesystem.place), f"cannot be opened: {error.strerror}") from None
    number = format_number(os.fstat(handle).st_dev)
    if number != filesystem.number:
        os.close(handle)
        rule = f"is device {number} now, and was {filesystem.number}"
        hint = "Was something mounted over it? Try again."
        raise CouldNotRun(escape_text(filesystem.place), rule, "proc_pid_mountinfo(5)", hint)
    return handle


def _make_ended_error() -> CouldNotRun:
    rule = "ended before it was asked to freeze; nothing is frozen"
    return refuse.run("the watchdog", rule, "Is there memory for it (dmesg)?")
