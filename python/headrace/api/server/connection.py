"""Serves HTTP/1.1 on the loopback within bounds: a thread for each connection.

Bounds: 128 connections; 16 KiB and 100 fields for the head of a request (431); 1 MiB for its body
(413); 10 seconds for the whole of it (408), and as long for the answer. A request whose Host is not
this machine (421) or that has an Origin (403) is refused: a web page that a browser here shows must
reach nothing (DNS rebinding, cross-site requests).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

import httptools

from headrace.api.protocol.wire import Answer, Incoming
from headrace.lab.exporter import HOSTS, is_here

# Tools of one machine: Terraform has 10 at once, an SDK's pool 10 to 50. A guess with room.
MAX_CONNECTIONS = 128
# Heads of SDKs have one to two KiB; a presigned query may have some more. Guesses with room.
MAX_HEAD_BYTES = 16 << 10
MAX_FIELDS = 100
# A block of EBS direct has 512 KiB; CloudWatch takes 1 MB for PutMetricData (its service quotas).
MAX_BODY_BYTES = 1 << 20
# For the whole of a request, and again for its answer. SDKs time out after 60 s.
TIMEOUT_S = 10.0
# Between requests of a connection: SDKs keep theirs for 10 to 60 s.
IDLE_S = 60.0
# While all connections are taken, and others wait.
CROWDED_IDLE_S = 1.0
CHUNK_BYTES = 64 << 10
# Taken from a client after a refusal, so that closing does not reset what it has not read yet.
MAX_DRAINED_BYTES = 2 << 20
DRAIN_S = 1.0
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")


class Refused(Exception):
    """A request that no service answers."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status

    def answer(self) -> Answer:
        """Returns an answer of one line of words."""
        return Answer(self.status, f"{self}\n".encode(), [("Content-Type", "text/plain; charset=utf-8")])


class _Reader:
    """Collects the parts of a request that the parser finds."""

    def __init__(self) -> None:
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
        self._fields = self._field_bytes = 0
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
        if not self.in_body and not self.ready and self._head_bytes > MAX_HEAD_BYTES:
            raise self._too_long()

    @staticmethod
    def _too_long() -> Refused:
        return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of a request has at most 16 KiB")

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
        if len(self._url) > MAX_HEAD_BYTES:
            self.refused = self._too_long()
            raise self.refused

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header field, for the parser; repeated ones are joined by commas. Raises Refused
        for too many or too long ones, or a repeated one that may be there once."""
        self._fields += 1
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > MAX_HEAD_BYTES:
            self.refused = self._too_long()
            raise self.refused
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if self._fields > MAX_FIELDS:
            raise self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request has at most {MAX_FIELDS} header fields"
            )
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
        if not length.isdigit() or len(length) > 18 or int(length) > MAX_BODY_BYTES:
            raise self._body_too_long()
        self.expects = self._headers.get("expect", "").lower() == "100-continue"

    def _body_too_long(self) -> Refused:
        return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY_BYTES:,} bytes")

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body, for the parser. Raises Refused for too long a one."""
        self._size += len(body)
        if self._size > MAX_BODY_BYTES:
            raise self._body_too_long()
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Puts the whole request among those that are ready, for the parser. Raises Refused for an
        address that is not ASCII."""
        self.in_body = self.begun = self.expects = False
        method = self.parser.get_method().decode("latin-1")
        try:
            url = self._url.decode("ascii")
        except UnicodeDecodeError:
            raise self._refuse(HTTPStatus.BAD_REQUEST, "an address is ASCII") from None
        path, _, query = url.partition("?")
        incoming = Incoming(method, path, query, self._headers, b"".join(self._body))
        self._clear()
        self.ready.append((incoming, self.parser.should_keep_alive()))


def refusal(incoming: Incoming) -> Refused | None:
    """Returns why no service answers a request, or None."""
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

    def __init__(
        self, client: socket.socket, answer: Callable[[Incoming], Answer], crowded: Callable[[], bool]
    ) -> None:
        self._client = client
        self._answer = answer
        self._crowded = crowded
        self._reader = _Reader()

    def serve(self) -> None:
        """Answers until the client ends or breaks a bound."""
        with self._client:
            try:
                self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._request():
                    pass
            except Refused as refused:
                with contextlib.suppress(OSError):
                    self._send(refused.answer(), False)
                    self._drain()
            except OSError:
                # The client went away, or does not read.
                return

    def _request(self) -> bool:
        """Reads until a request is whole, and answers it; returns whether the connection goes
        on."""
        reader, after = self._reader, None
        deadline = 0.0
        while not reader.ready:
            if not reader.begun and not self._waited():
                return False
            deadline = deadline or time.monotonic() + TIMEOUT_S
            remaining_s = deadline - time.monotonic()
            try:
                if remaining_s <= 0:
                    raise TimeoutError
                self._client.settimeout(remaining_s)
                data = self._client.recv(CHUNK_BYTES)
            except TimeoutError:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"a request comes within {TIMEOUT_S:g} s") from None
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
            refused = refusal(incoming)
            if refused is not None:
                raise refused
            self._send(self._answer(incoming), keep, incoming.method != "HEAD")
            if not keep:
                return False
        if after is not None:
            raise after
        return True

    def _waited(self) -> bool:
        """Returns whether the client sends something before it was silent for too long."""
        begun = time.monotonic()
        while True:
            idle = time.monotonic() - begun
            if idle >= (CROWDED_IDLE_S if self._crowded() else IDLE_S):
                return False
            if select.select([self._client], [], [], CROWDED_IDLE_S)[0]:
                return True

    def _send(self, answer: Answer, keep: bool, with_body: bool = True) -> None:
        """Writes an answer. `keep`: the connection goes on; without a body for a HEAD request."""
        phrase = HTTPStatus(answer.status).phrase
        fields = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = (
            f"HTTP/1.1 {int(answer.status)} {phrase}\r\n{fields}Content-Length: {len(answer.body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        )
        self._client.settimeout(TIMEOUT_S)
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
    """Accepts connections on a socket that listens; one beyond the bound waits in its queue."""

    def __init__(self, listener: socket.socket, answer: Callable[[Incoming], Answer]) -> None:
        self._listener = listener
        self._answer = answer
        self._places = threading.Semaphore(MAX_CONNECTIONS)
        self._open = 0
        self._lock = threading.Lock()

    def _crowded(self) -> bool:
        return self._open >= MAX_CONNECTIONS

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
            Connection(client, self._answer, self._crowded).serve()
        finally:
            with self._lock:
                self._open -= 1
            self._places.release()
