"""`headrace doctor`: what binds, whether it is felt, what lifting it would bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import Region
from headrace.cli.app import show_error
from headrace.cli.inputs import RecordingOptions, read_database
from headrace.cli.operate.common import TodayOptions
from headrace.cli.options import LabPlace, PasswordOptions, ReportOption, make_choice, make_option
from headrace.cli.output import make_table, print_answer, print_json, say, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import WRITES_FILE
from headrace.errors import CouldNotRun, InputError
from headrace.report.output import PAGE_FORMATS, check_chart_path, sanitize_text

if TYPE_CHECKING:
    from headrace.observe.evidence.model import Evidence
    from headrace.operate.doctor.model import Diagnosis

with defer_imports():
    from headrace.catalog import facts
    from headrace.observe.evidence import evidence_file
    from headrace.operate import targets
    from headrace.operate.doctor import diagnosis as doctor_diagnosis
    from headrace.operate.doctor import output as doctor_output
    from headrace.operate.doctor import trusted_advisor as doctor_trusted_advisor
    from headrace.operate.doctor.advising import gains
    from headrace.report import tables
    from headrace.report.operate import doctor as operate_doctor

EPILOG = read_epilog("doctor")
TARGET = (
    "lab:VOLUME, mysql://USER@HOST, aws:vol-..., aws:db-NAME (RDS), prometheus:URL, a captured folder, or a file of iostat, sar, "
    "vmstat, CloudWatch, Prometheus or --record; - is standard input."
)


def doctor(
    *,
    place: LabPlace,
    password: PasswordOptions,
    recorded: RecordingOptions,
    target: Annotated[str | None, typer.Argument(metavar="TARGET", help=TARGET)] = None,
    today: TodayOptions,
    workload: Annotated[
        Path | None, make_option("FILE", "A database of `headrace calibrate`, to compute the gain of lifting a limit.")
    ] = None,
    seconds: Annotated[
        float | None, make_option("N", "Seconds to watch a live target. Default: 10.", min=2, max=86_400)
    ] = None,
    all_findings: Annotated[bool, typer.Option("--all", help="Show every finding, not only three.")] = False,
    output: Annotated[
        Literal["table", "json", "nagios"], make_choice("Form of the answer on stdout.", "--output")
    ] = "table",
    report: ReportOption = None,
    record: Annotated[
        Path | None,
        make_option("FILE", "Keep the evidence (.jsonl or .jsonl.gz), for `headrace doctor FILE`."),
        WRITES_FILE,
    ] = None,
    trusted_advisor: Annotated[
        bool,
        typer.Option(
            "--trusted-advisor", help="Show the results of AWS Trusted Advisor's checks; without TARGET, their rules."
        ),
    ] = False,
    region: Region = "us-east-1",
) -> None:
    """Find what limits a server now, whether clients feel it, and what to do about it."""
    if trusted_advisor:
        _check_form_of_checks(output, report)
    if target is None:
        if not trusted_advisor:
            raise InputError(
                "TARGET", "is missing", "headrace doctor --help", "For example lab:db-data, or iostat.txt."
            )
        return _print_advisor_rules(output)
    check_chart_path(report, PAGE_FORMATS)
    evidence_file.check_name(record)
    facts.check_region(region)
    options = replace(recorded.apply_to(today.make_source_options(place, password)), members=True)
    database = None if workload is None else read_database(str(workload))
    with show_progress("reading") as tick:
        evidence = targets.read_evidence(target, replace(options, progress=tick), seconds, tick)
    is_written = record is None or _try_write(lambda: evidence_file.save(evidence, record))
    if record is not None and is_written:
        say(f"kept in {record}: headrace doctor {record}")
    if trusted_advisor:
        code = _print_advisor_results(evidence, output)
        raise typer.Exit(code if is_written else CouldNotRun.default_exit_code)
    diagnosis = doctor_diagnosis.diagnose(evidence, gains.Counsel(database, region, today.as_of))
    # The verdict first: a disk that is full must not cost it.
    code = _print_diagnosis(diagnosis, output, all_findings)
    if report is not None:
        ticks = [tick.to_document() for tick in evidence.list_ticks()]
        is_written &= _try_write(lambda: write_report(report, lambda: operate_doctor.build_view(diagnosis, ticks)))
    raise typer.Exit(code if is_written else CouldNotRun.default_exit_code)


def _check_form_of_checks(output: str, report: Path | None) -> None:
    """Raises InputError for a page, and for Nagios' form, of AWS Trusted Advisor's checks."""
    source = "headrace doctor --help"
    if report is not None:
        rule = "the checks are printed only"
        raise InputError("--trusted-advisor and --report", rule, source, "Leave one of them out.")
    if output == "nagios":
        raise InputError("--output nagios", "is for verdicts, not for these checks", source, "Leave it out.")


def _try_write(write: Callable[[], None]) -> bool:
    """Writes a file, and returns whether it was written; a failure is printed, and the command goes
    on."""
    try:
        write()
    except CouldNotRun as error:
        show_error(error)
        return False
    return True


def _print_diagnosis(diagnosis: Diagnosis, output: str, everything: bool) -> int:
    """Prints a diagnosis in the form asked for, and returns the exit code: Nagios' own, else that
    of the findings. `everything`: lesser findings and all earlier episodes too."""
    if output == "nagios":
        print(sanitize_text(doctor_output.build_nagios_line(diagnosis)))
        return doctor_output.get_nagios_code(diagnosis)
    if output == "json":
        print_json(diagnosis.to_dict())
    else:
        print(sanitize_text("\n".join(doctor_output.build_lines(diagnosis, everything, tables.fold_line))))
    return diagnosis.exit_code


def _print_advisor_rules(output: str) -> None:
    """Prints the rules of AWS Trusted Advisor's checks."""
    rules = doctor_trusted_advisor.read_rules().values()
    rows = [
        (
            rule.check_id,
            rule.name,
            rule.status + (f" {rule.until}" if rule.until else ""),
            rule.rule.replace("`threshold`", f"{rule.threshold} {rule.unit}"),
            rule.as_of,
        )
        for rule in rules
    ]
    _print_table([asdict(rule) for rule in rules], ("check", "name", "status", "rule", "as of"), rows, output)


def _print_advisor_results(evidence: Evidence, output: str) -> int:
    """Prints what AWS Trusted Advisor's checks say of each volume with rows; returns exit code 1
    where one is yellow or red, else 0."""
    results = [
        result
        for volume in evidence.volumes
        if volume.rows.height
        for result in doctor_trusted_advisor.check_volume(doctor_trusted_advisor.make_advised_volume(volume, evidence))
    ]
    rows = [(result.volume, result.rule.name, result.rule.status, result.result, result.why) for result in results]
    documents = [
        {"volume": result.volume, "check_id": result.check_id, "result": result.result, "why": result.why}
        for result in results
    ]
    _print_table(documents, ("volume", "check", "status", "result", "why"), rows, output)
    return int(any(result.result in ("yellow", "red") for result in results))


def _print_table(documents: list[dict], columns: tuple[str, ...], rows: list[tuple], output: str) -> None:
    """Prints documents as JSON, or rows as a table."""
    print_answer(documents, output, documents, columns, lambda: (make_table(columns, rows),))
