"""Proves a request: loads the data, runs and calibrates on one configuration, predicts the others
and stores the predictions, then runs the others and compares. The state of the proof is written to
disk after each step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace import bench
from headrace.base.signals import ignore_interrupts
from headrace.base.units import GIB, MIB
from headrace.bench.drivers.benchmark import stay_silent
from headrace.bench.running import environment
from headrace.bench.store.store import write_now
from headrace.calibration import from_runs as calibrating
from headrace.errors import CouldNotRun, HeadraceError
from headrace.experiment import machine, predict, proof, standin
from headrace.experiment import scale as scaling
from headrace.experiment.cell import Cell, DataSet, OnServer, Parts, Progress
from headrace.experiment.data import CACHE_SETTING, REDO_SETTING, ExperimentLab
from headrace.experiment.proof import Proof, Step
from headrace.experiment.request import CURRENT, Configuration, Request, refuse
from headrace.experiment.run import measure
from headrace.servers import find_program
from headrace.workload import files
from headrace.workload.transactions import TransactionWorkload

CALIBRATION = "calibration"
WORKLOAD_FILE = "workload.toml"
# Without today's storage the calibration runs on an io1 with this share of the configurations' IOPS
# (geometric mean): between a slow and a fast one it sees some of both (a guess).
CALIBRATION_IOPS_SHARE, MOST_CALIBRATION_IOPS, MOST_CALIBRATION_GIB = 0.7, 32_000, 16_384
# Share of the free disk a data set may take: its copy on the volume, the kept one, and the logs of
# both; and the most that is loaded (guesses).
DISK_SHARE, MOST_DATA_GIB = 0.2, 4.0
# Share of the time of a configuration (`Timing.each_s`) after which its cache should be full (a
# guess).
FILL_SHARE = 0.5
# The size of the redo log as a share of the data: about what an hour of writes comes to when data
# and hour are reduced alike (2 MiB/s for 60 GiB). At least the default of both servers.
REDO_SHARE, LEAST_REDO_MIB = 1 / 8, 96
# The standard benchmark of MyRocks is made from published databases with this size of a block;
# MariaDB's own default is 4 KiB.
BLOCK_BYTES = "16384"
# A cache that fills itself from what it held before would add reads to those of the clients;
# neighbours of changed pages are not written with them on SSDs.
SETTINGS = {
    "innodb": {
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_buffer_pool_dump_at_shutdown": "OFF",
        "innodb_flush_neighbors": "0",
        "innodb_flush_method": "O_DIRECT",
    },
    "myrocks": {"rocksdb_use_direct_reads": "ON", "rocksdb_use_direct_io_for_flush_and_compaction": "ON"},
}


class InterruptedProof(KeyboardInterrupt):
    """Ctrl-C during a proof: `proof` has what was measured until then, and is written to disk."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(proof.folder)
        self.proof = proof


class BrokenProof(CouldNotRun):
    """The early end of a server or tool: `proof` has what was measured until then, and is written
    to disk."""

    def __init__(self, proof: Proof, value: str, rule: str, source: str = "", hint: str = "") -> None:
        super().__init__(value, rule, source, hint)
        self.proof = proof

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.proof, self.value, self.rule, self.source, self.hint))


def make_data_set(
    benchmark: bench.SysbenchOltp, engine: str, gib: float, *, flavor: str = "mariadb", settle_s: int = 0, seed: int = 1
) -> DataSet:
    """Returns the data of a proof, `gib` GiB that the benchmark fills with random numbers of
    `seed`; `settle_s`: seconds for which the benchmark runs before the data are kept.

    The redo log has the size it will have in the runs: one that a server makes anew at its start
    has blocks never written, and each first write of one costs a write of the filesystem's journal
    too.
    """
    if engine == "innodb":
        settings = {REDO_SETTING[flavor]: f"{max(LEAST_REDO_MIB, round(gib * 1024 * REDO_SHARE))}M"}
    else:
        settings = {"rocksdb_block_size": BLOCK_BYTES}
    return DataSet("proof", benchmark, gib, engine, settings, flavor, settle_s, seed)


