"""Computes the queue depth that a volume needs, and which of its two caps a request size meets
first.

AWS's rule of one outstanding request for every 200 provisioned IOPS is Little's law with a latency
of 5 ms:

    queue length = IOPS x latency        1 = 200 / s x 5 ms

The volumes of today answer in well under 1 ms, so they need less; at the rule's depth they are at
their cap and the extra depth only waits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.base.units import format_percent
from headrace.simulation.demand import Simulation, simulate
from headrace.studies import base
from headrace.studies.base import StudyTable, compute_iops, get_limits
from headrace.workload import ClosedWorkload

STUDY = base.read_study("queue_rule")
FIGURES = base.read_figures("queue_rule")

WHITEPAPER_DAY = "2017-11-01"
# The last day but some months on which a gp2 volume had 160 MiB/s (250 MiB/s since 2018-12).
BYTE_CAP_DAY = "2018-04-30"
# (storage with 2,000-3,000 IOPS, day of its latency figures). standard: what a disk behind the rule
# looks like.
VOLUMES = (
    ("gp2:1000", "2020-07-13"),
    ("gp3:1000:3000", "2022-06-01"),
    ("io1:500:2000", WHITEPAPER_DAY),
    ("io2bx:500:2000", "2023-12-01"),
    ("standard:500", "2012-01-01"),
)
# (storage, day) whose knee is shown: the largest of each type, and some a MySQL server may have.
KNEES = (
    ("gp2:1000", BYTE_CAP_DAY),
    ("gp2:3334", BYTE_CAP_DAY),
    ("gp2:1000", "2026-11-01"),
    ("gp2:5334", "2026-11-01"),
    ("gp3:1000:3000:125", "2026-11-01"),
    ("gp3:1000:16000:1000", "2026-11-01"),
    ("io1:1000:20000", WHITEPAPER_DAY),
    ("io1:1000:32000", "2026-11-01"),
    ("io2bx:1000:64000", "2026-11-01"),
)
DRAWN_KNEES = (("gp2:1000", BYTE_CAP_DAY), ("gp3:1000:3000:125", "2026-11-01"), ("io1:1000:20000", WHITEPAPER_DAY))
SIZES_KIB = (4, 8, 16, 22, 32, 64, 128, 256, 512, 1024)  # around all knees
# 2,000 IOPS for 30 s are 60,000 requests: at the cap the rate is exact to a few of them.
SECONDS = 30.0
ENOUGH = 0.99  # of the provisioned IOPS
NO_SAVED_SECOND = {"saved_second": False}


def simulate_at_depth(
    storage: str, day: str, depth: int, *, rw: str = "randread", kib: float = 16, merge: bool = True
) -> Simulation:
    """Simulates a closed load of one job in the per-I/O form, without the saved second."""
    load = ClosedWorkload(name="fio", rw=rw, bs_kib=kib, iodepth=depth, numjobs=1)
    options = {**NO_SAVED_SECOND, "merge": merge}
    return simulate(load, storage, as_of=day, seconds=SECONDS, interval_s=SECONDS, form="events", options=options)


def compute_own_latency_ms(storage: str, day: str, rw: str, kib: float) -> float:
    """Returns the mean latency of requests that do not wait, ms: 100 a second at even spacing, far
    from any cap."""
    reads, writes = {"randread": (100.0, 0.0), "randwrite": (0.0, 100.0)}[rw]
    load = replace(base.make_constant_load(300.0, reads, writes, kib, kib), arrivals="even")
    return base.require_figure(simulate(load, storage, as_of=day, interval_s=300.0, form="events").summary["mean_ms"])


def find_needed_depth(storage: str, day: str, rw: str, kib: float) -> int:
    """Returns the smallest depth that gets 99 % of the provisioned IOPS."""
    least_iops = ENOUGH * get_limits(storage, day)["iops"]
    # Little's law is a lower bound; variance of the latency may ask for one or two more.
    depth = max(math.floor(least_iops * compute_own_latency_ms(storage, day, rw, kib) / 1e3), 1)
    while compute_iops(simulate_at_depth(storage, day, depth, rw=rw, kib=kib)) < least_iops:
        depth += 1
    return depth


def _measure_queue(steps: base.StepProgress) -> tuple[list[base.Verdict], StudyTable]:
    """Simulates the depth that each volume needs and the one by the rule; returns verdicts and the
    table."""
    rule = FIGURES["iops_per_queue_length"].value
    rows, own_ms = [], {}
    for storage, day in VOLUMES:
        iops = get_limits(storage, day)["iops"]
        for rw, kib in (("randread", FIGURES["read_kib"].value), ("randwrite", FIGURES["write_kib"].value)):
            own = own_ms[storage, rw] = compute_own_latency_ms(storage, day, rw, kib)
            by_rule = round(iops / rule)
            ruled = simulate_at_depth(storage, day, by_rule, rw=rw, kib=kib)
            at_rule = (round(compute_iops(ruled)), round(base.require_figure(ruled.summary["mean_ms"]), 2))
            needed = find_needed_depth(storage, day, rw, kib)
            rows.append(
                (storage, day, rw, kib, iops, round(own, 3), round(rule * own / 1e3, 3), needed, by_rule, *at_rule)
            )
            steps.step()
    names = (
        "storage | day | load | KiB | IOPS | own mean ms | queue per 200 IOPS | depth for 99 % | depth by the rule | "
        "IOPS there | mean ms there"
    )
    verdicts = _judge_queue(own_ms["io1:500:2000", "randread"])
    steps.step()
    return verdicts, base.tabulate("Queue length needed and by the rule", names, rows)


def _judge_queue(own_ms: float) -> list[base.Verdict]:
    """Judges the rule of one outstanding request for each 200 IOPS. `own_ms`: latency of io1 reads
    at depth 1, ms."""
    rule = FIGURES["iops_per_queue_length"]
    example = simulate_at_depth("io1:500:2000", WHITEPAPER_DAY, int(FIGURES["example_queue_length"].value))
    implied = base.Figure(1e3 / rule.value, "ms", rule.source)
    results = {
        "example_iops": compute_iops(example),
        "implied_ms": base.require_figure(example.summary["mean_ms"]),
        "iops_each": 1e3 / own_ms,
    }
    values = {"iops": FIGURES["example_iops"].value, "length": FIGURES["example_queue_length"].value, "own_ms": own_ms}
    return base.compare_figures("queue_rule", results, {"implied_ms": implied}, **values)


def _judge_mysql(steps: base.StepProgress) -> list[base.Verdict]:
    """Judges whether a gp2 and an io1 volume carry the whitepaper's MySQL load alike."""
    reads, writes = FIGURES["reads_per_s"].value, FIGURES["writes_per_s"].value
    source = FIGURES["writes_per_s"].source
    read_kib, write_kib = FIGURES["read_kib"].value, FIGURES["write_kib"].value
    load = base.make_constant_load(60.0, reads, writes, read_kib, write_kib)
    runs = {}
    for storage in ("gp2:500", "io1:500:5000"):
        runs[storage] = simulate(load, storage, as_of=WHITEPAPER_DAY, interval_s=60.0, form="events")
        steps.step()
    gp2, io1 = runs["gp2:500"], runs["io1:500:5000"]
    derived = {
        "demand": base.Figure(reads + writes, "IOPS", source),
        "bytes": base.Figure((reads * read_kib + writes * write_kib) / 1024, "MiB/s", source),
    }
    results = {
        "gp2_iops": compute_iops(gp2),
        "io1_iops": compute_iops(io1),
        "gp2_mib_s": gp2.summary["delivered_bytes"] / 2**20 / gp2.summary["seconds"],
        "striped_writes": writes / 3,
    }
    *carried, striped = base.compare_figures("queue_rule", results, derived)
    waits = {name: run.summary["throttled_s"] / run.summary["seconds"] for name, run in runs.items()}
    alike = base.judge_answers(
        "gp2 and io1 perform alike under it",
        "no difference seen",
        f"waiting for a limit: gp2 {format_percent(waits['gp2:500'], 2)}, io1 {format_percent(waits['io1:500:5000'], 2)} of the time",
        source,
        max(waits.values()) < 0.01,
        "neither meets a limit",
    )
    return [*carried, alike, striped]


