"""A benchmark tool as a process: its lines as they come, a limit to its time, and an end to all it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import CouldNotRun

# How often the caller is told that time goes by, and the limit is looked at.
TICK_S = 0.25
# From a polite end to a certain one.
KINDNESS_S = 5.0
MAX_LINE_BYTES = 1 << 20
TAIL_LINES = 6


@dataclass(frozen=True)
class Command:
    """`words` to run in `folder`; no password may be in them or in `environment` (both are seen in process lists)."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: Path | None = None


@dataclass(frozen=True)
class Ended:
    """`code`: exit code, below 0: a signal. `began_unix`: s. `late`: it was ended because its time was up."""

    code: int
    began_unix: float
    seconds: float
    late: bool
    tail: str


def run(
    command: Command, raw: Path, limit_s: float, on_line: Callable[[float, str], None], on_tick: Callable[[float], None] = lambda s: None
) -> Ended:
    """Runs the command, its output (both streams, in order) into `raw` and line by line, with the time each came (Unix, s), to `on_line`; `on_tick` gets the seconds gone.

    Whatever ends this function ends the process and all it started. Raises CouldNotRun when it cannot be started.
    """
    began, clock = time.time(), time.monotonic()
    child = _started(command)
    late = False
    try:
        with open(raw, "wb", buffering=0) as kept, selectors.DefaultSelector() as waiting:
            waiting.register(child.stdout, selectors.EVENT_READ)
            rest = b""
            while True:
                ready = waiting.select(TICK_S)
                gone = time.monotonic() - clock
                if ready:
                    part = os.read(child.stdout.fileno(), 65_536)
                    if not part:
                        break
                    kept.write(part)
                    rest = _lines(rest + part, on_line)
                elif child.poll() is not None:
                    break  # what it started still holds the pipe
                on_tick(gone)
                if gone > limit_s:
                    late = True
                    break
            if rest:
                on_line(time.time(), rest.decode(errors="replace"))
        if not late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(KINDNESS_S)
    finally:
        end(child, raw)
    return Ended(child.returncode, began, time.monotonic() - clock, late, tail(raw))


def _started(command: Command) -> subprocess.Popen:
    try:
        with contextlib.ExitStack() as stack:
            stdin = stack.enter_context(open(command.stdin, "rb")) if command.stdin else subprocess.DEVNULL
            # A session of its own: Ctrl-C on the terminal reaches headrace, which ends the tool when it has what it measured.
            return subprocess.Popen(
                command.words, cwd=command.folder, env={**os.environ, **command.environment}, stdin=stdin, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise CouldNotRun(
            command.words[0], f"could not be started: {error.strerror or error}", "", "Is it installed, and may it be run?"
        ) from None


def _lines(data: bytes, on_line: Callable[[float, str], None]) -> bytes:
    now = time.time()
    *whole, rest = data.split(b"\n")
    for line in whole:
        on_line(now, line.decode(errors="replace").rstrip("\r"))
    return rest[-MAX_LINE_BYTES:]


def end(child: subprocess.Popen, raw: Path | None = None) -> None:
    """Ends the process and its group: kindly, then not. What it says at its end goes into `raw` too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
    _drain(child, raw)
    try:
        child.wait(KINDNESS_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    # The group may outlive its leader.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdout:
        child.stdout.close()


def _drain(child: subprocess.Popen, raw: Path | None) -> None:
    """Last words, for as long as kindness lasts: a full pipe would keep the process from ending."""
    deadline = time.monotonic() + KINDNESS_S
    with contextlib.suppress(OSError), open(raw or os.devnull, "ab") as kept, selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and waiting.select(left):
            part = os.read(child.stdout.fileno(), 65_536)
            if not part:
                return
            kept.write(part)


def tail(raw: Path, skip: Iterable[str] = ()) -> str:
    """The last lines that say something, in one."""
    try:
        with open(raw, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not any(line.startswith(word) for word in skip)]
    return " | ".join(lines[-TAIL_LINES:])[:600]
