"""Starts an existing server (volumes first, then the process), and stops it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from headrace.base import processes
from headrace.base.files import explain_unwritable, move_over, replace_file
from headrace.base.processes import Command, Process, User, find_telling_lines
from headrace.base.signals import ignore_interrupts
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import access, config, volumes
from headrace.servers.access import find_service_user
from headrace.servers.flavors import ServerProgram, find_program
from headrace.servers.record import Record, ServerPaths, refuse, save
from headrace.servers.topology.links import LOOPBACK, find_link

# Guesses. Recovery reads and writes pages at the volume's own speed: minutes at 100 IOPS.
READY_S = 1_800.0
# A shutdown writes every changed page back, at the same speed.
STOP_S = 1_800.0
# A killed process ends when its I/O does, which a paused volume holds up.
KILL_S = 60.0
LOOK_EVERY_S = 0.1
ANSWER_S = 10.0
# A longer error log is set aside when the server is started.
LOG_BYTES = 16 << 20

# Lines by which a server tells of its replication: of a source or a client that is gone, of
# retries. They do not say why it ended itself. MariaDB 10.11.19 as read in error logs 2026-11-24;
# MySQL marks them with the subsystem Repl (MySQL manual, Error Log Event Fields).
REPLICATION_NOISE = re.compile(
    r"\[Repl\]|\b(?:Slave|Replica) (?:I/O|SQL|worker)|[Ss]emi-?[Ss]ync|reconnecting to (?:the )?(?:master|source)"
    r"|reading packet from server|Aborted connection|[Bb]inlog dump"
)

Progress = Callable[[float, str], None]


def discard_progress(share: float, what: str) -> None:
    """Discards progress."""


def find_record_program(record: Record) -> ServerProgram:
    """Returns the server program of a record. Raises InputError, CouldNotRun."""
    return find_program(record.flavor, record.server_path)


def find_process(where: ServerPaths, record: Record) -> Process | None:
    """Returns a server's process, None if it does not run: that of the record, or one with its
    option file, which was started by a command that was killed before it saved the record."""
    if processes.runs(record.process):
        return record.process
    return processes.find_by_argument(f"--defaults-file={where.config}", find_service_user())


def write_config(
    where: ServerPaths, record: Record, program: ServerProgram, user: User, path: Path | None = None
) -> None:
    """Writes a server's option file (to `path`, None for its own place), and creates the folders
    and certificates that it names in /run. Raises CouldNotRun."""
    try:
        where.run.mkdir(mode=0o711, parents=True, exist_ok=True)
        sock = where.socket.parent
        sock.mkdir(mode=0o755, exist_ok=True)
        os.chown(sock, user.uid, user.gid)
    except OSError as error:
        raise CouldNotRun(str(where.run), f"cannot be made: {error.strerror}", "", "Is there room in /run?") from None
    if record.port is not None:
        access.place_certificates(where, user)
    log_volume = record.log_storage is not None
    given = record.options | record.settings
    options = config.assemble_options(program, record.engine, where, log_volume, record.port, given, record.host)
    text = config.render_options(options, f"{record.name}, {program.label}, {record.engine}")
    path = path or where.config
    with explain_unwritable(path, "Is there room in /run?"):  # whole or not at all, for the server's group to read
        replace_file(path, text.encode(), 0o640, user.gid)


def launch(
    where: ServerPaths,
    record: Record,
    program: ServerProgram,
    init_file: Path | None,
    progress: Progress,
    timeout_s: float,
    more: tuple[str, ...] = (),
) -> Record:
    """Starts a server's process on mounted volumes, waits until it answers, and returns and saves
    the record; kills it after an error. `more`: options for this start alone."""
    user = find_service_user()
    # Files of a killed server: MySQL would believe the lock if another process had its id now.
    lock = where.socket.with_name(f"{where.socket.name}.lock")
    for stale_file in (where.socket, lock, where.socket.with_suffix(".pid")):
        stale_file.unlink(missing_ok=True)
    if where.log.exists() and where.log.stat().st_size > LOG_BYTES:
        move_over(where.log, where.log.with_name(f"{where.log.name}.1"))
    begun = where.log.stat().st_size if where.log.exists() else 0
    init_options = (f"--init-file={init_file}",) if init_file else ()
    command = Command((*program.command, f"--defaults-file={where.config}", *init_options, *more), user=user)
    link = find_link(where, record.host)
    if link is None:
        started = processes.start(command, where.log)
    else:
        link.make()
        started = link.run_within(lambda: processes.start(command, where.log))
    try:
        record = record.with_(process=started, should_run=True, clean=False, log_begun=begun)
        save(where, record)
        _wait_ready(where, record, progress, timeout_s)
    except BaseException:
        processes.end_process(started, signal.SIGKILL, KILL_S)
        raise
    return record


def make_no_replication_option(program: ServerProgram) -> tuple[str, ...]:
    """Returns the option with which a server starts without replicating on any channel."""
    return ("--skip-slave-start" if program.flavor == "mariadb" else "--skip-replica-start",)


def _wait_ready(where: ServerPaths, record: Record, progress: Progress, timeout_s: float) -> None:
    """Waits until a server accepts Headrace's account. Raises CouldNotRun if it ends, or is not
    ready after `timeout_s`, InputError if it refuses the account."""
    from headrace.mysql import connect

    address = access.make_address(where, None)
    last_answer = ""

    def is_ready() -> bool:
        nonlocal last_answer
        if not processes.runs(record.process):
            raise make_death_error(where, record)
        if not where.socket.exists():
            last_answer = "no socket yet"
        else:
            try:
                connect(address, ANSWER_S).close()
                return True
            except InputError:
                raise  # it answers, and refuses the account
            except CouldNotRun as error:
                last_answer = error.rule
        progress(0.9, "waiting for the server")
        return False

    if not wait_until(is_ready, timeout_s, LOOK_EVERY_S):
        cause = read_last_errors(where.log, record.log_begun)
        rule = f"did not get ready within {timeout_s:g} s ({last_answer}): {cause}"
        raise CouldNotRun(record.name, rule, str(where.log), "Is its volume paused, or very slow?")


def make_death_error(where: ServerPaths, record: Record) -> CouldNotRun:
    """Returns the error for a server that ended by itself while it started."""
    cause = read_last_errors(where.log, record.log_begun)
    hint = volumes.explain_full_volume(cause, record.name if record.created else "")
    hint = hint or "When the server has been made, headrace mysql log shows more."
    return CouldNotRun(record.name, f"the server ended while it started: {cause}", str(where.log), hint)


def start(
    lab: Lab, where: ServerPaths, record: Record, progress: Progress = discard_progress, timeout_s: float = READY_S
) -> Record:
    """Starts a server from any state, waits until it answers, and returns its record. After an
    error the process is killed and the volumes are unmounted; no data are lost."""
    program, user = find_record_program(record), find_service_user()
    running = find_process(where, record)
    usable = running is not None and not volumes.list_obstacles(lab, where, record, running=True)
    if running is not None and usable and _answers(where, record, running):
        volumes.grow(where, record)
        return record.with_(process=running, should_run=True)
    check_port(record)
    if running is not None:
        # The server's devices are gone or broken. Commits that it acknowledged are in its logs.
        _kill(record, running)
    record = record.with_(version_text=program.version_text)  # its package may have been upgraded
    try:
        write_config(where, record, program, user)
        progress(0.3, "mounting the volumes")
        volumes.bring_back(lab, where, record)
        progress(0.6, "starting the server")
        return launch(where, record, program, None, progress, timeout_s)
    except BaseException:
        # Also Ctrl-C: nothing is left running or mounted.
        with ignore_interrupts():
            volumes.unmount_quietly(where)
            save(where, record.with_(process=None, should_run=False))
        raise


def _answers(where: ServerPaths, record: Record, running: Process) -> bool:
    """Returns whether a process answers as a server; False if it ended meanwhile. Raises
    CouldNotRun if it runs and does not answer within ANSWER_S seconds."""
    from headrace.mysql import connect

    deadline = time.monotonic() + ANSWER_S
    while processes.runs(running):
        try:
            connect(access.make_address(where, None), ANSWER_S).close()
            return True
        except CouldNotRun as error:
            if time.monotonic() >= deadline:
                rule = f"runs as process {running.pid} and does not answer: {error.rule}"
                hint = f"See headrace mysql log {record.name}; headrace mysql down {record.name} --kill ends it."
                raise CouldNotRun(record.name, rule, str(where.log), hint) from None
            time.sleep(LOOK_EVERY_S)
    return False


def check_port(record: Record) -> None:
    """Raises InputError if another program has the port of a server at 127.0.0.1."""
    import socket

    if record.port is None or record.host != LOOPBACK:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", record.port))
        except OSError as error:
            rule = f"cannot be used: {error.strerror}"
            hint = f"Choose another, or see who has it: ss -ltnp 'sport = :{record.port}'"
            raise InputError(f"port {record.port} of 127.0.0.1", rule, "bind(2)", hint) from None


def stop(
    where: ServerPaths, record: Record, kill: bool, progress: Progress = discard_progress, timeout_s: float = STOP_S
) -> Record:
    """Shuts a server down, or kills it, unmounts its filesystems, and returns and saves its record;
    the volumes stay attached. Raises CouldNotRun if it has not ended after `timeout_s`."""
    running = find_process(where, record)
    clean = record.clean and running is None
    if running is not None:
        begun = where.log.stat().st_size if where.log.exists() else 0
        if kill:
            _kill(record, running)
        else:
            # If this is interrupted, the record says already that the server is meant to be down.
            record = record.with_(should_run=False)
            save(where, record.with_(process=running))
            _end(record, running, progress, timeout_s)
            # The exit code goes to another process; both flavors end with "Shutdown complete".
            clean = "hutdown complete" in processes.read_tail(where.log, begun)
    for _, place in volumes.list_own_mounts(where, record):
        volumes.unmount(place, lazily=True)
    ended = record.with_(process=None, should_run=False, clean=clean)
    save(where, ended)
    return ended


def _end(record: Record, running: Process, progress: Progress, timeout_s: float) -> None:
    """Asks a server to shut down, and waits for its end. Raises CouldNotRun after `timeout_s`."""
    processes.end_process(running, signal.SIGTERM, 0)
    began = time.monotonic()
    while not processes.wait_gone(running, 1.0):
        passed = time.monotonic() - began
        progress(min(0.9, passed / timeout_s), "the server writes its pages back")
        if passed > timeout_s:
            rule = f"has not ended after {timeout_s:g} s: it writes changed pages back at the volume's speed"
            hint = f"Wait and try again, or kill it: headrace mysql down {record.name} --kill"
            raise refuse.run(record.name, rule, hint)


def _kill(record: Record, running: Process) -> None:
    """Kills a server and waits for its end. Raises CouldNotRun if it does not end in KILL_S
    seconds."""
    if not processes.end_process(running, signal.SIGKILL, KILL_S):
        rule = f"does not end within {KILL_S:g} s though it was killed: it waits for its volume"
        hint = "Clear the volume's faults: headrace volume fault VOL --clear all."
        raise CouldNotRun(f"{record.name}, process {running.pid}", rule, "signal(7)", hint)


def read_last_errors(log: Path, since: int = 0) -> str:
    """Returns the last errors in a server's log from byte `since` on, in a line."""
    return find_telling_lines(processes.read_tail(log, since)) if log.exists() else "it left no log"


def explain_death(log: Path, since: int) -> str:
    """Returns why a server that was ready ended, by its log from byte `since` on."""
    text = processes.read_tail(log, since)
    lines = [line for line in text.splitlines() if not REPLICATION_NOISE.search(line) or volumes.NO_ROOM.search(line)]
    cause = find_telling_lines("\n".join(lines))
    if "ERROR" in cause or " signal " in cause:
        return cause
    return "its log does not mention it, so it was killed from outside (kill -9, out of memory)"


def describe_error(error: Exception) -> str:
    """Returns an error as text of one line."""
    return f"{error.value}: {error.rule}" if isinstance(error, HeadraceError) else str(error)
