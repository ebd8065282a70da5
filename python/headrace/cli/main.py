"""Where the `headrace` command starts: Ctrl-C is caught before anything else is imported.

The commands and what they stand on take half a second to import, so this file imports nothing but the standard library's `signal`;
`headrace.cli.app` holds the commands. What comes before the first line here is the interpreter's own start.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells count
INTERRUPTED_WORDS = "interrupted: what was not finished was not written"
IMPORTING = "<frozen importlib._bootstrap>"
AGAIN_S = 0.01  # how long an interrupt waits before it looks again whether the import is over


def run() -> None:
    """The console script: never a traceback, always an exit code that means something."""
    # Nothing has been opened or written while modules are imported, so the process may end on the spot. Raising would not do: an exception
    # inside an import may be turned into another one, or be printed and lost (in a weakref callback, or in an extension's initialization).
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # shells start jobs in the background with it ignored
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    if sys.stdout is None:  # closed by the caller (>&-): there is nowhere to answer to
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    from headrace.cli.app import answer
    from headrace.report.output import spell_in_ascii

    spell_in_ascii()
    if heeded:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        code = answer(sys.argv[1:])
    except KeyboardInterrupt:  # while an error was being told
        code = INTERRUPTED
    # All is written: the end of the interpreter is not to be disturbed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == INTERRUPTED:
        # Past the interpreter's own end: it would die of the signal instead, when KeyboardInterrupt once went through an `eval`.
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """Runs one command in this process and returns its exit code."""
    from headrace.cli.app import answer

    return answer(arguments)


def _leave(*_: object) -> None:
    os.write(2, f"{INTERRUPTED_WORDS}\n".encode())
    os._exit(INTERRUPTED)


def _interrupt(number: int, frame: object) -> None:
    """KeyboardInterrupt, but not inside an import (commands import what they need when they run): then when the import is over."""
    if _importing(frame):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        return
    raise KeyboardInterrupt


def _importing(frame) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
