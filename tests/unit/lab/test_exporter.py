"""The HTTP endpoint of a lab's metrics against clients that mean no good. Needs no lab."""

from __future__ import annotations

import random
import socket
import threading
import time

import pytest
from waiting import wait_until

from headrace.errors import CouldNotRun
from headrace.lab import exporter

HERE = b"Host: 127.0.0.1\r\n"


@pytest.fixture
def serve():
    """serve(text): the port at which what `text` returns is served."""
    servers = []

    def make(text=lambda: "headrace_up 1\n") -> int:
        listener = exporter.listen(0)
        server = exporter.MetricsServer(listener, text)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return listener.getsockname()[1]

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


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
        (b"GET /metrics HTTP/1.0\r\n\r\n", "200"),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n" + HERE + b"\r\n", "200"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /metrics/ HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /../metrics HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"GET /%6detrics HTTP/1.1\r\n" + HERE + b"\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n" + HERE + b"Content-Length: 3\r\n\r\nabc", "405"),
        (b"HEAD /metrics HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"DELETE /nothing HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"get /metrics HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"GET  /metrics HTTP/1.1\r\n" + HERE + b"\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2.0\r\n" + HERE + b"\r\n", "505"),
        (b"GET /metrics HTTP/1.1 x\r\n" + HERE + b"\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\n" + HERE + b"no field\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
    ]:
        assert status(ask(port, request)) == expected, request
    assert "\r\nAllow: GET\r\n" in ask(port, b"PUT /metrics HTTP/1.1\r\n" + HERE + b"\r\n")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"Host: 127.0.0.1:9464", "200"),
        (b"Host: LOCALHOST:1", "200"),
        (b"Host: [::1]", "200"),
        (b"Host: [::1]:9464", "200"),
        (b"Host: evil.example", "421"),
        (b"Host: 127.0.0.1.evil.example:9464", "421"),
        (b"Host: localhost:x", "421"),
        (b"Host:", "421"),
        (b"X: y", "400"),
    ],
)
def test_a_host_that_is_not_this_machine_is_refused(serve, host, expected):
    """A page in a browser here reaches 127.0.0.1 by a name of its own (DNS rebinding), and says so
    in Host.
    """
    assert status(ask(serve(), b"GET /metrics HTTP/1.1\r\n" + host + b"\r\n\r\n")) == expected


def test_heads_of_any_length_and_any_bytes(serve):
    port = serve()

    def padded(size: int) -> bytes:
        head = b"GET /metrics HTTP/1.1\r\n" + HERE + b"X: "
        return head + b"x" * (size - len(head) - 4) + b"\r\n\r\n"

    assert status(ask(port, padded(8 << 10))) == "200"
    assert status(ask(port, padded((8 << 10) + 1))) == "431"
    assert status(ask(port, b"a" * 40_000)) == "431"
    chance = random.Random(7)
    for size in range(0, 900, 23):
        assert status(ask(port, chance.randbytes(size) + b"\r\n\r\n")) in ("400", "405", "421", "505"), size
    # A body that is not read does not cost the client its answer.
    assert (
        status(ask(port, b"POST /metrics HTTP/1.1\r\n" + HERE + b"Content-Length: 60000\r\n\r\n" + b"b" * 60_000))
        == "405"
    )


def trickle(client: socket.socket) -> str:
    """A byte now and then, and what is answered."""
    client.settimeout(0.3)
    answer = b""
    for byte in (b"GET /metrics HTTP/1.1\r\nX: " * 2)[:30]:
        try:
            client.sendall(bytes([byte]))
            part = client.recv(512)
        except TimeoutError:
            continue
        except OSError:
            break
        if not part:
            break
        answer += part
    client.close()
    return answer.decode()


def test_the_slow_and_the_many_are_bounded(serve):
    port = serve()
    began = time.monotonic()
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    # They hold all places as soon as they are accepted; connections are accepted in order.
    assert status(ask(port, b"GET /metrics HTTP/1.1\r\n" + HERE + b"\r\n")) == "503"
    answers: list[str] = []
    threads = [threading.Thread(target=lambda client=client: answers.append(trickle(client))) for client in slow]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status(answer) for answer in answers] == ["408"] * 8
    # 2 s for the head and 2 s until it is let go, and what a busy machine adds.
    assert 2 <= time.monotonic() - began < 12
    wait_until(
        lambda: status(ask(port, b"GET /metrics HTTP/1.1\r\n" + HERE + b"\r\n")) == "200", "places that are given back"
    )


def test_a_client_that_does_not_read_is_let_go(serve):
    text = "x 1\n" * (8 << 20)
    port = serve(lambda: text)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as deaf:
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n" + HERE + b"\r\n")
        time.sleep(4)
        got = 0
        try:
            while part := deaf.recv(1 << 20):
                got += len(part)
        except ConnectionResetError:
            pass
    # 32 MiB do not fit the sockets' buffers: the answer was cut, not waited for.
    assert got < 30 << 20


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
