"""Loads on the servers of the doctor's tests: sysbench's tables, and clients of our own."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.mysql import connect
from headrace.servers.server import Server

TABLES, ROWS = 4, 45_000  # 48 MiB of data, twice the buffer pool
USER = "sbload"
ONSET_S, STOP_S = 3.0, 20.0  # s: for the load to show, and to end


def sysbench(
    server: Server, script: str, threads: int, *, rows: int = ROWS, tables: int = TABLES, more: tuple[str, ...] = ()
) -> list[str]:
    """The words of a run."""
    return [
        "sysbench", script, f"--mysql-socket={server.paths.socket}", f"--mysql-user={USER}", "--mysql-db=sbtest", f"--tables={tables}",
        f"--table-size={rows}", f"--threads={threads}", "--time=600", "--rand-type=uniform", *more,
    ]  # fmt: skip


@contextmanager
def loaded(server: Server, script: str, threads: int, *more: str, **shape: int) -> Iterator[None]:
    """sysbench runs meanwhile."""
    words = [*sysbench(server, script, threads, more=more, **shape), "run"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(ONSET_S)
        assert process.poll() is None, "sysbench ended at once"
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def clients(
    server: Server, count: int, work: Callable[[object, threading.Event], None], socket: str | None = None
) -> Iterator[None]:
    """Python clients that do `work` over and over."""
    ending, threads = threading.Event(), []

    def run() -> None:
        address = server.make_address("sbtest")
        with contextlib.suppress(Exception), connect(address, 60) as connection:
            while not ending.is_set():
                work(connection, ending)

    for _ in range(count):
        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
    try:
        time.sleep(ONSET_S)
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join(STOP_S)


def execute(connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
