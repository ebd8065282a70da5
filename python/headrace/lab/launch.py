"""Starts and ends headraced, and the processes that serve its metrics and its AWS endpoint."""

from __future__ import annotations

import contextlib
import grp
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.base import settings as variables
from headrace.base.files import explain_unwritable, move_over
from headrace.base.processes import spawn
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab.client import Lab
from headrace.lab.exporter import listen as exporter_listen
from headrace.lab.place import API_PORT, DEFAULT_DATA_DIR, METRICS_PORT, READY_S, Place, find_place, get_endpoint_file
from headrace.lab.wire import Disconnected, LabRefused, NoLab

BINARY = "headraced"
LOG_NAME = "headraced.log"
# A longer log is set aside (one is kept) when a lab is started.
LOG_BYTES = 16 << 20
# The longest wait for the end of a daemon, which first flushes all that was written.
DOWN_S = 120.0
# Lines of its log that an error shows: what a daemon says at its end.
LOG_LINES = 8
# A daemon flushes before it ends; if it does not end within this time, it is killed.
STOP_GRACE_S = 10.0
# Enough for those lines.
LOG_TAIL_BYTES = 16_384


@dataclass(frozen=True)
class Settings:
    """Settings with which a lab is started; a setting of None stays as it was in this data
    directory.

    `time_scale`: seconds of lab time in a real second. `metrics_port`: where Prometheus finds the
    metrics, on 127.0.0.1; `api_port`: where the AWS tools find the endpoint; 0: nowhere.
    `snapshot_store`: URL of the object store of snapshots, file:// or s3://.
    """

    instance_type: str | None = None
    as_of: str | None = None
    time_scale: int | None = None
    metrics_port: int = METRICS_PORT
    group: str | None = None
    api_port: int = API_PORT
    snapshot_store: str | None = None


def find_headraced() -> Path:
    """Returns the daemon's program: $HEADRACED, else next to this Python, else in PATH. Raises
    InputError, CouldNotRun."""
    named = variables.find_value("HEADRACED")
    if named:
        if not (os.path.isfile(named) and os.access(named, os.X_OK)):
            hint = "Name the headraced binary, or unset it."
            raise InputError(f"HEADRACED={named}", "is not a program that can be run", "", hint)
        return Path(os.path.abspath(named))
    next_to_python = Path(sys.executable).parent / BINARY
    if next_to_python.is_file() and os.access(next_to_python, os.X_OK):
        return next_to_python
    in_path = shutil.which(BINARY)
    if in_path is None:
        hint = "Build it (cargo build --release -p headrace-daemon), then set HEADRACED to its path."
        raise CouldNotRun(BINARY, f"was not found: not in HEADRACED, {next_to_python.parent} or PATH", "", hint)
    return Path(os.path.abspath(in_path))


def build_command_line(where: Place, settings: Settings) -> list[str]:
    """Returns program and arguments of the daemon. Raises InputError, CouldNotRun."""
    arguments = [str(find_headraced()), "--data-dir", str(get_data_folder(where)), "--socket", str(where.socket)]
    group = None if settings.group is None else _find_group_id(settings.group)
    given = {
        "--instance-type": settings.instance_type,
        "--as-of": settings.as_of,
        "--time-scale": settings.time_scale,
        "--metrics-port": settings.metrics_port,
        "--group": group,
        "--snapshot-store": settings.snapshot_store,
    }
    for option, value in given.items():
        arguments += [] if value is None else [option, str(value)]
    return arguments


def get_data_folder(where: Place) -> Path:
    """Returns the data directory, the default one where only a socket is named."""
    return where.data_dir or DEFAULT_DATA_DIR


def _find_group_id(group: str) -> int:
    """Returns the id of a group by its name or number. Raises InputError."""
    if group.isascii() and group.isdigit() and len(group) < 10:
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise InputError(group, "is not a group of this machine", "/etc/group", "See getent group.") from None


@dataclass(frozen=True)
class _Helper:
    """A process without privileges that serves metrics or the AWS endpoint on its port for as long
    as the daemon runs."""

    what: str
    option: str
    module: str
    listener: socket.socket

    def build_arguments(self, where: Place, *mode: str) -> list[str]:
        """Returns program and arguments of the process."""
        places = [str(where.socket)]
        if self.what == "api":
            places.append(str(get_data_folder(where)))
        return [sys.executable, "-m", self.module, *places, str(self.listener.fileno()), *mode]


def _open_helpers(settings: Settings, open_files: contextlib.ExitStack) -> list[_Helper]:
    """Returns the helpers of the settings, each with a listening socket, which `open_files` closes.
    Raises CouldNotRun if a port cannot be used."""
    services = (
        ("metrics", "--metrics-port", "headrace.operate.exports.lab", settings.metrics_port),
        ("api", "--api-port", "headrace.api.server.supervisor", settings.api_port),
    )
    helpers = []
    for what, option, module, port in services:
        if not port:
            continue
        try:
            listener = open_files.enter_context(exporter_listen(port))
        except OSError as error:
            hint = f"Name another {option}, or 0 for none."
            raise CouldNotRun(f"{what} at 127.0.0.1:{port}", f"cannot be served: {error.strerror}", "", hint) from None
        helpers.append(_Helper(what, option, module, listener))
    return helpers


