"""Actions on an episode of an alarm: a command without a shell, or a webhook.

Both get the event as JSON, the command on its standard input and each value in its environment.
Both end at a time limit; a failure is reported and stops nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shlex
import shutil
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

from headrace.errors import CouldNotRun, Refusals
from headrace.mysql import Secret
from headrace.operate.alarms.episodes import EpisodeEvent

refuse = Refusals("docs/guide/watch.md, Alarms")
# Longest that a command and a webhook may take, s: as the lab's own alarm actions.
COMMAND_S, WEBHOOK_S = 10.0, 5.0
# Bytes of a secret file; a key is shorter. Ours.
MAX_SECRET_BYTES = 4096
# Bytes of a command's errors that are read for its message, which has 200 characters. A guess.
MAX_ERROR_BYTES = 4096
# A webhook is tried twice, as the lab's own.
TRIES = 2
PREFIX = "HEADRACE_"
SIGNATURE = "X-Headrace-Signature-256"
# The event's own values go into the environment; of ours, these only: no password does.
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER")


class Action(Protocol):
    """Something to do with each event."""

    def tell(self, event: EpisodeEvent) -> str | None:
        """Reports the event; returns in words what failed, None where nothing did."""
        ...


@dataclass(frozen=True)
class AlarmCommand:
    """A program with its arguments."""

    argv: Sequence[str]
    timeout_s: float = COMMAND_S

    def tell(self, event: EpisodeEvent) -> str | None:
        """Runs the program without a shell and kills it after `timeout_s`; returns what failed."""
        document = event.to_dict()
        values = {PREFIX + name.upper(): "" if value is None else str(value) for name, value in document.items()}
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        try:
            # A file and no pipe: a process that the program leaves behind may have it open for
            # long. In memory: the alarm may be about a full filesystem.
            with open(os.memfd_create("errors"), "rb") as errors:
                completed = subprocess.run(
                    list(self.argv),
                    input=json.dumps(document).encode(),
                    env=environment | values,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    timeout=self.timeout_s,
                    start_new_session=True,
                    check=False,
                )
                text = os.pread(errors.fileno(), MAX_ERROR_BYTES, 0).decode(errors="replace")
        except subprocess.TimeoutExpired:
            return f"{self.argv[0]} took longer than {self.timeout_s:g} s and was ended"
        except OSError as error:
            return f"{self.argv[0]} could not be started: {error.strerror}"
        if completed.returncode:
            output = " ".join(text.split())[:200]
            return f"{self.argv[0]} ended with exit code {completed.returncode}" + (f": {output}" if output else "")
        return None


@dataclass(frozen=True)
class AlarmWebhook:
    """A POST of the event; with a secret, signed with HMAC-SHA256."""

    url: str
    secret: Secret | None = None
    timeout_s: float = WEBHOOK_S

    def tell(self, event: EpisodeEvent) -> str | None:
        """Posts the event, twice at most; returns what failed."""
        body = json.dumps(event.to_dict()).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "headrace"}
        if self.secret is not None:
            key = self.secret.reveal().encode()
            headers[SIGNATURE] = "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(self.url, body, headers, method="POST")
        # Neither a proxy nor a redirect: the address was checked, another was not.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
        failure = ""
        for _ in range(TRIES):
            try:
                with opener.open(request, timeout=self.timeout_s) as answer:
                    answer.read(1024)
                return None
            except urllib.error.HTTPError as error:
                failure = f"answers {error.code}"
                error.close()
            except (OSError, ValueError) as error:
                failure = f"does not answer: {getattr(error, 'reason', None) or error}"
        return f"{_describe_url(self.url)} {failure}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def parse_command(text: str) -> AlarmCommand:
    """Parses a command line as a program with its arguments. Raises InputError."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise refuse.input(f"--command {text}", f"cannot be read: {error}", "Close the quotation mark.") from None
    if not argv:
        raise refuse.input("--command ''", "names no program", "For example --command '/usr/local/bin/page --loud'.")
    if shutil.which(argv[0]) is None:
        raise refuse.input(argv[0], "is not a program here; it is started without a shell", "Give its path.")
    return AlarmCommand(tuple(argv))


def make_webhook(url: str, secret_file: str | Path | None = None) -> AlarmWebhook:
    """Returns a webhook, of https, or of http on this machine, with the secret in `secret_file`.
    Raises InputError, CouldNotRun."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise refuse.input(
            _describe_url(url), "is not a URL", "For example https://hooks.example.com/storage."
        ) from None
    if parts.username or parts.password:
        hint = "Put a secret into a file: --webhook-secret FILE."
        raise refuse.input(_describe_url(url), "has a password in it, which process lists show", hint)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)) or not host:
        rule = "must be https, or http on this machine (127.0.0.1, ::1, localhost)"
        raise refuse.input(_describe_url(url), rule, "The event describes your storage: nobody else may read it.")
    return AlarmWebhook(url, None if secret_file is None else _read_secret(Path(secret_file)))


def _is_loopback(host: str) -> bool:
    """Returns whether a host is this machine: a loopback address, or `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe_url(url: str) -> str:
    """Returns a URL that fits a message: its query may be a secret."""
    return "".join(
        character if character.isprintable() else "?" for character in url.partition("?")[0].rpartition("@")[2]
    )[:200]


def _read_secret(path: Path) -> Secret:
    """Reads a secret from a file of at most MAX_SECRET_BYTES. Raises CouldNotRun if it cannot be
    read, and InputError if others may read it, or if it is empty or too long."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise CouldNotRun(str(path), rule, "", "Does it exist, and is it yours?") from None
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        rule = f"holds a secret and others may read it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise refuse.input(str(path), rule, f"chmod 600 {path}")
    text = data.decode("utf-8", "replace").strip()
    if not text or len(data) > MAX_SECRET_BYTES:
        raise refuse.input(str(path), f"must hold 1 to {MAX_SECRET_BYTES:,} bytes", "One line with the secret.")
    return Secret(text)
