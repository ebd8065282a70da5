"""Runs a study on the lab, from its options to its page.

A study is a module of this folder with STUDY, WORDS (its file in texts/), DAY (of the limits),
ENGINES (none: its cells are on files), `data_gib(options)`, `cells(options)`, `judge(session,
measured, simulated)`, and `simulate(session, cells, parts)` where its cells are not of sysbench
OLTP.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from headrace.base.checks import check_number, check_whole
from headrace.base.units import GIB, format_percent
from headrace.bench import Store
from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.bench.running.environment import BUSY_SHARE
from headrace.errors import Refusals
from headrace.experiment import machine
from headrace.experiment import simulate as simulation
from headrace.experiment.cell import Cell, Parts, Progress
from headrace.experiment.data import ExperimentLab
from headrace.experiment.run import CellRunner, MeasuredCell, find_reusable
from headrace.experiment.simulate import SimulatedCell
from headrace.studies.base import ChartData, Source, StudyResult, StudyTable, Verdict, judge_answers, read_notes
from headrace.studies.measured import tables

refuse = Refusals("docs/guide/studies.md, On the lab")
# Least and most of --scale and --minutes, and the usual minutes (guesses).
SCALES = (1e-4, 1.0)
MINUTES = (0.5, 24 * 60.0)
DEFAULT_MINUTES, QUICK_MINUTES = 10.0, 3.0
# Seconds of starting the lab, and of loading a GiB: 15 s a million rows on 2 cores.
LAB_S, LOAD_S_PER_GIB = 3.0, 60.0
# Seconds of measuring the processors and of simulating, in which no cell of the study runs (a
# guess).
PROBING_S = 40.0
ROW_BYTES = 250  # a row of sysbench's tables with its index: 2.3 GiB for 10 million
# Settings of the servers: the pool begins empty, and reads come from the volume.
COLD_POOL = {"innodb_buffer_pool_load_at_startup": "OFF"}
DIRECT_COLD_POOL = {"innodb_flush_method": "O_DIRECT"} | COLD_POOL


def compute_rows_gib(rows: int) -> float:
    """Returns the size of that many rows of sysbench, GiB."""
    return rows * ROW_BYTES / GIB


def estimate_loading_s(gib: float) -> float:
    """Returns the seconds of a study on servers that go to no cell: loading `gib` GiB, and
    probing."""
    return PROBING_S + LOAD_S_PER_GIB * gib


@dataclass(frozen=True)
class LabOptions:
    """Options of a study on the lab. Raises InputError.

    `scale`: data and cache as a share of the published ones, None: as large as the time allows.
    `minutes`: time of the whole study, about, None: 10 (quick: 3). `quick`: the fewest cells that
    answer the question. `resume`: complete runs of the store with the same configuration are not
    repeated. `store`: the store of runs, None: the default one. `work`: folder of the lab's files,
    None: the system's folder of temporary files. `seed`: the seed of the clients.
    """

    scale: float | None = None
    minutes: float | None = None
    quick: bool = False
    resume: bool = False
    store: Store | str | Path | None = None
    work: Path | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises InputError for a scale, minutes or seed out of range."""
        for what, value, span in (("--scale", self.scale, SCALES), ("--minutes", self.minutes, MINUTES)):
            if value is not None:
                check_number(what, value, *span, refusals=refuse)
        check_whole("--seed", self.seed, 1, 2**31 - 1, refuse)

    def choose_scale(self, usual: float) -> float:
        """Returns the scale asked for, else the study's own."""
        return usual if self.scale is None else self.scale

    @property
    def time_s(self) -> float:
        """The time that all of it may take, about, s."""
        return 60.0 * (self.minutes if self.minutes is not None else QUICK_MINUTES if self.quick else DEFAULT_MINUTES)

    @property
    def runs(self) -> Store:
        """The run store."""
        return self.store if isinstance(self.store, Store) else Store(self.store)


@dataclass
class Session:
    """The values that a study's `judge` gets in addition to the runs. `here`: the speed of this
    machine."""

    options: LabOptions
    facts: dict[str, object]
    here: simulation.ProcessorSpeed | None = None
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Judgement:
    """The part of a result that a study makes by itself. `values`: of the notes and of the scale in
    its words; `tables` stand between the scale and the runs, whose rate has the `unit`; `notes`
    come after those of its words."""

    verdicts: list[Verdict]
    charts: list[ChartData]
    values: Mapping[str, object]
    tables: Sequence[StudyTable] = ()
    notes: Sequence[str] = ()
    unit: str = "tps"


