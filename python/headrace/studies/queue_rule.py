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

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.units import in_percent
from headrace.simulation.demand import Simulation, simulate
from headrace.studies import base
from headrace.studies.base import StudyTable
from headrace.workload import ClosedWorkload, OpenWorkload
from headrace.workload.points import make_points

STUDY = base.study("queue_rule")

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
# 2,000 IOPS for 30 s are 60,000 requests; at the cap the rate is exact to a few requests.
SECONDS = 30.0
RATE_TOLERANCE_PERCENT = 1.0  # see above
# At the cap the mean wait is depth / IOPS; the start, when the queue fills, is one depth of 60,000.
LITTLE_TOLERANCE_PERCENT = 1.0
ENOUGH = 0.99  # of the provisioned IOPS
NO_SAVED_SECOND = {"saved_second": False}


def at_depth(
    storage: str, day: str, depth: int, *, rw: str = "randread", kib: float = 16, merge: bool = True
) -> Simulation:
    """Simulates a closed load of one job in the per-I/O form, without the saved second."""
    load = ClosedWorkload(name="fio", rw=rw, bs_kib=kib, iodepth=depth, numjobs=1)
    options = {**NO_SAVED_SECOND, "merge": merge}
    return simulate(load, storage, as_of=day, seconds=SECONDS, interval_s=SECONDS, form="events", options=options)


def _iops(run: Simulation) -> float:
    return run.summary["delivered_ios"] / run.summary["seconds"]


def member_limits(storage: str, day: str) -> core.VolumeLimits:
    """Returns the catalog's limits of a single volume."""
    with core_errors():
        return core.storage_limits(storage, day)[0]


def own_latency_ms(storage: str, day: str, rw: str, kib: float) -> float:
    """Returns the mean latency of a request that meets no queue, ms: 100 a second at even spacing,
    far from any cap."""
    rate = {"randread": (100.0, 0.0), "randwrite": (0.0, 100.0)}[rw]
    points = make_points([0.0], [300.0], [rate[0]], [rate[1]], [kib], [kib])
    load = OpenWorkload(name="one at a time", kind="constant", points=points, arrivals="even")
    return base.require_figure(simulate(load, storage, as_of=day, interval_s=300.0, form="events").summary["mean_ms"])


def depth_needed(storage: str, day: str, rw: str, kib: float) -> int:
    """Returns the smallest depth that gets 99 % of the provisioned IOPS."""
    least_iops = ENOUGH * member_limits(storage, day)["iops"]
    # Little's law is a lower bound; variance of the latency may ask for one or two more.
    depth = max(math.floor(least_iops * own_latency_ms(storage, day, rw, kib) / 1e3), 1)
    while _iops(at_depth(storage, day, depth, rw=rw, kib=kib)) < least_iops:
        depth += 1
    return depth


def _measure_queue(
    published: dict[str, base.Figure], steps: base.StepProgress
) -> tuple[list[base.Verdict], StudyTable]:
    """Simulates the depth that each volume needs and the one by the rule; returns verdicts and the
    table."""
    rule = published["iops_per_queue_length"].value
    rows, own_ms = [], {}
    for storage, day in VOLUMES:
        iops = member_limits(storage, day)["iops"]
        for rw, kib in (("randread", published["read_kib"].value), ("randwrite", published["write_kib"].value)):
            own = own_ms[storage, rw] = own_latency_ms(storage, day, rw, kib)
            by_rule = round(iops / rule)
            ruled = at_depth(storage, day, by_rule, rw=rw, kib=kib)
            at_rule = (round(_iops(ruled)), round(base.require_figure(ruled.summary["mean_ms"]), 2))
            needed = depth_needed(storage, day, rw, kib)
            rows.append(
                (storage, day, rw, kib, iops, round(own, 3), round(rule * own / 1e3, 3), needed, by_rule, *at_rule)
            )
            steps.step()
    columns = ("storage", "day", "load", "KiB", "IOPS", "own mean ms", "queue per 200 IOPS")
    columns += ("depth for 99 %", "depth by the rule", "IOPS there", "mean ms there")
    verdicts = _judge_queue(published, own_ms["io1:500:2000", "randread"])
    steps.step()
    return verdicts, StudyTable("Queue length needed and by the rule", columns, tuple(rows))


