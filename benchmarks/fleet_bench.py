"""A fleet: how fast it is answered, and what the advice is worth compared with simple rules.

Speed: `FLEET_BENCH` volumes (1,000) with 14 days of five-minute points, read from Parquet, answered
with the risk and without it. Value: the same fleet, whose demand is known, under four rules; a rule
violates where its storage makes requests wait under the demand that was asked.

    maxima      the largest five-minute IOPS and MiB/s of 14 days, a fifth on top: the inputs that
                Compute Optimizer publishes (EBSUtilizationMetric: Maximum)
    average     gp2 to gp3; provisioned IOPS cut to twice the mean of the days: thresholds on means,
                as Powerpipe's thrifty checks have them
    gp2 to gp3  the same size, and what gp3 includes
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from headrace.base import core
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.batch import usd_of
from headrace.operate.fleet.planning import plan_fleet
from headrace.operate.fleet.points import write_points
from headrace.workload.model import MAX_OUTSTANDING
from seeded_fleet import SeededFleet, seeded_fleet

VOLUMES = int(os.environ.get("FLEET_BENCH", "1000"))
SEED = 11
MAXIMA_HEADROOM, AVERAGE_HEADROOM = 1.2, 2.0  # of the rules above
REGION = "us-east-1"


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
            answers = plan_fleet(
                fleet.inventory, points, FleetSettings(fortnights=fortnights), Path(folder) / f"{fortnights}.parquet"
            )
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = f"risk of {fortnights} fortnights" if fortnights else "without risk"
            print(
                f"answered {told}: {wall:.1f} s, {cpu:.1f} CPU-s ({1e3 * cpu / VOLUMES:.1f} ms a volume), at most {memory:,.0f} MiB"
            )
    ours = {one.key: one.wanted for one in answers if one.verdict == "change"}
    print(f"\n{'rule':12} {'changes':>8} {'saves/month':>12} {'violations':>11}")
    for name, wanted in (
        ("Headrace", ours),
        ("maxima", maxima(fleet)),
        ("average", average(fleet)),
        ("gp2 to gp3", plain(fleet)),
    ):
        cheaper = {key: text for key, text in wanted.items() if saved(fleet, key, text) > 0}
        total = sum(saved(fleet, key, text) for key, text in cheaper.items())
        print(f"{name:12} {len(cheaper):8,} {total:12,.0f} {len(violated(fleet, cheaper)):11,}")


def saved(fleet: SeededFleet, key: str, wanted: str) -> float:
    """USD a month at list prices."""
    volume = fleet.inventory.volume(key)
    assert volume is not None  # keys are of this fleet
    return usd_of(REGION, None, volume.notation) - usd_of(REGION, None, wanted)


def violated(fleet: SeededFleet, wanted: dict[str, str]) -> list[str]:
    """Volumes that wait under the demand asked more than today's do."""
    keys = list(wanted)
    if not keys:
        return []
    columns = [np.concatenate([fleet.demand[key][column] for key in keys]) for column in range(5)]
    demands = core.FleetDemands(*columns, [len(fleet.demand[key][0]) for key in keys], MAX_OUTSTANDING)
    today = [volume.notation for key in keys if (volume := fleet.inventory.volume(key)) is not None]

    def waited(storages: list[str]) -> np.ndarray:
        found = demands.evaluate(
            list(range(len(keys))), storages, [None] * len(keys), [1.0] * len(keys), prune_above=1e9
        )
        return np.array(found["throttled_s"], dtype=float)

    worse = waited(list(wanted.values())) > waited(today) + 1.0  # s of 14 days
    return [key for key, bad in zip(keys, worse, strict=True) if bad]


def _gp3(size: int, iops: float, mib_s: float) -> str:
    bought = int(np.clip(np.ceil(max(iops, 4 * mib_s)), 3_000, min(80_000, max(3_000, 500 * size))))
    return f"gp3:{size}:{bought}:{int(np.clip(np.ceil(mib_s), 125, min(2_000, bought / 4)))}"


def _delivered(fleet: SeededFleet, key: str) -> tuple[np.ndarray, np.ndarray]:
    rows = fleet.points[key]
    iops = ((rows["read_ops"] + rows["write_ops"]) / rows["period_s"]).to_numpy()
    return iops, ((rows["read_bytes"] + rows["write_bytes"]) / rows["period_s"] / 2**20).to_numpy()


def maxima(fleet: SeededFleet) -> dict[str, str]:
    """The rule of maxima."""
    found = {}
    for volume in fleet.inventory.volumes:
        iops, mib_s = _delivered(fleet, volume.id)
        found[volume.id] = _gp3(volume.size_gib, MAXIMA_HEADROOM * iops.max(), MAXIMA_HEADROOM * mib_s.max())
    return found


def average(fleet: SeededFleet) -> dict[str, str]:
    """The rule of averages."""
    found = {}
    for volume in fleet.inventory.volumes:
        iops, mib_s = _delivered(fleet, volume.id)
        found[volume.id] = _gp3(volume.size_gib, AVERAGE_HEADROOM * iops.mean(), AVERAGE_HEADROOM * mib_s.mean())
    return found


def plain(fleet: SeededFleet) -> dict[str, str]:
    """gp2 to gp3 as it comes."""
    return {volume.id: f"gp3:{volume.size_gib}" for volume in fleet.inventory.volumes if volume.type == "gp2"}


if __name__ == "__main__":
    main()
