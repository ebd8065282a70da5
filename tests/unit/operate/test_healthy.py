"""No false alarms: fortnights of healthy traces, replayed. The traces are demands of ten kinds,
simulated on storage that carries them; each is looked at as a recording and as live windows."""

from __future__ import annotations

import math
import os
import random

import polars as pl
import pytest

from headrace import OpenWorkload, simulate
from headrace.observe.evidence.limits import get_holding_limits
from headrace.observe.evidence.model import SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.judging import judge_signals
from headrace.operate.doctor.recorded import diagnose_recording
from headrace.operate.doctor.signals import compute_signals
from headrace.operate.doctor.thresholds import Thresholds
from headrace.workload.points import make_points

# Windows of live judging for each trace, and the points of a trace (s): `HEALTHY_WINDOWS=336` looks
# at every hour of a fortnight.
WINDOWS = int(os.environ.get("HEALTHY_WINDOWS", "12"))
POINT_S, DAYS = 300, 14
ALARMS = ("binds", "degraded", "will bind")
# Name, storage, mean IOPS, by how much of it the day moves, KiB of an I/O, share of reads, spikes.
TRACES = (
    ("shop", "gp3:500", 900, 0.6, 16, 0.7, 0.0),
    ("bank", "io2:500:6000", 2_500, 0.5, 16, 0.5, 0.0),
    ("blog on gp2 credits", "gp2:200", 250, 0.9, 16, 0.8, 0.05),
    ("nightly backup", "gp3:1000:3000:250", 500, 0.5, 16, 0.6, 0.04),
    ("batch at noon", "gp3:500:6000:250", 1_200, 0.8, 32, 0.6, 0.08),
    ("steady near half", "gp3:500", 1_500, 0.05, 16, 0.7, 0.0),
    ("nearly idle", "gp2:100", 2, 0.9, 16, 0.5, 0.0),
    ("reports in large reads", "gp3:500:3000:500", 300, 0.6, 128, 0.95, 0.05),
    ("queue of writers", "io1:500:8000", 3_000, 0.4, 16, 0.2, 0.03),
    ("array", "2xgp3:500", 2_200, 0.5, 16, 0.6, 0.0),
)  # fmt: skip


