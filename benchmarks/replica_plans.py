"""Do planned replicas hold, does the next cheaper one fail, and does the verdict name what matters?

    python benchmarks/replica_plans.py [--goals N] [--draw SEED] [--apart] [--seconds S] [--verdicts N] [--results FILE] [--quiet-lock FILE]

Goals (load, bound of lag, one thread or workers) are drawn from a seed. For each,
`headrace.plan_replica` chooses the cheapest replica, and both that and the next cheaper one that it
looked at are built on the lab with their volume, cache and workers; the source gets the goal's load
for a while. A replica holds if its lag stays within the bound and it applies what is written, so
that its lag would not grow in an hour either. Volumes with credits begin with those that the
prediction leaves after that hour. With --apart the source stands still while a replica applies what
it has received, as if each had a machine of its own: it holds if its rate reaches the goal's load.
Instances are SMALLER: their caches are divided by it, as the
data are; their prices are not.

A verdict (--verdicts) says what holds a replica back: one figure of it is changed at a time, and
the rate measured moves as predicted, or not at all where something else is named.

The applier is calibrated on two replicas. Needs root, /dev/fuse, sysbench and MariaDB.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from headrace import Replica, predict_replica
from headrace.catalog.price_list import PriceList
from headrace.errors import CouldNotRun
from headrace.experiment import ExperimentLab, machine
from headrace.experiment.replication import (
    Course,
    Drained,
    ReplicaCell,
    ReplicationLab,
    calibrate_workload,
    open_live_replica,
    score,
)
from headrace.planner import candidates
from headrace.planner.replica import ReplicaChoice, ReplicaPlan, plan_replica
from headrace.workload import TransactionWorkload
from prove_accuracy import Quiet
from replica_bench import cells, load_of

SEED = 14  # of the goals, where none is named; any
FLAVOR, VERSION = "mariadb", "mariadb-10.11"
# Data of 0.42 GiB stand for 10 GiB.
SMALLER = 25.0
# With as many processors as the machine these were measured on: 2. Their memory is 4, 8 and 16 GiB,
# three quarters of it for the cache.
INSTANCES, CACHE_SHARE = ("c7i.large", "m7i.large", "r7i.large"), 0.75
SOURCE = "r7i.large/io2:50:20000"
# Transactions a second of goals, by mode: beyond them source and replica want more than two
# processors, or the cheapest replica of all holds.
RATES = {"single": (150.0, 450.0), "optimistic": (300.0, 700.0)}
LAGS_S = (1.0, 2.0, 5.0)
LOAD_S = 30
# A replica that applies less of what is written than this is behind for good. 30 s at 200 a second
# are 6,000 transactions, whose number is 1 % off by chance (one standard deviation).
LEAST_APPLIED = 0.975
# A replica that needs longer than the load to catch up did not hold.
PATIENCE = 1.0
HELD_BAR, FAILED_BAR = 0.9, 0.7
# A change that matters moves the rate as predicted, another does not (ratios).
MOVES_BAR, STAYS_BAR = 0.25, 0.05

# Longest time that others are kept out, s (--quiet-lock).
HOLD_S = 150.0


@dataclass(frozen=True)
class LagGoal:
    """`tps` transactions a second, at most `lag_s` behind, applied in `mode`."""

    mode: Literal["optimistic", "single"]
    tps: int
    lag_s: float


def goals(seed: int = SEED) -> list[LagGoal]:
    """More than are needed: those for which nothing cheaper exists prove half as much."""
    chance = random.Random(seed)
    goals = []
    for number in range(100):
        mode: Literal["optimistic", "single"] = "optimistic" if number % 2 else "single"
        low, high = RATES[mode]
        goals.append(
            LagGoal(mode, round(math.exp(chance.uniform(math.log(low), math.log(high)))), chance.choice(LAGS_S))
        )
    return goals


def hosts() -> list[candidates.Host]:
    """Instances with caches that are smaller as the data are."""
    named, _ = candidates.list_hosts(INSTANCES, PriceList("us-east-1", None), None)
    return [
        replace(entry, cache_gib=CACHE_SHARE * entry.instance["memory_mib"] / 1024 / SMALLER)
        for entry in named
        if entry.instance is not None
    ]


def planned(workload: TransactionWorkload, expected: int, seed: int) -> list[tuple[LagGoal, ReplicaPlan]]:
    """Goals with a plan and a cheaper candidate that does not hold."""
    result = []
    for goal in goals(seed):
        plan = plan_replica(
            workload,
            replica_lag_s=goal.lag_s,
            compare=SOURCE,
            replica_version=VERSION,
            replica_mode=goal.mode,
            hosts=hosts(),
            arrivals_tps=float(goal.tps),
        )
        if plan.chosen is not None and len(plan.looked_at) > 1:
            result.append((goal, plan))
        if len(result) == expected:
            break
    return result


def balance_after_an_hour(workload: TransactionWorkload, goal: LagGoal, choice: ReplicaChoice) -> float | None:
    """Credits that the prediction leaves, percent; None: the volume has none."""
    prediction = predict_replica(
        workload,
        SOURCE.partition("/")[2],
        Replica(
            choice.storage,
            instance=choice.instance,
            cache_gib=choice.cache_gib,
            version=VERSION,
            workers=choice.workers,
        ),
        seconds=3_600,
        source_tps=[float(goal.tps)] * 3_600,
        drain_s=0,
        seed=None,
        draws=0,
    )
    return prediction.rows["balance_percent"][-1] if choice.storage.startswith("gp2") else None


def cell_of(workload: TransactionWorkload, goal: LagGoal, choice: ReplicaChoice) -> ReplicaCell:
    """The replica as it is built on the lab."""
    mode = "serial" if choice.workers == 0 else goal.mode
    words = f"{choice.instance}, {choice.storage}, {choice.workers} workers"
    return ReplicaCell(
        words,
        load_of(FLAVOR),
        choice.storage,
        round(1024 * choice.cache_gib),
        choice.workers,
        mode,
        balance_percent=balance_after_an_hour(workload, goal, choice),
    )


def judged(course: Course, lag_s: float) -> dict:
    """Judges whether the replica kept up: by its lag, and by the share that it applied in the
    second half of the load."""
    middle = next(look for look in course.looks if look.at_s >= course.load_s / 2)
    # The last look during the load: after it only the replica goes on.
    end = [look for look in course.looks if look.written < course.looks[-1].written][-1]
    written = end.written - middle.written
    share = (end.applied - middle.applied) / written if written else 1.0
    within = [seconds for at, seconds in course.lag if at <= course.load_s]
    return {
        "rate": course.rate,
        "lag_s": max(within),
        "applied_share": share,
        "held": max(within) <= lag_s and share >= LEAST_APPLIED,
        "load_average": course.load_average,
    }


@dataclass(frozen=True)
class Try:
    """A goal on one of its two candidates: `chosen` or `cheaper`."""

    number: int
    role: str
    goal: LagGoal
    choice: ReplicaChoice
    cell: ReplicaCell


def tries(workload: TransactionWorkload, plans: list[tuple[LagGoal, ReplicaPlan]]) -> list[list[Try]]:
    """By replica: goals on the same one follow each other, the lightest first."""
    by_cell: dict[str, list[Try]] = {}
    for number, (goal, result) in enumerate(plans):
        assert result.chosen is not None
        for role, choice in (("chosen", result.chosen), ("cheaper", result.looked_at[-2])):
            cell = cell_of(workload, goal, choice)
            by_cell.setdefault(cell.words, []).append(Try(number, role, goal, choice, cell))
    return [sorted(group, key=lambda entry: entry.goal.tps) for group in by_cell.values()]


def on_replica(lab: ReplicationLab, group: list[Try], load_s: int) -> list[dict]:
    """Runs the goals of one replica, the lightest first. If half of a load was not applied in time,
    heavier ones are not run: they fail too."""
    rows: list[dict] = []
    lost = False
    with open_live_replica(lab, group[0].cell, group[0].goal.tps) as replica:
        for entry in group:
            answer = {"rate": entry.goal.tps, "lag_s": math.inf, "applied_share": 0.0, "held": False, "ran": not lost}
            if not lost:
                try:
                    ran = replace(replica, cell=entry.cell).run_course(entry.goal.tps, load_s, PATIENCE)
                    answer |= judged(ran, entry.goal.lag_s)
                except CouldNotRun as error:
                    if "has not caught up" not in str(error):
                        raise
                    lost = True
            lab.say(
                f"{entry.goal.tps} tps, {entry.goal.lag_s:g} s, {entry.role} {entry.cell.words}: "
                f"{'held' if answer['held'] else 'failed'}, lag {answer['lag_s']:.1f} s, "
                f"applied {100 * answer['applied_share']:.1f} %"
            )
            retained = {"number": entry.number, "role": entry.role, "choice": entry.choice.to_dict()}
            rows.append(retained | {"balance_percent": entry.cell.balance_percent} | answer)
    return rows


def plans_proved(
    lab: ReplicationLab, workload: TransactionWorkload, namespace: argparse.Namespace, quiet: Quiet
) -> list:
    """Measures both candidates of each goal on the lab."""
    plans = planned(workload, namespace.goals, namespace.draw)
    result: list[dict] = []
    for group in tries(workload, plans):
        with quiet.gate():
            result += on_replica(lab, group, namespace.seconds)
    rows = []
    for number, (goal, _) in enumerate(plans):
        both = {row["role"]: row for row in result if row["number"] == number}
        rows.append({"goal": asdict(goal)} | both)
    return rows


def plans_apart(
    lab: ReplicationLab, workload: TransactionWorkload, namespace: argparse.Namespace, quiet: Quiet
) -> list:
    """Measures the rate of both candidates of each goal, with the source at rest."""
    plans = planned(workload, namespace.goals, namespace.draw)
    rates: dict[tuple[str, float | None], float] = {}
    rows: list[dict] = [{"goal": asdict(goal)} for goal, _ in plans]
    for member in (member for group in tries(workload, plans) for member in group):
        key = (member.cell.words, member.cell.balance_percent)
        if key not in rates:
            try:
                with quiet.gate():
                    rates[key] = lab.drain(member.cell).tps
            except CouldNotRun as error:
                if "applied" not in error.rule:
                    raise
                lab.say(f"{member.cell.words}: {error.rule}")
                rates[key] = 0.0  # too few to tell a rate, and far fewer than any goal
        answer = {"tps": rates[key], "held": rates[key] >= member.goal.tps, "choice": member.choice.to_dict()}
        rows[member.number][member.role] = answer | {"balance_percent": member.cell.balance_percent}
    return rows


def changes() -> list[tuple[str, ReplicaCell]]:
    """One figure of the first replica that was calibrated on changed at a time."""
    base = cells(FLAVOR)[0][0]
    return [
        ("three times the IOPS", base.with_(words="IOPS x 3", storage="gp3:30:15000")),
        ("no flushes", base.with_(words="no flushes", flush_log=2, sync_binlog=0)),
        ("all data in the cache", base.with_(words="all in the cache", cache_mib=640)),
        ("no binary log", base.with_(words="no binary log", binlog=False)),
    ]


def verdicts(lab: ReplicationLab, workload: TransactionWorkload, base: Drained, number: int, quiet: Quiet) -> list:
    """Returns the effect of changing one figure, measured and predicted, as ratios to the base."""
    answer = score(workload, [base])[0]
    rows = []
    for words, cell in changes()[:number]:
        with quiet.gate():
            entry = score(workload, [lab.drain(cell)])[0]
        moved, predicted_tps = entry.drained.tps / base.tps, entry.predicted_tps / answer.predicted_tps
        stays = abs(predicted_tps - 1.0) <= STAYS_BAR
        right = abs(moved - 1.0) <= STAYS_BAR if stays else abs(moved / predicted_tps - 1.0) <= MOVES_BAR
        rows.append(
            {"change": words, "held_by": answer.binding, "moved": moved, "predicted": predicted_tps, "right": right}
        )
        lab.say(f"{words}: x {moved:.2f}, predicted x {predicted_tps:.2f}")
    return rows


def plans_table(rows: list) -> str:
    """Returns the table of plans in Markdown."""
    lines = [
        "| load, lag at most, mode | cheapest that holds | measured | next cheaper | measured |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        goal, parts = row["goal"], []
        for name in ("chosen", "cheaper"):
            entry = row[name]
            choice = entry["choice"]
            words = f"{choice['instance']}, {choice['storage']}, {choice['workers']} workers"
            if "tps" in entry:
                text = f"{entry['tps']:.0f} tps"
            elif not math.isinf(entry["lag_s"]):
                text = f"{entry['lag_s']:.1f} s, {100 * entry['applied_share']:.1f} % applied"
            else:
                text = "half not applied" if entry["ran"] else "not run, a lighter load failed"
            parts += [words, f"{'held' if entry['held'] else 'failed'}: {text}"]
        lines.append(f"| {goal['tps']} tps, {goal['lag_s']:g} s, {goal['mode']} | {' | '.join(parts)} |")
    return "\n".join(lines)


def verdicts_table(rows: list) -> str:
    """Returns the table of verdicts in Markdown."""
    lines = ["| change | rate moved | predicted | right |", "|---|---|---|---|"]
    lines += [
        f"| {row['change']} | x {row['moved']:.2f} | x {row['predicted']:.2f} | {'yes' if row['right'] else 'no'} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", type=int, default=10)
    parser.add_argument("--draw", type=int, default=SEED, metavar="SEED", help="of the goals")
    parser.add_argument("--apart", action="store_true", help="the source stands still while a replica applies")
    parser.add_argument("--seconds", type=int, default=LOAD_S)
    parser.add_argument("--verdicts", type=int, default=len(changes()))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--quiet-lock")
    arguments = parser.parse_args()
    if lacks := machine.list_missing(FLAVOR):
        print("replica plans: skipped, this machine lacks: " + " ".join(lacks))
        return 0
    reference, _ = cells(FLAVOR)
    quiet = Quiet(arguments.quiet_lock, HOLD_S)
    say = lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: E731
    with ExperimentLab(data_gib=2.0) as place, ReplicationLab(place, say=say) as lab, ExitStack() as ends:
        ends.callback(quiet.free)
        with quiet.gate():
            log = lab.get_source(reference[0].load).read_sample()
        base = []
        for cell in reference:
            with quiet.gate():
                base.append(lab.drain(cell))
        workload = calibrate_workload(base, log)
        quiet.free()
        result = verdicts(lab, workload, base[0], arguments.verdicts, quiet)
        rows = (plans_apart if arguments.apart else plans_proved)(lab, workload, arguments, quiet)
    total, failed = sum(row["chosen"]["held"] for row in rows), sum(not row["cheaper"]["held"] for row in rows)
    print(f"### Planned replicas\n\n{plans_table(rows)}\n")
    print(f"{total} of {len(rows)} hold (bar {HELD_BAR:g}), {failed} next cheaper ones fail (bar {FAILED_BAR:g}).\n")
    print(f"### What holds a replica back\n\n{verdicts_table(result)}")
    if arguments.results:
        retained = {"machine": machine.collect_machine_facts(FLAVOR), "plans": rows, "verdicts": result}
        arguments.results.write_text(json.dumps(retained, indent=1, default=str) + "\n")
    met = total >= HELD_BAR * len(rows) and failed >= FAILED_BAR * len(rows) and all(row["right"] for row in result)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
