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
# Seconds after which an interrupt checks again whether the import is over: a guess, too short to be
# noticed and long enough to cost nothing.
RETRY_S = 0.01
# Allocations between two runs of the cyclic garbage collector, instead of Python's 700: a command
# makes few reference cycles and ends soon, and the runs took 6 % of a large plan's time. A guess:
# it costs some MiB.
GC_THRESHOLD = 50_000


def run() -> None:
    """Runs the console script: never with a traceback, always with an exit code that means
    something."""
    # Nothing is open or half written while modules are imported, so the process may end at once.
    # Raising would not do: an exception inside an import may be turned into another one, or be
    # printed and lost (in a weakref callback, or in an extension's initialization).
    # Shells start jobs in the background with the signal ignored.
    gc.set_threshold(GC_THRESHOLD)
    is_handled = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if is_handled:
        set_handler(signal.SIGINT, _leave)
    if sys.stdout is None:  # closed by the caller (>&-): there is nowhere to answer to
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    from headrace.cli.app import run_command
    from headrace.report.output import spell_in_ascii

    spell_in_ascii()
    if is_handled:
        set_handler(signal.SIGINT, _interrupt)
    try:
        code = run_command(sys.argv[1:])
    except KeyboardInterrupt:  # while an error was being printed
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
    from headrace.cli.app import run_command

    return run_command(arguments)


def _leave(*_: object) -> None:
    """Ends the process at once with exit code 130."""
    os.write(2, f"{INTERRUPTED_WORDS}\n".encode())
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; inside an import (commands import late) once the import is over."""
    if _is_importing(frame):
        set_handler(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, RETRY_S)
        return
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Returns whether a frame, or one that called it, is inside an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
