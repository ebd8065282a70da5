"""Takes a snapshot of a server of a lab and ends itself with SIGKILL when a step is done.

    killed_taker.py LAB_FOLDER SERVER STEP [HOLD_S]

Prints the moment (ns, CLOCK_MONOTONIC) just before. `none`: it is not killed. `hang:STEP`: it stops
there with SIGSTOP instead.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace

from headrace.lab import Lab
from headrace.operate.snapshots.take import take
from headrace.operate.snapshots.targets import make_lab_request


def main(folder: str, server: str, text: str, hold_s: str = "10") -> None:
    """Takes one."""
    how, _, step = text.rpartition(":")
    request = replace(make_lab_request(Lab(folder), server), hold_s=float(hold_s))

    def on_step(done: str) -> None:
        if done == step:
            os.write(1, f"{time.monotonic_ns()}\n".encode())
            os.kill(os.getpid(), signal.SIGSTOP if how == "hang" else signal.SIGKILL)

    print(f"asked {time.monotonic_ns()}", file=sys.stderr, flush=True)
    take(request, on_step)


if __name__ == "__main__":
    main(*sys.argv[1:])
