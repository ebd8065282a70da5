"""Decides which copies of a server stay, by count and age; the last good one never goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
Reason = Literal["last", "count", "age", ""]


@dataclass(frozen=True)
class CopyRetention:
    """Copies stay among the newest `count`, and while younger than `age_s`; None keeps nothing."""

    count: int | None
    age_s: float | None

    def judge(
        self, newest: Iterable[T], last: T | None, good: Callable[[T], bool], age_s: Callable[[T], float]
    ) -> Iterator[tuple[T, Reason, int]]:
        """Yields the copies of a server (`newest`: the newest first), each with the reason why it
        stays, "" for one that is to be deleted, and the number of newer good ones. `last` always
        stays; copies for which `good` is false do not count. `age_s`: returns the age of one, s."""
        newer = 0
        for copy in newest:
            reason: Reason = "last" if copy is last else ""
            if self.count is not None and newer < self.count:
                reason = "count"
            elif self.age_s is not None and age_s(copy) < self.age_s:
                reason = "age"
            yield copy, reason, newer
            newer += good(copy)
