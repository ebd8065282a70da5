"""`headrace doctor`: what binds, whether it is felt, what lifting it would bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.options import (
    AsOfOption,
    ForceOption,
    InstanceOption,
    LabPlace,
    PasswordOptions,
    RegionOption,
    choice,
    option,
    storage_option,
)
from headrace.cli.output import say
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.operate.doctor.model import Diagnosis

EPILOG = """\b
Examples:
  headrace doctor lab:db-data                               a volume of the lab, and the server on it
  headrace doctor mysql://monitor@db1/ --storage gp2:500     a server; its volumes, where they are on this machine
  headrace doctor iostat.txt --storage gp2:500               a recording alone: why was it slow at 10:00
  headrace doctor aws:vol-0123456789abcdef0                  the last hour of CloudWatch
  headrace doctor mysql://monitor@db1/ --record now.jsonl.gz; headrace doctor now.jsonl.gz
  headrace doctor lab:db-data --output nagios

Verdicts: binds, touched (a limit is met and not felt), degraded (EBS's own trouble), will bind, misconfigured,
not storage (locks, processors, the network, a cold cache, a backup), fine, cannot tell.

Exit codes: 0 fine, not storage or touched, 1 findings, 2 usage, 3 cannot tell; of --output nagios 0 OK, 1 warning,
2 critical, 3 unknown."""
TARGET = "lab:VOLUME, mysql://USER@HOST, aws:vol-..., a captured folder, or a file of iostat, sar, vmstat, CloudWatch or --record."


def doctor(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET)],
    place: LabPlace,
    password: PasswordOptions,
    storage: Annotated[
        str | None, storage_option("What the storage is today, where the target does not say.", "--storage")
    ] = None,
    instance: InstanceOption = None,
    device: Annotated[
        list[str] | None, option("NAME", "Block device of this machine; several times for several.")
    ] = None,
    workload: Annotated[
        Path | None, option("FILE", "A database of `headrace calibrate`, for what lifting a limit brings.")
    ] = None,
    seconds: Annotated[
        float | None, option("N", "Watch for so long. Default: 10; of CloudWatch the last hour.", min=2, max=86_400)
    ] = None,
    all_findings: Annotated[bool, typer.Option("--all", help="Show every finding, not only three.")] = False,
    output: Annotated[Literal["table", "json", "nagios"], choice("What to print on stdout.", "--output")] = "table",
    report: Annotated[Path | None, option("FILE", "Write a page with charts (.html).")] = None,
    record: Annotated[
        Path | None, option("FILE", "Keep what was seen (.jsonl or .jsonl.gz), for `headrace doctor FILE`.")
    ] = None,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    force: ForceOption = False,
) -> None:
    """Say what binds a server now, whether it is felt, and what to do about it."""
    from headrace.base.storage import parse_placement
    from headrace.cli.inputs import read_database
    from headrace.operate.doctor.diagnosis import diagnose
    from headrace.operate.doctor.gains import Counsel
    from headrace.operate.doctor.recorded import diagnose_recording
    from headrace.operate.evidence import SourceOptions, evidence_of, kept

    for path in (report, record):
        if path is not None and path.exists() and not force:
            raise InputError(str(path), "is there already", "", "Name another, or add --force.")
    if storage is not None:
        named = parse_placement(storage)
        storage, instance = str(named.data), named.instance or instance
    options = SourceOptions(
        storage, instance, as_of, tuple(device or ()), password.read_address, place.open, members=True
    )
    database = None if workload is None else read_database(str(workload))
    evidence, demand = evidence_of(target, options, seconds)
    if record is not None:
        kept.save(evidence, record)
        say(f"kept in {record}: headrace doctor {record}")
    counsel = Counsel(database, region, as_of)
    found = diagnose(evidence, counsel) if demand is None else diagnose_recording(evidence, demand, counsel)
    if report is not None:
        from headrace.report.doctor import doctor_page
        from headrace.report.html import write_page

        write_page(report, doctor_page(found.to_document(), [tick.to_document() for tick in evidence.ticks()]))
        say(f"report: {report}")
    raise typer.Exit(_shown(found, output, all_findings))


def _shown(found: Diagnosis, output: str, everything: bool) -> int:
    """Prints it; the exit code."""
    from headrace.operate.doctor.output import lines, nagios_code, nagios_line
    from headrace.report.output import as_json, plain

    if output == "nagios":
        print(plain(nagios_line(found)))
        return nagios_code(found)
    if output == "json":
        print(as_json(found.to_document()))
    else:
        print(plain("\n".join(lines(found, everything))))
    return found.exit_code
