"""Runs other programs as processes: watches them line by line, stops them, and recognises them
later.

to the end      run_to_end, run_checked
line by line    run_lines: both streams, a limit of time, and nothing left running afterwards
any other way   spawn: for pipelines, and for programs that are handed open files
long-lived      start, look_up, find_by_argument, end_process: a server that outlives this process
failures        find_telling_lines: the lines of an output that say what went wrong
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from headrace.base.files import explain_unwritable
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun

# Seconds between SIGTERM and SIGKILL. A guess: tools that measure write their summary within one.
STOP_GRACE_S = 5.0
# Time after which the caller of `run_lines` gets a tick and the time limit is looked at, s.
TICK_S = 0.25
# Between two looks whether a process has gone: a guess, short against every wait it ends.
LOOK_EVERY_S = 0.05
# A line that is longer is cut, so that a tool which never ends its line cannot fill the memory.
MAX_LINE_BYTES = 1 << 20
READ_BYTES = 65_536
# Bytes at the end of an output that are searched for the reason of a failure.
TAIL_BYTES = 65_536
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")
# The environment of a process of another user: it has nothing of the caller's that could contain a
# secret or point elsewhere.
PRIVATE_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}
# A stream of a process: an open file, its number, or PIPE, DEVNULL or STDOUT of `subprocess`.
ProcessStream = int | IO[str] | IO[bytes] | None


# --- to the end, or line by line ------------------------------------------------------------------


@dataclass(frozen=True)
class User:
    """The account of the operating system that a process runs as."""

    name: str
    uid: int
    gid: int


def spawn(
    arguments: Sequence[str],
    *,
    stdin: ProcessStream = subprocess.DEVNULL,
    stdout: ProcessStream = subprocess.DEVNULL,
    stderr: ProcessStream = subprocess.DEVNULL,
    folder: Path | None = Path("/"),
    environment: Mapping[str, str] | None = None,
    user: User | None = None,
    umask: int = -1,
    passed: Iterable[int] = (),
    own_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Starts a program and returns its process at once. Every other function that starts a program
    without waiting for it calls this one. Raises OSError.

    `folder`, `environment`: None is the caller's. `user`: with this account's rights and no others.
    `umask`: -1 is the caller's. `passed`: open files that it inherits. `own_session`: in a session
    of its own, Ctrl-C on the terminal reaches headrace alone, which then ends the program.
    """
    return subprocess.Popen[bytes](
        arguments,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=folder,
        env=environment,
        umask=umask,
        pass_fds=tuple(passed),
        start_new_session=own_session,
        user=None if user is None else user.uid,
        group=None if user is None else user.gid,
        extra_groups=None if user is None else [],
    )


