"""Threads that work through many items, and all end early after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def work_through(items: Iterable[T], work: Callable[[T, threading.Event], object], threads: int) -> None:
    """Calls `work` with each item, begun in their order, as many at once as there are `threads`.

    Waits until all calls have ended. The first error of a call, and an interrupt of the caller, set
    the event that each call gets: no other call begins, and long calls should look at it and
    return. Then the error is raised.
    """
    ended = threading.Event()

    def call(item: T) -> None:
        if ended.is_set():
            return
        try:
            work(item, ended)
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(threads) as pool:
        try:
            for _ in pool.map(call, items):
                pass
        except BaseException:
            ended.set()
            pool.shutdown(cancel_futures=True)
            raise
