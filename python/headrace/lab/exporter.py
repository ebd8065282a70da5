"""Serves metrics for Prometheus: `GET /metrics` on the loopback, by a process without rights.

Bounds: 8 connections at once (a ninth is told 503), 8 KiB for the head of a request (431), 2
seconds for the head (408) and 2 for the answer. A body is not read. A Host that is not this machine
is refused: a web page that a browser here shows must not read the metrics by a name of its own (DNS
rebinding).
"""

from __future__ import annotations

import contextlib
import io
import os
import pwd
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab.client import Lab
from headrace.lab.wire import NoLab

# Scrapers of one machine are one or two. Heads of Prometheus have some 300 bytes.
MAX_CONNECTIONS = 8
MAX_HEAD_BYTES = 8 << 10
# For the head of a request, and again for the answer: Prometheus gives up after 10 s by default.
TIMEOUT_S = 2.0
# Taken from a client after the answer, so that closing does not reset what it has not read yet.
MAX_DRAINED_BYTES = 64 << 10
# The wait between two attempts at a port or a daemon that is not available yet.
POLL_S = 0.1
# Names of this machine on the loopback.
HOSTS = ("127.0.0.1", "localhost", "[::1]")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def is_here(host: str) -> bool:
    """Returns whether a Host names this machine."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host.lower() in HOSTS
    return name.lower() in HOSTS and port.isascii() and port.isdigit()


class _RefusedHead(Exception):
    """The head of a request breaks a bound."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class MetricsHandler(BaseHTTPRequestHandler):
    """One request, one answer."""

    server: MetricsServer
    protocol_version = "HTTP/1.1"
    # http.server answers in this version if it cannot read a request's: it has a status line.
    default_request_version = "HTTP/1.1"
    error_content_type = "text/plain; charset=utf-8"

    def version_string(self) -> str:
        """Returns the Server field of an answer."""
        return "headrace"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: one comes every few seconds for as long as the lab is up."""

    def handle(self) -> None:
        """Reads the head within its bounds and answers."""
        # An error is an answer of HTTP/1.1 even before anything was parsed.
        self.requestline, self.request_version, self.command = "", self.protocol_version, "GET"
        self.close_connection = True
        try:
            head = self._head()
            self.rfile = io.BytesIO(head)
            self.raw_requestline = self.rfile.readline()
            # http.server also takes requests of HTTP/0.9, and answers nothing to an empty line.
            if len(self.raw_requestline.rstrip(b"\r\n").split(b" ")) != 3:
                raise _RefusedHead(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1")
            self.connection.settimeout(TIMEOUT_S)
            if self.parse_request():
                self._answer()
            self.wfile.flush()
            self._drain()
        except _RefusedHead as refused:
            self.connection.settimeout(TIMEOUT_S)
            self.send_error(refused.status, explain=str(refused))
            self._drain()
        except (TimeoutError, ConnectionError):
            return

    def _head(self) -> bytes:
        """Returns the head, up to its empty line."""
        deadline, head = time.monotonic() + TIMEOUT_S, b""
        while b"\r\n\r\n" not in head:
            remaining_s = deadline - time.monotonic()
            if len(head) >= MAX_HEAD_BYTES:
                raise _RefusedHead(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of a request has at most 8 KiB"
                )
            try:
                if remaining_s <= 0:
                    raise TimeoutError
                self.connection.settimeout(remaining_s)
                part = self.connection.recv(1024)
            except TimeoutError:
                raise _RefusedHead(
                    HTTPStatus.REQUEST_TIMEOUT, f"the head of a request comes within {TIMEOUT_S:g} s"
                ) from None
            if not part:
                raise ConnectionError("the client ended before the head did")
            head += part
        head = head[: head.index(b"\r\n\r\n") + 4]
        if len(head) > MAX_HEAD_BYTES:
            raise _RefusedHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of a request has at most 8 KiB")
        return head

    def _answer(self) -> None:
        """Answers a request with the metrics, with 503 if they cannot be had now, or with a
        refusal."""
        wrong = self._wrong()
        if wrong:
            status, why = wrong
            return self.send_error(status, explain=why)
        try:
            text = self.server.text().encode()
        except HeadraceError as error:
            return self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=f"no metrics now: {error}")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def _wrong(self) -> tuple[HTTPStatus, str] | None:
        """Returns the status and the reason of a refusal, or None."""
        host = self.headers.get("Host")
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1") or self.headers.defects:
            return HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1"
        if host is None and self.request_version == "HTTP/1.1":
            return HTTPStatus.BAD_REQUEST, "a request of HTTP/1.1 names its Host"
        if host is not None and not is_here(host):
            return HTTPStatus.MISDIRECTED_REQUEST, f"the Host is one of {', '.join(HOSTS)}"
        if self.command != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here"
        if self.path.partition("?")[0] != "/metrics":
            return HTTPStatus.NOT_FOUND, "only /metrics is here"
        return None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an answer without metrics. The body is a line of words."""
        body = f"{explain or message or HTTPStatus(code).phrase}\n".encode()
        self.send_response(code)
        self.send_header("Content-Type", self.error_content_type)
        self.send_header("Content-Length", str(len(body)))
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _drain(self) -> None:
        """Reads and drops what the client still sends, at most MAX_DRAINED_BYTES and for TIMEOUT_S
        seconds: closing before would reset the connection, and lose the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        deadline, drained = time.monotonic() + TIMEOUT_S, 0
        while drained < MAX_DRAINED_BYTES and (remaining_s := deadline - time.monotonic()) > 0:
            self.connection.settimeout(remaining_s)
            part = self.connection.recv(4096)
            if not part:
                return
            drained += len(part)


class MetricsServer(ThreadingHTTPServer):
    """Serves what `text` returns on a socket that listens already."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, text: Callable[[], str]) -> None:
        super().__init__(listener.getsockname()[:2], MetricsHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.text = text
        self._places = threading.Semaphore(MAX_CONNECTIONS)
        # Told 503 and kept for a moment: closing at once would reset the connection, and the answer
        # with it.
        self._refused: deque[tuple[float, socket.socket]] = deque()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Gives a connection its thread, or tells it that there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        body = b"eight connections are open\n"
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        request.setblocking(False)
        with contextlib.suppress(OSError):
            request.send(head + body)
            request.shutdown(socket.SHUT_WR)
        self._refused.append((time.monotonic(), request))
        if len(self._refused) > MAX_CONNECTIONS:
            self._refused.popleft()[1].close()

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Answers, and gives the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def service_actions(self) -> None:
        """Closes connections that were answered with 503 some time ago."""
        while self._refused and time.monotonic() - self._refused[0][0] > TIMEOUT_S:
            self._refused.popleft()[1].close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores the error: a request that fails costs its own connection only."""
        print(f"metrics: {sys.exc_info()[1]!r}", file=sys.stderr)


def listen(port: int) -> socket.socket:
    """Returns a socket that listens on the loopback. Raises OSError."""
    # The exporter of a lab that has just ended may take a moment to let go of the port.
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return socket.create_server(("127.0.0.1", port), backlog=2 * MAX_CONNECTIONS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def open_port(port: int) -> socket.socket:
    """Returns a socket that listens at a port of the loopback, 0 for a free one. Raises
    CouldNotRun."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        rule = f"cannot be used: {error.strerror}"
        raise CouldNotRun(f"port {port} of 127.0.0.1", rule, "bind(2)", "Choose another, or 0.") from None


def serve(listener: socket.socket, text: Callable[[], str], ready: Callable[[str], None]) -> None:
    """Serves what `text` returns until it is interrupted. `ready` is told the address."""
    with MetricsServer(listener, text) as server:
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.5)


def drop_rights() -> None:
    """Becomes the user nobody, where this is root."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)


def connected(path: str, wait_s: float) -> tuple[Lab, int]:
    """Returns a lab that answers, and a descriptor that becomes readable when its process ends.
    Raises NoLab after `wait_s`, other HeadraceErrors at once."""
    lab, deadline = Lab(socket=path), time.monotonic() + wait_s
    while True:
        try:
            return lab, os.pidfd_open(lab.pid())
        except NoLab:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
