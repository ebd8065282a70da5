"""What this machine is, what it lacks for a study on the lab, and how fast its processors are for MySQL's statements."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path

from headrace import servers as mysql
from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.processes import find_tool
from headrace.base.units import GIB
from headrace.bench.run import environment
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import doctor
from headrace.studies.measured.plan import DOC

# Kept free beside the data: logs, temporary tables, the lab's journal.
SPARE_GIB = 1.0


def lacking(study: str, engines: tuple[str, ...], files_only: bool, work: Path | None, gib: float) -> None:
    """Raises CouldNotRun that says in words everything a study needs and this machine lacks, with what to do."""
    folder = (work or Path(tempfile.gettempdir())).absolute()
    found = [f"{check.what}: {check.found}. {check.do}".strip() for check in doctor.examine(folder) if check.state == doctor.MISSING]
    found += [] if doctor.Machine().program("mkfs.xfs") else ["mkfs.xfs: not found. apt-get install xfsprogs"]
    found += _error(lambda: find_tool("sysbench"))
    if not files_only:
        found += _error(lambda: _server(engines))
    free = _free_gib(folder)
    if free is not None and free < gib + SPARE_GIB:
        found.append(
            f"space: {free:.1f} GiB free in {folder}, and {gib + SPARE_GIB:.1f} are needed. Name another folder: --work DIR, or a smaller --scale."
        )
    if found:
        text = " ".join(found)
        raise CouldNotRun(f"study {study} on the lab", f"this machine lacks: {text}", DOC, "headrace lab doctor looks at all of it.")


def _error(what) -> list[str]:
    try:
        what()
    except HeadraceError as error:
        return [f"{error.value}: {error.rule}. {error.hint}".strip()]
    return []


def _server(engines: tuple[str, ...]) -> None:
    program = mysql.find_program("mariadb")
    if lacks := [engine for engine in engines if engine not in program.engines]:
        raise CouldNotRun(program.label, f"has no {lacks[0]}", "", "headrace mysql install mariadb")


def _free_gib(folder: Path) -> float | None:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        return shutil.disk_usage(there).free / GIB
    except OSError:
        return None


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def identity(files_only: bool) -> dict[str, object]:
    """What of the machine decides a measurement: two runs with the same may stand for each other."""
    facts = environment.capture()
    found = {key: facts[key] for key in ("host", "cpu", "cpus_usable", "memory_gib", "kernel", "headrace")}
    found["sysbench"] = find_tool("sysbench").version
    if not files_only:
        found["server"] = mysql.find_program("mariadb").version_text
    return found


def in_words(facts: dict[str, object]) -> str:
    """The machine in a line."""
    parts = [
        f"{facts['cpus_usable']} processors ({facts['cpu'] or platform.machine()})",
        f"{facts['memory_gib']:g} GiB",
        f"Linux {facts['kernel']}",
        f"sysbench {facts['sysbench']}",
    ]
    return ", ".join([*parts, *([str(facts["server"])] if "server" in facts else [])])


def like_this(day: str) -> tuple[str, int]:
    """An EC2 instance with as many processors as may be used here and the highest EBS limits of the day, and its vCPUs: what a simulation runs on. Its EBS limits bind nothing."""
    with core_errors():
        known = [one for one in core.instances(day) if one["vcpus"] >= cores()]
    least = min(one["vcpus"] for one in known)
    best = max(
        (one for one in known if one["vcpus"] == least),
        key=lambda one: (one["max_iops"] or 0, one["baseline_iops"] or 0, one["instance_type"]),
    )
    return best["instance_type"], least
