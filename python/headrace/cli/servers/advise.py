"""`headrace advise`: settings of a MySQL or MariaDB server for its storage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText
from headrace.cli.inputs import read_database
from headrace.cli.options import (
    Engine,
    PasswordOptions,
    make_choice,
    make_flag,
    make_instance_option,
    make_option,
    make_storage_option,
)
from headrace.cli.output import exit_if, make_table, note, print_data, print_frame, print_json, say, show
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.advice.result import Advice

with defer_imports():
    import polars as pl

    from headrace import advice as advice_rules
    from headrace.advice import host as advice_host
    from headrace.report import tables

EPILOG = read_epilog("advise")

# Characters: in a narrower terminal the table leaves out sources and what cannot be estimated. A
# guess from how wide the table is with them.
NARROW = 160
ADDRESS = "A live server: mysql://USER@HOST[:PORT]/ or mysql://USER@/?socket=PATH."
VERSION = "8.0.36, mariadb-10.11, or what SELECT VERSION() returns. Default: the newest long-term release."
WORKLOAD = "File of `headrace calibrate`, or sysbench-tpcc:...: hot set, redo, and effects by simulation."

Form = Literal["table", "json", "csv", "cnf", "diff", "sysctl", "udev", "tuned"]
OF_HOSTS, OF_SERVERS = ("sysctl", "udev", "tuned"), ("cnf", "diff")


def advise(
    *,
    password: PasswordOptions,
    storage: Annotated[
        str | None, make_storage_option("The data volumes, like gp3:500:6000:250. Needed without --host.", "--storage")
    ] = None,
    address: Annotated[str | None, typer.Argument(metavar="[ADDRESS]", help=ADDRESS)] = None,
    config: Annotated[
        Path | None,
        make_option("FILE", "Option file of the server, with its includes: compared, and changed by --output diff."),
    ] = None,
    memory_gib: Annotated[float | None, make_option("GIB", "Memory of the machine.")] = None,
    vcpus: Annotated[int | None, make_option("N", "Virtual CPUs of the machine.")] = None,
    instance: Annotated[
        str | None, make_instance_option("EC2 type: gives memory, virtual CPUs and EBS limits.")
    ] = None,
    flavor: Annotated[
        Literal["mysql", "percona", "mariadb"] | None,
        make_choice("Flavor of the server. Default: that of the address or the option file, else mysql."),
    ] = None,
    server_version: Annotated[str | None, make_option("VERSION", VERSION)] = None,
    engine: Annotated[Engine | None, make_choice("Default: the workload's, else innodb.")] = None,
    log_storage: Annotated[str | None, make_storage_option("Separate volume for redo, binary and relay log.")] = None,
    log_dir: Annotated[str | None, make_option("PATH", "The folder where that volume is mounted.")] = None,
    tmp_dir: Annotated[str | None, make_option("PATH", "A folder on local disks for temporary tables.")] = None,
    workload: Annotated[str | None, make_option("FILE", WORKLOAD)] = None,
    durability: Annotated[
        Literal["full", "relaxed"],
        make_choice("relaxed: commits may be lost with the machine; the answer says how many."),
    ] = "full",
    replica: Annotated[bool, make_flag("--replica", "The server applies another's binlog.")] = False,
    as_of: AsOfText = None,
    check: Annotated[
        bool,
        make_flag(
            "--check", "Exit with 1 when today's settings differ, or are refused by the server, or can lose data."
        ),
    ] = False,
    host: Annotated[
        bool, make_flag("--host", "Look at the host instead: /proc and /sys are read, nothing is written.")
    ] = False,
    root: Annotated[
        Path | None, make_option("PATH", "With --host: a captured folder or tarball instead of this machine.")
    ] = None,
    datadir: Annotated[
        str | None, make_option("PATH", "With --host: folder of the data. Default: /var/lib/mysql.")
    ] = None,
    output: Annotated[
        Form, make_choice("Form of the answer on stdout; sysctl, udev and tuned: files to install, with --host.")
    ] = "table",
) -> None:
    """Set the server up for this storage: values, reasons, sources, risks, and what the simulator
    expects of them. With --host: the kernel's settings below it."""
    if host:
        server_options = {
            "ADDRESS": address,
            "--config": config,
            "--memory-gib": memory_gib,
            "--vcpus": vcpus,
            "--instance": instance,
            "--flavor": flavor,
            "--server-version": server_version,
            "--engine": engine,
            "--log-storage": log_storage,
            "--log-dir": log_dir,
            "--tmp-dir": tmp_dir,
            "--workload": workload,
            "--durability": None if durability == "full" else durability,
            "--replica": replica or None,
        }
        _refuse_with_host(server_options, output)
        return advise_on_host(root, datadir, storage, as_of, check, output)
    _refuse_without_host(root, datadir, output)
    if storage is None:
        hint = "For example --storage gp3:500:6000; or --host for the machine."
        raise InputError("--storage", "is missing: settings follow from the volumes", "headrace advise --help", hint)
    if output == "diff" and config is None:
        hint = "Name it with --config; --output cnf makes a new one."
        raise InputError("--output diff", "needs an option file to change", "docs/reference/advice.md", hint)
    if check and address is None and config is None:
        hint = "Name the server, or its option file with --config."
        raise InputError("--check", "compares with today's settings", "headrace advise --help", hint)
    advice = advice_rules.advise(
        storage,
        address=None if address is None else password.read_address(address),
        config=config,
        workload=None if workload is None else read_database(workload),
        as_of=as_of,
        memory_gib=memory_gib,
        vcpus=vcpus,
        instance=instance,
        flavor=flavor,
        version=server_version,
        engine=engine,
        durability=durability,
        replica=replica,
        log_storage=log_storage,
        log_dir=log_dir,
        tmp_dir=tmp_dir,
    )
    print_advice(advice, output)
    exit_if(check and not advice.agrees)


