"""Closed clients before a queue with caps, in steps of 0.1 s.

Each client thinks, asks, waits in line and is served, then thinks again. The queue serves what its
caps allow in a step: I/Os a second, bytes a second, and buckets of tokens that fill at a baseline
and empty at the rate served. If that is less than the clients would ask, all of them wait as long
as it takes for their number to be right (Little's law, found by bisection): a step is long beside
such a wait. Nothing here knows the formulas of the project's model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

STEP_S = 0.1  # the grain of every event here
STEP_MS = STEP_S * 1e3


@dataclass(frozen=True)
class Clients:
    """So many clients that think for `think_ms` between two requests. `active`: their share at a
    time (0 to 1, may be a function of seconds). `read_share` of their requests are reads."""

    count: int
    think_ms: float
    read_share: float = 0.7
    kib: float = 16.0
    active: Callable[[float], float] = lambda at_s: 1.0


@dataclass
class Bucket:
    """Tokens that fill at `per_s` up to `most`; empty, they let through what fills."""

    per_s: float
    most: float
    tokens: float
    in_bytes: bool = False


@dataclass
class Queue:
    """Volume as a queue: caps (I/Os and bytes a second, None: none), buckets, and latency without
    waiting (ms, may be functions of seconds)."""

    iops: float | None = None
    bytes_s: float | None = None
    buckets: list[Bucket] = field(default_factory=list)
    read_ms: Callable[[float], float] = lambda at_s: 0.7
    write_ms: Callable[[float], float] = lambda at_s: 0.9
    scatter: float = 0.05  # of the latency from step to step, as a share


@dataclass
class Steps:
    """Course of a queue, one entry a step: reads, writes (counts), their bytes, seconds spent by
    all of each, requests outstanding on average, share of the step with one at least, tokens of the
    first bucket."""

    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    read_bytes: list[float] = field(default_factory=list)
    write_bytes: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    write_s: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    balance: list[float] = field(default_factory=list)


# Clients that are active in a step, their number, how long they think, and the latency without waiting, ms.
Row = tuple[Clients, float, float, float]


def run(queue: Queue, groups: list[Clients], seconds: float, chance: random.Random) -> Steps:
    """Every step of `seconds`. A recording has 144,000 of them, so the loop is plain."""
    steps = Steps()
    gauss = chance.gauss
    for number in range(round(seconds / STEP_S)):
        at_s = number * STEP_S
        read_ms = max(0.05, queue.read_ms(at_s) * (1 + queue.scatter * gauss(0, 1)))
        write_ms = max(0.05, queue.write_ms(at_s) * (1 + queue.scatter * gauss(0, 1)))
        rows: list[Row] = []
        for clients in groups:
            active = clients.count * clients.active(at_s)
            if active > 0:
                own_ms = clients.read_share * read_ms + (1 - clients.read_share) * write_ms
                rows.append((clients, active, clients.think_ms, own_ms))
        served = []
        for _, active, think, own in rows:
            mean = STEP_MS * active / (think + own)
            served.append(max(0.0, mean + COUNT_SCATTER * math.sqrt(mean) * gauss(0, 1)))
        ios = sum(served)
        size = _size(rows, served, ios)
        allowed = _allowed(queue, size)
        wait_ms = 0.0
        if ios > allowed:
            for _ in range(SIZE_ROUNDS if len(rows) > 1 else 1):
                wait_ms = _wait(rows, allowed)
                served = [STEP_MS * active / (think + own + wait_ms) for _, active, think, own in rows]
                ios = sum(served)
                # Clients that wait less often have another size, and bytes may be what is capped.
                size = _size(rows, served, ios)
                allowed = _allowed(queue, size)
        _spend(queue, ios, size)
        _keep(steps, queue, rows, served, wait_ms, (read_ms, write_ms))
    return steps


def _size(rows: list[Row], served: list[float], ios: float) -> float:
    """Mean bytes of a request."""
    if not ios:
        return 0.0
    if len(rows) == 1:
        return 1024 * (served[0] * rows[0][0].kib) / ios
    return 1024 * sum([count * row[0].kib for count, row in zip(served, rows, strict=True)]) / ios


# Scatter of a count of requests over its root. Independent requests have 1 (Poisson); clients that
# wait for their answers come a little more evenly.
COUNT_SCATTER = 0.8
SIZE_ROUNDS = 3  # after which the mean size has settled to a thousandth
MOST_WAIT_MS = 60_000.0  # no client here waits longer


def _wait(rows: list[Row], allowed: float) -> float:
    """Returns how long each request waits in line, ms, so that no more than `allowed` are
    served."""
    if len(rows) == 1:
        _, active, think, own = rows[0]
        return max(0.0, min(MOST_WAIT_MS, STEP_MS * active / max(allowed, 1e-6) - think - own))
    low, high = 0.0, MOST_WAIT_MS
    for _ in range(30):  # halved so often a minute is less than 0.1 us
        middle = (low + high) / 2
        served = sum(STEP_MS * active / (think + own + middle) for _, active, think, own in rows)
        low, high = (middle, high) if served > allowed else (low, middle)
    return high


def _allowed(queue: Queue, size: float) -> float:
    """I/Os that a step may serve."""
    most = math.inf if queue.iops is None else queue.iops * STEP_S
    if queue.bytes_s is not None and size:
        most = min(most, queue.bytes_s * STEP_S / size)
    for bucket in queue.buckets:
        tokens = bucket.tokens + bucket.per_s * STEP_S
        most = min(most, tokens if not bucket.in_bytes else tokens / size if size else math.inf)
    return most


def _spend(queue: Queue, ios: float, size: float) -> None:
    for bucket in queue.buckets:
        spent = ios * size if bucket.in_bytes else ios
        bucket.tokens = min(bucket.most, max(0.0, bucket.tokens + bucket.per_s * STEP_S - spent))


def _keep(
    steps: Steps,
    queue: Queue,
    rows: list[Row],
    served: list[float],
    wait_ms: float,
    own_ms: tuple[float, float],
) -> None:
    """Adds a step."""
    reads = count = read_kib = write_kib = 0.0
    idle = 1.0
    for (clients, active, think, own), ios in zip(rows, served, strict=True):
        part = ios * clients.read_share
        reads += part
        count += ios
        read_kib += part * clients.kib
        write_kib += (ios - part) * clients.kib
        idle *= 1.0 if wait_ms > 0 else (think / (think + own)) ** active  # all of them think
    writes = count - reads
    read_s = reads * (own_ms[0] + wait_ms) / 1e3
    write_s = writes * (own_ms[1] + wait_ms) / 1e3
    steps.reads.append(reads)
    steps.writes.append(writes)
    steps.read_bytes.append(read_kib * 1024)
    steps.write_bytes.append(write_kib * 1024)
    steps.read_s.append(read_s)
    steps.write_s.append(write_s)
    steps.queue.append((read_s + write_s) / STEP_S)
    steps.busy.append(1.0 if wait_ms > 0 else 1.0 - idle)
    first = queue.buckets[0] if queue.buckets else None
    steps.balance.append(100.0 if first is None else 100.0 * first.tokens / first.most)