def make_cell(configuration: Configuration, data: DataSet, *, seconds: int, warmup_s: int, seed: int = 1) -> Cell:
    """Returns a configuration as a cell on a data set, measured for `seconds` after `warmup_s`."""
    cache = f"{max(1, round(configuration.cache_gib * GIB / MIB))}M"
    settings: Mapping[str, str | None] = {**SETTINGS[data.engine], **data.settings, CACHE_SETTING[data.engine]: cache}
    place = OnServer(data, configuration.storage, settings, configuration.log_storage, configuration.balance_percent)
    name = configuration.name
    return Cell((name,), name, place, data.benchmark, configuration.threads, warmup_s, seconds, seed)


def prove(
    request: Request,
    *,
    minutes: float = 10.0,
    scale: float | None = None,
    flavor: str = "mariadb",
    seed: int = 1,
    folder: str | os.PathLike | None = None,
    progress: Progress = stay_silent,
    gate: Callable[[], AbstractContextManager] = nullcontext,
) -> Proof:
    """Proves a request within about `minutes`, at a `scale` (None: the largest this machine holds),
    in a new folder below `folder` (None: the default).

    `seed`: that of the data and the load. `gate` is entered around each run. Raises InputError,
    CouldNotRun for what this machine lacks, and with what was measured until then in `.proof`:
    InterruptedProof (a KeyboardInterrupt) and BrokenProof.
    """
    machine.require("a proof", refuse.source, machine.list_missing(flavor, (request.engine,)))
    planned = plan_proof(request, minutes, scale)
    place = proof.begin(folder)
    draft = Proof(
        name=place.name,
        folder=str(place),
        state="begun",
        began_at=write_now(),
        source=request.source,
        engine=request.engine,
        server=find_program(flavor).label,
        load=planned.load.words,
        data_gib=planned.load.data_gib,
        data_scale=planned.scale.data,
        rate_scale=planned.scale.rate,
        warmup_s=planned.timing.warmup_s,
        seconds=planned.timing.each_s,
        seed=seed,
        steps=planned.steps,
        machine=environment.capture(),
        notes=(*request.notes, *planned.notes),
    )
    proof.write(draft)
    run = _ProofRun(request, planned, place, draft, flavor, progress, gate)
    try:
        run.run_all()
    except KeyboardInterrupt as stopped:
        with ignore_interrupts():
            run.keep(getattr(stopped, "record", None), "interrupted")
        raise InterruptedProof(run.proof) from None
    except HeadraceError as error:
        run.keep(getattr(error, "record", None), "broken", f"{error.value}: {error.rule}")
        hint = f"{error.hint} The measured values are in {run.proof.folder}.".strip()
        raise BrokenProof(run.proof, error.value, error.rule, error.source, hint) from None
    return run.proof


@dataclass(frozen=True)
class PlannedProof:
    """The plan of a proof, before anything runs."""

    load: standin.StandIn
    scale: scaling.Scale
    timing: scaling.Timing
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def plan_proof(request: Request, minutes: float, given_scale: float | None) -> PlannedProof:
    """Returns the plan of a proof in `minutes`: scale, load, configurations and their times.
    `given_scale` is the factor on data and rates, at most 1; None: the largest that this machine
    holds. Raises InputError."""
    calibrated, others = choose_calibration(request)
    timing = scaling.divide_time(minutes, len(others))
    if given_scale is None:
        factors = _choose_scale(request, [calibrated, *(configuration for _, configuration in others)], timing)
    else:
        factors = scaling.Scale(given_scale, given_scale)
    data_gib = request.size_gib * factors.data
    if data_gib > timing.data_gib and given_scale is not None:
        rule = f"is {data_gib:.2f} GiB of data, and in {minutes:g} minutes {timing.data_gib:.2f} can be loaded"
        raise refuse.input(f"--scale {given_scale:g}", rule, "Give it more --minutes, or a smaller scale.")
    notes: list[str] = []
    steps = []
    for role, configuration in [(CALIBRATION, calibrated), *others]:
        small, scale_notes = scaling.scale_configuration(configuration, request.size_gib, factors)
        notes += [note for note in scale_notes if note not in notes]
        steps.append(Step(role, configuration, small))
    first = steps[1].configuration
    target_miss = request.miss[others[0][1].name]
    stand_in = standin.make_stand_in(request.engine, data_gib, first.cache_gib, first.threads, target_miss)
    return PlannedProof(stand_in, factors, timing, tuple(steps), tuple(notes))


