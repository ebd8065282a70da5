"""Calls headraced: one JSON object a line over a Unix socket; failures become errors.

docs/reference/lab-protocol.md describes the protocol.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

import msgspec

from headrace.base.processes import is_killed
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.lab.place import Place

refuse = Refusals("docs/reference/lab-protocol.md")
# The daemon's limit (docs/reference/lab-protocol.md, Rules).
MAX_LINE_BYTES = 1 << 20
# An answer is longer than a call: 21,600 minutes of metrics at some 300 bytes each are 6.5 MB.
MAX_ANSWER_BYTES = 64 << 20
# Read at once.
CHUNK_BYTES = 1 << 16
# Made once: json.dumps makes one for each call that has such options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# The kind of refusals that the caller did not cause.
UNAVAILABLE = "unavailable"


class LabRefused(InputError):
    """The refusal of a call by the lab. Exit code 2.

    `kind` as in docs/reference/lab-protocol.md; `code` and `message` as in the EC2 API, "" if it
    was not the daemon that refused.
    """

    def __init__(
        self,
        kind: str,
        value: str,
        rule: str,
        source: str = "",
        hint: str = "",
        code: str = "",
        message: str = "",
    ) -> None:
        super().__init__(value, rule, source, hint, kind=kind)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.kind, self.value, self.rule, self.source, self.hint, self.code, self.message))


class LabUnavailable(CouldNotRun):
    """The lab's machine could not do what was asked: disk, kernel, devices. Exit code 3.

    `code` and `message` as those of LabRefused.
    """

    def __init__(
        self, value: str, rule: str, source: str = "", hint: str = "", code: str = "", message: str = ""
    ) -> None:
        super().__init__(value, rule, source, hint, kind=UNAVAILABLE)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.value, self.rule, self.source, self.hint, self.code, self.message))


class NoLab(CouldNotRun):
    """No lab answers at that socket. Exit code 3."""


class Disconnected(CouldNotRun):
    """The connection was lost before the answer came. Exit code 3."""


class Wire:
    """A connection to headraced, made at the first call and again if it was lost between two calls.
    Calls from several threads wait for each other."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._unread = b""
        self._id = 0

    def call(self, name: str, args: dict, timeout_s: float, token: str | None = None, dry_run: bool = False) -> dict:
        """Makes a call and returns its result. A call that is repeated with the same `token` is
        carried out once; one with `dry_run` is only decided, and ends with LabRefused. Raises
        LabRefused, NoLab, CouldNotRun."""
        with self._lock:
            self._id += 1
            envelope = ({} if token is None else {"token": token}) | ({"dry_run": True} if dry_run else {})
            line = _encode_line({"id": self._id, "call": name, "args": args, **envelope}, name)
            deadline = time.monotonic() + timeout_s
            try:
                self._send(line, deadline)
                answer = self._receive(deadline, name)
            except TimeoutError:
                self.close()
                raise self._make_late_error(name, timeout_s) from None
            except OSError as error:
                self.close()
                raise self._make_lost_error(name, error.strerror or str(error)) from None
            except BaseException:
                # The answer may still come, and would be taken for the answer to the next call.
                self.close()
                raise
            return self._check_answer(answer, name)

    def read_peer_pid(self, timeout_s: float = 5.0) -> int:
        """Returns the process id of the daemon, from the kernel. Raises NoLab, CouldNotRun."""
        with self._lock:
            return _read_peer_pid(self._connect(time.monotonic() + timeout_s))

    def close(self) -> None:
        """Ends the connection; the next call makes a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unread = None, b""

    def _connect(self, deadline: float) -> socket.socket:
        """Returns the connection, and makes it first if it is not open. `deadline` is that of
        time.monotonic(). Raises NoLab if no lab answers or this user may not use it, and
        OSError."""
        if self._socket is not None:
            return self._socket
        path = str(self.place.socket)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_compute_seconds_until(deadline))
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            connection.close()
            raise NoLab(
                path, "no lab answers at this socket", "", f"Start one: headrace lab up{self.place.build_flags()}"
            ) from None
        except PermissionError:
            connection.close()
            raise NoLab(
                path, "you may not use this lab", refuse.source, "Run it as root (sudo), or start the lab with --group."
            ) from None
        except OSError:
            connection.close()
            raise
        pid = _read_peer_pid(connection)
        if is_killed(pid):
            # The sockets of such a process stay open until it has ended, and nobody answers there.
            connection.close()
            raise NoLab(
                path,
                f"its daemon, process {pid}, was killed and has not ended",
                "",
                f"End it and start the lab again: headrace lab up{self.place.build_flags()}",
            )
        self._socket, self._unread = connection, b""
        return connection

    def _send(self, line: bytes, deadline: float) -> None:
        """Sends a call, over a new connection if the old one was lost. `deadline`: by
        time.monotonic(), s. Raises NoLab, OSError."""
        fresh = self._socket is None
        connected = self._connect(deadline)
        try:
            connected.settimeout(_compute_seconds_until(deadline))
            connected.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            if fresh:
                return  # the daemon refused the connection, and said why: that is read next
            # The daemon went away since the last call, so it has not read this one.
            self.close()
            self._send(line, deadline)

    def _receive(self, deadline: float, name: str) -> object:
        """Reads one answer. `deadline`: by time.monotonic(), s; `name`: the call, in errors. Raises
        OSError (also TimeoutError), CouldNotRun for an answer that is too long or not JSON."""
        connected = self._connect(deadline)
        parts, size = [self._unread], len(self._unread)
        while b"\n" not in parts[-1]:
            connected.settimeout(_compute_seconds_until(deadline))
            part = connected.recv(CHUNK_BYTES)
            if not part:
                raise ConnectionResetError(0, "the lab ended the connection")
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise self._make_nonsense_error(name, f"an answer is longer than {MAX_ANSWER_BYTES:,} bytes")
            parts.append(part)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise self._make_nonsense_error(name, f"an answer is not JSON: {line[:60]!r}") from None

    def _check_answer(self, answer: object, name: str) -> dict:
        """Returns the result in an answer. Raises the daemon's refusal, and CouldNotRun for an
        answer to another call; then the connection is ended."""
        # An error with id null is about the connection itself: too many, or a line that was not
        # understood.
        parts = answer if isinstance(answer, dict) else {}
        named = parts.get("id", False)
        is_own = type(named) is int and named == self._id
        if is_own or named is None:
            error, result = parts.get("error"), parts.get("result")
            if isinstance(error, dict):
                if named is None:
                    self.close()
                raise _make_refusal(error)
            if is_own and isinstance(result, dict):
                return result
        self.close()
        raise self._make_nonsense_error(name, f"an answer is not one to this call: {json.dumps(answer)[:60]}")

    def _make_nonsense_error(self, name: str, what: str) -> CouldNotRun:
        return refuse.run(f"{self.place.socket}: {name}", what, "Is it headraced, and of the same version?")

    def _make_late_error(self, name: str, timeout_s: float) -> CouldNotRun:
        rule = f"the lab did not answer within {timeout_s:g} s; whether it was done is not known"
        hint = f"See headrace lab status{self.place.build_flags()}, and headraced.log."
        return CouldNotRun(f"{self.place.socket}: {name}", rule, "", hint)

    def _make_lost_error(self, name: str, why: str) -> Disconnected:
        """Returns the error for a connection that was lost before the answer came."""
        rule = f"the connection was lost before the answer came ({why}); whether it was done is not known"
        return Disconnected(
            f"{self.place.socket}: {name}",
            rule,
            "",
            f"See headrace lab status{self.place.build_flags()}, and headraced.log.",
        )


def _read_peer_pid(connection: socket.socket) -> int:
    """Returns the id of the process that listens at the other end (unix(7), SO_PEERCRED)."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid


