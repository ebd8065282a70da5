"""What a machine lacks for a proof, in words."""

from __future__ import annotations

from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import doctor
from headrace.prove.configuration import DOC
from headrace.servers import find_program

TOOLS = (("sysbench", "apt-get install sysbench"), ("mkfs.xfs", "apt-get install xfsprogs"))


def missing(flavor: str = "mariadb", engine: str = "innodb") -> list[str]:
    """Sentences, each with what to do; empty where a proof can run."""
    machine = doctor.Machine()
    found = [f"{check.what}: {check.found}. {check.do}" for check in doctor.examine() if check.state == doctor.MISSING]
    found += [
        f"{name}: not found. {do}"
        for name, do in TOOLS
        if machine.program(name) is None and not any(line.startswith(name) for line in found)
    ]
    try:
        program = find_program(flavor)
        if engine not in program.engines:
            found.append(f"{engine}: {program.label} has no such engine here. headrace mysql install mariadb")
    except HeadraceError as error:
        found.append(str(error))
    return found


def require(flavor: str = "mariadb", engine: str = "innodb") -> None:
    """Raises CouldNotRun with all of it."""
    lacks = missing(flavor, engine)
    if lacks:
        raise CouldNotRun("this machine", f"lacks what a proof needs: {' '.join(lacks)}", DOC, "headrace lab doctor looks at the machine.")
