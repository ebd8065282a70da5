"""The place of a lab: its data directory and its socket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.base import settings
from headrace.errors import InputError

# The port of `headrace lab up` since its first version; free in Prometheus' list of default ports.
METRICS_PORT = 9464
# The AWS endpoint; the next one. Free in IANA's list of registered ports.
API_PORT = 9465
# Every volume that was attached gets its device back before the daemon is ready: 64 of them, each
# some hundred milliseconds, and a journal to read.
READY_S = 120.0
DEFAULT_DATA_DIR = Path(settings.VARIABLES["HEADRACE_LAB"].default)
DEFAULT_SOCKET = Path("/run/headrace/lab.sock")
SOCKET_NAME = "lab.sock"
ENDPOINT_NAME = "api.json"
# struct sockaddr_un holds 108 bytes, one of them the final zero (unix(7)).
MAX_SOCKET_BYTES = 107


@dataclass(frozen=True)
class Place:
    """The data directory of a lab as given (None: only the socket is known), and its socket."""

    data_dir: Path | None
    socket: Path

    def build_flags(self) -> str:
        """Returns the options with which a `headrace` command finds this lab again: "" for the
        default."""
        if self.data_dir is not None and self.socket == get_socket(self.data_dir):
            return "" if self.data_dir == DEFAULT_DATA_DIR else f" --lab {self.data_dir}"
        return f" --socket {self.socket}" if self.socket != DEFAULT_SOCKET else ""


def get_socket(data_dir: Path) -> Path:
    """Returns the socket of a data directory: /run/headrace/lab.sock for the default one, else
    lab.sock in it."""
    return DEFAULT_SOCKET if data_dir == DEFAULT_DATA_DIR else data_dir / SOCKET_NAME


def get_endpoint_file(data_dir: Path) -> Path:
    """Returns the file with the address of the lab's AWS endpoint. It remains if the endpoint ends
    before the lab, so that `headrace lab up` starts it again at this address."""
    return data_dir / ENDPOINT_NAME


def find_place(data_dir: str | Path | None = None, socket: str | Path | None = None) -> Place:
    """Returns the place of the lab: the one given, else HEADRACE_LAB (a data directory, or a socket
    that ends in .sock), else the default. Raises InputError for an impossible path."""
    if data_dir is None and socket is None:
        named = settings.find_value("HEADRACE_LAB")
        if named and named.endswith(".sock"):
            socket = named
        elif named:
            data_dir = named
    folder = _make_absolute(data_dir, "the data directory") if data_dir is not None else None
    # os.path: a directory that may not be looked into is not an error here.
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        hint = "Name a directory, or one that can be made."
        raise InputError(str(folder), "the data directory is not a directory", "", hint)
    if socket is not None:
        return Place(folder, _check_socket(_make_absolute(socket, "the socket")))
    folder = folder or DEFAULT_DATA_DIR
    return Place(folder, _check_socket(get_socket(folder)))


def _make_absolute(path: str | Path, what: str) -> Path:
    """Returns a path in full. `what`: its name in errors. Raises InputError for an empty path and
    one with a zero byte."""
    text = str(path)
    if not text or "\0" in text:
        hint = f"The default is {DEFAULT_DATA_DIR}."
        raise InputError(repr(text), f"{what} must be a path", "headrace lab up --help", hint)
    return Path(os.path.abspath(text))


def _check_socket(path: Path) -> Path:
    """Returns the path of a socket. Raises InputError for one with more than MAX_SOCKET_BYTES."""
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        rule = f"the path of a socket has at most {MAX_SOCKET_BYTES} bytes"
        raise InputError(str(path), rule, "unix(7)", "Use a shorter data directory, or --socket.")
    return path
