"""One study on the lab from its options to its page: what lacks, cells, data, processors, simulation, measurement, result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

from headrace.studies.base import ChartData, Study, StudyResult, Table, Verdict
from headrace.studies.measured import machine, tables
from headrace.studies.measured.bed import Bed
from headrace.studies.measured.cells import Found, Progress, kept, length_s, run_cells
from headrace.studies.measured.plan import Options, Say, Tell, silent
from headrace.studies.measured.simulated import PROBES_S, Processors, probed, simulate_all

# Starting the lab, and about how long loading takes: 15 s a million rows on 2 cores.
LAB_S = 3.0
LOAD_S_PER_GIB = 60.0
SIMULATE_S = 0.5


@dataclass
class Session:
    """What a study's `result` is told beside the runs."""

    options: Options
    facts: dict[str, object]
    here: Processors | None = None
    began: float = field(default_factory=time.monotonic)

    def result(
        self,
        study: Study,
        verdicts: list[Verdict],
        parts: list[Table],
        charts: list[ChartData],
        notes: list[str],
        found: Mapping[tuple, Found],
    ) -> StudyResult:
        """The study's result with what all of them end with."""
        more = [] if self.here is None else [tables.processors(self.here)]
        measured = (
            "Measured on Headrace's lab: a real server on block devices that answer when the model of the volume says. So the volumes are the model's by construction; the "
            "server, its I/Os and their order are real."
        )
        return StudyResult(
            study,
            tuple(verdicts),
            tuple(parts),
            tuple(charts),
            (measured, *notes, *more, *tables.of_machine(self.facts, found)),
            time.monotonic() - self.began,
            "lab",
        )


def run(module: ModuleType, options: Options, tell: Tell = silent, say: Say = silent) -> StudyResult:
    """A study's module run on the lab. Raises CouldNotRun when the machine lacks something, and as bench.run, Bed and mysql.up; Ctrl-C leaves finished cells in the store."""
    name = module.STUDY.name
    machine.lacking(name, module.ENGINES, module.FILES_ONLY, options.work, module.data_gib(options))
    session = Session(options, machine.identity(module.FILES_ONLY))
    cells = module.cells(options)
    have = kept(name, cells, options, session.facts)
    left = [cell for cell in cells if cell.key not in have]
    sets = {} if module.FILES_ONLY else {repr(cell.place.data): cell.place.data for cell in left}
    fixed = (
        LAB_S
        + SIMULATE_S * len(cells)
        + sum(LOAD_S_PER_GIB * data.gib for data in sets.values())
        + (0.0 if module.FILES_ONLY else PROBES_S)
    )
    progress = Progress(tell, fixed + sum(length_s(cell) for cell in left))
    with Bed(module.DAY, options.work, say) as bed:
        progress.done_s += LAB_S
        simulated = {}
        if not module.FILES_ONLY:
            session.here = probed(bed, options, session.facts, progress, say, module.DAY)
        simulate = getattr(module, "simulate", None)
        if simulate is not None:
            simulated = simulate(session, cells, progress)
        else:
            simulated = simulate_all(cells, session.here, module.DAY, progress, SIMULATE_S)
        for data in sets.values():
            with progress.part(LOAD_S_PER_GIB * data.gib, f"loading {data.name}"):
                bed.load(data)
        found = run_cells(name, cells, bed, options, session.facts, have, progress, say)
        tell(1.0, "ending the lab")
    return module.result(session, found, simulated)