def start_lab(
    data_dir: str | Path | None = None,
    socket: str | Path | None = None,
    settings: Settings | None = None,
    timeout_s: float = READY_S,
) -> Lab:
    """Starts a daemon in a new session, waits until it answers and its helpers serve, and returns a
    connection. Raises LabRefused (in-use) if a lab already answers there, InputError for settings
    that it refuses, and CouldNotRun with the last lines of its log."""
    where, settings = find_place(data_dir, socket), settings or Settings()
    refuse_second(where)
    arguments = build_command_line(where, settings)
    _check_root()
    with contextlib.ExitStack() as open_files:
        helpers = _open_helpers(settings, open_files)
        log = open_files.enter_context(_open_log(where))
        log_bytes = os.fstat(log.fileno()).st_size
        try:
            started = spawn(arguments, stdout=subprocess.PIPE, stderr=log)
        except OSError as error:
            rule = f"could not be started: {error.strerror or error}"
            raise CouldNotRun(arguments[0], rule, "", "Is it built for this machine?") from None
        output = started.stdout
        assert output is not None
        with output:
            _wait_ready(started, output.fileno(), where, log_bytes, timeout_s)
        # Popen need not wait for it any more: it lives on as a process of its own.
        started.returncode = 0
        get_endpoint_file(get_data_folder(where)).unlink(missing_ok=True)  # of a lab that was killed
        lab = Lab(where.data_dir, where.socket)
        for helper in helpers:
            if not _start_helper(helper, where, log):
                with contextlib.suppress(HeadraceError):
                    lab.down(force=True)
                rule = f"could not be served: {_read_last_lines(where, log_bytes)}"
                raise CouldNotRun(helper.what, rule, "", f"Use {helper.option} 0 for a lab without it.")
    return lab


def _start_helper(helper: _Helper, where: Place, log: IO[bytes]) -> bool:
    """Starts a helper of a running daemon, and returns whether it serves."""
    # Returns when it has its connection; it stays behind as a process of its own.
    served = subprocess.run(
        helper.build_arguments(where, "detach"),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=(helper.listener.fileno(),),
        check=False,
    )
    return served.returncode == 0


def serve_again(lab: Lab, api_port: int) -> None:
    """Starts the AWS endpoint of a running lab whose endpoint has ended. Raises CouldNotRun."""
    _check_root()
    # The lab says where it is: it may have been found by its socket alone.
    where = Place(Path(lab.status()["data_dir"]), lab.place.socket)
    with contextlib.ExitStack() as open_files:
        [helper] = _open_helpers(Settings(metrics_port=0, api_port=api_port), open_files)
        log = open_files.enter_context(_open_log(where))
        log_bytes = os.fstat(log.fileno()).st_size
        if not _start_helper(helper, where, log):
            rule = f"could not be served: {_read_last_lines(where, log_bytes)}"
            raise CouldNotRun(helper.what, rule, "", f"{get_data_folder(where) / LOG_NAME} has more.")


def become_daemon(
    data_dir: str | Path | None = None, socket: str | Path | None = None, settings: Settings | None = None
) -> None:
    """Replaces this process by the daemon, for systemd, containers and debuggers. It does not
    return, and raises as `start_lab` if the daemon cannot be started."""
    where = find_place(data_dir, socket)
    refuse_second(where)
    settings = settings or Settings()
    arguments = build_command_line(where, settings)
    _check_root()
    with contextlib.ExitStack() as open_files:
        helpers = _open_helpers(settings, open_files)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for helper in helpers:
                # It waits for the daemon that this process becomes, and ends with it. "ready" is
                # the daemon's to say.
                listener = helper.listener.fileno()
                spawn(helper.build_arguments(where), stderr=None, folder=None, passed=(listener,), own_session=False)
            if not settings.api_port:
                get_endpoint_file(get_data_folder(where)).unlink(missing_ok=True)  # of a lab that had one
            # The listening sockets are theirs alone: this process does not pass them on.
            os.execv(arguments[0], arguments)
        except OSError as error:
            rule = f"could not be started: {error.strerror or error}"
            raise CouldNotRun(arguments[0], rule, "", "Is it built for this machine?") from None


def refuse_second(where: Place) -> None:
    """Raises LabRefused if a lab answers at this place. A lab that is ending loses its connections:
    waits up to DOWN_S for its end, then raises Disconnected."""
    lost: list[Disconnected] = []

    def is_free() -> bool:
        try:
            _refuse_answering(where)
        except Disconnected as error:
            lost.append(error)
            return False
        return True

    if not wait_until(is_free, DOWN_S, 0.1):
        raise lost[-1]


def _refuse_answering(where: Place) -> None:
    """Raises LabRefused if a lab answers at this place, Disconnected if one loses the
    connection."""
    with contextlib.suppress(NoLab), Lab(where.data_dir, where.socket) as lab:
        lab.status()
        raise LabRefused(
            "in-use",
            str(where.socket),
            f"a lab already answers here (process {lab.get_pid()})",
            "",
            f"End it first: headrace lab down{where.build_flags()}",
        )


