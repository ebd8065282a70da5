"""Threads that work through items: an error or an interrupt ends all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from waiting import patience

from headrace.base.threads import work_through


def interrupted(count: int) -> Iterator[int]:
    """Yields numbers, then Ctrl-C."""
    yield from range(count)
    raise KeyboardInterrupt


def test_every_item_is_worked_on():
    lock, seen = threading.Lock(), []

    def work(item: int, ended: threading.Event) -> None:
        with lock:
            seen.append(item)
        assert not ended.is_set()

    work_through(range(100), work, 8)
    assert sorted(seen) == list(range(100))


@pytest.mark.parametrize(("items", "error"), [(range(100), ValueError), (interrupted(50), KeyboardInterrupt)])
def test_the_first_error_ends_all(items, error):
    """Two threads have an item each: no third item is begun, and the other thread hears of the end at once."""
    begun, waited = [], []

    def work(item: int, ended: threading.Event) -> None:
        begun.append(item)
        if item == 0 and error is ValueError:
            raise ValueError
        waited.append(ended.wait(patience(60.0)))

    with pytest.raises(error):
        work_through(items, work, 2)
    assert all(waited) and set(begun) <= {0, 1}
