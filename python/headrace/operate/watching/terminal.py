"""A terminal while the screen is on it: keys one by one, the other buffer, and everything put back
at the end, whatever the end is.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from headrace.base.signals import handle_signals
from headrace.errors import InputError
from headrace.operate.watching.screen import Line

# ECMA-48 and xterm's control sequences: the other buffer, the cursor, clearing.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[?25h\x1b[?1049l"
HOME, TO_LINE, CLEAR_LINE = "\x1b[H", "\x1b[{};1H", "\x1b[K"
# Bytes that the arrow keys send, by xterm's two modes.
ARROWS = {
    start + letter: name
    for start in (b"\x1b[", b"\x1bO")
    for letter, name in ((b"A", "up"), (b"B", "down"), (b"C", "right"), (b"D", "left"))
}
# The rest of an arrow's bytes come at once; a lone escape has none, s.
REST_S = 0.02
SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}
ADVICE = "Use --once for one screen as text, or --output jsonl for a line a second."


def check() -> Console:
    """Returns the console of a terminal that shows the screen. Raises InputError without one."""
    console = Console(highlight=False)
    source = "headrace watch --help"
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        what = "stdout" if not sys.stdout.isatty() else "stdin"
        raise InputError(what, "is not a terminal, and the screen needs one", source, ADVICE)
    if console.is_dumb_terminal:
        raise InputError(f"TERM={os.environ.get('TERM', '')}", "cannot move its cursor", source, ADVICE)
    return console


class Screen:
    """Shows lines, and gives keys. Only what changed is written."""

    def __init__(self, console: Console) -> None:
        """Takes the state of the terminal, to put it back at the end."""
        self._system = SYSTEMS.get(console.color_system or "")
        self._colors = not console.no_color
        self._shown: list[str] = []
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._saved = termios.tcgetattr(0)
        self.ascii = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return shutil.get_terminal_size() if not os.isatty(1) else tuple(os.get_terminal_size(1))  # pyright: ignore[reportReturnType]

    @contextmanager
    def taken(self) -> Iterator[Screen]:
        """Takes the terminal, and puts it back as it was: also after Ctrl-C, SIGTERM, Ctrl-Z."""
        handlers = {signal.SIGWINCH: self._resized, signal.SIGTSTP: self._stopped, signal.SIGTERM: self._ended}
        try:
            with handle_signals(handlers):
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

    def show(self, lines: Sequence[Line]) -> None:
        """Writes the lines that are not there yet."""
        fresh = ["".join(self._styled(text, style) for text, style in line) for line in lines]
        out = []
        for number, text in enumerate(fresh):
            if number >= len(self._shown) or self._shown[number] != text:
                out.append(TO_LINE.format(number + 1) + text + CLEAR_LINE)
        out += [TO_LINE.format(number + 1) + CLEAR_LINE for number in range(len(fresh), len(self._shown))]
        self._shown = fresh
        if out:
            _write("".join(out))

    def keys(self, wait_s: float) -> list[str]:
        """Returns the keys pressed within `wait_s`: characters and the names of arrows. Returns as
        soon as there is one, the terminal changed its size, or `wake` was called."""
        ready = select.select([0, self._wake], [], [], wait_s)[0]
        if self._wake in ready:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        return self._read() if 0 in ready else []

    def _read(self) -> list[str]:
        """Returns the keys that wait at the terminal, arrows by their names; `q` if the terminal is
        gone."""
        data = os.read(0, 1024)
        if not data:
            # The terminal is gone: nobody will press q any more.
            return ["q"]
        if data == b"\x1b" and select.select([0], [], [], REST_S)[0]:
            data += os.read(0, 1024)
        keys = []
        while data:
            arrow = next((sequence for sequence in ARROWS if data.startswith(sequence)), None)
            if arrow:
                keys.append(ARROWS[arrow])
                data = data[len(arrow) :]
            else:
                keys.append(chr(data[0]))
                data = data[1:]
        return keys

    def _styled(self, text: str, style: str) -> str:
        """Returns a text with the control sequences of its style, as far as the terminal has
        colors."""
        if not style or self._system is None and self._colors:
            return text
        parsed = _style(style)
        return (parsed if self._colors else parsed.without_color).render(text, color_system=self._system)

    def _enter(self) -> None:
        tty.setcbreak(0, termios.TCSANOW)
        _write(ENTER)
        self._shown = []

    def _leave(self) -> None:
        """Puts the terminal back as it was; it may be gone."""
        # A terminal that is gone has nothing to put back.
        with suppress(OSError, termios.error):
            _write(LEAVE)
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._shown = []
        _write("\x1b[2J")

    def _stopped(self, number: int, _frame: FrameType | None) -> None:
        """Handles Ctrl-Z: the shell gets its terminal, and after `fg` the screen comes back."""
        self._leave()
        with handle_signals({signal.SIGTSTP: signal.SIG_DFL}):
            os.kill(os.getpid(), number)
        self._enter()

    def _ended(self, number: int, _frame: FrameType | None) -> None:
        # 128 and the signal's number, as shells have it.
        raise SystemExit(128 + number)


@cache
def _style(style: str) -> Style:
    return Style.parse(style)


def _write(text: str) -> None:
    data = text.encode(sys.stdout.encoding or "ascii", "replace")
    while data:
        data = data[os.write(1, data) :]
