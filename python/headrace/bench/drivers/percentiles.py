"""Latency histograms and the percentiles read from them.

The percentile q of a histogram is the value of the bucket in which the q-th part of all
observations, in order of size, is reached (the smallest value with at least that share at or below
it). It is as exact as the bucket is narrow: sysbench's 1,024 buckets from 0.001 ms to 100 s are 1.8
% apart and named by their middle, so a percentile is within 0.9 %; fio's are within 0.8 %.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHARES = {"p50_ms": 0.50, "p90_ms": 0.90, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
# 1 of n observations is the most extreme: a percentile wants at least ten above it to say anything.
FEWEST_ABOVE = 10


@dataclass(frozen=True)
class Histogram:
    """`values_ms`: of each bucket, rising; `counts`: observations in it. `source`: how it was made;
    `error_percent`: half a bucket."""

    values_ms: tuple[float, ...]
    counts: tuple[int, ...]
    source: str
    error_percent: float

    @property
    def total(self) -> int:
        """Observations."""
        return sum(self.counts)

    def percentile(self, share: float) -> float | None:
        """Returns the value with at least `share` (0..1) at or below it, ms; None of an empty
        histogram."""
        total = self.total
        if not total:
            return None
        for value, reached in zip(self.values_ms, itertools.accumulate(self.counts), strict=True):
            if reached >= share * total:
                return value
        return self.values_ms[-1]

    def summary(self) -> dict[str, float | None]:
        """Returns p50_ms to p999_ms; None where fewer than ten observations lie above."""
        total = self.total
        return {
            name: self.percentile(share) if (1 - share) * total >= FEWEST_ABOVE else None
            for name, share in SHARES.items()
        }

    def rows(self) -> Iterable[tuple[float, int, float]]:
        """Yields (value_ms, count, share at or below) of every bucket that has any."""
        total = self.total
        for value, count, reached in zip(self.values_ms, self.counts, itertools.accumulate(self.counts), strict=True):
            if count:
                yield value, count, reached / total


def merged(parts: Sequence[Histogram]) -> Histogram:
    """Returns histograms with the same kind of buckets as one. Raises ValueError for none."""
    sums: dict[float, int] = {}
    for part in parts:
        for value, count in zip(part.values_ms, part.counts, strict=True):
            sums[value] = sums.get(value, 0) + count
    first = parts[0] if parts else None
    if first is None:
        raise ValueError("no histogram")
    return Histogram(
        tuple(sorted(sums)), tuple(sums[value] for value in sorted(sums)), first.source, first.error_percent
    )
