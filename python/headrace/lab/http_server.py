"""Serves HTTP/1.1 on the loopback within bounds: a thread for each connection.

The AWS endpoint and the metrics for Prometheus stand on it; the page for browsers has a server of
its own (docs/decisions/0021-one-http-server.md). A request whose Host is not this machine (421) or
that has an Origin (403) is refused: a web page that a browser here shows must reach nothing (DNS
rebinding, cross-site requests).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

CHUNK_BYTES = 64 << 10  # read at once; a guess
# Taken from a client after a refusal, so that closing does not reset what it has not read yet.
MAX_DRAINED_BYTES = 2 << 20
DRAIN_S = 1.0
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")
# Names of this machine on the loopback.
HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class HttpBounds:
    """Bounds of a server; the defaults are those of the AWS endpoint.

    `connections`: open at once, and one more waits for its turn; tools of one machine need fewer
    (Terraform has 10, an SDK's pool 10 to 50; a guess with room). `head_bytes`, `fields`: address
    and header fields of a request (431); heads of SDKs have one to two KiB, a presigned query some
    more (guesses with room). `body_bytes`: its body (413); a block of EBS direct has 512 KiB, and
    CloudWatch takes 1 MB for PutMetricData (its service quotas). `request_s`: seconds for the whole
    of it (408), and as long for the answer; SDKs time out after 60 s. `idle_s`: seconds between
    requests of a connection, which SDKs keep for 10 to 60 s; `crowded_idle_s`: while all
    connections are taken. `requests_go_on`: a connection may have several requests.
    """

    connections: int = 128
    head_bytes: int = 16 << 10
    fields: int = 100
    body_bytes: int = 1 << 20
    request_s: float = 10.0
    idle_s: float = 60.0
    crowded_idle_s: float = 1.0
    requests_go_on: bool = True


@dataclass(slots=True)
class Incoming:
    """A request of HTTP. `path` and `query` are raw; names of headers are in lower case, and the
    values of a repeated header are joined by commas."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    def remove_body(self) -> Incoming:
        """Returns the request without its body."""
        return Incoming(self.method, self.path, self.query, self.headers, b"")


@dataclass(slots=True)
class Answer:
    """An answer of HTTP."""

    status: int
    body: bytes
    headers: list[tuple[str, str]] = field(default_factory=list)


class Refused(Exception):
    """A request that no service answers."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status

    def make_answer(self) -> Answer:
        """Returns an answer with the reason as one line of text."""
        return Answer(self.status, f"{self}\n".encode(), [("Content-Type", "text/plain; charset=utf-8")])


class _Reader:
    """Collects the parts of a request that the parser finds."""

    def __init__(self, bounds: HttpBounds) -> None:
        self.bounds = bounds
        self.parser = httptools.HttpRequestParser(self)
        self.ready: deque[tuple[Incoming, bool]] = deque()
        self.refused: Refused | None = None
        self.expects = False
        self.begun = False
        self.in_body = False
        self._head_bytes = 0
        self._clear()

    def _clear(self) -> None:
        """Forgets the parts of the last request."""
        self._url = b""
        self._fields = self._named_bytes = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Takes more bytes of the connection. Raises Refused."""
        if not self.in_body:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise Refused(HTTPStatus.BAD_REQUEST, "only HTTP/1.1 is here") from None
        except httptools.HttpParserError:
            raise self.refused or Refused(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1") from None
        if not self.in_body and not self.ready and self._head_bytes > self.bounds.head_bytes:
            raise self._refuse_head()

    def _refuse_head(self) -> Refused:
        most = f"the head of a request has at most {self.bounds.head_bytes // 1024} KiB"
        return self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, most)

    def _count_head(self, more: int) -> None:
        """Counts bytes of the address and of header fields. Raises Refused for too long a head."""
        self._named_bytes += more
        if self._named_bytes > self.bounds.head_bytes:
            raise self._refuse_head()

    def _refuse(self, status: HTTPStatus, why: str) -> Refused:
        self.refused = Refused(status, why)
        return self.refused

    # Called by the parser.

    def on_message_begin(self) -> None:
        self.begun = True
        self._clear()

    def on_url(self, url: bytes) -> None:
        """Takes a part of the address, for the parser. Raises Refused for too long a head."""
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header field, for the parser; repeated ones are joined by commas. Raises Refused
        for too many or too long ones, or a repeated one that may be there once."""
        self._fields += 1
        self._count_head(len(name) + len(value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if self._fields > self.bounds.fields:
            most = f"a request has at most {self.bounds.fields} header fields"
            raise self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, most)
        if key in self._headers:
            if key in ("host", "authorization", "content-length", "content-type"):
                raise self._refuse(HTTPStatus.BAD_REQUEST, f"a request has one {key}")
            text = f"{self._headers[key]},{text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        """Notes the end of the head, for the parser, and whether the client waits to be asked for
        the body. Raises Refused for too long a body."""
        self.in_body, self._head_bytes = True, 0
        length = self._headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 18 or int(length) > self.bounds.body_bytes:
            raise self._refuse_body()
        self.expects = self._headers.get("expect", "").lower() == "100-continue"

    def _refuse_body(self) -> Refused:
        return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {self.bounds.body_bytes:,} bytes")

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body, for the parser. Raises Refused for too long a one."""
        self._size += len(body)
        if self._size > self.bounds.body_bytes:
            raise self._refuse_body()
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Puts the whole request among those that are ready, for the parser. Raises Refused for
        another version of HTTP, and for an address that is not ASCII."""
        self.in_body = self.begun = self.expects = False
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise self._refuse(HTTPStatus.BAD_REQUEST, "only HTTP/1.0 and HTTP/1.1 are here")
        method = self.parser.get_method().decode("latin-1")
        try:
            url = self._url.decode("ascii")
        except UnicodeDecodeError:
            raise self._refuse(HTTPStatus.BAD_REQUEST, "an address is ASCII") from None
        path, _, query = url.partition("?")
        incoming = Incoming(method, path, query, self._headers, b"".join(self._body))
        self._clear()
        self.ready.append((incoming, self.parser.should_keep_alive()))


def is_here(host: str) -> bool:
    """Returns whether a Host header names this machine on the loopback."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host.lower() in HOSTS
    return name.lower() in HOSTS and port.isascii() and port.isdigit()


def find_refusal(incoming: Incoming) -> Refused | None:
    """Returns the refusal of a request whose Host, Origin, method or address is not allowed; None
    for others."""
    host = incoming.headers.get("host", "")
    if not is_here(host):
        return Refused(HTTPStatus.MISDIRECTED_REQUEST, f"the Host is one of {', '.join(HOSTS)}")
    if "origin" in incoming.headers:
        return Refused(HTTPStatus.FORBIDDEN, "requests of web pages are not answered (Origin)")
    if incoming.method not in METHODS:
        return Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"the method is one of {', '.join(METHODS)}")
    if not incoming.path.startswith("/") or "#" in incoming.query:
        return Refused(HTTPStatus.BAD_REQUEST, "an address begins with / and has no #")
    return None


