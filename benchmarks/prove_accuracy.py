"""Accuracy of `headrace prove` on configurations nobody has seen: one calibration each, then others
with other volumes, clients and caches, on the lab.

    python benchmarks/prove_accuracy.py [--quick | --long] [--server mariadb|mysql] [--engine innodb|myrocks]
        [--distribution uniform|pareto|zipfian] [--seeds 1,2,3] [--results FILE] [--store DIR] [--stored]
        [--rest S] [--quiet-lock FILE]

Every configuration begins with the same data and an empty cache, and its prediction is made before
it is run, by a workload calibrated on the first one of the same seed alone. Measured runs are kept
in --store and not measured again; --results is written after every configuration. `--stored`
predicts the judged runs of the store again and measures nothing. `--quick` (in
`make bench`, 12 minutes): three configurations, one seed, pareto, both servers. `--long`: more data
and a minute each. `--quiet-lock`: a file that is locked (flock, exclusively) while something is
measured, for machines that others work on; up to HOLD_S at a time. Needs what `headrace prove`
needs: root, /dev/fuse, sysbench, and MariaDB (with MyRocks) or MySQL.

A run while other programs used more than OTHERS_SHARE of the processors, or in which nothing of
them was idle, is shown and not judged, and measured again next time; nor is what was calibrated on
such a run, or while they used more than CALIBRATION_OTHERS processors. `--rest S`: each run waits
up to S seconds until others rest.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace import HeadraceError, bench, calibrate, experiment
from headrace.base.machine import count_cores
from headrace.bench.running import environment
from headrace.errors import InputError
from headrace.experiment import Configuration, machine, neighbours
from headrace.experiment.neighbours import OTHERS_SHARE

HERE = Path(__file__).parent
# Bars: median and nine of ten, percent of mean tps; p95 latency of each.
BARS = {"innodb": (4.0, 10.0), "myrocks": (5.0, 12.0)}
P95_BAR = 20.0  # percent
# Processors that other programs may use on average while a configuration is calibrated on (a guess): less than beside a
# judged run, because the predictions of all other configurations stand on the calibration.
CALIBRATION_OTHERS = 0.1
# One holder keeps others from working: not longer than about this at a time.
HOLD_S = 100.0
# The storage held a run when requests waited for one of its limits in more than this share of the
# time (a guess).
BOUND_SHARE = 0.5
DRAWS = 24  # for the 80 % interval, as a proof has (experiment/predict.py)
CALIBRATION = "calibration"


def configurations(engine: str) -> list[Configuration]:
    """The one calibrated on, then the others: IOPS 900 to 12,000, types, RAID 0, clients 1 to 64,
    cache x0.5 to all of the data.

    MyRocks asks for so few I/Os a transaction that two processors hold 6,000 IOPS no more: its
    volumes are half as quick. Pools of InnoDB are not below 0.5 GiB: at 0.25 MariaDB 10.11 stands
    still for a second or more every half minute, with doublewrite and without a request on the
    device (docs/semantics.md, Proving at a smaller scale). The last three of InnoDB are held by
    clients or processors.
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
        replace(base, name="1 client", storage="gp3:20:6000", threads=1),
        replace(base, name="2 clients, 12,000 IOPS", storage="gp3:24:12000", threads=2),
        replace(base, name="all in the cache", storage="gp3:20:6000", cache_gib=4.5, threads=8),
    ]


# Rows of each of 8 tables: 3.7 GiB of InnoDB, 1.6 of MyRocks.
ROWS = {"innodb": 2_000_000, "myrocks": 1_000_000}


@dataclass(frozen=True)
class Plan:
    """`smaller`: what rows and caches are divided by; seconds of the load before data are kept, of
    a calibration, of each other configuration, and those that do not count; `only`: these
    configurations."""

    smaller: float = 2.0
    settle_s: int = 20
    calibration_s: int = 45
    each_s: int = 20
    warmup_s: int = 15
    only: tuple[str, ...] = ()


QUICK = Plan(only=("900 IOPS", "twice the cache", "1 client"))
LONG = Plan(1.0, 60, 150, 60, 30)


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