def _compute_seconds_until(deadline: float) -> float:
    """Returns the seconds until a time by time.monotonic(), s. Raises TimeoutError once it has
    passed."""
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


def _encode_line(call: dict, name: str) -> bytes:
    """Returns a call as a line of JSON. Raises InputError for values that JSON does not have, and
    for more than MAX_LINE_BYTES."""
    try:
        # A lone surrogate (a file name that is not UTF-8) has no place in JSON text.
        line = _ENCODER.encode(call).encode() + b"\n"
    except (ValueError, TypeError) as error:
        rule = f"an argument cannot be written as JSON: {str(error)[:100]}"
        raise refuse.input(name, rule, "Use text and finite numbers.") from None
    if len(line) > MAX_LINE_BYTES:
        rule = f"a call has at most {MAX_LINE_BYTES:,} bytes"
        raise refuse.input(f"{name}: {len(line):,} bytes", rule, "Send less at once.")
    return line


def _make_refusal(error: dict) -> CouldNotRun | LabRefused:
    """Returns the error of a refusal: CouldNotRun if the caller did not cause it, else
    LabRefused."""
    kind = str(error.get("kind", ""))
    parts = [str(error.get(part) or "") for part in ("value", "rule", "source", "hint", "code", "message")]
    if kind == UNAVAILABLE:
        return LabUnavailable(*parts)
    value, rule, source, hint, _, _ = parts
    return LabRefused(kind, *parts) if kind else CouldNotRun(value, rule, source, hint)
