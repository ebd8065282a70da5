"""How well `headrace prove` predicts configurations nobody has seen: one calibration each, then
others with other volumes, clients and caches, on the lab.

    python benchmarks/prove_accuracy.py [--quick] [--engine innodb|myrocks] [--distribution uniform|pareto] [--results FILE] [--store DIR] [--quiet-lock FILE]

Every configuration begins with the same data and an empty cache, and its prediction is made before
it is run, by a workload calibrated on the first one alone. What was measured is kept in --store and
not measured again; --results is written after every configuration. `--quiet-lock`: a file that is
locked (flock, exclusively) while something is measured, for machines that others work on; up to
HOLD_S at a time. Needs what `headrace prove` needs: root, /dev/fuse, MariaDB (with MyRocks),
sysbench.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace import HeadraceError, bench, calibrate, experiment
from headrace.experiment import Configuration

HERE = Path(__file__).parent
SEED = 1  # any
# Bars: median and nine of ten, percent of mean tps; p95 latency of each.
BARS = {"innodb": (4.0, 10.0), "myrocks": (5.0, 12.0)}
P95_BAR = 20.0  # percent
# One holder keeps others from working: not longer than about this at a time.
HOLD_S = 100.0
CALIBRATION = "calibration"


def configurations(engine: str) -> list[Configuration]:
    """The one calibrated on, then the others: IOPS 900 to 6,000, types, RAID 0, clients 4 to 64,
    cache x0.5 and x2.

    MyRocks asks for so few I/Os a transaction that two processors hold 6,000 IOPS no more: its
    volumes are half as quick. Pools of InnoDB are not below 0.5 GiB: at 0.25 MariaDB 10.11 stands
    still for a second or more every half minute, with doublewrite and without a request on the
    device (docs/semantics.md, Proving at a smaller scale).
    """
    if engine == "myrocks":
        base = Configuration(CALIBRATION, "io1:40:1500", 0.5, 16)
        return [
            base,
            replace(base, name="900 IOPS", storage="io1:20:900"),
            replace(base, name="3,000 IOPS", storage="gp3:20:3000"),
            replace(base, name="half the cache", cache_gib=0.25),
            replace(base, name="twice the cache", cache_gib=1.0),
            replace(base, name="4 clients", threads=4),
            replace(base, name="RAID 0", storage="2xio1:20:700", threads=32),
            replace(base, name="gp2, credits gone", storage="gp2:400", balance_percent=0.0),
        ]
    base = Configuration(CALIBRATION, "gp3:20:3000", 1.0, 16)
    return [
        base,
        replace(base, name="900 IOPS", storage="io1:20:900"),
        replace(base, name="6,000 IOPS", storage="gp3:20:6000"),
        replace(base, name="half the cache", cache_gib=0.5),
        replace(base, name="twice the cache", cache_gib=2.0),
        replace(base, name="64 clients", threads=64),
        replace(base, name="4 clients", threads=4),
        replace(base, name="RAID 0", storage="2xio1:20:900", threads=32),
        replace(base, name="gp2, credits gone", storage="gp2:300", balance_percent=0.0),
        replace(base, name="6,000 IOPS, 64 clients", storage="gp3:20:6000", threads=64),
        replace(base, name="1,500 IOPS, 32 clients", storage="io1:40:1500", threads=32),
        replace(base, name="gp2 of 3,000", storage="gp2:1000", threads=32),
        replace(base, name="4,500 IOPS, twice the cache, 8 clients", storage="gp3:20:4500", cache_gib=2.0, threads=8),
    ]


# Rows of each of 8 tables: 3.7 GiB of InnoDB, 1.6 of MyRocks.
ROWS = {"innodb": 2_000_000, "myrocks": 1_000_000}


@dataclass(frozen=True)
class Plan:
    """`smaller`: what rows and caches are divided by; seconds of the load before data are kept, of
    a calibration, of each other configuration, and those that do not count; `only`: these
    configurations."""

    smaller: float = 1.0
    settle_s: int = 60
    calibration_s: int = 150
    each_s: int = 60
    warmup_s: int = 30
    only: tuple[str, ...] = ()


QUICK = Plan(2.0, 20, 60, 30, 15, ("900 IOPS", "6,000 IOPS", "3,000 IOPS", "twice the cache", "4 clients", "RAID 0"))


class Quiet:
    """Holds a lock while something is measured, and a little longer when more is to come: up to
    `hold_s` at a time."""

    def __init__(self, path: str | None, hold_s: float = HOLD_S) -> None:
        self.path, self.hold_s, self.file, self.since = path, hold_s, None, 0.0

    @contextmanager
    def gate(self):
        """Around a run."""
        if self.path and self.file is None:
            self.file = open(self.path, "a")  # noqa: SIM115
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.since = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - self.since > self.hold_s:
                self.free()

    def free(self) -> None:
        """Lets others work."""
        if self.file is not None:
            self.file.close()
            self.file = None


def row(name: str, configuration: Configuration, one, seen, when: str, began_at: str | None = None) -> dict:
    """A configuration's figures. `predicted_first`: False where the run lay in the store already,
    so that its prediction was made anew."""
    return {
        "configuration": name,
        "storage": configuration.storage,
        "cache_gib": configuration.cache_gib,
        "threads": configuration.threads,
        "balance_percent": configuration.balance_percent,
        "seed": SEED,
        "n": int(seen.seconds),
        "predicted_at": when,
        "run": seen.run,
        "tps_predicted": one.tps,
        "tps_measured": seen.tps,
        "tps_error_percent": 100.0 * (one.tps / seen.tps - 1.0),
        "p95_ms_predicted": one.p95_ms,
        "p95_ms_measured": seen.p95_ms,
        "p95_error_percent": 100.0 * (one.p95_ms / seen.p95_ms - 1.0) if seen.p95_ms else None,
        "ios_per_tx_predicted": one.ios_per_tx,
        "ios_per_tx_measured": seen.ios_per_tx,
        "measured_at": began_at,
        "predicted_first": began_at is not None and when <= began_at,
        "processors_bound": seen.processors_bound,
        "findings": list(seen.findings),
    }


def same(record: bench.RunRecord, configuration: Configuration, seconds: int) -> bool:
    """Whether a run of the store is this configuration, as long."""
    target, load_ = record.document["target"], record.document["load"]
    asked = (configuration.name, configuration.storage, configuration.threads, seconds)
    return (
        asked == (record.document.get("name"), target["storage"], load_["threads"], load_["seconds"])
        and abs(target["cache_gib"] / configuration.cache_gib - 1) < 0.02
    )


def quantile(values: list[float], share: float) -> float:
    """Linear between the ranks."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def summary(rows: list[dict], engine: str) -> dict:
    """Median and p90 of the absolute errors, and whether they are within the bars. Runs in which
    the machine had nothing left say nothing of storage: they do not count."""
    rows = [one for one in rows if not one["processors_bound"]]
    errors = [abs(one["tps_error_percent"]) for one in rows]
    p95 = [abs(one["p95_error_percent"]) for one in rows if one["p95_error_percent"] is not None]
    if not errors:
        return {}
    median, p90 = statistics.median(errors), quantile(errors, 0.9)
    bar = BARS[engine]
    return {
        "configurations": len(errors),
        "median_percent": median,
        "p90_percent": p90,
        "median_bar": bar[0],
        "p90_bar": bar[1],
        "p95_within_20_percent": sum(value <= P95_BAR for value in p95),
        "p95_counted": len(p95),
        "p95_median_percent": statistics.median(p95) if p95 else None,
        "met": median <= bar[0] and p90 <= bar[1] and all(value <= P95_BAR for value in p95),
    }


