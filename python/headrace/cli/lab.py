"""`headrace lab`: the daemon behind the block devices: start, end, look, examine the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import AsOfOption, Output, OutputOption, complete_instance, progress, say
from headrace.cli.lab_common import VOLUME_CSV, DataDirOption, SocketOption, pairs, percent_cell, print_answer, volume_csv, volumes_table

EPILOG = """\b
Examples:
  headrace lab doctor                               what this machine lacks
  sudo headrace lab up --instance-type m5.2xlarge   all volumes share its EBS limits
  headrace lab status
  sudo headrace lab down

HEADRACE_LAB names the lab of every command: a data directory, or a socket that ends in .sock. A lab that is down stands still: neither credits
nor modifications move, and volumes that were attached have their devices again after the next `lab up`."""

app = typer.Typer(
    no_args_is_help=True, help="Block devices of this machine that perform like EBS volumes: start, end, look. Needs Linux and root.",
    epilog=EPILOG,
)  # fmt: skip


@app.command()
def up(
    instance_type: Annotated[
        str | None,
        typer.Option(
            "--instance-type",
            metavar="TYPE",
            help="EC2 type whose EBS limits all volumes share; `none`: the volumes alone. Default: as before.",
            autocompletion=complete_instance,
        ),
    ] = None,
    as_of: AsOfOption = None,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
    time_scale: Annotated[
        int | None,
        typer.Option("--time-scale", metavar="N", min=1, help="Modifications go N times as fast. Devices never do. Default: as before."),
    ] = None,
    metrics_port: Annotated[
        int,
        typer.Option("--metrics-port", metavar="PORT", min=0, max=65535, help="Prometheus endpoint on 127.0.0.1; 0: none."),
    ] = 9464,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Its members may use the lab too, by name or number.")
    ] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay, and log to stderr: for systemd and containers.")] = False,
) -> None:
    """Start the lab, and wait until it answers."""
    from headrace import lab

    settings = lab.Settings(instance_type, as_of, time_scale, metrics_port, group)
    if foreground:
        return lab.foreground(data_dir, socket, settings)
    with lab.up(data_dir, socket, settings) as started:
        say(f"lab up: process {started.pid()}, {started.place.socket}")
        for note in lab.notes(started.status()):
            say(f"note: {note}")


@app.command()
def down(
    force: Annotated[bool, typer.Option("--force", help="Also when volumes are mounted: what is not written yet is lost.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Detach everything and end the lab; its volumes stay."""
    from headrace import lab

    with lab.Lab(data_dir, socket) as client:
        pid = lab.down(client, force)
    say(f"lab down: process {pid} has ended")


@app.command()
def status(output: OutputOption = Output.table, data_dir: DataDirOption = None, socket: SocketOption = None) -> None:
    """Show the lab and its volumes; csv has a row a volume."""
    from headrace.lab import Lab, notes

    with Lab(data_dir, socket) as lab:
        answer = lab.status()
        volumes = lab.volumes()
    for note in notes(answer):
        say(f"note: {note}")
    rows = [volume_csv(volume) for volume in volumes]
    print_answer(answer | {"volumes": volumes}, output, rows, VOLUME_CSV, lambda: (pairs(_settings(answer)), "", volumes_table(volumes)))


def _settings(answer: dict) -> list[tuple[str, object]]:
    """What a person wants to know first."""
    from headrace.lab.metrics import time_text

    balance, recording = answer.get("instance_balance") or {}, answer.get("recording") or {}
    return [
        ("lab", f"headraced {answer['version']}, process {answer['pid']}"), ("directory", answer["data_dir"]), ("socket", answer["socket"]),
        ("instance", answer.get("instance_type") or "none: the volumes alone"),
        ("its balance", ", ".join(f"{key.removesuffix('_percent')} {percent_cell(value)}" for key, value in balance.items() if value is not None)),
        ("limits as of", answer["as_of"]),
        ("lab time", f"{answer['lab_time']}, {answer['time_scale']} x as fast as the wall; up {time_text(answer['uptime_s'])}"),
        ("volumes", f"{answer['volumes']}, {answer['attached']} attached"), ("metrics", answer.get("metrics_url")),
        ("recording", recording.get("path")),
    ]  # fmt: skip


@app.command()
def doctor(output: OutputOption = Output.table, data_dir: DataDirOption = None, socket: SocketOption = None) -> None:
    """Look at what this machine lacks for a lab; exit code 1 when something needed is missing."""
    from dataclasses import asdict

    from headrace.lab.doctor import examine, lacks
    from headrace.report.tables import table

    checks = examine(data_dir, socket)
    rows = [(check.state, check.what, check.found, check.do) for check in checks]
    found = [asdict(check) for check in checks]
    parts = (table(("", "what", "found", "do"), rows), "", _verdict(checks))
    print_answer(found, output, found, ("what", "state", "found", "do"), lambda: parts)
    if lacks(checks):
        raise typer.Exit(1)


def _verdict(checks: list) -> str:
    missing = [check.what for check in checks if check.state == "missing"]
    return f"A lab cannot run here yet: {', '.join(missing)}." if missing else "A lab can run here."


@app.command()
def verify(
    quick: Annotated[
        bool, typer.Option("--quick", help="Three types, three seconds a load: about a minute. Else nine types, some minutes.")
    ] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Measure with fio whether the lab's volumes do what the catalog and the model say; exit code 1 when one does not."""
    from dataclasses import asdict, fields

    from headrace.bench.conformance import Finding
    from headrace.bench.conformance import verify as measure
    from headrace.lab import Lab
    from headrace.report.conformance import table_of, words_of, write_page

    with Lab(data_dir, socket) as lab, progress("measuring") as tick:
        found = measure(lab, quick, lambda share, what: tick(share))
    if report is not None:
        write_page(report, found)
        say(f"report written to {report}")
    rows = [asdict(finding) for finding in found]
    print_answer(rows, output, rows, tuple(field.name for field in fields(Finding)), lambda: (table_of(found), "", *words_of(found)))
    if any(finding.within is False for finding in found):
        raise typer.Exit(1)