def row(configuration: Configuration, seed: int, prediction, measurement, record: bench.RunRecord, when: str) -> dict:
    """A configuration's figures. `predicted_first`: False where the run lay in the store already,
    so that its prediction was made anew. `neighbours`: what other programs did meanwhile."""
    began_at, beside = record.document.get("began_at"), neighbours.read(record.folder)
    return {
        "configuration": configuration.name,
        "storage": configuration.storage,
        "cache_gib": configuration.cache_gib,
        "threads": configuration.threads,
        "balance_percent": configuration.balance_percent,
        "seed": seed,
        "n": int(measurement.seconds),
        "predicted_at": when,
        "run": measurement.run,
        "tps_predicted": prediction.tps,
        "tps_low": prediction.tps_low,
        "tps_high": prediction.tps_high,
        "tps_measured": measurement.tps,
        "tps_error_percent": 100.0 * (prediction.tps / measurement.tps - 1.0),
        "interval_holds": None
        if prediction.tps_low is None
        else bool(prediction.tps_low <= measurement.tps <= prediction.tps_high),
        "p95_ms_predicted": prediction.p95_ms,
        "p95_ms_measured": measurement.p95_ms,
        "p95_error_percent": 100.0 * (prediction.p95_ms / measurement.p95_ms - 1.0) if measurement.p95_ms else None,
        "ios_per_tx_predicted": prediction.ios_per_tx,
        "ios_per_tx_measured": measurement.ios_per_tx,
        "binds": prediction.binds,
        "regime": regime(record.summary),
        "measured_at": began_at,
        "predicted_first": began_at is not None and when <= began_at,
        "processors_bound": measurement.processors_bound,
        "neighbours": None if beside is None else asdict(beside),
        "judged": is_judged(record),
        "findings": list(measurement.findings),
    }


def regime(summary: dict) -> str:
    """Returns storage where a limit of it held the run, else clients (which wait for each I/O, for
    a processor or for each other)."""
    shares = [summary.get(f"cap_{what}") or 0.0 for what in CAPS]
    return "storage" if sum(shares) > BOUND_SHARE else "clients"


CAPS = ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")


def is_judged(record: bench.RunRecord, others: float = math.inf) -> bool:
    """Returns whether the machine had enough left for a run to tell of its storage, and other
    programs used at most `others` processors. If clients and processors hold it, all of them may be
    at work, as long as it is their own work."""
    beside = neighbours.read(record.folder)
    if beside is not None and (beside.disturb or beside.others > others):
        return False
    return regime(record.summary) == "clients" or not experiment.make_measured_result(record).processors_bound


def same(record: bench.RunRecord, configuration: Configuration, seconds: int, seed: int) -> bool:
    """Returns whether a run of the store has this configuration, length in seconds and seed."""
    target, load_ = record.document["target"], record.document["load"]
    wish = (configuration.name, configuration.storage, configuration.threads, seconds, seed)
    return (
        wish == (record.document.get("name"), target["storage"], load_["threads"], load_["seconds"], load_["seed"])
        and abs(target["cache_gib"] / configuration.cache_gib - 1) < 0.02
    )


