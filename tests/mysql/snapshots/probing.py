"""Looks whether a filesystem is frozen, from outside: by writing to it all the time."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from waiting import wait_until

from headrace.operate.snapshots.freezing.watchdog import FITHAW

# Far beyond any freeze of a test, s.
FROZEN_S = 30.0
# Between two writes, s: how exactly a thaw is seen.
EVERY_S = 0.0005


class Probe:
    """Writes a byte to a file of the filesystem again and again; `done` are the moments (ns,
    CLOCK_MONOTONIC) at which a write returned."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "probe"
        self.done: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(FROZEN_S)
        if self._thread.is_alive():
            # Left frozen: a test must fail for it and not hang, nor leave it to the next.
            handle = os.open(self.path.parent, os.O_RDONLY)
            fcntl.ioctl(handle, FITHAW, 0)
            os.close(handle)
            self._thread.join()
            raise AssertionError(f"{self.path.parent} was left frozen")
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not self._stop.is_set():
                os.pwrite(handle, b"x", 0)
                self.done.append(time.monotonic_ns())
                time.sleep(EVERY_S)
        finally:
            os.close(handle)

    def next_after(self, moment_ns: int, patience_s: float) -> float:
        """Returns how many ms after a moment the first write returned. Fails when none does."""

        def later() -> list[int]:
            return [at for at in self.done[-20_000:] if at > moment_ns]

        return (wait_until(later, "a write", patience_s, pause_s=0.002)[0] - moment_ns) / 1e6

    def longest_ms(self) -> float:
        """The longest time between two writes."""
        return max((b - a for a, b in zip(self.done, self.done[1:], strict=False)), default=0) / 1e6
