"""Carries out a failover or a switchover, and ends itself with SIGKILL before it writes a line of
its journal.

    killed_failover.py LAB_FOLDER JOURNAL_FOLDER CLIENTS KIND SOURCE LINE SERVER...

Prints `ready` when semi-sync has been seen at work, and waits for a line of input.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

from headrace.lab import Lab
from headrace.servers.failover.cluster import make_cluster
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.planning.members import FailoverWish
from headrace.servers.failover.planning.progress import AnyEvent


def main(folder: str, journal: str, clients: str, kind: str, source: str, line: str, *names: str) -> None:
    """Begins one."""
    cluster = make_cluster(names, Lab(Path(folder)), Path(journal))
    executor = cluster.make_executor(Path(clients), say=lambda text: print(text, file=sys.stderr, flush=True))
    proof, until = None, time.monotonic() + 30
    while proof is None and time.monotonic() < until:
        _, proof = executor.observer.probe_source(source)
    print("ready", flush=True)
    sys.stdin.readline()
    numbers, real = itertools.count(1), Journal.write

    def write(self: Journal, event: AnyEvent) -> None:
        if next(numbers) == int(line):
            print(f"killed before {event}", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        real(self, event)

    Journal.write = write
    executor.run(FailoverWish(source, kind="switchover" if kind == "switchover" else "failover"), proof=proof)


if __name__ == "__main__":
    main(*sys.argv[1:])