def quantile(values: list[float], share: float) -> float:
    """Returns a quantile, linear between the ranks."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def summary(rows: list[dict], engine: str) -> dict:
    """Median, p90 and worst of the absolute errors of each regime, intervals that hold, and whether
    those that the storage held are within the bars. Only judged rows count."""
    regimes = {}
    for name in ("storage", "clients"):
        judged = [entry for entry in rows if entry["judged"] and entry["regime"] == name]
        if not judged:
            continue
        errors = [abs(entry["tps_error_percent"]) for entry in judged]
        p95 = [abs(entry["p95_error_percent"]) for entry in judged if entry["p95_error_percent"] is not None]
        holds = [entry["interval_holds"] for entry in judged if entry["interval_holds"] is not None]
        regimes[name] = {
            "rows": len(errors),
            "median_percent": statistics.median(errors),
            "p90_percent": quantile(errors, 0.9),
            "worst_percent": max(errors),
            "intervals_hold": sum(holds),
            "intervals": len(holds),
            "p95_within_20_percent": sum(value <= P95_BAR for value in p95),
            "p95_counted": len(p95),
        }
    bar, bound = BARS[engine], regimes.get("storage")
    met = bound is None or (
        bound["median_percent"] <= bar[0]
        and bound["p90_percent"] <= bar[1]
        and bound["p95_within_20_percent"] == bound["p95_counted"]
    )
    return {"regimes": regimes, "not_judged": sum(not entry["judged"] for entry in rows), "bars": bar, "met": met}


def spread_percent(rows: list[dict], entry: dict) -> float | None:
    """Returns how far the judged runs of a configuration lie apart over the seeds, percent of their
    mean; None of fewer than two."""
    tps = [
        other["tps_measured"] for other in rows if other["configuration"] == entry["configuration"] and other["judged"]
    ]
    return 100.0 * (max(tps) - min(tps)) / statistics.fmean(tps) if len(tps) > 1 else None


HEAD = (
    "| configuration | storage | cache GiB | clients | seed | n s | held by | tps predicted | 80 % interval "
    "| measured | error | seeds apart | p95 predicted | measured | error | others, pressure |"
)


def line(entry: dict, rows: list[dict]) -> str:
    """Returns a row of the table in Markdown."""
    p95 = "" if entry["p95_error_percent"] is None else f"{entry['p95_error_percent']:+.0f} %"
    apart, beside = spread_percent(rows, entry), entry["neighbours"]
    between = "" if entry["tps_low"] is None else f"{entry['tps_low']:.0f} to {entry['tps_high']:.0f}"
    outside = " (outside)" if entry["interval_holds"] is False else ""
    near = "" if beside is None else f"{beside['others']:.2f}, {100 * (beside['pressure'] or 0.0):.0f} %"
    return (
        f"| {entry['configuration']} | {entry['storage']} | {entry['cache_gib']:.3g} | {entry['threads']} | "
        f"{entry['seed']} | {entry['n']} | {entry['regime']} ({entry['binds']}) | {entry['tps_predicted']:.1f} | {between}{outside} | "
        f"{entry['tps_measured']:.1f} | {entry['tps_error_percent']:+.1f} %{'' if entry['judged'] else ' *'} | "
        f"{'' if apart is None else f'{apart:.1f} %'} | "
        f"{entry['p95_ms_predicted']:.0f} ms | {entry['p95_ms_measured'] or 0:.0f} ms | {p95} | {near} |"
    )


def table(title: str, rows: list[dict], outcome: dict) -> str:
    """Returns the table in Markdown."""
    lines = [f"### {title}", "", HEAD, "|" + "---|" * (HEAD.count("|") - 1), *(line(entry, rows) for entry in rows)]
    if outcome["not_judged"]:
        why = f"others used more than {OTHERS_SHARE:.0%} of the processors, or nothing of them was idle"
        lines += ["", f"\\*: {why}; not judged, and measured again next time."]
    for name, of in outcome["regimes"].items():
        lines += [
            "",
            f"Held by {name}: {of['rows']} rows, median {of['median_percent']:.1f} %, p90 {of['p90_percent']:.1f} %, worst "
            f"{of['worst_percent']:.1f} %; {of['intervals_hold']} of {of['intervals']} in the 80 % interval; p95 within "
            f"{P95_BAR:g} % in {of['p95_within_20_percent']} of {of['p95_counted']}.",
        ]
    return "\n".join(lines)


NAMES = {"mariadb": "MariaDB", "mysql": "MySQL", "innodb": "InnoDB", "myrocks": "MyRocks"}


@dataclass(frozen=True)
class Series:
    """Server, engine and distribution of the accesses of one table."""

    server: str
    engine: str
    distribution: str

    @property
    def title(self) -> str:
        return f"{NAMES[self.server]}, {NAMES[self.engine]}, {self.distribution}"


def wait_for_rest(seconds: float) -> None:
    """Waits until others use no more of the processors than a judged run may have beside it, at
    most these seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and environment.load_before()["busy_share"] > OTHERS_SHARE:
        time.sleep(1.0)


class Set:
    """One engine of one server under one distribution."""

    def __init__(
        self,
        series: Series,
        seeds: Sequence[int],
        plan: Plan,
        place: Path,
        quiet: Quiet,
        rest_s: float = 0.0,
        stored: bool = False,
    ) -> None:
        self.series, self.seeds, self.plan, self.place = series, seeds, plan, place
        self.quiet, self.rest_s, self.stored = quiet, rest_s, stored
        rows = round(ROWS[series.engine] / plan.smaller)
        self.benchmark = bench.SysbenchOltp(tables=8, rows=rows, distribution=series.distribution)
        self.store = bench.Store(place / f"{series.server}-{series.engine}-{series.distribution}-{rows}")
        gib = experiment.ROW_BYTES[series.engine] * rows * 8 / 2**30
        self.data = experiment.make_data_set(
            self.benchmark, series.engine, gib, flavor=series.server, settle_s=plan.settle_s
        )
        self.data_folder = place / f"data-{series.server}-{series.engine}-{rows}"
        self.changed = experiment.compute_changed(series.engine, self.benchmark)
        self.ends = ExitStack()
        self.lab: experiment.ExperimentLab | None = None

    def run(self, keep) -> list[dict]:
        """All configurations of every seed; `keep(rows)` after each."""
        rows: list[dict] = []
        with self.ends:
            for seed in self.seeds:
                self.run_seed(seed, rows, keep)
        return rows

    def run_seed(self, seed: int, rows: list[dict], keep) -> None:
        """Calibrates on the run of a seed, and appends a row for each other configuration."""
        every = [
            replace(each, cache_gib=each.cache_gib / self.plan.smaller) for each in configurations(self.series.engine)
        ]
        calibration = self.measured(every[0], self.plan.calibration_s, seed, CALIBRATION_OTHERS)
        if calibration is None:
            return
        workload = calibrate([experiment.write_lab_counts(calibration)], least_seconds=0.9 * self.plan.calibration_s)
        for each in every[1:]:
            if self.plan.only and each.name not in self.plan.only:
                continue
            prediction = experiment.predict_result(
                workload,
                each,
                changed=self.changed,
                seconds=self.plan.each_s,
                warmup_s=self.plan.warmup_s,
                seed=seed,
                draws=DRAWS,
                processors=count_cores(),
            )
            when = datetime.now(UTC).isoformat(timespec="seconds")
            record = self.measured(each, self.plan.each_s, seed)
            if record is None:
                continue
            rows.append(row(each, seed, prediction, experiment.make_measured_result(record), record, when))
            rows[-1]["judged"] &= is_judged(calibration, CALIBRATION_OTHERS)
            keep(rows)
            print(line(rows[-1], rows), flush=True)

    def measured(
        self, configuration: Configuration, seconds: int, seed: int, others: float = math.inf
    ) -> bench.RunRecord | None:
        """Returns the judged run of the store, or a new one; None where there is none and `stored`
        forbids to measure. `others`: processors that other programs may have used (`is_judged`)."""
        for record in self.store.list_runs():
            if record.state == "complete" and same(record, configuration, seconds, seed) and is_judged(record, others):
                return record
        if self.stored:
            return None
        if self.lab is None:
            self.ends.callback(self.quiet.free)
            self.lab = self.ends.enter_context(experiment.ExperimentLab(self.place, data_gib=self.data.gib))
            self.lab.load(self.data, self.data_folder)
        cell = experiment.make_cell(configuration, self.data, seconds=seconds, warmup_s=self.plan.warmup_s, seed=seed)

        @contextmanager
        def gate():
            wait_for_rest(self.rest_s)
            with self.quiet.gate():
                yield

        return experiment.measure(self.lab, cell, self.store, configuration.name, gate=gate)