def table(title: str, rows: list[dict], found: dict) -> str:
    """Markdown."""
    lines = [
        f"### {title}",
        "",
        (
            "| configuration | storage | cache GiB | clients | seed | n s | tps predicted "
            "| measured | error | p95 predicted | measured | error |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        p95 = "" if one["p95_error_percent"] is None else f"{one['p95_error_percent']:+.0f} %"
        lines.append(
            f"| {one['configuration']} | {one['storage']} | {one['cache_gib']:.3g} | {one['threads']} | "
            f"{one['seed']} | {one['n']} | {one['tps_predicted']:.1f} | {one['tps_measured']:.1f} | "
            f"{one['tps_error_percent']:+.1f} %{' *' if one['processors_bound'] else ''} | "
            f"{one['p95_ms_predicted']:.0f} ms | {one['p95_ms_measured'] or 0:.0f} ms | {p95} |"
        )
    if any(one["processors_bound"] for one in rows):
        lines += ["", "\\*: the machine's processors were all in use; not counted, and measured again next time."]
    if found:
        lines += [
            "",
            f"Median {found['median_percent']:.1f} % (bar {found['median_bar']:g}), p90 "
            f"{found['p90_percent']:.1f} % (bar {found['p90_bar']:g}); p95 within {P95_BAR:g} % in "
            f"{found['p95_within_20_percent']} of {found['p95_counted']}.",
        ]
    return "\n".join(lines)


class Set:
    """One engine under one distribution."""

    def __init__(self, engine: str, distribution: str, plan: Plan, place: Path, quiet: Quiet) -> None:
        self.engine, self.plan, self.place, self.quiet = engine, plan, place, quiet
        self.title = f"{ {'innodb': 'InnoDB', 'myrocks': 'MyRocks'}[engine] }, {distribution}"
        rows = round(ROWS[engine] / plan.smaller)
        self.benchmark = bench.SysbenchOltp(tables=8, rows=rows, distribution=distribution)
        self.store = bench.Store(place / f"{engine}-{distribution}-{rows}")
        gib = experiment.ROW_BYTES[engine] * rows * 8 / 2**30
        self.data = experiment.data_set(self.benchmark, engine, gib, settle_s=plan.settle_s)
        self.data_folder = place / f"data-{engine}-{rows}"
        self.changed = experiment.changed(engine, self.benchmark)
        self.ends = ExitStack()
        self.lab = self.workload = self.spread = None

    def run(self, keep) -> list[dict]:
        """All configurations; `keep(rows)` after each."""
        rows: list[dict] = []
        with self.ends:
            for configuration in configurations(self.engine):
                if self.plan.only and configuration.name not in (CALIBRATION, *self.plan.only):
                    continue
                made = replace(configuration, cache_gib=configuration.cache_gib / self.plan.smaller)
                if made.name == CALIBRATION:
                    record = self.measured(made, self.plan.calibration_s)
                    least_s = 0.9 * self.plan.calibration_s
                    self.workload = calibrate([experiment.lab_counted(record)], least_seconds=least_s)
                    self.spread = experiment.response_spread(record, self.workload)
                    continue
                one = experiment.predicted(
                    self.workload,
                    made,
                    p95=self.spread,
                    changed=self.changed,
                    seconds=self.plan.each_s,
                    warmup_s=self.plan.warmup_s,
                    seed=SEED,
                    draws=0,
                    processors=experiment.machine.cores(),
                )
                when = datetime.now(UTC).isoformat(timespec="seconds")
                record = self.measured(made, self.plan.each_s)
                rows.append(
                    row(made.name, made, one, experiment.measured(record), when, record.document.get("began_at"))
                )
                keep(rows)
                print(table(self.title, rows[-1:], {}).splitlines()[-1], flush=True)
        return rows

    def measured(self, configuration: Configuration, seconds: int) -> bench.RunRecord:
        """The run of the store, or a new one."""
        for record in self.store.runs():
            if (
                record.state == "complete"
                and same(record, configuration, seconds)
                and not experiment.measured(record).processors_bound
            ):
                return record
        if self.lab is None:
            self.ends.callback(self.quiet.free)
            self.lab = self.ends.enter_context(experiment.ExperimentLab(self.place, data_gib=self.data.gib))
            self.lab.load(self.data, self.data_folder)
        cell = experiment.cell_of(configuration, self.data, seconds=seconds, warmup_s=self.plan.warmup_s, seed=SEED)
        return experiment.measure(self.lab, cell, self.store, configuration.name, gate=self.quiet.gate)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--engine", choices=("innodb", "myrocks"))
    parser.add_argument("--distribution", choices=("uniform", "pareto"))
    parser.add_argument("--results", type=Path, default=HERE / "results" / "prove_accuracy.json")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace" / "prove_accuracy",
    )
    parser.add_argument("--quiet-lock")
    asked = parser.parse_args()
    wanted = [
        pair
        for pair in (("innodb", "uniform"), ("innodb", "pareto"), ("myrocks", "uniform"))
        if asked.engine in (None, pair[0]) and asked.distribution in (None, pair[1])
    ]
    lacks = [line for engine in {pair[0] for pair in wanted} for line in experiment.missing("mariadb", (engine,))]
    if lacks:
        print("prove accuracy: skipped, this machine lacks: " + " ".join(dict.fromkeys(lacks)))
        return 0
    asked.store.mkdir(parents=True, exist_ok=True)
    plan, quiet, all_met = QUICK if asked.quick else Plan(), Quiet(asked.quiet_lock), True
    answers = {"machine": experiment.machine.identity(), "quick": asked.quick, "sets": {}}
    for engine, distribution in wanted:
        made = Set(engine, distribution, plan, asked.store, quiet)

        def keep(rows: list[dict], made: Set = made) -> None:
            answers["sets"][made.title] = {
                "rows": rows,
                "summary": summary(rows, made.engine),
                "date": time.strftime("%Y-%m-%d", time.gmtime()),
            }
            fresh = asked.results.with_suffix(".new")
            fresh.write_text(json.dumps(answers, indent=1) + "\n")
            os.replace(fresh, asked.results)

        rows = made.run(keep)
        found = summary(rows, engine)
        all_met &= bool(found.get("met"))
        print(table(made.title, rows, found), flush=True)
    return 0 if all_met else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadraceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted: what was measured is kept, and not measured again", file=sys.stderr)
        sys.exit(130)
