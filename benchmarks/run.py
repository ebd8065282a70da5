"""Speed and accuracy, in one run: configuration, seed, samples, spread, and ratios beside a plain
SimPy program.

    make bench

Prints tables and writes them to benchmarks/results/latest.json. Machines differ and are noisy:
compare ratios of one run.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import api_bench
import headrace
import lab_bench
import plan_accuracy
import simpy_gp2
import snapshot_bench
import unseen_runs
from headrace import _core as core

HERE = Path(__file__).parent
Value = TypeVar("Value")
# A database calibrated on a published hour, which the package carries.
TPCC_2018 = Path(headrace.__file__).parent / "studies" / "calibrated" / "innodb-tpcc-2018.toml"
REPETITIONS = 5  # of a measurement of speed (a guess)
SEED = 1  # any
CANDIDATES = 100_000  # the project's bar is stated for this number
# Programs that print their own tables, most of them of real servers, and say what a machine lacks.
SERVERS = (
    ("fleet_bench.py",),
    ("fleet_rules.py",),
    ("doctor_accuracy.py",),
    ("prove_accuracy.py", "--quick"),
    ("capture_overhead.py", "--pairs", "4"),
    ("page_speed.py",),
    ("watch_cost.py", "--seconds", "60", "--watches", "8"),
    ("durability_loss.py", "--servers", "mariadb", "--crashes", "1"),
)


def configuration() -> dict:
    """Returns what the figures were measured on: time, commit, processor, and the like."""
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "cpu": model,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "seed": SEED,
    }


def rust_throughput() -> list[dict]:
    """The forms from inside Rust: crates/sim/examples/throughput.rs."""
    command = ["cargo", "run", "--profile", "dist", "--quiet", "-p", "headrace-sim", "--example", "throughput"]
    text = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def timed(work: Callable[[], Value], repetitions: int = REPETITIONS) -> tuple[list[float], Value]:
    """Seconds of each of at least one repetition, and what the last returned."""
    seconds: list[float] = []
    while True:
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
        if len(seconds) >= repetitions:
            return seconds, result


def beside_simpy() -> dict:
    """One minute of a gp2 under 16 clients: requests a second of ours and of SimPy's, and that both
    count the same."""
    seconds = 60.0
    load = headrace.ClosedWorkload(name="bench", rw="randread", bs_kib=16, iodepth=16, numjobs=1)
    reference, their_count = timed(lambda: simpy_gp2.run(seconds, seed=SEED))
    options = {"saved_second": False, "holds": False, "merge": False}
    long = 40 * seconds
    own, run = timed(
        lambda: headrace.simulate(
            load, "gp2:500", seconds=long, seed=SEED, form="events", interval_s=60, options=options
        )
    )
    our_count = run.summary["delivered_ios"]
    short = headrace.simulate(load, "gp2:500", seconds=seconds, seed=SEED, form="events", options=options).summary[
        "delivered_ios"
    ]
    return {
        "simpy_requests_per_s": [their_count / s for s in reference],
        "ours_requests_per_s": [our_count / s for s in own],
        "ratio_of_medians": (our_count / statistics.median(own)) / (their_count / statistics.median(reference)),
        "requests_in_a_minute": {"simpy": their_count, "ours": short},
    }


def many_candidates() -> dict:
    """100,000 storages against a day at one-minute points, none left out by a bound. They have 20
    sets of buckets: a gp3 is no faster for its size, and the core simulates each set once."""
    day = headrace.demo_day()
    sizes = range(120, 120 + CANDIDATES // 20)
    storages = [
        f"gp3:{size}:{iops}:{mib_s}"
        for size in sizes
        for iops in (3000, 3500, 4000, 5000, 6000)
        for mib_s in (125, 160, 200, 250)
    ]
    load = day.to_core()
    index = [None] * len(storages)
    seconds, columns = timed(lambda: core.evaluate(load, storages, index, [], prune_above=1e9), 3)
    return {
        "candidates": len(storages),
        "points": len(day.points),
        "seconds": seconds,
        "simulated": columns["status"].count("simulated"),
    }


def whole_plan() -> dict:
    """`headrace plan` on the demo day, everything included: volumes alone, and with every instance
    of a family."""
    day = headrace.demo_day()
    seconds, result = timed(lambda: headrace.plan(day), 3)
    on_instances, _ = timed(lambda: headrace.plan(day, instances=["r6i.*"]), 3)
    assert result.winner is not None
    return {
        "seconds": seconds,
        "on_instances": on_instances,
        "considered": result.search.considered,
        "winner": result.winner.storage,
    }


def plan_is_right() -> dict:
    """Random questions against brute force and replay: `benchmarks/plan_accuracy.py`."""
    return plan_accuracy.run(1000, SEED, 100, lambda text: print(text, file=sys.stderr))


def database_plan() -> dict:
    """`headrace plan` of a calibrated database on every instance the catalog offers, doubt and
    regret included."""
    database = headrace.load(TPCC_2018)
    assert isinstance(database, headrace.TransactionWorkload)
    seconds, result = timed(lambda: headrace.plan(database, goals=["tps>=400", "p95_ms<=300"]), 3)
    assert result.winner is not None
    return {
        "seconds": seconds,
        "considered": result.search.considered,
        "simulated": result.search.simulated,
        "winner": result.winner.place,
    }


def accuracy() -> list[dict]:
    """Returns every verdict of every study."""
    rows = []
    for study in headrace.list_studies():
        for verdict in headrace.run_study(study.name).verdicts:
            row = {
                "study": study.name,
                "what": verdict.what,
                "published": verdict.published,
                "ours": verdict.ours,
                "unit": verdict.unit,
            }
            rows.append(
                row
                | {
                    "error_percent": verdict.error_percent,
                    "tolerance_percent": verdict.tolerance_percent,
                    "within": verdict.within,
                }
            )
    return rows


def databases() -> dict:
    """Predictions of published runs the calibration has not seen, where their files are at hand."""
    source = unseen_runs.folder()
    if source is None:
        return {"missing": "the published runs are not here: set HEADRACE_PUBLISHED_RUNS to their folder"}
    scores = unseen_runs.score(unseen_runs.load_all(source))
    return {"rows": [vars(row) for row in scores], "summary": unseen_runs.summary(scores)}


def spread(values: list[float], digits: int = 3) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}g} ({low:,.{digits}g}-{high:,.{digits}g}, n={len(values)})"


def show(console: Console, results: dict) -> None:
    console.print({key: value for key, value in results["configuration"].items()})
    speed = Table("what", "median (range)", "bar", title="Speed")
    for row in results["rust"]:
        name = f"{row['name']}: {row['unit']}"
        per_unit = {"days/s": "day", "hours/s": "hour", "caches/s": "cache"}.get(row["unit"])
        per = f"  = {1e6 / row['median']:.1f} us a {per_unit}" if per_unit else ""
        bar = {"requests/s": "10 M", "days/s": "50 us", "hours/s": "1 ms"}.get(row["unit"], "")
        speed.add_row(
            name, f"{row['median']:,.0f} ({row['worst']:,.0f}-{row['best']:,.0f}, n={row['repetitions']}){per}", bar
        )
    simpy = results["simpy"]
    speed.add_row("SimPy program: requests/s", spread(simpy["simpy_requests_per_s"]), "")
    speed.add_row(
        "ours, the same queue: requests/s",
        spread(simpy["ours_requests_per_s"]),
        f"50 x SimPy; here {simpy['ratio_of_medians']:.0f} x",
    )
    speed.add_row("requests in a minute, SimPy / ours", f"{simpy['requests_in_a_minute']}", "alike")
    many = results["candidates"]
    speed.add_row(
        f"{many['candidates']:,} candidates x {many['points']} points, all simulated: s",
        spread(many["seconds"]),
        "10 s",
    )
    speed.add_row(
        f"the demo's plan, {results['plan']['considered']:,} candidates: s", spread(results["plan"]["seconds"]), "2 s"
    )
    speed.add_row("the same on every r6i instance: s", spread(results["plan"]["on_instances"]), "2 s")
    databases = results["database_plan"]
    speed.add_row(
        (f"plan for transactions, {databases['considered']:,} candidates, {databases['simulated']:,} simulated: s"),
        spread(databases["seconds"]),
        f"10 s per 200,000; here {statistics.median(databases['seconds']) * 2e5 / databases['considered']:.1f} s",
    )
    console.print(speed)
    right = Table("what", "seen", title="Plans: random days x goals x dates, against brute force and replayed")
    for name, value in results["plan_is_right"].items():
        right.add_row(name, str(len(value)) if isinstance(value, list) else f"{value:,.3g}")
    console.print(right)
    table = Table("study", "what", "published", "ours", "error %", "allowed %", "within", title="Accuracy")
    for row in results["accuracy"]:
        cells = [
            row["study"],
            row["what"],
            row["published"],
            row["ours"],
            row["error_percent"],
            row["tolerance_percent"],
            row["within"],
        ]
        table.add_row(*[f"{cell:,.4g}" if isinstance(cell, float) else str(cell) for cell in cells])
    console.print(table)
    show_databases(console, results["databases"])
    lab_bench.show(console, results["lab"])
    api_bench.show(console, results["api"])
    snapshot_bench.show(console, results["snapshots"])


def show_databases(console: Console, result: dict) -> None:
    """Errors of predicted databases, by family."""
    if "missing" in result:
        console.print(result["missing"])
        return
    names = ("median", "p90", "worst")
    table = Table(
        "family",
        "predicted",
        "n",
        *(f"{name} %" for name in names),
        "80 % interval holds",
        "response p95, median %",
        "p90 %",
        title="Databases: predicted over measured tps, second half, of runs that were left out",
    )
    for row in result["summary"]:
        cells = [f"{row[name]:.1f}" if row["n"] else "" for name in names]
        holds = f"{row['holds']} of {row['n']}" if row["n"] else f"refused: {row['refused']}"
        response = ["" if row.get(name) is None else f"{row[name]:.1f}" for name in ("p95_median", "p95_p90")]
        table.add_row(row["family"], row["way"], str(row["n"]), *cells, holds, *response)
    console.print(table)
    console.print(unseen_runs.IN_SAMPLE)


def main() -> int:
    console = Console(width=200)
    results = {"configuration": configuration()}
    steps = {
        "rust": rust_throughput,
        "simpy": beside_simpy,
        "candidates": many_candidates,
        "plan": whole_plan,
        "plan_is_right": plan_is_right,
        "database_plan": database_plan,
        "accuracy": accuracy,
        "databases": databases,
        "lab": lab_bench.run,
        "api": api_bench.run,
        "snapshots": snapshot_bench.run,
    }
    for name, step in steps.items():
        print(f"{name} ...", file=sys.stderr)
        results[name] = step()
    show(console, results)
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    (out / "latest.json").write_text(json.dumps(results, indent=1, default=str))
    for program, *arguments in SERVERS:
        print(f"{program} ...", file=sys.stderr)
        # A program that misses its bar says so in its table; the others run all the same.
        subprocess.run([sys.executable, str(HERE / program), *arguments], check=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
