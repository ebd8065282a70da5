"""A proof from its request to its result: load, calibrate on one configuration, predict and store, run the others, compare. After each step what is known is on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from headrace import bench
from headrace import lab as labs
from headrace.base.processes import ends_as_interrupts, undisturbed
from headrace.bench.run import environment
from headrace.calibration import from_runs as calibrating
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.prove import keeping, needs, predicting, standin
from headrace.prove import scale as scaling
from headrace.prove.configuration import DOC, Configuration
from headrace.prove.counting import described
from headrace.prove.measuring import Data, load, measure, quiet
from headrace.prove.request import CURRENT, Request
from headrace.prove.result import Proof, Step
from headrace.prove.timing import Timing, timing
from headrace.servers import find_program
from headrace.servers.scratch import lab_folder
from headrace.workload import files
from headrace.workload.transactions import TransactionWorkload

CALIBRATION = "calibration"
WORKLOAD_FILE = "workload.toml"
DATA = "data"
# Without today's storage the calibration is on an io1 with so much of the configurations' IOPS (geometric mean): between a slow and a quick one it sees some of both.
CALIBRATION_IOPS_SHARE = 0.7
# Share of the free disk a data set may take: its copy on the volume, the saved one, and the logs of both.
DISK_SHARE = 0.2
MOST_DATA_GIB = 4.0
# A cache should be full well before the end of what is measured.
FILL_SHARE = 0.5

Gate = Callable[[], AbstractContextManager]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: `proof` is what was measured until then, and it is kept."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(proof.folder)
        self.proof = proof


class Broken(CouldNotRun):
    """A server or tool ended early: `proof` is what was measured until then, and it is kept."""

    def __init__(self, proof: Proof, error: HeadraceError) -> None:
        super().__init__(error.value, error.rule, error.source, f"{error.hint} What was measured is in {proof.folder}.".strip())
        self.proof = proof


def prove(
    request: Request, *, minutes: float = 10.0, scale: float | None = None, flavor: str = "mariadb", seed: int = 1, folder: str | os.PathLike | None = None,
    progress: Callable[[float, str], None] = quiet, gate: Gate = nullcontext,
) -> Proof:  # fmt: skip
    """Proves a request within about so many `minutes`; `scale` None: the largest this machine holds. `folder`: where proofs are kept, None: the default.

    `progress` gets the share done and what is done, `gate` is entered around each run. Raises InputError, CouldNotRun for what this machine lacks, and with what was measured
    until then in `.proof`: Interrupted (a KeyboardInterrupt) and Broken.
    """
    needs.require(flavor, request.engine)
    program = find_program(flavor)
    plan = _planned(request, minutes, scale)
    place = keeping.begin(folder)
    proof = Proof(
        name=place.name, folder=str(place), state="begun", began_at=_now(), source=request.source, engine=request.engine, server=program.label, load=plan.load.words,
        data_gib=plan.load.data_gib, data_scale=plan.scale.data, rate_scale=plan.scale.rate, warmup_s=plan.timing.warmup_s, seconds=plan.timing.each_s, seed=seed,
        steps=plan.steps, machine=environment.capture(), notes=(*request.notes, *plan.notes),
    )  # fmt: skip
    keeping.write(proof)
    run = _Run(request, plan, place, proof, flavor, seed, progress, gate)
    try:
        with ends_as_interrupts():
            run.all()
    except KeyboardInterrupt as stopped:
        with undisturbed():
            run.keep(getattr(stopped, "record", None), "interrupted")
        raise Interrupted(run.proof) from None
    except HeadraceError as error:
        run.keep(getattr(error, "record", None), "broken", f"{error.value}: {error.rule}")
        raise Broken(run.proof, error) from None
    return run.proof


class _Planned:
    """What is run, before anything is."""

    def __init__(self, load_: standin.StandIn, scale: scaling.Scale, timing_: Timing, steps: tuple[Step, ...], notes: list[str]) -> None:
        self.load, self.scale, self.timing, self.steps, self.notes = load_, scale, timing_, steps, notes


def _planned(request: Request, minutes: float, asked: float | None) -> _Planned:
    """Scale, load, configurations and their times. Raises InputError."""
    calibrated, others = _calibrated_on(request)
    times = timing(minutes, len(others))
    every = [calibrated, *(configuration for _, configuration in others)]
    factors = scaling.Scale(asked, asked) if asked is not None else _fitting(request, every, times)
    data_gib = request.size_gib * factors.data
    if data_gib > times.data_gib and asked is not None:
        raise InputError(
            f"--scale {asked:g}",
            f"is {data_gib:.2f} GiB of data, and in {minutes:g} minutes {times.data_gib:.2f} can be loaded",
            DOC,
            "Give it more --minutes, or a smaller scale.",
        )
    notes: list[str] = []
    steps = []
    for role, configuration in [(CALIBRATION, calibrated), *others]:
        small, said = scaling.scaled(configuration, request.size_gib, factors)
        notes += [note for note in said if note not in notes]
        steps.append(Step(role, configuration, small))
    first = steps[1].configuration
    wanted = request.miss[others[0][1].name]
    stand = standin.stand_in(request.engine, data_gib, first.cache_gib, first.threads, wanted)
    return _Planned(stand, factors, times, tuple(steps), notes)


def _calibrated_on(request: Request) -> tuple[Configuration, list[tuple[str, Configuration]]]:
    """Today's storage where there is one, else an io1 between the others; and the others."""
    current = next((configuration for role, configuration in request.configurations if role == CURRENT), None)
    others = [(role, configuration) for role, configuration in request.configurations if role != CURRENT]
    if current is not None:
        return replace(current, name=f"{CALIBRATION} ({CURRENT})"), others
    iops = [scaling.iops_of(configuration.storage) for _, configuration in others]
    between = 1.0
    for one in iops:
        between *= max(one, 1.0) ** (1.0 / len(iops))
    wanted = max(scaling.LEAST_IOPS, min(32_000, int(CALIBRATION_IOPS_SHARE * between)))
    size = max(4, round(wanted / scaling.IOPS_PER_GIB + 0.5), int(request.size_gib * scaling.ROOM + scaling.MORE_GIB) + 1)
    return replace(
        others[0][1], name=CALIBRATION, storage=f"io1:{min(size, 16_384)}:{wanted}", log_storage=None, balance_percent=None
    ), others


