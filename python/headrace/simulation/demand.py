"""Simulates one load on one storage, as `headrace simulate` does.

>>> import headrace
>>> load = headrace.ClosedWorkload(name="fio", rw="randread", bs_kib=16, iodepth=16, numjobs=1)
>>> run = headrace.simulate(load, "gp2:1000", seconds=60)
>>> round(run.summary["delivered_ios"] / 60)  # 3,000 a second, and the second's worth that a rested volume has saved
3050
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from headrace.base import core
from headrace.base.checks import Shown, check_text, quote_value
from headrace.base.core import translate_core_errors
from headrace.base.options import complete, takes
from headrace.base.units import describe_span, normalise_day
from headrace.errors import InputError, Refusals
from headrace.simulation.events import check_events
from headrace.simulation.settings import SimulationSettings
from headrace.workload import ClosedWorkload, OpenWorkload

refuse = Refusals("headrace simulate --help")
# Above this many requests "auto" takes the interval form: the per-I/O form does some millions a
# second, so that this is about a second of work.
AUTO_EVENTS = 5_000_000
# Most requests of the per-I/O form, if only that form has an answer: it is worth a minute or two;
# beyond that it is refused.
MOST_EVENTS = 200_000_000
# Options that act on single requests, which the interval form approximates or leaves out.
PER_REQUEST = {
    "snapshot": "first touch of blocks in a snapshot",
    "degradations": "a degradation event with its latency",
    "failed_members": "a lost member",
}
DEFAULT_CLOSED_SECONDS = 60.0  # as long as a short run of fio
MAX_ROWS = 1_000_000  # some 100 MB of memory; a guess
# Rows of a second up to this length of run, of a minute beyond (s): some thousands of rows at most.
ROWS_OF_SECONDS_S = 3_600
COLUMNS = (
    "t_s", "duration_s", "asked_iops", "asked_mib_s", "iops", "mib_s", "queue", "balance_percent",
    "instance_io_balance_percent", "instance_byte_balance_percent", "cap", "throttled_s",
    "mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms",
)  # fmt: skip
ROWS_SCHEMA = {name: pl.String if name == "cap" else pl.Float64 for name in COLUMNS}


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Shown):
    """The answer of `simulate`.

    `rows`: one per interval: `t_s`, `duration_s` (s), `asked_iops`, `asked_mib_s` (the demand),
    `iops`, `mib_s` (delivered), `queue` (requests not yet answered at the end), `balance_percent`
    (lowest credit balance of the members), `instance_io_balance_percent`,
    `instance_byte_balance_percent`, `cap` (the limit requests waited for), `throttled_s`,
    `mean_ms`, `p50_ms`, `p95_ms`, `p99_ms`, `p999_ms` of the I/Os (waiting included; null where the
    form does not know them). `usable_gib`: what the storage holds. `summary`: the same over the
    run; see docs/semantics.md. Percentiles of the per-I/O form come from a histogram with three
    significant digits, those of the interval form from the latency distribution and the waits.
    `worst_..._ms` of the summary are those of the worst five minutes. `repeated`: of a settled
    cycle, `settled` (False: credits or requests are lost for good in every cycle),
    `loses_percent_per_cycle`, `dry_after_s` (from the start of the first cycle) and `first` (its
    summary); None where one cycle was asked for. `workload`: the load that was simulated, grown
    and cut. Two simulations are equal when they are one object.
    """

    rows: pl.DataFrame
    summary: core.Summary
    storage: str
    instance: str | None
    as_of: str
    form: str
    seed: int
    usable_gib: float = 0.0
    repeated: core.Repeated | None = None
    workload: OpenWorkload | ClosedWorkload | None = None

    def describe_briefly(self) -> str:
        """Returns the storage, length and what was delivered; see `Shown`."""
        name = "" if self.workload is None else f"{self.workload.name} on "
        where = self.storage if self.instance is None else f"{self.storage} on {self.instance}"
        seconds = self.summary["seconds"]
        iops = self.summary["delivered_ios"] / seconds
        length, throttled = (describe_span(round(value)) for value in (seconds, self.summary["throttled_s"]))
        return f"{name}{where}, {length}: {iops:,.0f} IOPS, throttled {throttled}"


@takes(SimulationSettings, "a simulation")
def simulate(workload: OpenWorkload | ClosedWorkload, storage: str, settings: SimulationSettings) -> Simulation:
    """Simulates a demand in I/Os on a storage (notation: `gp2:500`, `raid10:4xgp3:500`). With the
    form "auto" it chooses the per-I/O form if the load is short or an option needs it. Raises
    InputError for an impossible volume, date or load."""
    if not isinstance(workload, (OpenWorkload, ClosedWorkload)):
        hint = "For example headrace.demo_day(), headrace.load(FILE); headrace.predict takes databases."
        raise InputError(quote_value(workload), "is not a demand in I/Os", "headrace.simulate", hint)
    as_of, instance, options = normalise_day(settings.as_of), settings.instance, settings.options
    check_text("storage", storage, "For example gp3:500.")
    if instance is not None:
        check_text("instance", instance, "For example m5.large.")
    if options is not None and not isinstance(options, dict):
        raise InputError(f"options = {quote_value(options)}", "must be a dict", "docs/reference/python.md")
    options, settings = options or {}, complete(settings)
    if settings.cycle == "settled" and settings.start_balance is not None:
        rule = "a settled cycle starts with what the one before left"
        raise refuse.input(f"start balance {settings.start_balance:g} %", rule, "Leave one of the two out.")
    workload = workload.scale(settings.growth)
    if isinstance(workload, ClosedWorkload):
        length = settings.seconds or DEFAULT_CLOSED_SECONDS
    else:
        workload = workload if settings.seconds is None else _cut(workload, settings.seconds)
        length = workload.span_s
    check_events(storage, options, length)
    chosen = _choose_form(settings.form, workload, settings.cycle, options)

    common: dict[str, Any] = {
        "interval_s": _check_row_length(settings.interval_s, workload, length),
        "seconds": float(length),
        "instance": instance,
        "as_of": as_of,
        "seed": settings.seed,
        "start_balance_percent": settings.start_balance,
        "options": options,
        "cycle": settings.cycle,
    }

    def run(form: str) -> core.SimulationAnswer:
        with translate_core_errors():
            return core.simulate(storage, workload.to_core(), form=form, progress=settings.progress, **common)

    answer = run(chosen)
    if (
        settings.form == "auto"
        and chosen == "interval"
        and settings.cycle == "first"
        and isinstance(workload, OpenWorkload)
        and _would_merge(workload, storage, options, answer["summary"]["throttled_s"])
    ):
        _check_length(_count_requests(workload), "merging of sequential requests that wait")
        chosen = "events"
        answer = run(chosen)
    rows = pl.DataFrame(answer["rows"], schema=ROWS_SCHEMA)
    usable_gib = core.parse_storage(storage)["usable_gib"]
    day = as_of or core.newest_date()
    return Simulation(
        rows, answer["summary"], storage, instance, day, chosen, settings.seed, usable_gib, answer["repeated"], workload
    )


def _choose_form(form: str, workload: OpenWorkload | ClosedWorkload, cycle: str, options: dict) -> str:
    """Returns the form of the simulation, "events" or "interval". Raises InputError if an option
    needs the per-I/O form and the load has too many requests for it."""
    if form in ("events", "interval"):
        return form
    # The requests that meet a lost member are known per I/O only.
    if isinstance(workload, ClosedWorkload) or options.get("failed_members") and cycle == "settled":
        return "events"
    if cycle == "settled":
        return "interval"
    requests = _count_requests(workload)
    needed = [words for name, words in PER_REQUEST.items() if options.get(name)]
    if needed:
        _check_length(requests, needed[0])
    return "events" if needed or requests <= AUTO_EVENTS else "interval"


def _count_requests(workload: OpenWorkload) -> float:
    points = workload.points
    return float(((points["reads_per_s"] + points["writes_per_s"]) * points["duration_s"]).sum())


def _check_length(requests: float, what: str) -> None:
    """Raises InputError if there are too many requests for the per-I/O form; `what` names the
    option that needs this form."""
    if requests > MOST_EVENTS:
        rule = f"{what} is simulated request by request, at most {MOST_EVENTS:,} of them"
        hint = "Simulate a part of it (seconds, --seconds), or choose the interval form, which leaves some of it out (--form interval)."
        raise refuse.input(f"{requests:,.0f} requests", rule, hint)


def _would_merge(workload: OpenWorkload, storage: str, options: dict, throttled_s: float) -> bool:
    """Returns whether the load has sequential requests that wait on SSD types: they are merged into
    fewer I/Os, which only the per-I/O form follows."""
    is_sequential = max(workload.sequential_read_share, workload.sequential_write_share) > 0
    is_hdd = any(member["volume_type"] in ("st1", "sc1") for member in core.parse_storage(storage)["members"])
    return is_sequential and not is_hdd and options.get("merge", True) and throttled_s > 0


def _check_row_length(interval_s: float | None, workload: OpenWorkload | ClosedWorkload, length: float) -> float:
    """Returns the length of a row, s: `interval_s`, else the points' in a recording, else a second
    or a minute. Raises InputError for a wrong one or too many rows."""
    if interval_s is None:
        if isinstance(workload, OpenWorkload) and workload.kind == "recorded":
            interval_s = float(workload.points.select(pl.col("duration_s").max()).item())
        else:
            interval_s = 1.0 if length <= ROWS_OF_SECONDS_S else 60.0
        interval_s = min(length, interval_s)
    if not 0.001 <= interval_s <= length or length / interval_s > MAX_ROWS:
        rule = (
            f"a row is at least 1 ms and at most the run ({length:g} s) long, and a run has at most {MAX_ROWS:,} rows"
        )
        raise refuse.input(f"interval {interval_s:g} s", rule, f"For example {max(1.0, length / 1000):g}.")
    return float(interval_s)


def choose_row_length(workload: OpenWorkload) -> float:
    """Returns the default length of a row of a simulation, s."""
    return _check_row_length(None, workload, workload.span_s)


def _cut(workload: OpenWorkload, seconds: float) -> OpenWorkload:
    """Returns the first `seconds` of a workload. Raises InputError for less than 1 s or more than
    all of it."""
    if not 1 <= seconds <= workload.span_s:
        rule = (
            f"{workload.name} is demand over {workload.span_s:g} s; a part of it is at least 1 s and at most all of it"
        )
        raise refuse.input(f"seconds = {seconds:g}", rule, "Leave it out to simulate the whole.")
    points = workload.points.filter(pl.col("t_s") < seconds)
    return replace(
        workload, points=points.with_columns(duration_s=pl.min_horizontal("duration_s", seconds - pl.col("t_s")))
    )