def complete(
    module: ModuleType,
    session: Session,
    measured: Mapping[tuple, MeasuredCell],
    simulated: Mapping[tuple, SimulatedCell],
) -> StudyResult:
    """Returns the result of a study's module, with the parts that all of them have."""
    own = module.judge(session, measured, simulated)
    first = (
        "Measured on Headrace's lab: a real server on block devices that answer when the model of the volume says. "
        "So the volumes are the model's by construction; the server, its I/Os and their order are real."
    )
    last = [] if session.here is None else [tables.describe_processors(session.here)]
    return StudyResult(
        module.STUDY,
        (*own.verdicts, judge_rest(measured)),
        (
            tables.tabulate_scale(module.WORDS, **own.values),
            *own.tables,
            tables.tabulate_runs(measured, simulated, own.unit),
        ),
        tuple(own.charts),
        (
            first,
            *read_notes(module.WORDS, **own.values),
            *own.notes,
            *last,
            *tables.describe_machine(session.facts, measured),
        ),
        time.monotonic() - session.began,
        "lab",
    )


def judge_rest(cells: Mapping[tuple, MeasuredCell]) -> Verdict:
    """Judges whether the machine had nothing else to do: a measurement during other work says
    little."""
    shares = [float(cell.record.document["environment"]["before"]["busy_share"]) for cell in cells.values()]
    busy = [share for share in shares if share > BUSY_SHARE]
    began = min(str(cell.record.document["began_at"])[:10] for cell in cells.values())
    answer = f"{len(shares) - len(busy)} of {len(shares)} cells"
    note = f"at most {format_percent(BUSY_SHARE)} in use before each cell"
    if busy:
        answer += f"; before the others {format_percent(min(busy))} to {format_percent(max(busy))} of its processors were in use"
        note = "figures above are of a machine that others used too: end what else runs, and measure again"
    source = Source("this machine, looked at before each cell", began)
    return judge_answers("the machine was at rest", "needed", answer, source, not busy, note)


def find_resumable_cells(
    options: LabOptions, experiment: str, cells: Sequence[Cell], store: Store, facts: Mapping[str, object]
) -> dict[tuple, MeasuredCell]:
    """Returns the cells that were measured before and count again; nothing unless `resume` is
    set."""
    return find_reusable(experiment, cells, store, facts) if options.resume else {}


def run(
    module: ModuleType, options: LabOptions, progress: Progress = stay_silent, say: Say = stay_silent
) -> StudyResult:
    """Runs a study's module on the lab. Raises CouldNotRun when the machine lacks something, and as
    CellRunner.run; Ctrl-C leaves finished cells in the store."""
    name, gib, store = module.STUDY.name, module.data_gib(options), options.runs
    machine.require(
        f"study {name} on the lab",
        refuse.source,
        machine.list_missing("mariadb", module.ENGINES, folder=options.work, gib=gib),
    )
    # A store that cannot be written is found out before anything is measured.
    store.drop(store.begin(name)[1])
    session = Session(options, machine.collect_machine_facts("mariadb" if module.ENGINES else None))
    cells = module.cells(options)
    probes = simulation.make_probe_cells(options.seed) if module.ENGINES else ()

    have, probed = (
        find_resumable_cells(options, of, them, store, session.facts)
        for of, them in ((name, cells), ("processors", probes))
    )
    remaining_cells = [cell for cell in (*probes, *cells) if cell.key not in {**have, **probed}]
    sets = {repr(cell.place.data): cell.place.data for cell in cells if cell.key not in have} if module.ENGINES else {}
    fixed_s = LAB_S + simulation.SIMULATE_S * len(cells) + sum(LOAD_S_PER_GIB * data.gib for data in sets.values())
    parts = Parts(progress, fixed_s + sum(cell.length_s for cell in remaining_cells))
    with ExperimentLab(options.work, day=module.DAY, data_gib=gib, in_memory=options.work is None, say=say) as lab:
        parts.done_s += LAB_S
        if probes:
            runs = CellRunner("processors", lab, store, session.facts, parts, say).run(probes, probed)
            session.here = simulation.derive_speed(runs[probes[0].key], runs[probes[1].key], module.DAY)
        if hasattr(module, "simulate"):
            simulated = module.simulate(session, cells, parts)
        else:
            assert session.here is not None  # only studies of files have no processors measured
            simulated = simulation.simulate_all(cells, session.here, module.DAY, parts)
        for data in sets.values():
            with parts.begin_part(LOAD_S_PER_GIB * data.gib, f"loading {data.name}"):
                lab.load(data)
        measured = CellRunner(name, lab, store, session.facts, parts, say).run(cells, have)
        progress(1.0, "stopping the lab")
    return complete(module, session, measured, simulated)
