"""Compares the performance of the lab's volumes with the catalog and the model.

Each case is a fresh volume under fio for some seconds, compared with the same load in the simulator
and the cap of the specification. Tolerances:

- at a cap: requests a second within 0.5 %: the project's bar of 0.3 % for the mean, and one queue
  of requests more or less at the edges of some seconds;
- latency: p50 within 3 % and p99 within 10 % (the project's bars), plus how late the device's own
  answers left: the daemon measures that, and a busy machine is late, which does not count against
  the model;
- counts: a drained gp2 delivers its credits and refill within 1 %: it earns 300 credits a second
  while fio starts (some 0.2 s, 0.4 %), and the edges again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from headrace.base.packaged import read_rows
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.base.storage import Storage
from headrace.bench.drivers import fio
from headrace.lab import Lab
from headrace.simulation.demand import simulate
from headrace.workload.model import ClosedWorkload

AT_CAP_PERCENT = 0.5  # see above, as the next three
COUNT_PERCENT = 1.0
P50_PERCENT = 3.0
P99_PERCENT = 10.0
# A rested volume has a second of tokens saved; what a case measures begins after them.
SETTLE_S = 2.0
# A volume of every type, and where IOPS are provisioned one with more of them.
SPECS = (
    "gp2:500",
    "gp3:500",
    "gp3:500:16000:1000",
    "io1:500:5000",
    "io2:500:5000",
    "st1:500",
    "sc1:500",
    "standard:100",
    "instance-store:100",
)
QUICK_SPECS = ("gp2:500", "gp3:500", "io2:500:5000")
DEPTHS = (1, 4, 16, 64)  # of the published fio runs, and one more
QUICK_DEPTHS = (1, 16)
# 11,400 credits: a gp2 of 100 GiB (300 IOPS) bursts at 3,000 for 11,400 / 2,700 = 4.2 s.
DRAINING = "gp2:100"
DRAINING_PERCENT = 0.2111
DRAIN_S = 8.0
# Afterwards it rests, earning 300 credits a second, and bursts again: in 3 s some 2,400 I/Os. fio
# takes 0.2 s to start, 60 credits: 2.5 %.
REST_S = 5.0
AGAIN_S = 3.0
AGAIN_PERCENT = 3.0


@dataclass(frozen=True)
class Case:
    """A volume under a load. `balance_percent`: credits at the start, None: those of a new
    volume."""

    spec: str
    load: fio.FioLoad
    balance_percent: float | None = None

    @property
    def words(self) -> str:
        """Returns the load in fio's terms."""
        return f"{self.load.rw} {self.load.bs_kib} KiB, depth {self.load.iodepth}"


@dataclass(frozen=True)
class ConformanceFinding:
    """A figure of a case: the cap of the specification if it binds (`specified`), that of real
    volumes if one was published (sources: conformance_published.csv), the model's and the measured
    one. `within`: whether the error is allowed; None without a bound."""

    spec: str
    load: str
    what: str
    unit: str
    specified: float | None
    published: float | None
    model: float
    measured: float
    error_percent: float
    allowed_percent: float | None
    within: bool | None
    note: str = ""


def list_cases(quick: bool) -> list[Case]:
    """Returns the cases: reads at every depth, writes, bytes, of every type; then a dry gp2."""
    cases = []
    seconds = 3.0 if quick else 8.0
    for spec in QUICK_SPECS if quick else SPECS:
        if Storage.parse(spec).volume_type in ("st1", "sc1"):
            # Sequential: these types charge a whole MiB for any request.
            cases += [
                Case(spec, fio.FioLoad("read", 1024, depth, seconds, size_gib=8, ramp_s=SETTLE_S)) for depth in (1, 4)
            ]
            continue
        for depth in QUICK_DEPTHS if quick else DEPTHS:
            # A request at a time as ioping makes them; more as the published fio runs.
            cases.append(
                Case(
                    spec, fio.FioLoad("randread", 4 if depth == 1 else 16, depth, seconds, size_gib=8, ramp_s=SETTLE_S)
                )
            )
        cases += [
            Case(spec, fio.FioLoad("randwrite", 16, depth, seconds, size_gib=8, ramp_s=SETTLE_S))
            for depth in ((16,) if quick else (1, 16))
        ]
        cases.append(Case(spec, fio.FioLoad("randread", 256, 16, seconds, size_gib=8, ramp_s=SETTLE_S)))
    cases.append(Case(DRAINING, fio.FioLoad("randread", 16, 16, DRAIN_S, size_gib=8), DRAINING_PERCENT))
    return cases