@dataclass(frozen=True)
class Command:
    """A command to run. `arguments`, the program first, and `environment` hold no password: both
    are seen in lists of processes.

    `environment` goes on top of the caller's. `user`: with this account's rights and no others, and
    with PRIVATE_ENVIRONMENT instead of the caller's. `what`: its name in errors.
    """

    arguments: tuple[str, ...]
    folder: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: Path | None = None
    user: User | None = None
    what: str = ""

    @property
    def label(self) -> str:
        """The command's name in errors."""
        return self.what or self.arguments[0]

    def start_process(self, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        """Starts the process and returns it. Raises CouldNotRun when it cannot be started."""
        try:
            with contextlib.ExitStack() as stack:
                stdin = stack.enter_context(open(self.stdin, "rb")) if self.stdin else subprocess.DEVNULL
                return spawn(
                    self.arguments,
                    folder=self.folder,
                    environment={**(os.environ if self.user is None else PRIVATE_ENVIRONMENT), **self.environment},
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    user=self.user,
                    umask=-1 if self.user is None else 0o027,
                )
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or error
            hint = "Is it installed, built for this machine, and may it be run?"
            raise CouldNotRun(self.label, f"could not be started: {reason}", self.arguments[0], hint) from None


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit code (below 0: a signal) and what it wrote."""

    code: int
    output: str
    errors: str


def run_to_end(command: Command, timeout_s: float, hint: str = "") -> Completed:
    """Runs a command and waits for its end, whatever its exit code. Raises CouldNotRun when it
    cannot be started, or is ended because it takes longer than `timeout_s`."""
    child = command.start_process(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        rule = f"did not end within {timeout_s:g} s"
        raise CouldNotRun(command.label, rule, command.arguments[0], hint or "Is this machine very busy?") from None
    finally:
        end_group(child)
    return Completed(child.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


def run_checked(command: Command, timeout_s: float, hint: str = "") -> str:
    """Runs a command to its end and returns its standard output. Raises CouldNotRun as
    `run_to_end`, and with the program's errors if the exit code is not 0."""
    done = run_to_end(command, timeout_s, hint)
    if done.code != 0:
        raise CouldNotRun(command.label, describe_failure(done), command.arguments[0], hint)
    return done.output


def describe_failure(done: Completed) -> str:
    """Returns the exit code of a program that failed and the lines of its output that say why."""
    return f"failed (exit code {done.code}): {find_telling_lines(f'{done.errors}{chr(10)}{done.output}')}"


@dataclass(frozen=True)
class Ended:
    """The end of a program. `code`: exit code, below 0: a signal. `began_unix`: its start, seconds
    since 1970; `seconds`: how long it ran. `late`: whether it was ended because its time was up.
    `message`: the lines of its output that say what went wrong."""

    code: int
    began_unix: float
    seconds: float
    late: bool
    message: str


def run_lines(
    command: Command,
    raw: Path,
    limit_s: float,
    on_line: Callable[[float, str], None] = lambda at, text: None,
    on_tick: Callable[[float], None] = lambda gone: None,
) -> Ended:
    """Runs a command to its end, or for `limit_s` seconds, and writes its output (both streams, in
    order) to the file `raw`.

    `on_line` gets the time of each line (seconds since 1970) and the line; `on_tick` gets, several
    times a second, the seconds since the start. However this function ends, it ends the process and
    all that this started. Raises CouldNotRun when the command cannot be started.
    """
    began, clock = time.time(), time.monotonic()
    child = command.start_process(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    late = False
    try:
        with open(raw, "wb", buffering=0) as raw_file, selectors.DefaultSelector() as waiting:
            pipe = _get_pipe(child)
            waiting.register(pipe, selectors.EVENT_READ)
            rest = b""
            while True:
                ready = waiting.select(TICK_S)
                gone = time.monotonic() - clock
                if ready:
                    part = os.read(pipe, READ_BYTES)
                    if not part:
                        break
                    raw_file.write(part)
                    rest = _split_lines(rest + part, on_line)
                elif child.poll() is not None:
                    break  # a process that it started still has the pipe open
                on_tick(gone)
                if gone > limit_s:
                    late = True
                    break
            if rest:
                on_line(time.time(), rest.decode(errors="replace"))
        if not late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_GRACE_S)
    finally:
        end_group(child, raw)
    return Ended(child.returncode, began, time.monotonic() - clock, late, find_telling_lines(read_tail(raw)))


def _get_pipe(child: subprocess.Popen[bytes]) -> int:
    assert child.stdout is not None  # every caller starts the child with a pipe
    return child.stdout.fileno()


def _split_lines(data: bytes, on_line: Callable[[float, str], None]) -> bytes:
    """Calls `on_line` with the time (Unix seconds) and text of each whole line; returns the rest,
    at most MAX_LINE_BYTES."""
    now = time.time()
    *whole, rest = data.split(b"\n")
    for line in whole:
        on_line(now, line.decode(errors="replace").rstrip("\r"))
    return rest[-MAX_LINE_BYTES:]


def end_group(child: subprocess.Popen[bytes], raw: Path | None = None) -> int:
    """Ends a child process and its group. Returns its exit code.

    SIGTERM comes first. The output is read for up to STOP_GRACE_S, into the file `raw` if that is
    given; a process that still runs STOP_GRACE_S later gets SIGKILL.
    """
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGTERM)
        if child.stdout and not child.stdout.closed:
            _drain(_get_pipe(child), raw)
        try:
            child.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    # The group may outlive its leader.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for stream in filter(None, (child.stdout, child.stderr)):
        stream.close()
    return child.returncode