def choose_calibration(request: Request) -> tuple[Configuration, list[tuple[str, Configuration]]]:
    """Returns the configuration to calibrate on (today's storage if the request has it, else an io1
    with IOPS between those of the others), and the other configurations with their roles."""
    current = next((configuration for role, configuration in request.configurations if role == CURRENT), None)
    others = [(role, configuration) for role, configuration in request.configurations if role != CURRENT]
    if current is not None:
        return replace(current, name=f"{CALIBRATION} ({CURRENT})"), others
    mean_iops = 1.0
    for _, configuration in others:
        mean_iops *= max(scaling.sum_iops(configuration.storage), 1.0) ** (1.0 / len(others))
    iops = max(scaling.LEAST_IOPS, min(MOST_CALIBRATION_IOPS, int(CALIBRATION_IOPS_SHARE * mean_iops)))
    holds_gib = int(request.size_gib * scaling.ROOM + scaling.MORE_GIB) + 1
    size = max(4, round(iops / scaling.IOPS_PER_GIB + 0.5), holds_gib)
    storage = f"io1:{min(size, MOST_CALIBRATION_GIB)}:{iops}"
    first = others[0][1]
    return replace(first, name=CALIBRATION, storage=storage, log_storage=None, balance_percent=None), others


def _choose_scale(request: Request, configurations: list[Configuration], times: scaling.Timing) -> scaling.Scale:
    """Returns the largest factors on data and rates that the free disk and the processors of this
    machine and the times allow. `configurations`: the one to calibrate on, then the others."""
    free_gib = shutil.disk_usage(proof.get_default_folder()).free / GIB
    data_gib = min(times.data_gib, DISK_SHARE * free_gib, MOST_DATA_GIB)
    holds = scaling.Holds(data_gib, machine.count_cores())
    predicted = configurations[1]
    cache_gib = predicted.cache_gib * min(1.0, data_gib / request.size_gib)
    loaded_gib = min(request.size_gib, data_gib)
    miss_share = request.miss[predicted.name]
    load = standin.make_stand_in(request.engine, loaded_gib, cache_gib, predicted.threads, miss_share).benchmark
    fill_s = FILL_SHARE * times.each_s
    return scaling.choose(request.size_gib, configurations, load, request.engine, holds, fill_s)


