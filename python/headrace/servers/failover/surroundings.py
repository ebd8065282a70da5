"""Clock, threads and files that a failover uses; tests that simulate one give it others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from headrace.base.files import write_whole

T = TypeVar("T")
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Background(Protocol):
    """Work that goes on while its caller does."""

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, at most `timeout` seconds."""


class Stop(Protocol):
    """A request to end, as threading.Event has it."""

    def is_set(self) -> bool:
        """Returns whether it was requested."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for it, at most `timeout` seconds, and returns whether it was requested."""
        ...


class Surroundings:
    """The clocks, threads and files of the machine on which a failover runs."""

    def read_now_s(self) -> float:
        """Returns monotonic time, s."""
        return time.monotonic()

    def read_unix_s(self) -> float:
        """Returns Unix time, s."""
        return time.time()

    def read_boot(self) -> str:
        """Returns an id of this machine's boot: each boot has a monotonic clock of its own."""
        try:
            return BOOT.read_text().strip()
        except OSError:
            return ""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def run_all(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Runs calls at once, and returns their results in order; raises the first error."""
        with ThreadPoolExecutor(max(len(calls), 1)) as pool:
            waiting = [pool.submit(call) for call in calls]
        return [future.result() for future in waiting]

    def begin(self, call: Callable[[], object]) -> Background:
        """Begins a call in a thread, and returns that; the end of the program ends it."""
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        return thread

    def write(self, path: Path, content: bytes) -> None:
        """Writes a file as a whole. Raises CouldNotRun."""
        write_whole(path, content)


REAL = Surroundings()