def _judge_queue(published: dict[str, base.Figure], own_ms: float) -> list[base.Verdict]:
    """Judges the rule of one outstanding request for each 200 IOPS. `own_ms`: latency of io1 reads
    at depth 1, ms."""
    rule = published["iops_per_queue_length"]
    example = at_depth("io1:500:2000", WHITEPAPER_DAY, int(published["example_queue_length"].value))
    implied = base.Figure(1e3 / rule.value, "ms", rule.source)
    wait_ms = base.require_figure(example.summary["mean_ms"])
    at_cap = f"at the cap the wait is depth / IOPS; the volume's own latency is {own_ms:.2f} ms"
    disks = "nothing promised: the rule is one of disks (5 ms); io1 at depth 1 is faster, and a queue of the rule's length is a full one"
    what = f"IOPS of a {published['example_iops'].value:,.0f} IOPS volume at queue length {published['example_queue_length'].value:g}"
    return [
        base.compare(
            what, published["example_iops"], _iops(example), RATE_TOLERANCE_PERCENT, "io1:500:2000, 16 KiB random reads"
        ),
        base.compare("latency the rule implies (Little's law)", implied, wait_ms, LITTLE_TOLERANCE_PERCENT, at_cap),
        base.compare("IOPS one outstanding request brings (io1 reads)", rule, 1e3 / own_ms, None, disks),
    ]


def _judge_mysql(published: dict[str, base.Figure], steps: base.StepProgress) -> list[base.Verdict]:
    """Judges whether a gp2 and an io1 volume carry the whitepaper's MySQL load alike."""
    reads, writes, source = (
        published["reads_per_s"].value,
        published["writes_per_s"].value,
        published["writes_per_s"].source,
    )
    read_kib, write_kib = published["read_kib"].value, published["write_kib"].value
    load = OpenWorkload(
        name="sysbench", kind="constant", points=make_points([0.0], [60.0], [reads], [writes], [read_kib], [write_kib])
    )
    runs = {}
    for storage in ("gp2:500", "io1:500:5000"):
        runs[storage] = simulate(load, storage, as_of=WHITEPAPER_DAY, interval_s=60.0, form="events")
        steps.step()
    # Poisson arrivals: 1,275 x 60 requests have a relative deviation of 1 / sqrt(76,500) = 0.36 %;
    # three of them.
    tolerance = 1.1
    gp2, io1 = runs["gp2:500"], runs["io1:500:5000"]
    mib_s = gp2.summary["delivered_bytes"] / 2**20 / gp2.summary["seconds"]
    demand = base.Figure(reads + writes, "IOPS", source)
    bytes_asked = base.Figure((reads * read_kib + writes * write_kib) / 1024, "MiB/s", source)
    waits = {name: run.summary["throttled_s"] / run.summary["seconds"] for name, run in runs.items()}
    note = (
        "25 reads of 16 KiB and 1,250 writes of 22 KiB a second; each is charged one I/O, under the baseline of 1,500"
    )
    less = "nothing promised: a third of 1,250; the published three sum to 1,050, so that run wrote less, or in larger requests"
    return [
        base.compare("MySQL load carried by gp2 500 GiB", demand, _iops(gp2), tolerance, note),
        base.compare("MySQL load carried by io1 with 5,000 IOPS", demand, _iops(io1), tolerance),
        base.compare("bytes of that load", bytes_asked, mib_s, tolerance, "published: rates x sizes"),
        base.agree(
            "gp2 and io1 perform alike under it",
            "no difference seen",
            f"waiting for a limit: gp2 {in_percent(waits['gp2:500'], 2)}, io1 {in_percent(waits['io1:500:5000'], 2)} of the time",
            source,
            max(waits.values()) < 0.01,
            "neither meets a limit",
        ),
        base.compare(
            "writes a second on each of three striped volumes", published["raid_writes_per_s"], writes / 3, None, less
        ),
    ]


def _judge_accounting(published: dict[str, base.Figure], steps: base.StepProgress) -> list[base.Verdict]:
    """Judges what is charged as one I/O: largest request in KiB, merging, byte caps in MiB/s."""
    # 1,000 IOPS: the byte cap of io1 (256 KiB an I/O) is exactly 16 requests of 16 KiB an I/O away.
    # Deep, so that they wait together.
    deep = {rw: _iops(at_depth("io1:1000:1000", WHITEPAPER_DAY, 256, rw=rw)) for rw in ("read", "randread")}
    steps.step()
    byte_cap = _iops(at_depth("gp2:1000", BYTE_CAP_DAY, 32, kib=256))
    steps.step()
    shallow = _iops(at_depth("gp2:30", "2017-06-01", 4, rw="read", kib=4))
    steps.step()
    limit = member_limits("gp2:1000", BYTE_CAP_DAY)
    effort = "sequential over random IOPS at depth 256 on io1:1000:1000: merging is best effort, among requests that wait together"
    shallow_note = "measured against the rule above: at depth 4 nothing merges; 2.3 % of the published figure is over-delivery on Xen"
    binds = f"gp2:1000 on {BYTE_CAP_DAY}; {limit['iops']:,} IOPS are provisioned, the byte cap binds"
    merged = deep["read"] / deep["randread"]
    unit, per_io = published["unit_kib"], published["contiguous_per_io"]
    at_depth_4, at_byte_cap = published["sequential_qd4_iops"], published["iops_at_byte_cap"]
    tolerance = RATE_TOLERANCE_PERCENT
    verdicts = [
        base.compare("largest request charged as one I/O", unit, limit["io_unit_bytes"] / 1024, 0.0, "catalog"),
        base.compare("contiguous 16 KiB requests per I/O charged", per_io, merged, tolerance, effort),
        # Published at 3,070 with 2.3 % of Xen over-delivery; ours is nominal 3,000.
        base.compare("4 KiB sequential reads at depth 4: not merged", at_depth_4, shallow, 3.0, shallow_note),
        base.compare("256 KiB random reads on a volume of 160 MiB/s", at_byte_cap, byte_cap, tolerance, binds),
    ]
    for name, storage in (("gp2", "gp2:3334"), ("io1", "io1:1000:20000")):
        mib_s = member_limits(storage, WHITEPAPER_DAY)["throughput_bytes_s"] / 2**20
        verdicts.append(
            base.compare(
                f"byte cap of {name} in 2017", published[f"{name}_max_mib_s"], mib_s, 0.0, f"catalog, {storage}"
            )
        )
    return verdicts


