"""The long run of the simulated failovers: as many seeds as SIMULATED_SEEDS says, in a process for each processor.

    SIMULATED_SEEDS=100000 .venv/bin/python tests/unit/servers/failover/soak_failovers.py

SIMULATED_FROM is the first seed (0), SIMULATED_PROCESSES the number of processes. It prints how many seeds it has run,
how they ended, and each seed that failed with what did not hold; then it goes on. One of them again, with its trace:
SIMULATED_SEED=17 .venv/bin/python -m pytest tests/unit/servers/failover/test_simulated_failovers.py. The exit code is 1
where a seed failed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool

from test_simulated_failovers import run

SEEDS = int(os.environ.get("SIMULATED_SEEDS", "500"))
FIRST = int(os.environ.get("SIMULATED_FROM", "0"))
PROCESSES = int(os.environ.get("SIMULATED_PROCESSES", str(os.cpu_count() or 1)))
EVERY_S = 60.0  # between two reports


def play_seed(seed: int) -> tuple[str, str]:
    """Returns the end of a seed, and the rule that it broke: "" for none."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # the trace of a seed that fails
            return run(seed)[1], ""
    except AssertionError as error:
        return "failed", str(error)


def main() -> int:
    ends, began = Counter[str](), time.monotonic()
    reported = began
    with Pool(PROCESSES) as pool:
        for end, failure in pool.imap_unordered(play_seed, range(FIRST, FIRST + SEEDS), chunksize=50):
            ends[end] += 1
            if failure:
                print(failure[:500], flush=True)
            now, count = time.monotonic(), sum(ends.values())
            if now - reported >= EVERY_S or count == SEEDS:
                reported = now
                print(f"{count:,} seeds, {count / (now - began):.0f} a second: {dict(ends)}", flush=True)
    return int(bool(ends["failed"]))


if __name__ == "__main__":
    sys.exit(main())