@dataclass
class _ProofRun:
    """A running proof: its `proof` is replaced and written to disk after each step; `running` is
    the index of the step that is measured."""

    request: Request
    planned: PlannedProof
    place: Path
    proof: Proof
    flavor: str
    progress: Progress
    gate: Callable[[], AbstractContextManager]
    parts: Parts = field(init=False)
    running: int | None = None

    def __post_init__(self) -> None:
        times = self.planned.timing
        every = times.loading_s + times.calibration_s + times.each_s * (len(self.proof.steps) - 1)
        self.parts = Parts(self.progress, every)

    def run_all(self) -> None:
        """Loads the data, measures and calibrates on the first configuration, predicts the others
        and stores the predictions, then measures each of them. Raises HeadraceError."""
        planned = self.planned
        data = make_data_set(
            planned.load.benchmark,
            self.request.engine,
            planned.load.data_gib,
            flavor=self.flavor,
            settle_s=planned.timing.settle_s,
            seed=self.proof.seed,
        )
        with ExperimentLab(self.place, day=self.request.as_of, data_gib=data.gib) as lab:
            with self.parts.begin_part(planned.timing.loading_s, "loading the data") as inside:
                lab.load(data, progress=inside)
            record = self._measure(lab, data, 0, planned.timing.calibration_s)
            self._predict(self._calibrate(record), record.id)
            for index in range(1, len(self.proof.steps)):
                self._measure(lab, data, index, planned.timing.each_s)
        self._replace_proof(state="complete", ended_at=write_now())

    def _calibrate(self, record: bench.RunRecord) -> TransactionWorkload:
        """Calibrates a workload on the run of the first configuration, and writes it into the
        proof's folder."""
        workload = calibrating.calibrate(
            [predict.write_lab_counts(record)],
            name=f"stand-in of {self.proof.name}",
            least_seconds=0.9 * (record.summary["seconds"] or 0.0),
        )
        files.save(workload, self.place / WORKLOAD_FILE)
        return workload

    def _predict(self, workload: TransactionWorkload, calibration_run: str) -> None:
        """Predicts every configuration but the first, and writes the predictions to disk and into
        the proof. `calibration_run`: id of the run that was calibrated on."""
        times, steps, predictions = self.planned.timing, list(self.proof.steps), {}
        changed = standin.compute_changed(self.request.engine, self.planned.load.benchmark)
        for index, step in enumerate(steps[1:], 1):
            prediction = predict.predict_result(
                workload,
                step.configuration,
                changed=changed,
                seconds=times.each_s,
                warmup_s=times.warmup_s,
                as_of=self.request.as_of,
                seed=self.proof.seed,
                processors=self.proof.machine["cpus_usable"],
            )
            predictions[step.configuration.name] = (step.configuration, prediction)
            steps[index] = replace(step, predicted=prediction)
        stored = predict.store(self.place, self.place / WORKLOAD_FILE, calibration_run, predictions)
        self._replace_proof(steps=tuple(steps), predictions=stored)

    def _measure(self, lab: ExperimentLab, data: DataSet, index: int, seconds: int) -> bench.RunRecord:
        """Runs the configuration number `index` for `seconds` after the warm-up, writes its result
        into the proof, and returns the run's record."""
        self.running = index
        configuration = self.proof.steps[index].configuration
        cell = make_cell(
            configuration, data, seconds=seconds, warmup_s=self.planned.timing.warmup_s, seed=self.proof.seed
        )
        prefix = f"{configuration.name} ({configuration.place}): "
        with self.parts.begin_part(seconds, prefix + "starting") as inside:
            record = measure(
                lab,
                cell,
                bench.Store(self.place / "runs"),
                configuration.name,
                progress=lambda share, what: inside(share, prefix + what),
                gate=self.gate,
            )
        self._record_measured(index, record)
        self.running = None
        return record

    def _record_measured(self, index: int, record: bench.RunRecord) -> None:
        steps = list(self.proof.steps)
        steps[index] = replace(steps[index], measured=predict.make_measured_result(record))
        self._replace_proof(steps=tuple(steps))

    def keep(self, record: bench.RunRecord | None, state: str, why: str = "") -> None:
        """Writes the proof with its end state, the run of an interrupted or broken step (`record`),
        and a note on the reason."""
        if record is not None and self.running is not None:
            self._record_measured(self.running, record)
        ended = [f"Ended early: {why}."] if why else []
        self._replace_proof(state=state, ended_at=write_now(), notes=(*self.proof.notes, *ended))

    def _replace_proof(self, **changes: object) -> None:
        self.proof = replace(self.proof, **changes)
        proof.write(self.proof)
