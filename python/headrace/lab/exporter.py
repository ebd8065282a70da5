"""Serves metrics for Prometheus: `GET /metrics` on the loopback, by a process without rights.

Bounds: 8 connections at once (a ninth waits for its turn), 8 KiB for the head of a request (431),
2 seconds for the request (408) and 2 for the answer. A body is dropped.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import time
from collections.abc import Callable
from http import HTTPStatus

from headrace.base.lazy import defer_imports
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab.client import Lab
from headrace.lab.wire import NoLab

with defer_imports():
    from headrace.lab import http_server

# Scrapers of one machine are one or two.
MAX_CONNECTIONS = 8
# Longest wait for a port that is about to be free, s.
PORT_S = 2.0
# The wait between two attempts at a port or a daemon that is not available yet.
POLL_S = 0.1
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_metrics_server(listener: socket.socket, text: Callable[[], str]) -> http_server.HttpServer:
    """Returns a server that answers `GET /metrics` with what `text` returns, on a socket that
    listens already."""

    def answer(incoming: http_server.Incoming) -> http_server.Answer:
        if incoming.method != "GET":
            return _answer_refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here", ("Allow", "GET"))
        if incoming.path != "/metrics":
            return _answer_refusal(HTTPStatus.NOT_FOUND, "only /metrics is here")
        try:
            body = text().encode()
        except HeadraceError as error:
            return _answer_refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"no metrics now: {error}")
        return http_server.Answer(HTTPStatus.OK, body, [("Content-Type", CONTENT_TYPE)])

    # Heads of Prometheus have some 300 bytes, and it gives up after 10 s by default.
    bounds = http_server.HttpBounds(
        connections=MAX_CONNECTIONS,
        head_bytes=8 << 10,
        body_bytes=64 << 10,
        request_s=2.0,
        idle_s=2.0,
        requests_go_on=False,
    )
    return http_server.HttpServer(listener, answer, bounds)


def _answer_refusal(status: HTTPStatus, why: str, *headers: tuple[str, str]) -> http_server.Answer:
    """Returns an answer with a status and one line of text."""
    answer = http_server.Refused(status, why).make_answer()
    answer.headers += headers
    return answer


def listen(port: int) -> socket.socket:
    """Returns a socket that listens on the loopback, after a wait of up to PORT_S for a port in
    use. Raises OSError."""
    # The exporter of a lab that has just ended may take a moment to let go of the port.
    deadline = time.monotonic() + PORT_S
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
    """Serves metrics, the result of `text`, on a listening socket until it is interrupted. `ready`
    is called first with the address."""
    with listener, contextlib.suppress(KeyboardInterrupt):
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        make_metrics_server(listener, text).serve_forever()


def drop_rights() -> None:
    """Changes the user of this process from root to nobody; other users stay."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)


def connect_lab(path: str, wait_s: float) -> tuple[Lab, int]:
    """Waits until a lab answers at a socket, and returns it with a descriptor that becomes readable
    when its process ends. Raises NoLab after `wait_s`, other HeadraceErrors at once."""
    lab, deadline = Lab(socket=path), time.monotonic() + wait_s
    while True:
        try:
            return lab, os.pidfd_open(lab.get_pid())
        except NoLab:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
