"""Targets, each followed in a thread, and their newest moments as text that is ready for a scrape.

The text is written ahead of the scrapes: fifty volumes take 40 ms to write, and a scrape nothing.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence

from headrace.errors import HeadraceError, InputError, Refusals
from headrace.lab.exporter import open_port
from headrace.operate.targets import SourceOptions, is_live
from headrace.operate.watching.moment import Moment
from headrace.operate.watching.opening import open_target

refuse = Refusals("docs/guide/exports.md")
DEFAULT_LISTEN = "127.0.0.1:9481"
# Interval at which the text is written anew, s: Prometheus scrapes every 15 s by default.
WRITE_S = 5.0
# A target that was lost is tried again after this, s.
AGAIN_S = 5.0
# Figures of a target that are older than this are left out, s.
STALE_S = 30.0
# A target of CloudWatch speaks every minute, or every five.
STALE_MINUTES_S = 600.0


class Targets:
    """Follows targets, each in a thread, and keeps the newest moment of each."""

    def __init__(self, targets: Sequence[str], options: SourceOptions) -> None:
        """Opens nothing yet. Raises InputError for a target that is not live or named twice."""
        for target in targets:
            if not is_live(target) and not target.startswith("aws:"):
                hint = "Export lab:VOLUME, mysql://USER@HOST or aws:vol-...."
                raise refuse.input(target[:80], "is not followed: it does not go on", hint)
            if targets.count(target) > 1:
                raise refuse.input(target[:80], "is named twice", "Name each target once.")
        self._targets, self._options = list(targets), options
        self._newest: dict[str, tuple[float, Moment]] = {}
        self._ready = {target: threading.Event() for target in targets}
        self._errors: dict[str, HeadraceError] = {}

    def start(self) -> None:
        """Starts the threads and waits for the first moment of each target. Raises what the first
        try of a target raised, such as an error for a wrong name."""
        for target in self._targets:
            threading.Thread(target=self._follow, args=(target,), name=f"headrace-{target}", daemon=True).start()
        for target in self._targets:
            self._ready[target].wait()
            if target in self._errors:
                raise self._errors[target]

    def _follow(self, target: str) -> None:
        """Follows a target for ever, and opens it again AGAIN_S seconds after it was lost. If the
        first try fails, keeps the error for `start` and ends."""
        while True:
            try:
                began = time.time()
                with open_target(target, self._options, pages_every_s=WRITE_S) as watched:
                    for moment in watched.moments:
                        # Past moments serve the time to empty; CloudWatch has nothing newer.
                        if is_live(target) and moment.t_unix + moment.grain_s < began - 1.0:
                            continue
                        self._newest[target] = (time.monotonic(), moment)
                        self._ready[target].set()
            except HeadraceError as error:
                if not self._ready[target].is_set():
                    self._errors[target] = error
                    self._ready[target].set()
                    return
                print(f"export: {target}: {error.rule}", file=sys.stderr)
            time.sleep(AGAIN_S)

    def list_moments(self) -> list[Moment]:
        """Returns the newest moment of each target, unless it is older than STALE_S seconds
        (STALE_MINUTES_S for targets that have a point a minute or fewer)."""
        now = time.monotonic()
        newest = list(self._newest.values())
        return [
            moment for at, moment in newest if now - at <= (STALE_S if moment.grain_s < STALE_S else STALE_MINUTES_S)
        ]


class ExpositionText:
    """The text of the exposition, which a thread writes anew every WRITE_S seconds."""

    def __init__(self, write: Callable[[], str]) -> None:
        self._write = write
        self._text = write()
        threading.Thread(target=self._run, name="headrace-export", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(WRITE_S)
            self._text = self._write()

    def text(self) -> str:
        """Returns the newest text."""
        return self._text


def open_listener(listen: str) -> socket.socket:
    """Opens a socket that listens on this machine. Raises InputError, CouldNotRun."""
    host, colon, port = listen.rpartition(":")
    if not colon or host not in ("127.0.0.1", "localhost"):
        hint = f"For example --listen {DEFAULT_LISTEN}. Put a proxy with TLS in front of it for others."
        raise refuse.input(
            f"--listen {listen}", "must be 127.0.0.1:PORT: metrics are served to this machine alone", hint
        )
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise InputError(f"--listen {listen}", "a port is 0 to 65,535", "RFC 9293", "0 takes a free one.")
    return open_port(int(port))