class Connection:
    """One connection: requests are answered in their order."""

    def __init__(self, client: socket.socket, server: HttpServer) -> None:
        self._client = client
        self._server = server
        self._reader = _Reader(server.bounds)

    def serve(self) -> None:
        """Answers until the client ends or breaks a bound."""
        with self._client:
            try:
                self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._answer_request():
                    pass
            except Refused as refused:
                with contextlib.suppress(OSError):
                    self._send(refused.make_answer(), False)
                    self._drain()
            except OSError:
                # The client went away, or does not read.
                return

    def _answer_request(self) -> bool:
        """Reads until a request is whole, and answers it; returns whether the connection goes
        on."""
        reader, request_s, after = self._reader, self._server.bounds.request_s, None
        deadline = 0.0
        while not reader.ready:
            if not reader.begun and not self._wait_data():
                return False
            deadline = deadline or time.monotonic() + request_s
            remaining_s = deadline - time.monotonic()
            try:
                if remaining_s <= 0:
                    raise TimeoutError
                self._client.settimeout(remaining_s)
                data = self._client.recv(CHUNK_BYTES)
            except TimeoutError:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"a request comes within {request_s:g} s") from None
            if not data:
                return False
            try:
                reader.feed(data)
            except Refused as refused:
                # Requests before the bad one are answered first.
                after = refused
                if not reader.ready:
                    raise
            if reader.expects and not reader.ready:
                reader.expects = False
                self._client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while reader.ready:
            incoming, keep = reader.ready.popleft()
            keep = keep and self._server.bounds.requests_go_on
            refused = find_refusal(incoming)
            if refused is not None:
                raise refused
            self._send(self._server.answer(incoming), keep, incoming.method != "HEAD")
            if not keep:
                return False
        if after is not None:
            raise after
        return True

    def _wait_data(self) -> bool:
        """Returns whether the client sends something before it was silent for too long."""
        begun, bounds = time.monotonic(), self._server.bounds
        while True:
            idle = time.monotonic() - begun
            if idle >= (bounds.crowded_idle_s if self._server.is_crowded() else bounds.idle_s):
                return False
            if select.select([self._client], [], [], bounds.crowded_idle_s)[0]:
                return True

    def _send(self, answer: Answer, keep: bool, with_body: bool = True) -> None:
        """Writes an answer. `keep`: the connection goes on; without a body for a HEAD request."""
        phrase = HTTPStatus(answer.status).phrase
        fields = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = (
            f"HTTP/1.1 {int(answer.status)} {phrase}\r\n{fields}Content-Length: {len(answer.body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        )
        self._client.settimeout(self._server.bounds.request_s)
        self._client.sendall(head.encode("latin-1", "replace") + (answer.body if with_body else b""))

    def _drain(self) -> None:
        """Reads on after a refusal, within bounds of time and bytes, so that the client gets to
        read the answer."""
        self._client.shutdown(socket.SHUT_WR)
        deadline, drained = time.monotonic() + DRAIN_S, 0
        while drained < MAX_DRAINED_BYTES and (remaining_s := deadline - time.monotonic()) > 0:
            self._client.settimeout(remaining_s)
            part = self._client.recv(CHUNK_BYTES)
            if not part:
                return
            drained += len(part)


class HttpServer:
    """Accepts connections on a listening socket, each in a thread, and answers requests by
    `answer`; connections beyond the bound wait."""

    def __init__(
        self, listener: socket.socket, answer: Callable[[Incoming], Answer], bounds: HttpBounds | None = None
    ) -> None:
        self.answer = answer
        self.bounds = bounds or HttpBounds()
        self._listener = listener
        self._places = threading.Semaphore(self.bounds.connections)
        self._open = 0
        self._lock = threading.Lock()

    def is_crowded(self) -> bool:
        """Returns whether all connections are taken."""
        return self._open >= self.bounds.connections

    def serve_forever(self) -> None:
        """Serves until the listening socket is closed."""
        while True:
            self._places.acquire()
            try:
                client, _ = self._listener.accept()
            except OSError:
                self._places.release()
                if self._listener.fileno() < 0:
                    return
                # Out of descriptors for a moment: others end and give theirs back.
                time.sleep(0.05)
                continue
            with self._lock:
                self._open += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Serves one connection to its end, then gives its place to another."""
        try:
            Connection(client, self).serve()
        finally:
            with self._lock:
                self._open -= 1
            self._places.release()
