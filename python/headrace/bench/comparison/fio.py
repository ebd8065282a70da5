"""fio: run a load on a block device or a file, read what it measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headrace.base.processes import Command, required, run_checked
from headrace.errors import InputError

SOURCE = "fio(1)"
# Beside the run itself: laying out, starting, ending.
MORE_S = 60.0
PERCENTILES = (50.0, 99.0, 99.9)


@dataclass(frozen=True)
class Load:
    """What fio shall do. `rw`: its name (randread ...). `bs_kib`: KiB a request. `iodepth`: in flight per job. `seconds`: how long; before that `ramp_s` that do not
    count. `seed`: of the offsets. `size_gib`: the part of the device that is used, None: all of it."""

    rw: str
    bs_kib: int
    iodepth: int
    seconds: float
    numjobs: int = 1
    size_gib: float | None = None
    seed: int = 1
    ramp_s: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Of reads and writes together: `ios`, `iops`, `mib_s`; of completion latencies `mean_ms`, `sd_ms`, `p50_ms`, `p99_ms`, `p999_ms` (fio's histogram: within 1 %); `seconds` it
    took."""

    ios: int
    iops: float
    mib_s: float
    mean_ms: float
    sd_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    seconds: float


def run(load: Load, target: str | Path) -> Measured:
    """Runs `load` with direct I/O on `target`, a block device or a file. What it writes, it overwrites. Raises CouldNotRun."""
    words = [
        required("fio", "fio"), "--name=headrace", f"--filename={target}", f"--rw={load.rw}", f"--bs={load.bs_kib}k", f"--iodepth={load.iodepth}", f"--numjobs={load.numjobs}",
        "--ioengine=libaio", "--direct=1", "--time_based", f"--runtime={load.seconds:g}", "--group_reporting", f"--randseed={load.seed}", "--randrepeat=1",
        "--percentile_list=" + ":".join(f"{p:g}" for p in PERCENTILES), "--output-format=json",
    ]  # fmt: skip
    if load.ramp_s:
        words.append(f"--ramp_time={load.ramp_s:g}")
    if load.size_gib is not None:
        words.append(f"--size={int(load.size_gib * 1024)}m")
    # In the caller's folder: `target` may be relative.
    command = Command(tuple(words), Path.cwd(), what=f"fio on {target}")
    limit_s = load.ramp_s + load.seconds + MORE_S
    return read(run_checked(command, limit_s, "Look at the device: is it paused or failing?"))


def read(text: str) -> Measured:
    """The figures of a `--output-format=json` report with one group. Raises InputError for anything else."""
    try:
        # Warnings come before the JSON.
        job = json.loads(text[text.index("{") :])["jobs"][0]
        sides = [job[op] for op in ("read", "write") if job[op]["total_ios"] > 0]
        total = sum(side["total_ios"] for side in sides)
        most = max(sides, key=lambda side: side["total_ios"])
        times = most["clat_ns"]
        percentile = {float(name): value / 1e6 for name, value in times["percentile"].items()}
        return Measured(
            ios=total, iops=sum(side["iops"] for side in sides), mib_s=sum(side["bw_bytes"] for side in sides) / 2**20, mean_ms=times["mean"] / 1e6,
            sd_ms=times["stddev"] / 1e6, p50_ms=percentile[50.0], p99_ms=percentile[99.0], p999_ms=percentile[99.9], seconds=most["runtime"] / 1e3,
        )  # fmt: skip
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise InputError("fio's report", f"cannot be read: {error!r}", SOURCE, "Give one job group with --output-format=json.") from error