# Tables that can be measured: MyRocks only in MariaDB, and only with even accesses.
SETS = (
    *(
        Series(server, "innodb", distribution)
        for distribution in ("pareto", "zipfian", "uniform")
        for server in ("mariadb", "mysql")
    ),
    Series("mariadb", "myrocks", "uniform"),
)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Reads seeds such as `1,2`. Raises InputError for what is no whole number from 1 on."""
    names = [name.strip() for name in text.split(",")]
    if not all(name.isdecimal() and int(name) >= 1 for name in names):
        rule, source = "must be whole numbers from 1 on, with commas", "benchmarks/prove_accuracy.py"
        raise InputError(f"--seeds {text}", rule, source, "For example 1,2,3.")
    return tuple(dict.fromkeys(map(int, names)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--quick", action="store_true")
    lengths.add_argument("--long", action="store_true")
    parser.add_argument("--server", choices=("mariadb", "mysql"))
    parser.add_argument("--engine", choices=("innodb", "myrocks"))
    parser.add_argument("--distribution", choices=("uniform", "pareto", "zipfian"))
    parser.add_argument("--seeds", type=parse_seeds, default=())
    parser.add_argument("--results", type=Path, default=HERE / "results" / "prove_accuracy.json")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace" / "prove_accuracy",
    )
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--quiet-lock")
    parser.add_argument("--rest", type=float, default=0.0)
    arguments = parser.parse_args()
    quick_set = ("innodb", "pareto") if arguments.quick else (None, None)
    given = (arguments.server, arguments.engine or quick_set[0], arguments.distribution or quick_set[1])
    chosen = [
        each
        for each in SETS
        if all(
            want in (None, has) for want, has in zip(given, (each.server, each.engine, each.distribution), strict=True)
        )
    ]
    lacks = {each: () if arguments.stored else experiment.list_missing(each.server, (each.engine,)) for each in chosen}
    for each in [each for each in chosen if lacks[each]]:
        print(f"prove accuracy: {each.title} is skipped, this machine lacks: " + " ".join(lacks[each]))
    arguments.store.mkdir(parents=True, exist_ok=True)
    plan = QUICK if arguments.quick else LONG if arguments.long else Plan()
    quiet, all_met = Quiet(arguments.quiet_lock), True
    answers = {"machine": machine.collect_machine_facts(None), "plan": asdict(plan), "sets": {}}
    for each in [each for each in chosen if not lacks[each]]:

        def keep(rows: list[dict], each: Series = each) -> None:
            answers["sets"][each.title] = {
                "rows": rows,
                "summary": summary(rows, each.engine),
                "date": time.strftime("%Y-%m-%d", time.gmtime()),
            }
            fresh = arguments.results.with_suffix(".new")
            fresh.write_text(json.dumps(answers, indent=1) + "\n")
            os.replace(fresh, arguments.results)

        seeds = arguments.seeds or ((1,) if arguments.quick else (1, 2, 3))
        rows = Set(each, seeds, plan, arguments.store, quiet, arguments.rest, arguments.stored).run(keep)
        if arguments.stored and not rows:
            continue
        outcome = summary(rows, each.engine)
        all_met &= outcome["met"]
        print(table(each.title, rows, outcome), flush=True)
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
