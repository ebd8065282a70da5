"""Checks whether this machine can run an experiment, and collects its facts that decide a
measurement."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace import servers
from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.machine import count_cores, find_tool
from headrace.base.units import GIB
from headrace.bench.running import environment
from headrace.errors import CouldNotRun, HeadraceError
from headrace.experiment.data import SPARE_GIB
from headrace.lab import doctor


def list_missing(
    flavor: str = "mariadb", engines: Sequence[str] = ("innodb",), *, folder: Path | None = None, gib: float = 0.0
) -> list[str]:
    """Returns a sentence, with the remedy, for everything that this machine lacks for an
    experiment.

    `engines`: those the server needs; empty: no server is needed. `folder`: the place of `gib` GiB
    of data, None: the system's folder of temporary files.
    """
    folder = (folder or Path(tempfile.gettempdir())).absolute()
    checks = [check for check in doctor.examine(folder) if check.state == doctor.MISSING]
    problems = [f"{check.what}: {check.finding}. {check.do}".strip() for check in checks]
    if not doctor.Machine().locate_program("mkfs.xfs") and not any(line.startswith("mkfs.xfs") for line in problems):
        problems.append("mkfs.xfs: not found. apt-get install xfsprogs")
    problems += _run_check(lambda: find_tool("sysbench"))
    if engines:
        problems += _run_check(lambda: _check_server(flavor, engines))
    free = _measure_free_gib(folder)
    if gib and free is not None and free < gib + SPARE_GIB:
        needed = f"{free:.1f} GiB free in {folder}, and {gib + SPARE_GIB:.1f} are needed"
        problems.append(f"space: {needed}. Name another folder: --work DIR, or a smaller --scale.")
    return problems


def require(what: str, source: str, lacks: list[str]) -> None:
    """Raises CouldNotRun if `lacks`, the sentences of `list_missing`, are not empty; `what` needs
    them, by the documentation `source`."""
    if lacks:
        rule = f"this machine lacks: {' '.join(lacks)}"
        raise CouldNotRun(what, rule, source, "headrace lab doctor looks at all of it.")


def _run_check(check: Callable[[], object]) -> list[str]:
    """Runs a check and returns a list with the sentence of its refusal, empty if it passes."""
    try:
        check()
    except HeadraceError as error:
        return [f"{error.value}: {error.rule}. {error.hint}".strip()]
    return []


def _check_server(flavor: str, engines: Sequence[str]) -> None:
    program = servers.find_program(flavor)
    if lacks := [engine for engine in engines if engine not in program.engines]:
        raise CouldNotRun(program.label, f"has no {lacks[0]}", "", "headrace mysql install mariadb")


def _measure_free_gib(folder: Path) -> float | None:
    """Returns the GiB free on the disk of a folder, or of its nearest parent that exists; None if
    the disk cannot be asked."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        return shutil.disk_usage(existing).free / GIB
    except OSError:
        return None


def collect_machine_facts(flavor: str | None = "mariadb") -> dict[str, object]:
    """Returns the facts of this machine that decide a measurement: hardware, kernel, versions of
    Headrace and sysbench, and of the server of `flavor` (None: no server takes part)."""
    facts = environment.capture()
    decisive = {key: facts[key] for key in ("host", "cpu", "cpus_usable", "memory_gib", "kernel", "headrace")}
    decisive["sysbench"] = find_tool("sysbench").version
    if flavor is not None:
        decisive["server"] = servers.find_program(flavor).version_text
    return decisive


def describe_host(facts: dict[str, object]) -> str:
    """Returns a line that describes the machine of `collect_machine_facts`."""
    parts = [
        f"{facts['cpus_usable']} processors ({facts['cpu'] or platform.machine()})",
        f"{facts['memory_gib']:g} GiB",
        f"Linux {facts['kernel']}",
        f"sysbench {facts['sysbench']}",
    ]
    return ", ".join([*parts, *([str(facts["server"])] if "server" in facts else [])])


def choose_instance(day: str) -> tuple[str, int]:
    """Returns the EC2 instance that stands for this machine in a simulation, and its vCPUs: the
    smallest of the day with at least the vCPUs that may be used here, and among equals the one with
    the highest EBS limits, so that these do not bind."""
    with translate_core_errors():
        instances = [instance for instance in core.instances(day) if instance["vcpus"] >= count_cores()]
    least = min(instance["vcpus"] for instance in instances)
    best = max(
        (instance for instance in instances if instance["vcpus"] == least),
        key=lambda instance: (instance["max_iops"] or 0, instance["baseline_iops"] or 0, instance["instance_type"]),
    )
    return best["instance_type"], least