def _check_root() -> None:
    """Raises CouldNotRun unless this process is root's."""
    if os.geteuid() != 0:
        rule = "a lab mounts FUSE and makes loop devices, which only root may"
        hint = "Run it with sudo. headrace lab doctor says what else is missing."
        raise CouldNotRun(f"user id {os.geteuid()}", rule, "mount(2), loop(4)", hint)


def _open_log(where: Place):
    """Opens the log in the data directory to append, and renames a log of more than LOG_BYTES
    first. Directory and log are made for their owner alone. Raises CouldNotRun."""
    folder = get_data_folder(where)
    path = folder / LOG_NAME
    with explain_unwritable(path, "Choose another directory with --lab."):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_BYTES:
            move_over(path, path.with_name(f"{LOG_NAME}.1"))
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab", buffering=0)


def _wait_ready(started: subprocess.Popen, output: int, where: Place, log_bytes: int, timeout_s: float) -> None:
    """Waits until the daemon writes "ready" to the pipe `output`. `log_bytes`: bytes in its log
    before it. Raises the daemon's own refusal, or CouldNotRun after `timeout_s`; then it is
    ended."""
    deadline = time.monotonic() + timeout_s
    line = b""
    try:
        while b"\n" not in line:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not select.select([output], [], [], remaining_s)[0]:
                raise TimeoutError
            part = os.read(output, 4096)
            if not part:
                break
            line += part
    except TimeoutError:
        _end(started)
        rule = f"was not ready after {timeout_s:g} s: {_read_last_lines(where, log_bytes)}"
        raise CouldNotRun(BINARY, rule, "", _describe_log(where)) from None
    except BaseException:
        _end(started)  # Ctrl-C: no half-started lab stays behind
        raise
    if line.strip() == b"ready":
        return
    code = _end(started) if line else started.wait()
    raise _read_refusal(code, where, log_bytes)


# The last line of a failed headraced: error: VALUE: RULE (SOURCE). HINT
ERROR_LINE = re.compile(
    r"error: (?P<value>.*?): (?P<rule>.*?)(?: \((?P<source>[^()]*(?:\([^()]*\)[^()]*)*)\)\. (?P<hint>.*))?"
)


def _read_refusal(code: int, where: Place, log_bytes: int) -> CouldNotRun | InputError:
    """Returns the error that the daemon printed before it ended, in its parts if it has them.
    `code`: its exit code; `log_bytes`: bytes in the log before it."""
    for line in _read_log_since(where, log_bytes).splitlines():
        match = ERROR_LINE.fullmatch(line)
        if match:
            error_class = InputError if code == 2 else CouldNotRun
            return error_class(
                match["value"], match["rule"], match["source"] or "", match["hint"] or _describe_log(where)
            )
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return CouldNotRun(
        BINARY, f"{how} before it was ready: {_read_last_lines(where, log_bytes)}", "", _describe_log(where)
    )


def _end(started: subprocess.Popen) -> int:
    """Ends a daemon that did not become ready, by force after STOP_GRACE_S seconds, and returns its
    exit code."""
    started.terminate()
    try:
        return started.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        started.kill()
        return started.wait()


def _read_last_lines(where: Place, log_bytes: int) -> str:
    """Returns the last LOG_LINES lines that the daemon wrote to its log behind byte `log_bytes`."""
    lines = _read_log_since(where, log_bytes).strip().splitlines()
    return " | ".join(line.strip() for line in lines[-LOG_LINES:]) or "it said nothing"


def _read_log_since(where: Place, log_bytes: int) -> str:
    """Returns the log from byte `log_bytes` on, at most its last LOG_TAIL_BYTES."""
    try:
        with open(get_data_folder(where) / LOG_NAME, "rb") as file:
            file.seek(max(log_bytes, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _describe_log(where: Place) -> str:
    return (
        f"headrace lab doctor{where.build_flags()} looks at this machine; {get_data_folder(where) / LOG_NAME} has more."
    )


def stop_lab(lab: Lab, force: bool = False, timeout_s: float = DOWN_S) -> int:
    """Detaches all volumes, ends the daemon, waits until its process has ended, and returns the id
    of that process. Raises as Lab.down, and CouldNotRun if it does not end in `timeout_s`."""
    pid = lab.get_pid()
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        raise NoLab(str(lab.place.socket), "the lab has just ended", "", "") from None
    try:
        lab.down(force)
        # The daemon ends when its last caller is gone, or sooner.
        lab.close()
        if not select.select([watched], [], [], timeout_s)[0]:
            rule = f"still runs {timeout_s:g} s after it was told to end"
            hint = f"See {LOG_NAME}; what uses a volume shows in `lsblk` and `fuser -m`."
            raise CouldNotRun(f"{BINARY}, process {pid}", rule, "", hint)
    finally:
        os.close(watched)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # it may be a child of this process, when `up` was called here
    return pid
