"""A fleet: how fast it is answered. What the advice is worth is in fleet_rules.py.

`FLEET_BENCH` volumes (1,000) with 14 days of five-minute points, read from Parquet, answered
without the risk and with it.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.planning import plan_fleet
from headrace.operate.fleet.points import write_points
from seeded_fleet import seeded_fleet

VOLUMES = int(os.environ.get("FLEET_BENCH", "1000"))
SEED = 11


def main() -> None:
    """Prints the tables."""
    began = time.perf_counter()
    fleet = seeded_fleet(VOLUMES, SEED)
    print(f"{VOLUMES:,} volumes, seed {SEED}, 14 days of 5 min, made in {time.perf_counter() - began:.0f} s")
    with TemporaryDirectory() as folder:
        points = Path(folder) / "points.parquet"
        write_points(points, fleet.points.values())
        for fortnights in (0, 10):
            began, cpu = time.perf_counter(), time.process_time()
            plan_fleet(
                fleet.inventory, points, FleetSettings(fortnights=fortnights), Path(folder) / f"{fortnights}.parquet"
            )
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = f"risk of {fortnights} fortnights" if fortnights else "without risk"
            print(
                f"answered {told}: {wall:.1f} s, {cpu:.1f} CPU-s ({1e3 * cpu / VOLUMES:.1f} ms a volume), at most {memory:,.0f} MiB"
            )


if __name__ == "__main__":
    main()
