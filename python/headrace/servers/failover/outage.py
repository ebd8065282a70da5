"""Measures how long clients are without a source, as a client sees it.

The time in which a server takes no writes is not what its clients wait for: they have to learn the
new address, connect anew over TLS, and get an answer to a commit. So one such client is sent to the
new source as soon as its address is published.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from headrace.mysql.connection import cut
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.observer import write_probe
from headrace.servers.failover.surroundings import REAL, Background, Surroundings

ANSWER_S = 5.0  # for a connection and for each answer, a guess: far above what a server takes that is well
AGAIN_S = 0.05  # between two tries of a client that was refused, a guess
LONGEST_S = 10.0  # how long it tries, and how long its answer is waited for at the end, a guess


@dataclass
class FirstClient:
    """A client that connects to the new source when its address is published. `since_s`: when the
    old source took its last write, on the monotonic clock."""

    host: AddressHost
    since_s: float
    surroundings: Surroundings = REAL
    _answered_s: float | None = None
    _over: bool = False
    _trying: Background | None = None

    def begin(self) -> None:
        """Begins to connect and write in the background."""
        self._trying = self.surroundings.begin(self._try_to_commit)

    def measure_outage_s(self) -> float | None:
        """Returns the time from the last write of the old source to the first answered commit of
        the new one, s, after a wait of up to LONGEST_S seconds for that; None for none."""
        if self._trying is not None:
            self._trying.join(LONGEST_S)
        self._over = True
        return None if self._answered_s is None else max(0.0, self._answered_s - self.since_s)

    def _try_to_commit(self) -> None:
        """Tries to connect and write until a write is answered, for at most LONGEST_S seconds, and
        keeps the time of the answer."""
        until = self.surroundings.read_now_s() + LONGEST_S
        while not self._over and self.surroundings.read_now_s() < until:
            connection = None
            try:
                connection = self.host.open_connection(ANSWER_S)
                write_probe(connection)
                self._answered_s = self.surroundings.read_now_s()
                return
            except Exception:
                self.surroundings.sleep(AGAIN_S)
            finally:
                if connection is not None:
                    with contextlib.suppress(Exception):
                        cut(connection)
