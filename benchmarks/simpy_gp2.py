"""A closed loop on a gp2 volume as a plain SimPy program: the program that one would write without
Headrace.

Sixteen clients, each: wait for a token of the burst cap, for a credit, for the volume's own
latency; then again. Tokens are kept as numbers and refilled when looked at, so no process ticks.
This is the peer that `make bench` compares the per-I/O form with.
"""

from __future__ import annotations

import random

# Only `make bench` installs this peer.
import simpy  # pyright: ignore[reportMissingImports]


class Gp2:
    """Burst cap and credits of a gp2 volume of `size_gib`; first in, first out."""

    def __init__(self, env: simpy.Environment, size_gib: int, seed: int) -> None:
        self.env = env
        self.line = simpy.Resource(env, capacity=1)
        self.baseline = max(100, 3 * size_gib)
        self.credits = 5_400_000.0
        self.tokens = 3_000 / 64
        self.at = 0.0
        self.random = random.Random(seed)
        self.done = 0

    def refill(self) -> None:
        passed = self.env.now - self.at
        self.at = self.env.now
        self.credits = min(5_400_000.0, self.credits + self.baseline * passed)
        self.tokens = min(3_000 / 64, self.tokens + 3_000 * passed)

    def request(self):
        with self.line.request() as turn:
            yield turn
            self.refill()
            wait = max((1 - self.tokens) / 3_000, (1 - self.credits) / self.baseline, 0.0)
            if wait > 0:
                yield self.env.timeout(wait)
                self.refill()
            self.tokens -= 1
            self.credits -= 1
        # The model's gp2 read: base 250 us and a lognormal body of median 74 us.
        yield self.env.timeout(250e-6 + self.random.lognormvariate(-9.511, 0.98))
        self.done += 1


def client(env: simpy.Environment, volume: Gp2):
    while True:
        yield from volume.request()


def run(seconds: float, clients: int = 16, size_gib: int = 500, seed: int = 1) -> int:
    """Requests answered in `seconds` of model time."""
    env = simpy.Environment()
    volume = Gp2(env, size_gib, seed)
    for _ in range(clients):
        env.process(client(env, volume))
    env.run(until=seconds)
    return volume.done
