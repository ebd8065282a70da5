"""Speed and memory of the advice for a fleet. The worth of the advice is in fleet_rules.py.

`FLEET_BENCH` volumes (1,000) with 14 days of five-minute points, in Parquet, answered by
`headrace fleet plan` in a process of its own, without the risk and with it: seconds to the first
answers and to all, processor seconds, and the most memory that the process held. `FLEET_RUNS` (3)
runs of each, in turns; the median and the range are printed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from headrace.operate.fleet.points import write_points
from seeded_fleet import seeded_fleet

VOLUMES = int(os.environ.get("FLEET_BENCH", "1000"))
RUNS = int(os.environ.get("FLEET_RUNS", "3"))
SEED = 11
BLOCK = 500  # volumes that are made at once: all of a large fleet would not fit into memory
FORTNIGHTS = (0, 10)


@dataclass(frozen=True)
class Run:
    """Time and memory of one run. `first_s`: until the first answer was printed; `memory_mib`: the
    most that was resident."""

    first_s: float
    whole_s: float
    cpu_s: float
    memory_mib: float


def main() -> None:
    """Prints the table."""
    began = time.perf_counter()
    with TemporaryDirectory() as name:
        folder = Path(name)
        described: list[dict] = []
        rows = write_points(folder / "points.parquet", _blocks(described))
        (folder / "volumes.json").write_text(json.dumps({"Volumes": described}))
        mib = (folder / "points.parquet").stat().st_size / 2**20
        moment = time.perf_counter() - began
        print(
            f"{VOLUMES:,} volumes, seed {SEED}, 14 days of 5 min: {rows:,} points in {mib:,.0f} MiB, made in {moment:.0f} s"
        )
        runs = {count: [] for count in FORTNIGHTS}
        for number in range(RUNS):
            for count in FORTNIGHTS:
                runs[count].append(_run(folder, count, number))
    for count, run in runs.items():
        print(f"{f'risk of {count} fortnights' if count else 'without risk'}, {len(run)} runs:")
        for answer, field in (
            ("first answers", "first_s"),
            ("all answers", "whole_s"),
            ("processor", "cpu_s"),
            ("memory", "memory_mib"),
        ):
            values = [getattr(entry, field) for entry in run]
            unit = "MiB" if field == "memory_mib" else "s"
            print(
                f"  {answer:<14}{statistics.median(values):10,.1f} {unit}  ({min(values):,.1f} to {max(values):,.1f})"
            )
        print(
            f"  {'a volume':<14}{1e3 * statistics.median(entry.cpu_s for entry in run) / VOLUMES:10.2f} ms of processor"
        )


def _blocks(described: list[dict]) -> Iterator[pl.DataFrame]:
    """The points, block by block; what describe-volumes shows of them goes to `described`."""
    for first in range(0, VOLUMES, BLOCK):
        fleet = seeded_fleet(min(BLOCK, VOLUMES - first), SEED + first, first=first)
        described += fleet.described
        yield pl.concat(list(fleet.points.values()))


def _run(folder: Path, fortnights: int, number: int) -> Run:
    command = [
        str(Path(sys.executable).with_name("headrace")), "fleet", "plan", str(folder / "points.parquet"),
        "--inventory", str(folder / "volumes.json"), "--fortnights", str(fortnights), "--output", "jsonl",
        "--to", str(folder / f"{fortnights}-{number}.parquet"),
    ]  # fmt: skip
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # it is a pipe
        first = time.perf_counter() - began if child.stdout.readline() else float("nan")
        lines = 1 + sum(1 for _ in child.stdout)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    whole = time.perf_counter() - began
    if child.returncode or lines != VOLUMES:
        sys.exit(f"headrace fleet plan ended with {child.returncode} after {lines:,} of {VOLUMES:,} answers")
    return Run(first, whole, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
