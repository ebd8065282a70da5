"""The server's process: started as another user, known again later, ended.

A process is known by its id, when it started and in which boot: an id alone may be another's by now.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CouldNotRun

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOOK_EVERY_S = 0.05
# Nothing of the caller's that could hold a secret or point elsewhere.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True)
class Process:
    """`started`: clock ticks since boot, as /proc/PID/stat has it (proc_pid_stat(5), field 22)."""

    pid: int
    started: int
    boot: str


@dataclass(frozen=True)
class User:
    """Who a server runs as."""

    name: str
    uid: int
    gid: int


def service_user() -> User:
    """The user `mysql`. Raises CouldNotRun."""
    try:
        entry = pwd.getpwnam("mysql")
    except KeyError:
        rule = "there is no such user, and a server does not run as root"
        hint = "useradd --system --no-create-home --shell /usr/sbin/nologin mysql (`headrace mysql install` does it)"
        raise CouldNotRun("user mysql", rule, "docs/guide/mysql-on-the-lab.md", hint) from None
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid)


def check_root() -> None:
    """Raises CouldNotRun for anyone else."""
    if os.geteuid() != 0:
        rule = "mounting a volume and starting a server as another user takes root"
        raise CouldNotRun(f"user id {os.geteuid()}", rule, "mount(2), setuid(2)", "Run it with sudo.")


def look_up(pid: int) -> Process | None:
    """The process of an id that runs now; None when there is none, or it has ended and nobody has asked yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = BOOT_ID.read_text().strip()
    except (OSError, ValueError):
        return None
    # The name, in parentheses, may hold anything; fields are counted behind it.
    fields = text.rpartition(")")[2].split()
    # A killed server's first thread is a zombie at once, and its others may still be writing.
    if fields[0] in "ZX" and int(fields[17]) <= 1:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # it may be ours
        return None
    return Process(pid, int(fields[19]), boot)


def runs(process: Process | None) -> bool:
    """Whether any thread of it still does."""
    return process is not None and look_up(process.pid) == process


def with_argument(argument: str, user: User) -> Process | None:
    """A process of `user` that was started with exactly this argument: one whose starter was killed before it could note the id."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == user.uid and argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return look_up(int(folder.name))
    return None


def start(words: list[str], user: User, log: Path) -> Process:
    """Starts it in a session of its own, with the user's rights and no others, its words appended to `log`. Raises CouldNotRun."""
    try:
        with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as said:
            started = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, cwd="/", umask=0o027,
                user=user.uid, group=user.gid, extra_groups=[], env=ENVIRONMENT,
            )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise CouldNotRun(words[0], f"could not be started: {error}", "", "Is it built for this machine?") from None
    found = look_up(started.pid)
    # Not ours to wait for any more: it lives on as a process of its own.
    started.returncode = 0
    if found is None:
        raise CouldNotRun(words[0], f"ended at once: {last_words(log)}", str(log), "")
    return found


def ended_as(words: list[str], user: User, timeout_s: float, what: str) -> tuple[int, str]:
    """Runs a program to its end, with the user's rights: its exit code, and what it said on both streams. Raises CouldNotRun."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", timeout=timeout_s,
            user=user.uid, group=user.gid, extra_groups=[], env=ENVIRONMENT, umask=0o027,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CouldNotRun(what, f"did not end within {timeout_s:g} s", words[0], "Is the disk of this machine busy?") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise CouldNotRun(what, f"could not be started: {error}", words[0], "") from None
    return done.returncode, done.stdout.decode(errors="replace")


def run_as(words: list[str], user: User, timeout_s: float, what: str, source: str) -> None:
    """The same for what must end well. Raises CouldNotRun with its errors."""
    code, text = ended_as(words, user, timeout_s, what)
    if code != 0:
        raise CouldNotRun(what, f"failed (exit code {code}): {shortened(text)}", source, no_room_hint(text))


# ENOSPC as MariaDB, InnoDB and the kernel say it.
NO_ROOM = re.compile(r"[Ee]rror (?:number )?28\b|Errcode: 28\b|errno: 28\b|No space left")


def no_room_hint(text: str) -> str:
    """What to do about a volume that is full; "" where that is not what is said."""
    return (
        "Its volume is full: take a larger one, smaller logs, or (headrace volume modify) make this one larger."
        if NO_ROOM.search(text)
        else ""
    )


def end(process: Process, how: signal.Signals, timeout_s: float) -> bool:
    """Sends the signal and waits until it is gone; False when it is not within `timeout_s`. 0 s: only asks."""
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
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return gone


def wait_gone(process: Process, timeout_s: float) -> bool:
    """Whether it ended within that time."""
    deadline = time.monotonic() + timeout_s
    while runs(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


TAIL_BYTES = 65_536
MOST_LINES = 4
LINE_CHARACTERS = 240
# MySQL, MariaDB and MariaDB's crash handler: time, and thread where there is one.
STAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d+:\d\d:\d\d(?:\.\d+)?Z? +\d+ |^\d{6} +\d+:\d\d:\d\d ")
# Said of a crash, and not its reason.
AFTERMATH = ("Aborting", "Plugin 'InnoDB' init function", "Plugin 'InnoDB' registration", "Unknown/unsupported storage engine")


def last_words(log: Path, since: int = 0) -> str:
    """What the server said was wrong, from `since` bytes of its log on; where it said of nothing, its last line."""
    try:
        with open(log, "rb") as file:
            file.seek(max(since, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return shortened(file.read().decode(errors="replace"))
    except OSError:
        return "it left no log"


def shortened(text: str) -> str:
    """The errors of a server's output, each once, the first ones first; its last line when there are none."""
    lines = [STAMP.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    errors = list(dict.fromkeys(line for line in lines if "ERROR" in line or "error:" in line or " signal " in line))
    reasons = [line for line in errors if not any(word in line for word in AFTERMATH)] or errors
    # What ended it comes before what went wrong beside it.
    reasons.sort(key=lambda line: "FATAL" not in line)
    chosen = reasons[:MOST_LINES] or lines[-1:]
    return " | ".join(line[:LINE_CHARACTERS] for line in chosen) or "it said nothing"


def reason_of_death(log: Path, since: int) -> str:
    """Why a server that was ready is gone, by its log."""
    said = last_words(log, since)
    if "ERROR" in said or " signal " in said:
        return said
    return "its log says nothing of it, so it was killed from outside (kill -9, out of memory)"