def knee_kib(storage: str, day: str) -> float:
    """Returns the request size at which IOPS cap and byte cap meet, KiB."""
    limits = member_limits(storage, day)
    return limits["throughput_bytes_s"] / limits["iops"] / 1024


def _knees(published: dict[str, base.Figure], steps: base.StepProgress) -> tuple[StudyTable, base.ChartData]:
    """Tabulates the request size, KiB, at which byte caps bind before IOPS, and draws requests a
    second by size."""
    write_kib = published["write_kib"].value
    rows = []
    for storage, day in KNEES:
        limits, knee = member_limits(storage, day), knee_kib(storage, day)
        bound = "bytes" if write_kib > knee else "IOPS"
        rows.append((storage, day, limits["iops"], round(limits["throughput_bytes_s"] / 2**20), round(knee, 1), bound))
    series = []
    for storage, day in DRAWN_KNEES:
        limits = member_limits(storage, day)
        delivered = tuple(_iops(at_depth(storage, day, 64, kib=kib)) for kib in SIZES_KIB)
        steps.step()
        series.append(base.ChartSeries(f"{storage}, {day}", "simulated", SIZES_KIB, delivered))
        caps = tuple(
            min(limits["iops"] / max(kib / 256, 1), limits["throughput_bytes_s"] / 1024 / kib) for kib in SIZES_KIB
        )
        series.append(base.ChartSeries(f"{storage}, {day}: the caps", "published", SIZES_KIB, caps))
    chart = base.ChartData(
        "Requests a second by size: IOPS cap, then byte cap", "line", "request size (KiB)", "requests/s", tuple(series)
    )
    columns = ("storage", "day", "IOPS", "MiB/s", "knee KiB", f"{write_kib:g} KiB writes bound by")
    return StudyTable("Request size at which IOPS cap and byte cap meet", columns, tuple(rows)), chart


def _depth_chart(published: dict[str, base.Figure], steps: base.StepProgress) -> base.ChartData:
    """Draws the IOPS by outstanding requests, by the rule and simulated."""
    rule = published["iops_per_queue_length"]
    depths = (1, 2, 3, 4, 6, 8, 10, 15, 20)
    ruled = tuple(min(rule.value * depth, 2_000.0) for depth in depths)
    series = [base.ChartSeries(f"200 a request ({rule.source})", "published", depths, ruled)]
    for storage, day in (("io1:500:2000", WHITEPAPER_DAY), ("standard:500", "2012-01-01")):
        series.append(
            base.ChartSeries(
                f"{storage}, 16 KiB reads",
                "simulated",
                depths,
                tuple(_iops(at_depth(storage, day, depth)) for depth in depths),
            )
        )
        steps.step()
    return base.ChartData("IOPS by queue length", "line", "outstanding requests", "IOPS", tuple(series))


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Judges depths, accounting, the whitepaper's MySQL load and the knees."""
    published = base.figures("queue_rule")
    steps = base.StepProgress(2 * len(VOLUMES) + 1 + 2 + 3 + len(DRAWN_KNEES) + 2, progress)
    queue, depths = _measure_queue(published, steps)
    verdicts = [*queue, *_judge_mysql(published, steps), *_judge_accounting(published, steps)]
    knees, knee_chart = _knees(published, steps)
    charts = (_depth_chart(published, steps), knee_chart)
    notes = base.texts("queue_rule")
    return base.StudyResult(STUDY, tuple(verdicts), (depths, knees), charts, notes)
