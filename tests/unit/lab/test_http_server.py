"""HTTP of the endpoint and of the metrics against clients that mean no good. Needs no lab: what is answered is the request itself."""

from __future__ import annotations

import random
import socket
import threading

import pytest
from waiting import wait_until

from headrace.lab import exporter
from headrace.lab.http_server import Answer, HttpBounds, HttpServer, Incoming

HERE = b"Host: 127.0.0.1\r\n"
BOUNDS = HttpBounds(connections=8, request_s=1.0, crowded_idle_s=0.2)


def repeat_request(incoming: Incoming) -> Answer:
    text = f"{incoming.method} {incoming.path} {incoming.query} {len(incoming.body)} {len(incoming.headers)}"
    return Answer(200, text.encode(), [("Content-Type", "text/plain")])


@pytest.fixture
def port():
    listener = exporter.listen(0)
    threading.Thread(target=HttpServer(listener, repeat_request, BOUNDS).serve_forever, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def ask(port: int, request: bytes) -> str:
    """Returns the whole answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        parts = []
        try:
            while part := client.recv(65_536):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts).decode()


def status(answer: str) -> str:
    return answer.split(" ")[1] if answer else "none"


def test_requests_are_answered_in_their_order_on_one_connection(port):
    first = b"POST /a?b=c HTTP/1.1\r\n" + HERE + b"Content-Length: 3\r\n\r\nabc"
    second = b"GET /d HTTP/1.1\r\n" + HERE + b"X: 1\r\nX: 2\r\n\r\n"
    last = (
        b"PUT /e HTTP/1.1\r\n" + HERE + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    )
    answer = ask(port, first + second + last + first)
    assert [part.splitlines()[-1].partition("HTTP")[0] for part in answer.split("HTTP/1.1 200 OK")[1:]] == [
        "POST /a b=c 3 2",
        "GET /d  0 2",
        "PUT /e  2 3",
    ]
    head = ask(port, b"HEAD /d HTTP/1.1\r\n" + HERE + b"\r\n")
    assert "Content-Length: 12\r\n" in head and head.endswith("\r\n\r\n")
    old = ask(port, b"GET /d HTTP/1.0\r\n" + HERE + b"\r\n")
    assert "Connection: close" in old


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost:9465\r\n\r\n", "200"),
        (b"GET / HTTP/1.1\r\nHost: [::1]:9465\r\n\r\n", "200"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:x\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\nHost: LOCALHOST:1\r\n\r\n", "200"),
        (b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "200"),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\n" + HERE + HERE + b"\r\n", "400"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"Origin: http://evil.example\r\n\r\n", "403"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"Origin: null\r\n\r\n", "403"),
        (b"PATCH / HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HERE + b"\r\n", "400"),
        (b"CONNECT a:1 HTTP/1.1\r\n" + HERE + b"\r\n", "405"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n" + HERE + b"\r\n", "400"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "200"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", "400"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: 99999999\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: -1\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\n" + HERE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"X: y\r\n" * 200 + b"\r\n", "431"),
        (b"GET / HTTP/1.1\r\n" + HERE + b"X: " + b"y" * 20_000 + b"\r\n\r\n", "431"),
        (b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\n" + HERE + b"\r\n", "431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
    ],
)
def test_what_is_answered_and_what_is_refused(port, request_text, expected):
    assert status(ask(port, request_text)) == expected


def chunked(size: int) -> bytes:
    return (
        b"POST / HTTP/1.1\r\n"
        + HERE
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n" % size
        + b"b" * size
        + b"\r\n0\r\n\r\n"
    )


def test_bodies_are_bounded_however_they_come(port):
    most = BOUNDS.body_bytes
    assert status(ask(port, chunked(most))) == "200" and status(ask(port, chunked(most + 1))) == "413"
    whole = b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: %d\r\n\r\n" % most + b"b" * most
    assert status(ask(port, whole)) == "200"


def test_a_client_may_ask_before_it_sends_a_body(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"PUT / HTTP/1.1\r\n" + HERE + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert client.recv(1024).startswith(b"HTTP/1.1 200 OK\r\n")


def test_bytes_at_random(port):
    chance = random.Random(7)
    for size in range(0, 1500, 61):
        assert status(ask(port, chance.randbytes(size) + b"\r\n\r\n")) in ("400", "431", "none"), size
    good = b"POST /a HTTP/1.1\r\n" + HERE + b"Content-Length: 3\r\n\r\nabc"
    for _ in range(300):
        at = chance.randrange(len(good))
        bad = good[:at] + chance.randbytes(chance.randint(0, 3)) + good[at + chance.randint(0, 2) :]
        assert status(ask(port, bad)) in ("200", "400", "405", "413", "421", "none"), bad


def test_the_slow_are_let_go(port):
    """A head, and a body, that do not come within the time (here 1 s) are told 408."""
    for begun in (b"GET / HT", b"POST / HTTP/1.1\r\n" + HERE + b"Content-Length: 9\r\n\r\nabc"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(begun)
            assert client.recv(1024).startswith(b"HTTP/1.1 408 ")


def test_the_many_wait_for_their_turn(port):
    """Silent connections hold all places; they are let go early, and the next is answered."""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(BOUNDS.connections)]
    assert status(ask(port, b"GET / HTTP/1.1\r\n" + HERE + b"\r\n")) == "200"
    for entry in silent:
        entry.close()


def test_a_client_that_does_not_read_is_let_go():
    listener = exporter.listen(0)
    served = threading.Event()

    def much(_: Incoming) -> Answer:
        served.set()
        return Answer(200, b"x" * (32 << 20), [])

    server = HttpServer(listener, much, BOUNDS)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_connection(listener.getsockname(), timeout=10) as deaf:
        deaf.sendall(b"GET / HTTP/1.1\r\n" + HERE + b"\r\n")
        assert served.wait(10)
        wait_until(lambda: not server._open, "a place that is given back")
    listener.close()