def _judge_accounting(steps: base.StepProgress) -> list[base.Verdict]:
    """Judges what is charged as one I/O: largest request in KiB, merging, byte caps in MiB/s."""
    # 1,000 IOPS: the byte cap of io1 (256 KiB an I/O) is exactly 16 requests of 16 KiB an I/O away.
    # Deep, so that they wait together.
    deep = {
        rw: compute_iops(simulate_at_depth("io1:1000:1000", WHITEPAPER_DAY, 256, rw=rw)) for rw in ("read", "randread")
    }
    steps.step()
    byte_cap = compute_iops(simulate_at_depth("gp2:1000", BYTE_CAP_DAY, 32, kib=256))
    steps.step()
    shallow = compute_iops(simulate_at_depth("gp2:30", "2017-06-01", 4, rw="read", kib=4))
    steps.step()
    limit = get_limits("gp2:1000", BYTE_CAP_DAY)
    results = {
        "unit_kib": limit["io_unit_bytes"] / 1024,
        "merged": deep["read"] / deep["randread"],
        "not_merged": shallow,
        "byte_cap": byte_cap,
        **{
            f"{name}_cap_mib_s": get_limits(storage, WHITEPAPER_DAY)["throughput_bytes_s"] / 2**20
            for name, storage in (("gp2", "gp2:3334"), ("io1", "io1:1000:20000"))
        },
    }
    return base.compare_figures("queue_rule", results, day=BYTE_CAP_DAY, iops=limit["iops"])


