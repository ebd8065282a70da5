"""Accuracy of the predicted rate and lag of a replica on configurations nobody has seen: two
replicas to calibrate on, then others with other volumes, caches, workers and durability.

    python benchmarks/replica_bench.py [--flavor mariadb|mysql] [--cells N] [--courses N] [--repeat N] [--draw SEED] [--results FILE]

A source writes its load once and rests; each replica receives all of it and applies it with nothing
beside. The predictions know the two replicas calibrated on, a sample of the source's binary log,
and the configuration. Other work on the machine slows down what is measured and never makes it
quicker, so of several runs (--repeat) the quickest counts; the load average stands beside each.
--draw: cells drawn at random instead of those that stand here, which the model's authors have seen.
Needs root, /dev/fuse, sysbench and the server.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

from headrace.bench import SysbenchOltp
from headrace.errors import HeadraceError
from headrace.experiment import DataSet, ExperimentLab
from headrace.experiment.replication import (
    Course,
    Drained,
    ReplicaCell,
    ReplicaLoad,
    ReplicationLab,
    calibrate_workload,
    compute_errors,
    measure_course,
    score,
    score_course,
)

# Rows of each of 8 tables: 0.42 GiB.
ROWS, TABLES = 220_000, 8
ROW_BYTES = 247
CLIENTS, WRITE_S, SETTLE_S = 16, 25, 30
# The acceptance figures: median and worst error of a rate, worst of onset and catch-up, percent.
MEDIAN_BAR, WORST_BAR, COURSE_BAR = 10.0, 30.0, 15.0


def load_of(flavor: str) -> ReplicaLoad:
    """sysbench oltp_write_only over data that were written to for a while."""
    benchmark = SysbenchOltp("oltp_write_only", TABLES, ROWS, "uniform")
    gib = ROW_BYTES * ROWS * TABLES / 2**30
    data = DataSet(f"write-only-{flavor}", benchmark, gib, flavor=flavor, settle_s=SETTLE_S)
    return ReplicaLoad(f"write-only, {CLIENTS} clients, {flavor}", data, benchmark, CLIENTS, WRITE_S)


def cells(flavor: str) -> tuple[list[ReplicaCell], list[ReplicaCell]]:
    """Those calibrated on, and the others: gp2 with and without credits, gp3, io2; one thread, 4 and
    16 workers; a cache of a tenth of the data up to all; 1/1 and 0/2."""
    load = load_of(flavor)
    most = "optimistic" if flavor == "mariadb" else "ordered"
    first = "conservative" if flavor == "mariadb" else "ordered"

    def cell(storage: str, cache_mib: int, workers: int, durable: bool = True, mode: str = most, **more) -> ReplicaCell:
        words = f"{storage}, {cache_mib} MiB, {workers} workers{f' {mode}' if workers else ''}, {'1/1' if durable else '0/2'}"
        if "balance_percent" in more:
            words += f", {more['balance_percent']:g} % credits"
        mode = mode if workers else "serial"
        flush, sync = (1, 1) if durable else (2, 0)
        return ReplicaCell(words, load, storage, cache_mib, workers, mode, flush, sync, **more)

    reference = [cell("gp3:20:5000", 128, 0), cell("gp3:20:5000", 128, 4)]
    others = [
        cell("gp3:20:3000", 44, 0),
        cell("gp3:20:3000", 220, 4),
        cell("gp3:20:3000", 480, 16),
        cell("gp3:20:10000", 110, 4, durable=False),
        cell("gp3:20:10000", 44, 16),
        cell("gp3:20:10000", 480, 0),
        cell("gp2:100", 110, 0, balance_percent=100.0),
        cell("gp2:100", 44, 4, durable=False, balance_percent=100.0),
        cell("gp2:200", 220, 0, balance_percent=0.0),
        cell("gp2:200", 110, 16, balance_percent=0.0),
        cell("io2:20:8000", 44, 0, durable=False),
        cell("io2:20:8000", 220, 4, mode=first),
    ]
    return reference, others


def drawn(flavor: str, seed: int, count: int) -> list[ReplicaCell]:
    """Cells drawn at random from the same kinds, no two on one storage with as many workers."""
    chance, load, result = random.Random(seed), load_of(flavor), {}
    most = "optimistic" if flavor == "mariadb" else "ordered"
    kinds = [(f"gp3:24:{iops}", None) for iops in (3_000, 4_000, 7_000, 12_000)]
    kinds += [("gp2:100", 100.0), ("gp2:300", 0.0), ("io2:20:6000", None)]
    while len(result) < count:
        (storage, balance), workers = chance.choice(kinds), chance.choice((0, 0, 2, 4, 8, 16))
        cache_mib, durable = chance.randrange(44, 500, 4), chance.random() < 0.7
        words = f"{storage}, {cache_mib} MiB, {workers} workers, {'1/1' if durable else '0/2'}"
        words += "" if balance is None else f", {balance:g} % credits"
        flush, sync = (1, 1) if durable else (2, 0)
        cell = ReplicaCell(
            words,
            load,
            storage,
            cache_mib,
            workers,
            most if workers else "serial",
            flush,
            sync,
            balance_percent=balance,
        )
        result.setdefault((storage, workers), cell)
    return list(result.values())


def quickest(lab: ReplicationLab, cell: ReplicaCell, repeat: int) -> Drained | None:
    """Returns the fastest run of a cell; None if none could be measured."""
    cells = []
    for _ in range(repeat):
        try:
            cells.append(lab.drain(cell))
        except HeadraceError as error:
            print(f"{cell.words}: {error}", file=sys.stderr)
    return max(cells, key=lambda drained: drained.tps, default=None)


def table(rows: list[dict]) -> str:
    """Returns the table in Markdown."""
    lines = [
        "| cell | measured tps | predicted | error | reads/tx | predicted | group | held by | load average |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        group = "" if row["group"] is None else f"{row['group']:.1f}"
        lines.append(
            f"| {row['cell']} | {row['tps']:.1f} | {row['predicted_tps']:.1f} | {row['error_percent']:+.1f} % | "
            f"{row['reads']:.2f} | {row['predicted_reads']:.2f} | {group} | {row['binding']} | "
            f"{row['load_average'][0]:.1f} to {row['load_average'][1]:.1f} |"
        )
    return "\n".join(lines)


def course_table(scored: list) -> str:
    """Returns the table of courses in Markdown."""
    lines = [
        "| course | tps written | onset s | predicted | lag at end | predicted | peak | predicted | catch-up | predicted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in scored:
        seen: Course = entry.course
        pairs = (
            (seen.onset_s, entry.onset_s),
            (seen.lag_at_end_s, entry.lag_at_end_s),
            (seen.peak[1], entry.peak_s),
            (seen.catch_up_s, entry.catch_up_s),
        )
        texts = " | ".join("never" if value is None else f"{value:.1f}" for pair in pairs for value in pair)
        lines.append(f"| {seen.cell.words} | {seen.rate:.0f} for {seen.load_s:.0f} s | {texts} |")
    return "\n".join(lines)


def as_row(entry) -> dict:
    """Returns a cell as a row of the results file."""
    per = entry.drained.per
    return {
        "cell": entry.drained.cell.words,
        "tps": per.tps,
        "predicted_tps": entry.predicted_tps,
        "error_percent": entry.error_percent,
        "reads": per.reads,
        "predicted_reads": entry.predicted_reads,
        "group": per.group,
        "binding": entry.binding,
        "load_average": entry.drained.load_average,
        "per_transaction": asdict(per),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flavor", choices=("mariadb", "mysql"), default="mariadb")
    parser.add_argument("--cells", type=int, default=12, help="of those not calibrated on")
    parser.add_argument("--courses", type=int, default=1, help="loads that begin and end, with one thread")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--draw", type=int, metavar="SEED", help="cells drawn at random")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    reference, others = cells(arguments.flavor)
    if arguments.draw is not None:
        others = drawn(arguments.flavor, arguments.draw, arguments.cells)
    say = lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: E731
    with ExperimentLab(data_gib=2.0) as place, ReplicationLab(place, say=say) as lab:
        log = lab.get_source(reference[0].load).read_sample()
        base = [drained for cell in reference if (drained := quickest(lab, cell, arguments.repeat)) is not None]
        workload = calibrate_workload(base, log)
        assert workload.replica is not None
        say(f"calibrated: {dict(workload.replica.values)}")
        measured = [
            drained
            for cell in others[: arguments.cells]
            if (drained := quickest(lab, cell, arguments.repeat)) is not None
        ]
        courses = []
        for _ in range(arguments.courses):
            # Twice of what this replica applies, so that it falls behind by half a second a second.
            rate = round(2 * base[0].tps)
            courses.append(score_course(workload, measure_course(lab, reference[0], rate, 12)))
    scored = score(workload, measured)
    rows = [as_row(entry) for entry in scored]
    print(f"### Replicas, {arguments.flavor}\n\n{table(rows)}\n")
    if scored:
        median, worst = compute_errors(scored)
        print(
            f"n = {len(scored)}: median {median:.1f} % (bar {MEDIAN_BAR:g}), worst {worst:.1f} % (bar {WORST_BAR:g})."
        )
    if courses:
        print(f"\n{course_table(courses)}\n")
        off = [
            100 * abs(answer / seen - 1)
            for course in courses
            for seen, answer in ((course.course.onset_s, course.onset_s), (course.course.catch_up_s, course.catch_up_s))
            if seen and answer
        ]
        if off:
            print(
                f"Onset and catch-up: median {statistics.median(off):.0f} %, worst {max(off):.0f} % (bar {COURSE_BAR:g})."
            )
    if arguments.results:
        known_rows = [as_row(entry) for entry in score(workload, base)]
        retained = {"flavor": arguments.flavor, "calibrated_on": known_rows, "cells": rows}
        arguments.results.write_text(json.dumps(retained, indent=1, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
