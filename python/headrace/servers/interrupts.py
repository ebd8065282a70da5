"""Ctrl-C, kill and a closed terminal while something is half made."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handled(signals: tuple[signal.Signals, ...], handler) -> Iterator[None]:
    """With this handler for these signals; only the main thread has any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, handler) for one in signals}
    try:
        yield
    finally:
        for one, what in before.items():
            signal.signal(one, what if what is not None else signal.SIG_DFL)


def ends_as_interrupts():
    """kill and a closed terminal end the work as Ctrl-C does: what is half made is taken back."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    return handled(ENDS, interrupt)


def undisturbed():
    """A second Ctrl-C must not stop the clearing up of the first."""
    return handled((signal.SIGINT, *ENDS), signal.SIG_IGN)