def _drain(pipe: int, raw: Path | None) -> None:
    """Reads a process's pipe until it is closed, for STOP_GRACE_S at most, into the file `raw`, if
    that is given: a process that writes into a full pipe does not end."""
    deadline = time.monotonic() + STOP_GRACE_S
    with (
        contextlib.suppress(OSError),
        open(raw or os.devnull, "ab") as raw_file,
        selectors.DefaultSelector() as waiting,
    ):
        waiting.register(pipe, selectors.EVENT_READ)
        while (remaining_s := deadline - time.monotonic()) > 0 and waiting.select(remaining_s):
            part = os.read(pipe, READ_BYTES)
            if not part:
                return
            raw_file.write(part)


# --- long-lived -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A process, identified by its id, its start and the boot: the id alone may be another's by
    now.

    `started`: clock ticks since boot, as /proc/PID/stat has it (proc_pid_stat(5), field 22).
    """

    pid: int
    started: int
    boot: str


def start(command: Command, log: Path) -> Process:
    """Starts a process that outlives this one, with its output appended to `log`, and returns it.
    Raises CouldNotRun, also where it ended at once."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with explain_unwritable(log, "Is there room?"):
        handle = os.open(log, flags, 0o600)
    try:
        child = command.start_process(stdout=handle, stderr=handle)
    finally:
        os.close(handle)
    process = look_up(child.pid)
    # Nobody waits for it: without a code, Popen would warn when it is collected.
    child.returncode = 0
    if process is None:
        raise CouldNotRun(command.label, f"ended at once: {find_telling_lines(read_tail(log))}", str(log), "")
    return process


def identify_pid_space() -> str:
    """Returns a text that names the boot of this machine and its PID namespace (a container has its
    own): a process id means nothing in another one, such as on a machine that shares a folder."""
    try:
        return f"{BOOT_ID.read_text().strip()} {os.readlink(PID_NAMESPACE)}"
    except OSError:
        return socket.gethostname()


def look_up(pid: int) -> Process | None:
    """Returns the process that has an id now; None when there is none, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = BOOT_ID.read_text().strip()
    except (OSError, ValueError):
        return None
    # The name, in parentheses, may hold anything; fields are counted behind it.
    fields = text.rpartition(")")[2].split()
    # A killed process's first thread is a zombie at once, and its others may still be writing.
    if fields[0] in "ZX" and int(fields[17]) <= 1:
        _reap(pid)
        return None
    return Process(pid, int(fields[19]), boot)


def is_killed(pid: int) -> bool:
    """Returns whether a process got SIGKILL and has not ended yet, or is a zombie
    (proc_pid_status(5)). It takes long where one of its threads waits in the kernel."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
    return fields.get("State", "").startswith("Z") or bool(pending & 1 << (signal.SIGKILL - 1))


def find_start(process: Process) -> float | None:
    """Returns when a process started, seconds since 1970; None for a process of another boot."""
    if BOOT_ID.read_text().strip() != process.boot:
        return None
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + process.started / os.sysconf("SC_CLK_TCK")


def read_cpu_seconds(pid: int | None) -> float | None:
    """Returns the processor time of a process so far, user and system, s (proc_pid_stat(5), fields
    14 and 15); None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runs(process: Process | None) -> bool:
    """Returns whether a process, or one of its threads, still runs; False for None."""
    return process is not None and look_up(process.pid) == process


def find_by_argument(argument: str, user: User) -> Process | None:
    """Returns the first process of `user` that has exactly this argument, None if there is none: a
    process whose id was not recorded, because the program that started it was killed."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            if folder.stat().st_uid == user.uid and argument.encode() in arguments:
                return look_up(int(folder.name))
    return None


def end_process(process: Process, how: signal.Signals, timeout_s: float) -> bool:
    """Sends a process the signal `how`, waits up to `timeout_s` and returns whether it ended."""
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not runs(process):
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(watched, how)
        gone = bool(select.select([watched], [], [], timeout_s)[0])
    finally:
        os.close(watched)
    _reap(process.pid)
    return gone


def wait_gone(process: Process, timeout_s: float) -> bool:
    """Waits up to `timeout_s` for the end of a process, and returns whether it ended."""
    return wait_until(lambda: not runs(process), timeout_s, LOOK_EVERY_S)


