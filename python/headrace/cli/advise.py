"""`headrace advise`: settings of a MySQL or MariaDB server for its storage."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.capture import AskPasswordOption, DefaultsFileOption, read_address
from headrace.cli.common import AsOfOption, complete_instance, complete_storage, data, say

EPILOG = """\b
Examples:
  headrace advise --storage gp3:500:6000 --memory 32 --vcpus 8 --server-version 8.4
  headrace advise --config /etc/mysql/my.cnf --server-version 10.11.19 --storage gp2:1000 --memory 32 --output diff
  headrace advise mysql://watcher@db.example/ --storage io1:1000:10000 --instance r6i.2xlarge --workload shop.toml
  headrace advise --storage gp2:500 --memory 16 --flavor mariadb --server-version 11.8.6 --output cnf > headrace.cnf

\b
Values in brackets stand as comments in cnf and diff: they can lose data or performance, or need a folder, a rollout, a decision.
A live server's password comes from HEADRACE_MYSQL_PASSWORD, [client] of --defaults-file, or --ask-password; any account may ask for its variables.
Every parameter with rule, source and risk: docs/reference/advice.md."""


NARROW = 160  # characters: below, the table leaves out sources and what cannot be estimated


class Form(StrEnum):
    """How the advice is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    cnf = "cnf"
    diff = "diff"


class Flavor(StrEnum):
    """Whose server."""

    mysql = "mysql"
    mariadb = "mariadb"
    percona = "percona"


class Engine(StrEnum):
    """What stores the tables."""

    innodb = "innodb"
    myrocks = "myrocks"


class Durability(StrEnum):
    """What a commit promises."""

    full = "full"
    relaxed = "relaxed"


def advise(
    storage: Annotated[
        str, typer.Option("--storage", metavar="SPEC", help="The data volumes, like gp3:500:6000:250.", autocompletion=complete_storage)
    ],
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="A live server: mysql://USER@HOST[:PORT]/ or mysql://USER@/?socket=PATH.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Its option file, with what it includes: compared, and changed by --output diff."),
    ] = None,
    memory: Annotated[float | None, typer.Option("--memory", metavar="GIB", help="Memory of the machine.")] = None,
    vcpus: Annotated[int | None, typer.Option("--vcpus", metavar="N", help="Its virtual CPUs.")] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance", metavar="TYPE", help="EC2 type: gives memory, virtual CPUs and EBS limits.", autocompletion=complete_instance
        ),
    ] = None,
    flavor: Annotated[
        Flavor | None, typer.Option("--flavor", help="Default: what the address or the option file tells, else mysql.")
    ] = None,
    server_version: Annotated[
        str | None,
        typer.Option(
            "--server-version", metavar="X.Y.Z", help="As SELECT VERSION() says. Default: the newest long-term release, and it is said."
        ),
    ] = None,
    engine: Annotated[Engine | None, typer.Option("--engine", help="Default: the workload's, else innodb.")] = None,
    log_storage: Annotated[
        str | None,
        typer.Option(
            "--log-storage", metavar="SPEC", help="A volume of their own for redo, binlog and relay log.", autocompletion=complete_storage
        ),
    ] = None,
    log_dir: Annotated[str | None, typer.Option("--log-dir", metavar="PATH", help="The folder where that volume is mounted.")] = None,
    tmp_dir: Annotated[str | None, typer.Option("--tmp-dir", metavar="PATH", help="A folder on local disks for temporary tables.")] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="FILE",
            help="What `headrace calibrate` wrote, or sysbench-tpcc:...: hot set, redo, and effects by simulation.",
        ),
    ] = None,
    durability: Annotated[
        Durability, typer.Option("--durability", help="relaxed: commits may be lost with the machine, and it is said how many.")
    ] = Durability.full,
    replica: Annotated[bool, typer.Option("--replica", help="The server applies another's binlog.")] = False,
    as_of: AsOfOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 when today's settings differ, or are refused by the server, or can lose data.")
    ] = False,
    defaults_file: DefaultsFileOption = None,
    ask_password: AskPasswordOption = False,
    output: Annotated[Form, typer.Option("--output", help="What to print on stdout.")] = Form.table,
) -> None:
    """How to set the server up for this storage: values, reasons, sources, risks, and what the simulator expects of them."""
    from headrace.advice import advise as advice_for
    from headrace.errors import InputError

    if output is Form.diff and config is None:
        rule = "needs an option file to change"
        raise InputError("--output diff", rule, "docs/reference/advice.md", "Name it with --config; --output cnf makes a new one.")
    if check and address is None and config is None:
        raise InputError(
            "--check", "compares with today's settings", "headrace advise --help", "Name the server, or its option file with --config."
        )
    given = None if address is None else read_address(address, defaults_file, ask_password)
    known = None
    if workload is not None:
        from headrace.cli.transactions import read_transactions

        known = read_transactions(workload)
    found = advice_for(
        storage, address=given, config=config, flavor=None if flavor is None else str(flavor), version=server_version, workload=known,
        engine=None if engine is None else str(engine), memory_gib=memory, vcpus=vcpus, instance=instance, log_storage=log_storage, log_dir=log_dir, tmp_dir=tmp_dir,
        durability=str(durability), replica=replica, as_of=as_of,
    )  # fmt: skip
    show(found, output)
    if check and not found.agrees:
        raise typer.Exit(1)


def show(found, output: Form) -> None:
    """Prints the answer: notes and findings on stderr, unless they are part of the data."""
    for note in found.notes:
        say(f"note: {note}")
    if output is not Form.json:
        for finding in found.findings:
            say(f"finding: {finding.parameter}: {finding.text}")
    if output is Form.cnf:
        return data(found.to_cnf())
    if output is Form.diff:
        text = found.to_diff()
        if not text:
            say("nothing to change")
        return data(text)
    if output is Form.json:
        from headrace.report.output import as_json

        return data(as_json(found.to_dict()))
    if output is Form.csv:
        import polars as pl

        from headrace.report.output import as_csv

        rows = found.to_dict()["advice"]
        return data(as_csv(pl.DataFrame(rows, schema_overrides={"current": pl.String, "effect": pl.String})))
    from headrace.report.tables import console, table
    from headrace.report.tables import show as show_parts

    parts: list[object] = [f"{found.server.label}: {found.situation}", ""]
    for title, names, rows in found.tables(narrow=console().width < NARROW):
        parts += [table(names, rows, title=title), ""]
    show_parts(*parts)