def compute_knee_kib(storage: str, day: str) -> float:
    """Returns the request size at which IOPS cap and byte cap meet, KiB."""
    limits = get_limits(storage, day)
    return limits["throughput_bytes_s"] / limits["iops"] / 1024


def _tabulate_knees(steps: base.StepProgress) -> tuple[StudyTable, base.ChartData]:
    """Tabulates the request size, KiB, at which byte caps bind before IOPS, and draws requests a
    second by size."""
    write_kib = FIGURES["write_kib"].value
    rows = []
    for storage, day in KNEES:
        limits, knee = get_limits(storage, day), compute_knee_kib(storage, day)
        bound = "bytes" if write_kib > knee else "IOPS"
        rows.append((storage, day, limits["iops"], round(limits["throughput_bytes_s"] / 2**20), round(knee, 1), bound))
    series = []
    for storage, day in DRAWN_KNEES:
        limits = get_limits(storage, day)
        delivered = tuple(compute_iops(simulate_at_depth(storage, day, 64, kib=kib)) for kib in SIZES_KIB)
        steps.step()
        series.append(base.ChartSeries(f"{storage}, {day}", "simulated", SIZES_KIB, delivered))
        caps = tuple(
            min(limits["iops"] / max(kib / 256, 1), limits["throughput_bytes_s"] / 1024 / kib) for kib in SIZES_KIB
        )
        series.append(base.ChartSeries(f"{storage}, {day}: the caps", "published", SIZES_KIB, caps))
    chart = base.ChartData(
        "Requests a second by size: IOPS cap, then byte cap", "line", "request size (KiB)", "requests/s", tuple(series)
    )
    names = f"storage | day | IOPS | MiB/s | knee KiB | {write_kib:g} KiB writes bound by"
    return base.tabulate("Request size at which IOPS cap and byte cap meet", names, rows), chart


def _draw_depth_chart(steps: base.StepProgress) -> base.ChartData:
    """Draws the IOPS by outstanding requests, by the rule and simulated."""
    rule = FIGURES["iops_per_queue_length"]
    depths = (1, 2, 3, 4, 6, 8, 10, 15, 20)
    ruled = tuple(min(rule.value * depth, 2_000.0) for depth in depths)
    series = [base.ChartSeries(f"200 a request ({rule.source})", "published", depths, ruled)]
    for storage, day in (("io1:500:2000", WHITEPAPER_DAY), ("standard:500", "2012-01-01")):
        series.append(
            base.ChartSeries(
                f"{storage}, 16 KiB reads",
                "simulated",
                depths,
                tuple(compute_iops(simulate_at_depth(storage, day, depth)) for depth in depths),
            )
        )
        steps.step()
    return base.ChartData("IOPS by queue length", "line", "outstanding requests", "IOPS", tuple(series))


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Judges depths, accounting, the whitepaper's MySQL load and the knees."""
    steps = base.StepProgress(2 * len(VOLUMES) + 1 + 2 + 3 + len(DRAWN_KNEES) + 2, progress)
    queue, depths = _measure_queue(steps)
    verdicts = [*queue, *_judge_mysql(steps), *_judge_accounting(steps)]
    knees, knee_chart = _tabulate_knees(steps)
    charts = (_draw_depth_chart(steps), knee_chart)
    notes = base.read_notes("queue_rule")
    return base.StudyResult(STUDY, tuple(verdicts), (depths, knees), charts, notes)
