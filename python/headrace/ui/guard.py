"""Admits to the page's server only a browser on this machine that showed the address which
`headrace page` printed. Everything is refused before a word of it is acted on.

- Host is this machine's name with our port: a foreign name that resolves to 127.0.0.1 (DNS
  rebinding) gets nothing.
- The token stands in the fragment of the address, which no browser sends. The page exchanges it
  for a cookie, once: an address that was seen in a list of processes is worth nothing afterwards.
- What is not the page's own code needs the cookie, our Origin, our Sec-Fetch-Site where the
  browser says it, and a key in a header. Browsers send a cookie to every port of a host, and so to
  what other users of this machine serve on theirs; the key lies in the storage of our port alone.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.ui.spelling import refuse

# A day of iostat has some 100 KiB; what is larger becomes a small workload file first. Ours.
MOST_BODY_BYTES = 1 << 20
# Answers for 100,000 volumes have some 20 MiB, in base64 a third more (chosen).
MOST_RESULT_BYTES = 48 << 20
# A browser on the same machine sends a MiB in milliseconds; a guess for one that is busy, s.
BODY_S = 10.0
TOKEN_BYTES = 32  # 256 bits
HOSTS = ("127.0.0.1", "localhost")
PAGE_HEADER = "x-headrace"
SESSION, API, OPEN = "/session", "/api/", "/api/open"
# Nothing but our own files and answers; no string becomes code or markup.
POLICY = "; ".join(
    (
        "default-src 'none'",
        # The model of a browser is WebAssembly from our own address.
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        # One policy, which lets the worker of that model through and nothing else (engine.js).
        "trusted-types headrace-worker",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Keys:
    """The token of the printed address, and the cookie and key that it is exchanged for: scripts
    cannot read the cookie, other ports cannot read the key."""

    def __init__(self) -> None:
        self.token: str | None = secrets.token_urlsafe(TOKEN_BYTES)
        self._cookie, self._key = (secrets.token_urlsafe(TOKEN_BYTES) for _ in range(2))

    def exchange(self, token: object) -> tuple[str, str] | None:
        """Returns cookie and key for the token, once; None for any other value."""
        if self.token is None or not isinstance(token, str) or not _equals(token, self.token):
            return None
        self.token = None
        return self._cookie, self._key

    def opens(self, cookie: str | None, key: str | None) -> bool:
        """Returns whether cookie and key are those that were given out."""
        if self.token is not None or cookie is None or key is None:
            return False
        return _equals(cookie, self._cookie) and _equals(key, self._key)


def _equals(given: str, own: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), own.encode())


class Guard:
    """Passes allowed requests to `app` and refuses others; sets the HEADERS of every answer."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self.app, self.keys, self.port = app, keys, port
        self.hosts = tuple(f"{host}:{port}" for host in HOSTS)
        self.origins = tuple(f"http://{host}" for host in self.hosts)

    @property
    def cookie_name(self) -> str:
        """Returns the name of the cookie: with the port, since browsers share cookies between
        ports."""
        return f"headrace-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request with the guarded headers: refuses it, or reads its body and passes it
        on to `app`. A body that is too large or too late is refused."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self.judge(Request(scope))
        if refusal is not None:
            return await refusal(scope, receive, send_guarded)
        try:
            body = await read_body(receive, get_most_bytes(scope["path"]))
        except TooLarge:
            return await make_size_refusal(scope["path"])(scope, receive, send_guarded)
        except TimeoutError:
            late = make_refusal(HTTPStatus.REQUEST_TIMEOUT, "the request", "did not arrive in time")
            return await late(scope, receive, send_guarded)
        await self.app(scope, BodyInHand(body, receive), send_guarded)

    def judge(self, request: Request) -> JSONResponse | None:
        """Returns the refusal of a request by its head; None if it is allowed."""
        headers, path = request.headers, request.url.path
        if headers.getlist("host") not in ([host] for host in self.hosts):
            return make_refusal(HTTPStatus.MISDIRECTED_REQUEST, "Host", "is not this machine's")
        private = path.startswith(API)
        if not private and path != SESSION:
            return None if request.method == "GET" else _make_method_refusal()
        if request.method != "POST":
            return _make_method_refusal()
        if not self.is_own_page(headers):
            return make_refusal(HTTPStatus.FORBIDDEN, "the request", "does not come from this page")
        if headers.get("content-type") != "application/json":
            return make_refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request", "must be JSON")
        if read_length(headers) > get_most_bytes(path):
            return make_size_refusal(path)
        if private and not self.keys.opens(read_cookie(headers, self.cookie_name), headers.get(PAGE_HEADER)):
            hint = "Open the address that `headrace page` printed; it is good once. Else run `headrace page` again."
            return make_refusal(HTTPStatus.UNAUTHORIZED, "this browser", "has not shown the page's address", hint)
        return None

    def is_own_page(self, headers: Headers) -> bool:
        """Returns whether a request was sent by a script of our page, as far as its head says."""
        if headers.getlist("origin") not in ([origin] for origin in self.origins):
            return False
        return headers.get("sec-fetch-site", "same-origin") == "same-origin" and PAGE_HEADER in headers


class TooLarge(Exception):
    """A body is larger than may be sent."""


class BodyInHand:
    """A receive function of ASGI that returns the body that was read, then further messages of the
    client."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._first = self._first, None
        return await self._receive() if message is None else message


def get_most_bytes(path: str) -> int:
    """Returns the most bytes of a body that is sent to an address."""
    return MOST_RESULT_BYTES if path == OPEN else MOST_BODY_BYTES


async def read_body(receive: Receive, most: int) -> bytes:
    """Reads a body of at most `most` bytes, in time. Raises TooLarge, TimeoutError."""
    parts, size = [], 0
    async with asyncio.timeout(BODY_S):
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise TooLarge
            if not message.get("more_body"):
                return b"".join(parts)


def read_length(headers: Headers) -> int:
    """Returns the Content-Length in bytes; 0 without a valid one."""
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def read_cookie(headers: Headers, name: str) -> str | None:
    """Returns the value of a cookie; None if it is missing or cannot be read."""
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookies[name].value if name in cookies else None


def make_refusal(status: HTTPStatus, value: str, rule: str, hint: str = "") -> JSONResponse:
    """Returns a refusal in the form of every error."""
    return answer_error(refuse.input(value, rule, hint), status)


def answer_error(error: HeadraceError, status: HTTPStatus) -> JSONResponse:
    """Returns an error as the page shows it: value, rule, source, hint."""
    fields = {name: getattr(error, name) for name in ("value", "rule", "source", "hint", "kind")}
    return JSONResponse({"error": fields}, status)


def make_size_refusal(path: str) -> JSONResponse:
    """Returns the refusal of a body beyond the bound of its address."""
    rule = f"is larger than {get_most_bytes(path) >> 20} MiB, the most that the page takes"
    hint = (
        "Show it on the command line."
        if path == OPEN
        else (
            "Make a workload of it on the command line: headrace workload import FILE --to NAME.toml; that file is small."
        )
    )
    return make_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the file", rule, hint)


def _make_method_refusal() -> JSONResponse:
    return make_refusal(HTTPStatus.METHOD_NOT_ALLOWED, "the request", "has a method that is not served here")