def verify(lab: Lab, quick: bool, progress: Callable[[float, str], None] | None = None) -> list[ConformanceFinding]:
    """Runs every case on a new volume, which is deleted afterwards, and returns the findings.
    `progress` gets the share done and the name of the case. Raises CouldNotRun, InputError."""
    findings: list[ConformanceFinding] = []
    cases = list_cases(quick)
    for index, case in enumerate(cases):
        if progress:
            progress(index / len(cases), f"{case.spec}: {case.words}")
        findings += list(_run_case(lab, case))
    if progress:
        progress(1.0, "")
    return findings


def _run_case(lab: Lab, case: Case) -> Iterator[ConformanceFinding]:
    """Yields the findings of a case, measured by fio on a new volume that is deleted at the end; a
    drained volume is measured once more after a rest."""
    with _make_volume(lab, case.spec) as volume:
        attached = lab.attach(volume)["attachment"]
        assert attached is not None and attached["device"] is not None, volume
        warnings = attached["warnings"]
        if case.balance_percent is not None:
            lab.set_balance(volume, case.balance_percent)
        measured = fio.run_once(case.load, attached["device"])
        rows = lab.metrics(volume, resolution="second", last=max(1, int(case.load.seconds) - 1))
        yield from _yield_findings(case, measured, _compute_late_ms(rows), warnings)
        if case.balance_percent is not None:
            yield _measure_recovery(lab, volume, case, attached["device"])


@contextmanager
def _make_volume(lab: Lab, spec: str) -> Iterator[str]:
    """Makes a volume for a case and yields its name; deletes it at the end, attached or not. The
    name is used since an interrupt may come before the lab has answered the id."""
    name = f"headrace-verify-{secrets.token_hex(4)}"
    with ends_as_interrupts():
        try:
            lab.create(spec, name)
            yield name
        finally:
            with ignore_interrupts():
                _remove(lab, name)


def _remove(lab: Lab, name: str) -> None:
    """Detaches and deletes the volume of this name, if the lab has it."""
    for volume in lab.volumes():
        if volume["name"] == name:
            if volume["attachment"] is not None:
                lab.detach(volume["id"], force=True)
            lab.delete(volume["id"])


def _measure_recovery(lab: Lab, volume: str, case: Case, device: str) -> ConformanceFinding:
    """Measures how many I/Os a drained volume does after a rest, against a simulation that begins
    with the credits it has earned."""
    time.sleep(REST_S)
    members = lab.balance(volume)["members"]
    assert members[0] is not None, volume
    earned = members[0]["percent"]
    again = replace(case, load=replace(case.load, seconds=AGAIN_S, seed=2), balance_percent=earned)
    measured = fio.run_once(again.load, device)
    model = simulate(
        _make_workload(again.load),
        case.spec,
        seconds=AGAIN_S,
        form="events",
        start_balance=earned,
        options={"saved_second": False},
    )
    return _make_finding(
        again,
        f"I/Os after {REST_S:g} s of rest",
        "I/Os",
        model=model.summary["delivered_ios"],
        measured=measured.ios,
        allowed=AGAIN_PERCENT,
    )


def _make_workload(load: fio.FioLoad) -> ClosedWorkload:
    """Returns the load of fio as a closed workload for the simulator."""
    return ClosedWorkload(
        name="verify",
        rw=load.rw,
        bs_kib=load.bs_kib,
        iodepth=load.iodepth,
        numjobs=load.numjobs,
        size_gib=load.size_gib,
    )