def _fitting(request: Request, every: list[Configuration], times: Timing) -> scaling.Scale:
    """The largest scale for this machine, by what sysbench's standard load would do there. Raises InputError."""
    free_gib = shutil.disk_usage(keeping.default_folder()).free / 2**30
    holds = scaling.Holds(min(times.data_gib, DISK_SHARE * free_gib, MOST_DATA_GIB), environment.capture()["cpus_usable"] or 1)
    first = every[1]
    small = standin.stand_in(
        request.engine,
        min(request.size_gib, holds.data_gib),
        first.cache_gib * min(1.0, holds.data_gib / request.size_gib),
        first.threads,
        request.miss[first.name],
    )
    return scaling.choose(request.size_gib, every, small.benchmark, request.engine, holds, FILL_SHARE * times.each_s)


class _Run:
    """What `prove` does, and what it has come to."""

    def __init__(
        self, request: Request, plan: _Planned, place: Path, proof: Proof, flavor: str, seed: int, progress: Callable, gate: Gate
    ) -> None:
        self.request, self.plan, self.place, self.proof, self.flavor, self.seed = request, plan, place, proof, flavor, seed
        self.progress, self.gate = progress, gate
        self.running: int | None = None
        self.p95: predicting.Percentiles | None = None

    def all(self) -> None:
        try:
            with lab_folder(self.place / "lab", self.plan.load.data_gib) as folder:
                self._on(labs.up(str(folder), settings=labs.Settings(as_of=self.request.as_of, metrics_port=0)))
        finally:
            with undisturbed():
                shutil.rmtree(self.place / DATA, ignore_errors=True)
        self._note(state="complete", ended_at=_now())

    def _on(self, lab: Lab) -> None:
        with lab:
            data = load(
                lab, self.plan.load.benchmark, self.place / DATA, flavor=self.flavor, engine=self.request.engine, about_gib=self.plan.load.data_gib,
                settle_s=self.plan.timing.settle_s, seed=self.seed, progress=lambda share, what: self._tell(-1, share, what),
            )  # fmt: skip
            workload = self._calibrated(lab, data)
            self._predict(workload)
            for index in range(1, len(self.proof.steps)):
                self._measure(lab, data, index, self.plan.timing.each_s)

    def _calibrated(self, lab: Lab, data: Data) -> TransactionWorkload:
        record = self._measure(lab, data, 0, self.plan.timing.calibration_s)
        workload = calibrating.calibrate(
            [described(record)], name=f"stand-in of {self.proof.name}", least_seconds=0.9 * record.summary["seconds"]
        )
        files.save(workload, self.place / WORKLOAD_FILE)
        self.p95 = predicting.percentiles(record, workload)
        return workload

    def _predict(self, workload: TransactionWorkload) -> None:
        self._tell(0, 1.0, "predicting the others")
        times, steps, made = self.plan.timing, list(self.proof.steps), {}
        for index, step in enumerate(steps[1:], 1):
            one = predicting.predicted(
                workload, step.configuration, p95=self.p95, changed=standin.changed(self.request.engine, self.plan.load.benchmark), seconds=times.each_s, warmup_s=times.warmup_s, as_of=self.request.as_of, seed=self.seed,
                processors=self.proof.machine["cpus_usable"],
            )  # fmt: skip
            made[step.configuration.name] = (step.configuration, one)
            steps[index] = replace(step, predicted=one)
        path, digest, when = predicting.store(self.place, self.place / WORKLOAD_FILE, steps[0].measured.run, made)
        self._note(steps=tuple(steps), predictions_file=str(path), predictions_sha256=digest, predicted_at=when)

    def _measure(self, lab: Lab, data: Data, index: int, seconds: int) -> bench.RunRecord:
        self.running = index
        record = measure(
            lab, data, self.proof.steps[index].configuration, seconds=seconds, warmup_s=self.plan.timing.warmup_s, seed=self.seed, store=bench.Store(self.place / "runs"),
            progress=lambda share, what: self._tell(index, share, what), gate=self.gate, as_of=self.request.as_of,
        )  # fmt: skip
        self._with(index, record)
        self.running = None
        return record

    def _with(self, index: int, record: bench.RunRecord) -> None:
        steps = list(self.proof.steps)
        steps[index] = replace(steps[index], measured=predicting.measured(record))
        self._note(steps=tuple(steps))

    def keep(self, record: bench.RunRecord | None, state: str, why: str = "") -> None:
        """Keeps what an interrupted or broken step left."""
        if record is not None and self.running is not None:
            self._with(self.running, record)
        self._note(state=state, ended_at=_now(), notes=(*self.proof.notes, *([f"Ended early: {why}."] if why else [])))

    def _note(self, **changes: object) -> None:
        self.proof = replace(self.proof, **changes)
        keeping.write(self.proof)

    def _tell(self, index: int, share: float, what: str) -> None:
        """`index` -1: loading, else the step."""
        times = self.plan.timing
        lengths = [times.loading_s, float(times.calibration_s), *[float(times.each_s)] * (len(self.proof.steps) - 1)]
        done = sum(lengths[: index + 1]) + share * lengths[index + 1]
        of = "" if index < 0 else f"{self.proof.steps[index].configuration.name} ({self.proof.steps[index].configuration.place}): "
        self.progress(done / sum(lengths), of + what)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
