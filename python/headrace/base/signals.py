"""Handles signals of this process: for its rest, or within a block. No other module sets a handler.

for good        set_handler
within a block  handle_signals, ends_as_interrupts, ignore_interrupts, Interrupts

It imports little: the command sets its handlers before it imports the rest.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None

# `kill`, `systemctl stop` and `timeout` send the first signal, a closed terminal the second.
ENDS = (signal.SIGTERM, signal.SIGHUP)


def set_handler(number: int, handler: Handler) -> Handler:
    """Sets the handler of a signal, and returns the handler before. Only the main thread can. None,
    which stands for a handler set outside of Python, becomes the system's default."""
    return signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def handle_signals(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Sets the handlers of these signals within the block, and restores those before. It does
    nothing in any thread but the main one, which alone can."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: set_handler(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            set_handler(number, earlier)


def ends_as_interrupts():
    """Returns a context manager: in its block, a `kill` or a closed terminal raises
    KeyboardInterrupt as Ctrl-C does, so that the block cleans up."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    return handle_signals(dict.fromkeys(ENDS, interrupt))


def ignore_interrupts():
    """Returns a context manager that ignores Ctrl-C, `kill` and a closed terminal in its block, so
    that a second Ctrl-C does not stop a clean-up."""
    return handle_signals(dict.fromkeys((signal.SIGINT, *ENDS), signal.SIG_IGN))


class Interrupts:
    """Handles Ctrl-C, `kill` and a closed terminal while something is measured and then written.

    From `listen` to `ignore` they raise KeyboardInterrupt. At other times, while the measurement is
    written, they only set `pending`.
    """

    def __init__(self) -> None:
        self.pending = False
        self._listening = False
        self._restored = contextlib.ExitStack()

    def __enter__(self) -> Interrupts:
        self._restored.enter_context(handle_signals(dict.fromkeys((signal.SIGINT, *ENDS), self._handle)))
        return self

    def __exit__(self, *_: object) -> None:
        self._restored.close()

    def listen(self) -> None:
        """Makes interrupts raise KeyboardInterrupt from here on; at once if one came before."""
        self._listening = True
        if self.pending:
            self.pending = self._listening = False
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Makes interrupts only set `pending` from here on."""
        self._listening = False

    def _handle(self, *_: object) -> None:
        """Raises KeyboardInterrupt while listening, else sets `pending`."""
        if not self._listening:
            self.pending = True
            return
        self._listening = False
        raise KeyboardInterrupt