def _compute_late_ms(rows: Mapping) -> tuple[float, float]:
    """Returns how late answers left the daemon, ms: medians over the seconds of their median and
    99th percentile."""
    columns = rows["columns"]

    def find_median(name: str) -> float:
        values = sorted(row[columns.index(name)] for row in rows["rows"] if row[columns.index(name)] is not None)
        return values[len(values) // 2] / 1e3 if values else 0.0

    return find_median("late_p50_us"), find_median("late_p99_us")


def _yield_findings(
    case: Case, measured: fio.FioResult, late_ms: tuple[float, float], warnings: list[str]
) -> Iterator[ConformanceFinding]:
    """Yields the findings on IOPS and latency percentiles (ms), for a drained volume on the number
    of I/Os alone. `late_ms`: median and 99th percentile of how late answers left; `warnings`: on
    limits of this machine."""
    load = case.load
    drained = case.balance_percent is not None
    settle = load.ramp_s
    model = simulate(
        _make_workload(load),
        case.spec,
        seconds=settle + load.seconds,
        form="events",
        interval_s=settle or load.seconds,
        start_balance=case.balance_percent,
    )
    rows = model.rows if drained else model.rows[1:]
    iops = float(np.average(rows["iops"].to_numpy(), weights=rows["duration_s"].to_numpy()))
    note = " ".join(warnings)
    cap, at_cap = _compute_cap(case.spec, load), "none" not in rows["cap"].to_list()
    if drained:
        yield _make_finding(
            case,
            "I/Os until dry and after",
            "I/Os",
            model=model.summary["delivered_ios"],
            measured=measured.ios,
            allowed=COUNT_PERCENT,
            note=note,
        )
        return
    allowed = AT_CAP_PERCENT if at_cap else None
    yield _make_finding(
        case,
        "I/Os a second",
        "IOPS",
        specified=cap if at_cap else None,
        model=iops,
        measured=measured.iops,
        allowed=allowed,
        note=note,
    )
    for what, key, measured_ms, bar, late in (
        ("p50", "p50_ms", measured.p50_ms, P50_PERCENT, late_ms[0]),
        ("p99", "p99_ms", measured.p99_ms, P99_PERCENT, late_ms[1]),
        ("p99.9", "p999_ms", measured.p999_ms, None, 0.0),
    ):
        model_ms = float(np.mean(rows[key].to_numpy()))
        allowed = None if bar is None else bar + 100.0 * late / model_ms
        yield _make_finding(case, what, "ms", model=model_ms, measured=measured_ms, allowed=allowed, note=note)


def _make_finding(
    case: Case,
    what: str,
    unit: str,
    *,
    model: float,
    measured: float,
    allowed: float | None,
    note: str = "",
    specified: float | None = None,
) -> ConformanceFinding:
    """Returns a finding, its error in percent of the model's figure. `allowed`: the bound in
    percent, None without one; with a `note` about this machine the finding has no verdict."""
    error = 100.0 * (measured / model - 1.0)
    # A limit of this machine does not count against the device; attach has said so.
    within = None if allowed is None or note else abs(error) <= allowed
    return ConformanceFinding(
        case.spec,
        case.words,
        what,
        unit,
        specified,
        _find_published(case, what),
        model,
        measured,
        error,
        allowed,
        within,
        note,
    )


@cache
def _read_published() -> dict[tuple[str, str, int, int, str], float]:
    """Returns the published figures by volume type, fio's pattern, KiB a request, queue depth and
    name of the figure."""
    return {
        (row["type"], row["rw"], int(row["bs_kib"]), int(row["iodepth"]), row["what"]): float(row["value"])
        for row in read_rows("headrace.bench.comparison", "conformance_published.csv")
    }


def _find_published(case: Case, what: str) -> float | None:
    """Returns the published figure for the volume type and load of a case; None without one, and
    for volumes with provisioned limits and arrays."""
    storage = Storage.parse(case.spec)
    volume = storage.members[0]
    if storage.level is not None or volume.iops is not None or volume.mib_s is not None:
        return None
    return _read_published().get((volume.type, case.load.rw, case.load.bs_kib, case.load.iodepth, what))


def _compute_cap(spec: str, load: fio.FioLoad) -> float:
    """Returns the requests of the load's size that the specification allows a second."""
    limits = Storage.parse(spec).list_limits()
    iops = sum((limit["io_burst"] or limit)["iops"] for limit in limits)
    # A random request of st1 and sc1 is charged a whole MiB; the cases here are sequential.
    return min(iops, sum(limit["throughput_bytes_s"] for limit in limits) / 1024 / load.bs_kib)
