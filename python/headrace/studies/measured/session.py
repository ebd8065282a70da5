"""One study on the lab from its options to its page: what lacks, cells, data, processors, simulation, measurement, result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

from headrace.bench.run.environment import BUSY_SHARE
from headrace.studies.base import ChartData, Source, Study, StudyResult, Table, Verdict, agree
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
            (*verdicts, at_rest(found)),
            tuple(parts),
            tuple(charts),
            (measured, *notes, *more, *tables.of_machine(self.facts, found)),
            time.monotonic() - self.began,
            "lab",
        )


def at_rest(found: Mapping[tuple, Found]) -> Verdict:
    """Whether the machine had nothing else to do: what was measured beside other work says little, whatever it says."""
    shares = [float(one.record.document["environment"]["before"]["busy_share"]) for one in found.values()]
    busy = [share for share in shares if share > BUSY_SHARE]
    began = min(str(one.record.document["began_at"])[:10] for one in found.values())
    said = f"{len(shares) - len(busy)} of {len(shares)} cells" + (
        f"; before the others {min(busy):.0%} to {max(busy):.0%} of its processors were in use" if busy else ""
    )
    note = (
        "figures above are of a machine that others used too: end what else runs, and measure again"
        if busy
        else f"at most {BUSY_SHARE:.0%} in use before each cell"
    )
    return agree("the machine was at rest", "needed", said, Source("this machine, looked at before each cell", began), not busy, note)


def run(module: ModuleType, options: Options, tell: Tell = silent, say: Say = silent) -> StudyResult:
    """A study's module run on the lab. Raises CouldNotRun when the machine lacks something, and as bench.run, Bed and mysql.up; Ctrl-C leaves finished cells in the store."""
    name = module.STUDY.name
    machine.lacking(name, module.ENGINES, module.FILES_ONLY, options.work, module.data_gib(options))
    # A store that cannot be written is found out before anything is measured.
    options.kept.drop(options.kept.begin(name)[1])
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
    with Bed(module.DAY, options.work, say, module.data_gib(options)) as bed:
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
