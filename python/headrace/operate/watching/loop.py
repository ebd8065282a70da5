"""The screen that lives: moments come from a thread of their own, keys from the terminal."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.text import Text

from headrace.base.files import write_whole
from headrace.base.units import HOUR_S, describe_span
from headrace.errors import HeadraceError
from headrace.operate.watching.following import History
from headrace.operate.watching.moment import Moment
from headrace.operate.watching.screen import ScreenState, build_screen
from headrace.operate.watching.terminal import Screen

# Seconds that an arrow goes back or forth; up and down go further.
STEPS = {"left": 10.0, "right": -10.0, "up": 300.0, "down": -300.0}
# The message on what a key did stays for this long, s.
MESSAGE_S = 10.0
# Interval at which the screen checks whether it has to show a message, s.
LOOK_S = 5.0


class Feed:
    """Reads moments in a thread, so that keys are answered while a server is slow."""

    def __init__(self, moments: Iterator[Moment], wake: Callable[[], None] = lambda: None) -> None:
        """Starts the thread, which calls `wake` after each moment and at the end."""
        self._moments, self._wake = moments, wake
        self._queue: queue.SimpleQueue[Moment | BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headrace-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Puts the moments into the queue, then None at their end, or the error that ended them."""
        try:
            for moment in self._moments:
                self._queue.put(moment)
                self._wake()
            self._queue.put(None)
        except BaseException as error:
            self._queue.put(error)
        self._wake()

    def take_moments(self) -> tuple[list[Moment], bool]:
        """Returns the moments since the last call, and whether they have ended. Raises the error
        that ended them."""
        moments: list[Moment] = []
        while not self._queue.empty():
            answer = self._queue.get()
            if answer is None:
                return moments, True
            if isinstance(answer, BaseException):
                raise answer
            moments.append(answer)
        return moments, False


class Watching:
    """The state of the screen, which moments (`add`) and keys (`press`) change; needs no
    terminal."""

    def __init__(self, folder: Path, ascii: bool = False) -> None:
        """Takes the folder into which the key `j` writes. `ascii`: draws bars in ASCII."""
        self.history, self.state, self.folder = History(), ScreenState(ascii=ascii), folder
        self.newest: Moment | None = None
        self._shown: Moment | None = None
        self._difference = False
        self._message_until = 0.0

    def add(self, moment: Moment) -> None:
        """Takes a new moment, and shows it unless the screen is frozen or goes back in time."""
        self.history.add(moment)
        self.newest = moment
        if self.state.message and not self._message_until - MESSAGE_S <= moment.t_unix <= self._message_until:
            self.state = replace(self.state, message="")
        if not self.state.frozen and not self.state.back_s:
            self._shown = moment
        elif self.state.back_s and self._shown is not None:
            self.state = replace(self.state, back_s=min(self.history.reaches_s, moment.t_unix - self._shown.t_unix))
        if self._difference and self._shown is moment:
            self._set_difference()

    def press(self, key: str) -> bool:
        """Does what a key asks; False ends the screen."""
        self.state = replace(self.state, message="")
        if key in ("q", "Q"):
            return False
        if self.newest is None:
            return True
        if key == " ":
            self.state = replace(self.state, frozen=not self.state.frozen)
            self._shown = self._shown if self.state.frozen else self._find_moment(self.state.back_s)
        elif key in STEPS:
            self._go(STEPS[key])
        elif key == "d":
            self._difference = not self._difference
        elif key == "j":
            self.state = replace(self.state, message=self._write_moment())
        self._set_difference()
        self._message_until = self.newest.t_unix + MESSAGE_S
        return True

    def _go(self, step_s: float) -> None:
        """Shows the moment that is `step_s` seconds older (below 0: newer), as far as the history
        reaches."""
        assert self.newest is not None
        reaches = self.history.reaches_s
        back = min(reaches, max(0.0, self.state.back_s + step_s))
        message = "" if back or step_s < 0 else "there is nothing before this yet"
        self.state = replace(self.state, back_s=back, frozen=False, message=message)
        self._shown = self._find_moment(back)

    def _find_moment(self, back_s: float) -> Moment | None:
        assert self.newest is not None
        return self.history.find_moment(self.newest.t_unix - back_s) if back_s else self.newest

    def _set_difference(self) -> None:
        """Sets the moment to be subtracted: an hour before the one shown, or the nearest, with a
        message; none if no difference is asked for."""
        before = None
        if self._difference and self._shown is not None:
            before = self.history.find_moment(self._shown.t_unix - HOUR_S)
            gap = 0.0 if before is None else self._shown.t_unix - before.t_unix
            if abs(gap - HOUR_S) > LOOK_S and not self.state.message:
                text = f"compared with {describe_span(round(gap))} before: nothing is older"
                self.state = replace(self.state, message=text)
        self.state = replace(self.state, before=before)

    def _write_moment(self) -> str:
        """Writes the moment shown as JSON, and returns what came of it as a message."""
        assert self._shown is not None
        path = self.folder / f"headrace-watch-{datetime.fromtimestamp(self._shown.t_unix):%Y%m%d-%H%M%S}.json"
        try:
            write_whole(path, (json.dumps(self._shown.to_document(), indent=2) + "\n").encode())
        except HeadraceError as error:
            return f"not written: {error.rule}"
        return f"written: {path}"

    def build_lines(self, width: int, height: int) -> list[Text]:
        """Returns the screen now, `height` lines of `width` columns."""
        if self._shown is None:
            blank = [Text() for _ in range(height - 2)]
            return [Text("Waiting for the first second ...", "dim"), *blank, Text("q quit", "reverse")]
        return build_screen(self._shown, width, height, self.state)


def run(screen: Screen, moments: Iterator[Moment], seconds: float | None = None) -> None:
    """Shows moments until `q`, the end of the moments, Ctrl-C or `seconds`."""
    until = None if seconds is None else time.monotonic() + seconds
    watching = Watching(Path.cwd(), screen.ascii)
    with screen.hold_terminal():
        feed = Feed(moments, screen.wake)
        ended = False
        while until is None or time.monotonic() < until:
            fresh: list[Moment] = []
            if not ended:
                fresh, ended = feed.take_moments()
            for moment in fresh:
                watching.add(moment)
            screen.show(watching.build_lines(*screen.size))
            wait_s = LOOK_S if until is None else max(0.0, min(LOOK_S, until - time.monotonic()))
            if not all(watching.press(key) for key in screen.read_keys(wait_s)):
                return
