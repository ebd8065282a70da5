"""A terminal while the screen is on it: rich draws it, keys come one by one, and everything is put
back at the end, whatever the end is.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headrace.base.signals import handle_signals
from headrace.errors import InputError
from headrace.operate.watching.screen import CUT

# A key: the bytes of an arrow, by xterm's two modes, or one byte.
KEY = re.compile(rb"\x1b[\[O][ABCD]|.", re.DOTALL)
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
# The rest of an arrow's bytes come at once; a lone escape has none, s.
REST_S = 0.02
ADVICE = "Use --once for one screen as text, or --output jsonl for a line a second."


def open_console() -> Console:
    """Returns the console of this process's terminal. Raises InputError where standard input or
    output is not a terminal, or its cursor cannot be moved."""
    console = Console(highlight=False)
    source = "headrace watch --help"
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        what = "stdout" if not sys.stdout.isatty() else "stdin"
        raise InputError(what, "is not a terminal, and the screen needs one", source, ADVICE)
    if console.is_dumb_terminal:
        raise InputError(f"TERM={os.environ.get('TERM', '')}", "cannot move its cursor", source, ADVICE)
    return console


class Screen:
    """Draws lines on a terminal and reads its keys."""

    def __init__(self, console: Console) -> None:
        """Saves the terminal's settings, which `hold_terminal` puts back at its end."""
        self._console = console
        self._live = Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._saved = termios.tcgetattr(0)
        self.ascii = console.options.ascii_only

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal now, whatever COLUMNS said when it was started."""
        self._console.size = os.get_terminal_size(1)
        return self._console.size

    @contextmanager
    def hold_terminal(self) -> Iterator[Screen]:
        """Takes the terminal, and puts it back as it was: also after Ctrl-C, SIGTERM, Ctrl-Z."""
        handlers = {signal.SIGWINCH: _pass, signal.SIGTSTP: _pass, signal.SIGTERM: _end}
        try:
            with handle_signals(handlers):
                # The number of a signal ends a wait for keys, outside of rich's drawing.
                fd = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
                try:
                    self._enter()
                    yield self
                finally:
                    signal.set_wakeup_fd(fd)
        finally:
            self._leave()
            os.close(self._wake)
            os.close(self._woken)

    def wake(self) -> None:
        """Ends a wait for keys: there is something to show. May be called from any thread."""
        with suppress(BlockingIOError, OSError):
            os.write(self._woken, b"\0")

    def show(self, lines: Sequence[Text]) -> None:
        """Draws the lines; a terminal without UTF-8 gets `?` for the letters that it lacks."""
        for line in lines if self.ascii else ():
            encoding = self._console.encoding
            line.plain = line.plain.replace(CUT, "~").encode(encoding, "replace").decode(encoding)
        self._live.update(Group(*lines), refresh=True)

    def read_keys(self, wait_s: float) -> list[str]:
        """Returns the keys pressed within `wait_s`: characters and the names of arrows. Returns as
        soon as there is one, the terminal changed its size, or `wake` was called."""
        ready = select.select([0, self._wake], [], [], wait_s)[0]
        if self._wake in ready and signal.SIGTSTP in os.read(self._wake, 4096):
            self._stop()
        return _read_keys() if 0 in ready else []

    def _enter(self) -> None:
        tty.setcbreak(0, termios.TCSANOW)
        self._live.start()

    def _leave(self) -> None:
        """Puts the terminal back as it was; it may be gone."""
        # A terminal that is gone has nothing to put back.
        with suppress(OSError, termios.error):
            self._live.stop()
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)

    def _stop(self) -> None:
        """Does what Ctrl-Z asks: the shell gets its terminal, and after `fg` the screen comes
        back."""
        self._leave()
        with handle_signals({signal.SIGTSTP: signal.SIG_DFL}):
            os.kill(os.getpid(), signal.SIGTSTP)
        self._enter()


def _read_keys() -> list[str]:
    """Returns the keys that wait at the terminal, arrows by their names; `q` if the terminal is
    gone."""
    data = os.read(0, 1024)
    if not data:
        # The terminal is gone: nobody will press q any more.
        return ["q"]
    if data == b"\x1b" and select.select([0], [], [], REST_S)[0]:
        data += os.read(0, 1024)
    keys = [key.decode("latin-1") for key in KEY.findall(data)]
    return [ARROWS[key[-1]] if len(key) > 1 else key for key in keys]


def _pass(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: `read_keys` sees the signal's number."""


def _end(number: int, _frame: FrameType | None) -> None:
    # 128 and the signal's number, as shells have it.
    raise SystemExit(128 + number)
