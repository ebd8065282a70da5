"""JSON over HTTP from a service that a user names: bounded in time and size, and with its refusals
in plain words.

Passwords and tokens are never part of an address. A password comes from ~/.netrc (or $NETRC), a
token from HEADRACE_PROMETHEUS_TOKEN; the token is sent over https or to this machine only. No
redirect is followed: credentials would go along, and an answer of another server is not the one
that was asked for.
"""

from __future__ import annotations

import base64
import gzip
import json
import netrc
import os
import ssl
import time
import urllib.error
import urllib.request
import zlib
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from headrace.base import settings
from headrace.base.files import get_reason
from headrace.errors import CouldNotRun, InputError
from headrace.observe.recording import MAX_BYTES, clip

TOKEN = "HEADRACE_PROMETHEUS_TOKEN"
# Seconds for a part of an answer, and for all of one: Prometheus itself gives up a query after two
# minutes (flag query.timeout).
PART_S, ANSWER_S = 30.0, 150.0
CHUNK_BYTES = 1 << 20
UNAUTHORIZED, FORBIDDEN, MULTIPLE_CHOICES, BAD_REQUEST = 401, 403, 300, 400


# The members of a JSON object by name: which there are says the service's own documentation.
JsonObject = dict[str, Any]


class HttpJson:
    """Fetches JSON from one base address. `doc`: the source that errors cite."""

    def __init__(self, base: str, doc: str) -> None:
        self.base, self.doc = base.rstrip("/"), doc
        self._host = urlsplit(base).hostname or ""
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._authorization = self._make_authorization()

    def get(self, path: str, parameters: list[tuple[str, str]]) -> JsonObject:
        """Returns the JSON object at a path; also that of a refusal, if it has a status. Raises
        InputError and CouldNotRun."""
        request = urllib.request.Request(f"{self.base}{path}?{urlencode(parameters)}")
        request.add_header("Accept", "application/json")
        request.add_header("Accept-Encoding", "gzip")
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        try:
            with self._opener.open(request, timeout=PART_S) as answer:
                content = self._read_content(answer, answer.headers.get("Content-Encoding", ""))
        except urllib.error.HTTPError as error:
            return self._read_refusal(error)
        except (OSError, ValueError) as error:  # URLError is an OSError; a timeout and TLS too
            raise self._make_unreachable_error(error) from None
        document = _parse_object(content)
        if document is None:
            raise self._make_other_api_error(f"answers {clip(content[:60].decode(errors='replace'), 60)!r}")
        return document

    def _read_content(self, answer: IO[bytes], encoding: str) -> bytes:
        """Returns the content of an answer, unpacked. Raises CouldNotRun if it is damaged or takes
        too long, InputError if it is too large."""
        parts, size, until = [], 0, time.monotonic() + ANSWER_S
        unpack = zlib.decompressobj(wbits=31) if encoding == "gzip" else None  # 31: gzip (zlib manual)
        while chunk := answer.read(CHUNK_BYTES):
            if time.monotonic() > until:
                hint = "Ask for a shorter time (--last), or for one device."
                raise CouldNotRun(self.base, f"takes longer than {ANSWER_S:g} s for one answer", self.doc, hint)
            try:
                parts.append(unpack.decompress(chunk, MAX_BYTES) if unpack else chunk)
            except zlib.error:
                raise CouldNotRun(self.base, "sends a damaged answer", "RFC 1952", "Ask again.") from None
            size += len(parts[-1])
            if size > MAX_BYTES or (unpack and unpack.unconsumed_tail):
                hint = "Ask for a shorter time (--last), or for one device."
                raise InputError(self.base, f"one answer is larger than {MAX_BYTES >> 20} MiB", self.doc, hint)
        return b"".join(parts)

    def _read_refusal(self, error: urllib.error.HTTPError) -> JsonObject:
        """Returns the JSON of a refusal. Raises InputError or CouldNotRun where it has none, or is
        about the login."""
        code = error.code
        if code in (UNAUTHORIZED, FORBIDDEN):
            hint = f"Put login and password for {self._host} into ~/.netrc (mode 600), or a token into ${TOKEN}."
            rule = "asks for a login" if code == UNAUTHORIZED else "refuses this login"
            raise InputError(self.base, f"{rule} (HTTP {code})", self.doc, hint) from None
        if MULTIPLE_CHOICES <= code < BAD_REQUEST:
            target = error.headers.get("Location", "elsewhere")
            hint = "Name that address, if it is the server; a login page cannot be used."
            raise InputError(self.base, f"sends to {clip(target)} (HTTP {code})", self.doc, hint) from None
        document = _parse_object(_unpack(error.read(CHUNK_BYTES)))
        if document is not None and "status" in document:
            return document
        if code >= 500:
            raise CouldNotRun(self.base, f"cannot answer now: HTTP {code}", self.doc, "Try again.") from None
        raise self._make_other_api_error(f"answers HTTP {code}")

    def _make_other_api_error(self, answers: str) -> InputError:
        hint = "Name the server's root, as for Grafana's data source: http://HOST:9090, PMM's https://HOST/prometheus."
        return InputError(self.base, f"is not the API of a Prometheus server: it {answers}", self.doc, hint)

    def _make_unreachable_error(self, error: Exception) -> CouldNotRun:
        """Returns the error for a server that gave no answer, with the reason in words."""
        reason = getattr(error, "reason", error)
        hint = "Is the address right, does the server run, and is it reached from here?"
        if isinstance(reason, ssl.SSLError):
            hint = "Name its own authority with SSL_CERT_FILE, or the address that its certificate is for."
        words = get_reason(reason) if isinstance(reason, Exception) else str(reason)
        return CouldNotRun(self.base, f"cannot be reached: {clip(words)}", self.doc, hint)

    def _make_authorization(self) -> str:
        """Returns the header Authorization; "" without token and login. Raises InputError."""
        token = settings.find_value(TOKEN)
        if token:
            if urlsplit(self.base).scheme != "https" and not _is_this_machine(self._host):
                hint = "Use https, or unset the variable."
                raise InputError(self.base, f"${TOKEN} is not sent over http to another machine", self.doc, hint)
            if not token.isascii() or not token.isprintable():
                hint = "Give the token alone, on one line."
                raise InputError(f"${TOKEN}", "is not printable ASCII", "RFC 6750", hint)
            return f"Bearer {token}"
        try:
            path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
            login = netrc.netrc(path).authenticators(self._host) if path.exists() else None
        except (OSError, netrc.NetrcParseError, RuntimeError) as error:
            rule = f"cannot be read: {clip(str(error))}"
            raise InputError("~/.netrc", rule, "ftp(1), netrc", "Correct it, or unset NETRC.") from None
        if login is None:
            return ""
        return "Basic " + base64.b64encode(f"{login[0]}:{login[2]}".encode()).decode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which then raises HTTPError."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _parse_object(content: bytes) -> JsonObject | None:
    """Returns the JSON object in these bytes; None for anything else."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _unpack(content: bytes) -> bytes:
    """Returns content without its gzip wrapping; content that is not gzip, or is cut off, as it
    is."""
    try:
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error):
        return content


def _is_this_machine(host: str) -> bool:
    """Returns whether a host name or address is this machine's own; names are not looked up."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