def _refuse_with_host(server_options: dict[str, object], output: Form) -> None:
    """Raises InputError for an option or a form of output of a server; called with --host."""
    for name, value in server_options.items():
        if value is not None:
            rule = "is about a server, and --host looks at the machine"
            raise InputError(name, rule, "headrace advise --help", "Ask for both one after the other.")
    if output in OF_SERVERS:
        hint = "Take table, json, csv, sysctl, udev or tuned."
        raise InputError(f"--output {output}", "is a server's option file", "headrace advise --help", hint)


def _refuse_without_host(root: Path | None, datadir: str | None, output: Form) -> None:
    """Raises InputError for an option or a form of output of the machine; called without --host."""
    given = {"--root": root, "--datadir": datadir, f"--output {output}": output if output in OF_HOSTS else None}
    for name, value in given.items():
        if value is not None:
            raise InputError(name, "is an option of --host", "headrace advise --help", "Add --host.")


HOST_PROSE = ("wanted", "why")


def advise_on_host(
    root: Path | None, datadir: str | None, storage: str | None, as_of: str | None, check: bool, output: Form
) -> None:
    """Prints advice on the host's settings; with `check`, ends with exit code 1 for a finding."""
    advice = advice_host.advise_host(root, datadir=datadir, storage=storage, as_of=as_of)
    for text in advice.notes if output != "json" else ():
        note(f"note: {text}")
    if output in OF_HOSTS:
        print_data(advice.to_file(output))
    elif output == "json":
        print_json(advice.to_dict())
    elif output == "csv":
        rows = [{name: value for name, value in row.items() if name != "settings"} for row in advice.list_rows()]
        print_frame(pl.DataFrame(rows), "csv")
    else:
        rows = advice.list_rows()
        show(f"{advice.host}; data in {advice.datadir}", "", *_build_host_tables(rows))
    exit_if(check and advice.findings)


def _build_host_tables(rows: list[dict]) -> list[object]:
    """Returns tables of the settings to change, with reasons; of the others in short; and of
    outdated advice."""
    findings = [row for row in rows if row["state"] == "finding"]
    cells = [
        (row["title"], row["subject"], row["value"], row["wanted"], row["risk"], _describe_reason(row))
        for row in findings
    ]
    head = ("setting", "of", "today", "wanted", "risk today", "why")
    parts: list[object] = (
        [make_table(head, cells, title="To change", prose=HOST_PROSE), ""] if cells else ["Nothing to change.", ""]
    )
    others = [row for row in rows if row not in findings]
    rest = [(row["title"], row["subject"], row["state"], row["value"], row["note"]) for row in others]
    head = ("setting", "of", "state", "today", "note")
    parts += [make_table(head, rest, title="Settings as advised, or not known"), ""]
    by_title = {row["title"]: row for row in rows if row["outdated_because"]}
    outdated = [(title, row["old_advice"], row["outdated_because"], row["source"]) for title, row in by_title.items()]
    return [*parts, make_table(("setting", "old advice", "why no longer", "source"), outdated, title="Outdated advice")]


def _describe_reason(row: dict) -> str:
    note = f" ({row['note']})" if row["note"] else ""
    return f"{row['why']}{note}. {row['source']}"


def print_advice(advice: Advice, output: Form) -> None:
    """Prints advice in the form asked for; notes on stderr, and findings too unless the form is
    JSON."""
    for text in advice.notes:
        note(f"note: {text}")
    if output != "json":
        for finding in advice.findings:
            note(f"finding: {finding.parameter}: {finding.text}")
    if output == "cnf":
        print_data(advice.to_cnf())
    elif output == "diff":
        text = advice.to_diff()
        if not text:
            say("nothing to change")
        print_data(text)
    elif output == "json":
        print_json(advice.to_dict())
    elif output == "csv":
        rows = advice.list_rows()
        print_frame(pl.DataFrame(rows, schema_overrides={"current": pl.String, "effect": pl.String}), "csv")
    else:
        parts: list[object] = [f"{advice.server.label}: {advice.situation}", ""]
        for title, names, rows in advice.build_tables(narrow=tables.make_console().width < NARROW):
            parts += [make_table(names, rows, title=title), ""]
        show(*parts)