def demand(seed: int, name: str, mean: float, moves: float, kib: float, reads: float, spikes: float) -> OpenWorkload:
    """A fortnight: a wave a day, quieter at the weekend, scatter and spikes, below the storage."""
    chance = random.Random(seed)
    count = DAYS * 86_400 // POINT_S
    rates = []
    for index in range(count):
        hour = index * POINT_S / 3_600
        wave = 1 + moves * math.sin(2 * math.pi * (hour - 9) / 24) * (0.6 if int(hour // 24) % 7 > 4 else 1.0)
        spike = 1.6 if chance.random() < spikes else 1.0
        rates.append(max(0.0, mean * wave * spike * chance.uniform(0.9, 1.1)))
    points = make_points(
        [index * POINT_S for index in range(count)], [POINT_S] * count, [rate * reads for rate in rates],
        [rate * (1 - reads) for rate in rates], [kib] * count, [kib] * count,
    )  # fmt: skip
    return OpenWorkload(name=name, kind="recorded", points=points, source={"tool": "iostat", "device": "nvme1n1"})


@pytest.mark.parametrize("number", range(len(TRACES)), ids=[trace[0] for trace in TRACES])
def test_a_healthy_fortnight(number):
    """0 criticals, and at most one warning a week and trace."""
    name, storage, *figures = TRACES[number]
    load = demand(number, name, *figures)
    run = simulate(load, storage, interval_s=POINT_S, form="interval")
    assert run.summary["throttled_s"] < 60, "the trace is not healthy"
    limits = get_holding_limits(storage)
    facts = SourceFacts("trace", "iostat", float(POINT_S), "UTC", (SeenVolume("nvme1n1", storage, None, limits),))
    chance, ticks = random.Random(number), []
    for point, row in zip(load.points.iter_rows(named=True), run.rows.iter_rows(named=True), strict=True):
        mean_ms = (row["mean_ms"] or 0.5) * chance.uniform(0.8, 1.3)
        ticks.append(Tick(row["t_s"], float(POINT_S), {"nvme1n1": {
            "read_iops": point["reads_per_s"], "write_iops": point["writes_per_s"], "charged_iops": row["iops"],
            "read_mib_s": point["reads_per_s"] * point["read_kib"] / 1024, "write_mib_s": point["writes_per_s"] * point["write_kib"] / 1024,
            "queue": row["iops"] * mean_ms / 1e3, "read_ms": mean_ms, "write_ms": mean_ms, "balance_percent": row["balance_percent"],
        }}))  # fmt: skip
    evidence = collect_evidence(facts, ticks)
    warnings = 0
    for at in sorted(chance.sample(range(2, len(ticks)), min(WINDOWS, len(ticks) - 2))):
        until = ticks[at].t_unix + POINT_S
        result = judge_signals(
            compute_signals(evidence.select_span(until - 2 * POINT_S - 1, until), Thresholds()), Thresholds()
        )
        assert not [entry for entry in result if entry.basis == "felt"], "a critical"
        warnings += any(entry.verdict in ALARMS for entry in result)
    # Warnings are as rare as two a fortnight would be, in the windows that were looked at.
    assert warnings <= 2 * WINDOWS / 336, warnings
    diagnosis = diagnose_recording(evidence, _observed(load, ticks), Counsel())
    weeks = {int(window.from_s // (7 * 86_400)) for window in diagnosis.windows}
    assert len(diagnosis.windows) <= 2 and len(weeks) == len(diagnosis.windows), diagnosis.windows
    assert diagnosis.verdict != "degraded"


def _observed(load: OpenWorkload, ticks: list[Tick]) -> OpenWorkload:
    """The trace as a recording with latency and queue."""
    rows = [tick.volumes["nvme1n1"] for tick in ticks]
    points = load.points.with_columns(
        pl.Series("await_ms", [row["read_ms"] for row in rows]), pl.Series("queue", [row["queue"] for row in rows])
    )
    return OpenWorkload(name=load.name, kind="recorded", points=points, source=load.source)


def test_a_sick_hour_in_a_healthy_fortnight_is_found():
    """The test above can fail: the same trace with an hour at the limit is told."""
    name, storage, *figures = TRACES[0]
    load = demand(0, name, *figures)
    hour = pl.col("t_s").is_between(36_000, 39_599)
    points = load.points.with_columns(
        pl.when(hour).then(2_000.0).otherwise("reads_per_s").alias("reads_per_s"),
        pl.when(hour).then(1_000.0).otherwise("writes_per_s").alias("writes_per_s"),
    )
    points = points.with_columns(pl.when(hour).then(12.0).otherwise(0.6).alias("await_ms"))
    sick = OpenWorkload(name=name, kind="recorded", points=points, source=load.source)
    limits = get_holding_limits(storage)
    facts = SourceFacts("trace", "iostat", float(POINT_S), "UTC", (SeenVolume("nvme1n1", storage, None, limits),))
    rows = [
        {
            "read_iops": point["reads_per_s"],
            "write_iops": point["writes_per_s"],
            "charged_iops": point["reads_per_s"] + point["writes_per_s"],
            "read_ms": point["await_ms"],
            "write_ms": point["await_ms"],
        }
        for point in sick.points.iter_rows(named=True)
    ]
    ticks = [Tick(index * POINT_S, float(POINT_S), {"nvme1n1": row}) for index, row in enumerate(rows)]
    evidence = collect_evidence(facts, ticks)
    diagnosis = diagnose_recording(evidence, sick, Counsel())
    assert [window.limit for window in diagnosis.windows] == ["volume-iops"]
