"""Twelve troubles of storage and mixtures of them, with parameters drawn by a seed.

The figures of volumes and instances are typed in from the EBS and EC2 user guides, not read from the
project's tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from recorded_queues.queueing import Bucket, Clients, Queue, Steps, run

MIB = 1 << 20
HOURS = 3600.0
LONG_S = 4 * HOURS  # of every scenario: 24 points of ten minutes
# Amazon EC2 user guide, EBS-optimized instances: type, baseline IOPS, baseline Mbit/s (a 128th of
# which are MB/s of 10^6 bytes), most IOPS, most Mbit/s. Each bursts for half an hour a day at least.
BURSTING = (
    ("m5.large", 3_600, 650, 18_750, 4_750),
    ("r5.large", 3_600, 650, 18_750, 4_750),
    ("m5.xlarge", 6_000, 1_150, 18_750, 4_750),
    ("c5.large", 4_000, 650, 20_000, 4_750),
    ("c5.xlarge", 6_000, 1_150, 20_000, 4_750),
)


@dataclass
class Processors:
    """Per cent of all processors, as shares of time in user and system, and waiting for I/O."""

    user: Callable[[float], float] = lambda at_s: 12.0
    system: float = 3.0
    count: int = 8


@dataclass
class Scenario:
    """A recording's truth. `members`: the steps of each device that was recorded. `event`: from and to,
    s: what is interesting. `options`: what a user says besides the file."""

    name: str
    members: dict[str, Steps]
    event: tuple[float, float]
    storage: str
    instance: str | None = None
    processors: Processors = field(default_factory=Processors)
    balance: bool = False

    @property
    def device(self) -> str | None:
        """Device as a user names it: all members of an array; None for a single volume."""
        return "+".join(self.members) if len(self.members) > 1 else None


def window(first: float, last: float, inside: float = 1.0, outside: float = 0.0) -> Callable[[float], float]:
    """One value between two times and another besides."""
    return lambda at_s: inside if first <= at_s < last else outside


def bursts(period_s: float, length_s: float, phase_s: float) -> Callable[[float], float]:
    """1 for `length_s` of each period."""
    return lambda at_s: 1.0 if (at_s - phase_s) % period_s < length_s else 0.0


def _base(chance: random.Random, iops: float, count: int | None = None, **more) -> Clients:
    """Clients that ask about so many I/Os a second while nothing waits."""
    count = count or chance.choice((16, 24, 32))
    return Clients(count, max(0.5, count / iops * 1e3 - 0.8), more.pop("read_share", chance.uniform(0.55, 0.8)), **more)


def _on_one_volume(
    name: str, queue: Queue, groups: list[Clients], chance: random.Random, event, storage: str, **more
) -> Scenario:
    return Scenario(name, {"nvme1n1": run(queue, groups, LONG_S, chance)}, event, storage, **more)


def _times(chance: random.Random, least_s: float = 3_000, most_s: float = 5_400) -> tuple[float, float]:
    first = chance.uniform(3_000, 5_000)
    return first, first + chance.uniform(least_s, most_s)


def gp2_credits(chance: random.Random) -> Scenario:
    """Credits of a gp2 that run out and stay out."""
    size = chance.choice((100, 200, 300, 500))
    base = 3.0 * size
    demand = min(2_600.0, base * chance.uniform(1.5, 2.2))
    gone = chance.uniform(3_000, 5_000)
    bucket = Bucket(base, 5_400_000.0, (demand - base) * gone)
    queue = Queue(iops=3_000.0, bytes_s=128 * MIB, buckets=[bucket])
    clients = _base(chance, demand)
    return _on_one_volume("gp2 credits gone", queue, [clients], chance, (gone, LONG_S), f"gp2:{size}", balance=True)


def gp3_iops(chance: random.Random) -> Scenario:
    first, last = _times(chance)
    iops = chance.choice((3_000, 4_000, 6_000))
    more = Clients(chance.choice((24, 32, 48)), 2.0, chance.uniform(0.5, 0.8), 16.0, window(first, last))
    queue = Queue(iops=iops, bytes_s=250 * MIB)
    groups = [_base(chance, chance.uniform(0.2, 0.5) * iops), more]
    return _on_one_volume("gp3 IOPS", queue, groups, chance, (first, last), f"gp3:500:{iops}:250")


def gp3_bytes(chance: random.Random) -> Scenario:
    first, last = _times(chance)
    kib = chance.choice((64.0, 128.0))
    more = Clients(chance.choice((16, 24, 32)), 3.0, chance.uniform(0.4, 0.8), kib, window(first, last))
    queue = Queue(iops=6_000, bytes_s=125 * MIB)
    return _on_one_volume(
        "gp3 MiB/s", queue, [_base(chance, 400, kib=16.0), more], chance, (first, last), "gp3:500:6000:125"
    )


def instance_burst(chance: random.Random, named: bool = True) -> Scenario:
    """The EBS burst of an instance runs out, of I/Os or of bytes."""
    kind, base_iops, base_mbit, most_iops, _ = chance.choice(BURSTING)
    in_bytes = chance.random() < 0.4
    gone = chance.uniform(3_000, 5_000)
    if in_bytes:
        kib = chance.choice((64.0, 128.0))
        per_s = base_mbit * 1e6 / 8
        demand = chance.uniform(1.4, 1.9) * per_s / kib / 1024
        bucket = Bucket(per_s, per_s * 1_800, (demand * kib * 1024 - per_s) * gone, in_bytes=True)
        clients = _base(chance, demand, kib=kib)
    else:
        demand = chance.uniform(1.4, 2.2) * base_iops
        bucket = Bucket(base_iops, base_iops * 1_800, (demand - base_iops) * gone)
        clients = _base(chance, demand, count=chance.choice((32, 48)))
    queue = Queue(iops=min(16_000, most_iops), bytes_s=1_000 * MIB, buckets=[bucket])
    scenario = _on_one_volume("instance burst", queue, [clients], chance, (gone, LONG_S), "gp3:500:16000:1000")
    scenario.instance = kind if named else None
    return scenario


def degraded(chance: random.Random) -> Scenario:
    """Twenty times as slow for twenty minutes."""
    first = chance.uniform(4_000, 6_000)
    times = window(first, first + 1_200, 20.0, 1.0)
    queue = Queue(3_000, 125 * MIB, read_ms=lambda at_s: 0.7 * times(at_s), write_ms=lambda at_s: 0.9 * times(at_s))
    groups = [_base(chance, chance.uniform(400, 1_100))]
    return _on_one_volume("degraded", queue, groups, chance, (first, first + 1_200), "gp3:500")


def steady(chance: random.Random) -> Scenario:
    return _on_one_volume(
        "steady", Queue(3_000, 125 * MIB), [_base(chance, chance.uniform(300, 1_500))], chance, (0, LONG_S), "gp3:500"
    )


def processor_bound(chance: random.Random) -> Scenario:
    user = chance.uniform(90, 95)
    scenario = _on_one_volume(
        "processors", Queue(3_000, 125 * MIB), [_base(chance, chance.uniform(20, 80))], chance, (0, LONG_S), "gp3:500"
    )
    scenario.processors = Processors(lambda at_s: user, 4.0)
    return scenario


def checkpoints(chance: random.Random) -> Scenario:
    """Writes at the cap for 40 s of each ten minutes."""
    more = Clients(chance.choice((24, 32, 48)), 0.0, 0.0, 16.0, bursts(600, 40, chance.uniform(0, 600)))
    groups = [_base(chance, chance.uniform(150, 400)), more]
    return _on_one_volume("checkpoint bursts", Queue(3_000, 125 * MIB), groups, chance, (0, LONG_S), "gp3:500")


def growth(chance: random.Random) -> Scenario:
    """A slow growth to 80 % of the cap."""
    first = chance.uniform(0.3, 0.5)
    clients = _base(chance, 2_400)
    groups = [
        Clients(
            clients.count, clients.think_ms, clients.read_share, 16.0, lambda at_s: first + (1 - first) * at_s / LONG_S
        )
    ]
    return _on_one_volume("growth", Queue(3_000, 125 * MIB), groups, chance, (0, LONG_S), "gp3:500")


def slow_member(chance: random.Random) -> Scenario:
    """The third of four members answers late; clients choose a member at random."""
    iops, factor = chance.uniform(800, 1_600), chance.uniform(16, 28)
    members = {}
    for index in range(4):
        times = factor if index == 2 else 1.0
        queue = Queue(3_000, 125 * MIB, read_ms=lambda at_s, t=times: 0.7 * t, write_ms=lambda at_s, t=times: 0.9 * t)
        # A member gets its quarter whatever it takes: its clients think less where they wait longer.
        count = 12
        think = max(1.0, count / (iops / 4) * 1e3 - 0.8 * times)
        members[f"nvme{index + 1}n1"] = run(queue, [Clients(count, think, 0.7)], LONG_S, chance)
    return Scenario("slow member", members, (0, LONG_S), "4xgp3:250")


def short_bursts(chance: random.Random) -> Scenario:
    """Six seconds of each minute at the cap."""
    share = chance.choice((0.0, 0.5, 1.0))
    more = Clients(chance.choice((32, 48)), 0.0, share, 16.0, bursts(60, 6, chance.uniform(0, 60)))
    groups = [_base(chance, chance.uniform(100, 250)), more]
    return _on_one_volume("bursts of 6 s", Queue(3_000, 125 * MIB), groups, chance, (0, LONG_S), "gp3:500")


def first_touch(chance: random.Random) -> Scenario:
    """Reads of a restored volume: slow at first, ever fewer of them cold; writes as ever."""
    last, slowest = chance.uniform(3_000, 4_800), chance.uniform(24, 40)
    warm = 0.7
    queue = Queue(
        3_000, 125 * MIB,
        read_ms=lambda at_s: warm + (slowest - warm) * max(0.0, 1 - at_s / last) ** 1.3,
        write_ms=lambda at_s: 0.9,
    )  # fmt: skip
    groups = [_base(chance, chance.uniform(400, 1_200))]
    return _on_one_volume("first touch", queue, groups, chance, (0, last), "gp3:500")


TWELVE: tuple[Callable[[random.Random], Scenario], ...] = (
    gp2_credits, gp3_iops, gp3_bytes, instance_burst, degraded, steady, processor_bound, checkpoints, growth, slow_member,
    short_bursts, first_touch,
)  # fmt: skip


# --- mixtures -------------------------------------------------------------------------------------


def cap_and_processors(chance: random.Random) -> Scenario:
    """At the IOPS cap while the processors are nearly spent: both are true."""
    scenario = gp3_iops(chance)
    scenario.name = "IOPS cap, busy processors"
    scenario.processors = Processors(lambda at_s: 91.0, 4.0)
    return scenario


def degraded_later_cap(chance: random.Random) -> Scenario:
    """Degraded for twenty minutes, at the cap an hour later."""
    first, second = chance.uniform(2_500, 3_500), chance.uniform(8_000, 9_000)
    times = window(first, first + 1_200, 20.0, 1.0)
    queue = Queue(3_000, 125 * MIB, read_ms=lambda at_s: 0.7 * times(at_s), write_ms=lambda at_s: 0.9 * times(at_s))
    more = Clients(40, 2.0, 0.7, 16.0, window(second, second + 3_000))
    groups = [_base(chance, 600), more]
    return _on_one_volume("degraded, later the cap", queue, groups, chance, (second, second + 3_000), "gp3:500")


def touch_then_bursts(chance: random.Random) -> Scenario:
    """Restored, and bursts at the cap each minute."""
    scenario = first_touch(chance)
    share = 0.5
    more = Clients(32, 0.0, share, 16.0, bursts(60, 6, 10))
    warm, last = 0.7, 4_000.0
    queue = Queue(
        3_000, 125 * MIB, read_ms=lambda at_s: warm + 30 * max(0.0, 1 - at_s / last), write_ms=lambda at_s: 0.9
    )
    steps = run(queue, [_base(chance, 300), more], LONG_S, chance)
    return Scenario("first touch, bursts", {"nvme1n1": steps}, (0, last), scenario.storage)


def instance_not_named(chance: random.Random) -> Scenario:
    scenario = instance_burst(chance, named=False)
    scenario.name = "instance burst, no --instance"
    return scenario


MIXTURES: tuple[Callable[[random.Random], Scenario], ...] = (
    instance_not_named, cap_and_processors, degraded_later_cap, touch_then_bursts,
)  # fmt: skip


def make(builder: Callable[[random.Random], Scenario], seed: int) -> Scenario:
    """One scenario of a seed; the name of the builder makes each of a seed differ."""
    return builder(random.Random(f"{builder.__name__} {seed}"))
