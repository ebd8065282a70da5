"""The start of the `headrace` command: Ctrl-C is caught before anything else is imported.

This file imports little: small parts of the standard library, and what sets a handler;
`headrace.cli.app` holds the commands. Time before the first line here is the interpreter's own
start.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from headrace.base.signals import set_handler
from headrace.cli import INTERRUPTED, INTERRUPTED_WORDS

IMPORTING = "<frozen importlib._bootstrap>"
# Seconds that an interrupt waits before it looks again whether the import is over: a guess, too
# short to be noticed and long enough to cost nothing.
AGAIN_S = 0.01
# Objects made between two searches for circles of them, instead of Python's 700: a command makes
# few circles and ends soon, and the searches took 6 % of a large plan's time. A guess: it costs
# some MiB.
SEARCH_AFTER = 50_000


def run() -> None:
    """Runs the console script: never with a traceback, always with an exit code that means
    something."""
    # Nothing is open or half written while modules are imported, so the process may end at once.
    # Raising would not do: an exception inside an import may be turned into another one, or be
    # printed and lost (in a weakref callback, or in an extension's initialization).
    # Shells start jobs in the background with the signal ignored.
    gc.set_threshold(SEARCH_AFTER)
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if heeded:
        set_handler(signal.SIGINT, _leave)
    if sys.stdout is None:  # closed by the caller (>&-): there is nowhere to answer to
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    from headrace.cli.app import answer
    from headrace.report.output import spell_in_ascii

    spell_in_ascii()
    if heeded:
        set_handler(signal.SIGINT, _interrupt)
    try:
        code = answer(sys.argv[1:])
    except KeyboardInterrupt:  # while an error was being told
        code = INTERRUPTED
    # All is written: the end of the interpreter is not to be disturbed, nor ended by the alarm of
    # an interrupt that waited for an import.
    signal.setitimer(signal.ITIMER_REAL, 0)
    set_handler(signal.SIGINT, signal.SIG_IGN)
    if code == INTERRUPTED:
        # Without the interpreter's own end: it would die of the signal instead where
        # KeyboardInterrupt once went through an `eval`.
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """Runs one command in this process and returns its exit code."""
    from headrace.cli.app import answer

    return answer(arguments)


def _leave(*_: object) -> None:
    os.write(2, f"{INTERRUPTED_WORDS}\n".encode())
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; inside an import (commands import late) once the import is over."""
    if _is_importing(frame):
        set_handler(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        return
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Returns whether a frame, or one that called it, is inside an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
