"""sysbench fileio on magnetic EBS volumes in 2009: one volume and five arrays.

The numbers of the original are in charts nobody can read any more; what is left are directions
("better", "no benefit", "worse"). Each is checked against requests a second at 16 threads. The
model's magnetic volumes have a cap and a latency, both of 2011 or guessed, and no disk arm: what
came from seeks or from the machines of 2009 cannot come out, and is reported as not coming out.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.simulation.demand import simulate
from headrace.studies import base
from headrace.workload import ClosedWorkload

STUDY = base.read_study("raid_2009")

AS_OF = "2009-08-06"
INSTANCE = "m1.large"
# The size of the volumes is not stated; it does not matter to magnetic ones. The test file has 16
# GB.
VOLUME_GIB = 100
FILE_GIB = 16.0  # published
ARRAYS = {
    "single": f"standard:{VOLUME_GIB}",
    "raid0x2": f"2xstandard:{VOLUME_GIB}",
    "raid0x4": f"4xstandard:{VOLUME_GIB}",
    "raid5x3": f"raid5:3xstandard:{VOLUME_GIB}",
    "raid10x4": f"raid10:4xstandard:{VOLUME_GIB}",
    "raid10f2x4": f"raid10f2:4xstandard:{VOLUME_GIB}",
}
MODES = {"seqrd": "read", "seqwr": "write", "rndrd": "randread", "rndwr": "randwrite", "rndrw": "randrw"}
THREADS = (1, 4, 8, 16)  # published
# sysbench's default: 1.5 reads to a write.
READ_PERCENT = 60
# 60 s at the slowest rate (RAID 5 writes of one thread, 57 a second) are 3,400 requests: a mean
# within 2 % (two deviations).
SECONDS = 60.0
# Two runs of the same rate differ by less than 2 %: what is closer is the same. "Clearly" is half
# as much again.
SAME = 0.02
CLEARLY = 1.5  # a guess
# Least ratio of the better to the worse rate, by the strength of a claim.
LEAST = {"clearly": CLEARLY, "worse": 1.0 + SAME, "not-better": 1.0 - SAME}


@dataclass(frozen=True)
class Point:
    """A run: requests a second and response times in ms."""

    requests_per_s: float
    mean_ms: float
    p95_ms: float


def simulate_fileio(
    array: str,
    mode: str,
    threads: int,
    *,
    seconds: float = SECONDS,
    size_gib: float = FILE_GIB,
    instance: str | None = INSTANCE,
    seed: int = 1,
) -> Point:
    """Simulates a sysbench fileio run: 16 KiB requests, `threads` of them at a time, in the per-I/O
    form.

    sysbench's threads share one position in the sequential modes, so they are one job of that depth
    here. The second of saved tokens is switched off: a run of minutes does not see it.
    """
    sequential = mode.startswith("seq")
    jobs, depth = (1, threads) if sequential else (threads, 1)
    load = ClosedWorkload(
        name=mode, rw=MODES[mode], bs_kib=16, iodepth=depth, numjobs=jobs, rwmixread=READ_PERCENT, size_gib=size_gib
    )
    summary = simulate(
        load,
        ARRAYS[array],
        instance=instance,
        as_of=AS_OF,
        seconds=seconds,
        interval_s=seconds,
        seed=seed,
        form="events",
        options={"saved_second": False},
    ).summary
    return Point(
        summary["delivered_ios"] / seconds,
        base.require_figure(summary["mean_ms"]),
        base.require_figure(summary["p95_ms"]),
    )


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Runs all modes, arrays and thread counts, then judges every published direction."""
    steps = base.StepProgress(len(ARRAYS) * len(MODES) * len(THREADS), progress)
    points: dict[tuple[str, str, int], Point] = {}
    for array in ARRAYS:
        for mode in MODES:
            for threads in THREADS:
                points[array, mode, threads] = simulate_fileio(array, mode, threads)
                steps.step()
    verdicts = tuple(_judge_direction(row, points) for row in base.read_published("raid_2009"))
    rows = [
        (ARRAYS[a], m, t, round(p.requests_per_s), round(p.mean_ms, 2), round(p.p95_ms, 2))
        for (a, m, t), p in points.items()
    ]
    table = base.tabulate("sysbench fileio, 16 KiB", "array | mode | threads | requests/s | mean ms | 95 % ms", rows)
    notes = base.read_notes("raid_2009", instance=INSTANCE)
    return base.StudyResult(STUDY, verdicts, (table,), _draw_charts(points), notes)


def read_point(name: str, mode: str) -> tuple[str, str, int]:
    """Returns array, mode and threads of a text `ARRAY@THREADS`; without threads the most are
    taken."""
    array, _, threads = name.partition("@")
    return array, mode, int(threads or THREADS[-1])


def _judge_direction(row: dict[str, str], points: dict[tuple[str, str, int], Point]) -> base.Verdict:
    """Returns the verdict on a published direction, which must hold in every mode that its row
    names."""
    modes = row["modes"].split()
    rates = {
        mode: [points[read_point(row[which], mode)].requests_per_s for which in ("better", "worse")] for mode in modes
    }
    ratios = {mode: better / worse for mode, (better, worse) in rates.items()}
    least = LEAST[row["strength"]]
    ratio_text = ", ".join(f"{mode} {ratio:.2f} x" for mode, ratio in ratios.items())
    note = f"requests/s of {row['better']} over {row['worse']}, at least {least:.2f} x asked"
    failing = [mode for mode, ratio in ratios.items() if ratio < least]
    if failing:
        note += f"; does not come out for {', '.join(failing)}: {base.find_reason('raid_2009', row['claim']) or 'not explained'}"
    return base.judge_answers(
        row["claim"],
        row["strength"].replace("-", " "),
        ratio_text,
        base.Source(row["source"], row["date"]),
        not failing,
        note,
    )


def _draw_charts(points: dict[tuple[str, str, int], Point]) -> tuple[base.ChartData, ...]:
    """Draws requests a second and p95 in ms by threads, two charts a mode. `points`: by array, mode
    and threads."""
    charts = []
    for mode in MODES:
        for title, unit, figure in (
            ("requests a second", "requests/s", "requests_per_s"),
            ("95 % response time", "response time (ms)", "p95_ms"),
        ):
            series = tuple(
                base.ChartSeries(
                    array, "simulated", THREADS, tuple(getattr(points[array, mode, t], figure) for t in THREADS)
                )
                for array in ARRAYS
            )
            charts.append(base.ChartData(f"{mode}: {title}", "line", "threads", unit, series))
    return tuple(charts)
