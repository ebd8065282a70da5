"""The HTTP endpoint of a lab's metrics: what is answered, within its own bounds (those of every server:
test_http_server.py). Needs no lab."""

from __future__ import annotations

import socket
import threading

import pytest

from headrace.errors import CouldNotRun
from headrace.lab import exporter

HERE = b"Host: 127.0.0.1\r\n"


@pytest.fixture
def serve():
    """serve(text): the port at which what `text` returns is served."""
    listeners = []

    def make(text=lambda: "headrace_up 1\n") -> int:
        listener = exporter.listen(0)
        listeners.append(listener)
        threading.Thread(target=exporter.make_metrics_server(listener, text).serve_forever, daemon=True).start()
        return listener.getsockname()[1]

    yield make
    for listener in listeners:
        listener.close()


def ask(port: int, request: bytes) -> str:
    """Returns the whole answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        parts = []
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts).decode()


def status(answer: str) -> str:
    return answer.split(" ")[1] if answer else "none"


def test_metrics_are_answered_and_nothing_else(serve):
    port = serve()
    good = ask(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head, _, body = good.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n") and body == "headrace_up 1\n"
    assert (
        "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
        and "Content-Length: 14" in head
        and "Connection: close" in head
    )
    for request, expected in [
        (b"GET /metrics HTTP/1.0\r\n" + HERE + b"\r\n", "200"),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n" + HERE + b"\r\n", "200"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /metrics/ HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /../metrics HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /%6detrics HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n" + HERE + b"Content-Length: 3\r\n\r\nabc", "405"),
        (b"HEAD /metrics HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"DELETE /nothing HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"get /metrics HTTP/1.1\r\n" + HERE + b"\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2.0\r\n" + HERE + b"\r\n", "400"),
        (b"GET /metrics HTTP/1.1 x\r\n" + HERE + b"\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\n" + HERE + b"no field\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
    ]:
        assert status(ask(port, request)) == expected, request
    assert "\r\nAllow: GET\r\n" in ask(port, b"PUT /metrics HTTP/1.1\r\n" + HERE + b"\r\n")


def test_a_head_has_8_kib_and_a_body_is_dropped(serve):
    port = serve()
    head = b"GET /metrics HTTP/1.1\r\n" + HERE + b"X: "
    for size, expected in ((7 << 10, "200"), (9 << 10, "431")):
        assert status(ask(port, head + b"x" * size + b"\r\n\r\n")) == expected
    # A body that is not read does not cost the client its answer.
    posted = b"POST /metrics HTTP/1.1\r\n" + HERE + b"Content-Length: 60000\r\n\r\n" + b"b" * 60_000
    assert status(ask(port, posted)) == "405"


def test_a_lab_that_does_not_answer_is_said(serve):
    def text() -> str:
        raise CouldNotRun("lab.sock: metrics.totals", "the lab did not answer within 30 s")

    answer = ask(serve(text), b"GET /metrics HTTP/1.1\r\n" + HERE + b"\r\n")
    assert status(answer) == "503" and "the lab did not answer within 30 s" in answer


def test_the_loopback_alone_and_a_port_that_is_taken():
    with exporter.listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            exporter.listen(listener.getsockname()[1])