def _reap(pid: int) -> None:
    """Takes the exit code of a child, so that no zombie stays; ignores other processes."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


# --- failures -------------------------------------------------------------------------------------

# Most lines of an output that an error message shows, and most characters of each.
MOST_LINES, LINE_CHARACTERS = 4, 240
LAST_LINES = 3
# The stamp of a server's log: time, and the thread if it has one. The second form is that of
# MariaDB's crash handler.
STAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T] *\d+:\d\d:\d\d(?:\.\d+)?Z? +\d+ |^\d{6} +\d+:\d\d:\d\d ")
# Lines that are errors by their form or by the words of the operating system.
CERTAIN = re.compile(
    r"\b(?:ERROR|FATAL|ALERT|Fatal error|Error)\b|\berror:|^E(?:rr)?:|\bsignal \d| signal |Errcode: \d"
    r"|Permission denied|Operation not permitted|No space left|Read-only file system|Input/output error"
    r"|No such file or directory|Not a directory|cannot create|Cannot allocate memory|resource busy|target is busy|command not found"
)
# Lines that are errors by their words, where no line is one for certain.
LIKELY = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure)?|cannot|can't|could not|couldn't|unable|unknown|unrecognized|invalid"
    r"|wrong|denied|refused|missing|too (?:small|large|old|many)|not (?:found|mounted|permitted|allowed"
    r"|supported)|abort(?:ed|ing)?|killed|exceed(?:s|ed)?)\b|^W:",
    re.IGNORECASE,
)
MARKED_HARMLESS = re.compile(r"\[(?:Note|System|Warning)\]")
# Beginnings of the help of a program, which it prints after its error (mkfs.xfs,
# mariadb-install-db).
HELP_BEGINS = re.compile(
    r"^(?:[Uu]sage:|Examine the logs|The problem could be conflicting|You can also try to start"
    r"|The latest information about|Please (?:check all|report)|Try '|dmesg\(1\) may have)"
)
URL = re.compile(r"(?:\b(?:at|see) )?https?://\S+", re.IGNORECASE)
# Lines that servers print after the reason of their end.
AFTERMATH = re.compile(
    r"Aborting$|Plugin 'InnoDB' (?:init function|registration)|Unknown/unsupported storage engine"
    r"|storage engine '\w+' is not supported"
)


def find_telling_lines(output: str) -> str:
    """Returns the lines of a program's output that say what went wrong, each once, joined by " | ".

    Those are its errors: what ended it first, then the others in their order. If no line looks like
    an error they are the last few lines. Help, addresses of web pages and stamps are left out.
    """
    lines = [STAMP.sub("", line.strip()) for line in output.splitlines() if line.strip()]
    lines = list(dict.fromkeys(filter(None, (URL.sub("", line).strip() for line in _without_help(lines)))))
    certain = [line for line in lines if CERTAIN.search(line) and not _is_note(line)]
    likely = [line for line in lines if LIKELY.search(line) and not MARKED_HARMLESS.search(line)]
    reasons = [line for line in certain if not AFTERMATH.search(line)]
    reasons = reasons or [line for line in likely if not AFTERMATH.search(line)] or certain or likely
    chosen = sorted(reasons, key=lambda line: "FATAL" not in line)[:MOST_LINES] or lines[-LAST_LINES:]
    return " | ".join(line[:LINE_CHARACTERS] for line in chosen) or "it said nothing"


def _is_note(line: str) -> bool:
    """Returns whether a server's log marks the line as a note. Warnings are not: they may name the
    reason."""
    return bool(re.search(r"\[(?:Note|System)\]", line))


def _without_help(lines: list[str]) -> list[str]:
    """Returns the lines before the help of a program; all lines if there is nothing but help."""
    first = next((index for index, line in enumerate(lines) if HELP_BEGINS.search(line)), len(lines))
    return lines[:first] or lines


def read_tail(file: Path, since: int = 0) -> str:
    """Returns the last TAIL_BYTES of a file, from byte `since` on; "" if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            opened.seek(max(since, os.fstat(opened.fileno()).st_size - TAIL_BYTES))
            return opened.read().decode(errors="replace")
    except OSError:
        return ""
